//! Conductors, participants and the queues between them.

use std::collections::VecDeque;

use acp_wire::Side;
use bytes::Bytes;
use engine::{Command, Input, Output};
use router::{Ending, Exit, ExitCause, Seat, Time};

use super::fault::FaultInjector;
use super::message_log::{MessageLog, violation};
use super::op::Op;
use super::participant::ParticipantState;
use super::{Check, Violation};
use crate::shell::{Effect, Shell};
use crate::stub::Frame;
use crate::topology::{ParticipantRole, SeatPeer, Topology};

/// In the error of a conductor: a component has not done its part of the handshake in time.
const SILENT: &str = "did not answer initialize";

/// The conductors and participants of a topology, and the pipes between them.
#[allow(missing_debug_implementations)] // a shell has none
pub struct Simulation {
    pub(super) topology: Topology,
    pub(super) participants: Vec<ParticipantState>,
    pub(super) messages: MessageLog,
    /// A participant has exited, or a conductor was stopped. From then on, not every message must arrive.
    pub(super) disturbed: bool,
    /// Components refuse some greetings. No message must reach a component before it has accepted one.
    pub refuses_greetings: bool,
    /// All events as text, if wanted.
    pub trace: Option<Vec<String>>,
    pub(super) nodes: Vec<Node>,
    pipes: Vec<Pipe>,
    pub(super) now: Time,
}

/// The state of a conductor.
pub(super) struct Node {
    pub(super) shell: Shell,
    pub(super) finished: bool,
    /// A participant of this conductor has exited, or the conductor was stopped.
    disturbed: bool,
    seats: Vec<SeatState>,
}

/// The state of a seat of a conductor.
#[derive(Default)]
struct SeatState {
    started: bool,
    /// The conductor knows that its peer has exited.
    empty: bool,
    /// The index of the pipe from the peer in this seat.
    from: usize,
    /// The index of the pipe to it.
    to: usize,
}

/// Lines on their way from one peer to another.
struct Pipe {
    to: PipeEnd,
    /// The participant that writes to this pipe. `None`: a conductor does.
    sender: Option<usize>,
    items: VecDeque<PipeItem>,
}

/// The reader of a pipe.
#[derive(Clone, Copy)]
enum PipeEnd {
    Participant(usize),
    Conductor(usize, Seat),
}

enum PipeItem {
    Line(Bytes),
    End(Exit),
}

impl Simulation {
    /// Sets up the conductors and participants. The fault is injected into the outermost conductor.
    pub fn new(topology: Topology, injector: Option<FaultInjector>) -> Simulation {
        let mut nodes: Vec<Node> = (0..)
            .zip(&topology.conductors)
            .map(|(seed, config)| Node {
                shell: Shell::new(config.setup(seed)),
                finished: false,
                disturbed: false,
                seats: config.seats.iter().map(|_| SeatState::default()).collect(),
            })
            .collect();
        if let Some(injector) = injector {
            nodes[0].shell =
                Shell::with_interceptor(topology.conductors[0].setup(0), Box::new(injector));
        }
        let mut pipes = Vec::new();
        let mut pipe = |to, sender| {
            pipes.push(Pipe { to, sender, items: VecDeque::new() });
            pipes.len() - 1
        };
        for (conductor, config) in topology.conductors.iter().enumerate() {
            for (index, peer) in config.seats.iter().enumerate() {
                let seat = Seat(index as u16);
                match *peer {
                    SeatPeer::Participant(participant) => {
                        let seat_state = &mut nodes[conductor].seats[index];
                        seat_state.from =
                            pipe(PipeEnd::Conductor(conductor, seat), Some(participant));
                        seat_state.to = pipe(PipeEnd::Participant(participant), None);
                    }
                    SeatPeer::Conductor(nested) if index > 0 => {
                        let up = pipe(PipeEnd::Conductor(conductor, seat), None);
                        let down = pipe(PipeEnd::Conductor(nested, Seat::OUTER), None);
                        (nodes[conductor].seats[index].from, nodes[conductor].seats[index].to) =
                            (up, down);
                        (nodes[nested].seats[0].from, nodes[nested].seats[0].to) = (down, up);
                    }
                    SeatPeer::Conductor(_) => {} // its parent has the pipes
                }
            }
        }
        let mut participants: Vec<ParticipantState> =
            topology.participants.iter().map(|_| ParticipantState::default()).collect();
        participants[0].started = true;
        Simulation {
            topology,
            participants,
            messages: MessageLog::default(),
            disturbed: false,
            refuses_greetings: false,
            trace: None,
            nodes,
            pipes,
            now: Time(0),
        }
    }

    /// Makes every conductor write a journal.
    pub fn record(&mut self) {
        self.nodes.iter_mut().for_each(|node| node.shell.record());
    }

    /// The journals of all conductors.
    pub fn journals(&mut self) -> Vec<Vec<u8>> {
        self.nodes.iter_mut().map(|node| node.shell.journal()).collect()
    }

    /// Makes the proxy of this number skip its successor in the handshake, if there is one.
    pub fn set_skips_successor(&mut self, index: usize) {
        if let Some(participant) = self.participants.get_mut(index) {
            participant.skips_successor =
                self.topology.participants[index].role == ParticipantRole::Proxy;
        }
    }

    /// Performs one step of a schedule.
    ///
    /// # Errors
    /// The first rule that was broken.
    pub fn apply(&mut self, op: Op) -> Check {
        let count = self.participants.len();
        let participant = |index: u8| usize::from(index) % count;
        let side = |what: u8| if what.is_multiple_of(2) { Side::Agent } else { Side::Editor };
        // With two handshakes at once and a proxy that skips its successor, it is not defined in which handshake the
        // conductor initializes the successor.
        let once =
            self.participants[0].greeted && self.participants.iter().any(|it| it.skips_successor);
        match op {
            Op::Initialize | Op::Reinitialize(_) if once => {}
            Op::Move(pipe) => return self.move_one(usize::from(pipe)).map(drop),
            Op::Request(index, what) => {
                self.send_request(participant(index), side(what), method(what))?;
            }
            Op::Notify(index, what) => {
                self.send_notification(participant(index), side(what), method(what))
            }
            Op::Answer(index, what) => {
                let index = participant(index);
                if let Some(request) = self.pick_unanswered(index, what) {
                    self.send_answer(index, request, what.is_multiple_of(7));
                }
            }
            Op::Cancel(index, what) => self.cancel_some(participant(index), what),
            Op::Stray(index, what) => {
                let index = participant(index);
                if self.participants[index].started && !self.participants[index].silent {
                    self.send_stray_answer(index, what);
                }
            }
            Op::Initialize => {
                self.send_request(0, Side::Agent, "initialize")?;
                (self.participants[0].greeted, self.participants[0].live) = (true, true);
            }
            Op::Reinitialize(index) => {
                let index = participant(index);
                let ready = self.participants[index].greeted
                    && self.participants[index].unanswered.is_empty();
                if ready && self.topology.participants[index].role == ParticipantRole::Proxy {
                    self.send_request(index, Side::Agent, "initialize")?;
                }
            }
            Op::Wait(what) => return self.wait(what),
            Op::Exit(index, what) => self.exit(participant(index), what),
            Op::Stop => return self.stop_conductor(0),
        }
        Ok(())
    }

    pub(super) fn pick_unanswered(&self, index: usize, what: u8) -> Option<usize> {
        let participant = &self.participants[index];
        // Greetings are answered at once: see `receive_call`.
        let open = participant.unanswered.iter().filter(|it| {
            self.messages.request(**it).is_some_and(|request| request.method != "initialize")
        });
        let open: Vec<_> = open.collect();
        let pick = open.get(usize::from(what) % open.len().max(1))?;
        (!participant.silent).then_some(**pick)
    }

    fn cancel_some(&mut self, index: usize, what: u8) {
        if self.participants[index].silent || !self.participants[index].started {
            return;
        }
        let (pick, wrapped) = (usize::from(what / 4), what.is_multiple_of(2));
        if what % 4 == 3 {
            let unanswered = &self.participants[index].unanswered;
            if let Some(request) = unanswered.get(pick % unanswered.len().max(1)).copied() {
                self.send_foreign_cancel(index, request, wrapped);
            }
            return;
        }
        // For a proxy that skips its successor, the conductor passes on the greeting, and also its cancellation.
        let passed_on = |to: usize, method: &str| {
            self.participants[to].skips_successor && method == "initialize"
        };
        let own = self.messages.requests().filter(|(_, message, request)| {
            message.from == index && !passed_on(message.to, &request.method)
        });
        let own: Vec<_> = own.collect();
        let recent = &own[own.len().saturating_sub(4)..];
        if let Some((request, ..)) = recent.get(pick % recent.len().max(1)) {
            let request = *request;
            self.send_cancel(index, request, wrapped);
        }
    }

    fn exit(&mut self, index: usize, what: u8) {
        if self.participants[index].silent || !self.participants[index].started {
            return;
        }
        let cause = match (index, what % 4) {
            (0, 0 | 1) => ExitCause::ClosedOutput,
            (0, _) => ExitCause::ClosedInput,
            (_, 0) => ExitCause::Signal(9),
            (_, 1) => ExitCause::ClosedOutput,
            (_, status) => ExitCause::Status(status.into()),
        };
        self.trace(|| format!("{index} exits: {cause:?}"));
        self.participants[index].silent = true;
        self.participants[index].gone = index > 0 || cause == ExitCause::ClosedInput;
        let (conductor, seat) = self.seat(index);
        let pipe = self.nodes[conductor].seats[seat.index()].from;
        self.pipes[pipe].items.push_back(PipeItem::End(Exit::new(cause)));
    }

    /// Lets time pass up to the next deadline, or sends a tick before the deadline, which must change nothing.
    fn wait(&mut self, what: u8) -> Check {
        if !what.is_multiple_of(4) {
            let conductor = usize::from(what) % self.nodes.len();
            let effects = self.nodes[conductor].shell.handle(self.now, Input::Tick);
            return match effects.is_empty() {
                true => Ok(()),
                false => violation(format!("a tick before the deadline has effects: {effects:?}")),
            };
        }
        self.pass_time().map(drop)
    }

    /// Lets time pass up to the next deadline. Returns whether there was one.
    pub(super) fn pass_time(&mut self) -> Result<bool, Violation> {
        let deadlines = self.nodes.iter().filter_map(|node| node.shell.core().deadline());
        let Some(next) = deadlines.min() else { return Ok(false) };
        self.now = self.now.max(next);
        self.trace(|| format!("time {}", next.0));
        for conductor in 0..self.nodes.len() {
            let effects = self.nodes[conductor].shell.tick(self.now);
            self.perform(conductor, effects)?;
        }
        Ok(true)
    }

    /// A participant writes a line to its pipe.
    pub(super) fn send(&mut self, index: usize, line: String) {
        self.trace(|| format!("{index} > {line}"));
        let (conductor, seat) = self.seat(index);
        let pipe = self.nodes[conductor].seats[seat.index()].from;
        self.pipes[pipe].items.push_back(PipeItem::Line(line.into()));
    }

    /// Delivers one line, if there is any. Returns whether there was one.
    pub(super) fn move_one(&mut self, pick: usize) -> Result<bool, Violation> {
        let count = self.pipes.iter().filter(|pipe| !pipe.items.is_empty()).count();
        if count == 0 {
            return Ok(false);
        }
        let mut busy = self.pipes.iter_mut().filter(|pipe| !pipe.items.is_empty());
        let Some(pipe) = busy.nth(pick % count) else { return Ok(false) };
        let (to, sender) = (pipe.to, pipe.sender);
        let Some(item) = pipe.items.pop_front() else { return Ok(false) };
        match (to, item) {
            (PipeEnd::Participant(index), PipeItem::Line(line)) => {
                if !self.participants[index].gone {
                    self.trace(|| format!("{index} < {}", String::from_utf8_lossy(&line)));
                    self.receive(index, &line)?;
                }
            }
            (PipeEnd::Participant(_), PipeItem::End(_)) => {}
            (PipeEnd::Conductor(conductor, seat), PipeItem::Line(line)) => {
                if sender.is_some() && !self.nodes[conductor].finished {
                    self.accept(&line);
                }
                let effects = self.nodes[conductor].shell.line(self.now, seat, line);
                self.perform(conductor, effects)?;
            }
            (PipeEnd::Conductor(conductor, seat), PipeItem::End(why)) => {
                // A component that has closed its output may still read. The conductor ends it a second later.
                let reads = why.cause == ExitCause::ClosedOutput;
                self.nodes[conductor].seats[seat.index()].empty = !reads;
                self.disturb(conductor);
                let effects = self.nodes[conductor].shell.exit(self.now, seat, why);
                self.perform(conductor, effects)?;
            }
        }
        Ok(true)
    }

    /// Marks the message of a line as read by a conductor.
    fn accept(&mut self, line: &[u8]) {
        let Some(frame) = Frame::split(line) else { return };
        let outer = frame.params.or(frame.result).or(frame.error);
        let inner = outer.and_then(Frame::split).and_then(|it| it.params);
        let texts =
            [outer, inner].into_iter().flatten().filter_map(|it| std::str::from_utf8(it).ok());
        if let Some(serial) = texts.filter_map(|text| self.messages.find(text)).next() {
            self.messages.accept(serial);
        }
    }

    /// Sends a conductor the command to stop.
    pub(super) fn stop_conductor(&mut self, conductor: usize) -> Check {
        self.trace(|| format!("conductor {conductor} receives the command to stop"));
        self.disturb(conductor);
        let effects = self.nodes[conductor].shell.handle(self.now, Input::Command(Command::Stop));
        self.perform(conductor, effects)
    }

    fn disturb(&mut self, conductor: usize) {
        self.nodes[conductor].disturbed = true;
        self.disturbed = true;
    }

    pub(super) fn perform(&mut self, conductor: usize, effects: Vec<Effect>) -> Check {
        for effect in effects {
            if self.nodes[conductor].finished {
                return violation(format!(
                    "conductor {conductor} does something after it has finished: {effect:?}"
                ));
            }
            let output = match effect {
                Effect::Line { to, line } => {
                    self.deliver(conductor, to.seat, line)?;
                    continue;
                }
                Effect::Output(output) => output,
            };
            match output {
                Output::Start { seat, .. } => {
                    let seat_state = &mut self.nodes[conductor].seats[seat.index()];
                    if std::mem::replace(&mut seat_state.started, true) {
                        return violation(format!("{seat:?} is started twice"));
                    }
                    if let SeatPeer::Participant(index) =
                        self.topology.conductors[conductor].seats[seat.index()]
                    {
                        self.participants[index].started = true;
                    }
                }
                Output::Report(notice) if notice.text.contains("sent a bad line") => {
                    return violation(format!("a line is refused: {}", notice.text));
                }
                Output::Report(_) => {}
                Output::Finish(ending) => self.finish(conductor, &ending)?,
                output => return violation(format!("an unexpected output: {output:?}")),
            }
        }
        Ok(())
    }

    fn deliver(&mut self, conductor: usize, to: Seat, line: Bytes) -> Check {
        let seat_state = &self.nodes[conductor].seats[to.index()];
        if seat_state.empty || (to.is_component() && !seat_state.started) {
            return violation(format!("a line for {to:?}, which has no component: {line:?}"));
        }
        let pipe = seat_state.to;
        if let SeatPeer::Participant(index) = self.topology.conductors[conductor].seats[to.index()]
            && !self.participants[index].greeted
            && let Some(method) = Frame::split(&line).and_then(|frame| frame.method)
        {
            if !matches!(method, b"\"initialize\"" | b"\"proxy/initialize\"") {
                return violation(format!("{index} receives a line before `initialize`: {line:?}"));
            }
            self.participants[index].greeted = true;
        }
        self.pipes[pipe].items.push_back(PipeItem::Line(line));
        Ok(())
    }

    fn finish(&mut self, conductor: usize, ending: &Ending) -> Check {
        self.trace(|| format!("conductor {conductor} finishes: {ending:?}"));
        let reason = match ending {
            Ending::Failed(why) if why.contains(SILENT) => {
                self.mark_timed_out(why);
                self.handshake_is_open()
            }
            _ => self.nodes[conductor].disturbed,
        };
        if !reason {
            return violation(format!(
                "conductor {conductor} finishes without a reason: {ending:?}"
            ));
        }
        self.disturbed = true;
        self.nodes[conductor].finished = true;
        let status = if *ending == Ending::Clean { 0 } else { 1 };
        for (index, peer) in self.topology.conductors[conductor].seats.iter().enumerate() {
            if let SeatPeer::Conductor(_) = peer {
                let cause =
                    if index == 0 { ExitCause::Status(status) } else { ExitCause::ClosedOutput };
                let pipe = self.nodes[conductor].seats[index].to;
                self.pipes[pipe].items.push_back(PipeItem::End(Exit::new(cause)));
            }
        }
        Ok(())
    }

    /// Marks the component whose handshake has timed out. Its requests need no answer.
    fn mark_timed_out(&mut self, why: &str) {
        for (participant, state) in self.topology.participants.iter().zip(&mut self.participants) {
            state.timed_out |= why.contains(&format!("'{}'", participant.name));
        }
    }

    /// Whether a component has not answered its greeting, or a greeting or its answer is on its way.
    fn handshake_is_open(&self) -> bool {
        let unanswered = self.messages.requests().any(|(_, message, request)| {
            let accepted = request.answer.is_some_and(|it| self.messages.sent[it].accepted);
            // An answer may be on its way between two conductors.
            let done = accepted && (self.nodes.len() == 1 || request.answered);
            request.method == "initialize" && message.to != 0 && message.accepted && !done
        });
        let greets = |item: &PipeItem| match item {
            PipeItem::Line(line) => memchr::memmem::find(line, b"initialize\"").is_some(),
            PipeItem::End(_) => false,
        };
        unanswered || self.pipes.iter().any(|pipe| pipe.items.iter().any(greets))
    }

    pub(super) fn anyone_finished(&self) -> bool {
        self.nodes.iter().any(|node| node.finished)
    }

    fn trace(&mut self, text: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(text());
        }
    }
}

/// One of four methods.
fn method(what: u8) -> &'static str {
    ["session/prompt", "_x/y", "session/update", "$/progress"][usize::from(what / 2) % 4]
}
