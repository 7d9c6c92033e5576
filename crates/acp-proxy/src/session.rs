//! Sessions of the proxy's own with the agent: subagents.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use acp_proxy_core::{Call, Json, Outcome};
use agent_client_protocol_schema::v1::{
    ContentBlock, PromptResponse, SessionNotification, SessionUpdate,
};
use serde_json::json;

use crate::context::{Peer, Shared};
use crate::error::{Error, Result};
use crate::handler::read_end;
use crate::typed::Typed;

/// The sessions that are the proxy's own, and what the agent has said in each since the last prompt.
#[derive(Default)]
pub(crate) struct Sessions(RefCell<BTreeMap<String, Vec<Json>>>);

/// What the agent may do in a session of the proxy's own where it asks for permission.
const REFUSED: &str = r#"{"outcome":{"outcome":"cancelled"}}"#;

impl Sessions {
    fn id(call: &Call) -> Option<String> {
        Some(call.params.as_ref()?.member("sessionId")?.text()?.into_owned())
    }

    /// Keeps an update of one of these sessions. True if it was.
    pub fn keep(&self, call: &Call) -> bool {
        let mut sessions = self.0.borrow_mut();
        if sessions.is_empty() {
            return false;
        }
        let Some(updates) = Self::id(call).and_then(|id| sessions.get_mut(&id)) else {
            return false;
        };
        updates.extend(call.params.as_ref().map(Json::detached));
        true
    }

    /// The answer to a question of the agent in one of these sessions: the editor knows nothing of
    /// them and cannot be asked.
    pub fn answer(&self, call: &Call) -> Option<Outcome> {
        let sessions = self.0.borrow();
        if sessions.is_empty() || !sessions.contains_key(&Self::id(call)?) {
            return None;
        }
        match &*call.method.name() {
            "session/request_permission" => Some(Outcome::Result(Json::trusted(REFUSED))),
            // Files and terminals are the editor's, whoever asks.
            _ => None,
        }
    }
}

/// A session of the proxy's own with the agent.
#[derive(Clone)]
pub struct Session {
    id: String,
    agent: Peer,
    shared: Rc<Shared>,
}

/// What came of a prompt.
#[derive(Debug)]
pub struct Turn {
    pub response: Typed<PromptResponse>,
    /// Everything the agent sent meanwhile, in order.
    pub updates: Vec<Json>,
}

impl Turn {
    /// What the agent said, without thoughts and tools.
    pub fn text(&self) -> String {
        let mut said = String::new();
        for update in &self.updates {
            let Ok(update) = Typed::<SessionNotification>::read(update) else { continue };
            if let SessionUpdate::AgentMessageChunk(chunk) = &update.update
                && let ContentBlock::Text(text) = &chunk.content
            {
                said.push_str(&text.text);
            }
        }
        said
    }
}

impl Session {
    pub(crate) async fn open(agent: Peer, shared: Rc<Shared>, cwd: &str) -> Result<Session> {
        let result = agent.ask("session/new", json!({ "cwd": cwd, "mcpServers": [] })).await?;
        let id = result.member("sessionId").and_then(|id| id.text().map(|id| id.into_owned()));
        let id = id.ok_or_else(|| Error::internal("the agent gave its session no id"))?;
        shared.sessions.0.borrow_mut().insert(id.clone(), Vec::new());
        Ok(Session { id, agent, shared })
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// Prompts the agent and waits for the end of its turn.
    pub async fn prompt(&self, text: impl AsRef<str>) -> Result<Turn> {
        let params =
            json!({ "sessionId": self.id, "prompt": [{ "type": "text", "text": text.as_ref() }] });
        let result = self.agent.ask("session/prompt", params).await;
        let mut sessions = self.shared.sessions.0.borrow_mut();
        let updates = sessions.get_mut(&self.id).map(std::mem::take).unwrap_or_default();
        Ok(Turn { response: read_end(&result?)?, updates })
    }

    /// Asks the agent to end its turn.
    pub fn cancel(&self) -> Result<()> {
        self.agent.notify("session/cancel", json!({ "sessionId": self.id }))
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("id", &self.id).finish()
    }
}
