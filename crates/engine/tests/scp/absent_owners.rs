//! Components that restart, are bypassed or are removed while the editor shows their panels and comments.

use testkit::script::check_live;

use super::STEPS;

/// What follows `STEPS`.
const LAST_STEP: &str = r##"
        p1    > ~_scp/html_panel/event {"id":"conductor.0.2.a"}
        p2    < _scp/html_panel/event {"id":"a"}
        editor > _scp/html_panel/event {"id":"conductor.0.3.a"}
        p1    < _scp/html_panel/event {"id":"conductor.0.3.a"}
        p1    > ~_scp/html_panel/event {"id":"conductor.0.3.a"}
        p2    < _scp/html_panel/event {"id":"conductor.0.3.a"}
        p2    > ~_scp/html_panel/event {"id":"conductor.0.3.a"}
        agent < _scp/html_panel/event {"id":"a"}"##;

/// The restart of a proxy that has no sessions.
fn restart(name: &str) -> String {
    let script = r##"
        NAME  exits with signal 9
        warning about NAME: …
        NAME  restarts
        started NAME
        NAME  < proxy/initialize #1 …
        NAME  > ~initialize 0 {"protocolVersion":1}
        NAME  < result 0 …
        NAME  > result #1 {"protocolVersion":1}
        warning about NAME: proxy 'NAME' is running again
    "##;
    script.replace("NAME", name)
}

/// A component is killed after each step of the conversation.
#[test]
fn a_restarted_component_still_owns_its_ids() {
    for killed in ["p1", "p2"] {
        for after in 0..=STEPS.len() {
            let mut lines = STEPS.to_vec();
            let restart = restart(killed);
            lines.insert(after, &restart);
            lines.push(LAST_STEP);
            check_live("editor p1+restart p2+restart agent", &lines.join("\n"));
        }
    }
}

#[test]
fn a_message_for_a_component_that_is_down_waits_for_its_restart() {
    let script = format!(
        r##"
        {}{}
        p2    exits with signal 9
        warning about p2: …
        editor > _scp/html_panel/event {{"id":"a"}}
        p1    < _scp/html_panel/event {{"id":"conductor.0.2.a"}}
        p1    > ~_scp/html_panel/event {{"id":"conductor.0.2.a"}}
        p2    restarts
        started p2
        p2    < proxy/initialize #1 …
        p2    > ~initialize 0 {{"protocolVersion":1}}
        p2    < result 0 …
        p2    > result #1 {{"protocolVersion":1}}
        warning about p2: proxy 'p2' is running again
        p2    < _scp/html_panel/event {{"id":"a"}}
        "##,
        STEPS[0], STEPS[1],
    );
    check_live("editor p1 p2+restart agent", &script);
}

#[test]
fn a_message_for_a_bypassed_component_reaches_no_other_one() {
    let script = format!(
        r##"
        {}{}
        agent > _scp/html_panel/show {{"id":"b"}}
        p2    < ~_scp/html_panel/show {{"id":"conductor.0.3.b"}}
        p2    > _scp/html_panel/show {{"id":"conductor.0.3.b"}}
        p1    < ~_scp/html_panel/show {{"id":"conductor.0.3.b"}}
        p1    > _scp/html_panel/show {{"id":"conductor.0.3.b"}}
        editor < _scp/html_panel/show {{"id":"b"}}
        p2    exits with signal 9
        warning about p2: …
        editor > _scp/html_panel/event {{"id":"a"}}
        p1    < _scp/html_panel/event {{"id":"conductor.0.2.a"}}
        p1    > ~_scp/html_panel/event {{"id":"conductor.0.2.a"}}
        warning about p2: notification _scp/html_panel/event dropped: proxy 'p2' owns the id, and the message was routed around it
        p1    > ~_scp/html_panel/event 5 {{"id":"conductor.0.2.a"}}
        p1    < error 5 {{"code":-32602,"message":"_scp/html_panel/event has no receiver: proxy 'p2' owns the id, …
        # Other owners are not affected.
        editor > _scp/html_panel/event {{"id":"b"}}
        p1    < _scp/html_panel/event {{"id":"conductor.0.3.b"}}
        p1    > ~_scp/html_panel/event {{"id":"conductor.0.3.b"}}
        agent < _scp/html_panel/event {{"id":"b"}}
        # The editor still has the panel, so its id is not free.
        agent > _scp/html_panel/show {{"id":"a"}}
        p1    < ~_scp/html_panel/show {{"id":"conductor.0.3.a"}}
        p1    > _scp/html_panel/show {{"id":"conductor.0.3.a"}}
        editor < _scp/html_panel/show {{"id":"conductor.0.3.a"}}
        "##,
        STEPS[0], STEPS[1],
    );
    check_live("editor p1 p2+bypass agent", &script);
}

/// A component that a reload has removed still owns the panels that the editor shows. Another component may have one with
/// the same id.
#[test]
fn a_message_for_a_removed_component_reaches_no_other_one() {
    check_live(
        "editor p1 p2 agent",
        r##"
        p1    > _scp/html_panel/show {"id":"a"}
        editor < _scp/html_panel/show {"id":"a"}
        p2    > _scp/html_panel/show {"id":"a"}
        p1    < ~_scp/html_panel/show {"id":"conductor.0.2.a"}
        p1    > _scp/html_panel/show {"id":"conductor.0.2.a"}
        editor < _scp/html_panel/show {"id":"conductor.0.2.a"}
        agent > _scp/file_comment/show {"id":"b"}
        p2    < ~_scp/file_comment/show {"id":"conductor.0.3.b"}
        p2    > _scp/file_comment/show {"id":"conductor.0.3.b"}
        p1    < ~_scp/file_comment/show {"id":"conductor.0.3.b"}
        p1    > _scp/file_comment/show {"id":"conductor.0.3.b"}
        editor < _scp/file_comment/show {"id":"b"}
        reload agent
        reloaded
        editor > _scp/html_panel/event {"id":"a","value":"private"}
        editor > _scp/html_panel/event {"id":"conductor.0.2.a","value":"private"}
        editor > _scp/html_panel/event 5 {"id":"a"}
        editor < error 5 {"code":-32602,…
        editor > _scp/file_comment/reply {"id":"b"}
        agent < _scp/file_comment/reply {"id":"b"}
        "##,
    );
}
