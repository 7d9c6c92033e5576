//! The built-in component `log` in a chat: it never writes to the terminal.

#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};

use testkit::terminal::Terminal;
use testkit::test_chain::directory;

fn conductor(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_conductor"));
    command.arg("try").args(arguments).stdin(Stdio::null());
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

fn assert_is_the_log(path: &std::path::Path) {
    let log = fs::read_to_string(path).expect("the log");
    assert!(log.contains(r#""method":"session/prompt""#), "{log}");
    assert_eq!(log.matches(r#""method":"session/new""#).count(), 2, "{log}");
    let mode = fs::metadata(path).expect("the log").permissions().mode();
    assert_eq!(mode & 0o077, 0, "only the user can read it");
}

#[test]
fn the_log_of_a_chat_goes_to_a_file_that_is_named() {
    let place = directory("try-log");
    let chain = ["--", "log", "demo-agent --pace 0"];
    let run = |options: &[&str]| -> Output {
        let arguments = [options, &["--prompt", "hello"], &chain].concat();
        let output = conductor(&arguments).env("XDG_STATE_HOME", &place).output();
        let output = output.expect("the conductor starts");
        assert!(output.status.success(), "{output:?}");
        output
    };
    let path = place.join("conductor/try-log.jsonl");
    // The file contains only the latest chat.
    for _ in 0..2 {
        let output = run(&[]);
        let note = format!("conductor: the component log writes to {}\n", path.display());
        assert_eq!(text(&output.stderr), note);
        assert!(!text(&output.stdout).contains("session/prompt"), "{output:?}");
        assert_is_the_log(&path);
    }
    let log_file = place.join("all.log");
    let output = run(&["--log-file", log_file.to_str().expect("UTF-8")]);
    assert!(text(&output.stderr).ends_with("all.log\n"), "{output:?}");
    assert_is_the_log(&log_file);
    fs::remove_dir_all(place).expect("the directory is ours");
}

#[test]
fn the_log_does_not_write_into_a_chat_on_a_terminal() {
    let place = directory("try-log-terminal");
    let mut command = conductor(&["--", "log --level trace", "demo-agent --pace 0"]);
    let mut terminal = Terminal::start(command.env("XDG_STATE_HOME", &place), None);
    terminal.wait_for("try-log.jsonl\r\n");
    let start = terminal.wait_for("Ctrl-D leaves");
    terminal.press("hello\r");
    let shown = start + &terminal.wait_for("You said");
    assert!(!shown.contains("sessionUpdate") && !shown.contains("\"level\""), "{shown}");
    terminal.press("\x04");
    terminal.wait();
    fs::remove_dir_all(place).expect("the directory is ours");
}

#[test]
fn a_log_that_cannot_be_written_does_not_write_into_the_chat() {
    let chain = ["--", "log --file /dev/full", "demo-agent --pace 0"];
    let output = conductor(&[&["--prompt", "hello"], &chain[..]].concat())
        .output()
        .expect("the conductor starts");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}
