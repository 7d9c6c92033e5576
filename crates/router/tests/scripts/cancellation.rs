//! Scripts for `$/cancel_request`. It contains an id, and every link has its own ids.

use testkit::script::check_live;

/// Checklist 57, 62: each link carries one plain cancellation with that link's id. The agent's answer comes
/// back once.
#[test]
fn a_cancellation_follows_its_request() {
    check_live(
        "editor p1 agent",
        r##"
        editor > session/prompt 5 {}
        p1     < session/prompt #1 {}
        p1     > ~session/prompt 0 {}
        agent  < session/prompt #2 {}
        editor > $/cancel_request {"requestId":5,"_meta":{"why": 1.0}}
        p1     < $/cancel_request {"requestId":"#1","_meta":{"why": 1.0}}
        p1     > $/cancel_request {"requestId":0}
        agent  < $/cancel_request {"requestId":"#2"}
        agent  > error #2 {"code":-32800,"message":"Request cancelled"}
        p1     < error 0 {"code":-32800,"message":"Request cancelled"}
        p1     > error #1 {"code":-32800,"message":"Request cancelled"}
        editor < error 5 {"code":-32800,"message":"Request cancelled"}
        "##,
    );
}

/// Checklist 58: toward the editor the cancellation is plain, too, although its request was in an envelope.
#[test]
fn an_agent_can_cancel_its_request_to_the_editor() {
    check_live(
        "editor p1 agent",
        r##"
        agent  > fs/read_text_file 7 {}
        p1     < ~fs/read_text_file #1 {}
        p1     > fs/read_text_file 7 {}
        editor < fs/read_text_file #2 {}
        agent  > $/cancel_request {"requestId":7}
        p1     < $/cancel_request {"requestId":"#1"}
        p1     > $/cancel_request {"requestId":7}
        editor < $/cancel_request {"requestId":"#2"}
        editor > error #2 {"code":-32800,"message":"Request cancelled"}
        p1     < error 7 {"code":-32800,"message":"Request cancelled"}
        p1     > error #1 {"code":-32800,"message":"Request cancelled"}
        agent  < error 7 {"code":-32800,"message":"Request cancelled"}
        "##,
    );
}

/// Checklist 59: the SDKs 1.1 to 3.6 send it like this.
#[test]
fn a_cancellation_in_an_envelope_is_unwrapped() {
    check_live(
        "editor p1 agent",
        r##"
        p1     > ~session/prompt 3 {}
        agent  < session/prompt #1 {}
        p1     > ~$/cancel_request {"requestId":3}
        agent  < $/cancel_request {"requestId":"#1"}
        "##,
    );
}

/// Checklist 60: older proxies forward the id that the conductor gave them. It is not an id of their own,
/// even if another peer uses the same id.
#[test]
fn a_cancellation_with_an_id_of_the_conductor_cancels_nothing() {
    check_live(
        "editor p1 agent",
        r##"
        editor > session/prompt 5 {}
        p1     < session/prompt #1 {}
        p1     > ~session/prompt 0 {}
        agent  < session/prompt #2 {}
        editor > $/cancel_request {"requestId":5}
        p1     < $/cancel_request {"requestId":"#1"}
        p1     > ~$/cancel_request {"requestId":"#1"}
        p1     > $/cancel_request {"requestId":"#2"}
        "##,
    );
}

/// Checklist 61: a request that was never sent, was sent by another peer, has an id of another type, is
/// answered, or was cancelled before; and malformed cancellations.
#[test]
fn a_cancellation_without_an_open_request_is_ignored() {
    check_live(
        "editor p1 agent",
        r##"
        editor > ask 5
        p1     < ask #1
        editor > $/cancel_request {"requestId":6}
        editor > $/cancel_request {"requestId":"5"}
        agent  > $/cancel_request {"requestId":5}
        p1     > $/cancel_request {"requestId":5}
        editor > $/cancel_request {}
        editor > $/cancel_request
        editor > $/cancel_request {"requestId":{}}
        editor > $/cancel_request {"requestId":5}
        p1     < $/cancel_request {"requestId":"#1"}
        editor > $/cancel_request {"requestId":5}
        p1     > result #1 {}
        editor < result 5 {}
        editor > $/cancel_request {"requestId":5}
        "##,
    );
}

/// Checklist 62: the responder may have answered already, or may ignore the cancellation.
#[test]
fn a_cancelled_request_is_answered_once() {
    check_live(
        "editor agent",
        r##"
        editor > ask 5
        agent  < ask #1
        editor > $/cancel_request {"requestId":5}
        agent  < $/cancel_request {"requestId":"#1"}
        agent  > result #1 {"too":"late"}
        editor < result 5 {"too":"late"}
        agent  > error #1 {"code":-32800,"message":"Request cancelled"}
        "##,
    );
}

/// Checklist 57: the link to an outer conductor is like any other.
#[test]
fn cancellations_pass_through_a_nested_conductor() {
    check_live(
        "editor inner(q1) agent",
        r##"
        editor > ask 5
        q1     < ask #1
        q1     > ~ask 0
        agent  < ask #2
        q1     > $/cancel_request {"requestId":0}
        agent  < $/cancel_request {"requestId":"#2"}
        editor > $/cancel_request {"requestId":5}
        q1     < $/cancel_request {"requestId":"#1"}
        "##,
    );
}

/// Checklist 63.
#[test]
fn session_cancel_is_routed_like_any_notification() {
    check_live(
        "editor p1 agent",
        r##"
        editor > session/cancel {"sessionId":"s"}
        p1     < session/cancel {"sessionId":"s"}
        p1     > ~session/cancel {"sessionId":"s"}
        agent  < session/cancel {"sessionId":"s"}
        "##,
    );
}

/// A request with the method of the notification is routed like any request.
#[test]
fn a_request_with_the_method_cancel_request_is_routed_as_a_request() {
    check_live(
        "editor p1 agent",
        r##"
        agent  > $/cancel_request 1 {"requestId":7}
        p1     < ~$/cancel_request #1 {"requestId":7}
        p1     > error #1 {"code":-32601,"message":"Method not found"}
        agent  < error 1 {"code":-32601,"message":"Method not found"}
        "##,
    );
}
