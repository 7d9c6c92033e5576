//! Parses a component that is written as a JSON object. An error says what the right form is, and never repeats a value,
//! because values are often secrets.

use serde_json::{Map, Value};

use super::{Spec, default_name, parse_dialect};
use acp_wire::suggestion;

/// The members of a component.
const MEMBERS: [&str; 11] = [
    "name", "command", "args", "options", "env", "cwd", "dialect", "guard", "onCrash", "restarts",
    "updates",
];

/// Other names that people and programs use for members.
const OTHER_NAMES: [(&str, &str); 14] = [
    ("cmd", "command"),
    ("program", "command"),
    ("path", "command"),
    ("exec", "command"),
    ("executable", "command"),
    ("arguments", "args"),
    ("argv", "args"),
    ("environment", "env"),
    ("variables", "env"),
    ("directory", "cwd"),
    ("workingdirectory", "cwd"),
    ("workdir", "cwd"),
    ("title", "name"),
    ("generation", "dialect"),
];

/// Parses a JSON object.
pub(super) fn parse(text: &str) -> Result<Spec, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| invalid_json(text, &error))?;
    let Value::Object(mut members) = value else {
        return Err("its JSON is not an object".into());
    };
    check_names(&members)?;
    let command = match members.remove("command") {
        Some(Value::String(command)) => command,
        Some(Value::Array(_)) => {
            return Err(
                "`command` must be a string with the program alone; write the arguments into \
                        `args`: {\"command\": \"PROGRAM\", \"args\": [\"ARGUMENT\"]}"
                    .into(),
            );
        }
        Some(other) => return Err(wrong_type("command", "a string", &other)),
        None => return Err("the member `command` is missing: {\"command\": \"PROGRAM\"}".into()),
    };
    let args = args(members.remove("args").unwrap_or_default())?;
    let env = env(members.remove("env").unwrap_or_default())?;
    let options = match members.remove("options") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(options)) => options,
        Some(other) => return Err(wrong_type("options", "an object", &other)),
    };
    let name = match text_member(&mut members, "name")? {
        Some(name) if name.trim().is_empty() => return Err("`name` must not be empty".into()),
        name => name.unwrap_or_else(|| default_name(&command, &args)),
    };
    let guard = match members.remove("guard") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(guard)) => guard,
        Some(other) => return Err(wrong_type("guard", "true or false", &other)),
    };
    let on_crash = text_member(&mut members, "onCrash")?;
    let restarts = text_member(&mut members, "restarts")?;
    let updates = text_member(&mut members, "updates")?;
    let dialect = text_member(&mut members, "dialect")?;
    let named = |name: &str| {
        let name = name.to_owned();
        move |why: String| format!("`{name}`: {why}")
    };
    Ok(Spec {
        name,
        program: command,
        args,
        options,
        env,
        directory: text_member(&mut members, "cwd")?.map(Into::into),
        dialect: dialect.as_deref().map(parse_dialect).transpose().map_err(named("dialect"))?,
        guard,
        on_crash_named: on_crash.is_some(),
        on_crash: on_crash.as_deref().map(str::parse).transpose().map_err(named("onCrash"))?,
        restarts: restarts.as_deref().map(str::parse).transpose().map_err(named("restarts"))?,
        updates: updates.as_deref().map(str::parse).transpose().map_err(named("updates"))?,
        ..Spec::default()
    })
}

fn invalid_json(text: &str, error: &serde_json::Error) -> String {
    let hint = match text.trim_start().trim_start_matches('{').trim_start().chars().next() {
        Some('\'') => "; names and texts need double quotation marks (\")",
        Some('\\') => "; it has a backslash before a quotation mark that needs none here",
        Some(first) if first.is_alphabetic() => {
            "; names need quotation marks: {\"command\": \"…\"}"
        }
        _ if error.is_eof() => "; it ends too early: a bracket or a quotation mark is not closed",
        _ => "",
    };
    format!("its JSON is invalid: {}{hint}", without_values(error))
}

/// The text of a JSON error without quoted values, which may be secrets.
fn without_values(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match (text.find('"'), text.rfind('"')) {
        (Some(start), Some(end)) if start < end => {
            format!("{}…{}", &text[..start], &text[end + 1..])
        }
        _ => text,
    }
}

fn check_names(members: &Map<String, Value>) -> Result<(), String> {
    for name in members.keys() {
        if MEMBERS.contains(&name.as_str()) {
            continue;
        }
        let plain = name.to_lowercase().replace(['_', '-'], "");
        let same = MEMBERS.into_iter().find(|it| it.to_lowercase() == plain);
        let other = OTHER_NAMES.iter().find(|(other, _)| *other == plain).map(|(_, it)| *it);
        let meant = same.or(other).or_else(|| suggestion::closest(name, MEMBERS));
        let hint = match meant {
            Some(meant) => format!("did you mean `{meant}`?"),
            None => format!("the members are {}", MEMBERS.join(", ")),
        };
        return Err(format!("it has an unknown member `{}`; {hint}", printed(name)));
    }
    Ok(())
}

/// A name from the user, safe to print and not too long.
fn printed(name: &str) -> String {
    acp_wire::printable::one_line(name).chars().take(40).collect()
}

fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

fn wrong_type(name: &str, expected: &str, found: &Value) -> String {
    format!("`{name}` must be {expected}, not {}", type_of(found))
}

fn text_member(members: &mut Map<String, Value>, name: &str) -> Result<Option<String>, String> {
    match members.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(wrong_type(name, "a string", &other)),
    }
}

fn args(value: Value) -> Result<Vec<String>, String> {
    let list = match value {
        Value::Null => return Ok(Vec::new()),
        Value::Array(list) => list,
        other => {
            let found = type_of(&other);
            return Err(format!(
                "`args` must be a list of strings, such as [\"--acp\"], not {found}"
            ));
        }
    };
    let text = |(number, value): (usize, Value)| match value {
        Value::String(text) => Ok(text),
        other => Err(format!(
            "`args` must be a list of strings, but its element {number} is {}; write it in quotation marks",
            type_of(&other)
        )),
    };
    (1..).zip(list).map(text).collect()
}

/// `{"NAME": "value"}`, or ACP's `[{"name": "NAME", "value": "value"}]`.
fn env(value: Value) -> Result<Vec<(String, String)>, String> {
    const FORMS: &str =
        "write {\"NAME\": \"value\"} or [{\"name\": \"NAME\", \"value\": \"value\"}]";
    let text = |name: &str, value: Value| match value {
        Value::String(text) => Ok(text),
        other => Err(format!(
            "the value of `{}` in `env` must be a string, not {}; write it in quotation marks",
            printed(name),
            type_of(&other)
        )),
    };
    match value {
        Value::Null => Ok(Vec::new()),
        Value::Object(members) => {
            let pair =
                |(name, value): (String, Value)| text(&name, value).map(|value| (name, value));
            members.into_iter().map(pair).collect()
        }
        Value::Array(list) => {
            let pair = |element: Value| match element {
                Value::Object(mut pair) => match (pair.remove("name"), pair.remove("value")) {
                    (Some(Value::String(name)), Some(value)) => {
                        text(&name, value).map(|value| (name, value))
                    }
                    _ => {
                        Err(format!("each element of `env` needs a `name` and a `value`; {FORMS}"))
                    }
                },
                Value::String(_) => Err(format!(
                    "`env` must not be a list of texts such as \"NAME=value\"; {FORMS}"
                )),
                other => Err(format!(
                    "`env` must not be a list of {}s; {FORMS}",
                    type_of(&other).trim_start_matches("a ").trim_start_matches("an ")
                )),
            };
            list.into_iter().map(pair).collect()
        }
        other => Err(format!("`env` must not be {}; {FORMS}", type_of(&other))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mistakes that people make, and what the error must say.
    #[test]
    fn each_mistake_is_explained_with_the_right_form() {
        for (text, parts) in [
            (
                r#"{"command":"a","env":["A=secret"]}"#,
                &[
                    "\"NAME=value\"",
                    r#"{"NAME": "value"}"#,
                    r#"[{"name": "NAME", "value": "value"}]"#,
                ][..],
            ),
            (
                r#"{"command":"a","env":"A=secret"}"#,
                &["`env` must not be a string", r#"{"NAME": "value"}"#],
            ),
            (r#"{"command":"a","env":{"A":1}}"#, &["`A`", "must be a string, not a number"]),
            (r#"{"command":"a","env":[{"key":"A"}]}"#, &["`name` and a `value`"]),
            (r#"{"command":"a","env":[1]}"#, &["list of numbers"]),
            (
                r#"{"command":"a","args":"--acp secret"}"#,
                &["`args` must be a list of strings", "not a string"],
            ),
            (r#"{"command":"a","args":["x",1]}"#, &["element 2 is a number"]),
            (r#"{"command":["a","secret"]}"#, &["`command` must be a string", "`args`"]),
            (r#"{"command":1}"#, &["`command` must be a string, not a number"]),
            (r#"{"args":[]}"#, &["`command` is missing"]),
            (r#"{"command":"a","arg":[]}"#, &["unknown member `arg`", "did you mean `args`?"]),
            (r#"{"cmd":"a"}"#, &["did you mean `command`?"]),
            (r#"{"command":"a","Environment":{}}"#, &["did you mean `env`?"]),
            (r#"{"command":"a","on_crash":"stop"}"#, &["did you mean `onCrash`?"]),
            (r#"{"command":"a","working_directory":"/"}"#, &["did you mean `cwd`?"]),
            (
                r#"{"command":"a","colour":"red"}"#,
                &["unknown member `colour`", "the members are name, command"],
            ),
            (r#"{"command":"a","cwd":["/"]}"#, &["`cwd` must be a string, not a list"]),
            (r#"{"command":"a","options":["x"]}"#, &["`options` must be an object, not a list"]),
            (r#"{"command":"a","guard":"yes"}"#, &["`guard` must be true or false"]),
            (r#"{"command":"a","name":""}"#, &["`name` must not be empty"]),
            (r#"{"command":"a","dialect":"P9"}"#, &["`dialect`", "the dialects are"]),
            (r#"{"command":"a","onCrash":"explode"}"#, &["`onCrash`"]),
            (r#"{'command':'secret'}"#, &["double quotation marks"]),
            (r#"{command:"secret"}"#, &["names need quotation marks"]),
            (r#"{"command":"secret"#, &["ends too early"]),
        ] {
            let why = parse(text).expect_err(text);
            for part in parts {
                assert!(why.contains(part), "{text}: {why}");
            }
            assert!(!why.contains("secret"), "{text}: {why}");
        }
    }

    #[test]
    fn null_means_that_a_member_is_missing() {
        let spec = parse(r#"{"command":"a","args":null,"env":null,"cwd":null,"name":null}"#);
        assert_eq!(spec.expect("a component").name, "a");
    }
}
