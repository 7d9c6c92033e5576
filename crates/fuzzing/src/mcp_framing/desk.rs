//! The places where MCP clients can connect, as the shell opens them.

use std::collections::BTreeMap;

use mcp::{Endpoint, Ticket, Transport};

#[derive(Debug, Default)]
pub struct Desk {
    open: BTreeMap<Ticket, Transport>,
    /// What was asked for and not answered, oldest first.
    asked: Vec<(Ticket, Transport)>,
    /// No place can be opened.
    pub full: bool,
    /// The shell answers when the story says so, not at once.
    pub slow: bool,
}

impl Desk {
    /// # Panics
    /// If the ticket was asked for before.
    pub fn ask(&mut self, ticket: Ticket, kind: Transport) {
        let known = self.open.contains_key(&ticket) || self.asked.contains(&(ticket, kind));
        assert!(!known, "{ticket:?} is asked for twice");
        self.asked.push((ticket, kind));
    }

    pub fn asked(&self) -> usize {
        self.asked.len()
    }

    /// Answers one of the questions.
    pub fn answer(&mut self, which: usize) -> (Ticket, Result<Endpoint, String>) {
        let (ticket, kind) = self.asked.remove(which);
        if self.full {
            return (ticket, Err("there is no room".into()));
        }
        self.open.insert(ticket, kind);
        let secret = format!("s{}", ticket.0);
        let (program, port, variable) = ("/conductor".to_owned(), 7000, "SECRET".to_owned());
        let place = match kind {
            Transport::Stdio => Endpoint::Stdio { program, port, variable, secret },
            Transport::Http => Endpoint::Http { url: "http://127.0.0.1:7000/mcp".into(), secret },
        };
        (ticket, Ok(place))
    }

    /// # Panics
    /// If the place is not open.
    pub fn revoke(&mut self, ticket: Ticket) {
        assert!(self.open.remove(&ticket).is_some(), "{ticket:?} is revoked, and is not open");
    }

    pub fn open(&self) -> Vec<(Ticket, Transport)> {
        self.open.iter().map(|(ticket, kind)| (*ticket, *kind)).collect()
    }
}
