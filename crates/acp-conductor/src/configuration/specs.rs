//! From a component of a file to a component of a chain. Errors point at the place in the file.

use std::sync::Arc;

use components::catalog::{Entry, OptionError};
use config::chain::{Configuration, Launch, ResolvedChain, ResolvedEntry, Role};
use config::file::{self, Node, to_json};
use config::source::{Diagnostic, Place, Placed};
use config::trust::AgreedFiles;
use config::when::Surroundings;
use engine::Fallback;
use router::{Mode, StartFailure, StartProblem, UpdateFilter};
use serde_json::{Map, Value, json};

use crate::builtin;
use crate::config::Spec;
use crate::failure_policy::{OnCrash, Restarts, Updates};
use crate::host::start_check::StartCheck;

impl From<file::OnCrash> for OnCrash {
    fn from(what: file::OnCrash) -> OnCrash {
        match what {
            file::OnCrash::Restart => OnCrash::Restart,
            file::OnCrash::RestartThenBypass => OnCrash::RestartThen(Fallback::Bypass),
            file::OnCrash::RestartThenStop => OnCrash::RestartThen(Fallback::Stop),
            file::OnCrash::Bypass => OnCrash::Bypass,
            file::OnCrash::Stop => OnCrash::Stop,
        }
    }
}

impl From<file::Updates> for Updates {
    fn from(which: file::Updates) -> Updates {
        Updates(match which {
            file::Updates::All => UpdateFilter::All,
            file::Updates::Known => UpdateFilter::Known,
        })
    }
}

impl From<file::Restarts> for Restarts {
    fn from(restarts: file::Restarts) -> Restarts {
        Restarts { max: restarts.max, within: restarts.within }
    }
}

/// The components of a chain. In a chain that is itself a proxy, its agent is left out.
pub(super) fn of_chain(
    configuration: &Configuration,
    chain: &ResolvedChain,
    mode: Mode,
    surroundings: &Surroundings,
) -> Result<Vec<Spec>, Diagnostic> {
    let entries = chain.components().filter(|it| mode == Mode::Agent || it.role == Role::Proxy);
    entries.map(|entry| spec(&configuration.launch(entry, surroundings)?, entry)).collect()
}

pub(super) fn spec(launch: &Launch, entry: &ResolvedEntry) -> Result<Spec, Diagnostic> {
    let Launch { name, command, component, .. } = launch;
    check_role(entry)?;
    let mut spec = Spec {
        name: name.clone(),
        program: command.value.clone(),
        args: launch.args.iter().map(|it| it.value.clone()).collect(),
        options: to_json(&launch.options),
        env: launch.env.clone(),
        directory: launch.cwd.as_ref().map(|it| it.value.clone()),
        dialect: component.dialect.as_ref().map(|it| it.value.0),
        guard: component.guard.as_ref().is_some_and(|it| it.value),
        on_crash: component.on_crash.as_ref().map(|it| it.value.into()),
        on_crash_named: component.on_crash.is_some(),
        restarts: component.restarts.as_ref().map(|it| it.value.into()),
        updates: component.updates.as_ref().map(|it| it.value.into()),
        before_start: launch.agreed.clone().map(start_check),
        ..Spec::default()
    };
    match builtin::entry_of(&spec.program).map(|(entry, _)| entry) {
        Ok(Some(built_in)) => {
            if let (Some(option), Some(agreed)) = (built_in.agreed_files, &launch.agreed) {
                spec.options.insert(option.to_owned(), json!(agreed.states()));
            }
            check_built_in(launch, built_in, entry, &spec)?;
        }
        Ok(None) => refuse_options(entry)?,
        Err((kind, why)) => return Err(command.error(why).of_kind(kind)),
    }
    Ok(spec)
}

/// Compares the files that a component of a project names before each of its starts.
fn start_check(agreed: Arc<AgreedFiles>) -> StartCheck {
    StartCheck::new(agreed.states(), move || {
        agreed.check().map_err(|why| {
            let root = acp_wire::printable::one_line(&agreed.root().display().to_string());
            let command = format!("conductor trust {}", shell_words::quote(&root));
            // A component that is bypassed is reported without the remedy.
            let why = format!("{why} (see `{command}`)");
            let remedy =
                format!("run `{command}`, and then `conductor reload`, or start the agent again");
            StartFailure { problem: StartProblem::Untrusted, why, remedy }
        })
    })
}

/// Refuses the options of a program.
pub(super) fn refuse_options(entry: &ResolvedEntry) -> Result<(), Diagnostic> {
    let Some(option) = entry.component.options.keys().next() else { return Ok(()) };
    let error = option.error(format!("`{}` is a program, which has no options", entry.name));
    Err(error.help("write its options into `args`"))
}

/// Refuses what an agent cannot have, and what a guard cannot have.
pub(super) fn check_role(entry: &ResolvedEntry) -> Result<(), Diagnostic> {
    let ResolvedEntry { component, name, .. } = entry;
    let is_agent = entry.role == Role::Agent;
    let only = |place: &Place, what: &str| {
        Err(Diagnostic::at(place, format!("`{name}` is the agent; only proxies {what}")))
    };
    if is_agent {
        if let Some(dialect) = &component.dialect {
            return only(&dialect.place, "have a dialect");
        }
        if let Some(guard) = component.guard.as_ref().filter(|it| it.value) {
            return only(&guard.place, "can be guards");
        }
        if let Some(updates) = &component.updates {
            return only(&updates.place, "are skipped by updates");
        }
        let bypass = [file::OnCrash::Bypass, file::OnCrash::RestartThenBypass];
        if let Some(on_crash) = component.on_crash.as_ref().filter(|it| bypass.contains(&it.value))
        {
            let error = on_crash.error(format!("`{name}` is the agent, which cannot be bypassed"));
            return Err(error.help("write `restart`, `restart,stop` or `stop`"));
        }
    }
    let is_guard = component.guard.as_ref().is_some_and(|it| it.value);
    match component.updates.as_ref().filter(|it| is_guard && it.value == file::Updates::Known) {
        Some(updates) => {
            Err(updates.error(format!("`{name}` is a guard, and messages never go around a guard")))
        }
        None => Ok(()),
    }
}

/// Refuses a built-in component that is in a wrong place of a chain, or that has what only a process can have.
pub(super) fn check_place(built_in: &Entry, entry: &ResolvedEntry) -> Result<(), Diagnostic> {
    if built_in.agent != (entry.role == Role::Agent) {
        let (is, must) = match built_in.agent {
            true => ("an agent", "write it as `agent` of the chain"),
            false => ("a proxy", "write it into `proxies` of the chain"),
        };
        let error = Diagnostic::at(
            &entry.place,
            format!("the built-in component `{}` is {is}", built_in.name),
        );
        return Err(error.help(must));
    }
    let component = &entry.component;
    let env = component.env.keys().next().map(|it| &it.place);
    let env = env.or(component.env_file.iter().flat_map(|it| &it.0).map(|it| &it.place).next());
    if let Some(place) = env.or(component.cwd.as_ref().map(|it| &it.place)) {
        let error = Diagnostic::at(
            place,
            format!(
                "the built-in component `{}` runs inside conductor and has no environment or working directory of its own",
                built_in.name
            ),
        );
        return Err(error.help(format!(
            "to run it as a process, write `command = \"conductor\"` and `args = [\"component\", \"{}\"]`",
            built_in.name
        )));
    }
    Ok(())
}

fn check_built_in(
    launch: &Launch,
    built_in: &Entry,
    entry: &ResolvedEntry,
    spec: &Spec,
) -> Result<(), Diagnostic> {
    check_place(built_in, entry)?;
    for (name, node) in &launch.options {
        check_option(built_in, name, node)?;
    }
    match built_in.check(&spec.args, &spec.options) {
        Ok(()) => Ok(()),
        Err(error) => Err(at_option(launch, &error).unwrap_or_else(|| {
            let args = launch.component.args.as_ref().map(|it| &it.place);
            Diagnostic::at(args.unwrap_or(&launch.command.place), error.why).of_kind(error.kind)
        })),
    }
}

/// Checks the name and the type of one option.
pub(super) fn check_option(
    entry: &Entry,
    name: &Placed<String>,
    node: &Placed<Node>,
) -> Result<(), Diagnostic> {
    let members = Map::from_iter([(name.value.clone(), node.to_json())]);
    entry.read(&[], &members).map(drop).map_err(|error| {
        let why = error.why.trim_start_matches("its options are invalid: ").to_owned();
        if unknown_name(&why) == Some(name) && key_in(node, name).is_none() {
            let error = name.error(format!("`{}` has no option `{}`", entry.name, name.value));
            let known: Vec<&str> = why.split('`').skip(3).step_by(2).collect();
            return error.help(match config::source::meant(name, &known) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => format!("`conductor component {} --help` lists the options", entry.name),
            });
        }
        let (why, help) = match why.split_once("; did you mean ") {
            Some((why, meant)) => (why.to_owned(), Some(format!("did you mean {meant}"))),
            None => (why, None),
        };
        let place = unknown_name(&why).and_then(|name| key_in(node, name)).unwrap_or(&node.place);
        let error = Diagnostic::at(place, why);
        match help {
            Some(help) => error.help(help),
            None => error,
        }
    })
}

/// The unknown name in an error of serde.
fn unknown_name(why: &str) -> Option<&str> {
    why.strip_prefix("unknown field `")?.split('`').next()
}

/// The place of a key inside of a value.
fn key_in<'a>(node: &'a Placed<Node>, name: &str) -> Option<&'a Place> {
    match &node.value {
        Node::Table(table) => {
            let own = table.keys().find(|it| it.value == name).map(|it| &it.place);
            own.or_else(|| table.values().find_map(|node| key_in(node, name)))
        }
        Node::List(list) => list.iter().find_map(|node| key_in(node, name)),
        _ => None,
    }
}

/// The error at the option that it is about. It names the option, or a file that is the value of the option.
fn at_option(launch: &Launch, error: &OptionError) -> Option<Diagnostic> {
    let is_about = |(name, node): &(&Placed<String>, &Placed<Node>)| {
        let option = format!("--{}", name.replace('_', "-"));
        let mut words = error.why.split(|it: char| !it.is_alphanumeric() && it != '-' && it != '_');
        words.any(|it| it == option || it == name.as_str())
            || names_value(&error.why, &node.to_json())
    };
    let (_, node) = launch.options.iter().find(is_about)?;
    Some(Diagnostic::at(&node.place, error.why.clone()).of_kind(error.kind))
}

/// Whether an error names a file of this value. Short words could be a part of any error.
fn names_value(why: &str, value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(['/', '\\', '.']) && why.contains(text.as_str()),
        Value::Array(values) => values.iter().any(|value| names_value(why, value)),
        Value::Object(values) => values.values().any(|value| names_value(why, value)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::time::Duration;

    use acp_wire::dialect::Generation;
    use config::source::Source;

    use super::*;
    use crate::config::Config;

    fn specs(text: &str, mode: Mode) -> Result<Vec<Spec>, Diagnostic> {
        let source = Source::from_bytes(Path::new("/u/c.toml"), text.into()).expect("text");
        let configuration = Configuration::load([source], super::super::built_ins())?;
        let surroundings = Surroundings::new("/", [("HOME", "/home/me")], "linux");
        let chain = configuration.chain("a", &surroundings)?;
        of_chain(&configuration, &chain, mode, &surroundings)
    }

    const CHAIN: &str = "[components.p]\ncommand = \"./p\"\nargs = [\"${HOME}\"]\nenv = { A = \"b\" }\ncwd = \"w\"\ndialect = \"P3\"\n\
                         guard = true\non-crash = \"restart,bypass\"\nrestarts = \"1/2\"\nupdates = \"all\"\n\
                         [components.f]\ncommand = \"filter\"\nargs = [\"--notice\"]\noptions = { toward_agent = \"block\" }\n\
                         [chains.a]\nproxies = [\"p\", \"f\", \"p\"]\nagent = \"demo-agent\"\n";

    #[test]
    fn each_key_of_a_component_becomes_a_part_of_its_spec() {
        let specs = specs(CHAIN, Mode::Agent).expect("valid");
        let [p, f, _, agent] = specs.as_slice() else { panic!("{specs:?}") };
        assert_eq!(Path::new(&p.program), Path::new("/u/./p"));
        assert_eq!((p.name.as_str(), p.args.as_slice()), ("p", &["/home/me".to_owned()][..]));
        assert_eq!(p.env, [("A".to_owned(), "b".to_owned())]);
        assert_eq!(p.directory.as_deref(), Some(Path::new("/u/w")));
        assert_eq!((p.dialect, p.guard), (Generation::from_name("P3"), true));
        assert_eq!(p.on_crash, Some(OnCrash::RestartThen(Fallback::Bypass)));
        assert!(p.on_crash_named);
        assert_eq!(p.restarts, Some(Restarts { max: 1, within: Duration::from_secs(2) }));
        assert_eq!(p.updates, Some(Updates(UpdateFilter::All)));
        assert_eq!(
            (f.program.as_str(), f.args.as_slice()),
            ("filter", &["--notice".to_owned()][..])
        );
        assert_eq!(f.options["toward_agent"], "block");
        assert_eq!(agent.program, "builtin:demo-agent");
        // A component that is used twice gets a suffix, as on the command line.
        let config = Config::new(Mode::Agent, specs);
        let names: Vec<&str> = config.components.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["p", "f", "p#2", "demo-agent"]);
    }

    #[test]
    fn a_chain_that_is_a_proxy_has_no_agent() {
        let specs = specs(CHAIN, Mode::Proxy).expect("valid");
        let names: Vec<&str> = specs.iter().map(|it| it.name.as_str()).collect();
        assert_eq!(names, ["p", "f", "p"]);
    }
}
