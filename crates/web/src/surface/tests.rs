//! Panels, comments and operations, without a server.

use std::path::PathBuf;

use super::operations::MAX_EDIT;
use super::*;

struct Fixture {
    folder: PathBuf,
    surface: Surface,
    events: mpsc::Receiver<ToOwner>,
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Fixture {
    fn new(name: &str) -> Fixture {
        let folder = std::env::temp_dir().join(format!("surface-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("created");
        std::fs::write(folder.join("a.rs"), "fn one() {}\nfn two() { one() }\n").expect("written");
        let (surface, events) = Surface::new(Topics::default(), Project::new(&folder));
        Fixture { folder, surface, events }
    }

    async fn ask(&self, method: &str, params: Value) -> Outcome {
        self.surface.handle(method, params).await
    }

    async fn act(&self, action: Action) -> Result<Value, String> {
        self.surface.act(&action).await.expect("an action of the surface")
    }
}

fn why(outcome: Outcome) -> String {
    outcome.expect_err("refused").to_string()
}

#[tokio::test]
async fn a_panel_is_shown_changed_read_and_removed() {
    let fixture = Fixture::new("panel");
    for params in [
        json!({ "id": "p" }),
        json!({ "id": "p", "label": "L" }),
        json!({ "id": "p", "contents": "" }),
    ] {
        let refused = why(fixture.ask("_scp/html_panel/show", params).await);
        assert!(refused.contains("the panel 'p' does not exist"), "{refused}");
    }
    assert_eq!(fixture.ask("_scp/html_panel/get", json!({ "id": "p" })).await, Ok(Value::Null));
    let shown = json!({ "id": "p", "label": "L", "contents": "<p>1</p>", "new": [1] });
    assert_eq!(fixture.ask("_scp/html_panel/show", shown).await, Ok(json!({})));
    let changed = json!({ "id": "p", "contents": "<p>2</p>" });
    assert_eq!(fixture.ask("_scp/html_panel/show", changed).await, Ok(json!({})));
    let Some(Entry::Panel { label, contents, front }) = fixture.surface.topics.get(PANELS, "p")
    else {
        panic!("a panel")
    };
    assert_eq!((label.as_str(), contents.as_str(), front), ("L", "<p>2</p>", 2));
    let contents = fixture.ask("_scp/html_panel/get", json!({ "id": "p" })).await;
    assert_eq!(contents, Ok(json!("<p>2</p>")));
    for _ in 0..2 {
        let cleared = fixture.ask("_scp/html_panel/clear", json!({ "id": "p" })).await;
        assert_eq!(cleared, Ok(json!({})));
    }
    let large = "x".repeat(MAX_CONTENTS + 1);
    let large = json!({ "id": "p", "label": "L", "contents": large });
    assert!(why(fixture.ask("_scp/html_panel/show", large).await).contains("1 MiB"));
    for number in 0..=MAX_PANELS {
        let panel = json!({ "id": format!("{number}"), "label": "L", "contents": "" });
        let shown = fixture.ask("_scp/html_panel/show", panel).await;
        assert_eq!(shown.is_ok(), number < MAX_PANELS);
    }
    assert!(fixture.ask("_scp/html_panel/show", json!({ "label": 3 })).await.is_err());
    assert!(fixture.ask("_scp/other", json!({})).await.is_err());
}

#[tokio::test]
async fn what_a_person_does_goes_to_the_owner_with_its_session() {
    let mut fixture = Fixture::new("events");
    let panel = json!({ "id": "p", "label": "L", "contents": "", "sessionId": "s" });
    fixture.ask("_scp/html_panel/show", panel).await.expect("shown");
    let event = |value: Value| Action::PanelEvent {
        panel: "p".to_owned(),
        widget: "w".to_owned(),
        event: "choice".to_owned(),
        value,
        inputs: None,
    };
    fixture.act(event(json!("a"))).await.expect("sent");
    let sent = fixture.events.recv().await.expect("an event");
    let expected =
        json!({ "id": "p", "widget": "w", "kind": "choice", "value": "a", "sessionId": "s" });
    assert_eq!((sent.method, sent.params), ("_scp/html_panel/event", expected));
    let text = json!({ "op": "panelEvent", "panel": "p", "widget": "done", "event": "click", "value": null, "inputs": { "q1": "yes" } });
    fixture.act(serde_json::from_value(text).expect("an action")).await.expect("sent");
    let sent = fixture.events.recv().await.expect("an event");
    let expected = json!({ "id": "p", "widget": "done", "kind": "click", "inputs": { "q1": "yes" }, "sessionId": "s" });
    assert_eq!(sent.params, expected);
    fixture.act(Action::ClosePanel { panel: "p".to_owned() }).await.expect("closed");
    let sent = fixture.events.recv().await.expect("an event");
    assert_eq!((sent.method, &sent.params["id"]), ("_scp/html_panel/closed", &json!("p")));
    assert!(fixture.act(event(Value::Null)).await.is_err(), "the panel is gone");

    let comment = json!({ "id": "c", "url": "a.rs", "start": { "line": 2 }, "can_reply": true, "contents": "*why*" });
    fixture.ask("_scp/file_comment/show", comment.clone()).await.expect("shown");
    let reply = Action::Reply { thread: "c".to_owned(), text: " yes ".to_owned() };
    fixture.act(reply.clone()).await.expect("sent");
    let sent = fixture.events.recv().await.expect("an event");
    assert_eq!(
        (sent.method, sent.params),
        ("_scp/file_comment/reply", json!({ "id": "c", "contents": "yes" }))
    );
    // Shown again, it keeps its replies.
    fixture.ask("_scp/file_comment/show", comment).await.expect("shown");
    let Some(Entry::Thread(thread)) = fixture.surface.topics.get(COMMENTS, "c") else {
        panic!("a thread")
    };
    assert_eq!((thread.line, thread.end_line, thread.replies.len()), (2, 2, 1));
    fixture.ask("_scp/file_comment/clear", json!({ "id": "c" })).await.expect("cleared");
    assert!(fixture.act(reply).await.is_err());
    let outside = json!({ "id": "c", "url": "/etc/passwd", "start": { "line": 1 } });
    assert!(why(fixture.ask("_scp/file_comment/show", outside).await).contains("outside"));
    let nowhere = json!({ "id": "c", "url": "a.rs", "start": { "line": 0 } });
    assert!(fixture.ask("_scp/file_comment/show", nowhere).await.is_err());
}

#[tokio::test]
async fn operations_are_done_on_the_files_and_on_what_the_page_shows() {
    let fixture = Fixture::new("operations");
    let operate = async |name: &str, params: Value| {
        fixture.ask(&format!("_scp/ide_operation/{name}"), params).await
    };
    assert_eq!(operate("get-selection", Value::Null).await, Ok(Value::Null));
    let viewing = Action::Viewing {
        open: vec!["a.rs".to_owned()],
        active: Some("a.rs".to_owned()),
        selection: Some([2, 4, 2, 7]),
    };
    fixture.act(viewing).await.expect("noted");
    let selection = operate("get-selection", json!({})).await.expect("selected");
    assert_eq!((&selection["text"], &selection["start"]["line"]), (&json!("two"), &json!(2)));
    let open = operate("list-open-files", json!({})).await.expect("listed");
    assert_eq!(open["files"][0]["active"], true);
    let at = json!({ "url": "a.rs", "line": 2, "column": 12 });
    let references = operate("find-all-references", at.clone()).await.expect("found");
    assert_eq!(references["locations"].as_array().map(Vec::len), Some(2));
    let definition = operate("find-definition", at).await.expect("found");
    assert_eq!(definition["locations"].as_array().map(Vec::len), Some(1));
    assert_eq!(definition["locations"][0]["text"], "fn one() {}");
    assert!(operate("find-definition", json!({})).await.is_err());
    assert_eq!(operate("open-file", json!({ "url": "a.rs", "line": 2 })).await, Ok(json!({})));
    assert!(matches!(
        fixture.surface.topics.get(FILES, "/open"),
        Some(Entry::OpenFile { line: Some(2), .. })
    ));
    assert!(operate("open-file", json!({ "url": "missing.rs" })).await.is_err());
    assert!(operate("diagnostics", json!({})).await.is_err(), "not offered");
    assert!(!Surface::capabilities().performs(IdeOperation::Diagnostics));
}

#[tokio::test]
async fn an_edit_is_written_when_a_person_accepts_it_and_not_otherwise() {
    let fixture = Fixture::new("edit");
    let file = fixture.folder.join("a.rs");
    let edit = json!({ "label": "Rename", "edits": [
        { "url": "a.rs", "start": { "line": 1, "column": 4 }, "end": { "line": 1, "column": 7 }, "new_text": "uno" },
    ] });
    for (id, accept, changed) in [("edit-1", false, false), ("edit-2", true, true)] {
        let asked = fixture.ask("_scp/ide_operation/apply-edit", edit.clone());
        let answer = async {
            let shown = fixture.surface.topics.get(EDITS, id);
            assert!(matches!(shown, Some(Entry::Edit { .. })), "{id}");
            fixture.act(Action::AnswerEdit { edit: id.to_owned(), accept }).await
        };
        let (answer, done) = tokio::join!(asked, answer);
        assert_eq!(
            (answer.expect("answered")["applied"].as_bool(), done),
            (Some(accept), Ok(Value::Null))
        );
        let text = std::fs::read_to_string(&file).expect("read");
        assert_eq!(text.starts_with("fn uno"), changed);
    }
    // The file changes after the edit was made.
    let asked = fixture.ask("_scp/ide_operation/apply-edit", edit.clone());
    let answer = async {
        std::fs::write(&file, "fn other() {}\n").expect("written");
        fixture.act(Action::AnswerEdit { edit: "edit-3".to_owned(), accept: true }).await
    };
    let (answer, done) = tokio::join!(asked, answer);
    assert!(
        answer.expect("answered")["reason"].as_str().is_some_and(|it| it.contains("has changed"))
    );
    assert!(done.is_err());
    assert_eq!(std::fs::read_to_string(&file).expect("read"), "fn other() {}\n");
    for edits in [json!([]), json!([{ "url": "../x", "start": { "line": 1 }, "new_text": "" }])] {
        assert!(
            fixture.ask("_scp/ide_operation/apply-edit", json!({ "edits": edits })).await.is_err()
        );
    }
}

/// The person looks at a new file in a folder of the project. In the meantime, the folder becomes a link.
#[cfg(unix)]
#[tokio::test]
async fn an_accepted_edit_writes_nothing_outside_of_the_project() {
    let fixture = Fixture::new("moved");
    let outside = fixture.folder.with_extension("outside");
    std::fs::create_dir_all(&outside).expect("created");
    let folder = fixture.folder.join("sub");
    std::fs::create_dir(&folder).expect("created");
    let accept = |edit: &str| Action::AnswerEdit { edit: edit.to_owned(), accept: true };
    let edit = |url: &str| json!({ "edits": [{ "url": url, "start": { "line": 1 }, "new_text": "evil" }] });
    let asked = fixture.ask("_scp/ide_operation/apply-edit", edit("sub/new"));
    let answer = async {
        std::fs::remove_dir(&folder).expect("removed");
        std::os::unix::fs::symlink(&outside, &folder).expect("linked");
        fixture.act(accept("edit-1")).await
    };
    let (answer, done) = tokio::join!(asked, answer);
    assert_eq!(answer.expect("answered")["applied"], false);
    assert!(done.expect_err("refused").contains("has changed"));
    // A link to a missing file outside, where there was no file.
    let asked = fixture.ask("_scp/ide_operation/apply-edit", edit("new"));
    let answer = async {
        let link = fixture.folder.join("new");
        std::os::unix::fs::symlink(outside.join("other"), link).expect("linked");
        fixture.act(accept("edit-2")).await
    };
    let (answer, done) = tokio::join!(asked, answer);
    assert_eq!(answer.expect("answered")["applied"], false);
    assert!(done.is_err());
    assert_eq!(std::fs::read_dir(&outside).expect("read").count(), 0);
    std::fs::remove_dir_all(outside).expect("removed");
}

#[tokio::test]
async fn the_texts_of_edits_use_bounded_memory() {
    let fixture = Fixture::new("bounded");
    let large = "x".repeat(MAX_EDIT);
    std::fs::write(fixture.folder.join("large"), &large).expect("written");
    std::fs::write(fixture.folder.join("larger"), format!("{large}y")).expect("written");
    let edit = |url: &str, label: &str| json!({ "label": label, "edits": [{ "url": url, "start": { "line": 1 }, "new_text": "" }] });
    let ask = |url: &str, label: &str| {
        fixture.surface.handle("_scp/ide_operation/apply-edit", edit(url, label))
    };
    assert!(why(ask("larger", "L").await).contains("4 MiB"));
    assert!(why(ask("large", &"x".repeat(MAX_LABEL + 1)).await).contains("4 KiB"));
    let edits = || {
        fixture
            .surface
            .topics
            .change(EDITS, |it| it.entries().map(|(id, _)| id.to_owned()).collect::<Vec<_>>())
    };
    // As many as may wait, and one more.
    let waiting = futures_util::future::join_all((0..8).map(|_| ask("large", "L")));
    let answers = async {
        assert!(why(ask("large", "L").await).contains("32 MiB"));
        for id in edits() {
            fixture.act(Action::AnswerEdit { edit: id, accept: false }).await.expect("answered");
        }
    };
    let (waiting, ()) = tokio::join!(waiting, answers);
    assert!(waiting.iter().all(|it| it.as_ref().is_ok_and(|it| it["applied"] == false)));
    assert_eq!(edits(), ["edit-5", "edit-6", "edit-7", "edit-8"], "the page shows the last ones");
}

#[tokio::test]
async fn ids_and_labels_have_a_limit() {
    let fixture = Fixture::new("limits");
    let (long, id) = ("x".repeat(MAX_LABEL + 1), "x".repeat(MAX_ID + 1));
    let panel = |id: &str, label: &str| json!({ "id": id, "label": label, "contents": "" });
    let shown = fixture.ask("_scp/html_panel/show", panel("p", &long)).await;
    assert!(why(shown).contains("4 KiB"));
    assert!(why(fixture.ask("_scp/html_panel/show", panel(&id, "L")).await).contains("16 KiB"));
    let comment = json!({ "id": id, "url": "a.rs", "start": { "line": 1 } });
    assert!(why(fixture.ask("_scp/file_comment/show", comment).await).contains("16 KiB"));
}
