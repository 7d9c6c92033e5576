//! The options of built-in components, which can be read and changed while a chain runs.

use clap::builder::PossibleValue;
use components::Entry;
use serde_json::{Map, Value, json};

use super::{PREFIX, inputs, unknown};
use crate::config::Spec;
use crate::host::in_process::InProcess;
use crate::managed_options::ManagedOptions;

/// The functions about the options of every built-in component.
pub(super) const OPTIONS: ManagedOptions =
    ManagedOptions { values, schema: |spec| entry(spec).map_or(Value::Null, schema), with_values };

fn entry(spec: &Spec) -> Result<&'static Entry, String> {
    let name = spec.program.strip_prefix(PREFIX).unwrap_or(&spec.program);
    components::find(name).ok_or_else(|| unknown(name))
}

fn values(spec: &Spec) -> Result<Map<String, Value>, String> {
    entry(spec)?.options(&spec.args, &spec.options)
}

/// All options are in `options` afterwards, because those in the arguments would win.
fn with_values(spec: &Spec, values: &Map<String, Value>) -> Result<Spec, String> {
    let entry = entry(spec)?;
    let defaults = entry.options(&[], &Map::new())?;
    let mut all = entry.options(&spec.args, &spec.options)?;
    for (name, value) in values {
        let value = if value.is_null() { defaults.get(name).unwrap_or(value) } else { value };
        all.insert(name.clone(), value.clone());
    }
    let inputs = inputs::files_of(entry, &[], &all);
    let factory = entry.parse(&[], &all).map_err(|why| match wrong_option(entry, values) {
        Some((name, why)) => format!("option `{name}` of {why}"),
        None => {
            let names: Vec<String> = values.keys().map(|name| format!("`{name}`")).collect();
            format!("with the new value of {}: {why}", names.join(", "))
        }
    })?;
    let in_process = InProcess::of(factory).observing_messages(entry.observes_messages);
    let (args, in_process) = (Vec::new(), Some(in_process));
    Ok(Spec { args, options: all, inputs, in_process, ..spec.clone() })
}

/// The first option that is wrong by itself.
fn wrong_option(entry: &Entry, values: &Map<String, Value>) -> Option<(String, String)> {
    values.iter().filter(|(_, value)| !value.is_null()).find_map(|(name, value)| {
        let alone = Map::from_iter([(name.clone(), value.clone())]);
        Some((name.clone(), entry.options(&[], &alone).err()?))
    })
}

/// The JSON Schema of the options of a component, from its command line: names, descriptions, default values, and the
/// possible values.
fn schema(entry: &Entry) -> Value {
    let defaults = entry.options(&[], &Map::new()).unwrap_or_default();
    let command = entry.command();
    let properties = defaults.iter().map(|(name, default)| {
        let argument = command.get_arguments().find(|argument| argument.get_id() == name.as_str());
        let possible = argument.map(clap::Arg::get_possible_values).unwrap_or_default();
        let mut property = typed(default, &possible);
        let help = argument.and_then(|it| it.get_long_help().or(it.get_help()));
        if let Some(help) = help {
            property.insert("description".to_owned(), help.to_string().into());
        }
        property.insert("default".to_owned(), default.clone());
        (name.clone(), Value::Object(property))
    });
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": entry.name,
        "description": entry.about(),
        "type": "object",
        "additionalProperties": false,
        "properties": properties.collect::<Map<String, Value>>(),
    })
}

/// The type of a value, as far as its default shows it. An option without a default may have any type.
fn typed(default: &Value, possible: &[PossibleValue]) -> Map<String, Value> {
    let names: Vec<&str> = possible.iter().map(PossibleValue::get_name).collect();
    let one = match default {
        Value::Bool(_) => json!({ "type": "boolean" }),
        Value::Number(number) if number.is_f64() => json!({ "type": "number" }),
        Value::Number(_) => json!({ "type": "integer" }),
        Value::Object(_) => json!({ "type": "object" }),
        Value::Array(_) if names.is_empty() => json!({ "type": "array" }),
        Value::Array(_) => json!({ "type": "array", "items": { "enum": names } }),
        Value::String(_) | Value::Null if !names.is_empty() => {
            let null = default.is_null().then_some(Value::Null);
            json!({ "enum": names.iter().map(|it| json!(it)).chain(null).collect::<Vec<_>>() })
        }
        Value::String(_) => json!({ "type": "string" }),
        Value::Null => json!({}),
    };
    match one {
        Value::Object(one) => one,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> Spec {
        let mut specs = [Spec::parse(text).expect("a component")];
        crate::builtin::resolve(router::Mode::Proxy, &mut specs).expect("a built-in component");
        let [spec] = specs;
        spec
    }

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().expect("an object").clone()
    }

    #[test]
    fn the_values_of_all_options_fit_the_schema() {
        for entry in &components::catalog::ALL {
            let schema = schema(entry);
            let properties = schema["properties"].as_object().expect("properties");
            let defaults = entry.options(&[], &Map::new()).expect(entry.name);
            for (name, default) in defaults {
                let property = &properties[&name];
                assert_eq!(property["default"], default, "{} {name}", entry.name);
                let fits = match property["type"].as_str() {
                    Some("boolean") => default.is_boolean(),
                    Some("integer") => default.is_i64() || default.is_u64(),
                    Some("number") => default.is_f64(),
                    Some("string") => default.is_string(),
                    Some("array") => default.is_array(),
                    Some("object") => default.is_object(),
                    None => true,
                    other => panic!("{} {name}: {other:?}", entry.name),
                };
                assert!(fits, "{} {name}: {property}", entry.name);
            }
        }
        let schema = schema(components::find("budget").expect("budget"));
        let text = schema["properties"]["when_spent"].to_string();
        assert!(text.contains("stop") && text.contains("description"), "{text}");
    }

    #[test]
    fn new_values_win_over_the_arguments_and_the_rest_stays() {
        let spec = spec("context --text a --most 7");
        let new = with_values(&spec, &object(json!({ "text": ["b"] }))).expect("valid");
        let values = values(&new).expect("valid");
        assert_eq!((&values["text"], &values["most"]), (&json!(["b"]), &json!(7)));
        assert!(new.in_process.is_some() && new.in_process != spec.in_process);
        let reset = with_values(&new, &object(json!({ "most": null }))).expect("valid");
        assert_eq!(super::values(&reset).expect("valid")["most"], 64 * 1024);
    }

    #[test]
    fn an_error_names_the_option_and_gives_a_hint() {
        let spec = spec("context --text a");
        let why = |values| with_values(&spec, &object(values)).expect_err("an error");
        let unknown = why(json!({ "each": true, "txet": ["b"] }));
        assert!(unknown.starts_with("option `txet` of context: "), "{unknown}");
        assert!(unknown.contains("did you mean `text`?"), "{unknown}");
        let wrong = why(json!({ "most": "many" }));
        assert!(wrong.starts_with("option `most` of context: "), "{wrong}");
        let missing = why(json!({ "file": ["/nowhere/at/all"] }));
        assert!(missing.contains("`file`") && missing.contains("/nowhere/at/all"), "{missing}");
    }
}
