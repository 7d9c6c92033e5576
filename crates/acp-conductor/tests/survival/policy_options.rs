//! The options for the policies of a component that fails: their defaults, their precedence and their errors.

use std::process::{Command, Output, Stdio};

use serde_json::Value;
use testkit::test_chain::{TestChain, wait_until};

use crate::new_setup;

/// The policies of a chain's components, as reported by `conductor status`.
fn policies(options: &[&str], components: &[&str]) -> Vec<String> {
    let components: Vec<String> = components.iter().map(|&it| it.to_owned()).collect();
    let chain = new_setup().option(options).run("agent", &components);
    let status = wait_until("the status is available", || try_status(&chain));
    let components = status["components"].as_array().expect("a list").clone();
    components.iter().map(|it| it["policy"].as_str().expect("a word").to_owned()).collect()
}

fn try_status(chain: &TestChain) -> Option<Value> {
    let pid = chain.conductor.pid().to_string();
    let mut command = Command::new(env!("CARGO_BIN_EXE_conductor"));
    command.args(["status", &pid, "--json"]).env("XDG_RUNTIME_DIR", chain.runtime_directory());
    let output = command.output().expect("the conductor starts");
    let list: Value = serde_json::from_slice(&output.stdout).ok()?;
    list.get(0).cloned()
}

/// The defaults are those that `--help` documents.
#[test]
fn by_default_proxies_may_be_bypassed_and_guards_and_agents_may_not() {
    let guard = r#"{"command":"b","guard":true}"#;
    assert_eq!(
        policies(&[], &["a", guard, "c"]),
        ["restart,bypass", "restart,stop", "restart,stop"]
    );
    assert_eq!(policies(&["--guard", "1"], &["a", "c"]), ["restart,stop"; 2]);
    assert_eq!(policies(&["--guard", "a"], &["a", "c"]), ["restart,stop"; 2]);
    let help = conductor(&["agent", "--help"]);
    let help = String::from_utf8(help.stdout).expect("UTF-8");
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in [
        "By default, proxies use `restart,bypass` and guards use `restart,stop`.",
        "The agent is restarted if it supports session/resume or session/load",
        "[default: 5/60]",
        "[default: 0.1..10]",
        "[default: 120]",
    ] {
        assert!(help.contains(words), "{words:?} is not in {help}");
    }
}

/// A policy is given by number, by name, in JSON, or for all components that are not named. A policy for
/// one component takes precedence over one for all, and an option over the component's JSON.
#[test]
fn a_policy_for_one_component_takes_precedence_over_one_for_all() {
    let chain = ["a", "b", "c"];
    let with = |options: &[&str]| policies(options, &chain);
    assert_eq!(with(&["--on-crash", "2=stop"]), ["restart,bypass", "stop", "restart,stop"]);
    assert_eq!(with(&["--on-crash", "b=stop"]), ["restart,bypass", "stop", "restart,stop"]);
    assert_eq!(with(&["--on-crash", "stop"]), ["stop", "stop", "stop"]);
    // The order of the options does not matter.
    let one = ["--on-crash", "b=bypass"];
    let all = ["--on-crash", "stop"];
    assert_eq!(with(&[one, all].concat()), ["stop", "bypass", "stop"]);
    assert_eq!(with(&[all, one].concat()), ["stop", "bypass", "stop"]);
    // `bypass` for all components excludes the agent.
    assert_eq!(with(&["--on-crash", "bypass"]), ["bypass", "bypass", "restart,stop"]);
    assert_eq!(with(&["--on-crash", "restart,bypass"])[2], "restart,stop");
    let json = r#"{"command":"b","onCrash":"restart,stop"}"#;
    let chain = ["a", json, "c"];
    let with = |options: &[&str]| policies(options, &chain);
    assert_eq!(with(&[]), ["restart,bypass", "restart,stop", "restart,stop"]);
    assert_eq!(with(&["--on-crash", "stop"]), ["stop", "restart,stop", "stop"]);
    assert_eq!(with(&["--on-crash", "2=bypass"])[1], "bypass");
    // A guard is bypassed only if the option names it.
    let guard = ["--guard", "1", "--on-crash", "1=restart,bypass"];
    assert_eq!(with(&guard)[0], "restart,bypass");
    assert_eq!(with(&["--guard", "1", "--on-crash", "bypass"])[0], "restart,stop");
}

fn conductor(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_conductor"));
    command.args(args).stdin(Stdio::null()).output().expect("the conductor starts")
}

/// An error about the command line says what to write instead.
#[test]
fn a_wrong_option_is_reported_with_its_remedy_before_anything_starts() {
    let json = |text: &'static str| ["agent", text, "true"].to_vec();
    for (args, words) in [
        (vec!["agent", "--on-crash", "2=bypass", "a", "c"], &["the agent", "restart or stop"][..]),
        (vec!["agent", "--on-crash", "c=restart,bypass", "a", "c"], &["the agent", "stop"]),
        (vec!["agent", "--on-crash", "x=stop", "a", "c"], &["\"x\"", "a, c"]),
        (vec!["agent", "--on-crash", "3=stop", "a", "c"], &["\"3\"", "a, c"]),
        (vec!["agent", "--on-crash", "0=stop", "a", "c"], &["\"0\"", "a, c"]),
        (vec!["agent", "--on-crash", "1=retry", "a", "c"], &["retry", "restart,bypass"]),
        (vec!["agent", "--guard", "2", "a", "c"], &["--guard", "the agent", "only proxies"]),
        (vec!["agent", "--guard", "x", "a", "c"], &["--guard", "a, c"]),
        (vec!["agent", "--restarts", "5", "a", "c"], &["COUNT/SECONDS", "5/60"]),
        (vec!["agent", "--restarts", "x=5/60", "a", "c"], &["--restarts", "a, c"]),
        (vec!["agent", "--restarts=-1/60", "a", "c"], &["--restarts"]),
        (vec!["agent", "--restart-delay", "1", "a", "c"], &["FIRST..LONGEST", "0.1..10"]),
        (vec!["agent", "--restart-delay", "1..x", "a", "c"], &["number of seconds"]),
        (vec!["agent", "--answer-limit", "soon", "a", "c"], &["number of seconds"]),
        (vec!["agent", "--prompt-limit=-1", "a", "c"], &["--prompt-limit"]),
        (vec!["agent", "--cancel-limit", "on", "a", "c"], &["number of seconds"]),
        (vec!["agent", "--notices", "maybe", "a", "c"], &["--notices"]),
        (json(r#"{"command":"a","onCrash":"retry"}"#), &["component 1", "restart,bypass"]),
        (json(r#"{"command":"a","restarts":"5"}"#), &["component 1", "COUNT/SECONDS"]),
        (json(r#"{"command":"a","guard":"yes"}"#), &["component 1"]),
        (
            vec!["agent", "a", r#"{"command":"c","onCrash":"bypass"}"#],
            &["the agent", "restart or stop"],
        ),
        (vec!["agent", "a", r#"{"command":"c","guard":true}"#], &["the agent", "only proxies"]),
    ] {
        let output = conductor(&args);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{args:?}");
        for word in words {
            assert!(stderr.contains(word), "{args:?}: {word:?} is not in {stderr:?}");
        }
    }
}
