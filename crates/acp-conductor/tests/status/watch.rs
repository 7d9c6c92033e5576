//! `conductor status --watch`, into a pipe and on a terminal.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::terminal::Terminal;
use testkit::test_chain::{signal, wait_until};

use super::{INITIALIZE, TestDirectories, start_agent};

const TIMEOUT: Duration = Duration::from_secs(60);
const NOTHING: &str = "No conductor is running.";

/// A running `conductor status --watch`, and the lines that it prints.
struct Watch {
    child: Child,
    lines: Receiver<String>,
}

impl Watch {
    fn start(directories: &TestDirectories, arguments: &[&str]) -> Watch {
        let mut command = directories.command(&[&["status", "--watch=0.1"], arguments].concat());
        let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
        let lines = read_lines(child.stdout.take().expect("a pipe"));
        Watch { child, lines }
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(TIMEOUT).expect("a line")
    }

    fn assert_ends(mut self) {
        let status = wait_until("it ends", || self.child.try_wait().expect("wait"));
        assert!(status.success(), "{status}");
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_lines(stdout: ChildStdout) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines() {
            if line.map_or(true, |line| sender.send(line).is_err()) {
                return;
            }
        }
    });
    lines
}

#[test]
fn into_a_pipe_a_table_is_printed_when_it_has_changed() {
    let directories = TestDirectories::new("watch-pipe");
    let watch = Watch::start(&directories, &[]);
    assert_eq!(watch.line(), NOTHING);
    let (mut chain, mut agent) = start_agent(directories.new_setup());
    let is_separator = |line: &str| line.starts_with("--- ") && line.ends_with(" UTC");
    let mut line = watch.line();
    assert!(is_separator(&line), "{line}");
    // The table may have been printed before the chain was up.
    while !line.contains("  live ") {
        line = watch.line();
    }
    assert!(line.contains(&agent.pid.to_string()), "{line}");
    chain.editor.close();
    assert_eq!(agent.next_line(), None);
    agent.exit(0);
    while line != NOTHING {
        line = watch.line();
    }
}

#[test]
fn json_has_a_line_for_each_change() {
    let directories = TestDirectories::new("watch-json");
    let watch = Watch::start(&directories, &["--json"]);
    assert_eq!(watch.line(), "[]");
    let (chain, _agent) = start_agent(directories.new_setup());
    let state = |line: &str| {
        let list: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!(list[0]["pid"], json!(chain.conductor.pid()), "{line}");
        list[0]["state"].clone()
    };
    let mut line = watch.line();
    while state(&line) != "running" {
        line = watch.line();
    }
}

#[test]
fn one_conductor_is_watched_until_it_exits() {
    let directories = TestDirectories::new("watch-one");
    let (mut chain, mut agent) = start_agent(directories.new_setup());
    let watch = Watch::start(&directories, &[&chain.conductor.pid().to_string()]);
    watch.line();
    chain.editor.close();
    assert_eq!(agent.next_line(), None);
    agent.exit(0);
    watch.assert_ends();
    let missing = directories.status(&["--watch", "1"]);
    assert_eq!(missing.status.code(), Some(1), "{missing:?}");
    let stderr = String::from_utf8_lossy(&missing.stderr);
    assert!(stderr.contains("(an interval is written as --watch=SECONDS)"), "{stderr}");
}

#[test]
fn a_watch_ends_when_its_reader_closes_the_pipe() {
    let directories = TestDirectories::new("watch-closed");
    let mut command = directories.command(&["status", "--watch=0.1"]);
    let mut child = command.stdout(Stdio::piped()).spawn().expect("it starts");
    let mut first = String::new();
    let mut reader = BufReader::new(child.stdout.take().expect("a pipe"));
    reader.read_line(&mut first).expect("a line");
    drop(reader);
    // Nothing has changed since, so nothing is written.
    let status = wait_until("it ends", || child.try_wait().expect("wait"));
    assert!(status.success(), "{status}");
}

fn on_a_terminal(directories: &TestDirectories) -> Terminal {
    let mut command = directories.command(&["status", "--watch=0.1"]);
    let mut terminal = Terminal::start(&mut command, None);
    terminal.wait_for("\x1b[?1049h");
    terminal.wait_for(NOTHING);
    wait_until("keys are not echoed", || (!terminal.echoes()).then_some(()));
    terminal
}

#[test]
fn on_a_terminal_the_table_is_refreshed_until_the_user_quits() {
    let directories = TestDirectories::new("watch-terminal");
    let mut terminal = on_a_terminal(&directories);
    let (chain, _agent) = start_agent(directories.new_setup());
    terminal.wait_for(&format!("{}  agent  up ", chain.conductor.pid()));
    terminal.wait_for("q quits");
    // A narrow terminal gets shorter lines and no line break.
    terminal.resize(6, 20);
    let cut = format!("\x1b[1;1H{}", chain.conductor.pid());
    terminal.wait_for(&cut);
    wait_until("the text fits", || {
        let frame = terminal.wait_for("\x1b[6;1H");
        let rows = frame.split("\x1b[").filter_map(|row| row.split_once('H')).map(|(_, row)| row);
        rows.clone().all(|row| row.chars().count() <= 20).then_some(())
    });
    terminal.press("x");
    terminal.press("q");
    assert_eq!(terminal.wait().code(), Some(0));
    terminal.wait_for("\x1b[?1049l");
    assert!(terminal.echoes());
}

#[test]
fn the_terminal_is_restored_after_an_interrupt_and_a_signal() {
    let directories = TestDirectories::new("watch-restored");
    for end in [None, Some(libc::SIGTERM), Some(libc::SIGHUP)] {
        let mut terminal = on_a_terminal(&directories);
        match end {
            None => terminal.press("\x03"),
            Some(kind) => signal(terminal.pid(), kind),
        }
        assert_eq!(terminal.wait().code(), Some(0));
        terminal.wait_for("\x1b[?1049l");
        assert!(terminal.echoes());
    }
}

#[test]
fn an_unresponsive_conductor_is_named_while_the_user_waits() {
    let directories = TestDirectories::new("watch-stopped");
    let mut chain = directories.new_setup().run_named(&["agent"]);
    chain.editor.send(INITIALIZE);
    chain.wait_for_component("agent");
    let pid = chain.conductor.pid();
    signal(pid, libc::SIGSTOP);
    let mut terminal = Terminal::start(&mut directories.command(&["status"]), None);
    terminal.wait_for(&format!("waiting for conductor {pid} to answer… "));
    // The line is removed before the error.
    terminal.wait_for(&format!("\r\x1b[Kconductor: conductor {pid} does not answer"));
    terminal.wait();
    signal(pid, libc::SIGCONT);
}
