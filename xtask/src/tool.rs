//! Runs and installs other programs.

use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use testkit::test_chain::RELEASE;

use crate::cache::lock;

pub fn cargo() -> impl AsRef<OsStr> {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

pub fn run(command: &mut Command) -> Result<(), String> {
    // Standard output is for results. The output of tools goes to standard error.
    command.stdin(Stdio::null()).stdout(std::io::stderr());
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{command:?}: {status}")),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}

pub fn output_of(command: &mut Command) -> Result<String, String> {
    match command.stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Ok(output) => Err(format!("{command:?}: {}", output.status)),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}

/// The output and the errors of a command, if it fails.
pub fn output_of_failed(command: &mut Command) -> Option<String> {
    match command.stdin(Stdio::null()).output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            let text = [output.stdout, output.stderr].concat();
            Some(String::from_utf8_lossy(&text).into_owned() + &output.status.to_string())
        }
        Err(error) => Some(format!("{command:?}: {error}")),
    }
}

pub fn at(path: &Path) -> impl Fn(std::io::Error) -> String {
    move |error| format!("{}: {error}", path.display())
}

/// Builds the release program and two test components. Returns their folder.
pub fn release() -> Result<PathBuf, String> {
    run(Command::new(cargo()).args(RELEASE))?;
    let metadata =
        output_of(Command::new(cargo()).args(["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata: serde_json::Value =
        serde_json::from_str(&metadata).map_err(|error| format!("cargo metadata: {error}"))?;
    let target = metadata["target_directory"].as_str().ok_or("cargo names no target folder")?;
    Ok(Path::new(target).join("release"))
}

/// A program that a check needs: its name, arguments with which it succeeds, and its Debian package.
pub type Requirement<'a> = (&'a str, &'a [&'a str], &'a str);

/// Checks that a program works. Otherwise installs its Debian package, if this user may.
pub fn ensure_installed(program: &str, check: &[&str], package: &str) -> Result<(), String> {
    ensure_all_installed(&[(program, check, package)])
}

/// Checks that all programs work. Otherwise installs the Debian packages of those that do not, if this user may.
pub fn ensure_all_installed(programs: &[Requirement]) -> Result<(), String> {
    if missing(programs).is_empty() {
        return Ok(());
    }
    // Steps are processes of their own, and apt-get fails while another process updates its lists. Another step may
    // have installed the programs meanwhile.
    let _installing = lock("packages.lock", "another installation of packages")?;
    let before = missing(programs);
    if before.is_empty() {
        return Ok(());
    }
    let superuser = output_of(Command::new("id").arg("-u")).is_ok_and(|it| it.trim() == "0");
    if !superuser || output_of(Command::new("apt-get").arg("--version")).is_err() {
        return Err(what_to_install(&before));
    }
    // If a server does not answer, the lists of an earlier update are often enough.
    let updated = run(Command::new("apt-get").args(["update", "--quiet"]));
    let installed = run(Command::new("apt-get")
        .args(["install", "--quiet", "--yes", "--no-install-recommends"])
        .args(["--option", "DPkg::Lock::Timeout=600"])
        .args(packages(&before))
        .env("DEBIAN_FRONTEND", "noninteractive"));
    if let Err(error) = installed {
        return Err([updated.err(), Some(error)]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join("\n"));
    }
    let after = missing(programs);
    if after.is_empty() {
        return Ok(());
    }
    let packages = packages(&after).join(" ");
    Err(format!("{}, although the packages are installed: {packages}", what_fails(&after)))
}

/// The programs that do not work.
fn missing<'a>(programs: &[Requirement<'a>]) -> Vec<Requirement<'a>> {
    let works =
        |(program, check, _): &Requirement| output_of(Command::new(program).args(*check)).is_ok();
    programs.iter().copied().filter(|it| !works(it)).collect()
}

fn packages<'a>(programs: &[Requirement<'a>]) -> Vec<&'a str> {
    let mut packages: Vec<&str> = programs.iter().map(|(_, _, package)| *package).collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

fn what_fails(programs: &[Requirement]) -> String {
    let commands =
        programs.iter().map(|(program, check, _)| format!("`{program} {}`", check.join(" ")));
    let commands: Vec<String> = commands.collect();
    let verb = if commands.len() == 1 { "does" } else { "do" };
    format!("{} {verb} not work", commands.join(", "))
}

fn what_to_install(programs: &[Requirement]) -> String {
    let packages = packages(programs).join(" ");
    format!("{}. Install these packages: {packages}", what_fails(programs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_all_programs_that_are_missing() {
        let programs: [Requirement; 4] = [
            ("true", &[], "coreutils"),
            ("no-such-program", &["--version"], "some-package"),
            ("false", &["-v"], "other-package"),
            ("no-such-tool", &["-V"], "some-package"),
        ];
        assert_eq!(
            what_to_install(&missing(&programs)),
            "`no-such-program --version`, `false -v`, `no-such-tool -V` do not work. \
             Install these packages: other-package some-package"
        );
    }

    #[test]
    fn programs_that_work_are_not_installed() {
        assert_eq!(ensure_installed("true", &[], "no-such-package"), Ok(()));
    }
}
