//! The capability with which the generations before P4 are greeted: put into `initialize`, looked
//! for in its result, and taken out again before either travels on.

use super::generation::Generation;
use crate::json::Json;

/// Where the capability may stand in the params. An unknown component is offered all but the last:
/// in ACP v2 `capabilities` is a field of its own.
const OFFERS: [&[&str]; 4] = [
    &["_meta", "proxy"],
    &["_meta", "symposium", "proxy"],
    &["clientCapabilities", "_meta", "symposium", "proxy"],
    &["capabilities", "_meta", "symposium", "proxy"],
];

/// Where it may stand in the result.
const ACCEPTANCES: [&[&str]; 5] = [
    &["_meta", "proxy"],
    &["_meta", "symposium", "proxy"],
    &["agentCapabilities", "_meta", "symposium", "proxy"],
    &["agentCapabilities", "_meta", "proxy"],
    &["capabilities", "_meta", "symposium", "proxy"],
];

const VERSION: &str = "1.0";

/// The params with the offer: where that generation looks for it, or wherever any would.
pub(crate) fn put(params: &Json, generation: Option<&Generation>) -> Json {
    match generation {
        Some(generation) => put_at(params, generation.offer),
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
pub(crate) fn offered_at(params: &Json) -> Option<&'static [&'static str]> {
    // The nested places first: a parent that offers several expects the answer in the usual one.
    [OFFERS[2], OFFERS[3], OFFERS[0], OFFERS[1]].into_iter().find(|path| is_set(params, path))
}

/// Published programs look for the key, not for its value, but nobody means yes by `false`.
fn is_set(json: &Json, path: &[&str]) -> bool {
    json.at(path).is_some_and(|value| value.as_str() != "false" && !value.is_null())
}

pub(crate) fn accepted(result: &Json) -> bool {
    ACCEPTANCES.iter().any(|path| is_set(result, path))
}

/// The result without the acceptance and what came along with it.
pub(crate) fn take_acceptance(result: &Json) -> Json {
    ACCEPTANCES.iter().fold(result.clone(), |result, path| take(&result, path, None))
}

/// The params of a conductor above us without its offer: it is for us alone.
pub(crate) fn withdrawn(params: &Json) -> Json {
    OFFERS.iter().fold(params.clone(), |params, path| take(&params, path, None))
}

/// The params without the offer; what `before` had already (the editor's own words) stays.
pub(crate) fn take_offer(params: &Json, before: Option<&Json>) -> Json {
    OFFERS.iter().fold(params.clone(), |params, path| take(&params, path, before))
}

fn take(json: &Json, path: &[&str], before: Option<&Json>) -> Json {
    let had = |path: &[&str]| before.is_some_and(|before| before.at(path).is_some());
    let mut taken = json.at(path).is_some() && !had(path);
    let mut json = match taken {
        true => json.with_at(path, None),
        // A proxy may have taken the key itself and left what stood beside it.
        false if before.is_some() => json.clone(),
        false => return json.clone(),
    };
    // The version that was put beside the key, and what is empty without both.
    for depth in (1..path.len()).rev() {
        let above = &path[..depth];
        let Some(object) = json.at(above) else { continue };
        let ours = match above.last() {
            Some(&"symposium") => object.is_empty_object() || object.keys() == ["version"],
            Some(&"_meta") => object.is_empty_object(),
            // What holds it is ours if it was not there before, or would not be there in ACP v1.
            _ => taken && object.is_empty_object() && (before.is_some() || is_stray(&json, above)),
        };
        if ours && !had(above) {
            json = json.with_at(above, None);
            taken = true;
        }
    }
    json
}

/// `capabilities` beside the word that ACP v1 has for it: there only to hold the key.
fn is_stray(json: &Json, path: &[&str]) -> bool {
    let v1 = ["clientCapabilities", "agentCapabilities"];
    path == ["capabilities"] && v1.iter().any(|word| json.member(word).is_some())
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
            // Version stays where the editor's own words stand beside it.
            let back = take_offer(&offered, Some(&params));
            if params.at(&["clientCapabilities", "_meta"]).is_none() {
                assert_eq!(back, params);
            }
            assert!(offered_at(&back).is_none());
        }
    }

    #[test]
    fn a_generation_is_offered_it_where_it_looks() {
        let params = json(r#"{"capabilities":{}}"#);
        let offer = |name| put(&params, Generation::named(name)).to_string();
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
            let rest = take_acceptance(&result);
            assert!(!accepted(&rest) && !rest.as_str().contains("symposium"), "{rest}");
            assert_eq!(rest.member("protocolVersion"), Some(Json::trusted("1")));
        }
        assert!(!accepted(&json(r#"{"_meta":{"symposium":{"proxy":false}}}"#)));
        let kept =
            json(r#"{"_meta":{"symposium":{"version":"1.0","more":1}},"agentCapabilities":{}}"#);
        assert_eq!(take_acceptance(&kept), kept);
    }
}
