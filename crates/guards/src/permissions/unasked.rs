//! Actions that an agent takes without asking.

use std::collections::BTreeMap;

use acp_proxy::schema::ToolCallStatus;
use acp_proxy::{Context, ToolCall};

use super::enforcer::Enforcer;
use super::records::{self, NAME, rule_name, shown};
use super::rules::Decision;
use component_base::action::Action;
use component_base::audit::{Event, Record};

/// The message with which an agent reports a tool call.
const REPORT: &str = "session/update";

/// How many rules are remembered that an agent has acted against.
const MAX_RULES: usize = 32;

/// The actions without asking in a session.
#[derive(Debug, Clone, Default)]
pub(super) struct Unasked {
    /// How many there were of each kind, and how many of them are recorded.
    counts: BTreeMap<String, (u64, u64)>,
    /// The rules against which the agent has acted, each one as the user was told.
    told: Vec<String>,
}

impl Unasked {
    /// Counts an action. Returns whether it is the first of its kind.
    fn add(&mut self, kind: &str) -> bool {
        let (count, recorded) = self.counts.entry(kind.to_owned()).or_default();
        *count += 1;
        let is_first = *count == 1;
        if is_first {
            *recorded = 1;
        }
        is_first
    }

    /// The kinds that have more actions than are recorded. They count as recorded then.
    fn take_unrecorded(&mut self) -> Vec<(String, u64)> {
        let new = self.counts.iter_mut().filter(|(_, (count, recorded))| count != recorded);
        new.map(|(kind, (count, recorded))| {
            *recorded = *count;
            (kind.clone(), *count)
        })
        .collect()
    }

    fn is_new_rule(&mut self, rule: &str) -> bool {
        if self.told.len() == MAX_RULES || self.told.iter().any(|it| it == rule) {
            return false;
        }
        self.told.push(rule.to_owned());
        true
    }
}

impl Enforcer {
    /// The agent reports a tool call.
    pub(super) fn reported(&self, call: &ToolCall, context: &Context) {
        let (session, id) = (call.session(), call.id().unwrap_or_default());
        let outcome = match call.status() {
            Some(ToolCallStatus::Completed) => "completed",
            Some(ToolCallStatus::Failed) => "failed",
            _ => {
                self.sessions.with(session, |it| it.state.grants.goes_on(&id));
                return;
            }
        };
        let (is_new, decision, is_loading) = self.sessions.with(session, |it| {
            let is_new = it.state.is_loading || it.state.grants.ended(&id);
            (is_new, it.state.grants.decision(&id), it.state.is_loading)
        });
        if is_loading || !is_new || decision.is_none() && outcome == "failed" {
            return;
        }
        let action = self.with_facts(session, |facts| Action::of_tool_call(call, facts));
        let was_judged = decision.is_some()
            || self.sessions.with(session, |it| it.state.grants.was_judged(&action));
        match (was_judged, decision == Some(true) && outcome == "completed") {
            // The agent has been told no.
            (_, true) | (false, _) => self.acted_without_asking(&action, decision, context),
            (true, false) => {
                let mut record = records::about(Event::Outcome, &action, None).at(REPORT);
                record.outcome = Some(outcome.to_owned());
                self.write(record, context);
            }
        }
    }

    fn acted_without_asking(&self, action: &Action, decision: Option<bool>, context: &Context) {
        let verdict = self.judge(action);
        let kind = serde_json::to_value(action.kind.unwrap_or_default()).unwrap_or_default();
        let kind = kind.as_str().unwrap_or("other").to_owned();
        let is_against = verdict.decision == Decision::Deny;
        self.count(|counts| {
            counts.without_asking += 1;
            counts.against_rules += u64::from(is_against);
        });
        let rule = verdict.rule.as_ref().map(rule_name).filter(|_| is_against);
        let (is_first, is_new_rule) = self.sessions.with(&action.session, |it| {
            let unasked = &mut it.state.unasked;
            let is_new_rule = rule.as_deref().is_some_and(|rule| unasked.is_new_rule(rule));
            (unasked.add(&kind), is_new_rule)
        });
        if is_first || is_new_rule {
            let mut record = records::about(Event::ActedWithoutAsking, action, Some(&verdict))
                .at(REPORT)
                .detail("kind", kind)
                .detail("count", 1)
                .detail("rules_say", verdict.decision.name());
            if decision == Some(true) {
                record = record.detail("was_denied", true);
            }
            record.outcome = Some("completed".to_owned());
            self.write(record, context);
        }
        if let Some(rule) = rule.filter(|_| is_new_rule) {
            let what = shown(action);
            let text = format!(
                "The agent did this without asking, so it could not be stopped: {what}. The {rule} denies it."
            );
            // The log has no text of the conversation.
            context.log(format!("the agent has acted without asking; the {rule} denies it"));
            if self.mode == super::rules::Mode::Enforce {
                let said = context.say(format!("\n\n[{NAME}] {text}\n\n"));
                said.unwrap_or_else(|error| context.log(error.to_string()));
            }
        }
    }

    /// Records how many actions there were since the last record, when a turn or a session ends.
    pub(super) fn record_counts(&self, session: &str) {
        let new = self.sessions.with_known(session, |it| it.state.unasked.take_unrecorded());
        for (kind, count) in new.unwrap_or_default() {
            let record = Record::new(Event::ActedWithoutAsking, NAME)
                .session(session)
                .detail("kind", kind)
                .detail("count", count);
            // What has happened cannot be stopped by a failure of the log.
            let _ = self.record(record);
        }
    }

    /// Writes a record about something that has happened.
    fn write(&self, record: Record, context: &Context) {
        if let Err(why) = self.record(record) {
            context.log(why.to_string());
        }
    }
}
