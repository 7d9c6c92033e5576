//! The proxy of crate `sparkle-mcp` 0.7 (dialect P4a), which offers MCP tools: `sparkle-mcp --acp` without its log.

use sacp_10::{Component, Error};
use sacp_tokio_10::Stdio;
use sparkle_0_7::{SparkleComponent, SparkleMode};

#[tokio::main]
async fn main() -> Result<(), Error> {
    SparkleComponent::new(SparkleMode::Full).serve(Stdio::new()).await
}
