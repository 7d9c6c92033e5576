//! The rules: where each message goes, and what follows when somebody leaves.

use acp_wire::message::error_object;
use acp_wire::{Call, Id, Json, Message, Outcome, Side, acp, code};

use crate::absence::{Absence, Letter};
use crate::around::Detours;
use crate::barrier::{Mark, Passage};
use crate::event::{Action, Cx, Ending, Event, Level, Notice, Time};
use crate::pending::{Ask, Gist, Pending, Purpose};
use crate::seat::{Chain, Exit, Greeted, How, Life, Role, Seat};

/// Decides; never acts. See the crate's documentation.
#[derive(Debug)]
pub struct Router {
    pub(crate) chain: Chain,
    /// One per component; the outer pipe is `outer`.
    pub(crate) lives: Vec<Life>,
    /// By component: how the last one in its seat ended.
    pub(crate) exits: Vec<Option<Exit>>,
    /// By component: what waits for it.
    pub(crate) absences: Vec<Absence>,
    pub(crate) greeted: Vec<Greeted>,
    pub(crate) outer: Outer,
    pub(crate) pending: Pending,
    pub(crate) phase: Phase,
    /// Whose move it is in the handshake, and until when.
    pub(crate) turn: Option<(Seat, Time)>,
    /// By component: what is known of its way with barriers (see `barrier`).
    pub(crate) passages: Vec<Passage>,
    /// What was delivered by the event at hand, beside its actions.
    pub(crate) marks: Vec<Mark>,
    /// Tells this chain from others.
    pub(crate) seed: u64,
    /// This chain is a component of another one, which is told whether it contains a guard.
    pub(crate) tells_guards: bool,
    /// By component: what goes around it (see `around`).
    pub(crate) detours: Vec<Detours>,
}

/// What is known of the outer pipe.
#[derive(Debug, Default)]
pub(crate) struct Outer {
    /// It has sent a first, valid `initialize`: the components are started.
    pub began: bool,
    /// In proxy mode: our last component has initialised its successor there.
    pub successor_greeted: bool,
    /// The handshake settled on ACP v2, where a null id is an error.
    pub v2: bool,
    /// It will send nothing more, so it can answer nothing.
    pub left: bool,
}

/// Who asks something: under which id, and which way.
#[derive(Debug)]
pub(crate) struct Asker {
    pub seat: Seat,
    pub id: Id,
    pub toward: Side,
}

#[derive(Debug)]
pub(crate) enum Phase {
    Open,
    /// The chain ends when the outer pipe waits for nothing more, at the latest at `until`.
    Closing {
        until: Time,
        ending: Ending,
        error: Json,
    },
    Closed,
}

impl Router {
    pub fn new(chain: Chain) -> Router {
        Router {
            detours: chain.components.iter().map(|_| Detours::default()).collect(),
            passages: chain.components.iter().map(|_| Passage::default()).collect(),
            lives: vec![Life::Empty; chain.components.len()],
            exits: vec![None; chain.components.len()],
            absences: chain.components.iter().map(|_| Absence::default()).collect(),
            greeted: vec![Greeted::default(); chain.components.len()],
            chain,
            outer: Outer::default(),
            pending: Pending::default(),
            phase: Phase::Open,
            turn: None,
            marks: Vec::new(),
            seed: 0,
            tells_guards: false,
        }
    }

    /// When to call [`handle`](Router::handle) with [`Event::Tick`], if nothing happens before.
    pub fn deadline(&self) -> Option<Time> {
        let closing = match self.phase {
            Phase::Closing { until, .. } => Some(until),
            Phase::Open | Phase::Closed => None,
        };
        let turn = self.greeting_deadline();
        [closing, turn, self.barrier_deadline()].into_iter().flatten().min()
    }

    /// Until when the first handshake waits for the one whose turn it is.
    pub fn greeting_deadline(&self) -> Option<Time> {
        self.turn.map(|(_, until)| until)
    }

    /// Who has kept the handshake waiting for too long. A shell that knows the last words of that
    /// component tells its end itself, with [`Event::Left`]; else it is told without them, at the
    /// next [`Event::Tick`].
    pub fn overdue(&self, now: Time) -> Option<(Seat, How)> {
        let (seat, until) = self.turn?;
        (until <= now).then_some((seat, How::Silent(self.chain.greeting_limit)))
    }

    /// The one way in. What is to be done is appended to `actions`, in order. (It fills a list
    /// instead of returning one so that a busy chain allocates nothing per message.)
    pub fn handle(&mut self, now: Time, event: Event, actions: &mut Vec<Action>) {
        if matches!(self.phase, Phase::Closed) {
            return;
        }
        let first = actions.len();
        let cx = &mut Cx { now, out: actions };
        match event {
            Event::Arrived { from, toward, message } => {
                self.note_sign(from, toward, &message, cx);
                self.on_message(from, toward, message, cx);
            }
            Event::Supplied { from, toward, message } => {
                self.on_message(from, toward, message, cx);
            }
            Event::Left { seat: Seat::OUTER, why } => self.on_outer_left(&why, cx),
            Event::Left { seat, why } => self.on_left(seat, why, cx),
            // What it had asked, nobody waits for any more; what it owes is still owed.
            Event::Again { seat, why } => {
                self.note_exit(seat, why);
                self.pending.forget(seat);
                self.renew_passage(seat);
            }
            Event::Parted { seat, why, plan, lost } => {
                self.on_parted(seat, why, (plan, lost), cx);
            }
            Event::Returned(seat) => self.on_returned(seat, cx),
            Event::Resumed(seat) => self.on_resumed(seat, cx),
            Event::Bypassed(seat) => self.on_bypassed(seat, cx),
            Event::Stop => self.close(now, Ending::Clean, stopping()),
            Event::Tick => self.on_tick(cx),
        }
        self.note_deliveries(cx.out, first);
        loop {
            let released = cx.out.len();
            self.release_reached(cx);
            if cx.out.len() == released && self.marks.is_empty() {
                break;
            }
            self.note_deliveries(cx.out, released);
        }
        self.settle(cx);
    }

    pub(crate) fn on_message(
        &mut self,
        from: Seat,
        toward: Side,
        message: Message,
        cx: &mut Cx<'_>,
    ) {
        match message {
            Message::Request { id, call } => self.on_request(from, toward, id, call, cx),
            Message::Notification(call) => self.on_notification(from, toward, call, cx),
            Message::Response { id, outcome, extras } => {
                self.on_response(from, id, outcome, extras, cx);
            }
        }
    }

    fn on_request(&mut self, from: Seat, toward: Side, id: Id, call: Call, cx: &mut Cx<'_>) {
        if id.is_null() && self.outer.v2 {
            let why = "a request id must not be null in ACP v2";
            return self.refuse(from, toward, id, code::INVALID_REQUEST, why, cx);
        }
        if let Phase::Closing { error, .. } = &self.phase
            && from == Seat::OUTER
        {
            let outcome = Outcome::Error(error.clone());
            return answer(from, toward.opposite(), id, outcome, cx);
        }
        if toward == Side::Agent && call.is(acp::INITIALIZE) {
            return self.on_initialize(from, id, call, cx);
        }
        if !self.outer.began {
            let why = "not initialized: the first request must be initialize";
            return self.refuse(from, toward, id, code::INVALID_REQUEST, why, cx);
        }
        if self.on_barrier(from, toward, &id, &call, cx) {
            return;
        }
        let letter = Letter::new(from, toward, Message::Request { id, call });
        self.route(letter, cx);
    }

    fn on_notification(&mut self, from: Seat, toward: Side, call: Call, cx: &mut Cx<'_>) {
        if call.is(acp::CANCEL_REQUEST) {
            return self.on_cancel(from, call, cx);
        }
        if !self.outer.began {
            let text = dropped(&call, "it came before initialize");
            return cx.out.push(Action::Report(Notice { level: Level::Debug, seat: from, text }));
        }
        let letter = Letter::new(from, toward, Message::Notification(call));
        self.route(letter, cx);
    }

    /// Finds out where a request or a notification goes next from where it is.
    pub(crate) fn route(&mut self, letter: Letter, cx: &mut Cx<'_>) {
        let (at, toward) = (letter.at(), letter.toward);
        match &letter.message {
            Message::Request { id, .. } => match self.receiver(at, toward) {
                Ok(to) => self.pass(letter, to, cx),
                Err(outcome) => {
                    answer(letter.from, toward.opposite(), id.clone(), outcome, cx);
                }
            },
            Message::Notification(call) => match self.listener(at, toward) {
                Ok(to) => self.pass(letter, to, cx),
                Err(why) => {
                    let (level, seat) = (Level::Debug, letter.from);
                    let text = dropped(call, &why);
                    cx.out.push(Action::Report(Notice { level, seat, text }));
                }
            },
            Message::Response { .. } => {}
        }
    }

    /// Hands a request or a notification over, or keeps it for one who cannot be spoken to now.
    fn pass(&mut self, letter: Letter, to: Seat, cx: &mut Cx<'_>) {
        if let Some(letter) = self.hold(to, letter) {
            self.hand_over(letter, to, cx);
        }
    }

    pub(crate) fn hand_over(&mut self, letter: Letter, to: Seat, cx: &mut Cx<'_>) {
        if self.goes_around(to, &letter) {
            return self.around(to, letter, cx);
        }
        let Letter { from, toward, message, past } = letter;
        match message {
            Message::Request { id, call } => {
                let asker = Asker { seat: from, id, toward };
                let via = past.into_iter().rev().collect();
                self.ask_via(asker, call, to, (Purpose::Pass, via), cx);
            }
            message => cx.out.push(Action::Deliver { to, toward, message }),
        }
    }

    /// Ids in a cancellation are those of one link: look it up, pass it on under the id of the next.
    fn on_cancel(&mut self, from: Seat, call: Call, cx: &mut Cx<'_>) {
        let params = call.params.unwrap_or(Json::NULL);
        let Some(id) = acp::cancelled_id(&params) else { return };
        if self.cancel_held(from, &id, cx) {
            return;
        }
        for (ours, ask) in self.pending.find(from, &id) {
            if !std::mem::replace(&mut ask.cancelled, true) {
                let params = acp::cancel_params(&params, &ours);
                let message = Message::notification(acp::CANCEL_REQUEST, params);
                cx.out.push(Action::Deliver { to: ask.answerer, toward: ask.toward, message });
            }
        }
    }

    fn on_response(
        &mut self,
        from: Seat,
        id: Id,
        outcome: Outcome,
        extras: Option<Box<[u8]>>,
        cx: &mut Cx<'_>,
    ) {
        let Some(ask) = self.pending.close(from, &id) else {
            let text = format!("answer {id} dropped: nobody waits for it");
            return cx.out.push(Action::Report(Notice { level: Level::Debug, seat: from, text }));
        };
        match ask.purpose {
            Purpose::Pass => self.on_answer(ask, outcome, extras, cx),
            Purpose::Greeting { .. } => self.on_greeted(ask, outcome, extras, cx),
            Purpose::Return => self.on_return_answered(from, outcome, cx),
            Purpose::Barrier(_) => {
                self.pending.restore(&id, ask);
                self.barrier_through(from, &id, cx);
            }
        }
    }

    /// Writes the question down and asks it.
    pub(crate) fn ask(
        &mut self,
        asker: Asker,
        call: Call,
        answerer: Seat,
        purpose: Purpose,
        cx: &mut Cx<'_>,
    ) {
        self.ask_via(asker, call, answerer, (purpose, Vec::new()), cx);
    }

    /// The same; the answer goes past these, behind all that the answerer says to them before.
    fn ask_via(
        &mut self,
        asker: Asker,
        call: Call,
        answerer: Seat,
        (purpose, via): (Purpose, Vec<Seat>),
        cx: &mut Cx<'_>,
    ) {
        let toward = asker.toward;
        // Only proxies pass questions on.
        let passes = |seat| seat != Seat::OUTER && self.chain.role(seat) == Role::Proxy;
        let gist = match passes(asker.seat) || passes(answerer) {
            true => Gist::of(call.params.as_ref(), self.pending.kept()),
            false => Gist::None,
        };
        let id = self.pending.open(Ask {
            asker: asker.seat,
            asker_id: asker.id.detached(),
            answerer,
            toward,
            method: call.method.name().into_owned(),
            gist,
            at: cx.now,
            cancelled: false,
            purpose,
            via,
        });
        let message = Message::Request { id, call };
        cx.out.push(Action::Deliver { to: answerer, toward, message });
    }

    /// Who can answer a request of `from` in that direction, or the answer it gets instead.
    pub(crate) fn receiver(&self, from: Seat, toward: Side) -> Result<Seat, Outcome> {
        let to =
            self.listener(from, toward).map_err(|why| match self.neighbour_exit(from, toward) {
                Some((seat, exit)) => Outcome::Error(self.chain.death_notice(seat, exit, None)),
                None => Outcome::error(code::INVALID_REQUEST, &why),
            })?;
        if to == Seat::OUTER && self.outer.left {
            let why = format!("{} has left and can answer nothing", self.chain.describe(to));
            return Err(Outcome::error(code::INTERNAL_ERROR, &why));
        }
        Ok(to)
    }

    /// Who can hear a notification of `from` in that direction, or why nobody can.
    fn listener(&self, from: Seat, toward: Side) -> Result<Seat, String> {
        let Some(to) = self.neighbour(from, toward) else {
            return Err("nobody is in that direction".into());
        };
        match self.life(to) {
            Some(Life::Empty | Life::Starting) => {
                Err(format!("{} is not initialized yet", self.chain.describe(to)))
            }
            Some(Life::Closed) => {
                let what = self.last_exit(to).map(Exit::what).unwrap_or_default();
                Err(format!("{} {what}", self.chain.describe(to)))
            }
            Some(_) | None => Ok(to),
        }
    }

    /// Who is next to a seat, among those who are not left out.
    pub(crate) fn neighbour(&self, seat: Seat, toward: Side) -> Option<Seat> {
        let mut next = self.chain.neighbour(seat, toward)?;
        while let Some(Life::Bypassed) = self.life(next) {
            next = self.chain.neighbour(next, toward)?;
        }
        Some(next)
    }

    /// Who is next to a seat on the agent's side.
    pub fn successor(&self, seat: Seat) -> Option<Seat> {
        self.neighbour(seat, Side::Agent)
    }

    fn neighbour_exit(&self, from: Seat, toward: Side) -> Option<(Seat, &Exit)> {
        let seat = self.neighbour(from, toward)?;
        match self.life(seat)? {
            Life::Closed => Some((seat, self.last_exit(seat)?)),
            _ => None,
        }
    }

    fn on_outer_left(&mut self, why: &Exit, cx: &mut Cx<'_>) {
        self.outer.left = true;
        if why.how == How::ClosedInput {
            // It does not even read: what it waits for can reach nobody.
            self.pending.forget(Seat::OUTER);
            self.forget_asker(Seat::OUTER);
        }
        let text = format!("{} has left", self.chain.describe(Seat::OUTER));
        for (_, ask) in self.pending.abandon(Seat::OUTER) {
            let outcome = Outcome::error(code::INTERNAL_ERROR, &text);
            answer(ask.asker, ask.toward.opposite(), ask.asker_id, outcome, cx);
        }
        self.close(cx.now, Ending::Clean, stopping());
    }

    pub(crate) fn on_left(&mut self, seat: Seat, why: Exit, cx: &mut Cx<'_>) {
        let Some(state) = self.life_mut(seat) else { return };
        if matches!(state, Life::Closed) {
            return;
        }
        self.turn = self.turn.filter(|(whose, _)| *whose != seat);
        let error = self.chain.death_notice(seat, &why, None);
        self.refuse_held(seat, &error, cx);
        if let Some(state) = self.life_mut(seat) {
            *state = Life::Closed;
        }
        self.note_exit(seat, why.clone());
        self.pending.forget(seat);
        self.forget_asker(seat);
        self.renew_passage(seat);
        let mut greeting = false;
        for (_, ask) in self.pending.abandon(seat) {
            greeting |= matches!(ask.purpose, Purpose::Greeting { .. });
            let error = self.chain.death_notice(seat, &why, Some(&ask.method));
            self.give_up(ask, error, cx);
        }
        let starting = greeting
            || self
                .lives
                .iter()
                .any(|it| matches!(it, Life::Empty | Life::Starting | Life::Greeting { .. }));
        let line = self.chain.obituary(seat, &why, None);
        // A chain that never stood has nothing to wait for: the editor hears of it at once, in our
        // own words, whatever the proxies in between would make of it.
        let grace = if starting { 0 } else { self.chain.grace };
        self.close_within(cx.now, grace, Ending::Failed(line), error);
    }

    fn on_tick(&mut self, cx: &mut Cx<'_>) {
        self.give_up_barriers(cx);
        if let Some((seat, how)) = self.overdue(cx.now) {
            self.on_left(seat, Exit::new(how), cx);
        }
    }

    fn close(&mut self, now: Time, ending: Ending, error: Json) {
        self.close_within(now, self.chain.grace, ending, error);
    }

    /// Begins the end. The first reason stays the reason.
    fn close_within(&mut self, now: Time, grace: u64, ending: Ending, error: Json) {
        if matches!(self.phase, Phase::Open) {
            self.phase = Phase::Closing { until: now.plus(grace), ending, error };
        }
    }

    /// Ends a closing chain once the outer pipe waits for nothing, or has waited long enough.
    fn settle(&mut self, cx: &mut Cx<'_>) {
        let Phase::Closing { until, .. } = &self.phase else { return };
        let in_time = *until > cx.now;
        if in_time && (self.pending.waits(Seat::OUTER) || self.asks_absent(Seat::OUTER)) {
            return;
        }
        let Phase::Closing { ending, error, .. } =
            std::mem::replace(&mut self.phase, Phase::Closed)
        else {
            return;
        };
        self.turn = None;
        self.passages.iter_mut().for_each(|it| *it = Passage::default());
        self.refuse_all_held(&error, cx);
        for ask in self.pending.drain() {
            self.give_up(ask, error.clone(), cx);
        }
        cx.out.push(Action::Finish(ending));
    }

    /// Nobody will answer this question: its asker is told.
    fn give_up(&mut self, ask: Ask, error: Json, cx: &mut Cx<'_>) {
        match ask.purpose {
            Purpose::Return => {}
            Purpose::Barrier(held) => {
                for held in self.unload(ask.answerer, held) {
                    self.go_on_at_the_end(held, &error, cx);
                }
            }
            Purpose::Pass | Purpose::Greeting { .. } => {
                let outcome = Outcome::Error(error);
                answer(ask.asker, ask.toward.opposite(), ask.asker_id, outcome, cx);
            }
        }
    }

    fn refuse(&self, from: Seat, toward: Side, id: Id, code: i64, why: &str, cx: &mut Cx<'_>) {
        answer(from, toward.opposite(), id, Outcome::error(code, why), cx);
    }
}

/// Answers a request in the conductor's own name.
pub(crate) fn answer(to: Seat, toward: Side, id: Id, outcome: Outcome, cx: &mut Cx<'_>) {
    cx.out.push(Action::Deliver { to, toward, message: Message::response(id, outcome) });
}

fn dropped(call: &Call, why: &str) -> String {
    format!("notification {:?} dropped: {why}", call.method)
}

fn stopping() -> Json {
    let text = "the conductor is ending; this request was not answered in time";
    error_object(code::INTERNAL_ERROR, text, None)
}
