//! Proxies of older generations die, too. Who takes their place is met in the dialect that they spoke.
//! Line 2; checklist 104.

use serde_json::{Value, json};
use testkit::rpc::{id_of, notification, request, result};
use testkit::stage::{Peer, Puppet, Setup, Stage, parse};

use crate::play::{SetUp, kill, status};
use crate::players::{GREETED, GREETING, Proxy, initialize, walk};
use crate::spelling::{ALL, Generation, P4, P5};
use crate::stage;

/// The greetings that are tried on an unknown proxy until one of this generation understands.
fn tried(generation: &Generation) -> &'static [&'static str] {
    match generation.greeting {
        "proxy/initialize" => &["proxy/initialize"],
        "_proxy/initialize" => &["proxy/initialize", "_proxy/initialize"],
        _ => &["proxy/initialize", "initialize"],
    }
}

/// A session is set up through a proxy.
fn set_up(stage: &mut Stage, proxy: &mut Proxy, agent: &mut Puppet, set_up: &SetUp) {
    let SetUp { method, params, result: answer } = set_up;
    stage.editor.send(&request("1", method, params));
    let asked = proxy.line();
    assert_eq!(asked, request(id_of(&asked), method, params));
    proxy.send(&proxy.generation.sent("\"own\"", method, params));
    let at_agent = agent.line();
    assert_eq!(at_agent, request(id_of(&at_agent), method, params));
    agent.send(&result(id_of(&at_agent), answer));
    assert_eq!(proxy.line(), result("\"own\"", answer));
    proxy.send(&result(id_of(&asked), answer));
    assert_eq!(stage.editor.line(), result("1", answer));
}

/// A new proxy is greeted in its own way from the first word, and told of a session.
fn learns(proxy: &mut Proxy, pinned: bool, set_up: &SetUp) {
    let generation = proxy.generation;
    let greeting = proxy.request(generation.greeting);
    let (params, offered) = (&greeting["params"], generation.offered(&parse(GREETING)));
    let role = generation.offer.iter().fold(params, |it, key| &it[*key]);
    if !generation.offer.is_empty() {
        assert_eq!(*role, json!(true), "{}: {params}", generation.name);
    }
    assert_eq!(params["clientInfo"], offered["clientInfo"]);
    // Unless it cannot be known where these look for their role, it is offered there only.
    if pinned || !["P3", "P3t"].contains(&generation.name) {
        assert_eq!(*params, offered, "{}", generation.name);
    }
    proxy.forwards(&greeting);
    proxy.accepts(&greeting);
    let SetUp { method, params, result: answer } = set_up;
    let asked = proxy.line();
    assert_eq!(asked, request(id_of(&asked), method, params));
    proxy.send(&generation.sent("\"own\"", method, params));
    assert_eq!(proxy.line(), result("\"own\"", answer));
    proxy.send(&result(id_of(&asked), answer));
}

/// Line 2: every generation, whether it was found out, remembered or said.
#[test]
fn a_new_proxy_is_met_in_the_dialect_of_the_old_one() {
    for generation in ALL {
        let pin = format!("1={}", generation.name);
        for pinned in [false, true] {
            let (setup, methods) = match pinned {
                true => (stage().option(&["--dialect", &pin]), &[generation.greeting][..]),
                false => (stage(), tried(generation)),
            };
            let mut stage = setup.named(&["old", "agent"]);
            let (mut proxies, mut agent) = initialize(&mut stage, &[("old", generation, methods)]);
            let session = SetUp::new("s");
            set_up(&mut stage, &mut proxies[0], &mut agent, &session);
            for _ in 0..2 {
                kill(&proxies[0]);
                proxies[0] = Proxy::enter(&mut stage, "old", generation);
                learns(&mut proxies[0], pinned, &session);
                walk(&mut stage.editor, &mut proxies, &mut agent);
            }
            assert!(!stage.has_entered("agent"), "{}", generation.name);
        }
    }
}

/// Line 2: one that dies before it has said anything tells nothing new of what it speaks: no other greeting
/// is tried on the next one.
#[test]
fn a_proxy_that_dies_over_its_greeting_is_still_met_in_the_same_dialect() {
    for generation in ALL {
        let mut stage = stage().option(&["--restarts", "3/600"]).named(&["old", "agent"]);
        let (mut proxies, mut agent) =
            initialize(&mut stage, &[("old", generation, tried(generation))]);
        let session = SetUp::new("s");
        set_up(&mut stage, &mut proxies[0], &mut agent, &session);
        kill(&proxies[0]);
        for _ in 2..=3 {
            let mut proxy = Proxy::enter(&mut stage, "old", generation);
            proxy.request(generation.greeting);
            proxy.exit(3);
        }
        proxies[0] = Proxy::enter(&mut stage, "old", generation);
        learns(&mut proxies[0], false, &session);
        walk(&mut stage.editor, &mut proxies, &mut agent);
        let component = status(&stage)["components"][0].take();
        assert_eq!(component["restarts"], 3, "{}: {component}", generation.name);
    }
}

/// Line 2: a program that was upgraded meanwhile does not know the greeting of the old one. That is a
/// failure; the next one is asked what it speaks.
#[test]
fn a_proxy_that_was_upgraded_meanwhile_is_found_out() {
    let (old, new) = (&P4, &P5);
    let mut stage = stage().named(&["old", "agent"]);
    let (mut proxies, mut agent) = initialize(&mut stage, &[("old", old, tried(old))]);
    kill(&proxies[0]);
    let unknown = r#"{"code":-32601,"message":"Method not found"}"#;
    let mut proxy = Proxy::enter(&mut stage, "old", new);
    let greeting = proxy.request(old.greeting);
    proxy.fail(&greeting, unknown);
    let mut proxy = Proxy::enter(&mut stage, "old", new);
    let greeting = proxy.request(old.greeting);
    proxy.fail(&greeting, unknown);
    let greeting = proxy.request(new.greeting);
    proxy.forwards(&greeting);
    proxy.accepts(&greeting);
    proxies[0] = proxy;
    walk(&mut stage.editor, &mut proxies, &mut agent);
}

// SCP: a proxy that starts its successor itself, which is a relay to us.

const SCP_EDITOR: &str = r#"{"protocolVersion":1,"clientCapabilities":{},"_meta":{"symposium":{"version":"1.0","html_panel":true}}}"#;
const SCP_PROXY: &str = r#"{"protocolVersion":1,"agentCapabilities":{},"_meta":{"symposium":{"version":"1.0","proxy":true}}}"#;

/// An SCP proxy is greeted, and initialises the successor that it was told to start. Gives what it was
/// told with, to be answered when the successor has answered.
fn begins(proxy: &mut Puppet) -> Value {
    let greeting = proxy.request("initialize");
    proxy.answer(&greeting, SCP_PROXY);
    let told = proxy.request("_scp/proxy");
    let servers = told["params"]["servers"].as_array().expect("a list of servers");
    assert_eq!(servers.len(), 1, "{told}");
    proxy.start_child(&servers[0].clone());
    proxy.child().send(&request("0", "initialize", SCP_EDITOR));
    told
}

/// Its successor has answered.
fn stands(proxy: &mut Puppet, told: &Value) {
    let answer = proxy.child().message();
    assert_eq!((&answer["id"], &answer["result"]["protocolVersion"]), (&json!(0), &json!(1)));
    proxy.answer(told, "{}");
}

/// Line 2: an SCP proxy, with another relay. What it is told again is answered there, from memory.
#[test]
fn an_scp_proxy_is_replaced_with_its_relay() {
    replaced_with_its_relay(stage().option(&["--dialect", "1=P0"]), &[]);
    replaced_with_its_relay(stage(), &["proxy/initialize", "_proxy/initialize"]);
}

fn replaced_with_its_relay(setup: Setup, unknown: &[&str]) {
    let mut stage = setup.named(&["walkthrough", "agent"]);
    stage.editor.send(&request("1", "initialize", SCP_EDITOR));
    let mut proxy = stage.enter("walkthrough");
    for method in unknown {
        let greeting = proxy.request(method);
        proxy.fail(&greeting, r#"{"code":-32601,"message":"Method not found"}"#);
    }
    let told = begins(&mut proxy);
    let mut agent = stage.enter("agent");
    let asked = agent.request("initialize");
    agent.answer(&asked, GREETED);
    stands(&mut proxy, &told);
    assert_eq!(stage.editor.message()["id"], 1);
    let SetUp { method, params, result: answer } = SetUp::new("s");
    stage.editor.send(&request("1", method, &params));
    let asked = proxy.line();
    proxy.child().send(&request("1", method, &params));
    let at_agent = agent.line();
    agent.send(&result(id_of(&at_agent), &answer));
    assert_eq!(proxy.child().line(), result("1", &answer));
    proxy.send(&result(id_of(&asked), &answer));
    assert_eq!(stage.editor.line(), result("1", &answer));

    for _ in 0..2 {
        kill(&proxy);
        proxy = stage.enter("walkthrough");
        let told = begins(&mut proxy);
        stands(&mut proxy, &told);
        let asked = proxy.line();
        assert_eq!(asked, request(id_of(&asked), method, &params));
        proxy.child().send(&request("1", method, &params));
        assert_eq!(proxy.child().line(), result("1", &answer));
        proxy.send(&result(id_of(&asked), &answer));
        // It is live: traffic flows, each way.
        stage.editor.send(&request("2", "session/prompt", "{}"));
        let asked = proxy.line();
        assert_eq!(asked, request(id_of(&asked), "session/prompt", "{}"));
        proxy.child().send(&request("2", "session/prompt", "{}"));
        let at_agent = agent.line();
        assert_eq!(at_agent, request(id_of(&at_agent), "session/prompt", "{}"));
        agent.send(&notification("session/update", "{}"));
        assert_eq!(proxy.child().line(), notification("session/update", "{}"));
        proxy.send(&notification("session/update", "{}"));
        assert_eq!(stage.editor.line(), notification("session/update", "{}"));
        agent.send(&result(id_of(&at_agent), "{}"));
        assert_eq!(proxy.child().line(), result("2", "{}"));
        proxy.send(&result(id_of(&asked), "{}"));
        assert_eq!(stage.editor.line(), result("2", "{}"));
    }
}

/// Line 2: an SCP proxy whose relay is killed cannot do its part: it is replaced, too.
#[test]
fn an_scp_proxy_that_has_lost_its_relay_is_replaced() {
    let setup = stage().option(&["--dialect", "1=P0"]);
    let mut stage = setup.named(&["walkthrough", "agent"]);
    stage.editor.send(&request("1", "initialize", SCP_EDITOR));
    let mut proxy = stage.enter("walkthrough");
    let told = begins(&mut proxy);
    let mut agent = stage.enter("agent");
    let asked = agent.request("initialize");
    agent.answer(&asked, GREETED);
    stands(&mut proxy, &told);
    assert_eq!(stage.editor.message()["id"], 1);
    stage.editor.send(&request("1", "session/prompt", "{}"));
    proxy.line();
    proxy.child().close();
    assert_eq!(proxy.child().status(), 0);
    let answer = stage.editor.message();
    let cause = "closed the connection to its successor";
    crate::play::assert_crash(&answer, json!(1), "walkthrough", cause, "restarted");
    testkit::stage::assert_gone(proxy.pid, "the old one");
    let mut proxy = stage.enter("walkthrough");
    let told = begins(&mut proxy);
    stands(&mut proxy, &told);
    stage.editor.send(&notification("_x/note", "{}"));
    assert_eq!(proxy.line(), notification("_x/note", "{}"));
    proxy.child().send(&notification("_x/note", "{}"));
    assert_eq!(agent.line(), notification("_x/note", "{}"));
}
