//! The options of all built-in components are keys of the file.

use components::catalog::ALL;
use serde_json::{Map, Value, json};

use super::Setup;

/// A value that fits the schema of an option.
fn sample(schema: &Value, root: &Value) -> Value {
    if let Some(reference) = schema["$ref"].as_str() {
        let target = root.pointer(reference.trim_start_matches('#')).expect("a definition");
        return sample(target, root);
    }
    for list in ["anyOf", "oneOf", "allOf"] {
        if let Some(first) = schema[list].as_array().and_then(|it| it.first()) {
            return sample(first, root);
        }
    }
    if let Some(values) = schema["enum"].as_array() {
        return values[0].clone();
    }
    if !schema["const"].is_null() {
        return schema["const"].clone();
    }
    let kind = match &schema["type"] {
        // A number is always one of them.
        Value::Array(_) => "number",
        kind => kind.as_str().unwrap_or_default(),
    };
    match kind {
        "boolean" => json!(true),
        "integer" => json!(schema["minimum"].as_i64().unwrap_or(0).max(2)),
        "number" => json!(50),
        "array" => json!([sample(&schema["items"], root)]),
        "object" => json!({}),
        _ if schema["pattern"].is_string() => json!("30s"),
        _ => json!("text"),
    }
}

/// Options that are checked beyond their type.
fn special(component: &str, option: &str) -> Option<Value> {
    Some(match (component, option) {
        ("budget", _) if option.starts_with("tokens") => json!("1M"),
        ("budget", _) if option.starts_with("money") || option.starts_with("cost") => {
            json!("2.50 USD")
        }
        ("metrics", "listen") => json!("127.0.0.1:0"),
        _ => return None,
    })
}

#[test]
fn every_option_of_every_built_in_component_is_a_key() {
    let setup = Setup::new("config-options");
    let schema: Value = serde_json::from_str(&setup.printed(&["config", "schema"])).expect("JSON");
    let rules = schema.pointer("/definitions/Component/allOf").expect("rules");
    let rules = rules.as_array().expect("a list");
    let (mut text, mut count) = (String::new(), 0);
    for entry in &ALL {
        let rule = rules
            .iter()
            .find(|it| it.pointer("/if/properties/command/enum/0") == Some(&json!(entry.name)));
        let options = rule.and_then(|it| it.pointer("/then/properties/options/properties"));
        let empty = Map::new();
        let options = options.and_then(Value::as_object).unwrap_or(&empty);
        for argument in entry.command().get_arguments() {
            let Some(name) = argument.get_long() else { continue };
            let name = name.replace('-', "_");
            if ["help", "config"].contains(&name.as_str()) {
                continue;
            }
            let option = options.get(&name).unwrap_or_else(|| panic!("{}: {name}", entry.name));
            let value = special(entry.name, &name).unwrap_or_else(|| sample(option, &schema));
            // The option is one of the type, and has this name there.
            let members = Map::from_iter([(name.clone(), value.clone())]);
            let read = entry.read(&[], &members);
            assert!(read.is_ok(), "{} {name} = {value}: {:?}", entry.name, read.err());
            assert!(option["description"].is_string(), "{} {name}", entry.name);
            text += &format!(
                "[components.c{count}]\ncommand = \"builtin:{}\"\n[components.c{count}.options]\n{name} = {value}\n",
                entry.name
            );
            count += 1;
        }
    }
    assert!(count > 80, "{count}");
    let file = setup.write("all.toml", text);
    let printed = setup.printed(&["config", "check", file.to_str().expect("UTF-8")]);
    assert!(printed.contains(&format!("{count} components")), "{printed}");
}
