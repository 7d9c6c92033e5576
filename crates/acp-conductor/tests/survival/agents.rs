//! The agent crashes and is restarted: how the conductor restores its sessions, and what becomes of the
//! requests that were under way. Checklist 99.

use serde_json::{Value, json};
use testkit::rpc::{cancel, error, id_of, notification, request, result};

use crate::chain::{
    GREETING, LOADS, PLAIN, RESUMES, ScriptedChain, SessionRequest, assert_crash, forward_next,
    kill, prompt, update,
};
use crate::new_setup;

/// The agent receives a request that restores a session and contains these words. Returns the line.
fn expect_restore(
    chain: &mut ScriptedChain,
    method: &str,
    session: &str,
    words: &[&str],
) -> String {
    let line = chain.agent.line();
    let received: Value = testkit::test_chain::parse(&line);
    assert_eq!(received["method"], method, "{line}");
    assert_eq!(received["params"]["sessionId"], session, "{line}");
    for word in words {
        assert!(line.contains(word), "{word:?} is not in {line}");
    }
    line
}

fn restore_session(chain: &mut ScriptedChain, method: &str, session: &str) {
    let line = expect_restore(chain, method, session, &[]);
    chain.agent.send(&result(id_of(&line), "{}"));
}

/// `session/resume` is preferred to `session/load`. It carries all parameters of the session.
#[test]
fn a_restarted_agent_restores_every_session_with_its_parameters() {
    for (agent_result, method) in [(RESUMES, "session/resume"), (LOADS, "session/load")] {
        let mut chain = ScriptedChain::proxy_and_agent(agent_result);
        let odd = SessionRequest {
            method: "session/new",
            params: r#"{"cwd":"/odd","mcpServers":[{"name":"x","command":"/x","args":[],"env":[]}],"big":12345678901234567890123,"_meta":{"n":1.10}}"#.into(),
            result: r#"{"sessionId":"odd \"one\""}"#.into(),
        };
        chain.set_up_session(&odd);
        chain.set_up_session(&SessionRequest::existing("session/load", "loaded"));
        chain.set_up_session(&SessionRequest::existing("session/resume", "resumed"));
        chain.new_session("closed");
        let closed = chain.request("1", "session/close", r#"{"sessionId":"closed"}"#);
        chain.answer(&closed, "{}");
        for _ in 0..2 {
            chain.kill_agent();
            let words = [
                r#""cwd":"/odd""#,
                r#""mcpServers":[{"name":"x","command":"/x","args":[],"env":[]}]"#,
                r#""big":12345678901234567890123"#,
                r#""_meta":{"n":1.10}"#,
            ];
            let line = expect_restore(&mut chain, method, r#"odd "one""#, &words);
            chain.agent.send(&result(id_of(&line), "{}"));
            for session in ["loaded", "resumed"] {
                let line = expect_restore(
                    &mut chain,
                    method,
                    session,
                    &[r#""cwd":"/old""#, r#""x":1.10"#],
                );
                chain.agent.send(&result(id_of(&line), "null"));
            }
            chain.assert_works();
        }
        // The sessions can be used.
        let received = chain.prompt("2", "loaded");
        let answer = chain.answer(&received, r#"{"stopReason":"end_turn"}"#);
        assert_eq!(answer["result"]["stopReason"], "end_turn");
    }
}

/// The history that an agent repeats for `session/load` is dropped. Updates of the current state are
/// delivered.
#[test]
fn the_history_of_a_restored_session_is_not_shown_again() {
    let mut chain = ScriptedChain::proxy_and_agent(LOADS);
    chain.new_session("s");
    chain.new_session("other");
    chain.kill_agent();
    let line = expect_restore(&mut chain, "session/load", "s", &[]);
    let history = [
        "user_message_chunk",
        "agent_message_chunk",
        "agent_thought_chunk",
        "tool_call",
        "tool_call_update",
        "plan",
    ];
    let state = ["available_commands_update", "current_mode_update", "config_option_update"];
    for kind in history.iter().chain(&state).chain(&history) {
        chain.agent.send(&update("s", kind, "again"));
    }
    // An update of another session is delivered.
    chain.agent.send(&update("other", "agent_message_chunk", "news"));
    chain.agent.send(&result(id_of(&line), "{}"));
    restore_session(&mut chain, "session/load", "other");
    chain.agent.send(&update("s", "agent_message_chunk", "news"));
    for (session, kind, what) in [
        ("s", state[0], "again"),
        ("s", state[1], "again"),
        ("s", state[2], "again"),
        ("other", "agent_message_chunk", "news"),
        ("s", "agent_message_chunk", "news"),
    ] {
        forward_next(&mut chain.proxies[0]);
        assert_eq!(chain.test.editor.line(), update(session, kind, what));
    }
    chain.assert_works();
    // A load that the editor requests does repeat the history.
    let received =
        chain.request("1", "session/load", &SessionRequest::existing("session/load", "s").params);
    chain.agent.send(&update("s", "user_message_chunk", "hi"));
    forward_next(&mut chain.proxies[0]);
    assert_eq!(chain.test.editor.line(), update("s", "user_message_chunk", "hi"));
    chain.answer(&received, "{}");
}

/// A prompt and every other request to the agent is answered once, with an error, however long the chain
/// is.
#[test]
fn requests_to_a_crashed_agent_are_answered_once_with_an_error() {
    for names in [&["agent"][..], &["one", "two", "agent"]] {
        let mut chain = ScriptedChain::start(new_setup(), names, LOADS);
        chain.new_session("s");
        chain.prompt("1", "s");
        chain.request("2", "_x/ask", "{}");
        chain.agent.write_stderr("out of memory\n");
        chain.agent.exit(7);
        for id in [1, 2] {
            chain.proxies.iter_mut().rev().for_each(|proxy| drop(forward_next(proxy)));
            let answer = chain.test.editor.message();
            assert_crash(&answer, json!(id), "agent", "exited with status 7", "restarted");
            assert_eq!(answer["error"]["data"]["lastWords"], json!(["out of memory"]));
        }
        chain.await_agent_restart();
        restore_session(&mut chain, "session/load", "s");
        chain.assert_works();
        let received = chain.prompt("3", "s");
        assert_eq!(chain.answer(&received, "{}")["id"], 3);
    }
}

/// A request of the crashed agent is cancelled at the editor. An answer that comes all the same is dropped.
#[test]
fn a_request_of_a_crashed_agent_is_cancelled() {
    for names in [&["agent"][..], &["proxy", "agent"]] {
        let mut chain = ScriptedChain::start(new_setup(), names, LOADS);
        chain.new_session("s");
        let permission = r#"{"sessionId":"s","toolCall":{},"options":[]}"#;
        chain.agent.send(&request("1", "session/request_permission", permission));
        chain.proxies.iter_mut().for_each(|proxy| drop(forward_next(proxy)));
        let received = chain.test.editor.message();
        assert_eq!(received["method"], "session/request_permission");
        chain.kill_agent();
        chain.proxies.iter_mut().for_each(|proxy| drop(forward_next(proxy)));
        assert_eq!(chain.test.editor.line(), cancel(&received["id"].to_string()));
        let answer = r#"{"outcome":{"outcome":"cancelled"}}"#;
        chain.test.editor.send(&result(&received["id"].to_string(), answer));
        chain.proxies.iter_mut().for_each(|proxy| drop(forward_next(proxy)));
        restore_session(&mut chain, "session/load", "s");
        chain.assert_works();
    }
}

/// A request in a session that could not be restored gets an error. Other sessions continue, new ones can
/// begin, and the lost one can be loaded later.
#[test]
fn requests_in_a_session_that_cannot_be_restored_get_an_error() {
    let mut chain = ScriptedChain::proxy_and_agent(LOADS);
    chain.new_session("lost");
    chain.new_session("kept");
    chain.kill_agent();
    let line = expect_restore(&mut chain, "session/load", "lost", &[]);
    chain.agent.send(&error(id_of(&line), r#"{"code":-32002,"message":"never saved"}"#));
    restore_session(&mut chain, "session/load", "kept");
    chain
        .test
        .conductor
        .wait_for_stderr("agent 'agent' could not resume session 'lost': never saved");
    for (id, method) in [(1, "session/prompt"), (2, "session/prompt"), (3, "session/set_mode")] {
        chain.test.editor.send(&request(&id.to_string(), method, &prompt("lost")));
        forward_next(&mut chain.proxies[0]);
        forward_next(&mut chain.proxies[0]);
        let answer = chain.test.editor.message();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(id), &json!(-32002)));
        let message = answer["error"]["message"].as_str().expect("a message");
        for word in ["agent 'agent'", "SIGKILL", "session 'lost'", "never saved", "new session"] {
            assert!(message.contains(word), "{word:?} is not in {message:?}");
        }
    }
    // A notification gets no answer.
    chain.test.editor.send(&notification("session/cancel", r#"{"sessionId":"lost"}"#));
    forward_next(&mut chain.proxies[0]);
    chain.assert_works();
    let received = chain.prompt("4", "kept");
    assert_eq!(chain.answer(&received, "{}")["id"], 4);
    chain.new_session("new");
    let received = chain.prompt("5", "new");
    assert_eq!(chain.answer(&received, "{}")["id"], 5);
    // The editor loads the lost session, and that works.
    chain.set_up_session(&SessionRequest::existing("session/load", "lost"));
    let received = chain.prompt("6", "lost");
    assert_eq!(chain.answer(&received, "{}")["id"], 6);
    // The next agent restores the sessions that are live now, in that order.
    chain.kill_agent();
    for session in ["kept", "new", "lost"] {
        restore_session(&mut chain, "session/load", session);
    }
    chain.assert_works();
}

/// Messages to the agent wait until it is back, and are then answered.
#[test]
fn requests_wait_for_the_restarted_agent() {
    let mut chain = ScriptedChain::proxy_and_agent(LOADS);
    chain.new_session("s");
    kill(&chain.agent);
    chain.agent = chain.test.wait_for_component("agent");
    let greeting = chain.agent.line();
    assert_eq!(greeting, request(id_of(&greeting), "initialize", GREETING));
    // Messages before it has answered its greeting, and while its sessions are restored.
    chain.test.editor.send(&request("1", "session/prompt", &prompt("s")));
    forward_next(&mut chain.proxies[0]);
    chain.test.editor.send(&notification("session/cancel", r#"{"sessionId":"s"}"#));
    forward_next(&mut chain.proxies[0]);
    chain.agent.send(&result(id_of(&greeting), LOADS));
    let line = expect_restore(&mut chain, "session/load", "s", &[]);
    chain.test.editor.send(&request("2", "session/new", &SessionRequest::new("t").params));
    forward_next(&mut chain.proxies[0]);
    testkit::test_chain::wait_until("all messages wait", || {
        (chain.status()["components"][1]["queue"]["heldMessages"] == 3).then_some(())
    });
    chain.agent.send(&result(id_of(&line), "{}"));
    let received = chain.agent.request("session/prompt");
    assert_eq!(chain.agent.line(), notification("session/cancel", r#"{"sessionId":"s"}"#));
    let new = chain.agent.request("session/new");
    let answer = chain.answer(&received, r#"{"stopReason":"cancelled"}"#);
    assert_eq!((&answer["id"], &answer["result"]["stopReason"]), (&json!(1), &json!("cancelled")));
    let answer = chain.answer(&new, r#"{"sessionId":"t"}"#);
    assert_eq!((&answer["id"], &answer["result"]["sessionId"]), (&json!(2), &json!("t")));
    chain.assert_works();
}

/// The agent may send the editor a request before a session is restored, and receives the answer.
#[test]
fn an_agent_may_send_requests_while_a_session_is_restored() {
    let mut chain = ScriptedChain::proxy_and_agent(LOADS);
    chain.new_session("s");
    chain.kill_agent();
    let line = expect_restore(&mut chain, "session/load", "s", &[]);
    chain.agent.send(&request("5", "fs/read_text_file", r#"{"path":"/x"}"#));
    forward_next(&mut chain.proxies[0]);
    let received = chain.test.editor.message();
    chain.test.editor.send(&result(&received["id"].to_string(), r#"{"content":"x"}"#));
    forward_next(&mut chain.proxies[0]);
    assert_eq!(chain.agent.line(), result("5", r#"{"content":"x"}"#));
    chain.agent.send(&result(id_of(&line), "{}"));
    chain.assert_works();
}

/// A successful login is repeated before anything else. A failed one is not.
#[test]
fn a_login_is_repeated_to_a_restarted_agent() {
    for agent_result in [LOADS, RESUMES, PLAIN] {
        let mut chain = ScriptedChain::proxy_and_agent(agent_result);
        let failed = chain.request("1", "authenticate", r#"{"methodId":"wrong"}"#);
        chain.agent.answer_error(&failed, r#"{"code":-32000,"message":"no"}"#);
        forward_next(&mut chain.proxies[0]);
        chain.test.editor.message();
        let login = r#"{"methodId":"right","_meta":{"n":1.5}}"#;
        let received = chain.request("2", "authenticate", login);
        chain.answer(&received, "{}");
        let failed = chain.request("3", "authenticate", r#"{"methodId":"wrong"}"#);
        chain.agent.answer_error(&failed, r#"{"code":-32000,"message":"no"}"#);
        forward_next(&mut chain.proxies[0]);
        chain.test.editor.message();
        if agent_result != PLAIN {
            chain.new_session("s");
        }
        chain.kill_agent();
        let line = chain.agent.line();
        assert_eq!(line, request(id_of(&line), "authenticate", login));
        chain.agent.send(&result(id_of(&line), "{}"));
        match agent_result {
            LOADS => restore_session(&mut chain, "session/load", "s"),
            RESUMES => restore_session(&mut chain, "session/resume", "s"),
            _ => {}
        }
        chain.assert_works();
    }
}

/// After a logout no login is repeated.
#[test]
fn a_login_is_not_repeated_after_a_logout() {
    let mut chain = ScriptedChain::proxy_and_agent(LOADS);
    let received = chain.request("1", "authenticate", r#"{"methodId":"right"}"#);
    chain.answer(&received, "{}");
    // A logout that fails changes nothing.
    let failed = chain.request("2", "logout", "{}");
    chain.agent.answer_error(&failed, r#"{"code":-32603,"message":"no"}"#);
    forward_next(&mut chain.proxies[0]);
    chain.test.editor.message();
    chain.kill_agent();
    let received = chain.agent.request("authenticate");
    chain.agent.answer(&received, "{}");
    chain.assert_works();
    let received = chain.request("3", "logout", "{}");
    chain.answer(&received, "{}");
    chain.kill_agent();
    chain.assert_works();
}

/// In ACP v2 a client can request the history when it resumes a session. The conductor does not, since the
/// editor already has it.
#[test]
fn a_restored_session_does_not_request_its_history() {
    let mut chain = ScriptedChain::proxy_and_agent(RESUMES);
    let old = SessionRequest {
        method: "session/resume",
        params: r#"{"sessionId":"old","cwd":"/","replayFrom":{"type":"start"},"x":1.10}"#.into(),
        result: "{}".into(),
    };
    chain.set_up_session(&old);
    chain.kill_agent();
    let line =
        expect_restore(&mut chain, "session/resume", "old", &[r#""cwd":"/""#, r#""x":1.10"#]);
    assert!(!line.contains("replayFrom"), "{line}");
    chain.agent.send(&result(id_of(&line), "{}"));
    chain.assert_works();
}

/// The editor is asked to send a `session/new` again that was under way when the agent crashed.
#[test]
fn a_set_up_request_to_a_crashed_agent_fails_and_can_be_sent_again() {
    let mut chain = ScriptedChain::proxy_and_agent(LOADS);
    chain.new_session("s");
    chain.request("1", "session/new", &SessionRequest::new("t").params);
    chain.kill_agent();
    forward_next(&mut chain.proxies[0]);
    assert_crash(&chain.test.editor.message(), json!(1), "agent", "SIGKILL", "restarted");
    restore_session(&mut chain, "session/load", "s");
    chain.new_session("t");
    chain.kill_agent();
    restore_session(&mut chain, "session/load", "s");
    restore_session(&mut chain, "session/load", "t");
    chain.assert_works();
}

/// An agent that crashes while its sessions are restored is restarted again, and keeps its sessions.
#[test]
fn an_agent_that_crashes_while_its_sessions_are_restored_is_replaced() {
    let mut chain = ScriptedChain::proxy_and_agent(LOADS);
    chain.new_session("s");
    chain.kill_agent();
    expect_restore(&mut chain, "session/load", "s", &[]);
    chain.kill_agent();
    restore_session(&mut chain, "session/load", "s");
    chain.assert_works();
}

/// A proxy and the agent crash at the same time.
#[test]
fn a_proxy_and_the_agent_may_crash_together() {
    let mut chain = ScriptedChain::proxy_and_agent(LOADS);
    let session = chain.new_session("s");
    chain.prompt("1", "s");
    kill(&chain.proxies[0]);
    kill(&chain.agent);
    let answer = chain.test.editor.message();
    assert_eq!(answer["id"], 1, "{answer}");
    assert!(
        answer["error"]["message"].as_str().expect("a message").contains("send the request again")
    );
    chain.await_restart(0);
    chain.await_agent_restart();
    restore_session(&mut chain, "session/load", "s");
    chain.expect_replay(0, &[session]);
    chain.assert_works();
    let received = chain.prompt("2", "s");
    assert_eq!(chain.answer(&received, "{}")["id"], 2);
}
