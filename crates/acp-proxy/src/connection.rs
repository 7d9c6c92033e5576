//! The connection to an MCP server that speaks over a stream: we are its client, on behalf of whoever
//! uses it.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use acp_proxy_core::{Call, Id, Json, Message, Outcome};
use bytes::Bytes;
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::context::Cx;
use crate::error::{Error, Result, outcome};
use crate::signal::{Giver, signal};
use crate::tool::{Event, ToolCx, ToolSession, VERSION};
use crate::typed::to_json;

/// How much a stream holds.
const PIPE: usize = 1024 * 1024;

pub type Open =
    Arc<dyn Fn(ToolSession, DuplexStream) -> Pin<Box<dyn Future<Output = ()>>> + Send + Sync>;

#[derive(Debug)]
pub struct Connection {
    lines: UnboundedSender<Vec<u8>>,
    state: RefCell<State>,
    /// What it answered to `initialize`.
    hello: RefCell<Json>,
}

#[derive(Debug, Default)]
struct State {
    last: u64,
    open: BTreeMap<u64, Waiting>,
    /// Nothing more comes.
    over: bool,
}

/// A request that the server has yet to answer, and where its user can be asked back.
struct Waiting {
    reply: Giver<Result<Json>>,
    cx: Option<ToolCx>,
}

impl std::fmt::Debug for Waiting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Waiting")
    }
}

impl Connection {
    /// Starts the server and shakes hands.
    pub async fn open(cx: &Cx, session: ToolSession, open: &Open) -> Result<Rc<Connection>> {
        let (ours, theirs) = tokio::io::duplex(PIPE);
        let (reader, mut writer) = tokio::io::split(ours);
        let (lines, mut queue) = unbounded_channel::<Vec<u8>>();
        let connection = Rc::new(Connection {
            lines,
            state: RefCell::default(),
            hello: RefCell::new(Json::EMPTY),
        });
        cx.spawn(open(session, theirs));
        cx.spawn(async move {
            while let Some(line) = queue.recv().await {
                if writer.write_all(&line).await.is_err() {
                    return;
                }
            }
        });
        cx.spawn(listen(cx.clone(), connection.clone(), reader));
        let hello = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "sampling": {}, "elicitation": {}, "roots": {} },
            "clientInfo": { "name": "conductor", "version": env!("CARGO_PKG_VERSION") },
        });
        let result = connection.send(Call::new("initialize", to_json(&hello)?), None).await?;
        *connection.hello.borrow_mut() = result;
        connection.write(&Message::notification("notifications/initialized", None));
        Ok(connection)
    }

    fn write(&self, message: &Message) {
        let mut line = Vec::new();
        message.write_line(&mut line);
        // It fails when the server has gone; then whoever waits is told.
        let _ = self.lines.send(line);
    }

    async fn send(&self, call: Call, cx: Option<ToolCx>) -> Result<Json> {
        let (reply, answer) = signal();
        {
            let mut state = self.state.borrow_mut();
            if state.over {
                return Err(Error::internal("the MCP server has ended"));
            }
            state.last += 1;
            let number = state.last;
            state.open.insert(number, Waiting { reply, cx });
            self.write(&Message::Request { id: Id::from(number), call });
        }
        answer.take().await.unwrap_or_else(|| Err(Error::internal("the MCP server has ended")))
    }

    /// Asks the server something on behalf of its user.
    pub async fn ask(self: Rc<Self>, call: Call, cx: ToolCx) -> Result<Json> {
        self.send(call, Some(cx)).await
    }

    /// What the server would answer if it had no connections.
    pub fn discovered(&self) -> Result<Json> {
        let hello = self.hello.borrow();
        Ok(Json::object([
            ("resultType", Some(Json::string("complete"))),
            ("supportedVersions", Some(Json::array([&Json::string(VERSION)]))),
            ("capabilities", Some(hello.member("capabilities").unwrap_or(Json::EMPTY))),
            ("serverInfo", hello.member("serverInfo")),
            ("instructions", hello.member("instructions").filter(Json::is_string)),
            ("ttlMs", Some(Json::trusted("0"))),
            ("cacheScope", Some(Json::string("private"))),
        ]))
    }

    /// The operation that something the server says belongs to: the one with this progress token, or
    /// the latest.
    fn operation(&self, token: Option<&Json>) -> Option<ToolCx> {
        let state = self.state.borrow();
        let mut open = state.open.values().filter_map(|waiting| waiting.cx.as_ref());
        let same = |cx: &&ToolCx| token.is_none() || cx.address.borrow().2.as_ref() == token;
        open.rfind(same).cloned()
    }
}

/// Reads what the server says, until it ends.
async fn listen(cx: Cx, connection: Rc<Connection>, reader: ReadHalf<DuplexStream>) {
    let mut lines = BufReader::new(reader).split(b'\n');
    while let Ok(Some(line)) = lines.next_segment().await {
        match Message::parse(&Bytes::from(line)) {
            Ok(Message::Response { id, outcome, .. }) => {
                let number = id.json().integer().and_then(|it| u64::try_from(it).ok());
                let mut state = connection.state.borrow_mut();
                let Some(waiting) = number.and_then(|it| state.open.remove(&it)) else { continue };
                waiting.reply.give(match outcome {
                    Outcome::Result(result) => Ok(result),
                    Outcome::Error(error) => Err(Error::from_json(error)),
                });
            }
            Ok(Message::Request { id, call }) => cx.spawn(ask_back(connection.clone(), id, call)),
            Ok(Message::Notification(call)) => {
                let token = call.params.as_ref().and_then(|params| params.member("progressToken"));
                if let Some(operation) = connection.operation(token.as_ref()) {
                    operation.notify(&call.method.name(), call.params);
                }
            }
            // Noise.
            Err(_) => {}
        }
    }
    let mut state = connection.state.borrow_mut();
    state.over = true;
    // Whoever waits is told by the end of the waiting.
    state.open.clear();
}

/// The server asks its client something.
async fn ask_back(connection: Rc<Connection>, id: Id, call: Call) {
    let round = connection.operation(None).and_then(|cx| cx.round.borrow_mut().take());
    let answer = match (round, call.is("ping")) {
        (_, true) => Ok(Json::EMPTY),
        (None, _) => Err(Error::method_not_found(&call.method.name())),
        (Some(round), _) => {
            let (reply, answer) = signal();
            round.give(Event::Asks(call, reply));
            answer.take().await.unwrap_or_else(|| Err(Error::internal("the client did not answer")))
        }
    };
    connection.write(&Message::response(id, outcome(answer)));
}
