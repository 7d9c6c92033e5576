//! The built-in components: by name in a chain, as programs, and under the reference conductor.

mod budget;
mod cache;
mod filter;
mod guards;
mod hooks;
mod killed;
mod metrics;
mod permissions;
mod rate_limit;
mod remind;
mod scp;
mod sparkle;

use std::process::Command;

use serde_json::{Value, json};
use testkit::peers::Peers;
use testkit::test_chain::{
    ScriptedComponent, TestChain, TestChainBuilder, binary, directory, write_script,
};

fn new_setup() -> TestChainBuilder {
    TestChain::builder(env!("CARGO_BIN_EXE_conductor"))
}

fn conductor_path() -> &'static str {
    env!("CARGO_BIN_EXE_conductor")
}

/// Starts a chain of these components and an agent that supports MCP over ACP, with a session.
fn start_chain(setup: TestChainBuilder, proxies: &[&str]) -> (TestChain, ScriptedComponent) {
    let mut components: Vec<String> = proxies.iter().map(|&it| it.to_owned()).collect();
    components.push(setup.scripted_command("agent"));
    let mut chain = setup.run("agent", &components);
    let mut agent = greet_agent(&mut chain);
    new_session(&mut chain, &mut agent);
    (chain, agent)
}

fn greet_agent(chain: &mut TestChain) -> ScriptedComponent {
    greet_agent_with(
        chain,
        r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"acp":true}}}"#,
    )
}

/// The editor greets the agent, and the agent answers with this result.
fn greet_agent_with(chain: &mut TestChain, result: &str) -> ScriptedComponent {
    let greeting = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": { "protocolVersion": 1 } });
    chain.editor.send(&greeting.to_string());
    let mut agent = chain.wait_for_component("agent");
    let greeting = agent.request("initialize");
    agent.answer(&greeting, result);
    agent
}

fn new_session(chain: &mut TestChain, agent: &mut ScriptedComponent) {
    assert_eq!(chain.editor.message()["result"]["protocolVersion"], 1);
    let new = json!({ "jsonrpc": "2.0", "id": 1, "method": "session/new", "params": { "cwd": "/", "mcpServers": [] } });
    chain.editor.send(&new.to_string());
    let new = agent.request("session/new");
    agent.answer(&new, r#"{"sessionId":"S1"}"#);
    assert_eq!(chain.editor.message()["result"]["sessionId"], "S1");
}

fn prompt(text: &str) -> String {
    json!({ "jsonrpc": "2.0", "id": 2, "method": "session/prompt", "params": {
        "sessionId": "S1", "prompt": [{ "type": "text", "text": text }],
    }})
    .to_string()
}

/// The agent receives a prompt and ends the turn. Returns the texts of the prompt.
fn receive_prompt(agent: &mut ScriptedComponent) -> Vec<String> {
    let received = agent.request("session/prompt");
    agent.answer(&received, r#"{"stopReason":"end_turn"}"#);
    let blocks = received["params"]["prompt"].as_array().expect("a prompt");
    blocks.iter().map(|block| block["text"].as_str().expect("text").to_owned()).collect()
}

#[test]
fn a_built_in_component_can_be_used_by_its_name() {
    let (mut chain, mut agent) =
        start_chain(new_setup(), &["context --text one", "builtin:context --text two"]);
    chain.editor.send(&prompt("hi"));
    assert_eq!(receive_prompt(&mut agent), ["two", "one", "hi"]);
    assert_eq!(chain.editor.message()["result"]["stopReason"], "end_turn");
    chain.editor.close();
    assert_eq!(chain.conductor.status(), 0);
}

#[test]
fn a_built_in_component_also_works_as_a_program() {
    let context = format!("{} component context --text one", conductor_path());
    let (mut chain, mut agent) = start_chain(new_setup(), &[&context]);
    chain.editor.send(&prompt("hi"));
    assert_eq!(receive_prompt(&mut agent), ["one", "hi"]);
    drop(chain);

    let reference = Peers::load().command("reference").to_owned();
    let (mut chain, mut agent) = start_chain(TestChain::builder(reference), &[&context]);
    chain.editor.send(&prompt("hi"));
    assert_eq!(receive_prompt(&mut agent), ["one", "hi"]);
}

/// A command of the same name takes precedence, and the log reports that.
#[test]
fn a_command_on_the_path_takes_precedence_over_a_built_in_component() {
    let bin = directory("components-path");
    write_script(&bin, "context", &format!("exec '{}'", binary("transparent").display()));
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("a PATH"));
    let (mut chain, mut agent) =
        start_chain(new_setup().env("PATH", &path), &["context", "builtin:context --text two"]);
    chain.editor.send(&prompt("hi"));
    assert_eq!(receive_prompt(&mut agent), ["two", "hi"]);
    chain.conductor.wait_for_stderr("builtin:context");
}

#[test]
fn a_command_on_the_path_does_not_take_the_place_of_a_guard() {
    let bin = directory("components-guard-path");
    let command =
        write_script(&bin, "filter", &format!("exec '{}'", binary("transparent").display()));
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("a PATH"));
    let run = |component: &str| {
        let mut conductor = Command::new(conductor_path());
        conductor.env("PATH", &path).args(["agent", component, "demo-agent"]);
        conductor.stdin(std::process::Stdio::null()).output().expect("it runs")
    };
    let output = run("filter");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{stderr}");
    assert!(stderr.contains("write builtin:filter to use the guard"), "{stderr}");
    for component in ["builtin:filter", &command.display().to_string()] {
        let output = run(component);
        assert!(output.status.success(), "{output:?}");
    }
}

#[test]
fn wrong_component_arguments_are_reported_before_anything_starts() {
    for (component, why) in [
        ("builtin:nothing", "there is no built-in component 'nothing'"),
        ("sparkle --nonsense", "--nonsense"),
        ("log --file /nowhere/at/all", "/nowhere/at/all cannot be written"),
    ] {
        let output = Command::new(conductor_path())
            .args(["agent", component, "cat"])
            .output()
            .expect("it runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(why) && output.stdout.is_empty(), "{stderr}");
    }
}

#[test]
fn the_list_and_the_help_show_every_built_in_component() {
    let print = |args: &[&str]| {
        let output = Command::new(conductor_path()).args(args).output().expect("it runs");
        assert!(output.status.success(), "{args:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let list = print(&["components"]);
    for name in ["sparkle", "context", "log", "permissions", "budget"] {
        assert!(list.lines().any(|line| line.starts_with(name)), "{list}");
        let help = print(&["component", name, "--help"]);
        assert!(help.contains(&format!("conductor component {name}")), "{help}");
    }
}

#[test]
fn the_log_component_writes_a_line_for_each_message() {
    let file = directory("components-log").join("traffic.jsonl");
    let log = format!("log --level debug --file {}", file.display());
    let (mut chain, mut agent) = start_chain(new_setup(), &[&log]);
    chain.editor.send(&prompt("hi"));
    receive_prompt(&mut agent);
    chain.editor.message();
    let lines = std::fs::read_to_string(&file).expect("a log");
    let lines: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let kinds: Vec<_> =
        lines.iter().map(|line| (line["kind"].as_str(), line["method"].as_str())).collect();
    let prompt = Some("session/prompt");
    assert_eq!(kinds[4..], [(Some("request"), prompt), (Some("result"), prompt)]);
}

/// A component that panics ends like a program that crashes: the error of its chain names it and the cause.
#[test]
fn two_chains_in_one_process_are_independent() {
    let run = |text: &'static str| {
        let in_process = acp_conductor::InProcess::of(move || {
            acp_proxy::Agent::new("echo")
                .on_raw_request("initialize", async move |_, _| {
                    Ok(acp_proxy::Json::trusted(format!(
                        r#"{{"protocolVersion":1,"who":"{text}"}}"#
                    )))
                })
                .on_raw_request("_panic", async |_, _| panic!("as asked"))
        });
        let mut spec = acp_conductor::Spec::in_process(text, in_process);
        spec.on_crash = Some(acp_conductor::failure_policy::OnCrash::Stop);
        let config = acp_conductor::Config::new(acp_conductor::Mode::Agent, vec![spec]);
        let (editor_end, chain_end) = tokio::io::duplex(64 * 1024);
        let (reader, writer) = tokio::io::split(chain_end);
        let streams: (acp_conductor::link::Reader, acp_conductor::link::Writer) =
            (Box::new(reader), Box::new(writer));
        (editor_end, acp_conductor::run(config, streams, std::future::pending()))
    };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
        let ((one, first), (two, second)) = (run("one"), run("two"));
        let converse = async |stream: tokio::io::DuplexStream, who: &str| {
            let (reader, mut writer) = tokio::io::split(stream);
            let mut lines = BufReader::new(reader).lines();
            for (id, method) in [(0, "initialize"), (1, "_panic")] {
                let params = json!({ "protocolVersion": 1 });
                let line =
                    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
                writer.write_all(format!("{line}\n").as_bytes()).await.expect("a chain");
                let line = lines.next_line().await.expect("a chain").expect("an answer");
                match id {
                    0 => assert!(line.contains(&format!(r#""who":"{who}""#)), "{line}"),
                    _ => assert!(line.contains("as asked") && line.contains(who), "{line}"),
                }
            }
        };
        let (first, second, (), ()) =
            tokio::join!(first, second, converse(one, "one"), converse(two, "two"));
        for ending in [first, second] {
            assert!(
                matches!(&ending, acp_conductor::Ending::Failed(why) if why.contains("as asked")),
                "{ending:?}"
            );
        }
    });
}
