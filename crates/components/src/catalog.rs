//! The list of the built-in components, and how their options are parsed.

use std::path::{Path, PathBuf};

use acp_wire::ErrorKind;
use clap::error::ErrorKind::InvalidValue;
use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value};

pub use component_base::{BuiltIn, OptionError};

use crate::budget::Budget;
use crate::cache::{Cache, ReplayAgent};
use crate::collaborator::Collaborator;
use crate::companion::Companion;
use crate::context::Context;
use crate::demo::DemoAgent;
use crate::filter::Filter;
use crate::hooks::Hooks;
use crate::ide::Ide;
use crate::log::Log;
use crate::mentions::Mentions;
use crate::metrics::Metrics;
use crate::options::{self, TomlFile};
use crate::permissions::Permissions;
use crate::rate_limit::RateLimit;
use crate::remind::Remind;
use crate::sparkle::Sparkle;
use crate::walkthrough::Walkthrough;

/// All built-in components, in the order in which `conductor components` lists them.
pub static ALL: [Entry; 17] = [
    Entry::of::<Sparkle>(),
    Entry::of::<Context>(),
    Entry::of::<Collaborator>(),
    Entry::of::<Permissions>(),
    Entry::of::<Hooks>(),
    Entry::of::<Filter>(),
    Entry::of::<RateLimit>(),
    Entry::of::<Budget>(),
    Entry::of::<Log>(),
    Entry::of::<Metrics>(),
    Entry::of::<Cache>(),
    Entry::of::<Remind>(),
    Entry::of::<Walkthrough>(),
    Entry::of::<Ide>(),
    Entry::of::<Companion>(),
    Entry::of::<DemoAgent>(),
    Entry::of::<ReplayAgent>(),
];

/// Builds a new instance of a component. Called at each start.
pub type ComponentFactory = Box<dyn Fn() -> acp_proxy::Component + Send + Sync>;

/// Reads the options of a component: the words of a command line, and the members of an object.
type ReadOptions<T> = fn(&[String], &Map<String, Value>) -> Result<T, OptionError>;
type ReadMentions = fn(&[String], &Map<String, Value>, &[&Path]) -> Result<Mentions, OptionError>;

/// A built-in component in the catalog.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The name of the component.
    pub name: &'static str,
    /// Whether it is an agent.
    pub agent: bool,
    /// Whether it is a guard.
    pub guard: bool,
    /// Whether it collects the log messages and metrics of other components.
    pub collects_telemetry: bool,
    /// Whether it observes the messages of the whole chain.
    pub observes_messages: bool,
    command: fn() -> clap::Command,
    parse: ReadOptions<ComponentFactory>,
    options: ReadOptions<Map<String, Value>>,
    /// The option that gets the files of the project to which the user has agreed.
    pub agreed_files: Option<&'static str>,
    report: fn(&[String]) -> Result<Option<String>, OptionError>,
    mentions: ReadMentions,
    schema: fn(&mut SchemaGenerator) -> Schema,
}

/// The component of this name.
pub fn find(name: &str) -> Option<&'static Entry> {
    ALL.iter().find(|entry| entry.name == name)
}

impl Entry {
    const fn of<C: BuiltIn>() -> Entry {
        Entry {
            name: C::NAME,
            agent: C::AGENT,
            guard: C::GUARD,
            collects_telemetry: C::COLLECTS_TELEMETRY,
            observes_messages: C::OBSERVES_MESSAGES,
            command: command::<C>,
            parse: parse::<C>,
            options: |words, members| members_of(&read::<C>(words, members)?),
            report: report::<C>,
            agreed_files: C::AGREED_FILES,
            mentions: mentions::<C>,
            schema: C::json_schema,
        }
    }

    /// The command line of the component: its description and its options.
    pub fn command(&self) -> clap::Command {
        (self.command)().disable_version_flag(true)
    }

    /// The JSON Schema of the options in a file. The types that several options use become definitions of the generator.
    pub fn schema(&self, generator: &mut SchemaGenerator) -> Schema {
        (self.schema)(generator)
    }

    /// A description in one line.
    pub fn about(&self) -> String {
        self.command().get_about().map(ToString::to_string).unwrap_or_default()
    }

    /// The help text: what the component does, and its options.
    pub fn help(&self) -> String {
        let command = self.command().bin_name(format!("conductor component {}", self.name));
        command.to_owned().render_long_help().to_string()
    }

    /// Parses and checks the options of the component: the words of a command line, and the members of a JSON object.
    /// The words win.
    ///
    /// # Errors
    /// What is wrong, how to get help, and the section of the error page.
    pub fn parse(
        &self,
        words: &[String],
        members: &Map<String, Value>,
    ) -> Result<ComponentFactory, String> {
        (self.parse)(words, members).map_err(|error| self.describe(error))
    }

    /// What the options of the component lead to, in the words of a command line and in the members of a JSON object: files, commands,
    /// and texts. Empty if the options are wrong: then the component does not start.
    pub fn mentions(
        &self,
        words: &[String],
        members: &Map<String, Value>,
        folders: &[&Path],
    ) -> Mentions {
        (self.mentions)(words, members, folders).unwrap_or_default()
    }

    /// Like [`parse`](Entry::parse), but builds nothing.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self, words: &[String], members: &Map<String, Value>) -> Result<(), OptionError> {
        (self.parse)(words, members).map(drop)
    }

    /// Like [`options`](Entry::options), with an error in parts.
    ///
    /// # Errors
    /// What is wrong.
    pub fn read(
        &self,
        words: &[String],
        members: &Map<String, Value>,
    ) -> Result<Map<String, Value>, OptionError> {
        (self.options)(words, members)
    }

    /// The options of the component as members of an object, wherever they are given.
    ///
    /// # Errors
    /// As [`parse`](Entry::parse).
    pub fn options(
        &self,
        words: &[String],
        members: &Map<String, Value>,
    ) -> Result<Map<String, Value>, String> {
        (self.options)(words, members).map_err(|error| self.describe(error))
    }

    /// The text that `conductor component` prints instead of running the component, if its options ask for one.
    ///
    /// # Errors
    /// As [`parse`](Entry::parse).
    pub fn report(&self, words: &[String]) -> Result<Option<String>, String> {
        (self.report)(words).map_err(|error| self.describe(error))
    }

    fn describe(&self, OptionError { kind, why }: OptionError) -> String {
        let help = match kind {
            ErrorKind::MisusedBuiltIn => format!("; see conductor component {} --help", self.name),
            _ => String::new(),
        };
        kind.tag(format!("{}: {why}{help}", self.name))
    }
}

/// The option of every component that names a file with options.
const CONFIG: &str = "config";

fn command<C: BuiltIn>() -> clap::Command {
    let config = clap::Arg::new(CONFIG)
        .long(CONFIG)
        .value_name("FILE")
        .value_parser(clap::value_parser!(PathBuf))
        .help("Read options from a TOML file")
        .long_help(
            "Read options from a TOML file. The names are those of the other options, with _ in place of -. \
             Options of the command line win, then `options` of a component that is written as JSON, then the file.",
        );
    C::command().name(C::NAME).arg(config)
}

fn parse<C: BuiltIn>(
    words: &[String],
    members: &Map<String, Value>,
) -> Result<ComponentFactory, OptionError> {
    let component: C = read(words, members)?;
    component.check().map_err(|error| with_line::<C>(error, words, members))?;
    Ok(Box::new(move || component.build()))
}

fn mentions<C: BuiltIn>(
    words: &[String],
    members: &Map<String, Value>,
    folders: &[&Path],
) -> Result<Mentions, OptionError> {
    let component: C = read(words, members)?;
    let mut mentions = component.mentions(folders);
    mentions.add_texts(&Value::Object(members_of(&component)?));
    Ok(mentions)
}

fn report<C: BuiltIn>(words: &[String]) -> Result<Option<String>, OptionError> {
    read::<C>(words, &Map::new())?.report().transpose()
}

/// Reads the options: the command line wins over `members`, which win over the file of `--config`.
fn read<C: BuiltIn>(words: &[String], members: &Map<String, Value>) -> Result<C, OptionError> {
    let words = std::iter::once(C::NAME.to_owned()).chain(words.iter().cloned());
    let matches =
        command::<C>().try_get_matches_from(words).map_err(|error| misused::<C>(&error))?;
    let given = C::from_arg_matches(&matches).map_err(|error| misused::<C>(&error))?;
    let file = matches.get_one::<PathBuf>(CONFIG).map(PathBuf::as_path);
    if file.is_none() && members.is_empty() {
        return Ok(given);
    }
    let mut all = file.map(from_file::<C>).transpose()?.unwrap_or_default();
    all.extend(members.clone());
    let given = members_of(&given)?;
    for id in matches.ids().map(clap::Id::as_str) {
        if matches.value_source(id) == Some(ValueSource::CommandLine)
            && let Some(value) = given.get(id)
        {
            all.insert(id.to_owned(), value.clone());
        }
    }
    serde_json::from_value(Value::Object(all)).map_err(|error| OptionError {
        kind: ErrorKind::MisusedBuiltIn,
        why: format!("its options are invalid: {}", options::describe(&error.to_string())),
    })
}

/// An error about an option of the file of `--config`, with the line of the option.
fn with_line<C: BuiltIn>(
    error: OptionError,
    words: &[String],
    members: &Map<String, Value>,
) -> OptionError {
    let words = std::iter::once(C::NAME.to_owned()).chain(words.iter().cloned());
    let Ok(matches) = command::<C>().try_get_matches_from(words) else { return error };
    let file = matches.get_one::<PathBuf>(CONFIG).and_then(|path| TomlFile::read(path).ok());
    let Some(file) = file else { return error };
    let is_given = |name: &str| {
        let is_known = matches.ids().any(|it| it.as_str() == name);
        is_known && matches.value_source(name) == Some(ValueSource::CommandLine)
    };
    file.with_line(error, |name| !is_given(name) && !members.contains_key(name))
}

/// The options in a TOML file. The type reads them first, so that errors name the line.
fn from_file<C: BuiltIn>(path: &Path) -> Result<Map<String, Value>, OptionError> {
    let file = TomlFile::read(path)?;
    file.parse::<C>()?;
    file.parse()
}

fn members_of<C: BuiltIn>(options: &C) -> Result<Map<String, Value>, OptionError> {
    match serde_json::to_value(options) {
        Ok(Value::Object(members)) => Ok(members),
        _ => Err(OptionError {
            kind: ErrorKind::MisusedBuiltIn,
            why: "its options cannot be written as JSON".to_owned(),
        }),
    }
}

/// The error in one line, with the valid values and the most similar name.
fn misused<C: BuiltIn>(error: &clap::Error) -> OptionError {
    let text = error.render().to_string();
    let first = text.lines().next().unwrap_or_default();
    let mut why = first.trim_start_matches("error: ").to_owned();
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.clone()),
        Some(ContextValue::Strings(texts)) => texts.first().cloned(),
        _ => None,
    };
    let mut command = command::<C>();
    command.build();
    // The help does not list these values, because the text of the option explains each one.
    let argument = context(ContextKind::InvalidArg).filter(|_| error.kind() == InvalidValue);
    let argument = argument
        .and_then(|name| command.get_arguments().find(|argument| argument.to_string() == name));
    let values = argument.map(clap::Arg::get_possible_values).unwrap_or_default();
    let values: Vec<&str> = values.iter().map(|value| value.get_name()).collect();
    if !values.is_empty() {
        why += &format!("; the valid values are {}", values.join(", "));
    }
    let similar = context(ContextKind::SuggestedValue).or(context(ContextKind::SuggestedArg));
    if let Some(similar) = similar {
        why += &format!("; did you mean `{similar}`?");
    }
    OptionError { kind: ErrorKind::MisusedBuiltIn, why }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_component_has_a_unique_name_and_a_help_text() {
        for entry in &ALL {
            (entry.command)().debug_assert();
            assert!(std::ptr::eq(find(entry.name).unwrap(), entry), "{}", entry.name);
            assert!(!entry.about().is_empty() && entry.help().contains("Usage"), "{}", entry.name);
            let wrong = entry.parse(&["--no-such-option".to_owned()], &Map::new()).err().unwrap();
            assert!(wrong.starts_with(entry.name), "{wrong}");
        }
        assert!(find("nothing").is_none());
    }

    #[test]
    fn an_option_has_the_same_name_on_the_command_line_and_in_files() {
        for entry in &ALL {
            let command = entry.command();
            for argument in command.get_arguments().filter(|it| it.get_long().is_some()) {
                let name = argument.get_long().unwrap_or_default().replace('-', "_");
                assert_eq!(argument.get_id().as_str(), name, "{}", entry.name);
            }
        }
    }

    /// Each component that starts without options. The others say what they need.
    #[test]
    fn a_component_works_without_options_or_says_what_is_missing() {
        for entry in &ALL {
            if let Err(why) = entry.parse(&[], &Map::new()) {
                assert!(why.contains("--") || why.contains("set "), "{}: {why}", entry.name);
            }
        }
    }

    #[test]
    fn the_default_options_are_those_of_an_empty_command_line() {
        fn check<C: BuiltIn>() {
            let parsed = C::try_parse_from([C::NAME]).expect(C::NAME);
            let (parsed, default) = (members_of(&parsed), members_of(&C::default()));
            assert_eq!(parsed, default, "{}", C::NAME);
        }
        check::<Sparkle>();
        check::<Context>();
        check::<Permissions>();
        check::<Hooks>();
        check::<Filter>();
        check::<RateLimit>();
        check::<Budget>();
        check::<Log>();
        check::<Metrics>();
        check::<Cache>();
        check::<Remind>();
        check::<DemoAgent>();
        check::<ReplayAgent>();
    }

    #[test]
    fn a_wrong_value_or_name_on_the_command_line_gets_a_hint() {
        let parse = |name: &str, text: &str| {
            find(name).unwrap().parse(&words(text), &Map::new()).err().unwrap()
        };
        let why = parse("budget", "--when-spent stopp");
        assert!(
            why.contains(
                "'stopp' for '--when-spent <ACTION>'; the valid values are warn, ask, stop, now"
            ) && why.contains("did you mean `stop`?"),
            "{why}"
        );
        let why = parse("rate-limit", "--promts-at-once 1");
        assert!(why.contains("did you mean `--prompts-at-once`?"), "{why}");
        // Each value of each component.
        for entry in &ALL {
            let command = entry.command();
            for argument in command.get_arguments() {
                let values = argument.get_possible_values();
                let long = argument.get_long().filter(|_| argument.get_action().takes_values());
                let (Some(long), false) = (long, values.is_empty()) else { continue };
                let why = parse(entry.name, &format!("--{long} no-such-value"));
                let are_named = values.iter().all(|value| why.contains(value.get_name()));
                assert!(are_named, "{why}");
            }
        }
    }

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn the_command_line_wins_over_members_and_members_over_the_file() {
        let path = std::env::temp_dir().join(format!("options-{}.toml", std::process::id()));
        std::fs::write(&path, "pace = 1\nrequire_login = true\n").expect("written");
        let file = format!("--config {}", path.display());
        let members = |value: Value| value.as_object().cloned().expect("an object");
        let read = |text: &str, value| read::<DemoAgent>(&words(text), &members(value));
        let shown = |options: Result<DemoAgent, OptionError>| {
            members_of(&options.expect("valid")).map(Value::Object).expect("an object")
        };
        use serde_json::json;
        assert_eq!(shown(read(&file, json!({}))), json!({ "pace": 1, "require_login": true }));
        assert_eq!(
            shown(read(&file, json!({ "pace": 2 }))),
            json!({ "pace": 2, "require_login": true })
        );
        let all = shown(read(&format!("{file} --pace 3"), json!({ "pace": 2 })));
        assert_eq!(all, json!({ "pace": 3, "require_login": true }));
        let wrong = read("", json!({ "pcae": 2 })).expect_err("unknown").why;
        assert!(wrong.contains("`pcae`") && wrong.contains("did you mean `pace`?"), "{wrong}");
        std::fs::write(&path, "pace = 1\nrequire_logn = true\n").expect("written");
        let wrong = read(&file, json!({})).expect_err("unknown").why;
        assert!(
            wrong.contains(".toml:2: unknown field") && wrong.contains("`require_login`?"),
            "{wrong}"
        );
        std::fs::remove_file(path).expect("ours");
    }

    /// Also if the value has the right type.
    #[test]
    fn a_wrong_value_in_the_file_is_reported_with_its_line() {
        let folder = std::env::temp_dir().join(format!("option-lines-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a directory");
        let file = folder.join("c.toml");
        let missing = folder.join("missing/file");
        let missing = missing.to_str().expect("UTF-8");
        for (component, text, more, line) in [
            ("budget", "tokens_per_day = \"1M\"\nkeep = \"1h\"\n".to_owned(), "", Some(2)),
            ("metrics", "\ninterval = \"1ms\"\n".to_owned(), "", Some(2)),
            ("hooks", "longest = \"0s\"\n".to_owned(), "", Some(1)),
            ("context", format!("files = [\"{missing}\"]\n"), "", Some(1)),
            ("cache", format!("mode = \"replay\"\nfile = \"{missing}\"\n"), "", Some(2)),
            ("permissions", "explain = \"ls\"\n".to_owned(), "", Some(1)),
            // The command line has the wrong value.
            ("budget", "tokens_per_day = \"1M\"\nkeep = \"1d\"\n".to_owned(), "--keep 1h", None),
        ] {
            std::fs::write(&file, text).expect("written");
            let words = words(&format!("--config {} {more}", file.display()));
            let entry = find(component).expect("a component");
            let error = entry.parse(&words, &Map::new()).err().expect("an error");
            match line {
                Some(line) => {
                    assert!(error.contains(&format!("c.toml:{line}: ")), "{component}: {error}");
                }
                None => assert!(!error.contains("c.toml"), "{component}: {error}"),
            }
        }
        std::fs::remove_dir_all(folder).expect("ours");
    }

    /// The folder of all crates.
    fn crates() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a workspace")
    }

    /// Finds the sources below a folder that contain the code.
    fn uses(folder: &Path, found: &mut Vec<String>) {
        for entry in folder.read_dir().expect("a folder").map(|it| it.expect("an entry")) {
            let path = entry.path();
            if path.is_dir() {
                uses(&path, found);
            } else if path.extension().is_some_and(|it| it == "rs")
                && std::fs::read_to_string(&path).expect("a text").contains("-32000")
            {
                let path = path.strip_prefix(crates()).expect("below the folder");
                found.push(path.to_string_lossy().replace('\\', "/"));
            }
        }
    }

    #[test]
    fn no_component_writes_the_code_for_a_login_itself() {
        let mut found = Vec::new();
        for name in ["component-base", "guards", "proxies"] {
            uses(&crates().join(name).join("src"), &mut found);
        }
        found.sort();
        // The demo agent asks for a login, to show what an editor does then.
        assert_eq!(found, ["component-base/src/refusal.rs", "proxies/src/demo/methods.rs"]);
    }
}
