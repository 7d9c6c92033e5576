//! An editor that talks to the demo agent.

use std::collections::BTreeMap;

use acp_proxy::script::Conversation;
use clap::Parser;
use components::BuiltIn;
use components::demo::DemoAgent;
use serde_json::{Value, json};

/// A conversation with the agent, in one session.
pub struct Chat {
    pub conversation: Conversation,
    pub session: String,
    last_id: u64,
    /// The files of the editor.
    pub files: BTreeMap<String, String>,
    /// The requests for permission so far.
    pub questions: Vec<Value>,
    /// The methods of the requests for terminals so far.
    pub terminal_requests: Vec<String>,
}

/// The answer to a prompt: the kinds of the updates, without repetition; the updates; the text; the states of tool
/// calls; the stop reason or the error.
pub struct Answer {
    pub kinds: Vec<String>,
    pub updates: Vec<Value>,
    pub text: String,
    pub tools: Vec<String>,
    pub stop_reason: String,
    pub error: Value,
}

/// The params of `initialize` of an editor that supports everything.
pub fn everything(version: u8) -> Value {
    match version {
        1 => json!({
            "protocolVersion": 1,
            "clientCapabilities": {
                "fs": { "readTextFile": true, "writeTextFile": true },
                "terminal": true,
                "plan": {},
                "subagents": {},
                "session": { "notices": {}, "compaction": {}, "configOptions": { "boolean": {} } },
            },
        }),
        version => json!({ "protocolVersion": version, "capabilities": {}, "info": {} }),
    }
}

impl Chat {
    /// A chat with an editor that supports nothing.
    pub fn new(servers: Value) -> Chat {
        let mut chat = Chat::initialized(&[], json!({ "protocolVersion": 1 }));
        chat.open(servers);
        chat
    }

    /// A chat with an editor that has sent these params of `initialize`.
    pub fn with_client(initialize: Value) -> Chat {
        let mut chat = Chat::initialized(&[], initialize);
        chat.open(json!([]));
        chat
    }

    /// A chat without a session, with an agent that has these options.
    pub fn initialized(options: &[&str], initialize: Value) -> Chat {
        let options = [&["demo-agent", "--pace", "0"], options].concat();
        let agent = DemoAgent::parse_from(options).build();
        let mut chat = Chat {
            conversation: Conversation::new(agent),
            session: String::new(),
            last_id: 0,
            files: BTreeMap::new(),
            questions: Vec::new(),
            terminal_requests: Vec::new(),
        };
        let version = initialize["protocolVersion"].clone();
        let greeting = chat.request("initialize", initialize);
        assert_eq!(greeting["protocolVersion"], version);
        chat
    }

    /// Opens a session. The agent announces its commands after the answer.
    pub fn open(&mut self, servers: Value) -> Value {
        let new = self.request("session/new", json!({ "cwd": "/project", "mcpServers": servers }));
        self.session = new["sessionId"].as_str().expect("an id").to_owned();
        self.skip_commands();
        new
    }

    pub fn skip_commands(&mut self) {
        let commands = self.conversation.receive("editor");
        let kind = &commands["params"]["update"]["sessionUpdate"];
        assert_eq!(kind, "available_commands_update", "{commands}");
    }

    pub fn send(&mut self, method: &str, params: &Value) {
        self.last_id += 1;
        let line = json!({ "id": self.last_id, "method": method, "params": params });
        self.conversation.send("editor", &line.to_string());
    }

    /// The result or the error of a request.
    pub fn request(&mut self, method: &str, params: Value) -> Value {
        self.send(method, &params);
        let answer = self.conversation.receive("editor");
        assert!(answer.get("method").is_none(), "{answer}");
        if answer["result"].is_null() { answer["error"].clone() } else { answer["result"].clone() }
    }

    pub fn send_prompt(&mut self, text: &str) {
        self.send_blocks(json!([{ "type": "text", "text": text }]));
    }

    pub fn send_blocks(&mut self, blocks: Value) {
        let params = json!({ "sessionId": self.session, "prompt": blocks });
        self.send("session/prompt", &params);
    }

    pub fn cancel(&mut self) {
        let cancel = json!({ "method": "session/cancel", "params": { "sessionId": self.session } });
        self.conversation.send("editor", &cancel.to_string());
    }

    pub fn prompt_and_answer(&mut self, text: &str) -> Answer {
        self.send_prompt(text);
        self.read_turn(json!({ "outcome": "cancelled" }))
    }

    /// Receives all messages of a turn. Answers requests for permission with this outcome, and the other requests as
    /// an editor does.
    pub fn read_turn(&mut self, outcome: Value) -> Answer {
        let mut answer = Answer {
            kinds: Vec::new(),
            updates: Vec::new(),
            text: String::new(),
            tools: Vec::new(),
            stop_reason: String::new(),
            error: Value::Null,
        };
        loop {
            let message = self.conversation.receive("editor");
            match message["method"].as_str() {
                Some("session/update") => {
                    let update = &message["params"]["update"];
                    if update["state"] == "idle" {
                        answer.end(&json!({ "result": update, "error": update["error"] }));
                        return answer;
                    }
                    answer.add(update);
                }
                // The agent withdraws a question of a cancelled turn.
                Some("$/cancel_request") => {}
                Some(method) => {
                    if method == "session/request_permission" {
                        answer.kinds.push("permission".into());
                    }
                    let result = self.answer(method, &message["params"], &outcome);
                    let mut line = json!({ "id": message["id"] });
                    match result {
                        Ok(result) => line["result"] = result,
                        Err(why) => line["error"] = json!({ "code": -32603, "message": why }),
                    }
                    self.conversation.send("editor", &line.to_string());
                }
                // In version 2 the answer only accepts the prompt.
                None if message["result"]["stopReason"].is_null() && message["error"].is_null() => {
                }
                None => {
                    answer.end(&message);
                    return answer;
                }
            }
        }
    }

    fn answer(&mut self, method: &str, params: &Value, outcome: &Value) -> Result<Value, String> {
        let path = params["path"].as_str().unwrap_or_default().to_owned();
        Ok(match method {
            "session/request_permission" => {
                self.questions.push(params.clone());
                json!({ "outcome": outcome })
            }
            "fs/read_text_file" => {
                let text = self.files.get(&path).ok_or(format!("{path} does not exist."))?;
                json!({ "content": text })
            }
            "fs/write_text_file" => {
                let content = params["content"].as_str().expect("a text").to_owned();
                if path.contains("read-only") {
                    return Err("the file is read-only".into());
                }
                self.files.insert(path, content);
                json!({})
            }
            "terminal/create" if params["command"] == "missing" => {
                return Err("command not found: missing".into());
            }
            _ => {
                self.terminal_requests.push(method.to_owned());
                match method {
                    "terminal/create" => json!({ "terminalId": "t1" }),
                    "terminal/wait_for_exit" => json!({ "exitCode": 0 }),
                    "terminal/output" => json!({ "output": "hello\nworld\n", "truncated": false }),
                    _ => json!({}),
                }
            }
        })
    }
}

impl Answer {
    fn add(&mut self, update: &Value) {
        let kind = update["sessionUpdate"].as_str().expect("a kind").to_owned();
        if kind == "agent_message_chunk" {
            self.text.push_str(update["content"]["text"].as_str().unwrap_or("[not text]"));
        }
        if kind.starts_with("tool_call")
            && let Some(status) = update["status"].as_str()
        {
            self.tools.push(status.to_owned());
        }
        if self.kinds.last() != Some(&kind) {
            self.kinds.push(kind);
        }
        self.updates.push(update.clone());
    }

    fn end(&mut self, message: &Value) {
        let stop_reason = message["result"]["stopReason"].as_str();
        self.stop_reason = stop_reason.unwrap_or_default().to_owned();
        self.error = message["error"].clone();
    }
}

/// The outcome of a request for permission in which the user has selected an option.
pub fn selected(option: &str) -> Value {
    json!({ "outcome": "selected", "optionId": option })
}
