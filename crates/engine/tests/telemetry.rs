//! Log messages and metrics of components: `_proxy/log`, `_proxy/metric` and `_scp/log`.

use testkit::script::{check, check_live};

/// Checks a script that starts after the handshake with an editor that has these params of `initialize`. The chain is
/// `editor p1 agent`.
fn check_editor(hello: &str, script: &str) {
    let greeting = format!(
        "editor > initialize 0 {hello}\nstarted p1 agent\np1 < proxy/initialize #1 …\n\
         p1 > ~initialize 0 {hello}\nagent < initialize #2 {hello}\n\
         agent > result #2 {{\"protocolVersion\":1}}\np1 < result 0 …\n\
         p1 > result #1 {{\"protocolVersion\":1}}\neditor < result 0 …\n"
    );
    check("editor p1 agent", &format!("{greeting}{script}"));
}

/// Checklist 94.
#[test]
fn telemetry_passes_hop_by_hop_and_unchanged() {
    check_live(
        "editor p1 agent",
        r##"
        agent > _proxy/log {"message":"a","n":1.10}
        p1    < ~_proxy/log {"message":"a","n":1.10}
        p1    > _proxy/log {"message":"a","n":1.10}
        editor < _proxy/log {"message":"a","n":1.10}
        p1    > _proxy/metric {"name":"n"}
        editor < _proxy/metric {"name":"n"}
        p1    > _scp/log {"message":"b"}
        editor < _scp/log {"message":"b"}
        # A request is not telemetry.
        p1    > _proxy/log 7 {"message":"a"}
        editor < _proxy/log #1 {"message":"a"}
        # In the other direction, they pass like any message.
        editor > _proxy/log {"message":"c"}
        p1    < _proxy/log {"message":"c"}
        "##,
    );
}

#[test]
fn an_editor_gets_the_telemetry_that_it_has_asked_for() {
    check_editor(
        r#"{"protocolVersion":1,"clientCapabilities":{"_meta":{"_proxy/log":true,"_proxy/metric":true}}}"#,
        r##"
        agent > _proxy/metric {"name":"n","value":1.10,"component":"agent"}
        p1    < ~_proxy/metric {"name":"n","value":1.10,"component":"agent"}
        p1    > _proxy/metric {"name":"n","value":1.10,"component":"agent"}
        editor < _proxy/metric {"name":"n","value":1.10,"component":"agent"}
        p1    > _proxy/log {"message":"a","component":"mine","_meta":{"x":1}}
        editor < _proxy/log {"message":"a","component":"mine","_meta":{"x":1}}
        p1    > _scp/log {"level":"warn","message":"b"}
        editor < _proxy/log {"level":"warn","message":"b"}
        "##,
    );
}

#[test]
fn an_scp_editor_gets_log_messages_as_scp_log() {
    check_editor(
        r#"{"protocolVersion":1,"_meta":{"symposium":{"version":"1.0"}},"clientCapabilities":{}}"#,
        r##"
        p1    > _scp/log {"level":"warn","message":"b","data":1.0}
        editor < _scp/log {"level":"warn","message":"b","data":1.0}
        p1    > _proxy/log {"level":"trace","message":"a","data":1.0}
        editor < _scp/log {"level":"debug","message":"a","data":1.0}
        p1    > _proxy/metric {"name":"n"}
        editor < _proxy/metric {"name":"n"}
        "##,
    );
}

#[test]
fn a_nested_chain_passes_telemetry_on_as_it_is() {
    check_live(
        "editor inner(p1) p2 agent",
        r##"
        p2    > _proxy/log {"message":"a"}
        p1    < ~_proxy/log {"message":"a"}
        p1    > _proxy/log {"message":"a"}
        editor < _proxy/log {"message":"a"}
        p1    > _proxy/log {"message":"b"}
        editor < _proxy/log {"message":"b"}
        "##,
    );
}
