//! The answer to `initialize` that proxies and editors receive: it declares MCP over ACP.

use mcp::BridgePolicy;

use crate::harness::*;

const PROXIES: [&str; 7] = ["P5", "P4", "P3", "P3t", "P2", "P1", "P0"];

/// The answer of an SCP proxy to `initialize`, and the part of it that the others receive.
const SCP_PROXY: &str = r#"{"protocolVersion":1,"agentCapabilities":{}}"#;
const SCP_PROXY_TOLD: &str =
    r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"acp":true}}}"#;

/// Checks that a proxy receives `expected` when the agent answers `agent`, and passes it on.
#[track_caller]
fn check_capabilities(agent: &str, version: &str, expected: &str) {
    for generation in PROXIES {
        let mut harness =
            Harness::before_initialize(&format!("p1:P5 p2:{generation} agent"), BridgePolicy::Auto);
        harness.send_line("editor", &format!(r#"initialize 1 {{"protocolVersion":{version}}}"#));
        let first = harness.expect("p1", "initialize ? …");
        harness.send_line("p1", &format!(r#"~initialize 1 {{"protocolVersion":{version}}}"#));
        let second = harness.expect("p2", "initialize ? …");
        harness.send_line("p2", &format!(r#"~initialize 1 {{"protocolVersion":{version}}}"#));
        let third = harness.expect("agent", "initialize ? …");
        harness.send_line("agent", &format!("result {third} {agent}"));
        harness.expect("p2", &format!("result 1 {}", encoded_for(generation, expected)));
        // The proxy passes on the answer that it has received, or the original answer of the agent.
        // An SCP proxy has answered on its own before it had a successor.
        harness.send_line("p2", &format!("result {second} {agent}"));
        let (passed, received) = match generation {
            "P0" => (SCP_PROXY, SCP_PROXY_TOLD),
            _ => (agent, expected),
        };
        harness.expect("p1", &format!("result 1 {received}"));
        harness.send_line("p1", &format!("result {first} {passed}"));
        harness.expect("editor", &format!("result 1 {received}"));
        harness.expect_nothing_more();
    }
}

/// The same answer in the encoding of the proxy's generation.
fn encoded_for(generation: &str, result: &str) -> String {
    let place: &[&str] = match generation {
        "P4" | "P3" => &["agentCapabilities", "_meta", "symposium", "mcp_acp_transport"],
        "P3t" => &["capabilities", "mcp_acp_transport"],
        "P2" | "P1" => &["_meta", "mcp_acp_transport"],
        _ => return result.to_owned(),
    };
    json(result).with_at(place, Some(&acp_wire::Json::TRUE)).to_string()
}

/// Checklist 74.
#[test]
fn proxies_and_the_editor_see_the_capability_whatever_the_agent_declares() {
    check_capabilities(
        r#"{"protocolVersion":1}"#,
        "1",
        r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"acp":true}}}"#,
    );
    check_capabilities(
        r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"http":true,"acp":false},"x":1.0},"z":2}"#,
        "1",
        r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"http":true,"acp":true},"x":1.0},"z":2}"#,
    );
}

/// Checklist 74, 109.
#[test]
fn in_acp_v2_the_capability_has_another_path() {
    check_capabilities(
        r#"{"protocolVersion":2,"info":{},"capabilities":{"session":{"mcp":{"stdio":{}}}}}"#,
        "2",
        r#"{"protocolVersion":2,"info":{},"capabilities":{"session":{"mcp":{"stdio":{},"acp":{}}}}}"#,
    );
    check_capabilities(
        r#"{"protocolVersion":2,"info":{},"capabilities":{}}"#,
        "2",
        r#"{"protocolVersion":2,"info":{},"capabilities":{"session":{"mcp":{"acp":{}}}}}"#,
    );
}

/// Checklist 74.
#[test]
fn the_answer_of_an_agent_that_declares_the_capability_is_unchanged() {
    for (result, version) in [
        (NATIVE, "1"),
        (
            r#"{"protocolVersion":2,"info":{},"capabilities":{"session":{"mcp":{"acp":{"x":1}}}}}"#,
            "2",
        ),
    ] {
        check_capabilities(result, version, result);
    }
}

#[test]
fn errors_pass_unchanged_and_a_second_initialize_is_answered() {
    let mut harness = Harness::before_initialize("(p1:P4) agent", BridgePolicy::Auto);
    harness.send_line("editor", r#"initialize 1 {"protocolVersion":1}"#);
    let id = harness.expect("agent", "initialize ? …");
    harness.send_line("agent", &format!(r#"error {id} {{"code":-32000,"message":"log in"}}"#));
    harness.expect("editor", r#"error 1 {"code":-32000,"message":"log in"}"#);
    for again in 2..4 {
        harness.send_line("editor", &format!(r#"initialize {again} {{"protocolVersion":1}}"#));
        let id = harness.expect("agent", "initialize ? …");
        harness.send_line("agent", &format!(r#"result {id} {{"protocolVersion":1}}"#));
        harness.expect("editor", &format!(r#"result {again} {{…"acp":true…}}"#));
    }
    harness.expect_nothing_more();
}

/// Checklist 74: proxies of the oldest generation get the older capability, and the editor gets
/// none.
#[test]
fn editors_of_the_oldest_generation_do_not_get_the_capability() {
    let any_version = |setup: &mut engine::Setup| setup.chain.any_version = true;
    let mut harness = Harness::with_setup("p1:P2 agent", BridgePolicy::Auto, any_version);
    let initialize = r#"{"protocolVersion":"0.1.0"}"#;
    harness.send_line("editor", &format!("initialize 1 {initialize}"));
    let first = harness.expect("p1", "initialize ? …");
    harness.send_line("p1", &format!("~initialize 1 {initialize}"));
    let second = harness.expect("agent", "initialize ? …");
    harness.send_line("agent", &format!("result {second} {initialize}"));
    let received = r#"{"protocolVersion":"0.1.0","_meta":{"mcp_acp_transport":true}}"#;
    harness.expect("p1", &format!("result 1 {received}"));
    harness.send_line("p1", &format!("result {first} {received}"));
    harness.expect("editor", &format!("result 1 {initialize}"));
}
