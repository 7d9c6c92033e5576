//! The editor of the interop story (see `peers/README.md`) on the official Rust SDK:
//! `acp-editor -- COMMAND ARGUMENT…`

use std::sync::{Arc, Mutex};

use agent_client_protocol::schema::ProtocolVersion;
use agent_client_protocol::v1::ConnectionTo;
use agent_client_protocol::v1::schema::{
    CancelNotification, ClientCapabilities, ContentBlock, FileSystemCapabilities,
    InitializeRequest, NewSessionRequest, PromptRequest, ReadTextFileRequest, ReadTextFileResponse,
    RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
    SelectedPermissionOutcome, SessionId, SessionNotification,
};
use agent_client_protocol::{
    AcpAgent, AcpAgentConfig, Agent, Client, Error, LineDirection, Result, on_receive_notification,
    on_receive_request,
};
use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot};

/// What came from the agent. The SDK runs one handler at a time, in the order of arrival.
#[derive(Clone, Default)]
struct Notes(Arc<Mutex<Vec<Value>>>);

impl Notes {
    fn add(&self, event: Value) {
        self.0.lock().expect("no panic while locked").push(event);
    }

    fn all(&self) -> Vec<Value> {
        self.0.lock().expect("no panic while locked").clone()
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let (Some("--"), Some(command)) = (arguments.next().as_deref(), arguments.next()) else {
        return Err(Error::invalid_params().data("usage: acp-editor -- COMMAND ARGUMENT…"));
    };
    let agent = AcpAgent::new(AcpAgentConfig::new(command).args(arguments)).with_debug(
        |line, direction| {
            if direction == LineDirection::Stderr {
                eprintln!("{line}");
            }
        },
    );

    let notes = Notes::default();
    let (updates, permissions, files) = (notes.clone(), notes.clone(), notes.clone());
    let waiting = Arc::new(Notify::new());
    let said_waiting = waiting.clone();
    let summary = Client
        .v1()
        .on_receive_notification(
            async move |note: SessionNotification, _| {
                let update =
                    serde_json::to_value(note.update).map_err(Error::into_internal_error)?;
                let mut event = json!({ "update": update["sessionUpdate"] });
                if let Some(text) = update["content"]["text"].as_str() {
                    event["text"] = text.into();
                    // A marking proxy may have written something before the word.
                    if text.ends_with("waiting") {
                        said_waiting.notify_one();
                    }
                }
                updates.add(event);
                Ok(())
            },
            on_receive_notification!(),
        )
        .on_receive_request(
            async move |request: RequestPermissionRequest, responder, _| {
                permissions.add(json!({ "asked": "session/request_permission" }));
                let first = request.options.first().ok_or_else(Error::invalid_params)?;
                responder.respond(RequestPermissionResponse::new(
                    RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(
                        first.option_id.clone(),
                    )),
                ))
            },
            on_receive_request!(),
        )
        .on_receive_request(
            async move |request: ReadTextFileRequest, responder, _| {
                files.add(json!({ "asked": "fs/read_text_file" }));
                let words = format!("words of {}", request.path.display());
                responder.respond(ReadTextFileResponse::new(words))
            },
            on_receive_request!(),
        )
        .connect_with(agent, async |connection| converse(connection, &notes, &waiting).await)
        .await?;
    println!("{summary}");
    Ok(())
}

async fn converse(
    connection: ConnectionTo<Agent>,
    notes: &Notes,
    waiting: &Notify,
) -> Result<Value> {
    let can_read = ClientCapabilities::new().fs(FileSystemCapabilities::new().read_text_file(true));
    let greeting = connection
        .send_request(InitializeRequest::new(ProtocolVersion::V1).client_capabilities(can_read))
        .block_task()
        .await?;
    let cwd = std::env::current_dir().map_err(Error::into_internal_error)?;
    let session =
        connection.send_request(NewSessionRequest::new(cwd)).block_task().await?.session_id;

    prompt(&connection, &session, "count to 50", notes)?
        .await
        .map_err(Error::into_internal_error)?;
    let waited = prompt(&connection, &session, "wait", notes)?;
    waiting.notified().await;
    connection.send_notification(CancelNotification::new(session))?;
    waited.await.map_err(Error::into_internal_error)?;

    let events = notes.all();
    let answered: Vec<&Value> = events.iter().filter_map(|it| it.get("asked")).collect();
    let updates = events.iter().filter(|it| it.get("update").is_some());
    Ok(json!({
        "protocolVersion": greeting.protocol_version,
        "agent": greeting.agent_info.map(|it| it.name),
        // The SDK calls no handler with what it cannot parse.
        "understood": updates.count(),
        "answered": answered,
        "events": events,
    }))
}

/// Sends a prompt; the receiver hears when the answer has been noted.
///
/// Prepared with a callback, not awaited: only so is the answer noted in its place among the updates.
fn prompt(
    connection: &ConnectionTo<Agent>,
    session: &SessionId,
    words: &str,
    notes: &Notes,
) -> Result<oneshot::Receiver<()>> {
    let (done, answered) = oneshot::channel();
    let notes = notes.clone();
    connection
        .prepare_request(PromptRequest::new(session.clone(), vec![ContentBlock::from(words)]))
        .on_receiving_result(async move |result| {
            notes.add(match result {
                Ok(response) => json!({ "answer": response.stop_reason }),
                Err(error) => json!({ "error": error.to_string() }),
            });
            let _ = done.send(());
            Ok(())
        })?;
    Ok(answered)
}
