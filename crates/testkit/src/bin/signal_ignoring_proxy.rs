//! A pass-through proxy that ignores signals and the end of its input. Only SIGKILL ends it.

struct IgnoresSignals;
impl acp_proxy_core::Proxy for IgnoresSignals {}

fn main() -> std::io::Result<()> {
    for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
        // SAFETY: sets the disposition of a signal.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    acp_proxy_core::stdio::run(IgnoresSignals)?;
    loop {
        std::thread::park();
    }
}
