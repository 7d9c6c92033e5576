//! Tests for proxies and agents: plays the editor and the agent, without any process.
//!
//! ```
//! use acp_proxy::{Proxy, script};
//!
//! let proxy = Proxy::new("brief").on_prompt(async |mut prompt, next| {
//!     prompt.prepend_text("Briefly:");
//!     next.run(prompt).await
//! });
//! script::play(proxy, r#"
//!     editor > {"id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}
//!     agent  < {"id":7,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"Briefly:"}]}}
//!     agent  > {"id":7,"result":{"stopReason":"end_turn"}}
//!     editor < {"id":1,"result":{"stopReason":"end_turn"}}
//! "#);
//! ```
//!
//! - `editor > …` sends a message from the editor, and `agent > …` from the agent.
//! - `editor < …` expects that the editor receives this message next, and `agent < …` the agent. The order between
//!   the two sides does not matter.
//! - Messages are plain JSON-RPC without `"jsonrpc"`.
//! - The id of a request that is received is a name for the id that the proxy has chosen. Use it in the answer.
//! - Lines that begin with `#` are comments.
//!
//! A script for an [`Agent`](crate::Agent) has only the editor's lines.
//!
//! [`Conversation`] is for tests whose messages are not known beforehand. Both functions run their own tokio runtime,
//! so call them from a plain `#[test]` function, not from an async one.

mod diff;

use std::collections::{BTreeMap, VecDeque};
use std::future::poll_fn;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use acp_proxy_core::{Id, Side};
use acp_wire::dialect::{Generation, Plain, Proxy as ProxyLink};
use acp_wire::{Dialect, Message};
use bytes::Bytes;
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::component::Component;
use crate::serve::Runner;

/// How long to wait for an expected message.
const TIMEOUT: Duration = Duration::from_secs(60);

/// How long a component runs before a condition is checked again.
const STEP: Duration = Duration::from_millis(10);

/// Plays a script with a proxy or an agent.
///
/// # Panics
/// If a message differs from the expected one: the panic message has the line number and a diff. Also if a side has
/// received a message at the end that no line expects.
#[track_caller]
pub fn play(component: impl Into<Component>, script: &str) {
    let mut harness = Harness::new(component.into());
    for (number, line) in (1..).zip(script.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some((side, direction, json)) = split(line) else {
            panic!("line {number}: write `editor > {{…}}` or `agent < {{…}}`, not: {line}");
        };
        let json: Value = serde_json::from_str(json)
            .unwrap_or_else(|error| panic!("line {number} is not JSON: {error}: {line}"));
        match direction {
            '>' => harness.send(side, json),
            _ => harness.expect(side, json, number),
        }
    }
    harness.advance();
    for (side, left) in &harness.received {
        if let Some(message) = left.front() {
            let message = diff::pretty(message);
            panic!(
                "at the end, the {} has received an unexpected message:\n{message}",
                name(*side)
            );
        }
    }
}

fn split(line: &str) -> Option<(Side, char, &str)> {
    let (name, rest) = line.split_once(char::is_whitespace)?;
    let side = find_side(name)?;
    let rest = rest.trim_start();
    let direction = rest.chars().next().filter(|it| ['>', '<'].contains(it))?;
    Some((side, direction, rest[1..].trim_start()))
}

/// Opens a session with a proxy, calls one of its tools as the agent, and returns the result of the tool.
///
/// ```
/// use acp_proxy::{Proxy, NoInput, script};
///
/// let proxy = Proxy::new("greeter").tool("greet", "Says hello", async |_: NoInput| Ok("hello"));
/// let result = script::call_tool(proxy, "greet", &serde_json::json!({}));
/// assert_eq!(result["content"][0]["text"], "hello");
/// ```
///
/// # Panics
/// If the proxy offers no MCP server, or answers the call with an error. An error of the tool itself is a result with
/// `isError`.
#[track_caller]
pub fn call_tool(proxy: impl Into<Component>, name: &str, arguments: &Value) -> Value {
    let mut conversation = Conversation::new(proxy);
    let send = |conversation: &mut Conversation, side, message: Value| {
        conversation.send(side, &message.to_string());
    };
    let params = serde_json::json!({ "cwd": "/", "mcpServers": [] });
    let request = serde_json::json!({ "id": "new", "method": "session/new", "params": params });
    send(&mut conversation, "editor", request);
    let request = conversation.receive("agent");
    let server = &request["params"]["mcpServers"][0]["serverId"];
    assert!(server.is_string(), "the proxy offers no MCP server: {request}");
    let result = serde_json::json!({ "id": request["id"], "result": { "sessionId": "session" } });
    send(&mut conversation, "agent", result);
    let params = serde_json::json!({
        "serverId": server,
        "requestId": "call",
        "method": "tools/call",
        "params": { "name": name, "arguments": arguments },
    });
    let call = serde_json::json!({ "id": "call", "method": "mcp/message", "params": params });
    send(&mut conversation, "agent", call);
    let answer = conversation.receive("agent");
    let result = &answer["result"]["result"];
    assert!(result.is_object(), "the call of {name} failed: {answer}");
    result.clone()
}

/// A conversation step by step, for messages that are not known beforehand.
///
/// ```
/// use acp_proxy::{Proxy, script::Conversation};
///
/// let mut conversation = Conversation::new(Proxy::new("transparent"));
/// conversation.send("editor", r#"{"id":1,"method":"session/new","params":{}}"#);
/// let request = conversation.receive("agent");
/// assert_eq!(request["method"], "session/new");
/// ```
pub struct Conversation(Harness);

impl Conversation {
    /// Starts a proxy or an agent.
    pub fn new(component: impl Into<Component>) -> Conversation {
        Conversation(Harness::new(component.into()))
    }

    /// Sends a message from `"editor"` or `"agent"`. An answer has the id of the received request.
    ///
    /// # Panics
    /// If the message is not JSON, or an answer has an unknown id.
    #[track_caller]
    pub fn send(&mut self, side: &str, json: &str) {
        let json = serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {json}"));
        self.0.send(side_named(side), json);
    }

    /// Sends a text as it is, for JSON that serde_json cannot write. Requests need ids such as `"Editor:1"` or
    /// `"Agent:1"`.
    ///
    /// # Panics
    /// If the text is not JSON-RPC.
    #[track_caller]
    pub fn send_text(&mut self, side: &str, text: &str) {
        self.0.send_text(side_named(side), text.to_owned());
    }

    /// Runs the component until a condition holds, for work that ends with no message.
    ///
    /// # Panics
    /// If the condition does not hold within a minute.
    #[track_caller]
    pub fn run_until(&mut self, mut holds: impl FnMut() -> bool) {
        let deadline = Instant::now() + TIMEOUT;
        while !holds() {
            assert!(Instant::now() < deadline, "the condition does not hold");
            self.0.advance();
            self.0.run(STEP);
        }
    }

    /// The next message that `"editor"` or `"agent"` receives. A message that serde_json cannot read is a string.
    ///
    /// # Panics
    /// If no message comes within a minute.
    #[track_caller]
    pub fn receive(&mut self, side: &str) -> Value {
        let received = self.0.next(side_named(side));
        let received = received.unwrap_or_else(|| panic!("the {side} has received nothing"));
        if received.get("method").is_some()
            && let Some(id) = received.get("id")
        {
            self.0.ids.insert((side_named(side), id.to_string()), id.clone());
        }
        received
    }
}

impl std::fmt::Debug for Conversation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Conversation").finish_non_exhaustive()
    }
}

fn find_side(name: &str) -> Option<Side> {
    match name {
        "editor" => Some(Side::Editor),
        "agent" => Some(Side::Agent),
        _ => None,
    }
}

fn side_named(name: &str) -> Side {
    find_side(name).unwrap_or_else(|| panic!("there is no side `{name}`: use `editor` or `agent`"))
}

fn name(side: Side) -> &'static str {
    match side {
        Side::Editor => "editor",
        Side::Agent => "agent",
    }
}

/// A running component, with the test as its editor and its agent.
struct Harness {
    runner: Runner,
    runtime: Runtime,
    link: Dialect,
    is_agent: bool,
    lines: Vec<u8>,
    received: BTreeMap<Side, VecDeque<Value>>,
    /// The ids that the component has chosen, by the side that received them and their name in the script.
    ids: BTreeMap<(Side, String), Value>,
}

impl Harness {
    fn new(component: Component) -> Harness {
        let is_agent = component.is_agent;
        let link: Dialect = match is_agent {
            true => Plain::agent().into(),
            false => ProxyLink::pinned("proxy", Generation::CURRENT).into(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let received = [(Side::Editor, VecDeque::new()), (Side::Agent, VecDeque::new())];
        Harness {
            runner: Runner::new(component),
            runtime: runtime.unwrap_or_else(|error| panic!("the runtime cannot start: {error}")),
            link,
            is_agent,
            lines: Vec::new(),
            received: received.into(),
            ids: BTreeMap::new(),
        }
    }

    #[track_caller]
    fn send(&mut self, side: Side, mut json: Value) {
        let exists = side == Side::Editor || !self.is_agent;
        assert!(exists, "an agent has no agent behind it that could send {json}");
        if let Some(id) = json.get("id").cloned() {
            json["id"] = match json.get("method") {
                // Both sides number their requests from 1, so ids get the name of their side.
                Some(_) => Value::String(format!("{side:?}:{id}")),
                None => self.ids.get(&(side, id.to_string())).cloned().unwrap_or_else(|| {
                    panic!("the {} answers {id}, which it has not received", name(side))
                }),
            };
        }
        if json["method"] == "$/cancel_request" {
            let id = json["params"]["requestId"].to_string();
            json["params"]["requestId"] = Value::String(format!("{side:?}:{id}"));
        }
        self.send_text(side, json.to_string());
    }

    #[track_caller]
    fn send_text(&mut self, side: Side, text: String) {
        let line = Bytes::from(text);
        let message = Message::parse(&line).unwrap_or_else(|why| panic!("{why}: {line:?}"));
        let mut line = Vec::new();
        self.link.encode(side.opposite(), &message, &mut line);
        line.pop();
        let _entered = self.runtime.enter();
        self.runner.handle(&Bytes::from(line), &mut self.lines);
        // As in the event loop, handlers run as far as they can before the next line.
        self.runner.advance(&mut Context::from_waker(Waker::noop()), &mut self.lines);
        drop(_entered);
        self.sort();
    }

    /// Runs the handlers as far as they can.
    fn advance(&mut self) {
        let (runner, lines) = (&mut self.runner, &mut self.lines);
        self.runtime.block_on(poll_fn(|cx| Poll::Ready(runner.advance(cx, lines))));
        self.sort();
    }

    /// Sorts the lines that the component has written by the side that receives them.
    fn sort(&mut self) {
        for line in std::mem::take(&mut self.lines).split(|byte| *byte == b'\n') {
            if line.is_empty() {
                continue;
            }
            let line = Bytes::copy_from_slice(line);
            let decoded = self.link.decode(&line, &mut Vec::new());
            let (side, message) = decoded.expect("a message").expect("for a side");
            let text = message.to_line();
            let mut json = serde_json::from_str(&text).unwrap_or(Value::String(text));
            json.as_object_mut().map(|members| members.remove("jsonrpc"));
            let side = match &message {
                Message::Response { id, .. } => requester(id, &mut json),
                // The notification names a request that the component has sent, to either side.
                Message::Notification(call) if call.is(acp_wire::acp::CANCEL_REQUEST) => {
                    let id = &json["params"]["requestId"];
                    let sent = self.ids.iter().find(|(_, it)| *it == id).map(|(key, _)| key);
                    let (side, name) = sent.cloned().expect("a request that was received");
                    json["params"]["requestId"] = serde_json::from_str(&name).expect("JSON");
                    side
                }
                _ => side,
            };
            self.received.entry(side).or_default().push_back(json);
        }
    }

    /// The next message that this side receives. `None` after the timeout.
    fn next(&mut self, side: Side) -> Option<Value> {
        self.advance();
        let deadline = Instant::now() + TIMEOUT;
        // A task may advance without a message for this side.
        while self.received[&side].is_empty()
            && self.run(deadline.saturating_duration_since(Instant::now()))
        {}
        self.received.get_mut(&side).and_then(VecDeque::pop_front)
    }

    /// Runs the component until it has done something. Returns false if it does nothing within this time.
    fn run(&mut self, time: Duration) -> bool {
        let (runner, lines) = (&mut self.runner, &mut self.lines);
        let more = poll_fn(|cx| match runner.advance(cx, lines) || !lines.is_empty() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        });
        let waited = self.runtime.block_on(async { tokio::time::timeout(time, more).await });
        self.sort();
        waited.is_ok()
    }

    #[track_caller]
    fn expect(&mut self, side: Side, mut expected: Value, number: usize) {
        let Some(received) = self.next(side) else {
            let (side, expected) = (name(side), diff::pretty(&expected));
            panic!("line {number}: the {side} has received nothing. Expected:\n{expected}");
        };
        if let (Some(id), Some(name)) = (received.get("id"), expected.get("id").cloned())
            && received.get("method").is_some()
        {
            self.ids.insert((side, name.to_string()), id.clone());
            expected["id"] = id.clone();
        }
        if received != expected {
            let (side, diff) = (name(side), diff::diff(&expected, &received));
            panic!(
                "line {number}: the {side} has received another message (- expected, + received)\n{diff}"
            );
        }
    }
}

/// The side that a response is for. Gives the response the id that this side knows.
fn requester(id: &Id, json: &mut Value) -> Side {
    let text = id.text().unwrap_or_default().into_owned();
    let (side, id) = text.split_once(':').unwrap_or(("Editor", &text));
    json["id"] = serde_json::from_str(id).unwrap_or(Value::Null);
    if side == "Agent" { Side::Agent } else { Side::Editor }
}
