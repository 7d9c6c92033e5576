//! The user pins the dialect of a component: `--dialect`, or `"dialect"` in its JSON.

use std::process::{Command, Stdio};

use serde_json::json;
use testkit::rpc::{error, request, result};
use testkit::test_chain::{assert_reports_failure, parse};

use crate::generation::{ALL, P1, P2, P4};
use crate::scripted_proxy::{
    AGENT_RESULT, GREETING, ScriptedProxy, assert_messages_pass, initialize,
};
use crate::{SHORT_GRACE, new_setup};

/// The first greeting is that of the dialect, and offers the role only where its document has it.
#[test]
fn a_pinned_proxy_is_greeted_in_its_dialect_at_once() {
    for generation in ALL {
        let pin = format!("1={}", generation.name);
        let mut chain = new_setup().option(&["--dialect", &pin]).run_agent(&["old", "agent"]);
        chain.editor.send(&request("1", "initialize", GREETING));
        let mut old = ScriptedProxy::wait_for(&mut chain, "old", generation);
        let greeting = old.request(generation.greeting);
        let expected = generation.offered(&parse(GREETING));
        assert_eq!(greeting["params"], expected, "{}", generation.name);
        old.forward_greeting(&greeting);
        let mut agent = chain.wait_for_component("agent");
        let received = agent.request("initialize");
        assert_eq!(received["params"], parse(GREETING), "{}", generation.name);
        agent.answer(&received, AGENT_RESULT);
        old.accept_greeting(&greeting);
        assert_eq!(
            chain.editor.message(),
            parse(&result("1", AGENT_RESULT)),
            "{}",
            generation.name
        );
        assert_messages_pass(&mut chain.editor, &mut [old], &mut agent);
    }
}

#[test]
fn a_component_can_be_pinned_by_number_by_name_or_in_its_json() {
    let by_number = new_setup().option(&["--dialect", "1=P4"]).run_named(&["old", "agent"]);
    let by_name = new_setup().option(&["--dialect=old=p4"]).run_named(&["old", "agent"]);
    let json = new_setup();
    let mut old = json.scripted_json("old");
    old["dialect"] = json!("P4b");
    let agent = json.scripted_json("agent").to_string();
    let in_json = json.run("agent", &[old.to_string(), agent]);
    for mut chain in [by_number, by_name, in_json] {
        initialize(&mut chain, &[("old", &P4, &["_proxy/initialize"])]);
    }
}

/// No other greeting is tried on a pinned component.
#[test]
fn a_pinned_component_that_refuses_its_greeting_is_not_probed() {
    let options = ["--dialect", "1=P4"];
    let mut one = new_setup().option(&options).run_named(&["old", "agent"]);
    one.editor.send(&request("1", "initialize", GREETING));
    let mut old = one.wait_for_component("old");
    let greeting = old.request("_proxy/initialize");
    old.answer_error(&greeting, r#"{"code":-32601,"message":"what?"}"#);
    let answer = one.editor.message();
    let message = answer["error"]["message"].as_str().expect("an error");
    assert!(message.contains("component 'old' is not a proxy"), "{message}");
    assert!(message.contains("_proxy/initialize: the error"), "{message}");
    assert!(!message.contains("capability"), "{message}");

    let mut two = new_setup().option(&SHORT_GRACE).option(&options).run_named(&["old", "agent"]);
    two.editor.send(&request("1", "initialize", GREETING));
    let mut old = two.wait_for_component("old");
    old.request("_proxy/initialize");
    old.exit(1);
    assert_reports_failure(&two.editor.message(), "old", "exited with status 1", "");
    assert_eq!(two.conductor.status(), 1);
    two.assert_not_started("old");
}

#[test]
fn an_invalid_dialect_option_is_reported() {
    let mistakes: [(&[&str], &str); 7] = [
        (&["--dialect", "1=P9", "x", "y"], "there is no dialect \"P9\""),
        (&["--dialect", "1=P9", "x", "y"], "P5, P4, P3, P3t, P2, P1, P0"),
        (&["--dialect", "P3", "x", "y"], "expected COMPONENT=NAME"),
        (&["--dialect", "z=P3", "x", "y"], "there is no component \"z\""),
        (&["--dialect", "3=P3", "x", "y"], "the components are x, y"),
        (&["--dialect", "0=P3", "x", "y"], "there is no component \"0\""),
        (&[r#"{"command":"x","dialect":"sacp"}"#, "y"], "there is no dialect \"sacp\""),
    ];
    for (args, why) in mistakes {
        let output = Command::new(env!("CARGO_BIN_EXE_conductor"))
            .arg("agent")
            .args(args)
            .stdin(Stdio::null())
            .output()
            .expect("the conductor starts");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(why), "{args:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

/// Checklist 9: the oldest documents have `"protocolVersion":"0.1.0"`. It passes only in a chain that is
/// pinned to these generations.
#[test]
fn a_version_that_is_not_a_number_passes_only_in_a_chain_pinned_to_p2_or_p1() {
    let received = r#"{"protocolVersion":"0.1.0","capabilities":{}}"#;
    let answered = r#"{"protocolVersion":"0.1.0","capabilities":{}}"#;
    for generation in [&P2, &P1] {
        let pin = format!("1={}", generation.name);
        let mut chain = new_setup().option(&["--dialect", &pin]).run_agent(&["old", "agent"]);
        chain.editor.send(&request("\"I0\"", "initialize", received));
        let mut old = ScriptedProxy::wait_for(&mut chain, "old", generation);
        let greeting = old.request("initialize");
        assert_eq!(greeting["params"], generation.offered(&parse(received)));
        old.forward_greeting(&greeting);
        let mut agent = chain.wait_for_component("agent");
        let received_request = agent.request("initialize");
        assert_eq!(received_request["params"], parse(received));
        agent.answer(&received_request, answered);
        old.accept_greeting(&greeting);
        assert_eq!(chain.editor.message(), parse(&result("\"I0\"", answered)));
    }
    for options in [&[][..], &["--dialect", "1=P3"]] {
        let mut chain = new_setup().option(options).run_agent(&["old", "agent"]);
        chain.editor.send(&request("\"I0\"", "initialize", received));
        let refusal = r#"{"code":-32602,"message":"initialize needs an integer protocolVersion [more: conductor errors not-initialized]","data":{"code":"not-initialized"}}"#;
        assert_eq!(chain.editor.line(), error("\"I0\"", refusal));
        // The editor may try again.
        chain.editor.send(&request("\"I1\"", "initialize", GREETING));
        chain.wait_for_component("old").message();
    }
}
