//! The flag with which a nested chain tells the outer conductor that it contains a guard.
//!
//! A guard must not be bypassed, so a chain that contains a guard must not be bypassed either. The answer
//! of such a chain to `initialize` contains a flag:
//!
//! ```json
//! {"protocolVersion":1,"_meta":{"conductor":{"guards":true}}}
//! ```
//!
//! Only the component that answers may set the flag. Before the outer conductor forwards a successor's
//! answer to a proxy, it removes any value at this path ([`hide_flag`]). It restores the value in the
//! proxy's own answer ([`take_flag`]). So an agent can neither set nor clear the flag of a chain, and its
//! value reaches the editor unchanged. To any other program the flag is one more member of `_meta`.

use crate::dialect::{KeyPath, restored};
use crate::json::Json;

const PATH: KeyPath = &["_meta", "conductor", "guards"];

/// The result of `initialize` with the flag set.
pub fn set_flag(result: &Json) -> Json {
    result.with_at(PATH, Some(&Json::TRUE))
}

/// Copies the flag from one result to another, if it is there.
pub fn copy_flag(from: &Json, to: &Json) -> Json {
    match from.at(PATH) {
        Some(flag) => to.with_at(PATH, Some(&flag)),
        None => to.clone(),
    }
}

/// The successor's result of `initialize` as a proxy gets it: without the flag, and without any value in
/// its path that is not an object.
pub fn hide_flag(result: &Json) -> Json {
    let in_the_way = |depth: &usize| {
        let value = result.at(&PATH[..*depth]);
        value.is_some_and(|value| *depth == PATH.len() || !value.is_object())
    };
    match (1..=PATH.len()).find(in_the_way) {
        Some(depth) => result.with_at(&PATH[..depth], None),
        None => result.clone(),
    }
}

/// Whether the component that gave this result contains a guard, and the result with the successor's value
/// in place of the flag. `successor` is the successor's answer before [`hide_flag`].
pub fn take_flag(result: &Json, successor: Option<&Json>) -> (bool, Json) {
    let flag = result.at(PATH);
    let base = successor.cloned().unwrap_or(Json::EMPTY_OBJECT);
    if flag.is_none() && hide_flag(&base) == base {
        return (false, result.clone());
    }
    let set = flag.is_some_and(|it| !matches!(it.as_str(), "false" | "null" | "0"));
    // If the component changed nothing else, the successor's text is used unchanged.
    let same = hide_flag(result) == hide_flag(&base);
    (set, if same { base } else { restored(result, &base, &[PATH]) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANSWERS: [&str; 12] = [
        r#"{"protocolVersion":1}"#,
        r#"{"protocolVersion":1,"_meta":{}}"#,
        r#"{"protocolVersion":1,"_meta":null}"#,
        r#"{"protocolVersion":1,"_meta":3}"#,
        r#"{"protocolVersion":1,"_meta":{"conductor":{},"x":1e400}}"#,
        r#"{"protocolVersion":1,"_meta":{"conductor":"x","y":[ 1 ]}}"#,
        r#"{"_meta":{"conductor":{"guards":1,"more":true}},"protocolVersion":1}"#,
        r#"{"protocolVersion":1,"_meta":{"conductor":{"guards":18446744073709551615}}}"#,
        r#"{"protocolVersion":1,"_meta":{"conductor":{"guards":true}}}"#,
        r#"{"protocolVersion":1,"_meta":{"conductor":{"guards":false}}}"#,
        r#"{"protocolVersion":1,"_meta":{"conductor":{"gu\u0061rds":{"a":null}}}}"#,
        r#"{"protocolVersion":1,"_meta":{"conductor":{"guards":1,"guards":0}}}"#,
    ];

    #[test]
    fn only_the_component_that_answers_sets_the_flag() {
        for successor in ANSWERS {
            let successor = Json::trusted(successor);
            let hidden = hide_flag(&successor);
            assert_eq!(hidden.at(PATH), None, "{successor}");
            assert_eq!(take_flag(&hidden, Some(&successor)), (false, successor.clone()));
            assert_eq!(take_flag(&set_flag(&hidden), Some(&successor)), (true, successor.clone()));
            // Twice, as by nested chains whose conductor does not remove the flag.
            assert_eq!(
                take_flag(&set_flag(&set_flag(&hidden)), Some(&successor)),
                (true, successor)
            );
        }
    }

    #[test]
    fn only_values_in_the_path_of_the_flag_are_hidden() {
        for (result, hidden) in [
            (
                r#"{"_meta":{"x":1,"conductor":{"more":1,"guards":0}}}"#,
                r#"{"_meta":{"x":1,"conductor":{"more":1}}}"#,
            ),
            (r#"{"_meta":{"conductor":{"guards":{"a":null}}}}"#, r#"{"_meta":{"conductor":{}}}"#),
            (r#"{"v":1,"_meta":{"x":1,"conductor":3}}"#, r#"{"v":1,"_meta":{"x":1}}"#),
            (r#"{"v":1,"_meta":3}"#, r#"{"v":1}"#),
            (r#"{"v":1,"_meta":{"conductor":{}}}"#, r#"{"v":1,"_meta":{"conductor":{}}}"#),
        ] {
            assert_eq!(hide_flag(&Json::trusted(result)).as_str(), hidden);
        }
    }

    /// A proxy of the inner chain may drop all members except those of the protocol.
    #[test]
    fn the_flag_can_be_set_in_an_answer_without_meta() {
        for successor in ANSWERS {
            let successor = Json::trusted(successor);
            let bare = Json::trusted(r#"{"protocolVersion":1}"#);
            assert!(take_flag(&set_flag(&bare), Some(&successor)).0, "{successor}");
            assert!(!take_flag(&bare, Some(&successor)).0, "{successor}");
        }
    }

    #[test]
    fn the_flag_counts_without_an_answer_of_the_successor() {
        let flagged = Json::trusted(r#"{"_meta":{"conductor":{"guards":1}}}"#);
        assert_eq!(take_flag(&flagged, None), (true, Json::EMPTY_OBJECT));
        assert!(!take_flag(&Json::trusted(r#"{"_meta":{"conductor":{"guards":0}}}"#), None).0);
        assert_eq!(copy_flag(&flagged, &Json::EMPTY_OBJECT), flagged);
        assert_eq!(copy_flag(&Json::EMPTY_OBJECT, &flagged), flagged);
    }
}
