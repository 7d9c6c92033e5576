//! The sessions of an agent that was given places for its MCP clients.

use std::collections::BTreeMap;

use acp_wire::acp::SessionId;

use crate::endpoint::{Ticket, Transport};

#[derive(Debug, Default)]
pub(super) struct Sessions {
    all: BTreeMap<SessionId, Session>,
}

#[derive(Debug)]
struct Session {
    tickets: Vec<Ticket>,
    transport: Transport,
    /// It is known whether the agent calls at all.
    probed: bool,
}

impl Sessions {
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// A session is set up. Gives the tickets that it had before.
    pub fn begin(
        &mut self,
        session: SessionId,
        tickets: Vec<Ticket>,
        transport: Transport,
    ) -> Vec<Ticket> {
        let before = self.all.insert(session, Session { tickets, transport, probed: false });
        before.map(|session| session.tickets).unwrap_or_default()
    }

    /// A session is over. Gives its tickets.
    pub fn end(&mut self, session: &SessionId) -> Vec<Ticket> {
        self.all.remove(session).map(|session| session.tickets).unwrap_or_default()
    }

    /// Are there sessions of which it is not known whether the agent calls?
    pub fn has_unprobed(&self) -> bool {
        self.all.values().any(|session| !session.probed)
    }

    /// A session has had its first answer: it is known now whether the agent calls. Gives its tickets and their
    /// kind; `None` if it was known before.
    pub fn finish_probe(&mut self, session: &SessionId) -> Option<(&[Ticket], Transport)> {
        let session = self.all.get_mut(session).filter(|session| !session.probed)?;
        session.probed = true;
        Some((&session.tickets, session.transport))
    }

    pub fn clear(&mut self) {
        self.all.clear();
    }
}
