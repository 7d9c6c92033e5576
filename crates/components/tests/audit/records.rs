//! What a record contains, and how it is written.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use components::audit::{
    Audit, AuditOptions, Event, Filter, OnFailure, Record, RuleRef, content, parse_time_at, sha256,
    show,
};
use serde_json::{Value, json};

use super::{Folder, allowed, denied, lines, records, verify_good, write};

#[test]
fn a_line_ends_with_the_hash_of_the_bytes_before_it() {
    let folder = Folder::new();
    let audit = Audit::open(&folder.options()).expect("opened");
    let rule = RuleRef {
        name: Some("no force push".to_owned()),
        file: Some("rules.toml".to_owned()),
        line: Some(12),
        hash: Some(sha256(b"rules")),
    };
    let mut record =
        denied("git push -f").agent("goose 1.52.0").call("call_10").tool("Bash").rule(rule);
    record.option = Some("reject_once".to_owned());
    record = record.mode("enforce");
    audit.record(record).expect("written");
    let all = lines(&folder.log());
    let (hashed, hash) = all[1].split_once(",\"hash\":\"").expect("a hash");
    assert_eq!(hash, format!("{}\"}}", sha256(hashed.as_bytes())));
    let records = records(&folder.log());
    assert_eq!(records[0]["event"], "open");
    assert_eq!((&records[0]["seq"], &records[0]["prev"]), (&json!(1), &json!("0".repeat(64))));
    let mut record = records[1].clone();
    assert_eq!(record["prev"], records[0]["hash"]);
    for member in ["time", "run", "prev", "hash"] {
        assert!(record[member].as_str().is_some_and(|it| it.len() >= 16), "{member}");
        record.as_object_mut().expect("an object").remove(member);
    }
    let expected = json!({
        "v": 1, "seq": 2, "event": "decision", "component": "permissions", "session": "s1", "agent": "goose 1.52.0",
        "at": "session/request_permission", "call": "call_10", "tool": "Bash", "what": { "command": "git push -f" },
        "rule": { "name": "no force push", "file": "rules.toml", "line": 12, "sha256": sha256(b"rules") },
        "decision": "deny", "by": "rule", "asked": false, "waited_ms": 0, "option": "reject_once", "mode": "enforce",
    });
    assert_eq!(record, expected);
}

#[test]
fn the_first_and_the_last_record_of_a_run_are_open_and_close() {
    let folder = Folder::new();
    write(&folder.options(), &["ls"]);
    write(&folder.options(), &["ls"]);
    let events: Vec<String> = records(&folder.log())
        .iter()
        .map(|it| it["event"].as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(events, ["open", "decision", "close", "open", "decision", "close"]);
    let report = verify_good(&folder.log());
    assert_eq!((report.first, report.records()), (Some(1), 6));
    let head: Value =
        serde_json::from_slice(&fs::read(folder.0.join("audit.head")).expect("a head"))
            .expect("JSON");
    assert_eq!((&head["seq"], &head["file"]), (&json!(6), &json!("audit.jsonl")));
    assert_eq!(head["hash"], records(&folder.log())[5]["hash"]);
}

#[test]
fn long_texts_are_cut_and_their_length_is_kept() {
    let folder = Folder::new();
    let audit = Audit::open(&folder.options()).expect("opened");
    let long = "é".repeat(50_000);
    let many: Vec<Value> = (0..5000).map(Value::from).collect();
    let mut deep = json!("deep");
    for _ in 0..100 {
        deep = json!([deep]);
    }
    let record = allowed(&long).session(&long).detail("many", many).detail("deep", deep);
    audit.record(record).expect("written");
    let mut wide = allowed("wide");
    wide.what = (0..200).map(|it| (it.to_string(), Value::from("x".repeat(4000)))).collect();
    audit.record(wide).expect("written");
    assert!(lines(&folder.log()).iter().all(|line| line.len() < 70_000));
    let record = &records(&folder.log())[1];
    let command = record["what"]["command"].as_str().expect("a text");
    assert!(command.ends_with("… [100000 bytes]") && command.len() < 4200, "{command}");
    assert!(record["session"].as_str().is_some_and(|it| it.len() < 4200));
    assert_eq!(record["details"]["many"].as_array().map(Vec::len), Some(257));
    assert!(record["details"]["deep"].to_string().contains("sha256"));
    assert_eq!(
        records(&folder.log())[2]["what"]["length"].as_u64().map(|it| it > 800_000),
        Some(true)
    );
    drop(audit);
    verify_good(&folder.log());
}

#[test]
fn a_content_is_recorded_as_its_length_and_hash() {
    let expected = json!({ "length": 5, "sha256": "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824" });
    assert_eq!(content("hello"), expected);
}

#[test]
fn secrets_do_not_reach_the_log() {
    let folder = Folder::new();
    let token = format!("ghp_{}", "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8");
    let record = allowed(&format!("curl -H 'Authorization: Bearer {token}' https://example.com"));
    // A secret at the border of a long text is found before the text is cut.
    let border = format!("{} {token}", "x".repeat(4096 - 20));
    let record = record.detail("text", border).detail("list", vec![token.clone()]);
    let audit = Audit::open(&folder.options()).expect("opened");
    audit.record(record).expect("written");
    let text = fs::read_to_string(folder.log()).expect("a log");
    assert!(!text.contains(&token) && !text.contains("ghp_a1B2"), "{text}");
    assert_eq!(text.matches("[redacted:github]").count(), 3, "{text}");
}

#[test]
fn what_stands_behind_a_name_of_a_secret_does_not_reach_the_log() {
    let folder = Folder::new();
    write(
        &folder.options(),
        &[
            "curl -H 'Authorization: Bearer abcdefghijklmnop123' https://user:hunter22@example.com/",
            "export DB_PASSWORD=hN8s2Kq0vB7xLw3Z && curl -u me:tr0ub4dor3 https://example.com",
        ],
    );
    let text = fs::read_to_string(folder.log()).expect("the log");
    for secret in ["abcdefghijklmnop123", "hunter22", "hN8s2Kq0vB7xLw3Z", "tr0ub4dor3"] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    assert!(text.contains("https://user:[redacted:url-password]@example.com/"), "{text}");
}

#[test]
fn characters_that_a_terminal_interprets_are_escaped() {
    let folder = Folder::new();
    write(&folder.options(), &["echo \u{1b}[2J\u{202e}\u{9b}x\r\n"]);
    let text = fs::read_to_string(folder.log()).expect("a log");
    assert!(
        text.chars().all(|it| it == '\n' || (!it.is_control() && it != '\u{202e}')),
        "{text:?}"
    );
    assert_eq!(records(&folder.log())[1]["what"]["command"], "echo \u{1b}[2J\u{202e}\u{9b}x\r\n");
    verify_good(&folder.log());
}

#[test]
fn only_the_user_can_read_the_log_and_links_are_not_followed() {
    let folder = Folder::new();
    let options = AuditOptions::new(folder.0.join("new/deep/audit.jsonl"));
    write(&options, &["ls"]);
    let mode = |path: &str| {
        folder.0.join(path).metadata().expect("it exists").permissions().mode() & 0o777
    };
    assert_eq!((mode("new"), mode("new/deep")), (0o700, 0o700));
    for file in ["audit.jsonl", "audit.head", "audit.lock"] {
        assert_eq!(mode(&format!("new/deep/{file}")), 0o600, "{file}");
    }
    let target = folder.0.join("target");
    fs::write(&target, "mine").expect("written");
    symlink(&target, folder.log()).expect("a link");
    let why = Audit::open(&folder.options()).expect_err("a link");
    assert!(why.contains("symbolic link") && why.contains("audit.jsonl"), "{why}");
    assert!(Audit::check(&folder.options()).is_err());
    fs::remove_file(folder.log()).expect("ours");
    // Neither the lock nor the head can lead to another file.
    let lock = folder.0.join("audit.lock");
    fs::remove_file(&lock).expect("ours");
    symlink(&target, &lock).expect("a link");
    assert!(Audit::open(&folder.options()).expect_err("a link").contains("symbolic link"));
    fs::remove_file(&lock).expect("ours");
    for name in ["audit.head", "audit.head.new"] {
        symlink(&target, folder.0.join(name)).expect("a link");
    }
    write(&folder.options(), &["ls"]);
    assert_eq!(fs::read(&target).expect("ours"), b"mine");
    for device in ["/dev/null", "/dev/zero"] {
        assert!(Audit::open(&AuditOptions::new(device)).is_err(), "{device}");
    }
}

#[test]
fn a_key_that_others_can_read_or_that_is_short_is_refused() {
    let folder = Folder::new();
    let key = folder.key("key");
    let options = AuditOptions { key_file: Some(key.clone()), ..folder.options() };
    Audit::check(&options).expect("a good key");
    fs::set_permissions(&key, PermissionsExt::from_mode(0o644)).expect("ours");
    assert!(Audit::check(&options).expect_err("readable").contains("chmod 600"));
    fs::set_permissions(&key, PermissionsExt::from_mode(0o600)).expect("ours");
    fs::write(&key, "short\n").expect("written");
    assert!(Audit::check(&options).expect_err("short").contains("at least 16 bytes"));
    fs::remove_file(&key).expect("ours");
    assert!(Audit::check(&options).expect_err("missing").contains("key file"));
}

#[test]
fn components_of_one_process_share_a_log() {
    let folder = Folder::new();
    let first = Audit::open(&folder.options()).expect("opened");
    let options = AuditOptions { on_failure: Some(OnFailure::Warn), ..folder.options() };
    let second = Audit::open(&options).expect("shared");
    assert_eq!(first.path(), second.path());
    first.record(allowed("first")).expect("written");
    second.record(allowed("second")).expect("written");
    drop(first);
    second.record(allowed("third")).expect("written");
    let other = AuditOptions { max_bytes: 1, ..folder.options() };
    assert!(Audit::open(&other).expect_err("other options").contains("other options"));
    drop(second);
    let report = verify_good(&folder.log());
    assert_eq!(report.records(), 5);
}

#[test]
fn a_log_that_is_opened_while_its_last_owner_closes_it_is_the_same_log() {
    let folder = Folder::new();
    let options = folder.options();
    for _ in 0..50 {
        let audit = Audit::open(&options).expect("opened");
        let closing = std::thread::spawn(move || drop(audit));
        let next = Audit::open(&options).expect("opened");
        assert_eq!(next.path(), folder.log());
        closing.join().expect("closed");
    }
    verify_good(&folder.log());
}

#[test]
fn ten_thousand_records_are_written_and_verified() {
    let folder = Folder::new();
    let audit = Audit::open(&folder.options()).expect("opened");
    for number in 0..10_000 {
        let session = format!("session-{number}");
        audit.record(allowed("cargo test --workspace").session(session)).expect("written");
    }
    drop(audit);
    let report = verify_good(&folder.log());
    assert_eq!(report.records(), 10_002);
}

#[test]
fn the_head_command_gets_the_head_at_the_end() {
    let folder = Folder::new();
    let copy = folder.0.join("copy");
    let command = format!("cat > {}", copy.display());
    write(&AuditOptions { head_command: Some(command), ..folder.options() }, &["ls"]);
    let head = fs::read_to_string(&copy).expect("a copy");
    assert_eq!(head, fs::read_to_string(folder.0.join("audit.head")).expect("a head"));
    // A command that fails, or does not read, changes nothing.
    let options = AuditOptions { head_command: Some("exit 3".to_owned()), ..folder.options() };
    write(&options, &["ls"]);
    verify_good(&folder.log());
}

#[test]
fn records_are_found_by_session_decision_rule_event_and_time() {
    let folder = Folder::new();
    let audit = Audit::open(&folder.options()).expect("opened");
    let rule = RuleRef {
        name: Some("no push".to_owned()),
        file: Some("r.toml".to_owned()),
        line: Some(7),
        hash: None,
    };
    audit.record(denied("git push").session("abc-1").rule(rule)).expect("written");
    audit.record(allowed("ls").session("abc-2")).expect("written");
    audit.record(Record::new(Event::Redacted, "filter").session("xyz")).expect("written");
    let found = |filter: Filter| {
        let found = show(&folder.log(), &filter, 100).expect("a log");
        found.records.iter().map(|it| it["seq"].as_u64().unwrap_or_default()).collect::<Vec<u64>>()
    };
    let filter = Filter::default;
    assert_eq!(found(filter()), [1, 2, 3, 4]);
    assert_eq!(found(Filter { session: Some("abc".into()), ..filter() }), [2, 3]);
    assert_eq!(found(Filter { decision: Some("deny".into()), ..filter() }), [2]);
    assert_eq!(found(Filter { event: Some("redacted".into()), ..filter() }), [4]);
    for rule in ["no push", "r.toml:7"] {
        assert_eq!(found(Filter { rule: Some(rule.into()), ..filter() }), [2]);
    }
    let now = jiff::Timestamp::now();
    let time = |text: &str| Some(parse_time_at(text, now).expect(text));
    assert_eq!(found(Filter { since: time("2h"), ..filter() }), [1, 2, 3, 4]);
    assert!(found(Filter { until: time("2h"), ..filter() }).is_empty());
    assert!(found(Filter { since: time("2999-01-01"), ..filter() }).is_empty());
    assert!(parse_time_at("soon", now).expect_err("no time").contains("2026-11-16"));
    let newest = show(&folder.log(), &filter(), 2).expect("a log");
    assert_eq!((newest.records.len(), newest.left_out), (2, 2));
    assert_eq!(newest.records[1]["seq"], 4);
}
