//! The watchdog: which component is considered stuck, and when.

use testkit::script::check_live;

#[test]
fn the_last_component_with_a_pending_request_is_considered_stuck() {
    check_live(
        "editor p1 agent",
        r##"
        timeout answer 1000
        editor > m 5 {}
        p1     < m #1 {}
        p1     > ~m 0 {}
        agent  < m #2 {}
        time 999
        time 1000
        p1     < error 0 …"agent 'agent' (command: run-agent) showed no activity for 1 s while it owed an answer to m; …
        "##,
    );
}

#[test]
fn the_timeout_of_a_proxy_starts_when_it_gets_its_answer() {
    check_live(
        "editor p1 agent",
        r##"
        timeout answer 1000
        editor > m 5 {}
        p1     < m #1 {}
        p1     > ~m 0 {}
        agent  < m #2 {}
        time 900
        agent  > result #2 {}
        p1     < result 0 {}
        time 1899
        time 1900
        editor < error 5 …"proxy 'p1' (command: run-p1) showed no activity for 1 s while it owed an answer to m; …
        finished failed: …
        "##,
    );
}

/// The agent sends a request to the proxy, which still waits for the agent.
#[test]
fn a_proxy_that_does_not_answer_the_agent_is_considered_stuck() {
    check_live(
        "editor p1 agent",
        r##"
        timeout answer 1000
        timeout prompt 5000
        editor > session/prompt 5 {}
        p1     < session/prompt #1 {}
        p1     > ~session/prompt 0 {}
        agent  < session/prompt #2 {}
        time 500
        agent  > _tool 7 {}
        p1     < ~_tool #3 {}
        time 1499
        time 1500
        editor < error 5 …"proxy 'p1' (command: run-p1) showed no activity for 1 s while it owed an answer to _tool; …
        agent  < error 7 …
        finished failed: …
        "##,
    );
}

/// Other requests have to be answered in time, even if the component sends messages.
#[test]
fn activity_restarts_the_timeout_of_prompts_only() {
    for work in ["session/prompt", "session/new", "session/load", "authenticate", "mcp/message"] {
        let script = r##"
        timeout answer 1000
        timeout prompt 2000
        editor > WORK 5 {}
        agent  < WORK #1 {}
        time 1900
        agent  > u
        editor < u
        time 3899
        time 3900
        editor < error 5 …showed no activity for 2 s while it owed an answer to WORK; …
        finished failed: …
        "##;
        check_live("editor agent", &script.replace("WORK", work));
    }
    check_live(
        "editor agent",
        r##"
        timeout answer 1000
        timeout prompt 2000
        editor > m 6 {}
        agent  < m #1 {}
        time 900
        agent  > u
        editor < u
        time 999
        time 1000
        editor < error 6 …showed no activity for 1 s while it owed an answer to m; …
        finished failed: …
        "##,
    );
}

#[test]
fn each_kind_of_request_has_its_own_timeout() {
    check_live(
        "editor agent",
        r##"
        timeout prompt 3000
        editor > m 6 {}
        agent  < m #1 {}
        time 100
        editor > session/prompt 7 {}
        agent  < session/prompt #2 {}
        time 200
        editor > session/prompt 8 {}
        agent  < session/prompt #3 {}
        time 3099
        time 3100
        editor < error 6 …
        editor < error 7 …
        editor < error 8 …
        finished failed: …showed no activity for 3 s while it owed an answer to session/prompt; … [more: conductor errors unresponsive]
        "##,
    );
}

#[test]
fn neither_the_editor_nor_a_component_that_waits_for_a_restart_is_stuck() {
    check_live(
        "editor p1 agent+restart",
        r##"
        timeout answer 1000
        editor > m 5 {}
        p1     < m #1 {}
        agent exits with signal 9
        warning about agent: …; it is being restarted
        p1     > ~m 0 {}
        agent restarts
        started agent
        agent  < initialize #2 …
        time 5000
        agent  > result #2 {"protocolVersion":1}
        warning about agent: agent 'agent' is running again
        agent  < m #3 {}
        time 5999
        agent  > result #3 {}
        p1     < result 0 {}
        p1     > result #1 {}
        editor < result 5 {}
        agent  > _ask 9 {}
        p1     < ~_ask #4 {}
        p1     > _ask 9 {}
        editor < _ask #5 {}
        time 60000
        "##,
    );
}

/// A component that has forwarded the cancellation can stop only after the next component.
#[test]
fn a_component_that_ignores_a_cancellation_is_considered_stuck() {
    let cancelled = r##"
        timeout cancel 1000
        editor > session/prompt 5 {"sessionId":"s"}
        p1     < session/prompt #1 {"sessionId":"s"}
        p1     > ~session/prompt 0 {"sessionId":"s"}
        agent  < session/prompt #2 {"sessionId":"s"}
        time 500
        editor > session/cancel {"sessionId":"s"}
        p1     < session/cancel {"sessionId":"s"}
        time 600
        p1     > ~session/cancel {"sessionId":"s"}
        agent  < session/cancel {"sessionId":"s"}
        time 1599
        "##;
    // The agent does not stop, and is killed. The core answers on its behalf. Then the proxy has one second.
    check_live(
        "editor p1 agent",
        &format!(
            "{cancelled}{}",
            r##"
            agent  > u
            p1     < ~u
            time 1600
            p1     < result 0 {"stopReason":"cancelled"}
            time 2000
            "##
        ),
    );
    // The agent stops in time, but the proxy does not.
    check_live(
        "editor p1 agent",
        &format!(
            "{cancelled}{}",
            r##"
            agent  > result #2 {"stopReason":"cancelled"}
            p1     < result 0 {"stopReason":"cancelled"}
            time 2499
            time 2500
            editor < result 5 {"stopReason":"cancelled"}
            finished failed: …
            "##
        ),
    );
}

#[test]
fn a_forwarded_prompt_of_another_session_does_not_delay_the_cancel_timeout() {
    check_live(
        "editor p1 agent",
        r##"
        timeout cancel 1000
        editor > session/prompt 5 {"sessionId":"s"}
        p1     < session/prompt #1 {"sessionId":"s"}
        editor > session/prompt 6 {"sessionId":"t"}
        p1     < session/prompt #2 {"sessionId":"t"}
        p1     > ~session/prompt 0 {"sessionId":"t"}
        agent  < session/prompt #3 {"sessionId":"t"}
        editor > session/cancel {"sessionId":"s"}
        p1     < session/cancel {"sessionId":"s"}
        time 999
        time 1000
        editor < result 5 {"stopReason":"cancelled"}
        editor < error 6 …
        finished failed: …
        "##,
    );
}

#[test]
fn initialize_and_replay_after_a_restart_have_timeouts() {
    let away = r##"
        editor > session/new 4 {}
        p1     < session/new #1 {}
        p1     > result #1 {"sessionId":"s"}
        editor < result 4 {"sessionId":"s"}
        p1 exits with signal 9
        warning about p1: …; it is being restarted
        p1 restarts
        started p1
        p1     < proxy/initialize #2 …
        time 59999
        p1     < $/cancel_request {"requestId":"none"}
    "##;
    check_live(
        "editor p1+restart agent",
        &format!(
            "{away}{}",
            r##"
            time 60000
            warning about p1: proxy 'p1' (command: run-p1) did not answer initialize within 60 s; …
            started p1
            p1     < proxy/initialize #3 …
            "##
        ),
    );
    check_live(
        "editor p1+restart agent",
        &format!(
            "{away}{}",
            r##"
            p1     > result #2 {"protocolVersion":1}
            p1     < session/new r:1 {}
            time 100000
            p1     > u
            editor < u
            time 159999
            time 160000
            warning about p1: …showed no activity for 60 s while it owed an answer to session/new…
            started p1
            p1     < proxy/initialize #3 …
            "##
        ),
    );
}
