//! Which transport an agent without MCP over ACP is given, and what is learnt from what it does.

use mcp::{BridgePolicy, Transport};

use crate::stage::*;

const SERVER: &str = r#"{"type":"acp","name":"N","serverId":"U"}"#;

/// The kinds of place that the agent is given for a session, which the editor asks for.
fn begin(stage: &mut Stage, id: u64) -> (String, Vec<Transport>) {
    stage.say("editor", &format!(r#"session/new {id} {{"mcpServers":[{SERVER}]}}"#));
    let asked = stage.see(&stage.agent(), "session/new ? …");
    (asked, stage.kinds())
}

fn answer(stage: &mut Stage, asked: &str, line: &str) {
    let agent = stage.agent();
    stage.say(&agent, &line.replacen('?', asked, 1));
}

/// Checklist 70, 71.
#[test]
fn the_agents_word_decides() {
    for (agent, kind) in [(STDIO, Transport::Stdio), (HTTP, Transport::Http)] {
        let mut stage = Stage::new("(p1:P4) agent", agent);
        assert_eq!(begin(&mut stage, 1).1, [kind]);
    }
}

#[test]
fn what_is_known_of_an_agent_is_worth_more_than_its_word() {
    let named = |name: &str, http: bool| {
        format!(
            r#"{{"protocolVersion":1,"agentInfo":{{"name":"{name}"}},"agentCapabilities":{{"mcpCapabilities":{{"http":{http}}}}}}}"#
        )
    };
    for (cast, agent, kind) in [
        ("agent", named("OpenHands CLI", true), Transport::Stdio),
        ("agent", named("GitHub Copilot", false), Transport::Http),
        ("agent", named("another", true), Transport::Http),
        ("openhands-acp", named("x", true), Transport::Stdio),
        ("copilot", named("x", false), Transport::Http),
    ] {
        let mut stage = Stage::new(cast, &agent);
        assert_eq!(begin(&mut stage, 1).1, [kind], "{cast} {agent}");
    }
    // It is not tried otherwise, either.
    let mut stage = Stage::new("copilot", STDIO);
    let (asked, _) = begin(&mut stage, 1);
    answer(&mut stage, &asked, r#"error ? {"code":-32602,"message":"no"}"#);
    stage.see("editor", r#"error 1 {"code":-32602,"message":"no"}"#);
    stage.quiet();
    stage.empty();
}

#[test]
fn a_forced_transport_is_the_only_one() {
    for (agent, kind) in [(STDIO, Transport::Http), (HTTP, Transport::Stdio)] {
        let mut stage = Stage::with_policy("agent", agent, BridgePolicy::Only(kind));
        let (asked, kinds) = begin(&mut stage, 1);
        assert_eq!(kinds, [kind]);
        answer(&mut stage, &asked, r#"error ? {"code":-32602,"message":"no"}"#);
        stage.see("editor", r#"error 1 {"code":-32602,"message":"no"}"#);
        let (asked, _) = begin(&mut stage, 2);
        answer(&mut stage, &asked, r#"result ? {"sessionId":"S"}"#);
        stage.see("editor", "result 2 …");
        prompt(&mut stage, "S");
        assert!(stage.reports.is_empty());
        assert_eq!(begin(&mut stage, 3).1, [kind, kind]);
    }
    // Nothing is forced on an agent that speaks MCP over ACP.
    let mut stage = Stage::with_policy("agent", NATIVE, BridgePolicy::Only(Transport::Http));
    assert_eq!(begin(&mut stage, 1).1, []);
}

fn prompt(stage: &mut Stage, session: &str) {
    stage.say("editor", &format!(r#"session/prompt prompt {{"sessionId":"{session}"}}"#));
    let agent = stage.agent();
    let id = stage.see(&agent, "session/prompt ? …");
    stage.say(&agent, &format!("result {id} {{}}"));
    stage.see("editor", "result prompt {}");
}

#[test]
fn a_session_that_is_refused_is_tried_with_the_other_transport() {
    for code in [-32602, -32603] {
        let mut stage = Stage::new("(p1:P4) agent", HTTP);
        let (asked, kinds) = begin(&mut stage, 1);
        assert_eq!(kinds, [Transport::Http]);
        answer(
            &mut stage,
            &asked,
            &format!(r#"error ? {{"code":{code},"message":"no MCP server over http"}}"#),
        );
        // Nobody else hears of it.
        let again =
            stage.see("agent", r#"session/new ? {"mcpServers":[{"name":"N","command":…}]}"#);
        stage.quiet();
        assert_eq!((again.as_str(), stage.kinds()), (asked.as_str(), vec![Transport::Stdio]));
        answer(&mut stage, &again, r#"result ? {"sessionId":"S"}"#);
        stage.see("editor", r#"result 1 {"sessionId":"S"}"#);
        assert_eq!(stage.reports.len(), 1, "{:?}", stage.reports);
        // It is remembered.
        assert_eq!(begin(&mut stage, 2).1, [Transport::Stdio, Transport::Stdio]);
    }
}

#[test]
fn if_both_are_refused_the_first_reason_is_told() {
    let mut stage = Stage::new("agent", HTTP);
    let (asked, _) = begin(&mut stage, 1);
    answer(&mut stage, &asked, r#"error ? {"code":-32602,"message":"first MCP"}"#);
    let again = stage.see("agent", "session/new ? …");
    answer(&mut stage, &again, r#"error ? {"code":-32603,"message":"second MCP"}"#);
    stage.see("editor", r#"error 1 {"code":-32602,"message":"first MCP"}"#);
    stage.quiet();
    stage.empty();
    assert_eq!(begin(&mut stage, 2).1, [Transport::Http], "nothing was learnt");
}

#[test]
fn other_reasons_are_not_ours_to_mend() {
    let mut stage = Stage::new("agent", HTTP);
    let (asked, _) = begin(&mut stage, 1);
    answer(&mut stage, &asked, r#"error ? {"code":-32000,"message":"log in"}"#);
    stage.see("editor", r#"error 1 {"code":-32000,"message":"log in"}"#);
    stage.quiet();
    stage.empty();
    // The agent says what it does not like.
    for error in [
        r#"{"code":-32602,"message":"cwd does not exist"}"#,
        r#"{"code":-32602,"message":"Invalid params","data":{"cwd":["not absolute"]}}"#,
        r#"{"code":-32603,"message":"the model is overloaded (HTTP 529)"}"#,
        r#"{"code":-32603,"message":"no"}"#,
    ] {
        let (asked, _) = begin(&mut stage, 3);
        answer(&mut stage, &asked, &format!("error ? {error}"));
        stage.see("editor", &format!("error 3 {error}"));
        stage.quiet();
        stage.empty();
    }
    // Nor is a session without any server of ours.
    stage.say("editor", r#"session/new 2 {"mcpServers":[]}"#);
    let asked = stage.see("agent", "session/new ? …");
    answer(&mut stage, &asked, r#"error ? {"code":-32602,"message":"no"}"#);
    stage.see("editor", r#"error 2 {"code":-32602,"message":"no"}"#);
    stage.quiet();
}

/// In v2 an agent says what it takes, and means it.
#[test]
fn in_v2_only_what_is_declared_is_tried() {
    let only = r#"{"protocolVersion":2,"info":{"name":"a","version":"1"},"capabilities":{"session":{"mcp":{"http":{}}}}}"#;
    let mut stage = Stage::new("agent", only);
    let (asked, kinds) = begin(&mut stage, 1);
    assert_eq!(kinds, [Transport::Http]);
    answer(&mut stage, &asked, r#"error ? {"code":-32602,"message":"no mcp"}"#);
    stage.see("editor", r#"error 1 {"code":-32602,"message":"no mcp"}"#);
    stage.quiet();
}

#[test]
fn an_agent_that_does_not_call_in_its_first_turn_is_given_the_other_transport_next_time() {
    let mut stage = Stage::new("agent", HTTP);
    let (asked, kinds) = begin(&mut stage, 1);
    assert_eq!(kinds, [Transport::Http]);
    answer(&mut stage, &asked, r#"result ? {"sessionId":"S"}"#);
    stage.see("editor", "result 1 …");
    prompt(&mut stage, "another");
    assert!(stage.reports.is_empty());
    prompt(&mut stage, "S");
    assert_eq!(stage.reports.len(), 1);
    let report = &stage.reports[0];
    assert!(report.contains("agent 'agent'") && report.contains("(N)"), "{report}");
    prompt(&mut stage, "S");
    assert_eq!(stage.reports.len(), 1, "said once");
    let (asked, kinds) = begin(&mut stage, 2);
    assert_eq!(kinds, [Transport::Http, Transport::Stdio]);
    answer(&mut stage, &asked, r#"result ? {"sessionId":"T"}"#);
    stage.see("editor", "result 2 …");
    // Now it calls, and that is that.
    stage.call(stage.tickets()[1]);
    prompt(&mut stage, "T");
    assert_eq!(begin(&mut stage, 3).1, [Transport::Http, Transport::Stdio, Transport::Stdio]);
    assert_eq!(stage.reports.len(), 1);
}

/// Checklist 71: an agent is never given a transport that it has not offered.
#[test]
fn what_an_agent_has_not_offered_is_not_tried() {
    let mut stage = Stage::new("agent", STDIO);
    let (asked, kinds) = begin(&mut stage, 1);
    assert_eq!(kinds, [Transport::Stdio]);
    let error = r#"{"code":-32602,"message":"stdio MCP servers are not supported"}"#;
    answer(&mut stage, &asked, &format!("error ? {error}"));
    stage.see("editor", &format!("error 1 {error}"));
    let (asked, _) = begin(&mut stage, 2);
    answer(&mut stage, &asked, r#"result ? {"sessionId":"S"}"#);
    stage.see("editor", "result 2 …");
    prompt(&mut stage, "S");
    assert!(stage.reports.is_empty(), "{:?}", stage.reports);
    assert_eq!(begin(&mut stage, 3).1, [Transport::Stdio, Transport::Stdio]);
}

#[test]
fn an_agent_that_calls_stays_with_its_transport() {
    let mut stage = Stage::new("agent", HTTP);
    let (asked, _) = begin(&mut stage, 1);
    answer(&mut stage, &asked, r#"result ? {"sessionId":"S"}"#);
    stage.see("editor", "result 1 …");
    let client = stage.call(stage.tickets()[0]);
    stage.hang_up(client);
    prompt(&mut stage, "S");
    assert!(stage.reports.is_empty());
    let (asked, kinds) = begin(&mut stage, 2);
    assert_eq!(kinds, [Transport::Http, Transport::Http]);
    // And though it does not call in another session, or when it takes one up again: it can.
    answer(&mut stage, &asked, r#"result ? {"sessionId":"T"}"#);
    stage.see("editor", "result 2 …");
    prompt(&mut stage, "T");
    assert!(stage.reports.is_empty());
    assert_eq!(begin(&mut stage, 3).1, [Transport::Http; 3]);
}
