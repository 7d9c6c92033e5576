//! Which files a command reads and writes, as far as its arguments tell.

use std::collections::HashSet;

use super::parts::name_of;
use super::pattern::transparent;
use super::programs;
use super::raw;
use super::words::{Unit, Word};

/// The most paths of an argument behind its signs.
const MAX_VALUES: usize = 8;
/// The most paths in the code of an argument.
const MAX_CODE_PATHS: usize = 40;
/// The most programs that only run their arguments, one behind the other.
const MAX_WRAPPERS: usize = 8;
/// The longest path in code.
const MAX_CODE_PATH: usize = 512;

/// A file that a command uses.
#[derive(Debug)]
pub(crate) struct FileUse {
    /// The path.
    pub(crate) path: Word,
    /// Whether the file is written, moved or deleted. Otherwise it is read.
    pub(crate) writes: bool,
    /// Whether everything inside of a folder is used.
    pub(crate) recursive: bool,
    /// Whether the argument is a path for certain.
    pub(crate) certain: bool,
}

/// How a program uses its arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Uses {
    /// It does not use files, or only their names.
    Nothing,
    /// It reads all.
    Reads,
    /// It reads all but the first.
    ReadsAfterFirst,
    /// It writes all.
    Writes,
    /// It writes all but the first.
    WritesAfterFirst,
    /// It reads all, and writes the last.
    Copies,
    /// It reads and removes all but the last, and writes the last.
    Moves,
    /// It reads and writes all.
    Both,
    /// Any argument may be a path.
    Maybe,
}

fn uses(name: &str) -> Uses {
    match name {
        "echo" | "printf" | "true" | "false" | ":" | "test" | "[" | "cd" | "pwd" | "ls"
        | "stat" | "tree" | "du" | "df" | "which" | "type" | "sleep" | "seq" | "date"
        | "export" | "basename" | "dirname" | "realpath" | "readlink" | "expr" | "kill"
        | "exit" | "return" | "set" | "shift" | "pushd" | "popd" | "unset" | "alias"
        | "declare" | "local" | "file" => Uses::Nothing,
        "cat" | "head" | "tail" | "less" | "more" | "tac" | "nl" | "od" | "hexdump" | "strings"
        | "base64" | "base32" | "wc" | "sort" | "cut" | "paste" | "diff" | "cmp" | "comm"
        | "bat" | "rev" | "fold" | "fmt" | "column" | "join" | "md5sum" | "sha1sum"
        | "sha256sum" | "sha512sum" | "cksum" | "source" | "." | "view" | "zcat" | "xzcat"
        | "openssl" | "csplit" | "iconv" | "pr" | "expand" | "nano" | "vim" | "vi" | "nvim"
        | "emacs" | "curl" | "wget" | "scp" | "split" | "zip" | "tar" | "gtar" | "bsdtar" => {
            Uses::Reads
        }
        "grep" | "egrep" | "fgrep" | "rg" | "ag" | "ack" | "sed" | "gsed" | "awk" | "gawk"
        | "mawk" | "jq" | "yq" => Uses::ReadsAfterFirst,
        "tee" | "touch" | "mkdir" | "rmdir" | "rm" | "unlink" | "shred" | "truncate" | "patch"
        | "gzip" | "gunzip" | "bzip2" | "xz" | "mkfifo" | "mknod" => Uses::Writes,
        "chmod" | "chown" | "chgrp" | "setfacl" | "chattr" => Uses::WritesAfterFirst,
        "cp" | "ln" | "install" | "rsync" | "uniq" | "xxd" => Uses::Copies,
        "mv" => Uses::Moves,
        "ed" | "ex" => Uses::Both,
        _ => Uses::Maybe,
    }
}

/// The files that a command uses, and the files that a program in its arguments uses. With `opens`, any argument may be
/// a program.
pub(crate) fn used(words: &[Word], opens: bool) -> Vec<FileUse> {
    let mut files = used_by(words);
    // The first word with a name is enough: the words behind a later one stand behind the first one, too.
    let mut names = HashSet::new();
    let is_wrapper = words.first().and_then(name_of).is_some_and(|it| programs::is_wrapper(&it));
    let inner = if opens { (1..words.len()).collect() } else { started(words) };
    for at in inner {
        let name = name_of(&words[at]).filter(|it| is_file_program(it));
        if name.is_some_and(|it| names.insert(it)) {
            let inner = used_by(&words[at..]).into_iter();
            files.extend(inner.map(|it| FileUse { certain: it.certain && is_wrapper, ..it }));
        }
    }
    files
}

/// The positions of the programs that a command only starts: `tee` in `nohup timeout 5 tee x`.
fn started(words: &[Word]) -> Vec<usize> {
    let texts: Vec<&str> = words.iter().map(|it| it.text().unwrap_or("$")).collect();
    let inner = std::iter::successors(transparent(&texts), |it| transparent(it));
    inner.take(MAX_WRAPPERS).map(|it| words.len() - it.len()).collect()
}

/// Whether it is known how a program uses files.
fn is_file_program(name: &str) -> bool {
    ["find", "dd", "unzip"].contains(&name)
        || programs::reads_code(name)
        || !matches!(uses(name), Uses::Maybe | Uses::Nothing)
}

/// The files that a command uses by itself.
fn used_by(words: &[Word]) -> Vec<FileUse> {
    let Some(first) = words.first() else { return Vec::new() };
    let name = name_of(first).unwrap_or_default();
    let texts: Vec<&str> = words[1..].iter().map(|it| it.text().unwrap_or("$")).collect();
    let mut files = Vec::new();
    written_by_options(&words[1..], &name, &mut files);
    if name == "find" {
        changed_by_find(&words[1..], &mut files);
    }
    if programs::reads_code(&name) {
        named_in_code(&words[1..], &mut files);
    }
    if ["sed", "gsed"].contains(&name.as_str()) {
        written_by_sed(&words[1..], &mut files);
    }
    let mut uses = uses(&name);
    let has = |flags: &[&str]| {
        texts.iter().any(|word| flags.iter().any(|flag| programs::is_flag(word, flag)))
    };
    let git = programs::git_command(&texts).filter(|_| name == "git").unwrap_or_default();
    if name == "find" || ["check-ignore", "ls-files", "status", "rm"].contains(&git) {
        let runs = has(&["-exec", "-execdir", "-ok", "-okdir"]);
        uses = if runs { Uses::Maybe } else { Uses::Nothing };
    }
    if uses == Uses::ReadsAfterFirst
        && has(&["-e", "-f", "--regexp", "--file", "--expression", "--from-file"])
    {
        uses = Uses::Reads;
    }
    let in_place = ["sed", "gsed", "yq", "perl", "ruby"].contains(&name.as_str())
        && has(&["-i", "--in-place", "--inplace"]);
    let recursive = is_recursive(&name, &has);
    // The target is the value of an option.
    let into_folder = ["cp", "mv", "ln", "install"].contains(&name.as_str())
        && has(&["-t", "--target-directory"]);
    let positional: Vec<&Word> = words[1..].iter().filter(|it| !it.starts_with('-')).collect();
    for (index, word) in positional.iter().enumerate() {
        let last = index + 1 == positional.len() && index > 0 && !into_folder;
        let (reads, writes) = match uses {
            Uses::Nothing => (false, false),
            Uses::Reads | Uses::Maybe => (true, in_place),
            Uses::ReadsAfterFirst => (index > 0, in_place && index > 0),
            Uses::Writes => (false, true),
            Uses::WritesAfterFirst => (false, index > 0),
            Uses::Copies => (!last, last || name == "ln"),
            Uses::Moves => (!last, true),
            Uses::Both => (true, true),
        };
        let certain = uses != Uses::Maybe;
        for (used, writes) in [(reads, false), (writes, true)] {
            if used {
                files.push(FileUse { path: (*word).clone(), writes, recursive, certain });
            }
        }
    }
    if uses != Uses::Nothing {
        values(&words[1..], &name, &mut files);
    }
    let searches_here = recursive
        && ["grep", "egrep", "fgrep", "rg", "ag"].contains(&name.as_str())
        && positional.len() < 2;
    if searches_here {
        files.push(FileUse { path: Word::of_text("."), writes: false, recursive, certain: true });
    }
    files
}

fn is_recursive(name: &str, has: &dyn Fn(&[&str]) -> bool) -> bool {
    match name {
        "rm" | "cp" | "chmod" | "chown" | "chgrp" | "grep" | "egrep" | "fgrep" | "zip" | "scp" => {
            has(&["-r", "-R", "-a", "--recursive", "--archive", "--dereference-recursive"])
        }
        "mv" | "tar" | "gtar" | "bsdtar" | "rsync" => true,
        "rg" | "ag" => has(&["-u", "-.", "--hidden", "--unrestricted", "--no-ignore"]),
        _ => false,
    }
}

/// Files and folders that options name for output.
fn written_by_options(words: &[Word], name: &str, files: &mut Vec<FileUse>) {
    const OPTIONS: [&str; 5] = ["-o", "-O", "--output", "--output-document", "--output-file"];
    let folders: &[&str] = match name {
        "cp" | "mv" | "ln" | "install" => &["-t", "--target-directory"],
        "tar" | "gtar" | "bsdtar" => &["-C", "--directory"],
        "unzip" => &["-d"],
        "wget" => &["-P", "--directory-prefix"],
        _ => &[],
    };
    // The options of `tar` without a dash: `tar xfC archive folder`.
    let bundle = words.first().and_then(Word::text).filter(|it| !it.starts_with('-'));
    if folders.contains(&"-C") && bundle.is_some_and(|it| it.contains('C')) {
        let paths = words[1..].iter().cloned();
        files.extend(paths.map(|path| FileUse {
            path,
            writes: true,
            recursive: false,
            certain: false,
        }));
    }
    for (at, word) in words.iter().enumerate() {
        let Some(Unit::Text(text)) = word.units.first() else { continue };
        let short = folders.iter().any(|it| it.len() == 2 && text.starts_with(it));
        let is_option = |it: &str| {
            let folder = |option: &&str| option.starts_with("--") && programs::is_flag(it, option);
            OPTIONS.contains(&it) || folders.contains(&it) || folders.iter().any(folder)
        };
        let path = match text.split_once('=') {
            Some((option, value)) if is_option(option) => Some(with_first(word, value)),
            None if is_option(text) => words.get(at + 1).cloned(),
            _ if (text.starts_with("-o") || short) && text.is_char_boundary(2) => {
                Some(with_first(word, &text[2..]))
            }
            _ => in_cluster(word, text, folders).or_else(|| {
                let follows = folders.iter().any(|it| ends_in_letter(text, it));
                words.get(at + 1).filter(|_| follows).cloned()
            }),
        };
        if let Some(path) = path.filter(|it| !it.units.is_empty()) {
            files.push(FileUse { path, writes: true, recursive: false, certain: false });
        }
    }
}

/// The value of a short option that stands behind other letters: `-at.git`.
fn in_cluster(word: &Word, text: &str, options: &[&str]) -> Option<Word> {
    let letters = text.strip_prefix('-').filter(|it| !it.starts_with('-'))?;
    let short = options.iter().filter(|it| it.len() == 2).filter_map(|it| it.chars().nth(1));
    let at = short.filter_map(|it| letters.find(it)).min()?;
    let value = &letters[at + 1..];
    (!value.is_empty() || word.units.len() > 1).then(|| with_first(word, value))
}

/// Whether a cluster of short options ends in this one: `-at`.
fn ends_in_letter(text: &str, option: &str) -> bool {
    option.len() == 2
        && text.len() > 2
        && text.starts_with('-')
        && !text.starts_with("--")
        && text.ends_with(&option[1..])
}

/// The files that a script of `sed` writes: the rest of the line behind `w`.
fn written_by_sed(words: &[Word], files: &mut Vec<FileUse>) {
    let scripts = words.iter().filter_map(Word::text).filter(|it| !programs::sed::is_plain(it));
    let lines = scripts.flat_map(str::lines);
    let paths =
        lines.flat_map(|line| line.match_indices(['w', 'W']).map(|(at, _)| &line[at + 1..]));
    let paths = paths.map(str::trim).filter(|it| !it.is_empty() && it.len() < MAX_CODE_PATH);
    for path in paths.take(MAX_CODE_PATHS) {
        let path = Word::of_text(path);
        files.push(FileUse { path, writes: true, recursive: false, certain: false });
    }
}

/// The word with another text at its beginning.
fn with_first(word: &Word, text: &str) -> Word {
    let mut path = word.clone();
    path.units[0] = Unit::Text(text.to_owned());
    path.tilde = text.starts_with("~/") && word.units.len() == 1;
    if text.is_empty() {
        path.units.remove(0);
    }
    path
}

/// What `find` deletes, and the files that it writes its results to.
fn changed_by_find(words: &[Word], files: &mut Vec<FileUse>) {
    const OUTPUTS: [&str; 4] = ["-fprint", "-fprint0", "-fprintf", "-fls"];
    let is = |word: &Word, texts: &[&str]| word.text().is_some_and(|it| texts.contains(&it));
    for (at, word) in words.iter().enumerate() {
        if is(word, &OUTPUTS)
            && let Some(path) = words.get(at + 1)
        {
            let path = path.clone();
            files.push(FileUse { path, writes: true, recursive: false, certain: true });
        }
    }
    if words.iter().any(|it| is(it, &["-delete"])) {
        for path in words.iter().take_while(|it| !it.starts_with('-')) {
            let path = path.clone();
            files.push(FileUse { path, writes: true, recursive: false, certain: true });
        }
    }
}

/// Words of code that look like paths: the code may read or write these files.
fn named_in_code(words: &[Word], files: &mut Vec<FileUse>) {
    let texts = words.iter().flat_map(Word::known_texts);
    let code = texts.filter(|it| it.contains([' ', '(', '"', '\'']));
    let found = code.flat_map(raw::commands).flatten().filter(|it| {
        it.text().is_some_and(|it| it.contains(['/', '.']) && it.len() < MAX_CODE_PATH)
    });
    for path in found.take(MAX_CODE_PATHS) {
        for writes in [false, true] {
            let path = path.clone();
            files.push(FileUse { path, writes, recursive: false, certain: false });
        }
    }
}

/// Paths behind an equals sign, a colon or an at sign: `--file=x`, `of=x`, `HEAD:x`, `@x`, `f=@x;type=y`.
fn values(words: &[Word], name: &str, files: &mut Vec<FileUse>) {
    for word in words {
        let Some(Unit::Text(text)) = word.units.first() else { continue };
        for (at, _) in text.match_indices(['=', ':', '@']).take(MAX_VALUES) {
            let (before, value) = (&text[..at], &text[at + 1..]);
            let writes = name == "dd" && before == "of";
            let alone = word.units.len() == 1;
            let short = value.split([';', ',']).next().filter(|it| alone && it.len() < value.len());
            for value in [Some(value), short].into_iter().flatten().filter(|it| !it.is_empty()) {
                let path = with_first(word, value);
                files.push(FileUse { path, writes, recursive: false, certain: name == "dd" });
            }
        }
    }
}

/// The folders that a command changes to. `None` if the folder is not known.
pub(crate) fn changes_folder(words: &[Word]) -> Vec<Option<Word>> {
    const NAMES: [&str; 4] = ["cd", "chdir", "pushd", "popd"];
    let name = |it: &Word| name_of(it).filter(|it| NAMES.contains(&it.as_str()));
    let changes = words.iter().enumerate().filter_map(|(at, it)| Some((at, name(it)?)));
    let target = |(at, name): (usize, String)| {
        // `cd -`, `cd -2` and `pushd +1` are folders that the shell remembers.
        let is_option = |it: &&Word| {
            it.text().is_some_and(|it| {
                it.starts_with('-') && it.len() > 1 && !it.contains(|it: char| it.is_ascii_digit())
            })
        };
        let mut arguments = words[at + 1..].iter().skip_while(is_option);
        match arguments.next() {
            _ if name == "popd" => None,
            Some(word) if word.starts_with('-') || word.starts_with('+') => None,
            Some(word) => Some(word.clone()),
            None if name == "pushd" => None,
            None => Some(Word { tilde: true, ..Word::of_text("~") }),
        }
    };
    changes.map(target).collect()
}

/// The folders that options of a command name for its working directory: `env -C folder`, `git -C folder`.
pub(crate) fn folder_options(words: &[Word]) -> Vec<Word> {
    const LONG: [&str; 3] = ["--chdir", "--directory", "--cwd"];
    let mut folders = Vec::new();
    for (at, word) in words.iter().enumerate().skip(1) {
        let Some(Unit::Text(text)) = word.units.first() else { continue };
        let is_long = |it: &str| LONG.iter().any(|long| programs::is_flag(it, long));
        folders.extend(match text.split_once('=') {
            Some((option, value)) if is_long(option) => Some(with_first(word, value)),
            None if is_long(text) || text == "-C" => words.get(at + 1).cloned(),
            _ => in_cluster(word, text, &["-C"])
                .or_else(|| words.get(at + 1).filter(|_| ends_in_letter(text, "-C")).cloned()),
        });
    }
    folders.retain(|it| !it.units.is_empty());
    folders
}
