//! Removes from the params or the result of `initialize` what was added for one component.
//!
//! The base is the JSON before anything was added. The component may have kept, removed or changed the
//! added members. In each case the next reader gets the values of the base at these paths, together with
//! the other changes of the component.

use crate::json::Json;

/// A path of keys.
pub(crate) type KeyPath = &'static [&'static str];

/// A copy in which each path has the value that `base` has there, or none. An object that becomes empty and
/// that `base` does not have is removed. If nothing else was changed, the text is the text of `base`.
pub(crate) fn restored(json: &Json, base: &Json, paths: &[KeyPath]) -> Json {
    paths.iter().fold(json.clone(), |json, path| restored_at(&json, base, path))
}

/// Both are objects. Recurses once for each key of the path.
fn restored_at(json: &Json, base: &Json, path: &[&str]) -> Json {
    let [key, rest @ ..] = path else { return json.clone() };
    if !json.is_object() {
        return json.clone();
    }
    let (now, was) = (json.member(key), base.member(key));
    let value = if rest.is_empty() { was } else { restored_member(key, now, was, rest) };
    let json = json.with_at(&[key], value.as_ref());
    if same_members(&json, base) { base.clone() } else { json }
}

/// The value of a member that contains the rest of the path.
fn restored_member(key: &str, now: Option<Json>, was: Option<Json>, rest: &[&str]) -> Option<Json> {
    let inside = match &now {
        // The component has put another value there.
        Some(now) if !now.is_object() => return Some(now.clone()),
        Some(now) => now.clone(),
        // The component has removed the whole object.
        None => Json::EMPTY_OBJECT,
    };
    match was {
        Some(was) if was.is_object() => {
            let restored = restored_at(&inside, &was, rest);
            // An object that was empty may have been removed because it was empty again.
            let stays = now.is_some() || was.is_empty_object() || !restored.is_empty_object();
            stays.then_some(restored)
        }
        was => {
            let restored = restored_at(&inside, &Json::EMPTY_OBJECT, rest);
            match was {
                // Nothing was there before: the remaining members come from the component.
                None if !restored.is_empty_object() => Some(restored),
                // So does an empty object of capabilities.
                None => now.filter(|now| now.is_empty_object() && key.ends_with("apabilities")),
                // Null does not replace members of the component.
                Some(was) if was.is_null() && !restored.is_empty_object() => Some(restored),
                // A value that is not an object was replaced by one to hold the path.
                Some(was) => Some(was),
            }
        }
    }
}

/// Whether both objects have the same members, in any order.
fn same_members(one: &Json, other: &Json) -> bool {
    let sorted = |json: &Json| {
        let mut members: Vec<(String, Vec<u8>)> =
            json.members().into_iter().map(|(key, it)| (key, it.as_bytes().to_vec())).collect();
        members.sort();
        members
    };
    one.is_object() && other.is_object() && sorted(one) == sorted(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATHS: [KeyPath; 2] = [&["_meta", "proxy"], &["_meta", "symposium", "proxy"]];

    #[track_caller]
    fn check(json: &'static str, base: &'static str, expected: &str) {
        let [json, base] = [json, base].map(|text| Json::parse(text).unwrap());
        assert_eq!(restored(&json, &base, &PATHS).as_str(), expected);
    }

    #[test]
    fn other_changes_of_the_component_stay() {
        // Another value where the path could be.
        check(r#"{"_meta":4}"#, r#"{"_meta":3}"#, r#"{"_meta":4}"#);
        check(r#"{"_meta":{"proxy":true}}"#, "3", "{}");
        // The component has emptied an object, or removed an empty one.
        check(r#"{"_meta":{},"v":1}"#, r#"{"_meta":{"t":1}}"#, r#"{"_meta":{},"v":1}"#);
        check(r#"{"v":1}"#, r#"{"_meta":{},"v":1}"#, r#"{"_meta":{},"v":1}"#);
        check(r#"{"v":1}"#, r#"{"_meta":{"t":1}}"#, r#"{"v":1}"#);
    }

    #[test]
    fn a_path_gets_its_original_value() {
        let base = r#"{"_meta":{ "proxy" : 1.10, "t":1},"v":1}"#;
        // Kept, changed, removed with its object, moved.
        check(r#"{"_meta":{ "proxy" : true, "t":1},"v":1}"#, base, base);
        check(r#"{"v":1,"_meta":{"t":1,"proxy":{}}}"#, base, base);
        check(r#"{"_meta":{"t":1},"v":1}"#, base, base);
        check(r#"{"v":1}"#, base, r#"{"v":1,"_meta":{"proxy":1.10}}"#);
        check(r#"{"v":2,"_meta":{"t":1}}"#, base, r#"{"v":2,"_meta":{ "proxy" : 1.10, "t":1}}"#);
    }

    #[test]
    fn a_path_without_an_original_value_is_removed() {
        check(
            r#"{"v":1,"_meta":{"proxy":true,"symposium":{"proxy":1}}}"#,
            r#"{"v":1}"#,
            r#"{"v":1}"#,
        );
        check(r#"{"_meta":{"proxy":true,"own":1}}"#, "{}", r#"{"_meta":{"own":1}}"#);
        check(r#"{"_meta":{"symposium":{"proxy":true}}}"#, r#"{"_meta":{}}"#, r#"{"_meta":{}}"#);
    }

    #[test]
    fn a_value_that_is_not_an_object_is_restored() {
        for base in [r#"{"_meta":3}"#, r#"{"_meta":null}"#, r#"{"_meta":{"symposium":"x"}}"#] {
            check(r#"{"_meta":{"proxy":true,"symposium":{"proxy":true}}}"#, base, base);
            check("{}", base, base);
        }
        check(r#"{"_meta":{"proxy":true,"own":1}}"#, r#"{"_meta":null}"#, r#"{"_meta":{"own":1}}"#);
    }
}
