//! The component `sparkle`: before the first prompt of a session, it asks the agent to load collaboration patterns (the
//! *embodiment*).

use std::collections::BTreeMap;
use std::path::{Component as PathPart, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use acp_proxy::{Call, Delivery, Error, Json, NoInput, Proxy, Result, Side};
use acp_wire::ErrorKind;
use clap::Parser;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;

use component_base::file::{self, ReadLimits};
use component_base::{BuiltIn, OptionError};

/// Before the first prompt of each session, asks the agent to load collaboration patterns.
///
/// Adds an MCP server `sparkle` with the tool `embody_sparkle` to each session. Before the first
/// prompt, sends the agent a prompt to use this tool. The user's prompt waits until the agent has
/// answered. After that, all messages pass unchanged.
#[derive(Debug, Clone, Default, Parser, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Sparkle {
    /// The file with the text that the tool returns. Default: a built-in text.
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,

    /// Also read the FILE of --text if it is a symbolic link out of its directory.
    #[arg(long)]
    outside: bool,

    /// Hide the updates of the agent from the editor until the user's prompt starts.
    #[arg(long)]
    hide: bool,
}

/// The maximum size of the text file, in bytes.
const MAX_TEXT: usize = 256 * 1024;

/// The prompt to the agent.
const REQUEST: &str = "Please use the embody_sparkle tool to load your collaborative patterns.";

/// The default text of the tool.
const TEXT: &str = "\
You are working together with somebody, not for them.

- Say what you have understood before you act on it, and ask when two readings are possible.
- Take small steps, and say after each what you learnt.
- Say plainly when you are not sure, and what would make you sure.
- Keep what you two have agreed on in mind for the whole session.

Confirm in one sentence that you are ready.";

/// The state of each session. Prompts that arrive during the embodiment wait for its end.
#[derive(Clone, Default)]
struct Sessions(Arc<Mutex<BTreeMap<String, SessionState>>>);

#[derive(Clone, Default)]
struct SessionState {
    done: Arc<OnceCell<()>>,
    running: bool,
}

impl Sessions {
    fn table(&self) -> MutexGuard<'_, BTreeMap<String, SessionState>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self, session: &str, running: bool) {
        if let Some(state) = self.table().get_mut(session) {
            state.running = running;
        }
    }
}

fn session_of(params: Option<&Json>) -> Option<String> {
    params?.member("sessionId")?.text().map(|text| text.into_owned())
}

/// The embodiment failed or was cancelled. Its answer becomes the answer to the user's prompt.
struct Stopped(Result<Json>);

impl BuiltIn for Sparkle {
    const NAME: &'static str = "sparkle";

    fn check(&self) -> Result<(), OptionError> {
        let unreadable = |why| OptionError { kind: ErrorKind::UnreadableFile, why };
        self.read().map(drop).map_err(unreadable)
    }

    fn build(&self) -> acp_proxy::Component {
        let sparkle = self.clone();
        let sessions = Sessions::default();
        let (known, closed, hidden) = (sessions.clone(), sessions.clone(), sessions.clone());
        let hide = self.hide;
        let proxy = Proxy::new("sparkle")
            .tool("embody_sparkle", "Loads your collaborative patterns", async move |_: NoInput| {
                // Read at each call, so that changes of the file take effect.
                sparkle.read().map_err(Error::internal)
            })
            .on_raw_request(Side::Editor, "session/prompt", async move |call: Call, next| {
                let Some(session) = session_of(call.params.as_ref()) else {
                    return next.run(call).await;
                };
                let state = sessions.table().entry(session.clone()).or_default().clone();
                let embodied = state.done.get_or_try_init(async || {
                    sessions.running(&session, true);
                    let answer = next.run_extra(embodiment(&session)).await;
                    sessions.running(&session, false);
                    match answer {
                        Ok(result) if !was_cancelled(&result) => Ok(()),
                        stopped => Err(Stopped(stopped)),
                    }
                });
                match embodied.await {
                    Ok(()) => next.run(call).await,
                    Err(Stopped(answer)) => answer,
                }
            })
            .on_raw_request(Side::Editor, "session/close", async move |call: Call, next| {
                session_of(call.params.as_ref()).map(|session| closed.table().remove(&session));
                next.run(call).await
            });
        // A session that is loaded or resumed needs no embodiment.
        ["session/load", "session/resume"]
            .into_iter()
            .fold(proxy, |proxy, method| {
                let known = known.clone();
                proxy.on_raw_request(Side::Editor, method, async move |call: Call, next| {
                    if let Some(session) = session_of(call.params.as_ref()) {
                        let done = Arc::new(OnceCell::new_with(Some(())));
                        known.table().insert(session, SessionState { done, running: false });
                    }
                    next.run(call).await
                })
            })
            .on_raw_notification(Side::Agent, "session/update", move |call, _| {
                let running =
                    |session: String| hidden.table().get(&session).is_some_and(|it| it.running);
                let hide = hide && !reports_state(call.params.as_ref());
                match hide && session_of(call.params.as_ref()).is_some_and(running) {
                    true => Delivery::Drop,
                    false => Delivery::Forward,
                }
            })
            .into()
    }
}

impl Sparkle {
    fn read(&self) -> Result<String, String> {
        match &self.text {
            None => Ok(TEXT.to_owned()),
            Some(path) => {
                let limits = ReadLimits { max_bytes: MAX_TEXT, outside: self.outside };
                // A path with `..` may be outside the working directory: the user has asked for it.
                let outside = path.components().any(|part| part == PathPart::ParentDir);
                let directory = path.parent().filter(|_| outside).unwrap_or(Path::new("."));
                let file = match (outside, path.file_name()) {
                    (true, Some(name)) => Path::new(name),
                    _ => path,
                };
                let read = file::read(directory, file, limits)
                    .map_err(|why| format!("{} cannot be read: {why}", path.display()))?;
                match read.truncated {
                    true => Err(format!("{} is longer than {MAX_TEXT} bytes", path.display())),
                    false => Ok(read.text),
                }
            }
        }
    }
}

fn embodiment(session: &str) -> Call {
    let block =
        Json::object([("type", Some(Json::string("text"))), ("text", Some(Json::string(REQUEST)))]);
    let params = Json::object([
        ("sessionId", Some(Json::string(session))),
        ("prompt", Some(Json::array([&block]))),
    ]);
    Call::new("session/prompt", params)
}

/// Whether an update reports that the agent is running or idle. Such updates are never hidden.
fn reports_state(params: Option<&Json>) -> bool {
    let kind = params.and_then(|params| params.at(&["update", "sessionUpdate"]));
    kind.as_ref().and_then(Json::text).as_deref() == Some("state_update")
}

fn was_cancelled(result: &Json) -> bool {
    result.member("stopReason").as_ref().and_then(Json::text).as_deref() == Some("cancelled")
}
