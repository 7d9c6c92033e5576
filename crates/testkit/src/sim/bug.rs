//! Faults to plant: each is a mistake that the core could make. They are planted in what goes into the core and in
//! what comes out of it.

use acp_wire::{Call, Id, Json, Message, Side};
use bytes::Bytes;
use engine::{Input, Line, Link, Output};
use router::{ExitCause, Mode, Seat};

use crate::cast::Part;
use crate::shell::{Effect, Meddler};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// An answer is not passed on.
    DropAnswer,
    /// An answer does not reach the core, so that its question stays open.
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
    mode: Mode,
    /// The last seat of the chain.
    last: Seat,
    done: bool,
    input: Option<Input>,
    held: Option<Effect>,
}

impl Saboteur {
    pub fn new(bug: Bug, countdown: usize, mode: Mode, last: Seat) -> Saboteur {
        Saboteur { bug, countdown, mode, last, done: false, input: None, held: None }
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

    /// Strikes at one of the lines for which there is an occasion; gives its place.
    fn pick(&mut self, effects: &[Effect], occasion: impl Fn(&Letter) -> bool) -> Option<usize> {
        effects.iter().position(|effect| match effect {
            Effect::Line { to, line } => {
                Letter::open(to.seat, line).is_some_and(|it| occasion(&it)) && self.strike()
            }
            Effect::Output(_) => false,
        })
    }

    fn drop_one(&mut self, effects: &mut Vec<Effect>, occasion: impl Fn(&Letter) -> bool) {
        if let Some(at) = self.pick(effects, occasion) {
            effects.remove(at);
        }
    }

    fn repeat_one(&mut self, effects: &mut Vec<Effect>, occasion: impl Fn(&Letter) -> bool) {
        if let Some(at) = self.pick(effects, occasion) {
            effects.insert(at, effects[at].clone());
        }
    }

    fn change_one(
        &mut self,
        effects: &mut [Effect],
        occasion: impl Fn(&Letter) -> bool,
        change: impl FnOnce(&mut Letter),
    ) {
        if let Some(at) = self.pick(effects, occasion)
            && let Effect::Line { to, line } = &effects[at]
            && let Some(mut letter) = Letter::open(to.seat, line)
        {
            change(&mut letter);
            effects[at] = letter.close();
        }
    }

    fn part(&self, seat: Seat) -> Part {
        match self.mode {
            Mode::Agent if seat == Seat::OUTER => Part::Editor,
            Mode::Proxy if seat == Seat::OUTER => Part::Outer,
            Mode::Agent if seat == self.last => Part::Agent,
            _ => Part::Proxy,
        }
    }

    /// The way in which a letter to this seat travels.
    fn toward(&self, letter: &Letter) -> Option<Side> {
        self.part(letter.seat).heard(letter.wrapped)
    }

    /// The same letter to another seat, as if it were the right one.
    fn redirect(&self, letter: &mut Letter, to: Seat, toward: Side) {
        letter.seat = to;
        letter.wrapped = self.part(to).heard(true) == Some(toward);
    }

    /// Delivers what the core had reason to drop.
    fn deliver_anyway(&mut self, effects: &mut Vec<Effect>, reason: &str) {
        let dropped = effects.iter().any(|effect| match effect {
            Effect::Output(Output::Report(notice)) => notice.text.contains(reason),
            _ => false,
        });
        let Some(Input::Line { link, line: Line::Text(line) }) = &self.input else { return };
        let Some(mut letter) = Letter::open(link.seat, line).filter(|_| dropped) else { return };
        let from = link.seat;
        let sides = [Side::Agent, Side::Editor].into_iter();
        let mut sides = sides.filter(|it| self.part(from).wraps(*it) == Some(letter.wrapped));
        let Some(toward) = sides.next() else { return };
        let to = match toward {
            Side::Agent => Seat(from.0 + 1),
            Side::Editor if from.is_component() => Seat(from.0 - 1),
            Side::Editor => self.last,
        };
        self.redirect(&mut letter, to, toward);
        if self.strike() {
            effects.push(letter.close());
        }
    }

    /// Holds a line back until another one for the same seat has passed.
    fn overtake(&mut self, effects: &mut Vec<Effect>) {
        let place = |effect: &Effect| match effect {
            Effect::Line { to, .. } => Some(*to),
            Effect::Output(_) => None,
        };
        if let Some(link) = self.held.as_ref().and_then(place)
            && let Some(at) = effects.iter().position(|effect| place(effect) == Some(link))
            && let Some(held) = self.held.take()
        {
            return effects.insert(at + 1, held);
        }
        if let Some(at) = self.pick(effects, |_| true) {
            self.held = Some(effects.remove(at));
        }
    }
}

/// A line, taken out of its envelope.
#[derive(Debug)]
struct Letter {
    seat: Seat,
    wrapped: bool,
    message: Message,
}

impl Letter {
    fn open(seat: Seat, line: &Bytes) -> Option<Letter> {
        let message = Message::parse(line).ok()?;
        let (Message::Request { call, .. } | Message::Notification(call)) = &message else {
            return Some(Letter { seat, wrapped: false, message });
        };
        let Some(params) = call.params.as_ref().filter(|_| call.is("proxy/successor")) else {
            return Some(Letter { seat, wrapped: false, message });
        };
        let inner = Call::new(&params.member("method")?.text()?, params.member("params"));
        let message = match &message {
            Message::Request { id, .. } => Message::Request { id: id.clone(), call: inner },
            _ => Message::Notification(inner),
        };
        Some(Letter { seat, wrapped: true, message })
    }

    fn close(self) -> Effect {
        let message = match self.message {
            Message::Request { id, call } if self.wrapped => {
                Message::Request { id, call: wrap(&call) }
            }
            Message::Notification(call) if self.wrapped => Message::Notification(wrap(&call)),
            message => message,
        };
        Effect::Line { to: Link::main(self.seat), line: message.to_line().into() }
    }

    fn is_answer(&self) -> bool {
        matches!(self.message, Message::Response { .. })
    }

    fn is_cancel(&self) -> bool {
        matches!(&self.message, Message::Notification(call) if call.is(acp_wire::acp::CANCEL_REQUEST))
    }

    fn is_note(&self) -> bool {
        matches!(self.message, Message::Notification(_)) && !self.is_cancel()
    }

    fn is_call(&self) -> bool {
        !self.is_answer() && !self.is_cancel()
    }

    fn call_mut(&mut self) -> Option<&mut Call> {
        match &mut self.message {
            Message::Request { call, .. } | Message::Notification(call) => Some(call),
            Message::Response { .. } => None,
        }
    }

    fn has_fraction(&self) -> bool {
        match &self.message {
            Message::Request { call, .. } | Message::Notification(call) => {
                call.params.as_ref().is_some_and(|params| params.as_str().contains("1.10"))
            }
            Message::Response { .. } => false,
        }
    }

    /// What becomes of a number when a payload goes through a parser.
    fn respell(&mut self) {
        if let Some(params) = self.call_mut().and_then(|call| call.params.as_mut()) {
            *params = Json::trusted(params.as_str().replace("1.10", "1.1"));
        }
    }
}

fn wrap(call: &Call) -> Call {
    let method = Json::string(&call.method.name());
    let params = Json::object([("method", Some(method)), ("params", call.params.clone())]);
    Call::new("proxy/successor", params)
}

impl Meddler for Saboteur {
    fn before(&mut self, input: Input) -> Vec<Input> {
        self.input = Some(input.clone());
        let Input::Line { link, line: Line::Text(line) } = &input else { return vec![input] };
        let is_answer = Letter::open(link.seat, line).is_some_and(|it| it.is_answer());
        let bug = self.bug;
        match bug {
            Bug::LoseAnswer if is_answer && self.strike() => Vec::new(),
            Bug::EndForNothing if link.seat.is_component() && self.strike() => vec![
                Input::OutputClosed { link: *link, rest: None },
                Input::Exited { seat: link.seat, life: 0, how: ExitCause::Status(0) },
            ],
            _ => vec![input],
        }
    }

    fn after(&mut self, effects: &mut Vec<Effect>) {
        match self.bug {
            Bug::LoseAnswer | Bug::EndForNothing => {}
            Bug::DropAnswer => self.drop_one(effects, Letter::is_answer),
            Bug::WrongAsker => {
                let last = self.last;
                self.change_one(effects, Letter::is_answer, |letter| {
                    let to = letter.seat;
                    letter.seat = if to.0 > 0 { Seat(to.0 - 1) } else { last };
                });
            }
            Bug::WrongId => self.change_one(effects, Letter::is_answer, |letter| {
                if let Message::Response { id, .. } = &mut letter.message {
                    *id = Id::string("c:1");
                }
            }),
            Bug::Overtake => self.overtake(effects),
            Bug::Duplicate => self.repeat_one(effects, Letter::is_call),
            Bug::DropNote => self.drop_one(effects, Letter::is_note),
            Bug::ForgetDeath => {
                if let Some(Input::Exited { .. }) = &self.input {
                    effects.retain(|effect| match effect {
                        Effect::Line { to, line } => {
                            !Letter::open(to.seat, line).is_some_and(|it| it.is_answer())
                        }
                        Effect::Output(_) => true,
                    });
                }
            }
            Bug::CancelWrongId => self.change_one(effects, Letter::is_cancel, |letter| {
                if let Some(call) = letter.call_mut() {
                    let wrong = Json::trusted("\"c:1\"");
                    let params = call.params.take().unwrap_or(Json::NULL);
                    call.params = Some(params.with_member("requestId", &wrong));
                }
            }),
            Bug::CancelTwice => self.repeat_one(effects, Letter::is_cancel),
            Bug::DropCancel => self.drop_one(effects, Letter::is_cancel),
            Bug::SpeakTooSoon => self.deliver_anyway(effects, "is not initialized yet"),
            Bug::SpeakToTheDead => {
                for reason in ["ended with", "was killed", "closed its"] {
                    self.deliver_anyway(effects, reason);
                }
            }
            Bug::RespellPayload => {
                self.change_one(effects, Letter::has_fraction, Letter::respell);
            }
            Bug::WrongSide => {
                let (mode, last) = (self.mode, self.last);
                let both = |seat| match mode {
                    Mode::Agent => seat != Seat::OUTER && seat != last,
                    Mode::Proxy => true,
                };
                let occasion = |it: &Letter| it.is_call() && both(it.seat);
                self.change_one(effects, occasion, |it| it.wrapped = !it.wrapped);
            }
            Bug::SkipSeat => self.skip_seat(effects),
            Bug::StartAgain => {
                let again = match &self.input {
                    Some(Input::Line {
                        link: Link { seat: Seat::OUTER, .. },
                        line: Line::Text(it),
                    }) => {
                        Message::parse(it).is_ok_and(|it| it.label().ends_with("initialize"))
                            && !effects.iter().any(is_start)
                    }
                    _ => false,
                };
                if again && !effects.is_empty() && self.last.is_component() {
                    let start = Output::Start { seat: self.last, life: 0 };
                    effects.insert(0, Effect::Output(start));
                }
            }
            Bug::SpeakAfterEnd => {
                if effects.iter().any(|it| matches!(it, Effect::Output(Output::Finish(_)))) {
                    let message = Message::notification("too/late", Json::NULL);
                    let letter = Letter { seat: Seat::OUTER, wrapped: false, message };
                    effects.push(letter.close());
                }
            }
        }
    }
}

impl Saboteur {
    fn skip_seat(&mut self, effects: &mut [Effect]) {
        let Some(at) = self.pick(effects, Letter::is_call) else { return };
        let Effect::Line { to, line } = &effects[at] else { return };
        let Some(mut letter) = Letter::open(to.seat, line) else { return };
        let Some(toward) = self.toward(&letter) else { return };
        let next = match toward {
            Side::Agent => Seat(to.seat.0 + 1).min(self.last),
            Side::Editor => Seat(to.seat.0.saturating_sub(1)),
        };
        self.redirect(&mut letter, next, toward);
        effects[at] = letter.close();
    }
}

fn is_start(effect: &Effect) -> bool {
    matches!(effect, Effect::Output(Output::Start { .. }))
}
