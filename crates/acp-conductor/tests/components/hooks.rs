//! `hooks` in real chains: killed components, killed conductors, and the end of a connection.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testkit::test_chain::{
    ScriptedComponent, TestChain, assert_gone, directory, signal, wait_until, write_script,
};

use crate::{conductor_path, greet_agent_with, new_setup};

const KILL: i32 = 9;

/// A chain with `hooks` and a scripted agent, with the session `S1` in a project.
struct HooksChain {
    chain: TestChain,
    agent: ScriptedComponent,
    folder: PathBuf,
}

/// A folder with a settings file that runs `./hook.sh` for each of these events.
fn project(name: &str, events: &[&str], script: &str) -> PathBuf {
    let folder = directory(name);
    let command = write_script(&folder, "hook.sh", script);
    let mut hooks = json!({});
    for event in events {
        let hook = json!({ "type": "command", "command": command });
        hooks[event] = json!([{ "matcher": "", "hooks": [hook] }]);
    }
    fs::write(folder.join("hooks.json"), json!({ "hooks": hooks }).to_string()).expect("written");
    folder
}

fn options(folder: &Path) -> String {
    let folder = folder.display();
    format!("--no-user-hooks --settings {folder}/hooks.json --transcripts {folder}/transcripts")
}

/// `hooks` inside the conductor.
fn built_in(folder: &Path) -> String {
    format!("hooks {}", options(folder))
}

/// `hooks` as a program.
fn program(folder: &Path) -> String {
    let options = options(folder);
    let words: Vec<&str> = ["component", "hooks"].into_iter().chain(options.split(' ')).collect();
    json!({ "command": conductor_path(), "args": words, "name": "hooks", "guard": true })
        .to_string()
}

impl HooksChain {
    fn start(component: String, folder: PathBuf) -> HooksChain {
        let setup = new_setup().option(&["--restart-delay", "0..0", "--notices", "off"]);
        let components = [component, setup.scripted_command("agent")];
        let mut chain = setup.run("agent", &components);
        let mut agent = greet_agent_with(
            &mut chain,
            r#"{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}"#,
        );
        assert_eq!(chain.editor.message()["result"]["protocolVersion"], 1);
        let new = json!({ "jsonrpc": "2.0", "id": 1, "method": "session/new", "params": { "cwd": folder, "mcpServers": [] } });
        chain.editor.send(&new.to_string());
        let new = agent.request("session/new");
        agent.answer(&new, r#"{"sessionId":"S1"}"#);
        assert_eq!(chain.editor.message()["result"]["sessionId"], "S1");
        HooksChain { chain, agent, folder }
    }

    /// The agent asks to write a file.
    fn write(&mut self, id: &str, path: &str) {
        let params = json!({ "sessionId": "S1", "path": path, "content": "x" });
        let request =
            json!({ "jsonrpc": "2.0", "id": id, "method": "fs/write_text_file", "params": params });
        self.agent.send(&request.to_string());
    }

    /// The agent asks to write a file, which the hook blocks.
    fn assert_blocked(&mut self, id: &str, path: &str) {
        self.write(id, path);
        let answer = self.agent_answer(id);
        assert_eq!(answer["error"]["data"]["code"], "blocked-by-hook", "{answer}");
    }

    fn agent_answer(&mut self, id: &str) -> Value {
        loop {
            let message = self.agent.message();
            if message["id"] == id && message.get("method").is_none() {
                return message;
            }
        }
    }

    fn file(&self, name: &str) -> Option<String> {
        fs::read_to_string(self.folder.join(name)).ok().filter(|it| it.ends_with('\n'))
    }

    /// The process id that a hook has written.
    fn pid(&self, name: &str) -> u32 {
        wait_until("the hook", || self.file(name)).trim().parse().expect("a process id")
    }

    fn component_pid(&self) -> u32 {
        self.chain.conductor.component_pid("conductor component hooks")
    }
}

/// Blocks paths with `secret`, and writes each event to a file.
const GUARD: &str = r#"
input=$(cat)
printf '%s\n' "$input" >> events
case "$input" in
  *secret*) echo "this path is secret" >&2; exit 2 ;;
esac
exit 0"#;

#[test]
fn hooks_guard_a_chain_inside_the_conductor_and_as_a_program() {
    for (name, component) in
        [("hooks-built-in", built_in as fn(&Path) -> String), ("hooks-program", program)]
    {
        let folder = project(name, &["PreToolUse", "SessionEnd", "SessionStart"], GUARD);
        let mut chain = HooksChain::start(component(&folder), folder);
        chain.assert_blocked("a", "/secret/x");
        chain.write("b", "/public/x");
        let request = chain.chain.editor.message();
        assert_eq!(
            (&request["method"], &request["params"]["path"]),
            (&json!("fs/write_text_file"), &json!("/public/x"))
        );
        let answer = json!({ "jsonrpc": "2.0", "id": request["id"], "result": {} });
        chain.chain.editor.send(&answer.to_string());
        assert!(chain.agent_answer("b")["error"].is_null());
        // This hook runs in the background. The end of the chain would kill it.
        wait_until("the session has started", || {
            chain.file("events").filter(|events| events.contains("SessionStart"))
        });
        chain.chain.editor.close();
        assert_eq!(chain.chain.conductor.status(), 0);
        let events = chain.file("events").expect("hooks have run");
        let names = |line: &str| {
            let input: Value = serde_json::from_str(line).expect("JSON");
            input["hook_event_name"].as_str().expect("a name").to_owned()
        };
        let mut names: Vec<String> = events.lines().map(names).collect();
        names.sort();
        assert_eq!(names, ["PreToolUse", "PreToolUse", "SessionEnd", "SessionStart"], "{name}");
        let transcripts = fs::read_dir(chain.folder.join("transcripts")).expect("a folder");
        assert_eq!(transcripts.count(), 0, "no transcript is left");
    }
}

/// A hook that runs when its component is killed.
const SLOW: &str = r#"
if [ -e fast ]; then echo "blocked" >&2; exit 2; fi
sleep 600 &
echo $! > child
echo $$ > leader
wait"#;

#[test]
fn a_killed_component_lets_nothing_pass_and_leaves_no_process() {
    let folder = project("hooks-killed", &["PreToolUse"], SLOW);
    let mut chain = HooksChain::start(program(&folder), folder);
    chain.write("a", "/x");
    let (leader, child) = (chain.pid("leader"), chain.pid("child"));
    fs::write(chain.folder.join("fast"), "").expect("written");
    signal(chain.component_pid(), KILL);
    // The request fails, or the restarted component blocks it. It never reaches the editor.
    let answer = chain.agent_answer("a");
    assert!(answer["error"].is_object(), "{answer}");
    assert_gone(leader, "the hook");
    assert_gone(child, "the child of the hook");
    chain.assert_blocked("b", "/y");
    chain.chain.editor.close();
    assert_eq!(chain.chain.conductor.status(), 0);
    assert_eq!(chain.chain.editor.next_line(), None, "the editor has received nothing");
}

#[test]
fn a_killed_conductor_leaves_no_hook() {
    for (name, component) in [
        ("hooks-killed-built-in", built_in as fn(&Path) -> String),
        ("hooks-killed-program", program),
    ] {
        let folder = project(name, &["PreToolUse"], SLOW);
        let mut chain = HooksChain::start(component(&folder), folder);
        chain.write("a", "/x");
        let (leader, child) = (chain.pid("leader"), chain.pid("child"));
        chain.chain.conductor.signal(KILL);
        assert_gone(leader, "the hook");
        assert_gone(child, "the child of the hook");
    }
}

#[test]
fn a_chain_that_ends_leaves_no_hook() {
    let folder = project("hooks-end", &["PreToolUse"], SLOW);
    let mut chain = HooksChain::start(built_in(&folder), folder);
    chain.write("a", "/x");
    let (leader, child) = (chain.pid("leader"), chain.pid("child"));
    chain.chain.editor.close();
    chain.chain.conductor.wait();
    assert_gone(leader, "the hook");
    assert_gone(child, "the child of the hook");
}

/// Allows the first call, and blocks all others.
const ONCE: &str = r#"
if [ -e seen ]; then echo "only once" >&2; exit 2; fi
echo > seen
printf '{"hookSpecificOutput":{"hookEventName":"PreToolUse","permissionDecision":"allow"}}'"#;

#[test]
fn a_restarted_component_asks_its_hooks_again() {
    let folder = project("hooks-restarted", &["PreToolUse"], ONCE);
    let mut chain = HooksChain::start(program(&folder), folder);
    let ask = json!({ "jsonrpc": "2.0", "id": "p", "method": "session/request_permission", "params": {
        "sessionId": "S1",
        "toolCall": { "toolCallId": "t1", "kind": "edit", "title": "Write", "name": "Write",
            "rawInput": { "path": "/x", "content": "x" } },
        "options": [{ "optionId": "once", "name": "x", "kind": "allow_once" }, { "optionId": "no", "name": "x", "kind": "reject_once" }],
    }});
    chain.agent.send(&ask.to_string());
    assert_eq!(chain.agent_answer("p")["result"]["outcome"]["optionId"], "once");
    let pid = chain.component_pid();
    signal(pid, KILL);
    assert_gone(pid, "the component");
    assert_ne!(chain.component_pid(), pid, "it was restarted");
    // Without the restart, the write would belong to the call that was allowed.
    chain.write("a", "/x");
    let answer = chain.agent_answer("a");
    assert_eq!(answer["error"]["data"]["reason"], "only once", "{answer}");
}

#[test]
fn a_restarted_component_denies_a_call_that_it_has_not_seen() {
    let folder = project("hooks-unseen", &["PreToolUse"], "exit 0");
    let mut chain = HooksChain::start(program(&folder), folder);
    let call = json!({ "sessionUpdate": "tool_call", "toolCallId": "t1", "kind": "execute", "title": "x",
        "rawInput": { "command": "rm -r x" } });
    let params = json!({ "sessionId": "S1", "update": call });
    let update = json!({ "jsonrpc": "2.0", "method": "session/update", "params": params });
    chain.agent.send(&update.to_string());
    assert_eq!(chain.chain.editor.message()["method"], "session/update");
    let pid = chain.component_pid();
    signal(pid, KILL);
    assert_gone(pid, "the component");
    assert_ne!(chain.component_pid(), pid, "it was restarted");
    let ask = json!({ "jsonrpc": "2.0", "id": "p", "method": "session/request_permission", "params": {
        "sessionId": "S1", "toolCall": { "toolCallId": "t1" },
        "options": [{ "optionId": "once", "name": "x", "kind": "allow_once" }, { "optionId": "no", "name": "x", "kind": "reject_once" }],
    }});
    chain.agent.send(&ask.to_string());
    let answer = chain.agent_answer("p");
    assert_eq!(answer["result"]["outcome"]["optionId"], "no", "{answer}");
}

#[test]
fn a_wrong_settings_file_stops_the_start() {
    let folder = project("hooks-wrong", &["PreToolUse"], "exit 0");
    fs::write(folder.join("hooks.json"), "{\n  \"hooks\": {\n    \"Stop\": {}\n  }\n}\n")
        .expect("written");
    let output = std::process::Command::new(conductor_path())
        .args(["agent", &built_in(&folder), "demo-agent"])
        .stdin(std::process::Stdio::null())
        .output()
        .expect("it runs");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success());
    let expected = format!("hooks: {}/hooks.json:3: invalid type", folder.display());
    assert!(stderr.contains(&expected), "{stderr}");
}
