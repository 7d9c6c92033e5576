//! Scripts for `initialize`, which goes down the chain and whose answer comes back.

use testkit::script::{check, check_live};

/// Checklist 1, 2, 3, 5, 11, 14: each proxy gets its handshake once, in order, after its predecessor has
/// forwarded it. The agent gets a plain one. Nothing is added or removed.
#[test]
fn each_component_is_initialized_when_its_predecessor_forwards_initialize() {
    check(
        "editor p1 p2 p3 agent",
        r##"
        editor > initialize 0 {"protocolVersion":1,"clientCapabilities":{"x": 1.0},"_y":[]}
        started p1 p2 p3 agent
        p1     < proxy/initialize #1 {"protocolVersion":1,"clientCapabilities":{"x": 1.0},"_y":[],"_meta":{"mcp_acp_transport":true}}
        p1     > ~initialize 0 {"protocolVersion":1,"by":"p1"}
        p2     < proxy/initialize #2 {"protocolVersion":1,"by":"p1","_meta":{"mcp_acp_transport":true}}
        p2     > ~initialize 0 {"protocolVersion":1,"by":"p2"}
        p3     < proxy/initialize #3 {"protocolVersion":1,"by":"p2","_meta":{"mcp_acp_transport":true}}
        p3     > ~initialize 0 {"protocolVersion":1,"by":"p3"}
        agent  < initialize #4 {"protocolVersion":1,"by":"p3"}
        agent  > result #4 {"protocolVersion":1,"agentCapabilities":{}}
        p3     < result 0 {"protocolVersion":1,"agentCapabilities":{}}
        p3     > result #3 {"protocolVersion":1,"agentCapabilities":{}}
        p2     < result 0 {"protocolVersion":1,"agentCapabilities":{}}
        p2     > result #2 {"protocolVersion":1,"agentCapabilities":{}}
        p1     < result 0 {"protocolVersion":1,"agentCapabilities":{}}
        p1     > result #1 {"protocolVersion":1,"agentCapabilities":{}}
        editor < result 0 {"protocolVersion":1,"agentCapabilities":{}}
        "##,
    );
}

/// Checklist 4.
#[test]
fn without_proxies_initialize_goes_directly_to_the_agent() {
    check(
        "editor agent",
        r##"
        editor > initialize first {"protocolVersion":1,"_meta":{"a":null}}
        started agent
        agent  < initialize #1 {"protocolVersion":1,"_meta":{"a":null}}
        agent  > result #1 {"protocolVersion":1, "authMethods":[ ]}
        editor < result first {"protocolVersion":1, "authMethods":[ ]}
        "##,
    );
}

/// Checklist 6: the error reaches the editor unchanged, later requests are answered, and `initialize` may
/// be tried again.
#[test]
fn a_proxy_may_refuse_the_handshake() {
    check(
        "editor p1 agent",
        r##"
        editor > initialize 0 {"protocolVersion":1}
        started p1 agent
        p1     < proxy/initialize #1 {"protocolVersion":1,"_meta":{"mcp_acp_transport":true}}
        p1     > error #1 {"code":-32000,"message":"log in first","data":null}
        editor < error 0 {"code":-32000,"message":"log in first","data":null}
        editor > session/new 1 {}
        editor < error 1 {"code":-32600,"message":"proxy 'p1' is not initialized yet [more: conductor errors no-receiver]","data":{"code":"no-receiver"}}
        editor > initialize 2 {"protocolVersion":1}
        p1     < proxy/initialize #2 {"protocolVersion":1,"_meta":{"mcp_acp_transport":true}}
        p1     > ~initialize 0 {"protocolVersion":1}
        agent  < initialize #3 {"protocolVersion":1}
        "##,
    );
}

/// Checklist 6 for the agent: it refuses, its proxy forwards the error, and `initialize` may be tried
/// again.
#[test]
fn the_agent_may_refuse_the_handshake() {
    check(
        "editor p1 agent",
        r##"
        editor > initialize 0 {"protocolVersion":1}
        started p1 agent
        p1     < proxy/initialize #1 {"protocolVersion":1,"_meta":{"mcp_acp_transport":true}}
        p1     > ~initialize 0 {"protocolVersion":1}
        agent  < initialize #2 {"protocolVersion":1}
        agent  > error #2 {"code":1,"message":"no"}
        p1     < error 0 {"code":1,"message":"no"}
        p1     > ~session/new 1 {}
        p1     < error 1 {"code":-32600,"message":"agent 'agent' is not initialized yet [more: conductor errors no-receiver]","data":{"code":"no-receiver"}}
        p1     > error #1 {"code":1,"message":"no"}
        editor < error 0 {"code":1,"message":"no"}
        editor > initialize 1 {"protocolVersion":1}
        p1     < proxy/initialize #3 {"protocolVersion":1,"_meta":{"mcp_acp_transport":true}}
        "##,
    );
}

/// Checklist 7: an agent does not know the greeting, or answers it without accepting the role.
#[test]
fn an_agent_in_the_seat_of_a_proxy_is_reported_by_name() {
    for (answer, code) in [
        (r#"error #1 {"code":-32601,"message":"Method not found"}"#, -32601),
        (r#"result #1 {"whatever":"you say"}"#, -32603),
    ] {
        check(
            "editor mistaken agent",
            &format!(
                r##"
                editor   > initialize 0 {{"protocolVersion":1}}
                started mistaken agent
                mistaken < proxy/initialize #1 {{"protocolVersion":1,"_meta":{{"mcp_acp_transport":true}}}}
                mistaken > {answer}
                editor   < error 0 {{"code":{code},"message":"component 'mistaken' is not a proxy. Every component …
                "##
            ),
        );
    }
}

/// Checklist 8.
#[test]
fn messages_before_initialize_are_refused() {
    check(
        "editor p1 agent",
        r##"
        editor > session/new 0 {}
        editor < error 0 {"code":-32600,"message":"not initialized: the first request must be initialize [more: conductor errors not-initialized]","data":{"code":"not-initialized"}}
        editor > session/cancel {}
        editor > $/cancel_request {"requestId":0}
        editor > result #1 {}
        editor > initialize 0 {"protocolVersion":1}
        started p1 agent
        p1     < proxy/initialize #1 {"protocolVersion":1,"_meta":{"mcp_acp_transport":true}}
        "##,
    );
}

/// Checklist 9, for all but the two oldest generations.
#[test]
fn a_version_must_be_an_integer() {
    for params in ["", r#"{"protocolVersion":"1"}"#, r#"{"protocolVersion":1.5}"#, "[]", "{}"] {
        check(
            "editor agent",
            &format!(
                r##"
                editor > initialize 0 {params}
                editor < error 0 {{"code":-32602,"message":"initialize needs an integer protocolVersion [more: conductor errors not-initialized]","data":{{"code":"not-initialized"}}}}
                editor > initialize 0 {{"protocolVersion":1}}
                started agent
                agent  < initialize #1 {{"protocolVersion":1}}
                "##
            ),
        );
    }
}

/// Checklist 10: a second `initialize` goes down the same chain.
#[test]
fn a_second_initialize_starts_no_component() {
    check_live(
        "editor p1 agent",
        r##"
        editor > initialize 1 {"protocolVersion":1}
        p1     < proxy/initialize #1 {"protocolVersion":1,"_meta":{"mcp_acp_transport":true}}
        p1     > ~initialize 1 {"protocolVersion":1}
        agent  < initialize #2 {"protocolVersion":1}
        agent  > result #2 {"protocolVersion":1}
        p1     < result 1 {"protocolVersion":1}
        p1     > result #1 {"protocolVersion":1}
        editor < result 1 {"protocolVersion":1}
        "##,
    );
}

/// Checklist 10: most agents refuse a second `initialize`. The first one stays valid.
#[test]
fn a_refused_second_initialize_leaves_the_chain_initialized() {
    check_live(
        "editor agent",
        r##"
        editor > initialize 1 {"protocolVersion":1}
        agent  < initialize #1 {"protocolVersion":1}
        agent  > error #1 {"code":-32600,"message":"already initialized"}
        editor < error 1 {"code":-32600,"message":"already initialized"}
        editor > session/new 2 {}
        agent  < session/new #2 {}
        "##,
    );
}

/// The editor does not wait for the first answer. Whichever of the two is refused, the other counts.
#[test]
fn two_concurrent_handshakes_do_not_affect_each_other() {
    check(
        "editor agent",
        r##"
        editor > initialize 0 {"protocolVersion":1}
        started agent
        agent  < initialize #1 {"protocolVersion":1}
        editor > initialize 1 {"protocolVersion":1}
        agent  < initialize #2 {"protocolVersion":1}
        agent  > error #1 {"code":1,"message":"busy"}
        editor < error 0 {"code":1,"message":"busy"}
        agent  > result #2 {"protocolVersion":1}
        editor < result 1 {"protocolVersion":1}
        editor > session/new 2 {}
        agent  < session/new #3 {}
        "##,
    );
}

/// The oldest documents describe proxies that do not send `initialize` to their successor. The router sends
/// it, and the editor gets the proxy's answer when the successor has answered.
#[test]
fn the_router_initializes_the_successor_of_a_proxy_that_does_not() {
    check(
        "editor p1 agent",
        r##"
        editor > initialize 0 {"protocolVersion":1}
        started p1 agent
        p1     < proxy/initialize #1 {"protocolVersion":1,"_meta":{"mcp_acp_transport":true}}
        p1     > result #1 {"protocolVersion":1,"by":"p1"}
        warning about p1: answered initialize without initializing its successor
        agent  < initialize #2 {"protocolVersion":1}
        agent  > result #2 {"protocolVersion":1,"by":"agent"}
        editor < result 0 {"protocolVersion":1,"by":"p1"}
        "##,
    );
}

/// Messages are routed as soon as a component has been sent `initialize`. Some agents send messages before
/// they answer.
#[test]
fn components_may_send_messages_during_the_handshake() {
    check(
        "editor p1 agent",
        r##"
        editor > initialize 0 {"protocolVersion":1}
        started p1 agent
        p1     < proxy/initialize #1 {"protocolVersion":1,"_meta":{"mcp_acp_transport":true}}
        p1     > ~initialize 0 {"protocolVersion":1}
        agent  < initialize #2 {"protocolVersion":1}
        agent  > _log {"text":"waking up"}
        p1     < ~_log {"text":"waking up"}
        agent  > _ask 0
        p1     < ~_ask #3
        p1     > _log
        editor < _log
        "##,
    );
}

/// Checklist 2: a component that was not sent `initialize` receives no other message.
#[test]
fn no_message_is_delivered_before_initialize() {
    check(
        "editor p1 agent",
        r##"
        editor > initialize 0 {"protocolVersion":1}
        started p1 agent
        p1     < proxy/initialize #1 {"protocolVersion":1,"_meta":{"mcp_acp_transport":true}}
        p1     > ~session/new 7 {}
        p1     < error 7 {"code":-32600,"message":"agent 'agent' is not initialized yet [more: conductor errors no-receiver]","data":{"code":"no-receiver"}}
        p1     > ~session/cancel {}
        p1     > ~initialize 8 {"protocolVersion":1}
        agent  < initialize #2 {"protocolVersion":1}
        "##,
    );
}
