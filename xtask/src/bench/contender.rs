//! The compared programs, and the command that starts each.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::tool::Transport;
use crate::cache::{Profile, PublishedCrate};

/// The reference conductor and its version.
pub const REFERENCE: PublishedCrate = PublishedCrate {
    name: "agent-client-protocol-conductor",
    version: "5.0.0",
    profile: Profile::Release,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Contender {
    Ours,
    Reference,
    Floor,
}

impl Contender {
    pub fn name(self) -> &'static str {
        match self {
            Self::Ours => "conductor",
            Self::Reference => "reference",
            Self::Floor => "floor",
        }
    }
}

/// The purpose of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    Prompts,
    /// The first proxy has tools, which the agent reaches over this transport.
    Tools(Transport),
}

/// The paths of the programs.
#[derive(Debug)]
pub struct Programs {
    pub ours: PathBuf,
    pub reference: Option<PathBuf>,
    /// The folder of the stubs.
    pub stubs: PathBuf,
}

impl Programs {
    /// The programs in the order of this round. Another one is first in each round.
    pub fn contenders(&self, round: usize) -> Vec<Contender> {
        let mut all = vec![Contender::Ours, Contender::Floor];
        if self.reference.is_some() {
            all.insert(1, Contender::Reference);
        }
        let first = round % all.len();
        all.rotate_left(first);
        all
    }

    /// The command for a chain of `proxies` stub proxies and the stub agent.
    pub fn command(&self, contender: Contender, proxies: usize, purpose: Purpose) -> Command {
        let conductor = match contender {
            Contender::Ours => &self.ours,
            Contender::Reference => self.reference.as_ref().unwrap_or(&self.ours),
            Contender::Floor => {
                let mut command = Command::new(self.stubs.join("stub_relay"));
                match purpose {
                    Purpose::Prompts => command.arg(proxies.to_string()),
                    // The stub agent, which answers, takes the place of the first proxy.
                    Purpose::Tools(Transport::Stdio) => {
                        command.args(["--through", &(proxies - 1).to_string()])
                    }
                    // With HTTP, there is no process between the client and the conductor.
                    Purpose::Tools(Transport::Http) => command.arg((proxies - 1).to_string()),
                };
                return command;
            }
        };
        let mut command = Command::new(conductor);
        command.arg("agent");
        let proxy = shell_word(&self.stubs.join("stub_proxy"));
        let mut chain = vec![proxy.clone(); proxies];
        if let (Purpose::Tools(transport), Some(first)) = (purpose, chain.first_mut()) {
            command.args(["--mcp-bridge", transport.name()]);
            *first = format!("{proxy} --tools");
        }
        command.args(chain);
        command.arg(shell_word(&self.stubs.join("stub_agent")));
        // A log filter of the developer would change the figures.
        command.env_remove("RUST_LOG");
        command
    }
}

/// A component is one argument that is split like a shell command.
fn shell_word(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}
