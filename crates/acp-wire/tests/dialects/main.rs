//! Each generation with the examples of its document, and how a generation is detected.
//!
//! A test is a conversation on one link, written as the lines that cross it. *Canonical* messages are those
//! that the router sees.

mod added_members;
mod attempts;
mod probing;
mod scp;

use acp_wire::dialect::{Dialect, Generation, Outer, Proxy};
use acp_wire::{Message, Side};
use bytes::Bytes;

/// One end of a link.
struct Link(Dialect);

impl Link {
    fn to(peer: impl Into<Dialect>) -> Link {
        Link(peer.into())
    }

    fn proxy(&mut self) -> &mut Proxy {
        self.0.proxy_mut().expect("a link to a proxy")
    }

    /// Decodes a line. Returns the canonical message and the lines that the dialect sends back at once.
    fn receive(&mut self, line: &str) -> (Option<(Side, String)>, Vec<String>) {
        let mut out = Vec::new();
        let decoded = match self.0.decode(&Bytes::copy_from_slice(line.as_bytes()), &mut out) {
            Ok(decoded) => decoded.map(|(side, message)| (side, message.to_line())),
            Err(rejection) => {
                rejection.reply.iter().for_each(|reply| reply.write_line(&mut out));
                None
            }
        };
        (decoded, lines(out))
    }

    /// Encodes a canonical message. Returns the lines for the peer.
    fn encode(&mut self, toward: Side, line: &str) -> Vec<String> {
        let mut out = Vec::new();
        let message = Message::parse(&Bytes::copy_from_slice(line.as_bytes())).unwrap();
        self.0.encode(toward, &message, &mut out);
        lines(out)
    }

    /// Asserts that a line is decoded to this message.
    #[track_caller]
    fn assert_decodes(&mut self, line: &str, side: Side, canonical: &str) {
        assert_eq!(self.receive(line), (Some((side, canonical.to_owned())), vec![]), "{line}");
    }

    /// Asserts that a line is refused, with an error that contains `code` unless `code` is empty.
    #[track_caller]
    fn assert_refuses(&mut self, line: &str, code: &str) {
        let (decoded, replies) = self.receive(line);
        assert_eq!(decoded, None, "{line}");
        match code {
            "" => assert!(replies.is_empty(), "{replies:?}"),
            code => assert!(replies.len() == 1 && replies[0].contains(code), "{line}: {replies:?}"),
        }
    }

    /// Asserts that a message is encoded as these lines.
    #[track_caller]
    fn assert_encodes(&mut self, toward: Side, canonical: &str, lines: &[&str]) {
        assert_eq!(self.encode(toward, canonical), lines, "{canonical}");
    }
}

fn lines(out: Vec<u8>) -> Vec<String> {
    String::from_utf8(out).unwrap().lines().map(str::to_owned).collect()
}

fn proxy(name: &str) -> Link {
    Link::to(Proxy::pinned("x", Generation::from_name(name).unwrap()))
}

const UPDATE: &str = r#"{"jsonrpc":"2.0","method":"session/update","params":{"a": 1.10}}"#;
const WITHOUT_PARAMS: &str = r#"{"jsonrpc":"2.0","method":"ping"}"#;
const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":"c:1","method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}"#;
const RESULT: &str = r#"{"jsonrpc":"2.0","id":"c:1","result":{"protocolVersion":1}}"#;

/// The messages between a proxy of a generation and its conductor: the greeting, the proxy's forwarded
/// `initialize`, its acceptance, an envelope in each direction, and one without params.
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

/// Checklist 18, 19, 23, 26: the same conversation in every generation.
#[test]
fn a_proxy_of_every_generation_gets_messages_of_its_generation() {
    for examples in &EXAMPLES {
        let mut link = proxy(examples.name);
        link.assert_encodes(Side::Agent, INITIALIZE, &[examples.greeting]);
        // The forwarded params are those of the editor: the offer is removed.
        let forwarded = INITIALIZE.replace(r#""c:1""#, "7");
        let (decoded, replies) = link.receive(examples.forwarded);
        let (side, message) = decoded.unwrap();
        assert_eq!((side, replies), (Side::Agent, vec![]), "{}", examples.name);
        assert_eq!(message, forwarded, "{}", examples.name);
        link.assert_encodes(
            Side::Editor,
            r#"{"jsonrpc":"2.0","id":7,"result":{}}"#,
            &[r#"{"jsonrpc":"2.0","id":7,"result":{}}"#],
        );
        let (decoded, _) = link.receive(examples.accepted);
        let (_, answer) = decoded.unwrap();
        assert_eq!(answer.replace(r#","agentCapabilities":{}"#, ""), RESULT, "{}", examples.name);
        assert_eq!(link.0.protocol().name(), examples.name);

        link.assert_decodes(examples.sent, Side::Agent, UPDATE);
        link.assert_encodes(Side::Editor, UPDATE, &[examples.received]);
        link.assert_encodes(Side::Editor, WITHOUT_PARAMS, &[examples.bare]);
        link.assert_encodes(Side::Agent, UPDATE, &[UPDATE]);
        link.assert_decodes(UPDATE, Side::Editor, UPDATE);
        let request = r#"{"jsonrpc":"2.0","id":"c:9","method":"fs/read_text_file","params":{}}"#;
        let replies = link.encode(Side::Editor, request);
        assert!(
            replies[0].contains(r#""id":"c:9""#) && replies[0].contains("_text_file"),
            "{replies:?}"
        );
    }
}

/// Checklist 28, 29, 30: the first request of an outer conductor shows its generation.
#[test]
fn an_outer_conductor_of_every_generation_gets_messages_of_its_generation() {
    for examples in &EXAMPLES {
        let mut link = Link::to(Outer::unknown());
        let (decoded, replies) = link.receive(examples.greeting);
        let (side, message) = decoded.unwrap();
        assert_eq!((side, replies), (Side::Agent, vec![]), "{}", examples.name);
        assert!(message.contains(r#""method":"initialize""#), "{message}");
        for ours in ["symposium", r#""proxy""#, "mcp_acp_transport"] {
            assert!(!message.contains(ours), "{message}");
        }
        assert_eq!(link.0.protocol().name(), examples.name);
        let replies = link.encode(Side::Editor, RESULT);
        assert_eq!(replies, [examples.accepted], "{}", examples.name);
        link.assert_decodes(examples.received, Side::Editor, UPDATE);
        let replies = link.encode(Side::Agent, UPDATE);
        let sent = examples.sent.replace(r#""jsonrpc":"2.0","#, "");
        assert_eq!(replies[0].replace(r#""jsonrpc":"2.0","#, ""), sent, "{}", examples.name);
        link.assert_decodes(UPDATE, Side::Agent, UPDATE);
        link.assert_encodes(Side::Editor, UPDATE, &[UPDATE]);
        assert_eq!(link.0.protocol().name(), examples.name);
    }
    let mut link = Link::to(Outer::unknown());
    link.assert_refuses(INITIALIZE, "-32600");
    link.assert_refuses(
        r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"_meta":{"proxy":false}}}"#,
        "-32600",
    );
}

/// Without an offer there is no acceptance. A conductor of a known generation gets messages before it sends a
/// greeting.
#[test]
fn mcp_over_acp_is_accepted_only_if_it_is_offered() {
    let mut link = Link::to(Outer::unknown());
    link.receive(&INITIALIZE.replace(r#""initialize""#, r#""proxy/initialize""#));
    link.assert_encodes(Side::Editor, RESULT, &[RESULT]);
    let mut link = Link::to(Outer::pinned(Generation::P1));
    assert_eq!(link.0.protocol().name(), "P1");
    assert!(link.encode(Side::Agent, UPDATE)[0].contains("_proxy/successor/send/notification"));
}

/// A conductor with the greeting of P3 may send the envelopes of P2. Then it also gets them.
#[test]
fn an_outer_conductor_gets_the_envelopes_that_it_sends() {
    let [p3, p2] = ["P3", "P2"].map(|name| EXAMPLES.iter().find(|it| it.name == name).unwrap());
    let mut link = Link::to(Outer::unknown());
    link.receive(p3.greeting);
    link.assert_decodes(p2.received, Side::Editor, UPDATE);
    assert_eq!(link.0.protocol().name(), "P2");
    link.assert_encodes(Side::Agent, UPDATE, &[p2.received]);
}

/// Checklist 45, 46, 48, 68.
#[test]
fn malformed_envelopes_are_refused() {
    let mut link = proxy("P5");
    link.assert_refuses(r#"{"id":1,"method":"proxy/successor","params":{"method":"proxy/successor","params":{"method":"x"}}}"#, "-32600");
    link.assert_refuses(
        r#"{"id":1,"method":"proxy/successor","params":{"method":"_proxy/successor/request"}}"#,
        "-32600",
    );
    link.assert_refuses(
        r#"{"id":1,"method":"proxy/successor","params":{"method":"proxy/initialize"}}"#,
        "-32600",
    );
    link.assert_refuses(r#"{"id":1,"method":"proxy/initialize","params":{}}"#, "-32600");
    link.assert_refuses(r#"{"method":"proxy/initialize","params":{}}"#, "");
    link.assert_refuses(r#"{"id":1,"method":"proxy/successor","params":{"params":{}}}"#, "-32602");
    link.assert_refuses(
        r#"{"id":1,"method":"proxy/successor","params":{"method":"x","params":3}}"#,
        "-32602",
    );
    link.assert_refuses(r#"{"id":1,"method":"proxy/successor","params":{"method":3}}"#, "-32602");
    link.assert_refuses(
        r#"{"id":1,"method":"_proxy/successor/request","params":{"message":3}}"#,
        "-32602",
    );
    link.assert_refuses(r#"{"id":1,"method":"proxy/successor"}"#, "-32602");
    link.assert_refuses(
        r#"{"method":"proxy/successor","params":{"method":"proxy/successor"}}"#,
        "",
    );
    link.assert_refuses(r#"{"method":"proxy/successor"}"#, "");
    let mut link = Link::to(Outer::unknown());
    link.assert_refuses(
        r#"{"id":1,"method":"proxy/successor","params":{"method":"proxy/successor"}}"#,
        "-32600",
    );
}

/// Checklist 24, 51: the metadata of an envelope, in either spelling, stays on its link.
#[test]
fn envelope_metadata_is_removed_and_unknown_members_are_forwarded() {
    let mut link = proxy("P5");
    let line = r#"{"params":{"_meta":{"h":1},"params":{"_meta":{"t":2}},"meta":3,"x": [4],"method":"m"},"method":"proxy/successor","id":9}"#;
    let plain = r#"{"jsonrpc":"2.0","id":9,"method":"m","params":{"_meta":{"t":2}},"x": [4]}"#;
    link.assert_decodes(line, Side::Agent, plain);
    let encoded = r#"{"jsonrpc":"2.0","id":9,"method":"proxy/successor","params":{"method":"m","params":{"_meta":{"t":2}},"x": [4]}}"#;
    link.assert_encodes(Side::Editor, plain, &[encoded]);
    let null = r#"{"method":"proxy/successor","params":{"method":"ping","params":null}}"#;
    link.assert_decodes(null, Side::Agent, WITHOUT_PARAMS);
}

/// Checklist 57: a cancellation is not put in an envelope in any generation.
#[test]
fn cancellations_are_plain_in_both_directions() {
    let cancel = r#"{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}"#;
    for examples in &EXAMPLES {
        let mut link = proxy(examples.name);
        link.assert_encodes(Side::Agent, INITIALIZE, &[examples.greeting]);
        link.receive(examples.forwarded);
        link.assert_encodes(Side::Editor, cancel, &[cancel]);
        link.assert_encodes(Side::Agent, cancel, &[cancel]);
    }
}

/// Section 5.5: components of older generations know only ACP v1.
#[test]
fn old_generations_are_not_offered_acp_v2() {
    let v2 = r#"{"jsonrpc":"2.0","id":"c:1","method":"initialize","params":{"protocolVersion":2,"info":{"name":"e"},"capabilities":{"x":{}},"_meta":{"t":1}}}"#;
    assert!(proxy("P5").encode(Side::Agent, v2)[0].contains(r#""protocolVersion":2,"info""#));
    let replies = proxy("P4").encode(Side::Agent, v2);
    assert!(replies[0].ends_with(r#""params":{"protocolVersion":1,"_meta":{"t":1},"clientCapabilities":{},"clientInfo":{"name":"e"}}}"#), "{replies:?}");
}

/// An SCP proxy that waits for its successor gets the relay. A proxy of another generation refuses it and continues.
#[test]
fn an_scp_proxy_gets_a_relay_as_its_successor() {
    for scp in [true, false] {
        let mut link = Link::to(Proxy::unknown("x"));
        link.encode(Side::Agent, INITIALIZE);
        link.receive(r#"{"id":"c:1","error":{"code":-32601,"message":"no"}}"#);
        link.receive(r#"{"id":"c:1~1","error":{"code":-32601,"message":"no"}}"#);
        let accepted = r#"{"id":"c:1~2","result":{"protocolVersion":1,"_meta":{"symposium":{"version":"1.0","proxy":true}}}}"#;
        assert_eq!(link.receive(accepted), (None, vec![]), "the proxy has no successor yet");
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
        let (decoded, _) = link.receive(answer);
        assert_eq!(link.0.protocol().name(), if scp { "P0" } else { "P3" });
        let decoded = match scp {
            true => {
                assert_eq!(decoded, None, "its successor is not initialized yet");
                link.proxy()
                    .on_successor_initialized(&mut Vec::new())
                    .map(|(_, message)| message.to_line())
            }
            false => decoded.map(|(_, line)| line),
        };
        assert_eq!(decoded.unwrap(), RESULT);
    }
}

/// Section 4.3: to an SCP proxy, the relay is an SCP agent.
#[test]
fn the_relay_of_an_scp_proxy_declares_that_it_is_not_a_proxy() {
    let mut relay = Link::to(acp_wire::dialect::Relay::new(None));
    relay.assert_decodes(INITIALIZE, Side::Agent, INITIALIZE);
    relay.assert_encodes(
        Side::Editor,
        RESULT,
        &[r#"{"jsonrpc":"2.0","id":"c:1","result":{"protocolVersion":1,"_meta":{"symposium":{"version":"1.0","proxy":false}}}}"#],
    );
    relay.assert_encodes(Side::Editor, UPDATE, &[UPDATE]);
}

/// Checklist 96: under an SCP editor, all requests before the list of successors are refused, and so is a second list.
#[test]
fn an_scp_editor_sends_the_list_of_successors() {
    let mut link = Link::to(Outer::unknown());
    let greeting = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"_meta":{"symposium":{"version":"1.0","html_panel":true}}}}"#;
    let (decoded, replies) = link.receive(greeting);
    assert_eq!(decoded, None);
    assert!(replies[0].contains(r#""protocolVersion":1"#), "{replies:?}");
    assert!(replies[0].contains(r#""symposium":{"version":"1.0","proxy":true}"#), "{replies:?}");
    assert_eq!(link.0.protocol().name(), "P0");
    link.assert_refuses(r#"{"id":1,"method":"session/new","params":{}}"#, "-32600");
    link.assert_refuses(r#"{"id":2,"method":"_scp/proxy","params":{"a":1}}"#, "-32602");
    assert!(link.0.outer_mut().unwrap().take_scp_servers().is_none());
    let proxy_request = r#"{"id":3,"method":"_scp/proxy","params":{"servers":[{"name":"next","command":"/x","args":[],"env":[]}]}}"#;
    assert_eq!(link.receive(proxy_request), (None, vec![]));
    let (servers, initialize) = link.0.outer_mut().unwrap().take_scp_servers().unwrap();
    assert_eq!(servers.as_str(), r#"[{"name":"next","command":"/x","args":[],"env":[]}]"#);
    assert!(
        initialize.to_line().contains(r#""html_panel":true"#),
        "the flags of the editor are forwarded"
    );
    assert!(link.0.outer_mut().unwrap().take_scp_servers().is_none());
    link.assert_encodes(
        Side::Editor,
        r#"{"jsonrpc":"2.0","id":"scp:initialize","result":{"protocolVersion":1}}"#,
        &[r#"{"jsonrpc":"2.0","id":3,"result":{}}"#],
    );
    link.assert_refuses(&proxy_request.replace(r#""id":3"#, r#""id":4"#), "-32600");
    link.assert_decodes(UPDATE, Side::Agent, UPDATE);
    link.assert_encodes(Side::Editor, UPDATE, &[UPDATE]);
}

#[test]
fn every_generation_except_scp_has_examples() {
    let names: Vec<_> = EXAMPLES.iter().map(|it| it.name).chain(["P0"]).collect();
    assert_eq!(names, Generation::ALL.map(Generation::name));
}

/// An envelope may name a peer. The chain is linear, so every peer behind a proxy is reached through its
/// successor.
#[test]
fn a_peer_is_reached_by_its_name_and_an_unknown_name_is_refused() {
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
        link.assert_decodes(&line(peer), Side::Agent, plain);
    }
    link.assert_decodes(
        &line("null").replace(r#","x": [4]"#, ""),
        Side::Agent,
        &plain.replace(r#","x": [4]"#, ""),
    );
    for peer in [r#""research""#, r#""""#, "3", r#"{"name":"second"}"#, r#"["second"]"#] {
        let (decoded, replies) = link.receive(&line(peer));
        assert_eq!(decoded, None, "{peer}");
        assert!(
            replies[0].contains("-32602") && replies[0].contains(r#"second, agent \"a\""#),
            "{replies:?}"
        );
        link.assert_refuses(&line(peer).replace(r#""id":1,"#, ""), "");
    }
    // In a plain message the member has no meaning.
    link.assert_decodes(
        &plain.replace("\"x\"", "\"peer\""),
        Side::Editor,
        &plain.replace("\"x\"", "\"peer\""),
    );
    // The last component of a nested chain may name peers that only the outer conductor knows.
    let mut last = Link::to(Proxy::pinned("x", p5).with_peers(None));
    let passed = r#"{"jsonrpc":"2.0","id":1,"method":"ping","peer":"research","x": [4]}"#;
    last.assert_decodes(&line(r#""research""#), Side::Agent, passed);
    let sent = r#"{"jsonrpc":"2.0","id":1,"method":"proxy/successor","params":{"method":"ping","peer":"research","x": [4]}}"#;
    let mut outer = Link::to(Outer::pinned(p5));
    outer.assert_encodes(Side::Agent, passed, &[sent]);
}

/// The list of servers may be the params themselves or a member of them.
#[test]
fn an_scp_editor_may_send_the_list_of_servers_as_params() {
    let list = r#"[{"name":"next","command":"/x","args":[],"env":[]}]"#;
    for params in [
        list.to_owned(),
        format!(r#"{{"servers":{list}}}"#),
        format!(r#"{{"chain":{list},"_meta":{{}}}}"#),
        format!(r#"{{"servers":{list},"more":[]}}"#),
    ] {
        let mut link = Link::to(Outer::unknown());
        link.receive(r#"{"id":0,"method":"initialize","params":{"protocolVersion":1,"_meta":{"symposium":{}}}}"#);
        link.receive(&format!(r#"{{"id":3,"method":"_scp/proxy","params":{params}}}"#));
        assert_eq!(
            link.0.outer_mut().unwrap().take_scp_servers().unwrap().0.as_str(),
            list,
            "{params}"
        );
    }
}
