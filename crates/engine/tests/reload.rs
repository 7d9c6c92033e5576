//! A chain gets another configuration while it runs (issue 18, item 4).

use testkit::script::{check, check_live};

#[test]
fn a_proxy_that_joins_gets_the_handshake_and_the_sessions_and_no_other_component_notices() {
    check_live(
        "editor p1 agent",
        r##"
        editor > session/new 4 {}
        p1     < session/new #1 {}
        p1     > ~session/new 0 {"mcpServers":[]}
        agent  < session/new #2 {"mcpServers":[]}
        agent  > result #2 {"sessionId":"s","modes":{}}
        p1     < result 0 {"sessionId":"s","modes":{}}
        p1     > result #1 {"sessionId":"s"}
        editor < result 4 {"sessionId":"s"}
        reload p1 p2 agent
        reloaded
        started p2
        p2     < proxy/initialize #3 …
        p2     > ~initialize 7 {"protocolVersion":1}
        p2     < result 7 {"protocolVersion":1}
        editor > session/prompt 5 {"sessionId":"s"}
        p1     < session/prompt #4 {"sessionId":"s"}
        p1     > ~session/prompt 1 {"sessionId":"s"}
        p2     > result #3 {"protocolVersion":1}
        p2     < session/new r:1 {"mcpServers":[]}
        p2     > ~session/new 8 {"mcpServers":[]}
        p2     < result 8 {"sessionId":"s","modes":{}}
        p2     > result r:1 {"sessionId":"s"}
        warning about p2: proxy 'p2' has joined the chain
        p2     < session/prompt #5 {"sessionId":"s"}
        p2     > ~session/prompt 9 {"sessionId":"s"}
        agent  < session/prompt #6 {"sessionId":"s"}
        "##,
    );
}

#[test]
fn the_first_proxy_of_a_chain_gets_an_answer_that_the_core_writes() {
    check_live(
        "editor agent",
        r##"
        editor > session/new 4 {"cwd":"/"}
        agent  < session/new #1 {"cwd":"/"}
        agent  > result #1 {"sessionId":"s"}
        editor < result 4 {"sessionId":"s"}
        reload p1 agent
        reloaded
        started p1
        p1     < proxy/initialize #2 …
        p1     > result #2 {"protocolVersion":1}
        p1     < session/new r:1 {"cwd":"/"}
        p1     > ~session/new 8 {"cwd":"/"}
        p1     < result 8 {"sessionId":"s"}
        p1     > result r:1 {"sessionId":"s"}
        warning about p1: proxy 'p1' has joined the chain
        editor > a {}
        p1     < a {}
        "##,
    );
}

#[test]
fn a_proxy_that_leaves_is_routed_around() {
    check_live(
        "editor p1 p2 agent",
        r##"
        reload p2 agent
        reloaded
        editor > a 5 {}
        p2     < a #1 {}
        p2     > ~b 1 {}
        agent  < b #2 {}
        agent  > result #2 {}
        p2     < result 1 {}
        p2     > result #1 {}
        editor < result 5 {}
        agent  > u {}
        p2     < ~u {}
        p2     > u {}
        editor < u {}
        "##,
    );
}

#[test]
fn messages_take_the_new_order() {
    check_live(
        "editor p1 p2 p3 agent",
        r##"
        reload p3 p1 p2 agent
        reloaded
        editor > a {}
        p3     < a {}
        p3     > ~a {}
        p1     < a {}
        p1     > ~a {}
        p2     < a {}
        p2     > ~a {}
        agent  < a {}
        agent  > u 1 {}
        p2     < ~u #1 {}
        p2     > u 1 {}
        p1     < ~u #2 {}
        p1     > u 1 {}
        p3     < ~u #3 {}
        p3     > u 1 {}
        editor < u #4 {}
        "##,
    );
}

/// The seat of a component that comes back is the one that it had.
#[test]
fn a_component_that_left_can_come_back() {
    check_live(
        "editor p1 agent",
        r##"
        reload agent
        reloaded
        reload p1 agent
        reloaded
        started p1
        p1     < proxy/initialize #1 …
        p1     > result #1 {"protocolVersion":1}
        warning about p1: proxy 'p1' has joined the chain
        editor > a {}
        p1     < a {}
        "##,
    );
}

#[test]
fn a_reload_waits_until_the_chain_is_at_rest() {
    check_live(
        "editor p1 agent",
        r##"
        editor > session/prompt 5 {"sessionId":"s"}
        p1     < session/prompt #1 {"sessionId":"s"}
        reload p1 p2 agent
        p1     > ~session/prompt 0 {"sessionId":"s"}
        agent  < session/prompt #2 {"sessionId":"s"}
        agent  > result #2 {"stopReason":"end_turn"}
        p1     < result 0 {"stopReason":"end_turn"}
        reload agent
        p1     > result #1 {"stopReason":"end_turn"}
        editor < result 5 {"stopReason":"end_turn"}
        reloaded
        editor > a {}
        agent  < a {}
        "##,
    );
}

#[test]
fn a_component_with_another_configuration_is_restarted_in_its_seat() {
    check_live(
        "editor p1 agent",
        r##"
        editor > session/new 4 {}
        p1     < session/new #1 {}
        p1     > result #1 {"sessionId":"s"}
        editor < result 4 {"sessionId":"s"}
        reload p1* agent
        reloaded
        started p1
        p1     < proxy/initialize #2 …
        p1     > result #2 {"protocolVersion":1}
        p1     < session/new r:1 {}
        p1     > result r:1 {"sessionId":"s"}
        warning about p1: proxy 'p1' is running again
        "##,
    );
}

/// The agent in this test does not support `session/resume` or `session/load`.
#[test]
fn a_new_configuration_of_an_agent_that_would_lose_its_sessions_is_refused() {
    check_live(
        "editor p1 agent+restart",
        r##"
        editor > session/new 4 {}
        p1     < session/new #1 {}
        p1     > ~session/new 0 {}
        agent  < session/new #2 {}
        agent  > result #2 {"sessionId":"s"}
        p1     < result 0 {"sessionId":"s"}
        p1     > result #1 {"sessionId":"s"}
        editor < result 4 {"sessionId":"s"}
        reload agent*
        not reloaded: the configuration of agent 'agent' has changed, but agent 'agent' cannot resume its open session after a restart; close them, or start the chain again
        editor > a {}
        p1     < a {}
        "##,
    );
}

/// Also a guard: the chain has worked without it before.
#[test]
fn a_component_that_cannot_join_is_removed_again() {
    check_live(
        "editor p1 agent",
        r##"
        reload p1 p2+once agent
        reloaded
        started p2
        p2     < proxy/initialize #1 …
        editor > a 5 {}
        p1     < a #2 {}
        p1     > ~a 0 {}
        p2 exits with status 1: no such option
        reverted p2: it exited with status 1; its last output: "no such option"
        warning about p2: …it is bypassed from now on
        agent  < a #3 {}
        "##,
    );
}

#[test]
fn a_component_that_cannot_be_started_with_its_new_configuration_gets_the_previous_one() {
    for policy in ["p1+restart", "p1+once", "p1"] {
        check_live(
            &format!("editor {policy} agent"),
            r##"
            editor > session/new 4 {}
            p1     < session/new #1 {}
            p1     > result #1 {"sessionId":"s"}
            editor < result 4 {"sessionId":"s"}
            reload p1* agent
            reloaded
            started p1
            p1     < proxy/initialize #2 …
            editor > a 5 {}
            p1 exits with status 2: no such option
            reverted p1: it exited with status 2; its last output: "no such option"
            warning about p1: …it gets its previous configuration again
            p1 restarts
            started p1
            p1     < proxy/initialize #3 …
            p1     > result #3 {"protocolVersion":1}
            p1     < session/new r:1 {}
            p1     > result r:1 {"sessionId":"s"}
            warning about p1: proxy 'p1' is running again
            p1     < a #4 {}
            "##,
        );
    }
}

/// It fails again and again, with the configuration that it had before. Then its policy applies.
#[test]
fn after_the_trial_a_component_has_its_failure_policy_again() {
    check_live(
        "editor p1+once agent",
        r##"
        reload p1* agent
        reloaded
        started p1
        p1     < proxy/initialize #1 …
        p1 cannot start
        reverted p1: …
        warning about p1: …it gets its previous configuration again
        p1 restarts
        started p1
        p1     < proxy/initialize #2 …
        p1     > result #2 {"protocolVersion":1}
        warning about p1: proxy 'p1' is running again
        p1 exits with status 1
        warning about p1: …it is being restarted
        "##,
    );
}

/// It may be another program, which does not know the sessions.
#[test]
fn an_agent_that_cannot_resume_the_sessions_gets_its_previous_configuration() {
    let begin = r##"
        editor > initialize 0 {"protocolVersion":1}
        started agent
        agent  < initialize #1 {"protocolVersion":1}
        agent  > result #1 {"protocolVersion":1,"agentCapabilities":{"loadSession":true}}
        editor < result 0 {"protocolVersion":1,"agentCapabilities":{"loadSession":true}}
        editor > session/new 4 {"cwd":"/"}
        agent  < session/new #2 {"cwd":"/"}
        agent  > result #2 {"sessionId":"s"}
        editor < result 4 {"sessionId":"s"}
        reload agent*
        reloaded
        started agent
        agent  < initialize #3 {"protocolVersion":1}
        "##;
    let end = r##"
        agent restarts
        started agent
        agent  < initialize #4 {"protocolVersion":1}
        agent  > result #4 {"protocolVersion":1,"agentCapabilities":{"loadSession":true}}
        agent  < session/load r:NUMBER {"cwd":"/","sessionId":"s"}
        agent  > result r:NUMBER {}
        warning about agent: agent 'agent' is running again
        editor > session/prompt 5 {"sessionId":"s"}
        agent  < session/prompt #5 {"sessionId":"s"}
        "##;
    let has_none = r##"
        agent  > result #3 {"protocolVersion":1,"agentCapabilities":{}}
        reverted agent: it could not resume its sessions: it does not support that
        warning about agent: …it gets its previous configuration again
        "##;
    let refuses = r##"
        agent  > result #3 {"protocolVersion":1,"agentCapabilities":{"loadSession":true}}
        agent  < session/load r:1 {"cwd":"/","sessionId":"s"}
        agent  > error r:1 {"code":-32002,"message":"not found"}
        warning about agent: agent 'agent' could not resume session 's': not found
        reverted agent: it could not resume its sessions: session 's': not found
        warning about agent: …it gets its previous configuration again
        "##;
    for (fails, number) in [(has_none, "1"), (refuses, "2")] {
        let end = end.replace("NUMBER", number);
        check("editor agent+restart", &format!("{begin}{fails}{end}"));
    }
}

#[test]
fn an_agent_that_can_do_less_than_before_is_reported() {
    check(
        "editor agent+restart",
        r##"
        editor > initialize 0 {"protocolVersion":1}
        started agent
        agent  < initialize #1 {"protocolVersion":1}
        agent  > result #1 {"protocolVersion":1,"agentCapabilities":{"loadSession":true}}
        editor < result 0 {"protocolVersion":1,"agentCapabilities":{"loadSession":true}}
        reload agent*
        reloaded
        started agent
        agent  < initialize #2 {"protocolVersion":1}
        agent  > result #2 {"protocolVersion":1}
        note: agent 'agent' can no longer do this, and the editor learns it only when the chain is started again: loadSession
        warning about agent: agent 'agent' is running again
        "##,
    );
}

/// The components p1 and p2 hang. A newer configuration has the previous p1, and no p2.
#[test]
fn a_newer_configuration_need_not_wait_for_components_that_are_not_live() {
    check_live(
        "editor p1 agent",
        r##"
        reload p1* p2 agent
        reloaded
        started p1
        p1     < proxy/initialize #1 …
        started p2
        p2     < proxy/initialize #2 …
        editor > a {}
        reload p1* agent
        reverted p1: it was stopped by a command
        reverted p2: it was stopped by a command
        p1 restarts
        started p1
        p1     < proxy/initialize #3 …
        p1     > result #3 {"protocolVersion":1}
        warning about p1: proxy 'p1' is running again
        p1     < a {}
        reloaded
        started p1
        p1     < proxy/initialize #4 …
        "##,
    );
}

/// The components p1 and p2 do not answer.
#[test]
fn a_reload_can_end_components_that_hang() {
    check_live(
        "editor p1 p2 p3 agent",
        r##"
        editor > a 5 {}
        p1     < a #1 {}
        editor > b 6 {}
        p1     < b #2 {}
        p1     > ~b 0 {}
        p2     < b #3 {}
        reload p2* p3 agent now
        warning about p1: …it is bypassed from now on
        editor < error 5 …
        warning about p2: …it is being restarted
        editor < error 6 …
        p2 restarts
        started p2
        p2     < proxy/initialize #4 …
        p2     > result #4 {"protocolVersion":1}
        warning about p2: proxy 'p2' is running again
        reloaded
        started p2
        p2     < proxy/initialize #5 …
        "##,
    );
}

#[test]
fn a_configuration_that_waits_can_be_dropped() {
    check_live(
        "editor p1 agent",
        r##"
        editor > a 5 {}
        p1     < a #1 {}
        reload agent
        forget reload
        p1     > result #1 {}
        editor < result 5 {}
        editor > b {}
        p1     < b {}
        "##,
    );
}

#[test]
fn a_chain_that_has_not_started_begins_with_the_new_configuration() {
    check(
        "editor p1 agent",
        r##"
        reload p2 agent
        reloaded
        editor > initialize 0 {"protocolVersion":1}
        started p2 agent
        p2     < proxy/initialize #1 …
        "##,
    );
}

#[test]
fn a_reload_during_the_handshake_waits_for_its_end() {
    check(
        "editor p1 agent",
        r##"
        editor > initialize 0 {"protocolVersion":1}
        started p1 agent
        p1     < proxy/initialize #1 …
        reload agent
        p1     > ~initialize 0 {"protocolVersion":1}
        agent  < initialize #2 {"protocolVersion":1}
        agent  > result #2 {"protocolVersion":1}
        p1     < result 0 {"protocolVersion":1}
        p1     > result #1 {"protocolVersion":1}
        editor < result 0 {"protocolVersion":1}
        reloaded
        editor > a {}
        agent  < a {}
        "##,
    );
}

#[test]
fn in_proxy_mode_the_last_component_may_leave_and_another_may_follow_it() {
    check_live(
        "outer p1 p2",
        r##"
        reload p1 p3
        reloaded
        started p3
        p3     < proxy/initialize #1 …
        p3     > ~initialize 4 {"protocolVersion":1}
        p3     < result 4 {"protocolVersion":1}
        p3     > result #1 {"protocolVersion":1}
        warning about p3: proxy 'p3' has joined the chain
        outer  > a {}
        p1     < a {}
        p1     > ~a {}
        p3     < a {}
        p3     > ~a {}
        outer  < ~a {}
        outer  > ~u {}
        p3     < ~u {}
        p3     > u {}
        p1     < ~u {}
        "##,
    );
}

#[test]
fn several_components_join_at_once() {
    check_live(
        "editor p1 agent",
        r##"
        reload p2 p1 p3 agent
        reloaded
        started p2
        p2     < proxy/initialize #1 …
        started p3
        p3     < proxy/initialize #2 …
        p2     > ~initialize 0 {"protocolVersion":1}
        p2     < result 0 {"protocolVersion":1}
        p2     > result #1 {"protocolVersion":1}
        warning about p2: proxy 'p2' has joined the chain
        p3     > result #2 {"protocolVersion":1}
        warning about p3: proxy 'p3' has joined the chain
        editor > a {}
        p2     < a {}
        p2     > ~a {}
        p1     < a {}
        p1     > ~a {}
        p3     < a {}
        "##,
    );
}

#[test]
fn the_editor_shows_what_the_user_must_know_at_its_next_prompt_and_only_once() {
    check_live(
        "editor agent",
        r##"
        notify editor
        reload p1 agent and say the configuration has changed
        reloaded
        started p1
        p1     < proxy/initialize #1 …
        p1     > result #1 {"protocolVersion":1}
        warning about p1: proxy 'p1' has joined the chain
        editor > session/prompt 5 {"sessionId":"s"}
        editor < session/update {"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\n\n[conductor] the configuration has changed\n\n"},"_meta":{"conductor":{"component":"conductor"}}}}
        p1     < session/prompt #2 {"sessionId":"s"}
        p1     > result #2 {}
        editor < result 5 {}
        editor > session/prompt 6 {"sessionId":"s"}
        p1     < session/prompt #3 {"sessionId":"s"}
        "##,
    );
}
