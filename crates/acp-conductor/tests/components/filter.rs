//! `filter` in real chains: as a component and as a program, and killed in the middle of a secret.

use serde_json::{Value, json};
use testkit::test_chain::{ScriptedComponent, TestChain, signal};

use crate::{conductor_path, greet_agent, new_session, new_setup};

const GITHUB: &str = "ghp_aB3dE6gH9jK2mN5pQ8sT1vW4yZ7aC0eF3hI6";

/// `filter` as a program. It declares itself that it is a guard.
fn program() -> String {
    let words = ["component", "filter"];
    json!({ "command": conductor_path(), "args": words, "name": "filter" }).to_string()
}

fn start(filter: &str) -> (TestChain, ScriptedComponent) {
    let setup = new_setup().option(&["--restart-delay", "0..0", "--notices", "off"]);
    let components = [filter.to_owned(), setup.scripted_command("agent")];
    let mut chain = setup.run("agent", &components);
    let mut agent = greet_agent(&mut chain);
    new_session(&mut chain, &mut agent);
    (chain, agent)
}

fn send_prompt(chain: &mut TestChain, id: u64, text: &str) {
    let params = json!({ "sessionId": "S1", "prompt": [{ "type": "text", "text": text }] });
    let prompt =
        json!({ "jsonrpc": "2.0", "id": id, "method": "session/prompt", "params": params });
    chain.editor.send(&prompt.to_string());
}

fn say(agent: &mut ScriptedComponent, text: &str) {
    let content = json!({ "type": "text", "text": text });
    let update = json!({ "sessionUpdate": "agent_message_chunk", "content": content });
    let params = json!({ "sessionId": "S1", "update": update });
    agent.send(
        &json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }).to_string(),
    );
}

/// The text of all messages until the answer to a request, and the answer.
fn read_turn(chain: &mut TestChain, id: u64) -> (String, Value) {
    let mut text = String::new();
    loop {
        let message = chain.editor.message();
        if message["id"] == id && message.get("method").is_none() {
            return (text, message);
        }
        text += message["params"]["update"]["content"]["text"].as_str().unwrap_or_default();
    }
}

#[test]
fn secrets_are_redacted_in_both_directions() {
    for filter in ["filter".to_owned(), program()] {
        let (mut chain, mut agent) = start(&filter);
        send_prompt(&mut chain, 2, &format!("use {GITHUB}"));
        let prompt = agent.request("session/prompt");
        assert_eq!(prompt["params"]["prompt"][0]["text"], "use [redacted:github]");
        for start in (0..GITHUB.len()).step_by(7) {
            say(&mut agent, &GITHUB[start..(start + 7).min(GITHUB.len())]);
        }
        agent.answer(&prompt, r#"{"stopReason":"end_turn"}"#);
        let (text, answer) = read_turn(&mut chain, 2);
        assert_eq!(text, "[redacted:github]");
        assert_eq!(answer["result"]["stopReason"], "end_turn");
        // The agent reads a file through the editor.
        agent.send(r#"{"jsonrpc":"2.0","id":7,"method":"fs/read_text_file","params":{"sessionId":"S1","path":"/a"}}"#);
        let request = chain.editor.message();
        assert_eq!(request["method"], "fs/read_text_file");
        let result = json!({ "content": format!("T={GITHUB}\n") });
        let answer = json!({ "jsonrpc": "2.0", "id": request["id"], "result": result });
        chain.editor.send(&answer.to_string());
        assert_eq!(agent.message()["result"]["content"], "T=[redacted:github]\n");
    }
}

/// Kills the component while it holds the first part of a token. Neither the first part nor the rest reaches the editor.
#[test]
fn a_token_does_not_get_through_when_the_component_is_killed_in_the_middle_of_it() {
    for cut in [8, 12, 20, 26] {
        let (mut chain, mut agent) = start(&program());
        send_prompt(&mut chain, 2, "hi");
        let prompt = agent.request("session/prompt");
        say(&mut agent, &format!("It is {}", &GITHUB[..cut]));
        let first = chain.editor.message();
        assert_eq!(first["params"]["update"]["content"]["text"], "It is ");
        signal(chain.conductor.component_pid("conductor component filter"), 9);
        let answer = chain.editor.message();
        assert!(answer["error"].is_object(), "{answer}");
        say(&mut agent, &format!("{} is the token", &GITHUB[cut..]));
        agent.answer(&prompt, r#"{"stopReason":"end_turn"}"#);
        // The next turn shows what has arrived before it.
        send_prompt(&mut chain, 3, "again");
        let prompt = loop {
            let message = agent.message();
            if message["method"] == "session/prompt" {
                break message;
            }
        };
        say(&mut agent, &format!("Again {GITHUB}."));
        agent.answer(&prompt, r#"{"stopReason":"end_turn"}"#);
        let (text, answer) = read_turn(&mut chain, 3);
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
        assert!(text.ends_with("Again [redacted:github]."), "{text}");
        assert!(
            !text.contains(&GITHUB[cut..cut + 5]) && !text.contains(&GITHUB[35..]),
            "{cut}: {text}"
        );
    }
}

#[test]
fn conductor_status_shows_what_was_found() {
    let (mut chain, mut agent) = start("filter");
    send_prompt(&mut chain, 2, &format!("use {GITHUB}"));
    let prompt = agent.request("session/prompt");
    agent.answer(&prompt, r#"{"stopReason":"end_turn"}"#);
    read_turn(&mut chain, 2);
    let directory = chain.runtime_directory();
    let shown = std::process::Command::new(conductor_path())
        .arg("status")
        .env("XDG_RUNTIME_DIR", directory)
        .output()
        .expect("conductor status runs");
    let text = String::from_utf8_lossy(&shown.stdout).into_owned();
    assert!(text.contains("redacted toward the agent: 1 (1 github)"), "{text}");
}
