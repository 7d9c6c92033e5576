//! The types of a configuration file, as it is written.
//!
//! Each value keeps its place in the file. What is missing is `None` or empty, so that files can be merged.

mod entry;
mod node;
mod settings;
mod values;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::source::{Diagnostic, Placed, Source};
use crate::when::Condition;

pub use entry::{Entry, EntryKind};
pub use node::{Node, Options, to_json};
pub use settings::Settings;
pub use values::{
    AsToml, Delay, Dialect, Limit, McpBridge, OnCrash, OneOrMore, Restarts, Seconds, Size, Updates,
};

/// A map of the file: each name has a place, too.
pub type Named<T> = BTreeMap<Placed<String>, T>;

/// The configuration of Conductor: components, chains of them, and settings.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
#[schemars(title = "conductor.toml")]
pub struct File {
    /// The chain of `conductor agent` without a COMPONENT.
    pub default: Option<Placed<String>>,
    /// The options of the chains, as on the command line. They apply to every chain.
    pub settings: Settings,
    /// The components, by name. A name consists of letters, digits and any of `-_.@`.
    pub components: Named<Component>,
    /// The chains, by name. A name consists of letters, digits and any of `-_.@`.
    pub chains: Named<Chain>,
}

/// How to start a component, and when it is part of a chain.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Component {
    /// A program, or the name of a built-in component. `builtin:NAME` is always the built-in component.
    ///
    /// A relative path with a slash begins at the folder of the file: for a file of a project, at the project.
    pub command: Option<Placed<String>>,
    /// The arguments of the program. `${NAME}` is the value of an environment variable.
    pub args: Option<Placed<Vec<Placed<String>>>>,
    /// Environment variables for the program. `${NAME}` is the value of a variable of conductor, `${NAME:-text}` is `text`
    /// if it is not set, and `$$` is a dollar sign.
    pub env: Named<Placed<String>>,
    /// A file with lines `NAME=value`, or a list of such files. `env` wins.
    pub env_file: Option<Placed<OneOrMore>>,
    /// The working directory of the program.
    pub cwd: Option<Placed<String>>,
    /// The proxy protocol generation of a proxy. Without it, conductor probes.
    pub dialect: Option<Placed<Dialect>>,
    /// Whether a proxy is a guard, which messages never bypass.
    pub guard: Option<Placed<bool>>,
    /// What to do if the component crashes.
    pub on_crash: Option<Placed<OnCrash>>,
    /// The maximum number of restarts within a number of seconds, such as `5/60`.
    pub restarts: Option<Placed<Restarts>>,
    /// Which kinds of `session/update` a proxy receives.
    pub updates: Option<Placed<Updates>>,
    /// The options of a built-in component. `conductor component NAME --help` describes them. Here their names have `_` in
    /// place of `-`.
    pub options: Options,
    /// The component is part of a chain only if this holds.
    pub when: Option<Placed<Condition>>,
}

/// A chain: proxies, and an agent.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Chain {
    /// The proxies, in the order in which messages of the editor pass through them: names of components, names of built-in
    /// components, and other chains.
    pub proxies: Option<Placed<Vec<Entry>>>,
    /// The agent: the name of a component or of a built-in agent. A chain without an agent can be a part of other chains.
    pub agent: Option<Placed<String>>,
    /// The options of this chain. They win over `settings` of the file.
    pub settings: Settings,
}

impl File {
    /// Reads a file.
    ///
    /// # Errors
    /// The file is not TOML, has an unknown key, or has a value of a wrong type.
    pub fn parse(source: &Source) -> Result<File, Diagnostic> {
        let file: File = source.parse()?;
        file.components.keys().try_for_each(|name| check_name("component", name))?;
        file.chains.keys().try_for_each(|name| check_name("chain", name))?;
        for component in file.components.values() {
            component.check()?;
        }
        let chains = file.chains.values().map(|it| &it.settings);
        let log_files =
            [&file.settings].into_iter().chain(chains).filter_map(|it| it.log_file.as_ref());
        log_files.into_iter().try_for_each(check_home)?;
        Ok(file)
    }
}

impl Component {
    fn check(&self) -> Result<(), Diagnostic> {
        if let Some(name) = self.env.keys().find(|it| it.is_empty() || it.contains(['=', '\0'])) {
            let why = "the name of a variable must not be empty or contain `=`";
            return Err(name.error(why));
        }
        let paths = self.command.iter().chain(&self.cwd);
        paths.chain(self.env_file.iter().flat_map(|it| &it.0)).try_for_each(check_home)?;
        let Some(command) = &self.command else { return Ok(()) };
        if command.trim().is_empty() {
            return Err(command.error("the command is empty").help("write a program"));
        }
        let words: Vec<&str> = command.split_whitespace().collect();
        // A path with spaces has a slash in its first word, which may also be that of a variable.
        let is_path = words.first().is_some_and(|it| it.contains(['/', '\\', '$']));
        if words.len() > 1 && !(is_path && command.contains(['/', '\\'])) {
            let args: Vec<String> = words[1..].iter().map(|it| format!("{it:?}")).collect();
            let help =
                format!("write `command = {:?}` and `args = [{}]`", words[0], args.join(", "));
            let help = match command.contains(['/', '\\']) {
                true => format!("{help}. A relative path with spaces begins with `./`"),
                false => help,
            };
            return Err(command.error("the command must be the program alone").help(help));
        }
        Ok(())
    }

    /// Adds the keys of another layer, which win. Tables are merged, and lists and values are replaced.
    pub fn merge(&mut self, over: Component) {
        fn take<T>(value: &mut Option<T>, over: Option<T>) {
            *value = over.or(value.take());
        }
        let Component { command, args, env, env_file, cwd, dialect, guard, .. } = over;
        let Component { on_crash, restarts, updates, options, when, .. } = over;
        take(&mut self.command, command);
        take(&mut self.args, args);
        take(&mut self.env_file, env_file);
        take(&mut self.cwd, cwd);
        take(&mut self.dialect, dialect);
        take(&mut self.guard, guard);
        take(&mut self.on_crash, on_crash);
        take(&mut self.restarts, restarts);
        take(&mut self.updates, updates);
        take(&mut self.when, when);
        replace_all(&mut self.env, env);
        node::merge(&mut self.options, options);
    }
}

impl Chain {
    /// Adds the keys of another layer, which win.
    pub fn merge(&mut self, over: Chain) {
        let Chain { proxies, agent, settings } = over;
        self.proxies = proxies.or(self.proxies.take());
        self.agent = agent.or(self.agent.take());
        self.settings.merge(settings);
    }
}

/// Adds the entries of a map. The new keys are kept as well, because their places belong to the new values.
fn replace_all<T>(map: &mut Named<T>, over: Named<T>) {
    for (key, value) in over {
        map.remove(&key);
        map.insert(key, value);
    }
}

/// A shell replaces `~` with the home of the user. Here it would be the name of a folder.
fn check_home(path: &Placed<String>) -> Result<(), Diagnostic> {
    let Some(rest) =
        path.strip_prefix('~').filter(|it| it.is_empty() || it.starts_with(['/', '\\']))
    else {
        return Ok(());
    };
    let variable = if cfg!(windows) { "USERPROFILE" } else { "HOME" };
    let help = format!("write `${{{variable}}}{rest}`");
    Err(path.error("`~` is not replaced with your home folder here").help(help))
}

/// Names are printed, and written on the command line.
fn check_name(what: &str, name: &Placed<String>) -> Result<(), Diagnostic> {
    let fits = |it: char| it.is_alphanumeric() || matches!(it, '-' | '_' | '.' | '@');
    let why = match name.as_str() {
        "" => "is empty",
        it if !it.chars().all(fits) => "may only contain letters, digits, `-`, `_`, `.` and `@`",
        it if it.chars().all(|it| it.is_ascii_digit()) => "must not be a number",
        it if it.starts_with('-') => "must not begin with `-`",
        it if it.chars().count() > 100 => "has more than 100 characters",
        _ => return Ok(()),
    };
    Err(name.error(format!("the name of a {what} {why}")))
}
