//! Limits: time, output, processes, memory; and hooks of type http.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::*;

/// Whether a process exists and has not ended.
fn runs(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
    let state = stat.rsplit(')').next().and_then(|it| it.split_whitespace().next());
    state.is_some_and(|state| state != "Z" && state != "X")
}

fn wait_for_end(pid: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while runs(pid) {
        assert!(Instant::now() < deadline, "process {pid} is left");
        // Timing: the end of another process is not an event.
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_hook_that_takes_too_long_is_killed_with_its_children() {
    let folder = Folder::new("time");
    let command = format!("sleep 600 & echo $! > {}; sleep 600", folder.path("child"));
    let mut options = folder.options(&[("PreToolUse", "", &command)]);
    options["longest"] = json!("2s");
    options["strict"] = json!(true);
    let mut talk = folder.talk(options).with_session(&folder.0);
    talk.ask(&bash("t1", "ls"));
    assert_eq!(talk.chosen(), "no");
    assert!(talk.expect_text().contains("did not end within 2 s"));
    wait_for_end(&folder.read("child"));
}

#[test]
fn the_children_of_a_hook_end_with_it() {
    let folder = Folder::new("children");
    // The child keeps the pipes open.
    let command = format!("sleep 600 & echo $! > {}; exit 0", folder.path("child"));
    let mut talk = folder.session(&[("UserPromptSubmit", "", &command)]);
    talk.prompt("go");
    talk.expect_prompt(&["go"]);
    wait_for_end(&folder.read("child"));
}

#[test]
fn hooks_are_killed_when_the_component_ends() {
    let folder = Folder::new("drop");
    let command = format!(
        "sleep 600 & echo $! > {}; {}; sleep 600",
        folder.path("child"),
        folder.record("input")
    );
    let mut talk = folder.session(&[("UserPromptSubmit", "", &command)]);
    talk.prompt("go");
    talk.wait_for(&folder, 1);
    drop(talk);
    wait_for_end(&folder.read("child"));
}

#[test]
fn a_hook_need_not_read_its_input_and_may_print_a_lot() {
    let folder = Folder::new("big");
    let (closes, prints) =
        ("exec 0<&-; exit 0", "yes 0123456789 | head -c 5000000; echo why >&2; exit 2");
    let mut talk =
        folder.session(&[("PreToolUse", "Write", closes), ("PreToolUse", "Bash", prints)]);
    let content = "x".repeat(3_000_000);
    let write = json!({ "sessionId": "s", "path": "/x", "content": content });
    let answer = talk.exchange("agent", "fs/write_text_file", &write, &json!({}));
    assert!(answer["error"].is_null(), "{answer}");
    talk.ask(&bash("t1", "ls"));
    assert_eq!(talk.chosen(), "no");
    assert!(talk.expect_text().contains("why"));
}

#[test]
fn a_hook_whose_output_is_too_long_has_failed() {
    let folder = Folder::new("long");
    // The decision is behind the limit.
    let command = "head -c 1048576 /dev/zero | tr '\\0' ' '; echo '{\"decision\":\"block\"}'";
    let mut options = folder.options(&[("PreToolUse", "", command)]);
    options["strict"] = json!(true);
    let mut talk = folder.talk(options).with_session(&folder.0);
    talk.ask(&bash("t1", "ls"));
    assert_eq!(talk.chosen(), "no");
    assert!(talk.expect_text().contains("its standard output is longer than 1 MiB"));
}

#[test]
fn at_most_eight_hooks_run_at_once() {
    let folder = Folder::new("eight");
    fs::create_dir(folder.path("running")).unwrap();
    fs::create_dir(folder.path("started")).unwrap();
    let command = |number: usize| {
        // The first eight end when all of them run. Each counts how many run when it begins and when it ends.
        format!(
            "touch {running}/{number} {started}/{number}; ls {running} | wc -l >> {counts}; \
             while [ $(ls {started} | wc -l) -lt 8 ]; do :; done; ls {running} | wc -l >> {counts}; \
             rm {running}/{number}",
            running = folder.path("running"),
            started = folder.path("started"),
            counts = folder.path("counts")
        )
    };
    let commands: Vec<String> = (0..20).map(command).collect();
    let hooks: Vec<_> = commands.iter().map(|it| ("UserPromptSubmit", "", it.as_str())).collect();
    let mut talk = folder.session(&hooks);
    talk.prompt("go");
    talk.expect_prompt(&["go"]);
    let counts: Vec<usize> =
        folder.read("counts").lines().map(|line| line.trim().parse().unwrap()).collect();
    assert_eq!(counts.len(), 40);
    assert_eq!(counts.iter().max(), Some(&8), "{counts:?}");
}

#[test]
fn ten_thousand_sessions_need_bounded_memory() {
    let folder = Folder::new("sessions");
    let mut talk = folder.talk(folder.options(&[("PreToolUse", "Write", "exit 0")]));
    for number in 0..12_000 {
        let new = json!({ "cwd": "/", "mcpServers": [] });
        talk.exchange("editor", "session/new", &new, &json!({ "sessionId": format!("s{number}") }));
    }
    let write = |session: &str| json!({ "sessionId": session, "path": "/x", "content": "" });
    let answer = talk.exchange("agent", "fs/write_text_file", &write("s11999"), &json!({}));
    assert!(answer["error"].is_null(), "{answer}");
    // The first session was forgotten. Its hooks cannot run, so what they guard does not pass.
    talk.request("agent", "fs/write_text_file", &write("s0"));
    let answer = talk.receive("agent");
    assert_eq!(answer["error"]["data"]["code"], "blocked-by-hook", "{answer}");
}

/// A server that answers one request with this status and body. Returns its address, and the body of the request.
fn server(status: &'static str, body: String) -> (String, std::thread::JoinHandle<Value>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/hook", listener.local_addr().unwrap());
    let served = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let (mut line, mut length, mut token) = (String::new(), 0, String::new());
        while reader.read_line(&mut line).unwrap() > 2 {
            let lower = line.to_lowercase();
            if let Some(value) = lower.strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
            if let Some(value) = lower.strip_prefix("x-token:") {
                token = value.trim().to_owned();
            }
            line.clear();
        }
        let mut input = vec![0; length];
        reader.read_exact(&mut input).unwrap();
        let length = body.len();
        write!(stream, "HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}").unwrap();
        let mut input: Value = serde_json::from_slice(&input).unwrap();
        input["token"] = json!(token);
        input
    });
    (address, served)
}

#[test]
fn a_hook_of_type_http_decides_with_its_answer() {
    let folder = Folder::new("http");
    let deny = json!({ "hookSpecificOutput": {
        "hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": "because",
    }});
    for (status, chosen) in [("200 OK", "no"), ("500 Oops", "once")] {
        let (url, served) = server(status, deny.to_string());
        let mut options = folder.options(&[]);
        let hook =
            json!({ "type": "http", "url": url, "headers": { "X-Token": "a$NO_SUCH_VARIABLE.b" } });
        options["hooks"] = json!({ "PreToolUse": [{ "matcher": "Bash", "hooks": [hook] }] });
        let mut talk = folder.talk(options).with_session(&folder.0);
        talk.ask(&bash("t1", "ls"));
        if chosen == "once" {
            talk.choose("once");
        }
        assert_eq!(talk.chosen(), chosen);
        let input = served.join().unwrap();
        assert_eq!((&input["tool_name"], &input["token"]), (&json!("Bash"), &json!("a.b")));
    }
    // No server.
    let mut options = folder.options(&[]);
    options["strict"] = json!(true);
    options["hooks"] =
        json!({ "PreToolUse": [{ "hooks": [{ "type": "http", "url": "http://127.0.0.1:1/x" }] }] });
    let mut talk = folder.talk(options).with_session(&folder.0);
    talk.ask(&bash("t1", "ls"));
    assert_eq!(talk.chosen(), "no");
}

#[test]
fn each_run_of_a_hook_is_in_the_audit_log() {
    let folder = Folder::new("audit");
    let mut options = folder.options(&[("PreToolUse", "", "echo because >&2; exit 2")]);
    options["audit"] = json!(folder.path("audit.jsonl"));
    let mut talk = folder.talk(options).with_session(&folder.0);
    talk.ask(&bash("t1", "git push"));
    assert_eq!(talk.chosen(), "no");
    let records = folder.inputs("audit.jsonl");
    let record = records.iter().find(|it| it["event"] == "hook").expect("a record");
    assert_eq!(record["decision"], "deny");
    assert_eq!(record["by"], "hook");
    assert_eq!((&record["tool"], &record["call"]), (&json!("Bash"), &json!("t1")));
    assert_eq!(record["what"]["command"], "git push");
    assert_eq!(record["at"], "session/request_permission");
    assert!(record.to_string().contains("because"), "{record}");
}

#[test]
fn of_two_hooks_with_the_same_command_the_stricter_one_runs() {
    let folder = Folder::new("stricter");
    let mut options = folder.options(&[("PreToolUse", "Bash", "exit 3"); 3]);
    for (index, (member, value)) in
        [("async", json!(true)), ("onFailure", json!("block")), ("onFailure", json!("continue"))]
            .into_iter()
            .enumerate()
    {
        options["hooks"]["PreToolUse"][index]["hooks"][0][member] = value;
    }
    let mut talk = folder.talk(options).with_session(&folder.0);
    talk.ask(&bash("t1", "ls"));
    assert_eq!(talk.chosen(), "no");
}

#[test]
fn a_permission_request_of_a_cancelled_turn_is_answered_as_cancelled() {
    let folder = Folder::new("cancelled");
    let command = format!("{}; sleep 600", folder.record("input"));
    let mut talk = folder.session(&[("PreToolUse", "", &command)]);
    talk.ask(&bash("t1", "ls"));
    talk.wait_for(&folder, 1);
    talk.send("editor", &json!({ "method": "session/cancel", "params": { "sessionId": "s" } }));
    talk.conversation.receive("agent");
    let answer = talk.receive("agent");
    assert_eq!(answer["result"]["outcome"]["outcome"], "cancelled", "{answer}");
}

#[test]
fn the_duration_of_each_hook_is_sent_as_a_metric() {
    let folder = Folder::new("duration");
    let mut talk = folder.session(&[("UserPromptSubmit", "", "exit 0")]);
    talk.prompt("go");
    let metric = talk.conversation.receive("editor");
    assert_eq!(metric["method"], "_proxy/metric", "{metric}");
    assert_eq!(metric["params"]["name"], "hook_duration_seconds");
    assert_eq!(metric["params"]["kind"], "histogram");
    assert_eq!(metric["params"]["labels"], json!({ "event": "UserPromptSubmit" }));
    talk.expect_prompt(&["go"]);
}
