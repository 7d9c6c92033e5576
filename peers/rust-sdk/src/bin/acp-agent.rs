//! The agent of the interop story (see `peers/README.md`) on the official Rust SDK.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    CancelNotification, ContentBlock, ContentChunk, Implementation, InitializeRequest,
    InitializeResponse, NewSessionRequest, NewSessionResponse, PermissionOption,
    PermissionOptionKind, PromptRequest, PromptResponse, ReadTextFileRequest,
    RequestPermissionOutcome, RequestPermissionRequest, SessionId, SessionNotification,
    SessionUpdate, StopReason, ToolCall, ToolCallUpdate, ToolCallUpdateFields,
};
use agent_client_protocol::{
    Agent, Client, Error, Result, Stdio, on_receive_notification, on_receive_request,
};
use tokio::sync::Notify;

struct Session {
    cwd: PathBuf,
    cancelled: Arc<Notify>,
}

type Sessions = Arc<Mutex<HashMap<SessionId, Session>>>;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let sessions = Sessions::default();
    let (opened, prompted, cancelled) = (sessions.clone(), sessions.clone(), sessions);
    Agent
        .v1()
        .on_receive_request(
            async |_: InitializeRequest, responder, _| {
                responder.respond(
                    InitializeResponse::new(ProtocolVersion::V1)
                        .agent_info(Implementation::new("rust-agent", "1")),
                )
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: NewSessionRequest, responder, _| {
                let mut sessions = opened.lock().expect("no panic while locked");
                let id = SessionId::new(format!("rust-session-{}", sessions.len() + 1));
                let session = Session { cwd: request.cwd, cancelled: Arc::default() };
                sessions.insert(id.clone(), session);
                responder.respond(NewSessionResponse::new(id))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: PromptRequest, responder, connection: ConnectionTo<Client>| {
                let (cwd, cancelled) = {
                    let sessions = prompted.lock().expect("no panic while locked");
                    let session =
                        sessions.get(&request.session_id).ok_or_else(Error::invalid_params)?;
                    (session.cwd.clone(), session.cancelled.clone())
                };
                // A turn asks the editor things. Waiting for that in a handler would hold the
                // loop that brings the answers.
                let turn = Turn { session: request.session_id, connection: connection.clone() };
                connection.spawn(async move {
                    responder.respond_with_result(
                        turn.play(texts(request.prompt), cwd, cancelled)
                            .await
                            .map(PromptResponse::new),
                    )
                })
            },
            on_receive_request!(),
        )
        .on_receive_notification(
            async move |note: CancelNotification, _| {
                if let Some(session) =
                    cancelled.lock().expect("no panic while locked").get(&note.session_id)
                {
                    session.cancelled.notify_one();
                }
                Ok(())
            },
            on_receive_notification!(),
        )
        .connect_to(Stdio::new())
        .await
}

struct Turn {
    session: SessionId,
    connection: ConnectionTo<Client>,
}

impl Turn {
    async fn play(
        &self,
        heard: Vec<String>,
        cwd: PathBuf,
        cancelled: Arc<Notify>,
    ) -> Result<StopReason> {
        match heard.first().map(String::as_str) {
            Some("wait") => {
                self.say("waiting")?;
                cancelled.notified().await;
                Ok(StopReason::Cancelled)
            }
            Some(words) => {
                let count = words
                    .strip_prefix("count to ")
                    .and_then(|number| number.parse().ok())
                    .ok_or_else(Error::invalid_params)?;
                self.count(count, &heard, cwd).await?;
                Ok(StopReason::EndTurn)
            }
            None => Err(Error::invalid_params()),
        }
    }

    async fn count(&self, count: u32, heard: &[String], cwd: PathBuf) -> Result<()> {
        self.say(format!("heard {}", heard.join(" ")))?;
        for number in 1..=count {
            self.say(number.to_string())?;
        }
        self.update(SessionUpdate::ToolCall(ToolCall::new("call-1", "Read peer.txt")))?;

        let permission = RequestPermissionRequest::new(
            self.session.clone(),
            ToolCallUpdate::new("call-1", ToolCallUpdateFields::new()),
            vec![
                PermissionOption::new("allow", "Allow", PermissionOptionKind::AllowOnce),
                PermissionOption::new("reject", "Reject", PermissionOptionKind::RejectOnce),
            ],
        );
        let permission = self.connection.send_request(permission).block_task().await?;
        self.say(match permission.outcome {
            RequestPermissionOutcome::Selected(it) => format!("permission {}", it.option_id),
            _ => "permission none".to_owned(),
        })?;

        let file = ReadTextFileRequest::new(self.session.clone(), cwd.join("peer.txt"));
        let file = self.connection.send_request(file).block_task().await?;
        self.say(format!("file {}", file.content))
    }

    fn say(&self, text: impl Into<String>) -> Result<()> {
        let text = ContentBlock::from(text.into());
        self.update(SessionUpdate::AgentMessageChunk(ContentChunk::new(text)))
    }

    fn update(&self, update: SessionUpdate) -> Result<()> {
        self.connection.send_notification(SessionNotification::new(self.session.clone(), update))
    }
}

fn texts(prompt: Vec<ContentBlock>) -> Vec<String> {
    prompt
        .into_iter()
        .filter_map(|block| match block {
            ContentBlock::Text(it) => Some(it.text),
            _ => None,
        })
        .collect()
}
