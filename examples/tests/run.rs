//! Every example in a real chain, between an editor and a scripted agent.

use serde_json::json;
use testkit::test_chain::{ScriptedComponent, TestChain, binary};

/// Starts a chain of an example and an agent, and initializes it.
fn start_chain(example: &str) -> (TestChain, ScriptedComponent) {
    let setup = TestChain::builder(binary("conductor"));
    let mut words = example.split(' ');
    let program = binary(words.next().expect("a name")).display().to_string();
    let words: Vec<String> = std::iter::once(program).chain(words.map(str::to_owned)).collect();
    let components = [words.join(" "), setup.scripted_command("agent")];
    let mut chain = setup.run("agent", &components);
    chain
        .editor
        .send(r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#);
    let mut agent = chain.wait_for_component("agent");
    let greeting = agent.request("initialize");
    agent.answer(
        &greeting,
        r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"acp":true}}}"#,
    );
    assert_eq!(chain.editor.message()["result"]["protocolVersion"], 1);
    (chain, agent)
}

fn prompt(text: &str) -> String {
    json!({ "jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": {
        "sessionId": "s", "prompt": [{ "type": "text", "text": text }],
    }})
    .to_string()
}

fn chunk(session: &str, text: &str) -> String {
    json!({ "jsonrpc": "2.0", "method": "session/update", "params": { "sessionId": session, "update": {
        "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text },
    }}})
    .to_string()
}

const END_TURN: &str = r#"{"stopReason":"end_turn"}"#;

#[test]
fn hello_changes_nothing() {
    let (mut chain, mut agent) = start_chain("example-hello");
    chain.editor.send(&prompt("hi"));
    let received = agent.request("session/prompt");
    assert_eq!(received["params"]["prompt"][0]["text"], "hi");
    agent.answer(&received, END_TURN);
    assert_eq!(chain.editor.message()["result"]["stopReason"], "end_turn");
}

#[test]
fn changeable_adds_a_sentence_that_the_editor_changes() {
    let (mut chain, mut agent) = start_chain("example-changeable Be brief.");
    let mut received = |chain: &mut TestChain, expected: &str| {
        chain.editor.send(&prompt("hi"));
        let received = agent.request("session/prompt");
        assert_eq!(received["params"]["prompt"][0]["text"], expected);
        agent.answer(&received, END_TURN);
        assert_eq!(chain.editor.message()["result"]["stopReason"], "end_turn");
    };
    received(&mut chain, "Be brief.");
    let params = json!({
        "component": "example-changeable", "op": "set", "values": { "prefix": "Be kind." },
    });
    let set = json!({ "jsonrpc": "2.0", "id": 7, "method": "_proxy/config", "params": params });
    chain.editor.send(&set.to_string());
    let result = json!({ "values": { "prefix": "Be kind." }, "applied": "now" });
    assert_eq!(chain.editor.message()["result"], result);
    received(&mut chain, "Be kind.");
}

#[test]
fn prefix_adds_a_sentence_before_the_prompt() {
    let (mut chain, mut agent) = start_chain("example-prefix Be brief.");
    chain.editor.send(&prompt("hi"));
    let received = agent.request("session/prompt");
    assert_eq!(received["params"]["prompt"][0]["text"], "Be brief.");
    assert_eq!(received["params"]["prompt"][1]["text"], "hi");
}

#[test]
fn redact_keeps_a_word_from_the_agent() {
    let (mut chain, mut agent) = start_chain("example-redact Ada");
    chain.editor.send(&prompt("Ask Ada."));
    let received = agent.request("session/prompt");
    assert_eq!(received["params"]["prompt"][0]["text"], "Ask [somebody].");
    agent.send(&chunk("s", "I ask [somebody]."));
    let update = chain.editor.message();
    assert_eq!(update["params"]["update"]["content"]["text"], "I ask Ada.");
}

/// Legal JSON that the types cannot represent does not bypass a guard.
#[test]
fn redact_refuses_messages_that_it_cannot_parse() {
    let (mut chain, mut agent) = start_chain("example-redact Ada");
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    for (id, rest) in (10..).zip([
        r#""prompt":[{"type":"text","text":"Ada \ud800"}]"#.to_owned(),
        r#""prompt":[{"type":"text","text":"Ada","text":"x"}]"#.to_owned(),
        r#""prompt":[{"type":"hologram","text":"Ada"}]"#.to_owned(),
        format!(r#""prompt":[{{"type":"text","text":"Ada"}}],"_meta":{{"x":{deep}}}"#),
    ]) {
        let line = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"session/prompt","params":{{"sessionId":"s",{rest}}}}}"#
        );
        chain.editor.send(&line);
        let answer = chain.editor.message();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(id), &json!(-32602)));
        let message = answer["error"]["message"].as_str().expect("a reason");
        assert!(message.starts_with("redact refuses this session/prompt"), "{message}");
    }
    chain.editor.send(&prompt("hi"));
    assert_eq!(agent.request("session/prompt")["params"]["prompt"][0]["text"], "hi");
}

/// The word never reaches the agent: it is replaced, or the message is refused.
#[test]
fn redact_keeps_the_word_from_the_agent_wherever_it_is() {
    let (mut chain, mut agent) = start_chain("example-redact Ada");
    let resource = r#"{"type":"resource","resource":{"uri":"file:///x","text":"I am Ad\u0061","mimeType":"text/plain"}}"#;
    chain.editor.send(&format!(
        r#"{{"jsonrpc":"2.0","id":5,"method":"session/prompt","params":{{"sessionId":"s","prompt":[{resource}]}}}}"#
    ));
    let received = agent.request("session/prompt");
    assert_eq!(received["params"]["prompt"][0]["resource"]["text"], "I am [somebody]");
    agent.answer(&received, END_TURN);
    chain.editor.message();
    let text = r#"{"type":"text","text":"Ada"}"#;
    let prompt =
        |blocks: &str| ("session/prompt", format!(r#"{{"sessionId":"s","prompt":[{blocks}]}}"#));
    let calls = [
        prompt(r#"{"type":"resource","resource":{"uri":"file:///Ada","text":"x"}}"#),
        prompt(r#"{"type":"resource_link","uri":"file:///home/Ada/x","name":"x"}"#),
        prompt(r#"{"type":"resource_link","uri":"file:///x","name":"x","title":"\u0041da"}"#),
        prompt(r#"{"type":"text","text":"x","_meta":{"t":["Ada"]}}"#),
        prompt(r#"{"type":"text","text":"x","annotations":{"Ada":1}}"#),
        prompt(r#"{"type":"text","text":"x","more":"Ada"}"#),
        (
            "session/prompt",
            format!(r#"{{"sessionId":"s","prompt":[{text}],"_meta":{{"a":"Ada"}}}}"#),
        ),
        ("session/steer", format!(r#"{{"sessionId":"s","prompt":[{text}]}}"#)),
        ("_x/Ada", "{}".to_owned()),
        ("session/new", r#"{"cwd":"/home/Ada","mcpServers":[]}"#.to_owned()),
    ];
    for (id, (method, params)) in (10..).zip(&calls) {
        chain.editor.send(&format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#
        ));
        let answer = chain.editor.message();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(id), &json!(-32602)));
        let message = answer["error"]["message"].as_str().expect("a reason");
        assert!(message.starts_with("redact refuses this"), "{params}: {message}");
        // The same in a notification.
        let line = format!(r#"{{"jsonrpc":"2.0","method":"_x/told","params":{params}}}"#);
        chain.editor.send(&line);
    }
    chain.editor.send(r#"{"jsonrpc":"2.0","id":50,"method":"_x/y","params":{},"more":"Ada"}"#);
    assert_eq!(chain.editor.message()["error"]["code"], -32602);
    chain.editor.send(r#"{"jsonrpc":"2.0","id":51,"method":"_x/y","params":{"a":"b"}}"#);
    // The notification of the call with the word in its method does not contain the word.
    assert_eq!(agent.message()["method"], "_x/told");
    assert_eq!(agent.request("_x/y")["params"]["a"], "b");
    let log = chain.end([&mut agent]);
    assert!(!log.contains("Ada\""), "{log}");
}

#[test]
fn count_appends_a_line_at_the_end_of_the_turn() {
    let (mut chain, mut agent) = start_chain("example-count");
    chain.editor.send(&prompt("hi"));
    let asked = agent.request("session/prompt");
    for text in ["Grüß", " Gott"] {
        agent.send(&chunk("s", text));
        assert_eq!(chain.editor.message()["params"]["update"]["content"]["text"], text);
    }
    agent.answer(&asked, END_TURN);
    let line = chain.editor.message();
    assert_eq!(line["params"]["update"]["content"]["text"], "\n(9 characters)");
    assert_eq!(chain.editor.message()["result"]["stopReason"], "end_turn");
}

/// Opens a session and returns the declaration of the proxy's MCP server.
fn new_session(chain: &mut TestChain, agent: &mut ScriptedComponent) -> serde_json::Value {
    chain.editor.send(
        r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}"#,
    );
    let new = agent.request("session/new");
    agent.answer(&new, r#"{"sessionId":"S"}"#);
    chain.editor.message();
    new["params"]["mcpServers"][0].clone()
}

/// Calls a tool and returns its text.
fn call_tool(
    agent: &mut ScriptedComponent,
    server: &serde_json::Value,
    id: u8,
    name: &str,
    arguments: &serde_json::Value,
) -> String {
    let call = json!({ "jsonrpc": "2.0", "id": id, "method": "mcp/message", "params": {
        "serverId": server["serverId"], "requestId": "r", "method": "tools/call",
        "params": { "name": name, "arguments": arguments },
    }});
    agent.send(&call.to_string());
    let answer = agent.message();
    answer["result"]["result"]["content"][0]["text"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn parrot_repeats_the_prompt() {
    let setup = TestChain::builder(binary("conductor"));
    let [proxy, agent] =
        ["example-prefix", "example-parrot"].map(|it| binary(it).display().to_string());
    let mut chain = setup.run("agent", &[format!("{proxy} Briefly:"), agent]);
    let mut request = |id: u8, method: &str, params: serde_json::Value| {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        chain.editor.send(&request.to_string());
        chain.editor.message()
    };
    let answer = request(1, "initialize", json!({ "protocolVersion": 1 }));
    assert_eq!(answer["result"]["protocolVersion"], 1);
    let answer = request(2, "session/new", json!({ "cwd": "/", "mcpServers": [] }));
    let session = answer["result"]["sessionId"].clone();
    let prompt = json!([{ "type": "text", "text": "hi" }]);
    let update = request(3, "session/prompt", json!({ "sessionId": session, "prompt": prompt }));
    assert_eq!(update["params"]["update"]["content"]["text"], "Briefly:\nhi");
    assert_eq!(chain.editor.message()["result"]["stopReason"], "end_turn");
}

#[test]
fn now_tells_the_time() {
    let (mut chain, mut agent) = start_chain("example-now");
    let server = new_session(&mut chain, &mut agent);
    let text = call_tool(&mut agent, &server, 1, "now", &json!({}));
    assert!(text.parse::<u64>().is_ok_and(|seconds| seconds > 1_700_000_000), "{text}");
}

#[test]
fn tools_are_declared_and_work() {
    let (mut chain, mut agent) = start_chain("example-tools");
    let server = new_session(&mut chain, &mut agent);
    assert_eq!((&server["type"], &server["name"]), (&json!("acp"), &json!("words")));
    let text = json!({ "text": "to be or not" });
    assert_eq!(call_tool(&mut agent, &server, 1, "count", &text), "4 words");
    assert_eq!(call_tool(&mut agent, &server, 2, "whereabouts", &json!({})), "S");
}

#[test]
fn gate_decides_reads_and_writes_and_asks_the_user_about_the_rest() {
    let (mut chain, mut agent) = start_chain("example-gate");
    let permission_request = |id: u8, kind: &str| {
        json!({ "jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": {
            "sessionId": "s", "toolCall": { "toolCallId": "t", "kind": kind },
            "options": [
                { "optionId": "yes", "name": "Allow", "kind": "allow_once" },
                { "optionId": "no", "name": "Reject", "kind": "reject_once" },
            ],
        }})
        .to_string()
    };
    for (id, kind, option) in [(1, "read", "yes"), (2, "delete", "no"), (4, "edit", "no")] {
        agent.send(&permission_request(id, kind));
        assert_eq!(agent.message()["result"]["outcome"]["optionId"], option, "{kind}");
    }
    agent.send(&permission_request(3, "execute"));
    let received = chain.editor.message();
    assert_eq!(received["method"], "session/request_permission");
    let answer = json!({ "outcome": { "outcome": "selected", "optionId": "yes" } });
    chain
        .editor
        .send(&json!({ "jsonrpc": "2.0", "id": received["id"], "result": answer }).to_string());
    assert_eq!(agent.message()["result"]["outcome"]["optionId"], "yes");
}

const OPTIONS: &str = r#"[{"optionId":"always","name":"Always","kind":"allow_always"},{"optionId":"yes","name":"Allow","kind":"allow_once"},{"optionId":"no","name":"Reject","kind":"reject_once"}]"#;

/// The agent gives the kind of a tool call in an update, and only its id in the request. The user is asked
/// unless the kind is known.
#[test]
fn gate_uses_earlier_updates_of_a_tool_call() {
    let (mut chain, mut agent) = start_chain("example-gate");
    let update = |session: &str, kind: &str, id: &str, rest: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{session}","update":{{"sessionUpdate":"{kind}","toolCallId":"{id}"{rest}}}}}}}"#
        )
    };
    let (read, delete) = (r#","title":"T","kind":"read""#, r#","title":"T","kind":"delete""#);
    let permission_request = |id: u8, call: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"session/request_permission","params":{{"sessionId":"s","toolCall":{{"toolCallId":"t{id}"{call}}},"options":{OPTIONS}}}}}"#
        )
    };
    for (id, updates, call, decided) in [
        (1, vec![("s", "tool_call", delete)], "", Some("no")),
        (2, vec![("s", "tool_call", read)], "", Some("yes")),
        (
            3,
            vec![("s", "tool_call", read), ("s", "tool_call_update", r#","kind":"delete""#)],
            "",
            Some("no"),
        ),
        (4, vec![("s", "tool_call_update", delete)], "", Some("no")),
        (5, vec![("s", "tool_call", read), ("s", "tool_call", r#","title":"T""#)], "", None),
        (6, vec![("other", "tool_call", read)], "", None),
        (7, vec![("s", "tool_call", r#","title":"T","kind":"READ""#)], "", None),
        (8, vec![("s", "tool_call", r#","title":"T","kind":"delete","kind":"read""#)], "", None),
        (9, vec![("s", "tool_call", read)], r#","kind":"delete""#, Some("no")),
        (10, vec![], "", None),
    ] {
        for (session, kind, rest) in &updates {
            agent.send(&update(session, kind, &format!("t{id}"), rest));
            assert_eq!(chain.editor.message()["method"], "session/update");
        }
        agent.send(&permission_request(id, call));
        if decided.is_none() {
            let received = chain.editor.message();
            assert_eq!(received["method"], "session/request_permission", "{id}");
            let answer = format!(
                r#"{{"jsonrpc":"2.0","id":{},"result":{{"outcome":{{"outcome":"selected","optionId":"user"}}}}}}"#,
                received["id"]
            );
            chain.editor.send(&answer);
        }
        let answer = agent.message();
        assert_eq!(answer["result"]["outcome"]["optionId"], decided.unwrap_or("user"), "{id}");
    }
    // The gate refuses a request that it cannot parse.
    agent.send(&permission_request(11, r#","kind":"delete","kind":"read""#));
    assert_eq!(agent.message()["error"]["code"], -32602);
}

#[test]
fn subagent_sends_its_prompt_in_a_session_of_its_own() {
    let (mut chain, mut agent) = start_chain("example-subagent");
    chain.editor.send(&prompt("Delete it."));
    let new = agent.request("session/new");
    agent.answer(&new, r#"{"sessionId":"own"}"#);
    let received = agent.request("session/prompt");
    assert_eq!(received["params"]["sessionId"], "own");
    agent.send(&chunk("own", "What is it?"));
    agent.answer(&received, END_TURN);
    let received = agent.request("session/prompt");
    assert_eq!(received["params"]["prompt"][1]["text"], "Keep in mind: What is it?");
    agent.answer(&received, END_TURN);
    assert_eq!(chain.editor.message()["id"], 1, "the editor received something else");
}

#[test]
fn embedded_runs_a_chain_in_one_process() {
    let output = std::process::Command::new(binary("example-embedded")).output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "HELLO FROM WITHIN\n", "{output:?}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.contains("echo ← session/prompt") && stderr.contains("outer ← session/update"),
        "{stderr}"
    );
}
