//! What a user can want of a chain that runs: issue 12, item 1.

use testkit::script::{check, check_live};

/// The policy of a component is about failures. A command counts for more.
#[test]
fn a_component_is_restarted_on_command_whatever_its_policy_is() {
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
fn a_request_that_a_restarted_component_had_is_answered() {
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

/// The delay before a restart is for components that fail again and again. A user need not wait for it.
#[test]
fn a_component_that_waits_for_its_restart_is_started_at_once() {
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
fn a_proxy_is_left_out_on_command() {
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
fn a_command_that_cannot_be_followed_says_why_and_changes_nothing() {
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

/// Messages in both directions keep their order.
#[test]
fn messages_are_held_for_a_component_until_they_are_released() {
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

/// The gate opens when the component is gone: its next life must be told of the sessions.
#[test]
fn what_was_held_for_a_component_is_not_for_the_next_one() {
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

/// Every request is answered, also those whose answers are held when the chain ends.
#[test]
fn what_is_held_for_the_editor_is_delivered_when_the_chain_ends() {
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
fn a_component_that_is_being_started_is_not_restarted() {
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

/// A kind of message goes around a component that has crashed on it twice, but not if the component never got it.
#[test]
fn a_component_is_not_blamed_for_messages_that_were_held() {
    let life = r##"
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
    let [first, second] = ["1", "2"].map(|number| life.replace('N', number));
    check_live("editor p1+restart agent", &format!("{first}{second}{end}"));
}
