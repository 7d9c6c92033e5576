//! `conductor audit`.

use std::fs;
use std::path::{Path, PathBuf};

use components::audit::{Audit, AuditOptions, By, Decision, Record, RuleRef};
use serde_json::{Value, json};
use testkit::test_chain::directory;

use super::{assert_mentions, conductor, printed};

/// A log with three decisions.
fn log(place: &Path) -> PathBuf {
    let file = place.join("audit.jsonl");
    let audit = Audit::open(&AuditOptions::new(&file)).expect("opened");
    let rule = RuleRef {
        name: Some("no push".into()),
        file: Some("rules.toml".into()),
        line: Some(3),
        hash: None,
    };
    let denied = Record::decision("permissions", Decision::Deny, By::Rule)
        .session("s1")
        .tool("Bash")
        .rule(rule);
    audit.record(denied.what(json!({ "command": "git push -f" }))).expect("written");
    let allowed =
        Record::decision("permissions", Decision::Allow, By::User).session("s2").tool("Bash");
    audit
        .record(allowed.what(json!({ "command": "ls \u{1b}]0;title\u{7}\u{202e}" })))
        .expect("written");
    file
}

#[test]
fn a_good_log_is_verified() {
    let place = directory("audit-verify");
    let file = log(&place);
    let text = printed(&["audit", "verify", file.to_str().expect("UTF-8")]);
    assert_mentions(
        &text,
        &["audit.jsonl: 4 records verified", "record 4 of 20", "note: the log has no key"],
    );
    let json = printed(&["audit", "verify", "--json", file.to_str().expect("UTF-8")]);
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((&json[0]["records"], &json[0]["problem"]), (&json!(4), &Value::Null));
    assert_eq!(json[0]["last"]["seq"], 4);
    // A head that was kept elsewhere, and a key that the log does not have.
    let head = place.join("audit.head");
    let kept =
        ["audit", "verify", file.to_str().expect("UTF-8"), "--head", head.to_str().expect("UTF-8")];
    assert!(printed(&kept).contains("verified"));
    let output =
        conductor(&["audit", "verify", file.to_str().expect("UTF-8"), "--key-file", "/nowhere"]);
    assert_eq!(output.status.code(), Some(1));
    assert_mentions(
        &String::from_utf8_lossy(&output.stderr),
        &["key file /nowhere", "[more: conductor errors"],
    );
    fs::remove_dir_all(place).expect("ours");
}

#[test]
fn the_first_bad_line_is_named() {
    let place = directory("audit-edit");
    let file = log(&place);
    let text = fs::read_to_string(&file).expect("a log");
    fs::write(&file, text.replace("git push -f", "git status")).expect("written");
    let output = conductor(&["audit", "verify", file.to_str().expect("UTF-8")]);
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_mentions(
        &stderr,
        &["audit.jsonl:2: the hash of record 2 is wrong", "conductor errors audit-invalid"],
    );
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(stdout.contains("1 record verified before the first problem"), "{stdout}");
    // The end is missing.
    let lines: Vec<&str> = text.lines().collect();
    fs::write(&file, lines[..2].join("\n") + "\n").expect("written");
    let output = conductor(&["audit", "verify", "--json", file.to_str().expect("UTF-8")]);
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let why = json[0]["problem"]["why"].as_str().unwrap_or_default();
    assert!(
        why.contains("the end of the log is missing") && json[0]["problem"]["line"].is_null(),
        "{json}"
    );
    let missing = conductor(&["audit", "verify", "/nowhere/audit.jsonl"]);
    assert_eq!(missing.status.code(), Some(1));
    assert_mentions(
        &String::from_utf8_lossy(&missing.stderr),
        &["there is no audit log /nowhere/audit.jsonl"],
    );
    fs::remove_dir_all(place).expect("ours");
}

#[test]
fn records_are_shown_as_a_table_or_as_json_without_control_characters() {
    let place = directory("audit-show");
    let file = log(&place);
    let show = |options: &[&str]| {
        printed(&[&["audit", "show", file.to_str().expect("UTF-8")], options].concat())
    };
    let all = show(&[]);
    assert_eq!(all.lines().count(), 5, "{all}");
    assert!(
        all.chars().all(|it| it == '\n' || !it.is_control()) && !all.contains('\u{202e}'),
        "{all:?}"
    );
    let denied = show(&["--decision", "deny"]);
    assert_mentions(&denied, &["no push (rules.toml:3)", "git push -f", "s1"]);
    assert_eq!(denied.lines().count(), 2, "{denied}");
    for (options, count) in [
        (&["--session", "s2"][..], 1),
        (&["--rule", "rules.toml:3"], 1),
        (&["--event", "open"], 1),
        (&["--since", "1h"], 4),
        (&["--until", "1h"], 0),
        (&["--since", "2026-01-01", "--until", "2999-01-01T00:00:00Z"], 4),
    ] {
        let json = show(&[options, &["--json"]].concat());
        assert_eq!(json.lines().count(), count, "{options:?}: {json}");
        assert!(json.chars().all(|it| it == '\n' || !it.is_control()), "{json:?}");
        let valid = json.lines().all(|line| serde_json::from_str::<Value>(line).is_ok());
        assert!(valid, "{json}");
    }
    assert_eq!(show(&["--decision", "ask"]), "No record fits.\n");
    let limited = conductor(&["audit", "show", file.to_str().expect("UTF-8"), "--limit", "1"]);
    assert_mentions(&String::from_utf8_lossy(&limited.stderr), &["3 older records"]);
    let wrong = conductor(&["audit", "show", "--since", "soon"]);
    assert_eq!(wrong.status.code(), Some(2));
    assert_mentions(&String::from_utf8_lossy(&wrong.stderr), &["'soon' is not a time"]);
    fs::remove_dir_all(place).expect("ours");
}

#[test]
fn the_default_log_is_in_the_state_folder() {
    let place = directory("audit-default");
    let folder = place.join("conductor");
    fs::create_dir(&folder).expect("a new folder");
    log(&folder);
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_conductor"));
    let output =
        command.args(["audit", "verify"]).env("XDG_STATE_HOME", &place).output().expect("started");
    assert!(output.status.success(), "{output:?}");
    let missing = conductor(&["audit"]);
    assert_eq!(missing.status.code(), Some(2));
    assert_mentions(&String::from_utf8_lossy(&missing.stderr), &["verify", "show"]);
    fs::remove_dir_all(place).expect("ours");
}

#[test]
fn the_manual_and_the_completion_have_the_commands_of_audit() {
    let page = printed(&["man", "audit"]).replace("\\-", "-");
    assert_mentions(
        &page,
        &["conductor audit verify", "conductor audit show", "--key-file", "--since"],
    );
    let words = printed(&["complete", "zsh", "--", "conductor", "audit", ""]);
    assert_mentions(&words, &["verify", "show"]);
    let words = printed(&["complete", "zsh", "--", "conductor", "audit", "show", "--decision", ""]);
    assert_mentions(&words, &["allow", "deny", "ask"]);
}
