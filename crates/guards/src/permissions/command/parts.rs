//! The parts of a command line that rules decide about.

use self::budget::Spent;
use super::programs::{self, plain_name};
use super::words::{Unit, Word};
use super::{SimpleCommand, Unparsed, parser, pattern, raw};
use component_base::action::CommandLine;

mod aliases;
mod budget;
mod input;

/// Characters without which a text is a single word of a script.
const SCRIPT_CHARACTERS: [char; 12] =
    [' ', '\n', '\t', ';', '$', '`', '|', '&', '{', '\'', '"', '\\'];

/// The parts of a command line.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    /// The commands, in order.
    pub(crate) commands: Vec<Part>,
    /// Words of text that is not parsed. Only rules that deny or ask look at them.
    pub(crate) raw: Vec<Vec<Word>>,
    /// Words of code that interpreters read as their input.
    pub(crate) code: Vec<Word>,
    /// Why the command line must not be allowed.
    pub(crate) doubts: Vec<&'static str>,
    /// Whether commands may run more than once.
    pub(crate) repeats: bool,
    spent: Spent,
    /// The values of variables.
    values: Vec<Vec<Word>>,
    /// Whether a command is the value of a variable.
    runs_values: bool,
    /// The aliases that the command line defines, for the shell and for git. The name is empty if it is not known.
    aliases: Vec<(Aliased, String, String)>,
}

/// The program for which an alias is defined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Aliased {
    Shell,
    Git,
}

/// A command of a command line.
#[derive(Debug)]
pub(crate) struct Part {
    /// The command.
    pub(crate) command: SimpleCommand,
    /// Whether the command stands inside of an argument. Only rules that deny or ask look at it: the command around it
    /// must be allowed.
    pub(crate) inner: bool,
    /// Whether arguments of the command may be commands.
    pub(crate) opens: bool,
}

impl Parts {
    /// Takes a command line apart.
    pub(crate) fn of(command: &CommandLine, windows_shell: bool) -> Parts {
        let mut parts = Parts::default();
        match command {
            CommandLine::Shell(text) => parts.shell(text, windows_shell),
            // Some clients give the program to a shell if there are no arguments.
            CommandLine::Program { program, args } if args.is_empty() && needs_shell(program) => {
                parts.shell(program, windows_shell);
            }
            CommandLine::Program { program, args } => match script_of_shell(program, args) {
                Some(script) => parts.shell(script, false),
                None => {
                    parts.program(program, args);
                    parts.joined(program, args);
                }
            },
        }
        if parts.runs_values {
            parts.open_values();
        }
        parts.open_aliases();
        if parts.spent.is_over() {
            // Not everything was opened. The words of the command line itself are searched instead.
            match command {
                CommandLine::Shell(text) => parts.raw.extend(raw::commands(text)),
                CommandLine::Program { program, args } => {
                    let texts = std::iter::once(program).chain(args);
                    texts.for_each(|it| parts.raw.extend(raw::commands(it)));
                }
            }
        }
        parts
    }

    fn shell(&mut self, text: &str, windows_shell: bool) {
        if let Some(odd) = raw::odd_character(text) {
            self.doubt(odd);
            let cleaned = raw::cleaned(text);
            if cleaned != text {
                self.open_script(&cleaned, 0, true);
            }
        }
        if windows_shell {
            self.doubt("a Windows shell reads it, and its language is not parsed");
            self.raw.extend(raw::commands(text));
            return;
        }
        match super::parse(text) {
            Ok(script) => {
                if !script.doubts.is_empty() {
                    script.doubts.iter().for_each(|it| self.doubt(it));
                    self.raw.extend(raw::commands(text));
                }
                self.add(script, false, true, 0);
            }
            Err(Unparsed(why)) => {
                self.doubt(why);
                self.raw.extend(raw::commands(text));
            }
        }
    }

    fn program(&mut self, program: &str, args: &[String]) {
        let texts = || std::iter::once(program).chain(args.iter().map(String::as_str));
        if let Some(odd) = texts().find_map(raw::odd_character) {
            self.doubt(odd);
            let words = texts().map(|it| Word::of_text(raw::cleaned(it))).collect();
            self.commands.push(Part {
                command: SimpleCommand { words, ..SimpleCommand::default() },
                inner: true,
                opens: true,
            });
        }
        let length: usize = texts().map(|it| it.len() + 1).sum();
        if length > super::MAX_LENGTH {
            self.doubt("the command is longer than 64 KiB");
            texts().for_each(|it| self.raw.extend(raw::commands(it)));
            self.raw.push(texts().map(Word::of_text).collect());
        }
        let words: Vec<Word> = texts().map(Word::of_text).collect();
        let command = SimpleCommand { words, ..SimpleCommand::default() };
        let script = super::Script { commands: vec![command], ..super::Script::default() };
        self.add(script, false, true, 0);
    }

    /// Some clients join the program and its arguments, and give the text to a shell.
    fn joined(&mut self, program: &str, args: &[String]) {
        let is_line = needs_shell(program);
        if is_line {
            self.doubt("its program is a command line");
        }
        // The script of a shell is opened anyway.
        let is_shell = name_of(&Word::of_text(program)).is_some_and(|it| programs::is_shell(&it));
        let is_script = |it: &String| it.contains("$(") || it.contains(['`', ';']);
        if is_line || !is_shell && args.iter().any(is_script) {
            let words: Vec<&str> =
                std::iter::once(program).chain(args.iter().map(String::as_str)).collect();
            self.open_script(&words.join(" "), 1, true);
        }
    }

    fn doubt(&mut self, why: &'static str) {
        if !self.doubts.contains(&why) {
            self.doubts.push(why);
        }
    }

    /// Adds the commands of a script, and what stands in their arguments.
    fn add(&mut self, script: super::Script, inner: bool, opens: bool, level: usize) {
        for text in &script.evaluated {
            self.doubt("the shell may evaluate a value a second time");
            self.open_expansions(text, level + 1);
        }
        for text in &script.ambiguous {
            self.open_script(text, level + 1, true);
        }
        script.doubts.iter().for_each(|it| self.doubt(it));
        self.repeats |= script.repeats;
        self.values.extend(script.values);
        self.runs_values |= script.commands.iter().any(|it| pattern::runs_unknown(&it.words));
        for index in 0..script.commands.len() {
            self.open(&script.commands, index, level);
        }
        for command in script.commands {
            let wraps = || {
                command.words.first().and_then(name_of).is_some_and(|it| programs::is_wrapper(&it))
            };
            let opens = (opens || wraps()) && !leaves_arguments_alone(&command);
            self.commands.push(Part { command, inner, opens });
        }
    }

    /// Adds what stands in the arguments and the input of a command.
    fn open(&mut self, commands: &[SimpleCommand], index: usize, level: usize) {
        let command = &commands[index];
        for (name, value) in &command.assignments {
            if programs::is_dangerous_variable(name) {
                self.doubt("it sets a variable that decides which programs run");
                value.known_texts().for_each(|text| self.open_script(text, level + 1, true));
            }
            if name.starts_with("GIT_CONFIG_VALUE") {
                self.aliases.push((Aliased::Git, String::new(), value.script_text()));
            }
        }
        let Some(name) = command.words.first().map(|it| name_of(it).unwrap_or_default()) else {
            return;
        };
        if programs::evaluates_names(&name) {
            if evaluates_value(&name, &command.words[1..]) {
                self.doubt("the shell may read the value of a variable as code");
            }
            for text in command.words.iter().flat_map(Word::known_texts) {
                if text.contains("$(") || text.contains('`') {
                    self.doubt("the shell may evaluate an argument a second time");
                    self.open_expansions(text, level + 1);
                }
            }
        }
        if sets_dot_globs(&name, command) {
            self.doubt("its wildcards may match names that begin with a dot");
        }
        self.open_dashed(command);
        if name == "alias" {
            self.note_aliases(&command.words[1..]);
        }
        if leaves_arguments_alone(command) {
            return;
        }
        self.open_split(&command.words, level);
        let unknown_input =
            command.redirections.iter().any(|it| it.reads && is_unknown(&it.target));
        if unknown_input
            && command.words.iter().filter_map(name_of).any(|it| programs::is_shell(&it))
        {
            self.doubt("a shell reads a text that is not known");
        }
        self.open_arguments(command, &name, level);
        self.open_input(commands, command, level);
    }

    /// Scripts and code in the arguments.
    fn open_arguments(&mut self, command: &SimpleCommand, name: &str, level: usize) {
        if let Some(git) =
            command.words.iter().position(|it| name_of(it).is_some_and(|it| it == "git"))
        {
            self.open_git(&command.words[git..], level);
        }
        let mut code: Option<String> = None;
        let mut joins = false;
        let mut runs = false;
        for (at, word) in command.words.iter().enumerate() {
            let word_name = name_of(word).unwrap_or_default();
            if programs::reads_code(&word_name) {
                code = Some(word_name.clone());
            }
            runs |= programs::is_shell(&word_name) || programs::is_wrapper(&word_name);
            joins |=
                ["eval", "ssh", "watch", "su", "parallel", "xargs"].contains(&word_name.as_str());
            if at == 0 {
                continue;
            }
            for text in word.known_texts() {
                if let Some(code) = &code
                    && programs::code_runs_commands(code, text)
                {
                    self.search(text);
                    if code.ends_with("sed") {
                        self.search(&programs::sed::words_of(text));
                    }
                }
                if name != "git" && !programs::reads_code(name) {
                    self.open_text(text, level, runs);
                }
            }
            if word.is_mixed() && name != "git" && !programs::reads_code(name) {
                self.open_text(&word.script_text(), level, runs);
            }
        }
        if joins && command.words.len() > 2 {
            let texts: Vec<String> = command.words[1..].iter().map(Word::script_text).collect();
            // Plain words are compared with the rules anyway.
            if texts.iter().any(|it| it.contains(SCRIPT_CHARACTERS)) {
                self.open_script(&texts.join(" "), level + 1, true);
            }
        }
    }

    /// A text in an argument may be a script, or have one behind its equals sign.
    fn open_text(&mut self, text: &str, level: usize, opens: bool) {
        if text.contains(SCRIPT_CHARACTERS) {
            self.open_script(text, level + 1, opens);
            let mut rest = text;
            for _ in 0..3 {
                let Some((_, value)) = rest.split_once('=') else { break };
                self.open_script(value, level + 1, opens);
                rest = value;
            }
            // `-Sgit push`: the value of an option without a space.
            let mut letters = text.chars();
            if letters.next() == Some('-') && letters.next().is_some_and(char::is_alphanumeric) {
                self.open_script(letters.as_str(), level + 1, opens);
            }
        }
    }

    /// Configuration and commands in the arguments of git.
    fn open_git(&mut self, words: &[Word], level: usize) {
        let texts: Vec<&str> = words[1..].iter().map(|it| it.text().unwrap_or_default()).collect();
        let subcommand = programs::git_command(&texts).unwrap_or_default();
        let messages = [
            "commit", "tag", "notes", "merge", "stash", "log", "grep", "show", "shortlog",
            "describe",
        ];
        let skip_texts = messages.contains(&subcommand);
        let mut before = "";
        for text in texts {
            if let Some((key, value)) = text.split_once('=') {
                self.open_setting(key, value, level);
            }
            if let Some(name) = before.strip_prefix("alias.") {
                self.open_setting(before, text, level);
                self.aliases.push((Aliased::Git, name.to_owned(), text.to_owned()));
            }
            let runs = ["-c", "-x", "--exec", "--upload-pack", "--receive-pack", "--extcmd"]
                .contains(&before);
            if runs || !skip_texts || text.starts_with("--exec=") {
                self.open_text(text, level, runs);
            }
            before = text;
        }
    }

    /// A setting of git may be an alias or a command.
    fn open_setting(&mut self, key: &str, value: &str, level: usize) {
        if let Some((_, name)) = key.split_once("alias.") {
            self.aliases.push((Aliased::Git, name.to_owned(), value.to_owned()));
        } else if key == "--config-env" && value.contains("alias.") {
            self.aliases.push((Aliased::Git, String::new(), "$_".to_owned()));
        }
        match value.strip_prefix('!') {
            Some(command) => self.open_script(command, level + 1, true),
            None if key.contains("alias.") => {
                self.open_script(&format!("git {value}"), level + 1, true);
            }
            None if key.contains('.') => self.open_script(value, level + 1, true),
            None => {}
        }
    }

    /// A command may be the value of a variable: all values may be commands.
    fn open_values(&mut self) {
        for words in std::mem::take(&mut self.values) {
            for text in words.iter().map(Word::script_text) {
                self.open_script(&text, 1, true);
            }
            if words.len() > 1 {
                self.push(words);
            }
        }
    }

    /// Adds a command that stands nowhere as it is, if there is room for it.
    fn push(&mut self, words: Vec<Word>) {
        if self.has_room("", 1) && self.spend_words(&words) {
            let command = SimpleCommand { words, ..SimpleCommand::default() };
            self.commands.push(Part { command, inner: true, opens: true });
        }
    }

    /// Adds the commands of a script in an argument. A text that does not parse may be something else.
    fn open_script(&mut self, text: &str, level: usize, opens: bool) {
        if !self.has_room(text, level) {
            return;
        }
        match super::parse(text) {
            // Braces and wildcards may make more words of a text than it has letters.
            Ok(script) if script.commands.iter().all(|it| self.spend_words(&it.words)) => {
                self.add(script, true, opens, level);
            }
            Ok(_) => {}
            Err(_) if opens => self.add_raw(text),
            Err(_) => {}
        }
    }

    /// Adds the commands in the substitutions of a text.
    fn open_expansions(&mut self, text: &str, level: usize) {
        if !self.has_room(text, level) {
            return;
        }
        let mut script = super::Script::default();
        match parser::Parser::new("", 0, &mut script).expand_text(text) {
            Ok(_) => self.add(script, true, true, level),
            Err(_) => self.add_raw(text),
        }
    }
}

/// The name of the program in a word.
pub(crate) fn name_of(word: &Word) -> Option<String> {
    Some(plain_name(word.base_name()?, false))
}

/// Whether a builtin reads an argument as arithmetic, or as a name with a subscript, that a variable may decide.
fn evaluates_value(name: &str, arguments: &[Word]) -> bool {
    let is = |word: &Word, flag: &str| word.text().is_some_and(|it| programs::is_flag(it, flag));
    let names = |word: &Word| {
        let before = word.known_texts().next().unwrap_or_default().split('=').next();
        is_unknown(word) && !matches!(word.units.first(), Some(Unit::Text(_)))
            || before.is_some_and(|it| it.contains('['))
    };
    let has_flag = |flag: &str| arguments.iter().any(|it| is(it, flag));
    match name {
        "let" => arguments.iter().any(|it| {
            is_unknown(it) || it.known_texts().any(|it| it.contains(char::is_alphabetic))
        }),
        "test" | "[" => has_flag("-v") && arguments.iter().any(names),
        "printf" => {
            let (first, second) = (arguments.first(), arguments.get(1));
            first.is_some_and(|it| is(it, "-v") && names(it))
                || first.is_some_and(|it| it.text() == Some("-v")) && second.is_some_and(names)
        }
        "trap" => false,
        _ => {
            arguments.iter().any(names)
                || programs::declares(name) && (has_flag("-i") || has_flag("-n"))
        }
    }
}

/// Whether a command makes wildcards of the shell match names that begin with a dot.
fn sets_dot_globs(name: &str, command: &SimpleCommand) -> bool {
    let is_option = |it: &str| {
        let plain = it.to_lowercase().replace('_', "");
        ["dotglob", "globdots"].iter().any(|option| plain.contains(option))
    };
    let sets = ["shopt", "setopt", "set", "options", "eval", "builtin", "command"].contains(&name)
        || command.words.iter().filter_map(name_of).any(|it| programs::is_shell(&it));
    sets && command.words.iter().flat_map(Word::known_texts).any(is_option)
}

/// Whether no argument of a command is a command: its program, or the program that it only starts, leaves them alone.
fn leaves_arguments_alone(command: &SimpleCommand) -> bool {
    let texts: Vec<&str> = command.words.iter().map(|it| it.text().unwrap_or("$")).collect();
    let mut inner = texts.as_slice();
    for _ in 0..8 {
        match super::pattern::transparent(inner) {
            Some(next) => inner = next,
            None => break,
        }
    }
    let name = |it: &&str| it.rsplit('/').next().unwrap_or_default().to_owned();
    inner.first().map(name).is_some_and(|it| programs::is_passive(&it))
}

/// The script of `bash -c SCRIPT`, if a shell of the system runs it and there is nothing else. Some agents start every
/// command in this way.
pub(crate) fn script_of_shell<'a>(program: &str, args: &'a [String]) -> Option<&'a str> {
    const FOLDERS: [&str; 5] = ["", "/bin/", "/usr/bin/", "/usr/local/bin/", "/opt/homebrew/bin/"];
    let name = program.rsplit('/').next()?;
    let folder = &program[..program.len() - name.len()];
    let (script, flags) = args.split_last()?;
    let known =
        |it: &String| ["-c", "-lc", "-cl", "-l", "--login", "-ec", "-lec"].contains(&it.as_str());
    let runs =
        flags.iter().any(|it| it.starts_with('-') && !it.starts_with("--") && it.contains('c'));
    let system = ["sh", "bash", "dash", "zsh", "ksh"].contains(&name) && FOLDERS.contains(&folder);
    (system && runs && flags.iter().all(known)).then_some(script)
}

/// Whether a program without arguments is really a command line.
fn needs_shell(program: &str) -> bool {
    program.contains([' ', '\t', '\n', ';', '|', '&', '$', '`', '<', '>', '(', '{'])
}

/// Whether a word may be an option or a value with unknown parts.
pub(crate) fn is_unknown(word: &Word) -> bool {
    word.units.contains(&Unit::Unknown)
}
