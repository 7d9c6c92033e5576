//! What a component that runs inside Conductor can observe of its whole chain.

use std::sync::Arc;

use acp_proxy_core::{Call, Message, Side};

/// An event in the chain of a component. `component` is the name of a component of the chain, or `outer` for the pipe
/// to the editor (and, in a chain that is a proxy itself, to the agent).
#[derive(Debug)]
#[non_exhaustive]
pub enum ChainEvent<'a> {
    /// The observer is attached to a chain. This is the first event, before the component gets any message.
    Attached,
    /// A component was started.
    Started {
        /// Its name.
        component: &'a str,
        /// How often it has been started before.
        restarts: u32,
    },
    /// A component has ended, or could not be started.
    Ended {
        /// Its name.
        component: &'a str,
    },
    /// A component has sent a message.
    Arrived {
        /// The sender.
        component: &'a str,
        /// The side that the message travels toward.
        toward: Side,
        /// The message, without an envelope.
        message: &'a Message,
    },
    /// A message is delivered to a component.
    Delivered {
        /// The receiver.
        component: &'a str,
        /// The side that the message travels toward.
        toward: Side,
        /// The message, without an envelope.
        message: &'a Message,
    },
    /// A component at any place of the chain has sent `_proxy/log`, `_proxy/metric` or `_scp/log`. Emitted once for each
    /// message.
    Telemetry {
        /// The sender.
        component: &'a str,
        /// The notification.
        call: &'a Call,
    },
}

/// Observes a chain. It is called in the main loop of the conductor, so it must not block.
pub type ChainObserver = Arc<dyn Fn(&ChainEvent<'_>) + Send + Sync>;
