//! What the dialect adds to a handshake for one component reaches no other component. Values of the editor and
//! the agent at the same paths arrive unchanged.

use acp_wire::dialect::{Generation, Proxy, generation};
use acp_wire::{Json, Message, Outcome, Side};
use bytes::Bytes;

use crate::{EXAMPLES, INITIALIZE, Link, proxy};

/// The RFD "Proxy Chains": every proxy is offered MCP over ACP and accepts it. The offer reaches neither the agent
/// nor the editor, and their own values at this path stay. Checklist 1: except for this member, the params are the
/// editor's.
#[test]
fn mcp_over_acp_is_offered_only_to_proxies_of_the_current_generation() {
    let member = r#""mcp_acp_transport":true"#;
    for own in ["", r#","_meta":{"t": 1.10}"#, r#","_meta":{"mcp_acp_transport":false}"#] {
        let initialize = INITIALIZE.replace("}}}", &format!("}}{own}}}}}"));
        for keeps in [true, false] {
            let mut link = Link::to(Proxy::unknown("x"));
            let greeting = link.encode(Side::Agent, &initialize).remove(0);
            assert!(greeting.contains(member), "{greeting}");
            let (_, params) = greeting.split_once(r#""params":"#).unwrap();
            let params = params.strip_suffix('}').unwrap();
            let params =
                if keeps { params } else { r#"{"protocolVersion":1,"clientCapabilities":{}}"# };
            let (decoded, _) = link.receive(&format!(
                r#"{{"id":7,"method":"proxy/successor","params":{{"method":"initialize","params":{params}}}}}"#
            ));
            let (_, forwarded) = decoded.unwrap();
            if keeps {
                assert_eq!(forwarded, initialize.replace(r#""c:1""#, "7"));
            }
            assert!(!forwarded.contains(member), "{forwarded}");

            let answer =
                format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"protocolVersion":1{own}}}}}"#);
            link.encode(Side::Editor, &answer);
            let accepted = r#"{"id":"c:1","result":{"protocolVersion":1,"_meta":{MEMBER}}}"#;
            let (decoded, _) = link.receive(&accepted.replace("MEMBER", member));
            assert!(!decoded.unwrap().1.contains(member));
        }
    }
    let underscore = proxy("P4").encode(Side::Agent, INITIALIZE);
    assert!(!underscore[0].contains(member), "{underscore:?}");
}

/// Checklist 3, 26: a value of the editor at the path of the offer reaches the agent unchanged, past a proxy of
/// every generation that keeps, removes or changes the offer.
#[test]
fn values_of_the_editor_reach_the_agent() {
    for value in ["false", "true", "null", "1.10", r#""x""#, r#"{"a": [1e400]}"#] {
        for own in [
            r#""_meta":{"a":1,"proxy": VALUE ,"b":2}"#,
            r#""_meta":{"symposium":{"proxy":VALUE,"x":1}}"#,
            r#""_meta":{"symposium":VALUE}"#,
            r#""_meta":{"mcp_acp_transport":VALUE}"#,
            r#""capabilities":{"_meta":{"symposium":{"proxy":VALUE}}}"#,
        ] {
            let own = own.replace("VALUE", value);
            let initialize = INITIALIZE.replace("}}}", &format!("}},{own}}}}}"));
            for examples in &EXAMPLES {
                for change in ["kept", "removed", "changed"] {
                    let mut link = proxy(examples.name);
                    let greeting = link.encode(Side::Agent, &initialize).remove(0);
                    let (_, params) = greeting.split_once(r#""params":"#).unwrap();
                    let params = params.strip_suffix('}').unwrap();
                    let path = Generation::from_name(examples.name).unwrap().offer_path();
                    assert_eq!(path.is_empty(), matches!(examples.name, "P5" | "P4"));
                    let params = Json::parse(params.to_owned()).unwrap();
                    let params = match change {
                        "kept" => params,
                        _ if path.is_empty() => params,
                        "removed" => params.with_at(path, None),
                        _ => params.with_at(path, Some(&Json::trusted("[3]"))),
                    };
                    let inner = format!(r#""method":"initialize","params":{params}"#);
                    let envelope = examples.forwarded.split_once(r#""params":"#).unwrap().0;
                    let line = match examples.forwarded.contains(r#""message""#) {
                        true => format!(r#"{envelope}"params":{{"message":{{{inner}}}}}}}"#),
                        false => format!(r#"{envelope}"params":{{{inner}}}}}"#),
                    };
                    let (decoded, _) = link.receive(&line);
                    let expected = initialize.replace(r#""c:1""#, "7");
                    assert_eq!(decoded.unwrap().1, expected, "{} {change}", examples.name);
                }
            }
        }
    }
}

/// Checklist 14: a value of the agent at the path of the acceptance reaches the editor.
#[test]
fn values_of_the_agent_reach_the_editor() {
    for own in [
        r#""_meta":{"symposium":{"proxy":false}}"#,
        r#""_meta":{"symposium":{"version":"1.0"}}"#,
        r#""_meta":{"symposium":{"version":"0.9","html_panel":1.10,"proxy":false}}"#,
        r#""_meta":{"proxy":false}"#,
        r#""agentCapabilities":{"_meta":{"symposium":{"proxy":false}}}"#,
        r#""agentCapabilities":{"_meta":{"symposium":{"x":1}}}"#,
        r#""agentCapabilities":{"mcpCapabilities":{"acp":true},"_meta":{}},"_meta":{"symposium":{}}"#,
        r#""_meta":{"mcp_acp_transport":true}"#,
    ] {
        let answer =
            format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"protocolVersion":1,{own}}}}}"#);
        for examples in &EXAMPLES {
            let mut link = proxy(examples.name);
            link.encode(Side::Agent, INITIALIZE);
            link.receive(examples.forwarded);
            let line = link.encode(Side::Editor, &answer).remove(0);
            let answer_line = Message::parse(&Bytes::from(line)).unwrap();
            let Message::Response { outcome: Outcome::Result(result), .. } = answer_line else {
                panic!("{answer_line:?}");
            };
            // Like published proxies, it adds its key, and the version if there is none.
            let path = Generation::from_name(examples.name).unwrap().acceptance_path();
            let accepted = match path {
                [] => result,
                [above @ .., _] => {
                    let result = result.with_at(path, Some(&Json::TRUE));
                    let version = [above, &["version"]].concat();
                    match result.at(&version) {
                        None if above.last() == Some(&"symposium") => {
                            result.with_at(&version, Some(&Json::string("1.0")))
                        }
                        _ => result,
                    }
                }
            };
            let (decoded, _) = link.receive(&format!(r#"{{"id":"c:1","result":{accepted}}}"#));
            assert_eq!(decoded.unwrap().1, answer.replace(r#""id":7"#, r#""id":"c:1""#));
        }
    }
}

/// Checklist 14, 26: the offer of a greeting is not forwarded, even if the envelopes are of another generation.
#[test]
fn an_offer_is_not_forwarded_in_any_envelope() {
    for envelope in ["proxy/successor", "_proxy/successor", "_proxy/successor/request"] {
        let mut link = Link::to(Proxy::remembered("x", generation::Greeting::Capability));
        let greeting = link.encode(Side::Agent, INITIALIZE).remove(0);
        let (_, params) = greeting.split_once(r#""params":"#).unwrap();
        let inner = format!(r#"{{"method":"initialize","params":{params}"#);
        let (decoded, _) =
            link.receive(&format!(r#"{{"id":7,"method":"{envelope}","params":{inner}}}"#));
        assert_eq!(decoded.unwrap().1, INITIALIZE.replace(r#""c:1""#, "7"), "{envelope}");
        let accepted = EXAMPLES[2].accepted;
        let (decoded, _) = link.receive(accepted);
        assert!(accepted.contains("symposium") && !decoded.unwrap().1.contains("symposium"));
    }
}

/// The MCP capability is added to the successor's answer for a proxy, and removed from the proxy's own answer. If the
/// successor has set it at the same path, it stays.
#[test]
fn only_an_added_mcp_capability_is_removed_again() {
    let member = r#""_meta":{"mcp_acp_transport":true}"#;
    let mut link = proxy("P2");
    for (id, members, is_kept) in [
        ("c:1", r#""agentCapabilities":{"mcpCapabilities":{"acp":true}}"#, false),
        ("c:2", member, true),
    ] {
        link.encode(Side::Agent, &INITIALIZE.replace("c:1", id));
        link.receive(EXAMPLES[4].forwarded);
        let answer = format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{{members}}}}}"#);
        let line = link.encode(Side::Editor, &answer).remove(0);
        assert!(line.contains(member), "{line}");
        let (decoded, _) = link.receive(&line.replace(r#""id":7"#, &format!(r#""id":"{id}""#)));
        assert_eq!(decoded.unwrap().1.contains(member), is_kept, "{id}");
    }
}
