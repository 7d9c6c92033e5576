//! Checks a value against a JSON Schema. It knows the keywords that the schema of configuration files has, and fails on others.

use serde_json::Value;

/// What says nothing about a value, and what only an editor uses.
const REMARKS: [&str; 8] =
    ["$schema", "title", "description", "default", "definitions", "examples", "format", "pattern"];

pub struct Validator<'a> {
    pub root: &'a Value,
}

impl Validator<'_> {
    /// The first thing that does not fit.
    pub fn check(&self, value: &Value, schema: &Value) -> Result<(), String> {
        let Value::Object(keywords) = schema else {
            return fits(schema != &Value::Bool(false), "nothing is allowed here", value);
        };
        for (keyword, expected) in keywords {
            self.keyword(value, schema, keyword, expected)?;
        }
        Ok(())
    }

    fn keyword(
        &self,
        value: &Value,
        schema: &Value,
        keyword: &str,
        expected: &Value,
    ) -> Result<(), String> {
        let list = || expected.as_array().into_iter().flatten();
        let fitting = || list().filter(|it| self.check(value, it).is_ok()).count();
        let number = expected.as_f64().unwrap_or_default();
        match keyword {
            "$ref" => {
                let path = expected.as_str().expect("a reference").trim_start_matches('#');
                self.check(value, self.root.pointer(path).expect(path))
            }
            "type" => {
                let is = |kind: &Value| is_of_type(value, kind.as_str().expect("a type"));
                fits(list().any(is) || expected.is_string() && is(expected), keyword, value)
            }
            "enum" => fits(list().any(|it| it == value), keyword, value),
            "const" => fits(expected == value, keyword, value),
            "anyOf" => fits(fitting() > 0, keyword, value),
            "oneOf" => fits(fitting() == 1, keyword, value),
            "allOf" => list().try_for_each(|it| self.check(value, it)),
            "not" => fits(self.check(value, expected).is_err(), keyword, value),
            "if" => match self.check(value, expected) {
                Ok(()) => self.check(value, &schema["then"]),
                Err(_) => Ok(()),
            },
            "then" => Ok(()),
            "exclusiveMinimum" => fits(value.as_f64().is_none_or(|it| it > number), keyword, value),
            "minimum" => fits(value.as_f64().is_none_or(|it| it >= number), keyword, value),
            "maximum" => fits(value.as_f64().is_none_or(|it| it <= number), keyword, value),
            "minLength" => {
                fits(value.as_str().is_none_or(|it| it.len() as f64 >= number), keyword, value)
            }
            "minItems" | "minProperties" => {
                let count = value.as_array().map(Vec::len).or(value.as_object().map(|it| it.len()));
                fits(count.is_none_or(|it| it as f64 >= number), keyword, value)
            }
            "items" => {
                let items = value.as_array().into_iter().flatten();
                items.into_iter().try_for_each(|it| self.check(it, expected))
            }
            "required" => {
                let has = |name: &Value| value.get(name.as_str().expect("a name")).is_some();
                fits(!value.is_object() || list().all(has), keyword, value)
            }
            "properties" => {
                let known = expected.as_object().into_iter().flatten();
                let mut given = known.filter_map(|(name, it)| Some((value.get(name)?, it)));
                given.try_for_each(|(value, schema)| self.check(value, schema))
            }
            "propertyNames" => {
                let mut names = value.as_object().into_iter().flatten().map(|(name, _)| name);
                names.try_for_each(|name| self.check(&Value::from(name.as_str()), expected))
            }
            "additionalProperties" => {
                let members = value.as_object().into_iter().flatten();
                let mut others =
                    members.filter(|(name, _)| schema["properties"].get(name).is_none());
                others.try_for_each(|(_, value)| self.check(value, expected))
            }
            other => {
                assert!(REMARKS.contains(&other), "the keyword {other} is not known");
                Ok(())
            }
        }
    }
}

fn is_of_type(value: &Value, kind: &str) -> bool {
    match kind {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        kind => panic!("the type {kind} is not known"),
    }
}

fn fits(fits: bool, keyword: &str, value: &Value) -> Result<(), String> {
    if fits { Ok(()) } else { Err(format!("{keyword}: {value}")) }
}
