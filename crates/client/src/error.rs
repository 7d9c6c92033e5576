//! Describes the errors of agents for people: the reason, in whatever member the agent has put it, and a remedy.
//!
//! ACP agents put the reason into different places: the message, `data` as text, `data.details`, `data.message`, or a
//! nested error object. An error that asks for a login does not say how to log in: the answer to `initialize` does.

use std::fmt;

use acp_wire::{ErrorKind, printable, words};
use serde_json::Value;

use crate::payload;

mod login;

pub use login::{Login, LoginHow, logins, remedies};

/// The JSON-RPC error code of ACP for a request that needs a login.
pub const AUTH_REQUIRED: i64 = -32000;

/// The longest text of a single member of `data` that is shown.
const LONGEST_TEXT: usize = 4000;
/// How deep nested objects in `data` are searched for texts.
const MAX_DEPTH: usize = 6;

/// Members of `data` that contain the reason. Their names are not shown.
const REASONS: [&str; 13] = [
    "details",
    "detail",
    "message",
    "error",
    "errors",
    "reason",
    "cause",
    "description",
    "msg",
    "stderr",
    "output",
    "hint",
    "data",
];
/// What is known about the agent that sent an error.
#[derive(Debug, Clone, Copy, Default)]
pub struct Source<'a> {
    /// The name of the agent in the chain; empty if it is not known.
    pub agent: &'a str,
    /// The command line of the agent, quoted for a shell, without its environment; empty if it is not known.
    pub command: &'a str,
    /// The method of the request that failed; empty if it is not known.
    pub request: &'a str,
    /// The answer of the agent to `initialize`, which contains its login methods; `None` if there is none yet.
    pub greeting: Option<&'a Value>,
}

/// An error, described for people. All texts are safe to print.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Description {
    /// What failed and why, in one line.
    pub summary: String,
    /// More about the reason: the other lines of a text, or the last output of a component.
    pub details: Vec<String>,
    /// What the user can do, one line for each possibility.
    pub remedy: Vec<String>,
    /// The section of the error page that explains the error: `conductor errors CODE` prints it.
    pub code: String,
    /// Whether the agent asks for a login.
    pub login: bool,
}

/// Several lines: the summary, the details and the remedies, each of these indented.
impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.summary)?;
        self.details.iter().try_for_each(|line| write!(f, "\n  {line}"))?;
        self.remedy.iter().try_for_each(|line| write!(f, "\n  → {line}"))?;
        match self.code.as_str() {
            "" => Ok(()),
            code => write!(f, "\n  → more: conductor errors {code}"),
        }
    }
}

impl Description {
    /// The whole description in one line.
    pub fn one_line(&self) -> String {
        let mut line = self.summary.clone();
        for part in self.details.iter().chain(&self.remedy) {
            line.push_str("; ");
            line.push_str(part);
        }
        if !self.code.is_empty() {
            line.push_str(&reference(&self.code));
        }
        line
    }
}

/// The end of a message: the command that prints the section about an error.
fn reference(code: &str) -> String {
    format!(" [more: conductor errors {code}]")
}

/// Describes the JSON-RPC error object `error`.
pub fn describe(error: &Value, source: &Source<'_>) -> Description {
    match ErrorKind::of_message(error["message"].as_str().unwrap_or_default()) {
        Some(kind) => describe_own(error, kind),
        None => describe_foreign(error, source),
    }
}

/// The message and everything in `data`, as one line.
pub fn one_line(error: &Value) -> String {
    let mut parts = reasons(error);
    parts.iter_mut().for_each(|part| *part = join_lines(part));
    parts.join(": ")
}

/// An error of the conductor itself. Its message is complete, and ends with the remedy and the code of the error.
fn describe_own(error: &Value, kind: ErrorKind) -> Description {
    let data = &error["data"];
    let text = |name: &str| printable::one_line(data[name].as_str().unwrap_or_default());
    let message = printable::one_line(error["message"].as_str().unwrap_or_default());
    let (code, remedy) = (kind.code().to_owned(), text("remedy"));
    let summary = message.strip_suffix(&reference(&code)).unwrap_or(&message);
    let summary = summary.strip_suffix(&remedy).unwrap_or(summary).trim_end_matches([' ', ';']);
    let quoted = data["lastWords"].as_array().map(Vec::as_slice).unwrap_or_default();
    let quoted = quoted.iter().filter_map(Value::as_str).map(printable::one_line);
    let details: Vec<String> = quoted.filter(|line| !line.trim().is_empty()).collect();
    // One line of output is already in the message.
    let details = if details.len() > 1 { details } else { Vec::new() };
    let remedy = if remedy.is_empty() { Vec::new() } else { vec![remedy] };
    Description { summary: summary.to_owned(), details, remedy, code, login: false }
}

fn describe_foreign(error: &Value, source: &Source<'_>) -> Description {
    let (mut summary, mut details) = (String::new(), Vec::new());
    for reason in reasons(error) {
        let mut lines = reason.lines().map(str::trim_end).filter(|line| !line.trim().is_empty());
        let Some(first) = lines.next() else { continue };
        if !summary.is_empty() {
            summary.push_str(": ");
        }
        summary.push_str(first.trim());
        details.extend(lines.map(printable::one_line));
    }
    let text = one_line(error).to_lowercase();
    let login = asks_for_login(error, &text);
    let remedy = match remedy_for(error, &text, source) {
        _ if login => login_remedy(source),
        Some(remedy) => vec![remedy],
        None => login_hint(source),
    };
    let code =
        if login { ErrorKind::LoginRequired } else { ErrorKind::AgentError }.code().to_owned();
    Description { summary: format!("{}{summary}", prefix(source)), details, remedy, code, login }
}

/// The start of the summary: the agent and its request.
fn prefix(source: &Source<'_>) -> String {
    let (agent, request) = (printable::one_line(source.agent), source.request);
    match (agent.as_str(), request) {
        ("", "") => String::new(),
        ("", request) => format!("{request} failed: "),
        (agent, "") => format!("agent '{agent}' reported an error: "),
        (agent, request) => format!("agent '{agent}' answered {request} with an error: "),
    }
}

/// The message, and the texts in `data` that the message does not contain.
fn reasons(error: &Value) -> Vec<String> {
    let mut data = error["data"].clone();
    payload::hide_secrets(&mut data);
    let message = match &error["message"] {
        Value::String(message) if !message.trim().is_empty() => message.trim(),
        _ => match error["code"].as_i64() {
            Some(_) => "an error without a message",
            None => "no reason given",
        },
    };
    let mut found = vec![printable::plain(message).into_owned()];
    collect("", &data, MAX_DEPTH, &mut found);
    found
}

/// Adds the texts in `value`, which is the member `name`, unless an earlier text contains them.
fn collect(name: &str, value: &Value, depth: usize, found: &mut Vec<String>) {
    let Some(depth) = depth.checked_sub(1) else { return };
    let text = match value {
        Value::Null => return,
        Value::String(text) => text.trim().to_owned(),
        Value::Object(members) => {
            let reason = |it: &(&String, &Value)| REASONS.contains(&it.0.as_str());
            let (mut first, rest): (Vec<_>, Vec<_>) = members.iter().partition(reason);
            first.sort_by_key(|it| REASONS.iter().position(|name| *name == it.0.as_str()));
            first.into_iter().chain(rest).for_each(|(name, it)| collect(name, it, depth, found));
            return;
        }
        Value::Array(elements) => {
            elements.iter().for_each(|it| collect(name, it, depth, found));
            return;
        }
        Value::Bool(_) | Value::Number(_) => value.to_string(),
    };
    if text.is_empty() {
        return;
    }
    let text = text[..text.floor_char_boundary(LONGEST_TEXT)].to_owned();
    let text = printable::plain(&text).into_owned();
    let text = match name.is_empty() || REASONS.contains(&name) {
        true if found.iter().any(|it| *it == text || text.len() > 3 && it.contains(&text)) => {
            return;
        }
        true => text,
        false => format!("{name}: {text}"),
    };
    found.push(text);
}

fn join_lines(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    printable::one_line(&lines.collect::<Vec<_>>().join(" "))
}

/// Whether the agent asks for a login. Some agents use another code than [`AUTH_REQUIRED`] for that.
fn asks_for_login(error: &Value, text: &str) -> bool {
    const WORDS: [&str; 16] = [
        "auth_required",
        "authentication required",
        "not authenticated",
        "authenticate first",
        "not logged in",
        "please log in",
        "please login",
        "login required",
        "log in to",
        "/login",
        "api key",
        "api_key",
        "apikey",
        "unauthorized",
        "invalid credentials",
        "authentication_error",
    ];
    error["code"] == AUTH_REQUIRED || WORDS.iter().any(|word| text.contains(word))
}

/// The ways to log in that the agent has advertised.
fn login_remedy(source: &Source<'_>) -> Vec<String> {
    let logins = source.greeting.map(|it| logins(it, source.command)).unwrap_or_default();
    match logins.is_empty() {
        true => {
            let program = if source.command.is_empty() { "the agent" } else { source.command };
            vec![format!(
                "log in with the agent's own program, or give {program} its API key in the environment; the agent advertises no login"
            )]
        }
        false => remedies(&logins),
    }
}

/// A failed start of a session is often a missing login or a missing configuration, also if the agent does not say so.
fn login_hint(source: &Source<'_>) -> Vec<String> {
    if !matches!(source.request, "session/new" | "session/load" | "session/resume") {
        return Vec::new();
    }
    let logins = source.greeting.map(|it| logins(it, source.command)).unwrap_or_default();
    remedies(&logins).iter().map(|it| format!("if the agent is not set up: {it}")).collect()
}

/// The remedies for errors that are not about a login.
fn remedy_for(error: &Value, text: &str, source: &Source<'_>) -> Option<String> {
    const NETWORK: [&str; 10] = [
        "econnrefused",
        "enotfound",
        "econnreset",
        "etimedout",
        "eai_again",
        "fetch failed",
        "error sending request",
        "connection refused",
        "network error",
        "dns error",
    ];
    let has = |words: &[&str]| words::contains_any(text, words);
    let remedy = match error["code"].as_i64() {
        Some(-32601) => match source.request {
            "" => "the agent does not support this request; update the agent".to_owned(),
            request => format!("the agent does not support {request}; update the agent"),
        },
        Some(-32002) => "start a new session, or check the path".to_owned(),
        Some(-32800) => return None,
        _ if has(&NETWORK) => {
            "check the network connection and the address of the model service".to_owned()
        }
        _ if has(&["rate limit", "rate_limit", "429", "overloaded", "quota"]) => {
            "wait, and send the request again; the model service limits requests".to_owned()
        }
        _ => return None,
    };
    Some(remedy)
}

#[cfg(test)]
mod tests;
