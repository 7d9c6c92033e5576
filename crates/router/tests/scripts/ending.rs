//! What becomes of open questions when somebody dies, leaves, is silent, or all of it ends.

use testkit::script::{check, check_live};

/// Checklist 99, 106: who waits for the agent is told why it waits in vain, with the agent's last words
/// and a remedy; what the agent had asked is forgotten; then the chain ends.
#[test]
fn when_the_agent_dies_its_askers_are_told() {
    check_live(
        "editor p1 agent",
        r##"
        editor > session/prompt 5 {}
        p1     < session/prompt #1 {}
        p1     > ~session/prompt 0 {}
        agent  < session/prompt #2 {}
        p1     > ~other 1 {}
        agent  < other #3 {}
        agent  > fs/read_text_file 0 {}
        p1     < ~fs/read_text_file #4 {}
        agent exits with status 3: no API key
        p1     < error 0 {"code":-32603,"message":"agent 'agent' (command: run-agent) ended with status 3 while answering session/prompt; its last output: \"no API key\"; run the command by hand …","data":{"component":"agent","command":"run-agent","cause":"ended with status 3","status":3,"lastWords":["no API key"],"remedy":"…"}}
        p1     < error 1 {"code":-32603,"message":"agent 'agent' (command: run-agent) ended with status 3 while answering other; …
        p1     > result #4 {"nobody":"waits"}
        p1     > ~third 2 {}
        p1     < error 2 {"code":-32603,"message":"agent 'agent' (command: run-agent) ended with status 3; …
        p1     > ~note
        p1     > error #1 {"code":1,"message":"the agent is gone"}
        editor < error 5 {"code":1,"message":"the agent is gone"}
        finished failed: agent 'agent' (command: run-agent) ended with status 3; its last output: "no API key"
        "##,
    );
}

/// Checklist 100: towards both sides.
#[test]
fn when_a_proxy_dies_both_neighbours_are_told() {
    check_live(
        "editor p1 p2 agent",
        r##"
        p1     > ~down 0
        p2     < down #1
        agent  > up 0
        p2     < ~up #2
        p2     > own 0
        p1     < ~own #3
        p2 exits with signal 9
        p1     < error 0 {"code":-32603,"message":"proxy 'p2' (command: run-p2) was killed by signal 9 (SIGKILL) while answering down; …"signal":9…
        agent  < error 0 {"code":-32603,"message":"proxy 'p2' (command: run-p2) was killed by signal 9 (SIGKILL) while answering up; …
        finished failed: proxy 'p2' (command: run-p2) was killed by signal 9 (SIGKILL)
        "##,
    );
}

/// Checklist 99: an editor that waits for somebody in between gets what is left of the chain's time.
#[test]
fn who_waits_for_the_living_is_given_some_time() {
    check_live(
        "editor p1 agent",
        r##"
        editor > session/prompt 5 {}
        p1     < session/prompt #1 {}
        agent exits with status 0
        editor > session/prompt 6 {}
        editor < error 6 {"code":-32603,"message":"agent 'agent' (command: run-agent) ended with status 0; …
        editor > note
        p1     < note
        time 1999
        time 2000
        editor < error 5 {"code":-32603,"message":"agent 'agent' (command: run-agent) ended with status 0; …
        finished failed: agent 'agent' (command: run-agent) ended with status 0
        "##,
    );
}

/// Checklist 101 (the router's part): the editor hears of it at once, whatever the proxies make of it.
#[test]
fn a_component_that_cannot_start_fails_the_handshake() {
    check(
        "editor p1 agent",
        r##"
        editor > initialize 0 {"protocolVersion":1}
        started p1 agent
        p1     < proxy/initialize #1 {"protocolVersion":1,"_meta":{"mcp_acp_transport":true}}
        agent cannot start: run-agent (command not found)
        editor < error 0 {"code":-32603,"message":"agent 'agent' (command: run-agent) could not be started: run-agent (command not found); check that …
        finished failed: agent 'agent' (command: run-agent) could not be started: run-agent (command not found)
        "##,
    );
}

/// Checklist 106: the editor's questions are waited for, as long as there is somebody to answer them.
#[test]
fn an_editor_that_leaves_still_gets_its_answers() {
    check_live(
        "editor p1 agent",
        r##"
        editor > session/prompt 5 {}
        p1     < session/prompt #1 {}
        p1     > permission 0 {}
        editor < permission #2 {}
        editor closes its output
        p1     < error 0 {"code":-32603,"message":"the editor has left"}
        p1     > permission 1 {}
        p1     < error 1 {"code":-32603,"message":"the editor has left and can answer nothing"}
        p1     > session/update {}
        editor < session/update {}
        p1     > ~ask 2
        agent  < ask #3
        p1     > result #1 {}
        editor < result 5 {}
        p1     < error 2 {"code":-32603,"message":"the conductor is ending; …
        finished clean
        "##,
    );
}

/// Checklist 102 (the router's part): with nothing open, the end is at once.
#[test]
fn an_idle_chain_ends_with_its_editor() {
    check_live("editor p1 agent", "editor closes its output\n finished clean");
    check_live("editor p1 agent", "stop\n finished clean");
}

/// An editor that does not even read is not waited for; the components are told.
#[test]
fn an_editor_that_hangs_up_is_not_waited_for() {
    check_live(
        "editor agent",
        r##"
        editor > session/prompt 5 {}
        agent  < session/prompt #1 {}
        agent  > permission 0 {}
        editor < permission #2 {}
        editor closes its input
        agent  < error 0 {"code":-32603,"message":"the editor has left"}
        finished clean
        "##,
    );
}

/// Checklist 106: nobody is left without an answer, and after the end nothing is said.
#[test]
fn a_chain_that_is_stopped_answers_what_is_open() {
    check_live(
        "editor p1 agent",
        r##"
        editor > session/prompt 5 {}
        p1     < session/prompt #1 {}
        p1     > ~session/prompt 0 {}
        agent  < session/prompt #2 {}
        stop
        editor > session/prompt 6 {}
        editor < error 6 {"code":-32603,"message":"the conductor is ending; …
        time 1999
        time 2000
        editor < error 5 {"code":-32603,"message":"the conductor is ending; …
        p1     < error 0 {"code":-32603,"message":"the conductor is ending; …
        finished clean
        agent  > result #2 {}
        editor > session/prompt 7 {}
        agent exits with status 1
        stop
        time 99999
        "##,
    );
}

/// Checklist 107: whose turn it is in the handshake has so long, and is named.
#[test]
fn a_component_that_never_answers_its_handshake_is_named() {
    check(
        "editor p1 agent",
        r##"
        editor > initialize 0 {"protocolVersion":1}
        started p1 agent
        p1     < proxy/initialize #1 {"protocolVersion":1,"_meta":{"mcp_acp_transport":true}}
        time 2000
        p1     < $/cancel_request {"requestId":"none"}        # some programs notice only now that they are broken
        time 59999
        p1     > ~initialize 0 {"protocolVersion":1}
        agent  < initialize #2 {"protocolVersion":1}
        time 119998
        time 119999
        p1     < error 0 {"code":-32603,"message":"agent 'agent' (command: run-agent) did not answer initialize within 60 s; …
        editor < error 0 {"code":-32603,"message":"agent 'agent' (command: run-agent) did not answer initialize within 60 s; …
        finished failed: agent 'agent' (command: run-agent) did not answer initialize within 60 s
        "##,
    );
}

/// Checklist 107: a proxy that has its successor's answer has its turn again.
#[test]
fn a_proxy_that_keeps_the_answer_to_itself_is_named() {
    check(
        "editor p1 agent",
        r##"
        editor > initialize 0 {"protocolVersion":1}
        started p1 agent
        p1     < proxy/initialize #1 {"protocolVersion":1,"_meta":{"mcp_acp_transport":true}}
        p1     > ~initialize 0 {"protocolVersion":1}
        agent  < initialize #2 {"protocolVersion":1}
        agent  > result #2 {"protocolVersion":1}
        p1     < result 0 {"protocolVersion":1}
        time 60000
        editor < error 0 {"code":-32603,"message":"proxy 'p1' (command: run-p1) did not answer initialize within 60 s; …
        finished failed: proxy 'p1' (command: run-p1) did not answer initialize within 60 s
        "##,
    );
}

/// Checklist 107: a proxy that owes no answer is not blamed for one. It may greet its successor again
/// by itself.
#[test]
fn a_proxy_that_initializes_its_successor_again_owes_nothing() {
    check_live(
        "editor p1 agent",
        r##"
        p1     > ~initialize 1 {"protocolVersion":1}
        agent  < initialize #1 {"protocolVersion":1}
        agent  > result #1 {"protocolVersion":1}
        p1     < result 1 {"protocolVersion":1}
        time 60000
        editor > note
        p1     < note
        "##,
    );
}

/// Checklist 107: nor one that has answered already, without waiting for its successor.
#[test]
fn a_proxy_that_answered_early_owes_nothing() {
    check(
        "editor p1 agent",
        r##"
        editor > initialize 0 {"protocolVersion":1}
        started p1 agent
        p1     < proxy/initialize #1 {"protocolVersion":1,"_meta":{"mcp_acp_transport":true}}
        p1     > ~initialize 0 {"protocolVersion":1}
        agent  < initialize #2 {"protocolVersion":1}
        p1     > result #1 {"protocolVersion":1}
        editor < result 0 {"protocolVersion":1}
        agent  > result #2 {"protocolVersion":1}
        p1     < result 0 {"protocolVersion":1}
        time 60000
        editor > note
        p1     < note
        "##,
    );
}
