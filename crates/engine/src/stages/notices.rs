//! The stage *notices*: shows notices about failures in the editor.
//!
//! In a session with an open prompt or an active turn, a notice is shown at once. In other sessions it is shown at the
//! next prompt.

use std::collections::{BTreeMap, BTreeSet};

use acp_wire::acp::{MethodKind, SessionId, method_kind, session_of_call};
use acp_wire::{Call, Id, Json, Message, Side, acp};
use router::Seat;

use super::{Hop, Stage, StageResult, Stages};

/// How many notices wait for one session. Older ones are dropped.
const MAX_NOTICES: usize = 3;

/// For how many sessions notices wait. If there are more, the notices of one of them are dropped.
const MAX_SESSIONS: usize = 256;

/// The component of notices about the conductor itself.
const CONDUCTOR: &str = "conductor";

/// The notices that wait, and the prompts of the editor.
#[derive(Debug, Default)]
pub(super) struct Notices {
    /// The sessions of the editor's open prompts, by request id.
    prompts: BTreeMap<Id, SessionId>,
    /// The notices that wait for the next prompt of a session.
    waiting: BTreeMap<SessionId, Vec<Notice>>,
    /// The notices that wait for the next prompt of any session.
    unseen: Vec<Notice>,
    /// Whether the editor has declared that it can show notices.
    supported_by_editor: bool,
}

/// A message for the user about one component.
#[derive(Debug, Clone)]
struct Notice {
    component: String,
    text: String,
}

impl Notices {
    /// Shows these texts of the conductor itself at the next prompt of the editor.
    pub(super) fn add_for_next_prompt(&mut self, texts: Vec<String>) {
        let notice = |text| Notice { component: CONDUCTOR.to_owned(), text };
        self.unseen.extend(texts.into_iter().map(notice));
        let surplus = self.unseen.len().saturating_sub(MAX_NOTICES);
        self.unseen.drain(..surplus);
    }

    /// Handles a message to a peer. An answer to the editor may close a prompt.
    pub(super) fn delivered(&mut self, hop: Hop, message: &Message) -> StageResult {
        if hop.seat == Seat::OUTER
            && hop.toward == Side::Editor
            && !self.prompts.is_empty()
            && let Message::Response { id, .. } = message
        {
            self.prompts.remove(id);
        }
        StageResult::Pass
    }

    /// How many prompts are open, for tests.
    pub(super) fn open(&self) -> usize {
        self.prompts.len()
    }

    /// The update that shows a notice. An editor that does not support notices gets it as text of the agent.
    fn update(session: &SessionId, notice: &Notice, supports_notices: bool) -> Message {
        let text = |text: &str| Some(Json::string(text));
        let component = Json::object([("component", text(&notice.component))]);
        let meta = Some(Json::object([("conductor", Some(component))]));
        let update = match supports_notices {
            true => Json::object([
                ("sessionUpdate", text("notice")),
                ("severity", text("warning")),
                ("title", text(&notice.text)),
                ("_meta", meta),
            ]),
            false => {
                let chunk = format!("\n\n[conductor] {}\n\n", notice.text);
                let content = Json::object([("type", text("text")), ("text", text(&chunk))]);
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
    /// Handles a message from a peer. A prompt of the editor shows the notices that wait for its session.
    pub(super) fn notices_arrived(&mut self, hop: Hop, message: &Message) -> StageResult {
        let is_editor = hop.seat == Seat::OUTER && hop.toward == Side::Agent;
        if is_editor && let Message::Request { id, call } = message {
            self.on_editor_request(id, call);
        }
        StageResult::Pass
    }

    fn on_editor_request(&mut self, id: &Id, call: &Call) {
        if call.is(acp::INITIALIZE) {
            let is_supported = ["clientCapabilities", "capabilities"].iter().any(|capabilities| {
                let at = [*capabilities, "session", "notices"];
                call.params.as_ref().and_then(|it| it.at(&at)).is_some_and(|it| !it.is_null())
            });
            self.notices.supported_by_editor = is_supported;
        }
        match method_kind(call) {
            Some(MethodKind::Prompt) => {
                let Some(session) = session_of_call(call) else { return };
                let unseen = std::mem::take(&mut self.notices.unseen);
                let waiting = self.notices.waiting.remove(&session).unwrap_or_default();
                // The setting is about notices of failures. What the conductor says about itself is always shown.
                let all = self.rules.notify_editor;
                let is_shown = |it: &Notice| all || it.component == CONDUCTOR;
                for notice in unseen.into_iter().chain(waiting).filter(is_shown) {
                    self.show_notice(&session, &notice);
                }
                self.notices.prompts.insert(id.detached(), session);
            }
            Some(MethodKind::EndSession) => {
                if let Some(session) = session_of_call(call) {
                    self.notices.waiting.remove(&session);
                }
            }
            _ => {}
        }
    }

    /// Sends a notice to the editor.
    fn show_notice(&mut self, session: &SessionId, notice: &Notice) {
        // In version 2, every editor supports notices.
        let supports_notices = self.notices.supported_by_editor || self.editor_uses_v2();
        let message = Notices::update(session, notice, supports_notices);
        let hop = Hop { seat: Seat::OUTER, toward: Side::Editor };
        self.send_from(Stage::Notices, hop, message);
    }

    /// Shows a notice about a component in all sessions, now or at their next prompt.
    pub(super) fn notify_user(&mut self, seat: Seat, text: &str) {
        if !self.rules.notify_editor {
            return;
        }
        let component = self.router.chain().name(seat).to_owned();
        let notice = Notice { component, text: text.to_owned() };
        let mut busy: BTreeSet<SessionId> = self.notices.prompts.values().cloned().collect();
        busy.extend(self.turns.sessions(self.router.chain()));
        for session in &busy {
            self.show_notice(session, &notice);
        }
        // The first component knows the sessions under the ids that the editor uses.
        let others = self
            .sessions
            .of_first_component(self.router.chain())
            .iter()
            .map(|it| it.session.clone());
        for session in others.filter(|it| !busy.contains(it)) {
            let waiting = self.notices.waiting.entry(session).or_default();
            waiting.push(notice.clone());
            if waiting.len() > MAX_NOTICES {
                waiting.remove(0);
            }
        }
        while self.notices.waiting.len() > MAX_SESSIONS {
            self.notices.waiting.pop_first();
        }
    }
}
