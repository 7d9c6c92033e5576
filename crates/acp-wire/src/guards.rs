//! How a chain that is itself a proxy tells the conductor above it that it contains a guard.
//!
//! Nothing may pass without a guard, so nothing may pass without a chain that contains one: the conductor
//! above must not leave that chain out. The answer to `initialize` of such a chain contains a flag:
//!
//! ```json
//! {"protocolVersion":1,"_meta":{"conductor":{"guards":true}}}
//! ```
//!
//! Only the component that answers may set the flag. Therefore the conductor above hides from a proxy what
//! the successor of that proxy says in this path ([`hide_flag`]), and puts it back into the answer of the proxy
//! ([`take_flag`]). An agent that says anything there can neither set nor clear the flag of a chain, and its
//! words reach the editor unchanged. To any other program the flag is one more member of `_meta`.

use crate::dialect::{KeyPath, restored};
use crate::json::Json;

const PATH: KeyPath = &["_meta", "conductor", "guards"];

/// The result of `initialize` of a chain that contains a guard.
pub fn set_flag(result: &Json) -> Json {
    result.with_at(PATH, Some(&Json::TRUE))
}

/// Puts into one result what another one says of guards, if it says anything.
pub fn copy_flag(from: &Json, to: &Json) -> Json {
    match from.at(PATH) {
        Some(said) => to.with_at(PATH, Some(&said)),
        None => to.clone(),
    }
}

/// A result of `initialize` as a proxy gets it from its successor: nothing stands where the proxy may put
/// the flag, nor anything that could not contain it.
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

/// Whether the component that gave this result contains a guard; and the result with what its successor
/// said in path of the flag. `successor` is what the successor has answered, before [`hide_flag`].
pub fn take_flag(result: &Json, successor: Option<&Json>) -> (bool, Json) {
    let flag = result.at(PATH);
    let base = successor.cloned().unwrap_or(Json::EMPTY);
    if flag.is_none() && hide_flag(&base) == base {
        return (false, result.clone());
    }
    let set = flag.is_some_and(|it| !matches!(it.as_str(), "false" | "null" | "0"));
    // A component that has changed nothing else: not even the spelling is another one.
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
            let heard = hide_flag(&successor);
            assert_eq!(heard.at(PATH), None, "{successor}");
            assert_eq!(take_flag(&heard, Some(&successor)), (false, successor.clone()));
            assert_eq!(take_flag(&set_flag(&heard), Some(&successor)), (true, successor.clone()));
            // Twice, as by a chain within a chain whose conductor does not take it out.
            assert_eq!(
                take_flag(&set_flag(&set_flag(&heard)), Some(&successor)),
                (true, successor)
            );
        }
    }

    #[test]
    fn only_what_is_in_the_way_of_the_flag_is_hidden() {
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

    /// A proxy in the inner chain may drop all that the successor said beside the protocol.
    #[test]
    fn an_answer_without_meta_has_a_flag_as_well() {
        for successor in ANSWERS {
            let successor = Json::trusted(successor);
            let bare = Json::trusted(r#"{"protocolVersion":1}"#);
            assert!(take_flag(&set_flag(&bare), Some(&successor)).0, "{successor}");
            assert!(!take_flag(&bare, Some(&successor)).0, "{successor}");
        }
    }

    #[test]
    fn a_flag_counts_without_an_answer_of_the_successor() {
        let said = Json::trusted(r#"{"_meta":{"conductor":{"guards":1}}}"#);
        assert_eq!(take_flag(&said, None), (true, Json::EMPTY));
        assert!(!take_flag(&Json::trusted(r#"{"_meta":{"conductor":{"guards":0}}}"#), None).0);
        assert_eq!(copy_flag(&said, &Json::EMPTY), said);
        assert_eq!(copy_flag(&Json::EMPTY, &said), said);
    }
}
