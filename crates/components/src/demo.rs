//! The component `demo-agent`: a scripted agent, for trying out chains without installing a real agent.
//!
//! - `intent`: parses a prompt
//! - `turn`: answers a prompt
//! - `mcp`: calls the tools of the session's MCP servers

mod intent;
mod mcp;
mod turn;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use acp_proxy::schema::{
    AgentCapabilities, CloseSessionRequest, CloseSessionResponse, ContentBlock, ContentChunk,
    Implementation, InitializeResponse, LoadSessionRequest, LoadSessionResponse, McpServer,
    NewSessionRequest, NewSessionResponse, PromptCapabilities, PromptResponse, SessionMode,
    SessionModeState, SessionUpdate, SetSessionModeRequest, SetSessionModeResponse, StopReason,
};
use acp_proxy::{Agent, Call, Context, Error, Json, ProtocolVersion, Result, to_json};
use clap::Parser;

use crate::catalog::BuiltIn;
use mcp::Servers;
use turn::Turn;

/// A scripted agent: answers without a model, a network or an account.
///
/// Use it to try out chains and proxies, and in tests. It streams its answers word by word. The prompt
/// `help` lists what it can do. It really calls tools: it starts the MCP servers of its session and
/// speaks MCP with them. It only pretends to edit files.
///
/// It keeps its sessions in memory and replays them when they are loaded.
#[derive(Debug, Clone, Parser)]
pub struct DemoAgent {
    /// The pause between two words, in milliseconds.
    #[arg(long, value_name = "MS", default_value = "15")]
    pace: u64,
}

/// The maximum number of updates that a session keeps for its replay.
const MAX_HISTORY: usize = 1000;

/// The session mode in which the agent asks before it edits a file.
const ASK: &str = "ask";
/// The session mode in which it does not ask.
const AUTO: &str = "auto";

/// All sessions, by their ids.
#[derive(Clone, Default)]
struct Sessions(Arc<Mutex<SessionTable>>);

#[derive(Default)]
struct SessionTable {
    /// The number of sessions so far, for the session ids.
    count: u64,
    sessions: BTreeMap<String, Session>,
}

struct Session {
    /// All updates so far.
    history: Vec<SessionUpdate>,
    mode: String,
    /// The number of tool calls so far.
    tool_calls: u64,
    servers: Servers,
}

impl BuiltIn for DemoAgent {
    const NAME: &'static str = "demo-agent";
    const AGENT: bool = true;

    fn build(&self) -> acp_proxy::Component {
        let pace = Duration::from_millis(self.pace);
        let sessions = Sessions::default();
        let [new, load, close, mode] = [(); 4].map(|()| sessions.clone());
        Agent::new("demo-agent")
            .on_raw_request("initialize", async |call: Call, _| initialize_result(&call))
            .on_request(async move |request: NewSessionRequest, context| {
                let id = new.create();
                new.start_servers(&context, &id, request.mcp_servers);
                Ok(NewSessionResponse::new(id).modes(modes(ASK)))
            })
            .on_request(async move |request: LoadSessionRequest, context| {
                let id = &*request.session_id.0;
                let (history, mode) = load.with(id, |it| (it.history.clone(), it.mode.clone()))?;
                load.start_servers(&context, id, request.mcp_servers);
                let editor = context.editor();
                for update in history {
                    editor.update(id, update)?;
                }
                Ok(LoadSessionResponse::new().modes(modes(&mode)))
            })
            .on_request(async move |request: SetSessionModeRequest, _| {
                let wanted = &*request.mode_id.0;
                if ![ASK, AUTO].contains(&wanted) {
                    return Err(Error::invalid_params(format!("there is no mode {wanted}")));
                }
                mode.with(&request.session_id.0, |it| it.mode = wanted.to_owned())?;
                Ok(SetSessionModeResponse::new())
            })
            .on_request(async move |request: CloseSessionRequest, _| {
                let session = close.table().sessions.remove(&*request.session_id.0);
                if let Some(session) = session {
                    session.servers.stop().await;
                }
                Ok(CloseSessionResponse::new())
            })
            .on_prompt(async move |prompt, context| {
                let (id, text) = (prompt.session().to_owned(), prompt.text());
                let servers = sessions.with(&id, |session| session.servers.clone())?;
                let user = ContentChunk::new(ContentBlock::from(text.clone()));
                sessions.record(&id, SessionUpdate::UserMessageChunk(user));
                let turn = Turn::new(context.editor(), sessions.clone(), id, servers, pace);
                let stop_reason = tokio::select! {
                    biased;
                    () = context.cancelled() => {
                        turn.cancel().await?;
                        StopReason::Cancelled
                    }
                    done = turn.run(&text) => done?,
                };
                Ok(PromptResponse::new(stop_reason))
            })
            .into()
    }
}

fn initialize_result(call: &Call) -> Result<Json> {
    let version = call.params.as_ref().and_then(|params| params.member("protocolVersion"));
    let answer = match version.and_then(|version| version.integer()) {
        Some(2..) => serde_json::json!({
            "protocolVersion": 2,
            "info": {
                "name": "demo-agent",
                "title": "Demo agent",
                "version": env!("CARGO_PKG_VERSION"),
            },
            "capabilities": {
                "session": { "prompt": { "embeddedContext": {} }, "mcp": { "stdio": {} } },
            },
        }),
        _ => serde_json::to_value(v1_initialize_result())?,
    };
    to_json(&answer)
}

/// The result of `initialize` in version 1 of ACP.
fn v1_initialize_result() -> InitializeResponse {
    let capabilities = AgentCapabilities::new()
        .load_session(true)
        .prompt_capabilities(PromptCapabilities::new().embedded_context(true));
    let info = Implementation::new("demo-agent", env!("CARGO_PKG_VERSION"));
    InitializeResponse::new(ProtocolVersion::V1)
        .agent_capabilities(capabilities)
        .agent_info(info.title("Demo agent".to_owned()))
}

fn modes(current: &str) -> SessionModeState {
    let mode = |id: &str, name: &str, about: &str| {
        SessionMode::new(id.to_owned(), name).description(about.to_owned())
    };
    SessionModeState::new(
        current.to_owned(),
        vec![
            mode(ASK, "Ask", "Asks before it edits a file"),
            mode(AUTO, "Automatic", "Edits files without asking"),
        ],
    )
}

impl Sessions {
    fn table(&self) -> MutexGuard<'_, SessionTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn create(&self) -> String {
        let mut table = self.table();
        table.count += 1;
        // The process id makes the session id differ from those of an earlier process.
        let id = format!("demo-{}-{}", std::process::id(), table.count);
        let mode = ASK.to_owned();
        let session =
            Session { history: Vec::new(), mode, tool_calls: 0, servers: Servers::default() };
        table.sessions.insert(id.clone(), session);
        id
    }

    fn with<T>(&self, id: &str, work: impl FnOnce(&mut Session) -> T) -> Result<T> {
        let mut table = self.table();
        let session = table.sessions.get_mut(id).ok_or_else(|| {
            Error::invalid_params(format!(
                "there is no session {id}: the demo agent keeps sessions only as long as it runs"
            ))
        })?;
        Ok(work(session))
    }

    /// Starts the MCP servers of a session in the background. A server may need a proxy that learns of the session only
    /// from the answer to `session/new`.
    fn start_servers(&self, context: &Context, id: &str, declared: Vec<McpServer>) {
        if let Ok(servers) = self.with(id, |session| session.servers.clone()) {
            context.spawn(async move { servers.start(declared).await });
        }
    }

    /// Adds an update to the history. Consecutive chunks of a text are joined.
    fn record(&self, id: &str, update: SessionUpdate) {
        let recorded = self.with(id, |session| {
            if let Some(last) = session.history.last_mut()
                && append_text(last, &update)
            {
                return;
            }
            if session.history.len() >= MAX_HISTORY {
                session.history.remove(0);
            }
            session.history.push(update);
        });
        // A session that has been closed needs no history.
        drop(recorded);
    }
}

fn append_text(last: &mut SessionUpdate, update: &SessionUpdate) -> bool {
    let (last, more) = match (last, update) {
        (SessionUpdate::AgentMessageChunk(last), SessionUpdate::AgentMessageChunk(more))
        | (SessionUpdate::AgentThoughtChunk(last), SessionUpdate::AgentThoughtChunk(more)) => {
            (last, more)
        }
        _ => return false,
    };
    let (ContentBlock::Text(last), ContentBlock::Text(more)) = (&mut last.content, &more.content)
    else {
        return false;
    };
    last.text.push_str(&more.text);
    true
}
