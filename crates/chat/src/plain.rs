//! The chat as plain text: for pipes, simple terminals and screen readers.
//!
//! The text is linear: nothing is drawn over. Into a pipe, the answer is written as it arrives, as Markdown. On a
//! terminal, it is written block by block, with word wrap, and words instead of signs. Errors go to standard error.
//!
//! - `output`: what is written, and how
//! - `input`: the lines of standard input; the remarks while the chat waits

mod input;
mod output;
#[cfg(test)]
mod tests;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use tokio::sync::mpsc::Receiver;

use crate::view::{Activity, Question, SharedView, SlashCommand, UserInput, View};
use crate::wire::Row;
use output::Output;

/// The options of the chat as plain text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// Whether the output is a terminal: there are word wrap, words instead of signs, and remarks while the chat waits.
    pub terminal: bool,
    /// Whether the input is a terminal, which echoes what the user types: there is a sign before the input.
    pub input_terminal: bool,
    /// Whether to read prompts from standard input.
    pub read_input: bool,
    /// Whether to use colors.
    pub color: bool,
    /// The width of lines. 0 for the width of the terminal, or for the usual one in a pipe.
    pub width: usize,
    /// The folder of the session. Paths in it are shown without it.
    pub folder: PathBuf,
}

/// Starts the chat.
pub fn start(options: Options) -> (SharedView, Receiver<UserInput>) {
    let output = Output::new(options.clone(), Box::new(io::stdout()), Box::new(io::stderr()));
    let shared = Arc::new(Shared { output: Mutex::new(output), wake: Condvar::new() });
    let input = input::start(&shared, &options);
    (SharedView::new(PlainView(shared)), input)
}

/// What the conversation, the input and the clock share.
struct Shared {
    output: Mutex<Output>,
    wake: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Output> {
        self.output.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The view of a conversation as plain text.
struct PlainView(Arc<Shared>);

impl View for PlainView {
    fn activity(&mut self, activity: Activity) {
        self.0.lock().set_activity(activity);
        self.0.wake.notify_all();
    }

    fn awaited(&mut self, component: Option<&str>) {
        self.0.lock().set_awaited(component);
    }

    fn note(&mut self, text: &str) {
        self.0.lock().note(text);
    }

    fn error(&mut self, text: &str) {
        self.0.lock().error(text);
    }

    fn prompt(&mut self, text: &str) {
        self.0.lock().prompt(text);
    }

    fn queued(&mut self, prompts: &[String]) {
        self.0.lock().set_queued(prompts);
    }

    fn update(&mut self, update: &Value, replayed: bool) {
        self.0.lock().update(update, replayed);
    }

    fn terminal_output(&mut self, terminal: &str, output: &str, exit: Option<&str>) {
        self.0.lock().set_terminal(terminal, output, exit);
    }

    fn question(&mut self, question: Option<&Question>) {
        self.0.lock().set_question(question);
    }

    fn answered(&mut self, question: &Question, answer: &str) {
        self.0.lock().answered(question, answer);
    }

    fn turn_ended(&mut self, stop_reason: Option<&str>) {
        self.0.lock().turn_ended(stop_reason);
    }

    fn commands(&mut self, _: &[SlashCommand]) {}

    fn facts(&mut self, _: &[String]) {}

    fn unfold(&mut self, number: Option<usize>) {
        self.0.lock().unfold(number);
    }

    fn wire(&mut self, row: &Row) {
        self.0.lock().wire(row);
    }

    fn finish(&mut self) {
        self.0.lock().finish();
        self.0.wake.notify_all();
    }

    fn write_error(&mut self) -> Option<io::Error> {
        self.0.lock().take_error()
    }
}
