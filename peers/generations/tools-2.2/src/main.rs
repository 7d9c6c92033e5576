//! The proxy with an MCP server on crate `agent-client-protocol` 2.2: dialects P4b and M6.

#[path = "../../src/tools.rs"]
mod tools;

mod sdk {
    pub use agent_client_protocol::*;
    pub mod mcp_server {
        pub use agent_client_protocol::mcp_server::*;
        pub use agent_client_protocol_rmcp::McpServerExt;
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), sdk::Error> {
    tools::run().await
}
