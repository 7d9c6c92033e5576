//! A guard never opens: a real process of each guard is killed at every message of a conversation in which the agent
//! tries what the guard must stop, and more often than it is restarted.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testkit::test_chain::{binary, directory, write_script};
use testkit::test_client::{TestClient, text_of};

use crate::{conductor_path, new_setup};

/// The secret that `forbidden_agent` sends in pieces.
const SECRET: &str = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8";

/// A guard and what it has to stop.
struct Guard {
    /// Its files.
    folder: PathBuf,
    /// The arguments of `conductor component`.
    words: Vec<String>,
    prompts: [&'static str; 2],
    /// Checks what both ends of a conversation have seen.
    check: fn(&Seen),
}

/// What a conversation shows at its two ends.
#[derive(Default)]
struct Seen {
    /// The messages that the editor has received.
    editor: Vec<Value>,
    /// The messages that the agent has received.
    agent: Vec<Value>,
}

impl Seen {
    /// The requests of the agent that have reached the editor.
    fn requests(&self, method: &str) -> Vec<&Value> {
        self.editor.iter().filter(|it| it["method"] == method).collect()
    }

    /// The text of the agent's messages.
    fn text(&self) -> String {
        self.editor.iter().filter_map(text_of).collect()
    }

    /// The prompts that have reached the agent.
    fn prompts(&self) -> Vec<&Value> {
        self.agent.iter().filter(|it| it["method"] == "session/prompt").collect()
    }

    /// The calls of the forbidden MCP tool that have reached the editor, which has the MCP server.
    fn forbidden_tool_calls(&self) -> Vec<&Value> {
        let calls = self.requests("mcp/message").into_iter();
        calls.filter(|it| it["params"].to_string().contains("forbidden-tool")).collect()
    }

    /// Whether the agent was allowed to do something.
    fn was_allowed(&self) -> bool {
        self.agent.iter().any(|it| {
            it["result"]["outcome"]["outcome"] == "selected"
                && it["result"]["outcome"]["optionId"] != "no"
        })
    }
}

/// Answers a request of the agent in the way that is the worst for the guard.
fn agree(client: &mut TestClient, request: &Value) {
    let result = match request["method"].as_str() {
        Some("session/request_permission") => {
            json!({ "outcome": { "outcome": "selected", "optionId": "yes" } })
        }
        Some("terminal/create") => json!({ "terminalId": "t" }),
        Some("mcp/connect") => json!({ "connectionId": request["id"] }),
        Some("mcp/message") if request["params"]["connectionId"].is_string() => {
            json!({ "content": [] })
        }
        Some("mcp/message") => json!({ "result": { "content": [] } }),
        Some("fs/read_text_file") => json!({ "content": "" }),
        _ => json!({}),
    };
    let answer = json!({ "jsonrpc": "2.0", "id": request["id"], "result": result });
    client.chain.editor.send(&answer.to_string());
}

/// Opens a session with an MCP server of the editor. If the guard dies on the way, the request fails and is repeated.
fn open_session(client: &mut TestClient) -> String {
    let mut open = || {
        let server = json!({ "type": "acp", "name": "kit", "serverId": "kit-1" });
        let params = json!({ "cwd": "/project", "mcpServers": [server] });
        let id = client.send_request("session/new", params);
        client.wait_for_answer(id)["result"]["sessionId"].as_str().map(str::to_owned)
    };
    open().or_else(open).expect("the guard dies only once")
}

/// Sends a prompt and agrees to everything until it is answered. Returns the answer.
fn run_turn(client: &mut TestClient, session: &str, prompt: &str, seen: &mut Seen) -> Value {
    let id = client.send_prompt(session, prompt);
    while !client.is_answered(id) {
        assert!(client.read_message(), "{}", client.chain.conductor.stderr_so_far());
        for message in std::mem::take(&mut client.received) {
            if message.get("id").is_some() {
                agree(client, &message);
            }
            seen.editor.push(message);
        }
    }
    client.wait_for_answer(id)
}

fn quoted(path: &Path) -> String {
    path.display().to_string()
}

/// Starts a chain of this guard and `forbidden_agent`, which writes a log.
fn start(guard: &Guard, name: &str, component: &Value, log: &Path, options: &[&str]) -> TestClient {
    let agent = json!({ "command": quoted(&binary("forbidden_agent")), "args": [quoted(log)] });
    let setup = new_setup().option(&["--restart-delay", "0..0", "--notices", "off"]);
    let setup = options.chunks(2).fold(setup, |setup, option| setup.option(option));
    let setup = setup.env("XDG_STATE_HOME", &quoted(&guard.folder.join(format!("state-{name}"))));
    let folder = guard.folder.file_name().expect("a name").to_string_lossy();
    let components = [component.to_string(), agent.to_string()];
    TestClient::start(setup, &format!("{folder}-{name}"), &components)
}

/// Ends a chain, and reads what the agent has received.
fn finish(client: &mut TestClient, seen: &mut Seen, log: &Path) -> i32 {
    let status = client.shut_down();
    seen.editor.append(&mut client.received);
    let agent = std::fs::read_to_string(log).expect("the agent's log");
    seen.agent = agent.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    status
}

/// Runs two turns. The guard dies at the line `line`. Returns `None` if the conversation has fewer lines.
fn converse(guard: &Guard, line: u32) -> Option<Seen> {
    let marker = guard.folder.join(format!("died-{line}"));
    let log = guard.folder.join(format!("log-{line}"));
    let mut words = vec![quoted(&marker), line.to_string(), conductor_path().to_owned()];
    words.push("component".to_owned());
    words.extend(guard.words.clone());
    let component =
        json!({ "command": quoted(&binary("dies_at")), "args": words, "name": "guard" });
    let mut client = start(guard, &line.to_string(), &component, &log, &[]);
    let mut seen = Seen::default();
    let session = open_session(&mut client);
    for prompt in guard.prompts {
        run_turn(&mut client, &session, prompt, &mut seen);
    }
    finish(&mut client, &mut seen, &log);
    marker.exists().then_some(seen)
}

/// Kills the guard at every line of the conversation, and checks what both ends have seen.
fn die_everywhere(guard: &Guard) {
    let mut died = 0;
    for line in 1.. {
        let Some(seen) = converse(guard, line) else { break };
        (guard.check)(&seen);
        died = line;
    }
    assert!(died >= 8, "{:?} died only at {died} lines", guard.words);
}

/// Kills the guard more often than it is restarted. The chain ends, and nothing passes.
fn die_too_often(guard: &Guard) {
    let log = guard.folder.join("log-often");
    let words: Vec<String> =
        std::iter::once("component".to_owned()).chain(guard.words.clone()).collect();
    let component = json!({ "command": conductor_path(), "args": words, "name": "guard" });
    let mut client = start(guard, "often", &component, &log, &["--restarts", "2/3600"]);
    let mut seen = Seen::default();
    let session = open_session(&mut client);
    for prompt in guard.prompts {
        assert_eq!(client.component_status(1)["guard"], true, "{}", client.status());
        client.kill_and_wait_for_restart(1);
        run_turn(&mut client, &session, prompt, &mut seen);
    }
    client.kill(1);
    let status = client.chain.conductor.status();
    assert_eq!(status, 1, "{}", client.chain.conductor.stderr_so_far());
    finish(&mut client, &mut seen, &log);
    (guard.check)(&seen);
}

/// A new folder for a test.
fn folder(name: &str) -> PathBuf {
    let folder = directory(name);
    std::fs::create_dir_all(&folder).expect("a new folder");
    folder
}

/// The options with which a guard starts.
fn options(guard: &str, folder: &Path) -> Vec<String> {
    let path = |name: &str| folder.join(name).display().to_string();
    match guard {
        "permissions" => {
            std::fs::write(folder.join("rules.toml"), "version = 1\ndefault = \"ask\"\n")
                .expect("written");
            words(&["--rules", &path("rules.toml")])
        }
        "hooks" => {
            std::fs::write(folder.join("settings.json"), r#"{"hooks":{}}"#).expect("written");
            words(&["--no-user-hooks", "--settings", &path("settings.json")])
        }
        "rate-limit" => words(&["--prompts-per-minute", "1"]),
        "budget" => words(&["--tokens-per-day", "10", "--ledger", &path("ledger")]),
        _ => Vec::new(),
    }
}

/// Nothing but its answer to `initialize` tells the conductor that a program is a guard.
#[test]
fn every_built_in_guard_that_runs_as_a_program_declares_itself_a_guard() {
    let folder = folder("guard-declared");
    for entry in components::catalog::ALL.iter().filter(|entry| entry.guard) {
        let mut words = vec!["component".to_owned(), entry.name.to_owned()];
        words.extend(options(entry.name, &folder));
        let program = json!({ "command": conductor_path(), "args": words }).to_string();
        let output = std::process::Command::new(conductor_path())
            .args(["agent", "--explain", "--json", &program, "demo-agent"])
            .output()
            .expect("it runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        let explained: Value = serde_json::from_slice(&output.stdout).expect(&stderr);
        assert_eq!(explained["components"][0]["guard"], true, "{}: {stderr}", entry.name);
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// A budget that another conversation has spent.
fn budget(name: &str) -> Guard {
    let folder = folder(name);
    let ledger = quoted(&folder.join("ledger"));
    let words = words(&["budget", "--tokens-per-day", "10", "--ledger", &ledger]);
    let check = |seen: &Seen| assert_eq!(seen.prompts().len(), 0, "{:?}", seen.agent);
    let spend = Guard { folder, words, prompts: ["spend", "too late"], check };
    // No conversation has so many lines, so the guard lives.
    assert!(converse(&spend, 10_000).is_none());
    Guard { prompts: ["again", "and again"], ..spend }
}

#[test]
fn a_spent_budget_stays_spent_wherever_the_guard_dies() {
    die_everywhere(&budget("guard-budget"));
}

#[test]
fn a_spent_budget_stays_spent_when_the_guard_dies_too_often() {
    die_too_often(&budget("guard-budget-often"));
}

/// A guard that was killed starts as if its limit were used up.
fn rate_limit(name: &str) -> Guard {
    let limit = ["rate-limit", "--prompts-per-minute", "1", "--when-reached", "refuse"];
    Guard {
        folder: folder(name),
        words: words(&limit),
        prompts: ["harmless", "harmless"],
        check: |seen| assert!(seen.prompts().len() <= 1, "{:?}", seen.agent),
    }
}

#[test]
fn a_rate_limit_is_not_exceeded_wherever_the_guard_dies() {
    die_everywhere(&rate_limit("guard-rate-limit"));
}

#[test]
fn a_rate_limit_is_not_exceeded_when_the_guard_dies_too_often() {
    die_too_often(&rate_limit("guard-rate-limit-often"));
}

/// The terminals of the agent never end, so it gets only one.
fn rate_limit_at_once(name: &str) -> Guard {
    let limit = ["rate-limit", "--tool-calls-at-once", "1", "--when-reached", "refuse"];
    Guard {
        folder: folder(name),
        words: words(&limit),
        prompts: ["one", "two"],
        check: |seen| {
            let terminals = seen.requests("terminal/create").len();
            assert!(terminals <= 1, "{:?}", seen.editor);
        },
    }
}

#[test]
fn a_limit_of_tool_calls_at_once_is_not_exceeded_wherever_the_guard_dies() {
    die_everywhere(&rate_limit_at_once("guard-at-once"));
}

#[test]
fn a_limit_of_tool_calls_at_once_is_not_exceeded_when_the_guard_dies_too_often() {
    die_too_often(&rate_limit_at_once("guard-at-once-often"));
}

/// Nothing that a hook or a rule forbids is allowed, and no forbidden request reaches the editor.
fn assert_nothing_forbidden(seen: &Seen) {
    assert!(!seen.was_allowed(), "{:?}", seen.agent);
    for method in ["session/request_permission", "fs/write_text_file", "terminal/create"] {
        assert!(seen.requests(method).is_empty(), "{:?}", seen.editor);
    }
    assert!(seen.forbidden_tool_calls().is_empty(), "{:?}", seen.editor);
}

fn hooks(name: &str) -> Guard {
    let folder = folder(name);
    let script = "case \"$(cat)\" in *forbidden*|*.env*) echo no >&2; exit 2;; esac";
    let command =
        json!([{ "type": "command", "command": write_script(&folder, "hook.sh", script) }]);
    let matcher = |names: &str| json!({ "matcher": names, "hooks": command });
    let settings = json!({ "hooks": {
        "PreToolUse": [matcher("Bash"), matcher("Write|Edit"), matcher("mcp__kit__.*")],
        "UserPromptSubmit": [{ "hooks": command }],
    }});
    let path = folder.join("settings.json");
    std::fs::write(&path, settings.to_string()).expect("written");
    Guard {
        words: words(&["hooks", "--no-user-hooks", "--settings", &quoted(&path)]),
        folder,
        prompts: ["forbidden-prompt", "fine"],
        check: |seen| {
            assert_nothing_forbidden(seen);
            let prompts = format!("{:?}", seen.prompts());
            assert!(!prompts.contains("forbidden-prompt"), "{prompts}");
        },
    }
}

#[test]
fn a_hook_blocks_wherever_the_guard_dies() {
    die_everywhere(&hooks("guard-hooks"));
}

#[test]
fn a_hook_blocks_when_the_guard_dies_too_often() {
    die_too_often(&hooks("guard-hooks-often"));
}

fn filter(name: &str) -> Guard {
    Guard {
        folder: folder(name),
        words: words(&["filter"]),
        prompts: ["my token is ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8", "harmless"],
        check: |seen| {
            assert!(!seen.text().contains(SECRET), "{}", seen.text());
            let agent = format!("{:?}", seen.agent);
            assert!(!agent.contains(SECRET), "{agent}");
        },
    }
}

#[test]
fn a_secret_stays_hidden_wherever_the_guard_dies() {
    die_everywhere(&filter("guard-filter"));
}

#[test]
fn a_secret_stays_hidden_when_the_guard_dies_too_often() {
    die_too_often(&filter("guard-filter-often"));
}

fn permissions(name: &str) -> Guard {
    let folder = folder(name);
    let rules = folder.join("rules.toml");
    let text = "version = 1\ndefault = \"allow\"\n[[rule]]\ndecision = \"deny\"\n\
                run = [\"forbidden-command\"]\nwrite = [\".env\"]\n\
                [[rule]]\ndecision = \"deny\"\ntool = [\"mcp__kit__forbidden-tool\"]\n";
    std::fs::write(&rules, text).expect("written");
    Guard {
        words: words(&["permissions", "--rules", &quoted(&rules)]),
        folder,
        prompts: ["one", "two"],
        check: assert_nothing_forbidden,
    }
}

#[test]
fn a_rule_denies_wherever_the_guard_dies() {
    die_everywhere(&permissions("guard-permissions"));
}

#[test]
fn a_rule_denies_when_the_guard_dies_too_often() {
    die_too_often(&permissions("guard-permissions-often"));
}

/// A restarted guard knows the server of a connection that the agent has opened before, so what the rules allow is not
/// denied.
#[test]
fn a_restarted_guard_knows_the_open_mcp_connections() {
    let guard = permissions("guard-connections");
    let log = guard.folder.join("log");
    let words: Vec<String> =
        std::iter::once("component".to_owned()).chain(guard.words.clone()).collect();
    let component = json!({ "command": conductor_path(), "args": words, "name": "guard" });
    let mut client = start(&guard, "one", &component, &log, &[]);
    let mut seen = Seen::default();
    let session = open_session(&mut client);
    run_turn(&mut client, &session, "harmless", &mut seen);
    client.kill_and_wait_for_restart(1);
    run_turn(&mut client, &session, "harmless", &mut seen);
    finish(&mut client, &mut seen, &log);
    let calls = seen.requests("mcp/message").into_iter();
    let calls = calls.filter(|it| it["params"].to_string().contains("harmless-tool"));
    assert_eq!(calls.count(), 2, "{:?}", seen.agent);
}
