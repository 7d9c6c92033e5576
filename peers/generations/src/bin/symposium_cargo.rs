//! The proxy of crate `symposium-cargo` 0.2 (dialect P4a), which offers Cargo's commands as MCP tools.

use sacp_10::{Component, Error};
use sacp_tokio_10::Stdio;
use symposium_cargo_0_2::CargoProxy;
use tracing_subscriber::EnvFilter;

#[tokio::main]
async fn main() -> Result<(), Error> {
    // As published: its log goes to standard output, between the messages.
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).init();
    CargoProxy.serve(Stdio::new()).await
}
