//! Where hooks come from, which files an agent runs itself, and which files are refused.

use serde_json::{Value, json};

use super::*;

/// A settings file of Claude Code with a hook for prompts that records its input.
fn settings(folder: &Folder, command: &str) -> String {
    json!({
        "model": "opus",
        "permissions": { "allow": ["Bash(ls)"] },
        "hooks": { "UserPromptSubmit": [{ "hooks": [{ "type": "command", "command": command }] }] },
    })
    .to_string()
    .replace("FOLDER", folder.0.to_str().unwrap())
}

/// How many hooks run for a prompt.
fn runs(folder: &Folder, agent: &str, options: &Value) -> usize {
    let _ = fs::remove_file(folder.path("input"));
    let conversation = Conversation::new(component(&[], options.clone()));
    let mut talk = Talk { conversation, id: 0 }.initialized(agent, 1).with_session(&folder.0);
    talk.prompt("go");
    talk.expect_prompt(&["go"]);
    folder.inputs("input").len()
}

#[test]
fn the_hooks_of_a_project_run_only_if_the_user_wants_that_and_not_twice() {
    let folder = Folder::new("project");
    let text = settings(&folder, &folder.record("input"));
    folder.write(".claude/settings.json", &text);
    folder.write(
        ".claude/settings.local.json",
        &settings(&folder, &format!("true; {}", folder.record("input"))),
    );
    let codex = json!({ "hooks": { "UserPromptSubmit": [
        { "hooks": [{ "type": "command", "command": format!("true && {}", folder.record("input")) }] },
    ]}});
    folder.write(".codex/hooks.json", &codex.to_string());
    let mut options = folder.options(&[]);
    assert_eq!(runs(&folder, "goose", &options), 0);
    options["project_hooks"] = json!(true);
    for (agent, count) in [
        ("goose", 3),
        ("gemini-cli", 3),
        ("some-agent", 3),
        // These agents run the first two files themselves, and codex the third.
        ("@agentclientprotocol/claude-agent-acp", 1),
        ("@zed-industries/claude-code-acp", 1),
        ("codex-acp", 2),
    ] {
        assert_eq!(runs(&folder, agent, &options), count, "{agent}");
    }
    options["always"] = json!(true);
    assert_eq!(runs(&folder, "@agentclientprotocol/claude-agent-acp", &options), 3);
}

#[test]
fn a_file_that_the_options_name_runs_with_every_agent_that_does_not_read_it() {
    let folder = Folder::new("named");
    let text = settings(&folder, &folder.record("input"));
    let mut options = folder.options(&[]);
    options["settings"] = json!([folder.write("team.json", &text)]);
    assert_eq!(runs(&folder, "@agentclientprotocol/claude-agent-acp", &options), 1);
    // The same file by another name is still the file that the agent reads.
    folder.write(".claude/settings.json", &text);
    std::os::unix::fs::symlink(folder.path(".claude/settings.json"), folder.path("link.json"))
        .unwrap();
    options["settings"] = json!([folder.path("link.json")]);
    assert_eq!(runs(&folder, "@agentclientprotocol/claude-agent-acp", &options), 0);
    assert_eq!(runs(&folder, "goose", &options), 1);
}

#[test]
fn the_same_command_of_two_files_runs_once_and_a_file_can_disable_its_hooks() {
    let folder = Folder::new("same");
    let text = settings(&folder, &folder.record("input"));
    let (one, two) = (folder.write("one.json", &text), folder.write("two.json", &text));
    let mut options = folder.options(&[("UserPromptSubmit", "", &folder.record("input"))]);
    options["settings"] = json!([one, two]);
    assert_eq!(runs(&folder, "goose", &options), 1);
    let mut disabled: Value = serde_json::from_str(&text).unwrap();
    disabled["disableAllHooks"] = json!(true);
    let mut options = folder.options(&[]);
    options["settings"] = json!([folder.write("off.json", &disabled.to_string())]);
    assert_eq!(runs(&folder, "goose", &options), 0);
}

/// The agent runs a hook of its own file. The same hook in another file would run a second time.
#[test]
fn a_hook_that_the_agent_runs_itself_does_not_run_from_another_file() {
    let folder = Folder::new("not-twice");
    let text = settings(&folder, &folder.record("input"));
    folder.write(".claude/settings.json", &text);
    let mut options = folder.options(&[("UserPromptSubmit", "", &folder.record("input"))]);
    options["settings"] = json!([folder.write("team.json", &text)]);
    options["project_hooks"] = json!(true);
    let claude = "@agentclientprotocol/claude-agent-acp";
    assert_eq!(runs(&folder, claude, &options), 0);
    assert_eq!(runs(&folder, "goose", &options), 1);
    // A stricter hook, and one of another event, are not the same.
    let mut stricter: Value = serde_json::from_str(&text).unwrap();
    stricter["hooks"]["UserPromptSubmit"][0]["hooks"][0]["onFailure"] = json!("block");
    options["settings"] = json!([folder.write("team.json", &stricter.to_string())]);
    assert_eq!(runs(&folder, claude, &options), 1);
    options["settings"] = json!([]);
    options["hooks"] = json!({ "Stop": options["hooks"]["UserPromptSubmit"] });
    assert_eq!(runs(&folder, claude, &options), 0);
}

/// Codex reads `.codex` in all folders up to the root of the repository.
#[test]
fn codex_runs_the_hooks_of_the_root_of_the_repository_itself() {
    let folder = Folder::new("codex-root");
    folder.write(".git/HEAD", "");
    folder.write("deep/sub/x", "");
    let hooks = json!({ "hooks": { "UserPromptSubmit": [
        { "hooks": [{ "type": "command", "command": folder.record("input") }] },
    ]}});
    let mut options = folder.options(&[]);
    options["codex"] = json!([folder.write(".codex/hooks.json", &hooks.to_string())]);
    for (agent, count) in [("codex-acp", 0), ("goose", 1)] {
        let _ = fs::remove_file(folder.path("input"));
        let conversation = Conversation::new(component(&[], options.clone()));
        let talk = Talk { conversation, id: 0 }.initialized(agent, 1);
        let mut talk = talk.with_session(&folder.0.join("deep/sub"));
        talk.prompt("go");
        talk.expect_prompt(&["go"]);
        assert_eq!(folder.inputs("input").len(), count, "{agent}");
    }
}

/// Claude Code merges the settings of the user and of a project.
#[test]
fn one_of_the_merged_settings_disables_the_hooks_of_all() {
    let folder = Folder::new("merged");
    let text = settings(&folder, &folder.record("input"));
    folder.write(".claude/settings.json", &text);
    folder.write(".claude/settings.local.json", "{\"disableAllHooks\": true}");
    let mut options = folder.options(&[]);
    options["project_hooks"] = json!(true);
    assert_eq!(runs(&folder, "goose", &options), 0);
    // Other files are not disabled.
    options["settings"] = json!([folder.write("team.json", &text)]);
    assert_eq!(runs(&folder, "goose", &options), 1);
    folder.write(".claude/settings.local.json", "{}");
    options["settings"] = json!([]);
    assert_eq!(runs(&folder, "goose", &options), 1);
}

#[test]
fn a_hook_with_once_runs_once_in_a_session_and_one_with_async_holds_nothing() {
    let folder = Folder::new("once-async");
    let mut options = folder.options(&[]);
    options["hooks"] = json!({ "UserPromptSubmit": [{ "hooks": [
        { "type": "command", "command": folder.record("input"), "once": true },
        { "type": "command", "command": "sleep 600; exit 2", "async": true },
    ]}]});
    let mut talk = folder.talk(options).with_session(&folder.0);
    for _ in 0..2 {
        talk.prompt("go");
        let prompt = talk.expect_prompt(&["go"]);
        talk.end_turn(&prompt);
        talk.receive("editor");
    }
    assert_eq!(folder.inputs("input").len(), 1);
}

#[test]
fn a_condition_selects_tool_calls() {
    let folder = Folder::new("if");
    let mut options = folder.options(&[]);
    options["hooks"] = json!({ "PreToolUse": [{ "matcher": "Bash", "hooks": [
        { "type": "command", "command": "echo no >&2; exit 2", "if": "Bash(git push *)" },
    ]}]});
    let mut talk = folder.talk(options).with_session(&folder.0);
    talk.ask(&bash("t1", "git status"));
    talk.choose("once");
    talk.chosen();
    talk.ask(&bash("t2", "cd x && git push origin"));
    assert_eq!(talk.chosen(), "no");
}

#[test]
fn a_wrong_settings_file_is_refused_with_its_line_and_a_hint() {
    let folder = Folder::new("wrong");
    let refuse = |text: &str| {
        let file = folder.write("settings.json", text);
        let why = refusal(&["--settings", &file], folder.options(&[]));
        why.replace(&file, "FILE")
    };
    let why = refuse("{\n  \"hooks\": {\n");
    assert!(
        why.starts_with("hooks: FILE:3: EOF while parsing") && why.contains("correct the file"),
        "{why}"
    );
    let why = refuse("{\"hooks\": {\n\"PreToolUse\": [\n{\"hooks\": \"x\"}]}}");
    assert!(why.starts_with("hooks: FILE:3: invalid type"), "{why}");
    let why = refuse("{\"hooks\": {\n\"PreToolUse\": [],\n\"PreToolUse\": []}}");
    assert!(why.starts_with("hooks: FILE:3: PreToolUse occurs twice"), "{why}");
    let why = refuse("{\"hooks\": {\"PreToolUse\": [\n{\"matcher\": \"Bash\", \"hook\": []}]}}");
    assert!(why.starts_with("hooks: FILE:2: this group has no `hooks`, but hook; write"), "{why}");
    let why = refuse("{\n\"PreToolUse\": [{\"hooks\": [{\"command\": \"exit 2\"}]}]}");
    assert!(why.starts_with("hooks: FILE:2: PreToolUse is outside of `hooks`"), "{why}");
    let handler = |handler: Value| {
        refuse(&format!("{{\"hooks\":{{\"PreToolUse\":[{{\"hooks\":[\n\n{handler}]}}]}}}}"))
    };
    let why = handler(json!({ "type": "prompt", "prompt": "Is it safe?" }));
    assert!(why.starts_with("hooks: FILE:3: a hook of type prompt needs the model"), "{why}");
    assert!(why.contains("--skip-unsupported") && why.contains("[more: conductor errors"), "{why}");
    let why = handler(json!({ "type": "command" }));
    assert!(
        why.starts_with("hooks: FILE:3: a hook of type command has no command; add one"),
        "{why}"
    );
    let why = handler(json!({ "type": "http", "url": "http://example.com/hook" }));
    assert!(
        why.contains("FILE:3: the host example.com is not this machine")
            && why.contains("--allow-http example.com"),
        "{why}"
    );
    let why = handler(json!({ "command": "x", "timeout": -1 }));
    assert!(why.contains("FILE:3: the timeout -1 is not a time; write seconds"), "{why}");
    let why = handler(json!({ "command": "x", "onFailure": "stop" }));
    assert!(why.contains("FILE:3: onFailure is stop; write continue or block"), "{why}");
    let why = refuse(
        "{\"hooks\":{\"PreToolUse\":[{\"matcher\":\"^(?!Bash).*\",\"hooks\":[{\"command\":\"x\"}]}]}}",
    );
    assert!(why.contains("FILE:1: the matcher cannot be used: look-around"), "{why}");
    let why = refusal(&["--settings", "/no/such/file.json"], folder.options(&[]));
    assert!(why.contains("/no/such/file.json: cannot read the file: it does not exist"), "{why}");
}

#[test]
fn hooks_that_cannot_run_are_left_out_if_the_user_wants_that() {
    let folder = Folder::new("unsupported");
    let text = json!({ "hooks": {
        "SubagentStop": [{ "hooks": [{ "type": "command", "command": "x" }] }],
        "NoSuchEvent": [{ "hooks": [{ "type": "command", "command": "x" }] }],
        "UserPromptSubmit": [
            { "hooks": [{ "type": "prompt", "prompt": "x" }] },
            { "hooks": [{ "type": "command", "command": folder.record("input"), "future": 1 }] },
        ],
        "PreToolUse": [{ "matcher": "(", "hooks": [{ "type": "command", "command": "exit 2" }] }],
    }});
    let file = folder.write("settings.json", &text.to_string());
    let mut options = folder.options(&[]);
    options["settings"] = json!([file]);
    options["skip_unsupported"] = json!(true);
    assert_eq!(runs(&folder, "goose", &options), 1);
    // An invalid matcher matches nothing.
    let mut talk = folder.talk(options).with_session(&folder.0);
    talk.ask(&bash("t1", "ls"));
    talk.choose("once");
    talk.chosen();
}

#[test]
fn a_wrong_options_file_is_refused_with_its_line_and_a_hint() {
    let folder = Folder::new("toml");
    let refuse = |text: &str| {
        let file = folder.write("hooks.toml", text);
        refusal(&["--config", &file], json!({})).replace(&file, "FILE")
    };
    let why = refuse("no_user_hooks = true\n\n[[hooks.PreToolUsed]]\nhooks = []\n");
    assert!(why.starts_with("hooks: FILE:3: unknown field `PreToolUsed`"), "{why}");
    assert!(why.contains("did you mean `PreToolUse`?"), "{why}");
    let why = refuse("[[hooks.PreToolUse]]\nmatcher = \"(\"\n");
    assert!(why.starts_with("hooks: FILE:2: the matcher cannot be used"), "{why}");
    let why = refuse("[[hooks.PreToolUse]]\n[[hooks.PreToolUse.hooks]]\ntype = \"agent\"\n");
    assert!(why.starts_with("hooks: FILE:3: a hook of type agent needs the model"), "{why}");
    let why = refuse("[[hooks.PreToolUse]]\n[[hooks.PreToolUse.hooks]]\ncomand = \"x\"\n");
    assert!(
        why.starts_with("hooks: FILE:3: unknown field `comand`") && why.contains("`command`?"),
        "{why}"
    );
    let why = refuse("project_hook = true\n");
    assert!(
        why.starts_with("hooks: FILE:1: unknown field") && why.contains("`project_hooks`?"),
        "{why}"
    );
    let why = refuse("longest = \"soon\"\n");
    assert!(why.starts_with("hooks: FILE:1: `soon` is not a duration"), "{why}");
}

#[test]
fn a_project_with_a_broken_settings_file_gets_no_session() {
    let folder = Folder::new("broken");
    folder.write(".claude/settings.json", "{\n\"hooks\": [\n");
    let mut options = folder.options(&[]);
    options["project_hooks"] = json!(true);
    let mut talk = folder.talk(options);
    talk.request("editor", "session/new", &json!({ "cwd": folder.0, "mcpServers": [] }));
    let error = talk.receive("editor")["error"].clone();
    let message = error["message"].as_str().unwrap();
    assert!(
        message.starts_with("hooks: ") && message.contains(".claude/settings.json:2: invalid type"),
        "{message}"
    );
    // -32000 would ask the user to log in.
    assert_eq!(error["code"], -32603);
    assert_eq!(error["data"]["code"], "invalid-options-file");
}

/// The component was restarted, or has forgotten the session.
#[test]
fn a_session_whose_project_is_not_known_is_blocked() {
    let folder = Folder::new("unknown");
    let mut options = folder.options(&[]);
    options["project_hooks"] = json!(true);
    let mut talk = folder.talk(options);
    talk.ask(&bash("t1", "ls"));
    assert_eq!(talk.chosen(), "no");
    assert!(talk.expect_text().contains("working directory of the session is not known"));
    talk.request(
        "agent",
        "fs/write_text_file",
        &json!({ "sessionId": "s", "path": "/x", "content": "" }),
    );
    assert_eq!(talk.receive("agent")["error"]["code"], -32000);
    talk.prompt("go");
    talk.expect_text();
    assert_eq!(talk.receive("editor")["result"]["stopReason"], "refusal");
}

#[test]
fn nothing_passes_if_the_files_cannot_be_read_when_the_component_starts_again() {
    let folder = Folder::new("restart");
    let file = folder.write("settings.json", &settings(&folder, "true"));
    let mut options = folder.options(&[]);
    options["settings"] = json!([file]);
    let factory =
        components::find("hooks").unwrap().parse(&[], options.as_object().unwrap()).unwrap();
    folder.write("settings.json", "{");
    let mut talk = Talk { conversation: Conversation::new(factory()), id: 0 };
    talk = talk.initialized("goose", 1).with_session(&folder.0);
    talk.ask(&bash("t1", "ls"));
    assert_eq!(talk.chosen(), "no");
    assert!(talk.expect_text().contains("the hooks cannot be read"));
}
