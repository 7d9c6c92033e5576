//! The demo agent: an agent with a script, so that everything can be tried with nothing installed.
//!
//! - `wish`: what a prompt asks for
//! - `turn`: how it is answered
//! - `mcp`: the tools of the session's MCP servers

mod mcp;
mod turn;
mod wish;

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

use crate::catalog::Component;
use mcp::Servers;
use turn::Turn;

/// An agent with a script: answers without a model, a network or an account.
///
/// For trying chains and proxies, and for tests. It streams its answers word by word, and does on
/// request what agents do: say `help`, and it tells what. Tools it really calls: it starts the MCP
/// servers of its session and speaks MCP with them. Files it only pretends to edit.
///
/// It keeps its sessions as long as it runs, and replays them when they are loaded.
#[derive(Debug, Clone, Parser)]
pub struct DemoAgent {
    /// How long to pause between two words, in milliseconds.
    #[arg(long, value_name = "MS", default_value = "15")]
    pace: u64,
}

/// How much of a session is kept to be replayed.
const MOST_KEPT: usize = 1000;

/// Asks before it edits. The other mode does not.
const ASK: &str = "ask";
const AUTO: &str = "auto";

/// All sessions, by their ids.
#[derive(Clone, Default)]
struct Sessions(Arc<Mutex<Table>>);

#[derive(Default)]
struct Table {
    opened: u64,
    open: BTreeMap<String, Session>,
}

struct Session {
    /// What was said so far.
    said: Vec<SessionUpdate>,
    mode: String,
    /// How many tools it has called.
    tools: u64,
    servers: Servers,
}

impl Component for DemoAgent {
    const NAME: &'static str = "demo-agent";
    const AGENT: bool = true;

    fn make(&self) -> acp_proxy::Component {
        let pace = Duration::from_millis(self.pace);
        let sessions = Sessions::default();
        let [new, load, close, mode] = [(); 4].map(|()| sessions.clone());
        Agent::new("demo-agent")
            .on_raw_request("initialize", async |call: Call, _| greeting(&call))
            .on_request(async move |request: NewSessionRequest, context| {
                let id = new.open();
                new.start(&context, &id, request.mcp_servers);
                Ok(NewSessionResponse::new(id).modes(modes(ASK)))
            })
            .on_request(async move |request: LoadSessionRequest, context| {
                let id = &*request.session_id.0;
                let (said, mode) = load.with(id, |it| (it.said.clone(), it.mode.clone()))?;
                load.start(&context, id, request.mcp_servers);
                let editor = context.editor();
                for update in said {
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
                let session = close.table().open.remove(&*request.session_id.0);
                if let Some(session) = session {
                    session.servers.end().await;
                }
                Ok(CloseSessionResponse::new())
            })
            .on_prompt(async move |prompt, context| {
                let (id, text) = (prompt.session().to_owned(), prompt.text());
                let servers = sessions.with(&id, |session| session.servers.clone())?;
                let user = ContentChunk::new(ContentBlock::from(text.clone()));
                sessions.keep(&id, SessionUpdate::UserMessageChunk(user));
                let turn = Turn::new(context.editor(), sessions.clone(), id, servers, pace);
                let stopped = tokio::select! {
                    biased;
                    () = context.cancelled() => {
                        turn.abandon().await?;
                        StopReason::Cancelled
                    }
                    done = turn.play(&text) => done?,
                };
                Ok(PromptResponse::new(stopped))
            })
            .into()
    }
}

fn greeting(call: &Call) -> Result<Json> {
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
        _ => serde_json::to_value(first_greeting())?,
    };
    to_json(&answer)
}

/// As in version 1.
fn first_greeting() -> InitializeResponse {
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
    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn open(&self) -> String {
        let mut table = self.table();
        table.opened += 1;
        // Not to be taken for a session of the process before this one.
        let id = format!("demo-{}-{}", std::process::id(), table.opened);
        let mode = ASK.to_owned();
        let session = Session { said: Vec::new(), mode, tools: 0, servers: Servers::default() };
        table.open.insert(id.clone(), session);
        id
    }

    fn with<T>(&self, id: &str, work: impl FnOnce(&mut Session) -> T) -> Result<T> {
        let mut table = self.table();
        let session = table.open.get_mut(id).ok_or_else(|| {
            Error::invalid_params(format!(
                "there is no session {id}: the demo agent keeps sessions only as long as it runs"
            ))
        })?;
        Ok(work(session))
    }

    /// Starts the servers of a session beside the messages: the editor may have to know the session
    /// before its servers answer.
    fn start(&self, context: &Context, id: &str, declared: Vec<McpServer>) {
        if let Ok(servers) = self.with(id, |session| session.servers.clone()) {
            context.spawn(async move { servers.start(declared).await });
        }
    }

    /// Keeps what was said, pieces of one text together.
    fn keep(&self, id: &str, update: SessionUpdate) {
        let kept = self.with(id, |session| {
            if let Some(last) = session.said.last_mut()
                && join(last, &update)
            {
                return;
            }
            if session.said.len() >= MOST_KEPT {
                session.said.remove(0);
            }
            session.said.push(update);
        });
        // A session that was closed meanwhile needs no memory.
        drop(kept);
    }
}

fn join(last: &mut SessionUpdate, update: &SessionUpdate) -> bool {
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
