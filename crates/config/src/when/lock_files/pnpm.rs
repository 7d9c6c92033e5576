//! `pnpm-lock.yaml`, versions 5 to 9.
//!
//! pnpm writes YAML in one form. The packages are the keys of `packages`, two spaces deep, with their fields four
//! spaces deep. The file may have two documents: the first one is about pnpm itself.

use super::lines::{indented, unquoted};
use super::{Language, Packages};

/// A package, and what its key and its fields say.
#[derive(Default)]
struct Entry<'a> {
    key: &'a str,
    name: Option<&'a str>,
    version: Option<&'a str>,
}

pub(super) fn read(text: &str) -> Result<Packages, String> {
    let mut found = Packages::default();
    let mut in_packages = false;
    let mut valid = false;
    let mut entry: Option<Entry> = None;
    for line in text.lines() {
        let (depth, text) = indented(line);
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        if depth <= 2
            && let Some(entry) = entry.take()
        {
            entry.add_to(&mut found)?;
        }
        match depth {
            // The next document replaces this one.
            0 if text == "---" => {
                found = Packages::default();
                in_packages = false;
            }
            0 => {
                valid |= text.starts_with("lockfileVersion:");
                in_packages = text == "packages:";
            }
            2 if in_packages => {
                // A very long key has a line of its own: `? KEY`.
                let key = text.strip_prefix("? ").or_else(|| text.strip_suffix(':'));
                // A package without fields: `KEY: {}`.
                let key = key.or_else(|| text.strip_suffix(": {}"));
                entry = key.map(|key| Entry { key: unquoted(key), ..Entry::default() });
            }
            4 => {
                if let (Some(entry), Some((field, value))) = (&mut entry, text.split_once(": ")) {
                    match field {
                        "name" => entry.name = Some(unquoted(value)),
                        "version" => entry.version = Some(unquoted(value)),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    if let Some(entry) = entry {
        entry.add_to(&mut found)?;
    }
    match valid {
        true => Ok(found),
        false => Err("is not valid: it has no lockfileVersion".into()),
    }
}

impl Entry<'_> {
    fn add_to(self, packages: &mut Packages) -> Result<(), String> {
        let (name, version) = name_and_version(self.key);
        let name = self.name.unwrap_or(name);
        packages.add(Language::JavaScript, name, self.version.or(version))
    }
}

/// The package of a key, in each version of the format:
/// `/@scope/name/1.2.3_peer@2.0.0`, `/name@1.2.3(peer@2.0.0)`, `name@1.2.3`, `name@https://…`.
fn name_and_version(key: &str) -> (&str, Option<&str>) {
    let oldest = key.strip_prefix('/');
    let key = oldest.unwrap_or(key);
    let key = key.split('(').next().unwrap_or(key);
    // The @ that begins a scope, and the / that ends it, are part of the name.
    let scope = if key.starts_with('@') { key.find('/').map_or(0, |it| it + 1) } else { 0 };
    let end = key[scope..].find(|it| it == '@' || (it == '/' && oldest.is_some()));
    let Some(end) = end.map(|it| it + scope) else { return (key, None) };
    let (name, rest) = (&key[..end], &key[end + 1..]);
    (name, rest.split('_').next())
}
