//! `rate-limit` in real chains: inside the conductor, as a program, and killed.

use serde_json::{Value, json};
use testkit::test_chain::{ScriptedComponent, TestChain, directory, signal, wait_until};

use crate::{conductor_path, new_setup};

/// A chain with `rate-limit` and a scripted agent, with the session `S1`.
struct LimitedChain {
    chain: TestChain,
    agent: ScriptedComponent,
    last_id: u64,
}

/// `rate-limit` as a program.
fn program(options: &str) -> String {
    let mut words = vec!["component", "rate-limit"];
    words.extend(options.split_whitespace());
    json!({ "command": conductor_path(), "args": words, "name": "limit", "guard": true })
        .to_string()
}

impl LimitedChain {
    fn start(component: &str) -> LimitedChain {
        let setup = new_setup().option(&["--restart-delay", "0..0", "--notices", "off"]);
        let (chain, agent) = crate::start_chain(setup, &[component]);
        LimitedChain { chain, agent, last_id: 10 }
    }

    fn prompt(&mut self) -> u64 {
        self.last_id += 1;
        let params = json!({ "sessionId": "S1", "prompt": [{ "type": "text", "text": "hi" }] });
        let request = json!({ "jsonrpc": "2.0", "id": self.last_id, "method": "session/prompt", "params": params });
        self.chain.editor.send(&request.to_string());
        self.last_id
    }

    /// The next answer to the editor.
    fn answer(&mut self) -> Value {
        loop {
            let message = self.chain.editor.message();
            if message.get("method").is_none() {
                return message;
            }
        }
    }

    /// The agent receives a prompt, and ends the turn.
    fn turn(&mut self) {
        let prompt = self.agent.request("session/prompt");
        self.agent.answer(&prompt, r#"{"stopReason":"end_turn"}"#);
        let answer = self.answer();
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
    }

    fn refused(&mut self) -> Value {
        let id = self.prompt();
        let answer = self.answer();
        assert_eq!(
            (&answer["id"], &answer["error"]["code"]),
            (&json!(id), &json!(-32603)),
            "{answer}"
        );
        answer["error"]["data"].clone()
    }

    fn status(&self) -> String {
        let mut command = std::process::Command::new(conductor_path());
        let runtime = self.chain.runtime_directory();
        let output = command.arg("status").env("XDG_RUNTIME_DIR", runtime).output();
        String::from_utf8_lossy(&output.expect("it runs").stdout).into_owned()
    }
}

#[test]
fn a_prompt_over_the_limit_is_refused_and_status_shows_the_counts() {
    let folder = directory("rate-limit-audit");
    let log = folder.join("audit.jsonl");
    let options = format!("--prompts-per-minute 2 --when-reached refuse --audit {}", log.display());
    let mut chain = LimitedChain::start(&format!("rate-limit {options}"));
    for _ in 0..2 {
        chain.prompt();
        chain.turn();
    }
    let data = chain.refused();
    assert_eq!(data["code"], "rate-limited");
    let seconds = data["retryAfterSeconds"].as_u64().expect("a number");
    assert!((1..=30).contains(&seconds), "{data}");
    let status = chain.status();
    assert!(
        status.contains("prompts: 0 run, 0 wait, 2 passed (0 after a wait), 1 refused"),
        "{status}"
    );
    assert!(status.contains("counted, not limited"), "{status}");
    chain.chain.editor.close();
    assert_eq!(chain.chain.conductor.status(), 0);
    // The log of the run is closed and verifies.
    let mut command = std::process::Command::new(conductor_path());
    let output = command.args(["audit", "verify"]).arg(&log).output().expect("it runs");
    assert!(output.status.success(), "{output:?}");
    let text = std::fs::read_to_string(&log).expect("a log");
    assert!(text.contains("\"event\":\"limit\"") && text.contains("\"event\":\"close\""), "{text}");
    std::fs::remove_dir_all(folder).expect("ours");
}

/// With the clock of the system: one prompt passes each 100 ms.
#[test]
fn prompts_over_the_limit_wait_and_pass_in_order() {
    for component in [
        "rate-limit --prompts-per-minute 600 --burst 1".to_owned(),
        program("--prompts-per-minute 600 --burst 1"),
    ] {
        let mut chain = LimitedChain::start(&component);
        let ids: Vec<u64> = (0..5).map(|_| chain.prompt()).collect();
        for id in ids {
            let prompt = chain.agent.request("session/prompt");
            chain.agent.answer(&prompt, r#"{"stopReason":"end_turn"}"#);
            assert_eq!(chain.answer()["id"], id);
        }
        chain.chain.editor.close();
        assert_eq!(chain.chain.conductor.status(), 0);
    }
}

/// The process has lost its counts. It knows that it was restarted, also if no session is open.
#[test]
fn a_killed_process_gives_no_burst_again() {
    let mut chain = LimitedChain::start(&program("--prompts-per-minute 2 --when-reached refuse"));
    for _ in 0..2 {
        chain.prompt();
        chain.turn();
    }
    for round in 0..3 {
        signal(chain.chain.conductor.component_pid("conductor component rate-limit"), 9);
        // A prompt that the killed process has read is answered with an error about the crash.
        let data = wait_until("a prompt reaches the restarted component", || {
            chain.prompt();
            let data = chain.answer()["error"]["data"].clone();
            (data["code"] != "crashed").then_some(data)
        });
        assert_eq!(data["code"], "rate-limited", "round {round}: {data}");
    }
    chain.chain.editor.close();
    assert_eq!(chain.chain.conductor.status(), 0);
}

/// The agent may need time to stop its turn, so the prompt is still counted.
#[test]
fn a_killed_process_lets_no_second_prompt_pass_at_once() {
    let mut chain = LimitedChain::start(&program("--prompts-at-once 1 --when-reached refuse"));
    chain.prompt();
    chain.agent.request("session/prompt");
    signal(chain.chain.conductor.component_pid("conductor component rate-limit"), 9);
    assert_eq!(chain.answer()["error"]["data"]["code"], "crashed");
    let data = wait_until("a prompt reaches the restarted component", || {
        chain.prompt();
        let data = chain.answer()["error"]["data"].clone();
        (data["code"] != "crashed").then_some(data)
    });
    assert_eq!(
        (&data["code"], &data["limit"]),
        (&json!("rate-limited"), &json!("prompts_at_once"))
    );
    chain.chain.editor.close();
    assert_eq!(chain.chain.conductor.status(), 0);
}

#[test]
fn bad_options_are_refused_before_the_chain_starts() {
    let folder = directory("rate-limit-options");
    let file = folder.join("limits.toml");
    std::fs::write(&file, "prompts_at_once = 2\nprompts_per_minut = 3\n").expect("written");
    for (component, part) in [
        ("rate-limit".to_owned(), "set one, such as --prompts-per-minute 10"),
        ("rate-limit --prompts-at-once 0".to_owned(), "--prompts-at-once"),
        (
            format!("rate-limit --config {}", file.display()),
            "limits.toml:2: unknown field `prompts_per_minut`",
        ),
        (format!("rate-limit --prompts-at-once 1 --audit {}", folder.display()), "directory"),
    ] {
        let mut command = std::process::Command::new(conductor_path());
        let output = command.args(["agent", &component, "demo-agent"]).output().expect("it runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{component}: {stderr}");
        assert!(
            stderr.contains(part) && stderr.contains("[more: conductor errors"),
            "{component}: {stderr}"
        );
    }
    std::fs::remove_dir_all(folder).expect("ours");
}
