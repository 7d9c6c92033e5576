//! Reports what hooks have answered: to the user, the model, the log, the audit log and the transcript.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};

use acp_proxy::schema::{ContentBlock, ContentChunk, SessionUpdate};
use acp_proxy::{Call, Context, Json, Metric};
use acp_wire::printable;
use serde_json::{Value, json};

use super::engine::{Engine, Occasion};
use super::reply::{Decision, Reply};
use super::run::HookRun;
use super::transcript;
use component_base::action::Action;
use component_base::audit::{self, Record};

/// How much text of the agent's last message is kept.
pub(super) const MAX_TEXT: usize = 64 * 1024;

/// How many bytes of texts wait for the next prompt, in each session.
pub(super) const MAX_CONTEXT: usize = 256 * 1024;

impl Engine {
    /// Adds a message to the transcript of a session, and returns its path.
    pub(crate) fn transcript(
        &self,
        context: &Context,
        session: &str,
        role: &str,
        text: Option<&str>,
    ) -> Option<PathBuf> {
        let path = transcript::path(self.transcripts.as_ref().ok()?, session);
        if let Err(why) = transcript::add(&path, role, text) {
            self.note(context, &format!("cannot write the transcript {}: {why}", path.display()));
        }
        Some(path)
    }

    /// Removes the transcript of a session that is over.
    pub(crate) fn remove_transcript(&self, session: &str) {
        if let Ok(folder) = &self.transcripts {
            let _ = std::fs::remove_file(transcript::path(folder, session));
        }
    }

    /// Sends how long a hook took, and logs why it failed.
    pub(super) fn report_run(&self, context: &Context, run: &HookRun) {
        let metric = Metric::observation("hook_duration_seconds", run.time.as_secs_f64());
        context.send_metric(metric.label("event", run.hook.event.name()));
        if let Some(why) = &run.reply.failure {
            let (hook, why) = (&run.hook, printable::one_line(why));
            let why: String = why.chars().take(500).collect();
            let (event, label, place) = (hook.event.name(), hook.label(), &hook.place);
            context.log(format!("the {event} hook `{label}` ({place}) failed: {why}"));
        }
    }

    /// Writes the runs of hooks to the audit log.
    pub(super) fn record(
        &self,
        session: &str,
        occasion: &Occasion<'_>,
        reply: &Reply,
        runs: &[HookRun],
    ) -> Result<(), String> {
        let Ok(Some(audit)) = &self.audit else { return Ok(()) };
        let agent = self.agent.info();
        let decision = |it: Decision| match it {
            Decision::Allow => audit::Decision::Allow,
            Decision::Ask => audit::Decision::Ask,
            Decision::Deny => audit::Decision::Deny,
        };
        for run in runs {
            let mut record = Record::new(audit::Event::Hook, "hooks")
                .session(session)
                .agent(format!("{} {}", agent.name, agent.version).trim())
                .at(occasion.at)
                .detail("hook", run.hook.label())
                .detail("hook_event", occasion.event.name())
                .detail("place", run.hook.place.as_str());
            if let Some(action) = occasion.action {
                record = record.tool(action.tool.common.clone()).what(what(action));
                record.call.clone_from(&action.call);
            }
            record.waited = Some(run.time);
            record.by = Some(audit::By::Hook);
            record.decision = run.reply.decision.map(decision);
            if let Some(reason) = run.reply.reason.as_deref().or(reply.reason.as_deref()) {
                record = record.detail("reason", reason);
            }
            if let Some(failure) = &run.reply.failure {
                record = record.detail("failure", failure.as_str());
            }
            audit.record(record).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Shows a text to the user: as a notice if the editor shows notices, or else as part of the agent's message.
    pub(crate) fn tell(&self, context: &Context, session: &str, text: &str) {
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        let editor = context.editor();
        let sent = match self.editor.notices.load(Ordering::Relaxed) {
            true => {
                let (title, rest) = text.split_once('\n').unwrap_or((text, ""));
                let mut update = json!({
                    "sessionUpdate": "notice", "severity": "warning", "title": format!("hooks: {title}"),
                });
                if !rest.is_empty() {
                    update["description"] = json!(rest);
                }
                let params = json!({ "sessionId": session, "update": update });
                editor.notify_raw("session/update", params)
            }
            false => {
                let block = ContentBlock::from(format!("\n[hooks] {text}\n"));
                editor.update(session, SessionUpdate::AgentMessageChunk(ContentChunk::new(block)))
            }
        };
        if let Err(why) = sent {
            context.log(format!("cannot show a message to the user: {why}"));
        }
    }

    /// Keeps a text for the model until the next prompt.
    pub(crate) fn keep_context(&self, session: &str, label: &str, texts: Vec<String>) {
        self.sessions.with(session, |known| {
            let context = &mut known.state.context;
            for text in texts {
                let size: usize = context.iter().map(String::len).sum();
                let text = if label.is_empty() { text } else { format!("[{label}] {text}") };
                if size + text.len() <= MAX_CONTEXT {
                    context.push(text);
                }
            }
        });
    }

    /// Stops the turn of a session, because a hook has answered `continue: false`.
    pub(crate) fn stop_turn(&self, context: &Context, session: &str, reason: &str) {
        let reason = if reason.is_empty() { "a hook has stopped the turn" } else { reason };
        self.tell(context, session, reason);
        let params = Json::object([("sessionId", Some(Json::string(session)))]);
        context.agent().notify_call(Call::new("session/cancel", params));
    }

    /// Adds text of the agent to its last message.
    pub(crate) fn add_text(&self, session: &str, text: &str) {
        self.sessions.with(session, |known| {
            let kept = &mut known.state.text;
            let room = MAX_TEXT.saturating_sub(kept.len());
            let end = (0..=text.len().min(room)).rev().find(|at| text.is_char_boundary(*at));
            kept.push_str(&text[..end.unwrap_or(0)]);
        });
    }

    /// Takes the last message of the agent, and adds it to the transcript.
    pub(crate) fn take_text(&self, context: &Context, session: &str) -> String {
        let text = self.sessions.with(session, |known| std::mem::take(&mut known.state.text));
        if !text.is_empty() {
            self.transcript(context, session, "assistant", Some(&text));
        }
        text
    }

    /// Adds the text of the agent so far to the transcript. The next text begins a new message.
    pub(crate) fn flush_text(&self, session: &str) {
        let text = self.sessions.with_known(session, |known| std::mem::take(&mut known.state.text));
        if let (Some(text), Ok(folder)) = (text.filter(|it| !it.is_empty()), &self.transcripts) {
            // The next hook notes why the transcript cannot be written.
            let _ = transcript::add(&transcript::path(folder, session), "assistant", Some(&text));
        }
    }

    /// The state in a few lines, for `conductor status`.
    pub(crate) fn status(&self) -> Vec<String> {
        let counts = self.runner.counts();
        let load = |it: &AtomicU64| it.load(Ordering::Relaxed);
        let hooks = match &self.sources {
            Ok(sources) => {
                let files: usize = sources.files.iter().map(|file| file.hooks.len()).sum();
                match sources.own.len() + files {
                    1 => "1 hook".to_owned(),
                    count => format!("{count} hooks"),
                }
            }
            Err(why) => format!("nothing passes, because the hooks cannot be read: {why}"),
        };
        let mut lines = vec![format!(
            "{hooks}; ran {}, blocked {}, failed {}",
            load(&counts.ran),
            load(&counts.blocked),
            load(&counts.failed)
        )];
        lines.push("hooks cannot stop what the agent does without asking".to_owned());
        if let Ok(Some(audit)) = &self.audit {
            lines.extend(audit.status());
        }
        lines
    }
}

/// What an action does, without contents.
fn what(action: &Action) -> Value {
    const CONTENTS: [&str; 4] = ["content", "old_string", "new_string", "edits"];
    let mut input = action.input.clone();
    if let Some(members) = input.as_object_mut() {
        for name in CONTENTS {
            if let Some(value) = members.get_mut(name) {
                *value = audit::content(value.to_string());
            }
        }
    }
    input
}
