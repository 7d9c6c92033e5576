//! The arguments of a tool of an MCP server: they can only make the decision stricter.

use serde_json::Value;

use super::fit::{host_fit, run_fit};
use super::{Judge, example_path, shown, shown_words};
use crate::action::CommandLine;
use crate::permissions::command::files::Inside;
use crate::permissions::command::parts::Parts;
use crate::permissions::command::pattern::Fit;
use crate::permissions::rules::url::local_file;
use crate::permissions::rules::{Decision, Rule, Surroundings};

/// The most texts of the arguments that are compared.
const MAX_TEXTS: usize = 2000;
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
        for command in &arguments.commands {
            self.stricter_run(&Parts::of(command, surroundings.windows_shell));
        }
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

    /// Judges commands that are an argument: they need no rule that allows them.
    fn stricter_run(&mut self, parts: &Parts) {
        let is_strict = |it: &&Rule| it.decision != Decision::Allow && it.has_targets();
        if self.rules.iter().any(is_strict) {
            parts.doubts.iter().for_each(|it| self.doubt(it));
        }
        self.raw(parts);
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
    commands: Vec<CommandLine>,
    /// Whether there is more.
    is_cut: bool,
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
        if depth > MAX_DEPTH || self.commands.len() >= MAX_TEXTS {
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
                let is_command =
                    |key: &str| words_of(key).iter().any(|it| COMMAND_KEYS.contains(&it.as_str()));
                let mut has_command = false;
                for (_, value) in members.iter().filter(|(key, _)| is_command(key)) {
                    has_command = true;
                    self.add_command(value, &args);
                }
                // A tool that is called like the program.
                if !has_command && !args.is_empty() {
                    self.add_program(tool.to_owned(), args);
                }
                members.values().for_each(|it| self.collect_commands(tool, it, depth + 1));
            }
            _ => {}
        }
    }

    fn add_command(&mut self, value: &Value, args: &[String]) {
        match value {
            Value::String(text) if args.is_empty() => {
                self.commands.push(CommandLine::Shell(text.clone()));
            }
            Value::String(text) => self.add_program(text.clone(), args.to_vec()),
            Value::Array(values) => {
                // The list is one command, or each element is one.
                let words: Vec<String> =
                    values.iter().filter_map(Value::as_str).map(str::to_owned).collect();
                let lines = words.iter().filter(|it| it.contains(char::is_whitespace));
                let lines: Vec<_> = lines.cloned().map(CommandLine::Shell).collect();
                self.is_cut |= words.len() > MAX_TEXTS;
                self.commands.extend(lines.into_iter().take(MAX_TEXTS));
                if let Some((program, rest)) = words.split_first() {
                    self.add_program(program.clone(), [rest, args].concat());
                }
            }
            _ => {}
        }
    }

    fn add_program(&mut self, program: String, args: Vec<String>) {
        self.commands.push(CommandLine::Program { program, args });
    }
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
