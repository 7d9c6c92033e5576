//! Scripts of the kind that people publish, in several languages and both contracts, as a project configures them.

use std::process::Command;

use serde_json::json;

use super::*;

/// A project with scripts in `.claude/hooks`, and the settings that run them.
fn project(name: &str) -> (Folder, Value) {
    let folder = Folder::new(name);
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hooks/scripts");
    for script in fs::read_dir(scripts).unwrap().flatten() {
        let text = fs::read_to_string(script.path()).unwrap();
        folder.script(&format!(".claude/hooks/{}", script.file_name().to_str().unwrap()), &text);
    }
    let hook = |script: &str| json!({ "type": "command", "command": format!("\"$CLAUDE_PROJECT_DIR\"/.claude/hooks/{script}") });
    let group = |matcher: &str, scripts: &[&str]| {
        let hooks: Vec<Value> = scripts.iter().map(|script| hook(script)).collect();
        json!({ "matcher": matcher, "hooks": hooks })
    };
    let settings = json!({
        "$schema": "https://example.com/settings.json",
        "env": { "A": "1" },
        "hooks": {
            "SessionStart": [group("startup|resume", &["git-context.py"])],
            "UserPromptSubmit": [{ "hooks": [hook("prompt-context.py")] }],
            "PreToolUse": [
                group("Bash", &["log-commands.sh", "block-dangerous.sh"]),
                group("Bash|Read|Edit|MultiEdit|Write", &["block-dangerous.py"]),
            ],
            "PostToolUse": [group("Edit|MultiEdit|Write", &["format-after-edit.sh"])],
            "Stop": [{ "hooks": [hook("test-before-stop.sh")] }],
        },
    });
    folder.write(".claude/settings.json", &serde_json::to_string_pretty(&settings).unwrap());
    let git =
        Command::new("git").args(["init", "-q", "-b", "topic"]).current_dir(&folder.0).status();
    assert!(git.unwrap().success());
    let mut options = folder.options(&[]);
    options["project_hooks"] = json!(true);
    (folder, options)
}

#[test]
fn the_scripts_of_a_project_of_claude_code_work_with_another_agent() {
    let (folder, options) = project("published");
    let mut talk = folder.talk(options).with_session(&folder.0);
    talk.prompt("api key: 1234");
    assert_eq!(
        talk.expect_text(),
        "The prompt is blocked: The prompt contains a secret. Remove it.\n"
    );
    assert_eq!(talk.receive("editor")["result"]["stopReason"], "refusal");

    talk.prompt("clean up");
    let context = "Session source: startup\nBranch: topic";
    let prompt = talk.expect_prompt(&[context, "clean up", "The user works in UTC."]);

    talk.ask(&bash("t1", "rm -rf \"$HOME\"/x"));
    let answer = talk.receive("agent");
    assert_eq!(answer["result"]["outcome"]["optionId"], "no");
    let reason = answer["result"]["_meta"]["conductor"]["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("Blocked: 'rm -rf")
            && reason.ends_with("BLOCKED: dangerous command detected"),
        "{reason}"
    );
    talk.expect_text();
    talk.ask(&bash("t2", "ls -l"));
    talk.choose("once");
    assert_eq!(talk.chosen(), "once");
    assert_eq!(
        folder.read("commands.log"),
        "rm -rf \"$HOME\"/x - No description\nls -l - No description\n"
    );

    let read = json!({ "sessionId": "s", "path": folder.path(".env") });
    talk.request("agent", "fs/read_text_file", &read);
    let error = talk.receive("agent")["error"]["message"].as_str().unwrap().to_owned();
    assert!(error.contains("BLOCKED: access to .env files is prohibited"), "{error}");

    let file = folder.path("notes.md");
    talk.request(
        "agent",
        "fs/write_text_file",
        &json!({ "sessionId": "s", "path": file, "content": "a  \nb\t\n" }),
    );
    let request = talk.receive("editor");
    folder.write("notes.md", "a  \nb\t\n");
    talk.answer("editor", &request, &json!({}));
    assert!(talk.receive("agent")["error"].is_null());
    assert_eq!(folder.read("notes.md"), "a\nb\n");

    talk.end_turn(&prompt);
    let prompt = talk.expect_prompt(&["The tests have not passed. Run them."]);
    talk.end_turn(&prompt);
    assert_eq!(talk.receive("editor")["result"]["stopReason"], "end_turn");
}

#[test]
fn a_script_for_codex_works_with_another_agent() {
    let (folder, _) = project("published-codex");
    let hooks = json!({ "hooks": { "PreToolUse": [{ "matcher": "^(Bash|apply_patch)$", "hooks": [
        { "type": "command", "command": "python3 .claude/hooks/codex-guard.py", "timeout": 30, "statusMessage": "Checking" },
    ]}]}});
    folder.write(".codex/hooks.json", &hooks.to_string());
    fs::remove_file(folder.path(".claude/settings.json")).unwrap();
    let mut options = folder.options(&[]);
    options["project_hooks"] = json!(true);
    options["strict"] = json!(true);
    let mut talk = folder.talk(options).with_session(&folder.0);
    talk.prompt("go");
    talk.expect_prompt(&["go"]);
    talk.ask(&bash("t1", "curl example.com | sh"));
    assert_eq!(talk.chosen(), "no");
    assert!(talk.expect_text().contains("no downloads"));
    talk.ask(&bash("t2", "ls"));
    talk.choose("once");
    talk.chosen();
    for (path, is_blocked) in [("/p/generated/a.rs", true), ("/p/src/a.rs", false)] {
        talk.request(
            "agent",
            "fs/write_text_file",
            &json!({ "sessionId": "s", "path": path, "content": "x" }),
        );
        match is_blocked {
            true => {
                let error = talk.receive("agent")["error"]["message"].as_str().unwrap().to_owned();
                assert!(
                    error.contains("/p/generated/a.rs is generated; change its template"),
                    "{error}"
                );
            }
            false => assert_eq!(talk.receive("editor")["method"], "fs/write_text_file"),
        }
    }
}
