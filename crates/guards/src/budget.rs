//! The component `budget`: limits what agents consume, in tokens and in money.

mod counting;
pub mod entry;
pub mod evidence;
mod guard;
pub mod ledger;
pub mod limits;
pub mod prices;
pub mod report;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use acp_proxy::schema::{
    PermissionOption, PermissionOptionKind, RequestPermissionOutcome, RequestPermissionRequest,
    ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, ToolKind,
};
use acp_proxy::{Call, Error, Json, Message, Next, Proxy, Side};
use acp_wire::ErrorKind;
use clap::{Parser, ValueEnum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::Notify;

use component_base::options::Interval;
use component_base::sessions::{Origin, is_repetition_of, text};
use component_base::usage::Meaning;
use component_base::{BuiltIn, OptionError};
use guard::{Decision, Guard, Rules};
use ledger::{Clock, Ledger, LedgerError};
use limits::{Account, Amount, Limit, Money, Percent, Period, TokenLimit};
use prices::Prices;

pub use guard::describe;

/// How often and how long a prompt waits for another process that has the lock of the ledger.
const LOCK_ATTEMPTS: u32 = 200;
const LOCK_WAIT: Duration = Duration::from_millis(10);

/// Limits what the agent consumes: tokens and money per turn, session and day.
///
/// It counts what the agent reports, and records it in a ledger that all chains of the user share. Agents report very
/// different things; the page of the component in the user guide has a table. At 80 % of a limit the user gets a
/// notice. When a limit is reached, the turn ends normally, and the next prompt is refused.
#[derive(Debug, Clone, Parser, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    /// The most tokens of a turn: 50000, 50k or 1.5M. Agents report at the end of a turn, so the prompt after such a turn
    /// is refused once.
    #[arg(long, value_name = "TOKENS")]
    tokens_per_turn: Option<TokenLimit>,

    /// The most tokens of a session, over all runs.
    #[arg(long, value_name = "TOKENS")]
    tokens_per_session: Option<TokenLimit>,

    /// The most tokens of a day, in all sessions. A day begins at midnight in your time zone.
    #[arg(long, value_name = "TOKENS")]
    tokens_per_day: Option<TokenLimit>,

    /// The highest cost of a turn: 0.50, "2 EUR" or "100 credits". Without a currency it is in USD.
    #[arg(long, value_name = "AMOUNT")]
    cost_per_turn: Option<Money>,

    /// The highest cost of a session, over all runs.
    #[arg(long, value_name = "AMOUNT")]
    cost_per_session: Option<Money>,

    /// The highest cost of a day, in all sessions.
    #[arg(long, value_name = "AMOUNT")]
    cost_per_day: Option<Money>,

    /// Tell the user when this part of a limit is reached.
    #[arg(long, value_name = "PERCENT", default_value = "80")]
    warn_at: Percent,

    /// What happens when a limit is reached. `warn`: the user is told. `ask`: the user is asked before each further prompt.
    /// `stop`: further prompts are refused. `now`: the running turn is also cancelled, as soon as the agent reports
    /// enough.
    #[arg(long, value_name = "ACTION", default_value = "stop", hide_possible_values = true)]
    when_spent: WhenSpent,

    /// How long to wait for the user's answer with `--when-spent ask`. The prompt is refused after that. Default: for ever.
    #[arg(long, value_name = "TIME")]
    ask_timeout: Option<Interval>,

    /// A TOML file with the prices of models, for agents that report tokens but no costs.
    #[arg(long, value_name = "FILE")]
    prices: Option<PathBuf>,

    /// What to do if the agent reports nothing that a limit needs. `refuse`: it gets no prompts. `allow`: its prompts are
    /// not counted.
    #[arg(long, value_name = "ACTION", default_value = "refuse", hide_possible_values = true)]
    uncounted: Uncounted,

    /// What the agent means with the number of tokens at the end of a turn: those of the `turn`, of the `session` so far,
    /// or of the last `call` of the model. Only for agents that are not in the table of the user guide.
    #[arg(long, value_name = "MEANING", hide_possible_values = true)]
    usage: Option<Meaning>,

    /// The folder of the ledger. Chains with the same folder share their limits per day. Default: `conductor/budget` in
    /// $XDG_STATE_HOME, or in ~/.local/state.
    #[arg(long, value_name = "FOLDER")]
    ledger: Option<PathBuf>,

    /// How long to keep the days of the ledger.
    #[arg(long, value_name = "TIME", default_value = "90d")]
    keep: Interval,

    /// The mark of this run in the ledger, which survives a restart of the component.
    #[arg(skip)]
    #[serde(skip)]
    run: Arc<OnceLock<String>>,
}

/// What happens when a limit is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WhenSpent {
    /// The user is told.
    Warn,
    /// The user is asked before each prompt.
    Ask,
    /// Prompts are refused.
    Stop,
    /// Prompts are refused, and the running turn is cancelled.
    Now,
}

/// What happens to prompts for an agent that reports nothing that a limit needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Uncounted {
    /// They are refused.
    Refuse,
    /// They are sent.
    Allow,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget::parse_from([Budget::NAME])
    }
}

impl BuiltIn for Budget {
    const NAME: &'static str = "budget";
    const GUARD: bool = true;

    fn check(&self) -> Result<(), OptionError> {
        let misused =
            |why: &str| OptionError { kind: ErrorKind::MisusedBuiltIn, why: why.to_owned() };
        let limits = self.limits();
        if limits.is_empty() {
            return Err(misused(
                "it has no limit; set one, such as --tokens-per-day 1M or --cost-per-day 5",
            ));
        }
        if let Some(path) = &self.prices {
            let prices = Prices::read(path)?;
            let is_used = |limit: &Limit| matches!(&limit.amount, Amount::Money(money) if money.currency == prices.currency);
            if !limits.iter().any(is_used) {
                let (path, currency) = (path.display(), &prices.currency);
                return Err(OptionError {
                    kind: ErrorKind::InvalidOption,
                    why: format!(
                        "{path} has prices in {currency}, but no limit is in {currency}; set one, such as \
                         --cost-per-day \"5 {currency}\""
                    ),
                });
            }
        }
        if self.ask_timeout.is_some() && self.when_spent != WhenSpent::Ask {
            return Err(misused(
                "--ask-timeout is only for --when-spent ask; add that, or leave --ask-timeout out",
            ));
        }
        if self.keep.0 < Duration::from_secs(86_400) {
            return Err(misused("--keep is less than a day; write at least 1d"));
        }
        let folder = self.folder().ok_or_else(|| {
            misused("there is no folder for the ledger, because HOME is not set; set one with --ledger FOLDER")
        })?;
        let unwritable = |why| OptionError { kind: ErrorKind::UnwritableFile, why };
        Ledger::check(&folder).map_err(unwritable)
    }

    fn build(&self) -> acp_proxy::Component {
        self.build_with(Clock::system())
    }
}

impl Budget {
    /// The folder of the ledger.
    fn folder(&self) -> Option<PathBuf> {
        self.ledger.clone().or_else(default_folder)
    }

    fn limits(&self) -> Vec<Limit> {
        let tokens = |name, period, limit: Option<TokenLimit>| {
            limit.map(|limit| Limit { name, period, amount: Amount::Tokens(limit.0) })
        };
        let money = |name, period, limit: &Option<Money>| {
            limit.clone().map(|money| Limit { name, period, amount: Amount::Money(money) })
        };
        [
            tokens("tokens_per_turn", Period::Turn, self.tokens_per_turn),
            money("cost_per_turn", Period::Turn, &self.cost_per_turn),
            tokens("tokens_per_session", Period::Session, self.tokens_per_session),
            money("cost_per_session", Period::Session, &self.cost_per_session),
            tokens("tokens_per_day", Period::Day, self.tokens_per_day),
            money("cost_per_day", Period::Day, &self.cost_per_day),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    /// Builds the component with another clock.
    pub fn build_with(&self, clock: Clock) -> acp_proxy::Component {
        let folder = self.folder().unwrap_or_default();
        // If the files have become invalid since the check, costs are not counted, or no prompt is sent.
        let prices = self.prices.as_ref().and_then(|path| Prices::read(path).ok());
        let ledger = Ledger::new(folder, clock);
        ledger.prune(self.keep.0);
        let run = self.run.get_or_init(ledger::random).clone();
        let rules = Rules {
            limits: self.limits(),
            warn_at: self.warn_at,
            when_spent: self.when_spent,
            uncounted: self.uncounted,
            prices,
            usage: self.usage,
        };
        let handle = Handle {
            guard: Arc::new(Mutex::new(Guard::new(rules, ledger, run))),
            questions: Arc::default(),
            ask_timeout: self.ask_timeout,
        };
        handle.follow_sessions(handle.follow_turns(Proxy::new(Budget::NAME))).into()
    }
}

/// The default folder of the ledger. `None` if the user has no home directory.
pub fn default_folder() -> Option<PathBuf> {
    Some(component_base::state_folder::path()?.join("budget"))
}

/// The answer of the user when a limit is reached.
enum Answer {
    Send,
    Refuse,
    Cancel,
}

/// The session of a question, and what is notified when the editor cancels that session.
type OpenQuestion = (String, Arc<Notify>);

#[derive(Debug, Clone)]
struct Handle {
    guard: Arc<Mutex<Guard>>,
    /// The questions that the user has not answered yet.
    questions: Arc<Mutex<Vec<OpenQuestion>>>,
    ask_timeout: Option<Interval>,
}

impl Handle {
    fn guard(&self) -> MutexGuard<'_, Guard> {
        self.guard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn questions(&self) -> MutexGuard<'_, Vec<OpenQuestion>> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn follow_turns(&self, proxy: Proxy) -> Proxy {
        let (first, prompts, updates, cancels, status) =
            (self.clone(), self.clone(), self.clone(), self.clone(), self.clone());
        proxy
            .on_raw_request(Side::Editor, "initialize", async move |call: Call, next| {
                let answer = next.run(call).await?;
                let notice = first.guard().on_initialized(&answer)?;
                notice.iter().for_each(|notice| next.log(notice));
                Ok(answer)
            })
            .on_raw_request(Side::Editor, "session/prompt", async move |call: Call, next| {
                prompts.on_prompt(call, next).await
            })
            .on_raw_notification(Side::Agent, "session/update", move |call, context| {
                let spent =
                    call.params.as_ref().and_then(|params| updates.guard().on_update(params));
                let Some((session, account)) = spent else { return };
                let cancelled =
                    context.agent().notify_raw("session/cancel", json!({ "sessionId": session }));
                let notice = notice(&format!("{account}. The turn is cancelled"));
                if cancelled.and_then(|()| context.editor().say(&session, notice)).is_err() {
                    context.log("cannot cancel the turn");
                }
            })
            .on_raw_notification(Side::Editor, "session/cancel", move |call, _| {
                let session = text(call.params.as_ref(), "sessionId").unwrap_or_default();
                let questions = cancels.questions();
                questions
                    .iter()
                    .filter(|(id, _)| *id == session)
                    .for_each(|(_, it)| it.notify_one());
            })
            .status(move || status.guard().status())
    }

    fn follow_sessions(&self, proxy: Proxy) -> Proxy {
        const SET_UP: [(&str, Origin); 4] = [
            ("session/new", Origin::New),
            ("session/load", Origin::Load),
            ("session/resume", Origin::Resume),
            ("session/fork", Origin::Fork),
        ];
        // The conductor repeats `session/new` for a component that it has restarted. Then the session is not new.
        let is_replay = Arc::new(Mutex::new(false));
        let seen = is_replay.clone();
        let proxy = proxy.observe(move |from, message| {
            if let (Side::Editor, Message::Request { call, .. }) = (from, message)
                && call.is("session/new")
            {
                let is_replay = is_repetition_of(message);
                *seen.lock().unwrap_or_else(PoisonError::into_inner) = is_replay;
            }
        });
        let proxy = SET_UP.into_iter().fold(proxy, |proxy, (method, origin)| {
            let (handle, is_replay) = (self.clone(), is_replay.clone());
            proxy.on_raw_request(Side::Editor, method, async move |call: Call, next| {
                let is_replay = origin == Origin::New
                    && *is_replay.lock().unwrap_or_else(PoisonError::into_inner);
                handle.on_set_up(call, next, origin, is_replay).await
            })
        });
        ["session/close", "session/delete"].into_iter().fold(proxy, |proxy, method| {
            let handle = self.clone();
            proxy.on_raw_request(Side::Editor, method, async move |call: Call, next| {
                let session = text(call.params.as_ref(), "sessionId");
                let result = next.run(call).await?;
                session.iter().for_each(|session| handle.guard().on_close(session));
                Ok(result)
            })
        })
    }

    async fn on_set_up(
        &self,
        call: Call,
        next: Next<Call>,
        origin: Origin,
        is_replay: bool,
    ) -> acp_proxy::Result<Json> {
        let named = text(call.params.as_ref(), "sessionId");
        let (parent, asked) = match origin {
            Origin::Fork => (named, None),
            _ => (None, named),
        };
        if let Some(session) = asked.as_deref().filter(|_| origin == Origin::Load) {
            self.guard().on_loading(session);
        }
        let result = next.run(call).await;
        match &result {
            Ok(answer) => {
                let session = text(Some(answer), "sessionId").or(asked);
                session.iter().for_each(|it| {
                    self.guard().on_session(it, origin, parent.as_deref(), is_replay);
                });
            }
            Err(_) => asked.iter().for_each(|it| self.guard().on_load_failed(it)),
        }
        result
    }

    /// Repeats an action while another process has the lock of the ledger. The other messages pass meanwhile.
    async fn when_unlocked<R>(
        &self,
        act: impl Fn(&mut Guard) -> Result<R, LedgerError>,
    ) -> acp_proxy::Result<R> {
        let mut attempts = 0;
        loop {
            attempts += 1;
            let result = act(&mut self.guard());
            match result {
                Err(error) if error.is_locked && attempts < LOCK_ATTEMPTS => {}
                result => return result.map_err(|error| guard::no_ledger(&error)),
            }
            tokio::time::sleep(LOCK_WAIT).await;
        }
    }

    async fn on_prompt(&self, call: Call, next: Next<Call>) -> acp_proxy::Result<Json> {
        let Some(session) = text(call.params.as_ref(), "sessionId") else {
            return Err(Error::invalid_params("budget: the prompt has no sessionId"));
        };
        match self.when_unlocked(|guard| guard.decide(&session)).await? {
            Decision::Send => {}
            Decision::Refuse(error) => return Err(error),
            Decision::Ask(account) => match self.ask(&session, &account, &next).await {
                Answer::Send => {}
                Answer::Refuse => return Err(self.guard().refuse(&session, &account)),
                Answer::Cancel => return acp_proxy::to_json(&json!({ "stopReason": "cancelled" })),
            },
        }
        let turn = self.when_unlocked(|guard| guard.open_turn(&session)).await?;
        let outcome = next.run(call).await;
        let notices = self.guard().end_turn(&session, &turn, &outcome);
        for text in notices {
            match &outcome {
                Ok(_) => next.say(notice(&text))?,
                Err(_) => next.log(text),
            }
        }
        outcome
    }

    /// Asks the user whether a prompt is sent although a limit is reached.
    async fn ask(&self, session: &str, account: &Account, next: &Next<Call>) -> Answer {
        const ONCE: &str = "budget-once";
        const ALWAYS: &str = "budget-session";
        let option = |id: &str, name: &str, kind| PermissionOption::new(id.to_owned(), name, kind);
        let fields = ToolCallUpdateFields::new()
            .title(format!("Budget spent: {account}. Send the prompt?"))
            .kind(ToolKind::Other)
            .status(ToolCallStatus::Pending);
        let call = format!("budget-{}", self.guard().new_id());
        let request = RequestPermissionRequest::new(
            session.to_owned(),
            ToolCallUpdate::new(call.clone(), fields),
            vec![
                option(ONCE, "Send this prompt", PermissionOptionKind::AllowOnce),
                option(
                    ALWAYS,
                    "Do not ask again in this session",
                    PermissionOptionKind::AllowAlways,
                ),
                option("budget-stop", "Do not send it", PermissionOptionKind::RejectOnce),
            ],
        );
        let timeout = async {
            match self.ask_timeout {
                Some(Interval(time)) => tokio::time::sleep(time).await,
                None => std::future::pending().await,
            }
        };
        let mut question = Question::open(self, next, session, call);
        let editor = next.editor();
        let response = tokio::select! {
            response = editor.request(request) => response,
            () = next.cancelled() => return Answer::Cancel,
            () = question.cancelled.notified() => return Answer::Cancel,
            () = timeout => return Answer::Refuse,
        };
        let answer = match response.map(|response| response.outcome) {
            Ok(RequestPermissionOutcome::Cancelled) => Answer::Cancel,
            Ok(RequestPermissionOutcome::Selected(selected)) => match &*selected.option_id.0 {
                ONCE => Answer::Send,
                ALWAYS => {
                    self.guard().allow(session);
                    Answer::Send
                }
                _ => Answer::Refuse,
            },
            // An editor that cannot ask, and answers that are not known.
            _ => Answer::Refuse,
        };
        question.is_allowed = matches!(answer, Answer::Send);
        answer
    }
}

/// A question to the user. Dropping it closes it, and ends the tool call that the editor shows for it.
struct Question<'a> {
    handle: &'a Handle,
    next: &'a Next<Call>,
    session: &'a str,
    /// The id of the tool call.
    call: String,
    is_allowed: bool,
    /// Notified when the editor cancels the session.
    cancelled: Arc<Notify>,
}

impl Question<'_> {
    fn open<'a>(
        handle: &'a Handle,
        next: &'a Next<Call>,
        session: &'a str,
        call: String,
    ) -> Question<'a> {
        let cancelled = Arc::<Notify>::default();
        handle.questions().push((session.to_owned(), cancelled.clone()));
        Question { handle, next, session, call, is_allowed: false, cancelled }
    }
}

impl Drop for Question<'_> {
    fn drop(&mut self) {
        self.handle.questions().retain(|(_, it)| !Arc::ptr_eq(it, &self.cancelled));
        let status = if self.is_allowed { "completed" } else { "failed" };
        let update = json!({
            "sessionUpdate": "tool_call_update", "toolCallId": self.call, "status": status,
        });
        let params = json!({ "sessionId": self.session, "update": update });
        // Fails only when the connection has ended.
        let _ = self.next.editor().notify_raw("session/update", params);
    }
}

/// A notice as part of the agent's message.
fn notice(text: &str) -> String {
    format!("\n\n[budget] {text}\n")
}
