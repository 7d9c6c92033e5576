//! The proxy with an MCP server on crate `agent-client-protocol` 0.11: dialects P4a and M3.

#[path = "../tools.rs"]
mod tools;

mod sdk {
    pub use acp_0_11::*;
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), sdk::Error> {
    tools::run().await
}
