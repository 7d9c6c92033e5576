//! A small MCP server behind the listeners.

use std::collections::BTreeMap;

use acp_conductor::mcp::{ClientEvent, ClientSender};
use acp_wire::{Id, Json, Message, Outcome};
use bytes::Bytes;
use mcp::ClientId;
use tokio::sync::mpsc::Receiver;

/// Serves every client until no more can connect. Returns how many have connected and how many have
/// disconnected.
pub async fn serve(mut events: Receiver<ClientEvent>) -> (usize, usize) {
    let mut senders: BTreeMap<ClientId, ClientSender> = BTreeMap::new();
    // The ids of tool calls that wait for a sample, by the id of the server's own request.
    let mut sampling: BTreeMap<String, Id> = BTreeMap::new();
    let (mut calls, mut ends) = (0, 0);
    while let Some(event) = events.recv().await {
        match event {
            ClientEvent::Connected { client_id, sender, .. } => {
                calls += 1;
                senders.insert(client_id, sender);
            }
            ClientEvent::Disconnected(client_id) => {
                ends += 1;
                senders.remove(&client_id);
            }
            ClientEvent::Line { client_id, line } => {
                let Some(sender) = senders.get(&client_id) else { continue };
                for answer in answer(&line, &mut sampling) {
                    sender.send(Bytes::from(answer.to_line()));
                }
            }
        }
    }
    (calls, ends)
}

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).unwrap()
}

fn text_result(text: &str) -> Json {
    let text = Json::string(text);
    json(&format!(r#"{{"content":[{{"type":"text","text":{text}}}],"isError":false}}"#))
}

fn answer(line: &Bytes, sampling: &mut BTreeMap<String, Id>) -> Vec<Message> {
    let (id, call) = match Message::parse(line).expect("a message") {
        Message::Request { id, call } => (id, call),
        Message::Response { id, outcome, .. } => {
            let received = sampling.remove(&*id.text().unwrap_or_default());
            let Outcome::Result(result) = outcome else { panic!("{outcome:?}") };
            let text = result.at(&["content", "text"]).unwrap();
            let result = text_result(&text.text().unwrap());
            return received
                .into_iter()
                .map(|id| Message::response(id, Outcome::Result(result.clone())))
                .collect();
        }
        Message::Notification(call) if call.is("notifications/initialized") => {
            // Before the client can have opened a stream for it.
            let changed = Message::notification("notifications/tools/list_changed", None);
            return vec![changed];
        }
        Message::Notification(_) => return Vec::new(),
    };
    let params = call.params.clone().unwrap_or(Json::EMPTY_OBJECT);
    let result = |result: Json| vec![Message::response(id.clone(), Outcome::Result(result))];
    match &*call.method.name() {
        "initialize" => {
            let version = params.member("protocolVersion").unwrap();
            result(json(&format!(
                r#"{{"protocolVersion":{version},"capabilities":{{"tools":{{"listChanged":true}}}},"serverInfo":{{"name":"bridge","version":"1"}}}}"#
            )))
        }
        "ping" => result(Json::EMPTY_OBJECT),
        "tools/list" => {
            let tool = |name| format!(r#"{{"name":"{name}","inputSchema":{{"type":"object"}}}}"#);
            let tools = ["echo", "progress", "sample"].map(tool).join(",");
            result(json(&format!(r#"{{"tools":[{tools}]}}"#)))
        }
        "tools/call" => match &*params.member("name").unwrap().text().unwrap() {
            "progress" => {
                let token = params.at(&["_meta", "progressToken"]).expect("a token");
                let note = |at| {
                    let params =
                        format!(r#"{{"progressToken":{token},"progress":{at},"total":2}}"#);
                    Message::notification("notifications/progress", json(&params))
                };
                let mut all = vec![note(1), note(2)];
                all.extend(result(text_result("done")));
                all
            }
            "sample" => {
                let name = format!("sample-{}", sampling.len());
                sampling.insert(name.clone(), id.clone());
                let params = r#"{"messages":[{"role":"user","content":{"type":"text","text":"?"}}],"maxTokens":9}"#;
                vec![Message::request(Id::string(&name), "sampling/createMessage", json(params))]
            }
            _ => {
                let arguments = params.member("arguments").unwrap_or(Json::EMPTY_OBJECT);
                result(text_result(arguments.as_str()))
            }
        },
        other => {
            let words = format!("no such method: {other}");
            vec![Message::response(
                id.clone(),
                Outcome::error(acp_wire::code::METHOD_NOT_FOUND, &words),
            )]
        }
    }
}
