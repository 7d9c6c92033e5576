//! One run of an editor and all that it starts.

use std::fs::{self, File};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::PEERS;

/// A story takes a second or two; a machine busy with other tests gets some more.
const RUN_LIMIT: Duration = Duration::from_secs(60);
/// How long after the editor everyone else may stay.
const LEAVE_LIMIT: Duration = Duration::from_secs(10);

/// An editor with all that it starts, in a session of their own: conductors put their components into
/// process groups, so only the session still says who belongs to the run.
pub struct Run {
    editor: Child,
    output: String,
}

impl Run {
    pub fn start(editor: &str, command: &str) -> Self {
        Run::of(PEERS.command(editor), command)
    }

    /// The same for an editor with options.
    pub fn of(editor: &str, command: &str) -> Self {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let number = RUNS.fetch_add(1, Ordering::Relaxed);
        let output =
            format!("{}/interop-{}-{number}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
        // Files and not pipes: a process that outlives the editor would keep a pipe open, and us waiting.
        let file =
            |end| File::create(format!("{output}.{end}")).expect("cargo's directory is writable");
        let editor = Command::new("sh")
            .args(["-c", &format!("exec setsid {editor} -- {command}")])
            // What was found out about a component in one run must not help another.
            .env("XDG_CACHE_HOME", format!("{output}.cache"))
            .stdin(Stdio::null())
            .stdout(file("out"))
            .stderr(file("err"))
            .spawn()
            .expect("sh starts");
        Self { editor, output }
    }

    /// What the editor printed, once it and everyone else has left.
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

    /// Who is still there: process id and command line.
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

/// Asks again and again: other processes write the files that are waited for.
fn within<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + limit;
    loop {
        match look() {
            None if Instant::now() < end => sleep(Duration::from_millis(20)),
            seen => return seen,
        }
    }
}
