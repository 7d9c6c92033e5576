//! The operations of an editor, on the files of the project and on what the page shows.
//!
//! Nothing here knows a language: references are the places of a word, and a definition is a place behind a word such as
//! `fn` or `class`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use acp_proxy::scp::{
    Applied, ApplyEdit, FindAllReferences, Location, Locations, OpenFile, OpenFiles, OpenedFile,
    Position, Selection,
};
use client::{files, rpc_error};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::{EDITS, EditAnswer, EditAnswered, FILES, MAX_LABEL, Outcome, Surface, read};
use crate::project::{Hit, Project, TextEdit, apply, message, part};
use crate::protocol::{Entry, FileDiff};
use crate::topics::Topic;

/// The most edits that wait for an answer.
const MAX_EDITS: usize = 50;
/// The most files of one edit.
const MAX_FILES: usize = 100;

/// The most bytes of the files of one edit together, before and after the edit.
pub(super) const MAX_EDIT: usize = 4 * 1024 * 1024;
/// The most bytes of all edits that wait for an answer, before and after.
const MAX_OPEN: usize = 32 * 1024 * 1024;
/// The most bytes of the answered edits that the page still shows.
const MAX_ANSWERED: usize = 16 * 1024 * 1024;

/// An edit that a person has not answered.
#[derive(Debug)]
pub(super) struct PendingEdit {
    /// The files with their texts before and after.
    files: Vec<(PathBuf, Option<String>, String)>,
    answer: EditAnswer,
    /// The bytes of the texts.
    size: usize,
}

impl Surface {
    /// Performs an operation by its name.
    pub(super) async fn operate(&self, name: &str, params: Value) -> Outcome {
        let params = if params.is_null() { json!({}) } else { params };
        let invalid = |why: String| rpc_error::invalid_params(&format!("{name}: {why}"));
        match name {
            "get-selection" => Ok(self.selection()),
            "list-open-files" => Ok(self.open_files()),
            "open-file" => read(params).and_then(|it| self.open_file(&it)).map_err(invalid),
            "find-definition" | "find-all-references" => {
                let request: FindAllReferences = read(params).map_err(invalid)?;
                let (surface, all) = (self.clone(), name == "find-all-references");
                let found = tokio::task::spawn_blocking(move || surface.find(&request, all)).await;
                found.unwrap_or_else(|error| Err(error.to_string())).map_err(invalid)
            }
            "apply-edit" => {
                let request: ApplyEdit = read(params).map_err(invalid)?;
                let (id, answer) = self.propose(&request).map_err(invalid)?;
                // A component that does not wait any more must not find its edit written.
                let _withdraw = Withdraw { surface: self, id };
                let (applied, reason) = answer.await.unwrap_or((false, None));
                to_value(&Applied { applied, reason })
            }
            _ => Err(rpc_error::method_not_found(&format!("_scp/ide_operation/{name}"))),
        }
    }

    fn selection(&self) -> Value {
        let (active, selection) = {
            let state = self.state();
            (state.active.clone(), state.selection)
        };
        let (Some(path), Some([line, column, end_line, end_column])) = (active, selection) else {
            return Value::Null;
        };
        let Ok(file) = self.project.locate(&path) else { return Value::Null };
        let text = self.project.read(&path).map(|it| it.text).unwrap_or_default();
        let number = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
        let (start, end) = (
            Position::new(number(line), number(column)),
            Position::new(number(end_line), number(end_column)),
        );
        let selected = part(&text, start, Some(end)).map(|range| text[range].to_owned());
        let selected = selected.unwrap_or_default();
        let url = self.project.url(&file);
        let selection = Selection { url, start, end: Some(end), text: selected };
        serde_json::to_value(selection).unwrap_or_default()
    }

    fn open_files(&self) -> Value {
        let (open, active) = {
            let state = self.state();
            (state.open.clone(), state.active.clone())
        };
        let files = open.iter().filter_map(|path| {
            let url = self.project.url(&self.project.locate(path).ok()?);
            Some(OpenedFile { url, active: active.as_ref() == Some(path), modified: false })
        });
        let files = OpenFiles { files: files.collect() };
        serde_json::to_value(files).unwrap_or_default()
    }

    fn open_file(&self, request: &OpenFile) -> Result<Value, String> {
        let path = self.project.locate(&request.url)?;
        if !path.is_file() {
            return Err(format!("there is no file {}", request.url));
        }
        let version = {
            let mut state = self.state();
            state.open_requests += 1;
            state.open_requests
        };
        let (path, line) = (self.project.shown(&path), request.line.map(u64::from));
        self.topics.put(FILES, "/open", Entry::OpenFile { path, line, version });
        Ok(json!({}))
    }

    fn find(&self, request: &FindAllReferences, all: bool) -> Result<Value, String> {
        let word = match (&request.symbol, &request.url, request.line, request.column) {
            (Some(symbol), ..) => symbol.clone(),
            (None, Some(url), Some(line), column) => {
                self.project.word_at(url, line, column.unwrap_or(1))?
            }
            _ => {
                return Err(
                    "name a `symbol`, or a place with `url`, `line` and `column`".to_owned()
                );
            }
        };
        let mut hits = self.project.find_word(&word, !all);
        // Without a line that looks like a definition, the first places are the best answer.
        if !all && hits.is_empty() {
            hits = self.project.find_word(&word, false);
        }
        let length = u32::try_from(word.chars().count()).unwrap_or(u32::MAX);
        let location = |hit: Hit| Location {
            url: self.project.url(&hit.path),
            start: Position::new(hit.line, hit.column),
            end: Some(Position::new(hit.line, hit.column.saturating_add(length))),
            text: Some(hit.text),
        };
        let locations = Locations { locations: hits.into_iter().map(location).collect() };
        serde_json::to_value(locations).map_err(|error| error.to_string())
    }

    /// Shows an edit to the person, who accepts or rejects it.
    fn propose(&self, request: &ApplyEdit) -> Result<(String, EditAnswered), String> {
        let mut by_file: BTreeMap<PathBuf, Vec<TextEdit>> = BTreeMap::new();
        for edit in &request.edits {
            let path = self.project.locate(&edit.url)?;
            let edit = TextEdit { start: edit.start, end: edit.end, new: edit.new_text.clone() };
            by_file.entry(path).or_default().push(edit);
        }
        if by_file.is_empty() || by_file.len() > MAX_FILES {
            return Err(format!("an edit changes between 1 and {MAX_FILES} files"));
        }
        let label = request.label.clone().unwrap_or_else(|| "Edit files".to_owned());
        if label.len() > MAX_LABEL {
            return Err("the label of the edit is longer than 4 KiB".to_owned());
        }
        let (mut files, mut shown, mut before, mut after) = (Vec::new(), Vec::new(), 0, 0);
        for (path, edits) in by_file {
            let name = self.project.shown(&path);
            let old = match path.exists() {
                true => Some(read_file(&path)?),
                false => None,
            };
            let new = apply(old.as_deref().unwrap_or_default(), &edits)
                .map_err(|why| format!("{name}: {why}"))?;
            before += old.as_ref().map_or(0, String::len);
            after += new.len();
            if before.max(after) > MAX_EDIT {
                return Err("the edited files are larger than 4 MiB".to_owned());
            }
            shown.push(FileDiff { path: name, old: old.clone(), new: new.clone() });
            files.push((path, old, new));
        }
        let (answer, answered) = oneshot::channel();
        let mut state = self.state();
        if state.edits.len() >= MAX_EDITS {
            return Err(format!("{MAX_EDITS} edits wait for an answer"));
        }
        let size = before + after;
        if state.edits.values().map(|it| it.size).sum::<usize>() + size > MAX_OPEN {
            return Err("the edits that wait for an answer would be larger than 32 MiB".to_owned());
        }
        state.last_edit += 1;
        let id = format!("edit-{}", state.last_edit);
        state.edits.insert(id.clone(), PendingEdit { files, answer, size });
        let entry = Entry::Edit { label, files: shown, state: "open".to_owned() };
        self.topics.put(EDITS, &id, entry);
        Ok((id, answered))
    }

    /// Applies or rejects an edit.
    pub(super) async fn answer_edit(&self, id: &str, accept: bool) -> Result<Value, String> {
        let Some(edit) = self.state().edits.remove(id) else {
            return Err("the edit was answered already".to_owned());
        };
        let PendingEdit { files, answer, .. } = edit;
        let (state, reason) = match accept {
            false => ("rejected", Some("the user has rejected the edit".to_owned())),
            true => {
                let (project, written) = (self.project.clone(), files.clone());
                let done = tokio::task::spawn_blocking(move || write(&project, &written)).await;
                match done.unwrap_or_else(|error| Err(error.to_string())) {
                    Ok(()) => ("accepted", None),
                    Err(why) => ("failed", Some(why)),
                }
            }
        };
        if state != "rejected" {
            files.iter().for_each(|(path, ..)| self.file_written(path));
        }
        self.topics.change(EDITS, |topic| {
            if let Some(Entry::Edit { label, files, .. }) = topic.get(id).cloned() {
                topic.put(id, Entry::Edit { label, files, state: state.to_owned() });
            }
            while topic.len() > 2 * MAX_EDITS || answered_size(topic) > MAX_ANSWERED {
                topic
                    .remove_oldest(|it| matches!(it, Entry::Edit { state, .. } if state == "open"));
            }
        });
        let failed = (state == "failed").then(|| reason.clone()).flatten();
        let _ = answer.send((state == "accepted", reason));
        match failed {
            Some(why) => Err(why),
            None => Ok(Value::Null),
        }
    }
}

/// Removes an edit that nobody waits for.
struct Withdraw<'a> {
    surface: &'a Surface,
    id: String,
}

impl Drop for Withdraw<'_> {
    fn drop(&mut self) {
        if self.surface.state().edits.remove(&self.id).is_some() {
            self.surface.topics.remove(EDITS, &self.id);
        }
    }
}

/// The bytes of the edits that have an answer.
fn answered_size(topic: &Topic) -> usize {
    let size = |entry: &Entry| match entry {
        Entry::Edit { files, state, .. } if state != "open" => {
            files.iter().map(|it| it.old.as_ref().map_or(0, String::len) + it.new.len()).sum()
        }
        _ => 0,
    };
    topic.entries().map(|(_, entry)| size(entry)).sum()
}

/// Writes all files, unless one of them has changed since the edit was made.
fn write(project: &Project, files: &[(PathBuf, Option<String>, String)]) -> Result<(), String> {
    for (path, old, _) in files {
        let name = project.shown(path);
        // A folder of the path may have become a link to another place, also outside of the project.
        let moved = !project.locate_path(path).is_ok_and(|it| it == *path);
        let now = if path.exists() { read_file(path).ok() } else { None };
        if moved || now != *old {
            return Err(format!("{name} has changed since the edit was made; nothing was written"));
        }
    }
    let mut written = Vec::new();
    for (path, _, new) in files {
        project.write(path, new).map_err(|why| match written.is_empty() {
            true => why,
            false => format!("{why}; these files were written before: {}", written.join(", ")),
        })?;
        written.push(project.shown(path));
    }
    Ok(())
}

/// The text of a regular file that is not too large.
fn read_file(path: &Path) -> Result<String, String> {
    files::read_text(path, None, None).map_err(|error| message(&error))
}

fn to_value(value: &impl Serialize) -> Outcome {
    serde_json::to_value(value).map_err(|error| rpc_error::internal(&error.to_string()))
}
