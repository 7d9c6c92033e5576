//! `walkthrough`, `ide` and `collaborator` with real processes. The test is an editor with the SCP capabilities, and the
//! demo agent calls their tools.

use std::path::PathBuf;

use serde_json::{Value, json};
use testkit::test_chain::{TestChain, assert_gone, directory, signal, wait_until};

struct Editor {
    chain: TestChain,
    session: Value,
    folder: PathBuf,
    last_id: u64,
}

fn full() -> Value {
    json!({ "version": "1.1", "html_panel": true, "file_comment": true, "ide_operation": true })
}

impl Editor {
    fn start(name: &str, symposium: &Value, components: &[&str]) -> Editor {
        let folder = directory(name);
        std::fs::write(folder.join("README.md"), "# Hello\n\nA test.\n").expect("a file");
        let components: Vec<String> = components.iter().map(|&it| it.to_owned()).collect();
        let state = folder.join("state");
        let setup = crate::new_setup().env("XDG_STATE_HOME", state.to_str().expect("UTF-8"));
        let chain = setup.run("agent", &components);
        let mut editor = Editor { chain, session: Value::Null, folder, last_id: 0 };
        let capabilities = json!({ "_meta": { "symposium": symposium } });
        editor.send(
            "initialize",
            json!({ "protocolVersion": 1, "clientCapabilities": capabilities }),
        );
        editor.read_until_answer();
        editor.send("session/new", json!({ "cwd": editor.folder, "mcpServers": [] }));
        editor.session = editor.read_until_answer().1["result"]["sessionId"].clone();
        editor
    }

    /// Sends a request.
    fn send(&mut self, method: &str, params: Value) {
        self.last_id += 1;
        let line =
            json!({ "jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params });
        self.chain.editor.send(&line.to_string());
    }

    fn prompt(&mut self, text: &str) {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.send("session/prompt", json!({ "sessionId": self.session, "prompt": prompt }));
    }

    fn notify(&mut self, method: &str, params: Value) {
        let line = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        self.chain.editor.send(&line.to_string());
    }

    /// Reads until the answer to the last request. Returns the texts before it, and the answer.
    fn read_until_answer(&mut self) -> (String, Value) {
        let mut texts = String::new();
        loop {
            let message = self.chain.editor.message();
            if message["id"] == self.last_id && message.get("method").is_none() {
                return (texts, message);
            }
            texts.push_str(text_of(&message));
        }
    }

    /// Reads until a request of this method, and answers it. Returns its parameters.
    fn answer(&mut self, method: &str, result: Value) -> Value {
        loop {
            let message = self.chain.editor.message();
            if message["method"] == method {
                let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": result });
                self.chain.editor.send(&answer.to_string());
                return message["params"].clone();
            }
            assert_ne!(message["id"], self.last_id, "no {method} before the answer: {message}");
        }
    }

    fn say(&mut self, text: &str) -> String {
        self.prompt(text);
        let (texts, answer) = self.read_until_answer();
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
        texts
    }
}

fn text_of(message: &Value) -> &str {
    message["params"]["update"]["content"]["text"].as_str().unwrap_or_default()
}

/// As a built-in component, and as a process of its own.
fn both(name: &str) -> [String; 2] {
    [name.to_owned(), format!("{} component {name}", crate::conductor_path())]
}

#[test]
fn the_demo_agent_presents_a_walkthrough_and_gets_the_answers() {
    for (index, component) in both("walkthrough").iter().enumerate() {
        let name = format!("scp-walkthrough-{index}");
        let mut editor = Editor::start(&name, &full(), &[component, "demo-agent --pace 0"]);
        editor.prompt("walkthrough");
        let panel = editor.answer("_scp/html_panel/show", json!({}));
        assert_eq!(panel["label"], "A tour of this folder");
        let html = panel["contents"].as_str().expect("HTML");
        assert!(html.contains(r#"data-file="README.md" data-line="1""#), "{html}");
        let comment = editor.answer("_scp/file_comment/show", json!({}));
        assert_eq!((&comment["start"]["line"], &comment["end"]["line"]), (&json!(1), &json!(3)));
        let reply = json!({ "id": comment["id"], "contents": "A fine beginning" });
        editor.notify("_scp/file_comment/reply", reply);
        for (widget, kind, value) in [("q1", "choice", "Yes"), ("q2-text", "input", "the end")] {
            let params =
                json!({ "id": panel["id"], "widget": widget, "kind": kind, "value": value });
            editor.notify("_scp/html_panel/event", params);
        }
        let update = editor.answer("_scp/html_panel/show", json!({}));
        assert_eq!(update["id"], panel["id"]);
        let (texts, _) = editor.read_until_answer();
        for part in ["Answer: Yes", "Answer: the end", "on README.md:1-3: A fine beginning"] {
            assert!(texts.contains(part), "{part}: {texts}");
        }
        // A later reply is added to the next prompt, which the agent gets after it.
        let reply = json!({ "id": comment["id"], "contents": "One more" });
        editor.notify("_scp/file_comment/reply", reply);
        assert!(editor.say("hello").contains("Hello! You said “hello”"));
    }
}

#[test]
fn a_cancelled_turn_ends_the_wait_of_a_walkthrough() {
    let mut editor = Editor::start("scp-cancel", &full(), &["walkthrough", "demo-agent --pace 0"]);
    editor.prompt("walkthrough");
    editor.answer("_scp/html_panel/show", json!({}));
    editor.answer("_scp/file_comment/show", json!({}));
    editor.notify("session/cancel", json!({ "sessionId": editor.session }));
    assert_eq!(editor.read_until_answer().1["result"]["stopReason"], "cancelled");
    assert!(editor.say("hello").contains("Hello!"));
}

#[test]
fn an_editor_without_scp_gets_the_walkthrough_in_the_chat() {
    let mut editor =
        Editor::start("scp-chat", &Value::Null, &["walkthrough", "demo-agent --pace 0"]);
    let texts = editor.say("walkthrough");
    for part in ["# A tour of this folder", "`README.md:1-3`", "**Question 1:** Was this helpful?"]
    {
        assert!(texts.contains(part), "{part}: {texts}");
    }
    assert!(texts.contains("answers the questions in the chat"), "{texts}");
    let mut editor = Editor::start("scp-none", &full(), &["demo-agent --pace 0"]);
    assert!(editor.say("walkthrough").contains("conductor try walkthrough demo-agent"));
}

#[test]
fn the_demo_agent_uses_the_operations_of_the_editor() {
    for (index, component) in both("ide").iter().enumerate() {
        let name = format!("scp-ide-{index}");
        let mut editor = Editor::start(&name, &full(), &[component, "demo-agent --pace 0"]);
        editor.prompt("call editor get_selection");
        let url = format!("file://{}", editor.folder.join("README.md").display());
        let selection =
            json!({ "url": url, "start": { "line": 1 }, "end": { "line": 1 }, "text": "# Hello" });
        let params = editor.answer("_scp/ide_operation/get-selection", selection);
        assert_eq!(params["sessionId"], editor.session);
        let (texts, _) = editor.read_until_answer();
        assert!(texts.contains("says: The user has selected"), "{texts}");
    }
    let mut editor = Editor::start("scp-ide-none", &json!({}), &["ide", "demo-agent --pace 0"]);
    assert!(editor.say("tools").contains("This session has no MCP servers"));
}

#[test]
fn the_demo_agent_remembers_what_the_next_chain_loads() {
    for (index, component) in both("collaborator").iter().enumerate() {
        let name = format!("scp-collaborator-{index}");
        let mut editor = Editor::start(&name, &Value::Null, &[component, "demo-agent --pace 0"]);
        let texts = editor.say(
            r#"call collaborator remember {"text": "Likes small commits.", "about": "person"}"#,
        );
        assert!(texts.contains("Remembered about the person"), "{texts}");
        let file = editor.folder.join("state/conductor/collaborator/person.md");
        assert!(texts.contains(file.to_str().expect("UTF-8")), "{texts}");
        assert!(
            std::fs::read_to_string(file).expect("a file").contains(": Likes small commits.\n")
        );
        let texts = editor.say("call collaborator recall");
        assert!(texts.contains("Likes small commits."), "{texts}");
    }
}

/// The components as processes that are killed. `log` writes down what the agent is told.
fn start_to_kill(name: &str, component: &str) -> (Editor, PathBuf) {
    let log = directory(&format!("{name}-log")).join("told.jsonl");
    let component = format!("{} component {component}", crate::conductor_path());
    let log_component = format!("log --level trace --file {}", log.display());
    let components = [component.as_str(), &log_component, "demo-agent --pace 0"];
    (Editor::start(name, &full(), &components), log)
}

impl Editor {
    /// Kills a component, and waits until the conductor has started it again.
    fn kill(&self, component: &str) {
        let words = format!("conductor component {component}");
        let pid = self.chain.conductor.component_pid(&words);
        signal(pid, 9);
        assert_gone(pid, component);
        wait_until("it runs again", || {
            (self.chain.conductor.component_pid(&words) != pid).then_some(())
        });
    }
}

#[test]
fn a_panel_stays_answerable_when_walkthrough_is_killed() {
    let (mut editor, log) = start_to_kill("scp-killed", "walkthrough");
    editor.prompt("walkthrough");
    let panel = editor.answer("_scp/html_panel/show", json!({}));
    editor.answer("_scp/file_comment/show", json!({}));
    editor.kill("walkthrough");
    let (texts, answer) = editor.read_until_answer();
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{texts} {answer}");
    let event = json!({ "id": panel["id"], "widget": "q1", "kind": "choice", "value": "Yes" });
    editor.notify("_scp/html_panel/event", event);
    editor.say("hello");
    let text = r#"question 1 of your walkthrough \"A tour of this folder\": Yes"#;
    wait_until("the agent is told", || {
        std::fs::read_to_string(&log).ok().filter(|it| it.contains(text)).map(drop)
    });
}

#[test]
fn the_identity_is_not_repeated_when_collaborator_is_killed() {
    let (mut editor, log) = start_to_kill("scp-killed-collaborator", "collaborator");
    // The agent waits until its MCP servers are started.
    assert!(editor.say("tools").contains("remember"));
    editor.kill("collaborator");
    editor.say("hello");
    let texts = editor.say(r#"call collaborator remember {"text": "A.", "about": "project"}"#);
    assert!(texts.contains("Remembered about this project"), "{texts}");
    let told = std::fs::read_to_string(&log).expect("a log");
    assert_eq!(told.matches("You work together with one person").count(), 1, "{told}");
}
