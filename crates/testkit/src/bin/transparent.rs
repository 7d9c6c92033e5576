//! A proxy on our own SDK that passes everything on.

struct Transparent;
impl driver::Proxy for Transparent {}

fn main() -> std::io::Result<()> {
    driver::stdio::run(Transparent)
}
