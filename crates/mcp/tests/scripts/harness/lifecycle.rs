//! Crashes and restarts of components. The core decides what happens to the component.

use router::{Exit, ExitCause, SeatState};

use super::*;

impl Harness {
    /// A component crashes.
    pub fn crash(&mut self, participant: &str) {
        let (seat, index) = (self.seat(participant), self.index(participant));
        self.journal.push(format!("{participant} crashes"));
        assert!(self.components[index].runs, "{participant} is not running");
        self.components[index].end();
        self.components[index].suspended = false;
        let effects = self.shell.exit(self.now, seat, Exit::new(ExitCause::Status(1)));
        self.perform_all(effects);
        self.run_pass_through();
    }

    /// A component crashes again, before its handshake or later.
    pub fn crash_again(&mut self, participant: &str) {
        self.start(participant);
        self.crash(participant);
    }

    /// Restarts a crashed component, if that is not done yet.
    fn start(&mut self, participant: &str) {
        let index = self.index(participant);
        if !self.components[index].runs {
            self.tick();
        }
        if !self.components[index].runs {
            self.fail(&format!("{participant} is not restarted"));
        }
    }

    /// Restarts a crashed component and runs its `initialize` handshake. (An agent answers with
    /// `result`.) Messages that it receives after that are not handled yet.
    pub fn restart_handshake(&mut self, participant: &str, result: &str) {
        self.start(participant);
        let index = self.index(participant);
        let id = self.expect(participant, "initialize ? …");
        let mut result = json(result);
        if index + 1 < self.components.len() {
            self.send_line(participant, r#"~initialize boot {"protocolVersion":1}"#);
            self.expect(participant, "result boot …");
        } else {
            // Without this capability its sessions would be lost.
            let loads = ["agentCapabilities", "loadSession"];
            result = result.with_at(&loads, Some(&Json::TRUE));
        }
        self.send_line(participant, &format!("result {id} {result}"));
        (self.components[index].is_restarting, self.components[index].suspended) = (false, false);
        self.run_pass_through();
    }

    /// Whether the session replay of a restarted component goes on.
    pub fn is_replaying(&self, participant: &str) -> bool {
        self.shell.core().router().is_replaying(self.seat(participant))
    }

    /// Fails unless a crashed component is live again.
    #[track_caller]
    pub fn assert_restarted(&self, participant: &str) {
        match self.shell.core().router().state(self.seat(participant)) {
            Some(SeatState::Live { .. }) => {}
            state => self.fail(&format!("{participant} is not live: {state:?}")),
        }
    }

    /// Whether a crashed component is bypassed.
    pub fn is_bypassed(&self, participant: &str) -> bool {
        matches!(
            self.shell.core().router().state(self.seat(participant)),
            Some(SeatState::Bypassed)
        )
    }
}
