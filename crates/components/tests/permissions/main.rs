//! The component `permissions`, with rules in files and scripted conversations.

mod asking;
mod audit_mode;
mod files;
mod mcp;
mod options;
mod requests;
mod restarts;
mod unasked;
mod version_2;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use acp_proxy::script::Conversation;
use clap::Parser;
use components::BuiltIn;
use components::permissions::Permissions;
use serde_json::{Value, json};

/// The rules of most tests.
const RULES: &str = r#"
version = 1
default = "ask"

[[rule]]
name = "no force push"
decision = "deny"
message = "No force pushes here."
run = ["git push --force", "git push -f"]

[[rule]]
decision = "deny"
read = [".env"]
write = [".git/**"]

[[rule]]
decision = "deny"
tool = ["mcp__kit__drop"]

[[rule]]
decision = "allow"
run = ["git status", "ls *"]
read = ["src/**"]
write = ["src/**"]

[[rule]]
decision = "allow"
tool = ["mcp__kit__echo"]
"#;

/// A folder that is deleted in the end.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("permissions-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(path.join("project/src")).expect("a folder");
        Folder(path.canonicalize().expect("a folder"))
    }

    fn file(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    }

    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("UTF-8").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A chain of an editor, the component, and an agent. The test plays the editor and the agent.
struct Chain {
    conversation: Conversation,
    folder: Folder,
    next_id: u64,
}

impl Chain {
    /// A component with these rules and options. A session `s` is open in the folder `project`.
    fn new(rules: &str, options: &[&str]) -> Chain {
        Chain::of_agent(rules, options, 1, "test")
    }

    fn of_agent(rules: &str, options: &[&str], version: u8, agent: &str) -> Chain {
        let folder = Folder::new();
        let rules = folder.file("rules.toml", rules);
        let mut chain = Chain::of(folder, &rules, options);
        chain.initialize(version, agent);
        chain.open();
        chain.prompt();
        chain
    }

    /// A component without a session.
    fn of(folder: Folder, rules: &str, options: &[&str]) -> Chain {
        let words = ["permissions", "--rules", rules].into_iter().chain(options.iter().copied());
        let words: Vec<String> =
            words.map(|it| it.replace("FOLDER", folder.0.to_str().expect("UTF-8"))).collect();
        let options = Permissions::parse_from(words);
        options.check().unwrap_or_else(|error| panic!("{}", error.why));
        Chain { conversation: Conversation::new(options.build()), folder, next_id: 0 }
    }

    fn initialize(&mut self, version: u8, agent: &str) {
        let capabilities =
            json!({ "fs": { "readTextFile": true, "writeTextFile": true }, "terminal": true });
        let params = json!({ "protocolVersion": version, "clientCapabilities": capabilities });
        let info = json!({ "name": agent, "version": "1.0" });
        let result = match version {
            1 => json!({ "protocolVersion": 1, "agentInfo": info }),
            _ => json!({ "protocolVersion": version, "info": info }),
        };
        self.request("editor", "initialize", params, Ok(result));
    }

    fn open(&mut self) {
        let servers =
            json!([{ "type": "acp", "name": "kit", "serverId": "kit-id", "id": "kit-id" }]);
        let params = json!({ "cwd": self.project(), "mcpServers": servers });
        self.request("editor", "session/new", params, Ok(json!({ "sessionId": "s" })));
    }

    /// The user sends a prompt. The agent does not end the turn.
    fn prompt(&mut self) {
        self.ask("editor", "session/prompt", json!({ "sessionId": "s", "prompt": [] }));
        assert_eq!(self.receive("agent")["method"], "session/prompt");
    }

    fn project(&self) -> String {
        self.folder.path("project")
    }

    /// The absolute path of a file of the project.
    fn in_project(&self, name: &str) -> String {
        self.folder.path(&format!("project/{name}"))
    }

    fn send(&mut self, side: &str, message: &Value) {
        self.conversation.send(side, &message.to_string());
    }

    fn receive(&mut self, side: &str) -> Value {
        self.conversation.receive(side)
    }

    /// Sends a request. Returns its id.
    fn ask(&mut self, side: &str, method: &str, params: Value) -> Value {
        self.next_id += 1;
        let id = json!(format!("{side}-{}", self.next_id));
        self.send(side, &json!({ "id": id, "method": method, "params": params }));
        id
    }

    fn answer(&mut self, side: &str, request: &Value, result: Result<Value, Value>) {
        let message = match result {
            Ok(result) => json!({ "id": request["id"], "result": result }),
            Err(error) => json!({ "id": request["id"], "error": error }),
        };
        self.send(side, &message);
    }

    /// A request that passes, with its answer. Returns what the other side has received.
    fn request(
        &mut self,
        side: &str,
        method: &str,
        params: Value,
        result: Result<Value, Value>,
    ) -> Value {
        let other = if side == "editor" { "agent" } else { "editor" };
        let id = self.ask(side, method, params);
        let received = self.receive(other);
        assert_eq!(received["method"], method, "{received}");
        self.answer(other, &received, result.clone());
        let answer = self.receive(side);
        assert_eq!(answer["id"], id, "{answer}");
        match result {
            Ok(result) => assert_eq!(answer["result"], result, "{answer}"),
            Err(error) => assert_eq!(answer["error"], error, "{answer}"),
        }
        received
    }

    /// The agent asks for permission. Returns the id of its request.
    fn ask_permission(&mut self, call: Value) -> Value {
        self.ask_with(call, options())
    }

    fn ask_with(&mut self, call: Value, options: Value) -> Value {
        let params = json!({ "sessionId": "s", "toolCall": call, "options": options });
        self.ask("agent", "session/request_permission", params)
    }

    /// The outcome that the agent gets for a permission request: an option id, or `cancelled`.
    fn outcome(&mut self) -> String {
        outcome(&self.receive("agent"))
    }

    /// The agent asks for permission and gets an answer without any question for the user.
    fn decided(&mut self, call: Value) -> String {
        self.ask_permission(call);
        self.outcome()
    }

    fn update(&mut self, update: Value) {
        let params = json!({ "sessionId": "s", "update": update });
        self.send("agent", &json!({ "method": "session/update", "params": params }));
    }

    /// The agent reports a tool call, which the editor sees.
    fn report(&mut self, id: &str, mut fields: Value) {
        fields["sessionUpdate"] = json!("tool_call");
        fields["toolCallId"] = json!(id);
        self.update(fields);
        let seen = self.receive("editor");
        assert_eq!(seen["params"]["update"]["toolCallId"], id, "{seen}");
    }

    /// The text that the editor receives next as a message of the agent.
    fn said(&mut self) -> String {
        let message = self.receive("editor");
        let update = &message["params"]["update"];
        assert_eq!(update["sessionUpdate"], "agent_message_chunk", "{message}");
        update["content"]["text"].as_str().unwrap_or_default().trim().to_owned()
    }

    /// Neither side has received anything else.
    fn assert_quiet(&mut self) {
        for (side, other) in [("editor", "agent"), ("agent", "editor")] {
            self.send(side, &json!({ "method": "_mark", "params": {} }));
            let next = self.receive(other);
            assert_eq!(next["method"], "_mark", "{other} has received {next}");
        }
    }

    /// The records of the audit log at `FOLDER/audit.jsonl`.
    fn records(&self) -> Vec<Value> {
        read_records(&self.folder.0.join("audit.jsonl"))
    }
}

fn read_records(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("an audit log");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn outcome(answer: &Value) -> String {
    let outcome = &answer["result"]["outcome"];
    let text = outcome["optionId"].as_str().or(outcome["outcome"].as_str());
    text.unwrap_or_else(|| panic!("no outcome: {answer}")).to_owned()
}

/// The options that most agents offer. The ones for ever come first.
fn options() -> Value {
    json!([
        { "optionId": "always", "name": "Always", "kind": "allow_always" },
        { "optionId": "never", "name": "Never", "kind": "reject_always" },
        { "optionId": "yes", "name": "Yes", "kind": "allow_once" },
        { "optionId": "no", "name": "No", "kind": "reject_once" },
        { "optionId": "no, and stop", "name": "Stop", "kind": "reject_once" },
    ])
}

fn selected(option: &str) -> Result<Value, Value> {
    Ok(json!({ "outcome": { "outcome": "selected", "optionId": option } }))
}

/// A tool call that runs a command.
fn command(id: &str, line: &str) -> Value {
    json!({ "toolCallId": id, "kind": "execute", "name": "Bash", "title": line, "rawInput": { "command": line } })
}

/// A tool call that writes a file.
fn write(id: &str, path: &str) -> Value {
    json!({ "toolCallId": id, "kind": "edit", "name": "Write", "title": "Write",
        "rawInput": { "file_path": path, "content": "x" } })
}
