//! Keys, signals and sizes.

use super::tmux::Tmux;

const AGENT: &str = "-- 'demo-agent --pace 0'";

const SIZE: (usize, usize) = (70, 24);

/// The terminal echoes what is typed: its modes are restored.
fn assert_restored(terminal: &Tmux) {
    terminal.write("echoed");
    terminal.see("\nechoed");
    terminal.press(&["Enter"]);
    terminal.see("echoed\nechoed");
}

#[test]
fn ctrl_d_ends_the_chat_and_restores_the_terminal() {
    let terminal = Tmux::new("end", SIZE, AGENT);
    terminal.idle();
    terminal.write("x");
    terminal.press(&["C-d"]);
    terminal.see("> x");
    terminal.press(&["C-u", "C-d"]);
    terminal.see("status 0");
    assert_restored(&terminal);
}

#[test]
fn ctrl_c_cancels_a_turn_at_once_and_keeps_what_was_typed() {
    let terminal = Tmux::new("cancel", SIZE, AGENT);
    terminal.idle();
    terminal.enter("hang");
    terminal.see("waiting for demo-agent");
    terminal.write("typed ahead");
    terminal.press(&["C-c"]);
    terminal.see("(cancelled)");
    let screen = terminal.wait("the text", |screen| screen.ends_with("> typed ahead"));
    assert_eq!(screen.matches("typed ahead").count(), 1, "it is not echoed elsewhere: {screen}");
    terminal.press(&["C-c"]);
    terminal.idle();
}

#[test]
fn ctrl_c_stops_a_chain_that_does_not_start() {
    let terminal = Tmux::new("start", SIZE, "-- sparkle 'sleep 1000'");
    terminal.see("starting");
    terminal.press(&["C-c"]);
    terminal.see("status 130");
    assert_restored(&terminal);
}

#[test]
fn a_signal_that_ends_the_chat_restores_the_terminal() {
    let terminal = Tmux::new("signal", SIZE, AGENT);
    terminal.idle();
    terminal.enter("hang");
    terminal.see("waiting for demo-agent");
    testkit::test_chain::signal(terminal.chat_process(), libc::SIGTERM);
    terminal.see("status ");
    assert_restored(&terminal);
}

#[test]
fn a_chain_that_fails_restores_the_terminal() {
    let terminal = Tmux::new("fails", SIZE, "-- /nowhere/at/all");
    terminal.see("command not found");
    terminal.see("status 1");
    assert_restored(&terminal);
}

#[test]
fn lines_are_pasted_edited_and_entered_as_one_prompt() {
    let terminal = Tmux::new("paste", SIZE, AGENT);
    terminal.idle();
    terminal.paste("one\ntwo\nthree");
    terminal.see("> one\n  two\n  three");
    terminal.press(&["Up", "M-Enter"]);
    terminal.write("漢字");
    terminal.press(&["Left"]);
    terminal.write("x");
    terminal.see("> one\n  two\n  漢x字\n  three");
    terminal.press(&["Enter"]);
    let screen = terminal.see("sounds interesting");
    assert!(screen.contains("> one\n  two\n  漢x字\n  three\n"), "{screen}");
}

#[test]
fn the_history_is_kept_over_runs_in_a_private_file() {
    use std::os::unix::fs::PermissionsExt;
    let terminal = Tmux::new("history", SIZE, AGENT);
    terminal.idle();
    terminal.enter("the first prompt");
    terminal.see("Say");
    terminal.idle();
    terminal.paste("the second\nprompt");
    terminal.press(&["Enter"]);
    terminal.see("> the second\n  prompt\n");
    terminal.idle();
    terminal.press(&["C-d"]);
    terminal.see("status 0");
    let file = terminal.state().join("conductor/try-history");
    let mode = std::fs::metadata(&file).expect("a history").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let terminal = terminal.restart(SIZE, AGENT);
    terminal.idle();
    terminal.press(&["Up"]);
    terminal.see("> the second\n  prompt");
    terminal.press(&["Up"]);
    terminal.see("> the first prompt");
    terminal.press(&["C-u", "C-r"]);
    terminal.write("sec");
    terminal.see("search: sec\n> the second\n  prompt");
}

#[test]
fn a_key_from_before_a_question_does_not_answer_it() {
    let terminal = Tmux::new("ahead", SIZE, AGENT);
    std::fs::write(terminal.work().join("notes.txt"), "one\n").expect("a file");
    terminal.idle();
    // All of this is typed before the question can be there.
    terminal.press(&["edit notes.txt two", "Enter", "1", "Enter", "y"]);
    terminal.wait("the question", |screen| {
        let kept = screen.contains("queued: 1") && screen.ends_with("> y");
        kept && screen.contains("Your text is kept.")
    });
    let text = std::fs::read_to_string(terminal.work().join("notes.txt")).expect("a file");
    assert_eq!(text, "one\n", "nothing was answered");
    terminal.press(&["BSpace"]);
    terminal.see("Press a key");
    terminal.write("n");
    terminal.see("Edit notes.txt: Reject");
}

#[test]
fn a_resize_while_text_arrives_leaves_one_live_region() {
    let terminal = Tmux::new("resize", (80, 24), "-- 'demo-agent --pace 20'");
    terminal.idle();
    terminal.enter("story");
    terminal.see("Once upon");
    for (columns, rows) in [(40, 24), (100, 30), (50, 16), (20, 12), (80, 24)] {
        terminal.resize(columns, rows);
        terminal.wait("one status line", |screen| {
            // If tmux wraps lines into few rows, the row of the cursor may get into the scrollback, where no program can
            // remove it. With more rows, it is on the screen again, above the text that is printed then.
            let below = screen.rsplit_once("Once upon").map_or(screen, |(_, below)| below);
            let live = below.matches("waiting for").count() + below.matches("Ask").count();
            screen.lines().all(|line| line.chars().count() <= columns) && live == 1
        });
    }
    // The lines break where the terminal was narrow.
    terminal.wait("the end", |screen| {
        screen.split_whitespace().collect::<String>().contains("theyareplayingstill.")
    });
    let screen = terminal.idle();
    let words: String = screen.split_whitespace().collect();
    let (_, below) = words.rsplit_once("playingstill.").expect("the end");
    assert!(!below.contains("waitingfor"), "{screen}");
}

#[test]
fn ctrl_z_stops_the_chat_and_fg_continues_it() {
    let terminal = Tmux::shell("suspend", SIZE, AGENT);
    terminal.idle();
    terminal.write("draft");
    terminal.see("> draft");
    terminal.press(&["C-z"]);
    terminal.see("Stopped");
    terminal.enter("echo in the $((40 + 2))nd shell");
    terminal.see("in the 42nd shell");
    terminal.enter("fg");
    terminal.wait("the chat", |screen| screen.ends_with("> draft"));
    terminal.press(&["C-u"]);
    terminal.enter("hello");
    terminal.see("Say");
    terminal.idle();
}

#[test]
fn what_is_typed_before_the_chat_is_there_is_kept() {
    let terminal = Tmux::new("early", SIZE, AGENT);
    terminal.enter("hello");
    terminal.write("a draft");
    let screen = terminal.wait("the draft", |screen| {
        screen.contains("Say") && screen.ends_with("> a draft") && !screen.contains("waiting for")
    });
    assert_eq!(screen.matches("> hello").count(), 1, "{screen}");
}

#[test]
fn a_tiny_terminal_works() {
    let terminal = Tmux::new("tiny", (20, 10), AGENT);
    terminal.idle();
    terminal.resize(3, 5);
    terminal.enter("help");
    terminal.enter("show all");
    terminal.resize(80, 24);
    terminal.enter("hello");
    terminal.see("Say");
    terminal.idle();
    terminal.press(&["C-d"]);
    terminal.see("status 0");
}

#[test]
fn a_terminal_that_does_not_report_its_size_works() {
    let terminal = Tmux::shell("no-size", SIZE, "--help >/dev/null; stty cols 0 rows 0");
    terminal.enter_chat(AGENT);
    terminal.idle();
    terminal.enter("hello");
    terminal.see("Say");
    terminal.idle();
}

#[test]
fn an_output_that_cannot_be_written_is_an_error() {
    let terminal = Tmux::new("full", SIZE, &format!("--prompt hello {AGENT} >/dev/full"));
    terminal.see("cannot write to standard output");
    terminal.see("status 1");
}
