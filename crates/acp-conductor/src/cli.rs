//! The command line: commands, options and their documentation.

mod chain_args;
mod try_args;

use clap::{Parser, Subcommand};
use clap_complete::Shell;

pub use chain_args::{AgentArgs, ChainArgs, ChainOptions, ProxyArgs, Switch};
pub use try_args::{Color, ShowWire, TryArgs};

use chain_args::EXAMPLES;
use try_args::TRY_EXAMPLES;

/// Runs an ACP agent behind a chain of proxies.
///
/// An editor starts conductor instead of its agent. Conductor starts the proxies and the agent, and
/// routes every message between them:
///
///   editor ⇄ conductor ⇄ proxy 1 … proxy n ⇄ agent
///
/// A proxy can change, add, answer or hold messages in both directions. To the editor the chain is an
/// ordinary agent, and to the agent it is an ordinary editor.
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
    /// The last COMPONENT is the agent. The COMPONENTs before it are proxies, in the order in which
    /// messages from the editor pass through them. Conductor speaks ACP with the editor on standard
    /// input and output.
    ///
    /// Exit status: 0 if the editor closed the connection, 1 if the chain failed, 2 if the command line
    /// is invalid.
    #[command(after_long_help = EXAMPLES)]
    Agent(AgentArgs),

    /// Run a chain of proxies that is itself a proxy of another conductor
    ///
    /// Every COMPONENT is a proxy. The successor of the last one is the component that follows in the
    /// outer chain. Chains can be nested to any depth:
    ///
    ///     conductor agent "conductor proxy 'a' 'b'" c agent
    #[command(verbatim_doc_comment)]
    Proxy(ProxyArgs),

    /// Chat with an agent in the terminal, through a chain of proxies.
    ///
    /// Without COMPONENTs, the chain consists of the built-in proxy `sparkle` and the built-in
    /// `demo-agent`, which follows a script. Nothing needs to be installed, and nothing leaves this
    /// machine. With COMPONENTs, the chain consists of these, written as for `conductor agent`. The
    /// components run as they would under an editor.
    ///
    /// Answers are shown as they are streamed. Thoughts are dimmed, tool calls take one line each with
    /// ✓ or ✗, and plans are lists. If the agent asks for permission, type the number of your choice.
    /// Ctrl-C interrupts an answer, and pressed again exits. At the prompt, Ctrl-C clears the line and
    /// Ctrl-D exits. The arrow keys edit the line and browse the history. The chat does not offer the
    /// agent access to files or terminals.
    ///
    /// If standard input or output is not a terminal, each line of standard input is a prompt. In this
    /// case and with --prompt, requests for permission are rejected unless --yes is given.
    ///
    /// Exit status: 0 if you exit the chat, 1 if the chain failed or (without a terminal) an answer was
    /// an error, 2 if the command line is invalid, 130 if interrupted.
    #[command(after_long_help = TRY_EXAMPLES)]
    Try(TryArgs),

    DemoAgent(components::demo::DemoAgent),

    /// List the built-in components.
    Components,

    /// Run a built-in component as a separate process, on standard input and output.
    ///
    /// Use this to run a built-in component under another conductor, or with its own environment and
    /// working directory.
    #[command(disable_help_flag = true)]
    Component {
        /// The name of the component (see `conductor components`).
        // `main` handles `--help` instead of a name. Flags after the name belong to the component.
        #[arg(allow_hyphen_values = true)]
        name: String,

        /// The options of the component (see `conductor component NAME --help`).
        #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTION")]
        options: Vec<String>,
    },

    /// Show the running conductors and their components.
    ///
    /// Lists each chain that you run with `conductor agent`, `conductor proxy` or `conductor try`: its
    /// process id, uptime, directory and number of open requests. For each component it shows the
    /// state, process id, number of restarts, bytes waiting to be read and number of unanswered
    /// requests. If a component has exited, the exit status and the last lines of its standard error
    /// follow.
    ///
    /// Each chain answers on a socket that only its user can open, in $XDG_RUNTIME_DIR/conductor or in
    /// the temporary directory. Messages and environment variables are never shown. A chain that was
    /// started with `--status off` is not listed.
    ///
    /// Exit status: 0, also if no conductor is running; 1 if PID is given and that conductor does not
    /// answer.
    #[command(after_long_help = STATUS_EXAMPLES)]
    Status {
        /// Show only the conductor with this process id.
        pid: Option<u32>,

        /// Print JSON: an array with one object per conductor.
        ///
        /// docs/status.md describes the fields.
        #[arg(long)]
        json: bool,
    },

    /// Connect an MCP client to a running conductor.
    ///
    /// Agents run this command; you do not need to. If proxies offer tools and the agent does not
    /// support MCP over ACP, conductor declares `conductor mcp PORT` to the agent as a stdio MCP
    /// server. The command copies lines between its standard streams and the conductor that listens on
    /// the port, until either side closes the connection.
    ///
    /// The declaration also sets CONDUCTOR_SECRET, which authenticates the connection. If the variable
    /// is not set, the command copies lines to and from any service that speaks newline-delimited JSON
    /// on that port.
    ///
    /// Exit status: 0 if either side closed the connection, 1 if the connection failed.
    Mcp {
        /// The port on 127.0.0.1.
        #[arg(value_parser = clap::value_parser!(u16).range(1..))]
        port: u16,
    },

    /// Connect standard input and output to a running conductor.
    ///
    /// SCP proxies run this command as their successor.
    #[command(hide = true)]
    Relay {
        /// The port on 127.0.0.1.
        port: u16,
    },

    /// Print a completion script for a shell
    ///
    ///     conductor completions bash > ~/.local/share/bash-completion/completions/conductor
    #[command(verbatim_doc_comment)]
    Completions {
        /// The shell.
        shell: Shell,
    },

    /// Print the manual page
    ///
    ///     conductor man | man -l -
    #[command(verbatim_doc_comment)]
    Man,
}

const STATUS_EXAMPLES: &str = "\
Examples:
  All conductors:
    conductor status

  The components that have unanswered requests, with jq:
    conductor status --json | jq '.[].components[] | select(.queue.owes > 0) | .name'";

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_definition_is_valid() {
        Cli::command().debug_assert();
    }
}
