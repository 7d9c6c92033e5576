//! Reads a condition. Errors are raised at the key or value that is wrong, so that they get its place.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use acp_wire::suggestion;
use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::{Condition, Environment, Form, MAX_DEPTH, OneOrMore, System, Table, VariableName};

/// The keys of a condition.
pub(super) const KEYS: [&str; 10] =
    ["file", "crate", "npm", "python", "env", "command", "os", "all", "any", "not"];

const EXAMPLE: &str = "write a table such as { file = \"Cargo.toml\" }";

impl<'de> Deserialize<'de> for Condition {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ConditionVisitor)
    }
}

struct ConditionVisitor;

impl<'de> Visitor<'de> for ConditionVisitor {
    type Value = Condition;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str("a condition, which is a table or a list of tables: ")?;
        formatter.write_str(EXAMPLE)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Condition, A::Error> {
        let mut table = Table::default();
        let mut count = 0;
        while let Some(Key(key)) = map.next_key()? {
            count += 1;
            match key {
                "file" => table.file = Some(map.next_value()?),
                "crate" => table.krate = Some(map.next_value()?),
                "npm" => table.npm = Some(map.next_value()?),
                "python" => table.python = Some(map.next_value()?),
                "env" => table.env = Some(map.next_value()?),
                "command" => table.command = Some(map.next_value()?),
                "os" => table.os = Some(map.next_value()?),
                "all" => table.all = map.next_value::<Conditions>()?.0,
                "any" => table.any = map.next_value::<Conditions>()?.0,
                _ => table.not = Some(map.next_value()?),
            }
        }
        if count == 0 {
            return Err(de::Error::custom(format!("this condition is empty: {EXAMPLE}")));
        }
        within_limit(Condition(Form::Table(Box::new(table))))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Condition, A::Error> {
        within_limit(Condition(Form::List(values(list)?)))
    }
}

fn within_limit<E: de::Error>(condition: Condition) -> Result<Condition, E> {
    match condition.depth() > MAX_DEPTH {
        true => Err(E::custom(format!("conditions are nested more than {MAX_DEPTH} levels deep"))),
        false => Ok(condition),
    }
}

/// A known key of a condition.
struct Key(&'static str);

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        if let Some(known) = KEYS.into_iter().find(|it| *it == name) {
            return Ok(Key(known));
        }
        Err(de::Error::custom(format!(
            "unknown key '{name}' in a condition; {}",
            known(&name, &KEYS)
        )))
    }
}

/// The remedy for an unknown word.
fn known(name: &str, known: &[&str]) -> String {
    match suggestion::closest(name, known.iter().copied()) {
        Some(known) => format!("did you mean '{known}'?"),
        None => format!("known: {}", known.join(", ")),
    }
}

/// A list of conditions.
struct Conditions(Vec<Condition>);

impl<'de> Deserialize<'de> for Conditions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ListVisitor;
        impl<'de> Visitor<'de> for ListVisitor {
            type Value = Conditions;

            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter.write_str(
                    "a list of conditions, such as [{ file = \"Cargo.toml\" }, { os = \"linux\" }]",
                )
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Conditions, A::Error> {
                values(list).map(Conditions)
            }
        }
        deserializer.deserialize_any(ListVisitor)
    }
}

/// The values of a list that must not be empty.
fn values<'de, T: Deserialize<'de>, A: SeqAccess<'de>>(mut list: A) -> Result<Vec<T>, A::Error> {
    let mut values = Vec::new();
    while let Some(value) = list.next_element()? {
        values.push(value);
    }
    match values.is_empty() {
        true => {
            Err(de::Error::custom("this list is empty, so the condition can never hold: remove it"))
        }
        false => Ok(values),
    }
}

/// A string that is parsed.
struct Parsed<T>(T);

impl<'de, T: FromStr<Err = String>> Deserialize<'de> for Parsed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextVisitor<T>(PhantomData<T>);
        impl<T: FromStr<Err = String>> Visitor<'_> for TextVisitor<T> {
            type Value = Parsed<T>;

            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter.write_str("a string")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Parsed<T>, E> {
                text.parse().map(Parsed).map_err(E::custom)
            }
        }
        deserializer.deserialize_any(TextVisitor(PhantomData))
    }
}

impl<'de, T: FromStr<Err = String>> Deserialize<'de> for OneOrMore<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneOrMoreVisitor<T>(PhantomData<T>);
        impl<'de, T: FromStr<Err = String>> Visitor<'de> for OneOrMoreVisitor<T> {
            type Value = OneOrMore<T>;

            fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
                formatter.write_str("a string or a list of strings")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Self::Value, E> {
                text.parse().map(OneOrMore::One).map_err(E::custom)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
                let values = values::<Parsed<T>, A>(list)?;
                Ok(OneOrMore::More(values.into_iter().map(|Parsed(it)| it).collect()))
            }
        }
        deserializer.deserialize_any(OneOrMoreVisitor(PhantomData))
    }
}

impl<'de> Deserialize<'de> for Environment {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(EnvironmentVisitor)
    }
}

struct EnvironmentVisitor;

impl<'de> Visitor<'de> for EnvironmentVisitor {
    type Value = Environment;

    fn expecting(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.write_str(
            "the name of a variable, a list of names, or a table such as { CI = \"true\" }",
        )
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Environment, E> {
        let name = text.parse().map_err(E::custom)?;
        Ok(Environment::Names(OneOrMore::One(name)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Environment, A::Error> {
        let names = values::<Parsed<VariableName>, A>(list)?;
        let names = names.into_iter().map(|Parsed(it)| it).collect();
        Ok(Environment::Names(OneOrMore::More(names)))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Environment, A::Error> {
        let mut values = BTreeMap::new();
        while let Some(Parsed(name)) = map.next_key::<Parsed<VariableName>>()? {
            values.insert(name, map.next_value::<OneOrMore<Value>>()?.map(|Value(it)| it));
        }
        match values.is_empty() {
            true => Err(de::Error::custom(
                "this table is empty: write a variable, such as { CI = \"true\" }",
            )),
            false => Ok(Environment::Values(values)),
        }
    }
}

/// The value of a variable: any text.
struct Value(String);

impl FromStr for Value {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Ok(Value(text.to_owned()))
    }
}

impl<T> OneOrMore<T> {
    fn map<U>(self, convert: impl Fn(T) -> U) -> OneOrMore<U> {
        match self {
            OneOrMore::One(value) => OneOrMore::One(convert(value)),
            OneOrMore::More(values) => OneOrMore::More(values.into_iter().map(convert).collect()),
        }
    }
}

impl FromStr for VariableName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.is_empty() || text.contains(['=', '\0', '$', ' ']) {
            return Err(format!(
                "'{text}' is not the name of an environment variable: write a name such as \"CI\", or a table such as \
                 {{ CI = \"true\" }}"
            ));
        }
        Ok(VariableName(text.to_owned()))
    }
}

impl FromStr for System {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((_, os)) = System::ALL.into_iter().find(|(name, _)| *name == text) {
            return Ok(os);
        }
        let lower = text.to_lowercase();
        let meant = match lower.as_str() {
            "darwin" | "mac" | "osx" | "apple" => "macos",
            "win" | "win32" | "win64" => "windows",
            "posix" => "unix",
            other => other,
        };
        let names = System::ALL.map(|(name, _)| name);
        let remedy = match names.contains(&meant) {
            true => format!("write '{meant}'"),
            false => known(meant, &names),
        };
        Err(format!("unknown operating system '{text}'; {remedy}"))
    }
}
