//! Crashes and restarts of components. The core decides what happens to the component.

use router::{Exit, ExitCause, SeatState};

use super::*;

impl Harness {
    /// A component crashes.
    pub fn crash(&mut self, who: &str) {
        let (seat, index) = (self.seat(who), self.index(who));
        self.journal.push(format!("{who} crashes"));
        assert!(self.components[index].runs, "{who} is not running");
        self.components[index].end();
        self.components[index].suspended = false;
        let effects = self.shell.exit(self.now, seat, Exit::new(ExitCause::Status(1)));
        self.perform_all(effects);
        self.run_pass_through();
    }

    /// A component crashes again, before its handshake or later.
    pub fn crash_again(&mut self, who: &str) {
        self.start(who);
        self.crash(who);
    }

    /// Restarts a crashed component, if that is not done yet.
    fn start(&mut self, who: &str) {
        let index = self.index(who);
        if !self.components[index].runs {
            self.tick();
        }
        if !self.components[index].runs {
            self.fail(&format!("{who} is not restarted"));
        }
    }

    /// Restarts a crashed component and runs its `initialize` handshake. (An agent answers with
    /// `result`.) Messages that it receives after that are not handled yet.
    pub fn restart_handshake(&mut self, who: &str, result: &str) {
        self.start(who);
        let index = self.index(who);
        let id = self.expect(who, "initialize ? …");
        let mut result = json(result);
        if index + 1 < self.components.len() {
            self.send_line(who, r#"~initialize boot {"protocolVersion":1}"#);
            self.expect(who, "result boot …");
        } else {
            // Without this capability its sessions would be lost.
            let loads = ["agentCapabilities", "loadSession"];
            result = result.with_at(&loads, Some(&Json::TRUE));
        }
        self.send_line(who, &format!("result {id} {result}"));
        (self.components[index].is_restarting, self.components[index].suspended) = (false, false);
        self.run_pass_through();
    }

    /// Whether the session replay of a restarted component goes on.
    pub fn is_replaying(&self, who: &str) -> bool {
        self.shell.core().router().is_replaying(self.seat(who))
    }

    /// Fails unless a crashed component is live again.
    #[track_caller]
    pub fn assert_restarted(&self, who: &str) {
        match self.shell.core().router().state(self.seat(who)) {
            Some(SeatState::Live { .. }) => {}
            state => self.fail(&format!("{who} is not live: {state:?}")),
        }
    }

    /// Whether a crashed component is bypassed.
    pub fn is_bypassed(&self, who: &str) -> bool {
        matches!(self.shell.core().router().state(self.seat(who)), Some(SeatState::Bypassed))
    }
}
