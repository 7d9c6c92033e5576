//! The JSON Schema of a configuration file, for editors.

use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::file::File;

/// The JSON Schema of a file. `options` are the names of the built-in components, and what makes the schemas of their options.
///
/// The schema is of draft 7, which all editors know.
pub fn of_file(
    options: impl IntoIterator<Item = (&'static str, impl Fn(&mut SchemaGenerator) -> Schema)>,
) -> Value {
    let mut generator = SchemaSettings::draft07().into_generator();
    let conditions: Vec<Value> = options
        .into_iter()
        .map(|(name, schema)| {
            let mut schema = schema(&mut generator).to_value();
            // The title is the name of a type, and the description is that of the component.
            schema.as_object_mut().and_then(|it| it.remove("title"));
            json!({
                "if": {
                    "properties": { "command": { "enum": [name, format!("builtin:{name}")] } },
                    "required": ["command"]
                },
                "then": { "properties": { "options": schema } }
            })
        })
        .collect();
    let mut schema = generator.into_root_schema_for::<File>().to_value();
    if let Some(component) =
        schema.pointer_mut("/definitions/Component").and_then(Value::as_object_mut)
    {
        component.insert("allOf".to_owned(), Value::Array(conditions));
    }
    tidy(&mut schema);
    schema
}

/// Removes what only Rust needs: `null`, which TOML does not have, defaults that mean nothing, and the formats of numbers.
fn tidy(value: &mut Value) {
    match value {
        Value::Object(members) => {
            let is_empty = |it: &Value| {
                it.is_null()
                    || it.as_array().is_some_and(Vec::is_empty)
                    || it.as_object().is_some_and(Map::is_empty)
            };
            if members.get("default").is_some_and(is_empty) {
                members.remove("default");
            }
            if members.get("format").is_some_and(Value::is_string) {
                members.remove("format");
            }
            let is_null = |it: &Value| *it == json!("null") || *it == json!({ "type": "null" });
            for list in ["type", "anyOf", "enum"] {
                let Some(Value::Array(values)) = members.get_mut(list) else { continue };
                values.retain(|it| !is_null(it) && !it.is_null());
                if let ("type", [only]) = (list, values.as_slice()) {
                    let only = only.clone();
                    members.insert(list.to_owned(), only);
                }
            }
            members.values_mut().for_each(tidy);
        }
        Value::Array(list) => list.iter_mut().for_each(tidy),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_has_neither_null_nor_empty_defaults() {
        let mut schema = json!({
            "type": ["string", "null"],
            "default": null,
            "properties": { "a": { "anyOf": [{ "$ref": "#/definitions/A" }, { "type": "null" }] } },
            "enum": ["x", null]
        });
        tidy(&mut schema);
        let expected = json!({
            "type": "string",
            "properties": { "a": { "anyOf": [{ "$ref": "#/definitions/A" }] } },
            "enum": ["x"]
        });
        assert_eq!(schema, expected);
    }
}
