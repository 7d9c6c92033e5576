//! A chain with `budget`: the test is the editor, the agent and the clock.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use acp_proxy::script::Conversation;
use clap::Parser;
use components::BuiltIn;
use components::budget::Budget;
use components::budget::ledger::Clock;
use jiff::Zoned;
use serde_json::{Value, json};

/// A folder that is deleted at the end of a test.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Folder {
        static LAST: AtomicU64 = AtomicU64::new(0);
        let number = LAST.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("budget-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).expect("a new folder");
        Folder(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The lines of the file of a day.
    pub(crate) fn lines(&self, day: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.0.join(format!("{day}.jsonl"))).expect("a file");
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The events in the file of a day.
    pub(crate) fn events(&self, day: &str) -> Vec<String> {
        let event = |line: &Value| line["event"].as_str().expect("an event").to_owned();
        self.lines(day).iter().map(event).collect()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A clock that the test sets.
#[derive(Clone)]
pub(crate) struct TestClock(Arc<Mutex<Zoned>>);

impl TestClock {
    pub(crate) fn new(time: &str) -> TestClock {
        TestClock(Arc::new(Mutex::new(time.parse().expect("a time"))))
    }

    pub(crate) fn set(&self, time: &str) {
        *self.0.lock().expect("no panic") = time.parse().expect("a time");
    }

    pub(crate) fn clock(&self) -> Clock {
        let time = self.0.clone();
        Clock::new(move || time.lock().expect("no panic").clone())
    }
}

/// The day of most tests.
pub(crate) const DAY: &str = "2026-11-16";

pub(crate) fn noon() -> TestClock {
    TestClock::new("2026-11-16T12:00:00+01:00[Europe/Berlin]")
}

/// The component with these options.
#[track_caller]
pub(crate) fn budget(folder: &Folder, options: &str) -> Budget {
    let ledger = folder.path().to_str().expect("UTF-8").to_owned();
    let words = ["budget", "--ledger", &ledger].into_iter().map(str::to_owned);
    let words = words.chain(options.split_whitespace().map(|it| it.replace('_', " ")));
    let budget = Budget::try_parse_from(words).expect("valid options");
    budget.check().expect("valid options");
    budget
}

pub(crate) struct Chain {
    talk: Conversation,
    last_id: u64,
    is_v2: bool,
}

impl Chain {
    /// A chain with these options and an agent of this name, in ACP version 1, with the session `s`.
    #[track_caller]
    pub(crate) fn new(folder: &Folder, options: &str, agent: &str) -> Chain {
        Chain::at(folder, options, agent, &noon())
    }

    #[track_caller]
    pub(crate) fn at(folder: &Folder, options: &str, agent: &str, clock: &TestClock) -> Chain {
        let mut chain = Chain::without_session(folder, options, clock);
        let answer = chain.initialize(1, agent);
        assert!(answer["error"].is_null(), "{answer}");
        chain.new_session("s");
        chain
    }

    /// A chain in ACP version 2, with the session `s`.
    #[track_caller]
    pub(crate) fn v2(folder: &Folder, options: &str, agent: &str) -> Chain {
        let mut chain = Chain::without_session(folder, options, &noon());
        chain.is_v2 = true;
        let answer = chain.initialize(2, agent);
        assert!(answer["error"].is_null(), "{answer}");
        chain.new_session("s");
        chain
    }

    #[track_caller]
    pub(crate) fn without_session(folder: &Folder, options: &str, clock: &TestClock) -> Chain {
        Chain::of(&budget(folder, options), clock)
    }

    /// A chain with this component, which may have run before.
    #[track_caller]
    pub(crate) fn of(budget: &Budget, clock: &TestClock) -> Chain {
        let talk = Conversation::new(budget.build_with(clock.clock()));
        Chain { talk, last_id: 0, is_v2: false }
    }

    /// Sends a request of the editor that the agent answers. Returns the answer that the editor gets.
    #[track_caller]
    pub(crate) fn ask(&mut self, method: &str, params: Value, result: Value) -> Value {
        self.send(method, params);
        self.answer(result);
        self.talk.receive("editor")
    }

    #[track_caller]
    pub(crate) fn initialize(&mut self, version: u64, agent: &str) -> Value {
        let info = json!({ "name": agent, "version": "1.0" });
        let result = match version {
            1 => json!({ "protocolVersion": 1, "agentInfo": info }),
            _ => json!({ "protocolVersion": 2, "info": info }),
        };
        self.ask("initialize", json!({ "protocolVersion": version }), result)
    }

    #[track_caller]
    pub(crate) fn new_session(&mut self, session: &str) {
        let answer =
            self.ask("session/new", json!({ "cwd": "/" }), json!({ "sessionId": session }));
        assert_eq!(answer["result"]["sessionId"], session, "{answer}");
    }

    /// The conductor sets up a session again, because the component was restarted.
    #[track_caller]
    pub(crate) fn replay_session(&mut self, session: &str) {
        let request = json!({ "jsonrpc": "2.0", "id": "r:1", "method": "session/new", "params": { "cwd": "/" } });
        self.talk.send_text("editor", &request.to_string());
        self.answer(json!({ "sessionId": session }));
        self.talk.receive("editor");
    }

    #[track_caller]
    pub(crate) fn send(&mut self, method: &str, params: Value) {
        self.last_id += 1;
        let request = json!({ "id": self.last_id, "method": method, "params": params });
        self.talk.send("editor", &request.to_string());
    }

    /// The agent answers the request that it receives next.
    #[track_caller]
    pub(crate) fn answer(&mut self, result: Value) {
        let request = self.talk.receive("agent");
        self.talk.send("agent", &json!({ "id": request["id"], "result": result }).to_string());
    }

    /// The agent answers with an error.
    #[track_caller]
    pub(crate) fn fail(&mut self) {
        let request = self.talk.receive("agent");
        let error = json!({ "code": -32603, "message": "overloaded" });
        self.talk.send("agent", &json!({ "id": request["id"], "error": error }).to_string());
    }

    #[track_caller]
    pub(crate) fn editor(&mut self) -> Value {
        self.talk.receive("editor")
    }

    #[track_caller]
    pub(crate) fn agent(&mut self) -> Value {
        self.talk.receive("agent")
    }

    /// The editor answers a request.
    #[track_caller]
    pub(crate) fn editor_answers(&mut self, request: &Value, result: Value) {
        self.talk.send("editor", &json!({ "id": request["id"], "result": result }).to_string());
    }

    /// The agent sends a notification.
    #[track_caller]
    pub(crate) fn agent_sends(&mut self, message: &Value) {
        self.talk.send("agent", &message.to_string());
    }

    /// The agent sends a text as it is.
    #[track_caller]
    pub(crate) fn agent_sends_text(&mut self, text: &str) {
        self.talk.send_text("agent", text);
    }

    /// The agent answers a request that the test has received.
    #[track_caller]
    pub(crate) fn agent_answers(&mut self, request: &Value, result: Value) {
        self.talk.send("agent", &json!({ "id": request["id"], "result": result }).to_string());
    }

    #[track_caller]
    pub(crate) fn prompt(&mut self, session: &str) {
        let block = json!({ "type": "text", "text": "hello" });
        self.send("session/prompt", json!({ "sessionId": session, "prompt": [block] }));
    }

    /// The editor cancels the turn of a session.
    #[track_caller]
    pub(crate) fn cancel(&mut self, session: &str) {
        let cancel = json!({ "method": "session/cancel", "params": { "sessionId": session } });
        self.talk.send("editor", &cancel.to_string());
    }

    /// The agent sends an update, which the editor receives.
    #[track_caller]
    pub(crate) fn update(&mut self, session: &str, update: Value) {
        let params = json!({ "sessionId": session, "update": update });
        let update = json!({ "method": "session/update", "params": params });
        self.talk.send("agent", &update.to_string());
        let received = self.talk.receive("editor");
        assert_eq!(received["params"], update["params"]);
    }

    /// The agent reports the cost of the session so far.
    #[track_caller]
    pub(crate) fn cost(&mut self, session: &str, amount: f64) {
        let cost = json!({ "amount": amount, "currency": "USD" });
        self.update(
            session,
            json!({ "sessionUpdate": "usage_update", "used": 1, "size": 9, "cost": cost }),
        );
    }

    /// A turn whose answer reports these tokens. Returns the notices and the end that the editor receives.
    #[track_caller]
    pub(crate) fn turn(&mut self, session: &str, tokens: u64) -> Turn {
        let usage = json!({ "totalTokens": tokens, "inputTokens": tokens, "outputTokens": 0 });
        self.turn_with(session, json!({ "stopReason": "end_turn", "usage": usage }))
    }

    /// A turn with this end.
    #[track_caller]
    pub(crate) fn turn_with(&mut self, session: &str, end: Value) -> Turn {
        self.prompt(session);
        if !self.is_v2 {
            self.answer(end);
            return self.rest_of_turn();
        }
        self.answer(json!({ "messageId": "m" }));
        let accepted = self.editor();
        assert_eq!(accepted["result"]["messageId"], "m", "{accepted}");
        let mut update = json!({ "sessionUpdate": "state_update", "state": "idle" });
        update.as_object_mut().expect("an object").extend(end.as_object().expect("one").clone());
        let params = json!({ "sessionId": session, "update": update });
        let update = json!({ "method": "session/update", "params": params });
        self.talk.send("agent", &update.to_string());
        self.rest_of_turn()
    }

    /// What the editor receives until the turn has ended.
    #[track_caller]
    pub(crate) fn rest_of_turn(&mut self) -> Turn {
        let mut notices = String::new();
        loop {
            let message = self.editor();
            let update = &message["params"]["update"];
            match message.get("method") {
                Some(_) if update["sessionUpdate"] == "state_update" => {
                    return Turn { notices, end: message };
                }
                Some(_) => {
                    let text = &update["content"]["text"];
                    notices += text.as_str().unwrap_or_else(|| panic!("no text: {message}"));
                }
                None => return Turn { notices, end: message },
            }
        }
    }

    /// The tool call that the editor shows for a question ends with this status.
    #[track_caller]
    pub(crate) fn question_ends(&mut self, question: &Value, status: &str) {
        let params = &question["params"];
        let in_v2 = &params["subject"]["toolCall"]["toolCallId"];
        let call = params["toolCall"].get("toolCallId").unwrap_or(in_v2);
        let update = self.editor()["params"]["update"].clone();
        assert_eq!(
            (&update["sessionUpdate"], &update["toolCallId"], update["status"].as_str()),
            (&json!("tool_call_update"), call, Some(status)),
            "{update}"
        );
    }

    /// A prompt that is refused. Returns the error.
    #[track_caller]
    pub(crate) fn refused(&mut self, session: &str) -> Value {
        self.prompt(session);
        let answer = self.editor();
        assert_eq!(answer["error"]["code"], -32603, "{answer}");
        assert_eq!(answer["error"]["data"]["component"], "budget", "{answer}");
        answer["error"].clone()
    }
}

/// The end of a turn.
pub(crate) struct Turn {
    /// What the component says.
    pub(crate) notices: String,
    /// The answer, or the idle update.
    pub(crate) end: Value,
}
