//! Decides which request passes, which one waits, and which one is refused. It has no clock and waits for nothing.

mod leftovers;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::num::NonZeroU32;
use std::time::Duration;

use super::bucket::{Bucket, Rate, Start};
use component_base::sessions::{Origin, Sessions, session_key};

/// How many tool calls of a session are remembered, to count each one once.
const MAX_CALLS: usize = 64;

const MINUTE: Duration = Duration::from_secs(60);

/// How many running terminals are remembered.
const MAX_TERMINALS: usize = 10_000;

/// What is limited.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A prompt.
    Prompt,
    /// A request for a tool: a permission, a file, a terminal, an MCP tool.
    ToolCall,
}

impl Kind {
    /// Both kinds.
    pub const ALL: [Kind; 2] = [Kind::Prompt, Kind::ToolCall];

    /// Its name in texts, in the plural.
    pub fn plural(self) -> &'static str {
        match self {
            Kind::Prompt => "prompts",
            Kind::ToolCall => "tool calls",
        }
    }
}

/// Whether a limit is for each session or for all of them together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// For each session.
    Session,
    /// For all sessions together.
    All,
}

/// The limits of one kind in one scope.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Requests per minute.
    pub rate: Option<Rate>,
    /// Requests at the same time.
    pub at_once: Option<NonZeroU32>,
}

/// All limits, and what happens when one is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// For prompts: each session, and all.
    pub prompts: [Limits; 2],
    /// For tool calls: each session, and all.
    pub tool_calls: [Limits; 2],
    /// How long a request may wait. `None`: it does not wait.
    pub max_wait: Option<Duration>,
    /// How many requests of each kind may wait.
    pub max_waiting: usize,
}

impl Rules {
    /// The limits of a kind.
    pub fn limits(&self, kind: Kind, scope: Scope) -> Limits {
        let limits = match kind {
            Kind::Prompt => self.prompts,
            Kind::ToolCall => self.tool_calls,
        };
        limits[usize::from(scope == Scope::All)]
    }

    /// Whether a kind has any limit.
    pub fn is_limited(&self, kind: Kind) -> bool {
        let is_set = |scope| self.limits(kind, scope) != Limits::default();
        is_set(Scope::Session) || is_set(Scope::All)
    }
}

/// A limit that a request has reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reached {
    /// The kind of request.
    pub kind: Kind,
    /// The scope of the limit.
    pub scope: Scope,
    /// The number of the limit.
    pub maximum: NonZeroU32,
    /// How long to wait. `None` if that depends on when another request ends.
    pub wait: Option<Duration>,
}

impl Reached {
    /// The limit in words.
    pub fn describe(&self) -> String {
        let scope = match self.scope {
            Scope::Session => "in a session",
            Scope::All => "in all sessions",
        };
        let measure = if self.wait.is_some() { "per minute" } else { "at once" };
        let kind = match (self.maximum.get(), self.kind) {
            (1, Kind::Prompt) => "prompt",
            (1, Kind::ToolCall) => "tool call",
            _ => self.kind.plural(),
        };
        format!("{} {kind} {measure} {scope}", self.maximum)
    }

    /// The name of the option that sets the limit.
    pub fn option(&self) -> &'static str {
        match (self.scope, self.kind, self.wait.is_some()) {
            (Scope::All, Kind::Prompt, true) => "prompts_per_minute",
            (Scope::All, Kind::Prompt, false) => "prompts_at_once",
            (Scope::All, Kind::ToolCall, true) => "tool_calls_per_minute",
            (Scope::All, Kind::ToolCall, false) => "tool_calls_at_once",
            (Scope::Session, Kind::Prompt, true) => "session_prompts_per_minute",
            (Scope::Session, Kind::Prompt, false) => "session_prompts_at_once",
            (Scope::Session, Kind::ToolCall, true) => "session_tool_calls_per_minute",
            (Scope::Session, Kind::ToolCall, false) => "session_tool_calls_at_once",
        }
    }
}

/// The number of a request that waits or runs.
pub type Ticket = u64;

/// What happens to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It passes now, and runs until [`Limiter::end`].
    Pass(Ticket),
    /// It waits. The time is how long, if that is known.
    Wait(Ticket, Reached),
    /// It is refused. The second value is when to try again.
    Refuse(Reached, Duration),
}

/// What has happened to a waiting request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// It passes now.
    Pass,
    /// Its session was cancelled.
    Cancelled,
    /// It still waits. Ask again after this time, or when a request ends.
    Wait(Option<Duration>),
}

/// How many requests of a kind were handled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Count {
    /// They run now.
    pub running: u64,
    /// They passed.
    pub passed: u64,
    /// They passed after a wait.
    pub delayed: u64,
    /// They were refused.
    pub refused: u64,
}

/// Counts the requests of one kind in one scope.
#[derive(Debug)]
struct Meter {
    bucket: Option<Bucket>,
    at_once: Option<NonZeroU32>,
    running: u32,
}

impl Meter {
    fn new(limits: Limits, start: Start, now: Duration) -> Meter {
        let bucket = limits.rate.map(|rate| Bucket::new(rate, start, now));
        Meter { bucket, at_once: limits.at_once, running: 0 }
    }

    /// The limit that keeps a request from passing: its number, and how long to wait.
    fn check(&mut self, now: Duration) -> Option<(NonZeroU32, Option<Duration>)> {
        if let Some(at_once) = self.at_once.filter(|at_once| self.running >= at_once.get()) {
            return Some((at_once, None));
        }
        let bucket = self.bucket.as_mut()?;
        let wait = bucket.wait(now);
        (!wait.is_zero()).then(|| (bucket.rate().per_minute, Some(wait)))
    }

    fn take(&mut self, now: Duration) {
        if let Some(bucket) = &mut self.bucket {
            bucket.take(now);
        }
    }
}

/// The state of a session.
#[derive(Debug, Default)]
pub struct SessionState {
    meters: [Option<Meter>; 2],
    calls: VecDeque<String>,
}

/// A request that has passed and was not answered.
#[derive(Debug)]
struct Running {
    kind: Kind,
    session: String,
}

#[derive(Debug)]
struct Waiting {
    ticket: Ticket,
    kind: Kind,
    session: String,
}

/// The limits and everything that they have counted.
#[derive(Debug)]
pub struct Limiter {
    rules: Rules,
    /// When the component began again without its memory.
    restarted: Option<Duration>,
    all: [Meter; 2],
    sessions: Sessions<SessionState>,
    /// In the order of arrival.
    waiting: VecDeque<Waiting>,
    /// The waiting requests that may pass, until their handlers see it.
    passed: BTreeSet<Ticket>,
    cancelled: BTreeSet<Ticket>,
    has_news: bool,
    next_ticket: Ticket,
    counts: [Count; 2],
    reported: u64,
    running: BTreeMap<Ticket, Running>,
    /// The requests of the running terminals, by session and id.
    terminals: BTreeMap<(String, String), Ticket>,
    /// The running requests whose end nobody will see, and how long they are counted.
    leftovers: BTreeMap<Ticket, Duration>,
    /// Until when tool calls wait, because the terminals that run are not known.
    terminals_lost_until: Option<Duration>,
}

impl Limiter {
    /// A limiter that begins now.
    pub fn new(rules: Rules, sessions: Sessions<SessionState>, now: Duration) -> Limiter {
        let meter = |kind| Meter::new(rules.limits(kind, Scope::All), Start::Full, now);
        Limiter {
            rules,
            restarted: None,
            all: Kind::ALL.map(meter),
            sessions,
            waiting: VecDeque::new(),
            passed: BTreeSet::new(),
            cancelled: BTreeSet::new(),
            has_news: false,
            next_ticket: 0,
            counts: [Count::default(); 2],
            reported: 0,
            running: BTreeMap::new(),
            terminals: BTreeMap::new(),
            leftovers: BTreeMap::new(),
            terminals_lost_until: None,
        }
    }

    /// The component was restarted and does not know what was used before: nothing is available.
    pub fn restart(&mut self, now: Duration) {
        self.restarted = Some(now);
        let meter = |kind| Meter::new(self.rules.limits(kind, Scope::All), Start::Empty, now);
        self.all = Kind::ALL.map(meter);
        self.sessions.for_each(|_, session| session.state.meters = [None, None]);
    }

    /// The process of the component was restarted: nothing is available, and terminals may run that it does not know.
    pub fn restart_process(&mut self, now: Duration) {
        self.restart(now);
        self.terminals_lost_until = Some(now + MINUTE);
    }

    /// Its rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// A request arrives.
    pub fn arrive(&mut self, kind: Kind, session: &str, now: Duration) -> Decision {
        self.let_pass(now);
        let ticket = self.new_ticket();
        let ahead = |it: &&Waiting| it.kind == kind;
        let is_behind = self.waiting.iter().any(|it| it.kind == kind && it.session == session);
        let mut reached = match self.check(kind, session, now) {
            Some(reached) => reached,
            None if is_behind => self.first_reached(kind, session, now),
            None => {
                self.take(ticket, kind, session, now);
                return Decision::Pass(ticket);
            }
        };
        // The requests that wait already pass first.
        if let Some(wait) = &mut reached.wait {
            let of_scope = |it: &&Waiting| reached.scope == Scope::All || it.session == session;
            let ahead = self.waiting.iter().filter(ahead).filter(of_scope).count();
            *wait += MINUTE / reached.maximum.get() * u32::try_from(ahead).unwrap_or(u32::MAX);
        }
        let is_short = |max: Duration| reached.wait.is_none_or(|wait| wait <= max);
        let may_wait = self.rules.max_wait.is_some_and(is_short);
        if !may_wait || self.waiting(kind) >= self.rules.max_waiting {
            self.counts[kind as usize].refused += 1;
            return Decision::Refuse(reached, self.retry_after(&reached, now));
        }
        self.waiting.push_back(Waiting { ticket, kind, session: session.to_owned() });
        Decision::Wait(ticket, reached)
    }

    /// The limit that a request of a session has reached, or will reach because of the requests before it.
    fn first_reached(&mut self, kind: Kind, session: &str, now: Duration) -> Reached {
        if let Some(reached) = self.check(kind, session, now) {
            return reached;
        }
        let limit = |scope| {
            let limits = self.rules.limits(kind, scope);
            let rate = limits.rate.map(|rate| (rate.per_minute, Some(rate.period())));
            let (maximum, wait) = rate.or(limits.at_once.map(|it| (it, None)))?;
            Some(Reached { kind, scope, maximum, wait })
        };
        let first = [Scope::Session, Scope::All].into_iter().find_map(limit);
        first.unwrap_or(Reached { kind, scope: Scope::All, maximum: NonZeroU32::MIN, wait: None })
    }

    /// What has happened to a waiting request. After `Pass` and `Cancelled` it is not known any more.
    pub fn progress(&mut self, ticket: Ticket, now: Duration) -> Progress {
        let wait = self.let_pass(now);
        if self.passed.remove(&ticket) {
            return Progress::Pass;
        }
        if self.cancelled.remove(&ticket) {
            return Progress::Cancelled;
        }
        Progress::Wait(wait)
    }

    /// A waiting request has waited too long. Returns the limit, and when to try again.
    pub fn give_up(&mut self, ticket: Ticket, now: Duration) -> (Reached, Duration) {
        let at = self.waiting.iter().position(|it| it.ticket == ticket);
        let waiting = at.and_then(|at| self.waiting.remove(at));
        let (kind, session) =
            waiting.map_or((Kind::Prompt, String::new()), |it| (it.kind, it.session));
        self.counts[kind as usize].refused += 1;
        let reached = self.first_reached(kind, &session, now);
        (reached, self.retry_after(&reached, now))
    }

    /// A waiting request leaves the queue, because it was cancelled or its handler is gone.
    pub fn leave(&mut self, ticket: Ticket) {
        self.waiting.retain(|it| it.ticket != ticket);
        self.cancelled.remove(&ticket);
        if self.passed.remove(&ticket) {
            self.end(ticket);
        }
    }

    /// Whether requests were let pass since the last call. Their handlers must be woken.
    pub fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.has_news)
    }

    /// The editor cancels the turn of a session: its waiting requests are answered.
    pub fn cancel_session(&mut self, session: &str) {
        let (cancelled, kept): (VecDeque<Waiting>, VecDeque<Waiting>) =
            std::mem::take(&mut self.waiting).into_iter().partition(|it| it.session == session);
        self.waiting = kept;
        self.cancelled.extend(cancelled.iter().map(|it| it.ticket));
    }

    /// A request that had passed has ended. A second end of the same request does nothing.
    pub fn end(&mut self, ticket: Ticket) {
        let Some(Running { kind, session }) = self.running.remove(&ticket) else { return };
        self.leftovers.remove(&ticket);
        let all = &mut self.all[kind as usize];
        all.running = all.running.saturating_sub(1);
        self.sessions.with_known(&session, |session| {
            if let Some(meter) = &mut session.state.meters[kind as usize] {
                meter.running = meter.running.saturating_sub(1);
            }
        });
        let running = &mut self.counts[kind as usize].running;
        *running = running.saturating_sub(1);
    }

    /// A terminal runs. Its request ends with [`Limiter::end_terminal`]. Returns whether it is remembered.
    pub fn begin_terminal(&mut self, session: &str, id: &str, ticket: Ticket) -> bool {
        let key = terminal_key(session, id);
        let is_remembered =
            self.terminals.len() < MAX_TERMINALS && !self.terminals.contains_key(&key);
        if is_remembered {
            self.terminals.insert(key, ticket);
        }
        is_remembered
    }

    /// A terminal has ended.
    pub fn end_terminal(&mut self, session: &str, id: &str) {
        let key = terminal_key(session, id);
        if let Some(ticket) = self.terminals.remove(&key) {
            self.end(ticket);
        }
    }

    /// The terminals of a session have ended, because the agent that has started them is gone.
    pub fn end_terminals(&mut self, session: &str) {
        let key = session_key(session);
        let ids = self.terminals.keys().filter(|(of, _)| *of == *key).map(|(_, id)| id.clone());
        for id in ids.collect::<Vec<String>>() {
            self.end_terminal(session, &id);
        }
    }

    /// A session has ended, with all of its requests. Some agents never answer them.
    pub fn end_session(&mut self, session: &str) {
        self.end_terminals(session);
        let key = session_key(session);
        let running = self.running.iter().filter(|(_, it)| it.session == *key);
        for ticket in running.map(|(ticket, _)| *ticket).collect::<Vec<Ticket>>() {
            self.end(ticket);
        }
        self.cancel_session(session);
    }

    /// The agent reports a tool call of a known session. Each id of a session is counted once.
    pub fn report(&mut self, session: &str, call: &str) {
        let call = session_key(call);
        let is_new = self.sessions.with_known(session, |session| {
            let calls = &mut session.state.calls;
            if calls.iter().any(|it| *it == call) {
                return false;
            }
            if calls.len() == MAX_CALLS {
                calls.pop_front();
            }
            calls.push_back(call.into_owned());
            true
        });
        self.reported += u64::from(is_new == Some(true));
    }

    /// How many requests of a kind were handled.
    pub fn count(&self, kind: Kind) -> Count {
        self.counts[kind as usize]
    }

    /// How many requests of a kind wait.
    pub fn waiting(&self, kind: Kind) -> usize {
        self.waiting.iter().filter(|it| it.kind == kind).count()
    }

    /// How many tool calls the agent has reported.
    pub fn reported(&self) -> u64 {
        self.reported
    }

    /// Lets waiting requests pass, in order. Returns when the next one may pass, if that is known.
    fn let_pass(&mut self, now: Duration) -> Option<Duration> {
        let mut next = self.end_leftovers(now);
        if self.waiting.is_empty() {
            return None;
        }
        let mut is_full = [false; 2];
        let mut full_sessions: Vec<(Kind, String)> = Vec::new();
        let mut kept = VecDeque::with_capacity(self.waiting.len());
        for waiting in std::mem::take(&mut self.waiting) {
            let Waiting { ticket, kind, session } = &waiting;
            let is_behind = |(of, id): &(Kind, String)| of == kind && id == session;
            if is_full[*kind as usize] || full_sessions.iter().any(is_behind) {
                kept.push_back(waiting);
                continue;
            }
            let Some(reached) = self.check(*kind, session, now) else {
                self.take(*ticket, *kind, session, now);
                self.counts[*kind as usize].delayed += 1;
                self.passed.insert(*ticket);
                self.has_news = true;
                continue;
            };
            next = [next, reached.wait].into_iter().flatten().min();
            match reached.scope {
                Scope::All => is_full[*kind as usize] = true,
                Scope::Session => full_sessions.push((*kind, session.clone())),
            }
            kept.push_back(waiting);
        }
        self.waiting = kept;
        next
    }

    /// The limit that keeps a request from passing.
    fn check(&mut self, kind: Kind, session: &str, now: Duration) -> Option<Reached> {
        if kind == Kind::ToolCall {
            let at_once = |scope| Some((scope, self.rules.limits(kind, scope).at_once?));
            let mut limits = [Scope::Session, Scope::All].into_iter().filter_map(at_once);
            let lost = limits.find(|(scope, _)| self.may_have_terminals(*scope, session, now));
            if let Some((scope, maximum)) = lost {
                return Some(Reached { kind, scope, maximum, wait: None });
            }
        }
        let of_session = self.with_session(kind, session, now, |meter| meter.check(now));
        let reached = |scope, (maximum, wait)| Reached { kind, scope, maximum, wait };
        of_session
            .map(|it| reached(Scope::Session, it))
            .or_else(|| self.all[kind as usize].check(now).map(|it| reached(Scope::All, it)))
    }

    fn take(&mut self, ticket: Ticket, kind: Kind, session: &str, now: Duration) {
        self.run(ticket, kind, session, now);
        self.with_session(kind, session, now, |meter| meter.take(now));
        self.all[kind as usize].take(now);
        self.counts[kind as usize].passed += 1;
    }

    /// Counts a request that runs.
    fn run(&mut self, ticket: Ticket, kind: Kind, session: &str, now: Duration) {
        self.running.insert(ticket, Running { kind, session: session_key(session).into_owned() });
        self.with_session(kind, session, now, |meter| meter.running += 1);
        self.all[kind as usize].running += 1;
        self.counts[kind as usize].running += 1;
    }

    /// When to try again: at least a second, also if nobody knows.
    fn retry_after(&self, reached: &Reached, now: Duration) -> Duration {
        let wait = reached.wait.or_else(|| self.next_leftover_end(reached.kind, now));
        let seconds = wait.unwrap_or_default().as_nanos().div_ceil(1_000_000_000);
        Duration::from_secs(seconds.try_into().unwrap_or(u64::MAX).max(1))
    }

    fn new_ticket(&mut self) -> Ticket {
        self.next_ticket += 1;
        self.next_ticket
    }

    /// A session that was not seen from its beginning has no burst: perhaps it was used a moment ago.
    fn with_session<R>(
        &self,
        kind: Kind,
        session: &str,
        now: Duration,
        act: impl FnOnce(&mut Meter) -> R,
    ) -> R {
        self.sessions.with(session, |session| {
            let is_recent = self.restarted.is_some_and(|at| now < at + MINUTE);
            let start = match session.origin {
                _ if is_recent => Start::Empty,
                Origin::New => Start::Full,
                _ => Start::One,
            };
            let limits = self.rules.limits(kind, Scope::Session);
            let meter = &mut session.state.meters[kind as usize];
            act(meter.get_or_insert_with(|| Meter::new(limits, start, now)))
        })
    }
}

fn terminal_key(session: &str, id: &str) -> (String, String) {
    (session_key(session).into_owned(), session_key(id).into_owned())
}
