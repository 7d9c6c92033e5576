//! The stages that a message passes between the link that it comes on and the router, and between the router
//! and the link that it leaves on.
//!
//! On the way in, a stage looks at a message and passes it on or takes it (`Flow`). On the way out the stages come
//! in the opposite order. A message that a stage makes up itself begins at the place of that stage, so it passes
//! only the stages that come after it (`walk`).
//!
//! Each stage keeps its state in a type of its own, with private fields, in a module of its own. What a failure
//! means for all of them is in `failure`.

mod blame;
mod by_seat;
mod command;
mod failure;
mod gate;
mod lessons;
mod mcp;
mod notes;
mod orphans;
mod sessions;
mod turns;
mod walk;
mod watch;

use std::collections::VecDeque;
use std::fmt;

use ::mcp::Broker;
use acp_wire::dialect::{Generation, Spoken};
use acp_wire::{Id, Json, Message, Outcome, Side};
use router::{Chain, Level, Notice, Role, Router, Seat, TakesUpdates, Time};

use crate::event::{Action, Event};
use crate::input::Output;
use crate::policy::{Policy, Rules};
use blame::Blames;
use failure::Failures;
use gate::Gate;
use lessons::Lessons;
use mcp::Mcp;
use notes::Notes;
use orphans::Orphans;
use sessions::Sessions;
use turns::Turns;
use watch::Watchdog;

/// A stage, in the order of the way in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// What may pass at the moment: messages for a seat are held on command, and dropped if the seat has no
    /// component.
    Gate,
    /// Signs of life.
    Watch,
    /// Which kind of message a component crashes on.
    Blame,
    /// Turns in ACP version 2.
    Turns,
    /// MCP over ACP (crate `mcp`).
    Mcp,
    /// What is told to the user in front of the editor.
    Notes,
    /// What the next component in a seat must be told.
    Sessions,
    /// What a restarted component is told, and sessions that the agent has lost.
    Lessons,
    /// Sessions that no component before them knows.
    Orphans,
}

impl Stage {
    /// From the link to the router. The way out is the reverse.
    pub const ALL: [Stage; 9] = [
        Stage::Gate,
        Stage::Watch,
        Stage::Blame,
        Stage::Turns,
        Stage::Mcp,
        Stage::Notes,
        Stage::Sessions,
        Stage::Lessons,
        Stage::Orphans,
    ];
}

/// The way of a message from link to link, for people.
pub fn way() -> String {
    let stages: Vec<String> = Stage::ALL.iter().map(Stage::to_string).collect();
    let back: Vec<&str> = stages.iter().rev().map(String::as_str).collect();
    format!("dialect → {} → router → {} → dialect", stages.join(" → "), back.join(" → "))
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stage::Gate => "gate",
            Stage::Watch => "watch",
            Stage::Blame => "blame",
            Stage::Turns => "turns",
            Stage::Mcp => "mcp",
            Stage::Notes => "notes",
            Stage::Sessions => "sessions",
            Stage::Lessons => "lessons",
            Stage::Orphans => "orphans",
        })
    }
}

/// What a stage does with a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Pass,
    /// The message goes no further. The stage keeps it, answers it, or drops it.
    Taken,
}

/// Takes a message out of its way through the stages.
fn take(message: &mut Message) -> Message {
    std::mem::replace(message, Message::response(Id::NULL, Outcome::Result(Json::NULL)))
}

/// One end of a hop: the seat that a message comes from or goes to, and the direction that it travels in.
#[derive(Debug, Clone, Copy)]
struct Hop {
    seat: Seat,
    toward: Side,
}

/// What every stage needs: the time, and the list of what is to be done.
#[derive(Debug, Default)]
struct Cx {
    now: Time,
    out: Vec<Action>,
    /// How many requests of our own were sent.
    asked: u64,
}

impl Cx {
    /// An id for a request of our own.
    fn next_id(&mut self) -> Id {
        self.asked += 1;
        Id::string(&format!("r:{}", self.asked))
    }

    fn push(&mut self, output: Output) {
        self.out.push(Action::Output(output));
    }

    fn warn(&mut self, seat: Seat, text: String) {
        self.push(Output::Report(Notice { level: Level::Warn, seat, text }));
    }
}

/// The stages and the router. [`Core`](crate::Core) hands them events, and performs their actions.
#[derive(Debug)]
pub struct Stages {
    cx: Cx,
    rules: Rules,
    gate: Gate,
    watch: Watchdog,
    blame: Blames,
    turns: Turns,
    mcp: Mcp,
    notes: Notes,
    sessions: Sessions,
    lessons: Lessons,
    orphans: Orphans,
    failures: Failures,
    router: Router,
    /// What is done after the current event.
    todo: VecDeque<Todo>,
    /// Kept, so that a busy chain allocates nothing per message.
    decided: Vec<router::Action>,
    finished: bool,
}

/// What is done after the current event.
#[derive(Debug)]
enum Todo {
    /// A message of a stage's own goes on toward the router.
    Inject { stage: Stage, hop: Hop, message: Message },
    /// A component that was started again has answered `initialize`.
    Returned { seat: Seat, outcome: Outcome },
}

impl Stages {
    pub fn new(chain: Chain, rules: Rules, broker: Option<Broker>) -> Stages {
        let count = chain.components.len();
        let mut router = Router::new(chain);
        router.set_seed(rules.seed);
        Stages {
            cx: Cx::default(),
            gate: Gate::new(count),
            watch: Watchdog::new(count),
            blame: Blames::new(count),
            turns: Turns::new(count),
            mcp: Mcp::new(count, broker),
            notes: Notes::default(),
            sessions: Sessions::new(count),
            lessons: Lessons::new(count),
            orphans: Orphans::default(),
            failures: Failures::new(count, rules.seed),
            router,
            todo: VecDeque::new(),
            decided: Vec::new(),
            rules,
            finished: false,
        }
    }

    pub fn router(&self) -> &Router {
        &self.router
    }

    pub fn broker(&self) -> Option<&Broker> {
        self.mcp.broker()
    }

    /// See [`Router::take_any_version`].
    pub(crate) fn take_any_version(&mut self) {
        self.router.take_any_version();
    }

    /// See [`Router::restart_barrier_limit`].
    pub(crate) fn restart_barrier_limit(&mut self, now: Time, seat: Seat) {
        self.router.restart_barrier_limit(now, seat);
    }

    /// See [`Router::tell_guards`].
    pub(crate) fn tell_guards(&mut self) {
        self.router.tell_guards();
    }

    /// What is spoken on the link of a seat has become clear.
    pub fn set_dialect(&mut self, seat: Seat, spoken: Spoken) {
        if !self.mcp.set_dialect(seat, spoken) {
            return;
        }
        let Some(component) = self.router.chain().component(seat) else { return };
        let known = spoken.generation().and_then(Generation::updates);
        let reads = match component.updates {
            TakesUpdates::Usual => known.filter(|it| it.fails),
            TakesUpdates::All => None,
            TakesUpdates::Known => known,
        };
        self.router.set_updates(seat, reads);
    }

    /// How many sessions are live, as far as is known.
    pub fn live_sessions(&self) -> usize {
        self.sessions.live()
    }

    /// How many messages are held for a peer, and how many bytes.
    pub fn held(&self, seat: Seat) -> (usize, usize) {
        let (absent, gate) = (self.router.held(seat), self.gate.held(seat));
        (absent.0 + gate.0, absent.1 + gate.1)
    }

    /// Whether any message is held, or may have to be.
    pub(crate) fn holds_any(&self) -> bool {
        self.router.holds_any() || self.gate.holds_any()
    }

    /// Messages for a peer are held by a command: it cannot act on them.
    pub(crate) fn is_gate_closed(&self, seat: Seat) -> bool {
        self.gate.is_closed(seat)
    }

    /// How many bytes of long requests and answers are kept, for tests.
    pub fn kept(&self) -> usize {
        self.sessions.kept()
    }

    /// What is to be done when a component fails.
    pub fn policy(&self, seat: Seat) -> Option<Policy> {
        let policy = *self.rules.policies.get(seat.index().checked_sub(1)?)?;
        // A chain may turn out to contain a guard only when it answers its greeting.
        let guard = self.router.chain().component(seat).is_some_and(|it| it.guard);
        Some(if guard { policy.for_guard() } else { policy })
    }

    /// When to call [`handle`](Stages::handle) with [`Event::Tick`], if nothing happens before.
    pub fn deadline(&self) -> Option<Time> {
        if self.finished {
            return None;
        }
        let stages = [self.mcp.deadline(), self.watch_deadline(), self.cancel_deadline()];
        let router = [self.router.deadline(), self.router.life_deadline()];
        stages.into_iter().chain(router).flatten().min()
    }

    /// How much is open, for tests: questions, what waits, what is recorded of things that are not
    /// over, then the sizes of the exchange.
    pub fn sizes(&self) -> Vec<usize> {
        let held: usize = self.router.chain().seats().map(|seat| self.held(seat).0).sum();
        let open = self.sessions.open() + self.turns.open() + self.orphans.len();
        let broker = self.mcp.broker().into_iter().flat_map(Broker::sizes);
        [self.router.open_questions(), held, open, self.notes.open()]
            .into_iter()
            .chain(broker)
            .collect()
    }

    /// Handles an event, and appends what is to be done to `actions`, in order.
    pub fn handle(&mut self, now: Time, event: Event, actions: &mut Vec<Action>) {
        if self.finished {
            return;
        }
        self.cx.now = now;
        std::mem::swap(&mut self.cx.out, actions);
        match event {
            Event::Arrived { from, toward, message } => {
                self.on_arrived(Hop { seat: from, toward }, message);
            }
            Event::Left { seat, why } => self.on_left(seat, why),
            Event::Again { seat, why } => {
                self.with_broker(|it, cx| it.component_removed(seat, cx));
                self.route(router::Event::Again { seat, why });
            }
            Event::ClientConnected { ticket, client_id } => {
                self.with_broker(|it, cx| it.client_connected(ticket, client_id, cx));
            }
            Event::ClientMessage { client_id, line } => {
                self.with_broker(|it, cx| it.client_message(client_id, &line, cx));
            }
            Event::ClientDisconnected(client_id) => {
                self.with_broker(|it, cx| it.client_disconnected(client_id, cx));
            }
            Event::EndpointOpened { ticket, endpoint } => {
                self.with_broker(|it, cx| it.endpoint_opened(ticket, endpoint, cx));
            }
            Event::Command(command) => self.on_command(command),
            Event::Tick => self.on_tick(),
        }
        self.settle();
        if self.router.is_ending() && !self.finished {
            self.release_all();
        }
        std::mem::swap(&mut self.cx.out, actions);
    }

    /// Does what was put off until after the current event.
    fn settle(&mut self) {
        while let Some(todo) = self.todo.pop_front().filter(|_| !self.finished) {
            match todo {
                Todo::Inject { stage, hop, message } => self.walk_on(stage, hop, message),
                Todo::Returned { seat, outcome } => self.on_returned(seat, outcome),
            }
        }
    }

    /// Lets the router decide, and does what it says.
    fn route(&mut self, event: router::Event) {
        let mut decided = std::mem::take(&mut self.decided);
        self.router.handle(self.cx.now, event, &mut decided);
        for action in decided.drain(..) {
            match action {
                router::Action::Deliver { to, toward, message } => {
                    self.deliver(Hop { seat: to, toward }, message);
                }
                router::Action::Start(seat) => self.cx.out.push(Action::Start(seat)),
                router::Action::Returned { seat, outcome } => {
                    self.todo.push_back(Todo::Returned { seat, outcome });
                }
                router::Action::Report(notice) => self.cx.push(Output::Report(notice)),
                router::Action::Finish(ending) => {
                    self.release_all();
                    self.finished = true;
                    self.cx.out.push(Action::Finish(ending));
                }
            }
        }
        self.decided = decided;
    }

    fn on_tick(&mut self) {
        let now = self.cx.now;
        let due = |time: Option<Time>| time.is_some_and(|time| time <= now);
        if due(self.router.deadline()) {
            self.route(router::Event::Tick);
        }
        // Nothing follows the end.
        if self.finished {
            return;
        }
        if due(self.mcp.deadline()) {
            self.with_broker(|it, cx| it.tick(cx));
        }
        self.answer_cancelled();
        self.start_what_is_due();
    }

    fn is_agent(&self, seat: Seat) -> bool {
        seat.is_component() && self.router.chain().role(seat) == Role::Agent
    }

    fn warn(&mut self, seat: Seat, text: String) {
        self.cx.warn(seat, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ARCHITECTURE.md has a picture of the stages, and a table with a line for each of them.
    #[test]
    fn the_architecture_shows_the_stages_in_order() {
        let text = include_str!("../../../ARCHITECTURE.md");
        let way = way();
        let (into, out) = way.split_once(" → router → ").unwrap();
        let picture = format!("line ─▶ {} ─▶", into.replace('→', "─▶"));
        assert!(text.contains(&picture), "{picture}");
        let back: Vec<&str> = out.split(" → ").collect();
        let back: Vec<&str> = back.into_iter().rev().collect();
        let picture = format!("bytes ◀─ {} ◀─", back.join(" ◀─ "));
        assert!(text.contains(&picture), "{picture}");
        let rows: Vec<usize> = Stage::ALL
            .iter()
            .map(|stage| text.find(&format!("\n| {stage} | `{stage}.rs`")).expect("a row"))
            .collect();
        assert!(rows.is_sorted(), "{rows:?}");
    }
}
