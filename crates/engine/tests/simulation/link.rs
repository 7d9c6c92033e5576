//! The pipes between the conductor and the participants, and their processes.

use std::collections::VecDeque;

use acp_wire::dialect::{Generation, Outer, Plain, Proxy};
use acp_wire::{Dialect, Message};
use bytes::Bytes;
use mcp::Ticket;
use router::ExitCause;

use crate::case::Topology;

/// The pipe of a seat, and the process at its other end.
pub struct Link {
    /// The dialect of the participant. The dialect of the conductor is inside the core.
    pub dialect: Dialect,
    /// Lines that the participant has not read.
    pub to: VecDeque<(usize, Bytes)>,
    /// The written part of an incomplete line.
    pub part: Vec<u8>,
    /// Lines that the conductor has not read.
    pub from: VecDeque<(usize, Item)>,
    /// The number of the process in this seat.
    pub incarnation: u32,
    pub state: ProcessState,
    /// How many lines this process has read.
    pub read: usize,
    /// Whether the core wants to read this link.
    pub reading: bool,
    /// Whether the core was told that the link has unread bytes.
    pub reported_readable: bool,
    /// Whether the core was told that the input of the process is closed.
    pub input_closed: bool,
}

/// The state of the process at a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProcessState {
    NotStarted,
    Running,
    /// Runs, but neither reads nor writes.
    Stalled,
    /// Reads, but its output is closed.
    OutputClosed,
    Ended,
}

pub enum Item {
    Line(Bytes),
    /// The output is closed. If the process has ended, with its cause.
    End(Option<ExitCause>),
}

/// The pipe of an MCP client.
#[derive(Default)]
pub struct ClientLink {
    pub from: VecDeque<(usize, ClientItem)>,
    pub to: VecDeque<(usize, Option<Message>)>,
    pub gone: bool,
}

pub enum ClientItem {
    Connect(Ticket),
    Line(Bytes),
    Disconnect,
}

impl Link {
    pub fn new(topology: &Topology, seat: usize) -> Link {
        let dialect: Dialect = match topology.proxies.get(seat.wrapping_sub(1)) {
            Some(&(_, generation)) => Outer::pinned(generation).into(),
            None if seat == 0 && topology.editor => Plain::agent().into(),
            None if seat == 0 => Proxy::pinned("us", Generation::CURRENT).into(),
            None => Plain::editor().into(),
        };
        Link {
            dialect,
            to: VecDeque::new(),
            part: Vec::new(),
            from: VecDeque::new(),
            incarnation: 0,
            state: ProcessState::NotStarted,
            read: 0,
            reading: true,
            reported_readable: false,
            input_closed: false,
        }
    }

    /// Whether the process has an open input.
    pub fn is_writable(&self) -> bool {
        !matches!(self.state, ProcessState::Ended | ProcessState::NotStarted)
    }

    /// How many bytes are in the pipe to the process. A running process reads incomplete lines at once.
    pub fn unread_bytes(&self) -> usize {
        let part = if self.state == ProcessState::Stalled { self.part.len() } else { 0 };
        part + self.to.iter().map(|(_, line)| line.len() + 1).sum::<usize>()
    }

    /// When the next line was written that the conductor may read. The conductor notices the end of a link even while the
    /// link is paused.
    pub fn readable(&self) -> Option<usize> {
        let (stamp, item) = self.from.front()?;
        (self.reading || matches!(item, Item::End(_))).then_some(*stamp)
    }

    /// Whether the link is paused and has unread bytes.
    pub fn has_unread_output(&self) -> bool {
        !self.reading && matches!(self.from.front(), Some((_, Item::Line(_))))
    }
}
