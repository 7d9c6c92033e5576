//! A core, the players around it, their links, and a clock. What the shell does is in `shell`.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use acp_wire::{Message, Side};
use bytes::Bytes;
use engine::journal::Recorder;
use engine::{
    Backoff, ComponentPolicy, Core, Facts, Fallback, Input, Line, Outputs, Restart, Rules, Setup,
    Timeouts, Watermarks,
};
use mcp::ClientId;
use router::{Chain, Component, Ending, Mode, Seat, Time};
use testkit::sim::op::Random;

use crate::agent::{Agent, Disk};
use crate::bug::{Bug, Saboteur};
use crate::case::{Case, Cast, Fault, What};
use crate::desk::Desk;
use crate::editor::Editor;
use crate::greeting;
use crate::ledger::{Check, Ledger, Life};
use crate::link::{CallItem, CallLink, Item, Link, State};
use crate::pen::{ClientDo, Pen};
use crate::player::Player;
use crate::provider::Toolbox;
use crate::proxy::{Kind, Proxy};
use crate::shell::Exit;

pub const GREETING_LIMIT: u64 = 10_000;
pub const GRACE: u64 = 2_000;
/// How many bytes are written at once where writes are split, on average.
const PART: usize = 200;
/// How many bytes a pipe holds in a case with the word `narrow`.
const CAPACITY: usize = 400;
/// The marks of queues in such a case: peers are often not read, and none is given up for it.
const NARROW: Watermarks = Watermarks { high: 800, low: 200, cap: 1024 * 1024, mcp: 1_600 };
/// The limits of the watchdog, where there is one.
pub const TIMEOUTS: Timeouts =
    Timeouts { answer: Some(4_000), prompt: Some(6_000), cancel: Some(3_000) };

pub struct World {
    pub case: Case,
    pub cast: Cast,
    pub core: Core,
    pub out: Outputs,
    /// What happened while outputs were performed.
    pub pending: VecDeque<Input>,
    /// Processes that have ended, of which the core is not told yet.
    pub exits: VecDeque<Exit>,
    /// MCP clients are listened to.
    pub listens: bool,
    pub now: Time,
    pub links: Vec<Link>,
    pub editor: Editor,
    /// By seat, for those who sit inside.
    pub proxies: Vec<Option<Proxy>>,
    pub agent: Agent,
    pub disk: Rc<RefCell<Disk>>,
    pub toolbox: Rc<RefCell<Toolbox>>,
    pub desk: Desk,
    pub calls: BTreeMap<ClientId, CallLink>,
    pub ledger: Ledger,
    serials: usize,
    client_ids: u64,
    /// How many lines have moved.
    pub moved: usize,
    pub faults: VecDeque<Fault>,
    /// By seat: its next start fails.
    pub absent: Vec<bool>,
    /// How many faults have happened.
    pub struck: usize,
    pub finished: Option<Ending>,
    random: Option<Random>,
    /// The planted fault.
    pub bug: Option<Bug>,
    pub trace: Option<Vec<String>>,
    /// Everything that the core was told and did.
    pub journal: Option<Recorder>,
    pub setup: Setup,
    pub stamp: usize,
}

/// Where the next line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Queue {
    From(usize),
    To(usize),
    CallFrom(ClientId),
    CallTo(ClientId),
    /// An answer of the shell's own.
    Shell,
    /// Bytes that the core wants written.
    Write(usize),
    /// A process that has ended.
    Exit,
}

impl World {
    pub fn new(case: &Case, saboteur: Option<Saboteur>) -> World {
        let cast = Cast::parse(&case.cast);
        let mut components: Vec<Component> = cast
            .proxies
            .iter()
            .enumerate()
            .map(|(index, (kind, _))| Component {
                guard: *kind == Kind::Guard,
                ..Component::new(format!("p{}", index + 1), "run")
            })
            .collect();
        if cast.editor {
            components.push(Component::new("agent", "run"));
        }
        let mode = if cast.editor { Mode::Agent } else { Mode::Proxy };
        let chain = Chain {
            mode,
            components,
            initialize_timeout: GREETING_LIMIT,
            grace: GRACE,
            any_version: false,
        };
        let rules = Rules {
            policies: chain.seats().map(|seat| policy(case, &cast, seat)).collect(),
            timeouts: if case.has("watch") { TIMEOUTS } else { Timeouts::default() },
            notify_editor: case.has("tell"),
            seed: 7,
        };
        let count = chain.components.len();
        let pinned = greeting::Reaction::of(case).is_none();
        let facts = cast.proxies.iter().map(|(_, generation)| Facts {
            generation: pinned.then_some(*generation),
            ..Facts::default()
        });
        let setup = Setup {
            facts: facts.collect(),
            chain,
            rules,
            bridge: Some(mcp::BridgePolicy::Auto),
            nonce: "word".into(),
            nested: false,
            max_line: usize::MAX,
            watermarks: if case.has("narrow") { NARROW } else { Watermarks::DEFAULT },
            tapped: true,
        };
        let mut core = Core::new(setup.clone());
        let bug = saboteur.as_ref().map(Saboteur::bug);
        if let Some(saboteur) = saboteur {
            core.inject_faults(Box::new(saboteur));
        }
        let disk = Rc::new(RefCell::new(Disk::default()));
        let mut ledger = Ledger::new(cast.proxies.len() + 1);
        ledger.may_cut_short = case.has("watch");
        let mut links: Vec<Link> = (0..=count).map(|seat| Link::new(&cast, seat)).collect();
        links[0].state = State::Alive;
        let mut faults = case.faults.clone();
        faults.retain(|fault| fault.what != What::Loop);
        faults.sort_by_key(|fault| fault.at);
        let mut editor = Editor::default();
        editor.outer = !cast.editor;
        editor.follow(case.script());
        World {
            core,
            out: Outputs::default(),
            pending: VecDeque::new(),
            exits: VecDeque::new(),
            listens: true,
            now: Time(0),
            links,
            editor,
            proxies: (0..=count).map(|_| None).collect(),
            agent: Agent::new(cast.nature, disk.clone()),
            disk,
            toolbox: Rc::default(),
            desk: Desk::default(),
            calls: BTreeMap::new(),
            ledger,
            serials: 0,
            client_ids: 0,
            moved: 0,
            faults: faults.into(),
            absent: vec![false; count + 1],
            struck: 0,
            finished: None,
            random: case.order().map(Random::new),
            bug,
            trace: None,
            journal: None,
            setup,
            stamp: 0,
            case: case.clone(),
            cast,
        }
    }

    pub fn tell(&mut self, text: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            let line = format!("{:>5} {:>4}  {}", self.now.0, self.moved, text());
            trace.push(line);
        }
    }

    /// The place in the chain of somebody on the link of a seat: who hears what travels that way.
    fn place(&self, seat: usize, toward: Side) -> usize {
        match (seat, toward) {
            (0, Side::Agent) => self.cast.proxies.len() + 1,
            (seat, _) => seat,
        }
    }

    fn seat_of(&self, place: usize) -> usize {
        if place < self.links.len() { place } else { 0 }
    }

    pub fn is_there(&self, life: Life) -> bool {
        let link = &self.links[self.seat_of(life.place)];
        link.life == life.number && link.state == State::Alive
    }

    /// Queues are written in parts, and ends are reported in any order.
    pub fn splits(&self) -> bool {
        self.case.has("split")
    }

    /// How many more bytes the pipe to a seat holds.
    pub fn room(&self, seat: usize) -> usize {
        match self.case.has("narrow") {
            true => CAPACITY.saturating_sub(self.links[seat].unread_bytes()),
            false => usize::MAX,
        }
    }

    /// Moves one line on, or a part of one. Says whether there was any.
    pub fn move_one(&mut self) -> Result<bool, String> {
        self.report_waits()?;
        let queues = self.queues();
        let next = match &mut self.random {
            Some(random) if !queues.is_empty() => Some(queues[random.below(queues.len())]),
            _ => queues.into_iter().min(),
        };
        let Some((_, queue)) = next else { return Ok(false) };
        self.moved += usize::from(!matches!(queue, Queue::Write(_) | Queue::Exit));
        match queue {
            Queue::From(seat) => self.conductor_reads(seat)?,
            Queue::To(seat) => self.player_reads(seat)?,
            Queue::CallFrom(client_id) => self.conductor_reads_client(client_id)?,
            Queue::CallTo(client_id) => self.client_reads(client_id)?,
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
            if matches!(link.state, State::Alive | State::Mute) {
                queues.extend(link.to.front().map(|(stamp, _)| (*stamp, Queue::To(seat))));
            }
            let queued = self.out.queued(engine::Link::main(Seat(seat as u16)));
            let writable = self.room(seat) > 0 && !link.unread && (runs || link.takes());
            if queued > 0 && writable {
                queues.push((0, Queue::Write(seat)));
            }
        }
        for (client_id, call) in &self.calls {
            let from = call.from.front().filter(|_| runs && self.listens);
            queues.extend(from.map(|(stamp, _)| (*stamp, Queue::CallFrom(*client_id))));
            queues.extend(call.to.front().map(|(stamp, _)| (*stamp, Queue::CallTo(*client_id))));
        }
        if runs {
            queues.extend(self.desk.next().map(|stamp| (stamp, Queue::Shell)));
            queues.extend(self.exits.front().map(|it| (it.stamp, Queue::Exit)));
        }
        queues
    }

    fn conductor_reads(&mut self, seat: usize) -> Check {
        let Some((_, item)) = self.links[seat].from.pop_front() else { return Ok(()) };
        match item {
            Item::End(how) => self.report_end(seat, how),
            Item::Line(line) => {
                self.tell(|| format!("{seat} >     {}", String::from_utf8_lossy(&line)));
                let link = engine::Link::main(Seat(seat as u16));
                self.input(Input::Line { link, line: Line::Text(line) })
            }
        }
    }

    fn player_reads(&mut self, seat: usize) -> Check {
        let Some((_, line)) = self.links[seat].to.pop_front() else { return Ok(()) };
        self.links[seat].read += 1;
        let read = self.links[seat].read;
        let deadly =
            |it: &&Fault| it.what == What::Loop && usize::from(it.seat) == seat && it.at == read;
        if let Some(fault) = self.case.faults.iter().find(deadly).copied() {
            return self.strike(fault);
        }
        if self.is_puzzled(seat, &line) {
            return Ok(());
        }
        let link = &mut self.links[seat];
        let mut back = Vec::new();
        let decoded = link.theirs.decode(&line, &mut back);
        let (toward, message) = match decoded {
            Ok(Some(read)) => read,
            other => return Err(format!("seat {seat} cannot read {line:?}: {other:?}")),
        };
        self.tell(|| format!("    {seat} reads {}", String::from_utf8_lossy(&line)));
        // On the outer pipe of a proxy, answers and cancellations tell by their ids whom they are for.
        let toward = match &message {
            Message::Response { id, .. } if seat == 0 => {
                let editor = id.text().is_some_and(|id| id.starts_with('e'));
                if editor { Side::Editor } else { Side::Agent }
            }
            Message::Notification(call) if !self.cast.editor && call.is("$/cancel_request") => {
                Side::Agent
            }
            _ => toward,
        };
        let place = self.place(seat, toward);
        let number = self.links[seat].life;
        self.ledger.hear(Life { place, number }, toward, &message)?;
        self.with_player(place, |player, pen| player.hear(toward, message, pen))
    }

    /// Lets somebody act, and sends what it says.
    pub fn with_player(
        &mut self,
        place: usize,
        act: impl FnOnce(&mut dyn Player, &mut Pen<'_>),
    ) -> Check {
        let seat = self.seat_of(place);
        self.editor.tools = self.has_tools();
        let mut pen = Pen {
            now: self.now,
            serials: &mut self.serials,
            client_ids: &mut self.client_ids,
            closing: self.core.router().is_ending(),
            faults: self.struck,
            said: Vec::new(),
            clients: Vec::new(),
            wrong: None,
        };
        match (place, self.proxies.get_mut(place).and_then(Option::as_mut)) {
            (0, _) => act(&mut self.editor, &mut pen),
            (_, Some(proxy)) => act(proxy, &mut pen),
            _ => act(&mut self.agent, &mut pen),
        }
        let Pen { said, clients, wrong, .. } = pen;
        if self.links[seat].state == State::Alive {
            let life = Life { place, number: self.links[seat].life };
            for (toward, message) in said {
                self.ledger.say(life, &message)?;
                let mut text = Vec::new();
                self.links[seat].theirs.encode(toward, &message, &mut text);
                for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                    self.stamp += 1;
                    let item = Item::Line(Bytes::copy_from_slice(line));
                    self.links[seat].from.push_back((self.stamp, item));
                }
            }
            clients.into_iter().for_each(|it| self.client_does(it));
        }
        wrong.map_or(Ok(()), Err)
    }

    pub fn client_does(&mut self, act: ClientDo) {
        self.stamp += 1;
        let (client_id, item) = match act {
            ClientDo::Call { ticket, client_id } => (client_id, CallItem::Call(ticket)),
            ClientDo::Line { client_id, line } => (client_id, CallItem::Line(line)),
            ClientDo::HangUp(client_id) => (client_id, CallItem::HangUp),
        };
        let call = self.calls.entry(client_id).or_default();
        call.gone |= matches!(item, CallItem::HangUp);
        call.from.push_back((self.stamp, item));
    }

    fn conductor_reads_client(&mut self, client_id: ClientId) -> Check {
        let item = self.calls.get_mut(&client_id).and_then(|call| call.from.pop_front());
        match item {
            None => Ok(()),
            Some((_, CallItem::Call(ticket))) => {
                if !self.desk.is_open(ticket) {
                    self.tell_client(client_id, None);
                    return Ok(());
                }
                self.input(Input::ClientConnected { ticket, client_id })
            }
            Some((_, CallItem::Line(line))) => {
                self.tell(|| format!("{client_id:?} > {}", String::from_utf8_lossy(&line)));
                self.input(Input::ClientMessage { client_id, line })
            }
            Some((_, CallItem::HangUp)) => self.input(Input::ClientDisconnected(client_id)),
        }
    }

    fn client_reads(&mut self, client_id: ClientId) -> Check {
        let item = self.calls.get_mut(&client_id).and_then(|call| call.to.pop_front());
        let Some((_, message)) = item else { return Ok(()) };
        if self.calls.get(&client_id).is_none_or(|call| call.gone) {
            return Ok(());
        }
        let far = self.cast.proxies.len() + 1;
        if self.links[self.seat_of(far)].state != State::Alive {
            return Ok(());
        }
        match message {
            None => {
                if let Some(call) = self.calls.get_mut(&client_id) {
                    call.gone = true;
                }
                self.with_player(far, |player, pen| player.hung_up(client_id, pen))
            }
            Some(message) => {
                self.with_player(far, |player, pen| player.told(client_id, message, pen))
            }
        }
    }

    /// What the editor has said and the conductor has not read.
    pub fn lines_of_editor(&self) -> Vec<Bytes> {
        let lines = self.links[0].from.iter().filter_map(|(_, item)| match item {
            Item::Line(line) => Some(line.clone()),
            Item::End(_) => None,
        });
        lines.collect()
    }

    /// When somebody wants to do something, and who.
    pub fn next_alarm(&self) -> Option<(Time, usize)> {
        let far = self.cast.proxies.len() + 1;
        let is_alive = |place: usize| self.links[self.seat_of(place)].state == State::Alive;
        let alarms = (1..=far).filter(|place| is_alive(*place)).filter_map(|place| {
            let alarm = match self.proxies.get(place).and_then(Option::as_ref) {
                Some(proxy) => proxy.alarm(),
                None if place == far => self.agent.alarm(),
                None => None,
            };
            Some((alarm?, place))
        });
        alarms.min()
    }
}

fn policy(case: &Case, cast: &Cast, seat: Seat) -> ComponentPolicy {
    let backoff = Backoff { max_delay: 1_000, ..Backoff::default() };
    let kind = cast.proxies.get(seat.index() - 1).map(|(kind, _)| *kind);
    let stays = matches!(kind, None | Some(Kind::Guard));
    let fallback = if stays || case.has("end") { Fallback::Stop } else { Fallback::Bypass };
    let restart = match kind {
        _ if case.has("stop") => return ComponentPolicy::STOP,
        None if case.has("always") => Restart::Always,
        None => Restart::IfResumable,
        Some(Kind::Guard) => Restart::Always,
        Some(_) if case.has("bypass") => Restart::Never,
        Some(_) => Restart::Always,
    };
    // Named, so that a proxy is also left out that fails in the handshake.
    ComponentPolicy { restart, fallback, backoff, named: restart == Restart::Never }
}
