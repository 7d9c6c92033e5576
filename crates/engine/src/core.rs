//! [`Core`]: the entry point of the crate.
//!
//! The core decodes lines, passes messages to the stages, and encodes the messages that the stages deliver. It also
//! detects that peers have ended, and applies flow control.

use std::collections::VecDeque;

use acp_wire::{LinkProtocol, Message, Side, Sink};
use bytes::Bytes;
use router::{Chain, Diagnostic, Exit, ExitCause, Level, Mode, Router, Seat, SeatState, Time};

use crate::fault_injection::FaultInjector;
use crate::flow_control::{self, LinkLoad};
use crate::input::{Facts, Input, Line, LinkId, Observation, Output, Outputs, Port, Reload, Setup};
use crate::peer::Peer;
use crate::policy::Rules;
use crate::stage_io::{StageInput, StageOutput};
use crate::stages::Stages;

/// A component that has exceeded a timeout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Overdue {
    /// The component did not respond. It is treated as failed.
    Unresponsive(Seat, ExitCause),
    /// The component has written bytes, but its link is paused. Its timeout restarts.
    Blocked(Seat),
}

/// The core of one chain. See the [crate documentation](crate).
#[derive(Debug)]
pub struct Core {
    pub(crate) setup: Setup,
    pub(crate) stages: Stages,
    /// The peer in each seat: first the outer pipe, then the components.
    pub(crate) peers: Vec<Peer>,
    pub(crate) now: Time,
    /// A buffer that is reused, so that a busy chain allocates nothing per message.
    stage_outputs: Vec<StageOutput>,
    /// Messages that an SCP proxy's link has produced while the core performed the outputs of the stages. The stages
    /// handle them next.
    deferred: VecDeque<StageInput>,
    /// The `initialize` request that waits until the chain is complete (see [`Output::Extend`]).
    pub(crate) extension: Option<Message>,
    /// The configuration that waits until the chain is at rest.
    pub(crate) reload: Option<Box<Reload>>,
    /// What was known about each component before the last configuration.
    pub(crate) previous_facts: Vec<Facts>,
    /// Whether MCP clients are read.
    reads_clients: bool,
    finished: bool,
    /// Set only by tests.
    fault_injector: Option<Box<dyn FaultInjector>>,
}

impl Core {
    /// The core of a chain that has not started.
    pub fn new(setup: Setup) -> Core {
        let stages = Stages::of_setup(&setup);
        let mut core = Core {
            stages,
            setup,
            peers: Vec::new(),
            now: Time::default(),
            stage_outputs: Vec::new(),
            deferred: VecDeque::new(),
            extension: None,
            reload: None,
            previous_facts: Vec::new(),
            reads_clients: true,
            finished: false,
            fault_injector: None,
        };
        core.create_peers();
        core
    }

    /// Injects faults, for a test.
    pub fn inject_faults(&mut self, injector: Box<dyn FaultInjector>) {
        self.fault_injector = Some(injector);
    }

    /// The stages, for status and tests.
    pub fn stages(&self) -> &Stages {
        &self.stages
    }

    /// The router, for status and tests.
    pub fn router(&self) -> &Router {
        self.stages.router()
    }

    /// What happens when a component fails, and how long the core waits.
    pub fn rules(&self) -> &Rules {
        self.stages.rules()
    }

    /// The chain.
    pub fn chain(&self) -> &Chain {
        self.router().chain()
    }

    pub(crate) fn peer_mut(&mut self, seat: Seat) -> &mut Peer {
        &mut self.peers[seat.index()]
    }

    /// The peer in a seat, for status.
    pub fn peer(&self, seat: Seat) -> &Peer {
        &self.peers[seat.index()]
    }

    /// The dialect of the peer in a seat, for status.
    pub fn dialect(&self, seat: Seat) -> LinkProtocol {
        self.peers[seat.index()].dialect.protocol()
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.finished
    }

    /// All seats, also those that are not in the chain.
    fn seats(&self) -> impl Iterator<Item = Seat> + use<> {
        (0..self.peers.len() as u16).map(Seat)
    }

    /// How many bytes are queued for a peer, on all its links.
    pub fn queued(&self, seat: Seat, out: &Outputs) -> usize {
        let peer = &self.peers[seat.index()];
        peer.ports().map(|port| out.queued(LinkId { seat, port }) + peer.backlog(port)).sum()
    }

    /// When to call [`handle`](Core::handle) with [`Input::Tick`], if no other input comes first.
    pub fn deadline(&self) -> Option<Time> {
        if self.finished {
            return None;
        }
        let peers = self.peers.iter().flat_map(|it| [it.end_deadline(), it.handshake_deadline()]);
        let stopped = self.stopped_readers().map(|(_, due)| due);
        peers.flatten().chain(stopped).chain(self.stages.deadline()).min()
    }

    /// Handles an input, and appends the outputs to `out` in order. This is the only entry point.
    pub fn handle(&mut self, now: Time, input: Input, out: &mut Outputs) {
        if self.finished {
            // The shell still writes the queued bytes.
            if let Input::Written { link, count } = input {
                out.consume(link, count);
            }
            return;
        }
        self.now = now;
        match input {
            Input::Line { link, line } => self.on_line(link, line, out),
            Input::Readable { link, readable } => {
                self.peer_mut(link.seat).link_state_mut(link.port).readable = readable;
            }
            Input::OutputClosed { link, rest } => self.on_output_closed(link, rest, out),
            Input::Written { link, count } => {
                out.consume(link, count);
                self.peers[link.seat.index()].on_written(now, link, out);
                self.peers[link.seat.index()].update_full(link, self.setup.watermarks, out);
            }
            Input::InputClosed(link) => self.on_input_closed(link, out),
            Input::NotStarted { seat, incarnation, why } => {
                if self.is_current(seat, incarnation) {
                    self.peer_mut(seat).is_running = false;
                    self.apply(
                        StageInput::Ended { seat, exit: Exit::new(ExitCause::NotStarted(why)) },
                        out,
                    );
                }
            }
            Input::Exited { seat, incarnation, how } => {
                if self.is_current(seat, incarnation) {
                    let peer = self.peer_mut(seat);
                    peer.is_running = false;
                    peer.termination.on_exit(now, how);
                }
            }
            Input::Stderr { seat, incarnation, lines } => {
                if self.is_current(seat, incarnation) {
                    lines.into_iter().for_each(|line| self.peer_mut(seat).add_output_line(line));
                }
            }
            Input::RelayOpened { seat, incarnation, servers } => {
                if self.is_current(seat, incarnation) {
                    self.on_relay_opened(seat, servers, out);
                }
            }
            Input::RelayConnected { seat, incarnation } => {
                if self.is_current(seat, incarnation) {
                    self.on_relay_connected(seat);
                }
            }
            Input::Extended(setup) => self.on_extended(setup, out),
            Input::ClientConnected { ticket, client_id } => {
                self.apply(StageInput::ClientConnected { ticket, client_id }, out)
            }
            Input::ClientMessage { client_id, line } => {
                self.apply(StageInput::ClientMessage { client_id, line }, out)
            }
            Input::ClientDisconnected(client_id) => {
                self.apply(StageInput::ClientDisconnected(client_id), out)
            }
            Input::EndpointOpened { ticket, endpoint } => {
                self.apply(StageInput::EndpointOpened { ticket, endpoint }, out);
            }
            Input::Configured { request, answer } => {
                self.apply(StageInput::Configured { request, answer }, out);
            }
            Input::Command(command) => self.apply(StageInput::Command(command), out),
            Input::Reload(reload) => self.on_reload(reload, out),
            Input::DropReload => self.reload = None,
            Input::Tick => self.on_tick(out),
        }
        self.finish_ended_peers(out);
        if self.reload.is_some() {
            self.reload_at_rest(out);
        }
        if !self.finished {
            self.check_greeting_timeouts(out);
            self.apply_flow_control(out);
        }
    }

    /// Whether this is the number of the current process of a seat.
    fn is_current(&self, seat: Seat, incarnation: u32) -> bool {
        self.peers.get(seat.index()).is_some_and(|peer| peer.incarnation == incarnation)
    }

    pub(crate) fn on_line(&mut self, link: LinkId, line: Line, out: &mut Outputs) {
        match line {
            Line::Text(line) => self.on_text(link, &line, out),
            Line::TooLong { found, length } => self.on_long_line(link, &found, length, out),
        }
        self.answer_lost(link, out);
    }

    fn on_text(&mut self, link: LinkId, line: &Bytes, out: &mut Outputs) {
        let seat = link.seat;
        let peer = &mut self.peers[seat.index()];
        let Some(dialect) = peer.dialect_at(link.port) else { return };
        let decoded = dialect.decode(line, out.queue_mut(link));
        self.publish_dialect(seat);
        match decoded {
            Ok(Some((toward, message))) => {
                self.record_greeting(seat, out);
                if let Message::Response { id, outcome, .. } = &message {
                    self.on_answer(seat, id, outcome, out);
                }
                if self.setup.tapped {
                    let (dialect, message) = (self.dialect(seat), message.clone());
                    out.push(Output::Tap(Observation::Arrived { seat, toward, dialect, message }));
                }
                self.apply(StageInput::Arrived { from: seat, toward, message }, out);
            }
            Ok(None) => self.on_handshake(seat, out),
            Err(rejection) => self.on_rejection(link, line, rejection, out),
        }
    }

    /// A peer has closed its output.
    fn on_output_closed(&mut self, link: LinkId, rest: Option<Line>, out: &mut Outputs) {
        let (seat, now) = (link.seat, self.now);
        let peer = self.peer_mut(seat);
        peer.link_state_mut(link.port).open = false;
        peer.link_state_mut(link.port).readable = false;
        match link.port {
            Port::Main => peer.termination.on_pipe_closed(now, ExitCause::ClosedOutput),
            Port::Relay => self.lose_relay(seat, out),
        }
        // An incomplete message is dropped without a warning: the crash report of the component is more useful.
        let is_incomplete = |line: &Line| {
            matches!(line, Line::Text(text)
                if text.starts_with(b"{") && Message::parse(text).is_err())
        };
        let rest = rest.filter(|line| !(seat.is_component() && is_incomplete(line)));
        rest.into_iter().for_each(|line| self.on_line(link, line, out));
    }

    /// A peer has closed its input.
    fn on_input_closed(&mut self, link: LinkId, out: &mut Outputs) {
        let (seat, now) = (link.seat, self.now);
        out.clear(link);
        let peer = self.peer_mut(seat);
        let state = peer.link_state_mut(link.port);
        (state.writable, state.full) = (false, false);
        match link.port {
            Port::Main => {
                peer.termination.on_pipe_closed(now, ExitCause::ClosedInput);
                // The editor may have closed its output earlier. Its closed input is reported as a second end.
                peer.termination.is_handled &= seat.is_component();
            }
            Port::Relay => self.lose_relay(seat, out),
        }
    }

    /// An SCP proxy has closed its connection to the relay, or the relay has ended. The proxy cannot work without
    /// it, so it is treated as ended.
    fn lose_relay(&mut self, seat: Seat, out: &mut Outputs) {
        let (now, link) = (self.now, LinkId::relay(seat));
        let peer = self.peer_mut(seat);
        *peer.link_state_mut(Port::Relay) = Default::default();
        peer.termination.on_pipe_closed(now, ExitCause::ClosedSuccessor);
        out.clear(link);
        out.push(Output::Close(link));
    }

    /// Passes an input to the stages and performs their outputs.
    pub(crate) fn apply(&mut self, input: StageInput, out: &mut Outputs) {
        let mut next = Some(input);
        // No output may follow the end of the chain.
        while let Some(input) = next.filter(|_| !self.finished) {
            if let (true, StageInput::Ended { seat, exit }) = (self.setup.tapped, &input) {
                out.push(Output::Tap(Observation::Ended { seat: *seat, how: exit.description() }));
            }
            let mut outputs = std::mem::take(&mut self.stage_outputs);
            self.run_stages(input, &mut outputs);
            for output in outputs.drain(..) {
                self.perform(output, out);
                if self.finished {
                    break;
                }
            }
            self.stage_outputs = outputs;
            next = self.deferred.pop_front();
        }
    }

    fn run_stages(&mut self, input: StageInput, outputs: &mut Vec<StageOutput>) {
        let Some(injector) = &mut self.fault_injector else {
            return self.stages.handle(self.now, input, outputs);
        };
        if let Some(input) = injector.before(input, &self.stages) {
            self.stages.handle(self.now, input, outputs);
        }
        for input in injector.after(outputs, &self.stages) {
            self.stages.handle(self.now, input, outputs);
        }
    }

    fn perform(&mut self, output: StageOutput, out: &mut Outputs) {
        match output {
            StageOutput::Deliver { to, toward, message } => self.deliver(to, toward, &message, out),
            StageOutput::Prepare(seats) => self.prepare_seats(&seats, out),
            StageOutput::Start(seat) => self.start(seat, out),
            StageOutput::Revert { seat, why } => self.revert_seat(seat, why, out),
            StageOutput::Discard(seat) => self.reset_seat(seat, out),
            StageOutput::Output(output) => out.push(output),
            StageOutput::Finish(ending) => {
                self.finished = true;
                self.seats().for_each(|seat| self.forget_unconfirmed_greeting(seat, out));
                out.push(Output::Finish(ending));
            }
        }
    }

    fn start(&mut self, seat: Seat, out: &mut Outputs) {
        let now = self.now;
        let peer = self.peer_mut(seat);
        peer.started(now);
        let incarnation = peer.incarnation;
        out.push(Output::Start { seat, incarnation });
    }

    /// Encodes a message for a seat, and appends it to the queue of its link.
    fn deliver(&mut self, to: Seat, toward: Side, message: &Message, out: &mut Outputs) {
        if self.setup.tapped {
            let (dialect, message) = (self.dialect(to), message.clone());
            out.push(Output::Tap(Observation::Delivered { seat: to, toward, dialect, message }));
        }
        let peer = &mut self.peers[to.index()];
        peer.null_id_errors.on_sent(message);
        let port = peer.port_toward(toward);
        self.write(LinkId { seat: to, port }, toward, message, out);
        // The first message to an SCP proxy on its relay link is the answer to `initialize`.
        if port == Port::Relay {
            let queue = out.queue_mut(LinkId::main(to));
            let initialized = self.peers[to.index()]
                .dialect
                .proxy_mut()
                .and_then(|it| it.on_successor_initialized(queue));
            self.deferred.extend(initialized.map(|(toward, message)| StageInput::Arrived {
                from: to,
                toward,
                message,
            }));
        }
    }

    /// Appends a message to the queue of a link. A message for a peer that has closed its input is dropped.
    pub(crate) fn write(
        &mut self,
        link: LinkId,
        toward: Side,
        message: &Message,
        out: &mut Outputs,
    ) {
        let peer = &mut self.peers[link.seat.index()];
        if !peer.link_state(link.port).writable {
            return;
        }
        if let Some(dialect) = peer.dialect_at(link.port) {
            dialect.encode(toward, message, out.queue_mut(link));
        }
        peer.link_state_mut(link.port).unread_since.get_or_insert(self.now);
        peer.update_full(link, self.setup.watermarks, out);
    }

    /// Reports the end of each peer that has ended and whose lines have all been handled. A component that ended during
    /// its first greeting is started again with another greeting instead.
    fn finish_ended_peers(&mut self, out: &mut Outputs) {
        for seat in self.seats() {
            if self.finished {
                return;
            }
            let now = self.now;
            let Some(how) = self.peers[seat.index()].confirmed_end(now, seat == Seat::OUTER) else {
                continue;
            };
            let has_been_up = self.router().was_initialized(seat);
            let mut greeting = Vec::new();
            // After a restart, a failed greeting counts as a failure of the component (see `reset_seat`).
            let proxy = self.peer_mut(seat).dialect.proxy_mut().filter(|_| !has_been_up);
            if proxy.is_some_and(|it| it.retry_on_restart(&mut greeting)) {
                let last_output = self.peer_mut(seat).reset();
                let exit = Exit { last_output, ..Exit::new(how) };
                out.clear(LinkId::main(seat));
                out.clear(LinkId::relay(seat));
                out.push(Output::Discard(seat));
                out.queue_mut(LinkId::main(seat)).buffer().extend_from_slice(&greeting);
                self.record_greeting(seat, out);
                self.apply(StageInput::GreetingRetried { seat, exit }, out);
                self.start(seat, out);
                continue;
            }
            self.peer_mut(seat).termination.is_handled = true;
            self.end(seat, how, out);
        }
    }

    fn on_tick(&mut self, out: &mut Outputs) {
        let now = self.now;
        let stopped = self.stopped_readers().map(|(_, due)| due);
        if stopped.chain(self.stages.deadline()).all(|due| due > now) {
            return;
        }
        for _ in 0..self.peers.len() {
            if self.finished {
                return;
            }
            match self.overdue(now, out) {
                Some(Overdue::Unresponsive(seat, how)) => self.give_up(seat, how, out),
                Some(Overdue::Blocked(seat)) => self.stages.restart_timeouts(now, seat),
                None => break,
            }
        }
        self.restart_barrier_timeouts(out);
        self.apply(StageInput::Tick, out);
    }

    /// The next component that has exceeded a timeout.
    pub fn overdue(&self, now: Time, out: &Outputs) -> Option<Overdue> {
        let stopped = self.stopped_readers().find(|(_, due)| *due <= now);
        if let Some((seat, _)) = stopped {
            return Some(Overdue::Unresponsive(
                seat,
                ExitCause::StoppedReading(self.queued(seat, out)),
            ));
        }
        let (seat, how) = self.stages.overdue(now)?;
        match how {
            // The component has written bytes. Its link is paused, because one of its neighbours does not read.
            ExitCause::Unresponsive { .. } if self.is_blocked(seat) => Some(Overdue::Blocked(seat)),
            how => Some(Overdue::Unresponsive(seat, how)),
        }
    }

    /// The components whose queue is full although they are not blocked, each with the time at which it is considered
    /// stuck.
    fn stopped_readers(&self) -> impl Iterator<Item = (Seat, Time)> {
        self.stages.timeouts().prompt.into_iter().flat_map(move |limit| {
            let seats = self.seats().skip(1).filter(|seat| !self.is_blocked(*seat));
            seats.filter_map(move |seat| {
                let unread = self.peers[seat.index()].full_since()?;
                Some((seat, unread.max(self.stages.last_activity(seat)?).plus(limit)))
            })
        })
    }

    /// Whether a link of a peer is paused and has unread bytes. Such a peer may be unable to continue.
    fn is_blocked(&self, seat: Seat) -> bool {
        let peer = &self.peers[seat.index()];
        peer.ports().any(|port| peer.link_state(port).is_blocked())
    }

    /// Restarts the timeouts of barriers at components that cannot respond: the core has not read all their output, or
    /// has not written all their input. A component that is paused and has written nothing can respond.
    fn restart_barrier_timeouts(&mut self, out: &Outputs) {
        for seat in self.seats() {
            let peer = &self.peers[seat.index()];
            let cannot_respond = peer.ports().any(|port| {
                let queued = out.queued(LinkId { seat, port }) + peer.backlog(port);
                peer.link_state(port).is_blocked() || queued > 0
            });
            if cannot_respond || self.stages.is_gate_closed(seat) {
                self.stages.restart_barrier_timeout(self.now, seat);
            }
        }
    }

    /// The load of a seat, for flow control. Held messages count as queued. During session replay, the limit of held
    /// messages is higher, because the component may need an answer from its neighbours.
    fn link_load(&self, seat: Seat, out: &Outputs) -> LinkLoad {
        let peer = &self.peers[seat.index()];
        let (_, held) = self.stages.held(seat);
        let marks = self.setup.watermarks;
        let limit = if self.router().is_replaying(seat) { marks.cap / 4 } else { marks.high };
        let gate_closed = self.stages.is_gate_closed(seat);
        let mut load = LinkLoad { queued: 0, full: held > limit, unread: false, gate_closed };
        for port in peer.ports() {
            let state = peer.link_state(port);
            let queued = out.queued(LinkId { seat, port }) + peer.backlog(port);
            load.queued = load.queued.max(queued);
            load.full |= state.full;
            load.unread |= state.readable;
        }
        load.queued += held;
        load
    }

    /// Pauses the links that feed a full queue, and resumes them when it has drained.
    fn apply_flow_control(&mut self, out: &mut Outputs) {
        if self.finished {
            return;
        }
        let marks = self.setup.watermarks;
        // This runs after every input, and usually there is nothing to do.
        if self.reads_clients
            && !self.peers.iter().any(Peer::needs_flow_control)
            && !self.stages.holds_any()
        {
            return;
        }
        // A bypassed component feeds no queue: its neighbours are connected directly.
        let is_present =
            |seat: &Seat| !matches!(self.router().state(*seat), Some(SeatState::Bypassed));
        let seats = std::iter::once(Seat::OUTER).chain(self.chain().seats());
        let seats: Vec<Seat> = seats.filter(is_present).collect();
        let loads: Vec<_> = seats.iter().map(|seat| self.link_load(*seat, out)).collect();
        let decision = flow_control::decide(&loads, self.chain().mode == Mode::Proxy, marks.cap);
        for (&seat, pause) in seats.iter().zip(decision.paused) {
            if self.is_blocked(seat) {
                self.stages.restart_barrier_timeout(self.now, seat);
            }
            self.pause(seat, pause, out);
        }
        if let Some(index) = decision.stuck {
            self.give_up_stuck(seats[index], loads[index].queued, out);
            // Its neighbours may be able to continue. Its queue is empty now, so the recursion ends.
            return self.apply_flow_control(out);
        }
        let reads_clients = loads.iter().all(|it| it.queued <= marks.mcp);
        if reads_clients != self.reads_clients {
            self.reads_clients = reads_clients;
            out.push(Output::ReadClients(reads_clients));
        }
    }

    fn pause(&mut self, seat: Seat, pause: bool, out: &mut Outputs) {
        let now = self.now;
        let peer = &mut self.peers[seat.index()];
        for port in peer.ports() {
            let state = peer.link_state_mut(port);
            if state.paused != pause {
                state.paused = pause;
                if !pause {
                    peer.termination.restart_timeout(now);
                }
                out.push(Output::Read { link: LinkId { seat, port }, read: !pause });
            }
        }
    }

    /// A component does not read, and all other peers wait for it. It is treated as ended.
    fn give_up_stuck(&mut self, seat: Seat, queued: usize, out: &mut Outputs) {
        let (now, link) = (self.now, LinkId::main(seat));
        out.clear(link);
        out.push(Output::Close(link));
        let peer = self.peer_mut(seat);
        *peer.link_state_mut(Port::Main) = Default::default();
        peer.termination.on_exit(now, ExitCause::StoppedReading(queued));
        self.finish_ended_peers(out);
    }

    pub(crate) fn warn(&self, seat: Seat, text: String, out: &mut Outputs) {
        out.push(Output::Report(Diagnostic { level: Level::Warn, seat, text }));
    }
}
