//! [`World`]: a core, the participants, their links, and a clock. `shell` simulates the shell.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use acp_wire::{Message, Side};
use bytes::Bytes;
use engine::journal::Recorder;
use engine::{
    Backoff, ComponentPolicy, Core, Facts, Fallback, Input, KeptTelemetry, Line, Outputs, Restart,
    Rules, Setup, Timeouts, Watermarks,
};
use mcp::ClientId;
use router::{Chain, Component, Ending, Mode, Seat, Time};
use testkit::sim::op::Random;

use crate::agent::{Agent, Disk};
use crate::case::{Case, Failure, FailureKind, Topology};
use crate::editor::Editor;
use crate::endpoints::Endpoints;
use crate::fault_injection::{Fault, Injector};
use crate::greeting;
use crate::link::{ClientItem, ClientLink, Item, Link, ProcessState};
use crate::message_log::{Check, MessageLog, ProcessId};
use crate::outbox::{ClientAction, Outbox};
use crate::participant::Participant;
use crate::provider::ToolState;
use crate::proxy::{Kind, Proxy};
use crate::shell::Exit;

pub const INITIALIZE_TIMEOUT: u64 = 10_000;
pub const GRACE: u64 = 2_000;
/// The average number of bytes of a write with the option `split`.
const PART: usize = 200;
/// The capacity of a pipe with the option `narrow`, in bytes.
const CAPACITY: usize = 400;
/// The watermarks with this option. Links are paused often, and no component is considered stuck.
const NARROW: Watermarks = Watermarks { high: 800, low: 200, cap: 1024 * 1024, mcp: 1_600 };
/// The timeouts with the option `timeouts`.
pub const TIMEOUTS: Timeouts =
    Timeouts { answer: Some(4_000), prompt: Some(6_000), cancel: Some(3_000) };

/// The state of a simulation.
pub struct World {
    pub case: Case,
    pub topology: Topology,
    pub core: Core,
    pub out: Outputs,
    /// Inputs that arose while outputs were performed.
    pub pending: VecDeque<Input>,
    /// Exits that have not been reported to the core.
    pub exits: VecDeque<Exit>,
    /// Whether MCP clients are read.
    pub reads_clients: bool,
    pub now: Time,
    pub links: Vec<Link>,
    pub editor: Editor,
    /// The proxies, by seat.
    pub proxies: Vec<Option<Proxy>>,
    pub agent: Agent,
    pub disk: Rc<RefCell<Disk>>,
    pub tool_state: Rc<RefCell<ToolState>>,
    pub endpoints: Endpoints,
    pub client_links: BTreeMap<ClientId, ClientLink>,
    pub log: MessageLog,
    last_serial: usize,
    last_client_id: u64,
    /// How many lines were transferred.
    pub moved: usize,
    pub failures: VecDeque<Failure>,
    /// By seat: whether its next start fails.
    pub absent: Vec<bool>,
    /// How many failures have happened.
    pub failure_count: usize,
    pub finished: Option<Ending>,
    random: Option<Random>,
    /// The injected fault.
    pub fault: Option<Fault>,
    pub trace: Option<Vec<String>>,
    /// The journal of the core, if it is recorded.
    pub journal: Option<Recorder>,
    pub setup: Setup,
    pub stamp: usize,
}

/// Something that can be done next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Queue {
    From(usize),
    To(usize),
    FromClient(ClientId),
    ToClient(ClientId),
    /// The shell answers a request for an endpoint.
    Shell,
    /// Write queued bytes.
    Write(usize),
    /// Report the exit of a process.
    Exit,
}

impl World {
    pub fn new(case: &Case, injector: Option<Injector>) -> World {
        let topology = Topology::parse(&case.topology);
        let mut components: Vec<Component> = topology
            .proxies
            .iter()
            .enumerate()
            .map(|(index, (kind, _))| Component {
                guard: *kind == Kind::Guard,
                managed: case.scenario == "options",
                ..Component::new(format!("p{}", index + 1), "run")
            })
            .collect();
        if topology.editor {
            components.push(Component::new("agent", "run"));
        }
        let mode = if topology.editor { Mode::Agent } else { Mode::Proxy };
        let chain = Chain {
            mode,
            order: Chain::first_order(components.len()),
            components,
            initialize_timeout: INITIALIZE_TIMEOUT,
            grace: GRACE,
            any_version: false,
        };
        let rules = Rules {
            policies: chain.seats().map(|seat| policy(case, &topology, seat)).collect(),
            timeouts: if case.has("timeouts") { TIMEOUTS } else { Timeouts::default() },
            notify_editor: case.has("notices"),
            seed: 7,
        };
        let count = chain.components.len();
        let pinned = greeting::Reaction::of(case).is_none();
        let facts = topology.proxies.iter().map(|(_, generation)| Facts {
            generation: pinned.then_some(*generation),
            ..Facts::default()
        });
        let setup = Setup {
            facts: facts.collect(),
            chain,
            rules,
            bridge: Some(mcp::BridgePolicy::Auto),
            nonce: "nonce".into(),
            nested: false,
            forwards_telemetry: false,
            about: engine::About::default(),
            kept_telemetry: KeptTelemetry::Of(Vec::new()),
            max_line: usize::MAX,
            watermarks: if case.has("narrow") { NARROW } else { Watermarks::DEFAULT },
            tapped: true,
            start_notices: Vec::new(),
        };
        let mut core = Core::new(setup.clone());
        let fault = injector.as_ref().map(Injector::fault);
        if let Some(injector) = injector {
            core.inject_faults(Box::new(injector));
        }
        let disk = Rc::new(RefCell::new(Disk::default()));
        let mut log = MessageLog::new(topology.proxies.len() + 1);
        log.may_cancel_prompts = case.has("timeouts");
        let mut links: Vec<Link> = (0..=count).map(|seat| Link::new(&topology, seat)).collect();
        links[0].state = ProcessState::Running;
        let mut failures = case.failures.clone();
        failures.retain(|failure| failure.what != FailureKind::Loop);
        failures.sort_by_key(|failure| failure.at);
        let mut editor = Editor::default();
        editor.outer = !topology.editor;
        editor.append_script(case.script());
        World {
            core,
            out: Outputs::default(),
            pending: VecDeque::new(),
            exits: VecDeque::new(),
            reads_clients: true,
            now: Time(0),
            links,
            editor,
            proxies: (0..=count).map(|_| None).collect(),
            agent: Agent::new(topology.traits, disk.clone()),
            disk,
            tool_state: Rc::default(),
            endpoints: Endpoints::default(),
            client_links: BTreeMap::new(),
            log,
            last_serial: 0,
            last_client_id: 0,
            moved: 0,
            failures: failures.into(),
            absent: vec![false; count + 1],
            failure_count: 0,
            finished: None,
            random: case.order().map(Random::new),
            fault,
            trace: None,
            journal: None,
            setup,
            stamp: 0,
            case: case.clone(),
            topology,
        }
    }

    pub fn trace(&mut self, text: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            let line = format!("{:>5} {:>4}  {}", self.now.0, self.moved, text());
            trace.push(line);
        }
    }

    /// The place of the participant that receives a message on the link of a seat. On the outer pipe of a proxy chain, this
    /// depends on the side.
    fn place(&self, seat: usize, toward: Side) -> usize {
        match (seat, toward) {
            (0, Side::Agent) => self.topology.proxies.len() + 1,
            (seat, _) => seat,
        }
    }

    fn seat_of(&self, place: usize) -> usize {
        if place < self.links.len() { place } else { 0 }
    }

    pub fn is_running(&self, process: ProcessId) -> bool {
        let link = &self.links[self.seat_of(process.place)];
        link.incarnation == process.number && link.state == ProcessState::Running
    }

    /// Whether queues are written in parts, and exits are reported in any order.
    pub fn has_split_writes(&self) -> bool {
        self.case.has("split")
    }

    /// How many more bytes fit into the pipe to a seat.
    pub fn free_capacity(&self, seat: usize) -> usize {
        match self.case.has("narrow") {
            true => CAPACITY.saturating_sub(self.links[seat].unread_bytes()),
            false => usize::MAX,
        }
    }

    /// Transfers one line, or a part of one. Returns whether there was any.
    pub fn move_one(&mut self) -> Result<bool, String> {
        self.report_readable()?;
        let queues = self.queues();
        let next = match &mut self.random {
            Some(random) if !queues.is_empty() => Some(queues[random.below(queues.len())]),
            _ => queues.into_iter().min(),
        };
        let Some((_, queue)) = next else { return Ok(false) };
        self.moved += usize::from(!matches!(queue, Queue::Write(_) | Queue::Exit));
        match queue {
            Queue::From(seat) => self.conductor_reads(seat)?,
            Queue::To(seat) => self.participant_reads(seat)?,
            Queue::FromClient(client_id) => self.conductor_reads_client(client_id)?,
            Queue::ToClient(client_id) => self.client_reads(client_id)?,
            Queue::Shell => self.shell_answers()?,
            Queue::Write(seat) => {
                let most = match &mut self.random {
                    _ if !self.case.has("split") => usize::MAX,
                    Some(random) => 1 + random.below(2 * PART),
                    None => PART,
                };
                self.write(seat, most)?;
            }
            Queue::Exit => self.report_exit()?,
        }
        Ok(true)
    }

    fn queues(&self) -> Vec<(usize, Queue)> {
        let runs = self.finished.is_none();
        let mut queues: Vec<(usize, Queue)> = Vec::new();
        for (seat, link) in self.links.iter().enumerate() {
            queues.extend(link.readable().filter(|_| runs).map(|it| (it, Queue::From(seat))));
            if matches!(link.state, ProcessState::Running | ProcessState::OutputClosed) {
                queues.extend(link.to.front().map(|(stamp, _)| (*stamp, Queue::To(seat))));
            }
            let queued = self.out.queued(engine::LinkId::main(Seat(seat as u16)));
            let writable =
                self.free_capacity(seat) > 0 && !link.input_closed && (runs || link.is_writable());
            if queued > 0 && writable {
                queues.push((0, Queue::Write(seat)));
            }
        }
        for (client_id, call) in &self.client_links {
            let from = call.from.front().filter(|_| runs && self.reads_clients);
            queues.extend(from.map(|(stamp, _)| (*stamp, Queue::FromClient(*client_id))));
            queues.extend(call.to.front().map(|(stamp, _)| (*stamp, Queue::ToClient(*client_id))));
        }
        if runs {
            queues.extend(self.endpoints.next().map(|stamp| (stamp, Queue::Shell)));
            queues.extend(self.exits.front().map(|it| (it.stamp, Queue::Exit)));
        }
        queues
    }

    fn conductor_reads(&mut self, seat: usize) -> Check {
        let Some((_, item)) = self.links[seat].from.pop_front() else { return Ok(()) };
        match item {
            Item::End(how) => self.report_end(seat, how),
            Item::Line(line) => {
                self.trace(|| format!("{seat} >     {}", String::from_utf8_lossy(&line)));
                let link = engine::LinkId::main(Seat(seat as u16));
                self.input(Input::Line { link, line: Line::Text(line) })
            }
        }
    }

    fn participant_reads(&mut self, seat: usize) -> Check {
        let Some((_, line)) = self.links[seat].to.pop_front() else { return Ok(()) };
        self.links[seat].read += 1;
        let read = self.links[seat].read;
        let is_due = |it: &&Failure| {
            it.what == FailureKind::Loop && usize::from(it.seat) == seat && it.at == read
        };
        if let Some(failure) = self.case.failures.iter().find(is_due).copied() {
            return self.apply_failure(failure);
        }
        if self.handle_unknown_greeting(seat, &line) {
            return Ok(());
        }
        let link = &mut self.links[seat];
        let mut back = Vec::new();
        let decoded = link.dialect.decode(&line, &mut back);
        let (toward, message) = match decoded {
            Ok(Some(read)) => read,
            other => return Err(format!("seat {seat} cannot read {line:?}: {other:?}")),
        };
        self.trace(|| format!("    {seat} reads {}", String::from_utf8_lossy(&line)));
        // On the outer pipe of a proxy chain, the ids of answers and cancellations tell the receiver.
        let toward = match &message {
            Message::Response { id, .. } if seat == 0 => {
                let editor = id.text().is_some_and(|id| id.starts_with('e'));
                if editor { Side::Editor } else { Side::Agent }
            }
            Message::Notification(call) if !self.topology.editor && call.is("$/cancel_request") => {
                Side::Agent
            }
            _ => toward,
        };
        let place = self.place(seat, toward);
        let number = self.links[seat].incarnation;
        self.log.check_received(ProcessId { place, number }, toward, &message)?;
        self.with_participant(place, |participant, outbox| {
            participant.receive(toward, message, outbox)
        })
    }

    /// Lets a participant act, and sends its messages.
    pub fn with_participant(
        &mut self,
        place: usize,
        act: impl FnOnce(&mut dyn Participant, &mut Outbox<'_>),
    ) -> Check {
        let seat = self.seat_of(place);
        self.editor.tools = self.has_tools();
        let mut outbox = Outbox {
            now: self.now,
            last_serial: &mut self.last_serial,
            last_client_id: &mut self.last_client_id,
            is_ending: self.core.router().is_ending(),
            failures: self.failure_count,
            sent: Vec::new(),
            client_actions: Vec::new(),
            violation: None,
        };
        match (place, self.proxies.get_mut(place).and_then(Option::as_mut)) {
            (0, _) => act(&mut self.editor, &mut outbox),
            (_, Some(proxy)) => act(proxy, &mut outbox),
            _ => act(&mut self.agent, &mut outbox),
        }
        let Outbox { sent, client_actions, violation, .. } = outbox;
        if self.links[seat].state == ProcessState::Running {
            let process = ProcessId { place, number: self.links[seat].incarnation };
            for (toward, message) in sent {
                self.log.record_sent(process, &message)?;
                let mut text = Vec::new();
                self.links[seat].dialect.encode(toward, &message, &mut text);
                for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                    self.stamp += 1;
                    let item = Item::Line(Bytes::copy_from_slice(line));
                    self.links[seat].from.push_back((self.stamp, item));
                }
            }
            client_actions.into_iter().for_each(|it| self.perform_client_action(it));
        }
        violation.map_or(Ok(()), Err)
    }

    pub fn perform_client_action(&mut self, act: ClientAction) {
        self.stamp += 1;
        let (client_id, item) = match act {
            ClientAction::Connect { ticket, client_id } => (client_id, ClientItem::Connect(ticket)),
            ClientAction::Line { client_id, line } => (client_id, ClientItem::Line(line)),
            ClientAction::Disconnect(client_id) => (client_id, ClientItem::Disconnect),
        };
        let call = self.client_links.entry(client_id).or_default();
        call.gone |= matches!(item, ClientItem::Disconnect);
        call.from.push_back((self.stamp, item));
    }

    fn conductor_reads_client(&mut self, client_id: ClientId) -> Check {
        let item = self.client_links.get_mut(&client_id).and_then(|call| call.from.pop_front());
        match item {
            None => Ok(()),
            Some((_, ClientItem::Connect(ticket))) => {
                if !self.endpoints.is_open(ticket) {
                    self.send_to_client(client_id, None);
                    return Ok(());
                }
                self.input(Input::ClientConnected { ticket, client_id })
            }
            Some((_, ClientItem::Line(line))) => {
                self.trace(|| format!("{client_id:?} > {}", String::from_utf8_lossy(&line)));
                self.input(Input::ClientMessage { client_id, line })
            }
            Some((_, ClientItem::Disconnect)) => self.input(Input::ClientDisconnected(client_id)),
        }
    }

    fn client_reads(&mut self, client_id: ClientId) -> Check {
        let item = self.client_links.get_mut(&client_id).and_then(|call| call.to.pop_front());
        let Some((_, message)) = item else { return Ok(()) };
        if self.client_links.get(&client_id).is_none_or(|call| call.gone) {
            return Ok(());
        }
        let far = self.topology.proxies.len() + 1;
        if self.links[self.seat_of(far)].state != ProcessState::Running {
            return Ok(());
        }
        match message {
            None => {
                if let Some(call) = self.client_links.get_mut(&client_id) {
                    call.gone = true;
                }
                self.with_participant(far, |participant, outbox| {
                    participant.on_client_disconnected(client_id, outbox)
                })
            }
            Some(message) => self.with_participant(far, |participant, outbox| {
                participant.on_client_message(client_id, message, outbox)
            }),
        }
    }

    /// The lines of the editor that the conductor has not read.
    pub fn lines_of_editor(&self) -> Vec<Bytes> {
        let lines = self.links[0].from.iter().filter_map(|(_, item)| match item {
            Item::Line(line) => Some(line.clone()),
            Item::End(_) => None,
        });
        lines.collect()
    }

    /// The next timer of a participant, and its place.
    pub fn next_timer(&self) -> Option<(Time, usize)> {
        let far = self.topology.proxies.len() + 1;
        let is_alive =
            |place: usize| self.links[self.seat_of(place)].state == ProcessState::Running;
        let alarms = (1..=far).filter(|place| is_alive(*place)).filter_map(|place| {
            let alarm = match self.proxies.get(place).and_then(Option::as_ref) {
                Some(proxy) => proxy.next_timer(),
                None if place == far => self.agent.next_timer(),
                None => None,
            };
            Some((alarm?, place))
        });
        alarms.min()
    }
}

fn policy(case: &Case, topology: &Topology, seat: Seat) -> ComponentPolicy {
    let backoff = Backoff { max_delay: 1_000, ..Backoff::default() };
    let kind = topology.proxies.get(seat.index() - 1).map(|(kind, _)| *kind);
    let is_required = matches!(kind, None | Some(Kind::Guard));
    let fallback = if is_required || case.has("end") { Fallback::Stop } else { Fallback::Bypass };
    let restart = match kind {
        _ if case.has("stop") => return ComponentPolicy::STOP,
        None if case.has("always") => Restart::Always,
        None => Restart::IfResumable,
        Some(Kind::Guard) => Restart::Always,
        Some(_) if case.has("bypass") => Restart::Never,
        Some(_) => Restart::Always,
    };
    // Named, so that a proxy that fails in the handshake is bypassed, too.
    ComponentPolicy { restart, fallback, backoff, named: restart == Restart::Never }
}
