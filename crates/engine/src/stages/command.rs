//! What a user can want of a chain that runs.

use router::{Exit, ExitCause, Recovery, Seat, SeatState};

use super::Stages;
use crate::input::Command;
use crate::stage_io::StageOutput;

impl Stages {
    pub(super) fn on_command(&mut self, command: Command) {
        let (seat, done) = match command {
            Command::Stop => return self.route(router::Event::Stop),
            Command::Restart(seat) => (seat, self.restart_now(seat)),
            Command::Bypass(seat) => (seat, self.bypass_now(seat)),
            Command::Hold(seat) => (seat, self.hold(seat)),
            Command::Release(seat) => (seat, self.release(seat)),
        };
        if let Err(why) = done {
            self.warn(seat, why);
        }
    }

    /// Replaces a component by a fresh one.
    fn restart_now(&mut self, seat: Seat) -> Result<(), String> {
        match self.replaceable(seat, "restarted")? {
            SeatState::Down { .. } => self.start(seat),
            SeatState::Reinitializing { .. } => {
                let who = self.router.chain().describe(seat);
                return Err(format!("{who} is being started already"));
            }
            _ => {
                let why = Exit::new(ExitCause::ByCommand);
                self.poison.excuse(seat);
                let plan = Recovery::Restart { at: self.cx.now, attempts: 0 };
                self.replace(seat, why, plan, None);
            }
        }
        Ok(())
    }

    /// Leaves a proxy out, even if it is a guard: the user has named it.
    fn bypass_now(&mut self, seat: Seat) -> Result<(), String> {
        self.replaceable(seat, "left out")?;
        if self.is_agent(seat) {
            let who = self.router.chain().describe(seat);
            return Err(format!("{who} cannot be left out: a chain needs its agent"));
        }
        if self.gate.held(seat).0 > 0 {
            let who = self.router.chain().describe(seat);
            return Err(format!("messages are held for {who}; release them before it is left out"));
        }
        self.leave_out(seat, Exit::new(ExitCause::ByCommand));
        Ok(())
    }

    /// Where a component is in its life, if a command can end it there.
    fn replaceable(&self, seat: Seat, participle: &str) -> Result<SeatState, String> {
        let Some(life) = self.router.state(seat) else {
            return Err(format!("seat {} has no component that could be {participle}", seat.0));
        };
        let who = self.router.chain().describe(seat);
        match life {
            _ if self.router.is_ending() => {
                Err(format!("{who} cannot be {participle}: the chain is about to end"))
            }
            SeatState::Bypassed | SeatState::Closed => {
                Err(format!("{who} cannot be {participle}: it is out of the chain"))
            }
            life if life.was_initialized() => Ok(life.clone()),
            _ => Err(format!(
                "{who} cannot be {participle} before it has answered initialize; try again then"
            )),
        }
    }

    fn hold(&mut self, seat: Seat) -> Result<(), String> {
        if seat.index() > self.router.chain().components.len() {
            return Err(format!("seat {} does not exist", seat.0));
        }
        let who = self.router.chain().describe(seat);
        if self.router.is_ending() || !self.router.has_started() {
            return Err(format!("nothing can be held for {who}: the chain does not run"));
        }
        if seat.is_component() && !self.is_up(seat) {
            return Err(format!("nothing can be held for {who} now: it is not live"));
        }
        self.gate.close(seat);
        Ok(())
    }

    /// Delivers what is held. The time that the component has for it begins now.
    fn release(&mut self, seat: Seat) -> Result<(), String> {
        let Some(held) = self.gate.open(seat) else {
            return Err(format!("no messages are held for seat {}", seat.0));
        };
        self.watchdog.released(&self.cx, seat);
        self.router.restart_barrier_timeout(self.cx.now, seat);
        for (toward, message) in held {
            self.cx.out.push(StageOutput::Deliver { to: seat, toward, message });
        }
        Ok(())
    }

    /// Opens all gates: what is held in a chain that ends would be lost.
    pub(super) fn release_all(&mut self) {
        if self.gate.holds_any() {
            let seats = (0..=self.router.chain().components.len() as u16).map(Seat);
            for seat in seats.filter(|seat| self.gate.is_closed(*seat)).collect::<Vec<_>>() {
                // It is closed, so it can be released.
                let _ = self.release(seat);
            }
        }
    }
}
