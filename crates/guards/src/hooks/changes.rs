//! Changes that hooks make: other arguments of a tool, and other results.

use acp_proxy::{Error, Json, Result, to_json};
use serde_json::{Value, json};

use super::occasion::tool_input;
use super::uses;
use component_base::action::{Action, At, CommandLine, Operation};

/// Whether a hook has changed arguments. Members that only one of them has, and that say nothing, do not count.
pub(crate) fn differ(old: &Value, new: &Value) -> bool {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return old != new };
    let null = Value::Null;
    let mut names = old.keys().chain(new.keys()).filter(|name| !is_note(name));
    names.any(|name| old.get(name).unwrap_or(&null) != new.get(name).unwrap_or(&null))
}

/// Members that do not change what a tool does.
fn is_note(name: &str) -> bool {
    matches!(name, "description" | "timeout" | "run_in_background")
}

/// Checks that the changes can be made in a request for a file or a terminal. Otherwise says why not.
pub(crate) fn check(tool: &str, old: &Value, new: &Value) -> std::result::Result<(), String> {
    type Test = fn(&Value) -> bool;
    let (required, known): (&[&str], &[(&str, Test)]) = match tool {
        "Bash" => {
            (&["command"], &[("command", is_text), ("env", is_environment), ("cwd", is_text)])
        }
        "Read" => (
            &["file_path"],
            &[("file_path", is_text), ("offset", Value::is_u64), ("limit", Value::is_u64)],
        ),
        "Write" => {
            (&["file_path", "content"], &[("file_path", is_text), ("content", Value::is_string)])
        }
        _ => return Err(format!("a hook changes the arguments of {tool}, which is not possible")),
    };
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else {
        return Err(format!("a hook gives {tool} arguments that are not an object"));
    };
    if let Some(name) = required.iter().find(|name| new.get(**name).is_none_or(Value::is_null)) {
        return Err(format!("a hook gives {tool} other arguments, without {name}"));
    }
    for (name, value) in new {
        if is_note(name) || value.is_null() || old.get(name) == Some(value) {
            continue;
        }
        match known.iter().find(|(known, _)| known == name) {
            Some((_, is_valid)) if is_valid(value) => {}
            Some(_) => {
                return Err(format!("a hook gives {tool} a value of the wrong type for {name}"));
            }
            None => return Err(format!("a hook gives {tool} the unknown argument {name}")),
        }
    }
    Ok(())
}

fn is_text(value: &Value) -> bool {
    value.as_str().is_some_and(|it| !it.trim().is_empty())
}

/// Variables by name.
fn is_environment(value: &Value) -> bool {
    let is_value = |it: &Value| it.is_string() || it.is_number() || it.is_boolean();
    value.as_object().is_some_and(|it| it.values().all(is_value))
}

/// The parameters of a request for a file or a terminal, with the arguments of a hook. Arguments that the hook has left
/// out are removed.
pub(crate) fn apply(at: At, action: &Action, params: Json, input: &Value) -> Result<Json> {
    let old = tool_input(action);
    let set = |params: Json, member: &str, name: &str, value: Option<&Value>| -> Result<Json> {
        match value.filter(|it| !it.is_null()) {
            Some(value) => Ok(params.with_at(&[member], Some(&to_json(value)?))),
            None if old.get(name).is_some() => Ok(params.with_at(&[member], None)),
            None => Ok(params),
        }
    };
    match at {
        At::ReadTextFile => {
            let params = set(params, "path", "file_path", input.get("file_path"))?;
            let params = set(params, "line", "offset", input.get("offset"))?;
            set(params, "limit", "limit", input.get("limit"))
        }
        At::WriteTextFile => {
            let params = set(params, "path", "file_path", input.get("file_path"))?;
            set(params, "content", "content", input.get("content"))
        }
        At::CreateTerminal => {
            let params = set(params, "cwd", "cwd", input.get("cwd"))?;
            let params = set(params, "env", "env", environment(input).as_ref())?;
            match input["command"].as_str() {
                Some(command) if input["command"] != old["command"] => {
                    with_command(action, params, command)
                }
                _ => Ok(params),
            }
        }
        At::PermissionRequest | At::McpCall => {
            Err(Error::internal("hooks: these arguments cannot be changed"))
        }
    }
}

fn environment(input: &Value) -> Option<Value> {
    let members = input.get("env")?.as_object()?;
    let variables = members.iter().map(|(name, value)| {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        json!({ "name": name, "value": value })
    });
    Some(variables.collect())
}

/// The parameters of a terminal that runs another command in the same way: as the text of the agent's shell, as the
/// script of a shell that it names, or with a shell.
fn with_command(action: &Action, params: Json, command: &str) -> Result<Json> {
    let old = action.operations.iter().find_map(|operation| match operation {
        Operation::Run(command) => Some(command),
        _ => None,
    });
    match old {
        Some(CommandLine::Program { program, args }) => {
            let is_script = old.is_some_and(|old| uses::script(old).is_some());
            let (program, option) = match (is_script, args.first()) {
                (true, Some(option)) => (program.as_str(), option.as_str()),
                _ => ("/bin/sh", "-c"),
            };
            let params = params.with_at(&["command"], Some(&Json::string(program)));
            Ok(params.with_at(&["args"], Some(&to_json(&[option, command])?)))
        }
        _ => Ok(params.with_at(&["command"], Some(&Json::string(command)))),
    }
}

/// The text of a result, in any of the forms in which hooks give one.
pub(crate) fn output_text(output: &Value) -> String {
    match output {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().map(output_text).collect::<Vec<_>>().join("\n"),
        Value::Object(members) => {
            let names = ["text", "content", "stdout", "output", "file", "error"];
            match names.iter().find_map(|name| members.get(*name)) {
                Some(inner) => output_text(inner),
                None => output.to_string(),
            }
        }
        other => other.to_string(),
    }
}

/// The content of an MCP result, in any of the forms in which hooks give one.
pub(crate) fn mcp_content(output: &Value) -> Result<Json> {
    match (output, output.get("content")) {
        (Value::Array(_), _) => to_json(output),
        (_, Some(content @ Value::Array(_))) => to_json(content),
        _ => to_json(&json!([{ "type": "text", "text": output_text(output) }])),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_in_the_arguments_is_no_change() {
        let old = json!({ "command": "ls", "description": "List files" });
        assert!(!differ(&old, &json!({ "command": "ls" })));
        assert!(!differ(&old, &json!({ "command": "ls", "description": "x", "timeout": 5 })));
        assert!(differ(&old, &json!({ "command": "ls -a" })) && differ(&old, &json!({})));
    }

    #[test]
    fn only_changes_that_can_be_made_are_accepted() {
        let old = json!({ "command": "ls", "sandbox": false });
        for (tool, new, is_possible) in [
            ("Bash", json!({ "command": "ls -a", "env": { "A": "1" } }), true),
            ("Bash", json!({ "command": "ls -a", "sandbox": false, "timeout": 5 }), true),
            ("Bash", json!({ "command": "ls", "sandbox": true }), false),
            ("Bash", json!({ "command": ["ls"] }), false),
            ("Bash", json!({ "cmd": "ls" }), false),
            ("Bash", json!({ "command": "ls", "env": [{ "name": "A", "value": "1" }] }), false),
            ("Bash", json!({ "cwd": "/" }), false),
            ("Read", json!({ "file_path": "a", "limit": 5 }), true),
            ("Read", json!({ "file_path": "a", "limit": "5" }), false),
            ("Write", json!({ "file_path": "a", "content": "" }), true),
            ("Write", json!({ "file_path": "a" }), false),
            ("Edit", json!({ "file_path": "a" }), false),
        ] {
            assert_eq!(check(tool, &old, &new).is_ok(), is_possible, "{tool} {new}");
        }
    }

    #[test]
    fn the_text_of_a_result_is_found_in_each_form() {
        for output in [
            json!("x"),
            json!([{ "type": "text", "text": "x" }]),
            json!({ "stdout": "x", "stderr": "" }),
            json!({ "type": "text", "file": { "filePath": "/a", "content": "x" } }),
        ] {
            assert_eq!(output_text(&output), "x", "{output}");
        }
        assert_eq!(output_text(&json!(7)), "7");
        let content = mcp_content(&json!("x")).unwrap();
        let content: Value = serde_json::from_slice(content.as_bytes()).unwrap();
        assert_eq!(content, json!([{ "type": "text", "text": "x" }]));
    }
}
