//! JSON-RPC lines as the conductor writes them, so that a test can compare whole lines. All arguments are JSON text and are
//! written unchanged. Empty `params` are left out.

/// `{"jsonrpc":"2.0","id":…,"method":…,"params":…}`
pub fn request(id: &str, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},{}}}"#, call(method, params))
}

/// The `proxy/initialize` that a P5 proxy receives when the editor sends these params. The conductor adds the offer of MCP
/// over ACP to `_meta`, which must be the last member. (Checklist 1: it changes nothing else.)
pub fn proxy_greeting(id: &str, params: &str) -> String {
    let offer = r#""mcp_acp_transport":true"#;
    let offered = match params.contains(r#""_meta":{"#) {
        true => params.strip_suffix("}}").map(|members| format!("{members},{offer}}}}}")),
        false => {
            let members = params.strip_suffix('}');
            members.map(|members| format!(r#"{members},"_meta":{{{offer}}}}}"#))
        }
    };
    request(id, "proxy/initialize", &offered.expect("params of initialize"))
}

/// `{"jsonrpc":"2.0","method":…,"params":…}`
pub fn notification(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0",{}}}"#, call(method, params))
}

/// A request in an envelope, to or from the agent's side of a proxy.
pub fn wrapped_request(id: &str, method: &str, params: &str) -> String {
    request(id, "proxy/successor", &format!("{{{}}}", call(method, params)))
}

/// A notification in an envelope, to or from the agent's side of a proxy.
pub fn wrapped_notification(method: &str, params: &str) -> String {
    notification("proxy/successor", &format!("{{{}}}", call(method, params)))
}

/// A response with a result.
pub fn result(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// A response with an error.
pub fn error(id: &str, error: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#)
}

/// `$/cancel_request` for the request of this id.
pub fn cancel(id: &str) -> String {
    notification("$/cancel_request", &format!(r#"{{"requestId":{id}}}"#))
}

/// The id in a line of the conductor, as JSON text.
///
/// # Panics
/// If the line has no id.
pub fn id_of(line: &str) -> &str {
    line.strip_prefix(r#"{"jsonrpc":"2.0","id":"#)
        .and_then(|rest| Some(&rest[..rest.find(",\"")?]))
        .unwrap_or_else(|| panic!("a line without an id: {line:.300}"))
}

fn call(method: &str, params: &str) -> String {
    match params {
        "" => format!(r#""method":"{method}""#),
        _ => format!(r#""method":"{method}","params":{params}"#),
    }
}
