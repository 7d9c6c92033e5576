//! Hooks at a permission request of the agent.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use acp_proxy::schema::PermissionOptionKind;
use acp_proxy::{Context, Next, Permission, PermissionAnswer, Result};
use serde_json::{Value, json};

use super::super::Tell;
use super::super::engine::{Engine, Occasion};
use super::super::event::Event;
use super::super::occasion::{fields, tool_input};
use super::super::reply::Decision;
use super::super::settings::Hook;
use super::super::uses::{Decided, Part, Subject};
use super::super::{changes, parts};
use super::show_directory;
use component_base::action::{Action, At};
use component_base::agents::AgentKind;

/// Why a call is denied that the agent may have described to an earlier instance of the component.
const RESTARTED: &str = "hooks was restarted and has not seen what the agent has said about this call; \
                         ask the agent to try again";

const TOO_MANY: &str =
    "it does too many things at once, so that hooks cannot see each of them; ask for fewer at once";

const CHANGED_PART: &str =
    "a hook changes the arguments of a call that does several things at once";

/// A permission request.
struct Request {
    session: String,
    /// The id of the tool call.
    call: String,
    action: Action,
    /// What hooks see one by one. The first part is the action.
    parts: Vec<Action>,
    subjects: Vec<Subject>,
}

/// What hooks say about all parts of a request together.
#[derive(Default)]
struct Verdict {
    decided: Decided,
    updated_input: Option<Value>,
    /// The hooks that have run for each part.
    ran: Vec<Vec<Arc<Hook>>>,
}

impl Verdict {
    /// Adds what hooks say about the next part. One part that is denied denies all, and each part must be allowed.
    fn add(&mut self, new: Decided, hooks: Vec<Arc<Hook>>) {
        let old = self.decided.decision;
        let is_first = self.ran.is_empty();
        self.ran.push(hooks);
        match (old, new.decision) {
            _ if is_first => self.decided = new,
            (_, Some(Decision::Deny)) => self.decided = new,
            (Some(Decision::Ask), _) | (Some(Decision::Allow), Some(Decision::Allow)) => {}
            (_, Some(Decision::Ask)) => self.decided = new,
            _ => self.decided = Decided::default(),
        }
    }

    /// The parts of the request, with the hooks that have run.
    fn parts(&self, request: &Request) -> Vec<Part> {
        let ran = self.ran.iter().cloned().chain(std::iter::repeat(Vec::new()));
        let parts = request.subjects.iter().cloned().zip(ran);
        parts.map(|(subject, ran)| Part { subject, ran }).collect()
    }
}

impl Engine {
    /// Decides about a permission request of the agent.
    pub(crate) async fn on_permission(
        self: &Arc<Self>,
        permission: Permission,
        next: Next<Permission>,
    ) -> Result<PermissionAnswer> {
        let request = match self.request_of(&permission) {
            Ok(request) => request,
            Err((tool, why)) => {
                return self.deny(&next, &permission, &tool, &Decided::denied(why));
            }
        };
        let (session, call) = (request.session.as_str(), request.call.as_str());
        let known =
            self.sessions.with(session, |it| it.state.uses.decided(call, &request.subjects));
        let decided = match known {
            Some(decided) => decided,
            None => {
                let Some(verdict) = self.consult(&next, Event::PreToolUse, &request).await else {
                    return Ok(PermissionAnswer::cancelled());
                };
                let (parts, decided) = (verdict.parts(&request), verdict.decided.clone());
                self.sessions.with(session, |it| {
                    it.state.uses.decide(call, parts, decided, verdict.updated_input);
                });
                verdict.decided
            }
        };
        match decided.decision {
            Some(Decision::Deny) => {
                return self.deny(&next, &permission, &request.action.tool.common, &decided);
            }
            Some(Decision::Allow) => {
                if let Some(answer) = self.allow(&permission, &request) {
                    return Ok(answer);
                }
            }
            Some(Decision::Ask) if !decided.reason.is_empty() => {
                self.tell(&next, session, &decided.reason);
            }
            _ => {}
        }
        self.ask_user(permission, next, request, decided.decision.is_none()).await
    }

    /// Reads a permission request. The error says why no hook can decide about it, so that it must be denied.
    fn request_of(
        &self,
        permission: &Permission,
    ) -> std::result::Result<Request, (String, &'static str)> {
        const GUARDS: [Event; 2] = [Event::PreToolUse, Event::PermissionRequest];
        let session = permission.session().to_owned();
        let mut action = self.with_facts(&session, |facts| {
            let mut action = Action::of_permission(permission, facts);
            show_directory(&mut action, facts.cwd);
            action
        });
        let call = action.call.clone().unwrap_or_else(|| self.new_id());
        action.call = Some(call.clone());
        let is_guarded = self.in_effect(&session).iter().any(|hook| GUARDS.contains(&hook.event));
        // A matcher cannot find a tool whose name is not known.
        let may_have_missed =
            self.sessions.with(&session, |it| it.was_repeated || it.state.prompt.is_empty());
        if is_guarded && action.opaque && may_have_missed {
            return Err((action.tool.common, RESTARTED));
        }
        let parts = match is_guarded {
            true => parts::of_permission(&action, permission),
            false => Some(vec![action.clone()]),
        };
        let Some(parts) = parts else { return Err((action.tool.common, TOO_MANY)) };
        let subjects = parts.iter().map(Subject::of).collect();
        Ok(Request { session, call, action, parts, subjects })
    }

    /// What hooks say about all parts of a request. `None` if the turn is cancelled meanwhile.
    async fn consult(
        self: &Arc<Self>,
        context: &Context,
        event: Event,
        request: &Request,
    ) -> Option<Verdict> {
        let mut verdict = Verdict::default();
        let session = request.session.as_str();
        for part in &request.parts {
            let fields = match event {
                Event::PreToolUse => fields([("tool_use_id", json!(request.call))]),
                _ => fields([]),
            };
            let occasion = Occasion::about(event, At::PermissionRequest.method(), part, fields);
            let hooks = self.select(session, &occasion);
            let reply = self.run_selected(context, session, occasion, hooks.clone()).await?;
            let (mut decided, updated_input) = self.judge(context, session, part, reply);
            if updated_input.is_some() && request.parts.len() > 1 {
                decided = Decided::denied(CHANGED_PART);
            }
            verdict.add(decided, hooks);
            verdict.updated_input = updated_input;
            if verdict.decided.decision == Some(Decision::Deny) {
                verdict.updated_input = None;
                break;
            }
        }
        // What the agent has not described completely is for the user to decide.
        if verdict.decided.decision == Some(Decision::Allow) && request.action.opaque {
            verdict.decided.decision = Some(Decision::Ask);
        }
        Some(verdict)
    }

    /// Allows a request in place of the user, if the agent offers to allow it once.
    fn allow(&self, permission: &Permission, request: &Request) -> Option<PermissionAnswer> {
        let answer = permission.choose(PermissionOptionKind::AllowOnce)?;
        self.answered(request, true);
        Some(answer)
    }

    /// Remembers the answer to a request.
    fn answered(&self, request: &Request, is_allowed: bool) {
        self.sessions.with(&request.session, |it| {
            it.state.uses.answer(&request.call, &request.subjects, is_allowed);
        });
    }

    /// Runs the hooks that may answer in place of the user, and passes the request to the user if they do not. After
    /// another hook has asked for the user, they can only deny.
    async fn ask_user(
        self: &Arc<Self>,
        permission: Permission,
        next: Next<Permission>,
        request: Request,
        may_allow: bool,
    ) -> Result<PermissionAnswer> {
        let Some(verdict) = self.consult(&next, Event::PermissionRequest, &request).await else {
            return Ok(PermissionAnswer::cancelled());
        };
        let (session, call) = (request.session.as_str(), request.call.as_str());
        match verdict.decided.decision {
            Some(Decision::Deny) => {
                let (parts, decided) = (verdict.parts(&request), verdict.decided.clone());
                self.sessions.with(session, |it| it.state.uses.decide(call, parts, decided, None));
                return self.deny(
                    &next,
                    &permission,
                    &request.action.tool.common,
                    &verdict.decided,
                );
            }
            Some(Decision::Allow) if may_allow => {
                if let Some(answer) = self.allow(&permission, &request) {
                    self.sessions.with(session, |it| {
                        it.state.uses.update(call, verdict.updated_input);
                    });
                    return Ok(answer);
                }
            }
            _ => {}
        }
        let name = &request.action.tool.common;
        if let Some(input) = self.sessions.with(session, |it| it.state.uses.updated_input(call)) {
            self.tell(&next, session, &format!("A hook changes the arguments of {name}: {input}"));
        }
        let message = format!("The agent asks for permission to use {name}");
        self.notify(&next, session, "permission_prompt", &message);
        let options = permission.options().to_vec();
        let answer = next.run(permission).await;
        let chosen = answer.as_ref().ok().and_then(PermissionAnswer::option_id);
        let is_allowed = options.iter().any(|option| {
            let kinds = [PermissionOptionKind::AllowOnce, PermissionOptionKind::AllowAlways];
            kinds.contains(&option.kind) && chosen.as_deref() == Some(&*option.option_id.0)
        });
        self.answered(&request, is_allowed);
        answer
    }

    /// Whether the agent will use a file or a terminal of the editor for this call, so that the arguments can be changed
    /// there.
    pub(super) fn can_change_later(&self, action: &Action, input: &Value) -> bool {
        let agent = self.agent.kind();
        let uses_files = matches!(
            agent,
            AgentKind::Goose | AgentKind::Kimi | AgentKind::ClaudeCode | AgentKind::Qwen
        );
        let uses_terminals = uses_files && agent != AgentKind::Qwen;
        let editor = |ability: &std::sync::atomic::AtomicBool| ability.load(Ordering::Relaxed);
        let is_seen = match action.tool.common.as_str() {
            "Bash" => uses_terminals && editor(&self.editor.terminal),
            "Read" => uses_files && editor(&self.editor.read_file),
            "Write" => uses_files && editor(&self.editor.write_file),
            _ => false,
        };
        is_seen && changes::check(&action.tool.common, &tool_input(action), input).is_ok()
    }

    /// Denies a permission request, and tells the user why.
    fn deny(
        &self,
        context: &Context,
        permission: &Permission,
        tool: &str,
        decided: &Decided,
    ) -> Result<PermissionAnswer> {
        let reason = &decided.reason;
        let text = format!("{tool} is blocked: {reason}");
        self.tell(context, permission.session(), &text);
        if self.options.tell == Tell::NextPrompt {
            self.keep_context(permission.session(), "", vec![text]);
        }
        let meta = json!({ "component": "hooks", "code": decided.kind.code(), "reason": reason });
        permission.deny().with_meta("conductor", meta)
    }
}
