//! The lock files of npm, Yarn, pnpm and Bun.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::json::{Event, walk};
use super::{Format, Language, Packages, pnpm, yarn};

pub(super) const FORMATS: [Format; 6] = [
    // npm prefers it to the other one.
    Format { file: "npm-shrinkwrap.json", read: Some(read_npm) },
    Format { file: "package-lock.json", read: Some(read_npm) },
    Format { file: "yarn.lock", read: Some(yarn::read) },
    Format { file: "pnpm-lock.yaml", read: Some(pnpm::read) },
    Format { file: "bun.lock", read: Some(read_bun) },
    Format { file: "bun.lockb", read: None },
];

/// A package in `packages` of `package-lock.json`.
#[derive(Default)]
struct Entry {
    name: Option<String>,
    version: Option<String>,
    /// For a link, the path of the package in the same file.
    resolved: Option<String>,
}

/// Reads `package-lock.json`, versions 1 to 3.
fn read_npm(text: &str) -> Result<Packages, String> {
    let mut entries: BTreeMap<String, Entry> = BTreeMap::new();
    let mut oldest = Packages::default();
    walk(text, &mut |path, event| match (path, event) {
        ([top, key], Event::Object) if top == "packages" => {
            entries.insert(key.clone(), Entry::default());
            match entries.len() > super::MAX_PACKAGES {
                true => Err(super::too_many()),
                false => Ok(()),
            }
        }
        ([top, key, member], Event::Text(text)) if top == "packages" => {
            if let Some(entry) = entries.get_mut(key) {
                match member.as_str() {
                    "name" => entry.name = Some(text.to_owned()),
                    "version" => entry.version = Some(text.to_owned()),
                    "resolved" => entry.resolved = Some(text.to_owned()),
                    _ => {}
                }
            }
            Ok(())
        }
        // Version 1, in which packages are nested: dependencies/a/dependencies/b/version.
        ([.., parent, name, member], Event::Text(version))
            if member == "version" && parent == "dependencies" && is_nested(path) =>
        {
            let (name, version) = real_name(name, version);
            oldest.add(Language::JavaScript, name, Some(version))
        }
        _ => Ok(()),
    })?;
    if entries.is_empty() {
        return Ok(oldest);
    }
    let mut found = Packages::default();
    for (key, entry) in &entries {
        // The folder itself and the members of a workspace: node_modules has links to the members.
        let Some((_, folder)) = key.rsplit_once("node_modules/") else { continue };
        let target = entry.resolved.as_ref().and_then(|it| entries.get(it));
        let entry = target.unwrap_or(entry);
        // An alias has the name of the package.
        let name = entry.name.as_deref().unwrap_or(folder);
        found.add(Language::JavaScript, name, entry.version.as_deref())?;
    }
    Ok(found)
}

/// Whether a path is `dependencies/NAME` repeated, and a member.
fn is_nested(path: &[String]) -> bool {
    path.len() % 2 == 1 && path.iter().step_by(2).rev().skip(1).all(|it| it == "dependencies")
}

/// The package of an alias: `npm:NAME@VERSION` instead of the version.
fn real_name<'a>(name: &'a str, version: &'a str) -> (&'a str, &'a str) {
    version.strip_prefix("npm:").and_then(split_at_version).unwrap_or((name, version))
}

/// `NAME@VERSION`. A scoped name begins with an @, too.
pub(super) fn split_at_version(text: &str) -> Option<(&str, &str)> {
    let at = text.get(1..)?.find('@')? + 1;
    Some((&text[..at], &text[at + 1..]))
}

/// Reads `bun.lock`. Each package is an array that begins with `NAME@VERSION`.
fn read_bun(text: &str) -> Result<Packages, String> {
    let mut found = Packages::default();
    walk(&without_comments(text), &mut |path, event| match (path, event) {
        ([top, _, position], Event::Text(package)) if top == "packages" && position == "0" => {
            let Some((name, version)) = split_at_version(package) else { return Ok(()) };
            found.add(Language::JavaScript, name, Some(version))
        }
        _ => Ok(()),
    })?;
    Ok(found)
}

/// What is said of `bun.lockb`.
pub(super) const BINARY: &str = "is binary: run `bun install --save-text-lockfile` for a bun.lock";

/// JSON from JSON with comments and commas at the end of a list. The comments become spaces.
fn without_comments(text: &str) -> Cow<'_, str> {
    let mut out = Vec::with_capacity(text.len());
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &text[at..];
        let length = match bytes[at] {
            b'"' => string_length(&bytes[at..]),
            b'/' if rest.starts_with("//") => {
                at += rest.find('\n').unwrap_or(rest.len());
                continue;
            }
            b'/' if rest.starts_with("/*") => {
                at += rest[2..].find("*/").map_or(rest.len(), |it| it + 4);
                out.push(b' ');
                continue;
            }
            b']' | b'}' => {
                let last = out.iter().rposition(|it: &u8| !it.is_ascii_whitespace());
                if let Some(comma) = last.filter(|it| out[*it] == b',') {
                    out[comma] = b' ';
                }
                1
            }
            _ => rest.chars().next().map_or(1, char::len_utf8),
        };
        out.extend_from_slice(&bytes[at..at + length]);
        at += length;
    }
    // Whole characters were copied.
    String::from_utf8(out).map_or(Cow::Borrowed(text), Cow::Owned)
}

/// The length of the string at the beginning, with its quotes.
fn string_length(bytes: &[u8]) -> usize {
    let mut escaped = false;
    for (at, byte) in bytes.iter().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    bytes.len()
}
