//! An agent that tries what guards must stop: `forbidden_agent LOG`. It appends each line that it receives to LOG.
//!
//! In each turn it describes a tool call that runs `forbidden-command`, reads `/project/README.md`, and asks for
//! permission with nothing but the id of the tool call: so the guard can die between the two. Then it writes
//! `/project/.env`, starts a terminal with `forbidden-command`, and calls `forbidden-tool` of its first MCP server: in a
//! single request, and on a connection that it opens before. At last it sends the secret `ghp_` + 36 characters in pieces,
//! ends the turn and reports the use of 100 tokens. It goes on whatever the answers are, so a turn has always the same
//! length.
//!
//! A prompt with the text `harmless` does only this: it opens a connection, or uses the one that is open, and calls the
//! tool `harmless-tool`.

use std::io::{self, BufRead, Write};

use serde_json::{Value, json};

/// A token as GitHub gives them out. It is not valid.
const SECRET: &str = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8";

#[derive(Default)]
struct Agent {
    sessions: u32,
    /// The id of the MCP server.
    server: Value,
    /// The id of the connection to it.
    connection: Value,
    /// The prompt that is being answered: its id and session.
    prompt: Option<(Value, String)>,
    steps: &'static [Step],
    /// The number of the last request.
    last_request: usize,
}

#[derive(Clone, Copy)]
enum Step {
    Read,
    AskForPermission,
    Write,
    StartTerminal,
    CallTool,
    Connect,
    CallToolOfConnection(&'static str),
}

const FORBIDDEN: [Step; 7] = [
    Step::Read,
    Step::AskForPermission,
    Step::Write,
    Step::StartTerminal,
    Step::CallTool,
    Step::Connect,
    Step::CallToolOfConnection("forbidden-tool"),
];
const HARMLESS: [Step; 2] = [Step::Connect, Step::CallToolOfConnection("harmless-tool")];

fn main() -> io::Result<()> {
    let log = std::env::args().nth(1).expect("LOG");
    let mut log = std::fs::File::options().create(true).append(true).open(log)?;
    let mut agent = Agent::default();
    for line in io::stdin().lock().lines() {
        let line = line?;
        writeln!(log, "{line}")?;
        agent.handle(&serde_json::from_str(&line)?)?;
    }
    Ok(())
}

fn send(message: Value) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{message}")?;
    out.flush()
}

fn answer(id: &Value, result: Value) -> io::Result<()> {
    send(json!({ "jsonrpc": "2.0", "id": id, "result": result }))
}

impl Agent {
    fn handle(&mut self, message: &Value) -> io::Result<()> {
        let id = &message["id"];
        let session = message["params"]["sessionId"].as_str().unwrap_or_default();
        match message["method"].as_str() {
            Some("initialize") => answer(
                id,
                json!({ "protocolVersion": 1, "agentCapabilities": {
                    "loadSession": true, "sessionCapabilities": { "resume": {} },
                    "mcpCapabilities": { "acp": true },
                }}),
            ),
            Some("session/new") => {
                self.sessions += 1;
                self.server = message["params"]["mcpServers"][0]["serverId"].clone();
                answer(id, json!({ "sessionId": format!("s{}", self.sessions) }))
            }
            Some("session/prompt") => {
                self.prompt = Some((id.clone(), session.to_owned()));
                let is_harmless = message["params"]["prompt"][0]["text"] == "harmless";
                self.steps = match (is_harmless, self.connection.is_null()) {
                    (true, true) => &HARMLESS,
                    (true, false) => &HARMLESS[1..],
                    (false, _) => &FORBIDDEN,
                };
                self.next_step()
            }
            Some(_) if !id.is_null() => answer(id, json!({})),
            Some(_) => Ok(()),
            // The answer to the request of the last step.
            None => {
                if let Some(connection) = message["result"].get("connectionId") {
                    self.connection = connection.clone();
                }
                self.next_step()
            }
        }
    }

    fn next_step(&mut self) -> io::Result<()> {
        let Some((prompt, session)) = self.prompt.clone() else { return Ok(()) };
        let [step, rest @ ..] = self.steps else {
            self.prompt = None;
            return end_turn(&prompt, &session);
        };
        (self.steps, self.last_request) = (rest, self.last_request + 1);
        let id = format!("a{}", self.last_request);
        let request = |method: &str, params: Value| {
            send(json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }))
        };
        let tool = |name: &str| json!({ "name": name, "arguments": {} });
        match step {
            Step::Read => {
                update(
                    &session,
                    json!({
                        "sessionUpdate": "tool_call", "toolCallId": "t1", "title": "Run",
                        "kind": "execute", "rawInput": { "command": "forbidden-command --now" },
                    }),
                )?;
                let path = "/project/README.md";
                request("fs/read_text_file", json!({ "sessionId": session, "path": path }))
            }
            Step::AskForPermission => request(
                "session/request_permission",
                json!({ "sessionId": session, "toolCall": { "toolCallId": "t1" }, "options": [
                    { "optionId": "always", "name": "Always", "kind": "allow_always" },
                    { "optionId": "yes", "name": "Yes", "kind": "allow_once" },
                    { "optionId": "no", "name": "No", "kind": "reject_once" },
                ]}),
            ),
            Step::Write => request(
                "fs/write_text_file",
                json!({ "sessionId": session, "path": "/project/.env", "content": "A=1" }),
            ),
            Step::StartTerminal => request(
                "terminal/create",
                json!({ "sessionId": session, "command": "forbidden-command --now" }),
            ),
            Step::CallTool => request(
                "mcp/message",
                json!({
                    "serverId": self.server, "requestId": id,
                    "method": "tools/call", "params": tool("forbidden-tool"),
                }),
            ),
            Step::Connect => request("mcp/connect", json!({ "serverId": self.server })),
            Step::CallToolOfConnection(name) => request(
                "mcp/message",
                json!({
                    "connectionId": self.connection, "method": "tools/call", "params": tool(name),
                }),
            ),
        }
    }
}

fn update(session: &str, update: Value) -> io::Result<()> {
    let params = json!({ "sessionId": session, "update": update });
    send(json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }))
}

/// Sends the secret and ends the turn.
fn end_turn(prompt: &Value, session: &str) -> io::Result<()> {
    for piece in [&SECRET[..2], &SECRET[2..10], &SECRET[10..]] {
        update(
            session,
            json!({
                "sessionUpdate": "agent_message_chunk",
                "content": { "type": "text", "text": piece },
            }),
        )?;
    }
    let usage = json!({ "totalTokens": 100, "inputTokens": 60, "outputTokens": 40 });
    answer(prompt, json!({ "stopReason": "end_turn", "usage": usage }))
}
