//! Those between a consumer and a provider, and those beyond.

use acp_wire::Outcome;
use mcp::form::Form;

use crate::cast::*;
use crate::stage::*;
use crate::world::*;

const SERVER: &str = r#"{"type":"acp","name":"N","serverId":"U"}"#;
const URL: &str = r#"{"type":"http","name":"N","url":"acp:U","headers":[]}"#;

/// Checklist 90: they see what the consumer says, as it says it, and everything in order.
#[test]
fn intermediates_see_the_words_of_the_bridge() {
    let mut stage = Stage::new("p1:P5 p2:P3 agent", STDIO);
    stage.say("p1", &format!(r#"~session/new 1 {{"mcpServers":[{SERVER}]}}"#));
    let (side, message) = stage.next("p2").unwrap();
    stage.forward("p2", side, message);
    stage.see("agent", "session/new ? …");
    let client = stage.call(stage.tickets()[0]);
    stage.hear(client, r#"tools/call 1 {"name":"a"}"#);
    stage.hear(client, "notifications/x {}");
    stage.hear(client, r#"tools/call 2 {"name":"b"}"#);
    // It waits until the client is connected.
    let (side, message) = stage.next("p2").unwrap();
    assert!(text(&message).starts_with("_mcp/connect "));
    assert!(text(&message).ends_with(r#"{"acp_url":"acp:U","acp_id":"acp:U","url":"acp:U"}"#));
    stage.quiet();
    stage.forward("p2", side, message);
    let id = stage.see("p1", "~mcp/message ? …server/discover…");
    stage.say("p1", &format!(r#"result {id} {{"result":{{}}}}"#));
    let (side, message) = stage.next("p2").unwrap();
    stage.forward("p2", side, message);
    for expected in [
        r#"_mcp/message ? {"connectionId":"mcp-over-acp:1","method":"tools/call","params":{"name":"a"}}"#,
        r#"_mcp/message {"connectionId":"mcp-over-acp:1","method":"notifications/x","params":{}}"#,
        r#"_mcp/message ? {"connectionId":"mcp-over-acp:1","method":"tools/call","params":{"name":"b"}}"#,
    ] {
        let (side, message) = stage.next("p2").unwrap();
        let id = text(&message).split(' ').nth(1).unwrap().to_owned();
        assert_eq!(text(&message), expected.replacen('?', &id, 1));
        stage.forward("p2", side, message);
    }
    let first = stage.see("p1", r#"~mcp/message ? …{"name":"a",…"#);
    let second = stage.see("p1", r#"~mcp/message ? …{"name":"b",…"#);
    stage.say("p1", &format!(r#"result {second} {{"result":{{"n":2}}}}"#));
    stage.say("p1", &format!(r#"result {first} {{"result":{{"n":1}}}}"#));
    // Their answers are those to what they passed on.
    for n in [2, 1] {
        let (side, message) = stage.next("p2").unwrap();
        assert!(text(&message).ends_with(&format!(r#" {{"n":{n}}}"#)), "{}", text(&message));
        stage.forward("p2", side, message);
    }
    stage.told(client, r#"result 2 {"n":2}"#);
    stage.told(client, r#"result 1 {"n":1}"#);
    stage.hang_up(client);
    let (side, message) = stage.next("p2").unwrap();
    assert_eq!(
        text(&message),
        r#"_mcp/disconnect {"connection_id":"mcp-over-acp:1","connectionId":"mcp-over-acp:1"}"#
    );
    stage.forward("p2", side, message);
    stage.quiet();
}

/// Checklist 90: a native agent's words are its own until they come to the provider.
#[test]
fn intermediates_see_the_words_of_a_native_agent() {
    let said = r#"{"serverId":"U","requestId":"r-1","method":"tools/list","params":{}}"#;
    let mut stage = Stage::new("p1:P4 p2:P3 agent", NATIVE);
    stage.say("p1", &format!(r#"~session/new 1 {{"mcpServers":[{URL}]}}"#));
    let (side, message) = stage.next("p2").unwrap();
    stage.forward("p2", side, message);
    stage.say("agent", &format!("mcp/message 1 {said}"));
    stage.see("p2", &format!("~mcp/message ? {said}"));
    stage.say("p2", &format!("mcp/message 9 {said}"));
    stage.see("p1", "~_mcp/connect ? …");
    // Who intercepts a message may answer it.
    stage.say("agent", &format!("mcp/message 2 {}", said.replace("r-1", "r-2")));
    let id = stage.see("p2", "~mcp/message ? …");
    stage.say("p2", &format!(r#"result {id} {{"result":{{"mine":1}}}}"#));
    stage.see("agent", "session/new ? …");
    stage.see("agent", r#"result 2 {"result":{"mine":1}}"#);
}

/// Checklist 90.
#[test]
fn order_is_kept_from_a_server_to_its_client_and_back() {
    for between in ["", " (x:P3)", " (x:P4) (y:P5)"] {
        for (provider, form) in [("P4", Form::M3), ("P4", Form::M6), ("P5", Form::M7)] {
            let cast = format!("p1:{provider}{between} agent");
            let mut world = World::new(&cast, None, vec![Provider::new("p1", form, &[("N", "U")])]);
            let entries = world.session("S");
            let line = world.line(&entries[0]);
            let token = r#"{"name":"x","_meta":{"progressToken":"t"}}"#;
            let name = world.ask(&line, "tools/call", token);
            let said = world.heard("p1");
            let provider = &mut world.providers[0];
            for n in 0..50 {
                let params = format!(r#"{{"progressToken":"t","progress":{n}}}"#);
                provider.note(&mut world.stage, &said, &call("notifications/progress", &params));
            }
            provider.result(&mut world.stage, &said, "{}");
            let Line::Client(client_id) = line else { unreachable!() };
            for n in 0..50 {
                let params = format!(r#"{{"progressToken":"t","progress":{n}}}"#);
                world.stage.told(client_id, &format!("notifications/progress {params}"));
            }
            world.stage.told(client_id, &format!("result {name} {{}}"));
            for n in 0..50 {
                let message = format!(r#"{{"n":{n}}}"#);
                world.agent.ask(&mut world.stage, &line, &call("tools/call", &message));
            }
            for n in 0..50 {
                let said = world.heard("p1");
                let params = said.call.params.unwrap();
                assert_eq!(params.member("n").unwrap().as_str(), n.to_string());
            }
        }
    }
}

/// Checklist 86, 88: an error, never silence; and the editor hears nothing of it.
#[test]
fn what_nobody_provides_is_refused() {
    for (asked, code) in [
        (r#"{"serverId":"X","requestId":"r","method":"tools/list"}"#, -33001),
        (r#"{"connectionId":"X","method":"tools/list"}"#, -32602),
    ] {
        refused("mcp/message", asked, code);
    }
    refused("mcp/connect", r#"{"serverId":"X"}"#, -32602);
    refused("mcp/connect", r#"{"acpId":"X"}"#, -32602);
    refused("mcp/connect", r#"{"acpUrl":"acp:X"}"#, -32602);
    refused("mcp/disconnect", r#"{"connectionId":"X"}"#, -32602);
    refused("_mcp/connect", r#"{"acp_url":"acp:X"}"#, -32602);
    refused("_mcp/message", r#"{"connectionId":"X","method":"m","params":{}}"#, -32602);
    refused("_mcp/request", r#"{"connectionId":"X","method":"m","params":{}}"#, -32602);
    let message = r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#;
    refused("_scp/mcp", &format!(r#"{{"name":"X","message":{message}}}"#), -32602);
    let params = format!(r#"{{"url":"acp:X","message":{message}}}"#);
    refused("_mcp/client_to_server/request", &params, -32602);
}

fn refused(method: &str, params: &str, code: i64) {
    for cast in ["agent", "(x:P4) agent", "(x:P5) (y:P3) agent"] {
        let mut stage = Stage::new(cast, NATIVE);
        // Another server is no help.
        stage.say(
            "editor",
            r#"session/new 1 {"mcpServers":[{"type":"acp","name":"E","serverId":"E"}]}"#,
        );
        stage.see("agent", "session/new ? …");
        stage.say("agent", &format!("{method} 1 {params}"));
        stage.see(
            "agent",
            &format!(r#"error 1 {{"code":{code},"message":"there is no MCP …'X'"}}"#),
        );
        stage.say("agent", &format!("{method} {params}"));
        stage.quiet();
    }
}

/// Checklist 88: what the editor provides reaches the editor, and it alone.
#[test]
fn the_editor_hears_of_its_own_servers_only() {
    for consumer in [None, Some(Form::M3), Some(Form::M6), Some(Form::M7)] {
        let providers = vec![
            Provider::new("p1", Form::M3, &[("P", "UP")]),
            Provider::new("editor", Form::M7, &[("E", "UE")]),
        ];
        let mut world = World::new("p1:P4 (x:P5) agent", consumer, providers);
        let entries = world.session("S");
        assert_eq!(entries.len(), 2);
        for (entry, who, other) in [(0, "editor", "p1"), (1, "p1", "editor")] {
            let line = world.line(&entries[entry]);
            let name = world.ask(&line, "tools/call", r#"{"name":"x"}"#);
            if consumer == Some(Form::M7) && who == "p1" {
                let hello = world.heard(who);
                world.result(who, &hello, "{}");
                world.heard(who);
            }
            let said = world.heard(who);
            assert!(world.provider(other).heard.is_empty());
            world.result(who, &said, r#"{"who":1}"#);
            assert!(matches!(world.agent.outcomes.remove(&name), Some(Outcome::Result(_))));
        }
        assert!(world.editor().strangers.is_empty());
    }
}

/// What is about nothing of ours is nobody's business but its readers'.
#[test]
fn unknown_words_pass() {
    let mut stage = Stage::new("(p1:P4) agent", STDIO);
    for (method, params) in [
        ("mcp/unknown", r#"{"serverId":"U"}"#),
        ("_mcp/own", "{}"),
        ("_mcp/message", r#"{"method":"x"}"#),
    ] {
        stage.say("agent", &format!("{method} 1 {params}"));
        let id = stage.see("editor", &format!("{method} ? {params}"));
        stage.say("editor", &format!(r#"error {id} {{"code":-32601,"message":"no"}}"#));
        stage.see("agent", r#"error 1 {"code":-32601,"message":"no"}"#);
        stage.say("editor", &format!("{method} {params}"));
        stage.see("agent", &format!("{method} {params}"));
    }
}

/// A server that nobody has declared to us may be known to those who use it.
#[test]
fn what_was_agreed_upon_without_us_passes() {
    let mut stage = Stage::new("p1:P1 (x:P4) agent", OLDER);
    let said = r#"{"url":"acp:U","message":{"jsonrpc":"2.0","id":"m1","method":"x"}}"#;
    stage.say("p1", &format!("~_mcp/server_to_client/request 1 {said}"));
    let id = stage.see("agent", &format!("_mcp/server_to_client/request ? {said}"));
    stage.say("agent", &format!(r#"result {id} {{"message":{{"id":"m1","result":1}}}}"#));
    stage.see("p1", r#"result 1 {"message":{"id":"m1","result":1}}"#);
    stage.say("agent", &format!("_mcp/client_to_server/request 2 {said}"));
    let id = stage.see("p1", &format!("~_mcp/client_to_server/request ? {said}"));
    stage.say("p1", &format!("result {id} {{}}"));
    stage.see("agent", "result 2 {}");
    stage.say("p1", &format!("~_mcp/server_to_client/notification {said}"));
    stage.see("agent", &format!("_mcp/server_to_client/notification {said}"));
    // But not what the agent could not read.
    stage.say("p1", r#"~mcp/message 3 {"connectionId":"V","method":"x"}"#);
    stage.see("p1", r#"error 3 {"code":-32602,"message":"there is no MCP connection 'V'"}"#);
    stage.quiet();
}
