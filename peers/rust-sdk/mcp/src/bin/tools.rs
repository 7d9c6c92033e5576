//! The proxy with an MCP server (see `peers/README.md`) on crate `agent-client-protocol` 5.0: dialects P5 and M7.

use agent_client_protocol::mcp_server::McpServer;
use agent_client_protocol::{Error, Proxy, Result, Stdio, tool_fn};
use agent_client_protocol_rmcp::rmcp_3::McpServerExt;
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Echo {
    message: String,
}

#[derive(Deserialize, JsonSchema)]
struct Fail {}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
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
    Proxy.v1().with_mcp_server(tools).connect_to(Stdio::new()).await
}
