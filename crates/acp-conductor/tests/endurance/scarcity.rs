//! A machine that has run out of something: room on the disk, descriptors.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::Value;
use testkit::test_chain::{signal, wait_until};
use testkit::test_client::TestClient;

use crate::{agent, component, proxy, start_chain, test_chain, usage};

#[test]
fn a_full_disk_for_the_log_does_not_touch_the_chain() {
    let mut client = start_chain("full-log", &["--log", "debug", "--log-file", "/dev/full"]);
    let session = client.new_session();
    for round in 0..20 {
        client.assert_echo(&session, &format!("round {round}"));
    }
    client.kill_and_wait_for_restart(1);
    client.kill_and_wait_for_restart(3);
    client.assert_echo(&session, "after restarts");
    assert_eq!(client.shut_down(), 0);
    assert_eq!(client.chain.conductor.stderr(), "");
}

/// In a thread of the conductor's, and as a process.
#[test]
fn a_full_disk_for_the_log_component_does_not_touch_the_chain() {
    let process = format!("'{}' component", env!("CARGO_BIN_EXE_conductor"));
    for (number, program) in ["builtin:", &format!("{process} ")].iter().enumerate() {
        let log = format!("{program}log --file /dev/full --level trace");
        let name = format!("full-disk-{number}");
        let mut client =
            TestClient::start(test_chain(), &name, &[log, proxy("second"), agent(&[])]);
        let session = client.new_session();
        for round in 0..20 {
            client.assert_echo(&session, &format!("round {round}"));
        }
        assert_eq!(client.component_status(1)["restarts"], 0);
        assert_eq!(client.shut_down(), 0);
        let said = client.chain.conductor.stderr();
        assert_eq!(said.matches("No space left").count(), 1, "it is said once: {said}");
    }
}

/// Sets how many descriptors a process may have, in numbers below this one.
fn allow_descriptors(pid: u32, most: u64) {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: 1024 };
    // SAFETY: a limit of a child of ours is set from a structure that lives.
    let done =
        unsafe { libc::prlimit(pid as i32, libc::RLIMIT_NOFILE, &limit, std::ptr::null_mut()) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

const TOO_MANY: &str = "Too many open files";

/// How often a restart has failed for want of descriptors.
fn failures(client: &TestClient) -> usize {
    client.chain.conductor.stderr().matches(TOO_MANY).count()
}

#[test]
fn a_restart_without_descriptors_is_tried_again_until_there_are_some() {
    for number in [1, 3] {
        let options = ["--restarts", "10000/3600", "--restart-delay", "0.01..0.02"];
        let components = [proxy("first"), proxy("second"), agent(&[])];
        let name = format!("descriptors-{number}");
        let mut client = TestClient::start(test_chain().option(&options), &name, &components);
        let session = client.new_session();
        let (conductor, victim) = (client.chain.conductor.pid(), client.pid(number));
        allow_descriptors(conductor, 4);
        signal(victim, libc::SIGKILL);
        wait_until("it was tried in vain", || (failures(&client) >= 3).then_some(()));
        // Who is there can be spoken to as before.
        let held = client.send_prompt(&session, "held");
        wait_until("it was tried again", || (failures(&client) >= 6).then_some(()));
        allow_descriptors(conductor, 1024);
        assert_eq!(client.wait_for_answer(held)["result"]["stopReason"], "end_turn");
        assert_eq!(client.take_texts(&session), ["held"]);
        client.pid(number);
        client.assert_echo(&session, "with descriptors");
        assert_eq!(client.shut_down(), 0);
        let said = client.chain.conductor.stderr();
        assert!(!said.contains("panicked"), "{said}");
    }
}

/// Then the policy comes to its end like after any other failures, and says why.
#[test]
fn restarts_without_descriptors_come_to_an_end() {
    let options = ["--restarts", "3/3600", "--restart-delay", "0..0", "--grace", "0.3"];
    let components = [proxy("first"), agent(&[])];
    // A proxy is left out.
    let mut client =
        TestClient::start(test_chain().option(&options), "no-descriptors-1", &components);
    let session = client.new_session();
    let victim = client.pid(1);
    allow_descriptors(client.chain.conductor.pid(), 4);
    signal(victim, libc::SIGKILL);
    wait_until("it is left out", || {
        let said = client.chain.conductor.stderr();
        said.contains("left out").then_some(())
    });
    client.assert_echo(&session, "without it");
    assert_eq!(client.shut_down(), 0);

    // Without its agent, the chain ends.
    let mut client =
        TestClient::start(test_chain().option(&options), "no-descriptors-2", &components);
    let session = client.new_session();
    let victim = client.pid(2);
    let id = client.send_prompt(&session, "wait");
    client.wait_for_text(&session, "waiting");
    allow_descriptors(client.chain.conductor.pid(), 4);
    signal(victim, libc::SIGKILL);
    let answer = client.wait_for_answer(id);
    assert_eq!(answer["error"]["data"]["component"], "agent", "{answer}");
    assert_eq!(client.chain.conductor.status(), 1);
    let said = client.chain.conductor.stderr();
    let last = said.lines().last().expect("a line");
    assert!(last.starts_with("conductor: agent 'agent'") && last.contains(TOO_MANY), "{said}");
    assert!(!said.contains("panicked"), "{said}");
}

/// Where an MCP client can call: the port, and the secret.
fn declared(client: &mut TestClient) -> (String, u16, String) {
    let session = client.new_session();
    let (said, _) = client.run_turn(&session, "servers");
    let servers: Value = testkit::test_chain::parse(&said[0]);
    let port = servers[0]["args"][1].as_str().and_then(|it| it.parse().ok()).expect("a port");
    (session, port, servers[0]["env"][0]["value"].as_str().expect("a secret").to_owned())
}

#[test]
fn calls_that_use_up_the_descriptors_keep_nobody_from_going_on() {
    let components = [component("words", "word_count_proxy", &[]), agent(&["--bridged"])];
    let options = ["--restarts", "10000/3600", "--restart-delay", "0.01..0.02"];
    let mut client = TestClient::start(test_chain().option(&options), "calls", &components);
    let (session, port, secret) = declared(&mut client);
    let conductor = client.chain.conductor.pid();
    let (said, _) = client.run_turn(&session, "client one two three");
    assert_eq!(said, ["3 words"]);

    let before = usage(conductor);
    allow_descriptors(conductor, 64);
    let mut calls: Vec<TcpStream> = Vec::new();
    let mut call = |secret: &str| -> bool {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
        stream.set_read_timeout(Some(std::time::Duration::from_millis(300))).expect("a setting");
        let greeted = writeln!(stream, r#"{{"conductor":"{secret}"}}"#).is_ok();
        let mut line = String::new();
        let copy = stream.try_clone().expect("a second handle");
        let welcome = greeted && BufReader::new(copy).read_line(&mut line).is_ok_and(|it| it > 0);
        calls.push(stream);
        welcome
    };
    // As many as there is room for, and one that is not even accepted.
    while call(&secret) {}
    assert!(usage(conductor).descriptors >= 60, "{:?}", usage(conductor));
    // Whoever is there goes on; who dies cannot be started now.
    client.assert_echo(&session, "meanwhile");
    let victim = client.chain.conductor.component_pid("word_count_proxy");
    signal(victim, libc::SIGKILL);
    wait_until("it was tried in vain", || (failures(&client) >= 1).then_some(()));
    // The callers leave: there is room.
    drop(calls);
    client.pid(1);
    let (said, _) = client.run_turn(&session, "client one two");
    assert_eq!(said, ["2 words"]);
    allow_descriptors(conductor, 1024);
    assert_eq!(crate::growth(conductor, before) >> 13, 0);
    assert_eq!(client.shut_down(), 0);
    let said = client.chain.conductor.stderr();
    assert!(!said.contains("panicked"), "{said}");
}
