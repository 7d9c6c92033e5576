//! How servers are addressed: the id as its provider writes it, the method names that the provider
//! knows, and envelopes that cannot be delivered.

use crate::harness::*;

/// A chain in which `p1` has declared a server. The agent answers `initialize` with this.
fn declared(generation: &str, agent: &str, entry: &str) -> Harness {
    let mut harness = Harness::new(&format!("p1:{generation} agent"), agent);
    harness.send_line("p1", &format!(r#"~session/new 1 {{"mcpServers":[{entry}]}}"#));
    harness.expect("agent", "session/new ? …");
    harness
}

/// Checklist 79: ids are compared without one leading `acp:`, and the provider sees its own.
#[test]
fn a_stateless_provider_sees_the_id_that_it_has_declared() {
    for id in ["U", "acp:U", "acp:acp:U", "acp:"] {
        let bare = id.strip_prefix("acp:").unwrap_or(id);
        for received in [id.to_owned(), format!("acp:{bare}")] {
            let entry = format!(r#"{{"type":"acp","name":"N","serverId":"{id}"}}"#);
            let mut harness = declared("P5", NATIVE, &entry);
            let call = |id: &str| format!(r#"{{"serverId":"{id}","requestId":"r","method":"x"}}"#);
            harness.send_line("agent", &format!("mcp/message 1 {}", call(&received)));
            let request = harness.expect("p1", &format!("~mcp/message ? {}", call(id)));
            // Its messages name the server by the id that the agent uses.
            harness.send_line("p1", &format!("~mcp/message {}", call(id)));
            harness.expect("agent", &format!("mcp/message {}", call(&received)));
            harness.send_line("p1", &format!(r#"result {request} {{"result":{{}}}}"#));
            harness.expect("agent", r#"result 1 {"result":{}}"#);
            harness.expect_nothing_more();
        }
    }
}

#[test]
fn a_provider_with_connections_sees_the_id_that_it_has_declared() {
    for (key, method, member) in
        [("serverId", "mcp/message", "serverId"), ("id", "mcp/connect", "acpId")]
    {
        for id in ["U", "acp:U", "acp:acp:U"] {
            let entry = format!(r#"{{"type":"acp","name":"N","{key}":"{id}"}}"#);
            // A client of the bridge.
            let mut harness = declared("P5", STDIO, &entry);
            let client = harness.connect_client(harness.tickets()[0]);
            harness.client_sends(client, "tools/call 1 {}");
            harness.expect("p1", &format!(r#"~{method} ? {{"{member}":"{id}"…"#));
            // A native agent with connections.
            for received in ["acpId", "serverId", "acpUrl"] {
                let mut harness = declared("P5", NATIVE, &entry);
                let bare = id.strip_prefix("acp:").unwrap_or(id);
                harness
                    .send_line("agent", &format!(r#"mcp/connect 1 {{"{received}":"acp:{bare}"}}"#));
                harness.expect("p1", &format!(r#"~mcp/connect ? {{"{member}":"{id}"…"#));
            }
        }
    }
}

/// Two ids that are equal without their prefix stay two servers.
#[test]
fn two_servers_whose_ids_differ_only_in_the_prefix_are_kept_apart() {
    let entries =
        r#"{"type":"acp","name":"A","serverId":"U"},{"type":"acp","name":"B","serverId":"acp:U"}"#;
    let mut harness = Harness::new("p1:P5 agent", NATIVE);
    harness.send_line("p1", &format!(r#"~session/new 1 {{"mcpServers":[{entries}]}}"#));
    harness
        .expect("agent", r#"session/new ? {"mcpServers":[{…"serverId":"U"},{…"serverId":"U#2"}]}"#);
    for (received, id) in [("U", "U"), ("U#2", "acp:U")] {
        let call = |id: &str| format!(r#"{{"serverId":"{id}","requestId":"r","method":"x"}}"#);
        harness.send_line("agent", &format!("mcp/message 1 {}", call(received)));
        let request = harness.expect("p1", &format!("~mcp/message ? {}", call(id)));
        harness.send_line("p1", &format!("~mcp/message {}", call(id)));
        harness.expect("agent", &format!("mcp/message {}", call(received)));
        harness.send_line("p1", &format!(r#"result {request} {{"result":{{}}}}"#));
        harness.expect("agent", r#"result 1 {"result":{}}"#);
    }
}

/// Older proxies get the id in another syntax. Messages of the agent still reach the server.
#[test]
fn ids_with_prefixes_pass_older_proxies() {
    for id in ["U", "acp:U", "acp:acp:U"] {
        let mut harness = Harness::new("p1:P5 (x:P4) agent", NATIVE);
        let entry = format!(r#"{{"type":"acp","name":"N","serverId":"{id}"}}"#);
        harness.send_line("p1", &format!(r#"~session/new 1 {{"mcpServers":[{entry}]}}"#));
        harness.expect("agent", r#"session/new ? {"mcpServers":[{…"serverId":"…"}]}"#);
        let agent_id = harness.last_server("serverId");
        let call = |id: &str| format!(r#"{{"serverId":"{id}","requestId":"r","method":"x"}}"#);
        harness.send_line("agent", &format!("mcp/message 1 {}", call(&agent_id)));
        let request = harness.expect("p1", &format!("~mcp/message ? {}", call(id)));
        harness.send_line("p1", &format!("~mcp/message {}", call(id)));
        harness.expect("agent", &format!("mcp/message {}", call(&agent_id)));
        harness.send_line("p1", &format!(r#"result {request} {{"result":{{}}}}"#));
        harness.expect("agent", r#"result 1 {"result":{}}"#);
        harness.expect_nothing_more();
    }
}

const URL: &str = r#"{"type":"http","name":"N","url":"acp:U","headers":[]}"#;
const CONNECT: &str = r#"~_mcp/connect ? {"acp_url":"acp:U","acp_id":"acp:U","url":"acp:U","connectionId":"mcp-over-acp:1"}"#;

/// Checklist 76: M2, M3 and M3t understand the same connect. The answer, or the first refusal,
/// shows which form the provider uses.
#[test]
fn a_provider_that_accepts_the_consumers_id_is_treated_as_m3t() {
    for generation in ["P3", "P3t", "P4"] {
        for connected in [r#"{}"#, r#"{"connectionId":"mcp-over-acp:1","tools":[]}"#] {
            let mut harness = declared(generation, STDIO, URL);
            let client = harness.connect_client(harness.tickets()[0]);
            harness.client_sends(client, "initialize 1 {}");
            let id = harness.expect("p1", CONNECT);
            harness.send_line("p1", &format!("result {id} {connected}"));
            let message = r#"~_mcp/message ? {"connectionId":"mcp-over-acp:1","method":"initialize","params":{}}"#;
            let id = harness.expect("p1", message);
            harness.send_line("p1", &format!(r#"result {id} {{"a":1}}"#));
            harness.expect_client(client, r#"result 1 {"a":1}"#);
            harness.disconnect(client);
            harness.expect("p1", "~_mcp/disconnect …");
            harness.expect_nothing_more();
        }
    }
}

#[test]
fn a_provider_that_does_not_know_the_first_method_names_gets_the_others() {
    let words = [("P3", "_mcp/request", "_mcp/message"), ("P3t", "_mcp/request", "_mcp/message")];
    for (generation, first, second) in
        words.into_iter().chain([("P4", "_mcp/message", "_mcp/request")])
    {
        let mut harness = declared(generation, STDIO, URL);
        let client = harness.connect_client(harness.tickets()[0]);
        harness.client_sends(client, "initialize 1 {}");
        let id = harness.expect("p1", CONNECT);
        harness.send_line("p1", &format!(r#"result {id} {{"connectionId":"V"}}"#));
        let id = harness.expect("p1", &format!(r#"~{first} ? {{…"method":"initialize"…"#));
        harness.send_line("p1", &format!(r#"error {id} {{"code":-32601,"message":"what?"}}"#));
        let id = harness.expect("p1", &format!(r#"~{second} ? {{…"method":"initialize"…"#));
        harness.send_line("p1", &format!("result {id} {{}}"));
        harness.expect_client(client, "result 1 {}");
        // From then on an unknown method is an MCP error.
        harness.client_sends(client, "resources/list 2");
        let id = harness.expect("p1", &format!(r#"~{second} ? {{…"method":"resources/list"…"#));
        harness
            .send_line("p1", &format!(r#"error {id} {{"code":-32601,"message":"no resources"}}"#));
        harness.expect_client(client, r#"error 2 {"code":-32601,"message":"no resources"}"#);
        harness.expect_nothing_more();
    }
}

/// The same for a stateless agent. Here the broker sends `initialize`.
#[test]
fn an_initialize_of_the_broker_is_sent_again_under_the_other_name() {
    let mut harness = declared("P3", NATIVE, URL);
    harness.send_line(
        "agent",
        r#"mcp/message 1 {"serverId":"U","requestId":"r","method":"tools/list"}"#,
    );
    let id = harness.expect("p1", CONNECT);
    harness.send_line("p1", &format!(r#"result {id} {{"connection_id":"V"}}"#));
    let id = harness.expect("p1", r#"~_mcp/request ? {…"method":"initialize"…"#);
    harness.send_line("p1", &format!(r#"error {id} {{"code":-32601,"message":"what?"}}"#));
    let id = harness.expect("p1", r#"~_mcp/message ? {…"method":"initialize"…"#);
    harness.send_line("p1", &format!("result {id} {{}}"));
    harness.expect("p1", r#"~_mcp/message {…"method":"notifications/initialized"…"#);
    let id = harness.expect("p1", r#"~_mcp/message ? {…"method":"tools/list"…"#);
    harness.send_line("p1", &format!(r#"result {id} {{"tools":[]}}"#));
    harness.expect("agent", r#"result 1 {"result":{"tools":[],"resultType":"complete"}}"#);
    harness.expect_nothing_more();
}

/// Checklist 81: the broker answers in place of a stateless provider.
#[test]
fn invalid_envelopes_are_refused_and_not_delivered() {
    let mut harness = declared("P4", NATIVE, URL);
    for params in [
        r#"{"requestId":"r","method":"x"}"#,
        r#"{"serverId":"U","method":"x"}"#,
        r#"{"serverId":"U","requestId":"r"}"#,
        r#"{"serverId":null,"requestId":"r","method":"x"}"#,
        r#"{"serverId":"U","requestId":7,"method":"x"}"#,
        r#"{"serverId":"U","requestId":"r","method":["x"]}"#,
        r#"{"serverId":"U","requestId":"r","method":"x","params":7}"#,
        r#"{"serverId":"U","requestId":"r","method":"x","params":[1]}"#,
        r#"{"serverId":"U","requestId":"r","method":"x","params":"y"}"#,
        r#"{"serverId":"U","requestId":null,"connectionId":"V","method":"x"}"#,
        r#"{}"#,
        r#"[]"#,
    ] {
        harness.send_line("agent", &format!("mcp/message 1 {params}"));
        harness.expect("agent", r#"error 1 {"code":-32602,…}"#);
        harness.send_line("agent", &format!("mcp/message {params}"));
        harness.expect_nothing_more();
    }
    harness.send_line("agent", r#"mcp/message 2 {"serverId":"W","requestId":"r","method":"x"}"#);
    let id = harness.expect("p1", "~mcp/message ? …");
    harness.send_line("p1", r#"mcp/message 9 {"serverId":"W","requestId":"r","method":"x"}"#);
    let refused = harness.expect("p1", r#"error 9 {"code":-33001,…"#);
    assert_eq!(refused, "9");
    harness.send_line("p1", &format!(r#"error {id} {{"code":-33001,"message":"no"}}"#));
    harness.expect("agent", r#"error 2 {"code":-33001,…"#);
    harness.expect_nothing_more();
}

#[test]
fn a_request_id_that_is_in_use_is_refused() {
    let mut harness = declared("P4", NATIVE, URL);
    let received = r#"{"serverId":"U","requestId":"r","method":"tools/call"}"#;
    harness.send_line("agent", &format!("mcp/message 1 {received}"));
    let connect = harness.expect("p1", "~_mcp/connect ? …");
    // While the connection is being opened, …
    harness.send_line("agent", &format!("mcp/message 2 {received}"));
    harness.expect("agent", r#"error 2 {"code":-32602,…'r'…"#);
    harness.send_line("p1", &format!(r#"result {connect} {{"connection_id":"V"}}"#));
    let initialize = harness.expect("p1", r#"~_mcp/message ? …"initialize"…"#);
    harness.send_line("agent", &format!("mcp/message 3 {received}"));
    harness.expect("agent", r#"error 3 {"code":-32602,…'r'…"#);
    harness.send_line("p1", &format!("result {initialize} {{}}"));
    harness.expect("p1", r#"~_mcp/message {…"notifications/initialized"…"#);
    let call = harness.expect("p1", r#"~_mcp/message ? …"tools/call"…"#);
    // … and while the server handles the request.
    harness.send_line("agent", &format!("mcp/message 4 {received}"));
    harness.expect("agent", r#"error 4 {"code":-32602,…'r'…"#);
    harness.expect_nothing_more();
    harness.send_line("p1", &format!("result {call} {{}}"));
    harness.expect("agent", r#"result 1 {"result":…}"#);
    // After the answer the id can be used again.
    harness.send_line("agent", &format!("mcp/message 5 {received}"));
    let call = harness.expect("p1", r#"~_mcp/message ? …"tools/call"…"#);
    harness.send_line("agent", r#"$/cancel_request {"requestId":5}"#);
    harness.expect("p1", &format!(r#"$/cancel_request {{"requestId":"{call}"}}"#));
    harness.expect("p1", r#"~_mcp/message {…"notifications/cancelled"…"#);
    harness.expect("agent", r#"error 5 {"code":-32800,…"#);
    harness.send_line("agent", &format!("mcp/message 6 {received}"));
    harness.expect("p1", r#"~_mcp/message ? …"tools/call"…"#);
    harness.expect_nothing_more();
}

/// A provider whose consumers choose the id of a connection gets the id that its consumer has
/// chosen.
#[test]
fn the_id_that_a_consumer_has_chosen_reaches_the_provider() {
    let entry = r#"{"type":"http","name":"N","url":"acp:U","headers":[]}"#;
    let mut harness = declared("P4", NATIVE, entry);
    harness.send_line("agent", r#"_mcp/connect 1 {"connectionId":"X","url":"acp:U"}"#);
    harness.expect("p1", r#"~_mcp/connect ? …"connectionId":"X"}"#);
    harness.expect_nothing_more();
}
