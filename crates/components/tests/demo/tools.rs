//! The tools of MCP servers.

use serde_json::{Value, json};

use crate::chat::Chat;

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
    assert!(tools.contains("- `greet`: Greets") && tools.contains("broken has none"), "{tools}");
    assert!(tools.contains("web has none"), "{tools}");
    assert!(tools.ends_with("call one."), "{tools:?}");
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
