//! MCP requests of the agent that pass through a proxy, on their way to the server of another component.
//!
//! MCP over ACP has several forms. The agent chooses one, and a proxy between the agent and the server sees that form.

mod known_servers;

use std::cell::{Cell, RefCell};
use std::ops::Deref;
use std::rc::Rc;
use std::sync::Arc;

use acp_proxy_core::{Call, Json, Outcome, Side};
use acp_wire::acp;
use acp_wire::mcp::{self, Frame, Target};

use crate::component::Component;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::next::{Delivery, Next};
use known_servers::{Key, KnownServers, Server};

/// An MCP request of the agent to a server of another component: a proxy nearer to the editor, or the editor itself.
///
/// Requests to servers that the agent reaches in another way, such as a program or a URL, do not pass the chain.
#[derive(Debug, Clone)]
pub struct McpRequest {
    call: Call,
    form: Form,
    server: Option<Server>,
    method: String,
    params: Json,
}

/// How the MCP request and its answer are encoded in ACP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// The answer is the MCP result.
    Plain,
    /// The answer has a member `result` or `error`.
    Outcome,
    /// The request and the answer contain whole MCP messages.
    Message,
}

impl McpRequest {
    fn read(call: Call, servers: &KnownServers, is_strict: bool) -> Result<McpRequest> {
        if let Some(why) = mixed_forms(&call).filter(|_| is_strict) {
            return Err(Error::invalid_params(why));
        }
        let Some((form, Frame::Mcp { target, call: inner, .. })) = mcp::decode(&call) else {
            return Err(Error::invalid_params("it has no MCP method, or names no server"));
        };
        let form = match form {
            mcp::Form::M0 | mcp::Form::M1 => Form::Message,
            mcp::Form::M7 => Form::Outcome,
            _ => Form::Plain,
        };
        let server = servers.find(&match target {
            Target::Server(name) if call.is("_scp/mcp") => Key::Name(name),
            Target::Server(id) | Target::Operation { server: id, .. } => Key::Server(id),
            Target::Connection(id) => Key::Connection(id),
        });
        let method = inner.method.name().into_owned();
        let params = inner.params.unwrap_or(Json::EMPTY_OBJECT);
        Ok(McpRequest { call, form, server, method, params })
    }

    /// The name of the server, as the session declares it. `None` if the proxy has not seen the declaration, or if
    /// sessions declare it with different names.
    pub fn server(&self) -> Option<&str> {
        self.server.as_ref()?.name.as_deref()
    }

    /// The session that declares the server. `None` if it is unknown or has no id yet, or if several sessions declare
    /// the server: a request names only the server.
    pub fn session(&self) -> Option<&str> {
        self.server.as_ref()?.session()
    }

    /// The MCP method, such as `tools/call`.
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The parameters of the MCP request.
    pub fn params(&self) -> &Json {
        &self.params
    }

    /// Changes the parameters of the MCP request.
    pub fn set_params(&mut self, params: Json) {
        self.params = params;
    }

    /// The name of the tool, if this is a `tools/call`.
    pub fn tool(&self) -> Option<String> {
        if self.method != "tools/call" {
            return None;
        }
        text(&self.params, "name")
    }

    /// The arguments of the tool. Empty if this is no `tools/call`, or the tool has no arguments.
    pub fn arguments(&self) -> Json {
        self.params.member("arguments").unwrap_or(Json::EMPTY_OBJECT)
    }

    /// The ACP request that carries the MCP request.
    fn into_call(self) -> Call {
        let path: &[&str] = match self.form {
            Form::Message => &["message", "params"],
            Form::Plain | Form::Outcome => &["params"],
        };
        let params = self.call.params.unwrap_or(Json::EMPTY_OBJECT);
        let old = params.at(path).unwrap_or(Json::EMPTY_OBJECT);
        let params = match old.as_bytes() == self.params.as_bytes() {
            true => params,
            false => params.with_at(path, Some(&self.params)),
        };
        Call { params: Some(params), ..self.call }
    }
}

/// Sends an MCP request on to its server. It dereferences to [`Context`].
pub struct McpNext {
    next: Next<Call>,
    /// The answer that was received last.
    received: Rc<RefCell<Option<Json>>>,
    /// Whether the last request has failed before it reached the server.
    is_undelivered: Rc<Cell<bool>>,
}

impl McpNext {
    /// Sends the request on, changed or not, and waits for the result of the server.
    ///
    /// # Errors
    /// The error of the server, or an error on the way to it.
    pub async fn run(&self, request: McpRequest) -> Result<Json> {
        let form = request.form;
        self.is_undelivered.set(false);
        let answer = self.next.pass(request.into_call(), false).await;
        let answer = answer.inspect_err(|_| self.is_undelivered.set(true))?;
        let result = form.decode(&answer);
        *self.received.borrow_mut() = Some(answer);
        result
    }
}

impl Deref for McpNext {
    type Target = Context;

    fn deref(&self) -> &Context {
        self.next.context()
    }
}

impl std::fmt::Debug for McpNext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("McpNext").finish_non_exhaustive()
    }
}

impl Form {
    /// The part of an answer that has a member `result` or `error`.
    fn path(self) -> &'static [&'static str] {
        match self {
            Form::Message => &["message"],
            Form::Plain | Form::Outcome => &[],
        }
    }

    fn decode(self, answer: &Json) -> Result<Json> {
        if self == Form::Plain {
            return Ok(answer.clone());
        }
        let outcome = match self.path() {
            [] => Some(answer.clone()),
            path => answer.at(path),
        };
        let outcome = outcome.unwrap_or_else(|| answer.clone());
        match (outcome.member("result"), outcome.member("error")) {
            (Some(result), _) => Ok(result),
            (None, Some(error)) => Err(Error::from_json(error)),
            (None, None) => Ok(answer.clone()),
        }
    }

    /// Encodes what a handler returns. Members of the received answer that the handler does not know stay.
    fn encode(self, request: &Call, received: Option<Json>, result: Result<Json>) -> Result<Json> {
        if self == Form::Plain {
            return result;
        }
        let (key, value) = match result {
            Ok(result) => ("result", result),
            Err(error) => match error.into_outcome() {
                Outcome::Error(error) => ("error", error),
                Outcome::Result(result) => ("result", result),
            },
        };
        let path: Vec<&str> = self.path().iter().copied().chain([key]).collect();
        if let Some(received) = received
            && let Some(old) = received.at(&path)
        {
            return Ok(match old.as_bytes() == value.as_bytes() {
                true => received,
                false => received.with_at(&path, Some(&value)),
            });
        }
        if self == Form::Outcome {
            return Ok(Json::object([(key, Some(value))]));
        }
        let params = request.params.clone().unwrap_or(Json::EMPTY_OBJECT);
        let message = Json::object([
            ("jsonrpc", Some(Json::string("2.0"))),
            ("id", Some(params.at(&["message", "id"]).unwrap_or(Json::NULL))),
            (key, Some(value)),
        ]);
        Ok(Json::object([("name", params.member("name")), ("message", Some(message))]))
    }
}

fn text(json: &Json, key: &str) -> Option<String> {
    json.member(key)?.text().map(|text| text.into_owned())
}

/// Adds the handlers that follow servers and connections, and run `handler` for each MCP request.
pub(crate) fn add<F>(component: &mut Component, handler: F)
where
    F: AsyncFn(McpRequest, McpNext) -> Result<Json> + Send + Sync + 'static,
{
    let servers = Arc::new(KnownServers::default());
    for method in ["session/new", "session/load", "session/resume", "session/fork"] {
        let servers = servers.clone();
        component.add_raw_request(Some(Side::Editor), method, None, move |call, next| {
            let servers = servers.clone();
            async move {
                let params = call.params.clone().unwrap_or(Json::EMPTY_OBJECT);
                // The others name the session in the request. The agent may use the servers before it answers.
                let names_session = !matches!(method, "session/new" | "session/fork");
                let session = text(&params, "sessionId").filter(|_| names_session);
                let declared_by = servers.declare(&params, session);
                let result = next.pass(call, false).await;
                let session = result.as_ref().map(|it| text(it, "sessionId"));
                servers.on_answered(&params, &declared_by, session.ok().flatten());
                result
            }
        });
    }
    for method in [acp::CLOSE_SESSION, acp::DELETE_SESSION] {
        let servers = servers.clone();
        component.add_raw_request(Some(Side::Editor), method, None, move |call, next| {
            let servers = servers.clone();
            async move {
                let session = call.params.as_ref().and_then(|params| text(params, "sessionId"));
                let result = next.pass(call, false).await?;
                session.iter().for_each(|session| servers.forget_session(session));
                Ok(result)
            }
        });
    }
    add_connections(component, &servers);
    for method in mcp::MESSAGE_METHODS {
        component.add_raw_notification(Side::Agent, method, None, check_notification);
    }
    let handler = Arc::new(handler);
    for method in mcp::MESSAGE_METHODS {
        let (servers, handler) = (servers.clone(), handler.clone());
        component.add_raw_request(Some(Side::Agent), method, None, move |call, next| {
            let (servers, handler) = (servers.clone(), handler.clone());
            async move {
                let request = match McpRequest::read(call.clone(), &servers, next.shared.is_strict)
                {
                    Ok(request) => request,
                    Err(why) => return next.pass_unreadable(call, why).await,
                };
                let form = request.form;
                let (received, is_undelivered) = (Rc::default(), Rc::<Cell<bool>>::default());
                let next = McpNext {
                    next,
                    received: Rc::clone(&received),
                    is_undelivered: is_undelivered.clone(),
                };
                let result = handler(request, next).await;
                if result.is_err() && is_undelivered.get() {
                    return result;
                }
                let received: Option<Json> = received.take();
                form.encode(&call, received, result)
            }
        });
    }
}

/// Adds the handlers that follow connections.
fn add_connections(component: &mut Component, servers: &Arc<KnownServers>) {
    for method in ["mcp/connect", "_mcp/connect"] {
        let servers = servers.clone();
        component.add_raw_request(Some(Side::Agent), method, None, move |call, next| {
            let servers = servers.clone();
            async move {
                if let Some(why) = mixed_forms(&call).filter(|_| next.shared.is_strict) {
                    return next.pass_unreadable(call, Error::invalid_params(why)).await;
                }
                let Some((_, Frame::Connect { server, .. })) = mcp::decode(&call) else {
                    return next.pass(call, false).await;
                };
                // Of all forms, only M3t proposes an id.
                let proposed_id = call.params.as_ref().and_then(mcp::connection_id_of);
                servers.connect(&server, proposed_id.clone());
                let result = next.pass(call, false).await;
                servers.on_connected(&server, proposed_id, result.as_ref().ok());
                result
            }
        });
    }
    for method in ["mcp/disconnect", "_mcp/disconnect"] {
        let known = servers.clone();
        component.add_raw_request(Some(Side::Agent), method, None, move |call, next| {
            known.disconnect(&call);
            async move { next.pass(call, false).await }
        });
        let known = servers.clone();
        component.add_raw_notification(Side::Agent, method, None, move |call, _| {
            known.disconnect(call);
        });
    }
}

/// Checks that a notification of the agent carries no MCP request. Some servers perform a request without an id, or
/// answer one with an id that comes in a notification.
fn check_notification(call: &mut Call, context: &Context) -> Delivery {
    let why = match mcp::decode(call) {
        Some((_, Frame::Mcp { call: inner, id: None, .. }))
            if inner.method.name().starts_with("notifications/") =>
        {
            mixed_forms(call)
        }
        _ => Some("it is not an MCP notification".to_owned()),
    };
    match why {
        // The member is one of a few known names, so the log may have it.
        Some(why) => context.shared.report_unreadable(&call.method.name(), &why),
        None => Delivery::Forward,
    }
}

/// The reason why programs may read a message differently.
fn mixed_forms(call: &Call) -> Option<String> {
    let member = mcp::mixed_forms(call)?;
    Some(format!("its member {member:?} belongs to another form of MCP over ACP"))
}
