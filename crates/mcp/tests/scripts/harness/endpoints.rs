//! The part of the shell that opens endpoints. It answers at once, or, if it is delayed, when the
//! test calls it. Secrets are numbered.

use std::collections::BTreeMap;

use engine::Input;
use mcp::{Endpoint, Ticket, Transport};

use super::Harness;

/// The endpoints of the shell.
#[derive(Debug, Default)]
pub struct ShellEndpoints {
    pub open: BTreeMap<Ticket, Transport>,
    pub opened_count: usize,
    pub revoked_count: usize,
    /// Endpoints cannot be opened, for this reason.
    pub failure: Option<String>,
    /// Requested endpoints that are not answered yet, oldest first.
    requested: Vec<(Ticket, Transport)>,
    delayed: bool,
}

impl ShellEndpoints {
    pub(super) fn ask(&mut self, ticket: Ticket, transport: Transport) {
        assert!(!self.open.contains_key(&ticket), "the endpoint of {ticket:?} is requested twice");
        self.requested.push((ticket, transport));
    }

    pub(super) fn revoke(&mut self, ticket: Ticket) {
        assert!(
            self.open.remove(&ticket).is_some(),
            "{ticket:?} is revoked, but its endpoint is not open"
        );
        self.revoked_count += 1;
    }

    fn open(&mut self, transport: Transport, ticket: Ticket) -> Result<Endpoint, String> {
        if let Some(why) = &self.failure {
            return Err(why.clone());
        }
        self.opened_count += 1;
        self.open.insert(ticket, transport);
        let secret = format!("s{}", ticket.0);
        Ok(match transport {
            Transport::Stdio => Endpoint::Stdio {
                program: "/conductor".into(),
                port: 7000,
                variable: "SECRET".into(),
                secret,
            },
            Transport::Http => Endpoint::Http { url: "http://127.0.0.1:7000/mcp".into(), secret },
        })
    }
}

impl Harness {
    /// Delays the answers of the shell until the test asks for them, or stops doing so.
    pub fn delay_shell(&mut self, delayed: bool) {
        self.endpoints.delayed = delayed;
        self.answer_at_once();
        self.run_pass_through();
    }

    /// The requested endpoints that are not answered yet.
    pub fn requested_endpoints(&self) -> Vec<(Ticket, Transport)> {
        self.endpoints.requested.clone()
    }

    /// The shell answers one of the requests.
    pub fn answer_endpoint(&mut self, which: usize) {
        self.answer_one(which);
        self.run_pass_through();
    }

    /// Answers all requests, unless the shell is delayed.
    pub(super) fn answer_at_once(&mut self) {
        while !self.endpoints.delayed && !self.endpoints.requested.is_empty() {
            self.answer_one(0);
        }
    }

    fn answer_one(&mut self, which: usize) {
        let (ticket, transport) = self.endpoints.requested.remove(which);
        let endpoint = self.endpoints.open(transport, ticket);
        self.journal.push(format!("the shell: ticket {} {:?}", ticket.0, endpoint));
        self.handle(Input::EndpointOpened { ticket, endpoint });
    }
}
