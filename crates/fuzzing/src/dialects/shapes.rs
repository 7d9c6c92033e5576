//! Templates of lines, from the documents of the generations.

use bytes::Bytes;

use crate::scenario::{Choices, filled};

/// Lines of every generation.
pub const SHAPES: [&str; 20] = [
    r#"{"jsonrpc":"2.0","id":$id,"method":"$method","params":$value}"#,
    r#"{"jsonrpc":"2.0","method":"$method","params":$value}"#,
    r#"{"jsonrpc":"2.0","id":$id,"result":$value}"#,
    r#"{"jsonrpc":"2.0","id":$id,"error":$value}"#,
    r#"{"id":$id,"method":"$method"}"#,
    r#"{"jsonrpc":"2.0","id":$id,"method":"proxy/successor","params":{"method":"$method","params":$value,"_meta":{"hop":1}}}"#,
    r#"{"jsonrpc":"2.0","method":"proxy/successor","params":{"method":"$method","params":$value}}"#,
    r#"{"jsonrpc":"2.0","id":$id,"method":"_proxy/successor","params":{"method":"$method","params":$value,"meta":null}}"#,
    r#"{"jsonrpc":"2.0","method":"_proxy/successor","params":{"method":"$method","params":$value}}"#,
    r#"{"jsonrpc":"2.0","id":$id,"method":"_proxy/successor/request","params":{"method":"$method","params":$value}}"#,
    r#"{"jsonrpc":"2.0","method":"_proxy/successor/notification","params":{"method":"$method","params":$value}}"#,
    r#"{"id":$id,"method":"_proxy/successor/request","params":{"message":{"method":"$method","params":$value}}}"#,
    r#"{"method":"_proxy/successor/notification","params":{"message":{"method":"$method","params":$value}}}"#,
    r#"{"id":$id,"method":"_proxy/successor/send/request","params":{"message":{"jsonrpc":"2.0","id":3,"method":"$method","params":$value}}}"#,
    r#"{"method":"_proxy/successor/send/notification","params":{"message":{"method":"$method","params":$value}}}"#,
    r#"{"id":$id,"method":"_proxy/successor/receive/request","params":{"message":{"method":"$method","params":$value}}}"#,
    r#"{"method":"_proxy/successor/receive/notification","params":{"message":{"method":"$method","params":$value}}}"#,
    r#"{"id":$id,"method":"_scp/successor/send","params":{"message":{"method":"$method","params":$value}}}"#,
    r#"{"method":"_scp/successor/receive","params":{"message":{"method":"$method","params":$value}}}"#,
    r#"{"params":{"params":$value,"x": [1],"method":"$method"},"trace":{"t":1},"id":$id,"method":"proxy/successor"}"#,
];

/// Ids of the router, ids that a dialect derives from them, and others.
pub const IDS: [&str; 10] = [
    r#""c:1""#,
    r#""c:1~1""#,
    r#""c:1~2""#,
    r#""c:2""#,
    r#""scp""#,
    r#""scp:initialize""#,
    "7",
    "null",
    r#""\u0063:1""#,
    "1.5",
];

pub const METHODS: [&str; 12] = [
    "initialize",
    "proxy/initialize",
    "_proxy/initialize",
    "session/update",
    "session/prompt",
    "$/cancel_request",
    "_scp/proxy",
    "proxy/successor",
    "_proxy/successor/request",
    "_proxy/successor/send/notification",
    "_scp/successor/send",
    r"initi\u0061lize",
];

/// Params, results and errors.
pub const VALUES: [&str; 24] = [
    r#"{"protocolVersion":1,"clientCapabilities":{}}"#,
    r#"{"protocolVersion":1}"#,
    r#"{"code":-32601,"message":"no"}"#,
    r#"{"code":-32000,"message":"log in first"}"#,
    r#"{"a": 1.10}"#,
    "{}",
    "null",
    "[1]",
    "3",
    r#"{"requestId":"c:1"}"#,
    r#"{"protocolVersion":1,"_meta":{"proxy":true}}"#,
    r#"{"protocolVersion":1,"_meta":{"symposium":{"version":"1.0","proxy":true}}}"#,
    r#"{"protocolVersion":1,"_meta":{"symposium":{"version":"1.0","html_panel":true}}}"#,
    r#"{"protocolVersion":1,"clientCapabilities":{"_meta":{"symposium":{"version":"1.0","proxy":true}}}}"#,
    r#"{"protocolVersion":"0.1.0","capabilities":{"_meta":{"symposium":{"version":"1.0","proxy":true}}}}"#,
    r#"{"protocolVersion":1,"agentCapabilities":{"_meta":{"symposium":{"version":"1.0","proxy":true}}}}"#,
    r#"{"protocolVersion":1,"agentCapabilities":{"_meta":{"proxy":true},"mcpCapabilities":{"acp":true}}}"#,
    r#"{"protocolVersion":1,"_meta":{"symposium":{"proxy":false}}}"#,
    r#"{"protocolVersion":2,"info":{"name":"e"},"capabilities":{"session":{"mcp":{"acp":{}}}},"_meta":{"t":1}}"#,
    r#"{"protocolVersion":1,"agentCapabilities":{"_meta":{"symposium":{"mcp_acp_transport":true}}}}"#,
    r#"{"servers":[{"name":"next","command":"/x","args":[],"env":[]}]}"#,
    r#"{"servers":[],"more":[]}"#,
    r#"{"_meta":3,"clientCapabilities":{"_meta":[]},"protocolVersion":1}"#,
    r#"{"protocolVersion":1,"protocolVersion":2,"_meta":{"proxy":1,"proxy":false}}"#,
];

/// A line from a template.
pub fn line(choices: &mut Choices<'_>) -> Bytes {
    let shape = choices.text_of(&SHAPES);
    filled(shape, [choices.text_of(&IDS), choices.text_of(&METHODS), choices.text_of(&VALUES)])
}
