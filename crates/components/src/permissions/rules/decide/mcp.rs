//! The arguments of a tool of an MCP server: they can only make the decision stricter.

use serde_json::Value;

use super::fit::{host_fit, run_fit};
use super::{Judge, example_path, shown, shown_words};
use crate::action::CommandLine;
use crate::permissions::command::files::Inside;
use crate::permissions::command::parts::Parts;
use crate::permissions::command::pattern::Fit;
use crate::permissions::rules::{Rule, Surroundings};

/// The most texts of the arguments that are compared.
const MAX_TEXTS: usize = 200;
/// The longest text of the arguments that is a path or an address.
const MAX_TEXT: usize = 4096;
/// The deepest nesting of the arguments.
const MAX_DEPTH: usize = 8;

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
        let mut texts = Vec::new();
        collect("", input, 0, &mut texts);
        let first = words_of(tool).into_iter().next().unwrap_or_default();
        let inside = match MOVING.contains(&first.as_str()) {
            true => Inside::Everything,
            false => Inside::Nothing,
        };
        for (key, text) in texts {
            let words = words_of(key);
            let is = |names: &[&str]| words.iter().any(|it| names.contains(&it.as_str()));
            if ["command", "cmd", "script"].contains(&key) {
                let args = input.get("args").and_then(Value::as_array);
                let args = args.into_iter().flatten().filter_map(Value::as_str);
                let args: Vec<String> = args.map(str::to_owned).collect();
                let command = match args.is_empty() {
                    true => CommandLine::Shell(text.to_owned()),
                    false => CommandLine::Program { program: text.to_owned(), args },
                };
                self.stricter_run(&Parts::of(&command, surroundings.windows_shell));
            } else if text.len() > MAX_TEXT {
                continue;
            }
            if text.contains("://") || is(&["url", "uri", "host", "hostname", "domain"]) {
                let fit = |rule: &Rule| host_fit(rule, text, true);
                let found = self.judge(&fit, true, || format!("the address `{}`", shown(text)));
                self.findings.extend(found);
            }
            if is(&PATH_KEYS)
                || words.iter().any(|it| PATH_KEYS.contains(&it.trim_end_matches('s')))
            {
                let path = text.strip_prefix("file://").unwrap_or(text);
                let path = example_path(path);
                self.path(&path, false, inside, false, true);
                if !READING.contains(&first.as_str()) {
                    self.path(&path, true, inside, false, true);
                }
            }
        }
    }

    /// Judges commands that are an argument: they need no rule that allows them.
    fn stricter_run(&mut self, parts: &Parts) {
        self.raw(parts);
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

/// The texts of the arguments, each with its key.
fn collect<'v>(key: &'v str, value: &'v Value, depth: usize, texts: &mut Vec<(&'v str, &'v str)>) {
    if depth > MAX_DEPTH || texts.len() == MAX_TEXTS {
        return;
    }
    match value {
        Value::String(text) => texts.push((key, text)),
        Value::Array(values) => values.iter().for_each(|it| collect(key, it, depth + 1, texts)),
        Value::Object(members) => {
            members.iter().for_each(|(key, it)| collect(key, it, depth + 1, texts));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
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
