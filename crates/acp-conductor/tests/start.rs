//! How a chain starts, and what the editor receives when it does not. The components are scripted.

#![cfg(unix)]

use std::path::Path;

use serde_json::{Value, json};
use testkit::test_chain::{
    Editor, ScriptedComponent, TestChain, TestChainBuilder, assert_reports_failure, directory,
    parse, write_script,
};

fn new_setup() -> TestChainBuilder {
    TestChain::builder(env!("CARGO_BIN_EXE_conductor")).option(&["--grace", "0.3"])
}

const INITIALIZE: &str =
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#;
const RESULT: &str =
    r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"acp":true}}}"#;

/// The editor sends `initialize`, the agent answers, and the editor receives the answer.
fn greet_agent(chain: &mut TestChain, agent: &mut ScriptedComponent) {
    chain.editor.send(INITIALIZE);
    let greeting = agent.request("initialize");
    agent.answer(&greeting, RESULT);
    assert_eq!(chain.editor.line(), format!(r#"{{"jsonrpc":"2.0","id":0,"result":{RESULT}}}"#));
}

fn error_code(editor: &mut Editor, line: &str) -> Value {
    editor.send(line);
    editor.message()["error"]["code"].take()
}

// Components that cannot be started.

/// A component that does not start, its options, and what the error says.
struct Failure {
    options: &'static [&'static str],
    component: String,
    cause: &'static str,
    last_words: &'static str,
}

/// Components that fail, with their files in `place`.
fn failures(place: &Path) -> Vec<Failure> {
    let fails = |component: Value, cause, last_words| Failure {
        options: &[],
        component: component.to_string(),
        cause,
        last_words,
    };
    let named = |command: Value| json!({"name": "bad", "command": command, "args": ["--acp"]});
    let program = |name: &str, body: &str| named(json!(write_script(place, name, body)));
    let plain = place.join("plain");
    std::fs::write(&plain, "not a program").expect("a file");
    let nowhere = json!({"name": "bad", "command": "sh", "cwd": place.join("nowhere")});
    let silent = program("silent", "echo please log in >&2; sleep 1000");
    let mumbles = "echo 'Welcome to Bad 1.0'; exit 2";
    let leaks = "echo no access with ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8 >&2; exit 3";
    let mut failures = vec![
        fails(named(json!("no-such-command")), "could not be started: command not found", ""),
        fails(named(json!(plain)), "the command is not executable", ""),
        fails(nowhere, "its working directory does not exist", ""),
        fails(program("exits", "echo no key found >&2; exit 3"), "with status 3", "no key found"),
        fails(program("leaves", "exit 0"), "exited with status 0", ""),
        fails(program("killed", "echo ouch >&2; kill -9 $$"), "by signal 9 (SIGKILL)", "ouch"),
        fails(program("mumbles", mumbles), "exited with status 2", "Welcome to Bad 1.0"),
        fails(program("leaks", leaks), "with status 3", "no access with [redacted:github]"),
    ];
    failures.push(Failure {
        options: &["--init-timeout", "5"],
        ..fails(silent, "did not answer initialize within 5 s", "please log in")
    });
    failures
}

/// Each failure reaches the editor as the answer to `initialize`, and ends the chain.
fn assert_failures_are_reported(
    place: &str,
    arrange: impl Fn(&TestChainBuilder, &Failure) -> Vec<String>,
) {
    let place = directory(place);
    for failure in failures(&place) {
        let setup = new_setup().option(failure.options);
        let components = arrange(&setup, &failure);
        let mut chain = setup.run("agent", &components);
        chain.editor.send(INITIALIZE);
        let answer = chain.editor.message();
        assert_eq!(answer["id"], 0);
        assert_reports_failure(&answer, "bad", failure.cause, failure.last_words);
        assert_eq!(chain.editor.next_line(), None);
        assert_eq!(chain.conductor.status(), 1);
        let stderr = chain.conductor.whole_stderr();
        let line = stderr.lines().last().unwrap_or_default();
        assert!(line.starts_with("conductor: ") && line.contains(failure.cause), "{stderr}");
    }
    std::fs::remove_dir_all(place).expect("the directory is ours");
}

/// Checklist 101, 107.
#[test]
fn an_agent_that_does_not_start_is_reported_with_the_cause() {
    assert_failures_are_reported("agent", |_, failure| vec![failure.component.clone()]);
}

/// Checklist 101, 107.
#[test]
fn a_proxy_that_does_not_start_is_reported_with_the_cause() {
    let before_an_agent = |setup: &TestChainBuilder, failure: &Failure| {
        vec![failure.component.clone(), setup.scripted_json("agent").to_string()]
    };
    assert_failures_are_reported("proxy", before_an_agent);
}

/// Checklist 101: it is reported at once, although the proxy has not passed the greeting on.
#[test]
fn an_agent_that_does_not_start_is_reported_even_if_the_proxy_is_slow() {
    let setup = new_setup();
    let components = [setup.scripted_json("proxy").to_string(), "no-such-command".into()];
    let mut chain = setup.run("agent", &components);
    chain.editor.send(INITIALIZE);
    assert_reports_failure(&chain.editor.message(), "no-such-command", "command not found", "");
    assert_eq!(chain.conductor.status(), 1);
}

/// Checklist 101, in a chain that is itself a proxy.
#[test]
fn a_parent_conductor_receives_the_error_of_a_proxy_that_does_not_start() {
    let mut chain = new_setup().run("proxy", &["no-such-command".into()]);
    chain.editor.send(&INITIALIZE.replace("initialize", "proxy/initialize"));
    assert_reports_failure(&chain.editor.message(), "no-such-command", "command not found", "");
    assert_eq!(chain.conductor.status(), 1);
}

// Timeouts of the handshake.

/// Checklist 107.
#[test]
fn a_silent_agent_is_reported_and_not_the_proxy_that_waits_for_it() {
    let mut chain = new_setup().option(&["--init-timeout", "5"]).run_named(&["proxy", "agent"]);
    chain.editor.send(INITIALIZE);
    let mut proxy = chain.wait_for_component("proxy");
    let greeting = proxy.request("proxy/initialize");
    proxy.forward("forward", "initialize", &greeting["params"].to_string());
    let silent = "did not answer initialize within 5 s";
    assert_reports_failure(&proxy.message(), "agent", silent, "");
    assert_reports_failure(&chain.editor.message(), "agent", silent, "");
    assert_eq!(chain.conductor.status(), 1);
}

/// Checklist 107.
#[test]
fn a_proxy_that_does_not_pass_the_agents_answer_on_is_reported() {
    let mut chain = new_setup().option(&["--init-timeout", "5"]).run_named(&["proxy", "agent"]);
    chain.editor.send(INITIALIZE);
    let (mut proxy, mut agent) =
        (chain.wait_for_component("proxy"), chain.wait_for_component("agent"));
    let greeting = proxy.request("proxy/initialize");
    proxy.forward("forward", "initialize", &greeting["params"].to_string());
    let greeting = agent.request("initialize");
    agent.answer(&greeting, RESULT);
    assert_eq!(proxy.message()["id"], "forward");
    let answer = chain.editor.message();
    assert_reports_failure(&answer, "proxy", "did not answer initialize within 5 s", "");
    assert_eq!(chain.conductor.status(), 1);
}

// Noise on standard output.

/// Checklist 31.
#[test]
fn noise_on_stdout_is_skipped_and_logged() {
    let mut chain = new_setup().run_named(&["agent"]);
    chain.editor.send(INITIALIZE);
    let mut agent = chain.wait_for_component("agent");
    agent.send("Welcome!\n\n  42 tools loaded\n\"ready\"");
    let greeting = agent.request("initialize");
    agent.send("thinking …");
    agent.answer(&greeting, RESULT);
    agent.execute(json!({ "out_hex": "63616665cc0a" }));
    agent.send(r#"{"jsonrpc":"2.0","method":"session/update","params":{}}"#);
    assert_eq!(chain.editor.line(), format!(r#"{{"jsonrpc":"2.0","id":0,"result":{RESULT}}}"#));
    let update = r#"{"jsonrpc":"2.0","method":"session/update","params":{}}"#;
    assert_eq!(chain.editor.line(), update);
    chain.editor.close();
    agent.exit(0);
    assert_eq!(chain.conductor.status(), 0);
    let stderr = chain.conductor.whole_stderr();
    let noise = ["Welcome!", "42 tools loaded", "ready", "thinking …", "cafe"];
    assert_eq!(stderr.lines().count(), noise.len(), "{stderr}");
    for (line, noise) in stderr.lines().zip(noise) {
        assert!(line.contains("WARN") && line.contains("agent 'agent'"), "{line}");
        assert!(line.contains(noise), "{noise}: {line}");
    }
}

// The handshake.

/// Checklist 2, 5: all components start at the same time, and each is greeted in its turn.
#[test]
fn proxies_are_started_together_and_greeted_one_after_the_other() {
    let names = ["one", "two", "three", "agent"];
    let mut chain = new_setup().run_named(&names);
    chain.editor.send(
        r#"{"jsonrpc":"2.0","id":"e","method":"initialize","params":{"protocolVersion":1,"passed":0}}"#,
    );
    let mut scripted = names.map(|name| chain.wait_for_component(name));
    // The first message of each component carries the mark of the one before it.
    let mut received = Vec::new();
    for (mark, proxy) in scripted[..3].iter_mut().enumerate() {
        let greeting = proxy.request("proxy/initialize");
        // Checklist 1: the params are unchanged but for the conductor's offer.
        let offer = json!({"mcp_acp_transport": true});
        assert_eq!(
            greeting["params"],
            json!({"protocolVersion": 1, "passed": mark, "_meta": offer})
        );
        let passed = json!({"protocolVersion": 1, "passed": mark + 1}).to_string();
        proxy.forward("forward", "initialize", &passed);
        received.push(greeting);
    }
    let greeting = scripted[3].request("initialize");
    assert_eq!(greeting["params"], json!({"protocolVersion": 1, "passed": 3}));
    scripted[3].answer(
        &greeting,
        r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"acp":true}},"back":0}"#,
    );
    for (mark, (proxy, received)) in scripted[..3].iter_mut().zip(&received).rev().enumerate() {
        let answer = proxy.message();
        assert_eq!((&answer["id"], &answer["result"]["back"]), (&json!("forward"), &json!(mark)));
        proxy.answer(received, &json!({"protocolVersion": 1, "back": mark + 1}).to_string());
    }
    let answer = r#"{"jsonrpc":"2.0","id":"e","result":{"back":3,"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"acp":true}}}}"#;
    assert_eq!(parse(&chain.editor.line()), parse(answer));
}

/// Checklist 8, 9: an invalid message before the handshake is refused and starts no component. The editor may
/// try again.
#[test]
fn nothing_is_started_before_a_valid_initialize() {
    let mut chain = new_setup().run_named(&["agent"]);
    let request = r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{}}"#;
    assert_eq!(error_code(&mut chain.editor, request), -32600);
    chain.editor.send(r#"{"jsonrpc":"2.0","method":"session/cancel","params":{}}"#);
    for version in [r#""1""#, "1.5", "-1", "null", "[]"] {
        let request = INITIALIZE.replace(":1}", &format!(":{version}}}"));
        assert_eq!(error_code(&mut chain.editor, &request), -32602, "{version}");
    }
    let without = r#"{"jsonrpc":"2.0","id":1,"method":"initialize"}"#;
    assert_eq!(error_code(&mut chain.editor, without), -32602);
    let children = format!("/proc/{0}/task/{0}/children", chain.conductor.pid());
    let children = std::fs::read_to_string(children).expect("it runs");
    assert_eq!(children.split_whitespace().count(), 1, "only the reaper: {children}");

    chain.editor.send(INITIALIZE);
    let mut agent = chain.wait_for_component("agent");
    let greeting = agent.request("initialize");
    agent.answer(&greeting, RESULT);
    assert_eq!(chain.editor.message()["result"]["protocolVersion"], 1);
}

/// Checklist 10.
#[test]
fn a_second_initialize_starts_no_component_again() {
    let mut chain = new_setup().run_named(&["agent"]);
    let mut agent = chain.initialize(&["agent"]).remove(0);
    greet_agent(&mut chain, &mut agent);
    chain.assert_not_started("agent");
}

/// Checklist 13.
#[test]
fn a_version_that_is_too_high_is_lowered() {
    let mut chain = new_setup().run_named(&["agent"]);
    chain.editor.send(&INITIALIZE.replace(":1}", ":99,\"x\":[1.0]}"));
    let mut agent = chain.wait_for_component("agent");
    let line = agent.line();
    assert!(line.ends_with(r#""params":{"protocolVersion":2,"x":[1.0]}}"#), "{line}");
}

/// Checklist 6.
#[test]
fn an_error_of_a_proxy_reaches_the_editor_which_may_try_again() {
    let mut chain = new_setup().option(&["--init-timeout", "6"]).run_named(&["proxy", "agent"]);
    chain.editor.send(INITIALIZE);
    let mut proxy = chain.wait_for_component("proxy");
    let greeting = proxy.request("proxy/initialize");
    let error = r#"{"code":-32000,"message":"log in first","data":null}"#;
    proxy.answer_error(&greeting, error);
    // It is of no older generation either, and does not answer the last greeting.
    let greeting = proxy.request("_proxy/initialize");
    proxy.answer_error(&greeting, r#"{"code":-32601,"message":"Method not found"}"#);
    proxy.request("initialize");
    assert_eq!(proxy.message()["method"], "$/cancel_request");
    assert_eq!(chain.editor.line(), format!(r#"{{"jsonrpc":"2.0","id":0,"error":{error}}}"#));
    let request = r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{}}"#;
    assert_eq!(error_code(&mut chain.editor, request), -32600);
    chain.editor.send(INITIALIZE);
    proxy.request("proxy/initialize");
}

/// Checklist 6, 7: some agents answer an unknown method with an error, some with a result.
#[test]
fn an_agent_in_the_place_of_a_proxy_is_reported_and_the_editor_may_try_again() {
    let refusals = [
        r#""error":{"code":-32601,"message":"Method not found"}"#,
        r#""result":null"#,
        r#""result":{"error":"what?"}"#,
    ];
    let mut chain = new_setup().run_named(&["plain", "agent"]);
    chain.editor.send(INITIALIZE);
    let mut plain = chain.wait_for_component("plain");
    for refusal in refusals {
        // The conductor tries the greetings of all generations.
        for greeting in ["proxy/initialize", "_proxy/initialize", "initialize"] {
            let greeting = plain.request(greeting);
            plain.send(&format!(r#"{{"jsonrpc":"2.0","id":{},{refusal}}}"#, greeting["id"]));
        }
        let answer = chain.editor.message();
        let message = answer["error"]["message"].as_str().expect("an error");
        assert!(message.starts_with("component 'plain' is not a proxy"), "{message}");
        let request = r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{}}"#;
        assert_eq!(error_code(&mut chain.editor, request), -32600);
        chain.editor.send(INITIALIZE);
    }
    plain.request("proxy/initialize");
}

#[test]
fn the_conductor_initializes_the_successor_if_a_proxy_does_not() {
    let mut chain = new_setup().run_named(&["lazy", "agent"]);
    chain.editor.send(INITIALIZE);
    let (mut lazy, mut agent) =
        (chain.wait_for_component("lazy"), chain.wait_for_component("agent"));
    let greeting = lazy.request("proxy/initialize");
    lazy.answer(
        &greeting,
        r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"acp":true}},"mine":true}"#,
    );
    let greeting = agent.request("initialize");
    assert_eq!(greeting["params"], json!({"protocolVersion": 1}));
    agent.answer(&greeting, RESULT);
    let answer = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"acp":true}},"mine":true}}"#;
    assert_eq!(chain.editor.line(), answer);
    // The chain is up.
    lazy.forward("x", "session/new", "{}");
    let received = agent.request("session/new");
    agent.answer(&received, "{}");
    assert_eq!(lazy.message()["id"], "x");
    chain.conductor.wait_for_stderr_where("the warning", |stderr| {
        let is_it = |line: &str| {
            line.contains("WARN") && line.contains("without initializing its successor")
        };
        stderr.lines().any(is_it)
    });
}

// How components are given on the command line.

/// Runs a scripted component called `agent`. Returns its arguments, environment and directory.
fn start_info_of(setup: TestChainBuilder, component: String) -> Value {
    let mut chain = setup.env("INHERITED", "from the conductor").run("agent", &[component]);
    chain.editor.send(INITIALIZE);
    let hello = chain.wait_for_component("agent").start_info;
    assert_eq!(hello["env"]["INHERITED"], "from the conductor");
    hello
}

#[test]
fn a_component_in_shell_words_gets_its_environment_and_arguments() {
    let setup = new_setup();
    let command = setup.scripted_command("agent");
    let component = format!("A='1 2' B=x=y {command} --flag 'two words' \"it's\" C=3 \\\\");
    let hello = start_info_of(setup, component);
    assert_eq!(hello["args"], json!(["--flag", "two words", "it's", "C=3", "\\"]));
    assert_eq!((&hello["env"]["A"], &hello["env"]["B"]), (&json!("1 2"), &json!("x=y")));
    assert_eq!(hello["env"].get("C"), None);
    assert_eq!(hello["cwd"], json!(std::env::current_dir().expect("a directory")));
}

#[test]
fn a_component_in_json_gets_its_environment_arguments_and_directory() {
    let place = directory("json").canonicalize().expect("it exists");
    let spellings = [json!({"A": "1 2"}), json!([{"name": "A", "value": "1 2"}])];
    for env in spellings {
        let setup = new_setup();
        let mut component = setup.scripted_json("agent");
        component["env"] = env;
        component["cwd"] = json!(place);
        component["args"].as_array_mut().expect("a list").push(json!("two words"));
        let hello = start_info_of(setup, component.to_string());
        assert_eq!(hello["args"], json!(["two words"]));
        assert_eq!(hello["env"]["A"], "1 2");
        assert_eq!(hello["cwd"], json!(place));
    }
    std::fs::remove_dir_all(place).expect("the directory is ours");
}
