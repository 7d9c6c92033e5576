//! The smallest proxy. It passes every message unchanged.
//!
//! `conductor agent example-hello my-agent`

fn main() -> std::io::Result<()> {
    acp_proxy::Proxy::new("hello").run()
}
