//! The configuration of a chain, and the parsing of COMPONENT arguments.

mod json;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use acp_wire::dialect::Generation;
use client::payload::text_without_secrets;
use engine::{Facts, KeptTelemetry, Setup};
use router::{Chain, Component, Mode, UpdateFilter};
use serde::Deserialize;

use crate::crash_cache::CrashCache;
use crate::failure_policy::{FailurePolicy, OnCrash, Restarts, Updates};
use crate::greeting_cache::GreetingCache;
use crate::host::in_process::InProcess;
use crate::host::process::ProcessCleanup;
use crate::host::start_check::StartCheck;
use crate::journal::JournalFile;
use crate::managed_options::ManagedOptions;
use crate::reload::ReloadSource;
use crate::secret::random_token;
use crate::tap::Tap;

/// The configuration of a chain.
#[derive(Debug, Clone)]
pub struct Config {
    /// Whether the chain ends with an agent or is itself a proxy.
    pub mode: Mode,
    /// The components, starting at the editor.
    pub components: Vec<Spec>,
    /// Timeouts and sizes.
    pub limits: Limits,
    /// How MCP-over-ACP servers are offered to an agent that does not support MCP over ACP. With `None`
    /// declarations are not changed.
    pub mcp_bridge: Option<mcp::BridgePolicy>,
    /// What happens when a component fails.
    pub failure: FailurePolicy,
    /// How leftover processes of components are found and killed.
    pub cleanup: ProcessCleanup,
    /// Whether `conductor status` shows the chain. Chains are identified by process id, so a program
    /// should set this for one chain only.
    pub status: bool,
    /// Whether the chain is a component of another conductor. That conductor is informed if the chain
    /// contains a guard.
    pub nested: bool,
    /// Whether the outer peer is another conductor: it gets all log messages and metrics of the components as they are,
    /// and decides what the editor gets. It must be this program or use this library: other conductors do not decide.
    pub forwards_telemetry: bool,
    /// The name that the user has given to the chain. The chain tells it to those who ask.
    pub chain_name: Option<String>,
    /// The names of components whose log messages and metrics leave the chain only for an editor that has asked for
    /// them.
    pub keeps_telemetry_of: Vec<String>,
    /// Observes all messages of the chain.
    pub tap: Option<Tap>,
    /// Records one run of the chain.
    pub journal: Option<JournalFile>,
    /// What the editor shows at its first prompt, such as which part of the configuration is not used.
    pub start_notices: Vec<String>,
    /// Reads the configuration again. `None` if the chain has no configuration file: then it cannot be reloaded.
    pub reload: Option<ReloadSource>,
    /// Checks whether the peer on the outer streams has closed them, even if unread data is left.
    pub hung_up: Option<fn() -> bool>,
    /// Is called once a second with what the chain waits for, while it ends and in [`explain`](crate::explain()).
    pub report_wait: Option<fn(&str)>,
}

/// The timeouts and sizes of a chain.
#[derive(Debug, Clone)]
pub struct Limits {
    /// The time that each component has to answer `initialize`.
    pub initialize: Duration,
    /// The grace period at shutdown, for open requests and then for the components to exit.
    pub grace: Duration,
    /// The maximum length of a line, in bytes. Longer lines are rejected.
    pub max_line: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            initialize: Duration::from_secs(60),
            grace: Duration::from_secs(2),
            max_line: 256 * 1024 * 1024,
        }
    }
}

/// A file that a built-in component reads, such as rules, as it was when the component was configured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InputFile {
    /// Where the file is.
    pub path: PathBuf,
    /// The hash of its content. `None` if it could not be read.
    pub sha256: Option<[u8; 32]>,
}

/// How to start one component.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Spec {
    /// The name of the component in messages, logs and options. Unique in a chain.
    pub name: String,
    /// The program to run.
    pub program: String,
    /// The arguments of the program.
    pub args: Vec<String>,
    /// The options of a built-in component, in addition to those in its arguments.
    pub options: serde_json::Map<String, serde_json::Value>,
    /// Variables that are added to the environment of the conductor. Never shown, because they often
    /// contain secrets.
    pub env: Vec<(String, String)>,
    /// The working directory; by default that of the conductor.
    pub directory: Option<PathBuf>,
    /// The proxy protocol generation, if the user has set it.
    pub dialect: Option<Generation>,
    /// Set if the component runs in this process. The program and arguments are then only shown to the user.
    pub in_process: Option<InProcess>,
    /// The files that a built-in component reads. If one of them changes, a reload restarts the component.
    pub inputs: Vec<InputFile>,
    /// Set if the conductor keeps the options of the component: a built-in component.
    pub managed: Option<ManagedOptions>,
    /// Is asked directly before each start of the component.
    pub before_start: Option<StartCheck>,
    /// Whether the component is a guard (a filter, a rate limit, a permission check). Messages never
    /// bypass a guard.
    pub guard: bool,
    /// Whether the component collects the log messages and metrics of the chain. They then leave the chain only for an
    /// editor that has asked for them.
    pub collects_telemetry: bool,
    /// What to do if the component fails, if the user has set it.
    pub on_crash: Option<OnCrash>,
    /// How often the component may be restarted, if the user has set it.
    pub restarts: Option<Restarts>,
    /// Whether `on_crash` was set for this component by name, not for all components.
    pub on_crash_named: bool,
    /// Which kinds of `session/update` the component receives, if the user has set it.
    pub updates: Option<Updates>,
}

impl Config {
    /// A chain of these components with the default settings. Duplicate names get a suffix.
    pub fn new(mode: Mode, mut components: Vec<Spec>) -> Config {
        make_names_unique(&mut components);
        Config {
            mode,
            components,
            limits: Limits::default(),
            mcp_bridge: Some(mcp::BridgePolicy::Auto),
            failure: FailurePolicy::default(),
            cleanup: ProcessCleanup::default(),
            status: false,
            nested: mode == Mode::Proxy,
            forwards_telemetry: false,
            chain_name: None,
            keeps_telemetry_of: Vec::new(),
            tap: None,
            journal: None,
            start_notices: Vec::new(),
            reload: None,
            hung_up: None,
            report_wait: None,
        }
    }

    /// Takes over what does not come from a configuration, but from the program that runs the chain.
    pub(crate) fn keep_run_of(&mut self, running: &Config) {
        self.cleanup = running.cleanup;
        self.forwards_telemetry = running.forwards_telemetry;
        self.nested = running.nested;
        self.tap.clone_from(&running.tap);
        self.hung_up = running.hung_up;
        self.report_wait = running.report_wait;
        self.reload.clone_from(&running.reload);
    }

    /// Sets the proxy protocol generation of a component, given by number or name.
    ///
    /// # Errors
    /// There is no such component, or it is the agent.
    pub fn set_dialect(&mut self, component: &str, dialect: Generation) -> Result<(), String> {
        let index = self.index_of("--dialect", component)?;
        if self.is_agent(index) {
            return Err(format!(
                "--dialect: {} is the agent; only proxies have a dialect",
                self.components[index].name
            ));
        }
        self.components[index].dialect = Some(dialect);
        Ok(())
    }

    /// The index of the component with this number or name. `option` is named in the error.
    pub(crate) fn index_of(&self, option: &str, component: &str) -> Result<usize, String> {
        let index = match component.parse::<usize>() {
            Ok(number) => number.checked_sub(1).filter(|index| *index < self.components.len()),
            Err(_) => self.components.iter().position(|spec| spec.name == component),
        };
        index.ok_or_else(|| {
            let names: Vec<&str> = self.components.iter().map(|it| it.name.as_str()).collect();
            format!(
                "{option}: there is no component {component:?}; the components are {}",
                names.join(", ")
            )
        })
    }

    pub(crate) fn is_agent(&self, index: usize) -> bool {
        self.mode == Mode::Agent && index + 1 == self.components.len()
    }

    /// Whether the chain contains a proxy.
    pub(crate) fn has_proxies(&self) -> bool {
        (0..self.components.len()).any(|index| !self.is_agent(index))
    }

    /// The set-up of the core.
    pub(crate) fn setup(&self, greetings: &GreetingCache, crashes: &CrashCache) -> Setup {
        // In-process components use the SDK of this project, which speaks the current generation.
        let facts = self.components.iter().map(|spec| Facts {
            generation: spec.dialect.or(spec.in_process.as_ref().map(|_| Generation::CURRENT)),
            greeting: greetings.lookup(spec),
            poison: crashes.lookup(spec),
        });
        Setup {
            chain: self.chain(),
            rules: self.rules(),
            bridge: self.mcp_bridge,
            // Without a random source no endpoint can be opened either, so this value is not used.
            nonce: random_token().unwrap_or_default(),
            nested: self.nested,
            forwards_telemetry: self.forwards_telemetry,
            about: engine::About {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                chain: self.chain_name.clone(),
            },
            kept_telemetry: self.kept_telemetry(),
            max_line: self.limits.max_line,
            watermarks: engine::Watermarks::DEFAULT,
            facts: facts.collect(),
            tapped: self.tap.is_some()
                || self.in_process().any(InProcess::observes_messages)
                || tracing::enabled!(tracing::Level::DEBUG),
            start_notices: self.start_notices.clone(),
        }
    }

    fn kept_telemetry(&self) -> KeptTelemetry {
        if self.components.iter().any(|spec| spec.collects_telemetry) {
            return KeptTelemetry::All;
        }
        KeptTelemetry::Of(self.keeps_telemetry_of.clone())
    }

    /// The components that run in this process.
    pub(crate) fn in_process(&self) -> impl Iterator<Item = &InProcess> {
        self.components.iter().filter_map(|spec| spec.in_process.as_ref())
    }

    /// The description of the chain for the router.
    pub fn chain(&self) -> Chain {
        let components = self.components.iter().map(|spec| Component {
            name: spec.name.clone(),
            // Errors, reports and the status show the command.
            command: text_without_secrets(&spec.command_line()).into_owned(),
            guard: spec.guard,
            updates: spec.updates.map_or(UpdateFilter::Auto, |it| it.0),
            managed: spec.managed.is_some(),
        });
        Chain {
            mode: self.mode,
            components: components.collect(),
            order: Chain::first_order(self.components.len()),
            initialize_timeout: milliseconds(self.limits.initialize),
            grace: milliseconds(self.limits.grace),
            any_version: self
                .components
                .iter()
                .any(|spec| spec.dialect.is_some_and(Generation::any_version)),
        }
    }
}

pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Renames components with the same name to `name`, `name#2` and so on.
fn make_names_unique(components: &mut [Spec]) {
    let mut seen = BTreeMap::<String, usize>::new();
    for spec in components {
        let count = seen.entry(spec.name.clone()).or_default();
        *count += 1;
        if *count > 1 {
            spec.name = format!("{}#{count}", spec.name);
        }
    }
}

/// Omits the environment, which may contain secrets.
impl fmt::Debug for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spec")
            .field("name", &self.name)
            .field("command", &self.command_line())
            .field("directory", &self.directory)
            .field("dialect", &self.dialect.map(Generation::name))
            .finish_non_exhaustive()
    }
}

impl Spec {
    /// Parses a COMPONENT argument: a command line quoted as in a shell, or a JSON object.
    ///
    /// # Errors
    /// The text is neither, or it contains no command.
    pub fn parse(text: &str) -> Result<Spec, String> {
        let spec = match text.trim_start().starts_with('{') {
            true => json::parse(text)?,
            false => Spec::from_words(text)?,
        };
        if spec.program.is_empty() {
            let why = "it contains no command; write a program and its arguments, for example 'my-agent --acp'";
            return Err(why.into());
        }
        Ok(spec)
    }

    fn from_words(text: &str) -> Result<Spec, String> {
        let text = if cfg!(windows) { with_escaped_backslashes(text) } else { text.to_owned() };
        let words = shell_words::split(&text)
            .map_err(|_| "it has an unclosed quotation mark".to_owned())?;
        let mut words = words.into_iter().peekable();
        let mut env = Vec::new();
        while let Some(pair) = words.peek().and_then(|word| parse_assignment(word)) {
            env.push(pair);
            words.next();
        }
        let program = words.next().unwrap_or_default();
        let args: Vec<String> = words.collect();
        Ok(Spec { name: default_name(&program, &args), program, args, env, ..Spec::default() })
    }

    /// A component that runs in a thread of this process.
    pub fn in_process(name: impl Into<String>, in_process: InProcess) -> Spec {
        let name = name.into();
        Spec {
            program: format!("builtin:{name}"),
            name,
            in_process: Some(in_process),
            ..Spec::default()
        }
    }

    /// Parses the list of servers (in the form of ACP's stdio servers) that an SCP editor sends to its proxy.
    ///
    /// # Errors
    /// The text is not such a list, or the list is empty.
    pub fn from_servers(text: &str) -> Result<Vec<Spec>, String> {
        let servers: Vec<RawServer> = serde_json::from_str(text)
            .map_err(|error| format!("the list of servers in `_scp/proxy` is invalid: {error}"))?;
        if servers.is_empty() {
            return Err("the list of servers in `_scp/proxy` is empty".into());
        }
        let spec = |server: RawServer| Spec {
            name: server.name.unwrap_or_else(|| default_name(&server.command, &server.args)),
            program: server.command,
            args: server.args,
            env: server.env.into_iter().map(|pair| (pair.name, pair.value)).collect(),
            ..Spec::default()
        };
        Ok(servers.into_iter().map(spec).collect())
    }

    /// The command line, quoted for a shell. The environment is omitted.
    pub fn command_line(&self) -> String {
        shell_words::join(std::iter::once(&self.program).chain(&self.args))
    }
}

/// ACP's description of a stdio server. Other members are ignored.
#[derive(Deserialize)]
struct RawServer {
    name: Option<String>,
    command: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    env: Vec<RawPair>,
}

/// Parses the name of a proxy protocol generation.
///
/// # Errors
/// There is no such generation.
pub fn parse_dialect(name: &str) -> Result<Generation, String> {
    Generation::from_name(name).ok_or_else(|| {
        let names = Generation::ALL.map(Generation::name).join(", ");
        format!("there is no dialect {name:?}; the dialects are {names}")
    })
}

#[derive(Deserialize)]
struct RawPair {
    name: String,
    value: String,
}

/// Escapes backslashes, which separate directories on Windows, so that the shell word parser keeps them.
fn with_escaped_backslashes(text: &str) -> String {
    let mut escaped = String::new();
    let (mut single, mut double) = (false, false);
    for character in text.chars() {
        match character {
            '\'' if !double => single = !single,
            '"' if !single => double = !double,
            '\\' if !single => escaped.push('\\'),
            _ => {}
        }
        escaped.push(character);
    }
    escaped
}

/// Parses `NAME=value`, where NAME is a valid name of a shell variable.
fn parse_assignment(word: &str) -> Option<(String, String)> {
    let (name, value) = word.split_once('=')?;
    let mut letters = name.chars();
    let first = letters.next()?;
    let fits = (first.is_ascii_alphabetic() || first == '_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_');
    fits.then(|| (name.to_owned(), value.to_owned()))
}

/// The default name of a component: the program, or the script that an interpreter runs.
fn default_name(program: &str, args: &[String]) -> String {
    const INTERPRETERS: [&str; 11] =
        ["node", "python", "python3", "npx", "uvx", "bun", "bunx", "deno", "sh", "bash", "env"];
    let stem = |path: &str| {
        let name = Path::new(path).file_name().map_or(path.into(), |name| name.to_string_lossy());
        let stem = [".js", ".mjs", ".cjs", ".ts", ".py", ".sh", ".exe"]
            .iter()
            .find_map(|extension| name.strip_suffix(extension));
        stem.unwrap_or(&name).to_owned()
    };
    let name = stem(program);
    let script =
        args.iter().find(|arg| !arg.starts_with('-') && !arg.contains(char::is_whitespace));
    match script {
        Some(script) if INTERPRETERS.contains(&name.as_str()) => stem(script),
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_windows_a_backslash_is_part_of_a_path() {
        let split = |text: &str| shell_words::split(&with_escaped_backslashes(text)).unwrap();
        assert_eq!(split(r"C:\bin\agent.exe --to C:\x"), [r"C:\bin\agent.exe", "--to", r"C:\x"]);
        assert_eq!(split(r#""C:\My Agent\a.exe" x"#), [r"C:\My Agent\a.exe", "x"]);
        assert_eq!(split(r"'C:\My Agent\a.exe' \\host\x"), [r"C:\My Agent\a.exe", r"\\host\x"]);
    }

    #[test]
    fn a_component_is_a_command_line_quoted_as_in_a_shell() {
        let spec = Spec::parse("FOO=1 _B=x=y node ./proxy.js --flag 'a b' C=3").unwrap();
        assert_eq!(spec.env, [("FOO".into(), "1".into()), ("_B".into(), "x=y".into())]);
        assert_eq!(spec.program, "node");
        assert_eq!(spec.args, ["./proxy.js", "--flag", "a b", "C=3"]);
        assert_eq!(spec.name, "proxy");
        assert_eq!(spec.command_line(), "node ./proxy.js --flag 'a b' 'C=3'");
    }

    #[test]
    fn a_component_is_a_json_object_with_the_environment_as_map_or_list() {
        let map = r#"{"command":"a b","args":["c d"],"env":{"X":"1"},"cwd":"/tmp"}"#;
        let list =
            r#" {"command":"a b","args":["c d"],"env":[{"name":"X","value":"1"}],"cwd":"/tmp"}"#;
        let spec = Spec::parse(map).unwrap();
        assert_eq!(spec, Spec::parse(list).unwrap());
        assert_eq!((spec.program.as_str(), spec.name.as_str()), ("a b", "a b"));
        assert_eq!(spec.directory, Some("/tmp".into()));
        assert_eq!(spec.env, [("X".into(), "1".into())]);
    }

    #[test]
    fn an_invalid_component_is_rejected_with_the_reason() {
        let why = |text| Spec::parse(text).unwrap_err();
        assert!(why("'a").contains("unclosed"));
        assert!(why("").contains("no command"));
        assert!(why("A=1").contains("no command"));
        assert!(why(r#"{"args":[]}"#).contains("command"));
        assert!(why(r#"{"command":"a","arg":[]}"#).contains("arg"));
        assert!(why("{").contains("JSON"));
    }

    #[test]
    fn a_component_is_named_after_its_program_or_script_and_names_are_unique() {
        let name = |text| Spec::parse(text).unwrap().name;
        assert_eq!(name("/opt/bin/claude-code-acp --x"), "claude-code-acp");
        assert_eq!(name("npx -y @zed-industries/claude-code-acp"), "claude-code-acp");
        assert_eq!(name("python3 -u agent.py"), "agent");
        assert_eq!(name("sh -c 'exec agent'"), "sh");
        let specs = ["tee a", "tee b", "x"].map(|text| Spec::parse(text).unwrap());
        let config = Config::new(Mode::Agent, specs.to_vec());
        let names: Vec<_> = config.components.iter().map(|spec| spec.name.as_str()).collect();
        assert_eq!(names, ["tee", "tee#2", "x"]);
    }
}
