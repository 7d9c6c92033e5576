//! The proxy of crate `sparkle-mcp` 0.7 (dialect P4a), which offers MCP tools: `sparkle_0_7 [core]` is
//! `sparkle-mcp --acp [--mode core]` without its log.

use sacp_10::{Component, Error};
use sacp_tokio_10::Stdio;
use sparkle_0_7::{SparkleComponent, SparkleMode};

#[tokio::main]
async fn main() -> Result<(), Error> {
    let mode = match std::env::args().nth(1) {
        // Keeps no diary in the workspace, which would become one more prompt of the next session.
        Some(mode) if mode == "core" => SparkleMode::Core,
        _ => SparkleMode::Full,
    };
    SparkleComponent::new(mode).serve(Stdio::new()).await
}
