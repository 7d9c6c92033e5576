//! The requests of an agent that a client performs: files and terminals.

use std::ffi::OsString;
use std::fmt;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::pin::Pin;

use serde_json::{Value, json};

use crate::terminals::Terminals;
use crate::{files, rpc_error};

/// The result of a request: its result, or a JSON-RPC error object.
pub type Outcome = Result<Value, Value>;

/// How a request is answered.
pub enum Reply {
    /// Now.
    Ready(Outcome),
    /// When the future completes.
    Pending(Pin<Box<dyn Future<Output = Outcome> + Send>>),
    /// The request is about a place outside of the folder. Ask the user, and call [`Workspace::handle_allowed`].
    Outside(OutsidePath),
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reply::Ready(outcome) => f.debug_tuple("Ready").field(outcome).finish(),
            Reply::Pending(_) => f.write_str("Pending"),
            Reply::Outside(place) => f.debug_tuple("Outside").field(place).finish(),
        }
    }
}

/// A file or a folder outside of the folder of the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutsidePath {
    /// The path, with its symbolic links resolved.
    pub path: PathBuf,
    /// What is done with it.
    pub usage: Usage,
}

/// What a request does with a file or a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// The file is read.
    Read,
    /// The file is written.
    Write,
    /// A command runs in the folder.
    Run,
}

impl Usage {
    /// As the beginning of a question, before the path.
    pub fn verb(self) -> &'static str {
        match self {
            Usage::Read => "Read",
            Usage::Write => "Write",
            Usage::Run => "Run a command in",
        }
    }

    /// The kind of the tool call.
    pub fn kind(self) -> &'static str {
        match self {
            Usage::Read => "read",
            Usage::Write => "edit",
            Usage::Run => "execute",
        }
    }

    /// Why a request that the user has refused fails.
    pub fn refusal(self) -> &'static str {
        match self {
            Usage::Read | Usage::Write => {
                "permission denied: the file is outside of the folder of the session"
            }
            Usage::Run => {
                "permission denied: the folder of the command is outside of the folder of the session"
            }
        }
    }
}

/// The folder of a session, in which the agent may use files, and the terminals of the agent.
#[derive(Debug)]
pub struct Workspace {
    folder: PathBuf,
    terminals: Terminals,
}

impl Workspace {
    /// A workspace in this folder. Its terminals have these environment variables.
    pub fn new(folder: &Path, environment: Vec<(OsString, OsString)>) -> Workspace {
        Workspace { folder: folder.to_owned(), terminals: Terminals::new(environment) }
    }

    /// The terminals.
    pub fn terminals(&self) -> &Terminals {
        &self.terminals
    }

    /// The terminals, to ask for their changes.
    pub fn terminals_mut(&mut self) -> &mut Terminals {
        &mut self.terminals
    }

    /// Handles a request. Returns `None` if the method is not about files or terminals.
    pub fn handle(&mut self, method: &str, params: &Value) -> Option<Reply> {
        match method {
            "fs/read_text_file" | "fs/write_text_file" => Some(self.file(method, params, None)),
            "terminal/create" => Some(self.create_terminal(params, None)),
            _ => self.terminal(method, params),
        }
    }

    /// Handles a request about a place outside of the folder that the user has allowed: the path of [`OutsidePath`]. The
    /// reply is [`Reply::Outside`] again if a symbolic link has changed, so that the request is about another place.
    pub fn handle_allowed(&mut self, method: &str, params: &Value, allowed: &Path) -> Reply {
        match method {
            "terminal/create" => self.create_terminal(params, Some(allowed)),
            _ => self.file(method, params, Some(allowed)),
        }
    }

    /// A command runs inside of the folder, unless the user has allowed another one. What it does then is not limited.
    fn create_terminal(&mut self, params: &Value, allowed: Option<&Path>) -> Reply {
        // Without a folder that exists, the request fails for that reason.
        let folder =
            params["cwd"].as_str().map(Path::new).filter(|it| it.is_absolute() && it.is_dir());
        let Some(folder) = folder else {
            return Reply::Ready(self.terminals.create(&self.folder, params));
        };
        match files::locate(&self.folder, folder) {
            Ok(located) if located.inside || allowed == Some(&*located.path) => {
                let mut params = params.clone();
                params["cwd"] = located.path.display().to_string().into();
                Reply::Ready(self.terminals.create(&self.folder, &params))
            }
            Ok(located) => Reply::Outside(OutsidePath { path: located.path, usage: Usage::Run }),
            Err(error) => Reply::Ready(Err(error)),
        }
    }

    fn file(&self, method: &str, params: &Value, allowed: Option<&Path>) -> Reply {
        let Some(path) = params["path"].as_str() else {
            return Reply::Ready(Err(rpc_error::invalid_params("`path` is missing")));
        };
        let write = method == "fs/write_text_file";
        let path = match files::locate(&self.folder, Path::new(path)) {
            Ok(located) if located.inside || allowed == Some(&*located.path) => located.path,
            Ok(located) => {
                let usage = if write { Usage::Write } else { Usage::Read };
                return Reply::Outside(OutsidePath { path: located.path, usage });
            }
            Err(error) => return Reply::Ready(Err(error)),
        };
        let params = params.clone();
        Reply::Pending(Box::pin(async move {
            let done = tokio::task::spawn_blocking(move || match write {
                true => match params["content"].as_str() {
                    Some(content) => files::write_text(&path, content).map(|()| json!({})),
                    None => Err(rpc_error::invalid_params("`content` is missing")),
                },
                false => files::read_text(&path, params["line"].as_u64(), params["limit"].as_u64())
                    .map(|content| json!({ "content": content })),
            });
            done.await.unwrap_or_else(|error| Err(rpc_error::internal(&error.to_string())))
        }))
    }

    fn terminal(&mut self, method: &str, params: &Value) -> Option<Reply> {
        Some(Reply::Ready(match method {
            "terminal/output" => self.terminals.output(params),
            "terminal/kill" => self.terminals.kill(params),
            "terminal/release" => self.terminals.release(params),
            "terminal/wait_for_exit" => match self.terminals.wait_for_exit(params) {
                Ok(exit) => return Some(Reply::Pending(Box::pin(async { Ok(exit.await) }))),
                Err(error) => Err(error),
            },
            _ => return None,
        }))
    }
}

/// The capabilities of a client with a workspace, for `initialize` in ACP version 1. Version 2 has no methods for files
/// and terminals of the client.
pub fn capabilities() -> Value {
    json!({ "fs": { "readTextFile": true, "writeTextFile": true }, "terminal": true })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_outside_of_the_folder_needs_permission_for_its_own_path() {
        let folder = std::env::temp_dir().canonicalize().expect("a folder");
        let outside = folder.parent().expect("a parent").join("outside.txt");
        let mut workspace = Workspace::new(&folder.join("project"), Vec::new());
        for method in ["fs/read_text_file", "fs/write_text_file"] {
            let params = json!({ "path": outside, "content": "" });
            let Some(Reply::Outside(file)) = workspace.handle(method, &params) else {
                panic!("{method} is not refused");
            };
            let write = file.usage == Usage::Write;
            assert_eq!((&file.path, write), (&outside, method == "fs/write_text_file"));
            let other = workspace.handle_allowed(method, &params, &folder.join("other.txt"));
            assert!(matches!(other, Reply::Outside(_)), "another file was allowed");
            let allowed = workspace.handle_allowed(method, &params, &outside);
            assert!(matches!(allowed, Reply::Pending(_)));
        }
    }
}
