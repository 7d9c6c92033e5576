//! A proxy crashes and is restarted: what the conductor replays to it, and that no other component notices.
//! Checklist 104.

use std::io::Write;

use serde_json::{Value, json};
use testkit::rpc::{
    cancel, id_of, notification, request, result, wrapped_notification, wrapped_request,
};
use testkit::test_chain::parse;

use crate::chain::{
    LOADS, PLAIN, RESUMES, ScriptedChain, SessionRequest, assert_crash, complete_greeting,
    forward_next, kill, prompt, update,
};
use crate::new_setup;

/// The greeting and its result, which the conductor answers from memory, are the same to the byte.
#[test]
fn only_the_restarted_proxy_is_greeted_again_with_the_same_greeting() {
    for names in [&["proxy", "agent"][..], &["one", "two", "three", "agent"]] {
        let mut chain = ScriptedChain::start(new_setup(), names, PLAIN);
        for at in 0..names.len() - 1 {
            chain.kill_proxy(at);
            chain.expect_replay(at, &[]);
            chain.assert_works();
        }
        // Again, all of them at once.
        for at in 0..names.len() - 1 {
            chain.kill_proxy(at);
        }
        for at in (0..names.len() - 1).rev() {
            chain.expect_replay(at, &[]);
        }
        chain.assert_works();
        chain.test.assert_not_started("agent");
    }
}

/// Live sessions are replayed oldest first, however they were set up. Closed and refused ones are not.
#[test]
fn the_live_sessions_are_replayed_to_a_restarted_proxy() {
    let mut chain = ScriptedChain::start(new_setup(), &["one", "two", "agent"], RESUMES);
    let new = chain.new_session("new");
    chain.new_session("closed");
    let loaded = SessionRequest::existing("session/load", "loaded");
    chain.set_up_session(&loaded);
    let resumed = SessionRequest::existing("session/resume", "resumed");
    chain.set_up_session(&resumed);
    let closed = chain.request("1", "session/close", r#"{"sessionId":"closed"}"#);
    chain.answer(&closed, "{}");
    let refused = chain.request("2", "session/new", r#"{"cwd":"/refused","mcpServers":[]}"#);
    chain.agent.answer_error(&refused, r#"{"code":-32000,"message":"Authentication required"}"#);
    chain.proxies.iter_mut().rev().for_each(|proxy| drop(forward_next(proxy)));
    assert_eq!(chain.test.editor.message()["error"]["code"], -32000);
    let sessions = [new, loaded, resumed];
    for at in [0, 1, 1, 0] {
        chain.kill_proxy(at);
        chain.expect_replay(at, &sessions);
        chain.assert_works();
    }
}

/// A proxy that changes the set-up request and its result receives the original request, and the result
/// that it received before.
#[test]
fn a_proxy_that_changes_set_up_requests_receives_the_originals_again() {
    let mut chain = ScriptedChain::proxy_and_agent(PLAIN);
    let (theirs, ours) =
        (r#"{"cwd":"/a","mcpServers":[]}"#, r#"{"cwd":"/b","mcpServers":[],"n":1.10}"#);
    let (inner, outer) = (r#"{"sessionId":"inner","n":1e400}"#, r#"{"sessionId":"outer"}"#);
    chain.test.editor.send(&request("1", "session/new", theirs));
    let received = chain.proxies[0].request("session/new");
    chain.proxies[0].send(&wrapped_request("1", "session/new", ours));
    let at_agent = chain.agent.request("session/new");
    chain.agent.answer(&at_agent, inner);
    assert_eq!(chain.proxies[0].line(), result("1", inner));
    chain.proxies[0].answer(&received, outer);
    assert_eq!(chain.test.editor.line(), result("1", outer));

    chain.kill_proxy(0);
    let proxy = &mut chain.proxies[0];
    complete_greeting(proxy, PLAIN);
    let line = proxy.line();
    assert_eq!(line, request(id_of(&line), "session/new", theirs));
    proxy.send(&wrapped_request("5", "session/new", ours));
    assert_eq!(proxy.line(), result("5", inner));
    proxy.send(&result(id_of(&line), outer));
    chain.assert_works();
    // The proxy closes the session that the editor knows under the proxy's name for it.
    chain.test.editor.send(&request("1", "session/close", r#"{"sessionId":"outer"}"#));
    let received = chain.proxies[0].request("session/close");
    chain.proxies[0].answer(&received, "{}");
    assert_eq!(chain.test.editor.line(), result("1", "{}"));
    chain.kill_proxy(0);
    chain.expect_replay(0, &[]);
    chain.assert_works();
}

/// The conductor answers from memory only the requests that the old proxy had sent as well.
#[test]
fn a_session_that_the_old_proxy_did_not_request_goes_to_the_agent() {
    let mut chain = ScriptedChain::proxy_and_agent(PLAIN);
    let params = r#"{"cwd":"/a","mcpServers":[]}"#;
    chain.test.editor.send(&request("1", "session/new", params));
    let received = chain.proxies[0].request("session/new");
    chain.proxies[0].answer(&received, r#"{"sessionId":"own"}"#);
    assert_eq!(chain.test.editor.line(), result("1", r#"{"sessionId":"own"}"#));
    chain.kill_proxy(0);
    let proxy = &mut chain.proxies[0];
    complete_greeting(proxy, PLAIN);
    let line = proxy.line();
    assert_eq!(line, request(id_of(&line), "session/new", params));
    // This time the proxy requests a session of the agent. That is a new request.
    proxy.send(&wrapped_request("5", "session/new", params));
    let at_agent = chain.agent.request("session/new");
    chain.agent.answer(&at_agent, r#"{"sessionId":"s"}"#);
    assert_eq!(proxy.line(), result("5", r#"{"sessionId":"s"}"#));
    proxy.send(&result(id_of(&line), r#"{"sessionId":"own"}"#));
    chain.assert_works();
}

/// A restarted proxy that refuses a session stays in the chain. The log reports the session.
#[test]
fn a_restarted_proxy_may_refuse_a_session() {
    let mut chain = ScriptedChain::proxy_and_agent(PLAIN);
    let first = chain.new_session("first");
    let second = chain.new_session("second");
    chain.kill_proxy(0);
    let proxy = &mut chain.proxies[0];
    complete_greeting(proxy, PLAIN);
    let line = proxy.line();
    assert_eq!(line, request(id_of(&line), "session/new", &first.params));
    proxy.send(&testkit::rpc::error(id_of(&line), r#"{"code":-1,"message":"not again"}"#));
    let line = proxy.line();
    assert_eq!(line, request(id_of(&line), "session/new", &second.params));
    proxy.send(&result(id_of(&line), &second.result));
    chain.assert_works();
    chain
        .test
        .conductor
        .wait_for_stderr("proxy 'proxy' could not resume session 'first': not again");
}

/// During session replay a proxy may send requests and notifications to both sides, and receives answers.
/// Messages to the proxy wait.
#[test]
fn a_proxy_may_send_requests_during_session_replay() {
    let mut chain = ScriptedChain::proxy_and_agent(PLAIN);
    let session = chain.new_session("s");
    chain.kill_proxy(0);
    let proxy = &mut chain.proxies[0];
    complete_greeting(proxy, PLAIN);
    let line = proxy.line();
    assert_eq!(line, request(id_of(&line), "session/new", &session.params));
    chain.test.editor.send(&notification("_x/later", "{}"));
    proxy.send(&request("5", "fs/read_text_file", r#"{"path":"/x"}"#));
    let received = chain.test.editor.message();
    assert_eq!(received["method"], "fs/read_text_file", "{received}");
    proxy.send(&notification("session/update", r#"{"sessionId":"s"}"#));
    assert_eq!(chain.test.editor.message()["method"], "session/update");
    proxy.send(&wrapped_request("6", "_x/ask", "{}"));
    let at_agent = chain.agent.request("_x/ask");
    proxy.send(&wrapped_notification("_x/note", "{}"));
    assert_eq!(chain.agent.line(), notification("_x/note", "{}"));
    chain.agent.answer(&at_agent, r#"{"by":"agent"}"#);
    assert_eq!(proxy.line(), result("6", r#"{"by":"agent"}"#));
    // An answer does not overtake what its sender sent before.
    chain.test.editor.send(&result(&received["id"].to_string(), r#"{"by":"editor"}"#));
    assert_eq!(proxy.line(), notification("_x/later", "{}"));
    assert_eq!(proxy.line(), result("5", r#"{"by":"editor"}"#));
    proxy.send(&result(id_of(&line), &session.result));
    chain.assert_works();
}

/// However many messages wait for a proxy, it receives the answer that it needs.
#[test]
fn a_restarted_proxy_gets_its_answer_behind_a_long_queue() {
    const COUNT: usize = 64;
    let mut chain = ScriptedChain::proxy_and_agent(PLAIN);
    let session = chain.new_session("s");
    chain.kill_proxy(0);
    let text = "x".repeat(64 * 1024);
    let line = |n: &str| update("s", "agent_message_chunk", &format!("{n} {text}"));
    chain.agent.execute(json!({ "repeat": line("{n}"), "count": COUNT }));
    // The replay has not begun, so the agent is paused.
    testkit::test_chain::wait_until("more than the limit waits", || {
        let held = chain.status()["components"][0]["queue"]["heldBytes"].take();
        (held.as_u64() > Some(1024 * 1024)).then_some(())
    });
    let proxy = &mut chain.proxies[0];
    complete_greeting(proxy, PLAIN);
    let received = proxy.line();
    assert_eq!(received, request(id_of(&received), "session/new", &session.params));
    proxy.send(&wrapped_request("6", "_x/ask", "{}"));
    let at_agent = chain.agent.request("_x/ask");
    chain.agent.answer(&at_agent, r#"{"by":"agent"}"#);
    // An answer does not overtake what its sender sent before.
    for n in 0..COUNT {
        let message = proxy.message();
        let expected = parse(&line(&n.to_string()));
        assert!(message["params"]["params"] == expected["params"], "line {n}");
    }
    assert_eq!(proxy.line(), result("6", r#"{"by":"agent"}"#));
    proxy.send(&result(id_of(&received), &session.result));
    chain.assert_works();
    chain.test.assert_not_started("proxy");
}

/// A restarted proxy that refuses its greeting, or does not answer it, has failed like one that crashes.
#[test]
fn a_restarted_proxy_that_does_not_accept_its_greeting_is_replaced() {
    let options = ["--restarts", "2/600", "--init-timeout", "5"];
    let mut chain = ScriptedChain::start(new_setup().option(&options), &["proxy", "agent"], PLAIN);
    chain.kill_proxy(0);
    let line = chain.proxies[0].line();
    chain.proxies[0].send(&testkit::rpc::error(id_of(&line), r#"{"code":-1,"message":"not me"}"#));
    // It does not answer the next older greeting either.
    chain.test.conductor.wait_for_stderr("not me");
    chain.await_restart(0);
    // It does not answer the first greeting.
    chain.proxies[0].request("proxy/initialize");
    chain.wait_for_state(1, "bypassed");
    chain.test.conductor.wait_for_stderr("did not answer initialize within 5 s");
    chain.proxies.clear();
    chain.assert_works();
}

// Messages to a proxy that is down.

/// The next messages to a proxy, sorted by direction.
fn sorted(proxy: &mut testkit::test_chain::ScriptedComponent, count: usize) -> [Vec<Value>; 2] {
    let mut sorted = [Vec::new(), Vec::new()];
    for _ in 0..count {
        let message = proxy.message();
        let (side, call) = match message["method"].as_str() {
            Some("proxy/successor") => (1, message["params"].clone()),
            _ => (0, message),
        };
        sorted[side].push(json!([call["method"], call["params"]["n"]]));
    }
    sorted
}

/// Messages to the proxy wait and then arrive in order, from both sides.
#[test]
fn messages_to_a_proxy_that_is_down_wait_and_arrive_in_order() {
    let mut chain = ScriptedChain::proxy_and_agent(PLAIN);
    let session = chain.new_session("s");
    chain.kill_proxy(0);
    let calls = ["_x/note", "_x/ask", "session/prompt", "session/cancel", "_x/ask", "_x/note"];
    let is_note = |method: &str| method == "_x/note" || method == "session/cancel";
    let line = |n: usize, method: &str| match is_note(method) {
        true => notification(method, &format!(r#"{{"n":{n}}}"#)),
        false => request(&n.to_string(), method, &format!(r#"{{"n":{n}}}"#)),
    };
    for (n, method) in calls.into_iter().enumerate() {
        chain.test.editor.send(&line(n, method));
        chain.agent.send(&line(n, method));
    }
    let held = testkit::test_chain::wait_until("all messages wait", || {
        let queue = chain.status()["components"][0]["queue"].take();
        (queue["heldMessages"] == 12).then_some(queue)
    });
    assert!(held["heldBytes"].as_u64().expect("a number") > 500, "{held}");
    chain.expect_replay(0, &[session]);
    let expected: Vec<Value> =
        calls.iter().enumerate().map(|(n, method)| json!([method, n])).collect();
    assert_eq!(sorted(&mut chain.proxies[0], 12), [expected.clone(), expected]);
    // A later message arrives after them.
    chain.test.editor.send(&notification("_x/later", "{}"));
    assert_eq!(chain.proxies[0].line(), notification("_x/later", "{}"));
}

/// Messages between other components do not wait.
#[test]
fn only_messages_to_the_proxy_that_is_down_wait() {
    let mut chain = ScriptedChain::start(new_setup(), &["one", "two", "three", "agent"], PLAIN);
    chain.kill_proxy(1);
    chain.test.editor.send(&request("1", "_x/ask", "{}"));
    let received = chain.proxies[0].request("_x/ask");
    chain.proxies[0].answer(&received, "{}");
    assert_eq!(chain.test.editor.line(), result("1", "{}"));
    chain.agent.send(&notification("_x/note", "{}"));
    assert_eq!(chain.proxies[2].line(), wrapped_notification("_x/note", "{}"));
    chain.expect_replay(1, &[]);
    chain.assert_works();
}

/// A request inside the crashed proxy is answered once, with an error that names the component, the cause
/// and the remedy. Checklist 100.
#[test]
fn a_request_inside_a_crashed_proxy_is_answered_once_with_the_cause_and_the_remedy() {
    let mut chain = ScriptedChain::proxy_and_agent(PLAIN);
    chain.test.editor.send(&request("1", "session/prompt", &prompt("s")));
    chain.proxies[0].request("session/prompt");
    chain.agent.send(&request("\"a\"", "fs/read_text_file", r#"{"path":"/x"}"#));
    chain.proxies[0].request("proxy/successor");
    chain.proxies[0].write_stderr("one\nout of luck\n");
    chain.proxies[0].exit(7);
    let at_editor = chain.test.editor.message();
    assert_crash(&at_editor, json!(1), "proxy", "exited with status 7", "restarted");
    let at_agent = chain.agent.message();
    assert_crash(&at_agent, json!("a"), "proxy", "exited with status 7", "restarted");
    for (answer, method) in [(at_editor, "session/prompt"), (at_agent, "fs/read_text_file")] {
        let error = &answer["error"];
        assert_eq!(error["data"]["status"], 7, "{answer}");
        assert_eq!(error["data"]["lastWords"], json!(["one", "out of luck"]), "{answer}");
        let message = error["message"].as_str().expect("a message");
        assert!(message.contains("one | out of luck") && message.contains(method), "{message}");
    }
    chain.await_restart(0);
    chain.expect_replay(0, &[]);
    chain.assert_works();
    // A signal is reported as such.
    chain.test.editor.send(&request("2", "_x/ask", "{}"));
    chain.proxies[0].request("_x/ask");
    chain.kill_proxy(0);
    let answer = chain.test.editor.message();
    assert_crash(&answer, json!(2), "proxy", "was killed by signal 9 (SIGKILL)", "restarted");
    assert_eq!(answer["error"]["data"]["signal"], 9);
    chain.expect_replay(0, &[]);
    chain.assert_works();
}

/// Messages that the proxy sent before it crashed are delivered, before the error.
#[test]
fn the_last_messages_of_a_crashed_proxy_are_delivered() {
    let mut chain = ScriptedChain::proxy_and_agent(PLAIN);
    chain.test.editor.send(&request("1", "session/prompt", &prompt("s")));
    chain.proxies[0].request("session/prompt");
    for n in 0..100 {
        chain.proxies[0].send(&notification("session/update", &format!(r#"{{"n":{n}}}"#)));
    }
    chain.proxies[0].exit(0);
    for n in 0..100 {
        assert_eq!(
            chain.test.editor.line(),
            notification("session/update", &format!(r#"{{"n":{n}}}"#))
        );
    }
    assert_crash(&chain.test.editor.message(), json!(1), "proxy", "status 0", "restarted");
}

/// The queue of waiting messages is bounded: a fast sender is paused, and no message is lost.
#[test]
fn a_fast_sender_is_paused_while_the_proxy_is_down() {
    const COUNT: usize = 400;
    let mut chain = ScriptedChain::proxy_and_agent(PLAIN);
    chain.kill_proxy(0);
    let text = "x".repeat(64 * 1024);
    let line = move |n: usize| notification("_x/note", &format!(r#"{{"n":{n},"text":"{text}"}}"#));
    // In a thread of its own, because the write blocks.
    let mut stdin = chain.test.editor.take_stdin();
    let lines = line.clone();
    let writer = std::thread::spawn(move || {
        for n in 0..COUNT {
            writeln!(stdin, "{}", lines(n)).expect("the conductor reads");
        }
        stdin
    });
    testkit::test_chain::wait_until("the editor is paused", || {
        (chain.status()["editor"]["paused"] == true).then_some(())
    });
    let held = chain.status()["components"][0]["queue"]["heldBytes"].as_u64().expect("a number");
    assert!(held < (COUNT as u64 - 100) * 64 * 1024, "{held}");
    chain.expect_replay(0, &[]);
    for n in 0..COUNT {
        assert!(chain.proxies[0].line() == line(n), "line {n}");
    }
    writer.join().expect("all lines were read");
}

/// A session that was being set up when its proxy crashed does not begin without the proxy. The requester
/// is asked to send the request again, and the agent's session is closed.
#[test]
fn a_set_up_request_inside_a_crashed_proxy_fails_and_its_session_is_closed() {
    for answered_late in [true, false] {
        let mut chain = ScriptedChain::proxy_and_agent(PLAIN);
        let SessionRequest { method, params, .. } = SessionRequest::new("s");
        let received = chain.request("1", method, &params);
        if !answered_late {
            chain.agent.answer(&received, r#"{"sessionId":"s"}"#);
            assert_eq!(chain.proxies[0].message()["result"]["sessionId"], "s");
        }
        chain.kill_proxy(0);
        assert_crash(&chain.test.editor.message(), json!(1), "proxy", "SIGKILL", "restarted");
        if answered_late {
            assert_eq!(chain.agent.line(), cancel(&received["id"].to_string()));
            chain.agent.answer(&received, r#"{"sessionId":"s"}"#);
        }
        let closed = chain.agent.request("session/close");
        assert_eq!(closed["params"]["sessionId"], "s", "{closed}");
        chain.agent.answer(&closed, "{}");
        chain.expect_replay(0, &[]);
        chain.assert_works();
        let again = chain.new_session("t");
        chain.kill_proxy(0);
        chain.expect_replay(0, &[again]);
        chain.assert_works();
    }
}

/// A session that is already live, and was being loaded once more, still belongs to the editor: the agent's
/// messages in it are delivered.
#[test]
fn a_live_session_survives_a_proxy_crash_while_it_is_loaded_again() {
    for answered_late in [true, false] {
        let mut chain = ScriptedChain::proxy_and_agent(LOADS);
        let session = chain.new_session("s");
        let SessionRequest { method, params, .. } = SessionRequest::existing("session/load", "s");
        let received = chain.request("1", method, &params);
        if !answered_late {
            chain.agent.answer(&received, "{}");
            assert!(chain.proxies[0].message()["result"].is_object());
        }
        chain.kill_proxy(0);
        assert_crash(&chain.test.editor.message(), json!(1), "proxy", "SIGKILL", "restarted");
        if answered_late {
            assert_eq!(chain.agent.line(), cancel(&received["id"].to_string()));
            chain.agent.answer(&received, "{}");
        }
        chain.expect_replay(0, &[session]);
        chain.assert_works();
        // Also before the next prompt.
        for prompted in [false, true] {
            let received = prompted.then(|| chain.prompt("2", "s"));
            chain.agent.send(&update("s", "agent_message_chunk", "x"));
            forward_next(&mut chain.proxies[0]);
            let shown = chain.test.editor.message();
            assert_eq!(shown, parse(&update("s", "agent_message_chunk", "x")));
            let permission = r#"{"sessionId":"s","options":[]}"#;
            chain.agent.send(&request("\"a\"", "session/request_permission", permission));
            forward_next(&mut chain.proxies[0]);
            let shown = chain.test.editor.message();
            assert_eq!(shown["method"], "session/request_permission", "{shown}");
            chain.test.editor.send(&result(&shown["id"].to_string(), "{}"));
            forward_next(&mut chain.proxies[0]);
            assert_eq!(chain.agent.line(), result("\"a\"", "{}"));
            if let Some(received) = received {
                assert_eq!(chain.answer(&received, "{}")["id"], 2);
            }
        }
    }
}

// Cancellations while a proxy is down.

/// A waiting request that is cancelled is answered at once, and is never delivered.
#[test]
fn a_waiting_request_can_be_cancelled() {
    let mut chain = ScriptedChain::proxy_and_agent(PLAIN);
    chain.kill_proxy(0);
    chain.test.editor.send(&request("1", "_x/ask", "{}"));
    chain.test.editor.send(&cancel("1"));
    let answer = chain.test.editor.message();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32800)));
    chain.agent.send(&request("\"a\"", "_x/ask", "{}"));
    chain.agent.send(&cancel("\"a\""));
    let answer = chain.agent.message();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("a"), &json!(-32800)));
    chain.expect_replay(0, &[]);
    chain.assert_works();
}

/// `session/cancel` waits like any other message, so the prompt that it cancels arrives first.
#[test]
fn a_turn_can_be_cancelled_while_its_prompt_waits() {
    let mut chain = ScriptedChain::proxy_and_agent(PLAIN);
    let session = chain.new_session("s");
    chain.kill_proxy(0);
    chain.test.editor.send(&request("1", "session/prompt", &prompt("s")));
    chain.test.editor.send(&notification("session/cancel", r#"{"sessionId":"s"}"#));
    chain.expect_replay(0, &[session]);
    forward_next(&mut chain.proxies[0]);
    forward_next(&mut chain.proxies[0]);
    let received = chain.agent.request("session/prompt");
    assert_eq!(chain.agent.line(), notification("session/cancel", r#"{"sessionId":"s"}"#));
    let answer = chain.answer(&received, r#"{"stopReason":"cancelled"}"#);
    assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
}

// Guards.

/// While a guard is down, nothing passes in either direction, and no answer goes around it.
#[test]
fn nothing_passes_a_guard_that_is_down() {
    let setup = new_setup().option(&["--guard", "proxy"]);
    let mut chain = ScriptedChain::start(setup, &["proxy", "agent"], PLAIN);
    let session = chain.new_session("s");
    let at_agent = chain.prompt("1", "s");
    chain.agent.send(&request("\"a\"", "_x/ask", "{}"));
    forward_next(&mut chain.proxies[0]);
    let at_editor = chain.test.editor.message();
    kill(&chain.proxies[0]);
    // The guard has passed both on unchanged, but the answers are not delivered.
    let answer = chain.test.editor.message();
    assert_crash(&answer, json!(1), "proxy", "SIGKILL", "restarted");
    let answer = chain.test.editor.message();
    assert_eq!(answer, parse(&cancel(&at_editor["id"].to_string())));
    let mut received: Vec<Value> = (0..3).map(|_| chain.agent.message()).collect();
    received.sort_by_key(|it| it["method"].as_str().map(str::to_owned));
    assert_crash(&received[0], json!("a"), "proxy", "SIGKILL", "restarted");
    assert_eq!(received[1], parse(&cancel(&at_agent["id"].to_string())));
    assert_eq!(received[2], parse(&notification("session/cancel", r#"{"sessionId":"s"}"#)));
    chain.agent.answer(&at_agent, r#"{"stopReason":"cancelled"}"#);
    chain.test.editor.send(&result(&at_editor["id"].to_string(), "{}"));
    chain.await_restart(0);
    // New messages wait for the guard.
    chain.agent.send(&notification("session/update", r#"{"sessionId":"s"}"#));
    chain.test.editor.send(&notification("_x/note", "{}"));
    testkit::test_chain::wait_until("both wait", || {
        (chain.status()["components"][0]["queue"]["heldMessages"] == 2).then_some(())
    });
    chain.expect_replay(0, &[session]);
    let [down, up] = sorted(&mut chain.proxies[0], 2);
    assert_eq!((&down[0][0], &up[0][0]), (&json!("_x/note"), &json!("session/update")));
    chain.assert_works();
}

/// A restarted proxy does not cause a second `session/load` at the agent, so the agent does not repeat the
/// history.
#[test]
fn a_loaded_session_is_not_loaded_a_second_time() {
    let mut chain = ScriptedChain::proxy_and_agent(LOADS);
    let loaded = SessionRequest::existing("session/load", "old");
    chain.test.editor.send(&request("1", loaded.method, &loaded.params));
    forward_next(&mut chain.proxies[0]);
    let received = chain.agent.request("session/load");
    chain.agent.send(&notification("session/update", r#"{"sessionId":"old","n":1}"#));
    forward_next(&mut chain.proxies[0]);
    assert_eq!(chain.test.editor.message()["method"], "session/update");
    chain.answer(&received, &loaded.result);
    chain.kill_proxy(0);
    chain.expect_replay(0, &[loaded]);
    chain.assert_works();
}
