//! The way in, and the way of a message through the core.

use std::collections::{BTreeMap, VecDeque};

use mcp::{Exchange, Hop, Step};
use router::pending::Gist;
use router::{Chain, Exit, Level, Notice, Role, Router, Seat, TakesUpdates, Time};
use wire::dialect::{Generation, Spoken};
use wire::{Id, Message, Outcome, Side};

use crate::blame::Blame;
use crate::event::{Action, Event};
use crate::orphan::Orphan;
use crate::policy::{Policy, Restarts, Rules};
use crate::record::Record;
use crate::recovery::Stage;
use crate::telling::Telling;
use crate::topic::{Topic, session_of};
use crate::turn::Turns;

/// Decides; never acts. See the crate's documentation.
#[derive(Debug)]
pub struct Supervisor {
    pub(crate) router: Router,
    pub(crate) exchange: Option<Exchange>,
    pub(crate) rules: Rules,
    /// By component, in the order of the chain.
    pub(crate) posts: Vec<Post>,
    pub(crate) telling: Telling,
    /// What goes on behind a chain that is a proxy itself.
    pub(crate) beyond: Turns,
    /// Sessions that the agent could not take up again, and why.
    pub(crate) lost: BTreeMap<String, String>,
    /// Sessions that nobody has.
    pub(crate) orphans: Vec<Orphan>,
    /// By seat: what is spoken there.
    dialects: Vec<Spoken>,
    pub(crate) now: Time,
    /// What happened while something else was done.
    todo: VecDeque<Todo>,
    /// Kept, so that a busy chain allocates nothing per message.
    decided: Vec<router::Action>,
    /// How many requests of our own were sent.
    pub(crate) asked: u64,
    pub(crate) random: u64,
    finished: bool,
}

/// A component, as it is looked after.
#[derive(Debug, Default)]
pub struct Post {
    pub(crate) stage: Stage,
    pub(crate) record: Record,
    pub(crate) turns: Turns,
    pub(crate) blame: Blame,
    pub(crate) restarts: Restarts,
    /// How its last life ended.
    pub(crate) last_exit: Option<Exit>,
    /// When it gave its last sign of life.
    pub(crate) heard: Time,
    /// When something that it waited for came.
    pub(crate) freed: Time,
}

#[derive(Debug)]
enum Todo {
    Route(router::Event),
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
            posts: std::iter::repeat_with(Post::default).take(count).collect(),
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
    pub fn take_any_version(&mut self) {
        self.router.take_any_version();
    }

    /// See [`Router::restart_barrier_limit`].
    pub fn restart_barrier_limit(&mut self, now: Time, seat: Seat) {
        self.router.restart_barrier_limit(now, seat);
    }

    /// See [`Router::tell_guards`].
    pub fn tell_guards(&mut self) {
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

    /// How the last life of a component ended.
    pub fn last_exit(&self, seat: Seat) -> Option<&Exit> {
        self.post(seat)?.last_exit.as_ref()
    }

    /// How many sessions are live, as far as is known.
    pub fn sessions(&self) -> usize {
        self.router.chain().seats().map(|seat| self.sessions_at(seat)).max().unwrap_or(0)
    }

    /// How many of them a component has been told of.
    pub fn sessions_at(&self, seat: Seat) -> usize {
        self.post(seat).map_or(0, |post| post.record.sessions().len())
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
        let posts = self.posts.iter().filter_map(|post| post.stage.deadline());
        let watch = self.watch_deadline();
        let others = [self.router.deadline(), exchange, watch, self.cancel_deadline()];
        posts.chain(others.into_iter().flatten()).min()
    }

    /// How much is open, for tests: questions, what waits, what is recorded of things that are not
    /// over, then the sizes of the exchange.
    pub fn sizes(&self) -> Vec<usize> {
        let held = self.router.chain().seats().map(|seat| self.router.held(seat).0).sum();
        let open: usize =
            self.posts.iter().map(|post| post.record.open() + post.turns.open()).sum();
        let open = open + self.orphans.len() + self.beyond.open();
        let exchange = self.exchange.iter().flat_map(Exchange::sizes);
        [self.router.open_questions(), held, open, self.telling.open()]
            .into_iter()
            .chain(exchange)
            .collect()
    }

    /// The one way in. What is to be done is appended to `actions`, in order.
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
            Event::Again(seat) => {
                self.with_exchange(actions, |it, _, steps| it.left(seat, steps));
                self.route(router::Event::Again(seat), actions);
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

    /// Does what has come up in the meantime.
    fn settle(&mut self, actions: &mut Vec<Action>) {
        while let Some(todo) = self.todo.pop_front().filter(|_| !self.finished) {
            match todo {
                Todo::Route(router::Event::Supplied { from, toward, message }) => {
                    // The exchange may have answered in the place of the agent.
                    let message = self.on_lesson(from, toward, message, actions);
                    let message = message.and_then(|it| self.on_orphan_answer(from, it, actions));
                    if let Some(message) = message {
                        self.route(router::Event::Supplied { from, toward, message }, actions);
                    }
                }
                Todo::Route(event) => self.route(event, actions),
                Todo::Returned { seat, outcome } => self.on_returned(seat, outcome, actions),
            }
        }
    }

    pub(crate) fn on_arrived(
        &mut self,
        from: Seat,
        toward: Side,
        message: Message,
        actions: &mut Vec<Action>,
    ) {
        let ended = match self.post_mut(from) {
            Some(post) => {
                post.blame.arrived(toward, &message);
                post.record.arrived(toward, &message)
            }
            None => self.ended_beyond(&message),
        };
        if let Some(session) = ended {
            // Should one die that this is passed through, the next one need not be told of it.
            self.posts.iter_mut().for_each(|post| post.record.forget(&session));
            self.close_kept(&session);
        }
        self.turn_arrived(from, toward, &message);
        self.sign_of_life(from);
        self.editor_says(from, toward, &message, actions);
        let mut steps = Vec::new();
        let dialect = self.dialects[from.index()];
        let message = match &mut self.exchange {
            Some(exchange) if exchange.minds(&message) => {
                let hop = Hop { seat: from, toward, dialect };
                exchange.arrived(self.now, hop, message, &mut steps)
            }
            _ => Some(message),
        };
        let message = message.and_then(|it| self.on_lesson(from, toward, it, actions));
        let message = message.and_then(|it| self.on_orphan_answer(from, it, actions));
        let message = message.and_then(|it| self.unless_of_orphan(from, toward, it, actions));
        if let Some(message) = message {
            self.route(router::Event::Arrived { from, toward, message }, actions);
        }
        self.take(steps, actions);
    }

    /// The session that an agent beyond us has ended with this.
    fn ended_beyond(&self, message: &Message) -> Option<String> {
        let Message::Response { id, outcome: Outcome::Result(_), .. } = message else {
            return None;
        };
        let ask = self.router.question(id)?;
        match &ask.gist {
            Gist::Whole(params) if Topic::of(&ask.method) == Some(Topic::End) => session_of(params),
            _ => None,
        }
    }

    /// Lets the router decide, and does what it says.
    pub(crate) fn route(&mut self, event: router::Event, actions: &mut Vec<Action>) {
        let now = self.now;
        let mut decided = std::mem::take(&mut self.decided);
        self.router.handle(self.now, event, &mut decided);
        for action in decided.drain(..) {
            match action {
                router::Action::Deliver { to, toward, message } => {
                    self.deliver(to, toward, message, actions);
                }
                router::Action::Start(seat) => {
                    if let Some(post) = self.post_mut(seat) {
                        post.stage = Stage::Up { since: Some(now) };
                    }
                    actions.push(Action::Start(seat));
                }
                router::Action::Returned { seat, outcome } => {
                    self.todo.push_back(Todo::Returned { seat, outcome });
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

    /// Something is decided later, once what is going on is done.
    pub(crate) fn route_later(&mut self, event: router::Event) {
        self.todo.push_back(Todo::Route(event));
    }

    /// A message is to be delivered to a seat.
    pub(crate) fn deliver(
        &mut self,
        to: Seat,
        toward: Side,
        message: Message,
        actions: &mut Vec<Action>,
    ) {
        if self.is_for_lost_session(to, toward, &message) {
            return;
        }
        self.claim_orphan(to, &message);
        self.turn_delivered(to, toward, &message);
        let keep = self.keep(to, toward, &message);
        let (now, router) = (self.now, &self.router);
        match to.index().checked_sub(1).and_then(|index| self.posts.get_mut(index)) {
            Some(post) => {
                if let Message::Response { .. } = &message {
                    post.freed = now;
                }
                if router.can_go_around(to) {
                    post.blame.delivered(toward, &message);
                }
                let method = |id: &Id| router.question(id).filter(|it| it.answerer == to);
                let method = |id: &Id| method(id).map(|it| it.method.clone());
                post.record.delivered(now, toward, &message, method, keep);
            }
            None => self.telling.editor_hears(toward, &message),
        }
        let dialect = self.dialects[to.index()];
        match &mut self.exchange {
            Some(exchange) if exchange.minds_delivery(to, &message) => {
                let mut steps = Vec::new();
                let hop = Hop { seat: to, toward, dialect };
                if let Some(message) = exchange.deliver(now, hop, message, &mut steps) {
                    actions.push(Action::Deliver { to, toward, message });
                }
                self.take(steps, actions);
            }
            _ => actions.push(Action::Deliver { to, toward, message }),
        }
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

    fn take(&mut self, steps: Vec<Step>, actions: &mut Vec<Action>) {
        for step in steps {
            actions.push(match step {
                Step::Arrive { from, toward, message } => {
                    if let Some(post) = self.post_mut(from) {
                        post.record.arrived(toward, &message);
                    }
                    self.route_later(router::Event::Supplied { from, toward, message });
                    continue;
                }
                // Nobody is there who could hear it, and who comes next would not understand it.
                Step::Deliver { to, .. } if self.is_vacant(to) => continue,
                Step::Deliver { to, toward, message } => Action::Deliver { to, toward, message },
                Step::Tell { caller, message } => Action::Tell { caller, message },
                Step::HangUp(caller) => Action::HangUp(caller),
                Step::Admit { ticket, kind } => Action::Admit { ticket, kind },
                Step::Revoke(ticket) => Action::Revoke(ticket),
                Step::Report(notice) => Action::Report(notice),
            });
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

    pub(crate) fn post_mut(&mut self, seat: Seat) -> Option<&mut Post> {
        self.posts.get_mut(seat.index().checked_sub(1)?)
    }

    pub(crate) fn post(&self, seat: Seat) -> Option<&Post> {
        self.posts.get(seat.index().checked_sub(1)?)
    }

    pub(crate) fn is_agent(&self, seat: Seat) -> bool {
        seat.is_component() && self.router.chain().role(seat) == Role::Agent
    }

    pub(crate) fn warn(&self, seat: Seat, text: String, actions: &mut Vec<Action>) {
        actions.push(Action::Report(Notice { level: Level::Warn, seat, text }));
    }
}
