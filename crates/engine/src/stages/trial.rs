//! Components that a reload has started and that have not been live since: they are *on trial*.
//!
//! The chain has worked without such a component, or with its previous configuration. So its failure policy does not apply
//! yet. If it ends, it is started once more for each greeting that it may understand instead. Then a component that has
//! joined the chain is removed again, also if it is a guard. One whose configuration has changed gets its previous
//! configuration again.
//!
//! An agent must also resume all sessions: the new program may be another one.

use std::collections::BTreeMap;

use acp_wire::{Json, Outcome};
use router::{Component, Exit, ExitCause, Recovery, Seat, SeatState};

use super::Stages;
use super::failure::FailureDecision;
use crate::input::{Output, Reload};
use crate::policy::ComponentPolicy;
use crate::stage_io::StageOutput;

/// How deep capabilities are compared.
const MAX_DEPTH: usize = 4;

/// The components that are on trial.
#[derive(Debug, Default)]
pub(super) struct Trials(BTreeMap<Seat, Trial>);

/// A component that is on trial.
#[derive(Debug)]
pub(super) struct Trial {
    /// What it was before. `None` if it has joined the chain.
    before: Option<Before>,
    /// Whether it may understand another greeting than the one on which it has ended.
    can_retry: bool,
}

/// What a component was before its configuration changed.
#[derive(Debug)]
struct Before {
    component: Component,
    policy: Option<ComponentPolicy>,
    /// Its answer to `initialize`.
    answer: Option<Json>,
}

impl Trials {
    /// A component is live, or has been removed.
    pub(super) fn remove(&mut self, seat: Seat) -> Option<Trial> {
        self.0.remove(&seat)
    }
}

impl Trial {
    pub(super) fn has_joined(&self) -> bool {
        self.before.is_none()
    }
}

impl Stages {
    /// A component that joins the chain is on trial from now on.
    pub(super) fn begin_trial(&mut self, seat: Seat) {
        self.trials.0.insert(seat, Trial { before: None, can_retry: false });
    }

    /// A component is on trial, because its configuration changes. The stages have its previous one.
    pub(super) fn begin_trial_of_change(&mut self, seat: Seat) {
        let Some(component) = self.router.chain().component(seat).cloned() else { return };
        let policy = self.rules.policies.get(seat.index() - 1).copied();
        let answer = match self.router.handshake(seat).and_then(|it| it.answer.as_ref()) {
            Some(Outcome::Result(result)) => Some(result.clone()),
            _ => None,
        };
        let before = Some(Before { component, policy, answer });
        self.trials.0.insert(seat, Trial { before, can_retry: false });
    }

    /// A component has ended. `can_retry` says whether there is a greeting that it has not been sent.
    pub(crate) fn set_can_retry(&mut self, seat: Seat, can_retry: bool) {
        if let Some(trial) = self.trials.0.get_mut(&seat) {
            trial.can_retry = can_retry;
        }
    }

    /// Decides what to do about a component that has failed, if it is on trial.
    pub(super) fn decide_on_trial(&mut self, seat: Seat, why: &Exit) -> Option<FailureDecision> {
        let is_ending = self.router.is_ending();
        let trial = self.trials.0.get_mut(&seat).filter(|_| !is_ending)?;
        let can_retry = std::mem::take(&mut trial.can_retry);
        let is_final = matches!(
            why.cause,
            ExitCause::NotStarted(_)
                | ExitCause::InitializeTimeout(_)
                | ExitCause::RefusedInitialize(_)
                | ExitCause::ByCommand
        );
        Some(match trial.before {
            _ if can_retry && !is_final => FailureDecision::Restart { delay: 0 },
            Some(_) => FailureDecision::Revert,
            None => FailureDecision::Bypass,
        })
    }

    /// A component gets its previous configuration again, and is restarted with it.
    pub(super) fn revert(&mut self, seat: Seat, why: Exit) {
        let Some(before) = self.trials.remove(seat).and_then(|it| it.before) else { return };
        let reason = format!("it {}{}", why.description(), why.quoted_reason());
        self.cx.out.push(StageOutput::Revert { seat, why: reason });
        self.router.replace_component(seat, before.component);
        if let (Some(old), Some(policy)) =
            (before.policy, self.rules.policies.get_mut(seat.index() - 1))
        {
            *policy = old;
        }
        self.poison.forget_pending(seat);
        let recovery = Recovery::Restart { at: self.cx.now, attempts: 0 };
        let consequence = "gets its previous configuration again";
        self.replace_with(seat, why, (recovery, consequence), None);
    }

    /// The components on trial that a newer configuration removes or changes. They need not become live any more.
    pub(crate) fn superseded(&self, reload: &Reload) -> Vec<Seat> {
        let is_kept =
            |seat: &Seat| reload.chain.contains(*seat) && !reload.restarted.contains(seat);
        self.trials.0.keys().copied().filter(|seat| !is_kept(seat)).collect()
    }

    /// Ends components on trial for which there is a newer configuration.
    pub(super) fn on_superseded(&mut self, seats: &[Seat]) {
        for seat in seats {
            self.quietly(|stages| stages.on_ended(*seat, Exit::new(ExitCause::ByCommand)));
        }
    }

    /// An agent that is on trial cannot continue a session: it gets its previous configuration again. Returns whether it is
    /// on trial.
    pub(super) fn fail_trial_of_agent(&mut self, seat: Seat, why: String) -> bool {
        let is_on_trial = self.is_agent(seat) && self.trials.0.contains_key(&seat);
        if is_on_trial {
            self.set_can_retry(seat, false);
            self.on_ended(seat, Exit::new(ExitCause::CannotResume(why)));
        }
        is_on_trial
    }

    /// A component is live with its new configuration. The editor does not learn that an agent can do less than before.
    pub(super) fn end_trial(&mut self, seat: Seat) -> Option<Trial> {
        let trial = self.trials.remove(seat)?;
        let old = trial.before.as_ref().and_then(|it| it.answer.as_ref());
        let new = self.router.handshake(seat).and_then(|it| it.answer.as_ref());
        if let (Some(old), Some(Outcome::Result(new)), true) = (old, new, self.is_agent(seat)) {
            let lost = lost_capabilities(old, new);
            if !lost.is_empty() {
                let text = format!(
                    "{} can no longer do this, and the editor learns it only when the chain is started again: {}",
                    self.router.chain().describe(seat),
                    lost.join(", ")
                );
                self.cx.push(Output::ReloadNote(text));
            }
        }
        Some(trial)
    }

    /// Ends the components that a configuration removes or restarts and that are not idle, without waiting for them.
    pub(super) fn on_hurry(&mut self, reload: &Reload) {
        for seat in self.router.chain().seats().collect::<Vec<_>>() {
            let is_live = matches!(self.router.state(seat), Some(SeatState::Live { .. }));
            if !is_live || self.is_idle_component(seat) || self.gate.held(seat).0 > 0 {
                continue;
            }
            let why = Exit::new(ExitCause::ByCommand);
            if !reload.chain.contains(seat) {
                self.bypass(seat, why);
            } else if reload.restarted.contains(&seat) {
                self.poison.forget_pending(seat);
                let recovery = Recovery::Restart { at: self.cx.now, attempts: 0 };
                self.replace(seat, why, recovery, None);
            }
        }
    }
}

/// The capabilities in an answer to `initialize` that a later answer does not have.
fn lost_capabilities(old: &Json, new: &Json) -> Vec<String> {
    let mut lost = Vec::new();
    let mut open: Vec<(String, Json, Option<Json>, usize)> = ["agentCapabilities", "capabilities"]
        .into_iter()
        .filter_map(|name| Some((String::new(), old.member(name)?, new.member(name), 0)))
        .collect();
    while let Some((path, old, new, depth)) = open.pop() {
        if is_off(&old) {
            continue;
        }
        let new = new.filter(|it| !is_off(it));
        let members = if old.is_object() { old.members() } else { Vec::new() };
        if members.is_empty() || depth == MAX_DEPTH {
            lost.extend(new.is_none().then_some(path).filter(|path| !path.is_empty()));
            continue;
        }
        for (name, value) in members.into_iter().filter(|(name, _)| name != "_meta") {
            let inner = match path.as_str() {
                "" => name.clone(),
                path => format!("{path}.{name}"),
            };
            open.push((inner, value, new.as_ref().and_then(|it| it.member(&name)), depth + 1));
        }
    }
    lost.sort();
    lost
}

/// Whether the value of a capability means that there is none: also if it has only such members.
fn is_off(value: &Json) -> bool {
    let is_false = |it: &Json| it.is_null() || it.as_str() == "false";
    let members = if value.is_object() { value.members() } else { Vec::new() };
    is_false(value) || (!members.is_empty() && members.iter().all(|(_, it)| is_false(it)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_that_are_gone_are_named() {
        let lost = |old: &str, new: &str| {
            lost_capabilities(&Json::trusted(old.to_owned()), &Json::trusted(new.to_owned()))
        };
        let old = r#"{"agentCapabilities":{"loadSession":true,"promptCapabilities":{"image":true,"audio":false},"mcpCapabilities":{"http":false},"sessionCapabilities":{"resume":{},"list":{}},"_meta":{"x":true}}}"#;
        assert_eq!(lost(old, old), [""; 0]);
        assert_eq!(
            lost(
                old,
                r#"{"agentCapabilities":{"loadSession":false,"sessionCapabilities":{"list":null,"resume":{}}}}"#
            ),
            ["loadSession", "promptCapabilities.image", "sessionCapabilities.list"]
        );
        assert_eq!(lost(r#"{"capabilities":{"session":{}}}"#, "{}"), ["session"]);
        assert_eq!(lost(r#"{"agentCapabilities":{}}"#, "{}"), [""; 0]);
    }
}
