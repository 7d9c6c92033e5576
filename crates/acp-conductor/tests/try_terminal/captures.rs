//! What the terminal shows, compared with the files in `captures`.

use super::tmux::{Tmux, compare};

/// The demo agent, without pauses between its words.
const AGENT: &str = "-- 'demo-agent --pace 0'";

/// Enters a prompt, waits for a text near the end of the answer, and for the end of the turn.
fn turn(terminal: &Tmux, prompt: &str, answer: &str) {
    terminal.enter(prompt);
    terminal.see(answer);
    terminal.idle();
}

/// A conversation with Markdown, a plan, a permission and all kinds of updates.
fn conversation(columns: usize) {
    // The answers contain the path of the folder.
    let terminal = Tmux::new("captures", (columns, 45), &format!("--cwd / {AGENT}"));
    terminal.idle();
    turn(&terminal, "hello", "Say");
    turn(&terminal, "show markdown thought", "The end of the sample.");
    turn(&terminal, "plan a holiday", "of 3 done");
    turn(&terminal, "show tool_call link image plan usage", "Next: usage");
    compare(&format!("conversation-{columns}"), &terminal.all());
}

#[test]
fn a_conversation_at_40_columns() {
    conversation(40);
}

#[test]
fn a_conversation_at_80_columns() {
    conversation(80);
}

#[test]
fn a_conversation_at_160_columns() {
    conversation(160);
}

/// The question before an edit, and what follows the answer.
fn permission(columns: usize) {
    let terminal = Tmux::new("permission", (columns, 40), AGENT);
    std::fs::write(terminal.work().join("notes.txt"), "one\ntwo\n").expect("a file");
    terminal.idle();
    terminal.enter("edit notes.txt three");
    let question = terminal.see("Press a key");
    compare(&format!("question-{columns}"), &question);
    terminal.write("y");
    terminal.see("(edit, done)");
    terminal.idle();
    let text = std::fs::read_to_string(terminal.work().join("notes.txt")).expect("a file");
    assert_eq!(text, "one\ntwo\nthree\n");
    terminal.enter("run seq 20");
    terminal.see("Press a key");
    terminal.write("y");
    terminal.see("more lines");
    terminal.idle();
    compare(&format!("permission-{columns}"), &terminal.all());
}

#[test]
fn a_permission_at_40_columns() {
    permission(40);
}

#[test]
fn a_permission_at_80_columns() {
    permission(80);
}

#[test]
fn a_permission_at_160_columns() {
    permission(160);
}

/// Commands, completion, a waiting chat and queued prompts.
fn waiting(columns: usize) {
    let terminal = Tmux::new("waiting", (columns, 30), AGENT);
    terminal.idle();
    terminal.write("/m");
    compare(&format!("completion-{columns}"), &terminal.see("/model"));
    terminal.press(&["C-u"]);
    terminal.enter("hang");
    terminal.see("waiting for demo-agent");
    terminal.enter("and then this");
    terminal.write("a draft");
    let waits = terminal.wait("a second", |screen| {
        let time = screen.lines().any(|line| line.contains(" s ") || line.ends_with(" s"));
        time && screen.contains("queued: and then this") && screen.ends_with("> a draft")
    });
    compare(&format!("waiting-{columns}"), &waits);
}

#[test]
fn a_waiting_chat_at_40_columns() {
    waiting(40);
}

#[test]
fn a_waiting_chat_at_80_columns() {
    waiting(80);
}

#[test]
fn a_waiting_chat_at_160_columns() {
    waiting(160);
}

#[test]
fn a_terminal_without_colors_shows_the_signs_of_markdown() {
    let terminal = Tmux::with_environment("no-color", (60, 45), "NO_COLOR=1", AGENT);
    terminal.idle();
    turn(&terminal, "show markdown thought", "The end of the sample.");
    assert!(!terminal.colors().contains('\x1b'), "{:?}", terminal.colors());
    compare("no-color", &terminal.all());
}

#[test]
fn a_simple_terminal_and_a_screen_reader_get_plain_text() {
    for (name, environment, option) in [("dumb", "TERM=dumb", ""), ("plain", "", "--plain")] {
        let arguments = format!("{option} {AGENT}");
        let terminal = Tmux::with_environment(name, (60, 50), environment, &arguments);
        terminal.wait("a prompt", |screen| screen.ends_with("\n>"));
        terminal.enter("show markdown thought");
        terminal.see("The end of the sample.");
        terminal.enter("edit notes.txt three");
        terminal.see("Answer:");
        terminal.enter("3");
        terminal.see("I leave notes.txt alone.");
        terminal.wait("a prompt", |screen| screen.ends_with("\n>"));
        compare(name, &terminal.all());
        terminal.press(&["C-d"]);
        terminal.see("status 0");
    }
}
