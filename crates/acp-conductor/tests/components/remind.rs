//! `remind` with real processes, and with an agent on the published TypeScript SDKs: the reminder is shown after the turn
//! has ended, and may start a turn.

use serde_json::{Value, json};
use testkit::peers::Peers;
use testkit::test_chain::{TestChain, directory};

struct Conversation {
    chain: TestChain,
    session: Value,
    last_id: u64,
}

impl Conversation {
    fn start(remind: &str, agent: &str) -> Conversation {
        Conversation::start_chain(&[remind, agent])
    }

    fn start_chain(components: &[&str]) -> Conversation {
        let components: Vec<String> = components.iter().map(|&it| it.to_owned()).collect();
        let chain = crate::new_setup().run("agent", &components);
        let mut conversation = Conversation { chain, session: Value::Null, last_id: 0 };
        let client = json!({ "name": "test", "version": "1" });
        let greeting =
            json!({ "protocolVersion": 1, "clientCapabilities": {}, "clientInfo": client });
        conversation.request("initialize", greeting);
        let cwd = directory("remind");
        let (_, new) = conversation.request("session/new", json!({ "cwd": cwd, "mcpServers": [] }));
        conversation.session = new["result"]["sessionId"].clone();
        conversation
    }

    /// Sends a request. Returns the texts before its answer, and the answer.
    fn request(&mut self, method: &str, params: Value) -> (String, Value) {
        self.last_id += 1;
        let line =
            json!({ "jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params });
        self.chain.editor.send(&line.to_string());
        let mut texts = String::new();
        loop {
            let message = self.chain.editor.message();
            if message["id"] == self.last_id {
                return (texts, message);
            }
            texts.push_str(text_of(&message));
        }
    }

    fn prompt(&mut self, text: &str) -> String {
        let prompt = json!([{ "type": "text", "text": text }]);
        let params = json!({ "sessionId": self.session, "prompt": prompt });
        let (texts, answer) = self.request("session/prompt", params);
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
        texts
    }

    /// The texts outside of a turn, until they contain this one.
    fn wait_for(&mut self, expected: &str) -> String {
        let mut texts = String::new();
        while !texts.contains(expected) {
            let message = self.chain.editor.message();
            assert_eq!(message["params"]["sessionId"], self.session, "{message}");
            texts.push_str(text_of(&message));
        }
        texts
    }
}

fn text_of(message: &Value) -> &str {
    message["params"]["update"]["content"]["text"].as_str().unwrap_or_default()
}

const CALL: &str = r#"call remind remind_me {"in":"1s","text":"the tea is ready"}"#;

#[test]
fn the_demo_agent_reminds_the_user_after_the_turn() {
    let mut conversation = Conversation::start("remind", "demo-agent --pace 0");
    let texts = conversation.prompt(CALL);
    assert!(texts.contains("is set"), "{texts}");
    conversation.wait_for("Reminder: the tea is ready");
}

#[test]
fn an_agent_of_the_typescript_sdk_reminds_the_user_and_gets_a_turn() {
    let agent = Peers::load().command("mcp_agent_ts").to_owned();
    let mut conversation = Conversation::start("remind --start-turn", &agent);
    let texts = conversation.prompt(CALL);
    assert!(texts.contains("Reminder 1 is set"), "{texts}");
    conversation.wait_for("Reminder: the tea is ready");
    // The agent repeats what it is told.
    conversation.wait_for("heard This is the reminder that was set");
    assert!(conversation.prompt("hello").contains("heard hello"));
}

/// In the order of the guide: `remind` is nearer to the editor than the guards.
#[test]
fn a_turn_that_a_reminder_starts_passes_the_guards() {
    let mut conversation = Conversation::start_chain(&[
        "remind --start-turn",
        "rate-limit --prompts-per-minute 1 --when-reached refuse",
        "demo-agent --pace 0",
    ]);
    conversation.prompt(CALL);
    conversation.wait_for("Reminder: the tea is ready");
    let refused = "the turn of a reminder failed with error -32603";
    conversation.chain.conductor.wait_for_stderr(refused);
}

#[test]
fn a_reminder_behind_a_guard_that_starts_turns_is_reported_in_the_log() {
    let conversation =
        Conversation::start_chain(&["filter", "remind --start-turn", "demo-agent --pace 0"]);
    let warning = "the guard 'filter' does not see the turns";
    conversation.chain.conductor.wait_for_stderr(warning);
}
