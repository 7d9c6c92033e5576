//! The inputs and outputs of the core.
//!
//! [`Input`] and [`Output`] are closed lists, and a [journal](crate::journal) can record every value of them. The
//! shell reports inputs and performs outputs. It makes no decisions.

use acp_wire::config::Operation;
use acp_wire::dialect::{Generation, Greeting};
use acp_wire::message::ScanResult;
use acp_wire::{Json, LinkProtocol, Message, Side};
use bytes::Bytes;
use mcp::{ClientId, Endpoint, Ticket};
use router::{Chain, Diagnostic, Ending, ExitCause, MessageKind, Seat, StartFailure};

use crate::flow_control::Watermarks;
use crate::policy::Rules;
use crate::queue::Queue;

/// The log messages and metrics that stay in the chain if the editor has not asked for them. All others pass to the
/// editor like every extension message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeptTelemetry {
    /// Those of all components, because a component collects them.
    All,
    /// Those of the components that call themselves by one of these names.
    Of(Vec<String>),
}

/// What a chain says about itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    /// The version of the conductor.
    pub version: String,
    /// The name of the chain, if it has one.
    pub chain: Option<String>,
}

/// The shell's answer to [`Output::Configure`].
#[derive(Debug, Clone, PartialEq)]
pub struct Configured {
    /// The result of the request, without the member `applied`.
    pub result: Json,
    /// Whether the component must be restarted with the new options.
    pub restart: bool,
}

/// The configuration of a chain, fixed when the chain begins.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The components and their order.
    pub chain: Chain,
    /// What happens when a component fails.
    pub rules: Rules,
    /// How the bridge offers MCP servers to an agent that does not support MCP over ACP. If `None`, the chain has no
    /// MCP broker.
    pub bridge: Option<mcp::BridgePolicy>,
    /// Random text. It is part of ids that no peer may be able to guess.
    pub nonce: String,
    /// Whether the chain is a component of another chain. If so, it declares to that chain whether it contains a
    /// guard.
    pub nested: bool,
    /// Whether the outer peer is another conductor: log messages and metrics of components leave the chain as they are,
    /// and that conductor decides.
    pub forwards_telemetry: bool,
    /// The log messages and metrics that stay in the chain if the editor has not asked for them.
    pub kept_telemetry: KeptTelemetry,
    /// The length limit of a line, in bytes.
    pub max_line: usize,
    /// The queue sizes at which flow control acts.
    pub watermarks: Watermarks,
    /// What is known about each component, in the order of the chain.
    pub facts: Vec<Facts>,
    /// What the chain says about itself.
    pub about: About,
    /// Whether a tap is attached. If so, every message is reported as [`Output::Tap`].
    pub tapped: bool,
    /// What the editor shows at its first prompt, such as which part of the configuration is not used.
    pub start_notices: Vec<String>,
}

/// What is known about a component before it starts.
#[derive(Debug, Clone, Default)]
pub struct Facts {
    /// The generation of the proxy protocol that the component uses, if the user has set it.
    pub generation: Option<Generation>,
    /// The greeting that the component understood in an earlier run of the conductor.
    pub greeting: Option<Greeting>,
    /// The kinds of message that the component crashed on in earlier runs of the conductor.
    pub poison: Vec<MessageKind>,
}

/// The name of one connection between the conductor and a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkId {
    /// The seat of the peer.
    pub seat: Seat,
    /// Which link of that seat this is.
    pub port: Port,
}

/// Distinguishes the links of a seat. Only an SCP proxy has more than one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Port {
    /// Standard input and output.
    Main,
    /// The second link of an SCP proxy: the connection from the relay program that the proxy starts as its
    /// successor.
    Relay,
}

impl LinkId {
    /// The main link of a seat.
    pub fn main(seat: Seat) -> LinkId {
        LinkId { seat, port: Port::Main }
    }

    /// The relay link of a seat.
    pub fn relay(seat: Seat) -> LinkId {
        LinkId { seat, port: Port::Relay }
    }

    fn index(self) -> usize {
        2 * self.seat.index() + usize::from(self.port == Port::Relay)
    }

    fn at(index: usize) -> LinkId {
        let port = if index.is_multiple_of(2) { Port::Main } else { Port::Relay };
        LinkId { seat: Seat((index / 2) as u16), port }
    }
}

/// One line that was read from a link, without its line break.
#[derive(Debug, Clone, PartialEq)]
pub enum Line {
    /// The bytes of the line.
    Text(Bytes),
    /// The line exceeded [`Setup::max_line`], so its bytes were dropped while they were read.
    TooLong {
        /// What the reader recognised before it dropped the bytes.
        found: Box<ScanResult>,
        /// The length of the line in bytes.
        length: usize,
    },
}

/// An event outside the core. The shell reports it.
///
/// Several inputs carry the `incarnation` of a component: the number of its process among all processes of its seat. The
/// first process is number 0. An input with an outdated number is ignored.
#[derive(Debug, Clone)]
pub enum Input {
    /// A line was read from a link.
    Line {
        /// The link.
        link: LinkId,
        /// The line.
        line: Line,
    },
    /// A paused link has unread bytes, or no longer has any.
    Readable {
        /// The paused link.
        link: LinkId,
        /// Whether unread bytes are waiting.
        readable: bool,
    },
    /// A peer has closed its output.
    OutputClosed {
        /// The link.
        link: LinkId,
        /// The bytes after the last line break, if any.
        rest: Option<Line>,
    },
    /// Bytes of a link's queue were written.
    Written {
        /// The link.
        link: LinkId,
        /// How many bytes were written.
        count: usize,
    },
    /// A peer has closed its input.
    InputClosed(LinkId),
    /// A component could not be started.
    NotStarted {
        /// Its seat.
        seat: Seat,
        /// The number of the process.
        incarnation: u32,
        /// The reason.
        why: StartFailure,
    },
    /// The process of a component has ended.
    Exited {
        /// Its seat.
        seat: Seat,
        /// The number of the process.
        incarnation: u32,
        /// Its exit status or signal.
        how: ExitCause,
    },
    /// A component has written lines to its standard error.
    Stderr {
        /// Its seat.
        seat: Seat,
        /// The number of the process.
        incarnation: u32,
        /// The lines.
        lines: Vec<String>,
    },
    /// The listener that an [`Output::OpenRelay`] requested is open, or could not be opened.
    RelayOpened {
        /// The seat of the SCP proxy.
        seat: Seat,
        /// The number of the process.
        incarnation: u32,
        /// The params of `_scp/proxy`, which contain the address for the relay, or the reason of the failure.
        servers: Result<Json, String>,
    },
    /// The relay of an SCP proxy has connected. Its connection is the second link of the seat.
    RelayConnected {
        /// The seat of the SCP proxy.
        seat: Seat,
        /// The number of the process.
        incarnation: u32,
    },
    /// The answer to [`Output::Extend`]: the setup of the complete chain, or why it cannot be completed.
    Extended(Result<Box<Setup>, String>),
    /// An MCP client has connected.
    ClientConnected {
        /// The ticket that the client presented.
        ticket: Ticket,
        /// The id of the new connection.
        client_id: ClientId,
    },
    /// An MCP client has sent a line.
    ClientMessage {
        /// The client's connection.
        client_id: ClientId,
        /// The line.
        line: Bytes,
    },
    /// An MCP client has disconnected.
    ClientDisconnected(ClientId),
    /// The answer to [`Output::OpenEndpoint`].
    EndpointOpened {
        /// The ticket of that output.
        ticket: Ticket,
        /// The endpoint that is open, or why it could not be opened.
        endpoint: Result<Endpoint, String>,
    },
    /// The answer to [`Output::Configure`].
    Configured {
        /// The number of the request.
        request: u64,
        /// The answer, or what is wrong.
        answer: Result<Configured, String>,
    },
    /// The user has given a command.
    Command(Command),
    /// The chain gets another configuration as soon as it is at rest. The core answers with [`Output::Reloaded`]. A later
    /// configuration replaces one that still waits.
    Reload(Box<Reload>),
    /// The configuration that waits is not used.
    DropReload,
    /// The [`deadline`](crate::Core::deadline) has passed.
    Tick,
}

/// Another configuration for a chain.
///
/// Components that stay in the chain keep their seats. The agent keeps its seat, too.
#[derive(Debug, Clone)]
pub struct Reload {
    /// The components by seat, also those that are no longer in the chain, and the order.
    pub chain: Chain,
    /// What happens when a component fails. The policies are by seat.
    pub rules: Rules,
    /// What is known about each component, by seat.
    pub facts: Vec<Facts>,
    /// The log messages and metrics that stay in the chain if the editor has not asked for them.
    pub kept_telemetry: KeptTelemetry,
    /// The components that are restarted, because their configuration has changed.
    pub restarted: Vec<Seat>,
    /// See [`Setup::tapped`].
    pub tapped: bool,
    /// What the editor shows at its next prompt.
    pub notices: Vec<String>,
    /// What the chain says about itself.
    pub about: About,
    /// Whether components that are removed or restarted are ended at once, although they have not answered all requests.
    pub now: bool,
}

/// A command that a user can give while a chain runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// End the chain.
    Stop,
    /// Replace a component by a new process at once, whatever its failure policy is.
    Restart(Seat),
    /// Remove a proxy from the chain.
    Bypass(Seat),
    /// Hold all messages for a peer from now on.
    Hold(Seat),
    /// Deliver the messages that are held for a peer, and hold no more.
    Release(Seat),
}

/// An action that the shell performs. Outputs are performed in order.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// Start the component of a seat, with a new link.
    Start {
        /// The seat.
        seat: Seat,
        /// The number of the new process.
        incarnation: u32,
    },
    /// Kill the process of a component. The shell then reports its exit as usual.
    Kill(Seat),
    /// Kill the process of a component, if it still runs, and close its links. The shell reports nothing more about
    /// it.
    Discard(Seat),
    /// Close a link: write and read nothing more.
    Close(LinkId),
    /// Resume or pause reading from a link.
    Read {
        /// The link.
        link: LinkId,
        /// `false` pauses it.
        read: bool,
    },
    /// Resume (`true`) or pause reading from all MCP clients.
    ReadClients(bool),
    /// Open a listener for the relay of an SCP proxy, and report [`Input::RelayOpened`].
    OpenRelay {
        /// The seat of the proxy.
        seat: Seat,
        /// The number of its process.
        incarnation: u32,
    },
    /// Complete the chain with the servers in these params of `_scp/proxy`, and report [`Input::Extended`].
    Extend(Json),
    /// Send a message to an MCP client.
    SendToClient {
        /// The client's connection.
        client_id: ClientId,
        /// The message.
        message: Message,
    },
    /// Close the connection of an MCP client.
    DisconnectClient(ClientId),
    /// Open an endpoint for MCP clients that present this ticket, and report [`Input::EndpointOpened`].
    OpenEndpoint {
        /// The ticket.
        ticket: Ticket,
        /// The transport of the endpoint.
        transport: mcp::Transport,
    },
    /// Refuse new MCP clients with this ticket. Open connections stay open.
    RevokeTicket(Ticket),
    /// Answer a request about the options of a component whose [`managed`](router::Component::managed) is set, with
    /// [`Input::Configured`]. New options are only checked, and kept until [`ApplyOptions`](Output::ApplyOptions).
    Configure {
        /// The number of the request.
        request: u64,
        /// The component.
        seat: Seat,
        /// What is asked for.
        operation: Operation,
        /// The new values: an object.
        values: Json,
    },
    /// Use the options of this request when their component is started next.
    ApplyOptions {
        /// The number of the request.
        request: u64,
    },
    /// Forget the options of this request. If they are in use, return to the options before them.
    DropOptions {
        /// The number of the request.
        request: u64,
    },
    /// The chain has the configuration of the last [`Input::Reload`] from now on, or cannot use it.
    Reloaded {
        /// Why the chain cannot use it.
        problem: Option<String>,
    },
    /// A component has not become live with the configuration of the last [`Input::Reload`]. It has its previous
    /// configuration again, and is started with it. If it has only just joined the chain, it leaves it again.
    Reverted {
        /// The component.
        seat: Seat,
        /// What happened, as a sentence that begins with "it".
        why: String,
    },
    /// What the user should know about a reload that has succeeded.
    ReloadNote(String),
    /// Save, for later runs, which greeting a component understands.
    RememberGreeting {
        /// The component.
        seat: Seat,
        /// The greeting. `None` deletes the saved greeting.
        greeting: Option<Greeting>,
    },
    /// Save, for later runs, that a component crashes on a kind of message.
    RememberPoison {
        /// The component.
        seat: Seat,
        /// The kind of message.
        kind: MessageKind,
    },
    /// Log a diagnostic for the user who runs the conductor.
    Report(Diagnostic),
    /// Pass this observation to the tap.
    Tap(Observation),
    /// The chain has ended: write the queued bytes and stop the components. No output follows.
    Finish(Ending),
}

/// An event that a tap receives.
#[derive(Debug, Clone, PartialEq)]
pub enum Observation {
    /// A message has arrived from a seat.
    Arrived {
        /// The sender.
        seat: Seat,
        /// The side that the message travels toward.
        toward: Side,
        /// The dialect of the link.
        dialect: LinkProtocol,
        /// The message, without its envelope.
        message: Message,
    },
    /// A message is sent to a seat.
    Delivered {
        /// The receiver.
        seat: Seat,
        /// The side that the message travels toward.
        toward: Side,
        /// The dialect of the link.
        dialect: LinkProtocol,
        /// The message, without its envelope.
        message: Message,
    },
    /// A component has sent a log message or a metric (see [`acp_wire::telemetry`]). Reported once for each message,
    /// also without a tap.
    Telemetry {
        /// The component, or the outer pipe if the message comes from behind the chain.
        seat: Seat,
        /// The notification.
        message: Message,
    },
    /// A component has ended, or could not be started.
    Ended {
        /// Its seat.
        seat: Seat,
        /// A description, such as "exited with status 1".
        how: String,
    },
}

/// The work of the shell: a list of outputs, and for each link the bytes to write.
///
/// The bytes stay here until the shell reports them as [written](Input::Written), so nothing is copied.
#[derive(Debug, Default)]
pub struct Outputs {
    /// The outputs, in order. The shell takes them out after each call of [`Core::handle`](crate::Core::handle).
    pub list: Vec<Output>,
    queues: Vec<Queue>,
}

impl Outputs {
    /// The bytes to write to a link.
    pub fn queue(&self, link: LinkId) -> Option<&Queue> {
        self.queues.get(link.index())
    }

    /// How many bytes wait to be written to a link.
    pub fn queued(&self, link: LinkId) -> usize {
        self.queues.get(link.index()).map_or(0, Queue::len)
    }

    /// The queue of a link, to append lines to.
    pub(crate) fn queue_mut(&mut self, link: LinkId) -> &mut Queue {
        let index = link.index();
        if index >= self.queues.len() {
            self.queues.resize_with(index + 1, Queue::default);
        }
        &mut self.queues[index]
    }

    /// Removes bytes that were written.
    pub(crate) fn consume(&mut self, link: LinkId, count: usize) {
        if let Some(queue) = self.queues.get_mut(link.index()) {
            queue.advance(count);
        }
    }

    /// Drops the queue of a link that is no longer written to.
    pub(crate) fn clear(&mut self, link: LinkId) {
        if let Some(queue) = self.queues.get_mut(link.index()) {
            queue.clear();
        }
    }

    /// All queues, in the order of their links. A link that was never written to may be missing.
    pub(crate) fn queues(&self) -> impl Iterator<Item = (LinkId, &Queue)> {
        self.queues.iter().enumerate().map(|(index, queue)| (LinkId::at(index), queue))
    }

    pub(crate) fn push(&mut self, output: Output) {
        self.list.push(output);
    }
}
