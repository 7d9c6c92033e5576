//! The audit log: the chain, its verification, crashes, a full disk, and hostile changes.

#![cfg(unix)]

mod crashes;
mod records;
mod rotation;
mod tampering;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use components::audit::{
    Audit, AuditOptions, By, Decision, Hasher, Record, Report, verify as verify_log,
};
use serde_json::{Value, json};

/// A new folder, which is removed at the end of the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("audit-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir(&folder).expect("a new folder");
        Folder(folder)
    }

    fn log(&self) -> PathBuf {
        self.0.join("audit.jsonl")
    }

    fn options(&self) -> AuditOptions {
        AuditOptions::new(self.log())
    }

    fn key(&self, name: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, format!("a key for the tests, {name}\n")).expect("written");
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))
            .expect("ours");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn denied(command: &str) -> Record {
    let record = Record::decision("permissions", Decision::Deny, By::Rule);
    record.session("s1").at("session/request_permission").what(json!({ "command": command }))
}

fn allowed(command: &str) -> Record {
    Record { decision: Some(Decision::Allow), ..denied(command) }
}

/// Writes a log with some records in one run.
fn write(options: &AuditOptions, commands: &[&str]) {
    let audit = Audit::open(options).expect("opened");
    for command in commands {
        audit.record(allowed(command)).expect("written");
    }
}

fn lines(path: &Path) -> Vec<String> {
    fs::read_to_string(path).expect("a log").lines().map(str::to_owned).collect()
}

fn records(path: &Path) -> Vec<Value> {
    lines(path).iter().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn verify(path: &Path, keys: &[Hasher]) -> Report {
    let mut reports = verify_log(path, keys, None).expect("a log");
    assert_eq!(reports.len(), 1, "{reports:?}");
    reports.remove(0)
}

/// Verifies a log that must be good.
fn verify_good(path: &Path) -> Report {
    let report = verify(path, &[]);
    assert_eq!(report.problem, None);
    report
}

/// Verifies a log that must be bad. Returns the line and the reason.
fn verify_bad(path: &Path) -> (Option<u64>, String) {
    let problem = verify(path, &[]).problem.expect("a problem");
    (problem.line, problem.why)
}
