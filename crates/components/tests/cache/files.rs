//! The file of a recording: several writers, links, and files that are not recordings.

use std::path::Path;

use serde_json::json;

use crate::{Talk, cache, file, new_session, prompt, replay_agent, update};

fn begin(path: &Path) -> Talk {
    let mut talk = Talk::new(cache("record", path, &[]), true);
    talk.greet(1);
    talk.send("session/new", new_session("/w"));
    let request = talk.agent_receives("session/new");
    talk.agent_answers(&request, json!({ "sessionId": "s" }));
    talk.editor_receives();
    talk
}

fn turn(talk: &mut Talk, text: &str) {
    talk.send("session/prompt", prompt("s", text));
    let request = talk.agent_receives("session/prompt");
    talk.agent_sends(update("s", &format!("reply to {text}")));
    talk.editor_receives();
    talk.agent_answers(&request, json!({ "stopReason": "end_turn" }));
    talk.editor_receives();
}

fn check(path: &Path, texts: &[&str]) {
    let mut talk = Talk::new(replay_agent(path, &[]), false);
    talk.greet(1);
    for text in texts {
        talk.send("session/new", new_session("/w"));
        let session =
            talk.editor_receives()["result"]["sessionId"].as_str().expect("an id").to_owned();
        talk.send("session/prompt", prompt(&session, text));
        assert_eq!(talk.editor_receives(), update(&session, &format!("reply to {text}")));
        assert_eq!(talk.editor_receives()["result"]["stopReason"], "end_turn");
    }
}

#[test]
fn two_chains_record_into_one_file() {
    let path = file("two-chains");
    let (mut one, mut two) = (begin(&path), begin(&path));
    turn(&mut one, "one");
    turn(&mut two, "two");
    drop(one);
    // The end of a run writes the file anew. The other run goes on with the new file.
    check(&path, &["one", "two"]);
    drop(two);
    check(&path, &["one", "two"]);
    let mut again = begin(&path);
    turn(&mut again, "one");
    drop(again);
    check(&path, &["one", "two"]);
    let text = std::fs::read_to_string(&path).expect("a recording");
    assert_eq!(text.matches("reply to one").count(), 1, "{text}");
}

/// What comes after the end of a turn is in the file at once.
#[test]
fn a_late_update_is_saved() {
    let path = file("late");
    let mut talk = begin(&path);
    turn(&mut talk, "one");
    talk.agent_sends(update("s", "late"));
    talk.editor_receives();
    let text = std::fs::read_to_string(&path).expect("a recording");
    assert!(text.contains("\"late\""), "{text}");
    turn(&mut talk, "two");
    talk.agent_sends(update("s", "later"));
    talk.editor_receives();
    drop(talk);
    let text = std::fs::read_to_string(&path).expect("a recording");
    let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
    assert!(at("\"late\"") < at("reply to two") && at("reply to two") < at("\"later\""), "{text}");
}

#[cfg(unix)]
#[test]
fn a_link_to_a_recording_stays() {
    let path = file("link");
    drop(begin(&path));
    let link = path.with_file_name("link.jsonl");
    std::os::unix::fs::symlink(&path, &link).expect("a link");
    let mut talk = begin(&link);
    turn(&mut talk, "one");
    drop(talk);
    assert!(link.symlink_metadata().expect("a link").is_symlink());
    check(&path, &["one"]);
}

/// The file is replaced by something else while the chain runs.
#[test]
fn a_file_that_is_not_a_recording_is_not_overwritten() {
    let path = file("foreign");
    let mut talk = begin(&path);
    std::fs::write(&path, "my notes\n").expect("written");
    turn(&mut talk, "one");
    drop(talk);
    assert_eq!(std::fs::read_to_string(&path).expect("a file"), "my notes\n");
    // A recording that was deleted is written again.
    let path = file("deleted");
    let mut talk = begin(&path);
    std::fs::remove_file(&path).expect("ours");
    turn(&mut talk, "one");
    drop(talk);
    check(&path, &["one"]);
}

#[test]
fn a_process_that_keeps_the_lock_does_not_stop_the_chain() {
    let path = file("locked");
    let mut talk = begin(&path);
    let holder = std::fs::File::open(&path).expect("a recording");
    holder.lock().expect("locked");
    turn(&mut talk, "while it is locked");
    let text = std::fs::read_to_string(&path).expect("a recording");
    assert!(!text.contains("while it is locked"), "{text}");
    holder.unlock().expect("ours");
    turn(&mut talk, "later");
    let text = std::fs::read_to_string(&path).expect("a recording");
    assert!(text.contains("while it is locked") && text.contains("later"), "{text}");
}
