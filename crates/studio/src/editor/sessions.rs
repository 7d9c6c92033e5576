//! Opens, lists, loads and closes sessions.

use std::path::Path;

use serde_json::{Value, json};
use web::protocol::{self, Activity, Entry};

pub(super) use client::Opening;
use client::settings;

use super::session::Session;
use super::{ActionAnswer, Editor, Pending, SESSIONS};

/// How many earlier sessions are listed.
const MAX_LISTED: usize = 200;
/// How many pages of the list are requested. Sessions of other folders may fill some of them.
const MAX_PAGES: usize = 50;
/// The most sessions that are open at a time.
const MAX_SESSIONS: usize = 50;
const TOO_MANY: &str = "too many sessions are open; close one of them";
/// The longest title of a session, in characters.
const MAX_TITLE: usize = 80;

impl Editor {
    fn capability(&self, name: &str) -> bool {
        self.greeting["agentCapabilities"]["sessionCapabilities"][name].is_object()
    }

    pub(super) fn can_load(&self) -> bool {
        self.greeting["agentCapabilities"]["loadSession"] == true
    }

    pub(super) fn can_resume(&self) -> bool {
        self.capability("resume")
    }

    pub(super) fn can_list(&self) -> bool {
        self.capability("list")
    }

    /// Whether no session can be opened in addition. One that is opened again is no other one.
    fn is_full(&self, opening: &Opening) -> bool {
        let is_open = match opening {
            Opening::New => false,
            Opening::Load(id) | Opening::Resume(id) => self.sessions.contains_key(id),
        };
        self.sessions.len() >= MAX_SESSIONS && !is_open
    }

    /// Opens a session.
    pub(super) fn open(&mut self, opening: Opening, answer: Option<ActionAnswer>) {
        let refuse = |answer: Option<ActionAnswer>, why: &str| {
            if let Some(answer) = answer {
                let _ = answer.send(Err(why.to_owned()));
            }
        };
        if self.is_full(&opening) {
            return refuse(answer, TOO_MANY);
        }
        let mut params = json!({ "cwd": self.options.folder, "mcpServers": [] });
        if let Opening::Load(id) | Opening::Resume(id) = &opening {
            params["sessionId"] = id.as_str().into();
            let title = match self.topics.get(SESSIONS, id) {
                Some(Entry::Session(session)) => session.title,
                _ => id.clone(),
            };
            let cwd = self.options.folder.display().to_string();
            let mut session = Session::new(&self.topics, id, &title, &cwd, Activity::Loading);
            // What was written before the session failed to open is still to be sent.
            session.take_queue(self.sessions.remove(id));
            self.sessions.insert(id.clone(), session);
        }
        self.request(opening.method(), &params, Pending::Open(opening), answer);
    }

    /// Loads or resumes an earlier session, if it is not open.
    pub(super) fn open_saved(&mut self, id: &str, answer: ActionAnswer) {
        let failed = |it: &Session| it.activity == Activity::Failed;
        if self.sessions.get(id).is_some_and(|it| !failed(it)) {
            let _ = answer.send(Ok(Value::Null));
            return;
        }
        match (self.can_load(), self.can_resume()) {
            (true, _) if self.is_full(&Opening::Load(id.to_owned())) => {
                let _ = answer.send(Err(TOO_MANY.to_owned()));
            }
            (true, _) => {
                // The agent repeats the conversation.
                let topic = format!("session/{id}");
                let draft = self.topics.get(&topic, "draft");
                self.topics.clear(&topic);
                if let Some(draft) = draft {
                    self.topics.put(&topic, "draft", draft);
                }
                self.open(Opening::Load(id.to_owned()), Some(answer));
            }
            (false, true) => self.open(Opening::Resume(id.to_owned()), Some(answer)),
            (false, false) => {
                let _ = answer.send(Err("the agent cannot load earlier sessions".to_owned()));
            }
        }
    }

    pub(super) fn on_opened(
        &mut self,
        opening: &Opening,
        outcome: Result<Value, Value>,
    ) -> Result<Value, String> {
        let answer = match outcome {
            Ok(answer) => answer,
            Err(error) => {
                let description = self.description(&error, opening.method());
                let why = description.to_string();
                if description.login {
                    self.chain.state = "login".to_owned();
                }
                if description.login || self.sessions.is_empty() {
                    self.chain.error = Some(why.clone());
                    self.show_chain();
                }
                if let Opening::Load(id) | Opening::Resume(id) = opening {
                    self.add_error(id, &why, &error, None);
                    self.fail_session(id);
                }
                return Err(why);
            }
        };
        let id = match opening {
            Opening::New => answer["sessionId"].as_str().unwrap_or_default().to_owned(),
            Opening::Load(id) | Opening::Resume(id) => id.clone(),
        };
        if id.is_empty() {
            let why = "the agent has answered session/new without a sessionId".to_owned();
            self.chain.error = Some(why.clone());
            self.show_chain();
            return Err(why);
        }
        if *opening != Opening::New && !self.sessions.contains_key(&id) {
            return Err("the session was closed".to_owned());
        }
        let cwd = self.options.folder.display().to_string();
        let topics = self.topics.clone();
        let session = self
            .sessions
            .entry(id.clone())
            .or_insert_with(|| Session::new(&topics, &id, "New session", &cwd, Activity::Idle));
        session.activity = Activity::Idle;
        session.settings = settings::of_session(&answer);
        session.end_text();
        session.show_settings();
        session.show_turn(None);
        if self.chain.error.take().is_some() || self.chain.state == "login" {
            self.chain.state = "running".to_owned();
            self.show_chain();
        }
        for (session, update) in std::mem::take(&mut self.early_updates) {
            match self.sessions.contains_key(&session) {
                true => self.on_session_update(&session, &update),
                // It may belong to another session that is being opened.
                false => self.early_updates.push((session, update)),
            }
        }
        if !self.pending.values().any(|it| it.0 == Pending::Open(Opening::New)) {
            self.early_updates.clear();
        }
        // Prompts that were written while the session was loaded.
        self.advance(&id);
        Ok(id.into())
    }

    /// Requests the list of sessions.
    pub(super) fn list_again(&mut self, answer: Option<ActionAnswer>) {
        self.list((Vec::new(), 0), None, answer);
    }

    /// Requests a page of the list, after those that have arrived.
    fn list(
        &mut self,
        (sessions, pages): (Vec<Value>, usize),
        cursor: Option<&str>,
        answer: Option<ActionAnswer>,
    ) {
        let mut params = json!({ "cwd": self.options.folder });
        if let Some(cursor) = cursor {
            params["cursor"] = cursor.into();
        }
        self.request("session/list", &params, Pending::List { sessions, pages: pages + 1 }, answer);
    }

    pub(super) fn on_list(
        &mut self,
        (mut sessions, pages): (Vec<Value>, usize),
        outcome: Result<Value, Value>,
    ) -> Result<Value, String> {
        let answer = outcome.map_err(|error| self.describe(&error, "session/list"))?;
        let page = answer["sessions"].as_array().cloned().unwrap_or_default();
        let cursor = answer["nextCursor"].as_str().filter(|_| !page.is_empty());
        // A session is loaded with the folder of the studio, so one of another folder would work in the wrong place.
        let is_here = |it: &Value| {
            let cwd = it["cwd"].as_str();
            cwd.is_none_or(|it| same_folder(Path::new(it), &self.options.folder))
        };
        sessions.extend(page.into_iter().filter(is_here));
        if let Some(cursor) = cursor
            && sessions.len() < MAX_LISTED
            && pages < MAX_PAGES
        {
            self.list((sessions, pages), Some(cursor), None);
            return Ok(Value::Null);
        }
        for listed in sessions.iter().take(MAX_LISTED) {
            let Some(id) = listed["sessionId"].as_str() else { continue };
            let title = listed["title"].as_str().map(shorten_title).unwrap_or_default();
            match self.sessions.get_mut(id) {
                Some(open) => {
                    if !title.is_empty() {
                        open.shown.title = title;
                        open.show_in_list();
                    }
                }
                None => {
                    let title = if title.is_empty() { id.to_owned() } else { title };
                    let session = protocol::Session {
                        title,
                        cwd: listed["cwd"].as_str().unwrap_or_default().to_owned(),
                        state: "saved".to_owned(),
                        time: listed["updatedAt"].as_str().and_then(time).unwrap_or(0),
                    };
                    self.topics.put(SESSIONS, id, Entry::Session(session));
                }
            }
        }
        Ok(Value::Null)
    }

    /// Closes a session: at the agent, if it can do that, and on the page.
    pub(super) fn close(&mut self, id: &str, answer: ActionAnswer) {
        self.cancel_turn(id);
        self.cancel_questions(id);
        self.release_terminals_of(id);
        if self.sessions.remove(id).is_none() {
            let _ = answer.send(Ok(Value::Null));
            return;
        }
        self.closed.insert(id.to_owned());
        // The answer to its prompt may come after the session was opened again.
        let is_prompt = |it: &Pending| matches!(it, Pending::Prompt { session } if session == id);
        self.pending.retain(|_, (it, _)| !is_prompt(it));
        self.topics.clear(&format!("session/{id}"));
        self.topics.remove(SESSIONS, id);
        match self.capability("close") && self.chain.state != "ended" {
            true => {
                let params = json!({ "sessionId": id });
                self.request("session/close", &params, Pending::Close, Some(answer));
            }
            false => {
                let _ = answer.send(Ok(Value::Null));
            }
        }
        // The agent may keep it.
        if self.can_list() && self.chain.state == "running" {
            self.list_again(None);
        }
    }

    /// The session cannot be used any more.
    pub(super) fn fail_session(&mut self, id: &str) {
        if let Some(session) = self.sessions.get_mut(id) {
            session.end_text();
            session.questions = 0;
            session.activity = Activity::Failed;
            session.show_turn(None);
        }
    }
}

/// Whether two paths are the same folder.
fn same_folder(one: &Path, other: &Path) -> bool {
    let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
    one == other || real(one) == real(other)
}

/// A time such as `2026-11-18T07:00:00Z`, in milliseconds since 1970.
fn time(text: &str) -> Option<u64> {
    let time: jiff::Timestamp = text.parse().ok()?;
    u64::try_from(time.as_millisecond()).ok()
}

/// A title in one line.
pub(super) fn shorten_title(text: &str) -> String {
    let line = text.lines().find(|it| !it.trim().is_empty()).unwrap_or_default();
    let line = acp_wire::printable::one_line(line.trim());
    match line.chars().count() > MAX_TITLE {
        true => line.chars().take(MAX_TITLE - 1).collect::<String>() + "…",
        false => line,
    }
}
