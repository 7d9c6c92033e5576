//! The crates that a program contains, as Cargo resolves them for its platform.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use serde_json::Value;

use super::root;
use crate::tool::{at, cargo, output_of};

/// A crate that is compiled into the program.
#[derive(Debug, Clone)]
pub struct Dependency {
    pub name: String,
    pub version: String,
    /// An SPDX expression.
    pub license: String,
    pub description: Option<String>,
    pub repository: Option<String>,
    /// The folder of its sources.
    pub folder: PathBuf,
    /// The SHA-256 checksum of its package, unless it is a crate of this project.
    pub checksum: Option<String>,
    /// The package URLs of the crates that it uses.
    pub uses: Vec<String>,
}

impl Dependency {
    /// The package URL, which identifies it in an SBOM.
    pub fn url(&self) -> String {
        url(&self.name, &self.version)
    }

    /// Whether it is a crate of this project.
    pub fn is_ours(&self) -> bool {
        self.checksum.is_none()
    }
}

fn url(name: &str, version: &str) -> String {
    // A package URL has `+` only in its encoded form.
    format!("pkg:cargo/{name}@{}", version.replace('+', "%2B"))
}

/// The crates of the program for a platform, in order. The program's own crate is among them.
pub fn read(target: &str) -> Result<Vec<Dependency>, String> {
    let linked = linked(target)?;
    let options = ["metadata", "--format-version=1", "--locked", "--filter-platform", target];
    let text = output_of(Command::new(cargo()).args(options).current_dir(root()?))?;
    let metadata: Value =
        serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))?;
    let lock = root()?.join("Cargo.lock");
    let checksums = checksums(&fs::read_to_string(&lock).map_err(at(&lock))?);
    let packages = metadata["packages"].as_array().ok_or("cargo metadata has no packages")?;
    let nodes = metadata["resolve"]["nodes"].as_array().ok_or("cargo metadata has no graph")?;
    let keys: BTreeMap<&str, (String, String)> = packages
        .iter()
        .map(|it| (string(it, "id"), (string(it, "name").into(), string(it, "version").into())))
        .collect();
    let mut found = Vec::new();
    for package in packages {
        let key = &keys[string(package, "id")];
        if !linked.contains(key) {
            continue;
        }
        let node = nodes.iter().find(|it| string(it, "id") == string(package, "id"));
        let used = node.and_then(|it| it["deps"].as_array()).into_iter().flatten();
        let used = used.filter(|it| is_normal(it)).filter_map(|it| keys.get(string(it, "pkg")));
        let uses: BTreeSet<String> = used
            .filter(|it| linked.contains(*it))
            .map(|(name, version)| url(name, version))
            .collect();
        let manifest = Path::new(string(package, "manifest_path"));
        let license = package["license"].as_str();
        let license = license.ok_or_else(|| format!("the crate {} has no licence", key.0))?;
        found.push(Dependency {
            name: key.0.clone(),
            version: key.1.clone(),
            // An old form that is no SPDX expression.
            license: license.replace('/', " OR "),
            description: package["description"].as_str().map(one_line),
            repository: package["repository"].as_str().map(str::to_owned),
            folder: manifest.parent().unwrap_or(manifest).to_owned(),
            checksum: checksums.get(key).cloned(),
            uses: uses.into_iter().collect(),
        });
    }
    found.sort_by(|one, other| (&one.name, &one.version).cmp(&(&other.name, &other.version)));
    match found.len() == linked.len() {
        true => Ok(found),
        false => Err("cargo tree and cargo metadata name different crates".to_owned()),
    }
}

/// The names and versions of the crates that are linked into the program: no build scripts, macros or tests.
fn linked(target: &str) -> Result<BTreeSet<(String, String)>, String> {
    let mut tree = Command::new(cargo());
    tree.args(["tree", "--locked", "--package=acp-conductor", "--edges=normal,no-proc-macro"]);
    tree.args(["--prefix=none", "--format={p}", "--target", target]).current_dir(root()?);
    let tree = output_of(&mut tree)?;
    let line = |line: &str| {
        let mut words = line.split(' ');
        let (name, version) = (words.next()?, words.next()?.strip_prefix('v')?);
        Some((name.to_owned(), version.to_owned()))
    };
    Ok(tree.lines().filter_map(line).collect())
}

fn is_normal(edge: &Value) -> bool {
    let kinds = edge["dep_kinds"].as_array();
    kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
}

/// The checksums of all packages in a lock file, by name and version.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let packages = lock.split("[[package]]").skip(1);
    let value = |package: &str, key: &str| {
        let line = package.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
        line.and_then(|it| it.strip_suffix('"')).map(str::to_owned)
    };
    let read =
        |it: &str| Some(((value(it, "name")?, value(it, "version")?), value(it, "checksum")?));
    packages.filter_map(read).collect()
}

fn string<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The folder of Cargo, which has the sources of the dependencies.
pub fn cargo_home() -> Result<PathBuf, String> {
    let set = |name| env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    let home = set("CARGO_HOME").or_else(|| set("HOME").map(|it| it.join(".cargo")));
    home.ok_or_else(|| "one of CARGO_HOME and HOME must be set".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_url_encodes_the_plus_sign_of_a_version() {
        assert_eq!(url("a-b", "1.2.3-rc.1"), "pkg:cargo/a-b@1.2.3-rc.1");
        assert_eq!(url("z", "2.0.16+z.1.5"), "pkg:cargo/z@2.0.16%2Bz.1.5");
    }

    #[test]
    fn the_checksums_of_a_lock_file_are_found_by_name_and_version() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0\"\nchecksum = \"ff\"\n\n\
                    [[package]]\nname = \"ours\"\nversion = \"0.1.0\"\n";
        let expected = BTreeMap::from([(("a".to_owned(), "1.0.0".to_owned()), "ff".to_owned())]);
        assert_eq!(checksums(lock), expected);
    }
}
