//! How a component dies and another takes its place: what the router and the supervisor do then.
//!
//! What it owed is answered with errors, what it asked is forgotten, what is for it waits. Who takes its
//! place is greeted and is given every set-up request of the sessions that stand; what it makes of them
//! goes no further and is answered from memory. Then it gets what has waited. If nobody takes its place,
//! everything passes as if the seat had never been.

use std::collections::{BTreeMap, BTreeSet};

use router::{Action, Event, Seat};
use wire::{Call, Id, Json, Message, Outcome, Side, acp};

use super::*;

#[derive(Default)]
pub struct Lives {
    /// Requests that were delivered and not answered, in order.
    owed: Vec<(Seat, Id)>,
    /// Requests that were made and not answered.
    asked: Vec<(Seat, Id)>,
    /// Who is away, and what waits for it.
    away: BTreeMap<Seat, Vec<Action>>,
    /// Who was away and is never to come back.
    bypassed: BTreeSet<Seat>,
    set_ups: Vec<SetUp>,
    /// Requests to end a session.
    closes: Vec<(Seat, Id, String)>,
    /// The session for which a newcomer is told what its predecessor was.
    telling: String,
    last: u64,
}

/// A request that has set a session up, or may.
#[derive(Clone)]
struct SetUp {
    seat: Seat,
    id: Id,
    call: Call,
    session: Option<String>,
}

const FROM_MEMORY: &str = "memory-";

fn session_of(json: Option<&Json>) -> Option<String> {
    json?.member("sessionId")?.text().map(|text| text.into_owned())
}

fn is_set_up(call: &Call) -> bool {
    ["session/new", "session/load", "session/resume"].iter().any(|method| call.is(method))
}

impl Lives {
    /// Takes note of what the router is told.
    pub fn on_event(&mut self, event: &Event) {
        let Event::Arrived { from, message, .. } = event else { return };
        match message {
            Message::Request { id, .. } => self.asked.push((*from, id.detached())),
            Message::Response { id, outcome, .. } => {
                self.owed.retain(|it| *it != (*from, id.clone()));
                self.on_set_up_answered(*from, id, outcome);
                self.on_closed(*from, id, outcome);
            }
            Message::Notification(_) => {}
        }
    }

    fn on_set_up_answered(&mut self, from: Seat, id: &Id, outcome: &Outcome) {
        let it = |set_up: &SetUp| set_up.seat == from && set_up.id == *id;
        let Some(index) = self.set_ups.iter().position(it) else { return };
        let mut set_up = self.set_ups.remove(index);
        let Outcome::Result(result) = outcome else { return };
        set_up.session = session_of(Some(result)).or(session_of(set_up.call.params.as_ref()));
        self.set_ups.retain(|it| it.seat != from || it.session != set_up.session);
        set_up.id = Id::NULL;
        self.set_ups.push(set_up);
    }

    /// Takes note of what the router does.
    pub fn on_action(&mut self, action: &Action) {
        let Action::Deliver { to, message, .. } = action else { return };
        match message {
            Message::Request { id, call } => {
                self.owed.push((*to, id.clone()));
                let session = session_of(call.params.as_ref());
                if is_set_up(call) {
                    let (id, call) = (id.clone(), call.detached());
                    self.set_ups.push(SetUp { seat: *to, id, call, session: None });
                } else if let Some(session) = session
                    && ["session/close", "session/delete"].iter().any(|it| call.is(it))
                {
                    self.closes.push((*to, id.clone(), session));
                }
            }
            Message::Response { id, .. } => self.asked.retain(|it| *it != (*to, id.clone())),
            Message::Notification(_) => {}
        }
    }

    /// Who has ended a session is not told of it again. (The others may be, if the answer is lost.)
    fn on_closed(&mut self, from: Seat, id: &Id, outcome: &Outcome) {
        let it = |(seat, asked, _): &(Seat, Id, String)| *seat == from && asked == id;
        let Some(index) = self.closes.iter().position(it) else { return };
        let (_, _, session) = self.closes.remove(index);
        if matches!(outcome, Outcome::Result(_)) {
            self.set_ups.retain(|it| it.seat != from || it.session.as_ref() != Some(&session));
        }
    }

    pub fn is_away(&self, seat: Seat) -> bool {
        self.away.contains_key(&seat)
    }
}

impl Stage {
    fn far(&self) -> Seat {
        Seat(self.sitters.len() as u16 - 1)
    }

    /// What becomes of an action where nobody sits. Returns it, if somebody does.
    pub(super) fn if_here(&mut self, action: Action) -> Option<Action> {
        self.lives.on_action(&action);
        let Action::Deliver { to, toward, message } = action else { return Some(action) };
        if self.lives.bypassed.contains(&to) {
            self.passes_by(to, toward, message);
            return None;
        }
        let action = Action::Deliver { to, toward, message };
        match self.lives.away.get_mut(&to) {
            Some(waiting) => {
                waiting.push(action);
                None
            }
            None => Some(action),
        }
    }

    /// The gap that a component has left is none.
    fn passes_by(&mut self, seat: Seat, toward: Side, message: Message) {
        if let Some(message) = self.pass(seat.index(), message) {
            self.routed.push_back(Event::Arrived { from: seat, toward, message });
        }
    }

    /// A component dies. What it had asked is taken back, or not.
    pub fn die(&mut self, who: &str, takes_back: bool) {
        let seat = self.seat(who);
        assert!(!self.lives.is_away(seat), "{who} dies twice");
        self.journal.push(format!("{who} dies"));
        self.lives.away.insert(seat, Vec::new());
        self.died(seat, takes_back);
    }

    /// It dies again before it has come back.
    pub fn die_again(&mut self, who: &str) {
        let seat = self.seat(who);
        assert!(self.lives.is_away(seat), "{who} is not away");
        self.journal.push(format!("{who} dies again"));
        self.died(seat, false);
    }

    fn died(&mut self, seat: Seat, takes_back: bool) {
        let sitter = &mut self.sitters[seat.index()];
        sitter.inbox.clear();
        sitter.passed.clear();
        sitter.asleep = false;
        let (asked, rest) =
            std::mem::take(&mut self.lives.asked).into_iter().partition(|(who, _)| *who == seat);
        self.lives.asked = rest;
        let asked: Vec<(Seat, Id)> = asked;
        for (_, id) in asked.iter().filter(|_| takes_back) {
            let params = Json::object([("requestId", Some(id.json().clone()))]);
            let message = Message::notification(acp::CANCEL_REQUEST, params);
            self.route(Event::Arrived { from: seat, toward: Side::Agent, message });
        }
        self.route(Event::Again { seat, why: Exit::new(How::Status(1)) });
        // What waits has not been delivered, and is not answered.
        let waits = |lives: &Lives, id: &Id| {
            lives.away[&seat].iter().any(|it| {
                matches!(it, Action::Deliver { message: Message::Request { id: it, .. }, .. } if it == id)
            })
        };
        let owed =
            self.lives.owed.iter().filter(|(who, id)| *who == seat && !waits(&self.lives, id));
        for (_, id) in owed.cloned().collect::<Vec<_>>() {
            let outcome = Outcome::error(-32603, "it has died");
            let message = Message::response(id, outcome);
            self.route(Event::Arrived { from: seat, toward: Side::Agent, message });
        }
        let mut steps = Vec::new();
        self.exchange.parted(self.now, seat, &mut steps);
        self.take(steps);
        self.settle();
        self.pass_on();
    }

    /// Another takes its place, and is greeted. (An agent answers with this.)
    pub fn boot(&mut self, who: &str, greeting: &str) {
        self.journal.push(format!("{who} is started again"));
        let index = self.index(who);
        self.sitters[index].asleep = true;
        let id = self.tell(who, call(acp::INITIALIZE, r#"{"protocolVersion":1}"#));
        self.see(who, "initialize ? …");
        if self.seat(who) != self.far() {
            self.say(who, &format!(r#"~initialize boot-{id} {{"protocolVersion":1}}"#));
            self.see(who, &format!("result boot-{id} …"));
        }
        self.say(who, &format!("result {id} {greeting}"));
        self.sitters[index].asleep = false;
    }

    /// The sessions that a seat is told of.
    pub fn sessions_of(&self, who: &str) -> Vec<String> {
        let seat = self.seat(who);
        let its = self.lives.set_ups.iter().filter(|it| it.seat == seat);
        its.filter_map(|it| it.session.clone()).collect()
    }

    /// A newcomer is told of a session. Whatever it makes of it, it is answered from memory.
    pub fn tell_of(&mut self, who: &str, session: &str) {
        let seat = self.seat(who);
        let is_it = |it: &&SetUp| it.seat == seat && it.session.as_deref() == Some(session);
        let set_up = self.lives.set_ups.iter().find(is_it).cloned().expect("a session");
        session.clone_into(&mut self.lives.telling);
        let known = Json::string(session);
        let call = match seat == self.far() {
            // It was set up by another who is no more.
            true => Call::new(
                "session/load",
                set_up.call.params.map(|it| it.with_at(&["sessionId"], Some(&known))),
            ),
            false => set_up.call,
        };
        self.tell(who, call);
        self.pass_on();
    }

    /// Delivers a request of the supervisor's own.
    fn tell(&mut self, who: &str, call: Call) -> String {
        self.lives.last += 1;
        let name = format!("{FROM_MEMORY}{}", self.lives.last);
        let message = Message::Request { id: Id::string(&name), call };
        self.hand_over(self.seat(who), Side::Agent, message);
        name
    }

    fn hand_over(&mut self, seat: Seat, toward: Side, message: Message) {
        let mut steps = Vec::new();
        let hop = Hop { seat, toward, dialect: self.sitters[seat.index()].dialect };
        if let Some(message) = self.exchange.deliver(self.now, hop, message, &mut steps) {
            self.deliver(seat, toward, message);
        }
        self.take(steps);
        self.settle();
    }

    /// What a newcomer says before it is one of us. Returns what goes on.
    pub(super) fn if_known(&mut self, from: Seat, message: Message) -> Option<Message> {
        if !self.lives.is_away(from) {
            return Some(message);
        }
        match message {
            Message::Response { id, .. } if token(&id).starts_with(FROM_MEMORY) => None,
            Message::Request { id, call } if is_set_up(&call) || call.is(acp::INITIALIZE) => {
                let result = match call.is(acp::INITIALIZE) {
                    true => STDIO.to_owned(),
                    false => format!(r#"{{"sessionId":"{}"}}"#, self.lives.telling),
                };
                let outcome = Outcome::Result(json(&result));
                self.hand_over(from, Side::Editor, Message::response(id, outcome));
                None
            }
            message => Some(message),
        }
    }

    /// It has been told everything, and gets what has waited for it.
    pub fn come_back(&mut self, who: &str) {
        let seat = self.seat(who);
        self.journal.push(format!("{who} is back"));
        let waiting = self.lives.away.remove(&seat).expect("it was away");
        let mut steps = Vec::new();
        self.exchange.returned(self.now, seat, &mut steps);
        self.take(steps);
        self.settle();
        for action in waiting {
            self.perform_here(action);
            self.settle();
        }
        self.pass_on();
    }

    /// Nobody takes its place.
    pub fn bypass(&mut self, who: &str) {
        let seat = self.seat(who);
        self.journal.push(format!("{who} is bypassed"));
        let waiting = self.lives.away.remove(&seat).expect("it was away");
        self.lives.bypassed.insert(seat);
        self.sitters[seat.index()].transparent = false;
        let mut steps = Vec::new();
        self.exchange.bypassed(self.now, seat, &mut steps);
        self.take(steps);
        self.settle();
        for action in waiting {
            let Action::Deliver { to, toward, message } = action else { continue };
            self.passes_by(to, toward, message);
            self.settle();
        }
        self.pass_on();
    }
}

fn call(method: &str, params: &str) -> Call {
    Call::new(method, json(params))
}
