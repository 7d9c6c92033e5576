//! The conductor of crate `agent-client-protocol-conductor` 3.6, dialect P4b, with the arguments that it has when installed.

use clap::Parser;
use conductor_3_6::ConductorArgs;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    ConductorArgs::parse().main().await
}
