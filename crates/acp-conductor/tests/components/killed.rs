//! Built-in components that only watch or help are killed as real processes: the chain restarts them and goes on.

use serde_json::json;
use testkit::test_chain::{binary, directory};
use testkit::test_client::TestClient;

use crate::{conductor_path, new_setup};

/// Runs turns before and after the component is killed. The guards have tests of their own.
fn check(name: &str, options: &[&str]) {
    let folder = directory(&format!("killed-{name}"));
    std::fs::create_dir_all(&folder).expect("a new folder");
    let words: Vec<String> = ["component", name]
        .iter()
        .chain(options)
        .map(|word| word.replace("FOLDER", &folder.display().to_string()))
        .collect();
    let component = json!({ "command": conductor_path(), "args": words }).to_string();
    let agent = json!({ "command": binary("resumable_agent") }).to_string();
    let setup = new_setup().option(&["--restart-delay", "0..0", "--notices", "off"]);
    let mut client = TestClient::start(setup, &format!("killed-{name}"), &[component, agent]);
    let session = client.new_session();
    client.assert_echo(&session, "before");
    for round in ["first", "second"] {
        client.kill_and_wait_for_restart(1);
        client.assert_echo(&session, &format!("after the {round} kill"));
    }
    let other = client.new_session();
    client.assert_echo(&other, "in a new session");
    assert_eq!(client.shut_down(), 0, "{}", client.chain.conductor.stderr_so_far());
}

#[test]
fn a_chain_goes_on_when_log_is_killed() {
    check("log", &["--file", "FOLDER/log.jsonl"]);
}

#[test]
fn a_chain_goes_on_when_metrics_is_killed() {
    check("metrics", &["--file", "FOLDER/metrics.prom"]);
}

#[test]
fn a_chain_goes_on_when_cache_is_killed() {
    check("cache", &["--mode", "record", "--file", "FOLDER/chat.jsonl"]);
}

#[test]
fn a_chain_goes_on_when_remind_is_killed() {
    check("remind", &[]);
}

#[test]
fn a_chain_goes_on_when_walkthrough_is_killed() {
    check("walkthrough", &[]);
}

#[test]
fn a_chain_goes_on_when_ide_is_killed() {
    check("ide", &[]);
}
