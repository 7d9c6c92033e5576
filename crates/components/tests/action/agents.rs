//! What each agent sends with a permission request, and the action that it means.

use std::path::Path;

use components::agents::AgentKind;
use serde_json::json;

use crate::{Case, action, announced, changed, check, line, text};

#[test]
fn the_requests_of_the_agents_of_claude_have_the_whole_input() {
    let meta = |name: &str| json!({ "claudeCode": { "toolName": name } });
    check(vec![
        Case {
            agent: AgentKind::ClaudeAgent,
            // The first report has no arguments yet.
            updates: vec![
                announced(
                    json!({ "kind": "execute", "title": "Terminal", "rawInput": {}, "_meta": meta("Bash") }),
                ),
                changed(
                    json!({ "title": "git push -f", "rawInput": { "command": "git push -f", "description": "Push" } }),
                ),
            ],
            call: json!({ "toolCallId": "t", "name": "Bash", "kind": "execute", "title": "git push -f",
                "rawInput": { "command": "git push -f", "description": "Push" }, "content": text("Push"), "locations": [] }),
            line: "Bash [Bash]: run `git push -f`",
            input: json!({ "command": "git push -f", "description": "Push" }),
        },
        Case {
            agent: AgentKind::ClaudeAgent,
            updates: vec![],
            call: json!({ "toolCallId": "t", "name": "mcp__kit__echo", "kind": "other", "title": "mcp__kit__echo",
                "rawInput": { "command": "x" } }),
            line: "mcp__kit__echo [mcp__kit__echo]: call echo of kit",
            input: json!({ "command": "x" }),
        },
        Case {
            agent: AgentKind::ClaudeCode,
            updates: vec![announced(json!({ "kind": "edit", "title": "Write a.txt",
                "rawInput": { "file_path": "/project/a.txt", "content": "x" }, "_meta": meta("mcp__acp__Write") }))],
            call: json!({ "toolCallId": "t", "title": "Write a.txt",
                "rawInput": { "file_path": "/project/a.txt", "content": "x" } }),
            line: "Write [mcp__acp__Write]: write /project/a.txt",
            input: json!({ "file_path": "/project/a.txt", "content": "x" }),
        },
        Case {
            agent: AgentKind::ClaudeCode,
            updates: vec![announced(
                json!({ "kind": "execute", "title": "`ls`", "rawInput": {}, "_meta": meta("mcp__acp__Bash") }),
            )],
            call: json!({ "toolCallId": "t", "title": "`ls`", "rawInput": { "command": "ls" } }),
            line: "Bash [mcp__acp__Bash]: run `ls`",
            input: json!({ "command": "ls" }),
        },
    ]);
}

#[test]
fn the_approval_of_an_mcp_tool_by_codex_has_only_an_id() {
    let raw = json!({ "server": "kit", "tool": "echo", "arguments": { "text": "x" } });
    check(vec![
        Case {
            agent: AgentKind::Codex,
            updates: vec![announced(
                json!({ "kind": "execute", "title": "mcp.kit.echo", "status": "in_progress", "rawInput": raw }),
            )],
            call: json!({ "toolCallId": "t", "kind": "execute", "status": "pending", "_meta": { "is_mcp_tool_approval": true } }),
            line: "mcp__kit__echo [mcp.kit.echo]: call echo of kit",
            input: json!({ "text": "x" }),
        },
        Case {
            agent: AgentKind::Codex,
            updates: vec![announced(json!({ "kind": "execute", "title": "ls",
                "rawInput": { "command": ["/bin/bash", "-lc", "ls; pwd"], "cwd": "/project" } }))],
            call: json!({ "toolCallId": "t", "kind": "execute", "status": "pending" }),
            line: "Bash [-]: run `/bin/bash -lc 'ls; pwd'`",
            input: json!({ "command": "/bin/bash -lc 'ls; pwd'", "cwd": "/project" }),
        },
        Case {
            agent: AgentKind::Codex,
            updates: vec![],
            call: json!({ "toolCallId": "t", "kind": "edit", "name": "apply_patch",
                "rawInput": { "changes": { "/project/a": { "type": "delete" }, "/project/b": { "type": "update", "move_path": "/project/c" } } } }),
            line: "Edit [apply_patch]: write /project/a, delete /project/a, write /project/b, write /project/c",
            input: json!({ "file_path": "/project/a",
                "changes": { "/project/a": { "type": "delete" }, "/project/b": { "type": "update", "move_path": "/project/c" } } }),
        },
    ]);
}

#[test]
fn gemini_sends_neither_arguments_nor_an_earlier_call() {
    let diff =
        json!([{ "type": "diff", "path": "/project/a.txt", "oldText": null, "newText": "new" }]);
    let edit =
        json!([{ "type": "diff", "path": "/project/a.txt", "oldText": "a", "newText": "b" }]);
    check(vec![
        Case {
            agent: AgentKind::Gemini,
            updates: vec![],
            call: json!({ "toolCallId": "run_shell_command__17_1", "status": "pending", "kind": "execute",
                "title": "rm -rf build && ls", "content": text("[current working directory /project] (Cleans up)"), "locations": [] }),
            line: "Bash [run_shell_command]: run `rm -rf build && ls`",
            input: json!({ "command": "rm -rf build && ls" }),
        },
        Case {
            agent: AgentKind::Gemini,
            updates: vec![],
            call: json!({ "toolCallId": "write_file-17-1", "kind": "edit", "title": "Writing to a.txt",
                "content": diff, "locations": [{ "path": "/project/a.txt" }] }),
            line: "Write [write_file]: write /project/a.txt",
            input: json!({ "file_path": "/project/a.txt", "content": "new" }),
        },
        Case {
            agent: AgentKind::Gemini,
            updates: vec![],
            call: json!({ "toolCallId": "x", "kind": "edit", "title": "a.txt: a => b", "content": edit, "locations": [] }),
            line: "Edit [-]: write /project/a.txt",
            input: json!({ "file_path": "/project/a.txt", "old_string": "a", "new_string": "b" }),
        },
        Case {
            agent: AgentKind::Gemini,
            updates: vec![],
            call: json!({ "toolCallId": "mcp_kit_echo__17_1", "kind": "other", "title": "echo (kit MCP Server)",
                "content": text(r#"{"text":"x"}"#), "locations": [] }),
            line: "mcp__kit__echo [mcp_kit_echo]: call echo of kit",
            input: json!({ "text": "x" }),
        },
        // A server of the user's own configuration.
        Case {
            agent: AgentKind::Gemini,
            updates: vec![],
            call: json!({ "toolCallId": "y", "kind": "other", "title": "go (far MCP Server)", "content": [] }),
            line: "mcp__far__go [-]: call go of far",
            input: json!({}),
        },
        // A file outside the project that the prompt names.
        Case {
            agent: AgentKind::Gemini,
            updates: vec![],
            call: json!({ "toolCallId": "resolve-prompt-x", "kind": "read", "title": "Allow access to absolute path: /etc/x",
                "content": text("The Agent needs access to read …"), "locations": [] }),
            line: "Read [-]: use Read (opaque)",
            input: json!({}),
        },
    ]);
    let other = action(
        AgentKind::Gemini,
        &[],
        json!({ "toolCallId": "t", "kind": "execute", "title": "ls",
        "content": text("[in sub/dir] (Lists)") }),
    );
    assert_eq!(
        (line(&other), other.cwd.as_path()),
        ("Bash [-]: run `ls`".to_owned(), Path::new("/project/sub/dir"))
    );
    // The model has written a directory that can be read in two ways.
    let odd = action(
        AgentKind::Gemini,
        &[],
        json!({ "toolCallId": "t", "kind": "execute", "title": "ls",
        "content": text("[in a] (b] (c)") }),
    );
    assert!(odd.opaque, "{odd:?}");
}

/// The title of other agents may be the model's description of the command.
#[test]
fn a_title_is_not_a_command_that_may_be_allowed_unless_the_agent_is_gemini() {
    let call = json!({ "toolCallId": "t", "kind": "execute", "title": "ls" });
    assert_eq!(line(&action(AgentKind::Other, &[], call)), "Bash [-]: run `ls` (opaque)");
}

#[test]
fn qwen_goose_and_opencode_have_raw_input_and_their_own_names() {
    check(vec![
        Case {
            agent: AgentKind::Qwen,
            updates: vec![announced(
                json!({ "kind": "execute", "rawInput": {}, "_meta": { "toolName": "run_shell_command" } }),
            )],
            call: json!({ "toolCallId": "t", "title": "git push", "kind": "execute",
                "rawInput": { "command": "git push", "is_background": false }, "_meta": { "toolName": "run_shell_command" } }),
            line: "Bash [run_shell_command]: run `git push`",
            input: json!({ "command": "git push", "is_background": false }),
        },
        Case {
            agent: AgentKind::Qwen,
            updates: vec![],
            call: json!({ "toolCallId": "t", "title": "fetch", "kind": "fetch",
                "rawInput": { "url": "https://example.com/a", "prompt": "p" }, "_meta": { "toolName": "web_fetch" } }),
            line: "WebFetch [web_fetch]: fetch https://example.com/a",
            input: json!({ "url": "https://example.com/a", "prompt": "p" }),
        },
        Case {
            agent: AgentKind::Goose,
            updates: vec![announced(
                json!({ "kind": "other", "title": "shell", "rawInput": { "command": "ls" },
                "_meta": { "goose": { "toolCall": { "toolName": "shell" } } } }),
            )],
            call: json!({ "toolCallId": "t", "kind": "other", "title": "shell", "rawInput": { "command": "ls" } }),
            line: "Bash [shell]: run `ls`",
            input: json!({ "command": "ls" }),
        },
        Case {
            agent: AgentKind::Goose,
            updates: vec![],
            call: json!({ "toolCallId": "t", "kind": "other", "title": "kit: echo", "rawInput": { "path": "x" },
                "_meta": { "goose": { "toolCall": { "toolName": "kit__echo" } } } }),
            line: "mcp__kit__echo [kit__echo]: call echo of kit",
            input: json!({ "path": "x" }),
        },
        Case {
            agent: AgentKind::Goose,
            updates: vec![],
            call: json!({ "toolCallId": "t", "kind": "other", "title": "text_editor",
                "rawInput": { "command": "view", "path": "/project/a" }, "_meta": { "goose": { "toolCall": { "toolName": "developer__text_editor" } } } }),
            line: "Edit [developer__text_editor]: read /project/a (opaque)",
            input: json!({ "command": "view", "file_path": "/project/a" }),
        },
        Case {
            agent: AgentKind::OpenCode,
            updates: vec![announced(json!({ "kind": "edit", "title": "write", "rawInput": {} }))],
            call: json!({ "toolCallId": "t", "title": "write", "kind": "edit", "rawInput": { "filePath": "/project/a", "diff": "…" } }),
            line: "Write [write]: write /project/a",
            input: json!({ "file_path": "/project/a", "diff": "…" }),
        },
        Case {
            agent: AgentKind::OpenCode,
            updates: vec![],
            call: json!({ "toolCallId": "t", "title": "kit_echo", "kind": "other", "rawInput": { "text": "x" } }),
            line: "mcp__kit__echo [-]: call echo of kit",
            input: json!({ "text": "x" }),
        },
    ]);
}

#[test]
fn the_request_of_copilot_has_other_arguments_than_the_call() {
    check(vec![
        Case {
            agent: AgentKind::Copilot,
            updates: vec![announced(json!({ "kind": "execute", "title": "Show the files",
                "rawInput": { "command": "ls", "description": "Show the files" } }))],
            call: json!({ "toolCallId": "t", "kind": "execute", "title": "Show the files",
                "rawInput": { "command": "ls", "commands": [{ "identifier": "ls", "readOnly": true }] } }),
            line: "Bash [-]: run `ls`",
            input: json!({ "command": "ls", "commands": [{ "identifier": "ls", "readOnly": true }] }),
        },
        Case {
            agent: AgentKind::Copilot,
            updates: vec![announced(json!({ "kind": "edit", "title": "Create a",
                "rawInput": { "path": "/project/a", "file_text": "x" } }))],
            call: json!({ "toolCallId": "t", "kind": "edit", "title": "Create a", "rawInput": { "fileName": "/project/a", "diff": "…" } }),
            line: "Edit [-]: write /project/a",
            input: json!({ "file_path": "/project/a", "diff": "…" }),
        },
        Case {
            agent: AgentKind::Copilot,
            updates: vec![announced(
                json!({ "kind": "other", "title": "kit-echo", "rawInput": { "text": "x" } }),
            )],
            call: json!({ "toolCallId": "t", "kind": "other", "title": "echo", "rawInput": { "text": "x" } }),
            line: "mcp__kit__echo [-]: call echo of kit",
            input: json!({ "text": "x" }),
        },
        // The model writes the title. A command that is called like a tool is a command.
        Case {
            agent: AgentKind::Copilot,
            updates: vec![],
            call: json!({ "toolCallId": "t", "kind": "other", "title": "kit-echo", "rawInput": { "command": "rm -rf /" } }),
            line: "mcp__kit__echo [-]: call echo of kit, run `rm -rf /`",
            input: json!({ "command": "rm -rf /" }),
        },
        Case {
            agent: AgentKind::Copilot,
            updates: vec![],
            call: json!({ "toolCallId": "t", "kind": "execute", "title": "Read", "rawInput": { "command": "rm -rf /" } }),
            line: "Bash [-]: run `rm -rf /`",
            input: json!({ "command": "rm -rf /" }),
        },
    ]);
}

#[test]
fn the_arguments_of_kimi_are_the_content_of_the_call() {
    check(vec![
        Case {
            agent: AgentKind::Kimi,
            updates: vec![
                announced(json!({ "title": "Bash", "status": "in_progress", "content": text("") })),
                changed(json!({ "content": text(r#"{"command":"git push -f"}"#) })),
            ],
            call: json!({ "toolCallId": "t", "title": "Run a command", "content": text("Requesting approval to run a command") }),
            line: "Bash [Bash]: run `git push -f`",
            input: json!({ "command": "git push -f" }),
        },
        Case {
            agent: AgentKind::Kimi,
            updates: vec![announced(
                json!({ "title": "Write", "content": text(r#"{"path":"a.txt","content":"x"}"#) }),
            )],
            call: json!({ "toolCallId": "t", "title": "Write a file", "content": text("Requesting approval") }),
            line: "Write [Write]: write a.txt",
            input: json!({ "file_path": "a.txt", "content": "x" }),
        },
        // The arguments are not complete yet.
        Case {
            agent: AgentKind::Kimi,
            updates: vec![announced(
                json!({ "title": "Bash", "content": text(r#"{"command":"git"#) }),
            )],
            call: json!({ "toolCallId": "t", "title": "Run a command", "content": text("Requesting approval") }),
            line: "Bash [Bash]: use Bash (opaque)",
            input: json!({}),
        },
        Case {
            agent: AgentKind::Kimi,
            updates: vec![announced(
                json!({ "title": "mcp__kit__echo", "content": text(r#"{"text":"x"}"#) }),
            )],
            call: json!({ "toolCallId": "t", "title": "Call", "content": text("Requesting approval") }),
            line: "mcp__kit__echo [-]: call echo of kit",
            input: json!({ "text": "x" }),
        },
    ]);
    // The text of another agent need not be the arguments.
    let updates = [announced(json!({ "title": "Bash", "content": text(r#"{"command":"ls"}"#) }))];
    let other = action(AgentKind::Other, &updates, json!({ "toolCallId": "t" }));
    assert_eq!(line(&other), "Bash [Bash]: run `ls` (opaque)");
}

#[test]
fn vibe_sends_only_an_id_and_hermes_wraps_the_arguments() {
    check(vec![
        Case {
            agent: AgentKind::Vibe,
            updates: vec![announced(
                json!({ "kind": "execute", "title": "bash: ls", "rawInput": { "command": "ls" }, "_meta": { "tool_name": "bash" } }),
            )],
            call: json!({ "toolCallId": "t" }),
            line: "Bash [bash]: run `ls`",
            input: json!({ "command": "ls" }),
        },
        Case {
            agent: AgentKind::Vibe,
            updates: vec![announced(
                json!({ "title": "echo", "rawInput": { "text": "x" }, "_meta": { "tool_name": "mcp_kit.echo" } }),
            )],
            call: json!({ "toolCallId": "t" }),
            line: "mcp__kit__echo [mcp_kit.echo]: call echo of kit",
            input: json!({ "text": "x" }),
        },
        Case {
            agent: AgentKind::Hermes,
            updates: vec![],
            call: json!({ "toolCallId": "edit-approval-1", "kind": "edit", "title": "Edit a",
                "rawInput": { "tool": "write_file", "arguments": { "path": "/project/a", "content": "x" } },
                "content": [{ "type": "diff", "path": "/project/a", "oldText": null, "newText": "x" }] }),
            line: "Write [write_file]: write /project/a",
            input: json!({ "file_path": "/project/a", "content": "x" }),
        },
    ]);
}
