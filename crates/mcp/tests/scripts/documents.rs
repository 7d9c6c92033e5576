//! The exact messages of each form, as in the protocol documents and in published programs.

use mcp::ClientId;

use crate::harness::*;

const SERVER: &str = r#"{"type":"acp","name":"N","serverId":"U"}"#;
const URL: &str = r#"{"type":"http","name":"N","url":"acp:U","headers":[]}"#;

/// A session for which a proxy declares one server. The agent has not answered yet.
fn declared(generation: &str, agent: &str, entry: &str) -> Harness {
    let mut harness = Harness::new(&format!("p1:{generation} agent"), agent);
    harness.send_line("p1", &format!(r#"~session/new 1 {{"mcpServers":[{entry}]}}"#));
    harness.expect("agent", "session/new ? …");
    harness
}

/// The same, with a connected client of the bridge.
fn with_client(generation: &str, entry: &str) -> (Harness, ClientId) {
    let mut harness = declared(generation, STDIO, entry);
    let client_id = harness.connect_client(harness.tickets()[0]);
    (harness, client_id)
}

/// One request, one notification in each direction, one request of the server, and a disconnect,
/// with the messages of a provider that has connections.
fn converse(generation: &str, entry: &str, exchanges: &[(&str, &str)]) {
    let (mut harness, client) = with_client(generation, entry);
    let mut exchanges = exchanges.iter();
    let mut next = || *exchanges.next().unwrap();
    harness.client_sends(client, "tools/list 1");
    let (connect, connected) = next();
    let id = harness.expect("p1", connect);
    harness.send_line("p1", &format!("result {id} {connected}"));
    let (request, answer) = next();
    let id = harness.expect("p1", request);
    harness.send_line("p1", &format!("result {id} {answer}"));
    harness.expect_client(client, r#"result 1 {"tools":[]}"#);
    let (forwarded_notification, server_notification) = next();
    harness.client_sends(client, "notifications/initialized");
    harness.expect("p1", forwarded_notification);
    harness.send_line("p1", server_notification);
    harness.expect_client(client, r#"notifications/progress {"progress":1}"#);
    let (server_request, forwarded_answer) = next();
    harness.send_line("p1", server_request);
    let id = harness.expect_client(client, r#"sampling/createMessage ? {"x":1}"#);
    harness.client_sends(client, &format!(r#"result {id} {{"y":2}}"#));
    harness.expect("p1", forwarded_answer);
    harness.disconnect(client);
    let (disconnect, _) = next();
    let id = harness.expect("p1", disconnect);
    if !id.is_empty() {
        harness.send_line("p1", &format!("result {id} {{}}"));
    }
    harness.expect_nothing_more();
}

/// Checklist 76, 77, 80, 91.
#[test]
fn the_messages_of_form_m2() {
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
fn the_messages_of_form_m3() {
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

/// In this form the consumer chooses the id of the connection.
#[test]
fn the_messages_of_form_m3t() {
    let (mut harness, client) = with_client("P3t", URL);
    harness.client_sends(client, r#"tools/call 1 {"name":"x"}"#);
    let id = harness.expect("p1", r#"~_mcp/connect ? {"acp_url":"acp:U","acp_id":"acp:U","url":"acp:U","connectionId":"mcp-over-acp:1"}"#);
    harness.send_line("p1", &format!(r#"result {id} {{"serverInfo":{{}},"tools":[]}}"#));
    harness.expect(
        "p1",
        r#"~_mcp/message ? {"connectionId":"mcp-over-acp:1","method":"tools/call","params":{"name":"x"}}"#,
    );
    harness.expect_nothing_more();
}

/// Checklist 79, 80.
#[test]
fn the_messages_of_form_m4() {
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
fn the_messages_of_forms_m5_and_m6() {
    for (generation, entry, connect) in [
        ("P5", r#"{"type":"acp","name":"N","id":"U"}"#, r#"~mcp/connect ? {"acpId":"U"}"#),
        ("P4", SERVER, r#"~mcp/connect ? {"serverId":"U"}"#),
    ] {
        converse(
            generation,
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
fn the_messages_of_forms_m0_and_m1() {
    for (generation, entry, [request, notification, server_notification, server_request], name) in [
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
        let (mut harness, client) = with_client(generation, entry);
        harness.client_sends(client, "tools/list 1");
        let id = harness.expect(
            "p1",
            &format!(
                r#"{request}{{"jsonrpc":"2.0","id":"…","method":"tools/list","params":{{}}}}}}"#
            ),
        );
        let inner = format!(r#"{{"jsonrpc":"2.0","id":"{id}","result":{{"tools":[]}}}}"#);
        harness.send_line("p1", &format!(r#"result {id} {{{name}"message":{inner}}}"#));
        harness.expect_client(client, r#"result 1 {"tools":[]}"#);
        harness.client_sends(client, r#"notifications/cancelled {"requestId":9}"#);
        harness.client_sends(client, r#"notifications/roots/list_changed {}"#);
        harness.expect("p1", &format!(r#"{notification}{{"jsonrpc":"2.0","method":"notifications/roots/list_changed","params":{{}}}}}}"#));
        harness.send_line(
            "p1",
            &format!(
                r#"{server_notification}{{"jsonrpc":"2.0","method":"notifications/progress","params":{{}}}}}}"#
            ),
        );
        harness.expect_client(client, "notifications/progress {}");
        harness.send_line("p1", &format!(r#"{server_request}{{"jsonrpc":"2.0","id":"m2","method":"sampling/createMessage","params":{{}}}}}}"#));
        let id = harness.expect_client(client, "sampling/createMessage ? {}");
        harness.client_sends(client, &format!(r#"result {id} {{"y":2}}"#));
        harness.expect(
            "p1",
            &format!(
                r#"result S1 {{{name}"message":{{"jsonrpc":"2.0","id":"m2","result":{{"y":2}}}}}}"#
            ),
        );
        harness.disconnect(client);
        harness.expect_nothing_more();
    }
}

/// Checklist 82, 83, 91.
#[test]
fn the_messages_of_form_m7() {
    let (mut harness, client) = with_client("P5", SERVER);
    let initialize = r#"{"protocolVersion":"2025-06-18","capabilities":{"sampling":{}},"clientInfo":{"name":"c","version":"1"}}"#;
    harness.client_sends(client, &format!("initialize 1 {initialize}"));
    let id = harness.expect(
        "p1",
        r#"~mcp/message ? {"serverId":"U","requestId":"mcp-over-acp:1","method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"conductor/connects":true}}}"#,
    );
    harness.send_line("p1", &format!(r#"result {id} {{"result":{{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{{"tools":{{}},"prompts":{{}}}},"instructions":"be kind"}}}}"#));
    harness.expect_client(
        client,
        r#"result 1 {"protocolVersion":"2025-06-18","capabilities":{"tools":{},"prompts":{}},"serverInfo":{"name":"N","version":"…"},"instructions":"be kind"}"#,
    );
    harness.client_sends(client, "notifications/initialized");
    harness.client_sends(client, "ping 2");
    harness.expect_client(client, "result 2 {}");
    harness.expect_nothing_more();
    harness.client_sends(
        client,
        r#"tools/call 3 {"name":"x","arguments":{},"_meta":{"progressToken":"t"}}"#,
    );
    let id = harness.expect(
        "p1",
        r#"~mcp/message ? {"serverId":"U","requestId":"r-…","method":"tools/call","params":{"name":"x","arguments":{},"_meta":{"progressToken":"t","io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"sampling":{}},"io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"}}}}"#,
    );
    let request = harness.last_member("requestId");
    harness.send_line("p1", &format!(r#"~mcp/message {{"serverId":"U","requestId":"{request}","method":"notifications/progress","params":{{"progressToken":"t","progress":1}}}}"#));
    harness.expect_client(client, r#"notifications/progress {"progressToken":"t","progress":1}"#);
    harness.send_line(
        "p1",
        &format!(r#"result {id} {{"result":{{"resultType":"complete","content":[]}}}}"#),
    );
    harness.expect_client(client, r#"result 3 {"content":[]}"#);
    // A notification after the answer belongs to no request.
    harness.send_line("p1", &format!(r#"~mcp/message {{"serverId":"U","requestId":"{request}","method":"notifications/progress","params":{{"progressToken":"t","progress":2}}}}"#));
    harness.expect_nothing_more();
    for (outcome, expected) in [
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
        harness.client_sends(client, "tools/list 4");
        let id = harness.expect("p1", "~mcp/message ? …");
        harness.send_line("p1", &outcome.replacen('?', &id, 1));
        harness.expect_client(client, expected);
    }
    harness.disconnect(client);
    harness.expect_nothing_more();
}

/// Checklist 69: the agent and the provider use the same form.
#[test]
fn messages_of_m7_pass_unchanged_between_an_m7_agent_and_an_m7_provider() {
    let mut harness = Harness::new("p1:P5 (p2:P5) agent", NATIVE);
    harness.send_line("p1", &format!(r#"~session/new 1 {{"mcpServers":[{SERVER}]}}"#));
    harness.expect("agent", &format!(r#"session/new ? {{"mcpServers":[{SERVER}]}}"#));
    let received =
        r#"{"serverId":"U","requestId":"r-1","method":"tools/call","params":{ "n":1.10 },"z":[]}"#;
    harness.send_line("agent", &format!("mcp/message 5 {received}"));
    let id = harness.expect("p1", &format!("~mcp/message ? {received}"));
    let progress = r#"mcp/message {"serverId":"U","requestId":"r-1","method":"notifications/progress","params":{"progressToken":"t"}}"#;
    harness.send_line("p1", &format!("~{progress}"));
    harness.expect("agent", progress);
    harness.send_line(
        "p1",
        &format!(r#"result {id} {{"error":{{"code":-32000,"message":"m"}},"z":1}}"#),
    );
    harness.expect("agent", r#"result 5 {"error":{"code":-32000,"message":"m"},"z":1}"#);
    harness.send_line("agent", &format!("mcp/message 6 {received}"));
    let id = harness.expect("p1", &format!("~mcp/message ? {received}"));
    harness.send_line("agent", r#"$/cancel_request {"requestId":6}"#);
    harness.expect("p1", &format!(r#"$/cancel_request {{"requestId":"{id}"}}"#));
    harness.send_line("p1", &format!(r#"error {id} {{"code":-32800,"message":"cancelled"}}"#));
    harness.expect("agent", r#"error 6 {"code":-32800,"message":"cancelled"}"#);
    harness.expect_nothing_more();
}

/// Checklist 81.
#[test]
fn an_agent_of_m7_can_use_a_provider_of_m3() {
    let mut harness = declared("P4", NATIVE, URL);
    let meta = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}"#;
    harness.send_line("agent", &format!(r#"mcp/message 1 {{"serverId":"U","requestId":"r-1","method":"tools/call","params":{{"name":"x","_meta":{{"progressToken":"t",{meta}}}}}}}"#));
    harness.send_line("agent", &format!(r#"mcp/message 2 {{"serverId":"U","requestId":"r-2","method":"server/discover","params":{{"_meta":{{{meta}}}}}}}"#));
    let id =
        harness.expect("p1", r#"~_mcp/connect ? {"acp_url":"acp:U","acp_id":"acp:U","url":"acp:U","connectionId":"mcp-over-acp:1"}"#);
    harness.send_line("p1", &format!(r#"result {id} {{"connection_id":"V"}}"#));
    let id = harness.expect("p1", r#"~_mcp/message ? {"connectionId":"V","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"conductor","version":"…"}}}"#);
    harness.expect_nothing_more();
    harness.send_line("p1", &format!(r#"result {id} {{"protocolVersion":"2025-06-18","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"s","version":"1"}}}}"#));
    harness.expect(
        "p1",
        r#"~_mcp/message {"connectionId":"V","method":"notifications/initialized","params":{}}"#,
    );
    let call = harness.expect("p1", r#"~_mcp/message ? {"connectionId":"V","method":"tools/call","params":{"name":"x","_meta":{"progressToken":"t"}}}"#);
    harness.expect("agent", r#"result 2 {"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"},"ttlMs":0,"cacheScope":"private"}}"#);
    harness.send_line("p1", r#"~_mcp/message {"connectionId":"V","method":"notifications/progress","params":{"progressToken":"t","progress":1}}"#);
    harness.expect("agent", r#"mcp/message {"serverId":"U","requestId":"r-1","method":"notifications/progress","params":{"progressToken":"t","progress":1}}"#);
    harness.send_line("p1", r#"~_mcp/message {"connectionId":"V","method":"notifications/progress","params":{"progressToken":"other","progress":1}}"#);
    harness.expect_nothing_more();
    harness.send_line("p1", &format!(r#"error {call} {{"code":-32000,"message":"m"}}"#));
    harness.expect("agent", r#"result 1 {"error":{"code":-32000,"message":"m"}}"#);
    harness.send_line("agent", &format!(r#"mcp/message 3 {{"serverId":"U","requestId":"r-3","method":"tools/list","params":{{"_meta":{{{meta}}}}}}}"#));
    let list = harness
        .expect("p1", r#"~_mcp/message ? {"connectionId":"V","method":"tools/list","params":{}}"#);
    harness.send_line("p1", &format!(r#"result {list} {{"tools":[]}}"#));
    harness.expect("agent", r#"result 3 {"result":{"tools":[],"resultType":"complete"}}"#);
    harness.expect_nothing_more();
}

/// Checklist 78, 97: two agents of old generations, with the messages of their own documents.
#[test]
fn agents_of_m0_and_m1_get_whole_mcp_messages() {
    let mut harness = declared("P4", OLDER, URL);
    harness.send_line("agent", r#"_mcp/client_to_server/request 1 {"url":"acp:U","message":{"jsonrpc":"2.0","id":"m1","method":"tools/list"}}"#);
    let id = harness.expect("p1", "~_mcp/connect ? …");
    harness.send_line("p1", &format!(r#"result {id} {{"connection_id":"V"}}"#));
    let id = harness
        .expect("p1", r#"~_mcp/message ? {"connectionId":"V","method":"tools/list","params":{}}"#);
    harness.send_line("p1", &format!(r#"result {id} {{"tools":[]}}"#));
    harness.expect(
        "agent",
        r#"result 1 {"message":{"jsonrpc":"2.0","id":"m1","result":{"tools":[]}}}"#,
    );
    harness.send_line(
        "p1",
        r#"~_mcp/message S1 {"connectionId":"V","method":"roots/list","params":{}}"#,
    );
    let id = harness.expect("agent", r#"_mcp/server_to_client/request ? {"url":"acp:U","message":{"jsonrpc":"2.0","id":"S1","method":"roots/list","params":{}}}"#);
    harness.send_line(
        "agent",
        &format!(
            r#"result {id} {{"message":{{"jsonrpc":"2.0","id":"S1","result":{{"roots":[]}}}}}}"#
        ),
    );
    harness.expect("p1", r#"result S1 {"roots":[]}"#);
    // Their cancellations name a request that the server knows by another id.
    harness.send_line("agent", r#"_mcp/client_to_server/request 2 {"url":"acp:U","message":{"jsonrpc":"2.0","id":"m2","method":"tools/call"}}"#);
    let id = harness.expect("p1", "~_mcp/message ? …");
    harness.send_line("agent", r#"_mcp/client_to_server/notification {"url":"acp:U","message":{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"m2"}}}"#);
    harness.expect("p1", &format!(r#"~_mcp/message {{"connectionId":"V","method":"notifications/cancelled","params":{{"requestId":"{id}"}}}}"#));
    harness.expect_nothing_more();

    let mut harness = declared("P0", SCP, r#"{"type":"scp","name":"N"}"#);
    let received = r#"{"name":"N","message":{"jsonrpc":"2.0","id":"m1","method":"tools/list"}}"#;
    harness.send_line("agent", &format!("_scp/mcp 2 {received}"));
    let id = harness.expect("p1", &format!("~_scp/mcp ? {received}"));
    let answer = r#"{"name":"N","message":{"jsonrpc":"2.0","id":"m1","result":{"tools":[]}}}"#;
    harness.send_line("p1", &format!("result {id} {answer}"));
    harness.expect("agent", &format!("result 2 {answer}"));
    harness.expect_nothing_more();
}

#[test]
fn an_mcp_cancellation_reaches_a_stateless_server_as_an_acp_cancellation() {
    let mut harness = declared("P5", OLDER, SERVER);
    harness.send_line("agent", r#"_mcp/client_to_server/request 1 {"url":"acp:U","message":{"jsonrpc":"2.0","id":"m1","method":"tools/call","params":{"name":"x"}}}"#);
    let id = harness.expect("p1", r#"~mcp/message ? …"server/discover"…"#);
    harness.send_line("p1", &format!(r#"result {id} {{"result":{{}}}}"#));
    let id = harness.expect("p1", r#"~mcp/message ? …"tools/call"…"#);
    harness.send_line("agent", r#"_mcp/client_to_server/notification {"url":"acp:U","message":{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"m1"}}}"#);
    harness.expect("p1", &format!(r#"$/cancel_request {{"requestId":"{id}"}}"#));
    harness.send_line("p1", &format!(r#"error {id} {{"code":-32800,"message":"cancelled"}}"#));
    harness.expect(
        "agent",
        r#"result 1 {"message":{"jsonrpc":"2.0","id":"m1","error":{"code":-32603,…}}}"#,
    );
    harness.expect_nothing_more();
}
