//! The options of `conductor studio`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;

use super::chain_args::ChainOptions;

pub const STUDIO_EXAMPLES: &str = "\
Examples:
  The demo agent, with a tool for walkthroughs:
    conductor studio -- walkthrough demo-agent

  Your own chain, in another folder:
    conductor studio --cwd ~/src/project -- sparkle 'npx -y @agentclientprotocol/claude-agent-acp'";

/// The arguments of `conductor studio`.
#[derive(Debug, Args)]
pub struct StudioArgs {
    /// The folder of the project [default: the current folder].
    ///
    /// The agent may read and write files in this folder. Other files need your permission.
    #[arg(long, value_name = "DIR")]
    pub cwd: Option<PathBuf>,

    /// The port of the page. 0 is any free port.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    pub port: u16,

    /// Do not open the page in a browser. Its address is printed in any case.
    #[arg(long)]
    pub no_open: bool,

    /// The address to listen on. Anything but loopback also needs --allow-remote.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub listen: IpAddr,

    /// Allow connections from other machines.
    ///
    /// The connection is not encrypted. Everybody who sees the address of the page can run commands as you.
    #[arg(long)]
    pub allow_remote: bool,

    /// What to log: error, warn, info, debug, trace, off, or a filter [default: warn].
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
    /// The journal contains every line that is read or written, including secrets. Other users cannot
    /// read the file. An existing journal is overwritten.
    #[arg(long, value_name = "PATH")]
    pub journal: Option<PathBuf>,

    /// The chain, written as for `conductor agent`: proxies, then the agent [default: the demo agent].
    #[arg(value_name = "COMPONENT")]
    pub components: Vec<String>,

    #[command(flatten, next_help_heading = "Chain options")]
    pub chain: ChainOptions,
}
