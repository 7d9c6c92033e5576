//! The options of `conductor chain`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

#[derive(Debug, Args)]
pub struct NamedChainArgs {
    #[command(subcommand)]
    pub command: NamedChainCommand,
}

#[derive(Debug, Subcommand)]
pub enum NamedChainCommand {
    /// List the chains of the configuration files.
    ///
    /// The default chain is marked. Each line has the components that are part of the chain in the folder, and where the chain
    /// is defined. The file of the project is used if you trust the project. Starts nothing.
    ///
    /// Exit status: 0; 1 if a file is wrong.
    List {
        #[command(flatten)]
        options: Folder,
    },

    /// Explain which components are part of a chain, and why.
    ///
    /// Evaluates the conditions of the chain in the folder, as a chain does when it starts. Each line has the position of the
    /// component, whether it is in the chain, the place of its entry, and the reason. Starts nothing.
    ///
    /// Exit status: 0; 1 if a file is wrong, or if there is no such chain.
    #[command(after_long_help = EXPLAIN_EXAMPLES)]
    Explain {
        /// The chain [default: the default chain].
        #[arg(value_name = "NAME")]
        chain: Option<String>,

        #[command(flatten)]
        options: Folder,
    },
}

/// Where a chain would start, and how it is printed.
#[derive(Debug, Args)]
pub struct Folder {
    /// The folder in which the chain would start [default: the current folder].
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    pub cwd: Option<PathBuf>,

    /// Print JSON. docs/conditions.md describes the fields.
    #[arg(long)]
    pub json: bool,
}

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  The default chain, in the current folder:
    conductor chain explain

  A chain, in another folder:
    conductor chain explain work --cwd ~/projects/shop

  The components that are left out, with jq:
    conductor chain explain work --json | jq '.entries[] | select(.included | not)'";
