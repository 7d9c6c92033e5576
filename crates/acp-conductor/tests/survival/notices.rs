//! How a crash is reported: in the editor, in the log, and by `conductor status`.

use serde_json::{Value, json};
use testkit::rpc::{id_of, request, result};
use testkit::test_chain::{ScriptedComponent, TestChain, directory, wait_until};

use crate::chain::{
    LOADS, PLAIN, ScriptedChain, SessionRequest, assert_crash, forward_next, kill, prompt, status,
    update,
};
use crate::{setup_with_notices, setup_without_restarts};

const KILLED: &str =
    "proxy 'proxy' crashed: it was killed by signal 9 (SIGKILL). It is being restarted.";

/// The editor receives this notice in this session.
fn expect_notice(chain: &mut ScriptedChain, session: &str, text: &str) {
    let notice = chain.test.editor.message();
    let expected = json!({
        "jsonrpc": "2.0",
        "method": "session/update",
        "params": {
            "sessionId": session,
            "update": {
                "sessionUpdate": "agent_message_chunk",
                "content": { "type": "text", "text": format!("\n\n[conductor] {text}\n\n") },
                "_meta": { "conductor": { "component": "proxy" } },
            },
        },
    });
    assert_eq!(notice, expected);
}

/// A session with an open request receives the notice at once, before the error. Other sessions receive it
/// with their next prompt, once.
#[test]
fn a_notice_comes_at_once_in_a_busy_session_and_with_the_next_prompt_elsewhere() {
    let mut chain = ScriptedChain::start(setup_with_notices(), &["proxy", "agent"], PLAIN);
    let sessions = ["busy", "idle", "done"].map(|name| chain.new_session(name));
    let received = chain.prompt("0", "done");
    chain.answer(&received, "{}");
    chain.test.editor.send(&request("1", "session/prompt", &prompt("busy")));
    chain.proxies[0].request("session/prompt");
    chain.kill_proxy(0);
    expect_notice(&mut chain, "busy", KILLED);
    assert_crash(&chain.test.editor.message(), json!(1), "proxy", "SIGKILL", "restarted");
    chain.expect_replay(0, &sessions);
    chain.assert_works();
    for session in ["idle", "done"] {
        chain.test.editor.send(&request("2", "session/prompt", &prompt(session)));
        expect_notice(&mut chain, session, KILLED);
        forward_next(&mut chain.proxies[0]);
        let received = chain.agent.request("session/prompt");
        assert_eq!(chain.answer(&received, "{}")["id"], 2);
    }
    // Each session receives it once.
    for session in ["busy", "idle", "done"] {
        let received = chain.prompt("3", session);
        assert_eq!(chain.answer(&received, "{}")["id"], 3);
    }
    // A session that begins later receives none.
    chain.new_session("new");
    let received = chain.prompt("4", "new");
    assert_eq!(chain.answer(&received, "{}")["id"], 4);
}

/// A component that hangs has failed, but has not crashed.
#[test]
fn a_component_that_hangs_is_reported_as_failed_not_crashed() {
    let options = ["--answer-limit", "0.2"];
    let mut chain =
        ScriptedChain::start(setup_with_notices().option(&options), &["proxy", "agent"], PLAIN);
    chain.new_session("s");
    // The prompt is open, so the notice comes at once.
    chain.prompt("1", "s");
    chain.test.editor.send(&request("2", "_x/ask", "{}"));
    let cause = "showed no activity for 200 ms while it owed an answer to _x/ask";
    let notice = format!("proxy 'proxy' failed: it {cause}. It is being restarted.");
    expect_notice(&mut chain, "s", &notice);
    let answer = chain.test.editor.message();
    assert_crash(&answer, json!(2), "proxy", cause, "it failed and is being restarted");
    assert!(!answer.to_string().contains("crashed"), "{answer}");
}

/// The notice also comes when the answer arrives, because it may differ from what the proxy would have
/// made of it.
#[test]
fn a_notice_comes_even_if_no_answer_is_lost() {
    let mut chain = ScriptedChain::start(setup_with_notices(), &["proxy", "agent"], PLAIN);
    let session = chain.new_session("s");
    let received = chain.prompt("1", "s");
    chain.kill_proxy(0);
    expect_notice(&mut chain, "s", KILLED);
    chain.expect_replay(0, &[session]);
    chain.agent.send(&update("s", "agent_message_chunk", "x"));
    chain.agent.answer(&received, "{}");
    forward_next(&mut chain.proxies[0]);
    forward_next(&mut chain.proxies[0]);
    assert_eq!(chain.test.editor.line(), update("s", "agent_message_chunk", "x"));
    assert_eq!(chain.test.editor.line(), result("1", "{}"));
}

/// There is a notice for each crash and for the bypass. There is none when the component fails again during
/// its restart.
#[test]
fn each_crash_and_the_bypass_are_reported_once() {
    let setup = setup_with_notices().option(&["--restarts", "2/600"]);
    let mut chain = ScriptedChain::start(setup, &["proxy", "agent"], PLAIN);
    let session = chain.new_session("s");
    let received = chain.prompt("1", "s");
    chain.kill_proxy(0);
    expect_notice(&mut chain, "s", KILLED);
    // It crashes before it is live.
    chain.kill_proxy(0);
    chain.expect_replay(0, &[session]);
    chain.test.editor.send(&request("2", "_x/ask", "{}"));
    chain.proxies[0].request("_x/ask");
    chain.proxies[0].exit(3);
    expect_notice(
        &mut chain,
        "s",
        "proxy 'proxy' crashed: it exited with status 3. It is bypassed from now on.",
    );
    assert_crash(&chain.test.editor.message(), json!(2), "proxy", "status 3", "bypassed");
    chain.proxies.clear();
    assert_eq!(chain.answer(&received, "{}")["id"], 1);
    chain.assert_works();
}

/// A chain of an agent alone, with an editor that has these capabilities, and a session with an open prompt.
fn chain_with_open_prompt(options: &[&str], offer: &str) -> (TestChain, ScriptedComponent) {
    let mut chain = setup_with_notices().option(options).run_named(&["agent"]);
    let greeting = format!(r#"{{"protocolVersion":1,{offer}}}"#);
    chain.editor.send(&request("0", "initialize", &greeting));
    let mut agent = chain.wait_for_component("agent");
    let received = agent.request("initialize");
    agent.answer(&received, LOADS);
    chain.editor.line();
    chain.editor.send(&request("0", "session/new", &SessionRequest::new("s").params));
    let received = agent.request("session/new");
    agent.answer(&received, r#"{"sessionId":"s"}"#);
    chain.editor.line();
    chain.editor.send(&request("1", "session/prompt", &prompt("s")));
    agent.request("session/prompt");
    (chain, agent)
}

/// An editor that declares support for notices receives notices; any other editor receives text.
#[test]
fn an_editor_that_shows_notices_gets_a_notice() {
    for offer in [
        r#""clientCapabilities":{"session":{"notices":{}}}"#,
        r#""clientCapabilities":{"session":{"notices":true}}"#,
        r#""capabilities":{"session":{"notices":{}}}"#,
    ] {
        let (mut chain, agent) = chain_with_open_prompt(&[], offer);
        kill(&agent);
        let notice = chain.editor.message();
        let update = &notice["params"]["update"];
        assert_eq!(notice["params"]["sessionId"], "s", "{notice}");
        assert_eq!(update["sessionUpdate"], "notice", "{notice}");
        assert_eq!(update["severity"], "warning", "{notice}");
        let title = update["title"].as_str().expect("a title");
        assert!(title.starts_with("agent 'agent' crashed: it was killed by signal 9"), "{title}");
        assert_eq!(update["_meta"], json!({ "conductor": { "component": "agent" } }));
        assert_crash(&chain.editor.message(), json!(1), "agent", "SIGKILL", "restarted");
    }
    for offer in [r#""clientCapabilities":{"session":{}}"#, r#""clientCapabilities":{}"#] {
        let (mut chain, agent) = chain_with_open_prompt(&[], offer);
        kill(&agent);
        let notice = chain.editor.message();
        assert_eq!(notice["params"]["update"]["sessionUpdate"], "agent_message_chunk", "{notice}");
    }
}

/// With `--notices off` the editor receives none.
#[test]
fn there_are_no_notices_when_they_are_off() {
    let offer = r#""clientCapabilities":{"session":{"notices":{}}}"#;
    let (mut chain, agent) = chain_with_open_prompt(&["--notices", "off"], offer);
    kill(&agent);
    assert_crash(&chain.editor.message(), json!(1), "agent", "SIGKILL", "restarted");
    let mut agent = chain.wait_for_component("agent");
    let received = agent.request("initialize");
    agent.answer(&received, LOADS);
    let received = agent.request("session/load");
    agent.answer(&received, "{}");
    chain.editor.send(&request("2", "session/prompt", &prompt("s")));
    let received = agent.request("session/prompt");
    agent.answer(&received, "{}");
    assert_eq!(chain.editor.message()["id"], 2);
}

/// The log has a line for each crash, with the component, the cause, its last words and what happens next,
/// and a line when it runs again. The log goes to standard error or to a file.
#[test]
fn the_log_reports_a_crash_with_component_cause_last_words_and_next_step() {
    let place = directory("survival-log");
    let file = place.join("log");
    let path = file.to_str().expect("UTF-8").to_owned();
    for options in [&[][..], &["--log-file", &path]] {
        let setup = setup_with_notices().option(options).option(&["--restarts", "1/600"]);
        let mut proxy = setup.scripted_json("proxy");
        proxy["env"] = json!({ "TOKEN": "hunter2" });
        let components = [proxy.to_string(), setup.scripted_json("agent").to_string()];
        let chain = setup.run("agent", &components);
        let mut chain = ScriptedChain::handshake(chain, &["proxy", "agent"], PLAIN);
        let wait_for = |chain: &ScriptedChain, parts: &[&str]| {
            let is_it = |line: &str| parts.iter().all(|part| line.contains(part));
            wait_until(&format!("a line with {parts:?}"), || {
                let log = match options {
                    [] => chain.test.conductor.stderr_so_far(),
                    _ => std::fs::read_to_string(&file).unwrap_or_default(),
                };
                log.lines().find(|line| is_it(line)).map(str::to_owned)
            })
        };
        chain.proxies[0].write_stderr("one\ntwo\nthree\nno licence\n");
        chain.proxies[0].exit(3);
        let line = wait_for(&chain, &["proxy 'proxy'", "exited with status 3", "restarted"]);
        for part in ["WARN", "(command: ", "scripted", "last output", "two | three | no licence"] {
            assert!(line.contains(part), "{part:?} is not in {line:?}");
        }
        chain.await_restart(0);
        chain.expect_replay(0, &[]);
        chain.assert_works();
        wait_for(&chain, &["proxy 'proxy' is running again"]);
        kill(&chain.proxies[0]);
        wait_for(&chain, &["proxy 'proxy'", "signal 9 (SIGKILL)", "bypassed from now on"]);
        // The component's own standard error is passed on in any case.
        let stderr = chain.test.end([&mut chain.agent]);
        assert!(stderr.contains("[proxy] no licence\n"), "{stderr}");
        let log_and_stderr = std::fs::read_to_string(&file).unwrap_or_default() + &stderr;
        assert!(
            !log_and_stderr.contains("hunter2") && !log_and_stderr.contains("TOKEN"),
            "{log_and_stderr}"
        );
    }
    std::fs::remove_dir_all(place).expect("the directory is ours");
}

fn queue(component: &Value) -> (&Value, &Value) {
    (&component["queue"]["heldMessages"], &component["queue"]["owes"])
}

/// `conductor status` shows the state of a component that is down, its restarts, its last exit and its
/// queue.
#[test]
fn the_status_shows_a_component_that_is_down_and_its_queue() {
    let setup = setup_with_notices().option(&["--restarts", "1/600", "--notices", "off"]);
    let mut chain = ScriptedChain::start(setup, &["proxy", "agent"], PLAIN);
    let session = chain.new_session("s");
    let first = chain.proxies[0].pid;
    assert_eq!(chain.status()["components"][0]["lastExit"], Value::Null);
    chain.proxies[0].write_stderr("no licence\n");
    chain.proxies[0].exit(3);
    chain.await_restart(0);
    let greeting = chain.proxies[0].line();
    chain.test.editor.send(&request("1", "_x/ask", "{}"));
    let component = wait_until("the request waits", || {
        let component = chain.status()["components"][0].take();
        (component["queue"]["heldMessages"] == 1).then_some(component)
    });
    assert_eq!(component["state"], "restarting", "{component}");
    assert_eq!(
        (&component["restarts"], &component["pid"]),
        (&json!(1), &json!(chain.proxies[0].pid))
    );
    assert_ne!(component["pid"], first);
    assert_eq!(component["lastExit"], "exited with status 3");
    assert_eq!(component["exitWords"], json!(["no licence"]));
    assert!(component["queue"]["heldBytes"].as_u64().expect("a number") > 20, "{component}");
    assert_eq!(component["policy"], "restart,bypass");
    let status = chain.status();
    assert_eq!((&status["state"], &status["sessions"]), (&json!("running"), &json!(1)));

    // The proxy becomes live again.
    chain.proxies[0].send(&testkit::rpc::wrapped_request("9", "initialize", "{}"));
    chain.proxies[0].line();
    chain.proxies[0].send(&result(id_of(&greeting), PLAIN));
    let line = chain.proxies[0].line();
    assert_eq!(line, request(id_of(&line), "session/new", &session.params));
    chain.proxies[0].send(&result(id_of(&line), &session.result));
    chain.proxies[0].request("_x/ask");
    let component = chain.wait_for_state(1, "live");
    assert_eq!(queue(&component), (&json!(0), &json!(1)));
    assert_eq!(
        (&component["restarts"], &component["lastExit"]),
        (&json!(1), &json!("exited with status 3"))
    );

    // At last it is bypassed.
    kill(&chain.proxies[0]);
    let component = chain.wait_for_state(1, "bypassed");
    assert_eq!(component["lastExit"], "was killed by signal 9 (SIGKILL)");
    assert_eq!((&component["restarts"], &component["pid"]), (&json!(1), &Value::Null));
    assert_eq!(queue(&component), (&json!(0), &json!(0)));
    assert_eq!(chain.status()["state"], "running");
}

/// The same while the component waits for its restart.
#[test]
fn the_status_shows_a_component_that_waits_for_its_restart() {
    let mut chain = ScriptedChain::start(setup_without_restarts(), &["proxy", "agent"], PLAIN);
    kill(&chain.proxies[0]);
    let component = chain.wait_for_state(1, "restarting");
    assert_eq!((&component["pid"], &component["uptimeSeconds"]), (&Value::Null, &Value::Null));
    assert_eq!(component["lastExit"], "was killed by signal 9 (SIGKILL)");
    chain.test.editor.send(&request("1", "_x/ask", "{}"));
    chain.agent.send(&update("s", "agent_message_chunk", "x"));
    wait_until("both wait", || {
        (status(&chain.test)["components"][0]["queue"]["heldMessages"] == 2).then_some(())
    });
    assert_eq!(chain.status()["state"], "running");
}
