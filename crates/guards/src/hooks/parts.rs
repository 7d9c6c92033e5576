//! The parts of an action that hooks must see one by one. The arguments of a tool show one command or one file, but the
//! agent may name more: in an earlier report of the tool call, in its locations, in several diffs.

use std::path::Path;

use acp_proxy::{Json, Permission, ToolCall};
use serde_json::{Value, json};

use super::occasion::{command_text, tool_input};
use super::uses::resolved;
use component_base::action::{Action, CommandLine, Operation, ToolName};

/// How many parts an action may have.
const MAX_PARTS: usize = 32;

/// The action of a permission request, then an action for each command, file or address that its arguments do not
/// show. `None` if there are too many.
pub(crate) fn of_permission(action: &Action, permission: &Permission) -> Option<Vec<Action>> {
    let params = permission.json();
    let in_subject = || params.member("subject")?.member("toolCall");
    let call = params.member("toolCall").or_else(in_subject);
    let earlier = permission.earlier().map(|it: &ToolCall| it.json().clone());
    let diffs: Vec<Diff> = call.iter().chain(&earlier).flat_map(diffs).collect();
    Parts::new(action).add_all(action, &diffs)
}

/// A file that a tool call changes.
#[derive(Debug, Clone, PartialEq)]
struct Diff {
    path: String,
    old: Option<String>,
    new: String,
}

fn diffs(call: &Json) -> Vec<Diff> {
    let blocks = call.member("content").unwrap_or(Json::NULL).elements();
    let blocks = blocks.iter().filter(|it| text(it, "type").as_deref() == Some("diff"));
    let diff = |block: &Json| {
        let (path, old) = (text(block, "path")?, text(block, "oldText"));
        Some(Diff { path, old, new: text(block, "newText").unwrap_or_default() })
    };
    blocks.filter_map(diff).collect()
}

fn text(json: &Json, member: &str) -> Option<String> {
    Some(json.member(member)?.text()?.into_owned())
}

struct Parts<'a> {
    action: &'a Action,
    /// The arguments that the first part shows.
    shown: Value,
    parts: Vec<Action>,
}

impl<'a> Parts<'a> {
    fn new(action: &'a Action) -> Parts<'a> {
        Parts { action, shown: tool_input(action), parts: vec![action.clone()] }
    }

    fn add_all(mut self, action: &Action, diffs: &[Diff]) -> Option<Vec<Action>> {
        diffs.iter().for_each(|diff| self.add_diff(diff, diffs));
        action.operations.iter().for_each(|it| self.add_operation(it));
        (self.parts.len() <= MAX_PARTS).then_some(self.parts)
    }

    fn add(&mut self, tool: &str, mut input: Value, operation: Operation) {
        if let Some(directory) = self.shown.get("cwd").filter(|_| tool == "Bash") {
            input["cwd"] = directory.clone();
        }
        let tool = ToolName { native: None, common: tool.to_owned() };
        let part = Action { tool, input, operations: vec![operation], ..self.action.clone() };
        // One more than the limit shows that there are too many.
        if self.parts.len() <= MAX_PARTS && !self.parts.contains(&part) {
            self.parts.push(part);
        }
    }

    fn add_diff(&mut self, diff: &Diff, all: &[Diff]) {
        let shown = ["new_string", "content"].map(|it| self.shown[it].as_str());
        let is_text_of = |diff: &Diff| shown.contains(&Some(diff.new.as_str()));
        // If the arguments have the text of another diff, they do not show this one.
        let is_other = all.iter().any(is_text_of) && !is_text_of(diff);
        if self.shows(Path::new(&diff.path)) && !is_other {
            return;
        }
        let (path, new) = (&diff.path, &diff.new);
        let (tool, input) = match &diff.old {
            Some(old) => {
                ("Edit", json!({ "file_path": path, "old_string": old, "new_string": new }))
            }
            None => ("Write", json!({ "file_path": path, "content": new })),
        };
        self.add(tool, input, Operation::Write(path.into()));
    }

    fn add_operation(&mut self, operation: &Operation) {
        match operation {
            Operation::Run(command) => {
                let command = command_text(command);
                if self.shown["command"] != command.as_str() {
                    self.add("Bash", json!({ "command": command }), operation.clone());
                }
            }
            Operation::Read(path) if !self.shows(path) => {
                self.add("Read", json!({ "file_path": path }), operation.clone());
            }
            Operation::Write(path) if !self.shows(path) && !self.has_write(operation) => {
                let tool = self.action.tool.common.clone();
                let tool = if self.is_file_tool() && tool != "Read" { &tool } else { "Edit" };
                self.add(tool, json!({ "file_path": path }), operation.clone());
            }
            Operation::Delete(path) if self.is_file_tool() || !self.shows(path) => {
                let args = vec!["--".to_owned(), path.to_string_lossy().into_owned()];
                let command = CommandLine::Program { program: "rm".to_owned(), args };
                self.add("Bash", json!({ "command": command.to_string() }), operation.clone());
            }
            Operation::Fetch(url) if !self.has_argument(|it| it == url) => {
                self.add("WebFetch", json!({ "url": url }), operation.clone());
            }
            _ => {}
        }
    }

    /// Whether the arguments of the tool are known, with one file.
    fn is_file_tool(&self) -> bool {
        matches!(self.action.tool.common.as_str(), "Read" | "Write" | "Edit" | "MultiEdit")
    }

    /// Whether a diff has added a part with this operation.
    fn has_write(&self, operation: &Operation) -> bool {
        self.parts[1..].iter().any(|part| part.operations.contains(operation))
    }

    /// Whether the arguments show a path.
    fn shows(&self, path: &Path) -> bool {
        if self.is_file_tool() {
            return self.is_file(&path.to_string_lossy());
        }
        let operations = &self.action.operations;
        let runs = operations.iter().any(|it| matches!(it, Operation::Run(_)));
        // `rm -- PATH` and `mv -- PATH PATH` are made of the paths.
        let command = self.shown["command"].as_str().filter(|_| !runs).unwrap_or_default();
        let is_made = command.split(' ').any(|word| Path::new(word.trim_matches('\'')) == path);
        let is_search = matches!(self.action.tool.common.as_str(), "Grep" | "Glob" | "LS");
        let is_default = is_search && path == Path::new(".");
        let wanted = self.absolute(&path.to_string_lossy());
        let pattern = path.to_str();
        is_made
            || is_default
            || self.has_argument(|it| {
                self.absolute(it) == wanted
                    || is_search && pattern.is_some_and(|path| it.starts_with(path))
            })
    }

    /// Whether this is the file of the arguments.
    fn is_file(&self, path: &str) -> bool {
        let file = self.shown["file_path"].as_str();
        file.is_some_and(|file| self.absolute(file) == self.absolute(path))
    }

    fn absolute(&self, path: &str) -> std::path::PathBuf {
        resolved(&self.action.cwd.join(path))
    }

    /// Whether one of the arguments, or an element of a list in them, is such a text.
    fn has_argument(&self, test: impl Fn(&str) -> bool) -> bool {
        let is = |value: &Value| value.as_str().is_some_and(&test);
        let members = self.shown.as_object().into_iter().flat_map(|it| it.values());
        members.into_iter().any(|value| match value {
            Value::Array(list) => list.iter().any(|it| is(it) || is(&it["path"])),
            value => is(value),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use component_base::action::At;

    fn action(tool: &str, input: Value, operations: Vec<Operation>) -> Action {
        Action {
            session: "s".into(),
            at: At::PermissionRequest,
            call: None,
            tool: ToolName { native: None, common: tool.into() },
            kind: None,
            input,
            operations,
            opaque: false,
            cwd: "/project".into(),
        }
    }

    fn parts(action: &Action, diffs: &[Diff]) -> Vec<(String, Value)> {
        let parts = Parts::new(action).add_all(action, diffs).expect("few parts");
        parts.into_iter().map(|it| (it.tool.common, it.input)).collect()
    }

    fn shell(line: &str) -> Operation {
        Operation::Run(CommandLine::Shell(line.into()))
    }

    #[test]
    fn an_action_that_its_arguments_show_has_one_part() {
        let words = |words: &[&str]| {
            let args = words[1..].iter().map(|&it| it.to_owned()).collect();
            Operation::Run(CommandLine::Program { program: words[0].into(), args })
        };
        let read = |path: &str| Operation::Read(path.into());
        let write = |path: &str| Operation::Write(path.into());
        let delete = |path: &str| Operation::Delete(path.into());
        for action in [
            action("Bash", json!({ "command": "ls" }), vec![shell("ls")]),
            action(
                "Bash",
                json!({ "command": "ls" }),
                vec![shell("ls"), words(&["sh", "-c", "ls"])],
            ),
            action("Read", json!({ "file_path": "a" }), vec![read("a"), read("/project/a")]),
            action("Edit", json!({ "file_path": "/project/a" }), vec![write("a")]),
            action("Grep", json!({ "pattern": "x" }), vec![read(".")]),
            action("Glob", json!({ "pattern": "/etc/*.conf" }), vec![read("/etc")]),
            action("Bash", json!({ "command": "mv -- a b" }), vec![delete("a"), write("b")]),
            action("deploy", json!({ "to": ["a"] }), vec![write("a"), read("a")]),
            action("WebFetch", json!({ "url": "u" }), vec![Operation::Fetch("u".into())]),
        ] {
            assert_eq!(parts(&action, &[]).len(), 1, "{action:?}");
        }
    }

    #[test]
    fn what_the_arguments_do_not_show_is_a_part_of_its_own() {
        let two = action("Bash", json!({ "command": "ls" }), vec![shell("ls"), shell("evil")]);
        assert_eq!(parts(&two, &[])[1], ("Bash".into(), json!({ "command": "evil" })));
        let operations = vec![Operation::Read("a".into()), Operation::Read(".env".into())];
        let two = action("Read", json!({ "file_path": "a" }), operations);
        assert_eq!(parts(&two, &[])[1], ("Read".into(), json!({ "file_path": ".env" })));
        let operations = vec![Operation::Write("a".into()), Operation::Delete("b".into())];
        let two = action("Edit", json!({ "file_path": "a" }), operations);
        assert_eq!(parts(&two, &[])[1], ("Bash".into(), json!({ "command": "rm -- b" })));
    }

    #[test]
    fn each_diff_is_a_part() {
        let diff = |path: &str, old: Option<&str>, new: &str| Diff {
            path: path.into(),
            old: old.map(str::to_owned),
            new: new.into(),
        };
        let input = json!({ "file_path": "a", "old_string": "1", "new_string": "2" });
        let operations = vec![Operation::Write("a".into()), Operation::Write("b".into())];
        let edit = action("Edit", input, operations);
        let all = [diff("a", Some("1"), "2"), diff("a", Some("3"), "4"), diff("b", None, "5")];
        let parts = parts(&edit, &all);
        let second = json!({ "file_path": "a", "old_string": "3", "new_string": "4" });
        let third = json!({ "file_path": "b", "content": "5" });
        assert_eq!(parts[1..], [("Edit".into(), second), ("Write".into(), third)]);
    }

    #[test]
    fn an_action_has_a_limited_number_of_parts() {
        let operations = |count: usize| (0..count).map(|it| shell(&it.to_string())).collect();
        let some = action("Bash", json!({}), operations(MAX_PARTS));
        assert_eq!(parts(&some, &[]).len(), MAX_PARTS);
        let many = action("Bash", json!({}), operations(MAX_PARTS + 1));
        assert!(Parts::new(&many).add_all(&many, &[]).is_none());
    }
}
