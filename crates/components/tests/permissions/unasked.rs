//! Actions that the agent takes without asking.

use serde_json::{Value, json};

use crate::{Chain, RULES, command, selected};

const AUDIT: [&str; 2] = ["--audit", "FOLDER/audit.jsonl"];

fn ran(line: &str) -> Value {
    json!({ "title": line, "kind": "execute", "name": "Bash", "status": "completed", "rawInput": { "command": line } })
}

fn unasked(chain: &Chain) -> Vec<Value> {
    chain.records().into_iter().filter(|it| it["event"] == "acted-without-asking").collect()
}

#[test]
fn an_action_without_asking_is_recorded_once_for_each_kind_and_then_counted() {
    let mut chain = Chain::new(RULES, &AUDIT);
    for number in 0..3 {
        chain.report(&format!("t{number}"), ran("git status"));
    }
    chain.report("r", json!({ "title": "Read", "kind": "read", "status": "completed", "rawInput": { "file_path": "src/a" } }));
    // These have not happened.
    chain.report("p", json!({ "title": "T", "kind": "execute", "status": "in_progress", "rawInput": { "command": "x" } }));
    chain.report("f", json!({ "title": "T", "kind": "execute", "status": "failed", "rawInput": { "command": "x" } }));
    let records = unasked(&chain);
    assert_eq!(records.len(), 2, "{records:?}");
    assert_eq!(records[0]["what"]["command"], "git status");
    assert_eq!(
        records[0]["details"],
        json!({ "kind": "execute", "count": 1, "rules_say": "allow" })
    );
    assert_eq!(records[1]["details"]["kind"], "read");
    // The count is written when the next turn begins.
    chain.ask("editor", "session/prompt", json!({ "sessionId": "s", "prompt": [] }));
    chain.receive("agent");
    let records = unasked(&chain);
    assert_eq!(records.len(), 3, "{records:?}");
    assert_eq!(records[2]["details"], json!({ "kind": "execute", "count": 3 }));
    chain.assert_quiet();
}

#[test]
fn the_end_of_a_call_that_is_repeated_counts_once() {
    let mut chain = Chain::new(RULES, &AUDIT);
    chain.report(
        "t",
        json!({ "title": "T", "kind": "execute", "rawInput": { "command": "git status" } }),
    );
    for _ in 0..3 {
        chain.update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed" }));
        chain.receive("editor");
    }
    // The same id again.
    chain.report("t", json!({ "title": "T", "kind": "execute", "status": "in_progress" }));
    chain.update(
        json!({ "sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed" }),
    );
    chain.receive("editor");
    chain.prompt();
    let counts: Vec<Value> =
        unasked(&chain).iter().map(|it| it["details"]["count"].clone()).collect();
    assert_eq!(counts, [1, 2]);
}

#[test]
fn the_user_is_told_when_the_agent_acts_against_the_rules_without_asking() {
    let mut chain = Chain::new(RULES, &AUDIT);
    chain.report("a", ran("git push -f"));
    let said = chain.said();
    assert!(said.starts_with("[permissions] The agent did this without asking, so it could not be stopped: run `git push -f`."), "{said}");
    // Once for each rule.
    chain.report("b", ran("git push -f"));
    chain.assert_quiet();
    assert_eq!(unasked(&chain)[0]["details"]["rules_say"], "deny");
}

#[test]
fn an_agent_that_acts_although_it_was_denied_is_recorded() {
    let mut chain = Chain::new(RULES, &AUDIT);
    assert_eq!(chain.decided(command("t", "git push -f")), "no");
    chain.said();
    chain.report("t", ran("git push -f"));
    chain.said();
    assert_eq!(unasked(&chain)[0]["details"]["was_denied"], true);
}

#[test]
fn an_action_that_was_decided_about_is_recorded_with_its_outcome() {
    let mut chain = Chain::new(RULES, &AUDIT);
    assert_eq!(chain.decided(command("t", "git status")), "yes");
    chain.report("t", ran("git status"));
    chain.ask_permission(command("u", "make"));
    let asked = chain.receive("editor");
    chain.answer("editor", &asked, selected("no"));
    assert_eq!(chain.outcome(), "no");
    chain.report("u", json!({ "title": "make", "kind": "execute", "status": "failed", "rawInput": { "command": "make" } }));
    // A terminal was decided about, and the call of it has another id.
    chain.request(
        "agent",
        "terminal/create",
        json!({ "sessionId": "s", "command": "ls src" }),
        Ok(json!({ "terminalId": "t" })),
    );
    chain.report("v", ran("ls src"));
    assert_eq!(unasked(&chain).len(), 0);
    let outcomes: Vec<Value> =
        chain.records().into_iter().filter(|it| it["event"] == "outcome").collect();
    let outcomes: Vec<_> =
        outcomes.iter().map(|it| (it["call"].as_str(), it["outcome"].as_str())).collect();
    assert_eq!(
        outcomes,
        [
            (Some("t"), Some("completed")),
            (Some("u"), Some("failed")),
            (Some("v"), Some("completed"))
        ]
    );
}

/// A loaded session repeats what happened in it.
#[test]
fn what_a_loaded_session_repeats_has_not_happened_again() {
    let mut chain = Chain::new(RULES, &AUDIT);
    let params = json!({ "sessionId": "s", "cwd": chain.project(), "mcpServers": [] });
    chain.ask("editor", "session/load", params);
    let load = chain.receive("agent");
    chain.report("old", ran("git push -f"));
    chain.answer("agent", &load, Ok(json!(null)));
    chain.receive("editor");
    assert_eq!(unasked(&chain).len(), 0);
    chain.report("new", ran("git push -f"));
    chain.said();
    assert_eq!(unasked(&chain).len(), 1);
}
