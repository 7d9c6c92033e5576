//! The command line: what a user can type, and its documentation.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

use acp_conductor::failure_policy::{ForComponent, OnCrash, Restarts, Updates};
use acp_wire::dialect::Generation;

/// Composes an ACP agent out of proxies and an agent.
///
/// An editor starts conductor in place of its agent. Conductor starts a chain of proxies and the
/// agent, sits between all of them, and routes every message:
///
///     editor ⇄ conductor ⇄ proxy 1 … proxy n ⇄ agent
///
/// A proxy can change, add, answer or hold messages in both directions. The editor sees an ordinary
/// agent, the agent sees an ordinary editor.
#[derive(Debug, Parser)]
#[command(name = "conductor", version, max_term_width = 100)]
#[command(verbatim_doc_comment, after_long_help = EXAMPLES)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a chain of proxies that ends with an agent.
    ///
    /// The last COMPONENT is the agent, those before it are proxies, in the order in which the
    /// editor's messages pass through them. Talks ACP with the editor on standard input and output.
    ///
    /// Ends with status 0 when the editor leaves, 1 when the chain failed, 2 for a mistake on the
    /// command line.
    #[command(after_long_help = EXAMPLES)]
    Agent(AgentArgs),

    /// Run a chain of proxies that is itself a proxy of another conductor.
    ///
    /// Every COMPONENT is a proxy; whoever follows in the outer chain is the successor of the last
    /// one. Chains nest to any depth:
    ///
    ///     conductor agent "conductor proxy 'a' 'b'" c agent
    #[command(verbatim_doc_comment)]
    Proxy(ProxyArgs),

    /// Talk to an agent, here in the terminal, through a real chain.
    ///
    /// Without COMPONENTs the chain is `conductor component sparkle`, a proxy that comes with
    /// conductor, and `conductor demo-agent`, an agent with a script: nothing has to be installed,
    /// and nothing leaves this machine. With COMPONENTs it is theirs, written as for `conductor
    /// agent`. The components run as they would under an editor; the chat is the editor.
    ///
    /// Answers are shown as they are streamed, thoughts dim, each tool call in a line with ✓ or ✗,
    /// plans as lists. When the agent asks for permission, type the number of your choice. Ctrl-C
    /// interrupts an answer (and a second time leaves), at the prompt it clears the line; Ctrl-D
    /// leaves; the arrow keys edit the line and bring back earlier ones. The chat offers the agent
    /// neither files nor terminals.
    ///
    /// If standard input or output is no terminal, each line of standard input is a prompt. There and
    /// with --prompt nobody can be asked, so the agent is refused what it asks permission for, unless
    /// --yes says otherwise.
    ///
    /// Ends with status 0 when you leave, 1 when the chain failed or, where nobody is asked, an answer
    /// was an error, 2 for a mistake on the command line, and 130 when interrupted.
    #[command(after_long_help = TRY_EXAMPLES)]
    Try(TryArgs),

    DemoAgent(components::demo::DemoAgent),

    /// List the components that come with conductor.
    Components,

    /// Run a component that comes with conductor on its own, as a proxy on standard input and output.
    ///
    /// So it can be a component of any other conductor, or of ours as a process.
    #[command(disable_help_flag = true)]
    Component {
        /// See `conductor components`.
        name: String,

        /// The component's own options; --help tells them.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTION")]
        options: Vec<String>,
    },

    /// Show what the running conductors are doing.
    ///
    /// For each conductor of yours that runs a chain (`conductor agent`, `conductor proxy` and
    /// `conductor try`): its process, how long it has been running, where, and how many requests are
    /// open in it; and of each component its state, its process, how often it was started again, how
    /// much waits until it reads it, and how many answers it owes. Below a component that has ended:
    /// how, and its last words on standard error.
    ///
    /// A chain is asked through a socket that only its user can open, in $XDG_RUNTIME_DIR/conductor
    /// or else in the directory for temporary files. Nothing that passes through the chain is shown, nor
    /// a component's environment. A chain that was started with `--status off` has no socket and is
    /// not shown.
    ///
    /// Ends with status 0, also when no conductor runs; with status 1 if PID is given and no conductor
    /// of that process id answers.
    #[command(after_long_help = STATUS_EXAMPLES)]
    Status {
        /// Show only the conductor with this process id.
        pid: Option<u32>,

        /// As JSON: a list with an object for each conductor. docs/status.md tells its fields.
        #[arg(long)]
        json: bool,
    },

    /// Be the MCP server that a running conductor has declared to its agent.
    ///
    /// Agents start this by themselves: a conductor whose proxies offer tools tells the agent to run
    /// `conductor mcp PORT` as an MCP server. It joins its standard input and output to the conductor
    /// that listens on that port of this machine, line by line, until either side closes.
    ///
    /// The conductor lets in only who knows a secret, which it puts into the declaration's
    /// environment as CONDUCTOR_SECRET. Without that variable the two streams are joined as they are:
    /// to any service that speaks newline-delimited JSON on loopback.
    ///
    /// Ends with status 0 when a side closes, and with status 1 and a line that says why when there
    /// is no conductor to connect to.
    Mcp {
        /// The port on 127.0.0.1.
        #[arg(value_parser = clap::value_parser!(u16).range(1..))]
        port: u16,
    },

    /// Join standard input and output to a running conductor on loopback.
    ///
    /// Started by SCP proxies, on our behalf, in place of their successor.
    #[command(hide = true)]
    Relay {
        port: u16,
    },

    /// Print a completion script for a shell.
    ///
    ///     conductor completions bash > ~/.local/share/bash-completion/completions/conductor
    #[command(verbatim_doc_comment)]
    Completions {
        shell: Shell,
    },

    /// Print the manual page.
    ///
    ///     conductor man | man -l -
    #[command(verbatim_doc_comment)]
    Man,
}

const EXAMPLES: &str = "\
Examples:
  One agent, no proxy:
    conductor agent claude-code-acp

  Two proxies before the agent, one of them with a setting and an argument:
    conductor agent sparkle-acp 'LEVEL=debug node ./tee.js --to \"my log\"' claude-code-acp

  A component as JSON:
    conductor agent '{\"command\": \"my-agent\", \"args\": [\"--acp\"], \"env\": {\"KEY\": \"…\"}, \"cwd\": \"/\"}'";

#[derive(Debug, Args)]
pub struct AgentArgs {
    #[command(flatten)]
    pub options: ChainArgs,

    /// Start the chain, show what each component turned out to speak and can do, and end.
    #[arg(long)]
    pub explain: bool,

    /// With --explain: as JSON.
    #[arg(long, requires = "explain")]
    pub json: bool,

    /// A proxy or, at last, the agent: a command line in shell words, in one argument; or the name of a
    /// built-in component and its options (see `conductor components`). Leading
    /// NAME=value words are environment. Or a JSON object with `command` and, if wanted, `name`,
    /// `args`, `env` (an object, or a list of {name, value}), `cwd`, `dialect`, `guard`, `onCrash`,
    /// `restarts` and `updates`.
    #[arg(required = true, value_name = "COMPONENT")]
    pub components: Vec<String>,
}

#[derive(Debug, Args)]
pub struct ProxyArgs {
    #[command(flatten)]
    pub options: ChainArgs,

    /// A proxy, written as for `conductor agent`. None at all is a proxy that passes everything on.
    #[arg(value_name = "COMPONENT")]
    pub components: Vec<String>,
}

const STATUS_EXAMPLES: &str = "\
Examples:
  All conductors:
    conductor status

  Who owes answers, with jq:
    conductor status --json | jq '.[].components[] | select(.queue.owes > 0) | .name'";

const TRY_EXAMPLES: &str = "\
Examples:
  Chat with the demo agent, and see what passes between the components:
    conductor try --show-wire

  Ask one thing and end:
    conductor try --prompt 'Which tools do you have?'

  A chain of your own:
    conductor try -- sparkle 'npx -y @zed-industries/claude-code-acp'

  A proxy that you are writing, before the demo agent:
    conductor try -- 'cargo run --quiet' demo-agent";

#[derive(Debug, Args)]
pub struct TryArgs {
    /// Say this and end after the answer. May be given several times: one prompt after the other.
    #[arg(long, value_name = "TEXT")]
    pub prompt: Vec<String>,

    /// Allow whatever the agent asks permission for, without asking you.
    #[arg(long, short)]
    pub yes: bool,

    /// The version of ACP to ask the agent for.
    #[arg(long, value_name = "VERSION", default_value_t = 1,
        value_parser = clap::value_parser!(u8).range(1..=2))]
    pub protocol: u8,

    /// Show each message on its way from one to the next: who sends it to whom, its method and id, and
    /// the beginning of its payload. The pieces of a text that is streamed are only counted, after the
    /// first; `--show-wire=all` shows all of them.
    #[arg(long, value_name = "WHICH", num_args = 0..=1, require_equals = true,
        default_missing_value = "folded", hide_possible_values = true)]
    pub show_wire: Option<ShowWire>,

    /// Colours: `always`, `never`, or `auto`: on a terminal, unless NO_COLOR is set.
    #[arg(long, value_name = "WHEN", default_value = "auto", hide_possible_values = true)]
    pub color: Colour,

    /// What to log: error, warn, info, debug, trace or off; or a filter such as
    /// `warn,acp_conductor=debug`.
    #[arg(long, value_name = "LEVEL|FILTER", default_value = "info", env = "CONDUCTOR_LOG")]
    pub log: String,

    /// Write the log, and what components write on their standard error, to this file. Without it
    /// they go nowhere. It has to be a regular file of yours, not a link, or something in /dev.
    #[arg(long, value_name = "PATH")]
    pub log_file: Option<PathBuf>,

    /// The chain, written as for `conductor agent`: proxies and, at last, the agent.
    #[arg(value_name = "COMPONENT")]
    pub components: Vec<String>,

    #[command(flatten, next_help_heading = "How the chain is run")]
    pub chain: ChainOptions,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum ShowWire {
    Folded,
    All,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum Colour {
    Auto,
    Always,
    Never,
}

#[derive(Debug, Args)]
pub struct ChainArgs {
    #[command(flatten)]
    pub chain: ChainOptions,

    /// What to log: error, warn, info, debug, trace or off; or a filter such as
    /// `warn,acp_conductor=debug`. Payloads are never logged.
    #[arg(long, value_name = "LEVEL|FILTER", default_value = "warn", env = "CONDUCTOR_LOG")]
    pub log: String,

    /// Write the log to this file instead of standard error. What components write on their
    /// standard error still goes to ours, each line behind the component's name. It has to be a
    /// regular file of yours, not a link, or something in /dev; others cannot read it afterwards.
    #[arg(long, value_name = "PATH")]
    pub log_file: Option<PathBuf>,

    /// Write a journal of the chain to this file: every line that is read and written, and every event,
    /// so that the run can be replayed. The journal holds everything that is said, secrets included. It has to be a
    /// regular file of yours, not a link; others cannot read it afterwards. An older journal in the
    /// file is replaced.
    #[arg(long, value_name = "PATH")]
    pub journal: Option<PathBuf>,
}

/// How a chain is run.
#[derive(Debug, Args)]
pub struct ChainOptions {
    /// Say which generation of the proxy protocol a proxy speaks, instead of finding out.
    /// COMPONENT is its number (from 1) or its name; NAME is P5 (current), P4, P3, P3t, P2, P1 or P0
    /// (SCP). May be given several times. The same as `"dialect"` in a component's JSON.
    #[arg(long, value_name = "COMPONENT=NAME", value_parser = parse_dialect)]
    pub dialect: Vec<(String, Generation)>,

    /// How to offer the MCP servers of proxies, and of the editor, that are reached over ACP itself to
    /// an agent that does not speak MCP over ACP: `stdio` (the agent starts `conductor mcp PORT`),
    /// `http` (streamable HTTP on loopback), or `auto`: what the agent says it takes, what is known
    /// of it, and the other when it does not connect. `off` edits nothing.
    #[arg(long, value_name = "HOW", default_value = "auto", hide_possible_values = true)]
    pub mcp_bridge: McpBridge,

    /// What becomes of a component that crashes, once the chain stands: `restart` (a fresh one is
    /// started in its place, is greeted, and is told of the live sessions; nobody else notices),
    /// `bypass` (the chain goes on without it; also before it has ever answered `initialize`, if it is
    /// named), `stop` (the chain ends); `restart,bypass` and
    /// `restart,stop` say what follows when it crashes too often. COMPONENT is its number or its name;
    /// without it, the word is for all that are not named. May be given several times. The same as
    /// `"onCrash"` in a component's JSON.
    ///
    /// By default proxies are restarted and then left out, guards are restarted and then the chain
    /// stops, and the agent is restarted if it can take its sessions up again (session/resume or
    /// session/load), else the chain stops.
    #[arg(long, value_name = "[COMPONENT=]WHAT", help_heading = FAILURE_HEADING)]
    pub on_crash: Vec<ForComponent<OnCrash>>,

    /// A component that is there to keep something from passing: a filter, a limit, a permission. While
    /// it is away nothing passes, and it is never left out unless --on-crash names it. The same as
    /// `"guard": true` in a component's JSON.
    #[arg(long, value_name = "COMPONENT", help_heading = FAILURE_HEADING)]
    pub guard: Vec<String>,

    /// Which kinds of session/update a proxy is sent: `all`, or `known`: those that the SDKs of its
    /// generation can read. The others go around it, in order. Without this option they go around
    /// proxies of the generations P3 and P4, whose SDKs end with an update that they do not know. With
    /// `all`, nothing goes around the proxy at all, also not what it has crashed on before. COMPONENT is
    /// its number or its name; without it, the word is for all that are not named. Nothing ever goes
    /// around a guard. The same as `"updates"` in a component's JSON.
    #[arg(long, value_name = "[COMPONENT=]WHICH", help_heading = FAILURE_HEADING)]
    pub updates: Vec<ForComponent<Updates>>,

    /// How often a component may be restarted in how many seconds (default 5/60). The
    /// count resets after a minute of uptime. The same as `"restarts"` in a component's JSON.
    #[arg(long, value_name = "[COMPONENT=]COUNT/SECONDS", help_heading = FAILURE_HEADING)]
    pub restarts: Vec<ForComponent<Restarts>>,

    /// How long to wait before a restart, in seconds: FIRST at most before the first one, twice as long
    /// before each further one, up to LONGEST; less a random part.
    #[arg(long, value_name = "FIRST..LONGEST", default_value = "0.1..10", value_parser = parse_delay,
        help_heading = FAILURE_HEADING)]
    pub restart_delay: (Duration, Duration),

    /// Restart a component that has not answered a request for so many seconds and waits for nobody
    /// itself. Not for what takes its time: see --prompt-limit. `off`: wait for ever.
    #[arg(long, value_name = "SECONDS|off", default_value = "off", value_parser = parse_limit,
        help_heading = FAILURE_HEADING)]
    pub answer_limit: Limit,

    /// The same for a prompt, a request for an MCP server, one that sets a session up, and a login, while
    /// the component gives no sign of life.
    #[arg(long, value_name = "SECONDS|off", default_value = "off", value_parser = parse_limit,
        help_heading = FAILURE_HEADING)]
    pub prompt_limit: Limit,

    /// Answer in place of a component that goes on for so many seconds with what was cancelled. After
    /// session/cancel it is restarted, too. After $/cancel_request, which it may ignore, its late answer is
    /// dropped.
    #[arg(long, value_name = "SECONDS|off", default_value = "120", value_parser = parse_limit,
        help_heading = FAILURE_HEADING)]
    pub cancel_limit: Limit,

    /// Whether the editor shows what became of a component: `on` or `off`.
    #[arg(long, value_name = "SWITCH", default_value = "on", hide_possible_values = true,
        help_heading = FAILURE_HEADING)]
    pub notices: Switch,

    /// How long a component may take with its part of `initialize`, in seconds.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = parse_seconds)]
    pub init_timeout: Duration,

    /// How long open requests are waited for when the chain ends, and then the components: they get
    /// half of this time after their input was closed, the other half after SIGTERM; then they are
    /// killed.
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = parse_seconds)]
    pub grace: Duration,

    /// Whether `conductor status` can ask this chain how it is, through a socket that only its user
    /// can open: `on` or `off`.
    #[arg(long, value_name = "SWITCH", default_value = "on", hide_possible_values = true)]
    pub status: Switch,

    /// The longest line that is read, in bytes (suffixes K, M, G). A longer one is refused.
    #[arg(long, value_name = "SIZE", default_value = "256M", value_parser = parse_size)]
    pub max_line: usize,
}

/// The heading of the options about failure.
const FAILURE_HEADING: &str = "When a component fails";

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Switch {
    On,
    Off,
}

/// A time that may be set to nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit(pub Option<Duration>);

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum McpBridge {
    Off,
    Stdio,
    Http,
    Auto,
}

impl McpBridge {
    pub fn policy(self) -> Option<mcp::BridgePolicy> {
        match self {
            McpBridge::Off => None,
            McpBridge::Stdio => Some(mcp::BridgePolicy::Only(mcp::Transport::Stdio)),
            McpBridge::Http => Some(mcp::BridgePolicy::Only(mcp::Transport::Http)),
            McpBridge::Auto => Some(mcp::BridgePolicy::Auto),
        }
    }
}

fn parse_dialect(text: &str) -> Result<(String, Generation), String> {
    let (component, name) = text.split_once('=').ok_or("write COMPONENT=NAME, such as 1=P3")?;
    Ok((component.to_owned(), acp_conductor::config::dialect(name)?))
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "give a number of seconds, such as 60 or 0.5")?;
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| "give a number of seconds that is not negative".into())
}

fn parse_limit(text: &str) -> Result<Limit, String> {
    match text {
        "off" => Ok(Limit(None)),
        text => parse_seconds(text).map(|limit| Limit(Some(limit))),
    }
}

fn parse_delay(text: &str) -> Result<(Duration, Duration), String> {
    let (first, longest) = text.split_once("..").ok_or("write FIRST..LONGEST, such as 0.1..10")?;
    let (first, longest) = (parse_seconds(first)?, parse_seconds(longest)?);
    match first <= longest {
        true => Ok((first, longest)),
        false => Err("the first delay is longer than the longest".into()),
    }
}

fn parse_size(text: &str) -> Result<usize, String> {
    let text = text.strip_suffix("iB").or_else(|| text.strip_suffix('B')).unwrap_or(text);
    let (digits, shift) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 10),
        Some((at, 'm' | 'M')) => (&text[..at], 20),
        Some((at, 'g' | 'G')) => (&text[..at], 30),
        _ => (text, 0),
    };
    let number: usize = digits.parse().map_err(|_| "give a size such as 1000000, 64K or 256M")?;
    match number.checked_mul(1 << shift) {
        Some(size) if size > 0 => Ok(size),
        _ => Err("give a size between 1 and what fits in memory".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn sizes_and_times_are_read_as_people_write_them() {
        assert_eq!(parse_size("256M"), Ok(256 << 20));
        assert_eq!(parse_size("64KiB"), Ok(64 << 10));
        assert_eq!(parse_size("7"), Ok(7));
        assert!(
            parse_size("0").is_err()
                && parse_size("x").is_err()
                && parse_size("99999999999999G").is_err()
        );
        assert_eq!(parse_seconds("0.5"), Ok(Duration::from_millis(500)));
        assert!(parse_seconds("-1").is_err() && parse_seconds("soon").is_err());
        assert_eq!(parse_limit("off"), Ok(Limit(None)));
        assert_eq!(parse_limit("2"), Ok(Limit(Some(Duration::from_secs(2)))));
        assert_eq!(parse_delay("0.1..2"), Ok((Duration::from_millis(100), Duration::from_secs(2))));
        assert!(
            parse_limit("on").is_err() && parse_delay("1").is_err() && parse_delay("5..1").is_err()
        );
    }
}
