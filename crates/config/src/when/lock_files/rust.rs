//! `Cargo.lock`, versions 1 to 4.

use serde::Deserialize;

use super::{Format, Language, MAX_TOML, Packages};

pub(super) const FORMATS: [Format; 1] = [Format { file: "Cargo.lock", limit: MAX_TOML, read }];

#[derive(Deserialize)]
struct CargoLock {
    /// The package of the folder, in the oldest files.
    root: Option<Package>,
    #[serde(default)]
    package: Vec<Package>,
}

/// A package of a lock file in TOML.
#[derive(Deserialize)]
pub(super) struct Package {
    name: String,
    version: Option<String>,
}

fn read(text: &str) -> Result<Packages, String> {
    let file: CargoLock = from_toml(text)?;
    collect(Language::Rust, file.package.into_iter().chain(file.root))
}

/// Reads TOML. An error is a clause.
pub(super) fn from_toml<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, String> {
    toml::from_str(text).map_err(|error| {
        let before = error.span().and_then(|it| text.get(..it.start)).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        format!("is not valid: line {line}: {}", error.message())
    })
}

pub(super) fn collect(
    language: Language,
    packages: impl Iterator<Item = Package>,
) -> Result<Packages, String> {
    let mut found = Packages::default();
    for Package { name, version } in packages {
        found.add(language, &name, version.as_deref())?;
    }
    Ok(found)
}
