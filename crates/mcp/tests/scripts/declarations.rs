//! Servers in set-up requests, as each component receives them.

use mcp::{BridgePolicy, Transport};

use crate::harness::*;

const SETS_UP: [&str; 4] = ["session/new", "session/load", "session/resume", "session/fork"];
const OLDER_GENERATIONS: [&str; 6] = ["P4", "P3", "P3t", "P2", "P1", "P0"];

/// Every declaration of a server `N` with the id `U`: in a list, and in a map.
const SPELLINGS: [(&str, &str); 5] = [
    (r#"{"type":"acp","name":"N","serverId":"U"}"#, r#"{"transport":"acp","serverId":"U"}"#),
    (r#"{"type":"acp","name":"N","id":"U"}"#, r#"{"transport":"acp","id":"U"}"#),
    (r#"{"name":"N","transport":"acp","uuid":"U"}"#, r#"{"transport":"acp","uuid":"U"}"#),
    (URL, r#"{"transport":"http","url":"acp:U","headers":{}}"#),
    (r#"{"type":"http","name":"N","url":"acp:U"}"#, r#"{"type":"http","url":"acp:U"}"#),
];
const SERVER_ID: &str = r#"{"type":"acp","name":"N","serverId":"U"}"#;
const URL: &str = r#"{"type":"http","name":"N","url":"acp:U","headers":[]}"#;

const V2_NONE: &str =
    r#"{"protocolVersion":2,"info":{"name":"a","version":"1"},"capabilities":{"session":{}}}"#;

fn v2(transports: &str) -> String {
    V2_NONE.replace(r#""session":{}"#, &format!(r#""session":{{"mcp":{{{transports}}}}}"#))
}

/// Checks the set-up request that the component behind a provider receives.
#[track_caller]
fn passes(participants: &str, agent: &str, given: &str, expected: &str) {
    for method in SETS_UP {
        let mut harness = Harness::new(participants, agent);
        let next = participants.split([' ', ':']).nth(2).unwrap();
        harness.send_line("p1", &format!("~{method} 1 {given}"));
        harness.expect(next, &format!("{method} ? {expected}"));
        harness.expect_nothing_more();
    }
}

fn list(entry: &str) -> String {
    format!(r#"{{"cwd":"/x","mcpServers":[{entry}]}}"#)
}

fn map(entry: &str) -> String {
    format!(r#"{{"tools":{{"mcpServers":{{"N":{entry}}}}}}}"#)
}

/// Checklist 72, 89.
#[test]
fn components_older_than_p5_get_a_url_that_they_pass_on() {
    for generation in OLDER_GENERATIONS {
        let participants = format!("p1:P5 p2:{generation} agent");
        for (as_list, as_map) in SPELLINGS {
            // A declaration without headers stays unchanged.
            let kept = as_list.contains("http").then_some((as_list, as_map));
            let (url, url_in_map) = kept.unwrap_or((URL, SPELLINGS[3].1));
            passes(&participants, STDIO, &list(as_list), &list(url));
            passes(&participants, STDIO, &map(as_map), &map(url_in_map));
        }
    }
}

/// Checklist 72, 89.
#[test]
fn p5_components_get_a_server_id() {
    for (as_list, as_map) in SPELLINGS {
        passes("p1:P4 p2:P5 agent", STDIO, &list(as_list), &list(SERVER_ID));
        let kept = as_map.contains("serverId").then_some(as_map);
        let expected = kept.unwrap_or(r#"{"transport":"acp","uuid":"U"}"#);
        passes("p1:P4 p2:P5 agent", STDIO, &map(as_map), &map(expected));
    }
}

/// Checklist 97: an SCP server has no id, so it gets a unique one.
#[test]
fn an_scp_server_passes_components_of_other_generations() {
    let scp = r#"{"type":"scp","name":"N"}"#;
    let given = list(scp);
    let url = r#"{"type":"http","name":"N","url":"acp:scp:1:N","headers":[]}"#;
    passes("p1:P0 p2:P4 agent", STDIO, &given, &list(url));
    let acp = r#"{"type":"acp","name":"N","serverId":"scp:1:N"}"#;
    passes("p1:P0 p2:P5 agent", STDIO, &given, &list(acp));
    let both = r#"{"type":"acp","name":"N","id":"scp:1:N","serverId":"scp:1:N"}"#;
    passes("p1:P0 agent", NATIVE, &given, &list(both));
    passes("p1:P0 agent", SCP, &given, &given);
    passes("p1:P0 agent", SCP, &map(r#"{"transport":"scp"}"#), &map(r#"{"transport":"scp"}"#));
    let mut harness = Harness::new("p1:P0 (p2:P4) (p3:P5) agent", SCP);
    harness.send_line("p1", &format!("~session/new 1 {given}"));
    harness.expect("agent", &format!("session/new ? {given}"));
}

/// Checklist 69, 72.
#[test]
fn a_native_agent_gets_the_declaration_unchanged() {
    let given = r#"{"cwd":"/x", "mcpServers":[ {"type":"acp","name":"N","serverId":"U","z":1} ]}"#;
    passes("p1:P5 agent", NATIVE, given, given);
    let given = list(r#"{"type":"acp","name":"N","id":"U"}"#);
    passes("p1:P5 agent", NATIVE, &given, &given);
    let nameless = list(r#"{"type":"acp","name":"N"}"#);
    passes("p1:P5 agent", NATIVE, &nameless, &nameless);
}

#[test]
fn a_declaration_that_is_rewritten_for_a_native_agent_has_both_ids() {
    let both = list(r#"{"type":"acp","name":"N","id":"U","serverId":"U"}"#);
    for (as_list, _) in &SPELLINGS[2..] {
        passes("p1:P4 agent", NATIVE, &list(as_list), &both);
    }
    let kept = r#"{"type":"http","name":"N","url":"acp:U","headers":[],"_meta":{"k":1.0}}"#;
    let both = r#"{"type":"acp","name":"N","id":"U","serverId":"U","_meta":{"k":1.0}}"#;
    passes("p1:P4 agent", NATIVE, &list(kept), &list(both));
}

/// Agents with the older capability understand the older declarations.
#[test]
fn an_older_native_agent_gets_older_declarations() {
    for initialize_result in [
        OLDER,
        r#"{"protocolVersion":1,"mcp_acp_transport":true}"#,
        r#"{"protocolVersion":1,"agentCapabilities":{"_meta":{"symposium":{"mcp_acp_transport":true}}}}"#,
        r#"{"protocolVersion":1,"capabilities":{"mcp_acp_transport":true}}"#,
    ] {
        for (as_list, as_map) in SPELLINGS {
            let kept = !as_list.contains(r#""type":"acp""#);
            let expected = if kept { as_list } else { URL };
            passes("p1:P5 agent", initialize_result, &list(as_list), &list(expected));
            let in_map = if kept { as_map } else { SPELLINGS[3].1 };
            passes("p1:P5 agent", initialize_result, &map(as_map), &map(in_map));
        }
    }
}

/// Checklist 70, 71, 72.
#[test]
fn agents_without_mcp_over_acp_get_an_endpoint() {
    let stdio = r#"{"name":"N","command":"/conductor","args":["mcp","7000"],"env":[{"name":"SECRET","value":"s1"}]}"#;
    let http = r#"{"type":"http","name":"N","url":"http://127.0.0.1:7000/mcp","headers":[{"name":"Authorization","value":"Bearer s1"}]}"#;
    for (as_list, as_map) in SPELLINGS {
        passes("p1:P4 agent", STDIO, &list(as_list), &list(stdio));
        passes("p1:P4 agent", HTTP, &list(as_list), &list(http));
        let in_map = r#"{"transport":"stdio","command":"/conductor","args":["mcp","7000"],"env":{"SECRET":"s1"}}"#;
        passes("p1:P4 agent", STDIO, &map(as_map), &map(in_map));
        let in_map = r#"{"transport":"http","url":"http://127.0.0.1:7000/mcp","headers":{"Authorization":"Bearer s1"}}"#;
        passes("p1:P4 agent", HTTP, &map(as_map), &map(in_map));
    }
}

/// Checklist 109.
#[test]
fn in_acp_v2_every_server_has_a_type() {
    let stdio = r#"{"type":"stdio","name":"N","command":"/conductor","args":["mcp","7000"],"env":[{"name":"SECRET","value":"s1"}]}"#;
    let http = r#"{"type":"http","name":"N","url":"http://127.0.0.1:7000/mcp","headers":[{"name":"Authorization","value":"Bearer s1"}]}"#;
    let given = list(SERVER_ID);
    passes("p1:P5 agent", &v2(r#""stdio":{}"#), &given, &list(stdio));
    passes("p1:P5 agent", &v2(r#""http":{}"#), &given, &list(http));
    passes("p1:P5 agent", &v2(r#""stdio":{},"http":{}"#), &given, &list(http));
    passes("p1:P5 agent", &v2(r#""stdio":{},"http":{},"acp":{}"#), &given, &given);
    // Servers with other types stay unchanged.
    let others = r#"{"type":"stdio","name":"a","command":"b"},{"type":"_own","name":"c"}"#;
    let given = list(&format!("{others},{SERVER_ID}"));
    let expected = list(&format!("{others},{stdio}"));
    passes("p1:P5 agent", &v2(r#""stdio":{}"#), &given, &expected);
}

/// Checklist 109.
#[test]
fn a_v2_agent_without_any_transport_cannot_have_servers() {
    for agent in [V2_NONE, &v2(r#""sse":{}"#), &v2(r#""stdio":null"#)] {
        let mut harness = Harness::new("p1:P5 agent", agent);
        harness.send_line("p1", &format!("~session/new 1 {}", list(SERVER_ID)));
        harness.expect(
            "p1",
            r#"error 1 {"code":-32602,"message":"agent 'agent' accepts MCP servers neither…"}"#,
        );
        harness.expect_nothing_more();
        harness.expect_all_closed();
    }
    let mut harness =
        Harness::with_policy("p1:P5 agent", V2_NONE, BridgePolicy::Only(Transport::Http));
    harness.send_line("p1", &format!("~session/new 1 {}", list(SERVER_ID)));
    harness.expect("agent", r#"session/new ? …"type":"http"…"#);
}

/// Checklist 73.
#[test]
fn other_servers_and_members_stay_unchanged() {
    let before = r#"{"name":"a", "command":"b","args":[],"env":[ ]},{"type":"http","name":"h","url":"http://acp:1/","headers":[]}"#;
    let after = r#"{"type":"sse","name":"s","url":"https:\/\/y","headers":[]},{"type":"acp2","name":"q","serverId":"U"}"#;
    let params = |entry: &str| {
        format!(r#"{{"cwd" : "/x","mcpServers":[{before},{entry},{after}],"z":1.10,"e":1e400}}"#)
    };
    let stdio = r#"{"name":"N","command":"/conductor","args":["mcp","7000"],"env":[{"name":"SECRET","value":"s1"}]}"#;
    passes("p1:P5 p2:P4 agent", STDIO, &params(SERVER_ID), &params(URL));
    passes("p1:P4 p2:P5 agent", STDIO, &params(URL), &params(SERVER_ID));
    passes("p1:P5 agent", STDIO, &params(SERVER_ID), &params(stdio));
    // A request without ACP servers stays unchanged.
    for given in [
        r#"{"mcpServers":[ {"name":"a","command":"b"} , {"type":"http","name":"h","url":"http://x"} ]}"#,
        r#"{"mcpServers": null, "cwd":"/"}"#,
        r#"{"mcpServers":[ ]}"#,
        r#"{"mcpServers":{ }}"#,
        r#"{ }"#,
    ] {
        passes("p1:P5 p2:P4 agent", STDIO, given, given);
        passes("p1:P5 agent", STDIO, given, given);
    }
    let mut harness = Harness::new("p1:P5 agent", STDIO);
    let prompt = format!(r#"session/prompt 1 {{"mcpServers":[{SERVER_ID}]}}"#);
    harness.send_line("p1", &format!("~{prompt}"));
    harness.expect("agent", &prompt.replace(" 1 ", " ? "));
    harness.send_line("p1", &format!(r#"~session/update {{"mcpServers":[{SERVER_ID}]}}"#));
    harness.expect("agent", &format!(r#"session/update {{"mcpServers":[{SERVER_ID}]}}"#));
}

/// A server without an id cannot be addressed, and cannot be declared to older components.
#[test]
fn a_server_without_an_id_is_refused_with_an_error_that_names_it() {
    let given = list(r#"{"type":"acp","name":"nemo"}"#);
    for participants in
        ["p1:P5 agent", "p1:P5 (p2:P5) agent", "p1:P5 (p2:P4) agent", "p1:P5 (p2:P3) agent"]
    {
        let mut harness = Harness::new(participants, STDIO);
        harness.send_line("p1", &format!("~session/new 1 {given}"));
        harness.expect("p1", r#"error 1 {"code":-32602,"message":"…'nemo'…"}"#);
        harness.expect_nothing_more();
        harness.expect_all_closed();
    }
    // Checklist 89: also if the agent might accept it.
    let mut harness = Harness::new("p1:P5 p2:P4 agent", NATIVE);
    harness.send_line("p1", &format!("~session/new 1 {given}"));
    harness.expect("p1", r#"error 1 {"code":-32602,"message":"…'nemo'…"}"#);
    harness.expect_nothing_more();
}

#[test]
fn a_session_is_refused_with_the_reason_if_an_endpoint_cannot_be_opened() {
    let mut harness = Harness::new("p1:P5 agent", STDIO);
    harness.endpoints.failure = Some("no port is free".into());
    harness.send_line("p1", &format!("~session/new 1 {}", list(SERVER_ID)));
    harness.expect("p1", r#"error 1 {"code":-32603,"message":"the MCP server 'N' cannot be offered to agent 'agent': no port is free"}"#);
    harness.expect_nothing_more();
    harness.expect_all_closed();
}
