//! Requests that a provider leaves unanswered: which of them are sent again, and how that ends.

use acp_wire::Outcome;
use mcp::form::Form;

use crate::cast::*;
use crate::stage::*;
use crate::world::*;

const HELLO: &str =
    r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}"#;
const READY: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// A client of a P4 proxy's server, which has said hello.
fn greeted_client() -> (Stage, mcp::ClientId) {
    let entry = r#"{"type":"http","name":"N","url":"acp:U","headers":[]}"#;
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
    (stage, client)
}

/// The published sacp 10 loses the answer to a list right behind `notifications/initialized`.
#[test]
fn a_list_whose_answer_was_lost_is_asked_for_again() {
    let (mut stage, client) = greeted_client();
    stage.hear_at_once(client, READY);
    stage.hear(client, "tools/list 2");
    stage.see("p1", r#"~_mcp/message {…"method":"notifications/initialized"…"#);
    let first = stage.see("p1", r#"~_mcp/message ? {…"method":"tools/list"…"#);
    stage.wait(999);
    stage.quiet();
    stage.wait(1);
    let again = stage.see("p1", r#"~_mcp/message ? {"connectionId":"V","method":"tools/list"…"#);
    assert_ne!(first, again);
    stage.say("p1", &format!(r#"result {again} {{"tools":[1]}}"#));
    stage.told(client, r#"result 2 {"tools":[1]}"#);
    // An answer that comes after all is dropped.
    stage.say("p1", &format!(r#"result {first} {{"tools":[2]}}"#));
    stage.wait(60_000);
    stage.quiet();
}

#[test]
fn the_first_answer_counts_and_retries_stop_with_it() {
    let (mut stage, client) = greeted_client();
    stage.hear(client, "resources/templates/list 2");
    let first = stage.see("p1", r#"~_mcp/message ? {…"method":"resources/templates/list"…"#);
    let mut retries = Vec::new();
    for pause in [1_000, 2_000, 4_000] {
        stage.wait(pause);
        retries.push(stage.see("p1", "~_mcp/message ? …"));
        stage.quiet();
    }
    stage.say("p1", &format!("result {first} {{}}"));
    stage.told(client, "result 2 {}");
    for retry in retries {
        stage.say("p1", &format!(r#"error {retry} {{"code":-32603,"message":"late"}}"#));
    }
    stage.wait(60_000);
    stage.quiet();
}

#[test]
fn in_the_end_an_error_names_the_provider() {
    let (mut stage, client) = greeted_client();
    stage.hear(client, "tools/list 2");
    stage.hear(client, "tools/call 3 {}");
    stage.wait(24_999);
    stage.drop_all("p1");
    stage.quiet();
    stage.wait(1);
    let error = r#"error 2 {"code":-32603,"message":"proxy 'p1' did not answer tools/list for its MCP server 'N' within 25 s…"}"#;
    stage.told(client, error);
    stage.drop_all("p1");
    // What may not be asked twice has all the time it needs.
    stage.wait(3_600_000);
    stage.quiet();
}

/// A client of a P4 proxy's server that has sent `initialize`, on the connection `V`. Gives the id of
/// the request.
fn waiting_client() -> (Stage, mcp::ClientId, String) {
    let entry = r#"{"type":"http","name":"N","url":"acp:U","headers":[]}"#;
    let mut stage = Stage::new("p1:P4 agent", STDIO);
    stage.say("p1", &format!(r#"~session/new 1 {{"mcpServers":[{entry}]}}"#));
    stage.see("agent", "session/new ? …");
    let client = stage.call(stage.tickets()[0]);
    stage.hear(client, &format!("initialize 1 {HELLO}"));
    let connect = stage.see("p1", "~_mcp/connect ? …");
    stage.say("p1", &format!(r#"result {connect} {{"connection_id":"V"}}"#));
    let hello = stage.see("p1", &initialize_on("V"));
    (stage, client, hello)
}

fn initialize_on(connection: &str) -> String {
    format!(r#"~_mcp/message ? {{"connectionId":"{connection}","method":"initialize"…"#)
}

const TOOLS: &str = r#"{"capabilities":{"tools":{}}}"#;

#[test]
fn a_connect_is_sent_again() {
    let entry = r#"{"type":"http","name":"N","url":"acp:U","headers":[]}"#;
    let mut stage = Stage::new("p1:P4 agent", STDIO);
    stage.say("p1", &format!(r#"~session/new 1 {{"mcpServers":[{entry}]}}"#));
    stage.see("agent", "session/new ? …");
    let client = stage.call(stage.tickets()[0]);
    stage.hear(client, &format!("initialize 1 {HELLO}"));
    let lost = stage.see("p1", "~_mcp/connect ? …");
    stage.wait(5_000);
    stage.told(client, "result 1 …");
    let connect = stage.see("p1", "~_mcp/connect ? …");
    stage.say("p1", &format!(r#"result {connect} {{"connection_id":"V"}}"#));
    let hello = stage.see("p1", &initialize_on("V"));
    // The connection that the first one has opened is not needed.
    stage.say("p1", &format!(r#"result {lost} {{"connection_id":"W"}}"#));
    stage.see("p1", r#"~_mcp/disconnect {"connection_id":"W","connectionId":"W"}"#);
    stage.say("p1", &format!("result {hello} {TOOLS}"));
    stage.told(client, "notifications/tools/list_changed");
    stage.wait(60_000);
    stage.quiet();
}

/// Servers of the SDK rmcp exit when they get `initialize` twice on one connection, however slow they
/// were to answer the first.
#[test]
fn a_server_that_is_slow_to_answer_initialize_gets_it_once() {
    for delay in [1_300, 4_999] {
        let (mut stage, client, hello) = waiting_client();
        stage.wait(delay);
        stage.quiet_at("p1");
        stage.say("p1", &format!("result {hello} {TOOLS}"));
        if delay > 2_000 {
            stage.told(client, "result 1 …");
            stage.told(client, "notifications/tools/list_changed");
        } else {
            stage.told(client, &format!("result 1 {TOOLS}"));
        }
        stage.wait(60_000);
        stage.quiet();
    }
}

#[test]
fn a_lost_initialize_is_asked_again_on_another_connection() {
    let (mut stage, client, lost) = waiting_client();
    stage.wait(5_000);
    stage.told(client, "result 1 …");
    let connect = stage.see("p1", "~_mcp/connect ? …");
    stage.quiet();
    stage.say("p1", &format!(r#"result {connect} {{"connection_id":"W"}}"#));
    let hello = stage.see("p1", &initialize_on("W"));
    stage.say("p1", &format!("result {hello} {TOOLS}"));
    stage.see("p1", r#"~_mcp/disconnect {"connection_id":"V","connectionId":"V"}"#);
    stage.told(client, "notifications/tools/list_changed");
    // The client goes on with the other connection, both ways.
    stage.hear_at_once(client, READY);
    stage.hear(client, "tools/call 2 {}");
    stage.see("p1", r#"~_mcp/message {"connectionId":"W","method":"notifications/initialized"…"#);
    let call = stage.see("p1", r#"~_mcp/message ? {"connectionId":"W","method":"tools/call"…"#);
    stage.say("p1", r#"~_mcp/message {"connectionId":"W","method":"notifications/x"}"#);
    stage.told(client, "notifications/x …");
    stage.say("p1", &format!("result {call} {{}}"));
    stage.told(client, "result 2 {}");
    stage.say("p1", &format!("result {lost} {{}}"));
    stage.wait(60_000);
    stage.quiet();
}

#[test]
fn connections_that_are_not_needed_for_initialize_are_closed() {
    let (mut stage, client, hello) = waiting_client();
    stage.wait(5_000);
    stage.told(client, "result 1 …");
    let second = stage.see("p1", "~_mcp/connect ? …");
    stage.say("p1", &format!(r#"result {second} {{"connection_id":"W"}}"#));
    let refused = stage.see("p1", &initialize_on("W"));
    // An error on another connection decides nothing.
    stage.say("p1", &format!(r#"error {refused} {{"code":-32600,"message":"one client only"}}"#));
    stage.wait(5_000);
    let third = stage.see("p1", "~_mcp/connect ? …");
    stage.quiet();
    stage.say("p1", &format!("result {hello} {TOOLS}"));
    stage.see("p1", r#"~_mcp/disconnect {"connection_id":"W","connectionId":"W"}"#);
    stage.told(client, "notifications/tools/list_changed");
    stage.say("p1", &format!(r#"result {third} {{"connection_id":"X"}}"#));
    stage.see("p1", r#"~_mcp/disconnect {"connection_id":"X","connectionId":"X"}"#);
    stage.wait(60_000);
    stage.quiet();
}

/// A provider may give the same id to every connection. Then there is no other one.
#[test]
fn a_provider_with_one_connection_gets_initialize_once() {
    let (mut stage, client, hello) = waiting_client();
    stage.wait(5_000);
    stage.told(client, "result 1 …");
    let connect = stage.see("p1", "~_mcp/connect ? …");
    stage.say("p1", &format!(r#"result {connect} {{"connection_id":"V"}}"#));
    stage.quiet();
    stage.say("p1", &format!("result {hello} {TOOLS}"));
    stage.told(client, "notifications/tools/list_changed");
    stage.wait(60_000);
    stage.quiet();
}

/// A client that was answered in the server's place does not say `initialize` again: we do, and not on
/// the connection on which it was said before.
#[test]
fn after_the_limit_initialize_is_said_on_a_new_connection() {
    let (mut stage, client, _) = waiting_client();
    stage.wait(24_999);
    stage.told(client, "result 1 …");
    stage.drop_all("p1");
    stage.wait(1);
    stage.see("p1", r#"~_mcp/disconnect {"connection_id":"V","connectionId":"V"}"#);
    let connect = stage.see("p1", "~_mcp/connect ? …");
    stage.say("p1", &format!(r#"result {connect} {{"connection_id":"Y"}}"#));
    let hello = stage.see("p1", &initialize_on("Y"));
    stage.say("p1", &format!("result {hello} {TOOLS}"));
    stage.told(client, "notifications/tools/list_changed");
    stage.hear(client, "tools/call 2 {}");
    stage.see("p1", r#"~_mcp/message ? {"connectionId":"Y","method":"tools/call"…"#);
    stage.quiet();
}

/// Where there are no connections, `initialize` is sent once, and the limit still holds.
#[test]
fn without_connections_initialize_is_sent_once() {
    let entry = r#"{"type":"http","name":"N","url":"acp:U","headers":[]}"#;
    let mut stage = Stage::new("p1:P1 agent", OLDER);
    stage.say("p1", &format!(r#"~session/new 1 {{"mcpServers":[{entry}]}}"#));
    stage.see("agent", "session/new ? …");
    let said =
        r#"{"url":"acp:U","message":{"jsonrpc":"2.0","id":"m","method":"initialize","params":{}}}"#;
    stage.say("agent", &format!("_mcp/client_to_server/request 1 {said}"));
    stage.see("p1", "~_mcp/client_to_server/request ? …");
    stage.wait(24_999);
    stage.quiet();
    stage.wait(1);
    stage.see("agent", "result 1 …did not answer initialize…");
    stage.wait(60_000);
    stage.quiet();
}

/// Native consumers and the bridge, before providers of every form.
#[test]
fn every_pair_of_forms_survives_a_lost_answer() {
    for consumer in FORMS.into_iter().map(Some).chain([None]) {
        for form in FORMS {
            let cast = format!("p1:{} (x:P4) agent", dialect_of(form));
            let providers = vec![Provider::new("p1", form, &[("N", "U")])];
            let mut world = World::new(&cast, consumer, providers);
            let entries = world.session("S");
            let line = world.line(&entries[0]);
            let name = world.ask(&line, "tools/list", "{}");
            if consumer == Some(Form::M7) && form != Form::M7 {
                let mut hello = world.heard("p1");
                if form.has_connections() {
                    world.provider("p1").lose(&hello);
                    world.stage.wait(5_000);
                    world.settle();
                    hello = world.heard("p1");
                }
                assert!(hello.call.is("initialize"), "{consumer:?} {form:?}");
                world.result("p1", &hello, "{}");
                world.heard("p1");
            }
            let said = world.heard("p1");
            world.provider("p1").lose(&said);
            world.stage.wait(1_000);
            world.settle();
            let again = world.heard("p1");
            assert!(again.call.is("tools/list"), "{consumer:?} {form:?}");
            assert_ne!(said.id, again.id);
            assert!(said.request.is_empty() || said.request != again.request);
            world.result("p1", &again, r#"{"tools":[]}"#);
            let outcome = world.agent.outcomes.remove(&name);
            assert!(matches!(outcome, Some(Outcome::Result(_))), "{consumer:?} {form:?}");
            world.stage.wait(60_000);
            world.settle();
            world.close_session("S");
            world.agent.hang_up(&mut world.stage, &line);
            world.settle();
        }
    }
}

/// A consumer that takes its request back takes the retries back, too.
#[test]
fn retries_are_cancelled_with_the_request() {
    let (mut stage, client) = greeted_client();
    stage.hear(client, "tools/list 2");
    let first = stage.see("p1", "~_mcp/message ? …");
    stage.wait(1_000);
    let again = stage.see("p1", "~_mcp/message ? …");
    stage.hear(client, r#"notifications/cancelled {"requestId":2}"#);
    let cancel = |id: &str| format!(r#"$/cancel_request {{"requestId":"{id}"}}"#);
    let told = |id: &str| format!(r#"~_mcp/message {{…"requestId":"{id}"}}}}"#);
    stage.see("p1", &cancel(&first));
    stage.see("p1", &cancel(&again));
    stage.see("p1", &told(&first));
    stage.see("p1", &told(&again));
    stage.wait(60_000);
    stage.quiet();
}

/// A request that waits for its server to be opened has the same limit.
#[test]
fn the_limit_runs_from_the_moment_of_the_request() {
    let entry = r#"{"type":"http","name":"N","url":"acp:U","headers":[]}"#;
    let mut stage = Stage::new("p1:P4 agent", NATIVE);
    stage.say("p1", &format!(r#"~session/new 1 {{"mcpServers":[{entry}]}}"#));
    stage.see("agent", "session/new ? …");
    stage.say("agent", r#"mcp/message 1 {"serverId":"U","requestId":"r","method":"tools/list"}"#);
    let connect = stage.see("p1", "~_mcp/connect ? …");
    stage.wait(4_000);
    stage.say("p1", &format!(r#"result {connect} {{"connection_id":"V"}}"#));
    stage.wait(20_999);
    stage.quiet_at("agent");
    stage.wait(1);
    stage.see(
        "agent",
        r#"error 1 {"code":-33002,"message":"…proxy 'p1' did not answer tools/list…"#,
    );
    stage.quiet_at("agent");
}
