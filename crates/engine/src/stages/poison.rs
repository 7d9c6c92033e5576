//! Which kind of message a component crashes on.
//!
//! A crash is blamed on what the component was sent and had not dealt with: it neither passed it on nor
//! answered it. A kind of message that is to blame for two crashes goes around the component from then on
//! (see `router::around`). Where both crashes have several kinds in common, as when an agent streams many
//! updates at once, the oldest kind that the component has never dealt with is to blame: a component reads
//! its messages in order, so the later ones were not read.

use std::collections::VecDeque;

use acp_wire::{Call, Id, Json, Message, Side, acp};
use router::{Exit, ExitCause, MessageKind, Router, Seat, UpdateFilter};

use super::by_seat::BySeat;
use super::{Hop, StageResult, Stages};
use crate::input::Output;

/// So many messages come into question: the oldest ones that the component has not dealt with.
const MOST: usize = 32;

/// So many kinds of message are told apart.
const MAX_KINDS: usize = 128;

/// What each component may crash on.
#[derive(Debug)]
pub(super) struct PoisonDetector {
    by_seat: BySeat<SeatSuspects>,
}

impl PoisonDetector {
    pub fn new(count: usize) -> PoisonDetector {
        PoisonDetector { by_seat: BySeat::new(count) }
    }

    pub fn arrived(&mut self, hop: Hop, message: &Message) -> StageResult {
        if let Some(suspects) = self.by_seat.get_mut(hop.seat) {
            suspects.arrived(hop.toward, message);
        }
        StageResult::Pass
    }

    pub fn delivered(&mut self, router: &Router, hop: Hop, message: &Message) -> StageResult {
        if router.can_be_skipped(hop.seat)
            && let Some(suspects) = self.by_seat.get_mut(hop.seat)
        {
            suspects.delivered(hop.toward, message);
        }
        StageResult::Pass
    }

    /// No message is to blame if the component ends now.
    pub fn excuse(&mut self, seat: Seat) {
        if let Some(suspects) = self.by_seat.get_mut(seat) {
            suspects.open.clear();
        }
    }

    /// A component is gone. Gives the kind of message that it has crashed on for the second time.
    pub fn crashed(&mut self, seat: Seat, why: &Exit) -> Option<MessageKind> {
        self.by_seat.get_mut(seat)?.crashed(why)
    }
}

#[derive(Debug, Default)]
struct SeatSuspects {
    /// The kinds of message that the component was ever sent. A message is looked up here by comparison,
    /// so that a stream of updates allocates nothing.
    known: Vec<KnownKind>,
    /// What it was sent and has not dealt with, oldest first. Requests with their ids. Of notifications of
    /// one kind, only the oldest.
    open: VecDeque<(Index, Option<Id>)>,
    /// What its last crash was blamed on.
    suspects: Vec<Index>,
}

/// In the list of known kinds.
type Index = usize;

#[derive(Debug)]
struct KnownKind {
    kind: MessageKind,
    /// The component has dealt with a message of this kind, in this life or an earlier one.
    harmless: bool,
    /// How the params of the last update of this kind began, up to the kind. An update that begins in the same
    /// way is of the same kind.
    beginning: Box<[u8]>,
}

/// A longer beginning is not kept.
const LONGEST_BEGINNING: usize = 256;

impl SeatSuspects {
    /// The component is sent something.
    fn delivered(&mut self, toward: Side, message: &Message) {
        let (id, call) = match message {
            Message::Request { id, call } => (Some(id), call),
            Message::Notification(call) => (None, call),
            Message::Response { .. } => return,
        };
        if self.open.len() == MOST {
            return;
        }
        let index = match self.find(toward, call) {
            Some(index) => index,
            None if self.known.len() == MAX_KINDS || !may_go_around(call) => return,
            None => {
                let Some(kind) = MessageKind::of(toward, message) else { return };
                self.known.push(KnownKind { kind, harmless: false, beginning: Box::default() });
                self.known.len() - 1
            }
        };
        if id.is_some() || !self.open.iter().any(|(open, _)| *open == index) {
            self.open.push_back((index, id.map(Id::detached)));
        }
    }

    fn find(&mut self, toward: Side, call: &Call) -> Option<Index> {
        let begins_like = |known: &KnownKind| {
            let params = call.params.as_ref().map_or(&[][..], Json::as_bytes);
            !known.beginning.is_empty()
                && params.starts_with(&known.beginning)
                && known.kind.toward == toward
                && call.is(&known.kind.method)
        };
        if let Some(index) = self.known.iter().position(begins_like) {
            return Some(index);
        }
        let update = MessageKind::update_of(call);
        let is_of = |known: &KnownKind| known.kind.is_of(toward, call, update.as_ref());
        let index = self.known.iter().position(is_of)?;
        if let (Some(params), Some(update)) = (&call.params, &update) {
            let (text, kind) = (params.as_bytes(), update.as_bytes());
            let end = kind.as_ptr_range().end.addr() - text.as_ptr().addr();
            if end <= LONGEST_BEGINNING {
                self.known[index].beginning = text[..end].into();
            }
        }
        Some(index)
    }

    /// The component says something. If it passes on what it was sent, it has dealt with that and all that
    /// came before it.
    fn arrived(&mut self, toward: Side, message: &Message) {
        if self.open.is_empty() {
            return;
        }
        let dealt_with = match message {
            Message::Response { id, .. } => {
                let at = self.open.iter().position(|(_, open)| open.as_ref() == Some(id));
                at.and_then(|at| self.open.remove(at)).map(|(index, _)| index)
            }
            Message::Request { call, .. } | Message::Notification(call) => {
                let index = self.find(toward, call);
                let at = self.open.iter().position(|(open, _)| Some(*open) == index);
                at.and_then(|at| self.open.drain(..=at).next_back()).map(|(index, _)| index)
            }
        };
        if let Some(index) = dealt_with {
            self.known[index].harmless = true;
        }
    }

    /// The component is gone. Gives the kind of message that it has crashed on for the second time.
    fn crashed(&mut self, why: &Exit) -> Option<MessageKind> {
        let open = std::mem::take(&mut self.open);
        if !is_own_fault(&why.cause) {
            return None;
        }
        let mut now: Vec<Index> = Vec::new();
        for (index, _) in open {
            if !now.contains(&index) {
                now.push(index);
            }
        }
        let both: Vec<Index> =
            now.iter().filter(|index| self.suspects.contains(index)).copied().collect();
        let guilty = match both[..] {
            [only] => Some(only),
            _ => both.iter().find(|index| !self.known[**index].harmless).copied(),
        };
        self.suspects = match guilty {
            Some(_) => Vec::new(),
            None if both.is_empty() => now,
            None => both,
        };
        guilty.map(|index| self.known[index].kind.clone())
    }
}

impl Stages {
    /// A component has crashed on one kind of message for the second time: it is spared that kind.
    pub(super) fn mark_as_poison(&mut self, seat: Seat, kind: MessageKind) {
        let takes = self.router.chain().component(seat).map(|it| it.updates);
        if takes == Some(UpdateFilter::All) || !self.router.add_skip_rule(seat, kind.clone()) {
            return;
        }
        let name = self.router.chain().name(seat);
        let text = format!(
            "{} has crashed twice on {kind}: messages of that kind go around it from now on \
             (--updates {name}=all changes that)",
            self.router.chain().describe(seat),
        );
        self.warn(seat, text.clone());
        self.notify_user(seat, &text);
        self.cx.push(Output::RememberPoison { seat, kind });
    }

    /// A component is spared a kind of message that it crashed on in an earlier run.
    pub fn restore_poison(&mut self, seat: Seat, kind: MessageKind) {
        let takes = self.router.chain().component(seat).map(|it| it.updates);
        if takes != Some(UpdateFilter::All) {
            self.router.add_skip_rule(seat, kind);
        }
    }
}

/// Whether messages of this kind can do without a component. The handshake cannot, a cancellation names an
/// id that only it knows, and what is said to an MCP server is for its provider alone.
fn may_go_around(call: &Call) -> bool {
    !call.is(acp::INITIALIZE)
        && !call.is(acp::CANCEL_REQUEST)
        && !call.method.name().contains("mcp/")
        && !call.is("_scp/mcp")
}

/// Whether a component ended by its own doing. What kills others from outside (a user, the kernel when
/// memory is short, ourselves after a timeout) says nothing about the message.
fn is_own_fault(how: &ExitCause) -> bool {
    match how {
        // 128 + a signal is how a shell tells that its child was killed.
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
    fn the_second_crash_on_a_kind_convicts_it() {
        let mut suspects = SeatSuspects::default();
        for expected in [None, Some("session/update usage_update".to_owned())] {
            suspects.delivered(Side::Editor, &update("plan"));
            suspects.delivered(Side::Editor, &update("usage_update"));
            suspects.arrived(Side::Editor, &update("plan"));
            assert_eq!(crash(&mut suspects, ExitCause::Status(1)), expected);
        }
    }

    #[test]
    fn what_was_passed_on_or_answered_is_not_to_blame() {
        let mut suspects = SeatSuspects::default();
        for _ in 0..3 {
            suspects.delivered(Side::Editor, &update("plan"));
            suspects.arrived(Side::Editor, &update("plan"));
            suspects.delivered(Side::Agent, &Message::request(Id::from(1), "a", Json::EMPTY));
            let answer = Message::response(Id::from(1), acp_wire::Outcome::Result(Json::EMPTY));
            suspects.arrived(Side::Editor, &answer);
            assert_eq!(crash(&mut suspects, ExitCause::Status(1)), None);
        }
    }

    /// The kind is read where it stands, however alike the updates begin.
    #[test]
    fn updates_that_begin_alike_are_told_apart() {
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
                let [(index, None)] = suspects.open.make_contiguous() else {
                    panic!("{suspects:?}")
                };
                assert_eq!(suspects.known[*index].kind.update.as_deref(), Some(kind));
                suspects.delivered(Side::Agent, &message);
                suspects.arrived(Side::Agent, &message);
                suspects.arrived(Side::Editor, &message);
                assert!(suspects.open.is_empty());
            }
        }
        assert_eq!(suspects.known.len(), 4);
    }

    #[test]
    fn of_several_kinds_the_oldest_that_was_never_dealt_with_is_to_blame() {
        let mut suspects = SeatSuspects::default();
        for expected in [None, Some("session/update new".to_owned())] {
            // The component passes on what it can read, and crashes in the middle of a long stream.
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
    fn of_several_kinds_that_did_no_harm_before_the_one_in_common_is_to_blame() {
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
    fn what_is_remembered_is_bounded() {
        let mut suspects = SeatSuspects::default();
        suspects.delivered(Side::Editor, &update(&"x".repeat(10_000)));
        assert!(suspects.known.is_empty() && suspects.open.is_empty());
        for number in 0..10 * MAX_KINDS {
            suspects.delivered(Side::Editor, &update(&number.to_string()));
            suspects.arrived(Side::Editor, &update(&number.to_string()));
        }
        assert_eq!((suspects.known.len(), suspects.open.len()), (MAX_KINDS, 0));
    }

    #[test]
    fn a_kill_from_outside_is_no_crash() {
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
    fn the_handshake_and_cancellations_cannot_go_around() {
        let mut suspects = SeatSuspects::default();
        for method in ["initialize", "$/cancel_request", "mcp/message", "_mcp/request"] {
            for _ in 0..2 {
                suspects
                    .delivered(Side::Agent, &Message::request(Id::from(1), method, Json::EMPTY));
                assert_eq!(crash(&mut suspects, ExitCause::Status(1)), None);
            }
        }
    }
}
