//! The shell opens a place for each server that is bridged, and may take its time. Meanwhile the set-up
//! request waits, and so does everything that is delivered to the agent after it.

use mcp::Transport;

use crate::stage::*;

const SERVERS: &str = r#"{"mcpServers":[{"type":"acp","name":"N","serverId":"U"}]}"#;
const TWO_SERVERS: &str = r#"{"mcpServers":[{"type":"acp","name":"N","serverId":"U"},{"type":"acp","name":"M","serverId":"V"}]}"#;

fn slow(cast: &str, agent: &str) -> Stage {
    let mut stage = Stage::new(cast, agent);
    stage.slow_shell(true);
    stage
}

/// The agent answers a request that it has seen with this result.
fn agent_answers(stage: &mut Stage, id: &str, result: &str) {
    stage.say("agent", &format!("result {id} {result}"));
}

#[test]
fn nothing_overtakes_a_set_up_request_that_waits_for_a_place() {
    let mut stage = slow("agent", STDIO);
    stage.say("agent", "fs/read_text_file 7 {}");
    stage.see("editor", "fs/read_text_file ? {}");
    stage.say("editor", &format!("session/new 1 {SERVERS}"));
    stage.say("editor", r#"session/prompt 2 {"sessionId":"other"}"#);
    stage.say("editor", "result c:2 {}");
    stage.say("editor", r#"$/cancel_request {"requestId":1}"#);
    stage.say("editor", &format!("session/new 3 {TWO_SERVERS}"));
    stage.say("editor", r#"session/cancel {"sessionId":"other"}"#);
    stage.say("agent", "mcp/message 8 {}");
    stage.quiet();
    // The second set-up request is looked at when its turn comes.
    assert_eq!(stage.asked_of_shell().len(), 1);
    stage.shell_answers(0);
    let first = stage.see("agent", r#"session/new ? …"args":["mcp","7000"]…"value":"s1"…"#);
    stage.see("agent", r#"session/prompt ? {"sessionId":"other"}"#);
    stage.see("agent", "result 7 {}");
    stage.see("agent", &format!(r#"$/cancel_request {{"requestId":"{first}"}}"#));
    stage.quiet();
    assert_eq!(stage.asked_of_shell().len(), 2);
    // Places may be ready in any order; the request waits for both.
    stage.shell_answers(1);
    stage.quiet();
    stage.shell_answers(0);
    stage.see("agent", r#"session/new ? …"name":"N"…"value":"s2"…"name":"M"…"value":"s3"…"#);
    stage.see("agent", r#"session/cancel {"sessionId":"other"}"#);
    stage.see("agent", "error 8 …");
    stage.quiet();
}

#[test]
fn other_components_are_not_held_up() {
    let mut stage = slow("p1:P5 agent", STDIO);
    stage.say("p1", &format!("~session/new 1 {SERVERS}"));
    stage.say("editor", "session/list 2 {}");
    stage.see("p1", "session/list ? {}");
    stage.say("agent", r#"session/update {"sessionId":"other"}"#);
    stage.see("p1", r#"~session/update {"sessionId":"other"}"#);
    stage.quiet();
}

#[test]
fn a_place_that_cannot_be_opened_is_an_error_and_the_rest_goes_on() {
    let mut stage = slow("agent", STDIO);
    stage.say("editor", &format!("session/new 1 {TWO_SERVERS}"));
    stage.say("editor", r#"session/prompt 2 {"sessionId":"other"}"#);
    stage.shell_answers(0);
    stage.desk.full = Some("no port is free".into());
    stage.shell_answers(0);
    stage.see(
        "editor",
        r#"error 1 {"code":-32603,"message":"the MCP server 'M' cannot be offered to agent 'agent': no port is free"}"#,
    );
    let prompt = stage.see("agent", r#"session/prompt ? {"sessionId":"other"}"#);
    agent_answers(&mut stage, &prompt, "{}");
    stage.see("editor", "result 2 {}");
    stage.quiet();
    stage.empty();
}

#[test]
fn an_agent_that_refuses_http_is_given_stdio_when_the_place_is_open() {
    let mut stage = slow("agent", HTTP);
    stage.say("editor", &format!("session/new 1 {SERVERS}"));
    stage.shell_answers(0);
    let refused = stage.see("agent", "session/new ? …");
    // Another request already waits. The retry goes behind it.
    stage.say("editor", &format!("session/new 2 {SERVERS}"));
    stage.say(
        "agent",
        &format!(r#"error {refused} {{"code":-32602,"message":"no MCP over http"}}"#),
    );
    let kinds: Vec<Transport> = stage.asked_of_shell().iter().map(|(_, kind)| *kind).collect();
    assert_eq!(kinds, [Transport::Http, Transport::Stdio]);
    stage.say("editor", r#"session/prompt 3 {"sessionId":"other"}"#);
    stage.shell_answers(1);
    stage.quiet();
    assert!(stage.reports.is_empty(), "{:?}", stage.reports);
    stage.shell_answers(0);
    stage.see("agent", r#"session/new ? …"type":"http"…"#);
    stage.see(
        "agent",
        &format!(r#"session/new {refused} {{"mcpServers":[{{"name":"N","command":…"#),
    );
    stage.see("agent", r#"session/prompt ? {"sessionId":"other"}"#);
    assert_eq!(stage.reports.len(), 1, "{:?}", stage.reports);
    agent_answers(&mut stage, &refused, r#"{"sessionId":"S"}"#);
    stage.see("editor", r#"result 1 {"sessionId":"S"}"#);
    stage.quiet();
}

#[test]
fn if_the_second_place_cannot_be_opened_the_agents_own_error_is_told() {
    let mut stage = slow("agent", HTTP);
    stage.say("editor", &format!("session/new 1 {SERVERS}"));
    stage.shell_answers(0);
    let refused = stage.see("agent", "session/new ? …");
    stage.say(
        "agent",
        &format!(r#"error {refused} {{"code":-32602,"message":"no MCP over http"}}"#),
    );
    stage.desk.full = Some("no port is free".into());
    stage.shell_answers(0);
    stage.see("editor", r#"error 1 {"code":-32602,"message":"no MCP over http"}"#);
    stage.quiet();
    stage.empty();
    assert!(stage.reports.is_empty(), "{:?}", stage.reports);
}

#[test]
fn what_waits_for_an_agent_that_dies_is_not_delivered_to_the_next_one() {
    let mut stage = slow("agent", STDIO);
    stage.say("editor", &format!("session/new 1 {SERVERS}"));
    stage.say("editor", r#"session/prompt 2 {"sessionId":"other"}"#);
    stage.say("editor", r#"session/cancel {"sessionId":"other"}"#);
    stage.die("agent");
    stage.see("editor", "error 1 …");
    stage.see("editor", "error 2 …");
    // What is said to it now is for the next one.
    stage.say("editor", &format!("session/new 3 {SERVERS}"));
    stage.boot("agent", STDIO);
    stage.is_back("agent");
    stage.quiet();
    // The place of the request that is lost is not needed.
    assert_eq!(stage.asked_of_shell().len(), 2);
    stage.shell_answers(0);
    assert_eq!((stage.tickets().len(), stage.desk.revoked), (0, 1));
    stage.quiet();
    stage.shell_answers(0);
    let id = stage.see("agent", r#"session/new ? …"value":"s2"…"#);
    agent_answers(&mut stage, &id, r#"{"sessionId":"S"}"#);
    stage.see("editor", r#"result 3 {"sessionId":"S"}"#);
    stage.quiet();
}

#[test]
fn what_waits_for_an_agent_that_leaves_for_good_is_forgotten() {
    let mut stage = slow("p1:P5 agent+stop", STDIO);
    // The chain does not end before this is answered.
    stage.say("editor", "_x/wait 9 {}");
    stage.see("p1", "_x/wait ? {}");
    stage.say("p1", &format!("~session/new 1 {TWO_SERVERS}"));
    stage.shell_answers(0);
    stage.die("agent");
    stage.see("p1", "error 1 …");
    stage.shell_answers(0);
    assert_eq!((stage.desk.admitted, stage.desk.revoked), (2, 2));
    let [tickets, .., held, _, _, watched] = stage.broker().sizes();
    assert_eq!([tickets, held, watched], [0; 3]);
}

#[test]
fn a_server_that_is_gone_before_its_place_is_open_is_left_out() {
    let mut stage = slow("p1:P5+once p2:P5 agent", STDIO);
    stage.say("p1", &format!("~session/new 5 {SERVERS}"));
    stage.see("p2", &format!("session/new ? {SERVERS}"));
    stage.say("p2", &format!("~session/new 6 {TWO_SERVERS}"));
    assert_eq!(stage.asked_of_shell().len(), 2);
    // The first server is of the one that dies, the second is not.
    stage.die("p1");
    stage.die_again("p1");
    assert!(stage.is_left_out("p1"));
    stage.shell_answers(0);
    assert_eq!((stage.tickets().len(), stage.desk.revoked), (0, 1), "nobody needs this place");
    stage.quiet_at("agent");
    stage.shell_answers(0);
    stage.see("agent", r#"session/new ? {"mcpServers":[{"name":"M",…"value":"s2"}]}]}"#);
    assert_eq!((stage.tickets().len(), stage.desk.revoked), (1, 1));
}

/// An agent that cannot start a server may say no more than its name.
#[test]
fn a_refusal_that_names_a_server_leads_to_another_transport() {
    for (name, is_retried) in [("N", true), ("another", false)] {
        let mut stage = Stage::new("agent", HTTP);
        stage.say("editor", &format!("session/new 1 {SERVERS}"));
        let refused = stage.see("agent", "session/new ? …");
        let error = format!(r#"{{"code":-32602,"message":"could not start '{name}'"}}"#);
        stage.say("agent", &format!("error {refused} {error}"));
        match is_retried {
            true => drop(stage.see("agent", &format!(r#"session/new {refused} …"command":…"#))),
            false => drop(stage.see("editor", &format!("error 1 {error}"))),
        }
        stage.quiet();
    }
}
