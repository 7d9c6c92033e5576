//! The user says what a component speaks: `--dialect`, or `"dialect"` in its JSON.

use std::process::{Command, Stdio};

use serde_json::json;
use testkit::rpc::{error, request, result};
use testkit::stage::{assert_blames, parse};

use crate::players::{GREETED, GREETING, Proxy, initialize, walk};
use crate::spelling::{ALL, P1, P2, P4};
use crate::{HASTE, stage};

/// Greeted in its own way at once, and offered its role where its document has it, and only there.
#[test]
fn a_pinned_proxy_is_greeted_as_its_document_says() {
    for generation in ALL {
        let pin = format!("1={}", generation.name);
        let mut stage = stage().option(&["--dialect", &pin]).agent(&["old", "agent"]);
        stage.editor.send(&request("1", "initialize", GREETING));
        let mut old = Proxy::enter(&mut stage, "old", generation);
        let greeting = old.request(generation.greeting);
        let expected = generation.offered(&parse(GREETING));
        assert_eq!(greeting["params"], expected, "{}", generation.name);
        old.forwards(&greeting);
        let mut agent = stage.enter("agent");
        let asked = agent.request("initialize");
        assert_eq!(asked["params"], parse(GREETING), "{}", generation.name);
        agent.answer(&asked, GREETED);
        old.accepts(&greeting);
        assert_eq!(stage.editor.message(), parse(&result("1", GREETED)), "{}", generation.name);
        walk(&mut stage.editor, &mut [old], &mut agent);
    }
}

#[test]
fn a_component_is_pinned_by_number_by_name_or_in_its_json() {
    let by_number = stage().option(&["--dialect", "1=P4"]).named(&["old", "agent"]);
    let by_name = stage().option(&["--dialect=old=p4"]).named(&["old", "agent"]);
    let json = stage();
    let mut old = json.component("old");
    old["dialect"] = json!("P4b");
    let agent = json.component("agent").to_string();
    let in_json = json.run("agent", &[old.to_string(), agent]);
    for mut stage in [by_number, by_name, in_json] {
        initialize(&mut stage, &[("old", &P4, &["_proxy/initialize"])]);
    }
}

/// What is pinned is not tried with anything else.
#[test]
fn a_pinned_component_that_does_not_understand_is_not_tried_further() {
    let options = ["--dialect", "1=P4"];
    let mut one = stage().option(&options).named(&["old", "agent"]);
    one.editor.send(&request("1", "initialize", GREETING));
    let mut old = one.enter("old");
    let greeting = old.request("_proxy/initialize");
    old.fail(&greeting, r#"{"code":-32601,"message":"what?"}"#);
    let answer = one.editor.message();
    let message = answer["error"]["message"].as_str().expect("an error");
    assert!(message.contains("component 'old' is not a proxy"), "{message}");
    assert!(message.contains("_proxy/initialize: the error"), "{message}");
    assert!(!message.contains("capability"), "{message}");

    let mut two = stage().option(&HASTE).option(&options).named(&["old", "agent"]);
    two.editor.send(&request("1", "initialize", GREETING));
    let mut old = two.enter("old");
    old.request("_proxy/initialize");
    old.exit(1);
    assert_blames(&two.editor.message(), "old", "ended with status 1", "");
    assert_eq!(two.conductor.status(), 1);
    assert!(!two.has_entered("old"));
}

#[test]
fn a_pin_that_makes_no_sense_is_a_mistake_on_the_command_line() {
    let mistakes: [(&[&str], &str); 7] = [
        (&["--dialect", "1=P9", "x", "y"], "there is no dialect \"P9\""),
        (&["--dialect", "1=P9", "x", "y"], "P5, P4, P3, P3t, P2, P1, P0"),
        (&["--dialect", "P3", "x", "y"], "write COMPONENT=NAME"),
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
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(why), "{args:?}: {said}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

/// Checklist 9: the oldest documents have `"protocolVersion":"0.1.0"`. It passes where the user says
/// that the chain is of their time, and nowhere else.
#[test]
fn a_version_that_is_no_number_passes_in_a_chain_of_the_oldest_only() {
    let asked = r#"{"protocolVersion":"0.1.0","capabilities":{}}"#;
    let answered = r#"{"protocolVersion":"0.1.0","capabilities":{}}"#;
    for generation in [&P2, &P1] {
        let pin = format!("1={}", generation.name);
        let mut stage = stage().option(&["--dialect", &pin]).agent(&["old", "agent"]);
        stage.editor.send(&request("\"I0\"", "initialize", asked));
        let mut old = Proxy::enter(&mut stage, "old", generation);
        let greeting = old.request("initialize");
        assert_eq!(greeting["params"], generation.offered(&parse(asked)));
        old.forwards(&greeting);
        let mut agent = stage.enter("agent");
        let question = agent.request("initialize");
        assert_eq!(question["params"], parse(asked));
        agent.answer(&question, answered);
        old.accepts(&greeting);
        assert_eq!(stage.editor.message(), parse(&result("\"I0\"", answered)));
    }
    for options in [&[][..], &["--dialect", "1=P3"]] {
        let mut stage = stage().option(options).agent(&["old", "agent"]);
        stage.editor.send(&request("\"I0\"", "initialize", asked));
        let refusal = r#"{"code":-32602,"message":"initialize needs an integer protocolVersion"}"#;
        assert_eq!(stage.editor.line(), error("\"I0\"", refusal));
        // It may be tried again.
        stage.editor.send(&request("\"I1\"", "initialize", GREETING));
        stage.enter("old").message();
    }
}
