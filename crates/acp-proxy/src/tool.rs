//! MCP tools that a proxy offers to the agent.

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;

use acp_proxy_core::{Call, Json, Side};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::io::DuplexStream;

use crate::context::Context;
use crate::error::{Error, Result};
use crate::mcp_connection::OpenServer;
use crate::oneshot::{Sender, oneshot};
use crate::proxy::Proxy;
use crate::scp::Capabilities;
use crate::shared::Command;
use crate::tool_server::{Server, ServerKind};
use crate::typed::to_json;

/// The input of a tool without arguments.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
pub struct NoInput {}

pub(crate) type RunningTool = Pin<Box<dyn Future<Output = Result<ToolOutput>>>>;

/// A tool: what the agent sees of it, and the function that runs it.
#[derive(Clone)]
pub(crate) struct Tool {
    pub(crate) name: String,
    pub(crate) description: String,
    pub(crate) schema: Json,
    pub(crate) run: Arc<dyn Fn(Json, ToolContext) -> RunningTool + Send + Sync>,
}

/// The output of a tool: content for the model, and optional structured content for programs.
#[derive(Debug, Clone)]
pub struct ToolOutput {
    pub(crate) content: Json,
    pub(crate) structured: Option<Json>,
}

impl ToolOutput {
    /// Output with these MCP content blocks, such as `json!([{"type": "image", "data": "…", "mimeType": "image/png"}])`.
    ///
    /// # Errors
    /// If `content` is not an array.
    pub fn from_content(content: serde_json::Value) -> Result<ToolOutput> {
        match content.is_array() {
            true => Ok(ToolOutput { content: to_json(&content)?, structured: None }),
            false => Err(crate::Error::internal("the content of a tool output must be an array")),
        }
    }

    /// Adds structured content.
    ///
    /// # Errors
    /// If the value cannot be written as JSON.
    pub fn with_structured(self, value: &impl serde::Serialize) -> Result<ToolOutput> {
        Ok(ToolOutput { structured: Some(to_json(value)?), ..self })
    }
}

/// Types that a tool can return: text, [`serde_json::Value`], or [`ToolOutput`].
pub trait IntoToolOutput {
    /// Converts the value.
    ///
    /// # Errors
    /// If the value cannot be written as JSON.
    fn into_tool_output(self) -> Result<ToolOutput>;
}

impl IntoToolOutput for ToolOutput {
    fn into_tool_output(self) -> Result<ToolOutput> {
        Ok(self)
    }
}

impl IntoToolOutput for String {
    fn into_tool_output(self) -> Result<ToolOutput> {
        let content = to_json(&json!([{ "type": "text", "text": self }]))?;
        Ok(ToolOutput { content, structured: None })
    }
}

impl IntoToolOutput for &str {
    fn into_tool_output(self) -> Result<ToolOutput> {
        self.to_owned().into_tool_output()
    }
}

/// An object is structured output. The model gets every value as JSON text.
impl IntoToolOutput for serde_json::Value {
    fn into_tool_output(self) -> Result<ToolOutput> {
        let output = self.to_string().into_tool_output()?;
        let structured = self.is_object().then(|| to_json(&self)).transpose()?;
        Ok(ToolOutput { structured, ..output })
    }
}

impl Proxy {
    /// Offers an MCP tool in every session, on a server with the proxy's name. The JSON schema of the arguments comes
    /// from the type of the input.
    ///
    /// An error of the tool goes to the model as text.
    ///
    /// ```
    /// use acp_proxy::prelude::*;
    ///
    /// #[derive(Deserialize, JsonSchema)]
    /// #[serde(crate = "acp_proxy::serde")]
    /// struct Text {
    ///     /// The text whose words are counted.
    ///     text: String,
    /// }
    ///
    /// let proxy = Proxy::new("words")
    ///     .tool("count", "Counts the words of a text", async |input: Text| {
    ///         Ok(format!("{} words", input.text.split_whitespace().count()))
    ///     });
    /// ```
    #[must_use]
    pub fn tool<I, O, F>(self, name: &str, description: &str, run: F) -> Proxy
    where
        I: DeserializeOwned + JsonSchema + 'static,
        O: IntoToolOutput + 'static,
        F: AsyncFn(I) -> Result<O> + Send + Sync + 'static,
    {
        self.tool_with(name, description, async move |input: I, _| run(input).await)
    }

    /// Offers a tool that uses its [`ToolContext`]: the session, progress, requests to the MCP client.
    #[must_use]
    pub fn tool_with<I, O, F>(mut self, name: &str, description: &str, run: F) -> Proxy
    where
        I: DeserializeOwned + JsonSchema + 'static,
        O: IntoToolOutput + 'static,
        F: AsyncFn(I, ToolContext) -> Result<O> + Send + Sync + 'static,
    {
        let run = Arc::new(run);
        let schema = to_json(&schemars::schema_for!(I)).unwrap_or(Json::EMPTY_OBJECT);
        let run = move |arguments: Json, context: ToolContext| -> RunningTool {
            let run = run.clone();
            Box::pin(async move {
                let input: I = serde_json::from_slice(arguments.as_bytes())
                    .map_err(|error| Error::invalid_params(error.to_string()))?;
                run(input, context).await?.into_tool_output()
            })
        };
        let tool = Tool {
            name: name.to_owned(),
            description: description.to_owned(),
            schema,
            run: Arc::new(run),
        };
        if let ServerKind::Tools { tools, .. } = &mut self.tool_server().kind {
            tools.push(tool);
        }
        self
    }

    /// The instructions that the tool server gives to the agent.
    #[must_use]
    pub fn instructions(mut self, text: impl Into<String>) -> Proxy {
        if let ServerKind::Tools { instructions, .. } = &mut self.tool_server().kind {
            *instructions = Some(text.into());
        }
        self
    }

    /// The name of the MCP server of [`tool`](Proxy::tool). Without it, the server has the name of the proxy. Agents show
    /// the name to their users, and some reserve a name: Claude Code hides all tools of a server `ide`.
    #[must_use]
    pub fn tool_server_name(mut self, name: impl Into<String>) -> Proxy {
        self.tool_server().name = name.into();
        self
    }

    /// Offers only the tools of [`tool`](Proxy::tool) for which this function returns true. It gets the name of the tool,
    /// and what the editor has declared in `initialize`. If it leaves no tool, the agent gets no server.
    ///
    /// ```
    /// use acp_proxy::prelude::*;
    ///
    /// let proxy = Proxy::new("panels")
    ///     .tool("show", "Shows a panel", async |_: NoInput| Ok("shown"))
    ///     .offer_tools_if(|_, editor| editor.html_panel);
    /// ```
    #[must_use]
    pub fn offer_tools_if<F>(mut self, condition: F) -> Proxy
    where
        F: Fn(&str, &Capabilities) -> bool + Send + Sync + 'static,
    {
        if let ServerKind::Tools { is_offered, .. } = &mut self.tool_server().kind {
            *is_offered = Some(Arc::new(condition));
        }
        self
    }

    /// Offers a whole MCP server in every session. `open` is called when a session uses the server for the first
    /// time. It gets the session, and a stream on which the server speaks MCP with one message a line.
    #[must_use]
    pub fn mcp_server<F, R>(mut self, name: &str, open: F) -> Proxy
    where
        F: Fn(ToolSession, DuplexStream) -> R + Send + Sync + 'static,
        R: Future<Output = ()> + 'static,
    {
        let open: OpenServer = Arc::new(move |session, stream| Box::pin(open(session, stream)));
        let kind = ServerKind::Stream(open);
        self.component.servers.push(Server { name: name.to_owned(), kind });
        self
    }

    /// Offers an MCP server that is a handler of the crate `rmcp`.
    #[cfg(feature = "rmcp")]
    #[must_use]
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

    /// The server of the proxy's tools.
    fn tool_server(&mut self) -> &mut Server {
        let Proxy { component } = self;
        let is_tools = |it: &Server| matches!(it.kind, ServerKind::Tools { .. });
        let index = component.servers.iter().position(is_tools).unwrap_or_else(|| {
            let kind =
                ServerKind::Tools { instructions: None, tools: Vec::new(), is_offered: None };
            component.servers.push(Server { name: component.name.clone(), kind });
            component.servers.len() - 1
        });
        &mut component.servers[index]
    }
}

/// The session in which a tool is used.
#[derive(Debug, Clone, Default)]
pub struct ToolSession(pub(crate) Rc<RefCell<Option<String>>>);

impl ToolSession {
    /// The id of the session. `None` until the agent has answered the request that sets up the session. The agent may
    /// use tools before that.
    pub fn id(&self) -> Option<String> {
        self.0.borrow().clone()
    }
}

/// The context of a tool call. It dereferences to [`Context`].
#[derive(Clone)]
pub struct ToolContext {
    pub(crate) context: Context,
    pub(crate) session: ToolSession,
    pub(crate) origin: Rc<RefCell<McpOrigin>>,
    /// Ends the current step of the tool call.
    pub(crate) step: Rc<RefCell<Option<Sender<ToolStep>>>>,
}

/// The MCP request that a tool call belongs to.
pub(crate) struct McpOrigin {
    pub(crate) server: String,
    pub(crate) request: String,
    pub(crate) progress_token: Option<Json>,
}

/// How a step of a tool call ends.
pub(crate) enum ToolStep {
    Finished(Result<Json>),
    /// The tool needs the answer of the MCP client to this request.
    NeedsInput(Call, Sender<Result<Json>>),
}

impl ToolContext {
    /// The id of the session in which the tool is used. See [`ToolSession::id`].
    pub fn session(&self) -> Option<String> {
        self.session.id()
    }

    /// Reports progress, if the MCP client wants to know.
    ///
    /// # Errors
    /// If the numbers cannot be written as JSON.
    pub fn progress(&self, progress: f64, total: Option<f64>, message: Option<&str>) -> Result<()> {
        let Some(token) = self.origin.borrow().progress_token.clone() else { return Ok(()) };
        let members = [
            ("progressToken", Some(token)),
            ("progress", Some(to_json(&progress)?)),
            ("total", total.map(|it| to_json(&it)).transpose()?),
            ("message", message.map(Json::string)),
        ];
        self.notify_client("notifications/progress", Some(Json::object(members)));
        Ok(())
    }

    /// Sends a notification to the MCP client, as part of the current request.
    pub(crate) fn notify_client(&self, method: &str, params: Option<Json>) {
        let origin = self.origin.borrow();
        let params = Json::object([
            ("serverId", Some(Json::string(&origin.server))),
            ("requestId", Some(Json::string(&origin.request))),
            ("method", Some(Json::string(method))),
            ("params", params),
        ]);
        let call = Call::new("mcp/message", params);
        self.context.shared.push(Command::Notify { toward: Side::Agent, call });
    }

    /// Sends a request to the agent's MCP client, such as `sampling/createMessage`, `elicitation/create` or
    /// `roots/list`. One request at a time.
    ///
    /// # Errors
    /// The error that the client answers with. Clients need not support these methods.
    pub async fn request_client(&self, method: &str, params: impl Serialize) -> Result<Json> {
        let call = Call::new(method, to_json(&params)?);
        let step = self.step.borrow_mut().take();
        let step = step.ok_or_else(|| Error::internal("one request to the client at a time"))?;
        let (reply, answer) = oneshot();
        step.send(ToolStep::NeedsInput(call, reply));
        answer.receive().await.unwrap_or_else(|| Err(no_answer()))
    }
}

pub(crate) fn no_answer() -> Error {
    Error::internal("the MCP client did not answer")
}

impl std::ops::Deref for ToolContext {
    type Target = Context;

    fn deref(&self) -> &Context {
        &self.context
    }
}

impl std::fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolContext").field("session", &self.session()).finish_non_exhaustive()
    }
}
