//! Conversations as tests: what the editor and the agent send, and what they must receive.
//!
//! ```
//! # use acp_proxy::{Proxy, script};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let proxy = Proxy::new("brief").on_prompt(async |mut prompt, next| {
//!     prompt.prepend_text("Briefly:");
//!     next.run(prompt).await
//! });
//! script::play(proxy, r#"
//!     editor > {"id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}
//!     agent  < {"id":7,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"Briefly:"}]}}
//!     agent  > {"id":7,"result":{"stopReason":"end_turn"}}
//!     editor < {"id":1,"result":{"stopReason":"end_turn"}}
//! "#).await;
//! # }
//! ```
//!
//! `>` is sent, `<` must be received, by that side, in that order; the order between the two sides is
//! free. Messages are plain JSON-RPC without `"jsonrpc"`; envelopes are put on and taken off. The id in
//! a request that is received is a name for the one that the proxy chose. Lines with `#` are comments.
//!
//! An agent is played the same way; in its scripts there is only the editor.

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use acp_proxy_core::{Id, Side};
use acp_wire::dialect::{Generation, Plain, Proxy as Link};
use acp_wire::{Dialect, Message};
use bytes::Bytes;
use serde_json::Value;

use crate::proxy::Proxy;
use crate::serve::Engine;

/// How long to wait for what must come.
const PATIENCE: Duration = Duration::from_secs(10);

/// Plays a conversation with a proxy.
///
/// # Panics
/// When it goes differently, with the line at which it did; and when something is left at the end
/// that nobody expected.
pub async fn play(proxy: Proxy, script: &str) {
    let mut stage = Stage::new(proxy);
    for (number, line) in (1..).zip(script.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((who, what, json)) = split(line) else {
            panic!("line {number}: write `editor > {{…}}` or `agent < {{…}}`, not: {line}");
        };
        let json: Value = serde_json::from_str(json)
            .unwrap_or_else(|error| panic!("line {number} is not JSON: {error}: {line}"));
        match what {
            '>' => stage.send(who, json),
            _ => stage.expect(who, json, number).await,
        }
    }
    stage.advance().await;
    for (side, left) in &stage.received {
        if let Some(message) = left.front() {
            panic!("at the end {side:?} has received something that was not expected: {message}");
        }
    }
}

fn split(line: &str) -> Option<(Side, char, &str)> {
    let (who, rest) = line.split_once(char::is_whitespace)?;
    if !["editor", "agent"].contains(&who) {
        return None;
    }
    let rest = rest.trim_start();
    let what = rest.chars().next().filter(|what| ['>', '<'].contains(what))?;
    Some((side(who), what, rest[1..].trim_start()))
}

/// A conversation that is led step by step, for what a script cannot know beforehand.
pub struct Talk(Stage);

impl Talk {
    pub fn new(proxy: Proxy) -> Talk {
        Talk(Stage::new(proxy))
    }

    /// The editor or the agent sends something; ids of answers are those that were received.
    pub fn send(&mut self, who: &str, json: &str) {
        let json = serde_json::from_str(json).expect("JSON");
        self.0.send(side(who), json);
    }

    /// Sends a text as it is, for JSON that this program itself could not write. Requests need ids such as
    /// `"Editor:1"` or `"Agent:1"`.
    pub fn send_text(&mut self, who: &str, text: &str) {
        self.0.send_text(side(who), text.to_owned());
    }

    /// What the editor or the agent receives next. What cannot be read is given as a string.
    pub async fn receive(&mut self, who: &str) -> Value {
        let received = self.0.next(side(who)).await;
        let received = received.unwrap_or_else(|| panic!("{who} has received nothing"));
        if received.get("method").is_some()
            && let Some(id) = received.get("id")
        {
            self.0.names.insert((side(who), id.to_string()), id.clone());
        }
        received
    }
}

impl std::fmt::Debug for Talk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Talk").finish_non_exhaustive()
    }
}

fn side(who: &str) -> Side {
    match who {
        "editor" => Side::Editor,
        "agent" => Side::Agent,
        _ => panic!("nobody is called {who}: it is editor or agent"),
    }
}

struct Stage {
    engine: Engine,
    link: Dialect,
    /// What is played is an agent.
    nobody_behind: bool,
    lines: Vec<u8>,
    received: BTreeMap<Side, VecDeque<Value>>,
    /// The ids that the proxy chose, by who received them and their name in the script.
    names: BTreeMap<(Side, String), Value>,
}

impl Stage {
    fn new(proxy: Proxy) -> Stage {
        let link: Dialect = if proxy.last {
            Plain::agent().into()
        } else {
            Link::pinned("proxy", Generation::CURRENT).into()
        };
        let received = [(Side::Editor, VecDeque::new()), (Side::Agent, VecDeque::new())];
        Stage {
            nobody_behind: proxy.last,
            link,
            engine: Engine::new(proxy),
            lines: Vec::new(),
            received: received.into(),
            names: BTreeMap::new(),
        }
    }

    fn send(&mut self, who: Side, mut json: Value) {
        let there = who == Side::Editor || !self.nobody_behind;
        assert!(there, "there is nobody behind an agent who could send {json}");
        if let Some(id) = json.get("id").cloned() {
            json["id"] = match json.get("method") {
                // Both sides number their own questions.
                Some(_) => Value::String(format!("{who:?}:{id}")),
                None => self
                    .names
                    .get(&(who, id.to_string()))
                    .unwrap_or_else(|| panic!("{who:?} answers {id}, which it was not asked"))
                    .clone(),
            };
        }
        if json["method"] == "$/cancel_request" {
            let id = json["params"]["requestId"].to_string();
            json["params"]["requestId"] = Value::String(format!("{who:?}:{id}"));
        }
        self.send_text(who, json.to_string());
    }

    fn send_text(&mut self, who: Side, text: String) {
        let line = Bytes::from(text);
        let message = Message::parse(&line).unwrap_or_else(|why| panic!("{why}: {line:?}"));
        let mut line = Vec::new();
        self.link.encode(who.opposite(), &message, &mut line);
        line.pop();
        self.engine.handle(&Bytes::from(line), &mut self.lines);
        // As in a real proxy: handlers go as far as they can before the next line.
        self.engine.advance(&mut Context::from_waker(Waker::noop()), &mut self.lines);
        self.sort();
    }

    /// Lets the proxy go as far as it can, and sorts what it says.
    async fn advance(&mut self) {
        let (engine, lines) = (&mut self.engine, &mut self.lines);
        poll_fn(|cx| Poll::Ready(engine.advance(cx, lines))).await;
        self.sort();
    }

    fn sort(&mut self) {
        for line in std::mem::take(&mut self.lines).split(|byte| *byte == b'\n') {
            if line.is_empty() {
                continue;
            }
            let line = Bytes::copy_from_slice(line);
            let decoded = self.link.decode(&line, &mut Vec::new());
            let (side, message) = decoded.expect("a message").expect("for somebody");
            let text = message.to_line();
            let mut json = serde_json::from_str(&text).unwrap_or(Value::String(text));
            json.as_object_mut().map(|members| members.remove("jsonrpc"));
            let side = match &message {
                Message::Response { id, .. } => answered(id, &mut json),
                // It names a question that the proxy has asked, of whichever side.
                Message::Notification(call) if call.is(acp_wire::acp::CANCEL_REQUEST) => {
                    let id = &json["params"]["requestId"];
                    let asked = self.names.iter().find(|(_, it)| *it == id).map(|(key, _)| key);
                    let (side, name) = asked.cloned().expect("a question that was received");
                    json["params"]["requestId"] = serde_json::from_str(&name).expect("JSON");
                    side
                }
                _ => side,
            };
            self.received.entry(side).or_default().push_back(json);
        }
    }

    /// What that side receives next; `None` if nothing comes.
    async fn next(&mut self, who: Side) -> Option<Value> {
        self.advance().await;
        if self.received[&who].is_empty() {
            let (engine, lines) = (&mut self.engine, &mut self.lines);
            let more = poll_fn(|cx| match engine.advance(cx, lines) || !lines.is_empty() {
                true => Poll::Ready(()),
                false => Poll::Pending,
            });
            let _ = tokio::time::timeout(PATIENCE, more).await;
            self.sort();
        }
        self.received.get_mut(&who).and_then(VecDeque::pop_front)
    }

    async fn expect(&mut self, who: Side, mut expected: Value, number: usize) {
        let received = self.next(who).await;
        let Some(received) = received else {
            panic!("line {number}: {who:?} has received nothing, expected: {expected}");
        };
        if let (Some(id), Some(name)) = (received.get("id"), expected.get("id").cloned())
            && received.get("method").is_some()
        {
            self.names.insert((who, name.to_string()), id.clone());
            expected["id"] = id.clone();
        }
        assert_eq!(received, expected, "line {number}: {who:?} has received something else");
    }
}

/// Whose question an answer is for; its id as that side knows it.
fn answered(id: &Id, json: &mut Value) -> Side {
    let text = id.text().unwrap_or_default().into_owned();
    let (side, id) = text.split_once(':').unwrap_or(("Editor", &text));
    json["id"] = serde_json::from_str(id).unwrap_or(Value::Null);
    if side == "Agent" { Side::Agent } else { Side::Editor }
}
