//! A proxy on our own SDK that passes everything on.

struct Transparent;
impl sdk::Proxy for Transparent {}

fn main() -> std::io::Result<()> {
    sdk::stdio::run(Transparent)
}
