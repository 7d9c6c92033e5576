//! Sessions that an agent cannot resume, answers that cannot be read, and notices in the editor.

use testkit::script::check_live;

#[test]
fn requests_about_a_lost_session_are_answered_with_an_error() {
    check_live(
        "editor agent+restart",
        r##"
        editor > session/new 4 {}
        agent  < session/new #1 {}
        agent  > result #1 {"sessionId":"s"}
        editor < result 4 {"sessionId":"s"}
        agent exits with signal 9
        warning about agent: …; it is being restarted
        agent restarts
        started agent
        agent  < initialize #2 …
        agent  > result #2 {"protocolVersion":1}
        warning about agent: …
        editor > session/prompt 5 {"sessionId":"s"}
        editor < error 5 …
        editor > session/cancel {"sessionId":"s"}
        editor > session/prompt 6 {"sessionId":"t"}
        agent  < session/prompt #4 {"sessionId":"t"}
        editor > session/close 7 {"sessionId":"s"}
        editor < result 7 {}
        editor > session/prompt 8 {"sessionId":"s"}
        agent  < session/prompt #6 {"sessionId":"s"}
        "##,
    );
}

#[test]
fn an_orphaned_session_is_not_closed_by_a_component_that_is_down() {
    check_live(
        "editor p1+restart p2+restart agent",
        r##"
        editor > session/new 4 {}
        p1     < session/new #1 {}
        p1     > ~session/new 0 {}
        p2     < session/new #2 {}
        p2     > ~session/new 0 {}
        agent  < session/new #3 {}
        agent  > result #3 {"sessionId":"s"}
        p2     < result 0 {"sessionId":"s"}
        p2     > result #2 {"sessionId":"s"}
        p1     < result 0 {"sessionId":"s"}
        p2 exits with signal 9
        warning about p2: …; it is being restarted
        p1 exits with signal 9
        warning about p1: …; it is being restarted
        editor < error 4 …
        agent  < session/close r:1 {"sessionId":"s"}
        "##,
    );
}

#[test]
fn an_error_without_an_id_answers_the_only_pending_request() {
    check_live(
        "editor agent",
        r##"
        editor > a 5 {}
        agent  < a #1 {}
        agent  > error null {"code":-32700,"message":"cannot parse"}
        warning about agent: the line was the answer to one of 1 requests (a)
        editor < error 5 …could not read a request, and reported this without the id of the request: -32700, \"cannot parse\"; …
        editor > b 6 {}
        agent  < b #2 {}
        agent  > error null {"code":-32601,"message":"another error"}
        "##,
    );
}

#[test]
fn a_request_whose_answer_cannot_be_read_gets_an_error() {
    check_live(
        "editor agent",
        r##"
        editor > a 5 {}
        agent  < a #1 {}
        agent  > {"jsonrpc":"2.0","id":"#1","result":tru}
        warning about agent: agent 'agent' sent a bad line: …
        editor < error 5 {"code":-32603,"message":"agent 'agent' sent a bad line: not JSON: expected a value at byte 38; its answer could not be read; send the request again; if this repeats, report it to the developers of that program [more: conductor errors bad-message]","data":{"code":"bad-message"}}
        "##,
    );
}

#[test]
fn a_proxy_may_address_the_components_behind_it_by_name() {
    check_live(
        "editor p1 p2 agent",
        r##"
        p1     > {"jsonrpc":"2.0","id":0,"method":"proxy/successor","params":{"method":"a","peer":"agent"}}
        p2     < a #1
        p1     > {"jsonrpc":"2.0","id":1,"method":"proxy/successor","params":{"method":"a","peer":"p1"}}
        warning about p1: …
        p1     < error 1 …-32602…Known names: p2, agent…
        "##,
    );
}

const NOTE: &str = r#"editor < session/update {"sessionId":"SESSION","update":{"sessionUpdate":"agent_message_chunk",…"#;

/// A session with an active turn gets the notice at once, other sessions at their next prompt.
#[test]
fn a_restart_is_reported_in_all_sessions() {
    let script = r##"
        notify editor
        editor > session/new 1 {}
        p1     < session/new #1 {}
        p1     > result #1 {"sessionId":"s"}
        editor < result 1 {"sessionId":"s"}
        editor > session/new 2 {}
        p1     < session/new #2 {}
        p1     > result #2 {"sessionId":"t"}
        editor < result 2 {"sessionId":"t"}
        editor > session/prompt 3 {"sessionId":"t"}
        p1     < session/prompt #3 {"sessionId":"t"}
        p1     > result #3 {}
        editor < result 3 {}
        editor > session/prompt 4 {"sessionId":"s"}
        p1     < session/prompt #4 {"sessionId":"s"}
        p1     > ~_ask 4 {}                    # its own request with the id of the prompt
        agent  < _ask #5 {}
        agent  > result #5 {}
        p1     < result 4 {}
        p1 exits with signal 9
        warning about p1: …; it is being restarted
        NOTE_S
        editor < error 4 …
        editor > session/prompt 5 {"sessionId":"t"}
        NOTE_T
        editor > session/prompt 6 {"sessionId":"t"}
        "##;
    let note = |session: &str| NOTE.replace("SESSION", session);
    let script = script.replace("NOTE_S", &note("s")).replace("NOTE_T", &note("t"));
    check_live("editor p1+restart agent", &script);
}

#[test]
fn only_the_last_notices_wait_for_a_session() {
    let mut script = r##"
        notify editor
        editor > session/new 1 {}
        p1     < session/new #1 {}
        p1     > result #1 {"sessionId":"s"}
        editor < result 1 {"sessionId":"s"}
    "##
    .to_owned();
    for number in 1..=4 {
        script += &format!(
            "p1 exits with status {number}\nwarning about p1: …\np1 restarts\nstarted p1\np1 < proxy/initialize …\n\
             p1 > result #{id} {{\"protocolVersion\":1}}\np1 < session/new r:{replayed} {{}}\n\
             p1 > result r:{replayed} {{\"sessionId\":\"s\"}}\nwarning about p1: proxy 'p1' is running again\n",
            id = number + 1,
            replayed = 2 * number - 1
        );
    }
    script += "editor > session/prompt 2 {\"sessionId\":\"s\"}\n";
    for _ in 0..3 {
        script += &format!("{}\n", NOTE.replace("SESSION", "s"));
    }
    script += "p1 < session/prompt #6 {\"sessionId\":\"s\"}\n";
    check_live("editor p1+restart agent", &script);
}
