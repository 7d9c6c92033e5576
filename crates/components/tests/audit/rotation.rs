//! Rotation: full and old files, and a crash between its steps.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use components::audit::{Audit, AuditOptions, Filter, show};

use super::{Folder, allowed, records, verify, verify_good, write};

fn small(folder: &Folder) -> AuditOptions {
    AuditOptions { max_bytes: 1500, ..folder.options() }
}

#[test]
fn a_full_file_is_rotated_and_the_chain_continues() {
    let folder = Folder::new();
    write(&small(&folder), &["ls"; 20]);
    let report = verify_good(&folder.log());
    assert!(report.files.len() > 4, "{report:?}");
    assert_eq!(report.files.last().expect("files").0, folder.log());
    assert_eq!(report.files[0].0, folder.0.join("audit-000001.jsonl"));
    let first = records(&report.files[0].0);
    let second = records(&report.files[1].0);
    let last = first.last().expect("records");
    assert_eq!(last["event"], "rotated");
    assert_eq!((&second[0]["event"], &second[0]["prev"]), (&"open".into(), &last["hash"]));
    assert_eq!(second[0]["details"]["after"], "audit-000001.jsonl");
    // Another run continues.
    write(&small(&folder), &["ls"; 5]);
    assert!(verify_good(&folder.log()).records() > report.records());
}

#[test]
fn a_file_is_rotated_after_a_day() {
    let folder = Folder::new();
    let seconds = Arc::new(AtomicU64::new(1_800_000_000));
    let shared = seconds.clone();
    let clock = Arc::new(move || -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(shared.load(Ordering::Relaxed))
    });
    let audit = Audit::open_with_clock(&folder.options(), clock.clone()).expect("opened");
    for _ in 0..10 {
        audit.record(allowed("ls")).expect("written");
        seconds.fetch_add(6 * 3600, Ordering::Relaxed);
    }
    drop(audit);
    assert_eq!(verify_good(&folder.log()).files.len(), 3);
    // A new run begins with a new file if the file is old, and a clock that goes back rotates nothing.
    seconds.fetch_add(2 * 86_400, Ordering::Relaxed);
    drop(Audit::open_with_clock(&folder.options(), clock.clone()).expect("opened"));
    assert_eq!(verify_good(&folder.log()).files.len(), 4);
    seconds.fetch_sub(5 * 86_400, Ordering::Relaxed);
    let audit = Audit::open_with_clock(&folder.options(), clock).expect("opened");
    audit.record(allowed("ls")).expect("written");
    drop(audit);
    let report = verify_good(&folder.log());
    assert_eq!(report.files.len(), 4);
    let last = records(&folder.log());
    assert!(last[0]["time"].as_str().is_some_and(|it| it.ends_with(".000Z")), "{}", last[0]);
}

#[test]
fn a_crash_between_the_steps_of_a_rotation_is_continued() {
    let folder = Folder::new();
    write(&small(&folder), &["ls"; 8]);
    let files = verify_good(&folder.log()).files;
    let (last, _) = files[files.len() - 2].clone();
    let head = folder.0.join("audit.head");
    // Before the new file has a record: it is missing, or empty.
    for is_empty in [false, true] {
        fs::remove_file(folder.log()).expect("ours");
        fs::remove_file(&head).expect("ours");
        if is_empty {
            fs::write(folder.log(), "").expect("written");
        }
        verify_good(&folder.log());
        write(&folder.options(), &["later"]);
        verify_good(&folder.log());
    }
    // Before the full file has its new name.
    fs::remove_file(&head).expect("ours");
    fs::rename(&last, folder.log()).expect("renamed");
    write(&folder.options(), &["later"]);
    verify_good(&folder.log());
    assert!(last.exists());
}

#[test]
fn a_missing_or_exchanged_file_is_found() {
    let folder = Folder::new();
    write(&small(&folder), &["ls"; 20]);
    let files: Vec<_> =
        verify_good(&folder.log()).files.into_iter().map(|(path, _)| path).collect();
    let saved = folder.0.join("saved");
    fs::rename(&files[1], &saved).expect("renamed");
    let problem = verify(&folder.log(), &[]).problem.expect("a gap");
    assert_eq!((&problem.file, problem.line), (&files[2], Some(1)), "{}", problem.why);
    assert!(problem.why.contains("continues audit-000002.jsonl"), "{}", problem.why);
    fs::copy(&files[2], &files[1]).expect("copied");
    let problem = verify(&folder.log(), &[]).problem.expect("a wrong file");
    assert_eq!(problem.file, files[1]);
    fs::rename(&saved, &files[1]).expect("renamed");
    // Old files may be deleted: the report says so.
    fs::remove_file(&files[0]).expect("ours");
    let report = verify_good(&folder.log());
    assert!(report.first > Some(1));
    assert!(report.notes[0].contains("up to audit-000001.jsonl are missing"), "{:?}", report.notes);
}

#[test]
fn a_log_can_be_verified_while_it_is_written_and_rotated() {
    let folder = Folder::new();
    let audit =
        Audit::open(&AuditOptions { max_bytes: 20_000, ..folder.options() }).expect("opened");
    let writer = std::thread::spawn(move || {
        for number in 0..1500 {
            audit.record(allowed(&number.to_string())).expect("written");
        }
    });
    let mut count = 0;
    while !writer.is_finished() {
        let report = verify_good(&folder.log());
        assert!(report.records() >= count);
        count = report.records();
        let found = show(&folder.log(), &Filter::default(), 100_000).expect("a log");
        assert!(found.records.len() as u64 >= count);
    }
    writer.join().expect("no panic");
    assert!(verify_good(&folder.log()).records() >= 1502);
}
