//! MCP clients: what they say goes to the core, what it has to say to them goes out.

use std::collections::BTreeMap;
use std::task::{Context, Poll};

use bytes::Bytes;
use mcp::{Caller, Exchange};
use supervisor::{Event, Supervisor};
use tokio::sync::mpsc::{Receiver, channel};
use tracing::debug;
use wire::Message;

use super::ports::Listeners;
use super::{Heard, Mouth};
use crate::config::Config;
use crate::run::Shell;
use crate::secret::random_word;

/// How many lines of MCP clients may wait to be handled; then the clients do.
const MOST_LINES: usize = 64;

/// While this much waits for a component, MCP clients are not listened to.
const MOST_QUEUED: usize = 64 * 1024 * 1024;

/// The core of a chain.
pub fn core(config: &Config) -> Supervisor {
    let chain = config.chain();
    let policy = config.mcp_bridge.filter(|_| mcp::exchange::is_of_use(&chain));
    // Without a source of randomness no place can be opened, either: then no id is made up.
    let word = random_word().unwrap_or_default();
    let exchange = policy.map(|policy| Exchange::new(chain.clone(), policy, &word));
    let mut core = Supervisor::new(chain, config.rules(), exchange);
    if config.nested {
        core.tell_guards();
    }
    core
}

/// The MCP clients that have called, and where they do.
#[derive(Debug)]
pub struct Clients {
    pub(crate) listeners: Listeners,
    mouths: BTreeMap<Caller, Mouth>,
    heard: Receiver<Heard>,
}

impl Clients {
    pub fn new(longest_line: usize) -> Clients {
        let (hearing, heard) = channel(MOST_LINES);
        let listeners = Listeners::new(hearing, longest_line);
        Clients { listeners, mouths: BTreeMap::new(), heard }
    }

    pub fn hang_up(&mut self, caller: Caller) {
        self.mouths.remove(&caller);
    }

    /// How many have called.
    pub fn len(&self) -> usize {
        self.mouths.len()
    }
}

impl Shell {
    /// Looks after what MCP clients say. Says whether there was anything.
    pub(crate) fn hear(&mut self, cx: &mut Context<'_>) -> bool {
        if self.all_seats().any(|seat| self.gauge(seat).queued > MOST_QUEUED) {
            return false;
        }
        let mut busy = false;
        for _ in 0..MOST_LINES {
            let Poll::Ready(Some(heard)) = self.clients.heard.poll_recv(cx) else { break };
            busy = true;
            let event = match heard {
                Heard::Called { ticket, caller, mouth } => {
                    debug!(caller = caller.0, "an MCP client calls");
                    self.clients.mouths.insert(caller, mouth);
                    Event::Called { ticket, caller }
                }
                Heard::Line { caller, line } => {
                    debug!(caller = caller.0, size = line.len(), "an MCP client speaks");
                    Event::Heard { caller, line }
                }
                Heard::HungUp(caller) => {
                    debug!(caller = caller.0, "an MCP client has left");
                    self.clients.mouths.remove(&caller);
                    Event::HungUp(caller)
                }
            };
            self.handle(event);
        }
        busy
    }

    /// Says something to an MCP client, which may have left.
    pub(crate) fn tell_client(&mut self, caller: Caller, message: &Message) {
        let mut line = Vec::new();
        message.write_line(&mut line);
        line.pop();
        let mouth = self.clients.mouths.get(&caller);
        if mouth.is_some_and(|mouth| !mouth.say(Bytes::from(line))) {
            self.clients.mouths.remove(&caller);
            self.aftermath.push_back(Event::HungUp(caller));
        }
    }
}
