//! `conductor agent --explain`: the generation of each component.

use std::process::{Command, Stdio};

use serde_json::{Value, json};
use testkit::test_chain::{TestChain, TestChainBuilder, assert_gone, binary};

use crate::generation::{P3, P4};
use crate::scripted_proxy::{AGENT_RESULT, ScriptedProxy};
use crate::{SHORT_GRACE, new_setup};

/// Explains a chain of a P4 proxy, a P3 proxy and an agent. Returns its output, its standard error and its
/// status.
fn explain_mixed_chain(options: &[&str]) -> (String, String, i32) {
    let mut chain =
        new_setup().option(&SHORT_GRACE).option(options).run_named(&["old", "older", "agent"]);
    let (mut old, mut older) = (
        ScriptedProxy::wait_for(&mut chain, "old", &P4),
        ScriptedProxy::wait_for(&mut chain, "older", &P3),
    );
    let first = old.expect_greeting(&["proxy/initialize", "_proxy/initialize"]);
    old.forward_greeting(&first);
    let second = older.expect_greeting(&["proxy/initialize", "initialize"]);
    older.forward_greeting(&second);
    let mut agent = chain.wait_for_component("agent");
    let received = agent.request("initialize");
    agent.answer(
        &received,
        r#"{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"mcpCapabilities":{"http":true,"sse":false}}}"#,
    );
    older.accept_greeting(&second);
    old.accept_greeting(&first);
    let output = read_all(&mut chain);
    let status = chain.conductor.status();
    for pid in [old.pid, older.pid, agent.pid] {
        assert_gone(pid, "a component");
    }
    (output, chain.conductor.whole_stderr(), status)
}

fn read_all(chain: &mut TestChain) -> String {
    let mut text = String::new();
    while let Some(line) = chain.editor.next_line() {
        text += &line;
        text.push('\n');
    }
    text
}

#[test]
fn explain_shows_a_mixed_chain_as_a_table() {
    let (table, stderr, status) = explain_mixed_chain(&["--explain"]);
    assert_eq!((status, stderr.as_str()), (0, ""), "{table}");
    let row = |name: &str| -> Vec<String> {
        let line = table.lines().find(|line| line.split_whitespace().next() == Some(name));
        line.unwrap_or_else(|| panic!("{name}: {table}"))
            .split_whitespace()
            .map(str::to_owned)
            .collect()
    };
    assert_eq!(row("old")[..6], ["old", "proxy", "P4", "1", "→", "1"]);
    assert_eq!(row("older")[..6], ["older", "proxy", "P3", "1", "→", "1"]);
    assert_eq!(row("agent")[..3], ["agent", "agent", "plain"]);
    let agent = row("agent").join(" ");
    assert!(agent.contains("stdio, http") && agent.contains("loadSession"), "{agent}");
    assert!(!agent.contains("sse"), "{agent}");
    assert!(table.contains("the chain is up"), "{table}");
}

#[test]
fn explain_shows_a_mixed_chain_as_json() {
    let (text, stderr, status) = explain_mixed_chain(&["--explain", "--json"]);
    assert_eq!((status, stderr.as_str()), (0, ""), "{text}");
    let report: Value = serde_json::from_str(&text).expect("JSON");
    assert!(report.get("error").is_none(), "{report}");
    let components = report["components"].as_array().expect("a list");
    let brief: Vec<Value> = components
        .iter()
        .map(|row| json!([row["name"], row["role"], row["dialect"], row["answeredVersion"]]))
        .collect();
    assert_eq!(
        brief,
        [
            json!(["old", "proxy", "P4", 1]),
            json!(["older", "proxy", "P3", 1]),
            json!(["agent", "agent", "plain", 1]),
        ]
    );
    assert_eq!(components[2]["mcp"], json!(["stdio", "http"]));
    assert!(components[0]["command"].as_str().is_some_and(|it| it.contains("scripted")));
}

/// When the handshake fails, the report names the component that caused it, and no process stays behind.
#[test]
fn explain_names_the_component_that_breaks_the_handshake() {
    for options in [&["--explain"][..], &["--explain", "--json"]] {
        let mut chain =
            new_setup().option(&SHORT_GRACE).option(options).run_named(&["eliza", "agent"]);
        let (mut eliza, agent) =
            (chain.wait_for_component("eliza"), chain.wait_for_component("agent"));
        for method in ["proxy/initialize", "_proxy/initialize"] {
            let greeting = eliza.request(method);
            eliza.answer_error(&greeting, r#"{"code":-32601,"message":"Method not found"}"#);
        }
        let greeting = eliza.request("initialize");
        eliza.answer(&greeting, AGENT_RESULT);
        let output = read_all(&mut chain);
        assert_eq!(chain.conductor.status(), 1, "{output}");
        let why = "component 'eliza' is not a proxy";
        assert!(chain.conductor.whole_stderr().contains(why), "{}", chain.conductor.whole_stderr());
        assert!(output.contains(why) && output.contains("was not sent initialize"), "{output}");
        if options.len() == 2 {
            let report: Value = serde_json::from_str(&output).expect("JSON");
            assert!(report["error"].as_str().is_some_and(|it| it.contains(why)), "{report}");
        }
        assert_gone(eliza.pid, "the component");
        assert_gone(agent.pid, "the agent");
    }
}

#[test]
fn explain_names_a_component_that_cannot_start_or_exits() {
    let output = Command::new(env!("CARGO_BIN_EXE_conductor"))
        .args(["agent", "--explain", "no-such-proxy", "no-such-agent"])
        .stdin(Stdio::null())
        .output()
        .expect("the conductor starts");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("'no-such-proxy'") && stderr.contains("command not found"), "{stderr}");

    let mut chain = new_setup().option(&SHORT_GRACE).option(&["--explain"]).run_named(&["broken"]);
    let mut broken = chain.wait_for_component("broken");
    broken.request("initialize");
    broken.write_stderr("no key\n");
    broken.exit(9);
    let table = read_all(&mut chain);
    assert_eq!(chain.conductor.status(), 1);
    assert!(table.contains("the chain failed to start"), "{table}");
    let stderr = chain.conductor.whole_stderr();
    assert!(stderr.contains("'broken'") && stderr.contains("status 9"), "{stderr}");
}

/// Control characters from a component do not reach the terminal.
#[test]
fn explain_prints_no_control_characters_of_components() {
    let evil = "\\u001b]0;title\\u0007\\u001b[2J\u{9b}6n\u{202e}\\r\\nmine";
    for options in [&["--explain"][..], &["--explain", "--json"]] {
        for fails in [false, true] {
            let mut chain = new_setup().option(&SHORT_GRACE).option(options).run_named(&["agent"]);
            let mut agent = chain.wait_for_component("agent");
            let greeting = agent.request("initialize");
            match fails {
                false => {
                    let capabilities = format!(r#"{{"{evil}":true}}"#);
                    let result = format!(
                        r#"{{"protocolVersion":1,"agentCapabilities":{capabilities},"_meta":{capabilities}}}"#
                    );
                    agent.answer(&greeting, &result);
                }
                true => {
                    agent.answer_error(&greeting, &format!(r#"{{"code":1,"message":"{evil}"}}"#))
                }
            }
            let output = read_all(&mut chain);
            chain.conductor.status();
            let text = output + &chain.conductor.whole_stderr();
            assert!(text.contains("mine"), "{text}");
            let harmless = |it: char| it == '\n' || !it.is_control() && it != '\u{202e}';
            assert!(text.chars().all(harmless), "{text:?}");
        }
    }
}

/// The components can be real programs and nested chains.
#[test]
fn explain_works_for_a_chain_of_programs() {
    let setup: TestChainBuilder = new_setup().option(&SHORT_GRACE).option(&["--explain", "--json"]);
    let transparent = format!("'{}'", binary("transparent").display());
    let components =
        [transparent.clone(), setup.subchain(&[transparent]), setup.scripted_command("agent")];
    let mut chain = setup.run("agent", &components);
    let mut agent = chain.wait_for_component("agent");
    let received = agent.request("initialize");
    agent.answer(&received, AGENT_RESULT);
    let report: Value = serde_json::from_str(&read_all(&mut chain)).expect("JSON");
    let speaks: Vec<_> = report["components"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|row| row["dialect"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(speaks, ["P5", "P5", "plain"]);
    assert_eq!(chain.conductor.status(), 0);
}
