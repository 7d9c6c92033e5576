//! The conductor of crate `sacp-conductor` 11, dialect P4a, with the arguments that it has when installed.

use clap::Parser;
use conductor_sacp_11::ConductorArgs;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    ConductorArgs::parse().main().await
}
