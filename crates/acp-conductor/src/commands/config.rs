//! `conductor config`: shows, checks and edits the configuration files.

mod show;

use std::path::{Path, PathBuf};
use std::process::Command;

use acp_conductor::configuration::{
    self, Files, built_ins, check_chains, check_options, missing_here, user_file,
};
use acp_conductor::log;
use acp_wire::ErrorKind;
use config::chain::Configuration;
use config::project::{self, NAMES};
use config::source::{Diagnostic, Source};
use config::when::Surroundings;

use super::output::{Failure, print, print_json};
use crate::cli::ConfigCommand;

/// The file that `conductor config edit` creates.
const TEMPLATE: &str = include_str!("config/template.toml");

/// The address of the JSON Schema of this version.
const SCHEMA: &str = concat!(
    "https://raw.githubusercontent.com/acp-conductor/conductor/v",
    env!("CARGO_PKG_VERSION"),
    "/docs/conductor.schema.json"
);

/// `conductor config`.
pub fn configure(command: &ConfigCommand) -> Result<(), Failure> {
    match command {
        ConfigCommand::Show { chain, json } => show(chain.as_deref(), *json),
        ConfigCommand::Check { file: Some(file) } => check_file(file),
        ConfigCommand::Check { file: None } => check_all(),
        ConfigCommand::Path { project } => {
            let path = if *project { project_file()? } else { Some(user_path()?) };
            let path = path.ok_or_else(no_project)?;
            print(|out| writeln!(out, "{}", path.display()))
        }
        ConfigCommand::Schema => print(|out| {
            let text = serde_json::to_string_pretty(&configuration::schema())?;
            writeln!(out, "{text}")
        }),
        ConfigCommand::Edit { project } => edit(*project),
    }
}

fn show(chain: Option<&str>, json: bool) -> Result<(), Failure> {
    let surroundings = Surroundings::of_process(current_folder()?);
    let files = Files::read(&surroundings).map_err(|why| wrong(why.into()))?;
    if let Some(notice) = &files.notice {
        log::print_error(&format!("conductor: {notice}\n"));
    }
    let shown = match chain {
        Some(_) => {
            let found = configuration::find_chain(&files, chain, &surroundings).map_err(wrong)?;
            show::chain(&found)
        }
        None => show::configuration(&files.configuration),
    };
    print(|out| match json {
        true => print_json(out, &shown.to_json()),
        false => out.write_all(acp_wire::printable::plain(&shown.to_text()).as_bytes()),
    })
}

/// Checks the file of the user and that of the project.
fn check_all() -> Result<(), Failure> {
    let user = user_path()?;
    let project = project_file()?;
    let mut result = Ok(());
    let exists = user.symlink_metadata().is_ok();
    if exists {
        result = check_file(&user);
    } else {
        print(|out| writeln!(out, "{} does not exist", user.display()))?;
    }
    let Some(project) = project else { return result };
    // The project may change what the user has defined.
    let own = if exists { Source::read(&user).ok() } else { None };
    let found = project::find(&current_folder()?, Some(&user));
    let source = match found.map_err(|why| Failure::of(why.kind(), &why))? {
        Some(project) => project.source,
        None => return result,
    };
    result.and(check(&project, own.into_iter().chain([source])))
}

fn check_file(file: &Path) -> Result<(), Failure> {
    let source = Source::read(file).map_err(|why| failed(&[why]))?;
    // A file of a project begins at the project.
    let in_project = NAMES.iter().any(|name| file.ends_with(name));
    let own = if in_project { configuration::user_source().ok().flatten() } else { None };
    check(file, own.into_iter().chain([source]))
}

/// Checks the last file.
fn check(file: &Path, sources: impl Iterator<Item = Source>) -> Result<(), Failure> {
    let configuration = Configuration::load(sources, built_ins()).map_err(|why| failed(&[why]))?;
    let mut errors = configuration.check().err().unwrap_or_default();
    errors.extend(check_options(&configuration));
    let mut of_chains = check_chains(&configuration);
    of_chains.retain(|it| !errors.contains(it));
    errors.extend(of_chains);
    if let Some(log) = &configuration.settings().log {
        errors.extend(log::check(log).err().map(|why| log.error(why)));
    }
    if !errors.is_empty() {
        return Err(failed(&errors));
    }
    // A file that the user has not agreed to does not decide which files are looked at.
    let surroundings = Surroundings::of_process(current_folder()?);
    let is_agreed = || Files::read(&surroundings).is_ok_and(|it| it.uses_project());
    if !NAMES.iter().any(|name| file.ends_with(name)) || is_agreed() {
        for why in missing_here(&configuration, &surroundings) {
            let why = why.kind.tag(why.one_line());
            log::print_error(&format!("conductor: warning: a chain cannot start here: {why}\n"));
        }
    }
    let count =
        |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let components = count(configuration.components().len(), "component");
    let chains = count(configuration.chains().len(), "chain");
    print(|out| writeln!(out, "{} is valid: {components}, {chains}", file.display()))
}

fn edit(project: bool) -> Result<(), Failure> {
    let path = match project {
        true => match project_file()? {
            Some(path) => path,
            None => current_folder()?.join(NAMES[0]),
        },
        false => user_path()?,
    };
    if path.symlink_metadata().is_err() {
        create(&path)?;
    }
    let editor = editor();
    let words = shell_words::split(&editor).unwrap_or_default();
    let [program, arguments @ ..] = words.as_slice() else {
        let why = "the environment variable VISUAL or EDITOR is not a command";
        return Err(Failure::of(ErrorKind::StartFailed, why));
    };
    let status = Command::new(program).args(arguments).arg(&path).status().map_err(|error| {
        let why = format!(
            "cannot start the editor '{program}': {error}. Set the environment variable EDITOR, or edit {} yourself",
            path.display()
        );
        Failure::of(ErrorKind::StartFailed, why)
    })?;
    if !status.success() {
        let why = format!(
            "the editor '{program}' failed: {status}. {} is unchanged or as the editor has left it",
            path.display()
        );
        return Err(Failure::of(ErrorKind::StartFailed, why));
    }
    check_file(&path)?;
    if !project {
        return Ok(());
    }
    // The editor may have left a file as it was to which the user has agreed.
    let surroundings = Surroundings::of_process(current_folder()?);
    match Files::read(&surroundings).is_ok_and(|it| it.uses_project()) {
        true => print(|out| writeln!(out, "It is used: you have agreed to it as it is")),
        false => print(|out| writeln!(out, "It is not used before you allow it: conductor trust")),
    }
}

fn create(path: &Path) -> Result<(), Failure> {
    let unwritable = |error: std::io::Error| {
        let why = format!("cannot create {}: {error}", path.display());
        Failure::of(ErrorKind::UnwritableFile, why)
    };
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(unwritable)?;
    }
    std::fs::write(path, TEMPLATE.replace("SCHEMA", SCHEMA)).map_err(unwritable)
}

fn editor() -> String {
    let set = |name: &str| std::env::var(name).ok().filter(|it| !it.trim().is_empty());
    let default = if cfg!(windows) { "notepad" } else { "vi" };
    set("VISUAL").or_else(|| set("EDITOR")).unwrap_or_else(|| default.to_owned())
}

fn user_path() -> Result<PathBuf, Failure> {
    user_file().ok_or_else(|| {
        let why = "the folder for configuration is unknown; set HOME or XDG_CONFIG_HOME, or CONDUCTOR_CONFIG";
        Failure::of(ErrorKind::SystemError, why)
    })
}

/// The file of the project that contains the current folder. `None` if there is none.
fn project_file() -> Result<Option<PathBuf>, Failure> {
    match project::find(&current_folder()?, user_file().as_deref()) {
        Ok(project) => Ok(project.map(|it| it.path)),
        // The file exists, and its content does not matter here.
        Err(error) if error.path.is_file() => Ok(Some(error.path)),
        Err(error) => Err(Failure::of(error.kind(), &error)),
    }
}

fn no_project() -> Failure {
    let [one, other] = NAMES;
    let why = format!(
        "there is no {one} and no {other} in this folder and its parents; `conductor config edit --project` creates one"
    );
    Failure::of(ErrorKind::UnreadableFile, why)
}

fn current_folder() -> Result<PathBuf, Failure> {
    std::env::current_dir().map_err(|error| {
        let why = format!("cannot find the current folder: {error}");
        Failure::of(ErrorKind::MissingDirectory, why)
    })
}

fn wrong(why: configuration::Failure) -> Failure {
    Failure { status: 1, ..Failure::configuration(&why) }
}

/// Prints all errors but the last one, which is that of the command.
fn failed(errors: &[Diagnostic]) -> Failure {
    let mut result = Failure { status: 1, line: None };
    for error in errors {
        if let Failure { line: Some(line), .. } =
            std::mem::replace(&mut result, wrong(error.clone().into()))
        {
            log::print_error(&format!("conductor: {line}\n\n"));
        }
    }
    result
}
