//! What hooks are told about an event, in the form of each contract.

use serde_json::{Map, Value, json};

use super::engine::Occasion;
use super::event::{Contract, Event};
use component_base::action::{Action, At, CommandLine, Operation};

/// Fields of an input.
pub(crate) fn fields<const N: usize>(fields: [(&str, Value); N]) -> Map<String, Value> {
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

impl<'a> Occasion<'a> {
    /// An occasion about a tool call.
    pub(crate) fn about(
        event: Event,
        at: &'static str,
        action: &'a Action,
        fields: Map<String, Value>,
    ) -> Occasion<'a> {
        Occasion { event, at, subject: &action.tool.common, action: Some(action), fields }
    }

    /// The names that matchers are compared with.
    pub(crate) fn names(&self, contract: Contract) -> Vec<&str> {
        match (contract, self.is_edit()) {
            (Contract::Codex, true) => vec!["apply_patch", "Write", "Edit"],
            _ => std::iter::once(self.subject).chain(self.edits_with()).collect(),
        }
    }

    /// The tool of the call for which a file is written through the editor, if the call is an edit: the request itself
    /// is a write.
    fn edits_with(&self) -> Option<&str> {
        let action = self.action.filter(|it| it.at == At::WriteTextFile)?;
        action.tool.native.as_deref().filter(|it| matches!(*it, "Edit" | "MultiEdit"))
    }

    fn is_edit(&self) -> bool {
        self.action.is_some() && matches!(self.subject, "Write" | "Edit" | "MultiEdit")
    }

    /// Whether the tool call meets the condition of a hook. A condition that cannot be decided is met.
    pub(crate) fn meets(&self, condition: Option<&str>) -> bool {
        match (condition, self.action) {
            (Some(rule), Some(action)) => super::condition::may_match(rule, action),
            _ => true,
        }
    }

    /// The fields of the event, for scripts of this contract.
    pub(crate) fn fields_for(&self, contract: Contract) -> Vec<(String, Value)> {
        let fields = self.fields.iter().map(|(name, value)| (name.clone(), value.clone()));
        let Some(action) = self.action else { return fields.collect() };
        let (name, input) = match (contract, self.is_edit()) {
            (Contract::Codex, true) => ("apply_patch", with_patch(action)),
            _ => (self.subject, tool_input(action)),
        };
        let tool = [("tool_name".to_owned(), json!(name)), ("tool_input".to_owned(), input)];
        tool.into_iter().chain(fields).collect()
    }
}

/// The arguments of a tool, as scripts know them. A command is one text, whether the agent has sent a text, a list of
/// words, or a program with arguments. A command that a shell gets as `bash -c COMMAND` is the command.
pub(crate) fn tool_input(action: &Action) -> Value {
    let mut input = action.input.clone();
    let command = action.operations.iter().find_map(|operation| match operation {
        Operation::Run(command) => Some(command),
        _ => None,
    });
    if let (Some(command), Some(members)) = (command, input.as_object_mut()) {
        members.insert("command".to_owned(), json!(command_text(command)));
    }
    input
}

/// A command, as scripts know it.
pub(crate) fn command_text(command: &CommandLine) -> String {
    super::uses::script(command).map_or_else(|| command.to_string(), str::to_owned)
}

/// The arguments of an edit, with the patch that scripts for Codex read.
fn with_patch(action: &Action) -> Value {
    let mut input = action.input.clone();
    let text = |name: &str| action.input[name].as_str().unwrap_or_default();
    let prefixed = |prefix: &str, text: &str| -> String {
        text.lines().map(|line| format!("{prefix}{line}\n")).collect()
    };
    let path = text("file_path");
    let change = match action.input["old_string"].is_string() {
        true => format!(
            "*** Update File: {path}\n@@\n{}{}",
            prefixed("-", text("old_string")),
            prefixed("+", text("new_string"))
        ),
        false => format!("*** Add File: {path}\n{}", prefixed("+", text("content"))),
    };
    if let Some(members) = input.as_object_mut() {
        let patch = format!("*** Begin Patch\n{change}*** End Patch\n");
        members.insert("command".to_owned(), json!(patch));
    }
    input
}
