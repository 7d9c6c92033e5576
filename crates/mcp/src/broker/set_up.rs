//! Delivery of set-up requests: how their servers are declared to the next component.

use acp_wire::{Call, Generation, Id, LinkProtocol, Message, Outcome, Side};

use super::{Action, Broker, Context, Hop};
use crate::bridge::missing_id_error;
use crate::declaration::{AcpServer, DeclareAs, ServerList, Syntax};

/// The link protocol of components that accept servers with the transport `acp`.
const CURRENT: LinkProtocol = LinkProtocol::Generation(Generation::P5);

impl Broker {
    /// Handles a set-up request that is delivered to the agent.
    pub(super) fn on_set_up_for_agent(
        &mut self,
        id: Id,
        call: Call,
        cx: &mut Context<'_>,
    ) -> Option<Message> {
        let call = self.registry.without_lost_servers(call);
        let Some(servers) = call.params.as_ref().and_then(ServerList::find) else {
            return Some(Message::Request { id, call });
        };
        if !servers.has_acp_servers() {
            return Some(Message::Request { id, call });
        }
        let registry = &self.registry;
        match self.bridge.draft_set_up(&call, servers, |id| registry.is_scp(id), cx) {
            Ok(draft) => self.send_set_up(id, draft, cx),
            Err(outcome) => {
                let message = Message::response(id, outcome);
                cx.out.push(Action::Inject {
                    from: self.agent_seat,
                    toward: Side::Editor,
                    message,
                });
                None
            }
        }
    }

    /// Handles a set-up request that is delivered to a proxy, or to the outer conductor. Rewrites its
    /// servers for that component, or returns an error if that is not possible.
    pub(super) fn pass_set_up(
        &mut self,
        hop: Hop,
        to_agent: bool,
        id: &Id,
        call: &mut Call,
    ) -> Result<(), Outcome> {
        let found =
            call.params.as_ref().and_then(ServerList::find).filter(ServerList::has_acp_servers);
        let Some(servers) = found else { return Ok(()) };
        let acp_servers: Vec<&AcpServer> =
            servers.entries().iter().filter_map(|entry| entry.acp_server.as_ref()).collect();
        // Older components cannot read this transport, and a server without an id has no other
        // syntax.
        let is_unsupported =
            |it: &&&AcpServer| it.syntax == Syntax::MissingId && hop.protocol != CURRENT;
        if let Some(acp_server) = acp_servers.iter().find(is_unsupported) {
            return Err(missing_id_error(&acp_server.name));
        }
        if !to_agent {
            let ids = acp_servers.iter().map(|acp_server| acp_server.id.clone()).collect();
            self.registry.track_proxy_set_up(hop.seat, id, ids);
        }
        rewrite_in_transit(hop.protocol, servers, call);
        Ok(())
    }
}

/// Rewrites the servers in a syntax that the next component understands, or at least passes on.
fn rewrite_in_transit(protocol: LinkProtocol, mut servers: ServerList, call: &mut Call) {
    let Some(params) = &call.params else { return };
    let current = protocol == CURRENT;
    let mut edited = false;
    for entry in servers.entries_mut() {
        let Some(acp_server) = entry.acp_server.clone() else { continue };
        let declare_as = match (current, acp_server.syntax) {
            (true, Syntax::ServerId) | (false, Syntax::Url) | (_, Syntax::MissingId) => {
                continue;
            }
            (true, _) => DeclareAs::ServerId,
            (false, _) => DeclareAs::Url,
        };
        entry.rewrite(&acp_server.name, &acp_server.id, &declare_as);
        edited = true;
    }
    if edited {
        call.params = Some(servers.write(params));
    }
}
