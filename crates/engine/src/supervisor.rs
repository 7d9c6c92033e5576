//! The state of the stages, and what an event does to it.

use std::collections::{BTreeMap, VecDeque};

use mcp::{Exchange, Step};
use router::{Chain, Level, Notice, Role, Router, Seat, TakesUpdates, Time};
use wire::dialect::{Generation, Spoken};
use wire::{Message, Outcome, Side};

use crate::blame::Blame;
use crate::by_seat::BySeat;
use crate::event::{Action, Event};
use crate::orphan::Orphan;
use crate::policy::{Policy, Restarts, Rules};
use crate::record::Record;
use crate::recovery::Lessons;
use crate::stages::Stage;
use crate::telling::Telling;
use crate::turn::Turns;
use crate::watchdog::Signs;

/// The stages with their tables, the router and the exchange. [`Core`](crate::Core) hands it events.
#[derive(Debug)]
pub struct Supervisor {
    pub(crate) router: Router,
    pub(crate) exchange: Option<Exchange>,
    pub(crate) rules: Rules,
    pub(crate) restarts: BySeat<Restarts>,
    pub(crate) lessons: BySeat<Lessons>,
    pub(crate) signs: BySeat<Signs>,
    pub(crate) blames: BySeat<Blame>,
    pub(crate) turns: BySeat<Turns>,
    pub(crate) records: BySeat<Record>,
    pub(crate) telling: Telling,
    /// What goes on behind a chain that is a proxy itself.
    pub(crate) beyond: Turns,
    /// Sessions that the agent could not take up again, and why.
    pub(crate) lost: BTreeMap<String, String>,
    /// Sessions that nobody has.
    pub(crate) orphans: Vec<Orphan>,
    /// By seat: what is spoken there.
    pub(crate) dialects: Vec<Spoken>,
    pub(crate) now: Time,
    /// What is done after the current event.
    todo: VecDeque<Todo>,
    /// Kept, so that a busy chain allocates nothing per message.
    decided: Vec<router::Action>,
    /// How many requests of our own were sent.
    pub(crate) asked: u64,
    pub(crate) random: u64,
    finished: bool,
}

/// What is done after the current event.
#[derive(Debug)]
pub(crate) enum Todo {
    /// A message of a stage's own goes on toward the router.
    Inject { stage: Stage, from: Seat, toward: Side, message: Message },
    /// A component that was started again has answered `initialize`.
    Returned { seat: Seat, outcome: Outcome },
}

impl Supervisor {
    pub fn new(chain: Chain, rules: Rules, exchange: Option<Exchange>) -> Supervisor {
        let count = chain.components.len();
        let mut router = Router::new(chain);
        router.set_seed(rules.seed);
        Supervisor {
            router,
            exchange,
            restarts: BySeat::new(count),
            lessons: BySeat::new(count),
            signs: BySeat::new(count),
            blames: BySeat::new(count),
            turns: BySeat::new(count),
            records: BySeat::new(count),
            telling: Telling::default(),
            beyond: Turns::default(),
            lost: BTreeMap::new(),
            orphans: Vec::new(),
            dialects: vec![Spoken::Unknown; count + 1],
            now: Time::default(),
            todo: VecDeque::new(),
            decided: Vec::new(),
            asked: 0,
            random: rules.seed | 1,
            rules,
            finished: false,
        }
    }

    pub fn router(&self) -> &Router {
        &self.router
    }

    pub fn exchange(&self) -> Option<&Exchange> {
        self.exchange.as_ref()
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
        if self.dialects[seat.index()] == spoken {
            return;
        }
        self.dialects[seat.index()] = spoken;
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
    pub fn sessions(&self) -> usize {
        self.router.chain().seats().map(|seat| self.sessions_at(seat)).max().unwrap_or(0)
    }

    /// How many of them a component has been told of.
    fn sessions_at(&self, seat: Seat) -> usize {
        self.records.get(seat).map_or(0, |record| record.sessions().len())
    }

    /// What is to be done when a component fails.
    pub fn policy(&self, seat: Seat) -> Option<Policy> {
        let policy = *self.rules.policies.get(seat.index().checked_sub(1)?)?;
        // A chain may turn out to contain a guard only when it answers its greeting.
        let guard = self.router.chain().component(seat).is_some_and(|it| it.guard);
        Some(if guard { policy.for_guard() } else { policy })
    }

    /// When to call [`handle`](Supervisor::handle) with [`Event::Tick`], if nothing happens before.
    pub fn deadline(&self) -> Option<Time> {
        if self.finished {
            return None;
        }
        let exchange = self.exchange.as_ref().and_then(Exchange::deadline);
        let watch = self.watch_deadline();
        let router = [self.router.deadline(), self.router.life_deadline()];
        router.into_iter().chain([exchange, watch, self.cancel_deadline()]).flatten().min()
    }

    /// How much is open, for tests: questions, what waits, what is recorded of things that are not
    /// over, then the sizes of the exchange.
    pub fn sizes(&self) -> Vec<usize> {
        let held = self.router.chain().seats().map(|seat| self.router.held(seat).0).sum();
        let records: usize = self.records.iter().map(Record::open).sum();
        let turns: usize = self.turns.iter().map(Turns::open).sum();
        let open = records + turns + self.orphans.len() + self.beyond.open();
        let exchange = self.exchange.iter().flat_map(Exchange::sizes);
        [self.router.open_questions(), held, open, self.telling.open()]
            .into_iter()
            .chain(exchange)
            .collect()
    }

    /// Handles an event. What is to be done is appended to `actions`, in order.
    pub fn handle(&mut self, now: Time, event: Event, actions: &mut Vec<Action>) {
        if self.finished {
            return;
        }
        self.now = now;
        match event {
            Event::Arrived { from, toward, message } => {
                self.on_arrived(from, toward, message, actions);
            }
            Event::Left { seat, why } => self.on_left(seat, why, actions),
            Event::Again { seat, why } => {
                self.with_exchange(actions, |it, _, steps| it.left(seat, steps));
                self.route(router::Event::Again { seat, why }, actions);
            }
            Event::Called { ticket, caller } => {
                self.with_exchange(actions, |it, _, steps| it.called(ticket, caller, steps));
            }
            Event::Heard { caller, line } => {
                self.with_exchange(actions, |it, now, steps| it.heard(now, caller, &line, steps));
            }
            Event::HungUp(caller) => {
                self.with_exchange(actions, |it, _, steps| it.hung_up(caller, steps));
            }
            Event::Admitted { ticket, place } => {
                self.with_exchange(actions, |it, now, steps| {
                    it.admitted(now, ticket, place, steps)
                });
            }
            Event::Stop => self.route(router::Event::Stop, actions),
            Event::Tick => self.on_tick(actions),
        }
        self.settle(actions);
    }

    /// Does what was put off until after the current event.
    fn settle(&mut self, actions: &mut Vec<Action>) {
        while let Some(todo) = self.todo.pop_front().filter(|_| !self.finished) {
            match todo {
                Todo::Inject { stage, from, toward, message } => {
                    self.walk_on(stage, from, toward, message, actions);
                }
                Todo::Returned { seat, outcome } => self.on_returned(seat, outcome, actions),
            }
        }
    }

    /// Lets the router decide, and does what it says.
    pub(crate) fn route(&mut self, event: router::Event, actions: &mut Vec<Action>) {
        let mut decided = std::mem::take(&mut self.decided);
        self.router.handle(self.now, event, &mut decided);
        for action in decided.drain(..) {
            match action {
                router::Action::Deliver { to, toward, message } => {
                    self.deliver(to, toward, message, actions);
                }
                router::Action::Start(seat) => {
                    actions.push(Action::Start(seat));
                }
                router::Action::Returned { seat, outcome } => {
                    self.later(Todo::Returned { seat, outcome });
                }
                router::Action::Report(notice) => actions.push(Action::Report(notice)),
                router::Action::Finish(ending) => {
                    self.finished = true;
                    actions.push(Action::Finish(ending));
                }
            }
        }
        self.decided = decided;
    }

    /// Does this after the current event.
    pub(crate) fn later(&mut self, todo: Todo) {
        self.todo.push_back(todo);
    }

    pub(crate) fn with_exchange(
        &mut self,
        actions: &mut Vec<Action>,
        act: impl FnOnce(&mut Exchange, Time, &mut Vec<Step>),
    ) {
        if let Some(exchange) = &mut self.exchange {
            let mut steps = Vec::new();
            act(exchange, self.now, &mut steps);
            self.take(steps, actions);
        }
    }

    fn on_tick(&mut self, actions: &mut Vec<Action>) {
        let now = self.now;
        let due = |time: Option<Time>| time.is_some_and(|time| time <= now);
        if due(self.router.deadline()) {
            self.route(router::Event::Tick, actions);
        }
        // Nothing follows the end.
        if self.finished {
            return;
        }
        if due(self.exchange.as_ref().and_then(Exchange::deadline)) {
            self.with_exchange(actions, |it, now, steps| it.tick(now, steps));
        }
        self.answer_cancelled(actions);
        self.start_what_is_due(actions);
    }

    pub(crate) fn is_agent(&self, seat: Seat) -> bool {
        seat.is_component() && self.router.chain().role(seat) == Role::Agent
    }

    pub(crate) fn warn(&self, seat: Seat, text: String, actions: &mut Vec<Action>) {
        actions.push(Action::Report(Notice { level: Level::Warn, seat, text }));
    }
}
