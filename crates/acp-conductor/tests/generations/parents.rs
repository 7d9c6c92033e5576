//! `conductor proxy` under parent conductors of every generation, real and scripted.

use testkit::rpc::{id_of, notification, request, result};
use testkit::test_chain::{TestChain, parse};

use crate::generation::{ALL, Generation, P1, P2, P3, P3T, P4, P5};
use crate::new_setup;
use crate::scripted_proxy::{
    AGENT_RESULT, GREETING, ScriptedProxy, assert_messages_pass, assert_messages_with_params_pass,
    initialize,
};

/// `conductor proxy` with one current proxy. The test is its parent conductor, of this generation.
fn start_under(parent: &Generation) -> (TestChain, ScriptedProxy) {
    let setup = new_setup();
    let child = setup.scripted_command("child");
    let mut chain = setup.run("proxy", &[child]);
    let offered = parent.offered(&parse(GREETING)).to_string();
    chain.editor.send(&request("\"g\"", parent.greeting, &offered));
    let mut child = ScriptedProxy::wait_for(&mut chain, "child", &P5);
    let greeting = child.request("proxy/initialize");
    let expected = P5.offered(&parse(GREETING));
    assert_eq!(greeting["params"], expected, "the parent's offer does not reach the child");
    child.forward_greeting(&greeting);
    let forwarded = chain.editor.line();
    let id = id_of(&forwarded).to_owned();
    let expected = parse(&parent.sent(&id, "initialize", GREETING));
    assert_eq!(parse(&forwarded), expected, "{}", parent.name);
    chain.editor.send(&result(&id, AGENT_RESULT));
    child.accept_greeting(&greeting);
    // Checklist 29: the role is accepted in the place where it was offered, and only there.
    let accepted = parent.accepted(&parse(AGENT_RESULT)).to_string();
    assert_eq!(parse(&chain.editor.line()), parse(&result("\"g\"", &accepted)), "{}", parent.name);
    (chain, child)
}

/// Checklist 28, 29, 64, 65.
#[test]
fn a_parent_conductor_of_any_generation_is_recognized() {
    for parent in ALL {
        let (mut chain, mut child) = start_under(parent);
        let above = &mut chain.editor;
        let params = r#"{"n":[1.10,1e400],"_meta":{"traceparent":"00-ab-cd-01"}}"#;

        above.send(&request("1", "m", params));
        let received_request = child.line();
        assert_eq!(received_request, request(id_of(&received_request), "m", params));
        child.send(&P5.sent("1", "m", params));
        let passed = above.line();
        assert_eq!(passed, parent.sent(id_of(&passed), "m", params), "{}", parent.name);
        above.send(&result(id_of(&passed), "null"));
        assert_eq!(child.line(), result("1", "null"));
        child.send(&result(id_of(&received_request), "null"));
        assert_eq!(above.line(), result("1", "null"));

        above.send(&parent.received("2", "m", params));
        let received_request = child.line();
        assert_eq!(
            received_request,
            P5.received(id_of(&received_request), "m", params),
            "{}",
            parent.name
        );
        child.send(&request("2", "m", params));
        let passed = above.line();
        assert_eq!(passed, request(id_of(&passed), "m", params));
        above.send(&result(id_of(&passed), "[]"));
        assert_eq!(child.line(), result("2", "[]"));
        child.send(&result(id_of(&received_request), "[]"));
        assert_eq!(above.line(), result("2", "[]"));

        above.send(&parent.received_notification("n", ""));
        let received = child.message();
        assert_eq!(received["params"]["method"], "n", "{received}");
        // Checklist 23: a parent of an older generation may also crash on an envelope without params.
        child.send(&P5.sent_notification("n", ""));
        let none = match parent.name {
            "P5" => "",
            "P2" | "P1" => "{}",
            _ => "null",
        };
        assert_eq!(above.line(), parent.sent_notification("n", none), "{}", parent.name);
    }
}

/// Checklist 45, 68: in every spelling.
#[test]
fn an_envelope_inside_an_envelope_from_the_parent_is_refused() {
    for parent in ALL {
        let (mut chain, mut child) = start_under(parent);
        for inner in ALL {
            let inner = parse(&inner.received("0", "m", "{}"));
            let (method, params) = (inner["method"].as_str().expect("a method"), &inner["params"]);
            let params = params.to_string();
            chain.editor.send(&parent.received("3", method, &params));
            let answer = chain.editor.message();
            assert_eq!(answer["id"], 3, "{answer}");
            assert_eq!(answer["error"]["code"], -32600, "{answer}");
            chain.editor.send(&parent.received_notification(method, &params));
        }
        chain.editor.send(&notification("_x/next", ""));
        assert_eq!(child.line(), notification("_x/next", ""));
    }
}

/// Checklist 30: without an offer the conductor has no role. The parent may try again.
#[test]
fn a_parent_that_does_not_offer_the_role_is_refused() {
    let setup = new_setup();
    let child = setup.scripted_command("child");
    let mut chain = setup.run("proxy", &[child]);
    chain.editor.send(&notification("_x/lost", ""));
    for (id, params) in [("1", GREETING), ("2", r#"{"protocolVersion":1,"_meta":{"proxy":false}}"#)]
    {
        chain.editor.send(&request(id, "initialize", params));
        let answer = chain.editor.message();
        assert_eq!(answer["error"]["code"], -32600, "{answer}");
    }
    chain.editor.send(&request("3", "session/new", "{}"));
    let answer = chain.editor.message();
    assert_eq!(answer["error"]["code"], -32600, "{answer}");
    // No component starts before a valid greeting.
    chain.assert_not_started("child");
    let offered = P3.offered(&parse(GREETING)).to_string();
    chain.editor.send(&request("4", "initialize", &offered));
    chain.wait_for_component("child").request("proxy/initialize");
}

/// Checklist 66, under every generation: a conductor without components is a proxy that passes everything
/// on.
#[test]
fn without_components_everything_passes() {
    for parent in ALL {
        let mut chain = new_setup().run("proxy", &[]);
        let above = &mut chain.editor;
        let offered = parent.offered(&parse(GREETING)).to_string();
        above.send(&request("1", parent.greeting, &offered));
        let forwarded = above.line();
        let id = id_of(&forwarded).to_owned();
        assert_eq!(parse(&forwarded), parse(&parent.sent(&id, "initialize", GREETING)));
        above.send(&result(&id, AGENT_RESULT));
        let accepted = parent.accepted(&parse(AGENT_RESULT)).to_string();
        assert_eq!(above.message(), parse(&result("1", &accepted)), "{}", parent.name);
        above.send(&notification("m", "[1]"));
        assert_eq!(above.line(), parent.sent_notification("m", "[1]"));
        above.send(&parent.received_notification("m", "[2]"));
        assert_eq!(above.line(), notification("m", "[2]"));
    }
}

/// A conductor inside another one, with this generation between them.
fn check_nested(link: &Generation, inside: &'static Generation) {
    let setup = new_setup();
    let inner =
        setup.nested("proxy", &[setup.scripted_command("in1"), setup.scripted_command("in2")]);
    let components = [inner, setup.scripted_command("after"), setup.scripted_command("agent")];
    let pin = format!("1={}", link.name);
    let mut chain = setup.option(&["--dialect", &pin]).run("agent", &components);
    let known: &[&str] = match inside.name {
        "P5" => &["proxy/initialize"],
        _ => &["proxy/initialize", inside.greeting],
    };
    let (mut proxies, mut agent) = initialize(
        &mut chain,
        &[("in1", inside, known), ("in2", &P5, &["proxy/initialize"]), ("after", inside, known)],
    );
    assert_messages_with_params_pass(&mut chain.editor, &mut proxies, &mut agent);
}

/// Checklist 64, 65: each generation between two conductors, with proxies of another one around.
#[test]
fn two_conductors_can_use_every_generation_between_them() {
    for (link, inside) in [(&P5, &P4), (&P4, &P5), (&P3, &P1), (&P3T, &P4), (&P2, &P3), (&P1, &P5)]
    {
        check_nested(link, inside);
    }
}

/// Checklist 67: three levels with a different generation on every link. Nothing is wrapped twice.
#[test]
fn three_levels_of_mixed_generations_work() {
    let setup = new_setup();
    let third = setup.nested("proxy", &[setup.scripted_command("deep")]);
    let second = setup.nested("proxy --dialect 2=P1", &[setup.scripted_command("middle"), third]);
    let first = setup.nested("proxy --dialect 1=P4", &[second, setup.scripted_command("shallow")]);
    let components = [first, setup.scripted_command("top"), setup.scripted_command("agent")];
    let mut chain = setup.option(&["--dialect", "1=P3"]).run("agent", &components);
    let (mut proxies, mut agent) = initialize(
        &mut chain,
        &[
            ("middle", &P2, &["proxy/initialize", "initialize"]),
            ("deep", &P4, &["proxy/initialize", "_proxy/initialize"]),
            ("shallow", &P5, &["proxy/initialize"]),
            ("top", &P3T, &["proxy/initialize", "initialize"]),
        ],
    );
    assert_messages_with_params_pass(&mut chain.editor, &mut proxies, &mut agent);
}

/// The same with nothing pinned.
#[test]
fn nested_conductors_recognize_each_other() {
    let setup = new_setup();
    let second = setup.nested("proxy", &[setup.scripted_command("deep")]);
    let first = setup.nested("proxy", &[second]);
    let components = [first, setup.scripted_command("agent")];
    let mut chain = setup.run("agent", &components);
    let (mut proxies, mut agent) =
        initialize(&mut chain, &[("deep", &P3, &["proxy/initialize", "initialize"])]);
    assert_messages_pass(&mut chain.editor, &mut proxies, &mut agent);
}
