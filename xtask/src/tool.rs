//! Runs and installs other programs.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use serde_json::Value;

use crate::cache::lock;
use crate::places::{OPTIMISED, RELEASE};

/// The root of the workspace.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask is in the workspace")
}

pub fn enter_root() -> Result<(), String> {
    env::set_current_dir(root()).map_err(at(root()))
}

pub fn cargo() -> impl AsRef<OsStr> {
    env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// The folder of Cargo, which has the sources of the dependencies.
pub fn cargo_home() -> Result<PathBuf, String> {
    let set = |name| env::var_os(name).filter(|it| !it.is_empty()).map(PathBuf::from);
    let home = set("CARGO_HOME").or_else(|| set("HOME").map(|it| it.join(".cargo")));
    home.ok_or_else(|| "one of CARGO_HOME and HOME must be set".to_owned())
}

/// Runs a command whose standard output is no result: it goes to standard error.
pub fn run(command: &mut Command) -> Result<(), String> {
    run_here(command.stdin(Stdio::null()).stdout(std::io::stderr()))
}

/// Runs a command with the input and output of this process.
pub fn run_here(command: &mut Command) -> Result<(), String> {
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

/// Waits until a check returns nothing. It returns what is wrong, which is the error after the timeout.
pub fn wait_until(
    timeout: Duration,
    check: impl Fn() -> Result<Option<String>, String>,
) -> Result<(), String> {
    let began = Instant::now();
    while let Some(wrong) = check()? {
        if began.elapsed() > timeout {
            return Err(format!("not within {timeout:?}: {wrong}"));
        }
        thread::sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Checks that a text contains these words.
pub fn expect(found: &str, words: &str) -> Result<(), String> {
    if found.contains(words) { Ok(()) } else { Err(format!("expected {words:?} in:\n{found}")) }
}

/// Writes a file. Creates its folder if it is missing.
pub fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<(), String> {
    let folder = path.parent().unwrap_or(path);
    fs::create_dir_all(folder).map_err(at(folder))?;
    fs::write(path, content).map_err(at(path))
}

/// Copies a file. Creates the folder if it is missing.
pub fn copy(from: &Path, to: &Path) -> Result<(), String> {
    let folder = to.parent().unwrap_or(to);
    fs::create_dir_all(folder).map_err(at(folder))?;
    fs::copy(from, to).map(drop).map_err(at(from))
}

/// Copies a folder without the entries of these names.
pub fn copy_folder(from: &Path, to: &Path, without: &[&str]) -> Result<(), String> {
    fs::create_dir_all(to).map_err(at(to))?;
    for entry in fs::read_dir(from).map_err(at(from))? {
        let entry = entry.map_err(at(from))?;
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if without.iter().any(|it| entry.file_name() == *it) {
            continue;
        }
        match source.is_dir() {
            true => copy_folder(&source, &target, without)?,
            false => copy(&source, &target)?,
        }
    }
    Ok(())
}

/// Copies the files of the working copy, also those that are not committed.
pub fn copy_project(to: &Path) -> Result<(), String> {
    let list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let files = output_of(Command::new("git").args(list).current_dir(root()))?;
    // A file that was deleted but not committed is still in Git's list.
    let mut files = files.split_terminator('\0').filter(|it| root().join(it).is_file());
    files.try_for_each(|file| copy(&root().join(file), &to.join(file)))
}

/// Writes an executable script.
pub fn write_program(path: &Path, text: &str) -> Result<(), String> {
    write(path, text)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(at(path))
}

pub fn read(path: impl AsRef<Path>) -> Result<String, String> {
    fs::read_to_string(&path).map_err(at(path.as_ref()))
}

/// What `cargo metadata` prints with these options.
pub fn metadata(options: &[&str]) -> Result<Value, String> {
    let mut command = Command::new(cargo());
    command.args(["metadata", "--format-version=1"]).args(options).current_dir(root());
    let text = output_of(command.stderr(Stdio::inherit()))?;
    serde_json::from_str(&text).map_err(|error| format!("cargo metadata: {error}"))
}

/// The elements of a JSON list. A value that is no list has none.
pub fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The text of a JSON string. Another value has an empty one.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Runs a `cargo build` of one program. Returns the path of the program.
pub fn built_program(build: &mut Command) -> Result<PathBuf, String> {
    build.args(["--message-format", "json-render-diagnostics"]).stderr(Stdio::inherit());
    let output = output_of(build)?;
    let mut built = output.lines().filter_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        message["executable"].as_str().map(PathBuf::from)
    });
    built.next_back().ok_or_else(|| "cargo built no program".to_owned())
}

/// The folder in which Cargo builds.
pub fn target() -> Result<PathBuf, String> {
    Ok(text(&metadata(&["--no-deps"])?["target_directory"]).into())
}

/// Builds the optimised program and two test components. Returns their folder.
pub fn release() -> Result<PathBuf, String> {
    run(Command::new(cargo()).args(RELEASE).current_dir(root()))?;
    Ok(target()?.join(OPTIMISED))
}

/// The command `cargo run` for a program of a private crate.
pub fn cargo_run(package: &str, program: &str) -> Command {
    let mut command = Command::new(cargo());
    command.args(["run", "--quiet", "--package", package, "--bin", program]);
    command.arg("--manifest-path").arg(root().join("Cargo.toml")).arg("--");
    command
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
