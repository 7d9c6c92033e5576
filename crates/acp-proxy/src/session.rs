//! Sessions that a proxy opens with the agent for itself, and what a turn consists of.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use acp_proxy_core::{Call, Json, Outcome};
use acp_wire::acp::session_of_call;
use agent_client_protocol_schema::v1::{PromptResponse, RequestPermissionRequest};
use serde_json::json;

use crate::context::Peer;
use crate::error::{Error, Result};
use crate::message_type::Request;
use crate::permission::CANCELLED;
use crate::prompt::read_end_of_turn;
use crate::shared::Shared;

/// The sessions that the proxy has opened for itself, with the updates since the last prompt.
#[derive(Default)]
pub(crate) struct OwnSessions(RefCell<BTreeMap<String, Vec<Json>>>);

impl OwnSessions {
    /// Keeps an update of one of these sessions. Returns false if it belongs to another session.
    pub(crate) fn keep(&self, call: &Call) -> bool {
        let mut sessions = self.0.borrow_mut();
        if sessions.is_empty() {
            return false;
        }
        let session = session_of_call(call);
        let Some(updates) = session.and_then(|session| sessions.get_mut(&*session)) else {
            return false;
        };
        updates.extend(call.params.as_ref().map(Json::detached));
        true
    }

    /// The answer to a request of the agent in one of these sessions that the editor cannot answer, because it does
    /// not know the session. Requests for files and terminals still go to the editor.
    pub(crate) fn answer(&self, call: &Call) -> Option<Outcome> {
        let sessions = self.0.borrow();
        if sessions.is_empty() || !call.is(RequestPermissionRequest::METHOD) {
            return None;
        }
        let is_own = sessions.contains_key(&*session_of_call(call)?);
        is_own.then(|| Outcome::Result(Json::trusted(CANCELLED)))
    }
}

/// Collects the agent's updates for [`Next::run_turn`](crate::Next::run_turn).
#[derive(Default)]
pub(crate) struct UpdateCollectors(Rc<RefCell<Vec<Collector>>>);

struct Collector {
    session: String,
    updates: Rc<RefCell<Vec<Json>>>,
}

/// The updates of one turn. Dropping it ends the collection.
pub(crate) struct CollectedUpdates {
    collectors: Rc<RefCell<Vec<Collector>>>,
    updates: Rc<RefCell<Vec<Json>>>,
}

impl UpdateCollectors {
    pub(crate) fn collect(&self, session: &str) -> CollectedUpdates {
        let updates = Rc::<RefCell<Vec<Json>>>::default();
        let collector = Collector { session: session.to_owned(), updates: updates.clone() };
        self.0.borrow_mut().push(collector);
        CollectedUpdates { collectors: self.0.clone(), updates }
    }

    /// An update goes to the editor.
    pub(crate) fn add(&self, call: &Call) {
        let collectors = self.0.borrow();
        if collectors.is_empty() {
            return;
        }
        let (Some(session), Some(params)) = (session_of_call(call), &call.params) else { return };
        for collector in collectors.iter().filter(|it| it.session == *session) {
            collector.updates.borrow_mut().push(params.detached());
        }
    }
}

impl CollectedUpdates {
    pub(crate) fn take(&self) -> Vec<Json> {
        self.updates.take()
    }
}

impl Drop for CollectedUpdates {
    fn drop(&mut self) {
        self.collectors.borrow_mut().retain(|it| !Rc::ptr_eq(&it.updates, &self.updates));
    }
}

/// A session that the proxy has opened for itself: a subagent. See [`Peer::new_session`].
#[derive(Clone)]
pub struct Session {
    id: String,
    agent: Peer,
    shared: Rc<Shared>,
}

/// A turn of the agent: how it ended, and the updates.
#[derive(Debug)]
pub struct Turn {
    /// How the turn ended.
    pub response: PromptResponse,
    /// The parameters of each `session/update`, in order.
    pub updates: Vec<Json>,
}

impl Turn {
    /// The text of the agent's message, without thoughts and tool calls.
    pub fn text(&self) -> String {
        // ACP version 2 may interleave the chunks of several messages, and replace a whole message.
        let mut messages = Vec::<(Option<String>, String)>::new();
        for update in self.updates.iter().filter_map(|params| params.member("update")) {
            let member = |name: &str| Some(update.member(name)?.text()?.into_owned());
            let id = member("messageId");
            let content = update.member("content").unwrap_or(Json::NULL);
            let known = messages.iter().position(|(it, _)| *it == id);
            let index = || known.unwrap_or(messages.len());
            match member("sessionUpdate").as_deref() {
                Some("agent_message_chunk") => {
                    let index = index();
                    if known.is_none() {
                        messages.push((id, String::new()));
                    }
                    messages[index].1.push_str(&text_of(&content));
                }
                Some("agent_message") if content.is_array() => {
                    let text = content.elements().iter().map(text_of).collect();
                    match known {
                        Some(index) => messages[index].1 = text,
                        None => messages.push((id, text)),
                    }
                }
                _ => {}
            }
        }
        messages.into_iter().map(|(_, text)| text).collect()
    }
}

/// The text of a content block. Empty for other kinds of content.
fn text_of(block: &Json) -> String {
    let member = |name: &str| Some(block.member(name)?.text()?.into_owned());
    match member("type").as_deref() {
        Some("text") => member("text").unwrap_or_default(),
        _ => String::new(),
    }
}

impl Session {
    pub(crate) async fn open(agent: Peer, shared: Rc<Shared>, cwd: &str) -> Result<Session> {
        let params = json!({ "cwd": cwd, "mcpServers": [] });
        let result = agent.request_raw("session/new", params).await?;
        let id = result.member("sessionId").and_then(|id| id.text().map(|id| id.into_owned()));
        let id = id.ok_or_else(|| Error::internal("the agent's new session has no id"))?;
        shared.own_sessions.0.borrow_mut().insert(id.clone(), Vec::new());
        Ok(Session { id, agent, shared })
    }

    /// The id of the session.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Prompts the agent and waits for the end of its turn.
    ///
    /// # Errors
    /// The error that the agent answers with.
    pub async fn prompt(&self, text: impl AsRef<str>) -> Result<Turn> {
        let params =
            json!({ "sessionId": self.id, "prompt": [{ "type": "text", "text": text.as_ref() }] });
        let result = self.agent.request_raw("session/prompt", params).await;
        let mut sessions = self.shared.own_sessions.0.borrow_mut();
        let updates = sessions.get_mut(&self.id).map(std::mem::take).unwrap_or_default();
        Ok(Turn { response: read_end_of_turn(&result?)?.0, updates })
    }

    /// Asks the agent to end its turn.
    pub fn cancel(&self) -> Result<()> {
        self.agent.notify_raw("session/cancel", json!({ "sessionId": self.id }))
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("id", &self.id).finish_non_exhaustive()
    }
}
