//! Components that crash: often, all at once, during a message, or during their restart.

use serde_json::{Value, json};
use testkit::rpc::wrapped_notification;
use testkit::test_chain::{
    ScriptedComponent, assert_gone, binary, directory, signal, wait_until, write_script,
};
use testkit::test_client::TestClient;

use crate::{UNLIMITED_RESTARTS, agent, growth, new_setup, proxy, start_chain, usage};

const MIB: usize = 1024 * 1024;

/// How much the conductor may grow between the tenth crash and the last, in KiB.
const SLACK: u64 = 2048;

fn crash_a_hundred_times(number: usize) {
    let mut client = start_chain(&format!("hundred-{number}"), &[]);
    let sessions = [client.new_session(), client.new_session()];
    let conductor = client.chain.conductor.pid();
    let mut before = None;
    for crash in 1..=100 {
        client.kill_and_wait_for_restart(number);
        for session in &sessions {
            client.assert_echo(session, &format!("after crash {crash}"));
        }
        if crash == 10 {
            before = Some(usage(conductor));
        }
    }
    let grown = growth(conductor, before.expect("there were ten crashes"));
    assert!(grown < SLACK, "the conductor has grown by {grown} KiB");
    assert_eq!(client.component_status(number)["restarts"], 100);
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn a_proxy_that_crashes_a_hundred_times_leaks_nothing() {
    crash_a_hundred_times(1);
}

#[test]
fn an_agent_that_crashes_a_hundred_times_leaks_nothing() {
    crash_a_hundred_times(3);
}

/// The component crashes during a prompt. The prompt is answered with its result, or with an error that
/// names the component.
#[test]
fn a_component_that_crashes_in_every_prompt_leaks_nothing() {
    let mut client = start_chain("in-prompts", &[]);
    let session = client.new_session();
    let conductor = client.chain.conductor.pid();
    let mut before = None;
    for crash in 1..=60 {
        let number = crash % 3 + 1;
        let restarts = client.component_status(number)["restarts"].clone();
        let id = client.send_prompt(&session, "wait");
        client.wait_for_text(&session, "waiting");
        client.kill(number);
        if number < 3 {
            // It has passed the prompt on, so the answer arrives. A cancellation that it has not passed on
            // reaches the agent as well.
            client.notify("session/cancel", json!({ "sessionId": session }));
            let answer = client.wait_for_answer(id);
            assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
        } else {
            assert_crashed(&client.wait_for_answer(id), "agent");
        }
        wait_until("the component is restarted", || {
            (client.component_status(number)["restarts"] != restarts).then_some(())
        });
        client.assert_echo(&session, "hello");
        if crash == 9 {
            before = Some(usage(conductor));
        }
    }
    let grown = growth(conductor, before.expect("there were nine crashes"));
    assert!(grown < SLACK, "the conductor has grown by {grown} KiB");
    assert_eq!(client.shut_down(), 0);
}

/// Checks that an answer is an error that names the crashed component.
pub fn assert_crashed(answer: &Value, component: &str) {
    assert_eq!(answer["error"]["data"]["component"], component, "{answer}");
    let message = answer["error"]["message"].as_str().expect("a message");
    assert!(message.contains("signal 9") && message.contains("restarted"), "{answer}");
}

#[test]
fn the_chain_survives_when_all_components_are_killed_at_once() {
    let mut client = start_chain("all-at-once", &[]);
    let session = client.new_session();
    for round in 0..10 {
        let id = client.send_prompt(&session, "wait");
        client.wait_for_text(&session, "waiting");
        let pids = [1, 2, 3].map(|number| client.pid(number));
        pids.into_iter().for_each(|pid| signal(pid, libc::SIGKILL));
        let answer = client.wait_for_answer(id);
        assert!(
            answer["error"]["message"].as_str().is_some_and(|it| it.contains("signal 9")),
            "{answer}"
        );
        wait_until("all are replaced", || {
            let replaced = |number: usize| {
                let now = client.component_status(number);
                now["state"] == "live" && now["pid"] != pids[number - 1]
            };
            (1..=3).all(replaced).then_some(())
        });
        client.assert_echo(&session, &format!("after round {round}"));
    }
    let id = client.send_request("session/close", json!({ "sessionId": session }));
    assert!(client.wait_for_answer(id)["result"].is_object());
    assert_eq!(client.shut_down(), 0);
}

/// Whatever is under way, each message arrives whole or not at all.
#[test]
fn long_messages_arrive_whole_when_a_component_is_killed() {
    let text = "x".repeat(8 * MIB);
    for number in 1..=3 {
        let mut client = start_chain(&format!("long-{number}"), &[]);
        let sessions: Vec<String> = (0..3).map(|_| client.new_session()).collect();
        for lines_before in 0..2 {
            let pid = client.pid(number);
            let ids: Vec<u64> = sessions.iter().map(|it| client.send_prompt(it, &text)).collect();
            for _ in 0..lines_before {
                assert!(client.read_message());
            }
            signal(pid, libc::SIGKILL);
            for id in ids {
                let answer = client.wait_for_answer(id);
                assert!(
                    answer["result"]["stopReason"] == "end_turn" || answer["error"].is_object(),
                    "{answer}"
                );
            }
            for session in &sessions {
                // Whole, or not at all. The conductor's own notices are not among them.
                for text_received in client.take_texts(session) {
                    assert!(text_received == text, "{} bytes", text_received.len());
                }
            }
            wait_until("another process has started", || {
                (client.component_status(number)["pid"] != pid).then_some(())
            });
            client.pid(number);
            sessions.iter().for_each(|it| client.assert_echo(it, "short"));
        }
        assert_eq!(client.shut_down(), 0);
    }
}

/// The component does not read, so most of the message is still in the conductor when it is killed.
#[test]
fn a_component_can_be_killed_with_half_a_long_message_in_its_pipe() {
    let text = "x".repeat(8 * MIB);
    for number in 1..=3 {
        let mut client = start_chain(&format!("half-read-{number}"), &[]);
        let session = client.new_session();
        let pid = client.pid(number);
        signal(pid, libc::SIGSTOP);
        let id = client.send_prompt(&session, &text);
        testkit::test_chain::wait_until_idle(&[client.chain.conductor.pid(), pid]);
        signal(pid, libc::SIGKILL);
        // On a slow machine nothing of the message is in the pipe yet, and it goes to the next process.
        let answer = client.wait_for_answer(id);
        let stopped = &answer["result"]["stopReason"];
        assert!(answer["error"]["code"] == -32603 || stopped == "end_turn", "{answer}");
        assert!(client.take_texts(&session).iter().all(|it| *it == text));
        client.pid(number);
        client.assert_echo(&session, "short");
        assert_eq!(client.shut_down(), 0);
    }
}

/// Half a line is dropped, and the output of the next process begins with a new line.
#[test]
fn half_a_line_of_a_killed_component_is_dropped() {
    let mut client = start_chain("half-line", &[]);
    let session = client.new_session();
    for _ in 0..5 {
        let id = client.send_prompt(&session, "half");
        testkit::test_chain::wait_until_idle(&[client.pid(3)]);
        client.kill_and_wait_for_restart(3);
        assert_crashed(&client.wait_for_answer(id), "agent");
        client.assert_echo(&session, "whole");
    }
    assert_eq!(client.shut_down(), 0);
}

/// A chain with a scripted proxy, and a session that the proxy has passed on.
fn start_with_scripted_proxy(
    name: &str,
    options: &[&str],
) -> (TestClient, ScriptedComponent, String) {
    let setup = new_setup().option(&UNLIMITED_RESTARTS).option(options);
    let components = [setup.scripted_json("proxy").to_string(), agent(&[])];
    let mut client = TestClient::start_without_initialize(setup, name, &components);
    let greeting = client
        .send_request("initialize", json!({ "protocolVersion": 1, "clientCapabilities": {} }));
    let mut proxy = client.chain.wait_for_component("proxy");
    complete_greeting(&mut proxy);
    assert!(client.wait_for_answer(greeting)["result"].is_object());
    let id = client.send_request("session/new", json!({ "cwd": "/", "mcpServers": [] }));
    forward(&mut proxy, "session/new");
    let session =
        client.wait_for_answer(id)["result"]["sessionId"].as_str().expect("a session").to_owned();
    (client, proxy, session)
}

/// Passes one request on to the successor, and its answer back.
fn forward(proxy: &mut ScriptedComponent, method: &str) {
    let received = proxy.request(method);
    proxy.forward("on", method, &received["params"].to_string());
    loop {
        let message = proxy.message();
        if message["id"] == "on" && message.get("method").is_none() {
            return proxy.answer(&received, &message["result"].to_string());
        }
        // Other messages go to the editor.
        let inner = &message["params"];
        proxy.send(
            &json!({ "jsonrpc": "2.0", "method": inner["method"], "params": inner["params"] })
                .to_string(),
        );
    }
}

fn complete_greeting(proxy: &mut ScriptedComponent) {
    let received = proxy.request("proxy/initialize");
    proxy.forward("greeting", "initialize", &received["params"].to_string());
    let message = proxy.message();
    proxy.answer(&received, &message["result"].to_string());
}

#[test]
fn a_component_can_be_killed_repeatedly_during_its_restart() {
    let (mut client, proxy, session) = start_with_scripted_proxy("again", &[]);
    signal(proxy.pid, libc::SIGKILL);
    // The prompt waits until a process is ready for it.
    let mut id = None;
    for _ in 0..7 {
        let mut proxy = client.chain.wait_for_component("proxy");
        proxy.request("proxy/initialize");
        id.get_or_insert_with(|| client.send_prompt(&session, "hello"));
        signal(proxy.pid, libc::SIGKILL);
        let mut proxy = client.chain.wait_for_component("proxy");
        complete_greeting(&mut proxy);
        proxy.request("session/new");
        signal(proxy.pid, libc::SIGKILL);
        // This process has not passed the session on, but one before it has.
        let mut proxy = client.chain.wait_for_component("proxy");
        complete_greeting(&mut proxy);
        let received = proxy.request("session/new");
        proxy.forward("on", "session/new", &received["params"].to_string());
        assert_eq!(proxy.message()["result"]["sessionId"], session);
        signal(proxy.pid, libc::SIGKILL);
    }
    let mut proxy = client.chain.wait_for_component("proxy");
    complete_greeting(&mut proxy);
    forward(&mut proxy, "session/new");
    forward(&mut proxy, "session/prompt");
    let answer = client.wait_for_answer(id.expect("a prompt"));
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert_eq!(client.take_texts(&session), ["hello"]);
    assert_eq!(client.component_status(1)["restarts"], 22);
    proxy.exit(0);
    client.shut_down();
}

/// A program that cannot be started has failed like any other component.
#[test]
fn a_proxy_whose_program_was_removed_is_bypassed() {
    let place = directory("removed");
    let program =
        write_script(&place, "vanishing", &format!("exec '{}'", binary("transparent").display()));
    let command = format!("'{}'", program.display());
    let options = ["--restarts", "3/60", "--restart-delay", "0..0"];
    let components = [command, proxy("second"), agent(&[])];
    let mut client =
        TestClient::start(new_setup().option(&options), "removed-runtime", &components);
    let session = client.new_session();
    std::fs::remove_file(&program).expect("the file exists");
    client.kill(1);
    let state = client.wait_for_state(1, "bypassed");
    let exit = state["lastExit"].as_str().expect("an end");
    assert!(exit.contains("could not be started") && exit.contains("command not found"), "{state}");
    client.assert_echo(&session, "without it");
    assert_eq!(client.shut_down(), 0);
    std::fs::remove_dir_all(place).expect("the directory is ours");
}

/// The program is missing for a while, and then back.
#[test]
fn a_proxy_whose_program_was_replaced_is_restarted() {
    let place = directory("replaced");
    let body = format!("exec '{}'", binary("transparent").display());
    let program = write_script(&place, "changing", &body);
    let options = ["--restarts", "1000/60", "--restart-delay", "0.05..0.05"];
    let components = [format!("'{}'", program.display()), agent(&[])];
    let mut client =
        TestClient::start(new_setup().option(&options), "replaced-runtime", &components);
    let session = client.new_session();
    std::fs::remove_file(&program).expect("the file exists");
    let pid = client.pid(1);
    signal(pid, libc::SIGKILL);
    wait_until("a start has failed", || {
        let state = client.component_status(1);
        state["lastExit"].as_str().filter(|it| it.contains("command not found")).map(|_| ())
    });
    let waiting = client.send_prompt(&session, "held");
    write_script(&place, "changing", &body);
    assert_eq!(client.wait_for_answer(waiting)["result"]["stopReason"], "end_turn");
    assert_eq!(client.take_texts(&session), ["held"]);
    client.assert_echo(&session, "with the new one");
    assert_eq!(client.shut_down(), 0);
    std::fs::remove_dir_all(place).expect("the directory is ours");
}

/// Greets the next process of a killed component and replays the session to it.
fn await_restart(client: &mut TestClient, name: &str) -> ScriptedComponent {
    let mut proxy = client.chain.wait_for_component(name);
    complete_greeting(&mut proxy);
    forward(&mut proxy, "session/new");
    proxy
}

/// The component that holds the cancellation when it is killed, or the component behind it, may have started
/// after the prompt was passed on.
#[test]
fn a_cancellation_is_not_lost_with_a_proxy_that_started_after_the_prompt() {
    for killed in ["upper", "lower"] {
        let setup = new_setup().option(&UNLIMITED_RESTARTS);
        let scripted = ["upper", "lower"].map(|name| setup.scripted_json(name).to_string());
        let components: Vec<String> = scripted.into_iter().chain([agent(&[])]).collect();
        let mut client = TestClient::start_without_initialize(
            setup,
            &format!("cancellation-{killed}"),
            &components,
        );
        let greeting = json!({ "protocolVersion": 1, "clientCapabilities": {} });
        let greeting = client.send_request("initialize", greeting);
        let mut both = ["upper", "lower"].map(|name| client.chain.wait_for_component(name));
        forward_through_both(&mut both, "proxy/initialize", "initialize");
        assert!(client.wait_for_answer(greeting)["result"].is_object());
        let id = client.send_request("session/new", json!({ "cwd": "/", "mcpServers": [] }));
        forward_through_both(&mut both, "session/new", "session/new");
        let session = client.wait_for_answer(id)["result"]["sessionId"].clone();
        let [mut upper, mut lower] = both;

        let id = client.send_prompt(session.as_str().expect("a session"), "wait");
        for proxy in [&mut upper, &mut lower] {
            let received = proxy.request("session/prompt");
            proxy.forward("prompt", "session/prompt", &received["params"].to_string());
        }
        // The agent is at work.
        assert_eq!(lower.message()["params"]["method"], "session/update");
        signal(lower.pid, libc::SIGKILL);
        let mut lower = await_restart(&mut client, "lower");

        let params = json!({ "sessionId": session });
        client.notify("session/cancel", params.clone());
        assert_eq!(upper.message()["method"], "session/cancel");
        if killed == "upper" {
            signal(upper.pid, libc::SIGKILL);
            await_restart(&mut client, "upper");
        } else {
            upper.send(&wrapped_notification("session/cancel", &params.to_string()));
            assert_eq!(lower.message()["method"], "session/cancel");
            signal(lower.pid, libc::SIGKILL);
            await_restart(&mut client, "lower");
            // The upper proxy receives the agent's answer in place of the killed one's.
            let received = loop {
                let message = upper.message();
                if message["id"] == "prompt" {
                    break message;
                }
            };
            assert_eq!(received["result"]["stopReason"], "cancelled", "{received}");
            continue;
        }
        let answer = client.wait_for_answer(id);
        assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
    }
}

/// A request passes two scripted proxies, and so does its answer.
fn forward_through_both([upper, lower]: &mut [ScriptedComponent; 2], method: &str, on: &str) {
    let mut received = Vec::new();
    for proxy in [&mut *upper, &mut *lower] {
        let request = proxy.request(method);
        proxy.forward("on", on, &request["params"].to_string());
        received.push(request);
    }
    for (proxy, request) in [lower, upper].into_iter().zip(received.iter().rev()) {
        let message = proxy.message();
        assert_eq!(message["id"], "on", "{message}");
        proxy.answer(request, &message["result"].to_string());
    }
}

/// The components of an inner chain end and restart with it.
#[test]
fn an_inner_chain_that_is_killed_is_restarted() {
    let inner =
        ["inner-a", "inner-b"].map(|it| format!("'{}' {it}", binary("transparent").display()));
    let inner = new_setup().subchain(&inner);
    let components = [inner, proxy("second"), agent(&[])];
    let mut client =
        TestClient::start(new_setup().option(&UNLIMITED_RESTARTS), "nested", &components);
    let session = client.new_session();
    for round in 0..5 {
        let children = children_of(client.pid(1));
        assert!(children.len() >= 2, "{children:?}");
        client.kill_and_wait_for_restart(1);
        children.into_iter().for_each(|pid| assert_gone(pid, "a component of the inner chain"));
        client.assert_echo(&session, &format!("after round {round}"));
    }
    // A crash of one of its components is handled inside.
    let inner = client.pid(1);
    let child = wait_until("the inner chain has components", || {
        let mut children = children_of(inner).into_iter();
        children.find(|pid| {
            let words = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words.contains("inner-b")
        })
    });
    signal(child, libc::SIGKILL);
    assert_gone(child, "a component of the inner chain");
    let (texts, answer) = client.run_turn(&session, "hello");
    // The inner chain may not have noticed the crash yet.
    if answer["error"].is_null() {
        assert_eq!(texts, ["hello"]);
    } else {
        client.assert_echo(&session, "hello");
    }
    assert_eq!(client.pid(1), inner);
    assert_eq!(client.shut_down(), 0);
}

fn children_of(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let children = std::fs::read_to_string(path).unwrap_or_default();
    children.split_whitespace().filter_map(|it| it.parse().ok()).collect()
}
