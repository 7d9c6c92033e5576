//! How a chain that is itself a proxy tells the conductor above it that it contains a guard.
//!
//! Nothing may pass without a guard, so nothing may pass without a chain that contains one: the conductor
//! above must not leave that chain out. In the answer to `initialize` there is a number for it:
//!
//! ```json
//! {"protocolVersion":1,"_meta":{"conductor":{"guards":1}}}
//! ```
//!
//! A chain that contains a guard adds 1 to what its successor answered. The conductor above compares the
//! two answers, notes the difference, and passes on what the successor had said. To any other program it
//! is one more member of `_meta`.

use crate::json::Json;

const PLACE: [&str; 3] = ["_meta", "conductor", "guards"];

fn number(result: &Json) -> u64 {
    result.at(&PLACE).and_then(|it| it.as_str().parse().ok()).unwrap_or(0)
}

/// The result of `initialize` of a chain that contains a guard.
pub fn put(result: &Json) -> Json {
    let number = number(result).saturating_add(1);
    result.with_at(&PLACE, Some(&Json::trusted(number.to_string())))
}

/// Puts into one result what another one says of guards, if it says anything.
pub fn copy(from: &Json, to: &Json) -> Json {
    match from.at(&PLACE) {
        Some(said) => to.with_at(&PLACE, Some(&said)),
        None => to.clone(),
    }
}

/// Whether the component that answered contains a guard, given what its successor had answered to it. If so,
/// gives the result with what the successor said of guards, and nothing else.
pub fn take(result: &Json, successor: Option<&Json>) -> Option<Json> {
    let before = successor.map_or(0, number);
    if number(result) <= before {
        return None;
    }
    let said = successor.and_then(|it| it.at(&PLACE));
    let mut result = result.with_at(&PLACE, said.as_ref());
    for depth in [2, 1] {
        let place = &PLACE[..depth];
        let had = successor.is_some_and(|it| it.at(place).is_some());
        if !had && result.at(place).is_some_and(|it| it.is_empty_object()) {
            result = result.with_at(place, None);
        }
    }
    Some(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_chain_says_of_its_guards_is_heard_and_taken_out_again() {
        for successor in [
            r#"{"protocolVersion":1}"#,
            r#"{"protocolVersion":1,"_meta":{}}"#,
            r#"{"protocolVersion":1,"_meta":{"conductor":{},"x":1e400}}"#,
            r#"{"protocolVersion":1,"_meta":{"conductor":{"guards":2,"more":true}}}"#,
            r#"{"protocolVersion":1,"_meta":{"conductor":{"guards":"odd"}}}"#,
        ] {
            let successor = Json::trusted(successor);
            assert_eq!(take(&successor, Some(&successor)), None);
            let told = put(&successor);
            assert_eq!(take(&told, Some(&successor)), Some(successor.clone()), "{told}");
            // Twice, as by a chain within a chain whose conductor does not take it out.
            assert_eq!(take(&put(&told), Some(&successor)), Some(successor), "{told}");
        }
    }

    #[test]
    fn without_an_answer_of_the_successor_any_number_counts() {
        let said = Json::trusted(r#"{"_meta":{"conductor":{"guards":1}}}"#);
        assert_eq!(take(&said, None), Some(Json::trusted("{}")));
        assert_eq!(take(&Json::trusted(r#"{"_meta":{"conductor":{"guards":0}}}"#), None), None);
        assert_eq!(copy(&said, &Json::EMPTY), said);
        assert_eq!(copy(&Json::EMPTY, &said), said);
    }
}
