//! Scripts for messages that skip a component: updates that its SDK cannot read, and kinds on which it
//! crashes.

use testkit::script::check_live;

const CHUNK: &str = r#"{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"T"}}}"#;

/// Runs a script in which `chunk T` and `usage T` stand for updates with that text.
pub(crate) fn check_with_updates(participants: &str, script: &str) {
    let mut text = String::new();
    for line in script.lines() {
        let (line, comment) = line.split_once(" #!").unwrap_or((line, ""));
        let words: Vec<&str> = line.split_whitespace().collect();
        let line = match words[..] {
            [who, way, "chunk", it] => {
                format!("{who} {way} session/update {}", CHUNK.replace("\"T\"", &format!("{it:?}")))
            }
            [who, way, "~chunk", it] => {
                format!(
                    "{who} {way} ~session/update {}",
                    CHUNK.replace("\"T\"", &format!("{it:?}"))
                )
            }
            [who, way, "usage", it] => format!(
                r#"{who} {way} session/update {{"sessionId":"s","update":{{"sessionUpdate":"usage_update","used":{it},"size":9}}}}"#
            ),
            _ => line.to_owned(),
        };
        text += &format!("{line}{comment}\n");
    }
    check_live(participants, &text);
}

/// The update arrives between chunk 1, which was sent before it, and chunk 2, which was sent after it.
#[test]
fn an_update_that_a_proxy_cannot_read_skips_it_in_order() {
    check_with_updates(
        "editor p1:P4 agent",
        r##"
        agent  > chunk 1
        p1     < ~chunk 1
        agent  > usage 1
        p1     < ~_conductor/barrier #1 {"token":"#1","chain":"0"}
        agent  > chunk 2
        p1     < ~chunk 2
        p1     > chunk 1
        editor < chunk 1
        p1     > _conductor/barrier 0 {"token":"#1","chain":"0"}
        p1     < result 0 {}
        editor < usage 1
        p1     > chunk 2
        editor < chunk 2
        p1     > result #1 {}
        "##,
    );
}

#[test]
fn consecutive_updates_share_a_barrier() {
    check_with_updates(
        "editor p1:P4 agent",
        r##"
        agent  > usage 1
        p1     < ~_conductor/barrier #1 {"token":"#1","chain":"0"}
        agent  > usage 2
        agent  > chunk 3
        p1     < ~chunk 3
        agent  > usage 4
        p1     < ~_conductor/barrier #2 {"token":"#2","chain":"0"}
        agent  > usage 5
        p1     > error #1 {"code":-32601,"message":"what?"}
        editor < usage 1
        editor < usage 2
        p1     > chunk 3
        editor < chunk 3
        p1     > error #2 {"code":-32601,"message":"what?"}
        editor < usage 4
        editor < usage 5
        "##,
    );
}

/// The agent's answer goes through the proxy, after the barrier.
#[test]
fn an_answer_does_not_overtake_an_update_that_skips_a_proxy() {
    check_with_updates(
        "editor p1:P4 agent",
        r##"
        editor > session/prompt 5 {}
        p1     < session/prompt #1 {}
        p1     > ~session/prompt 0 {}
        agent  < session/prompt #2 {}
        agent  > usage 1
        p1     < ~_conductor/barrier #3 {"token":"#3","chain":"0"}
        agent  > result #2 {}
        p1     < result 0 {}
        p1     > _conductor/barrier 1 {"token":"#3","chain":"0"}
        p1     < result 1 {}
        editor < usage 1
        p1     > result #3 {}
        p1     > result #1 {}
        editor < result 5 {}
        "##,
    );
}

#[test]
fn an_update_skips_several_proxies_and_goes_through_those_that_can_read_it() {
    check_with_updates(
        "editor p1:P4 p2 p3:P4 agent",
        r##"
        agent  > usage 1
        p3     < ~_conductor/barrier #1 {"token":"#1","chain":"0"}
        p3     > result #1 {}
        p2     < ~session/update {"sessionId":"s","update":{"sessionUpdate":"usage_update","used":1,"size":9}}
        p2     > usage 1
        p1     < ~_conductor/barrier #2 {"token":"#2","chain":"0"}
        p1     > result #2 {}
        editor < usage 1
        "##,
    );
}

#[test]
fn a_proxy_that_crashes_or_drops_the_barrier_blocks_no_update() {
    check_with_updates(
        "editor p1:P4 p2:P4+once agent",
        r##"
        agent  > usage 1
        p2     < ~_conductor/barrier #1 {"token":"#1","chain":"0"}
        agent  > usage 2
        p2 exits with status 1
        warning about p2: …; it is being restarted
        p1     < ~_conductor/barrier #2 {"token":"#2","chain":"0"}
        agent  > usage 3                                    #! # held for the restarted p2
        time 2000
        editor < usage 1
        editor < usage 2
        started p2
        p2     < proxy/initialize #3 …
        p1     > _conductor/barrier 0 {"token":"#2","chain":"0"}       #! # too late: not forwarded
        p1     < result 0 {}
        p2 exits with status 1
        warning about p2: …; it is bypassed from now on
        p1     < ~_conductor/barrier #4 {"token":"#4","chain":"0"}
        p1     > result #4 {}
        editor < usage 3
        "##,
    );
}

#[test]
fn held_updates_skip_the_restarted_proxy() {
    check_with_updates(
        "editor p1:P4+restart agent",
        r##"
        p1 exits with status 1
        warning about p1: …; it is being restarted
        agent  > chunk 1
        agent  > usage 2
        agent  > chunk 3
        p1 restarts
        started p1
        p1     < proxy/initialize #1 …
        p1     > result #1 {"protocolVersion":1}
        warning about p1: proxy 'p1' is running again
        p1     < ~chunk 1
        p1     < ~_conductor/barrier #2 {"token":"#2","chain":"0"}
        p1     < ~chunk 3
        p1     > chunk 1
        editor < chunk 1
        p1     > result #2 {}
        editor < usage 2
        "##,
    );
}

#[test]
fn updates_skip_a_proxy_of_a_nested_conductor() {
    check_with_updates(
        "outer p1:P4",
        r##"
        outer > ~session/update {"update":{"sessionUpdate":"usage_update"}}
        p1    < ~_conductor/barrier #1 {"token":"#1","chain":"0"}
        p1    > result #1 {}
        outer < session/update {"update":{"sessionUpdate":"usage_update"}}
        "##,
    );
}

/// The answer does not overtake messages that the editor sent before and that go through the proxy.
#[test]
fn a_request_that_skips_a_proxy_goes_to_the_next_component() {
    check_with_updates(
        "editor p1 agent",
        r##"
        p1 has crashed on session/prompt
        editor > a
        p1     < a
        editor > session/prompt 5 {}
        p1     < _conductor/barrier #1 {"token":"#1","chain":"0"}
        p1     > ~a
        agent  < a
        p1     > ~_conductor/barrier 0 {"token":"#1","chain":"0"}
        p1     < result 0 {}
        agent  < session/prompt #2 {}
        agent  > chunk 1
        p1     < ~chunk 1
        agent  > result #2 {"stopReason":"end_turn"}
        p1     < ~_conductor/barrier #3 {"token":"#3","chain":"0"}
        p1     > chunk 1
        editor < chunk 1
        p1     > result #3 {}
        editor < result 5 {"stopReason":"end_turn"}
        "##,
    );
}

#[test]
fn a_request_that_waits_to_skip_a_proxy_can_be_cancelled() {
    check_with_updates(
        "editor p1 agent",
        r##"
        p1 has crashed on session/prompt
        editor > session/prompt 5 {}
        p1     < _conductor/barrier #1 {"token":"#1","chain":"0"}
        editor > $/cancel_request {"requestId":5}
        editor < error 5 {"code":-32800,"message":"the request was cancelled"}
        p1     > result #1 {}
        editor > session/prompt 6 {}
        p1     < _conductor/barrier #2 {"token":"#2","chain":"0"}
        p1     > result #2 {}
        agent  < session/prompt #3 {}
        editor > $/cancel_request {"requestId":6}
        agent  < $/cancel_request {"requestId":"#3"}
        "##,
    );
}

/// A later message of the proxy shows whether it dropped the barrier.
#[test]
fn a_request_that_skips_a_proxy_is_not_overtaken_if_the_barrier_is_dropped() {
    check_with_updates(
        "editor p1 agent",
        r##"
        p1 has crashed on a
        editor > a 5 {}
        p1     < _conductor/barrier #1 {"token":"#1","chain":"0"}
        editor > b
        p1     < b
        p1     > ~b
        agent  < a #2 {}
        agent  < b
        "##,
    );
}

/// A proxy that crashes on barriers is sent none, and messages skip it at once.
#[test]
fn a_barrier_can_skip_a_proxy() {
    check_with_updates(
        "editor p1:P4 agent",
        r##"
        p1 has crashed on ~_conductor/barrier
        agent  > usage 1
        editor < usage 1
        "##,
    );
}

#[test]
fn waiting_updates_are_delivered_at_shutdown() {
    check_with_updates(
        "editor p1:P4 agent",
        r##"
        p1 has crashed on session/prompt
        editor > a
        p1     < a
        editor > session/prompt 5 {}
        p1     < _conductor/barrier #1 {"token":"#1","chain":"0"}
        agent  > chunk 0
        p1     < ~chunk 0
        agent  > usage 1
        p1     < ~_conductor/barrier #2 {"token":"#2","chain":"0"}
        agent exits with status 1
        time 2000
        editor < error 5 …
        editor < usage 1
        finished failed: …
        "##,
    );
}

/// A message that has skipped one proxy is held for another, and then continues from there.
#[test]
fn a_message_that_has_skipped_a_proxy_is_held_for_the_next_one() {
    check_with_updates(
        "editor p1+restart p2 agent",
        r##"
        p2 has crashed on ~u
        p1 exits with signal 9
        warning about p1: …; it is being restarted
        agent  > u {"n":1}
        p2     < ~_conductor/barrier #1 {"token":"#1","chain":"0"}
        p2     > result #1 {}
        p1 restarts
        started p1
        p1     < proxy/initialize #2 …
        p1     > result #2 {"protocolVersion":1}
        warning about p1: proxy 'p1' is running again
        p1     < ~u {"n":1}
        "##,
    );
}

/// Only updates toward the editor skip the proxy.
#[test]
fn messages_that_only_look_like_an_update_skip_nothing() {
    check_with_updates(
        "editor p1:P4 agent",
        r##"
        agent  > _x {"update":{"sessionUpdate":"usage_update","used":1,"size":9}}
        p1     < ~_x {"update":{"sessionUpdate":"usage_update","used":1,"size":9}}
        editor > usage 1
        p1     < usage 1
        "##,
    );
}

/// Each direction has its own barrier.
#[test]
fn a_barrier_is_shared_in_one_direction_only() {
    check_with_updates(
        "editor p1 agent",
        r##"
        p1 has crashed on a
        p1 has crashed on ~b
        editor > a
        p1     < _conductor/barrier #1 {"token":"#1","chain":"0"}
        agent  > b
        p1     < ~_conductor/barrier #2 {"token":"#2","chain":"0"}
        p1     > result #2 {}
        editor < b
        p1     > result #1 {}
        agent  < a
        "##,
    );
}

/// Held messages are delivered to the restarted proxy all at once, and still keep their order.
#[test]
fn a_barrier_is_not_shared_across_another_delivery() {
    check_with_updates(
        "editor p1:P4+restart agent",
        r##"
        p1 exits with status 1
        warning about p1: …; it is being restarted
        agent  > usage 1
        agent  > usage 2
        agent  > chunk 3
        agent  > usage 4
        p1 restarts
        started p1
        p1     < proxy/initialize #1 …
        p1     > result #1 {"protocolVersion":1}
        warning about p1: proxy 'p1' is running again
        p1     < ~_conductor/barrier #2 {"token":"#2","chain":"0"}
        p1     < ~chunk 3
        p1     < ~_conductor/barrier #3 {"token":"#3","chain":"0"}
        p1     > result #2 {}
        editor < usage 1
        editor < usage 2
        p1     > chunk 3
        editor < chunk 3
        p1     > result #3 {}
        editor < usage 4
        "##,
    );
}

/// At shutdown an update skips every proxy that cannot read it and goes to the first one that can.
#[test]
fn a_waiting_update_skips_all_proxies_at_shutdown() {
    for (participants, deliveries) in [
        ("editor p1:P4 p2:P4 agent", "editor < usage 1"),
        (
            "editor p1 p2:P4 agent",
            r#"p1 < ~session/update {"sessionId":"s","update":{"sessionUpdate":"usage_update","used":1,"size":9}}"#,
        ),
    ] {
        let script = r##"
        editor > a 5 {}
        p1     < a #1 {}
        agent  > chunk 0
        p2     < ~chunk 0
        agent  > usage 1
        p2     < ~_conductor/barrier #2 {"token":"#2","chain":"0"}
        agent exits with status 1
        time 2000
        editor < error 5 …
        DELIVERIES
        finished failed: …
        "##;
        check_with_updates(participants, &script.replace("DELIVERIES", deliveries));
    }
}
