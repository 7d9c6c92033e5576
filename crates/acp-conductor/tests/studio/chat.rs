//! Conversations.

use serde_json::{Value, json};

use crate::page::{Folder, Studio};

fn texts<'a>(entries: &'a [(String, Value)], kind: &str) -> Vec<&'a str> {
    let entries = entries.iter().filter(|it| it.1["kind"] == kind);
    entries.filter_map(|it| it.1["text"].as_str()).collect()
}

#[test]
fn a_conversation_is_the_same_on_two_pages_and_after_a_reload() {
    let folder = Folder::new("chat", &[("README.md", "# Hello\n")]);
    let studio = Studio::start(&folder.0, &["demo-agent --pace 0"]);
    let mut page = studio.page(&["chain", "sessions"]);
    let session = page.first_session();
    page.follow(&format!("session/{session}"));
    let entries = page.prompt(&session, "hello");
    assert_eq!(texts(&entries, "user"), ["hello"]);
    assert!(!texts(&entries, "agent").is_empty(), "{entries:?}");
    let title = page.until("sessions", |it| it.first().map(|it| it.1["title"].clone()));
    assert_eq!(title, "hello");
    let mut reloaded = studio.page(&[&format!("session/{session}")]);
    let again = reloaded.turn_end(&session);
    assert_eq!(again, entries);
    // Another session is independent.
    let second = page.act(&json!({ "op": "newSession" })).expect("opened");
    let second = second.as_str().expect("an id").to_owned();
    assert_ne!(second, session);
    page.follow(&format!("session/{second}"));
    let entries = page.prompt(&second, "hello again");
    assert_eq!(texts(&entries, "user"), ["hello again"]);
    page.act(&json!({ "op": "closeSession", "session": second })).expect("closed");
    let left = page.until("sessions", |it| {
        let open = it.iter().filter(|it| it.1["state"] != "saved").count();
        (open == 1).then_some(it.len())
    });
    assert!(left >= 1);
}
