//! The stage *scp*: panels and comments of components, which a person uses in the editor.
//!
//! A component chooses the id of a panel, and two components may choose the same one. Inside the chain an id has a mark
//! with its owner (`acp_wire::scp`). The mark is added where the owner sends the id, and removed where the owner gets it.
//! So the stage needs no table for this, and a restarted component still owns its ids. Only the outer peer gets ids
//! without marks, as far as they do not conflict (`outer_ids`).
//!
//! | message | from | the id |
//! |---|---|---|
//! | toward the editor | its owner | gets the mark |
//! | toward the editor | a component that passes it on | has the mark and keeps it |
//! | toward the agent | the outer peer | gets the mark of its owner again |
//! | toward the agent | a component before the owner | has the mark and keeps it |
//! | toward the agent | any other component | the message is stray |
//!
//! A message toward the agent is also stray if the router has taken it past its owner. A stray notification is dropped, and a
//! stray request is answered with an error. No other component may take it for one about its own panel.

mod outer_ids;

use acp_wire::scp::{self, Action, Kind, Marks};
use acp_wire::{Call, ErrorKind, Id, Json, Message, Side, code};
use router::{Diagnostic, Level, Mode, Seat};

use super::{Hop, Stage, StageResult, Stages};
use crate::input::Output;
use outer_ids::{Leaving, OuterIds};

/// The owners of panels and comments.
#[derive(Debug)]
pub(super) struct Scp {
    marks: Marks,
    outer_ids: OuterIds,
}

/// A message about a panel or a comment.
struct Subject {
    kind: Kind,
    action: Action,
    /// Its id.
    id: Json,
}

impl Subject {
    /// Reads a message. `None` for all other messages, and for one without a valid id.
    fn of(toward: Side, call: &Call) -> Option<Subject> {
        let (kind, action) = scp::classify(toward, call)?;
        Some(Subject { kind, action, id: scp::id(call)? })
    }
}

/// What happens to the id of a message.
enum Decision {
    /// It stays.
    Keep,
    /// It is replaced.
    Replace(Json),
    /// The message must not travel on.
    Stray,
}

impl Scp {
    /// `seed` is the number that identifies the chain.
    pub(super) fn new(seed: u64) -> Scp {
        Scp { marks: Marks::new(seed), outer_ids: OuterIds::default() }
    }
}

/// The call of a message, and its id if it is a request.
fn parts(message: &Message) -> Option<(Option<&Id>, &Call)> {
    match message {
        Message::Request { id, call } => Some((Some(id), call)),
        Message::Notification(call) => Some((None, call)),
        Message::Response { .. } => None,
    }
}

fn replace_id(message: &mut Message, new: &Json) {
    if let Message::Request { call, .. } | Message::Notification(call) = message {
        scp::set_id(call, new);
    }
}

impl Stages {
    /// Handles a message from a peer.
    pub(super) fn scp_arrived(&mut self, hop: Hop, message: &mut Message) -> StageResult {
        let Some((_, call)) = parts(message) else {
            if let (Seat::OUTER, Message::Response { id, .. }) = (hop.seat, &*message) {
                self.scp.outer_ids.answered(id);
            }
            return StageResult::Pass;
        };
        let Some(subject) = Subject::of(hop.toward, call) else { return StageResult::Pass };
        let decision = match hop.toward {
            Side::Editor => self.arrived_toward_editor(hop.seat, &subject),
            Side::Agent => self.arrived_toward_agent(hop.seat, &subject),
        };
        match decision {
            Decision::Keep => StageResult::Pass,
            Decision::Replace(id) => {
                replace_id(message, &id);
                StageResult::Pass
            }
            Decision::Stray => {
                self.refuse_stray(hop, message);
                StageResult::Taken
            }
        }
    }

    fn arrived_toward_editor(&self, from: Seat, subject: &Subject) -> Decision {
        // A component sees only the marks of components behind it. Any other mark belongs to an id that it has chosen.
        let chain = self.router.chain();
        let passes_on =
            |owner| owner == Seat::OUTER || chain.position(owner) >= chain.position(from);
        match self.marked_owner(&subject.id) {
            Some((owner, _)) if from.is_component() && passes_on(owner) => Decision::Keep,
            _ => Decision::Replace(self.scp.marks.add(from.0, &subject.id)),
        }
    }

    fn arrived_toward_agent(&self, from: Seat, subject: &Subject) -> Decision {
        let chain = self.router.chain();
        let is_ahead = |owner| {
            from == Seat::OUTER
                || owner == Seat::OUTER
                || chain.position(owner) > chain.position(from)
        };
        match self.marked_owner(&subject.id) {
            Some((owner, _)) if is_ahead(owner) => return Decision::Keep,
            _ if from.is_component() => return Decision::Stray,
            _ => {}
        }
        if self.scp.marks.split(&subject.id).is_some() {
            // The owner has left the chain. A component behind the chain has no ids with marks of this chain.
            return Decision::Stray;
        }
        let text = subject.id.text().unwrap_or_default();
        let owner = self.scp.outer_ids.owner(subject.kind, &text);
        // In proxy mode, an id that no component of this chain has shown belongs to a component behind it.
        let behind = (chain.mode == Mode::Proxy).then_some(Seat::OUTER);
        match owner.or(behind) {
            // A component that a reload has removed still owns the panels that it has shown.
            Some(owner) if self.is_owner(owner) => {
                Decision::Replace(self.scp.marks.add(owner.0, &subject.id))
            }
            _ => Decision::Stray,
        }
    }

    /// Handles a message to a peer.
    pub(super) fn scp_delivered(&mut self, hop: Hop, message: &mut Message) -> StageResult {
        // Between two components, the ids toward the editor keep their marks.
        if hop.toward == Side::Editor && hop.seat.is_component() {
            return StageResult::Pass;
        }
        let Some((request, call)) = parts(message) else { return StageResult::Pass };
        let Some(subject) = Subject::of(hop.toward, call) else { return StageResult::Pass };
        let Some((owner, id)) = self.marked_owner(&subject.id) else { return StageResult::Pass };
        let decision = match hop.toward {
            Side::Editor => {
                let text = id.text().unwrap_or_default();
                let (kind, action) = (subject.kind, subject.action);
                let leaving = Leaving { owner, kind, action, id: &text, request };
                // An id that looks like one with a mark must not be taken for that one.
                let is_plain = self.scp.marks.split(&id).is_none()
                    && self.scp.outer_ids.leaves_plain(self.cx.now, leaving);
                if is_plain { Decision::Replace(id) } else { Decision::Keep }
            }
            Side::Agent if owner == hop.seat => Decision::Replace(id),
            Side::Agent if owner == Seat::OUTER => Decision::Keep,
            Side::Agent if hop.seat == Seat::OUTER || self.is_before(owner, hop.seat) => {
                Decision::Stray
            }
            Side::Agent => Decision::Keep,
        };
        match decision {
            Decision::Keep => StageResult::Pass,
            Decision::Replace(id) => {
                replace_id(message, &id);
                StageResult::Pass
            }
            Decision::Stray => {
                self.refuse_past_owner(hop, owner, message);
                StageResult::Taken
            }
        }
    }

    /// The owner in the mark of an id, and the id without the mark. `None` if the id has no mark of this chain.
    fn marked_owner(&self, id: &Json) -> Option<(Seat, Json)> {
        let (owner, id) = self.scp.marks.split(id)?;
        self.is_owner(Seat(owner)).then_some((Seat(owner), id))
    }

    /// Whether panels and comments can belong to this peer. After a reload, a component may not be in the chain any more.
    fn is_owner(&self, seat: Seat) -> bool {
        let chain = self.router.chain();
        match seat {
            Seat::OUTER => chain.mode == Mode::Proxy,
            seat => chain.contains(seat),
        }
    }

    /// Whether a component is nearer to the editor than another one.
    fn is_before(&self, one: Seat, other: Seat) -> bool {
        let chain = self.router.chain();
        chain.position(one) < chain.position(other)
    }

    /// Refuses a message whose id belongs to no component behind its sender.
    fn refuse_stray(&mut self, Hop { seat, toward }: Hop, message: &Message) {
        let Some((request, call)) = parts(message) else { return };
        let sender = self.router.chain().describe(seat);
        let why = format!("the id does not belong to a component behind {sender}");
        if let Some(id) = request {
            let answer = Message::response(id.clone(), no_owner(call, &why));
            return self.send_from(Stage::Scp, Hop { seat, toward: toward.opposite() }, answer);
        }
        let text = format!("notification {:?} dropped: {why}", call.method);
        // The panel may have been cleared a moment ago, so this is not a mistake of the editor.
        let level = if seat == Seat::OUTER { Level::Debug } else { Level::Warn };
        self.cx.push(Output::Report(Diagnostic { level, seat, text }));
    }

    /// Refuses a message that the router has taken past the owner of its id.
    fn refuse_past_owner(&mut self, Hop { seat, toward }: Hop, owner: Seat, message: &Message) {
        let Some((request, call)) = parts(message) else { return };
        let name = self.router.chain().describe(owner);
        let why = format!("{name} owns the id, and the message was routed around it");
        match request {
            Some(id) => {
                let answer = Message::response(id.clone(), no_owner(call, &why));
                // The router waits for an answer of the receiver.
                self.inject(Stage::Scp, Hop { seat, toward: toward.opposite() }, answer);
            }
            None => self.warn(owner, format!("notification {:?} dropped: {why}", call.method)),
        }
    }
}

fn no_owner(call: &Call, why: &str) -> acp_wire::Outcome {
    let text = format!("{:?} has no receiver: {why}", call.method);
    ErrorKind::NoReceiver.outcome(code::INVALID_PARAMS, &text)
}
