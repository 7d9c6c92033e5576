//! Which text of a file no error shows: the values of environment variables.

use std::ops::Range;

use acp_wire::toml_nesting::too_deep;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// The ranges of a text that stay hidden. With `only_secrets`, the text has lines `NAME=value`.
pub(super) fn ranges(text: &str, only_secrets: bool) -> Vec<Range<usize>> {
    if only_secrets {
        return values_of_lines(text, |_| true);
    }
    let table = match too_deep(text) {
        None => DeTable::parse(text).ok(),
        Some(_) => None,
    };
    match table {
        Some(table) => values_of_env(text, table.get_ref()),
        // The structure of the text is not known. Every value that could be one of a variable is hidden.
        None => {
            let mut in_env = false;
            values_of_lines(text, |line| {
                in_env = (in_env && !line.trim_start().starts_with('[')) || names_env(line);
                in_env
            })
        }
    }
}

/// The values of the members of each `env` below `components`.
fn values_of_env(text: &str, file: &DeTable<'_>) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let Some(DeValue::Table(components)) = member(file, "components").map(Spanned::get_ref) else {
        return ranges;
    };
    for component in components.values() {
        let DeValue::Table(component) = component.get_ref() else { continue };
        let Some(env) = member(component, "env") else { continue };
        match env.get_ref() {
            DeValue::Table(env) => {
                env.values().for_each(|value| hide_value(text, value.span(), &mut ranges));
            }
            _ => hide_value(text, env.span(), &mut ranges),
        }
    }
    ranges
}

fn member<'a, 'i>(table: &'a DeTable<'i>, name: &str) -> Option<&'a Spanned<DeValue<'i>>> {
    table.iter().find(|(key, _)| key.get_ref() == name).map(|(_, value)| value)
}

/// Hides a value, except for its quotation marks and the names of variables in it.
fn hide_value(text: &str, span: Range<usize>, ranges: &mut Vec<Range<usize>>) {
    let Some(value) = text.get(span.clone()) else { return };
    let inner = value.trim_matches(['"', '\'']);
    let Some(start) = value.find(inner) else { return };
    let parts = hidden_parts(inner).into_iter();
    let start = span.start + start;
    ranges.extend(parts.map(|it| start + it.start..start + it.end));
}

/// The ranges of a text that are not names of variables.
pub(crate) fn hidden_parts(text: &str) -> Vec<Range<usize>> {
    let (mut at, end) = (0, text.len());
    let mut ranges = Vec::new();
    while at < end {
        let rest = &text[at..];
        let Some(open) = rest.find("${") else { break };
        let name = rest[open + 2..].find(|it: char| !it.is_ascii_alphanumeric() && it != '_');
        let name_end = open + 2 + name.unwrap_or(rest.len() - open - 2);
        let close = usize::from(rest[name_end..].starts_with('}'));
        if open > 0 {
            ranges.push(at..at + open);
        }
        at += name_end + close;
    }
    if at < end {
        ranges.push(at..end);
    }
    ranges
}

/// Whether a line has `env` as a whole word: as a key, or in the name of a table.
fn names_env(line: &str) -> bool {
    line.split(|it: char| !it.is_alphanumeric() && it != '-' && it != '_').any(|it| it == "env")
}

/// The rest of each line behind its first `=`, for the lines that `hides` selects. If there is no `=`, it is the line.
fn values_of_lines(text: &str, mut hides: impl FnMut(&str) -> bool) -> Vec<Range<usize>> {
    let mut start = 0;
    let mut ranges = Vec::new();
    for line in text.split_inclusive('\n') {
        if hides(line) && !line.trim_start().starts_with(['#', '[']) {
            let value = line.find('=').map_or(0, |at| at + 1);
            let value = value + (line.len() - value - line[value..].trim_start().len());
            let end = line.trim_end().len();
            if value < end {
                ranges.push(start + value..start + end);
            }
        }
        start += line.len();
    }
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str, only_secrets: bool) -> String {
        let mut shown = text.to_owned();
        for range in ranges(text, only_secrets).into_iter().rev() {
            shown.replace_range(range, "…");
        }
        shown
    }

    #[test]
    fn the_values_of_variables_are_hidden_and_references_are_not() {
        for (text, expected) in [
            (
                "[components.a]\nenv = { A = \"x\" }\nargs = [\"y\"]\n",
                "[components.a]\nenv = { A = \"…\" }\nargs = [\"y\"]\n",
            ),
            (
                "[components.a.env]\nA = 'x'\nB = \"${C}\"\nD = \"p${E:-q}r\"\nF = 5\n",
                "[components.a.env]\nA = '…'\nB = \"${C}\"\nD = \"…${E…\"\nF = …\n",
            ),
            ("components.a.env = \"A=x\"\n", "components.a.env = \"…\"\n"),
            ("components.a.env = [\"A=x\"]\n", "components.a.env = …\n"),
            // The text is not TOML.
            (
                "[components.a.env]\nA = x\nB = \"y\n[chains]\nc = d\n",
                "[components.a.env]\nA = …\nB = …\n[chains]\nc = d\n",
            ),
            ("a = b\nenv = { A = \"x\"\nB = y", "a = b\nenv = …\nB = …"),
        ] {
            assert_eq!(shown(text, false), expected);
        }
        assert_eq!(
            shown("A=x\n# c\nwrong line\nexport B = \"y\"\n", true),
            "A=…\n# c\n…\nexport B = …\n"
        );
    }
}
