//! The capability with which a conductor offers the role of a proxy, in the generations before P4. It is
//! added to the params of `initialize`, looked up in the result, and removed from both before they are
//! forwarded.

use super::generation::Generation;
use super::restore::{KeyPath, restored};
use crate::json::Json;

/// The possible paths of the capability in the params. A component of unknown generation gets it at all of
/// them except the last: in ACP v2, `capabilities` has another meaning.
const OFFERS: [KeyPath; 4] = [
    &["_meta", "proxy"],
    &["_meta", "symposium", "proxy"],
    &["clientCapabilities", "_meta", "symposium", "proxy"],
    &["capabilities", "_meta", "symposium", "proxy"],
];

/// The paths of the version next to a capability in `symposium`.
const OFFERED_VERSIONS: [KeyPath; 3] = [
    &["_meta", "symposium", "version"],
    &["clientCapabilities", "_meta", "symposium", "version"],
    &["capabilities", "_meta", "symposium", "version"],
];

/// The possible paths of the capability in the result.
const ACCEPTANCES: [KeyPath; 5] = [
    &["_meta", "proxy"],
    &["_meta", "symposium", "proxy"],
    &["agentCapabilities", "_meta", "symposium", "proxy"],
    &["agentCapabilities", "_meta", "proxy"],
    &["capabilities", "_meta", "symposium", "proxy"],
];

/// The paths of the version next to an accepted capability in `symposium`.
const ACCEPTED_VERSIONS: [KeyPath; 3] = [
    &["_meta", "symposium", "version"],
    &["agentCapabilities", "_meta", "symposium", "version"],
    &["capabilities", "_meta", "symposium", "version"],
];

/// What an SCP editor can show, and where else it may have declared that. The SCP proposal has `symposium` in `_meta`
/// and does not say in which one, so an SCP proxy may look only at the first path.
const SCP_FEATURES: [(KeyPath, KeyPath); 3] = [
    (
        &["_meta", "symposium", "html_panel"],
        &["clientCapabilities", "_meta", "symposium", "html_panel"],
    ),
    (
        &["_meta", "symposium", "file_comment"],
        &["clientCapabilities", "_meta", "symposium", "file_comment"],
    ),
    (
        &["_meta", "symposium", "ide_operation"],
        &["clientCapabilities", "_meta", "symposium", "ide_operation"],
    ),
];

/// The version that the conductor writes.
const VERSION: &str = "1.0";

/// The RFD "Proxy Chains" requires a conductor to offer MCP over ACP to every proxy, and a proxy to accept
/// it. It does not define the path. In `_meta` the member cannot be mistaken for another one.
pub(crate) const MCP_OFFER: KeyPath = &["_meta", "mcp_acp_transport"];

/// Adds the offer to the params: at the path of this generation, or at the paths of all generations. An SCP proxy also
/// finds there what the editor can show.
pub(crate) fn add_offer(params: &Json, generation: Option<Generation>) -> Json {
    let offered = offer_role(params, generation);
    match generation {
        None | Some(Generation::P0) => copied_features(params)
            .fold(offered, |params, (copy, feature)| params.with_at(copy, Some(&feature))),
        Some(_) => offered,
    }
}

/// The features of the editor that only the second path has, with the first path.
fn copied_features(params: &Json) -> impl Iterator<Item = (KeyPath, Json)> + use<'_> {
    SCP_FEATURES
        .into_iter()
        .filter(|(copy, _)| params.at(copy).is_none())
        .filter_map(|(copy, original)| Some((copy, params.at(original)?)))
}

fn offer_role(params: &Json, generation: Option<Generation>) -> Json {
    match generation {
        Some(generation) => set_capability(params, generation.table().offer),
        None => {
            OFFERS[..3].iter().fold(params.clone(), |params, path| set_capability(&params, path))
        }
    }
}

/// Sets the capability at a path. Adds the version next to it if `symposium` has none.
pub(crate) fn set_capability(json: &Json, path: &[&str]) -> Json {
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

/// The path at which these params contain an offer.
pub(crate) fn offered_at(params: &Json) -> Option<KeyPath> {
    // The nested paths come first. An outer conductor that offers several expects the answer there.
    [OFFERS[2], OFFERS[3], OFFERS[0], OFFERS[1]].into_iter().find(|path| is_set(params, path))
}

/// Whether the key at the path is set. Published programs check for the key and not for its value; `false`
/// and null count as not set.
pub(crate) fn is_set(json: &Json, path: &[&str]) -> bool {
    json.at(path).is_some_and(|value| value.as_str() != "false" && !value.is_null())
}

/// Whether this result accepts the role of a proxy.
pub(crate) fn accepted(result: &Json) -> bool {
    ACCEPTANCES.iter().any(|path| is_set(result, path))
}

/// The result without the acceptance and its version. `base` is the successor's answer, if it is known; its
/// values at these paths are restored.
pub(crate) fn without_acceptance(result: &Json, base: Option<&Json>) -> Json {
    let belongs_to_acceptance = |version: &&KeyPath| match base {
        Some(base) => base.at(version).is_some() || is_next_to_key(result, version),
        None => is_next_to_key(result, version) && is_alone(result, version),
    };
    let mut paths = ACCEPTANCES.to_vec();
    paths.extend(ACCEPTED_VERSIONS.iter().filter(belongs_to_acceptance));
    match base {
        Some(base) => restored(result, base, &paths),
        None => restored(result, &own_capability_objects(result), &paths),
    }
}

/// The params of an outer conductor without its offer, which is for this chain only. A value at another
/// path that is not an offer comes from the editor and stays.
pub(crate) fn without_offer(params: &Json, offered: KeyPath) -> Json {
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
    restored(params, &own_capability_objects(params), &paths)
}

/// The params without the offer. `base` is the params before the offer was added; its values at these paths
/// are restored.
pub(crate) fn restore_params(params: &Json, base: &Json) -> Json {
    let ours = |version: &&KeyPath| {
        base.at(version).is_none() && params.at(version).is_some_and(|it| it.equals_text(VERSION))
    };
    let mut paths = OFFERS.to_vec();
    paths.extend(OFFERED_VERSIONS.iter().filter(ours));
    let is_copy = |(copy, feature): &(KeyPath, Json)| params.at(copy).as_ref() == Some(feature);
    paths.extend(copied_features(base).filter(is_copy).map(|(copy, _)| copy));
    restored(params, base, &paths)
}

/// Whether the capability is next to this version.
fn is_next_to_key(json: &Json, version: &[&str]) -> bool {
    let key = [&version[..version.len() - 1], &["proxy"]].concat();
    json.at(&key).is_some()
}

/// Whether the object has no members other than this version and the capability.
fn is_alone(json: &Json, version: &[&str]) -> bool {
    let section = json.at(&version[..version.len() - 1]);
    section.is_some_and(|it| it.keys().iter().all(|key| key == "version" || key == "proxy"))
}

/// The capability objects to keep even if they become empty, for params or results whose original is not
/// known. An empty `capabilities` next to the ACP v1 member was created only to hold the key, so it is not
/// kept.
fn own_capability_objects(json: &Json) -> Json {
    let v1 = ["clientCapabilities", "agentCapabilities"];
    let mut own: Vec<&str> = v1.into_iter().filter(|word| json.member(word).is_some()).collect();
    if own.is_empty() {
        own.push("capabilities");
    }
    let own = own.into_iter().filter(|word| json.member(word).is_some());
    Json::object(own.map(|word| (word, Some(Json::EMPTY_OBJECT))))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &'static str) -> Json {
        Json::parse(text).unwrap()
    }

    /// Checklist 27: the editor's own flags stay.
    #[test]
    fn the_offer_is_merged_into_the_params_and_removed_again() {
        for params in [
            r#"{"protocolVersion":1,"clientCapabilities":{"fs":{"x":1.10}}}"#,
            r#"{"protocolVersion":1,"clientCapabilities":{},"_meta":{"symposium":{"version":"2.0","html_panel":true},"traceparent":"t"}}"#,
            r#"{"protocolVersion":1,"clientCapabilities":{"_meta":{"symposium":{"file_comment":true}}},"x":1e400}"#,
        ] {
            let params = json(params);
            let offered = add_offer(&params, None);
            assert!(
                is_set(&offered, OFFERS[0])
                    && is_set(&offered, OFFERS[1])
                    && is_set(&offered, OFFERS[2])
            );
            let flag = ["_meta", "symposium", "html_panel"];
            assert_eq!(offered.at(&flag), params.at(&flag));
            assert_eq!(restore_params(&offered, &params), params);
        }
    }

    /// Only a version that was added with the offer is removed.
    #[test]
    fn a_version_that_a_proxy_has_written_stays() {
        let base = json(r#"{"protocolVersion":1}"#);
        let passed_on =
            json(r#"{"protocolVersion":1,"_meta":{"symposium":{"version":"2.0","proxy":true}}}"#);
        assert_eq!(
            restore_params(&passed_on, &base),
            json(r#"{"protocolVersion":1,"_meta":{"symposium":{"version":"2.0"}}}"#)
        );
    }

    #[test]
    fn each_generation_gets_the_offer_at_its_own_path() {
        let params = json(r#"{"capabilities":{}}"#);
        let offer = |name| add_offer(&params, Generation::from_name(name)).to_string();
        assert_eq!(
            offer("P2"),
            r#"{"capabilities":{"_meta":{"symposium":{"version":"1.0","proxy":true}}}}"#
        );
        assert_eq!(offer("P3t"), r#"{"capabilities":{},"_meta":{"proxy":true}}"#);
    }

    #[test]
    fn an_scp_proxy_finds_what_the_editor_can_show() {
        let symposium = r#"{"version":"1.1","html_panel":true,"ide_operation":["open-file"]}"#;
        let params = json(
            r#"{"protocolVersion":1,"clientCapabilities":{"_meta":{"symposium":{"version":"1.1","html_panel":true,"ide_operation":["open-file"]}}}}"#,
        );
        for generation in [None, Generation::from_name("P0")] {
            let offered = add_offer(&params, generation);
            let at = |name| offered.at(&["_meta", "symposium", name]);
            assert_eq!(at("html_panel"), Some(Json::TRUE));
            assert_eq!(at("ide_operation"), Some(Json::trusted(r#"["open-file"]"#)));
            assert_eq!(at("file_comment"), None);
            assert_eq!(restore_params(&offered, &params), params);
            // A proxy that changes its copy wants to tell its successor something.
            let panel = ["_meta", "symposium", "html_panel"];
            let changed = offered.with_at(&panel, Some(&Json::trusted("false")));
            let restored = restore_params(&changed, &params);
            assert_eq!(restored.at(&panel), Some(Json::trusted("false")));
        }
        let p1 = add_offer(&params, Generation::from_name("P1"));
        assert_eq!(p1.at(&["_meta", "symposium", "html_panel"]), None);
        let own = json(r#"{"_meta":{"symposium":{"html_panel":false}}}"#)
            .with_at(&["clientCapabilities", "_meta", "symposium"], Some(&json(symposium)));
        let offered = add_offer(&own, None);
        let panel = ["_meta", "symposium", "html_panel"];
        assert_eq!(offered.at(&panel), Some(Json::trusted("false")), "the editor's own value");
        assert_eq!(restore_params(&offered, &own), own);
    }

    /// Checklist 14, 26: the acceptance is not forwarded.
    #[test]
    fn an_acceptance_is_found_at_any_path_and_removed() {
        for result in [
            r#"{"protocolVersion":1,"_meta":{"proxy":true}}"#,
            r#"{"protocolVersion":1,"_meta":{"symposium":{"version":"1.0","proxy":true}}}"#,
            r#"{"protocolVersion":1,"agentCapabilities":{"_meta":{"symposium":{"version":"1.0","proxy":true}}}}"#,
        ] {
            let result = json(result);
            assert!(accepted(&result));
            let rest = without_acceptance(&result, None);
            assert!(!accepted(&rest) && !rest.as_str().contains("symposium"), "{rest}");
            assert_eq!(rest.member("protocolVersion"), Some(Json::trusted("1")));
        }
        assert!(!accepted(&json(r#"{"_meta":{"symposium":{"proxy":false}}}"#)));
        let kept =
            json(r#"{"_meta":{"symposium":{"version":"1.0","more":1}},"agentCapabilities":{}}"#);
        assert_eq!(without_acceptance(&kept, None), kept);
    }

    /// Checklist 14: a version is removed only if it belongs to the acceptance.
    #[test]
    fn a_version_that_does_not_belong_to_the_acceptance_stays() {
        let apart = json(
            r#"{"agentCapabilities":{"_meta":{"symposium":{"proxy":true}}},"_meta":{"symposium":{"version":"1.0"}}}"#,
        );
        let rest = r#"{"agentCapabilities":{},"_meta":{"symposium":{"version":"1.0"}}}"#;
        assert_eq!(without_acceptance(&apart, None).as_str(), rest);
        let base = json(r#"{"agentCapabilities":{}}"#);
        assert_eq!(without_acceptance(&apart, Some(&base)).as_str(), rest);
        let more = json(r#"{"_meta":{"symposium":{"version":"1.0","proxy":true,"more":1}}}"#);
        let rest = r#"{"_meta":{"symposium":{"version":"1.0","more":1}}}"#;
        assert_eq!(without_acceptance(&more, None).as_str(), rest);
    }

    /// Checklist 3, 26: a value of the editor at one of the paths reaches the agent, whatever a proxy does
    /// with the offer.
    #[test]
    fn a_value_of_the_editor_is_restored() {
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
                    let offered = add_offer(&params, generation);
                    assert_eq!(restore_params(&offered, &params), params);
                    // One proxy removes the key, another one the whole object.
                    let stripped = OFFERS.iter().fold(offered, |it, path| it.with_at(path, None));
                    assert_eq!(restore_params(&stripped, &params), params);
                    let changed = "changed by the proxy";
                    let altered = OFFERS
                        .iter()
                        .fold(stripped, |it, path| it.with_at(path, Some(&Json::string(changed))));
                    assert!(
                        !restore_params(&altered, &params).as_str().contains(changed),
                        "{params}"
                    );
                }
            }
        }
    }

    /// Checklist 14: values of the agent stay, values of the proxy do not.
    #[test]
    fn a_value_of_the_agent_is_restored() {
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
                let accepted = set_capability(&own, path);
                assert!(is_set(&accepted, path));
                assert_eq!(without_acceptance(&accepted, Some(&own)), own, "{path:?}");
            }
        }
    }

    /// An outer conductor offers a role at one path. The editor's value at another path is not an offer.
    #[test]
    fn only_the_offer_of_the_outer_conductor_is_removed() {
        let params = json(
            r#"{"_meta":{"proxy":false,"symposium":{"version":"1.0","x":1}},"clientCapabilities":{}}"#,
        );
        for path in [OFFERS[1], OFFERS[2], OFFERS[3]] {
            assert_eq!(without_offer(&set_capability(&params, path), path), params, "{path:?}");
        }
        // A conductor that does not know the generation offers the role at several paths.
        let offers = set_capability(&set_capability(&params, OFFERS[2]), OFFERS[3]);
        assert_eq!(without_offer(&offers, OFFERS[2]), params);
        // The value at the path of the offer does not matter.
        let odd = params.with_at(OFFERS[2], Some(&Json::trusted("1")));
        assert_eq!(without_offer(&odd, OFFERS[2]).at(OFFERS[2]), None);
    }
}
