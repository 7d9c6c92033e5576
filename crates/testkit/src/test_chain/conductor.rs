//! The process of the conductor, and what it writes on standard error.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStderr, ExitStatus};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use super::{command, memory, parent, wait_until, wait_until_described};

/// The conductor's process.
#[derive(Debug)]
pub struct Conductor {
    child: Child,
    /// What it has written on stderr.
    written: Arc<Mutex<Vec<u8>>>,
    stderr_reader: Option<JoinHandle<()>>,
}

impl Conductor {
    /// The process, and its stderr if the test reads it.
    pub(super) fn new(child: Child, stderr: Option<ChildStderr>) -> Conductor {
        let written = Arc::new(Mutex::new(Vec::new()));
        let stderr_reader = stderr.map(|stderr| {
            let written = written.clone();
            std::thread::spawn(move || read_stderr(stderr, &written))
        });
        Conductor { child, written, stderr_reader }
    }

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// All that it has written on stderr, for assertions. Waits until it has exited, so the test must end it before.
    pub fn whole_stderr(&mut self) -> String {
        self.wait();
        self.stderr_so_far()
    }

    /// Waits until it has written this text on stderr. Returns what it has written until then.
    pub fn wait_for_stderr(&self, text: &str) -> String {
        self.wait_for_stderr_where(&format!("{text:?}"), |written| written.contains(text))
    }

    /// Waits until a condition on what it has written on stderr holds. Returns what it has written until then.
    pub fn wait_for_stderr_where(&self, what: &str, holds: impl Fn(&str) -> bool) -> String {
        let look = || Some(self.stderr_so_far()).filter(|written| holds(written));
        let describe =
            || format!("the conductor writes {what}, but has written:\n{}\n", self.stderr_so_far());
        wait_until_described(look, describe)
    }

    /// What it has written on stderr so far. A line may still be on its way, so this is for the messages of failed
    /// assertions and for conditions of waits. `cargo xtask tidy` refuses it in assertions.
    pub fn stderr_so_far(&self) -> String {
        String::from_utf8_lossy(&self.written.lock().expect("no panic")).into_owned()
    }

    /// Sends it a signal.
    pub fn signal(&self, signal: i32) {
        // SAFETY: sends a signal to a child that is not reaped yet.
        unsafe { libc::kill(self.child.id() as i32, signal) };
    }

    /// Waits until it has exited and its stderr has been read to the end.
    pub fn wait(&mut self) -> ExitStatus {
        let status = wait_until("the conductor exits", || self.child.try_wait().expect("wait"));
        if let Some(reader) = self.stderr_reader.take() {
            let _ = reader.join();
        }
        status
    }

    /// Waits until it has exited. Returns the status as a shell shows it: 128 and the signal, if one killed it.
    pub fn status(&mut self) -> i32 {
        let status = self.wait();
        status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
    }

    /// Its resident memory now and its peak, in KiB.
    pub fn memory(&self) -> (u64, u64) {
        memory(self.pid())
    }

    /// The process id of the component whose command line, without the directory of the program, starts with this
    /// text.
    pub fn component_pid(&self, words: &str) -> u32 {
        wait_until(&format!("{words} runs"), || {
            let processes = std::fs::read_dir("/proc").ok()?;
            let mut pids =
                processes.flatten().filter_map(|it| it.file_name().to_str()?.parse().ok());
            pids.find(|&pid| parent(pid) == Some(self.pid()) && command(pid).starts_with(words))
        })
    }
}

impl Drop for Conductor {
    fn drop(&mut self) {
        // Also when the test has failed. The conductor's components exit with it, which other tests check.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn read_stderr(stderr: ChildStderr, written: &Mutex<Vec<u8>>) {
    let mut stderr = BufReader::new(stderr);
    let mut line = Vec::new();
    while matches!(stderr.read_until(b'\n', &mut line), Ok(1..)) {
        written.lock().expect("no panic").extend_from_slice(&line);
        line.clear();
    }
}
