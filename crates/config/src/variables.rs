//! `${NAME}` in the texts of a file, and files with environment variables.

use std::ffi::OsString;

use crate::source::{Diagnostic, Placed, Source};

/// Looks up an environment variable.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// The variable whose value is the folder of the file: for a file of a project, the project. It exists in files only.
pub const FOLDER: &str = "CONDUCTOR_FOLDER";

/// Replaces `${NAME}` with the value of the variable, `${NAME:-text}` with `text` if the variable is not set or empty, and
/// `$$` with `$`. Everything else stays.
///
/// # Errors
/// A variable without a default is not set, or a reference is wrong. The error does not show the text.
pub fn expand(text: &Placed<&str>, variables: Lookup<'_>) -> Result<String, Diagnostic> {
    let mut out = String::new();
    let mut rest = text.value;
    while let Some(at) = rest.find('$') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        match rest.chars().next() {
            Some('$') => {
                out.push('$');
                rest = &rest[1..];
            }
            Some('{') => {
                let Some(end) = rest.find('}') else {
                    let error = Diagnostic::at(&text.place.find("${"), "`${` has no `}`");
                    return Err(error.help("write `${NAME}`, or `$$` for a dollar sign"));
                };
                let (reference, after) = (&rest[1..end], &rest[end + 1..]);
                out.push_str(&value(text, reference, variables)?);
                rest = after;
            }
            Some(it) if it.is_ascii_alphabetic() || it == '_' => {
                let length = rest.find(|it: char| !is_part_of_name(it)).unwrap_or(rest.len());
                let name = &rest[..length];
                let place = text.place.find(&format!("${name}"));
                let error = Diagnostic::at(&place, "the name of a variable needs braces");
                let help = format!(
                    "write `${{{name}}}` for the variable, or `$${name}` for the text `${name}`"
                );
                return Err(error.help(help));
            }
            _ => out.push('$'),
        }
    }
    out.push_str(rest);
    Ok(out)
}

/// The value of `NAME` or `NAME:-default`.
fn value(
    text: &Placed<&str>,
    reference: &str,
    variables: Lookup<'_>,
) -> Result<String, Diagnostic> {
    let (name, default) = match reference.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (reference, None),
    };
    let place = || text.place.find(&format!("${{{name}"));
    if !is_name(name) {
        let error = Diagnostic::at(&text.place.find("${"), "this is not the name of a variable");
        return Err(error.help("write `${NAME}` or `${NAME:-default}`, or `$$` for a dollar sign"));
    }
    if name == FOLDER {
        let folder = text.place.source.folder().to_str();
        let error = || Diagnostic::at(&place(), "the folder of the file is not UTF-8");
        return folder.map(str::to_owned).ok_or_else(error);
    }
    let found = variables(name);
    match (found, default) {
        (Some(value), Some(default)) if value.is_empty() => Ok(default.to_owned()),
        (Some(value), _) => value.into_string().map_err(|_| {
            Diagnostic::at(&place(), format!("the environment variable {name} is not UTF-8"))
        }),
        (None, Some(default)) => Ok(default.to_owned()),
        (None, None) => {
            let error = format!("the environment variable {name} is not set");
            let help = format!("set it, or write a default: `${{{name}:-default}}`");
            Err(Diagnostic::at(&place(), error).help(help))
        }
    }
}

fn is_name(name: &str) -> bool {
    name.chars().all(is_part_of_name)
        && !name.starts_with(|it: char| it.is_ascii_digit())
        && !name.is_empty()
}

fn is_part_of_name(it: char) -> bool {
    it.is_ascii_alphanumeric() || it == '_'
}

/// A text with `…` in place of everything but the names of variables. For texts that are secret.
pub fn without_values(text: &str) -> String {
    let mut out = String::new();
    let mut at = 0;
    for range in crate::source::hidden_parts(text) {
        out.push_str(&text[at..range.start]);
        out.push('…');
        at = range.end;
    }
    out + &text[at..]
}

/// The variables of a file with lines `NAME=value`. A value may be in quotation marks, and a line may begin with `export`.
/// Empty lines and lines that begin with `#` do not count. Nothing in a value is replaced.
///
/// # Errors
/// A line has another form. The error shows no value.
pub fn parse_env_file(source: &Source) -> Result<Vec<(String, String)>, Diagnostic> {
    let mut variables = Vec::new();
    let mut start = 0;
    for line in source.text().split_inclusive('\n') {
        let place = source.place(start..start + line.trim_end().len());
        start += line.len();
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let wrong = |why: &str| {
            Diagnostic::at(&place, why).help("each line must be `NAME=value` or a comment with `#`")
        };
        let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
        let Some((name, value)) = line.split_once('=') else {
            return Err(wrong("the line has no `=`"));
        };
        let name = name.trim_end();
        if !is_name(name) {
            return Err(wrong("the line does not begin with the name of a variable"));
        }
        let value = unquoted(value.trim_start()).map_err(wrong)?;
        if value.contains('\0') {
            return Err(wrong("the value contains a NUL character"));
        }
        variables.push((name.to_owned(), value));
    }
    Ok(variables)
}

/// A value without its quotation marks, or up to a comment.
fn unquoted(value: &str) -> Result<String, &'static str> {
    let after = |rest: &str| match rest.trim_start() {
        "" => Ok(()),
        rest if rest.starts_with('#') => Ok(()),
        _ => Err("there is text after the closing quotation mark"),
    };
    const UNCLOSED: &str = "the quotation mark is not closed";
    if let Some(inner) = value.strip_prefix('\'') {
        let (inner, rest) = inner.split_once('\'').ok_or(UNCLOSED)?;
        return after(rest).map(|()| inner.to_owned());
    }
    let Some(inner) = value.strip_prefix('"') else {
        let comment = value.find(" #").or_else(|| value.find("\t#")).unwrap_or(value.len());
        return Ok(value[..comment].trim_end().to_owned());
    };
    let mut out = String::new();
    let mut characters = inner.chars();
    loop {
        match characters.next().ok_or(UNCLOSED)? {
            '"' => return after(characters.as_str()).map(|()| out),
            '\\' => match characters.next().ok_or(UNCLOSED)? {
                'n' => out.push('\n'),
                'r' => out.push('\r'),
                't' => out.push('\t'),
                it @ ('"' | '\\' | '$') => out.push(it),
                it => out.extend(['\\', it]),
            },
            it => out.push(it),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn expanded(text: &str) -> Result<String, Diagnostic> {
        let source = Source::from_bytes(Path::new("/home/me/c.toml"), text.into()).expect("text");
        let place = source.place(0..text.len());
        let lookup = |name: &str| match name {
            "HOME" => Some("/home/me".into()),
            "EMPTY" => Some("".into()),
            _ => None,
        };
        expand(&Placed::new(text, place), &lookup)
    }

    #[test]
    fn a_variable_is_replaced_and_everything_else_stays() {
        for (text, expected) in [
            ("", ""),
            ("${HOME}/x", "/home/me/x"),
            ("a${HOME}b${HOME}c", "a/home/mebc".replace("bc", "b/home/mec").as_str()),
            ("${NOTHING:-x y}", "x y"),
            ("${EMPTY:-x}${EMPTY}", "x"),
            ("${NOTHING:-}", ""),
            ("$$HOME $${HOME} ^a$ $1 $", "$HOME ${HOME} ^a$ $1 $"),
            ("${CONDUCTOR_FOLDER}/x", "/home/me/x"),
            ("größe ${HOME}", "größe /home/me"),
        ] {
            assert_eq!(expanded(text).expect(text), expected, "{text}");
        }
    }

    #[test]
    fn a_wrong_reference_is_an_error_at_its_place() {
        for (text, place, part) in [
            ("ab ${NOTHING}", "c.toml:1:4", "NOTHING is not set"),
            ("ab $HOME", "c.toml:1:4", "`${HOME}`"),
            ("ab ${HOME", "c.toml:1:4", "no `}`"),
            ("ab ${}", "c.toml:1:4", "not the name"),
            ("ab ${A B}", "c.toml:1:4", "not the name"),
            ("ab ${1}", "c.toml:1:4", "not the name"),
        ] {
            let error = expanded(text).expect_err(text).to_string();
            assert!(error.contains(place) && error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_file_with_variables_has_one_in_each_line() {
        let parse = |text: &str| {
            let source = Source::from_bytes(Path::new(".env"), text.into()).expect("text");
            parse_env_file(&source.with_only_secrets())
        };
        let text = "# c\n\nA=1\r\nexport B = two words # c\nC='a # $b'\nD=\"x\\n\\\"y\\\" \\q\" # c\nE=\nF=a#b=c\n";
        let expected = [
            ("A", "1"),
            ("B", "two words"),
            ("C", "a # $b"),
            ("D", "x\n\"y\" \\q"),
            ("E", ""),
            ("F", "a#b=c"),
        ];
        let expected: Vec<_> = expected.map(|(a, b)| (a.to_owned(), b.to_owned())).into();
        assert_eq!(parse(text).expect("valid"), expected);
        for (text, part) in [
            ("A", "no `=`"),
            ("A B=secret", "name of a variable"),
            ("=secret", "name of a variable"),
            ("A=\"secret", "not closed"),
            ("A='secret' more", "after the closing"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.to_string().contains(part), "{error}");
            assert!(!error.render(false).contains("secret"), "{}", error.render(false));
        }
    }
}
