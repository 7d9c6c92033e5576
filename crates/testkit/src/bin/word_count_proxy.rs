//! A proxy that offers the tool `count` over MCP, on `acp-proxy-core`.

use acp_proxy_core::{IncomingRequest, Json, Outbox, Outcome, Proxy, Side};

/// The declaration of the MCP server. Its transport is ACP.
const SERVER: &str = r#"{"type":"acp","name":"words","serverId":"words"}"#;

struct WordCount;

impl Proxy for WordCount {
    fn on_request(&mut self, from: Side, mut request: IncomingRequest, out: &mut Outbox<'_>) {
        let params = request.call.params.clone().unwrap_or(Json::EMPTY_OBJECT);
        match (from, &*request.call.method.name()) {
            // A session is set up: adds the server and passes the request on.
            (Side::Editor, "session/new" | "session/load" | "session/resume" | "session/fork") => {
                let mut servers = params.member("mcpServers").unwrap_or(Json::NULL).elements();
                servers.push(Json::trusted(SERVER));
                let servers = Json::array(&servers);
                request.call.params = Some(params.with_at(&["mcpServers"], Some(&servers)));
            }
            // An MCP client uses the server.
            (Side::Agent, "mcp/message") if is(&params, "serverId", "words") => {
                return out.answer(request, Outcome::Result(answer(&params)));
            }
            _ => {}
        }
        out.forward(from.opposite(), request);
    }
}

/// The answer to an MCP request, as MCP over ACP wraps it: an object with `result` or `error`.
fn answer(message: &Json) -> Json {
    const OFFER: &str = r#"{"result":{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"serverInfo":{"name":"words","version":"1"}}}"#;
    const TOOLS: &str = r#"{"result":{"tools":[{"name":"count","description":"Counts the words of a text","inputSchema":{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}}]}}"#;
    match message.member("method").as_ref().and_then(Json::text).as_deref() {
        Some("server/discover") => Json::trusted(OFFER),
        Some("tools/list") => Json::trusted(TOOLS),
        Some("tools/call") => {
            let text = message.at(&["params", "arguments", "text"]).unwrap_or(Json::NULL);
            let count = text.text().map_or(0, |text| text.split_whitespace().count());
            Json::trusted(format!(
                r#"{{"result":{{"content":[{{"type":"text","text":"{count} words"}}]}}}}"#
            ))
        }
        _ => Json::trusted(r#"{"error":{"code":-32601,"message":"method not found"}}"#),
    }
}

fn is(params: &Json, key: &str, value: &str) -> bool {
    params.member(key).as_ref().and_then(Json::text).as_deref() == Some(value)
}

fn main() -> std::io::Result<()> {
    acp_proxy_core::stdio::run(WordCount)
}
