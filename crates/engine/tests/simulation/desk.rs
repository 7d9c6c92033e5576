//! What the shell does with places where MCP clients can connect: it opens them when it is asked to. It
//! answers at once; in a case with the word `slow`, later than other lines that move meanwhile.

use std::collections::{BTreeSet, VecDeque};

use mcp::{Endpoint, Ticket, Transport};

#[derive(Debug, Default)]
pub struct Desk {
    open: BTreeSet<Ticket>,
    /// What was asked for and not answered: when, and what.
    asked: VecDeque<(usize, Ticket, Transport)>,
    /// The next place cannot be opened.
    pub full: bool,
}

impl Desk {
    pub fn ask(&mut self, stamp: usize, ticket: Ticket, kind: Transport) {
        self.asked.push_back((stamp, ticket, kind));
    }

    /// When the oldest question that is open was asked.
    pub fn next(&self) -> Option<usize> {
        self.asked.front().map(|(stamp, ..)| *stamp)
    }

    /// The answer to it.
    pub fn answer(&mut self) -> Option<(Ticket, Result<Endpoint, String>)> {
        let (_, ticket, kind) = self.asked.pop_front()?;
        if self.full {
            return Some((ticket, Err("no port is free".into())));
        }
        self.open.insert(ticket);
        let secret = format!("s{}", ticket.0);
        let place = match kind {
            Transport::Stdio => {
                let (program, variable) = ("/c".into(), "SECRET".into());
                Endpoint::Stdio { program, port: 7000, variable, secret }
            }
            Transport::Http => Endpoint::Http { url: "http://127.0.0.1:7000/mcp".into(), secret },
        };
        Some((ticket, Ok(place)))
    }

    pub fn revoke(&mut self, ticket: Ticket) -> Result<(), String> {
        match self.open.remove(&ticket) {
            true => Ok(()),
            false => Err(format!("{ticket:?} is revoked, and is not open")),
        }
    }

    pub fn is_open(&self, ticket: Ticket) -> bool {
        self.open.contains(&ticket)
    }

    /// How many places are open.
    pub fn len(&self) -> usize {
        self.open.len()
    }
}
