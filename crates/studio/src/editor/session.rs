//! One session: its entries on the page, its turn and its queue.

use std::collections::{BTreeMap, VecDeque};

use client::settings::Setting;
use client::tool_calls::ToolCalls;
use serde_json::Value;
use web::protocol::{self, Activity, Attachment, Command, Entry, Settings};
use web::surface::now;
use web::topics::Topics;

use super::SESSIONS;
use crate::content;

/// The most entries of a session that are kept.
const MAX_ENTRIES: usize = 5000;

/// The most failed prompts of a session whose attachments are kept.
const MAX_FAILED: usize = 10;

/// The most attachments of a message that the agent repeats.
const MAX_ATTACHED: usize = 100;

/// A prompt as the person wrote it.
#[derive(Debug, Clone, Default)]
pub(super) struct Written {
    pub(super) text: String,
    pub(super) attachments: Vec<Attachment>,
    /// The names of the attachments.
    pub(super) names: Vec<String>,
}

/// A prompt that waits for the end of the turn.
#[derive(Debug)]
pub(super) struct Queued {
    pub(super) entry: String,
    pub(super) written: Written,
    pub(super) blocks: Vec<Value>,
}

/// The state of a session.
#[derive(Debug)]
pub(super) struct Session {
    topics: Topics,
    /// The name of its topic.
    topic: String,
    id: String,
    pub(super) shown: protocol::Session,
    pub(super) activity: Activity,
    pub(super) settings: Vec<Setting>,
    pub(super) commands: Vec<Command>,
    pub(super) usage: Option<String>,
    pub(super) tool_calls: ToolCalls,
    /// Counts the turns: an agent may use the ids of tool calls again.
    pub(super) turn: u64,
    /// When each tool call began.
    pub(super) tool_times: BTreeMap<String, u64>,
    /// The message or thought that grows: its entry, and whether it is a thought.
    open_text: Option<(String, Growing)>,
    pub(super) queue: VecDeque<Queued>,
    /// The prompt of this turn.
    pub(super) prompt: Written,
    /// What was attached to prompts that failed, by the id of the error.
    failed: VecDeque<(String, Vec<Attachment>)>,
    /// How many questions are open.
    pub(super) questions: usize,
}

/// What kind of text grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Growing {
    User,
    Agent,
    Thought,
}

impl Session {
    pub(super) fn new(
        topics: &Topics,
        id: &str,
        title: &str,
        cwd: &str,
        activity: Activity,
    ) -> Session {
        let shown = protocol::Session {
            title: title.to_owned(),
            cwd: cwd.to_owned(),
            state: String::new(),
            time: now(),
        };
        let session = Session {
            topics: topics.clone(),
            topic: format!("session/{id}"),
            id: id.to_owned(),
            shown,
            activity,
            settings: Vec::new(),
            commands: Vec::new(),
            usage: None,
            tool_calls: ToolCalls::default(),
            turn: 0,
            tool_times: BTreeMap::new(),
            open_text: None,
            queue: VecDeque::new(),
            prompt: Written::default(),
            failed: VecDeque::new(),
            questions: 0,
        };
        session.show_turn(None);
        session
    }

    /// Takes over the prompts that wait in another state of this session.
    pub(super) fn take_queue(&mut self, other: Option<Session>) {
        self.queue = other.map(|it| it.queue).unwrap_or_default();
        for Queued { entry, written, .. } in &self.queue {
            let (text, attachments) = (written.text.clone(), written.names.clone());
            self.put(entry, Entry::User { text, attachments, queued: true, time: now() });
        }
    }

    /// Puts an entry into the topic of the session.
    pub(super) fn put(&self, id: &str, entry: Entry) {
        self.topics.change(&self.topic, |topic| {
            topic.put(id, entry);
            while topic.len() > MAX_ENTRIES {
                topic.remove_oldest(|it| {
                    matches!(
                        it,
                        Entry::Turn { .. }
                            | Entry::Settings(_)
                            | Entry::Draft { .. }
                            | Entry::Question(protocol::Question { answer: None, .. })
                    )
                });
            }
        });
    }

    /// Adds to the text of an entry.
    pub(super) fn append(&self, id: &str, text: &str) {
        self.topics.append(&self.topic, id, text);
    }

    pub(super) fn get(&self, id: &str) -> Option<Entry> {
        self.topics.get(&self.topic, id)
    }

    pub(super) fn remove(&self, id: &str) {
        self.topics.remove(&self.topic, id);
    }

    /// Shows what the session is doing, on its page and in the list.
    pub(super) fn show_turn(&self, ended: Option<&str>) {
        let since = match self.get("turn") {
            Some(Entry::Turn { state, since, .. }) if state == self.activity => since,
            _ => now(),
        };
        let entry = Entry::Turn {
            state: self.activity,
            since,
            awaits: None,
            ended: ended.map(str::to_owned),
        };
        self.put("turn", entry);
        self.show_in_list();
    }

    pub(super) fn show_in_list(&self) {
        let state = match self.activity {
            _ if self.questions > 0 => "asks",
            Activity::Loading => "loading",
            Activity::Idle => "idle",
            Activity::Running | Activity::Cancelling => "running",
            Activity::Failed => "failed",
        };
        let shown = protocol::Session { state: state.to_owned(), ..self.shown.clone() };
        self.topics.put(SESSIONS, &self.id, Entry::Session(shown));
    }

    pub(super) fn show_settings(&self) {
        let mut selects: Vec<_> = self.settings.iter().map(content::select).collect();
        selects.retain(|it| !it.values.is_empty());
        let rank = |id: &str| match id {
            "mode" => 0,
            "model" => 1,
            _ => 2,
        };
        selects.sort_by_key(|it| rank(&it.id));
        let settings =
            Settings { selects, commands: self.commands.clone(), usage: self.usage.clone() };
        self.put("settings", Entry::Settings(settings));
    }

    /// Adds text to the message that grows, or begins a new one.
    pub(super) fn grow(&mut self, kind: Growing, text: &str, new_id: impl FnOnce() -> String) {
        if let Some((id, open)) = &self.open_text
            && *open == kind
        {
            self.append(id, text);
            return;
        }
        self.end_text();
        let (id, time, text) = (new_id(), now(), text.to_owned());
        let entry = match kind {
            Growing::User => Entry::User { text, attachments: Vec::new(), queued: false, time },
            Growing::Agent => Entry::Agent { text, open: true, time, blocks: Vec::new() },
            Growing::Thought => Entry::Thought { text, open: true, time, ms: None },
        };
        self.put(&id, entry);
        self.open_text = Some((id, kind));
    }

    /// While the agent repeats the conversation, a message of the person begins a turn.
    pub(super) fn begin_repeated_turn(&mut self, kind: Growing) {
        let goes_on = matches!(self.open_text, Some((_, Growing::User)));
        if kind == Growing::User && !goes_on {
            self.turn += 1;
        }
    }

    /// Adds the name of an attachment to the message of the person, which the agent repeats.
    pub(super) fn attach(&mut self, name: &str, new_id: impl FnOnce() -> String) {
        self.grow(Growing::User, "", new_id);
        let Some((id, _)) = &self.open_text else { return };
        if let Some(Entry::User { text, mut attachments, queued, time }) = self.get(id)
            && attachments.len() < MAX_ATTACHED
        {
            attachments.push(name.to_owned());
            self.put(id, Entry::User { text, attachments, queued, time });
        }
    }

    /// The entry of the message that grows, if it is the agent's.
    pub(super) fn open_message(&self) -> Option<&str> {
        match &self.open_text {
            Some((id, Growing::Agent)) => Some(id),
            _ => None,
        }
    }

    /// The message that grows is complete.
    pub(super) fn end_text(&mut self) {
        let Some((id, _)) = self.open_text.take() else { return };
        match self.get(&id) {
            Some(Entry::Agent { text, time, blocks, .. }) => {
                self.put(&id, Entry::Agent { text, open: false, time, blocks });
            }
            Some(Entry::Thought { text, time, .. }) => {
                let ms = Some(now().saturating_sub(time));
                self.put(&id, Entry::Thought { text, open: false, time, ms });
            }
            _ => {}
        }
    }

    /// Keeps what was attached to a prompt that failed.
    pub(super) fn keep_failed(&mut self, error: &str, attachments: Vec<Attachment>) {
        self.failed.push_back((error.to_owned(), attachments));
        while self.failed.len() > MAX_FAILED {
            self.failed.pop_front();
        }
    }

    /// What was attached to a prompt that failed, if it is still kept.
    pub(super) fn failed_attachments(&self, error: &str) -> Option<Vec<Attachment>> {
        self.failed.iter().find(|it| it.0 == error).map(|it| it.1.clone())
    }

    /// Finds a setting by its id on the page.
    pub(super) fn setting(&self, select: &str) -> Option<&Setting> {
        self.settings.iter().find(|it| content::select_id(it) == select)
    }
}
