//! The tap: sees what happens in a chain, as it happens, and changes nothing.

use std::fmt;
use std::sync::Arc;

use acp_wire::{LinkProtocol, Message, Side};

/// Something that happened. Components are called by their names; the outer pipe is `outer`.
#[derive(Debug)]
pub enum TapEvent<'a> {
    /// A component was started.
    Started { seat: &'a str },
    /// A component has ended, or never was started; one readable line says how.
    Ended { seat: &'a str, how: &'a str },
    /// A message has come from a seat, free of any envelope.
    Arrived { seat: &'a str, toward: Side, dialect: LinkProtocol, message: &'a Message },
    /// A message goes to a seat.
    Delivered { seat: &'a str, toward: Side, dialect: LinkProtocol, message: &'a Message },
}

/// Is called for everything that happens, in order. It must not wait: the chain waits for it.
#[derive(Clone)]
pub struct Tap(Arc<dyn Fn(&TapEvent<'_>) + Send + Sync>);

impl Tap {
    pub fn new(see: impl Fn(&TapEvent<'_>) + Send + Sync + 'static) -> Tap {
        Tap(Arc::new(see))
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
