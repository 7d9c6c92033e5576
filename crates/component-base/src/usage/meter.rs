//! The state that is needed to read reports: the sums of each session, and the requests that wait for an answer.

use std::collections::BTreeMap;

use acp_proxy::{Id, Json, Message, Outcome, Side};

use super::{Certainty, Cost, Delta, Meaning, Reading, Reporting, Tokens, reports};
use crate::agents::{AgentInfo, AgentKind};
use crate::sessions::{Origin, Session, Sessions, is_repetition_of, text};

/// How many currencies of a session are remembered.
const MAX_CURRENCIES: usize = 8;

/// How many requests of the editor may wait for an answer. The ids of further ones are forgotten.
const MAX_OPEN: usize = 10_000;

/// Reads what an agent reports as consumed. Clones share the state.
///
/// The owner tells it about the sessions and prompts of the chain. [`MessageMeter`] does that for a component that
/// only observes messages.
#[derive(Debug, Clone, Default)]
pub struct Meter {
    agent: AgentKind,
    /// The user's word on what the number at the end of a turn means.
    meaning: Option<Meaning>,
    sessions: Sessions<SessionMeter>,
}

#[derive(Debug, Clone, Default)]
struct SessionMeter {
    reading: Reading,
    /// Whether the sums before `reading` are known: it is complete, or the session began with zero.
    has_base: bool,
    /// Whether `session/load` runs. The agent then repeats earlier messages.
    is_loading: bool,
    /// Whether the agent has worked since its last idle update with a report, in ACP version 2.
    has_worked: bool,
    /// Whether an idle update has reported the consumption of this turn.
    is_reported: bool,
}

impl Meter {
    /// A meter. `meaning` overrides what is known about the agent.
    pub fn new(meaning: Option<Meaning>) -> Meter {
        Meter { meaning, ..Meter::default() }
    }

    /// The agent has answered `initialize`.
    pub fn set_agent(&mut self, agent: AgentKind) {
        self.agent = agent;
    }

    /// What the agent reports.
    pub fn reporting(&self) -> Reporting {
        let reporting = Reporting::of(self.agent);
        match self.meaning {
            Some(_) => Reporting { meaning: self.meaning, calls: false, ..reporting },
            None => reporting,
        }
    }

    /// The editor loads a session. The updates before [`opened`](Meter::opened) are repetitions.
    pub fn loading(&self, session: &str) {
        self.sessions.with(session, |it| it.state.is_loading = true);
    }

    /// A session was set up. `reading` has the sums that the agent has reported before, if they are known. A new
    /// session begins with zero. In any other session without a reading, the first report is the base of the next ones,
    /// because an unknown part of it was consumed earlier.
    pub fn opened(&self, session: &str, origin: Origin, reading: Option<Reading>) {
        self.sessions.with(session, |it| {
            it.origin = origin;
            it.state.is_loading = false;
            let begins_with_zero = || (origin == Origin::New).then(Reading::default);
            if let Some(reading) = reading.or_else(begins_with_zero) {
                (it.state.reading, it.state.has_base) = (reading, true);
            }
        });
    }

    /// A session was made from another one. `reading` has the sums of the new session, or else of its parent, if they are
    /// known from elsewhere. Some agents go on with the sums of the parent, and others begin with zero: a report that is
    /// smaller than the one of the parent counts as a whole.
    pub fn forked(&self, session: &str, parent: &str, reading: Option<Reading>) {
        let of_parent = || {
            let reading = |it: &mut Session<SessionMeter>| {
                it.state.has_base.then(|| it.state.reading.clone())
            };
            self.sessions.with_known(parent, reading).flatten()
        };
        self.opened(session, Origin::Fork, reading.or_else(of_parent));
    }

    /// Whether a session is remembered.
    pub fn knows(&self, session: &str) -> bool {
        self.sessions.with_known(session, |_| ()).is_some()
    }

    /// Whether sessions were forgotten because there were too many.
    pub fn has_forgotten(&self) -> bool {
        self.sessions.has_forgotten()
    }

    /// A session is closed.
    pub fn closed(&self, session: &str) {
        self.sessions.close(session);
    }

    /// How many sessions are remembered.
    pub fn session_count(&self) -> usize {
        self.sessions.count()
    }

    /// The editor sends a prompt.
    pub fn prompted(&self, session: &str) {
        self.sessions.with(session, |it| {
            (it.state.has_worked, it.state.is_reported) = (true, false);
        });
    }

    /// What a `session/update` with these parameters reports as consumed.
    pub fn update(&self, params: &Json) -> Option<Delta> {
        let update = params.member("update")?;
        let kind = update.member("sessionUpdate")?;
        let session = || text(Some(params), "sessionId");
        match kind.text()?.as_ref() {
            "usage_update" => self.on_cost(session()?, reports::cost(&update)?),
            "state_update" => self.on_state(session()?, &update),
            "agent_message_chunk" if self.reporting().calls => {
                let tokens = reports::call_in_chunk(&update)?;
                let session = session()?;
                let is_loading = self.sessions.with(&session, |it| it.state.is_loading);
                let report = reports::Report { tokens, models: Vec::new() };
                (!is_loading).then(|| self.delta(session, report, self.certainty(Certainty::Exact)))
            }
            _ => None,
        }
    }

    /// What the answer to a prompt reports as consumed.
    pub fn answer(&self, session: &str, answer: &Json) -> Option<Delta> {
        let report = reports::end_of_turn(answer)?;
        // In ACP version 2, the idle update has the report.
        let is_reported = self.sessions.with(session, |it| it.state.is_reported);
        if is_reported { None } else { self.on_end_of_turn(session.to_owned(), report) }
    }

    fn on_state(&self, session: String, update: &Json) -> Option<Delta> {
        if !update.member("state")?.equals_text("idle") {
            self.sessions.with(&session, |it| it.state.has_worked = true);
            return None;
        }
        let report = reports::end_of_turn(update)?;
        // An agent may repeat its idle update.
        let is_end = self.sessions.with(&session, |it| {
            it.state.is_reported = true;
            std::mem::take(&mut it.state.has_worked) && !it.state.is_loading
        });
        if is_end { self.on_end_of_turn(session, report) } else { None }
    }

    fn on_end_of_turn(&self, session: String, report: reports::Report) -> Option<Delta> {
        let reporting = self.reporting();
        let certainty = match (self.agent, self.meaning, reporting.meaning) {
            (_, Some(Meaning::Call), _) | (_, None, Some(Meaning::Call)) => Certainty::AtLeast,
            (_, Some(_), _) => Certainty::Exact,
            // An agent that was not measured, or that reports more than it did then.
            (AgentKind::Other, None, _) | (_, None, None) => Certainty::Guess,
            (_, None, Some(_)) => Certainty::Exact,
        };
        match reporting.meaning {
            Some(Meaning::Session) => Some(self.on_sum(session, report, certainty)),
            // The calls have been counted.
            None if reporting.calls => None,
            _ => Some(self.delta(session, report, certainty)),
        }
    }

    /// The agent reports the tokens of the session so far.
    fn on_sum(&self, session: String, report: reports::Report, certainty: Certainty) -> Delta {
        let (tokens, certainty) = self.sessions.with(&session, |it| {
            let earlier = it.state.reading.tokens.replace(report.tokens);
            match (earlier, it.state.has_base) {
                (Some(earlier), _) => (report.tokens.since(&earlier), certainty),
                (None, true) => (report.tokens, certainty),
                (None, false) => (Tokens::default(), certainty.max(Certainty::AtLeast)),
            }
        });
        self.delta(session, reports::Report { tokens, models: Vec::new() }, certainty)
    }

    /// The agent reports the cost of the session so far.
    fn on_cost(&self, session: String, sum: Cost) -> Option<Delta> {
        let (micros, certainty, reading) = self.sessions.with(&session, |it| {
            let costs = &mut it.state.reading.cost;
            if !costs.contains_key(&sum.currency) && costs.len() >= MAX_CURRENCIES {
                return None;
            }
            let earlier = costs.insert(sum.currency.clone(), sum.micros);
            let (micros, certainty) = match earlier {
                _ if it.state.is_loading => return None,
                // A smaller sum is a new start.
                Some(earlier) if earlier > sum.micros => (sum.micros, Certainty::Exact),
                Some(earlier) => (sum.micros - earlier, Certainty::Exact),
                None if it.state.has_base => (sum.micros, Certainty::Exact),
                None => (0, Certainty::AtLeast),
            };
            Some((micros, certainty, it.state.reading.clone()))
        })?;
        Some(Delta {
            session,
            tokens: None,
            tokens_certainty: Certainty::Exact,
            models: Vec::new(),
            cost: Some(Cost { currency: sum.currency, micros }),
            cost_certainty: certainty,
            reading,
        })
    }

    fn certainty(&self, measured: Certainty) -> Certainty {
        if self.agent == AgentKind::Other { Certainty::Guess } else { measured }
    }

    fn delta(&self, session: String, report: reports::Report, certainty: Certainty) -> Delta {
        let reading = self.sessions.with(&session, |it| it.state.reading.clone());
        Delta {
            session,
            tokens: Some(report.tokens),
            tokens_certainty: certainty,
            models: report.models,
            cost: None,
            cost_certainty: Certainty::Exact,
            reading,
        }
    }
}

/// A [`Meter`] for a component that only observes messages ([`Proxy::observe`](acp_proxy::Proxy::observe)) and has no
/// handlers for the requests that it follows.
#[derive(Debug, Default)]
pub struct MessageMeter {
    meter: Meter,
    /// The requests of the editor that wait for an answer.
    open: BTreeMap<Id, OpenRequest>,
}

#[derive(Debug)]
enum OpenRequest {
    Initialize,
    /// A request that sets up a session, with the session that it names. For a fork, that is the parent.
    SetUp(Origin, Option<String>),
    Prompt(String),
    Close(String),
}

impl MessageMeter {
    /// The component was restarted, and has lost its open requests. It keeps the sums of the sessions.
    pub fn restart(&mut self) {
        self.open.clear();
    }

    /// What a message reports as consumed.
    pub fn observe(&mut self, from: Side, message: &Message) -> Option<Delta> {
        match (from, message) {
            (Side::Editor, Message::Request { id, call }) => {
                let session = || text(call.params.as_ref(), "sessionId");
                let request = match call.method.name().as_ref() {
                    "initialize" => OpenRequest::Initialize,
                    "session/new" if is_repetition_of(message) => {
                        OpenRequest::SetUp(Origin::Unknown, None)
                    }
                    "session/new" => OpenRequest::SetUp(Origin::New, None),
                    "session/load" => OpenRequest::SetUp(Origin::Load, session()),
                    "session/resume" => OpenRequest::SetUp(Origin::Resume, session()),
                    "session/fork" => OpenRequest::SetUp(Origin::Fork, session()),
                    "session/prompt" => OpenRequest::Prompt(session()?),
                    "session/close" | "session/delete" => OpenRequest::Close(session()?),
                    _ => return None,
                };
                self.on_request(id.detached(), request);
                None
            }
            (Side::Agent, Message::Notification(call)) if call.is("session/update") => {
                self.meter.update(call.params.as_ref()?)
            }
            (Side::Agent, Message::Response { id, outcome, .. }) => {
                let request = self.open.remove(id)?;
                self.on_answer(request, outcome)
            }
            _ => None,
        }
    }

    fn on_request(&mut self, id: Id, request: OpenRequest) {
        match &request {
            OpenRequest::Prompt(session) => self.meter.prompted(session),
            OpenRequest::SetUp(Origin::Load, Some(session)) => self.meter.loading(session),
            _ => {}
        }
        if self.open.len() >= MAX_OPEN {
            self.open.pop_first();
        }
        self.open.insert(id, request);
    }

    fn on_answer(&mut self, request: OpenRequest, outcome: &Outcome) -> Option<Delta> {
        match (request, outcome) {
            (OpenRequest::Initialize, Outcome::Result(answer)) => {
                self.meter.set_agent(AgentInfo::of_answer(answer).kind);
                None
            }
            (OpenRequest::SetUp(origin, asked), outcome) => {
                let created = match outcome {
                    Outcome::Result(answer) => text(Some(answer), "sessionId"),
                    Outcome::Error(_) => None,
                };
                match (origin, asked) {
                    (Origin::Fork, Some(parent)) => self.meter.forked(&created?, &parent, None),
                    (Origin::Fork, None) => self.meter.opened(&created?, origin, None),
                    (_, asked) => self.meter.opened(&created.or(asked)?, origin, None),
                }
                None
            }
            (OpenRequest::Prompt(session), Outcome::Result(answer)) => {
                self.meter.answer(&session, answer)
            }
            (OpenRequest::Close(session), Outcome::Result(_)) => {
                self.meter.closed(&session);
                None
            }
            _ => None,
        }
    }
}
