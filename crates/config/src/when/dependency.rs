//! Packages with a range of versions, as conditions write them: `tokio >=1.30, <2`.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Serialize, Serializer};

use super::lock_files::{Found, Language, LockFile, Version};
use super::npm_range::NpmRange;
use super::{Surroundings, Verdict};

/// The longest package with its range, in bytes.
const MAX_LENGTH: usize = 1024;

/// How many versions of a package a reason lists.
const MAX_SHOWN: usize = 4;

/// A package, and the versions of it that fit. The type says in which lock files it is searched.
#[derive(Debug, Clone)]
pub(super) struct Dependency<L> {
    /// As it is written.
    text: String,
    name: String,
    range: Option<Range>,
    language: PhantomData<L>,
}

/// A Rust crate.
#[derive(Debug, Clone, Copy)]
pub(super) struct Crate;
/// A package of npm.
#[derive(Debug, Clone, Copy)]
pub(super) struct Npm;
/// A Python package.
#[derive(Debug, Clone, Copy)]
pub(super) struct Python;

/// Gives a type of dependencies its language.
pub(super) trait InLanguage {
    const LANGUAGE: Language;
}

impl InLanguage for Crate {
    const LANGUAGE: Language = Language::Rust;
}

impl InLanguage for Npm {
    const LANGUAGE: Language = Language::JavaScript;
}

impl InLanguage for Python {
    const LANGUAGE: Language = Language::Python;
}

/// A range of versions, with its text.
#[derive(Debug, Clone)]
struct Range {
    text: String,
    parsed: ParsedRange,
}

#[derive(Debug, Clone)]
enum ParsedRange {
    Crate(semver::VersionReq),
    Npm(NpmRange),
    Python(pep440_rs::VersionSpecifiers),
}

impl<L: InLanguage> FromStr for Dependency<L> {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let trimmed = text.trim();
        let example = L::LANGUAGE.example();
        if trimmed.is_empty() {
            return Err(format!(
                "the name of the package is empty: write a name such as \"{example}\""
            ));
        }
        if trimmed.len() > MAX_LENGTH {
            return Err(format!("the package with its range has more than {MAX_LENGTH} bytes"));
        }
        let begins_range = |it: char| it.is_whitespace() || "<>=~^!*".contains(it);
        let end = trimmed.find(begins_range).unwrap_or(trimmed.len());
        let (name, range) = trimmed.split_at(end);
        check_name(name, range.trim(), L::LANGUAGE)?;
        let range = match range.trim() {
            "" => None,
            range => {
                Some(Range { text: range.to_owned(), parsed: parse_range(range, L::LANGUAGE)? })
            }
        };
        let (text, name) = (text.to_owned(), name.to_owned());
        Ok(Dependency { text, name, range, language: PhantomData })
    }
}

fn check_name(name: &str, range: &str, language: Language) -> Result<(), String> {
    // npm's `react@18`, and Python's `django[argon2]`.
    let after_first = name.char_indices().find(|(at, it)| *at > 0 && *it == '@');
    if let Some((at, _)) = after_first.filter(|_| language == Language::JavaScript) {
        let (name, version) = (&name[..at], &name[at + 1..]);
        return Err(format!(
            "write a space between the package and its range: \"{name} {version}{range}\""
        ));
    }
    if let Some((name, _)) = name.split_once('[').filter(|_| language == Language::Python) {
        return Err(format!(
            "write the package without extras: \"{}\"",
            format!("{name} {range}").trim()
        ));
    }
    let fits = |it: char| it.is_ascii_alphanumeric() || "-_".contains(it);
    let valid = match language {
        Language::Rust => name.chars().all(fits),
        Language::Python => name.chars().all(|it| fits(it) || it == '.'),
        Language::JavaScript => {
            let (scope, name) = match name.strip_prefix('@').map(|it| it.split_once('/')) {
                Some(Some((scope, name))) => (Some(scope), name),
                Some(None) => (Some(""), name),
                None => (None, name),
            };
            let part = |it: &str| !it.is_empty() && it.chars().all(|it| fits(it) || it == '.');
            part(name) && scope.is_none_or(part)
        }
    };
    match valid && !name.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "'{name}' is not the name of {}: write a name, and a range if needed, such as \"{}\"",
            language.package(),
            language.example()
        )),
    }
}

fn parse_range(text: &str, language: Language) -> Result<ParsedRange, String> {
    let invalid = |why: String| {
        let remedy = match language {
            // The most frequent mistake: a version without an operator.
            Language::Python if text.starts_with(|it: char| it.is_ascii_digit()) => {
                format!(
                    "write =={text} for this version, or ~={text} for those that are compatible"
                )
            }
            _ => format!("write a range such as \"{}\"", language.example()),
        };
        format!("'{text}' is not a range of versions: {why}; {remedy}")
    };
    match language {
        Language::Rust => text.parse().map(ParsedRange::Crate).map_err(|error: semver::Error| {
            let hint = if text.contains(' ') && !text.contains(',') {
                " (a comma is missing)"
            } else {
                ""
            };
            invalid(format!("{error}{hint}"))
        }),
        Language::JavaScript => match NpmRange::parse(text) {
            Ok(range) => Ok(ParsedRange::Npm(range)),
            Err(error) => Err(invalid(error)),
        },
        Language::Python => match text.parse() {
            Ok(range) => Ok(ParsedRange::Python(range)),
            // The other lines repeat the text with the place.
            Err(error) => {
                Err(invalid(format!("{error}").lines().next().unwrap_or_default().to_owned()))
            }
        },
    }
}

impl<L: InLanguage> Dependency<L> {
    pub(super) fn evaluate(&self, surroundings: &Surroundings) -> Verdict {
        match &*surroundings.lock_files(L::LANGUAGE) {
            Found::Nothing(reason) => Verdict::new(false, reason),
            Found::Files(files) => super::any(files.iter().map(|file| self.evaluate_on(file))),
        }
    }

    fn evaluate_on(&self, file: &LockFile) -> Verdict {
        let (name, shown) = (&self.name, &file.shown);
        let packages = match &file.packages {
            Ok(packages) => packages,
            Err(why) => return Verdict::new(false, format!("{shown} {why}")),
        };
        let Some(versions) = packages.versions(name, L::LANGUAGE) else {
            return Verdict::new(false, format!("{shown} has no {name}"));
        };
        let Some(range) = &self.range else {
            let versions = listed(versions.iter());
            return Verdict::new(true, format!("{shown} has {name} {versions}").trim_end());
        };
        let fits = |it: &&Version| it.as_deref().is_some_and(|it| range.contains(it));
        if let Some(version) = versions.iter().find(fits) {
            let version = listed([version].into_iter());
            return Verdict::new(
                true,
                format!("{shown} has {name} {version}, which matches {range}"),
            );
        }
        let reason = match versions.iter().flatten().count() {
            0 => format!("{shown} has {name} without a version, so {range} cannot be checked"),
            1 => format!(
                "{shown} has {name} {}, which does not match {range}",
                listed(versions.iter())
            ),
            _ => format!(
                "{shown} has {name} {}, none of which matches {range}",
                listed(versions.iter())
            ),
        };
        Verdict::new(false, reason)
    }
}

/// The versions that are known, the first ones.
fn listed<'a>(versions: impl Iterator<Item = &'a Version>) -> String {
    let known: Vec<&str> = versions.flatten().map(String::as_str).collect();
    let more = known.len().saturating_sub(MAX_SHOWN);
    let text = known[..known.len() - more].join(", ");
    if more > 0 { format!("{text} and {more} more") } else { text }
}

impl Range {
    fn contains(&self, version: &str) -> bool {
        match &self.parsed {
            ParsedRange::Crate(range) => version.parse().is_ok_and(|it| range.matches(&it)),
            ParsedRange::Npm(range) => range.contains(version),
            ParsedRange::Python(range) => version.parse().is_ok_and(|it| range.contains(&it)),
        }
    }
}

impl fmt::Display for Range {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

impl<L> PartialEq for Dependency<L> {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl<L> Eq for Dependency<L> {}

impl<L> Serialize for Dependency<L> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<L: InLanguage> JsonSchema for Dependency<L> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        L::LANGUAGE.package().into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "minLength": 1, "examples": [L::LANGUAGE.example()] })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{read, try_read};
    use super::super::{Surroundings, tests::Folder};

    /// Whether a range holds for each version of a list.
    fn check(language: &str, range: &str, fits: &[&str], differs: &[&str]) {
        let (file, write): (_, fn(&str) -> String) = match language {
            "crate" => {
                ("Cargo.lock", |it| format!("[[package]]\nname = \"a\"\nversion = \"{it}\"\n"))
            }
            "python" => ("requirements.txt", |it| format!("a=={it}\n")),
            _ => ("yarn.lock", |it| format!("# yarn lockfile v1\n\na@x:\n  version \"{it}\"\n")),
        };
        let folder = Folder::new();
        let condition = read(&format!("{{ {language} = \"a {range}\" }}"));
        for (version, expected) in
            fits.iter().map(|it| (it, true)).chain(differs.iter().map(|it| (it, false)))
        {
            folder.write(file, write(version));
            let verdict =
                condition.evaluate(&Surroundings::new(folder.path(), [("", ""); 0], "linux"));
            assert_eq!(verdict.holds, expected, "{language} {range} {version}: {verdict:?}");
        }
    }

    #[test]
    fn ranges_of_crates_are_those_of_cargo() {
        check("crate", "1.30", &["1.30.0", "1.99.1"], &["1.29.9", "2.0.0", "1.31.0-rc.1"]);
        check("crate", ">=1.30, <2", &["1.30.0", "1.43.0+build"], &["2.0.0", "0.3.0"]);
        check("crate", "0.2", &["0.2.0", "0.2.9"], &["0.3.0", "0.1.9"]);
        check("crate", "=1.2.3", &["1.2.3"], &["1.2.4"]);
        check("crate", "~1.2", &["1.2.9"], &["1.3.0"]);
        check("crate", "1.*", &["1.0.0", "1.9.9"], &["2.0.0"]);
        check("crate", "*", &["0.1.0"], &["1.0.0-alpha"]);
        check("crate", ">=1.0.0-alpha", &["1.0.0-beta", "2.0.0"], &["2.0.0-beta", "1", "x"]);
    }

    #[test]
    fn ranges_of_npm_are_those_of_node_semver() {
        check("npm", "^18", &["18.0.0", "18.9.1"], &["19.0.0", "17.9.9", "18.1.0-rc.1"]);
        check("npm", "~18.2", &["18.2.9"], &["18.3.0"]);
        check("npm", ">=18 <20", &["18.0.0", "19.9.9"], &["20.0.0"]);
        check("npm", "^16 || ^18", &["16.1.0", "18.1.0"], &["17.0.0"]);
        check("npm", "1.2 - 2.3", &["1.2.0", "2.3.9"], &["2.4.0", "1.1.9"]);
        check("npm", "1.x", &["1.0.0", "1.9.9"], &["2.0.0"]);
        check("npm", "*", &["0.0.1", "9.0.0"], &[]);
        check("npm", "^0.2.3", &["0.2.3", "0.2.9"], &["0.3.0"]);
        check("npm", "^0.0.3", &["0.0.3"], &["0.0.4"]);
        check("npm", "18.2.0", &["18.2.0"], &["18.2.1"]);
        check(
            "npm",
            ">=1.0.0-alpha.2",
            &["1.0.0-alpha.10", "1.0.0"],
            &["1.0.0-alpha.1", "1.1.0-alpha.3"],
        );
    }

    #[test]
    fn ranges_of_python_are_those_of_pep_440() {
        check("python", ">=4.2, <6", &["4.2", "4.2.7", "5.9"], &["6.0", "4.1.9"]);
        check("python", "~=4.2", &["4.2", "4.9"], &["5.0"]);
        check("python", "==4.2.*", &["4.2.9"], &["4.3"]);
        check("python", "==1.0", &["1.0", "1.0.0", "1.0+cu118"], &["1.0.1"]);
        check("python", "!=1.5", &["1.4"], &["1.5"]);
        check("python", ">=1!2.0", &["1!2.1"], &["3.0"]);
        check("python", ">=2.0", &["2.0.post1", "3.0rc1"], &["2.0rc1", "2.0.dev1"]);
        check("python", "===2.0", &["2.0"], &["2.1"]);
    }

    #[test]
    fn names_have_their_usual_form() {
        let folder = Folder::new();
        folder.write("Cargo.lock", "[[package]]\nname = \"serde_json\"\nversion = \"1.0.0\"\n");
        folder.write("requirements.txt", "Ruamel.YAML__clib==0.2\n");
        folder
            .write("yarn.lock", "# yarn lockfile v1\n\n\"@Scope/Name@1\":\n  version \"1.0.0\"\n");
        for (condition, holds) in [
            (r#"{ crate = "serde-json" }"#, true),
            (r#"{ crate = "serde_json>=1" }"#, true),
            (r#"{ python = "ruamel-yaml.clib>=0.2" }"#, true),
            (r#"{ python = "ruamelyaml" }"#, false),
            (r#"{ npm = "@Scope/Name" }"#, true),
            (r#"{ npm = "@scope/name" }"#, false),
        ] {
            assert_eq!(folder.evaluate(condition).holds, holds, "{condition}");
        }
        let several =
            "[[package]]\nname='a'\nversion='1.0.0'\n[[package]]\nname='a'\nversion='2.0.0'\n";
        folder.write("Cargo.lock", several);
        assert_eq!(
            folder.line(r#"{ crate = "a ^2" }"#),
            "yes: Cargo.lock has a 2.0.0, which matches ^2"
        );
        assert_eq!(folder.line(r#"{ crate = "a" }"#), "yes: Cargo.lock has a 1.0.0, 2.0.0");
        assert_eq!(
            folder.line(r#"{ crate = "a ^3" }"#),
            "no: Cargo.lock has a 1.0.0, 2.0.0, none of which matches ^3"
        );
        folder.write("requirements.txt", "a>1\n");
        assert_eq!(folder.line(r#"{ python = "a" }"#), "yes: requirements.txt has a");
        assert_eq!(
            folder.line(r#"{ python = "a >1" }"#),
            "no: requirements.txt has a without a version, so >1 cannot be checked"
        );
    }

    #[test]
    fn a_wrong_package_or_range_is_an_error() {
        for (condition, expected) in [
            (
                r#"{ crate = "" }"#,
                "the name of the package is empty: write a name such as \"tokio >=1.30, <2\"",
            ),
            (r#"{ crate = ">=1" }"#, "'' is not the name of a crate"),
            (
                r#"{ crate = "a/b" }"#,
                "'a/b' is not the name of a crate: write a name, and a range if needed",
            ),
            (r#"{ crate = "tokio 1.x.y" }"#, "'1.x.y' is not a range of versions: "),
            (
                r#"{ crate = "tokio >=1 <2" }"#,
                "(a comma is missing); write a range such as \"tokio >=1.30, <2\"",
            ),
            (
                r#"{ npm = "react@18" }"#,
                "write a space between the package and its range: \"react 18\"",
            ),
            (r#"{ npm = "@types/node@^18 || 20" }"#, "\"@types/node ^18 || 20\""),
            (r#"{ npm = "@types" }"#, "'@types' is not the name of an npm package"),
            (r#"{ npm = "@a/b/c" }"#, "'@a/b/c' is not the name"),
            (r#"{ npm = "react latest" }"#, "'latest' is not a range of versions: "),
            (
                r#"{ python = "django 4.2" }"#,
                "write ==4.2 for this version, or ~=4.2 for those that are compatible",
            ),
            (
                r#"{ python = "django[argon2] >=4" }"#,
                "write the package without extras: \"django >=4\"",
            ),
            (r#"{ python = "django >=x" }"#, "'>=x' is not a range of versions: "),
            (r#"{ python = ["django", "flask ^3"] }"#, "'^3' is not a range of versions: "),
        ] {
            let error = try_read(condition).expect_err(condition);
            assert!(error.message().contains(expected), "{condition}: {}", error.message());
            assert!(error.span().is_some_and(|it| it.len() > 1), "{condition}");
        }
    }
}
