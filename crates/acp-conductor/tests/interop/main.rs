//! The conductor between third-party programs: editors, agents and proxies that use the official Rust,
//! TypeScript and Python SDKs, the reference conductor, and proxies and conductors of every published
//! generation. Every run is the conversation of `peers/README.md`, so each pair of editor and agent must
//! report the same events.
//!
//! `CONDUCTOR=/path/to/another cargo test --test interop` runs the same tests with another conductor, to see
//! which program causes a failure.

mod budget;
mod faults;
mod filter;
mod generations;
mod hooks;
mod library;
mod mcp;
mod metrics;
mod permissions;
mod rate_limit;
mod recordings;
mod run;
mod scripts;
mod sdks;
mod survival;
mod updates;

use std::env;
use std::sync::LazyLock;

use serde_json::{Value, json};
use testkit::peers::{Peers, quote};

use run::Run;

static PEERS: LazyLock<Peers> = LazyLock::new(Peers::load);

/// Runs the conversation over `CONDUCTOR agent CHAIN…`, in which the proxies leave these marks, in order
/// from the editor.
fn check(editor: &str, conductor: &str, chain: &[String], marks: &[&str]) {
    check_command(editor, &agent(conductor, chain), marks);
}

/// Runs the conversation over a command that is an agent to its editor.
fn check_command(editor: &str, command: &str, marks: &[&str]) {
    let summary = Run::start(editor, command).summary();
    let what = format!("{editor} over {command}");
    let events = summary["events"].as_array().unwrap_or_else(|| panic!("{what}: {summary}"));

    let expected = expected_events(marks);
    for (at, (event, expected)) in events.iter().zip(&expected).enumerate() {
        assert_eq!(event, expected, "event {at} of {what}");
    }
    assert_eq!(
        events.len(),
        expected.len(),
        "the last events of {what}: {:?}",
        events.last_chunk::<3>()
    );
    let updates = expected.iter().filter(|it| it.get("update").is_some()).count();
    assert_eq!(summary["understood"], updates, "{what}");
    assert_eq!(
        summary["answered"],
        json!(["session/request_permission", "fs/read_text_file"]),
        "{what}"
    );
    assert_eq!(summary["protocolVersion"], 1, "{what}");
    let agents = [
        ("rust_agent", "rust-agent"),
        ("ts_agent", "typescript-agent"),
        ("py_agent", "python-agent"),
    ];
    let (_, name) =
        agents.iter().find(|(it, _)| command.contains(PEERS.command(it))).expect("one of ours");
    assert_eq!(summary["agent"], *name, "{what}");
}

/// The events that an editor must report.
fn expected_events(marks: &[&str]) -> Vec<Value> {
    // A prompt passes the first proxy first, an update passes it last.
    let heard: String = marks.iter().map(|it| format!(" {it}")).collect();
    let prefix: String = marks.iter().map(|it| format!("{it}:")).collect();
    let chunk =
        |text: &str| json!({ "update": "agent_message_chunk", "text": format!("{prefix}{text}") });
    let file = env::current_dir().expect("cargo sets it").join("peer.txt");

    let mut events = vec![chunk(&format!("heard count to 50{heard}"))];
    events.extend((1..=50).map(|number| chunk(&number.to_string())));
    events.extend([
        json!({ "update": "tool_call" }),
        json!({ "asked": "session/request_permission" }),
        chunk("permission allow"),
        json!({ "asked": "fs/read_text_file" }),
        chunk(&format!("file words of {}", file.display())),
        json!({ "answer": "end_turn" }),
        chunk("waiting"),
        json!({ "answer": "cancelled" }),
    ]);
    events
}

fn own_conductor() -> String {
    let other = env::var("CONDUCTOR");
    quote(other.as_deref().unwrap_or(env!("CARGO_BIN_EXE_conductor")))
}

fn reference() -> String {
    peer("reference")
}

fn peer(name: &str) -> String {
    PEERS.command(name).to_owned()
}

fn marking(mark: &str) -> String {
    format!("{} --mark {mark}", peer("rust_proxy"))
}

fn agent(conductor: &str, chain: &[String]) -> String {
    let components: Vec<String> = chain.iter().map(|it| quote(it)).collect();
    format!("{conductor} agent {}", components.join(" "))
}

/// A nested chain of marking proxies, as one component.
fn proxies(conductor: &str, marks: &[&str]) -> String {
    let components: Vec<String> = marks.iter().map(|it| quote(&marking(it))).collect();
    format!("{conductor} proxy {}", components.join(" "))
}
