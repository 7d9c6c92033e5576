//! The crates that a program contains, as Cargo resolves them for its platform.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use crate::tool::{at, cargo, cargo_home, output_of, read as read_file, root};

/// A crate that is compiled into the program.
#[derive(Debug, Clone)]
pub struct Dependency {
    pub name: String,
    pub version: String,
    /// An SPDX expression.
    pub license: String,
    pub repository: String,
    /// The SHA-256 checksum of its package, unless it is a crate of this project.
    pub checksum: Option<String>,
    /// The package URLs of the crates that it uses.
    pub uses: BTreeSet<String>,
}

impl Dependency {
    /// The package URL, which identifies it in an SBOM.
    pub fn url(&self) -> String {
        // A package URL has `+` only in its encoded form.
        format!("pkg:cargo/{}@{}", self.name, self.version.replace('+', "%2B"))
    }

    /// Whether it is a crate of this project.
    pub fn is_ours(&self) -> bool {
        self.checksum.is_none()
    }

    /// The folder of the sources of a crate that is not of this project.
    pub fn folder(&self) -> Result<PathBuf, String> {
        let (registries, name) =
            (cargo_home()?.join("registry/src"), format!("{}-{}", self.name, self.version));
        let entries = fs::read_dir(&registries).map_err(at(&registries))?;
        let mut folders = entries.flatten().map(|it| it.path().join(&name));
        folders.find(|it| it.is_dir()).ok_or_else(|| format!("the sources of {name} are missing"))
    }
}

/// The crates of the program for a platform, in order. The program's own crate is among them. Build scripts, macros and
/// tests are not.
pub fn read(target: &str) -> Result<Vec<Dependency>, String> {
    let mut tree = Command::new(cargo());
    tree.args(["tree", "--locked", "--package=acp-conductor", "--edges=normal,no-proc-macro"]);
    tree.args(["--prefix=depth", "--format=\t{p}\t{l}\t{r}", "--target", target]);
    let tree = output_of(tree.current_dir(root()))?;
    parse(&tree, &read_file(root().join("Cargo.lock"))?)
}

/// Reads the lines of `cargo tree`: a depth, a package, its licence and its repository.
fn parse(tree: &str, lock: &str) -> Result<Vec<Dependency>, String> {
    let mut found = BTreeMap::<(String, String), Dependency>::new();
    let mut users: Vec<(String, String)> = Vec::new();
    for line in tree.lines() {
        let wrong = || format!("an unknown line of cargo tree: {line}");
        let fields: Vec<&str> = line.split('\t').collect();
        let [depth, package, license, repository] = fields[..] else { return Err(wrong()) };
        let mut words = package.split(' ');
        let (Some(name), Some(version)) = (words.next(), words.next()) else { return Err(wrong()) };
        let version = version.trim_start_matches('v');
        if license.is_empty() {
            return Err(format!("the crate {name} has no licence"));
        }
        let dependency = Dependency {
            name: name.to_owned(),
            version: version.to_owned(),
            // `/` is an old form that is no SPDX expression.
            license: license.replace('/', " OR "),
            // The dependencies of a crate with the mark are in an earlier line.
            repository: repository.trim_end_matches(" (*)").to_owned(),
            checksum: checksum(lock, name, version),
            uses: BTreeSet::new(),
        };
        users.truncate(depth.parse().map_err(|_| wrong())?);
        if let Some(user) = users.last().and_then(|it| found.get_mut(it)) {
            user.uses.insert(dependency.url());
        }
        let key = (name.to_owned(), version.to_owned());
        users.push(key.clone());
        found.entry(key).or_insert(dependency);
    }
    Ok(found.into_values().collect())
}

/// The checksum of a package in a lock file.
fn checksum(lock: &str, name: &str, version: &str) -> Option<String> {
    let start = format!("\nname = \"{name}\"\nversion = \"{version}\"\n");
    let package = lock.split("[[package]]").find_map(|it| it.strip_prefix(&*start))?;
    Some(package.split_once("checksum = \"")?.1.split('"').next()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crates_have_their_uses_and_the_checksums_of_the_lock_file() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.0.0+x\"\nchecksum = \"ff\"\n\n\
                    [[package]]\nname = \"ours\"\nversion = \"0.1.0\"\n";
        let tree = "0\tours v0.1.0 (/ours)\tMIT\thttps://x\n1\tb v2.0.0\tMIT/Zlib\t\n\
                    2\ta v1.0.0+x\tISC\thttps://a\n1\ta v1.0.0+x\tISC\thttps://a (*)\n";
        let [a, b, ours] = &parse(tree, lock).expect("three crates")[..] else { panic!() };
        assert_eq!((&*a.url(), a.checksum.as_deref()), ("pkg:cargo/a@1.0.0%2Bx", Some("ff")));
        assert_eq!((&*b.license, &*a.repository), ("MIT OR Zlib", "https://a"));
        assert!(ours.is_ours() && !a.is_ours());
        assert_eq!(b.uses, BTreeSet::from([a.url()]));
        assert_eq!(ours.uses, BTreeSet::from([a.url(), b.url()]));
        assert!(parse("0\tours v0.1.0 (/ours)\t\t", lock).is_err(), "it has no licence");
    }
}
