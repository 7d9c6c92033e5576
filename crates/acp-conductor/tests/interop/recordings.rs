//! Recordings of agents on the official SDKs: an editor sees the same from `replay-agent` as from the agent.

use std::fs;

use testkit::peers::quote;

use crate::run::Run;
use crate::{agent, own_conductor, peer};

/// Records the conversation of an editor with an agent, and replays it for all editors.
fn check_recording(agent_name: &str, recorder: &str) {
    let file = format!(
        "{}/recording-{agent_name}-{}.jsonl",
        env!("CARGO_TARGET_TMPDIR"),
        std::process::id()
    );
    drop(fs::remove_file(&file));
    let record = format!("cache --mode record --file {}", quote(&file));
    let live =
        Run::start(recorder, &agent(&own_conductor(), &[record, peer(agent_name)])).summary();
    assert!(live["events"].as_array().is_some_and(|it| it.len() > 50), "{live}");
    let recorded = fs::read_to_string(&file).expect("a recording");

    for editor in ["rust_editor", "ts_editor", "py_editor"] {
        let replay = format!("replay-agent {}", quote(&file));
        let replayed = Run::start(editor, &agent(&own_conductor(), &[replay])).summary();
        assert_eq!(replayed, live, "{editor} and the recording of {agent_name}");
    }
    // Behind the cache is an agent that fails at any prompt.
    let cache = format!("cache --mode replay --file {}", quote(&file));
    let chain = [cache, "demo-agent --require-login".to_owned()];
    let replayed = Run::start("ts_editor", &agent(&own_conductor(), &chain)).summary();
    assert_eq!(replayed, live, "cache and the recording of {agent_name}");
    assert_eq!(
        fs::read_to_string(&file).expect("a recording"),
        recorded,
        "a replay changes nothing"
    );
}

#[test]
fn a_recording_of_a_rust_agent_replays_in_all_editors() {
    check_recording("rust_agent", "py_editor");
}

#[test]
fn a_recording_of_a_typescript_agent_replays_in_all_editors() {
    check_recording("ts_agent", "rust_editor");
}

#[test]
fn a_recording_of_a_python_agent_replays_in_all_editors() {
    check_recording("py_agent", "ts_editor");
}
