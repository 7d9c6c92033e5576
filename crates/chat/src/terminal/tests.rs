use std::time::{Duration, Instant};

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use serde_json::{Value, json};

use super::keys::Action;
use super::state::State;
use crate::random::Random;
use crate::view::{Activity, Choice, Question, SlashCommand, UserInput};

/// A terminal without a screen.
struct Terminal {
    state: State,
    now: Instant,
    /// What was printed above the live region.
    printed: String,
}

impl Terminal {
    fn new(columns: usize, rows: usize) -> Terminal {
        let state = State::new(false, columns, rows, vec!["earlier".into()]);
        Terminal { state, now: Instant::now(), printed: String::new() }
    }

    /// Draws a frame. Returns the live region.
    fn draw(&mut self) -> String {
        let lines = std::mem::take(&mut self.state.finished);
        self.printed.extend(lines.iter().map(|line| format!("{}\n", line.text())));
        let frame = self.state.frame(self.now);
        self.state.drawn(self.now);
        assert!(frame.row < frame.lines.len() && frame.lines.len() <= self.state.height.max(2));
        frame.lines.iter().map(|line| format!("{}\n", line.text())).collect()
    }

    fn wait(&mut self, milliseconds: u64) {
        self.now += Duration::from_millis(milliseconds);
    }

    fn update(&mut self, update: Value) {
        self.state.update(&update, false, self.now);
    }

    fn answer(&mut self, text: &str) {
        self.update(json!({
            "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text },
        }));
    }

    fn press(&mut self, code: KeyCode, modifiers: KeyModifiers) -> Vec<Action> {
        self.state.key(KeyEvent::new(code, modifiers), self.now)
    }

    fn control(&mut self, key: char) -> Vec<Action> {
        self.press(KeyCode::Char(key), KeyModifiers::CONTROL)
    }

    fn enter(&mut self) -> Vec<Action> {
        self.press(KeyCode::Enter, KeyModifiers::NONE)
    }

    fn write(&mut self, text: &str) -> Vec<Action> {
        text.chars().flat_map(|it| self.press(KeyCode::Char(it), KeyModifiers::NONE)).collect()
    }

    fn work(&mut self) {
        let since = self.now;
        self.state.set_activity(Activity::Working { since });
    }
}

fn question() -> Question {
    let choice = |name: &str, kind: &str| Choice {
        id: name.to_lowercase(),
        name: name.to_owned(),
        kind: kind.to_owned(),
    };
    let diff = json!({ "type": "diff", "path": "/a.txt", "oldText": "one\n", "newText": "two\n" });
    Question {
        title: "Edit a.txt".into(),
        tool_call: Some(
            json!({ "toolCallId": "t", "rawInput": { "command": "sed -i" }, "content": [diff] }),
        ),
        options: vec![
            choice("Allow once", "allow_once"),
            choice("Always allow", "allow_always"),
            choice("Reject", "reject_once"),
            choice("Ask me later", "other"),
        ],
    }
}

fn choice(index: usize) -> Vec<Action> {
    vec![Action::Send(UserInput::Choice(index))]
}

fn line(text: &str) -> Vec<Action> {
    vec![Action::Remember(text.into()), Action::Send(UserInput::Line(text.into()))]
}

#[test]
fn a_turn_goes_from_the_live_region_to_the_scrollback() {
    let mut terminal = Terminal::new(40, 24);
    terminal.state.header(&["sparkle".into(), "demo-agent".into()]);
    terminal.state.prompt("hello");
    terminal.work();
    terminal.state.set_awaited(Some("sparkle"));
    assert_eq!(terminal.draw(), "\n⠋ waiting for sparkle… · Ctrl-C cancels\n>\n");
    terminal.wait(1200);
    assert_eq!(terminal.draw(), "\n⠹ waiting for sparkle… 1 s · Ctrl-C\n>\n");
    terminal.answer("One.\n\nTwo");
    terminal.update(json!({
        "sessionUpdate": "plan", "entries": [{ "content": "step", "status": "in_progress" }],
    }));
    let live = terminal.draw();
    assert_eq!(
        live,
        "\nTwo\n\nPlan (0 of 1 done)\n  ▸ step\n\n⠹ waiting for sparkle… 1 s · Ctrl-C\n>\n"
    );
    assert_eq!(terminal.printed, "you → sparkle → demo-agent\n\n> hello\n\nOne.\n");
    terminal.state.turn_ended(Some("end_turn"));
    terminal.state.set_facts(&["ask".into(), "model".into()]);
    terminal.state.set_activity(Activity::Idle);
    assert_eq!(terminal.draw(), "\nask · model\n>\n");
    assert!(
        terminal.printed.ends_with("One.\n\nTwo\n\nPlan (0 of 1 done)\n  ▸ step\n"),
        "{}",
        terminal.printed
    );
}

#[test]
fn thoughts_have_a_label_and_are_folded() {
    let mut terminal = Terminal::new(40, 24);
    let text: String = (0..9).map(|it| format!("Thought {it}.\n\n")).collect();
    let thought = json!({
        "sessionUpdate": "agent_thought_chunk", "content": { "type": "text", "text": text },
    });
    terminal.update(thought);
    assert!(terminal.draw().contains("┊ Thought 8."), "the end is shown while it arrives");
    terminal.answer("Done");
    terminal.draw();
    let folded =
        "┊ thought\n┊ Thought 0.\n┊\n┊ Thought 1.\n┊ … 14 more lines (Ctrl-O or /unfold 1)\n";
    assert_eq!(terminal.printed, folded);
    terminal.control('o');
    terminal.draw();
    assert!(
        terminal.printed.contains("Done\n\n┊ thought\n")
            && terminal.printed.contains("┊ Thought 8.")
    );
}

#[test]
fn tool_output_is_folded_and_unfolded_by_number() {
    let mut terminal = Terminal::new(50, 24);
    for (id, lines) in [("a", 5), ("b", 9), ("c", 8)] {
        let text: String = (0..lines).map(|it| format!("{id}{it}\n")).collect();
        terminal.update(json!({
            "sessionUpdate": "tool_call", "toolCallId": id, "title": id, "status": "completed",
            "content": [{ "type": "content", "content": { "type": "text", "text": text } }],
        }));
    }
    terminal.draw();
    let expected = "✓ a (done)\n  a0\n  a1\n  a2\n  a3\n  a4\n✓ b (done)\n  b0\n  b1\n  b2\n  b3\n  … 5 more lines \
        (Ctrl-O or /unfold 1)\n✓ c (done)\n  c0\n  c1\n  c2\n  c3\n  … 4 more lines (Ctrl-O or /unfold 2)\n";
    assert_eq!(terminal.printed, expected);
    terminal.state.unfold(Some(1));
    terminal.state.unfold(Some(7));
    terminal.draw();
    assert!(
        terminal.printed.contains("  b8\n\nthere is no folded output 7\n"),
        "{}",
        terminal.printed
    );
}

#[test]
fn a_question_shows_command_diff_and_keys_and_takes_one_key() {
    let mut terminal = Terminal::new(50, 24);
    terminal.work();
    terminal.state.set_question(Some(&question()));
    terminal.draw();
    terminal.wait(600);
    let expected = "\n? Edit a.txt\n  $ sed -i\n  /a.txt (+1 -1)\n  - one\n  + two\n\n  1 or y  Allow once\n  2 or a  Always \
        allow\n  3 or n  Reject\n  4       Ask me later\n  Press a key to answer. Esc cancels.\n\nthe agent waits for your \
        answer\n>\n";
    assert_eq!(terminal.draw(), &expected[1..], "without anything above, there is no empty line");
    assert_eq!(terminal.write("n"), choice(2));
    assert!(terminal.draw().contains("  Reject…\n"));
    assert!(terminal.write("y").is_empty(), "a question is answered once");
}

#[test]
fn a_question_in_a_low_terminal_shows_its_title_and_its_keys() {
    let mut terminal = Terminal::new(70, 5);
    terminal.work();
    terminal.answer("Text above the question.");
    terminal.state.set_question(Some(&question()));
    let expected = "? Edit a.txt\ny Allow once · a Always allow · n Reject · 4 Ask me later\n>\n";
    assert!(terminal.draw().ends_with(expected), "{}", terminal.draw());
    terminal.state.resize(30, 4);
    let expected = "y Allow once · a Always allow\n· n Reject · 4 Ask me later\n>\n";
    assert!(terminal.draw().ends_with(expected), "{}", terminal.draw());
}

#[test]
fn the_query_of_a_search_does_not_answer_a_question() {
    let mut terminal = Terminal::new(50, 24);
    terminal.work();
    terminal.state.set_question(Some(&question()));
    terminal.draw();
    terminal.wait(600);
    terminal.control('r');
    assert!(terminal.write("y").is_empty());
    assert!(terminal.draw().contains("search: y"));
    terminal.press(KeyCode::Esc, KeyModifiers::NONE);
    assert_eq!(terminal.write("y"), choice(0));
}

#[test]
fn keys_from_before_a_question_do_not_answer_it() {
    let mut terminal = Terminal::new(50, 24);
    terminal.work();
    terminal.state.set_question(Some(&question()));
    assert!(terminal.write("y").is_empty(), "the question is not drawn yet");
    assert_eq!(terminal.enter(), line("y"), "a line from before the question is a prompt");
    terminal.write("x");
    terminal.press(KeyCode::Backspace, KeyModifiers::NONE);
    terminal.draw();
    terminal.wait(100);
    assert!(terminal.write("1").is_empty(), "the user was typing and has not read it");
    terminal.wait(600);
    assert!(terminal.write("y").is_empty(), "the line is not empty");
    assert!(terminal.draw().contains("  Clear the line to answer (Ctrl-U).\n"));
    assert_eq!(terminal.state.editor.text(), "1y");
    terminal.control('u');
    assert_eq!(terminal.write("a"), choice(1));
}

#[test]
fn a_question_takes_a_key_at_once_if_the_user_was_not_typing() {
    let mut terminal = Terminal::new(50, 24);
    terminal.write("edit a.txt");
    terminal.enter();
    terminal.work();
    terminal.state.set_question(Some(&question()));
    terminal.draw();
    assert!(terminal.draw().contains("  Press a key to answer. Esc cancels.\n"));
    assert_eq!(terminal.write("y"), choice(0));
    // A second press of the same key does not answer the next question.
    terminal.state.set_question(Some(&question()));
    terminal.draw();
    terminal.wait(100);
    assert!(terminal.write("y").is_empty());
}

#[test]
fn an_entered_number_or_name_answers_a_question() {
    for (text, expected) in [
        ("12", None),
        ("rej", Some(2)),
        ("ALWAYS ALLOW", Some(1)),
        ("ask", Some(3)),
        ("no way", None),
    ] {
        let mut terminal = Terminal::new(50, 24);
        terminal.work();
        terminal.state.set_question(Some(&question()));
        terminal.draw();
        terminal.wait(600);
        terminal.state.paste(text);
        let entered = terminal.enter();
        assert_eq!(entered, expected.map_or_else(|| line(text), choice), "{text}");
    }
}

#[test]
fn escape_and_ctrl_c_cancel_a_question() {
    let mut terminal = Terminal::new(50, 24);
    terminal.work();
    terminal.state.set_question(Some(&question()));
    let escape = |terminal: &mut Terminal| terminal.press(KeyCode::Esc, KeyModifiers::NONE);
    assert!(escape(&mut terminal).is_empty(), "it was typed before the question");
    terminal.draw();
    terminal.wait(600);
    assert_eq!(escape(&mut terminal), [Action::Send(UserInput::Interrupt)]);
    assert_eq!(terminal.control('c'), [Action::Send(UserInput::Interrupt)]);
}

#[test]
fn a_long_diff_is_cut_to_the_screen_and_printed_on_demand() {
    let mut terminal = Terminal::new(40, 16);
    let mut long = question();
    let new: String = (0..50).map(|it| format!("line {it}\n")).collect();
    long.tool_call = Some(json!({ "content": [{ "type": "diff", "path": "/a", "newText": new }] }));
    terminal.state.set_question(Some(&long));
    let live = terminal.draw();
    assert!(
        live.contains("more lines (Ctrl-O)") && live.contains("4       Ask me later"),
        "{live}"
    );
    terminal.control('o');
    terminal.draw();
    assert!(terminal.printed.contains("  + line 49\n"), "{}", terminal.printed);
}

#[test]
fn ctrl_c_is_acknowledged_at_once() {
    let mut terminal = Terminal::new(50, 24);
    terminal.state.paste("draft");
    assert!(
        terminal.control('c').is_empty() && terminal.state.editor.is_empty(),
        "it clears the line"
    );
    assert_eq!(terminal.control('c'), [Action::Send(UserInput::Interrupt)]);
    terminal.work();
    terminal.state.paste("draft");
    assert_eq!(terminal.control('c'), [Action::Send(UserInput::Interrupt)]);
    assert!(terminal.draw().contains("cancelling…"));
    assert_eq!(terminal.state.editor.text(), "draft", "the text is kept");
}

#[test]
fn ctrl_d_ends_only_at_an_empty_line() {
    let mut terminal = Terminal::new(50, 24);
    terminal.state.paste("x");
    assert!(terminal.control('d').is_empty());
    terminal.control('u');
    assert_eq!(terminal.control('d'), [Action::Send(UserInput::End)]);
}

#[test]
fn text_is_typed_ahead_and_pasted_as_one_input() {
    let mut terminal = Terminal::new(50, 24);
    terminal.work();
    assert_eq!(
        {
            terminal.write("next");
            terminal.enter()
        },
        line("next")
    );
    terminal.state.set_queued(&["next".into()]);
    assert!(terminal.draw().contains("  queued: next\n"));
    terminal.state.paste("one\r\ntwo\r\n");
    assert!(terminal.draw().ends_with("> one\n  two\n"));
    assert_eq!(terminal.enter(), line("one\ntwo"));
}

#[test]
fn tab_completes_slash_commands() {
    let mut terminal = Terminal::new(50, 24);
    let command = |name: &str, argument: &str| SlashCommand {
        name: name.into(),
        argument: argument.into(),
        description: format!("does {name}"),
        of_agent: false,
    };
    terminal.state.set_commands(&[
        command("help", ""),
        command("mode", "[ID]"),
        command("model", ""),
    ]);
    terminal.write("/m");
    assert!(terminal.draw().ends_with("> /m\n  /mode [ID]  does mode\n  /model      does model\n"));
    terminal.press(KeyCode::Tab, KeyModifiers::NONE);
    assert_eq!(terminal.state.editor.text(), "/mode");
    terminal.state.editor.set("/h");
    terminal.press(KeyCode::Tab, KeyModifiers::NONE);
    assert_eq!(terminal.state.editor.text(), "/help");
    terminal.state.editor.set("/mode x");
    assert!(terminal.draw().ends_with("> /mode x\n  /mode [ID]  does mode\n"));
    terminal.state.editor.set("not a command");
    assert!(terminal.draw().ends_with("> not a command\n"));
}

#[test]
fn ctrl_r_shows_the_search() {
    let mut terminal = Terminal::new(50, 24);
    terminal.control('r');
    terminal.write("ear");
    assert_eq!(terminal.draw(), "search: ear\n> earlier\n");
    assert_eq!(
        terminal.enter(),
        [Action::Send(UserInput::Line("earlier".into()))],
        "it is the last entry"
    );
}

/// To compare files takes time, and the live region is laid out many times in a second.
#[test]
fn a_diff_is_shown_when_its_tool_call_has_ended() {
    let mut terminal = Terminal::new(60, 20);
    terminal.update(json!({
        "sessionUpdate": "tool_call", "toolCallId": "t", "title": "Edit", "status": "in_progress",
        "content": [{ "type": "diff", "path": "/a.txt", "oldText": "one\n", "newText": "two\n" }],
    }));
    let live = terminal.draw();
    assert!(live.starts_with("… Edit (running)\n  /a.txt\n\n"), "{live}");
    terminal.update(json!({
        "sessionUpdate": "tool_call_update", "toolCallId": "t", "status": "completed",
    }));
    terminal.draw();
    assert_eq!(terminal.printed, "✓ Edit (done)\n  /a.txt (+1 -1)\n  - one\n  + two\n");
}

#[test]
fn a_text_that_is_taller_than_the_screen_shows_its_end() {
    let mut terminal = Terminal::new(30, 10);
    let text: String = (0..40).map(|it| format!("> row {it}\n>\n")).collect();
    terminal.answer(&text);
    let live = terminal.draw();
    assert!(live.contains("│ row 39") && live.lines().count() <= 10, "{live}");
    terminal.state.turn_ended(Some("end_turn"));
    terminal.draw();
    assert!(terminal.printed.contains("│ row 0\n") && terminal.printed.contains("│ row 39\n"));
}

/// Random updates, keys and sizes: no panic, no line that is too wide, no control character.
#[test]
fn random_conversations_fit_into_every_size() {
    let mut random = Random::new(11);
    for _ in 0..60 {
        let mut terminal = Terminal::new(1 + random.below(200), 1 + random.below(40));
        for _ in 0..40 {
            let width = terminal.state.layout.width;
            step(&mut terminal, &mut random);
            let lines = terminal.state.finished.clone();
            let frame = terminal.state.frame(terminal.now);
            for shown in lines.iter().chain(&frame.lines) {
                assert!(
                    shown.width() <= width.max(terminal.state.layout.width),
                    "{width}: {:?}",
                    shown.text()
                );
                assert!(
                    shown
                        .text()
                        .chars()
                        .all(|it| acp_wire::printable::is_printable(it) && it != '\n')
                );
            }
            assert!(frame.column < terminal.state.layout.width);
            terminal.draw();
            terminal.wait(random.below(900) as u64);
        }
    }
}

/// Does one random thing.
fn step(terminal: &mut Terminal, random: &mut Random) {
    let text = random.text();
    let block = match random.below(4) {
        0 => {
            json!({ "type": "diff", "path": text, "oldText": random.text(), "newText": random.text() })
        }
        1 => json!({ "type": "terminal", "terminalId": "1" }),
        _ => json!({ "type": "content", "content": { "type": "text", "text": text } }),
    };
    let status = ["pending", "in_progress", "completed", "failed"][random.below(4)];
    match random.below(14) {
        0..4 => terminal.answer(&text),
        4 => terminal.update(json!({
            "sessionUpdate": "agent_thought_chunk", "content": { "type": "text", "text": text },
        })),
        5 | 6 => terminal.update(json!({
            "sessionUpdate": "tool_call", "toolCallId": random.below(3).to_string(), "title": text, "status": status,
            "kind": random.text(), "locations": [{ "path": random.text(), "line": 3 }], "content": [block],
        })),
        7 => terminal.update(json!({
            "sessionUpdate": "plan", "entries": [{ "content": text, "status": status }, 1, null],
        })),
        8 => {
            let mut asked = question();
            asked.title = text;
            asked.tool_call = Some(json!({ "rawInput": { "command": random.text() }, "content": [block] }));
            asked.options[0].name = random.text();
            terminal.state.set_question(Some(&asked).filter(|_| status != "failed"));
        }
        9 => terminal.state.paste(&text),
        10 => {
            let keys = [KeyCode::Enter, KeyCode::Up, KeyCode::Left, KeyCode::Backspace, KeyCode::Char('y')];
            terminal.press(keys[random.below(5)], KeyModifiers::NONE);
        }
        11 => terminal.state.set_terminal("1", &text, Some(status)),
        12 => terminal.state.resize(1 + random.below(200), 1 + random.below(40)),
        _ => match random.below(5) {
            0 => terminal.state.note(&text),
            1 => terminal.state.error(&text),
            2 => terminal.state.turn_ended(Some(&text)),
            3 => terminal.state.prompt(&text),
            _ => terminal.state.unfold(None),
        },
    }
}
