//! The JSON-RPC connection to an agent, from the side of the editor.

use acp_wire::{Call, Message, Outcome};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, Lines};

use crate::payload;

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

/// The connection to an agent.
#[derive(Debug)]
pub struct Connection<R, W> {
    lines: Lines<BufReader<R>>,
    writer: W,
    last_id: u64,
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Connection<R, W> {
    /// A connection over this pair of byte streams.
    pub fn new(reader: R, writer: W) -> Connection<R, W> {
        Connection { lines: BufReader::new(reader).lines(), writer, last_id: 0 }
    }

    /// The next message; `None` when the agent has closed the connection. Cancel safe.
    pub async fn next(&mut self) -> Option<Incoming> {
        loop {
            let line = self.lines.next_line().await.ok()??;
            // A line that is not a message is ignored: there is no request to answer.
            let Ok(message) = Message::parse(&line.into()) else { continue };
            let params = |call: &Call| call.params.as_ref().map(payload::read).unwrap_or_default();
            return Some(match message {
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
                    let id = id.json().integer().and_then(|id| u64::try_from(id).ok());
                    let Some(id) = id else { continue };
                    let outcome = match outcome {
                        Outcome::Error(error) => Err(payload::read(&error)),
                        Outcome::Result(result) => Ok(payload::read(&result)),
                    };
                    Incoming::Answer { id, outcome }
                }
            });
        }
    }

    /// Sends a request and returns its id.
    pub async fn request(&mut self, method: &str, params: &Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        id
    }

    /// Sends a notification.
    pub async fn notify(&mut self, method: &str, params: &Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }

    /// Answers a request.
    pub async fn answer(&mut self, id: &Value, result: &Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "result": result })).await;
    }

    /// Answers a request with a JSON-RPC error object.
    pub async fn reject(&mut self, id: &Value, error: &Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "error": error })).await;
    }

    async fn send(&mut self, message: &Value) {
        let line = format!("{message}\n");
        // An error means that the agent has closed the connection, which `next` reports.
        let _ = self.writer.write_all(line.as_bytes()).await;
    }
}
