//! The parts of a text that may be the name of a file.
//!
//! A text can be a command line for a shell, with quotation marks in quotation marks, or an option such as `--file=NAME`. It is
//! not executed here, so this module takes it apart in several ways, and returns all results. Most of them are no files.

use std::collections::BTreeSet;

/// Characters that end a word in a shell.
const BETWEEN_WORDS: [char; 15] =
    [' ', '\t', '\n', '\r', '\'', '"', '`', ';', '&', '|', '(', ')', '<', '>', '\0'];

/// Characters that may be in the name of a file, but also around one, as in `--file=NAME`, `KEY:NAME`, `{A,B}` and `@NAME`.
const WITHIN_WORDS: [char; 8] = ['=', ':', ',', '@', '{', '}', '[', ']'];

/// How many parts of a word a name may consist of: `./node_modules/@scope/a.js` has two.
const MAX_PARTS: usize = 4;

/// How deeply quotation marks may be nested, as in `sh -c "sh -c './a b'"`.
const MAX_DEPTH: usize = 3;

/// The parts of a text that may be the name of a file.
pub(super) fn names_in(text: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    add_text(text, MAX_DEPTH, &mut names);
    names.retain(|name| !matches!(name.as_str(), "" | "." | ".." | "/"));
    names
}

/// The words of a text, as a shell splits it. For commands without a slash.
pub(super) fn words_in(text: &str) -> BTreeSet<String> {
    let words = text.split(BETWEEN_WORDS).map(str::to_owned).chain(shell_words(text));
    words.filter(|it| !it.is_empty() && !it.contains(['/', '='])).collect()
}

fn add_text(text: &str, depth: usize, names: &mut BTreeSet<String>) {
    add_name(text, names);
    if let Some((_, value)) = text.split_once('=') {
        add_name(value, names);
    }
    text.split(BETWEEN_WORDS).for_each(|word| add_word(word, names));
    for word in shell_words(text) {
        add_word(&word, names);
        if depth > 0 && word != text && word.contains(BETWEEN_WORDS) {
            add_text(&word, depth - 1, names);
        }
    }
}

/// Adds a word, and its parts.
fn add_word(word: &str, names: &mut BTreeSet<String>) {
    add_name(word, names);
    let mut starts: Vec<usize> = word.match_indices(WITHIN_WORDS).map(|(at, _)| at + 1).collect();
    if starts.is_empty() {
        return;
    }
    let ends: Vec<usize> = starts.iter().map(|it| it - 1).chain([word.len()]).collect();
    starts.insert(0, 0);
    for (index, start) in starts.into_iter().enumerate() {
        for end in ends.iter().skip(index).take(MAX_PARTS) {
            add_name(&word[start..*end], names);
        }
    }
}

/// Adds a name, and what it is without an option or a variable before it.
fn add_name(name: &str, names: &mut BTreeSet<String>) {
    names.insert(name.to_owned());
    // A value directly after a short option, as in `-fNAME`.
    if let Some(value) = name.strip_prefix('-').filter(|it| !it.starts_with('-')) {
        let mut rest = value.chars();
        rest.next();
        names.insert(rest.as_str().to_owned());
    }
    let rest = without_variable(name).unwrap_or(name);
    // A name after the value of a variable or of a command, as in `$PWD/NAME` and `$(pwd)/NAME`, which may be any folder.
    if rest.starts_with('/') {
        names.insert(rest.trim_start_matches('/').to_owned());
    }
}

/// What follows `$NAME` or `${NAME}` at the beginning of a word.
fn without_variable(word: &str) -> Option<&str> {
    let word = word.strip_prefix('$')?;
    match word.strip_prefix('{') {
        Some(word) => word.split_once('}').map(|(_, rest)| rest),
        None => Some(word.trim_start_matches(|it: char| it.is_ascii_alphanumeric() || it == '_')),
    }
}

/// The words of a command line without quotation marks and backslashes, and the texts in quotation marks.
fn shell_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let (mut word, mut quoted) = (String::new(), String::new());
    let mut quote = None;
    let mut characters = text.chars();
    while let Some(it) = characters.next() {
        match (quote, it) {
            (Some(mark), it) if it == mark => {
                word.push_str(&quoted);
                words.push(std::mem::take(&mut quoted));
                quote = None;
            }
            (Some('"'), '\\') => match characters.next() {
                Some(it @ ('"' | '\\' | '$' | '`')) => quoted.push(it),
                other => quoted.extend(['\\'].into_iter().chain(other)),
            },
            (Some(_), it) => quoted.push(it),
            (None, '\'' | '"') => quote = Some(it),
            (None, '\\') => word.extend(characters.next()),
            (None, it) if BETWEEN_WORDS.contains(&it) => words.push(std::mem::take(&mut word)),
            (None, it) => word.push(it),
        }
    }
    words.extend([word + &quoted, quoted]);
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_of_a_text_may_be_names() {
        let of = |text| names_in(text).into_iter().collect::<Vec<_>>();
        assert_eq!(of("run.sh"), ["run.sh"]);
        assert_eq!(of("--file=a/b"), ["--file", "--file=a/b", "a/b"]);
        for (text, name) in [
            ("cd sub && . ./run.sh; true", "./run.sh"),
            ("python3 'a b.py'", "a b.py"),
            ("a b.py", "a b.py"),
            ("-fMakefile", "Makefile"),
            ("--data=@body.json", "body.json"),
            ("file:///p/run.sh", "///p/run.sh"),
            ("--x=a=b", "a=b"),
            ("é", "é"),
        ] {
            let found = names_in(text);
            assert!(found.contains(name), "{text}: {found:?}");
        }
        assert!(of("-é") == ["-é"] && of("").is_empty() && of(". / ..") == [". / .."]);
    }

    #[test]
    fn a_name_is_found_in_the_syntax_of_a_shell() {
        for (text, name) in [
            (
                "exec node ./node_modules/@scope/pkg/cli.js --acp",
                "./node_modules/@scope/pkg/cli.js",
            ),
            ("--require=./node_modules/@s/r/reg.js", "./node_modules/@s/r/reg.js"),
            ("a:./x/@s/b.js,c", "./x/@s/b.js"),
            ("exec './my tools/run.sh' --acp", "./my tools/run.sh"),
            ("exec ./my\\ run.sh", "./my run.sh"),
            ("exec $PWD/run.sh", "run.sh"),
            ("exec \"${PWD}/run.sh\"", "run.sh"),
            ("exec \"${PWD:-.}/my tools/run.sh\"", "my tools/run.sh"),
            ("\"$CLAUDE_PROJECT_DIR\"/guard.sh", "guard.sh"),
            ("\"$CLAUDE_PROJECT_DIR\"/'my tools'/guard.sh", "my tools/guard.sh"),
            ("$(git rev-parse --show-toplevel)/guard.sh", "guard.sh"),
            ("`pwd`/guard.sh", "guard.sh"),
            ("--script=$PWD/run.sh", "run.sh"),
            ("sh -c \"python3 './a b.py'\"", "./a b.py"),
            ("sh -c 'sh -c \"./a\\ b.sh\"'", "./a b.sh"),
            ("./un'closed name.sh", "./unclosed name.sh"),
        ] {
            let found = names_in(text);
            assert!(found.contains(name), "{text}: {found:?}");
        }
        // The number of names grows with the text.
        let long = "a=".repeat(10_000);
        assert!(names_in(&long).len() < 100);
    }

    #[test]
    fn the_words_of_a_command_line_may_be_commands() {
        let found = words_in("A=1 exec 'my tool' --x ./y; other");
        let expected = ["--x", "exec", "my", "my tool", "other", "tool"];
        assert_eq!(found.into_iter().collect::<Vec<_>>(), expected);
    }
}
