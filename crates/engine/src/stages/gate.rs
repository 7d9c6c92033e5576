//! What may pass to a component at the moment.

use std::collections::VecDeque;

use router::{Life, Router};
use wire::{Message, Side};

use super::{Flow, Hop};

#[derive(Debug)]
pub(super) struct Gate {
    /// By seat: the messages that are held for it, while it is closed.
    held: Vec<Option<VecDeque<(Side, Message)>>>,
}

impl Gate {
    pub fn new(count: usize) -> Gate {
        Gate { held: std::iter::repeat_with(|| None).take(count + 1).collect() }
    }

    pub fn delivered(&mut self, router: &Router, hop: Hop, message: &mut Message) -> Flow {
        // The next component in the seat would not understand the message.
        if router.life(hop.seat).is_some_and(Life::is_vacant) {
            return Flow::Taken;
        }
        match &mut self.held[hop.seat.index()] {
            Some(held) => {
                held.push_back((hop.toward, super::take(message)));
                Flow::Taken
            }
            None => Flow::Pass,
        }
    }
}
