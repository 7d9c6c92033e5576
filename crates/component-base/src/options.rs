//! Options of the built-in components: from the command line, from a TOML file, and from a component written as JSON.
//!
//! The options of a component are one type. Its fields are the options on the command line (clap) and the members in
//! files (serde), under the same names.

use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use acp_wire::toml_nesting::{TOO_DEEP, TOO_DEEP_HELP, too_deep};
use acp_wire::{ErrorKind, suggestion};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::built_in::OptionError;

/// The maximum size of a file with options.
const MAX_FILE: u64 = 4 * 1024 * 1024;

/// A duration that is written with its unit: `500ms`, `30s`, `5m`, `2h`, `1d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Interval(pub Duration);

const UNITS: [(&str, u64); 5] =
    [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];

impl FromStr for Interval {
    type Err = String;

    fn from_str(text: &str) -> Result<Interval, String> {
        let digits = text.len() - text.trim_start_matches(|it: char| it.is_ascii_digit()).len();
        let (number, unit) = text.split_at(digits);
        let unit = UNITS.iter().find(|(name, _)| *name == unit.trim());
        let milliseconds =
            unit.and_then(|(_, factor)| number.parse::<u64>().ok()?.checked_mul(*factor));
        match milliseconds {
            Some(milliseconds) => Ok(Interval(Duration::from_millis(milliseconds))),
            None => Err(format!(
                "`{text}` is not a duration; write a number with a unit: 500ms, 30s, 5m, 2h or 1d"
            )),
        }
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let milliseconds = self.0.as_millis() as u64;
        let fits = |(_, factor): &&(&str, u64)| milliseconds.is_multiple_of(*factor);
        let (unit, factor) = match milliseconds {
            0 => ("s", 1),
            _ => *UNITS.iter().rev().find(fits).unwrap_or(&UNITS[0]),
        };
        write!(f, "{}{unit}", milliseconds / factor)
    }
}

impl Serialize for Interval {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Interval {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Interval, D::Error> {
        struct Text;
        impl serde::de::Visitor<'_> for Text {
            type Value = Interval;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text with a number and a unit, such as \"30s\"")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Interval, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Text)
    }
}

/// A TOML file of the user: options or rules. Its errors name the file and the line.
#[derive(Debug, Clone)]
pub struct TomlFile {
    path: PathBuf,
    text: String,
}

impl TomlFile {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, is too big, or is not text.
    pub fn read(path: &Path) -> Result<TomlFile, OptionError> {
        let fail = |why: String| OptionError {
            kind: ErrorKind::UnreadableFile,
            why: format!("cannot read {}: {why}", path.display()),
        };
        let metadata = std::fs::metadata(path).map_err(|error| fail(error.to_string()))?;
        if !metadata.is_file() {
            return Err(fail("it is not a regular file".to_owned()));
        }
        if metadata.len() > MAX_FILE {
            return Err(fail(format!("it has more than {} MiB", MAX_FILE / 1024 / 1024)));
        }
        let text = std::fs::read_to_string(path).map_err(|error| fail(error.to_string()))?;
        Ok(TomlFile::new(path, text))
    }

    /// A file with this text.
    pub fn new(path: &Path, text: impl Into<String>) -> TomlFile {
        TomlFile { path: path.to_owned(), text: text.into() }
    }

    /// The path as the user has written it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The text of the file.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Reads the file as a type.
    ///
    /// # Errors
    /// The file is not TOML, or does not fit the type. The error names the line and a hint.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, OptionError> {
        if let Some(at) = too_deep(&self.text) {
            return Err(self.error(self.line_at(at), format!("{TOO_DEEP}; {TOO_DEEP_HELP}")));
        }
        toml::from_str(&self.text).map_err(|error| {
            let line = error.span().map_or(1, |span| self.line_at(span.start));
            self.error(line, describe(error.message()))
        })
    }

    /// The line of the value at this path of keys. The elements of lists are numbered from 0. If there is no such
    /// value, it is the line of the innermost value that exists.
    pub fn line_of(&self, path: &[&str]) -> usize {
        if let Some(at) = too_deep(&self.text) {
            return self.line_at(at);
        }
        let Ok(table) = toml::de::DeTable::parse(&self.text) else { return 1 };
        let (mut table, mut list) = (Some(table.into_inner()), None::<toml::de::DeArray<'_>>);
        let mut start = 0;
        for key in path {
            let value = match (&mut table, &mut list) {
                (Some(table), _) => {
                    let found = table.iter().find(|(name, _)| name.get_ref() == key);
                    found.map(|(name, value)| (name.span().start, value.get_ref().clone()))
                }
                (None, Some(list)) => {
                    let found = key.parse::<usize>().ok().and_then(|index| list.get(index));
                    found.map(|value| (value.span().start, value.get_ref().clone()))
                }
                (None, None) => None,
            };
            let Some((at, value)) = value else { break };
            start = at;
            (table, list) = match value {
                toml::de::DeValue::Table(table) => (Some(table), None),
                toml::de::DeValue::Array(list) => (None, Some(list)),
                _ => (None, None),
            };
        }
        self.line_at(start)
    }

    /// An error about a line of the file.
    pub fn error(&self, line: usize, why: impl fmt::Display) -> OptionError {
        let why = format!("{}:{line}: {why}", self.path.display());
        OptionError { kind: ErrorKind::InvalidOptionsFile, why }
    }

    /// An error about a value of this file, with the line of the value. An error names the option or its value. It stays
    /// as it is if it names neither, or if it names a line already. Only options for which `is_set` holds count.
    pub fn with_line(&self, error: OptionError, is_set: impl Fn(&str) -> bool) -> OptionError {
        let options: toml::Table = self.parse().unwrap_or_default();
        let is_named = |(name, value): &(&String, &toml::Value)| {
            let option = format!("--{}", name.replace('_', "-"));
            let mut words = error.why.split(|it: char| !it.is_alphanumeric() && it != '-');
            is_set(name) && (words.any(|it| it == option) || names_value(&error.why, value))
        };
        match options.iter().find(is_named) {
            Some((name, _)) if error.kind != ErrorKind::InvalidOptionsFile => {
                let line = self.line_of(&[name]);
                OptionError {
                    why: format!("{}:{line}: {}", self.path.display(), error.why),
                    ..error
                }
            }
            _ => error,
        }
    }

    fn line_at(&self, offset: usize) -> usize {
        let before = self.text.get(..offset).unwrap_or(&self.text);
        before.matches('\n').count() + 1
    }
}

/// Whether an error names a file of this value. Short words could be a part of any error.
fn names_value(why: &str, value: &toml::Value) -> bool {
    match value {
        toml::Value::String(text) => text.contains(['/', '\\', '.']) && why.contains(text.as_str()),
        toml::Value::Array(values) => values.iter().any(|value| names_value(why, value)),
        toml::Value::Table(values) => values.values().any(|value| names_value(why, value)),
        _ => false,
    }
}

/// An error of serde, with a hint if it is about an unknown name, and with words for people.
pub fn describe(message: &str) -> String {
    let message = message.trim().replace('\n', "; ");
    let message = message.replace("a nonzero u32", "a whole number, at least 1");
    let hint = unknown_name(&message).and_then(|(name, known)| suggestion::closest(&name, known));
    match hint {
        Some(hint) => format!("{message}; did you mean `{hint}`?"),
        None => message,
    }
}

/// The unknown name in an error of serde, and the known names that it lists.
fn unknown_name(message: &str) -> Option<(String, Vec<&str>)> {
    let rest =
        message.strip_prefix("unknown field ").or(message.strip_prefix("unknown variant "))?;
    let mut quoted = rest.split('`').skip(1).step_by(2);
    let name = quoted.next()?.to_owned();
    Some((name, quoted.collect()))
}

impl JsonSchema for Interval {
    fn schema_name() -> Cow<'static, str> {
        "Interval".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^[0-9]+ *(ms|s|m|h|d)$" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_a_unit() {
        for (text, seconds) in
            [("500ms", 0.5), ("30s", 30.0), ("5m", 300.0), ("2h", 7200.0), ("1d", 86400.0)]
        {
            let interval: Interval = text.parse().expect(text);
            assert_eq!((interval.0.as_secs_f64(), interval.to_string().as_str()), (seconds, text));
        }
        for text in
            ["", "5", "m", "-1s", "1.5h", "5 x", "99999999999999999999s", "18446744073709551615d"]
        {
            assert!(text.parse::<Interval>().is_err(), "{text}");
        }
        assert_eq!("0ms".parse::<Interval>().expect("zero").to_string(), "0s");
    }

    #[derive(Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Example {
        #[allow(dead_code)] // only its type is tested
        wait: Interval,
        #[allow(dead_code)] // only its type is tested
        rule: Vec<std::collections::BTreeMap<String, toml::Value>>,
    }

    #[test]
    fn an_error_names_the_file_the_line_and_a_hint() {
        let why = |text: &str| {
            let file = TomlFile::new(Path::new("rules.toml"), text);
            file.parse::<Example>().expect_err(text).why
        };
        assert!(why("\nwait = \"soon\"").starts_with("rules.toml:2: `soon` is not a duration"));
        let unknown = why("wait = \"1s\"\n\nruel = 1");
        assert!(unknown.starts_with("rules.toml:3: unknown field `ruel`"), "{unknown}");
        assert!(unknown.ends_with("did you mean `rule`?"), "{unknown}");
        assert!(why("wait = ").starts_with("rules.toml:1: "), "{}", why("wait = "));
        let expected = "expected a text with a number and a unit, such as \"30s\"";
        assert!(why("wait = 10").ends_with(expected), "{}", why("wait = 10"));
        let zero = describe("invalid value: integer `0`, expected a nonzero u32");
        assert_eq!(zero, "invalid value: integer `0`, expected a whole number, at least 1");
    }

    #[test]
    fn the_line_of_a_value_is_found() {
        let text =
            "wait = \"1s\"\n[[rule]]\nname = \"a\"\n[[rule]]\n\nrun = [\n  \"x\",\n  \"y\",\n]\n";
        let file = TomlFile::new(Path::new("rules.toml"), text);
        assert_eq!(file.line_of(&["wait"]), 1);
        assert_eq!(file.line_of(&["rule", "0", "name"]), 3);
        assert_eq!(file.line_of(&["rule", "1", "run"]), 6);
        assert_eq!(file.line_of(&["rule", "1", "run", "1"]), 8);
        assert_eq!(file.line_of(&["rule", "1", "nothing"]), file.line_of(&["rule", "1"]));
        assert_eq!(file.line_of(&["rule", "1"]), 4);
    }
}
