//! What proxies and editors are told of the agent: that MCP over ACP can be used.

use mcp::BridgePolicy;

use crate::stage::*;

const PROXIES: [&str; 7] = ["P5", "P4", "P3", "P3t", "P2", "P1", "P0"];

/// What an SCP proxy answers to `initialize`, and what of it the others are told.
const SCP_PROXY: &str = r#"{"protocolVersion":1,"agentCapabilities":{}}"#;
const SCP_PROXY_TOLD: &str =
    r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"acp":true}}}"#;

/// The agent says this; a proxy gets, and passes on, that.
#[track_caller]
fn told(agent: &str, version: &str, expected: &str) {
    for dialect in PROXIES {
        let mut stage =
            Stage::before_greeting(&format!("p1:P5 p2:{dialect} agent"), BridgePolicy::Auto);
        stage.say("editor", &format!(r#"initialize 1 {{"protocolVersion":{version}}}"#));
        let first = stage.see("p1", "initialize ? …");
        stage.say("p1", &format!(r#"~initialize 1 {{"protocolVersion":{version}}}"#));
        let second = stage.see("p2", "initialize ? …");
        stage.say("p2", &format!(r#"~initialize 1 {{"protocolVersion":{version}}}"#));
        let third = stage.see("agent", "initialize ? …");
        stage.say("agent", &format!("result {third} {agent}"));
        stage.see("p2", &format!("result 1 {}", in_words_of(dialect, expected)));
        // It passes on what it was told, or what the agent would have said without us. An SCP proxy has answered
        // in its own name before it had a successor.
        stage.say("p2", &format!("result {second} {agent}"));
        let (passed, told) = match dialect {
            "P0" => (SCP_PROXY, SCP_PROXY_TOLD),
            _ => (agent, expected),
        };
        stage.see("p1", &format!("result 1 {told}"));
        stage.say("p1", &format!("result {first} {passed}"));
        stage.see("editor", &format!("result 1 {told}"));
        stage.quiet();
    }
}

/// A proxy is told in the words of its generation, too.
fn in_words_of(dialect: &str, result: &str) -> String {
    let place: &[&str] = match dialect {
        "P4" | "P3" => &["agentCapabilities", "_meta", "symposium", "mcp_acp_transport"],
        "P3t" => &["capabilities", "mcp_acp_transport"],
        "P2" | "P1" => &["_meta", "mcp_acp_transport"],
        _ => return result.to_owned(),
    };
    json(result).with_at(place, Some(&acp_wire::Json::TRUE)).to_string()
}

/// Checklist 74.
#[test]
fn proxies_and_editor_see_the_capability_whatever_the_agent_and_other_proxies_say() {
    told(
        r#"{"protocolVersion":1}"#,
        "1",
        r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"acp":true}}}"#,
    );
    told(
        r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"http":true,"acp":false},"x":1.0},"z":2}"#,
        "1",
        r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"http":true,"acp":true},"x":1.0},"z":2}"#,
    );
}

/// Checklist 74, 109.
#[test]
fn in_v2_it_has_another_place() {
    told(
        r#"{"protocolVersion":2,"info":{},"capabilities":{"session":{"mcp":{"stdio":{}}}}}"#,
        "2",
        r#"{"protocolVersion":2,"info":{},"capabilities":{"session":{"mcp":{"stdio":{},"acp":{}}}}}"#,
    );
    told(
        r#"{"protocolVersion":2,"info":{},"capabilities":{}}"#,
        "2",
        r#"{"protocolVersion":2,"info":{},"capabilities":{"session":{"mcp":{"acp":{}}}}}"#,
    );
}

/// Checklist 74.
#[test]
fn nothing_is_added_where_the_agent_says_it() {
    for (result, version) in [
        (NATIVE, "1"),
        (
            r#"{"protocolVersion":2,"info":{},"capabilities":{"session":{"mcp":{"acp":{"x":1}}}}}"#,
            "2",
        ),
    ] {
        told(result, version, result);
    }
}

#[test]
fn errors_pass_and_a_second_greeting_is_answered_too() {
    let mut stage = Stage::before_greeting("(p1:P4) agent", BridgePolicy::Auto);
    stage.say("editor", r#"initialize 1 {"protocolVersion":1}"#);
    let id = stage.see("agent", "initialize ? …");
    stage.say("agent", &format!(r#"error {id} {{"code":-32000,"message":"log in"}}"#));
    stage.see("editor", r#"error 1 {"code":-32000,"message":"log in"}"#);
    for again in 2..4 {
        stage.say("editor", &format!(r#"initialize {again} {{"protocolVersion":1}}"#));
        let id = stage.see("agent", "initialize ? …");
        stage.say("agent", &format!(r#"result {id} {{"protocolVersion":1}}"#));
        stage.see("editor", &format!(r#"result {again} {{…"acp":true…}}"#));
    }
    stage.quiet();
}

/// Checklist 74: who speaks of agents with other versions is told in its own words, the editor
/// nothing.
#[test]
fn editors_of_the_oldest_generation_are_told_nothing() {
    let any_version = |setup: &mut engine::Setup| setup.chain.any_version = true;
    let mut stage = Stage::of_setup("p1:P2 agent", BridgePolicy::Auto, any_version);
    let hello = r#"{"protocolVersion":"0.1.0"}"#;
    stage.say("editor", &format!("initialize 1 {hello}"));
    let first = stage.see("p1", "initialize ? …");
    stage.say("p1", &format!("~initialize 1 {hello}"));
    let second = stage.see("agent", "initialize ? …");
    stage.say("agent", &format!("result {second} {hello}"));
    let told = r#"{"protocolVersion":"0.1.0","_meta":{"mcp_acp_transport":true}}"#;
    stage.see("p1", &format!("result 1 {told}"));
    stage.say("p1", &format!("result {first} {told}"));
    stage.see("editor", &format!("result 1 {hello}"));
}
