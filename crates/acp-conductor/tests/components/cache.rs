//! `cache` and `replay-agent` with real processes: the chat of `conductor try` records the demo agent, and replays it in
//! another directory.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use testkit::test_chain::{ScriptedComponent, TestChain, directory};

/// Runs these prompts in a new directory. Returns the messages of the chat, without times, ids and the directory.
fn run(name: &str, chain: &[String]) -> Vec<Value> {
    let project = directory(name);
    std::fs::write(project.join("notes.txt"), "first line\nsecond line\n").expect("written");
    let mut command = Command::new(crate::conductor_path());
    command.args(["try", "--yes", "--json"]);
    for prompt in ["hello", "edit notes.txt", "run echo hi", "show plan", "read notes.txt"] {
        command.args(["--prompt", prompt]);
    }
    let output = command.arg("--").args(chain).current_dir(&project).output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    let path = project.canonicalize().expect("a directory").display().to_string();
    let text = text.replace(&path, "DIRECTORY");
    text.lines().map(|line| without_ids(serde_json::from_str(line).expect("JSON"))).collect()
}

/// Ids differ between two runs, and the name of the agent between two chains.
fn without_ids(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let members = members.into_iter().filter(|(name, _)| {
                ![
                    "sessionId",
                    "toolCallId",
                    "terminalId",
                    "messageId",
                    "id",
                    "chain",
                    "components",
                    "time",
                ]
                .contains(&name.as_str())
            });
            Value::Object(members.map(|(name, value)| (name, without_ids(value))).collect())
        }
        Value::Array(values) => values.into_iter().map(without_ids).collect(),
        other => other,
    }
}

fn turns(messages: &[Value]) -> Vec<&Value> {
    messages.iter().filter(|it| it["type"] == "turn_end").collect()
}

#[test]
fn a_recorded_chat_is_replayed_without_the_agent() {
    let file = directory("cache-files").join("chat.jsonl");
    let cache = |mode: &str| format!("cache --mode {mode} --file {}", file.display());
    let live = run("cache-live", &[cache("record"), "demo-agent --pace 0".to_owned()]);
    assert_eq!(turns(&live).len(), 5, "{live:?}");
    let replayed = run("cache-replayed", &[format!("replay-agent {}", file.display())]);
    assert_eq!(turns(&replayed), turns(&live));
    assert_eq!(texts(&replayed), texts(&live));
    // An agent that would fail at the first prompt is not prompted.
    let behind = [cache("replay"), "demo-agent --require-login".to_owned()];
    assert_eq!(texts(&run("cache-behind", &behind)), texts(&live));
    // The recording has everything, so auto replays it, too.
    let behind = [cache("auto"), "demo-agent --require-login".to_owned()];
    assert_eq!(texts(&run("cache-auto", &behind)), texts(&live));
}

/// Everything that the agent sends: the updates and the questions, in order. The chat itself reports the end of a
/// terminal, at any time.
fn texts(messages: &[Value]) -> Vec<Value> {
    let others = ["start", "session", "terminal"];
    let is_sent = |it: &&Value| it["type"].as_str().is_some_and(|kind| !others.contains(&kind));
    messages.iter().filter(is_sent).cloned().collect()
}

#[test]
fn a_recording_that_does_not_fit_is_reported_before_and_in_the_chat() {
    let folder = directory("cache-wrong");
    let wrong = folder.join("wrong.jsonl");
    std::fs::write(&wrong, "{\"recording\":1}\n{\"entry\":\n").expect("written");
    let output = try_prompt(&folder, &format!("replay-agent {}", wrong.display()), "hello");
    assert!(output.contains("wrong.jsonl:2: this is not a line of a recording"), "{output}");

    let file = folder.join("chat.jsonl");
    let output = Command::new(crate::conductor_path())
        .args([
            "try",
            "--prompt",
            "hello",
            "--",
            &format!("cache --mode record --file {}", file.display()),
            "demo-agent --pace 0",
        ])
        .current_dir(&folder)
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let output = try_prompt(&folder, &format!("replay-agent {}", file.display()), "hullo");
    for part in ["not recorded", "\"hullo\" was sent", "\"hello\" is recorded", "--mode record"] {
        assert!(output.contains(part), "{part}: {output}");
    }
}

/// Runs a prompt that fails. Returns everything that is printed, in one line.
fn try_prompt(folder: &Path, agent: &str, prompt: &str) -> String {
    let output = Command::new(crate::conductor_path())
        .args(["try", "--prompt", prompt, "--", agent])
        .current_dir(folder)
        .output()
        .expect("it runs");
    assert!(!output.status.success());
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A chain with the cache in the mode `auto` and a scripted agent.
struct Recorded {
    chain: TestChain,
    agent: ScriptedComponent,
    version: u64,
}

impl Recorded {
    fn start(file: &Path, version: u64) -> Recorded {
        let setup = crate::new_setup();
        let agent = setup.scripted_command("agent");
        let mut chain = setup.run("agent", &[format!("cache --file {}", file.display()), agent]);
        let params = match version {
            1 => json!({ "protocolVersion": 1 }),
            _ => {
                json!({ "protocolVersion": 2, "capabilities": {}, "info": { "name": "e", "version": "1" } })
            }
        };
        let greeting =
            json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params });
        chain.editor.send(&greeting.to_string());
        let mut agent = chain.wait_for_component("agent");
        let greeting = agent.request("initialize");
        let result = match version {
            1 => r#"{"protocolVersion":1,"agentCapabilities":{}}"#,
            _ => r#"{"protocolVersion":2,"capabilities":{},"info":{"name":"a","version":"1"}}"#,
        };
        agent.answer(&greeting, result);
        assert_eq!(chain.editor.message()["result"]["protocolVersion"], version);
        Recorded { chain, agent, version }
    }

    fn send(&mut self, id: u64, method: &str, params: &Value) {
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.chain.editor.send(&request.to_string());
    }

    /// The agent opens a session.
    fn answer_new(&mut self) {
        let request = self.agent.request("session/new");
        self.agent.answer(&request, r#"{"sessionId":"S1"}"#);
    }

    fn prompt(&mut self, id: u64, session: &Value, text: &str) {
        let prompt = json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] });
        self.send(id, "session/prompt", &prompt);
    }

    fn update(&mut self, update: &Value) {
        let params = json!({ "sessionId": "S1", "update": update });
        let update = json!({ "jsonrpc": "2.0", "method": "session/update", "params": params });
        self.agent.send(&update.to_string());
    }

    /// The agent receives a prompt, and begins its turn. The editor sees it.
    fn begin_turn(&mut self) -> Value {
        let request = self.agent.request("session/prompt");
        if self.version == 2 {
            self.agent.answer(&request, "{}");
            self.chain.editor.message();
            self.update(&json!({ "sessionUpdate": "state_update", "state": "running" }));
            self.chain.editor.message();
        }
        self.update(&json!({ "sessionUpdate": "agent_message_chunk", "messageId": "m", "content": { "type": "text", "text": "begin" } }));
        self.chain.editor.message();
        request
    }

    fn end_turn(&mut self, request: &Value) {
        match self.version {
            1 => self.agent.answer(request, r#"{"stopReason":"end_turn"}"#),
            _ => self.update(&json!({ "sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn" })),
        }
        self.chain.editor.message();
    }

    /// How many messages the editor receives in a turn.
    fn messages(&self) -> usize {
        if self.version == 1 { 2 } else { 4 }
    }
}

/// A recording is complete after each turn, so a conductor that is killed in a turn loses only this turn. The agent
/// is asked for it again.
#[test]
fn a_recording_survives_a_killed_conductor() {
    for version in [1, 2] {
        let file = directory(&format!("cache-killed-{version}")).join("chat.jsonl");
        let new = json!({ "cwd": "/", "mcpServers": [] });
        let mut run = Recorded::start(&file, version);
        run.send(1, "session/new", &new);
        run.answer_new();
        let session = run.chain.editor.message()["result"]["sessionId"].clone();
        run.prompt(2, &session, "first");
        let request = run.begin_turn();
        run.end_turn(&request);
        run.prompt(3, &session, "second");
        run.begin_turn();
        run.chain.conductor.signal(libc::SIGKILL);
        assert_eq!(run.chain.conductor.status(), 128 + libc::SIGKILL);
        let text = fs::read_to_string(&file).expect("a recording");
        assert!(text.contains("first") && !text.contains("second"), "{text}");

        for is_recorded in [false, true] {
            let mut run = Recorded::start(&file, version);
            run.send(1, "session/new", &new);
            let session = run.chain.editor.message()["result"]["sessionId"].clone();
            run.prompt(2, &session, "first");
            let first: Vec<Value> =
                (0..run.messages()).map(|_| run.chain.editor.message()).collect();
            assert!(first.iter().any(|it| it["id"] == 2 && it["result"].is_object()), "{first:?}");
            run.prompt(3, &session, "second");
            if !is_recorded {
                run.answer_new();
                let request = run.begin_turn();
                assert!(request["params"]["prompt"].to_string().contains("second"), "{request}");
                run.end_turn(&request);
                continue;
            }
            let second: Vec<Value> =
                (0..run.messages()).map(|_| run.chain.editor.message()).collect();
            assert!(
                second.iter().any(|it| it["id"] == 3 && it["result"].is_object()),
                "{second:?}"
            );
        }
    }
}
