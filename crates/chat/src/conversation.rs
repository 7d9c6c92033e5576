//! The conversation with an agent: a state machine without I/O.
//!
//! It is told the messages of the agent and the input of the user. It queues messages to the agent, starts tasks, and
//! tells the view what to show. [`crate::driver`] connects it with the world.
//!
//! # Layout
//! - `prompt`: prompts, their queue, and the end of a turn
//! - `updates`: the updates of the session
//! - `requests`: the requests of the agent, and the questions to the user
//! - `sessions`: opens, lists, loads and resumes sessions
//! - `login`: logs in and out
//! - `slash`: performs the slash commands

mod login;
mod prompt;
mod requests;
mod sessions;
mod slash;
mod updates;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, VecDeque};
use std::ffi::OsString;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use acp_wire::ErrorKind;
use acp_wire::printable::one_line;
use client::error::{self, Description};
use client::{Incoming, Outgoing, Workspace};
use serde_json::{Value, json};

use crate::view::{Activity, SharedView, SlashCommand, UserInput};
use client::settings::Setting;
use client::tool_calls::ToolCalls;
pub(crate) use login::TerminalLogin;
use prompt::TurnState;
use requests::OpenQuestion;
use sessions::Opening;

/// The newest version of ACP that the chat knows.
const MAX_VERSION: u64 = 2;

/// The options of a chat.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The names of the components: proxies, then the agent.
    pub chain: Vec<String>,
    /// The command line of the agent, quoted for a shell, without its environment.
    pub agent_command: String,
    /// The environment variables of the agent in addition to ours, for logins in the terminal.
    pub agent_environment: Vec<(String, String)>,
    /// The working directory of the agent, if it is not ours.
    pub agent_folder: Option<PathBuf>,
    /// Whether a person answers questions.
    pub interactive: bool,
    /// Grant every permission that the agent requests.
    pub yes: bool,
    /// The ACP version to request: 1 or 2.
    pub protocol: u8,
    /// The folder of the session.
    pub folder: PathBuf,
    /// The MCP servers of the session (see [`crate::mcp_server`]).
    pub mcp_servers: Vec<Value>,
    /// The session to open.
    pub session: FirstSession,
    /// Shown once, after the first answer.
    pub next_step: String,
    /// The command that starts this chat again. `ID` stands for the session.
    pub resume_command: String,
    /// Whether the messages between the components are shown. `/wire` changes it.
    pub wire: Arc<AtomicBool>,
    /// The environment variables of terminals that the agent creates.
    pub environment: Vec<(OsString, OsString)>,
}

/// The session that a chat begins with.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum FirstSession {
    /// A new session.
    #[default]
    New,
    /// An earlier session, whose messages are shown.
    Load(String),
    /// An earlier session, whose messages are not shown.
    Resume(String),
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

/// What the chat is waiting for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    /// The answer to `initialize`, or a session.
    Starting,
    /// A login. There is no session.
    LoggedOut,
    /// A prompt of the user.
    Idle,
    /// The end of the agent's turn, which the user may have cancelled.
    Turn { cancelled: bool },
}

/// What an answer is for.
#[derive(Debug, Clone, PartialEq)]
enum Pending {
    Initialize,
    Open(Opening),
    Prompt,
    /// The new value of a setting.
    Set {
        setting: Box<Setting>,
        value: Value,
    },
    /// The sessions of earlier pages.
    List {
        sessions: Vec<Value>,
    },
    Login {
        name: String,
    },
    Logout,
}

/// The result of a task: the answer to the request of the agent with this id.
pub(crate) type TaskResult = (Value, Result<Value, Value>);

/// A task that answers a request of the agent.
pub(crate) type Task = Pin<Box<dyn Future<Output = TaskResult> + Send>>;

/// The state of a conversation.
pub(crate) struct Conversation {
    options: Options,
    view: SharedView,
    pub(crate) outgoing: Outgoing,
    /// Tasks to start.
    pub(crate) tasks: Vec<Task>,
    /// A login that runs in the terminal.
    pub(crate) terminal_login: Option<TerminalLogin>,
    workspace: Workspace,
    phase: Phase,
    /// The requests that the agent has not answered, by id.
    pending: BTreeMap<u64, Pending>,
    /// The requests of the agent that tasks answer.
    running: Vec<Value>,
    /// The agent's answer to `initialize`.
    greeting: Value,
    version: u64,
    session: String,
    /// Updates that arrived before the id of their session.
    early_updates: Vec<(String, Value)>,
    settings: Vec<Setting>,
    agent_commands: Vec<SlashCommand>,
    /// The sessions that were listed last: ids.
    listed: Vec<String>,
    /// How much of the context is used.
    usage: String,
    /// The commands and facts that the view has.
    shown: (Vec<SlashCommand>, Vec<String>),
    /// The lines that wait until the agent is idle.
    queue: VecDeque<String>,
    /// The queue that the view has.
    shown_queue: Vec<String>,
    questions: VecDeque<OpenQuestion>,
    /// When a question has replaced another one that the agent has cancelled.
    question_replaced: Option<Instant>,
    tool_calls: ToolCalls,
    turn: TurnState,
    /// How many prompts were answered in this session.
    answers: usize,
    /// Whether the next step was offered.
    next_step_offered: bool,
    /// Whether any answer was an error.
    had_error: bool,
    /// Whether the last answer was an error.
    last_turn_failed: bool,
    /// Whether a turn was cancelled.
    interrupted: bool,
    /// Whether the last input was Ctrl-C at an idle prompt.
    leaving: bool,
    end: Option<Result<ChatEnd, String>>,
}

impl Conversation {
    pub(crate) fn new(options: Options, view: SharedView) -> Conversation {
        let workspace = Workspace::new(&options.folder, options.environment.clone());
        let mut conversation = Conversation {
            options,
            view,
            outgoing: Outgoing::default(),
            tasks: Vec::new(),
            terminal_login: None,
            workspace,
            phase: Phase::Starting,
            pending: BTreeMap::new(),
            running: Vec::new(),
            greeting: Value::Null,
            version: 1,
            session: String::new(),
            early_updates: Vec::new(),
            settings: Vec::new(),
            agent_commands: Vec::new(),
            listed: Vec::new(),
            usage: String::new(),
            shown: (Vec::new(), Vec::new()),
            queue: VecDeque::new(),
            shown_queue: Vec::new(),
            questions: VecDeque::new(),
            question_replaced: None,
            tool_calls: ToolCalls::default(),
            turn: TurnState::default(),
            answers: 0,
            next_step_offered: false,
            had_error: false,
            last_turn_failed: false,
            interrupted: false,
            leaving: false,
            end: None,
        };
        let params = initialize_params(&conversation.options);
        conversation.request("initialize", &params, Pending::Initialize);
        conversation.enter(Phase::Starting);
        conversation
    }

    /// How the chat has ended.
    pub(crate) fn take_end(&mut self) -> Option<Result<ChatEnd, String>> {
        self.end.take()
    }

    /// Whether input is wanted. Without a person, the next prompt is read when the agent is idle.
    pub(crate) fn wants_input(&self) -> bool {
        self.options.interactive || self.is_idle() && self.queue.is_empty()
    }

    /// Whether the output of a terminal of the agent may change.
    pub(crate) fn has_terminals(&self) -> bool {
        self.workspace.terminals().may_change()
    }

    /// Shows the output of the terminals that changed.
    pub(crate) fn show_terminals(&mut self) {
        for (id, output, exit) in self.workspace.terminals_mut().changed() {
            let exit = exit.map(|exit| exit.to_string());
            self.view.lock().terminal_output(&id, &output, exit.as_deref());
        }
    }

    /// The agent has ended, so it cannot end the commands of its terminals.
    pub(crate) fn on_agent_end(&mut self) {
        self.workspace.terminals_mut().release_all();
        self.show_terminals();
    }

    /// Whether the next line of the user can be performed.
    fn is_idle(&self) -> bool {
        self.phase == Phase::Idle && self.pending.is_empty()
    }

    /// Sends a request.
    fn request(&mut self, method: &str, params: &Value, pending: Pending) {
        let id = self.outgoing.request(method, params);
        self.pending.insert(id, pending);
    }

    /// Changes the phase, and shows it.
    fn enter(&mut self, phase: Phase) {
        self.phase = phase;
        self.show_activity();
    }

    fn show_activity(&self) {
        let since = Instant::now();
        self.view.lock().activity(match self.phase {
            Phase::Starting => Activity::Starting { since },
            Phase::LoggedOut | Phase::Idle if self.is_busy() => Activity::Starting { since },
            Phase::LoggedOut | Phase::Idle => Activity::Idle,
            Phase::Turn { cancelled: false } => Activity::Working { since },
            Phase::Turn { cancelled: true } => Activity::Cancelling { since },
        });
    }

    /// Whether a request of a slash command is open that the user waits for.
    fn is_busy(&self) -> bool {
        let busy = |it: &Pending| !matches!(it, Pending::Set { .. });
        self.pending.values().any(busy)
    }

    /// Handles a message of the agent. `None` means that the connection was closed.
    pub(crate) fn on_message(&mut self, incoming: Option<Incoming>) {
        match incoming {
            Some(Incoming::Notification { method, params }) => match method.as_str() {
                "session/update" => self.on_update(&params),
                "$/cancel_request" => self.on_cancelled_request(&params["requestId"]),
                _ => {}
            },
            Some(Incoming::Request { id, method, params }) => self.on_request(id, &method, &params),
            Some(Incoming::Answer { id, outcome }) => {
                if let Some(pending) = self.pending.remove(&id) {
                    self.on_answer(pending, outcome);
                    self.advance();
                }
            }
            None if self.last_turn_failed => self.end = Some(Ok(ChatEnd::ChainEnded)),
            None => self.end = Some(Err("the chain ended unexpectedly".to_owned())),
        }
    }

    fn on_answer(&mut self, pending: Pending, outcome: Result<Value, Value>) {
        match pending {
            Pending::Initialize => match outcome {
                Ok(greeting) => self.on_greeting(greeting),
                Err(error) => {
                    let description = self.describe(&error, "initialize");
                    self.end = Some(Err(description.to_string()));
                }
            },
            Pending::Open(opening) => self.on_opened(opening, outcome),
            Pending::Prompt => self.on_prompt_answer(outcome),
            Pending::Set { setting, value } => self.on_set(&setting, &value, outcome),
            Pending::List { sessions } => self.on_list(sessions, outcome),
            Pending::Login { name } => self.on_login(&name, outcome),
            Pending::Logout => self.on_logout(outcome),
        }
    }

    fn on_greeting(&mut self, greeting: Value) {
        self.version = greeting["protocolVersion"].as_u64().unwrap_or(1).max(1);
        if self.version > MAX_VERSION {
            let why = self.wrong_answer(
                &format!("speaks version {} of ACP, which this chat does not know", self.version),
                "use a newer conductor, or an older version of the agent",
            );
            return self.end = Some(Err(why));
        }
        // Some agents repeat the number of the request, but speak version 1.
        if self.version >= 2 && greeting["info"].is_null() && greeting["capabilities"].is_null() {
            self.version = 1;
        }
        self.greeting = greeting;
        let opening = match self.options.session.clone() {
            FirstSession::New => Opening::New,
            FirstSession::Load(id) => Opening::Load(id),
            FirstSession::Resume(id) => Opening::Resume(id),
        };
        self.open(opening);
    }

    /// Handles the input of the user.
    pub(crate) fn on_input(&mut self, input: UserInput) {
        let leaving = std::mem::take(&mut self.leaving);
        match input {
            UserInput::Line(line) => self.on_line(&line),
            UserInput::Choice(index) => self.on_choice(index),
            UserInput::Interrupt => {
                self.leaving = leaving;
                self.on_interrupt();
            }
            UserInput::End => self.leave(),
        }
    }

    fn on_line(&mut self, line: &str) {
        if line.trim().is_empty() {
            return;
        }
        // A view answers questions with [`UserInput::Choice`]. A line was typed for later.
        if self.perform_at_once(line) {
            return;
        }
        self.queue.push_back(line.to_owned());
        self.advance();
    }

    /// Handles Ctrl-C: the first one cancels what is running, the next one ends the chat.
    pub(crate) fn on_interrupt(&mut self) {
        match self.phase {
            Phase::Turn { cancelled: false } => self.cancel_turn(),
            // The current session goes on.
            Phase::Starting if !self.session.is_empty() => {
                self.phase = Phase::Idle;
                self.cancel_commands();
            }
            Phase::Idle | Phase::LoggedOut if !self.questions.is_empty() => self.cancel_questions(),
            Phase::Idle | Phase::LoggedOut if !self.pending.is_empty() => self.cancel_commands(),
            Phase::Idle | Phase::LoggedOut if self.options.interactive && !self.leaving => {
                self.leaving = true;
                self.view.lock().note("Press Ctrl-C again to leave, or enter /exit.");
            }
            _ => self.end = Some(Ok(ChatEnd::Interrupted)),
        }
    }

    /// Cancels the requests of slash commands. The change of a setting is quick, and is cancelled only if nothing else
    /// is open.
    fn cancel_commands(&mut self) {
        let busy = self.is_busy();
        for (id, pending) in std::mem::take(&mut self.pending) {
            match pending {
                Pending::Set { .. } if busy => drop(self.pending.insert(id, pending)),
                _ => self.outgoing.notify("$/cancel_request", &json!({ "requestId": id })),
            }
        }
        self.discard_queue();
        self.view.lock().note("Cancelled.");
        self.show_activity();
    }

    /// Ends the chat because the user wants to leave, or has no more prompts.
    fn leave(&mut self) {
        let status = match self.options.interactive {
            true => ChatEnd::Closed,
            false if self.interrupted => ChatEnd::Interrupted,
            false if self.had_error => ChatEnd::AnswerFailed,
            false => ChatEnd::Closed,
        };
        self.end = Some(Ok(status));
        if matches!(self.phase, Phase::Turn { cancelled: false }) {
            self.outgoing.notify("session/cancel", &json!({ "sessionId": self.session }));
        }
        self.cancel_questions();
    }

    /// Tells how to come back to the session, when the chat ends.
    pub(crate) fn say_goodbye(&mut self) {
        let can_return = self.can_load() || self.can_resume();
        if self.options.interactive && self.answers > 0 && can_return {
            // The agent has chosen the id, and the user may paste the command into a shell.
            let session = one_line(&self.session);
            let command = self.options.resume_command.replace("ID", &shell_words::quote(&session));
            self.view.lock().note(&format!("Continue this session with: {command}"));
        }
    }

    fn agent_name(&self) -> &str {
        self.options.chain.last().map_or("", String::as_str)
    }

    /// Describes the error that the agent has answered a request with.
    fn describe(&self, error: &Value, request: &str) -> Description {
        let source = error::Source {
            agent: self.agent_name(),
            command: &self.options.agent_command,
            request,
            greeting: Some(&self.greeting).filter(|it| !it.is_null()),
        };
        error::describe(error, &source)
    }

    /// Describes an answer of the agent that breaks the protocol.
    fn wrong_answer(&self, what: &str, remedy: &str) -> String {
        let description = Description {
            summary: format!("agent '{}' {what}", self.agent_name()),
            remedy: vec![remedy.to_owned()],
            code: ErrorKind::AgentError.code().to_owned(),
            ..Description::default()
        };
        description.to_string()
    }

    /// Shows an error.
    fn show_error(&mut self, text: &str) {
        self.had_error = true;
        self.view.lock().error(text);
    }
}

/// The params of `initialize`.
fn initialize_params(options: &Options) -> Value {
    let info = json!({
        "name": "conductor-try",
        "title": "conductor try",
        "version": env!("CARGO_PKG_VERSION"),
    });
    match options.protocol {
        0 | 1 => {
            let mut capabilities = client::workspace::capabilities();
            if options.interactive {
                capabilities["auth"] = json!({ "terminal": true });
                // Agents of older schemas advertise the command of a login here.
                capabilities["_meta"] = json!({ "terminal-auth": true });
            }
            capabilities["session"] =
                json!({ "configOptions": { "boolean": {} }, "notices": {}, "compaction": {} });
            capabilities["plan"] = json!({});
            json!({ "protocolVersion": 1, "clientCapabilities": capabilities, "clientInfo": info })
        }
        version => {
            let auth = match options.interactive {
                true => json!({ "auth": { "terminal": {} } }),
                false => json!({}),
            };
            json!({ "protocolVersion": version, "capabilities": auth, "info": info })
        }
    }
}
