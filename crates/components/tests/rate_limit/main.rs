//! The component `rate-limit`, with a clock of the test.

mod leftovers;
mod limits;
mod restarts;
mod tool_calls;
mod versions;
mod waiting;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use acp_proxy::script::Conversation;
use clap::Parser;
use components::rate_limit::RateLimit;
use components::rate_limit::gate::Clock;
use serde_json::{Value, json};
use tokio::sync::Notify;

/// A clock that the test moves.
#[derive(Clone, Default)]
struct TestClock {
    seconds: Arc<AtomicU64>,
    changed: Arc<Notify>,
}

impl TestClock {
    fn clock(&self) -> Clock {
        let (now, sleep) = (self.clone(), self.clone());
        Clock::new(
            move || now.now(),
            move |time| {
                let (clock, end) = (sleep.clone(), sleep.now() + time);
                Box::pin(async move {
                    loop {
                        let mut changed = std::pin::pin!(clock.changed.notified());
                        changed.as_mut().enable();
                        if clock.now() >= end {
                            return;
                        }
                        changed.await;
                    }
                })
            },
        )
    }

    fn now(&self) -> Duration {
        Duration::from_secs(self.seconds.load(Ordering::Relaxed))
    }

    fn advance(&self, seconds: u64) {
        self.seconds.fetch_add(seconds, Ordering::Relaxed);
        self.changed.notify_waiters();
    }
}

fn options(words: &str) -> RateLimit {
    RateLimit::parse_from(std::iter::once("rate-limit").chain(words.split_whitespace()))
}

/// A conversation through the component.
struct Chain {
    talk: Conversation,
    clock: TestClock,
    last_id: u64,
}

impl Chain {
    /// A component with new sessions `s` and `t`.
    fn new(words: &str) -> Chain {
        let clock = TestClock::default();
        let mut chain = Chain::start(&options(words), &clock);
        chain.open("s");
        chain.open("t");
        chain
    }

    fn start(options: &RateLimit, clock: &TestClock) -> Chain {
        let talk = Conversation::new(options.build_with(clock.clock()));
        Chain { talk, clock: clock.clone(), last_id: 100 }
    }

    /// A component whose process was restarted. The conductor repeats the requests that have set up these sessions.
    fn restarted(words: &str, sessions: &[&str]) -> Chain {
        let clock = TestClock::default();
        let talk = Conversation::new(options(words).build_after_restart(clock.clock()));
        let mut chain = Chain { talk, clock, last_id: 100 };
        sessions.iter().for_each(|session| chain.replay(session));
        chain
    }

    /// The conductor repeats the request that set up a session. Its id begins with `r:`.
    fn replay(&mut self, session: &str) {
        let params = json!({ "cwd": "/", "mcpServers": [] });
        let request =
            json!({ "jsonrpc": "2.0", "id": "r:1", "method": "session/new", "params": params });
        self.talk.send_text("editor", &request.to_string());
        let request = self.passes("agent", "session/new");
        self.answer("agent", &request, json!({ "sessionId": session }));
        self.talk.receive("editor");
    }

    /// Sends a request from a side. Returns its id.
    fn request(&mut self, side: &str, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        self.talk.send(side, &json!({ "id": id, "method": method, "params": params }).to_string());
        id
    }

    fn notify(&mut self, side: &str, method: &str, params: Value) {
        self.talk.send(side, &json!({ "method": method, "params": params }).to_string());
    }

    /// The next message to a side, which must be a request of this method.
    #[track_caller]
    fn passes(&mut self, side: &str, method: &str) -> Value {
        let message = self.talk.receive(side);
        assert_eq!(message["method"], method, "{message}");
        message
    }

    fn answer(&mut self, side: &str, request: &Value, result: Value) {
        self.talk.send(side, &json!({ "id": request["id"], "result": result }).to_string());
    }

    /// The next message to a side, which must answer this request.
    #[track_caller]
    fn answered(&mut self, side: &str, id: u64) -> Value {
        let message = self.talk.receive(side);
        assert_eq!(message["id"], id, "{message}");
        message
    }

    fn open(&mut self, session: &str) {
        let id = self.request("editor", "session/new", json!({ "cwd": "/", "mcpServers": [] }));
        let request = self.passes("agent", "session/new");
        self.answer("agent", &request, json!({ "sessionId": session }));
        self.answered("editor", id);
    }

    fn prompt(&mut self, session: &str) -> u64 {
        let text = json!([{ "type": "text", "text": "hello" }]);
        self.request("editor", "session/prompt", json!({ "sessionId": session, "prompt": text }))
    }

    /// A prompt that passes, and its answer.
    #[track_caller]
    fn turn(&mut self, session: &str) {
        let id = self.prompt(session);
        self.ends(id);
    }

    /// A prompt reaches the agent, and its turn ends.
    #[track_caller]
    fn ends(&mut self, id: u64) {
        let request = self.passes("agent", "session/prompt");
        self.answer("agent", &request, json!({ "stopReason": "end_turn" }));
        let answer = self.answered("editor", id);
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    }

    /// The error that refuses this request. Checks its form, and returns when to try again.
    #[track_caller]
    fn refused(&mut self, side: &str, id: u64) -> Value {
        let answer = self.answered(side, id);
        let error = answer["error"].clone();
        let code = if side == "editor" { -32603 } else { -32000 };
        assert_eq!(error["code"], code, "{answer}");
        let message = error["message"].as_str().unwrap_or_default();
        assert!(message.starts_with("rate-limit: "), "{answer}");
        assert!(message.ends_with(" s [more: conductor errors rate-limited]"), "{answer}");
        assert_eq!(
            (&error["data"]["component"], &error["data"]["code"]),
            (&json!("rate-limit"), &json!("rate-limited"))
        );
        error["data"].clone()
    }

    /// The notice that a prompt waits.
    #[track_caller]
    fn told(&mut self) -> String {
        let update = self.passes("editor", "session/update");
        let update = &update["params"]["update"];
        assert_eq!(update["sessionUpdate"], "agent_thought_chunk", "{update}");
        update["content"]["text"].as_str().unwrap_or_default().to_owned()
    }

    /// Nothing waits to be received by a side: a request that nobody limits comes next.
    #[track_caller]
    fn nothing_else(&mut self, side: &str) {
        let other = if side == "agent" { "editor" } else { "agent" };
        let id = self.request(other, "_test/ping", json!({}));
        let ping = self.passes(side, "_test/ping");
        self.answer(side, &ping, json!({}));
        self.answered(other, id);
    }
}
