//! A hook: what it runs, and when.

use std::collections::BTreeMap;
use std::time::Duration;

use acp_wire::printable;

use crate::hooks::event::{Contract, Event};
use crate::hooks::matcher::Matcher;

/// What a hook runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum HookAction {
    Command { command: String, args: Option<Vec<String>>, shell: Option<String> },
    Http { url: hyper::Uri, headers: BTreeMap<String, String>, allowed_env_vars: Vec<String> },
}

/// A hook that can run.
#[derive(Debug, Clone)]
pub(crate) struct Hook {
    pub(crate) event: Event,
    pub(crate) matcher: Matcher,
    pub(crate) contract: Contract,
    pub(crate) action: HookAction,
    pub(crate) condition: Option<String>,
    pub(crate) time: Option<Duration>,
    pub(crate) blocks_on_failure: Option<bool>,
    pub(crate) once: bool,
    pub(crate) is_async: bool,
    /// The file and line, for messages.
    pub(crate) place: String,
}

impl Hook {
    /// How much the hook can stop. Of two hooks with the same command, the stricter one runs.
    pub(crate) fn strictness(&self) -> (bool, Option<bool>) {
        // A hook without `onFailure` follows the option, so it is between `continue` and `block`.
        let on_failure = match self.blocks_on_failure {
            Some(false) => None,
            None => Some(false),
            Some(true) => Some(true),
        };
        (!self.is_async, on_failure)
    }

    /// Whether two hooks run the same thing.
    pub(crate) fn has_same_action(&self, other: &Hook) -> bool {
        match (&self.action, &other.action) {
            (
                HookAction::Command { command, args, .. },
                HookAction::Command { command: other, args: other_args, .. },
            ) => command.trim() == other.trim() && args == other_args,
            (HookAction::Http { url, .. }, HookAction::Http { url: other, .. }) => url == other,
            _ => false,
        }
    }

    /// Whether an agent that runs the other hook itself need not run this one.
    pub(crate) fn is_done_by(&self, other: &Hook) -> bool {
        self.event == other.event
            && self.matcher == other.matcher
            && self.condition == other.condition
            && self.has_same_action(other)
            && self.strictness() <= other.strictness()
    }

    /// Distinguishes the hook from others.
    pub(crate) fn key(&self) -> String {
        format!("{} {}", self.place, self.label())
    }

    /// The command or address, shortened and without secrets, for messages.
    pub(crate) fn label(&self) -> String {
        let text = match &self.action {
            HookAction::Command { command, args: None, .. } => command.clone(),
            HookAction::Command { command, args: Some(args), .. } => {
                format!("{command} {}", args.join(" "))
            }
            HookAction::Http { url, .. } => url.to_string(),
        };
        let text = secrets::Secrets::standard().redact(&text);
        let short: String = text.chars().take(80).collect();
        let cut = if short.len() < text.len() { "…" } else { "" };
        format!("{}{cut}", printable::one_line(&short))
    }
}
