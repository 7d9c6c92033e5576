//! Injected faults: each one imitates a mistake that the core could make.
//!
//! A fault changes an input before the core handles it, or the effects that follow. A simulation must detect every fault.

use acp_wire::{Call, Id, Json, Message, Side};
use bytes::Bytes;
use engine::{Input, Line, LinkId, Output};
use router::{ExitCause, Mode, Seat};

use crate::shell::{Effect, Interceptor};
use crate::topology::ParticipantRole;

/// A mistake of the core, imitated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// An answer is not passed on.
    DropAnswer,
    /// An answer does not reach the core, so its request stays open.
    IgnoreAnswer,
    /// An answer goes to another seat.
    WrongRequester,
    /// An answer has an id that its requester has never used.
    WrongId,
    /// A message is overtaken by the next one for the same seat.
    Overtake,
    /// A message is delivered twice.
    Duplicate,
    /// A notification is not passed on.
    DropNotification,
    /// The open requests to a component that has exited are not answered.
    ForgetCrash,
    /// A cancellation names an id of another link.
    CancelWrongId,
    /// A cancellation is passed on twice.
    CancelTwice,
    /// A cancellation is not passed on.
    DropCancel,
    /// A component gets a message before `initialize`.
    SendBeforeInitialize,
    /// A component gets a message after it has exited.
    SendAfterExit,
    /// A payload is parsed and written again, which changes its text.
    ReencodePayload,
    /// A message is delivered as if it came from the other side.
    WrongSide,
    /// A message goes past a proxy.
    SkipSeat,
    /// A second `initialize` starts a component again.
    StartTwice,
    /// The conductor sends a message after it has finished.
    SendAfterFinish,
    /// The chain finishes without a reason.
    FinishWithoutReason,
}

impl Fault {
    /// All faults.
    pub const ALL: [Fault; 19] = [
        Fault::DropAnswer,
        Fault::IgnoreAnswer,
        Fault::WrongRequester,
        Fault::WrongId,
        Fault::Overtake,
        Fault::Duplicate,
        Fault::DropNotification,
        Fault::ForgetCrash,
        Fault::CancelWrongId,
        Fault::CancelTwice,
        Fault::DropCancel,
        Fault::SendBeforeInitialize,
        Fault::SendAfterExit,
        Fault::ReencodePayload,
        Fault::WrongSide,
        Fault::SkipSeat,
        Fault::StartTwice,
        Fault::SendAfterFinish,
        Fault::FinishWithoutReason,
    ];
}

/// Injects a fault once, after `countdown` opportunities have passed.
#[derive(Debug)]
pub struct FaultInjector {
    fault: Fault,
    countdown: usize,
    mode: Mode,
    /// The last seat of the chain.
    last: Seat,
    done: bool,
    /// The last input.
    input: Option<Input>,
    /// The line that [`Fault::Overtake`] holds back.
    held: Option<Effect>,
}

impl FaultInjector {
    /// An injector for a conductor in this mode, whose last seat is `last`.
    pub fn new(fault: Fault, countdown: usize, mode: Mode, last: Seat) -> FaultInjector {
        FaultInjector { fault, countdown, mode, last, done: false, input: None, held: None }
    }

    /// Called at each opportunity: whether to inject the fault now.
    fn is_due(&mut self) -> bool {
        if self.done || self.countdown > 0 {
            self.countdown = self.countdown.saturating_sub(1);
            return false;
        }
        self.done = true;
        true
    }

    /// The index of the line to change: the first one that matches when the fault is due.
    fn pick(
        &mut self,
        effects: &[Effect],
        matches: impl Fn(&RoutedMessage) -> bool,
    ) -> Option<usize> {
        effects.iter().position(|effect| match effect {
            Effect::Line { to, line } => {
                RoutedMessage::decode(to.seat, line).is_some_and(|it| matches(&it)) && self.is_due()
            }
            Effect::Output(_) => false,
        })
    }

    fn drop_one(&mut self, effects: &mut Vec<Effect>, matches: impl Fn(&RoutedMessage) -> bool) {
        if let Some(at) = self.pick(effects, matches) {
            effects.remove(at);
        }
    }

    fn repeat_one(&mut self, effects: &mut Vec<Effect>, matches: impl Fn(&RoutedMessage) -> bool) {
        if let Some(at) = self.pick(effects, matches) {
            effects.insert(at, effects[at].clone());
        }
    }

    fn change_one(
        &mut self,
        effects: &mut [Effect],
        matches: impl Fn(&RoutedMessage) -> bool,
        change: impl FnOnce(&mut RoutedMessage),
    ) {
        if let Some(at) = self.pick(effects, matches)
            && let Effect::Line { to, line } = &effects[at]
            && let Some(mut routed) = RoutedMessage::decode(to.seat, line)
        {
            change(&mut routed);
            effects[at] = routed.encode();
        }
    }

    fn role(&self, seat: Seat) -> ParticipantRole {
        match self.mode {
            Mode::Agent if seat == Seat::OUTER => ParticipantRole::Editor,
            Mode::Proxy if seat == Seat::OUTER => ParticipantRole::Outer,
            Mode::Agent if seat == self.last => ParticipantRole::Agent,
            _ => ParticipantRole::Proxy,
        }
    }

    /// The side that a message to its seat travels toward.
    fn toward(&self, routed: &RoutedMessage) -> Option<Side> {
        self.role(routed.seat).receives_toward(routed.wrapped)
    }

    /// Sends a message to another seat, in the form that is right there.
    fn redirect(&self, routed: &mut RoutedMessage, to: Seat, toward: Side) {
        routed.seat = to;
        routed.wrapped = self.role(to).receives_toward(true) == Some(toward);
    }

    /// Delivers a message that the core has dropped for this reason.
    fn deliver_anyway(&mut self, effects: &mut Vec<Effect>, reason: &str) {
        let dropped = effects.iter().any(|effect| match effect {
            Effect::Output(Output::Report(notice)) => notice.text.contains(reason),
            _ => false,
        });
        let Some(Input::Line { link, line: Line::Text(line) }) = &self.input else { return };
        let Some(mut routed) = RoutedMessage::decode(link.seat, line).filter(|_| dropped) else {
            return;
        };
        let from = link.seat;
        let sides = [Side::Agent, Side::Editor].into_iter();
        let mut sides =
            sides.filter(|it| self.role(from).sends_wrapped(*it) == Some(routed.wrapped));
        let Some(toward) = sides.next() else { return };
        let to = match toward {
            Side::Agent => Seat(from.0 + 1),
            Side::Editor if from.is_component() => Seat(from.0 - 1),
            Side::Editor => self.last,
        };
        self.redirect(&mut routed, to, toward);
        if self.is_due() {
            effects.push(routed.encode());
        }
    }

    /// Holds a line back until another one for the same seat has passed.
    fn overtake(&mut self, effects: &mut Vec<Effect>) {
        let link_of = |effect: &Effect| match effect {
            Effect::Line { to, .. } => Some(*to),
            Effect::Output(_) => None,
        };
        if let Some(link) = self.held.as_ref().and_then(link_of)
            && let Some(at) = effects.iter().position(|effect| link_of(effect) == Some(link))
            && let Some(held) = self.held.take()
        {
            return effects.insert(at + 1, held);
        }
        if let Some(at) = self.pick(effects, |_| true) {
            self.held = Some(effects.remove(at));
        }
    }
}

/// A line for a seat, decoded and without its envelope.
#[derive(Debug)]
struct RoutedMessage {
    seat: Seat,
    wrapped: bool,
    message: Message,
}

impl RoutedMessage {
    fn decode(seat: Seat, line: &Bytes) -> Option<RoutedMessage> {
        let message = Message::parse(line).ok()?;
        let (Message::Request { call, .. } | Message::Notification(call)) = &message else {
            return Some(RoutedMessage { seat, wrapped: false, message });
        };
        let Some(params) = call.params.as_ref().filter(|_| call.is("proxy/successor")) else {
            return Some(RoutedMessage { seat, wrapped: false, message });
        };
        let inner = Call::new(&params.member("method")?.text()?, params.member("params"));
        let message = match &message {
            Message::Request { id, .. } => Message::Request { id: id.clone(), call: inner },
            _ => Message::Notification(inner),
        };
        Some(RoutedMessage { seat, wrapped: true, message })
    }

    fn encode(self) -> Effect {
        let message = match self.message {
            Message::Request { id, call } if self.wrapped => {
                Message::Request { id, call: wrap(&call) }
            }
            Message::Notification(call) if self.wrapped => Message::Notification(wrap(&call)),
            message => message,
        };
        Effect::Line { to: LinkId::main(self.seat), line: message.to_line().into() }
    }

    fn is_answer(&self) -> bool {
        matches!(self.message, Message::Response { .. })
    }

    fn is_cancel(&self) -> bool {
        matches!(&self.message, Message::Notification(call) if call.is(acp_wire::acp::CANCEL_REQUEST))
    }

    fn is_notification(&self) -> bool {
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

    /// Changes a number as parsing and writing a payload does.
    fn reencode(&mut self) {
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

impl Interceptor for FaultInjector {
    fn before(&mut self, input: Input) -> Vec<Input> {
        self.input = Some(input.clone());
        let Input::Line { link, line: Line::Text(line) } = &input else { return vec![input] };
        let is_answer = RoutedMessage::decode(link.seat, line).is_some_and(|it| it.is_answer());
        let fault = self.fault;
        match fault {
            Fault::IgnoreAnswer if is_answer && self.is_due() => Vec::new(),
            Fault::FinishWithoutReason if link.seat.is_component() && self.is_due() => vec![
                Input::OutputClosed { link: *link, rest: None },
                Input::Exited { seat: link.seat, incarnation: 0, how: ExitCause::Status(0) },
            ],
            _ => vec![input],
        }
    }

    fn after(&mut self, effects: &mut Vec<Effect>) {
        match self.fault {
            Fault::IgnoreAnswer | Fault::FinishWithoutReason => {}
            Fault::DropAnswer => self.drop_one(effects, RoutedMessage::is_answer),
            Fault::WrongRequester => {
                let last = self.last;
                self.change_one(effects, RoutedMessage::is_answer, |routed| {
                    let to = routed.seat;
                    routed.seat = if to.0 > 0 { Seat(to.0 - 1) } else { last };
                });
            }
            Fault::WrongId => self.change_one(effects, RoutedMessage::is_answer, |routed| {
                if let Message::Response { id, .. } = &mut routed.message {
                    *id = Id::string("c:1");
                }
            }),
            Fault::Overtake => self.overtake(effects),
            Fault::Duplicate => self.repeat_one(effects, RoutedMessage::is_call),
            Fault::DropNotification => self.drop_one(effects, RoutedMessage::is_notification),
            Fault::ForgetCrash => {
                if let Some(Input::Exited { .. }) = &self.input {
                    effects.retain(|effect| match effect {
                        Effect::Line { to, line } => {
                            !RoutedMessage::decode(to.seat, line).is_some_and(|it| it.is_answer())
                        }
                        Effect::Output(_) => true,
                    });
                }
            }
            Fault::CancelWrongId => self.change_one(effects, RoutedMessage::is_cancel, |routed| {
                if let Some(call) = routed.call_mut() {
                    let wrong = Json::trusted("\"c:1\"");
                    let params = call.params.take().unwrap_or(Json::NULL);
                    call.params = Some(params.with_member("requestId", &wrong));
                }
            }),
            Fault::CancelTwice => self.repeat_one(effects, RoutedMessage::is_cancel),
            Fault::DropCancel => self.drop_one(effects, RoutedMessage::is_cancel),
            Fault::SendBeforeInitialize => self.deliver_anyway(effects, "is not initialized yet"),
            Fault::SendAfterExit => {
                for reason in ["ended with", "was killed", "closed its"] {
                    self.deliver_anyway(effects, reason);
                }
            }
            Fault::ReencodePayload => {
                self.change_one(effects, RoutedMessage::has_fraction, RoutedMessage::reencode);
            }
            Fault::WrongSide => {
                let (mode, last) = (self.mode, self.last);
                let both = |seat| match mode {
                    Mode::Agent => seat != Seat::OUTER && seat != last,
                    Mode::Proxy => true,
                };
                let matches = |it: &RoutedMessage| it.is_call() && both(it.seat);
                self.change_one(effects, matches, |it| it.wrapped = !it.wrapped);
            }
            Fault::SkipSeat => self.skip_seat(effects),
            Fault::StartTwice => {
                let again = match &self.input {
                    Some(Input::Line {
                        link: LinkId { seat: Seat::OUTER, .. },
                        line: Line::Text(it),
                    }) => {
                        Message::parse(it).is_ok_and(|it| it.label().ends_with("initialize"))
                            && !effects.iter().any(is_start)
                    }
                    _ => false,
                };
                if again && !effects.is_empty() && self.last.is_component() {
                    let start = Output::Start { seat: self.last, incarnation: 0 };
                    effects.insert(0, Effect::Output(start));
                }
            }
            Fault::SendAfterFinish => {
                if effects.iter().any(|it| matches!(it, Effect::Output(Output::Finish(_)))) {
                    let message = Message::notification("too/late", Json::NULL);
                    let routed = RoutedMessage { seat: Seat::OUTER, wrapped: false, message };
                    effects.push(routed.encode());
                }
            }
        }
    }
}

impl FaultInjector {
    fn skip_seat(&mut self, effects: &mut [Effect]) {
        let Some(at) = self.pick(effects, RoutedMessage::is_call) else { return };
        let Effect::Line { to, line } = &effects[at] else { return };
        let Some(mut routed) = RoutedMessage::decode(to.seat, line) else { return };
        let Some(toward) = self.toward(&routed) else { return };
        let next = match toward {
            Side::Agent => Seat(to.seat.0 + 1).min(self.last),
            Side::Editor => Seat(to.seat.0.saturating_sub(1)),
        };
        self.redirect(&mut routed, next, toward);
        effects[at] = routed.encode();
    }
}

fn is_start(effect: &Effect) -> bool {
    matches!(effect, Effect::Output(Output::Start { .. }))
}
