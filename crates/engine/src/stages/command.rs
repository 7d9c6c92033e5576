//! Performs the commands of the user.

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

    /// Restarts a component.
    fn restart_now(&mut self, seat: Seat) -> Result<(), String> {
        match self.replaceable(seat, "restarted")? {
            SeatState::Down { .. } => self.start(seat),
            SeatState::Reinitializing { .. } => {
                let name = self.router.chain().describe(seat);
                return Err(format!("{name} is already being started"));
            }
            _ => {
                let why = Exit::new(ExitCause::ByCommand);
                self.poison.forget_pending(seat);
                let recovery = Recovery::Restart { at: self.cx.now, attempts: 0 };
                self.replace(seat, why, recovery, None);
            }
        }
        Ok(())
    }

    /// Bypasses a proxy, even if it is a guard: the user has named it.
    fn bypass_now(&mut self, seat: Seat) -> Result<(), String> {
        self.replaceable(seat, "bypassed")?;
        if self.is_agent(seat) {
            let name = self.router.chain().describe(seat);
            return Err(format!("{name} cannot be bypassed: a chain needs its agent"));
        }
        if self.gate.held(seat).0 > 0 {
            let name = self.router.chain().describe(seat);
            return Err(format!("messages are held for {name}; release them before you bypass it"));
        }
        self.bypass(seat, Exit::new(ExitCause::ByCommand));
        Ok(())
    }

    /// The state of a component, or why a command cannot end it in this state.
    fn replaceable(&self, seat: Seat, participle: &str) -> Result<SeatState, String> {
        let Some(state) = self.router.state(seat) else {
            return Err(format!("seat {} has no component that could be {participle}", seat.0));
        };
        let name = self.router.chain().describe(seat);
        match state {
            _ if self.router.is_ending() => {
                Err(format!("{name} cannot be {participle}: the chain is about to end"))
            }
            SeatState::Bypassed | SeatState::Closed => {
                Err(format!("{name} cannot be {participle}: it is no longer part of the chain"))
            }
            state if state.was_initialized() => Ok(state.clone()),
            _ => Err(format!(
                "{name} cannot be {participle} before it has answered initialize; try again later"
            )),
        }
    }

    fn hold(&mut self, seat: Seat) -> Result<(), String> {
        if seat.index() > self.router.chain().components.len() {
            return Err(format!("seat {} does not exist", seat.0));
        }
        let name = self.router.chain().describe(seat);
        if self.router.is_ending() || !self.router.has_started() {
            return Err(format!("messages for {name} cannot be held: the chain is not running"));
        }
        if seat.is_component() && !self.is_up(seat) {
            return Err(format!("messages for {name} cannot be held now: it is not live"));
        }
        self.gate.close(seat);
        Ok(())
    }

    /// Delivers the held messages. The timeouts of the component start now.
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

    /// Opens all gates, so that no held message is lost when the chain ends.
    pub(super) fn release_all(&mut self) {
        if self.gate.holds_any() {
            let seats = (0..=self.router.chain().components.len() as u16).map(Seat);
            for seat in seats.filter(|seat| self.gate.is_closed(*seat)).collect::<Vec<_>>() {
                // This cannot fail: the gate is closed.
                let _ = self.release(seat);
            }
        }
    }
}
