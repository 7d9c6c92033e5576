//! The proxy of crate `sparkle-mcp` 0.1 (dialect P3), which offers MCP tools: `sparkle-mcp --acp` without its log.

use sacp_2::{Component, Error};
use sacp_tokio_2::Stdio;
use sparkle_0_1::SparkleComponent;

#[tokio::main]
async fn main() -> Result<(), Error> {
    SparkleComponent::new().serve(Stdio::new()).await
}
