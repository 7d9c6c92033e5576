//! Scripts for components that are restarted or bypassed.

use testkit::script::{check, check_live};

/// Checklist 104: the restarted proxy gets the same `initialize` as before. Its own `initialize` is
/// answered from memory, so the agent gets none.
#[test]
fn a_restarted_proxy_is_initialized_and_its_successor_is_not() {
    check_live(
        "editor p1+restart agent",
        r##"
        p1 exits with signal 9
        warning about p1: …; it is being restarted
        p1 restarts
        started p1
        p1     < proxy/initialize #1 {"protocolVersion":1,"_meta":{"mcp_acp_transport":true}}
        p1     > ~initialize 7 {"protocolVersion":1}
        p1     < result 7 {"protocolVersion":1}
        p1     > result #1 {"protocolVersion":1}
        warning about p1: proxy 'p1' is running again
        editor > session/new 5 {}
        p1     < session/new #2 {}
        "##,
    );
}

/// A proxy that never answered `initialize` is not restarted: the chain ends. If it is bypassed, the next
/// component gets `initialize`.
#[test]
fn a_proxy_that_crashes_before_it_forwards_initialize_ends_the_chain_or_is_bypassed() {
    let opening = r##"
        editor > initialize 0 {"protocolVersion":1}
        started p1 agent
        p1     < proxy/initialize #1 …
    "##;
    let fatal = r##"
        p1 exits with signal 9
        editor < error 0 …was killed by signal 9 (SIGKILL) while answering initialize…
        finished failed: proxy 'p1' (command: run-p1) was killed by signal 9 (SIGKILL); … [more: conductor errors exited-at-start]
    "##;
    check("editor p1+restart agent", &format!("{opening}{fatal}"));
    let left_out = r##"
        p1 exits with signal 9
        warning about p1: …; it is bypassed from now on
        agent  < initialize #2 {"protocolVersion":1}
        agent  > result #2 {"protocolVersion":1}
        editor < result 0 {"protocolVersion":1}
    "##;
    check("editor p1+bypass agent", &format!("{opening}{left_out}"));
}

#[test]
fn messages_for_a_component_that_is_down_are_held_in_order() {
    check_live(
        "editor p1+restart agent",
        r##"
        editor > session/new 4 {}
        p1     < session/new #1 {}
        p1     > result #1 {"sessionId":"s"}
        editor < result 4 {"sessionId":"s"}
        p1 exits with status 3
        warning about p1: …; it is being restarted
        editor > a 5 {}
        agent  > x
        editor > b
        p1 restarts
        started p1
        p1     < proxy/initialize #2 …
        agent  > y 6 {}
        p1     > result #2 {"protocolVersion":1}
        p1     < session/new r:1 {}
        editor > c
        p1     > result r:1 {"sessionId":"s"}
        warning about p1: proxy 'p1' is running again
        p1     < a #3 {}
        p1     < ~x
        p1     < b
        p1     < ~y #4 {}
        p1     < c
        "##,
    );
}

/// Checklist 100: the requester gets exactly one error, which says that the chain continues.
#[test]
fn requests_that_a_crashed_proxy_owed_are_answered_with_an_error() {
    check_live(
        "editor p1+restart agent",
        r##"
        editor > session/prompt 5 {"text":"hi"}
        p1     < session/prompt #1 {"text":"hi"}
        agent  > fs/read_text_file 6 {}
        p1     < ~fs/read_text_file #2 {}
        p1 exits with status 3: oh no
        warning about p1: …; it is being restarted
        editor < error 5 {"code":-32603,"message":"proxy 'p1' (command: run-p1) exited with status 3 while answering session/prompt; its last output: \"oh no\"; it crashed and is being restarted; send the request again [more: conductor errors crashed]","data":{"component":"p1","command":"run-p1","cause":"exited with status 3","status":3,"lastWords":["oh no"],"remedy":"it crashed and is being restarted; send the request again","code":"crashed"}}
        agent  < error 6 …is being restarted…
        p1 restarts
        started p1
        p1     < proxy/initialize #3 …
        p1     > result #1 {"late":true}          # from the previous process: dropped
        p1     > result #3 {"protocolVersion":1}
        warning about p1: proxy 'p1' is running again
        "##,
    );
}

/// The agent does not notice the crash. Its answer arrives after the messages that it sent before.
#[test]
fn a_forwarded_request_is_answered_after_the_messages_sent_before_the_answer() {
    check_live(
        "editor p1+restart agent",
        r##"
        editor > session/prompt 5 {"text":["hi"]}
        p1     < session/prompt #1 {"text":["hi"]}
        p1     > ~session/prompt 0 {"text":["more","hi"]}
        agent  < session/prompt #2 {"text":["more","hi"]}
        p1 exits with signal 9
        warning about p1: …; it is being restarted
        agent  > session/update {"n":1}
        agent  > result #2 {"done":true}
        p1 restarts
        started p1
        p1     < proxy/initialize #3 …
        p1     > result #3 {"protocolVersion":1}
        warning about p1: proxy 'p1' is running again
        p1     < ~session/update {"n":1}
        p1     < ~_conductor/barrier #4 {"token":"#4","chain":"0"}
        p1     > session/update {"n":1}
        editor < session/update {"n":1}
        p1     > _conductor/barrier 0 {"token":"#4","chain":"0"}
        p1     < result 0 {}
        editor < result 5 {"done":true}
        p1     > result #4 {}
        "##,
    );
}

#[test]
fn a_refused_barrier_releases_the_answer() {
    check_live(
        "editor p1+restart agent",
        r##"
        editor > a 5 {}
        p1     < a #1 {}
        p1     > ~a 0 {}
        agent  < a #2 {}
        p1 exits with signal 9
        warning about p1: …; it is being restarted
        p1 restarts
        started p1
        p1     < proxy/initialize #3 …
        p1     > result #3 {"protocolVersion":1}
        warning about p1: proxy 'p1' is running again
        agent  > result #2 {}
        p1     < ~_conductor/barrier #4 …
        p1     > error #4 {"code":-32601,"message":"what?"}
        editor < result 5 {}
        "##,
    );
}

#[test]
fn a_dropped_barrier_delays_the_answer_only_shortly() {
    check_live(
        "editor p1+restart agent",
        r##"
        editor > a 5 {}
        p1     < a #1 {}
        p1     > ~a 0 {}
        agent  < a #2 {}
        p1 exits with signal 9
        warning about p1: …; it is being restarted
        p1 restarts
        started p1
        p1     < proxy/initialize #3 …
        p1     > result #3 {"protocolVersion":1}
        warning about p1: proxy 'p1' is running again
        agent  > result #2 {}
        p1     < ~_conductor/barrier #4 …
        time 2000
        editor < result 5 {}
        p1     > _conductor/barrier 9 {"token":"#4","chain":"0"}
        p1     < result 9 {}
        "##,
    );
}

/// No peer waits for the answers to requests that the crashed component created itself, so they are
/// cancelled.
#[test]
fn requests_that_a_crashed_component_created_are_cancelled() {
    check_live(
        "editor p1+restart agent",
        r##"
        editor > session/prompt 5 {"text":"hi"}
        p1     < session/prompt #1 {"text":"hi"}
        p1     > ~session/prompt 0 {"sessionId":"s","text":"be kind"}
        agent  < session/prompt #2 {"sessionId":"s","text":"be kind"}
        p1     > session/request_permission 1 {}
        editor < session/request_permission #3 {}
        p1 exits with signal 9
        warning about p1: …; it is being restarted
        editor < error 5 …
        agent  < $/cancel_request {"requestId":"#2"}
        editor < $/cancel_request {"requestId":"#3"}
        agent  < session/cancel {"sessionId":"s"}
        agent  > result #2 {}
        editor > result #3 {}
        "##,
    );
}

/// The agent gets one cancellation, whether or not the crashed component had forwarded it.
#[test]
fn a_cancellation_reaches_the_agent_although_the_proxy_crashed() {
    check_live(
        "editor p1+restart agent",
        r##"
        editor > a 5 {}
        p1     < a #1 {}
        p1     > ~a 0 {}
        agent  < a #2 {}
        editor > $/cancel_request {"requestId":5}
        p1     < $/cancel_request {"requestId":"#1"}
        p1 exits with signal 9
        warning about p1: …; it is being restarted
        agent  < $/cancel_request {"requestId":"#2"}
        "##,
    );
}

#[test]
fn a_held_request_can_be_cancelled() {
    check_live(
        "editor p1+restart agent",
        r##"
        p1 exits with signal 9
        warning about p1: …; it is being restarted
        editor > a 5 {}
        editor > b 6 {}
        editor > $/cancel_request {"requestId":5}
        editor < error 5 {"code":-32800,"message":"the request was cancelled"}
        p1 restarts
        started p1
        p1     < proxy/initialize #1 …
        p1     > result #1 {"protocolVersion":1}
        warning about p1: proxy 'p1' is running again
        p1     < b #2 {}
        "##,
    );
}

#[test]
fn messages_go_past_a_bypassed_component() {
    check_live(
        "editor p1 p2+once agent",
        r##"
        p1     > ~passed 0 {"x":1}
        p2     < passed #1 {"x":1}
        p2     > ~passed 0 {"x":1}
        agent  < passed #2 {"x":1}
        p2 exits with signal 9
        warning about p2: …; it is being restarted
        p1     > ~held 1 {}
        agent  > update
        agent  > result #2 {"late":1}
        p2 restarts
        started p2
        p2     < proxy/initialize #3 …
        p2 exits with signal 9
        warning about p2: …; it is bypassed from now on
        agent  < held #4 {}
        p1     < ~update
        p1     < result 0 {"late":1}
        agent  > more 6 {}
        p1     < ~more #5 {}
        "##,
    );
}

#[test]
fn held_messages_survive_a_second_crash() {
    check_live(
        "editor p1+restart agent",
        r##"
        p1 exits with signal 9
        warning about p1: …; it is being restarted
        editor > a 5 {}
        p1 restarts
        started p1
        p1     < proxy/initialize #1 …
        p1     > ~own 0 {}
        agent  < own #2 {}
        p1 exits with signal 9
        warning about p1: …; it is being restarted
        agent  < $/cancel_request {"requestId":"#2"}
        p1 restarts
        started p1
        p1     < proxy/initialize #3 …
        p1     > result #1 {"stale":true}
        p1     > result #3 {"protocolVersion":1}
        warning about p1: proxy 'p1' is running again
        p1     < a #4 {}
        "##,
    );
}

/// A request that the component sends during replay is answered after the messages that the responder sent
/// before.
#[test]
fn an_answer_does_not_overtake_messages_held_during_replay() {
    check_live(
        "editor p1+restart agent",
        r##"
        editor > session/new 4 {}
        p1     < session/new #1 {}
        p1     > result #1 {"sessionId":"s"}
        editor < result 4 {"sessionId":"s"}
        p1 exits with signal 9
        warning about p1: …; it is being restarted
        editor > a 5 {}
        agent  > update
        p1 restarts
        started p1
        p1     < proxy/initialize #2 …
        p1     > result #2 {"protocolVersion":1}
        p1     < session/new r:1 {}
        p1     > ~own 0 {}
        agent  < own #3 {}
        agent  > result #3 {}
        p1     < ~update
        p1     < result 0 {}
        p1     > result r:1 {"sessionId":"s"}
        warning about p1: proxy 'p1' is running again
        p1     < a #4 {}
        "##,
    );
}

#[test]
fn held_requests_are_answered_at_shutdown() {
    check_live(
        "editor p1+restart agent",
        r##"
        editor > passed 4 {}
        p1     < passed #1 {}
        p1     > ~passed 0 {}
        agent  < passed #2 {}
        p1 exits with signal 9
        warning about p1: …; it is being restarted
        editor > a 5 {}
        agent  > result #2 {"late":1}
        stop
        time 2000
        editor < error 5 …
        editor < result 4 {"late":1}
        finished clean
        "##,
    );
}

/// The answer to a held request of a crashed component could not be delivered.
#[test]
fn a_held_request_is_dropped_when_its_requester_crashes() {
    check_live(
        "editor p1+restart agent+restart",
        r##"
        agent exits with signal 9
        warning about agent: …; it is being restarted
        p1     > ~a 0 {}
        editor > b 5 {}
        p1     < b #1 {}
        p1     > ~b 1 {}
        p1 exits with signal 9
        warning about p1: …; it is being restarted
        editor < error 5 …
        agent restarts
        started p1
        p1     < proxy/initialize #2 …
        started agent
        agent  < initialize #3 …
        agent  > result #3 {"protocolVersion":1}
        warning about agent: agent 'agent' is running again
        "##,
    );
}

/// The agent's answer to the forwarded copy answers the editor's request. The proxy had already cancelled
/// the copy, so it is not cancelled again.
#[test]
fn a_forwarded_request_is_not_cancelled_twice() {
    check_live(
        "editor p1+bypass agent",
        r##"
        editor > a 5 {}
        p1     < a #1 {}
        p1     > ~a 0 {}
        agent  < a #2 {}
        p1     > $/cancel_request {"requestId":0}
        agent  < $/cancel_request {"requestId":"#2"}
        p1 exits with signal 9
        warning about p1: …; it is bypassed from now on
        editor > $/cancel_request {"requestId":5}
        agent  > error #2 {"code":-32800,"message":"cancelled"}
        editor < error 5 {"code":-32800,"message":"cancelled"}
        "##,
    );
}

/// Requests that a crashed component created are cancelled, unless the component has done so.
#[test]
fn requests_of_a_crashed_component_are_cancelled_once() {
    check_live(
        "editor p1+restart agent",
        r##"
        p1     > ~a 0 {}
        agent  < a #1 {}
        p1     > ~b 1 {}
        agent  < b #2 {}
        p1     > $/cancel_request {"requestId":0}
        agent  < $/cancel_request {"requestId":"#1"}
        p1 exits with signal 9
        warning about p1: …; it is being restarted
        agent  < $/cancel_request {"requestId":"#2"}
        agent  > result #1 {}
        agent  > result #2 {}
        "##,
    );
}

/// The agent has answered `initialize` and does not get it again.
#[test]
fn a_proxy_that_crashes_with_the_answer_to_initialize_is_bypassed() {
    check(
        "editor p1+bypass agent",
        r##"
        editor > initialize 0 {"protocolVersion":1}
        started p1 agent
        p1     < proxy/initialize #1 …
        p1     > ~initialize 0 {"protocolVersion":1}
        agent  < initialize #2 {"protocolVersion":1}
        agent  > result #2 {"protocolVersion":1,"agentInfo":{}}
        p1     < result 0 {"protocolVersion":1,"agentInfo":{}}
        p1 exits with signal 9
        warning about p1: …; it is bypassed from now on
        editor < result 0 {"protocolVersion":1,"agentInfo":{}}
        editor > a
        agent  < a
        "##,
    );
}

/// Checklist 104: the `initialize` of a restarted proxy gets the answer of that proxy's own successor.
#[test]
fn a_restarted_proxy_gets_the_answer_of_its_own_successor() {
    check(
        "editor p1+restart p2 agent",
        r##"
        editor > initialize 0 {"protocolVersion":1}
        started p1 p2 agent
        p1     < proxy/initialize #1 …
        p1     > ~initialize 0 {"protocolVersion":1}
        p2     < proxy/initialize #2 …
        p2     > ~initialize 0 {"protocolVersion":1}
        agent  < initialize #3 …
        agent  > result #3 {"protocolVersion":1,"of":"agent"}
        p2     < result 0 {"protocolVersion":1,"of":"agent"}
        p2     > result #2 {"protocolVersion":1,"of":"p2"}
        p1     < result 0 {"protocolVersion":1,"of":"p2"}
        p1     > result #1 {"protocolVersion":1}
        editor < result 0 {"protocolVersion":1}
        p1 exits with signal 9
        warning about p1: …; it is being restarted
        p1 restarts
        started p1
        p1     < proxy/initialize #4 …
        p1     > ~initialize 7 {"protocolVersion":1}
        p1     < result 7 {"protocolVersion":1,"of":"p2"}
        "##,
    );
}
