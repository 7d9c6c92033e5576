//! Restarts of the component and of the agent.

use serde_json::{Value, json};

use crate::{Chain, Folder, RULES, command, options, selected, write};

/// A component that was restarted knows no session, so a rule about a path cannot be applied.
#[test]
fn after_a_restart_everything_is_denied_until_the_session_is_known_again() {
    let folder = Folder::new();
    let rules = folder.file("rules.toml", RULES);
    let mut chain = Chain::of(folder, &rules, &[]);
    for call in [command("t", "git status"), json!({ "toolCallId": "t" })] {
        assert_eq!(chain.decided(call), "no");
        assert!(chain.said().contains("start a new session or load it again"));
    }
    chain.ask(
        "agent",
        "fs/write_text_file",
        json!({ "sessionId": "s", "path": "/p/a", "content": "" }),
    );
    assert_eq!(chain.receive("agent")["error"]["code"], -32000);
    let params = json!({ "sessionId": "s", "cwd": chain.project(), "mcpServers": [] });
    chain.request("editor", "session/load", params, Ok(json!(null)));
    assert_eq!(chain.decided(command("t2", "git status")), "yes");
}

/// The conductor repeats the requests that set up sessions to a component that it has restarted, and no updates.
#[test]
fn a_component_that_is_restarted_in_a_turn_denies_what_it_cannot_know() {
    let folder = Folder::new();
    let rules = folder.file("rules.toml", RULES);
    let mut chain = Chain::of(folder, &rules, &[]);
    chain.initialize(1, "test");
    chain.open();
    assert_eq!(chain.decided(json!({ "toolCallId": "t" })), "no");
    assert!(chain.said().contains("restarted"));
    assert_eq!(chain.decided(command("u", "git status")), "yes");
    chain.prompt();
    chain.ask_permission(json!({ "toolCallId": "t" }));
    assert_eq!(chain.receive("editor")["method"], "session/request_permission");
}

/// The next prompt of the user may come before a permission request of the turn in which the component was restarted.
#[test]
fn in_a_session_that_the_conductor_repeats_an_unknown_call_is_denied_after_a_prompt_too() {
    let folder = Folder::new();
    let rules = folder.file("rules.toml", RULES);
    let mut chain = Chain::of(folder, &rules, &[]);
    chain.initialize(1, "test");
    let params = json!({ "cwd": chain.project(), "mcpServers": [] });
    let request =
        json!({ "jsonrpc": "2.0", "id": "r:1", "method": "session/new", "params": params });
    chain.conversation.send_text("editor", &request.to_string());
    let repeated = chain.receive("agent");
    chain.answer("agent", &repeated, Ok(json!({ "sessionId": "s" })));
    chain.receive("editor");
    chain.prompt();
    assert_eq!(chain.decided(json!({ "toolCallId": "t" })), "no");
    assert!(chain.said().contains("restarted"));
    assert_eq!(chain.decided(command("u", "git status")), "yes");
}

/// Some agents open sessions for their subagents.
#[test]
fn in_a_session_of_the_agent_nothing_is_allowed_without_asking() {
    let mut chain = Chain::new(RULES, &[]);
    let ask = |chain: &mut Chain, call: Value| {
        let params = json!({ "sessionId": "other", "toolCall": call, "options": options() });
        chain.ask("agent", "session/request_permission", params);
    };
    ask(&mut chain, command("t", "git status"));
    let asked = chain.receive("editor");
    chain.answer("editor", &asked, selected("yes"));
    assert_eq!(chain.outcome(), "yes");
    for call in [command("u", "cat .env"), json!({ "toolCallId": "v" })] {
        ask(&mut chain, call);
        assert_eq!(chain.outcome(), "no");
        chain.said();
    }
}

#[test]
fn rules_that_have_become_unreadable_deny_everything() {
    let folder = Folder::new();
    let rules = folder.file("rules.toml", "default = \"allow\"\n");
    use clap::Parser;
    use components::BuiltIn;
    let options = ["permissions", "--rules", &rules];
    let options = components::permissions::Permissions::parse_from(options);
    options.check().unwrap_or_else(|error| panic!("{}", error.why));
    folder.file("rules.toml", "default = \"alow\"\n");
    let conversation = acp_proxy::script::Conversation::new(options.build());
    let mut chain = Chain { conversation, folder, next_id: 0 };
    chain.initialize(1, "test");
    chain.open();
    assert_eq!(chain.decided(command("t", "ls")), "no");
    assert!(chain.said().contains("rules.toml:1"));
    let path = chain.in_project("a");
    chain.ask("agent", "fs/read_text_file", json!({ "sessionId": "s", "path": path }));
    assert_eq!(chain.receive("agent")["error"]["code"], -32000);
}

#[test]
fn what_was_allowed_is_over_when_the_agent_is_restarted() {
    let mut chain = Chain::new(RULES, &[]);
    let path = chain.in_project("a.txt");
    chain.ask_permission(write("t", &path));
    let asked = chain.receive("editor");
    chain.answer("editor", &asked, selected("yes"));
    assert_eq!(chain.outcome(), "yes");
    chain.initialize(1, "test");
    chain.ask(
        "agent",
        "fs/write_text_file",
        json!({ "sessionId": "s", "path": path, "content": "" }),
    );
    assert_eq!(chain.receive("editor")["method"], "session/request_permission");
}

/// The rules of Claude's settings stand behind those of the file. They are read when a session begins.
#[test]
fn rules_of_the_project_are_imported_when_a_session_begins() {
    let rules = format!("import = [\"claude\"]\n{RULES}");
    let mut chain = Chain::new(&rules, &["--audit", "FOLDER/audit.jsonl"]);
    assert_eq!(chain.decided(command("a", "git status")), "yes");
    std::fs::create_dir(chain.in_project(".claude")).expect("a folder");
    let settings =
        r#"{"permissions":{"allow":["Bash(make:*)"],"deny":["Bash(git status)","Bash(curl:*)"]}}"#;
    chain.folder.file("project/.claude/settings.json", settings);
    chain.open();
    chain.open();
    let changes: Vec<_> =
        chain.records().into_iter().filter(|it| it["event"] == "rules-changed").collect();
    assert_eq!(changes.len(), 1, "{changes:?}");
    let file = &changes[0]["details"]["files"][1];
    assert!(file["file"].as_str().is_some_and(|it| it.ends_with("settings.json")), "{file}");
    assert_eq!(file["hash"].as_str().map(str::len), Some(64), "{file}");
    assert_eq!(chain.decided(command("b", "make all")), "yes");
    assert_eq!(chain.decided(command("c", "git status")), "yes", "our rules come first");
    assert_eq!(chain.decided(command("d", "curl x")), "no");
    assert!(chain.said().contains("settings.json:1"));
    // Settings that cannot be read may have denied anything.
    chain.folder.file("project/.claude/settings.json", "{");
    chain.open();
    chain.ask_permission(command("e", "git status"));
    assert_eq!(chain.receive("editor")["method"], "session/request_permission");
}
