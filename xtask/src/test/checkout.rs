//! The checkout that is tested: a copy of the project at a fixed place in the cache.
//!
//! Cargo builds again what belongs to another folder, or has a newer file. So a clean clone would build everything. The
//! checkout stays where it is, and only files whose bytes differ are written: what it has built is there for every clone.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::{cache, lock, size};
use crate::tool::{at, output_of, run};

/// The greatest size of the checkout's build files, in bytes. Old versions of dependencies stay there.
const MOST_KEPT: u64 = 30 << 30;

/// Set for the process that runs in the checkout. The value is the folder of the copied project.
pub const COPIED_FROM: &str = "CONDUCTOR_CHECKOUT_OF";

/// A folder of the checkout whose new files are findings. They belong to the copied project.
const FINDINGS: &str = "fuzz/regressions";

/// The checkout. One run at a time uses it, others wait.
#[derive(Debug)]
pub struct Checkout {
    folder: PathBuf,
    source: PathBuf,
    _lock: File,
}

impl Checkout {
    /// Makes the checkout equal to `source`: the commit, and all files that git does not ignore. Returns `None` if
    /// `source` is not a git repository.
    pub fn of(source: &Path) -> Result<Option<Checkout>, String> {
        let Ok(commit) = git(source, &["rev-parse", "HEAD"]) else { return Ok(None) };
        let lock = lock("checkout.lock", "another run of the tests")?;
        let folder = cache().join("checkout");
        fs::create_dir_all(&folder).map_err(at(&folder))?;
        let target = folder.join("target");
        if size(&target) > MOST_KEPT {
            fs::remove_dir_all(&target).map_err(at(&target))?;
        }
        if !folder.join(".git").exists() {
            git(&folder, &["init", "--quiet"])?;
        }
        let from = source.to_str().ok_or("the path of the project is not Unicode")?;
        git(&folder, &["fetch", "--quiet", "--no-tags", "--update-shallow", from, "HEAD"])?;
        git(&folder, &["reset", "--quiet", "--mixed", commit.trim()])?;
        copy(source, &folder)?;
        Ok(Some(Checkout { folder, source: source.to_owned(), _lock: lock }))
    }

    /// Runs `cargo xtask` with these arguments in the checkout.
    pub fn xtask(&self, arguments: &[String]) -> Result<(), String> {
        let mut command = Command::new("cargo");
        command.args(["run", "--quiet", "--package", "xtask", "--"]).args(arguments);
        command.current_dir(&self.folder).env_remove("CARGO_TARGET_DIR");
        // What an earlier run has compiled would be compiled again for another value.
        command.env_remove("CARGO_INCREMENTAL");
        let outcome = run(command.env(COPIED_FROM, &self.source));
        self.return_findings()?;
        // The command has printed what failed.
        outcome.map_err(|_| "The tests have failed.".to_owned())
    }

    /// Copies the inputs that the fuzzer has found into the project, where they can be committed.
    fn return_findings(&self) -> Result<(), String> {
        let known = files(&self.source)?;
        for name in files(&self.folder)?.difference(&known).filter(|it| it.starts_with(FINDINGS)) {
            let to = self.source.join(name);
            fs::create_dir_all(to.parent().unwrap_or(&to)).map_err(at(&to))?;
            fs::copy(self.folder.join(name), &to).map_err(at(&to))?;
            eprintln!("a finding: {}", to.display());
        }
        Ok(())
    }
}

/// The files of a project that git does not ignore, relative to its folder.
pub fn files(folder: &Path) -> Result<BTreeSet<PathBuf>, String> {
    let listed = git(folder, &["ls-files", "-z", "--cached", "--others", "--exclude-standard"])?;
    let names = listed.split('\0').filter(|it| !it.is_empty()).map(PathBuf::from);
    // Git also lists files that are deleted and not committed.
    Ok(names.filter(|it| folder.join(it).symlink_metadata().is_ok()).collect())
}

fn git(folder: &Path, arguments: &[&str]) -> Result<String, String> {
    // The variables of a git hook would name another repository.
    let mut command = Command::new("git");
    command.env_remove("GIT_DIR").env_remove("GIT_INDEX_FILE").env_remove("GIT_WORK_TREE");
    output_of(command.arg("-C").arg(folder).args(arguments))
}

/// Makes the files of `to` those of `from`. Files that are equal already keep their age.
fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let wanted = files(from)?;
    for name in files(to)?.difference(&wanted) {
        fs::remove_file(to.join(name)).map_err(at(&to.join(name)))?;
        // The folders that are empty now.
        for folder in name.ancestors().skip(1) {
            if folder.as_os_str().is_empty() || fs::remove_dir(to.join(folder)).is_err() {
                break;
            }
        }
    }
    for name in &wanted {
        let (from, to) = (from.join(name), to.join(name));
        copy_file(&from, &to).map_err(at(&to))?;
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path) -> std::io::Result<()> {
    let about = from.symlink_metadata()?;
    if about.is_dir() {
        return Ok(()); // a repository inside of this one
    }
    let link = |path: &Path| path.read_link().ok();
    let executable = |path: &Path| Some(path.symlink_metadata().ok()?.permissions().mode() & 0o111);
    let equal = match about.is_symlink() {
        true => link(from) == link(to),
        false => {
            link(to).is_none()
                && executable(from) == executable(to)
                && fs::read(to).is_ok_and(|now| fs::read(from).is_ok_and(|then| now == then))
        }
    };
    if equal {
        return Ok(());
    }
    if to.is_dir() && !to.is_symlink() {
        fs::remove_dir_all(to)?;
    } else if to.symlink_metadata().is_ok() {
        fs::remove_file(to)?;
    }
    if let Some(folder) = to.parent() {
        fs::create_dir_all(folder)?;
    }
    match about.is_symlink() {
        true => symlink(from.read_link()?, to),
        false => fs::copy(from, to).map(drop),
    }
}

#[cfg(test)]
mod tests {
    use std::time::SystemTime;

    use super::*;

    #[test]
    fn only_files_whose_bytes_differ_are_written_and_others_are_removed() {
        let folder = std::env::temp_dir().join(format!("xtask-checkout-{}", std::process::id()));
        let (from, to) = (folder.join("from"), folder.join("to"));
        let write = |path: &Path, text: &str| {
            fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            fs::write(path, text).expect("written");
        };
        let age = |name: &str| to.join(name).metadata().and_then(|it| it.modified()).expect("it");
        for place in [&from, &to] {
            fs::create_dir_all(place).expect("a folder");
            git(place, &["init", "--quiet"]).expect("git");
            write(&place.join(".gitignore"), "target\n");
        }
        for name in ["same", "changed", "src/removed"] {
            write(&from.join(name), "1");
        }
        copy(&from, &to).expect("copied");
        let (same, changed) = (age("same"), age("changed"));
        write(&to.join("target/built"), "kept");
        write(&to.join("src/stale"), "of an earlier run");
        write(&from.join("changed"), "2");
        fs::remove_file(from.join("src/removed")).expect("removed");
        symlink("same", from.join("link")).expect("linked");
        fs::set_permissions(from.join("changed"), fs::Permissions::from_mode(0o755)).expect("mode");
        // The clock of files is coarse.
        while SystemTime::now() <= changed {}
        copy(&from, &to).expect("copied");
        assert_eq!(age("same"), same);
        assert_ne!(fs::read_to_string(to.join("changed")).expect("it"), "1");
        assert_eq!(to.join("changed").metadata().expect("it").permissions().mode() & 0o111, 0o111);
        assert_eq!(to.join("link").read_link().expect("a link"), Path::new("same"));
        assert!(to.join("target/built").exists() && !to.join("src").exists());
        assert_eq!(files(&from).expect("files"), files(&to).expect("files"));
        fs::remove_dir_all(folder).expect("removed");
    }
}
