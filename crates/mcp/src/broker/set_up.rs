//! Requests that set a session up: whose servers are in them, and how the next one reads them.

use acp_wire::{Call, Generation, Id, LinkProtocol, Message, Outcome, Side};

use super::{Broker, Cx, Hop, Step};
use crate::bridge::without_id;
use crate::declaration::{Manner, Offer, Servers, Spelling};

/// The dialect of components that take servers with the transport acp.
const CURRENT: LinkProtocol = LinkProtocol::Generation(Generation::P5);

impl Broker {
    /// A set-up request on its way to the agent.
    pub(super) fn on_set_up(&mut self, id: Id, call: Call, cx: &mut Cx<'_>) -> Option<Message> {
        let call = self.registry.without_lost(call);
        let Some(servers) = call.params.as_ref().and_then(Servers::find) else {
            return Some(Message::Request { id, call });
        };
        if !servers.has_offers() {
            return Some(Message::Request { id, call });
        }
        let registry = &self.registry;
        match self.bridge.set_up(&call, servers, |id| registry.is_scp(id), cx) {
            Ok(draft) => self.place(id, draft, cx),
            Err(outcome) => {
                let message = Message::response(id, outcome);
                cx.out.push(Step::Inject { from: self.far, toward: Side::Editor, message });
                None
            }
        }
    }

    /// A set-up request on its way to a proxy, or beyond us.
    pub(super) fn pass_set_up(
        &mut self,
        hop: Hop,
        to_agent: bool,
        id: &Id,
        call: &mut Call,
    ) -> Result<(), Outcome> {
        let found = call.params.as_ref().and_then(Servers::find).filter(Servers::has_offers);
        let Some(servers) = found else { return Ok(()) };
        let offers: Vec<&Offer> =
            servers.entries().iter().filter_map(|entry| entry.offer.as_ref()).collect();
        // Older components choke on the transport, and without an id there is no other spelling.
        let nameless = |it: &&&Offer| it.spelling == Spelling::Nameless && hop.dialect != CURRENT;
        if let Some(offer) = offers.iter().find(nameless) {
            return Err(without_id(&offer.name));
        }
        if !to_agent {
            let ids = offers.iter().map(|offer| offer.id.clone()).collect();
            self.registry.passes(hop.seat, id, ids);
        }
        in_transit(hop.dialect, servers, call);
        Ok(())
    }
}

/// Spells servers in a way that the next component understands, or at least passes on.
fn in_transit(dialect: LinkProtocol, mut servers: Servers, call: &mut Call) {
    let Some(params) = &call.params else { return };
    let current = dialect == CURRENT;
    let mut edited = false;
    for entry in servers.entries_mut() {
        let Some(offer) = entry.offer.clone() else { continue };
        let manner = match (current, offer.spelling) {
            (true, Spelling::ServerId) | (false, Spelling::Url) | (_, Spelling::Nameless) => {
                continue;
            }
            (true, _) => Manner::ServerId,
            (false, _) => Manner::Url,
        };
        entry.respell(&offer.name, &offer.id, &manner);
        edited = true;
    }
    if edited {
        call.params = Some(servers.write(params));
    }
}
