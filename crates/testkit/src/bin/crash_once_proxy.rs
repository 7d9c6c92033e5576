//! A proxy that passes everything on and is killed once: `mortal FILE METHOD` dies of the first
//! notification with that method, unless there is the file, which it makes then.

use acp_proxy_core::{Call, Outbox, Proxy, Side};

struct Mortal {
    file: String,
    method: String,
}

impl Proxy for Mortal {
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
        return Err(std::io::Error::other("usage: mortal FILE METHOD"));
    };
    acp_proxy_core::stdio::run(Mortal { file, method })
}
