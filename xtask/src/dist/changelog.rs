//! Finds the entry of a version in CHANGELOG.md. It becomes the release notes.

/// The text of the entry, without its heading.
pub fn entry(changelog: &str, version: &str) -> Result<String, String> {
    let missing = || {
        format!(
            "CHANGELOG.md has no entry for version {version}: give the changes of this release the \
             heading `## {version} (YYYY-MM-DD)`"
        )
    };
    let mut lines = changelog.lines().skip_while(|line| heading(line) != Some(version));
    lines.next().ok_or_else(missing)?;
    let text: Vec<&str> = lines.take_while(|line| !line.starts_with("## ")).collect();
    match text.join("\n").trim() {
        "" => Err(format!("the entry for version {version} in CHANGELOG.md is empty")),
        text => Ok(format!("{text}\n")),
    }
}

/// The version in a heading such as `## 0.1.0`, `## 0.1.0 (2026-01-31)` or `## [0.1.0] - 2026-01-31`.
fn heading(line: &str) -> Option<&str> {
    let first = line.strip_prefix("## ")?.split_whitespace().next()?;
    Some(first.trim_start_matches(['[', 'v']).trim_end_matches(']'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGELOG: &str = "\
# Changelog

## Unreleased

- later

## 0.2.0 (2026-01-31)

### Added
- this

## [0.1.0] - 2025-12-01
- old

## 0.0.9
";

    #[test]
    fn the_release_notes_are_the_entry_of_the_version() {
        assert_eq!(entry(CHANGELOG, "0.2.0").as_deref(), Ok("### Added\n- this\n"));
        assert_eq!(entry(CHANGELOG, "0.1.0").as_deref(), Ok("- old\n"));
    }

    #[test]
    fn a_version_without_changes_is_not_released() {
        let missing = entry(CHANGELOG, "0.3.0").expect_err("no entry");
        assert!(missing.contains("no entry for version 0.3.0"), "{missing}");
        assert!(entry(CHANGELOG, "0.0.9").expect_err("no text").contains("is empty"));
        assert!(entry(CHANGELOG, "0.2").is_err());
    }

    #[test]
    fn the_changelog_of_the_project_has_an_entry_for_its_version() {
        let changelog = include_str!("../../../CHANGELOG.md");
        entry(changelog, env!("CARGO_PKG_VERSION")).expect("an entry");
    }
}
