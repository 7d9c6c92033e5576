//! A restarted component does not give a burst again, and an audit log has every request that waited or was refused.

use components::audit::{AuditOptions, Filter, show, verify};
use serde_json::json;

use super::{Chain, TestClock, options};

/// The conductor builds the component again from the same options.
#[test]
fn a_restart_in_the_conductor_keeps_what_was_used() {
    let clock = TestClock::default();
    let options = options(
        "--prompts-per-minute 2 --session-prompts-per-minute 2 --prompts-at-once 1 --when-reached refuse",
    );
    let mut chain = Chain::start(&options, &clock);
    chain.open("s");
    chain.turn("s");
    // It dies while a prompt runs: the conductor answers the prompt, and cancels it at the agent.
    chain.prompt("s");
    chain.passes("agent", "session/prompt");
    drop(chain);
    let mut chain = Chain::start(&options, &clock);
    chain.replay("s");
    let id = chain.prompt("s");
    assert_eq!(chain.refused("editor", id)["retryAfterSeconds"], 30);
    // The agent may still work on the cancelled prompt.
    clock.advance(30);
    let id = chain.prompt("s");
    assert_eq!(chain.refused("editor", id)["limit"], "prompts_at_once");
    clock.advance(30);
    chain.turn("s");
    chain.turn("s");
    let id = chain.prompt("s");
    assert_eq!(chain.refused("editor", id)["retryAfterSeconds"], 30);
}

/// A process of its own has lost its memory. It sees the restart by the repeated request.
#[test]
fn a_restarted_process_begins_with_nothing() {
    let clock = TestClock::default();
    let limits = "--prompts-per-minute 2 --session-prompts-per-minute 3 --when-reached refuse";
    let mut chain = Chain::start(&options(limits), &clock);
    chain.replay("s");
    let id = chain.prompt("s");
    let data = chain.refused("editor", id);
    assert_eq!(
        (&data["limit"], &data["retryAfterSeconds"]),
        (&json!("session_prompts_per_minute"), &json!(20))
    );
    clock.advance(20);
    let id = chain.prompt("s");
    assert_eq!(chain.refused("editor", id)["retryAfterSeconds"], 10);
    clock.advance(10);
    chain.turn("s");
    // A minute later, everything is as usual.
    clock.advance(60);
    chain.open("t");
    chain.turn("t");
    chain.turn("t");
    let id = chain.prompt("t");
    chain.refused("editor", id);
}

#[test]
fn requests_that_wait_or_are_refused_are_recorded() {
    let folder = std::env::temp_dir().join(format!("rate-limit-audit-{}", std::process::id()));
    let file = folder.join("audit.jsonl");
    let words = format!("--prompts-at-once 1 --max-wait 5s --audit {}", file.display());
    let mut chain = Chain::new(&words);
    let first = chain.prompt("s");
    let request = chain.passes("agent", "session/prompt");
    let second = chain.prompt("t");
    chain.told();
    chain.clock.advance(3);
    chain.answer("agent", &request, json!({ "stopReason": "end_turn" }));
    chain.answered("editor", first);
    let request = chain.passes("agent", "session/prompt");
    let third = chain.prompt("s");
    chain.told();
    chain.clock.advance(5);
    chain.refused("editor", third);
    chain.answer("agent", &request, json!({ "stopReason": "end_turn" }));
    chain.answered("editor", second);
    drop(chain);
    let found = show(&file, &Filter { event: Some("limit".into()), ..Filter::default() }, 10)
        .expect("a log");
    assert_eq!(found.records.len(), 2);
    assert_eq!(
        (&found.records[0]["session"], &found.records[0]["waited_ms"]),
        (&json!("t"), &json!(3000))
    );
    let refused = &found.records[1];
    assert_eq!(
        (&refused["decision"], &refused["by"], &refused["at"]),
        (&json!("deny"), &json!("limit"), &json!("session/prompt"))
    );
    assert_eq!(refused["details"]["limit"], "prompts_at_once");
    assert_eq!(verify(&file, &[], None).expect("a log")[0].problem, None);
    std::fs::remove_dir_all(folder).expect("ours");
}

/// The log cannot be opened when the component starts: what should be recorded is refused.
#[test]
fn a_request_that_cannot_be_recorded_is_refused() {
    let clock = TestClock::default();
    let folder = std::env::temp_dir().join(format!("rate-limit-broken-{}", std::process::id()));
    std::fs::create_dir(&folder).expect("a new folder");
    let file = folder.join("audit.jsonl");
    std::fs::create_dir(&file).expect("a folder in place of the log");
    assert!(components::audit::Audit::check(&AuditOptions::new(&file)).is_err());
    let words = format!("--prompts-per-minute 1 --audit {}", file.display());
    let mut chain = Chain::start(&options(&words), &clock);
    chain.open("s");
    chain.turn("s");
    let id = chain.prompt("s");
    chain.told();
    chain.clock.advance(60);
    let answer = chain.answered("editor", id);
    assert_eq!(answer["error"]["data"]["code"], "audit-failed", "{answer}");
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    std::fs::remove_dir_all(folder).expect("ours");
}
