use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::Options;
use super::output::Output;
use crate::random::Random;
use crate::view::{Activity, Choice, Question, UserInput};
use crate::wire::{PayloadLayout, Row, RowKind};

#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Written {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().expect("no panic").clone()).expect("UTF-8")
    }
}

/// A view, its output, and its errors.
fn view(options: Options) -> (Output, Written, Written) {
    let (out, err) = (Written::default(), Written::default());
    (Output::new(options, Box::new(out.clone()), Box::new(err.clone())), out, err)
}

const PIPE: Options = Options {
    terminal: false,
    input_terminal: false,
    read_input: true,
    color: false,
    width: 0,
    folder: PathBuf::new(),
};
const TERMINAL: Options = Options {
    terminal: true,
    input_terminal: true,
    read_input: true,
    color: false,
    width: 30,
    folder: PathBuf::new(),
};

fn row() -> Row {
    Row {
        time: std::time::Duration::ZERO,
        from: "a".into(),
        to: "b".into(),
        toward: acp_wire::Side::Agent,
        hop_width: 5,
        kind: RowKind::Notification("x".into()),
        number: None,
        took: None,
        json: String::new(),
        payload: PayloadLayout::OneLine,
    }
}

fn chunk(kind: &str, text: &str) -> Value {
    json!({ "sessionUpdate": kind, "content": { "type": "text", "text": text } })
}

fn question() -> Question {
    let choice =
        |name: &str, kind: &str| Choice { id: name.into(), name: name.into(), kind: kind.into() };
    Question {
        title: "Edit a.txt".into(),
        tool_call: Some(json!({ "rawInput": { "command": "sed -i" } })),
        options: vec![choice("Allow once", "allow_once"), choice("Reject", "reject_once")],
    }
}

#[test]
fn a_pipe_gets_the_answer_as_it_arrives_and_as_it_is() {
    let (mut view, out, _) = view(PIPE);
    view.prompt("hello");
    view.update(&chunk("agent_thought_chunk", "hm\n"), false);
    view.update(&chunk("agent_message_chunk", "\n"), false);
    view.update(&chunk("agent_message_chunk", "\n# A **title** "), false);
    assert_eq!(out.text(), "> hello\nThought: hm\n# A **title** ");
    view.update(&chunk("agent_message_chunk", &format!("{}\n\n", "long ".repeat(30))), false);
    view.turn_ended(Some("cancelled"));
    let expected =
        format!("> hello\nThought: hm\n# A **title** {}\n(cancelled)\n", "long ".repeat(30));
    assert_eq!(out.text(), expected);
}

#[test]
fn a_pipe_gets_one_line_for_a_tool_call_and_its_diff() {
    let (mut view, out, _) = view(PIPE);
    for call in [
        json!({ "sessionUpdate": "tool_call", "toolCallId": "a", "title": "list", "status": "in_progress" }),
        json!({
            "sessionUpdate": "tool_call_update", "toolCallId": "a", "status": "completed",
            "content": [{ "type": "content", "content": { "type": "text", "text": "\nfirst\nsecond" } }],
        }),
        json!({
            "sessionUpdate": "tool_call", "toolCallId": "b", "title": "Edit", "status": "failed",
            "content": [{ "type": "diff", "path": "/x", "oldText": "a\n", "newText": "b\n" }],
        }),
    ] {
        view.update(&call, false);
    }
    assert_eq!(out.text(), "✓ list  first\n✗ Edit\n  /x (+1 -1)\n  - a\n  + b\n");
}

#[test]
fn a_terminal_gets_words_and_word_wrap() {
    let (mut view, out, _) = view(TERMINAL);
    let call = json!({
        "sessionUpdate": "tool_call", "toolCallId": "a", "title": "list", "kind": "search", "status": "in_progress",
    });
    view.update(&call, false);
    let ended = json!({
        "sessionUpdate": "tool_call_update", "toolCallId": "a", "status": "completed",
        "content": [{ "type": "content", "content": { "type": "text", "text": "1\n2\n3\n4\n5\n6" } }],
    });
    view.update(&ended, false);
    view.update(&chunk("agent_thought_chunk", "hm"), false);
    view.update(
        &chunk("agent_message_chunk", "This is a text that does not fit.\n\n- one\n- two\n"),
        false,
    );
    view.turn_ended(Some("end_turn"));
    assert_eq!(
        out.text(),
        "Tool: list (search, running)\nTool: list (search, done)\n  1\n  2\n  3\n  4\n  2 more lines: /unfold 1\n\
        Thought: hm\n(end of the thought)\nThis is a text that does not\nfit.\n\n- one\n- two\n"
    );
    view.unfold(Some(1));
    assert!(out.text().contains("  5\n  6\n"), "{}", out.text());
}

#[test]
fn there_is_no_sign_before_the_input_if_the_prompts_are_options() {
    let (mut view, out, _) = view(Options { read_input: false, ..TERMINAL });
    view.set_activity(Activity::Idle);
    view.prompt("hello");
    view.turn_ended(Some("end_turn"));
    view.set_activity(Activity::Idle);
    assert_eq!(out.text(), "> hello\n");
}

#[test]
fn the_input_is_not_echoed_twice_on_a_terminal() {
    let (mut view, out, _) = view(TERMINAL);
    view.set_activity(Activity::Idle);
    assert_eq!(out.text(), "> ");
    assert_eq!(view.entered("hello"), Some(UserInput::Line("hello".into())));
    view.prompt("hello");
    assert_eq!(out.text(), "> ");
    view.prompt("from a queue");
    assert_eq!(out.text(), "> > from a queue\n");
    assert_eq!(view.entered("  "), None);
    let before = out.text();
    view.end_of_input();
    view.note("bye");
    assert_eq!(
        out.text().strip_prefix(&before),
        Some("\nbye\n"),
        "there is no other sign before the input"
    );
}

#[test]
fn a_question_is_answered_with_a_number_or_a_name() {
    let (mut view, out, _) = view(TERMINAL);
    view.set_question(Some(&question()));
    let asked =
        "Permission: Edit a.txt\n  $ sed -i\n  1) Allow once (y)\n  2) Reject (n)\nAnswer: ";
    assert_eq!(out.text(), asked);
    assert_eq!(view.entered("maybe"), None);
    assert!(out.text().contains("Answer with a number from 1 to"), "{}", out.text());
    assert_eq!(view.entered("rej"), Some(UserInput::Choice(1)));
    assert_eq!(view.entered("1"), Some(UserInput::Choice(0)));
    assert_eq!(view.entered("/exit"), Some(UserInput::Line("/exit".into())));
    view.set_question(None);
    view.answered(&question(), "Reject");
    assert!(out.text().ends_with("Permission: Edit a.txt: Reject\n"), "{}", out.text());
}

/// The answer streams beside the messages, also if it has no line breaks.
#[test]
fn a_long_paragraph_is_written_line_by_line_beside_the_messages() {
    let words: Vec<String> = (0..60).map(|number| format!("word{number} ")).collect();
    for options in [PIPE, TERMINAL] {
        let (mut view, out, _) = view(options);
        view.wire(&row());
        for (number, word) in words.iter().enumerate() {
            view.update(&chunk("agent_message_chunk", word), false);
            view.wire(&row());
            if number == 40 {
                assert!(out.text().contains("word1 word2"), "{}", out.text());
                assert!(!out.text().contains("word40"), "{}", out.text());
            }
        }
        view.turn_ended(Some("end_turn"));
        let shown = out.text();
        let answer: Vec<&str> = shown.lines().filter(|line| !line.starts_with('│')).collect();
        assert!(answer.len() > 3, "{shown}");
        let expected: String = words.concat();
        assert_eq!(answer.join(" ").trim(), expected.trim());
    }
}

/// Emphasis that ends later changes the layout of the lines before its end.
#[test]
fn markup_in_a_long_paragraph_loses_no_word() {
    let (mut view, out, _) = view(TERMINAL);
    let mut words: Vec<String> = (0..40).map(|number| format!("w{number} ")).collect();
    words[20] = "**w20 ".into();
    words[30] = "w30** ".into();
    for word in &words {
        view.update(&chunk("agent_message_chunk", word), false);
    }
    view.turn_ended(Some("end_turn"));
    let shown = out.text().replace("**", "");
    let shown: Vec<&str> = shown.split_whitespace().collect();
    let expected: Vec<String> = (0..40).map(|number| format!("w{number}")).collect();
    assert_eq!(shown, expected);
}

#[test]
fn messages_of_the_chain_do_not_interrupt_a_line_of_the_answer() {
    let (mut view, out, _) = view(PIPE);
    let row = row();
    view.wire(&row);
    view.update(&chunk("agent_message_chunk", "one\ntw"), false);
    view.wire(&row);
    view.update(&chunk("agent_message_chunk", "o"), false);
    view.turn_ended(Some("end_turn"));
    let lines: Vec<String> = out.text().lines().map(|line| line.replace("│ a → b", "│")).collect();
    let starts: Vec<&str> = lines.iter().map(|line| line.split(' ').next().unwrap_or("")).collect();
    assert_eq!(starts, ["│", "one", "│", "two"], "{}", out.text());
}

#[test]
fn errors_go_to_standard_error() {
    let (mut view, out, err) = view(PIPE);
    view.update(&chunk("agent_message_chunk", "text"), false);
    view.error("it\x1b[2J failed");
    assert_eq!((out.text().as_str(), err.text().as_str()), ("text\n", "error: it failed\n"));
}

#[test]
fn a_failed_output_is_reported_once() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut view = Output::new(PIPE, Box::new(Full), Box::new(Full));
    view.note("text");
    view.note("text");
    assert_eq!(view.take_error().map(|error| error.kind()), Some(io::ErrorKind::StorageFull));
    assert!(view.take_error().is_none());
}

#[test]
fn a_session_that_is_replayed_shows_its_prompts() {
    for options in [PIPE, TERMINAL] {
        let (mut view, out, _) = view(options);
        view.update(&chunk("user_message_chunk", "hel"), true);
        view.update(&chunk("user_message_chunk", "lo"), true);
        view.update(&chunk("agent_message_chunk", "Hi"), true);
        view.finish();
        assert_eq!(out.text(), "> hello\nHi\n");
    }
}

/// Random updates: no panic, and no control character.
#[test]
fn random_updates_do_no_harm() {
    let mut random = Random::new(5);
    for _ in 0..200 {
        let options = Options {
            terminal: random.below(2) == 0,
            width: 1 + random.below(100),
            ..if random.below(2) == 0 { PIPE } else { TERMINAL }
        };
        let (mut view, out, err) = view(options.clone());
        for _ in 0..20 {
            let text = random.text();
            let kinds = ["agent_message_chunk", "agent_thought_chunk", "user_message_chunk"];
            match random.below(6) {
                0..3 => view.update(&chunk(kinds[random.below(3)], &text), true),
                3 => view.update(
                    &json!({
                        "sessionUpdate": "tool_call", "toolCallId": "t", "title": text, "status": "completed",
                        "content": [{ "type": "content", "content": { "type": "text", "text": random.text() } }],
                    }),
                    false,
                ),
                4 => view.note(&text),
                _ => view.prompt(&text),
            }
        }
        view.finish();
        let shown = out.text() + &err.text();
        assert!(shown.chars().all(acp_wire::printable::is_printable), "{shown:?}");
        if options.terminal {
            let too_wide = shown.lines().find(|line| crate::text::width(line) > options.width);
            assert_eq!(too_wide, None, "{} columns", options.width);
        }
    }
}
