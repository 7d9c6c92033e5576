//! What each key does.

use std::time::Instant;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::completion;
use super::state::State;
use crate::editor::Outcome;
use crate::view::{Activity, UserInput};

/// What a key causes outside of the state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Action {
    /// Send this to the conversation.
    Send(UserInput),
    /// Keep this text in the history.
    Remember(String),
    /// Stop the process until the user continues it.
    Suspend,
    /// Clear the screen.
    ClearScreen,
}

impl State {
    /// Handles a key.
    pub(super) fn key(&mut self, key: KeyEvent, now: Instant) -> Vec<Action> {
        self.last_typed = Some(now);
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let plain = (key.modifiers - KeyModifiers::SHIFT).is_empty();
        match key.code {
            KeyCode::Char('c') if control => return self.control_c(now),
            KeyCode::Char('d') if control && self.editor.is_empty() => {
                return vec![Action::Send(UserInput::End)];
            }
            KeyCode::Char('l') if control => return vec![Action::ClearScreen],
            KeyCode::Char('z') if control => return vec![Action::Suspend],
            KeyCode::Char('o') if control => {
                match &self.question {
                    Some(_) => self.unfold_question(),
                    None => self.unfold(None),
                }
                return Vec::new();
            }
            KeyCode::Tab => {
                if let Some(text) = completion::completed(&self.commands, self.editor.text()) {
                    self.editor.set(&text);
                }
                return Vec::new();
            }
            KeyCode::Char(it)
                if plain && self.editor.is_empty() && self.editor.search().is_none() =>
            {
                if let Some(choice) = self.choice(now, |question| question.of_key(it)) {
                    return choice;
                }
            }
            KeyCode::Esc if self.editor.search().is_none() => return self.escape(now),
            KeyCode::Enter if plain && self.editor.search().is_none() => {
                let text = self.editor.text().to_owned();
                if let Some(choice) = self.choice(now, |question| question.of_text(&text)) {
                    self.editor.clear();
                    return choice;
                }
            }
            _ => {}
        }
        match self.editor.key(key) {
            Outcome::Entered(text) => self.entered(text),
            Outcome::Edited | Outcome::Ignored => Vec::new(),
        }
    }

    /// Inserts pasted text. It never answers a question, and never enters the text.
    pub(super) fn paste(&mut self, text: &str) {
        self.editor.insert(text.trim_end_matches(['\r', '\n']));
    }

    fn entered(&mut self, text: String) -> Vec<Action> {
        self.last_typed = None;
        let mut actions = Vec::new();
        if self.editor.remember(&text) {
            actions.push(Action::Remember(text.clone()));
        }
        actions.push(Action::Send(UserInput::Line(text)));
        actions
    }

    /// The answer to the open question, if it takes answers now and the user has named one.
    fn choice(
        &mut self,
        now: Instant,
        find: impl FnOnce(&super::question::OpenQuestion) -> Option<usize>,
    ) -> Option<Vec<Action>> {
        let open = self.question.as_mut().filter(|open| open.takes_answers(now))?;
        let index = find(open)?;
        open.chosen = Some(index);
        Some(vec![Action::Send(UserInput::Choice(index))])
    }

    /// Ctrl-C is acknowledged at once: the status changes before the agent has ended its turn.
    fn control_c(&mut self, now: Instant) -> Vec<Action> {
        if self.editor.search().is_some() {
            self.editor.clear();
            return Vec::new();
        }
        if self.activity == Activity::Idle && self.question.is_none() && !self.editor.is_empty() {
            self.editor.clear();
            return Vec::new();
        }
        self.interrupt(now)
    }

    fn interrupt(&mut self, now: Instant) -> Vec<Action> {
        if matches!(self.activity, Activity::Working { .. } | Activity::Starting { .. }) {
            self.activity = Activity::Cancelling { since: now };
        }
        vec![Action::Send(UserInput::Interrupt)]
    }

    /// Escape refuses to answer a question.
    fn escape(&mut self, now: Instant) -> Vec<Action> {
        let takes = self.question.as_ref().is_some_and(|open| open.takes_answers(now));
        if takes { self.interrupt(now) } else { Vec::new() }
    }
}
