//! The component `remind`: reminders are shown after the turn, and may start a turn.

use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use acp_proxy::script::Conversation;
use clap::Parser;
use components::BuiltIn;
use components::remind::{Clock, Remind};
use serde_json::{Value, json};

/// A clock that the test moves.
#[derive(Clone, Default)]
struct ManualClock(Arc<Mutex<(Duration, Vec<Waker>)>>);

impl ManualClock {
    fn advance(&self, seconds: u64) {
        let mut clock = self.0.lock().unwrap();
        clock.0 += Duration::from_secs(seconds);
        clock.1.drain(..).for_each(Waker::wake);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        self.0.lock().unwrap().0
    }

    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Future<Output = ()>>> {
        let (clock, until) = (self.clone(), self.now() + duration);
        Box::pin(poll_fn(move |cx| {
            let mut state = clock.0.lock().unwrap();
            if state.0 >= until {
                return Poll::Ready(());
            }
            state.1.push(cx.waker().clone());
            Poll::Pending
        }))
    }
}

struct Talk {
    conversation: Conversation,
    clock: ManualClock,
    remind: Remind,
    server: Value,
    version: u64,
}

impl Talk {
    fn new(words: &[&str], editor: &str, version: u64) -> Talk {
        let clock = ManualClock::default();
        let words = [&["remind"], words].concat();
        let remind = Remind::parse_from(words).with_clock(Arc::new(clock.clone()));
        let conversation = Conversation::new(remind.build());
        let mut talk = Talk { conversation, clock, remind, server: Value::Null, version };
        talk.greet(editor);
        talk.editor(
            json!({ "id": 1, "method": "session/new", "params": { "cwd": "/", "mcpServers": [] } }),
        );
        let request = talk.conversation.receive("agent");
        talk.server = request["params"]["mcpServers"][0]["serverId"].clone();
        talk.agent(json!({ "id": request["id"], "result": { "sessionId": "s" } }));
        talk.conversation.receive("editor");
        talk
    }

    fn greet(&mut self, editor: &str) {
        let version = self.version;
        self.editor(json!({ "id": 0, "method": "initialize", "params": {
            "protocolVersion": version, "clientInfo": { "name": editor, "version": "1" },
        } }));
        let request = self.conversation.receive("agent");
        let mut result = json!({ "protocolVersion": version });
        if version == 1 {
            result["agentCapabilities"] = json!({});
        }
        self.agent(json!({ "id": request["id"], "result": result }));
        self.conversation.receive("editor");
    }

    /// The component is restarted, as after a crash.
    fn restart(&mut self) {
        self.conversation = Conversation::new(self.remind.build());
        self.greet("zed");
    }

    fn editor(&mut self, message: Value) {
        self.conversation.send("editor", &message.to_string());
    }

    fn agent(&mut self, message: Value) {
        self.conversation.send("agent", &message.to_string());
    }

    /// The agent calls a tool. Returns the text of the result.
    fn call(&mut self, tool: &str, arguments: Value) -> String {
        let params = json!({ "serverId": self.server, "requestId": "r", "method": "tools/call",
            "params": { "name": tool, "arguments": arguments } });
        self.agent(json!({ "id": "tool", "method": "mcp/message", "params": params }));
        let answer = self.conversation.receive("agent");
        let text = &answer["result"]["result"]["content"][0]["text"];
        text.as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    fn remind(&mut self, time: &str, text: &str) -> String {
        self.call("remind_me", json!({ "in": time, "text": text }))
    }

    fn prompt(&mut self, id: u64, text: &str) {
        let params = json!({ "sessionId": "s", "prompt": [{ "type": "text", "text": text }] });
        self.editor(json!({ "id": id, "method": "session/prompt", "params": params }));
    }

    /// The texts of the prompt that the agent receives, and its id.
    fn prompted(&mut self) -> (Vec<String>, Value) {
        let request = self.conversation.receive("agent");
        assert_eq!(request["method"], "session/prompt", "{request}");
        let blocks = request["params"]["prompt"].as_array().expect("blocks");
        let texts = blocks.iter().map(|it| it["text"].as_str().expect("text").to_owned());
        (texts.collect(), request["id"].clone())
    }

    fn end_turn(&mut self, id: &Value) {
        self.agent(json!({ "id": id, "result": { "stopReason": "end_turn" } }));
    }

    /// The text that the editor shows.
    fn shown(&mut self) -> String {
        let message = self.conversation.receive("editor");
        let text = &message["params"]["update"]["content"]["text"];
        text.as_str().unwrap_or_else(|| panic!("{message}")).trim().to_owned()
    }
}

#[test]
fn a_reminder_is_shown_when_it_is_due_and_the_session_is_idle() {
    for version in [1, 2] {
        let mut talk = Talk::new(&[], "zed", version);
        assert_eq!(talk.remind("10m", "tea"), "Reminder 1 is set. It is due in 10m.");
        assert_eq!(talk.remind("1 minute", "bread"), "Reminder 2 is set. It is due in 1m.");
        talk.clock.advance(60);
        assert_eq!(talk.shown(), "Reminder: bread");
        assert_eq!(talk.call("list_reminders", json!({})), "1: in 9m: tea");
        talk.clock.advance(540);
        assert_eq!(talk.shown(), "Reminder: tea");
        assert_eq!(talk.call("list_reminders", json!({})), "No reminder is set.");
    }
}

#[test]
fn a_reminder_that_is_due_in_a_turn_is_shown_after_it() {
    let mut talk = Talk::new(&[], "zed", 1);
    talk.prompt(2, "remind me");
    let (_, id) = talk.prompted();
    talk.remind("1s", "tea");
    talk.clock.advance(5);
    talk.agent(json!({ "method": "session/update", "params": { "sessionId": "s", "update": {
        "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "words" } } } }));
    assert_eq!(talk.shown(), "words");
    talk.end_turn(&id);
    assert_eq!(talk.conversation.receive("editor")["id"], 2);
    assert_eq!(talk.shown(), "Reminder: tea");
}

#[test]
fn in_version_2_a_reminder_waits_for_the_idle_state() {
    let state = |state: &str| {
        json!({ "method": "session/update", "params": { "sessionId": "s", "update": {
            "sessionUpdate": "state_update", "state": state } } })
    };
    let mut talk = Talk::new(&["--start-turn"], "zed", 2);
    talk.prompt(2, "remind me");
    let (_, id) = talk.prompted();
    talk.agent(json!({ "id": id, "result": { "messageId": "m" } }));
    assert_eq!(talk.conversation.receive("editor")["id"], 2);
    talk.agent(state("running"));
    assert_eq!(talk.conversation.receive("editor"), state("running"));
    talk.remind("1s", "tea");
    talk.clock.advance(5);
    talk.agent(state("idle"));
    let end = talk.conversation.receive("editor");
    assert_eq!(end["params"]["update"]["state"], "idle", "{end}");
    assert_eq!(talk.shown(), "Reminder: tea");
    let (texts, _) = talk.prompted();
    assert_eq!(texts, ["This is the reminder that was set 5s ago: tea"]);
}

#[test]
fn an_editor_that_shows_nothing_outside_of_a_turn_gets_the_reminder_in_the_next_one() {
    for (words, editor) in [
        (&["--start-turn"][..], "agent-shell"),
        (&["--start-turn"], "CodeCompanion.nvim"),
        (&["--start-turn", "--late-updates", "hold"], "zed"),
    ] {
        let mut talk = Talk::new(words, editor, 1);
        talk.remind("1s", "tea");
        talk.remind("2s", "bread");
        talk.clock.advance(3);
        assert_eq!(talk.call("list_reminders", json!({})), "No reminder is set.");
        talk.prompt(2, "hi");
        assert_eq!(talk.shown(), "Reminder: tea");
        assert_eq!(talk.shown(), "Reminder: bread");
        let (texts, id) = talk.prompted();
        assert_eq!(texts.len(), 3, "{texts:?}");
        assert!(
            texts[0].ends_with("ago: tea") && texts[1].ends_with("ago: bread") && texts[2] == "hi",
            "{texts:?}"
        );
        talk.end_turn(&id);
        assert_eq!(talk.conversation.receive("editor")["id"], 2);
        talk.prompt(3, "again");
        assert_eq!(talk.prompted().0, ["again"]);
    }
}

#[test]
fn a_reminder_can_start_a_turn_and_the_prompt_of_the_user_comes_after_it() {
    let mut talk = Talk::new(&["--start-turn"], "zed", 1);
    talk.remind("2h", "check the build");
    talk.clock.advance(7200);
    assert_eq!(talk.shown(), "Reminder: check the build");
    let (texts, own) = talk.prompted();
    assert_eq!(texts, ["This is the reminder that was set 2h ago: check the build"]);
    talk.prompt(2, "hello");
    talk.end_turn(&own);
    let (texts, id) = talk.prompted();
    assert_eq!(texts, ["hello"]);
    talk.end_turn(&id);
    assert_eq!(talk.conversation.receive("editor")["id"], 2);
}

#[test]
fn reminders_can_be_cancelled_and_end_with_their_session() {
    let mut talk = Talk::new(&[], "zed", 1);
    talk.remind("1m", "one");
    talk.remind("1m", "two");
    assert_eq!(talk.call("cancel_reminder", json!({ "number": 1 })), "Reminder 1 is cancelled.");
    assert_eq!(
        talk.call("cancel_reminder", json!({ "number": 1 })),
        "there is no reminder 1 in this session"
    );
    assert!(talk.remind("soon", "three").contains("`soon` is not a time"));
    assert!(talk.remind("1m", " ").contains("between 1 and"));
    talk.clock.advance(60);
    assert_eq!(talk.shown(), "Reminder: two");
    talk.remind("1m", "four");
    talk.editor(json!({ "id": 9, "method": "session/close", "params": { "sessionId": "s" } }));
    let request = talk.conversation.receive("agent");
    talk.agent(json!({ "id": request["id"], "result": {} }));
    assert_eq!(talk.conversation.receive("editor")["id"], 9);
    talk.clock.advance(120);
    // The next message is not a reminder.
    talk.editor(json!({ "id": 10, "method": "_any", "params": {} }));
    let request = talk.conversation.receive("agent");
    talk.agent(json!({ "id": request["id"], "result": {} }));
    assert_eq!(talk.conversation.receive("editor")["id"], 10);
}

#[test]
fn a_session_that_cannot_be_closed_keeps_its_reminders() {
    let mut talk = Talk::new(&[], "zed", 1);
    talk.prompt(2, "remind me");
    talk.prompted();
    talk.remind("1s", "due");
    talk.remind("1m", "later");
    talk.clock.advance(1);
    assert_eq!(talk.call("list_reminders", json!({})), "2: in 59s: later");
    talk.editor(json!({ "id": 9, "method": "session/close", "params": { "sessionId": "s" } }));
    let request = talk.conversation.receive("agent");
    let error = json!({ "code": -32603, "message": "busy" });
    talk.agent(json!({ "id": request["id"], "error": error }));
    assert_eq!(talk.conversation.receive("editor")["id"], 9);
    assert_eq!(talk.shown(), "Reminder: due");
    talk.clock.advance(60);
    assert_eq!(talk.shown(), "Reminder: later");
}

#[test]
fn reminders_survive_a_restart_of_the_component() {
    let mut talk = Talk::new(&[], "zed", 1);
    talk.remind("10m", "tea");
    talk.restart();
    talk.clock.advance(599);
    talk.clock.advance(1);
    assert_eq!(talk.shown(), "Reminder: tea");
}

#[test]
fn a_reminder_that_is_due_but_not_shown_survives_a_restart() {
    // It waits for the end of a turn.
    let mut talk = Talk::new(&[], "zed", 1);
    talk.prompt(2, "remind me");
    talk.prompted();
    talk.remind("1s", "tea");
    talk.clock.advance(1);
    assert_eq!(talk.call("list_reminders", json!({})), "No reminder is set.");
    talk.restart();
    assert_eq!(talk.shown(), "Reminder: tea");
    // It waits for the next prompt.
    let mut talk = Talk::new(&["--start-turn", "--late-updates", "hold"], "zed", 1);
    talk.remind("1s", "bread");
    talk.clock.advance(1);
    assert_eq!(talk.call("list_reminders", json!({})), "No reminder is set.");
    talk.restart();
    talk.prompt(2, "hi");
    assert_eq!(talk.shown(), "Reminder: bread");
    let (texts, _) = talk.prompted();
    assert_eq!(texts.len(), 2, "{texts:?}");
}

#[test]
fn reminders_start_only_some_turns_without_a_prompt_of_the_user() {
    let mut talk = Talk::new(&["--start-turn"], "zed", 1);
    for _ in 0..10 {
        talk.remind("1s", "again");
        talk.clock.advance(1);
        assert_eq!(talk.shown(), "Reminder: again");
        let (_, own) = talk.prompted();
        talk.end_turn(&own);
    }
    talk.remind("1s", "too often");
    talk.clock.advance(1);
    assert_eq!(talk.shown(), "Reminder: too often");
    talk.prompt(2, "hi");
    let (texts, id) = talk.prompted();
    assert_eq!(texts, ["This is the reminder that was set 1s ago: too often", "hi"]);
    talk.end_turn(&id);
    assert_eq!(talk.conversation.receive("editor")["id"], 2);
    talk.remind("1s", "once more");
    talk.clock.advance(1);
    assert_eq!(talk.shown(), "Reminder: once more");
    assert_eq!(talk.prompted().0, ["This is the reminder that was set 1s ago: once more"]);
}
