//! The core's part of a new configuration: the peers of the new seats.
//!
//! [`router::reload`] has the rules, and `stages/reload` what the stages do.

use router::{Seat, SeatState};

use crate::core::Core;
use crate::input::{Output, Outputs, Reload};
use crate::peer::Peer;
use crate::policy::Rules;
use crate::stage_io::StageInput;
use crate::stages::Stages;

impl Core {
    /// Why a new configuration still waits. `None` if none waits.
    pub fn reload_waits_for(&self) -> Option<String> {
        self.reload.as_ref()?;
        self.stages.unrest()
    }

    /// Uses the configuration that waits, if the chain is at rest.
    pub(crate) fn reload_at_rest(&mut self, out: &mut Outputs) {
        if self.is_finished() || self.extension.is_some() {
            return;
        }
        let problem = self.reload.as_ref().and_then(|it| self.stages.reload_problem(it));
        let is_at_rest = self.stages.unrest().is_none() && !self.has_messages_for_changed(out);
        if problem.is_none() && !is_at_rest {
            return;
        }
        let Some(reload) = self.reload.take() else { return };
        if let Some(why) = problem {
            return out.push(Output::Reloaded { problem: Some(why) });
        }
        // The shell needs the new components before it starts them.
        out.push(Output::Reloaded { problem: None });
        self.setup.chain = reload.chain.clone();
        self.setup.rules = Rules { seed: self.setup.rules.seed, ..reload.rules.clone() };
        self.previous_facts = std::mem::replace(&mut self.setup.facts, reload.facts.clone());
        self.setup.about = reload.about.clone();
        self.setup.kept_telemetry = reload.kept_telemetry.clone();
        self.setup.tapped = reload.tapped;
        self.setup.start_notices.extend(reload.notices.clone());
        if self.router().has_started() {
            self.reload_running(*reload, out);
        } else {
            self.stages = Stages::of_setup(&self.setup);
            self.create_peers();
        }
    }

    /// A new configuration waits until the chain is at rest. Components that it makes superfluous need not become live.
    pub(crate) fn on_reload(&mut self, reload: Box<Reload>, out: &mut Outputs) {
        if self.stages.reload_problem(&reload).is_none() {
            let superseded = self.stages.superseded(&reload);
            if !superseded.is_empty() {
                self.apply(StageInput::Superseded(superseded), out);
            }
            if reload.now && self.router().has_started() {
                self.apply(StageInput::Hurry(reload.clone()), out);
            }
        }
        self.reload = Some(reload);
    }

    /// Whether messages are queued for a component that leaves the chain or is restarted. They would be lost.
    fn has_messages_for_changed(&self, out: &Outputs) -> bool {
        let Some(reload) = &self.reload else { return false };
        let changes =
            |seat: &Seat| !reload.chain.contains(*seat) || reload.restarted.contains(seat);
        let is_up = |seat: &Seat| self.router().state(*seat).is_some_and(SeatState::is_up);
        let mut changed = self.chain().seats().filter(changes).filter(is_up);
        changed.any(|seat| self.queued(seat, out) > 0)
    }

    /// A component that has not become live with its new configuration gets the previous one.
    pub(crate) fn revert_seat(&mut self, seat: Seat, why: String, out: &mut Outputs) {
        if let (Some(old), Some(facts)) = (
            self.previous_facts.get(seat.index() - 1).cloned(),
            self.setup.facts.get_mut(seat.index() - 1),
        ) {
            *facts = old;
        }
        self.peer_mut(seat).is_replaced = true;
        out.push(Output::Reverted { seat, why });
    }

    fn reload_running(&mut self, reload: Reload, out: &mut Outputs) {
        for seat in &reload.restarted {
            self.peer_mut(*seat).is_replaced = true;
        }
        self.apply(StageInput::Reload(Box::new(reload)), out);
    }

    /// Prepares the seats of components that join the chain. The stages have the new chain already.
    pub(crate) fn prepare_seats(&mut self, seats: &[Seat], out: &mut Outputs) {
        let known = self.peers.len();
        for index in known..=self.chain().components.len() {
            let dialect = self.initial_dialect(Seat(index as u16));
            self.peers.push(Peer::new(dialect));
        }
        for seat in seats {
            if seat.index() < known {
                self.peer_mut(*seat).is_replaced = true;
                self.reset_seat(*seat, out);
            }
            for kind in self.facts(*seat).poison {
                self.stages.restore_poison(*seat, kind);
            }
            self.publish_dialect(*seat);
        }
    }
}
