//! A chain of an agent alone: handshake, messages and end. The components are scripted.

use testkit::test_chain::TestChain;

fn new_setup() -> testkit::test_chain::TestChainBuilder {
    TestChain::builder(env!("CARGO_BIN_EXE_conductor"))
}

/// Checklist 4, 32, 98; 74 with the bridge off.
#[test]
fn an_agent_without_proxies_is_relayed() {
    let mut chain = new_setup().option(&["--mcp-bridge", "off"]).run_agent(&["agent"]);
    let greeting = r#"{"protocolVersion":1,"clientCapabilities":{"x":[1.10]},"unknown":null}"#;
    chain.editor.send(&format!(
        r#"{{"jsonrpc":"2.0","id":"a","method":"initialize","params":{greeting}}}"#
    ));
    let mut agent = chain.wait_for_component("agent");
    let line = agent.line();
    assert!(line.ends_with(&format!(r#""method":"initialize","params":{greeting}}}"#)), "{line}");
    let result = r#"{"protocolVersion":1,"agentInfo":{"n":1e2}}"#;
    agent.answer(&testkit::test_chain::parse(&line), result);
    assert_eq!(chain.editor.line(), format!(r#"{{"jsonrpc":"2.0","id":"a","result":{result}}}"#));
    chain.editor.close();
    assert_eq!(agent.next_line(), None);
    agent.exit(0);
    assert_eq!(chain.conductor.status(), 0);
    assert_eq!(chain.conductor.whole_stderr(), "");
}
