//! Parses a fuzzer's bytes as a scenario.
//!
//! A scenario is text, so that the fuzzer can combine parts of scenarios and people can read its findings. Each line is
//! a step. The first byte of a line is the kind of the step, the following bytes are choices or a text.

use bytes::Bytes;

/// The maximum number of steps. Longer scenarios find no other bugs and take longer.
const LONGEST: usize = 400;

/// The steps of a scenario.
pub fn steps(scenario: &[u8]) -> impl Iterator<Item = (u8, Choices<'_>)> {
    let lines = scenario.split(|&byte| byte == b'\n').take(LONGEST);
    lines.filter_map(|line| line.split_first().map(|(&what, rest)| (what, Choices(rest))))
}

/// Prints the events of a scenario if the environment variable is set: `TELL=1 cargo test --package fuzzing`.
pub fn trace(what: impl FnOnce() -> String) {
    static WANTED: std::sync::LazyLock<bool> =
        std::sync::LazyLock::new(|| std::env::var_os("TELL").is_some());
    if *WANTED {
        eprintln!("{}", what());
    }
}

/// The choices of a step. Each choice consumes a byte.
#[derive(Debug, Clone, Copy)]
pub struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    /// A choice among `limit` values, counted from the digit 0. A missing byte is the first choice.
    pub fn below(&mut self, limit: usize) -> usize {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(first.wrapping_sub(b'0')) % limit.max(1)
    }

    /// One of these values. `None` if there are none.
    pub fn of<'t, T>(&mut self, these: &'t [T]) -> Option<&'t T> {
        these.get(self.below(these.len()))
    }

    /// One of these texts.
    pub fn text_of<'t>(&mut self, these: &[&'t str]) -> &'t str {
        self.of(these).copied().unwrap_or_default()
    }

    /// The remaining bytes, as a text.
    pub fn rest(self) -> Bytes {
        Bytes::copy_from_slice(self.0)
    }
}

impl std::fmt::Display for Choices<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

/// Fills in a template: an id, a method and a value.
pub fn filled(template: &str, [id, method, value]: [&str; 3]) -> Bytes {
    template.replace("$id", id).replace("$method", method).replace("$value", value).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_byte_is_the_first_choice() {
        let scenario = b"a20x\n\nb";
        let mut parsed = steps(scenario);
        let (what, mut choices) = parsed.next().unwrap();
        assert_eq!((what, choices.below(9), choices.text_of(&["p", "q"])), (b'a', 2, "p"));
        assert_eq!(choices.rest(), "x");
        let (what, mut choices) = parsed.next().unwrap();
        assert_eq!((what, choices.below(9), choices.of::<u8>(&[])), (b'b', 0, None));
    }
}
