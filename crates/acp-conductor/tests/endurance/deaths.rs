//! Components that die: often, at once, in the middle of something, while they are being restarted.

use serde_json::{Value, json};
use testkit::rpc::wrapped_notification;
use testkit::test_chain::{
    ScriptedComponent, assert_gone, binary, directory, signal, wait_until, write_script,
};
use testkit::test_client::TestClient;

use crate::{TIRELESS, agent, growth, proxy, start_chain, test_chain, usage};

const MIB: usize = 1024 * 1024;

/// How much the conductor may grow from the tenth death to the hundredth, in KiB.
const SLACK: u64 = 2048;

fn dies_a_hundred_times(number: usize) {
    let mut client = start_chain(&format!("hundred-{number}"), &[]);
    let sessions = [client.new_session(), client.new_session()];
    let conductor = client.chain.conductor.pid();
    let mut before = None;
    for death in 1..=100 {
        client.kill_and_wait_for_restart(number);
        for session in &sessions {
            client.assert_echo(session, &format!("after death {death}"));
        }
        if death == 10 {
            before = Some(usage(conductor));
        }
    }
    let grown = growth(conductor, before.expect("there were ten"));
    assert!(grown < SLACK, "the conductor has grown by {grown} KiB");
    assert_eq!(client.component_status(number)["restarts"], 100);
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn a_proxy_that_dies_a_hundred_times_costs_nothing() {
    dies_a_hundred_times(1);
}

#[test]
fn an_agent_that_dies_a_hundred_times_costs_nothing() {
    dies_a_hundred_times(3);
}

/// In a prompt each time: the prompt is answered, with what was asked for or with an error that tells.
#[test]
fn a_component_that_dies_in_every_prompt_costs_nothing() {
    let mut client = start_chain("in-prompts", &[]);
    let session = client.new_session();
    let conductor = client.chain.conductor.pid();
    let mut before = None;
    for death in 1..=60 {
        let number = death % 3 + 1;
        let restarts = client.component_status(number)["restarts"].clone();
        let id = client.send_prompt(&session, "wait");
        client.wait_for_text(&session, "waiting");
        client.kill(number);
        if number < 3 {
            // It had passed the question on: the answer comes all the same. And if it dies with the
            // cancellation in its hands, that comes all the same, too.
            client.notify("session/cancel", json!({ "sessionId": session }));
            let answer = client.wait_for_answer(id);
            assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
        } else {
            assert_crashed(&client.wait_for_answer(id), "agent");
        }
        wait_until("it is restarted", || {
            (client.component_status(number)["restarts"] != restarts).then_some(())
        });
        client.assert_echo(&session, "hello");
        if death == 9 {
            before = Some(usage(conductor));
        }
    }
    let grown = growth(conductor, before.expect("there were nine"));
    assert!(grown < SLACK, "the conductor has grown by {grown} KiB");
    assert_eq!(client.shut_down(), 0);
}

/// An error that tells who crashed.
pub fn assert_crashed(answer: &Value, component: &str) {
    assert_eq!(answer["error"]["data"]["component"], component, "{answer}");
    let message = answer["error"]["message"].as_str().expect("a message");
    assert!(message.contains("signal 9") && message.contains("restarted"), "{answer}");
}

#[test]
fn all_components_are_killed_at_once() {
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

/// What arrives is whole, whatever was on its way.
#[test]
fn a_component_is_killed_while_long_messages_are_on_their_way_in_both_directions() {
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
                // Whole, or not at all; what the conductor itself says is not among it.
                for said in client.take_texts(session) {
                    assert!(said == text, "{} bytes", said.len());
                }
            }
            wait_until("there is another one", || {
                (client.component_status(number)["pid"] != pid).then_some(())
            });
            client.pid(number);
            sessions.iter().for_each(|it| client.assert_echo(it, "short"));
        }
        assert_eq!(client.shut_down(), 0);
    }
}

/// It does not read, so most of the message is still with us when it dies.
#[test]
fn a_component_is_killed_with_half_a_long_message_in_its_pipe() {
    let text = "x".repeat(8 * MIB);
    for number in 1..=3 {
        let mut client = start_chain(&format!("half-read-{number}"), &[]);
        let session = client.new_session();
        let pid = client.pid(number);
        signal(pid, libc::SIGSTOP);
        let id = client.send_prompt(&session, &text);
        testkit::test_chain::wait_until_idle(&[client.chain.conductor.pid(), pid]);
        signal(pid, libc::SIGKILL);
        // Where the machine is slow, nothing of it was in the pipe yet, and it went to the next one.
        let answer = client.wait_for_answer(id);
        let stopped = &answer["result"]["stopReason"];
        assert!(answer["error"]["code"] == -32603 || stopped == "end_turn", "{answer}");
        assert!(client.take_texts(&session).iter().all(|said| *said == text));
        client.pid(number);
        client.assert_echo(&session, "short");
        assert_eq!(client.shut_down(), 0);
    }
}

/// Half a line is dropped, and the next life begins with a line of its own.
#[test]
fn a_component_is_killed_in_the_middle_of_a_line() {
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

/// A chain with a scripted component as its proxy, and a session that the proxy knows of.
fn with_scripted_proxy(name: &str, options: &[&str]) -> (TestClient, ScriptedComponent, String) {
    let setup = test_chain().option(&TIRELESS).option(options);
    let components = [setup.scripted_json("scripted").to_string(), agent(&[])];
    let mut client = TestClient::start_without_initialize(setup, name, &components);
    let greeting = client
        .send_request("initialize", json!({ "protocolVersion": 1, "clientCapabilities": {} }));
    let mut component = client.chain.wait_for_component("scripted");
    greet(&mut component);
    assert!(client.wait_for_answer(greeting)["result"].is_object());
    let id = client.send_request("session/new", json!({ "cwd": "/", "mcpServers": [] }));
    pass_on(&mut component, "session/new");
    let session =
        client.wait_for_answer(id)["result"]["sessionId"].as_str().expect("a session").to_owned();
    (client, component, session)
}

/// Passes one request on, and its answer back.
fn pass_on(component: &mut ScriptedComponent, method: &str) {
    let asked = component.request(method);
    component.forward("on", method, &asked["params"].to_string());
    loop {
        let told = component.message();
        if told["id"] == "on" && told.get("method").is_none() {
            return component.answer(&asked, &told["result"].to_string());
        }
        // What is said meanwhile goes to the editor.
        let inner = &told["params"];
        component.send(
            &json!({ "jsonrpc": "2.0", "method": inner["method"], "params": inner["params"] })
                .to_string(),
        );
    }
}

fn greet(component: &mut ScriptedComponent) {
    let asked = component.request("proxy/initialize");
    component.forward("greeting", "initialize", &asked["params"].to_string());
    let told = component.message();
    component.answer(&asked, &told["result"].to_string());
}

#[test]
fn a_component_is_killed_again_and_again_while_it_is_restarted() {
    let (mut client, component, session) = with_scripted_proxy("again", &[]);
    signal(component.pid, libc::SIGKILL);
    // It waits until somebody can be spoken to.
    let mut id = None;
    for _ in 0..7 {
        let mut component = client.chain.wait_for_component("scripted");
        component.request("proxy/initialize");
        id.get_or_insert_with(|| client.send_prompt(&session, "hello"));
        signal(component.pid, libc::SIGKILL);
        let mut component = client.chain.wait_for_component("scripted");
        greet(&mut component);
        component.request("session/new");
        signal(component.pid, libc::SIGKILL);
        // It has told nobody of the session; but somebody before it has.
        let mut component = client.chain.wait_for_component("scripted");
        greet(&mut component);
        let asked = component.request("session/new");
        component.forward("on", "session/new", &asked["params"].to_string());
        assert_eq!(component.message()["result"]["sessionId"], session);
        signal(component.pid, libc::SIGKILL);
    }
    let mut component = client.chain.wait_for_component("scripted");
    greet(&mut component);
    pass_on(&mut component, "session/new");
    pass_on(&mut component, "session/prompt");
    let answer = client.wait_for_answer(id.expect("a prompt"));
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert_eq!(client.take_texts(&session), ["hello"]);
    assert_eq!(client.component_status(1)["restarts"], 22);
    component.exit(0);
    client.shut_down();
}

/// It cannot be started any more: that is a failure like any other.
#[test]
fn a_program_that_was_removed_meanwhile_is_left_out() {
    let place = directory("removed");
    let program =
        write_script(&place, "vanishing", &format!("exec '{}'", binary("transparent").display()));
    let command = format!("'{}'", program.display());
    let options = ["--restarts", "3/60", "--restart-delay", "0..0"];
    let components = [command, proxy("second"), agent(&[])];
    let mut client =
        TestClient::start(test_chain().option(&options), "removed-runtime", &components);
    let session = client.new_session();
    std::fs::remove_file(&program).expect("it was there");
    client.kill(1);
    let state = client.wait_for_state(1, "bypassed");
    let exit = state["lastExit"].as_str().expect("an end");
    assert!(exit.contains("could not be started") && exit.contains("command not found"), "{state}");
    client.assert_echo(&session, "without it");
    assert_eq!(client.shut_down(), 0);
    std::fs::remove_dir_all(place).expect("the directory is ours");
}

/// The same, but it comes back in time.
#[test]
fn a_program_that_is_replaced_by_another_file_is_restarted() {
    let place = directory("replaced");
    let body = format!("exec '{}'", binary("transparent").display());
    let program = write_script(&place, "changing", &body);
    let options = ["--restarts", "1000/60", "--restart-delay", "0.05..0.05"];
    let components = [format!("'{}'", program.display()), agent(&[])];
    let mut client =
        TestClient::start(test_chain().option(&options), "replaced-runtime", &components);
    let session = client.new_session();
    std::fs::remove_file(&program).expect("it was there");
    let pid = client.pid(1);
    signal(pid, libc::SIGKILL);
    wait_until("it was tried in vain", || {
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

/// Takes the place of one that was killed: is greeted, and told of the session.
fn succeed(client: &mut TestClient, name: &str) -> ScriptedComponent {
    let mut component = client.chain.wait_for_component(name);
    greet(&mut component);
    pass_on(&mut component, "session/new");
    component
}

/// The one who has the cancellation in its hands when it dies may have come after the prompt had passed,
/// and so may the one behind it.
#[test]
fn a_cancellation_is_not_lost_with_one_that_came_after_the_prompt() {
    for dies in ["upper", "lower"] {
        let setup = test_chain().option(&TIRELESS);
        let components = ["upper", "lower"].map(|name| setup.scripted_json(name).to_string());
        let components: Vec<String> = components.into_iter().chain([agent(&[])]).collect();
        let mut client = TestClient::start_without_initialize(
            setup,
            &format!("cancellation-{dies}"),
            &components,
        );
        let greeting = json!({ "protocolVersion": 1, "clientCapabilities": {} });
        let greeting = client.send_request("initialize", greeting);
        let mut both = ["upper", "lower"].map(|name| client.chain.wait_for_component(name));
        down_and_up(&mut both, "proxy/initialize", "initialize");
        assert!(client.wait_for_answer(greeting)["result"].is_object());
        let id = client.send_request("session/new", json!({ "cwd": "/", "mcpServers": [] }));
        down_and_up(&mut both, "session/new", "session/new");
        let session = client.wait_for_answer(id)["result"]["sessionId"].clone();
        let [mut upper, mut lower] = both;

        let id = client.send_prompt(session.as_str().expect("a session"), "wait");
        for component in [&mut upper, &mut lower] {
            let asked = component.request("session/prompt");
            component.forward("prompt", "session/prompt", &asked["params"].to_string());
        }
        // The agent is at work.
        assert_eq!(lower.message()["params"]["method"], "session/update");
        signal(lower.pid, libc::SIGKILL);
        let mut lower = succeed(&mut client, "lower");

        let params = json!({ "sessionId": session });
        client.notify("session/cancel", params.clone());
        assert_eq!(upper.message()["method"], "session/cancel");
        if dies == "upper" {
            signal(upper.pid, libc::SIGKILL);
            succeed(&mut client, "upper");
        } else {
            upper.send(&wrapped_notification("session/cancel", &params.to_string()));
            assert_eq!(lower.message()["method"], "session/cancel");
            signal(lower.pid, libc::SIGKILL);
            succeed(&mut client, "lower");
            // It gets the answer of the agent for the one that is gone.
            let asked = loop {
                let told = upper.message();
                if told["id"] == "prompt" {
                    break told;
                }
            };
            assert_eq!(asked["result"]["stopReason"], "cancelled", "{asked}");
            continue;
        }
        let answer = client.wait_for_answer(id);
        assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
    }
}

/// A request passes two scripted components, and its answer.
fn down_and_up([upper, lower]: &mut [ScriptedComponent; 2], method: &str, on: &str) {
    let mut asked = Vec::new();
    for component in [&mut *upper, &mut *lower] {
        let request = component.request(method);
        component.forward("on", on, &request["params"].to_string());
        asked.push(request);
    }
    for (component, request) in [lower, upper].into_iter().zip(asked.iter().rev()) {
        let told = component.message();
        assert_eq!(told["id"], "on", "{told}");
        component.answer(request, &told["result"].to_string());
    }
}

/// Its own components go with it, and come back with it.
#[test]
fn a_chain_in_the_chain_is_killed() {
    let inner =
        ["inner-a", "inner-b"].map(|it| format!("'{}' {it}", binary("transparent").display()));
    let inner = test_chain().subchain(&inner);
    let components = [inner, proxy("second"), agent(&[])];
    let mut client = TestClient::start(test_chain().option(&TIRELESS), "nested", &components);
    let session = client.new_session();
    for round in 0..5 {
        let children = children_of(client.pid(1));
        assert!(children.len() >= 2, "{children:?}");
        client.kill_and_wait_for_restart(1);
        children.into_iter().for_each(|pid| assert_gone(pid, "a component of the inner chain"));
        client.assert_echo(&session, &format!("after round {round}"));
    }
    // One of its components alone is its own care.
    let inner = client.pid(1);
    let child = wait_until("it has components", || {
        let mut children = children_of(inner).into_iter();
        children.find(|pid| {
            let words = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words.contains("inner-b")
        })
    });
    signal(child, libc::SIGKILL);
    assert_gone(child, "a component of the inner chain");
    let (said, answer) = client.run_turn(&session, "hello");
    // It may not have been noticed yet.
    if answer["error"].is_null() {
        assert_eq!(said, ["hello"]);
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
