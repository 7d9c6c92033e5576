//! The arguments of a tool: where agents put them, and the form that Claude Code has for them.

use std::path::{Path, PathBuf};

use acp_proxy::Json;
use serde_json::{Map, Value, json};

use super::names::{McpName, nonempty};

/// The arguments of a tool call, from one place.
#[derive(Debug, Clone)]
pub(super) struct Arguments {
    pub(super) members: Map<String, Value>,
    /// The name of the tool that stands beside the arguments.
    pub(super) tool: Option<String>,
    /// The MCP tool that stands beside the arguments.
    pub(super) mcp: Option<McpName>,
    /// Whether the arguments are read from text for the user.
    pub(super) from_text: bool,
}

impl Arguments {
    fn new(members: Map<String, Value>) -> Arguments {
        Arguments { members, tool: None, mcp: None, from_text: false }
    }
}

/// The arguments in the member `rawInput`.
pub(super) fn raw_input(call: &Json, is_command: bool) -> Vec<Arguments> {
    let raw = call.member("rawInput").and_then(|it| serde_json::from_slice(it.as_bytes()).ok());
    let members = match raw.unwrap_or_default() {
        Value::Object(members) => members,
        // Arguments as a text of JSON, or the command line itself.
        Value::String(text) => match serde_json::from_str(&text) {
            Ok(Value::Object(members)) => members,
            _ if is_command && !text.is_empty() => {
                Map::from_iter([("command".into(), text.into())])
            }
            _ => return Vec::new(),
        },
        _ => return Vec::new(),
    };
    if members.is_empty() { Vec::new() } else { unwrap(members) }
}

/// The arguments in the content, as a text of JSON.
pub(super) fn in_content(call: &Json) -> Vec<Arguments> {
    let first = call.member("content").unwrap_or(Json::NULL).elements().into_iter().next();
    let text = first.and_then(|first| {
        nonempty(&first.at(&["content", "text"]).or_else(|| first.member("text"))?)
    });
    match serde_json::from_str(&text.unwrap_or_default()) {
        Ok(Value::Object(members)) => {
            let arguments = unwrap(members).into_iter();
            arguments.map(|it| Arguments { from_text: true, ..it }).collect()
        }
        _ => Vec::new(),
    }
}

/// The members that may stand beside wrapped arguments.
const WRAPPER_KEYS: [&str; 11] = [
    "arguments",
    "tool",
    "tool_name",
    "name",
    "server",
    "type",
    "id",
    "call_id",
    "callId",
    "toolCallId",
    "tool_call_id",
];

/// Some agents wrap the arguments: `{tool, arguments}`, and for MCP `{server, tool, arguments}`. In other agents, the
/// model writes all members. So if there is any other member, the arguments on both levels count.
fn unwrap(members: Map<String, Value>) -> Vec<Arguments> {
    let text = |key: &str| {
        members.get(key).and_then(Value::as_str).filter(|it| !it.is_empty()).map(str::to_owned)
    };
    let is_wrapper = members.keys().all(|it| WRAPPER_KEYS.contains(&it.as_str()));
    let tool = ["tool", "tool_name", "name"].iter().find_map(|key| text(key));
    let mcp = text("server").zip(tool.clone()).map(|(server, tool)| McpName::new(server, tool));
    match members.get("arguments") {
        Some(Value::Object(inner)) if is_wrapper => {
            vec![Arguments { tool, mcp, ..Arguments::new(inner.clone()) }]
        }
        Some(Value::Object(inner)) => {
            let inner = Arguments::new(inner.clone());
            vec![Arguments::new(members), inner]
        }
        // An MCP tool without arguments.
        None | Some(Value::Null) if is_wrapper && mcp.is_some() => {
            vec![Arguments { tool, mcp, ..Arguments::new(Map::new()) }]
        }
        _ => vec![Arguments::new(members)],
    }
}

/// A file that a tool call changes, with its old and its new text.
#[derive(Debug, Clone)]
pub(super) struct Diff {
    pub(super) path: PathBuf,
    old: Option<String>,
    new: String,
}

impl Diff {
    pub(super) fn creates(&self) -> bool {
        self.old.is_none()
    }
}

/// The diffs in the content of a tool call.
pub(super) fn diffs(call: &Json) -> Vec<Diff> {
    let blocks = call.member("content").unwrap_or(Json::NULL).elements();
    let blocks =
        blocks.iter().filter(|it| it.member("type").is_some_and(|it| it.equals_text("diff")));
    let diff = |block: &Json| {
        let text = |key: &str| Some(block.member(key)?.text()?.into_owned());
        let path = text("path")?.into();
        Some(Diff { path, old: text("oldText"), new: text("newText").unwrap_or_default() })
    };
    blocks.filter_map(diff).collect()
}

/// The files and folders that a tool call names as its locations.
pub(super) fn locations(call: &Json) -> Vec<PathBuf> {
    let locations = call.member("locations").unwrap_or(Json::NULL).elements();
    let path = |it: &Json| Some(PathBuf::from(nonempty(&it.member("path")?)?));
    locations.iter().filter_map(path).collect()
}

/// The keys of agents for the path of one file.
pub(super) const FILE_KEYS: [&str; 10] = [
    "file_path",
    "filePath",
    "filepath",
    "fileName",
    "absolute_path",
    "notebook_path",
    "target_file",
    "file",
    "filename",
    "path",
];

/// The arguments with the keys of Claude Code.
pub(super) fn normalised(tool: &str, arguments: &Map<String, Value>, diffs: &[Diff]) -> Value {
    let mut input = arguments.clone();
    let mut rename = |from: &str, to: &str| {
        if !input.contains_key(to)
            && let Some(value) = input.remove(from)
        {
            input.insert(to.to_owned(), value);
        }
    };
    match tool {
        "Bash" => rename("cmd", "command"),
        "Read" | "Write" | "Edit" | "MultiEdit" => {
            FILE_KEYS[1..].iter().filter(|it| **it != "notebook_path").for_each(|key| {
                rename(key, "file_path");
            });
            rename("file_text", "content");
            rename("old_str", "old_string");
            rename("new_str", "new_string");
            if tool == "Read" {
                rename("line", "offset");
            }
        }
        _ => {}
    }
    if let Some(Value::Array(words)) = input.get("command").filter(|_| tool == "Bash") {
        let words: Vec<&str> = words.iter().filter_map(Value::as_str).collect();
        let line = json!(shell_line(&words));
        input.insert("command".into(), line);
    }
    if let Some(diff) = diffs.first() {
        let mut add = |key: &str, value: Value| {
            input.entry(key).or_insert(value);
        };
        match tool {
            "Write" => {
                add("file_path", json!(diff.path));
                add("content", json!(diff.new));
            }
            "Edit" => {
                add("file_path", json!(diff.path));
                add("old_string", json!(diff.old.as_deref().unwrap_or_default()));
                add("new_string", json!(diff.new));
            }
            _ => {}
        }
    }
    Value::Object(input)
}

/// A command line for a shell with these words.
pub(super) fn shell_line(words: &[&str]) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "-_./=:,@%+".contains(it);
    let quoted = |word: &&str| match !word.is_empty() && word.chars().all(is_plain) {
        true => (*word).to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    };
    words.iter().map(quoted).collect::<Vec<_>>().join(" ")
}

/// The arguments of a tool call of kind `delete` or `move`, as a command.
pub(super) fn file_command(program: &str, paths: &[PathBuf]) -> Value {
    let paths: Vec<_> = paths.iter().map(|it| it.to_string_lossy()).collect();
    let words: Vec<&str> =
        [program, "--"].into_iter().chain(paths.iter().map(|it| &**it)).collect();
    json!({ "command": shell_line(&words) })
}

/// The working directory that the arguments of a command name.
pub(super) fn directory(arguments: &Map<String, Value>) -> Option<&Path> {
    let keys = ["cwd", "workdir", "working_directory", "dir_path", "directory"];
    let text = keys.iter().find_map(|key| arguments.get(*key)?.as_str());
    text.filter(|it| !it.is_empty()).map(Path::new)
}

/// The working directory in Gemini's explanation of a command: `[in DIRECTORY]` or
/// `[current working directory DIRECTORY]`. `Err` if the text can be read in two ways.
pub(super) fn directory_in_content(call: &Json) -> Result<Option<PathBuf>, ()> {
    let first = call.member("content").unwrap_or(Json::NULL).elements().into_iter().next();
    let Some(text) = first.and_then(|it| nonempty(&it.at(&["content", "text"])?)) else {
        return Ok(None);
    };
    let prefixes = ["[in ", "[current working directory "];
    let Some(rest) = prefixes.iter().find_map(|prefix| text.strip_prefix(prefix)) else {
        return Ok(None);
    };
    let Some((directory, rest)) = rest.split_once(']') else { return Err(()) };
    let rest = rest.strip_suffix(" [background]").unwrap_or(rest);
    match rest.is_empty() || rest.starts_with(" (") && !rest.contains(']') {
        true => Ok(Some(directory.into())),
        false => Err(()),
    }
}
