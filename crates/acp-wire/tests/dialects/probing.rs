//! How the generation of a proxy is detected, and how a remembered generation is used.

use acp_wire::Side;
use acp_wire::dialect::{Generation, Proxy, generation};

use crate::{EXAMPLES, INITIALIZE, Link, RESULT, UPDATE, WITHOUT_PARAMS, lines, proxy};

const P5_GREETING: &str = r#"{"jsonrpc":"2.0","id":"c:1","method":"proxy/initialize","params":{"protocolVersion":1,"clientCapabilities":{},"_meta":{"mcp_acp_transport":true}}}"#;

/// Checklist 15, 16, 20: older proxies forward an unknown greeting. Their envelope shows their generation.
#[test]
fn the_envelope_of_a_forwarded_greeting_shows_the_generation() {
    for (envelope, then) in [
        ("_proxy/successor", "_proxy/initialize"),
        ("_proxy/successor/request", "initialize"),
        ("_proxy/successor/send/request", "initialize"),
    ] {
        let mut link = Link::to(Proxy::unknown("x"));
        link.assert_encodes(Side::Agent, INITIALIZE, &[P5_GREETING]);
        // Messages are held meanwhile.
        link.assert_encodes(Side::Agent, WITHOUT_PARAMS, &[]);
        let inner = r#""method":"proxy/initialize","params":{}"#;
        let inner = match envelope.contains("send") {
            true => format!(r#"{{"message":{{{inner}}}}}"#),
            false => format!("{{{inner}}}"),
        };
        let echo =
            format!(r#"{{"jsonrpc":"2.0","id":"p","method":"{envelope}","params":{inner}}}"#);
        let (decoded, replies) = link.receive(&echo);
        assert_eq!(decoded, None, "the greeting is not forwarded");
        assert!(replies[0].contains(r#""id":"p","error":{"code":-32601"#), "{replies:?}");
        let (decoded, replies) =
            link.receive(r#"{"jsonrpc":"2.0","id":"c:1","error":{"code":-32601,"message":"no"}}"#);
        assert_eq!(decoded, None);
        assert!(replies[0].contains(&format!(r#""id":"c:1~1","method":"{then}""#)), "{replies:?}");
        let forwarded = echo.replace("proxy/initialize", "initialize");
        let (decoded, replies) = link.receive(&forwarded);
        assert!(decoded.unwrap().1.contains(r#""id":"p","method":"initialize""#));
        assert_eq!(replies, [WITHOUT_PARAMS], "held messages are sent");
        assert!(!link.proxy().awaits_first_line());
    }
}

#[test]
fn a_proxy_gets_the_envelopes_that_it_sent_last() {
    let [p5, p4] = ["P5", "P4"].map(|name| EXAMPLES.iter().find(|it| it.name == name).unwrap());
    let mut link = Link::to(Proxy::unknown("x"));
    link.assert_encodes(Side::Agent, INITIALIZE, &[P5_GREETING]);
    link.receive(p5.forwarded);
    link.assert_encodes(Side::Editor, UPDATE, &[p5.received]);
    link.assert_decodes(p4.sent, Side::Agent, UPDATE);
    link.assert_encodes(Side::Editor, UPDATE, &[p4.received]);
}

#[test]
fn a_request_that_is_not_held_is_written_unchanged() {
    let request = r#"{"jsonrpc":"2.0","id":"c:2","method":"session/new","params":{}}"#;
    Link::to(Proxy::unknown("x")).assert_encodes(Side::Agent, request, &[request]);
    let mut link = proxy("P5");
    link.assert_encodes(Side::Agent, INITIALIZE, &[P5_GREETING]);
    link.assert_encodes(Side::Agent, request, &[request]);
}

/// The id in the cancellation may differ from the id of the current greeting.
#[test]
fn a_greeting_is_not_cancelled() {
    let cancel = r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"c:1"}}"#;
    let mut link = Link::to(Proxy::unknown("x"));
    link.assert_encodes(Side::Agent, INITIALIZE, &[P5_GREETING]);
    link.assert_encodes(Side::Agent, cancel, &[]);
    link.assert_encodes(Side::Agent, WITHOUT_PARAMS, &[]);
    let (_, replies) = link.receive(
        r#"{"id":7,"method":"proxy/successor","params":{"method":"initialize","params":{}}}"#,
    );
    assert_eq!(replies, [WITHOUT_PARAMS]);
}

/// Flow control counts these bytes as queued for the component.
#[test]
fn messages_held_for_the_generation_are_counted() {
    let mut link = Link::to(Proxy::unknown("x"));
    assert_eq!(link.0.held_bytes(), 0);
    link.assert_encodes(Side::Agent, INITIALIZE, &[P5_GREETING]);
    let before = link.0.held_bytes();
    link.assert_encodes(Side::Agent, WITHOUT_PARAMS, &[]);
    let held = link.0.held_bytes() - before;
    assert!((WITHOUT_PARAMS.len()..WITHOUT_PARAMS.len() + 1024).contains(&held), "{held} bytes");
    link.receive(
        r#"{"id":7,"method":"proxy/successor","params":{"method":"initialize","params":{}}}"#,
    );
    assert_eq!(link.0.held_bytes(), 0);
}

/// Checklist 7, 25: an agent is not treated as a proxy, and the error lists what was tried.
#[test]
fn an_agent_in_the_seat_of_a_proxy_is_detected() {
    let mut link = Link::to(Proxy::unknown("eliza"));
    link.encode(Side::Agent, INITIALIZE);
    let no = |id: &str| {
        format!(r#"{{"jsonrpc":"2.0","id":"{id}","error":{{"code":-32601,"message":"no"}}}}"#)
    };
    assert!(link.receive(&no("c:1")).1[0].contains("_proxy/initialize"));
    assert!(link.receive(&no("c:1~1")).1[0].contains(r#""method":"initialize""#));
    let (decoded, replies) =
        link.receive(r#"{"jsonrpc":"2.0","id":"c:1~2","result":{"protocolVersion":1}}"#);
    let (_, error) = decoded.unwrap();
    assert!(error.starts_with(r#"{"jsonrpc":"2.0","id":"c:1","error""#), "{error}");
    assert!(
        error.contains("component 'eliza' is not a proxy") && error.contains("-32601"),
        "{error}"
    );
    assert!(replies.is_empty());
    // It can be sent `initialize` again.
    link.assert_encodes(Side::Agent, INITIALIZE, &[P5_GREETING]);
    // Some agents answer any request with a result.
    let (decoded, replies) = link.receive(r#"{"jsonrpc":"2.0","id":"c:1","result":null}"#);
    assert!(decoded.is_none() && replies[0].contains("_proxy/initialize"));
}

/// The answer to the greeting with this id: an error with this code.
pub(crate) fn error(id: &str, code: i64, message: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":"{id}","error":{{"code":{code},"message":"{message}"}}}}"#)
}

/// Checklist 21, 95: the next older greeting is tried after any error, because a component may refuse an unknown
/// greeting with any code.
#[test]
fn any_error_leads_to_the_next_older_greeting() {
    for code in
        [-32700, -32600, -32601, -32602, -32603, -32000, -32800, -1, 0, 1, 403, 9_000_000_000]
    {
        let mut link = Link::to(Proxy::unknown("x"));
        link.encode(Side::Agent, INITIALIZE);
        let (decoded, replies) = link.receive(&error("c:1", code, "no"));
        assert!(
            decoded.is_none() && replies[0].contains("_proxy/initialize"),
            "{code}: {replies:?}"
        );
        let (decoded, replies) = link.receive(&error("c:1~1", code, "no"));
        assert!(
            decoded.is_none() && replies[0].contains(r#""method":"initialize""#),
            "{code}: {replies:?}"
        );
        link.receive(&EXAMPLES[2].forwarded.replace(r#""c:1""#, r#""c:1~2""#));
        assert_eq!(link.0.protocol().name(), "P3");
    }
    // Also if the error has no code.
    let mut link = Link::to(Proxy::unknown("x"));
    link.encode(Side::Agent, INITIALIZE);
    let (_, replies) = link.receive(r#"{"id":"c:1","error":"no"}"#);
    assert!(replies[0].contains("_proxy/initialize"), "{replies:?}");
}

/// Checklist 6: if all greetings were refused, the first error counts.
#[test]
fn the_first_error_is_forwarded_if_no_greeting_was_understood() {
    let mut link = Link::to(Proxy::unknown("x"));
    link.encode(Side::Agent, INITIALIZE);
    let first = r#""error":{"code":-32000,"message":"log in first","data":{"x": 1.10}}"#;
    link.receive(&format!(r#"{{"jsonrpc":"2.0","id":"c:1",{first}}}"#));
    link.receive(&error("c:1~1", -32601, "what?"));
    let (decoded, replies) = link.receive(&error("c:1~2", -32603, "what now?"));
    let expected = format!(r#"{{"jsonrpc":"2.0","id":"c:1",{first}}}"#);
    assert_eq!((decoded.unwrap().1, replies), (expected, vec![]));

    // If the error says only that the greeting is not known, the text names the component.
    let mut link = Link::to(Proxy::unknown("x"));
    link.encode(Side::Agent, INITIALIZE);
    for (id, code) in [("c:1", -32601), ("c:1~1", -32000)] {
        assert_eq!(link.receive(&error(id, code, "no")).0, None);
    }
    let (decoded, _) = link.receive(&error("c:1~2", -32603, "no"));
    let (_, line) = decoded.unwrap();
    assert!(line.contains(r#""code":-32601"#) && line.contains("component 'x'"), "{line}");
}

/// Checklist 6, 21: an error of the agent that a proxy forwards does not refuse the greeting.
#[test]
fn an_error_of_the_successor_does_not_refuse_the_greeting() {
    for examples in &EXAMPLES {
        let greeting = Generation::from_name(examples.name).unwrap();
        for mut link in [Link::to(Proxy::unknown("x")), Link::to(Proxy::restarted("x", greeting))] {
            let id = match link.encode(Side::Agent, INITIALIZE)[0].contains("\"proxy/initialize") {
                true if examples.name != "P5" => {
                    // The generation is detected first.
                    let envelope =
                        examples.forwarded.replace(r#""initialize""#, r#""proxy/initialize""#);
                    link.receive(&envelope);
                    let (_, replies) = link.receive(&error("c:1", -32601, "no"));
                    assert_eq!(replies.len(), 1, "{}", examples.name);
                    "c:1~1"
                }
                _ => "c:1",
            };
            let (decoded, _) = link.receive(examples.forwarded);
            assert!(decoded.is_some(), "{}", examples.name);
            link.encode(Side::Editor, &error("x", -32000, "log in").replace(r#""x""#, "7"));
            let (decoded, replies) = link.receive(&error(id, -32000, "log in"));
            assert_eq!((decoded.unwrap().1, replies), (error("c:1", -32000, "log in"), vec![]));
        }
    }
}

/// A slow proxy of an older generation also forwards the no-op notification. The greeting is still open.
#[test]
fn messages_before_the_own_initialize_of_a_proxy_are_only_a_hint() {
    let mut link = Link::to(Proxy::unknown("x"));
    link.encode(Side::Agent, INITIALIZE);
    let echo = |method: &str| {
        format!(
            r#"{{"id":1,"method":"_proxy/successor","params":{{"method":"{method}","params":{{}}}}}}"#
        )
    };
    link.receive(&echo("$/cancel_request").replace(r#""id":1,"#, ""));
    assert_eq!(link.0.protocol().name(), "unknown");
    link.receive(&echo("proxy/initialize"));
    link.receive(&echo("session/new"));
    assert_eq!(link.0.protocol().name(), "unknown");
    // After a hint, an error does not end the probe.
    let (decoded, replies) =
        link.receive(r#"{"id":"c:1","error":{"code":-32603,"message":"refused"}}"#);
    assert_eq!(decoded, None);
    assert!(replies[0].contains("_proxy/initialize"), "{replies:?}");
    // A second answer to an abandoned greeting is dropped.
    assert_eq!(link.receive(r#"{"id":"c:1","result":{"protocolVersion":1}}"#), (None, vec![]));
    link.receive(&echo("initialize"));
    assert_eq!(link.0.protocol().name(), "P4");
}

/// Of two concurrent `initialize` requests, the held one is also sent as a greeting.
#[test]
fn a_held_initialize_is_sent_as_a_greeting() {
    let mut link = Link::to(Proxy::unknown("x"));
    link.encode(Side::Agent, INITIALIZE);
    link.assert_encodes(Side::Agent, &INITIALIZE.replace("c:1", "c:2"), &[]);
    let no = |id: &str| format!(r#"{{"id":"{id}","error":{{"code":-32601,"message":"no"}}}}"#);
    link.receive(&no("c:1"));
    link.receive(&no("c:1~1"));
    let (_, replies) = link.receive(&no("c:1~2"));
    assert_eq!(replies, [P5_GREETING.replace("c:1", "c:2")]);
}

/// Checklist 21: a component that exits on a greeting gets the next older one.
#[test]
fn a_component_that_exits_on_a_greeting_gets_an_older_one() {
    let mut link = Link::to(Proxy::unknown("x"));
    link.encode(Side::Agent, INITIALIZE);
    assert!(link.proxy().awaits_first_line());
    for greeting in ["_proxy/initialize", r#""method":"initialize""#] {
        let mut out = Vec::new();
        assert!(link.proxy().retry_on_restart(&mut out));
        assert!(lines(out)[0].contains(greeting));
    }
    assert!(!link.proxy().retry_on_restart(&mut Vec::new()), "no greeting is left");
    let mut known = proxy("P5");
    known.encode(Side::Agent, INITIALIZE);
    assert!(
        !known.proxy().retry_on_restart(&mut Vec::new()),
        "no other generation is tried for a pinned component"
    );
}

/// The probe starts with the greeting that was understood the last time, and continues if that fails.
#[test]
fn a_remembered_greeting_is_tried_first_and_may_fail() {
    let mut link = Link::to(Proxy::remembered("x", generation::Greeting::Underscore));
    assert!(link.encode(Side::Agent, INITIALIZE)[0].contains("_proxy/initialize"));
    assert!(!link.proxy().guess_failed());
    link.receive(r#"{"id":1,"method":"proxy/successor","params":{"method":"_proxy/initialize","params":{}}}"#);
    let (_, replies) = link.receive(r#"{"id":"c:1","error":{"code":-32601,"message":"no"}}"#);
    assert!(replies[0].contains(r#""method":"proxy/initialize""#), "{replies:?}");
    assert!(link.proxy().guess_failed());
}

/// Links that start with a guess: one from a remembered greeting, one from a remembered generation.
fn guesses() -> [Link; 2] {
    let p2 = Generation::from_name("P2").unwrap();
    [Proxy::remembered("x", generation::Greeting::Capability), Proxy::restarted("x", p2)]
        .map(Link::to)
}

/// Checklist 21: after a refused guess the probe starts with the newest greeting. The refused greeting is sent to the
/// same process again only if it offers the role at more paths.
#[test]
fn a_refused_guess_restarts_the_probe() {
    let order = ["\"proxy/initialize", "_proxy/initialize", r#""method":"initialize""#];
    for (mut link, order) in guesses().into_iter().zip([&order[..2], &order[..]]) {
        link.encode(Side::Agent, INITIALIZE);
        let mut id = "c:1".to_owned();
        for (number, next) in order.iter().enumerate() {
            let (decoded, replies) = link.receive(&error(&id, -32603, "no"));
            assert!(decoded.is_none() && replies[0].contains(next), "{replies:?}");
            id = format!("c:1~{}", number + 1);
        }
        let (decoded, _) = link.receive(&error(&id, -32000, "last"));
        assert!(decoded.unwrap().1.contains("-32603"), "the first error");
        assert!(link.proxy().guess_failed());
        // The next handshake does not start with a guess.
        assert!(link.encode(Side::Agent, INITIALIZE)[0].contains("\"proxy/initialize"));
    }
}

/// Checklist 21: other messages do not confirm a guess.
#[test]
fn only_an_answer_or_an_envelope_confirms_a_guess() {
    let other_lines =
        [WITHOUT_PARAMS, r#"{"id":7,"method":"_x/ask"}"#, r#"{"id":null,"error":{"code":-32700}}"#];
    for line in other_lines {
        for mut link in guesses() {
            link.encode(Side::Agent, INITIALIZE);
            link.receive(line);
            assert!(link.proxy().awaits_first_line() && link.proxy().is_guessing(), "{line}");
        }
        let mut unknown = Link::to(Proxy::unknown("x"));
        unknown.encode(Side::Agent, INITIALIZE);
        unknown.receive(line);
        assert!(!unknown.proxy().awaits_first_line(), "{line}");
    }
    for mut link in guesses() {
        link.encode(Side::Agent, INITIALIZE);
        link.receive(r#"{"id":1,"method":"proxy/successor","params":{"method":"_x/early"}}"#);
        assert!(!link.proxy().awaits_first_line());
    }
}

/// Checklist 21: the same if the component exits on the guess.
#[test]
fn a_guess_on_which_the_component_exits_restarts_the_probe() {
    for mut link in guesses() {
        link.encode(Side::Agent, INITIALIZE);
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

/// Checklist 21: a wrong greeting made the component an agent. It must be restarted to become a proxy. Its messages
/// before that are dropped.
#[test]
fn a_component_that_answers_a_guess_as_an_agent_is_restarted() {
    for mut link in guesses() {
        link.encode(Side::Agent, INITIALIZE);
        link.assert_encodes(Side::Agent, WITHOUT_PARAMS, &[]);
        let (decoded, replies) = link.receive(RESULT);
        assert_eq!((decoded, replies), (None, vec![]));
        assert!(link.proxy().needs_restart() && link.proxy().guess_failed());
        assert_eq!(link.receive(UPDATE), (None, vec![]));
        let mut out = Vec::new();
        assert!(link.proxy().can_retry() && link.proxy().retry_on_restart(&mut out));
        assert!(!link.proxy().needs_restart());
        assert_eq!(lines(out), [P5_GREETING.replace("c:1", "c:1~1")]);
        let (decoded, replies) = link.receive(EXAMPLES[0].forwarded);
        assert!(decoded.is_some());
        assert_eq!(replies, [WITHOUT_PARAMS], "held messages are sent");
    }
    // If the greeting was not a guess, the component is not a proxy, and a restart would not change that.
    let mut link = Link::to(Proxy::after_failures("x", generation::Greeting::ALL[..2].to_vec()));
    link.encode(Side::Agent, INITIALIZE);
    let (decoded, _) = link.receive(RESULT);
    assert!(decoded.unwrap().1.contains("component 'x' is not a proxy"));
    assert!(!link.proxy().needs_restart());
}

/// A restarted component first gets the greeting of its previous generation.
#[test]
fn a_restarted_proxy_gets_messages_of_its_previous_generation() {
    for examples in &EXAMPLES {
        let generation = Generation::from_name(examples.name).unwrap();
        let mut link = Link::to(Proxy::restarted("x", generation));
        link.assert_encodes(Side::Agent, INITIALIZE, &[examples.greeting]);
        link.receive(examples.forwarded);
        link.receive(examples.accepted);
        assert_eq!(link.0.protocol().name(), examples.name);
        link.assert_encodes(Side::Editor, UPDATE, &[examples.received]);
    }
}

const NO: &str = r#"{"code":-32601,"message":"no"}"#;

/// The summary is empty if the component only exited once.
#[test]
fn the_summary_lists_the_greetings_that_were_tried() {
    let mut link = Link::to(Proxy::unknown("x"));
    assert_eq!(link.proxy().attempts_summary(), None);
    link.encode(Side::Agent, INITIALIZE);
    assert_eq!(link.proxy().attempts_summary(), None);
    assert!(link.proxy().retry_on_restart(&mut Vec::new()));
    assert_eq!(link.proxy().attempts_summary(), None);
    link.receive(&format!(r#"{{"id":"c:1~1","error":{NO}}}"#));
    let summary =
        format!("proxy/initialize: the component exited; _proxy/initialize: the error {NO}");
    assert_eq!(link.proxy().attempts_summary(), Some(summary));

    let mut link = Link::to(Proxy::unknown("x"));
    link.encode(Side::Agent, INITIALIZE);
    link.receive(&format!(r#"{{"id":"c:1","error":{NO}}}"#));
    assert_eq!(link.proxy().attempts_summary(), Some(format!("proxy/initialize: the error {NO}")));

    let mut link = Link::to(Proxy::unknown("x"));
    link.encode(Side::Agent, INITIALIZE);
    for summary in [
        None,
        Some("proxy/initialize: the component exited; _proxy/initialize: the component exited"),
    ] {
        assert!(link.proxy().retry_on_restart(&mut Vec::new()));
        assert_eq!(link.proxy().attempts_summary().as_deref(), summary);
    }
    // Long answers are shortened.
    let long = format!(r#"{{"id":"c:1~2","result":"{}"}}"#, "x".repeat(500));
    let (decoded, _) = link.receive(&long);
    let error = decoded.unwrap().1;
    assert!(
        error.contains("initialize with the proxy capability: the result") && error.len() < 700
    );
    assert_eq!(link.proxy().attempts_summary(), None, "the probe is over");
}

/// Only an error with another reason than an unknown greeting counts as a refusal.
#[test]
fn a_refused_greeting_is_distinguished_from_an_unknown_one() {
    for (code, is_refusal) in [(-32000, true), (-32603, true), (-32601, false), (-32600, false)] {
        let mut link = Link::to(Proxy::unknown("x"));
        link.encode(Side::Agent, INITIALIZE);
        assert!(!link.proxy().was_refused());
        link.receive(&format!(r#"{{"id":"c:1","error":{{"code":{code},"message":"no"}}}}"#));
        assert_eq!(link.proxy().was_refused(), is_refusal, "{code}");
    }
}

/// A broken program may exit when it reads another line.
#[test]
fn the_noop_is_sent_only_to_a_silent_component() {
    let mut link = Link::to(Proxy::unknown("x"));
    let send_noop = |link: &mut Link| {
        let mut out = Vec::new();
        link.proxy().send_noop(&mut out);
        lines(out).len()
    };
    assert_eq!(send_noop(&mut link), 0);
    link.encode(Side::Agent, INITIALIZE);
    assert_eq!(send_noop(&mut link), 1);
    link.receive(UPDATE);
    assert_eq!(send_noop(&mut link), 0);
}

/// After that the component gets no further greeting, and its late answer is dropped.
#[test]
fn an_abandoned_greeting_is_answered_with_an_error() {
    let mut link = Link::to(Proxy::unknown("x"));
    assert!(link.proxy().stop_waiting(&mut Vec::new()).is_none());
    link.encode(Side::Agent, INITIALIZE);
    link.assert_encodes(Side::Agent, UPDATE, &[]);
    let mut out = Vec::new();
    let (side, answer) = link.proxy().stop_waiting(&mut out).unwrap();
    let answer = answer.to_line();
    assert!(side == Side::Editor && answer.contains(r#""id":"c:1","error""#), "{answer}");
    assert!(answer.contains("proxy/initialize: no answer"), "{answer}");
    assert_eq!(lines(out), [UPDATE], "held messages are sent");
    assert_eq!(link.receive(RESULT), (None, vec![]));
    assert!(!link.proxy().can_retry() && !link.proxy().awaits_first_line());
}
