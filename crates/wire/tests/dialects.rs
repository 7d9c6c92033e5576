//! Each generation in the spelling of its document, and how a generation is found out.
//!
//! A test is a conversation on one link, written as the lines that cross it:
//! `canonical` messages are what the router sees.

use bytes::Bytes;
use wire::dialect::{Dialect, Generation, Outer, Proxy, generation};
use wire::{Message, Side};

/// One end of a link, with what it has to say back at once.
struct Link<D>(D);

impl<D: Dialect> Link<D> {
    /// Hears a line: what the router is told, and what is said back.
    fn hears(&mut self, line: &str) -> (Option<(Side, String)>, Vec<String>) {
        let mut out = Vec::new();
        let heard = match self.0.decode(&Bytes::copy_from_slice(line.as_bytes()), &mut out) {
            Ok(heard) => heard.map(|(side, message)| (side, message.to_line())),
            Err(rejection) => {
                rejection.reply.iter().for_each(|reply| reply.write_line(&mut out));
                None
            }
        };
        (heard, lines(out))
    }

    /// Says a canonical message.
    fn says(&mut self, toward: Side, line: &str) -> Vec<String> {
        let mut out = Vec::new();
        let message = Message::parse(&Bytes::copy_from_slice(line.as_bytes())).unwrap();
        self.0.encode(toward, &message, &mut out);
        lines(out)
    }

    #[track_caller]
    fn passes(&mut self, line: &str, side: Side, canonical: &str) {
        assert_eq!(self.hears(line), (Some((side, canonical.to_owned())), vec![]), "{line}");
    }

    #[track_caller]
    fn refuses(&mut self, line: &str, code: &str) {
        let (heard, said) = self.hears(line);
        assert_eq!(heard, None, "{line}");
        match code {
            "" => assert!(said.is_empty(), "{said:?}"),
            code => assert!(said.len() == 1 && said[0].contains(code), "{line}: {said:?}"),
        }
    }

    #[track_caller]
    fn sends(&mut self, toward: Side, canonical: &str, lines: &[&str]) {
        assert_eq!(self.says(toward, canonical), lines, "{canonical}");
    }
}

fn lines(out: Vec<u8>) -> Vec<String> {
    String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
}

fn proxy(name: &str) -> Link<Proxy> {
    Link(Proxy::pinned("x", Generation::named(name).unwrap()))
}

const UPDATE: &str = r#"{"jsonrpc":"2.0","method":"session/update","params":{"a": 1.10}}"#;
const BARE: &str = r#"{"jsonrpc":"2.0","method":"ping"}"#;
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":"c:1","method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}"#;
const RESULT: &str = r#"{"jsonrpc":"2.0","id":"c:1","result":{"protocolVersion":1}}"#;

/// What a generation's proxy and its conductor say, in the order: greeting, the proxy's forwarded
/// `initialize`, its acceptance, an envelope each way, and one without params.
struct Examples {
    name: &'static str,
    greeting: &'static str,
    forwarded: &'static str,
    accepted: &'static str,
    sent: &'static str,
    received: &'static str,
    bare: &'static str,
}

const EXAMPLES: [Examples; 6] = [
    Examples {
        name: "P5",
        greeting: r#"{"jsonrpc":"2.0","id":"c:1","method":"proxy/initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}"#,
        forwarded: r#"{"jsonrpc":"2.0","id":7,"method":"proxy/successor","params":{"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}}"#,
        accepted: r#"{"jsonrpc":"2.0","id":"c:1","result":{"protocolVersion":1}}"#,
        sent: r#"{"jsonrpc":"2.0","method":"proxy/successor","params":{"method":"session/update","params":{"a": 1.10}}}"#,
        received: r#"{"jsonrpc":"2.0","method":"proxy/successor","params":{"method":"session/update","params":{"a": 1.10}}}"#,
        bare: r#"{"jsonrpc":"2.0","method":"proxy/successor","params":{"method":"ping"}}"#,
    },
    Examples {
        name: "P4",
        greeting: r#"{"jsonrpc":"2.0","id":"c:1","method":"_proxy/initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}"#,
        forwarded: r#"{"jsonrpc":"2.0","id":7,"method":"_proxy/successor","params":{"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}}"#,
        accepted: r#"{"jsonrpc":"2.0","id":"c:1","result":{"protocolVersion":1}}"#,
        sent: r#"{"jsonrpc":"2.0","method":"_proxy/successor","params":{"method":"session/update","params":{"a": 1.10}}}"#,
        received: r#"{"jsonrpc":"2.0","method":"_proxy/successor","params":{"method":"session/update","params":{"a": 1.10}}}"#,
        bare: r#"{"jsonrpc":"2.0","method":"_proxy/successor","params":{"method":"ping","params":null}}"#,
    },
    Examples {
        name: "P3",
        greeting: r#"{"jsonrpc":"2.0","id":"c:1","method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"_meta":{"symposium":{"version":"1.0","proxy":true}}}}}"#,
        forwarded: r#"{"jsonrpc":"2.0","id":7,"method":"_proxy/successor/request","params":{"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"_meta":{"symposium":{"version":"1.0"}}}}}}"#,
        accepted: r#"{"jsonrpc":"2.0","id":"c:1","result":{"protocolVersion":1,"agentCapabilities":{"_meta":{"symposium":{"version":"1.0","proxy":true}}}}}"#,
        sent: r#"{"jsonrpc":"2.0","method":"_proxy/successor/notification","params":{"method":"session/update","params":{"a": 1.10}}}"#,
        received: r#"{"jsonrpc":"2.0","method":"_proxy/successor/notification","params":{"method":"session/update","params":{"a": 1.10}}}"#,
        bare: r#"{"jsonrpc":"2.0","method":"_proxy/successor/notification","params":{"method":"ping","params":null}}"#,
    },
    Examples {
        name: "P3t",
        greeting: r#"{"jsonrpc":"2.0","id":"c:1","method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{},"_meta":{"proxy":true}}}"#,
        forwarded: r#"{"jsonrpc":"2.0","id":7,"method":"_proxy/successor/request","params":{"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{},"_meta":{"proxy":true}}}}"#,
        accepted: r#"{"jsonrpc":"2.0","id":"c:1","result":{"protocolVersion":1,"_meta":{"proxy":true}}}"#,
        sent: r#"{"jsonrpc":"2.0","method":"_proxy/successor/notification","params":{"method":"session/update","params":{"a": 1.10}}}"#,
        received: r#"{"jsonrpc":"2.0","method":"_proxy/successor/notification","params":{"method":"session/update","params":{"a": 1.10}}}"#,
        bare: r#"{"jsonrpc":"2.0","method":"_proxy/successor/notification","params":{"method":"ping","params":null}}"#,
    },
    Examples {
        name: "P2",
        greeting: r#"{"jsonrpc":"2.0","id":"c:1","method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{},"capabilities":{"_meta":{"symposium":{"version":"1.0","proxy":true}}}}}"#,
        forwarded: r#"{"id":7,"method":"_proxy/successor/request","params":{"message":{"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}}}"#,
        accepted: r#"{"jsonrpc":"2.0","id":"c:1","result":{"protocolVersion":1,"capabilities":{"_meta":{"symposium":{"version":"1.0","proxy":true}}}}}"#,
        sent: r#"{"method":"_proxy/successor/notification","params":{"message":{"method":"session/update","params":{"a": 1.10}}}}"#,
        received: r#"{"jsonrpc":"2.0","method":"_proxy/successor/notification","params":{"message":{"method":"session/update","params":{"a": 1.10}}}}"#,
        bare: r#"{"jsonrpc":"2.0","method":"_proxy/successor/notification","params":{"message":{"method":"ping","params":{}}}}"#,
    },
    Examples {
        name: "P1",
        greeting: r#"{"jsonrpc":"2.0","id":"c:1","method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{},"_meta":{"symposium":{"version":"1.0","proxy":true}}}}"#,
        forwarded: r#"{"id":7,"method":"_proxy/successor/send/request","params":{"message":{"jsonrpc":"2.0","id":3,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}}}"#,
        accepted: r#"{"jsonrpc":"2.0","id":"c:1","result":{"protocolVersion":1,"_meta":{"symposium":{"version":"1.0","proxy":true}}}}"#,
        sent: r#"{"method":"_proxy/successor/send/notification","params":{"message":{"method":"session/update","params":{"a": 1.10}}}}"#,
        received: r#"{"jsonrpc":"2.0","method":"_proxy/successor/receive/notification","params":{"message":{"method":"session/update","params":{"a": 1.10}}}}"#,
        bare: r#"{"jsonrpc":"2.0","method":"_proxy/successor/receive/notification","params":{"message":{"method":"ping","params":{}}}}"#,
    },
];

/// Checklist 18, 19, 23, 26: the same conversation in the spelling of every generation.
#[test]
fn a_proxy_of_every_generation_is_spoken_to_in_its_own_spelling() {
    for examples in &EXAMPLES {
        let mut link = proxy(examples.name);
        link.sends(Side::Agent, INITIALIZE, &[examples.greeting]);
        // The editor's own params come out of it again: nothing of the offer travels on.
        let forwarded = INITIALIZE.replace(r#""c:1""#, "7");
        let (heard, said) = link.hears(examples.forwarded);
        let (side, message) = heard.unwrap();
        assert_eq!((side, said), (Side::Agent, vec![]), "{}", examples.name);
        if examples.name == "P3" {
            assert!(!message.contains("symposium"), "{message}");
        } else {
            assert_eq!(message, forwarded, "{}", examples.name);
        }
        link.sends(
            Side::Editor,
            r#"{"jsonrpc":"2.0","id":7,"result":{}}"#,
            &[r#"{"jsonrpc":"2.0","id":7,"result":{}}"#],
        );
        let (heard, _) = link.hears(examples.accepted);
        let (_, answer) = heard.unwrap();
        assert!(
            answer.starts_with(r#"{"jsonrpc":"2.0","id":"c:1","result":{"protocolVersion":1"#),
            "{answer}"
        );
        assert!(!answer.contains("symposium") && !answer.contains(r#""proxy""#), "{answer}");
        assert_eq!(link.0.name(), examples.name);

        link.passes(examples.sent, Side::Agent, UPDATE);
        link.sends(Side::Editor, UPDATE, &[examples.received]);
        link.sends(Side::Editor, BARE, &[examples.bare]);
        link.sends(Side::Agent, UPDATE, &[UPDATE]);
        link.passes(UPDATE, Side::Editor, UPDATE);
        let ask = r#"{"jsonrpc":"2.0","id":"c:9","method":"fs/read_text_file","params":{}}"#;
        let said = link.says(Side::Editor, ask);
        assert!(said[0].contains(r#""id":"c:9""#) && said[0].contains("_text_file"), "{said:?}");
    }
}

/// Checklist 28, 29, 30: a conductor above us is recognised by its first request.
#[test]
fn a_conductor_of_every_generation_is_answered_in_kind() {
    for examples in &EXAMPLES {
        let mut link = Link(Outer::unknown());
        let (heard, said) = link.hears(examples.greeting);
        let (side, message) = heard.unwrap();
        assert_eq!((side, said), (Side::Agent, vec![]), "{}", examples.name);
        assert!(message.contains(r#""method":"initialize""#), "{message}");
        assert!(!message.contains("symposium") && !message.contains(r#""proxy""#), "{message}");
        assert_eq!(link.0.name(), examples.name);
        let said = link.says(Side::Editor, RESULT);
        assert_eq!(said, [examples.accepted], "{}", examples.name);
        link.passes(examples.received, Side::Editor, UPDATE);
        let said = link.says(Side::Agent, UPDATE);
        let sent = examples.sent.replace(r#""jsonrpc":"2.0","#, "");
        assert_eq!(said[0].replace(r#""jsonrpc":"2.0","#, ""), sent, "{}", examples.name);
        link.passes(UPDATE, Side::Agent, UPDATE);
        link.sends(Side::Editor, UPDATE, &[UPDATE]);
    }
    let mut link = Link(Outer::unknown());
    link.refuses(INITIALIZE, "-32600");
    link.refuses(
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"_meta":{"proxy":false}}}"#,
        "-32600",
    );
}

/// Checklist 45, 46, 48, 68.
#[test]
fn envelopes_that_make_no_sense_are_refused() {
    let mut link = proxy("P5");
    link.refuses(r#"{"id":1,"method":"proxy/successor","params":{"method":"proxy/successor","params":{"method":"x"}}}"#, "-32600");
    link.refuses(
        r#"{"id":1,"method":"proxy/successor","params":{"method":"_proxy/successor/request"}}"#,
        "-32600",
    );
    link.refuses(
        r#"{"id":1,"method":"proxy/successor","params":{"method":"proxy/initialize"}}"#,
        "-32600",
    );
    link.refuses(r#"{"id":1,"method":"proxy/initialize","params":{}}"#, "-32600");
    link.refuses(r#"{"id":1,"method":"proxy/successor","params":{"params":{}}}"#, "-32602");
    link.refuses(
        r#"{"id":1,"method":"proxy/successor","params":{"method":"x","params":3}}"#,
        "-32602",
    );
    link.refuses(r#"{"id":1,"method":"proxy/successor","params":{"method":3}}"#, "-32602");
    link.refuses(
        r#"{"id":1,"method":"_proxy/successor/request","params":{"message":3}}"#,
        "-32602",
    );
    link.refuses(r#"{"id":1,"method":"proxy/successor"}"#, "-32602");
    link.refuses(r#"{"method":"proxy/successor","params":{"method":"proxy/successor"}}"#, "");
    link.refuses(r#"{"method":"proxy/successor"}"#, "");
    let mut link = Link(Outer::unknown());
    link.refuses(
        r#"{"id":1,"method":"proxy/successor","params":{"method":"proxy/successor"}}"#,
        "-32600",
    );
}

/// Checklist 24, 51: an envelope's own metadata, in either spelling, stays on its hop.
#[test]
fn envelope_metadata_stays_and_unknown_members_pass() {
    let mut link = proxy("P5");
    let line = r#"{"params":{"_meta":{"h":1},"params":{"_meta":{"t":2}},"meta":3,"x": [4],"method":"m"},"method":"proxy/successor","id":9}"#;
    let plain = r#"{"jsonrpc":"2.0","id":9,"method":"m","params":{"_meta":{"t":2}},"x": [4]}"#;
    link.passes(line, Side::Agent, plain);
    let again = r#"{"jsonrpc":"2.0","id":9,"method":"proxy/successor","params":{"method":"m","params":{"_meta":{"t":2}},"x": [4]}}"#;
    link.sends(Side::Editor, plain, &[again]);
    let null = r#"{"method":"proxy/successor","params":{"method":"ping","params":null}}"#;
    link.passes(null, Side::Agent, BARE);
}

/// Checklist 57: a cancellation is never tunnelled, in no generation.
#[test]
fn cancellations_travel_plain_both_ways() {
    let cancel = r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}"#;
    for examples in &EXAMPLES {
        let mut link = proxy(examples.name);
        link.sends(Side::Agent, INITIALIZE, &[examples.greeting]);
        link.hears(examples.forwarded);
        link.sends(Side::Editor, cancel, &[cancel]);
        link.sends(Side::Agent, cancel, &[cancel]);
    }
}

const PROBE: &str = r#"{"jsonrpc":"2.0","id":"c:1","method":"proxy/initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}"#;

/// Checklist 15, 16, 20: old proxies pass the unknown greeting on; its envelope tells.
#[test]
fn a_proxy_is_known_by_the_envelope_in_which_it_passes_the_greeting_on() {
    for (envelope, then) in [
        ("_proxy/successor", "_proxy/initialize"),
        ("_proxy/successor/request", "initialize"),
        ("_proxy/successor/send/request", "initialize"),
    ] {
        let mut link = Link(Proxy::unknown("x"));
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
        assert!(!link.0.awaits_first_word());
    }
}

/// Checklist 7, 25: an agent is not taken for a proxy, and the error tells what was tried.
#[test]
fn an_agent_in_a_proxys_place_is_found_out() {
    let mut link = Link(Proxy::unknown("eliza"));
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

/// Checklist 6: an error that is not just "I do not know this" is the one that is passed on.
#[test]
fn a_real_error_is_passed_on_as_it_is() {
    let mut link = Link(Proxy::unknown("x"));
    link.says(Side::Agent, INITIALIZE);
    let error = r#""error":{"code":-32000,"message":"log in first","data":{"x": 1.10}}"#;
    let answer = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":"{id}",{error}}}"#);
    let (heard, said) = link.hears(&answer("c:1"));
    assert_eq!((heard.unwrap().1, said), (answer("c:1"), vec![]));
}

/// A slow old proxy passes on the poke, too, and that settles nothing: the greeting is still open.
#[test]
fn what_a_proxy_sends_before_its_own_initialize_only_tells_how_it_spells() {
    let mut link = Link(Proxy::unknown("x"));
    link.says(Side::Agent, INITIALIZE);
    let echo = |method: &str| {
        format!(
            r#"{{"id":1,"method":"_proxy/successor","params":{{"method":"{method}","params":{{}}}}}}"#
        )
    };
    link.hears(&echo("$/cancel_request").replace(r#""id":1,"#, ""));
    assert_eq!(link.0.name(), "unknown");
    link.hears(&echo("proxy/initialize"));
    // With a hint, no error is taken for a final no.
    let (heard, said) = link.hears(r#"{"id":"c:1","error":{"code":-32603,"message":"refused"}}"#);
    assert_eq!(heard, None);
    assert!(said[0].contains("_proxy/initialize"), "{said:?}");
    // A second answer to the greeting that was withdrawn is nobody's.
    assert_eq!(link.hears(r#"{"id":"c:1","result":{"protocolVersion":1}}"#), (None, vec![]));
    link.hears(&echo("initialize"));
    assert_eq!(link.0.name(), "P4");
}

/// Of two greetings at once, the one that waited is not sent as if to an agent.
#[test]
fn a_proxys_seat_is_never_sent_an_undressed_initialize() {
    let mut link = Link(Proxy::unknown("x"));
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
    let mut link = Link(Proxy::unknown("x"));
    link.says(Side::Agent, INITIALIZE);
    assert!(link.0.awaits_first_word());
    for greeting in ["_proxy/initialize", r#""method":"initialize""#] {
        let mut out = Vec::new();
        assert!(link.0.begin_again(&mut out));
        assert!(lines(out)[0].contains(greeting));
    }
    assert!(!link.0.begin_again(&mut Vec::new()), "nothing is left to try");
    let mut known = proxy("P5");
    known.says(Side::Agent, INITIALIZE);
    assert!(!known.0.begin_again(&mut Vec::new()), "a pinned one is not tried with others");
}

/// Note 5 of the probe: it begins with what was understood the last time, and corrects itself.
#[test]
fn a_remembered_greeting_comes_first_and_can_be_wrong() {
    let mut link = Link(Proxy::remembered("x", generation::Greeting::Underscore));
    assert!(link.says(Side::Agent, INITIALIZE)[0].contains("_proxy/initialize"));
    link.hears(r#"{"id":1,"method":"proxy/successor","params":{"method":"_proxy/initialize","params":{}}}"#);
    let (_, said) = link.hears(r#"{"id":"c:1","error":{"code":-32601,"message":"no"}}"#);
    assert!(said[0].contains(r#""method":"proxy/initialize""#), "{said:?}");
}

/// Checklist 14, 26: what is offered with a greeting goes no further, even if the envelopes are those
/// of another generation.
#[test]
fn an_offer_is_seen_by_nobody_else_however_the_envelopes_are_spelt() {
    for envelope in ["proxy/successor", "_proxy/successor", "_proxy/successor/request"] {
        let mut link = Link(Proxy::remembered("x", generation::Greeting::Capability));
        let greeting = link.says(Side::Agent, INITIALIZE).remove(0);
        let (_, params) = greeting.split_once(r#""params":"#).unwrap();
        let inner = format!(r#"{{"method":"initialize","params":{params}"#);
        let (heard, _) =
            link.hears(&format!(r#"{{"id":7,"method":"{envelope}","params":{inner}}}"#));
        assert_eq!(heard.unwrap().1, INITIALIZE.replace(r#""c:1""#, "7"), "{envelope}");
        let accepted = EXAMPLES[2].accepted;
        let (heard, _) = link.hears(accepted);
        assert!(accepted.contains("symposium") && !heard.unwrap().1.contains("symposium"));
    }
}

/// A word that a proxy's generation needs is put into its successor's answer and taken out of its own;
/// one that the successor has said itself stays.
#[test]
fn only_the_word_that_was_added_is_taken_away_again() {
    let word = r#""_meta":{"mcp_acp_transport":true}"#;
    let mut link = proxy("P2");
    for (id, said, is_kept) in [
        ("c:1", r#""agentCapabilities":{"mcpCapabilities":{"acp":true}}"#, false),
        ("c:2", word, true),
    ] {
        link.says(Side::Agent, &INITIALIZE.replace("c:1", id));
        link.hears(EXAMPLES[4].forwarded);
        let answer = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{{said}}}}}"#);
        let told = link.says(Side::Editor, &answer).remove(0);
        assert!(told.contains(word), "{told}");
        let (heard, _) = link.hears(&told.replace(r#""id":7"#, &format!(r#""id":"{id}""#)));
        assert_eq!(heard.unwrap().1.contains(word), is_kept, "{id}");
    }
}

/// Section 5.5: components of old know ACP v1 only.
#[test]
fn old_generations_are_not_offered_acp_v2() {
    let v2 = r#"{"jsonrpc":"2.0","id":"c:1","method":"initialize","params":{"protocolVersion":2,"info":{"name":"e"},"capabilities":{"x":{}},"_meta":{"t":1}}}"#;
    assert!(proxy("P5").says(Side::Agent, v2)[0].contains(r#""protocolVersion":2,"info""#));
    let said = proxy("P4").says(Side::Agent, v2);
    assert!(said[0].ends_with(r#""params":{"protocolVersion":1,"_meta":{"t":1},"clientCapabilities":{},"clientInfo":{"name":"e"}}}"#), "{said:?}");
}

/// A proxy that waits to be told its successor is given ours; one that never heard of it is not hurt.
#[test]
fn an_scp_proxy_is_given_a_relay() {
    for scp in [true, false] {
        let mut link = Link(Proxy::unknown("x"));
        link.says(Side::Agent, INITIALIZE);
        link.hears(r#"{"id":"c:1","error":{"code":-32601,"message":"no"}}"#);
        link.hears(r#"{"id":"c:1~1","error":{"code":-32601,"message":"no"}}"#);
        let accepted = r#"{"id":"c:1~2","result":{"protocolVersion":1,"_meta":{"symposium":{"version":"1.0","proxy":true}}}}"#;
        assert_eq!(link.hears(accepted), (None, vec![]), "it has no successor yet");
        assert!(link.0.wants_successor());
        let mut out = Vec::new();
        let servers = wire::Json::trusted(r#"{"servers":[]}"#);
        assert_eq!(link.0.give_successor(Some(servers), &mut out), None);
        assert_eq!(
            lines(out),
            [r#"{"jsonrpc":"2.0","id":"scp","method":"_scp/proxy","params":{"servers":[]}}"#]
        );
        assert!(!link.0.wants_successor());
        let answer = match scp {
            true => r#"{"id":"scp","result":{}}"#,
            false => r#"{"id":"scp","error":{"code":-32601,"message":"no"}}"#,
        };
        let (heard, _) = link.hears(answer);
        assert_eq!(link.0.name(), if scp { "P0" } else { "P3" });
        let heard = match scp {
            true => {
                assert_eq!(heard, None, "its successor is not initialised yet");
                link.0.successor_stands(&mut Vec::new()).map(|(_, message)| message.to_line())
            }
            false => heard.map(|(_, line)| line),
        };
        assert_eq!(heard.unwrap(), RESULT);
    }
}

/// Section 4.3: to an SCP proxy its relay is an SCP agent.
#[test]
fn the_successor_of_an_scp_proxy_says_that_it_is_the_last() {
    let mut relay = Link(wire::dialect::Relay::new(None));
    relay.passes(INITIALIZE, Side::Agent, INITIALIZE);
    relay.sends(
        Side::Editor,
        RESULT,
        &[r#"{"jsonrpc":"2.0","id":"c:1","result":{"protocolVersion":1,"_meta":{"symposium":{"version":"1.0","proxy":false}}}}"#],
    );
    relay.sends(Side::Editor, UPDATE, &[UPDATE]);
}

/// Checklist 96: under an SCP editor we take nothing until we know our successors, and that once.
#[test]
fn an_scp_editor_tells_us_our_successors() {
    let mut link = Link(Outer::unknown());
    let greeting = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"_meta":{"symposium":{"version":"1.0","html_panel":true}}}}"#;
    let (heard, said) = link.hears(greeting);
    assert_eq!(heard, None);
    assert!(said[0].contains(r#""protocolVersion":1"#), "{said:?}");
    assert!(said[0].contains(r#""symposium":{"version":"1.0","proxy":true}"#), "{said:?}");
    assert_eq!(link.0.name(), "P0");
    link.refuses(r#"{"id":1,"method":"session/new","params":{}}"#, "-32600");
    link.refuses(r#"{"id":2,"method":"_scp/proxy","params":{"a":1}}"#, "-32602");
    assert!(link.0.take_chain().is_none());
    let told = r#"{"id":3,"method":"_scp/proxy","params":{"servers":[{"name":"next","command":"/x","args":[],"env":[]}]}}"#;
    assert_eq!(link.hears(told), (None, vec![]));
    let (servers, initialize) = link.0.take_chain().unwrap();
    assert_eq!(servers.as_str(), r#"[{"name":"next","command":"/x","args":[],"env":[]}]"#);
    assert!(initialize.to_line().contains(r#""html_panel":true"#), "its flags go down the chain");
    assert!(link.0.take_chain().is_none());
    link.sends(
        Side::Editor,
        r#"{"jsonrpc":"2.0","id":"scp:initialize","result":{"protocolVersion":1}}"#,
        &[r#"{"jsonrpc":"2.0","id":3,"result":{}}"#],
    );
    link.refuses(&told.replace(r#""id":3"#, r#""id":4"#), "-32600");
    link.passes(UPDATE, Side::Agent, UPDATE);
    link.sends(Side::Editor, UPDATE, &[UPDATE]);
}

#[test]
fn every_generation_but_scp_has_examples() {
    let names: Vec<_> = EXAMPLES.iter().map(|it| it.name).chain(["P0"]).collect();
    assert_eq!(names, generation::ALL.map(|it| it.name));
}
