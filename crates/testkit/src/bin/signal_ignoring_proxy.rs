//! A proxy that passes everything on and that only SIGKILL ends.

struct Stubborn;
impl acp_proxy_core::Proxy for Stubborn {}

fn main() -> std::io::Result<()> {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        // SAFETY: sets the disposition of a signal.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    acp_proxy_core::stdio::run(Stubborn)?;
    loop {
        std::thread::park();
    }
}
