//! `budget` in real chains: several of them, killed components and killed conductors.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testkit::test_chain::{ScriptedComponent, TestChain, directory, signal, wait_until};

use crate::{conductor_path, greet_agent_with, new_setup};

/// A chain with `budget` and a scripted agent, with the session `S1`.
struct BudgetChain {
    chain: TestChain,
    agent: ScriptedComponent,
    last_id: u64,
}

/// `budget` as a component inside the conductor.
fn built_in(ledger: &Path, options: &str) -> String {
    format!("budget --ledger {} {options}", ledger.display())
}

/// `budget` as a program.
fn program(ledger: &Path, options: &str) -> String {
    let ledger = ledger.to_str().expect("UTF-8");
    let mut words = vec!["component", "budget", "--ledger", ledger];
    words.extend(options.split_whitespace());
    json!({ "command": conductor_path(), "args": words, "name": "budget" }).to_string()
}

impl BudgetChain {
    fn start(component: &str, set_up: &str) -> BudgetChain {
        let setup = new_setup().option(&["--restart-delay", "0..0", "--notices", "off"]);
        let components = [component.to_owned(), setup.scripted_command("agent")];
        let mut chain = setup.run("agent", &components);
        let agent = greet_agent_with(
            &mut chain,
            r#"{"protocolVersion":1,"agentInfo":{"name":"codex-acp","version":"2.6.0"},"agentCapabilities":{"loadSession":true}}"#,
        );
        let answer = chain.editor.message();
        assert_eq!(answer["result"]["protocolVersion"], 1, "{answer}");
        let mut chain = BudgetChain { chain, agent, last_id: 0 };
        chain.send(set_up, json!({ "sessionId": "S1", "cwd": "/", "mcpServers": [] }));
        let request = chain.agent.request(set_up);
        chain.agent.answer(&request, r#"{"sessionId":"S1"}"#);
        assert!(chain.editor()["result"].is_object());
        chain
    }

    fn send(&mut self, method: &str, params: Value) {
        self.last_id += 1;
        let request =
            json!({ "jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params });
        self.chain.editor.send(&request.to_string());
    }

    fn editor(&mut self) -> Value {
        self.chain.editor.message()
    }

    fn prompt(&mut self) {
        self.send(
            "session/prompt",
            json!({ "sessionId": "S1", "prompt": [{ "type": "text", "text": "hi" }] }),
        );
    }

    /// The agent receives a prompt, and answers it with these tokens.
    fn turn(&mut self, tokens: u64) -> Value {
        self.prompt();
        let prompt = self.receive_prompt();
        self.agent.answer(&prompt, &end(tokens));
        loop {
            let message = self.editor();
            if message.get("method").is_none() {
                return message;
            }
        }
    }

    /// The prompt that the agent receives next. The conductor cancels prompts that are lost.
    fn receive_prompt(&mut self) -> Value {
        loop {
            let message = self.agent.message();
            if message["method"] == "session/prompt" {
                return message;
            }
        }
    }

    fn refused(&mut self) -> Value {
        self.prompt();
        let answer = self.editor();
        assert_eq!(answer["error"]["code"], -32603, "{answer}");
        answer["error"]["data"].clone()
    }
}

fn end(tokens: u64) -> String {
    let usage = json!({ "totalTokens": tokens, "inputTokens": tokens, "outputTokens": 0 });
    json!({ "stopReason": "end_turn", "usage": usage }).to_string()
}

/// The lines of all days. (A test may run at midnight.)
fn lines(ledger: &Path) -> Vec<Value> {
    let files = std::fs::read_dir(ledger).expect("a ledger").flatten().map(|it| it.path());
    let mut files: Vec<PathBuf> =
        files.filter(|it| it.extension().is_some_and(|it| it == "jsonl")).collect();
    files.sort();
    let text: String =
        files.iter().map(|it| std::fs::read_to_string(it).expect("a file")).collect();
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

fn events(ledger: &Path) -> Vec<String> {
    let lines = lines(ledger);
    lines.iter().map(|line| line["event"].as_str().expect("an event").to_owned()).collect()
}

#[test]
fn a_prompt_beyond_the_limit_does_not_reach_the_agent_and_status_shows_what_is_spent() {
    let ledger = directory("budget-limit");
    let mut chain =
        BudgetChain::start(&built_in(&ledger, "--tokens-per-session 100"), "session/new");
    chain.turn(60);
    assert_eq!(chain.turn(60)["result"]["usage"]["totalTokens"], 60);
    let data = chain.refused();
    assert_eq!((&data["code"], &data["spent"]), (&json!("budget-spent"), &json!(120)));
    let runtime = chain.chain.runtime_directory();
    let output = std::process::Command::new(conductor_path())
        .args(["status"])
        .env("XDG_RUNTIME_DIR", runtime)
        .output()
        .expect("it runs");
    let status = String::from_utf8_lossy(&output.stdout);
    assert!(status.contains("120 tokens today"), "{status}");
    assert_eq!(events(&ledger), ["day", "open", "spent", "end", "open", "spent", "end"]);
    chain.chain.editor.close();
    assert_eq!(chain.chain.conductor.status(), 0);
}

#[test]
fn two_conductors_share_a_ledger() {
    let ledger = directory("budget-shared");
    let options = "--tokens-per-day 100";
    let mut one = BudgetChain::start(&built_in(&ledger, options), "session/new");
    let mut two = BudgetChain::start(&program(&ledger, options), "session/new");
    one.turn(60);
    two.turn(60);
    assert_eq!(
        (one.refused()["spent"].as_u64(), two.refused()["spent"].as_u64()),
        (Some(120), Some(120))
    );
}

/// The turn during which the component is killed is lost, and shows as such. The budget holds before and after.
#[test]
fn a_component_that_is_killed_in_a_turn_does_not_forget_what_is_spent() {
    let ledger = directory("budget-killed");
    let mut chain = BudgetChain::start(&program(&ledger, "--tokens-per-day 100"), "session/new");
    chain.turn(60);
    chain.prompt();
    let prompt = chain.agent.request("session/prompt");
    assert_eq!(
        events(&ledger),
        ["day", "open", "spent", "end", "open"],
        "it is recorded before it is sent"
    );
    let killed = chain.chain.conductor.component_pid("conductor component budget");
    signal(killed, 9);
    let answer = chain.editor();
    assert!(answer["error"].is_object(), "{answer}");
    wait_until("the restarted component records the turn as lost", || {
        events(&ledger).last().filter(|it| *it == "lost").cloned()
    });
    assert_eq!(lines(&ledger)[4]["turn"], lines(&ledger)[5]["turn"]);
    // The answer to the lost prompt reaches nobody.
    chain.agent.answer(&prompt, &end(1000));
    chain.turn(40);
    assert_eq!(chain.refused()["spent"], 100);
    signal(chain.chain.conductor.component_pid("conductor component budget"), 9);
    // The prompt may reach the component before it dies.
    let error = wait_until("the prompt reaches the restarted component", || {
        chain.prompt();
        let error = chain.editor()["error"].clone();
        (error["data"]["code"] != "crashed").then_some(error)
    });
    assert_eq!(error["data"]["spent"], 100, "{error}");
}

#[test]
fn a_conductor_that_is_killed_in_a_turn_leaves_the_turn_open() {
    let ledger = directory("budget-conductor");
    let options = "--tokens-per-day 100 --tokens-per-session 100";
    for component in [built_in(&ledger, options), program(&ledger, options)] {
        let mut chain = BudgetChain::start(&component, "session/new");
        chain.turn(30);
        chain.prompt();
        chain.agent.request("session/prompt");
        chain.chain.conductor.signal(9);
        chain.chain.conductor.wait();
    }
    assert_eq!(
        events(&ledger),
        ["day", "open", "spent", "end", "open", "open", "spent", "end", "open"]
    );
    // The sessions of both chains have the same id. The last one is loaded, so only its turn is known to be lost.
    let mut chain = BudgetChain::start(&built_in(&ledger, options), "session/load");
    assert_eq!(events(&ledger)[9..], ["lost"]);
    assert_eq!(lines(&ledger)[9]["turn"], lines(&ledger)[8]["turn"]);
    chain.turn(40);
    assert_eq!(chain.refused()["budget"], "tokens_per_day");
}

#[test]
fn the_command_spent_shows_what_was_recorded() {
    let ledger = directory("budget-spent");
    let mut chain = BudgetChain::start(&built_in(&ledger, "--tokens-per-day 1M"), "session/new");
    chain.turn(12_000);
    chain.turn(345);
    chain.prompt();
    chain.receive_prompt();
    let spent = |options: &[&str]| {
        let output = std::process::Command::new(conductor_path())
            .args(["spent", "--ledger"])
            .arg(&ledger)
            .args(options)
            .output()
            .expect("it runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    let table = spent(&["--days", "7"]);
    let line = "  2      12,345 tokens, and 1 turn of unknown consumption\n";
    assert!(table.starts_with("DAY         TURNS  CONSUMED\n") && table.ends_with(line), "{table}");
    let day = table.lines().nth(1).and_then(|line| line.split(' ').next()).expect("a day");
    let table = spent(&[day]);
    assert!(
        table.contains("S1          codex-acp 2.6.0  2      12,345 tokens, and 1 turn"),
        "{table}"
    );
    assert!(table.lines().last().is_some_and(|it| it.starts_with(day)), "{table}");
    assert_eq!(spent(&[day, "--session", "other"]), format!("{day}: nothing is recorded\n"));
    let json: Value = serde_json::from_str(&spent(&["--json", day])).expect("JSON");
    let sums = [&json[0], &json[0]["sessions"][0]];
    for sum in sums {
        let numbers = (&sum["turns"], &sum["unknownTurns"], &sum["totalTokens"]);
        assert_eq!(numbers, (&json!(2), &json!(1), &json!(12_345)), "{json}");
    }
}

#[test]
fn bad_options_are_refused_before_the_chain_starts() {
    let folder = directory("budget-options");
    let file = folder.join("budget.toml");
    std::fs::write(&file, "tokens_per_day = \"1M\"\nwhen_spent = \"halt\"\n").expect("written");
    for (component, part) in [
        ("budget".to_owned(), "it has no limit; set one, such as --tokens-per-day 1M"),
        (format!("budget --config {}", file.display()), "budget.toml:2: unknown variant `halt`"),
    ] {
        let output = std::process::Command::new(conductor_path())
            .args(["agent", &component, "cat"])
            .output()
            .expect("it runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(part) && output.stdout.is_empty(), "{stderr}");
    }
}
