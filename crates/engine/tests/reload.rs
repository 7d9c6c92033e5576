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
        warning about p2: …it is being restarted
        p2 restarts
        started p2
        p2     < proxy/initialize #3 …
        p2 exits with status 1: no such option
        warning about p2: …it is bypassed from now on
        agent  < a #4 {}
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

/// The runner of scripts passes this notice with each reload.
#[test]
fn the_editor_shows_what_the_user_must_know_at_its_next_prompt_and_only_once() {
    check_live(
        "editor agent",
        r##"
        notify editor
        reload p1 agent
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
