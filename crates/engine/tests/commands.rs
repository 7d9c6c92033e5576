//! The commands that a user can give while a chain runs (issue 12, item 1).

use testkit::script::{check, check_live};

#[test]
fn a_command_restarts_a_component_whatever_its_policy_is() {
    for policy in ["", "+bypass", "+restart"] {
        check_live(
            &format!("editor p1{policy} agent"),
            r##"
            editor > session/new 4 {}
            p1     < session/new #1 {}
            p1     > result #1 {"sessionId":"s"}
            editor < result 4 {"sessionId":"s"}
            restart p1
            warning about p1: proxy 'p1' (command: run-p1) was stopped by a command; it is being restarted
            editor > session/prompt 5 {"sessionId":"s"}
            p1 restarts
            started p1
            p1     < proxy/initialize #2 …
            p1     > result #2 {"protocolVersion":1}
            p1     < session/new r:1 {}
            p1     > result r:1 {"sessionId":"s"}
            warning about p1: proxy 'p1' is running again
            p1     < session/prompt #3 {"sessionId":"s"}
            "##,
        );
    }
}

#[test]
fn a_pending_request_of_a_restarted_component_is_answered() {
    check_live(
        "editor p1 agent",
        r##"
        editor > session/new 4 {}
        p1     < session/new #1 {}
        restart p1
        warning about p1: …
        editor < error 4 …was stopped by a command while answering session/new; it stopped and is being restarted; send the request again…
        "##,
    );
}

#[test]
fn a_restart_command_skips_the_restart_delay() {
    check_live(
        "editor p1+restart agent",
        r##"
        p1 exits with signal 9
        warning about p1: …; it is being restarted
        restart p1
        started p1
        p1     < proxy/initialize #1 …
        "##,
    );
}

#[test]
fn a_command_bypasses_a_proxy() {
    check_live(
        "editor p1 p2 agent",
        r##"
        bypass p1
        warning about p1: proxy 'p1' (command: run-p1) was stopped by a command; it is bypassed from now on
        editor > a 5 {}
        p2     < a #1 {}
        bypass p1
        warning about p1: proxy 'p1' cannot be bypassed: it is no longer part of the chain
        restart p1
        warning about p1: proxy 'p1' cannot be restarted: it is no longer part of the chain
        "##,
    );
}

#[test]
fn a_command_that_is_not_possible_warns_and_changes_nothing() {
    check_live(
        "editor p1 agent",
        r##"
        bypass agent
        warning about agent: agent 'agent' cannot be bypassed: a chain needs its agent
        restart editor
        warning about editor: seat 0 has no component that could be restarted
        release p1
        warning about p1: no messages are held for seat 1
        hold p1
        editor > b {}
        bypass p1
        warning about p1: messages are held for proxy 'p1'; release them before you bypass it
        release p1
        p1     < b {}
        editor > a 5 {}
        p1     < a #1 {}
        "##,
    );
    check(
        "editor p1 agent",
        r##"
        editor > initialize 0 {"protocolVersion":1}
        started p1 agent
        p1     < proxy/initialize #1 …
        restart p1
        warning about p1: proxy 'p1' cannot be restarted before it has answered initialize; try again later
        hold p1
        warning about p1: messages for proxy 'p1' cannot be held now: it is not live
        p1     > ~initialize 0 {"protocolVersion":1}
        agent  < initialize #2 {"protocolVersion":1}
        "##,
    );
}

#[test]
fn held_messages_are_delivered_in_order_when_they_are_released() {
    check_live(
        "editor p1 agent",
        r##"
        hold p1
        editor > a 5 {}
        agent  > u {"n":1}
        editor > b {}
        p1     > ~c {}
        agent  < c {}
        release p1
        p1     < a #1 {}
        p1     < ~u {"n":1}
        p1     < b {}
        editor > d {}
        p1     < d {}
        "##,
    );
}

/// The gate opens when the component ends, so that the set-up requests can be replayed.
#[test]
fn held_messages_are_dropped_when_their_component_ends() {
    check_live(
        "editor p1+restart agent",
        r##"
        hold p1
        editor > a {}
        p1 exits with signal 9
        warning about p1: …
        p1 restarts
        started p1
        p1     < proxy/initialize #1 …
        p1     > result #1 {"protocolVersion":1}
        warning about p1: proxy 'p1' is running again
        editor > b {}
        p1     < b {}
        "##,
    );
}

#[test]
fn held_messages_for_the_editor_are_delivered_when_the_chain_ends() {
    for end in ["stop", "editor closes its output"] {
        check_live(
            "editor p1 agent",
            &format!(
                r##"
                hold editor
                editor > a 5 {{}}
                p1     < a #1 {{}}
                p1     > result #1 {{}}
                {end}
                editor < result 5 {{}}
                finished clean
                "##
            ),
        );
    }
}

#[test]
fn a_component_that_is_being_started_cannot_be_restarted() {
    check_live(
        "editor p1+restart agent",
        r##"
        p1 exits with signal 9
        warning about p1: …
        p1 restarts
        started p1
        p1     < proxy/initialize #1 …
        restart p1
        warning about p1: proxy 'p1' is already being started
        hold p1
        warning about p1: messages for proxy 'p1' cannot be held now: it is not live
        "##,
    );
}

/// Messages that a component never received cannot have crashed it.
#[test]
fn held_messages_are_no_poison() {
    let script = r##"
        hold p1
        agent  > u {}
        p1 exits with status 1
        warning about p1: …; it is being restarted
        restart p1
        started p1
        p1     < proxy/initialize #N …
        p1     > result #N {"protocolVersion":1}
        warning about p1: proxy 'p1' is running again
    "##;
    let end = r##"
        agent  > u {}
        p1     < ~u {}
    "##;
    let [first, second] = ["1", "2"].map(|number| script.replace('N', number));
    check_live("editor p1+restart agent", &format!("{first}{second}{end}"));
}
