//! What is put into a handshake for one component is seen by nobody else, and what the editor and the
//! agent say in the same places arrives as they said it.

use acp_wire::dialect::{Generation, Proxy, generation};
use acp_wire::{Json, Message, Outcome, Side};
use bytes::Bytes;

use crate::{EXAMPLES, INITIALIZE, Link, proxy};

/// The literal RFD "Proxy Chains": every proxy is offered MCP over ACP, and accepts it. Neither the
/// agent nor the editor sees that; what they say there themselves stays. (Checklist 1: but for this
/// word, the params are the editor's.)
#[test]
fn mcp_over_acp_is_offered_to_every_current_proxy_and_to_nobody_else() {
    let word = r#""mcp_acp_transport":true"#;
    for own in ["", r#","_meta":{"t": 1.10}"#, r#","_meta":{"mcp_acp_transport":false}"#] {
        let initialize = INITIALIZE.replace("}}}", &format!("}}{own}}}}}"));
        for keeps in [true, false] {
            let mut link = Link::to(Proxy::unknown("x"));
            let greeting = link.says(Side::Agent, &initialize).remove(0);
            assert!(greeting.contains(word), "{greeting}");
            let (_, params) = greeting.split_once(r#""params":"#).unwrap();
            let params = params.strip_suffix('}').unwrap();
            let params =
                if keeps { params } else { r#"{"protocolVersion":1,"clientCapabilities":{}}"# };
            let (heard, _) = link.hears(&format!(
                r#"{{"id":7,"method":"proxy/successor","params":{{"method":"initialize","params":{params}}}}}"#
            ));
            let (_, forwarded) = heard.unwrap();
            if keeps {
                assert_eq!(forwarded, initialize.replace(r#""c:1""#, "7"));
            }
            assert!(!forwarded.contains(word), "{forwarded}");

            let answer =
                format!(r#"{{"jsonrpc":"2.0","id":7,"result":{{"protocolVersion":1{own}}}}}"#);
            link.says(Side::Editor, &answer);
            let accepted = r#"{"id":"c:1","result":{"protocolVersion":1,"_meta":{WORD}}}"#;
            let (heard, _) = link.hears(&accepted.replace("WORD", word));
            assert!(!heard.unwrap().1.contains(word));
        }
    }
    let underscore = proxy("P4").says(Side::Agent, INITIALIZE);
    assert!(!underscore[0].contains(word), "{underscore:?}");
}

/// Checklist 3, 26: what the editor has where we put our offer reaches the agent as it is spelt, past a
/// proxy of every generation that keeps the offer, removes it or changes it.
#[test]
fn the_editors_own_values_reach_the_agent() {
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
                    let greeting = link.says(Side::Agent, &initialize).remove(0);
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
                    let (heard, _) = link.hears(&line);
                    let expected = initialize.replace(r#""c:1""#, "7");
                    assert_eq!(heard.unwrap().1, expected, "{} {change}", examples.name);
                }
            }
        }
    }
}

/// Checklist 14: what the agent says of itself in the place of the acceptance reaches the editor.
#[test]
fn the_agents_own_values_reach_the_editor() {
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
            link.says(Side::Agent, INITIALIZE);
            link.hears(examples.forwarded);
            let told = link.says(Side::Editor, &answer).remove(0);
            let told = Message::parse(&Bytes::from(told)).unwrap();
            let Message::Response { outcome: Outcome::Result(result), .. } = told else {
                panic!("{told:?}");
            };
            // It does what published ones do: puts its key in, and the version where there is none.
            let place = Generation::from_name(examples.name).unwrap().acceptance_path();
            let accepted = match place {
                [] => result,
                [above @ .., _] => {
                    let result = result.with_at(place, Some(&Json::TRUE));
                    let version = [above, &["version"]].concat();
                    match result.at(&version) {
                        None if above.last() == Some(&"symposium") => {
                            result.with_at(&version, Some(&Json::string("1.0")))
                        }
                        _ => result,
                    }
                }
            };
            let (heard, _) = link.hears(&format!(r#"{{"id":"c:1","result":{accepted}}}"#));
            assert_eq!(heard.unwrap().1, answer.replace(r#""id":7"#, r#""id":"c:1""#));
        }
    }
}

/// Checklist 14, 26: what is offered with a greeting goes no further, even if the envelopes are those
/// of another generation.
#[test]
fn an_offer_is_seen_by_nobody_else_however_the_envelopes_are_spelt() {
    for envelope in ["proxy/successor", "_proxy/successor", "_proxy/successor/request"] {
        let mut link = Link::to(Proxy::remembered("x", generation::Greeting::Capability));
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
