//! Chains of real processes are recorded, and every journal replays identically.

#![cfg(unix)]

use std::fs::read_to_string;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use engine::journal::{ReplaySummary, replay};
use serde_json::json;
use testkit::rpc::{notification, request, result};
use testkit::test_chain::{TestChain, TestChainBuilder, binary, directory, signal, wait_until};

const CONDUCTOR: &str = env!("CARGO_BIN_EXE_conductor");

/// A conductor that records in this directory. Any test can be recorded by setting this variable.
fn recording_setup(directory: &Path) -> TestChainBuilder {
    let setup =
        TestChain::builder(CONDUCTOR).env("CONDUCTOR_JOURNAL", &directory.to_string_lossy());
    setup.option(&["--restart-delay", "0..0", "--grace", "0.1"])
}

/// The text of the only journal in a directory, after its conductor has ended.
fn journal(directory: &Path) -> String {
    let mut entries = std::fs::read_dir(directory).expect("a directory");
    let path = entries.next().expect("a journal").expect("a journal").path();
    assert!(entries.next().is_none(), "there is a second journal");
    read_to_string(path).expect("UTF-8")
}

fn assert_replays(journal: &str) -> ReplaySummary {
    let report = replay(journal.split_inclusive('\n')).unwrap_or_else(|why| panic!("{why}"));
    assert!(!report.cut_off);
    report
}

fn end(mut chain: TestChain) {
    chain.editor.close();
    chain.conductor.wait();
}

#[test]
fn a_restart_replays_identically() {
    let directory = directory("journal-restart");
    let mut chain = recording_setup(&directory).run_named(&["proxy", "agent"]);
    let components = chain.initialize(&["proxy", "agent"]);
    chain.editor.send(&request("7", "session/new", r#"{"cwd":"/","mcpServers":[]}"#));
    signal(components[0].pid, libc::SIGKILL);
    let mut proxy = chain.wait_for_component("proxy");
    proxy.request("proxy/initialize");
    end(chain);
    let journal = journal(&directory);
    assert!(journal.contains(r#"{"Signal":9}"#), "{journal}");
    assert!(journal.contains(r#"{"Start":{"seat":1,"incarnation":1}}"#), "{journal}");
    assert_replays(&journal);
}

#[test]
fn bad_lines_replay_identically() {
    let directory = directory("journal-bad-line");
    let mut chain =
        recording_setup(&directory).option(&["--max-line", "2000"]).run_named(&["agent"]);
    let mut components = chain.initialize(&["agent"]);
    chain.editor.send(&request("7", "session/new", "{}"));
    let received = components[0].request("session/new");
    let lines = ["[INFO] ready".into(), "x".repeat(3000), format!("{{\"id\":{}", received["id"])];
    lines.iter().for_each(|line| components[0].send(line));
    components[0].execute(json!({"out_hex": "fffe000a"}));
    components[0].answer(&received, r#"{"sessionId":"s"}"#);
    chain.editor.line();
    end(chain);
    let journal = journal(&directory);
    for part in [r#""TooLong""#, r#"{"hex":"fffe00"}"#, r#""Warn""#] {
        assert!(journal.contains(part), "{part}: {journal}");
    }
    assert_replays(&journal);
}

#[test]
fn flow_control_replays_identically() {
    let directory = directory("journal-flow");
    let agent = format!("'{}'", binary("counting_agent").display());
    let mut chain = recording_setup(&directory).run("agent", &[agent]);
    chain.editor.send(&request("0", "initialize", r#"{"protocolVersion":1}"#));
    chain.editor.send(&request("1", "_flood", "[30000,200]"));
    // The conductor stops reading the agent, because the editor does not read.
    wait_until("the agent is paused", || {
        let path = std::fs::read_dir(&directory).ok()?.flatten().next()?.path();
        read_to_string(path).ok()?.contains(r#""read":false"#).then_some(())
    });
    while chain.editor.line() != result("1", "null") {}
    end(chain);
    let journal = journal(&directory);
    assert!(journal.contains(r#""read":true"#));
    assert!(assert_replays(&journal).bytes > 6_000_000);
}

#[test]
fn the_messages_of_an_mcp_client_replay_identically() {
    let directory = directory("journal-mcp");
    let mut command = Command::new(CONDUCTOR);
    command.args(["try", "--prompt", "hello", "--", "sparkle", "demo-agent"]);
    command.env("CONDUCTOR_JOURNAL", &directory);
    let caches = testkit::test_chain::directory("journal-mcp-caches");
    let output = command.env("XDG_CACHE_HOME", &caches).env("XDG_RUNTIME_DIR", &caches).output();
    let output = output.expect("it runs");
    assert!(output.status.success(), "{output:?}");
    let journal = journal(&directory);
    for part in [
        r#"{"OpenEndpoint":"#,
        r#"{"EndpointOpened":"#,
        r#"{"ClientMessage":"#,
        r#"{"SendToClient":"#,
    ] {
        assert!(journal.contains(part), "{part}: {journal}");
    }
    assert_replays(&journal);
}

/// Runs a chain without any messages.
fn run(path: &Path) -> Output {
    let mut command = Command::new(CONDUCTOR);
    command.args(["agent", "--status", "off", "--journal"]).arg(path).arg("demo-agent");
    command.stdin(Stdio::null()).output().expect("it runs")
}

fn assert_refused(path: &Path, why: &str) {
    let output = run(path);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("cannot write the journal") && stderr.contains(why), "{stderr}");
}

#[test]
fn a_journal_is_private_and_overwrites_only_a_journal() {
    let directory = directory("journal-file");
    let path = directory.join("journal.jsonl");
    for _ in 0..2 {
        let output = run(&path);
        assert!(output.status.success(), "{output:?}");
        assert_eq!(path.metadata().expect("it exists").permissions().mode() & 0o777, 0o600);
        let journal = read_to_string(&path).expect("UTF-8");
        assert_eq!(journal.matches(r#"{"journal":"#).count(), 1, "{journal}");
        assert_replays(&journal);
    }
    let link: PathBuf = directory.join("link");
    symlink(&path, &link).expect("a link");
    assert_refused(&link, "symbolic link");
    let notes = directory.join("notes");
    std::fs::write(&notes, "my notes").expect("a file");
    assert_refused(&notes, "the file exists and is not a journal");
    assert_eq!(read_to_string(&notes).expect("a file"), "my notes");
    assert_refused(&directory, "");
    assert_refused(Path::new("/dev/null"), "not a regular file");
}

#[test]
fn two_conductors_cannot_write_the_same_journal() {
    let directory = directory("journal-two");
    let path = directory.join("journal.jsonl");
    let setup = TestChain::builder(CONDUCTOR).option(&["--journal", &path.to_string_lossy()]);
    let mut chain = setup.run_named(&["agent"]);
    let mut components = chain.initialize(&["agent"]);
    assert_refused(&path, "another conductor is writing to it");
    components[0].send(&notification("next", ""));
    assert_eq!(chain.editor.line(), notification("next", ""));
    end(chain);
    assert!(assert_replays(&read_to_string(&path).expect("UTF-8")).inputs > 4);
}
