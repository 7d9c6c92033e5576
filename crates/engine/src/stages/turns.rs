//! Turns in ACP version 2. There the answer to a prompt only says that it was accepted; the turn goes on
//! until the component reports that the session is idle. A turn that goes on is like a request that the
//! component has yet to answer: there are limits for it, and if the component dies, its end is told.

use std::collections::{BTreeMap, BTreeSet};

use acp_wire::message::error_object;
use acp_wire::{Id, Json, Message, Outcome, Side, acp, code};
use router::{Exit, ExitCause, Router, Seat, Time};

use super::by_seat::BySeat;
use super::{Context, Hop, StageResult, Stages};
use acp_wire::acp::{PROMPT, SessionId, Topic, session_of, session_of_call, topic};

/// No more turns than these are kept for each component.
const MAX_TURNS: usize = 256;

/// The turns that go on.
#[derive(Debug)]
pub(super) struct Turns {
    by_seat: BySeat<SeatTurns>,
    /// Behind a chain that is a proxy itself.
    beyond: SeatTurns,
}

impl Turns {
    pub(super) fn new(count: usize) -> Turns {
        Turns { by_seat: BySeat::new(count), beyond: SeatTurns::default() }
    }

    fn of(&mut self, seat: Seat) -> Option<&mut SeatTurns> {
        match seat.is_component() {
            true => self.by_seat.get_mut(seat),
            false => Some(&mut self.beyond),
        }
    }

    /// A component says something. True if a turn of it has ended with that.
    fn arrived(&mut self, hop: Hop, message: &Message) -> bool {
        let turns = self.of(hop.seat).filter(|turns| !turns.is_empty());
        turns.is_some_and(|turns| turns.arrived(hop.toward, message))
    }

    /// A component is told something.
    pub(super) fn delivered(
        &mut self,
        cx: &Context,
        router: &Router,
        hop: Hop,
        message: &Message,
    ) -> StageResult {
        // What leaves the chain was agreed on with its components.
        let agreed = if hop.seat.is_component() { hop.seat } else { Seat(1) };
        if hop.toward == Side::Agent
            && let Some(turns) = self.of(hop.seat)
        {
            turns.delivered(cx.now, message, || speaks_v2(router, agreed));
        }
        StageResult::Pass
    }

    /// How much is open, for tests.
    pub(super) fn open(&self) -> usize {
        self.by_seat.iter().chain([&self.beyond]).map(SeatTurns::open).sum()
    }

    /// The sessions in which something goes on, as the editor knows them.
    pub(super) fn sessions(&self) -> BTreeSet<SessionId> {
        let going = self.by_seat.iter().map(|it| &it.going).find(|it| !it.is_empty());
        going.into_iter().flat_map(|going| going.keys().cloned()).collect()
    }

    /// The turns that go on between a seat and the agent.
    fn behind(&self, seat: Seat) -> impl Iterator<Item = &BTreeMap<SessionId, Turn>> {
        self.by_seat.behind(seat).iter().chain([&self.beyond]).map(|it| &it.going)
    }
}

/// What goes on at a component.
#[derive(Debug, Default)]
struct SeatTurns {
    /// Prompts that it has yet to accept, by the id it was asked with.
    asked: BTreeMap<Id, Asked>,
    /// Turns that go on, by session.
    going: BTreeMap<SessionId, Turn>,
}

#[derive(Debug)]
struct Asked {
    session: SessionId,
    at: Time,
    cancelled: Option<Time>,
    /// It has reported work since, and then that it is idle.
    worked: bool,
    ended: bool,
}

#[derive(Debug, Clone, Copy)]
struct Turn {
    /// When the component was prompted. A turn that another one began for it is younger.
    since: Time,
    cancelled: Option<Time>,
}

impl SeatTurns {
    fn is_empty(&self) -> bool {
        self.asked.is_empty() && self.going.is_empty()
    }

    /// How many turns go on.
    pub(crate) fn going(&self) -> usize {
        self.going.len()
    }

    /// How much is open, for tests.
    pub(crate) fn open(&self) -> usize {
        self.asked.len() + self.going.len()
    }

    /// The component says something. True if a turn of it has ended with that.
    fn arrived(&mut self, toward: Side, message: &Message) -> bool {
        match message {
            Message::Response { id, outcome, .. } => {
                let Some(asked) = self.asked.remove(id) else { return false };
                let Outcome::Result(result) = outcome else { return false };
                // A component that ends its turns as in version 1 is done.
                if asked.ended || result.member("stopReason").is_some() {
                    return true;
                }
                if self.going.len() == MAX_TURNS {
                    self.going.pop_first();
                }
                self.going
                    .insert(asked.session, Turn { since: asked.at, cancelled: asked.cancelled });
                false
            }
            Message::Notification(call) if toward == Side::Editor && call.is(acp::UPDATE) => {
                let Some((session, idle)) = call.params.as_ref().and_then(state) else {
                    return false;
                };
                for asked in self.asked.values_mut().filter(|it| it.session == session) {
                    asked.ended = idle && asked.worked;
                    asked.worked |= !idle;
                }
                idle && self.going.remove(&session).is_some()
            }
            _ => false,
        }
    }

    /// The component is told something; `v2`: it speaks version 2.
    fn delivered(&mut self, now: Time, message: &Message, v2: impl FnOnce() -> bool) {
        let (Message::Request { call, .. } | Message::Notification(call)) = message else { return };
        let topic = topic(call);
        if !matches!(topic, Some(Topic::Prompt)) && self.is_empty() {
            return;
        }
        let Some(session) = session_of_call(call) else { return };
        match (topic, message) {
            (Some(Topic::Prompt), Message::Request { id, .. }) if v2() => {
                let asked =
                    Asked { session, at: now, cancelled: None, worked: false, ended: false };
                self.asked.insert(id.detached(), asked);
            }
            (Some(Topic::CancelSession), _) => {
                let asked = self.asked.values_mut().filter(|it| it.session == session);
                let asked = asked.map(|it| &mut it.cancelled);
                let going = self.going.get_mut(&session).map(|it| &mut it.cancelled);
                asked.chain(going).for_each(|cancelled| *cancelled = cancelled.or(Some(now)));
            }
            // A session that is closed has no turn.
            (Some(Topic::End), _) => drop(self.going.remove(&session)),
            _ => {}
        }
    }
}

/// The session of an update that reports a state, and whether the state is idle.
fn state(params: &Json) -> Option<(SessionId, bool)> {
    let update = params.member("update")?;
    let says = |key: &str, word: &str| {
        update.member(key).as_ref().and_then(Json::text).is_some_and(|it| it == word)
    };
    if !says("sessionUpdate", "state_update") {
        return None;
    }
    Some((session_of(params)?, says("state", "idle")))
}

/// The report that a session is idle, with why the turn ended.
fn idle(session: &SessionId, reason: &str, error: Option<Json>) -> Message {
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
    /// Whether a component has agreed to ACP version 2.
    pub(super) fn speaks_v2(&self, seat: Seat) -> bool {
        speaks_v2(&self.router, seat)
    }

    /// How many turns go on at a component after it has answered their prompts, as in ACP version 2.
    pub fn active_turns(&self, seat: Seat) -> usize {
        self.turns.by_seat.get(seat).map_or(0, SeatTurns::going)
    }

    pub(super) fn turns_arrived(&mut self, hop: Hop, message: &Message) -> StageResult {
        if self.turns.arrived(hop, message) {
            self.watchdog.unblocked_before(&self.cx, hop.seat);
        }
        StageResult::Pass
    }

    /// The turn whose component will have been silent, or have ignored its cancellation, for too long first.
    pub(super) fn overdue_turn(&self) -> Option<(Time, Seat, ExitCause)> {
        let seats = self.router.chain().seats();
        let seats = seats.filter(|seat| self.active_turns(*seat) > 0 && self.can_act(*seat));
        seats.filter_map(|seat| self.overdue_turn_at(seat)).min_by_key(|(due, ..)| *due)
    }

    fn overdue_turn_at(&self, seat: Seat) -> Option<(Time, Seat, ExitCause)> {
        let (turns, last) = (self.turns.by_seat.get(seat)?, self.watchdog.last(seat)?);
        let watch = self.rules.timeouts;
        let behind: Vec<&BTreeMap<SessionId, Turn>> = self.turns.behind(seat).collect();
        // Only a component that is not waiting on another one is considered stuck.
        let waits = self.router.waits_for_held(seat);
        let asked =
            self.router.requests().filter(|ask| ask.requester == seat).map(|ask| ask.sent_at);
        let passed_on = behind.iter().flat_map(|it| it.values()).map(|turn| turn.since);
        let newest = asked.chain(passed_on).max();
        let silent = turns.going.values().filter_map(|turn| {
            let limit = watch.prompt?;
            if waits || newest.is_some_and(|newest| newest >= turn.since) {
                return None;
            }
            let due = turn.since.max(last).plus(limit);
            Some((due, seat, ExitCause::Unresponsive { method: PROMPT.to_owned(), limit }))
        });
        let prompts = self.router.has_open_request(seat, PROMPT);
        let cancelled = turns.going.iter().filter_map(|(session, turn)| {
            let (limit, at) = (watch.cancel?, turn.cancelled?);
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

    /// A component is gone: the turns that went on there end, and those who wait for them are told. A turn that
    /// a component behind it works on goes on, unless the chain ends.
    pub(super) fn end_turns(&mut self, seat: Seat, why: &Exit, chain_ends: bool) {
        let Some(turns) = self.turns.by_seat.get_mut(seat) else { return };
        let going = std::mem::take(turns).going;
        let behind = self.turns.behind(seat);
        let elsewhere: BTreeSet<SessionId> = behind.flat_map(|it| it.keys().cloned()).collect();
        if !going.is_empty() {
            self.watchdog.unblocked_before(&self.cx, seat);
        }
        for (session, turn) in going {
            if elsewhere.contains(&session) && !chain_ends {
                continue;
            }
            let gave_up =
                matches!(why.cause, ExitCause::Uncancellable { .. }) && turn.cancelled.is_some();
            let message = match gave_up {
                true => idle(&session, "cancelled", None),
                false => {
                    let told = self.router.chain().crash_report(seat, why, Some(PROMPT));
                    let error = error_object(code::INTERNAL_ERROR, &told, None);
                    idle(&session, "error", Some(error))
                }
            };
            self.send_on_behalf(Hop { seat, toward: Side::Editor }, message);
        }
    }
}

fn speaks_v2(router: &router::Router, seat: Seat) -> bool {
    let answered = router.handshake(seat).and_then(|it| it.answer.as_ref());
    let Some(Outcome::Result(result)) = answered else { return false };
    // Some agents answer with the version they were asked for, and go on as in version 1.
    let is_first = result.member("agentCapabilities").is_some();
    !is_first && acp::protocol_version(result).is_some_and(|version| version >= 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn message(text: &str) -> Message {
        Message::parse(&Bytes::copy_from_slice(text.as_bytes())).unwrap()
    }

    fn prompted(turns: &mut SeatTurns, id: u8) {
        let text =
            r#"{"jsonrpc":"2.0","id":"c:N","method":"session/prompt","params":{"sessionId":"s"}}"#;
        turns.delivered(Time::default(), &message(&text.replace('N', &id.to_string())), || true);
    }

    fn says(turns: &mut SeatTurns, text: &str) -> bool {
        turns.arrived(Side::Editor, &message(text))
    }

    fn state(state: &str) -> String {
        format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{{"sessionUpdate":"state_update","state":"{state}"}}}}}}"#
        )
    }

    const ACCEPTED: &str = r#"{"jsonrpc":"2.0","id":"c:1","result":{"messageId":"m"}}"#;

    #[test]
    fn a_turn_goes_on_from_the_answer_to_idle() {
        let mut turns = SeatTurns::default();
        prompted(&mut turns, 1);
        // This is about an earlier turn.
        assert!(!says(&mut turns, &state("idle")));
        assert!(!says(&mut turns, ACCEPTED) && turns.going() == 1);
        // Only an update that travels toward the editor reports a state.
        let idle = state("idle");
        assert!(!turns.arrived(Side::Agent, &message(&idle)));
        assert!(!says(&mut turns, &idle.replace("session/update", "_own")) && turns.going() == 1);
        for other in ["running", "requires_action", "_own"] {
            assert!(!says(&mut turns, &state(other)) && turns.going() == 1);
        }
        assert!(says(&mut turns, &state("idle")) && turns.open() == 0);
    }

    #[test]
    fn a_turn_may_be_over_when_its_prompt_is_answered() {
        let mut turns = SeatTurns::default();
        prompted(&mut turns, 1);
        says(&mut turns, &state("running"));
        says(&mut turns, &state("idle"));
        assert!(says(&mut turns, ACCEPTED) && turns.open() == 0);
        prompted(&mut turns, 1);
        let first = r#"{"jsonrpc":"2.0","id":"c:1","result":{"stopReason":"end_turn"}}"#;
        assert!(says(&mut turns, first) && turns.open() == 0);
        prompted(&mut turns, 1);
        let refused = r#"{"jsonrpc":"2.0","id":"c:1","error":{"code":1,"message":""}}"#;
        assert!(!says(&mut turns, refused) && turns.open() == 0);
        prompted(&mut turns, 1);
        says(&mut turns, ACCEPTED);
        let close =
            r#"{"jsonrpc":"2.0","id":"c:2","method":"session/close","params":{"sessionId":"s"}}"#;
        turns.delivered(Time::default(), &message(close), || true);
        assert_eq!(turns.open(), 0);
    }
}
