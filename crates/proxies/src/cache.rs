//! The component `cache`: records what the agent answers, and replays it for the same conversation. The agent
//! `replay-agent` replays without any other agent.
//!
//! - `names`: placeholders for ids and paths; `in_text`: finds these in texts; `raw`: changes the strings of a JSON text
//! - `recording`: what is recorded; `key`: finds it; `got`: what the agent did; `storage`: the file
//! - `lane`: the position of a session in the recording
//! - `player` and `play`: replay a session; `not_recorded`: describes what is missing
//! - `state`: the sessions of a connection

mod got;
mod in_text;
mod key;
mod lane;
mod names;
mod not_recorded;
mod play;
mod player;
mod raw;
mod recording;
mod state;
mod storage;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use acp_proxy::{Agent, Call, Context, Delivery, Error, Json, Next, Proxy, Result, Side};
use acp_wire::{ErrorKind, code};
use clap::{Parser, ValueEnum};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use component_base::options::Interval;
use component_base::{BuiltIn, OptionError};
use lane::{Sent, session_of};
use play::{Input, Replay, recorded, recorded_answer, request};
use player::CANCEL;
use recording::Recording;
use state::{Route, State, session_in, value, version};

/// The file of a recording, unless the user names one.
const DEFAULT_FILE: &str = "recording.jsonl";
const DEFAULT_WAIT: Interval = Interval(std::time::Duration::from_secs(60));
const NO_PAUSE: Interval = Interval(std::time::Duration::ZERO);

/// Records the agent's answers, and replays them for the same conversation.
///
/// A recording makes demonstrations and tests repeatable, without a model or an account. An answer is found by
/// everything that was sent in the session before it, except for ids, times and the place of the project. If a message
/// is not recorded, the error says what was sent and what is recorded.
///
/// A recording contains the conversation, so treat it like the project itself. `replay-agent` replays a recording
/// without an agent.
#[derive(Debug, Clone, Parser, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Cache {
    /// record: the agent answers, and its answers are recorded. replay: only the recording answers. auto: the
    /// recording answers what it has, and the agent answers and is recorded otherwise.
    #[arg(long, value_enum, value_name = "MODE", default_value = "auto")]
    mode: Mode,

    /// The file of the recording.
    #[arg(long, value_name = "FILE", default_value = DEFAULT_FILE)]
    file: PathBuf,

    /// The pause before each update in a replay, such as 20ms.
    #[arg(long, value_name = "TIME", default_value_t = NO_PAUSE)]
    pace: Interval,

    /// How long a replayed turn waits for a message that comes next in the recording, such as session/cancel.
    #[arg(long, value_name = "TIME", default_value_t = DEFAULT_WAIT)]
    wait: Interval,
}

/// Who answers.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// The recording answers what it has. Otherwise the agent answers and is recorded.
    #[default]
    Auto,
    /// The agent answers and is recorded.
    Record,
    /// Only the recording answers.
    Replay,
}

impl Default for Cache {
    fn default() -> Cache {
        Cache { mode: Mode::Auto, file: DEFAULT_FILE.into(), pace: NO_PAUSE, wait: DEFAULT_WAIT }
    }
}

/// An agent that replays a recording of the component cache.
///
/// It needs no model, no network and no account: for tests of editors and proxies, and for demonstrations. Record the
/// conversation with `cache --mode record` before a real agent.
#[derive(Debug, Clone, Parser, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReplayAgent {
    /// The file of the recording.
    #[arg(value_name = "FILE", default_value = DEFAULT_FILE)]
    file: PathBuf,

    /// The pause before each update, such as 20ms.
    #[arg(long, value_name = "TIME", default_value_t = NO_PAUSE)]
    pace: Interval,

    /// How long a turn waits for a message that comes next in the recording, such as session/cancel.
    #[arg(long, value_name = "TIME", default_value_t = DEFAULT_WAIT)]
    wait: Interval,
}

impl Default for ReplayAgent {
    fn default() -> ReplayAgent {
        ReplayAgent { file: DEFAULT_FILE.into(), pace: NO_PAUSE, wait: DEFAULT_WAIT }
    }
}

impl BuiltIn for Cache {
    const NAME: &'static str = "cache";

    fn check(&self) -> std::result::Result<(), OptionError> {
        Recording::load(&self.file, self.mode != Mode::Replay)?;
        let folder = match self.file.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        match self.mode == Mode::Replay || folder.is_dir() {
            true => Ok(()),
            false => Err(OptionError {
                kind: ErrorKind::UnwritableFile,
                why: format!("cannot write {}: there is no such directory", self.file.display()),
            }),
        }
    }

    fn build(&self) -> acp_proxy::Component {
        let may_go_live = self.mode == Mode::Auto;
        let recording = Recording::load(&self.file, self.mode != Mode::Replay);
        let recording = recording.unwrap_or_else(|_| Recording::new(&self.file));
        let state = State::new(recording, self.mode == Mode::Record, may_go_live);
        let replay = Replay {
            state: Arc::new(Mutex::new(state)),
            component: Self::NAME,
            pace: self.pace.0,
            wait: self.wait.0,
            may_go_live,
        };
        let (requests, notifications) = (replay.clone(), replay.clone());
        let mode = self.mode;
        Proxy::new(Self::NAME)
            .raw_turns()
            .on_any_request(async move |call, next| match (next.sender(), mode) {
                (Side::Editor, _) if call.is("initialize") => {
                    initialize(&requests, mode, call, next).await
                }
                (Side::Editor, _) => editor_request(&requests, call, next).await,
                (Side::Agent, Mode::Replay) => {
                    let text = format!("{} replays a recording", Self::NAME);
                    Err(Error::new(code::METHOD_NOT_FOUND, text))
                }
                (Side::Agent, _) => agent_request(&requests, call, next).await,
            })
            .on_any_notification(move |sender, call, context| match sender {
                Side::Editor => editor_notification(&notifications, call, mode != Mode::Replay),
                Side::Agent if mode == Mode::Replay => Delivery::Drop,
                Side::Agent => agent_notification(&notifications, call, context),
            })
            .status(move || {
                let state = replay.state();
                let entries = state.recording.entries().count();
                vec![format!("{entries} recorded messages, {} sessions", state.count())]
            })
            .into()
    }
}

impl BuiltIn for ReplayAgent {
    const NAME: &'static str = "replay-agent";
    const AGENT: bool = true;

    fn check(&self) -> std::result::Result<(), OptionError> {
        Recording::load(&self.file, false).map(drop)
    }

    fn build(&self) -> acp_proxy::Component {
        let recording = Recording::load(&self.file, true);
        let recording = recording.unwrap_or_else(|_| Recording::new(&self.file));
        let replay = Replay {
            state: Arc::new(Mutex::new(State::new(recording, false, false))),
            component: Self::NAME,
            pace: self.pace.0,
            wait: self.wait.0,
            may_go_live: false,
        };
        let (greeting, session, notifications) = (replay.clone(), replay.clone(), replay.clone());
        Agent::new(Self::NAME)
            .raw_turns()
            .on_raw_request("initialize", async move |call, context| {
                replay_initialize(&greeting, &call, &context).await.unwrap_or_else(|| {
                    Ok(Json::trusted(r#"{"protocolVersion":1,"agentCapabilities":{}}"#))
                })
            })
            .on_raw_request("session/new", async move |call, context| {
                replay_request(&session, &call, &context).await
            })
            .on_other_request(async move |call, context| {
                replay_request(&replay, &call, &context).await
            })
            .on_any_notification(move |call, _| {
                editor_notification(&notifications, &mut call.clone(), false);
            })
            .into()
    }
}

/// The version of ACP that an `initialize` asks for.
fn greeting(call: &Call) -> Sent {
    let params = value(call.params.as_ref());
    let params = json!({ "protocolVersion": params["protocolVersion"] });
    Sent::Request { method: "initialize".to_owned(), params }
}

/// Replays the answer to `initialize`, of the requested version or of another one. `None` if none is recorded.
async fn replay_initialize(
    replay: &Replay,
    call: &Call,
    context: &Context,
) -> Option<Result<Json>> {
    let recorded = {
        let state = replay.state();
        let greetings = state.recording.children("initialize");
        let versions = greetings.map(|it| it.sent()["params"]["protocolVersion"].as_i64());
        versions.flatten().collect::<Vec<_>>()
    };
    let Sent::Request { method, params } = greeting(call) else { return None };
    let requested = params["protocolVersion"].as_i64().unwrap_or(1);
    let version = *recorded.iter().min_by_key(|it| requested.abs_diff(**it))?;
    let params = json!({ "protocolVersion": version });
    let route = replay.state().route(&method, &params);
    let Route::Start(id, lane) = route else { return None };
    Some(replay.start(id, *lane, Sent::Request { method, params }, context).await)
}

/// `initialize` always reaches the agent behind the cache. In a replay, the editor gets the recorded answer.
async fn initialize(replay: &Replay, mode: Mode, call: Call, next: Next<Call>) -> Result<Json> {
    if mode == Mode::Replay {
        let context = next.context().clone();
        let live = next.run(call.clone()).await?;
        let Some(answer) = replay_initialize(replay, &call, &context).await else {
            replay.state().on_answer(0, "initialize", &Ok(live.clone()));
            return Ok(live);
        };
        let (one, two) = (version(&live), answer.as_ref().map_or(1, version));
        if one != two {
            let why = format!(
                "the recording is of ACP version {two}, and the agent speaks version {one}"
            );
            return Err(not_recorded::error(
                Cache::NAME,
                "initialize",
                &why,
                &replay.state().recording,
            ));
        }
        return answer;
    }
    let Sent::Request { method, params } = greeting(&call) else { return next.run(call).await };
    // The answer of the agent counts, so it is recorded in any case.
    let (id, number) = replay.state().begin_connection(&Sent::Request { method, params });
    let answer = next.run(call).await;
    replay.state().record_answer(id, number, "initialize", &recorded(&answer));
    answer
}

/// A request of the editor, if an agent is behind this component.
async fn editor_request(replay: &Replay, call: Call, next: Next<Call>) -> Result<Json> {
    let (method, params) = (call.method.name().into_owned(), value(call.params.as_ref()));
    let route = replay.state().route(&method, &params);
    let (id, number) = match route {
        Route::Live(id, number) => (id, number),
        Route::Pass => return next.run(call).await,
        route => return replay_routed(replay, route, method, params, next.context()).await,
    };
    let mut call = call;
    let agent_id = replay.state().agent_id(&params);
    rename_session(&mut call, agent_id);
    let answer = next.run(call).await;
    replay.state().record_answer(id, number, &method, &recorded(&answer));
    save(replay, next.context());
    answer
}

/// A request of the editor, if no agent is behind this component.
async fn replay_request(replay: &Replay, call: &Call, context: &Context) -> Result<Json> {
    let (method, params) = (call.method.name().into_owned(), value(call.params.as_ref()));
    let route = replay.state().route(&method, &params);
    replay_routed(replay, route, method, params, context).await
}

async fn replay_routed(
    replay: &Replay,
    route: Route,
    method: String,
    params: Value,
    context: &Context,
) -> Result<Json> {
    let sent = Sent::Request { method: method.clone(), params };
    match route {
        Route::Replay(inputs) => request(&inputs, sent, context).await,
        Route::Start(id, lane) => replay.start(id, *lane, sent, context).await,
        Route::Live(..) | Route::Pass | Route::Unknown => {
            let why = "its session is not known, because it was not opened since the component was started";
            Err(not_recorded::error(replay.component, &method, why, &replay.state().recording))
        }
    }
}

/// A request of the agent.
async fn agent_request(replay: &Replay, mut call: Call, next: Next<Call>) -> Result<Json> {
    let method = call.method.name().into_owned();
    for_editor(replay, &mut call);
    let recorded_as = replay.state().record_request(&method, call.params.as_ref());
    let context = next.context().clone();
    let mut running = std::pin::pin!(next.run(call));
    let answer = tokio::select! {
        biased;
        answer = &mut running => Some(answer),
        () = context.cancelled() => None,
    };
    let Some(answer) = answer else {
        // The agent has withdrawn its request, so the answer means nothing.
        if let Some((id, number)) = recorded_as {
            replay.state().record_withdrawal(id, number);
        }
        return running.await;
    };
    if let Some((id, number)) = recorded_as {
        replay.state().record_sent(id, &recorded_answer(number, method, &answer));
        save(replay, &context);
    }
    answer
}

/// Gives a message of the agent the session id that the editor knows.
fn for_editor(replay: &Replay, call: &mut Call) {
    let editor_id = replay.state().editor_id(call.params.as_ref());
    rename_session(call, editor_id);
}

/// Gives a message the id by which its receiver knows the session, if it knows another one.
fn rename_session(call: &mut Call, id: Option<String>) {
    if let (Some(id), Some(params)) = (id, &call.params) {
        call.params = Some(params.with_at(&["sessionId"], Some(&Json::string(&id))));
    }
}

fn agent_notification(replay: &Replay, call: &mut Call, context: &Context) -> Delivery {
    let method = call.method.name().into_owned();
    for_editor(replay, call);
    let is_dropped = {
        let mut state = replay.state();
        state.record_notification(&method, call.params.as_ref());
        // It belongs to a session that is being opened in place of a replayed one.
        state.is_replayed(call.params.as_ref().and_then(session_in).as_deref())
    };
    save(replay, context);
    if is_dropped { Delivery::Drop } else { Delivery::Forward }
}

fn editor_notification(replay: &Replay, call: &mut Call, has_agent: bool) -> Delivery {
    let (method, params) = (call.method.name().into_owned(), value(call.params.as_ref()));
    let session = session_of(&params).and_then(|session| replay.state().session(session));
    match session {
        Some((_, Some(inputs))) => {
            if method == CANCEL {
                let sent = Sent::Notification { method, params };
                drop(inputs.send(Input::Message(sent, None)));
            }
            Delivery::Drop
        }
        _ if !has_agent => Delivery::Drop,
        _ => {
            let mut state = replay.state();
            if method == CANCEL {
                state.record_cancel(&method, &params);
            }
            rename_session(call, state.agent_id(&params));
            Delivery::Forward
        }
    }
}

/// Saves the recording. The first failure is logged.
fn save(replay: &Replay, context: &Context) {
    if let Err(why) = replay.state().save() {
        context.log(why);
    }
}
