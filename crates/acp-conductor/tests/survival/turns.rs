//! In ACP version 2 a turn continues after its prompt was answered, until the agent reports that it is idle.
//! Limits, crashes and the status are about the whole turn.

use serde_json::{Value, json};
use testkit::rpc::{notification, result};
use testkit::test_chain::TestChain;

use super::chain::{ScriptedChain, forward_next, kill, prompt, status};
use super::new_setup;

/// A result of `initialize` for version 2, from an agent that can resume sessions.
const VERSION_2: &str = r#"{"protocolVersion":2,"info":{"name":"a","version":"1"},"capabilities":{"session":{"mcp":{"acp":{}}}}}"#;

fn state(session: &str, state: &str) -> String {
    let params = format!(
        r#"{{"sessionId":"{session}","update":{{"sessionUpdate":"state_update","state":{state}}}}}"#
    );
    notification("session/update", &params)
}

/// The agent accepts a prompt and reports that it is running.
fn begin_turn(chain: &mut ScriptedChain) {
    let received = chain.prompt("1", "s");
    let accepted = chain.answer(&received, r#"{"messageId":"m"}"#);
    assert_eq!(accepted["result"]["messageId"], "m");
    chain.agent.send(&state("s", r#""running""#));
    chain.proxies.iter_mut().rev().for_each(|proxy| drop(forward_next(proxy)));
    assert_eq!(chain.test.editor.message()["params"]["update"]["state"], "running");
}

/// Checks that an update ends a turn with an error that names the agent and this cause.
fn assert_failed(update: &Value, cause: &str) {
    let update = &update["params"]["update"];
    assert_eq!((&update["state"], &update["stopReason"]), (&json!("idle"), &json!("error")));
    let message = update["error"]["message"].as_str().expect("a cause");
    assert!(message.contains("agent 'agent'") && message.contains(cause), "{message}");
}

/// The restarted agent resumes the session, and the chain works.
fn assert_agent_restarted(chain: &mut ScriptedChain) {
    let name = chain.agent.name.clone();
    chain.agent = chain.test.wait_for_component(&name);
    let received = chain.agent.request("initialize");
    let agent_result = chain.agent_result.clone();
    chain.agent.answer(&received, &agent_result);
    let received = chain.agent.request("session/resume");
    chain.agent.answer(&received, "{}");
    chain.assert_works();
}

#[test]
fn an_agent_that_is_silent_in_a_turn_is_replaced() {
    let setup = new_setup().option(&["--prompt-limit", "5", "--answer-limit", "600"]);
    let mut chain = ScriptedChain::start(setup, &["agent"], VERSION_2);
    chain.new_session("s");
    begin_turn(&mut chain);
    assert_failed(&chain.test.editor.message(), "showed no activity for 5 s");
    assert_agent_restarted(&mut chain);
}

/// A proxy that waits for a running agent is not stuck.
#[test]
fn in_a_turn_only_the_agent_that_is_running_is_considered_stuck() {
    let setup = new_setup().option(&["--prompt-limit", "5"]);
    let mut chain = ScriptedChain::start(setup, &["proxy", "agent"], VERSION_2);
    chain.new_session("s");
    begin_turn(&mut chain);
    let idle = forward_next(&mut chain.proxies[0]);
    assert_eq!(idle["params"]["params"]["update"]["state"], "idle", "{idle}");
    assert_failed(&chain.test.editor.message(), "showed no activity for 5 s");
    assert_agent_restarted(&mut chain);
}

#[test]
fn an_agent_that_ignores_a_cancellation_is_replaced_and_the_turn_is_cancelled() {
    let setup = new_setup().option(&["--cancel-limit", "1"]);
    let mut chain = ScriptedChain::start(setup, &["agent"], VERSION_2);
    chain.new_session("s");
    begin_turn(&mut chain);
    chain.test.editor.send(&notification("session/cancel", r#"{"sessionId":"s"}"#));
    let end = chain.test.editor.message()["params"]["update"].take();
    assert_eq!((&end["state"], &end["stopReason"]), (&json!("idle"), &json!("cancelled")));
    assert_agent_restarted(&mut chain);
}

#[test]
fn a_turn_ends_when_its_agent_crashes() {
    let mut chain = ScriptedChain::start(new_setup(), &["proxy", "agent"], VERSION_2);
    chain.new_session("s");
    begin_turn(&mut chain);
    kill(&chain.agent);
    forward_next(&mut chain.proxies[0]);
    assert_failed(&chain.test.editor.message(), "killed by signal 9");
    assert_agent_restarted(&mut chain);
    // A crash after the end of the turn does not end it again.
    begin_turn(&mut chain);
    chain.agent.send(&state("s", r#""idle""#));
    forward_next(&mut chain.proxies[0]);
    assert_eq!(chain.test.editor.message()["params"]["update"]["state"], "idle");
    kill(&chain.agent);
    assert_agent_restarted(&mut chain);
}

#[test]
fn the_status_counts_a_turn_that_continues() {
    let mut chain = ScriptedChain::start(new_setup(), &["agent"], VERSION_2);
    chain.new_session("s");
    begin_turn(&mut chain);
    let owes = |chain: &ScriptedChain| status(&chain.test)["components"][0]["queue"]["owes"].take();
    assert_eq!(owes(&chain), 1);
    chain.agent.send(&state("s", r#""idle","stopReason":"end_turn""#));
    chain.test.editor.message();
    assert_eq!(owes(&chain), 0);
}

/// A handler that waits for the end of a turn gets an error when the agent crashes.
#[test]
fn sparkle_does_not_wait_for_a_crashed_agent() {
    let setup = new_setup();
    let agent = setup.scripted_command("agent");
    let mut chain: TestChain = setup.run("agent", &["sparkle".to_owned(), agent]);
    let ask = |chain: &mut TestChain, id: u8, method: &str, params: &str| {
        chain.editor.send(&testkit::rpc::request(&id.to_string(), method, params));
    };
    ask(&mut chain, 1, "initialize", r#"{"protocolVersion":2}"#);
    let mut agent = chain.wait_for_component("agent");
    let received = agent.request("initialize");
    agent.answer(&received, VERSION_2);
    chain.editor.message();
    ask(&mut chain, 2, "session/new", r#"{"cwd":"/","mcpServers":[]}"#);
    let received = agent.request("session/new");
    agent.answer(&received, r#"{"sessionId":"s"}"#);
    chain.editor.message();
    ask(&mut chain, 3, "session/prompt", &prompt("s"));
    let received = agent.request("session/prompt");
    agent.send(&result(&received["id"].to_string(), r#"{"messageId":"m"}"#));
    agent.send(&state("s", r#""running""#));
    assert_eq!(chain.editor.message()["params"]["update"]["state"], "running");
    kill(&agent);
    let answer = chain.editor.message();
    assert_eq!(answer["id"], 3, "{answer}");
    let message = answer["error"]["message"].as_str().expect("a cause");
    assert!(message.contains("killed by signal 9"), "{message}");
    assert_eq!(chain.editor.message()["params"]["update"]["state"], "idle");
}

/// A proxy in an inner chain waits for a turn that continues behind that chain.
#[test]
fn a_component_of_an_inner_chain_is_not_stuck_on_a_turn_behind_it() {
    let setup = new_setup().option(&["--prompt-limit", "8"]);
    let inner = "proxy --prompt-limit 5 --restart-delay 0..0 --notices off";
    let inner = setup.nested(inner, &[setup.scripted_json("b").to_string()]);
    let components = [inner, setup.scripted_json("agent").to_string()];
    let mut chain =
        ScriptedChain::handshake(setup.run("agent", &components), &["b", "agent"], VERSION_2);
    chain.new_session("s");
    begin_turn(&mut chain);
    let idle = forward_next(&mut chain.proxies[0]);
    assert_eq!(idle["params"]["params"]["update"]["state"], "idle", "{idle}");
    assert_failed(&chain.test.editor.message(), "showed no activity for 8 s");
    assert_agent_restarted(&mut chain);
}

/// The end of the turn that the conductor reports in place of a crashed proxy does not count as passed on by
/// that proxy.
#[test]
fn the_end_of_a_turn_goes_around_a_proxy_that_crashes_twice_on_it() {
    let mut chain = ScriptedChain::start(new_setup(), &["proxy", "agent"], VERSION_2);
    let session = chain.new_session("s");
    for _ in 0..2 {
        begin_turn(&mut chain);
        chain.agent.send(&state("s", r#""idle""#));
        assert_eq!(chain.proxies[0].message()["params"]["params"]["update"]["state"], "idle");
        chain.proxies[0].exit(1);
        assert_eq!(chain.test.editor.message()["params"]["update"]["stopReason"], "error");
        chain.await_restart(0);
        chain.expect_replay(0, std::slice::from_ref(&session));
    }
    let received = chain.prompt("1", "s");
    chain.answer(&received, r#"{"messageId":"m"}"#);
    for word in ["running", "idle"] {
        chain.agent.send(&state("s", &json!(word).to_string()));
        let barrier = chain.proxies[0].message();
        chain.proxies[0].answer(&barrier, "{}");
        assert_eq!(chain.test.editor.message()["params"]["update"]["state"], word);
    }
    chain.assert_works();
}
