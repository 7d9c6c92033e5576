//! The editor: a state machine. It reads only small files that a prompt mentions, and waits for nothing.
//!
//! It is told the messages of the chain and the actions of the page. It queues messages to the chain, starts tasks, and
//! writes what the page shows into topics. [`crate::driver`] connects it with the world.
//!
//! # Layout
//! - here: the chain, and what answers are for
//! - `sessions`: opens, lists, loads and closes sessions
//! - `session`: one session: its entries, its turn and its queue
//! - `updates`: the updates of a session
//! - `requests`: the requests of the agent, and the questions to the person
//! - `actions`: what the person does

mod actions;
mod requests;
mod session;
mod sessions;
mod updates;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;

use acp_wire::Json;
use client::error::{self, LoginHow};
use client::{Incoming, Outgoing, Workspace};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use web::protocol::{Chain, Entry, Login};
use web::surface::{Surface, ToOwner, now};
use web::topics::Topics;

use requests::{OpenQuestion, ShownTerminal};
use session::Session;
use sessions::Opening;

/// The topic of the chain.
pub const CHAIN: &str = "chain";
/// The topic of the list of sessions.
pub const SESSIONS: &str = "sessions";
/// The most log messages that are kept.
const MAX_LOG: usize = 500;
/// The longest log message, in characters.
const MAX_LOG_TEXT: usize = 4000;

/// What an editor knows from the beginning.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The names of the components: proxies, then the agent.
    pub components: Vec<String>,
    /// The command line of the agent, quoted for a shell, without its environment.
    pub agent_command: String,
    /// The folder of the sessions.
    pub folder: PathBuf,
    /// The environment variables of terminals that the agent creates.
    pub environment: Vec<(OsString, OsString)>,
}

/// What an answer is for.
#[derive(Debug, Clone, PartialEq)]
enum Pending {
    Initialize,
    Open(Opening),
    Prompt { session: String },
    Set { session: String, select: String, value: Value },
    List { sessions: Vec<Value>, pages: usize },
    Login { name: String },
    Close,
}

/// The answer to a request of the agent, with its id. Work for a page or for a notification has no id.
pub(crate) type TaskResult = (Option<Value>, Result<Value, Value>);
/// Work that answers a request of the agent, or that somebody else waits for.
pub(crate) type Task = Pin<Box<dyn Future<Output = TaskResult> + Send>>;
/// Gets the result of an action.
type ActionAnswer = tokio::sync::oneshot::Sender<Result<Value, String>>;

/// The state of an editor.
pub struct Editor {
    options: Options,
    topics: Topics,
    surface: Surface,
    pub(crate) outgoing: Outgoing,
    /// Tasks to start.
    pub(crate) tasks: Vec<Task>,
    workspace: Workspace,
    chain: Chain,
    /// The agent's answer to `initialize`.
    greeting: Value,
    pending: BTreeMap<u64, (Pending, Option<ActionAnswer>)>,
    /// The requests of the agent that tasks answer. A task ends when its sender is dropped.
    running: Vec<(Value, oneshot::Sender<()>)>,
    sessions: BTreeMap<String, Session>,
    /// The sessions that the person has closed. The agent may still work in them.
    closed: BTreeSet<String>,
    /// Updates that arrived before the id of their session.
    early_updates: Vec<(String, Value)>,
    questions: BTreeMap<String, OpenQuestion>,
    terminals: BTreeMap<String, ShownTerminal>,
    /// Actions that wait for the first session.
    waiting: Vec<ActionAnswer>,
    /// Counts entries of all kinds, for their ids.
    counter: u64,
}

impl std::fmt::Debug for Editor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Editor").field("chain", &self.chain).finish_non_exhaustive()
    }
}

impl Editor {
    /// An editor that greets the chain.
    pub fn new(options: Options, topics: Topics, surface: Surface) -> Editor {
        let workspace = Workspace::new(&options.folder, options.environment.clone());
        let chain = Chain {
            state: "starting".to_owned(),
            components: options.components.clone(),
            ..Chain::default()
        };
        let mut editor = Editor {
            options,
            topics,
            surface,
            outgoing: Outgoing::default(),
            tasks: Vec::new(),
            workspace,
            chain,
            greeting: Value::Null,
            pending: BTreeMap::new(),
            running: Vec::new(),
            sessions: BTreeMap::new(),
            closed: BTreeSet::new(),
            early_updates: Vec::new(),
            questions: BTreeMap::new(),
            terminals: BTreeMap::new(),
            waiting: Vec::new(),
            counter: 0,
        };
        editor.show_chain();
        editor.request("initialize", &initialize_params(), Pending::Initialize, None);
        editor
    }

    fn show_chain(&self) {
        self.topics.put(CHAIN, "chain", Entry::Chain(self.chain.clone()));
    }

    /// A new id for an entry.
    fn next_id(&mut self, kind: &str) -> String {
        self.counter += 1;
        format!("{kind}:{}", self.counter)
    }

    fn request(
        &mut self,
        method: &str,
        params: &Value,
        pending: Pending,
        answer: Option<ActionAnswer>,
    ) {
        let id = self.outgoing.request(method, params);
        self.pending.insert(id, (pending, answer));
    }

    /// Handles a message of the chain.
    pub fn on_message(&mut self, message: Incoming) {
        match message {
            Incoming::Notification { method, params } => self.on_notification(&method, params),
            Incoming::Request { id, method, params } => self.on_request(id, &method, params),
            Incoming::Answer { id, outcome } => {
                if let Some((pending, answer)) = self.pending.remove(&id) {
                    self.on_answer(pending, outcome, answer);
                }
            }
        }
    }

    fn on_notification(&mut self, method: &str, params: Value) {
        match method {
            "session/update" => self.on_update(&params),
            "$/cancel_request" => self.on_cancelled_request(&params["requestId"]),
            "_scp/log" | "_proxy/log" => self.on_log(&params),
            _ if Surface::knows(method) => {
                // A component that does not wait for the answer.
                let (surface, method) = (self.surface.clone(), method.to_owned());
                self.tasks
                    .push(Box::pin(async move { (None, surface.handle(&method, params).await) }));
            }
            _ => {}
        }
    }

    fn on_log(&mut self, params: &Value) {
        let text = |value: &Value| Some(acp_wire::printable::plain(value.as_str()?).into_owned());
        let entry = Entry::Log {
            level: params["level"].as_str().unwrap_or("info").to_owned(),
            component: text(&params["component"]),
            text: text(&params["message"]).unwrap_or_default().chars().take(MAX_LOG_TEXT).collect(),
            time: now(),
        };
        let id = self.next_id("log");
        self.topics.change(CHAIN, |topic| {
            topic.put(&id, entry);
            while topic.len() > MAX_LOG {
                topic.remove_oldest(|it| matches!(it, Entry::Chain(_)));
            }
        });
    }

    fn on_answer(
        &mut self,
        pending: Pending,
        outcome: Result<Value, Value>,
        answer: Option<ActionAnswer>,
    ) {
        let result = match pending {
            Pending::Initialize => self.on_greeting(outcome),
            Pending::Open(opening) => {
                let result = self.on_opened(&opening, outcome);
                self.answer_waiting(&result);
                result
            }
            Pending::Prompt { session } => {
                self.on_turn_end(&session, outcome);
                Ok(Value::Null)
            }
            Pending::Set { session, select, value } => {
                self.on_set(&session, &select, &value, outcome)
            }
            Pending::List { sessions, pages } => self.on_list((sessions, pages), outcome),
            Pending::Login { name } => self.on_login(&name, outcome),
            Pending::Close => {
                outcome.map(|_| Value::Null).map_err(|error| self.describe(&error, "session/close"))
            }
        };
        if let Some(answer) = answer {
            let _ = answer.send(result);
        }
    }

    fn on_greeting(&mut self, outcome: Result<Value, Value>) -> Result<Value, String> {
        match outcome {
            Ok(greeting) => {
                self.greeting = greeting;
                let info = &self.greeting["agentInfo"];
                let name = info["title"].as_str().or(info["name"].as_str()).unwrap_or_default();
                let version = info["version"].as_str().unwrap_or_default();
                let agent = acp_wire::printable::one_line(format!("{name} {version}").trim());
                self.chain.agent = Some(agent).filter(|it| !it.is_empty());
                self.chain.can_load = self.can_load() || self.can_resume();
                self.chain.images = self.prompt_capabilities()["image"] == true;
                self.chain.logins = self.logins();
                self.chain.state = "running".to_owned();
                self.show_chain();
                self.open(Opening::New, None);
                if self.can_list() {
                    self.list_again(None);
                }
            }
            Err(error) => {
                let why = self.describe(&error, "initialize");
                self.chain.state = "ended".to_owned();
                self.chain.error = Some(why.clone());
                self.show_chain();
                self.answer_waiting(&Err(why));
            }
        }
        Ok(Value::Null)
    }

    /// Answers the actions that wait for the first session.
    fn answer_waiting(&mut self, result: &Result<Value, String>) {
        for answer in self.waiting.drain(..) {
            let _ = answer.send(result.clone());
        }
    }

    fn prompt_capabilities(&self) -> &Value {
        &self.greeting["agentCapabilities"]["promptCapabilities"]
    }

    fn logins(&self) -> Vec<Login> {
        let login = |it: error::Login| {
            let command = match &it.how {
                LoginHow::Authenticate => None,
                LoginHow::Terminal(command) => Some(command.clone()),
                LoginHow::Environment { variables, .. } => {
                    Some(format!("{}=… conductor studio …", variables.join("=… ")))
                }
            };
            Login { id: it.id, name: it.name, about: it.description, command }
        };
        let logins = error::logins(&self.greeting, &self.options.agent_command);
        logins.into_iter().map(login).collect()
    }

    fn on_login(&mut self, name: &str, outcome: Result<Value, Value>) -> Result<Value, String> {
        match outcome {
            Ok(_) => {
                self.chain.state = "running".to_owned();
                self.chain.error = None;
                self.show_chain();
                if self.sessions.is_empty() {
                    self.open(Opening::New, None);
                }
                Ok(Value::Null)
            }
            Err(error) => {
                let why = self.describe(&error, "authenticate");
                Err(format!("the log-in '{name}' failed: {why}"))
            }
        }
    }

    /// The chain has ended.
    pub fn on_end(&mut self, why: Option<String>) {
        self.chain.state = "ended".to_owned();
        self.chain.error = why.or(self.chain.error.take());
        self.show_chain();
        for (_, (_, answer)) in std::mem::take(&mut self.pending) {
            if let Some(answer) = answer {
                let _ = answer.send(Err("the chain has ended".to_owned()));
            }
        }
        self.answer_waiting(&Err("the chain has ended".to_owned()));
        self.surface.end();
        self.on_agent_end();
        let open: Vec<String> = self.questions.keys().cloned().collect();
        for entry in open {
            if let Some(question) = self.questions.remove(&entry) {
                self.show_answered(&entry, &question, "cancelled");
            }
        }
        let sessions: Vec<String> = self.sessions.keys().cloned().collect();
        sessions.iter().for_each(|it| self.fail_session(it));
    }

    /// Sends what a person has done with a panel or a comment.
    pub fn on_event(&mut self, event: &ToOwner) {
        self.outgoing.notify(event.method, &event.params);
    }

    /// Describes the error that the agent has answered a request with, for people.
    fn describe(&self, error: &Value, request: &str) -> String {
        self.description(error, request).to_string()
    }

    fn description(&self, error: &Value, request: &str) -> error::Description {
        let source = error::Source {
            agent: self.options.components.last().map_or("", String::as_str),
            command: &self.options.agent_command,
            request,
            greeting: Some(&self.greeting).filter(|it| !it.is_null()),
        };
        error::describe(error, &source)
    }
}

fn initialize_params() -> Value {
    let mut capabilities = client::workspace::capabilities();
    capabilities["session"] = json!({ "configOptions": { "boolean": {} } });
    capabilities["plan"] = json!({});
    capabilities["_meta"] = json!({ "_proxy/log": true, "_scp/log": true });
    let info = json!({
        "name": "conductor-studio",
        "title": "Conductor studio",
        "version": env!("CARGO_PKG_VERSION"),
    });
    let params = json!({
        "protocolVersion": 1, "clientCapabilities": capabilities, "clientInfo": info,
    });
    let json = Json::parse(params.to_string()).ok();
    let added = json.map(|it| Surface::capabilities().add_to(&it));
    added.map_or(params, |it| client::payload::read(&it))
}
