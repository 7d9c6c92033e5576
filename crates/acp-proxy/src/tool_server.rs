//! The MCP servers of a proxy: declares them in each session, and answers their MCP requests.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::rc::Rc;
use std::sync::Arc;

use acp_proxy_core::{Call, Json, Outcome};
use acp_wire::{acp, code};
use serde_json::json;
use tokio::sync::OnceCell;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::mcp_connection::{Connection, OpenServer};
use crate::next::HandlerFuture;
use crate::oneshot::{Sender, oneshot};
use crate::scp::Capabilities;
use crate::tool::{IntoToolOutput, McpOrigin, Tool, ToolContext, ToolSession, ToolStep, no_answer};
use crate::typed::to_json;

/// The version of MCP that is spoken here: single requests without a connection.
pub(crate) const MCP_VERSION: &str = "2026-07-28";

/// How many tool calls may wait for an answer of their MCP client.
const MAX_PAUSED: usize = 1000;

/// An MCP server that the proxy offers.
#[derive(Clone)]
pub(crate) struct Server {
    pub(crate) name: String,
    pub(crate) kind: ServerKind,
}

/// Whether a tool of this name is offered with an editor of these capabilities.
pub(crate) type IsOffered = Arc<dyn Fn(&str, &Capabilities) -> bool + Send + Sync>;

#[derive(Clone)]
pub(crate) enum ServerKind {
    /// The tools of [`Proxy::tool`](crate::Proxy::tool).
    Tools { instructions: Option<String>, tools: Vec<Tool>, is_offered: Option<IsOffered> },
    /// A server that speaks MCP on a stream.
    Stream(OpenServer),
}

/// The servers that a proxy offers, and those that it has declared in sessions.
#[derive(Default)]
pub(crate) struct ToolServers {
    servers: Vec<Server>,
    /// By server id. Each session has its own ids.
    declared: RefCell<BTreeMap<String, DeclaredServer>>,
    /// The tool calls that wait for an answer of their MCP client, by request state.
    paused: RefCell<BTreeMap<String, PausedTool>>,
    last_id: RefCell<u64>,
    /// A random part of ids, so that no two proxies give out the same.
    salt: u64,
}

/// A server in a session.
#[derive(Clone)]
struct DeclaredServer {
    /// Index of the server.
    server: usize,
    session: ToolSession,
    /// The connection to a server on a stream, after its first use.
    connection: Rc<OnceCell<Rc<Connection>>>,
}

struct PausedTool {
    context: ToolContext,
    reply: Sender<Result<Json>>,
}

impl ToolServers {
    pub(crate) fn new(servers: Vec<Server>) -> ToolServers {
        let salt = RandomState::new().build_hasher().finish();
        ToolServers { servers, salt, ..ToolServers::default() }
    }

    /// Whether this request sets up a session that gets servers.
    pub(crate) fn joins(&self, call: &Call, editor: &Capabilities) -> bool {
        !self.servers.is_empty()
            && acp::method_kind(call) == Some(acp::MethodKind::SetUpSession)
            && self.servers.iter().any(|server| server.is_offered(editor))
    }

    fn new_id(&self) -> u64 {
        let mut last = self.last_id.borrow_mut();
        *last += 1;
        *last
    }

    /// Adds the servers to a request that sets up a session. Returns the ids of the servers.
    pub(crate) fn declare(&self, call: Call, editor: &Capabilities) -> (Call, Vec<String>) {
        let params = call.params.clone().unwrap_or(Json::EMPTY_OBJECT);
        let mut entries = params.member("mcpServers").unwrap_or(Json::NULL).elements();
        let mut ids = Vec::new();
        let offered = self.servers.iter().enumerate().filter(|(_, it)| it.is_offered(editor));
        for (index, server) in offered {
            let id = format!("{}:{:016x}:{}", server.name, self.salt, self.new_id());
            entries.push(Json::object([
                ("type", Some(Json::string("acp"))),
                ("name", Some(Json::string(&server.name))),
                ("serverId", Some(Json::string(&id))),
            ]));
            let (session, connection) = (ToolSession::default(), Rc::default());
            let declared = DeclaredServer { server: index, session, connection };
            self.declared.borrow_mut().insert(id.clone(), declared);
            ids.push(id);
        }
        let params = params.with_at(&["mcpServers"], Some(&Json::array(&entries)));
        (Call { params: Some(params), ..call }, ids)
    }

    /// The request that sets up a session is answered: the session has an id now, or it failed.
    pub(crate) fn on_session_set_up(&self, call: &Call, ids: Vec<String>, answer: &Result<Json>) {
        let id = |json: Option<&Json>| json?.member("sessionId")?.text().map(|it| it.into_owned());
        let mut declared = self.declared.borrow_mut();
        for server in ids {
            match answer {
                Ok(result) => {
                    if let Some(declared) = declared.get(&server) {
                        let session = id(Some(result)).or_else(|| id(call.params.as_ref()));
                        *declared.session.0.borrow_mut() = session;
                    }
                }
                Err(_) => drop(declared.remove(&server)),
            }
        }
    }

    /// Forgets the servers of a session that was closed.
    pub(crate) fn forget(&self, session: &str) {
        self.declared.borrow_mut().retain(|_, it| it.session.id().as_deref() != Some(session));
    }

    /// Whether this `mcp/message` is for one of these servers.
    pub(crate) fn owns(&self, call: &Call) -> bool {
        let server = call.params.as_ref().and_then(|params| params.member("serverId"));
        let server = server.as_ref().and_then(Json::text);
        server.is_some_and(|server| self.declared.borrow().contains_key(&*server))
    }

    /// Answers an `mcp/message`. The answer contains the result or the error of MCP.
    pub(crate) async fn answer(&self, context: Context, call: Call) -> Result<Json> {
        let params = call.params.unwrap_or(Json::EMPTY_OBJECT);
        let text = |key: &str| {
            let value = params.member(key);
            value.and_then(|it| it.text().map(|it| it.into_owned())).unwrap_or_default()
        };
        let (server_id, request, method) = (text("serverId"), text("requestId"), text("method"));
        let declared = self.declared.borrow().get(&server_id).cloned();
        let Some(declared) = declared else {
            let gone = "this MCP server no longer exists";
            return Err(Error::new(code::NO_SUCH_SERVER, gone));
        };
        let server = &self.servers[declared.server];
        let inner = params.member("params").unwrap_or(Json::EMPTY_OBJECT);
        let progress_token = inner.at(&["_meta", "progressToken"]);
        let origin = McpOrigin { server: server_id, request, progress_token };
        let result = match (&server.kind, method.as_str()) {
            (ServerKind::Tools { instructions, .. }, "server/discover") => {
                server.discovered(instructions.as_deref())
            }
            (ServerKind::Tools { .. }, "tools/list") => {
                Ok(listed(server.tools(&context.editor_capabilities())))
            }
            (ServerKind::Tools { .. }, "tools/call") => {
                let tools = server.tools(&context.editor_capabilities());
                let run = |context| run(&tools, &inner, context);
                self.run_step(context, &declared, origin, &inner, run).await
            }
            (ServerKind::Tools { .. }, "ping") => Ok(Json::EMPTY_OBJECT),
            (ServerKind::Tools { .. }, _) => Err(Error::method_not_found(&method)),
            (ServerKind::Stream(open), _) => match declared.connect(&context, open).await {
                Err(error) => Err(error),
                Ok(connection) if method == "server/discover" => connection.discovered(),
                Ok(connection) => {
                    let call = Call::new(&method, inner.clone());
                    let run = |context| -> Result<HandlerFuture> {
                        Ok(Box::pin(connection.request(call, context)))
                    };
                    self.run_step(context, &declared, origin, &inner, run).await
                }
            },
        };
        Ok(match result {
            Ok(result) => Json::object([("result", Some(result))]),
            Err(error) => match error.into_outcome() {
                Outcome::Error(error) => Json::object([("error", Some(error))]),
                Outcome::Result(result) => result,
            },
        })
    }

    /// Runs one step of a tool call: until the tool ends, or needs an answer of the MCP client first.
    async fn run_step(
        &self,
        context: Context,
        declared: &DeclaredServer,
        origin: McpOrigin,
        params: &Json,
        run: impl FnOnce(ToolContext) -> Result<HandlerFuture>,
    ) -> Result<Json> {
        let state =
            params.member("requestState").and_then(|it| it.text().map(|it| it.into_owned()));
        let paused = state.and_then(|state| self.paused.borrow_mut().remove(&state));
        let (step, end_of_step) = oneshot();
        let context = match paused {
            // The client brings the answer that the tool waits for.
            Some(PausedTool { context, reply }) => {
                *context.step.borrow_mut() = Some(step);
                *context.origin.borrow_mut() = origin;
                let answer = params.at(&["inputResponses", "question"]);
                reply.send(answer.ok_or_else(no_answer));
                context
            }
            None => {
                let tool_context = ToolContext {
                    context: context.clone(),
                    session: declared.session.clone(),
                    origin: Rc::new(RefCell::new(origin)),
                    step: Rc::new(RefCell::new(Some(step))),
                };
                let running = run(tool_context.clone())?;
                let step = tool_context.step.clone();
                context.spawn(async move {
                    let result = running.await;
                    if let Some(step) = step.borrow_mut().take() {
                        step.send(ToolStep::Finished(result));
                    }
                });
                tool_context
            }
        };
        match end_of_step.receive().await {
            Some(ToolStep::Finished(result)) => result.map(completed),
            Some(ToolStep::NeedsInput(call, reply)) => Ok(self.pause(context, &call, reply)),
            None => Err(Error::internal("the tool ended without an answer")),
        }
    }

    /// Keeps a tool call until its MCP client answers this request. Returns the result that asks the client.
    fn pause(&self, context: ToolContext, call: &Call, reply: Sender<Result<Json>>) -> Json {
        let state = format!("{:016x}:{}", self.salt, self.new_id());
        let mut paused = self.paused.borrow_mut();
        if paused.len() >= MAX_PAUSED {
            paused.pop_first();
        }
        paused.insert(state.clone(), PausedTool { context, reply });
        let question = Json::object([
            ("method", Some(call.method.json().clone())),
            ("params", call.params.clone()),
        ]);
        let questions = Json::object([("question", Some(question))]);
        Json::object([
            ("resultType", Some(Json::string("input_required"))),
            ("inputRequests", Some(questions)),
            ("requestState", Some(Json::string(&state))),
        ])
    }
}

impl DeclaredServer {
    async fn connect(&self, context: &Context, open: &OpenServer) -> Result<Rc<Connection>> {
        let connect = || Connection::open(context, self.session.clone(), open);
        self.connection.get_or_try_init(connect).await.cloned()
    }
}

/// Starts a tool. An error of the tool is its output, for the model to read.
fn run(tools: &[&Tool], params: &Json, context: ToolContext) -> Result<HandlerFuture> {
    let name = params.member("name").and_then(|it| it.text().map(|it| it.into_owned()));
    let name = name.unwrap_or_default();
    let tool = tools.iter().find(|tool| tool.name == name);
    let tool = tool.ok_or_else(|| Error::invalid_params(format!("there is no tool '{name}'")))?;
    let arguments = params.member("arguments").unwrap_or(Json::EMPTY_OBJECT);
    let running = (tool.run)(arguments.detached(), context);
    Ok(Box::pin(async move {
        match running.await {
            Ok(output) => Ok(Json::object([
                ("content", Some(output.content)),
                ("structuredContent", output.structured),
            ])),
            Err(error) => {
                let content = error.message().into_tool_output()?.content;
                Ok(Json::object([("content", Some(content)), ("isError", Some(Json::TRUE))]))
            }
        }
    }))
}

fn completed(result: Json) -> Json {
    match result.member("resultType") {
        None => result.with_at(&["resultType"], Some(&complete())),
        Some(_) => result,
    }
}

impl Server {
    /// The tools that are offered with this editor.
    fn tools(&self, editor: &Capabilities) -> Vec<&Tool> {
        match &self.kind {
            ServerKind::Tools { tools, is_offered: Some(is_offered), .. } => {
                tools.iter().filter(|tool| is_offered(&tool.name, editor)).collect()
            }
            ServerKind::Tools { tools, .. } => tools.iter().collect(),
            ServerKind::Stream(_) => Vec::new(),
        }
    }

    /// Whether the server is offered with this editor: it is not, if the editor lacks what all its tools need.
    fn is_offered(&self, editor: &Capabilities) -> bool {
        match &self.kind {
            ServerKind::Tools { is_offered: Some(_), .. } => !self.tools(editor).is_empty(),
            ServerKind::Tools { .. } | ServerKind::Stream(_) => true,
        }
    }

    fn discovered(&self, instructions: Option<&str>) -> Result<Json> {
        let info = json!({ "name": self.name, "version": env!("CARGO_PKG_VERSION") });
        Ok(Json::object([
            ("resultType", Some(complete())),
            ("supportedVersions", Some(Json::array([&Json::string(MCP_VERSION)]))),
            ("capabilities", Some(Json::trusted(r#"{"tools":{}}"#))),
            ("serverInfo", Some(to_json(&info)?)),
            ("instructions", instructions.map(Json::string)),
            ("ttlMs", Some(Json::trusted("0"))),
            ("cacheScope", Some(Json::string("private"))),
        ]))
    }
}

fn listed(tools: Vec<&Tool>) -> Json {
    let tool = |tool: &Tool| {
        Json::object([
            ("name", Some(Json::string(&tool.name))),
            ("description", Some(Json::string(&tool.description))),
            ("inputSchema", Some(tool.schema.clone())),
        ])
    };
    let tools: Vec<Json> = tools.into_iter().map(tool).collect();
    Json::object([
        ("resultType", Some(complete())),
        ("tools", Some(Json::array(&tools))),
        ("ttlMs", Some(Json::trusted("0"))),
        ("cacheScope", Some(Json::string("private"))),
    ])
}

fn complete() -> Json {
    Json::string("complete")
}
