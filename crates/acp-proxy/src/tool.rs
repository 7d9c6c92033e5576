//! MCP tools that a proxy offers, over the ACP channel itself.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use acp_proxy_core::{Call, Json, Side};
use acp_wire::{acp, code};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::io::DuplexStream;
use tokio::sync::OnceCell;

use crate::connection::{Connection, Open};
use crate::context::{Command, Cx, Shared};
use crate::error::{Error, Result};
use crate::handler::Answering;
use crate::proxy::Proxy;
use crate::signal::{Giver, signal};
use crate::typed::to_json;

/// The version of MCP that this carries: single requests, no connection.
pub(crate) const VERSION: &str = "2026-07-28";

/// How many tools may wait for an answer of their client that never comes.
const MOST_ASKING: usize = 1000;

/// For tools without arguments.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
pub struct NoInput {}

type Running = Pin<Box<dyn Future<Output = Result<Output>>>>;

/// One server, with its tools.
#[derive(Clone)]
pub struct Server {
    name: String,
    kind: Kind,
}

#[derive(Clone)]
enum Kind {
    /// Tools of the proxy's own.
    Tools { instructions: Option<String>, tools: Vec<Tool> },
    /// Anything that speaks MCP over a stream.
    Stream(Open),
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").field("name", &self.name).finish_non_exhaustive()
    }
}

#[derive(Clone)]
struct Tool {
    name: String,
    description: String,
    schema: Json,
    run: Arc<dyn Fn(Json, ToolCx) -> Running + Send + Sync>,
}

/// What a tool gives back.
#[derive(Debug, Clone)]
pub struct Output {
    content: Json,
    structured: Option<Json>,
}

/// What can be the output of a tool: text, or something structured.
pub trait IntoOutput {
    fn into_output(self) -> Result<Output>;
}

impl IntoOutput for Output {
    fn into_output(self) -> Result<Output> {
        Ok(self)
    }
}

impl IntoOutput for String {
    fn into_output(self) -> Result<Output> {
        let content = to_json(&json!([{ "type": "text", "text": self }]))?;
        Ok(Output { content, structured: None })
    }
}

impl IntoOutput for &str {
    fn into_output(self) -> Result<Output> {
        self.to_owned().into_output()
    }
}

/// Structured output; clients that want text get it as JSON.
impl IntoOutput for serde_json::Value {
    fn into_output(self) -> Result<Output> {
        let output = self.to_string().into_output()?;
        Ok(Output { structured: self.is_object().then(|| to_json(&self)).transpose()?, ..output })
    }
}

impl Proxy {
    /// Offers a tool in every session, on an MCP server with the proxy's name. `I` is what it takes: its
    /// JSON schema is that of the type.
    pub fn tool<I, O, F>(self, name: &str, description: &str, run: F) -> Proxy
    where
        I: DeserializeOwned + JsonSchema + 'static,
        O: IntoOutput + 'static,
        F: AsyncFn(I) -> Result<O> + Send + Sync + 'static,
    {
        self.tool_with(name, description, async move |input: I, _| run(input).await)
    }

    /// The same for a tool that wants to know its session, tell its progress, or ask something.
    pub fn tool_with<I, O, F>(mut self, name: &str, description: &str, run: F) -> Proxy
    where
        I: DeserializeOwned + JsonSchema + 'static,
        O: IntoOutput + 'static,
        F: AsyncFn(I, ToolCx) -> Result<O> + Send + Sync + 'static,
    {
        let run = Arc::new(run);
        let schema = to_json(&schemars::schema_for!(I)).unwrap_or(Json::EMPTY);
        let run = move |arguments: Json, cx: ToolCx| -> Running {
            let run = run.clone();
            Box::pin(async move {
                let input: I = serde_json::from_slice(arguments.as_bytes())
                    .map_err(|error| Error::invalid_params(error.to_string()))?;
                run(input, cx).await?.into_output()
            })
        };
        let tool = Tool {
            name: name.to_owned(),
            description: description.to_owned(),
            schema,
            run: Arc::new(run),
        };
        if let Kind::Tools { tools, .. } = &mut self.server().kind {
            tools.push(tool);
        }
        self
    }

    /// What the server of its tools tells the agent about itself.
    pub fn instructions(mut self, text: impl Into<String>) -> Proxy {
        if let Kind::Tools { instructions, .. } = &mut self.server().kind {
            *instructions = Some(text.into());
        }
        self
    }

    /// Offers a whole MCP server in every session. `open` is called when it is first used in a session,
    /// with that session and a stream on which the server speaks MCP, a message a line.
    pub fn mcp_server<F, R>(mut self, name: &str, open: F) -> Proxy
    where
        F: Fn(ToolSession, DuplexStream) -> R + Send + Sync + 'static,
        R: Future<Output = ()> + 'static,
    {
        let open: Open = Arc::new(move |session, stream| Box::pin(open(session, stream)));
        self.servers.push(Server { name: name.to_owned(), kind: Kind::Stream(open) });
        self
    }

    /// The same for a server handler of the crate `rmcp`.
    #[cfg(feature = "rmcp")]
    pub fn rmcp_server<F, S>(self, name: &str, make: F) -> Proxy
    where
        F: Fn(ToolSession) -> S + Send + Sync + 'static,
        S: rmcp::ServerHandler,
    {
        self.mcp_server(name, move |session, stream| {
            let server = make(session);
            async move {
                if let Ok(running) = rmcp::ServiceExt::serve(server, stream).await {
                    let _ = running.waiting().await;
                }
            }
        })
    }

    fn server(&mut self) -> &mut Server {
        let own = self.servers.iter().position(|it| matches!(it.kind, Kind::Tools { .. }));
        let index = own.unwrap_or_else(|| {
            let kind = Kind::Tools { instructions: None, tools: Vec::new() };
            self.servers.push(Server { name: self.name.clone(), kind });
            self.servers.len() - 1
        });
        &mut self.servers[index]
    }
}

/// The session that a tool belongs to. It has no name until the agent has answered the request that
/// set it up, and tools may be used before that.
#[derive(Debug, Clone, Default)]
pub struct ToolSession(Rc<RefCell<Option<String>>>);

impl ToolSession {
    pub fn id(&self) -> Option<String> {
        self.0.borrow().clone()
    }
}

/// Where a tool runs.
#[derive(Clone)]
pub struct ToolCx {
    pub(crate) cx: Cx,
    session: ToolSession,
    /// To whom progress is told: server, request, token.
    pub(crate) address: Rc<RefCell<(String, String, Option<Json>)>>,
    pub(crate) round: Rc<RefCell<Option<Giver<Event>>>>,
}

impl ToolCx {
    /// The session in which the tool is used, once the agent has said how it calls it.
    pub fn session(&self) -> Option<String> {
        self.session.id()
    }

    pub fn cx(&self) -> &Cx {
        &self.cx
    }

    /// Tells how far it is, if anybody wants to know.
    pub fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) -> Result<()> {
        let Some(token) = self.address.borrow().2.clone() else { return Ok(()) };
        let members = [
            ("progressToken", Some(token.clone())),
            ("progress", Some(to_json(&progress)?)),
            ("total", total.map(|it| to_json(&it)).transpose()?),
            ("message", message.map(Json::string)),
        ];
        self.notify("notifications/progress", Some(Json::object(members)));
        Ok(())
    }

    /// Tells the client something, as part of the request at hand.
    pub(crate) fn notify(&self, method: &str, params: Option<Json>) {
        let (server, request, _) = &*self.address.borrow();
        let params = Json::object([
            ("serverId", Some(Json::string(server))),
            ("requestId", Some(Json::string(request))),
            ("method", Some(Json::string(method))),
            ("params", params),
        ]);
        let call = Call::new("mcp/message", params);
        self.cx.shared.push(Command::Notify { toward: Side::Agent, call });
    }

    /// Asks the agent's MCP client something: `sampling/createMessage`, `elicitation/create`,
    /// `roots/list`. An error if the client does not offer it.
    pub async fn ask_client(&self, method: &str, params: impl Serialize) -> Result<Json> {
        let call = Call::new(method, to_json(&params)?);
        let (reply, answer) = signal();
        let round = self.round.borrow_mut().take();
        let round = round.ok_or_else(|| Error::internal("one question at a time"))?;
        round.give(Event::Asks(call, reply));
        answer.take().await.unwrap_or_else(|| Err(Error::internal("the client did not answer")))
    }
}

impl std::fmt::Debug for ToolCx {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolCx").field("session", &self.session()).finish_non_exhaustive()
    }
}

pub(crate) enum Event {
    Done(Result<Json>),
    Asks(Call, Giver<Result<Json>>),
}

/// The servers that a proxy offers, and those that it has declared.
#[derive(Default)]
pub(crate) struct Offers {
    servers: Vec<Server>,
    live: RefCell<BTreeMap<String, Live>>,
    /// Tools that wait for an answer of their client.
    asking: RefCell<BTreeMap<String, Asking>>,
    last: RefCell<u64>,
    /// So that no two proxies give out the same id.
    salt: u64,
}

#[derive(Clone)]
struct Live {
    server: usize,
    session: ToolSession,
    /// To a server on a stream, once it is used.
    connection: Rc<OnceCell<Rc<Connection>>>,
}

struct Asking {
    cx: ToolCx,
    reply: Giver<Result<Json>>,
}

impl Offers {
    pub fn new(servers: Vec<Server>) -> Offers {
        Offers { servers, salt: RandomState::new().build_hasher().finish(), ..Offers::default() }
    }

    /// Does this request set up a session that is to have the servers?
    pub fn sets_up(&self, call: &Call) -> bool {
        !self.servers.is_empty() && acp::topic(call) == Some(acp::Topic::SetUp)
    }

    fn fresh(&self) -> u64 {
        let mut last = self.last.borrow_mut();
        *last += 1;
        *last
    }

    /// Adds the servers to a set-up request, under ids of their own.
    pub fn declare(&self, call: Call) -> (Call, Vec<String>) {
        let params = call.params.clone().unwrap_or(Json::EMPTY);
        let mut entries = params.member("mcpServers").unwrap_or(Json::NULL).elements();
        let mut ids = Vec::new();
        for (index, server) in self.servers.iter().enumerate() {
            let id = format!("{}:{:016x}:{}", server.name, self.salt, self.fresh());
            entries.push(Json::object([
                ("type", Some(Json::string("acp"))),
                ("name", Some(Json::string(&server.name))),
                ("serverId", Some(Json::string(&id))),
            ]));
            let (session, connection) = (ToolSession::default(), Rc::default());
            self.live.borrow_mut().insert(id.clone(), Live { server: index, session, connection });
            ids.push(id);
        }
        let params = params.with_at(&["mcpServers"], Some(&Json::array(&entries)));
        (Call { params: Some(params), ..call }, ids)
    }

    /// The set-up request was answered: now the session has a name, or is none.
    pub fn learn(&self, asked: &Call, ids: Vec<String>, answer: &Result<Json>) {
        let id = |json: Option<&Json>| json?.member("sessionId")?.text().map(|it| it.into_owned());
        let mut live = self.live.borrow_mut();
        for server in ids {
            match answer {
                Ok(result) => {
                    if let Some(live) = live.get(&server) {
                        let session = id(Some(result)).or_else(|| id(asked.params.as_ref()));
                        *live.session.0.borrow_mut() = session;
                    }
                }
                Err(_) => drop(live.remove(&server)),
            }
        }
    }

    /// A session was closed.
    pub fn forget(&self, session: &str) {
        self.live.borrow_mut().retain(|_, live| live.session.id().as_deref() != Some(session));
    }

    /// Is this message for one of these servers?
    pub fn owns(&self, call: &Call) -> bool {
        let server = call.params.as_ref().and_then(|params| params.member("serverId"));
        let server = server.as_ref().and_then(Json::text);
        server.is_some_and(|server| self.live.borrow().contains_key(&*server))
    }

    /// Answers an MCP request: with a result or an error inside.
    pub async fn answer(&self, cx: Cx, call: Call) -> Result<Json> {
        let params = call.params.unwrap_or(Json::EMPTY);
        let text = |key: &str| {
            params
                .member(key)
                .and_then(|it| it.text().map(|it| it.into_owned()))
                .unwrap_or_default()
        };
        let (server_id, request, method) = (text("serverId"), text("requestId"), text("method"));
        let live = self.live.borrow().get(&server_id).cloned();
        let Some(live) = live else {
            return Err(Error::new(code::NO_SUCH_SERVER, "this MCP server is not there any more"));
        };
        let server = &self.servers[live.server];
        let inner = params.member("params").unwrap_or(Json::EMPTY);
        let address = (server_id, request, inner.at(&["_meta", "progressToken"]));
        let result = match (&server.kind, method.as_str()) {
            (Kind::Tools { instructions, .. }, "server/discover") => {
                server.discovered(instructions.as_deref())
            }
            (Kind::Tools { tools, .. }, "tools/list") => Ok(listed(tools)),
            (Kind::Tools { tools, .. }, "tools/call") => {
                let run = |cx| run(tools, &inner, cx);
                self.round(cx, &live, address, &inner, run).await
            }
            (Kind::Tools { .. }, "ping") => Ok(Json::EMPTY),
            (Kind::Tools { .. }, _) => Err(Error::method_not_found(&method)),
            (Kind::Stream(open), _) => match live.connection(&cx, open).await {
                Err(error) => Err(error),
                Ok(connection) if method == "server/discover" => connection.discovered(),
                Ok(connection) => {
                    let call = Call::new(&method, inner.clone());
                    let run = |cx| -> Result<Answering> { Ok(Box::pin(connection.ask(call, cx))) };
                    self.round(cx, &live, address, &inner, run).await
                }
            },
        };
        Ok(match result {
            Ok(result) => Json::object([("result", Some(result))]),
            Err(error) => match error.into_outcome() {
                acp_proxy_core::Outcome::Error(error) => Json::object([("error", Some(error))]),
                acp_proxy_core::Outcome::Result(result) => result,
            },
        })
    }

    /// One round of an operation: until it is done, or wants to know something first.
    async fn round(
        &self,
        cx: Cx,
        live: &Live,
        address: (String, String, Option<Json>),
        params: &Json,
        run: impl FnOnce(ToolCx) -> Result<Answering>,
    ) -> Result<Json> {
        let state =
            params.member("requestState").and_then(|it| it.text().map(|it| it.into_owned()));
        let again = state.and_then(|state| self.asking.borrow_mut().remove(&state));
        let (round, next) = signal();
        let cx = match again {
            // The client comes back with what was asked.
            Some(Asking { cx, reply }) => {
                *cx.round.borrow_mut() = Some(round);
                *cx.address.borrow_mut() = address;
                let answer = params.at(&["inputResponses", "question"]);
                reply.give(answer.ok_or_else(|| Error::internal("the client did not answer")));
                cx
            }
            None => {
                let tool_cx = ToolCx {
                    cx: cx.clone(),
                    session: live.session.clone(),
                    address: Rc::new(RefCell::new(address)),
                    round: Rc::new(RefCell::new(Some(round))),
                };
                let running = run(tool_cx.clone())?;
                let round = tool_cx.round.clone();
                cx.spawn(async move {
                    let result = running.await;
                    if let Some(round) = round.borrow_mut().take() {
                        round.give(Event::Done(result));
                    }
                });
                tool_cx
            }
        };
        match next.take().await {
            Some(Event::Done(result)) => result.map(completed),
            Some(Event::Asks(question, reply)) => {
                let state = format!("{:016x}:{}", self.salt, self.fresh());
                let mut asking = self.asking.borrow_mut();
                if asking.len() >= MOST_ASKING {
                    asking.pop_first();
                }
                asking.insert(state.clone(), Asking { cx, reply });
                let question = Json::object([
                    ("method", Some(question.method.json().clone())),
                    ("params", question.params),
                ]);
                let questions = Json::object([("question", Some(question))]);
                Ok(Json::object([
                    ("resultType", Some(Json::string("input_required"))),
                    ("inputRequests", Some(questions)),
                    ("requestState", Some(Json::string(&state))),
                ]))
            }
            None => Err(Error::internal("the tool ended without an answer")),
        }
    }
}

impl Live {
    async fn connection(&self, cx: &Cx, open: &Open) -> Result<Rc<Connection>> {
        let connect = || Connection::open(cx, self.session.clone(), open);
        self.connection.get_or_try_init(connect).await.cloned()
    }
}

/// Starts a tool. What it fails with is its output, for the model to read.
fn run(tools: &[Tool], params: &Json, cx: ToolCx) -> Result<Answering> {
    let name = params.member("name").and_then(|it| it.text().map(|it| it.into_owned()));
    let name = name.unwrap_or_default();
    let tool = tools.iter().find(|tool| tool.name == name);
    let tool = tool.ok_or_else(|| Error::invalid_params(format!("there is no tool '{name}'")))?;
    let arguments = params.member("arguments").unwrap_or(Json::EMPTY);
    let running = (tool.run)(arguments.detached(), cx);
    Ok(Box::pin(async move {
        match running.await {
            Ok(output) => Ok(Json::object([
                ("content", Some(output.content)),
                ("structuredContent", output.structured),
            ])),
            Err(error) => {
                let content = error.message().into_output()?.content;
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
    fn discovered(&self, instructions: Option<&str>) -> Result<Json> {
        let info = json!({ "name": self.name, "version": env!("CARGO_PKG_VERSION") });
        Ok(Json::object([
            ("resultType", Some(complete())),
            ("supportedVersions", Some(Json::array([&Json::string(VERSION)]))),
            ("capabilities", Some(Json::trusted(r#"{"tools":{}}"#))),
            ("serverInfo", Some(to_json(&info)?)),
            ("instructions", instructions.map(Json::string)),
            ("ttlMs", Some(Json::trusted("0"))),
            ("cacheScope", Some(Json::string("private"))),
        ]))
    }
}

fn listed(tools: &[Tool]) -> Json {
    let tools: Vec<Json> = tools
        .iter()
        .map(|tool| {
            Json::object([
                ("name", Some(Json::string(&tool.name))),
                ("description", Some(Json::string(&tool.description))),
                ("inputSchema", Some(tool.schema.clone())),
            ])
        })
        .collect();
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

impl Shared {
    /// Sends a request on to the other side. One that sets up a session takes the servers along.
    pub async fn pass_on(
        &self,
        toward: Side,
        call: Call,
        of: Option<acp_proxy_core::Id>,
        own: bool,
    ) -> Result<Json> {
        if toward != Side::Agent || !self.offers.sets_up(&call) {
            return self.ask(toward, call, of, own).await;
        }
        let (call, ids) = self.offers.declare(call);
        let answer = self.ask(toward, call.clone(), of, own).await;
        self.offers.learn(&call, ids, &answer);
        answer
    }
}
