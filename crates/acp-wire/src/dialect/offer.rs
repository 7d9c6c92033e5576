//! The capability with which the generations before P4 are greeted: put into `initialize`, looked
//! for in its result, and taken out again before either travels on.

use super::generation::Generation;
use super::restore::{KeyPath, restored};
use crate::json::Json;

/// Where the capability may stand in the params. An unknown component is offered all but the last:
/// in ACP v2 `capabilities` is a field of its own.
const OFFERS: [KeyPath; 4] = [
    &["_meta", "proxy"],
    &["_meta", "symposium", "proxy"],
    &["clientCapabilities", "_meta", "symposium", "proxy"],
    &["capabilities", "_meta", "symposium", "proxy"],
];

/// The version that stands beside it, where it stands in a `symposium`.
const OFFERED_VERSIONS: [KeyPath; 3] = [
    &["_meta", "symposium", "version"],
    &["clientCapabilities", "_meta", "symposium", "version"],
    &["capabilities", "_meta", "symposium", "version"],
];

/// Where it may stand in the result.
const ACCEPTANCES: [KeyPath; 5] = [
    &["_meta", "proxy"],
    &["_meta", "symposium", "proxy"],
    &["agentCapabilities", "_meta", "symposium", "proxy"],
    &["agentCapabilities", "_meta", "proxy"],
    &["capabilities", "_meta", "symposium", "proxy"],
];

const ACCEPTED_VERSIONS: [KeyPath; 3] = [
    &["_meta", "symposium", "version"],
    &["agentCapabilities", "_meta", "symposium", "version"],
    &["capabilities", "_meta", "symposium", "version"],
];

const VERSION: &str = "1.0";

/// What the RFD "Proxy Chains" wants a conductor to offer every proxy, and a proxy to accept: that
/// MCP servers over ACP work. It does not say where; in `_meta` it cannot be mistaken for anything.
pub(crate) const MCP_OFFER: KeyPath = &["_meta", "mcp_acp_transport"];

/// The params with the offer: where that generation looks for it, or wherever any would.
pub(crate) fn put(params: &Json, generation: Option<Generation>) -> Json {
    match generation {
        Some(generation) => put_at(params, generation.table().offer),
        None => OFFERS[..3].iter().fold(params.clone(), |params, path| put_at(&params, path)),
    }
}

/// Adds the key at a path, and the version beside it where `symposium` has none.
pub(crate) fn put_at(json: &Json, path: &[&str]) -> Json {
    let json = match path {
        [above @ .., "symposium", _] => {
            let version = [above, &["symposium", "version"]].concat();
            match json.at(&version) {
                Some(_) => json.clone(),
                None => json.with_at(&version, Some(&Json::string(VERSION))),
            }
        }
        _ => json.clone(),
    };
    match path.last() {
        Some(&"version") => json,
        _ => json.with_at(path, Some(&Json::TRUE)),
    }
}

/// Where the offer stands in these params, if anywhere.
pub(crate) fn offered_at(params: &Json) -> Option<KeyPath> {
    // The nested paths first: a parent that offers several expects the answer in the usual one.
    [OFFERS[2], OFFERS[3], OFFERS[0], OFFERS[1]].into_iter().find(|path| is_set(params, path))
}

/// Published programs look for the key, not for its value, but nobody means yes by `false`.
pub(crate) fn is_set(json: &Json, path: &[&str]) -> bool {
    json.at(path).is_some_and(|value| value.as_str() != "false" && !value.is_null())
}

pub(crate) fn accepted(result: &Json) -> bool {
    ACCEPTANCES.iter().any(|path| is_set(result, path))
}

/// The result without the acceptance and what came along with it. `base` is what the successor has
/// answered, if that is known: what it has at these paths is put back.
pub(crate) fn take_acceptance(result: &Json, base: Option<&Json>) -> Json {
    let comes_along = |version: &&KeyPath| match base {
        Some(base) => base.at(version).is_some() || beside_key(result, version),
        None => beside_key(result, version) && is_alone(result, version),
    };
    let mut paths = ACCEPTANCES.to_vec();
    paths.extend(ACCEPTED_VERSIONS.iter().filter(comes_along));
    match base {
        Some(base) => restored(result, base, &paths),
        None => restored(result, &own_lists(result), &paths),
    }
}

/// The params of a conductor above us without its offer, which is for us alone. A value at another
/// path that is not an offer is the editor's own and stays.
pub(crate) fn withdrawn(params: &Json, offered: KeyPath) -> Json {
    let is_offer = |path: &&KeyPath| {
        **path == offered || params.at(path).is_some_and(|value| value == Json::TRUE)
    };
    let mut paths: Vec<KeyPath> = OFFERS.iter().filter(is_offer).copied().collect();
    let with_key = |version: &&KeyPath| {
        let above = &version[..version.len() - 1];
        paths.iter().any(|path| path.starts_with(above)) && is_alone(params, version)
    };
    let versions: Vec<KeyPath> = OFFERED_VERSIONS.iter().filter(with_key).copied().collect();
    paths.extend(versions);
    restored(params, &own_lists(params), &paths)
}

/// The params without the offer. `base` is what they were before it was put in: a value that the
/// editor has at one of these paths is put back.
pub(crate) fn take_offer(params: &Json, base: &Json) -> Json {
    let ours = |version: &&KeyPath| {
        base.at(version).is_none() && params.at(version).is_some_and(|it| it.equals_text(VERSION))
    };
    let mut paths = OFFERS.to_vec();
    paths.extend(OFFERED_VERSIONS.iter().filter(ours));
    restored(params, base, &paths)
}

/// Does the key stand beside this version?
fn beside_key(json: &Json, version: &[&str]) -> bool {
    let key = [&version[..version.len() - 1], &["proxy"]].concat();
    json.at(&key).is_some()
}

/// Is there nothing else beside this version but the key?
fn is_alone(json: &Json, version: &[&str]) -> bool {
    let section = json.at(&version[..version.len() - 1]);
    section.is_some_and(|it| it.keys().iter().all(|key| key == "version" || key == "proxy"))
}

/// The lists of capabilities that stay even if they are empty in the end: where it is not known what
/// was there before, only `capabilities` beside the word that ACP v1 has for it was there to hold
/// the key.
fn own_lists(json: &Json) -> Json {
    let v1 = ["clientCapabilities", "agentCapabilities"];
    let mut own: Vec<&str> = v1.into_iter().filter(|word| json.member(word).is_some()).collect();
    if own.is_empty() {
        own.push("capabilities");
    }
    let own = own.into_iter().filter(|word| json.member(word).is_some());
    Json::object(own.map(|word| (word, Some(Json::EMPTY))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &'static str) -> Json {
        Json::parse(text).unwrap()
    }

    /// Checklist 27: an editor's own flags survive.
    #[test]
    fn the_offer_is_merged_into_what_is_there_and_taken_out_again() {
        for params in [
            r#"{"protocolVersion":1,"clientCapabilities":{"fs":{"x":1.10}}}"#,
            r#"{"protocolVersion":1,"clientCapabilities":{},"_meta":{"symposium":{"version":"2.0","html_panel":true},"traceparent":"t"}}"#,
            r#"{"protocolVersion":1,"clientCapabilities":{"_meta":{"symposium":{"file_comment":true}}},"x":1e400}"#,
        ] {
            let params = json(params);
            let offered = put(&params, None);
            assert!(
                is_set(&offered, OFFERS[0])
                    && is_set(&offered, OFFERS[1])
                    && is_set(&offered, OFFERS[2])
            );
            let flag = ["_meta", "symposium", "html_panel"];
            assert_eq!(offered.at(&flag), params.at(&flag));
            assert_eq!(take_offer(&offered, &params), params);
        }
    }

    /// Only the version that was put in with the offer is taken out.
    #[test]
    fn a_version_that_a_proxy_has_written_stays() {
        let base = json(r#"{"protocolVersion":1}"#);
        let passed_on =
            json(r#"{"protocolVersion":1,"_meta":{"symposium":{"version":"2.0","proxy":true}}}"#);
        assert_eq!(
            take_offer(&passed_on, &base),
            json(r#"{"protocolVersion":1,"_meta":{"symposium":{"version":"2.0"}}}"#)
        );
    }

    #[test]
    fn a_generation_is_offered_it_where_it_looks() {
        let params = json(r#"{"capabilities":{}}"#);
        let offer = |name| put(&params, Generation::from_name(name)).to_string();
        assert_eq!(
            offer("P2"),
            r#"{"capabilities":{"_meta":{"symposium":{"version":"1.0","proxy":true}}}}"#
        );
        assert_eq!(offer("P3t"), r#"{"capabilities":{},"_meta":{"proxy":true}}"#);
    }

    /// Checklist 14, 26: nothing of it is seen further up.
    #[test]
    fn the_acceptance_is_found_anywhere_and_taken_out() {
        for result in [
            r#"{"protocolVersion":1,"_meta":{"proxy":true}}"#,
            r#"{"protocolVersion":1,"_meta":{"symposium":{"version":"1.0","proxy":true}}}"#,
            r#"{"protocolVersion":1,"agentCapabilities":{"_meta":{"symposium":{"version":"1.0","proxy":true}}}}"#,
        ] {
            let result = json(result);
            assert!(accepted(&result));
            let rest = take_acceptance(&result, None);
            assert!(!accepted(&rest) && !rest.as_str().contains("symposium"), "{rest}");
            assert_eq!(rest.member("protocolVersion"), Some(Json::trusted("1")));
        }
        assert!(!accepted(&json(r#"{"_meta":{"symposium":{"proxy":false}}}"#)));
        let kept =
            json(r#"{"_meta":{"symposium":{"version":"1.0","more":1}},"agentCapabilities":{}}"#);
        assert_eq!(take_acceptance(&kept, None), kept);
    }

    /// Checklist 14: a version is taken out with the key if it came along with the key.
    #[test]
    fn a_version_that_did_not_come_with_the_acceptance_stays() {
        let apart = json(
            r#"{"agentCapabilities":{"_meta":{"symposium":{"proxy":true}}},"_meta":{"symposium":{"version":"1.0"}}}"#,
        );
        let rest = r#"{"agentCapabilities":{},"_meta":{"symposium":{"version":"1.0"}}}"#;
        assert_eq!(take_acceptance(&apart, None).as_str(), rest);
        let base = json(r#"{"agentCapabilities":{}}"#);
        assert_eq!(take_acceptance(&apart, Some(&base)).as_str(), rest);
        let more = json(r#"{"_meta":{"symposium":{"version":"1.0","proxy":true,"more":1}}}"#);
        let rest = r#"{"_meta":{"symposium":{"version":"1.0","more":1}}}"#;
        assert_eq!(take_acceptance(&more, None).as_str(), rest);
    }

    /// Checklist 3, 26: a value that the editor has at one of the paths is the agent's to see, however
    /// a proxy treats what is offered there.
    #[test]
    fn a_value_of_the_editors_own_is_put_back() {
        for value in ["false", "true", "null", "1.10", r#""x""#, r#"{"a": [1e400]}"#] {
            for params in [
                r#"{"_meta":{"a":1,"proxy": VALUE ,"b":2},"protocolVersion":1}"#,
                r#"{"_meta":{"symposium":{"proxy":VALUE,"version":"0.9"}},"protocolVersion":1}"#,
                r#"{"protocolVersion":1,"_meta":{"symposium":VALUE}}"#,
                r#"{"protocolVersion":1,"_meta":VALUE}"#,
                r#"{"clientCapabilities":{"_meta":{"symposium":{"x":1,"proxy":VALUE}},"fs":{}}}"#,
                r#"{"clientCapabilities":{"_meta":{"proxy":VALUE}}}"#,
                r#"{"clientCapabilities":VALUE}"#,
                r#"{"capabilities":{"_meta":{"symposium":{"proxy":VALUE}}}}"#,
            ] {
                let params = Json::parse(params.replace("VALUE", value)).unwrap();
                let generations = ["P3", "P3t", "P2", "P1", "P0"].map(Generation::from_name);
                for generation in generations.into_iter().chain([None]) {
                    let offered = put(&params, generation);
                    assert_eq!(take_offer(&offered, &params), params);
                    // A proxy that takes the key out, and one that takes all of it out.
                    let stripped = OFFERS.iter().fold(offered, |it, path| it.with_at(path, None));
                    assert_eq!(take_offer(&stripped, &params), params);
                    let said = "says no";
                    let altered = OFFERS
                        .iter()
                        .fold(stripped, |it, path| it.with_at(path, Some(&Json::string(said))));
                    assert!(!take_offer(&altered, &params).as_str().contains(said), "{params}");
                }
            }
        }
    }

    /// Checklist 14: the agent's own words stay, those of the proxy do not.
    #[test]
    fn an_answer_of_the_agents_own_is_put_back() {
        for own in [
            r#"{"_meta":{"symposium":{"proxy":false}},"protocolVersion":1}"#,
            r#"{"_meta":{"symposium":{"version":"1.0"}},"protocolVersion":1}"#,
            r#"{"_meta":{"symposium":{"version":"0.9","proxy":false,"html_panel":1.10}}}"#,
            r#"{"agentCapabilities":{"_meta":{"symposium":{"proxy":{"a":1}}}}}"#,
            r#"{"agentCapabilities":{"_meta":{"symposium":{"mcp_acp_transport":true}}}}"#,
            r#"{"agentCapabilities":{"_meta":{"proxy":false}},"_meta":{"proxy":0}}"#,
            r#"{"agentCapabilities":{"_meta":{}},"_meta":{"symposium":{}}}"#,
            r#"{"protocolVersion":1}"#,
        ] {
            let own = json(own);
            for path in ACCEPTANCES {
                let accepted = put_at(&own, path);
                assert!(is_set(&accepted, path));
                assert_eq!(take_acceptance(&accepted, Some(&own)), own, "{path:?}");
            }
        }
    }

    /// A conductor above us offers a role; what its editor has at another path is not an offer.
    #[test]
    fn only_the_offer_of_a_conductor_above_us_is_withdrawn() {
        let params = json(
            r#"{"_meta":{"proxy":false,"symposium":{"version":"1.0","x":1}},"clientCapabilities":{}}"#,
        );
        for path in [OFFERS[1], OFFERS[2], OFFERS[3]] {
            assert_eq!(withdrawn(&put_at(&params, path), path), params, "{path:?}");
        }
        // A conductor that does not know our generation offers the role at several paths.
        let offers = put_at(&put_at(&params, OFFERS[2]), OFFERS[3]);
        assert_eq!(withdrawn(&offers, OFFERS[2]), params);
        // Whatever the value at the path is by which the offer was recognised.
        let odd = params.with_at(OFFERS[2], Some(&Json::trusted("1")));
        assert_eq!(withdrawn(&odd, OFFERS[2]).at(OFFERS[2]), None);
    }
}
