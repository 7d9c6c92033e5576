//! The conditions on which a component is part of a chain.
//!
//! A [`Condition`] is what `when` of a configuration file says. [`Condition::evaluate`] decides whether it holds in the
//! [`Surroundings`] of a chain, and says why. It reads files and environment variables. It starts no process.
//!
//! # Layout
//!
//! - `read`: a condition from the text of a file
//! - `surroundings`: the folder, the environment and the operating system that conditions are about
//! - `pattern`: files, by name or glob
//! - `program`: commands on the PATH
//! - `dependency`: packages with a range of versions
//! - `npm_range`: ranges of versions as npm writes them
//! - `lock_files`: finds and reads lock files, with a module for each format
//! - `bounded_file`: reads a file of a project, whatever it is

mod bounded_file;
mod dependency;
mod lock_files;
mod npm_range;
mod pattern;
mod program;
mod read;
mod surroundings;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsStr;

use acp_wire::printable;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

pub use surroundings::Surroundings;

use dependency::{Crate, Dependency, Npm, Python};
use pattern::FilePattern;
use program::Program;

/// How deep conditions can be nested.
pub const MAX_DEPTH: usize = 16;

/// How many reasons a sentence lists.
const MAX_REASONS: usize = 5;

/// A condition: a table whose keys must all hold, or a list of conditions of which one must hold.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Condition(Form);

/// Whether a condition holds, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Whether the condition holds.
    pub holds: bool,
    /// Why: a sentence without a full stop, in one line that is safe to print.
    pub reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
enum Form {
    /// All keys must hold.
    Table(Box<Table>),
    /// One of the conditions must hold.
    List(Vec<Condition>),
}

/// The keys of a condition. All of them must hold.
// The comments are the descriptions in the JSON Schema.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase", deny_unknown_fields, default)]
#[schemars(rename = "ConditionTable", extend("minProperties" = 1))]
struct Table {
    /// A file or folder exists: its path in the folder in which the chain starts, or a glob such as `src/**/*.sql`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "OneOrMore<FilePattern>")]
    file: Option<OneOrMore<FilePattern>>,
    /// The lock file of the project has a Rust crate, such as `tokio` or `tokio >=1.30, <2`.
    #[serde(rename = "crate", skip_serializing_if = "Option::is_none")]
    #[schemars(with = "OneOrMore<Dependency<Crate>>")]
    krate: Option<OneOrMore<Dependency<Crate>>>,
    /// The lock file of the project has an npm package, such as `react` or `react >=18 <20`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "OneOrMore<Dependency<Npm>>")]
    npm: Option<OneOrMore<Dependency<Npm>>>,
    /// The lock file of the project has a Python package, such as `django` or `django >=4.2, <6`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "OneOrMore<Dependency<Python>>")]
    python: Option<OneOrMore<Dependency<Python>>>,
    /// An environment variable is set and not empty, or has a value: `"CI"`, or `{ CI = "true" }`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Environment")]
    env: Option<Environment>,
    /// A command is on the PATH.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "OneOrMore<Program>")]
    command: Option<OneOrMore<Program>>,
    /// The operating system.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "OneOrMore<System>")]
    os: Option<OneOrMore<System>>,
    /// All of these conditions hold.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1))]
    all: Vec<Condition>,
    /// At least one of these conditions holds.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1))]
    any: Vec<Condition>,
    /// This condition does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Condition")]
    not: Option<Condition>,
}

/// A value, or a list of values of which one must fit.
#[derive(Debug, Clone, PartialEq, Eq, JsonSchema)]
#[schemars(untagged)]
enum OneOrMore<T> {
    One(T),
    More(#[schemars(length(min = 1))] Vec<T>),
}

/// Environment variables.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
enum Environment {
    /// One of these is set, and not empty.
    Names(OneOrMore<VariableName>),
    /// All of these have the value, or one of the values.
    Values(#[schemars(extend("minProperties" = 1))] BTreeMap<VariableName, OneOrMore<String>>),
}

/// The name of an environment variable.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
struct VariableName(String);

/// An operating system, or a family of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum System {
    Linux,
    MacOs,
    Windows,
    /// Every system but Windows.
    Unix,
}

impl Condition {
    /// Whether the condition holds, and why.
    pub fn evaluate(&self, surroundings: &Surroundings) -> Verdict {
        match &self.0 {
            Form::Table(table) => all(table.verdicts(surroundings)),
            Form::List(list) => any(list.iter().map(|it| it.evaluate(surroundings))),
        }
    }

    /// How deep the conditions in it are nested. A table without `all`, `any` and `not` is 1 deep.
    fn depth(&self) -> usize {
        let deepest = |list: &[Condition]| list.iter().map(Condition::depth).max().unwrap_or(0);
        1 + match &self.0 {
            Form::List(list) => deepest(list),
            Form::Table(table) => {
                let not = table.not.as_ref().map_or(0, Condition::depth);
                deepest(&table.all).max(deepest(&table.any)).max(not)
            }
        }
    }
}

impl JsonSchema for Condition {
    fn schema_name() -> Cow<'static, str> {
        "Condition".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let table = generator.subschema_for::<Table>();
        let condition = generator.subschema_for::<Condition>();
        json_schema!({
            "description": "When the component is part of the chain: a table whose keys must all hold, or a list of \
                conditions of which one must hold.",
            "anyOf": [table, { "type": "array", "items": condition, "minItems": 1 }],
        })
    }
}

impl Verdict {
    fn new(holds: bool, reason: impl AsRef<str>) -> Self {
        Verdict { holds, reason: printable::one_line(reason.as_ref()) }
    }
}

impl Table {
    /// The verdicts of the keys. What reads many files is last.
    fn verdicts<'a>(
        &'a self,
        surroundings: &'a Surroundings,
    ) -> impl Iterator<Item = Verdict> + 'a {
        let evaluate = |it: &Condition| it.evaluate(surroundings);
        let os = self.os.iter().map(|it| one_of(it, |os| os.evaluate(surroundings)));
        let environment = self.env.iter().map(|it| it.evaluate(surroundings));
        let command = self.command.iter();
        let command = command.map(|it| one_of(it, |program| program.evaluate(surroundings)));
        let file = self.file.iter();
        let file = file.map(|it| one_of(it, |pattern| pattern.evaluate(surroundings)));
        let crates = self.krate.iter();
        let crates = crates.map(|it| one_of(it, |package| package.evaluate(surroundings)));
        let npm = self.npm.iter().map(|it| one_of(it, |package| package.evaluate(surroundings)));
        let python = self.python.iter();
        let python = python.map(|it| one_of(it, |package| package.evaluate(surroundings)));
        let packages = crates.chain(npm).chain(python);
        let not = self.not.iter().map(move |it| {
            let Verdict { holds, reason } = it.evaluate(surroundings);
            Verdict { holds: !holds, reason }
        });
        let any = (!self.any.is_empty()).then(move || any(self.any.iter().map(evaluate)));
        let nested = self.all.iter().map(evaluate).chain(any).chain(not);
        os.chain(environment).chain(command).chain(file).chain(packages).chain(nested)
    }
}

impl Environment {
    fn evaluate(&self, surroundings: &Surroundings) -> Verdict {
        match self {
            Environment::Names(names) => {
                one_of(names, |VariableName(name)| match surroundings.variable(name) {
                    None => Verdict::new(false, format!("{name} is not set")),
                    Some(value) if value.is_empty() => {
                        Verdict::new(false, format!("{name} is empty"))
                    }
                    Some(_) => Verdict::new(true, format!("{name} is set")),
                })
            }
            Environment::Values(values) => {
                all(values.iter().map(|(VariableName(name), values)| {
                    let actual = surroundings.variable(name);
                    // The value of the variable can be a secret. The value in the file is not: it is written there.
                    one_of(values, |value| match actual {
                        None => Verdict::new(false, format!("{name} is not set")),
                        Some(actual) if actual == OsStr::new(value) => {
                            Verdict::new(true, format!("{name} is '{value}'"))
                        }
                        Some(_) => Verdict::new(false, format!("{name} is not '{value}'")),
                    })
                }))
            }
        }
    }
}

impl System {
    const ALL: [(&str, System); 4] = [
        ("linux", System::Linux),
        ("macos", System::MacOs),
        ("windows", System::Windows),
        ("unix", System::Unix),
    ];

    fn evaluate(self, surroundings: &Surroundings) -> Verdict {
        let os = surroundings.os.as_str();
        let holds = match self {
            System::Linux => os == "linux",
            System::MacOs => os == "macos",
            System::Windows => os == "windows",
            System::Unix => os != "windows",
        };
        Verdict::new(holds, format!("the operating system is {os}"))
    }
}

impl<T> OneOrMore<T> {
    fn values(&self) -> &[T] {
        match self {
            OneOrMore::One(value) => std::slice::from_ref(value),
            OneOrMore::More(values) => values,
        }
    }
}

impl<T: Serialize> Serialize for OneOrMore<T> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            OneOrMore::One(value) => value.serialize(serializer),
            OneOrMore::More(values) => values.serialize(serializer),
        }
    }
}

fn one_of<T>(values: &OneOrMore<T>, evaluate: impl Fn(&T) -> Verdict) -> Verdict {
    any(values.values().iter().map(evaluate))
}

/// Holds if all verdicts hold. Stops at the first one that does not.
fn all(verdicts: impl Iterator<Item = Verdict>) -> Verdict {
    let mut reasons = Vec::new();
    for verdict in verdicts {
        if !verdict.holds {
            return verdict;
        }
        reasons.push(verdict.reason);
    }
    Verdict { holds: true, reason: joined(reasons) }
}

/// Holds if one of the verdicts holds. Stops at the first one that does.
fn any(verdicts: impl Iterator<Item = Verdict>) -> Verdict {
    let mut reasons = Vec::new();
    for verdict in verdicts {
        if verdict.holds {
            return verdict;
        }
        reasons.push(verdict.reason);
    }
    Verdict { holds: false, reason: joined(reasons) }
}

/// The different reasons in one sentence.
fn joined(reasons: Vec<String>) -> String {
    let mut different: Vec<String> = Vec::new();
    for reason in reasons {
        if !different.contains(&reason) {
            different.push(reason);
        }
    }
    let more = different.len().saturating_sub(MAX_REASONS);
    different.truncate(MAX_REASONS);
    let text = different.join("; ");
    if more > 0 { format!("{text}; and {more} more") } else { text }
}
