//! Scripts of `sed` that only print: a closed list of commands. Everything else may write files or run commands.

use crate::permissions::command::words::{Unit, Word};

/// Commands that have no argument, and that only change what is printed.
const PLAIN_COMMANDS: &str = "pdqDPnNgGhHx=";
/// Flags of the command `s` that neither write nor run.
const PLAIN_FLAGS: &str = "gpiIm0123456789";
/// Delimiters of the command `s` that have no other meaning.
const DELIMITERS: &str = "/|#,:%@!~=";
/// Options that have no value.
const PLAIN_LETTERS: &str = "nErsuz";
const PLAIN_OPTIONS: [&str; 8] = [
    "--quiet",
    "--silent",
    "--regexp-extended",
    "--separate",
    "--null-data",
    "--unbuffered",
    "--posix",
    "--sandbox",
];

/// Whether `sed` with these arguments only prints.
pub(crate) fn only_prints(arguments: &[&str]) -> bool {
    let mut has_script = false;
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let script = match word.strip_prefix('-') {
            Some("-") => {
                return has_script || words.next().is_none_or(|it| is_plain(it));
            }
            Some(long) if long.starts_with('-') => match word.split_once('=') {
                Some(("--expression", script)) => script,
                None if *word == "--expression" => words.next().copied().unwrap_or_default(),
                None if PLAIN_OPTIONS.contains(word) => continue,
                _ => return false,
            },
            Some(letters) if !letters.is_empty() => {
                let (plain, script) = letters.split_once('e').unzip();
                if !plain.unwrap_or(letters).chars().all(|it| PLAIN_LETTERS.contains(it)) {
                    return false;
                }
                match script {
                    None => continue,
                    Some("") => words.next().copied().unwrap_or_default(),
                    Some(script) => script,
                }
            }
            // The first word is the script. The others are files.
            _ if has_script => continue,
            _ => word,
        };
        has_script = true;
        if !is_plain(script) {
            return false;
        }
    }
    true
}

/// The scripts in the arguments: the values of `-e`, and the first word if no option before it has a script.
pub(crate) fn scripts(arguments: &[Word]) -> Vec<&str> {
    let mut scripts = Vec::new();
    let mut has_script = false;
    // Whether the next word may be the value of an option. Systems differ.
    let mut may_be_value = false;
    let mut only_words = false;
    // The ending of copies, or a number.
    let is_short = |it: &str| it.chars().all(|it| it.is_alphanumeric() || "._~*-".contains(it));
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let Some(text) = word.text() else {
            // It is the script, unless its unknown part may be an option or nothing.
            has_script |= match word.units.first() {
                Some(Unit::Text(it)) => !(it.starts_with('-') || (may_be_value && is_short(it))),
                _ => false,
            };
            may_be_value = false;
            continue;
        };
        let option = text.strip_prefix('-').filter(|it| !only_words && !it.is_empty());
        let Some(option) = option else {
            if !has_script {
                scripts.push(text);
                let is_value = text.is_empty() || is_short(text) && !is_plain(text);
                has_script = !(may_be_value && is_value);
            }
            may_be_value = false;
            continue;
        };
        may_be_value = false;
        if let Some(long) = option.strip_prefix('-') {
            let (name, value) = long.split_once('=').map_or((long, None), |it| (it.0, Some(it.1)));
            match name {
                "" => only_words = true,
                _ if "expression".starts_with(name) => {
                    scripts.extend(value.or_else(|| words.next().and_then(Word::text)));
                    has_script = true;
                }
                _ if "file".starts_with(name) => {
                    has_script = true;
                    may_be_value = value.is_none();
                }
                _ => may_be_value = value.is_none() && "line-length".starts_with(name),
            }
            continue;
        }
        let Some(at) = option.find(|it| !PLAIN_LETTERS.contains(it)) else { continue };
        let attached = option.get(at + 1..).filter(|it| !it.is_empty());
        match &option[at..] {
            it if it.starts_with('e') => {
                scripts.extend(attached.or_else(|| words.next().and_then(Word::text)));
                has_script = true;
            }
            it if it.starts_with('f') => {
                has_script = true;
                if attached.is_none() {
                    words.next();
                }
            }
            _ => may_be_value = attached.is_none(),
        }
    }
    scripts
}

/// Whether a script may run what it reads: the command `e` without a command, or the flag `e` of the command `s`.
pub(crate) fn runs_input(script: &str) -> bool {
    script.split([';', '\n', '{', '}']).map(str::trim_end).any(|command| {
        let before = command.trim_end_matches(|it| it == 'e' || PLAIN_FLAGS.contains(it));
        command[before.len()..].contains('e') && !before.ends_with(char::is_alphanumeric)
    })
}

/// The script with spaces in the place of its delimiters.
pub(crate) fn words_of(script: &str) -> String {
    // Any character behind `s` is the delimiter.
    let own = script.split_once('s').and_then(|(_, rest)| rest.chars().next());
    script.replace(|it| Some(it) == own || DELIMITERS.contains(it) || ";{}".contains(it), " ")
}

/// Whether a script has only plain commands with simple addresses.
pub(crate) fn is_plain(script: &str) -> bool {
    let mut rest = script;
    loop {
        rest = rest.trim_start_matches([' ', '\t', '\n', ';']);
        if rest.is_empty() {
            return true;
        }
        match command(rest) {
            Some(after) => rest = after,
            None => return false,
        }
    }
}

/// The text behind a plain command. `None` if the command is not plain.
fn command(text: &str) -> Option<&str> {
    let mut rest = address(text)?;
    if let Some(second) = rest.strip_prefix(',') {
        rest = address(second.trim_start_matches('+'))?;
    }
    let rest = rest.trim_start_matches([' ', '!']);
    let name = rest.chars().next()?;
    let rest = &rest[name.len_utf8()..];
    let rest = match name {
        's' => substitution(rest)?,
        _ if PLAIN_COMMANDS.contains(name) => rest,
        _ => return None,
    };
    let rest = rest.trim_start_matches([' ', '\t']);
    (rest.is_empty() || rest.starts_with([';', '\n'])).then_some(rest)
}

/// The text behind an address: nothing, a line, `$`, or `/expression/`.
fn address(text: &str) -> Option<&str> {
    match text.strip_prefix('/') {
        Some(text) => {
            let rest = expression(text, '/')?;
            Some(rest.strip_prefix('I').unwrap_or(rest))
        }
        None => Some(text.trim_start_matches(|it: char| it.is_ascii_digit() || "$~".contains(it))),
    }
}

/// The text behind `/expression/replacement/flags`.
fn substitution(text: &str) -> Option<&str> {
    let delimiter = text.chars().next().filter(|it| DELIMITERS.contains(*it))?;
    let rest = expression(&text[1..], delimiter)?;
    let rest = &rest[end_of(rest, delimiter, false)? + 1..];
    Some(rest.trim_start_matches(|it| PLAIN_FLAGS.contains(it)))
}

/// The text behind an expression and its delimiter.
fn expression(text: &str, delimiter: char) -> Option<&str> {
    Some(&text[end_of(text, delimiter, true)? + 1..])
}

/// The position of the delimiter. `None` if programs may see it at different places.
fn end_of(text: &str, delimiter: char, brackets: bool) -> Option<usize> {
    let mut at = 0;
    loop {
        match text[at..].chars().next()? {
            '\n' => return None,
            next if next == delimiter => return Some(at),
            '\\' => {
                let escaped = text[at + 1..].chars().next().filter(|it| *it != '\n')?;
                at += 1 + escaped.len_utf8();
            }
            // Some programs do not see a delimiter in brackets: there must be none.
            '[' if brackets => {
                let class = &text[at + 1..];
                let end = end_of_class(class)?;
                if class[..end].contains([delimiter, '\n', '\\']) {
                    return None;
                }
                at += end + 2;
            }
            next => at += next.len_utf8(),
        }
    }
}

/// The position of the bracket that ends a class of characters.
fn end_of_class(text: &str) -> Option<usize> {
    let mut at = usize::from(text.starts_with('^'));
    at += usize::from(text[at..].starts_with(']'));
    loop {
        let next = at + text[at..].find([']', '['])?;
        let rest = &text[next..];
        match ["[:", "[.", "[="].iter().find(|it| rest.starts_with(**it)) {
            Some(open) => {
                let close = format!("{}]", &open[1..]);
                at = next + 2 + rest[2..].find(&close)? + 2;
            }
            None if rest.starts_with(']') => return Some(next),
            None => at = next + 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_that_only_print_are_known() {
        for script in [
            "p",
            "1,5p",
            "$!d",
            "/a/,/b/p",
            "/a/I,+3d",
            "1~2p",
            "s/a/b/",
            "s|a/b|c|gI; s/x/y/2p",
            "s/[[:space:]]*$//",
            "10q\n=",
            "",
        ] {
            assert!(is_plain(script), "{script}");
        }
    }

    #[test]
    fn other_scripts_are_not() {
        for script in [
            "s%a%id%e",
            "1e id",
            "1~2e id",
            "s:a:b:w /etc/x",
            "w x",
            "1r x",
            "\\%a%e id",
            "s/a/b/;w x",
            "s/a/b\\\n/",
            "s/[^/]x/",
            "s/[^]/a/;s/]/b/w f/p",
            "s/[[:a:]/]/x/",
            "{p}",
            "y/a/b/",
            "s/a/b/ e",
            "s\na\nb\nw x",
            "p w x",
        ] {
            assert!(!is_plain(script), "{script}");
        }
    }

    #[test]
    fn scripts_are_told_from_files() {
        for (arguments, expected) in [
            (&["-n", "1p", "r.env"][..], &["1p"][..]),
            (&["-i", "s/a/b/", "r.env"], &["s/a/b/"]),
            (&["-i.bak", "s/a/b/", "r.env"], &["s/a/b/"]),
            (&["--in-place", "s/a/b/", "r.env"], &["s/a/b/"]),
            (&["-E", "--", "w x", "r.env"], &["w x"]),
            (&["-e", "p", "-ew x", "-ne", "r y", "r.env"], &["p", "w x", "r y"]),
            (&["--expression=w x", "--expr", "r y", "r.env"], &["w x", "r y"]),
            (&["-f", "a.sed", "r.env"], &[]),
            (&["-nfa.sed", "r.env"], &[]),
            (&["--file=a.sed", "r.env"], &[]),
            // On some systems, these options have a value.
            (&["-i", "", "w x", "r.env"], &["", "w x"]),
            (&["-i", "bak", "w x", "r.env"], &["bak", "w x"]),
            (&["-l", "5", "w x", "r.env"], &["5", "w x"]),
            (&["p", "-e", "w x"], &["p", "w x"]),
            (&["$x", "w x", "r.env"], &["w x"]),
        ] {
            let word = |it: &&str| if *it == "$x" { Word::unknown() } else { Word::of_text(*it) };
            let words: Vec<Word> = arguments.iter().map(word).collect();
            assert_eq!(scripts(&words), expected, "{arguments:?}");
        }
    }

    #[test]
    fn options_with_scripts_and_files_are_read() {
        for (arguments, prints) in [
            (&["-n", "1p", "src/a"][..], true),
            (&["-ne", "1p", "src/a"], true),
            (&["-ne1p", "src/e"], true),
            (&["--expression=1p", "src/e"], true),
            (&["-E", "--", "s/a/b/", "e"], true),
            (&["--expression=1e id"], false),
            (&["--expr=1e id"], false),
            (&["-s", "-e1w x"], false),
            (&["-i", "p", "f"], false),
            (&["-f", "x"], false),
            (&["p", "-e", "1e id"], false),
            (&["1e id", "-e", "p"], false),
            (&["-l", "5", "p"], false),
        ] {
            assert_eq!(only_prints(arguments), prints, "{arguments:?}");
        }
    }
}
