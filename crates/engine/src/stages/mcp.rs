//! MCP over ACP: the exchange (crate `mcp`) as a stage.

use acp_wire::{Message, Spoken};
use mcp::{Exchange, Step};
use router::{Seat, Time};

use super::{Cx, Flow, Hop, Stage, Stages};
use crate::input::Output;

#[derive(Debug)]
pub(super) struct Mcp {
    /// `None` in a chain that has no use for it.
    exchange: Option<Exchange>,
    /// By seat: what is spoken there.
    dialects: Vec<Spoken>,
}

impl Mcp {
    pub fn new(count: usize, exchange: Option<Exchange>) -> Mcp {
        Mcp { exchange, dialects: vec![Spoken::Unknown; count + 1] }
    }

    pub fn exchange(&self) -> Option<&Exchange> {
        self.exchange.as_ref()
    }

    pub fn deadline(&self) -> Option<Time> {
        self.exchange.as_ref().and_then(Exchange::deadline)
    }

    /// Notes what is spoken in a seat. Says whether that is new.
    pub fn set_dialect(&mut self, seat: Seat, spoken: Spoken) -> bool {
        std::mem::replace(&mut self.dialects[seat.index()], spoken) != spoken
    }

    fn hop(&self, Hop { seat, toward }: Hop) -> mcp::Hop {
        mcp::Hop { seat, toward, dialect: self.dialects[seat.index()] }
    }

    pub fn arrived(
        &mut self,
        cx: &Cx,
        hop: Hop,
        message: &mut Message,
        steps: &mut Vec<Step>,
    ) -> Flow {
        let hop = self.hop(hop);
        let Some(exchange) = self.exchange.as_mut().filter(|it| it.minds(message)) else {
            return Flow::Pass;
        };
        let mut cx = mcp::Cx { now: cx.now, out: steps };
        let left = exchange.arrived(hop, super::take(message), &mut cx);
        pass(message, left)
    }

    pub fn delivered(
        &mut self,
        cx: &Cx,
        hop: Hop,
        message: &mut Message,
        steps: &mut Vec<Step>,
    ) -> Flow {
        let hop = self.hop(hop);
        let relevant = |it: &&mut Exchange| it.minds_delivery(hop.seat, message);
        let Some(exchange) = self.exchange.as_mut().filter(relevant) else { return Flow::Pass };
        let mut cx = mcp::Cx { now: cx.now, out: steps };
        let left = exchange.deliver(hop, super::take(message), &mut cx);
        pass(message, left)
    }
}

/// Puts back what the exchange has left of a message.
fn pass(message: &mut Message, left: Option<Message>) -> Flow {
    match left {
        Some(left) => {
            *message = left;
            Flow::Pass
        }
        None => Flow::Taken,
    }
}

impl Stages {
    pub(super) fn with_exchange(&mut self, act: impl FnOnce(&mut Exchange, &mut mcp::Cx<'_>)) {
        if let Some(exchange) = &mut self.mcp.exchange {
            let mut steps = Vec::new();
            act(exchange, &mut mcp::Cx { now: self.cx.now, out: &mut steps });
            self.perform(steps);
        }
    }

    /// Performs what the exchange wants done. Its messages go on from its place.
    pub(super) fn perform(&mut self, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Arrive { from, toward, message } => {
                    self.inject(Stage::Mcp, Hop { seat: from, toward }, message);
                }
                Step::Deliver { to, toward, message } => {
                    self.send_from(Stage::Mcp, Hop { seat: to, toward }, message);
                }
                Step::Tell { caller, message } => self.cx.push(Output::Tell { caller, message }),
                Step::HangUp(caller) => self.cx.push(Output::HangUp(caller)),
                Step::Admit { ticket, kind } => self.cx.push(Output::Admit { ticket, kind }),
                Step::Revoke(ticket) => self.cx.push(Output::Revoke(ticket)),
                Step::Report(notice) => self.cx.push(Output::Report(notice)),
            }
        }
    }
}
