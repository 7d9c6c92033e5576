//! The events of hooks, and which of them ACP can drive.

use std::time::Duration;

/// An event that runs hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Event {
    SessionStart,
    UserPromptSubmit,
    PreToolUse,
    PermissionRequest,
    PostToolUse,
    PostToolUseFailure,
    Notification,
    Stop,
    StopFailure,
    PreCompact,
    PostCompact,
    SessionEnd,
    Interrupt,
}

/// What a name in a settings file stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NamedEvent {
    /// ACP has messages that drive the event.
    Driven(Event),
    /// A known event that no message of ACP drives.
    NotDriven,
    Unknown,
}

/// The rules that a script is written for. They differ in details.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Contract {
    Claude,
    Codex,
}

const DRIVEN: [Event; 13] = [
    Event::SessionStart,
    Event::UserPromptSubmit,
    Event::PreToolUse,
    Event::PermissionRequest,
    Event::PostToolUse,
    Event::PostToolUseFailure,
    Event::Notification,
    Event::Stop,
    Event::StopFailure,
    Event::PreCompact,
    Event::PostCompact,
    Event::SessionEnd,
    Event::Interrupt,
];

/// Events of Claude Code and Codex that happen inside an agent.
const NOT_DRIVEN: [&str; 22] = [
    "PostToolBatch",
    "UserPromptExpansion",
    "SubagentStart",
    "SubagentStop",
    "PreModelRequest",
    "PreModelSwitch",
    "PostModelSwitch",
    "PermissionDenied",
    "Setup",
    "TeammateIdle",
    "TaskCreated",
    "TaskCompleted",
    "Elicitation",
    "ElicitationResult",
    "ConfigChange",
    "WorktreeCreate",
    "WorktreeRemove",
    "InstructionsLoaded",
    "CwdChanged",
    "FileChanged",
    "DirectoryAdded",
    "MessageDisplay",
];

impl Event {
    /// The event with this name.
    pub(crate) fn named(name: &str) -> NamedEvent {
        match DRIVEN.iter().find(|event| event.name() == name) {
            Some(event) => NamedEvent::Driven(*event),
            None if NOT_DRIVEN.contains(&name) => NamedEvent::NotDriven,
            None => NamedEvent::Unknown,
        }
    }

    /// Its name in settings files and in the input of scripts.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Event::SessionStart => "SessionStart",
            Event::UserPromptSubmit => "UserPromptSubmit",
            Event::PreToolUse => "PreToolUse",
            Event::PermissionRequest => "PermissionRequest",
            Event::PostToolUse => "PostToolUse",
            Event::PostToolUseFailure => "PostToolUseFailure",
            Event::Notification => "Notification",
            Event::Stop => "Stop",
            Event::StopFailure => "StopFailure",
            Event::PreCompact => "PreCompact",
            Event::PostCompact => "PostCompact",
            Event::SessionEnd => "SessionEnd",
            Event::Interrupt => "Interrupt",
        }
    }

    /// The names of all events that ACP can drive.
    pub(crate) const NAMES: [&'static str; 13] = {
        let (mut names, mut index) = ([""; 13], 0);
        while index < names.len() {
            names[index] = DRIVEN[index].name();
            index += 1;
        }
        names
    };

    /// Whether the event is about a tool call. Its matchers are compared with the name of the tool.
    pub(crate) fn is_about_tool(self) -> bool {
        matches!(
            self,
            Event::PreToolUse
                | Event::PermissionRequest
                | Event::PostToolUse
                | Event::PostToolUseFailure
        )
    }

    /// Whether the event has matchers. The hooks of other events always run.
    pub(crate) fn has_matcher(self) -> bool {
        !matches!(self, Event::UserPromptSubmit | Event::Stop | Event::Interrupt)
    }

    /// Whether a hook of this event decides whether something happens. `strict` blocks if such a hook fails.
    pub(crate) fn is_guard(self) -> bool {
        matches!(self, Event::PreToolUse | Event::PermissionRequest | Event::UserPromptSubmit)
    }

    /// How long a hook may run that has no time limit of its own.
    pub(crate) fn default_time(self, contract: Contract) -> Duration {
        match (self, contract) {
            (Event::SessionEnd, Contract::Claude) => Duration::from_millis(1500),
            (Event::SessionEnd, Contract::Codex) => Duration::from_secs(1),
            (Event::UserPromptSubmit, Contract::Claude) => Duration::from_secs(30),
            _ => Duration::from_secs(600),
        }
    }

    /// The longest time limit that a hook of this event may set. `None` if the contract has none.
    pub(crate) fn longest_time(self, contract: Contract) -> Option<Duration> {
        match (self, contract) {
            (Event::SessionEnd, Contract::Claude) => Some(Duration::from_secs(60)),
            (Event::SessionEnd, Contract::Codex) => Some(Duration::from_secs(3)),
            _ => None,
        }
    }
}

/// How long a hook in the background may run that has no time limit of its own.
pub(crate) const BACKGROUND_TIME: Duration = Duration::from_secs(15);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_event_is_found_by_its_name() {
        for event in DRIVEN {
            assert_eq!(Event::named(event.name()), NamedEvent::Driven(event));
            assert!(!NOT_DRIVEN.contains(&event.name()));
        }
        assert_eq!(Event::named("SubagentStop"), NamedEvent::NotDriven);
        assert_eq!(Event::named("PreToolUsed"), NamedEvent::Unknown);
        assert_eq!(Event::named("pretooluse"), NamedEvent::Unknown);
    }
}
