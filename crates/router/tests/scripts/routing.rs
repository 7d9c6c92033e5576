//! Scripts for the routes of requests, notifications and answers, and for their ids.

use testkit::script::{check, check_live};

/// Checklist 32, 33: the route of a prompt and of its answer. `5` and `"5"` are different ids.
#[test]
fn a_prompt_goes_from_hop_to_hop_and_its_answer_back() {
    check_live(
        "editor p1 p2 agent",
        r##"
        editor > session/prompt "5" {"text":"hi"}
        p1     < session/prompt #1 {"text":"hi"}
        p1     > ~session/prompt 0 {"text":"hi, says the editor"}
        p2     < session/prompt #2 {"text":"hi, says the editor"}
        p2     > ~session/prompt 0 {"text":"hi"}
        agent  < session/prompt #3 {"text":"hi"}
        agent  > result #3 {"stopReason":"end_turn"}
        p2     < result 0 {"stopReason":"end_turn"}
        p2     > result #2 {"stopReason":"end_turn"}
        p1     < result 0 {"stopReason":"end_turn"}
        p1     > error #1 {"code":7,"message":"changed my mind","more":[1]}
        editor < error "5" {"code":7,"message":"changed my mind","more":[1]}
        "##,
    );
}

/// Checklist 34, 35: a request of the agent goes toward the editor.
#[test]
fn a_request_of_the_agent_travels_in_envelopes() {
    check_live(
        "editor p1 p2 agent",
        r##"
        agent  > fs/read_text_file 0 {"path":"/a"}
        p2     < ~fs/read_text_file #1 {"path":"/a"}
        p2     > fs/read_text_file 0 {"path":"/a"}
        p1     < ~fs/read_text_file #2 {"path":"/a"}
        p1     > fs/read_text_file 0 {"path":"/a"}
        editor < fs/read_text_file #3 {"path":"/a"}
        editor > result #3 {"content":""}
        p1     < result 0 {"content":""}
        p1     > result #2 {"content":""}
        p2     < result 0 {"content":""}
        p2     > result #1 {"content":""}
        agent  < result 0 {"content":""}
        "##,
    );
}

/// Checklist 36: the four routes. Notifications get no answers.
#[test]
fn notifications_take_the_same_four_routes() {
    check_live(
        "editor p1 p2 agent",
        r##"
        editor > session/cancel {"sessionId":"s"}
        p1     < session/cancel {"sessionId":"s"}
        p1     > ~session/cancel {"sessionId":"s"}
        p2     < session/cancel {"sessionId":"s"}
        agent  > session/update {"sessionId":"s"}
        p2     < ~session/update {"sessionId":"s"}
        p2     > session/update {"sessionId":"s"}
        p1     < ~session/update {"sessionId":"s"}
        p1     > session/update {"sessionId":"s"}
        editor < session/update {"sessionId":"s"}
        "##,
    );
}

/// Without proxies there are no envelopes.
#[test]
fn without_proxies_messages_are_plain() {
    check_live(
        "editor agent",
        r##"
        editor > session/prompt 0 {}
        agent  < session/prompt #1 {}
        agent  > session/update {}
        editor < session/update {}
        agent  > result #1 null
        editor < result 0 null
        "##,
    );
}

/// Checklist 37, 39: all four peers number their requests from 0, and all requests are open at once.
#[test]
fn colliding_ids_do_not_mix_up_answers() {
    check_live(
        "editor p1 agent",
        r##"
        editor > a 0
        p1     < a #1
        p1     > ~b 0
        agent  < b #2
        agent  > c 0
        p1     < ~c #3
        p1     > d 1
        editor < d #4
        editor > result #4 {"to":"d"}
        p1     < result 1 {"to":"d"}
        p1     > result #3 {"to":"c"}
        agent  < result 0 {"to":"c"}
        agent  > result #2 {"to":"b"}
        p1     < result 0 {"to":"b"}
        p1     > result #1 {"to":"a"}
        editor < result 0 {"to":"a"}
        "##,
    );
}

/// Checklist 38: 1000 requests in each direction, all open at once, are answered in reverse order.
#[test]
fn a_thousand_requests_each_way_get_their_answers() {
    let mut script = String::new();
    for id in 0..1000 {
        let (down, up) = (2 * id + 1, 2 * id + 2);
        script += &format!("editor > ask {id}\n agent < ask #{down}\n");
        script += &format!("agent > ask {id}\n editor < ask #{up}\n");
    }
    for id in (0..1000).rev() {
        let (down, up) = (2 * id + 1, 2 * id + 2);
        script += &format!("agent > result #{down} [{id}]\n editor < result {id} [{id}]\n");
        script += &format!("editor > result #{up} [-{id}]\n agent < result {id} [-{id}]\n");
    }
    check_live("editor agent", &script);
}

/// Checklist 40, 42: the router knows neither sessions nor methods.
#[test]
fn unknown_methods_and_session_ids_pass_both_ways() {
    check_live(
        "editor p1 agent",
        r##"
        editor > _x/y 0 {"sessionId":"S \u00e9\/1"}
        p1     < _x/y #1 {"sessionId":"S \u00e9\/1"}
        p1     > ~x/y 0 {"sessionId":"S \u00e9\/1"}
        agent  < x/y #2 {"sessionId":"S \u00e9\/1"}
        agent  > _x/y {"sessionId":"S \u00e9\/1"}
        p1     < ~_x/y {"sessionId":"S \u00e9\/1"}
        p1     > x/y {"sessionId":"S \u00e9\/1"}
        editor < x/y {"sessionId":"S \u00e9\/1"}
        "##,
    );
}

/// Checklist 41: answers with unknown ids, to answered requests, and from a peer that is not the responder.
#[test]
fn unexpected_answers_are_dropped() {
    check_live(
        "editor p1 agent",
        r##"
        agent  > result 0 {}
        agent  > result #77 {}
        agent  > error null {"code":-32700,"message":"what?"}
        agent  > {"error":{"code":-32700,"message":"SDK 0.11 forgets the id"}}
        warning about agent: agent 'agent' sent a bad line: an answer without an id
        editor > ask 0
        p1     < ask #1
        agent  > result #1 {"not":"yours"}
        editor > result #1 {"not":"yours"}
        p1     > result #1 {"first":true}
        editor < result 0 {"first":true}
        p1     > result #1 {"first":false}
        "##,
    );
}

/// Checklist 43, 44, 46, 47: the editor and the agent send envelopes of every generation. Their next
/// message is routed.
#[test]
fn envelopes_of_the_editor_and_the_agent_are_refused() {
    for method in [
        "proxy/successor",
        "_proxy/successor",
        "_proxy/successor/request",
        "_proxy/successor/notification",
        "_proxy/successor/send/request",
        "proxy/initialize",
        "_proxy/initialize",
    ] {
        check_live(
            "editor p1 agent",
            &format!(
                r##"
                editor > {method} 4 {{"method":"x","params":{{}}}}
                warning about editor: the editor sent a bad line: …
                editor < error 4 {{"code":-32600,…
                editor > {method} {{"method":"x","params":{{}}}}
                warning about editor: the editor sent a bad line: …
                agent  > {method} 4 {{"method":"x","params":{{}}}}
                warning about agent: agent 'agent' sent a bad line: …
                agent  < error 4 {{"code":-32600,…
                agent  > {method} {{"method":"x","params":{{}}}}
                warning about agent: agent 'agent' sent a bad line: …
                editor > next
                p1     < next
                agent  > next
                p1     < ~next
                "##
            ),
        );
    }
}

/// Checklist 45, 46, 48: the proxy gets an error, and its next message is routed.
#[test]
fn malformed_envelopes_are_refused() {
    check_live(
        "editor p1 agent",
        r##"
        p1     > ~proxy/successor 1 {"method":"x"}
        warning about p1: proxy 'p1' sent a bad line: …
        p1     < error 1 {"code":-32600,"message":"an envelope must not be inside another envelope [more: conductor errors bad-message]","data":{"code":"bad-message"}}
        p1     > ~_proxy/successor/request 2 {"method":"x"}
        warning about p1: proxy 'p1' sent a bad line: …
        p1     < error 2 {"code":-32600,…
        p1     > ~proxy/successor {"method":"x"}
        warning about p1: proxy 'p1' sent a bad line: …
        p1     > ~proxy/initialize 3 {"protocolVersion":1}
        warning about p1: proxy 'p1' sent a bad line: …
        p1     < error 3 {"code":-32600,"message":"only a conductor may send a proxy its handshake (proxy/initialize) [more: conductor errors bad-message]","data":{"code":"bad-message"}}
        p1     > proxy/successor 4 {"params":{}}
        warning about p1: proxy 'p1' sent a bad line: …
        p1     < error 4 {"code":-32602,…
        p1     > proxy/successor 5 {"method":"x","params":3}
        warning about p1: proxy 'p1' sent a bad line: …
        p1     < error 5 {"code":-32602,…
        p1     > proxy/successor 6
        warning about p1: proxy 'p1' sent a bad line: …
        p1     < error 6 {"code":-32602,…
        p1     > proxy/successor {"params":{}}
        warning about p1: proxy 'p1' sent a bad line: …
        p1     > ~x 7
        agent  < x #1
        "##,
    );
}

/// Checklist 24, 51: the metadata of an envelope stays on its link. The message inside keeps its own.
#[test]
fn the_metadata_of_an_envelope_is_not_forwarded() {
    check_live(
        "editor p1 agent",
        r##"
        p1     > proxy/successor 1 {"_meta":{"hop":1},"method":"x","params":{"_meta":{"trip":1}}}
        agent  < x #1 {"_meta":{"trip":1}}
        p1     > proxy/successor {"method":"x","meta":{"hop":1}}
        agent  < x
        "##,
    );
}

/// Checklist 31, 43: a line of a component that is not a message is skipped, one of the editor is answered.
/// Both continue.
#[test]
fn lines_that_are_not_messages_do_not_end_the_chain() {
    check_live(
        "editor agent",
        r##"
        agent  > raw Listening on stdio...
        warning about agent: agent 'agent' sent a bad line: not JSON: …; skipped: "Listening on stdio..."
        editor > raw {"jsonrpc":
        warning about editor: the editor sent a bad line: not JSON: …
        editor < error null {"code":-32700,…
        editor > raw [{"jsonrpc":"2.0","id":1,"method":"x"}]
        warning about editor: the editor sent a bad line: batches are not supported: …
        editor < error null {"code":-32600,"message":"batches are not supported: …
        editor > x 1.5
        warning about editor: the editor sent a bad line: the id must be …
        editor < error null {"code":-32600,…
        agent  > next
        editor < next
        "##,
    );
}

/// Messages from one sender to one receiver arrive in the order in which they were sent, whatever their
/// kind.
#[test]
fn an_answer_does_not_overtake_earlier_messages() {
    check_live(
        "editor p1 agent",
        r##"
        p1     > ~session/prompt 0 {}
        agent  < session/prompt #1 {}
        agent  > session/update {"n":1}
        p1     < ~session/update {"n":1}
        agent  > session/request_permission 0 {}
        p1     < ~session/request_permission #2 {}
        agent  > session/update {"n":2}
        p1     < ~session/update {"n":2}
        agent  > result #1 {}
        p1     < result 0 {}
        agent  > session/update {"n":3}
        p1     < ~session/update {"n":3}
        "##,
    );
}

/// An editor that never sends `initialize` disconnects, and the chain ends.
#[test]
fn an_editor_that_never_initialises_can_leave() {
    check("editor p1 agent", "editor closes its output\n finished clean");
}
