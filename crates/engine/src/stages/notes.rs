//! What the people in front of the editor are told: in the session where they wait for an answer at
//! once, in the others when they next ask something.

use std::collections::{BTreeMap, BTreeSet};

use acp_wire::{Call, Id, Json, Message, Side, acp};
use router::Seat;

use super::{Flow, Hop, Stage, Stages};
use crate::topic::{SessionId, Topic, session_of_call, topic};

/// How many notes wait for one session at most; older ones are dropped.
const MOST_NOTES: usize = 3;

/// For how many sessions; then those of one are dropped.
const MOST_SESSIONS: usize = 256;

#[derive(Debug, Default)]
pub(super) struct Notes {
    /// The editor's prompts that are not answered, by its own ids: in which session.
    prompts: BTreeMap<Id, SessionId>,
    /// What is to be said in a session when it is used again.
    waiting: BTreeMap<SessionId, Vec<Note>>,
    /// The editor says that it can show notices.
    notices: bool,
}

#[derive(Debug, Clone)]
struct Note {
    component: String,
    text: String,
}

impl Notes {
    /// The editor is told something: it may be the answer to a prompt.
    pub fn delivered(&mut self, hop: Hop, message: &Message) -> Flow {
        if hop.seat == Seat::OUTER
            && hop.toward == Side::Editor
            && !self.prompts.is_empty()
            && let Message::Response { id, .. } = message
        {
            self.prompts.remove(id);
        }
        Flow::Pass
    }

    /// How many prompts are open, for tests.
    pub fn open(&self) -> usize {
        self.prompts.len()
    }

    fn update(session: &SessionId, note: &Note, notices: bool) -> Message {
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
        Message::notification(acp::UPDATE, params)
    }
}

impl Stages {
    /// The editor says something: it may be what a note has waited for.
    pub(super) fn notes_arrived(&mut self, hop: Hop, message: &Message) -> Flow {
        let is_editor = hop.seat == Seat::OUTER && hop.toward == Side::Agent;
        if is_editor
            && self.rules.tell_editor
            && let Message::Request { id, call } = message
        {
            self.editor_asks(id, call);
        }
        Flow::Pass
    }

    fn editor_asks(&mut self, id: &Id, call: &Call) {
        if call.is(acp::INITIALIZE) {
            let notices = ["clientCapabilities", "capabilities"].iter().any(|capabilities| {
                let at = [*capabilities, "session", "notices"];
                call.params.as_ref().and_then(|it| it.at(&at)).is_some_and(|it| !it.is_null())
            });
            self.notes.notices = notices;
        }
        match topic(call) {
            Some(Topic::Prompt) => {
                let Some(session) = session_of_call(call) else { return };
                for note in self.notes.waiting.remove(&session).unwrap_or_default() {
                    self.say(&session, &note);
                }
                self.notes.prompts.insert(id.detached(), session);
            }
            Some(Topic::End) => {
                if let Some(session) = session_of_call(call) {
                    self.notes.waiting.remove(&session);
                }
            }
            _ => {}
        }
    }

    fn say(&mut self, session: &SessionId, note: &Note) {
        // In version 2 every editor takes notices.
        let notices = self.notes.notices || self.speaks_v2(Seat(1));
        let message = Notes::update(session, note, notices);
        let hop = Hop { seat: Seat::OUTER, toward: Side::Editor };
        self.send_from(Stage::Notes, hop, message);
    }

    /// Tells the people in front of the editor what became of a component.
    pub(super) fn tell_editor(&mut self, seat: Seat, text: &str) {
        if !self.rules.tell_editor {
            return;
        }
        let component = self.router.chain().name(seat).to_owned();
        let note = Note { component, text: text.to_owned() };
        let mut now: BTreeSet<SessionId> = self.notes.prompts.values().cloned().collect();
        now.extend(self.turns.sessions());
        for session in &now {
            self.say(session, &note);
        }
        // The first component knows the sessions as the editor does.
        let others = self.sessions.of_first().iter().map(|it| it.session.clone());
        for session in others.filter(|it| !now.contains(it)) {
            let waiting = self.notes.waiting.entry(session).or_default();
            waiting.push(note.clone());
            if waiting.len() > MOST_NOTES {
                waiting.remove(0);
            }
        }
        while self.notes.waiting.len() > MOST_SESSIONS {
            self.notes.waiting.pop_first();
        }
    }
}
