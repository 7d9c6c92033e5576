//! What the person does.

use serde_json::{Value, json};
use web::protocol::{Action, Activity, Attachment, Entry, Unqueued};
use web::server::ActionRequest;
use web::surface::now;

use super::session::{Queued, Written};
use super::sessions::{Opening, shorten_title};
use super::{ActionAnswer, Editor, Pending};
use crate::content;

/// The most prompts that wait in a session.
const MAX_QUEUE: usize = 100;
/// The longest text of a prompt or draft, in bytes.
const MAX_PROMPT: usize = 4 * 1024 * 1024;

impl Editor {
    /// Does what the person asks for.
    pub fn on_action(&mut self, request: ActionRequest) {
        let ActionRequest { action, answer } = request;
        let running = self.chain.state == "running";
        let needs_chain = matches!(
            action,
            Action::OpenSession { .. }
                | Action::ListSessions
                | Action::Prompt { .. }
                | Action::TryAgain { .. }
                | Action::Select { .. }
                | Action::LogIn { .. }
        );
        if self.chain.state == "ended" && needs_chain {
            let _ = answer.send(Err("the chain has ended".to_owned()));
            return;
        }
        let opens_first = self.sessions.is_empty()
            && self.pending.values().any(|it| it.0 == Pending::Open(Opening::New));
        let result = match action {
            // The first session is opened anyway, as soon as the chain has started.
            Action::NewSession if self.chain.state == "starting" || opens_first => {
                return self.waiting.push(answer);
            }
            Action::NewSession if running || self.chain.state == "login" => {
                return self.open(Opening::New, Some(answer));
            }
            Action::OpenSession { session } => return self.open_saved(&session, answer),
            Action::ListSessions if self.can_list() => {
                return self.list_again(Some(answer));
            }
            Action::ListSessions => Ok(Value::Null),
            Action::CloseSession { session } => return self.close(&session, answer),
            Action::Prompt { session, text, attachments } => {
                self.on_prompt(&session, &text, &attachments)
            }
            Action::Unqueue { session, entry } => self.unqueue(&session, &entry),
            Action::TryAgain { session, entry } => self.try_again(&session, &entry),
            Action::SendNow { session, entry } => self.send_now(&session, &entry),
            Action::Cancel { session } => {
                self.cancel_turn(&session);
                Ok(Value::Null)
            }
            Action::KillTerminal { terminal, .. } => self.kill_terminal(&terminal),
            Action::Answer { entry, choice, .. } => self.answer_question(&entry, &choice),
            Action::Select { session, select, value } => {
                return self.select(&session, &select, &value, answer);
            }
            Action::LogIn { login } => {
                let params = json!({ "methodId": login });
                let pending = Pending::Login { name: login };
                return self.request("authenticate", &params, pending, Some(answer));
            }
            Action::Draft { session, text } => self.draft(&session, text),
            Action::NewSession => Err("the chain has ended".to_owned()),
            other => {
                // Panels, comments and files.
                let surface = self.surface.clone();
                self.tasks.push(Box::pin(async move {
                    let result = surface.act(&other).await;
                    let unknown = || Err("this program does not know the action".to_owned());
                    let _ = answer.send(result.unwrap_or_else(unknown));
                    (None, Ok(Value::Null))
                }));
                return;
            }
        };
        let _ = answer.send(result);
    }

    fn on_prompt(
        &mut self,
        id: &str,
        text: &str,
        attachments: &[Attachment],
    ) -> Result<Value, String> {
        let text = text.trim();
        if text.len() > MAX_PROMPT {
            return Err("the message is larger than 4 MiB".to_owned());
        }
        let (blocks, names) =
            content::prompt(text, attachments, self.surface.project(), self.prompt_capabilities())?;
        let entry = self.next_id("m");
        let Some(session) = self.sessions.get_mut(id) else {
            return Err("the session is not open".to_owned());
        };
        if session.queue.len() >= MAX_QUEUE {
            return Err("too many messages wait; remove some of them".to_owned());
        }
        if session.activity == Activity::Failed {
            return Err("the session has failed; open a new one".to_owned());
        }
        let queued = session.activity != Activity::Idle;
        let shown =
            Entry::User { text: text.to_owned(), attachments: names.clone(), queued, time: now() };
        session.end_text();
        session.put(&entry, shown);
        session.remove("draft");
        if session.shown.title == "New session" {
            session.shown.title = shorten_title(if text.is_empty() { "Attachment" } else { text });
        }
        session.shown.time = now();
        let written = Written { text: text.to_owned(), attachments: attachments.to_vec(), names };
        session.queue.push_back(Queued { entry, written, blocks });
        session.show_in_list();
        self.advance(id);
        Ok(Value::Null)
    }

    /// Sends the next prompt, if the session is idle.
    pub(super) fn advance(&mut self, id: &str) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        if session.activity != Activity::Idle {
            return;
        }
        let Some(Queued { entry, written, blocks }) = session.queue.pop_front() else { return };
        if let Some(Entry::User { queued: true, .. }) = session.get(&entry) {
            // It was written while the agent worked. Its place is here.
            session.remove(&entry);
        }
        let (text, attachments) = (written.text.clone(), written.names.clone());
        let shown = Entry::User { text, attachments, queued: false, time: now() };
        session.put(&entry, shown);
        session.prompt = written;
        session.tool_calls.clear();
        session.tool_times.clear();
        session.turn += 1;
        session.activity = Activity::Running;
        session.show_turn(None);
        let params = json!({ "sessionId": id, "prompt": blocks });
        let pending = Pending::Prompt { session: id.to_owned() };
        self.request("session/prompt", &params, pending, None);
    }

    fn unqueue(&mut self, id: &str, entry: &str) -> Result<Value, String> {
        let session = self.sessions.get_mut(id);
        let found = session.and_then(|session| {
            let at = session.queue.iter().position(|it| it.entry == entry)?;
            session.remove(entry);
            session.queue.remove(at)
        });
        let Written { text, attachments, .. } =
            found.ok_or_else(|| "the message was sent already".to_owned())?.written;
        serde_json::to_value(Unqueued { text, attachments }).map_err(|error| error.to_string())
    }

    /// Sends a prompt that failed again.
    fn try_again(&mut self, id: &str, error: &str) -> Result<Value, String> {
        let session = self.sessions.get(id);
        let entry = session.and_then(|it| it.get(error));
        let Some(Entry::Error { prompt: Some(text), attachments: names, .. }) = entry else {
            return Err("there is no message to send again".to_owned());
        };
        let kept = session.and_then(|it| it.failed_attachments(error));
        let attachments = match (kept, names.is_empty()) {
            (Some(kept), _) => kept,
            (None, true) => Vec::new(),
            (None, false) => {
                let names = names.join(", ");
                return Err(format!(
                    "what was attached ({names}) is not kept any more; write the message again"
                ));
            }
        };
        self.on_prompt(id, &text, &attachments)
    }

    fn send_now(&mut self, id: &str, entry: &str) -> Result<Value, String> {
        let session = self.sessions.get_mut(id);
        let found = session.and_then(|session| {
            let at = session.queue.iter().position(|it| it.entry == entry)?;
            let queued = session.queue.remove(at)?;
            session.queue.push_front(queued);
            Some(())
        });
        found.ok_or_else(|| "the message was sent already".to_owned())?;
        self.cancel_turn(id);
        self.advance(id);
        Ok(Value::Null)
    }

    /// Cancels the turn. The agent ends it.
    pub(super) fn cancel_turn(&mut self, id: &str) {
        let Some(session) = self.sessions.get_mut(id) else { return };
        if session.activity != Activity::Running {
            return;
        }
        session.activity = Activity::Cancelling;
        session.show_turn(None);
        self.outgoing.notify("session/cancel", &json!({ "sessionId": id }));
        self.cancel_questions(id);
    }

    /// The agent has answered a prompt.
    pub(super) fn on_turn_end(&mut self, id: &str, outcome: Result<Value, Value>) {
        self.cancel_questions(id);
        self.show_terminals();
        let Some(session) = self.sessions.get_mut(id) else { return };
        session.end_text();
        session.activity = Activity::Idle;
        session.shown.time = now();
        let prompt = std::mem::take(&mut session.prompt);
        let ended = match &outcome {
            Ok(answer) => answer["stopReason"].as_str().unwrap_or("end_turn").to_owned(),
            Err(_) => "error".to_owned(),
        };
        session.show_turn(Some(&ended));
        if let Err(error) = outcome {
            let description = self.description(&error, "session/prompt");
            if description.login {
                self.chain.state = "login".to_owned();
                self.chain.error = Some(description.to_string());
                self.show_chain();
            }
            self.add_error(id, &description.to_string(), &error, Some(prompt));
        }
        self.advance(id);
    }

    /// Shows an error in a session.
    pub(super) fn add_error(
        &mut self,
        id: &str,
        text: &str,
        error: &Value,
        prompt: Option<Written>,
    ) {
        let entry = self.next_id("e");
        let details = serde_json::to_string_pretty(error).unwrap_or_default();
        if let Some(session) = self.sessions.get_mut(id) {
            session.end_text();
            let names = prompt.as_ref().map(|it| it.names.clone()).unwrap_or_default();
            let prompt = prompt.map(|it| {
                if !it.attachments.is_empty() {
                    session.keep_failed(&entry, it.attachments);
                }
                it.text
            });
            let text = text.to_owned();
            session.put(&entry, Entry::Error { text, details, prompt, attachments: names });
        }
    }

    fn select(&mut self, id: &str, select: &str, value: &str, answer: ActionAnswer) {
        let setting = self.sessions.get(id).and_then(|it| it.setting(select)).cloned();
        let found = setting.and_then(|setting| {
            let value = setting.values.iter().find(|it| content::value_id(&it.value) == value);
            value.map(|it| it.value.clone()).map(|value| (setting, value))
        });
        let Some((setting, value)) = found else {
            let _ = answer.send(Err("the agent does not offer this value any more".to_owned()));
            return;
        };
        let (method, params) = setting.request(id, &value, 1);
        let pending = Pending::Set { session: id.to_owned(), select: select.to_owned(), value };
        self.request(method, &params, pending, Some(answer));
    }

    pub(super) fn on_set(
        &mut self,
        id: &str,
        select: &str,
        value: &Value,
        outcome: Result<Value, Value>,
    ) -> Result<Value, String> {
        let answer = outcome.map_err(|error| self.describe(&error, "session/set"))?;
        if let Some(session) = self.sessions.get_mut(id) {
            let setting = session.settings.iter_mut().find(|it| content::select_id(it) == select);
            setting.into_iter().for_each(|it| it.current = value.clone());
            session.show_settings();
        }
        self.set_options(id, &answer["configOptions"]);
        Ok(Value::Null)
    }

    fn draft(&mut self, id: &str, text: String) -> Result<Value, String> {
        let Some(session) = self.sessions.get(id) else {
            return Err("the session is not open".to_owned());
        };
        if text.len() > MAX_PROMPT {
            return Err("the message is larger than 4 MiB".to_owned());
        }
        match text.is_empty() {
            true => session.remove("draft"),
            false => session.put("draft", Entry::Draft { text }),
        }
        Ok(Value::Null)
    }
}
