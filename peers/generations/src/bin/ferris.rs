//! The proxy of crate `symposium-ferris` 1.0 (dialect P4a), which offers MCP tools about Rust crates.

use ferris::FerrisComponent;
use sacp_10::{Component, Error};
use sacp_tokio_10::Stdio;

#[tokio::main]
async fn main() -> Result<(), Error> {
    FerrisComponent::default().serve(Stdio::new()).await
}
