//! A chain with at most one component, for the measurements of what a component adds.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::chain::Chain;
use super::contender::{Programs, word};
use super::probe::{prompt_params, repeat};
use super::results::median;

/// The chain, and the prompt that it gets again and again.
pub struct OneComponent {
    pub chain: Chain,
    pub session: String,
    params: String,
}

impl OneComponent {
    /// Starts the chain. Its state is in `folder`.
    pub fn start(
        programs: &Programs,
        component: Option<&str>,
        folder: &Path,
        stderr: &Path,
        limit: Duration,
    ) -> Result<OneComponent, String> {
        let mut command = Command::new(&programs.ours);
        command.arg("agent").args(component).arg(word(&programs.stubs.join("stub_agent")));
        // A developer's log filter would be measured too.
        command.env_remove("RUST_LOG").env("XDG_STATE_HOME", folder);
        let mut chain = Chain::start(command, stderr, limit)?;
        let session = chain.session()?;
        let params = prompt_params(&session, "How do I read a file line by line?");
        Ok(OneComponent { chain, session, params })
    }

    /// The median round trip of some prompts, in microseconds.
    pub fn prompts(&mut self, count: usize) -> Result<f64, String> {
        let once = || self.chain.round_trip("session/prompt", &self.params);
        Ok(median(&repeat(Duration::ZERO, count, once)?) * 1e6)
    }
}
