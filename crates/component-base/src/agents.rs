//! The agents whose messages differ from the schema or from each other. An agent is known by the `agentInfo` (in ACP
//! version 2 `info`) of its answer to `initialize`.

use std::sync::{Arc, RwLock};

use acp_proxy::{Json, Message, Outcome, Proxy, Side};

/// The program of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AgentKind {
    /// claude-agent-acp.
    ClaudeAgent,
    /// claude-code-acp, the predecessor of claude-agent-acp.
    ClaudeCode,
    /// codex-acp.
    Codex,
    /// Gemini CLI.
    Gemini,
    /// Qwen Code.
    Qwen,
    /// OpenCode.
    OpenCode,
    /// goose.
    Goose,
    /// GitHub Copilot CLI.
    Copilot,
    /// Kimi CLI.
    Kimi,
    /// Mistral Vibe.
    Vibe,
    /// Hermes.
    Hermes,
    /// Any other agent, or not known yet.
    #[default]
    Other,
}

/// Parts of names, in the order in which they are tried.
const NAMES: [(&str, AgentKind); 11] = [
    ("claude-agent", AgentKind::ClaudeAgent),
    ("claude-code", AgentKind::ClaudeCode),
    ("codex", AgentKind::Codex),
    ("gemini", AgentKind::Gemini),
    ("qwen", AgentKind::Qwen),
    ("opencode", AgentKind::OpenCode),
    ("goose", AgentKind::Goose),
    ("copilot", AgentKind::Copilot),
    ("kimi", AgentKind::Kimi),
    ("vibe", AgentKind::Vibe),
    ("hermes", AgentKind::Hermes),
];

impl AgentKind {
    /// The kind of the agent with this `agentInfo.name`.
    pub fn of_name(name: &str) -> AgentKind {
        let name = name.to_lowercase();
        let found = NAMES.iter().find(|(part, _)| name.contains(part));
        found.map_or(AgentKind::Other, |(_, kind)| *kind)
    }
}

/// What an agent says about itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AgentInfo {
    /// Its kind.
    pub kind: AgentKind,
    /// Its name. Empty if it has none.
    pub name: String,
    /// Its version. Empty if it has none.
    pub version: String,
}

impl AgentInfo {
    /// The names by which rules may call the agent: the one that it reports, and that of its kind, such as `goose`.
    pub fn names(&self) -> Vec<String> {
        let of_kind = NAMES.iter().find(|(_, kind)| *kind == self.kind).map(|(name, _)| *name);
        let names = [Some(self.name.as_str()).filter(|it| !it.is_empty()), of_kind];
        names.into_iter().flatten().map(str::to_owned).collect()
    }

    /// Reads the answer to `initialize`.
    pub fn of_answer(answer: &Json) -> AgentInfo {
        // ACP version 1 and 2.
        let about = answer.member("agentInfo").or_else(|| answer.member("info"));
        let text = |key| Some(about.as_ref()?.member(key)?.text()?.into_owned());
        let name: String = text("name").unwrap_or_default();
        AgentInfo {
            kind: AgentKind::of_name(&name),
            name,
            version: text("version").unwrap_or_default(),
        }
    }
}

/// The agent of a chain, as soon as it has answered `initialize`. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct KnownAgent(Arc<RwLock<AgentInfo>>);

impl KnownAgent {
    /// What the agent has said about itself. Empty before it has answered.
    pub fn info(&self) -> AgentInfo {
        self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    /// The kind of the agent.
    pub fn kind(&self) -> AgentKind {
        self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner).kind
    }

    /// Adds an observer to a proxy that reads the agent's answer to `initialize`.
    pub fn watch(&self, proxy: Proxy) -> Proxy {
        let (agent, mut request) = (self.clone(), None);
        proxy.observe(move |from, message| match message {
            Message::Request { id, call } if from == Side::Editor && call.is("initialize") => {
                request = Some(id.detached());
            }
            Message::Response { id, outcome, .. }
                if from == Side::Agent && request.as_ref() == Some(id) =>
            {
                request = None;
                if let Outcome::Result(answer) = outcome {
                    let info = AgentInfo::of_answer(answer);
                    *agent.0.write().unwrap_or_else(std::sync::PoisonError::into_inner) = info;
                }
            }
            _ => {}
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_are_known_by_their_names() {
        for (name, kind) in [
            ("@agentclientprotocol/claude-agent-acp", AgentKind::ClaudeAgent),
            ("@zed-industries/claude-code-acp", AgentKind::ClaudeCode),
            ("codex-acp", AgentKind::Codex),
            ("gemini-cli", AgentKind::Gemini),
            ("Qwen Code", AgentKind::Qwen),
            ("goose", AgentKind::Goose),
            ("my agent", AgentKind::Other),
            ("", AgentKind::Other),
        ] {
            assert_eq!(AgentKind::of_name(name), kind, "{name}");
        }
    }

    #[test]
    fn the_agent_describes_itself_in_both_versions_of_acp() {
        for member in ["agentInfo", "info"] {
            let answer = format!(r#"{{"{member}":{{"name":"goose","version":"1.52.0"}}}}"#);
            let info = AgentInfo::of_answer(&Json::parse(answer).expect("JSON"));
            assert_eq!((info.kind, info.version.as_str()), (AgentKind::Goose, "1.52.0"));
        }
        let unknown = AgentInfo::of_answer(&Json::parse("{}".to_owned()).expect("JSON"));
        assert_eq!(unknown, AgentInfo::default());
    }
}
