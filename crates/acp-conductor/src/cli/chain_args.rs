//! The options of the commands that run a chain, and the parsers of their values.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use acp_conductor::configuration::{Options, Run};
use acp_conductor::failure_policy::{ForComponent, OnCrash, Restarts, Updates};
use acp_wire::dialect::Generation;

pub const EXAMPLES: &str = "\
Examples:
  One agent, no proxy:
    conductor agent claude-agent-acp

  Two proxies before the agent. The second has an environment variable and arguments:
    conductor agent sparkle 'LEVEL=debug node ./tee.js --to \"my log\"' claude-agent-acp

  A component as JSON:
    conductor agent '{\"command\": \"my-agent\", \"args\": [\"--acp\"], \"env\": {\"KEY\": \"…\"}, \"cwd\": \"/\"}'

  A chain of the configuration file, and the default chain:
    conductor agent --chain work
    conductor agent";

/// The arguments of `conductor agent`.
#[derive(Debug, Args)]
pub struct AgentArgs {
    #[command(flatten)]
    pub options: ChainArgs,

    /// Start the chain, print the protocol and capabilities of each component, and exit.
    #[arg(long)]
    pub explain: bool,

    /// Print the output of --explain as JSON.
    #[arg(long, requires = "explain")]
    pub json: bool,

    /// The proxies in order, and then the agent.
    ///
    /// Each COMPONENT is one argument: a whole command line, quoted as in a shell. Leading NAME=value words
    /// set environment variables. Instead of a command line, a COMPONENT can be the name of a built-in
    /// component with its options (see `conductor components`), or a JSON object with the key `command` and optionally
    /// `name`, `args`, `options` (of a built-in component), `env` (an object, or an array of
    /// {name, value}), `cwd`, `dialect`, `guard`, `onCrash`, `restarts` and `updates`.
    ///
    /// Without COMPONENT and --chain, the default chain of the configuration file runs. A single COMPONENT can be the
    /// name of a chain, if there is no program and no built-in component of that name.
    #[arg(value_name = "COMPONENT")]
    pub components: Vec<String>,
}

/// The arguments of `conductor proxy`.
#[derive(Debug, Args)]
pub struct ProxyArgs {
    #[command(flatten)]
    pub options: ChainArgs,

    /// A proxy, written as for `conductor agent`.
    ///
    /// Without any, and without --chain, every message passes through unchanged.
    #[arg(value_name = "COMPONENT")]
    pub components: Vec<String>,
}

/// The options of `conductor agent` and `conductor proxy`.
#[derive(Debug, Args)]
pub struct ChainArgs {
    #[command(flatten)]
    pub chain: ChainOptions,

    /// What to log: error, warn, info, debug, trace, off, or a filter [default: warn].
    ///
    /// A filter is a list such as `warn,acp_conductor=debug`. Payloads are never logged,
    /// except for the log messages that components send.
    #[arg(long, value_name = "LEVEL|FILTER", env = "CONDUCTOR_LOG")]
    pub log: Option<String>,

    /// Write the log to this file instead of standard error.
    ///
    /// The standard error of the components still goes to conductor's standard error, each line
    /// prefixed with the name of the component. PATH must be a regular file that you own, not a
    /// symbolic link, or a device in /dev. Other users cannot read the file.
    #[arg(long, value_name = "PATH")]
    pub log_file: Option<PathBuf>,

    /// Record the chain in this file, so that the run can be replayed.
    ///
    /// The journal contains every line that is read or written and every event, including secrets.
    /// PATH must be a regular file that you own, not a symbolic link. Other users cannot read the file.
    /// An existing journal is overwritten.
    #[arg(long, value_name = "PATH")]
    pub journal: Option<PathBuf>,
}

/// The options of every command that runs a chain.
#[derive(Debug, Args)]
pub struct ChainOptions {
    /// Run this chain of the configuration file, in place of COMPONENTs.
    ///
    /// `conductor config show` lists the chains. The other options win over the settings of the file. docs/configuration.md
    /// describes the file.
    #[arg(long, value_name = "NAME", conflicts_with = "components")]
    pub chain: Option<String>,

    /// Set the proxy protocol generation of a proxy instead of probing for it. Repeatable.
    ///
    /// COMPONENT is its number (starting at 1) or name. NAME is P5 (current), P4, P3, P3t, P2, P1 or P0
    /// (SCP). Same as `"dialect"` in the JSON of a component.
    #[arg(long, value_name = "COMPONENT=NAME", value_parser = parse_dialect)]
    pub dialect: Vec<(String, Generation)>,

    /// How to offer MCP-over-ACP servers to an agent that does not support MCP over ACP [default: auto].
    ///
    /// `stdio`: the agent runs `conductor mcp PORT`.
    ///
    /// `http`: the agent connects by streamable HTTP on loopback.
    ///
    /// `auto`: the transport that the agent declares, with built-in exceptions for known agents. If the
    /// agent does not connect, the other transport is tried.
    ///
    /// `off`: declarations of servers are not changed.
    #[arg(long, value_name = "HOW", hide_possible_values = true)]
    pub mcp_bridge: Option<McpBridge>,

    /// What to do if a component crashes once the chain is up. Repeatable.
    ///
    /// `restart`: start it again, repeat the handshake, and replay the set-up requests of the live
    /// sessions. The other components are not affected.
    ///
    /// `bypass`: continue without the component. If the component is named, this also applies before
    /// its first answer to `initialize`.
    ///
    /// `stop`: end the chain.
    ///
    /// `restart,bypass` and `restart,stop`: restart it, and bypass or stop if it crashes too often.
    ///
    /// COMPONENT is a number or name. Without it, the option applies to every component that is not
    /// named. Same as `"onCrash"` in the JSON of a component.
    ///
    /// By default, proxies use `restart,bypass` and guards use `restart,stop`. The agent is restarted if
    /// it supports session/resume or session/load; otherwise the chain stops.
    #[arg(long, value_name = "[COMPONENT=]WHAT", help_heading = FAILURE_HEADING)]
    pub on_crash: Vec<ForComponent<OnCrash>>,

    /// Mark a proxy as a guard, which must not be bypassed. Repeatable.
    ///
    /// Use it for filters, rate limits and permission checks. While a guard is down, messages wait. A
    /// guard is bypassed only if --on-crash names it. Same as `"guard": true` in the JSON of a
    /// component.
    #[arg(long, value_name = "COMPONENT", help_heading = FAILURE_HEADING)]
    pub guard: Vec<String>,

    /// Which kinds of session/update a proxy receives: `all` or `known`. Repeatable.
    ///
    /// `known`: only those that the SDKs of its generation can parse. The others go around the proxy,
    /// in order. This is the default for the generations P3 and P4, whose SDKs crash on unknown
    /// updates.
    ///
    /// `all`: every message goes to the proxy, even if it has crashed on that kind of message before.
    ///
    /// COMPONENT is a number or name. Without it, the option applies to every proxy that is not named.
    /// Messages never go around a guard. Same as `"updates"` in the JSON of a component.
    #[arg(long, value_name = "[COMPONENT=]WHICH", help_heading = FAILURE_HEADING)]
    pub updates: Vec<ForComponent<Updates>>,

    /// The maximum number of restarts within a number of seconds [default: 5/60]. Repeatable.
    ///
    /// The count resets after a minute of uptime. Same as `"restarts"` in the JSON of a component.
    #[arg(long, value_name = "[COMPONENT=]COUNT/SECONDS", help_heading = FAILURE_HEADING)]
    pub restarts: Vec<ForComponent<Restarts>>,

    /// The delay before a restart, in seconds [default: 0.1..10].
    ///
    /// The first restart waits up to FIRST. The delay doubles with each further restart, up to LONGEST.
    /// A random part is subtracted.
    #[arg(long, value_name = "FIRST..LONGEST", value_parser = parse_delay, help_heading = FAILURE_HEADING)]
    pub restart_delay: Option<(Duration, Duration)>,

    /// Restart a component that does not answer a request within this many seconds [default: off].
    ///
    /// Applies only if the component is not waiting for another one. Prompts and other long requests
    /// have a separate option, --prompt-limit. `off`: wait forever.
    #[arg(long, value_name = "SECONDS|off", value_parser = parse_limit, help_heading = FAILURE_HEADING)]
    pub answer_limit: Option<Limit>,

    /// Restart a component that is silent for this many seconds during a long request [default: off].
    ///
    /// Long requests are prompts, requests to MCP servers, session set-up and logins. `off`: wait
    /// forever.
    #[arg(long, value_name = "SECONDS|off", value_parser = parse_limit, help_heading = FAILURE_HEADING)]
    pub prompt_limit: Option<Limit>,

    /// Answer a cancelled request that the component has not answered after this many seconds [default: 120].
    ///
    /// After session/cancel, the component is restarted as well. After $/cancel_request, which a
    /// component may ignore, its late answer is dropped. `off`: wait forever.
    #[arg(long, value_name = "SECONDS|off", value_parser = parse_limit, help_heading = FAILURE_HEADING)]
    pub cancel_limit: Option<Limit>,

    /// Whether the editor shows notices about failed components: `on` or `off` [default: on].
    #[arg(long, value_name = "SWITCH", hide_possible_values = true, help_heading = FAILURE_HEADING)]
    pub notices: Option<Switch>,

    /// The timeout for each component to answer `initialize`, in seconds [default: 60].
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub init_timeout: Option<Duration>,

    /// The grace period at shutdown, in seconds [default: 2].
    ///
    /// When the chain ends, conductor waits this long for open requests. Then it closes the standard
    /// input of the components, sends SIGTERM after half of this time, and SIGKILL after the other
    /// half.
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds)]
    pub grace: Option<Duration>,

    /// Whether `conductor status` shows this chain: `on` or `off` [default: on].
    #[arg(long, value_name = "SWITCH", hide_possible_values = true)]
    pub status: Option<Switch>,

    /// The maximum length of a line, in bytes, with a suffix K, M or G [default: 256M].
    ///
    /// Longer lines are rejected.
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub max_line: Option<usize>,
}

impl ChainOptions {
    /// The options that are set, with those about the log.
    pub fn options(&self, log: Option<&String>, log_file: Option<&PathBuf>) -> Options {
        let is_on = |it: Switch| it == Switch::On;
        Options {
            dialect: self.dialect.clone(),
            guard: self.guard.clone(),
            on_crash: self.on_crash.clone(),
            updates: self.updates.clone(),
            restarts: self.restarts.clone(),
            mcp_bridge: self.mcp_bridge.map(McpBridge::policy),
            restart_delay: self.restart_delay,
            answer_limit: self.answer_limit.map(|it| it.0),
            prompt_limit: self.prompt_limit.map(|it| it.0),
            cancel_limit: self.cancel_limit.map(|it| it.0),
            notices: self.notices.map(is_on),
            init_timeout: self.init_timeout,
            grace: self.grace,
            status: self.status.map(is_on),
            max_line: self.max_line,
            log: log.cloned(),
            log_file: log_file.cloned(),
        }
    }

    /// What to run: the chain that is named, or these components. Without both, it is `default`.
    pub fn run(&self, components: &[String], default: impl FnOnce() -> Run) -> Run {
        match &self.chain {
            Some(name) => Run::Chain(name.clone()),
            None if components.is_empty() => default(),
            None => Run::Components(components.to_vec()),
        }
    }
}

/// The help heading of the options about failures.
const FAILURE_HEADING: &str = "Failure options";

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Switch {
    On,
    Off,
}

/// A time limit, or `None` for no limit.
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
    /// The policy of the MCP broker; `None` turns the bridge off.
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
    let (component, name) = text.split_once('=').ok_or("expected COMPONENT=NAME, such as 1=P3")?;
    Ok((component.to_owned(), acp_conductor::config::parse_dialect(name)?))
}

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 =
        text.parse().map_err(|_| "expected a number of seconds, such as 60 or 0.5")?;
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| "the number of seconds is negative or too large".into())
}

/// Parses the interval of `conductor status --watch`.
pub fn parse_interval(text: &str) -> Result<Duration, String> {
    let interval = parse_seconds(text)?;
    match interval >= Duration::from_millis(100) {
        true => Ok(interval),
        false => Err("the interval is shorter than 0.1 seconds".into()),
    }
}

fn parse_limit(text: &str) -> Result<Limit, String> {
    match text {
        "off" => Ok(Limit(None)),
        text => match parse_seconds(text)? {
            Duration::ZERO => Err("expected more than 0 seconds, or `off` for no limit".into()),
            limit => Ok(Limit(Some(limit))),
        },
    }
}

fn parse_delay(text: &str) -> Result<(Duration, Duration), String> {
    let (first, longest) =
        text.split_once("..").ok_or("expected FIRST..LONGEST, such as 0.1..10")?;
    let (first, longest) = (parse_seconds(first)?, parse_seconds(longest)?);
    match first <= longest {
        true => Ok((first, longest)),
        false => Err("FIRST is greater than LONGEST".into()),
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
    let number: usize =
        digits.parse().map_err(|_| "expected a size such as 1000000, 64K or 256M")?;
    match number.checked_mul(1 << shift) {
        Some(size) if size > 0 => Ok(size),
        _ => Err("the size is 0 or too large".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations_are_parsed() {
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
            parse_limit("on").is_err()
                && parse_limit("0").is_err()
                && parse_delay("1").is_err()
                && parse_delay("5..1").is_err()
        );
    }
}
