//! Presents a walkthrough of the session's folder, with the tool `present_walkthrough` of an MCP server.

use std::path::Path;

use acp_proxy::Result;
use serde_json::{Value, json};

use super::Turn;
use super::basics::text_content;
use component_base::file::{self, ReadLimits};

const TOOL: &str = "present_walkthrough";

/// The files that are shown, if they exist. Then other files follow, in the order of their names.
const KNOWN_FILES: [&str; 6] =
    ["README.md", "src/main.rs", "src/lib.rs", "main.py", "index.js", "Cargo.toml"];

/// How many files are shown, and how many lines of each.
const MAX_FILES: usize = 2;
const MAX_LINES: usize = 3;

/// The maximum size of a file, in bytes.
const MAX_BYTES: usize = 256 * 1024;

/// How many names of the folder are looked at.
const MAX_NAMES: usize = 1000;

impl Turn {
    pub(super) async fn present_walkthrough(&self) -> Result<()> {
        let servers = self.servers.list().await;
        let mut tools = servers.iter().filter_map(|(_, tools)| tools.as_ref().ok()).flatten();
        if !tools.any(|it| it.name == TOOL) {
            return self
                .say("No MCP server has the tool `present_walkthrough`. Start me with `conductor try walkthrough demo-agent`.")
                .await;
        }
        let tour = tour(&self.directory);
        self.say("I will show you around.\n\n").await?;
        let call = json!({ "title": TOOL, "kind": "other", "rawInput": tour });
        let id = self.announce(call)?;
        self.mark_in_progress(&id)?;
        let result = self.servers.call(None, TOOL, &tour).await;
        let (status, text) = match &result {
            Ok(result) if !result.failed => ("completed", &result.text),
            Ok(result) => ("failed", &result.text),
            Err(why) => ("failed", why),
        };
        self.finish(&id, status, json!({ "content": text_content(text) }))?;
        self.say(&format!("This is the result of the walkthrough:\n\n{text}")).await
    }
}

/// A walkthrough of the files in a folder. It is the same for the same files.
fn tour(folder: &Path) -> Value {
    let files = files(folder);
    let mut sections = vec![json!({
        "heading": "Where we are",
        "markdown": format!("This is a **walkthrough** of `{}`. It shows what an agent can show.", folder.display()),
    })];
    for (path, lines) in &files {
        let end = (*lines).min(MAX_LINES);
        sections.push(json!({
            "heading": format!("The file {path}"),
            "code": [{ "path": path, "line": 1, "end_line": end, "comment": format!("`{path}` begins here. Reply to this comment to talk about it.") }],
        }));
    }
    sections.push(json!({
        "heading": "A change and a diagram",
        "diff": "--- a/greeting.txt\n+++ b/greeting.txt\n@@ -1 +1 @@\n-hello\n+hello, world\n",
        "mermaid": "graph TD; Editor-->Conductor; Conductor-->Agent",
    }));
    sections.push(json!({ "question": { "text": "Was this helpful?", "choices": ["Yes", "No"] } }));
    sections
        .push(json!({ "question": { "text": "What should I explain next?", "free_text": true } }));
    json!({ "title": "A tour of this folder", "sections": sections })
}

/// The files to show, with the number of their lines.
fn files(folder: &Path) -> Vec<(String, usize)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().take(MAX_NAMES);
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.filter(|name| !name.starts_with('.')).collect();
    names.sort();
    names.retain(|name| !KNOWN_FILES.contains(&name.as_str()));
    let all = KNOWN_FILES.into_iter().map(str::to_owned).chain(names);
    let limits = ReadLimits { max_bytes: MAX_BYTES, outside: false };
    let readable = all.filter_map(|path| {
        let read = file::read(folder, Path::new(&path), limits).ok()?;
        let is_text = !read.truncated && !read.text.contains(['\0', '\u{fffd}']);
        let lines = read.text.lines().count();
        (is_text && lines > 0).then_some((path, lines))
    });
    readable.take(MAX_FILES).collect()
}
