//! Orphaned sessions: the component that sent the set-up request has failed.

use testkit::script::check_live;

/// The start of each script: a proxy forwards a set-up request, and is killed.
const PRELUDE: &str = r##"
        editor > METHOD 4 PARAMS
        p1     < METHOD #1 PARAMS
        p1     > ~METHOD 0 PARAMS
        agent  < METHOD #2 PARAMS
        p1 exits with signal 9
        warning about p1: …; it is being restarted
        editor < error 4 …
        agent  < $/cancel_request {"requestId":"#2"}
"##;

fn check_orphan(method: &str, params: &str, script: &str) {
    let prelude = PRELUDE.replace("METHOD", method).replace("PARAMS", params);
    check_live("editor p1+restart agent", &format!("{prelude}{script}"));
}

/// The agent sets up the session. The core closes it, and drops messages about it.
#[test]
fn an_orphaned_session_is_closed() {
    check_orphan(
        "session/new",
        "{}",
        r##"
        agent  > result #2 {"sessionId":"s"}
        agent  < session/close r:1 {"sessionId":"s"}
        agent  > session/update {"sessionId":"s"}
        agent  > fs/read_text_file 7 {"sessionId":"s"}
        agent  < error 7 {"code":-32602,"message":"no component has this session any more [more: conductor errors session-lost]","data":{"code":"session-lost"}}
        agent  > result r:1 {}
        "##,
    );
}

/// The restarted proxy gets the messages about other sessions.
const BACK: &str = r##"
        p1 restarts
        started p1
        p1     < proxy/initialize #3 …
        p1     > result #3 {"protocolVersion":1}
        warning about p1: proxy 'p1' is running again
"##;

#[test]
fn only_messages_about_the_orphaned_session_are_dropped() {
    let script = r##"
        agent  > result #2 {"sessionId":"s"}
        agent  < session/close r:1 {"sessionId":"s"}
        agent  > session/update {"sessionId":"s","n":1}
        agent  > session/update {"sessionId":"t","n":2}
        agent  > other {"n":3}
        BACK
        p1     < ~session/update {"sessionId":"t","n":2}
        p1     < ~other {"n":3}
        agent  > session/update {"sessionId":"s","n":4}
        p1     > session/update {"sessionId":"s","n":5}
        editor < session/update {"sessionId":"s","n":5}
        agent  > error r:1 {"code":-32601,"message":"no"}
        agent  > session/update {"sessionId":"s","n":6}
        p1     < ~session/update {"sessionId":"s","n":6}
        "##;
    check_orphan("session/new", "{}", &script.replace("BACK", BACK));
}

#[test]
fn a_session_whose_set_up_failed_is_not_closed() {
    let script = r##"
        agent  > error #2 {"code":-32800,"message":"cancelled"}
        BACK
        agent  > session/update {"sessionId":"s","n":6}
        p1     < ~session/update {"sessionId":"s","n":6}
        "##;
    check_orphan("session/new", "{}", &script.replace("BACK", BACK));
}

/// The session existed before, and the editor will send its request again.
#[test]
fn an_orphaned_session_that_was_loaded_is_not_closed() {
    for method in ["session/load", "session/resume"] {
        let script = r##"
        agent  > session/update {"sessionId":"s","n":1}
        agent  > result #2 {}
        agent  > session/update {"sessionId":"s","n":2}
        BACK
        agent  > session/update {"sessionId":"s","n":3}
        editor > METHOD 5 {"sessionId":"s"}
        p1     < METHOD #4 {"sessionId":"s"}
        agent  > session/update {"sessionId":"s","n":4}
        p1     > ~METHOD 1 {"sessionId":"s"}
        agent  < METHOD #5 {"sessionId":"s"}
        agent  > session/update {"sessionId":"s","n":5}
        p1     < ~session/update {"sessionId":"s","n":5}
        "##;
        let script = script.replace("BACK", BACK).replace("METHOD", method);
        check_orphan(method, r#"{"sessionId":"s"}"#, &script);
    }
}

#[test]
fn an_orphaned_session_that_was_loaded_is_forgotten_when_it_is_closed() {
    let script = r##"
        agent  > result #2 {}
        BACK
        editor > session/close 5 {"sessionId":"s"}
        p1     < session/close #4 {"sessionId":"s"}
        p1     > ~session/close 1 {"sessionId":"s"}
        agent  < session/close #5 {"sessionId":"s"}
        agent  > result #5 {}
        p1     < result 1 {}
        p1     > result #4 {}
        editor < result 5 {}
        agent  > session/update {"sessionId":"s","n":5}
        p1     < ~session/update {"sessionId":"s","n":5}
        "##;
    check_orphan("session/load", r#"{"sessionId":"s"}"#, &script.replace("BACK", BACK));
}

/// The successor of the failed component gets the request first. If it cannot close the session, or is down, the next
/// component gets it.
#[test]
fn an_orphaned_session_is_closed_by_the_first_component_that_can() {
    let prelude = r##"
        editor > session/new 4 {}
        p1     < session/new #1 {}
        p1     > ~session/new 0 {}
        p2     < session/new #2 {}
        p2     > ~session/new 0 {}
        agent  < session/new #3 {}
        agent  > result #3 {"sessionId":"s"}
        p2     < result 0 {"sessionId":"s"}
        p1 exits with signal 9
        warning about p1: …; it is being restarted
        editor < error 4 …
        p2     < $/cancel_request {"requestId":"#2"}
        p2     > session/update {"sessionId":"s","n":1}
        p2     > result #2 {"sessionId":"s"}
        p2     < session/close r:1 {"sessionId":"s"}
        p2     > session/update {"sessionId":"s","n":2}
    "##;
    let refuses = r##"
        p2     > error r:1 {"code":-32601,"message":"no"}
        agent  < session/close r:2 {"sessionId":"s"}
        agent  > session/update {"sessionId":"s","n":3}
        agent  > result r:2 {}
    "##;
    check_live("editor p1+restart p2 agent", &format!("{prelude}{refuses}"));
    let exits = r##"
        p2 exits with signal 9
        warning about p2: …; it is being restarted
        agent  < session/close r:2 {"sessionId":"s"}
    "##;
    check_live("editor p1+restart p2+restart agent", &format!("{prelude}{exits}"));
    let closes = "p2 > result r:1 {}";
    check_live("editor p1+restart p2 agent", &format!("{prelude}{closes}"));
}
