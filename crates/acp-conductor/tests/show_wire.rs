//! `conductor try --show-wire` with real chains.

#![cfg(unix)]

use std::process::{Command, Stdio};

use serde_json::{Value, json};
use testkit::terminal::Terminal;
use testkit::test_chain::{directory, write_shell_agent};

const SPARKLE: [&str; 2] = ["sparkle", "demo-agent --pace 0"];

fn conductor(options: &[&str], chain: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_conductor"));
    command.arg("try").args(options).arg("--").args(chain);
    command
        .stdin(Stdio::null())
        .env_remove("NO_COLOR")
        .env("XDG_STATE_HOME", directory("wire-state"));
    command
}

/// What is printed into a pipe.
fn printed(options: &[&str], chain: &[&str]) -> String {
    let output = conductor(options, chain).output().expect("the conductor starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// A row of a pipe.
#[derive(Debug)]
struct PrintedRow {
    time: f64,
    hop: String,
    /// `✓` or `✗`, or nothing.
    mark: String,
    method: String,
    number: Option<u64>,
    duration: Option<String>,
    payload: Option<Value>,
    /// The text after the hop.
    rest: String,
}

impl PrintedRow {
    fn parse(line: &str) -> Option<PrintedRow> {
        let line = line.strip_prefix("│ ")?.trim_start();
        let (time, rest) = line.split_once(' ')?;
        let (from, rest) = rest.split_once(" → ").unwrap_or(("", rest));
        let (to, rest) = rest.split_once(' ')?;
        let hop = if from.is_empty() { to.to_owned() } else { format!("{from} → {to}") };
        let rest = rest.trim_start();
        let payload_at = rest.find('{');
        let payload = payload_at.map(|at| serde_json::from_str(&rest[at..]).expect("whole JSON"));
        let words: Vec<&str> =
            rest[..payload_at.unwrap_or(rest.len())].split_whitespace().collect();
        let marks = usize::from(["✓", "✗"].contains(words.first()?));
        let number = words.iter().position(|it| it.starts_with('#'));
        let method = words[marks..number.unwrap_or(words.len())].join(" ");
        let duration = number.map(|at| words[at + 1..].join(" ")).filter(|it| !it.is_empty());
        Some(PrintedRow {
            time: time.parse().expect("seconds"),
            hop,
            mark: words[..marks].concat(),
            method,
            number: number.map(|at| words[at][1..].parse().expect("a number")),
            duration,
            payload,
            rest: rest.to_owned(),
        })
    }

    fn reversed_hop(&self) -> String {
        let (from, to) = self.hop.split_once(" → ").expect("a hop");
        format!("{to} → {from}")
    }
}

fn rows(text: &str) -> Vec<PrintedRow> {
    text.lines().filter_map(PrintedRow::parse).collect()
}

#[test]
fn a_request_and_its_answer_have_the_same_number_and_the_answer_has_a_duration() {
    let shown = printed(&["--show-wire", "--prompt", "hello"], &SPARKLE);
    let rows = rows(&shown);
    let mut answers = 0;
    for (at, answer) in rows.iter().enumerate().filter(|(_, row)| !row.mark.is_empty()) {
        let is_request = |row: &&PrintedRow| {
            row.mark.is_empty()
                && (row.number, &row.method) == (answer.number, &answer.method)
                && row.hop == answer.reversed_hop()
        };
        assert_eq!(rows[..at].iter().filter(is_request).count(), 1, "{answer:?}: {shown}");
        let duration = answer.duration.as_deref().unwrap_or_default();
        assert!(duration.ends_with(" ms") || duration.ends_with(" s"), "{answer:?}");
        answers += 1;
    }
    let requests = rows.iter().filter(|row| row.mark.is_empty() && row.number.is_some()).count();
    assert!(answers >= 9 && answers == requests, "{shown}");
    assert!(rows.is_sorted_by(|a, b| a.time <= b.time), "{shown}");
    // The prompt has one number on both hops. The prompt of sparkle has another one.
    let prompts: Vec<(&str, Option<u64>)> = rows
        .iter()
        .filter(|row| row.method == "session/prompt" && row.mark.is_empty())
        .map(|row| (row.hop.as_str(), row.number))
        .collect();
    let [(first, user), (second, embodiment), (third, passed)] = prompts[..] else {
        panic!("{prompts:?}")
    };
    assert_eq!(
        [first, second, third],
        ["editor → sparkle", "sparkle → demo-agent", "sparkle → demo-agent"]
    );
    assert!(user == passed && user != embodiment, "{prompts:?}");
    assert!(rows.iter().any(|row| row.hop == "sparkle" && row.rest == "started"), "{shown}");
}

#[test]
fn a_pipe_gets_whole_payloads_and_with_all_every_chunk() {
    let chunks = |rows: &[PrintedRow]| {
        rows.iter().filter(|row| row.method.ends_with("agent_message_chunk")).count()
    };
    let shown = printed(&["--show-wire", "--prompt", "hello"], &SPARKLE);
    let folded = rows(&shown);
    let greeting = folded.iter().find(|row| row.mark == "✓" && row.method == "initialize");
    let greeting = greeting.and_then(|row| row.payload.as_ref()).expect("a payload");
    assert_eq!(greeting["agentInfo"]["name"], "demo-agent");
    let update = folded.iter().find(|row| row.method == "session/update tool_call").expect("a row");
    let update = update.payload.as_ref().expect("a payload");
    assert!(update["sessionId"].is_string(), "{update}");
    assert_eq!(update["update"]["sessionUpdate"], "tool_call");
    assert!(shown.contains("agent_message_chunk … "), "{shown}");
    let all = printed(&["--show-wire=all", "--prompt", "hello"], &SPARKLE);
    assert!(!all.contains(" more\n") && chunks(&rows(&all)) > 2 * chunks(&folded), "{all}");
}

/// The agent waits for a message.
const READ: &str = "READ";

/// An agent as a shell script, which answers a prompt with these lines. `ID` is the id of the prompt.
fn agent(name: &str, lines: &[&str]) -> String {
    let directory = directory(name);
    let answers: Vec<String> = lines
        .iter()
        .map(|line| match *line {
            READ => "read -r answer".to_owned(),
            line => {
                format!("printf '%s\\n' '{}' | sed \"s/ID/$id/\"", line.replace('\'', "'\\''"))
            }
        })
        .collect();
    write_shell_agent(&directory, &answers.join("; ")).display().to_string()
}

#[test]
fn a_payload_keeps_its_numbers_and_the_order_of_its_members() {
    let params = r#"{"sessionId":"s","update":{"sessionUpdate":"usage_update","used":12345678901234567890123,"size":1.10,"a":1e400}}"#;
    let update = format!(r#"{{"jsonrpc":"2.0","method":"session/update","params":{params}}}"#);
    let end = r#"{"jsonrpc":"2.0","id":ID,"result":{"stopReason":"end_turn"}}"#;
    let agent = agent("wire-numbers", &[&update, end]);
    let shown = printed(&["--show-wire", "--prompt", "a"], &[&agent]);
    assert!(shown.contains(&format!("session/update usage_update {params}\n")), "{shown}");
}

#[test]
fn an_error_shows_its_code_and_message() {
    let error = r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-32603,"message":"out of words","data":{"details":"no more"}}}"#;
    let agent = agent("wire-error", &[error]);
    let output = conductor(&["--show-wire", "--prompt", "a"], &[&agent]).output().expect("an end");
    let shown = String::from_utf8(output.stdout).expect("UTF-8");
    let row = shown.lines().find(|line| line.contains("✗ session/prompt #3 ")).expect("a row");
    assert!(row.contains(" ms -32603 out of words {\"code\":-32603,"), "{row}");
}

/// Secrets of the declarations of MCP servers, and of texts.
#[test]
fn secrets_are_not_shown() {
    let secret = "ghp_aB3dE6gH9jK2mN5pQ8sT1vW4yZ7aC0eF3hI6k";
    let update = json!({ "jsonrpc": "2.0", "method": "session/update", "params": {
        "sessionId": "s", "update": { "sessionUpdate": "tool_call", "toolCallId": "t", "title": "x",
            "rawInput": { "api_key": "hunter1", "command": "curl -H 'Authorization: Bearer hunter2' https://me:hunter3@host/?token=hunter4" },
            "rawOutput": [{ "password": "hunter5", "text": secret }] } } });
    let end = r#"{"jsonrpc":"2.0","id":ID,"result":{"stopReason":"end_turn"}}"#;
    let agent = agent("wire-secrets", &[&update.to_string(), end]);
    for layout in ["--show-wire", "--show-wire=all", "--json"] {
        let servers = [
            "--mcp-server",
            "tool=tool --token hunter6 --api-key=hunter7",
            "--mcp-server",
            "web=https://host/mcp?access_token=hunter8",
        ];
        let prompt = format!("my key is {secret}");
        let options = match layout {
            "--json" => [&servers[..], &["--json", "--show-wire", "--prompt", &prompt]].concat(),
            layout => [&servers[..], &[layout, "--prompt", &prompt]].concat(),
        };
        let shown = printed(&options, &[&agent]);
        let is_row = |line: &&str| line.starts_with('│') || line.contains(r#""type":"wire""#);
        let rows: String = shown.lines().filter(is_row).collect();
        assert!(rows.contains("--api-key=…") && rows.contains("access_token=…"), "{rows}");
        assert!(!rows.contains("hunter") && !rows.contains(secret), "{rows}");
    }
    // The bridge to the MCP server of sparkle has a secret of its own in the environment.
    let shown = printed(&["--show-wire", "--prompt", "hello"], &SPARKLE);
    let declared = rows(&shown);
    let mut declared = declared.iter().filter_map(|row| row.payload.as_ref());
    let server = declared.find_map(|it| it["mcpServers"].get(0)).expect("a declaration");
    let values = server["env"].as_array().expect("variables");
    assert!(!values.is_empty() && values.iter().all(|it| it["value"] == "…"), "{server}");
}

/// The agent asks a question in the middle of its answer and waits, so the text before it must be shown by then.
#[test]
fn the_answer_streams_beside_the_rows() {
    let words: Vec<String> = (0..100).map(|number| format!("word{number}")).collect();
    let chunk = |words: &[String]| {
        let text = format!("{} ", words.join(" "));
        let update = json!({ "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": text } });
        let params = json!({ "sessionId": "s", "update": update });
        json!({ "jsonrpc": "2.0", "method": "session/update", "params": params }).to_string()
    };
    let question = json!({ "jsonrpc": "2.0", "id": 1, "method": "session/request_permission", "params": {
        "sessionId": "s", "toolCall": { "toolCallId": "t", "title": "x" },
        "options": [{ "optionId": "no", "name": "No", "kind": "reject_once" }] } });
    let question = question.to_string();
    let end = r#"{"jsonrpc":"2.0","id":ID,"result":{"stopReason":"end_turn"}}"#;
    let (first, second) = (chunk(&words[..50]), chunk(&words[50..]));
    let agent = agent("wire-stream", &[&first, &question, READ, &second, end]);
    let shown = printed(&["--show-wire=all", "--prompt", "a"], &[&agent]);
    let lines: Vec<&str> = shown.lines().collect();
    let position = |text: &str| lines.iter().position(|line| line.contains(text)).expect(text);
    let is_text = |line: &&&str| !line.starts_with(['│', '>', '?']);
    let early = &lines[..position("✓ session/request_permission")];
    assert!(early.iter().filter(is_text).count() >= 3, "{shown}");
    assert!(early.iter().any(|line| line.starts_with("word0 word1 ")), "{shown}");
    let answer: Vec<&str> =
        lines.iter().filter(is_text).flat_map(|line| line.split_whitespace()).collect();
    assert_eq!(answer, words, "{shown}");
}

#[test]
fn a_crash_and_a_restart_are_rows() {
    let program = format!("'{}' demo-agent --pace 0", env!("CARGO_BIN_EXE_conductor"));
    let mut command =
        conductor(&["--show-wire", "--prompt", "crash", "--prompt", "hello"], &[&program]);
    let output = command.output().expect("an end");
    let shown = String::from_utf8(output.stdout).expect("UTF-8");
    let rows = rows(&shown);
    let position = |text: &str| rows.iter().rposition(|row| row.rest.contains(text));
    let (ended, started) = (position("exited with status 101"), position("started"));
    assert!(ended.is_some() && started > ended, "{shown}");
    let resumed = rows.iter().find(|row| row.method == "session/resume").expect("a row");
    assert!(resumed.hop.starts_with("conductor → "), "{resumed:?}");
}

/// The lines on a screen, without styles.
fn plain_lines(shown: &str) -> Vec<String> {
    let mut text = String::new();
    let mut escaped = false;
    for it in shown.chars() {
        match it {
            '\u{1b}' => escaped = true,
            _ if escaped => escaped = !it.is_ascii_alphabetic(),
            '\r' => {}
            it => text.push(it),
        }
    }
    text.lines().map(str::to_owned).collect()
}

#[test]
fn in_a_narrow_terminal_a_row_has_two_lines_that_fit() {
    for (columns, detail) in [(40, "--show-wire"), (40, "--show-wire=all"), (80, "--show-wire")] {
        let script = format!(
            "stty cols {columns}; exec '{}' try {detail} --prompt hello -- sparkle 'demo-agent --pace 0'",
            env!("CARGO_BIN_EXE_conductor")
        );
        let mut command = Command::new("sh");
        command.args(["-c", &script]).env("XDG_STATE_HOME", directory("wire-state-narrow"));
        let mut terminal = Terminal::start(&mut command, None);
        let shown = terminal.wait_for("what I can do.");
        let lines = plain_lines(&shown);
        let rows: Vec<&String> = lines.iter().filter(|line| line.starts_with('│')).collect();
        assert!(rows.iter().all(|row| row.chars().count() <= columns), "{rows:#?}");
        // Its number is larger if the tools of sparkle are asked for before.
        let at = rows.iter().position(|row| row.contains("session/prompt #"));
        let at = at.unwrap_or_else(|| panic!("no row: {rows:#?}"));
        if columns == 40 {
            assert!(rows[at - 1].ends_with("editor → sparkle"), "{rows:#?}");
        } else {
            let (route, request) = rows[at].split_once("session/prompt #").expect("found");
            assert!(route.ends_with("editor → sparkle      "), "{rows:#?}");
            assert!(request.ends_with(" \"hello\""), "{rows:#?}");
        }
        let has_whole = rows.iter().any(|row| row.contains("\"clientInfo\""));
        assert_eq!(has_whole, detail == "--show-wire=all", "{rows:#?}");
    }
}
