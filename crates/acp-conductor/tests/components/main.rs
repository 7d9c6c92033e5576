//! The components that come with conductor: by name in a chain, as programs, under other conductors,
//! and what they are for.

mod sparkle;

use std::process::Command;

use serde_json::{Value, json};
use testkit::peers::Peers;
use testkit::test_chain::{
    ScriptedComponent, TestChain, TestChainBuilder, binary, directory, write_script,
};

fn test_chain() -> TestChainBuilder {
    TestChain::builder(env!("CARGO_BIN_EXE_conductor"))
}

fn ours() -> &'static str {
    env!("CARGO_BIN_EXE_conductor")
}

/// A chain of these components before an agent that takes MCP over ACP, greeted.
fn start_chain(setup: TestChainBuilder, proxies: &[&str]) -> (TestChain, ScriptedComponent) {
    let mut components: Vec<String> = proxies.iter().map(|&it| it.to_owned()).collect();
    components.push(setup.scripted_command("agent"));
    let mut chain = setup.run("agent", &components);
    let mut agent = greet(&mut chain);
    settle(&mut chain, &mut agent);
    (chain, agent)
}

fn greet(chain: &mut TestChain) -> ScriptedComponent {
    let greeting = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": { "protocolVersion": 1 } });
    chain.editor.send(&greeting.to_string());
    let mut agent = chain.wait_for_component("agent");
    let greeting = agent.request("initialize");
    agent.answer(
        &greeting,
        r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"acp":true}}}"#,
    );
    agent
}

fn settle(chain: &mut TestChain, agent: &mut ScriptedComponent) {
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

/// The texts of the next prompt that the agent gets, which ends its turn.
fn texts(agent: &mut ScriptedComponent) -> Vec<String> {
    let asked = agent.request("session/prompt");
    agent.answer(&asked, r#"{"stopReason":"end_turn"}"#);
    let blocks = asked["params"]["prompt"].as_array().expect("a prompt");
    blocks.iter().map(|block| block["text"].as_str().expect("text").to_owned()).collect()
}

#[test]
fn a_component_is_used_by_its_name() {
    let (mut chain, mut agent) =
        start_chain(test_chain(), &["context --text one", "builtin:context --text two"]);
    chain.editor.send(&prompt("hi"));
    assert_eq!(texts(&mut agent), ["two", "one", "hi"]);
    assert_eq!(chain.editor.message()["result"]["stopReason"], "end_turn");
    chain.editor.close();
    assert_eq!(chain.conductor.status(), 0);
}

#[test]
fn a_component_is_a_program_too_under_ours_and_the_reference() {
    let context = format!("{} component context --text one", ours());
    let (mut chain, mut agent) = start_chain(test_chain(), &[&context]);
    chain.editor.send(&prompt("hi"));
    assert_eq!(texts(&mut agent), ["one", "hi"]);
    drop(chain);

    let reference = Peers::load().command("reference").to_owned();
    let (mut chain, mut agent) = start_chain(TestChain::builder(reference), &[&context]);
    chain.editor.send(&prompt("hi"));
    assert_eq!(texts(&mut agent), ["one", "hi"]);
}

/// A command of the same name comes first, and the log says so.
#[test]
fn a_command_on_the_path_comes_first() {
    let bin = directory("components-path");
    write_script(&bin, "context", &format!("exec '{}'", binary("transparent").display()));
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").expect("a PATH"));
    let (mut chain, mut agent) =
        start_chain(test_chain().env("PATH", &path), &["context", "builtin:context --text two"]);
    chain.editor.send(&prompt("hi"));
    assert_eq!(texts(&mut agent), ["two", "hi"]);
    let said = chain.conductor.stderr();
    assert!(said.contains("builtin:context"), "{said}");
}

#[test]
fn mistakes_are_told_before_anything_starts() {
    for (component, why) in [
        ("builtin:nothing", "there is no built-in component 'nothing'"),
        ("sparkle --nonsense", "--nonsense"),
        ("log --file /nowhere/at/all", "/nowhere/at/all cannot be written"),
    ] {
        let output =
            Command::new(ours()).args(["agent", component, "cat"]).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(why) && output.stdout.is_empty(), "{said}");
    }
}

#[test]
fn the_list_and_the_help_tell_what_there_is() {
    let say = |args: &[&str]| {
        let output = Command::new(ours()).args(args).output().expect("it runs");
        assert!(output.status.success(), "{args:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let list = say(&["components"]);
    for name in ["sparkle", "context", "log"] {
        assert!(list.lines().any(|line| line.starts_with(name)), "{list}");
        let help = say(&["component", name, "--help"]);
        assert!(help.contains(&format!("conductor component {name}")), "{help}");
    }
}

#[test]
fn the_log_has_a_line_for_each_message() {
    let file = directory("components-log").join("traffic.jsonl");
    let log = format!("log --level debug --file {}", file.display());
    let (mut chain, mut agent) = start_chain(test_chain(), &[&log]);
    chain.editor.send(&prompt("hi"));
    texts(&mut agent);
    chain.editor.message();
    let lines = std::fs::read_to_string(&file).expect("a log");
    let lines: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let kinds: Vec<_> =
        lines.iter().map(|line| (line["kind"].as_str(), line["method"].as_str())).collect();
    let prompt = Some("session/prompt");
    assert_eq!(kinds[4..], [(Some("request"), prompt), (Some("result"), prompt)]);
}

/// And a component that panics ends like a program that crashes: its chain says which and why.
#[test]
fn two_chains_in_one_process_do_not_meet() {
    let run = |text: &'static str| {
        let in_process = acp_conductor::InProcess::of(move || {
            acp_proxy::Proxy::agent("echo")
                .on_request(acp_proxy::Side::Editor, "initialize", async move |_, _| {
                    Ok(acp_proxy::Json::trusted(format!(
                        r#"{{"protocolVersion":1,"who":"{text}"}}"#
                    )))
                })
                .on_request(acp_proxy::Side::Editor, "_panic", async |_, _| panic!("as asked"))
        });
        let mut spec = acp_conductor::Spec::in_process(text, in_process);
        spec.on_crash = Some(acp_conductor::failure_policy::OnCrash::Stop);
        let config = acp_conductor::Config::new(acp_conductor::Mode::Agent, vec![spec]);
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        let (reader, writer) = tokio::io::split(theirs);
        let streams: (acp_conductor::link::Reader, acp_conductor::link::Writer) =
            (Box::new(reader), Box::new(writer));
        (ours, acp_conductor::run(config, streams, std::future::pending()))
    };
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
        let ((one, first), (two, second)) = (run("one"), run("two"));
        let talk = async |stream: tokio::io::DuplexStream, who: &str| {
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
            tokio::join!(first, second, talk(one, "one"), talk(two, "two"));
        for ending in [first, second] {
            assert!(
                matches!(&ending, acp_conductor::Ending::Failed(why) if why.contains("as asked")),
                "{ending:?}"
            );
        }
    });
}
