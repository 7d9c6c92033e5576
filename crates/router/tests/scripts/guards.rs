//! Scripts for guards: how a nested chain announces one, and that no message skips it.

use testkit::script::{check, check_live};

/// The outer conductor must not bypass this chain.
#[test]
fn a_nested_chain_announces_that_it_contains_a_guard() {
    for (cast, result) in [
        ("outer p1!", r#"{"protocolVersion":1,"_meta":{"conductor":{"guards":true}}}"#),
        ("outer p1", r#"{"protocolVersion":1}"#),
    ] {
        let script = r##"
        outer  > proxy/initialize 0 {"protocolVersion":1}
        started p1
        p1     < proxy/initialize #1 …
        p1     > ~initialize 0 {"protocolVersion":1}
        outer  < ~initialize #2 {"protocolVersion":1}
        outer  > result #2 {"protocolVersion":1}
        p1     < result 0 {"protocolVersion":1}
        p1     > result #1 {"protocolVersion":1}
        outer  < result 0 RESULT
        "##;
        check(cast, &script.replace("RESULT", result));
    }
}

/// Only an outer conductor uses the flag.
#[test]
fn the_editor_gets_no_guard_flag() {
    check(
        "editor p1! agent",
        r##"
        editor > initialize 0 {"protocolVersion":1}
        started p1 agent
        p1     < proxy/initialize #1 …
        p1     > ~initialize 0 {"protocolVersion":1}
        agent  < initialize #2 {"protocolVersion":1}
        agent  > result #2 {"protocolVersion":1}
        p1     < result 0 …
        p1     > result #1 {"protocolVersion":1,"agentCapabilities":{}}
        editor < result 0 {"protocolVersion":1,"agentCapabilities":{}}
        "##,
    );
}

/// A component that announces a guard is treated as a guard: no message skips it. The flag is removed from
/// its answer. What the agent has at the same place reaches the editor.
#[test]
fn a_component_that_contains_a_guard_is_a_guard() {
    for (flag, delivered) in [
        ("true", "p1 < a #3 {}"),
        ("false", r##"p1 < _conductor/barrier #3 {"token":"#3","chain":"0"}"##),
    ] {
        let script = r##"
        p1 has crashed on a
        editor > initialize 0 {"protocolVersion":1}
        started p1 agent
        p1     < proxy/initialize #1 …
        p1     > ~initialize 0 {"protocolVersion":1}
        agent  < initialize #2 {"protocolVersion":1}
        agent  > result #2 {"protocolVersion":1,"_meta":{"conductor":{"guards":7},"x":1}}
        p1     < result 0 {"protocolVersion":1,"_meta":{"conductor":{},"x":1}}
        p1     > result #1 {"protocolVersion":1,"_meta":{"conductor":{"guards":FLAG},"x":1}}
        editor < result 0 {"protocolVersion":1,"_meta":{"conductor":{"guards":7},"x":1}}
        editor > a 1 {}
        DELIVERED
        "##;
        check("editor p1 agent", &script.replace("FLAG", flag).replace("DELIVERED", delivered));
    }
}

/// This holds whatever crashes are known and whatever the policy is, unless the user configures otherwise.
#[test]
fn no_message_skips_a_guard() {
    check_live(
        "editor p1! agent",
        r##"
        p1 has crashed on a
        editor > a 5 {}
        p1     < a #1 {}
        p1     > ~a 0 {}
        agent  < a #2 {}
        "##,
    );
}

/// While a guard is down all messages are held, including an answer that would go past it.
#[test]
fn an_answer_does_not_go_past_a_guard_that_is_down() {
    check_live(
        "editor p1!+restart agent",
        r##"
        editor > a 5 {}
        p1     < a #1 {}
        p1     > ~a 0 {}
        agent  < a #2 {}
        p1 exits with signal 9
        warning about p1: …; it is being restarted
        editor < error 5 …
        agent  < $/cancel_request {"requestId":"#2"}
        agent  > result #2 {}
        agent  > b
        p1 restarts
        started p1
        p1     < proxy/initialize #3 …
        p1     > result #3 {"protocolVersion":1}
        warning about p1: proxy 'p1' is running again
        p1     < ~b
        "##,
    );
}

/// A chain could not add the guard flag to such a result.
#[test]
fn an_initialize_result_that_is_not_an_object_is_an_error_for_a_proxy() {
    check(
        "editor p1 agent",
        r##"
        editor > initialize 0 {"protocolVersion":1}
        started p1 agent
        p1     < proxy/initialize #1 …
        p1     > ~initialize 0 {"protocolVersion":1}
        agent  < initialize #2 {"protocolVersion":1}
        agent  > result #2 [1]
        p1     < error 0 {"code":-32603,"message":"component 'agent' answered initialize with a result that is not a JSON object [more: conductor errors invalid-initialize-answer]","data":{"code":"invalid-initialize-answer"}}
        "##,
    );
    check(
        "outer p1",
        r##"
        outer  > proxy/initialize 0 {"protocolVersion":1}
        started p1
        p1     < proxy/initialize #1 …
        p1     > ~initialize 0 {"protocolVersion":1}
        outer  < ~initialize #2 {"protocolVersion":1}
        outer  > result #2 [1]
        p1     < error 0 {"code":-32603,"message":"the successor of this chain answered initialize with a result that is not a JSON object [more: conductor errors invalid-initialize-answer]","data":{"code":"invalid-initialize-answer"}}
        "##,
    );
    // Nothing is added to the answer of an agent without proxies.
    check(
        "editor agent",
        r##"
        editor > initialize 0 {"protocolVersion":1}
        started agent
        agent  < initialize #1 {"protocolVersion":1}
        agent  > result #1 [1]
        editor < result 0 [1]
        "##,
    );
}
