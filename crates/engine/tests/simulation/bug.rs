//! Faults to plant: each is a mistake that the core could make. Most are planted in its decisions; the last few,
//! which are about links and processes, in its outputs.

use acp_wire::{Call, Json, Message, Outcome, Side};
use engine::{FaultInjector, Output, StageInput, StageOutput, Stages};
use router::{Ending, ExitCause, Seat, SeatState};

use crate::pen::{is_mcp, payload_of, serial, text};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// An answer is delivered twice.
    AnswerTwice,
    /// Those who wait for a dead component are not told.
    ForgetOwed,
    /// An answer does not arrive, so that its question stays open.
    LoseAnswer,
    /// What has waited for a component is delivered in reverse.
    HeldReversed,
    /// Something that has waited for a component is lost.
    LoseHeld,
    /// A component is spoken to before it was told of its sessions.
    ReleaseBeforeReplay,
    /// It is told of its first session only.
    SkipSecondReplay,
    /// An answer does not wait for what was said before to come through.
    NoBarrier,
    /// An update that goes around a component is overtaken by what follows it.
    AroundLate,
    /// An update that a component cannot read goes through it.
    NotAround,
    /// The `initialize` of one who has returned is passed on.
    ForwardInitialize,
    /// What an agent repeats is passed on.
    HistoryPassed,
    /// An agent is asked for a new session in place of the one it had.
    NewForLoad,
    /// What a guard should have seen passes while it is away.
    GuardPassed,
    /// A prompt that nobody waits for is not called off.
    OrphanGoesOn,
    /// A session that nobody has is not closed.
    OrphanStays,
    /// What was answered with an error is answered again when the next life begins.
    LateAnswer,
    /// A component is started while the last one is there.
    StartTwice,
    /// A component is not started again.
    NeverStarted,
    /// A message is delivered twice.
    Duplicate,
    /// Two messages for a component change places.
    Overtake,
    /// A notification is not passed on.
    DropNote,
    /// A payload is read and written again.
    Respell,
    /// The chain ends although it need not.
    EndForNothing,
    /// Who is silent is not found out.
    Blind,
    /// A tool is called twice.
    ToolTwice,
    /// It is not noticed that a place for MCP clients is open.
    LosePlace,
    /// A peer that is not read for a while is never read again.
    NotResumed,
    /// A component that is given up goes on running.
    NotEnded,
    /// The first part of a line for a component that has ended is written to the next one.
    OldBytes,
}

impl Bug {
    pub const ALL: [Bug; 30] = [
        Bug::AnswerTwice,
        Bug::ForgetOwed,
        Bug::LoseAnswer,
        Bug::HeldReversed,
        Bug::LoseHeld,
        Bug::ReleaseBeforeReplay,
        Bug::SkipSecondReplay,
        Bug::NoBarrier,
        Bug::AroundLate,
        Bug::NotAround,
        Bug::ForwardInitialize,
        Bug::HistoryPassed,
        Bug::NewForLoad,
        Bug::GuardPassed,
        Bug::OrphanGoesOn,
        Bug::OrphanStays,
        Bug::LateAnswer,
        Bug::StartTwice,
        Bug::NeverStarted,
        Bug::Duplicate,
        Bug::Overtake,
        Bug::DropNote,
        Bug::Respell,
        Bug::EndForNothing,
        Bug::Blind,
        Bug::ToolTwice,
        Bug::LosePlace,
        Bug::NotResumed,
        Bug::NotEnded,
        Bug::OldBytes,
    ];
}

/// Plants a bug wherever there is an occasion.
#[derive(Debug)]
pub struct Saboteur {
    bug: Bug,
    event: Option<StageInput>,
    /// What is done in place of what the stages would have done.
    instead: Option<StageOutput>,
    /// What was answered with an error.
    refused: Vec<StageOutput>,
    /// What is kept back until something else is done.
    kept: Vec<StageOutput>,
    lessons: usize,
}

impl Saboteur {
    pub fn new(bug: Bug) -> Saboteur {
        Saboteur {
            bug,
            event: None,
            instead: None,
            refused: Vec::new(),
            kept: Vec::new(),
            lessons: 0,
        }
    }

    pub fn bug(&self) -> Bug {
        self.bug
    }
}

impl FaultInjector for Saboteur {
    fn before(&mut self, event: StageInput, stages: &Stages) -> Option<StageInput> {
        self.event = Some(event.clone());
        if self.bug == Bug::LosePlace && matches!(event, StageInput::EndpointOpened { .. }) {
            return None;
        }
        if self.bug == Bug::Blind
            && matches!(&event, StageInput::Left { why, .. } if is_silence(&why.cause))
        {
            return None;
        }
        let StageInput::Arrived { from, toward, message } = &event else { return Some(event) };
        let instead = match (self.bug, message) {
            (Bug::LoseAnswer, Message::Response { id, .. })
                if stages
                    .router()
                    .request(id)
                    .is_some_and(|it| it.requester != Seat::CONDUCTOR) =>
            {
                None
            }
            (Bug::ForwardInitialize, Message::Request { call, .. })
                if is_away(stages, *from) && call.is("initialize") =>
            {
                Some((Seat(from.0 + 1), Side::Agent))
            }
            (Bug::HistoryPassed, Message::Notification(call))
                if call.params.as_ref().is_some_and(|it| it.member("secret").is_some()) =>
            {
                Some((Seat(from.0 - 1), Side::Editor))
            }
            (Bug::GuardPassed, Message::Request { call, .. })
                if call.is("session/prompt")
                    && *toward == Side::Agent
                    && is_away(stages, Seat(from.0 + 1))
                    && is_guard(stages, Seat(from.0 + 1)) =>
            {
                Some((Seat(from.0 + 2), Side::Agent))
            }
            _ => return Some(event),
        };
        self.instead = instead
            .filter(|(to, _)| to.index() <= stages.router().chain().components.len())
            .map(|(to, toward)| StageOutput::Deliver { to, toward, message: message.clone() });
        None
    }

    fn after(&mut self, actions: &mut Vec<StageOutput>, stages: &Stages) -> Vec<StageInput> {
        let mut events = Vec::new();
        actions.extend(self.instead.take());
        let left = matches!(self.event, Some(StageInput::Left { .. }));
        let resumed = actions.iter().any(
            |action| matches!(action, StageOutput::Output(Output::Report(it)) if it.text.ends_with("is running again")),
        );
        match self.bug {
            Bug::AnswerTwice => repeat(actions, |it| matches!(it, Message::Response { .. })),
            Bug::Duplicate => repeat(actions, numbered_call),
            Bug::ToolTwice => repeat(actions, is_tool_call),
            Bug::ForgetOwed if left => actions.retain(|action| !is(action, is_refusal)),
            Bug::HeldReversed if resumed => {
                let at: Vec<usize> =
                    (0..actions.len()).filter(|at| is(&actions[*at], numbered_call)).collect();
                for pair in 0..at.len() / 2 {
                    actions.swap(at[pair], at[at.len() - 1 - pair]);
                }
            }
            Bug::LoseHeld if resumed => {
                if let Some(at) = actions.iter().position(|action| is(action, numbered_call)) {
                    actions.remove(at);
                }
            }
            Bug::ReleaseBeforeReplay => self.skip_lessons(0, actions, &mut events),
            Bug::SkipSecondReplay => self.skip_lessons(1, actions, &mut events),
            Bug::NoBarrier => {
                for action in actions.extract_if(.., |action| is(action, is_barrier)) {
                    events.extend(good_answer(&action));
                }
            }
            Bug::AroundLate => {
                let to_editor =
                    |it: &StageOutput| matches!(it, StageOutput::Deliver { to: Seat::OUTER, .. });
                let late = |it: &mut StageOutput| to_editor(it) && is(it, is_usage);
                let kept: Vec<StageOutput> = actions.extract_if(.., late).collect();
                if actions.iter().any(to_editor) {
                    actions.append(&mut self.kept);
                }
                self.kept.extend(kept);
            }
            Bug::NotAround => {
                // In place of the barrier.
                if let Some(StageInput::Arrived { message, .. }) = self.event.clone()
                    && is_usage(&message)
                {
                    for action in actions.iter_mut().filter(|it| is(it, is_barrier)) {
                        if let StageOutput::Deliver { message: it, .. } = action {
                            *it = message.clone();
                        }
                    }
                }
            }
            Bug::NewForLoad => {
                for action in actions.iter_mut() {
                    if let StageOutput::Deliver { message: Message::Request { call, .. }, .. } =
                        action
                        && (call.is("session/load") || call.is("session/resume"))
                    {
                        *call = Call { method: "session/new".into(), ..call.clone() };
                    }
                }
            }
            Bug::OrphanGoesOn if left => actions.retain(|action| {
                !is(action, |message| match message {
                    Message::Notification(call) => {
                        (call.is("session/cancel") || call.is("$/cancel_request"))
                            && call.params.as_ref().and_then(serial).is_none()
                    }
                    _ => false,
                })
            }),
            Bug::OrphanStays => {
                let closes = |message: &Message| match message {
                    Message::Request { id, call } => {
                        call.is("session/close") && id.text().is_some_and(|id| id.starts_with("r:"))
                    }
                    _ => false,
                };
                for action in actions.extract_if(.., |action| is(action, closes)) {
                    let _ = action;
                }
            }
            Bug::LateAnswer => {
                if actions.iter().any(|action| matches!(action, StageOutput::Start(_))) {
                    actions.append(&mut self.refused);
                }
                if left {
                    self.refused.extend(actions.iter().filter(|it| is(it, is_refusal)).cloned());
                }
            }
            Bug::StartTwice => {
                if let Some(start) =
                    actions.iter().find(|action| matches!(action, StageOutput::Start(_))).cloned()
                {
                    actions.push(start);
                }
            }
            Bug::NeverStarted if !matches!(self.event, Some(StageInput::Arrived { .. })) => {
                actions.retain(|action| !matches!(action, StageOutput::Start(_)));
            }
            Bug::Overtake => {
                let at = (1..actions.len()).find(|at| match (&actions[at - 1], &actions[*at]) {
                    (
                        StageOutput::Deliver { to: one, .. },
                        StageOutput::Deliver { to: two, .. },
                    ) => {
                        one == two
                            && is(&actions[at - 1], numbered_call)
                            && is(&actions[*at], numbered_call)
                    }
                    _ => false,
                });
                at.into_iter().for_each(|at| actions.swap(at - 1, at));
            }
            Bug::DropNote => {
                actions.retain(|action| {
                    !is(action, |it| matches!(it, Message::Notification(_)) && numbered_call(it))
                });
            }
            Bug::Respell => {
                for action in actions.iter_mut() {
                    if let StageOutput::Deliver { message: Message::Request { call, .. }, .. } =
                        action
                        && let Some(params) = &mut call.params
                    {
                        *params = Json::trusted(params.as_str().replace("1.10", "1.1"));
                    }
                }
            }
            Bug::EndForNothing if left && !stages.router().is_ending() => {
                actions.push(StageOutput::Finish(Ending::Clean));
            }
            _ => {}
        }
        events
    }
}

impl Saboteur {
    /// Lessons after the first so many are not given, but taken for learnt.
    fn skip_lessons(
        &mut self,
        from: usize,
        actions: &mut Vec<StageOutput>,
        events: &mut Vec<StageInput>,
    ) {
        if actions.iter().any(|action| matches!(action, StageOutput::Start(_))) {
            self.lessons = 0;
        }
        let lesson = |message: &Message| match message {
            Message::Request { id, call } => {
                id.text().is_some_and(|id| id.starts_with("r:")) && !call.is("session/close")
            }
            _ => false,
        };
        let mut index = 0;
        while index < actions.len() {
            if !is(&actions[index], lesson) {
                index += 1;
                continue;
            }
            self.lessons += 1;
            if self.lessons > from {
                events.extend(good_answer(&actions.remove(index)));
            } else {
                index += 1;
            }
        }
    }
}

fn is(action: &StageOutput, test: impl Fn(&Message) -> bool) -> bool {
    matches!(action, StageOutput::Deliver { message, .. } if test(message))
}

fn repeat(actions: &mut Vec<StageOutput>, test: impl Fn(&Message) -> bool) {
    if let Some(at) = actions.iter().position(|action| is(action, &test)) {
        actions.insert(at, actions[at].clone());
    }
}

/// A request or notification of a player.
fn numbered_call(message: &Message) -> bool {
    !matches!(message, Message::Response { .. }) && payload_of(message).and_then(serial).is_some()
}

fn is_barrier(message: &Message) -> bool {
    matches!(message, Message::Request { call, .. } if call.is("_conductor/barrier"))
}

/// An update that proxies of older generations cannot read.
fn is_usage(message: &Message) -> bool {
    let payload = payload_of(message);
    payload
        .is_some_and(|it| text(it, &["update", "sessionUpdate"]).as_deref() == Some("usage_update"))
}

fn is_tool_call(message: &Message) -> bool {
    match message {
        Message::Request { call, .. } => {
            is_mcp(&call.method.name())
                && call.params.as_ref().is_some_and(|it| it.as_str().contains("tools/call"))
        }
        _ => false,
    }
}

/// An error in our own words.
fn is_refusal(message: &Message) -> bool {
    matches!(message, Message::Response { outcome: Outcome::Error(error), .. } if serial(error).is_none())
}

fn good_answer(action: &StageOutput) -> Option<StageInput> {
    let StageOutput::Deliver { to, message: Message::Request { id, .. }, .. } = action else {
        return None;
    };
    let message = Message::response(id.clone(), Outcome::Result(Json::EMPTY));
    Some(StageInput::Arrived { from: *to, toward: Side::Editor, message })
}

fn is_away(stages: &Stages, seat: Seat) -> bool {
    stages.router().state(seat).is_some_and(SeatState::is_recovering)
}

fn is_guard(stages: &Stages, seat: Seat) -> bool {
    stages.router().chain().component(seat).is_some_and(|it| it.guard)
}

impl Bug {
    /// The core forgets to say this.
    pub fn drops(self, output: &Output) -> bool {
        match self {
            Bug::NotResumed => matches!(output, Output::Read { read: true, .. }),
            Bug::NotEnded => matches!(output, Output::Discard(_)),
            _ => false,
        }
    }
}

/// A component was given up because it did not do its part in time.
fn is_silence(how: &ExitCause) -> bool {
    matches!(
        how,
        ExitCause::InitializeTimeout(_)
            | ExitCause::Unresponsive { .. }
            | ExitCause::Uncancellable { .. }
    )
}
