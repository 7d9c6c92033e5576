//! One run of an editor and all processes that it starts.

use std::fs::{self, File};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::PEERS;

/// A run takes one or two seconds. A machine that is busy with other tests gets more.
const RUN_LIMIT: Duration = Duration::from_secs(60);
/// How long the other processes may outlive the editor.
const LEAVE_LIMIT: Duration = Duration::from_secs(60);

/// An editor with all processes that it starts, in a session of their own. Conductors put their components
/// into process groups, so only the session shows which processes belong to the run.
pub struct Run {
    editor: Child,
    output: String,
}

impl Run {
    pub fn start(editor: &str, command: &str) -> Self {
        Run::of(PEERS.command(editor), command)
    }

    /// Starts an editor that has options.
    pub fn of(editor: &str, command: &str) -> Self {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let number = RUNS.fetch_add(1, Ordering::Relaxed);
        let output =
            format!("{}/interop-{}-{number}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
        // Files instead of pipes: a process that outlives the editor would keep a pipe open.
        let file =
            |end| File::create(format!("{output}.{end}")).expect("cargo's directory is writable");
        let editor = Command::new("sh")
            .args(["-c", &format!("exec setsid {editor} -- {command}")])
            // Each run has its own cache, so that no run depends on what another has remembered.
            .env("XDG_CACHE_HOME", format!("{output}.cache"))
            .stdin(Stdio::null())
            .stdout(file("out"))
            .stderr(file("err"))
            .spawn()
            .expect("sh starts");
        Self { editor, output }
    }

    /// What the editor printed, after it and all other processes have ended.
    pub fn summary(mut self) -> Value {
        let complaint = match within(RUN_LIMIT, || self.editor.try_wait().expect("it is our child"))
        {
            None => format!("no end after {RUN_LIMIT:?}: {:?}", self.members()),
            Some(status) if !status.success() => format!("the editor ended with {status}"),
            Some(_)
                if within(LEAVE_LIMIT, || self.members().is_empty().then_some(())).is_none() =>
            {
                format!("left behind: {:?}", self.members())
            }
            Some(_) => {
                return serde_json::from_str(&self.read("out")).expect("the editor prints JSON");
            }
        };
        panic!("{complaint}\nstdout: {}\nstderr: {}", self.read("out"), self.read("err"));
    }

    fn read(&self, end: &str) -> String {
        fs::read_to_string(format!("{}.{end}", self.output)).expect("made at the start")
    }

    /// The processes of the run that are alive: process id and command line.
    fn members(&self) -> Vec<(String, String)> {
        let session = self.editor.id().to_string();
        let processes = fs::read_dir("/proc").expect("these tests are for Linux");
        let mut members = Vec::new();
        for process in processes.flatten() {
            // PID (NAME) STATE PARENT GROUP SESSION …; the name may contain anything.
            let stat = fs::read_to_string(process.path().join("stat")).unwrap_or_default();
            let fields: Vec<&str> =
                stat.rsplit_once(')').map_or(Vec::new(), |(_, it)| it.split_whitespace().collect());
            if fields.get(3) == Some(&session.as_str()) && fields[0] != "Z" {
                let words = fs::read_to_string(process.path().join("cmdline")).unwrap_or_default();
                members.push((
                    process.file_name().to_string_lossy().into_owned(),
                    words.replace('\0', " "),
                ));
            }
        }
        members
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let members = self.members();
        if !members.is_empty() {
            let _ = Command::new("kill").arg("-9").args(members.iter().map(|(id, _)| id)).status();
        }
        let _ = self.editor.wait();
        for end in ["out", "err"] {
            let _ = fs::remove_file(format!("{}.{end}", self.output));
        }
        let _ = fs::remove_dir_all(format!("{}.cache", self.output));
    }
}

/// Polls until there is a value: other processes write the files.
fn within<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + limit;
    loop {
        match look() {
            // Timing: what other processes do is not an event.
            None if Instant::now() < end => sleep(Duration::from_millis(20)),
            seen => return seen,
        }
    }
}
