//! The recording in memory and in its file.

use serde_json::json;

use super::*;

fn update(text: &str) -> Got {
    let params = json!({ "sessionId": "$session:1", "update": { "text": text } }).to_string();
    Got::Notification { method: "session/update".to_owned(), params: Some(params) }
}

fn answer(number: u32, answer: Result<Value, Value>) -> Got {
    let text = |it: Value| it.to_string();
    Got::Answer { number, answer: answer.map(text).map_err(text) }
}

/// A turn of one entry.
fn turn(after: &str, sent: &Value, got: &[Got]) -> (String, Entry) {
    let mut entry = Entry::new(after, sent);
    entry.got = got.iter().map(|it| it.text().into()).collect();
    (key(after, sent), entry)
}

#[test]
fn a_recording_is_read_as_it_was_written() {
    let path = Path::new("r.jsonl");
    let mut recording = Recording::new(path);
    let sent = json!({ "request": "session/new", "params": { "cwd": "$CWD" } });
    let session = answer(1, Ok(json!({ "sessionId": "$session:1" })));
    let (first, entry) = turn("acp-1", &sent, &[session]);
    assert!(recording.commit(vec![(first.clone(), entry.clone())]));
    let sent = json!({ "answer": 1, "error": { "code": 1 } });
    let ask = Got::Request { number: 1, method: "x".into(), params: None };
    let error = answer(2, Err(json!({ "code": -1 })));
    let (second, entry) = turn(&first, &sent, &[ask, error, Got::Withdrawn { number: 1 }]);
    assert!(recording.commit(vec![(second.clone(), entry)]));
    let text = recording.text();
    let read = Recording::parse(path, &text).expect("valid");
    assert_eq!(read.text(), text);
    assert_eq!(read.entry(&second), recording.entry(&second));
    assert_eq!(read.children(&first).count(), 1);

    // A message after the end of the turn continues its entry.
    let saved = recording.unsaved_text();
    assert_eq!(Recording::header() + &saved, text);
    recording.note_saved(text.len() as u64);
    recording.append(&first, &update("late"));
    let log = text + &recording.unsaved_text();
    let read = Recording::parse(path, &log).expect("valid");
    assert!(read.is_untidy);
    assert_eq!(read.text(), recording.text());
    assert_eq!(read.entry(&first).map(|it| it.got.len()), Some(2));
    // A line that was not written to its end is left out.
    let torn = Recording::parse(path, &log[..log.len() - 9]).expect("valid");
    assert_eq!(torn.entry(&first).map(|it| it.got.len()), Some(1));
    assert!(torn.whole < torn.length);
}

#[test]
fn an_answer_replaces_an_error_and_the_end_of_a_turn_replaces_a_cancellation() {
    let mut recording = Recording::new(Path::new("r.jsonl"));
    let sent = json!({ "request": "session/prompt", "params": { "sessionId": "$session:1" } });
    let failed = turn("a", &sent, &[answer(2, Err(json!({ "code": -1 })))]);
    let begun = turn("a", &sent, &[update("begin")]);
    let cancel = json!({ "notification": "session/cancel", "params": {} });
    let ended = answer(2, Ok(json!({ "stopReason": "end_turn" })));
    let cancelled = turn(&begun.0, &cancel, std::slice::from_ref(&ended));
    let done = turn("a", &sent, &[update("begin"), update("end"), ended]);
    let key = done.0.clone();

    recording.commit(vec![failed.clone()]);
    assert!(!recording.answers(&key));
    recording.commit(vec![begun.clone(), cancelled.clone()]);
    assert!(!recording.answers(&key), "it only has a cancellation");
    assert!(recording.commit(vec![done.clone()]));
    assert!(recording.answers(&key));
    // Neither a cancellation nor an error takes its place.
    assert!(!recording.commit(vec![begun.clone()]));
    assert!(!recording.commit(vec![failed]));
    recording.commit(vec![begun, cancelled]);
    assert_eq!(recording.entry(&key), Some(&done.1));
    assert_eq!(recording.children(&key).count(), 1);
}

#[test]
fn in_version_2_a_turn_without_its_end_is_not_an_answer() {
    let sent = json!({ "request": "session/prompt", "params": { "sessionId": "$session:1" } });
    let state = |state: &str| {
        let params = json!({ "update": { "sessionUpdate": "state_update", "state": state } });
        Got::Notification { method: "session/update".into(), params: Some(params.to_string()) }
    };
    let accepted = answer(2, Ok(json!({})));
    for (got, is_finished) in [
        (vec![accepted.clone()], false),
        (vec![accepted.clone(), state("running")], false),
        (vec![accepted, state("running"), state("idle")], true),
    ] {
        let mut recording = Recording::new(Path::new("r.jsonl"));
        let (key, entry) = turn("a", &sent, &got);
        recording.commit(vec![(key.clone(), entry)]);
        assert_eq!(recording.answers(&key), is_finished, "{got:?}");
    }
}

#[test]
fn a_wrong_recording_is_refused_with_its_line() {
    let entry = r#"{"entry":"0","after":"acp-1","sent":{}}"#;
    for (text, why) in [
        ("", "r.jsonl:1: the recording is empty"),
        ("{}", "r.jsonl:1: this is not a recording"),
        ("{\"recording\":2}", "r.jsonl:1: the recording has version 2"),
        (
            "{\"recording\":1}\n{\"got\":{\"answer\":1,\"result\":{}}}",
            "r.jsonl:2: this message belongs to no entry",
        ),
        (
            &format!("{{\"recording\":1}}\n{entry}"),
            "r.jsonl:2: the message of this entry was changed",
        ),
        ("{\"recording\":1}\n{\"entry\":\"0\"}", "r.jsonl:2: the entry that is continued"),
        (
            "{\"recording\":1}\nnonsense",
            "r.jsonl:2: this is not a line of a recording: column 2: expected ident;",
        ),
        ("{\"recording\":1}\n{\"entry\":\n", "r.jsonl:2: this is not a line of a recording"),
    ] {
        let error = Recording::parse(Path::new("r.jsonl"), text).expect_err(text);
        assert!(error.why.starts_with(why), "{}", error.why);
    }
}

#[test]
fn a_recording_stays_below_its_maximum_size() {
    let mut recording = Recording::new(Path::new("r.jsonl"));
    let (key, entry) = turn("a", &json!({ "request": "session/prompt" }), &[]);
    recording.commit(vec![(key.clone(), entry)]);
    recording.length = MAX_BYTES - 2500;
    for _ in 0..10 {
        recording.append(&key, &update(&"x".repeat(600)));
    }
    assert!(recording.is_full && recording.length + recording.unsaved_bytes < MAX_BYTES);
    assert!(recording.entry(&key).is_some_and(|it| (1..4).contains(&it.got.len())));
}
