//! `conductor agent --explain`: what each component turned out to speak.

use std::process::{Command, Stdio};

use serde_json::{Value, json};
use testkit::stage::{Setup, Stage, assert_gone, binary};

use crate::players::{GREETED, Proxy};
use crate::spelling::{P3, P4};
use crate::{HASTE, stage};

/// A chain of a P4 and a P3 proxy and an agent, explained.
fn mixed(options: &[&str]) -> (String, String, i32) {
    let mut stage = stage().option(&HASTE).option(options).named(&["old", "older", "agent"]);
    let (mut old, mut older) =
        (Proxy::enter(&mut stage, "old", &P4), Proxy::enter(&mut stage, "older", &P3));
    let first = old.is_greeted(&["proxy/initialize", "_proxy/initialize"]);
    old.forwards(&first);
    let second = older.is_greeted(&["proxy/initialize", "initialize"]);
    older.forwards(&second);
    let mut agent = stage.enter("agent");
    let asked = agent.request("initialize");
    agent.answer(
        &asked,
        r#"{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"mcpCapabilities":{"http":true,"sse":false}}}"#,
    );
    older.accepts(&second);
    old.accepts(&first);
    let said = read_all(&mut stage);
    let status = stage.conductor.status();
    for pid in [old.pid, older.pid, agent.pid] {
        assert_gone(pid, "a component");
    }
    (said, stage.conductor.stderr(), status)
}

fn read_all(stage: &mut Stage) -> String {
    let mut text = String::new();
    while let Some(line) = stage.editor.next_line() {
        text += &line;
        text.push('\n');
    }
    text
}

#[test]
fn a_mixed_chain_as_a_table() {
    let (table, said, status) = mixed(&["--explain"]);
    assert_eq!((status, said.as_str()), (0, ""), "{table}");
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
    assert!(table.contains("the chain stands"), "{table}");
}

#[test]
fn a_mixed_chain_as_json() {
    let (text, said, status) = mixed(&["--explain", "--json"]);
    assert_eq!((status, said.as_str()), (0, ""), "{text}");
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
    assert!(components[0]["command"].as_str().is_some_and(|it| it.contains("puppet")));
}

/// A chain that does not stand: the reason names who is to blame, and nobody is left running.
#[test]
fn a_broken_chain_is_explained_too() {
    for options in [&["--explain"][..], &["--explain", "--json"]] {
        let mut stage = stage().option(&HASTE).option(options).named(&["eliza", "agent"]);
        let (mut eliza, agent) = (stage.enter("eliza"), stage.enter("agent"));
        for method in ["proxy/initialize", "_proxy/initialize"] {
            let greeting = eliza.request(method);
            eliza.fail(&greeting, r#"{"code":-32601,"message":"Method not found"}"#);
        }
        let greeting = eliza.request("initialize");
        eliza.answer(&greeting, GREETED);
        let said = read_all(&mut stage);
        assert_eq!(stage.conductor.status(), 1, "{said}");
        let why = "component 'eliza' is not a proxy";
        assert!(stage.conductor.stderr().contains(why), "{}", stage.conductor.stderr());
        assert!(said.contains(why) && said.contains("was not reached"), "{said}");
        if options.len() == 2 {
            let report: Value = serde_json::from_str(&said).expect("JSON");
            assert!(report["error"].as_str().is_some_and(|it| it.contains(why)), "{report}");
        }
        assert_gone(eliza.pid, "the component");
        assert_gone(agent.pid, "the agent");
    }
}

#[test]
fn a_component_that_cannot_start_or_ends_is_named() {
    let output = Command::new(env!("CARGO_BIN_EXE_conductor"))
        .args(["agent", "--explain", "no-such-proxy", "no-such-agent"])
        .stdin(Stdio::null())
        .output()
        .expect("the conductor starts");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("'no-such-proxy'") && said.contains("command not found"), "{said}");

    let mut stage = stage().option(&HASTE).option(&["--explain"]).named(&["broken"]);
    let mut broken = stage.enter("broken");
    broken.request("initialize");
    broken.mutter("no key\n");
    broken.exit(9);
    let table = read_all(&mut stage);
    assert_eq!(stage.conductor.status(), 1);
    assert!(table.contains("the chain does not stand"), "{table}");
    let said = stage.conductor.stderr();
    assert!(said.contains("'broken'") && said.contains("status 9"), "{said}");
}

/// Issue 11, item 24.
#[test]
fn what_a_component_says_of_itself_is_not_for_the_terminal_to_obey() {
    let evil = "\\u001b]0;title\\u0007\\u001b[2J\u{9b}6n\u{202e}\\r\\nmine";
    for options in [&["--explain"][..], &["--explain", "--json"]] {
        for fails in [false, true] {
            let mut stage = stage().option(&HASTE).option(options).named(&["agent"]);
            let mut agent = stage.enter("agent");
            let greeting = agent.request("initialize");
            match fails {
                false => {
                    let capabilities = format!(r#"{{"{evil}":true}}"#);
                    let result = format!(
                        r#"{{"protocolVersion":1,"agentCapabilities":{capabilities},"_meta":{capabilities}}}"#
                    );
                    agent.answer(&greeting, &result);
                }
                true => agent.fail(&greeting, &format!(r#"{{"code":1,"message":"{evil}"}}"#)),
            }
            let said = read_all(&mut stage);
            stage.conductor.status();
            let text = said + &stage.conductor.stderr();
            assert!(text.contains("mine"), "{text}");
            let harmless = |it: char| it == '\n' || !it.is_control() && it != '\u{202e}';
            assert!(text.chars().all(harmless), "{text:?}");
        }
    }
}

/// Programs are explained as they are, puppets or not.
#[test]
fn a_chain_of_programs_is_explained() {
    let setup: Setup = stage().option(&HASTE).option(&["--explain", "--json"]);
    let transparent = format!("'{}'", binary("transparent").display());
    let components = [transparent.clone(), setup.subchain(&[transparent]), setup.puppet("agent")];
    let mut stage = setup.run("agent", &components);
    let mut agent = stage.enter("agent");
    let asked = agent.request("initialize");
    agent.answer(&asked, GREETED);
    let report: Value = serde_json::from_str(&read_all(&mut stage)).expect("JSON");
    let speaks: Vec<_> = report["components"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|row| row["dialect"].as_str().unwrap_or_default())
        .collect();
    assert_eq!(speaks, ["P5", "P5", "plain"]);
    assert_eq!(stage.conductor.status(), 0);
}
