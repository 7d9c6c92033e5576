//! Proxies of older generations die, too. Who takes their place is met in the dialect that they spoke.
//! Line 2; checklist 104.

use serde_json::{Value, json};
use testkit::rpc::{id_of, notification, request, result};
use testkit::stage::{Peer, Puppet, Setup, Stage, parse};

use crate::play::{SetUp, kill, status};
use crate::players::{GREETED, GREETING, Proxy, initialize, walk};
use crate::spelling::{ALL, Generation, P2, P3, P4, P5};
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
    is_told(proxy, &greeting, set_up);
}

/// It has understood its greeting, and is told of a session.
fn is_told(proxy: &mut Proxy, greeting: &Value, set_up: &SetUp) {
    let generation = proxy.generation;
    proxy.forwards(greeting);
    proxy.accepts(greeting);
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

/// Line 2: one that dies over the greeting of the old one may be another program. The next ones are
/// greeted as if nothing were known, each with the next older greeting.
#[test]
fn a_proxy_that_dies_over_its_greeting_is_asked_anew_what_it_speaks() {
    for generation in ALL {
        let mut stage = stage().option(&["--restarts", "3/600"]).named(&["old", "agent"]);
        let (mut proxies, mut agent) =
            initialize(&mut stage, &[("old", generation, tried(generation))]);
        let session = SetUp::new("s");
        set_up(&mut stage, &mut proxies[0], &mut agent, &session);
        kill(&proxies[0]);
        for greeting in [generation.greeting, "proxy/initialize"] {
            let mut proxy = Proxy::enter(&mut stage, "old", generation);
            proxy.request(greeting);
            proxy.exit(3);
        }
        proxies[0] = Proxy::enter(&mut stage, "old", generation);
        let greeting = match generation.greeting {
            "_proxy/initialize" => proxies[0].request("_proxy/initialize"),
            // The one over which the last one has died, too: its envelope shows that it is right.
            greeting => proxies[0].is_greeted(&["_proxy/initialize", greeting]),
        };
        is_told(&mut proxies[0], &greeting, &session);
        walk(&mut stage.editor, &mut proxies, &mut agent);
        let component = status(&stage)["components"][0].take();
        assert_eq!(component["restarts"], 3, "{}: {component}", generation.name);
    }
}

/// Line 2: a program that was upgraded meanwhile does not know the greeting of the old one, and says so
/// with any code. It is greeted in other ways at once.
#[test]
fn a_proxy_that_was_upgraded_meanwhile_is_found_out() {
    for (old, new) in [(&P4, &P5), (&P2, &P5), (&P5, &P3), (&P3, &P4)] {
        let mut stage = stage().named(&["old", "agent"]);
        let (mut proxies, mut agent) = initialize(&mut stage, &[("old", old, tried(old))]);
        kill(&proxies[0]);
        let mut proxy = Proxy::enter(&mut stage, "old", new);
        let mut greeting = proxy.request(old.greeting);
        for next in ["proxy/initialize", "_proxy/initialize", "initialize"] {
            if next == old.greeting {
                continue;
            }
            proxy.fail(&greeting, r#"{"code":-32000,"message":"What?"}"#);
            greeting = proxy.request(next);
            if next == new.greeting {
                break;
            }
        }
        proxy.forwards(&greeting);
        proxy.accepts(&greeting);
        proxies[0] = proxy;
        walk(&mut stage.editor, &mut proxies, &mut agent);
    }
}

/// Line 2: the old one was greeted with `initialize`. The program that has taken its place answers that
/// as an agent: it is a proxy only if it is started again and greeted as one.
#[test]
fn a_proxy_that_has_become_an_agent_over_its_greeting_is_started_again() {
    let mut stage = stage().named(&["old", "agent"]);
    let (mut proxies, mut agent) = initialize(&mut stage, &[("old", &P3, tried(&P3))]);
    kill(&proxies[0]);
    let mut mistaken = stage.enter("old");
    let greeting = mistaken.request("initialize");
    mistaken.answer(&greeting, GREETED);
    let mut proxy = Proxy::enter(&mut stage, "old", &P5);
    let greeting = proxy.request("proxy/initialize");
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
