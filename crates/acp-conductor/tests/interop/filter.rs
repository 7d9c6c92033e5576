//! The component `filter` between editors and agents on the official SDKs.

use serde_json::{Value, json};
use testkit::test_chain::TestChain;
use testkit::test_client::TestClient;

use crate::{check, marking, own_conductor, peer};

const GITHUB: &str = "ghp_aB3dE6gH9jK2mN5pQ8sT1vW4yZ7aC0eF3hI6";

#[test]
fn no_sdk_notices_a_filter_that_finds_nothing() {
    for (editor, agent) in
        [("rust_editor", "py_agent"), ("ts_editor", "rust_agent"), ("py_editor", "ts_agent")]
    {
        let filter = "filter --context --pattern EMP-[0-9]{6}".to_owned();
        // No secret begins with this mark, so no text is held back.
        check(editor, &own_conductor(), &[filter, marking("B"), peer(agent)], &["B"]);
    }
}

/// The agents read a file through the editor, and repeat in a streamed answer what they have read.
#[test]
fn an_agent_of_any_sdk_does_not_get_the_secret_of_a_file() {
    for agent in ["rust_agent", "ts_agent", "py_agent"] {
        let setup = TestChain::builder(env!("CARGO_BIN_EXE_conductor"));
        let components = ["filter".to_owned(), peer(agent)];
        let mut client = TestClient::start(setup, &format!("filter-{agent}"), &components);
        let session = client.new_session();
        let id = client.send_prompt(&session, "count to 1");
        let mut seen: Vec<Value> = Vec::new();
        while !client.is_answered(id) {
            assert!(client.read_message(), "{}", client.chain.conductor.stderr_so_far());
            let received = std::mem::take(&mut client.received);
            for request in received.iter().filter(|it| it.get("id").is_some()) {
                let result = match request["method"].as_str() {
                    Some("session/request_permission") => {
                        let option = &request["params"]["options"][0]["optionId"];
                        json!({ "outcome": { "outcome": "selected", "optionId": option } })
                    }
                    _ => json!({ "content": format!("words {GITHUB} more") }),
                };
                let answer = json!({ "jsonrpc": "2.0", "id": request["id"], "result": result });
                client.chain.editor.send(&answer.to_string());
            }
            seen.extend(received);
        }
        assert_eq!(client.wait_for_answer(id)["result"]["stopReason"], "end_turn", "{agent}");
        let text = Value::Array(seen).to_string();
        assert!(text.contains("fs/read_text_file") && !text.contains("aB3dE6"), "{agent}: {text}");
    }
}
