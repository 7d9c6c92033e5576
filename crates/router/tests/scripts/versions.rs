//! Scripts for the negotiation of the ACP version.

use testkit::script::check;

/// Checklist 12: the editor requests version 2 and the agent answers with 1.
#[test]
fn the_agent_may_answer_with_a_lower_version() {
    check(
        "editor p1 agent",
        r##"
        editor > initialize 0 {"protocolVersion":2,"info":{}}
        started p1 agent
        p1     < proxy/initialize #1 {"protocolVersion":2,"info":{},"_meta":{"mcp_acp_transport":true}}
        p1     > ~initialize 0 {"protocolVersion":2,"info":{}}
        agent  < initialize #2 {"protocolVersion":2,"info":{}}
        agent  > result #2 {"protocolVersion":1}
        p1     < result 0 {"protocolVersion":1}
        p1     > result #1 {"protocolVersion":1}
        editor < result 0 {"protocolVersion":1}
        "##,
    );
}

/// Checklist 13: the version is lowered to the highest one that can be relayed. Nothing else changes.
#[test]
fn an_unknown_higher_version_is_lowered() {
    check(
        "editor agent",
        r##"
        editor > initialize 0 {"new": 1.0, "protocolVersion" : 99,"more":[]}
        started agent
        agent  < initialize #1 {"new": 1.0, "protocolVersion" : 2,"more":[]}
        "##,
    );
}

/// Checklist 112.
#[test]
fn a_proxy_may_bring_the_whole_chain_down_to_v1() {
    check(
        "editor p1 agent",
        r##"
        editor > initialize 0 {"protocolVersion":2,"info":{}}
        started p1 agent
        p1     < proxy/initialize #1 {"protocolVersion":2,"info":{},"_meta":{"mcp_acp_transport":true}}
        p1     > ~initialize 0 {"protocolVersion":1}
        agent  < initialize #2 {"protocolVersion":1}
        agent  > result #2 {"protocolVersion":1}
        p1     < result 0 {"protocolVersion":1}
        p1     > result #1 {"protocolVersion":1}
        editor < result 0 {"protocolVersion":1}
        editor > ask null
        p1     < ask #3
        p1     > result #3 {}
        editor < result null {}
        "##,
    );
}

/// Checklist 110, 111: v2 does not allow null ids. All else is as in v1, including updates after the
/// answer.
#[test]
fn a_null_id_is_refused_in_v2() {
    check(
        "editor agent",
        r##"
        editor > initialize 0 {"protocolVersion":2,"info":{"name":"e"}}
        started agent
        agent  < initialize #1 {"protocolVersion":2,"info":{"name":"e"}}
        agent  > result #1 {"protocolVersion":2,"info":{"name":"a"}}
        editor < result 0 {"protocolVersion":2,"info":{"name":"a"}}
        editor > session/prompt null {}
        editor < error null {"code":-32600,"message":"a request id must not be null in ACP v2 [more: conductor errors not-initialized]","data":{"code":"not-initialized"}}
        agent  > ask null
        agent  < error null {"code":-32600,"message":"a request id must not be null in ACP v2 [more: conductor errors not-initialized]","data":{"code":"not-initialized"}}
        editor > session/prompt 1 {}
        agent  < session/prompt #2 {}
        agent  > result #2 {}
        editor < result 1 {}
        agent  > session/update {"update":{"sessionUpdate":"state_update","state":"running"}}
        editor < session/update {"update":{"sessionUpdate":"state_update","state":"running"}}
        agent  > session/update {"update":{"sessionUpdate":"state_update","state":"idle"}}
        editor < session/update {"update":{"sessionUpdate":"state_update","state":"idle"}}
        "##,
    );
}
