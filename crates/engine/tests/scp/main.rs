//! Panels and comments of components: messages about an id reach the component that owns it, and no other one.
//!
//! The marks of the outermost conductor begin with `conductor.0.`, those of a nested one with `conductor.1.`.

mod absent_owners;
mod proxy_mode;

use testkit::script::check_live;

/// The editor shows panels of two components with the same id. Each step is a line of a script, and all that follows from it.
const STEPS: [&str; 6] = [
    r##"
        p2    > _scp/html_panel/show {"id":"a"}
        p1    < ~_scp/html_panel/show {"id":"conductor.0.2.a"}"##,
    r##"
        p1    > _scp/html_panel/show {"id":"conductor.0.2.a"}
        editor < _scp/html_panel/show {"id":"a"}"##,
    r##"
        agent > _scp/html_panel/show {"id":"a"}
        p2    < ~_scp/html_panel/show {"id":"conductor.0.3.a"}"##,
    r##"
        p2    > _scp/html_panel/show {"id":"conductor.0.3.a"}
        p1    < ~_scp/html_panel/show {"id":"conductor.0.3.a"}"##,
    r##"
        p1    > _scp/html_panel/show {"id":"conductor.0.3.a"}
        editor < _scp/html_panel/show {"id":"conductor.0.3.a"}"##,
    r##"
        editor > _scp/html_panel/event {"id":"a"}
        p1    < _scp/html_panel/event {"id":"conductor.0.2.a"}"##,
];

#[test]
fn an_editor_gets_the_id_as_the_component_has_written_it() {
    for id in ["a", "a\\u0041\\n\\\"\\ud800/", "ü.1.", "", "c:1"] {
        let script = r##"
        agent > _scp/html_panel/show 7 {"x": 1.10, "id" : "ID","contents":"<p>\u0041</p>"}
        p1    < ~_scp/html_panel/show #1 {"x": 1.10, "id" : "conductor.0.2.ID","contents":"<p>\u0041</p>"}
        p1    > _scp/html_panel/show 8 {"x": 1.10, "id" : "conductor.0.2.ID","contents":"<p>\u0041</p>"}
        editor < _scp/html_panel/show #2 {"x": 1.10, "id" : "ID","contents":"<p>\u0041</p>"}
        editor > result #2 {}
        p1    < result 8 {}
        p1    > result #1 {}
        agent < result 7 {}
        editor > _scp/html_panel/event {"widget":"w", "id" : "ID", "kind":"click"}
        p1    < _scp/html_panel/event {"widget":"w", "id" : "conductor.0.2.ID", "kind":"click"}
        p1    > ~_scp/html_panel/event {"widget":"w", "id" : "conductor.0.2.ID", "kind":"click"}
        agent < _scp/html_panel/event {"widget":"w", "id" : "ID", "kind":"click"}
        "##;
        check_live("editor p1 agent", &script.replace("ID", id));
    }
}

#[test]
fn the_messages_of_two_components_with_the_same_id_do_not_mix() {
    check_live(
        "editor p1 p2 agent",
        r##"
        p1    > _scp/html_panel/show {"id":"a","label":"1"}
        editor < _scp/html_panel/show {"id":"a","label":"1"}
        p2    > _scp/html_panel/show {"id":"a","label":"2"}
        p1    < ~_scp/html_panel/show {"id":"conductor.0.2.a","label":"2"}
        p1    > _scp/html_panel/show {"id":"conductor.0.2.a","label":"2"}
        editor < _scp/html_panel/show {"id":"conductor.0.2.a","label":"2"}
        # Each gets its own messages. The first component does not pass its own on.
        editor > _scp/html_panel/event {"id":"a","widget":"w","kind":"click"}
        p1    < _scp/html_panel/event {"id":"a","widget":"w","kind":"click"}
        editor > _scp/html_panel/closed {"id":"conductor.0.2.a"}
        p1    < _scp/html_panel/closed {"id":"conductor.0.2.a"}
        p1    > ~_scp/html_panel/closed {"id":"conductor.0.2.a"}
        p2    < _scp/html_panel/closed {"id":"a"}
        # The question about one panel is not answered with the other one.
        p2    > _scp/html_panel/get 1 {"id":"a"}
        p1    < ~_scp/html_panel/get #1 {"id":"conductor.0.2.a"}
        p1    > _scp/html_panel/get 2 {"id":"conductor.0.2.a"}
        editor < _scp/html_panel/get #2 {"id":"conductor.0.2.a"}
        editor > result #2 "<p>a</p>"
        p1    < result 2 "<p>a</p>"
        p1    > result #1 "<p>a</p>"
        p2    < result 1 "<p>a</p>"
        p1    > _scp/html_panel/get 3 {"id":"a"}
        editor < _scp/html_panel/get #3 {"id":"a"}
        "##,
    );
}

#[test]
fn panels_and_comments_with_the_same_id_are_different() {
    check_live(
        "editor p1 agent",
        r##"
        p1    > _scp/html_panel/show {"id":"a"}
        editor < _scp/html_panel/show {"id":"a"}
        agent > _scp/file_comment/show {"id":"a","url":"file:///x","start":{"line":1},"can_reply":true}
        p1    < ~_scp/file_comment/show {"id":"conductor.0.2.a",…
        p1    > _scp/file_comment/show {"id":"conductor.0.2.a","can_reply":true}
        editor < _scp/file_comment/show {"id":"a","can_reply":true}
        editor > _scp/file_comment/reply {"id":"a","contents":"*why?*"}
        p1    < _scp/file_comment/reply {"id":"conductor.0.2.a","contents":"*why?*"}
        p1    > ~_scp/file_comment/reply {"id":"conductor.0.2.a","contents":"*why?*"}
        agent < _scp/file_comment/reply {"id":"a","contents":"*why?*"}
        editor > _scp/html_panel/closed {"id":"a"}
        p1    < _scp/html_panel/closed {"id":"a"}
        "##,
    );
}

#[test]
fn an_id_is_free_when_the_editor_has_cleared_it() {
    for (method, more) in [("html_panel", ""), ("file_comment", r#","can_reply":true"#)] {
        let script = r##"
        p1    > _scp/KIND/show {"id":"a"MORE}
        editor < _scp/KIND/show {"id":"a"MORE}
        p1    > _scp/KIND/clear 1 {"id":"a"}
        editor < _scp/KIND/clear #1 {"id":"a"}
        # The editor may still send something about the panel, so the id is not free.
        agent > _scp/KIND/clear {"id":"a"}
        p1    < ~_scp/KIND/clear {"id":"conductor.0.2.a"}
        p1    > _scp/KIND/clear {"id":"conductor.0.2.a"}
        editor < _scp/KIND/clear {"id":"conductor.0.2.a"}
        editor > result #1 {}
        p1    < result 1 {}
        agent > _scp/KIND/show {"id":"a"MORE}
        p1    < ~_scp/KIND/show {"id":"conductor.0.2.a"MORE}
        p1    > _scp/KIND/show {"id":"conductor.0.2.a"MORE}
        editor < _scp/KIND/show {"id":"a"MORE}
        p1    > _scp/KIND/show {"id":"a"MORE}
        editor < _scp/KIND/show {"id":"conductor.0.1.a"MORE}
        "##;
        check_live("editor p1 agent", &script.replace("KIND", method).replace("MORE", more));
    }
}

/// A component with a user interface of its own keeps the panels of the components behind it.
#[test]
fn a_component_between_the_owner_and_the_editor_can_act_for_the_editor() {
    check_live(
        "editor p1 companion p2 agent",
        r##"
        p2    > _scp/html_panel/show 1 {"id":"a"}
        companion < ~_scp/html_panel/show #1 {"id":"conductor.0.3.a"}
        companion > result #1 {}
        p2    < result 1 {}
        agent > _scp/html_panel/show {"id":"a"}
        p2    < ~_scp/html_panel/show {"id":"conductor.0.4.a"}
        p2    > _scp/html_panel/show {"id":"conductor.0.4.a"}
        companion < ~_scp/html_panel/show {"id":"conductor.0.4.a"}
        companion > ~_scp/html_panel/event {"id":"conductor.0.4.a","kind":"click"}
        p2    < _scp/html_panel/event {"id":"conductor.0.4.a","kind":"click"}
        p2    > ~_scp/html_panel/event {"id":"conductor.0.4.a","kind":"click"}
        agent < _scp/html_panel/event {"id":"a","kind":"click"}
        companion > ~_scp/html_panel/closed {"id":"conductor.0.3.a"}
        p2    < _scp/html_panel/closed {"id":"a"}
        "##,
    );
}

#[test]
fn a_message_goes_no_further_than_its_owner() {
    check_live(
        "editor p1 p2 agent",
        r##"
        p2    > _scp/html_panel/show {"id":"a"}
        p1    < ~_scp/html_panel/show {"id":"conductor.0.2.a"}
        p1    > _scp/html_panel/show {"id":"conductor.0.2.a"}
        editor < _scp/html_panel/show {"id":"a"}
        # The owner passes it on, or a component invents it.
        p2    > ~_scp/html_panel/event {"id":"a"}
        warning about p2: notification _scp/html_panel/event dropped: the id does not belong to a component behind proxy 'p2'
        p2    > ~_scp/html_panel/event {"id":"conductor.0.2.a"}
        warning about p2: …the id does not belong to a component behind proxy 'p2'
        p2    > ~_scp/html_panel/event {"id":"conductor.0.1.a"}
        warning about p2: …the id does not belong to a component behind proxy 'p2'
        p1    > ~_scp/html_panel/event {"id":"a"}
        warning about p1: …
        p1    > ~_scp/html_panel/event {"id":"conductor.0.0.a"}
        warning about p1: …
        p1    > ~_scp/html_panel/event {"id":"conductor.0.9.a"}
        warning about p1: …
        p1    > ~_scp/html_panel/event 5 {"id":"a"}
        p1    < error 5 {"code":-32602,"message":"_scp/html_panel/event has no receiver: the id does not belong to a component behind proxy 'p1' [more: conductor errors no-receiver]",…
        # The editor uses an id that nobody has shown.
        editor > _scp/html_panel/closed {"id":"b"}
        editor > _scp/file_comment/reply {"id":"a"}
        editor > _scp/html_panel/closed 6 {"id":"b"}
        editor < error 6 …the id does not belong to a component behind the editor…
        "##,
    );
}

/// An id may be chosen so that it looks like one of another component.
#[test]
fn a_component_cannot_use_the_mark_of_another_one() {
    check_live(
        "editor p1 p2 agent",
        r##"
        p1    > _scp/html_panel/show {"id":"a"}
        editor < _scp/html_panel/show {"id":"a"}
        agent > _scp/html_panel/clear {"id":"conductor.0.1.a"}
        p2    < ~_scp/html_panel/clear {"id":"conductor.0.3.conductor.0.1.a"}
        p2    > _scp/html_panel/clear {"id":"conductor.0.3.conductor.0.1.a"}
        p1    < ~_scp/html_panel/clear {"id":"conductor.0.3.conductor.0.1.a"}
        p1    > _scp/html_panel/clear {"id":"conductor.0.3.conductor.0.1.a"}
        editor < _scp/html_panel/clear {"id":"conductor.0.3.conductor.0.1.a"}
        editor > _scp/html_panel/closed {"id":"a"}
        p1    < _scp/html_panel/closed {"id":"a"}
        editor > _scp/html_panel/closed {"id":"conductor.0.3.conductor.0.1.a"}
        p1    < _scp/html_panel/closed {"id":"conductor.0.3.conductor.0.1.a"}
        p1    > ~_scp/html_panel/closed {"id":"conductor.0.3.conductor.0.1.a"}
        p2    < _scp/html_panel/closed {"id":"conductor.0.3.conductor.0.1.a"}
        p2    > ~_scp/html_panel/closed {"id":"conductor.0.3.conductor.0.1.a"}
        agent < _scp/html_panel/closed {"id":"conductor.0.1.a"}
        "##,
    );
}

#[test]
fn malformed_and_other_messages_pass_unchanged() {
    for (method, params) in [
        ("_scp/html_panel/show", r#"{"label":"a"}"#),
        ("_scp/html_panel/show", r#"{"id":7}"#),
        ("_scp/html_panel/clear", r#"{"id":null}"#),
        ("_scp/file_comment/show", r#"["a"]"#),
        ("_scp/html_panel/get", ""),
        ("_scp/html_panel/event", r#"{"id":"a"}"#),
        ("_scp/html_panel/other", r#"{"id":"a"}"#),
        ("_scp/ide_operation/open-file", r#"{"id":"a","url":"file:///x"}"#),
    ] {
        let script = format!("p1 > {method} {params}\neditor < {method} {params}");
        check_live("editor p1 agent", &script);
    }
    for (method, params) in [
        ("_scp/html_panel/event", r#"{"id":7}"#),
        ("_scp/html_panel/closed", ""),
        ("_scp/html_panel/show", r#"{"id":"a"}"#),
    ] {
        let script = format!("editor > {method} {params}\np1 < {method} {params}");
        check_live("editor p1 agent", &script);
    }
}

/// Very long ids are not remembered, so they keep their mark.
#[test]
fn a_very_long_id_works() {
    let script = r##"
    p1    > _scp/html_panel/show {"id":"LONG"}
    editor < _scp/html_panel/show {"id":"conductor.0.1.LONG"}
    editor > _scp/html_panel/closed {"id":"conductor.0.1.LONG"}
    p1    < _scp/html_panel/closed {"id":"LONG"}
    "##;
    check_live("editor p1 agent", &script.replace("LONG", &"x".repeat(50_000)));
}

/// The component has crashed on such messages before, so they are routed around it.
#[test]
fn a_message_that_skips_its_owner_reaches_no_other_component() {
    check_live(
        "editor p1 agent",
        r##"
        p1 has crashed on _scp/html_panel/event
        p1 has crashed on ~_scp/html_panel/show
        p1    > _scp/html_panel/show {"id":"a"}
        editor < _scp/html_panel/show {"id":"a"}
        editor > _scp/html_panel/event {"id":"a"}
        p1    < _conductor/barrier #1 …
        p1    > error #1 {"code":-32601,"message":"no"}
        warning about p1: notification _scp/html_panel/event dropped: proxy 'p1' owns the id, …
        # The messages of other owners go around it.
        agent > _scp/html_panel/show {"id":"a"}
        p1    < ~_conductor/barrier #2 …
        p1    > error #2 {"code":-32601,"message":"no"}
        editor < _scp/html_panel/show {"id":"conductor.0.2.a"}
        editor > _scp/html_panel/event 7 {"id":"conductor.0.2.a"}
        p1    < _conductor/barrier #3 …
        p1    > error #3 {"code":-32601,"message":"no"}
        agent < _scp/html_panel/event #4 {"id":"a"}
        "##,
    );
}

#[test]
fn a_guard_sees_the_messages_for_other_components() {
    check_live(
        "editor p1! p2 agent",
        r##"
        p2    > _scp/file_comment/show 1 {"id":"a"}
        p1    < ~_scp/file_comment/show #1 {"id":"conductor.0.2.a"}
        p1    > error #1 {"code":-32000,"message":"no"}
        p2    < error 1 {"code":-32000,"message":"no"}
        "##,
    );
}

/// The process tests have the other generations.
#[test]
fn components_of_two_generations_own_panels() {
    for generation in ["P5", "P4"] {
        for chain in ["editor p1:GEN p2 agent", "editor p1 p2:GEN agent"] {
            let script = format!(
                r##"
                {}{}
                p1    > _scp/html_panel/show {{"id":"a"}}
                editor < _scp/html_panel/show {{"id":"conductor.0.1.a"}}
                {}
                p1    > ~_scp/html_panel/event {{"id":"conductor.0.2.a"}}
                p2    < _scp/html_panel/event {{"id":"a"}}
                editor > _scp/html_panel/closed {{"id":"conductor.0.1.a"}}
                p1    < _scp/html_panel/closed {{"id":"a"}}
                "##,
                STEPS[0], STEPS[1], STEPS[5],
            );
            check_live(&chain.replace("GEN", generation), &script);
        }
    }
}
