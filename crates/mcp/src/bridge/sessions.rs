//! The sessions of a bridged agent, and their tickets.

use std::collections::BTreeMap;

use acp_wire::acp::SessionId;

use crate::endpoint::{Ticket, Transport};

/// The table of sessions.
#[derive(Debug, Default)]
pub(super) struct Sessions {
    all: BTreeMap<SessionId, Session>,
}

#[derive(Debug)]
struct Session {
    tickets: Vec<Ticket>,
    transport: Transport,
    /// The first turn has ended, so it is known whether the agent connects.
    probed: bool,
}

impl Sessions {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Adds a session. Returns the tickets that it had before.
    pub(super) fn begin(
        &mut self,
        session: SessionId,
        tickets: Vec<Ticket>,
        transport: Transport,
    ) -> Vec<Ticket> {
        let before = self.all.insert(session, Session { tickets, transport, probed: false });
        before.map(|session| session.tickets).unwrap_or_default()
    }

    /// Removes a session. Returns its tickets.
    pub(super) fn end(&mut self, session: &SessionId) -> Vec<Ticket> {
        self.all.remove(session).map(|session| session.tickets).unwrap_or_default()
    }

    /// Whether the first turn of any session has not ended yet.
    pub(super) fn has_unprobed(&self) -> bool {
        self.all.values().any(|session| !session.probed)
    }

    /// Records the end of the first turn of a session. Returns its tickets and their transport, or
    /// `None` for a later turn.
    pub(super) fn finish_probe(&mut self, session: &SessionId) -> Option<(&[Ticket], Transport)> {
        let session = self.all.get_mut(session).filter(|session| !session.probed)?;
        session.probed = true;
        Some((&session.tickets, session.transport))
    }

    pub(super) fn clear(&mut self) {
        self.all.clear();
    }
}
