//! The requests of the agent, and the questions to the user.

use std::time::{Duration, Instant};

use acp_wire::printable::{one_line, plain};
use client::terminals::shown_command;
use client::workspace::{OutsidePath, Usage};
use client::{Reply, rpc_error};
use serde_json::{Value, json};

use super::{Conversation, Phase, TaskResult};
use crate::elicitation::{self, Form};
use crate::view::{Choice, Question};

/// How long a choice may have been made for an earlier question.
const REPLACED: Duration = Duration::from_millis(500);
/// The maximum number of open questions. More are answered as if the user had cancelled them.
const MAX_QUESTIONS: usize = 1000;
/// The maximum number of requests that are being performed. More are refused.
const MAX_RUNNING: usize = 1000;

/// A question that is not answered.
#[derive(Debug)]
pub(super) struct OpenQuestion {
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
    /// `elicitation/create`.
    Elicitation(Form),
}

impl Conversation {
    pub(super) fn on_request(&mut self, id: Value, method: &str, params: &Value) {
        match method {
            "session/request_permission" => self.on_permission_request(id, params),
            "elicitation/create" => self.on_elicitation(id, params),
            _ => match self.workspace.handle(method, params) {
                Some(reply) => {
                    if method == "terminal/create" && !matches!(reply, Reply::Outside(_)) {
                        self.show_command(params);
                    }
                    self.reply(id, method, params, reply);
                }
                None => self.outgoing.answer(&id, &Err(rpc_error::method_not_found(method))),
            },
        }
    }

    /// Shows the command of a new terminal, unless a tool call shows it.
    fn show_command(&self, params: &Value) {
        let command = shown_command(params);
        let command = command.trim();
        if !self.tool_calls.shows_command(command) {
            self.view.lock().note(&format!("$ {}", plain(command)));
        }
    }

    /// Answers a request now, or when its task is done.
    fn reply(&mut self, id: Value, method: &str, params: &Value, reply: Reply) {
        match reply {
            Reply::Ready(outcome) => self.outgoing.answer(&id, &outcome),
            Reply::Pending(_) if self.running.len() >= MAX_RUNNING => {
                let why = format!("{MAX_RUNNING} requests are being performed; wait for an answer");
                self.outgoing.answer(&id, &Err(rpc_error::internal(&why)));
            }
            Reply::Pending(work) => {
                self.running.push(id.clone());
                self.tasks.push(Box::pin(async move { (id, work.await) }));
            }
            Reply::Outside(place) => self.ask_about_place(id, method, params, place),
        }
        self.show_terminals();
    }

    /// Answers a request whose task is done.
    pub(crate) fn on_task(&mut self, (id, outcome): TaskResult) {
        let Some(at) = self.running.iter().position(|it| *it == id) else { return };
        self.running.remove(at);
        self.show_terminals();
        self.outgoing.answer(&id, &outcome);
    }

    /// The agent no longer waits for the answer to a request.
    pub(super) fn on_cancelled_request(&mut self, id: &Value) {
        let running = self.running.iter().position(|it| it == id);
        let question = self.questions.iter().position(|it| it.id == *id);
        if let Some(at) = running {
            self.running.remove(at);
        } else if let Some(open) = question.and_then(|at| self.questions.remove(at)) {
            self.view.lock().answered(&open.question, "cancelled by the agent");
            if question == Some(0) {
                self.question_replaced = Some(Instant::now());
                self.show_question();
            }
        } else {
            return;
        }
        self.outgoing.answer(id, &Err(rpc_error::cancelled()));
    }

    fn on_permission_request(&mut self, id: Value, params: &Value) {
        let question = self.permission_question(params);
        let wanted = if self.options.yes { "allow" } else { "reject" };
        let automatic = first_of_kind(&question.options, wanted);
        let ask = self.options.interactive && !self.options.yes && !question.options.is_empty();
        let open = OpenQuestion { id, question, about: Subject::Permission };
        match self.phase {
            Phase::Turn { cancelled: true } => self.answer(open, None),
            _ if ask => self.ask(open),
            _ => self.answer(open, automatic),
        }
    }

    /// The question, with everything that is known about the tool call. Many agents send only its id.
    fn permission_question(&self, params: &Value) -> Question {
        let subject = &params["subject"];
        let call = match subject["type"].as_str() {
            Some("command") => json!({
                "toolCallId": subject["toolCallId"],
                "kind": "execute",
                "rawInput": { "command": subject["command"], "cwd": subject["cwd"] },
            }),
            _ if subject.is_object() => subject["toolCall"].clone(),
            _ => params["toolCall"].clone(),
        };
        let mut call = self.tool_calls.complete(&call);
        if let Some(description) = params["description"].as_str() {
            let text =
                json!({ "type": "content", "content": { "type": "text", "text": description } });
            match call["content"].as_array_mut() {
                Some(content) => content.insert(0, text),
                None => call["content"] = json!([text]),
            }
        }
        let title = params["title"].as_str().or(call["title"].as_str()).unwrap_or("Use a tool");
        let title = one_line(title);
        let options = params["options"].as_array().map(Vec::as_slice).unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let option = |it: &Value| Choice {
            id: text(&it["optionId"]),
            name: one_line(&text(&it["name"])),
            kind: text(&it["kind"]),
        };
        let options = options.iter().map(option).collect();
        Question { title, tool_call: Some(call), options }
    }

    fn ask_about_place(&mut self, id: Value, method: &str, params: &Value, place: OutsidePath) {
        let what = place.usage.verb();
        let path = one_line(&place.path.display().to_string());
        let choice = |id: &str, name: &str| Choice {
            id: id.to_owned(),
            name: name.to_owned(),
            kind: id.to_owned(),
        };
        let mut call =
            json!({ "title": what, "kind": place.usage.kind(), "locations": [{ "path": path }] });
        if place.usage == Usage::Run {
            call["title"] = "Run a command".into();
            call["rawInput"] = json!({ "command": shown_command(params), "cwd": path });
        }
        let question = Question {
            title: format!("{what} {path}, which is outside of the folder of the session"),
            tool_call: Some(call),
            options: vec![choice("allow_once", "Allow once"), choice("reject_once", "Reject")],
        };
        let about = Subject::Outside { method: method.to_owned(), params: params.clone(), place };
        let open = OpenQuestion { id, question, about };
        match (self.phase, self.options.yes, self.options.interactive) {
            (Phase::Turn { cancelled: true }, ..) => self.answer(open, None),
            (_, true, _) => self.answer(open, Some(0)),
            (_, false, true) => self.ask(open),
            (_, false, false) => self.answer(open, Some(1)),
        }
    }

    fn on_elicitation(&mut self, id: Value, params: &Value) {
        let form = match elicitation::parse(params) {
            Ok(form) => form,
            Err(error) => return self.outgoing.answer(&id, &Err(error)),
        };
        let question = form.question();
        let ask = self.options.interactive && question.options.len() > 1;
        let open = OpenQuestion { id, question, about: Subject::Elicitation(form) };
        match (self.phase, ask) {
            (Phase::Turn { cancelled: true }, _) => self.answer(open, None),
            (_, true) => self.ask(open),
            // The last choice declines.
            (_, false) => {
                let last = open.question.options.len().checked_sub(1);
                self.answer(open, last);
            }
        }
    }

    fn ask(&mut self, open: OpenQuestion) {
        if self.questions.len() >= MAX_QUESTIONS {
            return self.answer(open, None);
        }
        self.questions.push_back(open);
        if self.questions.len() == 1 {
            self.show_question();
        }
    }

    /// Shows the oldest open question, or that there is none.
    fn show_question(&self) {
        self.view.lock().question(self.questions.front().map(|it| &it.question));
    }

    pub(super) fn on_choice(&mut self, index: usize) {
        // The choice was made for the question before.
        if self.question_replaced.is_some_and(|it| it.elapsed() < REPLACED) {
            return;
        }
        let valid = |it: &OpenQuestion| index < it.question.options.len();
        if self.questions.front().is_some_and(valid)
            && let Some(open) = self.questions.pop_front()
        {
            self.answer(open, Some(index));
            self.show_question();
        }
    }

    /// Answers a question. `None` means that the turn was cancelled.
    fn answer(&mut self, open: OpenQuestion, choice: Option<usize>) {
        let OpenQuestion { id, question, about } = open;
        let chosen = choice.and_then(|it| question.options.get(it));
        let name = chosen.map_or("cancelled", |it| &it.name);
        self.view.lock().answered(&question, name);
        match about {
            Subject::Permission => {
                let outcome = match chosen {
                    Some(choice) => json!({ "outcome": "selected", "optionId": choice.id }),
                    None => json!({ "outcome": "cancelled" }),
                };
                self.outgoing.answer(&id, &Ok(json!({ "outcome": outcome })));
            }
            Subject::Outside { method, params, place } => {
                match chosen.is_some_and(|it| it.id == "allow_once") {
                    true => {
                        let reply = self.workspace.handle_allowed(&method, &params, &place.path);
                        if method == "terminal/create" && !matches!(reply, Reply::Outside(_)) {
                            self.show_command(&params);
                        }
                        self.reply(id, &method, &params, reply);
                    }
                    false => {
                        let error = rpc_error::internal(place.usage.refusal());
                        self.outgoing.answer(&id, &Err(error));
                    }
                }
            }
            Subject::Elicitation(form) => self.outgoing.answer(&id, &Ok(form.answer(choice))),
        }
    }

    /// Answers all open questions, because the turn was cancelled or has ended.
    pub(super) fn cancel_questions(&mut self) {
        let any = !self.questions.is_empty();
        while let Some(open) = self.questions.pop_front() {
            self.answer(open, None);
        }
        if any {
            self.show_question();
        }
    }
}

/// The first choice of a kind: once rather than always.
fn first_of_kind(options: &[Choice], kind: &str) -> Option<usize> {
    let once = options.iter().position(|it| it.kind == format!("{kind}_once"));
    once.or_else(|| options.iter().position(|it| it.kind.starts_with(kind)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choices(list: &[(&str, &str)]) -> Vec<Choice> {
        let choice = |(name, kind): &(&str, &str)| Choice {
            id: (*name).into(),
            name: (*name).into(),
            kind: (*kind).into(),
        };
        list.iter().map(choice).collect()
    }

    #[test]
    fn an_automatic_answer_is_once_if_possible() {
        let options =
            choices(&[("A", "allow_always"), ("B", "allow_once"), ("C", "reject_always")]);
        assert_eq!(first_of_kind(&options, "allow"), Some(1));
        assert_eq!(first_of_kind(&options, "reject"), Some(2));
        assert_eq!(first_of_kind(&options[..2], "reject"), None);
    }
}
