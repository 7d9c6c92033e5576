//! The options of the audit log.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The size at which a file is rotated, unless the options say otherwise.
const MAX_BYTES: u64 = 64 * 1024 * 1024;

/// The age at which a file is rotated.
const MAX_AGE: Duration = Duration::from_secs(24 * 3600);

/// The options of an audit log.
///
/// A component has one option `audit: Option<AuditOptions>`. On the command line it is `--audit FILE`, or
/// `--audit FILE,on_failure=warn,key_file=FILE`. In a configuration file it is `audit = "FILE"`, or a table with the
/// same members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditOptions {
    /// The file that records are appended to.
    pub file: PathBuf,
    /// What happens if a record cannot be written. `None`: deny, unless the component has another default.
    pub on_failure: Option<OnFailure>,
    /// A file with the key of the hashes. Without it, anybody who can write the log can compute them.
    pub key_file: Option<PathBuf>,
    /// A shell command that gets the head of the log on standard input, to keep it elsewhere.
    pub head_command: Option<String>,
    /// A file of this size is rotated.
    pub max_bytes: u64,
    /// A file of this age is rotated.
    pub max_age: Duration,
}

/// What happens if a record cannot be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnFailure {
    /// The action is denied: nothing happens that is not recorded.
    Deny,
    /// The action goes on, and a warning is printed.
    Warn,
}

impl AuditOptions {
    /// A log in this file, with the default options.
    pub fn new(file: impl Into<PathBuf>) -> AuditOptions {
        AuditOptions {
            file: file.into(),
            on_failure: None,
            key_file: None,
            head_command: None,
            max_bytes: MAX_BYTES,
            max_age: MAX_AGE,
        }
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        match name {
            "on_failure" => self.on_failure = Some(value.parse()?),
            "key_file" => self.key_file = Some(value.into()),
            "head_command" => self.head_command = Some(value.to_owned()),
            "max_bytes" => {
                let bytes = value.parse();
                self.max_bytes = bytes.map_err(|_| "max_bytes must be a number of bytes")?;
            }
            _ => return Err(unknown_option(name)),
        }
        Ok(())
    }

    /// Whether only the file is set.
    fn is_plain(&self) -> bool {
        *self == AuditOptions::new(self.file.clone())
    }
}

const OPTIONS: &str = "on_failure, key_file, head_command and max_bytes";

fn unknown_option(name: &str) -> String {
    format!("the audit log has no option '{name}'; its options are {OPTIONS}")
}

/// The text form: a file, then `,NAME=VALUE` for each option. A comma that no `NAME=` follows belongs to the value.
impl FromStr for AuditOptions {
    type Err = String;

    fn from_str(text: &str) -> Result<AuditOptions, String> {
        let mut parts: Vec<(Option<&str>, String)> = Vec::new();
        for part in text.split(',') {
            let is_name = |name: &str| {
                !name.is_empty() && name.bytes().all(|it| it.is_ascii_lowercase() || it == b'_')
            };
            match (part.split_once('='), parts.last_mut()) {
                (Some((name, value)), Some(_)) if is_name(name) => {
                    parts.push((Some(name), value.to_owned()));
                }
                (_, Some((_, value))) => *value += &format!(",{part}"),
                (_, None) => parts.push((None, part.to_owned())),
            }
        }
        let mut parts = parts.into_iter();
        let file = parts.next().map(|(_, file)| file).filter(|file| !file.is_empty());
        let mut options = AuditOptions::new(file.ok_or("the audit log needs the name of a file")?);
        for (name, value) in parts {
            options.set(name.unwrap_or_default(), &value)?;
        }
        Ok(options)
    }
}

impl FromStr for OnFailure {
    type Err = String;

    fn from_str(text: &str) -> Result<OnFailure, String> {
        match text {
            "deny" => Ok(OnFailure::Deny),
            "warn" => Ok(OnFailure::Warn),
            _ => Err(format!("on_failure is 'deny' or 'warn', not '{text}'")),
        }
    }
}

/// The table form.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Table {
    file: PathBuf,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    on_failure: Option<OnFailure>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key_file: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    head_command: Option<String>,
    #[serde(default = "default_max_bytes")]
    max_bytes: u64,
}

fn default_max_bytes() -> u64 {
    MAX_BYTES
}

impl Serialize for AuditOptions {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.is_plain() {
            return self.file.serialize(serializer);
        }
        let table = Table {
            file: self.file.clone(),
            on_failure: self.on_failure,
            key_file: self.key_file.clone(),
            head_command: self.head_command.clone(),
            max_bytes: self.max_bytes,
        };
        table.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for AuditOptions {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<AuditOptions, D::Error> {
        deserializer.deserialize_any(OptionsVisitor)
    }
}

struct OptionsVisitor;

impl<'de> Visitor<'de> for OptionsVisitor {
    type Value = AuditOptions;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a file name, or a table with file, {OPTIONS}")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<AuditOptions, E> {
        text.parse().map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<AuditOptions, A::Error> {
        let table = Table::deserialize(MapAccessDeserializer::new(map))?;
        Ok(AuditOptions {
            on_failure: table.on_failure,
            key_file: table.key_file,
            head_command: table.head_command,
            max_bytes: table.max_bytes,
            ..AuditOptions::new(table.file)
        })
    }
}

/// The name of a file, or a table.
impl JsonSchema for AuditOptions {
    fn schema_name() -> Cow<'static, str> {
        "AuditOptions".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let table = Table::json_schema(generator);
        json_schema!({ "anyOf": [{ "type": "string" }, table] })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{from_value, json, to_value};

    use super::*;

    #[test]
    fn the_text_form_and_the_table_form_are_equal() {
        let text: AuditOptions =
            "logs/a,b.jsonl,on_failure=warn,head_command=logger -t a,b,key_file=/k"
                .parse()
                .unwrap();
        let table = json!({
            "file": "logs/a,b.jsonl", "on_failure": "warn", "key_file": "/k",
            "head_command": "logger -t a,b",
        });
        assert_eq!(from_value::<AuditOptions>(table).unwrap(), text);
        assert_eq!(from_value::<AuditOptions>(to_value(&text).unwrap()).unwrap(), text);
        let plain: AuditOptions = from_value(json!("a.jsonl")).unwrap();
        assert_eq!(plain, AuditOptions::new("a.jsonl"));
        assert_eq!(to_value(&plain).unwrap(), "a.jsonl");
    }

    #[test]
    fn a_mistake_in_the_options_is_refused() {
        for (text, part) in [
            ("", "needs the name of a file"),
            ("a,on_fail=warn", "no option 'on_fail'"),
            ("a,on_failure=ignore", "'deny' or 'warn'"),
            ("a,max_bytes=many", "a number of bytes"),
        ] {
            let why = text.parse::<AuditOptions>().expect_err(text);
            assert!(why.contains(part), "{text}: {why}");
        }
        let why = from_value::<AuditOptions>(json!({ "file": "a", "max": 1 })).unwrap_err();
        assert!(why.to_string().contains("unknown field"), "{why}");
        let why = from_value::<AuditOptions>(json!(1)).unwrap_err();
        assert!(why.to_string().contains("a file name, or a table"), "{why}");
    }
}
