//! The pipes between the conductor and the players, and the processes at their ends.

use std::collections::VecDeque;

use acp_wire::dialect::{Generation, Outer, Plain, Proxy};
use acp_wire::{Dialect, Message};
use bytes::Bytes;
use mcp::Ticket;
use router::ExitCause;

use crate::case::Cast;

/// The pipe of a seat, and the process at its other end.
pub struct Link {
    /// What the player speaks. The conductor's own dialect is inside the core.
    pub theirs: Dialect,
    /// Lines that the player has yet to read.
    pub to: VecDeque<(usize, Bytes)>,
    /// The first part of a line of which the rest is not written.
    pub part: Vec<u8>,
    /// Lines that the conductor has yet to read.
    pub from: VecDeque<(usize, Item)>,
    /// Which of the processes of this seat it is, by the core's count.
    pub life: u32,
    pub state: State,
    /// How many lines this process has read.
    pub read: usize,
    /// The core wants to read this link.
    pub reading: bool,
    /// The core was told that something waits to be read.
    pub waits: bool,
    /// The core was told that the process reads no more.
    pub unread: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    NotStarted,
    Alive,
    /// Reads nothing and says nothing.
    Stalled,
    /// Reads, but its output is closed.
    Mute,
    Gone,
}

pub enum Item {
    Line(Bytes),
    /// The output is closed; if the process has ended, how.
    End(Option<ExitCause>),
}

/// The pipe of an MCP client.
#[derive(Default)]
pub struct CallLink {
    pub from: VecDeque<(usize, CallItem)>,
    pub to: VecDeque<(usize, Option<Message>)>,
    pub gone: bool,
}

pub enum CallItem {
    Call(Ticket),
    Line(Bytes),
    HangUp,
}

impl Link {
    pub fn new(cast: &Cast, seat: usize) -> Link {
        let theirs: Dialect = match cast.proxies.get(seat.wrapping_sub(1)) {
            Some(&(_, generation)) => Outer::pinned(generation).into(),
            None if seat == 0 && cast.editor => Plain::agent().into(),
            None if seat == 0 => Proxy::pinned("us", Generation::CURRENT).into(),
            None => Plain::editor().into(),
        };
        Link {
            theirs,
            to: VecDeque::new(),
            part: Vec::new(),
            from: VecDeque::new(),
            life: 0,
            state: State::NotStarted,
            read: 0,
            reading: true,
            waits: false,
            unread: false,
        }
    }

    /// Whether the process takes what is written to it.
    pub fn takes(&self) -> bool {
        !matches!(self.state, State::Gone | State::NotStarted)
    }

    /// How many bytes are in the pipe to the process. A process that runs reads the first part of a line at once.
    pub fn unread_bytes(&self) -> usize {
        let part = if self.state == State::Stalled { self.part.len() } else { 0 };
        part + self.to.iter().map(|(_, line)| line.len() + 1).sum::<usize>()
    }

    /// When the next line was written that the conductor may read. The end of a link is noticed even while the
    /// link is not read.
    pub fn readable(&self) -> Option<usize> {
        let (stamp, item) = self.from.front()?;
        (self.reading || matches!(item, Item::End(_))).then_some(*stamp)
    }

    /// Something waits that the core does not want to read.
    pub fn must_wait(&self) -> bool {
        !self.reading && matches!(self.from.front(), Some((_, Item::Line(_))))
    }
}
