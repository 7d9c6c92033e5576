//! The audit log, and the mode that only writes it.

use serde_json::{Value, json};

use crate::{Chain, RULES, command, selected, write};

fn decisions(records: &[Value]) -> Vec<String> {
    let about =
        |it: &&Value| ["decision", "asked", "answered"].iter().any(|event| it["event"] == *event);
    let text = |it: &Value| it.as_str().unwrap_or("-").to_owned();
    let line = |it: &Value| {
        ["event", "decision", "by", "tool", "option", "mode"].map(|key| text(&it[key])).join(" ")
    };
    records.iter().filter(about).map(line).collect()
}

#[test]
fn every_decision_is_recorded_with_its_rule() {
    let mut chain = Chain::of_agent(RULES, &["--audit", "FOLDER/audit.jsonl"], 1, "goose");
    chain.decided(command("a", "git status"));
    chain.decided(command("b", "git push -f"));
    chain.ask_permission(command("c", "make"));
    let asked = chain.receive("editor");
    assert_eq!(asked["method"], "session/update", "the reason");
    let asked = chain.receive("editor");
    chain.answer("editor", &asked, selected("yes"));
    chain.outcome();
    let path = chain.in_project("src/a");
    chain.request(
        "agent",
        "fs/write_text_file",
        json!({ "sessionId": "s", "path": path, "content": "secret text" }),
        Ok(json!(null)),
    );
    let records = chain.records();
    assert_eq!(
        decisions(&records),
        [
            "decision allow rule Bash yes enforce",
            "decision deny rule Bash no enforce",
            "asked ask default Bash - enforce",
            "answered allow user Bash yes enforce",
            "decision allow rule Write - enforce",
        ]
    );
    let denied = records.iter().find(|it| it["decision"] == "deny").expect("a denial");
    assert_eq!(denied["session"], "s");
    assert_eq!(denied["agent"], "goose 1.0");
    assert_eq!(denied["at"], "session/request_permission");
    assert_eq!(denied["call"], "b");
    assert_eq!(denied["what"]["command"], "git push -f");
    assert_eq!(denied["rule"]["name"], "no force push");
    assert_eq!(denied["rule"]["line"], 5);
    assert_eq!(denied["rule"]["sha256"].as_str().map(str::len), Some(64), "{denied}");
    let written = records.iter().find(|it| it["at"] == "fs/write_text_file").expect("a write");
    assert_eq!(written["what"]["write"], path);
    assert_eq!(written["what"]["content"]["length"], 11);
    assert!(!written.to_string().contains("secret text"));
}

#[test]
fn mode_audit_decides_nothing_and_records_what_it_would_have_decided() {
    let in_file = format!("mode = \"audit\"\n{RULES}");
    for (rules, mode) in [(in_file.as_str(), &[][..]), (RULES, &["--mode", "audit"])] {
        let options: Vec<&str> =
            ["--audit", "FOLDER/audit.jsonl"].into_iter().chain(mode.iter().copied()).collect();
        let mut chain = Chain::new(rules, &options);
        for line in ["git status", "git push -f", "make"] {
            chain.ask_permission(command("t", line));
            let asked = chain.receive("editor");
            assert_eq!(asked["method"], "session/request_permission");
            chain.answer("editor", &asked, selected("yes"));
            assert_eq!(chain.outcome(), "yes");
        }
        let secret = chain.in_project(".env");
        chain.request(
            "agent",
            "fs/read_text_file",
            json!({ "sessionId": "s", "path": secret }),
            Ok(json!({ "content": "x" })),
        );
        // What cannot be read passes, too.
        chain.request(
            "agent",
            "terminal/create",
            json!({ "sessionId": "s" }),
            Ok(json!({ "terminalId": "t" })),
        );
        chain.assert_quiet();
        let records = chain.records();
        assert_eq!(
            decisions(&records),
            [
                "decision allow rule Bash - audit",
                "decision deny rule Bash - audit",
                "decision ask default Bash - audit",
                "decision deny rule Read - audit",
            ]
        );
    }
}

/// The log is a folder by now.
#[test]
fn an_action_that_cannot_be_recorded_is_denied() {
    let folder = crate::Folder::new();
    let rules = folder.file("rules.toml", RULES);
    let audit = folder.path("log/audit.jsonl");
    std::fs::create_dir(folder.path("log")).expect("a folder");
    use clap::Parser;
    use components::BuiltIn;
    let options = ["permissions", "--rules", &rules, "--audit", &audit];
    let options = components::permissions::Permissions::parse_from(options);
    options.check().unwrap_or_else(|error| panic!("{}", error.why));
    std::fs::create_dir_all(&audit).expect("a folder");
    let conversation = acp_proxy::script::Conversation::new(options.build());
    let mut chain = Chain { conversation, folder, next_id: 0 };
    chain.initialize(1, "test");
    chain.open();
    assert_eq!(chain.decided(command("t", "git status")), "no");
    assert!(chain.said().contains("audit"));
    let path = chain.in_project("src/a");
    assert_eq!(chain.decided(write("t", &path)), "no");
}
