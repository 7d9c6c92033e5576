//! The parser of command lines: from text to simple commands.
//!
//! Compound commands are not kept as a tree. Every command counts, wherever it stands, so it is enough to know where
//! commands begin: after an operator, after a keyword, after an opening parenthesis or brace.

use std::ops::Range;

use super::braces::{self, Raw};
use super::words::{Unit, Word};
use super::{MAX_DEPTH, MAX_OPENERS, Script, SimpleCommand, Unparsed};

mod assignment;
mod evaluation;
mod expansion;
mod redirection;

pub(super) type Parsed<T> = Result<T, Unparsed>;

/// What a compound command ends with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opened {
    Parenthesis,
    Brace,
    Keyword,
    Case,
}

/// A compound command that is open.
#[derive(Debug)]
struct Frame {
    opened: Opened,
    /// The pipeline in which the compound command stands.
    pipeline: Pipeline,
}

/// The pipeline that is read.
#[derive(Debug, Clone)]
struct Pipeline {
    /// The first command of the pipeline.
    start: usize,
    /// The commands whose output the next command reads.
    fed_by: Range<usize>,
}

/// A here-document whose text follows the current line.
#[derive(Debug)]
struct HereDocument {
    command: usize,
    delimiter: String,
    quoted: bool,
    strip_tabs: bool,
}

/// Reads a text. Commands are added to the script in the order in which they end.
#[derive(Debug)]
pub(super) struct Parser<'t, 's> {
    pub(super) text: &'t str,
    pub(super) at: usize,
    pub(super) depth: usize,
    pub(super) script: &'s mut Script,
    openers: usize,
    here_documents: Vec<HereDocument>,
    /// Whether a here-document of an outer list waits for its text.
    outer_document: bool,
    /// What stands before the current position.
    before: Before,
}

/// What stands before a position in a list of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// The beginning of a list, a keyword, `;`, `&` or a new line: a command may follow.
    Start,
    /// A command: an operator may follow.
    Command,
    /// `&&`, `||` or `|`: a command must follow.
    Connector,
}

impl<'t, 's> Parser<'t, 's> {
    pub(super) fn new(text: &'t str, depth: usize, script: &'s mut Script) -> Self {
        Parser {
            text,
            at: 0,
            depth,
            script,
            openers: 0,
            here_documents: Vec::new(),
            outer_document: false,
            before: Before::Start,
        }
    }

    /// Reads the whole text.
    pub(super) fn script(&mut self) -> Parsed<()> {
        if joins_text(self.text) {
            return Err(Unparsed("a line is continued in the middle of a word or an operator"));
        }
        self.list()?;
        if self.at < self.text.len() {
            return Err(Unparsed("a closing parenthesis has no opening one"));
        }
        Ok(())
    }

    /// Runs a step one level deeper.
    pub(super) fn deeper<T>(&mut self, step: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if self.depth >= MAX_DEPTH {
            return Err(Unparsed("the command line is nested too deeply"));
        }
        self.depth += 1;
        let result = step(self);
        self.depth -= 1;
        result
    }

    /// The next character.
    pub(super) fn peek(&self) -> Option<char> {
        self.text[self.at..].chars().next()
    }

    pub(super) fn looking_at(&self, text: &str) -> bool {
        self.text[self.at..].starts_with(text)
    }

    pub(super) fn skip(&mut self, text: &str) -> bool {
        let found = self.looking_at(text);
        if found {
            self.at += text.len();
        }
        found
    }

    /// Skips spaces, tabs and continued lines.
    fn skip_blanks(&mut self) {
        while self.skip(" ") || self.skip("\t") || self.skip("\\\n") {}
    }

    fn skip_blanks_and_lines(&mut self) -> Parsed<()> {
        loop {
            self.skip_blanks();
            match self.peek() {
                Some('\n') => self.newline()?,
                Some('#') => self.comment(),
                _ => return Ok(()),
            }
        }
    }

    fn comment(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.find('\n').unwrap_or(rest.len());
    }

    /// Counts something that must be closed again.
    fn open(&mut self) -> Parsed<()> {
        self.openers += 1;
        match self.openers > MAX_OPENERS {
            true => Err(Unparsed("the command line has more than 100 groups and substitutions")),
            false => Ok(()),
        }
    }

    /// Reads commands until the end, or until the parenthesis that closes a substitution.
    pub(super) fn list(&mut self) -> Parsed<()> {
        let outer_documents = std::mem::take(&mut self.here_documents);
        let outer_document = self.outer_document;
        let outer_before = std::mem::replace(&mut self.before, Before::Start);
        self.outer_document |= !outer_documents.is_empty();
        let mut frames: Vec<Frame> = Vec::new();
        let mut pipeline = self.new_pipeline(0..0);
        loop {
            self.skip_blanks();
            let Some(next) = self.peek() else { break };
            match next {
                '\n' | ';' | '&' | '|' if self.operator(&mut frames, &mut pipeline)? => {}
                '#' => self.comment(),
                ')' => match frames.pop_if(|it| it.opened == Opened::Parenthesis) {
                    Some(frame) => {
                        self.at += 1;
                        pipeline = frame.pipeline;
                        self.end_of_command()?;
                        self.trailing_redirections(&pipeline)?;
                    }
                    None => break,
                },
                _ => self.command(&mut frames, &mut pipeline)?,
            }
        }
        if !frames.is_empty() || self.before == Before::Connector {
            return Err(Unparsed("a group, a compound command or a list does not end"));
        }
        self.before = outer_before;
        self.read_here_documents()?;
        self.here_documents = outer_documents;
        self.outer_document = outer_document;
        Ok(())
    }

    fn new_pipeline(&self, fed_by: Range<usize>) -> Pipeline {
        Pipeline { start: self.script.commands.len(), fed_by }
    }

    /// What the commands in the innermost compound command read if there is no pipe.
    fn input_of(frames: &[Frame]) -> Range<usize> {
        frames.last().map_or(0..0, |frame| frame.pipeline.fed_by.clone())
    }

    /// Notes that a command ends here.
    fn end_of_command(&mut self) -> Parsed<()> {
        match std::mem::replace(&mut self.before, Before::Command) {
            Before::Connector => Err(Unparsed("an operator stands where a command is expected")),
            _ => Ok(()),
        }
    }

    /// Reads an operator between commands. Returns false if it is not one, but begins a redirection.
    fn operator(&mut self, frames: &mut [Frame], pipeline: &mut Pipeline) -> Parsed<bool> {
        if self.looking_at("&>") {
            return Ok(false);
        }
        if self.peek() == Some('\n') {
            self.newline()?;
            if self.before == Before::Connector {
                return Ok(true);
            }
            self.before = Before::Start;
        } else if self.skip(";;&") || self.skip(";;") || self.skip(";&") {
            self.before = Before::Start;
            if frames.last().is_some_and(|it| it.opened == Opened::Case) {
                *pipeline = self.new_pipeline(Self::input_of(frames));
                self.case_patterns()?;
                return Ok(true);
            }
            return Err(Unparsed("`;;` stands outside of `case`"));
        } else if self.before != Before::Command {
            return Err(Unparsed("an operator stands where a command is expected"));
        } else if self.skip("&&") || self.skip("||") {
            self.before = Before::Connector;
        } else if self.skip("|&") || self.skip("|") {
            self.before = Before::Connector;
            pipeline.fed_by = pipeline.start..self.script.commands.len();
            return Ok(true);
        } else {
            self.at += 1;
            self.before = Before::Start;
        }
        *pipeline = self.new_pipeline(Self::input_of(frames));
        Ok(true)
    }

    fn newline(&mut self) -> Parsed<()> {
        if self.outer_document {
            return Err(Unparsed("a here-document begins before a substitution ends"));
        }
        self.at += 1;
        self.read_here_documents()
    }

    /// Reads a command, or the keyword before a command.
    fn command(&mut self, frames: &mut Vec<Frame>, pipeline: &mut Pipeline) -> Parsed<()> {
        let keyword = self.bare_word();
        let continues =
            ["then", "do", "else", "elif", "fi", "done", "esac", "}"].contains(&keyword);
        if self.before == Before::Command && !continues {
            return Err(Unparsed("a command follows another one without an operator"));
        }
        let start = self.at;
        if self.looking_at("((") && self.arithmetic_command()? {
            self.before = Before::Command;
            let inside = self.text[start + 2..self.at - 2].to_owned();
            self.ambiguous(inside);
            return self.trailing_redirections(pipeline);
        }
        if self.skip("(") {
            return self.open_frame(Opened::Parenthesis, frames, pipeline);
        }
        match keyword {
            "!" | "then" | "do" | "else" | "elif" => {
                self.at += keyword.len();
                if keyword != "!" {
                    self.before = Before::Start;
                    *pipeline = self.new_pipeline(Self::input_of(frames));
                }
            }
            "time" => {
                self.at += keyword.len();
                self.skip_blanks();
                if self.bare_word() == "-p" {
                    self.at += 2;
                }
            }
            "{" => self.keyword(keyword, Opened::Brace, frames, pipeline)?,
            "if" | "while" | "until" => {
                self.script.repeats |= keyword != "if";
                self.keyword(keyword, Opened::Keyword, frames, pipeline)?;
            }
            "for" | "select" => {
                self.script.repeats = true;
                self.keyword(keyword, Opened::Keyword, frames, pipeline)?;
                self.loop_words()?;
            }
            "case" => {
                self.keyword(keyword, Opened::Case, frames, pipeline)?;
                self.case_head()?;
            }
            "}" => self.close(keyword, Opened::Brace, frames, pipeline)?,
            "fi" | "done" => self.close(keyword, Opened::Keyword, frames, pipeline)?,
            "esac" => self.close(keyword, Opened::Case, frames, pipeline)?,
            "[[" => {
                self.at += 2;
                self.before = Before::Command;
                self.test(pipeline)?;
            }
            "function" => {
                self.script.repeats = true;
                self.at += keyword.len();
                self.skip_blanks();
                self.word(true)?;
                self.function_parentheses();
            }
            "coproc" => self.coprocess(),
            _ => return self.simple_command(pipeline),
        }
        Ok(())
    }

    fn keyword(
        &mut self,
        keyword: &str,
        opened: Opened,
        frames: &mut Vec<Frame>,
        pipeline: &mut Pipeline,
    ) -> Parsed<()> {
        self.at += keyword.len();
        self.open_frame(opened, frames, pipeline)
    }

    fn open_frame(
        &mut self,
        opened: Opened,
        frames: &mut Vec<Frame>,
        pipeline: &mut Pipeline,
    ) -> Parsed<()> {
        self.open()?;
        self.before = Before::Start;
        let inner = self.new_pipeline(pipeline.fed_by.clone());
        frames.push(Frame { opened, pipeline: std::mem::replace(pipeline, inner) });
        Ok(())
    }

    fn close(
        &mut self,
        keyword: &str,
        opened: Opened,
        frames: &mut Vec<Frame>,
        pipeline: &mut Pipeline,
    ) -> Parsed<()> {
        let Some(frame) = frames.pop_if(|it| it.opened == opened) else {
            return Err(Unparsed("a keyword ends a compound command that is not open"));
        };
        self.at += keyword.len();
        *pipeline = frame.pipeline;
        self.end_of_command()?;
        self.trailing_redirections(pipeline)
    }

    /// The characters up to the next one that ends a word.
    fn bare_word(&self) -> &'t str {
        let rest = &self.text[self.at..];
        let end = rest.find([' ', '\t', '\n', ';', '&', '|', '(', ')', '<', '>']);
        &rest[..end.unwrap_or(rest.len())]
    }

    /// `coproc NAME { …` or `coproc command …`.
    fn coprocess(&mut self) {
        self.at += "coproc".len();
        self.skip_blanks();
        let start = self.at;
        let name = self.bare_word();
        let is_name =
            !name.is_empty() && name.chars().all(|it| it.is_ascii_alphanumeric() || it == '_');
        self.at += name.len();
        self.skip_blanks();
        let compound = ["{", "if", "while", "until", "for", "case", "select", "[["];
        let follows = self.peek() == Some('(') || compound.contains(&self.bare_word());
        if !is_name || !follows || compound.contains(&name) {
            self.at = start;
            return;
        }
        self.note_variable(name);
    }

    /// `name ()` begins the definition of a function. Its body is a command like any other.
    fn function_parentheses(&mut self) -> bool {
        let start = self.at;
        self.skip_blanks();
        if self.skip("(") {
            self.skip_blanks();
            if self.skip(")") {
                return true;
            }
        }
        self.at = start;
        false
    }

    /// The words of `for name in words`, or the arithmetic of `for ((…))`.
    fn loop_words(&mut self) -> Parsed<()> {
        self.skip_blanks();
        self.before = Before::Command;
        let mut head = SimpleCommand::default();
        if self.looking_at("((") {
            let start = self.at;
            return match self.arithmetic_command()? {
                true => {
                    self.note_variables(start);
                    Ok(())
                }
                false => Err(Unparsed("the head of a loop is not understood")),
            };
        }
        let name = self.word(true)?;
        self.note_variable(name.text().unwrap_or_default());
        self.skip_blanks_and_lines()?;
        if self.bare_word() == "in" {
            self.at += 2;
            self.words_until_operator(&mut head)?;
            self.script.values.push(head.words);
        }
        match head.redirections.is_empty() {
            true => Ok(()),
            false => Err(Unparsed("the head of a loop is not understood")),
        }
    }

    fn case_head(&mut self) -> Parsed<()> {
        self.skip_blanks();
        self.word(true)?;
        self.skip_blanks_and_lines()?;
        if self.bare_word() != "in" {
            return Err(Unparsed("the head of `case` is not understood"));
        }
        self.at += 2;
        self.case_patterns()
    }

    /// Reads the patterns of a `case` up to their parenthesis. Reads nothing before `esac`.
    fn case_patterns(&mut self) -> Parsed<()> {
        self.skip_blanks_and_lines()?;
        if self.bare_word() == "esac" {
            return Ok(());
        }
        self.skip("(");
        loop {
            self.skip_blanks();
            self.word(true)?;
            self.skip_blanks();
            if self.skip(")") {
                return Ok(());
            }
            if !self.skip("|") {
                return Err(Unparsed("a pattern of `case` is not understood"));
            }
        }
    }

    /// Redirections after a compound command.
    fn trailing_redirections(&mut self, pipeline: &Pipeline) -> Parsed<()> {
        let mut command =
            SimpleCommand { fed_by: pipeline.fed_by.clone(), ..SimpleCommand::default() };
        let documents = self.here_documents.len();
        self.skip_blanks();
        while self.redirection(&mut command)? {
            self.skip_blanks();
        }
        if !command.redirections.is_empty()
            || !command.here.is_empty()
            || self.here_documents.len() > documents
        {
            self.finish(command);
        }
        Ok(())
    }

    fn finish(&mut self, command: SimpleCommand) {
        let index = self.script.commands.len();
        for document in self.here_documents.iter_mut().filter(|it| it.command == usize::MAX) {
            document.command = index;
        }
        self.script.commands.push(command);
    }

    fn simple_command(&mut self, pipeline: &Pipeline) -> Parsed<()> {
        let start = self.at;
        let mut command =
            SimpleCommand { fed_by: pipeline.fed_by.clone(), ..SimpleCommand::default() };
        loop {
            self.skip_blanks();
            if self.redirection(&mut command)? {
                continue;
            }
            match self.peek() {
                Some(next) if !is_operator(next) => {}
                _ => break,
            }
            if command.words.is_empty() && self.assignment(&mut command)? {
                continue;
            }
            break;
        }
        self.words_until_operator(&mut command)?;
        if self.at == start {
            return Err(Unparsed("an operator stands where a command is expected"));
        }
        if command.words.len() == 1 && self.function_parentheses() {
            self.script.repeats = true;
            self.before = Before::Start;
            return Ok(());
        }
        self.before = Before::Command;
        if self.peek() == Some('(') {
            return Err(Unparsed("a parenthesis stands in an argument"));
        }
        self.finish(command);
        Ok(())
    }

    /// Reads words and redirections up to the next operator.
    fn words_until_operator(&mut self, command: &mut SimpleCommand) -> Parsed<()> {
        loop {
            self.skip_blanks();
            if self.redirection(command)? {
                continue;
            }
            match self.peek() {
                Some('#') => {
                    self.comment();
                    return Ok(());
                }
                Some('(') if self.array_follows(command) => self.array()?,
                Some('<' | '>') => self.words_of(command)?,
                Some(next) if !is_operator(next) => self.words_of(command)?,
                _ => return Ok(()),
            }
        }
    }

    /// Reads one word, which may become several by its braces.
    fn words_of(&mut self, command: &mut SimpleCommand) -> Parsed<()> {
        let start = self.at;
        let (raw, mut word) = self.raw_word()?;
        if !raw.iter().any(|it| matches!(it, Raw::Mark(_))) {
            word.units = braces::expand(&raw).pop().unwrap_or_default();
            command.words.push(word);
            return Ok(());
        }
        if self.looking_at("<") || self.looking_at(">") {
            // `{name}>file` sets the variable.
            self.note_variables(start);
            if self.text[start..self.at].contains('[') {
                self.note_evaluation();
            }
        }
        for units in braces::expand(&raw) {
            let splits = word.splits || units.contains(&Unit::Unknown);
            command.words.push(Word { units, tilde: word.tilde, splits });
        }
        Ok(())
    }
}

/// Whether a continued line stands directly behind other text. The shell joins both before it reads them: `$\⏎(` is one
/// operator. Behind a blank, nothing is joined.
fn joins_text(text: &str) -> bool {
    text.match_indices("\\\n").any(|(at, _)| {
        let before = text[..at].trim_end_matches('\\');
        let is_escaped = (at - before.len()) % 2 == 1;
        let is_apart = before.is_empty() || before.ends_with([' ', '\t', '\n']);
        !(is_escaped || is_apart && before.len() == at)
    })
}

/// Whether a character ends a simple command.
fn is_operator(character: char) -> bool {
    matches!(character, '\n' | ';' | '&' | '|' | '(' | ')' | '<' | '>')
}
