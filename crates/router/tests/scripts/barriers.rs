//! Scripts for the end of barriers: what shows that a component drops barriers, and how long a silent one
//! is waited for.

use super::skip::check_with_updates;

const B1: &str = r##"p1 < ~_conductor/barrier #1 {"token":"#1","chain":"0"}"##;

fn check(script: &str) {
    check_with_updates("editor p1:P4+restart agent", &script.replace("BARRIER_1", B1));
}

/// The component still has the chunk that the update must not overtake.
#[test]
fn a_barrier_waits_for_a_slow_component() {
    check(
        r##"
        agent  > chunk 1
        p1     < ~chunk 1
        agent  > usage 2
        BARRIER_1
        time 29000
        agent  > chunk 3
        p1     < ~chunk 3
        p1     > chunk 0
        editor < chunk 0
        time 58000
        p1     > chunk 1
        editor < chunk 1
        time 59999
        p1     > _conductor/barrier 0 {"token":"#1","chain":"0"}
        p1     < result 0 {}
        editor < usage 2
        p1     > chunk 3
        editor < chunk 3
        "##,
    );
}

/// The timeout starts with the last message of the component.
#[test]
fn the_barriers_of_a_silent_component_time_out() {
    check(
        r##"
        agent  > chunk 1
        p1     < ~chunk 1
        agent  > usage 2
        BARRIER_1
        agent  > chunk 3
        p1     < ~chunk 3
        time 1000
        p1     > _x
        editor < _x
        agent  > usage 4
        p1     < ~_conductor/barrier #2 {"token":"#2","chain":"0"}
        time 30999
        time 31000
        editor < usage 2
        editor < usage 4
        p1     > _conductor/barrier 0 {"token":"#1","chain":"0"}
        p1     < result 0 {}
        p1     > _conductor/barrier 1 {"token":"#2","chain":"0"}
        p1     < result 1 {}
        "##,
    );
}

/// The component has forwarded everything before the barrier, so nothing can be overtaken.
#[test]
fn a_short_timeout_applies_if_nothing_can_be_overtaken() {
    check(
        r##"
        agent  > chunk 1
        p1     < ~chunk 1
        p1     > chunk 1
        editor < chunk 1
        agent  > usage 2
        BARRIER_1
        agent  > chunk 3
        p1     < ~chunk 3
        agent  > usage 4
        p1     < ~_conductor/barrier #2 {"token":"#2","chain":"0"}
        time 1999
        time 2000
        editor < usage 2
        time 29999
        time 30000
        editor < usage 4
        "##,
    );
}

/// The component forwards a later message, so the update is released first. The component gets no more
/// barriers.
#[test]
fn forwarding_a_later_message_shows_that_the_barrier_was_dropped() {
    check(
        r##"
        agent  > chunk 1
        p1     < ~chunk 1
        agent  > usage 2
        BARRIER_1
        agent  > chunk 3
        p1     < ~chunk 3
        p1     > chunk 1
        editor < chunk 1
        p1     > chunk 3
        editor < usage 2
        editor < chunk 3
        agent  > usage 4
        editor < usage 4
        agent  > chunk 5
        p1     < ~chunk 5
        agent  > usage 6
        agent  > usage 7
        agent  > chunk 8
        p1     < ~chunk 8
        p1     > chunk 5
        editor < chunk 5
        editor < usage 6
        editor < usage 7
        p1     > chunk 8
        editor < chunk 8
        "##,
    );
}

/// The component is known to drop barriers and changes what it forwards, so a short silence releases the
/// update.
#[test]
fn a_short_timeout_applies_to_a_component_that_drops_barriers_and_changes_messages() {
    check(
        r##"
        agent  > usage 1
        BARRIER_1
        agent  > chunk 2
        p1     < ~chunk 2
        p1     > chunk 2
        editor < usage 1
        editor < chunk 2
        agent  > chunk 3
        p1     < ~chunk 3
        agent  > usage 4
        time 1000
        p1     > chunk THREE
        editor < chunk THREE
        time 2999
        time 3000
        editor < usage 4
        "##,
    );
}

/// Streams repeat chunks. The first of two equal chunks was sent before the barrier.
#[test]
fn an_equal_message_from_before_the_barrier_releases_nothing() {
    check(
        r##"
        agent  > chunk 1
        p1     < ~chunk 1
        agent  > usage 2
        BARRIER_1
        agent  > chunk 1
        p1     < ~chunk 1
        p1     > chunk 1
        editor < chunk 1
        p1     > own {}
        editor < own {}
        p1     > chunk 1
        editor < usage 2
        editor < chunk 1
        "##,
    );
}

/// The answer to a forwarded prompt, even one forwarded with changes, must not overtake updates.
#[test]
fn an_answer_releases_the_updates_sent_before_it() {
    for passed in [r#"{"a":1}"#, r#"{"a":1,"b":2}"#, r#"{"c":3}"#] {
        let script = r##"
        editor > session/prompt 5 {"a":1}
        p1     < session/prompt #1 {"a":1}
        p1     > ~session/prompt 0 PASSED
        agent  < session/prompt #2 PASSED
        agent  > usage 1
        p1     < ~_conductor/barrier #3 {"token":"#3","chain":"0"}
        agent  > result #2 {"done":1}
        p1     < result 0 {"done":1}
        p1     > result #1 {"done":2}
        editor < usage 1
        editor < result 5 {"done":2}
        "##;
        check(&script.replace("PASSED", passed));
    }
}

/// The answer is not related to a message after the barrier.
#[test]
fn an_unrelated_answer_releases_nothing() {
    check(
        r##"
        editor > session/prompt 5 {"sessionId":"s"}
        p1     < session/prompt #1 {"sessionId":"s"}
        editor > session/prompt 6 {"sessionId":"t"}
        p1     < session/prompt #2 {"sessionId":"t"}
        p1     > ~session/prompt 0 {"sessionId":"s"}
        agent  < session/prompt #3 {"sessionId":"s"}
        agent  > chunk 0
        p1     < ~chunk 0
        agent  > usage 1
        p1     < ~_conductor/barrier #4 {"token":"#4","chain":"0"}
        agent  > result #3 {}
        p1     < result 0 {}
        p1     > error #2 {"code":1,"message":"no"}
        editor < error 6 {"code":1,"message":"no"}
        p1     > chunk 0
        editor < chunk 0
        p1     > result #1 {}
        editor < usage 1
        editor < result 5 {}
        "##,
    );
}

/// The component forwards or answers a request that was delivered after the barrier.
#[test]
fn handling_a_later_request_shows_that_the_barrier_was_dropped() {
    let asked = r##"
        agent  > usage 1
        BARRIER_1
        agent  > _x/ask 7 {"n":1}
        p1     < ~_x/ask #2 {"n":1}
    "##;
    check(&format!(
        "{asked}{}",
        r##"
        p1     > _x/ask 0 {"n":2}
        editor < _x/ask #3 {"n":2}
        p1     > _x/ask 1 {"n":1}
        editor < usage 1
        editor < _x/ask #4 {"n":1}
        "##
    ));
    check(&format!(
        "{asked}{}",
        r##"
        p1     > result #2 {}
        editor < usage 1
        agent  < result 7 {}
        "##
    ));
}

/// A barrier that comes out shows that the older ones were dropped.
#[test]
fn a_barrier_releases_the_older_ones_first() {
    check(
        r##"
        agent  > usage 1
        BARRIER_1
        agent  > chunk 2
        p1     < ~chunk 2
        agent  > usage 3
        p1     < ~_conductor/barrier #2 {"token":"#2","chain":"0"}
        p1     > chunk TWO
        editor < chunk TWO
        p1     > error #2 {"code":-32601,"message":"what?"}
        editor < usage 1
        editor < usage 3
        "##,
    );
}

/// No late barrier reaches the editor. A barrier that comes out late was not dropped, so the component gets
/// barriers again.
#[test]
fn late_barriers_are_not_forwarded() {
    let mut script = String::new();
    for n in 0..200 {
        let id = n + 1;
        script += &format!(
            "agent > usage {n}\np1 < ~_conductor/barrier #{id} {{\"token\":\"#{id}\",\"chain\":\"0\"}}\n\
             agent > chunk {n}\np1 < ~chunk {n}\n"
        );
    }
    script += "p1 > chunk 199\n";
    for n in 0..200 {
        script += &format!("editor < usage {n}\n");
    }
    script += "editor < chunk 199\n";
    for n in 0..200 {
        let id = n + 1;
        script += &format!(
            "p1 > _conductor/barrier {n} {{\"token\":\"#{id}\",\"chain\":\"0\"}}\np1 < result {n} {{}}\n"
        );
    }
    script +=
        "agent > usage 7\np1 < ~_conductor/barrier #201 {\"token\":\"#201\",\"chain\":\"0\"}\n";
    check(&script);
}

/// A chain with an editor is not nested, so no barrier is forwarded to the editor.
#[test]
fn no_barrier_of_any_chain_reaches_the_editor() {
    check(
        r##"
        p1     > _conductor/barrier 0 {"token":"c:99","chain":"77"}
        p1     < result 0 {}
        p1     > _conductor/barrier 1
        p1     < result 1 {}
        "##,
    );
}

/// Both chains use the same ids. A barrier of the outer chain is forwarded, one of this chain is not.
#[test]
fn a_barrier_of_the_outer_chain_is_forwarded() {
    check_with_updates(
        "outer p1:P4",
        r##"
        outer > ~session/update {"update":{"sessionUpdate":"usage_update"}}
        p1    < ~_conductor/barrier #1 {"token":"#1","chain":"0"}
        outer > ~_conductor/barrier 5 {"token":"#1","chain":"9"}
        p1    < ~_conductor/barrier #2 {"token":"#1","chain":"9"}
        p1    > _conductor/barrier 0 {"token":"#1","chain":"9"}
        outer < session/update {"update":{"sessionUpdate":"usage_update"}}
        outer < _conductor/barrier #3 {"token":"#1","chain":"9"}
        p1    > _conductor/barrier 1 {"token":"#1","chain":"0"}
        p1    < result 1 {}
        "##,
    );
}

/// What was observed before the restart does not count.
#[test]
fn a_restarted_component_gets_barriers_again() {
    check(
        r##"
        agent  > usage 1
        BARRIER_1
        agent  > chunk 2
        p1     < ~chunk 2
        p1     > chunk 2
        editor < usage 1
        editor < chunk 2
        p1 exits with status 1
        warning about p1: …; it is being restarted
        p1 restarts
        started p1
        p1     < proxy/initialize #2 …
        p1     > result #2 {"protocolVersion":1}
        warning about p1: proxy 'p1' is running again
        agent  > usage 3
        p1     < ~_conductor/barrier #3 {"token":"#3","chain":"0"}
        "##,
    );
}

/// A cancellation belongs to one link and is never forwarded unchanged, so no barrier waits for it.
#[test]
fn a_barrier_does_not_wait_for_a_cancellation() {
    check(
        r##"
        agent  > _ask 7 {}
        p1     < ~_ask #1 {}
        p1     > _ask 0 {}
        editor < _ask #2 {}
        agent  > $/cancel_request {"requestId":7}
        p1     < $/cancel_request {"requestId":"#1"}
        agent  > usage 2
        p1     < ~_conductor/barrier #3 {"token":"#3","chain":"0"}
        time 1999
        time 2000
        editor < usage 2
        "##,
    );
}
