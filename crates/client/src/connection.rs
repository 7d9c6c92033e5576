//! The JSON-RPC connection to an agent, from the side of the editor.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use acp_wire::{Call, Message, Outcome};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, BufReader, Lines};

use crate::payload;

/// While more bytes than that are queued, nothing is read. So an agent that does not read its answers cannot fill the
/// memory with them.
const MAX_QUEUED: usize = 16 * 1024 * 1024;

/// A message from the agent.
#[derive(Debug)]
pub enum Incoming {
    /// A notification.
    Notification {
        /// The method.
        method: String,
        /// The parameters; null if there are none.
        params: Value,
    },
    /// A request, which must be answered.
    Request {
        /// The id of the request.
        id: Value,
        /// The method.
        method: String,
        /// The parameters; null if there are none.
        params: Value,
    },
    /// The answer to a request.
    Answer {
        /// The id of the request.
        id: u64,
        /// The result, or the JSON-RPC error object.
        outcome: Result<Value, Value>,
    },
}

/// Messages to the agent that are not written yet. The queue is separate from the [`Connection`], so that code that
/// decides what to send needs no I/O.
#[derive(Debug, Default)]
pub struct Outgoing {
    bytes: Vec<u8>,
    /// The number of bytes that are already written.
    written: usize,
    last_id: u64,
}

impl Outgoing {
    /// Queues a request and returns its id.
    pub fn request(&mut self, method: &str, params: &Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.push(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Queues a notification.
    pub fn notify(&mut self, method: &str, params: &Value) {
        self.push(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    /// Queues the answer to a request: its result, or a JSON-RPC error object.
    pub fn answer(&mut self, id: &Value, outcome: &Result<Value, Value>) {
        self.push(&match outcome {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err(error) => json!({ "jsonrpc": "2.0", "id": id, "error": error }),
        });
    }

    /// Removes and returns the queued messages.
    pub fn take(&mut self) -> Vec<Value> {
        let bytes = std::mem::take(&mut self.bytes);
        let lines = bytes[std::mem::take(&mut self.written)..].split(|byte| *byte == b'\n');
        lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()
    }

    fn push(&mut self, message: &Value) {
        self.bytes.extend_from_slice(message.to_string().as_bytes());
        self.bytes.push(b'\n');
    }

    /// Writes as much as possible. Ready when everything is written.
    fn poll_write(
        &mut self,
        mut writer: Pin<&mut impl AsyncWrite>,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        while self.written < self.bytes.len() {
            match writer.as_mut().poll_write(cx, &self.bytes[self.written..]) {
                Poll::Ready(Ok(count @ 1..)) => self.written += count,
                // The agent has closed the connection, which `next` reports.
                Poll::Ready(Ok(0) | Err(_)) => self.written = self.bytes.len(),
                Poll::Pending => return Poll::Pending,
            }
        }
        self.bytes.clear();
        self.written = 0;
        writer.poll_flush(cx).map(|_| ())
    }
}

/// The connection to an agent.
#[derive(Debug)]
pub struct Connection<R, W> {
    lines: Lines<BufReader<R>>,
    writer: W,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<R, W> {
    /// A connection over this pair of byte streams.
    pub fn new(reader: R, writer: W) -> Connection<R, W> {
        Connection { lines: BufReader::new(reader).lines(), writer }
    }

    /// The next message; `None` when the agent has closed the connection. In the meantime, writes the queued messages.
    /// So neither side can block the other one, unless the agent does not read at all. Cancel safe.
    pub async fn next(&mut self, outgoing: &mut Outgoing) -> Option<Incoming> {
        poll_fn(|cx| {
            // Not ready means that the writer wakes this task.
            let _ = outgoing.poll_write(Pin::new(&mut self.writer), cx);
            if outgoing.bytes.len() - outgoing.written > MAX_QUEUED {
                return Poll::Pending;
            }
            loop {
                let line = match Pin::new(&mut self.lines).poll_next_line(cx) {
                    Poll::Ready(line) => line.ok().flatten(),
                    Poll::Pending => return Poll::Pending,
                };
                let Some(line) = line else { return Poll::Ready(None) };
                // A line that is not a message is ignored: there is no request to answer.
                if let Some(incoming) = parse(line) {
                    return Poll::Ready(Some(incoming));
                }
            }
        })
        .await
    }

    /// Writes all queued messages.
    pub async fn flush(&mut self, outgoing: &mut Outgoing) {
        poll_fn(|cx| outgoing.poll_write(Pin::new(&mut self.writer), cx)).await;
    }
}

fn parse(line: String) -> Option<Incoming> {
    let params = |call: &Call| call.params.as_ref().map(payload::read).unwrap_or_default();
    Some(match Message::parse(&line.into()).ok()? {
        Message::Request { id, call } => Incoming::Request {
            id: payload::read(id.json()),
            method: call.method.name().into_owned(),
            params: params(&call),
        },
        Message::Notification(call) => Incoming::Notification {
            method: call.method.name().into_owned(),
            params: params(&call),
        },
        Message::Response { id, outcome, .. } => {
            let id = id.json().integer().and_then(|id| u64::try_from(id).ok())?;
            let outcome = match outcome {
                Outcome::Error(error) => Err(payload::read(&error)),
                Outcome::Result(result) => Ok(payload::read(&result)),
            };
            Incoming::Answer { id, outcome }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queued_messages_have_increasing_ids_and_keep_their_order() {
        let mut outgoing = Outgoing::default();
        assert_eq!(outgoing.request("a", &json!({})), 1);
        outgoing.notify("b", &json!({}));
        outgoing.answer(&json!("x"), &Ok(json!(1)));
        assert_eq!(outgoing.request("c", &json!({})), 2);
        let messages = outgoing.take();
        assert_eq!(messages[1]["method"], "b");
        assert_eq!((&messages[2]["id"], &messages[2]["result"]), (&json!("x"), &json!(1)));
        assert_eq!((messages.len(), &messages[3]["id"]), (4, &json!(2)));
    }

    #[tokio::test]
    async fn an_agent_that_does_not_read_is_not_read() {
        use tokio::io::AsyncWriteExt;
        let (ours, theirs) = tokio::io::duplex(1000);
        let (reader, writer) = tokio::io::split(ours);
        let (mut their_reader, mut their_writer) = tokio::io::split(theirs);
        their_writer.write_all(b"{\"jsonrpc\":\"2.0\",\"method\":\"m\"}\n").await.expect("fits");
        let mut connection = Connection::new(reader, writer);
        let mut outgoing = Outgoing::default();
        outgoing.notify("n", &"x".repeat(MAX_QUEUED + 1000).into());
        let mut next = Box::pin(connection.next(&mut outgoing));
        let pending = poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx).is_pending())).await;
        assert!(pending);
        let reading = tokio::spawn(async move {
            tokio::io::copy(&mut their_reader, &mut tokio::io::sink()).await
        });
        assert!(matches!(next.await, Some(Incoming::Notification { .. })));
        reading.abort();
    }

    /// Both sides write more than the pipe holds before either one reads.
    #[tokio::test]
    async fn a_long_message_does_not_block_the_connection() {
        let (ours, theirs) = tokio::io::duplex(1000);
        let (reader, writer) = tokio::io::split(ours);
        let (their_reader, mut their_writer) = tokio::io::split(theirs);
        let long = "x".repeat(100_000);
        let line = format!("{}\n", json!({ "jsonrpc": "2.0", "method": "m", "params": [long] }));
        let sent = line.clone();
        let agent = tokio::spawn(async move {
            use tokio::io::AsyncWriteExt;
            their_writer.write_all(sent.as_bytes()).await.expect("the client reads");
            let mut lines = BufReader::new(their_reader).lines();
            let first = lines.next_line().await.expect("the client writes").expect("a line");
            their_writer
                .write_all(b"noise\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":7}\n")
                .await
                .expect("the client reads");
            first.len()
        });
        let mut connection = Connection::new(reader, writer);
        let mut outgoing = Outgoing::default();
        outgoing.request("session/prompt", &json!({ "text": long }));
        let first = connection.next(&mut outgoing).await;
        assert!(matches!(first, Some(Incoming::Notification { .. })), "{first:?}");
        let second = connection.next(&mut outgoing).await;
        assert!(matches!(second, Some(Incoming::Answer { id: 1, outcome: Ok(_) })), "{second:?}");
        assert!(connection.next(&mut outgoing).await.is_none());
        assert!(agent.await.expect("no panic") > 100_000);
    }
}
