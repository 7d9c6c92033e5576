//! A limit of requests at once is not exceeded because the component has crashed: what may still run is counted.

use serde_json::{Value, json};

use super::{Chain, TestClock, options};

const TEXT: &str = "agent_message_chunk";

fn update(chain: &mut Chain, session: &str, update: Value) {
    chain.notify("agent", "session/update", json!({ "sessionId": session, "update": update }));
    chain.passes("editor", "session/update");
}

fn say(chain: &mut Chain, session: &str) {
    let content = json!({ "type": "text", "text": "still here" });
    update(chain, session, json!({ "sessionUpdate": TEXT, "content": content }));
}

/// The component crashes inside of the conductor while a prompt runs in the session `s`, and is built again.
fn crashed(words: &str) -> Chain {
    let clock = TestClock::default();
    let options = options(words);
    let mut chain = Chain::start(&options, &clock);
    chain.open("s");
    chain.open("t");
    chain.prompt("s");
    chain.passes("agent", "session/prompt");
    drop(chain);
    let mut chain = Chain::start(&options, &clock);
    chain.replay("s");
    chain.replay("t");
    chain
}

const ONE_AT_ONCE: &str = "--prompts-at-once 1 --when-reached refuse";

#[test]
fn a_prompt_that_was_running_in_a_crash_is_counted_for_a_minute() {
    let mut chain = crashed(ONE_AT_ONCE);
    for _ in 0..2 {
        let id = chain.prompt("t");
        let data = chain.refused("editor", id);
        assert_eq!(
            (&data["limit"], &data["retryAfterSeconds"]),
            (&json!("prompts_at_once"), &json!(60))
        );
    }
    chain.clock.advance(60);
    chain.turn("t");
    chain.turn("t");
}

#[test]
fn a_prompt_waits_until_the_prompt_before_a_crash_is_counted_no_more() {
    let mut chain = crashed("--prompts-at-once 1");
    let id = chain.prompt("t");
    chain.told();
    chain.clock.advance(59);
    chain.nothing_else("agent");
    chain.clock.advance(1);
    chain.ends(id);
}

/// Some agents take long to stop.
#[test]
fn an_agent_that_works_after_a_crash_is_counted_until_it_is_silent() {
    let mut chain = crashed(ONE_AT_ONCE);
    chain.clock.advance(50);
    say(&mut chain, "s");
    // Another session says nothing about this one.
    chain.clock.advance(50);
    say(&mut chain, "t");
    let id = chain.prompt("t");
    assert_eq!(chain.refused("editor", id)["retryAfterSeconds"], 10);
    chain.clock.advance(10);
    chain.turn("t");
}

#[test]
fn what_ends_a_turn_ends_the_count_of_the_prompt_before_a_crash() {
    // The agent says that the session is idle.
    let mut chain = crashed(ONE_AT_ONCE);
    update(&mut chain, "s", json!({ "sessionUpdate": "state_update", "state": "idle" }));
    chain.turn("t");
    // The session is closed.
    let mut chain = crashed(ONE_AT_ONCE);
    let id = chain.request("editor", "session/close", json!({ "sessionId": "s" }));
    let request = chain.passes("agent", "session/close");
    chain.answer("agent", &request, json!({}));
    chain.answered("editor", id);
    chain.turn("t");
    // The next turn of the session has ended. One that the agent refuses says nothing.
    let mut chain = crashed("--prompts-at-once 2 --when-reached refuse");
    let busy = chain.prompt("s");
    let request = chain.passes("agent", "session/prompt");
    let error = json!({ "code": -32600, "message": "a turn is running" });
    chain.talk.send("agent", &json!({ "id": request["id"], "error": error }).to_string());
    chain.answered("editor", busy);
    let running = chain.prompt("s");
    let request = chain.passes("agent", "session/prompt");
    let id = chain.prompt("t");
    chain.refused("editor", id);
    chain.answer("agent", &request, json!({ "stopReason": "end_turn" }));
    chain.answered("editor", running);
    chain.prompt("s");
    chain.passes("agent", "session/prompt");
    chain.turn("t");
}

/// A tool call is answered with an error when the component crashes, so it has ended for the agent.
#[test]
fn a_tool_call_ends_when_the_component_crashes() {
    let clock = TestClock::default();
    let options = options("--tool-calls-at-once 1 --when-reached refuse");
    let read = json!({ "sessionId": "s", "path": "/a" });
    for _ in 0..2 {
        let mut chain = Chain::start(&options, &clock);
        chain.request("agent", "fs/read_text_file", read.clone());
        chain.passes("editor", "fs/read_text_file");
    }
    // The terminal is perhaps created, though nobody learns its id.
    let create = json!({ "sessionId": "s", "command": "sleep" });
    let mut chain = Chain::start(&options, &clock);
    chain.request("agent", "terminal/create", create);
    chain.passes("editor", "terminal/create");
    drop(chain);
    let mut chain = Chain::start(&options, &clock);
    let id = chain.request("agent", "fs/read_text_file", read.clone());
    chain.refused("agent", id);
    clock.advance(60);
    chain.request("agent", "fs/read_text_file", read);
    chain.passes("editor", "fs/read_text_file");
}

/// A process has lost its memory, so all sessions that had begun before may have a turn.
#[test]
fn a_restarted_process_counts_a_turn_in_each_session() {
    let mut chain = Chain::restarted("--prompts-at-once 2 --when-reached refuse", &["s", "t"]);
    let id = chain.prompt("t");
    assert_eq!(chain.refused("editor", id)["retryAfterSeconds"], 60);
    chain.clock.advance(30);
    say(&mut chain, "s");
    chain.clock.advance(30);
    chain.turn("t");
    chain.open("new");
    let running = chain.prompt("new");
    let request = chain.passes("agent", "session/prompt");
    let id = chain.prompt("t");
    assert_eq!(chain.refused("editor", id)["retryAfterSeconds"], 30);
    chain.answer("agent", &request, json!({ "stopReason": "end_turn" }));
    chain.answered("editor", running);
    // In each session, too.
    let words = "--session-prompts-at-once 2 --when-reached refuse";
    let mut chain = Chain::restarted(words, &["s"]);
    let id = chain.prompt("s");
    chain.refused("editor", id);
    chain.open("new");
    chain.turn("new");
}

#[test]
fn a_restarted_process_counts_the_terminals_that_it_sees() {
    let mut chain = Chain::restarted("--tool-calls-at-once 1 --when-reached refuse", &["s"]);
    let create = json!({ "sessionId": "s", "command": "sleep" });
    let refused = |chain: &mut Chain| {
        let id = chain.request("agent", "terminal/create", create.clone());
        chain.refused("agent", id)["retryAfterSeconds"].clone()
    };
    assert_eq!(refused(&mut chain), 60);
    let terminal = json!({ "sessionId": "s", "terminalId": "old" });
    let output = |chain: &mut Chain, result: Value| {
        let id = chain.request("agent", "terminal/output", terminal.clone());
        let request = chain.passes("editor", "terminal/output");
        chain.answer("editor", &request, result);
        chain.answered("agent", id);
    };
    output(&mut chain, json!({ "output": "", "truncated": false }));
    chain.clock.advance(3600);
    assert_eq!(refused(&mut chain), 1);
    output(&mut chain, json!({ "output": "", "truncated": false, "exitStatus": {} }));
    let id = chain.request("agent", "terminal/create", create.clone());
    let request = chain.passes("editor", "terminal/create");
    chain.answer("editor", &request, json!({ "terminalId": "new" }));
    chain.answered("agent", id);
    assert_eq!(refused(&mut chain), 1);
}
