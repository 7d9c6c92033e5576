//! The sessions of the demo agent, in memory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use acp_proxy::{Context, Error, Result};
use serde_json::{Value, json};

use super::client::Client;
use super::mcp::Servers;
use super::options::Options;

/// The maximum number of updates that a session keeps for its replay.
const MAX_HISTORY: usize = 1000;

/// The error code of a session that does not exist.
const NOT_FOUND: i64 = -32002;

/// All sessions, and what they have in common.
#[derive(Clone, Default)]
pub(super) struct Sessions(Arc<Mutex<Table>>);

#[derive(Default)]
pub(super) struct Table {
    pub(super) client: Client,
    /// Whether the user has logged in.
    pub(super) is_logged_in: bool,
    /// The number of sessions so far, for the session ids.
    count: u64,
    pub(super) sessions: BTreeMap<String, Session>,
}

/// A session.
#[derive(Default)]
pub(super) struct Session {
    /// All updates so far, as they were sent.
    history: Vec<Value>,
    pub(super) options: Options,
    pub(super) directory: PathBuf,
    /// The first prompt.
    pub(super) title: Option<String>,
    /// The number of prompts so far.
    pub(super) prompts: u64,
    /// The number of tool calls so far.
    pub(super) tool_calls: u64,
    /// What the user has decided for all edits and commands.
    pub(super) decision: Option<bool>,
    /// Whether the session was resumed and the agent does not know its history.
    pub(super) is_forgotten: bool,
    pub(super) servers: Servers,
}

impl Sessions {
    pub(super) fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn client(&self) -> Client {
        self.table().client
    }

    /// Creates a session with a new id.
    pub(super) fn create(&self, directory: PathBuf) -> String {
        let mut table = self.table();
        table.count += 1;
        // The process id makes the session id differ from those of an earlier process.
        let id = format!("demo-{}-{}", std::process::id(), table.count);
        table.sessions.insert(id.clone(), Session { directory, ..Session::default() });
        id
    }

    /// Finds a session, or creates it with this id. Returns whether it was found.
    pub(super) fn find_or_create(&self, id: &str, directory: PathBuf) -> bool {
        let mut table = self.table();
        let found = table.sessions.contains_key(id);
        let session = table.sessions.entry(id.to_owned()).or_default();
        session.directory = directory;
        session.is_forgotten |= !found;
        found
    }

    pub(super) fn with<T>(&self, id: &str, work: impl FnOnce(&mut Session) -> T) -> Result<T> {
        let mut table = self.table();
        let session = table.sessions.get_mut(id).ok_or_else(|| {
            let why = format!(
                "there is no session {id}: the demo agent keeps sessions only as long as it runs"
            );
            Error::new(NOT_FOUND, why)
        })?;
        Ok(work(session))
    }

    /// Starts the MCP servers of a session in the background. A server may need a proxy that learns of the session only
    /// from the answer to `session/new`.
    pub(super) fn start_servers(&self, context: &Context, id: &str, declared: &Value) {
        let Ok(servers) = self.with(id, |session| session.servers.clone()) else { return };
        let declared = declared.as_array().cloned().unwrap_or_default();
        context.spawn(async move { servers.start(declared).await });
    }

    /// Adds an update to the history. Consecutive chunks of a text are joined.
    pub(super) fn record(&self, id: &str, update: &Value) {
        let recorded = self.with(id, |session| {
            if let Some(last) = session.history.last_mut()
                && append_text(last, update)
            {
                return;
            }
            if session.history.len() >= MAX_HISTORY {
                session.history.remove(0);
            }
            session.history.push(update.clone());
        });
        // A session that has been closed needs no history.
        drop(recorded);
    }

    /// The updates of a session so far.
    pub(super) fn history(&self, id: &str) -> Result<Vec<Value>> {
        self.with(id, |session| session.history.clone())
    }

    /// The sessions, for `session/list`. A directory selects those of this directory.
    pub(super) fn list(&self, directory: Option<&Path>) -> Value {
        let table = self.table();
        let in_directory =
            |session: &Session| directory.is_none_or(|directory| session.directory == directory);
        let sessions = table.sessions.iter().filter(|(_, session)| in_directory(session));
        let sessions = sessions.map(|(id, session)| {
            json!({ "sessionId": id, "cwd": session.directory, "title": session.title })
        });
        sessions.collect()
    }
}

/// Appends the text of a chunk to the last update, if both are parts of the same text.
fn append_text(last: &mut Value, update: &Value) -> bool {
    let is_chunk = update["sessionUpdate"]
        .as_str()
        .is_some_and(|kind| ["agent_message_chunk", "agent_thought_chunk"].contains(&kind));
    if !is_chunk
        || last["sessionUpdate"] != update["sessionUpdate"]
        || last["messageId"] != update["messageId"]
    {
        return false;
    }
    let more = update["content"]["text"].as_str();
    match (&mut last["content"]["text"], more) {
        (Value::String(text), Some(more)) => text.push_str(more),
        _ => return false,
    }
    true
}
