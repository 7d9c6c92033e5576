//! `initialize` requests of the chain, and what their answers declare about MCP over ACP.

use acp_wire::{Id, Outcome};
use router::Seat;

use super::Broker;
use crate::capability::{
    AgentCapabilities, NativeSupport, has_string_version, with_mcp_over_acp, without_mcp_over_acp,
};

/// The `initialize` requests that are not answered yet.
#[derive(Debug, Default)]
pub(super) struct PendingInitializes {
    /// The components that wait for an answer, and the ids of their requests.
    open: Vec<(Seat, Id)>,
}

impl PendingInitializes {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Adds the request of a component.
    pub(super) fn insert(&mut self, seat: Seat, id: &Id) {
        self.open.push((seat, id.detached()));
    }

    /// Removes a request that is answered. Returns whether it was an `initialize`.
    fn remove(&mut self, seat: Seat, id: &Id) -> bool {
        let index = self.open.iter().position(|(it, request_id)| *it == seat && request_id == id);
        index.map(|index| self.open.swap_remove(index)).is_some()
    }

    /// Forgets the requests of a component.
    pub(super) fn forget(&mut self, seat: Seat) {
        self.open.retain(|(key_seat, _)| *key_seat != seat);
    }
}

impl Broker {
    /// Declares support for MCP over ACP in an answer to `initialize`. The broker provides it for
    /// every agent.
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
            // Editors of the oldest generation do not get the capability.
            Outcome::Result(result) if self.is_editor(seat) && has_string_version(&result) => {
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
    fn an_initialize_is_forgotten_when_its_component_is_gone() {
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
