//! Questions: time limits, cancelled turns, and answers for ever.

use serde_json::json;

use crate::{Chain, RULES, command, selected, write};

const IMPATIENT: &str = r#"
[[rule]]
decision = "ask"
run = ["make *"]
ask = { after = "20ms", then = "deny" }

[[rule]]
decision = "ask"
run = ["touch *"]
ask = { after = "20ms", then = "allow" }
"#;

#[test]
fn a_rule_may_limit_the_time_for_an_answer() {
    let mut chain = Chain::new(IMPATIENT, &[]);
    chain.ask_permission(command("t", "make all"));
    let asked = chain.receive("editor");
    assert_eq!(chain.outcome(), "no");
    let mut seen = [chain.receive("editor"), chain.receive("editor")];
    seen.sort_by_key(|it| it["method"].as_str().map(str::to_owned));
    assert_eq!(seen[0]["method"], "$/cancel_request");
    assert_eq!(seen[0]["params"]["requestId"], asked["id"]);
    let text = seen[1]["params"]["update"]["content"]["text"].as_str().expect("a text").trim();
    assert_eq!(text, "[permissions] Denied: run `make all`. Nobody answered in 20ms.");
    // A late answer changes nothing.
    chain.answer("editor", &asked, selected("yes"));
    chain.assert_quiet();
}

#[test]
fn a_rule_may_allow_what_nobody_answers() {
    let mut chain = Chain::new(IMPATIENT, &[]);
    chain.ask_permission(command("t", "touch x"));
    chain.receive("editor");
    assert_eq!(chain.outcome(), "yes");
    chain.receive("editor");
    chain.receive("editor");
    // There is no option that allows once.
    let for_ever = json!([{ "optionId": "always", "name": "Always", "kind": "allow_always" }]);
    chain.ask_with(command("t", "touch x"), for_ever);
    chain.receive("editor");
    assert_eq!(chain.outcome(), "cancelled");
}

#[test]
fn unattended_denies_what_nobody_answers() {
    let general = format!("unattended = {{ after = \"20ms\", then = \"deny\" }}\n{RULES}");
    for (rules, options) in [(general.as_str(), &[][..]), (RULES, &["--unattended", "20ms"])] {
        let mut chain = Chain::new(rules, options);
        chain.ask_permission(command("t", "make"));
        chain.receive("editor");
        assert_eq!(chain.outcome(), "no");
        chain.receive("editor");
        chain.receive("editor");
        // The same at a request without a question of the agent.
        let path = chain.in_project("notes.txt");
        chain.ask("agent", "fs/read_text_file", json!({ "sessionId": "s", "path": path }));
        chain.receive("editor");
        let error = chain.receive("agent")["error"].clone();
        let text = error["message"].as_str().expect("a text");
        assert!(text.contains("Nobody answered in 20ms"), "{text}");
    }
}

/// ACP wants the editor to answer its questions with `cancelled` when it cancels a turn.
#[test]
fn a_cancelled_turn_ends_its_questions() {
    let mut chain = Chain::new(RULES, &[]);
    let cancel = json!({ "method": "session/cancel", "params": { "sessionId": "s" } });
    chain.ask_permission(command("t", "make"));
    let asked = chain.receive("editor");
    chain.send("editor", &cancel);
    assert_eq!(chain.receive("agent")["method"], "session/cancel");
    chain.answer("editor", &asked, Ok(json!({ "outcome": { "outcome": "cancelled" } })));
    assert_eq!(chain.outcome(), "cancelled");
    chain.assert_quiet();
    // An editor that does not answer.
    chain.ask_permission(command("t", "make"));
    let asked = chain.receive("editor");
    chain.send("editor", &cancel);
    assert_eq!(chain.receive("agent")["method"], "session/cancel");
    assert_eq!(chain.outcome(), "cancelled");
    let cancelled = chain.receive("editor");
    assert_eq!(cancelled["params"]["requestId"], asked["id"], "{cancelled}");
}

/// The agent cancels its own request.
#[test]
fn a_cancelled_request_cancels_the_question() {
    let mut chain = Chain::new(RULES, &[]);
    for (method, params) in [
        (
            "session/request_permission",
            json!({ "sessionId": "s", "toolCall": command("t", "make"), "options": [] }),
        ),
        ("fs/read_text_file", json!({ "sessionId": "s", "path": "/etc/hosts" })),
    ] {
        let id = chain.ask("agent", method, params);
        let asked = chain.receive("editor");
        assert_eq!(asked["method"], "session/request_permission");
        chain
            .send("agent", &json!({ "method": "$/cancel_request", "params": { "requestId": id } }));
        let cancelled = chain.receive("editor");
        assert_eq!(cancelled["params"]["requestId"], asked["id"], "{cancelled}");
        if method == "session/request_permission" {
            let error = json!({ "code": -32800, "message": "cancelled" });
            chain.answer("editor", &asked, Err(error));
        }
        assert!(chain.receive("agent")["error"].is_object());
    }
}

#[test]
fn an_answer_for_ever_is_the_choice_of_the_user() {
    let mut chain = Chain::new(RULES, &[]);
    let (one, other) = (chain.in_project("a.txt"), chain.in_project("b.txt"));
    chain.ask_permission(write("t", &one));
    let asked = chain.receive("editor");
    chain.answer("editor", &asked, selected("always"));
    assert_eq!(chain.outcome(), "always");
    // The agent does not ask any more. No rule is about these files.
    for path in [&one, &other] {
        let params = json!({ "sessionId": "s", "path": path, "content": "x" });
        chain.request("agent", "fs/write_text_file", params, Ok(json!(null)));
    }
    // A rule is about this one.
    let path = chain.in_project(".git/config");
    chain.ask(
        "agent",
        "fs/write_text_file",
        json!({ "sessionId": "s", "path": path, "content": "x" }),
    );
    assert_eq!(chain.receive("agent")["error"]["code"], -32000);
    chain.assert_quiet();
}

#[test]
fn an_editor_that_cannot_ask_is_an_answer() {
    let mut chain = Chain::new(RULES, &[]);
    let error = json!({ "code": -32601, "message": "no such method" });
    chain.ask_permission(command("t", "make"));
    let asked = chain.receive("editor");
    chain.answer("editor", &asked, Err(error.clone()));
    assert_eq!(chain.outcome(), "no");
    assert!(chain.said().contains("The user could not be asked: no such method"));
    chain.ask("agent", "terminal/create", json!({ "sessionId": "s", "command": "make" }));
    let asked = chain.receive("editor");
    chain.answer("editor", &asked, Err(error));
    let text = chain.receive("agent")["error"]["message"].clone();
    assert!(text.as_str().expect("a text").contains("the user could not be asked: no such method"));
}

/// The question of every record `asked` has an end in a record `answered`.
#[test]
fn a_question_that_fails_is_denied_and_recorded() {
    let mut chain = Chain::new(RULES, &["--audit", "FOLDER/audit.jsonl"]);
    chain.ask_permission(command("t", "make"));
    let asked = chain.receive("editor");
    chain.answer("editor", &asked, Err(json!({ "code": -32603, "message": "no window" })));
    assert_eq!(chain.outcome(), "no");
    let said = chain.said();
    assert!(said.contains("The user could not be asked"), "{said}");
    let mut answers = chain.records().into_iter().filter(|it| it["event"] == "answered");
    let answer = answers.next().expect("a record");
    assert_eq!((&answer["decision"], &answer["by"]), (&json!("deny"), &json!("failure")));
}

#[test]
fn an_answer_that_is_no_option_cancels() {
    let mut chain = Chain::new(RULES, &[]);
    for odd in [
        json!({ "foo": 1 }),
        json!({ "outcome": { "outcome": "selected", "optionId": "other" } }),
        json!({ "outcome": { "outcome": "selected" } }),
        json!(null),
    ] {
        chain.ask_permission(command("t", "make"));
        let asked = chain.receive("editor");
        chain.answer("editor", &asked, Ok(odd));
        let cancelled = json!({ "outcome": { "outcome": "cancelled" } });
        assert_eq!(chain.receive("agent")["result"], cancelled);
    }
}
