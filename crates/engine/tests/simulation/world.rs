//! A supervisor, players around it, and what a shell does: links of lines, lives, and a clock.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use bytes::Bytes;
use engine::{Action, Event, Pace, Policy, Restart, Rules, Supervisor, Then, Watch};
use mcp::{Caller, Exchange, Ticket};
use router::{Chain, Component, Ending, Exit, How, Mode, Seat, SeatState, Time};
use testkit::sim::op::Random;
use wire::dialect::{Generation, Outer, Plain, Proxy as ProxyDialect};
use wire::{Dialect, Message, Side};

use crate::agent::{Agent, Disk};
use crate::bug::Saboteur;
use crate::case::{Case, Cast, Fault, What};
use crate::desk::Desk;
use crate::editor::Editor;
use crate::ledger::{Check, Ledger, Life};
use crate::pen::{ClientDo, Pen};
use crate::player::Player;
use crate::provider::{Provider, Toolbox};
use crate::proxy::{Kind, Proxy};

pub const GREETING_LIMIT: u64 = 10_000;
pub const GRACE: u64 = 2_000;
/// The limits of the watchdog, where there is one.
pub const WATCH: Watch = Watch { answer: Some(4_000), prompt: Some(6_000), cancel: Some(3_000) };

pub struct World {
    pub case: Case,
    pub cast: Cast,
    pub supervisor: Supervisor,
    pub now: Time,
    pub links: Vec<Link>,
    pub editor: Editor,
    /// By seat, for those who sit inside.
    proxies: Vec<Option<Proxy>>,
    pub agent: Agent,
    disk: Rc<RefCell<Disk>>,
    toolbox: Rc<RefCell<Toolbox>>,
    pub desk: Desk,
    calls: BTreeMap<Caller, CallLink>,
    pub ledger: Ledger,
    serials: usize,
    callers: u64,
    /// How many lines have moved.
    pub moved: usize,
    pub faults: VecDeque<Fault>,
    /// How many faults have happened.
    pub struck: usize,
    pub finished: Option<Ending>,
    random: Option<Random>,
    pub saboteur: Option<Saboteur>,
    pub trace: Option<Vec<String>>,
    stamp: usize,
}

/// The pipe of a seat, and the life at its other end.
pub struct Link {
    ours: Dialect,
    theirs: Dialect,
    to: VecDeque<(usize, Bytes)>,
    from: VecDeque<(usize, Item)>,
    pub life: u32,
    pub state: State,
    /// How many lines this life has read.
    pub read: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    NotStarted,
    Alive,
    /// Reads and says nothing.
    Stalled,
    /// Reads, but its output is closed.
    Mute,
    Gone,
}

enum Item {
    Line(Bytes),
    End(How),
}

/// The pipe of an MCP client.
#[derive(Default)]
struct CallLink {
    from: VecDeque<(usize, CallItem)>,
    to: VecDeque<(usize, Option<Message>)>,
    gone: bool,
}

enum CallItem {
    Call(Ticket),
    Line(Bytes),
    HangUp,
}

/// Where the next line is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Queue {
    From(usize),
    To(usize),
    CallFrom(Caller),
    CallTo(Caller),
    /// An answer of the shell's own.
    Shell,
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
            greeting_limit: GREETING_LIMIT,
            grace: GRACE,
            any_version: false,
        };
        let exchange = Exchange::new(chain.clone(), mcp::Policy::Auto, "word");
        let rules = Rules {
            policies: chain.seats().map(|seat| policy(case, &cast, seat)).collect(),
            watch: if case.has("watch") { WATCH } else { Watch::default() },
            tell_editor: case.has("tell"),
            seed: 7,
        };
        let count = chain.components.len();
        let mut supervisor = Supervisor::new(chain, rules, Some(exchange));
        let disk = Rc::new(RefCell::new(Disk::default()));
        let mut ledger = Ledger::new(cast.proxies.len() + 1);
        ledger.may_cut_short = case.has("watch");
        let mut links: Vec<Link> = (0..=count).map(|seat| Link::new(&cast, seat)).collect();
        links[0].state = State::Alive;
        for (seat, link) in links.iter().enumerate() {
            supervisor.set_dialect(Seat(seat as u16), link.ours.spoken());
        }
        let mut faults = case.faults.clone();
        faults.retain(|fault| fault.what != What::Loop);
        faults.sort_by_key(|fault| fault.at);
        let mut editor = Editor::default();
        editor.outer = !cast.editor;
        editor.follow(case.script());
        World {
            supervisor,
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
            callers: 0,
            moved: 0,
            faults: faults.into(),
            struck: 0,
            finished: None,
            random: case.order().map(Random::new),
            saboteur,
            trace: None,
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

    /// Moves one line on. Says whether there was any.
    pub fn move_one(&mut self) -> Result<bool, String> {
        let mut queues: Vec<(usize, Queue)> = Vec::new();
        for (seat, link) in self.links.iter().enumerate() {
            if self.finished.is_none() {
                queues.extend(link.from.front().map(|(stamp, _)| (*stamp, Queue::From(seat))));
            }
            if matches!(link.state, State::Alive | State::Mute) {
                queues.extend(link.to.front().map(|(stamp, _)| (*stamp, Queue::To(seat))));
            }
        }
        for (caller, call) in &self.calls {
            if self.finished.is_none() {
                queues
                    .extend(call.from.front().map(|(stamp, _)| (*stamp, Queue::CallFrom(*caller))));
            }
            queues.extend(call.to.front().map(|(stamp, _)| (*stamp, Queue::CallTo(*caller))));
        }
        if self.finished.is_none() {
            queues.extend(self.desk.next().map(|stamp| (stamp, Queue::Shell)));
        }
        let next = match &mut self.random {
            Some(random) if !queues.is_empty() => Some(queues[random.below(queues.len())]),
            _ => queues.into_iter().min(),
        };
        let Some((_, queue)) = next else { return Ok(false) };
        self.moved += 1;
        match queue {
            Queue::From(seat) => self.conductor_reads(seat)?,
            Queue::To(seat) => self.player_reads(seat)?,
            Queue::CallFrom(caller) => self.conductor_reads_client(caller)?,
            Queue::CallTo(caller) => self.client_reads(caller)?,
            Queue::Shell => self.shell_answers()?,
        }
        Ok(true)
    }

    fn conductor_reads(&mut self, seat: usize) -> Check {
        let Some((_, item)) = self.links[seat].from.pop_front() else { return Ok(()) };
        let from = Seat(seat as u16);
        match item {
            Item::End(how) => self.event(Event::Left { seat: from, why: Exit::new(how) }),
            Item::Line(line) => {
                self.tell(|| format!("{seat} >     {}", String::from_utf8_lossy(&line)));
                let mut back = Vec::new();
                let decoded = self.links[seat].ours.decode(&line, &mut back);
                self.supervisor.set_dialect(from, self.links[seat].ours.spoken());
                self.write(seat, back);
                match decoded {
                    Ok(Some((toward, message))) => {
                        self.event(Event::Arrived { from, toward, message })
                    }
                    Ok(None) => Ok(()),
                    Err(rejection) => Err(format!("the conductor refuses {line:?}: {rejection:?}")),
                }
            }
        }
    }

    /// Queues lines for who sits there now.
    fn write(&mut self, seat: usize, text: Vec<u8>) {
        for line in text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            self.tell(|| format!("    > {seat} {}", String::from_utf8_lossy(line)));
            self.stamp += 1;
            let link = &mut self.links[seat];
            if !matches!(link.state, State::Gone | State::NotStarted) {
                link.to.push_back((self.stamp, Bytes::copy_from_slice(line)));
            }
        }
    }

    pub fn event(&mut self, event: Event) -> Check {
        if self.finished.is_some() {
            return Ok(());
        }
        if !matches!(event, Event::Arrived { .. } | Event::Heard { .. }) {
            self.tell(|| format!("{event:?}"));
        }
        // Now everybody can know of it.
        self.struck += usize::from(matches!(event, Event::Left { .. }));
        let mut actions = Vec::new();
        let event = match &mut self.saboteur {
            Some(saboteur) => saboteur.before(event, &self.supervisor),
            None => Some(event),
        };
        if let Some(event) = event {
            self.supervisor.handle(self.now, event, &mut actions);
        }
        if let Some(saboteur) = &mut self.saboteur {
            for event in saboteur.after(&mut actions, &self.supervisor) {
                self.supervisor.handle(self.now, event, &mut actions);
            }
        }
        for action in actions {
            if self.finished.is_some() {
                return Err(format!("something follows the end: {action:?}"));
            }
            self.perform(action)?;
        }
        if !self.case.has("slow") {
            while self.finished.is_none() && self.desk.next().is_some() {
                self.shell_answers()?;
            }
        }
        self.check_memory()
    }

    fn shell_answers(&mut self) -> Check {
        let Some((ticket, place)) = self.desk.answer() else { return Ok(()) };
        if place.is_err() {
            self.desk.full = false;
            self.disturb();
        }
        self.event(Event::Admitted { ticket, place })
    }

    /// What waits is not more than what was said.
    fn check_memory(&self) -> Check {
        let held =
            self.supervisor.router().chain().seats().map(|it| self.supervisor.router().held(it));
        let (count, bytes) = held.fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
        match count > self.ledger.count || bytes > self.ledger.bytes + self.ledger.count * 512 {
            true => Err(format!("{count} messages with {bytes} bytes are held")),
            false => Ok(()),
        }
    }

    fn perform(&mut self, action: Action) -> Check {
        match action {
            Action::Start(seat) => {
                self.tell(|| format!("start {}", seat.0));
                self.start(seat.index())
            }
            Action::End(seat) => {
                self.tell(|| format!("end {}", seat.0));
                self.end(seat.index());
                Ok(())
            }
            Action::Deliver { to, toward, message } => {
                let link = &mut self.links[to.index()];
                if link.state == State::NotStarted {
                    return Err(format!("{to:?} was not started and is told {message:?}"));
                }
                let mut text = Vec::new();
                link.ours.encode(toward, &message, &mut text);
                self.write(to.index(), text);
                Ok(())
            }
            Action::Tell { caller, message } => {
                self.tell(|| format!("    > {caller:?} {}", message.to_line()));
                self.tell_client(caller, Some(message));
                Ok(())
            }
            Action::HangUp(caller) => {
                self.tell(|| format!("hang up {caller:?}"));
                self.tell_client(caller, None);
                Ok(())
            }
            Action::Admit { ticket, kind } => {
                self.tell(|| format!("admit {ticket:?} {kind:?}"));
                self.stamp += 1;
                self.desk.ask(self.stamp, ticket, kind);
                Ok(())
            }
            Action::Revoke(ticket) => {
                self.tell(|| format!("revoke {ticket:?}"));
                self.desk.revoke(ticket)
            }
            Action::Spare { seat, kind } => {
                self.tell(|| format!("spare {} {kind}", seat.0));
                Ok(())
            }
            Action::Report(notice) => {
                self.tell(|| format!("report {notice:?}"));
                Ok(())
            }
            Action::Finish(ending) => {
                self.tell(|| format!("finish {ending:?}"));
                self.finished = Some(ending);
                (1..self.links.len()).for_each(|seat| self.end(seat));
                Ok(())
            }
        }
    }

    fn tell_client(&mut self, caller: Caller, message: Option<Message>) {
        self.stamp += 1;
        let stamp = self.stamp;
        if let Some(call) = self.calls.get_mut(&caller).filter(|call| !call.gone) {
            call.to.push_back((stamp, message));
        }
    }

    fn start(&mut self, seat: usize) -> Check {
        let place = seat;
        let link = &mut self.links[seat];
        if matches!(link.state, State::Alive | State::Stalled) {
            return Err(format!("seat {seat} is started while somebody sits there"));
        }
        let life = link.life + 1;
        *link = Link { life, state: State::Alive, ..Link::new(&self.cast, seat) };
        self.supervisor.set_dialect(Seat(seat as u16), self.links[seat].ours.spoken());
        match self.cast.proxies.get(place - 1) {
            Some((kind, generation)) => {
                let counts_anew = *kind == Kind::Counter;
                let toolbox = || self.toolbox.clone();
                let provider =
                    kind.has_server().then(|| Provider::new(*generation, toolbox(), counts_anew));
                self.proxies[seat] =
                    Some(Proxy::new((*kind, *generation), provider, self.disk.clone()));
            }
            None => self.agent = Agent::new(self.cast.nature, self.disk.clone()),
        }
        Ok(())
    }

    /// The life at a seat is over; nothing more is heard of it.
    fn end(&mut self, seat: usize) {
        self.kill(seat);
        self.links[seat].from.clear();
    }

    /// The process at a seat ends. What it has written can still be read.
    pub fn kill(&mut self, seat: usize) {
        self.links[seat].state = State::Gone;
        self.links[seat].to.clear();
        if self.cast.editor && seat + 1 == self.links.len() {
            for caller in self.agent.callers() {
                self.client_does(ClientDo::HangUp(caller));
            }
        }
    }

    /// The last that is read of somebody.
    pub fn says_goodbye(&mut self, seat: usize, how: How) {
        self.stamp += 1;
        self.links[seat].from.push_back((self.stamp, Item::End(how)));
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
            callers: &mut self.callers,
            closing: self.supervisor.router().is_ending(),
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

    fn has_tools(&self) -> bool {
        let provider = self.cast.proxies.iter().position(|(kind, _)| kind.has_server());
        provider.is_some_and(|at| {
            let state = self.supervisor.router().state(Seat(at as u16 + 1));
            !matches!(state, Some(SeatState::Bypassed | SeatState::Closed(_)))
        })
    }

    fn client_does(&mut self, act: ClientDo) {
        self.stamp += 1;
        let (caller, item) = match act {
            ClientDo::Call { ticket, caller } => (caller, CallItem::Call(ticket)),
            ClientDo::Line { caller, line } => (caller, CallItem::Line(line)),
            ClientDo::HangUp(caller) => (caller, CallItem::HangUp),
        };
        let call = self.calls.entry(caller).or_default();
        call.gone |= matches!(item, CallItem::HangUp);
        call.from.push_back((self.stamp, item));
    }

    fn conductor_reads_client(&mut self, caller: Caller) -> Check {
        let item = self.calls.get_mut(&caller).and_then(|call| call.from.pop_front());
        match item {
            None => Ok(()),
            Some((_, CallItem::Call(ticket))) => {
                if !self.desk.is_open(ticket) {
                    self.tell_client(caller, None);
                    return Ok(());
                }
                self.event(Event::Called { ticket, caller })
            }
            Some((_, CallItem::Line(line))) => {
                self.tell(|| format!("{caller:?} > {}", String::from_utf8_lossy(&line)));
                self.event(Event::Heard { caller, line })
            }
            Some((_, CallItem::HangUp)) => self.event(Event::HungUp(caller)),
        }
    }

    fn client_reads(&mut self, caller: Caller) -> Check {
        let item = self.calls.get_mut(&caller).and_then(|call| call.to.pop_front());
        let Some((_, message)) = item else { return Ok(()) };
        if self.calls.get(&caller).is_none_or(|call| call.gone) {
            return Ok(());
        }
        let far = self.cast.proxies.len() + 1;
        if self.links[self.seat_of(far)].state != State::Alive {
            return Ok(());
        }
        match message {
            None => {
                if let Some(call) = self.calls.get_mut(&caller) {
                    call.gone = true;
                }
                self.with_player(far, |player, pen| player.hung_up(caller, pen))
            }
            Some(message) => self.with_player(far, |player, pen| player.told(caller, message, pen)),
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

impl Link {
    fn new(cast: &Cast, seat: usize) -> Link {
        let (ours, theirs): (Dialect, Dialect) = match cast.proxies.get(seat.wrapping_sub(1)) {
            Some(&(_, generation)) => {
                (ProxyDialect::pinned("p", generation).into(), Outer::pinned(generation).into())
            }
            None if seat == 0 && cast.editor => (Plain::editor().into(), Plain::agent().into()),
            None if seat == 0 => {
                (Outer::unknown().into(), ProxyDialect::pinned("us", Generation::CURRENT).into())
            }
            None => (Plain::agent().into(), Plain::editor().into()),
        };
        Link {
            ours,
            theirs,
            to: VecDeque::new(),
            from: VecDeque::new(),
            life: 0,
            state: State::NotStarted,
            read: 0,
        }
    }
}

fn policy(case: &Case, cast: &Cast, seat: Seat) -> Policy {
    let pace = Pace { most: 5, within: 60_000, first: 100, longest: 1_000, stable: 60_000 };
    let kind = cast.proxies.get(seat.index() - 1).map(|(kind, _)| *kind);
    let stays = matches!(kind, None | Some(Kind::Guard));
    let then = if stays || case.has("end") { Then::Stop } else { Then::Bypass };
    let restart = match kind {
        _ if case.has("stop") => return Policy::STOP,
        None if case.has("always") => Restart::Always,
        None => Restart::IfItCan,
        Some(Kind::Guard) => Restart::Always,
        Some(_) if case.has("bypass") => Restart::Never,
        Some(_) => Restart::Always,
    };
    // Named, so that a proxy is also left out that fails in the handshake.
    Policy { restart, then, pace, named: restart == Restart::Never }
}
