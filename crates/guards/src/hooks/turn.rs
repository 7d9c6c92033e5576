//! Hooks around a turn: before a prompt, at its end, and when the session is idle.

use std::sync::Arc;

use acp_proxy::schema::{PromptResponse, StopReason};
use acp_proxy::{Context, Next, Prompt, Result};
use serde_json::{Value, json};

use super::engine::{Engine, LaterOccasion, Occasion};
use super::event::Event;
use super::occasion::fields;
use super::reply::Decision;
use super::sources::Sources;

/// How often hooks may make the agent go on, for each prompt of the user.
const MAX_CONTINUATIONS: usize = 5;

const METHOD: &str = "session/prompt";

impl Engine {
    /// Handles a prompt of the user.
    pub(crate) async fn on_prompt(
        self: &Arc<Self>,
        mut prompt: Prompt,
        next: Next<Prompt>,
    ) -> Result<PromptResponse> {
        let session = prompt.session().to_owned();
        let id = self.prompt_id();
        self.sessions.with(&session, |known| {
            known.state.prompt = id;
            // The request that loads the session may have been cancelled.
            known.state.is_loading = false;
            known.state.uses.clear();
            known.state.text.clear();
            known.state.activity += 1;
        });
        self.note_skipped(&next, &session);
        if !self.background_hooks_end(&next, &session).await {
            return Ok(PromptResponse::new(StopReason::Cancelled));
        }
        let text = prompt.text();
        let occasion = Occasion {
            event: Event::UserPromptSubmit,
            at: METHOD,
            subject: "",
            action: None,
            fields: fields([("prompt", json!(text))]),
        };
        let Some(reply) = self.fire(&next, &session, occasion).await else {
            return Ok(PromptResponse::new(StopReason::Cancelled));
        };
        let is_blocked = reply.decision == Some(Decision::Deny);
        if is_blocked || reply.stop.is_some() {
            let reason = reply.reason.filter(|_| is_blocked).or(reply.stop).unwrap_or_default();
            let reason = if reason.is_empty() { "a hook has stopped it" } else { &reason };
            next.say(format!("The prompt is blocked: {reason}\n"))?;
            return Ok(PromptResponse::new(StopReason::Refusal));
        }
        let waiting = self.sessions.with(&session, |it| std::mem::take(&mut it.state.context));
        waiting.iter().for_each(|text| prompt.add_context(text.as_str()));
        reply.context.iter().for_each(|text| prompt.append_text(text.as_str()));
        if self.has_hooks() {
            self.transcript(&next, &session, "user", Some(&text));
        }
        let result = self.run_turn(&prompt, &next, &session).await;
        self.end_of_turn(&next, &session, &result);
        result
    }

    /// Whether any hook may run. Otherwise nothing is kept for hooks.
    pub(crate) fn has_hooks(&self) -> bool {
        let has_hooks =
            |it: &Sources| !it.own.is_empty() || it.files.iter().any(|file| !file.hooks.is_empty());
        self.sources.as_ref().is_ok_and(has_hooks) || self.options.project_hooks
    }

    /// Sends the prompt, and further prompts as long as hooks do not let the agent stop.
    async fn run_turn(
        self: &Arc<Self>,
        prompt: &Prompt,
        next: &Next<Prompt>,
        session: &str,
    ) -> Result<PromptResponse> {
        let mut response = next.run(prompt.clone()).await?;
        let mut continuations = 0;
        while response.stop_reason == StopReason::EndTurn {
            if !self.may_have(&[Event::Stop]) {
                break;
            }
            if !self.background_hooks_end(next, session).await {
                response.stop_reason = StopReason::Cancelled;
                break;
            }
            let text = self.take_text(next, session);
            let last = if text.is_empty() { Value::Null } else { json!(text) };
            let occasion = Occasion {
                event: Event::Stop,
                at: METHOD,
                subject: "",
                action: None,
                fields: fields([
                    ("stop_hook_active", json!(continuations > 0)),
                    ("last_assistant_message", last),
                ]),
            };
            let Some(reply) = self.fire(next, session, occasion).await else {
                response.stop_reason = StopReason::Cancelled;
                break;
            };
            self.keep_context(session, "", reply.context);
            if let Some(why) = reply.stop {
                self.tell(next, session, &why);
                break;
            }
            if reply.decision != Some(Decision::Deny) {
                break;
            }
            if continuations == MAX_CONTINUATIONS {
                let text = "a Stop hook wants the agent to go on, but it has done so five times for this prompt";
                next.log(text);
                self.tell(next, session, text);
                break;
            }
            continuations += 1;
            let reason = reply.reason.unwrap_or_default();
            self.transcript(next, session, "user", Some(&reason));
            response = next.run(prompt.extra(reason)).await?;
        }
        Ok(response)
    }

    /// The turn is over: runs the hooks that only see it, and those of an idle session later.
    fn end_of_turn(
        self: &Arc<Self>,
        context: &Context,
        session: &str,
        result: &Result<PromptResponse>,
    ) {
        self.take_text(context, session);
        let failure = match result {
            Err(error) => Some(("error", error.message())),
            Ok(response) => match response.stop_reason {
                StopReason::Refusal => Some(("refusal", "the agent refuses the prompt".to_owned())),
                StopReason::MaxTokens => {
                    Some(("max_tokens", "the limit of tokens is reached".to_owned()))
                }
                StopReason::MaxTurnRequests => {
                    Some(("max_turn_requests", "the limit of requests is reached".to_owned()))
                }
                _ => None,
            },
        };
        if let Some((reason, error)) = failure
            && self.may_have(&[Event::StopFailure])
        {
            let later = LaterOccasion {
                event: Event::StopFailure,
                at: METHOD,
                subject: reason.to_owned(),
                action: None,
                fields: fields([("error", json!(reason)), ("error_details", json!(error))]),
            };
            self.fire_later(context, session, later, |_, _, _, _| {});
        }
        let activity = self.sessions.with(session, |known| {
            known.state.activity += 1;
            known.state.activity
        });
        if !self.may_have(&[Event::Notification]) {
            return;
        }
        let (engine, cx, session) = (self.clone(), context.clone(), session.to_owned());
        let wait = self.options.idle_after.0;
        context.spawn(async move {
            tokio::time::sleep(wait).await;
            let now = engine.sessions.with_known(&session, |known| known.state.activity);
            if now == Some(activity) {
                engine.notify(&cx, &session, "idle_prompt", "The agent is waiting for your input");
            }
        });
    }

    /// A new id for a prompt: a random UUID, or a number if there are no random numbers.
    fn prompt_id(&self) -> String {
        let mut bytes = [0; 16];
        if getrandom::fill(&mut bytes).is_err() {
            return self.new_id();
        }
        bytes[6] = bytes[6] & 0x0f | 0x40;
        bytes[8] = bytes[8] & 0x3f | 0x80;
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
        parts.join("-")
    }
}
