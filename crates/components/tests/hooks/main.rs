//! What `hooks` does with the messages of an editor and an agent. The hooks are real processes.
#![cfg(unix)]

mod contracts;
mod files;
mod guard;
mod limits;
mod once;
mod published;
mod tools;
mod turns;
mod version_2;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use acp_proxy::script::Conversation;
use serde_json::{Map, Value, json};

/// A folder with scripts, which is also the project.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("hooks-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Folder(path.canonicalize().unwrap())
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// An executable script.
    fn script(&self, name: &str, text: &str) -> String {
        let path = self.write(name, text);
        fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        path
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap_or_default()
    }

    /// The inputs that hooks have appended to this file.
    fn inputs(&self, name: &str) -> Vec<Value> {
        self.read(name).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// A command that appends its input to a file.
    fn record(&self, name: &str) -> String {
        format!("input=$(cat); printf '%s\\n' \"$input\" >> {}", self.path(name))
    }

    /// A command that records its input, blocks what has a word in it, and allows everything else.
    fn guard(&self, word: &str) -> String {
        let record = self.record("input");
        let allow = decision("allow");
        format!("{record}; case \"$input\" in *{word}*) echo no >&2; exit 2;; esac; {allow}")
    }

    /// Options with these hooks, as in settings: the event, the matcher and the command of each.
    fn options(&self, hooks: &[(&str, &str, &str)]) -> Value {
        let mut events = Map::new();
        for (event, matcher, command) in hooks {
            let group =
                json!({ "matcher": matcher, "hooks": [{ "type": "command", "command": command }] });
            let groups = events.entry((*event).to_owned()).or_insert(json!([]));
            groups.as_array_mut().unwrap().push(group);
        }
        json!({ "no_user_hooks": true, "transcripts": self.path("transcripts"), "hooks": events })
    }

    /// A conversation with hooks that these options describe.
    fn talk(&self, options: Value) -> Talk {
        let talk = Talk { conversation: Conversation::new(component(&[], options)), id: 100 };
        talk.initialized("some-agent", 1)
    }

    /// A session with these hooks.
    fn session(&self, hooks: &[(&str, &str, &str)]) -> Talk {
        self.talk(self.options(hooks)).with_session(&self.0)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn component(words: &[&str], options: Value) -> acp_proxy::Component {
    let words: Vec<String> = words.iter().map(|&it| it.to_owned()).collect();
    let members = options.as_object().unwrap();
    let parsed = components::find("hooks").unwrap().parse(&words, members);
    parsed.unwrap_or_else(|why| panic!("{why}"))()
}

/// Why these options are refused.
fn refusal(words: &[&str], options: Value) -> String {
    let words: Vec<String> = words.iter().map(|&it| it.to_owned()).collect();
    components::find("hooks")
        .unwrap()
        .parse(&words, options.as_object().unwrap())
        .err()
        .expect("refused")
}

/// A conversation of an editor and an agent.
struct Talk {
    conversation: Conversation,
    id: u64,
}

impl Talk {
    fn send(&mut self, side: &str, message: &Value) {
        self.conversation.send(side, &message.to_string());
    }

    /// The next message to this side that is not a metric.
    fn receive(&mut self, side: &str) -> Value {
        loop {
            let message = self.conversation.receive(side);
            if message["method"] != "_proxy/metric" {
                return message;
            }
        }
    }

    /// Sends a request that reaches the other side, and answers it.
    fn exchange(&mut self, from: &str, method: &str, params: &Value, result: &Value) -> Value {
        let to = if from == "editor" { "agent" } else { "editor" };
        self.request(from, method, params);
        let request = self.receive(to);
        assert_eq!(request["method"], *method, "{request}");
        self.send(to, &json!({ "id": request["id"], "result": result }));
        self.receive(from)
    }

    fn request(&mut self, from: &str, method: &str, params: &Value) {
        self.id += 1;
        let message = json!({ "id": self.id, "method": method, "params": params });
        self.send(from, &message);
    }

    fn answer(&mut self, side: &str, request: &Value, result: &Value) {
        self.send(side, &json!({ "id": request["id"], "result": result }));
    }

    fn initialized(self, agent: &str, version: u8) -> Talk {
        self.initialized_with(agent, version, &json!({}))
    }

    fn initialized_with(mut self, agent: &str, version: u8, abilities: &Value) -> Talk {
        let params = json!({ "protocolVersion": version, "clientCapabilities": abilities });
        let mut result =
            json!({ "protocolVersion": version, "agentInfo": { "name": agent, "version": "1" } });
        let capabilities = if version == 1 { "agentCapabilities" } else { "capabilities" };
        result[capabilities] = json!({});
        self.exchange("editor", "initialize", &params, &result);
        self
    }

    fn with_session(mut self, directory: &Path) -> Talk {
        let params = json!({ "cwd": directory, "mcpServers": [] });
        let answer = self.exchange("editor", "session/new", &params, &json!({ "sessionId": "s" }));
        assert_eq!(answer["result"]["sessionId"], "s", "{answer}");
        self
    }

    /// The editor sends a prompt.
    fn prompt(&mut self, text: &str) {
        let params = json!({ "sessionId": "s", "prompt": [{ "type": "text", "text": text }] });
        self.request("editor", "session/prompt", &params);
    }

    /// The agent receives a prompt with these texts.
    fn expect_prompt(&mut self, texts: &[&str]) -> Value {
        let request = self.receive("agent");
        assert_eq!(request["method"], "session/prompt", "{request}");
        let blocks = request["params"]["prompt"].as_array().unwrap();
        let found: Vec<&str> = blocks.iter().filter_map(|it| it["text"].as_str()).collect();
        assert_eq!(found, texts);
        request
    }

    fn end_turn(&mut self, prompt: &Value) {
        self.answer("agent", prompt, &json!({ "stopReason": "end_turn" }));
    }

    /// The agent sends an update.
    fn update(&mut self, update: &Value) {
        let params = json!({ "sessionId": "s", "update": update });
        self.send("agent", &json!({ "method": "session/update", "params": params }));
    }

    /// The text of the update that the editor receives next.
    fn expect_text(&mut self) -> String {
        let message = self.receive("editor");
        let text = message["params"]["update"]["content"]["text"].as_str();
        text.unwrap_or_else(|| panic!("{message}")).to_owned()
    }

    /// Waits until hooks have appended this many inputs to a file. The component runs meanwhile.
    fn wait_for(&mut self, folder: &Folder, count: usize) -> Vec<Value> {
        self.conversation.run_until(|| folder.read("input").matches('\n').count() >= count);
        folder.inputs("input")
    }

    /// The agent asks for permission.
    fn ask(&mut self, call: &Value) {
        let params = json!({ "sessionId": "s", "toolCall": call, "options": OPTIONS.map(|(id, kind)| {
            json!({ "optionId": id, "name": id, "kind": kind })
        }) });
        self.request("agent", "session/request_permission", &params);
    }

    /// The option that was chosen for the agent.
    fn chosen(&mut self) -> String {
        let answer = self.receive("agent");
        let option = answer["result"]["outcome"]["optionId"].as_str();
        option.unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// The agent sends a request that hooks block.
    fn expect_blocked(&mut self, method: &str, params: &Value) -> String {
        self.request("agent", method, params);
        let answer = self.receive("agent");
        assert_eq!(answer["error"]["data"]["component"], "hooks", "{answer}");
        answer["error"]["data"]["reason"].as_str().unwrap().to_owned()
    }

    /// The editor is asked for permission, and chooses an option.
    fn choose(&mut self, option: &str) {
        let request = self.receive("editor");
        assert_eq!(request["method"], "session/request_permission", "{request}");
        let outcome = json!({ "outcome": { "outcome": "selected", "optionId": option } });
        self.answer("editor", &request, &outcome);
    }
}

const OPTIONS: [(&str, &str); 3] =
    [("always", "allow_always"), ("once", "allow_once"), ("no", "reject_once")];

/// A tool call that runs a command.
fn bash(id: &str, command: &str) -> Value {
    json!({
        "toolCallId": id, "kind": "execute", "title": "Runs a command", "rawInput": { "command": command },
        "_meta": { "claudeCode": { "toolName": "Bash" } },
    })
}

/// A command that prints a decision about a tool call.
fn decision(decision: &str) -> String {
    let output = json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": decision,
    }});
    format!("printf '%s' '{output}'")
}
