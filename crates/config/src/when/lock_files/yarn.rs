//! `yarn.lock`, of Yarn 1 and of the later ones (Berry).
//!
//! An entry begins with what was asked for, such as `"a@^1", a@^1.2:`. Its fields are two spaces deep. The later ones
//! write YAML in one form, with the package in `resolution`.

use super::javascript::split_at_version;
use super::lines::{indented, unquoted};
use super::{Language, Packages};

/// An entry, and what its fields say.
struct Entry<'a> {
    /// What was asked for.
    header: &'a str,
    version: Option<&'a str>,
    resolution: Option<&'a str>,
}

pub(super) fn read(text: &str) -> Result<Packages, String> {
    let mut found = Packages::default();
    let mut entry: Option<Entry> = None;
    let mut valid = false;
    for line in text.lines() {
        let (depth, text) = indented(line);
        valid |= text == "# yarn lockfile v1" || text == "__metadata:";
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        match depth {
            0 => {
                if let Some(entry) = entry.take() {
                    entry.add_to(&mut found)?;
                }
                let header = text.strip_prefix("? ").or_else(|| text.strip_suffix(':'));
                entry = header.map(|header| Entry { header, version: None, resolution: None });
            }
            2 => {
                let Some((field, value)) = text.split_once(' ') else { continue };
                let Some(entry) = &mut entry else { continue };
                match field.trim_end_matches(':') {
                    "version" => entry.version = Some(unquoted(value)),
                    "resolution" => entry.resolution = Some(unquoted(value)),
                    _ => {}
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
        false => Err("is not valid: it has neither `# yarn lockfile v1` nor `__metadata:`".into()),
    }
}

impl Entry<'_> {
    fn add_to(&self, packages: &mut Packages) -> Result<(), String> {
        // A member of a workspace has the version 0.0.0-use.local.
        let version = self.version.filter(|it| *it != "0.0.0-use.local");
        if let Some((name, _)) = self.resolution.and_then(split_at_version) {
            return packages.add(Language::JavaScript, name, version);
        }
        if self.resolution.is_some() || self.header == "__metadata" {
            return Ok(());
        }
        let mut names: Vec<&str> = self.header.split(", ").filter_map(requested).collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter().try_for_each(|name| packages.add(Language::JavaScript, name, version))
    }
}

/// The package of a request: `a@^1`, or of an alias: `b@npm:a@^1`.
fn requested(text: &str) -> Option<&str> {
    let (name, range) = split_at_version(unquoted(text))?;
    let aliased = range.strip_prefix("npm:").and_then(split_at_version);
    Some(aliased.map_or(name, |(name, _)| name))
}
