//! The input line: a text of one or more lines, with a cursor and a history.
//!
//! - [`layout`](Editor::rows): the rows of the text in a terminal
//! - [`history`](crate::history): the file with the entries of earlier runs

mod cursor;
mod rows;
#[cfg(test)]
mod tests;

pub use rows::Rows;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// The maximum length of the text.
const MAX_TEXT: usize = 1024 * 1024;

/// What a key did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The key has no meaning for the editor.
    Ignored,
    /// The text, the cursor or the search may have changed.
    Edited,
    /// The user has entered this text.
    Entered(String),
}

/// A search in the history.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Search {
    query: String,
    /// The index of the entry that matches.
    found: Option<usize>,
    /// The text from before the search.
    before: String,
}

/// A text that the user edits.
#[derive(Debug, Default)]
pub struct Editor {
    text: String,
    /// The position of the cursor in the text, at the boundary of a character.
    cursor: usize,
    /// The text that was deleted last with a command.
    killed: String,
    history: Vec<String>,
    /// The entry of the history that is shown.
    position: Option<usize>,
    /// The text from before the history was shown.
    draft: String,
    search: Option<Search>,
}

impl Editor {
    /// An empty editor with a history, oldest entry first.
    pub fn new(history: Vec<String>) -> Editor {
        Editor { history, ..Editor::default() }
    }

    /// The text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.text.is_empty()
    }

    /// The query of the search in the history, and whether an entry matches.
    pub fn search(&self) -> Option<(&str, bool)> {
        self.search.as_ref().map(|search| (search.query.as_str(), search.found.is_some()))
    }

    /// Replaces the text. The cursor is at its end.
    pub fn set(&mut self, text: &str) {
        text.clone_into(&mut self.text);
        self.cursor = self.text.len();
        self.search = None;
    }

    /// Removes the text.
    pub fn clear(&mut self) {
        self.set("");
        self.position = None;
        self.draft.clear();
    }

    /// Inserts text at the cursor. Control characters are dropped.
    pub fn insert(&mut self, text: &str) {
        let text = text.replace("\r\n", "\n").replace('\r', "\n");
        let text = crate::text::clean(&text);
        if self.text.len() + text.len() <= MAX_TEXT {
            self.text.insert_str(self.cursor, &text);
            self.cursor += text.len();
        }
    }

    /// Adds an entry to the history. Returns whether it is a new one that may be kept.
    pub fn remember(&mut self, entry: &str) -> bool {
        let keep = !entry.trim().is_empty()
            && !entry.starts_with(' ')
            && self.history.last().is_none_or(|last| last != entry);
        if keep {
            self.history.push(entry.to_owned());
        }
        keep
    }

    /// Handles a key.
    pub fn key(&mut self, key: KeyEvent) -> Outcome {
        if self.search.is_some()
            && let Some(outcome) = self.search_key(key)
        {
            return outcome;
        }
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        let alt = key.modifiers.contains(KeyModifiers::ALT);
        let shift = key.modifiers.contains(KeyModifiers::SHIFT);
        match key.code {
            KeyCode::Enter if alt || shift || control => self.insert("\n"),
            KeyCode::Enter => return self.enter(),
            KeyCode::Char('j') if control => self.insert("\n"),
            KeyCode::Char(it) if control && !alt => return self.control_key(it),
            KeyCode::Char(it) if alt && !control => return self.alt_key(it),
            KeyCode::Char(it) => self.insert(it.encode_utf8(&mut [0; 4])),
            KeyCode::Left if control || alt => self.cursor = self.word_before(),
            KeyCode::Right if control || alt => self.cursor = self.word_after(),
            KeyCode::Left => self.cursor = self.before(),
            KeyCode::Right => self.cursor = self.after(),
            KeyCode::Home => self.cursor = self.line_start(),
            KeyCode::End => self.cursor = self.line_end(),
            KeyCode::Up => self.up(),
            KeyCode::Down => self.down(),
            KeyCode::Backspace if control || alt => self.kill(self.word_before(), self.cursor),
            KeyCode::Backspace => self.delete(self.before(), self.cursor),
            KeyCode::Delete if control || alt => self.kill(self.cursor, self.word_after()),
            KeyCode::Delete => self.delete(self.cursor, self.after()),
            _ => return Outcome::Ignored,
        }
        Outcome::Edited
    }

    fn control_key(&mut self, key: char) -> Outcome {
        match key {
            'a' => self.cursor = self.line_start(),
            'e' => self.cursor = self.line_end(),
            'b' => self.cursor = self.before(),
            'f' => self.cursor = self.after(),
            'd' => self.delete(self.cursor, self.after()),
            'h' => self.delete(self.before(), self.cursor),
            'k' if self.cursor == self.line_end() => self.kill(self.cursor, self.after()),
            'k' => self.kill(self.cursor, self.line_end()),
            'u' => self.kill(self.line_start(), self.cursor),
            'w' => self.kill(self.blank_before(), self.cursor),
            'y' => self.insert(&self.killed.clone()),
            'p' => self.up(),
            'n' => self.down(),
            'r' => {
                let before = self.text.clone();
                self.search = Some(Search { before, ..Search::default() });
            }
            't' => self.transpose(),
            _ => return Outcome::Ignored,
        }
        Outcome::Edited
    }

    fn alt_key(&mut self, key: char) -> Outcome {
        match key {
            'b' => self.cursor = self.word_before(),
            'f' => self.cursor = self.word_after(),
            'd' => self.kill(self.cursor, self.word_after()),
            '<' => self.cursor = 0,
            '>' => self.cursor = self.text.len(),
            _ => return Outcome::Ignored,
        }
        Outcome::Edited
    }

    /// Enters the text. A backslash at its end continues it on the next line.
    fn enter(&mut self) -> Outcome {
        if self.cursor == self.text.len() && self.text.ends_with('\\') {
            self.delete(self.before(), self.cursor);
            self.insert("\n");
            return Outcome::Edited;
        }
        if self.text.trim().is_empty() {
            self.clear();
            return Outcome::Edited;
        }
        let text = std::mem::take(&mut self.text);
        self.clear();
        Outcome::Entered(text)
    }

    fn delete(&mut self, start: usize, end: usize) {
        self.text.replace_range(start..end, "");
        self.cursor = start;
    }

    /// Deletes text that can be inserted again.
    fn kill(&mut self, start: usize, end: usize) {
        if start < end {
            self.killed = self.text[start..end].to_owned();
            self.delete(start, end);
        }
    }

    /// Moves the cursor up. In the first line, shows the entry before this one.
    fn up(&mut self) {
        // An entry with several lines can be left with one key until the cursor moves in it.
        let is_new = self.shows_entry() && self.cursor == self.text.len();
        if self.line_start() > 0 && !is_new {
            self.move_to_line_before();
            return;
        }
        let Some(before) = self.position.unwrap_or(self.history.len()).checked_sub(1) else {
            return;
        };
        self.show_entry(Some(before));
    }

    /// Whether the text is an entry of the history that the user has not edited.
    fn shows_entry(&self) -> bool {
        let entry = self.position.and_then(|at| self.history.get(at));
        entry.is_some_and(|entry| *entry == self.text)
    }

    /// Moves the cursor down. In the last line, shows the entry after this one.
    fn down(&mut self) {
        if self.line_end() < self.text.len() {
            self.move_to_line_after();
            return;
        }
        match self.position {
            Some(position) if position + 1 < self.history.len() => {
                self.show_entry(Some(position + 1));
            }
            Some(_) => self.show_entry(None),
            None => {}
        }
    }

    /// Shows an entry of the history, or the draft. What the user has edited becomes the draft.
    fn show_entry(&mut self, position: Option<usize>) {
        if self.position.is_none() || !(self.shows_entry() || self.text.is_empty()) {
            self.draft.clone_from(&self.text);
        }
        self.position = position;
        let text = match position.and_then(|at| self.history.get(at)) {
            Some(entry) => entry.clone(),
            None => std::mem::take(&mut self.draft),
        };
        self.set(&text);
    }

    /// Handles a key during a search. `None` if the key ends the search and has its usual meaning.
    fn search_key(&mut self, key: KeyEvent) -> Option<Outcome> {
        let mut search = self.search.take()?;
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('r') if control => self.find(&mut search, true),
            KeyCode::Char('g') if control => {
                self.set(&search.before);
                return Some(Outcome::Edited);
            }
            // The entry that was found stays.
            KeyCode::Esc => return Some(Outcome::Edited),
            KeyCode::Char(it) if !control => {
                search.query.push(it);
                self.find(&mut search, false);
            }
            KeyCode::Backspace => {
                search.query.pop();
                search.found = None;
                self.set(&search.before);
                self.find(&mut search, false);
            }
            _ => {
                self.position = None;
                return None;
            }
        }
        self.search = Some(search);
        Some(Outcome::Edited)
    }

    /// Finds the latest entry with the query, or the one before the current one.
    fn find(&mut self, search: &mut Search, again: bool) {
        if search.query.is_empty() {
            return;
        }
        let end = match search.found {
            Some(found) if again => found,
            Some(found) => found + 1,
            None => self.history.len(),
        };
        let found = self.history[..end].iter().rposition(|entry| entry.contains(&search.query));
        match found {
            Some(at) => {
                search.found = Some(at);
                let entry = self.history[at].clone();
                self.set(&entry);
            }
            None if !again => search.found = None,
            None => {}
        }
    }
}
