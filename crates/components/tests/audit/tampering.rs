//! Changes that the verification finds, and those that it cannot find.

use std::fs;

use components::audit::{Audit, AuditOptions, Hasher, Head, read_key, verify as verify_log};

use super::{Folder, denied, lines, verify, verify_bad, verify_good, write};

fn example(folder: &Folder) -> Vec<String> {
    write(&folder.options(), &["one", "two", "three", "four"]);
    lines(&folder.log())
}

fn put(folder: &Folder, lines: &[String]) {
    fs::write(folder.log(), lines.join("\n") + "\n").expect("written");
}

#[test]
fn each_changed_byte_is_found_in_its_line() {
    let folder = Folder::new();
    let lines = example(&folder);
    verify_good(&folder.log());
    for at in 0..lines[2].len() {
        let mut changed = lines.clone();
        let mut bytes = changed[2].clone().into_bytes();
        bytes[at] = if bytes[at] == b'x' { b'y' } else { b'x' };
        changed[2] = String::from_utf8(bytes).expect("ASCII");
        put(&folder, &changed);
        let (line, why) = verify_bad(&folder.log());
        assert_eq!(line, Some(3), "byte {at}: {why}");
    }
}

#[test]
fn removed_swapped_repeated_and_added_lines_are_found() {
    let folder = Folder::new();
    let lines = example(&folder);
    for index in 0..lines.len() - 1 {
        let mut removed = lines.clone();
        removed.remove(index);
        put(&folder, &removed);
        let (line, why) = verify_bad(&folder.log());
        assert_eq!(line, Some(index as u64 + 1), "{why}");
        let mut swapped = lines.clone();
        swapped.swap(index, index + 1);
        put(&folder, &swapped);
        assert_eq!(verify_bad(&folder.log()).0, Some(index as u64 + 1));
        let mut repeated = lines.clone();
        repeated.insert(index, lines[index].clone());
        put(&folder, &repeated);
        assert_eq!(verify_bad(&folder.log()).0, Some(index as u64 + 2));
        for added in ["", "{}", "null", "[]", "\"x\"", "{\"v\":1}"] {
            let mut more = lines.clone();
            more.insert(index + 1, added.to_owned());
            put(&folder, &more);
            assert_eq!(verify_bad(&folder.log()).0, Some(index as u64 + 2), "{added:?}");
        }
    }
}

#[test]
fn a_line_that_was_hashed_anew_breaks_the_link_to_the_next_line() {
    let folder = Folder::new();
    let mut lines = example(&folder);
    let changed = lines[2].replace("\"two\"", "\"2\"");
    let (hashed, _) = changed.split_once(",\"hash\":\"").expect("a hash");
    let hash = components::audit::sha256(hashed.as_bytes());
    lines[2] = format!("{hashed},\"hash\":\"{hash}\"}}");
    put(&folder, &lines);
    let (line, why) = verify_bad(&folder.log());
    assert_eq!(line, Some(4));
    assert!(why.contains("does not follow"), "{why}");
}

#[test]
fn a_cut_end_differs_from_the_head() {
    let folder = Folder::new();
    let lines = example(&folder);
    for count in 1..lines.len() {
        put(&folder, &lines[..count]);
        let (line, why) = verify_bad(&folder.log());
        assert_eq!(line, None);
        assert!(why.contains(&format!("the last record is {count}")), "{why}");
    }
    fs::remove_file(folder.log()).expect("ours");
    assert!(verify_log(&folder.log(), &[], None).is_err());
    // A head that was changed as well is found by a copy of the head that was kept elsewhere.
    put(&folder, &lines[..3]);
    let head = fs::read_to_string(folder.0.join("audit.head")).expect("a head");
    let kept: Head = serde_json::from_str(&head).expect("a head");
    let third: serde_json::Value = serde_json::from_str(&lines[2]).expect("JSON");
    let forged = Head {
        seq: 3,
        hash: third["hash"].as_str().unwrap_or_default().to_owned(),
        ..kept.clone()
    };
    let forged = serde_json::to_string(&forged).expect("JSON");
    fs::write(folder.0.join("audit.head"), forged).expect("written");
    let report = verify_good(&folder.log());
    assert!(report.notes.iter().any(|note| note.contains("kept elsewhere")), "{report:?}");
    let problem = verify_log(&folder.log(), &[], Some(&kept)).expect("a log").remove(0).problem;
    assert!(problem.expect("cut").why.contains("kept elsewhere names record 6"));
    // Without a head, the report says what it cannot know.
    fs::remove_file(folder.0.join("audit.head")).expect("ours");
    let report = verify_good(&folder.log());
    assert!(report.notes.iter().any(|note| note.contains("there is no head file")), "{report:?}");
}

#[test]
fn a_run_that_finds_a_cut_end_records_it() {
    let folder = Folder::new();
    let lines = example(&folder);
    put(&folder, &lines[..2]);
    write(&folder.options(), &["later"]);
    let (line, why) = verify_bad(&folder.log());
    assert_eq!(line, Some(3));
    assert!(why.contains("the head named record 6"), "{why}");
}

#[test]
fn a_file_with_a_bad_end_is_kept_and_a_new_file_continues() {
    let folder = Folder::new();
    let mut lines = example(&folder);
    let last = lines.len() - 1;
    lines[last] = lines[last].replace("close", "cloze");
    put(&folder, &lines);
    write(&folder.options(), &["later"]);
    let aside = folder.0.join("audit-000001.jsonl");
    assert_eq!(super::lines(&aside), lines);
    let problem = verify(&folder.log(), &[]).problem.expect("changed");
    assert_eq!((problem.file, problem.line), (aside, Some(6)));
    // A file that is no log at all is kept as well.
    fs::write(folder.log(), "my shopping list\n").expect("written");
    write(&folder.options(), &["later"]);
    let kept = fs::read_to_string(folder.0.join("audit-000002.jsonl")).expect("kept");
    assert_eq!(kept, "my shopping list\n");
}

#[test]
fn a_log_with_a_key_needs_the_key() {
    let folder = Folder::new();
    let (key, other) = (folder.key("key"), folder.key("other"));
    let options = AuditOptions { key_file: Some(key.clone()), ..folder.options() };
    write(&options, &["one", "two"]);
    let hasher = |path| read_key(Some(path)).expect("a key");
    let good = verify(&folder.log(), &[hasher(&key)]);
    assert_eq!((good.problem, good.files.len()), (None, 1));
    let why = |keys: &[Hasher]| verify(&folder.log(), keys).problem.expect("a problem").why;
    assert!(why(&[]).contains("--key-file"));
    assert!(why(&[hasher(&other)]).contains("another key"));
    // A new chain with plain hashes in place of the log is found by everybody who names the key.
    let forged = Folder::new();
    write(&forged.options(), &["one"]);
    fs::copy(forged.log(), folder.log()).expect("copied");
    fs::copy(forged.0.join("audit.head"), folder.0.join("audit.head")).expect("copied");
    assert!(why(&[hasher(&key)]).contains("not made with a key"));
}

#[test]
fn a_new_key_begins_a_new_file() {
    let folder = Folder::new();
    let (key, other) = (folder.key("key"), folder.key("other"));
    let with =
        |key: &std::path::Path| AuditOptions { key_file: Some(key.into()), ..folder.options() };
    write(&folder.options(), &["plain"]);
    write(&with(&key), &["keyed"]);
    write(&with(&other), &["other"]);
    let hasher = |path| read_key(Some(path)).expect("a key");
    let report = verify(&folder.log(), &[hasher(&other), hasher(&key)]);
    assert_eq!((report.problem, report.files.len(), report.first), (None, 3, Some(1)));
    assert!(report.notes.iter().any(|note| note.contains("another key")), "{:?}", report.notes);
    let problem = verify(&folder.log(), &[hasher(&other)]).problem.expect("the old key is missing");
    assert_eq!(problem.file, folder.0.join("audit-000002.jsonl"));
}

#[test]
fn hostile_files_are_refused_without_a_panic() {
    let long = format!("{{\"x\":\"{}\"}}\n", "x".repeat(3 << 20));
    let deep = format!("{}\n", "[".repeat(100_000));
    for content in
        ["\0\0\0\n", &long, &deep, "{\"v\":1,\"seq\":18446744073709551615}\n", "\u{feff}{}\n"]
    {
        let folder = Folder::new();
        fs::write(folder.log(), content).expect("written");
        assert!(verify(&folder.log(), &[]).problem.is_some());
        let found = components::audit::show(&folder.log(), &Default::default(), 10).expect("read");
        assert_eq!(found.unreadable + found.records.len() as u64, 1);
        // A run keeps the file and begins a new one.
        let audit = Audit::open(&folder.options()).expect("opened");
        audit.record(denied("x")).expect("written");
    }
    let empty = Folder::new();
    fs::write(empty.log(), "").expect("written");
    assert_eq!(verify_good(&empty.log()).records(), 0);
}

#[test]
fn the_largest_number_of_a_record_or_head_does_not_overflow() {
    let largest = format!("\"seq\":{}", u64::MAX);
    let folder = Folder::new();
    let lines = example(&folder);
    let last = lines.last().expect("a record").replace("\"seq\":6", &largest);
    let (content, _) = last.rsplit_once(",\"hash\":\"").expect("a hash");
    let hash = components::audit::sha256(content.as_bytes());
    put(&folder, &[lines[0].clone(), format!("{content},\"hash\":\"{hash}\"}}")]);
    let (line, why) = verify_bad(&folder.log());
    assert_eq!((line, why.contains("too large")), (Some(2), true), "{why}");
    write(&folder.options(), &["five"]);

    let folder = Folder::new();
    example(&folder);
    let head = folder.0.join("audit.head");
    let text = fs::read_to_string(&head).expect("a head").replace("\"seq\":6", &largest);
    assert!(text.contains(&largest), "{text}");
    fs::write(&head, text).expect("written");
    fs::write(folder.log(), "not a record\n").expect("written");
    write(&folder.options(), &["five"]);
}
