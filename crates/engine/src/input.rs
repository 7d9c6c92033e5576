//! What the core is told, and what it wants done.
//!
//! Both lists are closed, and everything in them can be written down (see `journal`). The shell performs
//! outputs and reports inputs; it decides nothing.

use acp_wire::dialect::{Generation, Greeting};
use acp_wire::message::Findings;
use acp_wire::{Json, Message, Side, Spoken};
use bytes::Bytes;
use mcp::{ClientId, Endpoint, Ticket};
use router::{Chain, Ending, How, Kind, Notice, Seat};

use crate::flow::Marks;
use crate::policy::Rules;
use crate::queue::Queue;

/// What is known when a chain begins.
#[derive(Debug, Clone)]
pub struct Setup {
    pub chain: Chain,
    pub rules: Rules,
    /// How MCP servers that are reached over ACP are offered to an agent that does not speak it.
    pub bridge: Option<mcp::BridgePolicy>,
    /// A random word, for ids that no peer can guess.
    pub word: String,
    /// The chain is a component of another chain, which is told whether it contains a guard.
    pub nested: bool,
    /// The longest line that is read, in bytes.
    pub longest_line: usize,
    pub marks: Marks,
    /// By component: what is known of it.
    pub facts: Vec<Facts>,
    /// Report every message as [`Output::Seen`].
    pub watched: bool,
}

/// What is known of a component before it is started.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The generation of the proxy protocol that it speaks, if the user has set it.
    pub generation: Option<Generation>,
    /// The greeting that it understood in an earlier run.
    pub greeting: Option<Greeting>,
    /// The kinds of message that it crashed on in earlier runs.
    pub crashes_on: Vec<Kind>,
}

/// One pipe between the conductor and a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Link {
    pub seat: Seat,
    pub port: Port,
}

/// Which of a seat's links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Port {
    /// Standard input and output.
    Main,
    /// The second link of an SCP proxy, to the program that it takes for its successor.
    Relay,
}

impl Link {
    pub fn main(seat: Seat) -> Link {
        Link { seat, port: Port::Main }
    }

    pub fn relay(seat: Seat) -> Link {
        Link { seat, port: Port::Relay }
    }

    fn index(self) -> usize {
        2 * self.seat.index() + usize::from(self.port == Port::Relay)
    }

    fn at(index: usize) -> Link {
        let port = if index.is_multiple_of(2) { Port::Main } else { Port::Relay };
        Link { seat: Seat((index / 2) as u16), port }
    }
}

/// A line as the reader gives it.
#[derive(Debug, Clone, PartialEq)]
pub enum Line {
    Text(Bytes),
    /// It was longer than allowed and is dropped; this could be made out, and its length.
    TooLong {
        found: Box<Findings>,
        length: usize,
    },
}

/// What happened.
#[derive(Debug, Clone)]
pub enum Input {
    /// A line has come.
    Line { link: Link, line: Line },
    /// A peer has, or no longer has, sent something that is not read. Reported of links that are not read.
    Waits { link: Link, waits: bool },
    /// A peer has closed its end of the link. `rest` is what it wrote after its last newline.
    Ended { link: Link, rest: Option<Line> },
    /// So many bytes of a link's queue were written.
    Written { link: Link, count: usize },
    /// A peer does not read any more.
    Unread(Link),
    /// A component could not be started.
    NotStarted { seat: Seat, life: u32, why: String },
    /// A component's process has ended.
    Exited { seat: Seat, life: u32, how: How },
    /// A component has written these lines on its standard error.
    Words { seat: Seat, life: u32, lines: Vec<String> },
    /// A relay may connect: the params of `_scp/proxy` that say where. Or why it cannot.
    RelayOpened { seat: Seat, life: u32, servers: Result<Json, String> },
    /// The relay of an SCP proxy has connected: the seat's second link.
    RelayJoined { seat: Seat, life: u32 },
    /// The chain as it is completed, or why it cannot be.
    Extended(Result<Box<Setup>, String>),
    /// An MCP client has connected, with this ticket.
    ClientConnected { ticket: Ticket, client_id: ClientId },
    /// An MCP client has sent a line.
    ClientMessage { client_id: ClientId, line: Bytes },
    /// An MCP client has disconnected.
    ClientDisconnected(ClientId),
    /// The answer to an [`Output::OpenEndpoint`]: the endpoint, or why it could not be opened.
    EndpointOpened { ticket: Ticket, endpoint: Result<Endpoint, String> },
    /// The user wants something.
    Command(Command),
    /// The [`deadline`](crate::Core::deadline) has come.
    Tick,
}

/// What a user can want of a chain that runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// End the chain.
    Stop,
    /// Replace a component by a fresh one, at once and whatever its policy is.
    Restart(Seat),
    /// Leave a proxy out.
    Bypass(Seat),
    /// Hold every message for a peer from now on.
    Hold(Seat),
    /// Deliver what is held for a peer, and hold no more.
    Release(Seat),
}

/// What to do, in this order.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Start the component of this seat, with a fresh link.
    Start { seat: Seat, life: u32 },
    /// Kill the component's process. Its end is reported like any other.
    Kill(Seat),
    /// Kill what is left of the component and close its links. Nothing more is heard of it.
    End(Seat),
    /// Close a link: nothing more is written to it, and nothing read.
    Close(Link),
    /// Read from this link, or do not.
    Read { link: Link, read: bool },
    /// Listen to MCP clients, or do not.
    Listen(bool),
    /// Let a relay of this seat's component connect.
    OpenRelay { seat: Seat, life: u32 },
    /// The chain is completed by the servers in these params of `_scp/proxy`.
    Extend(Json),
    /// Send a message to an MCP client.
    SendToClient { client_id: ClientId, message: Message },
    /// Disconnect an MCP client.
    DisconnectClient(ClientId),
    /// Open an endpoint where MCP clients with this ticket can connect, and answer with
    /// [`Input::EndpointOpened`].
    OpenEndpoint { ticket: Ticket, transport: mcp::Transport },
    /// Accept no more MCP clients with this ticket. Clients that are connected stay connected.
    RevokeTicket(Ticket),
    /// Remember for the next run which greeting this component understands; `None`: forget it.
    Learn { seat: Seat, greeting: Option<Greeting> },
    /// Remember for the next run that this component crashes on this kind of message.
    Spare { seat: Seat, kind: Kind },
    /// Tell the user who runs the conductor.
    Report(Notice),
    /// For the tap.
    Seen(Seen),
    /// The chain is over: write out what is queued, end the components. No output follows.
    Finish(Ending),
}

/// What the tap is shown.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    /// A message has come from a seat, without its envelope.
    Arrived { seat: Seat, toward: Side, dialect: Spoken, message: Message },
    /// A message goes to a seat.
    Delivered { seat: Seat, toward: Side, dialect: Spoken, message: Message },
    /// A component has ended, or could not be started.
    Left { seat: Seat, how: String },
}

/// What the core wants done: a list of outputs, and for each link the bytes that are to be written.
///
/// The bytes stay here until the shell reports them as [written](Input::Written), so nothing is copied.
#[derive(Debug, Default)]
pub struct Outputs {
    pub list: Vec<Output>,
    queues: Vec<Queue>,
}

impl Outputs {
    /// What is to be written to a link.
    pub fn queue(&self, link: Link) -> Option<&Queue> {
        self.queues.get(link.index())
    }

    /// How many bytes wait to be written to a link.
    pub fn queued(&self, link: Link) -> usize {
        self.queues.get(link.index()).map_or(0, Queue::len)
    }

    /// Where lines for a link are appended.
    pub(crate) fn queue_mut(&mut self, link: Link) -> &mut Queue {
        let index = link.index();
        if index >= self.queues.len() {
            self.queues.resize_with(index + 1, Queue::default);
        }
        &mut self.queues[index]
    }

    /// These bytes were written.
    pub(crate) fn consume(&mut self, link: Link, count: usize) {
        if let Some(queue) = self.queues.get_mut(link.index()) {
            queue.advance(count);
        }
    }

    /// Drops what is queued: the peer does not read any more.
    pub(crate) fn clear(&mut self, link: Link) {
        if let Some(queue) = self.queues.get_mut(link.index()) {
            queue.clear();
        }
    }

    /// All queues, in the order of their links. A link that was never written to may be missing.
    pub(crate) fn queues(&self) -> impl Iterator<Item = (Link, &Queue)> {
        self.queues.iter().enumerate().map(|(index, queue)| (Link::at(index), queue))
    }

    pub(crate) fn push(&mut self, output: Output) {
        self.list.push(output);
    }
}
