//! Errors of the parser, in words that name the mistake and the remedy. They never repeat a value, which may be a secret.

use acp_wire::suggestion;

use super::{Diagnostic, Source};

/// Other names that people and programs use for keys.
const OTHER_NAMES: [(&str, &str); 24] = [
    ("cmd", "command"),
    ("program", "command"),
    ("path", "command"),
    ("exec", "command"),
    ("executable", "command"),
    ("arguments", "args"),
    ("argv", "args"),
    ("environment", "env"),
    ("variables", "env"),
    ("envfiles", "env-file"),
    ("dotenv", "env-file"),
    ("directory", "cwd"),
    ("workingdirectory", "cwd"),
    ("workdir", "cwd"),
    ("dir", "cwd"),
    ("generation", "dialect"),
    ("config", "options"),
    ("if", "when"),
    ("condition", "when"),
    ("proxy", "proxies"),
    ("component", "use"),
    ("name", "use"),
    ("include", "chain"),
    ("defaultchain", "default"),
];

/// The error for a place in the file.
pub(super) fn diagnostic(source: &Source, error: &toml::de::Error) -> Diagnostic {
    let span = error.span().unwrap_or(0..0);
    let place = source.place(span);
    let message = error.message().trim();
    if let Some((name, known)) = unknown_name(message) {
        return unknown(&place, message, &name, &known);
    }
    if let Some((found, expected)) = wrong_type(message) {
        let error = Diagnostic::at(&place, format!("expected {expected}, not {found}"));
        let is_simple = ["an integer", "a number", "a truth value"].contains(&found.as_str());
        return match expected.contains("string") && is_simple {
            true => error.help("write it in quotation marks"),
            false => error,
        };
    }
    if message.contains("recursion limit") {
        return Diagnostic::at(&place, "tables and lists are nested too deeply");
    }
    let is_escape = ["escaped value", "unicode value", "escape sequence"];
    if is_escape.iter().any(|it| message.contains(it)) {
        let error = Diagnostic::at(&place, message.replace('\n', "; "));
        return error.help(
            "in double quotation marks, write each backslash twice; in single quotation marks, it is itself: 'C:\\Users\\me'",
        );
    }
    match message.split_once("; did you mean ") {
        Some((message, meant)) => {
            Diagnostic::at(&place, message).help(format!("did you mean {meant}"))
        }
        None => Diagnostic::at(&place, message.replace('\n', "; ")),
    }
}

/// The known name that a wrong name probably means: another spelling, another word, or a misspelling.
pub fn meant<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    let plain = |name: &str| name.to_lowercase().replace(['_', '-'], "");
    let wrong = plain(name);
    let same = known.iter().copied().find(|it| plain(it) == wrong);
    let other = || {
        let (_, meant) = OTHER_NAMES.iter().find(|(other, _)| *other == wrong)?;
        known.iter().copied().find(|it| it == meant)
    };
    same.or_else(other).or_else(|| suggestion::closest(name, known.iter().copied()))
}

fn unknown(place: &super::Place, message: &str, name: &str, known: &[&str]) -> Diagnostic {
    let is_key = message.starts_with("unknown field");
    let what = if is_key { "key" } else { "value" };
    let shown: String = name.chars().take(60).collect();
    let error = Diagnostic::at(place, format!("unknown {what} `{shown}`"));
    match meant(name, known) {
        Some(meant) => error.help(format!("did you mean `{meant}`?")),
        None if known.is_empty() => error,
        None => error.help(format!("the {what}s here are {}", known.join(", "))),
    }
}

/// The unknown name in an error of serde, and the known names that it lists.
fn unknown_name(message: &str) -> Option<(String, Vec<&str>)> {
    let rest =
        message.strip_prefix("unknown field ").or(message.strip_prefix("unknown variant "))?;
    // The name may contain anything, and the list of the known names comes last.
    let (name, list) = rest.rsplit_once("`, expected ").unwrap_or((rest, ""));
    let name = name.trim_matches('`').trim_end_matches("`, there are no fields");
    Some((name.to_owned(), list.split('`').skip(1).step_by(2).collect()))
}

/// What serde has found, and what it has expected, without the value.
fn wrong_type(message: &str) -> Option<(String, &str)> {
    let rest = message.strip_prefix("invalid type: ").or(message.strip_prefix("invalid value: "))?;
    let (found, expected) = rest.rsplit_once(", expected ")?;
    let found = match found.split([' ', '`', '"']).next().unwrap_or_default() {
        "integer" => "an integer",
        "floating" => "a number",
        "boolean" => "a truth value",
        "string" => "a string",
        "sequence" => "a list",
        "map" => "a table",
        _ => "this",
    };
    let expected = match expected {
        "a map" => "a table",
        "a sequence" => "a list",
        "a boolean" => "true or false",
        it if it.starts_with("struct ") || it.starts_with("a map") => "a table",
        it => it,
    };
    Some((found.to_owned(), expected))
}
