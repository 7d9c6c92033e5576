//! The routing rules: where each message goes, and how a chain shuts down.

use acp_wire::{Call, ErrorKind, Id, Json, Message, Outcome, Side, acp, code};

use crate::barrier::{BarrierState, Record};
use crate::event::{Action, Context, Diagnostic, Ending, Event, Level, Time};
use crate::exit::{Exit, ExitCause};
use crate::pending::{Fingerprint, PendingRequest, PendingRequests, Purpose};
use crate::recovery::{HeldCall, HeldQueue};
use crate::seat::{Chain, Handshake, Seat, SeatState};
use crate::skip::SkipRules;

/// Decides where messages go. It performs no I/O; see the crate documentation.
#[derive(Debug)]
pub struct Router {
    pub(crate) chain: Chain,
    /// For each component: the state of its seat. The state of the outer pipe is in `outer`.
    pub(crate) states: Vec<SeatState>,
    /// For each component: how the last process in its seat ended.
    pub(crate) exits: Vec<Option<Exit>>,
    /// For each component: messages held while it is recovering.
    pub(crate) held_queues: Vec<HeldQueue>,
    /// For each component: its last handshake.
    pub(crate) handshakes: Vec<Handshake>,
    pub(crate) outer: OuterPipe,
    pub(crate) pending: PendingRequests,
    pub(crate) phase: Phase,
    /// During a handshake: the seat that must act next, and until when.
    pub(crate) handshake_turn: Option<(Seat, Time)>,
    /// For each component: its deliveries and open barriers (see `barrier`).
    pub(crate) barrier_states: Vec<BarrierState>,
    /// Deliveries of the current event that are not actions.
    pub(crate) records: Vec<Record>,
    /// Identifies the barriers of this chain.
    pub(crate) seed: u64,
    /// Whether the answer to the outer `initialize` says that the chain contains a guard.
    pub(crate) announces_guards: bool,
    /// For each component: which messages skip it (see `skip`).
    pub(crate) skip_rules: Vec<SkipRules>,
}

/// The state of the outer pipe.
#[derive(Debug, Default)]
pub(crate) struct OuterPipe {
    /// The outer peer sent a valid `initialize`, and the components were started.
    pub started: bool,
    /// In proxy mode: the last component has sent `initialize` to its successor, which is behind the outer
    /// pipe.
    pub successor_initialized: bool,
    /// The handshake agreed on ACP v2, where a null id is an error.
    pub v2: bool,
    /// The outer peer sends nothing more, so it cannot answer requests.
    pub disconnected: bool,
}

/// The sender of a request, its id for the request, and the direction.
#[derive(Debug)]
pub(crate) struct Requester {
    pub seat: Seat,
    pub id: Id,
    pub toward: Side,
}

/// The lifecycle of the chain.
#[derive(Debug)]
pub(crate) enum Phase {
    Running,
    /// The chain ends when the outer pipe waits for no answer, or at `until`.
    ShuttingDown {
        until: Time,
        ending: Ending,
        error: Json,
    },
    Ended,
}

impl Router {
    /// A router for a chain whose components are not started.
    pub fn new(chain: Chain) -> Router {
        Router {
            skip_rules: chain.components.iter().map(|_| SkipRules::default()).collect(),
            barrier_states: chain.components.iter().map(|_| BarrierState::default()).collect(),
            states: vec![SeatState::NotStarted; chain.components.len()],
            exits: vec![None; chain.components.len()],
            held_queues: chain.components.iter().map(|_| HeldQueue::default()).collect(),
            handshakes: vec![Handshake::default(); chain.components.len()],
            chain,
            outer: OuterPipe::default(),
            pending: PendingRequests::default(),
            phase: Phase::Running,
            handshake_turn: None,
            records: Vec::new(),
            seed: 0,
            announces_guards: false,
        }
    }

    /// When the caller must call [`handle`](Router::handle) with [`Event::Tick`], unless another event
    /// comes first.
    pub fn deadline(&self) -> Option<Time> {
        let shutdown = match self.phase {
            Phase::ShuttingDown { until, .. } => Some(until),
            Phase::Running | Phase::Ended => None,
        };
        let turn = self.handshake_deadline();
        [shutdown, turn, self.barrier_deadline()].into_iter().flatten().min()
    }

    /// When the first handshake times out.
    pub fn handshake_deadline(&self) -> Option<Time> {
        self.handshake_turn.map(|(_, until)| until)
    }

    /// The component whose `initialize` has timed out, if any. A caller that knows the last output of the
    /// component reports [`Event::Closed`] with it. Otherwise the router closes the seat at the next
    /// [`Event::Tick`], without output.
    pub fn overdue_handshake(&self, now: Time) -> Option<(Seat, ExitCause)> {
        let (seat, until) = self.handshake_turn?;
        (until <= now)
            .then_some((seat, ExitCause::InitializeTimeout(self.chain.initialize_timeout)))
    }

    /// Handles one event. The resulting actions are appended to `actions`, in order. The list is an
    /// argument so that a busy chain does not allocate one for each message.
    pub fn handle(&mut self, now: Time, event: Event, actions: &mut Vec<Action>) {
        if matches!(self.phase, Phase::Ended) {
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
            // The new process does not know the requests of the previous one. The requests that the previous
            // process did not answer stay pending.
            Event::GreetingRetried { seat, exit } => {
                self.record_exit(seat, exit);
                self.pending.take_sent_by(seat);
                self.reset_barriers(seat);
            }
            Event::Down { seat, exit, recovery, lost } => {
                self.on_down(seat, exit, (recovery, lost), cx);
            }
            Event::Restarted(seat) => self.on_restarted(seat, cx),
            Event::Resumed(seat) => self.on_resumed(seat, cx),
            Event::Bypassed(seat) => self.on_bypassed(seat, cx),
            Event::Reloaded { chain, filled } => self.on_reloaded(*chain, &filled, cx),
            Event::Stop => self.shut_down(now, Ending::Clean, shutdown_error()),
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
        self.finish_shutdown(cx);
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
        if let Phase::ShuttingDown { error, .. } = &self.phase
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
        let held_call = HeldCall::new(from, toward, Message::Request { id, call });
        self.route(held_call, cx);
    }

    fn on_notification(&mut self, from: Seat, toward: Side, call: Call, cx: &mut Context<'_>) {
        if call.is(acp::CANCEL_REQUEST) {
            return self.on_cancel(from, call, cx);
        }
        if !self.outer.started {
            let text = dropped_notification(&call, "it arrived before initialize");
            return cx.out.push(Action::Report(Diagnostic {
                level: Level::Debug,
                seat: from,
                text,
            }));
        }
        let held_call = HeldCall::new(from, toward, Message::Notification(call));
        self.route(held_call, cx);
    }

    /// Finds the next seat for a request or notification, and delivers or holds it.
    pub(crate) fn route(&mut self, held_call: HeldCall, cx: &mut Context<'_>) {
        let (at, toward) = (held_call.position(), held_call.toward);
        match &held_call.message {
            Message::Request { id, .. } => match self.next_responder(at, toward) {
                Ok(to) => self.deliver_or_hold(held_call, to, cx),
                Err(outcome) => {
                    answer(held_call.from, toward.opposite(), id.clone(), outcome, cx);
                }
            },
            Message::Notification(call) => match self.next_receiver(at, toward) {
                Ok(to) => self.deliver_or_hold(held_call, to, cx),
                Err(why) => {
                    let (level, seat) = (Level::Debug, held_call.from);
                    let text = dropped_notification(call, &why);
                    cx.out.push(Action::Report(Diagnostic { level, seat, text }));
                }
            },
            Message::Response { .. } => {}
        }
    }

    /// Delivers a request or notification, or holds it for a component that is recovering.
    fn deliver_or_hold(&mut self, held_call: HeldCall, to: Seat, cx: &mut Context<'_>) {
        if let Some(held_call) = self.hold(to, held_call) {
            self.deliver_call(held_call, to, cx);
        }
    }

    /// Delivers a request or notification, or sends it past a component that it skips.
    pub(crate) fn deliver_call(&mut self, held_call: HeldCall, to: Seat, cx: &mut Context<'_>) {
        if self.message_skips(to, &held_call) {
            return self.send_past(to, held_call, cx);
        }
        let HeldCall { from, toward, message, skipped } = held_call;
        match message {
            Message::Request { id, call } => {
                let requester = Requester { seat: from, id, toward };
                let via = skipped.into_iter().rev().collect();
                self.send_request_via(requester, call, to, (Purpose::Forward, via), cx);
            }
            message => cx.out.push(Action::Deliver { to, toward, message }),
        }
    }

    /// Forwards a cancellation. The id in it belongs to one link, so it is replaced with the id of the next
    /// link.
    fn on_cancel(&mut self, from: Seat, call: Call, cx: &mut Context<'_>) {
        let params = call.params.unwrap_or(Json::NULL);
        let Some(id) = acp::cancelled_id(&params) else { return };
        if self.cancel_held(from, &id, cx) {
            return;
        }
        for (id, request) in self.pending.find(from, &id) {
            if !std::mem::replace(&mut request.cancelled, true) {
                let params = acp::with_cancelled_id(&params, &id);
                let message = Message::notification(acp::CANCEL_REQUEST, params);
                cx.out.push(Action::Deliver {
                    to: request.responder,
                    toward: request.toward,
                    message,
                });
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
        let Some(request) = self.pending.close(from, &id) else {
            let text =
                format!("answer {id} dropped: no request with this id is waiting for an answer");
            return cx.out.push(Action::Report(Diagnostic {
                level: Level::Debug,
                seat: from,
                text,
            }));
        };
        match request.purpose {
            Purpose::Forward => self.on_answer(request, outcome, extras, cx),
            Purpose::Initialize { .. } => self.on_initialized(request, outcome, extras, cx),
            Purpose::Reinitialize => self.on_reinitialized(from, outcome, cx),
            Purpose::Barrier(_) => {
                self.pending.restore(&id, request);
                self.on_barrier_out(from, &id, cx);
            }
        }
    }

    /// Adds a request to the table and delivers it.
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

    /// Like [`send_request`](Router::send_request). The answer goes past the seats in `via`, behind everything that
    /// the responder sent before.
    fn send_request_via(
        &mut self,
        requester: Requester,
        call: Call,
        responder: Seat,
        (purpose, via): (Purpose, Vec<Seat>),
        cx: &mut Context<'_>,
    ) {
        let toward = requester.toward;
        // Only proxies forward requests.
        let fingerprint = match self.is_proxy(requester.seat) || self.is_proxy(responder) {
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

    /// The seat that can answer a request from `from` in this direction, or the error to answer instead.
    pub(crate) fn next_responder(&self, from: Seat, toward: Side) -> Result<Seat, Outcome> {
        let to = self.next_receiver(from, toward).map_err(|why| {
            match self.neighbour_exit(from, toward) {
                Some((seat, exit)) => {
                    Outcome::Error(self.chain.crash_error(seat, exit, None, false))
                }
                None => ErrorKind::NoReceiver.outcome(code::INVALID_REQUEST, &why),
            }
        })?;
        if to == Seat::OUTER && self.outer.disconnected {
            let why = format!("{} has disconnected and cannot answer", self.chain.describe(to));
            return Err(ErrorKind::ShuttingDown.outcome(code::INTERNAL_ERROR, &why));
        }
        Ok(to)
    }

    /// The seat that can receive a notification from `from` in this direction, or why there is none.
    fn next_receiver(&self, from: Seat, toward: Side) -> Result<Seat, String> {
        let Some(to) = self.neighbour(from, toward) else {
            return Err("there is no component in that direction".into());
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

    /// The seat next to `seat` that is not bypassed.
    pub(crate) fn neighbour(&self, seat: Seat, toward: Side) -> Option<Seat> {
        let mut next = self.chain.neighbour(seat, toward)?;
        while let Some(SeatState::Bypassed) = self.state(next) {
            next = self.chain.neighbour(next, toward)?;
        }
        Some(next)
    }

    /// The seat next to `seat` on the agent's side.
    pub fn successor(&self, seat: Seat) -> Option<Seat> {
        self.neighbour(seat, Side::Agent)
    }

    /// The neighbour of a seat and how it ended, if it is gone.
    fn neighbour_exit(&self, from: Seat, toward: Side) -> Option<(Seat, &Exit)> {
        let seat = self.neighbour(from, toward)?;
        match self.state(seat)? {
            SeatState::Closed => Some((seat, self.last_exit(seat)?)),
            _ => None,
        }
    }

    /// Handles the end of the outer pipe.
    fn on_outer_closed(&mut self, exit: &Exit, cx: &mut Context<'_>) {
        self.outer.disconnected = true;
        if exit.cause == ExitCause::ClosedInput {
            // The editor does not read its input, so answers cannot reach it.
            self.pending.take_sent_by(Seat::OUTER);
            self.drop_held_of(Seat::OUTER);
        }
        let text = format!("{} has disconnected", self.chain.describe(Seat::OUTER));
        for (_, request) in self.pending.take_owed_by(Seat::OUTER) {
            let outcome = ErrorKind::ShuttingDown.outcome(code::INTERNAL_ERROR, &text);
            answer(request.requester, request.toward.opposite(), request.requester_id, outcome, cx);
        }
        self.shut_down(cx.now, Ending::Clean, shutdown_error());
    }

    /// Handles the end of a component that is not replaced: the chain shuts down.
    pub(crate) fn on_closed(&mut self, seat: Seat, exit: Exit, cx: &mut Context<'_>) {
        let Some(state) = self.state_mut(seat) else { return };
        if matches!(state, SeatState::Closed) {
            return;
        }
        self.handshake_turn = self.handshake_turn.filter(|(turn, _)| *turn != seat);
        let starting = !self.was_initialized(seat);
        let error = self.chain.crash_error(seat, &exit, None, starting);
        self.refuse_held(seat, &error, cx);
        if let Some(state) = self.state_mut(seat) {
            *state = SeatState::Closed;
        }
        self.record_exit(seat, exit.clone());
        self.pending.take_sent_by(seat);
        self.drop_held_of(seat);
        self.reset_barriers(seat);
        let mut was_initializing = false;
        for (_, request) in self.pending.take_owed_by(seat) {
            was_initializing |= matches!(request.purpose, Purpose::Initialize { .. });
            let error = self.chain.crash_error(seat, &exit, Some(&request.method), starting);
            self.fail_request(request, error, cx);
        }
        let is_starting = was_initializing
            || self.states.iter().any(|it| {
                matches!(
                    it,
                    SeatState::NotStarted | SeatState::Starting | SeatState::Initializing { .. }
                )
            });
        let report = self.chain.crash_report_with_remedy(seat, &exit, starting);
        // A chain that never finished its handshake has no requests to wait for. The editor gets the error
        // directly, and not through the proxies in between.
        let grace = if is_starting { 0 } else { self.chain.grace };
        self.shut_down_within(cx.now, grace, Ending::Failed(report), error);
    }

    fn on_tick(&mut self, cx: &mut Context<'_>) {
        self.give_up_barriers(cx);
        if let Some((seat, cause)) = self.overdue_handshake(cx.now) {
            self.on_closed(seat, Exit::new(cause), cx);
        }
    }

    /// Starts the shutdown with the configured grace period.
    fn shut_down(&mut self, now: Time, ending: Ending, error: Json) {
        self.shut_down_within(now, self.chain.grace, ending, error);
    }

    /// Starts the shutdown. If it has started already, its reason stays.
    fn shut_down_within(&mut self, now: Time, grace: u64, ending: Ending, error: Json) {
        if matches!(self.phase, Phase::Running) {
            self.phase = Phase::ShuttingDown { until: now.plus(grace), ending, error };
        }
    }

    /// Finishes the shutdown once the outer pipe waits for no answer, or when the grace period is over.
    fn finish_shutdown(&mut self, cx: &mut Context<'_>) {
        let Phase::ShuttingDown { until, .. } = &self.phase else { return };
        let in_time = *until > cx.now;
        if in_time && (self.pending.is_waiting(Seat::OUTER) || self.waits_for_held(Seat::OUTER)) {
            return;
        }
        let Phase::ShuttingDown { ending, error, .. } =
            std::mem::replace(&mut self.phase, Phase::Ended)
        else {
            return;
        };
        self.handshake_turn = None;
        self.barrier_states.iter_mut().for_each(|it| *it = BarrierState::default());
        self.refuse_all_held(&error, cx);
        for request in self.pending.drain() {
            self.fail_request(request, error.clone(), cx);
        }
        cx.out.push(Action::Finish(ending));
    }

    /// Answers a request that no component will answer.
    fn fail_request(&mut self, request: PendingRequest, error: Json, cx: &mut Context<'_>) {
        match request.purpose {
            Purpose::Reinitialize => {}
            Purpose::Barrier(held) => {
                for held in self.subtract_held(request.responder, held) {
                    self.release_at_shutdown(held, &error, cx);
                }
            }
            Purpose::Forward | Purpose::Initialize { .. } => {
                let outcome = Outcome::Error(error);
                answer(
                    request.requester,
                    request.toward.opposite(),
                    request.requester_id,
                    outcome,
                    cx,
                );
            }
        }
    }

    fn refuse(&self, from: Seat, toward: Side, id: Id, code: i64, why: &str, cx: &mut Context<'_>) {
        answer(from, toward.opposite(), id, ErrorKind::NotInitialized.outcome(code, why), cx);
    }
}

/// Answers a request in the conductor's name.
pub(crate) fn answer(to: Seat, toward: Side, id: Id, outcome: Outcome, cx: &mut Context<'_>) {
    cx.out.push(Action::Deliver { to, toward, message: Message::response(id, outcome) });
}

fn dropped_notification(call: &Call, why: &str) -> String {
    format!("notification {:?} dropped: {why}", call.method)
}

fn shutdown_error() -> Json {
    let text = "the conductor is shutting down; this request was not answered in time";
    match ErrorKind::ShuttingDown.outcome(code::INTERNAL_ERROR, text) {
        Outcome::Error(error) | Outcome::Result(error) => error,
    }
}
