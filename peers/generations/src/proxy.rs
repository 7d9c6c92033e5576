//! The proxy of the interop story (see `peers/README.md`) on an older SDK: passes everything on, and with
//! `--mark TEXT` leaves its mark on prompts and chunks. `crate::sdk` is the SDK, whichever it is.

use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

use crate::sdk::schema::{ContentBlock, PromptRequest, SessionNotification, SessionUpdate};
use crate::sdk::{
    Agent, ByteStreams, Client, Error, Proxy, on_receive_notification, on_receive_request,
};

pub async fn run() -> Result<(), Error> {
    let stdio = ByteStreams::new(tokio::io::stdout().compat_write(), tokio::io::stdin().compat());
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mark = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => return Proxy.builder().connect_to(stdio).await,
        ["--mark", mark] => mark.to_owned(),
        _ => return Err(Error::invalid_params().data("usage: proxy [--mark TEXT]")),
    };
    let prefix = format!("{mark}:");
    Proxy
        .builder()
        .on_receive_request_from(
            Client,
            async move |mut request: PromptRequest, responder, connection| {
                request.prompt.push(ContentBlock::from(mark.clone()));
                connection.send_request_to(Agent, request).forward_response_to(responder)
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
        .connect_to(stdio)
        .await
}
