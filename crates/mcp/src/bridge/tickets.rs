//! The declarations that the agent was given. Each one is a ticket: a place where the agent's MCP client can
//! connect, which the shell opens when it is asked to, and closes when the ticket is revoked.
//!
//! The shell answers each [`Step::OpenEndpoint`] once. A ticket is revoked once, and only after the shell has
//! answered that the place is open. Nobody knows the secret of a place before that.

use std::collections::{BTreeMap, BTreeSet};

use crate::broker::{Cx, Step};
use crate::endpoint::{Ticket, Transport};

#[derive(Debug, Default)]
pub(super) struct Tickets {
    all: BTreeMap<Ticket, Declared>,
    /// Tickets that are not needed any more, and that the shell has not answered yet.
    unwanted: BTreeSet<Ticket>,
}

/// What a ticket is for.
#[derive(Debug)]
pub(super) struct Declared {
    pub server: String,
    pub name: String,
    pub kind: Transport,
    /// An MCP client has connected with it.
    pub called: bool,
    place: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Asked,
    Open,
    Failed,
}

impl Tickets {
    /// Asks the shell for a place where the client of a server can connect.
    pub fn ask(
        &mut self,
        ticket: Ticket,
        kind: Transport,
        (server, name): (&str, &str),
        cx: &mut Cx<'_>,
    ) {
        let (server, name) = (server.to_owned(), name.to_owned());
        let declared = Declared { server, name, kind, called: false, place: State::Asked };
        self.all.insert(ticket, declared);
        cx.out.push(Step::OpenEndpoint { ticket, transport: kind });
    }

    /// The shell has answered: the place is open, or could not be opened.
    pub fn answered(&mut self, ticket: Ticket, is_open: bool, cx: &mut Cx<'_>) {
        if let Some(declared) = self.all.get_mut(&ticket) {
            declared.place = if is_open { State::Open } else { State::Failed };
        } else if self.unwanted.remove(&ticket) && is_open {
            cx.out.push(Step::RevokeTicket(ticket));
        }
    }

    /// A ticket is not needed any more.
    pub fn release(&mut self, ticket: Ticket, cx: &mut Cx<'_>) {
        match self.all.remove(&ticket).map(|declared| declared.place) {
            Some(State::Asked) => drop(self.unwanted.insert(ticket)),
            Some(State::Open) => cx.out.push(Step::RevokeTicket(ticket)),
            Some(State::Failed) | None => {}
        }
    }

    /// No ticket is needed any more.
    pub fn release_all(&mut self, cx: &mut Cx<'_>) {
        for ticket in self.all.keys().copied().collect::<Vec<Ticket>>() {
            self.release(ticket, cx);
        }
    }

    pub fn get(&self, ticket: Ticket) -> Option<&Declared> {
        self.all.get(&ticket)
    }

    /// An MCP client has connected with a ticket.
    pub fn called(&mut self, ticket: Ticket) -> Option<&Declared> {
        let declared = self.all.get_mut(&ticket)?;
        declared.called = true;
        Some(declared)
    }

    /// The tickets for a server.
    pub fn of_server(&self, server: &str) -> Vec<Ticket> {
        let tickets = self.all.iter().filter(|(_, declared)| declared.server == server);
        tickets.map(|(ticket, _)| *ticket).collect()
    }

    /// How many places are open, or asked for.
    pub fn len(&self) -> usize {
        let failed = self.all.values().filter(|it| it.place == State::Failed).count();
        self.all.len() - failed + self.unwanted.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_revoked_once_and_only_after_its_place_is_open() {
        let (mut tickets, mut steps) = (Tickets::default(), Vec::new());
        let cx = &mut Cx { now: router::Time(0), out: &mut steps };
        for number in 1..=4 {
            tickets.ask(Ticket(number), Transport::Http, ("server", "name"), cx);
        }
        assert_eq!((cx.out.len(), tickets.len()), (4, 4));
        cx.out.clear();
        tickets.answered(Ticket(1), true, cx);
        tickets.answered(Ticket(2), false, cx);
        assert_eq!(tickets.len(), 3);
        tickets.release_all(cx);
        tickets.release(Ticket(1), cx);
        assert_eq!((&**cx.out, tickets.len()), (&[Step::RevokeTicket(Ticket(1))][..], 2));
        cx.out.clear();
        tickets.answered(Ticket(3), true, cx);
        tickets.answered(Ticket(4), false, cx);
        assert_eq!((&**cx.out, tickets.len()), (&[Step::RevokeTicket(Ticket(3))][..], 0));
    }
}
