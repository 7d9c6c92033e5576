//! A proxy crashes after it has passed a request on: what becomes of the answer. Checklist 100.

use serde_json::{Value, json};
use testkit::rpc::{cancel, notification, request, result, wrapped_request};
use testkit::test_chain::{ScriptedComponent, parse};

use crate::chain::{
    PLAIN, ScriptedChain, assert_crash, forward, forward_next, kill, prompt, update,
};
use crate::{new_setup, setup_without_restarts};

const BARRIER: &str = "_conductor/barrier";

/// A prompt that has reached the agent through a proxy which has crashed and been restarted since.
fn prompt_then_restart_proxy(chain: &mut ScriptedChain) -> Value {
    let session = chain.new_session("s");
    let received = chain.prompt("1", "s");
    chain.kill_proxy(0);
    chain.expect_replay(0, &[session]);
    received
}

/// A proxy receives a barrier from the agent's side.
fn expect_barrier(proxy: &mut ScriptedComponent) -> Value {
    let received = proxy.request("proxy/successor");
    assert_eq!(received["params"]["method"], BARRIER, "{received}");
    received
}

fn chunk(n: usize) -> String {
    update("s", "agent_message_chunk", &n.to_string())
}

/// The answer arrives once, after everything that the agent sent before it. The restarted proxy passes the
/// barrier on like any other unknown request.
#[test]
fn the_answer_to_a_forwarded_request_comes_after_the_updates() {
    let mut chain = ScriptedChain::proxy_and_agent(PLAIN);
    let received = prompt_then_restart_proxy(&mut chain);
    for n in 0..20 {
        chain.agent.send(&chunk(n));
    }
    chain.agent.answer(&received, r#"{"stopReason":"end_turn"}"#);
    for n in 20..25 {
        chain.agent.send(&chunk(n));
    }
    for _ in 0..20 {
        forward_next(&mut chain.proxies[0]);
    }
    let barrier = expect_barrier(&mut chain.proxies[0]);
    // The editor has received the updates, and no answer yet.
    for n in 0..20 {
        assert_eq!(chain.test.editor.line(), chunk(n));
    }
    forward(&mut chain.proxies[0], &barrier);
    assert_eq!(chain.test.editor.line(), result("1", r#"{"stopReason":"end_turn"}"#));
    for _ in 20..25 {
        forward_next(&mut chain.proxies[0]);
    }
    for n in 20..25 {
        assert_eq!(chain.test.editor.line(), chunk(n));
    }
    // The barrier is answered like any request, and the proxy passes the answer on.
    let answer = forward_next(&mut chain.proxies[0]);
    assert_eq!(answer["result"], json!({}), "{answer}");
    chain.assert_works();
}

/// The answer does not overtake the messages that waited for the restarted proxy.
#[test]
fn the_answer_to_a_forwarded_request_does_not_overtake_held_messages() {
    let mut chain = ScriptedChain::proxy_and_agent(PLAIN);
    let session = chain.new_session("s");
    let received = chain.prompt("1", "s");
    chain.kill_proxy(0);
    for n in 0..3 {
        chain.agent.send(&chunk(n));
    }
    chain.agent.answer(&received, "{}");
    chain.agent.send(&chunk(3));
    testkit::test_chain::wait_until("all of it waits", || {
        (chain.status()["components"][0]["queue"]["heldMessages"] == 5).then_some(())
    });
    chain.expect_replay(0, &[session]);
    for _ in 0..3 {
        forward_next(&mut chain.proxies[0]);
    }
    forward_next(&mut chain.proxies[0]);
    forward_next(&mut chain.proxies[0]);
    for n in 0..3 {
        assert_eq!(chain.test.editor.line(), chunk(n));
    }
    assert_eq!(chain.test.editor.line(), result("1", "{}"));
    assert_eq!(chain.test.editor.line(), chunk(3));
    forward_next(&mut chain.proxies[0]);
    chain.assert_works();
}

/// A proxy that refuses the barrier has handled everything before it.
#[test]
fn a_proxy_may_refuse_the_barrier() {
    let mut chain = ScriptedChain::proxy_and_agent(PLAIN);
    let received = prompt_then_restart_proxy(&mut chain);
    chain.agent.send(&chunk(1));
    chain.agent.answer(&received, "{}");
    forward_next(&mut chain.proxies[0]);
    let barrier = expect_barrier(&mut chain.proxies[0]);
    chain.proxies[0].answer_error(&barrier, r#"{"code":-32601,"message":"Method not found"}"#);
    assert_eq!(chain.test.editor.line(), chunk(1));
    assert_eq!(chain.test.editor.line(), result("1", "{}"));
    chain.assert_works();
}

/// If a proxy drops the barrier and passes on a later message, the answer is delivered before that message.
#[test]
fn a_proxy_that_drops_the_barrier_does_not_block_the_answer() {
    let mut chain = ScriptedChain::proxy_and_agent(PLAIN);
    let received = prompt_then_restart_proxy(&mut chain);
    chain.agent.answer(&received, "{}");
    let barrier = expect_barrier(&mut chain.proxies[0]);
    chain.agent.send(&chunk(1));
    forward_next(&mut chain.proxies[0]);
    assert_eq!(chain.test.editor.line(), result("1", "{}"));
    assert_eq!(chain.test.editor.line(), chunk(1));
    // A late answer to the barrier has no effect.
    forward(&mut chain.proxies[0], &barrier);
    let answer = forward_next(&mut chain.proxies[0]);
    assert_eq!(answer["id"].as_str().map(|it| &it[..4]), Some("own "), "{answer}");
}

/// A request that the proxy extends counts as passed on, so its answer is delivered.
#[test]
fn an_extended_request_counts_as_forwarded() {
    let added = r#"{"type":"text","text":"context"}"#;
    let hi = r#"{"type":"text","text":"hi"}"#;
    for params in [
        format!(r#"{{"sessionId":"s","prompt":[{added},{hi}]}}"#),
        format!(r#"{{"prompt":[{hi},{added}],"sessionId":"s","_meta":{{"x":1}}}}"#),
        r#"{ "sessionId" : "s", "prompt": [ {"text":"hi","type":"text","annotations":{}} ] }"#
            .into(),
    ] {
        let mut chain = ScriptedChain::proxy_and_agent(PLAIN);
        chain.test.editor.send(&request("1", "session/prompt", &prompt("s")));
        chain.proxies[0].request("session/prompt");
        chain.proxies[0].send(&wrapped_request("5", "session/prompt", &params));
        let received = chain.agent.request("session/prompt");
        chain.kill_proxy(0);
        chain.expect_replay(0, &[]);
        chain.agent.answer(&received, r#"{"stopReason":"end_turn"}"#);
        forward_next(&mut chain.proxies[0]);
        assert_eq!(chain.test.editor.line(), result("1", r#"{"stopReason":"end_turn"}"#));
        forward_next(&mut chain.proxies[0]);
        chain.assert_works();
    }
}

/// Only the crashed proxy could have translated the answer to a changed request. The requester gets an
/// error, and the agent receives a cancellation.
#[test]
fn a_request_that_the_proxy_changed_fails_and_is_cancelled() {
    let mut chain = ScriptedChain::proxy_and_agent(PLAIN);
    let session = chain.new_session("s");
    chain.test.editor.send(&request("1", "session/prompt", &prompt("s")));
    chain.proxies[0].request("session/prompt");
    let other = r#"{"sessionId":"s","prompt":[{"type":"text","text":"ahoy"}]}"#;
    chain.proxies[0].send(&wrapped_request("5", "session/prompt", other));
    let received = chain.agent.request("session/prompt");
    // Another request, which is not a prompt.
    chain.test.editor.send(&request("2", "_x/ask", r#"{"n":1}"#));
    chain.proxies[0].request("_x/ask");
    chain.proxies[0].send(&wrapped_request("6", "_x/ask", r#"{"n":2}"#));
    let second = chain.agent.request("_x/ask");
    kill(&chain.proxies[0]);
    assert_crash(&chain.test.editor.message(), json!(1), "proxy", "SIGKILL", "restarted");
    assert_crash(&chain.test.editor.message(), json!(2), "proxy", "SIGKILL", "restarted");
    assert_eq!(chain.agent.line(), cancel(&received["id"].to_string()));
    assert_eq!(chain.agent.line(), cancel(&second["id"].to_string()));
    assert_eq!(chain.agent.line(), notification("session/cancel", r#"{"sessionId":"s"}"#));
    // The agent answers all the same. The answers are dropped.
    chain.agent.answer(&received, r#"{"stopReason":"cancelled"}"#);
    chain.agent.answer_error(&second, r#"{"code":-32800,"message":"cancelled"}"#);
    chain.await_restart(0);
    chain.expect_replay(0, &[session]);
    chain.assert_works();
}

/// A request that was already cancelled is not cancelled again.
#[test]
fn a_cancelled_request_is_not_cancelled_again() {
    let mut chain = ScriptedChain::proxy_and_agent(PLAIN);
    let session = chain.new_session("s");
    let received = chain.prompt("1", "s");
    chain.test.editor.send(&cancel("1"));
    forward_next(&mut chain.proxies[0]);
    assert_eq!(chain.agent.line(), cancel(&received["id"].to_string()));
    chain.kill_proxy(0);
    chain.expect_replay(0, &[session]);
    chain.agent.answer_error(&received, r#"{"code":-32800,"message":"m"}"#);
    forward_next(&mut chain.proxies[0]);
    let answer = chain.test.editor.message();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32800)));
    forward_next(&mut chain.proxies[0]);
    chain.assert_works();
}

/// The proxy crashes after it has received a cancellation and before it has passed it on.
#[test]
fn a_cancellation_inside_a_crashed_proxy_is_passed_on() {
    let mut chain = ScriptedChain::proxy_and_agent(PLAIN);
    let session = chain.new_session("s");
    let received = chain.prompt("1", "s");
    chain.test.editor.send(&cancel("1"));
    assert_eq!(chain.proxies[0].message()["method"], "$/cancel_request");
    chain.kill_proxy(0);
    assert_eq!(chain.agent.line(), cancel(&received["id"].to_string()));
    chain.expect_replay(0, &[session]);
    chain.agent.answer(&received, r#"{"stopReason":"cancelled"}"#);
    forward_next(&mut chain.proxies[0]);
    assert_eq!(chain.test.editor.line(), result("1", r#"{"stopReason":"cancelled"}"#));
}

/// `$/cancel_request` for a request that was passed on reaches the agent while the proxy is down, and after
/// its restart. `session/cancel` passes through the restarted proxy.
#[test]
fn a_forwarded_request_can_be_cancelled_while_the_proxy_is_down() {
    let mut chain = ScriptedChain::proxy_and_agent(PLAIN);
    let session = chain.new_session("s");
    let received = chain.prompt("1", "s");
    let other = chain.request("2", "_x/ask", "{}");
    chain.kill_proxy(0);
    chain.test.editor.send(&cancel("2"));
    assert_eq!(chain.agent.line(), cancel(&other["id"].to_string()));
    chain.test.editor.send(&notification("session/cancel", r#"{"sessionId":"s"}"#));
    chain.expect_replay(0, &[session]);
    forward_next(&mut chain.proxies[0]);
    assert_eq!(chain.agent.line(), notification("session/cancel", r#"{"sessionId":"s"}"#));
    chain.test.editor.send(&cancel("1"));
    assert_eq!(chain.agent.line(), cancel(&received["id"].to_string()));
    chain.agent.answer(&received, r#"{"stopReason":"cancelled"}"#);
    forward_next(&mut chain.proxies[0]);
    assert_eq!(chain.test.editor.message()["id"], 1);
    forward_next(&mut chain.proxies[0]);
    chain.agent.answer(&other, "{}");
    forward_next(&mut chain.proxies[0]);
    assert_eq!(chain.test.editor.message()["id"], 2);
    forward_next(&mut chain.proxies[0]);
    chain.assert_works();
}

/// The same for requests of the agent: each is answered once, after what the editor sent before.
#[test]
fn requests_of_the_agent_are_answered_after_the_proxy_crashed() {
    let mut chain = ScriptedChain::proxy_and_agent(PLAIN);
    let session = chain.new_session("s");
    let permission = r#"{"sessionId":"s","toolCall":{},"options":[]}"#;
    chain.agent.send(&request("\"a\"", "session/request_permission", permission));
    forward_next(&mut chain.proxies[0]);
    let received = chain.test.editor.message();
    chain.kill_proxy(0);
    chain.test.editor.send(&notification("_x/note", "{}"));
    chain.test.editor.send(&result(&received["id"].to_string(), r#"{"outcome":"allow"}"#));
    chain.expect_replay(0, &[session]);
    forward_next(&mut chain.proxies[0]);
    let barrier = forward_next(&mut chain.proxies[0]);
    assert_eq!(barrier["method"], BARRIER, "{barrier}");
    assert_eq!(chain.agent.line(), notification("_x/note", "{}"));
    assert_eq!(chain.agent.line(), result("\"a\"", r#"{"outcome":"allow"}"#));
    forward_next(&mut chain.proxies[0]);
    chain.assert_works();
}

/// A changed request of the agent is lost: the agent gets an error, and the editor receives a cancellation.
#[test]
fn a_request_of_the_agent_that_the_proxy_changed_is_cancelled_at_the_editor() {
    let mut chain = ScriptedChain::proxy_and_agent(PLAIN);
    chain.agent.send(&request("\"a\"", "fs/read_text_file", r#"{"path":"/x"}"#));
    chain.proxies[0].request("proxy/successor");
    chain.proxies[0].send(&request("5", "fs/read_text_file", r#"{"path":"/y"}"#));
    let received = chain.test.editor.message();
    // A request of the proxy itself is cancelled as well.
    chain.proxies[0].send(&request("6", "_x/own", "{}"));
    let own = chain.test.editor.message();
    kill(&chain.proxies[0]);
    assert_eq!(chain.test.editor.line(), cancel(&received["id"].to_string()));
    assert_eq!(chain.test.editor.line(), cancel(&own["id"].to_string()));
    assert_crash(&chain.agent.message(), json!("a"), "proxy", "SIGKILL", "restarted");
    chain.test.editor.send(&result(&received["id"].to_string(), "{}"));
    chain.test.editor.send(&result(&own["id"].to_string(), "{}"));
    chain.await_restart(0);
    chain.expect_replay(0, &[]);
    chain.assert_works();
}

/// The proxy answered before it crashed. The agent's later answer is dropped.
#[test]
fn a_request_that_the_proxy_answered_gets_no_second_answer() {
    let mut chain = ScriptedChain::proxy_and_agent(PLAIN);
    let session = chain.new_session("s");
    let received = chain.request("1", "_x/ask", "{}");
    let own = json!({ "jsonrpc": "2.0", "id": "own c:0", "result": { "by": "proxy" } });
    // The id of the request to the proxy is one less than that of the request to the agent.
    let number: u64 = received["id"].as_str().unwrap()[2..].parse().unwrap();
    let mut own = own.clone();
    own["id"] = json!(format!("c:{}", number - 1));
    chain.proxies[0].send(&own.to_string());
    assert_eq!(chain.test.editor.message()["result"]["by"], "proxy");
    chain.kill_proxy(0);
    assert_eq!(chain.agent.line(), cancel(&received["id"].to_string()));
    chain.agent.answer(&received, r#"{"by":"agent"}"#);
    chain.expect_replay(0, &[session]);
    chain.assert_works();
}

/// Two proxies crash that have both passed a prompt on. Checklist 100.
#[test]
fn the_answer_arrives_after_several_proxies_crashed() {
    for order in [[0, 1], [1, 0]] {
        let mut chain = ScriptedChain::start(new_setup(), &["one", "two", "agent"], PLAIN);
        let session = chain.new_session("s");
        let received = chain.prompt("1", "s");
        for at in order {
            chain.kill_proxy(at);
        }
        chain.agent.send(&chunk(1));
        chain.agent.answer(&received, "{}");
        for at in order {
            chain.expect_replay(at, std::slice::from_ref(&session));
        }
        // The update and the barrier pass through one proxy and then the other.
        let proxies = &mut chain.proxies;
        forward_next(&mut proxies[1]);
        let barrier = forward_next(&mut proxies[1]);
        assert_eq!(barrier["params"]["method"], BARRIER, "{barrier}");
        forward_next(&mut proxies[0]);
        let barrier = forward_next(&mut proxies[0]);
        assert_eq!(barrier["params"]["method"], BARRIER, "{barrier}");
        assert_eq!(chain.test.editor.line(), chunk(1));
        assert_eq!(chain.test.editor.line(), result("1", "{}"));
        proxies.iter_mut().for_each(|proxy| drop(forward_next(proxy)));
        chain.assert_works();
    }
}

/// The proxy crashes again, before the barrier has passed it.
#[test]
fn a_proxy_may_crash_while_it_holds_the_barrier() {
    let mut chain = ScriptedChain::proxy_and_agent(PLAIN);
    let received = prompt_then_restart_proxy(&mut chain);
    chain.agent.answer(&received, "{}");
    expect_barrier(&mut chain.proxies[0]);
    chain.kill_proxy(0);
    assert_eq!(chain.test.editor.line(), result("1", "{}"));
    let session = crate::chain::SessionRequest::new("s");
    chain.expect_replay(0, &[session]);
    chain.assert_works();
}

/// The answer goes straight to the requester when the proxy is bypassed.
#[test]
fn the_answer_skips_a_bypassed_proxy() {
    let setup = new_setup().option(&["--on-crash", "1=bypass"]);
    let mut chain = ScriptedChain::start(setup, &["proxy", "agent"], PLAIN);
    chain.new_session("s");
    let received = chain.prompt("1", "s");
    kill(&chain.proxies[0]);
    chain.wait_for_state(1, "bypassed");
    chain.proxies.clear();
    chain.agent.send(&chunk(1));
    chain.agent.answer(&received, "{}");
    assert_eq!(chain.test.editor.line(), chunk(1));
    assert_eq!(chain.test.editor.line(), result("1", "{}"));
    chain.assert_works();
}

/// When the editor disconnects, it still receives an answer that waits for a proxy that is down.
#[test]
fn a_held_answer_is_delivered_when_the_chain_ends() {
    let setup = setup_without_restarts().option(&["--grace", "0.3"]);
    let mut chain = ScriptedChain::start(setup, &["proxy", "agent"], PLAIN);
    chain.new_session("s");
    let received = chain.prompt("1", "s");
    kill(&chain.proxies[0]);
    chain.wait_for_state(1, "restarting");
    chain.agent.answer(&received, "{}");
    testkit::test_chain::wait_until("the answer waits", || {
        (chain.status()["components"][0]["queue"]["heldMessages"] == 1).then_some(())
    });
    chain.test.editor.send(&request("2", "_x/ask", "{}"));
    chain.test.editor.close();
    let mut answers = [chain.test.editor.message(), chain.test.editor.message()];
    answers.sort_by_key(|it| it["id"].as_u64());
    assert_eq!(answers[0], parse(&result("1", "{}")));
    assert_eq!((&answers[1]["id"], &answers[1]["error"]["code"]), (&json!(2), &json!(-32603)));
    assert_eq!(chain.test.conductor.status(), 0);
}
