//! How a restarted agent resumes a session.

use acp_wire::acp::SessionId;
use acp_wire::{Call, Json};

/// The request that makes a restarted agent resume a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Resumption {
    /// `session/resume`.
    Resume,
    /// `session/load`. The agent then sends the whole history of the session again.
    Load,
}

impl Resumption {
    /// The best request that an agent supports, by its result of `initialize`.
    pub(crate) fn offered(result: &Json) -> Option<Resumption> {
        let is_set = |path: &[&str]| {
            result.at(path).is_some_and(|value| !value.is_null() && value.as_str() != "false")
        };
        let resume = [
            &["agentCapabilities", "sessionCapabilities", "resume"][..],
            // In ACP version 2, every agent with sessions supports `session/resume`.
            &["capabilities", "session"][..],
        ];
        if resume.into_iter().any(is_set) {
            return Some(Resumption::Resume);
        }
        is_set(&["agentCapabilities", "loadSession"]).then_some(Resumption::Load)
    }

    /// The call that resumes a session which was set up with the call `set_up`.
    pub(crate) fn call(self, set_up: &Call, session: &SessionId) -> Call {
        let method = match self {
            Resumption::Resume => "session/resume",
            Resumption::Load => "session/load",
        };
        let params = set_up.params.clone().unwrap_or(Json::EMPTY_OBJECT);
        let params = params.with_at(&["sessionId"], Some(&session.json()));
        // The agent need not send the history: the other components and the editor have seen it.
        let params = params.with_at(&["replayFrom"], None);
        Call { method: method.into(), params: Some(params), extras: set_up.extras.clone() }
    }
}

/// Whether these params of `session/update` report a property of the session, such as its mode, and no part of the
/// conversation.
pub(crate) fn is_metadata_update(params: &Json) -> bool {
    let kind = params.at(&["update", "sessionUpdate"]);
    let kind = kind.as_ref().and_then(Json::text);
    kind.is_some_and(|kind| {
        matches!(
            &*kind,
            "available_commands_update"
                | "current_mode_update"
                | "config_option_update"
                | "session_info_update"
                | "usage_update"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resume_is_preferred_to_load() {
        let offered = |text: &str| Resumption::offered(&Json::trusted(text.to_owned()));
        let both =
            r#"{"agentCapabilities":{"loadSession":true,"sessionCapabilities":{"resume":{}}}}"#;
        assert_eq!(offered(both), Some(Resumption::Resume));
        assert_eq!(
            offered(r#"{"agentCapabilities":{"loadSession":true}}"#),
            Some(Resumption::Load)
        );
        assert_eq!(
            offered(r#"{"protocolVersion":2,"capabilities":{"session":{}}}"#),
            Some(Resumption::Resume)
        );
        assert_eq!(offered(r#"{"protocolVersion":2,"capabilities":{"session":null}}"#), None);
        assert_eq!(offered(r#"{"agentCapabilities":{"loadSession":false}}"#), None);
        assert_eq!(offered("{}"), None);
    }

    #[test]
    fn a_session_is_loaded_with_the_params_that_set_it_up() {
        let params = Json::trusted(r#"{"cwd":"/w","mcpServers":[],"big":12345678901234567890}"#);
        let call =
            Resumption::Load.call(&Call::new("session/new", params), &SessionId::from("s 1"));
        assert_eq!(call.method.name(), "session/load");
        let text = call.params.unwrap();
        assert_eq!(text.member("sessionId").unwrap().as_str(), r#""s 1""#);
        assert_eq!(text.member("big").unwrap().as_str(), "12345678901234567890");
    }

    #[test]
    fn metadata_updates_are_distinguished_from_the_conversation() {
        let update = |kind: &str| {
            Json::trusted(format!(r#"{{"sessionId":"s","update":{{"sessionUpdate":"{kind}"}}}}"#))
        };
        for kind in ["available_commands_update", "current_mode_update", "session_info_update"] {
            assert!(is_metadata_update(&update(kind)), "{kind}");
        }
        for kind in ["agent_message_chunk", "tool_call", "plan", ""] {
            assert!(!is_metadata_update(&update(kind)), "{kind}");
        }
        assert!(!is_metadata_update(&Json::EMPTY_OBJECT));
    }
}
