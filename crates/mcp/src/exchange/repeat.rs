//! Retries and time limits of requests to a provider.
//!
//! Some old SDKs (sacp 10) lose the answer to a request that arrives right behind
//! `notifications/initialized`. So a request that may be asked twice is asked again when its provider
//! stays silent, and the first answer counts. If no answer comes at all, the consumer gets an error
//! that names the provider. All other requests, such as `tools/call`, are sent once and have no limit.
//!
//! `initialize` is sent once on each connection: MCP servers (rmcp) exit when they get a second one.
//! It is asked again on a new connection; see [`spare`](super::spare).

use router::{Level, Notice, Seat, Time};
use wire::message::error_object;
use wire::{Call, Id, Json, Message, Outcome, Side, code};

use super::talk::*;
use super::{Exchange, Step, Watch};
use crate::form::{Address, Answer, Form, Target, Way};
use crate::stateless::{DISCOVER, INITIALIZE, PING};

/// The pauses before each retry, in milliseconds.
const RETRIES: [u64; 4] = [1_000, 2_000, 4_000, 8_000];

/// The same for a connect. There are fewer, because each one opens a connection: the first that is
/// opened is used, and the others are closed.
const CONNECT_RETRIES: [u64; 2] = [5_000, 10_000];

/// The same for `initialize`, which needs a new connection for each retry.
const INITIALIZE_RETRIES: [u64; 2] = [5_000, 5_000];

/// How long a provider may stay silent altogether, in milliseconds. MCP clients of most agents wait
/// 30 s; their users should see our error, which names the provider, and not just a timeout.
pub(crate) const LIMIT: u64 = 25_000;

/// How long the answer to a connect that is not needed any more is waited for, so that the connection
/// can be closed.
pub(super) const LATE: u64 = 600_000;

/// A larger request is not kept for a retry.
const LARGEST: usize = 64 * 1024;

/// A request that is asked again while its provider stays silent.
#[derive(Debug)]
pub struct Repeat {
    pub what: What,
    /// The pauses before the next retries.
    pauses: &'static [u64],
    /// The retries so far: their ids, and the `requestId` or the connection id that each has.
    pub copies: Vec<(Id, String)>,
    /// The error to a retry of `initialize`: a server may refuse a second one, and still answer the
    /// first.
    refused: Option<Outcome>,
}

/// How to send a request again.
#[derive(Debug)]
pub enum What {
    Say {
        form: Form,
        server: String,
        connection: String,
        call: Call,
    },
    Connect {
        form: Form,
        server: String,
    },
    /// `initialize`, on a new connection.
    Initialize {
        form: Form,
        server: String,
        call: Call,
    },
}

impl What {
    /// A request that may be sent to the provider again. `None` if it may not.
    pub fn say(form: Form, server: &str, connection: &str, call: &Call) -> Option<What> {
        let small =
            |call: &Call| call.params.as_ref().is_none_or(|it| it.as_str().len() <= LARGEST);
        if !small(call) {
            return None;
        }
        let server = server.to_owned();
        if call.is(INITIALIZE) {
            let call = call.detached();
            return form.connects().then_some(What::Initialize { form, server, call });
        }
        may_repeat(call).then(|| What::Say {
            form,
            server,
            connection: connection.to_owned(),
            call: call.detached(),
        })
    }

    /// The request once more, and the id of its operation or connection, which is a new one. For
    /// `initialize` it is the request to open another connection.
    fn again(&self, number: u64, id: &Id) -> (Call, String) {
        let tag = format!("mcp-over-acp:{number}");
        let call = match self {
            What::Say { form, server, connection, call } => {
                let address = Address { server, connection, request: &tag };
                form.say(Way::ToServer, address, Some(id), call)
            }
            What::Connect { form, server } | What::Initialize { form, server, .. } => {
                form.connect(server, &tag)
            }
        };
        (call, tag)
    }
}

/// Whether asking a server twice, on one connection, does what asking it once does.
pub(crate) fn may_repeat(call: &Call) -> bool {
    let method = call.method.name();
    method == PING || method == DISCOVER || method.ends_with("/list")
}

/// Whether a request has to be answered within [`LIMIT`].
pub(crate) fn has_limit(call: &Call) -> bool {
    may_repeat(call) || call.is(INITIALIZE)
}

/// The error for a client whose server has not answered.
pub(crate) fn silence(provider: &str, method: &str, server: &str) -> Json {
    let why = format!(
        "{provider} did not answer {method} for its MCP server '{server}' within {} s; go on without \
         this server, or restart the chain",
        LIMIT / 1000
    );
    error_object(code::INTERNAL_ERROR, &why, None)
}

impl Exchange {
    /// Whether a request, or a retry of one, is sent again if it is not answered. For tests.
    pub fn repeats(&self, seat: Seat, id: &Id) -> bool {
        let key = (seat, id.clone());
        self.talks.repeats.contains_key(&key) || self.talks.copies.contains_key(&key)
    }

    /// Waits for the answer to a question: until `limit`, and with retries if it may be asked again.
    pub(super) fn expect(
        &mut self,
        now: Time,
        (seat, id): (Seat, &Id),
        question: Question,
        limit: Option<Time>,
        what: Option<What>,
    ) {
        let key = (seat, id.detached());
        if let Some(limit) = limit {
            self.talks.limits.insert(key.clone(), limit);
        }
        if let Some(what) = what {
            let pauses: &[u64] = match what {
                What::Connect { .. } => &CONNECT_RETRIES,
                What::Initialize { .. } => &INITIALIZE_RETRIES,
                What::Say { .. } => &RETRIES,
            };
            let repeat = Repeat { what, pauses, copies: Vec::new(), refused: None };
            self.talks.repeats.insert(key.clone(), repeat);
            self.talks.await_retry(now, &key);
        }
        self.watched.insert(key, Watch::Question(question));
    }

    /// A provider has answered. Gives the id of the question that this decides: the id itself, or that
    /// of the first try. `None` for an answer that decides nothing.
    pub(super) fn first_try(
        &mut self,
        now: Time,
        seat: Seat,
        id: Id,
        outcome: &Outcome,
        steps: &mut Vec<Step>,
    ) -> Option<Id> {
        let key = (seat, id.clone());
        let copy = self.talks.copies.get(&key).cloned();
        let first = (seat, copy.clone().unwrap_or_else(|| key.1.clone()));
        let Some(repeat) = self.talks.repeats.get_mut(&first) else { return Some(id) };
        let failed = matches!(outcome, Outcome::Error(_));
        if copy.is_some() && matches!(repeat.what, What::Initialize { .. }) && failed {
            repeat.refused = Some(outcome.clone());
            return None;
        }
        let repeat = self.talks.forget_repeat(&first)?;
        match repeat.what {
            What::Connect { .. } => {
                if let Some(Watch::Question(question)) = self.watched.remove(&first) {
                    self.expect_late(now, &first, repeat.copies, question, Some(&key.1));
                }
                Some(id)
            }
            What::Initialize { .. } => {
                self.choose_connection(now, &first, repeat, &key.1, steps);
                Some(first.1.clone())
            }
            What::Say { .. } => Some(first.1.clone()),
        }
    }

    /// Of several connects one has been answered, or none in time. It takes over the question; the
    /// connections that the others open are closed.
    pub(super) fn expect_late(
        &mut self,
        now: Time,
        first: &(Seat, Id),
        copies: Vec<(Id, String)>,
        question: Question,
        answered: Option<&Id>,
    ) {
        let Question::Connect { talk, form, asked, alike, chosen } = question else { return };
        let tries = copies.into_iter().chain([(first.1.clone(), chosen)]);
        for (id, chosen) in tries {
            let key = (first.0, id);
            let question = if answered == Some(&key.1) {
                let (asked, alike) = (asked.clone(), alike && key == *first);
                Question::Connect { talk, form, asked, alike, chosen }
            } else {
                self.talks.limits.insert(key.clone(), now.plus(LATE));
                Question::Late { form, chosen }
            };
            self.watched.insert(key, Watch::Question(question));
        }
    }

    /// What a provider says of a retry is about the first try.
    pub(super) fn about_first_try(&self, seat: Seat, target: Target, call: Call) -> (Target, Call) {
        let Target::Operation { server, request } = target else { return (target, call) };
        let found = self.talks.repeats.iter().find_map(|((whose, first), repeat)| {
            let known = *whose == seat && repeat.copies.iter().any(|(_, tag)| *tag == request);
            known.then(|| self.request_of(seat, first)).flatten()
        });
        let Some(request) = found else {
            return (Target::Operation { server, request }, call);
        };
        let params = call.params.map(|it| it.with_member("requestId", &Json::string(&request)));
        (Target::Operation { server, request }, Call { params, ..call })
    }

    /// The `requestId` of a question.
    fn request_of(&self, seat: Seat, id: &Id) -> Option<String> {
        match self.watched.get(&(seat, id.clone()))? {
            Watch::Question(
                Question::Say { request, .. }
                | Question::Trial { request, .. }
                | Question::Passed { request, .. },
            ) => Some(request.clone()),
            _ => None,
        }
    }

    /// Does what is due: gives up, or asks again.
    pub(super) fn talks_tick(&mut self, now: Time, steps: &mut Vec<Step>) {
        for key in self.talks.limits.take_due(now) {
            self.give_up(now, key, steps);
        }
        self.give_up_waiting(now, steps);
        for first in self.talks.retries.take_due(now) {
            self.ask_again(now, first, steps);
        }
    }

    fn ask_again(&mut self, now: Time, first: (Seat, Id), steps: &mut Vec<Step>) {
        let number = self.talks.fresh();
        let id = Id::string(&format!("m:{number}"));
        self.talks.await_retry(now, &first);
        let Some(repeat) = self.talks.repeats.get_mut(&first) else { return };
        let (call, tag) = repeat.what.again(number, &id);
        let seat = first.0;
        if let What::Initialize { form, .. } = repeat.what {
            return self.open_spare(now, first, (id, form, tag), call, steps);
        }
        repeat.copies.push((id.detached(), tag));
        let text = format!(
            "{} is silent: {} is sent again",
            self.chain.describe(seat),
            call.method.name()
        );
        steps.push(Step::Report(Notice { level: Level::Debug, seat, text }));
        self.talks.copies.insert((seat, id.detached()), first.1);
        deliver(seat, Side::Editor, Message::Request { id, call }, steps);
    }

    /// A provider has stayed silent for too long.
    fn give_up(&mut self, now: Time, key: (Seat, Id), steps: &mut Vec<Step>) {
        self.talks.limits.remove(&key);
        let repeat = self.talks.forget_repeat(&key);
        if let Some(repeat) = &repeat {
            self.close_spares(now, key.0, repeat, steps);
        }
        let Some(Watch::Question(question)) = self.watched.remove(&key) else { return };
        let (seat, id) = (key.0, key.1.clone());
        let server = question.talk().and_then(|talk| self.talks.all.get(&talk));
        let server = match &question {
            Question::Trial { server, .. } | Question::Passed { server, .. } => {
                Some(server.clone())
            }
            _ => server.map(|talk| talk.server.clone()),
        };
        let server = server.and_then(|key| self.servers.get(&key)).map(|it| it.name.clone());
        let server = &server.unwrap_or_default();
        let method = match (&repeat, &question) {
            (Some(Repeat { what: What::Say { call, .. }, .. }), _) => {
                call.method.name().into_owned()
            }
            (_, Question::Hello { .. }) => INITIALIZE.to_owned(),
            (_, Question::Say { call, .. }) if call.is(INITIALIZE) => INITIALIZE.to_owned(),
            _ => "a request".to_owned(),
        };
        let error = silence(&self.chain.describe(seat), &method, server);
        let refused = repeat.as_ref().and_then(|repeat| repeat.refused.clone());
        let outcome = refused.unwrap_or_else(|| Outcome::Error(error.clone()));
        match question {
            Question::LateHello { .. }
            | Question::Late { .. }
            | Question::Spare { .. }
            | Question::Goodbye => {}
            Question::Connect { talk, ref asked, .. } => {
                let asked = asked.clone();
                let copies = repeat.map(|repeat| repeat.copies).unwrap_or_default();
                self.expect_late(now, &key, copies, question, None);
                let error = silence(&self.chain.describe(seat), "the request to connect", server);
                self.on_closed(now, talk, asked, &error, steps);
            }
            Question::Discover { talk, then: Then::Open { asked } } => {
                self.on_closed(now, talk, asked, &error, steps);
            }
            Question::Discover { talk, then: Then::Hello { id, inner } } => {
                let outcome = self.failure(talk, inner.as_ref(), &error);
                answer(seat, id, outcome, steps);
            }
            Question::Hello { talk, .. } => self.on_hello(now, talk, outcome, steps),
            Question::Say { talk, form, inner, request, call, .. } => {
                self.talks.operations.remove(&(seat, request));
                if call.is(INITIALIZE) {
                    if let Some(talk) = self.talks.all.get_mut(&talk) {
                        talk.unanswered = true;
                    }
                    let late = Question::LateHello { talk, form, call };
                    self.expect(now, (seat, &id), late, Some(now.plus(LATE)), None);
                }
                let Outcome::Error(error) = outcome else { return };
                let outcome = self.failure(talk, inner.as_ref(), &error);
                answer(seat, id, outcome, steps);
            }
            Question::Trial { .. } | Question::Passed { .. } => {
                answer(seat, id, Outcome::Error(backend_failed(&error)), steps);
            }
        }
    }

    /// Answers requests that have waited for too long to be said to the provider at all.
    fn give_up_waiting(&mut self, now: Time, steps: &mut Vec<Step>) {
        let late = |item: &mut Item| item.until.is_some_and(|until| until <= now);
        let mut over: Vec<(u64, Item)> = Vec::new();
        for number in self.talks.waits.take_due(now) {
            let talk = self.talks.all.get_mut(&number);
            let Some(waiting) = talk.and_then(Talk::waiting_mut) else { continue };
            over.extend(waiting.extract_if(.., late).map(|item| (number, item)));
            if let Some(next) = waiting.iter().filter_map(|item| item.until).min() {
                self.talks.waits.insert(number, next);
            }
        }
        for (number, item) in over {
            let (Some(id), Some(talk)) = (item.id, self.talks.all.get(&number)) else { continue };
            let seat = talk.seat;
            let server = self.servers.get(&talk.server).map_or("", |server| &server.name);
            let provider = self.chain.describe(seat);
            let error = silence(&provider, &item.call.method.name(), server);
            let outcome = self.failure(number, item.inner.as_ref(), &error);
            answer(seat, id, outcome, steps);
        }
    }

    /// The answer to a consumer whose request the server has not answered.
    fn failure(&self, talk: u64, inner: Option<&Id>, error: &Json) -> Outcome {
        let talk = self.talks.all.get(&talk);
        let server = talk.and_then(|talk| self.servers.get(&talk.server));
        match (talk, server) {
            (Some(talk), Some(server)) if !matches!(talk.consumer, Consumer::Stateless) => {
                close(talk, server, inner, Answer::Said(Outcome::Error(error.clone())))
            }
            _ => Outcome::Error(backend_failed(error)),
        }
    }
}

impl Talks {
    /// When something of this is due.
    pub fn deadline(&self) -> Option<Time> {
        let deadlines = [self.limits.first(), self.retries.first(), self.waits.first()];
        deadlines.into_iter().flatten().min()
    }

    /// Waits for the next retry of a request, if there is one.
    fn await_retry(&mut self, now: Time, first: &(Seat, Id)) {
        let Some(repeat) = self.repeats.get_mut(first) else { return };
        if let Some((pause, rest)) = repeat.pauses.split_first() {
            repeat.pauses = rest;
            self.retries.insert(first.clone(), now.plus(*pause));
        }
    }

    /// Something waits for a conversation to be open, until then.
    pub fn await_opening(&mut self, number: u64, until: Option<Time>) {
        if let Some(until) = until.filter(|_| !self.waits.contains(&number)) {
            self.waits.insert(number, until);
        }
    }

    /// A request is not asked again.
    pub fn forget_repeat(&mut self, first: &(Seat, Id)) -> Option<Repeat> {
        let repeat = self.repeats.remove(first)?;
        self.retries.remove(first);
        for (copy, _) in &repeat.copies {
            self.copies.remove(&(first.0, copy.clone()));
        }
        Some(repeat)
    }
}
