//! What the shell does with places where MCP clients can connect: it opens them, and numbers their secrets.
//! It answers at once, or, if it is slow, when the test says so.

use std::collections::BTreeMap;

use engine::Input;
use mcp::{Endpoint, Ticket, Transport};

use super::Stage;

#[derive(Debug, Default)]
pub struct Desk {
    pub open: BTreeMap<Ticket, Transport>,
    pub admitted: usize,
    pub revoked: usize,
    /// No place can be opened, for this reason.
    pub full: Option<String>,
    /// What was asked for and not answered, oldest first.
    asked: Vec<(Ticket, Transport)>,
    slow: bool,
}

impl Desk {
    pub(super) fn ask(&mut self, ticket: Ticket, kind: Transport) {
        assert!(!self.open.contains_key(&ticket), "{ticket:?} is asked for twice");
        self.asked.push((ticket, kind));
    }

    pub(super) fn revoke(&mut self, ticket: Ticket) {
        assert!(self.open.remove(&ticket).is_some(), "{ticket:?} is revoked, and is not open");
        self.revoked += 1;
    }

    fn open(&mut self, kind: Transport, ticket: Ticket) -> Result<Endpoint, String> {
        if let Some(why) = &self.full {
            return Err(why.clone());
        }
        self.admitted += 1;
        self.open.insert(ticket, kind);
        let secret = format!("s{}", ticket.0);
        Ok(match kind {
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

impl Stage {
    /// The shell answers only when the test says so, or at once again.
    pub fn slow_shell(&mut self, slow: bool) {
        self.desk.slow = slow;
        self.answer_at_once();
        self.pass_on();
    }

    /// What the shell was asked for and has not answered.
    pub fn asked_of_shell(&self) -> Vec<(Ticket, Transport)> {
        self.desk.asked.clone()
    }

    /// The shell answers one of the questions.
    pub fn shell_answers(&mut self, which: usize) {
        self.answer_one(which);
        self.pass_on();
    }

    /// Answers all questions, if the shell is not slow.
    pub(super) fn answer_at_once(&mut self) {
        while !self.desk.slow && !self.desk.asked.is_empty() {
            self.answer_one(0);
        }
    }

    fn answer_one(&mut self, which: usize) {
        let (ticket, kind) = self.desk.asked.remove(which);
        let endpoint = self.desk.open(kind, ticket);
        self.journal.push(format!("the shell: ticket {} {:?}", ticket.0, endpoint));
        self.handle(Input::EndpointOpened { ticket, endpoint });
    }
}
