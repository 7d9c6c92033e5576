//! The connection to an MCP server on a stream. The proxy is its MCP client, on behalf of the agent.

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

use crate::context::Context;
use crate::error::{Error, Result, outcome};
use crate::oneshot::{Sender, oneshot};
use crate::tool::{ToolContext, ToolSession, ToolStep, no_answer};
use crate::tool_server::MCP_VERSION;
use crate::typed::to_json;

/// The capacity of a stream in bytes.
const STREAM_CAPACITY: usize = 1024 * 1024;

/// Starts a server on a stream.
pub(crate) type OpenServer =
    Arc<dyn Fn(ToolSession, DuplexStream) -> Pin<Box<dyn Future<Output = ()>>> + Send + Sync>;

#[derive(Debug)]
pub(crate) struct Connection {
    lines: UnboundedSender<Vec<u8>>,
    requests: RefCell<OpenRequests>,
    /// The answer to `initialize`.
    server_info: RefCell<Json>,
}

#[derive(Debug, Default)]
struct OpenRequests {
    last_id: u64,
    open: BTreeMap<u64, OpenRequest>,
    /// The server has ended.
    is_closed: bool,
}

/// A request that the server has not answered yet, and the context to send requests of the server to the agent.
struct OpenRequest {
    reply: Sender<Result<Json>>,
    context: Option<ToolContext>,
}

impl std::fmt::Debug for OpenRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("OpenRequest")
    }
}

impl Connection {
    /// Starts the server and initializes it.
    pub(crate) async fn open(
        context: &Context,
        session: ToolSession,
        open: &OpenServer,
    ) -> Result<Rc<Connection>> {
        let (ours, theirs) = tokio::io::duplex(STREAM_CAPACITY);
        let (reader, mut writer) = tokio::io::split(ours);
        let (lines, mut queue) = unbounded_channel::<Vec<u8>>();
        let connection = Rc::new(Connection {
            lines,
            requests: RefCell::default(),
            server_info: RefCell::new(Json::EMPTY_OBJECT),
        });
        context.spawn(open(session, theirs));
        context.spawn(async move {
            while let Some(line) = queue.recv().await {
                if writer.write_all(&line).await.is_err() {
                    return;
                }
            }
        });
        context.spawn(read_messages(context.clone(), connection.clone(), reader));
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": { "sampling": {}, "elicitation": {}, "roots": {} },
            "clientInfo": { "name": "conductor", "version": env!("CARGO_PKG_VERSION") },
        });
        let result = connection.send(Call::new("initialize", to_json(&params)?), None).await?;
        *connection.server_info.borrow_mut() = result;
        connection.write(&Message::notification("notifications/initialized", None));
        Ok(connection)
    }

    fn write(&self, message: &Message) {
        let mut line = Vec::new();
        message.write_line(&mut line);
        // Sending fails when the server has ended. Then the open requests fail, too.
        let _ = self.lines.send(line);
    }

    async fn send(&self, call: Call, context: Option<ToolContext>) -> Result<Json> {
        let (reply, answer) = oneshot();
        {
            let mut requests = self.requests.borrow_mut();
            if requests.is_closed {
                return Err(server_ended());
            }
            requests.last_id += 1;
            let number = requests.last_id;
            requests.open.insert(number, OpenRequest { reply, context });
            self.write(&Message::Request { id: Id::from(number), call });
        }
        answer.receive().await.unwrap_or_else(|| Err(server_ended()))
    }

    /// Sends a request of the agent to the server.
    pub(crate) async fn request(self: Rc<Self>, call: Call, context: ToolContext) -> Result<Json> {
        self.send(call, Some(context)).await
    }

    /// The answer to `server/discover`, which a server with connections does not know.
    pub(crate) fn discovered(&self) -> Result<Json> {
        let info = self.server_info.borrow();
        Ok(Json::object([
            ("resultType", Some(Json::string("complete"))),
            ("supportedVersions", Some(Json::array([&Json::string(MCP_VERSION)]))),
            ("capabilities", Some(info.member("capabilities").unwrap_or(Json::EMPTY_OBJECT))),
            ("serverInfo", info.member("serverInfo")),
            ("instructions", info.member("instructions").filter(Json::is_string)),
            ("ttlMs", Some(Json::trusted("0"))),
            ("cacheScope", Some(Json::string("private"))),
        ]))
    }

    /// The open request that a message of the server belongs to: the one with this progress token, or the latest.
    fn find_open(&self, token: Option<&Json>) -> Option<ToolContext> {
        let requests = self.requests.borrow();
        let mut open = requests.open.values().filter_map(|request| request.context.as_ref());
        let has_token = |it: &&ToolContext| {
            token.is_none() || it.origin.borrow().progress_token.as_ref() == token
        };
        open.rfind(has_token).cloned()
    }
}

fn server_ended() -> Error {
    Error::internal("the MCP server has ended")
}

/// Reads the messages of the server until it ends.
async fn read_messages(
    context: Context,
    connection: Rc<Connection>,
    reader: ReadHalf<DuplexStream>,
) {
    let mut lines = BufReader::new(reader).split(b'\n');
    while let Ok(Some(line)) = lines.next_segment().await {
        match Message::parse(&Bytes::from(line)) {
            Ok(Message::Response { id, outcome, .. }) => {
                let number = id.json().integer().and_then(|it| u64::try_from(it).ok());
                let mut requests = connection.requests.borrow_mut();
                let request = number.and_then(|it| requests.open.remove(&it));
                let Some(request) = request else { continue };
                request.reply.send(match outcome {
                    Outcome::Result(result) => Ok(result),
                    Outcome::Error(error) => Err(Error::from_json(error)),
                });
            }
            Ok(Message::Request { id, call }) => {
                context.spawn(answer_server(connection.clone(), id, call))
            }
            Ok(Message::Notification(call)) => {
                let token = call.params.as_ref().and_then(|params| params.member("progressToken"));
                if let Some(context) = connection.find_open(token.as_ref()) {
                    context.notify_client(&call.method.name(), call.params);
                }
            }
            // A line that is not JSON-RPC is ignored.
            Err(_) => {}
        }
    }
    let mut requests = connection.requests.borrow_mut();
    requests.is_closed = true;
    // Dropping the open requests makes them fail.
    requests.open.clear();
}

/// Answers a request of the server, with the answer of the agent's MCP client if there is one.
async fn answer_server(connection: Rc<Connection>, id: Id, call: Call) {
    let step = connection.find_open(None).and_then(|it| it.step.borrow_mut().take());
    let answer = match (step, call.is("ping")) {
        (_, true) => Ok(Json::EMPTY_OBJECT),
        (None, _) => Err(Error::method_not_found(&call.method.name())),
        (Some(step), _) => {
            let (reply, answer) = oneshot();
            step.send(ToolStep::NeedsInput(call, reply));
            answer.receive().await.unwrap_or_else(|| Err(no_answer()))
        }
    };
    connection.write(&Message::response(id, outcome(answer)));
}
