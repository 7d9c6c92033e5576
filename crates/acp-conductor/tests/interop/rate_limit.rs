//! The component `rate-limit` between editors and agents on the official SDKs.

use serde_json::{Value, json};
use testkit::test_chain::TestChain;
use testkit::test_client::TestClient;

use crate::{check, marking, own_conductor, peer};

#[test]
fn no_sdk_notices_limits_that_are_not_reached() {
    for (editor, agent) in
        [("rust_editor", "py_agent"), ("ts_editor", "rust_agent"), ("py_editor", "ts_agent")]
    {
        let limits = "rate-limit --prompts-per-minute 1000 --tool-calls-per-minute 1000 --prompts-at-once 10";
        check(editor, &own_conductor(), &[marking("A"), limits.to_owned(), peer(agent)], &["A"]);
    }
}

/// Every limit is reached, and each request waits for a moment.
#[test]
fn no_sdk_notices_requests_that_wait() {
    for (editor, agent) in
        [("rust_editor", "ts_agent"), ("ts_editor", "py_agent"), ("py_editor", "rust_agent")]
    {
        let limits = "rate-limit --prompts-per-minute 1200 --tool-calls-per-minute 1200 --burst 1 --tool-calls-at-once 1";
        check(editor, &own_conductor(), &[limits.to_owned(), marking("A"), peer(agent)], &["A"]);
    }
}

fn answer(client: &mut TestClient, request: &Value) {
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

/// Sends a prompt, and answers the requests of its turn. Returns the answer, and how many requests there were.
fn turn(client: &mut TestClient, session: &str) -> (Value, usize) {
    let id = client.send_prompt(session, "count to 1");
    let mut count = 0;
    while !client.is_answered(id) {
        assert!(client.read_message(), "{}", client.chain.conductor.stderr_so_far());
        let requests = std::mem::take(&mut client.received);
        for request in requests.iter().filter(|it| it.get("id").is_some()) {
            count += 1;
            answer(client, request);
        }
    }
    (client.wait_for_answer(id), count)
}

#[test]
fn an_agent_of_any_sdk_gets_no_prompt_over_the_limit() {
    for agent in ["rust_agent", "ts_agent", "py_agent"] {
        let setup = TestChain::builder(env!("CARGO_BIN_EXE_conductor"));
        let limits = "rate-limit --session-prompts-per-minute 1 --when-reached refuse".to_owned();
        let mut client = TestClient::start(setup, &format!("rate-{agent}"), &[limits, peer(agent)]);
        let session = client.new_session();
        assert_eq!(turn(&mut client, &session).0["result"]["stopReason"], "end_turn", "{agent}");
        let (refused, requests) = turn(&mut client, &session);
        assert_eq!(
            (&refused["error"]["data"]["code"], requests),
            (&json!("rate-limited"), 0),
            "{agent}: {refused}"
        );
        let other = client.new_session();
        assert_eq!(turn(&mut client, &other).0["result"]["stopReason"], "end_turn", "{agent}");
    }
}

/// The agent gets an error for its request. What it does then is its own decision, but the turn ends.
#[test]
fn a_turn_ends_if_the_tool_calls_of_an_agent_are_refused() {
    for agent in ["rust_agent", "ts_agent", "py_agent"] {
        let setup = TestChain::builder(env!("CARGO_BIN_EXE_conductor"));
        let limits = "rate-limit --tool-calls-per-minute 1 --when-reached refuse".to_owned();
        let mut client =
            TestClient::start(setup, &format!("rate-tools-{agent}"), &[limits, peer(agent)]);
        let session = client.new_session();
        let (_, first) = turn(&mut client, &session);
        let (_, second) = turn(&mut client, &session);
        assert!(first + second <= 1, "{agent}: {first} and {second} tool calls passed");
    }
}
