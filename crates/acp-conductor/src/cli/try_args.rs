//! The options of `conductor try`.

use std::path::PathBuf;

use clap::Args;

use super::chain_args::ChainOptions;

pub const TRY_EXAMPLES: &str = "\
Examples:
  Chat with the demo agent through a proxy, and show the messages between them:
    conductor try --show-wire -- sparkle demo-agent

  Send one prompt and exit:
    conductor try --prompt 'Which tools do you have?'

  The texts of an answer, with jq:
    conductor try --json --prompt hello | jq -r 'select(.type == \"update\").update.content.text?'

  Chat through your own chain:
    conductor try -- sparkle 'npx -y @agentclientprotocol/claude-agent-acp'

  Try a proxy that you are writing with the demo agent:
    conductor try -- 'cargo run --quiet' demo-agent";

/// The arguments of `conductor try`.
#[derive(Debug, Args)]
pub struct TryArgs {
    /// Send this prompt and exit after the answer. Repeatable.
    #[arg(long, value_name = "TEXT")]
    pub prompt: Vec<String>,

    /// Grant every permission that the agent requests, without asking.
    ///
    /// This includes files outside of the folder of the session.
    #[arg(long, short)]
    pub yes: bool,

    /// The folder of the session [default: the current folder].
    ///
    /// The agent may read and write files in this folder. Other files need your permission.
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,

    /// Give the session an MCP server. Repeatable.
    ///
    /// NAME=COMMAND runs a command line, quoted as in a shell. NAME=URL is a server with streamable
    /// HTTP. A JSON object is passed on as ACP declares it, such as
    /// {"name": "files", "command": "/bin/mcp", "args": [], "env": []}.
    #[arg(long, value_name = "SERVER")]
    pub mcp_server: Vec<String>,

    /// Resume an earlier session. Its messages are not shown.
    #[arg(long, value_name = "ID", conflicts_with = "load")]
    pub resume: Option<String>,

    /// Load an earlier session, and show its messages.
    #[arg(long, value_name = "ID")]
    pub load: Option<String>,

    /// Print JSON: one object per line, for each prompt, update, permission, end of a turn, and error.
    ///
    /// docs/try.md describes the objects. Prompts are read from standard input, or given with --prompt.
    #[arg(long, conflicts_with = "plain")]
    pub json: bool,

    /// Use plain text also on a terminal: no line editor, and nothing is redrawn.
    ///
    /// Suits screen readers.
    #[arg(long)]
    pub plain: bool,

    /// Do not read or write the history of prompts.
    #[arg(long)]
    pub no_history: bool,

    /// The ACP version to request from the agent.
    #[arg(long, value_name = "VERSION", default_value_t = 1,
        value_parser = clap::value_parser!(u8).range(1..=2))]
    pub protocol: u8,

    /// Show each message on each hop: time, sender, receiver, method, number and payload.
    ///
    /// A request and its answers have the same number on all hops. An answer also has its duration.
    /// In a terminal, payloads are shortened, and only the first chunk of a streamed text is shown.
    /// In a pipe, payloads are whole. `--show-wire=all` shows everything. Secrets are hidden.
    #[arg(long, value_name = "WHICH", num_args = 0..=1, require_equals = true,
        default_missing_value = "folded", hide_possible_values = true)]
    pub show_wire: Option<ShowWire>,

    /// Use colors: `always`, `never` or `auto` (on a terminal, unless NO_COLOR is set).
    #[arg(long, value_name = "WHEN", default_value = "auto", hide_possible_values = true)]
    pub color: Color,

    /// What to log: error, warn, info, debug, trace, off, or a filter [default: info].
    ///
    /// A filter is a list such as `warn,acp_conductor=debug`.
    #[arg(long, value_name = "LEVEL|FILTER", env = "CONDUCTOR_LOG")]
    pub log: Option<String>,

    /// Write the log and the standard error of the components to this file.
    ///
    /// Without this option both are discarded. The built-in component `log`, which otherwise writes to
    /// standard error, writes to this file as well. Without this option it writes to a file of its own,
    /// and the chat says where. PATH must be a regular file that you own, not a symbolic
    /// link, or a device in /dev.
    #[arg(long, value_name = "PATH")]
    pub log_file: Option<PathBuf>,

    /// Record the chain in this file, so that the run can be replayed.
    ///
    /// The journal contains every line that is read or written, including secrets. Other users cannot
    /// read the file. An existing journal is overwritten.
    #[arg(long, value_name = "PATH")]
    pub journal: Option<PathBuf>,

    /// The chain, written as for `conductor agent`: proxies, then the agent.
    #[arg(value_name = "COMPONENT")]
    pub components: Vec<String>,

    #[command(flatten, next_help_heading = "Chain options")]
    pub chain: ChainOptions,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum ShowWire {
    Folded,
    All,
}

#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum Color {
    Auto,
    Always,
    Never,
}
