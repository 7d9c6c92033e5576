//! The exact values that the user names: those of environment variables, and those in files.

use std::path::Path;

use secrets::MIN_VALUE;

/// The maximum size of a file with values.
const MAX_FILE: u64 = 1 << 20;

/// A value that the user names: the name that stands for it, and the value.
pub(super) type NamedValue = (String, String);

/// The values of the environment variables with this name, which may contain `*`.
pub(super) fn of_variable(pattern: &str) -> Result<Vec<NamedValue>, String> {
    let placeholder = |name: &str| name.to_ascii_lowercase().replace('_', "-");
    if !pattern.contains('*') {
        let Some(value) = std::env::var_os(pattern) else {
            return Err(format!(
                "the environment variable {pattern} is not set; set it, or remove it from the options of filter"
            ));
        };
        let value = value.into_string().map_err(|_| format!("{pattern} is not text"))?;
        if value.len() < MIN_VALUE {
            return Err(format!(
                "the value of the environment variable {pattern} has fewer than {MIN_VALUE} characters, and would \
                 occur in ordinary text; remove it from the options of filter"
            ));
        }
        return Ok(vec![(placeholder(pattern), value)]);
    }
    let parts: Vec<&str> = pattern.split('*').collect();
    if parts.iter().all(|it| it.is_empty()) {
        return Err(format!(
            "`{pattern}` matches every environment variable; name them, such as `*_TOKEN`"
        ));
    }
    let variables = std::env::vars_os().filter_map(|(name, value)| {
        let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
        (fits(&parts, &name) && value.len() >= MIN_VALUE).then(|| (placeholder(&name), value))
    });
    Ok(variables.collect())
}

/// Whether a name consists of these parts with any text between them.
fn fits(parts: &[&str], name: &str) -> bool {
    let [first, middle @ .., last] = parts else { return parts == [name] };
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

/// The values in a file. The error begins with what follows the name of the file: `: ` or the line.
pub(super) fn of_file(path: &Path) -> Result<Vec<NamedValue>, String> {
    let failed = |error: std::io::Error| format!(": {error}");
    let metadata = std::fs::metadata(path).map_err(failed)?;
    if !metadata.is_file() {
        return Err(": it is not a regular file".to_owned());
    }
    if metadata.len() > MAX_FILE {
        return Err(": it is bigger than 1 MiB".to_owned());
    }
    let text = std::fs::read_to_string(path).map_err(failed)?;
    if text.trim_start().starts_with('{') || text.trim_start().starts_with("[\"") {
        return Err(": it looks like JSON; write one value, or NAME=VALUE, in each line".to_owned());
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let is_plain = |it: char| it.is_ascii_alphanumeric() || it == '-';
    let name = name.replace(|it| !is_plain(it), "-");
    let name = name.trim_matches('-').to_owned();
    let mut values = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let value = of_line(line).map_err(|why| format!(":{}: {why}", number + 1))?;
        values.extend(value.map(|it| (name.clone(), it.to_owned())));
    }
    if values.is_empty() {
        return Err(format!(": it has no value of {MIN_VALUE} or more characters"));
    }
    Ok(values)
}

/// The value in a line: after `NAME=` or `NAME: `, without quotes and without a comment after it. `None` for comments, sections
/// and short values.
fn of_line(line: &str) -> Result<Option<&str>, String> {
    let line = line.trim();
    let is_section = line.starts_with('[') && line.ends_with(']');
    if line.starts_with('#') || line.starts_with("-----") || is_section {
        return Ok(None);
    }
    let starts = ["export ", "set ", "- "];
    let line = starts.iter().find_map(|it| line.strip_prefix(it)).unwrap_or(line).trim_start();
    let value = match assigned(line) {
        Some(value) => without_quotes(value)?.unwrap_or_else(|| without_comment(value)),
        None => without_quotes(line)?.unwrap_or(line),
    };
    Ok((value.len() >= MIN_VALUE).then_some(value))
}

/// The text after `NAME=` or `NAME: `. `None` if a line has no name.
fn assigned(line: &str) -> Option<&str> {
    let separators = [line.find('=').map(|at| (at, 1)), line.find(": ").map(|at| (at, 2))];
    let (at, length) = separators.into_iter().flatten().min()?;
    let (name, value) = (line[..at].trim_end(), line[at + length..].trim());
    let is_name =
        |it: char| it.is_ascii_alphanumeric() || ['_', '.', '-', '/', ':', '@', '$'].contains(&it);
    if name.is_empty() || !name.chars().all(is_name) {
        return None;
    }
    // It may be a value in which `=` stands, such as Base64.
    let has_lower = name.contains(|it: char| it.is_ascii_lowercase());
    let is_word = name.chars().all(|it| it.is_ascii_alphanumeric());
    let is_padding = value.chars().all(|it| it == '=');
    let is_part = has_lower && value.len() < MIN_VALUE && (is_word || is_padding);
    (!is_part).then_some(value)
}

/// The text in quotes that a value consists of. `None` if there are none.
fn without_quotes(value: &str) -> Result<Option<&str>, String> {
    let Some(quote) = value.chars().next().filter(|it| ['"', '\''].contains(it)) else {
        return Ok(None);
    };
    let inner = &value[1..];
    let is_end = |at: &usize| !inner[..*at].ends_with('\\');
    let Some(end) = inner.match_indices(quote).map(|it| it.0).find(is_end) else {
        let why = format!("the quote {quote} is not closed; write the value in one line");
        return Err(why);
    };
    let after = inner[end + 1..].trim_start();
    Ok((after.is_empty() || after.starts_with(['#', ';', ','])).then_some(&inner[..end]))
}

/// A value without the comment after it.
fn without_comment(value: &str) -> &str {
    let comment = value.find(" #").into_iter().chain(value.find("\t#")).min();
    value[..comment.unwrap_or(value.len())].trim_end()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_a_value_in_each_line() {
        for (line, expected) in [
            ("plain-value-1", Some("plain-value-1")),
            ("TOKEN=plain-value-1", Some("plain-value-1")),
            ("  export TOKEN='plain-value-1' ", Some("plain-value-1")),
            ("TOKEN=\"a=b c d e\"", Some("a=b c d e")),
            ("MIIEowIBAAKCAQEAx1==", Some("MIIEowIBAAKCAQEAx1==")),
            ("# a comment that is long", None),
            ("-----BEGIN RSA PRIVATE KEY-----", None),
            ("TOKEN=x", None),
            ("DATABASE_HOST=local", None),
            ("DATABASE_PASSWORD=", None),
            ("pass=word1", Some("pass=word1")),
            ("", None),
            ("A_TOKEN=abcd-efgh-ijkl-1 # production", Some("abcd-efgh-ijkl-1")),
            ("B_TOKEN=\"abcd efgh # ijkl\" # quoted", Some("abcd efgh # ijkl")),
            ("spring.password=abcd-efgh-ijkl-1", Some("abcd-efgh-ijkl-1")),
            ("my-key = abcd-efgh-ijkl-1", Some("abcd-efgh-ijkl-1")),
            ("yaml_key: 'abcd-efgh-ijkl-1'", Some("abcd-efgh-ijkl-1")),
            ("//registry/:_authToken=abcd-efgh-ijkl-1", Some("abcd-efgh-ijkl-1")),
            ("set H_TOKEN=abcd-efgh-ijkl-1", Some("abcd-efgh-ijkl-1")),
            ("db.host=local", None),
            ("[production]", None),
            ("ab/cd-efgh==", Some("ab/cd-efgh==")),
            ("correct horse battery staple", Some("correct horse battery staple")),
        ] {
            assert_eq!(of_line(line), Ok(expected), "{line}");
        }
    }

    #[test]
    fn a_quote_that_is_not_closed_is_refused() {
        assert!(of_line("KEY=\"MIIEowIBAAKCAQEAx1").is_err_and(|it| it.contains("not closed")));
    }

    #[test]
    fn a_star_stands_for_any_text() {
        let fits = |pattern: &str, name| fits(&pattern.split('*').collect::<Vec<_>>(), name);
        assert!(
            fits("*_TOKEN", "GITHUB_TOKEN") && fits("AWS_*", "AWS_KEY") && fits("A*B*C", "AxBBC")
        );
        assert!(
            !fits("*_TOKEN", "GITHUB_TOKENS") && !fits("A*B*C", "AxC") && !fits("AB*BA", "ABA")
        );
    }
}
