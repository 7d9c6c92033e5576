//! The arguments of a tool of an MCP server: they can only make the decision stricter.

use serde_json::Value;

use super::fit::{host_fit, run_fit};
use super::{Judge, example_path, shown, shown_words};
use crate::permissions::command::files::Inside;
use crate::permissions::command::parts::Parts;
use crate::permissions::command::pattern::Fit;
use crate::permissions::command::raw;
use crate::permissions::command::words::Word;
use crate::permissions::rules::url::local_file;
use crate::permissions::rules::{Decision, Rule, Surroundings};
use component_base::action::CommandLine;

/// The most texts of the arguments that are compared.
const MAX_TEXTS: usize = 2000;
/// The most words of arguments that stand beside programs, counted once for each program.
const MAX_WORDS: usize = 100_000;
/// How many letters of an argument count as one more word.
const LETTERS: usize = 64;
/// The longest path that a program can open.
const MAX_PATH: usize = 4096;
/// The deepest nesting of the arguments.
const MAX_DEPTH: usize = 32;

/// Words of keys whose values are programs or command lines.
const COMMAND_KEYS: [&str; 12] = [
    "command",
    "commands",
    "cmd",
    "cmds",
    "script",
    "shell",
    "program",
    "executable",
    "exec",
    "argv",
    "cmdline",
    "bash",
];
/// The word of keys whose values are code, but not always of a shell.
const CODE_KEY: &str = "script";
/// Keys whose values are the arguments of a program.
const ARGUMENT_KEYS: [&str; 6] = ["args", "arguments", "argv", "parameters", "params", "argument"];
/// Words of keys whose values are paths.
const PATH_KEYS: [&str; 17] = [
    "path",
    "file",
    "dir",
    "folder",
    "source",
    "src",
    "destination",
    "dest",
    "dst",
    "target",
    "from",
    "to",
    "uri",
    "output",
    "input",
    "location",
    "filename",
];
/// First words of the names of tools that do not change files.
const READING: [&str; 17] = [
    "read", "get", "list", "search", "find", "view", "stat", "show", "head", "tail", "cat", "grep",
    "glob", "open", "fetch", "tree", "describe",
];
/// First words of the names of tools that change all files in a folder.
const MOVING: [&str; 5] = ["move", "rename", "delete", "remove", "rm"];

impl Judge<'_> {
    /// Compares paths, addresses and commands in the arguments of a tool with the rules that deny or ask.
    pub(super) fn arguments_of_mcp(
        &mut self,
        tool: &str,
        input: &Value,
        surroundings: &Surroundings,
    ) {
        let mut arguments = Arguments::default();
        arguments.collect("", input, 0);
        arguments.collect_commands(tool, input, 0);
        if arguments.is_cut && self.rules.iter().any(|it| it.has_targets()) {
            self.doubt("its arguments are too many, or nested too deeply");
        }
        for Command { line, is_code } in &arguments.commands {
            self.stricter_run(&Parts::of(line, surroundings.windows_shell), *is_code);
        }
        self.raw(&arguments.beyond);
        let first = words_of(tool).into_iter().next().unwrap_or_default();
        let inside = match MOVING.contains(&first.as_str()) {
            true => Inside::Everything,
            false => Inside::Nothing,
        };
        for (key, text) in arguments.texts {
            let words = words_of(key);
            let is = |names: &[&str]| words.iter().any(|it| names.contains(&it.as_str()));
            if text.contains("://") || is(&["url", "uri", "host", "hostname", "domain"]) {
                let fit = |rule: &Rule| host_fit(rule, text, true);
                let found = self.judge(&fit, true, || format!("the address `{}`", shown(text)));
                self.findings.extend(found);
            }
            let local = local_file(text);
            let is_path = is(&PATH_KEYS)
                || words.iter().any(|it| PATH_KEYS.contains(&it.trim_end_matches('s')));
            if !is_path && local.is_none() || !self.has_paths() {
                continue;
            }
            // A text of several lines is content and not a path.
            let is_unclear = local.as_ref().is_some_and(|it| !it.is_clear);
            if is_unclear || text.len() > MAX_PATH && !text.contains('\n') {
                self.doubt("it is not clear which file an argument names");
            }
            let path = example_path(local.as_ref().map_or(text, |it| it.path.as_str()));
            self.path(&path, false, inside, false, true);
            if !READING.contains(&first.as_str()) {
                self.path(&path, true, inside, false, true);
            }
        }
        self.note_unseen();
    }

    /// Judges commands that are an argument: they need no rule that allows them. Code in another language than the
    /// shell's does not parse, which says nothing about it.
    fn stricter_run(&mut self, parts: &Parts, is_code: bool) {
        let is_strict = |it: &&Rule| it.decision != Decision::Allow && it.has_targets();
        if !is_code && self.rules.iter().any(is_strict) {
            parts.doubts.iter().for_each(|it| self.doubt(it));
        }
        self.raw(&parts.raw);
        self.named_in_code(parts);
        let machine = self.machine;
        for part in &parts.commands {
            let fit = |rule: &Rule| match rule.has_targets() {
                true => run_fit(rule, part, machine),
                false => Fit::No,
            };
            let words = &part.command.words;
            let found = self.judge(&fit, true, || format!("the command `{}`", shown_words(words)));
            self.findings.extend(found);
            for redirection in &part.command.redirections {
                self.path(&redirection.target, redirection.writes, Inside::Nothing, true, true);
            }
            self.arguments(part);
        }
    }
}

/// The arguments of a tool.
#[derive(Debug, Default)]
struct Arguments<'v> {
    /// The texts, each with its key.
    texts: Vec<(&'v str, &'v str)>,
    /// The commands that the arguments may be.
    commands: Vec<Command>,
    /// How many words the arguments beside programs have, counted once for each program.
    words: usize,
    /// The words of the commands behind the limits.
    beyond: Vec<Vec<Word>>,
    /// Whether there is more.
    is_cut: bool,
}

/// A command that an argument may be.
#[derive(Debug)]
struct Command {
    line: CommandLine,
    /// Whether it may be code of another language than the shell's.
    is_code: bool,
}

impl<'v> Arguments<'v> {
    /// Adds the texts of a value.
    fn collect(&mut self, key: &'v str, value: &'v Value, depth: usize) {
        if depth > MAX_DEPTH || self.texts.len() == MAX_TEXTS {
            self.is_cut = true;
            return;
        }
        match value {
            Value::String(text) => self.texts.push((key, text)),
            Value::Array(values) => values.iter().for_each(|it| self.collect(key, it, depth + 1)),
            Value::Object(members) => {
                members.iter().for_each(|(key, it)| self.collect(key, it, depth + 1));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Adds the commands that a value may contain: a text, a list of words, or a program beside its arguments.
    fn collect_commands(&mut self, tool: &str, value: &Value, depth: usize) {
        if depth > MAX_DEPTH {
            self.is_cut = true;
            return;
        }
        match value {
            Value::Array(values) => {
                values.iter().for_each(|it| self.collect_commands(tool, it, depth + 1));
            }
            Value::Object(members) => {
                let args = members
                    .iter()
                    .filter(|(key, _)| ARGUMENT_KEYS.contains(&key.to_lowercase().as_str()));
                let args: Vec<String> = args.flat_map(|(_, it)| words_of_value(it)).collect();
                let mut has_command = false;
                let mut beyond = Vec::new();
                for (key, value) in members {
                    let mut words = words_of(key);
                    words.retain(|it| COMMAND_KEYS.contains(&it.as_str()));
                    if words.is_empty() {
                        continue;
                    }
                    has_command = true;
                    match self.is_full() {
                        true => beyond.extend(searched(value)),
                        false => {
                            self.add_command(value, &args, words.iter().all(|it| it == CODE_KEY));
                        }
                    }
                }
                // A tool that is called like the program.
                if !has_command && !args.is_empty() {
                    match self.is_full() {
                        true => beyond.push(Word::of_text(tool)),
                        false => self.add_program(tool, &args, false),
                    }
                }
                if !beyond.is_empty() {
                    beyond.extend(args.iter().map(Word::of_text));
                    self.beyond.push(beyond);
                }
                members.values().for_each(|it| self.collect_commands(tool, it, depth + 1));
            }
            _ => {}
        }
    }

    /// Whether there are so many commands that only the words of further ones are searched.
    fn is_full(&mut self) -> bool {
        let is_full = self.commands.len() >= MAX_TEXTS || self.words >= MAX_WORDS;
        self.is_cut |= is_full;
        is_full
    }

    fn add_command(&mut self, value: &Value, args: &[String], is_code: bool) {
        match value {
            Value::String(text) if args.is_empty() => {
                self.commands.push(Command { line: CommandLine::Shell(text.clone()), is_code });
            }
            Value::String(text) => self.add_program(text, args, is_code),
            Value::Array(values) => {
                // The list is one command, or each element is one.
                let words: Vec<String> =
                    values.iter().filter_map(Value::as_str).map(str::to_owned).collect();
                for line in words.iter().filter(|it| it.contains(char::is_whitespace)) {
                    match self.is_full() {
                        true => self.beyond.extend(raw::commands(line)),
                        false => {
                            let line = CommandLine::Shell(line.clone());
                            self.commands.push(Command { line, is_code });
                        }
                    }
                }
                if let Some((program, rest)) = words.split_first() {
                    self.add_program(program, &[rest, args].concat(), is_code);
                }
            }
            _ => {}
        }
    }

    fn add_program(&mut self, program: &str, args: &[String], is_code: bool) {
        self.words += args.iter().map(|it| 1 + it.len() / LETTERS).sum::<usize>();
        let line = CommandLine::Program { program: program.to_owned(), args: args.to_vec() };
        self.commands.push(Command { line, is_code });
    }
}

/// The words of a command behind the limits.
fn searched(value: &Value) -> Vec<Word> {
    let texts = match value {
        Value::Array(values) => values.as_slice(),
        value => std::slice::from_ref(value),
    };
    texts.iter().filter_map(Value::as_str).flat_map(raw::commands).flatten().collect()
}

/// The words that arguments are: a list of texts, or one text that has them all.
fn words_of_value(value: &Value) -> Vec<String> {
    match value {
        Value::String(text) => text.split_whitespace().map(str::to_owned).collect(),
        Value::Array(values) => {
            values.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        }
        _ => Vec::new(),
    }
}

/// The words of a name, in lower case: `oldPath`, `old_path` and `old-path` have the same.
fn words_of(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for character in name.chars() {
        let begins = character.is_uppercase() && before.is_lowercase();
        if begins || !character.is_alphanumeric() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| character.is_alphanumeric()) {
            word.extend(character.to_lowercase());
        }
        before = character;
    }
    words.retain(|it| !it.is_empty());
    words
}
