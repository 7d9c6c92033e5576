//! The proxy of the interop story on crate `sacp-proxy` 3, dialect P3. An SDK of another make: no roles, and
//! the successor has verbs of its own.

use sacp_2::schema::{
    ContentBlock, PromptRequest, SessionNotification, SessionUpdate, TextContent,
};
use sacp_2::{ByteStreams, Error, JrHandlerChain};
use sacp_proxy_3::{AcpProxyExt, JrCxExt};
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let stdio = ByteStreams::new(tokio::io::stdout().compat_write(), tokio::io::stdin().compat());
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mark = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => return JrHandlerChain::new().proxy().connect_to(stdio)?.serve().await,
        ["--mark", mark] => mark.to_owned(),
        _ => return Err(Error::invalid_params().with_data("usage: proxy [--mark TEXT]")),
    };
    let prefix = format!("{mark}:");
    JrHandlerChain::new()
        .on_receive_request(async move |mut request: PromptRequest, responder| {
            request.prompt.push(ContentBlock::Text(TextContent {
                annotations: None,
                text: mark.clone(),
                meta: None,
            }));
            let connection = responder.connection_cx();
            connection.send_request_to_successor(request).forward_to_request_cx(responder)
        })
        .on_receive_notification_from_successor(
            async move |mut note: SessionNotification, connection: sacp_2::JrConnectionCx| {
                if let SessionUpdate::AgentMessageChunk(chunk) = &mut note.update
                    && let ContentBlock::Text(it) = &mut chunk.content
                {
                    it.text.insert_str(0, &prefix);
                }
                connection.send_notification(note)
            },
        )
        .proxy()
        .connect_to(stdio)?
        .serve()
        .await
}
