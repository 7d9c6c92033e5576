//! Runs a proxy: from a line to lines. Pure, so the same driver works in-process, behind a pipe and
//! in a sandbox.

use std::collections::BTreeMap;

use acp_wire::dialect::{Outer, Plain};
use acp_wire::{Dialect, Id, Message, Outcome, Side, acp};
use bytes::Bytes;

use crate::outbox::{Outbox, Tag};
use crate::proxy::{Proxy, Request};

/// A proxy and what it has open.
pub struct Driver<P> {
    proxy: P,
    dialect: Dialect,
    table: Table,
}

impl<P> std::fmt::Debug for Driver<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("table", &self.table).finish_non_exhaustive()
    }
}

/// The questions that left under an id of ours.
#[derive(Debug, Default)]
pub(crate) struct Table {
    last: u64,
    open: BTreeMap<u64, Open>,
}

#[derive(Debug)]
pub(crate) enum Open {
    /// Somebody else's question, passed on.
    Passed { asker_id: Id, toward: Side },
    /// The proxy's own.
    Asked { toward: Side },
}

impl Table {
    pub fn open(&mut self, open: Open) -> Id {
        self.last += 1;
        self.open.insert(self.last, open);
        Id::from(self.last)
    }

    pub fn last(&self) -> u64 {
        self.last
    }

    fn close(&mut self, id: &Id) -> Option<(u64, Open)> {
        let number = u64::try_from(id.json().integer()?).ok()?;
        Some((number, self.open.remove(&number)?))
    }

    /// From where an answer with this id comes, and how its asker calls it.
    fn answered(&self, id: &Id) -> Option<(Side, Id)> {
        let number = u64::try_from(id.json().integer()?).ok()?;
        match self.open.get(&number)? {
            Open::Passed { asker_id, toward } => Some((*toward, asker_id.clone())),
            Open::Asked { toward } => Some((*toward, id.clone())),
        }
    }

    /// Which way a question of the proxy's own went, if it is open.
    pub fn asked(&self, tag: Tag) -> Option<Side> {
        match self.open.get(&tag.0) {
            Some(Open::Asked { toward }) => Some(*toward),
            _ => None,
        }
    }

    /// Under which id of ours, and which way, the question went that its asker calls `id`.
    fn passed(&self, id: &Id) -> Option<(Id, Side)> {
        self.open.iter().find_map(|(number, open)| match open {
            Open::Passed { asker_id, toward } if asker_id == id => {
                Some((Id::from(*number), *toward))
            }
            _ => None,
        })
    }
}

impl<P: Proxy> Driver<P> {
    pub fn new(proxy: P) -> Driver<P> {
        Driver { proxy, dialect: Outer::unknown().into(), table: Table::default() }
    }

    /// For the end of a chain: an agent has an editor and nobody behind it.
    pub fn agent(proxy: P) -> Driver<P> {
        Driver { proxy, dialect: Plain::editor().into(), table: Table::default() }
    }

    /// Takes one line from the conductor; appends what is to be sent back to it.
    pub fn handle(&mut self, line: &Bytes, lines: &mut Vec<u8>) {
        let decoded = self.dialect.decode(line, lines);
        let mut out = Outbox { dialect: &mut self.dialect, table: &mut self.table, lines };
        let (toward, message) = match decoded {
            Ok(Some(decoded)) => decoded,
            Ok(None) => return,
            Err(rejection) => {
                if let Some(reply) = rejection.reply {
                    out.send(Side::Editor, &reply);
                }
                return;
            }
        };
        let from = toward.opposite();
        match &message {
            Message::Response { id, outcome, extras } => {
                if let Some((from, id)) = out.table.answered(id) {
                    let (outcome, extras) = (outcome.clone(), extras.clone());
                    self.proxy.on_message(from, &Message::Response { id, outcome, extras });
                }
            }
            message => self.proxy.on_message(from, message),
        }
        match message {
            Message::Request { id, call } => {
                self.proxy.on_request(from, Request { id, call }, &mut out);
            }
            Message::Notification(call) if call.is(acp::CANCEL_REQUEST) => {
                let params = call.params.unwrap_or(acp_wire::Json::NULL);
                let Some(id) = acp::cancelled_id(&params) else { return };
                match out.table.passed(&id) {
                    Some((id, toward)) => {
                        let params = acp::cancel_params(&params, &id);
                        out.send(toward, &Message::notification(acp::CANCEL_REQUEST, params));
                    }
                    None => self.proxy.on_cancel(&id, &mut out),
                }
            }
            Message::Notification(call) => self.proxy.on_notification(from, call, &mut out),
            Message::Response { id, outcome, extras } => match out.table.close(&id) {
                Some((_, Open::Passed { asker_id, .. })) => {
                    out.send(Side::Editor, &Message::Response { id: asker_id, outcome, extras });
                }
                Some((number, Open::Asked { .. })) => self.on_answer(number, outcome, lines),
                None => {}
            },
        }
    }

    /// Lets the proxy do something at another time than when a message comes.
    pub fn act<T>(
        &mut self,
        lines: &mut Vec<u8>,
        act: impl FnOnce(&mut P, &mut Outbox<'_>) -> T,
    ) -> T {
        let mut out = Outbox { dialect: &mut self.dialect, table: &mut self.table, lines };
        act(&mut self.proxy, &mut out)
    }

    fn on_answer(&mut self, number: u64, outcome: Outcome, lines: &mut Vec<u8>) {
        let mut out = Outbox { dialect: &mut self.dialect, table: &mut self.table, lines };
        self.proxy.on_answer(Tag(number), outcome, &mut out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use acp_wire::{Call, Json};

    fn talk<P: Proxy>(proxy: P, steps: &[(&str, &str)]) {
        let mut driver = Driver::new(proxy);
        for (line, expected) in steps {
            let mut out = Vec::new();
            driver.handle(&Bytes::copy_from_slice(line.as_bytes()), &mut out);
            assert_eq!(String::from_utf8(out).unwrap().trim_end(), *expected, "after {line}");
        }
    }

    struct Transparent;
    impl Proxy for Transparent {}

    #[test]
    fn an_empty_proxy_passes_everything_both_ways() {
        talk(
            Transparent,
            &[
                (
                    r#"{"jsonrpc":"2.0","id":"c:1","method":"proxy/initialize","params":{"protocolVersion":1}}"#,
                    r#"{"jsonrpc":"2.0","id":1,"method":"proxy/successor","params":{"method":"initialize","params":{"protocolVersion":1}}}"#,
                ),
                (
                    r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1}}"#,
                    r#"{"jsonrpc":"2.0","id":"c:1","result":{"protocolVersion":1}}"#,
                ),
                (
                    r#"{"jsonrpc":"2.0","method":"proxy/successor","params":{"method":"session/update","params":{"n": 1.10}}}"#,
                    r#"{"jsonrpc":"2.0","method":"session/update","params":{"n": 1.10}}"#,
                ),
                (
                    r#"{"jsonrpc":"2.0","id":"c:2","method":"proxy/successor","params":{"method":"fs/read_text_file"}}"#,
                    r#"{"jsonrpc":"2.0","id":2,"method":"fs/read_text_file"}"#,
                ),
                (
                    r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"c:2"}}"#,
                    r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":2}}"#,
                ),
                (
                    r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32800,"message":"cancelled"}}"#,
                    r#"{"jsonrpc":"2.0","id":"c:2","error":{"code":-32800,"message":"cancelled"}}"#,
                ),
                (r#"{"jsonrpc":"2.0","id":2,"result":1}"#, ""),
                (
                    r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"c:2"}}"#,
                    "",
                ),
            ],
        );
    }

    /// Asks the agent something before it passes on the first request.
    #[derive(Default)]
    struct Asks(Option<(Tag, Request)>);
    impl Proxy for Asks {
        fn on_request(&mut self, _: Side, request: Request, out: &mut Outbox<'_>) {
            let tag = out.ask(Side::Agent, Call::new("_first", Json::trusted("{}")));
            self.0 = Some((tag, request));
        }
        fn on_answer(&mut self, tag: Tag, outcome: Outcome, out: &mut Outbox<'_>) {
            if let Some((asked, request)) = self.0.take() {
                assert_eq!(asked, tag);
                out.answer(request, outcome);
            }
        }
    }

    #[test]
    fn a_proxy_can_hold_a_request_while_it_asks_something_itself() {
        talk(
            Asks::default(),
            &[
                (
                    r#"{"jsonrpc":"2.0","id":"c:1","method":"session/prompt"}"#,
                    r#"{"jsonrpc":"2.0","id":1,"method":"proxy/successor","params":{"method":"_first","params":{}}}"#,
                ),
                (
                    r#"{"jsonrpc":"2.0","id":1,"result":{"a":1}}"#,
                    r#"{"jsonrpc":"2.0","id":"c:1","result":{"a":1}}"#,
                ),
            ],
        );
    }
}
