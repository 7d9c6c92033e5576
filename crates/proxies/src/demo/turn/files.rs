//! Edits and reads files through the client.

use std::path::{Path, PathBuf};

use acp_proxy::schema::StopReason;
use acp_proxy::{Json, Result};
use serde_json::{Value, json};

use super::Turn;
use super::basics::{Permission, text_content};
use crate::demo::command::first_line;

/// The file that the agent pretends to edit if the prompt names none.
const PRETENDED: &str = "demo.txt";

/// The line that an edit adds, unless the prompt has one.
const LINE: &str = "The demo agent was here.";

/// Why the agent cannot read a file of a client without this method.
const CANNOT_READ: &str = "the editor does not let me read files";

/// A file before and after an edit.
struct Edit {
    path: PathBuf,
    /// `None` if there is no such file.
    old: Option<String>,
    new: String,
}

impl Edit {
    fn new(path: PathBuf, old: Option<String>, line: &str) -> Edit {
        let mut new = old.clone().unwrap_or_default();
        if !new.is_empty() && !new.ends_with('\n') {
            new.push('\n');
        }
        new.push_str(line);
        new.push('\n');
        Edit { path, old, new }
    }

    fn diff(&self) -> Value {
        json!({ "type": "diff", "path": self.path, "oldText": self.old, "newText": self.new })
    }

    fn location(&self) -> Value {
        json!({ "path": self.path, "line": self.new.lines().count() })
    }
}

impl Turn {
    /// Adds a line to files. Without a file, the agent only pretends to.
    pub(super) async fn edit(&self, files: &[String], line: Option<&str>) -> Result<StopReason> {
        let is_pretended = files.is_empty();
        let names = if is_pretended { PRETENDED.to_owned() } else { files.join(", ") };
        let mut edits = Vec::new();
        for file in files {
            let path = self.directory.join(file);
            let old = match self.old_text(&path).await {
                Ok(old) => old,
                Err(why) => {
                    self.say(&format!("I cannot edit {file}: {why}.")).await?;
                    return Ok(StopReason::EndTurn);
                }
            };
            edits.push(Edit::new(path, old, line.unwrap_or(LINE)));
        }
        if is_pretended {
            let (path, line) = (self.directory.join(PRETENDED), first_line(&self.text));
            edits.push(Edit::new(path, Some(String::new()), &line));
        }
        let title = format!("Edit {names}");
        let call = json!({
            "title": title,
            "kind": "edit",
            "locations": edits.iter().map(Edit::location).collect::<Vec<_>>(),
            "content": edits.iter().map(Edit::diff).collect::<Vec<_>>(),
        });
        let id = self.announce(call.clone())?;
        if let Some(end) = self.end_unless_granted(&id, call, &names).await? {
            return Ok(end);
        }
        self.mark_in_progress(&id)?;
        self.pause().await;
        let writes = !is_pretended && self.client.writes_files;
        for edit in edits.iter().filter(|_| writes) {
            let params =
                json!({ "sessionId": self.session, "path": edit.path, "content": edit.new });
            if let Err(why) = self.editor.request_raw("fs/write_text_file", params).await {
                self.finish(&id, "failed", json!({ "content": text_content(&why.message()) }))?;
                self.say(&format!("I could not write {names}: {}.", sentence(&why))).await?;
                return Ok(StopReason::EndTurn);
            }
        }
        self.finish(&id, "completed", json!({}))?;
        self.pause().await;
        let answer = if writes {
            format!("Done: I have added a line to {names}.")
        } else if is_pretended {
            format!(
                "Done, or rather not: I only pretend to edit {names}. `edit FILE` really edits a file."
            )
        } else {
            format!(
                "Done, or rather not: the editor does not let me write files, so {names} is as before."
            )
        };
        self.say(&answer).await?;
        Ok(StopReason::EndTurn)
    }

    /// Asks for permission. Without it, ends the tool call, and returns how the turn ends.
    pub(super) async fn end_unless_granted(
        &self,
        id: &str,
        call: Value,
        what: &str,
    ) -> Result<Option<StopReason>> {
        match self.ask(id, call).await? {
            Permission::Granted => return Ok(None),
            Permission::Denied => {
                self.finish(id, "failed", json!({}))?;
                self.say(&format!("As you wish: I leave {what} alone.")).await?;
            }
            Permission::Cancelled => {
                self.cancel().await?;
                return Ok(Some(StopReason::Cancelled));
            }
            Permission::NotAsked(why) => {
                self.finish(id, "failed", json!({}))?;
                self.say(&format!("I cannot ask for permission: {why}. So I do not do it."))
                    .await?;
            }
        }
        Ok(Some(StopReason::EndTurn))
    }

    /// The text of a file that is edited, or the reason why it cannot be read. `None` if there is no such file.
    async fn old_text(&self, path: &Path) -> std::result::Result<Option<String>, String> {
        let why = if self.client.reads_files {
            let params = json!({ "sessionId": self.session, "path": path });
            match self.editor.request_raw("fs/read_text_file", params).await {
                Ok(answer) => return Ok(content(&answer)),
                Err(why) => sentence(&why),
            }
        } else {
            CANNOT_READ.to_owned()
        };
        // The edit would replace the whole file.
        match self.client.writes_files && path.exists() {
            true => Err(why),
            false => Ok(None),
        }
    }

    /// Reads a file, from this line on.
    pub(super) async fn read(&self, path: &str, line: Option<u32>) -> Result<()> {
        let file = self.directory.join(path);
        let mut location = json!({ "path": file });
        if let Some(line) = line {
            location["line"] = json!(line);
        }
        let id = self.announce(json!({
            "title": format!("Read {path}"),
            "kind": "read",
            "locations": [location],
            "rawInput": { "path": path, "line": line },
        }))?;
        if !self.client.reads_files {
            self.finish(&id, "failed", json!({ "content": text_content(CANNOT_READ) }))?;
            return self.say(&format!("I cannot read {path}: {CANNOT_READ}.")).await;
        }
        self.mark_in_progress(&id)?;
        let mut params = json!({ "sessionId": self.session, "path": file });
        if let Some(line) = line {
            params["line"] = json!(line);
        }
        match self.editor.request_raw("fs/read_text_file", params).await {
            Ok(answer) => {
                let text = content(&answer).unwrap_or_default();
                self.finish(&id, "completed", json!({ "content": text_content(&text) }))?;
                self.pause().await;
                let count = match text.lines().count() {
                    1 => "1 line".to_owned(),
                    count => format!("{count} lines"),
                };
                let rest = if line.is_some() { " from there on" } else { "" };
                self.say(&format!(
                    "{path} has {count}{rest}. The first one is: {}",
                    first_line(&text)
                ))
                .await
            }
            Err(why) => {
                self.finish(&id, "failed", json!({ "content": text_content(&why.message()) }))?;
                self.say(&format!("I could not read {path}: {}.", sentence(&why))).await
            }
        }
    }
}

fn content(answer: &Json) -> Option<String> {
    answer.member("content")?.text().map(|text| text.into_owned())
}

/// The message of an error, without its full stop.
pub(super) fn sentence(error: &acp_proxy::Error) -> String {
    error.message().trim_end_matches('.').to_owned()
}
