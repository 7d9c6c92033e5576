//! `conductor agent --explain`: reports the protocol and capabilities of each component.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use router::{Ending, Exit, Outcome, Role, Seat};
use serde::Serialize;
use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::columns::Columns;
use crate::config::Config;
use crate::run::Shell;
use crate::wait_report::WaitReport;
use acp_wire::printable::one_line;
use client::error::{Source, describe, logins, remedies};

/// The `initialize` request of a typical editor.
const INITIALIZE: &str = concat!(
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":true,"writeTextFile":true},"terminal":true,"auth":{"terminal":true}},"clientInfo":{"name":"conductor","version":""#,
    env!("CARGO_PKG_VERSION"),
    "\"}}}\n"
);

/// The report of `--explain`.
#[derive(Debug, Serialize)]
pub struct Report {
    /// The components, starting at the editor.
    pub components: Vec<ComponentReport>,
    /// Why the chain failed to start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What is known about one component after the handshake.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ComponentReport {
    /// The name of the component.
    pub name: String,
    /// `proxy` or `agent`.
    pub role: &'static str,
    /// The command line, without the environment.
    pub command: String,
    /// Whether it is a guard, or a nested chain that contains one.
    pub guard: bool,
    /// The proxy protocol generation; `plain` for an agent.
    pub dialect: &'static str,
    /// The protocol version in the request `initialize`.
    pub asked_version: Value,
    /// The protocol version in the answer.
    pub answered_version: Value,
    /// The capabilities in the request, as paths.
    pub offered: Vec<String>,
    /// The capabilities in the answer, as paths.
    pub answered: Vec<String>,
    /// The MCP transports that it supports.
    pub mcp: Vec<&'static str>,
    /// How to log in, if the agent has advertised that.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub login: Vec<String>,
    /// The kinds of `session/update` that bypass it.
    pub around: Vec<&'static str>,
    /// The kinds of message that bypass it because it has crashed on them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub crashed_on: Vec<String>,
    /// Why the handshake failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Starts the chain, sends `initialize`, shuts the chain down and reports what the components answered.
pub async fn explain(config: Config, stop: impl Future<Output = ()>) -> Report {
    // The report must show the answers of the components unchanged.
    let config = Config { mcp_bridge: None, status: false, ..config };
    let names: Vec<String> = config.components.iter().map(|spec| spec.name.clone()).collect();
    let (editor, chain) = tokio::io::duplex(1 << 20);
    let (reader, writer) = tokio::io::split(chain);
    let mut shell = Shell::new(config, Box::new(reader), Box::new(writer));
    let (reader, mut writer) = tokio::io::split(editor);
    let mut answer = Value::Null;
    // The request fits into the pipe, so this does not wait for the chain.
    let sent = writer.write_all(INITIALIZE.as_bytes()).await;
    let mut failed = sent.err().map(|error| error.to_string());
    {
        let mut answered = pin!(read_answer(BufReader::new(reader)));
        let mut stop = pin!(stop);
        let mut wait = WaitReport::new(shell.config.report_wait);
        poll_fn(|cx| {
            wait.poll(cx, || shell.unanswered_initialize());
            if let Poll::Ready(ending) = shell.poll(cx) {
                if let Ending::Failed(line) = ending {
                    failed = Some(line);
                }
                return Poll::Ready(());
            }
            if stop.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            answered.as_mut().poll(cx).map(|read| answer = read)
        })
        .await;
    }
    let agent = names.last().map(String::as_str).unwrap_or_default();
    let source = Source { agent, request: "initialize", ..Source::default() };
    let error = answer.get("error").map(|error| describe(error, &source).one_line());
    let interrupted =
        || answer.is_null().then(|| "interrupted before the handshake was complete".to_owned());
    let error = error.or(failed).or_else(interrupted);
    let report = Report { components: shell.component_reports(), error };
    let _ = shell.shut_down().await;
    report
}

/// Reads messages until the answer to `initialize`. An agent that is not an ACP agent may send requests first: `cat`
/// repeats the request. Returns null at the end of the stream.
async fn read_answer(reader: impl AsyncBufRead + Unpin) -> Value {
    let mut lines = reader.lines();
    while let Ok(Some(line)) = lines.next_line().await {
        let message = serde_json::from_str::<Value>(&line).unwrap_or_default();
        if message.get("method").is_none() {
            return message;
        }
    }
    Value::Null
}

impl Shell {
    /// The component whose answer to `initialize` all others wait for, as a reason to wait.
    fn unanswered_initialize(&self) -> Option<String> {
        let chain = self.router().chain();
        let is_asked = |seat: &Seat| {
            let handshake = self.router().handshake(*seat);
            handshake.is_some_and(|it| it.params.is_some() && it.answer.is_none())
        };
        let last = chain.seats().filter(is_asked).last()?;
        Some(format!("{} to answer initialize", chain.name(last)))
    }

    fn component_reports(&self) -> Vec<ComponentReport> {
        let chain = self.router().chain();
        chain.seats().map(|seat| self.component_report(seat)).collect()
    }

    fn component_report(&self, seat: Seat) -> ComponentReport {
        let (chain, handshake) = (self.router().chain(), self.router().handshake(seat));
        let json = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
        let asked = handshake.and_then(|it| it.params.as_ref()).map(|it| json(it.as_str()));
        let asked = asked.unwrap_or_default();
        let (answered, error) = match handshake.and_then(|it| it.answer.as_ref()) {
            Some(Outcome::Result(result)) => (json(result.as_str()), None),
            Some(Outcome::Error(error)) => {
                let error = client::payload::read(error);
                (Value::Null, Some(describe(&error, &Source::default()).one_line()))
            }
            None if self.router().last_exit(seat).is_some() => {
                (Value::Null, self.router().last_exit(seat).map(Exit::description))
            }
            None if asked.is_null() => (Value::Null, Some("was not sent initialize".to_owned())),
            None => (Value::Null, Some("did not answer initialize".to_owned())),
        };
        ComponentReport {
            name: chain.name(seat).to_owned(),
            role: match chain.role(seat) {
                Role::Proxy => "proxy",
                Role::Agent => "agent",
            },
            command: chain.component(seat).map(|it| it.command.clone()).unwrap_or_default(),
            guard: chain.component(seat).is_some_and(|it| it.guard),
            dialect: self.dialect(seat).name(),
            asked_version: asked["protocolVersion"].clone(),
            answered_version: answered["protocolVersion"].clone(),
            offered: capability_paths(&asked, &["clientCapabilities", "capabilities", "_meta"]),
            mcp: mcp_transports(&answered),
            // Proxies repeat the methods of the agent.
            login: match chain.role(seat) {
                Role::Agent => {
                    let command = chain.component(seat).map(|it| it.command.as_str());
                    let logins = logins(&answered, command.unwrap_or_default());
                    remedies(&logins)
                }
                Role::Proxy => Vec::new(),
            },
            answered: capability_paths(&answered, &["agentCapabilities", "capabilities", "_meta"]),
            around: self.router().skipped_updates(seat),
            crashed_on: self.router().skipped_kinds(seat).iter().map(ToString::to_string).collect(),
            error,
        }
    }
}

/// The enabled capabilities in these members of a message, as paths.
fn capability_paths(value: &Value, members: &[&str]) -> Vec<String> {
    let mut paths = Vec::new();
    for member in members {
        let prefix = if *member == "_meta" { "_meta" } else { "" };
        collect_paths(prefix, &value[*member], &mut paths);
    }
    paths
}

fn collect_paths(path: &str, value: &Value, paths: &mut Vec<String>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                collect_paths(&path, value, paths);
            }
        }
        Value::Null | Value::Bool(false) => {}
        _ if path.is_empty() => {}
        _ => paths.push(path.to_owned()),
    }
}

/// The MCP transports in an answer to `initialize`, of ACP version 1 or 2.
fn mcp_transports(answered: &Value) -> Vec<&'static str> {
    if answered.is_null() {
        return Vec::new();
    }
    let v1 = &answered["agentCapabilities"]["mcpCapabilities"];
    let v2 = &answered["capabilities"]["session"]["mcp"];
    let on = |name: &str| v1[name] == true || v2[name].is_object();
    let stdio = answered.get("info").is_none() || on("stdio");
    [("stdio", stdio), ("http", on("http")), ("sse", on("sse")), ("acp", on("acp"))]
        .into_iter()
        .filter_map(|(name, on)| on.then_some(name))
        .collect()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["component", "role", "dialect", "version", "MCP transports", "capabilities"];
        let mut table = vec![head.map(str::to_owned)];
        for row in &self.components {
            let version = |value: &Value| match value {
                Value::Null => "–".to_owned(),
                value => one_line(&value.to_string()),
            };
            table.push([
                one_line(&row.name),
                format!("{}{}", row.role, if row.guard { ", guard" } else { "" }),
                row.dialect.to_owned(),
                format!("{} → {}", version(&row.asked_version), version(&row.answered_version)),
                row.mcp.join(", "),
                one_line(&row.error.clone().unwrap_or_else(|| row.answered.join(", "))),
            ]);
        }
        let columns = Columns::of(&table);
        table.iter().try_for_each(|row| writeln!(f, "{}", columns.line(row)))?;
        let offered = self.components.first().map(|row| row.offered.join(", ")).unwrap_or_default();
        writeln!(f, "\noffered to the first component: {offered}")?;
        for row in &self.components {
            if !row.around.is_empty() {
                let (name, kinds) = (&row.name, row.around.join(", "));
                writeln!(
                    f,
                    "updates that go around {name}: {kinds} and newer kinds (to change this: --updates {name}=all)"
                )?;
            }
            for login in &row.login {
                writeln!(f, "login of {}: {}", one_line(&row.name), one_line(login))?;
            }
            if !row.crashed_on.is_empty() {
                let (name, kinds) = (&row.name, row.crashed_on.join(", "));
                writeln!(f, "messages that go around {name} because it crashed on them: {kinds}")?;
            }
        }
        match &self.error {
            // The program prints the error on standard error.
            Some(_) => writeln!(f, "the chain failed to start"),
            None => writeln!(f, "the chain is up"),
        }
    }
}
