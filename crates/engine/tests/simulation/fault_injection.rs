//! Injects faults: each is a mistake that the core could make. Most are injected into the outputs of the stages. The last
//! few concern links and processes, and are injected into the outputs of the core.

use acp_wire::{Call, Json, Message, Outcome, Side};
use engine::{FaultInjector, Output, StageInput, StageOutput, Stages};
use router::{Ending, ExitCause, Seat, SeatState};

use crate::outbox::{is_mcp, payload_of, serial, text};

/// A mistake of the core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// An answer is delivered twice.
    AnswerTwice,
    /// Requests to a failed component are not answered.
    ForgetOwed,
    /// An answer is lost, so that its request stays open.
    LoseAnswer,
    /// Held messages are delivered in reverse order.
    HeldReversed,
    /// A held message is lost.
    LoseHeld,
    /// A component gets messages before its replay.
    ReleaseBeforeReplay,
    /// Only the first session is replayed.
    SkipSecondReplay,
    /// An answer does not wait for a barrier.
    NoBarrier,
    /// An update that is routed past a component is overtaken by later messages.
    SkippedLate,
    /// An update that a component cannot read is not routed past it.
    NotSkipped,
    /// The `initialize` of a restarted component is forwarded.
    ForwardInitialize,
    /// The history that an agent sends again is forwarded.
    HistoryForwarded,
    /// A restarted agent gets `session/new` instead of `session/load`.
    NewForLoad,
    /// A message is routed past a guard that is down.
    GuardSkipped,
    /// A prompt whose requester is gone is not cancelled.
    OrphanNotCancelled,
    /// An orphaned session is not closed.
    OrphanNotClosed,
    /// A request that was answered with an error is answered again after the restart.
    LateAnswer,
    /// A component is started while its last process runs.
    StartTwice,
    /// A failed component is not restarted.
    NeverStarted,
    /// A message is delivered twice.
    Duplicate,
    /// Two messages for a component are swapped.
    Overtake,
    /// A notification is not forwarded.
    DropNotification,
    /// A payload is parsed and formatted again.
    Reformat,
    /// The chain ends without a reason.
    EndWithoutReason,
    /// A component that does not respond is not noticed.
    NoTimeouts,
    /// A tool is called twice.
    ToolTwice,
    /// The report that an endpoint is open is lost.
    LoseEndpoint,
    /// A paused link is never resumed.
    NotResumed,
    /// A component that is considered stuck is not killed.
    NotKilled,
    /// The first part of a line for the last process is written to the next one.
    OldBytes,
}

impl Fault {
    pub const ALL: [Fault; 30] = [
        Fault::AnswerTwice,
        Fault::ForgetOwed,
        Fault::LoseAnswer,
        Fault::HeldReversed,
        Fault::LoseHeld,
        Fault::ReleaseBeforeReplay,
        Fault::SkipSecondReplay,
        Fault::NoBarrier,
        Fault::SkippedLate,
        Fault::NotSkipped,
        Fault::ForwardInitialize,
        Fault::HistoryForwarded,
        Fault::NewForLoad,
        Fault::GuardSkipped,
        Fault::OrphanNotCancelled,
        Fault::OrphanNotClosed,
        Fault::LateAnswer,
        Fault::StartTwice,
        Fault::NeverStarted,
        Fault::Duplicate,
        Fault::Overtake,
        Fault::DropNotification,
        Fault::Reformat,
        Fault::EndWithoutReason,
        Fault::NoTimeouts,
        Fault::ToolTwice,
        Fault::LoseEndpoint,
        Fault::NotResumed,
        Fault::NotKilled,
        Fault::OldBytes,
    ];
}

/// Injects a fault wherever it applies.
#[derive(Debug)]
pub struct Injector {
    fault: Fault,
    /// The last input of the stages.
    input: Option<StageInput>,
    /// The output that replaces those of the stages.
    replacement: Option<StageOutput>,
    /// The answers with an error.
    errors: Vec<StageOutput>,
    /// Outputs that are held back.
    held: Vec<StageOutput>,
    /// How many requests of a replay were sent.
    replayed: usize,
}

impl Injector {
    pub fn new(fault: Fault) -> Injector {
        Injector {
            fault,
            input: None,
            replacement: None,
            errors: Vec::new(),
            held: Vec::new(),
            replayed: 0,
        }
    }

    pub fn fault(&self) -> Fault {
        self.fault
    }
}

impl FaultInjector for Injector {
    fn before(&mut self, input: StageInput, stages: &Stages) -> Option<StageInput> {
        self.input = Some(input.clone());
        if self.fault == Fault::LoseEndpoint && matches!(input, StageInput::EndpointOpened { .. }) {
            return None;
        }
        if self.fault == Fault::NoTimeouts
            && matches!(&input, StageInput::Ended { exit, .. } if is_timeout(&exit.cause))
        {
            return None;
        }
        let StageInput::Arrived { from, toward, message } = &input else { return Some(input) };
        let replacement = match (self.fault, message) {
            (Fault::LoseAnswer, Message::Response { id, .. })
                if stages
                    .router()
                    .request(id)
                    .is_some_and(|it| it.requester != Seat::CONDUCTOR) =>
            {
                None
            }
            (Fault::ForwardInitialize, Message::Request { call, .. })
                if is_down(stages, *from) && call.is("initialize") =>
            {
                Some((Seat(from.0 + 1), Side::Agent))
            }
            (Fault::HistoryForwarded, Message::Notification(call))
                if call.params.as_ref().is_some_and(|it| it.member("secret").is_some()) =>
            {
                Some((Seat(from.0 - 1), Side::Editor))
            }
            (Fault::GuardSkipped, Message::Request { call, .. })
                if call.is("session/prompt")
                    && *toward == Side::Agent
                    && is_down(stages, Seat(from.0 + 1))
                    && is_guard(stages, Seat(from.0 + 1)) =>
            {
                Some((Seat(from.0 + 2), Side::Agent))
            }
            _ => return Some(input),
        };
        self.replacement = replacement
            .filter(|(to, _)| to.index() <= stages.router().chain().components.len())
            .map(|(to, toward)| StageOutput::Deliver { to, toward, message: message.clone() });
        None
    }

    fn after(&mut self, outputs: &mut Vec<StageOutput>, stages: &Stages) -> Vec<StageInput> {
        let mut inputs = Vec::new();
        outputs.extend(self.replacement.take());
        let ended = matches!(self.input, Some(StageInput::Ended { .. }));
        let resumed = outputs.iter().any(
            |output| matches!(output, StageOutput::Output(Output::Report(it)) if it.text.ends_with("is running again")),
        );
        match self.fault {
            Fault::AnswerTwice => repeat(outputs, |it| matches!(it, Message::Response { .. })),
            Fault::Duplicate => repeat(outputs, is_participant_call),
            Fault::ToolTwice => repeat(outputs, is_tool_call),
            Fault::ForgetOwed if ended => outputs.retain(|output| !is(output, is_conductor_error)),
            Fault::HeldReversed if resumed => {
                let at: Vec<usize> = (0..outputs.len())
                    .filter(|at| is(&outputs[*at], is_participant_call))
                    .collect();
                for pair in 0..at.len() / 2 {
                    outputs.swap(at[pair], at[at.len() - 1 - pair]);
                }
            }
            Fault::LoseHeld if resumed => {
                if let Some(at) = outputs.iter().position(|output| is(output, is_participant_call))
                {
                    outputs.remove(at);
                }
            }
            Fault::ReleaseBeforeReplay => self.skip_replay(0, outputs, &mut inputs),
            Fault::SkipSecondReplay => self.skip_replay(1, outputs, &mut inputs),
            Fault::NoBarrier => {
                for output in outputs.extract_if(.., |output| is(output, is_barrier)) {
                    inputs.extend(empty_answer(&output));
                }
            }
            Fault::SkippedLate => {
                let to_editor =
                    |it: &StageOutput| matches!(it, StageOutput::Deliver { to: Seat::OUTER, .. });
                let late = |it: &mut StageOutput| to_editor(it) && is(it, is_usage);
                let delayed: Vec<StageOutput> = outputs.extract_if(.., late).collect();
                if outputs.iter().any(to_editor) {
                    outputs.append(&mut self.held);
                }
                self.held.extend(delayed);
            }
            Fault::NotSkipped => {
                // Replaces the barrier.
                if let Some(StageInput::Arrived { message, .. }) = self.input.clone()
                    && is_usage(&message)
                {
                    for output in outputs.iter_mut().filter(|it| is(it, is_barrier)) {
                        if let StageOutput::Deliver { message: it, .. } = output {
                            *it = message.clone();
                        }
                    }
                }
            }
            Fault::NewForLoad => {
                for output in outputs.iter_mut() {
                    if let StageOutput::Deliver { message: Message::Request { call, .. }, .. } =
                        output
                        && (call.is("session/load") || call.is("session/resume"))
                    {
                        *call = Call { method: "session/new".into(), ..call.clone() };
                    }
                }
            }
            Fault::OrphanNotCancelled if ended => outputs.retain(|output| {
                !is(output, |message| match message {
                    Message::Notification(call) => {
                        (call.is("session/cancel") || call.is("$/cancel_request"))
                            && call.params.as_ref().and_then(serial).is_none()
                    }
                    _ => false,
                })
            }),
            Fault::OrphanNotClosed => {
                let closes = |message: &Message| match message {
                    Message::Request { id, call } => {
                        call.is("session/close") && id.text().is_some_and(|id| id.starts_with("r:"))
                    }
                    _ => false,
                };
                for output in outputs.extract_if(.., |output| is(output, closes)) {
                    let _ = output;
                }
            }
            Fault::LateAnswer => {
                if outputs.iter().any(|output| matches!(output, StageOutput::Start(_))) {
                    outputs.append(&mut self.errors);
                }
                if ended {
                    self.errors
                        .extend(outputs.iter().filter(|it| is(it, is_conductor_error)).cloned());
                }
            }
            Fault::StartTwice => {
                if let Some(start) =
                    outputs.iter().find(|output| matches!(output, StageOutput::Start(_))).cloned()
                {
                    outputs.push(start);
                }
            }
            Fault::NeverStarted if !matches!(self.input, Some(StageInput::Arrived { .. })) => {
                outputs.retain(|output| !matches!(output, StageOutput::Start(_)));
            }
            Fault::Overtake => {
                let at = (1..outputs.len()).find(|at| match (&outputs[at - 1], &outputs[*at]) {
                    (
                        StageOutput::Deliver { to: one, .. },
                        StageOutput::Deliver { to: two, .. },
                    ) => {
                        one == two
                            && is(&outputs[at - 1], is_participant_call)
                            && is(&outputs[*at], is_participant_call)
                    }
                    _ => false,
                });
                at.into_iter().for_each(|at| outputs.swap(at - 1, at));
            }
            Fault::DropNotification => {
                outputs.retain(|output| {
                    !is(output, |it| {
                        matches!(it, Message::Notification(_)) && is_participant_call(it)
                    })
                });
            }
            Fault::Reformat => {
                for output in outputs.iter_mut() {
                    if let StageOutput::Deliver { message: Message::Request { call, .. }, .. } =
                        output
                        && let Some(params) = &mut call.params
                    {
                        *params = Json::trusted(params.as_str().replace("1.10", "1.1"));
                    }
                }
            }
            Fault::EndWithoutReason if ended && !stages.router().is_ending() => {
                outputs.push(StageOutput::Finish(Ending::Clean));
            }
            _ => {}
        }
        inputs
    }
}

impl Injector {
    /// Drops the requests of a replay after the first `from`, and answers them.
    fn skip_replay(
        &mut self,
        from: usize,
        outputs: &mut Vec<StageOutput>,
        inputs: &mut Vec<StageInput>,
    ) {
        if outputs.iter().any(|output| matches!(output, StageOutput::Start(_))) {
            self.replayed = 0;
        }
        let is_replay = |message: &Message| match message {
            Message::Request { id, call } => {
                id.text().is_some_and(|id| id.starts_with("r:")) && !call.is("session/close")
            }
            _ => false,
        };
        let mut index = 0;
        while index < outputs.len() {
            if !is(&outputs[index], is_replay) {
                index += 1;
                continue;
            }
            self.replayed += 1;
            if self.replayed > from {
                inputs.extend(empty_answer(&outputs.remove(index)));
            } else {
                index += 1;
            }
        }
    }
}

fn is(output: &StageOutput, test: impl Fn(&Message) -> bool) -> bool {
    matches!(output, StageOutput::Deliver { message, .. } if test(message))
}

fn repeat(outputs: &mut Vec<StageOutput>, test: impl Fn(&Message) -> bool) {
    if let Some(at) = outputs.iter().position(|output| is(output, &test)) {
        outputs.insert(at, outputs[at].clone());
    }
}

/// Whether this is a request or notification of a participant.
fn is_participant_call(message: &Message) -> bool {
    !matches!(message, Message::Response { .. }) && payload_of(message).and_then(serial).is_some()
}

fn is_barrier(message: &Message) -> bool {
    matches!(message, Message::Request { call, .. } if call.is("_conductor/barrier"))
}

/// Whether this is an update that proxies of older generations cannot read.
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

/// Whether this is an error from the conductor itself.
fn is_conductor_error(message: &Message) -> bool {
    matches!(message, Message::Response { outcome: Outcome::Error(error), .. } if serial(error).is_none())
}

/// An empty result as the answer to a request.
fn empty_answer(output: &StageOutput) -> Option<StageInput> {
    let StageOutput::Deliver { to, message: Message::Request { id, .. }, .. } = output else {
        return None;
    };
    let message = Message::response(id.clone(), Outcome::Result(Json::EMPTY_OBJECT));
    Some(StageInput::Arrived { from: *to, toward: Side::Editor, message })
}

fn is_down(stages: &Stages, seat: Seat) -> bool {
    stages.router().state(seat).is_some_and(SeatState::is_recovering)
}

fn is_guard(stages: &Stages, seat: Seat) -> bool {
    stages.router().chain().component(seat).is_some_and(|it| it.guard)
}

impl Fault {
    /// Whether this fault drops an output of the core.
    pub fn drops(self, output: &Output) -> bool {
        match self {
            Fault::NotResumed => matches!(output, Output::Read { read: true, .. }),
            Fault::NotKilled => matches!(output, Output::Discard(_)),
            _ => false,
        }
    }
}

/// Whether a component has exceeded a timeout.
fn is_timeout(how: &ExitCause) -> bool {
    matches!(
        how,
        ExitCause::InitializeTimeout(_)
            | ExitCause::Unresponsive { .. }
            | ExitCause::Uncancellable { .. }
    )
}
