//! Carries out the decisions of the rules, at each message that asks for an action.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use acp_proxy::schema::PermissionOptionKind;
use acp_proxy::{
    Call, Context, Error, Json, McpNext, McpRequest, Next, Permission, PermissionAnswer, Result,
};
use acp_wire::code;
use serde_json::json;
use tokio::sync::Notify;

use super::coverage::EditorOffer;
use super::grants::Grants;
use super::imported::Imported;
use super::question::{self, Choice, Ending};
use super::records::{self, Circumstances, NAME, by_rule, denied_error, reason, shown};
use super::rules::{AskLimit, Decision, Mode, Rules, Verdict};
use super::unasked::Unasked;
use component_base::action::{Action, SessionFacts};
use component_base::agents::KnownAgent;
use component_base::audit::{Audit, AuditError, By, Event, Record};
use component_base::sessions::Sessions;

/// How many reasons wait for the next prompt of a session.
const MAX_REASONS: usize = 8;

/// What is known about a session.
#[derive(Debug, Clone, Default)]
pub(super) struct SessionState {
    /// The names of the MCP servers that the session declares.
    pub(super) servers: Vec<String>,
    /// Whether the agent repeats what happened earlier.
    pub(super) is_loading: bool,
    /// Whether this instance of the component has seen a prompt. If not, it may have been restarted in a turn, and
    /// may not have seen what the agent has reported about its tool calls.
    pub(super) has_prompt: bool,
    pub(super) grants: Grants,
    pub(super) unasked: Unasked,
    /// Why actions were denied since the last prompt.
    pub(super) reasons: Vec<String>,
    /// Notified when the user cancels the turn.
    pub(super) cancelled: Arc<Notify>,
}

/// How often something was decided.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) allowed: u64,
    pub(super) denied: u64,
    pub(super) asked: u64,
    pub(super) timed_out: u64,
    pub(super) without_asking: u64,
    pub(super) against_rules: u64,
}

/// What decides.
pub(super) enum Policy {
    Rules(Rules),
    /// The rules or the audit log cannot be read, for this reason. Everything is denied.
    Broken(String),
}

/// The rules, and everything that is needed to carry them out.
pub(super) struct Enforcer {
    pub(super) policy: Policy,
    pub(super) imported: Imported,
    pub(super) mode: Mode,
    pub(super) unattended: Option<AskLimit>,
    /// Whether the agent is told with its next prompt why actions were denied.
    pub(super) tells_agent: bool,
    pub(super) audit: Option<Audit>,
    pub(super) agent: KnownAgent,
    pub(super) sessions: Sessions<SessionState>,
    pub(super) counts: Mutex<Counts>,
    pub(super) offer: Mutex<EditorOffer>,
    pub(super) questions: AtomicU64,
}

impl Enforcer {
    pub(super) fn count(&self, add: impl FnOnce(&mut Counts)) {
        add(&mut self.counts.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Builds an action with what is known about its session.
    pub(super) fn with_facts<R>(
        &self,
        session: &str,
        build: impl FnOnce(&SessionFacts<'_>) -> R,
    ) -> R {
        let agent = self.agent.kind();
        self.sessions.with(session, |it| {
            build(&SessionFacts { cwd: &it.cwd, agent, servers: &it.state.servers })
        })
    }

    /// Writes a record. Where there is no audit log, it is written nowhere.
    pub(super) fn record(&self, mut record: Record) -> Result<(), AuditError> {
        let Some(audit) = &self.audit else { return Ok(()) };
        let info = self.agent.info();
        record.agent = Some(format!("{} {}", info.name, info.version).trim().to_owned())
            .filter(|it| !it.is_empty());
        if let (Some(rule), Policy::Rules(rules)) = (&mut record.rule, &self.policy) {
            let file = rule.file.as_deref().unwrap_or_default();
            rule.hash = self.imported.hash_of(rules, Path::new(file));
        }
        let mode = match self.mode {
            Mode::Enforce => "enforce",
            Mode::Audit => "audit",
        };
        audit.record(record.mode(mode))
    }

    /// The limit for an answer of the user.
    fn limit(&self, verdict: &Verdict) -> Option<AskLimit> {
        verdict.ask.or(self.unattended)
    }

    /// In mode `audit`: writes what would have been decided.
    fn record_only(&self, action: &Action, verdict: &Verdict, context: &Context) {
        let decision = (verdict.decision, by_rule(verdict));
        let record =
            records::decided(Event::Decision, action, verdict, decision, Circumstances::default());
        let decision = verdict.decision.name();
        if let Err(why) = self.record(record) {
            context.log(why.to_string());
        }
        if self.audit.is_none() {
            let rule = verdict.rule.as_ref().map(records::rule_name);
            let rule = rule.unwrap_or_else(|| "no rule matches".to_owned());
            context.log(format!("would {decision}: {} [{rule}]", shown(action)));
        }
        self.count(|counts| match verdict.decision {
            Decision::Allow => counts.allowed += 1,
            Decision::Ask => counts.asked += 1,
            Decision::Deny => counts.denied += 1,
        });
    }

    /// Whether the action of a verdict is denied. In mode `audit`, nothing is.
    fn denies(&self, verdict: &Verdict) -> bool {
        verdict.decision == Decision::Deny && self.mode == Mode::Enforce
    }

    /// A permission request of the agent.
    pub(super) async fn permission(
        &self,
        permission: Permission,
        next: Next<Permission>,
    ) -> Result<PermissionAnswer> {
        let session = permission.session().to_owned();
        let action = self.with_facts(&session, |facts| Action::of_permission(&permission, facts));
        let verdict = self.judge(&action);
        let is_denied = self.denies(&verdict);
        self.sessions.with(&session, |it| it.state.grants.judged(&action, is_denied));
        if self.mode == Mode::Audit {
            self.record_only(&action, &verdict, &next);
            return next.run(permission).await;
        }
        match verdict.decision {
            Decision::Deny => {
                let why = reason(&verdict);
                self.deny(&permission, &action, &verdict, (by_rule(&verdict), &why), &next)
            }
            Decision::Allow => match permission.choose(PermissionOptionKind::AllowOnce) {
                Some(answer) => self.allow(&permission, &action, &verdict, answer, &next),
                None => self.ask(permission, &action, &verdict, &next).await,
            },
            Decision::Ask => self.ask(permission, &action, &verdict, &next).await,
        }
    }

    fn allow(
        &self,
        permission: &Permission,
        action: &Action,
        verdict: &Verdict,
        answer: PermissionAnswer,
        context: &Context,
    ) -> Result<PermissionAnswer> {
        let decision = (Decision::Allow, by_rule(verdict));
        let circumstances = Circumstances { option: answer.option_id(), ..Default::default() };
        let record = records::decided(Event::Decision, action, verdict, decision, circumstances);
        if let Err(why) = self.record(record) {
            return self.deny_unrecorded(permission, action, &why, context);
        }
        self.count(|counts| counts.allowed += 1);
        self.sessions.with(&action.session, |it| it.state.grants.allowed(action));
        Ok(answer)
    }

    /// Denies a permission request: the agent gets the first option that rejects once, the user gets the reason.
    fn deny(
        &self,
        permission: &Permission,
        action: &Action,
        verdict: &Verdict,
        (by, why): (By, &str),
        context: &Context,
    ) -> Result<PermissionAnswer> {
        let answer = permission.deny();
        let circumstances = Circumstances { option: answer.option_id(), ..Default::default() };
        let decision = (Decision::Deny, by);
        let record = records::decided(Event::Decision, action, verdict, decision, circumstances);
        // It is denied either way.
        if let Err(why) = self.record(record) {
            context.log(why.to_string());
        }
        self.refused(permission, action, why, context)
    }

    /// The answer to a permission request that is denied. The user is told, and the agent if that is an option.
    fn refused(
        &self,
        permission: &Permission,
        action: &Action,
        why: &str,
        context: &Context,
    ) -> Result<PermissionAnswer> {
        self.count(|counts| counts.denied += 1);
        let text = format!("Denied: {}. {why}.", shown(action));
        self.sessions.with(&action.session, |it| {
            it.state.grants.judged(action, true);
            let reasons = &mut it.state.reasons;
            if self.tells_agent && reasons.len() < MAX_REASONS {
                reasons.push(text.clone());
            }
        });
        context.say(format!("\n\n[{NAME}] {text}\n\n"))?;
        permission.deny().with_meta("conductor", json!({ "component": NAME, "reason": why }))
    }

    fn deny_unrecorded(
        &self,
        permission: &Permission,
        action: &Action,
        why: &AuditError,
        context: &Context,
    ) -> Result<PermissionAnswer> {
        context.log(why.to_string());
        self.refused(permission, action, &why.to_string(), context)
    }

    /// Asks the user, who gets the agent's own question.
    async fn ask(
        &self,
        permission: Permission,
        action: &Action,
        verdict: &Verdict,
        next: &Next<Permission>,
    ) -> Result<PermissionAnswer> {
        let decision = (Decision::Ask, by_rule(verdict));
        let asked =
            records::decided(Event::Asked, action, verdict, decision, Circumstances::default());
        if let Err(why) = self.record(asked) {
            return self.deny_unrecorded(&permission, action, &why, next);
        }
        self.count(|counts| counts.asked += 1);
        let cancelled = self.sessions.with(&action.session, |it| it.state.cancelled.clone());
        let question = next.run(permission.clone());
        let (ending, waited) = question::wait(question, self.limit(verdict), &cancelled).await;
        let mut cancelled_error = None;
        let (answer, decision, why) = match ending {
            // The agent has cancelled its request, and expects the error.
            Ending::Answered(Err(error)) if error.code() == Some(code::CANCELLED) => {
                cancelled_error = Some(error);
                (PermissionAnswer::cancelled(), (Decision::Deny, By::Failure), None)
            }
            Ending::Answered(Err(error)) => {
                let why = format!("The user could not be asked: {error}");
                (permission.deny(), (Decision::Deny, By::Failure), Some(why))
            }
            Ending::Answered(Ok(answer)) => {
                let answer = offered(&permission, answer);
                let decision = self.chosen(&permission, action, &answer);
                (answer, (decision, By::User), None)
            }
            Ending::Cancelled => (PermissionAnswer::cancelled(), (Decision::Deny, By::User), None),
            Ending::TimedOut(limit) => {
                let once = permission.choose(PermissionOptionKind::AllowOnce);
                match once.filter(|_| limit.then == Decision::Allow) {
                    Some(answer) => (answer, (Decision::Allow, By::Timeout), None),
                    None => {
                        (permission.deny(), (Decision::Deny, By::Timeout), Some(too_late(&limit)))
                    }
                }
            }
        };
        if decision.1 == By::Timeout {
            self.count(|counts| counts.timed_out += 1);
        }
        let circumstances = Circumstances { waited: Some(waited), option: answer.option_id() };
        let answered = records::decided(Event::Answered, action, verdict, decision, circumstances);
        if let Err(why) = self.record(answered) {
            return self.deny_unrecorded(&permission, action, &why, next);
        }
        if let Some(error) = cancelled_error {
            return Err(error);
        }
        if let Some(why) = why {
            return self.refused(&permission, action, &why, next);
        }
        if decision == (Decision::Allow, By::Timeout) {
            let (what, limit) = (shown(action), self.limit(verdict));
            let after = limit.map(|it| interval(&it)).unwrap_or_default();
            next.say(format!("\n\n[{NAME}] Nobody answered in {after}. Allowed: {what}.\n\n"))?;
            self.sessions.with(&action.session, |it| it.state.grants.allowed(action));
        }
        Ok(answer)
    }

    /// Remembers what the user has chosen.
    fn chosen(
        &self,
        permission: &Permission,
        action: &Action,
        answer: &PermissionAnswer,
    ) -> Decision {
        let id = answer.option_id();
        let options = permission.options();
        let option = options.iter().find(|it| Some(&*it.option_id.0) == id.as_deref());
        let kind = option.map(|option| option.kind);
        self.sessions.with(&action.session, |it| match kind {
            Some(PermissionOptionKind::AllowOnce) => it.state.grants.allowed(action),
            Some(PermissionOptionKind::AllowAlways) => {
                it.state.grants.allowed(action);
                it.state.grants.allowed_for_ever(action);
            }
            _ => it.state.grants.judged(action, true),
        });
        match kind {
            Some(PermissionOptionKind::AllowOnce | PermissionOptionKind::AllowAlways) => {
                Decision::Allow
            }
            _ => Decision::Deny,
        }
    }

    /// A request of the agent to read or write a file, or to create a terminal.
    pub(super) async fn call(&self, call: Call, next: Next<Call>) -> Result<Json> {
        let session = call.params.as_ref().and_then(|it| it.member("sessionId"));
        let session = session.as_ref().and_then(Json::text).unwrap_or_default().into_owned();
        let action = self.with_facts(&session, |facts| Action::of_call(&call, facts));
        match action {
            Some(action) => self.settle(&action, &next).await?,
            None if self.mode == Mode::Audit => {}
            None => {
                let method = call.method.name();
                return Err(Error::invalid_params(format!(
                    "{NAME}: this {method} lacks a member that it must have, so no rule can be applied to it"
                )));
            }
        }
        next.run(call).await
    }

    /// A request of the agent to an MCP server.
    pub(super) async fn mcp(&self, request: McpRequest, next: McpNext) -> Result<Json> {
        if request.method() == "tools/call" {
            let session = request.session().unwrap_or_default();
            let arguments = serde_json::from_slice(request.arguments().as_bytes());
            let arguments = arguments.unwrap_or_default();
            let (server, tool) = (request.server().unwrap_or_default(), request.tool());
            let tool = tool.unwrap_or_default();
            let mut action = self.with_facts(session, |facts| {
                Action::of_mcp_call(session, server, &tool, arguments, facts)
            });
            // After a restart the name of the server is not known.
            action.opaque = server.is_empty() || tool.is_empty();
            self.settle(&action, &next).await?;
        }
        next.run(request).await
    }

    /// Decides about an action at a request that is the action itself. An error means that it is denied.
    async fn settle(&self, action: &Action, context: &Context) -> Result<()> {
        let verdict = self.judge(action);
        let is_denied = self.denies(&verdict);
        let covered = self.sessions.with(&action.session, |it| {
            let by_default = verdict.rule.is_none();
            let may_cover = verdict.decision == Decision::Ask && self.mode == Mode::Enforce;
            let covered = may_cover && it.state.grants.cover(action, by_default);
            it.state.grants.judged(action, is_denied);
            covered
        });
        if self.mode == Mode::Audit {
            self.record_only(action, &verdict, context);
            return Ok(());
        }
        let by = by_rule(&verdict);
        match verdict.decision {
            Decision::Deny => self.refuse(action, &verdict, by, &reason(&verdict), context),
            Decision::Allow => self.let_pass(action, &verdict, by, context),
            // The user has answered at the permission request.
            Decision::Ask if covered => self.let_pass(action, &verdict, By::User, context),
            Decision::Ask => self.ask_directly(action, &verdict, context).await,
        }
    }

    fn let_pass(
        &self,
        action: &Action,
        verdict: &Verdict,
        by: By,
        context: &Context,
    ) -> Result<()> {
        let decision = (Decision::Allow, by);
        let record =
            records::decided(Event::Decision, action, verdict, decision, Circumstances::default());
        self.count(|counts| counts.allowed += 1);
        self.record(record).map_err(|why| self.unrecorded(action, &why, context))
    }

    fn refuse(
        &self,
        action: &Action,
        verdict: &Verdict,
        by: By,
        why: &str,
        context: &Context,
    ) -> Result<()> {
        let decision = (Decision::Deny, by);
        let record =
            records::decided(Event::Decision, action, verdict, decision, Circumstances::default());
        // It is denied either way.
        if let Err(why) = self.record(record) {
            context.log(why.to_string());
        }
        self.count(|counts| counts.denied += 1);
        Err(denied_error(action, why, verdict.rule.as_ref()))
    }

    fn unrecorded(&self, action: &Action, why: &AuditError, context: &Context) -> Error {
        context.log(why.to_string());
        self.count(|counts| counts.denied += 1);
        records::unrecorded_error(action, why)
    }

    /// Asks the user with a question of this component.
    async fn ask_directly(
        &self,
        action: &Action,
        verdict: &Verdict,
        context: &Context,
    ) -> Result<()> {
        if action.session.is_empty() {
            let why = "the session is not known, so the user cannot be asked; start a new session";
            return self.refuse(action, verdict, By::Failure, why, context);
        }
        let decision = (Decision::Ask, by_rule(verdict));
        let asked =
            records::decided(Event::Asked, action, verdict, decision, Circumstances::default());
        self.record(asked).map_err(|why| self.unrecorded(action, &why, context))?;
        self.count(|counts| counts.asked += 1);
        let id = format!("conductor-{}", self.questions.fetch_add(1, Ordering::Relaxed) + 1);
        let cancelled = self.sessions.with(&action.session, |it| it.state.cancelled.clone());
        let question = async {
            tokio::select! {
                answer = question::ask(context, action, verdict, &id) => answer,
                () = context.cancelled() => Err(Error::internal("the agent has cancelled the request")),
            }
        };
        let (ending, waited) = question::wait(question, self.limit(verdict), &cancelled).await;
        let (decision, option, why) = match ending {
            Ending::Answered(Ok(choice)) => {
                self.sessions.with(&action.session, |it| match choice {
                    Choice::Session => it.state.grants.allowed_for_session(action),
                    Choice::Once => {}
                    Choice::No => it.state.grants.judged(action, true),
                });
                match choice {
                    Choice::No => {
                        let why = "the user has denied it".to_owned();
                        ((Decision::Deny, By::User), Some(choice), why)
                    }
                    _ => ((Decision::Allow, By::User), Some(choice), String::new()),
                }
            }
            Ending::Answered(Err(error)) => {
                let why = format!("the user could not be asked: {error}");
                ((Decision::Deny, By::Failure), None, why)
            }
            Ending::Cancelled => {
                ((Decision::Deny, By::User), None, "the user has cancelled the turn".to_owned())
            }
            Ending::TimedOut(limit) => {
                self.count(|counts| counts.timed_out += 1);
                ((limit.then, By::Timeout), None, too_late(&limit))
            }
        };
        let option = option.map(|it| it.id().to_owned());
        let circumstances = Circumstances { waited: Some(waited), option };
        let answered = records::decided(Event::Answered, action, verdict, decision, circumstances);
        self.record(answered).map_err(|why| self.unrecorded(action, &why, context))?;
        let what = shown(action);
        match decision {
            (Decision::Allow, By::Timeout) => {
                context.say(format!("\n\n[{NAME}] {why}. Allowed: {what}.\n\n"))
            }
            (Decision::Allow, _) => {
                self.count(|counts| counts.allowed += 1);
                Ok(())
            }
            (_, by) => {
                self.count(|counts| counts.denied += 1);
                if by == By::Timeout {
                    context.say(format!("\n\n[{NAME}] Denied: {what}. {why}.\n\n"))?;
                }
                Err(denied_error(action, &why, verdict.rule.as_ref()))
            }
        }
    }
}

fn interval(limit: &AskLimit) -> String {
    component_base::options::Interval(limit.after).to_string()
}

fn too_late(limit: &AskLimit) -> String {
    format!("Nobody answered in {}", interval(limit))
}

/// The answer of the editor, if it chooses an option that was offered. Otherwise no option is chosen.
fn offered(permission: &Permission, answer: PermissionAnswer) -> PermissionAnswer {
    let Some(id) = answer.option_id() else { return PermissionAnswer::cancelled() };
    let options = permission.json().member("options").unwrap_or(Json::NULL).elements();
    let is_offered =
        options.iter().any(|it| it.member("optionId").is_some_and(|it| it.equals_text(&id)));
    match is_offered {
        true => answer,
        false => PermissionAnswer::cancelled(),
    }
}
