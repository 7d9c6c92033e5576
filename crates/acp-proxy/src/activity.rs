//! Which sessions are idle, and what waits until they are: texts for the user, prompts, and turns of the component.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

use acp_proxy_core::{Call, Id, IncomingRequest, Json};
use acp_wire::acp::SessionId;

use crate::oneshot::{Receiver, Sender, oneshot};
use crate::shared::{Command, Shared};

/// How many texts of a session wait to be shown. The oldest ones are dropped.
const MAX_TEXTS: usize = 64;

/// How many sessions are remembered while something happens in them.
const MAX_SESSIONS: usize = 10_000;

/// Editors that do not show a `session/update` outside of a turn, by the `clientInfo.name` of their `initialize`, and the
/// last version for which that holds, if there is one. The guide (docs/proxies.md) says what each of them does.
const EDITORS_WITHOUT_LATE_UPDATES: [(&str, Option<Version>); 3] =
    [("agent-shell", None), ("CodeCompanion.nvim", None), ("acpx", Some((0, 13)))];

/// The first two numbers of a version.
type Version = (u32, u32);

/// What happens to a text that is for the user and comes outside of a turn. See [`Context::announce`].
///
/// [`Context::announce`]: crate::Context::announce
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LateUpdates {
    /// Sends it at once, except to editors that are known to show nothing outside of a turn.
    #[default]
    Auto,
    /// Sends it at once.
    Send,
    /// Holds it until the next turn begins.
    Hold,
}

/// What happens in each session. A session in which nothing happens is not in the table.
#[derive(Default)]
pub(crate) struct Activity {
    sessions: RefCell<BTreeMap<String, SessionActivity>>,
    /// The prompts that are not answered, with their sessions. In version 2, the answer only accepts a prompt.
    prompts: RefCell<BTreeMap<Id, SessionId>>,
    /// Whether the editor shows no updates outside of a turn, as far as its name and version tell.
    hides_late_updates: Cell<bool>,
    late_updates: LateUpdates,
}

#[derive(Default)]
struct SessionActivity {
    /// How many prompts are not answered.
    prompts: usize,
    /// Whether a turn runs, in version 2: the agent has accepted a prompt or reports a state other than `idle`.
    is_running: bool,
    /// Whether the component has started a turn.
    has_own_turn: bool,
    /// The prompts that wait for the end of that turn.
    held: VecDeque<IncomingRequest>,
    /// The texts to show when the session is idle.
    texts: VecDeque<Text>,
    /// The texts to show when the next turn begins.
    next_texts: VecDeque<Text>,
    waiting: Vec<Sender<()>>,
    own_turns: VecDeque<Sender<OwnTurn>>,
}

impl SessionActivity {
    fn is_idle(&self) -> bool {
        self.prompts == 0 && !self.is_running && !self.has_own_turn
    }

    /// Whether a prompt of the editor or of the component is not answered.
    fn has_prompt(&self) -> bool {
        self.prompts > 0 || self.has_own_turn || !self.held.is_empty()
    }

    fn is_unused(&self) -> bool {
        let has_texts = !self.texts.is_empty() || !self.next_texts.is_empty();
        let is_awaited = !self.waiting.is_empty() || !self.own_turns.is_empty();
        self.is_idle() && self.held.is_empty() && !has_texts && !is_awaited
    }
}

/// A text for the user.
struct Text {
    text: String,
    /// Wakes the task that waits until it is sent.
    waiting: Option<Sender<()>>,
}

impl Text {
    /// The text, which is sent now.
    fn send(self) -> String {
        self.waiting.into_iter().for_each(|it| it.send(()));
        self.text
    }
}

/// A turn that the component has started. Its end lets the prompts of the editor pass again.
pub(crate) struct OwnTurn {
    shared: Rc<Shared>,
    session: String,
}

impl Drop for OwnTurn {
    fn drop(&mut self) {
        self.shared.push(Command::EndOwnTurn(std::mem::take(&mut self.session)));
    }
}

fn push_text(texts: &mut VecDeque<Text>, text: Text) {
    if texts.len() == MAX_TEXTS {
        texts.pop_front();
    }
    texts.push_back(text);
}

impl Activity {
    pub(crate) fn new(late_updates: LateUpdates) -> Activity {
        Activity { late_updates, ..Activity::default() }
    }

    /// Changes what is known of a session, and forgets the session if nothing happens in it any more.
    fn change<T>(&self, session: &str, change: impl FnOnce(&mut SessionActivity) -> T) -> T {
        let mut sessions = self.sessions.borrow_mut();
        if sessions.len() >= MAX_SESSIONS && !sessions.contains_key(session) {
            // Sessions with open prompts stay: their number is that of the editor's open requests.
            let may_go = |(_, it): &(&String, &SessionActivity)| !it.has_prompt();
            let forgotten = sessions.iter().find(may_go).map(|(id, _)| id.clone());
            forgotten.and_then(|id| sessions.remove(&id));
        }
        let entry = sessions.entry(session.to_owned()).or_default();
        let changed = change(entry);
        if entry.is_unused() {
            sessions.remove(session);
        }
        changed
    }

    pub(crate) fn is_idle(&self, session: &str) -> bool {
        self.sessions.borrow().get(session).is_none_or(SessionActivity::is_idle)
    }

    /// The editor says who it is.
    pub(crate) fn on_initialize(&self, call: &Call) {
        let info = call.params.as_ref().and_then(|params| params.member("clientInfo"));
        let text = |key: &str| {
            let value = info.as_ref().and_then(|info| info.member(key));
            value.as_ref().and_then(Json::text).unwrap_or_default().into_owned()
        };
        self.hides_late_updates.set(hides_late_updates(&text("name"), &text("version")));
    }

    /// Whether the editor shows updates outside of a turn. In ACP version 2, every editor does.
    pub(crate) fn shows_late_updates(&self, is_v2: bool) -> bool {
        match self.late_updates {
            LateUpdates::Send => true,
            LateUpdates::Hold => false,
            LateUpdates::Auto => is_v2 || !self.hides_late_updates.get(),
        }
    }

    /// A prompt has arrived. Returns it, unless it has to wait for a turn of the component. Also returns the texts to
    /// show at the beginning of the turn.
    pub(crate) fn admit(
        &self,
        session: &SessionId,
        request: IncomingRequest,
    ) -> (Option<IncomingRequest>, VecDeque<String>) {
        let id = request.id().detached();
        self.change(session, |it| {
            if it.has_own_turn {
                it.held.push_back(request);
                return (None, VecDeque::new());
            }
            if self.prompts.borrow_mut().insert(id, session.clone()).is_none() {
                it.prompts += 1;
            }
            (Some(request), it.next_texts.drain(..).map(Text::send).collect())
        })
    }

    /// A prompt was answered. Returns its session.
    pub(crate) fn on_answer(&self, id: &Id, is_accepted: bool) -> Option<SessionId> {
        if self.prompts.borrow().is_empty() {
            return None;
        }
        let session = self.prompts.borrow_mut().remove(id)?;
        self.change(&session, |it| {
            it.prompts = it.prompts.saturating_sub(1);
            it.is_running |= is_accepted;
        });
        Some(session)
    }

    /// The agent reports a state, in version 2.
    pub(crate) fn on_state(&self, session: &str, is_idle: bool) {
        self.change(session, |it| it.is_running = !is_idle);
    }

    /// The session ends. Returns the prompts that have waited.
    pub(crate) fn on_close(&self, session: &str) -> VecDeque<IncomingRequest> {
        let ended = self.sessions.borrow_mut().remove(session);
        ended.map(|it| it.held).unwrap_or_default()
    }

    /// The prompts of a session that wait for a turn of the component.
    pub(crate) fn take_held(&self, session: &str) -> VecDeque<IncomingRequest> {
        match self.sessions.borrow_mut().get_mut(session) {
            Some(it) => std::mem::take(&mut it.held),
            None => VecDeque::new(),
        }
    }

    /// The prompt with this id, if it waits.
    pub(crate) fn take_held_prompt(&self, id: &Id) -> Option<IncomingRequest> {
        let mut sessions = self.sessions.borrow_mut();
        sessions.values_mut().find_map(|session| {
            let index = session.held.iter().position(|it| it.id() == id)?;
            session.held.remove(index)
        })
    }

    /// Keeps a text until the session is idle.
    pub(crate) fn announce(&self, session: &str, text: String) {
        self.change(session, |it| push_text(&mut it.texts, Text { text, waiting: None }));
    }

    /// Keeps a text until the session is idle. The receiver gets a value when the text is sent.
    pub(crate) fn announce_awaited(&self, session: &str, text: String) -> Receiver<()> {
        let (sender, receiver) = oneshot();
        let text = Text { text, waiting: Some(sender) };
        self.change(session, |it| push_text(&mut it.texts, text));
        receiver
    }

    /// The turn of the component is over.
    pub(crate) fn end_own_turn(&self, session: &str) {
        self.change(session, |it| it.has_own_turn = false);
    }

    /// Waits until the session is idle. `None` if it is idle.
    pub(crate) fn wait(&self, session: &str) -> Option<Receiver<()>> {
        if self.is_idle(session) {
            return None;
        }
        let (sender, receiver) = oneshot();
        self.change(session, |it| it.waiting.push(sender));
        Some(receiver)
    }

    /// Waits until the component may start a turn.
    pub(crate) fn request_turn(&self, session: &str) -> Receiver<OwnTurn> {
        let (sender, receiver) = oneshot();
        self.change(session, |it| it.own_turns.push_back(sender));
        receiver
    }

    /// If the session is idle, wakes what waits for that. Returns the texts to show now.
    pub(crate) fn settle(&self, session: &str, shared: &Rc<Shared>) -> VecDeque<String> {
        if !self.is_idle(session) || !self.sessions.borrow().contains_key(session) {
            return VecDeque::new();
        }
        let shows_late_updates = self.shows_late_updates(shared.is_v2());
        let (texts, turn) = self.change(session, |it| {
            // Dropping the senders wakes their receivers.
            it.waiting.clear();
            let mut texts = std::mem::take(&mut it.texts);
            if !shows_late_updates {
                texts.drain(..).for_each(|text| push_text(&mut it.next_texts, text));
            }
            let turn = loop {
                match it.own_turns.pop_front() {
                    Some(turn) if !turn.has_receiver() => {}
                    turn => break turn,
                }
            };
            it.has_own_turn = turn.is_some();
            (texts.into_iter().map(Text::send).collect(), turn)
        });
        if let Some(turn) = turn {
            turn.send(OwnTurn { shared: shared.clone(), session: session.to_owned() });
        }
        texts
    }
}

/// Whether an editor shows no updates outside of a turn. A version that cannot be read counts as an old one.
fn hides_late_updates(name: &str, version: &str) -> bool {
    let mut numbers = version.split(['.', '-', '+']).map_while(|it| it.parse().ok());
    let version = numbers.next().zip(numbers.next());
    let is_old = |last: Version| version.is_none_or(|version| version <= last);
    let mut editors = EDITORS_WITHOUT_LATE_UPDATES.iter();
    editors.any(|(it, last)| it.eq_ignore_ascii_case(name) && last.is_none_or(is_old))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn editors_are_known_by_their_name_in_any_case_and_their_version() {
        for (name, version, hides) in [
            ("agent-shell", "0.1", true),
            ("Agent-Shell", "", true),
            ("codecompanion.nvim", "99", true),
            ("acpx", "0.13.7", true),
            ("acpx", "0.14.0-beta.1", false),
            ("acpx", "1.0.0", false),
            ("acpx", "new", true),
            ("zed", "0.1", false),
            ("", "", false),
        ] {
            assert_eq!(hides_late_updates(name, version), hides, "{name} {version}");
        }
    }

    #[test]
    fn ten_thousand_running_sessions_do_not_displace_one_with_an_open_prompt() {
        let activity = Activity::default();
        activity.change("a", |it| it.prompts = 1);
        for number in 0..MAX_SESSIONS + 10 {
            activity.on_state(&format!("b{number}"), false);
        }
        assert_eq!(activity.sessions.borrow().len(), MAX_SESSIONS);
        assert!(!activity.is_idle("a"));
    }
}
