//! `permissions` in real chains: inside the conductor, as a program that is killed, and with wrong rules.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};
use testkit::test_chain::{ScriptedComponent, TestChain, directory, signal, wait_until};

use crate::{conductor_path, greet_agent_with, new_setup};

const RULES: &str = r#"
version = 1
[[rule]]
name = "no force push"
decision = "deny"
run = ["git push --force", "git push -f"]

[[rule]]
decision = "deny"
read = [".env"]

[[rule]]
decision = "allow"
run = ["git status"]
"#;

/// A chain with `permissions` and a scripted agent, with the session `S1` in `folder`.
struct GuardedChain {
    chain: TestChain,
    agent: ScriptedComponent,
    folder: PathBuf,
    last_id: u64,
}

fn rules(folder: &Path) -> String {
    let path = folder.join("rules.toml");
    std::fs::write(&path, RULES).expect("written");
    path.to_str().expect("UTF-8").to_owned()
}

impl GuardedChain {
    /// `permissions` inside the conductor.
    fn built_in(name: &str) -> GuardedChain {
        let folder = directory(name);
        let component = format!(
            "permissions --rules {} --audit {}",
            rules(&folder),
            folder.join("audit.jsonl").display()
        );
        GuardedChain::start(folder, component)
    }

    /// `permissions` as a program.
    fn program(name: &str) -> GuardedChain {
        let folder = directory(name);
        let words = ["component", "permissions", "--rules", &rules(&folder)];
        let component = json!({ "command": conductor_path(), "args": words, "name": "permissions", "guard": true });
        GuardedChain::start(folder, component.to_string())
    }

    fn start(folder: PathBuf, component: String) -> GuardedChain {
        let setup = new_setup().option(&["--restart-delay", "0..0", "--notices", "off"]);
        let components = [component, setup.scripted_command("agent")];
        let mut chain = setup.run("agent", &components);
        let agent = greet_agent_with(
            &mut chain,
            r#"{"protocolVersion":1,"agentInfo":{"name":"goose","version":"1.52.0"},"agentCapabilities":{"loadSession":true}}"#,
        );
        assert_eq!(chain.editor.message()["result"]["protocolVersion"], 1);
        let mut chain = GuardedChain { chain, agent, folder, last_id: 0 };
        chain.set_up("session/new");
        chain
    }

    fn set_up(&mut self, method: &str) {
        let params = json!({ "sessionId": "S1", "cwd": self.folder, "mcpServers": [] });
        let request = json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params });
        self.chain.editor.send(&request.to_string());
        let request = self.agent.request(method);
        self.agent.answer(&request, r#"{"sessionId":"S1"}"#);
        let answer = self.chain.editor.message();
        assert!(answer["result"].is_object(), "{answer}");
    }

    /// The agent sends a request.
    fn ask(&mut self, method: &str, mut params: Value) {
        self.last_id += 1;
        params["sessionId"] = json!("S1");
        let id = format!("a{}", self.last_id);
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.agent.send(&request.to_string());
    }

    fn ask_permission(&mut self, line: &str) {
        let call = json!({ "toolCallId": format!("t{}", self.last_id), "kind": "execute",
            "title": line, "rawInput": { "command": line } });
        let options = json!([
            { "optionId": "always", "name": "Always", "kind": "allow_always" },
            { "optionId": "yes", "name": "Yes", "kind": "allow_once" },
            { "optionId": "no", "name": "No", "kind": "reject_once" },
        ]);
        self.ask("session/request_permission", json!({ "toolCall": call, "options": options }));
    }

    /// The answer that the agent gets for a permission request.
    fn decided(&mut self, line: &str) -> Value {
        self.ask_permission(line);
        self.agent.message()["result"]["outcome"]["optionId"].clone()
    }
}

fn conductor(arguments: &[&str], runtime: &Path) -> Output {
    let mut command = Command::new(conductor_path());
    command.args(arguments).env("XDG_RUNTIME_DIR", runtime).output().expect("it runs")
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn the_rules_decide_and_the_audit_log_is_whole() {
    let mut chain = GuardedChain::built_in("permissions-chain");
    assert_eq!(chain.decided("git status"), "yes");
    assert_eq!(chain.decided("git push origin main -f"), "no");
    let said = chain.chain.editor.message();
    let text = said["params"]["update"]["content"]["text"].as_str().expect("a text");
    assert!(text.contains("no force push"), "{text}");
    let secret = chain.folder.join(".env");
    chain.ask("fs/read_text_file", json!({ "path": secret }));
    let error = chain.agent.message()["error"].clone();
    assert_eq!(
        (&error["code"], &error["data"]["code"]),
        (&json!(-32000), &json!("denied-by-policy"))
    );
    chain.ask_permission("make");
    let asked = chain.chain.editor.message();
    assert_eq!(asked["method"], "session/request_permission");
    let yes = json!({ "outcome": { "outcome": "selected", "optionId": "yes" } });
    let answer = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": yes });
    chain.chain.editor.send(&answer.to_string());
    assert_eq!(chain.agent.message()["result"], yes);
    let runtime = chain.chain.runtime_directory();
    let status = stdout(&conductor(&["status"], &runtime));
    assert!(status.contains("1 allowed, 2 denied, 1 asked"), "{status}");
    assert!(
        status.contains("cannot stop: goose runs everything without asking in its mode auto"),
        "{status}"
    );
    chain.chain.editor.close();
    assert_eq!(chain.chain.conductor.status(), 0);
    let audit = chain.folder.join("audit.jsonl");
    let verified = conductor(&["audit", "verify", audit.to_str().expect("UTF-8")], &runtime);
    assert!(verified.status.success(), "{}", stdout(&verified));
    let shown = stdout(&conductor(&["audit", "show", audit.to_str().expect("UTF-8")], &runtime));
    assert!(shown.contains("git push origin main -f"), "{shown}");
}

/// The question of the user is open when the component dies. The answer comes too late.
#[test]
fn a_component_that_is_killed_while_the_user_is_asked_allows_nothing() {
    let mut chain = GuardedChain::program("permissions-killed");
    assert_eq!(chain.decided("git status"), "yes");
    chain.ask_permission("make");
    let asked = chain.chain.editor.message();
    assert_eq!(asked["method"], "session/request_permission");
    signal(chain.chain.conductor.component_pid("conductor component permissions"), 9);
    let answer = chain.agent.message();
    assert!(answer["error"].is_object(), "{answer}");
    let yes = json!({ "outcome": { "outcome": "selected", "optionId": "yes" } });
    let late = json!({ "jsonrpc": "2.0", "id": asked["id"], "result": yes });
    chain.chain.editor.send(&late.to_string());
    // The conductor repeats the session to the restarted component. A request may come before it is ready.
    let denied = wait_until("the restarted component answers", || {
        chain.ask_permission("git push -f");
        chain.agent.message().get("result").cloned()
    });
    assert_eq!(denied["outcome"]["optionId"], "no", "{denied}");
    assert_eq!(chain.decided("git status"), "yes");
    // It has not seen what the agent has reported about this call.
    chain.ask(
        "session/request_permission",
        json!({ "toolCall": { "toolCallId": "old" }, "options": [
            { "optionId": "yes", "name": "Yes", "kind": "allow_once" },
            { "optionId": "no", "name": "No", "kind": "reject_once" },
        ]}),
    );
    assert_eq!(chain.agent.message()["result"]["outcome"]["optionId"], "no");
}

#[test]
fn wrong_rules_are_reported_with_file_and_line_before_anything_starts() {
    let folder = directory("permissions-wrong");
    let path = folder.join("rules.toml");
    std::fs::write(&path, "[[rule]]\ndecision = \"deny\"\nrnu = [\"x\"]\n").expect("written");
    let component = format!("permissions --rules {}", path.display());
    let output = conductor(&["agent", &component, "cat"], &folder);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    let place = format!("{}:3: ", path.display());
    assert!(stderr.contains(&place) && stderr.contains("did you mean `run`?"), "{stderr}");
    assert!(output.stdout.is_empty());
}

#[test]
fn rules_can_be_tried_without_an_agent() {
    let folder = directory("permissions-explain");
    let rules = rules(&folder);
    let explain = |options: &[&str]| {
        let words = [&["component", "permissions", "--rules", &rules], options].concat();
        let output = conductor(&words, &folder);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        stdout(&output)
    };
    let text = explain(&["--explain", "git status && git push -f"]);
    assert!(text.starts_with("deny\n") && text.contains("rules.toml:3"), "{text}");
    assert!(explain(&["--explain", "git status"]).starts_with("allow\n"));
    let project = folder.to_str().expect("UTF-8");
    let text = explain(&["--explain", "read:sub/../.env", "--explain-in", project]);
    assert!(text.starts_with("deny\n"), "{text}");
}
