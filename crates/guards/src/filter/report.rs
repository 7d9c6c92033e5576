//! What was found: counts for `conductor status`, records in the audit log, metrics. Never a secret.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use acp_proxy::{Context, Error, Metric, Side};
use acp_wire::ErrorKind;
use serde_json::{Map, Value, json};

use component_base::audit::{Audit, By, Decision, Event, Record, RuleRef};
use component_base::refusal::code_for;
use secrets::Findings;

/// What happened to a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    Redacted,
    Blocked,
    /// An action of the agent has passed with a secret.
    Warned,
}

impl What {
    fn name(self) -> &'static str {
        match self {
            What::Redacted => "redacted",
            What::Blocked => "blocked",
            What::Warned => "passed with a warning",
        }
    }
}

/// Where a secret was found.
#[derive(Debug, Clone, Copy)]
pub(super) struct At<'a> {
    pub(super) toward: Side,
    /// The side that is told if the message is refused: the sender of the request.
    pub(super) requester: Side,
    pub(super) method: &'a str,
    pub(super) session: Option<&'a str>,
}

impl<'a> At<'a> {
    /// In an update of a session.
    pub(super) fn update(session: &'a str) -> At<'a> {
        let (toward, requester) = (Side::Editor, Side::Agent);
        At { toward, requester, method: "session/update", session: Some(session) }
    }
}

/// Counts and records what was found. Clones share the counts.
#[derive(Debug, Clone)]
pub(super) struct Report {
    counts: Arc<Mutex<BTreeMap<(What, Side), Findings>>>,
    audit: Option<Audit>,
    /// What the user should know about the options.
    remarks: Vec<String>,
}

impl Report {
    pub(super) fn new(audit: Option<Audit>, remarks: Vec<String>) -> Report {
        Report { counts: Arc::default(), audit, remarks }
    }

    /// Counts and records findings.
    ///
    /// # Errors
    /// If the audit log cannot be written and nothing may happen without a record.
    pub(super) fn add(
        &self,
        what: What,
        at: At<'_>,
        findings: &Findings,
        context: &Context,
    ) -> Result<(), Error> {
        if findings.is_empty() {
            return Ok(());
        }
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        counts.entry((what, at.toward)).or_default().merge(findings);
        drop(counts);
        for (name, count) in findings.iter() {
            let metric = Metric::counter("redactions_total")
                .by(count as f64)
                .label("detector", name)
                .label("toward", side_name(at.toward))
                .label("action", if what == What::Warned { "warned" } else { what.name() })
                .help("Secrets that were redacted or blocked.");
            context.send_metric(metric);
        }
        self.record(what, at, findings)
    }

    fn record(&self, what: What, at: At<'_>, findings: &Findings) -> Result<(), Error> {
        let Some(audit) = &self.audit else { return Ok(()) };
        let mut record = match what {
            What::Blocked => {
                let mut record = Record::decision("filter", Decision::Deny, By::Rule);
                let name = findings.iter().next().map(|(name, _)| name.to_owned());
                record.rule = Some(RuleRef { name, ..RuleRef::default() });
                record
            }
            What::Redacted => Record::new(Event::Redacted, "filter"),
            What::Warned => Record::decision("filter", Decision::Allow, By::Rule),
        };
        record.session = at.session.map(str::to_owned);
        record.at = Some(at.method.to_owned());
        record.details.insert("toward".to_owned(), side_name(at.toward).into());
        record.details.insert("secrets".to_owned(), as_json(findings));
        audit.record(record).map_err(|error| {
            let text = format!("filter: {error}, and nothing may happen without a record");
            let data = json!({ "component": "filter", "code": ErrorKind::UnwritableFile.code() });
            Error::with_data(code_for(at.requester), ErrorKind::UnwritableFile.tag(text), &data)
        })
    }

    /// The lines for `conductor status`.
    pub(super) fn lines(&self) -> Vec<String> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let remarks = self.remarks.iter().cloned();
        if counts.is_empty() {
            return std::iter::once("no secret found".to_owned()).chain(remarks).collect();
        }
        let line = |((what, toward), findings): (&(What, Side), &Findings)| {
            let (what, toward, total) = (what.name(), side_name(*toward), findings.total());
            format!("{what} toward the {toward}: {total} ({})", list(findings))
        };
        counts.iter().map(line).chain(remarks).collect()
    }
}

/// The findings as text: `2 github, 1 jwt`.
pub(super) fn list(findings: &Findings) -> String {
    let parts: Vec<String> =
        findings.iter().map(|(name, count)| format!("{count} {name}")).collect();
    parts.join(", ")
}

fn as_json(findings: &Findings) -> Value {
    let members = findings.iter().map(|(name, count)| (name.to_owned(), count.into()));
    Value::Object(members.collect::<Map<_, _>>())
}

/// The name of a side in texts.
pub(super) fn side_name(side: Side) -> &'static str {
    match side {
        Side::Editor => "editor",
        Side::Agent => "agent",
    }
}

/// The error for a message with a secret.
pub(super) fn blocked(at: At<'_>, findings: &Findings) -> Error {
    let (method, toward) = (at.method, side_name(at.toward));
    let what = list(findings);
    refusal(
        at,
        findings,
        format!(
            "filter: this {method} toward the {toward} is refused, because it contains a secret ({what}). Remove the \
             secret, or allow it in the options of filter"
        ),
    )
}

/// The error for a file or a command in which a placeholder stands for a secret.
pub(super) fn has_placeholder(at: At<'_>) -> Error {
    refusal(
        at,
        &Findings::default(),
        format!(
            "filter: this {} is refused, because it contains a placeholder `[redacted:…]` in place of a secret that the \
             agent has not seen. Change only the other lines of the file, or leave this to the user",
            at.method
        ),
    )
}

fn refusal(at: At<'_>, findings: &Findings, text: String) -> Error {
    let data = json!({
        "component": "filter",
        "code": ErrorKind::SecretBlocked.code(),
        "toward": side_name(at.toward),
        "secrets": as_json(findings),
    });
    Error::with_data(code_for(at.requester), ErrorKind::SecretBlocked.tag(text), &data)
}
