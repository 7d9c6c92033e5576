//! What the people in front of the editor are told: in the session where they wait for an answer at
//! once, in the others when they next ask something.

use std::collections::{BTreeMap, BTreeSet};

use router::Seat;
use wire::{Id, Json, Message, Side, acp};

use crate::event::Action;
use crate::stages::Stage;
use crate::supervisor::Supervisor;
use crate::topic::{Topic, session_of_call, topic};

/// How many notes wait for one session at most; older ones are dropped.
const MOST_NOTES: usize = 3;

/// For how many sessions; then those of one are dropped.
const MOST_SESSIONS: usize = 256;

#[derive(Debug, Default)]
pub struct Telling {
    /// The editor's prompts that are not answered, by its own ids: in which session.
    prompts: BTreeMap<Id, String>,
    /// What is to be said in a session when it is used again.
    waiting: BTreeMap<String, Vec<Note>>,
    /// The editor says that it can show notices.
    notices: bool,
}

#[derive(Debug, Clone)]
struct Note {
    component: String,
    text: String,
}

impl Telling {
    pub fn editor_hears(&mut self, toward: Side, message: &Message) {
        if toward == Side::Editor
            && !self.prompts.is_empty()
            && let Message::Response { id, .. } = message
        {
            self.prompts.remove(id);
        }
    }

    /// How many prompts are open, for tests.
    pub fn open(&self) -> usize {
        self.prompts.len()
    }

    fn update(session: &str, note: &Note, notices: bool) -> Message {
        let text = |text: &str| Some(Json::string(text));
        let component = Json::object([("component", text(&note.component))]);
        let meta = Some(Json::object([("conductor", Some(component))]));
        let update = match notices {
            true => Json::object([
                ("sessionUpdate", text("notice")),
                ("severity", text("warning")),
                ("title", text(&note.text)),
                ("_meta", meta),
            ]),
            false => {
                let words = format!("\n\n[conductor] {}\n\n", note.text);
                let content = Json::object([("type", text("text")), ("text", text(&words))]);
                Json::object([
                    ("sessionUpdate", text("agent_message_chunk")),
                    ("content", Some(content)),
                    ("_meta", meta),
                ])
            }
        };
        let params = Json::object([("sessionId", text(session)), ("update", Some(update))]);
        Message::notification("session/update", params)
    }
}

impl Supervisor {
    /// The editor says something: it may be what a note has waited for.
    pub(crate) fn editor_says(
        &mut self,
        from: Seat,
        toward: Side,
        message: &Message,
        actions: &mut Vec<Action>,
    ) {
        if from != Seat::OUTER || toward != Side::Agent || !self.rules.tell_editor {
            return;
        }
        let Message::Request { id, call } = message else { return };
        if call.is(acp::INITIALIZE) {
            let notices = ["clientCapabilities", "capabilities"].iter().any(|capabilities| {
                let at = [*capabilities, "session", "notices"];
                call.params.as_ref().and_then(|it| it.at(&at)).is_some_and(|it| !it.is_null())
            });
            self.telling.notices = notices;
        }
        match topic(call) {
            Some(Topic::Prompt) => {
                let Some(session) = session_of_call(call) else { return };
                for note in self.telling.waiting.remove(&session).unwrap_or_default() {
                    self.say(&session, &note, actions);
                }
                self.telling.prompts.insert(id.detached(), session);
            }
            Some(Topic::End) => {
                if let Some(session) = session_of_call(call) {
                    self.telling.waiting.remove(&session);
                }
            }
            _ => {}
        }
    }

    fn say(&mut self, session: &str, note: &Note, actions: &mut Vec<Action>) {
        // In version 2 every editor takes notices.
        let notices = self.telling.notices || self.speaks_v2(Seat(1));
        let message = Telling::update(session, note, notices);
        self.send_from(Stage::Notes, Seat::OUTER, Side::Editor, message, actions);
    }

    /// Tells the people in front of the editor what became of a component.
    pub(crate) fn tell_editor(&mut self, seat: Seat, text: &str, actions: &mut Vec<Action>) {
        if !self.rules.tell_editor {
            return;
        }
        let component = self.router.chain().name(seat).to_owned();
        let note = Note { component, text: text.to_owned() };
        let mut now: BTreeSet<String> = self.telling.prompts.values().cloned().collect();
        now.extend(self.sessions_with_turns());
        for session in &now {
            self.say(session, &note, actions);
        }
        // The first component knows the sessions as the editor does.
        let first = self.records.iter().map(|record| record.sessions());
        let first = first.into_iter().find(|sessions| !sessions.is_empty()).unwrap_or_default();
        let others = first.iter().map(|it| it.session.clone());
        for session in others.filter(|it| !now.contains(it)) {
            let waiting = self.telling.waiting.entry(session).or_default();
            waiting.push(note.clone());
            if waiting.len() > MOST_NOTES {
                waiting.remove(0);
            }
        }
        while self.telling.waiting.len() > MOST_SESSIONS {
            self.telling.waiting.pop_first();
        }
    }
}
