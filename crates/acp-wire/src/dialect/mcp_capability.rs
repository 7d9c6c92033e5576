//! The capability "supports MCP servers over the ACP channel", which each generation has at another path.

use super::generation::{Generation, Greeting};
use super::offer::is_set;
use super::restore::KeyPath;
use crate::json::Json;

/// The path in ACP v2. The other paths are in the tables of the generations.
const V2: &[&str] = &["capabilities", "session", "mcp", "acp"];

/// Whether this result of `initialize` has the capability, in the spelling of any generation.
pub(crate) fn supports_mcp_over_acp(result: &Json) -> bool {
    is_set(result, V2) || Generation::ALL.iter().any(|it| is_set(result, it.table().mcp_path))
}

/// The path and value to add to this result for a proxy of this generation. `None` if the result does not
/// have the capability, or already has it at that path.
pub(crate) fn missing_path(result: &Json, generation: Generation) -> Option<(KeyPath, Json)> {
    let v2 = generation.greeting() == Greeting::Proxy && result.member("info").is_some();
    let (path, yes) =
        if v2 { (V2, Json::EMPTY_OBJECT) } else { (generation.table().mcp_path, Json::TRUE) };
    (supports_mcp_over_acp(result) && !is_set(result, path)).then_some((path, yes))
}

#[cfg(test)]
mod tests {
    use super::super::restore::restored;
    use super::*;

    #[test]
    fn the_capability_is_translated_to_the_path_of_each_generation() {
        let plain = Json::trusted(r#"{"protocolVersion":1,"agentCapabilities":{"x":1.10}}"#);
        for reader in Generation::ALL {
            assert_eq!(
                missing_path(&plain, reader),
                None,
                "nothing is added without the capability"
            );
            for writer in Generation::ALL {
                let original = plain.with_at(writer.table().mcp_path, Some(&Json::TRUE));
                match missing_path(&original, reader) {
                    None => assert_eq!(writer.table().mcp_path, reader.table().mcp_path),
                    Some((path, yes)) => {
                        let added = original.with_at(path, Some(&yes));
                        assert_eq!(
                            missing_path(&added, reader),
                            None,
                            "{reader}: it is added once"
                        );
                        assert_eq!(restored(&added, &original, &[path]), original);
                    }
                }
            }
        }
        let older = Json::trusted(r#"{"_meta":{"mcp_acp_transport":true}}"#);
        let path_of =
            |result: &Json, generation| missing_path(result, generation).map(|(path, _)| path);
        assert_eq!(path_of(&older, Generation::P5), Some(Generation::P5.table().mcp_path));
        let v2 = Json::trusted(r#"{"info":{},"_meta":{"mcp_acp_transport":true}}"#);
        let (path, yes) = missing_path(&v2, Generation::P5).unwrap();
        let text = v2.with_at(path, Some(&yes)).to_string();
        assert!(text.contains(r#""session":{"mcp":{"acp":{}}}"#), "{text}");
        let v1 =
            Json::trusted(r#"{"info":{},"agentCapabilities":{"mcpCapabilities":{"acp":true}}}"#);
        assert_eq!(path_of(&v1, Generation::P2), Some(Generation::P2.table().mcp_path));
    }

    #[test]
    fn false_does_not_count_as_support() {
        let no = Json::trusted(r#"{"agentCapabilities":{"mcpCapabilities":{"acp":false}}}"#);
        assert!(!supports_mcp_over_acp(&no));
    }
}
