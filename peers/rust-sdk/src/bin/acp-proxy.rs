//! The proxy of the interop story (see `peers/README.md`) on the official Rust SDK:
//! `acp-proxy` passes everything on, `acp-proxy --mark TEXT` leaves its mark on prompts and chunks.

use agent_client_protocol::v1::schema::{
    ContentBlock, PromptRequest, SessionNotification, SessionUpdate,
};
use agent_client_protocol::{
    Agent, Client, Error, Proxy, Result, Stdio, on_receive_notification, on_receive_request,
};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => Proxy.v1().connect_to(Stdio::new()).await,
        ["--mark", mark] => marking(mark.to_owned()).await,
        _ => Err(Error::invalid_params().data("usage: acp-proxy [--mark TEXT]")),
    }
}

async fn marking(mark: String) -> Result<()> {
    let prefix = format!("{mark}:");
    Proxy
        .v1()
        .on_receive_request_from(
            Client,
            async move |mut request: PromptRequest, responder, connection| {
                request.prompt.push(ContentBlock::from(mark.clone()));
                // Prepared, not sent at once: only so does the SDK keep the answer behind the
                // updates that came before it.
                connection.prepare_request_to(Agent, request).forward_response_to(responder)
            },
            on_receive_request!(),
        )
        .on_receive_notification_from(
            Agent,
            async move |mut note: SessionNotification, connection| {
                if let SessionUpdate::AgentMessageChunk(chunk) = &mut note.update
                    && let ContentBlock::Text(it) = &mut chunk.content
                {
                    it.text.insert_str(0, &prefix);
                }
                connection.send_notification_to(Client, note)
            },
            on_receive_notification!(),
        )
        .connect_to(Stdio::new())
        .await
}
