//! Messages that go around a component: updates that its SDK cannot read, kinds that it crashes on.

use testkit::script::check_live;

const CHUNK: &str = r#"{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"T"}}}"#;

/// Writes `chunk T` and `usage T` in a script as updates with that text.
pub(crate) fn play(cast: &str, script: &str) {
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
    check_live(cast, &text);
}

/// Between chunk 1, which was sent before it, and chunk 2, which was sent after it.
#[test]
fn an_update_that_a_proxy_cannot_read_goes_around_it_in_order() {
    play(
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
fn updates_with_nothing_between_them_share_a_barrier() {
    play(
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

/// The answer of the agent reaches the editor through the proxy: behind the barrier.
#[test]
fn an_answer_does_not_overtake_an_update_that_goes_around() {
    play(
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
fn it_goes_around_several_proxies_and_through_those_that_can_read_it() {
    play(
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
fn a_proxy_that_dies_or_swallows_the_barrier_holds_nothing_up() {
    play(
        "editor p1:P4 p2:P4+once agent",
        r##"
        agent  > usage 1
        p2     < ~_conductor/barrier #1 {"token":"#1","chain":"0"}
        agent  > usage 2
        p2 exits with status 1
        warning about p2: …; it is being restarted
        p1     < ~_conductor/barrier #2 {"token":"#2","chain":"0"}
        agent  > usage 3                                    #! # waits for the next p2
        time 2000
        editor < usage 1
        editor < usage 2
        started p2
        p2     < proxy/initialize #3 …
        p1     > _conductor/barrier 0 {"token":"#2","chain":"0"}       #! # too late, and goes no further
        p1     < result 0 {}
        p2 exits with status 1
        warning about p2: …; it is left out from now on
        p1     < ~_conductor/barrier #4 {"token":"#4","chain":"0"}
        p1     > result #4 {}
        editor < usage 3
        "##,
    );
}

#[test]
fn what_waits_for_a_restarted_proxy_goes_around_the_new_one() {
    play(
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
fn a_conductor_that_is_a_proxy_itself_does_the_same() {
    play(
        "outer p1:P4",
        r##"
        outer > ~session/update {"update":{"sessionUpdate":"usage_update"}}
        p1    < ~_conductor/barrier #1 {"token":"#1","chain":"0"}
        p1    > result #1 {}
        outer < session/update {"update":{"sessionUpdate":"usage_update"}}
        "##,
    );
}

/// Its answer does not overtake what the editor said before, which goes through the proxy.
#[test]
fn a_request_that_a_proxy_is_spared_is_asked_of_the_next_one() {
    play(
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
fn a_request_on_its_way_around_can_be_cancelled() {
    play(
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

/// What a proxy that is spared a request does later shows whether it has swallowed the barrier.
#[test]
fn a_request_that_goes_around_is_not_overtaken_if_the_barrier_is_swallowed() {
    play(
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

/// A proxy that crashes even on a barrier is sent none: what goes around it goes at once.
#[test]
fn a_proxy_may_be_spared_barriers() {
    play(
        "editor p1:P4 agent",
        r##"
        p1 has crashed on ~_conductor/barrier
        agent  > usage 1
        editor < usage 1
        "##,
    );
}

#[test]
fn a_chain_that_ends_brings_what_waits() {
    play(
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

/// A message that has gone around one proxy waits for another, and then goes on from where it was.
#[test]
fn a_message_that_has_gone_around_a_proxy_waits_for_the_next_one() {
    play(
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

/// Only updates that travel toward the editor go around, and only those.
#[test]
fn messages_that_only_look_like_an_update_are_delivered() {
    play(
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
    play(
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

/// What waits for a new proxy is delivered at once, and keeps its order all the same.
#[test]
fn a_barrier_is_not_shared_past_a_message_that_is_delivered_with_it() {
    play(
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

/// At the end of the chain an update still goes around every proxy that cannot read it, and to the one that can.
#[test]
fn a_chain_that_ends_brings_what_waits_past_all_proxies() {
    for (cast, told) in [
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
        TOLD
        finished failed: …
        "##;
        play(cast, &script.replace("TOLD", told));
    }
}
