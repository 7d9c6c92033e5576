//! `initialize` requests that are not answered: what the answer says of MCP over ACP.

use acp_wire::{Id, Outcome};
use router::Seat;

use super::Broker;
use crate::capability::{
    AgentCapabilities, NativeSupport, has_string_version, with_mcp_over_acp, without_mcp_over_acp,
};

#[derive(Debug, Default)]
pub struct PendingInitializes {
    /// The components that wait for an answer, and the ids of their requests.
    open: Vec<(Seat, Id)>,
}

impl PendingInitializes {
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub fn insert(&mut self, seat: Seat, id: &Id) {
        self.open.push((seat, id.detached()));
    }

    /// Whether this is the id of a greeting, which is answered now.
    fn remove(&mut self, seat: Seat, id: &Id) -> bool {
        let index = self.open.iter().position(|(it, asked)| *it == seat && asked == id);
        index.map(|index| self.open.swap_remove(index)).is_some()
    }

    /// A component is gone.
    pub fn forget(&mut self, seat: Seat) {
        self.open.retain(|(whose, _)| *whose != seat);
    }
}

impl Broker {
    /// The answer to `initialize`, for a proxy or the editor: whatever those below have made of it,
    /// MCP over ACP can be used.
    pub(super) fn on_initialize_result(
        &mut self,
        seat: Seat,
        id: &Id,
        outcome: Outcome,
    ) -> Outcome {
        if !self.pending_initializes.remove(seat, id) {
            return outcome;
        }
        match outcome {
            // Where versions are no numbers, editors are told nothing.
            Outcome::Result(result) if self.is_last_seat(seat) && has_string_version(&result) => {
                let own = self.bridge.native().is_some();
                Outcome::Result(if own { result } else { without_mcp_over_acp(&result) })
            }
            Outcome::Result(result)
                if AgentCapabilities::of(&result).native != Some(NativeSupport::Current) =>
            {
                Outcome::Result(with_mcp_over_acp(&result))
            }
            outcome => outcome,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two components may use the same id.
    #[test]
    fn a_greeting_is_forgotten_with_the_component_that_waits_for_it() {
        let mut pending_initializes = PendingInitializes::default();
        let id = Id::from(1);
        [Seat(1), Seat(2)].iter().for_each(|seat| pending_initializes.insert(*seat, &id));
        assert!(!pending_initializes.remove(Seat(1), &Id::from(2)));
        pending_initializes.forget(Seat(1));
        assert!(!pending_initializes.remove(Seat(1), &id) && !pending_initializes.is_empty());
        assert!(pending_initializes.remove(Seat(2), &id) && pending_initializes.is_empty());
        assert!(!pending_initializes.remove(Seat(2), &id));
    }
}
