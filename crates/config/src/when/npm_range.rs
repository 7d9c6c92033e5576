//! Ranges of versions as npm writes them: `>=18 <20 || ^21.1`.

use nodejs_semver::{Range, Version};

/// The operators of a comparator. Space may follow.
const OPERATORS: [&str; 7] = [">=", "<=", "~>", ">", "<", "=", "~"];

/// A range: one of the alternatives must fit.
#[derive(Debug, Clone)]
pub(super) struct NpmRange(Vec<Alternative>);

/// The text between two `||`.
///
/// If comparators exclude each other, no version fits. `nodejs_semver` does not have such ranges: it reads them as the range of
/// all versions. So each comparator is also checked by itself.
#[derive(Debug, Clone)]
struct Alternative {
    /// All comparators together. They decide which pre-releases fit.
    all: Range,
    each: Vec<Range>,
}

impl NpmRange {
    /// # Errors
    /// What is wrong.
    pub(super) fn parse(text: &str) -> Result<NpmRange, String> {
        Range::parse(text).map_err(|error| error.to_string())?;
        text.split("||").map(Alternative::parse).collect::<Result<_, _>>().map(NpmRange)
    }

    pub(super) fn contains(&self, version: &str) -> bool {
        let Ok(version) = Version::parse(version) else { return false };
        self.0.iter().any(|alternative| {
            let mut each = alternative.each.iter();
            alternative.all.satisfies(&version)
                && each.all(|it| it.satisfies_with_prerelease(&version, true))
        })
    }
}

impl Alternative {
    fn parse(text: &str) -> Result<Alternative, String> {
        let text = text.trim();
        // As in npm, an empty alternative fits all versions.
        let text = if text.is_empty() { "*" } else { text };
        let parse = |text: &str| Range::parse(text).map_err(|error| error.to_string());
        let each = comparators(text).iter().map(|it| parse(it)).collect::<Result<_, _>>()?;
        Ok(Alternative { all: parse(text)?, each })
    }
}

/// The comparators of an alternative, each with its operator.
fn comparators(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    // A range such as `1.2 - 2.3` is a single comparator.
    if words.contains(&"-") {
        return vec![text.to_owned()];
    }
    let mut comparators: Vec<String> = Vec::new();
    let mut is_complete = true;
    for word in words {
        match comparators.last_mut().filter(|_| !is_complete) {
            Some(operator) => operator.push_str(word),
            None => comparators.push(word.to_owned()),
        }
        is_complete = !OPERATORS.contains(&word) && word != "^";
    }
    comparators
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results are those of npm's `semver` 7.
    #[test]
    fn a_version_fits_if_it_fits_all_comparators_of_an_alternative() {
        let versions = [
            "0.2.3", "1.0.0", "1.2.0", "1.2.3", "1.3.0", "2.0.0", "3.0.0", "18.2.0", "19.0.0",
            "20.0.0",
        ];
        let all = versions.as_slice();
        for (range, expected) in [
            (">1 <2", &[][..]),
            ("> 1 < 2", &[]),
            (">=3 <2", &[]),
            (">1 <1", &[]),
            ("^1 ^2", &[]),
            ("^3 <2", &[]),
            ("=1.2.3 =1.3.0", &[]),
            ("<0.0.0", &[]),
            (">1.2 <1.3", &[]),
            (">=3 <4 || > 1 < 2", &["3.0.0"]),
            (">=1 <2", &["1.0.0", "1.2.0", "1.2.3", "1.3.0"]),
            (">= 18 < 20", &["18.2.0", "19.0.0"]),
            ("^ 1.2 < 1.3", &["1.2.0", "1.2.3"]),
            ("1.x <1.3", &["1.0.0", "1.2.0", "1.2.3"]),
            ("~1.2 >=1.2.3", &["1.2.3"]),
            ("1 - 2", &["1.0.0", "1.2.0", "1.2.3", "1.3.0", "2.0.0"]),
            (">1.x <3.x", &["2.0.0"]),
            ("1.2.3 || 2", &["1.2.3", "2.0.0"]),
            ("1.2.3||", all),
            ("||", all),
            ("* <2", &["0.2.3", "1.0.0", "1.2.0", "1.2.3", "1.3.0"]),
        ] {
            let parsed = NpmRange::parse(range).expect(range);
            let found: Vec<&str> =
                versions.into_iter().filter(|version| parsed.contains(version)).collect();
            assert_eq!(found, expected, "{range}");
        }
        let fits =
            |range: &str, version: &str| NpmRange::parse(range).expect(range).contains(version);
        assert!(fits(">=1.0.0-alpha <2", "1.0.0-beta") && !fits(">=1.0.0-alpha <2", "1.1.0-beta"));
        assert!(!fits("<2.0.0", "2.0.0-beta") && !fits("^1.2.3-beta", "1.2.4-beta"));
        assert!(NpmRange::parse("latest").is_err() && NpmRange::parse("1 || x.y.z.w").is_err());
    }
}
