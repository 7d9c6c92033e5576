//! What `filter` redacts, blocks and leaves alone.

mod interruptions;
mod options;
mod places;
mod streams;
mod writers;

use acp_proxy::script::Conversation;
use clap::Parser;
use components::BuiltIn;
use components::filter::Filter;
use serde_json::{Value, json};

/// A token of GitHub, and one of npm.
const GITHUB: &str = "ghp_aB3dE6gH9jK2mN5pQ8sT1vW4yZ7aC0eF3hI6";
const NPM: &str = "npm_aB3dE6gH9jK2mN5pQ8sT1vW4yZ7aC0eF3hI6";

/// A conversation through `filter`. Metrics are collected apart.
struct Talk {
    conversation: Conversation,
    markers: u64,
    metrics: Vec<Value>,
}

impl Talk {
    fn new() -> Talk {
        Talk::with(&[])
    }

    fn with(options: &[&str]) -> Talk {
        let words = std::iter::once("filter").chain(options.iter().copied());
        Talk::of(&Filter::parse_from(words))
    }

    #[track_caller]
    fn of(filter: &Filter) -> Talk {
        filter.check().expect("valid options");
        Talk { conversation: Conversation::new(filter.build()), markers: 0, metrics: Vec::new() }
    }

    #[track_caller]
    fn send(&mut self, side: &str, message: &Value) {
        self.conversation.send(side, &message.to_string());
    }

    /// Everything that a side has received since the last call.
    #[track_caller]
    fn received(&mut self, side: &str) -> Vec<Value> {
        self.markers += 1;
        let marker = json!({ "method": "_x/marker", "params": { "number": self.markers } });
        let other = if side == "editor" { "agent" } else { "editor" };
        self.send(other, &marker);
        let mut received = Vec::new();
        loop {
            let message = self.conversation.receive(side);
            if message == marker {
                return received;
            }
            match message["method"] == "_proxy/metric" {
                true => self.metrics.push(message["params"].clone()),
                false => received.push(message),
            }
        }
    }

    /// The only message that a side has received.
    #[track_caller]
    fn one(&mut self, side: &str) -> Value {
        let mut received = self.received(side);
        assert_eq!(received.len(), 1, "{received:#?}");
        received.remove(0)
    }

    /// The editor sends a prompt in a session.
    #[track_caller]
    fn prompt(&mut self, session: &str, text: &str) -> Value {
        self.send(
            "editor",
            &json!({ "id": session, "method": "session/prompt", "params": {
                "sessionId": session, "prompt": [{ "type": "text", "text": text }],
            }}),
        );
        self.one("agent")
    }

    /// The agent sends an update.
    #[track_caller]
    fn update(&mut self, session: &str, update: Value) {
        let params = json!({ "sessionId": session, "update": update });
        self.send("agent", &json!({ "method": "session/update", "params": params }));
    }

    /// The agent sends a chunk of its message.
    #[track_caller]
    fn say(&mut self, session: &str, text: &str) {
        self.update(session, chunk("agent_message_chunk", text));
    }

    /// The agent ends the turn that began with this request.
    #[track_caller]
    fn end(&mut self, request: &Value) {
        self.send("agent", &json!({ "id": request["id"], "result": { "stopReason": "end_turn" } }));
    }

    /// The agent sends a request, and the editor answers it. Returns what the agent receives.
    #[track_caller]
    fn ask(&mut self, method: &str, params: Value, answer: &Value) -> Value {
        self.send("agent", &json!({ "id": method, "method": method, "params": params }));
        let request = self.one("editor");
        let mut answer = answer.clone();
        answer["id"] = request["id"].clone();
        self.send("editor", &answer);
        self.one("agent")
    }
}

fn chunk(kind: &str, text: &str) -> Value {
    json!({ "sessionUpdate": kind, "content": { "type": "text", "text": text } })
}

/// The joined text of message chunks.
fn said(received: &[Value]) -> String {
    let texts = received.iter().map(|it| &it["params"]["update"]["content"]["text"]);
    texts.filter_map(Value::as_str).collect()
}

/// What each message is: the kind of update, the method, or `answer`.
fn kinds(received: &[Value]) -> Vec<&str> {
    received
        .iter()
        .map(|it| {
            let update = it["params"]["update"]["sessionUpdate"].as_str();
            update.or(it["method"].as_str()).unwrap_or("answer")
        })
        .collect()
}
