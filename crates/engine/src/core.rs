//! The one way in: what happens to a chain, and what is to be done about it.

use std::collections::VecDeque;

use acp_wire::{LinkProtocol, Message, Side, Sink};
use bytes::Bytes;
use mcp::Broker;
use router::{Chain, Diagnostic, Exit, ExitCause, Level, Mode, Router, Seat, SeatState, Time};

use crate::fault_injection::FaultInjector;
use crate::flow_control::{self, LinkLoad};
use crate::input::{Input, Line, Link, Observation, Output, Outputs, Port, Setup};
use crate::peer::Peer;
use crate::stage_io::{StageInput, StageOutput};
use crate::stages::Stages;

/// A component that should have acted by now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Overdue {
    /// The component is given up.
    Unresponsive(Seat, ExitCause),
    /// The component has acted, and is not read. It gets more time.
    Blocked(Seat),
}

/// The core of one chain: inputs go in, outputs come out. See the crate's documentation.
#[derive(Debug)]
pub struct Core {
    pub(crate) setup: Setup,
    pub(crate) stages: Stages,
    /// By seat: the outer pipe, then the components.
    pub(crate) peers: Vec<Peer>,
    pub(crate) now: Time,
    /// Kept, so that a busy chain allocates nothing per message.
    actions: Vec<StageOutput>,
    /// Events that came up while the actions of another event were performed.
    later: VecDeque<StageInput>,
    /// The `initialize` that waits for the chain to be completed.
    pub(crate) extension: Option<Message>,
    /// MCP clients are listened to.
    listens: bool,
    finished: bool,
    /// Only in tests.
    faults: Option<Box<dyn FaultInjector>>,
}

impl Core {
    pub fn new(setup: Setup) -> Core {
        let stages = make_stages(&setup);
        let mut core = Core {
            stages,
            setup,
            peers: Vec::new(),
            now: Time::default(),
            actions: Vec::new(),
            later: VecDeque::new(),
            extension: None,
            listens: true,
            finished: false,
            faults: None,
        };
        core.create_peers();
        core
    }

    /// Plants a fault, for a test.
    pub fn inject_faults(&mut self, faults: Box<dyn FaultInjector>) {
        self.faults = Some(faults);
    }

    pub fn stages(&self) -> &Stages {
        &self.stages
    }

    pub fn router(&self) -> &Router {
        self.stages.router()
    }

    pub fn chain(&self) -> &Chain {
        self.router().chain()
    }

    pub(crate) fn peer_mut(&mut self, seat: Seat) -> &mut Peer {
        &mut self.peers[seat.index()]
    }

    /// The peer of a seat, for status.
    pub fn peer(&self, seat: Seat) -> &Peer {
        &self.peers[seat.index()]
    }

    /// What the peer of a seat speaks, for people.
    pub fn dialect(&self, seat: Seat) -> LinkProtocol {
        self.peers[seat.index()].dialect.protocol()
    }

    fn seats(&self) -> impl Iterator<Item = Seat> + use<> {
        (0..self.peers.len() as u16).map(Seat)
    }

    /// How many bytes wait to be read by a peer, for status.
    pub fn queued(&self, seat: Seat, out: &Outputs) -> usize {
        let peer = &self.peers[seat.index()];
        peer.ports().map(|port| out.queued(Link { seat, port }) + peer.backlog(port)).sum()
    }

    /// When to call [`handle`](Core::handle) with [`Input::Tick`], if nothing happens before.
    pub fn deadline(&self) -> Option<Time> {
        if self.finished {
            return None;
        }
        let peers = self.peers.iter().flat_map(|it| [it.end_deadline(), it.handshake_deadline()]);
        let stopped = self.stopped_readers().map(|(_, due)| due);
        peers.flatten().chain(stopped).chain(self.stages.deadline()).min()
    }

    /// The one way in. What is to be done is appended to `out`, in order.
    pub fn handle(&mut self, now: Time, input: Input, out: &mut Outputs) {
        if self.finished {
            // What is queued is still written.
            if let Input::Written { link, count } = input {
                out.consume(link, count);
            }
            return;
        }
        self.now = now;
        match input {
            Input::Line { link, line } => self.on_line(link, line, out),
            Input::Readable { link, readable } => {
                self.peer_mut(link.seat).pipe_mut(link.port).readable = readable;
            }
            Input::OutputClosed { link, rest } => self.on_ended(link, rest, out),
            Input::Written { link, count } => {
                out.consume(link, count);
                self.peers[link.seat.index()].note_read(now, link, out);
                self.peers[link.seat.index()].update_full(link, self.setup.watermarks, out);
            }
            Input::InputClosed(link) => self.on_unread(link, out),
            Input::NotStarted { seat, life, why } => {
                if self.is_current(seat, life) {
                    self.peer_mut(seat).running = false;
                    self.apply(
                        StageInput::Left { seat, why: Exit::new(ExitCause::NotStarted(why)) },
                        out,
                    );
                }
            }
            Input::Exited { seat, life, how } => {
                if self.is_current(seat, life) {
                    let peer = self.peer_mut(seat);
                    peer.running = false;
                    peer.termination.ended(now, how);
                }
            }
            Input::Stderr { seat, life, lines } => {
                if self.is_current(seat, life) {
                    lines.into_iter().for_each(|line| self.peer_mut(seat).add_output_line(line));
                }
            }
            Input::RelayOpened { seat, life, servers } => {
                if self.is_current(seat, life) {
                    self.on_relay_opened(seat, servers, out);
                }
            }
            Input::RelayConnected { seat, life } => {
                if self.is_current(seat, life) {
                    self.on_relay_joined(seat);
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
            Input::Command(command) => self.apply(StageInput::Command(command), out),
            Input::Tick => self.on_tick(out),
        }
        self.finish_ended_peers(out);
        if !self.finished {
            self.check_greeting_timeouts(out);
            self.apply_flow_control(out);
        }
    }

    fn is_current(&self, seat: Seat, life: u32) -> bool {
        self.peers.get(seat.index()).is_some_and(|peer| peer.life == life)
    }

    pub(crate) fn on_line(&mut self, link: Link, line: Line, out: &mut Outputs) {
        match line {
            Line::Text(line) => self.on_text(link, &line, out),
            Line::TooLong { found, length } => self.on_long_line(link, &found, length, out),
        }
        self.settle_lost(link, out);
    }

    fn on_text(&mut self, link: Link, line: &Bytes, out: &mut Outputs) {
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

    /// A peer has closed its end of a link.
    fn on_ended(&mut self, link: Link, rest: Option<Line>, out: &mut Outputs) {
        let (seat, now) = (link.seat, self.now);
        let peer = self.peer_mut(seat);
        peer.pipe_mut(link.port).open = false;
        peer.pipe_mut(link.port).readable = false;
        match link.port {
            Port::Main => peer.termination.closed(now, ExitCause::ClosedOutput),
            Port::Relay => self.lose_relay(seat, out),
        }
        // Half a message of a component that died over it says nothing that its end does not say better.
        let half = |line: &Line| {
            matches!(line, Line::Text(text)
                if text.starts_with(b"{") && Message::parse(text).is_err())
        };
        let rest = rest.filter(|line| !(seat.is_component() && half(line)));
        rest.into_iter().for_each(|line| self.on_line(link, line, out));
    }

    /// A peer does not read a link any more.
    fn on_unread(&mut self, link: Link, out: &mut Outputs) {
        let (seat, now) = (link.seat, self.now);
        out.clear(link);
        let peer = self.peer_mut(seat);
        let pipe = peer.pipe_mut(link.port);
        (pipe.writable, pipe.full) = (false, false);
        match link.port {
            Port::Main => {
                peer.termination.closed(now, ExitCause::ClosedInput);
                peer.termination.left &= seat.is_component();
            }
            Port::Relay => self.lose_relay(seat, out),
        }
    }

    /// An SCP proxy has closed the pipe to the program that it takes for its successor, or that program has
    /// ended. Without it, the proxy can do its part no longer.
    fn lose_relay(&mut self, seat: Seat, out: &mut Outputs) {
        let (now, link) = (self.now, Link::relay(seat));
        let peer = self.peer_mut(seat);
        *peer.pipe_mut(Port::Relay) = Default::default();
        peer.termination.closed(now, ExitCause::ClosedSuccessor);
        out.clear(link);
        out.push(Output::Close(link));
    }

    /// Hands an event to the stages and performs their actions.
    pub(crate) fn apply(&mut self, event: StageInput, out: &mut Outputs) {
        let mut next = Some(event);
        // Nothing follows the end.
        while let Some(event) = next.filter(|_| !self.finished) {
            if let (true, StageInput::Left { seat, why }) = (self.setup.tapped, &event) {
                out.push(Output::Tap(Observation::Left { seat: *seat, how: why.description() }));
            }
            let mut actions = std::mem::take(&mut self.actions);
            self.decide(event, &mut actions);
            for action in actions.drain(..) {
                self.perform(action, out);
                if self.finished {
                    break;
                }
            }
            self.actions = actions;
            next = self.later.pop_front();
        }
    }

    fn decide(&mut self, event: StageInput, actions: &mut Vec<StageOutput>) {
        let Some(faults) = &mut self.faults else {
            return self.stages.handle(self.now, event, actions);
        };
        if let Some(event) = faults.before(event, &self.stages) {
            self.stages.handle(self.now, event, actions);
        }
        for event in faults.after(actions, &self.stages) {
            self.stages.handle(self.now, event, actions);
        }
    }

    fn perform(&mut self, action: StageOutput, out: &mut Outputs) {
        match action {
            StageOutput::Deliver { to, toward, message } => self.deliver(to, toward, &message, out),
            StageOutput::Start(seat) => self.start(seat, out),
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
        let life = peer.life;
        out.push(Output::Start { seat, life });
    }

    /// Queues a message for a seat.
    fn deliver(&mut self, to: Seat, toward: Side, message: &Message, out: &mut Outputs) {
        if self.setup.tapped {
            let (dialect, message) = (self.dialect(to), message.clone());
            out.push(Output::Tap(Observation::Delivered { seat: to, toward, dialect, message }));
        }
        let peer = &mut self.peers[to.index()];
        peer.null_id_errors.on_sent(message);
        let port = peer.port_toward(toward);
        self.write(Link { seat: to, port }, toward, message, out);
        // The first answer that an SCP proxy gets from its successor is that to `initialize`.
        if port == Port::Relay {
            let queue = out.queue_mut(Link::main(to));
            let told = self.peers[to.index()]
                .dialect
                .proxy_mut()
                .and_then(|it| it.on_successor_initialized(queue));
            self.later.extend(told.map(|(toward, message)| StageInput::Arrived {
                from: to,
                toward,
                message,
            }));
        }
    }

    /// Appends a message to the queue of a link. What is for a peer that does not read any more is dropped.
    pub(crate) fn write(&mut self, link: Link, toward: Side, message: &Message, out: &mut Outputs) {
        let peer = &mut self.peers[link.seat.index()];
        if !peer.pipe(link.port).writable {
            return;
        }
        if let Some(dialect) = peer.dialect_at(link.port) {
            dialect.encode(toward, message, out.queue_mut(link));
        }
        peer.pipe_mut(link.port).unread_since.get_or_insert(self.now);
        peer.update_full(link, self.setup.watermarks, out);
    }

    /// Acts on the end of peers, once all their lines have been handled. A component that did not survive its
    /// first greeting is restarted with another greeting.
    fn finish_ended_peers(&mut self, out: &mut Outputs) {
        for seat in self.seats() {
            if self.finished {
                return;
            }
            let now = self.now;
            let Some(how) = self.peers[seat.index()].confirmed_end(now, seat == Seat::OUTER) else {
                continue;
            };
            let stood = self.router().was_initialized(seat);
            let mut greeting = Vec::new();
            // After a restart, a greeting that fails counts as a failure (see `renew`).
            let proxy = self.peer_mut(seat).dialect.proxy_mut().filter(|_| !stood);
            if proxy.is_some_and(|it| it.retry_on_restart(&mut greeting)) {
                let why = Exit { cause: how, last_output: self.peer_mut(seat).vacate() };
                out.clear(Link::main(seat));
                out.clear(Link::relay(seat));
                out.push(Output::Discard(seat));
                out.queue_mut(Link::main(seat)).short().extend_from_slice(&greeting);
                self.record_greeting(seat, out);
                self.apply(StageInput::GreetingRetried { seat, why }, out);
                self.start(seat, out);
                continue;
            }
            self.peer_mut(seat).termination.left = true;
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
                Some(Overdue::Blocked(seat)) => self.stages.excuse(now, seat),
                None => break,
            }
        }
        self.restart_barrier_limits(out);
        self.apply(StageInput::Tick, out);
    }

    /// The next component that should have acted by now.
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
            // It has acted. It is not read, because a peer that it writes to does not read.
            ExitCause::Unresponsive { .. } if self.is_blocked(seat) => Some(Overdue::Blocked(seat)),
            how => Some(Overdue::Unresponsive(seat, how)),
        }
    }

    /// The components whose queues are full and that could read, and until when they have to.
    fn stopped_readers(&self) -> impl Iterator<Item = (Seat, Time)> {
        self.setup.rules.timeouts.prompt.into_iter().flat_map(move |limit| {
            let seats = self.seats().skip(1).filter(|seat| !self.is_blocked(*seat));
            seats.filter_map(move |seat| {
                let unread = self.peers[seat.index()].full_since()?;
                Some((seat, unread.max(self.stages.last_sign(seat)?).plus(limit)))
            })
        })
    }

    /// A peer has written something that is not read, so it cannot act.
    fn is_blocked(&self, seat: Seat) -> bool {
        let peer = &self.peers[seat.index()];
        peer.ports().any(|port| peer.pipe(port).is_blocked())
    }

    /// A component cannot act while its output waits to be read or its input to be written. A component
    /// that is paused and has written nothing could act, and is not excused.
    fn restart_barrier_limits(&mut self, out: &Outputs) {
        for seat in self.seats() {
            let peer = &self.peers[seat.index()];
            let is_excused = peer.ports().any(|port| {
                let queued = out.queued(Link { seat, port }) + peer.backlog(port);
                peer.pipe(port).is_blocked() || queued > 0
            });
            if is_excused || self.stages.is_gate_closed(seat) {
                self.stages.restart_barrier_limit(self.now, seat);
            }
        }
    }

    /// How full the queue of a seat is, with the messages that are held for it or for its next component. While that
    /// component learns, its neighbours are paused later: it may need an answer from them.
    fn link_load(&self, seat: Seat, out: &Outputs) -> LinkLoad {
        let peer = &self.peers[seat.index()];
        let (_, held) = self.stages.held(seat);
        let marks = self.setup.watermarks;
        let most = if self.router().is_replaying(seat) { marks.cap / 4 } else { marks.high };
        let closed = self.stages.is_gate_closed(seat);
        let mut load = LinkLoad { queued: 0, full: held > most, pending: false, closed };
        for port in peer.ports() {
            let pipe = peer.pipe(port);
            let queued = out.queued(Link { seat, port }) + peer.backlog(port);
            load.queued = load.queued.max(queued);
            load.full |= pipe.full;
            load.pending |= pipe.readable;
        }
        load.queued += held;
        load
    }

    /// Pauses the peers that feed a full queue, and lets them go on when it has drained.
    fn apply_flow_control(&mut self, out: &mut Outputs) {
        if self.finished {
            return;
        }
        let marks = self.setup.watermarks;
        // Most of the time there is nothing to do, and this is asked for every line.
        if self.listens && !self.peers.iter().any(Peer::is_regulated) && !self.stages.holds_any() {
            return;
        }
        // A component that is bypassed feeds no queue: those around it are neighbours.
        let there = |seat: &Seat| !matches!(self.router().state(*seat), Some(SeatState::Bypassed));
        let seats: Vec<Seat> = self.seats().filter(there).collect();
        let loads: Vec<_> = seats.iter().map(|seat| self.link_load(*seat, out)).collect();
        let verdict = flow_control::decide(&loads, self.chain().mode == Mode::Proxy, marks.cap);
        for (&seat, pause) in seats.iter().zip(verdict.paused) {
            if self.is_blocked(seat) {
                self.stages.restart_barrier_limit(self.now, seat);
            }
            self.pause(seat, pause, out);
        }
        if let Some(index) = verdict.stuck {
            self.give_up_stuck(seats[index], loads[index].queued, out);
            // Its neighbours may go on. It cannot be stuck again: its queue is empty.
            return self.apply_flow_control(out);
        }
        let listens = loads.iter().all(|it| it.queued <= marks.mcp);
        if listens != self.listens {
            self.listens = listens;
            out.push(Output::ReadClients(listens));
        }
    }

    fn pause(&mut self, seat: Seat, pause: bool, out: &mut Outputs) {
        let now = self.now;
        let peer = &mut self.peers[seat.index()];
        for port in peer.ports() {
            let pipe = peer.pipe_mut(port);
            if pipe.paused != pause {
                pipe.paused = pause;
                if !pause {
                    peer.termination.restart(now);
                }
                out.push(Output::Read { link: Link { seat, port }, read: !pause });
            }
        }
    }

    /// A component does not read, and all others wait for it. It is treated as if it had ended.
    fn give_up_stuck(&mut self, seat: Seat, queued: usize, out: &mut Outputs) {
        let (now, link) = (self.now, Link::main(seat));
        out.clear(link);
        out.push(Output::Close(link));
        let peer = self.peer_mut(seat);
        *peer.pipe_mut(Port::Main) = Default::default();
        peer.termination.ended(now, ExitCause::StoppedReading(queued));
        self.finish_ended_peers(out);
    }

    pub(crate) fn warn(&self, seat: Seat, text: String, out: &mut Outputs) {
        out.push(Output::Report(Diagnostic { level: Level::Warn, seat, text }));
    }
}

pub(crate) fn make_stages(setup: &Setup) -> Stages {
    let chain = setup.chain.clone();
    let bridge = setup.bridge.filter(|_| mcp::broker::is_needed(&chain));
    let broker = bridge.map(|policy| Broker::new(chain.clone(), policy, &setup.nonce));
    let mut stages = Stages::new(chain, setup.rules.clone(), broker);
    if setup.nested {
        stages.tell_guards();
    }
    stages
}
