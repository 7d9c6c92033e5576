//! Files and terminals that the agent uses through the editor.

use serde_json::{Value, json};

use crate::{Chain, RULES, command, selected, write};

fn read(path: &str) -> Value {
    json!({ "sessionId": "s", "path": path })
}

fn written(path: &str) -> Value {
    json!({ "sessionId": "s", "path": path, "content": "x" })
}

fn terminal(line: &str) -> Value {
    json!({ "sessionId": "s", "command": line })
}

#[test]
fn what_the_rules_allow_passes_unchanged() {
    let mut chain = Chain::new(RULES, &[]);
    let path = chain.in_project("src/a.rs");
    for (method, mut params, result) in [
        ("fs/read_text_file", read(&path), json!({ "content": "x", "odd": 1 })),
        ("fs/write_text_file", written(&path), json!(null)),
        ("terminal/create", terminal("git status"), json!({ "terminalId": "t" })),
        (
            "terminal/create",
            json!({ "sessionId": "s", "command": "ls", "args": ["-l"] }),
            json!({ "terminalId": "t" }),
        ),
    ] {
        params["odd"] = json!([1.50]);
        let received = chain.request("agent", method, params.clone(), Ok(result));
        assert_eq!(received["params"], params);
    }
    chain.assert_quiet();
}

#[test]
fn what_the_rules_deny_is_an_error_with_the_reason() {
    let mut chain = Chain::new(RULES, &[]);
    let rules = chain.folder.path("rules.toml");
    let (secret, hook) = (chain.in_project(".env"), chain.in_project(".git/hooks/x"));
    for (method, params, rule, name) in [
        ("terminal/create", terminal("git push --force"), 5, json!("no force push")),
        (
            "terminal/create",
            json!({ "sessionId": "s", "command": "git", "args": ["push", "-f"] }),
            5,
            json!("no force push"),
        ),
        (
            "terminal/create",
            json!({ "sessionId": "s", "command": "/bin/bash", "args": ["-c", "git push -f"] }),
            5,
            json!("no force push"),
        ),
        ("fs/read_text_file", read(&secret), 11, json!(null)),
        ("fs/write_text_file", written(&hook), 11, json!(null)),
    ] {
        chain.ask("agent", method, params.clone());
        let error = chain.receive("agent")["error"].clone();
        assert_eq!(error["code"], -32000, "{params}: {error}");
        let text = error["message"].as_str().expect("a text");
        assert!(text.starts_with("permissions: the agent may not "), "{text}");
        assert!(text.ends_with("[more: conductor errors denied-by-policy]"), "{text}");
        assert_eq!(error["data"]["component"], "permissions");
        assert_eq!(error["data"]["code"], "denied-by-policy");
        assert_eq!(error["data"]["rule"], json!({ "name": name, "file": rules, "line": rule }));
    }
    chain.ask("agent", "terminal/create", terminal("git push -f"));
    let text = chain.receive("agent")["error"]["message"].clone();
    assert!(text.as_str().expect("a text").contains("No force pushes here"), "{text}");
    chain.assert_quiet();
}

#[test]
fn the_user_is_asked_about_the_rest() {
    let mut chain = Chain::new(RULES, &[]);
    let path = chain.in_project("notes.txt");
    for (choice, passes) in [
        ("conductor-allow-once", true),
        ("conductor-reject-once", false),
        ("something else", false),
        ("conductor-allow-session", true),
    ] {
        chain.ask("agent", "fs/read_text_file", read(&path));
        let asked = chain.receive("editor");
        assert_eq!(asked["method"], "session/request_permission");
        let call = &asked["params"]["toolCall"];
        assert_eq!(call["title"], format!("permissions: may the agent read {path}?"));
        assert_eq!(call["kind"], "read");
        assert_eq!(call["rawInput"], json!({ "file_path": path }));
        assert_eq!(call["locations"], json!([{ "path": path }]));
        let kinds: Vec<&Value> = asked["params"]["options"]
            .as_array()
            .expect("options")
            .iter()
            .map(|it| &it["kind"])
            .collect();
        assert_eq!(kinds, ["allow_once", "allow_always", "reject_once"]);
        chain.answer("editor", &asked, selected(choice));
        match passes {
            true => {
                let passed = chain.receive("editor");
                assert_eq!(passed["method"], "fs/read_text_file");
                chain.answer("editor", &passed, Ok(json!({ "content": "x" })));
                assert_eq!(chain.receive("agent")["result"]["content"], "x");
            }
            false => {
                let error = chain.receive("agent")["error"].clone();
                let text = error["message"].as_str().expect("a text");
                assert!(text.contains("the user has denied it"), "{text}");
            }
        }
    }
    // The last answer was for the session, and for this file.
    chain.request("agent", "fs/read_text_file", read(&path), Ok(json!({ "content": "x" })));
    let other = chain.in_project("other.txt");
    chain.ask("agent", "fs/read_text_file", read(&other));
    assert_eq!(chain.receive("editor")["method"], "session/request_permission");
}

#[test]
fn the_user_is_not_asked_twice_about_the_same_action() {
    let mut chain = Chain::new(RULES, &[]);
    let path = chain.in_project("notes.txt");
    let allow = |chain: &mut Chain, call: Value| {
        chain.ask_permission(call);
        let asked = chain.receive("editor");
        chain.answer("editor", &asked, selected("yes"));
        assert_eq!(chain.outcome(), "yes");
    };
    allow(&mut chain, write("w", &path));
    chain.request("agent", "fs/read_text_file", read(&path), Ok(json!({ "content": "" })));
    chain.request("agent", "fs/write_text_file", written(&path), Ok(json!(null)));
    allow(&mut chain, command("c", "make all"));
    let shell = json!({ "sessionId": "s", "command": "/bin/bash", "args": ["-c", "make all"] });
    chain.request("agent", "terminal/create", shell.clone(), Ok(json!({ "terminalId": "t" })));
    chain.assert_quiet();
    // The command was allowed once.
    chain.ask("agent", "terminal/create", shell);
    let asked = chain.receive("editor");
    assert_eq!(asked["method"], "session/request_permission");
    chain.answer("editor", &asked, selected("conductor-reject-once"));
    chain.receive("agent");
    // Another command than the one that was allowed.
    allow(&mut chain, command("d", "make test"));
    chain.ask("agent", "terminal/create", terminal("make test; make install"));
    let asked = chain.receive("editor");
    assert_eq!(asked["method"], "session/request_permission");
    chain.answer("editor", &asked, selected("conductor-reject-once"));
    chain.receive("agent");
    chain.ask("agent", "terminal/create", terminal("git push -f"));
    assert_eq!(chain.receive("agent")["error"]["code"], -32000, "a rule denies it");
    // The call has ended, so what was allowed for it is over.
    chain.report("w", json!({ "title": "Write", "kind": "edit", "status": "completed" }));
    chain.ask("agent", "fs/write_text_file", written(&path));
    assert_eq!(chain.receive("editor")["method"], "session/request_permission");
}

#[test]
fn what_was_allowed_is_over_with_the_turn() {
    let mut chain = Chain::new(RULES, &[]);
    let path = chain.in_project("notes.txt");
    chain.ask_permission(write("w", &path));
    let asked = chain.receive("editor");
    chain.answer("editor", &asked, selected("yes"));
    assert_eq!(chain.outcome(), "yes");
    chain.ask("editor", "session/prompt", json!({ "sessionId": "s", "prompt": [] }));
    chain.receive("agent");
    chain.ask("agent", "fs/write_text_file", written(&path));
    assert_eq!(chain.receive("editor")["method"], "session/request_permission");
}

#[test]
fn a_request_without_a_member_that_it_must_have_does_not_pass() {
    let mut chain = Chain::new(RULES, &[]);
    for (method, params) in [
        ("fs/read_text_file", json!({ "sessionId": "s" })),
        ("fs/write_text_file", json!({ "sessionId": "s", "path": 1, "content": "x" })),
        ("terminal/create", json!({ "sessionId": "s", "command": "ls", "args": [1] })),
        ("terminal/create", json!({ "sessionId": "s", "command": "ls", "cwd": 1 })),
        ("terminal/create", json!({ "sessionId": "s", "command": "ls", "env": { "PATH": "x" } })),
    ] {
        chain.ask("agent", method, params.clone());
        assert_eq!(chain.receive("agent")["error"]["code"], -32602, "{params}");
    }
    chain.conversation.send_text("agent", r#"{"jsonrpc":"2.0","id":"Agent:9","method":"terminal/create","params":{"sessionId":"s","command":"git status","command":"git push -f"}}"#);
    assert_eq!(chain.receive("agent")["error"]["code"], -32602);
    chain.assert_quiet();
}

/// A variable can make a harmless command run another program.
#[test]
fn an_environment_that_runs_programs_is_asked_about() {
    let mut chain = Chain::new(RULES, &[]);
    let with = |name: &str| json!({ "sessionId": "s", "command": "git status", "env": [{ "name": name, "value": "x" }] });
    chain.request("agent", "terminal/create", with("COLOR"), Ok(json!({ "terminalId": "t" })));
    for is_allowed_before in [false, true] {
        for name in ["PATH", "LD_PRELOAD", "GIT_SSH_COMMAND"] {
            if is_allowed_before {
                assert_eq!(chain.decided(command("c", "git status")), "yes");
            }
            chain.ask("agent", "terminal/create", with(name));
            let asked = chain.receive("editor");
            assert_eq!(asked["method"], "session/request_permission", "{name}");
            chain.answer("editor", &asked, selected("conductor-reject-once"));
            chain.receive("agent");
        }
    }
    for env in
        [json!(["PATH=x"]), json!([{ "name": "PATH", "value": "x" }]), json!({ "PATH": "x" })]
    {
        let mut call = command("c", "git status");
        call["rawInput"]["env"] = env.clone();
        chain.ask_permission(call);
        let asked = chain.receive("editor");
        assert_eq!(asked["method"], "session/request_permission", "{env}");
        chain.answer("editor", &asked, selected("no"));
        assert_eq!(chain.outcome(), "no");
    }
}

/// The program has the name of a shell, but it may be anything.
#[test]
fn a_shell_in_another_folder_is_another_command() {
    let mut chain = Chain::new(RULES, &[]);
    chain.ask_permission(command("c", "make all"));
    let asked = chain.receive("editor");
    chain.answer("editor", &asked, selected("yes"));
    assert_eq!(chain.outcome(), "yes");
    let shell = json!({ "sessionId": "s", "command": "/tmp/x/bash", "args": ["-c", "make all"] });
    chain.ask("agent", "terminal/create", shell);
    assert_eq!(chain.receive("editor")["method"], "session/request_permission");
}
