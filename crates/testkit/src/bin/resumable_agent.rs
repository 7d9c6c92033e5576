//! An agent that a restart costs nothing: whatever session it is told to take up (`session/resume`), it
//! knows. So a test can kill it as often as it likes.
//!
//! | the text of a prompt | what it does before it answers |
//! |---|---|
//! | `wait` | says `waiting`, and answers when the session is cancelled, or with `go on` in another prompt |
//! | `stream N` | says the numbers below N |
//! | `fill N` | says one text of N bytes |
//! | `tool TEXT` | has the words of the text counted by the session's first MCP server over ACP, and says how many |
//! | `client TEXT` | the same with a server that it must start: `conductor mcp PORT` |
//! | `servers` | says how the MCP servers of the session were declared |
//! | `half` | writes half a line and says nothing more |
//! | `nested N` | says an update nested so deep |
//! | `numbers` | says an update with numbers that need more than a float |
//! | `exit N` | ends with that status, without an answer |
//! | `bytes` | writes a line that is not UTF-8, says `after` |
//! | anything else | says it |
//!
//! With `--forgetful` it does not offer to take sessions up. With `--bridged` it takes no MCP servers
//! over ACP. With `--deaf` it ignores the end of its input and signals. With `--mute` it answers nothing.

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
    /// Prompts that wait for the end of their session's patience.
    waiting: BTreeMap<String, Value>,
    /// Questions to MCP servers: for which prompt, in which session.
    asked: BTreeMap<u64, (Value, String)>,
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
                // Not to be taken for a session of the process before this one.
                let session = format!("durable-{}-{}", std::process::id(), self.opened);
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
            None => self.told(message),
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
                say(session, "waiting");
                self.waiting.insert(session.to_owned(), id.clone());
                return;
            }
            "go" => {
                let waiting = self.waiting.remove(session);
                waiting.into_iter().for_each(|id| answer(&id, json!({ "stopReason": "end_turn" })));
            }
            "stream" => (0..number()).for_each(|number| say(session, &number.to_string())),
            "fill" => say(session, &"x".repeat(number())),
            "tool" => return self.ask_server(id, session, rest),
            "client" => say(session, &self.start_server(session, rest)),
            "servers" => {
                let servers = self.sessions.get(session).map(Value::to_string);
                say(session, &servers.unwrap_or_default());
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
                say(session, "after");
            }
            "exit" => std::process::exit(rest.parse().unwrap_or(0)),
            _ => say(session, text),
        }
        answer(id, json!({ "stopReason": "end_turn" }));
    }

    /// The answer to something that this agent has asked.
    fn told(&mut self, message: &Value) {
        let Some(id) = message["id"].as_u64() else { return };
        let Some((prompt, session)) = self.asked.remove(&id) else { return };
        let text = message["result"]["result"]["content"][0]["text"].as_str();
        say(&session, text.unwrap_or(&message.to_string()));
        answer(&prompt, json!({ "stopReason": "end_turn" }));
    }

    fn ask_server(&mut self, prompt: &Value, session: &str, text: &str) {
        let servers = self.sessions.get(session).and_then(Value::as_array);
        let server = servers.and_then(|it| it.iter().find_map(|it| it["serverId"].as_str()));
        let Some(server) = server else {
            say(session, "there is no server");
            return answer(prompt, json!({ "stopReason": "end_turn" }));
        };
        self.last_id += 1;
        let arguments = json!({ "name": "count", "arguments": { "text": text } });
        let request = format!("r-{}", self.last_id);
        let params = json!({
            "serverId": server, "requestId": request, "method": "tools/call", "params": arguments,
        });
        self.asked.insert(self.last_id, (prompt.clone(), session.to_owned()));
        put(
            &json!({ "jsonrpc": "2.0", "id": self.last_id, "method": "mcp/message", "params": params }),
        );
    }

    /// Starts the declared program, talks MCP with it, and ends it.
    fn start_server(&self, session: &str, text: &str) -> String {
        let servers = self.sessions.get(session).and_then(Value::as_array);
        let server = servers.and_then(|it| it.iter().find(|it| it["command"].is_string()));
        match server.map(|server| talk(server, text)) {
            Some(Ok(said)) => said,
            Some(Err(error)) => format!("it fails: {error}"),
            None => "there is no server".to_owned(),
        }
    }
}

fn talk(server: &Value, text: &str) -> io::Result<String> {
    let words = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let string = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut command = Command::new(string(&server["command"]));
    command.args(words(&server["args"]).iter().map(string));
    command
        .envs(words(&server["env"]).iter().map(|it| (string(&it["name"]), string(&it["value"]))));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let (Some(mut input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
        return Err(io::Error::other("it has no pipes"));
    };
    let mut lines = BufReader::new(output).lines();
    let mut ask = |id: u64, method: &str, params: Value| -> io::Result<Value> {
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        writeln!(input, "{message}")?;
        loop {
            let line = lines.next().ok_or_else(|| io::Error::other("it has left"))??;
            let message: Value = serde_json::from_str(&line)?;
            if message["id"] == id && message.get("method").is_none() {
                return Ok(message);
            }
        }
    };
    let info = json!({ "name": "durable", "version": "1" });
    let hello = json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info });
    ask(1, "initialize", hello)?;
    let answer = ask(2, "tools/call", json!({ "name": "count", "arguments": { "text": text } }))?;
    drop(input);
    child.wait()?;
    let said = answer["result"]["content"][0]["text"].as_str();
    Ok(said.map_or_else(|| answer.to_string(), str::to_owned))
}

/// Who is not heard any more has nothing more to do.
fn write(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    if out.write_all(bytes).and_then(|()| out.flush()).is_err() {
        std::process::exit(0);
    }
}

fn put(message: &Value) {
    write(format!("{message}\n").as_bytes());
}

fn answer(id: &Value, result: Value) {
    put(&json!({ "jsonrpc": "2.0", "id": id, "result": result }));
}

fn refuse(id: &Value, why: &str) {
    put(&json!({ "jsonrpc": "2.0", "id": id, "error": { "code": -32002, "message": why } }));
}

fn say(session: &str, text: &str) {
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
