//! MCP servers on a stream.
#![cfg(feature = "rmcp")]

use acp_proxy::Proxy;
use acp_proxy::script::Conversation;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};

/// An MCP server that requests the roots before it answers `tools/call`.
async fn serve(stream: DuplexStream, session: acp_proxy::ToolSession) {
    let (reader, mut writer) = tokio::io::split(stream);
    let mut lines = BufReader::new(reader).lines();
    let mut call = None;
    while let Ok(Some(line)) = lines.next_line().await {
        let message: Value = serde_json::from_str(&line).expect("JSON");
        let id = message["id"].clone();
        let said = match message["method"].as_str() {
            Some("initialize") => {
                json!({ "id": id, "result": { "capabilities": { "tools": {} }, "serverInfo": { "name": "asks", "version": "1" } } })
            }
            Some("tools/call") => {
                call = Some(id);
                let progress = json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": { "progressToken": "t", "progress": 1 } });
                writer.write_all(format!("{progress}\n").as_bytes()).await.expect("a reader");
                json!({ "id": "mine", "method": "roots/list" })
            }
            Some("fail") => {
                json!({ "id": id, "error": { "code": -32000, "message": "as you like" } })
            }
            None => {
                let text = format!("{} in {:?}", message["result"], session.id());
                json!({ "id": call.take(), "result": { "content": [{ "type": "text", "text": text }] } })
            }
            _ => continue,
        };
        let mut said = said;
        said["jsonrpc"] = "2.0".into();
        writer.write_all(format!("{said}\n").as_bytes()).await.expect("a reader");
    }
}

/// Opens a session and returns the id of its first server.
fn session(conversation: &mut Conversation) -> String {
    conversation
        .send("editor", r#"{"id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}"#);
    let new = conversation.receive("agent");
    conversation.send("agent", &format!(r#"{{"id":{},"result":{{"sessionId":"S"}}}}"#, new["id"]));
    conversation.receive("editor");
    new["params"]["mcpServers"][0]["serverId"].as_str().expect("an id").to_owned()
}

fn message(server: &str, id: u64, method: &str, params: &Value) -> String {
    json!({ "id": id, "method": "mcp/message", "params": {
        "serverId": server, "requestId": format!("r{id}"), "method": method, "params": params,
    }})
    .to_string()
}

#[test]
fn a_server_on_a_stream_gets_requests_and_sends_requests_to_the_client() {
    let proxy = Proxy::new("p").mcp_server("asks", |session, stream| serve(stream, session));
    let mut conversation = Conversation::new(proxy);
    let server = session(&mut conversation);
    conversation.send("agent", &message(&server, 1, "server/discover", &json!({})));
    let found = conversation.receive("agent");
    assert_eq!(found["result"]["result"]["serverInfo"]["name"], "asks");
    conversation.send("agent", &message(&server, 2, "fail", &json!({})));
    assert_eq!(conversation.receive("agent")["result"]["error"]["code"], -32000);

    let call = json!({ "name": "x", "_meta": { "progressToken": "t" } });
    conversation.send("agent", &message(&server, 3, "tools/call", &call));
    let progress = conversation.receive("agent");
    assert_eq!(
        (&progress["params"]["requestId"], &progress["params"]["params"]["progress"]),
        (&json!("r3"), &json!(1))
    );
    let asks = conversation.receive("agent");
    let wanted = &asks["result"]["result"];
    assert_eq!(wanted["inputRequests"]["question"]["method"], "roots/list");
    let again = json!({ "name": "x", "requestState": wanted["requestState"], "inputResponses": { "question": { "roots": [] } } });
    conversation.send("agent", &message(&server, 4, "tools/call", &again));
    let done = conversation.receive("agent");
    assert_eq!(done["result"]["result"]["content"][0]["text"], r#"{"roots":[]} in Some("S")"#);
    assert_eq!(done["result"]["result"]["resultType"], "complete");
}

#[derive(Clone)]
struct Empty;
impl rmcp::ServerHandler for Empty {}

#[test]
fn a_handler_of_rmcp_is_an_mcp_server() {
    let mut conversation = Conversation::new(Proxy::new("p").rmcp_server("empty", |_| Empty));
    let server = session(&mut conversation);
    conversation.send("agent", &message(&server, 1, "tools/list", &json!({})));
    let listed = conversation.receive("agent");
    assert_eq!(listed["result"]["result"]["tools"], json!([]), "{listed}");
}
