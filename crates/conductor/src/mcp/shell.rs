//! How the shell lets the exchange take part: what arrives and what is delivered passes through it.

use std::collections::BTreeMap;
use std::task::{Context, Poll};

use bytes::Bytes;
use mcp::{Caller, Exchange, Hop, Step};
use router::{Action, Event, Seat, Time};
use tokio::sync::mpsc::{Receiver, channel};
use tracing::debug;
use wire::{Message, Side};

use super::ports::Listeners;
use super::{Heard, Hearing, Mouth};
use crate::config::Config;
use crate::run::Shell;

/// How many lines of MCP clients may wait to be handled; then the clients do.
const MOST_LINES: usize = 64;

/// While this much waits for a component, MCP clients are not listened to.
const MOST_QUEUED: usize = 64 * 1024 * 1024;

/// The exchange, and the MCP clients that have called.
#[derive(Debug)]
pub struct Clients {
    exchange: Option<Exchange>,
    mouths: BTreeMap<Caller, Mouth>,
    hearing: Hearing,
    heard: Receiver<Heard>,
}

impl Clients {
    pub fn new(config: &Config) -> Clients {
        let (hearing, heard) = channel(MOST_LINES);
        let mut clients = Clients { exchange: None, mouths: BTreeMap::new(), hearing, heard };
        clients.begin(config);
        clients
    }

    /// The chain is this one from now on.
    pub fn begin(&mut self, config: &Config) {
        let chain = config.chain();
        let policy = config.mcp_bridge.filter(|_| mcp::exchange::is_of_use(&chain));
        self.exchange = policy.map(|policy| {
            let ports = Listeners::new(self.hearing.clone(), config.limits.line);
            Exchange::new(chain, policy, Box::new(ports))
        });
    }

    /// Has the exchange to do with this message?
    pub fn mind(&self, message: &Message) -> bool {
        self.exchange.as_ref().is_some_and(|exchange| exchange.minds(message))
    }

    pub fn deadline(&self) -> Option<Time> {
        self.exchange.as_ref()?.deadline()
    }

    /// How many servers are reached over ACP, and how many clients have called.
    pub fn sizes(&self) -> (usize, usize) {
        (self.exchange.as_ref().map_or(0, Exchange::servers), self.mouths.len())
    }
}

impl Shell {
    /// A message has arrived that the exchange wants to see before the router does.
    pub(crate) fn exchange_arrived(&mut self, from: Seat, toward: Side, message: Message) {
        let Some(exchange) = &mut self.clients.exchange else { return };
        let dialect = self.seats[from.index()].link.dialect().name();
        let mut steps = Vec::new();
        let hop = Hop { seat: from, toward, dialect };
        if let Some(message) = exchange.arrived(self.now, hop, message, &mut steps) {
            self.route(Event::Arrived { from, toward, message });
        }
        self.take(steps);
    }

    /// A message is to be delivered that the exchange wants to see before its receiver does.
    pub(crate) fn exchange_deliver(&mut self, to: Seat, toward: Side, message: Message) {
        let Some(exchange) = &mut self.clients.exchange else { return };
        let dialect = self.seats[to.index()].link.dialect().name();
        let mut steps = Vec::new();
        let hop = Hop { seat: to, toward, dialect };
        if let Some(message) = exchange.deliver(self.now, hop, message, &mut steps) {
            self.send(to, toward, &message);
        }
        self.take(steps);
    }

    /// Somebody has left a seat.
    pub(crate) fn exchange_left(&mut self, seat: Seat) {
        if let Some(exchange) = &mut self.clients.exchange {
            exchange.left(seat);
        }
    }

    /// Looks after what MCP clients say. Says whether there was anything.
    pub(crate) fn hear(&mut self, cx: &mut Context<'_>) -> bool {
        if self.seats.iter().any(|place| place.link.queued() > MOST_QUEUED) {
            return false;
        }
        let mut busy = false;
        for _ in 0..MOST_LINES {
            let Poll::Ready(Some(heard)) = self.clients.heard.poll_recv(cx) else { break };
            busy = true;
            let Some(exchange) = &mut self.clients.exchange else { continue };
            let mut steps = Vec::new();
            match &heard {
                Heard::Called { caller, .. } => debug!(caller = caller.0, "an MCP client calls"),
                Heard::Line { caller, line } => {
                    debug!(caller = caller.0, size = line.len(), "an MCP client speaks");
                }
                Heard::HungUp(caller) => debug!(caller = caller.0, "an MCP client has left"),
            }
            match heard {
                Heard::Called { ticket, caller, mouth } => {
                    self.clients.mouths.insert(caller, mouth);
                    exchange.called(ticket, caller, &mut steps);
                }
                Heard::Line { caller, line } => {
                    exchange.heard(self.now, caller, &line, &mut steps);
                }
                Heard::HungUp(caller) => {
                    self.clients.mouths.remove(&caller);
                    exchange.hung_up(caller, &mut steps);
                }
            }
            self.take(steps);
            self.settle();
        }
        busy
    }

    /// Does what is due.
    pub(crate) fn exchange_tick(&mut self) {
        let now = self.now;
        let due = |exchange: &&mut Exchange| exchange.deadline().is_some_and(|time| time <= now);
        if let Some(exchange) = self.clients.exchange.as_mut().filter(due) {
            let mut steps = Vec::new();
            exchange.tick(now, &mut steps);
            self.take(steps);
            self.settle();
        }
    }

    fn take(&mut self, steps: Vec<Step>) {
        for step in steps {
            match step {
                Step::Arrive { from, toward, message } => {
                    self.routed.push_back(Event::Arrived { from, toward, message });
                }
                Step::Deliver { to, toward, message } => self.send(to, toward, &message),
                Step::Tell { caller, message } => {
                    let mut line = Vec::new();
                    message.write_line(&mut line);
                    line.pop();
                    let mouth = self.clients.mouths.get(&caller);
                    if mouth.is_some_and(|mouth| !mouth.say(Bytes::from(line))) {
                        self.clients.mouths.remove(&caller);
                        let mut steps = Vec::new();
                        if let Some(exchange) = &mut self.clients.exchange {
                            exchange.hung_up(caller, &mut steps);
                        }
                        self.take(steps);
                    }
                }
                Step::HangUp(caller) => drop(self.clients.mouths.remove(&caller)),
                Step::Report(notice) => self.perform(Action::Report(notice)),
            }
        }
    }
}
