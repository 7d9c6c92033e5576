//! Hooks at the start and the end of a session, and what the component remembers of the messages that pass.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use acp_proxy::{Call, Context, Error, Json, Message, Next, Result, Side};
use acp_wire::ErrorKind;
use serde_json::json;
use tokio::sync::mpsc::UnboundedSender;

use super::engine::{Engine, LaterOccasion};
use super::event::Event;
use super::occasion::fields;
use component_base::refusal;
use component_base::sessions::text;

/// How long the hooks of all sessions may run when the connection ends. The conductor does not wait longer.
const END_TIME: Duration = Duration::from_millis(1500);

/// Hooks that an observed message asks for: the session and the occasion.
pub(crate) type Job = (String, LaterOccasion);

impl Engine {
    /// Handles a request that sets up a session. `source` is the name of its start in hooks.
    pub(crate) async fn on_set_up(
        self: &Arc<Self>,
        source: &'static str,
        call: Call,
        next: Next<Call>,
    ) -> Result<Json> {
        let params = call.params.clone();
        let directory = text(params.as_ref(), "cwd").map(PathBuf::from).unwrap_or_default();
        let project = self.load_project(&next, &directory).map_err(|why| {
            let kind = ErrorKind::InvalidOptionsFile;
            let data = json!({ "component": "hooks", "code": kind.code() });
            Error::with_data(refusal::TO_EDITOR, kind.tag(format!("hooks: {why}")), &data)
        })?;
        let servers: Vec<String> = params
            .as_ref()
            .and_then(|it| it.member("mcpServers"))
            .map(|it| it.elements().iter().filter_map(|it| text(Some(it), "name")).collect())
            .unwrap_or_default();
        let servers = Arc::new(servers);
        let fill = |engine: &Engine, session: &str| {
            engine.sessions.with(session, |known| {
                known.state.project.clone_from(&project);
                known.state.skipped = None;
                known.state.servers.clone_from(&servers);
            });
        };
        // The agent may use files and terminals of a loaded session before it answers.
        let asked = text(params.as_ref(), "sessionId").filter(|_| source == "resume");
        if let Some(session) = &asked {
            fill(self, session);
        }
        let set_loading = |is_loading: bool| {
            if let Some(session) = &asked {
                self.sessions.with(session, |known| known.state.is_loading = is_loading);
            }
        };
        set_loading(true);
        let result = next.run(call).await;
        set_loading(false);
        let result = result?;
        let Some(session) = text(Some(&result), "sessionId").or(asked) else { return Ok(result) };
        fill(self, &session);
        let (mode, model) = (current_mode(&result), current_model(&result));
        let is_new = self.sessions.with(&session, |known| {
            known.state.mode = mode;
            known.state.model = model;
            !std::mem::replace(&mut known.state.is_started, true)
        });
        self.note_skipped(&next, &session);
        if (is_new || source == "resume") && self.may_have(&[Event::SessionStart]) {
            let later = LaterOccasion {
                event: Event::SessionStart,
                at: "session/new",
                subject: source.to_owned(),
                action: None,
                fields: fields([("source", json!(source))]),
            };
            self.fire_later(&next, &session, later, |engine, context, session, reply| {
                engine.keep_context(session, "", reply.context);
                if let Some(why) = reply.stop {
                    engine.tell(context, session, &why);
                }
            });
        }
        Ok(result)
    }

    /// Handles a request that ends a session.
    pub(crate) async fn on_close(self: &Arc<Self>, call: Call, next: Next<Call>) -> Result<Json> {
        let session = text(call.params.as_ref(), "sessionId");
        let result = next.run(call).await?;
        if let Some(session) = session {
            self.end_session(&next, &session).await;
        }
        Ok(result)
    }

    async fn end_session(self: &Arc<Self>, context: &Context, session: &str) {
        let is_started = |known: &mut component_base::sessions::Session<_>| started(known);
        if self.sessions.with_known(session, is_started) == Some(true) {
            let later = LaterOccasion {
                event: Event::SessionEnd,
                at: "session/close",
                subject: "other".to_owned(),
                action: None,
                fields: fields([("reason", json!("other"))]),
            };
            self.fire(context, session, later.occasion()).await;
        }
        self.remove_transcript(session);
    }

    /// The connection has ended: runs the hooks at the end of each session, and waits for those that run.
    pub(crate) async fn on_end(self: &Arc<Self>, context: Context) {
        let mut sessions = Vec::new();
        self.sessions.for_each(|id, _| sessions.push(id.to_owned()));
        let end_all = async {
            let ends = sessions.iter().map(|session| {
                let end: std::pin::Pin<Box<dyn Future<Output = ()>>> =
                    Box::pin(self.end_session(&context, session));
                end
            });
            // Hooks of the last moments, such as those of a cancelled turn, still run.
            tokio::join!(super::run::join_all(ends.collect()), self.later_hooks_end());
        };
        if tokio::time::timeout(END_TIME, end_all).await.is_err() {
            context.log("the hooks at the end took too long and were stopped");
        }
        sessions.iter().for_each(|session| self.remove_transcript(session));
    }

    /// Handles the notification that cancels a turn.
    pub(crate) fn on_cancel(self: &Arc<Self>, call: &Call, context: &Context) {
        let Some(session) = text(call.params.as_ref(), "sessionId") else { return };
        if let Some(cancelled) =
            self.sessions.with_known(&session, |known| known.state.cancelled.clone())
        {
            cancelled.notify_waiters();
        }
        if self.may_have(&[Event::Interrupt]) {
            let later = LaterOccasion {
                event: Event::Interrupt,
                at: "session/cancel",
                subject: String::new(),
                action: None,
                fields: fields([]),
            };
            self.fire_later(context, &session, later, |_, _, _, _| {});
        }
    }

    /// Sees each message: what the editor can do, the text of the agent, modes and models.
    pub(crate) fn observe(&self, from: Side, message: &Message, jobs: &UnboundedSender<Job>) {
        let call = match message {
            Message::Notification(call) | Message::Request { call, .. } => call,
            Message::Response { .. } => return,
        };
        let Some(params) = &call.params else { return };
        match from {
            Side::Agent if call.is("session/update") && self.has_hooks() => {
                self.observe_update(params, jobs);
            }
            Side::Editor if call.is("initialize") => self.observe_editor(params),
            Side::Editor if call.is("session/set_mode") => {
                let mode = text(Some(params), "modeId");
                let session = text(Some(params), "sessionId").unwrap_or_default();
                self.sessions.with_known(&session, |known| known.state.mode = mode);
            }
            _ => {}
        }
    }

    fn observe_editor(&self, params: &Json) {
        let is = |path: &[&str]| params.at(path).is_some_and(|it| it.as_str() == "true");
        let notices = params.at(&["clientCapabilities", "session", "notices"]);
        self.editor.notices.store(notices.is_some_and(|it| it.is_object()), Ordering::Relaxed);
        let abilities = [
            (&self.editor.terminal, &["clientCapabilities", "terminal"][..]),
            (&self.editor.read_file, &["clientCapabilities", "fs", "readTextFile"][..]),
            (&self.editor.write_file, &["clientCapabilities", "fs", "writeTextFile"][..]),
        ];
        abilities.iter().for_each(|(ability, path)| ability.store(is(path), Ordering::Relaxed));
    }

    fn observe_update(&self, params: &Json, jobs: &UnboundedSender<Job>) {
        let Some(update) = params.member("update") else { return };
        let kind = update.member("sessionUpdate");
        let Some(kind) = kind.as_ref().and_then(Json::text) else { return };
        let session = || text(Some(params), "sessionId").unwrap_or_default();
        match &*kind {
            "agent_message_chunk" => {
                if let Some(chunk) = update.at(&["content", "text"]).as_ref().and_then(Json::text) {
                    self.add_text(&session(), &chunk);
                }
            }
            // The last message of the agent begins after its last tool call.
            "tool_call" => self.flush_text(&session()),
            "current_mode_update" => {
                let mode = text(Some(&update), "currentModeId");
                self.sessions.with_known(&session(), |known| known.state.mode = mode);
            }
            "config_option_update" => {
                if let Some(model) = current_model(&update) {
                    self.sessions.with_known(&session(), |known| known.state.model = Some(model));
                }
            }
            "compaction_update" => self.observe_compaction(session(), &update, jobs),
            _ => {}
        }
    }

    fn observe_compaction(&self, session: String, update: &Json, jobs: &UnboundedSender<Job>) {
        let (event, all) = match text(Some(update), "status").as_deref() {
            Some("in_progress") => (Event::PreCompact, fields([("trigger", json!("auto"))])),
            Some("completed") => {
                let blocks = update.member("summary").map(|it| it.elements()).unwrap_or_default();
                let texts = blocks.iter().filter_map(|block| text(Some(block), "text"));
                let summary = texts.collect::<Vec<_>>().join("\n");
                let all = [("trigger", json!("auto")), ("compact_summary", json!(summary))];
                (Event::PostCompact, fields(all))
            }
            _ => return,
        };
        if self.may_have(&[event]) {
            let later = LaterOccasion {
                event,
                at: "session/update",
                subject: "auto".to_owned(),
                action: None,
                fields: all,
            };
            // Fails only when the component ends.
            let _ = jobs.send((session, later));
        }
    }
}

fn started(known: &mut component_base::sessions::Session<super::engine::SessionState>) -> bool {
    known.state.is_started
}

/// The mode in the answer that sets up a session.
fn current_mode(answer: &Json) -> Option<String> {
    answer.at(&["modes", "currentModeId"])?.text().map(|it| it.into_owned())
}

/// The model in the answer that sets up a session, or in an update of its options.
fn current_model(answer: &Json) -> Option<String> {
    let old = answer.at(&["models", "currentModelId"]);
    let options = answer.member("configOptions").map(|it| it.elements()).unwrap_or_default();
    let option = options.iter().find(|it| text(Some(it), "category").as_deref() == Some("model"));
    let own = || answer.at(&["_meta", "_claude/model"]);
    let value = option.and_then(|it| it.member("currentValue")).or(old).or_else(own)?;
    value.text().map(|it| it.into_owned())
}
