//! Command lines of a Unix shell, taken apart for rules.
//!
//! [`parse`] finds every simple command of a text, wherever it stands: in lists, pipelines, groups, loops, function
//! bodies, substitutions and here-documents. It runs nothing and expands only what needs no knowledge of the machine:
//! quotes, escapes and braces. Everything else, such as `$x`, is unknown text.
//!
//! The parser is ours, because it judges text from an agent that may be hostile: it takes linear time, and its
//! recursion is bounded. It reads a superset of what bash reads. A text that bash would refuse may parse; a command that
//! bash would run is found, or the text does not parse.

use std::ops::Range;

use component_base::action::CommandLine;

pub(crate) mod braces;
pub(crate) mod files;
pub(crate) mod hosts;
pub(crate) mod parser;
pub(crate) mod parts;
pub(crate) mod pattern;
pub(crate) mod programs;
pub(crate) mod raw;
pub(crate) mod words;

pub(crate) use words::{Unit, Word};

/// The longest text that is parsed.
pub(crate) const MAX_LENGTH: usize = 64 * 1024;
/// The most simple commands of a text that may be allowed.
pub(crate) const MAX_COMMANDS: usize = 500;
/// The most openers, such as `(`, `{` and `if`, of a text that may be allowed.
pub(crate) const MAX_OPENERS: usize = 100;
/// The deepest nesting of substitutions and quotes.
pub(crate) const MAX_DEPTH: usize = 40;

/// The simple commands of a text, in order.
#[derive(Debug, Default)]
pub(crate) struct Script {
    /// The commands. A redirection of a group or a loop is a command without words.
    pub(crate) commands: Vec<SimpleCommand>,
    /// Why the text must not be allowed, although it parses.
    pub(crate) doubts: Vec<&'static str>,
    /// Texts that are code only if the shell evaluates them a second time, such as subscripts in quotes.
    pub(crate) evaluated: Vec<String>,
    /// The values that variables get: each a text, or the values of an array.
    pub(crate) values: Vec<Vec<Word>>,
    /// Whether commands may run more than once: in a loop or a function.
    pub(crate) repeats: bool,
    /// Texts that are commands for some shells only.
    pub(crate) ambiguous: Vec<String>,
}

/// A simple command: a program with its arguments, assignments and redirections.
#[derive(Debug, Default, Clone)]
pub(crate) struct SimpleCommand {
    /// The assignments before the program: names and values.
    pub(crate) assignments: Vec<(String, Word)>,
    /// The program and its arguments, with braces expanded.
    pub(crate) words: Vec<Word>,
    /// The files that it is connected with.
    pub(crate) redirections: Vec<Redirection>,
    /// The here-documents and here-strings that it reads.
    pub(crate) here: Vec<Word>,
    /// The commands whose output it reads through a pipe.
    pub(crate) fed_by: Range<usize>,
}

/// A redirection from or to a file.
#[derive(Debug, Clone)]
pub(crate) struct Redirection {
    /// Whether the file is written to.
    pub(crate) writes: bool,
    /// Whether the file is read.
    pub(crate) reads: bool,
    /// The path of the file.
    pub(crate) target: Word,
}

/// Why a text does not parse.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unparsed(pub(crate) &'static str);

/// Finds all simple commands of a text.
///
/// # Errors
/// The text is too long, is nested too deeply, or is not understood.
pub(crate) fn parse(text: &str) -> Result<Script, Unparsed> {
    if text.len() > MAX_LENGTH {
        return Err(Unparsed("the command is longer than 64 KiB"));
    }
    let mut script = Script::default();
    parser::Parser::new(text, 0, &mut script).script()?;
    if script.commands.len() > MAX_COMMANDS {
        script.doubts.push("the command line has more than 500 commands");
    }
    Ok(script)
}

/// Whether a command line may run a command that matches a pattern, wherever the command stands. A command line of which
/// not everything is known may. `None` if the pattern is not one plain command.
pub(crate) fn may_run(pattern: &str, command: &str) -> Option<bool> {
    let pattern = pattern::RunPattern::parse(pattern).ok()?;
    let machine = pattern::Machine { case_blind: false, search_path: &[] };
    let fits = |words: &[Word], opens| pattern.wide(words, opens, machine) > pattern::Fit::No;
    let parts = parts::Parts::of(&CommandLine::Shell(command.to_owned()), false);
    let mut commands = parts.commands.iter();
    Some(
        !parts.is_whole()
            || commands.any(|part| fits(&part.command.words, part.opens))
            || parts.raw.iter().any(|words| fits(words, true)),
    )
}
