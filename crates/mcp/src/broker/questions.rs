//! Requests whose answers are waited for, by the component that gives them and by their ids; and the retries
//! of those that may be asked twice.

use std::collections::BTreeMap;

use acp_wire::{Call, Id, Outcome};
use router::{Seat, Time};

use super::may_repeat;
use super::question::{Question, Watch};
use crate::deadlines::Deadlines;
use crate::form::{Address, Direction, Form};
use crate::stateless::INITIALIZE;

/// The pauses before each retry, in milliseconds.
const RETRIES: [u64; 4] = [1_000, 2_000, 4_000, 8_000];

/// The same for a connect. There are fewer, because each one opens a connection: the first that is
/// opened is used, and the others are closed.
const CONNECT_RETRIES: [u64; 2] = [5_000, 10_000];

/// The same for `initialize`, which needs a new connection for each retry.
const INITIALIZE_RETRIES: [u64; 2] = [5_000, 5_000];

/// A larger request is not kept for a retry.
const LARGEST: usize = 64 * 1024;

/// A request: the component that was asked, and the id.
pub type Key = (Seat, Id);

#[derive(Debug, Default)]
pub struct Questions {
    open: BTreeMap<Key, Watch>,
    /// Until when questions may be answered, if they have a limit.
    limits: Deadlines<Key>,
    /// Questions that are asked again, by the id of the first try.
    repeats: BTreeMap<Key, Repeat>,
    /// When the next retry of each is due.
    retries: Deadlines<Key>,
    /// The first try of each retry.
    copies: BTreeMap<Key, Id>,
}

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
    pub refused: Option<Outcome>,
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
    pub fn again(&self, number: u64, id: &Id) -> (Call, String) {
        let tag = format!("mcp-over-acp:{number}");
        let call = match self {
            What::Say { form, server, connection, call } => {
                let address = Address { server, connection, request: &tag };
                form.say(Direction::ToServer, address, Some(id), call)
            }
            What::Connect { form, server } | What::Initialize { form, server, .. } => {
                form.connect(server, &tag)
            }
        };
        (call, tag)
    }
}

impl Questions {
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Waits for the answer to a request.
    pub fn watch(&mut self, seat: Seat, id: &Id, watch: Watch) {
        self.open.insert((seat, id.detached()), watch);
    }

    /// Waits for the answer to a question: until `limit`, and with retries if it may be asked again.
    pub fn expect(
        &mut self,
        now: Time,
        (seat, id): (Seat, &Id),
        question: Question,
        limit: Option<Time>,
        what: Option<What>,
    ) {
        let key = (seat, id.detached());
        if let Some(limit) = limit {
            self.limits.insert(key.clone(), limit);
        }
        if let Some(what) = what {
            let pauses: &[u64] = match what {
                What::Connect { .. } => &CONNECT_RETRIES,
                What::Initialize { .. } => &INITIALIZE_RETRIES,
                What::Say { .. } => &RETRIES,
            };
            let repeat = Repeat { what, pauses, copies: Vec::new(), refused: None };
            self.repeats.insert(key.clone(), repeat);
            self.await_retry(now, &key);
        }
        self.open.insert(key, Watch::Question(question));
    }

    /// The same for a question that is not asked again.
    pub fn put(&mut self, key: Key, question: Question, limit: Option<Time>) {
        if let Some(limit) = limit {
            self.limits.insert(key.clone(), limit);
        }
        self.open.insert(key, Watch::Question(question));
    }

    pub fn get(&self, key: &Key) -> Option<&Question> {
        match self.open.get(key)? {
            Watch::Question(question) => Some(question),
            _ => None,
        }
    }

    /// All questions to providers.
    pub fn iter(&self) -> impl Iterator<Item = (&Key, &Question)> {
        self.open.iter().filter_map(|(key, watch)| match watch {
            Watch::Question(question) => Some((key, question)),
            _ => None,
        })
    }

    /// A request is answered, or its answer is not waited for any more.
    pub fn take(&mut self, key: &Key) -> Option<Watch> {
        self.open.remove(key)
    }

    /// The same for a question to a provider.
    pub fn take_question(&mut self, key: &Key) -> Option<Question> {
        match self.open.remove(key)? {
            Watch::Question(question) => Some(question),
            _ => None,
        }
    }

    /// Takes the questions that fit. Their limits and retries stay.
    pub fn take_all(&mut self, fits: impl Fn(&Question) -> bool) -> Vec<(Key, Question)> {
        let fits = |watch: &Watch| matches!(watch, Watch::Question(it) if fits(it));
        let taken = self.open.extract_if(.., |_, watch| fits(watch));
        let taken = taken.filter_map(|(key, watch)| match watch {
            Watch::Question(question) => Some((key, question)),
            _ => None,
        });
        taken.collect()
    }

    /// A question has no limit any more.
    pub fn lift_limit(&mut self, key: &Key) {
        self.limits.remove(key);
    }

    /// A component is gone, and answers nothing any more. Gives the questions that it has left open.
    pub fn forget(&mut self, seat: Seat) -> Vec<Question> {
        self.limits.retain(|(whose, _)| *whose != seat);
        self.retries.retain(|(whose, _)| *whose != seat);
        self.repeats.retain(|(whose, _), _| *whose != seat);
        self.copies.retain(|(whose, _), _| *whose != seat);
        let gone = self.open.extract_if(.., |(whose, _), _| *whose == seat);
        let gone = gone.filter_map(|(_, watch)| match watch {
            Watch::Question(question) => Some(question),
            _ => None,
        });
        gone.collect()
    }

    /// When something of this is due.
    pub fn deadline(&self) -> Option<Time> {
        [self.limits.first(), self.retries.first()].into_iter().flatten().min()
    }

    /// Takes the questions whose time is over, without those that have been answered.
    pub fn take_overdue(&mut self, now: Time) -> Vec<Key> {
        self.limits.take_due(now)
    }

    /// Takes the questions that are to be asked again now.
    pub fn take_retries(&mut self, now: Time) -> Vec<Key> {
        self.retries.take_due(now)
    }

    /// Whether a request, or a retry of one, is sent again if it is not answered.
    pub fn is_repeated(&self, key: &Key) -> bool {
        self.repeats.contains_key(key) || self.copies.contains_key(key)
    }

    /// The first try of a retry.
    pub fn first_of(&self, key: &Key) -> Option<&Id> {
        self.copies.get(key)
    }

    pub fn repeat(&mut self, first: &Key) -> Option<&mut Repeat> {
        self.repeats.get_mut(first)
    }

    /// The first try of the retry that a provider knows by this `requestId`.
    pub fn first_by_tag(&self, seat: Seat, request: &str) -> Vec<&Id> {
        let has_tag = |repeat: &Repeat| repeat.copies.iter().any(|(_, tag)| tag == request);
        let of_seat = self.repeats.iter().filter(|((whose, _), _)| *whose == seat);
        of_seat.filter(|(_, repeat)| has_tag(repeat)).map(|((_, first), _)| first).collect()
    }

    /// What is asked again on one connection of a seat is asked on another one from now on.
    pub fn move_repeats(&mut self, seat: Seat, before: &str, after: &str) {
        let of_seat = self.repeats.iter_mut().filter(|((whose, _), _)| *whose == seat);
        for (_, repeat) in of_seat {
            if let What::Say { connection, .. } = &mut repeat.what
                && connection == before
            {
                *connection = after.to_owned();
            }
        }
    }

    /// A request is asked again, under this id; `tag` is its `requestId` or connection id.
    pub fn add_copy(&mut self, first: &Key, id: &Id, tag: String) {
        let Some(repeat) = self.repeats.get_mut(first) else { return };
        repeat.copies.push((id.detached(), tag));
        self.copies.insert((first.0, id.detached()), first.1.clone());
    }

    /// Waits for the next retry of a request, if there is one.
    pub fn await_retry(&mut self, now: Time, first: &Key) {
        let Some(repeat) = self.repeats.get_mut(first) else { return };
        if let Some((pause, rest)) = repeat.pauses.split_first() {
            repeat.pauses = rest;
            self.retries.insert(first.clone(), now.plus(*pause));
        }
    }

    /// A request is not asked again.
    pub fn forget_repeat(&mut self, first: &Key) -> Option<Repeat> {
        let repeat = self.repeats.remove(first)?;
        self.retries.remove(first);
        for (copy, _) in &repeat.copies {
            self.copies.remove(&(first.0, copy.clone()));
        }
        Some(repeat)
    }
}
