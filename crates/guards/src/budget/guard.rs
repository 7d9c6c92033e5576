//! Decides whether a prompt may be sent, and records what its turn consumes.

use std::collections::BTreeSet;

use acp_proxy::{Error, Json};
use acp_wire::ErrorKind;
use acp_wire::printable::one_line;
use jiff::civil::Date;
use serde_json::json;

use super::entry::{Entry, Event, SessionKey, SessionTotals};
use super::evidence::Evidence;
use super::ledger::{Ledger, LedgerError};
use super::limits::{Account, Limit, Percent, Period, Sum, amount, grouped};
use super::prices::Prices;
use super::{Uncounted, WhenSpent};
use component_base::agents::AgentInfo;
use component_base::sessions::{Origin, Sessions};
use component_base::usage::{Certainty, Delta, Meaning, Meter, Reading};

/// The longest name of an agent, or of a reason, in the ledger.
const MAX_NAME: usize = 128;

/// The rules of the user.
#[derive(Debug, Clone)]
pub(super) struct Rules {
    pub(super) limits: Vec<Limit>,
    pub(super) warn_at: Percent,
    pub(super) when_spent: WhenSpent,
    pub(super) uncounted: Uncounted,
    pub(super) prices: Option<Prices>,
    pub(super) usage: Option<Meaning>,
}

/// The state of the component.
#[derive(Debug)]
pub(super) struct Guard {
    pub(super) rules: Rules,
    ledger: Ledger,
    /// The mark of this run in the ledger.
    run: String,
    pub(super) meter: Meter,
    pub(super) agent: AgentInfo,
    pub(super) sessions: Sessions<Live>,
    /// What the turns of this process show about the reports of the agent.
    pub(super) evidence: Evidence,
    /// The notices about limits of a day that the user has got.
    told_today: (Date, u32),
    last_turn: u64,
}

/// A session in this process.
#[derive(Debug, Clone, Default)]
pub(super) struct Live {
    /// The running turn, or the last one.
    turn: Option<Turn>,
    /// The run in which the session began. `None` until that is looked up.
    run: Option<String>,
    /// Whether the next turn is the first one of a new session.
    is_new: bool,
    /// Whether the user has said not to ask again.
    is_allowed: bool,
    /// The notices about limits of a session that the user has got.
    pub(super) told: u32,
    /// Whether the agent has reported tokens in this process.
    has_reported: bool,
    /// The currencies in which the agent has reported costs.
    pub(super) currencies: BTreeSet<String>,
    /// Whether the cost that the agent has reported in this turn is above zero. `None` if it has reported none.
    pub(super) has_cost: Option<bool>,
    /// The tokens of this turn, until the agent reports their cost.
    pub(super) unpaid: Option<Delta>,
}

/// A turn: a prompt, and the agent's answer.
#[derive(Debug, Clone)]
pub(super) struct Turn {
    id: String,
    /// The day on which it began.
    day: Date,
    is_open: bool,
    is_cancelled: bool,
    /// Whether the agent has reported anything about it.
    is_reported: bool,
}

/// What happens to a prompt.
#[derive(Debug)]
pub(super) enum Decision {
    /// It is sent.
    Send,
    /// The user is asked.
    Ask(Account),
    /// It is refused.
    Refuse(Error),
}

impl Guard {
    pub(super) fn new(rules: Rules, ledger: Ledger, run: String) -> Guard {
        let (meter, told_today) = (Meter::new(rules.usage), (ledger.today(), 0));
        Guard {
            rules,
            ledger,
            run,
            meter,
            agent: AgentInfo::default(),
            sessions: Sessions::default(),
            evidence: Evidence::default(),
            told_today,
            last_turn: 0,
        }
    }

    /// The agent has answered `initialize`.
    ///
    /// # Errors
    /// No limit can be counted with this agent.
    pub(super) fn on_initialized(&mut self, answer: &Json) -> Result<Option<String>, Error> {
        self.agent = AgentInfo::of_answer(answer);
        self.meter.set_agent(self.agent.kind);
        let names = self.uncountable(|limit| self.can_count(limit));
        if names.is_empty() {
            return Ok(None);
        }
        let (agent, names_text) = (self.agent_name(), names.join(", "));
        if names.len() == self.rules.limits.len() && self.rules.uncounted == Uncounted::Refuse {
            let why = format!(
                "the agent {agent} does not report what is needed for {names_text}. Use a limit that it reports, add --prices, or \
                 accept prompts that are not counted with --uncounted allow"
            );
            return Err(refusal(ErrorKind::InvalidOption, &why, &json!({})));
        }
        Ok(Some(format!(
            "the agent {agent} does not report what is needed for {names_text}: it is not counted"
        )))
    }

    /// The editor loads a session.
    pub(super) fn on_loading(&self, session: &str) {
        self.meter.loading(session);
    }

    /// A session was set up. In a replay, the component was restarted and the session goes on.
    /// `parent` is the session that it was forked from.
    pub(super) fn on_session(
        &mut self,
        session: &str,
        origin: Origin,
        parent: Option<&str>,
        is_replay: bool,
    ) {
        // If the ledger cannot be read, the next prompt is refused.
        let _ = self.ledger.refresh();
        if origin == Origin::New && !is_replay {
            self.ledger.begin_session(&SessionKey::new(session, &self.run));
            self.sessions.close(session);
            self.sessions.with(session, |it| {
                (it.state.is_new, it.state.run) = (true, Some(self.run.clone()));
            });
            self.meter.opened(session, origin, None);
            return;
        }
        if origin == Origin::Fork {
            self.sessions.with(session, |it| it.state.run = Some(self.run.clone()));
        }
        let reading = self.reading(session);
        let origin = if is_replay { Origin::Unknown } else { origin };
        match parent {
            Some(parent) if self.meter.knows(parent) => self.meter.forked(session, parent, reading),
            Some(parent) => {
                let of_parent = self.reading(parent);
                self.meter.opened(session, origin, reading.or(of_parent));
            }
            None => self.meter.opened(session, origin, reading),
        }
        let is_running =
            self.sessions.with(session, |it| it.state.turn.as_ref().is_some_and(|it| it.is_open));
        if is_running {
            return;
        }
        let key = self.key(session);
        let open = self.ledger.totals().open.iter().filter(|(_, it)| **it == key);
        let lost: Vec<String> = open.map(|(turn, _)| turn.clone()).collect();
        for turn in lost {
            let entry = self.entry(Event::Lost, session, &turn);
            // It is written later if it cannot be written now.
            let _ = self.ledger.append(self.ledger.today(), entry);
        }
    }

    /// The session in the ledger.
    fn key(&self, session: &str) -> SessionKey {
        let known = self.sessions.with(session, |it| it.state.run.clone());
        let run = known.unwrap_or_else(|| {
            // A session that the ledger does not know began in this run, as far as it is known.
            let agent: String = self.agent.name.trim().chars().take(MAX_NAME).collect();
            let run = self.ledger.run_of(session, &self.run, &agent);
            let run = run.unwrap_or_else(|| self.run.clone());
            self.sessions.with(session, |it| it.state.run = Some(run.clone()));
            run
        });
        SessionKey::new(session, &run)
    }

    /// The sums of a session in the ledger.
    fn totals(&mut self, session: &str) -> SessionTotals {
        let key = self.key(session);
        self.ledger.session(key)
    }

    /// The sums of a session that the agent has reported, if the ledger knows them.
    fn reading(&mut self, session: &str) -> Option<Reading> {
        Some(self.totals(session).reading).filter(|it| !it.is_empty())
    }

    /// A session could not be loaded.
    pub(super) fn on_load_failed(&self, session: &str) {
        self.meter.opened(session, Origin::Unknown, None);
    }

    /// A session is closed.
    pub(super) fn on_close(&self, session: &str) {
        self.sessions.close(session);
        self.meter.closed(session);
    }

    /// Decides about a prompt.
    ///
    /// # Errors
    /// The ledger cannot be read or written.
    pub(super) fn decide(&mut self, session: &str) -> Result<Decision, LedgerError> {
        self.ledger.refresh()?;
        let totals = self.totals(session);
        if let Some(error) = self.refuse_uncounted(&totals) {
            return Ok(Decision::Refuse(error));
        }
        let spent = self.accounts(&totals).into_iter().rev().find(Account::is_spent);
        let is_allowed = self.sessions.with(session, |it| it.state.is_allowed);
        Ok(match (spent, self.rules.when_spent) {
            (None, _) | (Some(_), WhenSpent::Warn) => Decision::Send,
            (Some(account), WhenSpent::Ask) if !is_allowed => Decision::Ask(account),
            (Some(_), WhenSpent::Ask) => Decision::Send,
            (Some(account), WhenSpent::Stop | WhenSpent::Now) => {
                Decision::Refuse(self.refuse(session, &account))
            }
        })
    }

    /// The user has answered that the session goes on, without asking again.
    pub(super) fn allow(&self, session: &str) {
        self.sessions.with(session, |it| it.state.is_allowed = true);
    }

    /// The error for a prompt when a limit is reached.
    pub(super) fn refuse(&mut self, session: &str, account: &Account) -> Error {
        let resets_at = match account.limit.period {
            Period::Day => self.ledger.next_day(),
            Period::Turn | Period::Session => None,
        };
        let remedy = match (account.limit.period, &resets_at) {
            (Period::Turn, _) => "Send the prompt again to go on".to_owned(),
            (Period::Day, Some(time)) => {
                format!("Wait until {}, or raise the limit", time.strftime("%Y-%m-%d %H:%M %Z"))
            }
            (Period::Day | Period::Session, _) => {
                "Start a new session, or raise the limit".to_owned()
            }
        };
        if account.limit.period == Period::Turn {
            let entry = Entry {
                why: account.limit.name.to_owned(),
                ..self.entry(Event::Refused, session, "")
            };
            // It is written later if it cannot be written now.
            let _ = self.ledger.append(self.ledger.today(), entry);
        }
        let ((spent, limit), name) = (account.numbers(), account.limit.name);
        let phrase = match account.limit.period {
            Period::Turn => account.to_string().replace("in this turn", "in the last turn"),
            Period::Session | Period::Day => account.to_string(),
        };
        let data = json!({
            "budget": name,
            "spent": spent,
            "limit": limit,
            "unit": account.unit(),
            "resetsAt": resets_at.map(|time| time.timestamp().to_string()),
        });
        let why = format!("the budget {name} is spent: {phrase}. {remedy}");
        refusal(ErrorKind::BudgetSpent, &why, &data)
    }

    /// The limits, with what is spent. A limit of a turn is about the last turn, until a prompt was refused.
    fn accounts(&self, totals: &SessionTotals) -> Vec<Account> {
        let nothing = Sum::default();
        let account = |limit: &Limit| {
            limit.account(match limit.period {
                Period::Turn if totals.last.is_refused => &nothing,
                Period::Turn => &totals.last.sum,
                Period::Session => &totals.sum,
                Period::Day => &self.ledger.totals().sum,
            })
        };
        self.rules.limits.iter().map(account).collect()
    }

    /// A turn begins. It is recorded before its prompt is sent.
    ///
    /// # Errors
    /// It cannot be recorded.
    pub(super) fn open_turn(&mut self, session: &str) -> Result<Turn, LedgerError> {
        let turn = Turn {
            id: self.new_id(),
            day: self.ledger.today(),
            is_open: true,
            is_cancelled: false,
            is_reported: false,
        };
        let first = self.sessions.with(session, |it| it.state.is_new);
        let entry = Entry { first, ..self.entry(Event::Open, session, &turn.id) };
        self.ledger.append(turn.day, entry)?;
        // With very many sessions, the meter may have forgotten this one. If the ledger does not know it either, it counts
        // from zero: a budget counts too much rather than too little.
        if !self.meter.knows(session) {
            let SessionTotals { reading, has_begun, .. } = self.totals(session);
            let is_known = has_begun || !reading.is_empty() || self.meter.has_forgotten();
            self.meter.opened(session, Origin::Unknown, is_known.then_some(reading));
        }
        self.sessions.with(session, |it| {
            (it.state.is_new, it.state.turn) = (false, Some(turn.clone()));
            (it.state.has_cost, it.state.unpaid) = (None, None);
        });
        self.meter.prompted(session);
        Ok(turn)
    }

    /// Reads an update of the agent. Returns the limit because of which the turn must be cancelled.
    pub(super) fn on_update(&mut self, params: &Json) -> Option<(String, Account)> {
        let delta = self.meter.update(params)?;
        let session = delta.session.clone();
        self.record(delta, None);
        if self.rules.when_spent != WhenSpent::Now {
            return None;
        }
        let is_running = self.sessions.with(&session, |it| {
            it.state.turn.as_ref().is_some_and(|turn| turn.is_open && !turn.is_cancelled)
        });
        if !is_running || self.ledger.refresh().is_err() {
            return None;
        }
        let totals = self.totals(&session);
        let account = self.accounts(&totals).into_iter().find(Account::is_spent)?;
        self.sessions.with(&session, |it| {
            it.state.turn.iter_mut().for_each(|turn| turn.is_cancelled = true);
        });
        Some((session, account))
    }

    /// A turn has ended. Returns notices for the user.
    pub(super) fn end_turn(
        &mut self,
        session: &str,
        turn: &Turn,
        outcome: &acp_proxy::Result<Json>,
    ) -> Vec<String> {
        if let Ok(answer) = outcome
            && let Some(delta) = self.meter.answer(session, answer)
        {
            self.record(delta, Some(turn));
        }
        let why = match outcome {
            Ok(answer) => {
                component_base::sessions::text(Some(answer), "stopReason").unwrap_or_default()
            }
            Err(_) => "error".to_owned(),
        };
        let is_reported = self.sessions.with(session, |it| {
            it.state.turn.as_ref().is_some_and(|it| it.id == turn.id && it.is_reported)
        });
        let why: String = why.chars().take(MAX_NAME).collect();
        // The agent may have consumed something before it failed.
        let unreported = matches!(&*why, "error" | "cancelled") && !is_reported;
        let entry =
            Entry { why: why.clone(), unreported, ..self.entry(Event::End, session, &turn.id) };
        // It is written later if it cannot be written now.
        let _ = self.ledger.append(turn.day, entry);
        self.sessions.with(session, |it| {
            let ended = it.state.turn.iter_mut().filter(|it| it.id == turn.id);
            ended.for_each(|it| it.is_open = false);
        });
        // If the ledger cannot be read, the next prompt is refused.
        let _ = self.ledger.refresh();
        let totals = self.totals(session);
        let is_unpaid = totals.last.turn == turn.id && totals.last.is_unpaid();
        self.evidence.end_turn(&why, is_unpaid);
        let mut notices = self.notices(session, &totals);
        notices.extend(self.unpriced_notice(session, &totals));
        let turns = self.accounts(&totals).into_iter().filter(|it| it.limit.period == Period::Turn);
        let next = match self.rules.when_spent {
            WhenSpent::Stop | WhenSpent::Now => ". The next prompt is refused once",
            WhenSpent::Ask => ". You are asked before the next prompt",
            WhenSpent::Warn => "",
        };
        notices.extend(turns.filter(Account::is_spent).map(|account| format!("{account}{next}")));
        notices
    }

    /// Records what the agent reports. It belongs to `turn`, or else to the running turn, or else to the last one.
    fn record(&mut self, delta: Delta, turn: Option<&Turn>) {
        let is_nothing = delta.tokens.is_none_or(|it| it.total() == 0)
            && delta.cost.as_ref().is_none_or(|it| it.micros == 0);
        let (live, is_first) = self.sessions.with(&delta.session, |it| {
            let live = &mut it.state;
            let mut is_first =
                delta.tokens.is_some() && !std::mem::replace(&mut live.has_reported, true);
            if let Some(cost) = &delta.cost {
                is_first |= live.currencies.insert(cost.currency.clone());
            }
            live.turn.iter_mut().for_each(|it| it.is_reported = true);
            (live.clone(), is_first)
        });
        let priced = self.price(&delta);
        if is_nothing && !is_first && priced.is_none() {
            return;
        }
        let turn = turn.or(live.turn.as_ref());
        let day = turn.map_or_else(|| self.ledger.today(), |it| it.day);
        let id = match turn {
            Some(turn) => turn.id.clone(),
            None => self.totals(&delta.session).last.turn,
        };
        let mut entry = self.entry(Event::Spent, &delta.session, &id);
        entry.late = turn.is_none_or(|it| !it.is_open);
        entry.models = delta.models.iter().map(|(model, _)| model.clone()).collect();
        entry.tokens = delta.tokens;
        entry.tokens_are = delta.tokens.map(|_| delta.tokens_certainty);
        entry.cost_is = delta.cost.as_ref().map(|_| delta.cost_certainty);
        entry.cost = delta.cost;
        entry.reading = delta.reading;
        if let Some((priced, certainty)) = priced {
            let is_known = priced.unpriced.is_none() || priced.cost.micros > 0;
            if is_known {
                (entry.cost, entry.cost_is) = (Some(priced.cost), Some(certainty));
            }
            (entry.priced, entry.unpriced) = (is_known, priced.unpriced);
        }
        self.evidence.add_report(&entry);
        // It is written later if it cannot be written now, and until then no prompt is sent.
        let _ = self.ledger.append(day, entry);
    }

    /// What the user should know: the parts of limits that are reached since the last time.
    fn notices(&mut self, session: &str, totals: &SessionTotals) -> Vec<String> {
        let today = self.ledger.today();
        if self.told_today.0 != today {
            self.told_today = (today, 0);
        }
        let mut told = self.told_today.1 | self.sessions.with(session, |it| it.state.told);
        let mut notices = Vec::new();
        for (index, account) in self.accounts(totals).iter().enumerate() {
            // A bit for the warning, and one for the end.
            let is_spent = account.is_spent();
            let bit = 1 << (2 * index + usize::from(is_spent));
            let is_reached = account.has_reached(self.rules.warn_at);
            if account.limit.period == Period::Turn || !is_reached || told & bit != 0 {
                continue;
            }
            told |= bit;
            match account.limit.period {
                Period::Day => self.told_today.1 |= bit,
                _ => self.sessions.with(session, |it| it.state.told |= bit),
            }
            let next = match (is_spent, self.rules.when_spent) {
                (true, WhenSpent::Stop | WhenSpent::Now) => ". The next prompt is refused",
                (true, WhenSpent::Ask) => ". You are asked before the next prompt",
                _ => "",
            };
            notices.push(format!("{account}{next}"));
        }
        notices
    }

    /// Lines for `conductor status`.
    pub(super) fn status(&mut self) -> Vec<String> {
        if let Err(error) = self.ledger.refresh() {
            return vec![error.why];
        }
        let totals = self.ledger.totals();
        let days = self.rules.limits.iter().filter(|limit| limit.period == Period::Day);
        let mut lines: Vec<String> =
            days.map(|limit| limit.account(&totals.sum).to_string()).collect();
        if lines.is_empty() {
            lines.push(format!("{} today", describe(&totals.sum)));
        }
        let unknown = totals.lost.saturating_add(totals.open.len() as u64);
        if unknown > 0 {
            lines.push(format!(
                "{unknown} turns of unknown consumption today: they run, were lost, or failed"
            ));
        }
        let uncounted = self.uncountable(|limit| self.can_count(limit));
        if !uncounted.is_empty() {
            let (agent, names) = (self.agent_name(), uncounted.join(", "));
            lines.push(format!("not counted with the agent {agent}: {names}"));
        }
        lines
    }

    pub(super) fn agent_name(&self) -> String {
        match self.agent.name.as_str() {
            "" => "of this chain".to_owned(),
            name => one_line(name),
        }
    }

    fn entry(&self, event: Event, session: &str, turn: &str) -> Entry {
        let agent = format!("{} {}", self.agent.name, self.agent.version);
        let SessionKey { session, run } = self.key(session);
        Entry {
            event,
            session,
            run,
            turn: turn.to_owned(),
            agent: agent.trim().chars().take(MAX_NAME).collect(),
            ..Entry::default()
        }
    }

    /// A new id for a turn or a question.
    pub(super) fn new_id(&mut self) -> String {
        self.last_turn += 1;
        let mut random = [0; 8];
        // The number alone tells the turns of this process apart.
        let _ = getrandom::fill(&mut random);
        format!("{:016x}-{}", u64::from_be_bytes(random), self.last_turn)
    }
}

/// The sums in words: `12,000 tokens, 1.23 USD`.
pub fn describe(sum: &Sum) -> String {
    let how = |certainty| match certainty {
        Certainty::Exact => "",
        Certainty::AtLeast => "at least ",
        Certainty::Guess => "about ",
    };
    let Sum { tokens, certainty, costs } = sum;
    let total = tokens.total();
    let is_silent = total == 0 && !costs.is_empty();
    let tokens = (!is_silent).then(|| format!("{}{} tokens", how(*certainty), grouped(total)));
    let costs = costs.iter().map(|(currency, (micros, certainty))| {
        format!("{}{} {}", how(*certainty), amount(*micros), one_line(currency))
    });
    tokens.into_iter().chain(costs).collect::<Vec<_>>().join(", ")
}

pub(super) fn refusal(kind: ErrorKind, why: &str, data: &serde_json::Value) -> Error {
    let mut members = json!({ "component": "budget", "code": kind.code() });
    if let (Some(members), Some(data)) = (members.as_object_mut(), data.as_object()) {
        members.extend(data.clone());
    }
    Error::with_data(
        component_base::refusal::TO_EDITOR,
        kind.tag(format!("budget: {why}")),
        &members,
    )
}

/// The error for a prompt that cannot be recorded.
pub(super) fn no_ledger(error: &LedgerError) -> Error {
    let why = format!("{}. No prompt is sent without a ledger", error.why);
    refusal(ErrorKind::UnwritableFile, &why, &json!({}))
}
