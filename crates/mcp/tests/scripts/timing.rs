//! Who waits for whom, and for how long.

use acp_wire::Outcome;
use mcp::form::Form;

use crate::cast::*;
use crate::stage::*;
use crate::world::*;

const HELLO: &str =
    r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}"#;

/// Checklist 75: an agent may ask its servers for their tools before it answers `session/new`.
#[test]
fn servers_can_be_used_before_the_session_stands() {
    for consumer in FORMS.into_iter().map(Some).chain([None]) {
        for form in FORMS {
            let cast = format!("p1:{} (x:P4) agent", dialect_of(form));
            let providers = vec![Provider::new("p1", form, &[("N", "U")])];
            let mut world = World::new(&cast, consumer, providers);
            let (id, set_up) = world.begin_session();
            let line = world.line(&servers(&set_up)[0]);
            let name = world.ask(&line, "tools/list", "{}");
            if consumer == Some(Form::M7) && form != Form::M7 {
                let hello = world.heard("p1");
                world.result("p1", &hello, "{}");
                world.heard("p1");
            }
            let said = world.heard("p1");
            world.result("p1", &said, r#"{"tools":[]}"#);
            assert!(matches!(world.agent.outcomes.remove(&name), Some(Outcome::Result(_))));
            world.agent_says(&id, r#"{"sessionId":"S"}"#);
            assert!(world.editor().answers.contains_key("e1"));
            world.close_session("S");
            world.agent.hang_up(&mut world.stage, &line);
        }
    }
}

/// There are servers that lose what comes right after `initialized`, unless it comes with it.
#[test]
fn the_word_that_a_client_is_ready_goes_with_what_it_says_next_or_soon_alone() {
    let entry = r#"{"type":"http","name":"N","url":"acp:U","headers":[]}"#;
    let ready = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    for alone in [false, true] {
        let mut stage = Stage::new("p1:P4 agent", STDIO);
        stage.say("p1", &format!(r#"~session/new 1 {{"mcpServers":[{entry}]}}"#));
        stage.see("agent", "session/new ? …");
        let client = stage.call(stage.tickets()[0]);
        stage.hear(client, &format!("initialize 1 {HELLO}"));
        let connect = stage.see("p1", "~_mcp/connect ? …");
        stage.say("p1", &format!(r#"result {connect} {{"connection_id":"V"}}"#));
        let hello = stage.see("p1", r#"~_mcp/message ? {…"method":"initialize"…"#);
        stage.say("p1", &format!("result {hello} {{}}"));
        stage.told(client, "result 1 {}");
        stage.hear_at_once(client, ready);
        stage.wait(199);
        stage.quiet();
        match alone {
            true => stage.wait(1),
            false => stage.hear(client, "tools/list 2"),
        }
        stage.see("p1", r#"~_mcp/message {…"method":"notifications/initialized"…"#);
        if !alone {
            stage.see("p1", r#"~_mcp/message ? {…"method":"tools/list"…"#);
        }
        stage.quiet();
    }
}

/// A provider may be busy with the very request that sets up the session, and the agent may answer
/// that only once all its servers have said hello.
#[test]
fn a_client_is_greeted_after_two_seconds_whatever_its_server_does() {
    let entry = r#"{"type":"http","name":"N","url":"acp:U","headers":[]}"#;
    let mut stage = Stage::new("p1:P4 agent", STDIO);
    stage.say("p1", &format!(r#"~session/new 1 {{"mcpServers":[{entry}]}}"#));
    stage.see("agent", "session/new ? …");
    let client = stage.call(stage.tickets()[0]);
    stage.hear(client, &format!("initialize 1 {HELLO}"));
    let connect = stage.see("p1", "~_mcp/connect ? …");
    stage.wait(1_999);
    stage.quiet();
    stage.wait(1);
    stage.told(client, r#"result 1 {"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"N",…}}"#);
    stage.hear(client, "notifications/initialized");
    stage.hear(client, "tools/list 2");
    stage.wait(2_000);
    stage.quiet();
    // What was said in the meantime is said in order; and the client hears that there is more.
    stage.say("p1", &format!(r#"result {connect} {{"connection_id":"V"}}"#));
    let hello =
        stage.see("p1", &format!(r#"~_mcp/message ? {{…"method":"initialize","params":{HELLO}}}"#));
    // No server expects anything before it has answered.
    stage.quiet();
    stage.say("p1", &format!(r#"result {hello} {{"protocolVersion":"2025-06-18","capabilities":{{"tools":{{}},"prompts":{{}}}}}}"#));
    stage.told(client, "notifications/tools/list_changed");
    stage.told(client, "notifications/prompts/list_changed");
    stage.see("p1", r#"~_mcp/message {…"method":"notifications/initialized"…"#);
    let list = stage.see("p1", r#"~_mcp/message ? {…"method":"tools/list"…"#);
    stage.say("p1", &format!(r#"result {list} {{"tools":[]}}"#));
    stage.told(client, r#"result 2 {"tools":[]}"#);
    stage.quiet();
}

/// Over HTTP the answer to a request is a stream that has to end, whoever does not want it any more.
#[test]
fn what_is_taken_back_before_the_server_is_reached_ends_over_http() {
    for (agent, http) in [(STDIO, false), (HTTP, true)] {
        let (mut stage, client) = waiting_client(agent);
        stage.hear(client, "tools/list 1");
        let connect = stage.see("p1", "~_mcp/connect ? …");
        stage.hear(client, r#"notifications/cancelled {"requestId":1}"#);
        if http {
            stage.told(client, r#"error 1 {"code":-32800,…"#);
        }
        stage.say("p1", &format!(r#"result {connect} {{"connection_id":"V"}}"#));
        stage.quiet();
    }
}

#[test]
fn what_we_have_answered_in_a_servers_place_cannot_be_taken_back() {
    for agent in [STDIO, HTTP] {
        let (mut stage, client) = waiting_client(agent);
        stage.hear(client, &format!("initialize 1 {HELLO}"));
        let connect = stage.see("p1", "~_mcp/connect ? …");
        stage.wait(2_000);
        stage.told(client, "result 1 …");
        stage.hear(client, r#"notifications/cancelled {"requestId":1}"#);
        stage.say("p1", &format!(r#"result {connect} {{"connection_id":"V"}}"#));
        let hello = stage.see("p1", r#"~_mcp/message ? {…"method":"initialize"…"#);
        stage.say("p1", &format!("result {hello} {{}}"));
        stage.quiet();
    }
}

/// A client of a server that was declared to this agent; the session is not set up yet.
fn waiting_client(agent: &str) -> (Stage, mcp::ClientId) {
    let entry = r#"{"type":"http","name":"N","url":"acp:U","headers":[]}"#;
    let mut stage = Stage::new("p1:P4 agent", agent);
    stage.say("p1", &format!(r#"~session/new 1 {{"mcpServers":[{entry}]}}"#));
    stage.see("agent", "session/new ? …");
    let client = stage.call(stage.tickets()[0]);
    (stage, client)
}

#[test]
fn a_server_that_is_in_time_greets_its_client_itself() {
    let entry = r#"{"type":"http","name":"N","url":"acp:U","headers":[]}"#;
    let mut stage = Stage::new("p1:P4 agent", STDIO);
    stage.say("p1", &format!(r#"~session/new 1 {{"mcpServers":[{entry}]}}"#));
    stage.see("agent", "session/new ? …");
    let client = stage.call(stage.tickets()[0]);
    stage.hear(client, &format!("initialize 1 {HELLO}"));
    let connect = stage.see("p1", "~_mcp/connect ? …");
    stage.wait(1_000);
    stage.say("p1", &format!(r#"result {connect} {{"connection_id":"V"}}"#));
    let hello = stage.see("p1", r#"~_mcp/message ? …"#);
    stage.wait(999);
    stage.say("p1", &format!(r#"result {hello} {{"own":1}}"#));
    stage.told(client, r#"result 1 {"own":1}"#);
    stage.wait(60_000);
    // What is not the beginning has all the time it needs.
    stage.hear(client, "tools/call 2 {}");
    stage.see("p1", r#"~_mcp/message ? …"#);
    stage.wait(3_600_000);
    stage.quiet();
}

/// A server that cannot be reached after all: the client was greeted, and hears it with the rest.
#[test]
fn a_refused_connection_is_told_to_whoever_still_waits() {
    let entry = r#"{"type":"acp","name":"N","id":"U"}"#;
    let mut stage = Stage::new("p1:P5 agent", STDIO);
    stage.say("p1", &format!(r#"~session/new 1 {{"mcpServers":[{entry}]}}"#));
    stage.see("agent", "session/new ? …");
    let client = stage.call(stage.tickets()[0]);
    stage.hear(client, &format!("initialize 1 {HELLO}"));
    let connect = stage.see("p1", "~mcp/connect ? …");
    stage.wait(2_000);
    stage.told(client, "result 1 …");
    stage.hear(client, "tools/list 2");
    stage.say("p1", &format!(r#"error {connect} {{"code":-32000,"message":"no"}}"#));
    stage.told(client, r#"error 2 {"code":-32000,"message":"no"}"#);
    stage.quiet();
    // It may try again.
    stage.hear(client, "tools/list 3");
    let connect = stage.see("p1", "~mcp/connect ? …");
    stage.say("p1", &format!(r#"result {connect} {{"connectionId":"V"}}"#));
    // It will not say its first words again, and the server has not heard them.
    let hello = stage.see("p1", r#"~mcp/message ? {"connectionId":"V","method":"initialize"…"#);
    stage.quiet();
    stage.say("p1", &format!("result {hello} {{}}"));
    stage.see("p1", r#"~mcp/message ? {"connectionId":"V","method":"tools/list"…"#);
    stage.quiet();
}

/// What we ourselves want to know has a limit; what a consumer asks has none.
#[test]
fn our_own_questions_are_given_up_after_25_seconds() {
    let entry = r#"{"type":"http","name":"N","url":"acp:U","headers":[]}"#;
    let said = r#"{"serverId":"U","requestId":"r-1","method":"tools/list","params":{}}"#;
    for answers in [0, 1] {
        let mut stage = Stage::new("p1:P4 agent", NATIVE);
        stage.say("p1", &format!(r#"~session/new 1 {{"mcpServers":[{entry}]}}"#));
        stage.see("agent", "session/new ? …");
        stage.wait(100_000);
        stage.say("agent", &format!("mcp/message 1 {said}"));
        let connect = stage.see("p1", "~_mcp/connect ? …");
        if answers == 1 {
            stage.say("p1", &format!(r#"result {connect} {{"connection_id":"V"}}"#));
            stage.see("p1", r#"~_mcp/message ? …"initialize"…"#);
        }
        stage.wait(24_999);
        stage.quiet_at("agent");
        stage.drop_all("p1");
        stage.wait(1);
        let error = r#"error 1 {"code":-33002,"message":"…proxy 'p1' did not answer … for its MCP server 'N' within 25 s…"…}"#;
        stage.see("agent", error);
        if answers == 1 {
            stage.see("p1", "~_mcp/disconnect …");
        }
        stage.quiet();
        // The next request begins anew.
        stage.say("agent", &format!("mcp/message 2 {said}"));
        let again = stage.see("p1", "~_mcp/connect ? …");
        assert_ne!(connect, again);
    }
}

/// The server's own refusal of a conversation is not the answer to a stateless request.
#[test]
fn a_server_that_does_not_want_to_begin_has_failed() {
    let entry = r#"{"type":"http","name":"N","url":"acp:U","headers":[]}"#;
    let mut stage = Stage::new("p1:P4 agent", NATIVE);
    stage.say("p1", &format!(r#"~session/new 1 {{"mcpServers":[{entry}]}}"#));
    stage.see("agent", "session/new ? …");
    let said = r#"{"serverId":"U","requestId":"r-1","method":"tools/list"}"#;
    stage.say("agent", &format!("mcp/message 1 {said}"));
    let connect = stage.see("p1", "~_mcp/connect ? …");
    stage.say("p1", &format!(r#"result {connect} {{"connection_id":"V"}}"#));
    let hello = stage.see("p1", r#"~_mcp/message ? …"initialize"…"#);
    stage.say("p1", &format!(r#"error {hello} {{"code":-32000,"message":"not today"}}"#));
    stage.see("p1", r#"~_mcp/disconnect {"connection_id":"V","connectionId":"V"}"#);
    stage.see(
        "agent",
        r#"error 1 {"code":-33002,"message":"the MCP server could not be opened: not today"…}"#,
    );
    stage.quiet();
}

/// A discovery that is given up long after the chain began is given its half minute all the same.
#[test]
fn the_clock_of_a_discovery_begins_with_it() {
    let mut stage = Stage::new("p1:P5 agent", OLDER);
    stage.say("p1", r#"~session/new 1 {"mcpServers":[{"type":"acp","name":"N","serverId":"U"}]}"#);
    stage.see("agent", "session/new ? …");
    stage.wait(1_000_000);
    stage.say("agent", r#"_mcp/client_to_server/request 1 {"url":"acp:U","message":{"jsonrpc":"2.0","id":"m","method":"initialize","params":{}}}"#);
    let first = stage.see("p1", r#"~mcp/message ? …"server/discover"…"#);
    stage.say("p1", &format!(r#"result {first} {{"error":{{"code":-32601,"message":"what?"}}}}"#));
    let second = stage.see("p1", r#"~mcp/message ? …"server/discover"…"#);
    stage.wait(999);
    stage.quiet();
    stage.say("p1", &format!(r#"result {second} {{"error":{{"code":-32601,"message":"what?"}}}}"#));
    stage.see("agent", r#"result 1 {"message":{"jsonrpc":"2.0","id":"m","result":{…"capabilities":{"tools":{}}…}}}"#);
    stage.quiet();
}

/// Checklist 55.
#[test]
fn a_session_that_hangs_does_not_stall_or_reorder_another() {
    let providers = vec![Provider::new("p1", Form::M3, &[("N", "U")])];
    let mut world = World::new("p1:P4 (x:P5) agent", None, providers);
    // The agent does not answer; one of its clients waits for a connection that does not come.
    let (_, hanging) = world.begin_session();
    let stuck = world.stage.call(ticket_of(&servers(&hanging)[0]));
    world.stage.hear(stuck, &format!("initialize 1 {HELLO}"));
    let (_, connect) = world.stage.next("p1").unwrap();
    world.editor_asks("session/cancel", r#"{"sessionId":"T"}"#);
    world.agent.requests.clear();
    let (id, other) = world.begin_session();
    let line = world.line(&servers(&other)[0]);
    world.agent_says(&id, r#"{"sessionId":"T"}"#);
    for n in 0..3 {
        world.editor_asks("session/prompt", &format!(r#"{{"sessionId":"T","n":{n}}}"#));
    }
    let seen: Vec<String> =
        world.agent.requests.drain(..).map(|(_, it)| it.params.unwrap().to_string()).collect();
    assert_eq!(seen, [0, 1, 2].map(|n| format!(r#"{{"sessionId":"T","n":{n}}}"#)));
    let name = world.ask(&line, "tools/list", "{}");
    let said = world.heard("p1");
    world.result("p1", &said, "{}");
    assert_eq!(world.agent.outcomes.remove(&name), Some(Outcome::Result(json("{}"))));
    // At last.
    let id = text(&connect).split(' ').nth(1).unwrap().to_owned();
    world.provider("p1").open.insert("late".into(), "U".into());
    world.stage.say("p1", &format!(r#"result {id} {{"connection_id":"late"}}"#));
    let hello = world.heard("p1");
    assert!(hello.call.is("initialize") && hello.connection == "late");
}

/// A proxy that sleeps keeps what is for it, in order, and nobody else waits.
#[test]
fn a_provider_beyond_a_sleeping_proxy_is_reached_when_it_wakes() {
    let providers = vec![
        Provider::new("p1", Form::M6, &[("far", "U1")]),
        Provider::new("p2", Form::M7, &[("near", "U2")]),
    ];
    let mut world = World::new("p1:P4 (x:P3) p2:P5 agent", None, providers);
    let entries = world.session("S");
    world.stage.sleep("x", true);
    let (far, near) = (world.line(&entries[0]), world.line(&entries[1]));
    let first = world.ask(&far, "tools/list", "{}");
    let second = world.ask(&near, "tools/list", "{}");
    let said = world.heard("p2");
    world.result("p2", &said, "{}");
    assert!(world.agent.outcomes.remove(&second).is_some());
    assert!(world.provider("p1").heard.is_empty());
    world.stage.sleep("x", false);
    let said = world.heard("p1");
    world.result("p1", &said, "{}");
    assert!(world.agent.outcomes.remove(&first).is_some());
}
