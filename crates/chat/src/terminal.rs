//! The chat in a terminal.
//!
//! Finished parts of the conversation are printed once, and become part of the terminal's scrollback. Below them is a
//! live region that is redrawn in place: the text that is arriving, running tool calls, the plan, an open question, the
//! status and the input line.
//!
//! - `state`: what the conversation and the keyboard change
//! - `pieces`: what is printed, and how; `folds`: outputs that are shown in part
//! - `keys`: what each key does; `question`: the open question; `completion`: slash commands
//! - `frame`: the lines of the live region
//! - `screen`: draws the live region; `device`: the modes of the terminal; `threads`: the keyboard and the clock

mod completion;
mod device;
mod folds;
mod frame;
mod keys;
mod pieces;
pub(crate) mod question;
mod screen;
mod state;
#[cfg(test)]
mod tests;
mod threads;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use serde_json::Value;
use tokio::sync::mpsc::Receiver;

use crate::transcript::Transcript;
use crate::view::{Activity, Question, SharedView, SlashCommand, UserInput, View};
use crate::wire::Row;
pub(crate) use device::size;
pub(crate) use folds::{Fold, Folds};
pub(crate) use frame::seconds;
pub(crate) use pieces::paragraphs;
use state::State;
use threads::Shared;

/// The options of the chat in a terminal.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Whether to use colors and other text styles.
    pub color: bool,
    /// The file with the prompts of earlier runs. `None` to keep no history.
    pub history: Option<PathBuf>,
    /// The names of the components, for the first line.
    pub chain: Vec<String>,
    /// The folder of the session. Paths in it are shown without it.
    pub folder: PathBuf,
}

/// Starts the chat: sets the terminal to raw mode, and reads the keyboard.
///
/// # Errors
/// The terminal cannot be set to raw mode.
pub fn start(options: Options) -> io::Result<(SharedView, Receiver<UserInput>)> {
    let (history, entries, note) = match &options.history {
        None => (None, Vec::new(), None),
        Some(path) => match crate::history::History::open(path) {
            Ok((history, entries)) => (Some(history), entries, None),
            Err(error) => {
                let note = format!("the history {} is not used: {error}", path.display());
                (None, Vec::new(), Some(note))
            }
        },
    };
    let (columns, rows) = device::size();
    let mut state = State::new(options.color, columns, rows, entries);
    state.transcript = Transcript::new(&options.folder);
    // A sign of life in the first frame.
    state.set_activity(Activity::Starting { since: Instant::now() });
    state.header(&options.chain);
    if let Some(note) = note {
        state.note(&note);
    }
    device::enter()?;
    let (shared, input) = threads::start(state, history, options.color);
    Ok((SharedView::new(TerminalView(shared)), input))
}

/// The view of a conversation in a terminal.
struct TerminalView(Arc<Shared>);

impl TerminalView {
    fn change(&self, change: impl FnOnce(&mut State)) {
        self.0.change(change);
    }
}

impl View for TerminalView {
    fn activity(&mut self, activity: Activity) {
        self.change(|state| state.set_activity(activity));
    }

    fn awaited(&mut self, component: Option<&str>) {
        self.change(|state| state.set_awaited(component));
    }

    fn note(&mut self, text: &str) {
        self.change(|state| state.note(text));
    }

    fn error(&mut self, text: &str) {
        self.change(|state| state.error(text));
    }

    fn prompt(&mut self, text: &str) {
        self.change(|state| state.prompt(text));
    }

    fn queued(&mut self, prompts: &[String]) {
        self.change(|state| state.set_queued(prompts));
    }

    fn update(&mut self, update: &Value, replayed: bool) {
        let now = Instant::now();
        self.change(|state| state.update(update, replayed, now));
    }

    fn terminal_output(&mut self, terminal: &str, output: &str, exit: Option<&str>) {
        self.change(|state| state.set_terminal(terminal, output, exit));
    }

    fn question(&mut self, question: Option<&Question>) {
        self.change(|state| state.set_question(question));
    }

    fn answered(&mut self, question: &Question, answer: &str) {
        self.change(|state| state.answered(question, answer));
    }

    fn turn_ended(&mut self, stop_reason: Option<&str>) {
        self.change(|state| state.turn_ended(stop_reason));
    }

    fn commands(&mut self, commands: &[SlashCommand]) {
        self.change(|state| state.set_commands(commands));
    }

    fn facts(&mut self, facts: &[String]) {
        self.change(|state| state.set_facts(facts));
    }

    fn unfold(&mut self, number: Option<usize>) {
        self.change(|state| state.unfold(number));
    }

    fn wire(&mut self, row: &Row) {
        self.change(|state| state.wire(row));
    }

    fn pause(&mut self, paused: bool) -> bool {
        self.0.pause(paused);
        true
    }

    fn finish(&mut self) {
        self.0.finish();
    }

    fn write_error(&mut self) -> Option<io::Error> {
        self.0.write_error()
    }
}

impl Drop for TerminalView {
    fn drop(&mut self) {
        self.0.finish();
    }
}
