//! The proxy with an MCP server on crate `sacp` 11: dialects P4a and M3.

#[path = "../tools.rs"]
mod tools;

mod sdk {
    pub use sacp_11::*;
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), sdk::Error> {
    tools::run().await
}
