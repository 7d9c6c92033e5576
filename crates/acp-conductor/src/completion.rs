//! Completion in shells: `conductor completions SHELL` prints a script, and the script runs `conductor complete`.
//!
//! - here: from the words of a command line to the lines that a script reads
//! - `line`: splits a command line that is not complete
//! - `values`: the values of options and components

mod line;
mod values;

use std::ffi::OsString;

use clap::ValueEnum;
use clap_complete::CompletionCandidate;

use line::{PartialLine, split};

/// A shell that has a completion script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
    Powershell,
    Elvish,
}

impl Shell {
    /// The completion script.
    pub fn script(self) -> &'static str {
        match self {
            Shell::Bash => include_str!("completion/conductor.bash"),
            Shell::Zsh => include_str!("completion/conductor.zsh"),
            Shell::Fish => include_str!("completion/conductor.fish"),
            Shell::Powershell => include_str!("completion/conductor.ps1"),
            Shell::Elvish => include_str!("completion/conductor.elv"),
        }
    }
}

/// The candidates for the last word, one in each line, with a tab before a description. The script of each shell passes
/// the command line in its own way.
pub fn complete(shell: Shell, mut arguments: Vec<String>) -> String {
    let last = arguments.pop().unwrap_or_default();
    let line = match shell {
        // The whole line up to the cursor.
        Shell::Bash => {
            let breaks = std::env::var("COMP_WORDBREAKS");
            split(&last, breaks.as_deref().unwrap_or(" \t\n\"'><=;|&(:"))
        }
        // The shell has removed the quotes of the words before the last.
        Shell::Fish => PartialLine { words: arguments, ..split(&last, "") },
        Shell::Powershell => {
            let last = last.strip_prefix('=').unwrap_or(&last);
            PartialLine { words: arguments, ..split(last, "") }
        }
        // The shell has removed all quotes.
        Shell::Zsh | Shell::Elvish => PartialLine::unquoted(arguments, last),
    };
    let mut text = String::new();
    for candidate in candidates(&line) {
        let value = candidate.get_value().to_string_lossy().into_owned();
        if value.contains(char::is_control) {
            continue;
        }
        let Some(value) = quote(shell, &line, value) else { continue };
        text.push_str(&value);
        let help = candidate.get_help().map(ToString::to_string).unwrap_or_default();
        if shell != Shell::Bash && !help.is_empty() {
            let first = help.lines().next().unwrap_or_default();
            text.push('\t');
            text.push_str(first.trim_end_matches('.'));
        }
        text.push('\n');
    }
    text
}

fn candidates(line: &PartialLine) -> Vec<CompletionCandidate> {
    let mut command = values::command(&line.words);
    let words = line.words.iter().chain([&line.current]);
    let words: Vec<OsString> = words.map(OsString::from).collect();
    let (last, directory) = (words.len() - 1, std::env::current_dir().ok());
    let found = clap_complete::engine::complete(&mut command, words, last, directory.as_deref());
    let mut found = found.unwrap_or_default();
    // Options are offered when the user types a hyphen, or if there is nothing else.
    let is_option = |it: &CompletionCandidate| it.get_value().to_string_lossy().starts_with('-');
    if line.current.is_empty() && !found.iter().all(is_option) {
        found.retain(|it| !is_option(it));
    }
    found
}

/// The value as the shell inserts it in place of the word. `None` if it cannot be written with the quotes of the word.
fn quote(shell: Shell, line: &PartialLine, value: String) -> Option<String> {
    match shell {
        // These shells quote values themselves.
        Shell::Zsh | Shell::Fish | Shell::Elvish => Some(value),
        Shell::Powershell => {
            let is_plain = |it: char| it.is_alphanumeric() || "-_./\\:=+%~".contains(it);
            match value.chars().all(is_plain) {
                true => Some(value),
                false => Some(format!("'{}'", value.replace('\'', "''"))),
            }
        }
        // Bash replaces only the part of the word after a quotation mark or a word break.
        Shell::Bash => {
            let (before, _) = line.current.split_at(line.begin);
            let rest = value.strip_prefix(before)?;
            match line.quote {
                Some('\'') => (!rest.contains('\'')).then(|| rest.to_owned()),
                Some(_) => Some(escape(rest, |it| "\"\\$`".contains(it))),
                None => Some(escape(rest, |it| " \t\"'\\$`&|;<>()*?[]#~!{}".contains(it))),
            }
        }
    }
}

fn escape(text: &str, is_special: impl Fn(char) -> bool) -> String {
    let escaped = text.chars().map(|it| match is_special(it) {
        true => format!("\\{it}"),
        false => it.to_string(),
    });
    escaped.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bash(line: &str) -> Vec<String> {
        let text = complete(Shell::Bash, vec![line.to_owned()]);
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn quotes_and_word_breaks_of_bash_are_kept() {
        assert_eq!(bash("conductor agent 'sparkle --hi"), ["sparkle --hide"]);
        assert_eq!(bash("conductor agent \"sparkle --hi"), ["sparkle --hide"]);
        assert_eq!(bash(r"conductor agent sparkle\ --hi"), [r"sparkle\ --hide"]);
        assert_eq!(bash("conductor agent builtin:spar"), ["sparkle"]);
        assert_eq!(bash("conductor agent --mcp-bridge=st"), ["stdio"]);
        assert_eq!(bash("conductor agent --dialect 1=p5 --mcp-bridge st"), ["stdio"]);
    }

    #[test]
    fn every_command_option_and_value_is_offered_to_every_shell() {
        for shell in [Shell::Zsh, Shell::Fish, Shell::Powershell, Shell::Elvish] {
            let offered = |words: &[&str]| {
                let mut words: Vec<String> = words.iter().map(|it| (*it).to_owned()).collect();
                if let (Shell::Powershell, Some(last)) = (shell, words.last_mut()) {
                    last.insert(0, '=');
                }
                complete(shell, words)
            };
            let commands = offered(&["conductor", ""]);
            assert!(commands.starts_with("try\tChat with"), "{commands}");
            assert!(!commands.contains("relay") && !commands.contains("mcp"), "{commands}");
            assert_eq!(offered(&["conductor", "rela"]), "");
            assert!(offered(&["conductor", "agent", "--grac"]).starts_with("--grace\tThe grace"));
            assert!(offered(&["conductor", "component", ""]).contains("sparkle\t"));
            let level = offered(&["conductor", "component", "log", "--level", "tr"]);
            assert_eq!(level, "trace\n");
        }
    }
}
