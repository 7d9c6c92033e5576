//! The component `walkthrough`: panels, comments, answers, and the chat for editors without them.

mod fallbacks;
mod waiting;

use std::path::PathBuf;

use acp_proxy::script::Conversation;
use clap::Parser;
use components::BuiltIn;
use components::walkthrough::Walkthrough;
use serde_json::{Value, json};

/// A project with one file of three lines.
fn project(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("walkthrough-{name}-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("src")).expect("a folder");
    std::fs::write(folder.join("src/a.rs"), "fn a() {\n    b(\"<\");\n}\n").expect("a file");
    std::fs::write(folder.join("empty"), "").expect("a file");
    std::fs::write(folder.join("long.txt"), "line\n".repeat(100)).expect("a file");
    folder
}

struct Talk {
    conversation: Conversation,
    walkthrough: Walkthrough,
    folder: PathBuf,
    symposium: Value,
    version: u64,
    server: Value,
    last_id: u64,
}

const LATE: &str = "\n\nYour answer goes to the agent with your next prompt.\n\n";

const FULL: &str = r#"{"version":"1.1","html_panel":true,"file_comment":true}"#;

impl Talk {
    fn new(name: &str, words: &[&str], symposium: &str, version: u64) -> Talk {
        let walkthrough = Walkthrough::parse_from([&["walkthrough"], words].concat());
        let mut talk = Talk {
            conversation: Conversation::new(walkthrough.build()),
            walkthrough,
            folder: project(name),
            symposium: serde_json::from_str(symposium).expect("JSON"),
            version,
            server: Value::Null,
            last_id: 10,
        };
        talk.greet();
        talk.open("s");
        talk
    }

    fn send(&mut self, side: &str, message: Value) {
        self.conversation.send(side, &message.to_string());
    }

    fn greet(&mut self) {
        self.greet_as(&json!({ "name": "test", "version": "1" }));
    }

    fn greet_as(&mut self, info: &Value) {
        let key = if self.version == 2 { "capabilities" } else { "clientCapabilities" };
        let params = json!({ "protocolVersion": self.version, "clientInfo": info, key: { "_meta": { "symposium": self.symposium } } });
        self.send("editor", json!({ "id": 0, "method": "initialize", "params": params }));
        let id = self.conversation.receive("agent")["id"].clone();
        let mut result = json!({ "protocolVersion": self.version });
        if self.version == 1 {
            result["agentCapabilities"] = json!({});
        }
        self.send("agent", json!({ "id": id, "result": result }));
        self.conversation.receive("editor");
    }

    fn open(&mut self, session: &str) {
        let params = json!({ "cwd": self.folder, "mcpServers": [] });
        self.send("editor", json!({ "id": 1, "method": "session/new", "params": params }));
        let request = self.conversation.receive("agent");
        self.server = request["params"]["mcpServers"][0]["serverId"].clone();
        self.send("agent", json!({ "id": request["id"], "result": { "sessionId": session } }));
        self.conversation.receive("editor");
    }

    /// Calls a tool. Returns the id of the call.
    fn call(&mut self, tool: &str, arguments: Value) -> u64 {
        self.last_id += 1;
        let params = json!({ "serverId": self.server, "requestId": "1", "method": "tools/call", "params": { "name": tool, "arguments": arguments } });
        self.send(
            "agent",
            json!({ "id": self.last_id, "method": "mcp/message", "params": params }),
        );
        self.last_id
    }

    fn present(&mut self, arguments: Value) -> u64 {
        self.call("present_walkthrough", arguments)
    }

    /// The editor receives a request of this method and answers it. Returns the parameters.
    fn editor_answers(&mut self, method: &str) -> Value {
        let request = self.conversation.receive("editor");
        assert_eq!(request["method"], method, "{request}");
        self.send("editor", json!({ "id": request["id"], "result": {} }));
        request["params"].clone()
    }

    fn result(&mut self) -> Value {
        self.conversation.receive("agent")["result"]["result"].clone()
    }

    fn result_text(&mut self) -> String {
        let result = self.result();
        result["content"][0]["text"].as_str().expect("a text").to_owned()
    }

    fn event(&mut self, panel: &Value, widget: &str, kind: &str, value: &str) {
        let params = json!({ "id": panel["id"], "widget": widget, "kind": kind, "value": value });
        self.send("editor", json!({ "method": "_scp/html_panel/event", "params": params }));
    }

    fn reply(&mut self, id: &Value, text: &str) {
        let params = json!({ "id": id, "contents": text });
        self.send("editor", json!({ "method": "_scp/file_comment/reply", "params": params }));
    }

    /// The user prompts the agent. Returns the texts that the agent receives.
    fn prompt(&mut self, session: &str, text: &str) -> Vec<String> {
        self.last_id += 1;
        let id = self.last_id;
        let params = json!({ "sessionId": session, "prompt": [{ "type": "text", "text": text }] });
        self.send("editor", json!({ "id": id, "method": "session/prompt", "params": params }));
        let texts = self.agent_answers_prompt(session);
        let mut answer = self.conversation.receive("editor");
        while answer["id"] != id {
            assert_eq!(answer["method"], "session/update", "{answer}");
            answer = self.conversation.receive("editor");
        }
        if self.version == 2 {
            self.conversation.receive("editor");
        }
        texts
    }

    /// The editor receives a text for the user.
    fn shown_text(&mut self) -> String {
        let update = self.conversation.receive("editor");
        let text = update["params"]["update"]["content"]["text"].as_str();
        text.unwrap_or_else(|| panic!("a text: {update}")).to_owned()
    }

    fn agent_answers_prompt(&mut self, session: &str) -> Vec<String> {
        let request = self.conversation.receive("agent");
        assert_eq!(request["method"], "session/prompt", "{request}");
        let result =
            if self.version == 2 { json!({}) } else { json!({ "stopReason": "end_turn" }) };
        self.send("agent", json!({ "id": request["id"], "result": result }));
        if self.version == 2 {
            let update = json!({ "sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn" });
            self.send("agent", json!({ "method": "session/update", "params": { "sessionId": session, "update": update } }));
        }
        let blocks = request["params"]["prompt"].as_array().expect("blocks").clone();
        blocks.iter().map(|it| it["text"].as_str().expect("a text").to_owned()).collect()
    }
}

fn tour() -> Value {
    json!({
        "title": "A & B",
        "sections": [
            { "heading": "How <it> works", "markdown": "See **a** and <script>x</script>.",
              "code": [{ "path": "src/a.rs", "line": 1, "end_line": 2, "comment": "It *begins* here." }] },
            { "diff": "-a\n+b", "mermaid": "graph TD; A-->B" },
            { "question": { "text": "Which one?", "choices": ["the \"first\"", "the second"], "free_text": true } },
        ],
    })
}

#[test]
fn a_walkthrough_is_one_panel_with_comments_and_returns_the_answers() {
    for version in [1, 2] {
        let mut talk = Talk::new(&format!("panel{version}"), &[], FULL, version);
        talk.present(tour());
        let panel = talk.editor_answers("_scp/html_panel/show");
        assert_eq!((&panel["label"], &panel["sessionId"]), (&json!("A & B"), &json!("s")));
        let html = panel["contents"].as_str().expect("HTML");
        for part in [
            "<h2>How &lt;it&gt; works</h2>",
            "See <strong>a</strong> and &lt;script&gt;x&lt;/script&gt;.",
            r#"<a class="c-file" data-file="src/a.rs" data-line="1">src/a.rs:1-2</a>"#,
            r#"<pre class="c-code" data-language="rust"><code>fn a() {"#,
            "b(&quot;&lt;&quot;);",
            "It <em>begins</em> here.",
            "<pre class=\"c-diff\"><code>-a\n+b</code></pre>",
            r#"<pre class="c-mermaid"><code>graph TD; A--&gt;B</code></pre>"#,
            r#"<div class="c-choice" data-widget="q1"><button data-value="the &quot;first&quot;">"#,
            r#"<input class="c-input" data-widget="q1-text""#,
            r#"<button class="c-button" data-widget="done" data-submit="">Done</button>"#,
        ] {
            assert!(html.contains(part), "{part} is missing in:\n{html}");
        }
        assert!(!html.contains("<script"), "{html}");
        let comment = talk.editor_answers("_scp/file_comment/show");
        assert_eq!(comment["start"], json!({ "line": 1 }));
        assert_eq!(comment["end"], json!({ "line": 2 }));
        assert_eq!(comment["can_reply"], true);
        assert_eq!(comment["contents"], "It *begins* here.");
        let url = comment["url"].as_str().expect("a URL");
        assert!(url.starts_with("file:///") && url.ends_with("/src/a.rs"), "{url}");
        // Events that are not answers do not end the wait.
        talk.event(&panel, "details", "toggle", "true");
        talk.event(&panel, "q1-text", "input", "  ");
        talk.event(&panel, "q7x", "choice", "a");
        talk.reply(&comment["id"], "Why?");
        talk.event(&panel, "q1", "choice", "the second");
        let update = talk.editor_answers("_scp/html_panel/show");
        assert!(
            update["contents"].as_str().expect("HTML").contains("Your answer</span> the second")
        );
        assert!(update.get("label").is_none());
        let result = talk.result();
        assert_eq!(
            result["content"][0]["text"],
            "The user has answered.\n1. Which one?\n   Answer: the second\nThe user replied to your comment on src/a.rs:1-2: Why?"
        );
        assert_eq!(
            result["structuredContent"],
            json!({
                // Some agents give the model nothing else.
                "message": result["content"][0]["text"],
                "status": "answered",
                "answers": [{ "question": "Which one?", "answer": "the second" }],
                "replies": [{ "place": "src/a.rs:1-2", "text": "Why?" }],
            })
        );
        // Later answers are added to the next prompt, once.
        talk.event(&panel, "q1-text", "input", "the first, after all");
        assert_eq!(talk.shown_text(), LATE);
        talk.reply(&comment["id"], "And why\nnot?");
        let texts = talk.prompt("s", "hello");
        assert_eq!(
            texts,
            [
                "The user answered question 1 (Which one?) of your walkthrough \"A & B\": the first, after all",
                "The user replied to your comment on src/a.rs:1-2: And why\nnot?",
                "hello",
            ]
        );
        assert_eq!(talk.prompt("s", "again"), ["again"]);
    }
}

#[test]
fn the_same_title_replaces_a_walkthrough_and_it_can_be_closed() {
    let mut talk = Talk::new("replace", &[], FULL, 1);
    let with = |line: u32| json!({ "title": "T", "sections": [{ "code": [{ "path": "src/a.rs", "line": line, "comment": "c" }] }] });
    talk.present(with(1));
    let first = talk.editor_answers("_scp/html_panel/show");
    let comment = talk.editor_answers("_scp/file_comment/show");
    assert_eq!(talk.result()["structuredContent"]["status"], "shown");
    talk.present(with(2));
    let gone = talk.editor_answers("_scp/file_comment/clear");
    assert_eq!(gone["id"], comment["id"]);
    assert_eq!(talk.editor_answers("_scp/html_panel/show")["id"], first["id"]);
    let comment = talk.editor_answers("_scp/file_comment/show");
    talk.result();
    talk.call("close_walkthrough", json!({ "title": "T" }));
    assert_eq!(talk.editor_answers("_scp/file_comment/clear")["id"], comment["id"]);
    assert_eq!(talk.editor_answers("_scp/html_panel/clear")["id"], first["id"]);
    assert_eq!(talk.result_text(), "The walkthrough \"T\" is closed.");
    talk.call("close_walkthrough", json!({ "title": "T" }));
    talk.editor_answers("_scp/html_panel/clear");
    assert_eq!(talk.result_text(), "There is no walkthrough \"T\" any more.");
    // Long code is folded and shortened.
    let long = json!({ "path": "long.txt", "line": 1, "end_line": 100 });
    talk.present(json!({ "title": "Long", "sections": [{ "code": [long] }] }));
    let panel = talk.editor_answers("_scp/html_panel/show");
    let html = panel["contents"].as_str().expect("HTML");
    assert!(
        html.contains("<summary>100 lines</summary>") && html.contains("… 80 more lines"),
        "{html}"
    );
    talk.result();
    // Another session has its own panels.
    talk.open("other");
    talk.present(with(1));
    assert_ne!(talk.editor_answers("_scp/html_panel/show")["id"], first["id"]);
}

#[test]
fn wrong_places_and_arguments_are_explained() {
    let mut talk = Talk::new("wrong", &[], FULL, 1);
    let place = |place: Value| json!({ "title": "T", "sections": [{ "code": [place] }] });
    for (arguments, why) in [
        (json!({ "title": "T" }), "sections"),
        (json!({ "title": " ", "sections": [{}] }), "the title"),
        (json!({ "title": "T", "sections": [] }), "add at least one section"),
        (json!({ "title": "T", "sections": vec![json!({}); 51] }), "at most 50"),
        (
            json!({ "title": "T", "sections": [{ "markdown": "x".repeat(300_000) }] }),
            "bytes of text",
        ),
        (json!({ "title": "T", "sections": [{ "question": { "text": "" } }] }), "question.text"),
        (
            json!({ "title": "T", "sections": [{ "question": { "text": "x", "choices": [""] } }] }),
            "each choice",
        ),
        (place(json!({ "path": "src/b.rs", "line": 1 })), "src/b.rs does not exist in"),
        (place(json!({ "path": "src", "line": 1 })), "src is not a file"),
        (place(json!({ "path": "../a.rs", "line": 1 })), "use a path relative to"),
        (place(json!({ "path": "/etc/passwd", "line": 1 })), "use a path relative to"),
        (place(json!({ "path": "src/a.rs", "line": 0 })), "use lines from 1 to 3"),
        (
            place(json!({ "path": "src/a.rs", "line": 2, "end_line": 4 })),
            "src/a.rs has 3 lines, so there is no line 4; use lines from 1 to 3",
        ),
        (place(json!({ "path": "src/a.rs", "line": 2, "end_line": 1 })), "is before `line`"),
        (place(json!({ "path": "empty", "line": 1 })), "empty is empty"),
        (place(json!({ "path": "src/a.rs", "line": -1 })), "invalid"),
    ] {
        talk.present(arguments.clone());
        let result = talk.result();
        let text = result["content"][0]["text"].as_str().expect("a text");
        assert_eq!(result["isError"], true, "{arguments}");
        assert!(text.contains(why), "{why}: {text}");
    }
    #[cfg(unix)]
    {
        let link = talk.folder.join("link");
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink("/etc/passwd", link).expect("a link");
        talk.present(place(json!({ "path": "link", "line": 1 })));
        assert!(talk.result_text().contains("link leads out of"));
    }
    for number in 0..16 {
        talk.present(json!({ "title": number.to_string(), "sections": [{ "markdown": "x" }] }));
        talk.editor_answers("_scp/html_panel/show");
        talk.result();
    }
    talk.present(json!({ "title": "T", "sections": [{ "markdown": "x" }] }));
    assert!(talk.result_text().contains("close one with close_walkthrough"));
}

#[test]
fn an_answer_starts_a_turn_if_that_is_wanted() {
    for version in [1, 2] {
        let name = format!("turn{version}");
        let mut talk = Talk::new(&name, &["--start-turn"], FULL, version);
        talk.present(json!({ "title": "T", "wait": false, "sections": [{ "question": { "text": "Why?" } }] }));
        let panel = talk.editor_answers("_scp/html_panel/show");
        talk.result();
        for _ in 0..10 {
            talk.event(&panel, "q1-text", "input", "so");
            let texts = talk.agent_answers_prompt("s");
            assert_eq!(
                texts,
                ["The user answered question 1 (Why?) of your walkthrough \"T\": so"]
            );
            if version == 2 {
                talk.conversation.receive("editor");
            }
        }
        // No more turns without a prompt of the user.
        talk.event(&panel, "q1-text", "input", "so");
        assert_eq!(talk.prompt("s", "x").len(), 2);
    }
}

#[test]
fn panels_of_before_a_restart_stay_answerable() {
    let mut talk = Talk::new("restart", &[], FULL, 1);
    talk.present(tour());
    let panel = talk.editor_answers("_scp/html_panel/show");
    let comment = talk.editor_answers("_scp/file_comment/show");
    talk.reply(&comment["id"], "Before");
    // Inside the conductor: the options keep what is shown.
    talk.conversation = Conversation::new(talk.walkthrough.build());
    talk.greet();
    talk.open("s");
    talk.event(&panel, "q1", "choice", "the second");
    let texts = talk.prompt("s", "x");
    assert_eq!(texts[0], "The user replied to your comment on src/a.rs:1-2: Before");
    assert!(texts[1].contains("question 1 (Which one?)"), "{texts:?}");
    // In a process of its own: the ids say what they belong to.
    talk.conversation = Conversation::new(Walkthrough::default().build());
    talk.greet();
    talk.open("s");
    talk.event(&panel, "q1", "choice", "the second");
    talk.reply(&comment["id"], "After");
    talk.send(
        "editor",
        json!({ "method": "_scp/html_panel/closed", "params": { "id": panel["id"] } }),
    );
    assert_eq!(
        talk.prompt("s", "x"),
        [
            "The user answered question 1 of your walkthrough \"A & B\": the second",
            "The user replied to your comment on src/a.rs:1-2: After",
            "x",
        ]
    );
    // What belongs to other components passes.
    for (method, params) in [
        ("_scp/html_panel/event", json!({ "id": "other", "widget": "w", "kind": "click" })),
        ("_scp/html_panel/closed", json!({ "id": "other" })),
        ("_scp/file_comment/reply", json!({ "id": "other", "contents": "x" })),
    ] {
        talk.send("editor", json!({ "method": method, "params": params }));
        let passed = talk.conversation.receive("agent");
        assert_eq!((&passed["method"], &passed["params"]), (&json!(method), &params));
    }
}

#[test]
fn ten_thousand_sessions_use_bounded_memory() {
    let mut talk = Talk::new("many", &[], FULL, 1);
    let id = |session: usize| format!("walkthrough|{session}|T|src/a.rs:1");
    for session in 0..12_000 {
        talk.reply(&json!(id(session)), "x");
    }
    for _ in 0..100 {
        talk.reply(&json!(id(11_999)), &"y".repeat(100_000));
    }
    let status = acp_proxy::Component::status_source(&talk.walkthrough.build()).expect("a status");
    let line = status().remove(0);
    let words: Vec<&str> = line.split(' ').collect();
    let count: usize = words[2].parse().expect("a number");
    assert!(count <= 10_000 + 32, "{line}");
    let texts = talk.prompt("11999", "x");
    assert_eq!(texts.len(), 33);
    assert!(texts.iter().all(|it| it.len() < 20_000));
    assert_eq!(talk.prompt("0", "x"), ["x"]);
}
