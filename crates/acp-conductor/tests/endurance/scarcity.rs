//! A machine that has run out of something: room on the disk, descriptors.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::Value;
use testkit::drive::Drive;
use testkit::stage::{signal, wait_until};

use crate::{agent, chain, component, proxy, stage, usage};

#[test]
fn a_full_disk_for_the_log_does_not_touch_the_chain() {
    let mut chain = chain("full-log", &["--log", "debug", "--log-file", "/dev/full"]);
    let session = chain.session();
    for round in 0..20 {
        chain.echo(&session, &format!("round {round}"));
    }
    chain.replace(1);
    chain.replace(3);
    chain.echo(&session, "after restarts");
    assert_eq!(chain.end(), 0);
    assert_eq!(chain.stage.conductor.stderr(), "");
}

/// In a thread of the conductor's, and as a process.
#[test]
fn a_full_disk_for_the_log_component_does_not_touch_the_chain() {
    let process = format!("'{}' component", env!("CARGO_BIN_EXE_conductor"));
    for (number, program) in ["builtin:", &format!("{process} ")].iter().enumerate() {
        let log = format!("{program}log --file /dev/full --level trace");
        let name = format!("full-disk-{number}");
        let mut chain = Drive::start(stage(), &name, &[log, proxy("second"), agent(&[])]);
        let session = chain.session();
        for round in 0..20 {
            chain.echo(&session, &format!("round {round}"));
        }
        assert_eq!(chain.component(1)["restarts"], 0);
        assert_eq!(chain.end(), 0);
        let said = chain.stage.conductor.stderr();
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
fn failures(chain: &Drive) -> usize {
    chain.stage.conductor.stderr().matches(TOO_MANY).count()
}

#[test]
fn a_restart_without_descriptors_is_tried_again_until_there_are_some() {
    for number in [1, 3] {
        let options = ["--restarts", "10000/3600", "--restart-delay", "0.01..0.02"];
        let components = [proxy("first"), proxy("second"), agent(&[])];
        let name = format!("descriptors-{number}");
        let mut chain = Drive::start(stage().option(&options), &name, &components);
        let session = chain.session();
        let (conductor, victim) = (chain.stage.conductor.pid(), chain.pid(number));
        allow_descriptors(conductor, 4);
        signal(victim, libc::SIGKILL);
        wait_until("it was tried in vain", || (failures(&chain) >= 3).then_some(()));
        // Who is there can be spoken to as before.
        let held = chain.prompt(&session, "held");
        wait_until("it was tried again", || (failures(&chain) >= 6).then_some(()));
        allow_descriptors(conductor, 1024);
        assert_eq!(chain.answer(held)["result"]["stopReason"], "end_turn");
        assert_eq!(chain.said(&session), ["held"]);
        chain.pid(number);
        chain.echo(&session, "with descriptors");
        assert_eq!(chain.end(), 0);
        let said = chain.stage.conductor.stderr();
        assert!(!said.contains("panicked"), "{said}");
    }
}

/// Then the policy comes to its end like after any other failures, and says why.
#[test]
fn restarts_without_descriptors_come_to_an_end() {
    let options = ["--restarts", "3/3600", "--restart-delay", "0..0", "--grace", "0.3"];
    let components = [proxy("first"), agent(&[])];
    // A proxy is left out.
    let mut chain = Drive::start(stage().option(&options), "no-descriptors-1", &components);
    let session = chain.session();
    let victim = chain.pid(1);
    allow_descriptors(chain.stage.conductor.pid(), 4);
    signal(victim, libc::SIGKILL);
    wait_until("it is left out", || {
        let said = chain.stage.conductor.stderr();
        said.contains("left out").then_some(())
    });
    chain.echo(&session, "without it");
    assert_eq!(chain.end(), 0);

    // Without its agent, the chain ends.
    let mut chain = Drive::start(stage().option(&options), "no-descriptors-2", &components);
    let session = chain.session();
    let victim = chain.pid(2);
    let id = chain.prompt(&session, "wait");
    chain.wait_for_word(&session, "waiting");
    allow_descriptors(chain.stage.conductor.pid(), 4);
    signal(victim, libc::SIGKILL);
    let answer = chain.answer(id);
    assert_eq!(answer["error"]["data"]["component"], "agent", "{answer}");
    assert_eq!(chain.stage.conductor.status(), 1);
    let said = chain.stage.conductor.stderr();
    let last = said.lines().last().expect("a line");
    assert!(last.starts_with("conductor: agent 'agent'") && last.contains(TOO_MANY), "{said}");
    assert!(!said.contains("panicked"), "{said}");
}

/// Where an MCP client can call: the port, and the secret.
fn declared(chain: &mut Drive) -> (String, u16, String) {
    let session = chain.session();
    let (said, _) = chain.turn(&session, "servers");
    let servers: Value = testkit::stage::parse(&said[0]);
    let port = servers[0]["args"][1].as_str().and_then(|it| it.parse().ok()).expect("a port");
    (session, port, servers[0]["env"][0]["value"].as_str().expect("a secret").to_owned())
}

#[test]
fn calls_that_use_up_the_descriptors_keep_nobody_from_going_on() {
    let components = [component("words", "words", &[]), agent(&["--bridged"])];
    let options = ["--restarts", "10000/3600", "--restart-delay", "0.01..0.02"];
    let mut chain = Drive::start(stage().option(&options), "calls", &components);
    let (session, port, secret) = declared(&mut chain);
    let conductor = chain.stage.conductor.pid();
    let (said, _) = chain.turn(&session, "client one two three");
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
    chain.echo(&session, "meanwhile");
    let victim = chain.stage.conductor.component("words");
    signal(victim, libc::SIGKILL);
    wait_until("it was tried in vain", || (failures(&chain) >= 1).then_some(()));
    // The callers leave: there is room.
    drop(calls);
    chain.pid(1);
    let (said, _) = chain.turn(&session, "client one two");
    assert_eq!(said, ["2 words"]);
    allow_descriptors(conductor, 1024);
    assert_eq!(crate::growth(conductor, before) >> 13, 0);
    assert_eq!(chain.end(), 0);
    let said = chain.stage.conductor.stderr();
    assert!(!said.contains("panicked"), "{said}");
}
