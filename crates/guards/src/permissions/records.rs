//! What `permissions` writes to the audit log, and the texts of its decisions.

use std::path::Path;
use std::time::Duration;

use acp_proxy::Error;
use acp_wire::{ErrorKind, printable};
use serde_json::{Map, Value, json};

use super::rules::{Decision, RuleRef, Source, Verdict};
use component_base::action::{Action, CommandLine, Operation};
use component_base::audit::{self, AuditError, By, Event, Record};

pub(super) const NAME: &str = "permissions";

/// How much of an action is shown in a text.
const MAX_SHOWN: usize = 300;

/// The code of JSON-RPC errors.
const REFUSED: i64 = component_base::refusal::TO_AGENT;

/// The action in one line that can be shown to the user.
pub(super) fn shown(action: &Action) -> String {
    let text = printable::one_line(&action.to_string());
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{} …", &text[..end]),
        None => text,
    }
}

/// The rule with its file and line: `rule "no force push" (rules.toml:12)`.
pub(super) fn rule_name(rule: &RuleRef) -> String {
    let place = format!("{}:{}", rule.file.display(), rule.line);
    match &rule.name {
        Some(name) => printable::one_line(&format!("rule \"{name}\" ({place})")),
        None => printable::one_line(&format!("rule at {place}")),
    }
}

/// Why an action is denied: the message of the rule, and the rule.
pub(super) fn reason(verdict: &Verdict) -> String {
    let Some(rule) = &verdict.rule else { return sentence(&verdict.why) };
    match &rule.message {
        Some(message) => format!("{} ({})", sentence(message), rule_name(rule)),
        None => format!("The {} denies it", rule_name(rule)),
    }
}

/// A text in one line, without the full stop at its end.
fn sentence(text: &str) -> String {
    printable::one_line(text).trim_end_matches(['.', ' ']).to_owned()
}

/// The error for an action that is denied at a request which has room for a text.
pub(super) fn denied_error(action: &Action, reason: &str, rule: Option<&RuleRef>) -> Error {
    let rule = rule.map(
        |rule| json!({ "name": rule.name, "file": rule.file.to_string_lossy(), "line": rule.line }),
    );
    refusal(ErrorKind::DeniedByPolicy, action, reason, rule)
}

/// The error for an action that is denied because it cannot be recorded.
pub(super) fn unrecorded_error(action: &Action, why: &AuditError) -> Error {
    refusal(ErrorKind::AuditFailed, action, &why.to_string(), None)
}

fn refusal(kind: ErrorKind, action: &Action, reason: &str, rule: Option<Value>) -> Error {
    let text = kind.tag(format!("{NAME}: the agent may not {}: {reason}", shown(action)));
    let data = json!({ "component": NAME, "code": kind.code(), "reason": reason, "rule": rule });
    Error::with_data(REFUSED, text, &data)
}

/// The normalised action, without the contents of files.
pub(super) fn what(action: &Action) -> Value {
    let mut what = Map::new();
    let mut lists: [(&str, Vec<Value>); 6] =
        ["command", "read", "write", "delete", "url", "mcp"].map(|name| (name, Vec::new()));
    for operation in &action.operations {
        let (index, value) = match operation {
            Operation::Run(command) => (0, command_value(command)),
            Operation::Read(path) => (1, json!(path.to_string_lossy())),
            Operation::Write(path) => (2, json!(path.to_string_lossy())),
            Operation::Delete(path) => (3, json!(path.to_string_lossy())),
            Operation::Fetch(url) => (4, json!(url)),
            Operation::Mcp { server, tool } => (5, json!({ "server": server, "tool": tool })),
        };
        lists[index].1.push(value);
    }
    for (name, mut values) in lists {
        match values.len() {
            0 => {}
            1 => drop(what.insert(name.to_owned(), values.remove(0))),
            _ => drop(what.insert(name.to_owned(), Value::Array(values))),
        }
    }
    if let Some(content) = action.input.get("content").and_then(Value::as_str) {
        what.insert("content".into(), audit::content(content));
    }
    let names: Vec<String> = action.environment().into_iter().map(|(name, _)| name).collect();
    if !names.is_empty() {
        what.insert("environment".into(), json!(names));
    }
    if action.opaque {
        what.insert("opaque".into(), json!(true));
    }
    what.insert("cwd".into(), json!(action.cwd.to_string_lossy()));
    Value::Object(what)
}

fn command_value(command: &CommandLine) -> Value {
    match command {
        CommandLine::Shell(line) => json!(line),
        CommandLine::Program { program, args } => {
            json!(std::iter::once(program).chain(args).collect::<Vec<_>>())
        }
    }
}

/// How a decision came about.
#[derive(Debug, Clone, Default)]
pub(super) struct Circumstances {
    /// How long the user was waited for.
    pub(super) waited: Option<Duration>,
    /// The option that was sent to the agent.
    pub(super) option: Option<String>,
}

/// A record about an action.
pub(super) fn about(event: Event, action: &Action, verdict: Option<&Verdict>) -> Record {
    let mut record = Record::new(event, NAME)
        .session(action.session.clone())
        .at(action.at.method())
        .tool(action.tool.common.clone())
        .what(what(action));
    record.call.clone_from(&action.call);
    record.rule = verdict.and_then(|it| it.rule.as_ref()).map(|rule| audit::RuleRef {
        name: rule.name.clone(),
        file: Some(rule.file.to_string_lossy().into_owned()),
        line: Some(rule.line),
        hash: None,
    });
    record
}

/// A record about a decision.
pub(super) fn decided(
    event: Event,
    action: &Action,
    verdict: &Verdict,
    (decision, by): (Decision, By),
    circumstances: Circumstances,
) -> Record {
    let mut record = about(event, action, Some(verdict));
    record.decision = Some(in_log(decision));
    record.by = Some(by);
    record.asked = Some(event != Event::Decision);
    record.waited = circumstances.waited.or(Some(Duration::ZERO));
    record.option = circumstances.option;
    record
}

/// A record about rules of a project that have changed while the component runs.
pub(super) fn rules_changed(project: &Path, sources: &[Source]) -> Record {
    let file = |it: &Source| json!({ "file": it.file.to_string_lossy(), "hash": it.sha256 });
    Record::new(Event::RulesChanged, NAME)
        .detail("project", project.to_string_lossy())
        .detail("files", sources.iter().map(file).collect::<Vec<_>>())
}

pub(super) fn in_log(decision: Decision) -> audit::Decision {
    match decision {
        Decision::Allow => audit::Decision::Allow,
        Decision::Ask => audit::Decision::Ask,
        Decision::Deny => audit::Decision::Deny,
    }
}

/// What made a decision without asking the user.
pub(super) fn by_rule(verdict: &Verdict) -> By {
    match verdict.rule {
        Some(_) => By::Rule,
        None => By::Default,
    }
}
