//! The tap: observes the components and messages of a chain without changing them.

use std::fmt;
use std::sync::Arc;

use acp_wire::{Call, LinkProtocol, Message, Side};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// An event in a chain. `seat` is the name of a component, or `outer` for the outer pipe.
#[derive(Debug)]
pub enum TapEvent<'a> {
    /// A component was started.
    Started {
        /// The name of the component.
        seat: &'a str,
    },
    /// A component has exited or could not be started. `how` describes it in one line.
    Ended {
        /// The name of the component.
        seat: &'a str,
        /// How it exited, as the end of a sentence that begins with its name.
        how: &'a str,
    },
    /// A message has arrived from a seat. Its envelope is removed.
    Arrived {
        /// The sender.
        seat: &'a str,
        /// The direction of the message.
        toward: Side,
        /// The protocol of the link.
        dialect: LinkProtocol,
        /// The message.
        message: &'a Message,
    },
    /// A message is delivered to a seat.
    Delivered {
        /// The receiver.
        seat: &'a str,
        /// The direction of the message.
        toward: Side,
        /// The protocol of the link.
        dialect: LinkProtocol,
        /// The message.
        message: &'a Message,
    },
    /// The chain has another configuration. It was at rest: no request was open.
    Changed {
        /// The names of the components, in order.
        components: &'a [&'a str],
    },
    /// A component has sent a log message or a metric. Emitted once for each message, beside the other events.
    Telemetry {
        /// The component, or the outer pipe if the message comes from behind the chain.
        seat: &'a str,
        /// The notification: `_proxy/log`, `_proxy/metric` or `_scp/log`.
        call: &'a Call,
    },
}

/// A function that is called for every event, in order. It must not block, because the chain waits for it.
#[derive(Clone)]
pub struct Tap(Arc<dyn Fn(&TapEvent<'_>) + Send + Sync>);

impl Tap {
    /// A tap that calls this function.
    pub fn new(on_event: impl Fn(&TapEvent<'_>) + Send + Sync + 'static) -> Tap {
        Tap(Arc::new(on_event))
    }

    pub(crate) fn emit(&self, event: &TapEvent<'_>) {
        (self.0)(event);
    }
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tap")
    }
}

/// Tells an editor in this process when the process of the agent has ended, and when it was started again: by then,
/// what the earlier process has asked for has arrived.
#[derive(Debug)]
pub(crate) struct AgentEnds {
    /// The name of the agent.
    agent: Option<String>,
    sender: UnboundedSender<()>,
}

impl AgentEnds {
    /// For a chain of these components, and what receives the ends.
    pub(crate) fn new(components: &[String]) -> (AgentEnds, UnboundedReceiver<()>) {
        let (sender, ends) = unbounded_channel();
        (AgentEnds { agent: components.last().cloned(), sender }, ends)
    }

    /// Handles an event of the chain.
    pub(crate) fn update(&mut self, event: &TapEvent<'_>) {
        match event {
            TapEvent::Changed { components } => {
                self.agent = components.last().map(|it| (*it).to_owned());
            }
            TapEvent::Started { seat } | TapEvent::Ended { seat, .. }
                if self.agent.as_deref() == Some(*seat) =>
            {
                // An error means that the editor has ended, and its terminals with it.
                let _ = self.sender.send(());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_start_and_the_end_of_the_agent_are_told() {
        let names = ["proxy", "agent"].map(str::to_owned);
        let (mut tap, mut ends) = AgentEnds::new(&names);
        tap.update(&TapEvent::Started { seat: "proxy" });
        tap.update(&TapEvent::Ended { seat: "proxy", how: "exited" });
        assert!(ends.try_recv().is_err());
        tap.update(&TapEvent::Ended { seat: "agent", how: "exited" });
        assert!(ends.try_recv().is_ok() && ends.try_recv().is_err());
        tap.update(&TapEvent::Changed { components: &["agent", "other"] });
        tap.update(&TapEvent::Ended { seat: "agent", how: "exited" });
        assert!(ends.try_recv().is_err());
        tap.update(&TapEvent::Started { seat: "other" });
        assert!(ends.try_recv().is_ok());
    }
}
