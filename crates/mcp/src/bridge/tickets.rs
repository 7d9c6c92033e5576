//! The tickets of the agent. A ticket stands for one declaration: an endpoint where an MCP client
//! of the agent can connect. The shell opens the endpoint on request, and closes it when the ticket
//! is revoked.
//!
//! The shell answers each [`Action::OpenEndpoint`] once. A ticket is revoked once, and only after the
//! shell has reported that its endpoint is open. No client knows the secret of an endpoint before
//! that.

use std::collections::{BTreeMap, BTreeSet};

use crate::broker::{Action, Context};
use crate::endpoint::{Ticket, Transport};

/// The table of tickets.
#[derive(Debug, Default)]
pub(super) struct Tickets {
    all: BTreeMap<Ticket, TicketRecord>,
    /// Tickets that are not needed any more, but whose endpoint the shell has not reported yet.
    unwanted: BTreeSet<Ticket>,
}

/// The server and endpoint of a ticket.
#[derive(Debug)]
pub(super) struct TicketRecord {
    pub server: String,
    pub name: String,
    pub transport: Transport,
    /// An MCP client has connected with the ticket.
    pub connected: bool,
    endpoint: EndpointState,
}

/// The state of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EndpointState {
    Requested,
    Open,
    Failed,
}

impl Tickets {
    /// Requests an endpoint for the clients of a server.
    pub(super) fn request_endpoint(
        &mut self,
        ticket: Ticket,
        transport: Transport,
        (server, name): (&str, &str),
        cx: &mut Context<'_>,
    ) {
        let (server, name) = (server.to_owned(), name.to_owned());
        let record = TicketRecord {
            server,
            name,
            transport,
            connected: false,
            endpoint: EndpointState::Requested,
        };
        self.all.insert(ticket, record);
        cx.out.push(Action::OpenEndpoint { ticket, transport });
    }

    /// The shell has opened the endpoint of a ticket, or could not.
    pub(super) fn endpoint_opened(&mut self, ticket: Ticket, is_open: bool, cx: &mut Context<'_>) {
        if let Some(record) = self.all.get_mut(&ticket) {
            record.endpoint = if is_open { EndpointState::Open } else { EndpointState::Failed };
        } else if self.unwanted.remove(&ticket) && is_open {
            cx.out.push(Action::RevokeTicket(ticket));
        }
    }

    /// Releases a ticket that is not needed any more.
    pub(super) fn release(&mut self, ticket: Ticket, cx: &mut Context<'_>) {
        match self.all.remove(&ticket).map(|record| record.endpoint) {
            Some(EndpointState::Requested) => drop(self.unwanted.insert(ticket)),
            Some(EndpointState::Open) => cx.out.push(Action::RevokeTicket(ticket)),
            Some(EndpointState::Failed) | None => {}
        }
    }

    /// Releases all tickets.
    pub(super) fn release_all(&mut self, cx: &mut Context<'_>) {
        for ticket in self.all.keys().copied().collect::<Vec<Ticket>>() {
            self.release(ticket, cx);
        }
    }

    pub(super) fn get(&self, ticket: Ticket) -> Option<&TicketRecord> {
        self.all.get(&ticket)
    }

    /// Records that an MCP client has connected with a ticket.
    pub(super) fn mark_connected(&mut self, ticket: Ticket) -> Option<&TicketRecord> {
        let record = self.all.get_mut(&ticket)?;
        record.connected = true;
        Some(record)
    }

    /// The tickets of a server.
    pub(super) fn of_server(&self, server: &str) -> Vec<Ticket> {
        let tickets = self.all.iter().filter(|(_, record)| record.server == server);
        tickets.map(|(ticket, _)| *ticket).collect()
    }

    /// The number of endpoints that are open or requested.
    pub(super) fn len(&self) -> usize {
        let failed = self.all.values().filter(|it| it.endpoint == EndpointState::Failed).count();
        self.all.len() - failed + self.unwanted.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_revoked_once_and_only_after_its_endpoint_is_open() {
        let (mut tickets, mut actions) = (Tickets::default(), Vec::new());
        let cx = &mut Context { now: router::Time(0), out: &mut actions };
        for number in 1..=4 {
            tickets.request_endpoint(Ticket(number), Transport::Http, ("server", "name"), cx);
        }
        assert_eq!((cx.out.len(), tickets.len()), (4, 4));
        cx.out.clear();
        tickets.endpoint_opened(Ticket(1), true, cx);
        tickets.endpoint_opened(Ticket(2), false, cx);
        assert_eq!(tickets.len(), 3);
        tickets.release_all(cx);
        tickets.release(Ticket(1), cx);
        assert_eq!((&**cx.out, tickets.len()), (&[Action::RevokeTicket(Ticket(1))][..], 2));
        cx.out.clear();
        tickets.endpoint_opened(Ticket(3), true, cx);
        tickets.endpoint_opened(Ticket(4), false, cx);
        assert_eq!((&**cx.out, tickets.len()), (&[Action::RevokeTicket(Ticket(3))][..], 0));
    }
}
