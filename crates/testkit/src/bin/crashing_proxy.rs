//! A pass-through proxy that exits with status 1 on each notification of one kind: `crashing_proxy METHOD`, or
//! `crashing_proxy KIND` for a kind of `session/update`.

use acp_proxy_core::{Call, Outbox, Proxy, Side};

struct CrashOnMessage(String);

impl Proxy for CrashOnMessage {
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
        Some(kind) => acp_proxy_core::stdio::run(CrashOnMessage(kind)),
        None => Err(std::io::Error::other("usage: crashing_proxy METHOD|KIND")),
    }
}
