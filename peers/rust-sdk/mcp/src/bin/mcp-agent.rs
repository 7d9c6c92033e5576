//! The agent that uses MCP servers (see `peers/README.md`), on the official Rust SDKs of ACP and MCP:
//! `mcp-agent [--http] [--eager] [--per-call]`

#[path = "../client.rs"]
mod client;
#[path = "../script.rs"]
mod script;

use std::collections::HashMap;
use std::sync::Arc;

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    AgentCapabilities, CloseSessionRequest, CloseSessionResponse, ContentBlock, ContentChunk,
    Implementation, InitializeRequest, InitializeResponse, LoadSessionRequest, LoadSessionResponse,
    McpCapabilities, McpServer, NewSessionRequest, NewSessionResponse, PromptRequest,
    PromptResponse, SessionCapabilities, SessionCloseCapabilities, SessionId, SessionNotification,
    SessionUpdate, StopReason,
};
use agent_client_protocol::{Agent, Client, Error, Result, Stdio, on_receive_request};
use tokio::sync::Mutex;

use script::Session;

#[derive(Clone, Copy, Default)]
struct Options {
    http: bool,
    eager: bool,
    per_call: bool,
}

#[derive(Default)]
struct Sessions {
    options: Options,
    open: Mutex<HashMap<SessionId, Arc<Session>>>,
    opened: Mutex<u32>,
}

// One thread: there, what an MCP server sends is handled in the order in which it came.
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut options = Options::default();
    for option in std::env::args().skip(1) {
        match option.as_str() {
            "--http" => options.http = true,
            "--eager" => options.eager = true,
            "--per-call" => options.per_call = true,
            _ => {
                let usage = "usage: mcp-agent [--http] [--eager] [--per-call]";
                return Err(Error::invalid_params().data(usage));
            }
        }
    }
    let sessions = Arc::new(Sessions { options, ..Sessions::default() });
    let served = serve(sessions.clone()).await;
    let ids: Vec<_> = sessions.open.lock().await.keys().cloned().collect();
    for id in ids {
        sessions.close(&id).await;
    }
    served
}

/// Every handler leaves its work to a task: an MCP server may be behind the connection that the handler holds.
async fn serve(sessions: Arc<Sessions>) -> Result<()> {
    let (new, load, close, prompt) =
        (sessions.clone(), sessions.clone(), sessions.clone(), sessions.clone());
    Agent
        .v1()
        .on_receive_request(
            async move |_: InitializeRequest, responder, _| {
                responder.respond(greeting(sessions.options))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: NewSessionRequest, responder, connection: ConnectionTo<Client>| {
                let sessions = new.clone();
                connection.spawn(async move {
                    let id = sessions.fresh_id().await;
                    let opened = sessions.open(id.clone(), request.mcp_servers).await;
                    responder.respond_with_result(opened.map(|()| NewSessionResponse::new(id)))
                })
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: LoadSessionRequest,
                        responder,
                        connection: ConnectionTo<Client>| {
                let sessions = load.clone();
                connection.spawn(async move {
                    let opened = sessions.open(request.session_id, request.mcp_servers).await;
                    responder.respond_with_result(opened.map(|()| LoadSessionResponse::new()))
                })
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: CloseSessionRequest,
                        responder,
                        connection: ConnectionTo<Client>| {
                let sessions = close.clone();
                connection.spawn(async move {
                    sessions.close(&request.session_id).await;
                    responder.respond(CloseSessionResponse::new())
                })
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: PromptRequest, responder, connection: ConnectionTo<Client>| {
                let sessions = prompt.clone();
                connection.clone().spawn(async move {
                    responder.respond_with_result(sessions.prompt(request, &connection).await)
                })
            },
            on_receive_request!(),
        )
        .connect_to(Stdio::new())
        .await
}

fn greeting(options: Options) -> InitializeResponse {
    let close = SessionCapabilities::new().close(SessionCloseCapabilities::new());
    let mut capabilities = AgentCapabilities::new().load_session(true).session_capabilities(close);
    if options.http {
        capabilities = capabilities.mcp_capabilities(McpCapabilities::new().http(true).sse(true));
    }
    InitializeResponse::new(ProtocolVersion::V1)
        .agent_capabilities(capabilities)
        .agent_info(Implementation::new("mcp-agent-rust", "1"))
}

impl Sessions {
    async fn fresh_id(&self) -> SessionId {
        let mut opened = self.opened.lock().await;
        *opened += 1;
        SessionId::new(format!("mcp-session-{opened}"))
    }

    async fn open(&self, id: SessionId, servers: Vec<McpServer>) -> Result<()> {
        self.close(&id).await;
        let session = Arc::new(Session::new(servers, self.options.per_call));
        self.open.lock().await.insert(id.clone(), session.clone());
        if self.options.eager
            && let Err(failure) = session.connect_all().await
        {
            self.close(&id).await;
            return Err(Error::internal_error().data(failure.message));
        }
        Ok(())
    }

    async fn close(&self, id: &SessionId) {
        let session = self.open.lock().await.remove(id);
        if let Some(session) = session {
            session.end().await;
        }
    }

    async fn prompt(
        &self,
        request: PromptRequest,
        connection: &ConnectionTo<Client>,
    ) -> Result<PromptResponse> {
        let session = self.open.lock().await.get(&request.session_id).cloned();
        let session = session.ok_or_else(|| Error::invalid_params().data("no such session"))?;
        let text = request.prompt.into_iter().find_map(|block| match block {
            ContentBlock::Text(it) => Some(it.text),
            _ => None,
        });
        let say = |text: String| {
            let chunk = ContentChunk::new(ContentBlock::from(text));
            let update = SessionUpdate::AgentMessageChunk(chunk);
            connection
                .send_notification(SessionNotification::new(request.session_id.clone(), update))
        };
        let said = session.play(&text.unwrap_or_default(), &say).await?;
        say(said)?;
        Ok(PromptResponse::new(StopReason::EndTurn))
    }
}
