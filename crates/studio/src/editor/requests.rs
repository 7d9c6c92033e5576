//! The requests of the agent, and the questions to the person.

use std::path::PathBuf;

use acp_wire::printable::one_line;
use client::terminals::shown_command;
use client::workspace::{OutsidePath, Usage};
use client::{Reply, rpc_error};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use web::protocol::{Activity, Choice, Entry, Exit, Place, Question, Tool};
use web::surface::Surface;

use super::{Editor, TaskResult};
use crate::content;

/// The most requests that are being performed. More are refused.
const MAX_RUNNING: usize = 1000;
/// The most open questions. More are answered as if the person had cancelled them.
const MAX_QUESTIONS: usize = 500;

/// How many terminals are remembered, with those that were released.
const MAX_TERMINALS: u64 = 1000;

/// What is shown of a terminal.
#[derive(Debug, Clone)]
pub(super) struct ShownTerminal {
    session: String,
    command: String,
    folder: Option<String>,
}

/// A question that is not answered.
#[derive(Debug)]
pub(super) struct OpenQuestion {
    session: String,
    /// The id of the request.
    id: Value,
    question: Question,
    about: Subject,
}

/// What a question is about.
#[derive(Debug)]
enum Subject {
    /// `session/request_permission`.
    Permission,
    /// A file or a folder outside of the folder of the session.
    Outside { method: String, params: Value, place: OutsidePath },
}

impl Editor {
    pub(super) fn on_request(&mut self, id: Value, method: &str, params: Value) {
        if method == "session/request_permission" {
            return self.on_permission_request(id, &params);
        }
        let session = params["sessionId"].as_str().unwrap_or_default();
        let is_closed = self.closed.contains(session) && !self.sessions.contains_key(session);
        if method == "terminal/create" && is_closed {
            // Nobody would see the command, or could stop it.
            let why = "the session was closed";
            return self.outgoing.answer(&id, &Err(rpc_error::internal(why)));
        }
        if Surface::knows(method) {
            let (surface, method) = (self.surface.clone(), method.to_owned());
            return self.start(id, async move { surface.handle(&method, params).await });
        }
        match self.workspace.handle(method, &params) {
            Some(reply) => self.reply(id, method, &params, reply),
            None => self.outgoing.answer(&id, &Err(rpc_error::method_not_found(method))),
        }
    }

    /// Answers a request when its work is done.
    fn start(
        &mut self,
        id: Value,
        work: impl Future<Output = Result<Value, Value>> + Send + 'static,
    ) {
        if self.running.len() >= MAX_RUNNING {
            let why = format!("{MAX_RUNNING} requests are being performed; wait for an answer");
            return self.outgoing.answer(&id, &Err(rpc_error::internal(&why)));
        }
        let (running, cancelled) = oneshot::channel::<()>();
        self.running.push((id.clone(), running));
        self.tasks.push(Box::pin(async move {
            tokio::select! {
                outcome = work => (Some(id), outcome),
                _ = cancelled => (Some(id), Err(rpc_error::cancelled())),
            }
        }));
    }

    fn reply(&mut self, id: Value, method: &str, params: &Value, reply: Reply) {
        match reply {
            Reply::Ready(outcome) => {
                if method == "terminal/create"
                    && let Ok(created) = &outcome
                {
                    self.on_terminal(params, created);
                }
                self.outgoing.answer(&id, &outcome);
            }
            Reply::Pending(work) => {
                let written = match method {
                    "fs/write_text_file" => params["path"].as_str().map(PathBuf::from),
                    _ => None,
                };
                let surface = self.surface.clone();
                self.start(id, async move {
                    let outcome = work.await;
                    if let (Some(path), Ok(_)) = (written, &outcome) {
                        surface.file_written(&path);
                    }
                    outcome
                });
            }
            Reply::Outside(place) => self.ask_about_place(id, method, params, place),
        }
        self.show_terminals();
    }

    fn on_terminal(&mut self, params: &Value, created: &Value) {
        let Some(terminal) = created["terminalId"].as_str() else { return };
        let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
        let folder = params["cwd"].as_str();
        let shown = ShownTerminal {
            command: shown_command(params),
            folder: folder.and_then(|it| content::other_folder(it, self.surface.project())),
            session,
        };
        self.show_terminal(&shown, terminal, "", None);
        self.terminals.insert(terminal.to_owned(), shown);
        // The ids of terminals are numbers that grow.
        let number = |id: &str| id.rsplit('-').next().and_then(|it| it.parse::<u64>().ok());
        if let Some(oldest) = number(terminal).and_then(|it| it.checked_sub(MAX_TERMINALS)) {
            let open = self.workspace.terminals();
            self.terminals
                .retain(|id, _| open.is_open(id) || number(id).is_none_or(|it| it > oldest));
        }
    }

    /// Ends the command of a terminal, because the person wants that. The agent gets to know that it has ended.
    pub(super) fn kill_terminal(&mut self, terminal: &str) -> Result<Value, String> {
        let killed = self.workspace.terminals().kill(&json!({ "terminalId": terminal }));
        killed.map(|_| Value::Null).map_err(|_| "the command has ended already".to_owned())
    }

    /// Ends the commands of all terminals of a session, which was closed.
    pub(super) fn release_terminals_of(&mut self, session: &str) {
        let of_session = self.terminals.iter().filter(|(_, it)| it.session == session);
        let ids: Vec<String> = of_session.map(|(id, _)| id.clone()).collect();
        for id in ids {
            // An error means that the agent has released it.
            let _ = self.workspace.terminals_mut().release(&json!({ "terminalId": id }));
        }
        self.show_terminals();
    }

    /// The agent has ended, so it cannot end the commands of its terminals.
    pub(crate) fn on_agent_end(&mut self) {
        self.workspace.terminals_mut().release_all();
        self.show_terminals();
    }

    /// Shows the output of the terminals that changed.
    pub(crate) fn show_terminals(&mut self) {
        for (id, output, exit) in self.workspace.terminals_mut().changed() {
            if let Some(shown) = self.terminals.get(&id) {
                let exit = exit.map(|it| Exit { code: it.code, signal: it.signal_name() });
                self.show_terminal(shown, &id, &output, exit);
            }
        }
    }

    /// Whether the output of a terminal may change.
    pub(crate) fn has_terminals(&self) -> bool {
        self.workspace.terminals().may_change()
    }

    fn show_terminal(
        &self,
        shown: &ShownTerminal,
        terminal: &str,
        output: &str,
        exit: Option<Exit>,
    ) {
        const MAX_OUTPUT: usize = 256 * 1024;
        let Some(session) = self.sessions.get(&shown.session) else { return };
        let id = format!("terminal:{terminal}");
        let start = output.len().saturating_sub(MAX_OUTPUT);
        let start = (start..=output.len()).find(|at| output.is_char_boundary(*at)).unwrap_or(0);
        let (text, cut) = (&output[start..], start > 0);
        // Most outputs only grow.
        if let Some(Entry::Terminal { text: old, exit: None, cut: false, .. }) = session.get(&id)
            && let (false, None, Some(more)) = (cut, &exit, text.strip_prefix(old.as_str()))
        {
            return session.append(&id, more);
        }
        let ShownTerminal { command, folder, .. } = shown.clone();
        session.put(&id, Entry::Terminal { command, folder, text: text.to_owned(), exit, cut });
    }

    /// Answers a request whose task is done.
    pub(crate) fn on_task(&mut self, (id, outcome): TaskResult) {
        let Some(id) = id else { return };
        let Some(at) = self.running.iter().position(|it| it.0 == id) else { return };
        self.running.remove(at);
        self.show_terminals();
        self.outgoing.answer(&id, &outcome);
    }

    /// The agent no longer waits for the answer to a request.
    pub(super) fn on_cancelled_request(&mut self, id: &Value) {
        let question = self.questions.iter().find(|(_, it)| it.id == *id);
        if let Some(at) = self.running.iter().position(|it| it.0 == *id) {
            // Its task ends.
            self.running.remove(at);
        } else if let Some(entry) = question.map(|(entry, _)| entry.clone()) {
            if let Some(open) = self.questions.remove(&entry) {
                self.show_answered(&entry, &open, "cancelled");
            }
        } else {
            return;
        }
        self.outgoing.answer(id, &Err(rpc_error::cancelled()));
    }

    fn on_permission_request(&mut self, id: Value, params: &Value) {
        let session_id = params["sessionId"].as_str().unwrap_or_default().to_owned();
        let session = self.sessions.get(&session_id);
        let call = match session {
            Some(session) => session.tool_calls.complete(&params["toolCall"]),
            None => params["toolCall"].clone(),
        };
        let tool = content::tool(&call, self.surface.project(), 0, None);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let choice = |it: &Value| Choice {
            id: text(&it["optionId"]),
            name: one_line(&text(&it["name"])),
            effect: effect(it["kind"].as_str()).to_owned(),
        };
        let choices = params["options"].as_array().into_iter().flatten().map(choice);
        let question = Question {
            title: tool.title.clone(),
            command: content::command_line(&call),
            folder: content::command_folder(&call, self.surface.project()),
            tool: Some(tool),
            choices: choices.collect(),
            answer: None,
        };
        let open = OpenQuestion { session: session_id, id, question, about: Subject::Permission };
        self.ask(open);
    }

    fn ask_about_place(&mut self, id: Value, method: &str, params: &Value, place: OutsidePath) {
        let what = place.usage.verb();
        let runs = place.usage == Usage::Run;
        let path = one_line(&place.path.display().to_string());
        let choice = |id: &str, name: &str| Choice {
            id: id.to_owned(),
            name: name.to_owned(),
            effect: id.to_owned(),
        };
        let tool = Tool {
            title: what.to_owned(),
            tool: place.usage.kind().to_owned(),
            places: match runs {
                true => Vec::new(),
                false => vec![Place { path: path.clone(), line: None }],
            },
            ..Tool::default()
        };
        let question = Question {
            title: format!("{what} {path}, which is outside of the folder of the project"),
            tool: Some(tool).filter(|_| !runs),
            command: runs.then(|| shown_command(params)),
            folder: runs.then_some(path),
            choices: vec![choice("allow_once", "Allow once"), choice("reject_once", "Reject")],
            answer: None,
        };
        let session = params["sessionId"].as_str().unwrap_or_default().to_owned();
        let about = Subject::Outside { method: method.to_owned(), params: params.clone(), place };
        self.ask(OpenQuestion { session, id, question, about });
    }

    fn ask(&mut self, open: OpenQuestion) {
        let entry = self.next_id("q");
        let cancels = match self.sessions.get_mut(&open.session) {
            // Nobody would see the question.
            None => true,
            Some(session) => {
                session.activity == Activity::Cancelling
                    || open.question.choices.is_empty()
                    || self.questions.len() >= MAX_QUESTIONS
            }
        };
        if let Some(session) = self.sessions.get_mut(&open.session) {
            session.end_text();
            session.put(&entry, Entry::Question(open.question.clone()));
            session.questions += 1;
            session.show_in_list();
        }
        match cancels {
            true => self.settle(&entry, open, None),
            false => drop(self.questions.insert(entry, open)),
        }
    }

    /// The person has answered a question.
    ///
    /// # Errors
    /// It was answered already, or the answer is not one of its choices.
    pub(super) fn answer_question(&mut self, entry: &str, choice: &str) -> Result<Value, String> {
        let Some(open) = self.questions.get(entry) else {
            return Err("the question was answered already".to_owned());
        };
        if !open.question.choices.iter().any(|it| it.id == choice) {
            return Err(format!("the question has no answer '{choice}'"));
        }
        if let Some(open) = self.questions.remove(entry) {
            self.settle(entry, open, Some(choice));
        }
        Ok(Value::Null)
    }

    /// Answers the request of a question. `None` means that the turn was cancelled.
    fn settle(&mut self, entry: &str, open: OpenQuestion, choice: Option<&str>) {
        self.show_answered(entry, &open, choice.unwrap_or("cancelled"));
        let OpenQuestion { id, about, .. } = open;
        match about {
            Subject::Permission => {
                let outcome = match choice {
                    Some(choice) => json!({ "outcome": "selected", "optionId": choice }),
                    None => json!({ "outcome": "cancelled" }),
                };
                self.outgoing.answer(&id, &Ok(json!({ "outcome": outcome })));
            }
            Subject::Outside { method, params, place } => match choice == Some("allow_once") {
                true => {
                    let reply = self.workspace.handle_allowed(&method, &params, &place.path);
                    self.reply(id, &method, &params, reply);
                }
                false => {
                    let error = rpc_error::internal(place.usage.refusal());
                    self.outgoing.answer(&id, &Err(error));
                }
            },
        }
    }

    pub(super) fn show_answered(&mut self, entry: &str, open: &OpenQuestion, answer: &str) {
        let Some(session) = self.sessions.get_mut(&open.session) else { return };
        let answer = Some(answer.to_owned());
        session.put(entry, Entry::Question(Question { answer, ..open.question.clone() }));
        session.questions = session.questions.saturating_sub(1);
        session.show_in_list();
    }

    /// Answers all open questions of a session, because its turn was cancelled or has ended.
    pub(super) fn cancel_questions(&mut self, session: &str) {
        let of_session =
            |(entry, it): (&String, &OpenQuestion)| (it.session == session).then(|| entry.clone());
        let entries: Vec<String> = self.questions.iter().filter_map(of_session).collect();
        for entry in entries {
            if let Some(open) = self.questions.remove(&entry) {
                self.settle(&entry, open, None);
            }
        }
    }
}

/// What an answer does. The page shows other kinds by the name alone.
fn effect(kind: Option<&str>) -> &'static str {
    match kind {
        Some("allow_once") => "allow_once",
        Some("allow_always") => "allow_always",
        Some("reject_once") => "reject_once",
        Some("reject_always") => "reject_always",
        _ => "other",
    }
}
