//! Components that die: often, at once, in the middle of something, while they are being restarted.

use serde_json::{Value, json};
use testkit::drive::Drive;
use testkit::rpc::wrapped_notification;
use testkit::stage::{Puppet, assert_gone, binary, directory, script, signal, wait_until};

use crate::{TIRELESS, agent, chain, growth, proxy, stage, usage};

const MIB: usize = 1024 * 1024;

/// How much the conductor may grow from the tenth death to the hundredth, in KiB.
const SLACK: u64 = 2048;

fn dies_a_hundred_times(number: usize) {
    let mut chain = chain(&format!("hundred-{number}"), &[]);
    let sessions = [chain.session(), chain.session()];
    let conductor = chain.stage.conductor.pid();
    let mut before = None;
    for death in 1..=100 {
        chain.replace(number);
        for session in &sessions {
            chain.echo(session, &format!("after death {death}"));
        }
        if death == 10 {
            before = Some(usage(conductor));
        }
    }
    let grown = growth(conductor, before.expect("there were ten"));
    assert!(grown < SLACK, "the conductor has grown by {grown} KiB");
    assert_eq!(chain.component(number)["restarts"], 100);
    assert_eq!(chain.end(), 0);
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
    let mut chain = chain("in-prompts", &[]);
    let session = chain.session();
    let conductor = chain.stage.conductor.pid();
    let mut before = None;
    for death in 1..=60 {
        let number = death % 3 + 1;
        let restarts = chain.component(number)["restarts"].clone();
        let id = chain.prompt(&session, "wait");
        chain.wait_for_word(&session, "waiting");
        chain.kill(number);
        if number < 3 {
            // It had passed the question on: the answer comes all the same. And if it dies with the
            // cancellation in its hands, that comes all the same, too.
            chain.notify("session/cancel", json!({ "sessionId": session }));
            let answer = chain.answer(id);
            assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
        } else {
            assert_crashed(&chain.answer(id), "agent");
        }
        wait_until("it is restarted", || {
            (chain.component(number)["restarts"] != restarts).then_some(())
        });
        chain.echo(&session, "hello");
        if death == 9 {
            before = Some(usage(conductor));
        }
    }
    let grown = growth(conductor, before.expect("there were nine"));
    assert!(grown < SLACK, "the conductor has grown by {grown} KiB");
    assert_eq!(chain.end(), 0);
}

/// An error that tells who crashed.
pub fn assert_crashed(answer: &Value, component: &str) {
    assert_eq!(answer["error"]["data"]["component"], component, "{answer}");
    let message = answer["error"]["message"].as_str().expect("a message");
    assert!(message.contains("signal 9") && message.contains("restarted"), "{answer}");
}

#[test]
fn all_components_are_killed_at_once() {
    let mut chain = chain("all-at-once", &[]);
    let session = chain.session();
    for round in 0..10 {
        let id = chain.prompt(&session, "wait");
        chain.wait_for_word(&session, "waiting");
        let pids = [1, 2, 3].map(|number| chain.pid(number));
        pids.into_iter().for_each(|pid| signal(pid, libc::SIGKILL));
        let answer = chain.answer(id);
        assert!(
            answer["error"]["message"].as_str().is_some_and(|it| it.contains("signal 9")),
            "{answer}"
        );
        wait_until("all are replaced", || {
            let replaced = |number: usize| {
                let now = chain.component(number);
                now["state"] == "live" && now["pid"] != pids[number - 1]
            };
            (1..=3).all(replaced).then_some(())
        });
        chain.echo(&session, &format!("after round {round}"));
    }
    let id = chain.ask("session/close", json!({ "sessionId": session }));
    assert!(chain.answer(id)["result"].is_object());
    assert_eq!(chain.end(), 0);
}

/// What arrives is whole, whatever was on its way.
#[test]
fn a_component_is_killed_while_long_messages_are_on_their_way_in_both_directions() {
    let text = "x".repeat(8 * MIB);
    for number in 1..=3 {
        let mut chain = chain(&format!("long-{number}"), &[]);
        let sessions: Vec<String> = (0..3).map(|_| chain.session()).collect();
        for lines_before in 0..2 {
            let pid = chain.pid(number);
            let ids: Vec<u64> = sessions.iter().map(|it| chain.prompt(it, &text)).collect();
            for _ in 0..lines_before {
                assert!(chain.hear());
            }
            signal(pid, libc::SIGKILL);
            for id in ids {
                let answer = chain.answer(id);
                assert!(
                    answer["result"]["stopReason"] == "end_turn" || answer["error"].is_object(),
                    "{answer}"
                );
            }
            for session in &sessions {
                // Whole, or not at all; what the conductor itself says is not among it.
                for said in chain.said(session) {
                    assert!(said == text, "{} bytes", said.len());
                }
            }
            wait_until("there is another one", || {
                (chain.component(number)["pid"] != pid).then_some(())
            });
            chain.pid(number);
            sessions.iter().for_each(|it| chain.echo(it, "short"));
        }
        assert_eq!(chain.end(), 0);
    }
}

/// It does not read, so most of the message is still with us when it dies.
#[test]
fn a_component_is_killed_with_half_a_long_message_in_its_pipe() {
    let text = "x".repeat(8 * MIB);
    for number in 1..=3 {
        let mut chain = chain(&format!("half-read-{number}"), &[]);
        let session = chain.session();
        let pid = chain.pid(number);
        signal(pid, libc::SIGSTOP);
        let id = chain.prompt(&session, &text);
        testkit::stage::wait_for_rest(&[chain.stage.conductor.pid(), pid]);
        signal(pid, libc::SIGKILL);
        // Where the machine is slow, nothing of it was in the pipe yet, and it went to the next one.
        let answer = chain.answer(id);
        let stopped = &answer["result"]["stopReason"];
        assert!(answer["error"]["code"] == -32603 || stopped == "end_turn", "{answer}");
        assert!(chain.said(&session).iter().all(|said| *said == text));
        chain.pid(number);
        chain.echo(&session, "short");
        assert_eq!(chain.end(), 0);
    }
}

/// Half a line is dropped, and the next life begins with a line of its own.
#[test]
fn a_component_is_killed_in_the_middle_of_a_line() {
    let mut chain = chain("half-line", &[]);
    let session = chain.session();
    for _ in 0..5 {
        let id = chain.prompt(&session, "half");
        testkit::stage::wait_for_rest(&[chain.pid(3)]);
        chain.replace(3);
        assert_crashed(&chain.answer(id), "agent");
        chain.echo(&session, "whole");
    }
    assert_eq!(chain.end(), 0);
}

/// A chain with a puppet as its proxy, and a session that the proxy knows of.
fn with_puppet(name: &str, options: &[&str]) -> (Drive, Puppet, String) {
    let setup = stage().option(&TIRELESS).option(options);
    let components = [setup.component("puppet").to_string(), agent(&[])];
    let mut chain = Drive::begin(setup, name, &components);
    let greeting =
        chain.ask("initialize", json!({ "protocolVersion": 1, "clientCapabilities": {} }));
    let mut puppet = chain.stage.enter("puppet");
    greet(&mut puppet);
    assert!(chain.answer(greeting)["result"].is_object());
    let id = chain.ask("session/new", json!({ "cwd": "/", "mcpServers": [] }));
    pass_on(&mut puppet, "session/new");
    let session = chain.answer(id)["result"]["sessionId"].as_str().expect("a session").to_owned();
    (chain, puppet, session)
}

/// Passes one request on, and its answer back.
fn pass_on(puppet: &mut Puppet, method: &str) {
    let asked = puppet.request(method);
    puppet.forward("on", method, &asked["params"].to_string());
    loop {
        let told = puppet.message();
        if told["id"] == "on" && told.get("method").is_none() {
            return puppet.answer(&asked, &told["result"].to_string());
        }
        // What is said meanwhile goes to the editor.
        let inner = &told["params"];
        puppet.send(
            &json!({ "jsonrpc": "2.0", "method": inner["method"], "params": inner["params"] })
                .to_string(),
        );
    }
}

fn greet(puppet: &mut Puppet) {
    let asked = puppet.request("proxy/initialize");
    puppet.forward("greeting", "initialize", &asked["params"].to_string());
    let told = puppet.message();
    puppet.answer(&asked, &told["result"].to_string());
}

#[test]
fn a_component_is_killed_again_and_again_while_it_is_restarted() {
    let (mut chain, puppet, session) = with_puppet("again", &[]);
    signal(puppet.pid, libc::SIGKILL);
    // It waits until somebody can be spoken to.
    let mut id = None;
    for _ in 0..7 {
        let mut puppet = chain.stage.enter("puppet");
        puppet.request("proxy/initialize");
        id.get_or_insert_with(|| chain.prompt(&session, "hello"));
        signal(puppet.pid, libc::SIGKILL);
        let mut puppet = chain.stage.enter("puppet");
        greet(&mut puppet);
        puppet.request("session/new");
        signal(puppet.pid, libc::SIGKILL);
        // It has told nobody of the session; but somebody before it has.
        let mut puppet = chain.stage.enter("puppet");
        greet(&mut puppet);
        let asked = puppet.request("session/new");
        puppet.forward("on", "session/new", &asked["params"].to_string());
        assert_eq!(puppet.message()["result"]["sessionId"], session);
        signal(puppet.pid, libc::SIGKILL);
    }
    let mut puppet = chain.stage.enter("puppet");
    greet(&mut puppet);
    pass_on(&mut puppet, "session/new");
    pass_on(&mut puppet, "session/prompt");
    let answer = chain.answer(id.expect("a prompt"));
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    assert_eq!(chain.said(&session), ["hello"]);
    assert_eq!(chain.component(1)["restarts"], 22);
    puppet.exit(0);
    chain.end();
}

/// It cannot be started any more: that is a failure like any other.
#[test]
fn a_program_that_was_removed_meanwhile_is_left_out() {
    let place = directory("removed");
    let program =
        script(&place, "vanishing", &format!("exec '{}'", binary("transparent").display()));
    let command = format!("'{}'", program.display());
    let options = ["--restarts", "3/60", "--restart-delay", "0..0"];
    let components = [command, proxy("second"), agent(&[])];
    let mut chain = Drive::start(stage().option(&options), "removed-runtime", &components);
    let session = chain.session();
    std::fs::remove_file(&program).expect("it was there");
    chain.kill(1);
    let state = chain.wait_for_state(1, "bypassed");
    let exit = state["lastExit"].as_str().expect("an end");
    assert!(exit.contains("could not be started") && exit.contains("command not found"), "{state}");
    chain.echo(&session, "without it");
    assert_eq!(chain.end(), 0);
    std::fs::remove_dir_all(place).expect("the directory is ours");
}

/// The same, but it comes back in time.
#[test]
fn a_program_that_is_replaced_by_another_file_is_restarted() {
    let place = directory("replaced");
    let body = format!("exec '{}'", binary("transparent").display());
    let program = script(&place, "changing", &body);
    let options = ["--restarts", "1000/60", "--restart-delay", "0.05..0.05"];
    let components = [format!("'{}'", program.display()), agent(&[])];
    let mut chain = Drive::start(stage().option(&options), "replaced-runtime", &components);
    let session = chain.session();
    std::fs::remove_file(&program).expect("it was there");
    let pid = chain.pid(1);
    signal(pid, libc::SIGKILL);
    wait_until("it was tried in vain", || {
        let state = chain.component(1);
        state["lastExit"].as_str().filter(|it| it.contains("command not found")).map(|_| ())
    });
    let waiting = chain.prompt(&session, "held");
    script(&place, "changing", &body);
    assert_eq!(chain.answer(waiting)["result"]["stopReason"], "end_turn");
    assert_eq!(chain.said(&session), ["held"]);
    chain.echo(&session, "with the new one");
    assert_eq!(chain.end(), 0);
    std::fs::remove_dir_all(place).expect("the directory is ours");
}

/// Takes the place of one that was killed: is greeted, and told of the session.
fn succeed(chain: &mut Drive, name: &str) -> Puppet {
    let mut puppet = chain.stage.enter(name);
    greet(&mut puppet);
    pass_on(&mut puppet, "session/new");
    puppet
}

/// The one who has the cancellation in its hands when it dies may have come after the prompt had passed,
/// and so may the one behind it.
#[test]
fn a_cancellation_is_not_lost_with_one_that_came_after_the_prompt() {
    for dies in ["upper", "lower"] {
        let setup = stage().option(&TIRELESS);
        let puppets = ["upper", "lower"].map(|name| setup.component(name).to_string());
        let components: Vec<String> = puppets.into_iter().chain([agent(&[])]).collect();
        let mut chain = Drive::begin(setup, &format!("cancellation-{dies}"), &components);
        let greeting = json!({ "protocolVersion": 1, "clientCapabilities": {} });
        let greeting = chain.ask("initialize", greeting);
        let mut both = ["upper", "lower"].map(|name| chain.stage.enter(name));
        down_and_up(&mut both, "proxy/initialize", "initialize");
        assert!(chain.answer(greeting)["result"].is_object());
        let id = chain.ask("session/new", json!({ "cwd": "/", "mcpServers": [] }));
        down_and_up(&mut both, "session/new", "session/new");
        let session = chain.answer(id)["result"]["sessionId"].clone();
        let [mut upper, mut lower] = both;

        let id = chain.prompt(session.as_str().expect("a session"), "wait");
        for puppet in [&mut upper, &mut lower] {
            let asked = puppet.request("session/prompt");
            puppet.forward("prompt", "session/prompt", &asked["params"].to_string());
        }
        // The agent is at work.
        assert_eq!(lower.message()["params"]["method"], "session/update");
        signal(lower.pid, libc::SIGKILL);
        let mut lower = succeed(&mut chain, "lower");

        let params = json!({ "sessionId": session });
        chain.notify("session/cancel", params.clone());
        assert_eq!(upper.message()["method"], "session/cancel");
        if dies == "upper" {
            signal(upper.pid, libc::SIGKILL);
            succeed(&mut chain, "upper");
        } else {
            upper.send(&wrapped_notification("session/cancel", &params.to_string()));
            assert_eq!(lower.message()["method"], "session/cancel");
            signal(lower.pid, libc::SIGKILL);
            succeed(&mut chain, "lower");
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
        let answer = chain.answer(id);
        assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
    }
}

/// A request passes two puppets, and its answer.
fn down_and_up([upper, lower]: &mut [Puppet; 2], method: &str, on: &str) {
    let mut asked = Vec::new();
    for puppet in [&mut *upper, &mut *lower] {
        let request = puppet.request(method);
        puppet.forward("on", on, &request["params"].to_string());
        asked.push(request);
    }
    for (puppet, request) in [lower, upper].into_iter().zip(asked.iter().rev()) {
        let told = puppet.message();
        assert_eq!(told["id"], "on", "{told}");
        puppet.answer(request, &told["result"].to_string());
    }
}

/// Its own components go with it, and come back with it.
#[test]
fn a_chain_in_the_chain_is_killed() {
    let inner =
        ["inner-a", "inner-b"].map(|it| format!("'{}' {it}", binary("transparent").display()));
    let inner = stage().subchain(&inner);
    let components = [inner, proxy("second"), agent(&[])];
    let mut chain = Drive::start(stage().option(&TIRELESS), "nested", &components);
    let session = chain.session();
    for round in 0..5 {
        let children = children_of(chain.pid(1));
        assert!(children.len() >= 2, "{children:?}");
        chain.replace(1);
        children.into_iter().for_each(|pid| assert_gone(pid, "a component of the inner chain"));
        chain.echo(&session, &format!("after round {round}"));
    }
    // One of its components alone is its own care.
    let inner = chain.pid(1);
    let child = wait_until("it has components", || {
        let mut children = children_of(inner).into_iter();
        children.find(|pid| {
            let words = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words.contains("inner-b")
        })
    });
    signal(child, libc::SIGKILL);
    assert_gone(child, "a component of the inner chain");
    let (said, answer) = chain.turn(&session, "hello");
    // It may not have been noticed yet.
    if answer["error"].is_null() {
        assert_eq!(said, ["hello"]);
    } else {
        chain.echo(&session, "hello");
    }
    assert_eq!(chain.pid(1), inner);
    assert_eq!(chain.end(), 0);
}

fn children_of(pid: u32) -> Vec<u32> {
    let path = format!("/proc/{pid}/task/{pid}/children");
    let children = std::fs::read_to_string(path).unwrap_or_default();
    children.split_whitespace().filter_map(|it| it.parse().ok()).collect()
}
