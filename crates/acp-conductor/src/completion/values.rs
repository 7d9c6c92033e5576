//! The values of options and components that completion offers.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::time::Duration;

use acp_conductor::configuration::Files;
use acp_conductor::{Spec, status};
use acp_wire::dialect::Generation;
use clap::{Arg, ArgAction, Command};
use clap_complete::CompletionCandidate;
use clap_complete::engine::{ArgValueCandidates, ArgValueCompleter, PathCompleter, ValueCompleter};
use config::when::Surroundings;

use super::line::split;
use crate::cli;

/// How long a conductor may take to answer before its process id is offered without a description.
const STATUS_TIMEOUT: Duration = Duration::from_millis(300);

/// The maximum number of programs that are offered as a component.
const MAX_PROGRAMS: usize = 200;

const LOG_LEVELS: [&str; 6] = ["error", "warn", "info", "debug", "trace", "off"];
const ON_CRASH: [&str; 5] = ["restart", "bypass", "stop", "restart,bypass", "restart,stop"];

/// The command line as completion sees it: without internal commands, with a command for each component, and with
/// the values of options. `words` is the command line so far.
pub fn command(words: &[String]) -> Command {
    let full = cli::command();
    let names = component_names(&full, words);
    let mut command = Command::new("conductor").args(full.get_arguments().cloned());
    for subcommand in full.get_subcommands().filter(|it| !it.is_hide_set()) {
        command = command.subcommand(with_values(subcommand, &names));
    }
    command
}

/// The names of the components on the command line.
fn component_names(full: &Command, words: &[String]) -> Vec<String> {
    let lenient = full.clone().ignore_errors(true).try_get_matches_from(words);
    let matches = lenient.ok().and_then(|mut it| it.remove_subcommand().map(|(_, it)| it));
    let components = matches.and_then(|it| {
        let components = it.try_get_many::<String>("components").ok()??;
        Some(components.cloned().collect::<Vec<String>>())
    });
    let specs = components.unwrap_or_default().into_iter().flat_map(|it| Spec::parse(&it));
    specs.map(|spec| spec.name).collect()
}

fn with_values(subcommand: &Command, names: &[String]) -> Command {
    let name = subcommand.get_name();
    if name == "component" {
        // The options of the components are those of a command for each of them.
        let about = subcommand.get_about().cloned().unwrap_or_default();
        let components = components::catalog::ALL.iter().map(|entry| entry.command());
        let command = Command::new("component").about(about).subcommands(components);
        return command.display_order(cli::position(name).unwrap_or_default());
    }
    let order = cli::position(name).unwrap_or_default();
    let command = subcommand.clone().display_order(order);
    let command = command.mut_args(|argument| with_candidates(name, argument, names));
    command.mut_subcommands(|nested| with_values(&nested, names))
}

fn with_candidates(command: &str, argument: Arg, names: &[String]) -> Arg {
    let argument = match argument.is_require_equals_set() {
        true => flag_with_optional_value(argument),
        false => argument,
    };
    let named = |values: &[&str]| {
        let named =
            names.iter().flat_map(|name| values.iter().map(move |it| format!("{name}={it}")));
        let plain = values.iter().map(|it| (*it).to_owned());
        plain.chain(named).collect::<Vec<String>>()
    };
    let plain = |values: &[&str]| values.iter().map(|it| (*it).to_owned()).collect::<Vec<String>>();
    let values = match argument.get_id().as_str() {
        "components" => {
            let proxies_only = command == "proxy";
            let complete = move |value: &OsStr| component(&value.to_string_lossy(), proxies_only);
            return argument.add(ArgValueCompleter::new(complete));
        }
        "cwd" => return argument.value_hint(clap::ValueHint::DirPath),
        "chain" => return argument.add(ArgValueCandidates::new(chains)),
        "pid" => return argument.add(ArgValueCandidates::new(process_ids)),
        "dialect" => {
            let numbers = if names.is_empty() { vec!["1".to_owned()] } else { names.to_vec() };
            let pairs =
                numbers.iter().flat_map(|name| Generation::ALL.map(|it| format!("{name}={it}")));
            pairs.collect()
        }
        "on_crash" => named(&ON_CRASH),
        "updates" => named(&["known", "all"]),
        "restarts" => named(&["5/60"]),
        "guard" => names.to_vec(),
        "log" => plain(&LOG_LEVELS),
        "restart_delay" => plain(&["0.1..10"]),
        "answer_limit" | "prompt_limit" | "cancel_limit" => plain(&["off"]),
        "protocol" => plain(&["1", "2"]),
        "command" => cli::command()
            .get_subcommands()
            .filter(|it| !it.is_hide_set())
            .map(|it| it.get_name().to_owned())
            .collect(),
        _ => return argument,
    };
    argument
        .add(ArgValueCandidates::new(move || values.iter().map(CompletionCandidate::new).collect()))
}

/// An option such as `--show-wire`, whose value can only follow an equals sign. The next word is not its value.
fn flag_with_optional_value(argument: Arg) -> Arg {
    let values = argument.get_possible_values();
    let flag = argument.require_equals(false).hide_possible_values(false);
    let flag = flag.num_args(0).action(ArgAction::SetTrue);
    flag.value_parser(clap::value_parser!(bool)).add(ArgValueCandidates::new(move || {
        let values = values.iter().map(|it| (it.get_name().to_owned(), it.get_help().cloned()));
        values.map(|(value, help)| CompletionCandidate::new(value).help(help)).collect()
    }))
}

/// The chains of the configuration files.
fn chains() -> Vec<CompletionCandidate> {
    let Ok(folder) = std::env::current_dir() else { return Vec::new() };
    let Ok(files) = Files::read(&Surroundings::of_process(folder)) else { return Vec::new() };
    let chains = files.configuration.chains().keys();
    let described = chains.map(|name| {
        let place = acp_wire::printable::one_line(&name.place.to_string());
        CompletionCandidate::new(&name.value).help(Some(place.into()))
    });
    described.collect()
}

/// The process ids of the running conductors.
fn process_ids() -> Vec<CompletionCandidate> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let Ok(runtime) = runtime else { return Vec::new() };
    let found = runtime.block_on(status::query(None, STATUS_TIMEOUT, |_| {})).unwrap_or_default();
    let describe = |it: &status::Status| {
        let names: Vec<&str> = it.components.iter().map(|it| it.name.as_str()).collect();
        format!("{} in {}", names.join(" "), it.cwd)
    };
    let running = found.running.iter().map(|it| {
        let about = acp_wire::printable::one_line(&describe(it));
        CompletionCandidate::new(it.pid.to_string()).help(Some(about.into()))
    });
    let unresponsive = found.unresponsive.iter().map(|it| it.pid.to_string());
    running.chain(unresponsive.map(CompletionCandidate::new)).collect()
}

/// The candidates for a COMPONENT, which is itself a command line in one word.
fn component(value: &str, proxies_only: bool) -> Vec<CompletionCandidate> {
    let line = split(value, "");
    let is_variable = |word: &&String| word.split_once('=').is_some_and(|(name, _)| is_name(name));
    let words: Vec<String> = line.words.iter().skip_while(is_variable).cloned().collect();
    let found = match words.first().map(String::as_str) {
        None => programs(&line.current, proxies_only),
        Some(program) => {
            let name = program.strip_prefix("builtin:").unwrap_or(program);
            match components::find(name) {
                Some(entry) => {
                    let all = words.iter().chain([&line.current]).map(Into::into).collect();
                    let mut command = entry.command();
                    let last = words.len();
                    let here = std::env::current_dir().ok();
                    clap_complete::engine::complete(&mut command, all, last, here.as_deref())
                        .unwrap_or_default()
                }
                None => PathCompleter::any().complete(OsStr::new(&line.current)),
            }
        }
    };
    // A candidate is the whole component, with the words that are already there.
    let before = &value[..line.offset];
    let prefixed = found.into_iter().map(|candidate| {
        let text = candidate.get_value().to_string_lossy();
        let text = match text.contains([' ', '\'', '"', '\\']) && !before.is_empty() {
            true => shell_words::quote(&text).into_owned(),
            false => text.into_owned(),
        };
        CompletionCandidate::new(format!("{before}{text}")).help(candidate.get_help().cloned())
    });
    prefixed.collect()
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|it| it.is_ascii_alphanumeric() || it == '_')
}

/// The built-in components and the programs whose name begins with these characters.
fn programs(typed: &str, proxies_only: bool) -> Vec<CompletionCandidate> {
    let entries = components::catalog::ALL.iter().filter(|entry| !(proxies_only && entry.agent));
    let (prefix, name) = match typed.strip_prefix("builtin:") {
        Some(name) => ("builtin:", name),
        None => ("", typed),
    };
    let built_in = entries.filter(|entry| entry.name.starts_with(name)).map(|entry| {
        let value = format!("{prefix}{}", entry.name);
        CompletionCandidate::new(value).help(Some(entry.about().into()))
    });
    let mut found: Vec<CompletionCandidate> = built_in.collect();
    if typed.contains(['/', '\\']) || typed.starts_with('.') {
        found.extend(PathCompleter::any().complete(OsStr::new(typed)));
    } else if !typed.is_empty() {
        let programs = acp_conductor::builtin::programs_on_path(typed);
        let others: BTreeSet<String> =
            programs.into_iter().filter(|it| components::find(it).is_none()).collect();
        found.extend(others.into_iter().take(MAX_PROGRAMS).map(CompletionCandidate::new));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(found: Vec<CompletionCandidate>) -> Vec<String> {
        found.iter().map(|it| it.get_value().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn a_component_is_completed_with_its_options() {
        let proxies = components::catalog::ALL.iter().filter(|entry| !entry.agent);
        let proxies: Vec<&str> = proxies.map(|entry| entry.name).collect();
        assert_eq!(values(component("", true)), proxies);
        assert!(values(component("", false)).contains(&"demo-agent".to_owned()));
        assert_eq!(values(component("log --level w", true)), ["log --level warn"]);
        assert_eq!(values(component("builtin:log --lev", true)), ["builtin:log --level"]);
        assert_eq!(values(component("A=1 spark", false)), ["A=1 sparkle"]);
    }

    #[test]
    fn options_for_one_component_are_completed_with_the_names_of_the_chain() {
        let words = ["conductor", "agent", "log --level info", "demo-agent", "--on-crash"];
        let words = words.map(str::to_owned);
        assert_eq!(component_names(&cli::command(), &words[..4]), ["log", "demo-agent"]);
        let command = command(&words);
        let agent = command.find_subcommand("agent").expect("a command");
        let option = agent.get_arguments().find(|it| it.get_id() == "on_crash").expect("an option");
        let offered = option.get::<ArgValueCandidates>().expect("values").candidates();
        assert!(values(offered).contains(&"log=restart,stop".to_owned()));
    }

    /// Only these options have values that completion cannot know.
    #[test]
    fn every_other_option_has_values() {
        let free = [
            "prompt",
            "mcp_server",
            "resume",
            "load",
            "redact",
            "max_line",
            "init_timeout",
            "grace",
            "pace",
            "port",
            "listen",
            "watch",
            "day",
            "days",
            "session",
        ];
        for subcommand in command(&["conductor".to_owned()]).get_subcommands() {
            for argument in subcommand.get_arguments() {
                let takes_value = argument.get_action().takes_values();
                let known = argument.get::<ArgValueCandidates>().is_some()
                    || argument.get::<ArgValueCompleter>().is_some()
                    || !argument.get_possible_values().is_empty()
                    || argument.get_value_hint() != clap::ValueHint::Unknown;
                let name = argument.get_id().as_str();
                assert!(!takes_value || known || free.contains(&name), "{name}");
            }
        }
    }
}
