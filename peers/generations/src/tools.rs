//! The proxy with an MCP server (see `peers/README.md`) on an older SDK. `crate::sdk` is the SDK, whichever it is.

use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::compat::{TokioAsyncReadCompatExt, TokioAsyncWriteCompatExt};

// All of it: in most SDKs a trait makes the builder, in 0.11 there is no such trait.
use crate::sdk::mcp_server::*;
use crate::sdk::{ByteStreams, Error, Proxy, tool_fn};

#[derive(Deserialize, JsonSchema)]
struct Echo {
    message: String,
}

#[derive(Deserialize, JsonSchema)]
struct Fail {}

pub async fn run() -> Result<(), Error> {
    let stdio = ByteStreams::new(tokio::io::stdout().compat_write(), tokio::io::stdin().compat());
    let tools = McpServer::builder("tools")
        .instructions("echo says it again, fail fails")
        .tool_fn("echo", "Says the message", async |it: Echo, _| Ok(it.message), tool_fn!())
        .tool_fn(
            "fail",
            "Fails",
            async |_: Fail, _| Err::<String, _>(Error::internal_error().data("it failed")),
            tool_fn!(),
        )
        .build();
    Proxy.builder().with_mcp_server(tools).connect_to(stdio).await
}
