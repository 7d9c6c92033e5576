//! How a component fails, what becomes of it, and how the next one in its seat learns.

use std::collections::VecDeque;

use router::{Exit, How, Life, Plan, Seat};
use wire::message::error_object;
use wire::{Call, Id, Json, Message, Outcome, Side, code};

use crate::event::Action;
use crate::policy::{Restart, Restarts, Then};
use crate::record::{Copy, Record, SetUp};
use crate::stages;
use crate::supervisor::Supervisor;
use crate::topic::{Resumption, Topic, is_state, session_of_call, topic};

/// Of so many lost sessions it is remembered why they are; of others the agent itself may say that it does
/// not know them.
const MOST_LOST: usize = 1024;

/// Why nobody can be told again of a session.
const NOT_KEPT: &str =
    "the request that set it up was too long, or too many sessions ago, to be kept";

/// What a component that was restarted is told: one lesson after the other.
#[derive(Debug, Default)]
pub struct Lessons {
    waiting: VecDeque<Lesson>,
    current: Option<Box<Asked>>,
}

impl Lessons {
    /// The method of the request that it is to answer.
    pub fn method(&self) -> String {
        self.current.as_ref().map(|it| it.method()).unwrap_or_default()
    }
}

/// What a component that learns is asked, under which id.
#[derive(Debug)]
pub struct Asked {
    id: Id,
    lesson: Lesson,
}

impl Asked {
    pub fn method(&self) -> String {
        self.lesson.call.method.name().into_owned()
    }
}

/// Something that the new one in a seat is told again.
#[derive(Debug, Clone)]
pub struct Lesson {
    call: Call,
    session: Option<String>,
    /// What the old one asked its successor for it: the new one gets the same answers.
    copies: Vec<Copy>,
    /// What it says of this session meanwhile has been said before.
    repeats: bool,
}

impl SetUp {
    /// What a new proxy is told of a session.
    fn lesson(&self) -> Lesson {
        Lesson {
            call: self.call.clone(),
            session: Some(self.session.clone()),
            copies: self.copies.clone(),
            repeats: false,
        }
    }
}

enum Verdict {
    /// Nobody sits there any more.
    Ignore,
    /// The chain ends.
    Stop,
    Restart {
        delay: u64,
    },
    Bypass,
}

impl Supervisor {
    /// A component has ended.
    pub(crate) fn on_left(&mut self, seat: Seat, why: Exit, actions: &mut Vec<Action>) {
        let verdict = self.judge(seat);
        // Before anything is said in the place of the component: that is not its own doing.
        let crashed_on = self.blames.get_mut(seat).and_then(|it| it.crashed(&why));
        self.explain_stop(seat, &verdict, actions);
        let untold = self.records.get(seat).map(Record::untold).unwrap_or_default();
        if let How::Uncancellable { .. } = why.how {
            self.honour_cancellations(seat, actions);
        }
        match verdict {
            Verdict::Ignore => {}
            Verdict::Stop => {
                self.end_turns(seat, &why, true, actions);
                self.with_exchange(actions, |it, _, steps| it.left(seat, steps));
                self.route(router::Event::Left { seat, why }, actions);
            }
            Verdict::Restart { delay } => {
                let text = "is being restarted";
                let attempts = self.restarts.get(seat).map_or(0, Restarts::attempts);
                let plan = Plan::Restart { at: self.now.plus(delay), attempts };
                self.part(seat, why.clone(), plan, text, actions);
                if let Some(kind) = crashed_on {
                    self.blame(seat, kind, actions);
                }
                self.adopt_all(seat, untold, actions);
                self.with_exchange(actions, |it, now, steps| it.parted(now, seat, steps));
            }
            Verdict::Bypass => {
                let text = "is left out from now on";
                self.part(seat, why, Plan::Bypass, text, actions);
                self.adopt_all(seat, untold, actions);
                if let Some(record) = self.records.get_mut(seat) {
                    *record = Record::default();
                }
                self.with_exchange(actions, |it, now, steps| it.bypassed(now, seat, steps));
                self.route(router::Event::Bypassed(seat), actions);
            }
        }
    }

    /// Sends a message from the place of this stage.
    fn send(&mut self, to: Seat, toward: Side, message: Message, actions: &mut Vec<Action>) {
        self.send_from(stages::Stage::Lessons, to, toward, message, actions);
    }

    fn judge(&mut self, seat: Seat) -> Verdict {
        let now = self.now;
        let random = self.random();
        let can = self.can_take_up(seat);
        let Some(policy) = self.policy(seat) else { return Verdict::Stop };
        let then = match policy.then {
            Then::Bypass => Verdict::Bypass,
            Then::Stop => Verdict::Stop,
        };
        if self.router.is_ending() {
            return Verdict::Stop;
        }
        // What does not even start is a mistake to be corrected, not an accident to be survived. Only a
        // component that the user has named may be left out: until a component has answered `initialize`,
        // nobody knows whether it contains a guard.
        let may_be_left_out = policy.restart == Restart::Never && policy.named;
        if !self.router.has_stood(seat) && !may_be_left_out {
            return match self.router.life(seat) {
                Some(Life::Bypassed | Life::Closed) => Verdict::Ignore,
                _ => Verdict::Stop,
            };
        }
        let since = match self.router.life(seat) {
            Some(Life::Bypassed | Life::Closed) => return Verdict::Ignore,
            life => life.and_then(Life::live_since),
        };
        let wanted = match policy.restart {
            Restart::Never => false,
            Restart::IfItCan => can,
            Restart::Always => true,
        };
        let restarts = self.restarts.get_mut(seat);
        match restarts.and_then(|it| it.failed(now, since, policy.pace, random)) {
            Some(delay) if wanted => Verdict::Restart { delay },
            _ => then,
        }
    }

    /// Says in the log why a component is not left out although `bypass` was said of all components.
    fn explain_stop(&self, seat: Seat, verdict: &Verdict, actions: &mut Vec<Action>) {
        let Some(policy) = self.policy(seat).filter(|_| matches!(verdict, Verdict::Stop)) else {
            return;
        };
        let bypass = policy.restart == Restart::Never && policy.then == Then::Bypass;
        if bypass && !self.router.has_stood(seat) && !self.router.is_ending() {
            let who = self.router.chain().describe(seat);
            let text = format!(
                "{who} has never answered initialize, so it may contain a guard and is not left out. \
                 It would be left out if `bypass` were said of it by name"
            );
            self.warn(seat, text, actions);
        }
    }

    /// Would a fresh one be of use to those who have sessions with this one?
    fn can_take_up(&self, seat: Seat) -> bool {
        let Some(record) = self.records.get(seat) else { return false };
        match self.is_agent(seat) {
            false => true,
            true if record.has_unknown => false,
            true => record.is_idle() || self.resumption(seat).is_some(),
        }
    }

    /// How the agent takes sessions up, by its last answer to `initialize`.
    fn resumption(&self, seat: Seat) -> Option<Resumption> {
        match self.router.greeted(seat)?.answered.as_ref()? {
            Outcome::Result(result) => Resumption::offered(result),
            Outcome::Error(_) => None,
        }
    }

    /// A component is gone: the askers that wait for it are told, and the user.
    fn part(
        &mut self,
        seat: Seat,
        why: Exit,
        plan: Plan,
        consequence: &str,
        actions: &mut Vec<Action>,
    ) {
        let chain = self.router.chain();
        let told = format!(
            "{} {}: it {}. It {consequence}.",
            chain.describe(seat),
            why.verb(),
            why.what()
        );
        let line = format!("{}; it {consequence}", chain.obituary(seat, &why, None));
        self.warn(seat, line, actions);
        // The user already knows of a component that fails while it is being restarted.
        let again = plan != Plan::Bypass && !self.is_up(seat);
        if !again {
            self.tell_editor(seat, &told, actions);
        }
        self.end_turns(seat, &why, false, actions);
        actions.push(Action::End(seat));
        let asked = self.asked_by(seat);
        let (mut lost, mut stopped) = (Vec::new(), Vec::new());
        if let Some(record) = self.records.get_mut(seat) {
            // A session that the next one in this seat has never heard of must not begin.
            if plan != Plan::Bypass {
                lost = record.owed_set_ups();
            }
            stopped = record.stopped();
            record.parted();
        }
        if let Some(lessons) = self.lessons.get_mut(seat) {
            *lessons = Lessons::default();
        }
        self.route(router::Event::Parted { seat, why, plan, lost }, actions);
        self.orphan(seat, asked, actions);
        self.call_off_orphans(actions);
        self.cancel_on(seat, &stopped, actions);
    }

    /// It may have died with a cancellation in its hands: the next one who works on a prompt of that
    /// session is told. That need not be its successor, which may have come when the prompt had passed.
    fn cancel_on(&mut self, seat: Seat, sessions: &[String], actions: &mut Vec<Action>) {
        for session in sessions {
            let works = |at: Seat| {
                let record = self.records.get(at).filter(|_| at > seat && self.is_up(at))?;
                let prompts = &record.prompts;
                let prompt = prompts.values().find(|it| it.session == *session)?;
                Some((at, prompt.cancelled.is_some()))
            };
            let next = self.router.chain().seats().find_map(works);
            if let Some((next, false)) = next {
                self.send(next, Side::Agent, cancellation(session), actions);
            }
        }
    }

    /// What a component that is gone had asked the agent to do, and nobody waits for, is not to be
    /// done: the question itself is taken back by the router, and the turn is cancelled.
    fn call_off_orphans(&mut self, actions: &mut Vec<Action>) {
        for seat in self.router.chain().seats().collect::<Vec<_>>() {
            let router = &self.router;
            let Some(record) = self.records.get_mut(seat) else { continue };
            record.cancelled.retain(|id| router.owes(seat, id));
            let orphans: Vec<_> =
                record.prompts.extract_if(.., |_, it| !router.owes(seat, &it.id)).collect();
            for (_, prompt) in orphans {
                self.send(seat, Side::Agent, cancellation(&prompt.session), actions);
            }
        }
    }

    /// A component that does not stop a turn when it is told to is given up; but first the prompts are answered
    /// as they would be by a component that stops.
    fn honour_cancellations(&mut self, seat: Seat, actions: &mut Vec<Action>) {
        let Some(record) = self.records.get_mut(seat) else { return };
        let prompts = record.prompts.extract_if(.., |_, it| it.cancelled.is_some());
        let stopped = Json::object([("stopReason", Some(Json::string("cancelled")))]);
        let ids: Vec<Id> = prompts.map(|(_, it)| it.id).collect();
        for id in ids {
            let answer = Message::response(id, Outcome::Result(stopped.clone()));
            self.supply(seat, Side::Editor, answer, actions);
        }
    }

    /// Starts those whose time has come.
    pub(crate) fn start_what_is_due(&mut self, actions: &mut Vec<Action>) {
        for seat in self.router.chain().seats().collect::<Vec<_>>() {
            let is_due = |life: &Life| matches!(life, Life::Away { at, .. } if *at <= self.now);
            if self.router.life(seat).is_some_and(is_due) && !self.router.is_ending() {
                actions.push(Action::Start(seat));
                self.route(router::Event::Returned(seat), actions);
            }
        }
    }

    /// A fresh component has answered its greeting.
    pub(crate) fn on_returned(&mut self, seat: Seat, outcome: Outcome, actions: &mut Vec<Action>) {
        match outcome {
            Outcome::Error(error) => {
                let text = error.member("message").and_then(|it| Some(it.text()?.into_owned()));
                let how = How::Refused(text.unwrap_or_else(|| error.as_str().to_owned()));
                self.on_left(seat, Exit::new(how), actions);
            }
            Outcome::Result(_) => {
                let lessons = match self.is_agent(seat) {
                    true => self.lessons_for_agent(seat, actions),
                    false => self.lessons_for_proxy(seat, actions),
                };
                if let Some(taught) = self.lessons.get_mut(seat) {
                    *taught = Lessons { waiting: lessons, current: None };
                }
                self.teach(seat, actions);
            }
        }
    }

    fn lessons_for_proxy(&mut self, seat: Seat, actions: &mut Vec<Action>) -> VecDeque<Lesson> {
        let sessions = || self.records.get(seat).into_iter().flat_map(Record::sessions);
        let (kept, missing): (Vec<_>, Vec<_>) = sessions().partition(|it| it.kept);
        let lessons = kept.into_iter().map(SetUp::lesson).collect();
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
            self.warn(seat, text.clone(), actions);
            self.tell_editor(seat, &text, actions);
        }
        lessons
    }

    /// An agent is asked to take its sessions up. One that does not offer that has lost them.
    fn lessons_for_agent(&mut self, seat: Seat, actions: &mut Vec<Action>) -> VecDeque<Lesson> {
        let resumption = self.resumption(seat);
        let Some(record) = self.records.get(seat) else { return VecDeque::new() };
        let login = record.login.clone();
        let login =
            login.map(|call| Lesson { call, session: None, copies: Vec::new(), repeats: false });
        let sessions = record.sessions().to_vec();
        let Some(resumption) = resumption else {
            for set_up in sessions {
                self.lose(seat, &set_up.session, "it does not offer that", actions);
            }
            return login.into_iter().collect();
        };
        let (sessions, missing): (Vec<_>, Vec<_>) = sessions.into_iter().partition(|it| it.kept);
        for set_up in missing {
            self.lose(seat, &set_up.session, NOT_KEPT, actions);
        }
        let sessions = sessions.into_iter().map(|set_up| Lesson {
            call: resumption.call(&set_up.call, &set_up.session),
            session: Some(set_up.session),
            copies: Vec::new(),
            repeats: resumption == Resumption::Load,
        });
        login.into_iter().chain(sessions).collect()
    }

    /// Tells a component the next thing it must know; when it knows all, it can be spoken to.
    fn teach(&mut self, seat: Seat, actions: &mut Vec<Action>) {
        if !self.router.learns(seat) {
            return;
        }
        self.router.renew_lesson(self.now, seat);
        self.asked += 1;
        let id = Id::string(&format!("r:{}", self.asked));
        let Some(lessons) = self.lessons.get_mut(seat) else { return };
        let next = lessons.waiting.pop_front();
        lessons.current = next.map(|lesson| Box::new(Asked { id: id.clone(), lesson }));
        match &lessons.current {
            Some(asked) => {
                let call = asked.lesson.call.clone();
                self.send(seat, Side::Agent, Message::Request { id, call }, actions);
            }
            None => self.resume(seat, actions),
        }
    }

    /// Something that a component says while it learns may be part of that.
    pub(crate) fn on_lesson(
        &mut self,
        from: Seat,
        toward: Side,
        message: Message,
        actions: &mut Vec<Action>,
    ) -> Option<Message> {
        if !self.router.learns(from) {
            return Some(message);
        }
        let lessons = self.lessons.get_mut(from);
        let Some(asked) = lessons.and_then(|it| it.current.as_mut()) else { return Some(message) };
        let lesson = &mut asked.lesson;
        match message {
            Message::Response { id, outcome, .. } if id == asked.id => {
                self.on_learnt(from, outcome, actions);
                None
            }
            Message::Request { id, call } if toward == Side::Agent => {
                let copy = lesson.copies.iter().position(|copy| *call.method.name() == copy.method);
                let copy = copy.filter(|_| topic(&call) == Some(Topic::SetUp));
                let Some(at) = copy else { return Some(Message::Request { id, call }) };
                // The one before may have been content without an answer; to ask again would set up
                // another session.
                let outcome = lesson.copies.remove(at).outcome.unwrap_or_else(|| {
                    Outcome::error(code::INTERNAL_ERROR, "this was not answered the first time")
                });
                self.send(from, Side::Editor, Message::response(id, outcome), actions);
                None
            }
            Message::Notification(call) if lesson.repeats && call.is("session/update") => {
                let said_before = session_of_call(&call) == lesson.session
                    && !call.params.as_ref().is_some_and(is_state);
                (!said_before).then_some(Message::Notification(call))
            }
            message => Some(message),
        }
    }

    fn on_learnt(&mut self, seat: Seat, outcome: Outcome, actions: &mut Vec<Action>) {
        let Some(lessons) = self.lessons.get_mut(seat) else { return };
        let lesson = lessons.current.take().map(|asked| asked.lesson);
        if let (Outcome::Error(error), Some(lesson)) = (&outcome, &lesson) {
            let why = error.member("message").and_then(|it| Some(it.text()?.into_owned()));
            let why = why.unwrap_or_else(|| error.as_str().to_owned());
            let what = lesson
                .session
                .as_deref()
                .map_or("its login".to_owned(), |session| format!("session '{session}'"));
            let who = self.router.chain().describe(seat);
            self.warn(seat, format!("{who} could not take up {what} again: {why}"), actions);
            if let Some(session) = lesson.session.as_deref().filter(|_| self.is_agent(seat)) {
                self.lose(seat, session, &why, actions);
            }
        }
        self.teach(seat, actions);
    }

    /// It knows what it must know.
    fn resume(&mut self, seat: Seat, actions: &mut Vec<Action>) {
        self.with_exchange(actions, |it, now, steps| it.returned(now, seat, steps));
        // Before what has waited for the component.
        self.send_closes(seat, actions);
        let text = format!("{} is running again", self.router.chain().describe(seat));
        self.warn(seat, text, actions);
        self.route(router::Event::Resumed(seat), actions);
    }

    /// The agent does not know this session any more.
    fn lose(&mut self, seat: Seat, session: &str, why: &str, actions: &mut Vec<Action>) {
        let chain = self.router.chain();
        let cause = self.router.last_exit(seat).map(Exit::what);
        let text = format!(
            "{} crashed ({}) and was restarted; it could not take up session '{session}' again: \
             {why}. Start a new session",
            chain.describe(seat),
            cause.unwrap_or_default(),
        );
        self.lost.insert(session.to_owned(), text);
        if self.lost.len() > MOST_LOST {
            self.lost.pop_first();
        }
        // The others still know it, and may be asked about it.
        if let Some(record) = self.records.get_mut(seat) {
            record.forget(session);
        }
        self.with_exchange(actions, |it, now, steps| it.session_lost(now, session, steps));
    }

    /// What is said to the agent about a session that it has lost, it would not understand. Its sender
    /// is told, once for each request.
    pub(crate) fn is_for_lost_session(
        &mut self,
        to: Seat,
        toward: Side,
        message: &Message,
    ) -> bool {
        if self.lost.is_empty() || toward != Side::Agent || !self.is_agent(to) {
            return false;
        }
        let (Message::Request { call, .. } | Message::Notification(call)) = message else {
            return false;
        };
        let Some(session) = session_of_call(call) else { return false };
        // Who tries to take it up may succeed.
        if topic(call) == Some(Topic::SetUp) {
            self.lost.remove(&session);
        }
        let Some(text) = self.lost.get(&session) else { return false };
        if let Message::Request { id, .. } = message {
            // What is lost is easily closed.
            let outcome = match topic(call) == Some(Topic::End) {
                true => Outcome::Result(Json::EMPTY),
                false => Outcome::Error(error_object(code::NO_SUCH_SESSION, text, None)),
            };
            if let Outcome::Result(_) = outcome {
                self.lost.remove(&session);
            }
            let message = Message::response(id.clone(), outcome);
            let toward = Side::Editor;
            self.inject(stages::Stage::Lessons, to, toward, message);
        }
        true
    }

    /// The next component in this seat has not begun to learn.
    pub(crate) fn is_untaught(&self, seat: Seat) -> bool {
        matches!(self.router.life(seat), Some(Life::Away { .. } | Life::Returning { .. }))
    }

    /// There is no component in this seat.
    pub(crate) fn is_vacant(&self, seat: Seat) -> bool {
        self.router.life(seat).is_some_and(Life::is_vacant)
    }

    /// xorshift64: all that the jitter of restarts needs.
    fn random(&mut self) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random
    }
}

fn cancellation(session: &str) -> Message {
    let params = Json::object([("sessionId", Some(Json::string(session)))]);
    Message::notification("session/cancel", params)
}
