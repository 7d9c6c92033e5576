//! What a response is made of: a status and one text, or a stream of events.

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

use super::session::{OutgoingMessage, Reader};

/// How often a stream without messages shows that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

pub(super) type Reply = Response<Body>;

/// The reply to a request that is not carried out.
pub(super) type Refusal = Box<Reply>;

pub(super) const JSON: &str = "application/json";
pub(super) const EVENTS: &str = "text/event-stream";

pub(super) enum Body {
    Text(Option<Bytes>),
    Events(Events),
}

/// The messages of one stream as events.
pub(super) struct Events {
    reader: Reader,
    /// Was read to find out which status to send.
    first: Option<OutgoingMessage>,
    keep_alive: Interval,
}

/// A status without a text.
pub(super) fn bare(status: StatusCode) -> Reply {
    let mut reply = Response::new(Body::Text(None));
    *reply.status_mut() = status;
    reply
}

pub(super) fn json(status: StatusCode, text: Bytes) -> Reply {
    let mut reply = Response::new(Body::Text(Some(text)));
    *reply.status_mut() = status;
    reply.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    reply
}

/// With a JSON-RPC error as its text.
pub(super) fn refusal(status: StatusCode, id: Id, code: i64, words: &str) -> Refusal {
    Box::new(json(status, Message::response(id, Outcome::error(code, words)).to_line().into()))
}

pub(super) fn events(reader: Reader, first: Option<OutgoingMessage>) -> Reply {
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

/// A line break between the tokens of a message would end the event's data.
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
