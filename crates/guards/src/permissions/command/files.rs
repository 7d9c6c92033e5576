//! Which files a command reads and writes, as far as its arguments tell.

use std::collections::HashSet;

use self::options::{
    ends_in_letter, in_cluster, only_unpacks, read_by_options, with_first, written_by_options,
};
use super::parts::name_of;
use super::pattern::transparent;
use super::words::{Unit, Word};
use super::{SimpleCommand, programs, raw};
use crate::permissions::rules::url::{LocalFile, local_file};
use component_base::action::files_of_patch;

mod find;
mod options;

pub(super) use self::options::reads_format;

/// The most paths of an argument behind its signs.
const MAX_VALUES: usize = 500;
/// The most paths in the code of an argument.
const MAX_CODE_PATHS: usize = 200;
/// The most programs that only run their arguments, one behind the other.
const MAX_WRAPPERS: usize = 8;
/// The longest path that a program can open.
const MAX_CODE_PATH: usize = 4096;

/// A file that a command uses.
#[derive(Debug)]
pub(crate) struct FileUse {
    /// The path.
    pub(crate) path: Word,
    /// Whether the file is written, moved or deleted. Otherwise it is read.
    pub(crate) writes: bool,
    /// What of a folder is used.
    pub(crate) inside: Inside,
    /// Whether the argument is a path for certain.
    pub(crate) certain: bool,
}

/// What of a folder an access concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Inside {
    /// Only the folder itself.
    Nothing,
    /// Everything inside, but no names that begin with a dot.
    Visible,
    /// Everything inside.
    Everything,
    /// What tests select of everything inside.
    Selected,
    /// Only the path itself, if the program uses it in this way at all.
    Doubtful,
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
    /// It writes all. The first may be something else, such as a mode.
    WritesAfterFirst,
    /// It reads all, and writes the last.
    Copies,
    /// It reads all, and writes the last.
    Converts,
    /// It reads all but the first, and writes the first.
    Archives,
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
        | "openssl" | "csplit" | "iconv" | "pr" | "expand" | "curl" | "wget" | "tar" | "gtar"
        | "bsdtar" | "sdiff" | "diff3" => Uses::Reads,
        "grep" | "egrep" | "fgrep" | "rgrep" | "rg" | "ag" | "ack" | "sed" | "gsed" | "awk"
        | "gawk" | "mawk" | "jq" | "yq" => Uses::ReadsAfterFirst,
        "tee" | "touch" | "mkdir" | "rmdir" | "rm" | "unlink" | "shred" | "truncate" | "patch"
        | "mkfifo" | "mknod" | "sponge" => Uses::Writes,
        "chmod" | "chown" | "chgrp" | "setfacl" | "chattr" => Uses::WritesAfterFirst,
        "cp" | "ln" | "install" | "rsync" | "scp" => Uses::Copies,
        "uniq" | "xxd" | "split" | "ffmpeg" | "convert" | "magick" => Uses::Converts,
        "zip" => Uses::Archives,
        "mv" => Uses::Moves,
        "ed" | "ex" | "vim" | "vi" | "nvim" | "nano" | "emacs" | "gzip" | "gunzip" | "bzip2"
        | "bunzip2" | "xz" | "unxz" | "lzma" | "zstd" | "unzstd" | "compress" => Uses::Both,
        _ => Uses::Maybe,
    }
}

/// The most words of a command line whose use is looked up. A word counts once for each program before it.
const MAX_LOOKS: usize = 200_000;

/// How many letters count as a word.
const LETTERS: usize = 64;

/// How much of a command line was looked at.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    words: usize,
    /// Why not all files of the command line are known.
    pub(crate) doubt: Option<&'static str>,
}

impl Looks {
    /// Whether there is room to look at this many words.
    fn has_room(&mut self, words: usize) -> bool {
        self.words += words;
        let has_room = self.words <= MAX_LOOKS;
        if !has_room {
            self.doubt = Some("it has too many words");
        }
        has_room
    }

    /// Whether there is room to look at a text once more.
    fn has_room_for(&mut self, text: &str) -> bool {
        self.has_room(1 + text.len() / LETTERS)
    }

    /// The first of these items. If there are more, not all is known.
    fn first<I: Iterator>(&mut self, items: I, most: usize) -> Vec<I::Item> {
        let mut items: Vec<I::Item> = items.take(most + 1).collect();
        if items.len() > most {
            items.truncate(most);
            self.doubt = Some("an argument may name too many files");
        }
        items
    }
}

/// The files that a command uses, and the files that a program in its arguments uses. With `opens`, any argument may be
/// a program.
pub(crate) fn used(words: &[Word], opens: bool, looks: &mut Looks) -> Vec<FileUse> {
    looks.has_room(words.len());
    let mut files = used_by(words, looks);
    // The first word with a name is enough: the words behind a later one stand behind the first one, too.
    let mut names = HashSet::new();
    let is_wrapper = words.first().and_then(name_of).is_some_and(|it| programs::is_wrapper(&it));
    let inner = if opens { (1..words.len()).collect() } else { started(words) };
    for at in inner {
        let name = name_of(&words[at]).filter(|it| is_file_program(it));
        if name.is_some_and(|it| names.insert(it)) {
            if !looks.has_room(words.len() - at) {
                // How the program uses its arguments is not looked up any more.
                files.extend(words[at + 1..].iter().flat_map(|word| {
                    let (inside, certain) = (Inside::Nothing, false);
                    [false, true].map(|writes| FileUse {
                        path: word.clone(),
                        writes,
                        inside,
                        certain,
                    })
                }));
                break;
            }
            let inner = used_by(&words[at..], looks).into_iter();
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
fn used_by(words: &[Word], looks: &mut Looks) -> Vec<FileUse> {
    let Some(first) = words.first() else { return Vec::new() };
    let name = name_of(first).unwrap_or_default();
    let texts: Vec<&str> = words[1..].iter().map(|it| it.text().unwrap_or("$")).collect();
    let mut files = Vec::new();
    written_by_options(&words[1..], &name, &mut files);
    if name == "find" {
        find::used_by_find(&words[1..], looks, &mut files);
    }
    if programs::reads_code(&name) {
        named_in_code(&words[1..], looks, &mut files);
    }
    if ["sed", "gsed"].contains(&name.as_str()) {
        used_by_sed(&words[1..], looks, &mut files);
    }
    if let Some(doubt) = options::unclear(&name, &texts) {
        looks.doubt = Some(doubt);
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
    match name.as_str() {
        "install" if has(&["-d", "--directory"]) => uses = Uses::Writes,
        "rsync" if has(&["--remove-source-files"]) => uses = Uses::Moves,
        _ => {}
    }
    // These programs only name files, but they print the lines of a list of names.
    let reads_list = match name.as_str() {
        "file" => has(&["-f", "--files-from", "-m", "--magic-file"]),
        "date" => has(&["-f", "--file"]),
        "du" => has(&["--files0-from", "-X", "--exclude-from"]),
        "tree" => has(&["--fromfile", "--fromtabfile"]),
        "find" => has(&["-files0-from"]),
        _ => false,
    };
    if reads_list {
        uses = Uses::Reads;
    }
    let in_place = ["sed", "gsed", "yq", "perl", "ruby"].contains(&name.as_str())
        && has(&["-i", "--in-place", "--inplace"])
        || name.ends_with("awk") && texts.iter().any(|it| it.ends_with("inplace"));
    let changes = GIT_CHANGES.contains(&git);
    let inside = match name.ends_with("tar") && only_unpacks(&words[1..]) {
        true => Inside::Nothing,
        false => inside_of(&name, git, &texts, &has),
    };
    // The target is the value of an option.
    let into_folder = ["cp", "mv", "ln", "install"].contains(&name.as_str())
        && has(&["-t", "--target-directory"]);
    let positional = positional(&words[1..]);
    let is_dash = |it: &Word| it.text() == Some("-");
    for (index, word) in positional.iter().enumerate().filter(|(_, it)| !is_dash(it)) {
        let last = index + 1 == positional.len() && index > 0 && !into_folder;
        let (reads, writes) = match uses {
            Uses::Nothing => (false, false),
            Uses::Reads | Uses::Maybe => (true, in_place),
            Uses::ReadsAfterFirst => (index > 0, in_place && index > 0),
            Uses::Writes => (false, true),
            // The first argument may be a mode, or it stands in an option: `--reference=x`, `-w`.
            Uses::WritesAfterFirst => (false, true),
            Uses::Copies => (!last, last || name == "ln"),
            Uses::Converts => (true, last),
            Uses::Archives => (index > 0, index == 0),
            Uses::Moves => (!last, true),
            Uses::Both => (true, true),
        };
        let is_mode = uses == Uses::WritesAfterFirst && index == 0 && positional.len() > 1;
        let certain = uses != Uses::Maybe && !is_mode;
        // A plain word is rather a subcommand: `npm run build`.
        if uses == Uses::Maybe && !writes && git.is_empty() && may_be_path(word) {
            let (path, inside) = ((*word).clone(), Inside::Doubtful);
            files.push(FileUse { path, writes: true, inside, certain });
        }
        for (used, writes) in [(reads, false), (writes || changes, true)] {
            let inside = match writes && (uses == Uses::Archives || changes && git != "rm") {
                true => Inside::Nothing,
                false => inside,
            };
            if used {
                files.push(FileUse { path: (*word).clone(), writes, inside, certain });
            }
        }
    }
    if matches!(uses, Uses::Copies | Uses::Moves) && !into_folder {
        inside_target(&positional, &mut files);
    }
    if uses != Uses::Nothing {
        values(&words[1..], &name, looks, &mut files);
        read_by_options(&words[1..], &name, looks, &mut files);
        local_addresses(&words[1..], &has, looks, &mut files);
    }
    let searches = ["grep", "egrep", "fgrep", "rgrep", "rg", "ag", "ack"].contains(&name.as_str());
    if inside != Inside::Nothing && (searches && positional.len() < 2 || git == "grep") {
        files.push(FileUse { path: Word::of_text("."), writes: false, inside, certain: true });
    }
    files
}

/// What a program that copies writes if its last argument is a folder: files with the names of the others.
fn inside_target(positional: &[&Word], files: &mut Vec<FileUse>) {
    let Some((target, sources)) = positional.split_last() else { return };
    let Some(folder) = target.text() else { return };
    for source in sources {
        let base = source.base_units();
        let is_no_name =
            matches!(base.as_slice(), [Unit::Text(name)] if name.is_empty() || name == "..");
        if base.is_empty() || is_no_name || base.contains(&Unit::Unknown) {
            continue;
        }
        let mut path = Word { tilde: target.tilde, ..Word::of_text(format!("{folder}/")) };
        base.into_iter().for_each(|it| path.push(it));
        files.push(FileUse { path, writes: true, inside: Inside::Doubtful, certain: true });
    }
}

/// The arguments that are no options. Behind `--`, all are. A single dash stands for standard input or output.
fn positional(words: &[Word]) -> Vec<&Word> {
    let end = words.iter().position(|it| it.text() == Some("--")).unwrap_or(words.len());
    let is_argument = |it: &&Word| !it.starts_with('-') || it.text() == Some("-");
    words[..end].iter().filter(is_argument).chain(words[end..].iter().skip(1)).collect()
}

/// The commands of git that create, change or delete the files in their arguments.
const GIT_CHANGES: [&str; 11] = [
    "restore",
    "checkout",
    "checkout-index",
    "clean",
    "rm",
    "mv",
    "worktree",
    "clone",
    "init",
    "submodule",
    "bundle",
];

/// What a program uses of the folders in its arguments.
fn inside_of(name: &str, git: &str, texts: &[&str], has: &dyn Fn(&[&str]) -> bool) -> Inside {
    let everything = match name {
        "rm" | "cp" | "chmod" | "chown" | "chgrp" | "grep" | "egrep" | "fgrep" | "zip" | "scp" => {
            let searches = name.ends_with("grep") && has(&["-d", "--directories"]);
            let flags = ["-r", "-R", "-a", "--recursive", "--archive", "--dereference-recursive"];
            searches || has(&flags)
        }
        "mv" | "tar" | "gtar" | "bsdtar" | "rsync" | "rgrep" | "ack" | "7z" | "7za" => true,
        "diff" => has(&["-r", "--recursive", "-N", "--new-file", "--unidirectional-new-file"]),
        "rg" | "ag" => {
            if !has(&["-u", "-.", "--hidden", "--unrestricted", "--no-ignore"]) {
                return Inside::Visible;
            }
            true
        }
        // Without an index, git compares any two folders.
        "git" if git == "diff" => {
            let is_outside = |it: &&str| {
                it.starts_with(['/', '~', '$']) || it.split('/').any(|name| name == "..")
            };
            has(&["--no-index"]) || texts.iter().any(is_outside)
        }
        "git" if git == "grep" => has(&["--no-index", "--untracked", "--no-exclude-standard"]),
        "git" => git == "rm" && has(&["-r"]),
        _ => false,
    };
    if everything { Inside::Everything } else { Inside::Nothing }
}

/// The files that a patch in the arguments or in the input of `apply_patch` changes.
pub(crate) fn patched(command: &SimpleCommand) -> Vec<FileUse> {
    let is_patch = |it: &Word| {
        name_of(it).is_some_and(|it| ["apply_patch", "applypatch"].contains(&it.as_str()))
    };
    if !command.words.iter().any(is_patch) {
        return Vec::new();
    }
    let texts = command.words.iter().chain(&command.here).flat_map(Word::known_texts);
    let files = texts.flat_map(files_of_patch).map(|(path, deletes)| {
        let inside = if deletes { Inside::Everything } else { Inside::Nothing };
        FileUse { path: Word::of_text(path), writes: true, inside, certain: true }
    });
    files.collect()
}

/// The files that a script of `sed` writes and reads: the rest of the line behind `w` and `r`.
fn used_by_sed(words: &[Word], looks: &mut Looks, files: &mut Vec<FileUse>) {
    let scripts = programs::sed::scripts(words).into_iter();
    let lines = scripts.filter(|it| !programs::sed::is_plain(it)).flat_map(str::lines);
    let paths = lines.flat_map(|line| {
        let commands = line.match_indices(['w', 'W', 'r', 'R']);
        commands.map(|(at, command)| (command, line[at + 1..].trim()))
    });
    let paths = paths.filter(|(_, it)| !it.is_empty() && it.len() < MAX_CODE_PATH);
    for (command, path) in looks.first(paths, MAX_CODE_PATHS) {
        let (path, writes) = (Word::of_text(path), command.eq_ignore_ascii_case("w"));
        files.push(FileUse { path, writes, inside: Inside::Nothing, certain: false });
    }
}

/// Words of code that look like paths: the code may read or write these files.
fn named_in_code(words: &[Word], looks: &mut Looks, files: &mut Vec<FileUse>) {
    let texts = words.iter().flat_map(Word::known_texts);
    let code = texts.filter(|it| it.contains([' ', '(', '"', '\'']));
    let code: Vec<&str> = code.take_while(|it| looks.has_room_for(it)).collect();
    let mut seen = HashSet::new();
    let found = code.into_iter().flat_map(raw::commands).flatten();
    let found = found.filter(|it| looks_like_path(it) && seen.insert(it.clone()));
    for path in looks.first(found, MAX_CODE_PATHS) {
        for writes in [false, true] {
            let path = path.clone();
            files.push(FileUse { path, writes, inside: Inside::Nothing, certain: false });
        }
    }
}

/// Whether a word of code may be a path.
pub(crate) fn looks_like_path(word: &Word) -> bool {
    word.text().is_some_and(|it| it.contains(['/', '.']))
}

/// Whether an argument looks like a path, also if a part of it is not known.
fn may_be_path(word: &Word) -> bool {
    word.tilde || word.known_texts().any(|it| it.contains(['/', '.']))
}

/// The arguments of a command, and what stands behind the first sign in each: `--file=x`, `HEAD:x`.
pub(crate) fn plain(words: &[Word]) -> HashSet<Word> {
    let value = |word: &Word| {
        let Some(Unit::Text(text)) = word.units.first() else { return None };
        signs(text).next().map(|(at, _)| with_first(word, first_line(&text[at + 1..])))
    };
    words.iter().filter_map(value).chain(words.iter().cloned()).collect()
}

/// The signs in a text before a path. Signs of prose and of JSON have a space or a quote behind them.
fn signs(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_sign =
        |at: usize| !text[at + 1..].starts_with(|it: char| it == '"' || it.is_whitespace());
    text.match_indices(['=', ':', '@', '<']).filter(move |(at, _)| is_sign(*at))
}

/// A path has one line. Behind it, there is other text.
fn first_line(text: &str) -> &str {
    text.split('\n').next().unwrap_or_default()
}

/// Paths behind a sign: `--file=x`, `of=x`, `HEAD:x`, `@x`, `f=@x;type=y`, `f=<x`.
fn values(words: &[Word], name: &str, looks: &mut Looks, files: &mut Vec<FileUse>) {
    for word in words {
        let Some(Unit::Text(text)) = word.units.first() else { continue };
        for (index, (at, _)) in looks.first(signs(text), MAX_VALUES).into_iter().enumerate() {
            let (before, value) = (&text[..at], first_line(&text[at + 1..]));
            // The first one is always compared.
            if !looks.has_room_for(value) && index > 0 {
                break;
            }
            let writes = name == "dd" && before == "of";
            let alone = word.units.len() == 1;
            let short = value.split([';', ',']).next().filter(|it| alone && it.len() < value.len());
            for value in [Some(value), short].into_iter().flatten().filter(|it| !it.is_empty()) {
                let path = with_first(word, value);
                files.push(FileUse {
                    path,
                    writes,
                    inside: Inside::Nothing,
                    certain: name == "dd",
                });
            }
        }
    }
}

/// Addresses such as `file:///etc/passwd`.
fn local_addresses(
    words: &[Word],
    has: &dyn Fn(&[&str]) -> bool,
    looks: &mut Looks,
    files: &mut Vec<FileUse>,
) {
    let texts = words.iter().flat_map(Word::known_texts);
    // The address may be the value of an option.
    let texts = texts.flat_map(|it| [Some(it), it.split_once('=').map(|it| it.1)]).flatten();
    for LocalFile { path, is_clear } in texts.filter_map(local_file) {
        if !is_clear {
            looks.doubt = Some("its address may stand for other files");
        }
        let uploads = has(&["-T", "--upload-file"]);
        for writes in [Some(false), uploads.then_some(true)].into_iter().flatten() {
            let path = Word::of_text(path.clone());
            files.push(FileUse { path, writes, inside: Inside::Nothing, certain: true });
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
