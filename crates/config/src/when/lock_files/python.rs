//! The lock files of uv, Poetry, PDM, pipenv and pip, and `requirements.txt`.

use super::json::{Event, walk};
use super::{Format, Language, Packages, tables};

pub(super) const FORMATS: [Format; 6] = [
    Format { file: "uv.lock", read: Some(read_toml) },
    Format { file: "poetry.lock", read: Some(read_toml) },
    Format { file: "pdm.lock", read: Some(read_toml) },
    Format { file: "pylock.toml", read: Some(read_toml) },
    Format { file: "Pipfile.lock", read: Some(read_pipfile) },
    Format { file: "requirements.txt", read: Some(read_requirements) },
];

fn read_toml(text: &str) -> Result<Packages, String> {
    tables::read(Language::Python, text)
}

/// Reads `Pipfile.lock`: GROUP/NAME/version is `==1.2.3`. A package from a repository has no version.
fn read_pipfile(text: &str) -> Result<Packages, String> {
    let mut found = Packages::default();
    let mut unversioned: Option<String> = None;
    walk(text, &mut |path, event| match (path, event) {
        ([group, name], Event::Object) if group != "_meta" => {
            let before = unversioned.replace(name.clone());
            before.map_or(Ok(()), |before| found.add(Language::Python, &before, None))
        }
        ([group, name, member], Event::Text(version))
            if group != "_meta" && member == "version" =>
        {
            unversioned = None;
            found.add(Language::Python, name, version.strip_prefix("=="))
        }
        _ => Ok(()),
    })?;
    unversioned.map_or(Ok(()), |name| found.add(Language::Python, &name, None))?;
    Ok(found)
}

/// Reads `requirements.txt`. A line is `name[extra]==1.2.3 ; marker --option`. Only `==` gives a version. Included
/// files are not read.
fn read_requirements(text: &str) -> Result<Packages, String> {
    let mut found = Packages::default();
    for line in text.lines() {
        // A line that continues the one before it has options such as --hash.
        let line = line.trim();
        if !line.starts_with(|it: char| it.is_ascii_alphanumeric()) {
            continue;
        }
        let requirement = line.split([';', '#', '\\']).next().unwrap_or_default();
        let requirement = requirement.split(" --").next().unwrap_or_default();
        let end = requirement.find(|it: char| !(it.is_ascii_alphanumeric() || "-_.".contains(it)));
        let (name, rest) = requirement.split_at(end.unwrap_or(requirement.len()));
        let rest = rest.trim();
        // Not a path or a URL.
        let is_name = rest.is_empty() || rest.starts_with(['[', '<', '>', '=', '~', '!', '@', '(']);
        if !is_name {
            continue;
        }
        let rest = match rest.strip_prefix('[').and_then(|it| it.split_once(']')) {
            Some((_, after)) => after.trim(),
            None => rest,
        };
        // `name (==1.2)` is an older form of `name==1.2`.
        let rest =
            rest.strip_prefix('(').map_or(rest, |it| it.trim_end().trim_end_matches(')').trim());
        let version = rest.strip_prefix("===").or_else(|| rest.strip_prefix("=="));
        let version = version.map(str::trim).filter(|it| !it.contains([',', '*']));
        found.add(Language::Python, name, version)?;
    }
    Ok(found)
}
