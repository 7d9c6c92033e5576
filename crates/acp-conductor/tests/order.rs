//! Messages of one sender arrive in the order in which they were sent, answers included, with any number of
//! proxies and sessions.

use std::collections::BTreeMap;

use serde_json::Value;
use testkit::rpc::{id_of, notification, request, result};
use testkit::test_chain::{Peer, ScriptedComponent, TestChain, TestChainBuilder, binary, parse};

fn new_setup() -> TestChainBuilder {
    TestChain::builder(env!("CARGO_BIN_EXE_conductor"))
}

/// A chain of this many transparent proxies and a scripted agent.
fn start_chain(proxies: usize) -> (TestChain, ScriptedComponent) {
    let setup = new_setup();
    let components = [transparent(proxies), vec![setup.scripted_command("agent")]].concat();
    let mut chain = setup.run("agent", &components);
    let agent = chain.initialize(&["agent"]).remove(0);
    (chain, agent)
}

fn transparent(count: usize) -> Vec<String> {
    vec![format!("'{}'", binary("transparent").display()); count]
}

fn numbered(method: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| notification(method, &format!(r#"{{"sessionId":"s","n":{n}}}"#))).collect()
}

/// Checklist 53, 111.
#[test]
fn the_answer_to_a_prompt_keeps_its_place_among_the_updates() {
    for proxies in 0..=3 {
        let (mut chain, mut agent) = start_chain(proxies);
        chain.editor.send(&request("1", "session/prompt", "{}"));
        let prompt = agent.line();
        let mut lines = numbered("session/update", 500);
        lines.insert(400, result(id_of(&prompt), "{}"));
        agent.send(&lines.join("\n"));
        lines[400] = result("1", "{}");
        for line in lines {
            assert_eq!(chain.editor.line(), line);
        }
    }
}

/// Checklist 54.
#[test]
fn a_request_does_not_overtake_the_notifications_before_it() {
    for proxies in 0..=3 {
        let (mut chain, mut agent) = start_chain(proxies);
        let lines = numbered("_note", 500);
        chain.editor.send(&lines.join("\n"));
        chain.editor.send(&request("1", "session/prompt", "{}"));
        chain.editor.send(&notification("session/cancel", "{}"));
        for line in lines {
            assert_eq!(agent.line(), line);
        }
        let prompt = agent.line();
        assert_eq!(prompt, request(id_of(&prompt), "session/prompt", "{}"));
        assert_eq!(agent.line(), notification("session/cancel", "{}"));
    }
}

const REQUESTS: usize = 1000;

/// Checklist 38, 40: each end sends a thousand requests in many sessions, receives the other's requests
/// between them, and answers in another order.
#[test]
fn a_thousand_concurrent_requests_each_way_get_their_own_answers() {
    for proxies in [0, 2] {
        let (mut chain, mut agent) = start_chain(proxies);
        send_requests(&mut chain.editor, "_editor");
        send_requests(&mut agent, "_agent");
        answer_requests(&mut agent, "_editor");
        answer_requests(&mut chain.editor, "_agent");
        check_answers(&mut chain.editor);
        check_answers(&mut agent);
    }
}

fn session(n: usize) -> String {
    format!(r#"{{"sessionId":"s{}"}}"#, n % 17)
}

/// Every request once, but not in the order of sending: 387 and 1000 have no common divisor.
fn shuffled() -> impl Iterator<Item = usize> {
    (0..REQUESTS).map(|n| n * 387 % REQUESTS)
}

fn send_requests(requester: &mut impl Peer, method: &str) {
    let line = |n: usize| request(&n.to_string(), method, &session(n));
    requester.send(&(0..REQUESTS).map(line).collect::<Vec<_>>().join("\n"));
}

/// Each answer names its request and the session.
fn answer_requests(peer: &mut impl Peer, method: &str) {
    let mut answers = Vec::new();
    for n in 0..REQUESTS {
        let received = peer.line();
        assert_eq!(received, request(id_of(&received), method, &session(n)));
        answers.push(result(id_of(&received), &format!("[{n},{}]", session(n))));
    }
    peer.send(&shuffled().map(|n| answers[n].as_str()).collect::<Vec<_>>().join("\n"));
}

fn check_answers(requester: &mut impl Peer) {
    for n in shuffled() {
        assert_eq!(requester.line(), result(&n.to_string(), &format!("[{n},{}]", session(n))));
    }
}

/// An agent streams updates to twenty sessions at once, as fast as it can.
#[test]
fn no_answer_overtakes_its_updates_under_load() {
    const SESSIONS: usize = 20;
    const UPDATES: u64 = 200;
    let agent = format!("'{}'", binary("stub_agent").display());
    let mut chain = new_setup().run("agent", &[transparent(3), vec![agent]].concat());
    let initialize = request("\"i\"", "initialize", r#"{"protocolVersion":1}"#);
    chain.editor.send(&initialize);
    assert_eq!(chain.editor.message()["id"], "i");
    let text = format!("stream {UPDATES}");
    for n in 0..SESSIONS {
        let params =
            format!(r#"{{"sessionId":"{n}","prompt":[{{"type":"text","text":"{text}"}}]}}"#);
        chain.editor.send(&request(&n.to_string(), "session/prompt", &params));
    }
    let (mut seen, mut answered) = (BTreeMap::<String, u64>::new(), 0);
    while answered < SESSIONS {
        let message = parse(&chain.editor.line());
        if let Some(id) = message["id"].as_u64() {
            assert_eq!(seen[&id.to_string()], UPDATES, "answered before the end of its updates");
            answered += 1;
        } else {
            let (session, number) = update(&message);
            let seen = seen.entry(session).or_default();
            assert_eq!(number, *seen, "{message}");
            *seen += 1;
        }
    }
}

/// The session and the number of an update of `stub_agent`.
fn update(message: &Value) -> (String, u64) {
    let params = &message["params"];
    let text = params["update"]["content"]["text"].as_str().expect("a string");
    let number = text.split(' ').next().and_then(|it| it.parse().ok()).expect("a number");
    (params["sessionId"].as_str().expect("a session").to_owned(), number)
}
