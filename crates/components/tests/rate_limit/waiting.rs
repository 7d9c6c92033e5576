//! Requests that wait: their order, their bounds, and their cancellation.

use serde_json::json;

use super::Chain;

#[test]
fn a_prompt_waits_until_the_limit_allows_it_and_the_user_is_told() {
    let mut chain = Chain::new("--prompts-per-minute 1");
    chain.turn("s");
    let id = chain.prompt("t");
    let told = chain.told();
    assert!(
        told.contains("waits about 60 s") && told.contains("1 prompt per minute in all sessions"),
        "{told}"
    );
    chain.nothing_else("agent");
    chain.clock.advance(59);
    chain.nothing_else("agent");
    chain.clock.advance(1);
    chain.ends(id);
}

#[test]
fn waiting_prompts_pass_in_order() {
    let mut chain = Chain::new("--prompts-at-once 1");
    let first = chain.prompt("s");
    let running = chain.passes("agent", "session/prompt");
    let mut later = Vec::new();
    for session in ["t", "s", "t", "s"] {
        let id = chain.prompt(session);
        assert!(chain.told().contains("1 prompt at once"));
        later.push((id, session));
    }
    chain.nothing_else("agent");
    chain.answer("agent", &running, json!({ "stopReason": "end_turn" }));
    chain.answered("editor", first);
    for (id, session) in later {
        let request = chain.passes("agent", "session/prompt");
        assert_eq!(request["params"]["sessionId"], session);
        chain.nothing_else("agent");
        chain.answer("agent", &request, json!({ "stopReason": "end_turn" }));
        chain.answered("editor", id);
    }
}

#[test]
fn a_session_that_waits_does_not_delay_another_session() {
    let mut chain = Chain::new("--session-prompts-per-minute 1");
    chain.turn("s");
    let waiting = chain.prompt("s");
    chain.told();
    let behind = chain.prompt("s");
    assert_eq!(chain.refused("editor", behind)["retryAfterSeconds"], 120);
    chain.turn("t");
    chain.clock.advance(60);
    chain.ends(waiting);
}

#[test]
fn a_request_that_would_wait_too_long_is_refused_at_once() {
    let mut chain = Chain::new("--prompts-per-minute 6 --burst 1 --max-wait 25s");
    chain.turn("s");
    let waiting = [chain.prompt("s"), chain.prompt("s")];
    chain.told();
    chain.told();
    let id = chain.prompt("s");
    assert_eq!(chain.refused("editor", id)["retryAfterSeconds"], 30);
    chain.clock.advance(10);
    chain.ends(waiting[0]);
    chain.clock.advance(10);
    chain.ends(waiting[1]);
}

#[test]
fn a_request_that_has_waited_too_long_is_refused() {
    let mut chain = Chain::new("--prompts-at-once 1 --max-wait 20s");
    chain.prompt("s");
    let running = chain.passes("agent", "session/prompt");
    let id = chain.prompt("t");
    chain.told();
    chain.clock.advance(20);
    assert_eq!(chain.refused("editor", id)["limit"], "prompts_at_once");
    // It has left the queue.
    chain.answer("agent", &running, json!({ "stopReason": "end_turn" }));
    chain.talk.receive("editor");
    chain.nothing_else("agent");
    chain.turn("s");
}

#[test]
fn only_so_many_requests_wait() {
    let mut chain = Chain::new("--prompts-at-once 1 --max-waiting 2");
    chain.prompt("s");
    chain.passes("agent", "session/prompt");
    for _ in 0..2 {
        chain.prompt("s");
        chain.told();
    }
    let id = chain.prompt("t");
    chain.refused("editor", id);
    chain.nothing_else("agent");
}

#[test]
fn cancelling_a_session_answers_its_waiting_prompts() {
    let mut chain = Chain::new("--prompts-at-once 1");
    let running = chain.prompt("t");
    let request = chain.passes("agent", "session/prompt");
    let ids = [chain.prompt("s"), chain.prompt("s")];
    let other = chain.prompt("t");
    for _ in 0..3 {
        chain.told();
    }
    chain.notify("editor", "session/cancel", json!({ "sessionId": "s" }));
    for id in ids {
        assert_eq!(chain.answered("editor", id)["result"]["stopReason"], "cancelled");
    }
    chain.passes("agent", "session/cancel");
    chain.nothing_else("agent");
    chain.answer("agent", &request, json!({ "stopReason": "end_turn" }));
    chain.answered("editor", running);
    chain.ends(other);
    chain.turn("s");
}

#[test]
fn cancelling_a_request_takes_it_out_of_the_queue() {
    let mut chain = Chain::new("--prompts-at-once 1");
    let running = chain.prompt("t");
    let request = chain.passes("agent", "session/prompt");
    let first = chain.prompt("s");
    let second = chain.prompt("s");
    chain.told();
    chain.told();
    chain.notify("editor", "$/cancel_request", json!({ "requestId": first }));
    let answer = chain.answered("editor", first);
    assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
    chain.answer("agent", &request, json!({ "stopReason": "end_turn" }));
    chain.answered("editor", running);
    chain.ends(second);
    chain.nothing_else("agent");
}
