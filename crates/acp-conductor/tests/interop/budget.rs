//! The component `budget` between editors and agents on the official SDKs.

use std::path::Path;

use serde_json::{Value, json};
use testkit::test_chain::{TestChain, directory};
use testkit::test_client::TestClient;

use crate::{check, marking, own_conductor, peer};

fn events(ledger: &Path) -> Vec<String> {
    let files = std::fs::read_dir(ledger).expect("a ledger").flatten().map(|it| it.path());
    let mut files: Vec<_> =
        files.filter(|it| it.extension().is_some_and(|it| it == "jsonl")).collect();
    files.sort();
    let text: String =
        files.iter().map(|it| std::fs::read_to_string(it).expect("a file")).collect();
    let event = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        line["event"].as_str().expect("an event").to_owned()
    };
    text.lines().map(event).collect()
}

#[test]
fn no_sdk_notices_a_budget_that_is_not_spent() {
    for (editor, agent) in
        [("rust_editor", "py_agent"), ("ts_editor", "rust_agent"), ("py_editor", "ts_agent")]
    {
        let ledger = directory("interop-budget");
        let budget =
            format!("budget --tokens-per-day 1M --uncounted allow --ledger {}", ledger.display());
        check(editor, &own_conductor(), &[marking("A"), budget, peer(agent)], &["A"]);
        assert_eq!(events(&ledger), ["day", "open", "end", "open", "end"], "{editor}, {agent}");
    }
}

/// The agents report nothing, so they get one turn.
#[test]
fn an_agent_of_any_sdk_that_reports_nothing_is_refused_after_its_first_turn() {
    for agent in ["rust_agent", "ts_agent", "py_agent"] {
        let ledger = directory("interop-budget-refused");
        let budget = format!("budget --tokens-per-day 1M --ledger {}", ledger.display());
        let setup = TestChain::builder(env!("CARGO_BIN_EXE_conductor"));
        let mut client =
            TestClient::start(setup, &format!("budget-{agent}"), &[budget, peer(agent)]);
        let session = client.new_session();
        let id = client.send_prompt(&session, "count to 1");
        while !client.is_answered(id) {
            assert!(client.read_message(), "{}", client.chain.conductor.stderr_so_far());
            let requests = std::mem::take(&mut client.received);
            for request in requests.iter().filter(|it| it.get("id").is_some()) {
                let result = match request["method"].as_str() {
                    Some("session/request_permission") => {
                        let option = &request["params"]["options"][0]["optionId"];
                        json!({ "outcome": { "outcome": "selected", "optionId": option } })
                    }
                    _ => json!({ "content": "words" }),
                };
                let answer = json!({ "jsonrpc": "2.0", "id": request["id"], "result": result });
                client.chain.editor.send(&answer.to_string());
            }
        }
        assert_eq!(client.wait_for_answer(id)["result"]["stopReason"], "end_turn", "{agent}");
        let id = client.send_prompt(&session, "count to 1");
        let error = client.wait_for_answer(id)["error"].clone();
        assert_eq!(
            (&error["code"], &error["data"]["code"]),
            (&json!(-32603), &json!("budget-spent")),
            "{error}"
        );
        let message = error["message"].as_str().expect("a text");
        assert!(message.contains("does not report what is needed for tokens_per_day"), "{message}");
    }
}
