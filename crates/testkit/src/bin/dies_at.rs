//! Runs a component and kills it at a given line: `dies_at MARKER LINE PROGRAM [ARGUMENT]…`.
//!
//! It passes standard input and output on, line by line, and counts the lines of both directions, from the first
//! `session/new` on: the length of the handshake depends on the conductor. Before it would pass the line with the number
//! LINE, it creates the file MARKER, kills the program, and exits. If MARKER exists, it lives on: only the first process
//! dies.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

fn main() -> io::Result<()> {
    let mut arguments = std::env::args_os().skip(1);
    let marker = PathBuf::from(arguments.next().expect("MARKER"));
    let line: u32 =
        arguments.next().and_then(|it| it.into_string().ok()?.parse().ok()).expect("LINE");
    let last = if marker.exists() { u32::MAX } else { line };
    let mut child = Command::new(arguments.next().expect("PROGRAM"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let (stdin, stdout) = (child.stdin.take(), child.stdout.take());
    let child = Arc::new(Mutex::new(child));
    let (count, dying) = (Arc::new(AtomicU32::new(0)), child.clone());
    let die = move || {
        // The other direction waits for the lock, so it passes nothing more.
        let mut child = dying.lock().expect("nobody panics");
        let _ = std::fs::write(&marker, "");
        let _ = child.kill();
        let _ = child.wait();
        std::process::exit(9);
    };
    let counter = count.clone();
    let input = {
        let die = die.clone();
        std::thread::spawn(move || {
            pass(io::stdin().lock(), stdin.expect("piped"), &counter, last, die)
        })
    };
    let passed = pass(stdout.expect("piped"), io::stdout(), &count, last, die);
    // The program has ended, or the conductor does not read any more.
    let _ = child.lock().expect("nobody panics").wait();
    if input.is_finished() {
        let _ = input.join();
    }
    passed
}

/// Passes lines on until the reader ends.
fn pass(
    reader: impl Read,
    mut writer: impl Write,
    count: &AtomicU32,
    last: u32,
    die: impl Fn(),
) -> io::Result<()> {
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        let is_counted = count.load(Ordering::SeqCst) > 0 || has_session_new(&line);
        if is_counted && count.fetch_add(1, Ordering::SeqCst) + 1 >= last {
            die();
        }
        writer.write_all(&line)?;
        writer.flush()?;
        line.clear();
    }
    Ok(())
}

fn has_session_new(line: &[u8]) -> bool {
    String::from_utf8_lossy(line).contains("session/new")
}
