//! The conductor of crate `sacp-conductor` 5, dialect P4a, with the arguments that it has when installed.

use clap::Parser;
use conductor_sacp_5::ConductorArgs;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    ConductorArgs::parse().main().await
}
