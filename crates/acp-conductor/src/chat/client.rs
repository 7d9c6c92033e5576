//! The JSON-RPC connection to the chain, from the side of the editor.

use acp_wire::{Call, Message, Outcome};
use serde_json::{Value, json};
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};

use super::payload;

/// A message from the chain.
#[derive(Debug)]
pub(crate) enum Incoming {
    Notification {
        method: String,
        params: Value,
    },
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    /// The answer to the request with this id. An error is formatted as one line.
    Answer {
        id: u64,
        outcome: Result<Value, String>,
    },
}

/// The connection to the chain.
pub(crate) struct Client {
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
    last_id: u64,
}

impl Client {
    /// A connection over this pipe.
    pub(crate) fn new(pipe: DuplexStream) -> Client {
        let (reader, writer) = tokio::io::split(pipe);
        Client { lines: BufReader::new(reader).lines(), writer, last_id: 0 }
    }

    /// The next message; `None` when the chain has ended. Cancel safe.
    pub(crate) async fn next(&mut self) -> Option<Incoming> {
        loop {
            let line = self.lines.next_line().await.ok()??;
            // The conductor delivers only valid messages.
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
                        Outcome::Error(error) => Err(one_line(&payload::read(&error))),
                        Outcome::Result(result) => Ok(payload::read(&result)),
                    };
                    Incoming::Answer { id, outcome }
                }
            });
        }
    }

    /// Sends a request and returns its id.
    pub(crate) async fn request(&mut self, method: &str, params: &Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })).await;
        id
    }

    /// Sends a notification.
    pub(crate) async fn notify(&mut self, method: &str, params: &Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params })).await;
    }

    /// Answers a request.
    pub(crate) async fn answer(&mut self, id: &Value, result: &Value) {
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "result": result })).await;
    }

    /// Rejects a request: the chat declares no client capabilities.
    pub(crate) async fn reject(&mut self, id: &Value, method: &str) {
        let error = json!({ "code": -32601, "message": format!("method not found: {method}") });
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "error": error })).await;
    }

    async fn send(&mut self, message: &Value) {
        let line = format!("{message}\n");
        // An error means that the chain has ended, which `next` reports.
        let _ = self.writer.write_all(line.as_bytes()).await;
    }
}

/// Formats an error as one line.
pub(crate) fn one_line(error: &Value) -> String {
    let message = error["message"].as_str().unwrap_or("no reason given");
    let line = message.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    match error["data"].as_str() {
        Some(data) if !data.contains('\n') && !line.contains(data) => format!("{line}: {data}"),
        _ => line,
    }
}
