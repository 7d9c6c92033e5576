//! Fires events: selects the hooks, fills their input, runs them, and reports what they have answered.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use acp_proxy::Context;
use acp_wire::{ErrorKind, printable};
use serde_json::{Map, Value, json};
use tokio::sync::{Notify, RwLock};

use super::event::{Contract, Event};
use super::reply::{Decision, Reply};
use super::run::{Runner, Surroundings, is_usable};
use super::settings::Hook;
use super::sources::Sources;
use super::uses::ToolUses;
use super::{Hooks, transcript};
use component_base::action::{Action, SessionFacts};
use component_base::agents::{AgentKind, KnownAgent};
use component_base::audit::Audit;
use component_base::sessions::{Session, Sessions};

const LOST_SESSION: &str = "hooks cannot run, because the working directory of the session is not known; load the session again";

const BAD_DIRECTORY: &str = "hooks cannot run in the working directory of the session, because its name is too long or has a NUL; use another directory";

/// How many events may wait in the background for their hooks. An agent may report any number of tool calls.
const MAX_LATER: usize = 1000;

/// The state of a session.
#[derive(Debug, Default)]
pub(crate) struct SessionState {
    /// The hooks of the project. `None` if they are not read.
    pub(crate) project: Option<Arc<Sources>>,
    /// The files that this agent runs itself.
    pub(crate) skipped: Option<(AgentKind, Arc<Vec<PathBuf>>)>,
    /// Whether the hooks of its start have run.
    pub(crate) is_started: bool,
    /// Whether the agent repeats what happened in the session before.
    pub(crate) is_loading: bool,
    /// The id of the last prompt. Empty if the component has seen no prompt: it may have been restarted in a turn, and
    /// may not have seen what the agent has reported about its tool calls.
    pub(crate) prompt: String,
    pub(crate) mode: Option<String>,
    pub(crate) model: Option<String>,
    /// The names of the MCP servers that the session declares.
    pub(crate) servers: Arc<Vec<String>>,
    /// The text of the agent since the last tool call.
    pub(crate) text: String,
    /// Texts for the model that wait for the next prompt.
    pub(crate) context: Vec<String>,
    pub(crate) uses: ToolUses,
    /// The terminals of the session, with the tool call that each belongs to.
    pub(crate) terminals: super::terminals::Terminals,
    /// The hooks with `once` that have run.
    pub(crate) done: BTreeSet<String>,
    /// Held for reading by hooks that a prompt or the end of a turn waits for.
    pub(crate) running: Arc<RwLock<()>>,
    /// Notified when the user cancels the turn.
    pub(crate) cancelled: Arc<Notify>,
    /// Counts prompts and ends of turns, to notice that the session is not idle any more.
    pub(crate) activity: u64,
}

/// What an editor can do.
#[derive(Debug, Default)]
pub(crate) struct EditorAbilities {
    pub(crate) notices: AtomicBool,
    pub(crate) terminal: AtomicBool,
    pub(crate) read_file: AtomicBool,
    pub(crate) write_file: AtomicBool,
}

/// Something that hooks are told about.
pub(crate) struct Occasion<'a> {
    pub(crate) event: Event,
    /// The method of the message, for the audit log.
    pub(crate) at: &'static str,
    /// What matchers are compared with. For a tool, its name.
    pub(crate) subject: &'a str,
    pub(crate) action: Option<&'a Action>,
    pub(crate) fields: Map<String, Value>,
}

/// Something that hooks are told about later.
pub(crate) struct LaterOccasion {
    pub(crate) event: Event,
    pub(crate) at: &'static str,
    pub(crate) subject: String,
    pub(crate) action: Option<Action>,
    pub(crate) fields: Map<String, Value>,
}

impl LaterOccasion {
    fn of(occasion: &Occasion<'_>) -> LaterOccasion {
        LaterOccasion {
            event: occasion.event,
            at: occasion.at,
            subject: occasion.subject.to_owned(),
            action: occasion.action.cloned(),
            fields: occasion.fields.clone(),
        }
    }

    pub(crate) fn occasion(&self) -> Occasion<'_> {
        let LaterOccasion { event, at, subject, action, fields } = self;
        let (action, fields) = (action.as_ref(), fields.clone());
        Occasion { event: *event, at, subject, action, fields }
    }
}

/// The component, without its handlers.
pub(crate) struct Engine {
    pub(crate) options: Hooks,
    /// The error if the files cannot be read any more: then nothing passes.
    pub(crate) sources: Result<Sources, String>,
    pub(crate) runner: Runner,
    pub(crate) sessions: Sessions<SessionState>,
    pub(crate) agent: KnownAgent,
    pub(crate) editor: EditorAbilities,
    pub(crate) audit: Result<Option<Audit>, String>,
    /// The folder of the transcripts, or why there is none.
    pub(super) transcripts: Result<PathBuf, String>,
    ids: AtomicU64,
    /// How many events wait in the background for their hooks.
    later: AtomicUsize,
    /// Notified when one of them has ended.
    later_ended: Notify,
    noted: Mutex<BTreeSet<String>>,
}

impl Engine {
    pub(crate) fn new(options: &Hooks) -> Engine {
        Engine {
            sources: Sources::load(options).map_err(|error| error.why),
            runner: Runner::new(options.longest.0, options.strict),
            sessions: Sessions::default(),
            agent: KnownAgent::default(),
            editor: EditorAbilities::default(),
            audit: options.audit.as_ref().map(Audit::open).transpose(),
            transcripts: transcript::folder(options.transcripts.as_deref()),
            ids: AtomicU64::new(0),
            later: AtomicUsize::new(0),
            later_ended: Notify::new(),
            noted: Mutex::default(),
            options: options.clone(),
        }
    }

    /// A new id, with a prefix of ours.
    pub(crate) fn new_id(&self) -> String {
        format!("conductor-{}", self.ids.fetch_add(1, Ordering::Relaxed) + 1)
    }

    /// Logs a line once.
    pub(crate) fn note(&self, context: &Context, line: &str) {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.len() < 1000 && noted.insert(line.to_owned()) {
            context.log(line);
        }
    }

    /// What is known about a session, for an [`Action`].
    pub(crate) fn with_facts<T>(
        &self,
        session: &str,
        act: impl FnOnce(&SessionFacts<'_>) -> T,
    ) -> T {
        let (cwd, servers) =
            self.sessions.with(session, |it| (it.cwd.clone(), it.state.servers.clone()));
        act(&SessionFacts { cwd: &cwd, agent: self.agent.kind(), servers: &servers })
    }

    /// Whether any session may have hooks of this event. Cheap, because most messages ask for it.
    pub(crate) fn may_have(&self, events: &[Event]) -> bool {
        let Ok(sources) = &self.sources else { return true };
        let of_file = sources.files.iter().flat_map(|file| &file.hooks);
        self.options.project_hooks
            || sources.own.iter().chain(of_file).any(|hook| events.contains(&hook.event))
    }

    /// The hooks of a session, without those that the agent runs itself.
    pub(crate) fn in_effect(&self, session: &str) -> Vec<Arc<Hook>> {
        let Ok(sources) = &self.sources else { return Vec::new() };
        let skipped = self.skipped(session);
        let project = self.sessions.with(session, |known| known.state.project.clone());
        let all = || std::iter::once(sources).chain(project.as_deref());
        // Claude Code merges the settings of the user and of the project. So one of them disables the hooks of all.
        let disables = all().any(Sources::disables_merged);
        let of_agent: Vec<&Arc<Hook>> = all().flat_map(|it| it.hooks_of(&skipped)).collect();
        let hooks = all().flat_map(|it| it.hooks_without(&skipped, disables));
        hooks.filter(|hook| !of_agent.iter().any(|it| hook.is_done_by(it))).cloned().collect()
    }

    /// The hooks for an occasion. A command that several files name runs once.
    pub(crate) fn select(&self, session: &str, occasion: &Occasion<'_>) -> Vec<Arc<Hook>> {
        let all = self.in_effect(session);
        self.sessions.with(session, |known| {
            let mut selected = Vec::<Arc<Hook>>::new();
            for hook in all.into_iter().filter(|hook| hook.event == occasion.event) {
                if !hook.matcher.matches(&occasion.names(hook.contract))
                    || !occasion.meets(hook.condition.as_deref())
                    || hook.once && known.state.done.contains(&hook.key())
                {
                    continue;
                }
                let same = selected.iter_mut().find(|it| it.has_same_action(&hook));
                match same {
                    Some(same) if same.strictness() < hook.strictness() => *same = hook,
                    Some(_) => {}
                    None => selected.push(hook),
                }
            }
            selected
        })
    }

    /// Runs the hooks for an occasion and waits for them. `None` if the user or the requester cancels meanwhile.
    pub(crate) async fn fire(
        self: &Arc<Self>,
        context: &Context,
        session: &str,
        occasion: Occasion<'_>,
    ) -> Option<Reply> {
        let hooks = self.select(session, &occasion);
        self.run_selected(context, session, occasion, hooks).await
    }

    /// Runs hooks that were selected for an occasion, as [`Engine::fire`] does.
    pub(crate) async fn run_selected(
        self: &Arc<Self>,
        context: &Context,
        session: &str,
        occasion: Occasion<'_>,
        hooks: Vec<Arc<Hook>>,
    ) -> Option<Reply> {
        if let Some((why, kind)) = self.unable(session, occasion.event) {
            context.log(&why);
            return Some(Reply { kind: Some(kind), ..Reply::denied(&why) });
        }
        if hooks.is_empty() {
            return Some(Reply::default());
        }
        let directory = self.sessions.cwd(session);
        // Scripts find their files by the project. They would fail without it, and let everything pass.
        let no_directory = match directory.as_os_str() {
            it if it.is_empty() => Some(LOST_SESSION),
            it if !is_usable(it) => Some(BAD_DIRECTORY),
            _ => None,
        };
        if let Some(why) = no_directory.filter(|_| occasion.event.is_guard()) {
            context.log(why);
            return Some(Reply::denied(why));
        }
        let once = hooks.iter().filter(|hook| hook.once).map(|hook| hook.key());
        self.sessions.with(session, |known| known.state.done.extend(once));
        let (background, hooks): (Vec<_>, Vec<_>) =
            hooks.into_iter().partition(|it| it.is_async && occasion.event != Event::SessionEnd);
        for hook in background {
            let input = self.input(context, session, hook.contract, &occasion);
            let (engine, session) = (self.clone(), session.to_owned());
            let (directory, log) = (directory.clone(), context.clone());
            let later = LaterOccasion::of(&occasion);
            context.spawn(async move {
                let surroundings = Surroundings { session: &session, directory: &directory };
                let run = engine.runner.run_one(hook, input, surroundings).await;
                engine.report_run(&log, &run);
                let (reply, runs) = (Reply::default(), [run]);
                if let Err(why) = engine.record(&session, &later.occasion(), &reply, &runs) {
                    engine.note(&log, &why);
                }
            });
        }
        if hooks.is_empty() {
            return Some(Reply::default());
        }
        let surroundings = Surroundings { session, directory: &directory };
        let input = |contract| self.input(context, session, contract, &occasion);
        let cancelled = self.sessions.with(session, |it| it.state.cancelled.clone());
        let (mut reply, runs) = tokio::select! {
            ran = self.runner.run(&hooks, input, surroundings) => ran,
            () = cancelled.notified() => return None,
            () = context.cancelled() => return None,
        };
        runs.iter().for_each(|run| self.report_run(context, run));
        if let Err(why) = self.record(session, &occasion, &reply, &runs)
            && occasion.event.is_guard()
        {
            reply.decision = Some(Decision::Deny);
            (reply.reason, reply.kind) = (Some(why), Some(ErrorKind::AuditFailed));
        }
        if reply.decision == Some(Decision::Deny) && reply.reason.is_none() {
            let blocking = runs.iter().find(|run| run.reply.decision == Some(Decision::Deny));
            let place = blocking.map(|run| run.hook.place.as_str()).unwrap_or_default();
            reply.reason = Some(format!("the hook ({place}) gives no reason"));
        }
        for message in std::mem::take(&mut reply.messages) {
            self.tell(context, session, &message);
        }
        Some(reply)
    }

    /// Runs hooks in the background. The next prompt and the end of the turn wait for those that may add to the prompt.
    pub(crate) fn fire_later(
        self: &Arc<Self>,
        context: &Context,
        session: &str,
        later: LaterOccasion,
        then: impl FnOnce(&Arc<Engine>, &Context, &str, Reply) + 'static,
    ) {
        if self.later.load(Ordering::Relaxed) >= MAX_LATER {
            return self
                .note(context, "too many hooks wait, so the hooks of some events do not run");
        }
        self.later.fetch_add(1, Ordering::Relaxed);
        let (engine, cx, session) = (self.clone(), context.clone(), session.to_owned());
        let running = self.sessions.with(&session, |it| it.state.running.clone());
        let adds_to_prompt = matches!(
            later.event,
            Event::SessionStart | Event::PostToolUse | Event::PostToolUseFailure
        );
        let guard = adds_to_prompt.then(|| running.try_read_owned());
        context.spawn(async move {
            let _guard = guard;
            let reply = engine.fire(&cx, &session, later.occasion()).await;
            engine.later.fetch_sub(1, Ordering::Relaxed);
            engine.later_ended.notify_waiters();
            if let Some(reply) = reply {
                then(&engine, &cx, &session, reply);
            }
        });
    }

    /// Waits for the hooks of all sessions that run in the background.
    pub(crate) async fn later_hooks_end(&self) {
        loop {
            let mut ended = std::pin::pin!(self.later_ended.notified());
            ended.as_mut().enable();
            if self.later.load(Ordering::Relaxed) == 0 {
                return;
            }
            ended.await;
        }
    }

    /// Waits for the hooks that run in the background. Returns false if the user cancels meanwhile.
    pub(crate) async fn background_hooks_end(&self, context: &Context, session: &str) -> bool {
        let (running, cancelled) = self
            .sessions
            .with(session, |it| (it.state.running.clone(), it.state.cancelled.clone()));
        tokio::select! {
            _ = running.write() => true,
            () = cancelled.notified() => false,
            () = context.cancelled() => false,
        }
    }

    /// Why hooks cannot run, so that what they guard must not pass.
    fn unable(&self, session: &str, event: Event) -> Option<(String, ErrorKind)> {
        if !event.is_guard() {
            return None;
        }
        if let Err(why) = &self.sources {
            return Some((format!("the hooks cannot be read: {why}"), ErrorKind::BlockedByHook));
        }
        if let Err(why) = &self.audit {
            return Some((why.clone(), ErrorKind::AuditFailed));
        }
        let is_lost = |it: &mut Session<SessionState>| it.state.project.is_none();
        match self.options.project_hooks && self.sessions.with(session, is_lost) {
            true => Some((LOST_SESSION.to_owned(), ErrorKind::BlockedByHook)),
            false => None,
        }
    }

    /// The input of a hook.
    fn input(
        &self,
        context: &Context,
        session: &str,
        contract: Contract,
        occasion: &Occasion<'_>,
    ) -> String {
        const MODES: [&str; 6] =
            ["default", "acceptEdits", "bypassPermissions", "plan", "dontAsk", "auto"];
        let transcript = self.transcript(context, session, "user", None);
        let transcript = transcript.map(|path| path.to_string_lossy().into_owned());
        self.sessions.with(session, |known| {
            let state = &known.state;
            let mode = state.mode.as_deref().filter(|mode| MODES.contains(mode));
            let (is_codex, is_start) =
                (contract == Contract::Codex, occasion.event == Event::SessionStart);
            let prompt = || Some(json!(state.prompt)).filter(|_| !state.prompt.is_empty());
            let model = match is_codex {
                true => Some(json!(state.model.as_deref().unwrap_or("unknown"))),
                false => state.model.as_ref().filter(|_| is_start).map(|it| json!(it)),
            };
            // The order is that of Claude Code. Scripts that search the text may rely on it.
            let common = [
                ("session_id", Some(json!(session))),
                ("transcript_path", Some(json!(transcript.unwrap_or_default()))),
                ("cwd", Some(json!(known.cwd.to_string_lossy()))),
                ("permission_mode", Some(json!(mode.unwrap_or("default")))),
                ("hook_event_name", Some(json!(occasion.event.name()))),
                ("prompt_id", prompt()),
                ("turn_id", prompt().filter(|_| is_codex)),
                ("model", model),
            ];
            let common =
                common.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
            let members = common.chain(occasion.fields_for(contract));
            let members = members.map(|(name, value)| format!("{}:{value}", json!(name)));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        })
    }

    /// Reads the hooks of a session's project, if that is wanted.
    pub(crate) fn load_project(
        &self,
        context: &Context,
        directory: &Path,
    ) -> Result<Option<Arc<Sources>>, String> {
        if !self.options.project_hooks {
            return Ok(None);
        }
        let sources = Sources::load_project(&self.options, directory)?;
        sources.notes.iter().for_each(|line| self.note(context, line));
        Ok(Some(Arc::new(sources)))
    }

    /// Notes once which files the agent runs itself.
    pub(crate) fn note_skipped(&self, context: &Context, session: &str) {
        let skipped = self.skipped(session);
        let name = printable::one_line(&self.agent.info().name);
        for path in skipped.iter().map(|path| path.display()) {
            let line = format!(
                "{path}: {name} runs these hooks itself, so they do not run here; --always runs them"
            );
            self.note(context, &line);
        }
    }

    /// The files that the agent runs itself. They are found out once for each session.
    fn skipped(&self, session: &str) -> Arc<Vec<PathBuf>> {
        if self.options.always {
            return Arc::default();
        }
        let agent = self.agent.kind();
        self.sessions.with(session, |known| {
            let is_found = |it: &(AgentKind, Arc<Vec<PathBuf>>)| it.0 == agent;
            if let Some((_, files)) = known.state.skipped.clone().filter(is_found) {
                return files;
            }
            let sources = self.sources.iter().chain(known.state.project.as_deref());
            let files: Vec<PathBuf> =
                sources.flat_map(|it| it.skipped(agent, &known.cwd)).collect();
            let files = Arc::new(files);
            known.state.skipped = Some((agent, files.clone()));
            files
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::{MAX_CONTEXT, MAX_TEXT};
    use super::*;

    #[test]
    fn memory_is_bounded_with_many_sessions_and_long_messages() {
        let engine = Engine::new(&Hooks { no_user_hooks: true, ..Hooks::default() });
        for number in 0..12_000 {
            engine.add_text(&format!("s{number}"), "text");
        }
        assert!(engine.sessions.count() <= component_base::sessions::DEFAULT_LIMIT);
        for _ in 0..1000 {
            engine.add_text("s", &"ä".repeat(1000));
            engine.keep_context("s", "hook", vec!["x".repeat(1000)]);
        }
        engine.sessions.with("s", |known| {
            assert_eq!(known.state.text.len(), MAX_TEXT);
            let context: usize = known.state.context.iter().map(String::len).sum();
            assert!(context <= MAX_CONTEXT, "{context}");
        });
    }
}
