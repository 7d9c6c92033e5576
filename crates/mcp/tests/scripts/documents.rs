//! The exact words of each form, as the documents and published programs have them.

use mcp::ClientId;

use crate::stage::*;

const SERVER: &str = r#"{"type":"acp","name":"N","serverId":"U"}"#;
const URL: &str = r#"{"type":"http","name":"N","url":"acp:U","headers":[]}"#;

/// A session for which a proxy declares one server. The agent has not answered.
fn declared(dialect: &str, agent: &str, entry: &str) -> Stage {
    let mut stage = Stage::new(&format!("p1:{dialect} agent"), agent);
    stage.say("p1", &format!(r#"~session/new 1 {{"mcpServers":[{entry}]}}"#));
    stage.see("agent", "session/new ? …");
    stage
}

/// The same, and a client of the bridge has called.
fn called(dialect: &str, entry: &str) -> (Stage, ClientId) {
    let mut stage = declared(dialect, STDIO, entry);
    let client_id = stage.call(stage.tickets()[0]);
    (stage, client_id)
}

/// One question, one notification each way, one question back and the end, with the words of a
/// provider that has connections.
fn converse(dialect: &str, entry: &str, words: &[(&str, &str)]) {
    let (mut stage, client) = called(dialect, entry);
    let mut words = words.iter();
    let mut next = || *words.next().unwrap();
    stage.hear(client, "tools/list 1");
    let (connect, connected) = next();
    let id = stage.see("p1", connect);
    stage.say("p1", &format!("result {id} {connected}"));
    let (asked, answer) = next();
    let id = stage.see("p1", asked);
    stage.say("p1", &format!("result {id} {answer}"));
    stage.told(client, r#"result 1 {"tools":[]}"#);
    let (noted, notes) = next();
    stage.hear(client, "notifications/initialized");
    stage.see("p1", noted);
    stage.say("p1", notes);
    stage.told(client, r#"notifications/progress {"progress":1}"#);
    let (asks, answered) = next();
    stage.say("p1", asks);
    let id = stage.told(client, r#"sampling/createMessage ? {"x":1}"#);
    stage.hear(client, &format!(r#"result {id} {{"y":2}}"#));
    stage.see("p1", answered);
    stage.hang_up(client);
    let (goodbye, _) = next();
    let id = stage.see("p1", goodbye);
    if !id.is_empty() {
        stage.say("p1", &format!("result {id} {{}}"));
    }
    stage.quiet();
}

/// Checklist 76, 77, 80, 91.
#[test]
fn m2() {
    converse(
        "P3",
        URL,
        &[
            (
                r#"~_mcp/connect ? {"acp_url":"acp:U","acp_id":"acp:U","url":"acp:U","connectionId":"mcp-over-acp:1"}"#,
                r#"{"connection_id":"mcp-over-acp-connection:V"}"#,
            ),
            (
                r#"~_mcp/request ? {"connectionId":"mcp-over-acp-connection:V","method":"tools/list","params":{}}"#,
                r#"{"tools":[]}"#,
            ),
            (
                r#"~_mcp/notification {"connectionId":"mcp-over-acp-connection:V","method":"notifications/initialized","params":{}}"#,
                r#"~_mcp/notification {"connectionId":"mcp-over-acp-connection:V","method":"notifications/progress","params":{"progress":1}}"#,
            ),
            (
                r#"~_mcp/request 7 {"connectionId":"mcp-over-acp-connection:V","method":"sampling/createMessage","params":{"x":1}}"#,
                r#"result 7 {"y":2}"#,
            ),
            (
                r#"~_mcp/disconnect {"connection_id":"mcp-over-acp-connection:V","connectionId":"mcp-over-acp-connection:V"}"#,
                "",
            ),
        ],
    );
}

/// Checklist 76, 80, 91.
#[test]
fn m3() {
    converse(
        "P4",
        URL,
        &[
            (
                r#"~_mcp/connect ? {"acp_url":"acp:U","acp_id":"acp:U","url":"acp:U","connectionId":"mcp-over-acp:1"}"#,
                r#"{"connection_id":"V"}"#,
            ),
            (
                r#"~_mcp/message ? {"connectionId":"V","method":"tools/list","params":{}}"#,
                r#"{"tools":[]}"#,
            ),
            (
                r#"~_mcp/message {"connectionId":"V","method":"notifications/initialized","params":{}}"#,
                r#"~_mcp/message {"connectionId":"V","method":"notifications/progress","params":{"progress":1}}"#,
            ),
            (
                r#"~_mcp/message 7 {"connectionId":"V","method":"sampling/createMessage","params":{"x":1}}"#,
                r#"result 7 {"y":2}"#,
            ),
            (r#"~_mcp/disconnect {"connection_id":"V","connectionId":"V"}"#, ""),
        ],
    );
}

/// The consumer chooses the id of the connection.
#[test]
fn m3t() {
    let (mut stage, client) = called("P3t", URL);
    stage.hear(client, r#"tools/call 1 {"name":"x"}"#);
    let id = stage.see("p1", r#"~_mcp/connect ? {"acp_url":"acp:U","acp_id":"acp:U","url":"acp:U","connectionId":"mcp-over-acp:1"}"#);
    stage.say("p1", &format!(r#"result {id} {{"serverInfo":{{}},"tools":[]}}"#));
    stage.see(
        "p1",
        r#"~_mcp/message ? {"connectionId":"mcp-over-acp:1","method":"tools/call","params":{"name":"x"}}"#,
    );
    stage.quiet();
}

/// Checklist 79, 80.
#[test]
fn m4() {
    converse(
        "P5",
        r#"{"name":"N","transport":"acp","uuid":"U"}"#,
        &[
            (r#"~mcp/connect ? {"acpUrl":"acp:U"}"#, r#"{"connectionId":"V"}"#),
            (
                r#"~mcp/message ? {"connectionId":"V","method":"tools/list","params":{}}"#,
                r#"{"tools":[]}"#,
            ),
            (
                r#"~mcp/message {"connectionId":"V","method":"notifications/initialized","params":{}}"#,
                r#"~mcp/message {"connectionId":"V","method":"notifications/progress","params":{"progress":1}}"#,
            ),
            (
                r#"~mcp/message 7 {"connectionId":"V","method":"sampling/createMessage","params":{"x":1}}"#,
                r#"result 7 {"y":2}"#,
            ),
            (r#"~mcp/disconnect ? {"connectionId":"V"}"#, ""),
        ],
    );
}

/// Checklist 80.
#[test]
fn m5_and_m6() {
    for (dialect, entry, connect) in [
        ("P5", r#"{"type":"acp","name":"N","id":"U"}"#, r#"~mcp/connect ? {"acpId":"U"}"#),
        ("P4", SERVER, r#"~mcp/connect ? {"serverId":"U"}"#),
    ] {
        converse(
            dialect,
            entry,
            &[
                (connect, r#"{"connectionId":"V"}"#),
                (
                    r#"~mcp/message ? {"connectionId":"V","method":"tools/list","params":{}}"#,
                    r#"{"tools":[]}"#,
                ),
                (
                    r#"~mcp/message {"connectionId":"V","method":"notifications/initialized","params":{}}"#,
                    r#"~mcp/message {"connectionId":"V","method":"notifications/progress","params":{"progress":1}}"#,
                ),
                (
                    r#"~mcp/message 7 {"connectionId":"V","method":"sampling/createMessage","params":{"x":1}}"#,
                    r#"result 7 {"y":2}"#,
                ),
                (r#"~mcp/disconnect ? {"connectionId":"V"}"#, ""),
            ],
        );
    }
}

/// Checklist 78, 91, and 97 for the form that looks like it.
#[test]
fn m0_and_m1() {
    for (dialect, entry, [asked, noted, noting, asking], name) in [
        (
            "P1",
            URL,
            [
                r#"~_mcp/client_to_server/request ? {"url":"acp:U","message":"#,
                r#"~_mcp/client_to_server/notification {"url":"acp:U","message":"#,
                r#"~_mcp/server_to_client/notification {"url":"acp:U","message":"#,
                r#"~_mcp/server_to_client/request S1 {"url":"acp:U","message":"#,
            ],
            "",
        ),
        (
            "P0",
            r#"{"type":"scp","name":"N"}"#,
            [
                r#"~_scp/mcp ? {"name":"N","message":"#,
                r#"~_scp/mcp {"name":"N","message":"#,
                r#"~_scp/mcp {"name":"N","message":"#,
                r#"~_scp/mcp S1 {"name":"N","message":"#,
            ],
            r#""name":"N","#,
        ),
    ] {
        let (mut stage, client) = called(dialect, entry);
        stage.hear(client, "tools/list 1");
        let id = stage.see(
            "p1",
            &format!(
                r#"{asked}{{"jsonrpc":"2.0","id":"…","method":"tools/list","params":{{}}}}}}"#
            ),
        );
        let inner = format!(r#"{{"jsonrpc":"2.0","id":"{id}","result":{{"tools":[]}}}}"#);
        stage.say("p1", &format!(r#"result {id} {{{name}"message":{inner}}}"#));
        stage.told(client, r#"result 1 {"tools":[]}"#);
        stage.hear(client, r#"notifications/cancelled {"requestId":9}"#);
        stage.hear(client, r#"notifications/roots/list_changed {}"#);
        stage.see("p1", &format!(r#"{noted}{{"jsonrpc":"2.0","method":"notifications/roots/list_changed","params":{{}}}}}}"#));
        stage.say(
            "p1",
            &format!(
                r#"{noting}{{"jsonrpc":"2.0","method":"notifications/progress","params":{{}}}}}}"#
            ),
        );
        stage.told(client, "notifications/progress {}");
        stage.say("p1", &format!(r#"{asking}{{"jsonrpc":"2.0","id":"m2","method":"sampling/createMessage","params":{{}}}}}}"#));
        let id = stage.told(client, "sampling/createMessage ? {}");
        stage.hear(client, &format!(r#"result {id} {{"y":2}}"#));
        stage.see(
            "p1",
            &format!(
                r#"result S1 {{{name}"message":{{"jsonrpc":"2.0","id":"m2","result":{{"y":2}}}}}}"#
            ),
        );
        stage.hang_up(client);
        stage.quiet();
    }
}

/// Checklist 82, 83, 91.
#[test]
fn m7() {
    let (mut stage, client) = called("P5", SERVER);
    let hello = r#"{"protocolVersion":"2025-06-18","capabilities":{"sampling":{}},"clientInfo":{"name":"c","version":"1"}}"#;
    stage.hear(client, &format!("initialize 1 {hello}"));
    let id = stage.see(
        "p1",
        r#"~mcp/message ? {"serverId":"U","requestId":"mcp-over-acp:1","method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"conductor/connects":true}}}"#,
    );
    stage.say("p1", &format!(r#"result {id} {{"result":{{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{{"tools":{{}},"prompts":{{}}}},"instructions":"be kind"}}}}"#));
    stage.told(
        client,
        r#"result 1 {"protocolVersion":"2025-06-18","capabilities":{"tools":{},"prompts":{}},"serverInfo":{"name":"N","version":"…"},"instructions":"be kind"}"#,
    );
    stage.hear(client, "notifications/initialized");
    stage.hear(client, "ping 2");
    stage.told(client, "result 2 {}");
    stage.quiet();
    stage.hear(client, r#"tools/call 3 {"name":"x","arguments":{},"_meta":{"progressToken":"t"}}"#);
    let id = stage.see(
        "p1",
        r#"~mcp/message ? {"serverId":"U","requestId":"r-…","method":"tools/call","params":{"name":"x","arguments":{},"_meta":{"progressToken":"t","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"sampling":{}},"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}}}}"#,
    );
    let request = stage.last_member("requestId");
    stage.say("p1", &format!(r#"~mcp/message {{"serverId":"U","requestId":"{request}","method":"notifications/progress","params":{{"progressToken":"t","progress":1}}}}"#));
    stage.told(client, r#"notifications/progress {"progressToken":"t","progress":1}"#);
    stage.say(
        "p1",
        &format!(r#"result {id} {{"result":{{"resultType":"complete","content":[]}}}}"#),
    );
    stage.told(client, r#"result 3 {"content":[]}"#);
    // What comes after the end of an operation belongs to nothing.
    stage.say("p1", &format!(r#"~mcp/message {{"serverId":"U","requestId":"{request}","method":"notifications/progress","params":{{"progressToken":"t","progress":2}}}}"#));
    stage.quiet();
    for (outcome, told) in [
        (
            r#"result ? {"error":{"code":-32000,"message":"log in"}}"#,
            r#"error 4 {"code":-32000,"message":"log in"}"#,
        ),
        (
            r#"error ? {"code":-33002,"message":"down"}"#,
            r#"error 4 {"code":-32603,"message":"down","data":{"code":-33002,"message":"down"}}"#,
        ),
        (r#"result ? {"result":null}"#, "result 4 null"),
        (r#"result ? {"result":1,"error":{}}"#, "result 4 1"),
        (r#"result ? {}"#, r#"error 4 {"code":-32603,"message":"…neither…"…}"#),
    ] {
        stage.hear(client, "tools/list 4");
        let id = stage.see("p1", "~mcp/message ? …");
        stage.say("p1", &outcome.replacen('?', &id, 1));
        stage.told(client, told);
    }
    stage.hang_up(client);
    stage.quiet();
}

/// Checklist 69: one form from end to end.
#[test]
fn m7_passes_a_native_agent_unchanged() {
    let mut stage = Stage::new("p1:P5 (p2:P5) agent", NATIVE);
    stage.say("p1", &format!(r#"~session/new 1 {{"mcpServers":[{SERVER}]}}"#));
    stage.see("agent", &format!(r#"session/new ? {{"mcpServers":[{SERVER}]}}"#));
    let said =
        r#"{"serverId":"U","requestId":"r-1","method":"tools/call","params":{ "n":1.10 },"z":[]}"#;
    stage.say("agent", &format!("mcp/message 5 {said}"));
    let id = stage.see("p1", &format!("~mcp/message ? {said}"));
    let progress = r#"mcp/message {"serverId":"U","requestId":"r-1","method":"notifications/progress","params":{"progressToken":"t"}}"#;
    stage.say("p1", &format!("~{progress}"));
    stage.see("agent", progress);
    stage.say("p1", &format!(r#"result {id} {{"error":{{"code":-32000,"message":"m"}},"z":1}}"#));
    stage.see("agent", r#"result 5 {"error":{"code":-32000,"message":"m"},"z":1}"#);
    stage.say("agent", &format!("mcp/message 6 {said}"));
    let id = stage.see("p1", &format!("~mcp/message ? {said}"));
    stage.say("agent", r#"$/cancel_request {"requestId":6}"#);
    stage.see("p1", &format!(r#"$/cancel_request {{"requestId":"{id}"}}"#));
    stage.say("p1", &format!(r#"error {id} {{"code":-32800,"message":"cancelled"}}"#));
    stage.see("agent", r#"error 6 {"code":-32800,"message":"cancelled"}"#);
    stage.quiet();
}

/// Checklist 81.
#[test]
fn an_agent_of_m7_and_a_provider_of_m3() {
    let mut stage = declared("P4", NATIVE, URL);
    let meta = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}"#;
    stage.say("agent", &format!(r#"mcp/message 1 {{"serverId":"U","requestId":"r-1","method":"tools/call","params":{{"name":"x","_meta":{{"progressToken":"t",{meta}}}}}}}"#));
    stage.say("agent", &format!(r#"mcp/message 2 {{"serverId":"U","requestId":"r-2","method":"server/discover","params":{{"_meta":{{{meta}}}}}}}"#));
    let id =
        stage.see("p1", r#"~_mcp/connect ? {"acp_url":"acp:U","acp_id":"acp:U","url":"acp:U","connectionId":"mcp-over-acp:1"}"#);
    stage.say("p1", &format!(r#"result {id} {{"connection_id":"V"}}"#));
    let id = stage.see("p1", r#"~_mcp/message ? {"connectionId":"V","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"conductor","version":"…"}}}"#);
    stage.quiet();
    stage.say("p1", &format!(r#"result {id} {{"protocolVersion":"2025-06-18","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"s","version":"1"}}}}"#));
    stage.see(
        "p1",
        r#"~_mcp/message {"connectionId":"V","method":"notifications/initialized","params":{}}"#,
    );
    let call = stage.see("p1", r#"~_mcp/message ? {"connectionId":"V","method":"tools/call","params":{"name":"x","_meta":{"progressToken":"t"}}}"#);
    stage.see("agent", r#"result 2 {"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"},"ttlMs":0,"cacheScope":"private"}}"#);
    stage.say("p1", r#"~_mcp/message {"connectionId":"V","method":"notifications/progress","params":{"progressToken":"t","progress":1}}"#);
    stage.see("agent", r#"mcp/message {"serverId":"U","requestId":"r-1","method":"notifications/progress","params":{"progressToken":"t","progress":1}}"#);
    stage.say("p1", r#"~_mcp/message {"connectionId":"V","method":"notifications/progress","params":{"progressToken":"other","progress":1}}"#);
    stage.quiet();
    stage.say("p1", &format!(r#"error {call} {{"code":-32000,"message":"m"}}"#));
    stage.see("agent", r#"result 1 {"error":{"code":-32000,"message":"m"}}"#);
    stage.say("agent", &format!(r#"mcp/message 3 {{"serverId":"U","requestId":"r-3","method":"tools/list","params":{{"_meta":{{{meta}}}}}}}"#));
    let list = stage
        .see("p1", r#"~_mcp/message ? {"connectionId":"V","method":"tools/list","params":{}}"#);
    stage.say("p1", &format!(r#"result {list} {{"tools":[]}}"#));
    stage.see("agent", r#"result 3 {"result":{"tools":[],"resultType":"complete"}}"#);
    stage.quiet();
}

/// Two agents of old generations, with the words of their own documents: checklist 78, 97.
#[test]
fn agents_with_whole_messages_get_whole_messages() {
    let mut stage = declared("P4", OLDER, URL);
    stage.say("agent", r#"_mcp/client_to_server/request 1 {"url":"acp:U","message":{"jsonrpc":"2.0","id":"m1","method":"tools/list"}}"#);
    let id = stage.see("p1", "~_mcp/connect ? …");
    stage.say("p1", &format!(r#"result {id} {{"connection_id":"V"}}"#));
    let id = stage
        .see("p1", r#"~_mcp/message ? {"connectionId":"V","method":"tools/list","params":{}}"#);
    stage.say("p1", &format!(r#"result {id} {{"tools":[]}}"#));
    stage.see("agent", r#"result 1 {"message":{"jsonrpc":"2.0","id":"m1","result":{"tools":[]}}}"#);
    stage.say("p1", r#"~_mcp/message S1 {"connectionId":"V","method":"roots/list","params":{}}"#);
    let id = stage.see("agent", r#"_mcp/server_to_client/request ? {"url":"acp:U","message":{"jsonrpc":"2.0","id":"S1","method":"roots/list","params":{}}}"#);
    stage.say(
        "agent",
        &format!(
            r#"result {id} {{"message":{{"jsonrpc":"2.0","id":"S1","result":{{"roots":[]}}}}}}"#
        ),
    );
    stage.see("p1", r#"result S1 {"roots":[]}"#);
    // Their cancellations name what the server knows by another name.
    stage.say("agent", r#"_mcp/client_to_server/request 2 {"url":"acp:U","message":{"jsonrpc":"2.0","id":"m2","method":"tools/call"}}"#);
    let id = stage.see("p1", "~_mcp/message ? …");
    stage.say("agent", r#"_mcp/client_to_server/notification {"url":"acp:U","message":{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"m2"}}}"#);
    stage.see("p1", &format!(r#"~_mcp/message {{"connectionId":"V","method":"notifications/cancelled","params":{{"requestId":"{id}"}}}}"#));
    stage.quiet();

    let mut stage = declared("P0", SCP, r#"{"type":"scp","name":"N"}"#);
    let said = r#"{"name":"N","message":{"jsonrpc":"2.0","id":"m1","method":"tools/list"}}"#;
    stage.say("agent", &format!("_scp/mcp 2 {said}"));
    let id = stage.see("p1", &format!("~_scp/mcp ? {said}"));
    let answer = r#"{"name":"N","message":{"jsonrpc":"2.0","id":"m1","result":{"tools":[]}}}"#;
    stage.say("p1", &format!("result {id} {answer}"));
    stage.see("agent", &format!("result 2 {answer}"));
    stage.quiet();
}

#[test]
fn cancellations_in_the_words_of_mcp_reach_stateless_servers_in_those_of_acp() {
    let mut stage = declared("P5", OLDER, SERVER);
    stage.say("agent", r#"_mcp/client_to_server/request 1 {"url":"acp:U","message":{"jsonrpc":"2.0","id":"m1","method":"tools/call","params":{"name":"x"}}}"#);
    let id = stage.see("p1", r#"~mcp/message ? …"server/discover"…"#);
    stage.say("p1", &format!(r#"result {id} {{"result":{{}}}}"#));
    let id = stage.see("p1", r#"~mcp/message ? …"tools/call"…"#);
    stage.say("agent", r#"_mcp/client_to_server/notification {"url":"acp:U","message":{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"m1"}}}"#);
    stage.see("p1", &format!(r#"$/cancel_request {{"requestId":"{id}"}}"#));
    stage.say("p1", &format!(r#"error {id} {{"code":-32800,"message":"cancelled"}}"#));
    stage.see(
        "agent",
        r#"result 1 {"message":{"jsonrpc":"2.0","id":"m1","error":{"code":-32603,…}}}"#,
    );
    stage.quiet();
}
