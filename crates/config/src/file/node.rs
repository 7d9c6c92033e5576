//! The options of a built-in component: any value of TOML, with its place.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use super::Named;
use crate::source::Placed;

/// Options by name.
pub type Options = Named<Placed<Node>>;

/// A value of TOML.
#[derive(Debug, Clone, PartialEq)]
pub enum Node {
    /// A string. A date is one, too.
    Text(String),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction.
    Number(f64),
    /// `true` or `false`.
    Truth(bool),
    /// A list.
    List(Vec<Placed<Node>>),
    /// A table.
    Table(Options),
}

impl Node {
    /// The value as JSON.
    pub fn to_json(&self) -> Value {
        match self {
            Node::Text(text) => Value::String(text.clone()),
            Node::Integer(number) => Value::from(*number),
            Node::Number(number) => Value::from(*number),
            Node::Truth(truth) => Value::Bool(*truth),
            Node::List(list) => list.iter().map(|node| node.to_json()).collect(),
            Node::Table(table) => Value::Object(to_json(table)),
        }
    }

    /// All strings in the value, with their places.
    pub fn texts(node: &Placed<Node>) -> Vec<Placed<&str>> {
        match &node.value {
            Node::Text(text) => vec![Placed::new(text, node.place.clone())],
            Node::List(list) => list.iter().flat_map(Node::texts).collect(),
            Node::Table(table) => table.values().flat_map(Node::texts).collect(),
            Node::Integer(_) | Node::Number(_) | Node::Truth(_) => Vec::new(),
        }
    }

    /// Changes all strings in a value.
    ///
    /// # Errors
    /// That of `change`.
    pub fn try_map<E>(
        node: &Placed<Node>,
        change: &mut impl FnMut(&Placed<&str>) -> Result<String, E>,
    ) -> Result<Placed<Node>, E> {
        let value = match &node.value {
            Node::Text(text) => Node::Text(change(&Placed::new(text, node.place.clone()))?),
            Node::List(list) => {
                let list = list.iter().map(|node| Node::try_map(node, change));
                Node::List(list.collect::<Result<_, E>>()?)
            }
            Node::Table(table) => {
                let one = |(name, node): (&Placed<String>, &Placed<Node>)| {
                    Ok((name.clone(), Node::try_map(node, change)?))
                };
                Node::Table(table.iter().map(one).collect::<Result<_, E>>()?)
            }
            other => other.clone(),
        };
        Ok(Placed::new(value, node.place.clone()))
    }
}

/// Options as a JSON object.
pub fn to_json(options: &Options) -> serde_json::Map<String, Value> {
    options.iter().map(|(name, node)| (name.value.clone(), node.to_json())).collect()
}

/// Adds the options of another layer, which win. Tables are merged, and lists and values are replaced.
pub(super) fn merge(options: &mut Options, over: Options) {
    for (name, new) in over {
        let old = options.remove(&name);
        let node = match (old, new) {
            (
                Some(Placed { value: Node::Table(mut old), .. }),
                Placed { value: Node::Table(new), place },
            ) => {
                merge(&mut old, new);
                Placed::new(Node::Table(old), place)
            }
            (_, new) => new,
        };
        options.insert(name, node);
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Node, D::Error> {
        deserializer.deserialize_any(AnyValue)
    }
}

struct AnyValue;

impl<'de> Visitor<'de> for AnyValue {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Node, E> {
        Ok(Node::Text(text.to_owned()))
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Node, E> {
        Ok(Node::Integer(number))
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<Node, E> {
        Err(E::custom("the number is too large"))
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<Node, E> {
        match number.is_finite() {
            true => Ok(Node::Number(number)),
            false => Err(E::custom("the number must be finite")),
        }
    }

    fn visit_bool<E: Error>(self, truth: bool) -> Result<Node, E> {
        Ok(Node::Truth(truth))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Node, A::Error> {
        let mut nodes = Vec::new();
        while let Some(node) = list.next_element()? {
            nodes.push(node);
        }
        Ok(Node::List(nodes))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut table = Options::new();
        loop {
            // A date is a map with one key of the parser, which has no place.
            let key = match map.next_key::<Key>()? {
                None => return Ok(Node::Table(table)),
                Some(Key::Date) => return Ok(Node::Text(map.next_value()?)),
                Some(Key::Name(name)) => name,
            };
            table.insert(key, map.next_value()?);
        }
    }
}

enum Key {
    Name(Placed<String>),
    Date,
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Key, D::Error> {
        let key = Placed::<String>::deserialize(deserializer)?;
        match key.starts_with("$__toml_private") {
            true => Ok(Key::Date),
            false => Ok(Key::Name(key)),
        }
    }
}

impl JsonSchema for Node {
    fn schema_name() -> Cow<'static, str> {
        "Option".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!(true)
    }
}
