//! The compared programs, and the command that starts each.

use std::path::{Path, PathBuf};
use std::process::Command;

use testkit::peers::quote;

use super::tool::Transport;

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
        let proxy = word(&self.stubs.join("stub_proxy"));
        let mut chain = vec![proxy.clone(); proxies];
        if let (Purpose::Tools(transport), Some(first)) = (purpose, chain.first_mut()) {
            command.args(["--mcp-bridge", transport.name()]);
            *first = format!("{proxy} --tools");
        }
        command.args(chain);
        command.arg(word(&self.stubs.join("stub_agent")));
        // A log filter of the developer would change the figures.
        command.env_remove("RUST_LOG");
        command
    }
}

/// A program as one component of a chain.
pub fn word(program: &Path) -> String {
    quote(&program.display().to_string())
}
