//! Permission requests of the agent.

use serde_json::json;

use crate::{Chain, RULES, command, options, selected, write};

#[test]
fn an_allowed_action_gets_the_first_option_that_allows_once() {
    let mut chain = Chain::new(RULES, &[]);
    assert_eq!(chain.decided(command("t", "git status")), "yes");
    let path = chain.in_project("src/a.rs");
    assert_eq!(chain.decided(write("t2", &path)), "yes");
    chain.assert_quiet();
}

#[test]
fn a_denied_action_gets_the_first_option_that_rejects_once_and_the_user_gets_the_reason() {
    let mut chain = Chain::new(RULES, &[]);
    chain.ask_permission(command("t", "git push -f"));
    let answer = chain.receive("agent");
    let rules = chain.folder.path("rules.toml");
    let reason = format!("No force pushes here (rule \"no force push\" ({rules}:5))");
    assert_eq!(
        answer["result"],
        json!({
            "outcome": { "outcome": "selected", "optionId": "no" },
            "_meta": { "conductor": { "component": "permissions", "reason": reason } },
        })
    );
    assert_eq!(chain.said(), format!("[permissions] Denied: run `git push -f`. {reason}."));
    chain.assert_quiet();
}

#[test]
fn a_question_passes_unchanged_and_so_does_the_answer() {
    let mut chain = Chain::new(RULES, &[]);
    let mut call = command("t", "make");
    call["new member"] = json!({ "b": 1, "a": [2.50] });
    let params = json!({ "sessionId": "s", "toolCall": call, "options": options(), "odd": true });
    let result =
        json!({ "outcome": { "outcome": "selected", "optionId": "yes" }, "_meta": { "x": 1 } });
    let received = chain.request("agent", "session/request_permission", params.clone(), Ok(result));
    assert_eq!(received["params"], params);
    chain.assert_quiet();
}

#[test]
fn a_request_is_joined_with_the_earlier_tool_call() {
    let mut chain = Chain::new(RULES, &[]);
    chain.report("t", json!({ "title": "T", "kind": "execute", "rawInput": {} }));
    chain.update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t",
        "rawInput": { "command": "git status && git push -f" } }));
    chain.receive("editor");
    assert_eq!(chain.decided(json!({ "toolCallId": "t" })), "no");
    chain.said();
    // Another call with this id, in the next turn.
    let prompt = json!({ "sessionId": "s", "prompt": [] });
    chain.request("editor", "session/prompt", prompt, Ok(json!({ "stopReason": "end_turn" })));
    let id = chain.ask_permission(json!({ "toolCallId": "t" }));
    let asked = chain.receive("editor");
    chain.answer("editor", &asked, selected("no"));
    assert_eq!(chain.receive("agent")["id"], id);
}

/// The agent does not say what the call does.
#[test]
fn an_action_without_a_description_is_never_allowed() {
    let rules = "[[rule]]\ndecision = \"allow\"\ntool = [\"Bash\", \"Write\", \"mcp__*\"]\nkind = [\"execute\", \"edit\"]\n";
    for default in ["ask", "allow"] {
        let mut chain = Chain::new(&format!("default = \"{default}\"\n{rules}"), &[]);
        for call in [
            json!({ "toolCallId": "t" }),
            json!({ "toolCallId": "t", "kind": "execute" }),
            json!({ "toolCallId": "t", "kind": "edit", "title": "Write" }),
        ] {
            chain.ask_permission(call);
            let asked = chain.receive("editor");
            assert_eq!(asked["method"], "session/request_permission");
            chain.answer("editor", &asked, selected("yes"));
            assert_eq!(chain.outcome(), "yes");
        }
    }
}

#[test]
fn only_offered_options_are_used_and_none_that_is_for_ever() {
    let mut chain = Chain::new(RULES, &[]);
    let for_ever = json!([
        { "optionId": "always", "name": "Always", "kind": "allow_always" },
        { "optionId": "never", "name": "Never", "kind": "reject_always" },
    ]);
    // There is no option that denies once.
    chain.ask_with(command("t", "git push -f"), for_ever.clone());
    assert_eq!(chain.outcome(), "cancelled");
    chain.said();
    // There is no option that allows once: the user is asked.
    for choice in ["always", "never"] {
        chain.ask_with(command("t", "git status"), for_ever.clone());
        let asked = chain.receive("editor");
        chain.answer("editor", &asked, selected(choice));
        assert_eq!(chain.outcome(), choice);
    }
    // The editor answers with an option that does not exist.
    chain.ask_with(command("t", "make"), for_ever);
    let asked = chain.receive("editor");
    chain.answer("editor", &asked, selected("allow_everything"));
    assert_eq!(chain.outcome(), "cancelled");
    chain.assert_quiet();
}

#[test]
fn a_request_that_programs_read_differently_does_not_pass() {
    let mut chain = Chain::new(RULES, &[]);
    for call in [
        r#"{"toolCallId":"t","kind":"execute","rawInput":{"command":"git status","command":"git push -f"}}"#,
        r#"{"toolCallId":"t","rawInput":{"command":"git \ud800"}}"#,
    ] {
        let params = format!(r#"{{"sessionId":"s","options":{},"toolCall":{call}}}"#, options());
        chain.conversation.send_text("agent", &format!(r#"{{"jsonrpc":"2.0","id":"Agent:1","method":"session/request_permission","params":{params}}}"#));
        let answer = chain.receive("agent");
        assert_eq!(answer["error"]["code"], -32602, "{answer}");
    }
    for params in [json!({ "sessionId": "s", "toolCall": {} }), json!({ "options": [] })] {
        chain.ask("agent", "session/request_permission", params);
        assert_eq!(chain.receive("agent")["error"]["code"], -32602);
    }
    chain.assert_quiet();
}

#[test]
fn the_agent_is_told_the_reason_with_the_next_prompt_if_the_options_say_so() {
    let mut chain = Chain::new(RULES, &["--tell", "next-prompt"]);
    assert_eq!(chain.decided(command("t", "git push -f")), "no");
    let said = chain.said();
    let prompt = |text: &str| json!({ "sessionId": "s", "prompt": [{ "type": "text", "text": text }], "odd": 1 });
    chain.ask("editor", "session/prompt", prompt("go on"));
    let received = chain.receive("agent");
    let reason = said.strip_prefix("[permissions] ").expect("a name");
    let note = format!("A policy has denied actions of yours.\n{reason}");
    assert_eq!(
        received["params"],
        json!({ "sessionId": "s", "odd": 1,
            "prompt": [{ "type": "text", "text": note }, { "type": "text", "text": "go on" }] })
    );
    chain.answer("agent", &received, Ok(json!({ "stopReason": "end_turn" })));
    chain.receive("editor");
    // Only once.
    chain.ask("editor", "session/prompt", prompt("and on"));
    let received = chain.receive("agent");
    assert_eq!(received["params"], prompt("and on"));
    chain.answer("agent", &received, Ok(json!({ "stopReason": "end_turn" })));
    chain.receive("editor");
    // Agents look for a command only at the beginning.
    assert_eq!(chain.decided(command("t2", "git push -f")), "no");
    chain.said();
    let mut compact = prompt("/compact");
    let blocks = compact["prompt"].as_array_mut().expect("blocks");
    blocks.insert(0, json!({ "type": "a new type", "text": "x" }));
    chain.ask("editor", "session/prompt", compact.clone());
    let blocks = compact["prompt"].as_array_mut().expect("blocks");
    blocks.push(json!({ "type": "text", "text": note }));
    assert_eq!(chain.receive("agent")["params"], compact);
}
