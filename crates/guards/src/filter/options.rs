//! The types of the options of `filter`. They are checked while they are read, so that an error names its line.

use std::borrow::Cow;
use std::str::FromStr;

use acp_wire::suggestion;
use clap::ValueEnum;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

use secrets::Secrets;

/// What happens to a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Action {
    Redact,
    Block,
    Off,
}

/// What happens to an action of the agent that contains a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum OnAction {
    Block,
    Warn,
}

/// What happens to the secrets of one detector.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Directions {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) toward_agent: Option<Action>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) toward_editor: Option<Action>,
}

/// The name of a built-in detector.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct DetectorName(pub(super) String);

impl JsonSchema for DetectorName {
    fn schema_name() -> Cow<'static, str> {
        "DetectorName".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let names = [Secrets::standard_names(), Secrets::context_names()].concat();
        json_schema!({ "type": "string", "enum": names })
    }
}

impl FromStr for DetectorName {
    type Err = String;

    fn from_str(name: &str) -> Result<DetectorName, String> {
        let mut known = Secrets::standard_names();
        known.extend(Secrets::context_names());
        if known.contains(&name) {
            return Ok(DetectorName(name.to_owned()));
        }
        let hint = match suggestion::closest(name, known.clone()) {
            Some(hint) => format!("did you mean `{hint}`?"),
            None => format!("the detectors are {}", known.join(", ")),
        };
        Err(format!("there is no detector `{name}`; {hint}"))
    }
}

impl TryFrom<String> for DetectorName {
    type Error = String;

    fn try_from(name: String) -> Result<DetectorName, String> {
        name.parse()
    }
}

/// A pattern of the user. In a file it is a table, or only the regular expression.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "PatternForm")]
pub(super) struct Pattern {
    pub(super) name: String,
    pub(super) regex: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max: Option<usize>,
    #[serde(flatten)]
    pub(super) directions: Directions,
}

impl JsonSchema for Pattern {
    fn schema_name() -> Cow<'static, str> {
        "Pattern".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        PatternForm::json_schema(generator)
    }
}

/// How a pattern is written.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected a regular expression, or a table with regex, name, max, toward_agent and toward_editor"
)]
enum PatternForm {
    Regex(String),
    Table(PatternTable),
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct PatternTable {
    name: Option<String>,
    regex: String,
    max: Option<usize>,
    toward_agent: Option<Action>,
    toward_editor: Option<Action>,
}

const DEFAULT_NAME: &str = "pattern";

impl TryFrom<PatternForm> for Pattern {
    type Error = String;

    fn try_from(form: PatternForm) -> Result<Pattern, String> {
        let table = match form {
            PatternForm::Regex(regex) => PatternTable {
                name: None,
                regex,
                max: None,
                toward_agent: None,
                toward_editor: None,
            },
            PatternForm::Table(table) => table,
        };
        let name = table.name.unwrap_or_else(|| DEFAULT_NAME.to_owned());
        let is_plain = |it: char| it.is_ascii_alphanumeric() || it == '-' || it == '_';
        if name.is_empty() || name.len() > 40 || !name.chars().all(is_plain) {
            return Err(format!(
                "the name `{name}` is not usable; use up to 40 letters, digits and hyphens"
            ));
        }
        // Tries it. The text of the error must not quote a value of the user.
        Secrets::builder()
            .pattern(&name, &table.regex, table.max)
            .map_err(|why| format!("the pattern `{name}` cannot be used: {}", one_line(&why)))?;
        let PatternTable { regex, max, toward_agent, toward_editor, .. } = table;
        let directions = Directions { toward_agent, toward_editor };
        Ok(Pattern { name, regex, max, directions })
    }
}

impl FromStr for Pattern {
    type Err = String;

    fn from_str(regex: &str) -> Result<Pattern, String> {
        PatternForm::Regex(regex.to_owned()).try_into()
    }
}

/// An error of the parser of regular expressions without its picture.
fn one_line(why: &str) -> String {
    match why.rsplit_once("error: ") {
        Some((_, reason)) => reason.trim().to_owned(),
        None => why.replace('\n', " "),
    }
}
