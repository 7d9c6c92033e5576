//! Templates of the messages of MCP clients, consumers and providers.

use acp_wire::{Call, Id, Json, Outcome};
use bytes::Bytes;
use mcp::form::{Address, Direction, Form};

use crate::scenario::{Choices, filled};

/// Answers of agents to `initialize`. They differ in the MCP transports that the agent supports.
pub const INITIALIZE_RESULTS: [&str; 8] = [
    r#"{"protocolVersion":1,"agentCapabilities":{}}"#,
    r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"http":true}}}"#,
    r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"acp":true}}}"#,
    r#"{"protocolVersion":1,"agentCapabilities":{},"_meta":{"mcp_acp_transport":true}}"#,
    r#"{"protocolVersion":1,"agentCapabilities":{},"_meta":{"symposium":{"version":"1.0"}}}"#,
    r#"{"protocolVersion":2,"info":{"name":"a","version":"1"},"capabilities":{"session":{}}}"#,
    r#"{"protocolVersion":2,"info":{"name":"a","version":"1"},"capabilities":{"session":{"mcp":{"stdio":{},"http":{}}}}}"#,
    r#"{"protocolVersion":1,"agentInfo":{"name":"openhands"}}"#,
];

/// Declarations of MCP servers.
pub const DECLARATIONS: [&str; 10] = [
    r#"{"type":"acp","name":"N","serverId":"U"}"#,
    r#"{"type":"acp","name":"N","id":"U"}"#,
    r#"{"transport":"acp","name":"N","uuid":"U"}"#,
    r#"{"type":"http","name":"N","url":"acp:U","headers":[]}"#,
    r#"{"type":"scp","name":"N"}"#,
    r#"{"type":"acp","name":"M","serverId":"V"},{"type":"acp","name":"N","serverId":"U"}"#,
    r#"{"type":"http","name":"N","url":"acp:V","headers":[]},{"type":"scp","name":"N"}"#,
    r#"{"type":"acp","name":"N"}"#,
    r#"{"name":"other","command":"/x","args":[],"env":[]}"#,
    r#"3,{"type":"acp","serverId":"U"},{"type":"acp","serverId":"U"}"#,
];

/// Requests that set up a session.
pub const SET_UPS: [(&str, &str); 4] = [
    ("session/new", r#"{"cwd":"/","mcpServers":[]}"#),
    ("session/load", r#"{"sessionId":"S1","mcpServers":[]}"#),
    ("session/new", r#"{"tools":{"mcpServers":{"N":{"transport":"acp","uuid":"U"}}}}"#),
    ("session/fork", r#"{"sessionId":"S2"}"#),
];

/// Lines of MCP clients. `$id` is filled in.
pub const CLIENT: [&str; 16] = [
    r#"{"jsonrpc":"2.0","id":$id,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{"roots":{}},"clientInfo":{"name":"c","version":"1"}}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    r#"{"jsonrpc":"2.0","id":$id,"method":"tools/list"}"#,
    r#"{"jsonrpc":"2.0","id":$id,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":1}}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":$id}}"#,
    r#"{"jsonrpc":"2.0","id":$id,"method":"ping"}"#,
    r#"{"jsonrpc":"2.0","id":$id,"method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
    r#"{"jsonrpc":"2.0","id":$id,"result":{"roots":[]}}"#,
    r#"{"jsonrpc":"2.0","id":$id,"error":{"code":-1,"message":"no"}}"#,
    r#"[{"jsonrpc":"2.0","id":$id,"method":"ping"}]"#,
    r#"{"jsonrpc":"2.0","id":$id}"#,
    r#"{"jsonrpc":"2.0","id":$id,"id":$id,"method":"ping"}"#,
    r#"{"jsonrpc":"2.0","id":$id,"method":"ping""#,
    r#"{"jsonrpc":"2.0","result":$id}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":$id}}"#,
    r#"{"jsonrpc":"2.0","id":$id,"method":7}"#,
];

pub const CLIENT_IDS: [&str; 7] = ["1", "2", "3", r#""a""#, r#""\u0061""#, "null", "1.5"];

pub fn client_line(choices: &mut Choices<'_>, owed: Option<&Id>) -> Bytes {
    let template = choices.text_of(&CLIENT);
    let id = choices.text_of(&CLIENT_IDS);
    // An answer is usually for an open request.
    let answers = template.contains(r#""result":{"#) || template.contains(r#""error":{"#);
    let id = match owed.filter(|_| answers) {
        Some(owed) => owed.json().as_str(),
        None => id,
    };
    filled(template, [id, "", ""])
}

/// Results of any request.
pub const RESULTS: [&str; 16] = [
    r#"{"connectionId":"v1"}"#,
    r#"{"connection_id":"v2"}"#,
    r#"{"sessionId":"S1"}"#,
    r#"{"sessionId":"S2"}"#,
    "{}",
    r#"{"tools":[]}"#,
    r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}"#,
    r#"{"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}}}}"#,
    r#"{"result":{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"},"b":{"method":"roots/list"}},"requestState":"s"}}"#,
    r#"{"error":{"code":-32601,"message":"no"}}"#,
    r#"{"message":{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}}"#,
    r#"{"name":"N","message":{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"no"}}}"#,
    r#"{"connectionId":"v1","connection_id":"v3"}"#,
    "null",
    r#"{"resultType":"input_required","inputRequests":{}}"#,
    "3",
];

const ERRORS: [i64; 5] = [-32601, -32602, -32000, -32603, -32600];

pub fn outcome(choices: &mut Choices<'_>) -> Outcome {
    let choice = choices.below(RESULTS.len() + ERRORS.len());
    match RESULTS.get(choice) {
        Some(result) => Outcome::Result(Json::trusted(*result)),
        None => Outcome::error(ERRORS[choice - RESULTS.len()], "no"),
    }
}

const FORMS: [Form; 9] =
    [Form::M0, Form::M1, Form::M2, Form::M3, Form::M3t, Form::M4, Form::M5, Form::M6, Form::M7];

const SERVERS: [&str; 7] = ["U", "V", "N", "scp:1:N", "U#2", "acp:U", "U#theirs"];
const CONNECTIONS: [&str; 5] = ["v1", "v2", "mcp-over-acp:1", "v1#2", "v1#theirs"];
const REQUESTS: [&str; 4] = ["r-1", "r-2", "op", "mcp-over-acp:1"];

/// Messages of MCP itself.
const MCP_CALLS: [(&str, Option<&str>); 9] = [
    ("tools/list", None),
    ("tools/call", Some(r#"{"name":"t","_meta":{"progressToken":1}}"#)),
    ("initialize", Some(r#"{"protocolVersion":"2025-06-18","capabilities":{"roots":{}}}"#)),
    ("notifications/initialized", None),
    ("notifications/cancelled", Some(r#"{"requestId":"in"}"#)),
    ("notifications/progress", Some(r#"{"progressToken":1,"progress":1}"#)),
    ("roots/list", None),
    ("server/discover", None),
    ("tools/list", Some(r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}"#)),
];

/// A message of MCP over ACP, in any form. `seen` has the connections so far.
pub fn mcp_message(way: Direction, asks: bool, choices: &mut Choices<'_>, seen: &[String]) -> Call {
    let form = *choices.of(&FORMS).unwrap_or(&Form::M3);
    let what = choices.below(4);
    let server = choices.text_of(&SERVERS);
    let known: Vec<&str> = seen.iter().map(String::as_str).chain(CONNECTIONS).collect();
    let connection = choices.text_of(&known);
    match what {
        0 => form.encode_connect(server, connection),
        1 => form.encode_disconnect(connection).0,
        _ => {
            let request = choices.text_of(&REQUESTS);
            let (method, params) = *choices.of(&MCP_CALLS).unwrap_or(&MCP_CALLS[0]);
            let said = Call::new(method, params.map(Json::trusted));
            let address = Address { server, connection_id: connection, request_id: request };
            form.encode_message(way, address, asks.then(|| Id::string("in")).as_ref(), &said)
        }
    }
}
