//! Stories that a fuzzer makes up.
//!
//! A story is text: parts of two of them make a third, and people can read what was found. The first
//! byte of a line says what happens, those behind it are choices, or a text.

use bytes::Bytes;

/// Longer stories find nothing that shorter ones do not, and cost more.
const LONGEST: usize = 400;

/// What happens, one after the other.
pub fn lines(story: &[u8]) -> impl Iterator<Item = (u8, Choices<'_>)> {
    let lines = story.split(|&byte| byte == b'\n').take(LONGEST);
    lines.filter_map(|line| line.split_first().map(|(&what, rest)| (what, Choices(rest))))
}

/// Tells people what happens in a story, if they want to know: `TELL=1 cargo test --package fuzzing`.
pub fn tell(what: impl FnOnce() -> String) {
    static WANTED: std::sync::LazyLock<bool> =
        std::sync::LazyLock::new(|| std::env::var_os("TELL").is_some());
    if *WANTED {
        eprintln!("{}", what());
    }
}

/// Choices, taken off one by one.
#[derive(Debug, Clone, Copy)]
pub struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    /// A choice among so many, counted from the digit 0. What is not said is the first.
    pub fn below(&mut self, limit: usize) -> usize {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        usize::from(first.wrapping_sub(b'0')) % limit.max(1)
    }

    /// One of these; `None` if there are none.
    pub fn of<'t, T>(&mut self, these: &'t [T]) -> Option<&'t T> {
        these.get(self.below(these.len()))
    }

    /// One of these texts.
    pub fn text_of<'t>(&mut self, these: &[&'t str]) -> &'t str {
        self.of(these).copied().unwrap_or_default()
    }

    /// All that is left, as text.
    pub fn rest(self) -> Bytes {
        Bytes::copy_from_slice(self.0)
    }
}

impl std::fmt::Display for Choices<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

/// A template with its blanks filled in: an id, a method's name and some value, in this order.
pub fn filled(template: &str, [id, method, value]: [&str; 3]) -> Bytes {
    template.replace("$id", id).replace("$method", method).replace("$value", value).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_line_does_not_say_is_the_first_choice() {
        let story = b"a20x\n\nb";
        let mut told = lines(story);
        let (what, mut choices) = told.next().unwrap();
        assert_eq!((what, choices.below(9), choices.text_of(&["p", "q"])), (b'a', 2, "p"));
        assert_eq!(choices.rest(), "x");
        let (what, mut choices) = told.next().unwrap();
        assert_eq!((what, choices.below(9), choices.of::<u8>(&[])), (b'b', 0, None));
    }
}
