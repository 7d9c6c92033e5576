//! Errors of npm and npx.

use super::Block;

/// Texts of npm that are advice, or belong to the report itself.
const ADVICE: [&str; 23] = [
    "A complete log of this run",
    "This is a problem related to network",
    "In most cases",
    "If you are behind a proxy",
    "Note that you can also install from",
    "tarball, folder",
    "This is related to npm not being able",
    "This is probably not a problem with npm",
    "Failed to parse JSON data",
    "Note: package.json must be actual JSON",
    "Lifecycle script",
    "syscall ",
    "errno ",
    "path ",
    "command failed",
    "command sh",
    "at ",
    "type: ",
    "in workspace",
    "at location",
    "Error: command failed",
    "workspace ",
    "location ",
];
/// Words that npm repeats before each line of a text.
const TAGS: [&str; 13] = [
    "404",
    "403",
    "401",
    "network",
    "notarget",
    "enoent",
    "JSON.parse",
    "E404",
    "notsup",
    "ERESOLVE",
    "eacces",
    "EACCES",
    "gyp",
];

pub(super) fn find(lines: &[&str]) -> Option<Block> {
    let texts: Vec<(usize, &str)> = lines
        .iter()
        .enumerate()
        .filter_map(|(index, line)| Some((index, text_of(line.trim_start())?)))
        .collect();
    let end = texts.last()?.0 + 1;
    let code = texts.iter().find_map(|(_, text)| text.strip_prefix("code "));
    let reasons: Vec<&str> = texts.iter().map(|(_, text)| without_tag(text)).collect();
    let reasons = reasons.into_iter().filter(|text| is_reason(text));
    let reasons: Vec<&str> = reasons.collect();
    // The package is a better reason than the address of the request.
    let package = reasons.iter().find(|text| {
        text.contains("is not in this registry") || text.contains("The requested resource '")
    });
    let reason = package.or(reasons.first());
    // A script that failed has printed its own reason before.
    let reason = reason.copied()?;
    let text = match code.filter(|code| code.starts_with('E') && !reason.contains(code)) {
        Some(code) => format!("npm error {code}: {reason}"),
        None => format!("npm error: {reason}"),
    };
    Some(Block { end, text })
}

/// The text of a line of npm's error report. npm 9 and older write `npm ERR!`.
fn text_of(line: &str) -> Option<&str> {
    ["npm error", "npm ERR!"].iter().find_map(|it| line.strip_prefix(it)).map(str::trim)
}

fn without_tag(text: &str) -> &str {
    let tag = TAGS.iter().find_map(|tag| text.strip_prefix(tag));
    tag.filter(|rest| rest.is_empty() || rest.starts_with(' ')).map_or(text, str::trim)
}

fn is_reason(text: &str) -> bool {
    let is_member = text.split_once(": ").is_some_and(|(name, value)| {
        !name.contains(' ') && value.ends_with([',', '\'']) && !name.ends_with("Error")
    });
    !text.is_empty()
        && !text.starts_with("code ")
        && !matches!(text, "{" | "}" | "[" | "]")
        && !is_member
        && !ADVICE.iter().any(|it| text.starts_with(it))
}
