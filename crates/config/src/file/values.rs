//! The values that a file may have for its keys.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use acp_wire::dialect::Generation;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::source::Placed;

/// What to do if a component crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum OnCrash {
    /// Restart it. If it crashes too often, use the default for its role.
    #[serde(rename = "restart")]
    Restart,
    /// Restart it. If it crashes too often, continue without it.
    #[serde(rename = "restart,bypass")]
    RestartThenBypass,
    /// Restart it. If it crashes too often, end the chain.
    #[serde(rename = "restart,stop")]
    RestartThenStop,
    /// Continue without it.
    #[serde(rename = "bypass")]
    Bypass,
    /// End the chain.
    #[serde(rename = "stop")]
    Stop,
}

/// Which kinds of `session/update` a proxy receives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Updates {
    /// All.
    All,
    /// Those that the SDKs of its protocol generation can parse.
    Known,
}

/// How to offer MCP-over-ACP servers to an agent that does not support MCP over ACP.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum McpBridge {
    /// Declarations of servers are not changed.
    Off,
    /// The agent runs `conductor mcp PORT`.
    Stdio,
    /// The agent connects by streamable HTTP on loopback.
    Http,
    /// The transport that the agent declares.
    Auto,
}

/// A proxy protocol generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dialect(pub Generation);

impl<'de> Deserialize<'de> for Dialect {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Dialect, D::Error> {
        let name = String::deserialize(deserializer)?;
        let names = Generation::ALL.map(Generation::name).join(", ");
        let wrong = || D::Error::custom(format!("expected one of the dialects {names}"));
        Generation::from_name(&name).map(Dialect).ok_or_else(wrong)
    }
}

impl JsonSchema for Dialect {
    fn schema_name() -> Cow<'static, str> {
        "Dialect".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names = Generation::ALL.map(Generation::name);
        json_schema!({ "type": "string", "enum": names })
    }
}

/// One string, or a list of strings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OneOrMore(pub Vec<Placed<String>>);

impl<'de> Deserialize<'de> for OneOrMore {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<OneOrMore, D::Error> {
        enum Form {
            One(String),
            More(Vec<Placed<String>>),
        }
        struct Forms;
        impl<'de> Visitor<'de> for Forms {
            type Value = Form;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string or a list of strings")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Form, E> {
                Ok(Form::One(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Form, A::Error> {
                let mut texts = Vec::new();
                while let Some(text) = list.next_element()? {
                    texts.push(text);
                }
                Ok(Form::More(texts))
            }
        }
        impl<'de> Deserialize<'de> for Form {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Form, D::Error> {
                deserializer.deserialize_any(Forms)
            }
        }
        let Placed { value, place } = Placed::<Form>::deserialize(deserializer)?;
        Ok(OneOrMore(match value {
            Form::One(text) => vec![Placed::new(text, place)],
            Form::More(texts) => texts,
        }))
    }
}

impl JsonSchema for OneOrMore {
    fn schema_name() -> Cow<'static, str> {
        "OneOrMore".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "anyOf": [{ "type": "string" }, { "type": "array", "items": { "type": "string" } }]
        })
    }
}

/// A number of seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seconds(pub Duration);

/// A time limit, or `None` for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit(pub Option<Duration>);

/// A size in bytes, greater than 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub usize);

/// A maximum number of restarts within a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Restarts {
    /// The maximum number.
    pub max: u32,
    /// The period.
    pub within: Duration,
}

/// The delay before the first restart, and the longest delay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Delay {
    /// The delay before the first restart.
    pub first: Duration,
    /// The longest delay.
    pub longest: Duration,
}

fn seconds(number: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(number).ok()
}

/// A type that is written as a number or as a text.
trait NumberOrText: Sized {
    /// What the type expects, for errors.
    const EXPECTED: &'static str;

    fn from_number(_: f64) -> Option<Self> {
        None
    }

    fn from_text(_: &str) -> Option<Self> {
        None
    }
}

impl NumberOrText for Seconds {
    const EXPECTED: &'static str = "a number of seconds, such as 60 or 0.5";

    fn from_number(number: f64) -> Option<Seconds> {
        seconds(number).map(Seconds)
    }
}

impl NumberOrText for Limit {
    const EXPECTED: &'static str = "a number of seconds above 0, such as 60 or 0.5, or \"off\"";

    fn from_number(number: f64) -> Option<Limit> {
        seconds(number).filter(|it| !it.is_zero()).map(|limit| Limit(Some(limit)))
    }

    fn from_text(text: &str) -> Option<Limit> {
        (text == "off").then_some(Limit(None))
    }
}

impl NumberOrText for Size {
    const EXPECTED: &'static str = "a size, such as 1000000, \"64K\" or \"256M\"";

    fn from_number(number: f64) -> Option<Size> {
        let fits = number >= 1.0 && number.fract() == 0.0 && number < 9e15;
        fits.then_some(Size(number as usize))
    }

    fn from_text(text: &str) -> Option<Size> {
        let text = text.strip_suffix("iB").or_else(|| text.strip_suffix('B')).unwrap_or(text);
        let (digits, shift) = match text.char_indices().last()? {
            (at, 'k' | 'K') => (&text[..at], 10),
            (at, 'm' | 'M') => (&text[..at], 20),
            (at, 'g' | 'G') => (&text[..at], 30),
            _ => (text, 0),
        };
        let size = digits.parse::<usize>().ok()?.checked_mul(1 << shift)?;
        (size > 0).then_some(Size(size))
    }
}

impl NumberOrText for Restarts {
    const EXPECTED: &'static str = "\"COUNT/SECONDS\", such as \"5/60\"";

    fn from_text(text: &str) -> Option<Restarts> {
        let (max, within) = text.split_once('/')?;
        let within = within.strip_suffix('s').unwrap_or(within).parse().ok()?;
        Some(Restarts { max: max.parse().ok()?, within: seconds(within)? })
    }
}

impl NumberOrText for Delay {
    const EXPECTED: &'static str = "\"FIRST..LONGEST\" in seconds, such as \"0.1..10\"";

    fn from_text(text: &str) -> Option<Delay> {
        let (first, longest) = text.split_once("..")?;
        let (first, longest) = (seconds(first.parse().ok()?)?, seconds(longest.parse().ok()?)?);
        (first <= longest).then_some(Delay { first, longest })
    }
}

struct NumberOrTextVisitor<T>(std::marker::PhantomData<T>);

impl<T: NumberOrText> Visitor<'_> for NumberOrTextVisitor<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(T::EXPECTED)
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<T, E> {
        self.visit_f64(number as f64)
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<T, E> {
        T::from_number(number).ok_or_else(|| E::custom(format!("expected {}", T::EXPECTED)))
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        T::from_text(text).ok_or_else(|| E::custom(format!("expected {}", T::EXPECTED)))
    }
}

macro_rules! number_or_text {
    ($($name:ident $schema:tt;)*) => {$(
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<$name, D::Error> {
                deserializer.deserialize_any(NumberOrTextVisitor(std::marker::PhantomData))
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn inline_schema() -> bool {
                true
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )*};
}

number_or_text! {
    Seconds { "type": "number", "minimum": 0 };
    Limit { "anyOf": [{ "type": "number", "exclusiveMinimum": 0 }, { "const": "off" }] };
    Size { "anyOf": [
        { "type": "integer", "minimum": 1 },
        { "type": "string", "pattern": "^[0-9]+[kKmMgG]?(iB|B)?$" },
    ] };
    Restarts { "type": "string", "pattern": "^[0-9]+/[0-9.]+s?$" };
    Delay { "type": "string", "pattern": r"^[0-9.]+\.\.[0-9.]+$" };
}

/// Writes a value as in a file.
pub trait AsToml {
    /// The value as in a file.
    fn as_toml(&self) -> String;
}

impl AsToml for bool {
    fn as_toml(&self) -> String {
        self.to_string()
    }
}

impl AsToml for String {
    fn as_toml(&self) -> String {
        toml::Value::String(self.clone()).to_string()
    }
}

macro_rules! enum_as_toml {
    ($($name:ident),*) => {$(
        impl AsToml for $name {
            fn as_toml(&self) -> String {
                serde_json::to_string(self).unwrap_or_default()
            }
        }
    )*};
}
enum_as_toml!(OnCrash, Updates, McpBridge);

impl AsToml for Dialect {
    fn as_toml(&self) -> String {
        format!("\"{}\"", self.0.name())
    }
}

impl AsToml for Seconds {
    fn as_toml(&self) -> String {
        self.0.as_secs_f64().to_string()
    }
}

impl AsToml for Limit {
    fn as_toml(&self) -> String {
        self.0.map_or("\"off\"".to_owned(), |limit| limit.as_secs_f64().to_string())
    }
}

impl AsToml for Size {
    fn as_toml(&self) -> String {
        match [(30, 'G'), (20, 'M'), (10, 'K')]
            .iter()
            .find(|(it, _)| self.0.trailing_zeros() >= *it)
        {
            Some((shift, unit)) => format!("\"{}{unit}\"", self.0 >> shift),
            None => self.0.to_string(),
        }
    }
}

impl AsToml for Restarts {
    fn as_toml(&self) -> String {
        format!("\"{}/{}\"", self.max, self.within.as_secs_f64())
    }
}

impl AsToml for Delay {
    fn as_toml(&self) -> String {
        format!("\"{}..{}\"", self.first.as_secs_f64(), self.longest.as_secs_f64())
    }
}
