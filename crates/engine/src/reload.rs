//! The core's part of a new configuration: the peers of the new seats.
//!
//! [`router::reload`] has the rules, and `stages/reload` what the stages do.

use router::Seat;

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
        if problem.is_none() && self.stages.unrest().is_some() {
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
        self.setup.facts = reload.facts.clone();
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
