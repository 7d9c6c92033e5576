//! The component `hooks`: runs hook scripts of Claude Code and Codex with any agent.
//!
//! Messages of ACP drive the events of hooks (`lifecycle`, `turn`, `tools`). The `engine` selects the hooks of an event
//! (`settings`, `sources`, `matcher`, `condition`), runs them (`run`, `process`, `http`), reads their answers
//! (`reply`), and reports them (`report`). `uses` and `terminals` remember the tool calls of a turn, so that a hook runs once for each call.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use acp_proxy::{Call, Proxy, Side};
use acp_wire::ErrorKind;
use clap::{Parser, ValueEnum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use component_base::audit::{Audit, AuditOptions};
use component_base::mentions::{AgreedFiles, Mentions};
use component_base::options::Interval;
use component_base::{BuiltIn, OptionError};

mod changes;
mod condition;
mod engine;
mod event;
mod http;
mod lifecycle;
mod matcher;
mod occasion;
mod parts;
mod process;
mod reply;
mod report;
mod run;
mod settings;
mod sources;
mod terminals;
mod tools;
mod transcript;
mod turn;
mod uses;

pub use settings::{EventName, Handler, HookGroup, HookGroups};

use engine::Engine;
use sources::Sources;

/// Runs hook scripts of Claude Code and Codex with any agent.
///
/// The scripts get JSON on standard input. Exit status 2, or JSON on standard output, blocks a prompt or a tool call.
/// Hooks come from ~/.claude/settings.json, from the files of --settings and --codex, from each project with
/// --project-hooks, and from the options. The hooks of a file that the agent reads itself do not run twice.
#[derive(Debug, Clone, Parser, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Hooks {
    /// A settings file of Claude Code. Repeatable.
    #[arg(long, value_name = "FILE")]
    settings: Vec<PathBuf>,

    /// A hooks.json or config.toml of Codex. Repeatable.
    #[arg(long, value_name = "FILE")]
    codex: Vec<PathBuf>,

    /// Do not run the hooks of ~/.claude/settings.json.
    #[arg(long)]
    no_user_hooks: bool,

    /// Also run the hooks of each project: .claude/settings.json, .claude/settings.local.json, .codex/hooks.json and
    /// .codex/config.toml in the session's working directory. These files are programs: use this only for projects that you trust.
    #[arg(long)]
    project_hooks: bool,

    /// Also run the hooks of files that the agent reads itself. Such hooks run twice.
    #[arg(long)]
    always: bool,

    /// Block the prompt or the tool call if a hook fails, unless the hook has `"onFailure": "continue"`.
    #[arg(long)]
    strict: bool,

    /// The time limit of hooks that hold a turn. A hook may have a shorter one.
    #[arg(long, value_name = "TIME", default_value = "60s")]
    longest: Interval,

    /// How long a session is silent before the hooks of Notification run for `idle_prompt`.
    #[arg(long, value_name = "TIME", default_value = "60s")]
    idle_after: Interval,

    /// A host that hooks of type http may use. Repeatable. Loopback addresses are always allowed.
    #[arg(long, value_name = "HOST")]
    allow_http: Vec<String>,

    /// Leave out hooks of settings files that cannot run here, such as those of type prompt.
    #[arg(long)]
    skip_unsupported: bool,

    /// Whom to tell why a tool call is blocked. The answer to a permission request has no room for a reason.
    #[arg(long, value_enum, value_name = "WAY", default_value_t = Tell::User)]
    tell: Tell,

    /// The folder for the transcripts of sessions, which hooks may read. Default: hooks in the folder for state,
    /// ~/.local/state/conductor.
    #[arg(long, value_name = "FOLDER")]
    transcripts: Option<PathBuf>,

    /// Write each run of a hook to an audit log.
    #[arg(long, value_name = "FILE")]
    audit: Option<AuditOptions>,

    /// Hooks by event, as in the member `hooks` of Claude Code's settings.
    #[arg(skip)]
    hooks: HookGroups,

    /// The files of the project to which the user has agreed. The conductor sets it if the file of a project has defined the component.
    #[arg(skip)]
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(skip)]
    agreed_files: Option<AgreedFiles>,
}

/// The receiver of the reason why a tool call is blocked.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Tell {
    /// The user.
    #[default]
    User,
    /// The user, and the model with the next prompt.
    NextPrompt,
}

impl Default for Hooks {
    fn default() -> Hooks {
        Hooks::parse_from([Hooks::NAME])
    }
}

impl BuiltIn for Hooks {
    const NAME: &'static str = "hooks";
    const GUARD: bool = true;
    const AGREED_FILES: Option<&'static str> = Some("agreed_files");

    fn mentions(&self, folders: &[&Path]) -> Mentions {
        Sources::mentions(self, folders)
    }

    fn check(&self) -> Result<(), OptionError> {
        let invalid = |why: String| OptionError { kind: ErrorKind::InvalidOptionsFile, why };
        Sources::load(self)?;
        if self.longest.0 < Duration::from_millis(1) {
            let why = "--longest must not be 0: no hook could run".to_owned();
            return Err(OptionError { kind: ErrorKind::MisusedBuiltIn, why });
        }
        // Most editors start the conductor in the project. The files of other projects are checked with each session.
        if let Some(directory) = std::env::current_dir().ok().filter(|_| self.project_hooks) {
            Sources::load_project(self, &directory).map_err(invalid)?;
        }
        self.audit
            .as_ref()
            .map_or(Ok(()), Audit::check)
            .map_err(|why| OptionError { kind: ErrorKind::UnreadableFile, why })
    }

    fn build(&self) -> acp_proxy::Component {
        let engine = Arc::new(Engine::new(self));
        let (jobs, mut waiting) = tokio::sync::mpsc::unbounded_channel::<lifecycle::Job>();
        let mut proxy = engine.agent.watch(Proxy::new("hooks").strict());
        let shared = engine.clone();
        proxy = proxy.on_start(async move |context| {
            if let Ok(sources) = &shared.sources {
                sources.notes.iter().for_each(|line| shared.note(&context, line));
            }
            if let Some(why) = shared.transcripts.as_ref().err().filter(|_| shared.has_hooks()) {
                shared.note(&context, &format!("there are no transcripts for hooks: {why}"));
            }
            if !shared.has_hooks() {
                shared.note(
                    &context,
                    "there are no hooks; name a file with --settings, or use --project-hooks",
                );
            }
            while let Some((session, later)) = waiting.recv().await {
                shared.fire_later(&context, &session, later, |_, _, _, _| {});
            }
        });
        let shared = engine.clone();
        proxy = proxy.observe(move |from, message| shared.observe(from, message, &jobs));
        proxy = with_sessions(&engine, proxy);
        let shared = engine.clone();
        proxy = proxy.on_prompt(async move |prompt, next| shared.on_prompt(prompt, next).await);
        let shared = engine.clone();
        proxy = proxy.on_permission(async move |permission, next| {
            shared.on_permission(permission, next).await
        });
        for method in ["fs/read_text_file", "fs/write_text_file", "terminal/create"] {
            let shared = engine.clone();
            proxy = proxy.on_raw_request(Side::Agent, method, async move |call: Call, next| {
                shared.on_action(call, next).await
            });
        }
        for method in ["terminal/output", "terminal/wait_for_exit", "terminal/release"] {
            let shared = engine.clone();
            proxy = proxy.on_raw_request(Side::Agent, method, async move |call: Call, next| {
                shared.on_terminal(call, next).await
            });
        }
        let shared = engine.clone();
        proxy = proxy.on_mcp_request(async move |request, next| shared.on_mcp(request, next).await);
        let shared = engine.clone();
        proxy = proxy.on_tool_call(move |call, context| shared.on_tool_call(call, context));
        let shared = engine.clone();
        proxy = proxy.on_raw_request(
            Side::Agent,
            "elicitation/create",
            async move |call: Call, next| {
                if let Some(session) = next.session() {
                    shared.notify(
                        &next,
                        &session,
                        "elicitation_dialog",
                        "The agent asks a question",
                    );
                }
                next.run(call).await
            },
        );
        let shared = engine.clone();
        proxy = proxy.on_raw_notification(Side::Editor, "session/cancel", move |call, context| {
            shared.on_cancel(call, context);
        });
        let shared = engine.clone();
        proxy = proxy.on_end(async move |context| shared.on_end(context).await);
        proxy.status(move || engine.status()).into()
    }
}

/// Adds the handlers of requests that begin or end sessions.
fn with_sessions(engine: &Arc<Engine>, mut proxy: Proxy) -> Proxy {
    for (method, source) in [
        ("session/new", "startup"),
        ("session/load", "resume"),
        ("session/resume", "resume"),
        ("session/fork", "fork"),
    ] {
        let shared = engine.clone();
        proxy = proxy.on_raw_request(Side::Editor, method, async move |call: Call, next| {
            shared.on_set_up(source, call, next).await
        });
    }
    // The sessions are opened inside the handlers above, and closed after those below.
    proxy = engine.sessions.watch(proxy);
    for method in ["session/close", "session/delete"] {
        let shared = engine.clone();
        proxy = proxy.on_raw_request(Side::Editor, method, async move |call: Call, next| {
            shared.on_close(call, next).await
        });
    }
    proxy
}
