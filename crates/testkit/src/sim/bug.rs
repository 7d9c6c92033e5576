//! Faults to plant: each is a mistake that a router could make.

use router::{Action, Event, Exit, How, Seat};
use wire::{Id, Json, Message, Side};

use crate::hub::Meddler;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// An answer is not passed on.
    DropAnswer,
    /// An answer does not reach the router, so that its question stays open.
    LoseAnswer,
    /// An answer goes to another seat.
    WrongAsker,
    /// An answer bears an id that its asker never used.
    WrongId,
    /// A message is overtaken by the next one for the same seat.
    Overtake,
    /// A message is delivered twice.
    Duplicate,
    /// A notification is not passed on.
    DropNote,
    /// Nobody is told what a dead component owed.
    ForgetDeath,
    /// A cancellation names an id of another link.
    CancelWrongId,
    /// A cancellation is passed on twice.
    CancelTwice,
    /// A cancellation is not passed on.
    DropCancel,
    /// A component is spoken to before it was greeted.
    SpeakTooSoon,
    /// A component is spoken to after its death.
    SpeakToTheDead,
    /// A payload is read and written again, as a parser would.
    RespellPayload,
    /// A message is delivered as if it came from the other side.
    WrongSide,
    /// A proxy is left out.
    SkipSeat,
    /// Components are started again with a second `initialize`.
    StartAgain,
    /// Something is said after the end.
    SpeakAfterEnd,
    /// The chain ends without a reason.
    EndForNothing,
}

impl Bug {
    pub const ALL: [Bug; 19] = [
        Bug::DropAnswer,
        Bug::LoseAnswer,
        Bug::WrongAsker,
        Bug::WrongId,
        Bug::Overtake,
        Bug::Duplicate,
        Bug::DropNote,
        Bug::ForgetDeath,
        Bug::CancelWrongId,
        Bug::CancelTwice,
        Bug::DropCancel,
        Bug::SpeakTooSoon,
        Bug::SpeakToTheDead,
        Bug::RespellPayload,
        Bug::WrongSide,
        Bug::SkipSeat,
        Bug::StartAgain,
        Bug::SpeakAfterEnd,
        Bug::EndForNothing,
    ];
}

/// Plants a bug: once, when the occasion has come for the `countdown`th time.
#[derive(Debug)]
pub struct Saboteur {
    bug: Bug,
    countdown: usize,
    /// The last seat of the chain.
    last: Seat,
    done: bool,
    event: Option<Event>,
    held: Option<Action>,
}

impl Saboteur {
    pub fn new(bug: Bug, countdown: usize, last: Seat) -> Saboteur {
        Saboteur { bug, countdown, last, done: false, event: None, held: None }
    }

    /// Here is an occasion: is it the one?
    fn strike(&mut self) -> bool {
        if self.done || self.countdown > 0 {
            self.countdown = self.countdown.saturating_sub(1);
            return false;
        }
        self.done = true;
        true
    }

    /// Strikes at one of the deliveries for which there is an occasion; gives its place.
    fn pick(&mut self, actions: &[Action], occasion: impl Fn(&Message) -> bool) -> Option<usize> {
        actions.iter().position(|action| match action {
            Action::Deliver { message, .. } => occasion(message) && self.strike(),
            _ => false,
        })
    }

    fn drop_one(&mut self, actions: &mut Vec<Action>, occasion: impl Fn(&Message) -> bool) {
        if let Some(at) = self.pick(actions, occasion) {
            actions.remove(at);
        }
    }

    fn repeat_one(&mut self, actions: &mut Vec<Action>, occasion: impl Fn(&Message) -> bool) {
        if let Some(at) = self.pick(actions, occasion) {
            actions.insert(at, actions[at].clone());
        }
    }

    fn change_one(
        &mut self,
        actions: &mut [Action],
        occasion: impl Fn(&Message) -> bool,
        change: impl FnOnce(&mut Seat, &mut Side, &mut Message),
    ) {
        if let Some(at) = self.pick(actions, occasion)
            && let Action::Deliver { to, toward, message } = &mut actions[at]
        {
            change(to, toward, message);
        }
    }

    /// Delivers what the router had reason to drop.
    fn deliver_anyway(&mut self, actions: &mut Vec<Action>, reason: &str) {
        let dropped = actions.iter().any(|action| match action {
            Action::Report(notice) => notice.text.contains(reason),
            _ => false,
        });
        if let Some(Event::Arrived { from, toward, message }) = &self.event
            && dropped
        {
            let to = match toward {
                Side::Agent => Seat(from.0 + 1),
                Side::Editor if from.is_component() => Seat(from.0 - 1),
                Side::Editor => self.last,
            };
            let action = Action::Deliver { to, toward: *toward, message: message.clone() };
            if self.strike() {
                actions.push(action);
            }
        }
    }

    /// Holds a delivery back until another one for the same seat has passed.
    fn overtake(&mut self, actions: &mut Vec<Action>) {
        let place = |action: &Action| match action {
            Action::Deliver { to, .. } => Some(*to),
            _ => None,
        };
        if let Some(seat) = self.held.as_ref().and_then(place)
            && let Some(at) = actions.iter().position(|action| place(action) == Some(seat))
            && let Some(held) = self.held.take()
        {
            return actions.insert(at + 1, held);
        }
        if let Some(at) = self.pick(actions, |_| true) {
            self.held = Some(actions.remove(at));
        }
    }
}

fn is_answer(message: &Message) -> bool {
    matches!(message, Message::Response { .. })
}

fn is_cancel(message: &Message) -> bool {
    matches!(message, Message::Notification(call) if call.is(wire::acp::CANCEL_REQUEST))
}

fn is_note(message: &Message) -> bool {
    matches!(message, Message::Notification(_)) && !is_cancel(message)
}

fn is_call(message: &Message) -> bool {
    !is_answer(message) && !is_cancel(message)
}

/// What becomes of a number when a payload goes through a parser.
fn respell(message: &mut Message) {
    if let Message::Request { call, .. } | Message::Notification(call) = message
        && let Some(params) = &call.params
    {
        let text = params.as_str().replace("1.10", "1.1");
        call.params = Some(Json::trusted(text));
    }
}

fn has_fraction(message: &Message) -> bool {
    match message {
        Message::Request { call, .. } | Message::Notification(call) => {
            call.params.as_ref().is_some_and(|params| params.as_str().contains("1.10"))
        }
        Message::Response { .. } => false,
    }
}

impl Meddler for Saboteur {
    fn before(&mut self, event: Event) -> Option<Event> {
        self.event = Some(event.clone());
        match (self.bug, event) {
            (Bug::LoseAnswer, Event::Arrived { message, .. })
                if is_answer(&message) && self.strike() =>
            {
                None
            }
            (Bug::EndForNothing, Event::Arrived { from, .. })
                if from.is_component() && self.strike() =>
            {
                Some(Event::Left { seat: from, why: Exit::new(How::Status(0)) })
            }
            (_, event) => Some(event),
        }
    }

    fn after(&mut self, actions: &mut Vec<Action>) {
        match self.bug {
            Bug::LoseAnswer | Bug::EndForNothing => {}
            Bug::DropAnswer => self.drop_one(actions, is_answer),
            Bug::WrongAsker => {
                let last = self.last;
                self.change_one(actions, is_answer, |to, _, _| {
                    *to = if to.0 > 0 { Seat(to.0 - 1) } else { last };
                });
            }
            Bug::WrongId => self.change_one(actions, is_answer, |_, _, message| {
                if let Message::Response { id, .. } = message {
                    *id = Id::string("c:1");
                }
            }),
            Bug::Overtake => self.overtake(actions),
            Bug::Duplicate => self.repeat_one(actions, is_call),
            Bug::DropNote => self.drop_one(actions, is_note),
            Bug::ForgetDeath => {
                if matches!(&self.event, Some(Event::Left { seat, .. }) if seat.is_component()) {
                    actions.retain(|action| {
                        !matches!(action, Action::Deliver { message, .. } if is_answer(message))
                    });
                }
            }
            Bug::CancelWrongId => self.change_one(actions, is_cancel, |_, _, message| {
                if let Message::Notification(call) = message {
                    let wrong = Json::trusted("\"c:1\"");
                    let params = call.params.take().unwrap_or(Json::NULL);
                    call.params = Some(params.with_member("requestId", &wrong));
                }
            }),
            Bug::CancelTwice => self.repeat_one(actions, is_cancel),
            Bug::DropCancel => self.drop_one(actions, is_cancel),
            Bug::SpeakTooSoon => self.deliver_anyway(actions, "is not initialized yet"),
            Bug::SpeakToTheDead => {
                for reason in ["ended with", "was killed", "closed its"] {
                    self.deliver_anyway(actions, reason);
                }
            }
            Bug::RespellPayload => {
                self.change_one(actions, has_fraction, |_, _, message| respell(message));
            }
            Bug::WrongSide => {
                self.change_one(actions, is_call, |_, toward, _| *toward = toward.opposite());
            }
            Bug::SkipSeat => {
                let last = self.last;
                self.change_one(actions, is_call, |to, toward, _| {
                    *to = match *toward {
                        Side::Agent => Seat(to.0 + 1).min(last),
                        Side::Editor => Seat(to.0.saturating_sub(1)),
                    };
                });
            }
            Bug::StartAgain => {
                let again = match &self.event {
                    Some(Event::Arrived { from: Seat::OUTER, message, .. }) => {
                        message.label() == wire::acp::INITIALIZE
                            && !actions.iter().any(|it| matches!(it, Action::Start(_)))
                    }
                    _ => false,
                };
                if again && !actions.is_empty() && self.last.is_component() {
                    actions.insert(0, Action::Start(self.last));
                }
            }
            Bug::SpeakAfterEnd => {
                if actions.iter().any(|action| matches!(action, Action::Finish(_))) {
                    let message = Message::notification("too/late", Json::NULL);
                    let toward = Side::Editor;
                    actions.push(Action::Deliver { to: Seat::OUTER, toward, message });
                }
            }
        }
    }
}
