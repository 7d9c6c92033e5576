//! What a change touches.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::programs::TestProgram;
use crate::tool::output_of;

/// The last commit whose tests have all passed in this checkout.
const PASSED: &str = "refs/conductor/passed";

/// The crate with the tests of all built-in components.
const COMPONENTS: &str = "crates/components";

/// The crates that `COMPONENTS` is made of.
const PARTS: [&str; 3] = ["crates/component-base", "crates/guards", "crates/proxies"];

/// The files that differ from the last commit that has passed here. On a new machine: those of the last commit. Files
/// that are not committed belong to the change.
#[derive(Debug, Default)]
pub struct Change(Vec<PathBuf>);

impl Change {
    pub fn read() -> Change {
        let base = git(&["merge-base", PASSED, "HEAD"]).unwrap_or_else(|_| "HEAD^".to_owned());
        let committed = git(&["diff", "-z", "--name-only", base.trim(), "HEAD"]);
        let uncommitted = git(&["diff", "-z", "--name-only", "HEAD"]);
        let new = git(&["ls-files", "-z", "--others", "--exclude-standard"]);
        let lists = [committed, uncommitted, new].map(Result::unwrap_or_default);
        let names = lists.iter().flat_map(|it| it.split('\0')).filter(|it| !it.is_empty());
        Change(names.map(PathBuf::from).collect())
    }

    #[cfg(test)]
    pub fn of_test(files: &[&str]) -> Change {
        Change(files.iter().map(PathBuf::from).collect())
    }

    pub fn files(&self) -> impl Iterator<Item = &Path> {
        self.0.iter().map(PathBuf::as_path)
    }

    /// Whether a file below this path is changed.
    pub fn touches(&self, path: &Path) -> bool {
        self.0.iter().any(|it| it.starts_with(path))
    }

    /// Whether the package of a test program is changed, or the crate with which all tests are written.
    pub fn touches_package_of(&self, program: &TestProgram, root: &Path) -> bool {
        let folder = program.folder.strip_prefix(root).unwrap_or(&program.folder);
        let parts = if folder == Path::new(COMPONENTS) { &PARTS[..] } else { &[] };
        self.touches(folder)
            || self.touches(Path::new("crates/testkit"))
            || parts.iter().any(|part| self.touches(Path::new(part)))
    }

    /// Whether the sources of a test program itself are changed.
    pub fn touches_tests_of(&self, program: &TestProgram, root: &Path) -> bool {
        let source = program.source.strip_prefix(root).unwrap_or(&program.source);
        // A library and a folder of tests have all files of their folder.
        let is_one_file = source.parent().is_some_and(|it| it.ends_with("tests"));
        self.touches(if is_one_file { source } else { source.parent().unwrap_or(source) })
    }
}

/// Remembers that all tests of the current commit have passed.
pub fn all_passed() {
    let _ = git(&["update-ref", PASSED, "HEAD"]);
}

fn git(arguments: &[&str]) -> Result<String, String> {
    output_of(Command::new("git").args(arguments))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_touches_the_tests_of_its_packages() {
        let change = Change(vec!["crates/web/tests/a.rs".into(), "crates/router/src/b.rs".into()]);
        let root = Path::new("/p");
        let program = |package: &str, source: &str| TestProgram {
            package: package.to_owned(),
            target: "x".to_owned(),
            file: "/x".into(),
            folder: root.join("crates").join(package),
            source: root.join("crates").join(package).join(source),
            peers: false,
            slow: false,
        };
        let touched = |it: &TestProgram| {
            (change.touches_package_of(it, root), change.touches_tests_of(it, root))
        };
        assert_eq!(touched(&program("web", "tests/a.rs")), (true, true));
        assert_eq!(touched(&program("web", "tests/b.rs")), (true, false));
        assert_eq!(touched(&program("web", "tests/c/main.rs")), (true, false));
        assert_eq!(touched(&program("web", "src/lib.rs")), (true, false));
        assert_eq!(touched(&program("router", "src/lib.rs")), (true, true));
        assert_eq!(touched(&program("mcp", "src/lib.rs")), (false, false));
        let all = Change(vec!["crates/testkit/src/lib.rs".into()]);
        assert!(all.touches_package_of(&program("mcp", "tests/a.rs"), root));
        let guard = Change(vec!["crates/guards/src/filter.rs".into()]);
        assert!(guard.touches_package_of(&program("components", "tests/a.rs"), root));
        assert!(!guard.touches_package_of(&program("mcp", "tests/a.rs"), root));
    }
}
