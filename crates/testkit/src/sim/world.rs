//! Conductors, players and the queues between them.

use std::collections::VecDeque;

use acp_wire::Side;
use bytes::Bytes;
use engine::{Command, Input, Output};
use router::{Ending, Exit, ExitCause, Seat, Time};

use super::bug::Saboteur;
use super::ledger::{Ledger, violation};
use super::op::Op;
use super::player::State;
use super::{Check, Violation};
use crate::cast::{Cast, Part, Sitter};
use crate::shell::{Effect, Shell};
use crate::stub::Frame;

/// How a conductor says that somebody never did its part of the handshake.
const SILENT: &str = "did not answer initialize";

#[allow(missing_debug_implementations)] // a shell has nothing to show
pub struct World {
    pub(super) cast: Cast,
    pub(super) players: Vec<State>,
    pub(super) ledger: Ledger,
    /// Somebody has left, or all was told to stop.
    pub(super) disturbed: bool,
    /// Components refuse some greetings; until they accept one they need not be spoken to.
    pub moody: bool,
    /// All that happens, if somebody wants to read it.
    pub trace: Option<Vec<String>>,
    pub(super) nodes: Vec<Node>,
    links: Vec<Link>,
    pub(super) now: Time,
}

/// A conductor, and what it was told and did.
pub(super) struct Node {
    pub(super) shell: Shell,
    pub(super) finished: bool,
    /// It has heard that somebody left, or that it is to stop.
    disturbed: bool,
    seats: Vec<Place>,
}

#[derive(Default)]
struct Place {
    started: bool,
    /// The conductor knows that nobody is there who could hear it.
    empty: bool,
    /// The links from and to who sits there.
    from: usize,
    to: usize,
}

/// One direction of a pipe.
struct Link {
    to: End,
    /// The player who speaks here; conductors have nothing to say of their own.
    speaker: Option<usize>,
    items: VecDeque<Item>,
}

#[derive(Clone, Copy)]
enum End {
    Player(usize),
    Conductor(usize, Seat),
}

enum Item {
    Line(Bytes),
    End(Exit),
}

impl World {
    pub fn new(cast: Cast, saboteur: Option<Saboteur>) -> World {
        let mut nodes: Vec<Node> = (0..)
            .zip(&cast.conductors)
            .map(|(seed, table)| Node {
                shell: Shell::new(table.setup(seed)),
                finished: false,
                disturbed: false,
                seats: table.seats.iter().map(|_| Place::default()).collect(),
            })
            .collect();
        if let Some(saboteur) = saboteur {
            nodes[0].shell = Shell::with_meddler(cast.conductors[0].setup(0), Box::new(saboteur));
        }
        let mut links = Vec::new();
        let mut link = |to, speaker| {
            links.push(Link { to, speaker, items: VecDeque::new() });
            links.len() - 1
        };
        for (conductor, table) in cast.conductors.iter().enumerate() {
            for (index, sitter) in table.seats.iter().enumerate() {
                let seat = Seat(index as u16);
                match *sitter {
                    Sitter::Player(player) => {
                        let place = &mut nodes[conductor].seats[index];
                        place.from = link(End::Conductor(conductor, seat), Some(player));
                        place.to = link(End::Player(player), None);
                    }
                    Sitter::Conductor(nested) if index > 0 => {
                        let up = link(End::Conductor(conductor, seat), None);
                        let down = link(End::Conductor(nested, Seat::OUTER), None);
                        (nodes[conductor].seats[index].from, nodes[conductor].seats[index].to) =
                            (up, down);
                        (nodes[nested].seats[0].from, nodes[nested].seats[0].to) = (down, up);
                    }
                    Sitter::Conductor(_) => {} // seen from its parent
                }
            }
        }
        let mut players: Vec<State> = cast.players.iter().map(|_| State::default()).collect();
        players[0].started = true;
        World {
            cast,
            players,
            ledger: Ledger::default(),
            disturbed: false,
            moody: false,
            trace: None,
            nodes,
            links,
            now: Time(0),
        }
    }

    /// Every conductor writes a journal.
    pub fn record(&mut self) {
        self.nodes.iter_mut().for_each(|node| node.shell.record());
    }

    /// The journals of all conductors.
    pub fn journals(&mut self) -> Vec<Vec<u8>> {
        self.nodes.iter_mut().map(|node| node.shell.journal()).collect()
    }

    /// Makes one proxy lazy, if there is one of that number.
    pub fn set_lazy(&mut self, who: usize) {
        if let Some(player) = self.players.get_mut(who) {
            player.lazy = self.cast.players[who].part == Part::Proxy;
        }
    }

    /// Makes one thing happen.
    ///
    /// # Errors
    /// The first rule that was broken.
    pub fn apply(&mut self, op: Op) -> Check {
        let count = self.players.len();
        let player = |who: u8| usize::from(who) % count;
        let side = |what: u8| if what.is_multiple_of(2) { Side::Agent } else { Side::Editor };
        // Two handshakes at once, one of them repaired: who is greeted in whose name is anybody's guess.
        let once = self.players[0].greeted && self.players.iter().any(|it| it.lazy);
        match op {
            Op::Initialize | Op::Regreet(_) if once => {}
            Op::Move(link) => return self.move_one(usize::from(link)).map(drop),
            Op::Ask(who, what) => drop(self.ask(player(who), side(what), method(what))?),
            Op::Note(who, what) => self.note(player(who), side(what), method(what)),
            Op::Answer(who, what) => {
                let who = player(who);
                if let Some(ask) = self.pick_owed(who, what) {
                    self.answer(who, ask, what.is_multiple_of(7));
                }
            }
            Op::Cancel(who, what) => self.cancel_some(player(who), what),
            Op::Stray(who, what) => {
                let who = player(who);
                if self.players[who].started && !self.players[who].mute {
                    self.stray(who, what);
                }
            }
            Op::Initialize => {
                self.ask(0, Side::Agent, "initialize")?;
                (self.players[0].greeted, self.players[0].live) = (true, true);
            }
            Op::Regreet(who) => {
                let who = player(who);
                let ready = self.players[who].greeted && self.players[who].owed.is_empty();
                if ready && self.cast.players[who].part == Part::Proxy {
                    self.ask(who, Side::Agent, "initialize")?;
                }
            }
            Op::Wait(what) => return self.wait(what),
            Op::Die(who, what) => self.die(player(who), what),
            Op::Stop => return self.stop_conductor(0),
        }
        Ok(())
    }

    pub(super) fn pick_owed(&self, who: usize, what: u8) -> Option<usize> {
        let player = &self.players[who];
        // The handshake is not a matter of chance: see `hear_call`.
        let open = player.owed.iter().filter(|it| {
            self.ledger.question(**it).is_some_and(|question| question.method != "initialize")
        });
        let open: Vec<_> = open.collect();
        let pick = open.get(usize::from(what) % open.len().max(1))?;
        (!player.mute).then_some(**pick)
    }

    fn cancel_some(&mut self, who: usize, what: u8) {
        if self.players[who].mute || !self.players[who].started {
            return;
        }
        let (pick, wrapped) = (usize::from(what / 4), what.is_multiple_of(2));
        if what % 4 == 3 {
            let owed = &self.players[who].owed;
            if let Some(ask) = owed.get(pick % owed.len().max(1)).copied() {
                self.echo(who, ask, wrapped);
            }
            return;
        }
        // What a lazy proxy was greeted with is passed on in its place, and so is the cancellation.
        let passed_on = |to: usize, method: &str| self.players[to].lazy && method == "initialize";
        let own = self.ledger.questions().filter(|(_, said, question)| {
            said.from == who && !passed_on(said.to, &question.method)
        });
        let own: Vec<_> = own.collect();
        let recent = &own[own.len().saturating_sub(4)..];
        if let Some((ask, ..)) = recent.get(pick % recent.len().max(1)) {
            let ask = *ask;
            self.cancel(who, ask, wrapped);
        }
    }

    fn die(&mut self, who: usize, what: u8) {
        if self.players[who].mute || !self.players[who].started {
            return;
        }
        let how = match (who, what % 4) {
            (0, 0 | 1) => ExitCause::ClosedOutput,
            (0, _) => ExitCause::ClosedInput,
            (_, 0) => ExitCause::Signal(9),
            (_, 1) => ExitCause::ClosedOutput,
            (_, status) => ExitCause::Status(status.into()),
        };
        self.tell(|| format!("{who} leaves: {how:?}"));
        self.players[who].mute = true;
        self.players[who].gone = who > 0 || how == ExitCause::ClosedInput;
        let (conductor, seat) = self.seat(who);
        let link = self.nodes[conductor].seats[seat.index()].from;
        self.links[link].items.push_back(Item::End(Exit::new(how)));
    }

    /// Time passes up to the next deadline, or there is a tick before it, which must change nothing.
    fn wait(&mut self, what: u8) -> Check {
        if !what.is_multiple_of(4) {
            let conductor = usize::from(what) % self.nodes.len();
            let effects = self.nodes[conductor].shell.handle(self.now, Input::Tick);
            return match effects.is_empty() {
                true => Ok(()),
                false => violation(format!("a tick before its time does something: {effects:?}")),
            };
        }
        self.pass_time().map(drop)
    }

    /// Says whether there was a deadline.
    pub(super) fn pass_time(&mut self) -> Result<bool, Violation> {
        let deadlines = self.nodes.iter().filter_map(|node| node.shell.core().deadline());
        let Some(next) = deadlines.min() else { return Ok(false) };
        self.now = self.now.max(next);
        self.tell(|| format!("time {}", next.0));
        for conductor in 0..self.nodes.len() {
            let effects = self.nodes[conductor].shell.tick(self.now);
            self.perform(conductor, effects)?;
        }
        Ok(true)
    }

    /// A player puts a line on its link.
    pub(super) fn send(&mut self, who: usize, line: String) {
        self.tell(|| format!("{who} > {line}"));
        let (conductor, seat) = self.seat(who);
        let link = self.nodes[conductor].seats[seat.index()].from;
        self.links[link].items.push_back(Item::Line(line.into()));
    }

    /// Moves one line on, if there is any. Says whether there was.
    pub(super) fn move_one(&mut self, pick: usize) -> Result<bool, Violation> {
        let count = self.links.iter().filter(|link| !link.items.is_empty()).count();
        if count == 0 {
            return Ok(false);
        }
        let mut busy = self.links.iter_mut().filter(|link| !link.items.is_empty());
        let Some(link) = busy.nth(pick % count) else { return Ok(false) };
        let (to, speaker) = (link.to, link.speaker);
        let Some(item) = link.items.pop_front() else { return Ok(false) };
        match (to, item) {
            (End::Player(who), Item::Line(line)) => {
                if !self.players[who].gone {
                    self.tell(|| format!("{who} < {}", String::from_utf8_lossy(&line)));
                    self.hear(who, &line)?;
                }
            }
            (End::Player(_), Item::End(_)) => {}
            (End::Conductor(conductor, seat), Item::Line(line)) => {
                if speaker.is_some() && !self.nodes[conductor].finished {
                    self.take(&line);
                }
                let effects = self.nodes[conductor].shell.line(self.now, seat, line);
                self.perform(conductor, effects)?;
            }
            (End::Conductor(conductor, seat), Item::End(why)) => {
                // A component that has closed its output may still read. It is given up a second later.
                let reads = why.cause == ExitCause::ClosedOutput;
                self.nodes[conductor].seats[seat.index()].empty = !reads;
                self.disturb(conductor);
                let effects = self.nodes[conductor].shell.leave(self.now, seat, why);
                self.perform(conductor, effects)?;
            }
        }
        Ok(true)
    }

    fn take(&mut self, line: &[u8]) {
        let Some(frame) = Frame::split(line) else { return };
        let outer = frame.params.or(frame.result).or(frame.error);
        let inner = outer.and_then(Frame::split).and_then(|it| it.params);
        let texts =
            [outer, inner].into_iter().flatten().filter_map(|it| std::str::from_utf8(it).ok());
        if let Some(serial) = texts.filter_map(|text| self.ledger.find(text)).next() {
            self.ledger.take(serial);
        }
    }

    /// A conductor is told to stop.
    pub(super) fn stop_conductor(&mut self, conductor: usize) -> Check {
        self.tell(|| format!("conductor {conductor} is told to stop"));
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
                    "conductor {conductor} goes on after its end: {effect:?}"
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
                    let place = &mut self.nodes[conductor].seats[seat.index()];
                    if std::mem::replace(&mut place.started, true) {
                        return violation(format!("{seat:?} is started twice"));
                    }
                    if let Sitter::Player(who) = self.cast.conductors[conductor].seats[seat.index()]
                    {
                        self.players[who].started = true;
                    }
                }
                Output::Report(notice) if notice.text.contains("sent a bad line") => {
                    return violation(format!("a line is refused: {}", notice.text));
                }
                Output::Report(_) => {}
                Output::Finish(ending) => self.finish(conductor, &ending)?,
                output => return violation(format!("nobody has a reason for {output:?}")),
            }
        }
        Ok(())
    }

    fn deliver(&mut self, conductor: usize, to: Seat, line: Bytes) -> Check {
        let place = &self.nodes[conductor].seats[to.index()];
        if place.empty || (to.is_component() && !place.started) {
            return violation(format!("a line for {to:?}, where nobody is: {line:?}"));
        }
        let link = place.to;
        if let Sitter::Player(who) = self.cast.conductors[conductor].seats[to.index()]
            && !self.players[who].greeted
            && let Some(method) = Frame::split(&line).and_then(|frame| frame.method)
        {
            if !matches!(method, b"\"initialize\"" | b"\"proxy/initialize\"") {
                return violation(format!("{who} was not greeted and hears {line:?}"));
            }
            self.players[who].greeted = true;
        }
        self.links[link].items.push_back(Item::Line(line));
        Ok(())
    }

    fn finish(&mut self, conductor: usize, ending: &Ending) -> Check {
        self.tell(|| format!("conductor {conductor} finishes: {ending:?}"));
        let reason = match ending {
            Ending::Failed(why) if why.contains(SILENT) => {
                self.give_up(why);
                self.handshake_is_open()
            }
            _ => self.nodes[conductor].disturbed,
        };
        if !reason {
            return violation(format!("conductor {conductor} ends without a reason: {ending:?}"));
        }
        self.disturbed = true;
        self.nodes[conductor].finished = true;
        let status = if *ending == Ending::Clean { 0 } else { 1 };
        for (index, sitter) in self.cast.conductors[conductor].seats.iter().enumerate() {
            if let Sitter::Conductor(_) = sitter {
                let how =
                    if index == 0 { ExitCause::Status(status) } else { ExitCause::ClosedOutput };
                let link = self.nodes[conductor].seats[index].to;
                self.links[link].items.push_back(Item::End(Exit::new(how)));
            }
        }
        Ok(())
    }

    /// A component that is silent in the handshake is as good as dead: nothing it asked matters.
    fn give_up(&mut self, why: &str) {
        for (player, state) in self.cast.players.iter().zip(&mut self.players) {
            state.given_up |= why.contains(&format!("'{}'", player.name));
        }
    }

    /// Does any component owe the answer to a greeting, or is one on its way?
    fn handshake_is_open(&self) -> bool {
        let owed = self.ledger.questions().any(|(_, said, question)| {
            let taken = question.answer.is_some_and(|it| self.ledger.said[it].taken);
            // An answer may be on its way between two conductors.
            let done = taken && (self.nodes.len() == 1 || question.answered);
            question.method == "initialize" && said.to != 0 && said.taken && !done
        });
        let greets = |item: &Item| match item {
            Item::Line(line) => memchr::memmem::find(line, b"initialize\"").is_some(),
            Item::End(_) => false,
        };
        owed || self.links.iter().any(|link| link.items.iter().any(greets))
    }

    pub(super) fn anyone_finished(&self) -> bool {
        self.nodes.iter().any(|node| node.finished)
    }

    fn tell(&mut self, text: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(text());
        }
    }
}

fn method(what: u8) -> &'static str {
    ["session/prompt", "_x/y", "session/update", "$/progress"][usize::from(what / 2) % 4]
}
