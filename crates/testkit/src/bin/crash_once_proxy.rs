//! A pass-through proxy that crashes once: `crash_once_proxy FILE METHOD` creates the file and kills itself at the first
//! notification with that method. If the file exists, it does not crash.

use acp_proxy_core::{Call, Outbox, Proxy, Side};

struct CrashOnce {
    file: String,
    method: String,
}

impl Proxy for CrashOnce {
    fn on_notification(&mut self, from: Side, call: Call, out: &mut Outbox<'_>) {
        if call.is(&self.method) && std::fs::File::create_new(&self.file).is_ok() {
            // SAFETY: ends this process.
            unsafe { libc::raise(libc::SIGKILL) };
        }
        out.notify(from.opposite(), call);
    }
}

fn main() -> std::io::Result<()> {
    let mut words = std::env::args().skip(1);
    let (Some(file), Some(method)) = (words.next(), words.next()) else {
        return Err(std::io::Error::other("usage: crash_once_proxy FILE METHOD"));
    };
    acp_proxy_core::stdio::run(CrashOnce { file, method })
}
