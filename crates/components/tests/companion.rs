//! The component `companion`: which page a message goes to, and who is told where it is.

use std::path::PathBuf;

use acp_proxy::script::Conversation;
use components::BuiltIn;
use components::companion::Companion;
use serde_json::{Value, json};

struct Talk {
    conversation: Conversation,
    folder: PathBuf,
    last_id: u64,
}

impl Drop for Talk {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Talk {
    /// An editor that declares this, and a folder with the projects `one` and `two`.
    fn new(name: &str, symposium: Value) -> Talk {
        let folder = std::env::temp_dir().join(format!("companion-{name}-{}", std::process::id()));
        for project in ["one", "two"] {
            std::fs::create_dir_all(folder.join(project)).expect("a folder");
            std::fs::write(folder.join(project).join("a.txt"), "1\n2\n3\n").expect("a file");
        }
        let conversation = Conversation::new(Companion::default().build());
        let mut talk = Talk { conversation, folder, last_id: 0 };
        let declared = json!({ "_meta": { "symposium": symposium } });
        let params = json!({ "protocolVersion": 1, "clientCapabilities": declared });
        talk.send("editor", json!({ "id": "i", "method": "initialize", "params": params }));
        let request = talk.conversation.receive("agent");
        let section = request["params"]["clientCapabilities"]["_meta"]["symposium"].clone();
        assert_eq!((&section["version"], &section["html_panel"]), (&json!("1.1"), &json!(true)));
        let result = json!({ "protocolVersion": 1, "agentCapabilities": {} });
        talk.send("agent", json!({ "id": request["id"], "result": result }));
        talk.conversation.receive("editor");
        talk
    }

    fn send(&mut self, side: &str, message: Value) {
        self.conversation.send(side, &message.to_string());
    }

    fn open(&mut self, session: &str, project: &str) {
        let params = json!({ "cwd": self.folder.join(project), "mcpServers": [] });
        self.send("editor", json!({ "id": session, "method": "session/new", "params": params }));
        let request = self.conversation.receive("agent");
        self.send("agent", json!({ "id": request["id"], "result": { "sessionId": session } }));
        assert_eq!(self.conversation.receive("editor")["id"], session);
    }

    /// The agent asks, and gets this answer.
    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        self.send("agent", json!({ "id": self.last_id, "method": method, "params": params }));
        let answer = self.conversation.receive("agent");
        assert_eq!(answer["id"], self.last_id, "{answer}");
        answer
    }

    /// The editor is told where a page is. Returns its session and the address.
    fn told(&mut self) -> (String, String) {
        let update = self.conversation.receive("editor");
        let text = update["params"]["update"]["content"]["text"].as_str().expect("a text");
        let url = text.split_once("on this page: ").expect("an address").1.trim().to_owned();
        (update["params"]["sessionId"].as_str().expect("a session").to_owned(), url)
    }
}

fn panel(id: &str, session: &str) -> Value {
    json!({ "id": id, "label": "L", "contents": "<p>1</p>", "sessionId": session })
}

#[test]
fn a_panel_stays_on_its_page_and_a_comment_with_the_same_id_is_on_another_one() {
    let mut talk = Talk::new("pages", Value::Null);
    talk.open("s1", "one");
    talk.open("s2", "two");
    assert_eq!(talk.ask("_scp/html_panel/show", panel("x", "s1"))["result"], json!({}));
    let (session, first) = talk.told();
    assert_eq!(session, "s1");
    let comment = json!({ "id": "x", "url": "a.txt", "start": { "line": 1 }, "sessionId": "s2" });
    assert_eq!(talk.ask("_scp/file_comment/show", comment)["result"], json!({}));
    let (session, second) = talk.told();
    assert!(session == "s2" && second != first, "{second}");
    // No message names the session of the panel.
    let get = json!({ "id": "x" });
    assert_eq!(talk.ask("_scp/html_panel/get", get.clone())["result"], "<p>1</p>");
    let update = json!({ "id": "x", "contents": "<p>2</p>", "sessionId": "s2" });
    assert_eq!(talk.ask("_scp/html_panel/show", update)["result"], json!({}));
    let (session, again) = talk.told();
    assert_eq!((session.as_str(), again), ("s2", first.clone()), "the panel is on that page");
    assert_eq!(talk.ask("_scp/html_panel/get", get.clone())["result"], "<p>2</p>");
    // A comment that moves to a file of another project is there only.
    let moved = json!({ "id": "x", "url": "a.txt", "start": { "line": 2 }, "sessionId": "s1" });
    assert_eq!(talk.ask("_scp/file_comment/show", moved)["result"], json!({}));
    assert_eq!(talk.ask("_scp/file_comment/clear", get.clone())["result"], json!({}));
    for _ in 0..2 {
        assert_eq!(talk.ask("_scp/html_panel/clear", get.clone())["result"], json!({}));
        assert_eq!(talk.ask("_scp/html_panel/get", get.clone())["result"], Value::Null);
    }
    // Nobody is told a second time.
    assert_eq!(talk.ask("_scp/html_panel/show", panel("y", "s1"))["result"], json!({}));
    talk.open("s3", "one");
}

#[test]
fn a_panel_without_a_session_belongs_to_the_session_that_was_set_up_last() {
    let mut talk = Talk::new("early", Value::Null);
    talk.open("s1", "one");
    let early = json!({ "id": "e", "label": "E", "contents": "" });
    talk.ask("_scp/html_panel/show", early);
    assert_eq!(talk.told().0, "s1");
    talk.ask("_scp/html_panel/show", panel("f", "s1"));
    talk.open("s2", "one");
}

#[test]
fn the_first_session_is_told_of_a_panel_from_before() {
    let mut talk = Talk::new("before", Value::Null);
    talk.ask("_scp/html_panel/show", json!({ "id": "e", "label": "E", "contents": "" }));
    talk.open("s1", "one");
    let params = json!({ "sessionId": "s1", "prompt": [{ "type": "text", "text": "hello" }] });
    talk.send("editor", json!({ "id": "p", "method": "session/prompt", "params": params }));
    assert_eq!(talk.told().0, "s1");
    assert_eq!(talk.conversation.receive("agent")["method"], "session/prompt");
}

#[test]
fn a_message_about_a_panel_or_a_comment_needs_an_id() {
    let mut talk = Talk::new("id", Value::Null);
    talk.open("s1", "one");
    for method in ["html_panel/show", "html_panel/get", "html_panel/clear", "file_comment/clear"] {
        for params in [json!({}), json!({ "id": 3, "label": "L", "contents": "" }), Value::Null] {
            let answer = talk.ask(&format!("_scp/{method}"), params.clone());
            assert_eq!(answer["error"]["code"], -32602, "{method} {params}: {answer}");
        }
    }
}

#[test]
fn an_error_names_the_id_as_the_component_knows_it() {
    let mut talk = Talk::new("error", Value::Null);
    talk.open("s1", "one");
    for (id, known) in [
        ("conductor.5f0c9a.3.plan \\\"a\\\"", "plan \\\"a\\\""),
        ("conductor.5f.3.conductor.0.12.a", "a"),
        ("conductor.plan", "conductor.plan"),
    ] {
        let params = json!({ "id": id, "contents": "", "sessionId": "s1" });
        let error = talk.ask("_scp/html_panel/show", params)["error"].clone();
        let text = error.to_string();
        let expected = Value::from(format!("'{known}'")).to_string();
        assert!(text.contains(expected.trim_matches('"')), "{text}");
    }
}

/// Panels of SCP 1.0 report nothing, so those on the page are used. SCP 1.0 has no operations at all.
#[test]
fn an_editor_of_scp_1_0_gets_nothing_of_1_1() {
    let declared = json!({ "version": "1.0", "html_panel": true, "ide_operation": true });
    let mut talk = Talk::new("old", declared);
    talk.open("s1", "one");
    assert_eq!(talk.ask("_scp/html_panel/show", panel("x", "s1"))["result"], json!({}));
    talk.told();
    let open = json!({ "url": "a.txt", "sessionId": "s1" });
    assert_eq!(talk.ask("_scp/ide_operation/open-file", open.clone())["result"], json!({}));
    // If it names its operations, it gets them.
    let declared = json!({ "version": "1.0", "ide_operation": ["open-file"] });
    let mut talk = Talk::new("named", declared);
    talk.open("s1", "one");
    let request = json!({ "id": 1, "method": "_scp/ide_operation/open-file", "params": open });
    talk.send("agent", request);
    assert_eq!(talk.conversation.receive("editor")["params"], open);
}
