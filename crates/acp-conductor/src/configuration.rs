//! From the command line and the configuration files to a chain that can run.
//!
//! [`Request`] is what the command line asks for, and [`resolve`] answers it: it can be asked again when a file has changed.
//!
//! # Layout
//!
//! - `check`: what `conductor config check` finds
//! - `files`: finds, reads and merges the files of the user and of the project, if the user trusts it
//! - `options`: the options of the command line, and how the settings of the files fill them
//! - `specs`: from a component of a file to a [`Spec`], with errors at the place in the file

mod check;
mod files;
mod options;
mod specs;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use acp_wire::{ErrorKind, suggestion};
use config::chain::{Configuration, ResolvedChain};
use config::source::Diagnostic;
use config::variables;
use config::when::Surroundings;
use router::Mode;

use crate::builtin;
use crate::config::{Config, Spec};
use crate::reload::ReloadSource;

pub use check::{check_chains, check_options, missing_here};
pub use files::{Files, built_ins, trust_store, user_file, user_source};
pub use options::Options;

/// What a command line asks for.
#[derive(Debug, Clone)]
pub struct Request {
    /// Whether the chain ends with an agent or is itself a proxy.
    pub mode: Mode,
    /// What to run.
    pub run: Run,
    /// The folder in which an editor has started the conductor, or the folder of the session if the conductor is the editor.
    /// Conditions are about this folder, and the file of the project is in it or in one of its parents.
    pub folder: PathBuf,
    /// The options of the command line. They win over all files.
    pub options: Options,
    /// For a program that uses the terminal: the file to which the built-in component `log` writes, unless there is a log file.
    pub terminal_log: Option<PathBuf>,
}

/// What to run.
#[derive(Debug, Clone)]
pub enum Run {
    /// These components, as they are written on the command line. A single one can be the name of a chain.
    Components(Vec<String>),
    /// The chain of this name.
    Chain(String),
    /// The default chain.
    Default,
    /// These components.
    Specs(Vec<Spec>),
}

/// A chain that can run.
#[derive(Debug)]
pub struct Resolved {
    /// The configuration of the chain. Its built-in components are resolved.
    pub config: Config,
    /// The name of the chain, if it is one of a file.
    pub chain: Option<String>,
    /// What to log, if it is set.
    pub log: Option<String>,
    /// Where to write the log, if it is set.
    pub log_file: Option<PathBuf>,
    /// What the user should know. It goes into the log.
    pub warnings: Vec<String>,
    /// Whether the built-in component `log` writes to [`Request::terminal_log`] or to the log file.
    pub logs_to_file: bool,
    /// Whether the file of a project is a part of the configuration.
    pub uses_project: bool,
    /// Why a running chain that uses the file of the project goes on with it as it was.
    pub refusal: Option<String>,
}

/// Why there is no chain that can run.
#[derive(Debug)]
pub enum Failure {
    /// A configuration file is wrong.
    Diagnostic(Box<Diagnostic>),
    /// The command line is wrong. The text names its section of the error page.
    Text(String),
}

impl Failure {
    /// The error for a terminal.
    pub fn render(&self, color: bool) -> String {
        match self {
            Failure::Diagnostic(error) => error.render(color),
            Failure::Text(text) => text.clone(),
        }
    }

    /// The kind of the error, if it is known.
    pub fn kind(&self) -> Option<ErrorKind> {
        match self {
            Failure::Diagnostic(error) => Some(error.kind),
            Failure::Text(text) => ErrorKind::of_message(text),
        }
    }

    /// The error in one line, for an editor.
    pub fn one_line(&self) -> String {
        match self {
            Failure::Diagnostic(error) => error.kind.tag(error.one_line()),
            Failure::Text(text) => acp_wire::printable::one_line(text),
        }
    }
}

impl From<Diagnostic> for Failure {
    fn from(error: Diagnostic) -> Failure {
        Failure::Diagnostic(Box::new(error))
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Failure {
        Failure::Text(text)
    }
}

/// The chain for a request. Reads the files anew.
///
/// # Errors
/// A file is wrong, there is no such chain, or a component is invalid.
pub fn resolve(request: &Request) -> Result<Resolved, Failure> {
    let surroundings = Surroundings::of_process(&request.folder);
    match &request.run {
        Run::Specs(specs) => of_command_line(request, &surroundings, specs.clone(), Vec::new()),
        Run::Components(texts) => match chain_named(request, &surroundings, texts)? {
            Named::Chain(files) => of_chain(request, &surroundings, *files, &texts[0]),
            Named::Command(warnings) => {
                let specs = parse_components(texts)?;
                of_command_line(request, &surroundings, specs, warnings)
            }
        },
        Run::Chain(name) => {
            let files = Files::read(&surroundings)?;
            of_chain(request, &surroundings, files, name)
        }
        Run::Default => {
            let files = Files::read(&surroundings)?;
            let Some(name) = files.configuration.default_chain().cloned() else {
                return Err(no_default(&files).into());
            };
            if !files.configuration.chains().contains_key(name.as_str()) {
                let error = files.unknown_chain(&name);
                return Err(Diagnostic { place: Some(name.place), ..error }.into());
            }
            of_chain(request, &surroundings, files, &name.value)
        }
    }
}

/// Parses the COMPONENT arguments. An error does not repeat the argument, which may contain a secret.
///
/// # Errors
/// An argument is invalid. The text names its section of the error page.
pub fn parse_components(components: &[String]) -> Result<Vec<Spec>, String> {
    let parse = |(number, text): (usize, &String)| {
        Spec::parse(text).map_err(|why| {
            ErrorKind::InvalidComponent.tag(format!("component {number} is invalid: {why}"))
        })
    };
    (1..).zip(components).map(parse).collect()
}

/// What COMPONENT arguments mean.
enum Named {
    /// The only argument is the name of a chain in these files.
    Chain(Box<Files>),
    /// The arguments are components. These are warnings about them.
    Command(Vec<String>),
}

/// Whether a single COMPONENT is the name of a chain. The name of a program or of a built-in component never is.
fn chain_named(
    request: &Request,
    surroundings: &Surroundings,
    texts: &[String],
) -> Result<Named, Failure> {
    let [name] = texts else { return Ok(Named::Command(Vec::new())) };
    let is_name = |it: char| it.is_alphanumeric() || matches!(it, '-' | '_' | '.' | '@');
    if request.mode != Mode::Agent || !name.chars().all(is_name) {
        return Ok(Named::Command(Vec::new()));
    }
    let what = match (components::find(name), builtin::is_on_path(name)) {
        (Some(_), _) => "built-in component",
        (None, true) => "program",
        (None, false) => {
            let files = Files::read(surroundings)?;
            return match files.configuration.chains().contains_key(name.as_str()) {
                true => Ok(Named::Chain(Box::new(files))),
                false if files.leaves_out(name) => Err(files.unknown_chain(name).into()),
                false => match meant_chain(&files, name) {
                    Some(error) => Err(error.into()),
                    None => Ok(Named::Command(Vec::new())),
                },
            };
        }
    };
    let own = Configuration::load(user_source()?, built_ins())?;
    // The file of the project is only for the warning, so its errors do not count.
    let files = Files::read(surroundings).map_or(own, |it| it.configuration);
    let is_chain = files.chains().contains_key(name.as_str());
    let warning = is_chain.then(|| {
        format!(
            "'{name}' is the name of a chain and of a {what}, and runs the {what}; write --chain {name} to run the chain"
        )
    });
    Ok(Named::Command(warning.into_iter().collect()))
}

/// The error for a name that is nothing, if it probably means a chain.
fn meant_chain(files: &Files, name: &str) -> Option<Diagnostic> {
    let chains = files.configuration.chains();
    let built_ins = components::catalog::ALL.iter().map(|it| it.name);
    let known = chains.keys().map(|it| it.value.as_str()).chain(built_ins);
    let meant = suggestion::closest(name, known).filter(|it| chains.contains_key(*it))?;
    let why = format!("there is no program, no built-in component and no chain `{name}`");
    let error = Diagnostic::plain(why).of_kind(ErrorKind::UnknownChain);
    Some(error.help(format!("did you mean the chain `{meant}`?")))
}

/// A chain of components from the command line. The settings of the user apply. The file of the project does not: it is about
/// chains with names.
fn of_command_line(
    request: &Request,
    surroundings: &Surroundings,
    specs: Vec<Spec>,
    warnings: Vec<String>,
) -> Result<Resolved, Failure> {
    let configuration = Configuration::load(user_source()?, built_ins())?;
    let settings = configuration.settings();
    let options = request.options.clone().or_settings(settings, surroundings)?;
    let mut resolved = finish(request, specs, &options)?;
    resolved.warnings.splice(0..0, warnings);
    Ok(resolved)
}

fn of_chain(
    request: &Request,
    surroundings: &Surroundings,
    files: Files,
    name: &str,
) -> Result<Resolved, Failure> {
    let configuration = &files.configuration;
    if !configuration.chains().contains_key(name) {
        return Err(files.unknown_chain(name).into());
    }
    let chain = configuration.chain(name, surroundings)?;
    if request.mode == Mode::Agent && chain.agent().is_none() {
        return Err(chain.missing_agent().into());
    }
    let mut specs = specs::of_chain(configuration, &chain, request.mode, surroundings)?;
    start_in(&request.folder, &mut specs);
    let options = request.options.clone().or_settings(&chain.settings, surroundings)?;
    let mut resolved = finish(request, specs, &options)?;
    resolved.chain = Some(name.to_owned());
    resolved.config.chain_name = Some(name.to_owned());
    resolved.warnings.extend(files.notice.clone());
    resolved.uses_project = files.uses_project();
    resolved.config.start_notices = files.notice.into_iter().collect();
    resolved.refusal = files.refusal;
    let (request, uses_project) = (request.clone(), AtomicBool::new(resolved.uses_project));
    let again = move || {
        let resolved = resolve(&request);
        // A file that has changed without consent takes no component away from the chain. It is also the reason if a chain of that
        // file seems to be missing.
        if uses_project.load(Ordering::Relaxed) {
            let surroundings = Surroundings::of_process(&request.folder);
            let refusal = match &resolved {
                Ok(resolved) => resolved.refusal.clone(),
                Err(_) => Files::read(&surroundings).ok().and_then(|it| it.refusal),
            };
            if let Some(why) = refusal {
                return Err(why);
            }
        }
        let resolved = resolved.map_err(|why| why.one_line())?;
        uses_project.store(resolved.uses_project, Ordering::Relaxed);
        Ok(resolved.config)
    };
    resolved.config.reload = Some(ReloadSource::new(again));
    Ok(resolved)
}

/// Resolves the built-in components, and applies the options.
fn finish(request: &Request, mut specs: Vec<Spec>, options: &Options) -> Result<Resolved, Failure> {
    let log_file = options.log_file.clone();
    let logs_to_file = match log_file.as_ref().or(request.terminal_log.as_ref()) {
        Some(file) if request.terminal_log.is_some() => {
            builtin::keep_log_off_stderr(&mut specs, file)
        }
        _ => false,
    };
    let warnings = builtin::resolve(request.mode, &mut specs)?;
    let mut config = Config::new(request.mode, specs);
    options.apply(&mut config).map_err(|why| ErrorKind::InvalidOption.tag(why))?;
    config.keeps_telemetry_of = builtin::names();
    let log = options.log.clone();
    Ok(Resolved {
        config,
        chain: None,
        log,
        log_file,
        warnings,
        logs_to_file,
        uses_project: false,
        refusal: None,
    })
}

/// Starts the components of a chain with a name in a folder that is not that of this process, as if an editor had started the
/// conductor there.
fn start_in(folder: &Path, specs: &mut [Spec]) {
    if std::env::current_dir().is_ok_and(|it| it == folder) {
        return;
    }
    let is_program = |it: &&mut Spec| matches!(builtin::entry_of(&it.program), Ok((None, _)));
    for spec in specs.iter_mut().filter(is_program) {
        spec.directory.get_or_insert_with(|| folder.to_owned());
    }
}

fn no_default(files: &Files) -> Diagnostic {
    let error = Diagnostic::plain("there is no COMPONENT, and no default chain");
    let error = error.of_kind(ErrorKind::UnknownChain);
    if let Some(remedy) = files.untrusted_remedy() {
        return error.help(remedy);
    }
    let mut chains = files.configuration.chains().keys();
    error.help(match (chains.next(), user_file()) {
        (Some(name), _) => format!(
            "name a chain, as in `conductor agent --chain {}`, or write `default = \"{}\"` into the configuration file",
            name.value, name.value
        ),
        (None, Some(file)) => format!(
            "write the agent, as in `conductor agent my-agent`, or define a chain in {}: `conductor config edit`",
            file.display()
        ),
        (None, None) => "write the agent, as in `conductor agent my-agent`".to_owned(),
    })
}

/// The JSON Schema of a configuration file, with the options of all built-in components.
pub fn schema() -> serde_json::Value {
    let entries = components::catalog::ALL.iter();
    config::schema::of_file(entries.map(|entry| (entry.name, |it: &mut _| entry.schema(it))))
}

/// The chain of this name, and its files, for commands that only show it.
///
/// # Errors
/// A file is wrong, or there is no such chain.
pub fn find_chain(
    files: &Files,
    name: Option<&str>,
    surroundings: &Surroundings,
) -> Result<ResolvedChain, Failure> {
    let name = match (name, files.configuration.default_chain()) {
        (Some(name), _) => name.to_owned(),
        (None, Some(name)) => name.value.clone(),
        (None, None) => return Err(no_default(files).into()),
    };
    if !files.configuration.chains().contains_key(name.as_str()) {
        return Err(files.unknown_chain(&name).into());
    }
    Ok(files.configuration.chain(&name, surroundings)?)
}

/// Expands the variables in a text of a file.
fn expanded(
    text: &config::source::Placed<String>,
    surroundings: &Surroundings,
) -> Result<String, Diagnostic> {
    let lookup = |name: &str| surroundings.variable(name).map(Into::into);
    variables::expand(&text.as_ref().map(String::as_str), &lookup)
}
