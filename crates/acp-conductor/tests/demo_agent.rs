//! The demo agent in real chains.

#![cfg(unix)]

use std::path::Path;
use std::process::{Command, Output, Stdio};

use testkit::test_chain::directory;

/// Runs `conductor try` in a folder.
fn run_try(folder: &Path, prompts: &[&str], chain: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_conductor"));
    command.args(["try", "--yes", "--no-history"]).current_dir(folder).stdin(Stdio::null());
    for prompt in prompts {
        command.args(["--prompt", prompt]);
    }
    command.arg("--").args(chain).output().expect("the conductor starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// What is printed, without an error.
fn printed(folder: &Path, prompts: &[&str], chain: &[&str]) -> String {
    let output = run_try(folder, prompts, chain);
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// The demo agent in a process of its own.
fn process() -> String {
    format!("'{}' demo-agent --pace 0", env!("CARGO_BIN_EXE_conductor"))
}

#[test]
fn commands_work_behind_proxies_that_add_text() {
    let folder = directory("demo-behind");
    std::fs::write(folder.join("AGENTS.md"), "Make a plan.\nEdit the file.\ncrash")
        .expect("a file");
    let chain =
        ["context", "context --each --text 'Answer in one sentence.'", "demo-agent --pace 0"];
    let shown = printed(&folder, &["hello", "help"], &chain);
    let (first, second) = shown.split_once("> help\n").expect("two prompts");
    assert!(first.starts_with("> hello\nHello! You said “hello”"), "{first}");
    assert!(!first.contains("Plan") && !first.contains("Edit"), "{first}");
    assert!(second.contains("| `crash`, `crash hard` |"), "{second}");
}

#[test]
fn files_are_edited_and_read_and_commands_run_through_the_chat() {
    let folder = directory("demo-files");
    std::fs::write(folder.join("notes.txt"), "one\n").expect("a file");
    let prompts = ["edit notes.txt two words", "read notes.txt", "run cat notes.txt", "run false"];
    let shown = printed(&folder, &prompts, &["demo-agent --pace 0"]);
    let notes = std::fs::read_to_string(folder.join("notes.txt")).expect("a file");
    assert_eq!(notes, "one\ntwo words\n", "{shown}");
    for expected in [
        "Done: I have added a line to notes.txt.",
        "notes.txt has 2 lines. The first one is: one",
        "`cat notes.txt` has ended with status 0. It has printed: one",
        "`false` has ended with status 1. It has printed nothing.",
    ] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
}

/// The chat reads only text.
#[test]
fn a_file_that_cannot_be_read_is_not_replaced_by_an_edit() {
    let folder = directory("demo-bytes");
    std::fs::write(folder.join("image.png"), [0x89, 0xff, 0x00]).expect("a file");
    let shown = printed(&folder, &["edit image.png", "edit new.txt"], &["demo-agent --pace 0"]);
    assert!(shown.contains("I cannot edit image.png: "), "{shown}");
    assert_eq!(std::fs::read(folder.join("image.png")).expect("a file"), [0x89, 0xff, 0x00]);
    assert!(shown.contains("Done: I have added a line to new.txt."), "{shown}");
}

/// The conductor restarts the agent, which resumes the session.
#[test]
fn after_a_crash_the_session_goes_on() {
    let folder = directory("demo-crash");
    let process = process();
    for (prompt, agent, how) in [
        ("crash", process.as_str(), "exited with status 101"),
        ("crash hard", &process, "was killed by signal 6"),
        // In a thread of the conductor, a hard crash ends only the thread.
        ("crash hard", "demo-agent --pace 0", "it panicked: the prompt asked for a crash"),
    ] {
        let output = run_try(&folder, &["hello", prompt, "hello again"], &[agent]);
        let (shown, stderr) = (text(&output.stdout), text(&output.stderr));
        assert_eq!(output.status.code(), Some(1), "{stderr}");
        assert!(stderr.contains(how), "{stderr}");
        let answer = "Thought: I was restarted, so I do not know what we have talked about.\n\
                      Hello! You said “hello again”";
        assert!(shown.contains(answer), "{shown}");
    }
    let output = run_try(&folder, &["crash"], &[&process]);
    let stderr = text(&output.stderr);
    assert!(stderr.contains("demo-agent: crashes, because the prompt asked for it"), "{stderr}");
}

#[test]
fn a_login_can_be_required() {
    let folder = directory("demo-login");
    let output = run_try(&folder, &["hello"], &["demo-agent --require-login"]);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("Demo login"), "{stderr}");
}
