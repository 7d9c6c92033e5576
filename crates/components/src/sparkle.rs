//! Sparkle: before the first prompt of a session, the agent is asked to take on a manner of working
//! together.

use std::collections::BTreeMap;
use std::path::{Component as Part, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use acp_proxy::{Call, Delivery, Error, Json, NoInput, Proxy, Result, Side};
use clap::Parser;
use tokio::sync::OnceCell;

use crate::catalog::Component;
use crate::file::{self, Bounds};

/// Asks the agent to take on a manner of working together before the first prompt of each session.
///
/// Adds an MCP server `sparkle` with the tool `embody_sparkle` to each session. Before the first
/// prompt, the agent is asked to use it; the user's own prompt waits until that is done. Then it is
/// as if it were not there.
#[derive(Debug, Clone, Parser)]
pub struct Sparkle {
    /// What the tool gives the agent to read, instead of a few sentences of our own.
    #[arg(long, value_name = "FILE")]
    text: Option<PathBuf>,

    /// Read the FILE of --text also if it is a link out of its folder.
    #[arg(long)]
    outside: bool,

    /// Keep what the agent says and does meanwhile from the editor.
    #[arg(long)]
    hide: bool,
}

/// The longest text that is read from a file, in bytes.
const MOST: usize = 256 * 1024;

/// What the agent is asked.
const REQUEST: &str = "Please use the embody_sparkle tool to load your collaborative patterns.";

/// What the tool says where the user has no words of their own.
const TEXT: &str = "\
You are working together with somebody, not for them.

- Say what you have understood before you act on it, and ask when two readings are possible.
- Take small steps, and say after each what you learnt.
- Say plainly when you are not sure, and what would make you sure.
- Keep what you two have agreed on in mind for the whole session.

Confirm in one sentence that you are ready.";

/// Sessions, and whether each is done; whoever comes while it is being done waits.
#[derive(Clone, Default)]
struct Sessions(Arc<Mutex<BTreeMap<String, State>>>);

#[derive(Clone, Default)]
struct State {
    done: Arc<OnceCell<()>>,
    running: bool,
}

impl Sessions {
    fn table(&self) -> MutexGuard<'_, BTreeMap<String, State>> {
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

/// The embodiment did not come to its end: its answer is the answer to the user's prompt.
struct Stopped(Result<Json>);

impl Component for Sparkle {
    const NAME: &'static str = "sparkle";

    fn check(&self) -> Result<(), String> {
        self.read().map(drop)
    }

    fn make(&self) -> acp_proxy::Component {
        let sparkle = self.clone();
        let sessions = Sessions::default();
        let (known, closed, hidden) = (sessions.clone(), sessions.clone(), sessions.clone());
        let hide = self.hide;
        let proxy = Proxy::new("sparkle")
            .tool("embody_sparkle", "Loads your collaborative patterns", async move |_: NoInput| {
                // Read each time: a text that is being worked on is used as it is.
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
        // What was embodied before need not be again.
        ["session/load", "session/resume"]
            .into_iter()
            .fold(proxy, |proxy, method| {
                let known = known.clone();
                proxy.on_raw_request(Side::Editor, method, async move |call: Call, next| {
                    if let Some(session) = session_of(call.params.as_ref()) {
                        let done = Arc::new(OnceCell::new_with(Some(())));
                        known.table().insert(session, State { done, running: false });
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
                let bounds = Bounds { most: MOST, outside: self.outside };
                // Where the user has written that it is elsewhere, it may be.
                let elsewhere = path.components().any(|part| part == Part::ParentDir);
                let folder = path.parent().filter(|_| elsewhere).unwrap_or(Path::new("."));
                let file = match (elsewhere, path.file_name()) {
                    (true, Some(name)) => Path::new(name),
                    _ => path,
                };
                let read = file::read(folder, file, bounds)
                    .map_err(|why| format!("{} cannot be read: {why}", path.display()))?;
                match read.cut {
                    true => Err(format!("{} is longer than {MOST} bytes", path.display())),
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

/// Whether the agent is at work remains visible.
fn reports_state(params: Option<&Json>) -> bool {
    let kind = params.and_then(|params| params.at(&["update", "sessionUpdate"]));
    kind.as_ref().and_then(Json::text).as_deref() == Some("state_update")
}

fn was_cancelled(result: &Json) -> bool {
    result.member("stopReason").as_ref().and_then(Json::text).as_deref() == Some("cancelled")
}
