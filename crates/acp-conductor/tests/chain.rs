//! The chain as a whole: handshake, routing, ends. Real processes, played line by line.

use testkit::stage::Stage;

fn stage() -> testkit::stage::Setup {
    Stage::new(env!("CARGO_BIN_EXE_conductor"))
}

/// Checklist 4, 32, 98; 74 for the bridge that is off.
#[test]
fn an_agent_without_proxies_is_relayed() {
    let mut stage = stage().option(&["--mcp-bridge", "off"]).agent(&["agent"]);
    let greeting = r#"{"protocolVersion":1,"clientCapabilities":{"x":[1.10]},"unknown":null}"#;
    stage.editor.send(&format!(
        r#"{{"jsonrpc":"2.0","id":"a","method":"initialize","params":{greeting}}}"#
    ));
    let mut agent = stage.enter("agent");
    let line = agent.line();
    assert!(line.ends_with(&format!(r#""method":"initialize","params":{greeting}}}"#)), "{line}");
    let result = r#"{"protocolVersion":1,"agentInfo":{"n":1e2}}"#;
    agent.answer(&testkit::stage::parse(&line), result);
    assert_eq!(stage.editor.line(), format!(r#"{{"jsonrpc":"2.0","id":"a","result":{result}}}"#));
    stage.editor.leave();
    assert_eq!(agent.next_line(), None);
    agent.exit(0);
    assert_eq!(stage.conductor.status(), 0);
    assert_eq!(stage.conductor.stderr(), "");
}
