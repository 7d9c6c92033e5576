//! `conductor try`: a chat in the terminal, through a chain in the same process.
//!
//! To the chain, the chat is an ordinary editor at the other end of a pipe.
//!
//! # Layout
//! - `input`: the prompts, from the keyboard or elsewhere
//! - [`view`]: the output; [`wire_log`]: the messages on each hop, for `--show-wire`

mod input;
pub mod view;
pub mod wire_log;

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use router::Ending;
use serde_json::{Value, json};
use tokio::io::{DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::config::Config;
use crate::run::run as run_chain;
use crate::tap::Tap;
use acp_wire::printable;
use client::error::one_line;
use client::{Connection, Incoming};
use input::{Input, UserInput};
use view::{Style, View};
use wire_log::WireLog;

/// The capacity of the pipe between the chat and the chain.
const PIPE: usize = 1024 * 1024;

/// The options of a chat.
#[derive(Debug, Default)]
pub struct Options {
    /// The prompts to send. If empty, prompts are read from standard input.
    pub prompts: Vec<String>,
    /// Grant every permission that the agent requests.
    pub yes: bool,
    /// Show the messages on each hop.
    pub wire: Option<WireDetail>,
    /// How to format the output.
    pub style: Style,
    /// The ACP version to request: 1 or 2.
    pub protocol: u8,
}

/// Which messages are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireDetail {
    /// Only the first chunk of a streamed text. The others are counted.
    Folded,
    /// All messages.
    All,
}

/// How a chat ended, unless the chain failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChatEnd {
    /// The user exited, or there were no more prompts.
    Closed,
    /// The chat was not interactive, and an answer was an error.
    AnswerFailed,
    /// The user interrupted the chat.
    Interrupted,
    /// The chain has ended, and the reason was already shown.
    ChainEnded,
}

/// Runs a chain and a chat with it. `interrupts` receives a message for each Ctrl-C, and `stop` ends the chain.
///
/// # Errors
/// The chain failed, or standard output cannot be written.
pub async fn run(
    mut config: Config,
    options: Options,
    mut interrupts: UnboundedReceiver<()>,
    stop: impl Future<Output = ()>,
) -> Result<ChatEnd, String> {
    let names: Vec<String> = config.components.iter().map(|spec| spec.name.clone()).collect();
    let view = SharedView(Arc::new(Mutex::new(View::new(options.style, options.wire.is_some()))));
    if let Some(detail) = options.wire {
        let (seen, wire) = (view.clone(), Mutex::new(WireLog::new(&names, detail)));
        config.tap = Some(Tap::new(move |event| {
            let mut wire = wire.lock().unwrap_or_else(PoisonError::into_inner);
            wire.rows(event).iter().for_each(|row| seen.lock().wire(row));
        }));
    }
    let (ours, theirs) = tokio::io::duplex(PIPE);
    let (reader, writer) = tokio::io::split(theirs);
    let (our_reader, our_writer) = tokio::io::split(ours);
    let chain = run_chain(config, (Box::new(reader), Box::new(writer)), stop);
    let input = Input::new(options.prompts, &view);
    let chat = Chat {
        client: Connection::new(our_reader, our_writer),
        input,
        view,
        chain: names,
        yes: options.yes,
        requested_version: options.protocol.max(1),
        version: 1,
        session: String::new(),
        phase: Phase::Initializing(0),
        turn_state: TurnState::default(),
        permission_requests: VecDeque::new(),
        had_error: false,
        last_turn_failed: false,
        interrupted: false,
        end: None,
    };
    let (ending, chat_end) = tokio::join!(chain, chat.run(&mut interrupts));
    match (ending, chat_end) {
        (_, Ok(ChatEnd::ChainEnded)) => Ok(ChatEnd::ChainEnded),
        // The failure of the chain is the cause of all other errors.
        (Ending::Failed(line), _) => Err(line),
        (Ending::Clean, chat_end) => chat_end,
    }
}

/// The view, shared by the chat and the tap.
#[derive(Clone)]
struct SharedView(Arc<Mutex<View>>);

impl SharedView {
    fn lock(&self) -> MutexGuard<'_, View> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the chat is waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The answer to `initialize`, with the id of the request.
    Initializing(u64),
    /// The answer to `session/new`, with the id of the request.
    OpeningSession(u64),
    /// A prompt of the user.
    Idle,
    /// The end of the agent's turn, which the user may have cancelled.
    Turn { id: u64, cancelled: bool },
}

/// The state of a turn in ACP version 2. There the answer to a prompt only means that the prompt was accepted.
/// The turn ends when the agent reports that it is idle.
#[derive(Debug, Default)]
struct TurnState {
    /// Whether the prompt was accepted.
    accepted: bool,
    /// Whether the agent has reported that it is working.
    worked: bool,
    /// The report that the agent is idle, if it arrived before the answer.
    idle: Option<Value>,
}

/// A request for permission that the user has not answered.
struct PermissionRequest {
    id: Value,
    title: String,
    options: Vec<Choice>,
}

/// An option of a request for permission.
#[derive(Debug, Clone)]
struct Choice {
    id: String,
    name: String,
    kind: String,
}

/// The state of a chat.
struct Chat {
    client: Connection<ReadHalf<DuplexStream>, WriteHalf<DuplexStream>>,
    input: Input,
    view: SharedView,
    chain: Vec<String>,
    yes: bool,
    /// The ACP version in the request `initialize`.
    requested_version: u8,
    /// The ACP version in the answer.
    version: u64,
    session: String,
    phase: Phase,
    turn_state: TurnState,
    permission_requests: VecDeque<PermissionRequest>,
    /// Whether any answer was an error.
    had_error: bool,
    /// Whether the last answer was an error.
    last_turn_failed: bool,
    interrupted: bool,
    end: Option<Result<ChatEnd, String>>,
}

/// An event that the chat handles.
enum ChatEvent {
    Message(Option<Incoming>),
    Input(UserInput),
    Interrupt,
}

impl Chat {
    async fn run(mut self, interrupts: &mut UnboundedReceiver<()>) -> Result<ChatEnd, String> {
        self.phase = Phase::Initializing(
            self.client.request("initialize", &initialize_params(self.requested_version)).await,
        );
        let end = loop {
            self.request_input();
            let event = tokio::select! {
                biased;
                Some(()) = interrupts.recv() => ChatEvent::Interrupt,
                // Messages first: an answer is shown completely before the next prompt is sent.
                incoming = self.client.next() => ChatEvent::Message(incoming),
                input = self.input.next() => ChatEvent::Input(input),
            };
            match event {
                ChatEvent::Message(Some(incoming)) => self.on_message(incoming).await,
                ChatEvent::Message(None) if self.last_turn_failed => break Ok(ChatEnd::ChainEnded),
                ChatEvent::Message(None) => break Err("the chain ended unexpectedly".to_owned()),
                ChatEvent::Input(input) => self.on_input(input).await,
                ChatEvent::Interrupt => self.interrupt().await,
            }
            if let Some(end) = self.end.take() {
                break end;
            }
            match self.view.lock().write_error() {
                None => {}
                // The reader closed the pipe early, as `head` does.
                Some(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    break Ok(ChatEnd::Closed);
                }
                Some(error) => break Err(format!("cannot write to standard output: {error}")),
            }
        };
        self.view.lock().finish_text();
        end
    }

    /// Requests a line from the user, if the chat needs one.
    fn request_input(&mut self) {
        match (self.phase, self.permission_requests.front()) {
            (Phase::Turn { cancelled: false, .. }, Some(request)) => {
                let prompt = format!("choose 1 to {}: ", request.options.len());
                self.input.request_line(&prompt, false);
            }
            (Phase::Idle, _) => self.input.request_line("> ", true),
            _ => {}
        }
    }

    async fn on_message(&mut self, incoming: Incoming) {
        match incoming {
            Incoming::Notification { method, params } => {
                if method == "session/update" && params["sessionId"] == self.session.as_str() {
                    let update = &params["update"];
                    if update["sessionUpdate"] == "state_update" {
                        self.on_state_update(update);
                    } else {
                        self.view.lock().update(update);
                    }
                }
            }
            Incoming::Request { id, method, params } => match method.as_str() {
                "session/request_permission" => self.on_permission_request(id, &params).await,
                _ => {
                    let error = format!("method not found: {method}");
                    let error = json!({ "code": -32601, "message": error });
                    self.client.reject(&id, &error).await;
                }
            },
            Incoming::Answer { id, outcome } => {
                self.on_answer(id, outcome.map_err(|error| one_line(&error))).await;
            }
        }
    }

    async fn on_answer(&mut self, id: u64, outcome: Result<Value, String>) {
        match self.phase {
            Phase::Initializing(request) if request == id => match outcome {
                Ok(greeting) => {
                    self.version = greeting["protocolVersion"].as_u64().unwrap_or(1);
                    let cwd = std::env::current_dir().unwrap_or_else(|_| "/".into());
                    let session = json!({ "cwd": cwd, "mcpServers": [] });
                    self.phase =
                        Phase::OpeningSession(self.client.request("session/new", &session).await);
                }
                Err(why) => self.end = Some(Err(why)),
            },
            Phase::OpeningSession(request) if request == id => match outcome {
                Ok(session) => {
                    self.session = session["sessionId"].as_str().unwrap_or_default().to_owned();
                    self.phase = Phase::Idle;
                    if self.input.is_keyboard() {
                        self.show_welcome();
                    }
                }
                Err(why) => self.end = Some(Err(why)),
            },
            Phase::Turn { id: request, .. } if request == id => match outcome {
                Ok(answer) if self.version >= 2 && answer["stopReason"].is_null() => {
                    self.turn_state.accepted = true;
                    if let Some(idle) = self.turn_state.idle.take() {
                        self.end_turn(stop_reason(&idle));
                    }
                }
                outcome => {
                    self.end_turn(outcome.map(|it| it["stopReason"].as_str().map(str::to_owned)));
                }
            },
            _ => {}
        }
    }

    /// Handles the agent's report that it is working or idle (ACP version 2).
    fn on_state_update(&mut self, update: &Value) {
        if self.version < 2 || !matches!(self.phase, Phase::Turn { .. }) {
            return;
        }
        match (update["state"] == "idle", self.turn_state.accepted) {
            (false, _) => (self.turn_state.worked, self.turn_state.idle) = (true, None),
            (true, true) => self.end_turn(stop_reason(update)),
            // The agent has not reported work in this turn, so this report belongs to an earlier turn.
            (true, false) if self.turn_state.worked => self.turn_state.idle = Some(update.clone()),
            (true, false) => {}
        }
    }

    /// Ends the turn, with the stop reason or an error.
    fn end_turn(&mut self, end: Result<Option<String>, String>) {
        // The agent no longer waits for permissions.
        self.permission_requests.clear();
        self.phase = Phase::Idle;
        self.last_turn_failed = end.is_err();
        match end {
            Ok(reason) => self.view.lock().end_turn(reason.as_deref()),
            Err(why) => {
                self.had_error = true;
                self.view.lock().error(&why);
            }
        }
    }

    fn show_welcome(&self) {
        let (agent, proxies) = match self.chain.split_last() {
            Some((agent, proxies)) => (agent.as_str(), proxies.join(", then ")),
            None => ("", String::new()),
        };
        let through = if proxies.is_empty() { proxies } else { format!(" through {proxies}") };
        self.view.lock().note(&format!(
            "You are talking to {agent}{through}. Ctrl-C interrupts an answer, Ctrl-D exits."
        ));
    }

    async fn on_input(&mut self, typed: UserInput) {
        self.view.lock().above_prompt(None);
        let request = match self.phase {
            Phase::Turn { .. } => self.permission_requests.front(),
            _ => None,
        };
        match (typed, request) {
            (UserInput::Line(line), Some(request)) => match request.parse_choice(&line) {
                Some(option) => self.answer_permission(Some(option)).await,
                None => self.view.lock().note("Type the number of your choice."),
            },
            // Interrupting a request for permission interrupts the turn.
            (UserInput::Interrupt | UserInput::End, Some(_)) => self.interrupt().await,
            (UserInput::Line(line), None) if line.trim().is_empty() => {}
            (UserInput::Line(_), None) if self.phase != Phase::Idle => {
                self.view.lock().note("The agent no longer waits for this answer.");
            }
            (UserInput::Line(line), None) => self.prompt(&line).await,
            (UserInput::Interrupt, None) => {}
            (UserInput::End, None) => self.end = Some(Ok(self.end_status())),
        }
    }

    fn end_status(&self) -> ChatEnd {
        match self.input.is_keyboard() {
            true => ChatEnd::Closed,
            false if self.interrupted => ChatEnd::Interrupted,
            false if self.had_error => ChatEnd::AnswerFailed,
            false => ChatEnd::Closed,
        }
    }

    async fn prompt(&mut self, text: &str) {
        if !self.input.is_keyboard() {
            self.view.lock().prompt(text);
        }
        let params = json!({
            "sessionId": self.session,
            "prompt": [{ "type": "text", "text": text }],
        });
        self.turn_state = TurnState::default();
        let id = self.client.request("session/prompt", &params).await;
        self.phase = Phase::Turn { id, cancelled: false };
    }

    /// Handles an interrupt: the first one cancels the turn, the second one ends the chat.
    async fn interrupt(&mut self) {
        match self.phase {
            Phase::Turn { id, cancelled: false } => {
                self.phase = Phase::Turn { id, cancelled: true };
                let params = json!({ "sessionId": self.session });
                self.client.notify("session/cancel", &params).await;
                while !self.permission_requests.is_empty() {
                    self.answer_permission(None).await;
                }
                // The remaining prompts are not sent.
                self.input.discard_rest();
                self.interrupted = true;
            }
            _ => self.end = Some(Ok(ChatEnd::Interrupted)),
        }
    }

    async fn on_permission_request(&mut self, id: Value, params: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let options = params["options"].as_array().map(Vec::as_slice).unwrap_or_default();
        let options = options.iter().map(|it| Choice {
            id: text(&it["optionId"]),
            name: text(&it["name"]),
            kind: text(&it["kind"]),
        });
        let call = match &params["subject"] {
            Value::Null => &params["toolCall"],
            subject => &subject["toolCall"],
        };
        let title = match params["title"].as_str() {
            Some(title) => printable::one_line(title),
            None => self.view.lock().title(call),
        };
        let request = PermissionRequest { id, title, options: options.collect() };
        let cancelled = !matches!(self.phase, Phase::Turn { cancelled: false, .. });
        let kind = if self.yes { "allow" } else { "reject" };
        let automatic = request.options.iter().find(|it| it.kind.starts_with(kind)).cloned();
        let ask = self.input.is_keyboard() && !self.yes && !request.options.is_empty();
        if ask && !cancelled {
            let names: Vec<&str> = request.options.iter().map(|it| it.name.as_str()).collect();
            self.view.lock().permission_request(&request.title, &names);
        }
        self.permission_requests.push_back(request);
        if cancelled {
            self.answer_permission(None).await;
        } else if !ask {
            self.answer_permission(automatic).await;
        }
    }

    /// Answers the oldest request for permission. `None` means that the turn was cancelled.
    async fn answer_permission(&mut self, choice: Option<Choice>) {
        let Some(request) = self.permission_requests.pop_front() else { return };
        let outcome = match &choice {
            Some(choice) => json!({ "outcome": "selected", "optionId": choice.id }),
            None => json!({ "outcome": "cancelled" }),
        };
        // A choice that the user has typed is not repeated.
        if self.yes || !self.input.is_keyboard() || choice.is_none() {
            let decision = choice.as_ref().map_or("not answered", |choice| &choice.name);
            self.view.lock().permission_answer(&request.title, decision);
        }
        self.client.answer(&request.id, &json!({ "outcome": outcome })).await;
    }
}

/// The params of `initialize`.
fn initialize_params(version: u8) -> Value {
    let info = json!({
        "name": "conductor-try",
        "title": "conductor try",
        "version": env!("CARGO_PKG_VERSION"),
    });
    match version {
        1 => json!({
            "protocolVersion": 1,
            "clientCapabilities": {
                "fs": { "readTextFile": false, "writeTextFile": false },
                "terminal": false,
            },
            "clientInfo": info,
        }),
        version => json!({ "protocolVersion": version, "capabilities": {}, "info": info }),
    }
}

/// The stop reason or error in a report that the agent is idle.
fn stop_reason(idle: &Value) -> Result<Option<String>, String> {
    match idle["stopReason"].as_str() {
        Some("error") => Err(one_line(&idle["error"])),
        reason => Ok(Some(reason.unwrap_or("end_turn").to_owned())),
    }
}

impl PermissionRequest {
    /// Parses the choice of the user: a number, or the start of a name.
    fn parse_choice(&self, line: &str) -> Option<Choice> {
        let line = line.trim().to_lowercase();
        if let Ok(number) = line.parse::<usize>() {
            return self.options.get(number.checked_sub(1)?).cloned();
        }
        let begins = |it: &&Choice| it.name.to_lowercase().starts_with(&line);
        let mut fitting = self.options.iter().filter(begins);
        match (line.is_empty(), fitting.next(), fitting.next()) {
            (false, Some(choice), None) => Some(choice.clone()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_is_a_number_or_the_start_of_a_name() {
        let choice = |name: &str| Choice { id: name.into(), name: name.into(), kind: "".into() };
        let options = ["Allow once", "Allow always", "Reject"].map(choice).to_vec();
        let request = PermissionRequest { id: Value::Null, title: String::new(), options };
        let read = |line: &str| request.parse_choice(line).map(|choice| choice.name);
        assert_eq!(read(" 2 ").as_deref(), Some("Allow always"));
        assert_eq!(read("r").as_deref(), Some("Reject"));
        assert!(["", "0", "4", "a", "x", "-1"].iter().all(|line| read(line).is_none()));
    }
}
