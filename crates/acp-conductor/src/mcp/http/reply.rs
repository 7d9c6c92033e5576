//! HTTP responses: a status with an optional text, or a stream of server-sent events.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use acp_wire::{Id, Message, Outcome};
use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Response, StatusCode};
use tokio::time::{Instant, Interval, MissedTickBehavior};

use super::session::{OutgoingMessage, ResponseReader};

/// The interval of keep-alive comments in an event stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// A response.
pub(super) type Reply = Response<Body>;

/// The response to a request that is rejected.
pub(super) type ErrorReply = Box<Reply>;

pub(super) const JSON: &str = "application/json";
pub(super) const EVENTS: &str = "text/event-stream";

/// The body of a response.
pub(super) enum Body {
    Text(Option<Bytes>),
    Events(Events),
}

/// A stream of messages as server-sent events.
pub(super) struct Events {
    reader: ResponseReader,
    /// The first message, which was read to determine the status.
    first: Option<OutgoingMessage>,
    keep_alive: Interval,
}

/// A response without a text.
pub(super) fn empty(status: StatusCode) -> Reply {
    let mut reply = Response::new(Body::Text(None));
    *reply.status_mut() = status;
    reply
}

/// A response with a JSON text.
pub(super) fn json(status: StatusCode, text: Bytes) -> Reply {
    let mut reply = Response::new(Body::Text(Some(text)));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    reply
}

/// A response with a JSON-RPC error as its text.
pub(super) fn error_reply(status: StatusCode, id: Id, code: i64, message: &str) -> ErrorReply {
    Box::new(json(status, Message::response(id, Outcome::error(code, message)).to_line().into()))
}

/// A response with an event stream.
pub(super) fn events(reader: ResponseReader, first: Option<OutgoingMessage>) -> Reply {
    let mut keep_alive = tokio::time::interval_at(Instant::now() + KEEP_ALIVE, KEEP_ALIVE);
    keep_alive.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut reply = Response::new(Body::Events(Events { reader, first, keep_alive }));
    let headers = reply.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENTS));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    reply
}

impl Events {
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let next = match self.first.take() {
            Some(first) => Poll::Ready(Some(first)),
            None => self.reader.poll_next(cx),
        };
        match next {
            Poll::Ready(Some(message)) => Poll::Ready(Some(event(&message.line))),
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Pending => {
                ready!(self.keep_alive.poll_tick(cx));
                Poll::Ready(Some(Bytes::from_static(b":\n\n")))
            }
        }
    }
}

/// Encodes a message as a server-sent event. Line breaks between tokens become spaces, because a line break
/// ends the data of an event.
pub(in crate::mcp) fn event(line: &[u8]) -> Bytes {
    let mut out = Vec::with_capacity(line.len() + 8);
    out.extend_from_slice(b"data: ");
    out.extend(line.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }));
    out.extend_from_slice(b"\n\n");
    out.into()
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let data = match self.get_mut() {
            Body::Text(text) => text.take(),
            Body::Events(events) => ready!(events.poll_event(cx)),
        };
        Poll::Ready(data.map(|data| Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Body::Text(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Text(text) => SizeHint::with_exact(text.as_ref().map_or(0, Bytes::len) as u64),
            Body::Events(_) => SizeHint::default(),
        }
    }
}
