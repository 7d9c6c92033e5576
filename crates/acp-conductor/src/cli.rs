//! The command line: commands, options and their documentation.

mod audit_args;
mod chain_args;
mod config_args;
mod named_chain_args;
mod spent_args;
mod studio_args;
mod trust_args;
mod try_args;

use std::path::PathBuf;
use std::time::Duration;

use acp_wire::ErrorKind;
use clap::builder::PossibleValuesParser;
use clap::{CommandFactory, Parser, Subcommand};

pub use audit_args::{AuditArgs, AuditCommand, ShowArgs, VerifyArgs};
pub use chain_args::{AgentArgs, ChainArgs, ProxyArgs};
pub use config_args::{ConfigArgs, ConfigCommand};
pub use named_chain_args::{Folder, NamedChainArgs, NamedChainCommand};
pub use spent_args::SpentArgs;
pub use studio_args::StudioArgs;
pub use trust_args::{TrustArgs, UntrustArgs};
pub use try_args::{Color, ShowWire, TryArgs};

use crate::completion::Shell;
use chain_args::{EXAMPLES, parse_interval};
use spent_args::SPENT_EXAMPLES;
use studio_args::STUDIO_EXAMPLES;
use trust_args::TRUST_EXAMPLES;
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
#[command(name = "conductor", version, max_term_width = 100, verbatim_doc_comment)]
#[command(disable_version_flag = true, override_usage = "conductor COMMAND")]
pub struct Cli {
    /// Print the version.
    #[arg(long, short = 'V')]
    pub version: bool,

    /// With --version, also print the commit, the target and the supported protocols.
    #[arg(long, short, requires = "version")]
    pub verbose: bool,

    #[command(subcommand)]
    pub command: Option<Command>,
}

/// The groups of commands in `conductor --help`. The last group has only names, so that the help fits on one screen.
const GROUPS: [(&str, &[&str]); 3] = [
    ("Run a chain, or a component", &["try", "studio", "agent", "proxy", "component"]),
    (
        "Set it up, and look at it",
        &["config", "chain", "trust", "status", "reload", "spent", "audit", "components", "errors"],
    ),
    ("Also", &["demo-agent", "untrust", "completions", "man"]),
];

/// The position of a command in `conductor --help`.
pub fn position(command: &str) -> Option<usize> {
    GROUPS.iter().flat_map(|(_, names)| *names).position(|name| *name == command)
}

/// The command line with its help text. The commands are in groups, and the text fits on one screen.
pub fn command() -> clap::Command {
    let command = Cli::command();
    let mut help = String::from(
        "Runs an ACP agent behind a chain of proxies. Start with `conductor try`.\n\n\
         {usage-heading} {usage}; `conductor help COMMAND` describes a command\n",
    );
    let (rest, groups) = GROUPS.split_last().unwrap_or((&("", &[]), &[]));
    for (title, names) in groups {
        help += &format!("\n{title}:\n");
        for name in *names {
            let Some(subcommand) = command.find_subcommand(name) else { continue };
            let about = subcommand.get_about().map(ToString::to_string).unwrap_or_default();
            help += &format!("  {name:<11}  {}\n", about.trim_end_matches('.'));
        }
    }
    let (title, names) = rest;
    help += &format!("\n{title}: {}. Options: -h, --help; -V, --version\n", names.join(", "));
    command.help_template(help)
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
    /// or the configuration is invalid.
    #[command(after_long_help = EXAMPLES)]
    Agent(AgentArgs),

    /// Run a chain that is itself a proxy of another conductor
    ///
    /// Every COMPONENT is a proxy. The successor of the last one is the component that follows in the
    /// outer chain. Chains can be nested to any depth:
    ///
    ///     conductor agent "conductor proxy 'a' 'b'" c agent
    #[command(verbatim_doc_comment)]
    Proxy(ProxyArgs),

    /// Chat with an agent in the terminal, through a chain of proxies.
    ///
    /// Without COMPONENTs, the chain is the built-in `demo-agent`, which follows a script. Nothing needs
    /// to be installed, and nothing leaves this machine. With COMPONENTs, the chain consists of these,
    /// written as for `conductor agent`. The components run as they would under an editor.
    ///
    /// Enter a prompt, or a command: /help lists the commands. The commands of the agent work as well.
    /// Lines that you enter while the agent is working are sent afterwards. Ctrl-C interrupts the agent,
    /// and pressed again leaves the chat; so does Ctrl-D. If the agent asks for permission, press the key
    /// of your choice.
    ///
    /// The agent may read and write files in the folder of the session, and run commands. Files outside
    /// of the folder need your permission.
    ///
    /// If standard input or output is not a terminal, each line of standard input is a prompt or a
    /// command. In this case and with --prompt, requests for permission are rejected unless --yes is
    /// given.
    ///
    /// Exit status: 0 if you exit the chat, 1 if the chain failed or (without a terminal) an answer was
    /// an error, 2 if the command line is invalid, 130 if interrupted.
    #[command(after_long_help = TRY_EXAMPLES)]
    Try(TryArgs),

    /// Work with a chain on a web page: chat, files and panels.
    ///
    /// The page is served on this machine only, unless --allow-remote is given. Its address, which is
    /// printed and opened in a browser, contains a secret. The agent works in the folder of the project:
    /// other files need your permission. Without COMPONENT and --chain, the chain is the demo agent, which needs no account and no network.
    ///
    /// Exit status: 0 if you end it, 1 if the page cannot be served, 2 if the command line is invalid.
    #[command(after_long_help = STUDIO_EXAMPLES)]
    Studio(StudioArgs),

    #[command(about = "Run the scripted agent that `conductor try` uses")]
    DemoAgent(components::demo::DemoAgent),

    /// List the built-in components.
    Components,

    /// Explain an error.
    ///
    /// Each error of conductor ends with the command that explains it, such as `conductor errors crashed`.
    /// Without CODE, all errors are listed.
    Errors {
        /// The error, as it is written at the end of the message.
        #[arg(value_parser = PossibleValuesParser::new(ErrorKind::ALL.iter().map(|it| it.code())),
            hide_possible_values = true)]
        code: Option<String>,
    },

    /// Run a built-in component as a separate process.
    ///
    /// The component speaks ACP on standard input and output. Use this to run a built-in component
    /// under another conductor, or with its own environment and working directory.
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

    /// Allow the configuration file of a project to run its components.
    ///
    /// The file `.conductor.toml` of a project is not used before you have agreed to it. This command shows what the file
    /// would run, and asks. Your consent applies to the file as it is now, to its env-files, and to each file in the project
    /// that a component names. If one of them changes, the file is not used until you have agreed again.
    ///
    /// Exit status: 0 if you trust the project; 1 if you do not, or if it cannot be asked because standard input is not a
    /// terminal.
    #[command(after_long_help = TRUST_EXAMPLES)]
    Trust(TrustArgs),

    /// Forget that you trust a project.
    ///
    /// A running chain goes on until `conductor reload`. A new chain does not use the file of the project.
    ///
    /// Exit status: 0, also if you did not trust the project; 1 if the record cannot be removed.
    Untrust(UntrustArgs),

    /// Show the running conductors and their components.
    ///
    /// Lists each chain that you run with `conductor agent`, `proxy`, `try` or `studio`: its process id,
    /// uptime, directory and number of open requests. For each component it shows the
    /// state, process id, number of restarts, bytes waiting to be read and number of unanswered
    /// requests. If a component has exited, the exit status and the last lines of its standard error
    /// follow.
    ///
    /// Each chain answers on a socket that only its user can open, in $XDG_RUNTIME_DIR/conductor or in
    /// the temporary directory. Messages and environment variables are never shown. A chain that was
    /// started with `--status off` is not listed.
    ///
    /// With --watch on a terminal, the table is refreshed in place until you press q or Ctrl-C. Into a
    /// pipe or a file, a new table is written each time that it has changed, after a line that begins with
    /// `---`.
    ///
    /// Exit status: 0, also if no conductor is running; 1 if PID is given and that conductor does not
    /// answer.
    #[command(after_long_help = STATUS_EXAMPLES)]
    Status {
        /// Show only the conductor with this process id.
        pid: Option<u32>,

        /// Print JSON: an array with one object per conductor.
        ///
        /// docs/status.md describes the fields. With --watch, a line with such an array for each change.
        #[arg(long)]
        json: bool,

        /// Refresh the output at this interval, in seconds, until you stop it [default: 2].
        #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true,
            default_missing_value = "2", value_parser = parse_interval)]
        watch: Option<Duration>,
    },

    /// Let running chains read their configuration again.
    ///
    /// A chain that was started from a configuration file reads its files again, and changes what has changed: proxies
    /// are added, removed, restarted, or change places. The agent and all sessions stay. The chain changes
    /// while it is at rest, which means that no request is open: the command waits for the end of a running turn.
    /// If the configuration cannot be used, the chain runs on as it was. For `conductor agent` and `conductor proxy`, SIGHUP
    /// does the same, and the result is in the log. It ends `conductor try` and `conductor studio`.
    ///
    /// Without PID, all chains that come from a configuration file reload it.
    ///
    /// Exit status: 0 if the configuration is used, 1 if a chain does not use it, or no chain was found.
    Reload {
        /// The process id of the conductor (see `conductor status`).
        pid: Option<u32>,

        /// Do not wait for components that leave the chain or are restarted, such as one that hangs.
        ///
        /// They are ended at once, and their open requests fail as after a crash. The other components are not disturbed.
        #[arg(long)]
        now: bool,

        /// Print JSON: an array with one object per conductor.
        #[arg(long)]
        json: bool,
    },

    /// Show, check and edit the configuration files.
    ///
    /// The file of the user and the file of the project define components and chains. docs/configuration.md describes them.
    Config(ConfigArgs),

    /// List the chains of the configuration files, and explain them.
    ///
    /// A component can have a condition, and is part of a chain only where the condition holds. docs/conditions.md describes
    /// conditions.
    Chain(NamedChainArgs),

    /// Show the tokens and costs that `budget` has recorded.
    ///
    /// Without DAY, it shows what was consumed today: a line for each session, and the sum. Numbers with `at
    /// least` or `about` are not exact, because the agent does not report everything. A turn of unknown consumption runs,
    /// was lost in a crash, or failed before the agent had reported anything. docs/budget.md says what each agent reports.
    ///
    /// Exit status: 0, also if nothing is recorded; 1 if the ledger cannot be read.
    #[command(after_long_help = SPENT_EXAMPLES)]
    Spent(SpentArgs),

    /// Verify and show the audit log of the built-in components.
    ///
    /// Components such as `permissions` write what they decide to the file that `--audit FILE` names. Each
    /// record has the hash of the record before it. docs/audit.md describes the format, and what the hashes
    /// show and do not show.
    Audit(AuditArgs),

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
    #[command(hide = true)]
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

    /// Print a completion script for a shell.
    ///
    /// The script completes commands, options and their values, the built-in components with their
    /// options, and the process ids of running conductors. It runs `conductor`, which must be on the PATH.
    #[command(after_long_help = COMPLETIONS_EXAMPLES)]
    Completions {
        /// The shell.
        shell: Shell,
    },

    /// Print the candidates for the last word of a command line.
    ///
    /// The completion scripts run this command.
    #[command(hide = true)]
    Complete {
        shell: Shell,
        #[arg(last = true)]
        words: Vec<String>,
    },

    /// Print the manual page.
    ///
    /// Without COMMAND, one page describes all commands.
    #[command(after_long_help = MAN_EXAMPLES)]
    Man {
        /// Print the page of this command.
        command: Option<String>,

        /// Write the pages conductor.1, conductor-agent.1 and so on into this directory instead.
        #[arg(long, value_name = "DIRECTORY", conflicts_with = "command",
            value_hint = clap::ValueHint::DirPath)]
        dir: Option<PathBuf>,
    },
}

const COMPLETIONS_EXAMPLES: &str = "\
Examples:
  Bash, with the package bash-completion:
    conductor completions bash > ~/.local/share/bash-completion/completions/conductor

  Zsh, in a directory of the variable fpath:
    conductor completions zsh > ~/.zfunc/_conductor

  Fish:
    conductor completions fish > ~/.config/fish/completions/conductor.fish

  PowerShell, in the profile:
    conductor completions powershell | Out-String | Invoke-Expression

  Elvish, in rc.elv:
    eval (conductor completions elvish | slurp)";

const MAN_EXAMPLES: &str = "\
Examples:
  Read the page:
    conductor man | man -l -

  Install the pages:
    conductor man --dir ~/.local/share/man/man1";

const STATUS_EXAMPLES: &str = "\
Examples:
  All conductors:
    conductor status

  All conductors, refreshed every 2 seconds:
    conductor status --watch

  The components that have unanswered requests, with jq:
    conductor status --json | jq '.[].components[] | select(.queue.owes > 0) | .name'";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_definition_is_valid() {
        command().debug_assert();
    }

    #[test]
    fn every_command_is_internal_or_in_a_group_of_the_help() {
        for command in command().get_subcommands() {
            let grouped = position(command.get_name()).is_some();
            assert_eq!(grouped, !command.is_hide_set(), "{}", command.get_name());
        }
    }
}
