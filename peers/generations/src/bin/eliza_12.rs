//! The agent of crate `elizacp` 12, as `elizacp --deterministic acp` without its log.

use eliza_12::ElizaAgent;
use sacp_11::{ConnectTo, Error};
use sacp_tokio_11::Stdio;

#[tokio::main]
async fn main() -> Result<(), Error> {
    let deterministic = true;
    ElizaAgent::new(deterministic).connect_to(Stdio::new()).await
}
