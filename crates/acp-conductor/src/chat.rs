//! A chat in the terminal, through a chain that runs here: `conductor try`.
//!
//! To the chain this is an editor like any other, at the other end of a pipe.
//!
//! # Layout
//! - `client`: JSON-RPC with the chain; `payload`: what messages say
//! - `input`: what the user types, or what stands in for it
//! - [`view`]: what the user sees; [`wire`]: messages, hop by hop

mod client;
mod input;
mod payload;
pub mod view;
pub mod wire_log;

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use router::Ending;
use serde_json::{Value, json};
use tokio::sync::mpsc::UnboundedReceiver;

use crate::config::Config;
use crate::run::run as run_chain;
use crate::tap::Tap;
use crate::terminal;
use client::{Client, Incoming};
use input::{Input, UserInput};
use view::{Style, View};
use wire_log::WireLog;

/// How much the pipe between the chat and the chain holds.
const PIPE: usize = 1024 * 1024;

/// What the user wants of the chat.
#[derive(Debug, Default)]
pub struct Options {
    /// What to say, instead of asking the user.
    pub prompts: Vec<String>,
    /// Allow whatever the agent asks for.
    pub yes: bool,
    /// Show the messages.
    pub wire: Option<WireDetail>,
    pub style: Style,
    /// The version of ACP to ask for: 1 or 2.
    pub protocol: u8,
}

/// How the messages are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireDetail {
    /// The pieces of a text that is streamed are counted after the first.
    Folded,
    All,
}

/// How a chat ended, other than by an error of the chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ChatEnd {
    /// The user left.
    Closed,
    /// An answer was an error.
    AnswerFailed,
    /// The user did not want to wait any longer.
    Interrupted,
    /// The chain has ended, and the user has read why.
    ChainEnded,
}

/// Runs a chain and a chat with it. `interrupts` has an entry for each Ctrl-C; `stop` ends it all.
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
    let chain = run_chain(config, (Box::new(reader), Box::new(writer)), stop);
    let input = Input::new(options.prompts, &view);
    let chat = Chat {
        client: Client::new(ours),
        input,
        view,
        chain: names,
        yes: options.yes,
        asked: options.protocol.max(1),
        version: 1,
        session: String::new(),
        phase: Phase::Greeting(0),
        reported: Reported::default(),
        questions: VecDeque::new(),
        had_error: false,
        last_turn_failed: false,
        interrupted: false,
        end: None,
    };
    let (ending, left) = tokio::join!(chain, chat.run(&mut interrupts));
    match (ending, left) {
        (_, Ok(ChatEnd::ChainEnded)) => Ok(ChatEnd::ChainEnded),
        // It is the reason for whatever else went wrong.
        (Ending::Failed(line), _) => Err(line),
        (Ending::Clean, left) => left,
    }
}

/// The view, as the chat and the tap have it.
#[derive(Clone)]
struct SharedView(Arc<Mutex<View>>);

impl SharedView {
    fn lock(&self) -> MutexGuard<'_, View> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What the chat waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The answer to `initialize`, by its id.
    Greeting(u64),
    /// The answer to `session/new`.
    Opening(u64),
    /// The user.
    Idle,
    /// The end of the agent's turn; the user may have cancelled it.
    Turn { id: u64, cancelled: bool },
}

/// What the agent has reported since the prompt was sent, in version 2 of ACP. There the answer to a prompt
/// says that it was accepted, and the turn ends when the agent reports that it is idle.
#[derive(Debug, Default)]
struct Reported {
    accepted: bool,
    /// It is at work, or was.
    worked: bool,
    /// The report that it is idle, if that came before the answer.
    idle: Option<Value>,
}

/// A request for permission that waits for the user.
struct Question {
    id: Value,
    title: String,
    options: Vec<Choice>,
}

#[derive(Debug, Clone)]
struct Choice {
    id: String,
    name: String,
    kind: String,
}

struct Chat {
    client: Client,
    input: Input,
    view: SharedView,
    chain: Vec<String>,
    yes: bool,
    /// The version of ACP that is asked for, and the one that the agent has agreed to.
    asked: u8,
    version: u64,
    session: String,
    phase: Phase,
    reported: Reported,
    questions: VecDeque<Question>,
    /// An answer was an error; and so was the last one.
    had_error: bool,
    last_turn_failed: bool,
    interrupted: bool,
    end: Option<Result<ChatEnd, String>>,
}

enum ChatEvent {
    Message(Option<Incoming>),
    Input(UserInput),
    Interrupt,
}

impl Chat {
    async fn run(mut self, interrupts: &mut UnboundedReceiver<()>) -> Result<ChatEnd, String> {
        self.phase = Phase::Greeting(self.client.ask("initialize", &greeting(self.asked)).await);
        let end = loop {
            self.want_input();
            let event = tokio::select! {
                biased;
                Some(()) = interrupts.recv() => ChatEvent::Interrupt,
                // What belongs to one answer is shown before the next prompt is said.
                incoming = self.client.next() => ChatEvent::Message(incoming),
                typed = self.input.next() => ChatEvent::Input(typed),
            };
            match event {
                ChatEvent::Message(Some(incoming)) => self.on_message(incoming).await,
                ChatEvent::Message(None) if self.last_turn_failed => break Ok(ChatEnd::ChainEnded),
                ChatEvent::Message(None) => break Err("the chain has ended".to_owned()),
                ChatEvent::Input(typed) => self.on_input(typed).await,
                ChatEvent::Interrupt => self.interrupt().await,
            }
            if let Some(end) = self.end.take() {
                break end;
            }
            match self.view.lock().broken() {
                None => {}
                // The reader of the pipe has read what it wanted.
                Some(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                    break Ok(ChatEnd::Closed);
                }
                Some(error) => break Err(format!("cannot write to standard output: {error}")),
            }
        };
        self.view.lock().finish_text();
        end
    }

    /// Asks the user for whatever is wanted now.
    fn want_input(&mut self) {
        match (self.phase, self.questions.front()) {
            (Phase::Turn { cancelled: false, .. }, Some(question)) => {
                let prompt = format!("choose 1 to {}: ", question.options.len());
                self.input.want(&prompt, false);
            }
            (Phase::Idle, _) => self.input.want("> ", true),
            _ => {}
        }
    }

    async fn on_message(&mut self, incoming: Incoming) {
        match incoming {
            Incoming::Notification { method, params } => {
                if method == "session/update" && params["sessionId"] == self.session.as_str() {
                    let update = &params["update"];
                    if update["sessionUpdate"] == "state_update" {
                        self.state_reported(update);
                    } else {
                        self.view.lock().update(update);
                    }
                }
            }
            Incoming::Request { id, method, params } => match method.as_str() {
                "session/request_permission" => self.ask_permission(id, &params).await,
                _ => self.client.refuse(&id, &method).await,
            },
            Incoming::Answer { id, outcome } => self.answered(id, outcome).await,
        }
    }

    async fn answered(&mut self, id: u64, outcome: Result<Value, String>) {
        match self.phase {
            Phase::Greeting(asked) if asked == id => match outcome {
                Ok(greeting) => {
                    self.version = greeting["protocolVersion"].as_u64().unwrap_or(1);
                    let cwd = std::env::current_dir().unwrap_or_else(|_| "/".into());
                    let session = json!({ "cwd": cwd, "mcpServers": [] });
                    self.phase = Phase::Opening(self.client.ask("session/new", &session).await);
                }
                Err(why) => self.end = Some(Err(why)),
            },
            Phase::Opening(asked) if asked == id => match outcome {
                Ok(session) => {
                    self.session = session["sessionId"].as_str().unwrap_or_default().to_owned();
                    self.phase = Phase::Idle;
                    if self.input.is_keyboard() {
                        self.show_welcome();
                    }
                }
                Err(why) => self.end = Some(Err(why)),
            },
            Phase::Turn { id: asked, .. } if asked == id => match outcome {
                Ok(answer) if self.version >= 2 && answer["stopReason"].is_null() => {
                    self.reported.accepted = true;
                    if let Some(idle) = self.reported.idle.take() {
                        self.end_turn(ended(&idle));
                    }
                }
                outcome => {
                    self.end_turn(outcome.map(|it| it["stopReason"].as_str().map(str::to_owned)));
                }
            },
            _ => {}
        }
    }

    /// The agent reports whether it is at work, in version 2 of ACP.
    fn state_reported(&mut self, update: &Value) {
        if self.version < 2 || !matches!(self.phase, Phase::Turn { .. }) {
            return;
        }
        match (update["state"] == "idle", self.reported.accepted) {
            (false, _) => (self.reported.worked, self.reported.idle) = (true, None),
            (true, true) => self.end_turn(ended(update)),
            // Without work in between it is about an earlier turn.
            (true, false) if self.reported.worked => self.reported.idle = Some(update.clone()),
            (true, false) => {}
        }
    }

    /// The turn is over: with a reason, or an error.
    fn end_turn(&mut self, end: Result<Option<String>, String>) {
        // A question whose turn is over is no question any more.
        self.questions.clear();
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
            "You are talking to {agent}{through}. Ctrl-C interrupts an answer, Ctrl-D leaves."
        ));
    }

    async fn on_input(&mut self, typed: UserInput) {
        self.view.lock().above_prompt(None);
        let question = match self.phase {
            Phase::Turn { .. } => self.questions.front(),
            _ => None,
        };
        match (typed, question) {
            (UserInput::Line(line), Some(question)) => match question.read(&line) {
                Some(option) => self.decide(Some(option)).await,
                None => self.view.lock().note("Type the number of your choice."),
            },
            // Who interrupts, or leaves, a question leaves the turn.
            (UserInput::Interrupt | UserInput::End, Some(_)) => self.interrupt().await,
            (UserInput::Line(line), None) if line.trim().is_empty() => {}
            (UserInput::Line(_), None) if self.phase != Phase::Idle => {
                self.view.lock().note("There is no question any more.");
            }
            (UserInput::Line(line), None) => self.prompt(&line).await,
            (UserInput::Interrupt, None) => {}
            (UserInput::End, None) => self.end = Some(Ok(self.left())),
        }
    }

    fn left(&self) -> ChatEnd {
        match self.input.is_keyboard() {
            true => ChatEnd::Closed,
            false if self.interrupted => ChatEnd::Interrupted,
            false if self.had_error => ChatEnd::AnswerFailed,
            false => ChatEnd::Closed,
        }
    }

    async fn prompt(&mut self, text: &str) {
        if !self.input.is_keyboard() {
            self.view.lock().prompted(text);
        }
        let params = json!({
            "sessionId": self.session,
            "prompt": [{ "type": "text", "text": text }],
        });
        self.reported = Reported::default();
        let id = self.client.ask("session/prompt", &params).await;
        self.phase = Phase::Turn { id, cancelled: false };
    }

    /// The first time asks the agent to stop, the second time does not wait for it.
    async fn interrupt(&mut self) {
        match self.phase {
            Phase::Turn { id, cancelled: false } => {
                self.phase = Phase::Turn { id, cancelled: true };
                let params = json!({ "sessionId": self.session });
                self.client.notify("session/cancel", &params).await;
                while !self.questions.is_empty() {
                    self.decide(None).await;
                }
                // What else there was to say is not said.
                self.input.forget();
                self.interrupted = true;
            }
            _ => self.end = Some(Ok(ChatEnd::Interrupted)),
        }
    }

    async fn ask_permission(&mut self, id: Value, params: &Value) {
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
            Some(title) => terminal::one_line(title),
            None => self.view.lock().title(call),
        };
        let question = Question { id, title, options: options.collect() };
        let cancelled = !matches!(self.phase, Phase::Turn { cancelled: false, .. });
        let kind = if self.yes { "allow" } else { "reject" };
        let automatic = question.options.iter().find(|it| it.kind.starts_with(kind)).cloned();
        let ask = self.input.is_keyboard() && !self.yes && !question.options.is_empty();
        if ask && !cancelled {
            let names: Vec<&str> = question.options.iter().map(|it| it.name.as_str()).collect();
            self.view.lock().question(&question.title, &names);
        }
        self.questions.push_back(question);
        if cancelled {
            self.decide(None).await;
        } else if !ask {
            self.decide(automatic).await;
        }
    }

    /// Answers the question at hand; with nothing if the user leaves the turn.
    async fn decide(&mut self, choice: Option<Choice>) {
        let Some(question) = self.questions.pop_front() else { return };
        let outcome = match &choice {
            Some(choice) => json!({ "outcome": "selected", "optionId": choice.id }),
            None => json!({ "outcome": "cancelled" }),
        };
        // Who was asked knows what they said.
        if self.yes || !self.input.is_keyboard() || choice.is_none() {
            let told = choice.as_ref().map_or("not answered", |choice| &choice.name);
            self.view.lock().decided(&question.title, told);
        }
        self.client.answer(&question.id, &json!({ "outcome": outcome })).await;
    }
}

/// What an editor says first.
fn greeting(version: u8) -> Value {
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

/// How a turn ended, by the report that the agent is idle.
fn ended(idle: &Value) -> Result<Option<String>, String> {
    match idle["stopReason"].as_str() {
        Some("error") => Err(client::one_line(&idle["error"])),
        reason => Ok(Some(reason.unwrap_or("end_turn").to_owned())),
    }
}

impl Question {
    /// The choice that the user means: by its number, or by how it begins.
    fn read(&self, line: &str) -> Option<Choice> {
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
    fn a_choice_is_a_number_or_a_beginning() {
        let choice = |name: &str| Choice { id: name.into(), name: name.into(), kind: "".into() };
        let options = ["Allow once", "Allow always", "Reject"].map(choice).to_vec();
        let question = Question { id: Value::Null, title: String::new(), options };
        let read = |line: &str| question.read(line).map(|choice| choice.name);
        assert_eq!(read(" 2 ").as_deref(), Some("Allow always"));
        assert_eq!(read("r").as_deref(), Some("Reject"));
        assert!(["", "0", "4", "a", "x", "-1"].iter().all(|line| read(line).is_none()));
    }
}
