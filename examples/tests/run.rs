//! Every example in a real chain, between an editor and an agent that the test plays.

use serde_json::json;
use testkit::test_chain::{ScriptedComponent, TestChain, binary};

/// The chain of an example and an agent, greeted and with a session `s`.
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

const END: &str = r#"{"stopReason":"end_turn"}"#;

#[test]
fn hello_changes_nothing() {
    let (mut chain, mut agent) = start_chain("example-hello");
    chain.editor.send(&prompt("hi"));
    let asked = agent.request("session/prompt");
    assert_eq!(asked["params"]["prompt"][0]["text"], "hi");
    agent.answer(&asked, END);
    assert_eq!(chain.editor.message()["result"]["stopReason"], "end_turn");
}

#[test]
fn prefix_puts_a_sentence_before() {
    let (mut chain, mut agent) = start_chain("example-prefix Be brief.");
    chain.editor.send(&prompt("hi"));
    let asked = agent.request("session/prompt");
    assert_eq!(asked["params"]["prompt"][0]["text"], "Be brief.");
    assert_eq!(asked["params"]["prompt"][1]["text"], "hi");
}

#[test]
fn redact_keeps_a_word_from_the_agent() {
    let (mut chain, mut agent) = start_chain("example-redact Ada");
    chain.editor.send(&prompt("Ask Ada."));
    let asked = agent.request("session/prompt");
    assert_eq!(asked["params"]["prompt"][0]["text"], "Ask [somebody].");
    agent.send(&chunk("s", "I ask [somebody]."));
    let update = chain.editor.message();
    assert_eq!(update["params"]["update"]["content"]["text"], "I ask Ada.");
}

/// Item 22: legal JSON that the types cannot hold is no way around a guard.
#[test]
fn redact_refuses_what_it_cannot_read() {
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

/// The word is nowhere in what reaches the agent: it is replaced, or the message is refused.
#[test]
fn redact_keeps_the_word_from_the_agent_wherever_it_stands() {
    let (mut chain, mut agent) = start_chain("example-redact Ada");
    let resource = r#"{"type":"resource","resource":{"uri":"file:///x","text":"I am Ad\u0061","mimeType":"text/plain"}}"#;
    chain.editor.send(&format!(
        r#"{{"jsonrpc":"2.0","id":5,"method":"session/prompt","params":{{"sessionId":"s","prompt":[{resource}]}}}}"#
    ));
    let asked = agent.request("session/prompt");
    assert_eq!(asked["params"]["prompt"][0]["resource"]["text"], "I am [somebody]");
    agent.answer(&asked, END);
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
        // The same as a notification.
        let line = format!(r#"{{"jsonrpc":"2.0","method":"_x/told","params":{params}}}"#);
        chain.editor.send(&line);
    }
    chain.editor.send(r#"{"jsonrpc":"2.0","id":50,"method":"_x/y","params":{},"more":"Ada"}"#);
    assert_eq!(chain.editor.message()["error"]["code"], -32602);
    chain.editor.send(r#"{"jsonrpc":"2.0","id":51,"method":"_x/y","params":{"a":"b"}}"#);
    // The `_x/told` of the call whose word is in its method does not contain it.
    assert_eq!(agent.message()["method"], "_x/told");
    assert_eq!(agent.request("_x/y")["params"]["a"], "b");
    assert!(!chain.conductor.stderr().contains("Ada\""), "{}", chain.conductor.stderr());
}

#[test]
fn tools_are_offered_and_work() {
    let (mut chain, mut agent) = start_chain("example-tools");
    chain.editor.send(
        r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}"#,
    );
    let new = agent.request("session/new");
    let server = &new["params"]["mcpServers"][0];
    assert_eq!((&server["type"], &server["name"]), (&json!("acp"), &json!("words")));
    agent.answer(&new, r#"{"sessionId":"S"}"#);
    chain.editor.message();
    for (id, name, arguments, answer) in [
        (1, "count", json!({ "text": "to be or not" }), "4 words"),
        (2, "whereabouts", json!({}), "S"),
    ] {
        let call = json!({ "jsonrpc": "2.0", "id": id, "method": "mcp/message", "params": {
            "serverId": server["serverId"], "requestId": "r", "method": "tools/call",
            "params": { "name": name, "arguments": arguments },
        }});
        agent.send(&call.to_string());
        let answered = agent.message();
        assert_eq!(answered["result"]["result"]["content"][0]["text"], answer, "{answered}");
    }
}

#[test]
fn gate_decides_what_it_can_and_asks_about_the_rest() {
    let (mut chain, mut agent) = start_chain("example-gate");
    let ask = |id: u8, kind: &str| {
        json!({ "jsonrpc": "2.0", "id": id, "method": "session/request_permission", "params": {
            "sessionId": "s", "toolCall": { "toolCallId": "t", "kind": kind },
            "options": [
                { "optionId": "yes", "name": "Allow", "kind": "allow_once" },
                { "optionId": "no", "name": "Reject", "kind": "reject_once" },
            ],
        }})
        .to_string()
    };
    for (id, kind, option) in [(1, "read", "yes"), (2, "delete", "no")] {
        agent.send(&ask(id, kind));
        assert_eq!(agent.message()["result"]["outcome"]["optionId"], option, "{kind}");
    }
    agent.send(&ask(3, "edit"));
    let asked = chain.editor.message();
    assert_eq!(asked["method"], "session/request_permission");
    let answer = json!({ "outcome": { "outcome": "selected", "optionId": "yes" } });
    chain
        .editor
        .send(&json!({ "jsonrpc": "2.0", "id": asked["id"], "result": answer }).to_string());
    assert_eq!(agent.message()["result"]["outcome"]["optionId"], "yes");
}

const OPTIONS: &str = r#"[{"optionId":"always","name":"Always","kind":"allow_always"},{"optionId":"yes","name":"Allow","kind":"allow_once"},{"optionId":"no","name":"Reject","kind":"reject_once"}]"#;

/// Item 18: the agent says the kind of a tool call in an update, and only the id in the request. The user
/// is asked unless the kind is known.
#[test]
fn gate_knows_what_was_said_about_a_tool_call_before() {
    let (mut chain, mut agent) = start_chain("example-gate");
    let update = |session: &str, kind: &str, id: &str, rest: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"{session}","update":{{"sessionUpdate":"{kind}","toolCallId":"{id}"{rest}}}}}}}"#
        )
    };
    let (read, delete) = (r#","title":"T","kind":"read""#, r#","title":"T","kind":"delete""#);
    let ask = |id: u8, call: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"session/request_permission","params":{{"sessionId":"s","toolCall":{{"toolCallId":"t{id}"{call}}},"options":{OPTIONS}}}}}"#
        )
    };
    for (id, said, call, decided) in [
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
        for (session, kind, rest) in &said {
            agent.send(&update(session, kind, &format!("t{id}"), rest));
            assert_eq!(chain.editor.message()["method"], "session/update");
        }
        agent.send(&ask(id, call));
        if decided.is_none() {
            let asked = chain.editor.message();
            assert_eq!(asked["method"], "session/request_permission", "{id}");
            let answer = format!(
                r#"{{"jsonrpc":"2.0","id":{},"result":{{"outcome":{{"outcome":"selected","optionId":"user"}}}}}}"#,
                asked["id"]
            );
            chain.editor.send(&answer);
        }
        let answer = agent.message();
        assert_eq!(answer["result"]["outcome"]["optionId"], decided.unwrap_or("user"), "{id}");
    }
    // What it cannot read it refuses.
    agent.send(&ask(11, r#","kind":"delete","kind":"read""#));
    assert_eq!(agent.message()["error"]["code"], -32602);
}

#[test]
fn subagent_asks_in_a_session_of_its_own() {
    let (mut chain, mut agent) = start_chain("example-subagent");
    chain.editor.send(&prompt("Delete it."));
    let new = agent.request("session/new");
    agent.answer(&new, r#"{"sessionId":"own"}"#);
    let asked = agent.request("session/prompt");
    assert_eq!(asked["params"]["sessionId"], "own");
    agent.send(&chunk("own", "What is it?"));
    agent.answer(&asked, END);
    let asked = agent.request("session/prompt");
    assert_eq!(asked["params"]["prompt"][1]["text"], "Keep in mind: What is it?");
    agent.answer(&asked, END);
    assert_eq!(chain.editor.message()["id"], 1, "and the editor has seen nothing else");
}

#[test]
fn embedded_runs_a_chain_in_one_process() {
    let output = std::process::Command::new(binary("example-embedded")).output().expect("it runs");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "HELLO FROM WITHIN\n", "{output:?}");
    let seen = String::from_utf8_lossy(&output.stderr);
    assert!(
        seen.contains("echo ← session/prompt") && seen.contains("outer ← session/update"),
        "{seen}"
    );
}
