//! Turns in ACP version 2: the answer to a prompt only accepts it, and the turn is active until the session is idle.

use testkit::script::check;

/// Checks a script that starts after the handshake of a chain in ACP version 2.
fn check_v2(cast: &str, script: &str) {
    let (hello, v2) = (
        r#"{"protocolVersion":2,"info":{}}"#,
        r#"{"protocolVersion":2,"info":{},"capabilities":{}}"#,
    );
    let greeting = match cast.contains("p1") {
        true => format!(
            "editor > initialize 0 {hello}\nstarted p1 agent\np1 < proxy/initialize #1 …\n\
             p1 > ~initialize 0 {hello}\nagent < initialize #2 …\nagent > result #2 {v2}\n\
             p1 < result 0 …\np1 > result #1 {v2}\neditor < result 0 …\n"
        ),
        false => format!(
            "editor > initialize 0 {hello}\nstarted agent\nagent < initialize #1 …\n\
             agent > result #1 {v2}\neditor < result 0 …\n"
        ),
    };
    let mut text = String::new();
    for line in script.lines() {
        // `agent > state idle` stands for the update with this state of session s.
        let words: Vec<&str> = line.split_whitespace().collect();
        text += &match words[..] {
            [name, direction, "state", state] => update(name, direction, "", state),
            [name, direction, "~state", state] => update(name, direction, "~", state),
            _ => line.to_owned(),
        };
        text.push('\n');
    }
    // Timeouts come before the handshake.
    let (limits, rest): (Vec<&str>, Vec<&str>) =
        text.lines().partition(|line| line.trim().starts_with("limit "));
    check(cast, &format!("{}\n{greeting}{}", limits.join("\n"), rest.join("\n")));
}

fn update(name: &str, direction: &str, mark: &str, state: &str) -> String {
    format!(
        r#"{name} {direction} {mark}session/update {{"sessionId":"s","update":{{"sessionUpdate":"state_update","state":"{state}"}}}}"#
    )
}

#[test]
fn a_component_that_is_silent_in_a_turn_is_considered_stuck() {
    check_v2(
        "editor agent",
        r##"
        timeout prompt 1000
        editor > session/prompt 5 {"sessionId":"s"}
        agent  < session/prompt #2 {"sessionId":"s"}
        agent  > result #2 {}
        editor < result 5 {}
        time 900
        agent  > state running
        editor < state running
        time 1899
        time 1900
        editor < session/update {"sessionId":"s","update":{"sessionUpdate":"state_update","state":"idle","stopReason":"error","error":{"code":-32603,"message":"agent 'agent' (command: run-agent) showed no activity for 1 s while it owed an answer to session/prompt [more: conductor errors unresponsive]","data":{"code":"unresponsive"}}}}
        finished failed: …
        "##,
    );
}

#[test]
fn there_is_no_deadline_after_a_turn_has_ended_or_its_session_is_closed() {
    for end in [
        "agent > state idle\neditor < state idle",
        "editor > session/close 6 {\"sessionId\":\"s\"}\nagent < session/close #3 {\"sessionId\":\"s\"}\n\
         agent > result #3 {}\neditor < result 6 {}",
    ] {
        let script = r##"
        timeout prompt 1000
        timeout cancel 1000
        editor > session/prompt 5 {"sessionId":"s"}
        agent  < session/prompt #2 {"sessionId":"s"}
        agent  > result #2 {}
        editor < result 5 {}
        END
        time 60000
        "##;
        check_v2("editor agent", &script.replace("END", end));
    }
}

#[test]
fn the_last_component_with_an_active_turn_is_considered_stuck() {
    let turn = r##"
        timeout prompt 1000
        timeout cancel 700
        editor > session/prompt 5 {"sessionId":"s"}
        p1     < session/prompt #3 {"sessionId":"s"}
        time 100
        p1     > ~session/prompt 1 {"sessionId":"s"}
        agent  < session/prompt #4 {"sessionId":"s"}
        agent  > result #4 {}
        p1     < result 1 {}
        p1     > result #3 {}
        editor < result 5 {}
    "##;
    let silent = r##"
        time 1099
        time 1100
        p1     < ~session/update {"sessionId":"s","update":{"sessionUpdate":"state_update","state":"idle","stopReason":"error","error":{"code":-32603,"message":"agent 'agent' …
        finished failed: …
    "##;
    check_v2("editor p1 agent", &format!("{turn}{silent}"));
    // The turn of the agent has ended. Now the timeout of the proxy starts.
    let done = r##"
        time 600
        agent  > state idle
        p1     < ~state idle
        time 1599
        time 1600
        editor < session/update {"sessionId":"s","update":{"sessionUpdate":"state_update","state":"idle","stopReason":"error","error":{"code":-32603,"message":"proxy 'p1' …
        finished failed: …
    "##;
    check_v2("editor p1 agent", &format!("{turn}{done}"));
    // A cancelled turn ends as cancelled, whichever component is stuck.
    let cancelled = r##"
        time 300
        editor > session/cancel {"sessionId":"s"}
        p1     < session/cancel {"sessionId":"s"}
        p1     > ~session/cancel {"sessionId":"s"}
        agent  < session/cancel {"sessionId":"s"}
        time 999
        time 1000
        p1     < ~session/update {"sessionId":"s","update":{"sessionUpdate":"state_update","state":"idle","stopReason":"cancelled"}}
        finished failed: …
    "##;
    check_v2("editor p1 agent", &format!("{turn}{cancelled}"));
}

#[test]
fn a_component_with_a_pending_request_in_its_turn_is_not_stuck() {
    check_v2(
        "editor agent",
        r##"
        timeout prompt 1000
        editor > session/prompt 5 {"sessionId":"s"}
        agent  < session/prompt #2 {"sessionId":"s"}
        agent  > result #2 {}
        editor < result 5 {}
        time 500
        agent  > session/request_permission 8 {"sessionId":"s"}
        editor < session/request_permission #3 {"sessionId":"s"}
        time 50000
        editor > result #3 {}
        agent  < result 8 {}
        time 50999
        time 51000
        editor < session/update …"stopReason":"error"…
        finished failed: …
        "##,
    );
}

/// Unless a later component continues the turn.
#[test]
fn the_failure_of_a_component_ends_its_turns() {
    let turn = r##"
        editor > session/prompt 5 {"sessionId":"s"}
        p1     < session/prompt #3 {"sessionId":"s"}
        p1     > ~session/prompt 1 {"sessionId":"s"}
        agent  < session/prompt #4 {"sessionId":"s"}
        agent  > result #4 {}
        p1     < result 1 {}
        p1     > result #3 {}
        editor < result 5 {}
    "##;
    let agent = r##"
        agent exits with signal 9
        warning about agent: …; it is being restarted
        p1     < ~session/update …"state":"idle","stopReason":"error"…
    "##;
    check_v2("editor p1 agent+restart", &format!("{turn}{agent}"));
    let proxy = r##"
        p1 exits with signal 9
        warning about p1: …; it is bypassed from now on
        agent  > state idle
        editor < state idle
    "##;
    check_v2("editor p1+bypass agent", &format!("{turn}{proxy}"));
    let stops = r##"
        p1 exits with signal 9
        editor < session/update …"state":"idle","stopReason":"error"…
        finished failed: …
    "##;
    check_v2("editor p1 agent", &format!("{turn}{stops}"));
}

/// Even if the agent confirms the requested version 2.
#[test]
fn a_prompt_of_version_1_ends_with_its_answer() {
    check(
        "editor agent",
        r##"
        timeout prompt 1000
        editor > initialize 0 {"protocolVersion":2,"info":{}}
        started agent
        agent  < initialize #1 …
        agent  > result #1 {"protocolVersion":2,"agentCapabilities":{}}
        editor < result 0 …
        editor > session/prompt 5 {"sessionId":"s"}
        agent  < session/prompt #2 {"sessionId":"s"}
        agent  > result #2 {}
        editor < result 5 {}
        time 60000
        "##,
    );
}
