//! Other names of commands: aliases of the shell and of git, `git-push`, texts that `env` splits, and what `xargs` adds.

use super::{Aliased, Parts, SimpleCommand, name_of};
use crate::permissions::command::words::Word;

/// The most aliases of a command line.
const MAX_ALIASES: usize = 20;
/// The most commands that aliases are put into.
const MAX_COMMANDS: usize = 100;

impl Parts {
    /// `git-push` is `git push`.
    pub(super) fn open_dashed(&mut self, command: &SimpleCommand) {
        for (at, word) in command.words.iter().enumerate() {
            let Some(name) = name_of(word) else { continue };
            let Some(git) = name.strip_prefix("git-").filter(|it| !it.is_empty()) else { continue };
            let mut words = vec![Word::of_text("git"), Word::of_text(git)];
            words.extend(command.words[at + 1..].iter().cloned());
            self.push(words);
            return;
        }
    }

    /// Notes the aliases that `alias name=value` defines.
    pub(super) fn note_aliases(&mut self, arguments: &[Word]) {
        for text in arguments.iter().map(Word::script_text) {
            if let Some((name, value)) = text.split_once('=') {
                self.aliases.push((Aliased::Shell, name.to_owned(), value.to_owned()));
            }
        }
    }

    /// The text of `env -S`, in which `\_` is a space.
    pub(super) fn open_split(&mut self, words: &[Word], level: usize) {
        let Some(env) = words.iter().position(|it| name_of(it).as_deref() == Some("env")) else {
            return;
        };
        let texts: Vec<String> = words[env + 1..].iter().map(Word::script_text).collect();
        for text in texts.iter().filter(|it| it.contains('\\')) {
            let mut plain = text.clone();
            for (escape, character) in [
                ("\\_", " "),
                ("\\t", "\t"),
                ("\\n", "\n"),
                ("\\f", " "),
                ("\\v", " "),
                ("\\r", "\n"),
            ] {
                plain = plain.replace(escape, character);
            }
            self.open_script(&plain, level + 1, true);
            if let Some((_, script)) =
                plain.split_once(['S', '=']).filter(|_| plain.starts_with('-'))
            {
                self.open_script(script, level + 1, true);
            }
        }
    }

    /// Puts the aliases of the command line into its commands. An alias may be defined after the command that uses it: in
    /// a loop, for example.
    pub(super) fn open_aliases(&mut self) {
        let mut aliases = std::mem::take(&mut self.aliases);
        if aliases.len() > MAX_ALIASES {
            self.doubt("it defines too many aliases");
            aliases.truncate(MAX_ALIASES);
        }
        if !aliases.is_empty() && self.commands.len() > MAX_COMMANDS {
            self.doubt("it has too many commands that may use its aliases");
        }
        let count = self.commands.len().min(MAX_COMMANDS);
        for (program, name, value) in aliases {
            for index in 0..count {
                let words = &self.commands[index].command.words;
                let rest = match program {
                    Aliased::Shell => {
                        words.first().filter(|it| it.text() == Some(&name)).map(|_| &words[1..])
                    }
                    Aliased::Git => git_arguments(words, &name),
                };
                let Some(rest) = rest.map(<[Word]>::to_vec) else { continue };
                if !self.spend_letters(value.len() + rest.len()) {
                    return;
                }
                let (is_script, value) = match value.strip_prefix('!') {
                    Some(script) if program == Aliased::Git => (true, script),
                    _ => (false, value.as_str()),
                };
                let mut words: Vec<Word> = match program {
                    Aliased::Git if !is_script => vec![Word::of_text("git")],
                    _ => Vec::new(),
                };
                words.extend(value.split_whitespace().map(Word::of_text));
                words.extend(rest.iter().cloned());
                let line: Vec<String> = words.iter().map(Word::script_text).collect();
                self.open_script(&line.join(" "), 1, true);
                self.push(words);
            }
        }
    }
}

/// The words of a command behind `git`, if they use an alias of this name. Any command may if the name is not known.
fn git_arguments<'w>(words: &'w [Word], name: &str) -> Option<&'w [Word]> {
    let git = words.iter().position(|it| name_of(it).as_deref() == Some("git"))?;
    let rest = &words[git + 1..];
    let uses = |it: &Word| it.text().is_none_or(|it| it.eq_ignore_ascii_case(name));
    (name.is_empty() || rest.iter().any(uses)).then_some(rest)
}

/// Whether `xargs` or `parallel` reads arguments that are not known.
pub(super) fn reads_unknown(command: &SimpleCommand, feeding: &[SimpleCommand]) -> bool {
    let printed = |it: &SimpleCommand| {
        let name = it.words.first().and_then(name_of).unwrap_or_default();
        ["echo", "printf"].contains(&name.as_str()) && !it.words.iter().any(super::is_unknown)
    };
    let has_file =
        command.words.iter().filter_map(Word::text).any(|it| {
            it.starts_with("-a") || it.starts_with("--arg-file") || it.starts_with("::::")
        });
    // With `:::`, `parallel` reads no input.
    let is_complete = command.words.iter().any(|it| it.text() == Some(":::"));
    let input_is_known =
        !feeding.is_empty() && feeding.iter().all(printed) || !command.here.is_empty();
    has_file || command.redirections.iter().any(|it| it.reads) || !is_complete && !input_is_known
}
