//! The simulated endpoints to which MCP clients connect.

use std::collections::BTreeMap;

use mcp::{Endpoint, Ticket, Transport};

#[derive(Debug, Default)]
pub struct TestEndpoints {
    open: BTreeMap<Ticket, Transport>,
    /// Requested endpoints that are not opened yet, oldest first.
    requested: Vec<(Ticket, Transport)>,
    /// No endpoint can be opened.
    pub full: bool,
    /// Endpoints are opened when the scenario says so, not at once.
    pub slow: bool,
}

impl TestEndpoints {
    /// # Panics
    /// If the ticket was requested before.
    pub fn request(&mut self, ticket: Ticket, kind: Transport) {
        let known = self.open.contains_key(&ticket) || self.requested.contains(&(ticket, kind));
        assert!(!known, "{ticket:?} is requested twice");
        self.requested.push((ticket, kind));
    }

    pub fn requested(&self) -> usize {
        self.requested.len()
    }

    /// Opens one of the requested endpoints, or fails to.
    pub fn answer(&mut self, which: usize) -> (Ticket, Result<Endpoint, String>) {
        let (ticket, kind) = self.requested.remove(which);
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
    /// If the endpoint is not open.
    pub fn revoke(&mut self, ticket: Ticket) {
        assert!(self.open.remove(&ticket).is_some(), "{ticket:?} is revoked, and is not open");
    }

    pub fn open(&self) -> Vec<(Ticket, Transport)> {
        self.open.iter().map(|(ticket, kind)| (*ticket, *kind)).collect()
    }
}
