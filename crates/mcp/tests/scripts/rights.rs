//! Who may speak to whom, under which ids, and how much.

use crate::stage::*;

/// `p2` of three proxies provides a server in this spelling; the agent answers like this.
fn chain(dialect: &str, entry: &str, agent: &str) -> Stage {
    let mut stage = Stage::new(&format!("p1:P5 p2:{dialect} p3:P5 agent"), agent);
    stage.say("p2", &format!(r#"~session/new 1 {{"mcpServers":[{entry}]}}"#));
    let (toward, message) = stage.next("p3").expect("a set-up request");
    stage.forward("p3", toward, message);
    stage.see("agent", "session/new ? …");
    stage
}

const URL: &str = r#"{"type":"http","name":"N","url":"acp:U","headers":[]}"#;

/// What the agent's side says goes past `p3`.
fn past(stage: &mut Stage, who: &str) {
    while let Some((toward, message)) = stage.next(who) {
        stage.forward(who, toward, message);
    }
}

/// A chain with a client of the bridge that is connected as `V`.
fn bridged() -> (Stage, mcp::ClientId) {
    let mut stage = chain("P4", URL, STDIO);
    let client = stage.call(stage.tickets()[0]);
    stage.hear(client, "tools/call 1 {}");
    past(&mut stage, "p3");
    let connect = stage.see("p2", "~_mcp/connect ? …");
    stage.say("p2", &format!(r#"result {connect} {{"connection_id":"V"}}"#));
    past(&mut stage, "p3");
    past(&mut stage, "p3");
    stage.see("p2", r#"~_mcp/message ? {"connectionId":"V"…"#);
    (stage, client)
}

#[test]
fn only_the_provider_and_those_behind_it_speak_to_a_client() {
    let says = [
        r#"_mcp/message ? {"connectionId":"V","method":"sampling/createMessage"}"#,
        r#"mcp/message ? {"connectionId":"V","method":"sampling/createMessage"}"#,
        r#"_mcp/request ? {"connectionId":"V","method":"sampling/createMessage"}"#,
        r#"_mcp/message ? {"connectionId":"V#theirs","method":"sampling/createMessage"}"#,
        r#"mcp/disconnect ? {"connectionId":"V"}"#,
        r#"_mcp/disconnect ? {"connection_id":"V"}"#,
        r#"_mcp/server_to_client/request ? {"url":"acp:U","message":{"id":1,"method":"x"}}"#,
        r#"_scp/mcp ? {"name":"N","message":{"id":1,"method":"x"}}"#,
        r#"mcp/message ? {"serverId":"U","requestId":"r-1","method":"notifications/progress"}"#,
    ];
    for (who, plain) in [("p1", "~"), ("editor", "")] {
        let (mut stage, client) = bridged();
        for (number, line) in says.iter().enumerate() {
            stage.say(who, &format!("{plain}{}", line.replacen('?', "7", 1)));
            stage.see(who, "error 7 …");
            stage.say(who, &format!("{plain}{}", line.replacen("? ", "", 1)));
            stage.quiet();
            assert_eq!(stage.reports.len(), 2 * (number + 1), "{:?}", stage.reports);
        }
        assert!(!stage.hung_up.contains(&client));
        // The provider's own words reach the client, and so does what is passed on.
        stage
            .say("p2", r#"~_mcp/message 8 {"connectionId":"V","method":"sampling/createMessage"}"#);
        past(&mut stage, "p3");
        let asked = stage.told(client, "sampling/createMessage ?");
        stage.hear(client, &format!("result {asked} {{}}"));
        past(&mut stage, "p3");
        stage.see("p2", "result 8 {}");
        stage.say("p2", r#"~_mcp/message {"connectionId":"V","method":"notifications/x"}"#);
        past(&mut stage, "p3");
        stage.told(client, "notifications/x");
        stage.quiet();
    }
}

/// The same before agents that speak MCP over ACP themselves.
#[test]
fn native_agents_hear_of_a_server_from_its_provider_only() {
    let entry = r#"{"type":"acp","name":"N","serverId":"U"}"#;
    let mut stage = chain("P5", entry, NATIVE);
    let progress = r#"{"serverId":"U","requestId":"r","method":"notifications/progress"}"#;
    stage.say("agent", r#"mcp/message 1 {"serverId":"U","requestId":"r","method":"tools/call"}"#);
    past(&mut stage, "p3");
    stage.see("p2", "~mcp/message ? …");
    stage.say("p1", &format!("~mcp/message {progress}"));
    stage.say("editor", &format!("mcp/message {progress}"));
    stage.quiet();
    stage.say("p2", &format!("~mcp/message {progress}"));
    past(&mut stage, "p3");
    stage.see("agent", &format!("mcp/message {progress}"));

    let mut stage = chain("P4", URL, OLDER);
    let said = r#"{"url":"acp:U","message":{"jsonrpc":"2.0","id":"m","method":"x"}}"#;
    stage.say("agent", &format!("_mcp/client_to_server/request 1 {said}"));
    stage.say("p1", &format!("~_mcp/server_to_client/request 7 {said}"));
    stage.see("p1", "error 7 …");
    stage.say("p1", &format!("~_mcp/server_to_client/notification {said}"));
    stage.quiet_at("agent");
    stage.quiet_at("p2");
}

/// Whatever ids a peer chooses, it is answered.
#[test]
fn ids_that_look_like_ours_are_answered() {
    let (mut stage, _) = bridged();
    for id in [
        "conductor/mcp:1",
        "conductor/mcp:2",
        "conductor/mcp:5",
        "conductor/mcp-input:1",
        "conductor/mcp-input:7",
        "m:1",
        "m:2",
        "c:1",
        "r:1",
    ] {
        stage.say("agent", &format!("fs/read {id} {{}}"));
        for who in ["p3", "p2", "p1"] {
            past(&mut stage, who);
        }
        let asked = stage.see("editor", "fs/read ? {}");
        stage.say("editor", &format!("result {asked} {{}}"));
        for who in ["p1", "p2", "p3"] {
            past(&mut stage, who);
        }
        stage.see("agent", &format!("result {id} {{}}"));
        // A proxy, on its own, both ways.
        stage.say("p2", &format!("fs/read {id} {{}}"));
        past(&mut stage, "p1");
        let asked = stage.see("editor", "fs/read ? {}");
        stage.say("editor", &format!("result {asked} {{}}"));
        past(&mut stage, "p1");
        stage.see("p2", &format!("result {id} {{}}"));
        stage.say("p2", &format!("~session/x {id} {{}}"));
        past(&mut stage, "p3");
        let asked = stage.see("agent", "session/x ? {}");
        stage.say("agent", &format!("result {asked} {{}}"));
        past(&mut stage, "p3");
        stage.see("p2", &format!("result {id} {{}}"));
        // And it cannot take back what is not its own.
        stage.say("agent", &format!(r#"$/cancel_request {{"requestId":"{id}"}}"#));
        stage.quiet();
    }
}

/// What a client says to a server that does not answer takes so much room, and no more.
#[test]
fn what_waits_for_a_silent_server_is_bounded() {
    let mut stage = Stage::new("p1:P4 agent", STDIO);
    stage.say("p1", &format!(r#"~session/new 1 {{"mcpServers":[{URL}]}}"#));
    stage.see("agent", "session/new ? …");
    let client = stage.call(stage.tickets()[0]);
    let text = "x".repeat(1024 * 1024);
    for number in 1..=20 {
        stage.hear(client, &format!(r#"tools/call {number} {{"x":"{text}"}}"#));
    }
    for number in 8..=20 {
        stage.told(
            client,
            &format!(r#"error {number} {{"code":-32603,"message":"8 MiB are queued for…"#),
        );
    }
    let connect = stage.see("p1", "~_mcp/connect ? …");
    stage.quiet();
    stage.say("p1", &format!(r#"result {connect} {{"connection_id":"V"}}"#));
    for _ in 1..=7 {
        stage.see("p1", "~_mcp/message ? …");
    }
    stage.quiet();
    // Now there is room again; nothing waits for a server that is open.
    stage.hear(client, &format!(r#"tools/call 21 {{"x":"{text}"}}"#));
    stage.see("p1", "~_mcp/message ? …");

    // A notification cannot be refused, and must not be lost unseen.
    let client = stage.call(stage.tickets()[0]);
    for _ in 0..20 {
        stage.hear(client, &format!(r#"notifications/x {{"x":"{text}"}}"#));
    }
    assert!(stage.hung_up.contains(&client));
    assert_eq!(stage.reports.len(), 1, "{:?}", stage.reports);
}

/// The same for consumers without connections.
#[test]
fn what_waits_for_a_server_that_is_being_opened_is_bounded() {
    let mut stage = Stage::new("p1:P4 agent", NATIVE);
    stage.say("p1", &format!(r#"~session/new 1 {{"mcpServers":[{URL}]}}"#));
    stage.see("agent", "session/new ? …");
    let text = "x".repeat(1024 * 1024);
    for number in 1..=20 {
        let said = format!(
            r#"{{"serverId":"U","requestId":"r{number}","method":"tools/call","params":{{"x":"{text}"}}}}"#
        );
        stage.say("agent", &format!("mcp/message {number} {said}"));
    }
    for number in 8..=20 {
        stage.see("agent", &format!(r#"result {number} {{"error":{{"code":-32603,…"#));
    }
    stage.see("p1", "~_mcp/connect ? …");
    stage.quiet();
}

/// A request to connect is not said to a client: it is for the provider, wherever that is.
#[test]
fn any_component_may_ask_to_connect() {
    let (mut stage, _) = bridged();
    stage.say("p1", r#"~mcp/connect 7 {"acpId":"U"}"#);
    stage.see("p2", r##"mcp/connect ? {"acpId":"U#theirs"}"##);
    assert!(stage.reports.is_empty(), "{:?}", stage.reports);
}
