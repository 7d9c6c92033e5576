//! Chains in proxy mode, and nested conductors.

use testkit::script::check_live;

/// In proxy mode, the message must not go to a component behind the chain either.
#[test]
fn a_message_for_a_removed_component_does_not_leave_a_chain_in_proxy_mode() {
    check_live(
        "outer p1 p2",
        r##"
        p1    > _scp/html_panel/show {"id":"a"}
        outer < _scp/html_panel/show {"id":"a"}
        outer > ~_scp/html_panel/show {"id":"b"}
        p2    < ~_scp/html_panel/show {"id":"conductor.0.0.b"}
        p2    > _scp/html_panel/show {"id":"conductor.0.0.b"}
        p1    < ~_scp/html_panel/show {"id":"conductor.0.0.b"}
        p1    > _scp/html_panel/show {"id":"conductor.0.0.b"}
        outer < _scp/html_panel/show {"id":"b"}
        p1    > _scp/html_panel/show {"id":"b"}
        outer < _scp/html_panel/show {"id":"conductor.0.1.b"}
        reload p2
        reloaded
        outer > _scp/html_panel/event {"id":"a","value":"private"}
        outer > _scp/html_panel/event {"id":"conductor.0.1.b","value":"private"}
        outer > _scp/html_panel/event {"id":"b"}
        p2    < _scp/html_panel/event {"id":"conductor.0.0.b"}
        p2    > ~_scp/html_panel/event {"id":"conductor.0.0.b"}
        outer < ~_scp/html_panel/event {"id":"b"}
        "##,
    );
}

/// The mark of an id from behind the chain is removed on both ends.
#[test]
fn a_chain_in_proxy_mode_passes_ids_of_its_successor_unchanged() {
    check_live(
        "outer p1 p2",
        r##"
        outer > ~_scp/html_panel/show {"id": "conductor.9.3.a"}
        p2    < ~_scp/html_panel/show {"id": "conductor.0.0.conductor.9.3.a"}
        p2    > _scp/html_panel/show {"id": "conductor.0.0.conductor.9.3.a"}
        p1    < ~_scp/html_panel/show {"id": "conductor.0.0.conductor.9.3.a"}
        p1    > _scp/html_panel/show {"id": "conductor.0.0.conductor.9.3.a"}
        outer < _scp/html_panel/show {"id": "conductor.9.3.a"}
        outer > _scp/html_panel/event {"id": "conductor.9.3.a"}
        p1    < _scp/html_panel/event {"id": "conductor.0.0.conductor.9.3.a"}
        p1    > ~_scp/html_panel/event {"id": "conductor.0.0.conductor.9.3.a"}
        p2    < _scp/html_panel/event {"id": "conductor.0.0.conductor.9.3.a"}
        p2    > ~_scp/html_panel/event {"id": "conductor.0.0.conductor.9.3.a"}
        outer < ~_scp/html_panel/event {"id": "conductor.9.3.a"}
        # Two components with the same id, one of them behind the chain.
        p2    > _scp/html_panel/show {"id":"b"}
        p1    < ~_scp/html_panel/show {"id":"conductor.0.2.b"}
        p1    > _scp/html_panel/show {"id":"conductor.0.2.b"}
        outer < _scp/html_panel/show {"id":"b"}
        outer > ~_scp/html_panel/show {"id":"b"}
        p2    < ~_scp/html_panel/show {"id":"conductor.0.0.b"}
        p2    > _scp/html_panel/show {"id":"conductor.0.0.b"}
        p1    < ~_scp/html_panel/show {"id":"conductor.0.0.b"}
        p1    > _scp/html_panel/show {"id":"conductor.0.0.b"}
        outer < _scp/html_panel/show {"id":"conductor.0.0.b"}
        outer > _scp/html_panel/event {"id":"b"}
        p1    < _scp/html_panel/event {"id":"conductor.0.2.b"}
        p1    > ~_scp/html_panel/event {"id":"conductor.0.2.b"}
        p2    < _scp/html_panel/event {"id":"b"}
        # It is not for the successor, which has the same id.
        p2    > ~_scp/html_panel/event {"id":"b"}
        warning about p2: …
        # A component behind the chain has shown this before the chain was restarted.
        outer > _scp/html_panel/closed {"id":"c"}
        p1    < _scp/html_panel/closed {"id":"conductor.0.0.c"}
        p1    > ~_scp/html_panel/closed {"id":"conductor.0.0.c"}
        p2    < _scp/html_panel/closed {"id":"conductor.0.0.c"}
        p2    > ~_scp/html_panel/closed {"id":"conductor.0.0.c"}
        outer < ~_scp/html_panel/closed {"id":"c"}
        "##,
    );
}

/// The next receiver is the outer conductor, whose other components may have the same id.
#[test]
fn a_message_for_a_bypassed_component_does_not_leave_a_chain_in_proxy_mode() {
    check_live(
        "outer p1 p2+bypass",
        r##"
        p2    > _scp/html_panel/show {"id":"a"}
        p1    < ~_scp/html_panel/show {"id":"conductor.0.2.a"}
        p1    > _scp/html_panel/show {"id":"conductor.0.2.a"}
        outer < _scp/html_panel/show {"id":"a"}
        p2    exits with signal 9
        warning about p2: …
        outer > _scp/html_panel/event {"id":"a"}
        p1    < _scp/html_panel/event {"id":"conductor.0.2.a"}
        p1    > ~_scp/html_panel/event {"id":"conductor.0.2.a"}
        warning about p2: …dropped: proxy 'p2' owns the id, and the message was routed around it
        "##,
    );
}

/// A component behind the chain has seen a mark of the chain, for example in its log.
#[test]
fn a_mark_from_behind_a_chain_in_proxy_mode_is_an_id_like_any_other() {
    check_live(
        "outer p1",
        r##"
        outer > ~_scp/html_panel/show {"id":"conductor.0.1.a"}
        p1    < ~_scp/html_panel/show {"id":"conductor.0.0.conductor.0.1.a"}
        p1    > _scp/html_panel/show {"id":"conductor.0.0.conductor.0.1.a"}
        outer < _scp/html_panel/show {"id":"conductor.0.0.conductor.0.1.a"}
        outer > _scp/html_panel/event {"id":"conductor.0.0.conductor.0.1.a"}
        p1    < _scp/html_panel/event {"id":"conductor.0.0.conductor.0.1.a"}
        p1    > ~_scp/html_panel/event {"id":"conductor.0.0.conductor.0.1.a"}
        outer < ~_scp/html_panel/event {"id":"conductor.0.1.a"}
        "##,
    );
}

/// Both conductors are real. The owners are before, inside and behind the nested chain.
#[test]
fn ids_do_not_mix_across_nested_conductors() {
    check_live(
        "editor p1 inner(q1 q2) agent",
        r##"
        agent > _scp/html_panel/show {"id":"a"}
        q2    < ~_scp/html_panel/show {"id":"conductor.1.0.conductor.0.3.a"}
        q2    > _scp/html_panel/show {"id":"conductor.1.0.conductor.0.3.a"}
        q1    < ~_scp/html_panel/show {"id":"conductor.1.0.conductor.0.3.a"}
        q1    > _scp/html_panel/show {"id":"conductor.1.0.conductor.0.3.a"}
        p1    < ~_scp/html_panel/show {"id":"conductor.0.3.a"}
        p1    > _scp/html_panel/show {"id":"conductor.0.3.a"}
        editor < _scp/html_panel/show {"id":"a"}
        q1    > _scp/html_panel/show {"id":"a"}
        p1    < ~_scp/html_panel/show {"id":"conductor.0.2.a"}
        p1    > _scp/html_panel/show {"id":"conductor.0.2.a"}
        editor < _scp/html_panel/show {"id":"conductor.0.2.a"}
        q2    > _scp/html_panel/show {"id":"a"}
        q1    < ~_scp/html_panel/show {"id":"conductor.1.2.a"}
        q1    > _scp/html_panel/show {"id":"conductor.1.2.a"}
        p1    < ~_scp/html_panel/show {"id":"conductor.0.2.conductor.1.2.a"}
        p1    > _scp/html_panel/show {"id":"conductor.0.2.conductor.1.2.a"}
        editor < _scp/html_panel/show {"id":"conductor.1.2.a"}
        p1    > _scp/html_panel/show {"id":"a"}
        editor < _scp/html_panel/show {"id":"conductor.0.1.a"}
        # Now all of them are used.
        editor > _scp/html_panel/event {"id":"a"}
        p1    < _scp/html_panel/event {"id":"conductor.0.3.a"}
        p1    > ~_scp/html_panel/event {"id":"conductor.0.3.a"}
        q1    < _scp/html_panel/event {"id":"conductor.1.0.conductor.0.3.a"}
        q1    > ~_scp/html_panel/event {"id":"conductor.1.0.conductor.0.3.a"}
        q2    < _scp/html_panel/event {"id":"conductor.1.0.conductor.0.3.a"}
        q2    > ~_scp/html_panel/event {"id":"conductor.1.0.conductor.0.3.a"}
        agent < _scp/html_panel/event {"id":"a"}
        editor > _scp/html_panel/event {"id":"conductor.0.2.a"}
        p1    < _scp/html_panel/event {"id":"conductor.0.2.a"}
        p1    > ~_scp/html_panel/event {"id":"conductor.0.2.a"}
        q1    < _scp/html_panel/event {"id":"a"}
        editor > _scp/html_panel/event {"id":"conductor.1.2.a"}
        p1    < _scp/html_panel/event {"id":"conductor.0.2.conductor.1.2.a"}
        p1    > ~_scp/html_panel/event {"id":"conductor.0.2.conductor.1.2.a"}
        q1    < _scp/html_panel/event {"id":"conductor.1.2.a"}
        q1    > ~_scp/html_panel/event {"id":"conductor.1.2.a"}
        q2    < _scp/html_panel/event {"id":"a"}
        editor > _scp/html_panel/event {"id":"conductor.0.1.a"}
        p1    < _scp/html_panel/event {"id":"a"}
        "##,
    );
}
