//! What a handler can do besides handling: send messages to both sides, start tasks, write to the log.

use std::future::{Future, pending};
use std::rc::Rc;

use acp_proxy_core::{Call, Id, Json, Side};
use agent_client_protocol_schema::v1::{
    ContentBlock, ContentChunk, RequestPermissionRequest, SessionId, SessionNotification,
    SessionUpdate,
};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::message_type::{Notification, Request, to_call};
use crate::prompt::read_end_of_turn;
use crate::session::{Session, Turn};
use crate::shared::{Cancellation, Command, Shared};
use crate::turn::update_call;
use crate::typed::{read_or_empty, to_json};

/// Access to both sides, to the log and to background tasks. Cloning it is cheap.
#[derive(Clone)]
pub struct Context {
    pub(crate) shared: Rc<Shared>,
    /// The request that is being handled.
    request: Option<(Id, Rc<Cancellation>)>,
    /// The parameters of the message that is being handled.
    params: Option<Json>,
}

impl Context {
    pub(crate) fn new(shared: Rc<Shared>) -> Context {
        Context { shared, request: None, params: None }
    }

    pub(crate) fn of_notification(shared: Rc<Shared>, call: &Call) -> Context {
        Context { shared, request: None, params: call.params.clone() }
    }

    pub(crate) fn of_request(
        shared: Rc<Shared>,
        call: &Call,
        id: Id,
        cancellation: Rc<Cancellation>,
    ) -> Context {
        Context { shared, request: Some((id, cancellation)), params: call.params.clone() }
    }

    pub(crate) fn request_id(&self) -> Option<Id> {
        self.request.as_ref().map(|(id, _)| id.clone())
    }

    /// The editor, or the component that stands before this one.
    pub fn editor(&self) -> Peer {
        Peer { context: self.clone(), side: Side::Editor }
    }

    /// The agent, or the component that stands behind this one.
    pub fn agent(&self) -> Peer {
        Peer { context: self.clone(), side: Side::Agent }
    }

    /// The id of the session that the message belongs to. `None` if it belongs to no session.
    pub fn session(&self) -> Option<String> {
        let session = self.params.as_ref()?.member("sessionId")?;
        session.text().map(|session| session.into_owned())
    }

    /// Sends text to the user as part of the agent's message, in the session of the message that is being handled.
    /// Texts are joined as they are, so begin with a line break to start a new line.
    ///
    /// After `next.run(prompt).await?`, the text stands at the end of the turn.
    ///
    /// # Errors
    /// If the message belongs to no session. Use [`Peer::say`] then.
    pub fn say(&self, text: impl Into<String>) -> Result<()> {
        self.editor().say(&self.session_or_error()?, text)
    }

    /// Sends text to the user as part of the agent's thoughts. Otherwise as [`say`](Context::say).
    ///
    /// # Errors
    /// As [`say`](Context::say).
    pub fn think(&self, text: impl Into<String>) -> Result<()> {
        self.editor().think(&self.session_or_error()?, text)
    }

    fn session_or_error(&self) -> Result<String> {
        let missing = || Error::internal("the message that is being handled belongs to no session");
        self.session().ok_or_else(missing)
    }

    /// Whether no turn runs in this session, as far as this component has seen. A component that was restarted during
    /// a turn, and a proxy that is nearer to the editor than a component that starts turns, do not know.
    pub fn is_idle(&self, session: &str) -> bool {
        self.shared.activity.is_idle(session)
    }

    /// Waits until no turn runs in this session. What is sent then comes after the answer that ends the turn. Returns
    /// at once if the session is idle, and when the session is closed.
    pub async fn wait_until_idle(&self, session: &str) {
        if let Some(idle) = self.shared.activity.wait(session) {
            idle.receive().await;
        }
    }

    /// Whether the editor shows a `session/update` that comes outside of a turn. See [`LateUpdates`].
    ///
    /// [`LateUpdates`]: crate::LateUpdates
    pub fn shows_late_updates(&self) -> bool {
        self.shared.activity.shows_late_updates(self.shared.is_v2())
    }

    /// Shows a text to the user outside of a turn: at once if the session is idle, or else when its turn ends. An
    /// editor that shows nothing outside of a turn gets the text at the beginning of the next turn.
    ///
    /// Editors join the text with the agent's last message, so begin and end it with line breaks.
    pub fn announce(&self, session: &str, text: impl Into<String>) {
        self.shared.push(Command::Announce(session.to_owned(), text.into()));
    }

    /// Shows a text to the user, as [`announce`](Context::announce), and waits until it is sent to the editor. Returns
    /// `false` if it is not sent, because the session is closed first or too many texts wait.
    pub async fn announce_and_wait(&self, session: &str, text: impl Into<String>) -> bool {
        let sent = self.shared.activity.announce_awaited(session, text.into());
        self.shared.push(Command::Settle(session.to_owned()));
        sent.receive().await.is_some()
    }

    /// Starts a turn without a prompt of the user: waits until the session is idle, sends this text to the agent, and
    /// waits for the end of the turn, in ACP version 1 and 2. The agent's updates and requests go to the editor.
    ///
    /// Prompts that arrive meanwhile wait for the end of this turn, and then go to the agent in their order. If the
    /// editor cancels the turn, the agent ends this turn, and prompts that wait are answered with `cancelled`.
    ///
    /// # Errors
    /// The error that the agent answers with, or an error if the session is closed first.
    pub async fn start_turn(&self, session: &str, text: impl Into<String>) -> Result<Turn> {
        let turn = self.shared.activity.request_turn(session);
        self.shared.push(Command::Settle(session.to_owned()));
        let closed = || Error::internal("the session was closed before the turn began");
        let _turn = turn.receive().await.ok_or_else(closed)?;
        let collected = self.shared.updates.collect(session);
        let prompt = [ContentBlock::from(text.into())];
        let params = serde_json::json!({ "sessionId": session, "prompt": prompt });
        let answer = self.agent().request_raw("session/prompt", params).await?;
        let response = read_end_of_turn(&answer)?.0;
        Ok(Turn { response, updates: collected.take() })
    }

    /// Writes a line to the log: standard error, unless [`Proxy::log_to`](crate::Proxy::log_to) names another place.
    pub fn log(&self, line: impl AsRef<str>) {
        self.shared.log(line.as_ref());
    }

    /// Runs a task in the background until it ends or the component ends. The task need not be [`Send`].
    pub fn spawn(&self, task: impl Future<Output = ()> + 'static) {
        self.shared.spawn(Box::pin(task));
    }

    /// Waits until the requester cancels the request that is being handled. For an agent that handles a prompt,
    /// `session/cancel` counts, too.
    ///
    /// The handler still has to return an answer. Requests that it has sent with `next.run` are cancelled without
    /// its help. Outside of a request this waits for ever.
    pub async fn cancelled(&self) {
        match &self.request {
            Some((_, cancellation)) => cancellation.wait().await,
            None => pending().await,
        }
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("request", &self.request_id()).finish_non_exhaustive()
    }
}

/// The editor or the agent: the next component in that direction.
#[derive(Debug, Clone)]
pub struct Peer {
    context: Context,
    side: Side,
}

impl Peer {
    /// Sends a request and waits for the answer.
    ///
    /// ```
    /// use acp_proxy::prelude::*;
    /// use acp_proxy::schema::ReadTextFileRequest;
    ///
    /// let proxy = Proxy::new("notes").on_prompt(async |mut prompt, next| {
    ///     let request = ReadTextFileRequest::new(prompt.session().to_owned(), "/notes.txt");
    ///     let notes = next.editor().request(request).await?;
    ///     prompt.append_text(notes.content);
    ///     next.run(prompt).await
    /// });
    /// ```
    ///
    /// # Errors
    /// The error that the peer answers with, or an error if the answer does not fit its type.
    pub async fn request<T: Request>(&self, request: T) -> Result<T::Response> {
        let mut call = to_call(T::METHOD, &request)?;
        let is_permission = T::METHOD == RequestPermissionRequest::METHOD && T::VERSION == Some(1);
        if is_permission && self.context.shared.is_v2() {
            call.params = call.params.as_ref().map(permission_in_v2);
        }
        let answer = self.request_call(call).await?;
        Ok(read_or_empty(&answer)?.0)
    }

    /// Sends a request of any method and waits for the answer.
    ///
    /// # Errors
    /// The error that the peer answers with.
    pub async fn request_raw(&self, method: &str, params: impl Serialize) -> Result<Json> {
        self.request_call(to_call(method, &params)?).await
    }

    /// Sends a request whose parameters are already JSON, and waits for the answer.
    ///
    /// # Errors
    /// The error that the peer answers with.
    pub async fn request_call(&self, call: Call) -> Result<Json> {
        self.context.shared.request(self.side, call, None, true).await
    }

    /// Sends a notification. Messages leave in the order of these calls.
    ///
    /// # Errors
    /// If the notification cannot be written as JSON.
    pub fn notify<T: Notification>(&self, notification: T) -> Result<()> {
        self.notify_raw(T::METHOD, notification)
    }

    /// Sends a notification of any method.
    ///
    /// # Errors
    /// If the parameters cannot be written as JSON.
    pub fn notify_raw(&self, method: &str, params: impl Serialize) -> Result<()> {
        self.notify_call(to_call(method, &params)?);
        Ok(())
    }

    /// Sends a notification whose parameters are already JSON.
    pub fn notify_call(&self, call: Call) {
        self.context.shared.push(Command::Notify { toward: self.side, call });
    }

    /// Opens a new session with the agent for this proxy alone: a subagent. The editor sees nothing of it. The
    /// agent's permission requests in this session are answered with `cancelled`.
    ///
    /// # Errors
    /// The error that the agent answers with.
    pub async fn new_session(&self, cwd: impl AsRef<str>) -> Result<Session> {
        Session::open(self.clone(), self.context.shared.clone(), cwd.as_ref()).await
    }

    /// Sends a `session/update`. On a connection of ACP version 2 it is converted.
    ///
    /// # Errors
    /// If the update cannot be written as JSON.
    pub fn update(&self, session: &str, update: SessionUpdate) -> Result<()> {
        let shared = &self.context.shared;
        if shared.is_v2() {
            let update = shared.update_in_v2(session, &to_json(&update)?);
            self.notify_call(update_call(session, update));
            return Ok(());
        }
        self.notify(SessionNotification::new(SessionId::new(session), update))
    }

    /// Sends text to the user as part of the agent's message. Texts are joined as they are.
    ///
    /// # Errors
    /// As [`update`](Peer::update).
    pub fn say(&self, session: &str, text: impl Into<String>) -> Result<()> {
        self.update(session, SessionUpdate::AgentMessageChunk(chunk(text)))
    }

    /// Sends text to the user as part of the agent's thoughts.
    ///
    /// # Errors
    /// As [`update`](Peer::update).
    pub fn think(&self, session: &str, text: impl Into<String>) -> Result<()> {
        self.update(session, SessionUpdate::AgentThoughtChunk(chunk(text)))
    }
}

fn chunk(text: impl Into<String>) -> ContentChunk {
    ContentChunk::new(ContentBlock::from(text.into()))
}

/// Converts a permission request from ACP version 1 to version 2.
fn permission_in_v2(params: &Json) -> Json {
    let call = params.member("toolCall");
    let title = call.as_ref().and_then(|call| call.member("title"));
    let subject =
        Json::object([("type", Some(Json::string("tool_call"))), ("toolCall", call.clone())]);
    Json::object([
        ("sessionId", params.member("sessionId")),
        ("title", Some(title.unwrap_or_else(|| Json::string("Use a tool")))),
        ("subject", Some(subject)),
        ("options", params.member("options")),
    ])
}
