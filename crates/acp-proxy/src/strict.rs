//! Finds legal JSON that different programs read differently.
//!
//! By default a proxy forwards such a message, because it should not block what it does not know. A proxy that
//! protects something must not forward it: its handler cannot judge what it does not see. See
//! [`Proxy::strict`](crate::Proxy::strict).

use std::collections::BTreeSet;

use acp_proxy_core::Json;

/// The deepest nesting that serde_json reads.
const MAX_DEPTH: usize = 128;
const TOO_DEEP: &str = "it is nested more than 128 levels deep";

/// The reason why programs may read a message differently.
#[derive(Debug)]
pub(crate) struct Ambiguity {
    /// The reason for the sender. It may quote the message.
    pub(crate) text: String,
    /// The reason for logs. It does not quote the message.
    pub(crate) kind: &'static str,
}

impl From<&'static str> for Ambiguity {
    fn from(kind: &'static str) -> Ambiguity {
        Ambiguity { text: kind.to_owned(), kind }
    }
}

/// Checks that every program reads the same value. Of two members with the same name, one program takes the
/// first and another the last. Half a surrogate pair is replaced by one program and refused by another.
pub(crate) fn check(json: &Json) -> Result<(), Ambiguity> {
    let text = json.as_bytes();
    // One entry for each open array or object. An object has the names of its members so far.
    let mut open: Vec<Option<BTreeSet<Vec<u8>>>> = Vec::new();
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'{' => open.push(Some(BTreeSet::new())),
            b'[' => open.push(None),
            b'}' | b']' => drop(open.pop()),
            b'"' => {
                let end = end_of_string(text, at);
                let string = read_string(&text[at..end])?;
                let is_name =
                    text[end..].iter().find(|it| !it.is_ascii_whitespace()) == Some(&b':');
                if let Some(Some(names)) = open.last_mut().filter(|_| is_name)
                    && !names.insert(string.clone())
                {
                    let name = String::from_utf8_lossy(&string).into_owned();
                    let text = format!("the member {name:?} occurs twice in one object");
                    return Err(Ambiguity { text, kind: "a member occurs twice in one object" });
                }
                at = end;
                continue;
            }
            b'-' | b'0'..=b'9' => {
                let digits = text[at..].iter().take_while(|it| b"+-.eE0123456789".contains(it));
                let end = at + digits.count();
                let number = std::str::from_utf8(&text[at..end]).ok();
                let number = number.and_then(|it| it.parse::<f64>().ok());
                if !number.is_some_and(f64::is_finite) {
                    return Err("a number in it is too big".into());
                }
                at = end;
                continue;
            }
            _ => {}
        }
        if open.len() > MAX_DEPTH {
            return Err(TOO_DEEP.into());
        }
        at += 1;
    }
    Ok(())
}

/// The end of the string that begins at `start`.
fn end_of_string(text: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < text.len() && text[at] != b'"' {
        at += if text[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(text.len())
}

fn read_string(quoted: &[u8]) -> Result<Vec<u8>, Ambiguity> {
    if !quoted.contains(&b'\\') {
        return Ok(quoted[1..quoted.len() - 1].to_vec());
    }
    match serde_json::from_slice::<String>(quoted) {
        Ok(text) => Ok(text.into_bytes()),
        Err(_) => Err("a string in it has half of a surrogate pair".into()),
    }
}

/// Whether an object has several members with the same name, at its outermost level.
pub(crate) fn repeats_a_member(json: &Json) -> bool {
    let mut names = BTreeSet::new();
    !json.keys().into_iter().all(|name| names.insert(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_that_programs_read_differently_is_refused() {
        let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
        for (text, accepted) in [
            (r#"{"a":{"a":[{"a":1},{"a":2}]},"b":"a","c":"\"a\":"}"#.to_owned(), true),
            (r#"{"a":"\ud83d\ude00 \\ud83d","b":["a","a"]}"#.to_owned(), true),
            (deep(128), true),
            (deep(129), false),
            (r#"{"a":1,"a":1}"#.to_owned(), false),
            (r#"[{"x":{"kind":1,"b":2,"k\u0069nd" : 3}}]"#.to_owned(), false),
            (r#"{"a":"\ud83d"}"#.to_owned(), false),
            (r#"{"\ude00":1}"#.to_owned(), false),
            (r#"{"a":-1e300,"b":[123456789012345678901234567890,0,-0.5e-2]}"#.to_owned(), true),
            (r#"{"a":[1,-1e400]}"#.to_owned(), false),
        ] {
            let json = Json::parse(text.clone()).expect("JSON");
            assert_eq!(check(&json).is_ok(), accepted, "{text}: {:?}", check(&json));
        }
    }
}
