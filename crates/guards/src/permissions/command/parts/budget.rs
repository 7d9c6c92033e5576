//! How much of the texts in a command line is opened. Commands feed each other, and texts have texts inside of them, so that
//! a short line can stand for very many commands.

use super::{Parts, raw};
use crate::permissions::command::words::Word;

/// How deeply scripts inside of arguments are opened.
const MAX_LEVELS: usize = 6;
/// The most texts inside of arguments.
const MAX_TEXTS: usize = 2000;
/// The most letters of texts in arguments and of output that commands feed each other, in all.
const MAX_LETTERS: usize = 1024 * 1024;
/// The most words of commands that stand in arguments, or that other commands feed.
const MAX_WORDS: usize = 100_000;
/// The most words of texts that are not parsed.
const MAX_RAW_WORDS: usize = 200_000;

/// What was opened.
#[derive(Debug, Default)]
pub(super) struct Spent {
    texts: usize,
    letters: usize,
    words: usize,
    raw_words: usize,
    is_over: bool,
}

impl Spent {
    /// Whether there was more to open than there was room for.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }
}

impl Parts {
    /// Whether everything was opened.
    pub(crate) fn is_whole(&self) -> bool {
        !self.spent.is_over()
    }

    /// Whether there is room for another text. If not, the command line is doubtful, as in all functions here.
    pub(super) fn has_room(&mut self, text: &str, level: usize) -> bool {
        self.spent.texts += 1;
        self.spent.letters += text.len();
        let has_room = self.check_budget(level <= MAX_LEVELS && self.spent.texts <= MAX_TEXTS);
        if !has_room && self.check_budget(true) {
            // The text is not opened, but its words are still searched.
            self.add_raw(text);
        }
        has_room
    }

    /// Whether there is room to read this many letters once more.
    pub(super) fn spend_letters(&mut self, letters: usize) -> bool {
        self.spent.letters += letters;
        self.check_budget(true)
    }

    /// Whether there is room for a command with these words.
    pub(super) fn spend_words(&mut self, words: &[Word]) -> bool {
        self.spent.words += words.len() + 1;
        self.check_budget(true)
    }

    /// Whether there is room left.
    pub(super) fn check_budget(&mut self, has_room: bool) -> bool {
        let spent = &self.spent;
        let has_room = has_room
            && spent.letters <= MAX_LETTERS
            && spent.words <= MAX_WORDS
            && spent.raw_words <= MAX_RAW_WORDS;
        if !has_room {
            self.spent.is_over = true;
            self.doubt("it has too many scripts in its arguments");
        }
        has_room
    }

    /// Adds the words of a text that is not parsed.
    pub(super) fn add_raw(&mut self, text: &str) {
        let commands = raw::commands(text);
        self.spent.raw_words += commands.iter().map(Vec::len).sum::<usize>();
        if self.check_budget(true) {
            self.raw.extend(commands);
        }
    }

    /// Adds the words of code.
    pub(super) fn search(&mut self, code: &str) {
        if self.has_room(code, 0) {
            self.add_raw(code);
        }
    }

    /// Adds the words of code that an interpreter reads as its input.
    pub(super) fn search_input(&mut self, code: &str) {
        self.search(code);
        if self.is_whole() {
            self.code.extend(raw::commands(code).into_iter().flatten());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use component_base::action::CommandLine;

    /// Lines of a command that reads what all commands before it print, and lines that open the same text again and again.
    fn hostile() -> Vec<(String, String)> {
        let pipe = |first: &str, stage: &str, length: usize| {
            format!("{first}{}", stage.repeat((length - first.len()) / stage.len()))
        };
        let long = "git x ".repeat(5_000);
        let mut lines = Vec::new();
        for length in [1_000, 60_000] {
            lines.extend([
                pipe("echo a", " | xargs sh", length),
                pipe("echo a", " | xargs xargs", length),
                pipe("echo a", "|bash", length),
                pipe("echo a", "|python3", length),
                pipe("echo a", "|parallel sh", length),
                pipe("echo a", " | xargs sh -c 'echo b | xargs sh'", length),
                pipe("echo a", "|sh<<<a", length),
                pipe("cat <<E", "|sh<<E", length),
                pipe("eval", " eval", length),
                pipe("alias a='b c d'", ";alias b='a a a';a", length),
                pipe("a", " {,}{,}{,}{,}{,}{,}{,}", length),
                pipe("xargs", " {,}{,}{,}{,}{,}{,}{,}", length),
                pipe("echo 'a{,}{,}{,}{,}{,}{,}'", "|sh", length),
                pipe("git-a", ";git-a", length),
            ]);
        }
        lines.push(pipe("echo a", " | xargs sh", 100 * 1024));
        lines.push(pipe(&format!("echo '{long}'"), "|sh", 64_000));
        lines.push(pipe(&format!("echo '{long}'"), "|awk a", 64_000));
        lines.push(pipe(&format!("alias a='{long}'"), ";a", 64_000));
        let places = "a".repeat(30_000);
        lines.push(format!("echo '{long}' | xargs -Ia sh -c '{places}'"));
        lines.push(format!("echo {long} | xargs -Ia sh -c '{places}'"));
        lines.into_iter().map(|line| (line.chars().take(60).collect(), line)).collect()
    }

    #[test]
    fn a_hostile_line_is_opened_with_bounded_work() {
        for (name, line) in hostile() {
            let parts = Parts::of(&CommandLine::Shell(line.clone()), false);
            let is_outer = |it: &&super::super::Part| !it.inner;
            let outer: usize =
                parts.commands.iter().filter(is_outer).map(|it| it.command.words.len()).sum();
            let all: usize = parts.commands.iter().map(|it| it.command.words.len()).sum();
            let raw: usize = parts.raw.iter().map(Vec::len).sum();
            assert!(all - outer <= MAX_WORDS, "{name}: {} words", all - outer);
            // The words of the whole line may be added once more, in its different readings.
            assert!(raw <= MAX_RAW_WORDS + 4 * line.len(), "{name}: {raw} raw words");
            // What is asked for beyond the limits is counted, but it is not done.
            assert!(parts.spent.letters <= 40 * MAX_LETTERS, "{name}: {:?}", parts.spent);
            let is_short = parts.spent.letters <= MAX_LETTERS && parts.spent.words <= MAX_WORDS;
            assert!(is_short || !parts.doubts.is_empty(), "{name}: {:?}", parts.spent);
        }
    }

    #[test]
    fn a_command_behind_the_limits_is_found_by_its_words() {
        for stage in [" | xargs sh", "|bash", "|xargs xargs"] {
            let line = format!("echo a{} | xargs git push -f", stage.repeat(3_000));
            let parts = Parts::of(&CommandLine::Shell(line), false);
            assert!(parts.spent.is_over() && !parts.doubts.is_empty(), "{stage}");
            let is_push =
                |words: &[Word]| words.iter().filter_map(Word::text).any(|it| it == "push");
            assert!(parts.raw.iter().any(|it| is_push(it)), "{stage}");
        }
    }
}
