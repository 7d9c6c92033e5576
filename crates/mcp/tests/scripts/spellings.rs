//! How servers are addressed: the provider's own spelling of their ids, the words that it knows, and
//! envelopes that nobody can deliver.

use crate::stage::*;

/// A stage on which `p1` has declared a server to an agent that answers like this.
fn declared(dialect: &str, agent: &str, entry: &str) -> Stage {
    let mut stage = Stage::new(&format!("p1:{dialect} agent"), agent);
    stage.say("p1", &format!(r#"~session/new 1 {{"mcpServers":[{entry}]}}"#));
    stage.see("agent", "session/new ? …");
    stage
}

/// Checklist 79: ids are compared without one leading `acp:`, and the provider sees its own.
#[test]
fn a_stateless_provider_sees_the_id_that_it_has_declared() {
    for id in ["U", "acp:U", "acp:acp:U", "acp:"] {
        let bare = id.strip_prefix("acp:").unwrap_or(id);
        for said in [id.to_owned(), format!("acp:{bare}")] {
            let entry = format!(r#"{{"type":"acp","name":"N","serverId":"{id}"}}"#);
            let mut stage = declared("P5", NATIVE, &entry);
            let call = |id: &str| format!(r#"{{"serverId":"{id}","requestId":"r","method":"x"}}"#);
            stage.say("agent", &format!("mcp/message 1 {}", call(&said)));
            let asked = stage.see("p1", &format!("~mcp/message ? {}", call(id)));
            // What it says is about the server as the agent calls it.
            stage.say("p1", &format!("~mcp/message {}", call(id)));
            stage.see("agent", &format!("mcp/message {}", call(&said)));
            stage.say("p1", &format!(r#"result {asked} {{"result":{{}}}}"#));
            stage.see("agent", r#"result 1 {"result":{}}"#);
            stage.quiet();
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
            let mut stage = declared("P5", STDIO, &entry);
            let client = stage.call(stage.tickets()[0]);
            stage.hear(client, "tools/call 1 {}");
            stage.see("p1", &format!(r#"~{method} ? {{"{member}":"{id}"…"#));
            // An agent that connects by itself.
            for said in ["acpId", "serverId", "acpUrl"] {
                let mut stage = declared("P5", NATIVE, &entry);
                let bare = id.strip_prefix("acp:").unwrap_or(id);
                stage.say("agent", &format!(r#"mcp/connect 1 {{"{said}":"acp:{bare}"}}"#));
                stage.see("p1", &format!(r#"~mcp/connect ? {{"{member}":"{id}"…"#));
            }
        }
    }
}

/// Two ids that are one when they are compared stay two servers.
#[test]
fn two_servers_whose_ids_differ_only_in_the_prefix_are_kept_apart() {
    let entries =
        r#"{"type":"acp","name":"A","serverId":"U"},{"type":"acp","name":"B","serverId":"acp:U"}"#;
    let mut stage = Stage::new("p1:P5 agent", NATIVE);
    stage.say("p1", &format!(r#"~session/new 1 {{"mcpServers":[{entries}]}}"#));
    stage.see("agent", r#"session/new ? {"mcpServers":[{…"serverId":"U"},{…"serverId":"U#2"}]}"#);
    for (said, id) in [("U", "U"), ("U#2", "acp:U")] {
        let call = |id: &str| format!(r#"{{"serverId":"{id}","requestId":"r","method":"x"}}"#);
        stage.say("agent", &format!("mcp/message 1 {}", call(said)));
        let asked = stage.see("p1", &format!("~mcp/message ? {}", call(id)));
        stage.say("p1", &format!("~mcp/message {}", call(id)));
        stage.see("agent", &format!("mcp/message {}", call(said)));
        stage.say("p1", &format!(r#"result {asked} {{"result":{{}}}}"#));
        stage.see("agent", r#"result 1 {"result":{}}"#);
    }
}

/// Through older proxies an id has another spelling; the agent's words are found all the same.
#[test]
fn ids_with_prefixes_pass_older_proxies() {
    for id in ["U", "acp:U", "acp:acp:U"] {
        let mut stage = Stage::new("p1:P5 (x:P4) agent", NATIVE);
        let entry = format!(r#"{{"type":"acp","name":"N","serverId":"{id}"}}"#);
        stage.say("p1", &format!(r#"~session/new 1 {{"mcpServers":[{entry}]}}"#));
        stage.see("agent", r#"session/new ? {"mcpServers":[{…"serverId":"…"}]}"#);
        let told = stage.last_server("serverId");
        let call = |id: &str| format!(r#"{{"serverId":"{id}","requestId":"r","method":"x"}}"#);
        stage.say("agent", &format!("mcp/message 1 {}", call(&told)));
        let asked = stage.see("p1", &format!("~mcp/message ? {}", call(id)));
        stage.say("p1", &format!("~mcp/message {}", call(id)));
        stage.see("agent", &format!("mcp/message {}", call(&told)));
        stage.say("p1", &format!(r#"result {asked} {{"result":{{}}}}"#));
        stage.see("agent", r#"result 1 {"result":{}}"#);
        stage.quiet();
    }
}

const URL: &str = r#"{"type":"http","name":"N","url":"acp:U","headers":[]}"#;
const CONNECT: &str = r#"~_mcp/connect ? {"acp_url":"acp:U","acp_id":"acp:U","url":"acp:U","connectionId":"mcp-over-acp:1"}"#;

/// Checklist 76: one connect is understood by M2, M3 and M3t; the answer, or the first refusal, tells
/// which of them it was.
#[test]
fn a_provider_that_takes_the_consumers_id_is_spoken_to_as_m3t() {
    for dialect in ["P3", "P3t", "P4"] {
        for connected in [r#"{}"#, r#"{"connectionId":"mcp-over-acp:1","tools":[]}"#] {
            let mut stage = declared(dialect, STDIO, URL);
            let client = stage.call(stage.tickets()[0]);
            stage.hear(client, "initialize 1 {}");
            let id = stage.see("p1", CONNECT);
            stage.say("p1", &format!("result {id} {connected}"));
            let message = r#"~_mcp/message ? {"connectionId":"mcp-over-acp:1","method":"initialize","params":{}}"#;
            let id = stage.see("p1", message);
            stage.say("p1", &format!(r#"result {id} {{"a":1}}"#));
            stage.told(client, r#"result 1 {"a":1}"#);
            stage.hang_up(client);
            stage.see("p1", "~_mcp/disconnect …");
            stage.quiet();
        }
    }
}

#[test]
fn a_provider_that_does_not_know_the_first_words_is_spoken_to_in_the_others() {
    let words = [("P3", "_mcp/request", "_mcp/message"), ("P3t", "_mcp/request", "_mcp/message")];
    for (dialect, first, second) in
        words.into_iter().chain([("P4", "_mcp/message", "_mcp/request")])
    {
        let mut stage = declared(dialect, STDIO, URL);
        let client = stage.call(stage.tickets()[0]);
        stage.hear(client, "initialize 1 {}");
        let id = stage.see("p1", CONNECT);
        stage.say("p1", &format!(r#"result {id} {{"connectionId":"V"}}"#));
        let id = stage.see("p1", &format!(r#"~{first} ? {{…"method":"initialize"…"#));
        stage.say("p1", &format!(r#"error {id} {{"code":-32601,"message":"what?"}}"#));
        let id = stage.see("p1", &format!(r#"~{second} ? {{…"method":"initialize"…"#));
        stage.say("p1", &format!("result {id} {{}}"));
        stage.told(client, "result 1 {}");
        // From then on an unknown method is one of MCP.
        stage.hear(client, "resources/list 2");
        let id = stage.see("p1", &format!(r#"~{second} ? {{…"method":"resources/list"…"#));
        stage.say("p1", &format!(r#"error {id} {{"code":-32601,"message":"no resources"}}"#));
        stage.told(client, r#"error 2 {"code":-32601,"message":"no resources"}"#);
        stage.quiet();
    }
}

/// The same for a stateless agent, in whose place we say `initialize`.
#[test]
fn our_own_initialize_is_said_in_other_words_too() {
    let mut stage = declared("P3", NATIVE, URL);
    stage.say("agent", r#"mcp/message 1 {"serverId":"U","requestId":"r","method":"tools/list"}"#);
    let id = stage.see("p1", CONNECT);
    stage.say("p1", &format!(r#"result {id} {{"connection_id":"V"}}"#));
    let id = stage.see("p1", r#"~_mcp/request ? {…"method":"initialize"…"#);
    stage.say("p1", &format!(r#"error {id} {{"code":-32601,"message":"what?"}}"#));
    let id = stage.see("p1", r#"~_mcp/message ? {…"method":"initialize"…"#);
    stage.say("p1", &format!("result {id} {{}}"));
    stage.see("p1", r#"~_mcp/message {…"method":"notifications/initialized"…"#);
    let id = stage.see("p1", r#"~_mcp/message ? {…"method":"tools/list"…"#);
    stage.say("p1", &format!(r#"result {id} {{"tools":[]}}"#));
    stage.see("agent", r#"result 1 {"result":{"tools":[],"resultType":"complete"}}"#);
    stage.quiet();
}

/// Checklist 81: in the place of a stateless provider.
#[test]
fn bad_envelopes_are_refused_and_go_nowhere() {
    let mut stage = declared("P4", NATIVE, URL);
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
        stage.say("agent", &format!("mcp/message 1 {params}"));
        stage.see("agent", r#"error 1 {"code":-32602,…}"#);
        stage.say("agent", &format!("mcp/message {params}"));
        stage.quiet();
    }
    stage.say("agent", r#"mcp/message 2 {"serverId":"W","requestId":"r","method":"x"}"#);
    let id = stage.see("p1", "~mcp/message ? …");
    stage.say("p1", r#"mcp/message 9 {"serverId":"W","requestId":"r","method":"x"}"#);
    let refused = stage.see("p1", r#"error 9 {"code":-33001,…"#);
    assert_eq!(refused, "9");
    stage.say("p1", &format!(r#"error {id} {{"code":-33001,"message":"no"}}"#));
    stage.see("agent", r#"error 2 {"code":-33001,…"#);
    stage.quiet();
}

#[test]
fn a_request_id_that_is_in_use_is_refused() {
    let mut stage = declared("P4", NATIVE, URL);
    let said = r#"{"serverId":"U","requestId":"r","method":"tools/call"}"#;
    stage.say("agent", &format!("mcp/message 1 {said}"));
    let connect = stage.see("p1", "~_mcp/connect ? …");
    // While the server is being opened, …
    stage.say("agent", &format!("mcp/message 2 {said}"));
    stage.see("agent", r#"error 2 {"code":-32602,…'r'…"#);
    stage.say("p1", &format!(r#"result {connect} {{"connection_id":"V"}}"#));
    let hello = stage.see("p1", r#"~_mcp/message ? …"initialize"…"#);
    stage.say("agent", &format!("mcp/message 3 {said}"));
    stage.see("agent", r#"error 3 {"code":-32602,…'r'…"#);
    stage.say("p1", &format!("result {hello} {{}}"));
    stage.see("p1", r#"~_mcp/message {…"notifications/initialized"…"#);
    let call = stage.see("p1", r#"~_mcp/message ? …"tools/call"…"#);
    // … and while it works.
    stage.say("agent", &format!("mcp/message 4 {said}"));
    stage.see("agent", r#"error 4 {"code":-32602,…'r'…"#);
    stage.quiet();
    stage.say("p1", &format!("result {call} {{}}"));
    stage.see("agent", r#"result 1 {"result":…}"#);
    // Then it is free again.
    stage.say("agent", &format!("mcp/message 5 {said}"));
    let call = stage.see("p1", r#"~_mcp/message ? …"tools/call"…"#);
    stage.say("agent", r#"$/cancel_request {"requestId":5}"#);
    stage.see("p1", &format!(r#"$/cancel_request {{"requestId":"{call}"}}"#));
    stage.see("p1", r#"~_mcp/message {…"notifications/cancelled"…"#);
    stage.see("agent", r#"error 5 {"code":-32800,…"#);
    stage.say("agent", &format!("mcp/message 6 {said}"));
    stage.see("p1", r#"~_mcp/message ? …"tools/call"…"#);
    stage.quiet();
}

/// A provider that lets its consumers choose the id of a connection gets the id that its consumer has chosen.
#[test]
fn the_id_that_a_consumer_has_chosen_reaches_the_provider() {
    let entry = r#"{"type":"http","name":"N","url":"acp:U","headers":[]}"#;
    let mut stage = declared("P4", NATIVE, entry);
    stage.say("agent", r#"_mcp/connect 1 {"connectionId":"X","url":"acp:U"}"#);
    stage.see("p1", r#"~_mcp/connect ? …"connectionId":"X"}"#);
    stage.quiet();
}
