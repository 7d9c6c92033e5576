//! Matchers: which tools, sources or types of notifications a hook is for.

use regex::Regex;

/// A matcher, as Claude Code and Codex read it.
#[derive(Debug, Clone)]
pub(crate) enum Matcher {
    All,
    /// Exact names.
    Names(Vec<String>),
    /// A regular expression that may match anywhere in the name.
    Pattern(Regex),
    /// Matches nothing, because the regular expression is invalid.
    Nothing,
}

/// Why a text is not a matcher.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MatcherError {
    /// No program reads it as a regular expression. Claude Code lets it match nothing.
    Invalid(String),
    /// Claude Code may read it, but this program does not: look-around, backreferences, large expressions.
    Unsupported(String),
}

/// Why expressions are invalid in all programs. For every other reason, the expression may be valid in Claude Code.
const INVALID: [&str; 4] = [
    "unclosed group",
    "unopened group",
    "unclosed character class",
    "repetition operator missing expression",
];

impl PartialEq for Matcher {
    fn eq(&self, other: &Matcher) -> bool {
        match (self, other) {
            (Matcher::All, Matcher::All) | (Matcher::Nothing, Matcher::Nothing) => true,
            (Matcher::Names(one), Matcher::Names(two)) => one == two,
            (Matcher::Pattern(one), Matcher::Pattern(two)) => one.as_str() == two.as_str(),
            _ => false,
        }
    }
}

impl Matcher {
    /// Reads a matcher.
    pub(crate) fn parse(text: Option<&str>) -> Result<Matcher, MatcherError> {
        let text = text.unwrap_or_default();
        if text.trim().is_empty() || text == "*" {
            return Ok(Matcher::All);
        }
        let is_plain = |it: char| it.is_ascii_alphanumeric() || "_- ,|".contains(it);
        if text.chars().all(is_plain) {
            let names = text.split(['|', ',']).map(str::trim).filter(|name| !name.is_empty());
            return Ok(Matcher::Names(names.map(str::to_owned).collect()));
        }
        Regex::new(text).map(Matcher::Pattern).map_err(|error| {
            let text = error.to_string();
            let why = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
            match INVALID.contains(&why) {
                true => MatcherError::Invalid(why.to_owned()),
                false => MatcherError::Unsupported(why.to_owned()),
            }
        })
    }

    /// Whether one of these names matches. A tool may have several names.
    pub(crate) fn matches(&self, names: &[&str]) -> bool {
        match self {
            Matcher::All => true,
            Matcher::Names(exact) => exact.iter().any(|it| names.contains(&it.as_str())),
            Matcher::Pattern(pattern) => names.iter().any(|name| pattern.is_match(name)),
            Matcher::Nothing => false,
        }
    }

    /// Whether the name of some MCP tool may match. A regular expression may match any name.
    pub(crate) fn may_match_mcp(&self) -> bool {
        match self {
            Matcher::All | Matcher::Pattern(_) => true,
            Matcher::Names(exact) => exact.iter().any(|it| it.starts_with("mcp__")),
            Matcher::Nothing => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(matcher: &str, name: &str) -> bool {
        Matcher::parse(Some(matcher)).unwrap_or(Matcher::Nothing).matches(&[name])
    }

    #[test]
    fn an_absent_or_empty_matcher_and_a_star_match_everything() {
        assert!(Matcher::parse(None).unwrap().matches(&["Bash"]));
        assert!(matches("", "Bash") && matches("*", "Bash"));
    }

    #[test]
    fn plain_names_are_exact_and_are_separated_by_bars_or_commas() {
        assert!(matches("Edit|Write", "Write") && matches("Edit, Write", "Write"));
        assert!(!matches("Edit|Write", "MultiEdit") && !matches("Write", "TodoWrite"));
        assert!(!matches("bash", "Bash"), "case counts");
        assert!(matches("my-tool_2", "my-tool_2"));
        assert!(!matches("mcp__server", "mcp__server__tool"));
    }

    #[test]
    fn anything_else_is_a_regular_expression_that_may_match_anywhere() {
        assert!(matches("mcp__server__.*", "mcp__server__tool"));
        assert!(matches("Edit.*", "MultiEdit") && matches("Notebook.*|Bash", "Bash"));
        assert!(matches("^Edit$", "Edit") && !matches("^Edit$", "MultiEdit"));
        assert!(!matches("(", "("), "an invalid expression matches nothing");
    }

    #[test]
    fn an_expression_that_only_claude_code_reads_is_told_apart_from_an_invalid_one() {
        for text in ["(", "a)", "[a", "+"] {
            let error = Matcher::parse(Some(text));
            assert!(matches!(error, Err(MatcherError::Invalid(_))), "{text}: {error:?}");
        }
        for text in ["^(?!Bash$).*", "(?<=a)b", r"(.)\1", "(a{1000}){1000}", "a{", r"\cA"] {
            let error = Matcher::parse(Some(text));
            assert!(matches!(error, Err(MatcherError::Unsupported(_))), "{text}: {error:?}");
        }
    }
}
