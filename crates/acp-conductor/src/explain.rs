//! What each component of a chain turned out to be: `conductor agent --explain`.

use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use router::{Ending, Outcome, Role, Seat};
use serde::Serialize;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};

use crate::columns::Columns;
use crate::config::Config;
use crate::run::Shell;
use crate::terminal::one_line;

/// What an ordinary editor would say first.
const INITIALIZE: &str = concat!(
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"fs":{"readTextFile":true,"writeTextFile":true},"terminal":true},"clientInfo":{"name":"conductor","version":""#,
    env!("CARGO_PKG_VERSION"),
    "\"}}}\n"
);

/// The chain, component by component.
#[derive(Debug, Serialize)]
pub struct Report {
    pub components: Vec<Row>,
    /// Why the chain does not stand, if it does not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    pub name: String,
    pub role: &'static str,
    pub command: String,
    /// Nothing passes without it: it is a guard, or a chain that contains one.
    pub guard: bool,
    /// The generation of the proxy protocol; `plain` for an agent.
    pub dialect: &'static str,
    pub asked_version: Value,
    pub answered_version: Value,
    /// The capabilities it was told of, and those it answered with, as paths.
    pub offered: Vec<String>,
    pub answered: Vec<String>,
    /// How it can be given MCP servers.
    pub mcp: Vec<&'static str>,
    /// The kinds of session/update that go around it.
    pub around: Vec<&'static str>,
    /// What else goes around it, because it has crashed on it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub crashed_on: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Starts the chain, greets it as an editor would, ends it, and tells what was seen.
pub async fn explain(config: Config, stop: impl Future<Output = ()>) -> Report {
    // What a component itself says is what is asked for.
    let config = Config { mcp_bridge: None, status: false, ..config };
    let (ours, theirs) = tokio::io::duplex(1 << 20);
    let (reader, writer) = tokio::io::split(theirs);
    let mut shell = Shell::new(config, Box::new(reader), Box::new(writer));
    let (reader, mut writer) = tokio::io::split(ours);
    let mut reader = BufReader::new(reader);
    let mut answer = String::new();
    // A pipe of a MiB takes the greeting at once.
    let greeted = writer.write_all(INITIALIZE.as_bytes()).await;
    let mut failed = greeted.err().map(|error| error.to_string());
    {
        let mut answered = pin!(reader.read_line(&mut answer));
        let mut stop = pin!(stop);
        poll_fn(|cx| {
            if let Poll::Ready(ending) = shell.poll(cx) {
                if let Ending::Failed(line) = ending {
                    failed = Some(line);
                }
                return Poll::Ready(());
            }
            if stop.as_mut().poll(cx).is_ready() {
                return Poll::Ready(());
            }
            answered.as_mut().poll(cx).map(drop)
        })
        .await;
    }
    let error = serde_json::from_str::<Value>(&answer)
        .ok()
        .and_then(|answer| answer["error"]["message"].as_str().map(str::to_owned));
    let report = Report { components: shell.rows(), error: error.or(failed) };
    let _ = shell.shut_down().await;
    report
}

impl Shell {
    fn rows(&self) -> Vec<Row> {
        let chain = self.router().chain();
        chain.seats().map(|seat| self.row(seat)).collect()
    }

    fn row(&self, seat: Seat) -> Row {
        let (chain, greeted) = (self.router().chain(), self.router().handshake(seat));
        let json = |text: &str| serde_json::from_str::<Value>(text).unwrap_or_default();
        let asked = greeted.and_then(|it| it.params.as_ref()).map(|it| json(it.as_str()));
        let asked = asked.unwrap_or_default();
        let (answered, error) = match greeted.and_then(|it| it.answer.as_ref()) {
            Some(Outcome::Result(result)) => (json(result.as_str()), None),
            Some(Outcome::Error(error)) => {
                (Value::Null, json(error.as_str())["message"].as_str().map(str::to_owned))
            }
            None if asked.is_null() => (Value::Null, Some("was not reached".to_owned())),
            None => (Value::Null, Some("has not answered initialize".to_owned())),
        };
        Row {
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
            offered: words(&asked, &["clientCapabilities", "capabilities", "_meta"]),
            mcp: mcp(&answered),
            answered: words(&answered, &["agentCapabilities", "capabilities", "_meta"]),
            around: self.router().skipped_updates(seat),
            crashed_on: self.router().skipped_kinds(seat).iter().map(ToString::to_string).collect(),
            error,
        }
    }
}

/// The capabilities that are on, as paths without the names of the objects that hold them all.
fn words(value: &Value, holders: &[&str]) -> Vec<String> {
    let mut words = Vec::new();
    for holder in holders {
        let prefix = if *holder == "_meta" { "_meta" } else { "" };
        collect(prefix, &value[*holder], &mut words);
    }
    words
}

fn collect(path: &str, value: &Value, words: &mut Vec<String>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
                collect(&path, value, words);
            }
        }
        Value::Null | Value::Bool(false) => {}
        _ if path.is_empty() => {}
        _ => words.push(path.to_owned()),
    }
}

fn mcp(answered: &Value) -> Vec<&'static str> {
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
        let head = ["component", "role", "speaks", "version", "MCP servers by", "answered"];
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
        writeln!(f, "\noffered to the first: {offered}")?;
        for row in &self.components {
            if !row.around.is_empty() {
                let (name, kinds) = (&row.name, row.around.join(", "));
                writeln!(
                    f,
                    "go around {name}: {kinds} and newer updates (--updates {name}=all sends it all)"
                )?;
            }
            if !row.crashed_on.is_empty() {
                let (name, kinds) = (&row.name, row.crashed_on.join(", "));
                writeln!(f, "go around {name}, which has crashed on them: {kinds}")?;
            }
        }
        match &self.error {
            Some(error) => writeln!(f, "the chain does not stand: {}", one_line(error)),
            None => writeln!(f, "the chain stands"),
        }
    }
}
