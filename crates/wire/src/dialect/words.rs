//! A capability that every generation has another word for: "this agent takes MCP servers over the
//! ACP channel itself".

use super::generation::{Generation, Greeting};
use crate::json::Json;

/// ACP v1 and v2, as P5 has it.
const V1: &[&str] = &["agentCapabilities", "mcpCapabilities", "acp"];
const V2: &[&str] = &["capabilities", "session", "mcp", "acp"];
/// As published components of P4 and P3 have it.
const SYMPOSIUM: &[&str] = &["agentCapabilities", "_meta", "symposium", "mcp_acp_transport"];
/// As the SACP overview's other implementation has it.
const CAPABILITIES: &[&str] = &["capabilities", "mcp_acp_transport"];
/// As the older documents have it.
const META: &[&str] = &["_meta", "mcp_acp_transport"];

const ALL: [&[&str]; 5] = [V1, V2, SYMPOSIUM, CAPABILITIES, META];

fn says(result: &Json, place: &[&str]) -> bool {
    result.at(place).is_some_and(|value| value.as_str() != "false" && !value.is_null())
}

/// Does this result of `initialize` say so, in any generation's words?
pub(crate) fn takes_mcp_over_acp(result: &Json) -> bool {
    ALL.iter().any(|place| says(result, place))
}

/// The same result with the word that a proxy of this generation looks for, if it says so at all.
pub(crate) fn translated(result: &Json, generation: &Generation) -> Json {
    let v2 = result.member("info").is_some();
    let (place, yes) = match (generation.greeting, generation.name) {
        (Greeting::Proxy, _) if v2 => (V2, Json::EMPTY),
        (Greeting::Proxy, _) => (V1, Json::TRUE),
        (_, "P4" | "P3") => (SYMPOSIUM, Json::TRUE),
        (_, "P3t") => (CAPABILITIES, Json::TRUE),
        _ => (META, Json::TRUE),
    };
    if takes_mcp_over_acp(result) && !says(result, place) {
        result.with_at(place, Some(&yes))
    } else {
        result.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_capability_is_said_in_the_words_of_each_generation() {
        let plain = Json::trusted(r#"{"protocolVersion":1,"agentCapabilities":{"x":1.10}}"#);
        for generation in super::super::generation::ALL {
            assert_eq!(translated(&plain, generation), plain, "nothing to say, nothing said");
            for place in [V1, SYMPOSIUM, CAPABILITIES, META] {
                let said = plain.with_at(place, Some(&Json::TRUE));
                let heard = translated(&said, generation);
                assert!(says(&heard, place), "what was said stays");
                let again = translated(&heard, generation);
                assert_eq!(again, heard, "{} hears it once", generation.name);
            }
        }
        let word = |name| {
            let said = plain.with_at(META, Some(&Json::TRUE));
            translated(&said, Generation::named(name).unwrap()).to_string()
        };
        assert!(word("P5").contains(r#""mcpCapabilities":{"acp":true}"#));
        assert!(word("P3").contains(r#""symposium":{"mcp_acp_transport":true}"#));
        let v2 = Json::trusted(r#"{"info":{},"_meta":{"mcp_acp_transport":true}}"#);
        let heard = translated(&v2, Generation::named("P5").unwrap()).to_string();
        assert!(heard.contains(r#""session":{"mcp":{"acp":{}}}"#), "{heard}");
    }

    #[test]
    fn no_is_not_yes() {
        let no = Json::trusted(r#"{"agentCapabilities":{"mcpCapabilities":{"acp":false}}}"#);
        assert!(!takes_mcp_over_acp(&no));
    }
}
