//! The component `ide`: tools for the operations that the editor performs.

use acp_proxy::script::Conversation;
use clap::Parser;
use components::BuiltIn;
use components::ide::Ide;
use serde_json::{Value, json};

struct Talk {
    conversation: Conversation,
    server: Value,
}

/// Starts a session with an editor that performs these operations.
fn start(words: &[&str], version: u64, operations: Value) -> Talk {
    let ide = Ide::parse_from([&["ide"], words].concat());
    let mut conversation = Conversation::new(ide.build());
    let key = if version == 2 { "capabilities" } else { "clientCapabilities" };
    let symposium = json!({ "version": "1.1", "ide_operation": operations });
    let params =
        json!({ "protocolVersion": version, key: { "_meta": { "symposium": symposium } } });
    conversation
        .send("editor", &json!({ "id": 0, "method": "initialize", "params": params }).to_string());
    let id = conversation.receive("agent")["id"].clone();
    let mut result = json!({ "protocolVersion": version });
    if version == 1 {
        result["agentCapabilities"] = json!({});
    }
    conversation.send("agent", &json!({ "id": id, "result": result }).to_string());
    conversation.receive("editor");
    let new =
        json!({ "id": 1, "method": "session/new", "params": { "cwd": "/p", "mcpServers": [] } });
    conversation.send("editor", &new.to_string());
    let request = conversation.receive("agent");
    let offered = &request["params"]["mcpServers"][0];
    if offered.is_object() {
        // Claude Code hides the tools of a server with the name `ide`.
        assert_eq!(offered["name"], "editor");
    }
    let server = offered["serverId"].clone();
    let answer = json!({ "id": request["id"], "result": { "sessionId": "s" } });
    conversation.send("agent", &answer.to_string());
    conversation.receive("editor");
    Talk { conversation, server }
}

impl Talk {
    fn send(&mut self, method: &str, params: Value) {
        let params = json!({ "serverId": self.server, "requestId": "1", "method": method, "params": params });
        let request = json!({ "id": 5, "method": "mcp/message", "params": params });
        self.conversation.send("agent", &request.to_string());
    }

    fn tools(&mut self) -> Vec<String> {
        self.send("tools/list", json!({}));
        let answer = self.conversation.receive("agent");
        let tools = answer["result"]["result"]["tools"].as_array().expect("tools").clone();
        tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
    }

    fn result(&mut self) -> Value {
        self.conversation.receive("agent")["result"]["result"].clone()
    }

    /// Calls a tool. The editor expects this request and answers it.
    fn call(&mut self, tool: &str, arguments: Value, expected: Value, answer: Value) -> Value {
        self.send("tools/call", json!({ "name": tool, "arguments": arguments }));
        let request = self.conversation.receive("editor");
        let operation = tool.replace('_', "-");
        assert_eq!(request["method"], format!("_scp/ide_operation/{operation}"));
        let mut params = expected;
        params["sessionId"] = json!("s");
        assert_eq!(request["params"], params);
        let mut line = answer;
        line["id"] = request["id"].clone();
        self.conversation.send("editor", &line.to_string());
        self.result()
    }

    fn refused(&mut self, tool: &str, arguments: Value) -> String {
        self.send("tools/call", json!({ "name": tool, "arguments": arguments }));
        let result = self.result();
        assert_eq!(result["isError"], true, "{result}");
        result["content"][0]["text"].as_str().expect("a text").to_owned()
    }

    /// The user prompts the agent. Returns the id of the prompt.
    fn begin_turn(&mut self) -> Value {
        let prompt = json!([{ "type": "text", "text": "go" }]);
        let params = json!({ "sessionId": "s", "prompt": prompt });
        let request = json!({ "id": 9, "method": "session/prompt", "params": params });
        self.conversation.send("editor", &request.to_string());
        self.conversation.receive("agent")["id"].clone()
    }

    /// The turn ends: the request to the editor is cancelled, and the agent gets the reason.
    fn assert_withdrawn_at_the_end_of(&mut self, turn: &Value, asked: &Value) {
        let end = json!({ "id": turn, "result": { "stopReason": "cancelled" } });
        self.conversation.send("agent", &end.to_string());
        assert_eq!(self.conversation.receive("editor")["id"], 9);
        let cancelled = self.conversation.receive("editor");
        assert_eq!(cancelled["method"], "$/cancel_request");
        assert_eq!(cancelled["params"]["requestId"], asked["id"]);
        let text = self.result()["content"][0]["text"].to_string();
        assert!(text.contains("the turn is over"), "{text}");
    }
}

#[test]
fn tools_are_offered_as_far_as_the_editor_has_them() {
    for version in [1, 2] {
        let none = start(&[], version, json!(false));
        assert_eq!(none.server, Value::Null);
        assert_eq!(start(&[], version, json!(["a-new-operation"])).server, Value::Null);
        let mut some = start(&[], version, json!(["get-selection", "diagnostics", "x"]));
        assert_eq!(some.tools(), ["get_selection", "diagnostics"]);
        assert_eq!(start(&[], version, json!(true)).tools().len(), 7);
        assert_eq!(start(&["--read-only"], version, json!(true)).tools().len(), 6);
        assert_eq!(start(&["--read-only"], version, json!(["apply-edit"])).server, Value::Null);
    }
}

#[test]
fn each_tool_becomes_an_operation_of_the_editor() {
    let mut talk = start(&[], 1, json!(true));
    let result = talk.call("get_selection", json!({}), json!({}), json!({ "result": null }));
    assert_eq!(result["content"][0]["text"], "The user has selected nothing.");
    let selection = json!({ "url": "file:///p/a.rs", "start": { "line": 3, "column": 1 }, "end": { "line": 5 }, "text": "fn a() {" });
    let result = talk.call("get_selection", json!({}), json!({}), json!({ "result": selection }));
    assert_eq!(result["content"][0]["text"], "The user has selected /p/a.rs:3-5:\n\nfn a() {");
    assert_eq!(result["structuredContent"]["selection"], selection);

    let input = json!({ "path": "a.rs", "line": 7 });
    let expected = json!({ "url": "file:///p/a.rs", "line": 7 });
    let result = talk.call("open_file", input, expected, json!({ "result": {} }));
    assert_eq!(result["content"][0]["text"], "a.rs is open at line 7.");

    let found = json!({ "locations": [
        { "url": "/p/a.rs", "start": { "line": 3 }, "end": { "line": 3 }, "text": "  fn a() {" },
        { "url": "/p/b.rs", "start": { "line": 9 } },
        { "url": "file:///my%20p/%C3%A4.rs", "start": { "line": 1 } },
    ] });
    let place = json!({ "path": "b.rs", "line": 9, "column": 4 });
    let expected = json!({ "url": "file:///p/b.rs", "line": 9, "column": 4 });
    let result = talk.call("find_definition", place, expected, json!({ "result": found }));
    assert_eq!(result["content"][0]["text"], "/p/a.rs:3: fn a() {\n/p/b.rs:9\n/my p/ä.rs:1");
    let symbol = json!({ "symbol": "a" });
    let empty = json!({ "result": { "locations": [] } });
    let result = talk.call("find_all_references", symbol.clone(), symbol, empty);
    assert_eq!(result["content"][0]["text"], "The editor has found no reference.");

    let found = json!({ "diagnostics": [{ "url": "/p/a.rs", "start": { "line": 1 }, "end": { "line": 1 }, "severity": "error", "message": "no such\n value", "source": "rustc" }] });
    let result = talk.call("diagnostics", json!({}), json!({}), json!({ "result": found }));
    assert_eq!(result["content"][0]["text"], "/p/a.rs:1: error: no such value (rustc)");
    assert_eq!(result["structuredContent"], found);

    let found = json!({ "files": [{ "url": "/p/a.rs", "active": true, "modified": true }, { "url": "/p/b.rs" }] });
    let result = talk.call("list_open_files", json!({}), json!({}), json!({ "result": found }));
    assert_eq!(result["content"][0]["text"], "/p/a.rs (active) (not saved)\n/p/b.rs");

    let input = json!({ "label": "Rename", "edits": [{ "path": "a.rs", "line": 3, "column": 4, "end_column": 5, "new_text": "b" }] });
    let expected = json!({ "label": "Rename", "edits": [{ "url": "file:///p/a.rs", "start": { "line": 3, "column": 4 }, "end": { "line": 3, "column": 5 }, "new_text": "b" }] });
    for (answer, text) in [
        (json!({ "applied": true }), "The user has accepted the changes."),
        (json!({ "applied": false }), "The user has refused the changes."),
        (
            json!({ "applied": false, "reason": "a.rs has changed" }),
            "The changes were not made: a.rs has changed",
        ),
    ] {
        let result =
            talk.call("apply_edit", input.clone(), expected.clone(), json!({ "result": answer }));
        assert_eq!(result["content"][0]["text"], text);
    }
}

#[test]
fn the_editor_gets_the_url_of_a_path() {
    let mut talk = start(&[], 1, json!(true));
    for (path, url) in [
        ("./src/../ä b.rs", "file:///p/%C3%A4%20b.rs"),
        ("/other/a.rs", "file:///other/a.rs"),
        ("file:///p/a.rs", "file:///p/a.rs"),
    ] {
        let found = json!({ "result": { "diagnostics": [] } });
        talk.call("diagnostics", json!({ "path": path }), json!({ "url": url }), found);
    }
}

/// The agent has named both, and there is nothing at the place.
#[test]
fn a_symbol_that_is_not_found_at_its_place_is_searched_by_its_name() {
    let mut talk = start(&[], 1, json!(true));
    let found =
        json!({ "result": { "locations": [{ "url": "/p/b.rs", "start": { "line": 9 } }] } });
    let error = json!({ "error": { "code": -32602, "message": "no symbol" } });
    for answer in [json!({ "result": { "locations": [] } }), error] {
        let place = json!({ "symbol": "lock", "path": "a.rs", "line": 9, "column": 4 });
        talk.send("tools/call", json!({ "name": "find_definition", "arguments": place }));
        let request = talk.conversation.receive("editor");
        assert_eq!(
            (&request["params"]["line"], &request["params"]["symbol"]),
            (&json!(9), &json!(null))
        );
        let mut line = answer;
        line["id"] = request["id"].clone();
        talk.conversation.send("editor", &line.to_string());
        let request = talk.conversation.receive("editor");
        assert_eq!(request["params"], json!({ "symbol": "lock", "sessionId": "s" }));
        let mut line = found.clone();
        line["id"] = request["id"].clone();
        talk.conversation.send("editor", &line.to_string());
        assert_eq!(talk.result()["content"][0]["text"], "/p/b.rs:9");
    }
    // A place that is not complete does not count if there is a name.
    let input = json!({ "symbol": "lock", "path": "a.rs", "line": 9 });
    let result = talk.call("find_definition", input, json!({ "symbol": "lock" }), found);
    assert_eq!(result["content"][0]["text"], "/p/b.rs:9");
}

#[test]
fn bad_input_is_explained_to_the_agent_and_does_not_reach_the_editor() {
    let mut talk = start(&[], 1, json!(true));
    for (tool, arguments, why) in [
        ("open_file", json!({}), "path"),
        ("open_file", json!({ "path": " " }), "name a file"),
        ("open_file", json!({ "path": "a", "line": 0 }), "begin with 1"),
        ("find_definition", json!({}), "`symbol`"),
        ("find_definition", json!({ "path": "a", "line": 1 }), "`column`"),
        ("find_all_references", json!({ "symbol": "" }), "`symbol`"),
        ("apply_edit", json!({ "edits": [] }), "between 1 and"),
        (
            "apply_edit",
            json!({ "edits": [{ "path": "a", "line": 2, "end_line": 1, "new_text": "" }] }),
            "ends before it begins",
        ),
        (
            "apply_edit",
            json!({ "edits": [{ "path": "a", "line": 2, "column": 5, "end_column": 4, "new_text": "" }] }),
            "ends before it begins",
        ),
    ] {
        let text = talk.refused(tool, arguments.clone());
        assert!(text.contains(why), "{tool} {arguments}: {text}");
    }
}

#[test]
fn errors_and_long_results_of_the_editor_are_bounded() {
    let mut talk = start(&[], 1, json!(true));
    let error = json!({ "error": { "code": -32602, "message": "there is no file a.rs" } });
    let result = talk.call(
        "open_file",
        json!({ "path": "a.rs" }),
        json!({ "url": "file:///p/a.rs" }),
        error,
    );
    assert_eq!(result["isError"], true);
    let text = "the editor could not do it: there is no file a.rs";
    assert_eq!(result["content"][0]["text"], text);
    let location = json!({ "url": "/a", "start": { "line": 1 }, "text": "x".repeat(10_000) });
    let found = json!({ "result": { "locations": vec![location; 1000] } });
    let symbol = json!({ "symbol": "a" });
    let result = talk.call("find_all_references", symbol.clone(), symbol, found);
    let text = result["content"][0]["text"].as_str().expect("a text");
    assert!(text.len() < 120_000 && text.ends_with("(800 more)"), "{}", text.len());
    // The structured content is not larger, and says the same.
    let structured = &result["structuredContent"];
    assert_eq!((&structured["more"], structured.to_string().len() < 150_000), (&json!(800), true));
    let selection =
        json!({ "url": "/p/a.rs", "start": { "line": 1 }, "text": "ä".repeat(1_000_000) });
    let result = talk.call("get_selection", json!({}), json!({}), json!({ "result": selection }));
    let structured = &result["structuredContent"];
    assert_eq!((&structured["more"], structured.to_string().len() < 70_000), (&json!(true), true));
}

/// The agent has named both the place and the symbol.
#[test]
fn a_symbol_is_not_searched_by_its_name_after_the_end_of_the_turn() {
    let mut talk = start(&[], 1, json!(true));
    let turn = talk.begin_turn();
    let place = json!({ "symbol": "lock", "path": "a.rs", "line": 9, "column": 4 });
    talk.send("tools/call", json!({ "name": "find_definition", "arguments": place }));
    let asked = talk.conversation.receive("editor");
    assert_eq!(asked["params"]["line"], 9);
    talk.assert_withdrawn_at_the_end_of(&turn, &asked);
}

/// Otherwise the user could accept a change that the agent knows nothing of.
#[test]
fn an_edit_is_withdrawn_when_the_turn_ends() {
    let mut talk = start(&[], 1, json!(true));
    let turn = talk.begin_turn();
    let edit = json!({ "edits": [{ "path": "a.rs", "line": 1, "new_text": "x" }] });
    talk.send("tools/call", json!({ "name": "apply_edit", "arguments": edit }));
    let asked = talk.conversation.receive("editor");
    talk.assert_withdrawn_at_the_end_of(&turn, &asked);
}
