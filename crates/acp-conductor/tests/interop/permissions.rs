//! The component `permissions` between editors and agents on the official SDKs.

use std::path::Path;

use serde_json::{Value, json};
use testkit::test_chain::{TestChain, directory};
use testkit::test_client::{TestClient, text_of};

use crate::{check, marking, own_conductor, peer};

fn component(folder: &Path, rules: &str) -> String {
    let (rules_file, audit) = (folder.join("rules.toml"), folder.join("audit.jsonl"));
    std::fs::write(&rules_file, rules).expect("written");
    format!("permissions --rules {} --audit {}", rules_file.display(), audit.display())
}

fn decisions(folder: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(folder.join("audit.jsonl")).expect("an audit log");
    let records = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    let word = |record: &Value, key: &str| record[key].as_str().unwrap_or("-").to_owned();
    let decided = records.filter(|it| it["decision"].is_string());
    decided.map(|it| ["at", "decision", "by"].map(|key| word(&it, key)).join(" ")).collect()
}

/// The permission request of these agents has only an id, so the user is asked.
#[test]
fn no_sdk_notices_rules_that_ask_and_allow() {
    let rules = "[[rule]]\ndecision = \"allow\"\nread = [\"**\"]\n";
    for (editor, agent) in
        [("rust_editor", "py_agent"), ("ts_editor", "rust_agent"), ("py_editor", "ts_agent")]
    {
        let folder = directory("interop-permissions");
        let chain = [marking("A"), component(&folder, rules), peer(agent)];
        check(editor, &own_conductor(), &chain, &["A"]);
        assert_eq!(
            decisions(&folder),
            [
                "session/request_permission ask default",
                "session/request_permission allow user",
                "fs/read_text_file allow rule",
            ],
            "{editor}, {agent}"
        );
    }
}

#[test]
fn an_agent_of_any_sdk_is_denied_what_the_rules_deny() {
    let rules = "default = \"deny\"\n[[rule]]\ndecision = \"deny\"\nmessage = \"Not this file.\"\nread = [\"peer.txt\"]\n";
    for agent in ["rust_agent", "ts_agent", "py_agent"] {
        let folder = directory("interop-permissions-denied");
        let setup = TestChain::builder(env!("CARGO_BIN_EXE_conductor"));
        let components = [component(&folder, rules), peer(agent)];
        let mut client = TestClient::start(setup, &format!("permissions-{agent}"), &components);
        let params = json!({ "cwd": folder, "mcpServers": [] });
        let id = client.send_request("session/new", params);
        let session = client.wait_for_answer(id)["result"]["sessionId"].clone();
        let id = client.send_prompt(session.as_str().expect("an id"), "count to 1");
        let answer = client.wait_for_answer(id);
        // No request of the agent has reached the editor.
        let requests: Vec<&Value> =
            client.received.iter().filter(|it| it.get("id").is_some()).collect();
        assert!(requests.is_empty(), "{agent}: {requests:?}");
        let texts: Vec<&str> = client.received.iter().filter_map(text_of).collect();
        let said = texts.iter().find(|it| it.contains("[permissions] Denied")).copied();
        assert!(said.is_some(), "{agent}: {texts:?}");
        // The agents offer only one option, which allows. So no option is chosen.
        let chosen = texts.iter().find(|it| it.starts_with("permission ")).copied();
        assert!(chosen != Some("permission allow"), "{agent}: {texts:?}");
        let decisions = decisions(&folder);
        assert_eq!(decisions[0], "session/request_permission deny default", "{agent}: {answer}");
    }
}
