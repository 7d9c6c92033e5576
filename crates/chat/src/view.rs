//! What a chat shows, and what the user enters.
//!
//! The conversation knows only [`View`] and [`UserInput`]. A view shows the conversation in a terminal, as plain text
//! or as JSON.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use serde_json::Value;

use crate::wire::Row;

/// Shows a conversation. No method blocks for long.
pub trait View: Send {
    /// What the chat is doing from now on.
    fn activity(&mut self, activity: Activity);

    /// The component that the chain waits for, while the chat is starting or waits for an answer. `None` if unknown.
    fn awaited(&mut self, component: Option<&str>);

    /// A session is open: its `sessionId`, `protocolVersion`, `cwd`, and the `agent` with its name and version.
    fn session(&mut self, session: &Value) {
        let _ = session;
    }

    /// A remark of the chat itself. May have several lines.
    fn note(&mut self, text: &str);

    /// An error, with its remedy. May have several lines.
    fn error(&mut self, text: &str);

    /// A prompt that is sent now.
    fn prompt(&mut self, text: &str);

    /// The prompts that the user has entered and that are not sent yet.
    fn queued(&mut self, prompts: &[String]);

    /// The member `update` of a `session/update`, of ACP version 1 or 2. `replayed` is set while the agent replays a
    /// session that is loaded.
    fn update(&mut self, update: &Value, replayed: bool);

    /// The output so far of a terminal that the client runs for the agent, and how its command ended. Tool calls that
    /// contain the terminal show it. Views read the terminals of ACP version 2 from the updates.
    fn terminal_output(&mut self, terminal: &str, output: &str, exit: Option<&str>) {
        let _ = (terminal, output, exit);
    }

    /// The question that the user has to answer, or `None` if there is no open question. The view sends
    /// [`UserInput::Choice`].
    fn question(&mut self, question: Option<&Question>);

    /// The answer to a question that was answered, by the user or otherwise.
    fn answered(&mut self, question: &Question, answer: &str);

    /// The turn has ended, with its stop reason.
    fn turn_ended(&mut self, stop_reason: Option<&str>);

    /// The slash commands that the user can enter, for completion and `/help`.
    fn commands(&mut self, commands: &[SlashCommand]);

    /// Short facts about the session for the status line, such as the mode and the model.
    fn facts(&mut self, facts: &[String]);

    /// Shows a folded tool output or thought in full: the last one, or the one with this number.
    fn unfold(&mut self, number: Option<usize>);

    /// A message on a hop of the chain.
    fn wire(&mut self, row: &Row);

    /// Hands the terminal over to another program, or takes it back. Returns whether the view can do that.
    fn pause(&mut self, paused: bool) -> bool {
        let _ = paused;
        false
    }

    /// Shows everything that is still pending, and restores the terminal. Nothing is shown after this.
    fn finish(&mut self);

    /// The error that occurred when writing the output. Returned once.
    fn write_error(&mut self) -> Option<io::Error>;
}

/// What the chat is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Activity {
    /// The chain is starting, or a session is being opened.
    Starting {
        /// Since when.
        since: Instant,
    },
    /// The chat waits for a prompt.
    Idle,
    /// The agent is working on a prompt.
    Working {
        /// Since when.
        since: Instant,
    },
    /// The user has cancelled the turn, and the agent has not ended it yet.
    Cancelling {
        /// Since when.
        since: Instant,
    },
}

/// A question of the agent: a request for permission, or another choice.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// What is asked, in one line.
    pub title: String,
    /// The tool call that needs permission: the request's own members, merged with earlier updates of the call. Shows
    /// the paths, the command (`rawInput`) and the diffs (`content`).
    pub tool_call: Option<Value>,
    /// The answers to choose from.
    pub options: Vec<Choice>,
}

/// An answer to choose from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// The id on the wire.
    pub id: String,
    /// What the user reads.
    pub name: String,
    /// `allow_once`, `allow_always`, `reject_once`, `reject_always`, or another kind.
    pub kind: String,
}

/// A command that starts with a slash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlashCommand {
    /// The name, without the slash.
    pub name: String,
    /// What it takes, such as `[ID]`. Empty if it takes nothing.
    pub argument: String,
    /// What it does, in one line.
    pub description: String,
    /// Whether it is a command of the agent, not of the chat.
    pub of_agent: bool,
}

/// What the user enters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UserInput {
    /// A prompt or a slash command, which may have several lines.
    Line(String),
    /// The index of the chosen option of the open question.
    Choice(usize),
    /// Ctrl-C while the agent is working, the chain is starting, or a question is open; or Ctrl-C at an empty prompt.
    Interrupt,
    /// The end of the input.
    End,
}

/// A view that the conversation, the keyboard and the chain share.
#[derive(Clone)]
pub struct SharedView(Arc<Mutex<dyn View>>);

impl SharedView {
    /// Shares a view.
    pub fn new(view: impl View + 'static) -> SharedView {
        SharedView(Arc::new(Mutex::new(view)))
    }

    /// Locks the view. The lock must not be held across an await point.
    pub fn lock(&self) -> MutexGuard<'_, dyn View + 'static> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for SharedView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SharedView")
    }
}
