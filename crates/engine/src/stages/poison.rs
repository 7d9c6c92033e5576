//! The stage *poison*: finds the kind of message that a component crashes on.
//!
//! The suspects of a crash are the messages that the component was sent and had neither forwarded nor answered. A kind
//! of message that is a suspect of two crashes in a row is *poison*: from then on, the router routes such messages
//! around the component. If both crashes have several suspects in common, as when an agent streams many updates at
//! once, the oldest kind that the component has never handled is the poison. A component reads its messages in
//! order, so it has not read the later ones.

use std::collections::VecDeque;

use acp_wire::{Call, Id, Json, Message, Side, acp};
use router::{Exit, ExitCause, MessageKind, Router, Seat, UpdateFilter};

use super::by_seat::BySeat;
use super::{Hop, StageResult, Stages};
use crate::input::Output;

/// How many unhandled messages are tracked for each component: the oldest ones.
const MAX_PENDING: usize = 32;

/// How many kinds of message are tracked for each component.
const MAX_KINDS: usize = 128;

/// Finds the poison of each component.
#[derive(Debug)]
pub(super) struct PoisonDetector {
    by_seat: BySeat<SeatSuspects>,
}

impl PoisonDetector {
    pub(super) fn new(count: usize) -> PoisonDetector {
        PoisonDetector { by_seat: BySeat::new(count) }
    }

    /// See [`BySeat::fill`].
    pub(super) fn fill(&mut self, count: usize, filled: &[Seat]) {
        self.by_seat.fill(count, filled);
    }

    pub(super) fn arrived(&mut self, hop: Hop, message: &Message) -> StageResult {
        if let Some(suspects) = self.by_seat.get_mut(hop.seat) {
            suspects.arrived(hop.toward, message);
        }
        StageResult::Pass
    }

    pub(super) fn delivered(
        &mut self,
        router: &Router,
        hop: Hop,
        message: &Message,
    ) -> StageResult {
        if router.can_be_skipped(hop.seat)
            && let Some(suspects) = self.by_seat.get_mut(hop.seat)
        {
            suspects.delivered(hop.toward, message);
        }
        StageResult::Pass
    }

    /// Forgets the unhandled messages of a component, so that none of them is a suspect if it ends now.
    pub(crate) fn forget_pending(&mut self, seat: Seat) {
        if let Some(suspects) = self.by_seat.get_mut(seat) {
            suspects.pending.clear();
        }
    }

    /// Handles the end of a component. Returns the kind of message that has turned out to be poison.
    pub(super) fn crashed(&mut self, seat: Seat, why: &Exit) -> Option<MessageKind> {
        self.by_seat.get_mut(seat)?.crashed(why)
    }
}

/// The messages that one component may crash on.
#[derive(Debug, Default)]
struct SeatSuspects {
    /// The kinds of message that the component was sent. A message is looked up here by comparison, so that a stream of
    /// updates allocates nothing.
    known: Vec<KnownKind>,
    /// The messages that it has not handled, oldest first. A request has its id. Of several notifications of one kind,
    /// only the oldest is here.
    pending: VecDeque<(Index, Option<Id>)>,
    /// The suspects of its last crash.
    suspects: Vec<Index>,
}

/// An index into the list of known kinds.
type Index = usize;

/// A kind of message that a component was sent.
#[derive(Debug)]
struct KnownKind {
    kind: MessageKind,
    /// Whether the component has ever handled a message of this kind.
    is_harmless: bool,
    /// The params of the last update of this kind, from the start up to its kind. An update with the same prefix is of
    /// the same kind.
    prefix: Box<[u8]>,
}

/// A longer prefix is not kept.
const MAX_PREFIX: usize = 256;

impl SeatSuspects {
    /// Handles a message to the component.
    fn delivered(&mut self, toward: Side, message: &Message) {
        let (id, call) = match message {
            Message::Request { id, call } => (Some(id), call),
            Message::Notification(call) => (None, call),
            Message::Response { .. } => return,
        };
        if self.pending.len() == MAX_PENDING {
            return;
        }
        let index = match self.find(toward, call) {
            Some(index) => index,
            None if self.known.len() == MAX_KINDS || !can_be_routed_around(call) => return,
            None => {
                let Some(kind) = MessageKind::of(toward, message) else { return };
                self.known.push(KnownKind { kind, is_harmless: false, prefix: Box::default() });
                self.known.len() - 1
            }
        };
        if id.is_some() || !self.pending.iter().any(|(pending, _)| *pending == index) {
            self.pending.push_back((index, id.map(Id::detached)));
        }
    }

    /// Finds the kind of a message in the list of known kinds.
    fn find(&mut self, toward: Side, call: &Call) -> Option<Index> {
        let has_prefix = |known: &KnownKind| {
            let params = call.params.as_ref().map_or(&[][..], Json::as_bytes);
            !known.prefix.is_empty()
                && params.starts_with(&known.prefix)
                && known.kind.toward == toward
                && call.is(&known.kind.method)
        };
        if let Some(index) = self.known.iter().position(has_prefix) {
            return Some(index);
        }
        let update = MessageKind::update_of(call);
        let is_of = |known: &KnownKind| known.kind.matches(toward, call, update.as_ref());
        let index = self.known.iter().position(is_of)?;
        if let (Some(params), Some(update)) = (&call.params, &update) {
            let (text, kind) = (params.as_bytes(), update.as_bytes());
            let end = kind.as_ptr_range().end.addr() - text.as_ptr().addr();
            if end <= MAX_PREFIX {
                self.known[index].prefix = text[..end].into();
            }
        }
        Some(index)
    }

    /// Handles a message from the component. If the component forwards a message, it has handled this message and all
    /// earlier ones.
    fn arrived(&mut self, toward: Side, message: &Message) {
        if self.pending.is_empty() {
            return;
        }
        let handled = match message {
            Message::Response { id, .. } => {
                let at = self.pending.iter().position(|(_, pending)| pending.as_ref() == Some(id));
                at.and_then(|at| self.pending.remove(at)).map(|(index, _)| index)
            }
            Message::Request { call, .. } | Message::Notification(call) => {
                let index = self.find(toward, call);
                let at = self.pending.iter().position(|(pending, _)| Some(*pending) == index);
                at.and_then(|at| self.pending.drain(..=at).next_back()).map(|(index, _)| index)
            }
        };
        if let Some(index) = handled {
            self.known[index].is_harmless = true;
        }
    }

    /// Handles the end of the component. Returns the kind of message that has turned out to be poison.
    fn crashed(&mut self, why: &Exit) -> Option<MessageKind> {
        let pending = std::mem::take(&mut self.pending);
        if !is_crash(&why.cause) {
            return None;
        }
        let mut now: Vec<Index> = Vec::new();
        for (index, _) in pending {
            if !now.contains(&index) {
                now.push(index);
            }
        }
        let both: Vec<Index> =
            now.iter().filter(|index| self.suspects.contains(index)).copied().collect();
        let poison = match both[..] {
            [only] => Some(only),
            _ => both.iter().find(|index| !self.known[**index].is_harmless).copied(),
        };
        self.suspects = match poison {
            Some(_) => Vec::new(),
            None if both.is_empty() => now,
            None => both,
        };
        poison.map(|index| self.known[index].kind.clone())
    }
}

impl Stages {
    /// Routes a kind of message around a component from now on, and notifies the user.
    pub(super) fn mark_as_poison(&mut self, seat: Seat, kind: MessageKind) {
        let filter = self.router.chain().component(seat).map(|it| it.updates);
        if filter == Some(UpdateFilter::All) || !self.router.add_skip_rule(seat, kind.clone()) {
            return;
        }
        let name = self.router.chain().name(seat);
        let text = format!(
            "{} has crashed twice on {kind}: messages of that kind bypass it from now on \
             (--updates {name}=all turns this off)",
            self.router.chain().describe(seat),
        );
        self.warn(seat, text.clone());
        self.notify_user(seat, &text);
        self.cx.push(Output::RememberPoison { seat, kind });
    }

    /// Routes a kind of message around a component that crashed on it in an earlier run.
    pub fn restore_poison(&mut self, seat: Seat, kind: MessageKind) {
        let filter = self.router.chain().component(seat).map(|it| it.updates);
        if filter != Some(UpdateFilter::All) {
            self.router.add_skip_rule(seat, kind);
        }
    }
}

/// Whether a message may be routed around a component. These may not: the handshake; a cancellation, because it contains
/// an id that only this component knows; and a message for an MCP server, because it is meant for one provider.
fn can_be_routed_around(call: &Call) -> bool {
    !call.is(acp::INITIALIZE)
        && !call.is(acp::CANCEL_REQUEST)
        && !call.method.name().contains("mcp/")
        && !call.is("_scp/mcp")
}

/// Whether a component has crashed by itself. A kill from outside (by a user, by the kernel when memory is short, by the
/// conductor after a timeout) says nothing about a message.
fn is_crash(how: &ExitCause) -> bool {
    match how {
        // A shell reports 128 + the signal if its child was killed.
        ExitCause::Status(status) => !matches!(status, 0 | 129 | 130 | 137 | 143),
        // SIGILL, SIGTRAP, SIGABRT, SIGBUS (two numbers), SIGFPE, SIGSEGV, SIGSYS
        ExitCause::Signal(signal) => matches!(signal, 4 | 5 | 6 | 7 | 8 | 10 | 11 | 31),
        ExitCause::Ended(_) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use acp_wire::Json;

    fn update(kind: &str) -> Message {
        let update = Json::object([("sessionUpdate", Some(Json::string(kind)))]);
        Message::notification("session/update", Json::object([("update", Some(update))]))
    }

    fn crash(suspects: &mut SeatSuspects, how: ExitCause) -> Option<String> {
        suspects.crashed(&Exit::new(how)).map(|kind| kind.to_string())
    }

    #[test]
    fn a_suspect_of_two_crashes_is_poison() {
        let mut suspects = SeatSuspects::default();
        for expected in [None, Some("session/update usage_update".to_owned())] {
            suspects.delivered(Side::Editor, &update("plan"));
            suspects.delivered(Side::Editor, &update("usage_update"));
            suspects.arrived(Side::Editor, &update("plan"));
            assert_eq!(crash(&mut suspects, ExitCause::Status(1)), expected);
        }
    }

    #[test]
    fn forwarded_and_answered_messages_are_not_suspects() {
        let mut suspects = SeatSuspects::default();
        for _ in 0..3 {
            suspects.delivered(Side::Editor, &update("plan"));
            suspects.arrived(Side::Editor, &update("plan"));
            suspects
                .delivered(Side::Agent, &Message::request(Id::from(1), "a", Json::EMPTY_OBJECT));
            let answer =
                Message::response(Id::from(1), acp_wire::Outcome::Result(Json::EMPTY_OBJECT));
            suspects.arrived(Side::Editor, &answer);
            assert_eq!(crash(&mut suspects, ExitCause::Status(1)), None);
        }
    }

    #[test]
    fn updates_with_a_common_prefix_are_told_apart() {
        let update = |session: &str, kind: &str, more: &str| {
            let params = format!(
                r#"{{"sessionId":"{session}","update":{{"sessionUpdate":"{kind}"{more}}}}}"#
            );
            Message::notification("session/update", Json::parse(params).unwrap())
        };
        let mut suspects = SeatSuspects::default();
        for (session, kind) in [("s", "a"), ("s", "ab"), ("t", "a"), ("s", "a"), ("t", "ab")] {
            for more in ["", r#","sessionUpdate":"c""#, r#","text":"a""#] {
                let message = update(session, kind, more);
                suspects.delivered(Side::Editor, &message);
                let [(index, None)] = suspects.pending.make_contiguous() else {
                    panic!("{suspects:?}")
                };
                assert_eq!(suspects.known[*index].kind.update.as_deref(), Some(kind));
                suspects.delivered(Side::Agent, &message);
                suspects.arrived(Side::Agent, &message);
                suspects.arrived(Side::Editor, &message);
                assert!(suspects.pending.is_empty());
            }
        }
        assert_eq!(suspects.known.len(), 4);
    }

    #[test]
    fn of_several_suspects_the_oldest_that_was_never_handled_is_poison() {
        let mut suspects = SeatSuspects::default();
        for expected in [None, Some("session/update new".to_owned())] {
            // The component forwards the updates that it can read, and crashes in the middle of a long stream.
            suspects.delivered(Side::Editor, &update("plan"));
            suspects.arrived(Side::Editor, &update("plan"));
            for _ in 0..100 {
                for kind in ["plan", "new", "newer", "newest"] {
                    suspects.delivered(Side::Editor, &update(kind));
                }
            }
            assert_eq!(crash(&mut suspects, ExitCause::Status(1)), expected);
        }
    }

    #[test]
    fn of_several_harmless_suspects_the_one_that_the_crashes_have_in_common_is_poison() {
        let mut suspects = SeatSuspects::default();
        for kind in ["a", "b", "c"] {
            suspects.delivered(Side::Editor, &update(kind));
            suspects.arrived(Side::Editor, &update(kind));
        }
        for kinds in [["a", "b"], ["a", "b"]] {
            kinds.iter().for_each(|kind| suspects.delivered(Side::Editor, &update(kind)));
            assert_eq!(crash(&mut suspects, ExitCause::Signal(6)), None);
        }
        ["c", "b"].iter().for_each(|kind| suspects.delivered(Side::Editor, &update(kind)));
        assert_eq!(crash(&mut suspects, ExitCause::Signal(6)).as_deref(), Some("session/update b"));
    }

    #[test]
    fn the_number_of_tracked_messages_is_limited() {
        let mut suspects = SeatSuspects::default();
        suspects.delivered(Side::Editor, &update(&"x".repeat(10_000)));
        assert!(suspects.known.is_empty() && suspects.pending.is_empty());
        for number in 0..10 * MAX_KINDS {
            suspects.delivered(Side::Editor, &update(&number.to_string()));
            suspects.arrived(Side::Editor, &update(&number.to_string()));
        }
        assert_eq!((suspects.known.len(), suspects.pending.len()), (MAX_KINDS, 0));
    }

    #[test]
    fn a_kill_from_outside_makes_no_message_a_suspect() {
        let mut suspects = SeatSuspects::default();
        for how in [
            ExitCause::Signal(9),
            ExitCause::Signal(15),
            ExitCause::Status(137),
            ExitCause::ClosedOutput,
        ] {
            for _ in 0..2 {
                suspects.delivered(Side::Editor, &update("a"));
                assert_eq!(crash(&mut suspects, how.clone()), None);
            }
        }
    }

    #[test]
    fn handshakes_cancellations_and_mcp_messages_are_not_suspects() {
        let mut suspects = SeatSuspects::default();
        for method in ["initialize", "$/cancel_request", "mcp/message", "_mcp/request"] {
            for _ in 0..2 {
                suspects.delivered(
                    Side::Agent,
                    &Message::request(Id::from(1), method, Json::EMPTY_OBJECT),
                );
                assert_eq!(crash(&mut suspects, ExitCause::Status(1)), None);
            }
        }
    }
}
