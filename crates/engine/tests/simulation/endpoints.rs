//! The endpoints for MCP clients that the shell opens. It answers at once, or with the option `slow` after other lines
//! have been transferred.

use std::collections::{BTreeSet, VecDeque};

use mcp::{Endpoint, Ticket, Transport};

/// The open endpoints, and the requests to open more.
#[derive(Debug, Default)]
pub struct Endpoints {
    open: BTreeSet<Ticket>,
    /// Requests that are not answered, with the time of each.
    pending: VecDeque<(usize, Ticket, Transport)>,
    /// Whether the next endpoint cannot be opened.
    pub fails_next: bool,
}

impl Endpoints {
    pub fn request(&mut self, stamp: usize, ticket: Ticket, transport: Transport) {
        self.pending.push_back((stamp, ticket, transport));
    }

    /// The time of the oldest request that is not answered.
    pub fn next(&self) -> Option<usize> {
        self.pending.front().map(|(stamp, ..)| *stamp)
    }

    /// Answers the oldest request.
    pub fn answer(&mut self) -> Option<(Ticket, Result<Endpoint, String>)> {
        let (_, ticket, transport) = self.pending.pop_front()?;
        if self.fails_next {
            return Some((ticket, Err("no port is free".into())));
        }
        self.open.insert(ticket);
        let secret = format!("s{}", ticket.0);
        let endpoint = match transport {
            Transport::Stdio => {
                let (program, variable) = ("/c".into(), "SECRET".into());
                Endpoint::Stdio { program, port: 7000, variable, secret }
            }
            Transport::Http => Endpoint::Http { url: "http://127.0.0.1:7000/mcp".into(), secret },
        };
        Some((ticket, Ok(endpoint)))
    }

    pub fn revoke(&mut self, ticket: Ticket) -> Result<(), String> {
        match self.open.remove(&ticket) {
            true => Ok(()),
            false => Err(format!("{ticket:?} is revoked, but is not open")),
        }
    }

    pub fn is_open(&self, ticket: Ticket) -> bool {
        self.open.contains(&ticket)
    }

    /// The number of open endpoints.
    pub fn len(&self) -> usize {
        self.open.len()
    }
}
