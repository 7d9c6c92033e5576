//! A machine that has run out of disk space or descriptors.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::Value;
use testkit::test_chain::signal;
use testkit::test_client::TestClient;

use crate::{agent, component, new_setup, proxy, start_chain, usage};

#[test]
fn a_full_disk_for_the_log_does_not_affect_the_chain() {
    let mut client = start_chain("full-log", &["--log", "debug", "--log-file", "/dev/full"]);
    let session = client.new_session();
    for round in 0..20 {
        client.assert_echo(&session, &format!("round {round}"));
    }
    client.kill_and_wait_for_restart(1);
    client.kill_and_wait_for_restart(3);
    client.assert_echo(&session, "after restarts");
    assert_eq!(client.shut_down(), 0);
    assert_eq!(client.chain.conductor.whole_stderr(), "");
}

/// The component runs in the conductor's process, and as a process of its own.
#[test]
fn a_full_disk_for_the_log_component_does_not_affect_the_chain() {
    let process = format!("'{}' component", env!("CARGO_BIN_EXE_conductor"));
    for (number, program) in ["builtin:", &format!("{process} ")].iter().enumerate() {
        let log = format!("{program}log --file /dev/full --level trace");
        let name = format!("full-disk-{number}");
        let mut client = TestClient::start(new_setup(), &name, &[log, proxy("second"), agent(&[])]);
        let session = client.new_session();
        for round in 0..20 {
            client.assert_echo(&session, &format!("round {round}"));
        }
        assert_eq!(client.component_status(1)["restarts"], 0);
        assert_eq!(client.shut_down(), 0);
        let stderr = client.chain.conductor.whole_stderr();
        assert_eq!(stderr.matches("No space left").count(), 1, "reported once: {stderr}");
    }
}

/// Sets the limit of descriptors of a process.
fn allow_descriptors(pid: u32, most: u64) {
    let limit = libc::rlimit { rlim_cur: most, rlim_max: 1024 };
    // SAFETY: sets a limit of a child process from a structure that lives.
    let done =
        unsafe { libc::prlimit(pid as i32, libc::RLIMIT_NOFILE, &limit, std::ptr::null_mut()) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
}

const TOO_MANY: &str = "Too many open files";

/// Waits until this many restarts have failed for lack of descriptors.
fn wait_for_failures(client: &TestClient, count: usize) {
    client
        .chain
        .conductor
        .wait_for_stderr_where(&format!("{TOO_MANY:?} {count} times"), |stderr| {
            stderr.matches(TOO_MANY).count() >= count
        });
}

#[test]
fn a_restart_that_lacks_descriptors_is_retried() {
    for number in [1, 3] {
        let options = ["--restarts", "10000/3600", "--restart-delay", "0.01..0.02"];
        let components = [proxy("first"), proxy("second"), agent(&[])];
        let name = format!("descriptors-{number}");
        let mut client = TestClient::start(new_setup().option(&options), &name, &components);
        let session = client.new_session();
        let (conductor, killed) = (client.chain.conductor.pid(), client.pid(number));
        allow_descriptors(conductor, 4);
        signal(killed, libc::SIGKILL);
        wait_for_failures(&client, 3);
        // The other components work as before.
        let held = client.send_prompt(&session, "held");
        wait_for_failures(&client, 6);
        allow_descriptors(conductor, 1024);
        assert_eq!(client.wait_for_answer(held)["result"]["stopReason"], "end_turn");
        assert_eq!(client.take_texts(&session), ["held"]);
        client.pid(number);
        client.assert_echo(&session, "with descriptors");
        assert_eq!(client.shut_down(), 0);
        let stderr = client.chain.conductor.whole_stderr();
        assert!(!stderr.contains("panicked"), "{stderr}");
    }
}

/// The restart limit applies as after any other failure, and the error names the cause.
#[test]
fn restarts_that_lack_descriptors_count_toward_the_limit() {
    let options = ["--restarts", "3/3600", "--restart-delay", "0..0", "--grace", "0.3"];
    let components = [proxy("first"), agent(&[])];
    // A proxy is bypassed.
    let mut client =
        TestClient::start(new_setup().option(&options), "no-descriptors-1", &components);
    let session = client.new_session();
    let killed = client.pid(1);
    allow_descriptors(client.chain.conductor.pid(), 4);
    signal(killed, libc::SIGKILL);
    client.chain.conductor.wait_for_stderr("bypassed");
    client.assert_echo(&session, "without it");
    assert_eq!(client.shut_down(), 0);

    // Without its agent the chain ends.
    let mut client =
        TestClient::start(new_setup().option(&options), "no-descriptors-2", &components);
    let session = client.new_session();
    let killed = client.pid(2);
    let id = client.send_prompt(&session, "wait");
    client.wait_for_text(&session, "waiting");
    allow_descriptors(client.chain.conductor.pid(), 4);
    signal(killed, libc::SIGKILL);
    let answer = client.wait_for_answer(id);
    assert_eq!(answer["error"]["data"]["component"], "agent", "{answer}");
    assert_eq!(client.chain.conductor.status(), 1);
    let stderr = client.chain.conductor.whole_stderr();
    let last = stderr.lines().last().expect("a line");
    assert!(last.starts_with("conductor: agent 'agent'") && last.contains(TOO_MANY), "{stderr}");
    assert!(!stderr.contains("panicked"), "{stderr}");
}

/// A session, and the port and the secret of its MCP server.
fn session_with_server(client: &mut TestClient) -> (String, u16, String) {
    let session = client.new_session();
    let (texts, _) = client.run_turn(&session, "servers");
    let servers: Value = testkit::test_chain::parse(&texts[0]);
    let port = servers[0]["args"][1].as_str().and_then(|it| it.parse().ok()).expect("a port");
    (session, port, servers[0]["env"][0]["value"].as_str().expect("a secret").to_owned())
}

#[test]
fn mcp_connections_that_use_up_the_descriptors_do_not_block_the_chain() {
    let components = [component("words", "word_count_proxy", &[]), agent(&["--bridged"])];
    let options = ["--restarts", "10000/3600", "--restart-delay", "0.01..0.02"];
    let mut client = TestClient::start(new_setup().option(&options), "calls", &components);
    let (session, port, secret) = session_with_server(&mut client);
    let conductor = client.chain.conductor.pid();
    let (texts, _) = client.run_turn(&session, "client one two three");
    assert_eq!(texts, ["3 words"]);

    let before = usage(conductor);
    allow_descriptors(conductor, 64);
    let mut connections: Vec<TcpStream> = Vec::new();
    let mut connect = |secret: &str| -> bool {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)) else { return false };
        stream.set_read_timeout(Some(std::time::Duration::from_millis(300))).expect("a setting");
        let sent = writeln!(stream, r#"{{"conductor":"{secret}"}}"#).is_ok();
        let mut line = String::new();
        let copy = stream.try_clone().expect("a second handle");
        let welcome = sent && BufReader::new(copy).read_line(&mut line).is_ok_and(|it| it > 0);
        connections.push(stream);
        welcome
    };
    // As many connections as possible, and one that is not accepted.
    while connect(&secret) {}
    assert!(usage(conductor).descriptors >= 60, "{:?}", usage(conductor));
    // The running components work as before. A crashed one cannot be restarted now.
    client.assert_echo(&session, "meanwhile");
    let killed = client.chain.conductor.component_pid("word_count_proxy");
    signal(killed, libc::SIGKILL);
    wait_for_failures(&client, 1);
    // The clients disconnect, which frees descriptors.
    drop(connections);
    client.pid(1);
    let (texts, _) = client.run_turn(&session, "client one two");
    assert_eq!(texts, ["2 words"]);
    allow_descriptors(conductor, 1024);
    assert_eq!(crate::growth(conductor, before) >> 13, 0);
    assert_eq!(client.shut_down(), 0);
    let stderr = client.chain.conductor.whole_stderr();
    assert!(!stderr.contains("panicked"), "{stderr}");
}
