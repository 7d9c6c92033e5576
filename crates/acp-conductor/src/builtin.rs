//! The built-in components.

mod inputs;
mod options;

use std::path::{Path, PathBuf};

use acp_wire::ErrorKind;

use router::Mode;

use crate::columns::Columns;
use crate::config::Spec;
use crate::host::in_process::InProcess;
use acp_wire::suggestion;

/// Marks a name as that of a built-in component rather than a command.
const PREFIX: &str = "builtin:";

/// Replaces each `builtin:NAME` with the built-in component NAME. A plain NAME is replaced as well, unless it is also
/// a command on the PATH. Returns warnings: about each such ambiguous name, and about prompts that do not pass a guard.
///
/// # Errors
/// A built-in component does not exist, cannot be used in its position, or has invalid options. The name of a guard is
/// also a command on the PATH: a command must not take the place of a guard silently.
pub fn resolve(mode: Mode, specs: &mut [Spec]) -> Result<Vec<String>, String> {
    let last = specs.len();
    let mut warnings = Vec::new();
    for (number, spec) in (1..).zip(&mut *specs) {
        let (entry, warning) = entry_of(&spec.program).map_err(|(kind, why)| kind.tag(why))?;
        warnings.extend(warning);
        let Some(entry) = entry else {
            refuse_options(spec)?;
            continue;
        };
        let name = entry.name.to_owned();
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
        // A file that changes after this is not lost: the next reload compares it.
        spec.inputs = inputs::files_of(entry, &spec.args, &spec.options);
        let factory = entry.parse(&spec.args, &spec.options)?;
        spec.in_process = Some(InProcess::of(factory).observing_messages(entry.observes_messages));
        spec.managed = Some(options::OPTIONS);
        spec.guard |= entry.guard;
        spec.collects_telemetry |= entry.collects_telemetry;
        spec.program = format!("{PREFIX}{name}");
        if spec.name.starts_with(PREFIX) {
            spec.name = name;
        }
    }
    warnings.extend(unguarded_turns(specs));
    Ok(warnings)
}

/// A built-in component, if there is one, and a warning.
type FoundEntry = (Option<&'static components::Entry>, Option<String>);

/// The built-in component that a command names, and a warning. A plain NAME that is also a command on the PATH names none.
pub(crate) fn entry_of(program: &str) -> Result<FoundEntry, (ErrorKind, String)> {
    let exact = program.strip_prefix(PREFIX);
    let name = exact.unwrap_or(program);
    let Some(entry) = components::find(name) else {
        return match exact {
            Some(name) => Err((ErrorKind::UnknownBuiltIn, unknown_name(name))),
            None => Ok((None, None)),
        };
    };
    let Some(path) = find_on_path(name).filter(|_| exact.is_none()) else {
        return Ok((Some(entry), None));
    };
    let path = path.display();
    if entry.guard {
        let why = format!(
            "'{name}' is a built-in guard and also the command {path}; write {PREFIX}{name} to use the \
             guard, or {path} to run the command"
        );
        return Err((ErrorKind::MisusedBuiltIn, why));
    }
    let warning = format!(
        "'{name}' runs the command {path}; write {PREFIX}{name} to use the built-in component"
    );
    Ok((None, Some(warning)))
}

/// A warning if a component starts turns that a guard does not see, because it stands nearer to the agent.
fn unguarded_turns(specs: &[Spec]) -> Option<String> {
    let index = specs.iter().position(|spec| spec.guard)?;
    let name = specs[index..].iter().find_map(starts_turns)?;
    let guard = &specs[index].name;
    Some(format!(
        "the guard '{guard}' does not see the turns that '{name} --start-turn' starts; write {name} before {guard}"
    ))
}

/// The name of a built-in component that starts turns.
fn starts_turns(spec: &Spec) -> Option<&str> {
    let name = spec.program.strip_prefix(PREFIX)?;
    let options = components::find(name)?.options(&spec.args, &spec.options).ok()?;
    (options.get("start_turn") == Some(&serde_json::Value::Bool(true))).then_some(name)
}

/// Refuses the member `options` of a program.
fn refuse_options(spec: &Spec) -> Result<(), String> {
    if spec.options.is_empty() {
        return Ok(());
    }
    Err(misused(format!(
        "'{}' is a program, and `options` are for built-in components; write its options into `args`",
        spec.name
    )))
}

/// Keeps the built-in component `log` off standard error, for a program that uses the terminal: without its option
/// `file`, it writes to `file`. Returns whether a component writes to `file`.
pub fn keep_log_off_stderr(specs: &mut [Spec], file: &Path) -> bool {
    let is_log = |spec: &&mut Spec| match spec.program.strip_prefix(PREFIX) {
        Some(name) => name == "log",
        None => spec.program == "log" && find_on_path("log").is_none(),
    };
    let Some(entry) = components::find("log") else { return false };
    let mut uses_file = false;
    for spec in specs.iter_mut().filter(is_log) {
        // `resolve` reports options that are invalid.
        let Ok(options) = entry.options(&spec.args, &spec.options) else { continue };
        if options.get("file").is_none_or(serde_json::Value::is_null) {
            spec.options.insert("file".to_owned(), file.display().to_string().into());
            uses_file = true;
        }
        spec.options.insert("no_stderr".to_owned(), true.into());
    }
    uses_file
}

/// The error for a built-in component that does not exist.
pub fn unknown(name: &str) -> String {
    ErrorKind::UnknownBuiltIn.tag(unknown_name(name))
}

fn unknown_name(name: &str) -> String {
    let names = || components::catalog::ALL.iter().map(|it| it.name);
    let hint = match suggestion::closest(name, names()) {
        Some(known) => format!("did you mean `{known}`?"),
        None => format!("available: {}", names().collect::<Vec<_>>().join(", ")),
    };
    format!("there is no built-in component '{name}'; {hint}")
}

fn misused(why: String) -> String {
    ErrorKind::MisusedBuiltIn.tag(why)
}

/// Whether there is a command of this name on the PATH.
pub fn is_on_path(name: &str) -> bool {
    find_on_path(name).is_some()
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

/// The names of all built-in components.
pub fn names() -> Vec<String> {
    components::catalog::ALL.iter().map(|entry| entry.name.to_owned()).collect()
}

/// The output of `conductor components`.
pub fn list() -> String {
    let role = |entry: &components::Entry| match (entry.agent, entry.guard) {
        (true, _) => "agent",
        (false, true) => "guard",
        (false, false) => "proxy",
    };
    let rows: Vec<[String; 3]> = components::catalog::ALL
        .iter()
        .map(|entry| [entry.name.to_owned(), role(entry).to_owned(), entry.about()])
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
    fn a_component_that_starts_turns_behind_a_guard_is_reported() {
        let warnings = |texts: &[&str]| {
            let mut specs: Vec<Spec> = texts.iter().map(|it| Spec::parse(it).unwrap()).collect();
            resolve(Mode::Agent, &mut specs).expect("valid")
        };
        let file = std::env::temp_dir().join(format!("remind-{}.toml", std::process::id()));
        std::fs::write(&file, "start_turn = true\n").expect("written");
        let from_file = format!("remind --config {}", file.display());
        for remind in [
            "remind --start-turn",
            "walkthrough --start-turn",
            r#"{"command":"remind","options":{"start_turn":true}}"#,
            &from_file,
        ] {
            let found = warnings(&["context --text x", "filter", remind, "demo-agent"]);
            assert!(found.len() == 1 && found[0].contains("the guard 'filter'"), "{found:?}");
            assert_eq!(warnings(&[remind, "filter", "demo-agent"]), Vec::<String>::new());
        }
        assert_eq!(warnings(&["filter", "remind", "demo-agent"]), Vec::<String>::new());
        std::fs::remove_file(file).expect("ours");
    }

    #[test]
    fn a_log_that_has_a_file_keeps_it() {
        let config = std::env::temp_dir().join(format!("log-{}.toml", std::process::id()));
        std::fs::write(&config, "file = \"/config\"\n").unwrap();
        let own = Path::new("/own");
        for (text, uses_own) in [
            ("log".to_owned(), true),
            ("log --file /args".to_owned(), false),
            (r#"{"command":"log","options":{"file":"/options"}}"#.to_owned(), false),
            (format!("builtin:log --config {}", config.display()), false),
        ] {
            let mut specs = [Spec::parse(&text).unwrap()];
            assert_eq!(keep_log_off_stderr(&mut specs, own), uses_own, "{text}");
            let entry = components::find("log").unwrap();
            let options = entry.options(&specs[0].args, &specs[0].options).unwrap();
            assert_eq!(options["file"] == "/own", uses_own, "{text}");
            assert_eq!(options["no_stderr"], true, "{text}");
        }
        std::fs::remove_file(config).unwrap();
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
