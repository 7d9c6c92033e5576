//! Components that are stopped with SIGSTOP, and a reaper that is killed or stopped.

use std::io::Write;

use serde_json::json;
use testkit::numbered_lines::NumberedLines;
use testkit::test_chain::{
    assert_gone, is_alive, memory, signal, wait_until, wait_until_idle, with_timeout,
};
use testkit::test_client::TestClient;

use crate::crashes::assert_crashed;
use crate::{agent, component, new_setup, proxy, start_chain};

/// A component that does not read pauses the sender. The conductor buffers little.
#[test]
fn a_stopped_proxy_pauses_the_editor_and_loses_no_message() {
    const COUNT: u64 = 20_000;
    let components =
        [proxy("first"), proxy("second"), component("counting_agent", "counting_agent", &[])];
    let mut client = TestClient::start(new_setup(), "stopped-proxy", &components);
    let (conductor, stopped) = (client.chain.conductor.pid(), client.pid(1));
    signal(stopped, libc::SIGSTOP);
    let mut input = client.chain.editor.take_stdin();
    let writer = std::thread::spawn(move || {
        let mut numbered = NumberedLines::new(5000);
        for number in 0..COUNT {
            input.write_all(numbered.line(number)).expect("the conductor reads");
        }
        writeln!(input, r#"{{"jsonrpc":"2.0","id":1000,"method":"_tally"}}"#).expect("a reader");
        input
    });
    wait_until_idle(&[conductor]);
    let (_, peak) = memory(conductor);
    assert!(peak < 64 << 10, "the conductor used {} MiB", peak >> 10);
    signal(stopped, libc::SIGCONT);
    let input = with_timeout("the editor writes", || writer.join().expect("no panic"));
    let answer = client.chain.editor.message();
    assert_eq!(answer["result"], json!({ "count": COUNT, "wrong": null }));
    assert_eq!(client.component_status(1)["restarts"], 0);
    drop(input);
    assert_eq!(client.chain.conductor.status(), 0);
}

/// A limit that a healthy component meets even on a busy machine.
const LIMIT: &str = "8";

#[test]
fn a_component_that_is_stopped_during_a_prompt_is_replaced() {
    for number in [1, 3] {
        let name = format!("stopped-in-prompt-{number}");
        let mut client = start_chain(&name, &["--prompt-limit", LIMIT]);
        let session = client.new_session();
        let pid = client.pid(number);
        signal(pid, libc::SIGSTOP);
        let id = client.send_prompt(&session, "hello");
        let answer = client.wait_for_answer(id);
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("restarted") && message.contains("8 s"), "{answer}");
        let name = if number == 1 { "first" } else { "agent" };
        assert_eq!(answer["error"]["data"]["component"], name, "{answer}");
        assert_gone(pid, "the stopped component");
        client.assert_echo(&session, "after it");
        assert_eq!(client.shut_down(), 0);
    }
}

#[test]
fn a_component_that_is_stopped_during_another_request_is_replaced() {
    let mut client = start_chain("stopped-in-request", &["--answer-limit", LIMIT]);
    let session = client.new_session();
    signal(client.pid(2), libc::SIGSTOP);
    let id = client.send_request("session/close", json!({ "sessionId": "another" }));
    let answer = client.wait_for_answer(id);
    assert_eq!(answer["error"]["data"]["component"], "second", "{answer}");
    client.assert_echo(&session, "after it");
    assert_eq!(client.shut_down(), 0);
}

#[test]
fn a_stopped_component_that_ignores_a_cancellation_is_replaced() {
    let mut client = start_chain("stopped-cancelled", &["--cancel-limit", LIMIT]);
    let session = client.new_session();
    let id = client.send_prompt(&session, "wait");
    client.wait_for_text(&session, "waiting");
    let pid = client.pid(3);
    signal(pid, libc::SIGSTOP);
    client.notify("session/cancel", json!({ "sessionId": session }));
    let answer = client.wait_for_answer(id);
    assert_eq!(answer["result"]["stopReason"], "cancelled", "{answer}");
    assert_gone(pid, "the stopped component");
    client.assert_echo(&session, "after it");
    assert_eq!(client.shut_down(), 0);
}

/// A component that continues within the limit is not replaced.
#[test]
fn a_component_that_is_stopped_briefly_is_not_replaced() {
    for number in 1..=3 {
        let options = ["--prompt-limit", "600", "--answer-limit", "600"];
        let mut client = start_chain(&format!("stopped-shortly-{number}"), &options);
        let session = client.new_session();
        let pid = client.pid(number);
        signal(pid, libc::SIGSTOP);
        let id = client.send_prompt(&session, "hello");
        wait_until_idle(&[client.chain.conductor.pid()]);
        signal(pid, libc::SIGCONT);
        assert_eq!(client.wait_for_answer(id)["result"]["stopReason"], "end_turn");
        assert_eq!(client.take_texts(&session), ["hello"]);
        assert_eq!(client.pid(number), pid);
        assert_eq!(client.shut_down(), 0);
    }
}

/// The process that ends the components when the conductor is killed.
fn reaper_of(conductor: u32) -> u32 {
    wait_until("the reaper has started", || {
        let processes = std::fs::read_dir("/proc").ok()?;
        let mut pids = processes.flatten().filter_map(|it| it.file_name().to_str()?.parse().ok());
        pids.find(|pid: &u32| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let parent = stat.rsplit(')').next().and_then(|it| it.split_whitespace().nth(1));
            stat.contains("(chain-reaper)") && parent == Some(&conductor.to_string())
        })
    })
}

#[test]
fn the_chain_works_without_its_reaper() {
    let mut client = start_chain("no-reaper", &[]);
    let session = client.new_session();
    let reaper = reaper_of(client.chain.conductor.pid());
    signal(reaper, libc::SIGKILL);
    assert_gone(reaper, "the reaper");
    client.assert_echo(&session, "without it");
    for number in 1..=3 {
        client.kill_and_wait_for_restart(number);
        client.assert_echo(&session, "after a restart");
    }
    let id = client.send_prompt(&session, "wait");
    client.wait_for_text(&session, "waiting");
    client.kill(3);
    assert_crashed(&client.wait_for_answer(id), "agent");
    let pids = [1, 2, 3].map(|number| client.pid(number));
    assert_eq!(client.shut_down(), 0);
    assert!(pids.iter().all(|pid| !is_alive(*pid)));
}

/// The parent-death signal still ends the components themselves.
#[test]
fn components_end_with_a_killed_conductor_even_without_its_reaper() {
    let components = [proxy("first"), agent(&["--deaf"])];
    let mut client = TestClient::start(new_setup(), "no-reaper-killed", &components);
    let reaper = reaper_of(client.chain.conductor.pid());
    signal(reaper, libc::SIGKILL);
    assert_gone(reaper, "the reaper");
    client.kill_and_wait_for_restart(1);
    let pids = [1, 2].map(|number| client.pid(number));
    client.chain.conductor.signal(libc::SIGKILL);
    client.chain.conductor.status();
    pids.into_iter().for_each(|pid| assert_gone(pid, "a component"));
}

#[test]
fn a_stopped_reaper_does_not_keep_the_conductor_from_ending() {
    let mut client = start_chain("stopped-reaper", &[]);
    let session = client.new_session();
    let reaper = reaper_of(client.chain.conductor.pid());
    signal(reaper, libc::SIGSTOP);
    client.assert_echo(&session, "without it");
    client.kill_and_wait_for_restart(1);
    client.assert_echo(&session, "after a restart");
    assert_eq!(client.shut_down(), 0);
    assert_gone(reaper, "the reaper");
}

#[test]
fn a_reaper_that_is_stopped_repeatedly_is_killed() {
    let mut client = start_chain("stopped-again", &[]);
    let reaper = reaper_of(client.chain.conductor.pid());
    let stopping = std::thread::spawn(move || {
        while is_alive(reaper) {
            signal(reaper, libc::SIGSTOP);
            std::thread::yield_now();
        }
    });
    assert_eq!(client.shut_down(), 0);
    stopping.join().expect("no panic");
}
