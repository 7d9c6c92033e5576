//! Lock files in TOML. Each package is parsed on its own, so that a great file does not become a great tree.

use acp_wire::toml_nesting;
use serde::Deserialize;

use super::{Language, Packages};

/// The most bytes of a package, and of what is before the first one.
const MAX_TABLE: usize = 1 << 20;

/// What a lock file calls the tables of its packages, in all formats.
#[derive(Deserialize)]
struct Tables {
    #[serde(default)]
    package: Vec<Package>,
    /// In `pylock.toml`.
    #[serde(default)]
    packages: Vec<Package>,
    /// The package of the folder, in the oldest `Cargo.lock`.
    root: Option<Package>,
}

/// A package of a lock file.
#[derive(Deserialize)]
struct Package {
    name: String,
    version: Option<String>,
}

pub(super) fn read(language: Language, text: &str) -> Result<Packages, String> {
    let mut found = Packages::default();
    let mut table = Table { is_read: true, start: 0, line: 0 };
    let mut at = 0;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        // The programs indent what is inside of an array.
        if line.starts_with('[') {
            table.read(language, &text[..at], &mut found)?;
            let is_read = matches!(line.trim_end(), "[[package]]" | "[[packages]]" | "[root]");
            table = Table { is_read, start: at, line: number };
        }
        at += line.len();
    }
    table.read(language, text, &mut found)?;
    Ok(found)
}

/// A part of the file that begins with a header.
struct Table {
    /// Whether it is a package, or what is before the first header. Tables in a package are not read.
    is_read: bool,
    /// Where it begins.
    start: usize,
    /// The number of lines before it.
    line: usize,
}

impl Table {
    /// Reads the packages between the beginning of the table and the end of a text.
    fn read(&self, language: Language, until: &str, found: &mut Packages) -> Result<(), String> {
        let text = &until[self.start..];
        if !self.is_read {
            return Ok(());
        }
        let not_valid = |line: usize, why: &str| Err(format!("is not valid: line {line}: {why}"));
        if text.len() > MAX_TABLE {
            return not_valid(self.line + 1, "this table has more than 1 MiB");
        }
        let line_at = |offset: usize| {
            let before = text.get(..offset).unwrap_or_default();
            self.line + before.matches('\n').count() + 1
        };
        if let Some(at) = toml_nesting::too_deep(text) {
            return not_valid(line_at(at), toml_nesting::TOO_DEEP);
        }
        let tables: Tables = match toml::from_str(text) {
            Ok(tables) => tables,
            Err(error) => {
                return not_valid(line_at(error.span().map_or(0, |it| it.start)), error.message());
            }
        };
        let packages = tables.package.iter().chain(&tables.packages).chain(&tables.root);
        for Package { name, version } in packages {
            found.add(language, name, version.as_deref())?;
        }
        Ok(())
    }
}
