//! What an agent declares about MCP in its answer to `initialize`, and how the broker changes that
//! answer.

use acp_wire::{Json, acp};

/// The capabilities of an agent that concern MCP servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AgentCapabilities {
    /// How the agent supports MCP over ACP. `None` if it does not.
    pub native: Option<NativeSupport>,
    /// The agent accepts servers over HTTP.
    pub http: bool,
    /// The agent accepts servers over stdio.
    pub stdio: bool,
    /// The agent uses ACP v2.
    pub v2: bool,
    /// The agent accepts servers with `{"type":"scp"}`.
    pub scp: bool,
    /// `agentInfo.name`, in lower case.
    pub name: String,
}

/// How an agent supports MCP over ACP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NativeSupport {
    /// The agent declares `mcpCapabilities.acp`, so it uses one of the newest forms.
    Current,
    /// The agent declares an older capability, so it uses one of the older forms.
    Older,
}

const V1: &[&str] = &["agentCapabilities", "mcpCapabilities", "acp"];
const V2: &[&str] = &["capabilities", "session", "mcp", "acp"];

/// The paths of the older capability. Old documents and programs put it in different places.
const OLDER: [&[&str]; 5] = [
    &["_meta", "mcp_acp_transport"],
    &["mcp_acp_transport"],
    &["agentCapabilities", "mcp_acp_transport"],
    &["agentCapabilities", "_meta", "symposium", "mcp_acp_transport"],
    &["capabilities", "mcp_acp_transport"],
];

/// Whether a capability is declared at this path.
fn declares(result: &Json, path: &[&str]) -> bool {
    result.at(path).is_some_and(|value| value.as_str() != "false" && !value.is_null())
}

impl AgentCapabilities {
    /// Reads the capabilities from an agent's answer to `initialize`.
    pub(crate) fn of(result: &Json) -> AgentCapabilities {
        let v2 = acp::selects_v2(result);
        let native = if declares(result, V1) || declares(result, V2) {
            Some(NativeSupport::Current)
        } else if OLDER.iter().any(|path| declares(result, path)) {
            Some(NativeSupport::Older)
        } else {
            None
        };
        let path: &[&str] = match v2 {
            true => &["capabilities", "session", "mcp"],
            false => &["agentCapabilities", "mcpCapabilities"],
        };
        let can = |kind: &str| result.at(path).is_some_and(|json| declares(&json, &[kind]));
        let name = result
            .at(&[if v2 { "info" } else { "agentInfo" }, "name"])
            .and_then(|name| name.text().map(|text| text.to_lowercase()));
        AgentCapabilities {
            native,
            http: can("http"),
            // Every v1 agent supports stdio.
            stdio: !v2 || can("stdio"),
            v2,
            scp: [&["_meta", "symposium"][..], &["agentCapabilities", "_meta", "symposium"]]
                .iter()
                .any(|path| result.at(path).is_some_and(|json| json.member("version").is_some())),
            name: name.unwrap_or_default(),
        }
    }
}

/// Declares support for MCP over ACP in an answer to `initialize`.
pub(crate) fn with_mcp_over_acp(result: &Json) -> Json {
    if acp::selects_v2(result) {
        result.with_at(V2, Some(&Json::EMPTY_OBJECT))
    } else if has_string_version(result) {
        result.with_at(OLDER[0], Some(&Json::TRUE))
    } else {
        result.with_at(V1, Some(&Json::TRUE))
    }
}

/// Whether an answer to `initialize` is of the oldest generation, in which `protocolVersion` is a
/// string.
pub(crate) fn has_string_version(result: &Json) -> bool {
    result.member("protocolVersion").is_some_and(|version| version.is_string())
}

/// Removes what [`with_mcp_over_acp`] adds to an answer of the oldest generation.
pub(crate) fn without_mcp_over_acp(result: &Json) -> Json {
    let result = result.with_at(OLDER[0], None);
    match result.member("_meta") {
        Some(meta) if meta.is_empty_object() => result.with_at(&["_meta"], None),
        _ => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn capabilities(result: &str) -> AgentCapabilities {
        AgentCapabilities::of(&Json::parse(result.to_owned()).unwrap())
    }

    #[test]
    fn the_capability_is_found_at_every_path() {
        for (result, native) in [
            (
                r#"{"agentCapabilities":{"mcpCapabilities":{"acp":true}}}"#,
                Some(NativeSupport::Current),
            ),
            (r#"{"agentCapabilities":{"mcpCapabilities":{"acp":false}}}"#, None),
            (
                r#"{"protocolVersion":2,"info":{},"capabilities":{"session":{"mcp":{"acp":{}}}}}"#,
                Some(NativeSupport::Current),
            ),
            (r#"{"_meta":{"mcp_acp_transport":true}}"#, Some(NativeSupport::Older)),
            (r#"{"mcp_acp_transport":true}"#, Some(NativeSupport::Older)),
            (
                r#"{"agentCapabilities":{"_meta":{"symposium":{"mcp_acp_transport":true}}}}"#,
                Some(NativeSupport::Older),
            ),
            (r#"{"capabilities":{"mcp_acp_transport":true}}"#, Some(NativeSupport::Older)),
            (r#"{"_meta":{"mcp_acp_transport":false}}"#, None),
            (r#"{}"#, None),
        ] {
            assert_eq!(capabilities(result).native, native, "{result}");
        }
    }

    #[test]
    fn v1_agents_support_stdio_and_v2_agents_declare_it() {
        let v1 = capabilities(
            r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"http":true}},"agentInfo":{"name":"OpenHands"}}"#,
        );
        assert!(v1.http && v1.stdio && !v1.v2 && v1.name == "openhands");
        let v2 = capabilities(
            r#"{"protocolVersion":2,"info":{"name":"X"},"capabilities":{"session":{"mcp":{"http":{}}}}}"#,
        );
        assert!(v2.http && !v2.stdio && v2.v2);
    }

    /// Checklist 74, 109.
    #[test]
    fn the_capability_is_added_and_nothing_else_changes() {
        for (result, expected) in [
            (
                r#"{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"mcpCapabilities":{"http": true}},"x":1.10}"#,
                r#"{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"mcpCapabilities":{"http": true,"acp":true}},"x":1.10}"#,
            ),
            (
                r#"{"agentCapabilities":{"mcpCapabilities":{"acp":false}}}"#,
                r#"{"agentCapabilities":{"mcpCapabilities":{"acp":true}}}"#,
            ),
            (
                r#"{"protocolVersion":1}"#,
                r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"acp":true}}}"#,
            ),
            (
                r#"{"protocolVersion":2,"info":{},"capabilities":{"session":{}}}"#,
                r#"{"protocolVersion":2,"info":{},"capabilities":{"session":{"mcp":{"acp":{}}}}}"#,
            ),
            (
                r#"{"protocolVersion":"0.1.0","capabilities":{}}"#,
                r#"{"protocolVersion":"0.1.0","capabilities":{},"_meta":{"mcp_acp_transport":true}}"#,
            ),
        ] {
            let result = Json::parse(result.to_owned()).unwrap();
            assert_eq!(with_mcp_over_acp(&result).as_str(), expected);
            assert!(AgentCapabilities::of(&with_mcp_over_acp(&result)).native.is_some());
        }
    }

    #[test]
    fn the_older_capability_is_removed_with_the_object_that_held_it() {
        for result in [
            r#"{"protocolVersion":"0.1.0"}"#,
            r#"{"protocolVersion":"0.1.0","_meta":{"t":1.10}}"#,
            r#"{"protocolVersion":"0.1.0","_meta":3}"#,
        ] {
            let result = Json::trusted(result);
            assert!(has_string_version(&result));
            let changed = with_mcp_over_acp(&result);
            if result.at(&["_meta"]).is_none_or(|meta| meta.is_object()) {
                assert_eq!(AgentCapabilities::of(&changed).native, Some(NativeSupport::Older));
                assert_eq!(without_mcp_over_acp(&changed), result);
            }
            assert_eq!(without_mcp_over_acp(&result), result);
        }
        assert!(!has_string_version(&Json::trusted(r#"{"protocolVersion":1}"#)));
    }
}
