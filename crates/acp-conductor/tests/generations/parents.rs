//! `conductor proxy` under conductors of every generation, real and played.

use testkit::rpc::{id_of, notification, request, result};
use testkit::stage::{Stage, parse};

use crate::players::{GREETED, GREETING, Proxy, initialize, walk, walk_spelt_out};
use crate::spelling::{ALL, Generation, P1, P2, P3, P3T, P4, P5};
use crate::stage;

/// `conductor proxy` with one proxy of today in it, under a conductor of that generation: the test.
fn under(parent: &Generation) -> (Stage, Proxy) {
    let setup = stage();
    let child = setup.puppet("child");
    let mut stage = setup.run("proxy", &[child]);
    let offered = parent.offered(&parse(GREETING)).to_string();
    stage.editor.send(&request("\"g\"", parent.greeting, &offered));
    let mut child = Proxy::enter(&mut stage, "child", &P5);
    let greeting = child.request("proxy/initialize");
    let expected = P5.offered(&parse(GREETING));
    assert_eq!(greeting["params"], expected, "the offer of a role is for us alone");
    child.forwards(&greeting);
    let forwarded = stage.editor.line();
    let id = id_of(&forwarded).to_owned();
    let expected = parse(&parent.sent(&id, "initialize", GREETING));
    assert_eq!(parse(&forwarded), expected, "{}", parent.name);
    stage.editor.send(&result(&id, GREETED));
    child.accepts(&greeting);
    // Checklist 29: the role is accepted in the place where it was offered, and only there.
    let accepted = parent.accepted(&parse(GREETED)).to_string();
    assert_eq!(parse(&stage.editor.line()), parse(&result("\"g\"", &accepted)), "{}", parent.name);
    (stage, child)
}

/// Checklist 28, 29, 64, 65.
#[test]
fn a_conductor_above_us_is_recognised_and_answered_in_kind() {
    for parent in ALL {
        let (mut stage, mut child) = under(parent);
        let above = &mut stage.editor;
        let params = r#"{"n":[1.10,1e400],"_meta":{"traceparent":"00-ab-cd-01"}}"#;

        above.send(&request("1", "m", params));
        let asked = child.line();
        assert_eq!(asked, request(id_of(&asked), "m", params));
        child.send(&P5.sent("1", "m", params));
        let passed = above.line();
        assert_eq!(passed, parent.sent(id_of(&passed), "m", params), "{}", parent.name);
        above.send(&result(id_of(&passed), "null"));
        assert_eq!(child.line(), result("1", "null"));
        child.send(&result(id_of(&asked), "null"));
        assert_eq!(above.line(), result("1", "null"));

        above.send(&parent.received("2", "m", params));
        let asked = child.line();
        assert_eq!(asked, P5.received(id_of(&asked), "m", params), "{}", parent.name);
        child.send(&request("2", "m", params));
        let passed = above.line();
        assert_eq!(passed, request(id_of(&passed), "m", params));
        above.send(&result(id_of(&passed), "[]"));
        assert_eq!(child.line(), result("2", "[]"));
        child.send(&result(id_of(&asked), "[]"));
        assert_eq!(above.line(), result("2", "[]"));

        above.send(&parent.received_note("n", ""));
        let heard = child.message();
        assert_eq!(heard["params"]["method"], "n", "{heard}");
        // Checklist 23: a conductor of old, too, may end over an envelope without params.
        child.send(&P5.sent_note("n", ""));
        let none = match parent.name {
            "P5" => "",
            "P2" | "P1" => "{}",
            _ => "null",
        };
        assert_eq!(above.line(), parent.sent_note("n", none), "{}", parent.name);
    }
}

/// Checklist 45, 68: in whatever spelling.
#[test]
fn an_envelope_in_an_envelope_from_above_is_refused() {
    for parent in ALL {
        let (mut stage, mut child) = under(parent);
        for inner in ALL {
            let inner = parse(&inner.received("0", "m", "{}"));
            let (method, params) = (inner["method"].as_str().expect("it"), &inner["params"]);
            let params = params.to_string();
            stage.editor.send(&parent.received("3", method, &params));
            let answer = stage.editor.message();
            assert_eq!(answer["id"], 3, "{answer}");
            assert_eq!(answer["error"]["code"], -32600, "{answer}");
            stage.editor.send(&parent.received_note(method, &params));
        }
        stage.editor.send(&notification("_x/next", ""));
        assert_eq!(child.line(), notification("_x/next", ""));
    }
}

/// Checklist 30: without an offer there is nothing that we could be. It may be tried again.
#[test]
fn a_parent_that_offers_nothing_is_refused() {
    let setup = stage();
    let child = setup.puppet("child");
    let mut stage = setup.run("proxy", &[child]);
    stage.editor.send(&notification("_x/lost", ""));
    for (id, params) in [("1", GREETING), ("2", r#"{"protocolVersion":1,"_meta":{"proxy":false}}"#)]
    {
        stage.editor.send(&request(id, "initialize", params));
        let answer = stage.editor.message();
        assert_eq!(answer["error"]["code"], -32600, "{answer}");
    }
    stage.editor.send(&request("3", "session/new", "{}"));
    let answer = stage.editor.message();
    assert_eq!(answer["error"]["code"], -32600, "{answer}");
    assert!(!stage.has_entered("child"), "nothing is started for nobody");
    let offered = P3.offered(&parse(GREETING)).to_string();
    stage.editor.send(&request("4", "initialize", &offered));
    stage.enter("child").request("proxy/initialize");
}

/// Checklist 66, under every generation: no component at all is a proxy that passes everything on,
/// and the same one stands at both ends.
#[test]
fn without_components_everything_passes() {
    for parent in ALL {
        let mut stage = stage().run("proxy", &[]);
        let above = &mut stage.editor;
        let offered = parent.offered(&parse(GREETING)).to_string();
        above.send(&request("1", parent.greeting, &offered));
        let forwarded = above.line();
        let id = id_of(&forwarded).to_owned();
        assert_eq!(parse(&forwarded), parse(&parent.sent(&id, "initialize", GREETING)));
        above.send(&result(&id, GREETED));
        let accepted = parent.accepted(&parse(GREETED)).to_string();
        assert_eq!(above.message(), parse(&result("1", &accepted)), "{}", parent.name);
        above.send(&notification("m", "[1]"));
        assert_eq!(above.line(), parent.sent_note("m", "[1]"));
        above.send(&parent.received_note("m", "[2]"));
        assert_eq!(above.line(), notification("m", "[2]"));
    }
}

/// Two of our own, the one above speaking this generation to the one below.
fn nested(link: &Generation, inside: &'static Generation) {
    let setup = stage();
    let inner = setup.nested("proxy", &[setup.puppet("in1"), setup.puppet("in2")]);
    let components = [inner, setup.puppet("after"), setup.puppet("agent")];
    let pin = format!("1={}", link.name);
    let mut stage = setup.option(&["--dialect", &pin]).run("agent", &components);
    let known: &[&str] = match inside.name {
        "P5" => &["proxy/initialize"],
        _ => &["proxy/initialize", inside.greeting],
    };
    let (mut proxies, mut agent) = initialize(
        &mut stage,
        &[("in1", inside, known), ("in2", &P5, &["proxy/initialize"]), ("after", inside, known)],
    );
    walk_spelt_out(&mut stage.editor, &mut proxies, &mut agent);
}

/// Checklist 64, 65: the link between two conductors in every generation, proxies of another around.
#[test]
fn conductors_speak_every_generation_with_each_other() {
    for (link, inside) in [(&P5, &P4), (&P4, &P5), (&P3, &P1), (&P3T, &P4), (&P2, &P3), (&P1, &P5)]
    {
        nested(link, inside);
    }
}

/// Checklist 67: three levels, a different generation on every link, and nothing is wrapped twice.
#[test]
fn three_levels_of_mixed_generations() {
    let setup = stage();
    let third = setup.nested("proxy", &[setup.puppet("deep")]);
    let second = setup.nested("proxy --dialect 2=P1", &[setup.puppet("middle"), third]);
    let first = setup.nested("proxy --dialect 1=P4", &[second, setup.puppet("shallow")]);
    let components = [first, setup.puppet("top"), setup.puppet("agent")];
    let mut stage = setup.option(&["--dialect", "1=P3"]).run("agent", &components);
    let (mut proxies, mut agent) = initialize(
        &mut stage,
        &[
            ("middle", &P2, &["proxy/initialize", "initialize"]),
            ("deep", &P4, &["proxy/initialize", "_proxy/initialize"]),
            ("shallow", &P5, &["proxy/initialize"]),
            ("top", &P3T, &["proxy/initialize", "initialize"]),
        ],
    );
    walk_spelt_out(&mut stage.editor, &mut proxies, &mut agent);
}

/// The same with nothing pinned: they find each other out.
#[test]
fn conductors_find_each_other_out() {
    let setup = stage();
    let second = setup.nested("proxy", &[setup.puppet("deep")]);
    let first = setup.nested("proxy", &[second]);
    let components = [first, setup.puppet("agent")];
    let mut stage = setup.run("agent", &components);
    let (mut proxies, mut agent) =
        initialize(&mut stage, &[("deep", &P3, &["proxy/initialize", "initialize"])]);
    walk(&mut stage.editor, &mut proxies, &mut agent);
}
