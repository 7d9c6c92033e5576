//! The demo agent, seen from an editor.

use acp_proxy::script::Conversation;
use components::BuiltIn;
use components::demo::DemoAgent;
use serde_json::{Value, json};

/// A conversation with the agent, in one session.
struct Chat {
    conversation: Conversation,
    session: String,
    last_id: u64,
}

/// The answer to a prompt: the kinds of the updates, without repetition; the text; the states of tool calls; the stop
/// reason.
struct Answer {
    kinds: Vec<String>,
    text: String,
    tools: Vec<String>,
    stop_reason: String,
}

impl Chat {
    fn new(servers: Value) -> Chat {
        use clap::Parser;
        let agent = DemoAgent::parse_from(["demo-agent", "--pace", "0"]).build();
        let mut chat =
            Chat { conversation: Conversation::new(agent), session: String::new(), last_id: 0 };
        let greeting = chat.request("initialize", json!({ "protocolVersion": 1 }));
        assert_eq!(greeting["agentInfo"]["name"], "demo-agent");
        assert_eq!(greeting["agentCapabilities"]["loadSession"], true);
        let new = chat.request("session/new", json!({ "cwd": "/", "mcpServers": servers }));
        assert_eq!(new["modes"]["currentModeId"], "ask");
        chat.session = new["sessionId"].as_str().expect("an id").to_owned();
        chat
    }

    fn send(&mut self, method: &str, params: &Value) {
        self.last_id += 1;
        let line = json!({ "id": self.last_id, "method": method, "params": params });
        self.conversation.send("editor", &line.to_string());
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        self.send(method, &params);
        let answer = self.conversation.receive("editor");
        assert!(answer.get("method").is_none(), "{answer}");
        if answer["result"].is_null() { answer["error"].clone() } else { answer["result"].clone() }
    }

    fn send_prompt(&mut self, text: &str) {
        let prompt = json!([{ "type": "text", "text": text }]);
        let params = json!({ "sessionId": self.session, "prompt": prompt });
        self.send("session/prompt", &params);
    }

    /// Receives all messages of a turn. Answers a request for permission with this outcome.
    fn read_turn(&mut self, outcome: Value) -> Answer {
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
                    let stop_reason = message["result"]["stopReason"].as_str().expect("an answer");
                    return Answer { kinds, text, tools, stop_reason: stop_reason.to_owned() };
                }
            }
        }
    }

    fn prompt_and_answer(&mut self, text: &str) -> Answer {
        self.send_prompt(text);
        self.read_turn(json!({ "outcome": "cancelled" }))
    }
}

fn selected(option: &str) -> Value {
    json!({ "outcome": "selected", "optionId": option })
}

#[test]
fn an_answer_is_streamed_and_repeats_the_prompt() {
    let mut chat = Chat::new(json!([]));
    let answer = chat.prompt_and_answer("hello there");
    assert_eq!(
        (answer.kinds, answer.stop_reason.as_str()),
        (vec!["agent_message_chunk".into()], "end_turn")
    );
    assert!(answer.text.starts_with("Hello! You said “hello there”"), "{}", answer.text);
    let answer = chat.prompt_and_answer("what is a proxy?");
    assert_eq!(answer.kinds, ["agent_thought_chunk", "agent_message_chunk"]);
    assert!(chat.prompt_and_answer("help").text.contains("use TOOL"));
    assert_eq!(chat.prompt_and_answer("a plan").kinds.iter().filter(|it| *it == "plan").count(), 2);
    assert!(chat.prompt_and_answer("tools").text.contains("no MCP servers"));
}

#[test]
fn it_asks_for_permission_before_an_edit_unless_the_mode_is_auto() {
    let mut chat = Chat::new(json!([]));
    chat.send_prompt("edit the file");
    let allowed = chat.read_turn(selected("allow"));
    assert_eq!(allowed.tools, ["pending", "in_progress", "completed"]);
    assert!(allowed.kinds.contains(&"permission".to_owned()));
    chat.send_prompt("edit the file");
    let rejected = chat.read_turn(selected("reject"));
    assert_eq!(rejected.tools, ["pending", "failed"]);
    assert!(rejected.text.contains("alone"), "{}", rejected.text);
    let left = chat.prompt_and_answer("edit the file");
    assert_eq!((left.tools.len(), left.stop_reason.as_str()), (2, "cancelled"));

    let mode = json!({ "sessionId": chat.session, "modeId": "auto" });
    chat.request("session/set_mode", mode);
    let automatic = chat.prompt_and_answer("edit the file");
    assert_eq!(automatic.kinds, ["tool_call", "tool_call_update", "agent_message_chunk"]);
    let mode = json!({ "sessionId": chat.session, "modeId": "nonsense" });
    assert_eq!(chat.request("session/set_mode", mode)["code"], -32602);
}

#[test]
fn a_turn_can_be_cancelled_while_it_waits_for_permission() {
    let mut chat = Chat::new(json!([]));
    chat.send_prompt("edit the file");
    assert_eq!(chat.conversation.receive("editor")["method"], "session/update");
    let question = chat.conversation.receive("editor");
    assert_eq!(question["method"], "session/request_permission");
    let cancel = json!({ "method": "session/cancel", "params": { "sessionId": chat.session } });
    chat.conversation.send("editor", &cancel.to_string());
    let rest = chat.read_turn(Value::Null);
    assert_eq!((rest.tools, rest.stop_reason.as_str()), (vec!["failed".into()], "cancelled"));
    // The editor has to answer the question all the same.
    let answer =
        json!({ "id": question["id"], "result": { "outcome": { "outcome": "cancelled" } } });
    chat.conversation.send("editor", &answer.to_string());
    assert_eq!(chat.prompt_and_answer("hello").stop_reason, "end_turn");
}

#[test]
fn a_session_can_be_loaded_until_it_is_closed() {
    let mut chat = Chat::new(json!([]));
    let text = chat.prompt_and_answer("hello").text;
    let load = json!({ "sessionId": chat.session, "cwd": "/", "mcpServers": [] });
    chat.send("session/load", &load);
    let user = chat.conversation.receive("editor");
    assert_eq!(user["params"]["update"]["sessionUpdate"], "user_message_chunk");
    let agent = chat.conversation.receive("editor");
    assert_eq!(agent["params"]["update"]["content"]["text"], text.as_str());
    assert_eq!(chat.conversation.receive("editor")["result"]["modes"]["currentModeId"], "ask");
    chat.request("session/close", json!({ "sessionId": chat.session }));
    let unknown = chat.request("session/load", load);
    assert!(unknown["message"].as_str().expect("why").contains("there is no session"), "{unknown}");
}

/// An MCP server as a shell script. It creates the file `$NOTE` when it exits.
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
fn tools_are_called_and_servers_end_with_their_session() {
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
    let tools = chat.prompt_and_answer("tools").text;
    assert!(tools.contains("- greet: Greets") && tools.contains("broken has none"), "{tools}");
    assert!(tools.contains("web has none"), "{tools}");
    let used = chat.prompt_and_answer("use greet {\"a\": 1}");
    assert_eq!(used.tools, ["pending", "in_progress", "completed"]);
    assert!(used.text.contains("good day, friend"), "{}", used.text);
    assert_eq!(chat.prompt_and_answer("call shell greet").tools.last().unwrap(), "completed");
    let unknown = chat.prompt_and_answer("Please use the sing tool to cheer me up.");
    assert_eq!(unknown.tools.last().unwrap(), "failed");
    assert!(unknown.text.contains("no server has a tool sing"), "{}", unknown.text);
    assert!(chat.prompt_and_answer("use greet {").text.contains("not valid JSON"));

    // A tool that never answers delays neither the cancelled turn nor the next call.
    chat.send_prompt("use hang");
    let kind = |it: &Value| it["params"]["update"]["sessionUpdate"].as_str().map(str::to_owned);
    assert_eq!(kind(&chat.conversation.receive("editor")).unwrap(), "tool_call");
    assert_eq!(kind(&chat.conversation.receive("editor")).unwrap(), "tool_call_update");
    let cancel = json!({ "method": "session/cancel", "params": { "sessionId": chat.session } });
    chat.conversation.send("editor", &cancel.to_string());
    assert_eq!(chat.read_turn(Value::Null).stop_reason, "cancelled");
    assert_eq!(chat.prompt_and_answer("use greet").tools.last().unwrap(), "completed");

    chat.request("session/close", json!({ "sessionId": chat.session }));
    assert!(note.exists(), "the server was waited for");
    std::fs::remove_file(note).unwrap();
}
