//! The rules for a seat whose occupant has left and is replaced, or left out.
//!
//! | event | the seat | what is said to it |
//! |---|---|---|
//! | [`Parted`](crate::Event::Parted) | is vacant | waits |
//! | [`Returned`](crate::Event::Returned) | is sent the `initialize` it was sent before; what it sends to its successor is answered from memory | waits |
//! | [`Resumed`](crate::Event::Resumed) | is live: it has been told all that it must know | is delivered, in order |
//! | [`Bypassed`](crate::Event::Bypassed) | is left out | goes to the next seat |
//!
//! What the one who left owed is answered with an error, unless it had passed the question on as it
//! was: then the answer of the next one is delivered to who asked in the first place. That answer must
//! not overtake what the next one said before, which travels through the new occupant. So it waits
//! until a *barrier* that is sent the same way has come through (see `barrier`).

use std::collections::VecDeque;

use acp_wire::{Call, Id, Json, Message, Outcome, Side, acp, code};

use crate::copies::Asked;
use crate::event::{Action, Cx, Plan, Time};
use crate::pending::{Ask, Gist, Purpose};
use crate::router::{Router, answer};
use crate::seat::{Exit, Life, Seat};

/// What a message costs beside its text while it waits.
const HELD: usize = 256;

/// What waits for a seat whose component cannot be sent messages.
#[derive(Debug, Clone, Default)]
pub struct Absence {
    held: VecDeque<Held>,
    bytes: usize,
}

/// What waits for a seat, or behind a barrier.
#[derive(Debug, Clone)]
pub enum Held {
    Letter(Letter),
    Answer(Parcel),
}

/// A request or a notification on its way.
#[derive(Debug, Clone)]
pub struct Letter {
    pub(crate) from: Seat,
    pub(crate) toward: Side,
    pub(crate) message: Message,
    /// The components that it has gone around, in this order (see `around`).
    pub(crate) past: Vec<Seat>,
}

impl Letter {
    pub(crate) fn new(from: Seat, toward: Side, message: Message) -> Letter {
        Letter { from, toward, message, past: Vec::new() }
    }

    /// Where it is: at its sender, or at the last component that it has gone around.
    pub(crate) fn at(&self) -> Seat {
        self.past.last().copied().unwrap_or(self.from)
    }
}

/// An answer on its way past those who had passed the question on.
#[derive(Debug, Clone)]
pub struct Parcel {
    from: Seat,
    to: Seat,
    toward: Side,
    via: Vec<Seat>,
    /// The question of the receiver's own that it can answer with this one (see `barrier`).
    owed: Option<Id>,
    message: Message,
}

impl Held {
    pub(crate) fn size(&self) -> usize {
        let (Held::Letter(Letter { message, .. }) | Held::Answer(Parcel { message, .. })) = self;
        message.size() + HELD
    }

    /// Does `asker` wait for this to be answered, or for this answer?
    pub(crate) fn is_awaited_by(&self, asker: Seat) -> bool {
        match self {
            Held::Letter(letter) => {
                letter.from == asker && matches!(letter.message, Message::Request { .. })
            }
            Held::Answer(parcel) => parcel.to == asker,
        }
    }
}

impl Absence {
    fn hold(&mut self, held: Held) {
        self.bytes += held.size();
        self.held.push_back(held);
    }

    fn take(&mut self, test: impl Fn(&Held) -> bool) -> Vec<Held> {
        let (taken, kept): (Vec<_>, Vec<_>) = self.held.drain(..).partition(test);
        self.held = kept.into();
        self.bytes = self.held.iter().map(Held::size).sum();
        taken
    }
}

impl Router {
    /// How many messages wait for a seat, or to go around it, and how many bytes they are.
    pub fn held(&self, seat: Seat) -> (usize, usize) {
        let away = self.absence(seat).map_or((0, 0), |it| (it.held.len(), it.bytes));
        let around = self.held_around(seat);
        (away.0 + around.0, away.1 + around.1)
    }

    /// Is the component told what it must know, before it can be sent messages?
    pub fn learns(&self, seat: Seat) -> bool {
        matches!(self.life(seat), Some(Life::Learning { .. }))
    }

    pub(crate) fn is_away(&self, seat: Seat) -> bool {
        self.life(seat).is_some_and(Life::is_away)
    }

    pub(crate) fn absence(&self, seat: Seat) -> Option<&Absence> {
        self.absences.get(seat.index().checked_sub(1)?).filter(|_| self.is_away(seat))
    }

    fn absence_mut(&mut self, seat: Seat) -> Option<&mut Absence> {
        let is_away = self.is_away(seat);
        self.absences.get_mut(seat.index().checked_sub(1)?).filter(|_| is_away)
    }

    /// Keeps a message for a seat that cannot be spoken to; gives it back if it can.
    pub(crate) fn hold(&mut self, to: Seat, letter: Letter) -> Option<Letter> {
        let Some(absence) = self.absence_mut(to) else { return Some(letter) };
        let message = letter.message.detached();
        absence.hold(Held::Letter(Letter { message, ..letter }));
        None
    }

    /// The occupant of a seat has left; another will come, or the seat will be left out.
    pub(crate) fn on_parted(
        &mut self,
        seat: Seat,
        why: Exit,
        (plan, lost): (Plan, Vec<Id>),
        cx: &mut Cx<'_>,
    ) {
        let Some(state) = self.life_mut(seat) else { return };
        let (at, attempts) = match plan {
            Plan::Restart { at, attempts } => (at, attempts),
            Plan::Bypass => (cx.now, 0),
        };
        match state {
            Life::Closed | Life::Bypassed => return,
            state => *state = Life::Away { at, attempts },
        }
        self.note_exit(seat, why.clone());
        self.turn = self.turn.filter(|(whose, _)| *whose != seat);
        self.forget_asker(seat);
        let guard = self.chain.component(seat).is_some_and(|it| it.guard);
        let mut asked = Asked::new(self.pending.forget(seat));
        // What would have come out of it behind a barrier goes on at once, before anybody is told.
        let (barriers, owed): (Vec<_>, Vec<_>) = self
            .pending
            .abandon(seat)
            .into_iter()
            .partition(|(_, ask)| matches!(ask.purpose, Purpose::Barrier(_)));
        for (_, ask) in barriers {
            self.let_through(seat, ask, cx);
        }
        self.renew_passage(seat);
        let copies = match guard {
            true => Vec::new(),
            false => asked.take_copies(&owed, &lost),
        };
        let copies = copies.into_iter().chain(std::iter::repeat(None));
        for ((_, ask), copy) in owed.into_iter().zip(copies) {
            match copy {
                _ if matches!(ask.purpose, Purpose::Return | Purpose::Barrier(_)) => {}
                Some((id, copy)) => self.redirect(seat, ask, &id, copy, cx),
                None => self.settle_owed(seat, ask, &why, plan, cx),
            }
        }
        for (id, ask) in asked.rest() {
            self.withdraw(&id, &ask, cx);
        }
    }

    /// A component that is gone had passed a question on: the answer goes to its asker.
    fn redirect(&mut self, seat: Seat, ask: Ask, id: &Id, mut copy: Ask, cx: &mut Cx<'_>) {
        // The component may have died with the cancellation in its hands.
        if ask.cancelled {
            self.withdraw(id, &copy, cx);
        }
        let mut via = std::mem::take(&mut copy.via);
        via.push(seat);
        via.extend(ask.via);
        let Ask { asker, asker_id, cancelled, purpose, .. } = ask;
        let cancelled = cancelled || copy.cancelled;
        let ask = Ask { asker, asker_id, cancelled, purpose, via, ..copy };
        self.pending.restore(id, ask);
    }

    /// A component that is gone had not passed a question on.
    fn settle_owed(&mut self, seat: Seat, ask: Ask, why: &Exit, plan: Plan, cx: &mut Cx<'_>) {
        let is_greeting = matches!(ask.purpose, Purpose::Greeting { .. });
        if is_greeting && plan == Plan::Bypass {
            // The next component has answered already, and is not asked twice.
            if let Some(outcome) = self.successor_answer(seat) {
                let outcome = self.heard_by(seat, outcome);
                return self.on_greeted(ask, outcome, None, cx);
            }
            // No other component has heard of it: it goes to the next one instead.
            if let Gist::Whole(params) = ask.gist {
                let call = Call::new(acp::INITIALIZE, params);
                let message = Message::Request { id: ask.asker_id, call };
                self.hold(seat, Letter::new(ask.asker, ask.toward, message));
                return;
            }
        }
        let error = self.chain.crash_notice(seat, why, Some(&ask.method), plan);
        let message = Message::response(ask.asker_id, Outcome::Error(error));
        let (to, toward) = (ask.asker, ask.toward.opposite());
        let (via, owed) = (Vec::new(), None);
        self.bring(Parcel { from: seat, to, toward, via, owed, message }, cx);
    }

    /// What the next one has answered to the `initialize` of a seat.
    fn successor_answer(&self, seat: Seat) -> Option<Outcome> {
        self.greeted(seat)?.successor.clone()
    }

    /// Nobody waits any more for what this question asks.
    fn withdraw(&self, id: &Id, ask: &Ask, cx: &mut Cx<'_>) {
        let listens = matches!(self.life(ask.answerer), Some(Life::Live { .. }) | None);
        if listens && !ask.cancelled {
            let params = Json::object([("requestId", Some(id.json().clone()))]);
            let message = Message::notification(acp::CANCEL_REQUEST, params);
            cx.out.push(Action::Deliver { to: ask.answerer, toward: ask.toward, message });
        }
    }

    /// Another one sits there now: it is greeted as the last one was.
    pub(crate) fn on_returned(&mut self, seat: Seat, cx: &mut Cx<'_>) {
        let until = cx.now.plus(self.chain.greeting_limit);
        match self.life_mut(seat) {
            Some(life) if life.is_away() => *life = Life::Returning { until },
            _ => return,
        }
        let params = self.greeted[seat.index() - 1].asked.clone();
        let ask = self.own_ask(cx.now, seat, Side::Agent, acp::INITIALIZE, Purpose::Return);
        let id = self.pending.open(ask);
        let call = Call::new(acp::INITIALIZE, params);
        let message = Message::Request { id, call };
        cx.out.push(Action::Deliver { to: seat, toward: Side::Agent, message });
    }

    /// The next component has answered `initialize`. The core is told, and decides what it must learn.
    pub(crate) fn on_return_answered(&mut self, seat: Seat, outcome: Outcome, cx: &mut Cx<'_>) {
        let outcome = self.note_guard(seat, outcome, cx);
        if !self.is_away(seat) {
            return;
        }
        if let Outcome::Result(_) = &outcome {
            let until = cx.now.plus(self.chain.greeting_limit);
            if let Some(life) = self.life_mut(seat) {
                *life = Life::Learning { until };
            }
            self.greeted[seat.index() - 1].answered = Some(outcome.detached());
        }
        cx.out.push(Action::Returned { seat, outcome });
    }

    /// The answer to the `initialize` that a new occupant sends to its successor: the one that the
    /// last occupant got, so that who is live is not initialized twice.
    pub(crate) fn remembered(&self, seat: Seat) -> Option<Outcome> {
        if !self.is_away(seat) {
            return None;
        }
        let own = self.greeted[seat.index() - 1].successor.clone();
        own.or_else(|| self.greeted(self.neighbour(seat, Side::Agent)?)?.answered.clone())
    }

    /// It can be spoken to: what has waited is delivered.
    pub(crate) fn on_resumed(&mut self, seat: Seat, cx: &mut Cx<'_>) {
        self.release(seat, Life::Live { since: cx.now }, cx);
    }

    /// The chain closes over the gap: what has waited goes to whoever is next.
    pub(crate) fn on_bypassed(&mut self, seat: Seat, cx: &mut Cx<'_>) {
        self.release(seat, Life::Bypassed, cx);
    }

    fn release(&mut self, seat: Seat, next: Life, cx: &mut Cx<'_>) {
        let Some(absence) = self.absence_mut(seat).map(std::mem::take) else { return };
        if let Some(life) = self.life_mut(seat) {
            *life = next;
        }
        for held in absence.held {
            match held {
                Held::Letter(letter) if letter.past.is_empty() => {
                    let Letter { from, toward, message, .. } = letter;
                    self.on_message(from, toward, message, cx);
                }
                held => self.go_on(held, cx),
            }
        }
    }

    /// A seat is gone for good: what waits for it is answered with this error.
    pub(crate) fn refuse_held(&mut self, seat: Seat, error: &Json, cx: &mut Cx<'_>) {
        let held = self.absence_mut(seat).map(|absence| absence.take(|_| true));
        for held in held.into_iter().flatten() {
            self.settle_held(held, error, cx);
        }
    }

    /// The chain ends: what waits anywhere is answered with this error.
    pub(crate) fn refuse_all_held(&mut self, error: &Json, cx: &mut Cx<'_>) {
        let held: Vec<Held> = self.absences.iter_mut().flat_map(|it| it.take(|_| true)).collect();
        for held in held {
            self.settle_held(held, error, cx);
        }
    }

    fn settle_held(&mut self, held: Held, error: &Json, cx: &mut Cx<'_>) {
        match held {
            Held::Letter(Letter { from, toward, message: Message::Request { id, .. }, .. }) => {
                let outcome = Outcome::Error(error.clone());
                answer(from, toward.opposite(), id, outcome, cx);
            }
            Held::Letter(_) => {}
            Held::Answer(parcel) => self.bring(parcel, cx),
        }
    }

    /// Whether `asker` waits for something that waits for another component to return, or to go around it.
    pub fn asks_absent(&self, asker: Seat) -> bool {
        let mut held = self.absences.iter().flat_map(|absence| &absence.held);
        held.any(|held| held.is_awaited_by(asker)) || self.waits_to_go_around(asker)
    }

    /// Nobody is left to hear what this seat asked.
    pub(crate) fn forget_asker(&mut self, seat: Seat) {
        for absence in self.absences.iter_mut() {
            absence.take(|held| held.is_awaited_by(seat));
        }
        self.take_behind_barriers(|held| held.is_awaited_by(seat));
    }

    /// Takes back a question that waits for a seat; says whether there was one.
    pub(crate) fn cancel_held(&mut self, from: Seat, id: &Id, cx: &mut Cx<'_>) -> bool {
        let is_it = |held: &Held| match held {
            Held::Letter(Letter {
                from: asker,
                message: Message::Request { id: asked, .. },
                ..
            }) => *asker == from && asked == id,
            _ => false,
        };
        let mut found: Vec<Held> = self.absences.iter_mut().flat_map(|it| it.take(is_it)).collect();
        found.extend(self.take_behind_barriers(is_it));
        for held in &found {
            let Held::Letter(letter) = held else { continue };
            let outcome = Outcome::error(code::CANCELLED, "the request was cancelled");
            answer(from, letter.toward.opposite(), id.clone(), outcome, cx);
        }
        !found.is_empty()
    }

    /// An answer has come: it goes to who asked, behind all that its sender said before.
    pub(crate) fn on_answer(
        &mut self,
        ask: Ask,
        outcome: Outcome,
        extras: Option<Box<[u8]>>,
        cx: &mut Cx<'_>,
    ) {
        let owed = self.owed_with(&ask);
        let message = Message::Response { id: ask.asker_id, outcome, extras };
        let parcel = Parcel {
            from: ask.answerer,
            to: ask.asker,
            toward: ask.toward.opposite(),
            via: ask.via,
            owed,
            message,
        };
        self.forward(parcel, cx);
    }

    pub(crate) fn forward(&mut self, mut parcel: Parcel, cx: &mut Cx<'_>) {
        while let Some(&seat) = parcel.via.first() {
            match self.life(seat) {
                Some(life) if life.is_away() => {
                    parcel.message = parcel.message.detached();
                    if let Some(absence) = self.absence_mut(seat) {
                        absence.hold(Held::Answer(parcel));
                    }
                    return;
                }
                Some(Life::Live { .. } | Life::Greeting { .. }) => {
                    parcel.via.remove(0);
                    let toward = parcel.toward;
                    return self.send_barrier(seat, toward, Held::Answer(parcel), cx);
                }
                _ => drop(parcel.via.remove(0)),
            }
        }
        self.bring(parcel, cx);
    }

    /// Hands an answer over. Should its receiver still be learning, it first gets what the sender
    /// said before.
    pub(crate) fn bring(&mut self, parcel: Parcel, cx: &mut Cx<'_>) {
        let Parcel { from, to, toward, owed, message, .. } = parcel;
        let before = |held: &Held| matches!(held, Held::Letter(it) if it.at() == from);
        let earlier = self.absence_mut(to).map(|absence| absence.take(before));
        for held in earlier.into_iter().flatten() {
            if let Held::Letter(letter) = held {
                self.hand_over(letter, to, cx);
            }
        }
        if let Some(owed) = owed {
            self.note_answer(to, toward, owed, cx.out);
        }
        cx.out.push(Action::Deliver { to, toward, message });
    }

    pub(crate) fn own_ask(
        &self,
        at: Time,
        answerer: Seat,
        toward: Side,
        method: &str,
        purpose: Purpose,
    ) -> Ask {
        Ask {
            asker: Seat::SELF,
            asker_id: Id::NULL,
            answerer,
            toward,
            method: method.to_owned(),
            gist: Gist::None,
            at,
            cancelled: false,
            purpose,
            via: Vec::new(),
        }
    }
}
