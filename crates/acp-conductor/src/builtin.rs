//! The built-in components.

use std::path::{Path, PathBuf};

use acp_wire::ErrorKind;
use router::Mode;

use crate::columns::Columns;
use crate::config::Spec;
use crate::host::in_process::InProcess;
use crate::suggestion;

/// Marks a name as that of a built-in component rather than a command.
const PREFIX: &str = "builtin:";

/// Replaces each `builtin:NAME` with the built-in component NAME. A plain NAME is replaced as well, unless it is also
/// a command on the PATH. Returns a warning for each such ambiguous name.
///
/// # Errors
/// A built-in component does not exist, cannot be used in its position, or has invalid options.
pub fn resolve(mode: Mode, specs: &mut [Spec]) -> Result<Vec<String>, String> {
    let last = specs.len();
    let mut warnings = Vec::new();
    for (number, spec) in (1..).zip(specs) {
        let exact = spec.program.strip_prefix(PREFIX).map(str::to_owned);
        let name = exact.clone().unwrap_or_else(|| spec.program.clone());
        let entry = match components::find(&name) {
            Some(entry) => entry,
            None if exact.is_some() => {
                return Err(unknown(&name));
            }
            None => continue,
        };
        if let Some(path) = find_on_path(&name).filter(|_| exact.is_none()) {
            warnings.push(format!(
                "'{name}' runs the command {}; write {PREFIX}{name} to use the built-in component",
                path.display()
            ));
            continue;
        }
        match (mode == Mode::Agent && number == last, entry.agent) {
            (true, false) => {
                return Err(misused(format!(
                    "the built-in component '{name}' is a proxy, but the last component must be the agent; \
                     add an agent after it, for example demo-agent"
                )));
            }
            (false, true) => {
                return Err(misused(format!(
                    "the built-in component '{name}' is an agent, but only the last component of \
                     `conductor agent` can be one; write it last"
                )));
            }
            _ => {}
        }
        if !spec.env.is_empty() || spec.directory.is_some() {
            return Err(misused(format!(
                "the built-in component '{name}' runs inside conductor and cannot have an \
                 environment or a working directory; use 'conductor component {name}' to run it as a process"
            )));
        }
        let factory = entry.parse(&spec.args)?;
        spec.in_process = Some(InProcess::of(factory));
        spec.guard |= entry.guard;
        spec.program = format!("{PREFIX}{name}");
        if spec.name.starts_with(PREFIX) {
            spec.name = name;
        }
    }
    Ok(warnings)
}

/// Keeps the built-in component `log` off standard error, for a program that uses the terminal: without its option
/// `--file`, it writes to `file`. Returns whether a component writes to `file`.
pub fn keep_log_off_stderr(specs: &mut [Spec], file: &Path) -> bool {
    let is_log = |spec: &&mut Spec| match spec.program.strip_prefix(PREFIX) {
        Some(name) => name == "log",
        None => spec.program == "log" && find_on_path("log").is_none(),
    };
    let mut uses_file = false;
    for spec in specs.iter_mut().filter(is_log) {
        if !spec.args.iter().any(|it| it == "--file" || it.starts_with("--file=")) {
            spec.args.extend(["--file".to_owned(), file.display().to_string()]);
            uses_file = true;
        }
        spec.args.push("--no-stderr".to_owned());
    }
    uses_file
}

/// The error for a built-in component that does not exist.
pub fn unknown(name: &str) -> String {
    let names = || components::catalog::ALL.iter().map(|it| it.name);
    let hint = match suggestion::closest(name, names()) {
        Some(known) => format!("did you mean `{known}`?"),
        None => format!("available: {}", names().collect::<Vec<_>>().join(", ")),
    };
    ErrorKind::UnknownBuiltIn.tag(format!("there is no built-in component '{name}'; {hint}"))
}

fn misused(why: String) -> String {
    ErrorKind::MisusedBuiltIn.tag(why)
}

/// The path of a command on the PATH.
fn find_on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let programs = std::env::split_paths(&path).map(|directory| directory.join(name));
    let mut found = programs.filter(|program| is_executable(program));
    found.next()
}

/// The names of the programs on the PATH that begin with these characters.
pub fn programs_on_path(prefix: &str) -> Vec<String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).filter_map(|folder| folder.read_dir().ok());
    let files = folders.flatten().flatten().filter_map(|file| {
        let name = file.file_name().into_string().ok()?;
        (name.starts_with(prefix) && is_executable(&file.path())).then_some(name)
    });
    files.collect()
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_executable(path: &Path) -> bool {
    path.is_file() || path.with_extension("exe").is_file()
}

/// The output of `conductor components`.
pub fn list() -> String {
    let role = |agent: bool| if agent { "agent" } else { "proxy" };
    let rows: Vec<[String; 3]> = components::catalog::ALL
        .iter()
        .map(|entry| [entry.name.to_owned(), role(entry.agent).to_owned(), entry.about()])
        .collect();
    let columns = Columns::of(&rows);
    let mut text: String = rows.iter().map(|row| columns.line(row) + "\n").collect();
    text.push_str(
        "\nUse a built-in component by its name: conductor agent 'sparkle --hide' my-agent\n\
         If a command has the same name, write builtin:NAME.\n\
         conductor component NAME --help describes a component and its options.\n\
         conductor component NAME runs it as a separate process, for example under another conductor.\n",
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(mode: Mode, texts: &[&str]) -> Result<Vec<Spec>, String> {
        let mut specs: Vec<Spec> = texts.iter().map(|text| Spec::parse(text).unwrap()).collect();
        resolve(mode, &mut specs)?;
        Ok(specs)
    }

    #[test]
    fn a_name_is_a_built_in_component_unless_it_is_a_command() {
        let specs = resolved(Mode::Agent, &["sparkle --hide", "builtin:sparkle", "cat"]).unwrap();
        assert!(specs[0].in_process.is_some() && specs[1].in_process.is_some());
        assert!(specs[2].in_process.is_none());
        assert_eq!((specs[0].name.as_str(), specs[1].name.as_str()), ("sparkle", "sparkle"));
        assert_eq!(specs[0].command_line(), "builtin:sparkle --hide");
    }

    #[test]
    fn invalid_uses_of_built_in_components_are_rejected() {
        let why = |mode, texts: &[&str]| resolved(mode, texts).unwrap_err();
        assert!(why(Mode::Agent, &["builtin:nothing", "a"]).contains("available: "));
        assert!(why(Mode::Agent, &["sparkle --nonsense", "a"]).contains("--nonsense"));
        assert!(why(Mode::Agent, &["cat", "sparkle"]).contains("must be the agent"));
        assert!(why(Mode::Agent, &["demo-agent", "cat"]).contains("is an agent"));
        assert!(why(Mode::Proxy, &["demo-agent"]).contains("is an agent"));
        assert!(resolved(Mode::Agent, &["sparkle", "demo-agent --pace 0"]).is_ok());
        assert!(why(Mode::Proxy, &["A=1 sparkle"]).contains("runs inside conductor"));
        assert!(resolved(Mode::Proxy, &["sparkle"]).is_ok());
        let missing = why(Mode::Proxy, &["sparkle --text /nowhere/at/all"]);
        assert!(missing.contains("/nowhere/at/all"), "{missing}");
    }
}
