//! The options of `conductor spent`.

use std::path::PathBuf;

use clap::{Args, ValueHint};
use components::budget::report::Day;

#[derive(Debug, Args)]
pub struct SpentArgs {
    /// The day: a date such as 2026-11-16, or `yesterday` [default: today].
    pub day: Option<Day>,

    /// Show one line for each of the last N days that have entries, instead of the sessions of a day.
    #[arg(long, value_name = "N", conflicts_with = "day",
        value_parser = clap::value_parser!(u32).range(1..))]
    pub days: Option<u32>,

    /// Only this session.
    #[arg(long, value_name = "ID")]
    pub session: Option<String>,

    /// Print JSON: an array with one object for each day.
    #[arg(long)]
    pub json: bool,

    /// The folder of the ledger. Default: conductor/budget in $XDG_STATE_HOME, or in ~/.local/state.
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub ledger: Option<PathBuf>,
}

pub const SPENT_EXAMPLES: &str = "\
Examples:
  Today, by session:
    conductor spent

  The last 30 days:
    conductor spent --days 30

  The cost of today in USD, with jq:
    conductor spent --json | jq -r '.[].cost.USD'";
