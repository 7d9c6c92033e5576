//! What an audit log records.

use std::borrow::Cow;
use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::chain::sha256;

/// What a record is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// A file or a component begins: versions, the hash of the rules, options.
    Open,
    /// An action was allowed or denied.
    Decision,
    /// The user is asked about an action.
    Asked,
    /// The user has answered, or the time is over.
    Answered,
    /// The agent acted without asking. Recorded once for each session and kind, then counted.
    ActedWithoutAsking,
    /// An action about which was decided has ended, as the agent reports.
    Outcome,
    /// A hook has run.
    Hook,
    /// Secrets were redacted: rules and counts, never the secrets.
    Redacted,
    /// A limit was reached.
    Limit,
    /// The rules have changed while the component ran.
    RulesChanged,
    /// The file is full or old. The next file continues it.
    Rotated,
    /// The log continues after a crash, or after records were lost.
    Recovered,
    /// The run ends.
    Close,
}

/// A decision about an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Decision {
    /// The action may happen.
    Allow,
    /// The action may not happen.
    Deny,
    /// The user decides.
    Ask,
}

/// What made a decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// A rule.
    Rule,
    /// The user.
    User,
    /// A hook.
    Hook,
    /// Nobody answered in time.
    Timeout,
    /// No rule matched.
    Default,
    /// A limit or a budget.
    Limit,
    /// The component could not do its work, such as recording the action.
    Failure,
}

/// The rule that decided.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct RuleRef {
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The file with the rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Its line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<usize>,
    /// The SHA-256 of the file, in hexadecimal. (In a line, only the hash of the line is called `hash`.)
    #[serde(rename = "sha256", skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
}

/// A record. The log adds the time, the run, the number and the hashes.
///
/// Set the fields directly, or with the methods of the same names. Texts are capped and secrets in them redacted when
/// the record is written. Put commands and paths into `what`, but no contents: use [`content`] for those.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Record {
    /// What the record is about.
    pub event: Event,
    /// The component that writes it.
    pub component: Cow<'static, str>,
    /// The session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The agent and its version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// Where it was decided: the method.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<String>,
    /// The id of the tool call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The name of the tool.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The normalised action.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub what: Value,
    /// The rule that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rule: Option<RuleRef>,
    /// The decision.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub decision: Option<Decision>,
    /// What made it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<By>,
    /// Whether the user was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<bool>,
    /// How long the decision took.
    #[serde(
        skip_serializing_if = "Option::is_none",
        rename = "waited_ms",
        serialize_with = "milliseconds"
    )]
    pub waited: Option<Duration>,
    /// The id of the permission option that was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub option: Option<String>,
    /// How the action ended: `completed` or `failed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// The mode of the component, such as `enforce` or `audit`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<Cow<'static, str>>,
    /// What belongs only to this kind of event: counts, options, versions.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub details: Map<String, Value>,
}

fn milliseconds<S: serde::Serializer>(waited: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_u64(waited.unwrap_or_default().as_millis().try_into().unwrap_or(u64::MAX))
}

impl Record {
    /// A record about this event, without any details.
    pub fn new(event: Event, component: impl Into<Cow<'static, str>>) -> Record {
        Record {
            event,
            component: component.into(),
            session: None,
            agent: None,
            at: None,
            call: None,
            tool: None,
            what: Value::Null,
            rule: None,
            decision: None,
            by: None,
            asked: None,
            waited: None,
            option: None,
            outcome: None,
            mode: None,
            details: Map::new(),
        }
    }

    /// A decision.
    pub fn decision(component: impl Into<Cow<'static, str>>, decision: Decision, by: By) -> Record {
        let mut record = Record::new(Event::Decision, component);
        (record.decision, record.by) = (Some(decision), Some(by));
        (record.asked, record.waited) = (Some(false), Some(Duration::ZERO));
        record
    }

    /// Sets the session.
    #[must_use]
    pub fn session(mut self, session: impl Into<String>) -> Record {
        self.session = Some(session.into());
        self
    }

    /// Sets the agent and its version.
    #[must_use]
    pub fn agent(mut self, agent: impl Into<String>) -> Record {
        self.agent = Some(agent.into());
        self
    }

    /// Sets the method at which it was decided.
    #[must_use]
    pub fn at(mut self, method: impl Into<String>) -> Record {
        self.at = Some(method.into());
        self
    }

    /// Sets the id of the tool call.
    #[must_use]
    pub fn call(mut self, call: impl Into<String>) -> Record {
        self.call = Some(call.into());
        self
    }

    /// Sets the name of the tool.
    #[must_use]
    pub fn tool(mut self, tool: impl Into<String>) -> Record {
        self.tool = Some(tool.into());
        self
    }

    /// Sets the normalised action.
    #[must_use]
    pub fn what(mut self, what: Value) -> Record {
        self.what = what;
        self
    }

    /// Sets the rule that decided.
    #[must_use]
    pub fn rule(mut self, rule: RuleRef) -> Record {
        self.rule = Some(rule);
        self
    }

    /// Sets the mode of the component.
    #[must_use]
    pub fn mode(mut self, mode: impl Into<Cow<'static, str>>) -> Record {
        self.mode = Some(mode.into());
        self
    }

    /// Adds a detail.
    #[must_use]
    pub fn detail(mut self, name: &str, value: impl Into<Value>) -> Record {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    /// Whether the record must be on the disk before the action goes on.
    pub(super) fn is_urgent(&self) -> bool {
        matches!(self.decision, Some(Decision::Deny | Decision::Ask)) || self.event == Event::Asked
    }
}

/// Describes a content that is not recorded: `{"length": …, "sha256": "…"}`.
pub fn content(bytes: impl AsRef<[u8]>) -> Value {
    let bytes = bytes.as_ref();
    json!({ "length": bytes.len(), "sha256": sha256(bytes) })
}
