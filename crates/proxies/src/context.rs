//! The component `context`: adds files and texts to the first prompt of a session.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use acp_proxy::{Call, Error, Json, Proxy, Side};
use acp_wire::ErrorKind;
use clap::Parser;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use component_base::file::{self, ReadError, ReadLimits};
use component_base::sessions::was_read;
use component_base::{BuiltIn, OptionError};

/// Adds files such as AGENTS.md, and text of your choice, to the first prompt of each session.
///
/// The files are read from the session's working directory at the time of the prompt. A file of --file must
/// be readable when the chain starts (an absolute path) or when a session starts (a relative path). The
/// default files are skipped if they do not exist. Only regular files are read, and symbolic links are
/// followed only inside that directory. The user's prompt follows the files.
#[derive(Debug, Clone, Parser, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Context {
    /// A file to add, relative to the session's working directory. Repeatable.
    /// Default: AGENTS.md, CONTEXT.md and CONTEXT.
    #[serde(rename = "file")]
    #[arg(id = "file", long, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Like --file, but skipped if it does not exist. Repeatable.
    #[serde(rename = "optional")]
    #[arg(id = "optional", long, value_name = "FILE")]
    optional_files: Vec<PathBuf>,

    /// A text to add before the files. Repeatable.
    #[serde(rename = "text")]
    #[arg(id = "text", long, value_name = "TEXT")]
    texts: Vec<String>,

    /// Add the files and texts to each prompt, not only to the first of a session.
    #[arg(long)]
    each: bool,

    /// The maximum number of bytes to read from each file. The rest of the file is omitted.
    #[serde(rename = "most")]
    #[arg(id = "most", long, value_name = "BYTES", default_value_t = 64 * 1024)]
    max_bytes: usize,

    /// Also read files outside the session's working directory, through symbolic links or `..`.
    #[arg(long)]
    outside: bool,
}

impl Default for Context {
    fn default() -> Context {
        Context::parse_from([Context::NAME])
    }
}

const DEFAULT_FILES: [&str; 3] = ["AGENTS.md", "CONTEXT.md", "CONTEXT"];

/// The state of a session.
#[derive(Debug, Clone, Default)]
struct Session {
    directory: PathBuf,
    /// Whether the agent has received the files and texts.
    added: bool,
}

#[derive(Clone, Default)]
struct Sessions(Arc<Mutex<BTreeMap<String, Session>>>);

impl Sessions {
    fn with<T>(&self, act: impl FnOnce(&mut BTreeMap<String, Session>) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn string_member(json: Option<&Json>, key: &str) -> Option<String> {
    json?.member(key)?.text().map(|text| text.into_owned())
}

impl BuiltIn for Context {
    const NAME: &'static str = "context";

    fn check(&self) -> Result<(), OptionError> {
        let unreadable = |why| OptionError { kind: ErrorKind::UnreadableFile, why };
        let mut files = self.files.iter().filter(|it| it.is_absolute());
        files.try_for_each(|path| self.check_file(Path::new("/"), path)).map_err(unreadable)
    }

    fn build(&self) -> acp_proxy::Component {
        let sessions = Sessions::default();
        let mut proxy = Proxy::new("context");
        // In a resumed session, the agent has the files and texts already.
        for (method, added) in [
            ("session/new", false),
            ("session/fork", true),
            ("session/load", true),
            ("session/resume", true),
        ] {
            let (sessions, context) = (sessions.clone(), self.clone());
            proxy = proxy.on_raw_request(Side::Editor, method, async move |call: Call, next| {
                let params = call.params.clone();
                if !added || context.each {
                    context.check_session(params.as_ref())?;
                }
                let result = next.run(call).await?;
                let id = string_member(Some(&result), "sessionId")
                    .or_else(|| string_member(params.as_ref(), "sessionId"));
                if let Some(id) = id {
                    let directory =
                        string_member(params.as_ref(), "cwd").unwrap_or_default().into();
                    sessions.with(|table| table.insert(id, Session { directory, added }));
                }
                Ok(result)
            });
        }
        let closed = sessions.clone();
        let context = self.clone();
        proxy
            .on_raw_request(Side::Editor, "session/close", async move |call: Call, next| {
                let id = string_member(call.params.as_ref(), "sessionId");
                closed.with(|table| id.map(|id| table.remove(&id)));
                next.run(call).await
            })
            .on_prompt(async move |mut prompt, next| {
                let id = prompt.session().to_owned();
                let session = sessions.with(|table| table.entry(id.clone()).or_default().clone());
                if context.each || !session.added {
                    for block in context.blocks(&session.directory, next.context()) {
                        prompt.add_context(block);
                    }
                }
                let answer = next.run(prompt).await;
                if was_read(&answer) {
                    sessions.with(|table| table.entry(id).or_default().added = true);
                }
                answer
            })
            .into()
    }
}

impl Context {
    fn limits(&self) -> ReadLimits {
        ReadLimits { max_bytes: self.max_bytes, outside: self.outside }
    }

    /// Checks that a file of `--file` can be read.
    fn check_file(&self, directory: &Path, path: &Path) -> Result<(), String> {
        file::read(directory, path, self.limits()).map(drop).map_err(|why| {
            let place = match path.is_absolute() {
                true => String::new(),
                false => format!(" in {}", directory.display()),
            };
            format!(
                "cannot read {}{place}: {why}; correct --file, or use --optional",
                path.display()
            )
        })
    }

    /// Checks the files in the working directory of a new session.
    fn check_session(&self, params: Option<&Json>) -> acp_proxy::Result<()> {
        let Some(directory) = string_member(params, "cwd").map(PathBuf::from) else {
            return Ok(());
        };
        for path in &self.files {
            if let Err(why) = self.check_file(&directory, path) {
                let kind = ErrorKind::UnreadableFile;
                let data = serde_json::json!({ "component": "context", "code": kind.code() });
                let text = kind.tag(format!("context: {why}"));
                return Err(Error::with_data(acp_wire::code::INTERNAL_ERROR, text, &data));
            }
        }
        Ok(())
    }

    fn blocks(&self, directory: &Path, cx: &acp_proxy::Context) -> Vec<String> {
        let default_files = DEFAULT_FILES.map(PathBuf::from);
        let is_default = self.files.is_empty() && self.optional_files.is_empty();
        let defaults = default_files.iter().filter(|_| is_default);
        let files = self.files.iter().chain(&self.optional_files).chain(defaults);
        let read = |path: &PathBuf| {
            let read = match file::read(directory, path, self.limits()) {
                Ok(read) => read,
                Err(ReadError::Missing) => return None,
                Err(why) => {
                    cx.log(format!("cannot read {}: {why}", path.display()));
                    return None;
                }
            };
            let cut = if read.truncated { "\n[… the rest is left out]" } else { "" };
            Some(format!("From {}:\n\n{}{cut}", path.display(), read.text))
        };
        self.texts.iter().cloned().chain(files.filter_map(read)).collect()
    }
}
