//! Scripts for open requests when a peer crashes, disconnects or is silent, or when the chain shuts down.

use testkit::script::{check, check_live};

/// Checklist 99, 106: requests to the agent are answered with its crash report and a remedy. Requests of
/// the agent are dropped. Then the chain ends.
#[test]
fn requests_to_a_crashed_agent_get_its_crash_report() {
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
        p1     < error 0 {"code":-32603,"message":"agent 'agent' (command: run-agent) exited with status 3 while answering session/prompt; its last output: \"no API key\"; log in with the agent's own program, …","data":{"component":"agent","command":"run-agent","cause":"exited with status 3","status":3,"lastWords":["no API key"],"remedy":"…"}}
        p1     < error 1 {"code":-32603,"message":"agent 'agent' (command: run-agent) exited with status 3 while answering other; …
        p1     > result #4 {"nobody":"waits"}
        p1     > ~third 2 {}
        p1     < error 2 {"code":-32603,"message":"agent 'agent' (command: run-agent) exited with status 3; …
        p1     > ~note
        p1     > error #1 {"code":1,"message":"the agent is gone"}
        editor < error 5 {"code":1,"message":"the agent is gone"}
        finished failed: agent 'agent' (command: run-agent) exited with status 3; its last output: "no API key"; … [more: conductor errors crashed]
        "##,
    );
}

/// Checklist 100: toward both sides.
#[test]
fn both_neighbours_of_a_crashed_proxy_get_its_crash_report() {
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
        finished failed: proxy 'p2' (command: run-p2) was killed by signal 9 (SIGKILL); … [more: conductor errors crashed]
        "##,
    );
}

/// Checklist 99: an editor that waits for a component that still runs gets the rest of the grace period.
#[test]
fn requests_to_running_components_have_a_grace_period() {
    check_live(
        "editor p1 agent",
        r##"
        editor > session/prompt 5 {}
        p1     < session/prompt #1 {}
        agent exits with status 0
        editor > session/prompt 6 {}
        editor < error 6 {"code":-32603,"message":"agent 'agent' (command: run-agent) exited with status 0; …
        editor > note
        p1     < note
        time 1999
        time 2000
        editor < error 5 {"code":-32603,"message":"agent 'agent' (command: run-agent) exited with status 0; …
        finished failed: agent 'agent' (command: run-agent) exited with status 0; … [more: conductor errors crashed]
        "##,
    );
}

/// Checklist 101 (the router's part): the editor gets the error directly, not through the proxies.
#[test]
fn a_component_that_cannot_start_fails_the_handshake() {
    check(
        "editor p1 agent",
        r##"
        editor > initialize 0 {"protocolVersion":1}
        started p1 agent
        p1     < proxy/initialize #1 {"protocolVersion":1,"_meta":{"mcp_acp_transport":true}}
        agent cannot start: run-agent (command not found)
        editor < error 0 {"code":-32603,"message":"agent 'agent' (command: run-agent) could not be started: run-agent (command not found); run the command by hand to see what is wrong with it [more: conductor errors start-failed]","data":{"component":"agent","command":"run-agent","cause":"could not be started: run-agent (command not found)","lastWords":[],"remedy":"run the command by hand to see what is wrong with it","code":"start-failed"}}
        finished failed: agent 'agent' (command: run-agent) could not be started: run-agent (command not found); … [more: conductor errors start-failed]
        "##,
    );
}

/// Checklist 106: the chain waits for the answers to the editor's requests as long as a component can give
/// them.
#[test]
fn an_editor_that_disconnects_still_gets_its_answers() {
    check_live(
        "editor p1 agent",
        r##"
        editor > session/prompt 5 {}
        p1     < session/prompt #1 {}
        p1     > permission 0 {}
        editor < permission #2 {}
        editor closes its output
        p1     < error 0 {"code":-32603,"message":"the editor has disconnected [more: conductor errors shutting-down]","data":{"code":"shutting-down"}}
        p1     > permission 1 {}
        p1     < error 1 {"code":-32603,"message":"the editor has disconnected and cannot answer [more: conductor errors shutting-down]","data":{"code":"shutting-down"}}
        p1     > session/update {}
        editor < session/update {}
        p1     > ~ask 2
        agent  < ask #3
        p1     > result #1 {}
        editor < result 5 {}
        p1     < error 2 {"code":-32603,"message":"the conductor is shutting down; …
        finished clean
        "##,
    );
}

/// Checklist 102 (the router's part): without open requests the chain ends at once.
#[test]
fn an_idle_chain_ends_with_its_editor() {
    check_live("editor p1 agent", "editor closes its output\n finished clean");
    check_live("editor p1 agent", "stop\n finished clean");
}

/// The chain does not wait for an editor that has closed its input. The components get errors.
#[test]
fn the_chain_does_not_wait_for_an_editor_that_closed_its_input() {
    check_live(
        "editor agent",
        r##"
        editor > session/prompt 5 {}
        agent  < session/prompt #1 {}
        agent  > permission 0 {}
        editor < permission #2 {}
        editor closes its input
        agent  < error 0 {"code":-32603,"message":"the editor has disconnected [more: conductor errors shutting-down]","data":{"code":"shutting-down"}}
        finished clean
        "##,
    );
}

/// Checklist 106: every request is answered, and nothing is sent after the end.
#[test]
fn a_stopped_chain_answers_the_open_requests() {
    check_live(
        "editor p1 agent",
        r##"
        editor > session/prompt 5 {}
        p1     < session/prompt #1 {}
        p1     > ~session/prompt 0 {}
        agent  < session/prompt #2 {}
        stop
        editor > session/prompt 6 {}
        editor < error 6 {"code":-32603,"message":"the conductor is shutting down; …
        time 1999
        time 2000
        editor < error 5 {"code":-32603,"message":"the conductor is shutting down; …
        p1     < error 0 {"code":-32603,"message":"the conductor is shutting down; …
        finished clean
        agent  > result #2 {}
        editor > session/prompt 7 {}
        agent exits with status 1
        stop
        time 99999
        "##,
    );
}

/// Checklist 107: the component that must act next in the handshake has a timeout, and the error names it.
#[test]
fn a_handshake_timeout_names_the_silent_component() {
    check(
        "editor p1 agent",
        r##"
        editor > initialize 0 {"protocolVersion":1}
        started p1 agent
        p1     < proxy/initialize #1 {"protocolVersion":1,"_meta":{"mcp_acp_transport":true}}
        time 2000
        p1     < $/cancel_request {"requestId":"none"}        # a broken program may exit only when it reads another line
        time 59999
        p1     > ~initialize 0 {"protocolVersion":1}
        agent  < initialize #2 {"protocolVersion":1}
        time 119998
        time 119999
        p1     < error 0 {"code":-32603,"message":"agent 'agent' (command: run-agent) did not answer initialize within 60 s; …
        editor < error 0 {"code":-32603,"message":"agent 'agent' (command: run-agent) did not answer initialize within 60 s; …
        finished failed: agent 'agent' (command: run-agent) did not answer initialize within 60 s; … [more: conductor errors initialize-timeout]
        "##,
    );
}

/// Checklist 107: the timeout applies to each part of the handshake, not to all of it.
#[test]
fn a_handshake_may_take_longer_than_the_timeout_of_each_component() {
    check(
        "editor p1 agent",
        r##"
        editor > initialize 0 {"protocolVersion":1}
        started p1 agent
        p1     < proxy/initialize #1 {"protocolVersion":1,"_meta":{"mcp_acp_transport":true}}
        time 2000
        p1     < $/cancel_request {"requestId":"none"}
        time 59000
        p1     > ~initialize 0 {"protocolVersion":1}
        agent  < initialize #2 {"protocolVersion":1}
        time 118000
        agent  > result #2 {"protocolVersion":1}
        p1     < result 0 {"protocolVersion":1}
        time 177000
        p1     > result #1 {"protocolVersion":1}
        editor < result 0 {"protocolVersion":1}
        "##,
    );
}

/// Checklist 107: a proxy that has its successor's answer must answer next.
#[test]
fn a_handshake_timeout_names_a_proxy_that_withholds_the_answer() {
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
        finished failed: proxy 'p1' (command: run-p1) did not answer initialize within 60 s; … [more: conductor errors initialize-timeout]
        "##,
    );
}

/// Checklist 107: a proxy that owes no answer does not time out. It may send `initialize` to its successor
/// again.
#[test]
fn a_proxy_that_initializes_its_successor_again_does_not_time_out() {
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

/// Checklist 107: nor does a proxy that answered without waiting for its successor.
#[test]
fn a_proxy_that_answered_early_does_not_time_out() {
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
