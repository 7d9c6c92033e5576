//! Patterns of commands, such as `git push --force`. A pattern matches wide for rules that deny or ask, and narrow for
//! rules that allow.

use std::path::{Path, PathBuf};

use super::programs::{self, is_flag};
use super::words::{Unit, Word, glob, units_of_glob};
use super::{SimpleCommand, words};
use crate::permissions::paths;

/// The most places in one command at which an exact pattern is compared.
const MAX_LATER: usize = 64;

/// A pattern of commands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RunPattern {
    /// The program, then its arguments. `*` is any text.
    words: Vec<String>,
    /// Whether more words may follow.
    rest: bool,
    /// Whether a rule that denies or asks matches only commands with exactly these words.
    exact: bool,
}

/// How well a command fits a pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fit {
    /// It does not.
    No,
    /// It may, depending on what is unknown.
    May,
    /// It does.
    Yes,
}

/// What matching depends on beside the command.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Machine<'m> {
    /// Whether names are compared without case.
    pub(crate) case_blind: bool,
    /// The folders in which programs are found.
    pub(crate) search_path: &'m [PathBuf],
}

impl RunPattern {
    /// Reads a pattern.
    ///
    /// # Errors
    /// What is wrong, and a hint.
    pub(crate) fn parse(text: &str) -> Result<RunPattern, String> {
        if let Some(bad) = text.chars().find(|it| "|;&<>$`'\"\\\n(){}".contains(*it)) {
            return Err(format!(
                "`{text}` contains `{}`; a pattern is one plain command: write the words of the program, and each \
                 command in a pattern of its own",
                bad.escape_default()
            ));
        }
        let mut words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        if words.is_empty() {
            return Err(
                "a pattern is empty; write a command, such as `git push --force`".to_owned()
            );
        }
        let rest = words.len() > 1 && words.last().is_some_and(|it| it == "*");
        if rest {
            words.pop();
        }
        let rest = rest || words == ["*"];
        Ok(RunPattern { words, rest, exact: false })
    }

    /// The same pattern, for exactly these words.
    pub(crate) fn exactly(mut self) -> RunPattern {
        self.exact = !self.rest;
        self
    }

    /// The same pattern, with any further words.
    pub(crate) fn with_rest(mut self) -> RunPattern {
        self.rest = true;
        self
    }

    fn program(&self) -> &str {
        &self.words[0]
    }

    /// How well the words of a command fit, for a rule that denies or asks. With `opens`, the command may also be the
    /// argument of another program.
    pub(crate) fn wide(&self, command: &[Word], opens: bool, machine: Machine<'_>) -> Fit {
        let mut fit = self.wide_words(command, opens, machine);
        if opens && runs_unknown(command) {
            fit = fit.max(Fit::May);
        }
        if fit == Fit::Yes || !command.iter().any(|it| it.splits && it.is_mixed()) {
            return fit;
        }
        // The shell makes several words of `git${IFS}push`.
        let words = split_at_unknown(command);
        let known: Vec<Word> = words.iter().filter(|it| it.text().is_some()).cloned().collect();
        if self.wide_words(&known, opens, machine) == Fit::Yes {
            return Fit::Yes;
        }
        match command.first().is_some_and(|it| it.splits && it.is_mixed()) {
            true => fit.max(self.wide_words(&words, opens, machine).min(Fit::May)),
            false => fit,
        }
    }

    fn wide_words(&self, command: &[Word], opens: bool, machine: Machine<'_>) -> Fit {
        let Some(first) = command.first() else { return Fit::No };
        if self.words == ["*"] {
            return Fit::Yes;
        }
        let mut fit = match self.fits_program(first, machine) {
            Fit::No => Fit::No,
            program => self.wide_arguments(program, &command[1..], machine),
        };
        // If the words fit behind a later occurrence of the program, they fit behind the first one, too.
        let literal = |word: &Word| self.fits_program(word, machine) == Fit::Yes;
        if opens && fit < Fit::Yes {
            let mut later = command[1..].iter().enumerate().filter(|(_, word)| literal(word));
            let at: Vec<usize> = match self.exact {
                true => later.map(|(at, _)| at + 1).collect(),
                false => later.next().map(|(at, _)| at + 1).into_iter().collect(),
            };
            if at.len() > MAX_LATER {
                fit = fit.max(Fit::May);
            }
            for at in at.into_iter().take(MAX_LATER) {
                fit = fit.max(self.wide_arguments(Fit::Yes, &command[at + 1..], machine));
            }
        }
        if opens && fit == Fit::No {
            let unknown = command[1..].iter().position(|word| word.units.contains(&Unit::Unknown));
            if let Some(at) = unknown
                && self.words.len() > 1
                && self.literal_arguments(&command[at + 2..]) > 0
            {
                fit = self.wide_arguments(Fit::May, &command[at + 2..], machine);
            }
        }
        fit
    }

    /// Whether a word is the program.
    fn fits_program(&self, word: &Word, machine: Machine<'_>) -> Fit {
        let fold = |text: &str| programs::plain_name(text, machine.case_blind);
        match word.base_name() {
            // For zsh, `=git` is the path of git.
            Some(name) if glob(&fold(self.program()), &fold(name.trim_start_matches('='))) => {
                Fit::Yes
            }
            Some(_) => Fit::No,
            None => {
                let pattern = units_of_glob(self.program());
                match paths::can_be_equal(&pattern, &word.base_units(), machine.case_blind, false) {
                    true => Fit::May,
                    false => Fit::No,
                }
            }
        }
    }

    fn arguments(&self) -> impl Iterator<Item = &str> {
        self.words[1..].iter().map(String::as_str).filter(|it| *it != "*")
    }

    /// How many arguments of the pattern stand somewhere in these words.
    fn literal_arguments(&self, command: &[Word]) -> usize {
        let stands = |argument: &&str| command.iter().any(|word| fits_literally(word, argument));
        self.arguments().filter(stands).count()
    }

    fn wide_arguments(&self, program: Fit, command: &[Word], machine: Machine<'_>) -> Fit {
        if self.exact
            && command.len() != self.words.len() - 1
            && !command.iter().any(|word| word.splits)
        {
            return Fit::No;
        }
        let unknown = |word: &Word| word.text().is_none();
        let (flags, plain): (Vec<&str>, Vec<&str>) =
            self.arguments().partition(|it| it.starts_with('-'));
        let mut literal = 0;
        let mut missing = false;
        for flag in flags {
            match has_flag(command, flag) {
                true => literal += 1,
                false => missing = true,
            }
        }
        let (found, complete) = subsequence(command, &plain);
        if complete && !missing {
            return program;
        }
        let any_unknown = command.iter().any(unknown);
        let plain_possible = complete || possible_subsequence(command, &plain, machine.case_blind);
        let flags_possible =
            !missing || command.iter().any(|word| unknown(word) && can_be_flag(word));
        if !any_unknown || !plain_possible || !flags_possible {
            return Fit::No;
        }
        literal += found;
        if program == Fit::Yes && literal > 0 { Fit::Yes } else { Fit::May }
    }

    /// Whether a command fits, for a rule that allows.
    ///
    /// # Errors
    /// Why not, if the command nearly fits. Empty if it is another command.
    pub(crate) fn narrow(
        &self,
        command: &SimpleCommand,
        machine: Machine<'_>,
    ) -> Result<(), &'static str> {
        let is_harmless =
            |(name, value): &(String, Word)| programs::is_harmless_assignment(name, value.text());
        if !command.assignments.iter().all(is_harmless) {
            return Err("it sets a variable that may decide which programs run");
        }
        let mut texts: Vec<&str> = Vec::with_capacity(command.words.len());
        for word in &command.words {
            match word.text() {
                Some(text) => texts.push(text),
                None if texts.is_empty() => return Err("its program is not known"),
                None if self.begins_like(&texts) => return Err("one of its words is not known"),
                None => return Err(""),
            }
        }
        let outer = self.narrow_words(&texts, machine);
        if outer.is_ok() {
            return outer;
        }
        let mut inner = texts.as_slice();
        for _ in 0..8 {
            match transparent(inner) {
                Some(next) => inner = next,
                None => break,
            }
            let found = self.narrow_words(inner, machine);
            if found.is_ok() || found != Err("") {
                return found;
            }
        }
        outer
    }

    fn begins_like(&self, texts: &[&str]) -> bool {
        texts.iter().zip(&self.words).all(|(text, pattern)| glob(pattern, text))
    }

    fn narrow_words(&self, texts: &[&str], machine: Machine<'_>) -> Result<(), &'static str> {
        let Some((program, arguments)) = texts.split_first() else { return Err("") };
        let name = program.rsplit('/').next().unwrap_or_default();
        if !glob(self.program(), name) || name.is_empty() {
            return Err("");
        }
        let fixed = &self.words[1..];
        let fits = |(pattern, word): (&String, &&str)| match pattern.as_str() {
            "*" => !word.starts_with('-'),
            _ => glob(pattern, word),
        };
        if arguments.len() < fixed.len() || !fixed.iter().zip(arguments).all(fits) {
            return Err("");
        }
        let open = &arguments[fixed.len()..];
        if !self.rest && !open.is_empty() {
            return Err("");
        }
        if program.contains('/') && !is_found_by_name(program, name, machine.search_path) {
            return Err("its program is not the one that `PATH` finds");
        }
        let mut loose: Vec<&str> = open.to_vec();
        for (pattern, word) in fixed.iter().zip(arguments) {
            if pattern.contains('*') {
                loose.push(word);
            }
        }
        match programs::acting(name, &loose, arguments) {
            Some(why) => Err(why),
            None => Ok(()),
        }
    }
}

/// Whether a command runs a text of which nothing is known: `$x`, `env $x`, `eval "$x"`, `sudo bash -c "$x"`.
pub(crate) fn runs_unknown(command: &[Word]) -> bool {
    const RUN_TEXT: [&str; 5] = ["eval", "source", ".", "trap", "watch"];
    const RUN_WORDS: [&str; 8] =
        ["-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"];
    const RUN_CODE: [&str; 5] = ["-c", "-e", "--eval", "-E", "-r"];
    let is_unknown = |word: &Word| word.units == [Unit::Unknown];
    let is_command = |word: &Word| word.splits && is_unknown(word);
    // The command of a wrapper is the first word that is neither an option nor its value.
    let mut after_option = false;
    for (at, word) in command.iter().enumerate() {
        if is_command(word) {
            return true;
        }
        let (name, rest) = (word.base_name().unwrap_or_default(), &command[at + 1..]);
        let follows = |options: &[&str], test: &dyn Fn(&Word) -> bool| {
            let is_option = |it: &Word| it.text().is_some_and(|it| options.contains(&it));
            rest.windows(2).any(|it| is_option(&it[0]) && test(&it[1]))
        };
        if RUN_TEXT.contains(&name) || programs::is_shell(name) {
            return rest.iter().any(is_unknown);
        }
        if ["find", "fd"].contains(&name) {
            return follows(&RUN_WORDS, &is_command);
        }
        if programs::reads_code(name) {
            return follows(&RUN_CODE, &is_unknown);
        }
        let text = word.text().unwrap_or_default();
        let is_option = text.starts_with('-') || text.contains('=') || is_duration(text);
        if programs::is_wrapper(name) {
            // The first wrapper has all words behind it.
            if at == 0 && follows(&["-c", "--command"], &is_unknown) {
                return true;
            }
        } else if !is_option && !after_option {
            return false;
        }
        after_option = text.starts_with('-') && text.len() == 2;
    }
    false
}

/// The words that a command has if each unknown part separates words.
fn split_at_unknown(command: &[Word]) -> Vec<Word> {
    let mut words = Vec::new();
    for word in command {
        if !(word.splits && word.is_mixed()) {
            words.push(word.clone());
            continue;
        }
        for known in word.units.split_inclusive(|unit| *unit == Unit::Unknown) {
            let (unknown, known) = match known.split_last() {
                Some((Unit::Unknown, known)) => (true, known),
                _ => (false, known),
            };
            if !known.is_empty() {
                words.push(Word { units: known.to_vec(), ..Word::default() });
            }
            if unknown {
                words.push(Word::unknown());
            }
        }
    }
    words
}

/// The command inside of a program that only runs it. `None` if the words are not such a program.
pub(crate) fn transparent<'c, 't>(words: &'c [&'t str]) -> Option<&'c [&'t str]> {
    let (program, rest) = words.split_first()?;
    let skip = match *program {
        "command" | "nohup" | "builtin" if !rest.first()?.starts_with('-') => 0,
        "time" => usize::from(*rest.first()? == "-p"),
        "nice" => match *rest.first()? {
            "-n" => 2,
            first if first.starts_with('-') => 1,
            _ => 0,
        },
        "timeout" if is_duration(rest.first()?) => 1,
        "env" => {
            let assignments = rest.iter().take_while(|it| it.contains('=') && !it.starts_with('-'));
            let is_harmless = |it: &&str| {
                let (name, value) = it.split_once('=').unwrap_or((it, ""));
                programs::is_harmless_assignment(name, Some(value))
            };
            if !assignments.clone().all(is_harmless) {
                return None;
            }
            assignments.count()
        }
        _ => return None,
    };
    let inner = rest.get(skip..)?;
    (!inner.first()?.starts_with('-')).then_some(inner)
}

fn is_duration(word: &str) -> bool {
    let number = word.trim_end_matches(['s', 'm', 'h', 'd']);
    !number.is_empty() && number.chars().all(|it| it.is_ascii_digit() || it == '.')
}

/// Whether `PATH` finds this program under its name.
fn is_found_by_name(program: &str, name: &str, search_path: &[PathBuf]) -> bool {
    let written = Path::new(program);
    if !written.is_absolute() {
        return false;
    }
    let Some(found) = search_path.iter().map(|it| it.join(name)).find(|it| it.is_file()) else {
        return false;
    };
    found == written
        || (found.canonicalize().ok().is_some_and(|it| Some(it) == written.canonicalize().ok()))
}

/// Whether a word is this argument for certain.
fn fits_literally(word: &Word, argument: &str) -> bool {
    match word.text() {
        Some(text) if argument.starts_with('-') => wide_flag(text, argument),
        Some(text) => glob(argument, text),
        None => false,
    }
}

/// Whether a flag of a pattern stands in a command, in any of its forms.
fn has_flag(command: &[Word], flag: &str) -> bool {
    let texts = || command.iter().filter_map(Word::text);
    if texts().any(|text| wide_flag(text, flag)) {
        return true;
    }
    // `-rf` is also written `-r -f`.
    let letters = flag.trim_start_matches('-');
    let cluster = !flag.starts_with("--") && (2..=3).contains(&letters.len());
    cluster
        && letters.chars().all(|letter| {
            texts().any(|text| {
                text.starts_with('-') && !text.starts_with("--") && text.contains(letter)
            })
        })
}

/// Whether a word is this flag, for a rule that denies or asks.
fn wide_flag(word: &str, flag: &str) -> bool {
    if word == flag || glob(flag, word) {
        return true;
    }
    match flag.split_once('=') {
        Some((name, value)) if name.starts_with("--") => {
            let Some((written, given)) = word.split_once('=') else { return false };
            is_flag(written, name) && glob(value, given)
        }
        _ => {
            let letters = flag.trim_start_matches('-');
            let long = !flag.starts_with("--") && letters.len() > 3;
            is_flag(word, flag)
                || (long
                    && word.starts_with('-')
                    && !word.starts_with("--")
                    && letters.chars().all(|it| word.contains(it)))
        }
    }
}

fn can_be_flag(word: &Word) -> bool {
    match word.units.first() {
        Some(Unit::Text(text)) => text.starts_with('-') || text.is_empty(),
        _ => true,
    }
}

/// How many words of a pattern stand in a command in order, and whether all do.
fn subsequence(command: &[Word], pattern: &[&str]) -> (usize, bool) {
    let mut words = command.iter();
    let mut found = 0;
    for wanted in pattern {
        if !words.by_ref().any(|word| word.text().is_some_and(|text| glob(wanted, text))) {
            // Later words of the pattern may still stand in the command.
            let later = pattern[found + 1..].iter().filter(|later| {
                command.iter().any(|word| word.text().is_some_and(|text| glob(later, text)))
            });
            return (found + later.count(), false);
        }
        found += 1;
    }
    (found, true)
}

/// Whether the words of a pattern can stand in a command in order, if unknown words stand for some of them.
fn possible_subsequence(command: &[Word], pattern: &[&str], case_blind: bool) -> bool {
    let mut next = 0;
    for word in command {
        while next < pattern.len() {
            let fits = match word.text() {
                Some(text) => words::glob(pattern[next], text),
                None => paths::can_be_equal(
                    &units_of_glob(pattern[next]),
                    &word.units,
                    case_blind,
                    false,
                ),
            };
            if !fits {
                break;
            }
            next += 1;
            if !word.splits {
                break;
            }
        }
    }
    next == pattern.len()
}
