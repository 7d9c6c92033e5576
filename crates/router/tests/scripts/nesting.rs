//! Scripts for a conductor that is a proxy of another one: the outer pipe is at both ends of its chain.

use testkit::script::{check, check_live};

/// Checklist 64, 65: plain messages enter at the first component, envelopes at the last. Messages that
/// leave at the agent's end are in one envelope.
#[test]
fn both_ends_of_a_nested_chain_are_on_the_outer_pipe() {
    check_live(
        "outer p1 p2",
        r##"
        outer  > session/prompt 0 {}
        p1     < session/prompt #1 {}
        p1     > ~session/prompt 0 {}
        p2     < session/prompt #2 {}
        p2     > ~session/prompt 0 {}
        outer  < ~session/prompt #3 {}
        outer  > ~session/update {"n":1}
        p2     < ~session/update {"n":1}
        p2     > session/update {"n":1}
        p1     < ~session/update {"n":1}
        p1     > session/update {"n":1}
        outer  < session/update {"n":1}
        outer  > ~fs/read_text_file 0 {}
        p2     < ~fs/read_text_file #4 {}
        p2     > result #4 {}
        outer  < result 0 {}
        outer  > result #3 {}
        p2     < result 0 {}
        "##,
    );
}

/// Checklist 1, 64: a nested conductor is initialized as a proxy, initializes its own proxies, and sends
/// `initialize` to its successor.
#[test]
fn a_nested_conductor_is_initialized_like_a_proxy() {
    check(
        "outer p1 p2",
        r##"
        outer  > proxy/initialize 0 {"protocolVersion":1,"_meta":{"a":1}}
        started p1 p2
        p1     < proxy/initialize #1 {"protocolVersion":1,"_meta":{"a":1,"mcp_acp_transport":true}}
        p1     > ~initialize 0 {"protocolVersion":1}
        p2     < proxy/initialize #2 {"protocolVersion":1,"_meta":{"mcp_acp_transport":true}}
        p2     > ~initialize 0 {"protocolVersion":1}
        outer  < ~initialize #3 {"protocolVersion":1}
        outer  > result #3 {"protocolVersion":1}
        p2     < result 0 {"protocolVersion":1}
        p2     > result #2 {"protocolVersion":1}
        p1     < result 0 {"protocolVersion":1}
        p1     > result #1 {"protocolVersion":1}
        outer  < result 0 {"protocolVersion":1}
        "##,
    );
}

/// Checklist 66.
#[test]
fn a_nested_conductor_without_components_passes_everything_through() {
    check(
        "outer",
        r##"
        outer > proxy/initialize 0 {"protocolVersion":1}
        outer < ~initialize #1 {"protocolVersion":1}
        outer > result #1 {"protocolVersion":1}
        outer < result 0 {"protocolVersion":1}
        outer > session/prompt 1 {}
        outer < ~session/prompt #2 {}
        outer > ~session/update {}
        outer < session/update {}
        outer > ~fs/read_text_file 2 {}
        outer < fs/read_text_file #3 {}
        outer > result #3 {}
        outer < result 2 {}
        outer > $/cancel_request {"requestId":1}
        outer < $/cancel_request {"requestId":"#2"}
        outer > result #2 {}
        outer < result 1 {}
        "##,
    );
}

/// Checklist 67, within one generation: messages are the same as in a flat chain, and envelopes are never
/// nested.
#[test]
fn three_nested_levels_behave_like_one_chain() {
    check(
        "editor a(b(c empty()) d) agent",
        r##"
        editor > initialize 0 {"protocolVersion":1}
        started a agent b d c empty
        c      < proxy/initialize #1 {"protocolVersion":1,"_meta":{"mcp_acp_transport":true}}
        c      > ~initialize 0 {"protocolVersion":1}
        d      < proxy/initialize #2 {"protocolVersion":1,"_meta":{"mcp_acp_transport":true}}
        d      > ~initialize 0 {"protocolVersion":1}
        agent  < initialize #2 {"protocolVersion":1}
        agent  > result #2 {"protocolVersion":1,"info":{}}
        d      < result 0 {"protocolVersion":1,"info":{}}
        d      > result #2 {"protocolVersion":1,"info":{}}
        c      < result 0 {"protocolVersion":1,"info":{}}
        c      > result #1 {"protocolVersion":1,"info":{}}
        editor < result 0 {"protocolVersion":1,"info":{}}
        agent  > ask 0
        d      < ~ask #4
        d      > ask 0
        c      < ~ask …
        c      > ask 0
        editor < ask …
        editor > note
        c      < note
        c      > ~note
        d      < note
        d      > ~note
        agent  < note
        "##,
    );
}

/// Checklist 68, 46, 30.
#[test]
fn messages_of_the_outer_conductor_are_checked() {
    check_live(
        "outer p1",
        r##"
        outer > ~proxy/successor 1 {"method":"x"}
        warning about outer: the outer conductor sent a bad line: …
        outer < error 1 {"code":-32600,"message":"an envelope must not be inside another envelope [more: conductor errors bad-message]","data":{"code":"bad-message"}}
        outer > ~proxy/successor {"method":"x"}
        warning about outer: the outer conductor sent a bad line: …
        outer > ~proxy/initialize 2 {"protocolVersion":1}
        warning about outer: the outer conductor sent a bad line: …
        outer < error 2 {"code":-32600,…
        outer > initialize 3 {"protocolVersion":1}
        warning about outer: the outer conductor sent a bad line: …
        outer < error 3 {"code":-32600,"message":"this is a proxy: greet it with proxy/initialize, or offer it the proxy capability [more: conductor errors bad-message]","data":{"code":"bad-message"}}
        outer > ~x 4
        p1    < ~x #1
        "##,
    );
}

/// Checklist 100: a crash inside a nested conductor reaches its neighbours on both sides.
#[test]
fn a_crash_inside_a_nested_conductor_is_reported_on_both_sides() {
    check_live(
        "editor inner(q1) agent",
        r##"
        editor > down 0
        q1     < down #1
        agent  > up 0
        q1     < ~up #2
        q1     > ~own 0
        agent  < own #3
        q1 exits with status 3: out of luck
        inner finished failed: proxy 'q1' (command: run-q1) exited with status 3; its last output: "out of luck"; … [more: conductor errors crashed]
        editor < error 0 {"code":-32603,"message":"proxy 'q1' (command: run-q1) exited with status 3 while answering down; …
        agent  < error 0 {"code":-32603,"message":"proxy 'q1' (command: run-q1) exited with status 3 while answering up; …
        finished failed: proxy 'inner' (command: run-inner) exited with status 1; … [more: conductor errors crashed]
        "##,
    );
}
