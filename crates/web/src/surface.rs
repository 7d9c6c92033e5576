//! The editor's side of SCP: panels, comments on lines, and operations of an editor, shown on a page.
//!
//! [`Surface::handle`] answers the requests of components. What a person does on the page comes in as an
//! [`Action`], and leaves as a notification to the component that owns the panel or the comment.
//!
//! # Layout
//! - here: panels and comments
//! - `operations`: the operations of an editor, on the files of the project

mod operations;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use acp_proxy::Request;
use acp_proxy::scp::{
    Capabilities, ClearComment, ClearPanel, CommentReply, GetPanel, IdeOperation, IdeOperations,
    PanelClosed, PanelEvent, PanelEventKind, ShowComment, ShowPanel,
};
use client::rpc_error;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};

use crate::project::Project;
use crate::protocol::{Action, Entry, Reply, Thread};
use crate::topics::Topics;
use operations::PendingEdit;

/// The topic of panels.
pub const PANELS: &str = "panels";
/// The topic of comments.
pub const COMMENTS: &str = "comments";
/// The topic of edits.
pub const EDITS: &str = "edits";
/// The topic of files.
pub const FILES: &str = "files";

/// The most panels at a time.
const MAX_PANELS: usize = 100;
/// The most comments at a time.
const MAX_COMMENTS: usize = 5000;
/// The largest HTML of a panel, in bytes.
const MAX_CONTENTS: usize = 1024 * 1024;
/// The longest label of a panel or an edit, in bytes.
const MAX_LABEL: usize = 4 * 1024;
/// The longest id of a panel or a comment, in bytes.
const MAX_ID: usize = 16 * 1024;
/// The longest text of a comment or reply, in bytes.
const MAX_COMMENT: usize = 64 * 1024;
/// The most replies of a thread.
const MAX_REPLIES: usize = 200;
/// The most files that are noted as written.
const MAX_WRITTEN: usize = 2000;
/// How many notifications wait for the chain.
const MAX_EVENTS: usize = 256;

/// The outcome of a request: its result, or a JSON-RPC error object.
pub type Outcome = Result<Value, Value>;

/// A notification toward the component that owns a panel or a comment.
#[derive(Debug, Clone, PartialEq)]
pub struct ToOwner {
    /// The method.
    pub method: &'static str,
    /// The parameters.
    pub params: Value,
}

/// Panels, comments and files of one page. A clone is another handle.
#[derive(Clone)]
pub struct Surface {
    topics: Topics,
    project: Project,
    events: mpsc::Sender<ToOwner>,
    state: Arc<Mutex<State>>,
}

impl fmt::Debug for Surface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Surface").field("project", &self.project).finish_non_exhaustive()
    }
}

#[derive(Debug, Default)]
struct State {
    /// Grows with each panel that is brought to the front.
    front: u64,
    /// The session of each panel and comment that has one, by topic and id.
    sessions: BTreeMap<(&'static str, String), String>,
    /// What the page shows: the open files, the one in front, and the selection.
    open: Vec<String>,
    active: Option<String>,
    selection: Option<[u64; 4]>,
    last_edit: u64,
    edits: BTreeMap<String, PendingEdit>,
    open_requests: u64,
}

impl Surface {
    /// A surface for the files of a project. Notifications to owners come out of the receiver.
    pub fn new(topics: Topics, project: Project) -> (Surface, mpsc::Receiver<ToOwner>) {
        let (events, receiver) = mpsc::channel(MAX_EVENTS);
        (Surface { topics, project, events, state: Arc::default() }, receiver)
    }

    /// What a page can do. Nobody knows the diagnostics of a file without a compiler.
    pub fn capabilities() -> Capabilities {
        let operations =
            IdeOperation::ALL.into_iter().filter(|it| *it != IdeOperation::Diagnostics);
        Capabilities { ide_operations: IdeOperations::of(operations), ..Capabilities::all() }
    }

    /// The files of the project.
    pub fn project(&self) -> &Project {
        &self.project
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a method is one of those that [`Surface::handle`] answers.
    pub fn knows(method: &str) -> bool {
        Surface::topic(method).is_some() || method.starts_with("_scp/ide_operation/")
    }

    /// What a message is about: the topic of panels or of comments. `None` for all other methods.
    pub fn topic(method: &str) -> Option<&'static str> {
        match method {
            ShowPanel::METHOD | ClearPanel::METHOD | GetPanel::METHOD => Some(PANELS),
            ShowComment::METHOD | ClearComment::METHOD => Some(COMMENTS),
            _ => None,
        }
    }

    /// Whether a panel or a comment with this id is shown.
    pub fn shows(&self, topic: &str, id: &str) -> bool {
        self.topics.contains(topic, id)
    }

    /// Answers a request of a component. A notification with the same method does the same.
    pub async fn handle(&self, method: &str, params: Value) -> Outcome {
        match method {
            ShowPanel::METHOD => answer(read(params).and_then(|it| self.show_panel(it))),
            ClearPanel::METHOD => answer(read(params).map(|it| self.clear_panel(&it))),
            GetPanel::METHOD => answer(read(params).map(|it| self.get_panel(&it))),
            ShowComment::METHOD => answer(read(params).and_then(|it| self.show_comment(it))),
            ClearComment::METHOD => answer(read(params).map(|it| self.clear_comment(&it))),
            _ => match method.strip_prefix("_scp/ide_operation/") {
                Some(name) => self.operate(name, params).await,
                None => Err(rpc_error::method_not_found(method)),
            },
        }
    }

    fn show_panel(&self, panel: ShowPanel) -> Result<Value, String> {
        let ShowPanel { id, label, contents, session_id } = panel;
        check_id(&id)?;
        if label.as_ref().is_some_and(|it| it.len() > MAX_LABEL) {
            return Err(format!("the label of the panel '{id}' is longer than 4 KiB"));
        }
        if contents.as_ref().is_some_and(|it| it.len() > MAX_CONTENTS) {
            return Err(format!("the contents of the panel '{id}' are larger than 1 MiB"));
        }
        let mut state = self.state();
        let front = state.front + 1;
        self.topics.change(PANELS, |topic| {
            let (label, contents) = match (topic.get(&id), label, contents) {
                (Some(Entry::Panel { label: old, contents: before, .. }), label, contents) => (
                    label.unwrap_or_else(|| old.clone()),
                    contents.unwrap_or_else(|| before.clone()),
                ),
                (_, Some(label), Some(contents)) => {
                    if topic.len() >= MAX_PANELS {
                        return Err(format!(
                            "{MAX_PANELS} panels are open; clear one of them first"
                        ));
                    }
                    (label, contents)
                }
                (_, label, contents) => {
                    let missing = match (label, contents) {
                        (None, None) => "`label` and `contents`",
                        (None, _) => "`label`",
                        _ => "`contents`",
                    };
                    return Err(format!(
                        "the panel '{id}' does not exist, and a new panel needs {missing}"
                    ));
                }
            };
            topic.put(&id, Entry::Panel { label, contents, front });
            Ok(())
        })?;
        state.front = front;
        if let Some(session) = session_id {
            state.sessions.insert((PANELS, id), session);
        }
        Ok(json!({}))
    }

    fn clear_panel(&self, panel: &ClearPanel) -> Value {
        self.state().sessions.remove(&(PANELS, panel.id.clone()));
        self.topics.remove(PANELS, &panel.id);
        json!({})
    }

    fn get_panel(&self, panel: &GetPanel) -> Value {
        match self.topics.get(PANELS, &panel.id) {
            Some(Entry::Panel { contents, .. }) => contents.into(),
            _ => Value::Null,
        }
    }

    fn show_comment(&self, comment: ShowComment) -> Result<Value, String> {
        let ShowComment { id, url, start, end, can_reply, contents, session_id } = comment;
        check_id(&id)?;
        let text = contents.unwrap_or_default();
        if text.len() > MAX_COMMENT {
            return Err(format!("the text of the comment '{id}' is larger than 64 KiB"));
        }
        let path = self.project.locate(&url)?;
        if start.line == 0 || end.is_some_and(|end| end.line < start.line) {
            return Err(format!(
                "the place of the comment '{id}' does not exist: lines begin with 1, and the end follows the start"
            ));
        }
        let line = u64::from(start.line);
        let mut thread = Thread {
            path: self.project.shown(&path),
            line,
            column: start.column.map(u64::from),
            end_line: end.map_or(line, |end| u64::from(end.line)),
            end_column: end.and_then(|end| end.column).map(u64::from),
            text,
            can_reply,
            replies: Vec::new(),
        };
        self.topics.change(COMMENTS, |topic| {
            match topic.get(&id) {
                Some(Entry::Thread(old)) => thread.replies.clone_from(&old.replies),
                _ if topic.len() >= MAX_COMMENTS => {
                    return Err(format!(
                        "{MAX_COMMENTS} comments are shown; clear some of them first"
                    ));
                }
                _ => {}
            }
            topic.put(&id, Entry::Thread(thread));
            Ok(())
        })?;
        if let Some(session) = session_id {
            self.state().sessions.insert((COMMENTS, id), session);
        }
        Ok(json!({}))
    }

    fn clear_comment(&self, comment: &ClearComment) -> Value {
        self.state().sessions.remove(&(COMMENTS, comment.id.clone()));
        self.topics.remove(COMMENTS, &comment.id);
        json!({})
    }

    /// Does what a person does on the page. Returns `None` if the action is about something else.
    pub async fn act(&self, action: &Action) -> Option<Result<Value, String>> {
        Some(match action {
            Action::PanelEvent { panel, widget, event, value, inputs } => {
                let other = |_| PanelEventKind::Other(event.clone());
                let kind = serde_json::from_value(event.as_str().into()).unwrap_or_else(other);
                let event = PanelEvent {
                    id: panel.clone(),
                    widget: widget.clone(),
                    kind,
                    value: Some(value.clone()).filter(|it| !it.is_null()),
                    inputs: inputs.clone().unwrap_or_default(),
                    session_id: self.session(PANELS, panel),
                };
                match self.topics.get(PANELS, panel) {
                    Some(_) => self.notify("_scp/html_panel/event", &event),
                    None => Err("the panel is gone".to_owned()),
                }
            }
            Action::ClosePanel { panel } => match self.topics.get(PANELS, panel) {
                Some(_) => {
                    let session_id = self.state().sessions.remove(&(PANELS, panel.clone()));
                    self.topics.remove(PANELS, panel);
                    let closed = PanelClosed { id: panel.clone(), session_id };
                    self.notify("_scp/html_panel/closed", &closed)
                }
                None => Ok(Value::Null),
            },
            Action::Reply { thread, text } => self.reply(thread, text),
            Action::Viewing { open, active, selection } => {
                let mut state = self.state();
                state.open.clone_from(open);
                state.active.clone_from(active);
                state.selection = *selection;
                Ok(Value::Null)
            }
            Action::AnswerEdit { edit, accept } => self.answer_edit(edit, *accept).await,
            Action::ListFiles { .. } | Action::ReadFile { .. } | Action::FindFiles { .. } => {
                let (project, action) = (self.project.clone(), action.clone());
                let done = tokio::task::spawn_blocking(move || read_project(&project, &action));
                done.await.unwrap_or_else(|error| Err(error.to_string()))
            }
            _ => return None,
        })
    }

    fn reply(&self, thread: &str, text: &str) -> Result<Value, String> {
        let text = text.trim();
        if text.is_empty() || text.len() > MAX_COMMENT {
            return Err("write a reply of at most 64 KiB".to_owned());
        }
        let session_id = self.session(COMMENTS, thread);
        let reply = CommentReply { id: thread.to_owned(), contents: text.to_owned(), session_id };
        self.topics.change(COMMENTS, |topic| {
            let Some(Entry::Thread(found)) = topic.get(thread) else {
                return Err("the comment is gone".to_owned());
            };
            if !found.can_reply || found.replies.len() >= MAX_REPLIES {
                return Err("this comment takes no replies".to_owned());
            }
            let mut found = found.clone();
            let sent = self.notify("_scp/file_comment/reply", &reply)?;
            found.replies.push(Reply { text: text.to_owned(), time: now() });
            topic.put(thread, Entry::Thread(found));
            Ok(sent)
        })
    }

    fn session(&self, topic: &'static str, id: &str) -> Option<String> {
        self.state().sessions.get(&(topic, id.to_owned())).cloned()
    }

    /// Nobody waits for edits any more, because the chain has ended.
    pub fn end(&self) {
        let edits = std::mem::take(&mut self.state().edits);
        edits.keys().for_each(|id| self.topics.remove(EDITS, id));
    }

    fn notify(&self, method: &'static str, params: &impl Serialize) -> Result<Value, String> {
        let params = serde_json::to_value(params).map_err(|error| error.to_string())?;
        match self.events.try_send(ToOwner { method, params }) {
            Ok(()) => Ok(Value::Null),
            Err(mpsc::error::TrySendError::Full(_)) => {
                Err("the chain does not take more events at the moment; try again".to_owned())
            }
            Err(mpsc::error::TrySendError::Closed(_)) => Err("the chain has ended".to_owned()),
        }
    }

    /// Notes that a file was written, so that the page shows its new text.
    pub fn file_written(&self, path: &std::path::Path) {
        let shown = self.project.shown(path);
        self.topics.change(FILES, |topic| {
            let version = match topic.get(&shown) {
                Some(Entry::Changed { version }) => version + 1,
                _ => 1,
            };
            topic.put(&shown, Entry::Changed { version });
            while topic.len() > MAX_WRITTEN {
                topic.remove_oldest(|it| matches!(it, Entry::OpenFile { .. }));
            }
        });
    }
}

fn read_project(project: &Project, action: &Action) -> Result<Value, String> {
    let value = match action {
        Action::ListFiles { path } => serde_json::to_value(project.list(path)?),
        Action::ReadFile { path } => serde_json::to_value(project.read(path)?),
        Action::FindFiles { text } => {
            let found = project.find_files(text, 50);
            Ok(found.into_iter().map(|path| json!({ "path": path })).collect())
        }
        _ => Ok(Value::Null),
    };
    value.map_err(|error| error.to_string())
}

fn read<T: DeserializeOwned>(params: Value) -> Result<T, String> {
    serde_json::from_value(params).map_err(|error| error.to_string())
}

fn check_id(id: &str) -> Result<(), String> {
    match id.len() > MAX_ID {
        true => Err("the `id` is longer than 16 KiB".to_owned()),
        false => Ok(()),
    }
}

fn answer(result: Result<Value, String>) -> Outcome {
    result.map_err(|why| rpc_error::invalid_params(&why))
}

/// Gets whether an edit was applied, or why it was not.
type EditAnswer = oneshot::Sender<(bool, Option<String>)>;
/// The other end of it.
type EditAnswered = oneshot::Receiver<(bool, Option<String>)>;

/// Milliseconds since 1970.
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |it| u64::try_from(it.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests;
