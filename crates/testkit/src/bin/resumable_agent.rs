//! An agent that can resume every session (`session/resume`), so a test can kill it at any time.
//!
//! | the text of a prompt | what the agent does before it answers |
//! |---|---|
//! | `wait` | sends the text `waiting`, and answers when the session is cancelled or another prompt is `go on` |
//! | `stream N` | sends the numbers below N |
//! | `fill N` | sends one text of N bytes |
//! | `tool TEXT` | calls the tool `count` of the session's first MCP server over ACP, and sends its result |
//! | `client TEXT` | the same with a server that it must start: `conductor mcp PORT` |
//! | `servers` | sends the declarations of the session's MCP servers |
//! | `half` | writes half a line and no answer |
//! | `nested N` | sends an update with JSON of depth N |
//! | `numbers` | sends an update with numbers that do not fit a float |
//! | `exit N` | exits with this status, without an answer |
//! | `bytes` | writes a line that is not UTF-8, then sends the text `after` |
//! | any other text | sends this text |
//!
//! Options: `--forgetful` does not offer to resume sessions. `--bridged` does not support MCP over ACP. `--deaf` ignores the
//! end of its input and signals. `--mute` answers nothing.

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use serde_json::{Value, json};

fn main() -> io::Result<()> {
    let options: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| options.iter().any(|option| option == name);
    if has("--deaf") {
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            // SAFETY: sets the disposition of a signal.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        }
    }
    let mut agent = Agent {
        resumes: !has("--forgetful"),
        native: !has("--bridged"),
        mute: has("--mute"),
        ..Agent::default()
    };
    for line in BufReader::with_capacity(1 << 16, io::stdin().lock()).lines() {
        let message: Value = serde_json::from_str(&line?)?;
        agent.handle(&message);
    }
    while has("--deaf") {
        std::thread::park();
    }
    Ok(())
}

#[derive(Default)]
struct Agent {
    resumes: bool,
    native: bool,
    mute: bool,
    opened: u64,
    /// The MCP servers of each session.
    sessions: BTreeMap<String, Value>,
    /// By session: the prompt that waits for a cancellation or for `go on`.
    waiting: BTreeMap<String, Value>,
    /// Open calls to MCP servers, with the prompt and the session that they belong to.
    server_calls: BTreeMap<u64, (Value, String)>,
    last_id: u64,
}

impl Agent {
    fn handle(&mut self, message: &Value) {
        if self.mute {
            return;
        }
        let (id, params) = (&message["id"], &message["params"]);
        let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
        match message["method"].as_str() {
            Some("initialize") => answer(id, self.greeting()),
            Some("session/new") => {
                self.opened += 1;
                // The process id makes the session id differ from those of an earlier process.
                let session = format!("resumable-{}-{}", std::process::id(), self.opened);
                self.sessions.insert(session.clone(), params["mcpServers"].clone());
                answer(id, json!({ "sessionId": session }));
            }
            Some("session/resume" | "session/load") => {
                self.sessions.insert(session, params["mcpServers"].clone());
                answer(id, json!({}));
            }
            Some("session/close") => {
                self.sessions.remove(&session);
                answer(id, json!({}));
            }
            Some("session/prompt") => match self.sessions.contains_key(&session) {
                true => self.prompt(id, &session, params["prompt"][0]["text"].as_str()),
                false => refuse(id, &format!("there is no session {session}")),
            },
            Some("session/cancel") => {
                if let Some(id) = self.waiting.remove(&session) {
                    answer(&id, json!({ "stopReason": "cancelled" }));
                }
            }
            Some(_) if !id.is_null() => refuse(id, "unknown"),
            Some(_) => {}
            None => self.on_answer(message),
        }
    }

    fn greeting(&self) -> Value {
        let mut capabilities = json!({ "sessionCapabilities": { "close": {} } });
        if self.resumes {
            capabilities["sessionCapabilities"]["resume"] = json!({});
        }
        if self.native {
            capabilities["mcpCapabilities"] = json!({ "acp": true });
        }
        json!({ "protocolVersion": 1, "agentCapabilities": capabilities, "authMethods": [] })
    }

    fn prompt(&mut self, id: &Value, session: &str, text: Option<&str>) {
        let text = text.unwrap_or_default();
        let (word, rest) = text.split_once(' ').unwrap_or((text, ""));
        let number = || rest.parse::<usize>().unwrap_or(0);
        match word {
            "wait" => {
                send_text(session, "waiting");
                self.waiting.insert(session.to_owned(), id.clone());
                return;
            }
            "go" => {
                let waiting = self.waiting.remove(session);
                waiting.into_iter().for_each(|id| answer(&id, json!({ "stopReason": "end_turn" })));
            }
            "stream" => (0..number()).for_each(|number| send_text(session, &number.to_string())),
            "fill" => send_text(session, &"x".repeat(number())),
            "tool" => return self.call_acp_server(id, session, rest),
            "client" => send_text(session, &self.call_stdio_server(session, rest)),
            "servers" => {
                let servers = self.sessions.get(session).map(Value::to_string);
                send_text(session, &servers.unwrap_or_default());
            }
            "half" => {
                return write(
                    br#"{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"#,
                );
            }
            "nested" => {
                let deep = format!("{}{}", "[".repeat(number()), "]".repeat(number()));
                update(session, &format!(r#"{{"sessionUpdate":"x","deep":{deep}}}"#));
            }
            "numbers" => {
                let numbers = "[123456789012345678901234567890,0.12345678901234567890123,1e400]";
                update(session, &format!(r#"{{"sessionUpdate":"x","numbers":{numbers}}}"#));
            }
            "bytes" => {
                write(b"{\"jsonrpc\":\"2.0\",\"method\":\"x\",\"params\":[\"\xff\xfe\"]}\n");
                send_text(session, "after");
            }
            "exit" => std::process::exit(rest.parse().unwrap_or(0)),
            _ => send_text(session, text),
        }
        answer(id, json!({ "stopReason": "end_turn" }));
    }

    /// Handles the answer of an MCP server.
    fn on_answer(&mut self, message: &Value) {
        let Some(id) = message["id"].as_u64() else { return };
        let Some((prompt, session)) = self.server_calls.remove(&id) else { return };
        let text = message["result"]["result"]["content"][0]["text"].as_str();
        send_text(&session, text.unwrap_or(&message.to_string()));
        answer(&prompt, json!({ "stopReason": "end_turn" }));
    }

    fn call_acp_server(&mut self, prompt: &Value, session: &str, text: &str) {
        let servers = self.sessions.get(session).and_then(Value::as_array);
        let server = servers.and_then(|it| it.iter().find_map(|it| it["serverId"].as_str()));
        let Some(server) = server else {
            send_text(session, "there is no server");
            return answer(prompt, json!({ "stopReason": "end_turn" }));
        };
        self.last_id += 1;
        let arguments = json!({ "name": "count", "arguments": { "text": text } });
        let request = format!("r-{}", self.last_id);
        let params = json!({
            "serverId": server, "requestId": request, "method": "tools/call", "params": arguments,
        });
        self.server_calls.insert(self.last_id, (prompt.clone(), session.to_owned()));
        write_message(
            &json!({ "jsonrpc": "2.0", "id": self.last_id, "method": "mcp/message", "params": params }),
        );
    }

    /// Starts the declared program, calls its tool over stdio, and ends it.
    fn call_stdio_server(&self, session: &str, text: &str) -> String {
        let servers = self.sessions.get(session).and_then(Value::as_array);
        let server = servers.and_then(|it| it.iter().find(|it| it["command"].is_string()));
        match server.map(|server| call_server(server, text)) {
            Some(Ok(text)) => text,
            Some(Err(error)) => format!("the server fails: {error}"),
            None => "there is no server".to_owned(),
        }
    }
}

fn call_server(server: &Value, text: &str) -> io::Result<String> {
    let words = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let string = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut command = Command::new(string(&server["command"]));
    command.args(words(&server["args"]).iter().map(string));
    command
        .envs(words(&server["env"]).iter().map(|it| (string(&it["name"]), string(&it["value"]))));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("the server has no pipes"));
    };
    let mut lines = BufReader::new(output).lines();
    let mut request = |id: u64, method: &str, params: Value| -> io::Result<Value> {
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        writeln!(input, "{message}")?;
        loop {
            let line = lines.next().ok_or_else(|| io::Error::other("the server has exited"))??;
            let message: Value = serde_json::from_str(&line)?;
            if message["id"] == id && message.get("method").is_none() {
                return Ok(message);
            }
        }
    };
    let info = json!({ "name": "resumable", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info });
    request(1, "initialize", hello)?;
    let answer =
        request(2, "tools/call", json!({ "name": "count", "arguments": { "text": text } }))?;
    drop(input);
    child.wait()?;
    let text = answer["result"]["content"][0]["text"].as_str();
    Ok(text.map_or_else(|| answer.to_string(), str::to_owned))
}

/// Writes bytes to standard output. Exits if it is closed.
fn write(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    if out.write_all(bytes).and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}

fn write_message(message: &Value) {
    write(format!("{message}\n").as_bytes());
}

fn answer(id: &Value, result: Value) {
    write_message(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
}

fn refuse(id: &Value, why: &str) {
    write_message(
        &json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32002, "message": why } }),
    );
}

fn send_text(session: &str, text: &str) {
    let content = json!({ "type": "text", "text": text });
    update(
        session,
        &json!({ "sessionUpdate": "agent_message_chunk", "content": content }).to_string(),
    );
}

fn update(session: &str, update: &str) {
    let params = format!(r#"{{"sessionId":"{session}","update":{update}}}"#);
    let line = format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{params}}}"#);
    write(format!("{line}\n").as_bytes());
}
