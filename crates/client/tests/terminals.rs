//! The terminal methods, with real processes.

#![cfg(unix)]

use std::path::Path;

use client::terminals::Terminals;
use serde_json::{Value, json};
use testkit::test_chain::{assert_gone, directory, is_alive, wait_until};

fn create(terminals: &mut Terminals, params: Value) -> Value {
    let created = terminals.create(Path::new("/"), &params).expect("the command starts");
    json!({ "terminalId": created["terminalId"] })
}

async fn wait(terminals: &Terminals, terminal: &Value) -> Value {
    terminals.wait_for_exit(terminal).expect("a terminal").await
}

#[tokio::test]
async fn the_output_of_a_command_is_kept_in_order() {
    let mut terminals = Terminals::default();
    let command = "echo one; echo two >&2; echo three; kill -9 $$";
    let terminal = create(&mut terminals, json!({ "command": command }));
    let exit = wait(&terminals, &terminal).await;
    assert_eq!(exit, json!({ "exitCode": null, "signal": "SIGKILL" }));
    let output = terminals.output(&terminal).expect("a terminal");
    assert_eq!(output["output"], "one\ntwo\nthree\n");
    assert_eq!((&output["truncated"], &output["exitStatus"]), (&json!(false), &exit));
    assert!(terminals.may_change(), "the output was not reported");
    let changes = terminals.changed();
    assert_eq!((changes.len(), changes[0].1.as_str()), (1, "one\ntwo\nthree\n"));
    assert!(terminals.changed().is_empty() && !terminals.may_change());
}

#[tokio::test]
async fn arguments_are_not_interpreted_and_there_is_no_input() {
    let mut terminals = Terminals::new(vec![("A".into(), "outer".into())]);
    let params = json!({ "command": "sh", "args": ["-c", "cat; printf '%s' \"$1 $A $B\"", "sh", "$HOME *"],
        "env": [{ "name": "B", "value": "inner" }] });
    let terminal = create(&mut terminals, params);
    wait(&terminals, &terminal).await;
    assert_eq!(terminals.output(&terminal).expect("a terminal")["output"], "$HOME * outer inner");
}

#[tokio::test]
async fn a_command_line_that_was_split_at_its_spaces_runs_in_a_shell() {
    let mut terminals = Terminals::default();
    let params = json!({ "command": "cd", "args": ["/usr", "&&", "pwd"] });
    let terminal = create(&mut terminals, params);
    assert_eq!(wait(&terminals, &terminal).await["exitCode"], 0);
    assert_eq!(terminals.output(&terminal).expect("a terminal")["output"], "/usr\n");
}

#[tokio::test]
async fn a_long_output_is_truncated_from_the_beginning() {
    let mut terminals = Terminals::default();
    let command = "i=0; while [ $i -lt 20000 ]; do echo ä$i; i=$((i+1)); done";
    let terminal = create(&mut terminals, json!({ "command": command, "outputByteLimit": 1000 }));
    assert_eq!(wait(&terminals, &terminal).await["exitCode"], 0);
    let output = terminals.output(&terminal).expect("a terminal");
    let text = output["output"].as_str().expect("a text");
    assert!(text.len() <= 1000 && text.len() > 990, "{}", text.len());
    assert!(text.ends_with("ä19999\n") && !text.contains('\u{fffd}'), "{text}");
    assert_eq!(output["truncated"], true);
}

#[tokio::test]
async fn a_killed_command_keeps_its_output() {
    let mut terminals = Terminals::default();
    let terminal = create(&mut terminals, json!({ "command": "echo ready; exec sleep 1000" }));
    wait_until("the command runs", || {
        let output = terminals.output(&terminal).expect("a terminal");
        (output["output"] == "ready\n").then_some(())
    });
    assert!(terminals.output(&terminal).expect("a terminal")["exitStatus"].is_null());
    terminals.kill(&terminal).expect("a terminal");
    assert_eq!(wait(&terminals, &terminal).await["signal"], "SIGTERM");
    assert_eq!(terminals.output(&terminal).expect("a terminal")["output"], "ready\n");
    // Not an error: the command has exited.
    terminals.kill(&terminal).expect("a terminal");
}

#[tokio::test]
async fn a_command_that_ignores_signals_is_killed() {
    let mut terminals = Terminals::default();
    let command = "trap '' TERM; echo ready; while :; do sleep 1; done";
    let terminal = create(&mut terminals, json!({ "command": command }));
    wait_until("the command runs", || {
        let output = terminals.output(&terminal).expect("a terminal");
        (output["output"] == "ready\n").then_some(())
    });
    terminals.kill(&terminal).expect("a terminal");
    assert_eq!(wait(&terminals, &terminal).await["signal"], "SIGKILL");
}

#[tokio::test]
async fn when_all_terminals_are_released_no_process_is_left_and_their_end_is_told() {
    let folder = directory("client-release-all");
    let mut terminals = Terminals::default();
    for name in ["one", "two"] {
        let pid = folder.join(name).display().to_string();
        let command = format!("sleep 1000 & echo $! > '{pid}'; echo ready; wait");
        create(&mut terminals, json!({ "command": command }));
    }
    let ended = create(&mut terminals, json!({ "command": "exit 3" }));
    assert_eq!(wait(&terminals, &ended).await["exitCode"], 3);
    let pid = |name: &str| std::fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok();
    let pids: Vec<u32> =
        ["one", "two"].map(|name| wait_until("the process runs", || pid(name))).into();
    wait_until("the output of both", || {
        let is_ready = |it: u64| {
            let terminal = json!({ "terminalId": format!("terminal-{it}") });
            terminals.output(&terminal).is_ok_and(|it| it["output"] == "ready\n")
        };
        (is_ready(1) && is_ready(2)).then_some(())
    });
    terminals.changed();
    terminals.release_all();
    pids.into_iter().for_each(|pid| assert_gone(pid, "the process in the background"));
    let changes = terminals.changed().into_iter();
    let changes: Vec<_> =
        changes.map(|(id, text, exit)| (id, text, exit.map(|it| it.signal))).collect();
    let killed = |id: &str| (id.to_owned(), "ready\n".to_owned(), Some(Some(9)));
    assert_eq!(changes, [killed("terminal-1"), killed("terminal-2")]);
    assert!(!terminals.is_open("terminal-1") && !terminals.may_change());
}

#[tokio::test]
async fn a_released_terminal_leaves_no_process() {
    for exits in [false, true] {
        let folder = directory("client-release");
        let mut terminals = Terminals::default();
        let end = if exits { "exit 0" } else { "wait" };
        let command = format!("sleep 1000 & echo $! > '{}'; {end}", folder.join("pid").display());
        let terminal = create(&mut terminals, json!({ "command": command }));
        let pid = || std::fs::read_to_string(folder.join("pid")).ok()?.trim().parse::<u32>().ok();
        let pid = wait_until("the process runs", pid);
        if exits {
            // A process in the background does not delay the exit, and lives until the release.
            assert_eq!(wait(&terminals, &terminal).await["exitCode"], 0);
        }
        assert!(is_alive(pid));
        let waiting = terminals.wait_for_exit(&terminal).expect("a terminal");
        terminals.release(&terminal).expect("a terminal");
        waiting.await;
        assert_gone(pid, "the process in the background");
        assert_eq!(terminals.output(&terminal).expect_err("released")["code"], -32602);
        assert!(terminals.release(&terminal).is_err());
    }
}

#[tokio::test]
async fn dropped_terminals_leave_no_process() {
    let folder = directory("client-drop");
    let mut terminals = Terminals::default();
    let command = format!("echo $$ > '{}'; exec sleep 1000", folder.join("pid").display());
    create(&mut terminals, json!({ "command": command }));
    let pid = || std::fs::read_to_string(folder.join("pid")).ok()?.trim().parse::<u32>().ok();
    let pid = wait_until("the process runs", pid);
    drop(terminals);
    assert_gone(pid, "the command");
}

#[tokio::test]
async fn a_command_that_cannot_run_is_an_error() {
    let mut terminals = Terminals::default();
    let error = terminals.create(Path::new("/"), &json!({ "command": "/not/there" }));
    let error = error.expect_err("there is no such program");
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains("cannot run `/not/there`"), "{message}");
    for _ in 0..64 {
        create(&mut terminals, json!({ "command": "sleep", "args": ["1000"] }));
    }
    let error = terminals.create(Path::new("/"), &json!({ "command": "true" }));
    assert!(
        error.expect_err("too many")["message"].as_str().expect("a message").contains("release")
    );
}
