//! The options of `conductor trust` and `conductor untrust`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

#[derive(Debug, Args)]
pub struct TrustArgs {
    /// A folder of the project. Default: the current folder.
    #[arg(value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,

    /// Trust the project without a question, for scripts.
    #[arg(long, short)]
    pub yes: bool,

    /// List the projects that you trust.
    #[arg(long, conflicts_with_all = ["dir", "yes"])]
    pub list: bool,

    /// With --list: print JSON, an array with one object for each project.
    #[arg(long, requires = "list")]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct UntrustArgs {
    /// A folder of the project. Default: the current folder.
    #[arg(value_hint = ValueHint::DirPath)]
    pub dir: Option<PathBuf>,

    /// Forget all projects.
    #[arg(long, conflicts_with = "dir")]
    pub all: bool,
}

pub const TRUST_EXAMPLES: &str = "\
Examples:
  Look at the file of this project, and decide:
    conductor trust

  The projects that you trust, with jq:
    conductor trust --list --json | jq -r '.[].root'";
