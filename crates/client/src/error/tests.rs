use super::*;
use serde_json::json;

fn source(greeting: &Value) -> Source<'_> {
    Source {
        agent: "claude",
        command: "claude-agent-acp",
        request: "session/new",
        greeting: Some(greeting),
    }
}

/// Errors as real agents send them, and the same reason in other members.
#[test]
fn the_reason_is_found_in_every_member_that_agents_use() {
    let internal = |data: Value| json!({"code": -32603, "message": "Internal error", "data": data});
    for (error, expected) in [
        (internal(json!("no provider")), "Internal error: no provider"),
        (internal(json!({"details": "exited with code 1"})), "Internal error: exited with code 1"),
        (internal(json!({"message": "bad key"})), "Internal error: bad key"),
        (
            internal(json!({"error": {"message": "bad key", "type": "x"}})),
            "Internal error: bad key: type: x",
        ),
        (internal(json!({"error": "bad key"})), "Internal error: bad key"),
        (internal(json!({"errors": [{"msg": "a"}, "b"]})), "Internal error: a: b"),
        (
            internal(json!({"errorKind": "quota", "details": "empty"})),
            "Internal error: empty: errorKind: quota",
        ),
        (internal(json!({"stderr": "one\ntwo"})), "Internal error: one two"),
        (internal(json!({"sessionId": "s"})), "Internal error: sessionId: s"),
        (internal(json!(7)), "Internal error: 7"),
        (internal(json!(null)), "Internal error"),
        (json!({"code": 1, "message": "a\nb", "data": "a\nb"}), "a b"),
        (json!({"code": 1}), "an error without a message"),
        (json!({}), "no reason given"),
        (internal(json!({"headers": {"authorization": "x1"}})), "Internal error: authorization: …"),
        (internal(json!({"env": {"K": "x2"}})), "Internal error: K: …"),
    ] {
        assert_eq!(one_line(&error), expected, "{error}");
    }
}

#[test]
fn a_description_names_the_agent_the_request_the_reason_and_the_rest_of_it() {
    let greeting = json!({"authMethods": []});
    let error = json!({"code": -32603, "message": "Internal error", "data": {"details": "first\nsecond\u{1b}[2J"}});
    let described = describe(&error, &source(&greeting));
    assert_eq!(
        described.summary,
        "agent 'claude' answered session/new with an error: Internal error: first"
    );
    assert_eq!(described.details, ["second"]);
    assert_eq!((described.code.as_str(), described.login), ("agent-error", false));
    assert!(described.one_line().contains("first; second"), "{}", described.one_line());
}

/// The answers of claude-agent-acp, gemini and goose, and the forms of older schemas.
#[test]
fn a_missing_login_comes_with_the_ways_to_log_in() {
    let greeting = json!({"authMethods": [
        {"id": "a", "name": "Claude Subscription", "description": "Use Claude subscription ", "type": "terminal", "args": ["--cli", "auth login"], "env": {"A": "b c"}},
        {"methodId": "b", "name": "Console", "type": "terminal", "_meta": {"terminal-auth": {"command": "/usr/bin/node", "args": ["x.js", "--cli"]}}},
        {"id": "c", "name": "Log in with Google"},
        {"id": "d", "name": "API key", "type": "env_var", "vars": [{"name": "KEY"}, {"name": "BASE", "optional": true}], "link": "https://keys.example"},
        {"id": "e", "name": "Old", "type": "env_var", "varName": "OLD_KEY"},
    ]});
    let error = json!({"code": -32000, "message": "Authentication required"});
    let described = describe(&error, &source(&greeting));
    assert!(described.login);
    assert_eq!(described.code, "login-required");
    assert_eq!(
        described.remedy,
        [
            "Claude Subscription (Use Claude subscription): run `A='b c' claude-agent-acp --cli 'auth login'` in a terminal",
            "Console: run `/usr/bin/node x.js --cli` in a terminal",
            "API key: set KEY in the environment of the agent (see https://keys.example)",
            "Old: set OLD_KEY in the environment of the agent",
            "Log in with Google: choose this login in your editor, or type /login in `conductor try`",
        ]
    );
}

/// goose: `-32603` and a text in `data`, for an agent that is not configured.
#[test]
fn an_agent_that_is_not_set_up_is_described_with_its_login() {
    let greeting = json!({"authMethods": [{"id": "goose-provider", "name": "Configure Provider", "description": "Run `goose configure`"}]});
    let error =
        json!({"code": -32603, "message": "Internal error", "data": "Failed to resolve provider"});
    let described = describe(&error, &source(&greeting));
    assert!(described.summary.ends_with("Internal error: Failed to resolve provider"));
    assert!(described.remedy[0].contains("Run `goose configure`"), "{described}");
    let described = describe(&error, &Source { request: "session/prompt", ..source(&greeting) });
    assert!(described.remedy.is_empty(), "{described}");
}

#[test]
fn the_conductors_own_errors_are_shown_with_all_the_output_and_one_remedy() {
    let error = json!({"code": -32603, "message": "agent 'x' (command: x) exited with status 1; its last output: \"boom\"; fix it [more: conductor errors crashed]",
        "data": {"component": "x", "remedy": "fix it", "code": "crashed", "lastWords": ["at a", "boom"]}});
    let described = describe(&error, &Source::default());
    assert_eq!(
        described.summary,
        "agent 'x' (command: x) exited with status 1; its last output: \"boom\""
    );
    assert_eq!(described.details, ["at a", "boom"]);
    assert_eq!(described.remedy, ["fix it"]);
    assert_eq!(described.code, "crashed");
}

#[test]
fn known_reasons_have_a_remedy() {
    let remedy = |code: i64, message: &str| {
        describe(&json!({"code": code, "message": message}), &Source::default()).remedy.join(" ")
    };
    assert!(remedy(-32601, "Method not found").contains("does not support"));
    assert!(remedy(-32603, "fetch failed").contains("network"));
    assert_eq!(remedy(-32603, "FileNotFoundError: no file a.toml"), "");
    assert!(remedy(-32603, "429 Too Many Requests").contains("wait"));
    assert!(remedy(-32603, "Invalid API key").contains("log in"));
}

/// gemini advertises four logins that the client performs.
#[test]
fn logins_that_the_client_performs_share_a_line() {
    let greeting = json!({"authMethods": [
        {"id": "a", "name": "Google", "description": "your account"},
        {"id": "b", "name": "API key"},
    ]});
    let error = json!({"code": -32000, "message": "Gemini API key is missing or not configured."});
    let described = describe(&error, &source(&greeting));
    assert_eq!(
        described.remedy,
        [
            "type /login in `conductor try`, or choose a login in your editor: Google (your account); API key"
        ]
    );
}
