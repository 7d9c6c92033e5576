//! What the rules cannot stop, for each agent.
//!
//! An agent that asks can be stopped at its question, and an agent that uses the files and terminals of the editor can
//! be stopped there. What an agent does itself without asking passes no component.

use acp_proxy::Json;

use component_base::agents::AgentKind;

/// What an agent does without asking, in its default configuration.
pub(super) fn without_asking(agent: AgentKind) -> &'static str {
    match agent {
        AgentKind::ClaudeAgent => {
            "claude-agent-acp reads files and runs read-only commands without asking"
        }
        AgentKind::ClaudeCode => "claude-code-acp reads files without asking",
        AgentKind::Codex => {
            "codex runs everything that its sandbox allows without asking, also commands such as git push"
        }
        AgentKind::Gemini => "gemini reads files and runs harmless commands without asking",
        AgentKind::Qwen => "qwen reads and writes files and runs harmless commands without asking",
        AgentKind::OpenCode => {
            "opencode runs everything without asking, unless its own configuration says ask"
        }
        AgentKind::Goose => {
            "goose runs everything without asking in its mode auto; set GOOSE_MODE=approve"
        }
        AgentKind::Copilot => "copilot reads files without asking",
        AgentKind::Kimi => "kimi reads files without asking",
        AgentKind::Vibe => "vibe reads and writes files and runs commands without asking",
        AgentKind::Hermes => "hermes runs commands and MCP tools without asking",
        AgentKind::Other => "what this agent does without asking is not known",
    }
}

/// Which files and terminals an agent uses through the editor, if the editor offers them. Rules decide about those.
pub(super) fn through_editor(agent: AgentKind) -> Option<&'static str> {
    match agent {
        AgentKind::Goose | AgentKind::Kimi | AgentKind::ClaudeCode => {
            Some("it reads and writes files and runs commands through editors that offer it")
        }
        AgentKind::Qwen => Some("it reads and writes files through editors that offer it"),
        AgentKind::Gemini => Some("it reads files through editors that offer it"),
        _ => None,
    }
}

/// What the editor offers to the agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct EditorOffer {
    pub(super) reads: bool,
    pub(super) writes: bool,
    pub(super) terminals: bool,
}

impl EditorOffer {
    /// Reads the parameters of `initialize`.
    pub(super) fn of(params: &Json) -> EditorOffer {
        let is = |path: &[&str]| {
            let path: Vec<&str> = ["clientCapabilities"].iter().chain(path).copied().collect();
            params.at(&path).is_some_and(|it| it.as_bytes() == b"true")
        };
        EditorOffer {
            reads: is(&["fs", "readTextFile"]),
            writes: is(&["fs", "writeTextFile"]),
            terminals: is(&["terminal"]),
        }
    }

    pub(super) fn is_whole(self) -> bool {
        self.reads && self.writes && self.terminals
    }
}

/// Lines for `conductor status`.
pub(super) fn lines(agent: AgentKind, offer: EditorOffer) -> Vec<String> {
    let mut lines = vec![format!("cannot stop: {}", without_asking(agent))];
    if let Some(through) = through_editor(agent) {
        let rest = match offer.is_whole() {
            true => "; this editor does, so rules decide about these",
            false => "; this editor does not offer all of it, so the agent does the rest itself",
        };
        lines.push(format!("{through}{rest}"));
    }
    lines
}
