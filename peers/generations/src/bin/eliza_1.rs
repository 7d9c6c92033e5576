//! The agent of crate `elizacp` 1, as `elizacp` without its log.

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    Ok(eliza_1::run_elizacp(sacp_tokio_1::Stdio).await?)
}
