//! The tap: observes the components and messages of a chain without changing them.

use std::fmt;
use std::sync::Arc;

use acp_wire::{Call, LinkProtocol, Message, Side};

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
