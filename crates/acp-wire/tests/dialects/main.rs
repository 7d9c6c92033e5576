//! Each generation in the spelling of its document, and how a generation is found out.
//!
//! A test is a conversation on one link, written as the lines that cross it:
//! `canonical` messages are what the router sees.

mod attempts;
mod own;
mod probing;
mod scp;

use acp_wire::dialect::{Dialect, Generation, Outer, Proxy};
use acp_wire::{Message, Side};
use bytes::Bytes;

/// One end of a link, with what it has to say back at once.
struct Link(Dialect);

impl Link {
    fn to(peer: impl Into<Dialect>) -> Link {
        Link(peer.into())
    }

    fn proxy(&mut self) -> &mut Proxy {
        self.0.proxy_mut().expect("a link to a proxy")
    }

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

fn proxy(name: &str) -> Link {
    Link::to(Proxy::pinned("x", Generation::from_name(name).unwrap()))
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
        greeting: r#"{"jsonrpc":"2.0","id":"c:1","method":"proxy/initialize","params":{"protocolVersion":1,"clientCapabilities":{},"_meta":{"mcp_acp_transport":true}}}"#,
        forwarded: r#"{"jsonrpc":"2.0","id":7,"method":"proxy/successor","params":{"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}}"#,
        accepted: r#"{"jsonrpc":"2.0","id":"c:1","result":{"protocolVersion":1,"_meta":{"mcp_acp_transport":true}}}"#,
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
        assert_eq!(message, forwarded, "{}", examples.name);
        link.sends(
            Side::Editor,
            r#"{"jsonrpc":"2.0","id":7,"result":{}}"#,
            &[r#"{"jsonrpc":"2.0","id":7,"result":{}}"#],
        );
        let (heard, _) = link.hears(examples.accepted);
        let (_, answer) = heard.unwrap();
        assert_eq!(answer.replace(r#","agentCapabilities":{}"#, ""), RESULT, "{}", examples.name);
        assert_eq!(link.0.protocol().name(), examples.name);

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
        let mut link = Link::to(Outer::unknown());
        let (heard, said) = link.hears(examples.greeting);
        let (side, message) = heard.unwrap();
        assert_eq!((side, said), (Side::Agent, vec![]), "{}", examples.name);
        assert!(message.contains(r#""method":"initialize""#), "{message}");
        for ours in ["symposium", r#""proxy""#, "mcp_acp_transport"] {
            assert!(!message.contains(ours), "{message}");
        }
        assert_eq!(link.0.protocol().name(), examples.name);
        let said = link.says(Side::Editor, RESULT);
        assert_eq!(said, [examples.accepted], "{}", examples.name);
        link.passes(examples.received, Side::Editor, UPDATE);
        let said = link.says(Side::Agent, UPDATE);
        let sent = examples.sent.replace(r#""jsonrpc":"2.0","#, "");
        assert_eq!(said[0].replace(r#""jsonrpc":"2.0","#, ""), sent, "{}", examples.name);
        link.passes(UPDATE, Side::Agent, UPDATE);
        link.sends(Side::Editor, UPDATE, &[UPDATE]);
        assert_eq!(link.0.protocol().name(), examples.name);
    }
    let mut link = Link::to(Outer::unknown());
    link.refuses(INITIALIZE, "-32600");
    link.refuses(
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"_meta":{"proxy":false}}}"#,
        "-32600",
    );
}

/// A conductor that offers nothing is not answered as if it had, and a known one is spoken to before it greets.
#[test]
fn mcp_over_acp_is_accepted_only_where_it_is_offered() {
    let mut link = Link::to(Outer::unknown());
    link.hears(&INITIALIZE.replace(r#""initialize""#, r#""proxy/initialize""#));
    link.sends(Side::Editor, RESULT, &[RESULT]);
    let mut link = Link::to(Outer::pinned(Generation::P1));
    assert_eq!(link.0.protocol().name(), "P1");
    assert!(link.says(Side::Agent, UPDATE)[0].contains("_proxy/successor/send/notification"));
}

/// A conductor that greets as P3 does may spell its envelopes as P2 does, and then gets them so.
#[test]
fn a_conductor_is_answered_in_the_envelopes_that_it_sends() {
    let [p3, p2] = ["P3", "P2"].map(|name| EXAMPLES.iter().find(|it| it.name == name).unwrap());
    let mut link = Link::to(Outer::unknown());
    link.hears(p3.greeting);
    link.passes(p2.received, Side::Editor, UPDATE);
    assert_eq!(link.0.protocol().name(), "P2");
    link.sends(Side::Agent, UPDATE, &[p2.received]);
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
    link.refuses(r#"{"method":"proxy/initialize","params":{}}"#, "");
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
    let mut link = Link::to(Outer::unknown());
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
        let mut link = Link::to(Proxy::unknown("x"));
        link.says(Side::Agent, INITIALIZE);
        link.hears(r#"{"id":"c:1","error":{"code":-32601,"message":"no"}}"#);
        link.hears(r#"{"id":"c:1~1","error":{"code":-32601,"message":"no"}}"#);
        let accepted = r#"{"id":"c:1~2","result":{"protocolVersion":1,"_meta":{"symposium":{"version":"1.0","proxy":true}}}}"#;
        assert_eq!(link.hears(accepted), (None, vec![]), "it has no successor yet");
        assert!(link.proxy().needs_successor());
        let mut out = Vec::new();
        let servers = acp_wire::Json::trusted(r#"{"servers":[]}"#);
        assert_eq!(link.proxy().set_successor(Some(servers), &mut out), None);
        assert_eq!(
            lines(out),
            [r#"{"jsonrpc":"2.0","id":"scp","method":"_scp/proxy","params":{"servers":[]}}"#]
        );
        assert!(!link.proxy().needs_successor());
        let answer = match scp {
            true => r#"{"id":"scp","result":{}}"#,
            false => r#"{"id":"scp","error":{"code":-32601,"message":"no"}}"#,
        };
        let (heard, _) = link.hears(answer);
        assert_eq!(link.0.protocol().name(), if scp { "P0" } else { "P3" });
        let heard = match scp {
            true => {
                assert_eq!(heard, None, "its successor is not initialised yet");
                link.proxy()
                    .on_successor_initialized(&mut Vec::new())
                    .map(|(_, message)| message.to_line())
            }
            false => heard.map(|(_, line)| line),
        };
        assert_eq!(heard.unwrap(), RESULT);
    }
}

/// Section 4.3: to an SCP proxy its relay is an SCP agent.
#[test]
fn the_successor_of_an_scp_proxy_says_that_it_is_the_last() {
    let mut relay = Link::to(acp_wire::dialect::Relay::new(None));
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
    let mut link = Link::to(Outer::unknown());
    let greeting = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"_meta":{"symposium":{"version":"1.0","html_panel":true}}}}"#;
    let (heard, said) = link.hears(greeting);
    assert_eq!(heard, None);
    assert!(said[0].contains(r#""protocolVersion":1"#), "{said:?}");
    assert!(said[0].contains(r#""symposium":{"version":"1.0","proxy":true}"#), "{said:?}");
    assert_eq!(link.0.protocol().name(), "P0");
    link.refuses(r#"{"id":1,"method":"session/new","params":{}}"#, "-32600");
    link.refuses(r#"{"id":2,"method":"_scp/proxy","params":{"a":1}}"#, "-32602");
    assert!(link.0.outer_mut().unwrap().take_chain().is_none());
    let told = r#"{"id":3,"method":"_scp/proxy","params":{"servers":[{"name":"next","command":"/x","args":[],"env":[]}]}}"#;
    assert_eq!(link.hears(told), (None, vec![]));
    let (servers, initialize) = link.0.outer_mut().unwrap().take_chain().unwrap();
    assert_eq!(servers.as_str(), r#"[{"name":"next","command":"/x","args":[],"env":[]}]"#);
    assert!(initialize.to_line().contains(r#""html_panel":true"#), "its flags go down the chain");
    assert!(link.0.outer_mut().unwrap().take_chain().is_none());
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
    assert_eq!(names, Generation::ALL.map(Generation::name));
}

/// A message may name whom it is for. In a chain that is a line, every name behind a proxy means its
/// successor.
#[test]
fn a_peer_is_reached_by_its_name_and_an_unknown_one_is_refused() {
    let names = Some(vec!["second".to_owned(), "agent \"a\"".to_owned()]);
    let p5 = Generation::from_name("P5").unwrap();
    let mut link = Link::to(Proxy::pinned("x", p5).with_peers(names));
    let line = |peer: &str| {
        format!(
            r#"{{"id":1,"method":"proxy/successor","params":{{"method":"ping","peer":{peer},"x": [4]}}}}"#
        )
    };
    let plain = r#"{"jsonrpc":"2.0","id":1,"method":"ping","x": [4]}"#;
    for peer in [r#""second""#, r#""agent \"a\"""#, r#""\u0073econd""#, "null"] {
        link.passes(&line(peer), Side::Agent, plain);
    }
    link.passes(
        &line("null").replace(r#","x": [4]"#, ""),
        Side::Agent,
        &plain.replace(r#","x": [4]"#, ""),
    );
    for peer in [r#""research""#, r#""""#, "3", r#"{"name":"second"}"#, r#"["second"]"#] {
        let (heard, said) = link.hears(&line(peer));
        assert_eq!(heard, None, "{peer}");
        assert!(
            said[0].contains("-32602") && said[0].contains(r#"second, agent \"a\""#),
            "{said:?}"
        );
        link.refuses(&line(peer).replace(r#""id":1,"#, ""), "");
    }
    // Nobody else knows the field.
    link.passes(
        &plain.replace("\"x\"", "\"peer\""),
        Side::Editor,
        &plain.replace("\"x\"", "\"peer\""),
    );
    // Behind the last component of a chain in a chain are peers that the conductor above us knows.
    let mut last = Link::to(Proxy::pinned("x", p5).with_peers(None));
    let passed = r#"{"jsonrpc":"2.0","id":1,"method":"ping","peer":"research","x": [4]}"#;
    last.passes(&line(r#""research""#), Side::Agent, passed);
    let sent = r#"{"jsonrpc":"2.0","id":1,"method":"proxy/successor","params":{"method":"ping","peer":"research","x": [4]}}"#;
    let mut outer = Link::to(Outer::pinned(p5));
    outer.sends(Side::Agent, passed, &[sent]);
}

/// A list of servers is found whether it stands alone or in an object.
#[test]
fn an_scp_editor_may_send_its_list_of_servers_bare() {
    let list = r#"[{"name":"next","command":"/x","args":[],"env":[]}]"#;
    for params in [
        list.to_owned(),
        format!(r#"{{"servers":{list}}}"#),
        format!(r#"{{"chain":{list},"_meta":{{}}}}"#),
        format!(r#"{{"servers":{list},"more":[]}}"#),
    ] {
        let mut link = Link::to(Outer::unknown());
        link.hears(r#"{"id":0,"method":"initialize","params":{"protocolVersion":1,"_meta":{"symposium":{}}}}"#);
        link.hears(&format!(r#"{{"id":3,"method":"_scp/proxy","params":{params}}}"#));
        assert_eq!(link.0.outer_mut().unwrap().take_chain().unwrap().0.as_str(), list, "{params}");
    }
}
