//! The smallest proxy: it passes everything on. Put it into a chain and nothing changes.
//!
//! `conductor agent example-hello my-agent`

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::io::Result<()> {
    acp_proxy::Proxy::new("hello").serve_stdio().await
}
