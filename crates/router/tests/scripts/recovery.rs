//! What becomes of the others while somebody is replaced, or left out.

use testkit::script::{check, check_live};

/// Checklist 104: it is greeted as the one before it was. What it sends to its successor is answered
/// from memory: the agent hears nothing.
#[test]
fn a_new_proxy_is_greeted_and_its_successor_is_not() {
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

/// A proxy that has never stood is not restarted: the chain ends. When it is left out, the next component is greeted.
#[test]
fn a_proxy_that_dies_before_it_passes_the_greeting_on() {
    let opening = r##"
        editor > initialize 0 {"protocolVersion":1}
        started p1 agent
        p1     < proxy/initialize #1 …
    "##;
    let fatal = r##"
        p1 exits with signal 9
        editor < error 0 …was killed by signal 9 (SIGKILL) while answering initialize…
        finished failed: proxy 'p1' (command: run-p1) was killed by signal 9 (SIGKILL)
    "##;
    check("editor p1+restart agent", &format!("{opening}{fatal}"));
    let left_out = r##"
        p1 exits with signal 9
        warning about p1: …; it is left out from now on
        agent  < initialize #2 {"protocolVersion":1}
        agent  > result #2 {"protocolVersion":1}
        editor < result 0 {"protocolVersion":1}
    "##;
    check("editor p1+bypass agent", &format!("{opening}{left_out}"));
}

#[test]
fn what_is_said_to_one_who_is_away_waits_in_order() {
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

/// Checklist 100: whoever waits for it is told, once, that the chain goes on.
#[test]
fn what_it_had_in_hand_is_answered_with_an_error() {
    check_live(
        "editor p1+restart agent",
        r##"
        editor > session/prompt 5 {"text":"hi"}
        p1     < session/prompt #1 {"text":"hi"}
        agent  > fs/read_text_file 6 {}
        p1     < ~fs/read_text_file #2 {}
        p1 exits with status 3: oh no
        warning about p1: …; it is being restarted
        editor < error 5 {"code":-32603,"message":"proxy 'p1' (command: run-p1) ended with status 3 while answering session/prompt; its last output: \"oh no\"; it crashed and is being restarted; send again","data":{"component":"p1","command":"run-p1","cause":"ended with status 3","status":3,"lastWords":["oh no"],"remedy":"it crashed and is being restarted; send again"}}
        agent  < error 6 …is being restarted…
        p1 restarts
        started p1
        p1     < proxy/initialize #3 …
        p1     > result #1 {"late":true}          # of the life before: nobody waits for it
        p1     > result #3 {"protocolVersion":1}
        warning about p1: proxy 'p1' is running again
        "##,
    );
}

/// The agent knows nothing of what happened, and its answer finds its way: behind what it said before.
#[test]
fn what_it_had_passed_on_is_answered_behind_what_was_said_before() {
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
fn a_barrier_that_is_refused_has_come_through() {
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
fn a_barrier_that_is_swallowed_is_not_waited_for_long() {
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

/// What it asked in words of its own, nobody waits for: whoever was asked is told.
#[test]
fn what_it_had_asked_for_itself_is_taken_back() {
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

/// Whether it had told the agent of it or not, the agent hears of a cancellation once.
#[test]
fn a_cancellation_outlives_who_was_to_pass_it_on() {
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
fn what_waits_can_be_cancelled() {
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
fn the_neighbours_of_one_who_is_left_out_are_neighbours() {
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
        warning about p2: …; it is left out from now on
        agent  < held #4 {}
        p1     < ~update
        p1     < result 0 {"late":1}
        agent  > more 6 {}
        p1     < ~more #5 {}
        "##,
    );
}

#[test]
fn who_dies_again_while_it_comes_back_loses_nothing_that_waits() {
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

/// What it asks while it learns is answered, behind what the one who answers said before.
#[test]
fn an_answer_does_not_overtake_what_waits_for_one_who_learns() {
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
fn a_chain_that_ends_answers_what_waits() {
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

/// Nobody is left to hear the answer to what a dead component has asked.
#[test]
fn a_question_that_waits_dies_with_its_asker() {
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

/// The question of the editor goes on with the copy that the dead proxy has passed on. That copy was
/// cancelled by the proxy, so it is not cancelled twice.
#[test]
fn a_copy_that_was_cancelled_is_not_cancelled_again() {
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
        warning about p1: …; it is left out from now on
        editor > $/cancel_request {"requestId":5}
        agent  > error #2 {"code":-32800,"message":"cancelled"}
        editor < error 5 {"code":-32800,"message":"cancelled"}
        "##,
    );
}

/// What a dead component asked for itself is withdrawn, unless it has done so.
#[test]
fn the_questions_of_a_dead_component_are_cancelled_once() {
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

/// The agent has answered `initialize`, and is not asked twice.
#[test]
fn a_proxy_that_dies_with_the_answer_to_the_greeting_is_left_out() {
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
        warning about p1: …; it is left out from now on
        editor < result 0 {"protocolVersion":1,"agentInfo":{}}
        editor > a
        agent  < a
        "##,
    );
}

/// Checklist 104: what a new proxy sends to its successor is answered as its own successor has answered.
#[test]
fn a_new_proxy_hears_what_its_own_successor_said() {
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
