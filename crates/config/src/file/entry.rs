//! An entry of `proxies`.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};

use crate::source::{Place, Placed};
use crate::when::Condition;

/// An entry of `proxies`: a component or another chain.
#[derive(Debug, Clone)]
pub struct Entry {
    /// What the name is.
    pub kind: EntryKind,
    /// The name of the component or chain.
    pub name: Placed<String>,
    /// The entry counts only if this holds.
    pub when: Option<Placed<Condition>>,
    /// Where the entry is written.
    pub place: Place,
}

/// What an entry names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A component.
    Component,
    /// A chain, whose proxies are used here.
    Chain,
}

/// The forms in which an entry is written.
#[derive(JsonSchema)]
#[schemars(untagged)]
#[allow(dead_code)] // for the schema
enum Forms {
    /// The name of a component or of a built-in component.
    Name(String),
    /// A component, with a condition.
    Component(UseForm),
    /// The proxies of another chain.
    Chain(ChainForm),
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)] // for the schema
struct UseForm {
    /// The name of a component or of a built-in component.
    r#use: String,
    /// The component is part of this chain only if this holds, and its own `when` as well.
    when: Option<Condition>,
}

#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
#[allow(dead_code)] // for the schema
struct ChainForm {
    /// The name of a chain. Its proxies are used here.
    chain: String,
    /// The chain is used only if this holds.
    when: Option<Condition>,
}

impl JsonSchema for Entry {
    fn schema_name() -> Cow<'static, str> {
        "Entry".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Forms::json_schema(generator)
    }
}

/// The table form. One of `use` and `chain` is given.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    r#use: Option<Placed<String>>,
    chain: Option<Placed<String>>,
    when: Option<Placed<Condition>>,
}

enum Form {
    Name(String),
    Table(EntryKind, Placed<String>, Option<Placed<Condition>>),
}

impl<'de> Deserialize<'de> for Form {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Form, D::Error> {
        struct Forms;
        impl<'de> Visitor<'de> for Forms {
            type Value = Form;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the name of a component, or a table with `use` or `chain`")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Form, E> {
                Ok(Form::Name(text.to_owned()))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Form, A::Error> {
                let table = Table::deserialize(MapAccessDeserializer::new(map))?;
                let (kind, name) = match (table.r#use, table.chain) {
                    (Some(name), None) => (EntryKind::Component, name),
                    (None, Some(name)) => (EntryKind::Chain, name),
                    (None, None) => {
                        return Err(Error::custom("the entry needs `use` or `chain`"));
                    }
                    (Some(_), Some(_)) => {
                        return Err(Error::custom("the entry has both `use` and `chain`"));
                    }
                };
                Ok(Form::Table(kind, name, table.when))
            }
        }
        deserializer.deserialize_any(Forms)
    }
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Entry, D::Error> {
        let Placed { value, place } = Placed::<Form>::deserialize(deserializer)?;
        Ok(match value {
            Form::Table(kind, name, when) => Entry { kind, name, when, place },
            Form::Name(name) => {
                let name = Placed::new(name, place.clone());
                Entry { kind: EntryKind::Component, name, when: None, place }
            }
        })
    }
}
