//! What a restarted component is told again, and the sessions that the agent has lost.
//!
//! The component learns its sessions one after the other. It is asked to set up each session as the component
//! before it was. The requests that it passes on for that are answered from memory.

use std::collections::{BTreeMap, VecDeque};

use acp_wire::message::error_object;
use acp_wire::{Call, Id, Json, Message, Outcome, Side, acp, code};
use router::{Exit, ExitCause, Seat, SeatState};

use super::by_seat::BySeat;
use super::sessions::{Copy, Record, SessionSetup};
use super::{Hop, Stage, StageResult, Stages};
use crate::resumption::{Resumption, is_state_update};
use acp_wire::acp::{SessionId, Topic, session_of_call, topic};

/// The core remembers why so many sessions are lost. Of others, the agent itself may say that it does not know
/// them.
const MAX_LOST: usize = 1024;

/// Why nobody can be told again of a session.
const NOT_KEPT: &str =
    "the request that set it up was too long, or too many sessions ago, to be kept";

/// What restarted components are told, and the sessions that the agent has lost.
#[derive(Debug)]
pub(super) struct SessionReplay {
    by_seat: BySeat<SeatReplay>,
    /// Sessions that the agent could not take up again, and why.
    lost: BTreeMap<SessionId, String>,
}

/// What a component that was restarted is told: one lesson after the other.
#[derive(Debug, Default)]
struct SeatReplay {
    waiting: VecDeque<ReplayRequest>,
    current: Option<Box<InFlight>>,
}

impl SessionReplay {
    pub(super) fn new(count: usize) -> SessionReplay {
        SessionReplay { by_seat: BySeat::new(count), lost: BTreeMap::new() }
    }

    /// The method of the request that a component is to answer.
    pub(super) fn method(&self, seat: Seat) -> String {
        let current = self.by_seat.get(seat).and_then(|it| it.current.as_ref());
        current.map(|it| it.lesson.call.method.name().into_owned()).unwrap_or_default()
    }

    /// Whether the agent has lost any session.
    pub(super) fn has_lost_any(&self) -> bool {
        !self.lost.is_empty()
    }

    /// The agent has this session, perhaps again.
    pub(super) fn is_not_lost(&mut self, session: &SessionId) {
        self.lost.remove(session);
    }

    /// A component is gone: what it was told counts for nothing.
    pub(super) fn parted(&mut self, seat: Seat) {
        if let Some(replay) = self.by_seat.get_mut(seat) {
            *replay = SeatReplay::default();
        }
    }
}

/// What a component that learns is asked, under which id.
#[derive(Debug)]
struct InFlight {
    id: Id,
    lesson: ReplayRequest,
}

/// Something that the new one in a seat is told again.
#[derive(Debug, Clone)]
struct ReplayRequest {
    call: Call,
    session: Option<SessionId>,
    /// What the old one asked its successor for it: the new one gets the same answers.
    copies: Vec<Copy>,
    /// What it says of this session meanwhile has been said before.
    repeats: bool,
}

impl SessionSetup {
    /// What a new proxy is told of a session.
    fn lesson(&self) -> ReplayRequest {
        ReplayRequest {
            call: self.call.clone(),
            session: Some(self.session.clone()),
            copies: self.copies.clone(),
            repeats: false,
        }
    }
}

impl Stages {
    /// Sends a message from the place of this stage.
    pub(super) fn send(&mut self, seat: Seat, toward: Side, message: Message) {
        self.send_from(Stage::Replay, Hop { seat, toward }, message);
    }

    /// How the agent takes sessions up, by its last answer to `initialize`.
    pub(super) fn resumption(&self, seat: Seat) -> Option<Resumption> {
        match self.router.handshake(seat)?.answer.as_ref()? {
            Outcome::Result(result) => Resumption::offered(result),
            Outcome::Error(_) => None,
        }
    }

    /// A fresh component has answered its greeting.
    pub(super) fn on_returned(&mut self, seat: Seat, outcome: Outcome) {
        match outcome {
            Outcome::Error(error) => {
                let text = error.member("message").and_then(|it| Some(it.text()?.into_owned()));
                let how =
                    ExitCause::RefusedInitialize(text.unwrap_or_else(|| error.as_str().to_owned()));
                self.on_left(seat, Exit::new(how));
            }
            Outcome::Result(_) => {
                let lessons = match self.is_agent(seat) {
                    true => self.replay_for_agent(seat),
                    false => self.replay_for_proxy(seat),
                };
                if let Some(replay) = self.replay.by_seat.get_mut(seat) {
                    *replay = SeatReplay { waiting: lessons, current: None };
                }
                self.replay_next(seat);
            }
        }
    }

    fn replay_for_proxy(&mut self, seat: Seat) -> VecDeque<ReplayRequest> {
        let sessions = || self.sessions.record(seat).into_iter().flat_map(Record::sessions);
        let (kept, missing): (Vec<_>, Vec<_>) = sessions().partition(|it| it.kept);
        let lessons = kept.into_iter().map(SessionSetup::lesson).collect();
        if let [first, rest @ ..] = &missing[..] {
            let others = match rest.len() {
                0 => String::new(),
                count => format!(" and {count} others"),
            };
            let text = format!(
                "{} was restarted and knows nothing of session '{}'{others}: {NOT_KEPT}.",
                self.router.chain().describe(seat),
                first.session,
            );
            self.warn(seat, text.clone());
            self.notify_user(seat, &text);
        }
        lessons
    }

    /// An agent is asked to take its sessions up. An agent that does not offer that has lost them.
    fn replay_for_agent(&mut self, seat: Seat) -> VecDeque<ReplayRequest> {
        let resumption = self.resumption(seat);
        let Some(record) = self.sessions.record(seat) else { return VecDeque::new() };
        let login = record.login().cloned();
        let login = login.map(|call| ReplayRequest {
            call,
            session: None,
            copies: Vec::new(),
            repeats: false,
        });
        let sessions = record.sessions().to_vec();
        let Some(resumption) = resumption else {
            for set_up in sessions {
                self.lose(seat, &set_up.session, "it does not offer that");
            }
            return login.into_iter().collect();
        };
        let (sessions, missing): (Vec<_>, Vec<_>) = sessions.into_iter().partition(|it| it.kept);
        for set_up in missing {
            self.lose(seat, &set_up.session, NOT_KEPT);
        }
        let sessions = sessions.into_iter().map(|set_up| ReplayRequest {
            call: resumption.call(&set_up.call, &set_up.session),
            session: Some(set_up.session),
            copies: Vec::new(),
            repeats: resumption == Resumption::Load,
        });
        login.into_iter().chain(sessions).collect()
    }

    /// Tells a component the next thing it must know; when it knows all, it can be spoken to.
    fn replay_next(&mut self, seat: Seat) {
        if !self.router.is_replaying(seat) {
            return;
        }
        self.router.restart_replay_timeout(self.cx.now, seat);
        let id = self.cx.next_id();
        let Some(lessons) = self.replay.by_seat.get_mut(seat) else { return };
        let next = lessons.waiting.pop_front();
        lessons.current = next.map(|lesson| Box::new(InFlight { id: id.clone(), lesson }));
        match &lessons.current {
            Some(asked) => {
                let call = asked.lesson.call.clone();
                self.send(seat, Side::Agent, Message::Request { id, call });
            }
            None => self.resume(seat),
        }
    }

    /// Something that a component says while it learns may be part of that.
    pub(super) fn replay_arrived(&mut self, hop: Hop, message: &mut Message) -> StageResult {
        let Hop { seat: from, toward } = hop;
        if !self.router.is_replaying(from) {
            return StageResult::Pass;
        }
        let replay = self.replay.by_seat.get_mut(from);
        let Some(asked) = replay.and_then(|it| it.current.as_mut()) else {
            return StageResult::Pass;
        };
        let lesson = &mut asked.lesson;
        match message {
            Message::Response { id, outcome, .. } if *id == asked.id => {
                self.on_replay_answer(from, outcome);
                StageResult::Taken
            }
            Message::Request { id, call } if toward == Side::Agent => {
                let copy = lesson.copies.iter().position(|copy| *call.method.name() == copy.method);
                let copy = copy.filter(|_| topic(call) == Some(Topic::SetUp));
                let Some(at) = copy else { return StageResult::Pass };
                // The one before may have been content without an answer; to ask again would set up
                // another session.
                let outcome = lesson.copies.remove(at).outcome.unwrap_or_else(|| {
                    Outcome::error(code::INTERNAL_ERROR, "this was not answered the first time")
                });
                self.send(from, Side::Editor, Message::response(id.clone(), outcome));
                StageResult::Taken
            }
            Message::Notification(call) if lesson.repeats && call.is(acp::UPDATE) => {
                let said_before = session_of_call(call) == lesson.session
                    && !call.params.as_ref().is_some_and(is_state_update);
                if said_before { StageResult::Taken } else { StageResult::Pass }
            }
            _ => StageResult::Pass,
        }
    }

    /// On the way to a component: only what reaches it claims a session that nobody has.
    pub(super) fn replay_delivered(&mut self, hop: Hop, message: &Message) -> StageResult {
        if self.is_for_lost_session(hop, message) {
            return StageResult::Taken;
        }
        self.orphans.claim(hop.seat, message);
        StageResult::Pass
    }

    fn on_replay_answer(&mut self, seat: Seat, outcome: &Outcome) {
        let Some(lessons) = self.replay.by_seat.get_mut(seat) else { return };
        let lesson = lessons.current.take().map(|asked| asked.lesson);
        if let (Outcome::Error(error), Some(lesson)) = (outcome, &lesson) {
            let why = error.member("message").and_then(|it| Some(it.text()?.into_owned()));
            let why = why.unwrap_or_else(|| error.as_str().to_owned());
            let what = lesson
                .session
                .as_deref()
                .map_or("its login".to_owned(), |session| format!("session '{session}'"));
            let who = self.router.chain().describe(seat);
            self.warn(seat, format!("{who} could not take up {what} again: {why}"));
            if let Some(session) = lesson.session.as_ref().filter(|_| self.is_agent(seat)) {
                self.lose(seat, session, &why);
            }
        }
        self.replay_next(seat);
    }

    /// A component has learnt everything that it must know.
    fn resume(&mut self, seat: Seat) {
        self.with_broker(|it, cx| it.component_restarted(seat, cx));
        // Before what has waited for the component.
        self.send_closes(seat);
        let text = format!("{} is running again", self.router.chain().describe(seat));
        self.warn(seat, text);
        self.route(router::Event::Resumed(seat));
    }

    /// The agent does not know this session any more.
    fn lose(&mut self, seat: Seat, session: &SessionId, why: &str) {
        let chain = self.router.chain();
        let exit = self.router.last_exit(seat);
        let text = format!(
            "{} {} ({}) and was restarted; it could not take up session '{session}' again: \
             {why}. Start a new session",
            chain.describe(seat),
            exit.map_or("crashed", Exit::verb),
            exit.map(Exit::description).unwrap_or_default(),
        );
        self.replay.lost.insert(session.to_owned(), text);
        if self.replay.lost.len() > MAX_LOST {
            self.replay.lost.pop_first();
        }
        // The others still know it, and may be asked about it.
        if let Some(record) = self.sessions.record_mut(seat) {
            record.forget(session);
        }
        self.with_broker(|it, cx| it.session_lost(session, cx));
    }

    /// What is said to the agent about a session that it has lost, it would not understand. Its sender
    /// is told, once for each request.
    fn is_for_lost_session(&mut self, hop: Hop, message: &Message) -> bool {
        let Hop { seat: to, toward } = hop;
        if self.replay.lost.is_empty() || toward != Side::Agent || !self.is_agent(to) {
            return false;
        }
        let (Message::Request { call, .. } | Message::Notification(call)) = message else {
            return false;
        };
        let Some(session) = session_of_call(call) else { return false };
        // A component that tries to take the session up may succeed.
        if topic(call) == Some(Topic::SetUp) {
            self.replay.lost.remove(&session);
        }
        let Some(text) = self.replay.lost.get(&session) else { return false };
        if let Message::Request { id, .. } = message {
            // A lost session is closed without the agent.
            let outcome = match topic(call) == Some(Topic::End) {
                true => Outcome::Result(Json::EMPTY),
                false => Outcome::Error(error_object(code::NO_SUCH_SESSION, text, None)),
            };
            if let Outcome::Result(_) = outcome {
                self.replay.lost.remove(&session);
            }
            let message = Message::response(id.clone(), outcome);
            let hop = Hop { seat: to, toward: Side::Editor };
            self.inject(Stage::Replay, hop, message);
        }
        true
    }

    /// The next component in this seat has not begun to learn.
    pub(super) fn awaits_restart(&self, seat: Seat) -> bool {
        matches!(
            self.router.state(seat),
            Some(SeatState::Down { .. } | SeatState::Reinitializing { .. })
        )
    }
}
