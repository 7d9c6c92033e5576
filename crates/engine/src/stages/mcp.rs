//! The stage *mcp*: runs the MCP broker (crate `mcp`).

use acp_wire::{LinkProtocol, Message};
use mcp::{Action, Broker};
use router::{Seat, Time};

use super::{Context, Hop, Stage, StageResult, Stages};
use crate::input::Output;

/// The MCP broker, and the protocol of each link, which the broker needs to know.
#[derive(Debug)]
pub(super) struct Mcp {
    /// `None` if the chain does not need it.
    broker: Option<Broker>,
    /// The protocol of the link of each seat, by index.
    dialects: Vec<LinkProtocol>,
}

impl Mcp {
    pub(super) fn new(count: usize, broker: Option<Broker>) -> Mcp {
        Mcp { broker, dialects: vec![LinkProtocol::Unknown; count + 1] }
    }

    /// Makes room for this many components.
    pub(super) fn fill(&mut self, count: usize) {
        self.dialects.resize(count + 1, LinkProtocol::Unknown);
    }

    pub(super) fn broker(&self) -> Option<&Broker> {
        self.broker.as_ref()
    }

    pub(super) fn deadline(&self) -> Option<Time> {
        self.broker.as_ref().and_then(Broker::deadline)
    }

    /// Sets the protocol of the link of a seat. Returns whether it has changed.
    pub(super) fn set_dialect(&mut self, seat: Seat, protocol: LinkProtocol) -> bool {
        std::mem::replace(&mut self.dialects[seat.index()], protocol) != protocol
    }

    /// The protocol of the link of a seat.
    pub(super) fn dialect(&self, seat: Seat) -> LinkProtocol {
        self.dialects.get(seat.index()).copied().unwrap_or(LinkProtocol::Unknown)
    }

    fn hop(&self, Hop { seat, toward }: Hop) -> mcp::Hop {
        mcp::Hop { seat, toward, protocol: self.dialects[seat.index()] }
    }

    pub(super) fn arrived(
        &mut self,
        cx: &Context,
        hop: Hop,
        message: &mut Message,
        actions: &mut Vec<Action>,
    ) -> StageResult {
        let hop = self.hop(hop);
        let Some(broker) = self.broker.as_mut().filter(|it| it.is_relevant(message)) else {
            return StageResult::Pass;
        };
        let mut cx = mcp::Context { now: cx.now, out: actions };
        let passed = broker.arrived(hop, super::take(message), &mut cx);
        put_back(message, passed)
    }

    pub(super) fn delivered(
        &mut self,
        cx: &Context,
        hop: Hop,
        message: &mut Message,
        actions: &mut Vec<Action>,
    ) -> StageResult {
        let hop = self.hop(hop);
        let relevant = |it: &&mut Broker| it.is_relevant_delivery(hop.seat, message);
        let Some(broker) = self.broker.as_mut().filter(relevant) else { return StageResult::Pass };
        let mut cx = mcp::Context { now: cx.now, out: actions };
        let passed = broker.deliver(hop, super::take(message), &mut cx);
        put_back(message, passed)
    }
}

/// Puts back the message that the broker has passed on. `None`: the broker has taken it.
fn put_back(message: &mut Message, passed: Option<Message>) -> StageResult {
    match passed {
        Some(passed) => {
            *message = passed;
            StageResult::Pass
        }
        None => StageResult::Taken,
    }
}

impl Stages {
    /// Calls the broker, if the chain has one, and performs its actions.
    pub(super) fn with_broker(&mut self, act: impl FnOnce(&mut Broker, &mut mcp::Context<'_>)) {
        if let Some(broker) = &mut self.mcp.broker {
            let mut actions = Vec::new();
            act(broker, &mut mcp::Context { now: self.cx.now, out: &mut actions });
            self.perform(actions);
        }
    }

    /// Performs the actions of the broker. Its messages start at the stage mcp.
    pub(super) fn perform(&mut self, actions: Vec<Action>) {
        for action in actions {
            match action {
                Action::Inject { from, toward, message } => {
                    self.inject(Stage::Mcp, Hop { seat: from, toward }, message);
                }
                Action::Deliver { to, toward, message } => {
                    self.send_from(Stage::Mcp, Hop { seat: to, toward }, message);
                }
                Action::SendToClient { client_id, message } => {
                    self.cx.push(Output::SendToClient { client_id, message })
                }
                Action::DisconnectClient(client_id) => {
                    self.cx.push(Output::DisconnectClient(client_id))
                }
                Action::OpenEndpoint { ticket, transport } => {
                    self.cx.push(Output::OpenEndpoint { ticket, transport })
                }
                Action::RevokeTicket(ticket) => self.cx.push(Output::RevokeTicket(ticket)),
                Action::Report(diagnostic) => self.cx.push(Output::Report(diagnostic)),
            }
        }
    }
}
