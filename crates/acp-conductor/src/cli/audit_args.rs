//! The options of `conductor audit`.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Args, Subcommand, ValueHint};
use components::audit::{Timestamp, parse_time};

#[derive(Debug, Args)]
pub struct AuditArgs {
    #[command(subcommand)]
    pub command: AuditCommand,
}

#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// Verify the hashes, the order, the links between files, and the head.
    ///
    /// Prints the first line that is wrong, and what the verification cannot know. Also verifies the rotated
    /// files (`audit-000001.jsonl`), and the logs of runs at the same time (`audit.2.jsonl`).
    ///
    /// Exit status: 0 if everything is right, 1 if something is wrong or cannot be read.
    Verify(VerifyArgs),

    /// Show records as a table.
    ///
    /// All filters must fit. The oldest record is the first. The hashes are not verified.
    ///
    /// Exit status: 0, also if no record fits; 1 if the log cannot be read.
    #[command(after_long_help = SHOW_EXAMPLES)]
    Show(ShowArgs),
}

const SHOW_EXAMPLES: &str = "\
Examples:
  What was denied in the last day:
    conductor audit show --decision deny --since 1d

  The commands of a session, with jq:
    conductor audit show --session s1 --json | jq -r .what.command";

#[derive(Debug, Args)]
pub struct VerifyArgs {
    /// The log. Default: audit.jsonl in $XDG_STATE_HOME/conductor, or in ~/.local/state/conductor.
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,

    /// A file with the key of the log. Repeatable, if the key has changed.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub key_file: Vec<PathBuf>,

    /// A file with a head that was kept elsewhere: what the head command of the log received.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub head: Option<PathBuf>,

    /// Print JSON: an array with one object for each log.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ShowArgs {
    /// The log. Default: audit.jsonl in $XDG_STATE_HOME/conductor, or in ~/.local/state/conductor.
    #[arg(value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,

    /// Only this session: its id, or the beginning of it.
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,

    /// Only this decision: allow, deny or ask.
    #[arg(long, value_parser = PossibleValuesParser::new(["allow", "deny", "ask"]),
        hide_possible_values = true)]
    pub decision: Option<String>,

    /// Only rules whose name, or FILE:LINE, contains this text.
    #[arg(long, value_name = "TEXT")]
    pub rule: Option<String>,

    /// Only this event, such as decision, asked, hook or limit.
    #[arg(long)]
    pub event: Option<String>,

    /// Only records from this time on: 2026-11-16T14:00:00Z, 2026-11-16, or an age such as 2h.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub since: Option<Timestamp>,

    /// Only records before this time.
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub until: Option<Timestamp>,

    /// Show at most this many of the newest records.
    #[arg(long, value_name = "COUNT", default_value_t = 1000)]
    pub limit: usize,

    /// Print the records as lines of JSON.
    #[arg(long)]
    pub json: bool,
}
