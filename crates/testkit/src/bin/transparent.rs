//! A pass-through proxy on `acp-proxy-core`.

struct Transparent;
impl acp_proxy_core::Proxy for Transparent {}

fn main() -> std::io::Result<()> {
    acp_proxy_core::stdio::run(Transparent)
}
