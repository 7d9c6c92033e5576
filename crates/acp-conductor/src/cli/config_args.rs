//! The options of `conductor config`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueHint};

#[derive(Debug, Args)]
pub struct ConfigArgs {
    #[command(subcommand)]
    pub command: ConfigCommand,
}

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Show the configuration, with the file and line of each value.
    ///
    /// The file of the project is part of it if you trust the project. The values of environment variables are hidden.
    ///
    /// Exit status: 0; 1 if a file is wrong.
    #[command(after_long_help = SHOW_EXAMPLES)]
    Show {
        /// Show only this chain, as it would run in the current folder.
        #[arg(value_name = "CHAIN")]
        chain: Option<String>,

        /// Print JSON.
        #[arg(long)]
        json: bool,
    },

    /// Check a configuration file.
    ///
    /// Checks the keys, the types, the names in all chains, and the options of built-in components. Starts nothing, and
    /// evaluates no condition. Without FILE, it checks the file of the user and the file of the project.
    ///
    /// Exit status: 0 if everything is right, 1 if something is wrong.
    Check {
        /// The file.
        #[arg(value_hint = ValueHint::FilePath)]
        file: Option<PathBuf>,
    },

    /// Print the path of the configuration file.
    ///
    /// Exit status: 0, also if the file does not exist; 1 if there is no project with such a file.
    Path {
        /// The file of the project that contains the current folder.
        #[arg(long)]
        project: bool,
    },

    /// Print the JSON Schema of a configuration file, with the options of all built-in components.
    Schema,

    /// Edit the configuration file.
    ///
    /// Runs $VISUAL or $EDITOR. If the file does not exist, it is created with examples as comments. Afterwards the file is
    /// checked. A file with errors stays as you have saved it.
    ///
    /// Exit status: 0 if the file is right, 1 if it has errors or cannot be edited.
    Edit {
        /// Edit `.conductor.toml` of the project that contains the current folder, or create it in the current folder.
        #[arg(long)]
        project: bool,
    },
}

const SHOW_EXAMPLES: &str = "\
Examples:
  The files, merged:
    conductor config show

  The program of each component, with jq:
    conductor config show --json | jq '.components | map_values(.command.value)'";
