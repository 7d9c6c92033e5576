//! The component `collaborator`: gives the agent an identity, and lets it remember what it learns about the person and the
//! project.
//!
//! - `notes`: the entries of a file
//! - `store`: reads and writes the files
//! - `loaded`: the sessions that have the identity
//! - `memory`: the two files of a session, and what the tools do with them

mod loaded;
mod memory;
mod notes;
mod store;

use std::path::{Component as PathPart, Path, PathBuf};

use acp_proxy::{IntoToolOutput, JsonSchema, Proxy, Result, ToolContext, ToolOutput, schemars};
use acp_wire::ErrorKind;
use clap::Parser;
use serde::{Deserialize, Serialize};
use serde_json::json;

use component_base::file::{self, ReadLimits};
use component_base::sessions::{Origin, Sessions, was_read};
use component_base::state_folder;
use component_base::{BuiltIn, OptionError};
use memory::{Memory, Subject};

/// Gives the agent an identity, and a memory of what it learns about you and the project.
///
/// Before the first prompt of each session, the agent gets the identity and what it remembers. With the tools `remember`,
/// `recall`, `revise` and `forget` it changes its memory: two Markdown files that you can read and edit. Each change is
/// shown in the chat, with its text and the file. Texts that look like secrets are refused.
#[derive(Debug, Clone, Default, Parser, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Collaborator {
    /// The name of the agent.
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// The file with the text about how the agent works with you. Default: a built-in text.
    #[arg(long, value_name = "FILE")]
    identity: Option<PathBuf>,

    /// Remember nothing about the person.
    #[arg(long)]
    no_person: bool,

    /// Remember nothing about the project.
    #[arg(long)]
    no_project: bool,

    /// Keep what is remembered about a project in this file of the project, such as .conductor/collaborator.md. Default:
    /// a file for each project in --folder.
    #[arg(long, value_name = "PATH")]
    project_file: Option<PathBuf>,

    /// The folder of the files. Default: collaborator in the state folder of conductor.
    #[arg(long, value_name = "DIRECTORY")]
    folder: Option<PathBuf>,

    /// They survive a restart of the component.
    #[arg(skip)]
    #[serde(skip)]
    sessions: Sessions<SessionState>,
}

/// What is known of a session.
#[derive(Debug, Default)]
struct SessionState {
    /// Whether the agent has received the identity and what it remembers.
    is_added: bool,
}

/// The maximum size of the identity file, in bytes.
const MAX_IDENTITY: usize = 64 * 1024;

/// How much of each file the first prompt gets, in bytes.
const MAX_LOADED: usize = 32 * 1024;

/// How much `recall` returns, in bytes.
const MAX_RECALLED: usize = 32 * 1024;

/// The default identity.
const IDENTITY: &str = "\
You work together with one person, over many sessions.

- Say what you have understood before you act on it, and ask when two readings are possible.";

/// The rest of it, if there are tools.
const MEMORY: &str = "
- Use what you remember about the person and the project. If it is wrong, say so and correct it.
- When you learn something that will matter in later sessions, such as a preference, a decision or a convention, keep it with \
the tool `remember`: one fact in one sentence. Do not keep secrets, or what the code says itself.
- When a fact changes, use `revise`. When the person asks for it, use `forget`.";

/// The input of `remember`.
#[derive(Deserialize, JsonSchema)]
struct Remember {
    /// One fact, in one sentence.
    text: String,
    /// What it is about: `person` or `project`.
    about: Subject,
}

/// The input of `recall`.
#[derive(Deserialize, JsonSchema)]
struct Recall {
    /// Words that the entries contain. Without them, all entries are returned, up to 32 KiB.
    query: Option<String>,
}

/// The input of `revise`.
#[derive(Deserialize, JsonSchema)]
struct Revise {
    /// The id of the entry, such as k7q2.
    id: String,
    /// The new text: one fact, in one sentence.
    text: String,
}

/// The input of `forget`.
#[derive(Deserialize, JsonSchema)]
struct Forget {
    /// The id of the entry, such as k7q2.
    id: String,
}

impl BuiltIn for Collaborator {
    const NAME: &'static str = "collaborator";

    fn check(&self) -> Result<(), OptionError> {
        let misused =
            |why: &str| Err(OptionError { kind: ErrorKind::MisusedBuiltIn, why: why.to_owned() });
        let is_name = |part| matches!(part, PathPart::Normal(_));
        if self.project_file.iter().any(|it| !it.components().all(is_name) || it == Path::new("")) {
            return misused("--project-file must be a path in the project, without `..`");
        }
        if self.no_project && self.project_file.is_some() {
            return misused("--project-file and --no-project exclude each other");
        }
        let unreadable = |why| OptionError { kind: ErrorKind::UnreadableFile, why };
        self.read_identity().map(drop).map_err(unreadable)
    }

    fn build(&self) -> acp_proxy::Component {
        let proxy = self.sessions.watch(Proxy::new(Self::NAME));
        let proxy = if self.no_person && self.no_project { proxy } else { self.add_tools(proxy) };
        let collaborator = self.clone();
        let counted = self.sessions.clone();
        proxy
            .on_prompt(async move |mut prompt, next| {
                let session = prompt.session().to_owned();
                // Before it is sent, so that a second prompt at the same time does not get it as well.
                if !collaborator.begin_embodiment(&session) {
                    return next.run(prompt).await;
                }
                prompt.add_context(collaborator.embodiment(&session, next.context()));
                // The note may wait for another process. The prompt must not: a cancellation would overtake it.
                let (answer, ()) = tokio::join!(
                    biased;
                    next.run(prompt),
                    collaborator.note_loaded(&session, true, next.context()),
                );
                if !was_read(&answer) {
                    collaborator.sessions.with(&session, |it| it.state.is_added = false);
                    collaborator.note_loaded(&session, false, next.context()).await;
                }
                answer
            })
            .status(move || vec![format!("{} sessions", counted.count())])
            .into()
    }
}

impl Collaborator {
    /// Whether a prompt has to bring the identity. In a session that is loaded or resumed, the agent has it. The state survives
    /// a restart inside of the conductor. After a restart in a process of its own, a file says which sessions have it.
    fn begin_embodiment(&self, id: &str) -> bool {
        let is_loaded = || self.folder().is_ok_and(|folder| loaded::contains(&folder, id));
        self.sessions.with(id, |session| {
            let is_new = matches!(session.origin, Origin::New | Origin::Unknown);
            is_new
                && !std::mem::replace(&mut session.state.is_added, true)
                && !(session.was_repeated && !session.was_known && is_loaded())
        })
    }

    async fn note_loaded(&self, session: &str, is_loaded: bool, context: &acp_proxy::Context) {
        let Ok(folder) = self.folder() else { return };
        if let Err(why) = loaded::set(&folder, session, is_loaded).await {
            context.log(why);
        }
    }

    fn add_tools(&self, proxy: Proxy) -> Proxy {
        let [remember, recall, revise, forget] = std::array::from_fn(|_| self.clone());
        proxy
            .tool_with(
                "remember",
                "Keeps one fact about the person or the project for later sessions. The user sees it",
                async move |input: Remember, context| {
                    let (session, memory) = remember.memory_of(&context)?;
                    let show = |text| show(&context, &session, text);
                    result(memory.remember(input.about, &input.text, &show).await?)
                },
            )
            .tool_with(
                "recall",
                "Returns what is remembered about the person and the project, with the id of each entry",
                async move |input: Recall, context| {
                    let (_, memory) = recall.memory_of(&context)?;
                    let query = input.query.unwrap_or_default();
                    memory.recall(&query, MAX_RECALLED)?.into_tool_output()
                },
            )
            .tool_with(
                "revise",
                "Replaces the text of an entry. The user sees it",
                async move |input: Revise, context| {
                    let (session, memory) = revise.memory_of(&context)?;
                    let show = |text| show(&context, &session, text);
                    result(memory.revise(&input.id, &input.text, &show).await?)
                },
            )
            .tool_with(
                "forget",
                "Removes an entry. The user sees it",
                async move |input: Forget, context| {
                    let (session, memory) = forget.memory_of(&context)?;
                    let show = |text| show(&context, &session, text);
                    result(memory.forget(&input.id, &show).await?)
                },
            )
    }

    /// The session of a tool call, and its memory. A change must be shown, so a tool needs a session.
    fn memory_of(&self, context: &ToolContext) -> Result<(String, Memory)> {
        let missing = "the session is not open yet; call the tool again in a moment";
        let session = context.session().ok_or(missing)?;
        let memory = self.memory(&session)?;
        Ok((session, memory))
    }

    /// The folder of the files.
    fn folder(&self) -> Result<PathBuf, String> {
        let none = "there is no state folder, because HOME is not set; name one with --folder";
        let state = || state_folder::path().map(|it| it.join(Self::NAME));
        self.folder.clone().or_else(state).ok_or_else(|| none.to_owned())
    }

    fn memory(&self, session: &str) -> Result<Memory, String> {
        let folder = self.folder()?;
        let project = self.sessions.cwd(session);
        let is_known = project.is_absolute();
        let used = (is_known && !self.no_project).then_some(project.as_path());
        let memory = Memory::new(folder, !self.no_person, used, self.project_file.as_deref());
        Ok(if is_known || self.no_project { memory } else { memory.without_folder() })
    }

    /// The text before the first prompt of a session.
    fn embodiment(&self, session: &str, context: &acp_proxy::Context) -> String {
        let name = self.name.as_ref().map(|it| format!("Your name is {it}.\n\n"));
        let mut parts = vec![name.unwrap_or_default()];
        match self.read_identity() {
            Ok(identity) => parts.push(identity),
            Err(why) => context.log(why),
        }
        match self.memory(session).map(|it| it.load(MAX_LOADED)) {
            Ok((texts, problems)) => {
                parts.extend(texts.into_iter().map(|it| format!("\n\n{it}")));
                problems.iter().for_each(|why| context.log(why));
            }
            Err(why) => context.log(why),
        }
        parts.concat()
    }

    fn read_identity(&self) -> Result<String, String> {
        let Some(path) = &self.identity else {
            let has_tools = !(self.no_person && self.no_project);
            return Ok(format!("{IDENTITY}{}", if has_tools { MEMORY } else { "" }));
        };
        // The user has named the file, so it may be anywhere.
        let limits = ReadLimits { max_bytes: MAX_IDENTITY, outside: true };
        let read = file::read(Path::new("."), path, limits)
            .map_err(|why| format!("{} cannot be read: {why}", path.display()))?;
        match read.truncated {
            true => Err(format!("{} is longer than {MAX_IDENTITY} bytes", path.display())),
            false => Ok(read.text.trim_end().to_owned()),
        }
    }
}

const UNSEEN: &str = "nothing was changed: the user's editor shows nothing outside of a turn, and the user must see each \
change. Call the tool again when the user has sent the next prompt";

/// Shows a text to the user: in the turn, or outside of one if the editor shows it then.
fn show(context: &ToolContext, session: &str, text: String) -> Result<(), String> {
    if context.is_idle(session) {
        if !context.shows_late_updates() {
            return Err(UNSEEN.to_owned());
        }
        context.announce(session, text);
        return Ok(());
    }
    context.editor().say(session, text).map_err(|why| why.message())
}

/// A change as the result of a tool.
fn result(change: memory::Change) -> Result<ToolOutput> {
    let text = change.for_agent();
    let structured =
        json!({ "id": change.id, "text": change.text, "file": change.file, "message": text });
    text.into_tool_output()?.with_structured(&structured)
}
