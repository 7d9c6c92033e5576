//! Runs the replay of a session: sends what the agent of the recording sends, and waits for the editor.

use std::collections::HashMap;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use acp_proxy::{Call, Context, Error, Json, Result, to_json};
use acp_wire::code;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;

use super::lane::{Answer, Lane, Sent, session_of};
use super::not_recorded;
use super::player::{CANCEL, Failure, PROMPT, Player, Step};
use super::state::{LaneId, State, UNREADABLE, session_in, value};

/// A message for a replay.
pub(super) enum Input {
    /// A message of the editor's side. Requests have a reply.
    Message(Sent, Option<Reply>),
    /// The session has ended.
    End,
}

/// Answers a request of the editor.
#[derive(Debug)]
pub(super) struct Reply {
    answer: oneshot::Sender<Result<Json>>,
    /// Ends when the answer is on its way, so that later messages stay behind it.
    sent: oneshot::Receiver<()>,
}

impl Reply {
    async fn send(self, answer: Result<Json>) {
        drop(self.answer.send(answer));
        drop(self.sent.await);
    }
}

/// The cache of a connection, and how it replays.
#[derive(Clone)]
pub(super) struct Replay {
    pub(super) state: Arc<Mutex<State>>,
    /// The name of the component in errors.
    pub(super) component: &'static str,
    /// The pause before each notification.
    pub(super) pace: Duration,
    /// How long a turn waits for a message that the recording has next.
    pub(super) wait: Duration,
    /// Whether requests that are not recorded go to the agent.
    pub(super) may_go_live: bool,
}

/// The answer as the recording has it.
pub(super) fn recorded(answer: &Result<Json>) -> Answer {
    answer.as_ref().cloned().map_err(|error| error.json().clone())
}

/// The answer of the editor's side as the recording has it.
pub(super) fn recorded_answer(number: u32, method: String, answer: &Result<Json>) -> Sent {
    let answer = recorded(answer);
    let answer = answer.map(|it| value(Some(&it))).map_err(|it| value(Some(&it)));
    Sent::Answer { number, method, answer }
}

/// A message from recorded parameters.
fn recorded_call(method: &str, params: Option<String>) -> Call {
    Call::new(method, params.map(Json::trusted))
}

/// A message from the parameters of the editor.
fn call(method: &str, params: &Value) -> Result<Call> {
    Ok(Call::new(
        method,
        match params {
            Value::Null => None,
            params => Some(to_json(params)?),
        },
    ))
}

/// Gives a request of the editor to a replay, and waits for the answer.
pub(super) async fn request(
    inputs: &UnboundedSender<Input>,
    sent: Sent,
    context: &Context,
) -> Result<Json> {
    let (answer, receiver) = oneshot::channel();
    // Its end tells the replay that the answer is on its way.
    let (_sending, sent_signal) = oneshot::channel::<()>();
    let reply = Reply { answer, sent: sent_signal };
    let ended = || Error::internal("the session has ended");
    inputs.send(Input::Message(sent, Some(reply))).map_err(|_| ended())?;
    tokio::select! {
        biased;
        answer = receiver => answer.unwrap_or_else(|_| Err(ended())),
        () = context.cancelled() => Err(Error::new(code::CANCELLED, "the request was cancelled")),
    }
}

impl Replay {
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a replay with a request of the editor, and returns its answer.
    pub(super) async fn start(
        &self,
        id: LaneId,
        lane: Lane,
        sent: Sent,
        context: &Context,
    ) -> Result<Json> {
        let inputs =
            self.spawn(id, Player::new(lane, self.may_go_live), Some(sent.clone()), context);
        request(&inputs, sent, context).await
    }

    fn spawn(
        &self,
        id: LaneId,
        player: Player<Reply>,
        setup: Option<Sent>,
        context: &Context,
    ) -> UnboundedSender<Input> {
        let (sender, inputs) = unbounded_channel();
        self.state().start(id, sender.clone());
        let session = Session {
            replay: self.clone(),
            id,
            player,
            has_begun: setup.is_none(),
            setup,
            inputs,
            sender: sender.clone(),
            asks: HashMap::new(),
            context: context.clone(),
        };
        context.spawn(session.run());
        sender
    }
}

/// The replay of one session, or of a request that belongs to no session.
struct Session {
    replay: Replay,
    id: LaneId,
    player: Player<Reply>,
    /// The request that has begun the session.
    setup: Option<Sent>,
    /// Whether the request that begins it was received.
    has_begun: bool,
    inputs: UnboundedReceiver<Input>,
    sender: UnboundedSender<Input>,
    /// The requests to the editor that are not answered, by number.
    asks: HashMap<u32, Ask>,
    context: Context,
}

/// A request to the editor. It is withdrawn when this is dropped.
struct Ask {
    keep: oneshot::Sender<()>,
    /// Ends when the request is answered or withdrawn.
    ended: oneshot::Receiver<()>,
}

/// What a replay does after it has waited.
enum Waited {
    /// It goes on.
    Received,
    /// The session has ended.
    Ended,
    /// The turn cannot be replayed to its end.
    Failed(Failure<Reply>),
}

impl Session {
    async fn run(mut self) {
        loop {
            let step = self.next_step();
            match step {
                Step::Wait { has_limit } => match self.wait(has_limit).await {
                    Waited::Received => {}
                    Waited::Ended => return,
                    Waited::Failed(failure) => {
                        if self.fail_or_go_live(failure).await {
                            return;
                        }
                    }
                },
                Step::Missing { method, params, to, .. }
                    if self.replay.may_go_live && params.get(UNREADABLE).is_none() =>
                {
                    if self.go_live(Sent::Request { method, params }, Some(to)).await {
                        return;
                    }
                }
                step => {
                    let other = self.pause(&step).await;
                    self.perform(other.unwrap_or(step)).await;
                }
            }
        }
    }

    fn next_step(&mut self) -> Step<Reply> {
        let mut state = self.replay.state();
        let State { recording, last_session, .. } = &mut *state;
        self.player.next(recording, &mut || State::session_name(last_session))
    }

    /// Pauses before a notification. If the user cancels the turn meanwhile, returns what happens instead.
    async fn pause(&mut self, step: &Step<Reply>) -> Option<Step<Reply>> {
        if self.replay.pace.is_zero() || !matches!(step, Step::Notify { .. }) {
            return None;
        }
        let pause = tokio::time::sleep(self.replay.pace);
        tokio::pin!(pause);
        loop {
            let input = tokio::select! {
                () = &mut pause => return None,
                input = self.inputs.recv() => input?,
            };
            let Input::Message(sent, reply) = input else {
                // The end is seen again at the next wait.
                drop(self.sender.send(Input::End));
                return None;
            };
            self.player.receive(sent.clone(), reply);
            if matches!(&sent, Sent::Notification { method, .. } if method == CANCEL) {
                let cancelled = self.player.cancel_now(&sent, &self.replay.state().recording);
                if cancelled.is_some() {
                    return cancelled;
                }
            }
        }
    }

    async fn perform(&mut self, step: Step<Reply>) {
        let editor = self.context.editor();
        match step {
            Step::Notify { method, params } => editor.notify_call(recorded_call(&method, params)),
            Step::Ask { number, method, params } => self.ask(number, method, params).await,
            Step::Withdraw { number } => {
                if let Some(Ask { keep, ended }) = self.asks.remove(&number) {
                    drop(keep);
                    // What the agent sends after it stays behind it.
                    drop(ended.await);
                }
            }
            Step::Reply { to, method, answer } => {
                let forked = self.replay.state().on_answer(self.id, &method, &answer);
                if let Some(session) = forked {
                    let id = self.replay.state().fork(&session);
                    self.replay.spawn(id, self.player.fork(), None, &self.context);
                }
                to.send(answer.map_err(Error::from_json)).await;
            }
            Step::Missing { method, to, why, .. } => {
                let error = self.error(&method, &why);
                self.replay.state().on_answer(self.id, &method, &Err(Json::NULL));
                to.send(Err(error)).await;
            }
            Step::Wait { .. } => {}
        }
    }

    fn error(&self, method: &str, why: &str) -> Error {
        not_recorded::error(self.replay.component, method, why, &self.replay.state().recording)
    }

    /// Sends a request of the agent to the editor. The answer becomes a message for this replay.
    async fn ask(&mut self, number: u32, method: String, params: Option<String>) {
        let call = recorded_call(&method, params);
        let (editor, sender) = (self.context.editor(), self.sender.clone());
        let mut request = Box::pin(async move { editor.request_call(call).await });
        // The request leaves before what the agent sends after it.
        let first = poll_fn(|cx| Poll::Ready(request.as_mut().poll(cx))).await;
        let ((keep, withdrawn), (end, ended)) = (oneshot::channel(), oneshot::channel::<()>());
        self.asks.insert(number, Ask { keep, ended });
        self.context.spawn(async move {
            let _end = end;
            let answer = match first {
                Poll::Ready(answer) => answer,
                Poll::Pending => tokio::select! {
                    biased;
                    answer = &mut request => answer,
                    _ = withdrawn => return drop(request),
                },
            };
            let sent = recorded_answer(number, method, &answer);
            drop(sender.send(Input::Message(sent, None)));
        });
    }

    /// Waits for the next message of the editor's side.
    async fn wait(&mut self, has_limit: bool) -> Waited {
        if let Some(failure) = self.player.take_failure() {
            return Waited::Failed(failure);
        }
        let is_session = self.replay.state().session_of(self.id).is_some();
        if self.has_begun && !is_session && !self.player.is_active() {
            return Waited::Ended;
        }
        let received = match has_limit {
            true => tokio::time::timeout(self.replay.wait, self.inputs.recv()).await,
            false => Ok(self.inputs.recv().await),
        };
        match received {
            Ok(Some(Input::Message(sent, reply))) => {
                self.has_begun = true;
                if let Sent::Answer { number, .. } = &sent {
                    self.asks.remove(number);
                }
                self.player.receive(sent, reply);
                Waited::Received
            }
            Ok(Some(Input::End) | None) => Waited::Ended,
            Err(_) => match self.player.give_up(&self.replay.state().recording) {
                Some(failure) => Waited::Failed(failure),
                None => Waited::Received,
            },
        }
    }

    /// A turn cannot be replayed to its end. If there is an agent, it gets the prompt of the turn. Returns whether the
    /// session goes on with the agent.
    async fn fail_or_go_live(&mut self, mut failure: Failure<Reply>) -> bool {
        let prompt = match self.replay.may_go_live {
            true => self.player.rewind(),
            false => None,
        };
        let Some(prompt) = prompt else {
            self.fail(failure).await;
            return false;
        };
        let index = failure.open.iter().position(|(method, _)| method == PROMPT);
        let to = index.map(|index| failure.open.remove(index).1);
        failure.is_running = false;
        self.asks.clear();
        self.fail(failure).await;
        self.go_live(prompt, to).await
    }

    /// Ends a turn that cannot be replayed to its end.
    async fn fail(&self, failure: Failure<Reply>) {
        let Failure { open, is_running, why } = failure;
        if is_running {
            self.end_turn(&self.error(PROMPT, &why));
        }
        for (method, reply) in open {
            reply.send(Err(self.error(&method, &why))).await;
        }
    }

    /// Ends a turn of ACP version 2 with an error.
    fn end_turn(&self, error: &Error) {
        let session = self.replay.state().session_of(self.id);
        let error = value(Some(error.json()));
        let update = json!({
            "sessionUpdate": "state_update", "state": "idle", "stopReason": "error", "error": error,
        });
        let params = json!({ "sessionId": session, "update": update });
        let call = recorded_call("session/update", Some(params.to_string()));
        self.context.editor().notify_call(call);
    }

    /// Continues the session with the agent, which has not seen it before: it gets the settings so far, and the
    /// conversation as a text before the first prompt. Returns false if the agent refuses the session. Without `to`, the
    /// request was answered before.
    async fn go_live(&mut self, sent: Sent, to: Option<Reply>) -> bool {
        self.replay.state().opening += 1;
        let opened = self.open().await;
        let is_open = match opened {
            Ok(agent_id) => {
                self.continue_live(agent_id, sent, to).await;
                true
            }
            Err(why) => {
                match to {
                    Some(to) => to.send(Err(why)).await,
                    None => self.end_turn(&why),
                }
                false
            }
        };
        self.replay.state().opening -= 1;
        is_open
    }

    /// Opens the session with the agent. Returns the id by which the agent knows it.
    async fn open(&mut self) -> Result<Option<String>> {
        let is_session = self.replay.state().session_of(self.id).is_some();
        let (Some(Sent::Request { method, params }), true) = (&self.setup, is_session) else {
            return Ok(None);
        };
        let result = self.context.agent().request_call(call(method, params)?).await?;
        Ok(session_in(&result).or_else(|| session_of(params).map(str::to_owned)))
    }

    async fn continue_live(&mut self, agent_id: Option<String>, sent: Sent, to: Option<Reply>) {
        let agent = self.context.agent();
        let editor_id = self.replay.state().session_of(self.id);
        for (method, params) in std::mem::take(&mut self.player.settings) {
            let params = with_session(params, agent_id.as_deref());
            if let Ok(call) = call(&method, &params) {
                drop(agent.request_call(call).await);
            }
        }
        let transcript = std::mem::take(&mut self.player.transcript);
        let mut waiting = self.player.take_pending();
        waiting.push_front((sent, to));
        {
            let ids = editor_id.as_deref().zip(agent_id.as_deref());
            self.replay.state().go_live(self.id, self.player.lane.clone(), ids);
        }
        self.inputs.close();
        while let Ok(Input::Message(sent, reply)) = self.inputs.try_recv() {
            // The live agent has not asked what the agent of the recording has.
            if !matches!(sent, Sent::Answer { .. }) {
                waiting.push_back((sent, reply));
            }
        }
        let mut transcript = Some(transcript).filter(|it| !it.is_empty());
        for (sent, reply) in waiting {
            self.forward(sent, reply, &mut transcript);
        }
    }

    /// Sends a message to the agent, and records it.
    fn forward(&self, sent: Sent, reply: Option<Reply>, transcript: &mut Option<String>) {
        let (replay, context) = (self.replay.clone(), self.context.clone());
        match (sent, reply) {
            (Sent::Request { method, params }, reply) => {
                let route = replay.state().route(&method, &params);
                let super::state::Route::Live(id, number) = route else { return };
                let agent_id = replay.state().agent_id(&params);
                let mut params = with_session(params, agent_id.as_deref());
                if method == PROMPT
                    && let Some(transcript) = transcript.take()
                {
                    add_transcript(&mut params, &transcript);
                }
                context.clone().spawn(async move {
                    let answer = match call(&method, &params) {
                        Ok(call) => context.agent().request_call(call).await,
                        Err(why) => Err(why),
                    };
                    replay.state().record_answer(id, number, &method, &recorded(&answer));
                    super::save(&replay, &context);
                    if let Some(reply) = reply {
                        reply.send(answer).await;
                    }
                });
            }
            (Sent::Notification { method, params }, _) => {
                replay.state().record_cancel(&method, &params);
                let agent_id = replay.state().agent_id(&params);
                let params = with_session(params, agent_id.as_deref());
                if let Ok(call) = call(&method, &params) {
                    context.agent().notify_call(call);
                }
            }
            (Sent::Answer { .. }, _) => {}
        }
    }
}

fn with_session(mut params: Value, session: Option<&str>) -> Value {
    if let (Some(session), Some(_)) = (session, session_of(&params)) {
        params["sessionId"] = json!(session);
    }
    params
}

fn add_transcript(params: &mut Value, transcript: &str) {
    let text = format!(
        "This conversation continues. So far:{transcript}\n\nThe next message of the user follows."
    );
    if let Some(blocks) = params["prompt"].as_array_mut() {
        blocks.insert(0, json!({ "type": "text", "text": text }));
    }
}
