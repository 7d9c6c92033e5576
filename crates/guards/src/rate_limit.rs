//! The component `rate-limit`: limits prompts and tool calls, per minute and at once.

pub mod bucket;
mod follow;
pub mod gate;
pub mod limiter;

use std::num::NonZeroU32;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use acp_proxy::{Call, Error, Json, McpNext, McpRequest, Next, Proxy, Side};
use acp_wire::ErrorKind;
use clap::{Parser, ValueEnum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use bucket::Rate;
use component_base::audit::{Audit, AuditOptions, By, Decision, Event, Record};
use component_base::options::Interval;
use component_base::refusal;
use component_base::sessions::{Sessions, text};
use component_base::{BuiltIn, OptionError};
use follow::Beginning;
use gate::{Clock, Gate, Permit, Stopped};
use limiter::{Kind, Limiter, Limits, Reached, Rules, Scope, SessionState};

/// The JSON-RPC code for requests that were cancelled.
const CANCELLED: i64 = -32800;

/// A prompt that waits at least this long tells the user.
const NOTICE_AFTER: Duration = Duration::from_secs(2);

/// Limits prompts and tool calls: per minute and at once, in each session and in all.
///
/// A request over a limit waits, or is refused with the time to wait. Tool calls are the requests of the agent that
/// pass the chain: permission requests, `fs/*`, `terminal/create`, and MCP calls. Tools that the agent runs inside itself
/// are counted, but cannot be limited.
#[derive(Debug, Clone, Parser, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct RateLimit {
    /// Prompts per minute, in all sessions together.
    #[arg(long, value_name = "COUNT")]
    prompts_per_minute: Option<NonZeroU32>,

    /// Prompts that run at the same time, in all sessions together.
    #[arg(long, value_name = "COUNT")]
    prompts_at_once: Option<NonZeroU32>,

    /// Tool calls per minute, in all sessions together.
    #[arg(long, value_name = "COUNT")]
    tool_calls_per_minute: Option<NonZeroU32>,

    /// Tool calls that run at the same time, in all sessions together. A terminal runs until its command ends, or until
    /// the agent kills or releases it.
    #[arg(long, value_name = "COUNT")]
    tool_calls_at_once: Option<NonZeroU32>,

    /// Prompts per minute in each session.
    #[arg(long, value_name = "COUNT")]
    session_prompts_per_minute: Option<NonZeroU32>,

    /// Prompts that run at the same time in each session.
    #[arg(long, value_name = "COUNT")]
    session_prompts_at_once: Option<NonZeroU32>,

    /// Tool calls per minute in each session.
    #[arg(long, value_name = "COUNT")]
    session_tool_calls_per_minute: Option<NonZeroU32>,

    /// Tool calls that run at the same time in each session.
    #[arg(long, value_name = "COUNT")]
    session_tool_calls_at_once: Option<NonZeroU32>,

    /// How many requests may come at once after a pause, for each limit per minute, and never more than the limit.
    /// Default: the limit itself.
    #[arg(long, value_name = "COUNT")]
    burst: Option<NonZeroU32>,

    /// What happens when a limit is reached. `wait`: the request waits. `refuse`: it is refused, with the time to wait.
    #[arg(long, value_name = "ACTION", default_value = "wait", hide_possible_values = true)]
    when_reached: WhenReached,

    /// How long a request may wait. If it had to wait longer, it is refused.
    #[arg(long, value_name = "TIME", default_value = "60s")]
    max_wait: Interval,

    /// How many prompts may wait, and how many tool calls. Further ones are refused.
    #[arg(long, value_name = "COUNT", default_value = "100")]
    max_waiting: NonZeroU32,

    /// Record requests that wait or are refused in this audit log.
    #[arg(long, value_name = "FILE")]
    audit: Option<AuditOptions>,

    /// What was used so far. The component of a chain keeps it when it is restarted.
    #[arg(skip)]
    #[serde(skip)]
    memory: Memory,
}

/// What happens when a limit is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum WhenReached {
    /// The request waits.
    Wait,
    /// The request is refused.
    Refuse,
}

#[derive(Debug, Clone, Default)]
struct Memory(Arc<OnceLock<(Gate, Sessions<SessionState>)>>);

impl Default for RateLimit {
    fn default() -> RateLimit {
        RateLimit::parse_from([RateLimit::NAME])
    }
}

impl BuiltIn for RateLimit {
    const NAME: &'static str = "rate-limit";
    const GUARD: bool = true;

    fn check(&self) -> Result<(), OptionError> {
        let rules = self.rules();
        if !Kind::ALL.into_iter().any(|kind| rules.is_limited(kind)) {
            let why = "it has no limit; set one, such as --prompts-per-minute 10";
            return Err(OptionError { kind: ErrorKind::MisusedBuiltIn, why: why.to_owned() });
        }
        let rates = Kind::ALL.into_iter().flat_map(|kind| {
            [Scope::Session, Scope::All].map(|scope| rules.limits(kind, scope).rate)
        });
        let most = rates.flatten().map(|rate| rate.per_minute).max();
        if let Some(burst) = self.burst.filter(|burst| most.is_none_or(|most| *burst > most)) {
            let why = format!(
                "--burst {burst} is more than each limit per minute; write the highest limit or less, or leave it out"
            );
            return Err(OptionError { kind: ErrorKind::MisusedBuiltIn, why });
        }
        if let Some(audit) = &self.audit {
            let unwritable = |why| OptionError { kind: ErrorKind::UnwritableFile, why };
            Audit::check(audit).map_err(unwritable)?;
        }
        Ok(())
    }

    fn build(&self) -> acp_proxy::Component {
        self.build_with(Clock::system())
    }
}

impl RateLimit {
    fn rules(&self) -> Rules {
        let limits = |per_minute: Option<NonZeroU32>, at_once| {
            let rate = per_minute.map(|per_minute| Rate {
                per_minute,
                burst: self.burst.map_or(per_minute, |burst| burst.min(per_minute)),
            });
            Limits { rate, at_once }
        };
        Rules {
            prompts: [
                limits(self.session_prompts_per_minute, self.session_prompts_at_once),
                limits(self.prompts_per_minute, self.prompts_at_once),
            ],
            tool_calls: [
                limits(self.session_tool_calls_per_minute, self.session_tool_calls_at_once),
                limits(self.tool_calls_per_minute, self.tool_calls_at_once),
            ],
            max_wait: (self.when_reached == WhenReached::Wait).then_some(self.max_wait.0),
            max_waiting: usize::try_from(self.max_waiting.get()).unwrap_or(usize::MAX),
        }
    }

    /// Builds the component with another clock. The first clock of a chain is used for all of its restarts.
    pub fn build_with(&self, clock: Clock) -> acp_proxy::Component {
        self.build_in(clock, was_restarted())
    }

    /// Builds the component as in a process that the conductor has started again.
    pub fn build_after_restart(&self, clock: Clock) -> acp_proxy::Component {
        self.build_in(clock, true)
    }

    fn build_in(&self, clock: Clock, was_restarted: bool) -> acp_proxy::Component {
        let rules = self.rules();
        let beginning = match (self.memory.0.get(), was_restarted) {
            (Some(_), _) => Beginning::WithMemory,
            (None, false) => Beginning::New,
            (None, true) => Beginning::Lost,
        };
        let (gate, sessions) = self.memory.0.get_or_init(|| {
            let sessions = Sessions::<SessionState>::default();
            let now = clock.now();
            let mut limiter = Limiter::new(rules, sessions.clone(), now);
            if was_restarted {
                limiter.restart_process(now);
            }
            (Gate::new(limiter, clock), sessions)
        });
        // A log that has become unwritable since the check: requests over a limit are refused.
        let audit = self.audit.as_ref().map(Audit::open);
        let guard = Guard { gate: gate.clone(), audit: audit.map(Arc::new) };
        let mut proxy = sessions.watch(Proxy::new(RateLimit::NAME).strict());
        proxy = match rules.is_limited(Kind::Prompt) {
            true => guard.limit_prompts(proxy),
            false => guard.follow_prompts(proxy),
        };
        if rules.is_limited(Kind::ToolCall) {
            proxy = guard.limit_tool_calls(proxy);
        }
        guard.follow(proxy, beginning).into()
    }
}

/// Whether the conductor has started this process again. It sets the variable then.
fn was_restarted() -> bool {
    std::env::var_os("CONDUCTOR_RESTARTED").is_some()
}

/// The state of the component that its handlers share.
#[derive(Debug, Clone)]
struct Guard {
    gate: Gate,
    audit: Option<Arc<Result<Audit, String>>>,
}

/// A request of the agent, and where it came from.
struct Subject<'a> {
    kind: Kind,
    session: &'a str,
    method: &'a str,
    tool: Option<String>,
}

impl Guard {
    fn limit_prompts(&self, proxy: Proxy) -> Proxy {
        let guard = self.clone();
        proxy.on_raw_request(Side::Editor, "session/prompt", async move |call: Call, next| {
            let session = text(call.params.as_ref(), "sessionId").unwrap_or_default();
            let subject = Subject {
                kind: Kind::Prompt,
                session: &session,
                method: "session/prompt",
                tool: None,
            };
            let notice = |reached: &Reached| {
                let wait = reached.wait.unwrap_or(NOTICE_AFTER);
                if wait >= NOTICE_AFTER {
                    // A prompt without a valid session has nobody to tell.
                    let _ = next.think(format!("{}\n", waiting_text(reached)));
                }
            };
            match guard.enter(&subject, notice, next.context().cancelled()).await {
                Ok(permit) => {
                    let permit = permit.outlives_a_crash();
                    let result = guard.run_prompt(&session, call, &next).await;
                    permit.end();
                    result
                }
                Err(Refusal::Cancelled) => Ok(Json::trusted(r#"{"stopReason":"cancelled"}"#)),
                Err(Refusal::Error(error)) => Err(error),
            }
        })
    }

    /// Sends a prompt. If it fails because the agent is gone, its terminals are gone, too.
    async fn run_prompt(
        &self,
        session: &str,
        call: Call,
        next: &Next<Call>,
    ) -> acp_proxy::Result<Json> {
        let result = next.run(call).await;
        let is_exit = result.as_ref().is_err_and(is_exit);
        self.gate.change(|limiter| {
            // An agent may refuse a prompt because it still works on another one.
            if result.is_ok() || is_exit {
                limiter.on_turn_end(session);
            }
            if is_exit {
                limiter.end_terminals(session);
            }
        });
        result
    }

    /// Follows the prompts if they have no limit of their own.
    fn follow_prompts(&self, proxy: Proxy) -> Proxy {
        let guard = self.clone();
        proxy.on_raw_request(Side::Editor, "session/prompt", async move |call: Call, next| {
            let session = text(call.params.as_ref(), "sessionId").unwrap_or_default();
            guard.run_prompt(&session, call, &next).await
        })
    }

    fn limit_tool_calls(&self, proxy: Proxy) -> Proxy {
        const METHODS: [&str; 3] =
            ["session/request_permission", "fs/read_text_file", "fs/write_text_file"];
        let proxy = METHODS.into_iter().fold(proxy, |proxy, method| {
            let guard = self.clone();
            proxy.on_raw_request(Side::Agent, method, async move |call: Call, next| {
                let _permit = match guard.enter_call(method, &call, &next).await {
                    Ok(permit) => permit,
                    Err(Refusal::Cancelled) if method == "session/request_permission" => {
                        return Ok(Json::trusted(r#"{"outcome":{"outcome":"cancelled"}}"#));
                    }
                    Err(refusal) => return Err(refusal.into()),
                };
                next.run(call).await
            })
        });
        self.limit_terminals(self.limit_mcp(proxy))
    }

    fn limit_mcp(&self, proxy: Proxy) -> Proxy {
        let guard = self.clone();
        proxy.on_mcp_request(async move |request: McpRequest, next: McpNext| {
            if request.method() != "tools/call" {
                return next.run(request).await;
            }
            let session = request.session().unwrap_or_default().to_owned();
            let subject = Subject {
                kind: Kind::ToolCall,
                session: &session,
                method: "tools/call",
                tool: request.tool(),
            };
            let _permit = guard.enter(&subject, |_| {}, next.cancelled()).await?;
            next.run(request).await
        })
    }

    /// A terminal counts as running until its command ends.
    fn limit_terminals(&self, proxy: Proxy) -> Proxy {
        let guard = self.clone();
        let proxy =
            proxy.on_raw_request(Side::Agent, "terminal/create", async move |call: Call, next| {
                let permit = guard.enter_call("terminal/create", &call, &next).await?;
                let permit = permit.outlives_a_crash();
                let session = text(call.params.as_ref(), "sessionId").unwrap_or_default();
                let result = next.run(call).await;
                match result.as_ref().ok().and_then(|it| text(Some(it), "terminalId")) {
                    Some(id) => permit.keep_for_terminal(&session, &id),
                    None => permit.end(),
                }
                result
            });
        const ENDS: [&str; 4] =
            ["terminal/release", "terminal/kill", "terminal/wait_for_exit", "terminal/output"];
        ENDS.into_iter().fold(proxy, |proxy, method| {
            let guard = self.clone();
            proxy.on_raw_request(Side::Agent, method, async move |call: Call, next| {
                let session = text(call.params.as_ref(), "sessionId").unwrap_or_default();
                let id = text(call.params.as_ref(), "terminalId").unwrap_or_default();
                let adopt = || {
                    guard.gate.change_now(|limiter, now| limiter.adopt_terminal(&session, &id, now))
                };
                if method == "terminal/wait_for_exit" {
                    adopt();
                }
                let result = next.run(call).await?;
                let is_object = |it: &Json| it.is_object();
                let has_ended = method != "terminal/output"
                    || result.member("exitStatus").as_ref().is_some_and(is_object);
                match has_ended {
                    true => guard.gate.change(|limiter| limiter.end_terminal(&session, &id)),
                    false => adopt(),
                }
                Ok(result)
            })
        })
    }

    async fn enter_call(
        &self,
        method: &str,
        call: &Call,
        next: &Next<Call>,
    ) -> Result<Permit, Refusal> {
        let session = text(call.params.as_ref(), "sessionId").unwrap_or_default();
        let subject = Subject { kind: Kind::ToolCall, session: &session, method, tool: None };
        self.enter(&subject, |_| {}, next.context().cancelled()).await
    }

    async fn enter(
        &self,
        subject: &Subject<'_>,
        on_wait: impl FnOnce(&Reached),
        cancelled: impl Future<Output = ()>,
    ) -> Result<Permit, Refusal> {
        let Subject { kind, session, .. } = subject;
        match self.gate.enter(*kind, session, on_wait, cancelled).await {
            Ok(permit) if permit.waited.is_zero() => Ok(permit),
            Ok(permit) => {
                let record = self.record(subject).detail("decision", "wait");
                self.write(*kind, Record { waited: Some(permit.waited), ..record })?;
                Ok(permit)
            }
            Err(Stopped::Cancelled) => Err(Refusal::Cancelled),
            Err(Stopped::Refused(reached, after)) => {
                let record = self.record(subject).detail("limit", reached.option());
                let record = record.detail("retry_after_seconds", after.as_secs());
                let (decision, by) = (Some(Decision::Deny), Some(By::Limit));
                self.write(*kind, Record { decision, by, ..record })?;
                Err(Refusal::Error(refused(subject, &reached, after)))
            }
        }
    }

    fn record(&self, subject: &Subject<'_>) -> Record {
        let record = Record::new(Event::Limit, RateLimit::NAME).session(subject.session);
        Record { tool: subject.tool.clone(), ..record.at(subject.method) }
    }

    fn write(&self, kind: Kind, record: Record) -> Result<(), Refusal> {
        let why = match self.audit.as_deref() {
            None => return Ok(()),
            Some(Ok(audit)) => match audit.record(record) {
                Ok(()) => return Ok(()),
                Err(error) => error.to_string(),
            },
            Some(Err(why)) => why.clone(),
        };
        let failed = ErrorKind::AuditFailed;
        let data = json!({ "component": RateLimit::NAME, "code": failed.code() });
        let text = failed.tag(format!("rate-limit: the request is refused, because {why}"));
        Err(Refusal::Error(Error::with_data(code_of_refusal(kind), text, &data)))
    }

    fn status(&self) -> Vec<String> {
        let limiter = self.gate.limiter();
        let mut lines = Vec::new();
        for kind in Kind::ALL.into_iter().filter(|kind| limiter.rules().is_limited(*kind)) {
            let count = limiter.count(kind);
            lines.push(format!(
                "{}: {} run, {} wait, {} passed ({} after a wait), {} refused",
                kind.plural(),
                count.running,
                limiter.waiting(kind),
                count.passed,
                count.delayed,
                count.refused
            ));
        }
        lines.push(format!(
            "tool calls that the agent has reported: {}. Those inside the agent are counted, not limited",
            limiter.reported()
        ));
        if let Some(Ok(audit)) = self.audit.as_deref() {
            lines.extend(audit.status());
        }
        lines
    }
}

/// Why a request does not pass.
enum Refusal {
    Error(Error),
    Cancelled,
}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Error {
        match refusal {
            Refusal::Error(error) => error,
            Refusal::Cancelled => {
                Error::new(CANCELLED, "rate-limit: the request was cancelled while it waited")
            }
        }
    }
}

/// Whether the conductor answers with this error because the agent, or a proxy before it, does not run any more.
fn is_exit(error: &Error) -> bool {
    const KINDS: [ErrorKind; 4] = [
        ErrorKind::Crashed,
        ErrorKind::Unresponsive,
        ErrorKind::StoppedReading,
        ErrorKind::StoppedByCommand,
    ];
    let code = text(error.json().member("data").as_ref(), "code").unwrap_or_default();
    KINDS.iter().any(|kind| kind.code() == code)
}

fn refused(subject: &Subject<'_>, reached: &Reached, after: Duration) -> Error {
    let kind = ErrorKind::RateLimited;
    let what = match subject.kind {
        Kind::Prompt => "the prompt",
        Kind::ToolCall => subject.method,
    };
    let seconds = after.as_secs();
    let text = format!(
        "rate-limit: {what} is refused, because the limit of {} is reached. Try again in {seconds} s",
        reached.describe()
    );
    let data = json!({
        "component": RateLimit::NAME,
        "code": kind.code(),
        "limit": reached.option(),
        "scope": if reached.scope == Scope::All { "all" } else { "session" },
        "maximum": reached.maximum,
        "retryAfterSeconds": seconds,
    });
    Error::with_data(code_of_refusal(subject.kind), kind.tag(text), &data)
}

/// Prompts come from the editor, and tool calls from the agent.
fn code_of_refusal(kind: Kind) -> i64 {
    match kind {
        Kind::Prompt => refusal::TO_EDITOR,
        Kind::ToolCall => refusal::TO_AGENT,
    }
}

fn waiting_text(reached: &Reached) -> String {
    let limit = reached.describe();
    match reached.wait {
        Some(wait) => {
            let seconds = wait.as_secs_f64().ceil();
            format!(
                "rate-limit: the prompt waits about {seconds} s: the limit of {limit} is reached."
            )
        }
        None => format!("rate-limit: the prompt waits: the limit of {limit} is reached."),
    }
}
