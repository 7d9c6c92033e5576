//! The options of `filter`, what it reports, and its limits.

use clap::Parser;
use components::BuiltIn;
use components::catalog;
use components::filter::Filter;
use serde_json::{Map, Value, json};

use super::{GITHUB, NPM, Talk, chunk, kinds, said};

fn folder(name: &str) -> std::path::PathBuf {
    let path = std::env::temp_dir().join(format!("filter-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).expect("created");
    path
}

/// A filter with the options of a file, and its error.
fn of_file(name: &str, text: &str) -> Result<catalog::ComponentFactory, String> {
    let path = folder(name).join("filter.toml");
    std::fs::write(&path, text).expect("written");
    let words = ["--config".to_owned(), path.display().to_string()];
    let made = catalog::find("filter").expect("built in").parse(&words, &Map::new());
    std::fs::remove_dir_all(path.parent().expect("a folder")).expect("ours");
    made
}

#[test]
fn a_mistake_in_a_file_is_refused_with_its_line_and_a_hint() {
    for (number, (text, expected)) in [
        (
            "\ndetectors = [\"githup\"]",
            "filter.toml:2: there is no detector `githup`; did you mean `github`?",
        ),
        ("toward_agent = \"redcat\"", "filter.toml:1: unknown variant `redcat`, expected one of"),
        ("contxt = true", "filter.toml:1: unknown field `contxt`"),
        ("pattern = [\"[0-9]+\"]", "add max = N"),
        (
            "[[pattern]]\nname = \"a b\"\nregex = \"xyz\"",
            "filter.toml:1: the name `a b` is not usable",
        ),
        (
            "\n\n[[pattern]]\nname = \"id\"\nregex = \"EMP-(\"",
            "filter.toml:3: the pattern `id` cannot be used: unclosed group",
        ),
        ("[[pattern]]\nregex = \"EMP\"\nmaximum = 3", "filter.toml:1: "),
        (
            "[detector.githbu]\ntoward_agent = \"block\"",
            "there is no detector `githbu`; did you mean `github`?",
        ),
        (
            "env = [\"FILTER_TEST_NOT_SET\"]",
            "the environment variable FILTER_TEST_NOT_SET is not set",
        ),
        ("env = [\"*\"]", "matches every environment variable"),
        (
            "detectors = [\"github\"]\nwithout = [\"github\"]",
            "`github` is in detectors and in without",
        ),
        ("values = [\"/no/such/file\"]", "/no/such/file: "),
    ]
    .iter()
    .enumerate()
    {
        let why =
            of_file(&format!("mistake-{number}"), text).err().unwrap_or_else(|| panic!("{text}"));
        assert!(why.contains(expected), "{text}: {why}");
        assert!(why.starts_with("filter: ") && why.contains("[more: conductor errors "), "{why}");
    }
}

#[test]
fn a_pattern_may_redact_in_one_direction_and_block_in_the_other() {
    let made = of_file(
        "directions",
        "toward_editor = \"off\"\n[[pattern]]\nname = \"employee\"\nregex = 'EMP-[0-9]{6}'\ntoward_agent = \"block\"\ntoward_editor = \"redact\"\n[detector.npm]\ntoward_agent = \"off\"\n",
    );
    let mut talk = Talk {
        conversation: acp_proxy::script::Conversation::new(made
            .unwrap_or_else(|why| panic!("{why}"))(
        )),
        markers: 0,
        metrics: Vec::new(),
    };
    talk.send("editor", &json!({ "id": 1, "method": "session/prompt", "params": { "sessionId": "s", "prompt": [{ "type": "text", "text": "who is EMP-123456?" }] } }));
    let error = talk.one("editor")["error"].clone();
    assert!(error["message"].as_str().unwrap().contains("(1 employee)"), "{error}");
    // -32000 would ask the user to log in.
    assert_eq!(error["code"], -32603, "{error}");
    let prompt = talk.prompt("s", &format!("{GITHUB} {NPM}"));
    assert_eq!(prompt["params"]["prompt"][0]["text"], format!("[redacted:github] {NPM}"));
    talk.say("s", &format!("EMP-123456 {GITHUB} "));
    assert_eq!(said(&talk.received("editor")), format!("[redacted:employee] {GITHUB} "));
}

#[test]
fn actions_are_refused_though_the_editor_may_see_secrets() {
    let mut talk = Talk::with(&["--toward-editor", "off", "--without", "npm"]);
    let mut write = |content: &str| {
        let params = json!({ "sessionId": "s", "path": "/a", "content": content });
        talk.send("agent", &json!({ "id": 1, "method": "fs/write_text_file", "params": params }));
        talk.received("editor").len()
    };
    assert_eq!((write(GITHUB), write(NPM)), (0, 1));
    talk.say("s", &format!("{GITHUB} "));
    assert_eq!(said(&talk.received("editor")), format!("{GITHUB} "));
    // Also if one detector or pattern is off.
    let made = of_file(
        "off",
        "[detector.github]\ntoward_editor = \"off\"\n[[pattern]]\nregex = 'EMP-[0-9]{6}'\ntoward_editor = \"off\"\n",
    );
    let mut talk = Talk {
        conversation: acp_proxy::script::Conversation::new(made
            .unwrap_or_else(|why| panic!("{why}"))(
        )),
        markers: 0,
        metrics: Vec::new(),
    };
    talk.say("s", &format!("{GITHUB} EMP-123456 "));
    assert_eq!(said(&talk.received("editor")), format!("{GITHUB} EMP-123456 "));
    for content in [GITHUB, "EMP-123456"] {
        let params = json!({ "sessionId": "s", "path": "/a", "content": content });
        talk.send("agent", &json!({ "id": 1, "method": "fs/write_text_file", "params": params }));
        assert_eq!(talk.received("editor"), [] as [Value; 0]);
    }
}

#[test]
fn an_answer_toward_the_agent_can_be_blocked() {
    let mut talk = Talk::with(&["--toward-agent", "block"]);
    let answer = json!({ "result": { "content": GITHUB } });
    let answer = talk.ask("fs/read_text_file", json!({ "sessionId": "s", "path": "/a" }), &answer);
    assert_eq!(answer["error"]["data"]["code"], "secret-blocked");
    assert_eq!(answer["error"]["code"], -32000);
    let answer = json!({ "result": { "content": "fine" } });
    let answer = talk.ask("fs/read_text_file", json!({ "sessionId": "s", "path": "/a" }), &answer);
    assert_eq!(answer["result"]["content"], "fine");
}

#[test]
fn exact_values_of_variables_and_files_are_redacted() {
    let path = folder("values").join("deploy.env");
    std::fs::write(&path, "# the deploy key\nexport DEPLOY=\"correct-horse-battery\"\nX=1\n")
        .expect("written");
    let file = path.display().to_string();
    // A variable that every test runner has.
    let directory = env!("CARGO_MANIFEST_DIR");
    let mut talk = Talk::with(&[
        "--values",
        &file,
        "--env",
        "CARGO_MANIFEST_DIR",
        "--env",
        "NO_SUCH_VARIABLE_*",
    ]);
    std::fs::remove_dir_all(path.parent().expect("a folder")).expect("ours");
    let prompt = talk.prompt("s", &format!("correct-horse-battery in {directory}"));
    let text = prompt["params"]["prompt"][0]["text"].as_str().unwrap().to_owned();
    assert_eq!(text, "[redacted:deploy-env] in [redacted:cargo-manifest-dir]");
}

#[test]
fn allowed_texts_and_detectors_that_are_off_pass() {
    let mut talk =
        Talk::with(&["--allow", GITHUB, "--without", "npm", "--pattern", "EMP-[0-9]{6}"]);
    let text = format!("{GITHUB} {NPM} EMP-123456");
    let prompt = talk.prompt("s", &text);
    let expected = text.replace("EMP-123456", "[redacted:pattern]");
    assert_eq!(prompt["params"]["prompt"][0]["text"], expected);
    let mut talk = Talk::with(&["--detectors", "jwt,npm"]);
    let prompt = talk.prompt("s", &format!("{GITHUB} {NPM}"));
    assert_eq!(prompt["params"]["prompt"][0]["text"], format!("{GITHUB} [redacted:npm]"));
    let mut talk = Talk::with(&["--context"]);
    let prompt = talk.prompt("s", "password = k3Jd9xQ2mZ7p");
    assert_eq!(prompt["params"]["prompt"][0]["text"], "password = [redacted:assignment]");
}

#[test]
fn what_was_found_is_counted_without_the_secret() {
    let filter = Filter::parse_from(["filter"]);
    filter.check().expect("valid");
    let component = filter.build();
    let status = component.status_source().expect("a status");
    let mut talk = Talk {
        conversation: acp_proxy::script::Conversation::new(component),
        markers: 0,
        metrics: Vec::new(),
    };
    assert_eq!(status(), ["no secret found"]);
    talk.prompt("s", &format!("{GITHUB} {GITHUB} {NPM}"));
    talk.say("s", &format!("{NPM} "));
    let action = json!({ "sessionId": "s", "command": GITHUB });
    talk.send("agent", &json!({ "id": 1, "method": "terminal/create", "params": action }));
    talk.received("editor");
    assert_eq!(
        status(),
        [
            "redacted toward the editor: 1 (1 npm)",
            "redacted toward the agent: 3 (2 github, 1 npm)",
            "blocked toward the editor: 1 (1 github)",
        ]
    );
    assert_eq!(talk.metrics.len(), 4);
    assert_eq!(
        talk.metrics[0],
        json!({ "name": "redactions_total", "kind": "counter", "value": 2.0, "component": "filter",
        "help": "Secrets that were redacted or blocked.", "labels": { "detector": "github", "toward": "agent", "action": "redacted" } })
    );
    // A restarted component continues to count.
    let status = filter.build().status_source().expect("a status");
    assert_eq!(status().len(), 3);
}

#[test]
fn the_audit_log_has_what_was_found_without_the_secret() {
    let path = folder("audit").join("audit.jsonl");
    let file = path.display().to_string();
    {
        let mut talk = Talk::with(&["--audit", &file]);
        talk.prompt("s", &format!("use {GITHUB}"));
        let params = json!({ "sessionId": "s", "path": "/a", "content": NPM });
        talk.send("agent", &json!({ "id": 1, "method": "fs/write_text_file", "params": params }));
        let params = json!({ "sessionId": "s", "command": "echo '[redacted:npm]'" });
        talk.send("agent", &json!({ "id": 2, "method": "terminal/create", "params": params }));
        talk.received("agent");
    }
    let text = std::fs::read_to_string(&path).expect("written");
    assert!(!text.contains("aB3dE6"), "{text}");
    let records: Vec<Value> =
        text.lines().map(|it| serde_json::from_str(it).expect("JSON")).collect();
    let of = |event: &str| {
        records.iter().find(|it| it["event"] == event).unwrap_or_else(|| panic!("{event}: {text}"))
    };
    let redacted = of("redacted");
    assert_eq!(
        (&redacted["at"], &redacted["session"], &redacted["component"]),
        (&json!("session/prompt"), &json!("s"), &json!("filter"))
    );
    assert_eq!(redacted["details"], json!({ "toward": "agent", "secrets": { "github": 1 } }));
    let blocked = of("decision");
    assert_eq!((&blocked["decision"], &blocked["rule"]["name"]), (&json!("deny"), &json!("npm")));
    let last = records.iter().rfind(|it| it["event"] == "decision").expect("two decisions");
    assert_eq!(
        (&last["at"], &last["rule"]["name"]),
        (&json!("terminal/create"), &json!("placeholder"))
    );
    std::fs::remove_dir_all(path.parent().expect("a folder")).expect("ours");
}

#[test]
fn a_notice_at_the_end_of_the_turn_tells_the_user_what_was_redacted() {
    let mut talk = Talk::with(&["--notice"]);
    let request = talk.prompt("s", &format!("use {GITHUB}"));
    talk.say("s", &format!("{NPM} "));
    talk.end(&request);
    let received = talk.received("editor");
    assert_eq!(kinds(&received), ["agent_message_chunk", "agent_message_chunk", "answer"]);
    assert_eq!(
        said(&received),
        "[redacted:npm] \n\nfilter: 2 secrets were redacted or blocked (1 github, 1 npm)\n"
    );
    let request = talk.prompt("s", "nothing secret");
    talk.end(&request);
    assert_eq!(kinds(&talk.received("editor")), ["answer"], "each turn begins anew");
    // Version 2 has an update for notices.
    let mut talk = Talk::with(&["--notice"]);
    talk.send(
        "editor",
        &json!({ "id": 0, "method": "initialize", "params": { "protocolVersion": 2 } }),
    );
    let greeting = talk.one("agent");
    talk.send(
        "agent",
        &json!({ "id": greeting["id"], "result": { "protocolVersion": 2, "capabilities": {} } }),
    );
    talk.prompt("s", GITHUB);
    talk.update("s", json!({ "sessionUpdate": "state_update", "state": "idle" }));
    let received = talk.received("editor");
    assert_eq!(kinds(&received), ["answer", "notice", "state_update"]);
    assert_eq!(received[1]["params"]["update"]["severity"], "warning");
}

#[test]
fn what_old_sessions_hold_is_sent_when_they_are_forgotten() {
    let mut talk = Talk::new();
    for number in 0..10_500 {
        let session = format!("s{number}");
        let params = json!({ "sessionId": session, "prompt": [] });
        talk.send("editor", &json!({ "id": number, "method": "session/prompt", "params": params }));
        let params =
            json!({ "sessionId": session, "update": chunk("agent_message_chunk", "a ghp_a") });
        talk.send("agent", &json!({ "method": "session/update", "params": params }));
    }
    let received = talk.received("editor");
    // Each session has got "a " at once. At least 500 were forgotten, and their "ghp_a" was sent.
    let held =
        received.iter().filter(|it| it["params"]["update"]["content"]["text"] == "ghp_a").count();
    assert!((500..=1500).contains(&held), "{held}");
    assert_eq!(received.len(), 10_500 + held);
}
