//! What an agent wants to do, in one form for all agents and all messages that ask for it.
//!
//! Agents describe the same action in many ways. A permission request may have only the id of a tool call, tools
//! have other names, and arguments have other keys. An [`Action`] has the names and arguments of Claude Code, which
//! rules and hook scripts know, and the operations that rules are compared with.

mod input;
mod names;
mod operations;
mod read;

use std::path::{Path, PathBuf};

use acp_proxy::schema::ToolKind;

pub use self::operations::files_of_patch;
use crate::agents::AgentKind;

/// What is known about the session of an action.
#[derive(Debug, Clone, Copy)]
pub struct SessionFacts<'a> {
    /// The working directory of the session.
    pub cwd: &'a Path,
    /// The agent. Some members of messages have a meaning only for one agent.
    pub agent: AgentKind,
    /// The names of the MCP servers that are declared in the session.
    pub servers: &'a [String],
}

/// Something that an agent wants to do and has not done yet.
#[derive(Debug, Clone, PartialEq)]
pub struct Action {
    /// The id of the session.
    pub session: String,
    /// The message that asks for the action.
    pub at: At,
    /// The id of the tool call. `None` if it is unknown.
    pub call: Option<String>,
    /// The name of the tool.
    pub tool: ToolName,
    /// The kind of the tool call, as the agent reports it.
    pub kind: Option<ToolKind>,
    /// The arguments of the tool, with the keys of Claude Code. Members without a counterpart there are unchanged.
    pub input: serde_json::Value,
    /// What the action does. Several commands of one command line are one operation.
    pub operations: Vec<Operation>,
    /// Whether the action may do more than the operations say, because the agent has not described it completely. A
    /// rule may deny such an action, but must not allow it. An action without operations is opaque, unless the agent
    /// names the tool in a member for it and the tool is not known to run commands or to use files, such as WebSearch.
    pub opaque: bool,
    /// The working directory of the action: that of the session, unless the action has its own.
    pub cwd: PathBuf,
}

/// The name of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolName {
    /// The agent's own name of the tool. `None` if the agent does not report it.
    pub native: Option<String>,
    /// The name of this tool in Claude Code, such as `Bash` or `mcp__server__tool`. The native name if Claude Code has
    /// no such tool.
    pub common: String,
}

/// The message that asks for an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum At {
    /// `session/request_permission`
    PermissionRequest,
    /// `fs/read_text_file`
    ReadTextFile,
    /// `fs/write_text_file`
    WriteTextFile,
    /// `terminal/create`
    CreateTerminal,
    /// `tools/call` of MCP, through the chain.
    McpCall,
}

/// One thing that an action does. Paths are as the agent has written them: they may be relative to the working
/// directory of the action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// Runs a command.
    Run(CommandLine),
    /// Reads a file, or searches a folder.
    Read(PathBuf),
    /// Creates or changes a file.
    Write(PathBuf),
    /// Deletes a file or folder.
    Delete(PathBuf),
    /// Fetches this URL.
    Fetch(String),
    /// Calls a tool of an MCP server.
    Mcp {
        /// The name of the server, as declared in the session.
        server: String,
        /// The name of the tool.
        tool: String,
    },
}

/// A command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandLine {
    /// A text that a shell reads.
    Shell(String),
    /// A program and its arguments. No shell reads them.
    Program {
        /// The program.
        program: String,
        /// The arguments.
        args: Vec<String>,
    },
}

impl Action {
    /// The environment variables that the action sets for its command. Agents write them as an object, as a list of
    /// names and values, or as a list of assignments.
    pub fn environment(&self) -> Vec<(String, String)> {
        let members = ["env", "environment", "env_vars"].iter().filter_map(|it| self.input.get(it));
        members.flat_map(variables).collect()
    }
}

fn variables(value: &serde_json::Value) -> Vec<(String, String)> {
    let text = |value: Option<&serde_json::Value>| {
        value.and_then(serde_json::Value::as_str).unwrap_or_default().to_owned()
    };
    let of_element = |element: &serde_json::Value| match element.as_str() {
        Some(assignment) => {
            let (name, value) = assignment.split_once('=').unwrap_or((assignment, ""));
            (name.to_owned(), value.to_owned())
        }
        None => (text(element.get("name")), text(element.get("value"))),
    };
    match value {
        serde_json::Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), text(Some(value)))).collect()
        }
        serde_json::Value::Array(elements) => elements.iter().map(of_element).collect(),
        _ => Vec::new(),
    }
}

/// The name of an MCP tool in Claude Code and in its settings. Characters that names of tools cannot have are replaced.
pub fn mcp_name(server: &str, tool: &str) -> String {
    names::McpName::new(server, tool).common()
}

impl At {
    /// The method of the message.
    pub fn method(self) -> &'static str {
        match self {
            At::PermissionRequest => "session/request_permission",
            At::ReadTextFile => "fs/read_text_file",
            At::WriteTextFile => "fs/write_text_file",
            At::CreateTerminal => "terminal/create",
            At::McpCall => "mcp/message",
        }
    }
}

/// A short description for the user, in one line.
impl std::fmt::Display for Action {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut separator = "";
        for operation in &self.operations {
            write!(f, "{separator}{operation}")?;
            separator = ", ";
        }
        match self.operations.is_empty() {
            true => write!(f, "use {}", self.tool.common),
            false => Ok(()),
        }
    }
}

impl std::fmt::Display for Operation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Operation::Run(command) => write!(f, "run `{command}`"),
            Operation::Read(path) => write!(f, "read {}", path.display()),
            Operation::Write(path) => write!(f, "write {}", path.display()),
            Operation::Delete(path) => write!(f, "delete {}", path.display()),
            Operation::Fetch(url) => write!(f, "fetch {url}"),
            Operation::Mcp { server, tool } => write!(f, "call {tool} of {server}"),
        }
    }
}

impl std::fmt::Display for CommandLine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CommandLine::Shell(line) => f.write_str(line),
            CommandLine::Program { program, args } => {
                let words: Vec<&str> =
                    std::iter::once(program).chain(args).map(String::as_str).collect();
                f.write_str(&input::shell_line(&words))
            }
        }
    }
}
