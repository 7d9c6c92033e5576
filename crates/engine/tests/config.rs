//! Requests about the options of components: `_proxy/config`.

use testkit::script::check_live;

#[test]
fn the_component_that_is_meant_learns_it_from_the_conductor() {
    check_live(
        "editor p1 p2 agent",
        r##"
        editor > _proxy/config 5 {"component":"p2","op":"get","x":1.10}
        p1     < _proxy/config #1 {"component":"p2","op":"get","x":1.10,"route":"0.1"}
        p1     > ~_proxy/config 0 {"component":"p2","op":"get","x":1.10,"route":"0.1"}
        p2     < _proxy/config #2 {"op":"get","x":1.10,"route":"0.1","here":true}
        p2     > result #2 {"values":{"a":1}}
        p1     < result 0 {"values":{"a":1}}
        p1     > result #1 {"values":{"a":1}}
        editor < result 5 {"values":{"a":1}}
        # The agent as well.
        p1     > ~_proxy/config 1 {"component":"agent","op":"schema"}
        p2     < _proxy/config #3 {"component":"agent","op":"schema","route":"0.2"}
        p2     > ~_proxy/config 0 {"component":"agent","op":"schema","route":"0.2"}
        agent  < _proxy/config #4 {"op":"schema","route":"0.2","here":true}
        agent  > result #4 {"schema":{}}
        p2     < result 0 {"schema":{}}
        p2     > result #3 {"schema":{}}
        p1     < result 1 {"schema":{}}
        "##,
    );
}

/// Checklist 94.
#[test]
fn a_request_of_another_shape_passes_hop_by_hop_and_unchanged() {
    check_live(
        "editor p1 agent",
        r##"
        editor > _proxy/config 5 {"n":1.10, "component":"p1"}
        p1     < _proxy/config #1 {"n":1.10, "component":"p1"}
        p1     > ~_proxy/config 0 {"n":1.10, "component":"p1"}
        agent  < _proxy/config #2 {"n":1.10, "component":"p1"}
        agent  > result #2 {"n": 1e400}
        p1     < result 0 {"n": 1e400}
        p1     > result #1 {"n": 1e400}
        editor < result 5 {"n": 1e400}
        # Toward the editor, and as notifications, they have no meaning.
        agent  > _proxy/config 6 {"component":"p1","op":"get","here":true}
        p1     < ~_proxy/config #3 {"component":"p1","op":"get","here":true}
        p1     > _proxy/config 7 {"component":"p1","op":"get","here":true}
        editor < _proxy/config #4 {"component":"p1","op":"get","here":true}
        editor > _proxy/config {"component":"p1","op":"get"}
        p1     < _proxy/config {"component":"p1","op":"get"}
        # Programs may read a member that occurs twice differently.
        editor > _proxy/config 8 {"component":"p1","op":"get","op":"set"}
        p1     < _proxy/config #5 {"component":"p1","op":"get","op":"set"}
        "##,
    );
}

#[test]
fn no_peer_can_pretend_to_be_the_conductor() {
    check_live(
        "editor p1 p2 agent",
        r##"
        editor > _proxy/config 5 {"op":"get","here":true,"component":"p1"}
        p1     < _proxy/config #1 {"op":"get","route":"0.1","here":true}
        editor > _proxy/config 6 {"here":true,"op":"x"}
        p1     < _proxy/config #2 {"op":"x"}
        p1     > ~_proxy/config 0 {"here":true,"op":"get","op":"set"}
        p2     < _proxy/config #3 {"op":"get","op":"set"}
        p1     > ~_proxy/config 1 {"component":"p2","op":"set","values":{},"here":true}
        p1     < error 1 {"code":-32602,…only the editor can set options, not proxy 'p1'…
        # A mark that p1 has not received, or with another operation.
        p1     > ~_proxy/config 2 {"op":"set","values":{},"route":"0.9"}
        p1     < error 2 {"code":-32602,…was answered already…
        p1     > ~_proxy/config 3 {"op":"get","route":"7.1"}
        p1     < error 3 {"code":-32602,…does not belong to this chain…
        editor > _proxy/config 7 {"op":"get","component":"p2"}
        p1     < _proxy/config #4 {"op":"get","component":"p2","route":"0.2"}
        p1     > ~_proxy/config 4 {"op":"set","values":{},"component":"p2","route":"0.2"}
        p1     < error 4 {"code":-32602,…has not received this request…
        p1     > ~_proxy/config 5 {"op":"get","route":"0.2"}
        p2     < _proxy/config #5 {"op":"get","route":"0.2","here":true}
        p1     > ~_proxy/config 6 {"op":"get","route":"0.2"}
        p1     < error 6 {"code":-32602,…has not received this request…
        p2     > ~_proxy/config 0 {"op":"get","route":"0.2","here":true}
        p2     < error 0 {"code":-32602,…proxy 'p2' takes no options while it runs…
        "##,
    );
}

#[test]
fn a_component_that_passes_the_request_on_takes_no_options() {
    check_live(
        "editor p1 agent",
        r##"
        editor > _proxy/config 5 {"op":"get","component":"p1"}
        p1     < _proxy/config #1 {"op":"get","route":"0.1","here":true}
        p1     > ~_proxy/config 0 {"op":"get","route":"0.1","here":true}
        p1     < error 0 {"code":-32602,…_proxy/config: proxy 'p1' takes no options while it runs…
        p1     > error #1 {"code":-32602,"message":"no options"}
        editor < error 5 {"code":-32602,"message":"no options"}
        # An agent does not know the method.
        editor > _proxy/config 6 {"op":"get","component":"agent"}
        p1     < _proxy/config #2 {"op":"get","component":"agent","route":"0.2"}
        p1     > ~_proxy/config 0 {"op":"get","component":"agent","route":"0.2"}
        agent  < _proxy/config #3 {"op":"get","route":"0.2","here":true}
        agent  > error #3 {"code":-32601,"message":"method not found"}
        p1     < error 0 {"code":-32602,…_proxy/config: agent 'agent' takes no options while it runs…
        p1     > error #2 {"code":-32602,"message":"no options"}
        editor < error 6 {"code":-32602,"message":"no options"}
        editor > _proxy/config 7 {"op":"get"}
        editor < result 7 {"values":{"version":"","components":[{"name":"p1","role":"proxy","options":false},{"name":"agent","role":"agent","options":false}],…
        "##,
    );
}

#[test]
fn unknown_components_are_answered_at_the_first_hop() {
    check_live(
        "editor filter p2 agent",
        r##"
        editor > _proxy/config 5 {"op":"get","component":"fitler"}
        editor < error 5 {"code":-32602,…_proxy/config: there is no component \"fitler\"; did you mean `filter`? The components are filter, p2, agent, conductor…
        p2     > ~_proxy/config 6 {"op":"get","component":"filter"}
        p2     < error 6 {"code":-32602,…proxy 'filter' is not behind proxy 'p2', and requests about options travel toward the agent…
        p2     > ~_proxy/config 7 {"op":"get","component":"p2"}
        p2     < error 7 {"code":-32602,…is not behind…
        bypass filter
        warning about filter: …
        editor > _proxy/config 8 {"op":"get","component":"filter"}
        editor < error 8 {"code":-32602,…proxy 'filter' is no longer part of the chain…
        "##,
    );
}

#[test]
fn the_conductor_answers_for_itself() {
    check_live(
        "editor p1 agent",
        r##"
        timeout cancel 1500
        editor > _proxy/config 5 {"op":"get","component":"conductor"}
        editor < result 5 {"values":{"version":"","components":[{"name":"p1","role":"proxy"},{"name":"agent","role":"agent"}],"answer-limit":"off","prompt-limit":"off","cancel-limit":1.5,"notices":false,…
        editor > _proxy/config 6 {"op":"set","values":{"notices":true,"prompt-limit":2}}
        editor < result 6 {"values":{…"prompt-limit":2,"cancel-limit":1.5,"notices":true,…},"applied":"now"}
        # All or nothing.
        editor > _proxy/config 7 {"op":"set","values":{"prompt-limit":"off","anwser-limit":3}}
        editor < error 7 {"code":-32602,…conductor has no option `anwser-limit`; did you mean `answer-limit`?…
        editor > _proxy/config 8 {"op":"set","values":{"grace":3}}
        editor < error 8 {"code":-32602,…option `grace` cannot be changed by a message; change the configuration file and run `conductor reload`…
        editor > _proxy/config 9 {"op":"set","values":{"cancel-limit":-1}}
        editor < error 9 {"code":-32602,…option `cancel-limit`: -1 is not a number of seconds…
        editor > _proxy/config 10 {"op":"set"}
        editor < error 10 {"code":-32602,…`values`…
        p1     > ~_proxy/config 0 {"op":"set","values":{}}
        p1     < error 0 {"code":-32602,…only the editor can set options…
        p1     > ~_proxy/config 1 {"op":"schema"}
        p1     < result 1 {"schema":…"answer-limit"…
        # The new limit is in effect.
        editor > session/prompt 11 {}
        p1     < session/prompt #1 {}
        time 2000
        editor < error 11 {"code":-32603,…showed no activity for 2 s…
        finished failed: …
        "##,
    );
}

#[test]
fn the_options_of_a_managed_component_are_those_of_the_shell() {
    check_live(
        "editor p1 p2 agent",
        r##"
        p2 is managed
        editor > _proxy/config 5 {"op":"get","component":"p2"}
        p1     < _proxy/config #1 {"op":"get","component":"p2","route":"0.1"}
        p1     > ~_proxy/config 0 {"op":"get","component":"p2","route":"0.1"}
        request 1 for p2: Get {}
        options of request 1 are {"values":{"a":1}}
        p1     < result 0 {"values":{"a":1}}
        p1     > result #1 {"values":{"a":1}}
        editor < result 5 {"values":{"a":1}}
        # A component cannot be inside of it.
        p1     > ~_proxy/config 1 {"op":"schema","component":"p2/x"}
        p1     < error 1 {"code":-32602,…proxy 'p2' does not know a component \"x\" inside of it…
        "##,
    );
}

#[test]
fn new_options_restart_an_idle_component() {
    check_live(
        "editor p1 p2+restart agent",
        r##"
        p2 is managed
        notify editor
        editor > session/prompt 4 {"sessionId":"s"}
        p1     < session/prompt #1 {"sessionId":"s"}
        p1     > ~session/prompt 0 {"sessionId":"s"}
        p2     < session/prompt #2 {"sessionId":"s"}
        editor > _proxy/config 5 {"op":"set","component":"p2","values":{"a":2}}
        p1     < _proxy/config #3 {"op":"set","component":"p2","values":{"a":2},"route":"0.1"}
        p1     > ~_proxy/config 1 {"op":"set","component":"p2","values":{"a":2},"route":"0.1"}
        request 1 for p2: Set {"a":2}
        options of request 1 are {"values":{"a":2}}
        # Another one waits for the first one, and is wrong.
        editor > _proxy/config 6 {"op":"set","component":"p2","values":{"b":2}}
        p1     < _proxy/config #5 {"op":"set","component":"p2","values":{"b":2},"route":"0.2"}
        p1     > ~_proxy/config 2 {"op":"set","component":"p2","values":{"b":2},"route":"0.2"}
        # The turn ends.
        p2     > result #2 {"stopReason":"end_turn"}
        p1     < result 0 {"stopReason":"end_turn"}
        p2     < _proxy/config r:1 {"op":"get","route":"0.1"}
        # What it has received before comes out before.
        p2     > ~a {}
        agent  < a {}
        p2     > ~_proxy/config 9 {"op":"get","route":"0.1"}
        apply options 1
        time 1
        started p2
        p2     < proxy/initialize #7 …
        editor > b {}
        p1     < b {}
        p1     > ~b {}
        p2     > result #7 {"protocolVersion":1}
        p2     < b {}
        p1     < result 1 {"values":{"a":2},"applied":"restarted"}
        request 2 for p2: Set {"b":2}
        options of request 2 are wrong: there is no option `b` [more: conductor errors misused-built-in]
        p1     < error 2 {"code":-32602,"message":"there is no option `b` [more: conductor errors misused-built-in]","data":{"code":"misused-built-in"}}
        # No change needs no restart.
        p1     > ~_proxy/config 3 {"op":"schema","component":"p2"}
        request 3 for p2: Schema {}
        options of request 3 stay {"schema":{}}
        p1     < result 3 {"schema":{}}
        "##,
    );
}

#[test]
fn a_component_that_fails_with_new_options_gets_the_old_ones() {
    check_live(
        "editor p1 agent",
        r##"
        p1 is managed
        editor > _proxy/config 5 {"op":"set","component":"p1","values":{"a":2}}
        request 1 for p1: Set {"a":2}
        options of request 1 are {"values":{"a":2}}
        p1     < _proxy/config r:1 {"op":"get","route":"0.1"}
        p1     > ~_proxy/config 9 {"op":"get","route":"0.1"}
        apply options 1
        time 1
        started p1
        p1     < proxy/initialize #2 …
        p1 exits with status 3: no such file
        drop options 1
        warning about p1: …
        editor < error 5 {"code":-32602,"message":"proxy 'p1' crashed with the new options: it exited with status 3…no such file…it gets the previous options again…
        time 2
        started p1
        p1     < proxy/initialize #3 …
        p1     > result #3 {"protocolVersion":1}
        warning about p1: proxy 'p1' is running again
        "##,
    );
}

#[test]
fn a_request_that_waits_can_be_cancelled() {
    check_live(
        "editor p1 agent",
        r##"
        p1 is managed
        editor > session/prompt 4 {}
        p1     < session/prompt #1 {}
        editor > _proxy/config 5 {"op":"set","component":"p1","values":{"a":2}}
        request 1 for p1: Set {"a":2}
        options of request 1 are {"values":{"a":2}}
        editor > $/cancel_request {"requestId":5}
        drop options 1
        editor < error 5 {"code":-32800,"message":"the request was cancelled"}
        p1     > result #1 {}
        editor < result 4 {}
        "##,
    );
}

#[test]
fn every_request_is_answered_when_components_crash() {
    check_live(
        "editor p1+restart p2+restart agent",
        r##"
        p2 is managed
        editor > _proxy/config 5 {"op":"set","component":"p2","values":{"a":2}}
        p1     < _proxy/config #1 {"op":"set","component":"p2","values":{"a":2},"route":"0.1"}
        p1     > ~_proxy/config 0 {"op":"set","component":"p2","values":{"a":2},"route":"0.1"}
        request 1 for p2: Set {"a":2}
        options of request 1 are {"values":{"a":2}}
        p2     < _proxy/config r:1 {"op":"get","route":"0.1"}
        # The component in between is gone. The editor gets the answer.
        p1 exits with signal 9
        warning about p1: …
        p1 restarts
        started p1
        p1     < proxy/initialize #3 …
        p1     > result #3 {"protocolVersion":1}
        warning about p1: …
        # The component itself crashes before it is restarted.
        p2 exits with signal 9
        warning about p2: …
        p2 restarts
        started p2
        p2     < proxy/initialize #4 …
        p2     > result #4 {"protocolVersion":1}
        warning about p2: …
        p2     < _proxy/config r:4 {"op":"get","route":"0.1"}
        p2     > error r:4 {"code":-32601,"message":"method not found"}
        apply options 1
        time 1
        started p2
        p2     < proxy/initialize #5 …
        p2     > result #5 {"protocolVersion":1}
        # The answer overtakes nothing that goes through p1.
        p1     < ~_conductor/barrier #6 {"token":"#6","chain":"0"}
        p1     > _conductor/barrier 9 {"token":"#6","chain":"0"}
        p1     < result 9 {}
        editor < result 5 {"values":{"a":2},"applied":"restarted"}
        "##,
    );
}

#[test]
fn a_nested_chain_answers_for_its_own_components() {
    check_live(
        "editor inner(q1 q2) p agent",
        r##"
        editor > _proxy/config 5 {"op":"set","component":"inner/q2","values":{"a":1}}
        q1     < _proxy/config #1 {"op":"set","component":"q2","values":{"a":1},"route":"1.1"}
        q1     > ~_proxy/config 0 {"op":"set","component":"q2","values":{"a":1},"route":"1.1"}
        q2     < _proxy/config #2 {"op":"set","values":{"a":1},"route":"1.1","here":true}
        q2     > result #2 {"values":{"a":1},"applied":"now"}
        q1     < result 0 {"values":{"a":1},"applied":"now"}
        q1     > result #1 {"values":{"a":1},"applied":"now"}
        editor < result 5 {"values":{"a":1},"applied":"now"}
        # The nested conductor itself.
        editor > _proxy/config 6 {"op":"get","component":"inner"}
        editor < result 6 {"values":{…"name":"q1",…
        editor > _proxy/config 7 {"op":"get","component":"inner/q3"}
        editor < error 7 {…there is no component \"q3\"; The components are q1, q2, conductor…
        # A component of the outer chain, past those of the inner chain. Both have one of this name.
        editor > _proxy/config 8 {"op":"get","component":"p"}
        q1     < _proxy/config #3 {"op":"get","component":"p","route":"0.4"}
        q1     > ~_proxy/config 1 {"op":"get","component":"p","route":"0.4"}
        q2     < _proxy/config #4 {"op":"get","component":"p","route":"0.4"}
        # A component of the inner chain may ask for all that are behind it, but not set options.
        q1     > ~_proxy/config 2 {"op":"get","component":"p"}
        q2     < _proxy/config #5 {"op":"get","component":"p"}
        q2     > ~_proxy/config 0 {"op":"get","component":"p"}
        p      < _proxy/config #5 {"op":"get","route":"0.5","here":true}
        q1     > ~_proxy/config 3 {"op":"set","component":"p","values":{}}
        q1     < error 3 {…only the editor can set options, not proxy 'q1'…
        "##,
    );
}
