//! Actions, built from the messages that ask for them.

mod agents;

use std::path::Path;
use std::sync::{Arc, Mutex};

use acp_proxy::script::Conversation;
use acp_proxy::{Call, Json, Proxy};
use components::action::{Action, SessionFacts};
use components::agents::AgentKind;
use serde_json::{Value, json};

const CWD: &str = "/project";

fn facts<'a>(agent: AgentKind, servers: &'a [String]) -> SessionFacts<'a> {
    SessionFacts { cwd: Path::new(CWD), agent, servers }
}

/// The action of a permission request that follows these updates, in ACP version 1 or 2.
fn action_in(version: u8, agent: AgentKind, updates: &[Value], params: &Value) -> Action {
    let seen = Arc::new(Mutex::new(None));
    let slot = seen.clone();
    let proxy = Proxy::new("watch").on_permission(async move |permission, _| {
        let servers = ["kit".to_owned()];
        let action = Action::of_permission(&permission, &facts(agent, &servers));
        *slot.lock().expect("one thread") = Some(action);
        Ok(permission.deny())
    });
    let mut conversation = Conversation::new(proxy);
    let initialize =
        json!({ "id": 1, "method": "initialize", "params": { "protocolVersion": version } });
    conversation.send("editor", &initialize.to_string());
    let id = conversation.receive("agent")["id"].clone();
    let answer = json!({ "id": id, "result": { "protocolVersion": version } });
    conversation.send("agent", &answer.to_string());
    conversation.receive("editor");
    for update in updates {
        let params = json!({ "sessionId": "s", "update": update });
        let message = json!({ "method": "session/update", "params": params });
        conversation.send("agent", &message.to_string());
    }
    let mut params = params.clone();
    params["sessionId"] = json!("s");
    params["options"] = json!([]);
    let request = json!({ "id": 2, "method": "session/request_permission", "params": params });
    conversation.send("agent", &request.to_string());
    loop {
        if conversation.receive("agent").get("result").is_some() {
            return seen.lock().expect("one thread").take().expect("a permission");
        }
    }
}

fn action(agent: AgentKind, updates: &[Value], call: Value) -> Action {
    action_in(1, agent, updates, &json!({ "toolCall": call }))
}

/// The action in one line: the tool, what it does, and a mark if there may be more.
fn line(action: &Action) -> String {
    let native = action.tool.native.as_deref().unwrap_or("-");
    let mark = if action.opaque { " (opaque)" } else { "" };
    format!("{} [{native}]: {action}{mark}", action.tool.common)
}

fn announced(mut call: Value) -> Value {
    call["sessionUpdate"] = json!("tool_call");
    call["toolCallId"] = json!("t");
    call
}

fn changed(mut call: Value) -> Value {
    call["sessionUpdate"] = json!("tool_call_update");
    call["toolCallId"] = json!("t");
    call
}

fn text(text: &str) -> Value {
    json!([{ "type": "content", "content": { "type": "text", "text": text } }])
}

struct Case {
    agent: AgentKind,
    updates: Vec<Value>,
    call: Value,
    line: &'static str,
    input: Value,
}

fn check(cases: Vec<Case>) {
    for Case { agent, updates, call, line: expected, input } in cases {
        let action = action(agent, &updates, call.clone());
        assert_eq!(line(&action), expected, "{agent:?} {call}");
        assert_eq!(action.input, input, "{agent:?} {call}");
        assert_eq!(action.cwd, Path::new(CWD), "{agent:?} {call}");
    }
}

#[test]
fn a_request_without_a_known_call_is_opaque() {
    for (call, expected) in [
        (json!({ "toolCallId": "unknown" }), "unknown [-]: use unknown (opaque)"),
        (json!({ "toolCallId": "t", "kind": "execute" }), "Bash [-]: use Bash (opaque)"),
        (
            json!({ "toolCallId": "t", "kind": "edit", "rawInput": { "odd": 1 } }),
            "Edit [-]: use Edit (opaque)",
        ),
        (
            json!({ "toolCallId": "t", "kind": "execute", "rawInput": { "command": { "x": 1 } } }),
            "Bash [-]: use Bash (opaque)",
        ),
        // A tool that nobody knows, with a path: it may do anything with it.
        (
            json!({ "toolCallId": "t", "name": "frob", "rawInput": { "path": "a" } }),
            "frob [frob]: write a, read a (opaque)",
        ),
        (
            json!({ "toolCallId": "t", "name": "frob", "rawInput": { "command": "ls" } }),
            "frob [frob]: run `ls` (opaque)",
        ),
        (
            json!({ "toolCallId": "t", "kind": "switch_mode", "name": "ExitPlanMode", "rawInput": { "plan": "p" } }),
            "ExitPlanMode [ExitPlanMode]: use ExitPlanMode",
        ),
    ] {
        assert_eq!(line(&action(AgentKind::Other, &[], call.clone())), expected, "{call}");
    }
}

#[test]
fn the_kind_names_the_tool_where_the_agent_does_not() {
    let at = |path: &str| json!([{ "path": path }]);
    let both = json!([{ "path": "/project/a" }, { "path": "/project/b c" }]);
    for (kind, locations, expected, input) in [
        (
            "read",
            at("/project/a"),
            "Read [-]: read /project/a",
            json!({ "file_path": "/project/a" }),
        ),
        (
            "edit",
            at("/project/a"),
            "Edit [-]: write /project/a",
            json!({ "file_path": "/project/a" }),
        ),
        (
            "delete",
            at("/project/a b"),
            "Bash [-]: delete /project/a b",
            json!({ "command": "rm -- '/project/a b'" }),
        ),
        (
            "move",
            both,
            "Bash [-]: delete /project/a, write /project/b c",
            json!({ "command": "mv -- /project/a '/project/b c'" }),
        ),
        ("search", at("/project/src"), "Grep [-]: read /project/src", json!({})),
    ] {
        let action = action(
            AgentKind::Other,
            &[],
            json!({ "toolCallId": "t", "kind": kind, "locations": locations }),
        );
        assert_eq!((line(&action).as_str(), &action.input), (expected, &input), "{kind}");
    }
    // A search without a path searches the working directory, and a pattern may leave it.
    let search = |raw: Value| {
        line(&action(
            AgentKind::Other,
            &[],
            json!({ "toolCallId": "t", "name": "Glob", "kind": "search", "rawInput": raw }),
        ))
    };
    assert_eq!(search(json!({ "pattern": "**/*.rs" })), "Glob [Glob]: read .");
    assert_eq!(search(json!({ "pattern": "/etc/*.d/x" })), "Glob [Glob]: read /etc");
}

/// The request wins for the arguments, and both count for what happens.
#[test]
fn a_request_that_differs_from_the_call_does_both() {
    let updates = [announced(json!({ "kind": "execute", "rawInput": { "command": "rm -rf /" } }))];
    let call = json!({ "toolCallId": "t", "kind": "execute", "rawInput": { "command": "ls" } });
    assert_eq!(
        line(&action(AgentKind::Other, &updates, call)),
        "Bash [-]: run `ls`, run `rm -rf /`"
    );
}

#[test]
fn a_server_named_acp_is_not_the_one_of_claude_code_acp() {
    let seen = |servers: &[&str]| {
        let servers: Vec<String> = servers.iter().map(|it| (*it).to_owned()).collect();
        let facts = facts(AgentKind::ClaudeCode, &servers);
        // Only the names differ, so a reported call is enough.
        let slot = Arc::new(Mutex::new(String::new()));
        let (out, cwd, agent) = (slot.clone(), facts.cwd.to_path_buf(), facts.agent);
        let proxy = Proxy::new("watch").on_tool_call(move |call, _| {
            let facts = SessionFacts { cwd: &cwd, agent, servers: &servers };
            *out.lock().expect("one thread") = line(&Action::of_tool_call(call, &facts));
        });
        let mut conversation = Conversation::new(proxy);
        let update =
            announced(json!({ "name": "mcp__acp__Bash", "rawInput": { "command": "ls" } }));
        let message =
            json!({ "method": "session/update", "params": { "sessionId": "s", "update": update } });
        conversation.send("agent", &message.to_string());
        conversation.receive("editor");
        slot.lock().expect("one thread").clone()
    };
    assert_eq!(seen(&[]), "Bash [mcp__acp__Bash]: run `ls`");
    assert_eq!(seen(&["acp"]), "mcp__acp__Bash [mcp__acp__Bash]: call Bash of acp");
}

#[test]
fn in_version_2_a_request_has_a_subject() {
    let command = json!({ "title": "May I?", "subject": { "type": "command", "command": "git push -f", "cwd": "/elsewhere", "toolCallId": "t" } });
    let updates = [changed(
        json!({ "kind": "other", "name": "exec_command", "rawInput": { "cmd": "git push -f" } }),
    )];
    let action = action_in(2, AgentKind::Codex, &updates, &command);
    assert_eq!(line(&action), "Bash [exec_command]: run `git push -f`");
    assert_eq!(
        (action.cwd.as_path(), action.call.as_deref()),
        (Path::new("/elsewhere"), Some("t"))
    );
    let call = json!({ "title": "May I?", "subject": { "type": "tool_call", "toolCall": { "toolCallId": "t" } } });
    let updates = [changed(
        json!({ "kind": "edit", "name": "Write", "rawInput": { "file_path": "/project/a", "content": "x" } }),
    )];
    assert_eq!(
        line(&action_in(2, AgentKind::ClaudeAgent, &updates, &call)),
        "Write [Write]: write /project/a"
    );
}

/// What any program may read in a request counts, so that a rule can deny it.
#[test]
fn a_request_that_can_be_read_in_two_ways_does_both_and_is_opaque() {
    let subject = json!({ "type": "command", "command": "ls", "cwd": "/" });
    let call = json!({ "toolCallId": "t", "kind": "execute", "rawInput": { "command": "pwd" } });
    let in_subject = json!({ "type": "tool_call", "toolCall": { "toolCallId": "t", "kind": "edit", "rawInput": { "path": "a" } } });
    for (version, params, expected) in [
        (2, json!({ "title": "May I?" }), "unknown [-]: use unknown (opaque)"),
        (
            2,
            json!({ "subject": { "type": "_other", "command": "ls" } }),
            "unknown [-]: run `ls` (opaque)",
        ),
        (
            2,
            json!({ "subject": subject, "toolCall": call }),
            "Bash [-]: run `pwd`, run `ls` (opaque)",
        ),
        (2, json!({ "toolCall": call }), "Bash [-]: run `pwd` (opaque)"),
        (1, json!({ "subject": subject }), "unknown [-]: run `ls` (opaque)"),
        (
            1,
            json!({ "subject": in_subject, "toolCall": call }),
            "Bash [-]: run `pwd`, write a (opaque)",
        ),
    ] {
        let action = action_in(version, AgentKind::Other, &[], &params);
        assert_eq!(line(&action), expected, "{params}");
    }
}

/// In several agents, the model writes all members of `rawInput`.
#[test]
fn a_member_with_arguments_does_not_hide_the_members_beside_it() {
    let goose = |tool: &str| json!({ "goose": { "toolCall": { "toolName": tool } } });
    let hidden = json!({ "command": "git push -f", "arguments": { "command": "git status" } });
    let file = json!({ "path": ".git/config", "content": "x", "arguments": { "path": "src/a" } });
    let server = json!({ "server": "kit", "tool": "echo", "command": "git push -f" });
    for (call, expected) in [
        (
            json!({ "toolCallId": "t", "_meta": goose("shell"), "rawInput": hidden }),
            "Bash [shell]: run `git push -f`, run `git status`",
        ),
        (
            json!({ "toolCallId": "t", "kind": "execute", "rawInput": hidden }),
            "Bash [-]: run `git push -f`, run `git status`",
        ),
        (
            json!({ "toolCallId": "t", "_meta": goose("write"), "rawInput": file }),
            "Write [write]: write .git/config, write src/a",
        ),
        (
            json!({ "toolCallId": "t", "title": "mcp.kit.echo", "kind": "execute", "rawInput": server }),
            "Bash [-]: run `git push -f`",
        ),
        (
            json!({ "toolCallId": "t", "kind": "execute", "rawInput": { "name": "read", "command": "git push -f", "arguments": {} } }),
            "Bash [-]: run `git push -f`",
        ),
    ] {
        assert_eq!(line(&action(AgentKind::Other, &[], call.clone())), expected, "{call}");
    }
}

fn of_call(method: &str, params: Value) -> Option<Action> {
    let call = Call::new(method, Json::parse(params.to_string()).expect("JSON"));
    Action::of_call(&call, &facts(AgentKind::Other, &[]))
}

#[test]
fn files_and_terminals_are_actions_with_the_names_of_claude_code() {
    let read = of_call(
        "fs/read_text_file",
        json!({ "sessionId": "s", "path": "/project/a", "line": 3, "limit": 9 }),
    )
    .expect("an action");
    assert_eq!(line(&read), "Read [-]: read /project/a");
    assert_eq!(read.input, json!({ "file_path": "/project/a", "offset": 3, "limit": 9 }));
    let write = of_call(
        "fs/write_text_file",
        json!({ "sessionId": "s", "path": "/project/a", "content": "x" }),
    )
    .expect("an action");
    assert_eq!(line(&write), "Write [-]: write /project/a");
    assert_eq!(write.input, json!({ "file_path": "/project/a", "content": "x" }));
    let shell = of_call(
        "terminal/create",
        json!({ "sessionId": "s", "command": "ls && pwd", "args": [], "cwd": "sub",
        "env": [{ "name": "PATH", "value": "/evil" }] }),
    )
    .expect("an action");
    assert_eq!(
        (line(&shell).as_str(), shell.cwd.as_path()),
        ("Bash [-]: run `ls && pwd`", Path::new("/project/sub"))
    );
    assert_eq!(shell.environment(), [("PATH".to_owned(), "/evil".to_owned())]);
    let program = of_call(
        "terminal/create",
        json!({ "sessionId": "s", "command": "/bin/bash", "args": ["-c", "a b"] }),
    )
    .expect("an action");
    assert_eq!(line(&program), "Bash [-]: run `/bin/bash -c 'a b'`");
    for (method, params) in [
        ("fs/read_text_file", json!({ "sessionId": "s" })),
        ("fs/write_text_file", json!({ "path": "/a" })),
        ("terminal/create", json!({ "sessionId": "s", "command": "ls", "args": "x" })),
        (
            "terminal/create",
            json!({ "sessionId": "s", "command": "ls", "env": [{ "value": "x" }] }),
        ),
        ("terminal/output", json!({ "sessionId": "s", "command": "ls" })),
    ] {
        assert_eq!(of_call(method, params.clone()), None, "{method} {params}");
    }
    let mcp = Action::of_mcp_call(
        "s",
        "my kit",
        "echo",
        json!({ "text": "x" }),
        &facts(AgentKind::Other, &[]),
    );
    assert_eq!(line(&mcp), "mcp__my_kit__echo [echo]: call echo of my kit");
}
