//! The stage *turns*: tracks turns in ACP version 2.
//!
//! In version 2, the answer to a prompt only accepts it. The turn continues until the component reports that the session
//! is idle. An active turn is treated like a pending request: it has timeouts, and if the component fails, the conductor
//! reports the end of the turn.

use std::collections::{BTreeMap, BTreeSet};

use acp_wire::acp::{MethodKind, PROMPT, SessionId, method_kind, session_of, session_of_call};
use acp_wire::message::error_object;
use acp_wire::{Id, Json, Message, Outcome, Side, acp, code};
use router::{Chain, Exit, ExitCause, Router, Seat, Time};

use super::by_seat::BySeat;
use super::{Context, Hop, StageResult, Stages};

/// How many active turns are tracked for each component.
const MAX_TURNS: usize = 256;

/// The active turns of all components.
#[derive(Debug)]
pub(super) struct Turns {
    by_seat: BySeat<SeatTurns>,
    /// In proxy mode: the turns of the components after this chain.
    beyond: SeatTurns,
}

impl Turns {
    pub(super) fn new(count: usize) -> Turns {
        Turns { by_seat: BySeat::new(count), beyond: SeatTurns::default() }
    }

    /// See [`BySeat::fill`].
    pub(super) fn fill(&mut self, count: usize, filled: &[Seat]) {
        self.by_seat.fill(count, filled);
    }

    fn turns_of(&mut self, seat: Seat) -> Option<&mut SeatTurns> {
        match seat.is_component() {
            true => self.by_seat.get_mut(seat),
            false => Some(&mut self.beyond),
        }
    }

    /// Handles a message from a component. Returns whether it ends a turn.
    fn arrived(&mut self, hop: Hop, message: &Message) -> bool {
        let turns = self.turns_of(hop.seat).filter(|turns| !turns.is_empty());
        turns.is_some_and(|turns| turns.arrived(hop.toward, message))
    }

    /// Handles a message to a component.
    pub(super) fn delivered(
        &mut self,
        cx: &Context,
        router: &Router,
        hop: Hop,
        message: &Message,
    ) -> StageResult {
        // A message that leaves the chain has the protocol version of its components.
        let first = || router.chain().first().unwrap_or(Seat::OUTER);
        let versioned = if hop.seat.is_component() { hop.seat } else { first() };
        if hop.toward == Side::Agent
            && let Some(turns) = self.turns_of(hop.seat)
        {
            turns.delivered(cx.now, message, || uses_v2(router, versioned));
        }
        StageResult::Pass
    }

    /// The number of pending prompts and active turns, for tests.
    pub(super) fn open(&self) -> usize {
        self.by_seat.iter().chain([&self.beyond]).map(SeatTurns::open).sum()
    }

    /// The number of pending prompts and active turns of one component.
    pub(super) fn open_in(&self, seat: Seat) -> usize {
        self.by_seat.get(seat).map_or(0, SeatTurns::open)
    }

    /// The sessions with an active turn, under the ids that the editor knows.
    pub(super) fn sessions(&self, chain: &Chain) -> BTreeSet<SessionId> {
        let mut active = self.by_seat.in_order(chain).map(|it| &it.active);
        let active = active.find(|it| !it.is_empty());
        active.into_iter().flat_map(|turns| turns.keys().cloned()).collect()
    }

    /// The active turns of the components after a seat.
    fn behind<'a>(
        &'a self,
        chain: &'a Chain,
        seat: Seat,
    ) -> impl Iterator<Item = &'a BTreeMap<SessionId, Turn>> {
        self.by_seat.of(chain.behind(seat)).chain([&self.beyond]).map(|it| &it.active)
    }
}

/// The turns of one component.
#[derive(Debug, Default)]
struct SeatTurns {
    /// Prompts that it has not accepted yet, by request id.
    pending: BTreeMap<Id, PendingPrompt>,
    /// Active turns, by session.
    active: BTreeMap<SessionId, Turn>,
}

/// A prompt that has not been accepted yet.
#[derive(Debug)]
struct PendingPrompt {
    session: SessionId,
    delivered_at: Time,
    cancelled: Option<Time>,
    /// Whether the component has reported, after it received the prompt, that it is working.
    worked: bool,
    /// Whether the component has then reported that it is idle: the turn has ended before the answer.
    ended: bool,
}

/// An active turn.
#[derive(Debug, Clone, Copy)]
struct Turn {
    /// When the component was prompted. If it forwards the prompt, the turn of the next component starts later.
    since: Time,
    cancelled: Option<Time>,
}

impl SeatTurns {
    fn is_empty(&self) -> bool {
        self.pending.is_empty() && self.active.is_empty()
    }

    /// The number of active turns.
    fn active_count(&self) -> usize {
        self.active.len()
    }

    fn open(&self) -> usize {
        self.pending.len() + self.active.len()
    }

    /// Handles a message from the component. Returns whether it ends a turn.
    fn arrived(&mut self, toward: Side, message: &Message) -> bool {
        match message {
            Message::Response { id, outcome, .. } => {
                let Some(prompt) = self.pending.remove(id) else { return false };
                let Outcome::Result(result) = outcome else { return false };
                // Some components end their turns with the answer, as in version 1.
                if prompt.ended || result.member("stopReason").is_some() {
                    return true;
                }
                if self.active.len() == MAX_TURNS {
                    self.active.pop_first();
                }
                self.active.insert(
                    prompt.session,
                    Turn { since: prompt.delivered_at, cancelled: prompt.cancelled },
                );
                false
            }
            Message::Notification(call) if toward == Side::Editor && call.is(acp::UPDATE) => {
                let Some((session, idle)) = call.params.as_ref().and_then(parse_state_update)
                else {
                    return false;
                };
                for prompt in self.pending.values_mut().filter(|it| it.session == session) {
                    prompt.ended = idle && prompt.worked;
                    prompt.worked |= !idle;
                }
                idle && self.active.remove(&session).is_some()
            }
            _ => false,
        }
    }

    /// Handles a message to the component. `v2` returns whether the component uses version 2.
    fn delivered(&mut self, now: Time, message: &Message, v2: impl FnOnce() -> bool) {
        let (Message::Request { call, .. } | Message::Notification(call)) = message else { return };
        let kind = method_kind(call);
        if !matches!(kind, Some(MethodKind::Prompt)) && self.is_empty() {
            return;
        }
        let Some(session) = session_of_call(call) else { return };
        match (kind, message) {
            (Some(MethodKind::Prompt), Message::Request { id, .. }) if v2() => {
                let prompt = PendingPrompt {
                    session,
                    delivered_at: now,
                    cancelled: None,
                    worked: false,
                    ended: false,
                };
                self.pending.insert(id.detached(), prompt);
            }
            (Some(MethodKind::CancelSession), _) => {
                let pending = self.pending.values_mut().filter(|it| it.session == session);
                let pending = pending.map(|it| &mut it.cancelled);
                let active = self.active.get_mut(&session).map(|it| &mut it.cancelled);
                pending.chain(active).for_each(|cancelled| *cancelled = cancelled.or(Some(now)));
            }
            // A closed session has no turn.
            (Some(MethodKind::EndSession), _) => drop(self.active.remove(&session)),
            _ => {}
        }
    }
}

/// The session of a state update, and whether its state is idle.
fn parse_state_update(params: &Json) -> Option<(SessionId, bool)> {
    let update = params.member("update")?;
    let has = |key: &str, value: &str| {
        update.member(key).as_ref().and_then(Json::text).is_some_and(|it| it == value)
    };
    if !has("sessionUpdate", "state_update") {
        return None;
    }
    Some((session_of(params)?, has("state", "idle")))
}

/// The update which reports that a session is idle, and why its turn ended.
fn idle_update(session: &SessionId, reason: &str, error: Option<Json>) -> Message {
    let text = |text: &str| Some(Json::string(text));
    let update = Json::object([
        ("sessionUpdate", text("state_update")),
        ("state", text("idle")),
        ("stopReason", text(reason)),
        ("error", error),
    ]);
    let params = Json::object([("sessionId", text(session)), ("update", Some(update))]);
    Message::notification(acp::UPDATE, params)
}

impl Stages {
    /// Whether the editor has negotiated ACP version 2.
    pub(super) fn editor_uses_v2(&self) -> bool {
        self.router.chain().first().is_some_and(|first| uses_v2(&self.router, first))
    }

    /// How many turns are active at a component although it has answered their prompts (ACP version 2).
    pub fn active_turns(&self, seat: Seat) -> usize {
        self.turns.by_seat.get(seat).map_or(0, SeatTurns::active_count)
    }

    pub(super) fn turns_arrived(&mut self, hop: Hop, message: &Message) -> StageResult {
        if self.turns.arrived(hop, message) {
            self.watchdog.unblocked_before(&self.cx, self.router.chain(), hop.seat);
        }
        StageResult::Pass
    }

    /// The timeout of a turn that expires first.
    pub(super) fn next_turn_timeout(&self) -> Option<(Time, Seat, ExitCause)> {
        let seats = self.router.chain().seats();
        let seats = seats.filter(|seat| self.active_turns(*seat) > 0 && self.can_act(*seat));
        seats.filter_map(|seat| self.next_turn_timeout_of(seat)).min_by_key(|(due, ..)| *due)
    }

    fn next_turn_timeout_of(&self, seat: Seat) -> Option<(Time, Seat, ExitCause)> {
        let (turns, last) = (self.turns.by_seat.get(seat)?, self.watchdog.last(seat)?);
        let timeouts = self.rules.timeouts;
        let behind = self.turns.behind(self.router.chain(), seat);
        let behind: Vec<&BTreeMap<SessionId, Turn>> = behind.collect();
        // Only a component that is not waiting on another one is considered stuck.
        let waits = self.router.waits_for_held(seat);
        let requests =
            self.router.requests().filter(|it| it.requester == seat).map(|it| it.sent_at);
        let forwarded = behind.iter().flat_map(|it| it.values()).map(|turn| turn.since);
        let newest = requests.chain(forwarded).max();
        let silent = turns.active.values().filter_map(|turn| {
            let limit = timeouts.prompt?;
            if waits || newest.is_some_and(|newest| newest >= turn.since) {
                return None;
            }
            let due = turn.since.max(last).plus(limit);
            Some((due, seat, ExitCause::Unresponsive { method: PROMPT.to_owned(), limit }))
        });
        let prompts = self.router.has_open_request(seat, PROMPT);
        let cancelled = turns.active.iter().filter_map(|(session, turn)| {
            let (limit, at) = (timeouts.cancel?, turn.cancelled?);
            if prompts || behind.iter().any(|it| it.contains_key(session)) {
                return None;
            }
            let since = self.should_have_stopped(seat, at, limit);
            Some((
                since.plus(limit),
                seat,
                ExitCause::Uncancellable { method: PROMPT.to_owned(), limit },
            ))
        });
        silent.chain(cancelled).min_by_key(|(due, ..)| *due)
    }

    /// Ends the turns of a component that has failed, and reports their end to the editor. A turn that a later component
    /// works on continues, unless the chain ends.
    pub(super) fn end_turns(&mut self, seat: Seat, why: &Exit, chain_ends: bool) {
        let Some(turns) = self.turns.by_seat.get_mut(seat) else { return };
        let active = std::mem::take(turns).active;
        let behind = self.turns.behind(self.router.chain(), seat);
        let elsewhere: BTreeSet<SessionId> = behind.flat_map(|it| it.keys().cloned()).collect();
        if !active.is_empty() {
            self.watchdog.unblocked_before(&self.cx, self.router.chain(), seat);
        }
        for (session, turn) in active {
            if elsewhere.contains(&session) && !chain_ends {
                continue;
            }
            let is_cancelled =
                matches!(why.cause, ExitCause::Uncancellable { .. }) && turn.cancelled.is_some();
            let message = match is_cancelled {
                true => idle_update(&session, "cancelled", None),
                false => {
                    let report = self.router.chain().crash_report(seat, why, Some(PROMPT));
                    let kind = why.kind(false);
                    let data = Json::object([("code", Some(Json::string(kind.code())))]);
                    let error = error_object(code::INTERNAL_ERROR, &kind.tag(report), Some(&data));
                    idle_update(&session, "error", Some(error))
                }
            };
            self.send_on_behalf(Hop { seat, toward: Side::Editor }, message);
        }
    }
}

fn uses_v2(router: &router::Router, seat: Seat) -> bool {
    let answer = router.handshake(seat).and_then(|it| it.answer.as_ref());
    let Some(Outcome::Result(result)) = answer else { return false };
    // Some agents confirm the requested version, and then continue as in version 1.
    let is_v1 = result.member("agentCapabilities").is_some();
    !is_v1 && acp::protocol_version(result).is_some_and(|version| version >= 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn message(text: &str) -> Message {
        Message::parse(&Bytes::copy_from_slice(text.as_bytes())).unwrap()
    }

    fn prompt(turns: &mut SeatTurns, id: u8) {
        let text =
            r#"{"jsonrpc":"2.0","id":"c:N","method":"session/prompt","params":{"sessionId":"s"}}"#;
        turns.delivered(Time::default(), &message(&text.replace('N', &id.to_string())), || true);
    }

    fn receive(turns: &mut SeatTurns, text: &str) -> bool {
        turns.arrived(Side::Editor, &message(text))
    }

    fn state_update(state: &str) -> String {
        format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{{"sessionUpdate":"state_update","state":"{state}"}}}}}}"#
        )
    }

    const ACCEPTED: &str = r#"{"jsonrpc":"2.0","id":"c:1","result":{"messageId":"m"}}"#;

    #[test]
    fn a_turn_is_active_from_the_answer_until_idle() {
        let mut turns = SeatTurns::default();
        prompt(&mut turns, 1);
        // This update belongs to an earlier turn.
        assert!(!receive(&mut turns, &state_update("idle")));
        assert!(!receive(&mut turns, ACCEPTED) && turns.active_count() == 1);
        // Only an update that travels toward the editor reports a state.
        let idle = state_update("idle");
        assert!(!turns.arrived(Side::Agent, &message(&idle)));
        assert!(
            !receive(&mut turns, &idle.replace("session/update", "_own"))
                && turns.active_count() == 1
        );
        for other in ["running", "requires_action", "_own"] {
            assert!(!receive(&mut turns, &state_update(other)) && turns.active_count() == 1);
        }
        assert!(receive(&mut turns, &state_update("idle")) && turns.open() == 0);
    }

    #[test]
    fn a_turn_may_end_before_its_prompt_is_answered() {
        let mut turns = SeatTurns::default();
        prompt(&mut turns, 1);
        receive(&mut turns, &state_update("running"));
        receive(&mut turns, &state_update("idle"));
        assert!(receive(&mut turns, ACCEPTED) && turns.open() == 0);
        prompt(&mut turns, 1);
        let as_in_v1 = r#"{"jsonrpc":"2.0","id":"c:1","result":{"stopReason":"end_turn"}}"#;
        assert!(receive(&mut turns, as_in_v1) && turns.open() == 0);
        prompt(&mut turns, 1);
        let refused = r#"{"jsonrpc":"2.0","id":"c:1","error":{"code":1,"message":""}}"#;
        assert!(!receive(&mut turns, refused) && turns.open() == 0);
        prompt(&mut turns, 1);
        receive(&mut turns, ACCEPTED);
        let close =
            r#"{"jsonrpc":"2.0","id":"c:2","method":"session/close","params":{"sessionId":"s"}}"#;
        turns.delivered(Time::default(), &message(close), || true);
        assert_eq!(turns.open(), 0);
    }
}
