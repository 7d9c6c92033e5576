//! The component `hooks` between editors and agents on the official SDKs.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use testkit::test_chain::{TestChain, directory, write_script};
use testkit::test_client::{TestClient, text_of};

use crate::{check, marking, own_conductor, peer};

/// `hooks` with a script that gets the input of each event as the variable `input`.
fn hooks(folder: &Path, script: &str) -> String {
    let script =
        format!("input=$(cat)\nprintf '%s\\n' \"$input\" >> {}/events\n{script}", folder.display());
    let command = write_script(folder, "hook.sh", &script);
    let group = json!([{ "hooks": [{ "type": "command", "command": command }] }]);
    let names = ["SessionStart", "UserPromptSubmit", "PreToolUse", "PostToolUse", "Stop"];
    let events: serde_json::Map<String, Value> =
        names.iter().map(|name| ((*name).to_owned(), group.clone())).collect();
    let settings = folder.join("settings.json");
    fs::write(&settings, json!({ "hooks": events }).to_string()).expect("written");
    let folder = folder.display();
    format!(
        "hooks --no-user-hooks --settings {folder}/settings.json --transcripts {folder}/transcripts"
    )
}

fn events(folder: &Path) -> Vec<String> {
    let text = fs::read_to_string(folder.join("events")).expect("hooks have run");
    let name = |line: &str| {
        let input: Value = serde_json::from_str(line).expect("JSON");
        let tool = input["tool_name"].as_str().map(|it| format!(" {it}")).unwrap_or_default();
        format!("{}{tool}", input["hook_event_name"].as_str().expect("a name"))
    };
    text.lines().map(name).collect()
}

#[test]
fn no_sdk_notices_hooks_that_decide_nothing() {
    for (editor, agent) in
        [("rust_editor", "py_agent"), ("ts_editor", "rust_agent"), ("py_editor", "ts_agent")]
    {
        let folder = directory("interop-hooks");
        let hooks = hooks(&folder, "exit 0");
        check(editor, &own_conductor(), &[marking("A"), hooks, peer(agent)], &["A"]);
        let events = events(&folder);
        let what = format!("{editor}, {agent}: {events:?}");
        assert_eq!(&events[..2], ["SessionStart", "UserPromptSubmit"], "{what}");
        for event in ["PreToolUse Read", "PostToolUse Read", "Stop"] {
            assert!(events.iter().any(|it| it == event), "{event} of {what}");
        }
    }
}

#[test]
fn an_agent_of_any_sdk_is_told_why_a_hook_blocks() {
    for agent in ["rust_agent", "ts_agent", "py_agent"] {
        let folder = directory("interop-hooks-blocked");
        let script = "case \"$input\" in *'\"file_path\"'*) echo 'not this file' >&2; exit 2 ;; esac\nexit 0";
        let components = [hooks(&folder, script), peer(agent)];
        let setup = TestChain::builder(env!("CARGO_BIN_EXE_conductor"));
        let mut client = TestClient::start(setup, &format!("hooks-{agent}"), &components);
        let session = client.new_session();
        let id = client.send_prompt(&session, "count to 1");
        let mut texts = Vec::new();
        while !client.is_answered(id) {
            assert!(client.read_message(), "{}", client.chain.conductor.stderr_so_far());
            for message in std::mem::take(&mut client.received) {
                texts.extend(text_of(&message).map(str::to_owned));
                if message.get("id").is_none() {
                    continue;
                }
                assert_eq!(
                    message["method"], "session/request_permission",
                    "the file is not read: {message}"
                );
                let outcome = json!({ "outcome": "selected", "optionId": "allow" });
                let answer = json!({ "jsonrpc": "2.0", "id": message["id"], "result": { "outcome": outcome } });
                client.chain.editor.send(&answer.to_string());
            }
        }
        // The agents pass the error of the file on as the error of the prompt, each in its own words.
        let answer = client.wait_for_answer(id);
        assert!(answer["error"].is_object(), "{agent}: {answer}");
        assert!(texts.iter().any(|it| it == "permission allow"), "{agent}: {texts:?}");
        assert!(!texts.iter().any(|it| it.starts_with("file ")), "{agent}: {texts:?}");
    }
}
