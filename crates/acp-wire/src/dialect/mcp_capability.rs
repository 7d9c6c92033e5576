//! A capability that every generation has another word for: "this agent takes MCP servers over the
//! ACP channel itself".

use super::generation::{Generation, Greeting};
use super::restore::KeyPath;
use crate::json::Json;

/// The word of ACP v2. All others are those of the generations.
const V2: &[&str] = &["capabilities", "session", "mcp", "acp"];

fn says(result: &Json, path: &[&str]) -> bool {
    result.at(path).is_some_and(|value| value.as_str() != "false" && !value.is_null())
}

/// Does this result of `initialize` say so, in any generation's words?
pub(crate) fn takes_mcp_over_acp(result: &Json) -> bool {
    says(result, V2) || Generation::ALL.iter().any(|it| says(result, it.table().mcp_path))
}

/// The word to add to this result for a proxy of that generation, if it says so at all and not yet
/// in that word: where it stands, and what it says.
pub(crate) fn missing(result: &Json, generation: Generation) -> Option<(KeyPath, Json)> {
    let v2 = generation.greeting() == Greeting::Proxy && result.member("info").is_some();
    let (path, yes) =
        if v2 { (V2, Json::EMPTY) } else { (generation.table().mcp_path, Json::TRUE) };
    (takes_mcp_over_acp(result) && !says(result, path)).then_some((path, yes))
}

#[cfg(test)]
mod tests {
    use super::super::restore::restored;
    use super::*;

    #[test]
    fn the_capability_is_said_in_the_words_of_each_generation() {
        let plain = Json::trusted(r#"{"protocolVersion":1,"agentCapabilities":{"x":1.10}}"#);
        for hears in Generation::ALL {
            assert_eq!(missing(&plain, hears), None, "nothing to say, nothing said");
            for says in Generation::ALL {
                let said = plain.with_at(says.table().mcp_path, Some(&Json::TRUE));
                match missing(&said, hears) {
                    None => assert_eq!(says.table().mcp_path, hears.table().mcp_path),
                    Some((path, yes)) => {
                        let told = said.with_at(path, Some(&yes));
                        assert_eq!(missing(&told, hears), None, "{hears} hears it once");
                        assert_eq!(restored(&told, &said, &[path]), said);
                    }
                }
            }
        }
        let older = Json::trusted(r#"{"_meta":{"mcp_acp_transport":true}}"#);
        let place_of =
            |result: &Json, generation| missing(result, generation).map(|(path, _)| path);
        assert_eq!(place_of(&older, Generation::P5), Some(Generation::P5.table().mcp_path));
        let v2 = Json::trusted(r#"{"info":{},"_meta":{"mcp_acp_transport":true}}"#);
        let (path, yes) = missing(&v2, Generation::P5).unwrap();
        let heard = v2.with_at(path, Some(&yes)).to_string();
        assert!(heard.contains(r#""session":{"mcp":{"acp":{}}}"#), "{heard}");
        let said =
            Json::trusted(r#"{"info":{},"agentCapabilities":{"mcpCapabilities":{"acp":true}}}"#);
        assert_eq!(place_of(&said, Generation::P2), Some(Generation::P2.table().mcp_path));
    }

    #[test]
    fn no_is_not_yes() {
        let no = Json::trusted(r#"{"agentCapabilities":{"mcpCapabilities":{"acp":false}}}"#);
        assert!(!takes_mcp_over_acp(&no));
    }
}
