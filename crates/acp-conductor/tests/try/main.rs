//! `conductor try` with real processes, pipes and a terminal.

#![cfg(unix)]

mod scripted;
mod terminal;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::json;
use testkit::test_chain::{directory, wait_until, write_script, write_shell_agent};

const EMBODIED: &str = "✓ embody_sparkle  You are working together with somebody, not for them.";

/// A chain with a proxy that has a tool.
const SPARKLE: [&str; 3] = ["--", "sparkle", "demo-agent --pace 0"];

fn conductor(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_conductor"));
    command.args(arguments).stdin(Stdio::null()).env_remove("NO_COLOR").env_remove("COLUMNS");
    command
}

fn run_try(arguments: &[&str]) -> Output {
    conductor(&[&["try"], arguments].concat()).output().expect("the conductor starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// What is printed for valid arguments.
fn printed(arguments: &[&str]) -> String {
    let output = run_try(arguments);
    let stderr = text(&output.stderr);
    assert!(output.status.success() && stderr.is_empty(), "{arguments:?}: {stderr}");
    text(&output.stdout)
}

/// An agent as a shell script, with a command that it runs for each prompt.
fn agent(name: &str, prompted: &str) -> PathBuf {
    write_shell_agent(&directory(name), prompted)
}

#[test]
fn the_first_prompt_embodies_sparkle() {
    let shown = printed(&[&["--prompt", "hello"][..], &SPARKLE].concat());
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[..2], ["> hello", EMBODIED], "{shown}");
    assert!(shown.contains("\n\nHello! You said “hello”"), "{shown}");
    assert!(shown.ends_with("what I can do.\n") && !shown.contains('\x1b'), "{shown}");
}

/// In version 2 the answer to a prompt does not end the turn.
#[test]
fn in_version_2_a_turn_ends_when_the_agent_is_idle() {
    let shown = printed(
        &[&["--protocol", "2", "--prompt", "hello", "--prompt", "use nothing"][..], &SPARKLE]
            .concat(),
    );
    assert!(shown.starts_with(&format!("> hello\n{EMBODIED}\n")), "{shown}");
    let second = shown.find("> use nothing").expect("a second prompt");
    let answer = shown.find("what I can do.").expect("an answer");
    assert!(answer < second, "the second prompt waits for the first turn: {shown}");
    assert!(shown.contains("✗ nothing  no server has a tool nothing\n"), "{shown}");
    let chain = ["--", "demo-agent --pace 0"];
    let edit = ["--protocol", "2", "--yes", "--prompt", "edit the file"];
    let allowed = printed(&[&edit[..], &chain].concat());
    assert!(allowed.contains("? Edit demo.txt: Allow once\n✓ Edit demo.txt\n"), "{allowed}");
    let wire = printed(
        &[&["--protocol", "2", "--prompt", "hello", "--show-wire=all"][..], &SPARKLE].concat(),
    );
    let idle = r#"{"sessionUpdate":"state_update","state":"idle""#;
    let to_editor = wire.lines().filter(|line| line.contains("sparkle → editor"));
    assert_eq!(to_editor.filter(|line| line.contains(idle)).count(), 1, "{wire}");
    let to_sparkle = wire.lines().filter(|line| line.contains("demo-agent → sparkle"));
    assert_eq!(to_sparkle.filter(|line| line.contains(idle)).count(), 2, "{wire}");
}

/// Legal JSON that common types cannot represent is accepted.
#[test]
fn every_legal_answer_is_accepted() {
    let deep = format!("{}{}", "[".repeat(300), "]".repeat(300));
    for odd in [r#"\"\\ud800\""#.to_owned(), "1e400".to_owned(), deep] {
        let update = r#"{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\",\"_meta\":{\"x\":ODD},\"update\":{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"hi\"}}}}"#;
        let answer = r#"{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"stopReason\":\"end_turn\",\"_meta\":ODD}}"#;
        let body = format!(r#"printf '%s\n' "{update}" "{answer}""#).replace("ODD", &odd);
        let agent = agent("try-odd", &body);
        let shown = printed(&["--prompt", "a", "--", agent.to_str().expect("a path")]);
        assert_eq!(shown, "> a\nhi\n", "{odd}");
    }
}

#[test]
fn each_line_of_a_pipe_is_a_prompt() {
    let mut child = conductor(&[&["try"][..], &SPARKLE].concat())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("the conductor starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all("make a plan\n\n  \nuse nothing\nlast".as_bytes()).expect("the program reads");
    drop(stdin);
    let output = child.wait_with_output().expect("an end");
    let shown = text(&output.stdout);
    assert!(output.status.success());
    let prompts: Vec<&str> = shown.lines().filter(|line| line.starts_with("> ")).collect();
    assert_eq!(prompts, ["> make a plan", "> use nothing", "> last"]);
    assert!(shown.contains("Plan\n  ▸ Read what you want\n  · Pretend to do it\n"), "{shown}");
    assert!(shown.contains("✗ nothing  no server has a tool nothing\n"), "{shown}");
    assert_eq!(shown.matches(EMBODIED).count(), 1);
}

#[test]
fn the_user_can_choose_the_chain() {
    let without_proxy = printed(&["--prompt", "hello", "--", "demo-agent --pace 0"]);
    assert!(without_proxy.starts_with("> hello\nHello!"), "{without_proxy}");
    let exe = env!("CARGO_BIN_EXE_conductor");
    let process = format!("'{exe}' demo-agent --pace 0");
    let mixed = printed(&["--prompt", "hello", "sparkle", &process]);
    assert!(mixed.contains(EMBODIED), "{mixed}");
}

#[test]
fn permission_is_refused_without_the_yes_option() {
    let chain = ["--", "demo-agent --pace 0"];
    let edit = ["--prompt", "edit the file"];
    let refused = printed(&[&edit[..], &chain].concat());
    assert!(refused.contains("? Edit demo.txt: Reject\n✗ Edit demo.txt\n"), "{refused}");
    let allowed = printed(&[&edit[..], &["--yes"], &chain].concat());
    assert!(allowed.contains("? Edit demo.txt: Allow once\n✓ Edit demo.txt\n"), "{allowed}");
}

#[test]
fn a_chain_that_does_not_start_is_reported_in_one_line() {
    for (component, why) in
        [("/nowhere/at/all", "command not found"), ("sh -c 'exit 3'", "status 3")]
    {
        let output = run_try(&["--prompt", "hello", "--", "sparkle", component]);
        let stderr = text(&output.stderr);
        assert_eq!((output.status.code(), stderr.lines().count()), (Some(1), 1), "{stderr}");
        assert!(stderr.starts_with("conductor: agent") && stderr.contains(why), "{stderr}");
        assert!(output.stdout.is_empty(), "{}", text(&output.stdout));
    }
    let output = run_try(&["--", "'open quote"]);
    assert_eq!(output.status.code(), Some(2));
}

/// A component must not control the user's terminal.
#[test]
fn escape_sequences_of_components_do_not_reach_the_terminal() {
    let hostile = r"\u001b]0;owned\u0007\u001b[2J\u009b31mred\u202e\r";
    let refusal = format!(
        r#"read -r line; id=$(printf '%s' "$line" | sed 's/.*"id":\("[^"]*"\).*/\1/'); printf '%s\n' "{{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{{\"code\":-32000,\"message\":\"no {hostile}\"}}}}"; cat >/dev/null"#
    );
    let directory = directory("try-escapes");
    write_script(&directory, "refuses", &refusal);
    let refuses = directory.join("refuses");
    let prompted = format!(
        r#"printf '%s\n' "{{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{{\"sessionId\":\"s\",\"update\":{{\"sessionUpdate\":\"tool_call\",\"toolCallId\":\"t\",\"status\":\"failed\",\"title\":\"{hostile}\"}}}}}}" "{{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{{\"stopReason\":\"{hostile}\"}}}}""#
    );
    let answers = agent("try-escapes-later", &prompted);
    for agent in [refuses, answers] {
        for options in [&["--prompt", "a"][..], &["--prompt", "a", "--show-wire"]] {
            let agent = agent.to_str().expect("a path");
            let output = run_try(&[options, &["--", agent]].concat());
            let shown = text(&output.stdout) + &text(&output.stderr);
            assert!(shown.contains("red"), "{shown:?}");
            let bad = |it: char| it.is_control() && it != '\n' || it == '\u{202e}';
            assert!(!shown.contains(bad), "{shown:?}");
        }
    }
}

#[test]
fn an_error_answer_is_printed_and_the_status_is_1() {
    let error = r#"printf '%s\n' "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32603,\"message\":\"out of\\nwords\"}}""#;
    let agent = agent("try-error", error);
    let output =
        run_try(&["--prompt", "a", "--prompt", "b", "--", agent.to_str().expect("a path")]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(text(&output.stdout), "> a\n> b\n");
    let stderr = text(&output.stderr);
    assert_eq!(
        stderr
            .matches("error: agent 'agent' answered session/prompt with an error: out of")
            .count(),
        2,
        "{stderr}"
    );
    assert_eq!(stderr.matches("  words\n").count(), 2, "{stderr}");
}

#[test]
fn an_agent_that_crashes_during_a_prompt_ends_the_chat() {
    let agent = agent("try-death", "echo 'it hurts' >&2; exit 7");
    let output =
        run_try(&["--prompt", "a", "--prompt", "b", "--", agent.to_str().expect("a path")]);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr.contains("agent 'agent'") && stderr.contains("status 7"), "{stderr}");
    assert_eq!(stderr.matches("status 7").count(), 1, "reported once: {stderr}");
    // The second prompt may be printed before the crash is noticed.
    assert!(text(&output.stdout).starts_with("> a\n"), "{}", text(&output.stdout));
}

#[test]
fn a_chat_goes_on_with_an_agent_that_was_restarted() {
    let output = run_try(&["--prompt", "crash", "--prompt", "hello", "--", "demo-agent --pace 0"]);
    let shown = text(&output.stdout);
    assert!(shown.contains("is being restarted") && shown.contains("You said “hello”"), "{shown}");
    assert!(text(&output.stderr).contains("send the request again"), "{}", text(&output.stderr));
    assert_eq!(output.status.code(), Some(1));
}

/// As `head` does.
#[test]
fn a_reader_that_closes_the_pipe_is_not_an_error() {
    for options in [&["--prompt", "hello"][..], &["--prompt", "hello", "--json"]] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = conductor(&[&["try"], options].concat());
        let output = command.stdout(writer).output().expect("an end");
        let stderr = text(&output.stderr);
        assert!(output.status.success() && stderr.is_empty(), "{stderr}");
    }
}

#[test]
fn the_log_goes_to_a_file_or_nowhere() {
    let directory = directory("try-log");
    let noisy = "sh -c 'echo how are you >&2; exec \"$0\" demo-agent --pace 0' ";
    let noisy = format!("{noisy}'{}'", env!("CARGO_BIN_EXE_conductor"));
    printed(&["--prompt", "hello", "--", &noisy]);
    let log = directory.join("log");
    let path = log.to_str().expect("a path");
    printed(&["--prompt", "hello", "--log", "debug", "--log-file", path, "--", &noisy]);
    let logged = std::fs::read_to_string(&log).expect("a log");
    assert!(logged.contains("] how are you") && logged.contains("DEBUG"), "{logged}");
    assert!(!logged.contains("hello"), "payloads are not logged: {logged}");
}

#[test]
fn colours_can_be_forced() {
    let shown = printed(&["--prompt", "hello", "--color", "always", "--", "demo-agent --pace 0"]);
    assert!(shown.starts_with("\x1b[1m> hello\x1b[0m\n"), "{shown:?}");
}

#[test]
fn an_interrupt_without_a_terminal_cancels_the_turn_and_ends_the_chat() {
    let mut child = conductor(&["try", "--prompt", "a long story", "--prompt", "hello"])
        .args(["--", "demo-agent --pace 100"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the conductor starts");
    let mut stdout = child.stdout.take().expect("a pipe");
    let mut shown = [0; 40];
    stdout.read_exact(&mut shown).expect("an answer");
    let pid = i32::try_from(child.id()).expect("a process id");
    // SAFETY: a signal to a child that was not waited for.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGINT) }, 0);
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).expect("UTF-8");
    assert_eq!(child.wait().expect("an end").code(), Some(130));
    assert!(rest.ends_with("(cancelled)\n") && !rest.contains("hello"), "{rest}");
}

#[test]
fn the_demo_agent_ends_its_servers_when_its_editor_disconnects() {
    let directory = directory("demo-servers");
    let pid_file = directory.join("pid");
    let server = format!("echo $$ > '{}'; exec cat > /dev/null", pid_file.display());
    let mut child = conductor(&["demo-agent"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("the demo agent starts");
    let servers = json!([{ "name": "s", "command": "/bin/sh", "args": ["-c", server], "env": [] }]);
    let new = json!({ "jsonrpc": "2.0", "id": 1, "method": "session/new",
        "params": { "cwd": "/", "mcpServers": servers } });
    let mut stdin = child.stdin.take().expect("a pipe");
    writeln!(stdin, "{new}").expect("the program reads");
    let pid = || std::fs::read_to_string(&pid_file).ok()?.trim().parse::<u32>().ok();
    let pid = wait_until("the server runs", pid);
    drop(stdin);
    assert!(child.wait().expect("an end").success());
    let process = format!("/proc/{pid}");
    wait_until("the server ends", || (!Path::new(&process).exists()).then_some(()));
}
