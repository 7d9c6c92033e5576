//! What the terminal shows. The conversation and the keyboard change it.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::folds::Folds;
use super::question::{OpenQuestion, TYPING};
use crate::editor::Editor;
use crate::markdown::{Layout, MarkdownStream};
use crate::text::Line;
use crate::transcript::{TextKind, Transcript};
use crate::view::{Activity, Question, SlashCommand};

/// The kind of what was printed last. Parts of some kinds follow each other without an empty line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Group {
    Header,
    Prompt,
    Answer,
    Thought,
    ToolCall,
    Plan,
    Question,
    Note,
    Error,
    Wire,
}

/// A text that is arriving.
#[derive(Debug)]
pub(super) struct OpenText {
    pub(super) kind: TextKind,
    /// The answer, of which complete blocks are printed.
    pub(super) stream: MarkdownStream,
    /// A thought or prompt, which is printed when it is complete.
    pub(super) whole: String,
}

/// What the terminal shows.
pub(super) struct State {
    pub(super) layout: Layout,
    /// The rows of the terminal.
    pub(super) height: usize,
    pub(super) transcript: Transcript,
    pub(super) text: Option<OpenText>,
    pub(super) activity: Activity,
    /// The component that the chain waits for.
    pub(super) awaited: Option<String>,
    pub(super) question: Option<OpenQuestion>,
    pub(super) queued: Vec<String>,
    pub(super) commands: Vec<SlashCommand>,
    pub(super) facts: Vec<String>,
    pub(super) editor: Editor,
    /// When the user pressed the last key, unless that key entered a line.
    pub(super) last_typed: Option<Instant>,
    pub(super) folds: Folds,
    /// The kind of what was printed last.
    pub(super) last: Option<Group>,
    /// Lines to print above the live region.
    pub(super) finished: Vec<Line>,
    /// When each running tool call was first reported, by id.
    pub(super) call_starts: Vec<(String, Instant)>,
}

impl State {
    pub(super) fn new(color: bool, columns: usize, rows: usize, history: Vec<String>) -> State {
        State {
            layout: Layout { width: columns.max(1), color, linear: false },
            height: rows.max(1),
            transcript: Transcript::default(),
            text: None,
            activity: Activity::Idle,
            awaited: None,
            question: None,
            queued: Vec::new(),
            commands: Vec::new(),
            facts: Vec::new(),
            editor: Editor::new(history),
            last_typed: None,
            folds: Folds::default(),
            last: None,
            finished: Vec::new(),
            call_starts: Vec::new(),
        }
    }

    /// Sets the size of the terminal.
    pub(super) fn resize(&mut self, columns: usize, rows: usize) {
        self.layout.width = columns.max(1);
        self.height = rows.max(1);
    }

    /// Whether the status line changes with the time.
    pub(super) fn is_animated(&self) -> bool {
        self.activity != Activity::Idle || self.question.is_some()
    }

    pub(super) fn set_activity(&mut self, activity: Activity) {
        // The view acknowledges Ctrl-C before the conversation does. The clock goes on.
        if let (Activity::Cancelling { .. }, Activity::Cancelling { .. }) =
            (self.activity, activity)
        {
            return;
        }
        if activity == Activity::Idle {
            self.end_turn();
            self.awaited = None;
        }
        self.activity = activity;
    }

    pub(super) fn set_awaited(&mut self, component: Option<&str>) {
        self.awaited = component.map(acp_wire::printable::one_line);
    }

    pub(super) fn set_queued(&mut self, prompts: &[String]) {
        self.queued = prompts.to_vec();
    }

    pub(super) fn set_commands(&mut self, commands: &[SlashCommand]) {
        self.commands = commands.to_vec();
    }

    pub(super) fn set_facts(&mut self, facts: &[String]) {
        self.facts = facts.to_vec();
    }

    pub(super) fn set_terminal(&mut self, terminal: &str, output: &str, exit: Option<&str>) {
        self.transcript.set_terminal(terminal, output, exit);
    }

    pub(super) fn set_question(&mut self, question: Option<&Question>) {
        match question {
            Some(question) => {
                self.end_text();
                let mut question = question.clone();
                let call = question.tool_call.as_ref();
                question.tool_call = call.map(|call| self.transcript.with_relative_paths(call));
                self.question = Some(OpenQuestion::new(question));
            }
            None => self.question = None,
        }
    }

    pub(super) fn update(&mut self, update: &Value, replayed: bool, now: Instant) {
        for piece in self.transcript.update(update, replayed) {
            self.piece(piece);
        }
        self.note_starts(now);
    }

    /// Notes when tool calls start.
    fn note_starts(&mut self, now: Instant) {
        let running = self.transcript.running();
        let id = |call: &Value| call["toolCallId"].as_str().unwrap_or_default().to_owned();
        self.call_starts.retain(|(it, _)| running.iter().any(|call| id(call) == *it));
        for call in running {
            let call = id(call);
            if !self.call_starts.iter().any(|(it, _)| *it == call) {
                self.call_starts.push((call, now));
            }
        }
    }

    /// How long a tool call has been running.
    pub(super) fn running_for(&self, call: &Value, now: Instant) -> Duration {
        let id = call["toolCallId"].as_str().unwrap_or_default();
        let start = self.call_starts.iter().find(|(it, _)| it == id);
        start.map_or(Duration::ZERO, |(_, start)| now.saturating_duration_since(*start))
    }

    /// The frame was drawn.
    pub(super) fn drawn(&mut self, now: Instant) {
        if let Some(question) = &mut self.question {
            let typing = self.last_typed.is_some_and(|typed| now < typed + TYPING);
            question.drawn(now, typing);
        }
    }
}
