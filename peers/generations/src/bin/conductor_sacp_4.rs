//! The conductor of crate `sacp-conductor` 4, dialect P3, with the arguments that it has when installed.

use clap::Parser;
use conductor_sacp_4::ConductorArgs;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    ConductorArgs::parse().main().await
}
