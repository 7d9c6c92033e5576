//! The rules: where each message goes, and what follows when somebody leaves.

use acp_wire::message::error_object;
use acp_wire::{Call, Id, Json, Message, Outcome, Side, acp, code};

use crate::barrier::{BarrierState, Record};
use crate::event::{Action, Context, Diagnostic, Ending, Event, Level, Time};
use crate::pending::{Fingerprint, PendingRequest, PendingRequests, Purpose};
use crate::recovery::{HeldCall, HeldQueue};
use crate::seat::{Chain, Exit, ExitCause, Handshake, Role, Seat, SeatState};
use crate::skip::SkipRules;

/// Decides; never acts. See the crate's documentation.
#[derive(Debug)]
pub struct Router {
    pub(crate) chain: Chain,
    /// One per component; the outer pipe is `outer`.
    pub(crate) states: Vec<SeatState>,
    /// By component: how the last one in its seat ended.
    pub(crate) exits: Vec<Option<Exit>>,
    /// By component: what waits for it.
    pub(crate) held_queues: Vec<HeldQueue>,
    pub(crate) handshakes: Vec<Handshake>,
    pub(crate) outer: Outer,
    pub(crate) pending: PendingRequests,
    pub(crate) phase: Phase,
    /// Whose move it is in the handshake, and until when.
    pub(crate) handshake_turn: Option<(Seat, Time)>,
    /// By component: what is known of its way with barriers (see `barrier`).
    pub(crate) barriers: Vec<BarrierState>,
    /// What was delivered by the event at hand, beside its actions.
    pub(crate) records: Vec<Record>,
    /// Tells this chain from others.
    pub(crate) seed: u64,
    /// This chain is a component of another one, which is told whether it contains a guard.
    pub(crate) announces_guards: bool,
    /// By component: what goes around it (see `around`).
    pub(crate) skip_rules: Vec<SkipRules>,
}

/// What is known of the outer pipe.
#[derive(Debug, Default)]
pub(crate) struct Outer {
    /// It has sent a first, valid `initialize`: the components are started.
    pub started: bool,
    /// In proxy mode: our last component has initialised its successor there.
    pub successor_greeted: bool,
    /// The handshake settled on ACP v2, where a null id is an error.
    pub v2: bool,
    /// It will send nothing more, so it can answer nothing.
    pub left: bool,
}

/// Who asks something: under which id, and which way.
#[derive(Debug)]
pub(crate) struct Requester {
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
            skip_rules: chain.components.iter().map(|_| SkipRules::default()).collect(),
            barriers: chain.components.iter().map(|_| BarrierState::default()).collect(),
            states: vec![SeatState::NotStarted; chain.components.len()],
            exits: vec![None; chain.components.len()],
            held_queues: chain.components.iter().map(|_| HeldQueue::default()).collect(),
            handshakes: vec![Handshake::default(); chain.components.len()],
            chain,
            outer: Outer::default(),
            pending: PendingRequests::default(),
            phase: Phase::Open,
            handshake_turn: None,
            records: Vec::new(),
            seed: 0,
            announces_guards: false,
        }
    }

    /// When to call [`handle`](Router::handle) with [`Event::Tick`], if nothing happens before.
    pub fn deadline(&self) -> Option<Time> {
        let closing = match self.phase {
            Phase::Closing { until, .. } => Some(until),
            Phase::Open | Phase::Closed => None,
        };
        let turn = self.handshake_deadline();
        [closing, turn, self.barrier_deadline()].into_iter().flatten().min()
    }

    /// Until when the first handshake waits for the one whose turn it is.
    pub fn handshake_deadline(&self) -> Option<Time> {
        self.handshake_turn.map(|(_, until)| until)
    }

    /// Who has kept the handshake waiting for too long. A shell that knows the last words of that
    /// component tells its end itself, with [`Event::Closed`]; else it is told without them, at the
    /// next [`Event::Tick`].
    pub fn overdue_handshake(&self, now: Time) -> Option<(Seat, ExitCause)> {
        let (seat, until) = self.handshake_turn?;
        (until <= now)
            .then_some((seat, ExitCause::InitializeTimeout(self.chain.initialize_timeout)))
    }

    /// The one way in. What is to be done is appended to `actions`, in order. (It fills a list
    /// instead of returning one so that a busy chain allocates nothing per message.)
    pub fn handle(&mut self, now: Time, event: Event, actions: &mut Vec<Action>) {
        if matches!(self.phase, Phase::Closed) {
            return;
        }
        let first = actions.len();
        let cx = &mut Context { now, out: actions };
        match event {
            Event::Arrived { from, toward, message } => {
                self.observe_message(from, toward, &message, cx);
                self.on_message(from, toward, message, cx);
            }
            Event::Supplied { from, toward, message } => {
                self.on_message(from, toward, message, cx);
            }
            Event::Closed { seat: Seat::OUTER, exit } => self.on_outer_closed(&exit, cx),
            Event::Closed { seat, exit } => self.on_closed(seat, exit, cx),
            // What it had asked, nobody waits for any more; what it owes is still owed.
            Event::GreetingRetried { seat, exit } => {
                self.note_exit(seat, exit);
                self.pending.take_sent_by(seat);
                self.reset_barriers(seat);
            }
            Event::Down { seat, exit, recovery, lost } => {
                self.on_down(seat, exit, (recovery, lost), cx);
            }
            Event::Restarted(seat) => self.on_restarted(seat, cx),
            Event::Resumed(seat) => self.on_resumed(seat, cx),
            Event::Bypassed(seat) => self.on_bypassed(seat, cx),
            Event::Stop => self.close(now, Ending::Clean, stopping()),
            Event::Tick => self.on_tick(cx),
        }
        self.record_deliveries(cx.out, first);
        loop {
            let released = cx.out.len();
            self.release_reached(cx);
            if cx.out.len() == released && self.records.is_empty() {
                break;
            }
            self.record_deliveries(cx.out, released);
        }
        self.settle(cx);
    }

    pub(crate) fn on_message(
        &mut self,
        from: Seat,
        toward: Side,
        message: Message,
        cx: &mut Context<'_>,
    ) {
        match message {
            Message::Request { id, call } => self.on_request(from, toward, id, call, cx),
            Message::Notification(call) => self.on_notification(from, toward, call, cx),
            Message::Response { id, outcome, extras } => {
                self.on_response(from, id, outcome, extras, cx);
            }
        }
    }

    fn on_request(&mut self, from: Seat, toward: Side, id: Id, call: Call, cx: &mut Context<'_>) {
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
        if !self.outer.started {
            let why = "not initialized: the first request must be initialize";
            return self.refuse(from, toward, id, code::INVALID_REQUEST, why, cx);
        }
        if self.on_barrier(from, toward, &id, &call, cx) {
            return;
        }
        let letter = HeldCall::new(from, toward, Message::Request { id, call });
        self.route(letter, cx);
    }

    fn on_notification(&mut self, from: Seat, toward: Side, call: Call, cx: &mut Context<'_>) {
        if call.is(acp::CANCEL_REQUEST) {
            return self.on_cancel(from, call, cx);
        }
        if !self.outer.started {
            let text = dropped(&call, "it came before initialize");
            return cx.out.push(Action::Report(Diagnostic {
                level: Level::Debug,
                seat: from,
                text,
            }));
        }
        let letter = HeldCall::new(from, toward, Message::Notification(call));
        self.route(letter, cx);
    }

    /// Finds out where a request or a notification goes next from where it is.
    pub(crate) fn route(&mut self, letter: HeldCall, cx: &mut Context<'_>) {
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
                    cx.out.push(Action::Report(Diagnostic { level, seat, text }));
                }
            },
            Message::Response { .. } => {}
        }
    }

    /// Hands a request or a notification over, or keeps it for one who cannot be spoken to now.
    fn pass(&mut self, letter: HeldCall, to: Seat, cx: &mut Context<'_>) {
        if let Some(letter) = self.hold(to, letter) {
            self.deliver_call(letter, to, cx);
        }
    }

    pub(crate) fn deliver_call(&mut self, letter: HeldCall, to: Seat, cx: &mut Context<'_>) {
        if self.skips(to, &letter) {
            return self.send_past(to, letter, cx);
        }
        let HeldCall { from, toward, message, past } = letter;
        match message {
            Message::Request { id, call } => {
                let requester = Requester { seat: from, id, toward };
                let via = past.into_iter().rev().collect();
                self.send_request_via(requester, call, to, (Purpose::Forward, via), cx);
            }
            message => cx.out.push(Action::Deliver { to, toward, message }),
        }
    }

    /// Ids in a cancellation are those of one link: look it up, pass it on under the id of the next.
    fn on_cancel(&mut self, from: Seat, call: Call, cx: &mut Context<'_>) {
        let params = call.params.unwrap_or(Json::NULL);
        let Some(id) = acp::cancelled_id(&params) else { return };
        if self.cancel_held(from, &id, cx) {
            return;
        }
        for (ours, ask) in self.pending.find(from, &id) {
            if !std::mem::replace(&mut ask.cancelled, true) {
                let params = acp::cancel_params(&params, &ours);
                let message = Message::notification(acp::CANCEL_REQUEST, params);
                cx.out.push(Action::Deliver { to: ask.responder, toward: ask.toward, message });
            }
        }
    }

    fn on_response(
        &mut self,
        from: Seat,
        id: Id,
        outcome: Outcome,
        extras: Option<Box<[u8]>>,
        cx: &mut Context<'_>,
    ) {
        let Some(ask) = self.pending.close(from, &id) else {
            let text = format!("answer {id} dropped: nobody waits for it");
            return cx.out.push(Action::Report(Diagnostic {
                level: Level::Debug,
                seat: from,
                text,
            }));
        };
        match ask.purpose {
            Purpose::Forward => self.on_answer(ask, outcome, extras, cx),
            Purpose::Initialize { .. } => self.on_greeted(ask, outcome, extras, cx),
            Purpose::Reinitialize => self.on_reinitialized(from, outcome, cx),
            Purpose::Barrier(_) => {
                self.pending.restore(&id, ask);
                self.barrier_through(from, &id, cx);
            }
        }
    }

    /// Writes the question down and asks it.
    pub(crate) fn send_request(
        &mut self,
        requester: Requester,
        call: Call,
        responder: Seat,
        purpose: Purpose,
        cx: &mut Context<'_>,
    ) {
        self.send_request_via(requester, call, responder, (purpose, Vec::new()), cx);
    }

    /// The same; the answer goes past these, behind all that the responder says to them before.
    fn send_request_via(
        &mut self,
        requester: Requester,
        call: Call,
        responder: Seat,
        (purpose, via): (Purpose, Vec<Seat>),
        cx: &mut Context<'_>,
    ) {
        let toward = requester.toward;
        // Only proxies pass questions on.
        let passes = |seat| seat != Seat::OUTER && self.chain.role(seat) == Role::Proxy;
        let fingerprint = match passes(requester.seat) || passes(responder) {
            true => Fingerprint::of(call.params.as_ref(), self.pending.kept_param_bytes()),
            false => Fingerprint::None,
        };
        let id = self.pending.open(PendingRequest {
            requester: requester.seat,
            requester_id: requester.id.detached(),
            responder,
            toward,
            method: call.method.name().into_owned(),
            fingerprint,
            sent_at: cx.now,
            cancelled: false,
            purpose,
            via,
        });
        let message = Message::Request { id, call };
        cx.out.push(Action::Deliver { to: responder, toward, message });
    }

    /// Who can answer a request of `from` in that direction, or the answer it gets instead.
    pub(crate) fn receiver(&self, from: Seat, toward: Side) -> Result<Seat, Outcome> {
        let to =
            self.listener(from, toward).map_err(|why| match self.neighbour_exit(from, toward) {
                Some((seat, exit)) => Outcome::Error(self.chain.crash_error(seat, exit, None)),
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
        match self.state(to) {
            Some(SeatState::NotStarted | SeatState::Starting) => {
                Err(format!("{} is not initialized yet", self.chain.describe(to)))
            }
            Some(SeatState::Closed) => {
                let what = self.last_exit(to).map(Exit::description).unwrap_or_default();
                Err(format!("{} {what}", self.chain.describe(to)))
            }
            Some(_) | None => Ok(to),
        }
    }

    /// Who is next to a seat, among those who are not left out.
    pub(crate) fn neighbour(&self, seat: Seat, toward: Side) -> Option<Seat> {
        let mut next = self.chain.neighbour(seat, toward)?;
        while let Some(SeatState::Bypassed) = self.state(next) {
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
        match self.state(seat)? {
            SeatState::Closed => Some((seat, self.last_exit(seat)?)),
            _ => None,
        }
    }

    fn on_outer_closed(&mut self, why: &Exit, cx: &mut Context<'_>) {
        self.outer.left = true;
        if why.cause == ExitCause::ClosedInput {
            // It does not even read: what it waits for can reach nobody.
            self.pending.take_sent_by(Seat::OUTER);
            self.drop_held_of(Seat::OUTER);
        }
        let text = format!("{} has left", self.chain.describe(Seat::OUTER));
        for (_, ask) in self.pending.take_owed_by(Seat::OUTER) {
            let outcome = Outcome::error(code::INTERNAL_ERROR, &text);
            answer(ask.requester, ask.toward.opposite(), ask.requester_id, outcome, cx);
        }
        self.close(cx.now, Ending::Clean, stopping());
    }

    pub(crate) fn on_closed(&mut self, seat: Seat, why: Exit, cx: &mut Context<'_>) {
        let Some(state) = self.state_mut(seat) else { return };
        if matches!(state, SeatState::Closed) {
            return;
        }
        self.handshake_turn = self.handshake_turn.filter(|(whose, _)| *whose != seat);
        let error = self.chain.crash_error(seat, &why, None);
        self.refuse_held(seat, &error, cx);
        if let Some(state) = self.state_mut(seat) {
            *state = SeatState::Closed;
        }
        self.note_exit(seat, why.clone());
        self.pending.take_sent_by(seat);
        self.drop_held_of(seat);
        self.reset_barriers(seat);
        let mut greeting = false;
        for (_, ask) in self.pending.take_owed_by(seat) {
            greeting |= matches!(ask.purpose, Purpose::Initialize { .. });
            let error = self.chain.crash_error(seat, &why, Some(&ask.method));
            self.give_up(ask, error, cx);
        }
        let starting = greeting
            || self.states.iter().any(|it| {
                matches!(
                    it,
                    SeatState::NotStarted | SeatState::Starting | SeatState::Initializing { .. }
                )
            });
        let line = self.chain.crash_report(seat, &why, None);
        // A chain that never stood has nothing to wait for: the editor hears of it at once, in our
        // own words, whatever the proxies in between would make of it.
        let grace = if starting { 0 } else { self.chain.grace };
        self.close_within(cx.now, grace, Ending::Failed(line), error);
    }

    fn on_tick(&mut self, cx: &mut Context<'_>) {
        self.give_up_barriers(cx);
        if let Some((seat, how)) = self.overdue_handshake(cx.now) {
            self.on_closed(seat, Exit::new(how), cx);
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
    fn settle(&mut self, cx: &mut Context<'_>) {
        let Phase::Closing { until, .. } = &self.phase else { return };
        let in_time = *until > cx.now;
        if in_time && (self.pending.is_waiting(Seat::OUTER) || self.waits_for_held(Seat::OUTER)) {
            return;
        }
        let Phase::Closing { ending, error, .. } =
            std::mem::replace(&mut self.phase, Phase::Closed)
        else {
            return;
        };
        self.handshake_turn = None;
        self.barriers.iter_mut().for_each(|it| *it = BarrierState::default());
        self.refuse_all_held(&error, cx);
        for ask in self.pending.drain() {
            self.give_up(ask, error.clone(), cx);
        }
        cx.out.push(Action::Finish(ending));
    }

    /// Nobody will answer this question: its requester is told.
    fn give_up(&mut self, ask: PendingRequest, error: Json, cx: &mut Context<'_>) {
        match ask.purpose {
            Purpose::Reinitialize => {}
            Purpose::Barrier(held) => {
                for held in self.uncount_held(ask.responder, held) {
                    self.release_at_shutdown(held, &error, cx);
                }
            }
            Purpose::Forward | Purpose::Initialize { .. } => {
                let outcome = Outcome::Error(error);
                answer(ask.requester, ask.toward.opposite(), ask.requester_id, outcome, cx);
            }
        }
    }

    fn refuse(&self, from: Seat, toward: Side, id: Id, code: i64, why: &str, cx: &mut Context<'_>) {
        answer(from, toward.opposite(), id, Outcome::error(code, why), cx);
    }
}

/// Answers a request in the conductor's own name.
pub(crate) fn answer(to: Seat, toward: Side, id: Id, outcome: Outcome, cx: &mut Context<'_>) {
    cx.out.push(Action::Deliver { to, toward, message: Message::response(id, outcome) });
}

fn dropped(call: &Call, why: &str) -> String {
    format!("notification {:?} dropped: {why}", call.method)
}

fn stopping() -> Json {
    let text = "the conductor is ending; this request was not answered in time";
    error_object(code::INTERNAL_ERROR, text, None)
}
