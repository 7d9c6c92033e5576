//! The packages of a `package-lock.json`, installed in the cache once for each state of the lock file.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::peers::build_cache::{built, copy};
use crate::tool::{at, ensure_all_installed, root, run};

/// Installs Node and the packages of the lock file in this folder, and makes them its `node_modules`.
pub fn prepare(folder: &Path) -> Result<(), String> {
    ensure_all_installed(&[("node", &["--version"], "nodejs"), ("npm", &["--version"], "npm")])?;
    link_into(folder, &installed(folder)?)
}

/// The folder `node_modules` with the packages of the lock file in this folder. Installs them if they are missing.
pub fn installed(folder: &Path) -> Result<PathBuf, String> {
    let sources = ["package.json", "package-lock.json"].map(|name| folder.join(name));
    let name = folder.strip_prefix(root()).unwrap_or(folder).to_string_lossy();
    let name = name.replace('/', "-");
    let place = built(&name, &sources, "", |place| {
        for source in &sources {
            copy(source, &place.join(source.file_name().unwrap_or_default()))?;
        }
        // `npm ci` refuses a lock file if the registry lacks native packages of other platforms.
        run(Command::new("npm")
            .args(["install", "--no-save", "--ignore-scripts", "--no-audit", "--no-fund"])
            .current_dir(place))?;
        let [_, lock_file] = &sources;
        let (lock, after) = (json(lock_file)?, json(&place.join("package-lock.json"))?);
        let installed = json(&place.join("node_modules/.package-lock.json"))?;
        let differences = not_locked(&lock, &installed);
        if lock != after || !differences.is_empty() {
            return Err(format!(
                "{} does not fit package.json: {}\n\
                 Run `npm install --ignore-scripts --omit-lockfile-registry-resolved` in that folder, and commit it.",
                lock_file.display(),
                differences.join(", ")
            ));
        }
        Ok(())
    })?;
    Ok(place.join("node_modules"))
}

fn json(path: &Path) -> Result<Value, String> {
    let text = fs::read(path).map_err(at(path))?;
    serde_json::from_slice(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// The installed packages that the lock file does not have in this version.
fn not_locked(lock: &Value, installed: &Value) -> Vec<String> {
    let packages = installed["packages"].as_object().into_iter().flatten();
    let other = packages.filter(|(name, package)| {
        let locked = &lock["packages"][name.as_str()];
        locked["version"] != package["version"] || locked["integrity"] != package["integrity"]
    });
    other.map(|(name, package)| format!("{name} {}", package["version"])).collect()
}

/// Makes `node_modules` in this folder a link to the installed packages. A folder that a developer has installed there
/// stays as it is.
pub fn link_into(folder: &Path, modules: &Path) -> Result<(), String> {
    let link = folder.join("node_modules");
    match fs::symlink_metadata(&link) {
        Ok(it) if !it.is_symlink() => return Ok(()),
        Ok(_) if fs::read_link(&link).is_ok_and(|it| it == modules) => return Ok(()),
        Ok(_) => fs::remove_file(&link).map_err(at(&link))?,
        Err(_) => {}
    }
    match symlink(modules, &link) {
        // Another process has made it meanwhile.
        Err(_) if link.exists() => Ok(()),
        made => made.map_err(at(&link)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_package_that_is_not_in_the_lock_file_is_found() {
        let package = |version: &str| json!({ "version": version, "integrity": "sha512-x" });
        let lock = json!({ "packages": { "": {}, "node_modules/a": package("1.0.0"), "node_modules/b": package("2.0.0") } });
        let same = json!({ "packages": { "node_modules/a": package("1.0.0") } });
        assert_eq!(not_locked(&lock, &same), Vec::<String>::new());
        let other = json!({ "packages": { "node_modules/b": package("2.0.1"), "node_modules/c": package("1.0.0") } });
        assert_eq!(
            not_locked(&lock, &other),
            ["node_modules/b \"2.0.1\"", "node_modules/c \"1.0.0\""]
        );
    }
}
