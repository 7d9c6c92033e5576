//! The log of all messages that participants have sent, and the rules for the messages that they receive.
//!
//! Each message has a number, its index in the log. The number is the first member of its payload: `{"n":17,…}`. When a
//! participant receives a message, the log checks that the message is for this participant, is unchanged, arrives for
//! the first time and has not been overtaken. The rules know participants and their neighbours, and nothing of
//! conductors, seats or topologies.

use std::collections::BTreeMap;

use acp_wire::Side;

use super::{Check, Violation};

/// The number of a message.
pub type Serial = usize;

/// A message that a participant has sent.
#[derive(Debug)]
pub struct SentMessage {
    /// The participant that has sent it.
    pub from: usize,
    /// The participant that it is for.
    pub to: usize,
    /// The side that it travels toward.
    pub toward: Side,
    /// Request, notification, response or cancellation.
    pub kind: MessageKind,
    /// The params, the result or the error, byte by byte.
    pub payload: String,
    /// Whether it must arrive: its receiver was initialized when it was sent.
    pub must_arrive: bool,
    /// Whether a conductor has read it.
    pub accepted: bool,
    /// Whether its receiver has read it.
    pub received: bool,
}

/// What a message is.
#[derive(Debug)]
pub enum MessageKind {
    /// A request.
    Request(RequestState),
    /// A notification other than a cancellation.
    Notification {
        /// Its method.
        method: String,
    },
    /// A response.
    Response {
        /// The request that it answers.
        request: Serial,
        /// Whether it is an error.
        error: bool,
    },
    /// A `$/cancel_request` of the sender's own request.
    Cancel {
        /// The cancelled request.
        request: Serial,
    },
    /// A response to no request of the sender's, or a cancellation of another participant's request. It must not
    /// arrive anywhere.
    Stray,
}

/// What is known of a request.
#[derive(Debug, Default)]
pub struct RequestState {
    /// Its method.
    pub method: String,
    /// The requester's id.
    pub id: String,
    /// The id with which it has reached the responder.
    pub received_id: Option<String>,
    /// The response that the responder has sent.
    pub answer: Option<Serial>,
    /// Whether the requester has received an answer.
    pub answered: bool,
    /// Whether a conductor has read a cancellation of it.
    pub cancelled: bool,
    /// Whether the responder has received the cancellation.
    pub cancel_received: bool,
}

/// All messages that participants have sent.
#[derive(Debug, Default)]
pub struct MessageLog {
    /// The messages, by number.
    pub sent: Vec<SentMessage>,
    /// By sender, receiver and direction: the last message that was received.
    last: BTreeMap<(usize, usize, Side), Serial>,
}

/// Reports that a rule was broken.
pub fn violation<T>(text: impl Into<String>) -> Result<T, Violation> {
    Err(Violation(text.into()))
}

impl MessageLog {
    /// Adds a message. `payload` writes its text, given its number.
    pub fn add(
        &mut self,
        (from, to): (usize, usize),
        toward: Side,
        kind: MessageKind,
        must_arrive: bool,
        payload: impl FnOnce(Serial) -> String,
    ) -> Serial {
        let serial = self.sent.len();
        let payload = payload(serial);
        let (accepted, received) = (false, false);
        self.sent.push(SentMessage {
            from,
            to,
            toward,
            kind,
            payload,
            must_arrive,
            accepted,
            received,
        });
        serial
    }

    /// The request of this number, if the message is one.
    pub fn request(&self, serial: Serial) -> Option<&RequestState> {
        match &self.sent.get(serial)?.kind {
            MessageKind::Request(request) => Some(request),
            _ => None,
        }
    }

    /// The request of this number, if the message is one.
    pub fn request_mut(&mut self, serial: Serial) -> Option<&mut RequestState> {
        match &mut self.sent.get_mut(serial)?.kind {
            MessageKind::Request(request) => Some(request),
            _ => None,
        }
    }

    /// All requests.
    pub fn requests(&self) -> impl Iterator<Item = (Serial, &SentMessage, &RequestState)> {
        self.sent.iter().enumerate().filter_map(|(serial, message)| match &message.kind {
            MessageKind::Request(request) => Some((serial, message, request)),
            _ => None,
        })
    }

    /// The message that this payload belongs to. `None` for a message that a conductor has written itself.
    pub fn find(&self, payload: &str) -> Option<Serial> {
        let number = payload.strip_prefix("{\"n\":")?;
        let end = number.find(|it: char| !it.is_ascii_digit())?;
        number[..end].parse().ok().filter(|serial| *serial < self.sent.len())
    }

    /// Marks a message as read by a conductor.
    pub fn accept(&mut self, serial: Serial) {
        self.sent[serial].accepted = true;
        if let MessageKind::Cancel { request } = self.sent[serial].kind
            && let Some(request) = self.request_mut(request)
        {
            request.cancelled = true;
        }
    }

    /// Checks the rules for all messages: this one is for this receiver, unchanged, received for the first time, and in
    /// order.
    ///
    /// # Errors
    /// The rule that was broken.
    pub fn receive(&mut self, by: usize, serial: Serial, payload: &str, ordered: bool) -> Check {
        let message = &mut self.sent[serial];
        if message.to != by {
            let to = message.to;
            return violation(format!("{by} receives message {serial}, which is for {to}"));
        }
        if std::mem::replace(&mut message.received, true) {
            return violation(format!("{by} receives message {serial} twice"));
        }
        if !matches!(message.kind, MessageKind::Cancel { .. }) && message.payload != payload {
            let sent = &message.payload;
            return violation(format!("message {serial} has changed from {sent} to {payload}"));
        }
        if ordered {
            match self.last.insert((message.from, by, message.toward), serial) {
                Some(last) if last > serial => {
                    return violation(format!("message {last} has overtaken message {serial}"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Checks a received request or, without an id, a notification.
    ///
    /// # Errors
    /// The rule that was broken.
    pub fn receive_call(&mut self, serial: Serial, method: &str, id: Option<&str>) -> Check {
        let message = &mut self.sent[serial];
        let wanted = match (&mut message.kind, id) {
            (MessageKind::Request(request), Some(id)) => {
                request.received_id = Some(id.to_owned());
                &request.method
            }
            (MessageKind::Notification { method }, None) => method,
            (kind, _) => return violation(format!("message {serial} is {kind:?}, not {method}")),
        };
        match wanted == method {
            true => Ok(()),
            false => violation(format!("the method of message {serial} is {method}, not {wanted}")),
        }
    }

    /// Checks a received cancellation of the request that its responder knows as `id`.
    ///
    /// # Errors
    /// The rule that was broken.
    pub fn receive_cancel(&mut self, serial: Serial, payload: &str, id: &str) -> Check {
        let message = &self.sent[serial];
        let MessageKind::Cancel { request: cancelled } = message.kind else {
            return violation(format!("message {serial} is no cancellation of a request"));
        };
        let Some(request) = self.request(cancelled) else { return Ok(()) };
        if request.received_id.as_deref() != Some(id) {
            let known = &request.received_id;
            return violation(format!("request {cancelled}, id {known:?}, is cancelled as {id}"));
        }
        if payload != message.payload.replace(&requested(&request.id), &requested(id)) {
            return violation(format!("the cancellation {serial} has changed to {payload}"));
        }
        let request = self.request_mut(cancelled);
        match request.map(|it| std::mem::replace(&mut it.cancel_received, true)) {
            Some(true) => violation(format!("request {cancelled} is cancelled twice")),
            _ => Ok(()),
        }
    }

    /// The request of a participant that an answer with this id is for.
    ///
    /// # Errors
    /// If it has sent no such request, or has received the answer already.
    pub fn request_of(&self, requester: usize, id: &str) -> Result<Serial, Violation> {
        let is_it = |message: &SentMessage, request: &RequestState| {
            message.from == requester && request.id == id
        };
        let mut found = self.requests().filter(|(_, message, request)| is_it(message, request));
        match found.next() {
            None => {
                violation(format!("{requester} gets an answer {id} to a request it never sent"))
            }
            Some((serial, _, request)) if request.answered => {
                violation(format!("{requester} gets a second answer to request {serial}"))
            }
            Some((serial, ..)) => Ok(serial),
        }
    }

    /// Checks that message `serial` is the answer to a request.
    ///
    /// # Errors
    /// The rule that was broken.
    pub fn receive_answer(&mut self, request: Serial, serial: Serial, is_error: bool) -> Check {
        match self.sent[serial].kind {
            MessageKind::Response { request: of, error } if of == request && error == is_error => {
                Ok(())
            }
            ref kind => violation(format!("request {request} is answered with {serial}: {kind:?}")),
        }
    }
}

/// The member of a cancellation that changes from hop to hop.
pub fn requested(id: &str) -> String {
    format!("\"requestId\":{id}")
}
