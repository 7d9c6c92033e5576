//! How a component dies and is started again. The core decides what becomes of it.

use router::{Exit, ExitCause, SeatState};

use super::*;

impl Stage {
    /// A component dies.
    pub fn die(&mut self, who: &str) {
        let (seat, index) = (self.seat(who), self.index(who));
        self.journal.push(format!("{who} dies"));
        assert!(self.sitters[index].runs, "{who} dies twice");
        self.sitters[index].end();
        self.sitters[index].asleep = false;
        let effects = self.shell.exit(self.now, seat, Exit::new(ExitCause::Status(1)));
        self.perform_all(effects);
        self.pass_on();
    }

    /// It dies again, before it was greeted or later.
    pub fn die_again(&mut self, who: &str) {
        self.start(who);
        self.die(who);
    }

    /// A component that has died is started again, if that is not done yet.
    fn start(&mut self, who: &str) {
        let index = self.index(who);
        if !self.sitters[index].runs {
            self.tick();
        }
        if !self.sitters[index].runs {
            self.fail(&format!("{who} is not started again"));
        }
    }

    /// A component that has died is started again, and does its part of the greeting. (An agent answers with this.)
    /// What it is told then it has not dealt with yet.
    pub fn boot(&mut self, who: &str, greeting: &str) {
        self.start(who);
        let index = self.index(who);
        let id = self.see(who, "initialize ? …");
        let mut greeting = json(greeting);
        if index + 1 < self.sitters.len() {
            self.say(who, r#"~initialize boot {"protocolVersion":1}"#);
            self.see(who, "result boot …");
        } else {
            // Else its sessions would be lost.
            let loads = ["agentCapabilities", "loadSession"];
            greeting = greeting.with_at(&loads, Some(&Json::TRUE));
        }
        self.say(who, &format!("result {id} {greeting}"));
        (self.sitters[index].boots, self.sitters[index].asleep) = (false, false);
        self.pass_on();
    }

    /// A component that was started again has not been told of all sessions.
    pub fn learns(&self, who: &str) -> bool {
        self.shell.core().router().is_replaying(self.seat(who))
    }

    /// Fails unless a component that has died is one of the chain again.
    #[track_caller]
    pub fn is_back(&self, who: &str) {
        match self.shell.core().router().state(self.seat(who)) {
            Some(SeatState::Live { .. }) => {}
            life => self.fail(&format!("{who} is not back: {life:?}")),
        }
    }

    /// A component that has died is left out.
    pub fn is_left_out(&self, who: &str) -> bool {
        matches!(self.shell.core().router().state(self.seat(who)), Some(SeatState::Bypassed))
    }
}
