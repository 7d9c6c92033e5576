//! Runs a proxy: one line in, lines out. The driver does no I/O, so it runs in a process, behind a pipe or in
//! a sandbox.

use std::collections::BTreeMap;

use acp_wire::dialect::{Outer, Plain};
use acp_wire::{Dialect, Id, Message, Outcome, Side, acp};
use bytes::Bytes;

use crate::outbox::{Outbox, RequestKey};
use crate::proxy::{IncomingRequest, Proxy, Rewritten};

/// Runs a [`Proxy`]: decodes lines, gives out request ids, and routes answers and cancellations.
pub struct Driver<P> {
    proxy: P,
    dialect: Dialect,
    open: OpenRequests,
}

impl<P> std::fmt::Debug for Driver<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Driver").field("open", &self.open).finish_non_exhaustive()
    }
}

/// The requests that were sent and not answered yet, by the number that is their id on the wire.
#[derive(Debug, Default)]
pub(crate) struct OpenRequests {
    last: u64,
    sent: BTreeMap<u64, SentRequest>,
}

#[derive(Debug)]
pub(crate) enum SentRequest {
    /// A request of another component that the proxy has forwarded.
    Forwarded { requester_id: Id, toward: Side },
    /// A request that the proxy itself has made.
    New { toward: Side },
}

impl OpenRequests {
    pub(crate) fn insert(&mut self, request: SentRequest) -> Id {
        self.last += 1;
        self.sent.insert(self.last, request);
        Id::from(self.last)
    }

    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    fn remove(&mut self, id: &Id) -> Option<(u64, SentRequest)> {
        let number = u64::try_from(id.json().integer()?).ok()?;
        Some((number, self.sent.remove(&number)?))
    }

    /// The side that a response with this id comes from, and the id that the requester knows.
    fn responder(&self, id: &Id) -> Option<(Side, Id)> {
        let number = u64::try_from(id.json().integer()?).ok()?;
        match self.sent.get(&number)? {
            SentRequest::Forwarded { requester_id, toward } => {
                Some((*toward, requester_id.clone()))
            }
            SentRequest::New { toward } => Some((*toward, id.clone())),
        }
    }

    /// The side that an open request of the proxy was sent to.
    pub(crate) fn side_of(&self, key: RequestKey) -> Option<Side> {
        match self.sent.get(&key.0) {
            Some(SentRequest::New { toward }) => Some(*toward),
            _ => None,
        }
    }

    /// The forwarded request that its requester calls `id`: its id on the wire, and where it was sent.
    fn forwarded(&self, id: &Id) -> Option<(Id, Side)> {
        self.sent.iter().find_map(|(number, sent)| match sent {
            SentRequest::Forwarded { requester_id, toward } if requester_id == id => {
                Some((Id::from(*number), *toward))
            }
            _ => None,
        })
    }
}

impl<P: Proxy> Driver<P> {
    /// A driver for a proxy. It finds out which generation of the proxy protocol the conductor speaks.
    pub fn new(proxy: P) -> Driver<P> {
        Driver { proxy, dialect: Outer::unknown().into(), open: OpenRequests::default() }
    }

    /// A driver for an agent: the end of a chain, which speaks plain ACP with its editor.
    pub fn agent(proxy: P) -> Driver<P> {
        Driver { proxy, dialect: Plain::editor().into(), open: OpenRequests::default() }
    }

    /// Handles one line from the conductor. Appends the lines to send back to `lines`.
    pub fn handle(&mut self, line: &Bytes, lines: &mut Vec<u8>) {
        let decoded = self.dialect.decode(line, lines);
        let mut out = Outbox { dialect: &mut self.dialect, open: &mut self.open, lines };
        let (toward, mut message) = match decoded {
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
        if rewrite(&mut self.proxy, from, &mut message, &mut out).is_taken() {
            return;
        }
        match &message {
            Message::Response { id, outcome, extras } => {
                if let Some((from, id)) = out.open.responder(id) {
                    let (outcome, extras) = (outcome.clone(), extras.clone());
                    self.proxy.on_message(from, &Message::Response { id, outcome, extras });
                }
            }
            message => self.proxy.on_message(from, message),
        }
        match message {
            Message::Request { id, call } => {
                self.proxy.on_request(from, IncomingRequest { id, call }, &mut out);
            }
            Message::Notification(call) if call.is(acp::CANCEL_REQUEST) => {
                let params = call.params.unwrap_or(acp_wire::Json::NULL);
                let Some(id) = acp::cancelled_id(&params) else { return };
                match out.open.forwarded(&id) {
                    Some((id, toward)) => {
                        let params = acp::with_cancelled_id(&params, &id);
                        out.send(toward, &Message::notification(acp::CANCEL_REQUEST, params));
                    }
                    None => self.proxy.on_cancel(&id, &mut out),
                }
            }
            Message::Notification(call) => self.proxy.on_notification(from, call, &mut out),
            Message::Response { id, outcome, extras } => match out.open.remove(&id) {
                Some((_, SentRequest::Forwarded { requester_id, .. })) => {
                    let (id, answer) = (requester_id.clone(), outcome.clone());
                    let response = Message::Response { id: requester_id, outcome, extras };
                    out.send(Side::Editor, &response);
                    self.proxy.on_forwarded_answer(&id, &answer);
                }
                Some((number, SentRequest::New { .. })) => self.on_answer(number, outcome, lines),
                None => {}
            },
        }
    }

    /// Gives access to the proxy and its outbox at any time, such as when a timer fires. Appends the lines to
    /// send to `lines`.
    pub fn with_proxy<T>(
        &mut self,
        lines: &mut Vec<u8>,
        act: impl FnOnce(&mut P, &mut Outbox<'_>) -> T,
    ) -> T {
        let mut out = Outbox { dialect: &mut self.dialect, open: &mut self.open, lines };
        act(&mut self.proxy, &mut out)
    }

    fn on_answer(&mut self, number: u64, outcome: Outcome, lines: &mut Vec<u8>) {
        let mut out = Outbox { dialect: &mut self.dialect, open: &mut self.open, lines };
        self.proxy.on_answer(RequestKey(number), outcome, &mut out);
    }
}

/// Whether a message goes on after it was rewritten.
enum Fate {
    GoesOn,
    Taken,
}

impl Fate {
    fn is_taken(&self) -> bool {
        matches!(self, Fate::Taken)
    }
}

/// Lets the proxy rewrite a message.
fn rewrite(
    proxy: &mut impl Proxy,
    from: Side,
    message: &mut Message,
    out: &mut Outbox<'_>,
) -> Fate {
    if let Message::Response { id, .. } = message {
        let Some((from, requester_id)) = out.open.responder(id) else { return Fate::GoesOn };
        let wire_id = std::mem::replace(id, requester_id);
        let rewritten = proxy.rewrite(from, message, out);
        if let Message::Response { id, outcome, extras } = message {
            *id = wire_id;
            if let Rewritten::Refuse(error) = rewritten {
                (*outcome, *extras) = (Outcome::Error(error), None);
            }
        }
        return Fate::GoesOn;
    }
    match (proxy.rewrite(from, message, out), message) {
        (Rewritten::Refuse(error), Message::Request { id, call }) => {
            let request = IncomingRequest { id: id.clone(), call: call.clone() };
            out.answer(request, Outcome::Error(error));
            Fate::Taken
        }
        (Rewritten::Refuse(_) | Rewritten::Drop, Message::Notification(_)) => Fate::Taken,
        _ => Fate::GoesOn,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use acp_wire::{Call, Json};

    fn play<P: Proxy>(proxy: P, steps: &[(&str, &str)]) {
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
    fn a_proxy_without_methods_forwards_everything_in_both_directions() {
        play(
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

    /// Sends a request to the agent and answers the editor's request with the agent's answer.
    #[derive(Default)]
    struct RequestsFirst(Option<(RequestKey, IncomingRequest)>);
    impl Proxy for RequestsFirst {
        fn on_request(&mut self, _: Side, request: IncomingRequest, out: &mut Outbox<'_>) {
            let key = out.request(Side::Agent, Call::new("_first", Json::trusted("{}")));
            self.0 = Some((key, request));
        }
        fn on_answer(&mut self, key: RequestKey, outcome: Outcome, out: &mut Outbox<'_>) {
            if let Some((sent, request)) = self.0.take() {
                assert_eq!(sent, key);
                out.answer(request, outcome);
            }
        }
    }

    #[test]
    fn a_proxy_can_keep_a_request_while_it_waits_for_its_own() {
        play(
            RequestsFirst::default(),
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
