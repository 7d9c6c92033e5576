//! The demo agent as an editor meets it.

use acp_proxy::script::Conversation;
use components::Component;
use components::demo::DemoAgent;
use serde_json::{Value, json};

/// A conversation with the agent, in one session.
struct Chat {
    conversation: Conversation,
    session: String,
    last_id: u64,
}

/// What came of a prompt: the kinds of the updates, without repetition; the text; the answer.
struct Answer {
    kinds: Vec<String>,
    text: String,
    tools: Vec<String>,
    stopped: String,
}

impl Chat {
    fn new(servers: Value) -> Chat {
        use clap::Parser;
        let agent = DemoAgent::parse_from(["demo-agent", "--pace", "0"]).make();
        let mut chat =
            Chat { conversation: Conversation::new(agent), session: String::new(), last_id: 0 };
        let greeting = chat.ask("initialize", json!({ "protocolVersion": 1 }));
        assert_eq!(greeting["agentInfo"]["name"], "demo-agent");
        assert_eq!(greeting["agentCapabilities"]["loadSession"], true);
        let new = chat.ask("session/new", json!({ "cwd": "/", "mcpServers": servers }));
        assert_eq!(new["modes"]["currentModeId"], "ask");
        chat.session = new["sessionId"].as_str().expect("an id").to_owned();
        chat
    }

    fn send(&mut self, method: &str, params: &Value) {
        self.last_id += 1;
        let line = json!({ "id": self.last_id, "method": method, "params": params });
        self.conversation.send("editor", &line.to_string());
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.send(method, &params);
        let answer = self.conversation.receive("editor");
        assert!(answer.get("method").is_none(), "{answer}");
        if answer["result"].is_null() { answer["error"].clone() } else { answer["result"].clone() }
    }

    fn prompt(&mut self, text: &str) {
        let prompt = json!([{ "type": "text", "text": text }]);
        let params = json!({ "sessionId": self.session, "prompt": prompt });
        self.send("session/prompt", &params);
    }

    /// Receives all of a turn; permission is answered with this outcome.
    fn turn(&mut self, outcome: Value) -> Answer {
        let (mut kinds, mut text, mut tools) = (Vec::<String>::new(), String::new(), Vec::new());
        loop {
            let message = self.conversation.receive("editor");
            match message["method"].as_str() {
                Some("session/update") => {
                    let update = &message["params"]["update"];
                    let kind = update["sessionUpdate"].as_str().expect("a kind").to_owned();
                    if kind == "agent_message_chunk" {
                        text.push_str(update["content"]["text"].as_str().expect("a text"));
                    }
                    if kind.starts_with("tool_call") {
                        tools.push(update["status"].as_str().unwrap_or("pending").to_owned());
                    }
                    if kinds.last() != Some(&kind) {
                        kinds.push(kind);
                    }
                }
                Some("session/request_permission") => {
                    kinds.push("permission".into());
                    let answer = json!({ "id": message["id"], "result": { "outcome": outcome } });
                    self.conversation.send("editor", &answer.to_string());
                }
                Some(other) => panic!("{other}"),
                None => {
                    let stopped = message["result"]["stopReason"].as_str().expect("an answer");
                    return Answer { kinds, text, tools, stopped: stopped.to_owned() };
                }
            }
        }
    }

    fn said(&mut self, text: &str) -> Answer {
        self.prompt(text);
        self.turn(json!({ "outcome": "cancelled" }))
    }
}

fn selected(option: &str) -> Value {
    json!({ "outcome": "selected", "optionId": option })
}

#[test]
fn it_talks_in_small_pieces_about_what_was_said() {
    let mut chat = Chat::new(json!([]));
    let answer = chat.said("hello there");
    assert_eq!(
        (answer.kinds, answer.stopped.as_str()),
        (vec!["agent_message_chunk".into()], "end_turn")
    );
    assert!(answer.text.starts_with("Hello! You said “hello there”"), "{}", answer.text);
    let answer = chat.said("what is a proxy?");
    assert_eq!(answer.kinds, ["agent_thought_chunk", "agent_message_chunk"]);
    assert!(chat.said("help").text.contains("use TOOL"));
    assert_eq!(chat.said("a plan").kinds.iter().filter(|it| *it == "plan").count(), 2);
    assert!(chat.said("tools").text.contains("no MCP servers"));
}

#[test]
fn it_asks_before_it_edits_and_does_as_it_is_told() {
    let mut chat = Chat::new(json!([]));
    chat.prompt("edit the file");
    let allowed = chat.turn(selected("allow"));
    assert_eq!(allowed.tools, ["pending", "in_progress", "completed"]);
    assert!(allowed.kinds.contains(&"permission".to_owned()));
    chat.prompt("edit the file");
    let rejected = chat.turn(selected("reject"));
    assert_eq!(rejected.tools, ["pending", "failed"]);
    assert!(rejected.text.contains("alone"), "{}", rejected.text);
    let left = chat.said("edit the file");
    assert_eq!((left.tools.len(), left.stopped.as_str()), (2, "cancelled"));

    let mode = json!({ "sessionId": chat.session, "modeId": "auto" });
    chat.ask("session/set_mode", mode);
    let automatic = chat.said("edit the file");
    assert_eq!(automatic.kinds, ["tool_call", "tool_call_update", "agent_message_chunk"]);
    let mode = json!({ "sessionId": chat.session, "modeId": "nonsense" });
    assert_eq!(chat.ask("session/set_mode", mode)["code"], -32602);
}

#[test]
fn a_turn_is_cancelled_at_any_moment() {
    let mut chat = Chat::new(json!([]));
    chat.prompt("edit the file");
    assert_eq!(chat.conversation.receive("editor")["method"], "session/update");
    let question = chat.conversation.receive("editor");
    assert_eq!(question["method"], "session/request_permission");
    let cancel = json!({ "method": "session/cancel", "params": { "sessionId": chat.session } });
    chat.conversation.send("editor", &cancel.to_string());
    let rest = chat.turn(Value::Null);
    assert_eq!((rest.tools, rest.stopped.as_str()), (vec!["failed".into()], "cancelled"));
    // The editor has to answer the question all the same.
    let answer =
        json!({ "id": question["id"], "result": { "outcome": { "outcome": "cancelled" } } });
    chat.conversation.send("editor", &answer.to_string());
    assert_eq!(chat.said("hello").stopped, "end_turn");
}

#[test]
fn a_session_is_replayed_until_it_is_closed() {
    let mut chat = Chat::new(json!([]));
    let said = chat.said("hello").text;
    let load = json!({ "sessionId": chat.session, "cwd": "/", "mcpServers": [] });
    chat.send("session/load", &load);
    let user = chat.conversation.receive("editor");
    assert_eq!(user["params"]["update"]["sessionUpdate"], "user_message_chunk");
    let agent = chat.conversation.receive("editor");
    assert_eq!(agent["params"]["update"]["content"]["text"], said.as_str());
    assert_eq!(chat.conversation.receive("editor")["result"]["modes"]["currentModeId"], "ask");
    chat.ask("session/close", json!({ "sessionId": chat.session }));
    let unknown = chat.ask("session/load", load);
    assert!(unknown["message"].as_str().expect("why").contains("there is no session"), "{unknown}");
}

/// A server in a few lines of shell: it answers by the method it reads, and leaves a note when it ends.
const SERVER: &str = r#"
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\([0-9]*\).*/\1/p')
  case "$line" in
    *'"initialize"'*) result='{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}}' ;;
    *'"tools/list"'*) result='{"tools":[{"name":"greet","description":"Greets","inputSchema":{}},{"name":"hang","inputSchema":{}}]}' ;;
    *'"greet"'*) echo 'not json'; echo '{"jsonrpc":"2.0","id":"p","method":"ping"}'; read -r pong
                 result="{\"content\":[{\"type\":\"text\",\"text\":\"$GREETING, friend\"}]}" ;;
    *'"hang"'*|*'"notifications/'*) continue ;;
  esac
  echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":$result}"
done
echo ended > "$NOTE"
"#;

#[cfg(unix)]
#[test]
fn tools_are_really_called_and_servers_end_with_their_session() {
    let note = std::env::temp_dir().join(format!("demo-agent-{}.note", std::process::id()));
    let servers = json!([
        { "name": "shell", "command": "/bin/sh", "args": ["-c", SERVER], "env": [
            { "name": "GREETING", "value": "good day" },
            { "name": "NOTE", "value": note },
        ] },
        { "name": "broken", "command": "/nowhere/at/all", "args": [], "env": [] },
        { "type": "http", "name": "web", "url": "http://127.0.0.1:1", "headers": [] },
    ]);
    let mut chat = Chat::new(servers);
    let tools = chat.said("tools").text;
    assert!(tools.contains("- greet: Greets") && tools.contains("broken has none"), "{tools}");
    assert!(tools.contains("web has none"), "{tools}");
    let used = chat.said("use greet {\"a\": 1}");
    assert_eq!(used.tools, ["pending", "in_progress", "completed"]);
    assert!(used.text.contains("good day, friend"), "{}", used.text);
    assert_eq!(chat.said("call shell greet").tools.last().unwrap(), "completed");
    let unknown = chat.said("Please use the sing tool to cheer me up.");
    assert_eq!(unknown.tools.last().unwrap(), "failed");
    assert!(unknown.text.contains("no server has a tool sing"), "{}", unknown.text);
    assert!(chat.said("use greet {").text.contains("no JSON"));

    // A tool that takes for ever does not keep the turn, nor the next call.
    chat.prompt("use hang");
    let kind = |it: &Value| it["params"]["update"]["sessionUpdate"].as_str().map(str::to_owned);
    assert_eq!(kind(&chat.conversation.receive("editor")).unwrap(), "tool_call");
    assert_eq!(kind(&chat.conversation.receive("editor")).unwrap(), "tool_call_update");
    let cancel = json!({ "method": "session/cancel", "params": { "sessionId": chat.session } });
    chat.conversation.send("editor", &cancel.to_string());
    assert_eq!(chat.turn(Value::Null).stopped, "cancelled");
    assert_eq!(chat.said("use greet").tools.last().unwrap(), "completed");

    chat.ask("session/close", json!({ "sessionId": chat.session }));
    assert!(note.exists(), "the server was waited for");
    std::fs::remove_file(note).unwrap();
}
