//! The scenarios of the Sparkle documents, with the built-in `sparkle`.

use acp_proxy::script::{Conversation, play};
use components::{BuiltIn, sparkle::Sparkle};

fn sparkle(options: &[&str]) -> acp_proxy::Component {
    use clap::Parser;
    Sparkle::parse_from(std::iter::once(&"sparkle").chain(options)).build()
}

const EMBODIMENT: &str = r#"{"sessionId":"S1","prompt":[{"type":"text","text":"Please use the embody_sparkle tool to load your collaborative patterns."}]}"#;
const UPDATE: &str =
    r#"{"method":"session/update","params":{"sessionId":"S1","update":"thinking..."}}"#;

fn filled(script: &str) -> String {
    script.replace("EMBODIMENT", EMBODIMENT).replace("UPDATE", UPDATE)
}

/// Scenarios 2 and 3: the first prompt waits for the embodiment, later ones pass.
#[test]
fn the_first_prompt_waits_for_the_embodiment_and_later_ones_pass() {
    let script = filled(
        r#"
        editor > {"id":"P0","method":"session/prompt","params":{"sessionId":"S1","prompt":[{"type":"text","text":"hello"}],"odd":1.5}}
        agent  < {"id":"P1","method":"session/prompt","params":EMBODIMENT}
        agent  > UPDATE
        editor < UPDATE
        # Another prompt of this session waits, too.
        editor > {"id":"P9","method":"session/prompt","params":{"sessionId":"S1","prompt":[]}}
        agent  > {"id":"P1","result":{"stopReason":"end_turn"}}
        agent  < {"id":"P2","method":"session/prompt","params":{"sessionId":"S1","prompt":[{"type":"text","text":"hello"}],"odd":1.5}}
        agent  < {"id":"P10","method":"session/prompt","params":{"sessionId":"S1","prompt":[]}}
        agent  > {"id":"P2","result":{"stopReason":"end_turn","odd":2.5}}
        editor < {"id":"P0","result":{"stopReason":"end_turn","odd":2.5}}
        agent  > {"id":"P10","result":{"stopReason":"end_turn"}}
        editor < {"id":"P9","result":{"stopReason":"end_turn"}}
        editor > {"id":"P3","method":"session/prompt","params":{"sessionId":"S1","messages":"of old"}}
        agent  < {"id":"P4","method":"session/prompt","params":{"sessionId":"S1","messages":"of old"}}
        agent  > {"id":"P4","result":{"role":"assistant"}}
        editor < {"id":"P3","result":{"role":"assistant"}}
        "#,
    );
    play(sparkle(&[]), &script);
}

/// In version 2 of ACP, the embodiment and the user's turn do not overlap, and the editor sees only the end of the user's
/// turn.
#[test]
fn in_version_2_the_prompt_waits_for_the_end_of_the_embodiment() {
    let state = |state: &str| {
        format!(
            r#"{{"method":"session/update","params":{{"sessionId":"S1","update":{{"sessionUpdate":"state_update","state":{state}}}}}}}"#
        )
    };
    let script = r#"
        editor > {"id":"I","method":"initialize","params":{"protocolVersion":2}}
        agent  < {"id":"I","method":"initialize","params":{"protocolVersion":2}}
        agent  > {"id":"I","result":{"protocolVersion":2}}
        editor < {"id":"I","result":{"protocolVersion":2}}
        editor > {"id":"P0","method":"session/prompt","params":{"sessionId":"S1","prompt":[]}}
        agent  < {"id":"P1","method":"session/prompt","params":EMBODIMENT}
        agent  > {"id":"P1","result":{"messageId":"m1"}}
        agent  > RUNNING
        editor < RUNNING
        agent  > UPDATE
        SHOWN
        agent  > IDLE
        agent  < {"id":"P2","method":"session/prompt","params":{"sessionId":"S1","prompt":[]}}
        agent  > {"id":"P2","result":{"messageId":"m2"}}
        editor < {"id":"P0","result":{"messageId":"m2"}}
        agent  > RUNNING
        editor < RUNNING
        agent  > UPDATE
        editor < UPDATE
        agent  > IDLE
        editor < IDLE
        "#;
    for (options, shown) in [(&[][..], "editor < UPDATE"), (&["--hide"], "")] {
        let script = script
            .replace("SHOWN", shown)
            .replace("RUNNING", &state(r#""running""#))
            .replace("IDLE", &state(r#""idle","stopReason":"end_turn""#));
        play(sparkle(options), &filled(&script));
    }
}

#[test]
fn with_hide_updates_of_the_embodiment_are_dropped() {
    let script = filled(
        r#"
        editor > {"id":1,"method":"session/prompt","params":{"sessionId":"S1","prompt":[]}}
        agent  < {"id":1,"method":"session/prompt","params":EMBODIMENT}
        agent  > UPDATE
        agent  > {"method":"session/update","params":{"sessionId":"other"}}
        editor < {"method":"session/update","params":{"sessionId":"other"}}
        agent  > {"id":1,"result":{"stopReason":"end_turn"}}
        agent  < {"id":2,"method":"session/prompt","params":{"sessionId":"S1","prompt":[]}}
        agent  > UPDATE
        editor < UPDATE
        agent  > {"id":2,"result":{"stopReason":"end_turn"}}
        editor < {"id":1,"result":{"stopReason":"end_turn"}}
        "#,
    );
    play(sparkle(&["--hide"]), &script);
}

#[test]
fn a_failed_or_cancelled_embodiment_answers_the_prompt_and_is_repeated() {
    let script = filled(
        r#"
        editor > {"id":1,"method":"session/prompt","params":{"sessionId":"S1","prompt":[]}}
        agent  < {"id":1,"method":"session/prompt","params":EMBODIMENT}
        agent  > {"id":1,"error":{"code":-32000,"message":"log in first"}}
        editor < {"id":1,"error":{"code":-32000,"message":"log in first"}}
        editor > {"id":2,"method":"session/prompt","params":{"sessionId":"S1","prompt":[]}}
        agent  < {"id":2,"method":"session/prompt","params":EMBODIMENT}
        editor > {"method":"session/cancel","params":{"sessionId":"S1"}}
        agent  < {"method":"session/cancel","params":{"sessionId":"S1"}}
        agent  > {"id":2,"result":{"stopReason":"cancelled"}}
        editor < {"id":2,"result":{"stopReason":"cancelled"}}
        editor > {"id":3,"method":"session/prompt","params":{"sessionId":"S1","prompt":[]}}
        agent  < {"id":3,"method":"session/prompt","params":EMBODIMENT}
        "#,
    );
    play(sparkle(&[]), &script);
}

#[test]
fn a_loaded_session_needs_no_embodiment() {
    play(
        sparkle(&[]),
        r#"
        editor > {"id":1,"method":"session/prompt","params":{"sessionId":"other"}}
        agent  < {"id":1,"method":"session/prompt","params":{"sessionId":"other","prompt":[{"type":"text","text":"Please use the embody_sparkle tool to load your collaborative patterns."}]}}
        "#,
    );
    let mut conversation = Conversation::new(sparkle(&[]));
    conversation.send(
        "editor",
        r#"{"id":1,"method":"session/load","params":{"sessionId":"S1","mcpServers":[]}}"#,
    );
    let load = conversation.receive("agent");
    assert_eq!(load["params"]["mcpServers"][0]["name"], "sparkle");
    conversation.send("agent", &format!(r#"{{"id":{},"result":null}}"#, load["id"]));
    assert!(conversation.receive("editor")["result"].is_null());
    conversation.send(
        "editor",
        r#"{"id":2,"method":"session/prompt","params":{"sessionId":"S1","prompt":["x"]}}"#,
    );
    assert_eq!(conversation.receive("agent")["params"]["prompt"][0], "x");
}

#[test]
fn the_tool_returns_the_text_of_the_users_file() {
    let path = std::env::temp_dir().join(format!("sparkle-{}.md", std::process::id()));
    std::fs::write(&path, "be kind").unwrap();
    let mut conversation = Conversation::new(sparkle(&["--text", path.to_str().unwrap()]));
    conversation
        .send("editor", r#"{"id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}"#);
    let new = conversation.receive("agent");
    let server = new["params"]["mcpServers"][0]["serverId"].as_str().unwrap().to_owned();
    let call = format!(
        r#"{{"id":1,"method":"mcp/message","params":{{"serverId":"{server}","requestId":"r","method":"tools/call","params":{{"name":"embody_sparkle","arguments":{{}}}}}}}}"#
    );
    conversation.send("agent", &call);
    let answer = conversation.receive("agent");
    assert_eq!(answer["result"]["result"]["content"][0]["text"], "be kind");
    std::fs::remove_file(path).unwrap();
}

/// The text may be a file of a hostile repository.
#[cfg(unix)]
#[test]
fn only_a_regular_file_of_limited_size_is_read() {
    use clap::Parser;
    let folder = std::env::temp_dir().join(format!("sparkle-text-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = |name: &str| folder.join(name);
    std::os::unix::fs::symlink("/dev/zero", path("zero")).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", path("link")).unwrap();
    assert!(std::process::Command::new("mkfifo").arg(path("fifo")).status().unwrap().success());
    std::fs::File::create(path("huge")).unwrap().set_len(1 << 40).unwrap();
    for (name, why) in [
        ("zero", "leads out of its directory"),
        ("link", "leads out of its directory"),
        ("fifo", "not a regular file"),
        ("huge", "longer than"),
        ("missing", "does not exist"),
    ] {
        let sparkle = Sparkle::parse_from(["sparkle", "--text", path(name).to_str().unwrap()]);
        let refused = sparkle.check().unwrap_err();
        assert!(refused.why.contains(why), "{name}: {refused:?}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}
