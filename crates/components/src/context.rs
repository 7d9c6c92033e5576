//! Context: what the agent should know before the user's first word.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use acp_proxy::{Call, Json, Proxy, Side};
use clap::Parser;

use crate::catalog::Component;
use crate::file::{self, Bounds, Refusal};

/// Adds files such as AGENTS.md, and given text, to the first prompt of each session.
///
/// Files are looked for in the session's working directory each time they are needed; those that are
/// not there are left out. Only regular files are read, and links are followed only inside that directory.
/// The user's own words come last.
#[derive(Debug, Clone, Parser)]
pub struct Context {
    /// A file to add; may be given several times. Relative to the session's working directory.
    /// Without this: AGENTS.md, CONTEXT.md and CONTEXT.
    #[arg(long = "file", value_name = "FILE")]
    files: Vec<PathBuf>,

    /// A text to add, before the files; may be given several times.
    #[arg(long = "text", value_name = "TEXT")]
    texts: Vec<String>,

    /// Add it to each prompt instead of the first of a session.
    #[arg(long)]
    each: bool,

    /// The most that is taken of a file, in bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 64 * 1024)]
    most: usize,

    /// Also read files outside the session's working directory: through links, or `..`.
    #[arg(long)]
    outside: bool,
}

const USUAL: [&str; 3] = ["AGENTS.md", "CONTEXT.md", "CONTEXT"];

/// What is known of a session.
#[derive(Debug, Clone, Default)]
struct Session {
    directory: PathBuf,
    /// The agent has been told.
    told: bool,
}

#[derive(Clone, Default)]
struct Sessions(Arc<Mutex<BTreeMap<String, Session>>>);

impl Sessions {
    fn with<T>(&self, act: impl FnOnce(&mut BTreeMap<String, Session>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn text(json: Option<&Json>, key: &str) -> Option<String> {
    json?.member(key)?.text().map(|text| text.into_owned())
}

impl Component for Context {
    const NAME: &'static str = "context";

    fn make(&self) -> acp_proxy::Component {
        let sessions = Sessions::default();
        let mut proxy = Proxy::new("context");
        // In a session that is taken up again the agent has been told already.
        for (method, told) in [
            ("session/new", false),
            ("session/fork", true),
            ("session/load", true),
            ("session/resume", true),
        ] {
            let sessions = sessions.clone();
            proxy = proxy.on_raw_request(Side::Editor, method, async move |call: Call, next| {
                let asked = call.params.clone();
                let result = next.run(call).await?;
                let id =
                    text(Some(&result), "sessionId").or_else(|| text(asked.as_ref(), "sessionId"));
                if let Some(id) = id {
                    let directory = text(asked.as_ref(), "cwd").unwrap_or_default().into();
                    sessions.with(|table| table.insert(id, Session { directory, told }));
                }
                Ok(result)
            });
        }
        let closed = sessions.clone();
        let context = self.clone();
        proxy
            .on_raw_request(Side::Editor, "session/close", async move |call: Call, next| {
                let id = text(call.params.as_ref(), "sessionId");
                closed.with(|table| id.map(|id| table.remove(&id)));
                next.run(call).await
            })
            .on_prompt(async move |mut prompt, next| {
                let id = prompt.session().to_owned();
                let session = sessions.with(|table| table.entry(id.clone()).or_default().clone());
                if context.each || !session.told {
                    for block in
                        context.blocks(&session.directory, next.context()).into_iter().rev()
                    {
                        prompt.prepend_text(block);
                    }
                }
                let answer = next.run(prompt).await?;
                sessions.with(|table| table.entry(id).or_default().told = true);
                Ok(answer)
            })
            .into()
    }
}

impl Context {
    fn blocks(&self, directory: &Path, cx: &acp_proxy::Context) -> Vec<String> {
        let usual = USUAL.map(PathBuf::from);
        let files = if self.files.is_empty() { &usual[..] } else { &self.files };
        let read = |path: &PathBuf| {
            let bounds = Bounds { most: self.most, outside: self.outside };
            let read = match file::read(directory, path, bounds) {
                Ok(read) => read,
                Err(Refusal::Missing) => return None,
                Err(why) => {
                    cx.log(&format!("does not read {}: {why}", path.display()));
                    return None;
                }
            };
            let cut = if read.cut { "\n[… the rest is left out]" } else { "" };
            Some(format!("From {}:\n\n{}{cut}", path.display(), read.text))
        };
        self.texts.iter().cloned().chain(files.iter().filter_map(read)).collect()
    }
}
