//! How the generation of a proxy is found out, and what is remembered of it.

use acp_wire::Side;
use acp_wire::dialect::{Generation, Proxy, generation};

use crate::{BARE, EXAMPLES, INITIALIZE, Link, RESULT, UPDATE, lines, proxy};

const PROBE: &str = r#"{"jsonrpc":"2.0","id":"c:1","method":"proxy/initialize","params":{"protocolVersion":1,"clientCapabilities":{},"_meta":{"mcp_acp_transport":true}}}"#;

/// Checklist 15, 16, 20: old proxies pass the unknown greeting on; its envelope tells.
#[test]
fn a_proxy_is_known_by_the_envelope_in_which_it_passes_the_greeting_on() {
    for (envelope, then) in [
        ("_proxy/successor", "_proxy/initialize"),
        ("_proxy/successor/request", "initialize"),
        ("_proxy/successor/send/request", "initialize"),
    ] {
        let mut link = Link::to(Proxy::unknown("x"));
        link.sends(Side::Agent, INITIALIZE, &[PROBE]);
        // What is to be sent meanwhile waits.
        link.sends(Side::Agent, BARE, &[]);
        let inner = r#""method":"proxy/initialize","params":{}"#;
        let inner = match envelope.contains("send") {
            true => format!(r#"{{"message":{{{inner}}}}}"#),
            false => format!("{{{inner}}}"),
        };
        let echo =
            format!(r#"{{"jsonrpc":"2.0","id":"p","method":"{envelope}","params":{inner}}}"#);
        let (heard, said) = link.hears(&echo);
        assert_eq!(heard, None, "the probe goes no further");
        assert!(said[0].contains(r#""id":"p","error":{"code":-32601"#), "{said:?}");
        let (heard, said) =
            link.hears(r#"{"jsonrpc":"2.0","id":"c:1","error":{"code":-32601,"message":"no"}}"#);
        assert_eq!(heard, None);
        assert!(said[0].contains(&format!(r#""id":"c:1~1","method":"{then}""#)), "{said:?}");
        let forwarded = echo.replace("proxy/initialize", "initialize");
        let (heard, said) = link.hears(&forwarded);
        assert!(heard.unwrap().1.contains(r#""id":"p","method":"initialize""#));
        assert_eq!(said, [BARE], "what waited is sent");
        assert!(!link.proxy().awaits_first_line());
    }
}

#[test]
fn a_proxy_is_answered_in_the_envelopes_that_it_sent_last() {
    let [p5, p4] = ["P5", "P4"].map(|name| EXAMPLES.iter().find(|it| it.name == name).unwrap());
    let mut link = Link::to(Proxy::unknown("x"));
    link.sends(Side::Agent, INITIALIZE, &[PROBE]);
    link.hears(p5.forwarded);
    link.sends(Side::Editor, UPDATE, &[p5.received]);
    link.passes(p4.sent, Side::Agent, UPDATE);
    link.sends(Side::Editor, UPDATE, &[p4.received]);
}

#[test]
fn a_request_that_does_not_wait_for_the_greeting_is_written_as_it_is() {
    let request = r#"{"jsonrpc":"2.0","id":"c:2","method":"session/new","params":{}}"#;
    Link::to(Proxy::unknown("x")).sends(Side::Agent, request, &[request]);
    let mut link = proxy("P5");
    link.sends(Side::Agent, INITIALIZE, &[PROBE]);
    link.sends(Side::Agent, request, &[request]);
}

/// The component knows none of the ids under which it was greeted in several ways.
#[test]
fn the_greeting_is_not_cancelled() {
    let cancel = r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"c:1"}}"#;
    let mut link = Link::to(Proxy::unknown("x"));
    link.sends(Side::Agent, INITIALIZE, &[PROBE]);
    link.sends(Side::Agent, cancel, &[]);
    link.sends(Side::Agent, BARE, &[]);
    let (_, said) = link.hears(
        r#"{"id":7,"method":"proxy/successor","params":{"method":"initialize","params":{}}}"#,
    );
    assert_eq!(said, [BARE]);
}

/// Flow control counts these bytes as queued for the component.
#[test]
fn messages_that_wait_for_the_generation_are_counted() {
    let mut link = Link::to(Proxy::unknown("x"));
    assert_eq!(link.0.held_bytes(), 0);
    link.sends(Side::Agent, INITIALIZE, &[PROBE]);
    let before = link.0.held_bytes();
    link.sends(Side::Agent, BARE, &[]);
    let waits = link.0.held_bytes() - before;
    assert!((BARE.len()..BARE.len() + 1024).contains(&waits), "{waits} bytes");
    link.hears(
        r#"{"id":7,"method":"proxy/successor","params":{"method":"initialize","params":{}}}"#,
    );
    assert_eq!(link.0.held_bytes(), 0);
}

/// Checklist 7, 25: an agent is not taken for a proxy, and the error tells what was tried.
#[test]
fn an_agent_in_a_proxys_place_is_found_out() {
    let mut link = Link::to(Proxy::unknown("eliza"));
    link.says(Side::Agent, INITIALIZE);
    let no = |id: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":"{id}","error":{{"code":-32601,"message":"no"}}}}"#)
    };
    assert!(link.hears(&no("c:1")).1[0].contains("_proxy/initialize"));
    assert!(link.hears(&no("c:1~1")).1[0].contains(r#""method":"initialize""#));
    let (heard, said) =
        link.hears(r#"{"jsonrpc":"2.0","id":"c:1~2","result":{"protocolVersion":1}}"#);
    let (_, error) = heard.unwrap();
    assert!(error.starts_with(r#"{"jsonrpc":"2.0","id":"c:1","error""#), "{error}");
    assert!(
        error.contains("component 'eliza' is not a proxy") && error.contains("-32601"),
        "{error}"
    );
    assert!(said.is_empty());
    // It can be greeted again.
    link.sends(Side::Agent, INITIALIZE, &[PROBE]);
    // Some agents answer anything with a result.
    let (heard, said) = link.hears(r#"{"jsonrpc":"2.0","id":"c:1","result":null}"#);
    assert!(heard.is_none() && said[0].contains("_proxy/initialize"));
}

/// The answer to the greeting with this id: an error with this code.
pub(crate) fn error(id: &str, code: i64, message: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":"{id}","error":{{"code":{code},"message":"{message}"}}}}"#)
}

/// Checklist 21, 95: whatever the code, the next older greeting is tried. (A component that is of an
/// older generation may refuse what it does not know with any code.)
#[test]
fn any_error_leads_to_the_next_older_greeting() {
    for code in
        [-32700, -32600, -32601, -32602, -32603, -32000, -32800, -1, 0, 1, 403, 9_000_000_000]
    {
        let mut link = Link::to(Proxy::unknown("x"));
        link.says(Side::Agent, INITIALIZE);
        let (heard, said) = link.hears(&error("c:1", code, "no"));
        assert!(heard.is_none() && said[0].contains("_proxy/initialize"), "{code}: {said:?}");
        let (heard, said) = link.hears(&error("c:1~1", code, "no"));
        assert!(
            heard.is_none() && said[0].contains(r#""method":"initialize""#),
            "{code}: {said:?}"
        );
        link.hears(&EXAMPLES[2].forwarded.replace(r#""c:1""#, r#""c:1~2""#));
        assert_eq!(link.0.protocol().name(), "P3");
    }
    // Also where the code is none.
    let mut link = Link::to(Proxy::unknown("x"));
    link.says(Side::Agent, INITIALIZE);
    let (_, said) = link.hears(r#"{"id":"c:1","error":"no"}"#);
    assert!(said[0].contains("_proxy/initialize"), "{said:?}");
}

/// Checklist 6: when all greetings were refused, the first error is the one that counts.
#[test]
fn the_first_error_is_passed_on_when_no_greeting_was_understood() {
    let mut link = Link::to(Proxy::unknown("x"));
    link.says(Side::Agent, INITIALIZE);
    let first = r#""error":{"code":-32000,"message":"log in first","data":{"x": 1.10}}"#;
    link.hears(&format!(r#"{{"jsonrpc":"2.0","id":"c:1",{first}}}"#));
    link.hears(&error("c:1~1", -32601, "what?"));
    let (heard, said) = link.hears(&error("c:1~2", -32603, "what now?"));
    let expected = format!(r#"{{"jsonrpc":"2.0","id":"c:1",{first}}}"#);
    assert_eq!((heard.unwrap().1, said), (expected, vec![]));

    // If it only says that it does not know the greeting, the component is named.
    let mut link = Link::to(Proxy::unknown("x"));
    link.says(Side::Agent, INITIALIZE);
    for (id, code) in [("c:1", -32601), ("c:1~1", -32000)] {
        assert_eq!(link.hears(&error(id, code, "no")).0, None);
    }
    let (heard, _) = link.hears(&error("c:1~2", -32603, "no"));
    let (_, line) = heard.unwrap();
    assert!(line.contains(r#""code":-32601"#) && line.contains("component 'x'"), "{line}");
}

/// Checklist 6, 21: the agent's refusal, which a proxy passes on, refuses no greeting.
#[test]
fn an_error_of_the_successor_is_no_refused_greeting() {
    for examples in &EXAMPLES {
        let greeting = Generation::from_name(examples.name).unwrap();
        for mut link in [Link::to(Proxy::unknown("x")), Link::to(Proxy::restarted("x", greeting))] {
            let id = match link.says(Side::Agent, INITIALIZE)[0].contains("\"proxy/initialize") {
                true if examples.name != "P5" => {
                    // Its own generation is found out first.
                    let envelope =
                        examples.forwarded.replace(r#""initialize""#, r#""proxy/initialize""#);
                    link.hears(&envelope);
                    let (_, said) = link.hears(&error("c:1", -32601, "no"));
                    assert_eq!(said.len(), 1, "{}", examples.name);
                    "c:1~1"
                }
                _ => "c:1",
            };
            let (heard, _) = link.hears(examples.forwarded);
            assert!(heard.is_some(), "{}", examples.name);
            link.says(Side::Editor, &error("x", -32000, "log in").replace(r#""x""#, "7"));
            let (heard, said) = link.hears(&error(id, -32000, "log in"));
            assert_eq!((heard.unwrap().1, said), (error("c:1", -32000, "log in"), vec![]));
        }
    }
}

/// A slow old proxy passes on the poke, too, and that settles nothing: the greeting is still open.
#[test]
fn what_a_proxy_sends_before_its_own_initialize_only_tells_how_it_spells() {
    let mut link = Link::to(Proxy::unknown("x"));
    link.says(Side::Agent, INITIALIZE);
    let echo = |method: &str| {
        format!(
            r#"{{"id":1,"method":"_proxy/successor","params":{{"method":"{method}","params":{{}}}}}}"#
        )
    };
    link.hears(&echo("$/cancel_request").replace(r#""id":1,"#, ""));
    assert_eq!(link.0.protocol().name(), "unknown");
    link.hears(&echo("proxy/initialize"));
    link.hears(&echo("session/new"));
    assert_eq!(link.0.protocol().name(), "unknown");
    // With a hint, no error is taken for a final no.
    let (heard, said) = link.hears(r#"{"id":"c:1","error":{"code":-32603,"message":"refused"}}"#);
    assert_eq!(heard, None);
    assert!(said[0].contains("_proxy/initialize"), "{said:?}");
    // A second answer to the greeting that was withdrawn is nobody's.
    assert_eq!(link.hears(r#"{"id":"c:1","result":{"protocolVersion":1}}"#), (None, vec![]));
    link.hears(&echo("initialize"));
    assert_eq!(link.0.protocol().name(), "P4");
}

/// Of two greetings at once, the one that waited is not sent as if to an agent.
#[test]
fn a_proxys_seat_is_never_sent_an_undressed_initialize() {
    let mut link = Link::to(Proxy::unknown("x"));
    link.says(Side::Agent, INITIALIZE);
    link.sends(Side::Agent, &INITIALIZE.replace("c:1", "c:2"), &[]);
    let no = |id: &str| format!(r#"{{"id":"{id}","error":{{"code":-32601,"message":"no"}}}}"#);
    link.hears(&no("c:1"));
    link.hears(&no("c:1~1"));
    let (_, said) = link.hears(&no("c:1~2"));
    assert_eq!(said, [PROBE.replace("c:1", "c:2")]);
}

/// Checklist 21: what dies of a greeting is begun with the next older one.
#[test]
fn a_component_that_ends_over_a_greeting_is_begun_with_an_older_one() {
    let mut link = Link::to(Proxy::unknown("x"));
    link.says(Side::Agent, INITIALIZE);
    assert!(link.proxy().awaits_first_line());
    for greeting in ["_proxy/initialize", r#""method":"initialize""#] {
        let mut out = Vec::new();
        assert!(link.proxy().retry_on_restart(&mut out));
        assert!(lines(out)[0].contains(greeting));
    }
    assert!(!link.proxy().retry_on_restart(&mut Vec::new()), "nothing is left to try");
    let mut known = proxy("P5");
    known.says(Side::Agent, INITIALIZE);
    assert!(
        !known.proxy().retry_on_restart(&mut Vec::new()),
        "a pinned one is not tried with others"
    );
}

/// Note 5 of the probe: it begins with what was understood the last time, and corrects itself.
#[test]
fn a_remembered_greeting_comes_first_and_can_be_wrong() {
    let mut link = Link::to(Proxy::remembered("x", generation::Greeting::Underscore));
    assert!(link.says(Side::Agent, INITIALIZE)[0].contains("_proxy/initialize"));
    assert!(!link.proxy().guess_failed());
    link.hears(r#"{"id":1,"method":"proxy/successor","params":{"method":"_proxy/initialize","params":{}}}"#);
    let (_, said) = link.hears(r#"{"id":"c:1","error":{"code":-32601,"message":"no"}}"#);
    assert!(said[0].contains(r#""method":"proxy/initialize""#), "{said:?}");
    assert!(link.proxy().guess_failed());
}

/// Components that were greeted with this the last time, and have this generation.
fn guesses() -> [Link; 2] {
    let p3 = Generation::from_name("P2").unwrap();
    [Proxy::remembered("x", generation::Greeting::Capability), Proxy::restarted("x", p3)]
        .map(Link::to)
}

/// Checklist 21: a guess that is refused begins the whole probe, with the newest greeting. (What was refused
/// is sent to the same process again only if it offers the role in more places.)
#[test]
fn a_guess_that_is_refused_begins_the_probe_anew() {
    let order = ["\"proxy/initialize", "_proxy/initialize", r#""method":"initialize""#];
    for (mut link, order) in guesses().into_iter().zip([&order[..2], &order[..]]) {
        link.says(Side::Agent, INITIALIZE);
        let mut id = "c:1".to_owned();
        for (number, next) in order.iter().enumerate() {
            let (heard, said) = link.hears(&error(&id, -32603, "no"));
            assert!(heard.is_none() && said[0].contains(next), "{said:?}");
            id = format!("c:1~{}", number + 1);
        }
        let (heard, _) = link.hears(&error(&id, -32000, "last"));
        assert!(heard.unwrap().1.contains("-32603"), "the first error");
        assert!(link.proxy().guess_failed());
        // The next time nothing is guessed.
        assert!(link.says(Side::Agent, INITIALIZE)[0].contains("\"proxy/initialize"));
    }
}

/// Checklist 21: what does not answer a guess does not speak for it.
#[test]
fn only_an_answer_or_an_envelope_speaks_for_a_guess() {
    let words = [BARE, r#"{"id":7,"method":"_x/ask"}"#, r#"{"id":null,"error":{"code":-32700}}"#];
    for words in words {
        for mut link in guesses() {
            link.says(Side::Agent, INITIALIZE);
            link.hears(words);
            assert!(link.proxy().awaits_first_line() && link.proxy().is_guessing(), "{words}");
        }
        let mut unknown = Link::to(Proxy::unknown("x"));
        unknown.says(Side::Agent, INITIALIZE);
        unknown.hears(words);
        assert!(!unknown.proxy().awaits_first_line(), "{words}");
    }
    for mut link in guesses() {
        link.says(Side::Agent, INITIALIZE);
        link.hears(r#"{"id":1,"method":"proxy/successor","params":{"method":"_x/early"}}"#);
        assert!(!link.proxy().awaits_first_line());
    }
}

/// Checklist 21: likewise if the component ends over the guess.
#[test]
fn a_guess_that_ends_the_component_begins_the_probe_anew() {
    for mut link in guesses() {
        link.says(Side::Agent, INITIALIZE);
        assert!(link.proxy().failed_greetings().is_empty(), "a guess does not count");
        for next in ["\"proxy/initialize", "_proxy/initialize", r#""method":"initialize""#] {
            let mut out = Vec::new();
            assert!(link.proxy().can_retry() && link.proxy().retry_on_restart(&mut out));
            assert!(lines(out)[0].contains(next) && !link.proxy().is_guessing());
            let failed = link.proxy().failed_greetings();
            let present = failed.last().map(|it| format!(r#""{}""#, it.method()));
            assert!(present.is_some_and(|it| it.contains(next.trim_start_matches(r#""method":"#))));
        }
        assert_eq!(link.proxy().failed_greetings(), generation::Greeting::ALL);
        assert!(!link.proxy().can_retry() && !link.proxy().retry_on_restart(&mut Vec::new()));
    }
}

/// Checklist 21: an agent was made of a component that would be a proxy if greeted as one. It has to
/// be started again for that; what it says before its end concerns nobody.
#[test]
fn a_guess_that_makes_an_agent_of_the_component_begins_the_probe_on_a_fresh_one() {
    for mut link in guesses() {
        link.says(Side::Agent, INITIALIZE);
        link.sends(Side::Agent, BARE, &[]);
        let (heard, said) = link.hears(RESULT);
        assert_eq!((heard, said), (None, vec![]));
        assert!(link.proxy().needs_restart() && link.proxy().guess_failed());
        assert_eq!(link.hears(UPDATE), (None, vec![]));
        let mut out = Vec::new();
        assert!(link.proxy().can_retry() && link.proxy().retry_on_restart(&mut out));
        assert!(!link.proxy().needs_restart());
        assert_eq!(lines(out), [PROBE.replace("c:1", "c:1~1")]);
        let (heard, said) = link.hears(EXAMPLES[0].forwarded);
        assert!(heard.is_some());
        assert_eq!(said, [BARE], "what waited is sent");
    }
    // Where it was not a guess, the component is no proxy, and a fresh one would be none either.
    let mut link = Link::to(Proxy::after_failures("x", generation::Greeting::ALL[..2].to_vec()));
    link.says(Side::Agent, INITIALIZE);
    let (heard, _) = link.hears(RESULT);
    assert!(heard.unwrap().1.contains("component 'x' is not a proxy"));
    assert!(!link.proxy().needs_restart());
}

/// A component that was started again is met exactly as it wanted to be the last time.
#[test]
fn a_restarted_proxy_is_met_in_its_own_spelling() {
    for examples in &EXAMPLES {
        let generation = Generation::from_name(examples.name).unwrap();
        let mut link = Link::to(Proxy::restarted("x", generation));
        link.sends(Side::Agent, INITIALIZE, &[examples.greeting]);
        link.hears(examples.forwarded);
        link.hears(examples.accepted);
        assert_eq!(link.0.protocol().name(), examples.name);
        link.sends(Side::Editor, UPDATE, &[examples.received]);
    }
}

const NO: &str = r#"{"code":-32601,"message":"no"}"#;

/// What the user is told of greetings in vain: nothing, if all there is to tell is one end.
#[test]
fn the_greetings_that_were_tried_are_told() {
    let mut link = Link::to(Proxy::unknown("x"));
    assert_eq!(link.proxy().attempts_summary(), None);
    link.says(Side::Agent, INITIALIZE);
    assert_eq!(link.proxy().attempts_summary(), None);
    assert!(link.proxy().retry_on_restart(&mut Vec::new()));
    assert_eq!(link.proxy().attempts_summary(), None);
    link.hears(&format!(r#"{{"id":"c:1~1","error":{NO}}}"#));
    let told = format!("proxy/initialize: the component exited; _proxy/initialize: the error {NO}");
    assert_eq!(link.proxy().attempts_summary(), Some(told));

    let mut link = Link::to(Proxy::unknown("x"));
    link.says(Side::Agent, INITIALIZE);
    link.hears(&format!(r#"{{"id":"c:1","error":{NO}}}"#));
    assert_eq!(link.proxy().attempts_summary(), Some(format!("proxy/initialize: the error {NO}")));

    let mut link = Link::to(Proxy::unknown("x"));
    link.says(Side::Agent, INITIALIZE);
    for told in [
        None,
        Some("proxy/initialize: the component exited; _proxy/initialize: the component exited"),
    ] {
        assert!(link.proxy().retry_on_restart(&mut Vec::new()));
        assert_eq!(link.proxy().attempts_summary().as_deref(), told);
    }
    // Long answers are shortened.
    let long = format!(r#"{{"id":"c:1~2","result":"{}"}}"#, "x".repeat(500));
    let (heard, _) = link.hears(&long);
    let error = heard.unwrap().1;
    assert!(
        error.contains("initialize with the proxy capability: the result") && error.len() < 700
    );
    assert_eq!(link.proxy().attempts_summary(), None, "the probe is over");
}

/// Only a refusal with a reason of the component's own counts as one.
#[test]
fn a_refused_greeting_is_told_from_an_unknown_one() {
    for (code, own) in [(-32000, true), (-32603, true), (-32601, false), (-32600, false)] {
        let mut link = Link::to(Proxy::unknown("x"));
        link.says(Side::Agent, INITIALIZE);
        assert!(!link.proxy().was_refused());
        link.hears(&format!(r#"{{"id":"c:1","error":{{"code":{code},"message":"no"}}}}"#));
        assert_eq!(link.proxy().was_refused(), own, "{code}");
    }
}

/// A component that has said nothing is sent a harmless line, which it may notice.
#[test]
fn only_a_silent_component_is_poked() {
    let mut link = Link::to(Proxy::unknown("x"));
    let poked = |link: &mut Link| {
        let mut out = Vec::new();
        link.proxy().send_noop(&mut out);
        lines(out).len()
    };
    assert_eq!(poked(&mut link), 0);
    link.says(Side::Agent, INITIALIZE);
    assert_eq!(poked(&mut link), 1);
    link.hears(UPDATE);
    assert_eq!(poked(&mut link), 0);
}

/// A component that is given up is told nothing more of the greeting, and its late answer concerns nobody.
#[test]
fn a_greeting_that_is_no_longer_waited_for_is_answered_with_an_error() {
    let mut link = Link::to(Proxy::unknown("x"));
    assert!(link.proxy().stop_waiting(&mut Vec::new()).is_none());
    link.says(Side::Agent, INITIALIZE);
    link.sends(Side::Agent, UPDATE, &[]);
    let mut out = Vec::new();
    let (side, answer) = link.proxy().stop_waiting(&mut out).unwrap();
    let answer = answer.to_line();
    assert!(side == Side::Editor && answer.contains(r#""id":"c:1","error""#), "{answer}");
    assert!(answer.contains("proxy/initialize: no answer"), "{answer}");
    assert_eq!(lines(out), [UPDATE], "what waited is sent");
    assert_eq!(link.hears(RESULT), (None, vec![]));
    assert!(!link.proxy().can_retry() && !link.proxy().awaits_first_line());
}
