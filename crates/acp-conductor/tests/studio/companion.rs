//! The component `companion` under an editor that knows nothing of panels.

use serde_json::{Value, json};
use testkit::rpc::request;
use testkit::test_chain::{ScriptedComponent, TestChain};

use crate::page::{Folder, Site};

const CAPABILITIES: [&str; 3] = ["clientCapabilities", "_meta", "symposium"];

struct Fixture {
    folder: Folder,
    chain: TestChain,
    agent: ScriptedComponent,
}

/// A chain of `companion` and a scripted agent, with a session.
fn start(name: &str, editor_capabilities: &Value) -> Fixture {
    let folder = Folder::new(name, &[("src/a.rs", "fn one() {}\nfn two() {}\n")]);
    let setup = TestChain::builder(env!("CARGO_BIN_EXE_conductor"));
    let components = ["companion".to_owned(), setup.scripted_json("agent").to_string()];
    let mut chain = setup.run("agent", &components);
    let hello = json!({ "protocolVersion": 1, "clientCapabilities": editor_capabilities });
    chain.editor.send(&request("0", "initialize", &hello.to_string()));
    let mut agent = chain.wait_for_component("agent");
    let greeting = agent.request("initialize");
    let offered = CAPABILITIES.iter().fold(&greeting["params"], |it, key| &it[*key]);
    assert_eq!((&offered["html_panel"], &offered["file_comment"]), (&json!(true), &json!(true)));
    agent.answer(&greeting, r#"{"protocolVersion":1}"#);
    assert_eq!(chain.editor.message()["id"], 0);
    let new = json!({ "cwd": folder.0, "mcpServers": [] });
    chain.editor.send(&request("1", "session/new", &new.to_string()));
    let new = agent.request("session/new");
    agent.answer(&new, r#"{"sessionId":"s"}"#);
    assert_eq!(chain.editor.message()["id"], 1);
    Fixture { folder, chain, agent }
}

impl Fixture {
    /// The agent asks for something: the answer.
    fn ask(&mut self, id: u64, method: &str, params: &Value) -> Value {
        self.agent.send(&request(&id.to_string(), method, &params.to_string()));
        let answer = self.agent.message();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    /// The text that the editor gets next.
    fn text(&mut self) -> String {
        let message = self.chain.editor.message();
        assert_eq!(message["params"]["sessionId"], "s", "{message}");
        message["params"]["update"]["content"]["text"].as_str().expect("a text").to_owned()
    }
}

#[test]
fn panels_and_comments_are_on_a_page_and_the_chat_says_once_where() {
    let mut fixture = start("companion", &json!({}));
    let panel = json!({ "id": "p", "label": "Tour", "contents": "<p>Hi</p>", "sessionId": "s" });
    let answer = fixture.ask(1, "_scp/html_panel/show", &panel);
    assert_eq!(answer["result"], json!({}));
    let site = Site::of(&fixture.text());
    let mut page = site.page(&["panels", "comments"]);
    let (id, entry) = page.until("panels", |entries| entries.first().cloned());
    assert_eq!((&entry["label"], &entry["contents"]), (&json!("Tour"), &json!("<p>Hi</p>")));
    let event =
        json!({ "op": "panelEvent", "panel": id, "widget": "w", "event": "click", "value": null });
    page.act(&event).expect("sent");
    let event = fixture.agent.message();
    assert_eq!(event["method"], "_scp/html_panel/event");
    let expected = json!({ "id": "p", "widget": "w", "kind": "click", "sessionId": "s" });
    assert_eq!(event["params"], expected);

    let comment = json!({ "id": "p", "url": "src/a.rs", "start": { "line": 2 }, "can_reply": true, "contents": "Why?" });
    assert_eq!(fixture.ask(2, "_scp/file_comment/show", &comment)["result"], json!({}));
    let (id, entry) = page.until("comments", |entries| entries.first().cloned());
    assert_eq!((&entry["path"], &entry["line"]), (&json!("src/a.rs"), &json!(2)));
    page.act(&json!({ "op": "reply", "thread": id, "text": "Because." })).expect("sent");
    let reply = fixture.agent.message();
    assert_eq!(reply["method"], "_scp/file_comment/reply");
    assert_eq!(
        (&reply["params"]["id"], &reply["params"]["contents"]),
        (&json!("p"), &json!("Because."))
    );
    assert_eq!(fixture.ask(3, "_scp/html_panel/get", &json!({ "id": "p" }))["result"], "<p>Hi</p>");
    let unknown = fixture.ask(4, "_scp/html_panel/show", &json!({ "id": "q" }));
    assert!(unknown["error"].to_string().contains("needs `label` and `contents`"), "{unknown}");
    assert_eq!(fixture.ask(5, "_scp/html_panel/get", &json!({ "id": "q" }))["result"], Value::Null);
    page.act(&json!({ "op": "prompt", "session": "s", "text": "x", "attachments": [] }))
        .expect_err("there is no chat");
    drop(fixture.folder);
}

#[test]
fn an_editor_that_has_panels_shows_them_itself() {
    let symposium = json!({ "version": "1.1", "html_panel": true });
    let mut fixture = start("companion-native", &json!({ "_meta": { "symposium": symposium } }));
    let panel = json!({ "id": "p", "label": "Tour", "contents": "" });
    fixture.agent.send(&request("1", "_scp/html_panel/show", &panel.to_string()));
    let shown = fixture.chain.editor.message();
    assert_eq!(
        (&shown["method"], &shown["params"]["id"]),
        (&json!("_scp/html_panel/show"), &json!("p"))
    );
    fixture
        .chain
        .editor
        .send(&json!({ "jsonrpc": "2.0", "id": shown["id"], "result": {} }).to_string());
    assert_eq!(fixture.agent.message()["result"], json!({}));
    // Comments are not among what the editor has.
    let comment = json!({ "id": "c", "url": "src/a.rs", "start": { "line": 1 }, "sessionId": "s" });
    assert_eq!(fixture.ask(2, "_scp/file_comment/show", &comment)["result"], json!({}));
    assert!(fixture.text().contains("http://127.0.0.1:"));
}
