//! A proxy that passes everything on but one kind of message, on which it ends with status 1:
//! `picky METHOD`, or `picky KIND` for a kind of `session/update`.

use acp_proxy_core::{Call, Outbox, Proxy, Side};

struct Picky(String);

impl Proxy for Picky {
    fn on_notification(&mut self, from: Side, call: Call, out: &mut Outbox<'_>) {
        let kind = call.params.as_ref().and_then(acp_wire::dialect::updates::update_kind);
        if call.is(&self.0) || kind.is_some_and(|kind| kind.equals_text(&self.0)) {
            std::process::exit(1);
        }
        out.notify(from.opposite(), call);
    }
}

fn main() -> std::io::Result<()> {
    match std::env::args().nth(1) {
        Some(kind) => acp_proxy_core::stdio::run(Picky(kind)),
        None => Err(std::io::Error::other("usage: picky METHOD|KIND")),
    }
}
