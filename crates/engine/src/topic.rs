//! What the core knows of ACP beside the topics of [`acp_wire::acp`].

use acp_wire::{Call, Id, Json};

pub use acp_wire::acp::{PROMPT, SessionId, Topic, session_of, session_of_call, topic};

/// Whether this is the id of a request that the core itself has sent.
pub fn is_lesson(id: &Id) -> bool {
    id.text().is_some_and(|id| id.starts_with("r:"))
}

/// How an agent that is started again can be told to take a session up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resumption {
    Resume,
    /// It repeats what was said.
    Load,
}

impl Resumption {
    /// What the result of `initialize` offers.
    pub fn offered(result: &Json) -> Option<Resumption> {
        let is_set = |path: &[&str]| {
            result.at(path).is_some_and(|value| !value.is_null() && value.as_str() != "false")
        };
        let resume = [
            &["agentCapabilities", "sessionCapabilities", "resume"][..],
            &["capabilities", "session", "resume"][..],
        ];
        if resume.into_iter().any(is_set) {
            return Some(Resumption::Resume);
        }
        is_set(&["agentCapabilities", "loadSession"]).then_some(Resumption::Load)
    }

    /// The request that takes up a session which was set up with this call.
    pub fn call(self, set_up: &Call, session: &SessionId) -> Call {
        let method = match self {
            Resumption::Resume => "session/resume",
            Resumption::Load => "session/load",
        };
        let params = set_up.params.clone().unwrap_or(Json::EMPTY);
        let params = params.with_at(&["sessionId"], Some(&session.json()));
        // Whoever has the session has its history.
        let params = params.with_at(&["replayFrom"], None);
        Call { method: method.into(), params: Some(params), extras: set_up.extras.clone() }
    }
}

/// Is this an update of what *is* in a session, not of what was said in it?
pub fn is_state(update: &Json) -> bool {
    let kind = update.at(&["update", "sessionUpdate"]);
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
    fn an_agent_says_how_it_takes_sessions_up() {
        let offered = |text: &str| Resumption::offered(&Json::trusted(text.to_owned()));
        let both =
            r#"{"agentCapabilities":{"loadSession":true,"sessionCapabilities":{"resume":{}}}}"#;
        assert_eq!(offered(both), Some(Resumption::Resume));
        assert_eq!(
            offered(r#"{"agentCapabilities":{"loadSession":true}}"#),
            Some(Resumption::Load)
        );
        assert_eq!(
            offered(r#"{"capabilities":{"session":{"resume":{}}}}"#),
            Some(Resumption::Resume)
        );
        assert_eq!(offered(r#"{"agentCapabilities":{"loadSession":false}}"#), None);
        assert_eq!(offered("{}"), None);
    }

    #[test]
    fn what_set_a_session_up_takes_it_up_again() {
        let params = Json::trusted(r#"{"cwd":"/w","mcpServers":[],"big":12345678901234567890}"#);
        let call =
            Resumption::Load.call(&Call::new("session/new", params), &SessionId::from("s 1"));
        assert_eq!(call.method.name(), "session/load");
        let text = call.params.unwrap();
        assert_eq!(text.member("sessionId").unwrap().as_str(), r#""s 1""#);
        assert_eq!(text.member("big").unwrap().as_str(), "12345678901234567890");
    }

    /// What is said in a session is not repeated to a component that takes the session up.
    #[test]
    fn updates_of_what_is_are_told_from_updates_of_what_was_said() {
        let update = |kind: &str| {
            Json::trusted(format!(r#"{{"sessionId":"s","update":{{"sessionUpdate":"{kind}"}}}}"#))
        };
        for kind in ["available_commands_update", "current_mode_update", "session_info_update"] {
            assert!(is_state(&update(kind)), "{kind}");
        }
        for kind in ["agent_message_chunk", "tool_call", "plan", ""] {
            assert!(!is_state(&update(kind)), "{kind}");
        }
        assert!(!is_state(&Json::EMPTY));
    }
}
