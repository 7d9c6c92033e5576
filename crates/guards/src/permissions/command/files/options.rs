//! Files that the options of a program name.

use super::{FileUse, Inside, Looks};
use crate::permissions::command::programs;
use crate::permissions::command::words::{Unit, Word};

/// The longest cluster of short options before a path.
const MAX_LETTERS: usize = 64;

/// Options for output that many programs have.
const OUTPUT: [&str; 6] =
    ["-o", "-O", "--output", "--output-document", "--output-file", "--output-directory"];

/// Programs whose options `-o` and `-O` are no paths.
const OTHER_OUTPUT: [&str; 14] = [
    "bash", "dash", "egrep", "fgrep", "find", "git", "grep", "ls", "ps", "rg", "set", "sh", "ssh",
    "zsh",
];

/// Endings of files of source code.
const CODE: [&str; 34] = [
    "c", "cc", "cpp", "cs", "css", "go", "h", "hpp", "html", "java", "js", "json", "jsx", "kt",
    "lock", "lua", "md", "mjs", "php", "proto", "py", "rb", "rs", "scss", "sh", "sql", "svelte",
    "swift", "toml", "ts", "tsx", "txt", "vue", "xml",
];

/// Options of a program for a file or folder that it writes.
fn output_options(name: &str) -> &'static [&'static str] {
    match name {
        "cp" | "mv" | "ln" | "install" => &["-t", "--target-directory"],
        "tar" | "gtar" | "bsdtar" => &["-C", "--directory"],
        "unzip" => &["-d"],
        "patch" => &["-d", "--directory", "-r", "--reject-file"],
        "rsync" => &[
            "--log-file",
            "--backup-dir",
            "-T",
            "--temp-dir",
            "--partial-dir",
            "--write-batch",
            "--only-write-batch",
        ],
        "csplit" => &["-f", "--prefix"],
        "ssh-keygen" => &["-f"],
        "openssl" => &["-out", "-keyout", "-writerand"],
        "go" => &[
            "-coverprofile",
            "-cpuprofile",
            "-memprofile",
            "-blockprofile",
            "-mutexprofile",
            "-trace",
            "-outputdir",
            "--coverprofile",
            "--outputdir",
        ],
        "curl" => &[
            "-D",
            "--dump-header",
            "-c",
            "--cookie-jar",
            "--trace",
            "--trace-ascii",
            "--stderr",
            "--libcurl",
            "--etag-save",
            "--hsts",
            "--alt-svc",
            "--output-dir",
        ],
        "wget" | "wget2" => &[
            "-P",
            "--directory-prefix",
            "-a",
            "--append-output",
            "--save-cookies",
            "--hsts-file",
            "--rejected-log",
            "--warc-file",
        ],
        _ => &[],
    }
}

/// Why the files of a program are not known, if there is a reason.
pub(super) fn unclear(name: &str, texts: &[&str]) -> Option<&'static str> {
    let has = |flags: &[&str]| {
        texts.iter().any(|word| flags.iter().any(|flag| programs::is_flag(word, flag)))
    };
    let begins = |start: &str| texts.iter().any(|it| it.starts_with(start));
    match name {
        "curl" if begins("--expand-") || begins("--va") => {
            Some("`curl` puts variables into its options")
        }
        "curl" if has(&["-K", "--config"]) => Some("a file has further options of `curl`"),
        "curl" if reads_format(texts) => {
            Some("a file has the format of `curl`, which can write files")
        }
        "wget" | "wget2" if has(&["-e", "--execute", "--config"]) => {
            Some("a file or a command has further options of `wget`")
        }
        _ => None,
    }
}

/// Whether `curl` reads its format for output from a file: `-w @file`.
pub(in super::super) fn reads_format(texts: &[&str]) -> bool {
    let is_short = |it: &str| it.starts_with('-') && !it.starts_with("--") && it.contains('w');
    texts.iter().enumerate().any(|(at, it)| {
        let next = || texts.get(at + 1).is_some_and(|it| it.starts_with('@'));
        match it.split_once('=') {
            Some((option, value)) if programs::is_flag(option, "--write-out") => {
                value.starts_with('@')
            }
            _ if programs::is_flag(it, "--write-out") || is_short(it) && it.ends_with('w') => {
                next()
            }
            _ => is_short(it) && it.contains("w@"),
        }
    })
}

/// Files and folders that options name for output.
pub(super) fn written_by_options(words: &[Word], name: &str, files: &mut Vec<FileUse>) {
    let options = output_options(name);
    let mut add = |path: Word| {
        if !path.units.is_empty() {
            files.push(FileUse { path, writes: true, inside: Inside::Nothing, certain: false });
        }
    };
    if options.contains(&"-C") {
        written_by_tar(words, &mut add);
    }
    // `git apply` puts a folder before the paths of the patch.
    let is_patch =
        name == "git" && words.iter().any(|it| matches!(it.text(), Some("apply" | "am")));
    let short: Vec<&str> = match OTHER_OUTPUT.contains(&name) {
        true => options.to_vec(),
        false => options.iter().chain(&OUTPUT[..2]).copied().collect(),
    };
    for (at, word) in words.iter().enumerate() {
        let Some(Unit::Text(text)) = word.units.first() else { continue };
        let is_option = |it: &str| {
            let is_long = |option: &&str| option.starts_with("--") && programs::is_flag(it, option);
            OUTPUT.contains(&it)
                || options.contains(&it)
                || options.iter().chain(&OUTPUT).any(is_long)
                || is_patch && it == "--directory"
        };
        let is_short = options.iter().any(|it| it.len() == 2 && text.starts_with(it));
        let path = match text.split_once('=') {
            Some((option, value)) if is_option(option) => Some(with_first(word, value)),
            None if is_option(text) => words.get(at + 1).cloned(),
            _ if (text.starts_with("-o") || is_short) && text.is_char_boundary(2) => {
                Some(with_first(word, &text[2..]))
            }
            _ => in_cluster(word, text, &short).or_else(|| {
                let follows = short.iter().any(|it| ends_in_letter(text, it));
                words.get(at + 1).filter(|_| follows).cloned()
            }),
        };
        path.into_iter().for_each(&mut add);
        if name == "curl" {
            written_by_format(text).for_each(|it| add(Word::of_text(it)));
        }
    }
}

/// Whether `tar` only reads an archive: its arguments are names inside of the archive.
pub(super) fn only_unpacks(words: &[Word]) -> bool {
    let first = words.first().and_then(Word::text).filter(|it| !it.starts_with('-'));
    let is_cluster = |it: &&str| it.starts_with('-') && !it.starts_with("--");
    let clusters = words.iter().filter_map(Word::text).filter(is_cluster);
    let letters: String = first.into_iter().chain(clusters).collect();
    let long = |option: &str| {
        let mut texts = words.iter().filter_map(Word::text);
        texts.any(|it| programs::is_flag(it, option))
    };
    let unpacks = letters.contains(['x', 't', 'd']) || long("--extract") || long("--list");
    let packs = letters.contains(['c', 'r', 'u', 'A'])
        || ["--create", "--append", "--update", "--concatenate"].into_iter().any(long);
    unpacks && !packs
}

/// The archive and the folder of `tar`.
fn written_by_tar(words: &[Word], add: &mut dyn FnMut(Word)) {
    let text = |it: &Word| it.text().unwrap_or_default().to_owned();
    // Options without a dash, whose values follow in their order: `tar xfC archive folder`.
    let first = words.first().map(text).unwrap_or_default();
    let bundle = if first.starts_with('-') { "" } else { first.as_str() };
    if bundle.contains('C') {
        words[1..].iter().cloned().for_each(&mut *add);
    }
    if only_unpacks(words) {
        return;
    }
    let mut with_value = bundle.chars().filter(|it| "fbCTXKNLVFgI".contains(*it));
    if let Some(index) = with_value.position(|it| it == 'f') {
        words.get(1 + index).cloned().into_iter().for_each(&mut *add);
    }
    for (at, word) in words.iter().enumerate() {
        let text = text(word);
        let next = || words.get(at + 1).cloned();
        let path = match text.split_once('=') {
            Some((option, value)) if programs::is_flag(option, "--file") => {
                Some(with_first(word, value))
            }
            None if text.starts_with("--") && programs::is_flag(&text, "--file") => next(),
            _ if text == "-f" || ends_in_letter(&text, "-f") => next(),
            _ => in_cluster(word, &text, &["-f"]),
        };
        path.into_iter().for_each(&mut *add);
    }
}

/// The files in a format of `curl --write-out`: `%output{FILE}`.
fn written_by_format(text: &str) -> impl Iterator<Item = &str> {
    let files = text.split("%output{").skip(1);
    files.filter_map(|it| Some(it.split_once('}')?.0.trim_start_matches('>')))
}

/// Files that are the value of a short option without a space, such as `-f.env`, and the globs of `rg`.
pub(super) fn read_by_options(
    words: &[Word],
    name: &str,
    looks: &mut Looks,
    files: &mut Vec<FileUse>,
) {
    let mut add = |path: Word| {
        files.push(FileUse { path, writes: false, inside: Inside::Nothing, certain: false });
    };
    for (at, word) in words.iter().enumerate() {
        let Some(Unit::Text(text)) = word.units.first() else { continue };
        let next = || words.get(at + 1).and_then(Word::text).map(str::to_owned);
        if name == "rg" {
            let glob = match text.as_str() {
                "-g" | "--glob" | "--iglob" => next(),
                _ => ["-g", "--glob=", "--iglob="]
                    .iter()
                    .find_map(|it| text.strip_prefix(it))
                    .map(str::to_owned),
            };
            glob.iter().flat_map(|it| words_of_glob(it)).for_each(&mut add);
        }
        let Some(letters) = text.strip_prefix('-').filter(|it| !it.starts_with('-')) else {
            continue;
        };
        if !letters.contains(['.', '/', '_', '~']) && word.units.len() == 1 {
            continue;
        }
        let is_letter = |it: &char| it.is_ascii_alphabetic();
        let count = letters.chars().take_while(is_letter).count();
        for length in looks.first(1..=count, MAX_LETTERS) {
            if length < letters.len() && looks.has_room_for(letters) {
                add(with_first(word, &letters[length..]));
            }
        }
    }
}

/// The paths that a glob of `rg` stands for. Its wildcards match a dot at the beginning, too.
fn words_of_glob(glob: &str) -> Vec<Word> {
    if glob.starts_with('!') {
        return Vec::new();
    }
    let glob = glob.trim_start_matches("**/").trim_start_matches('/');
    let mut word = Word::default();
    let mut closing = None;
    for character in glob.chars() {
        match (closing, character) {
            (Some(end), _) if character == end => closing = None,
            (Some(_), _) => {}
            (None, '*') => word.push(Unit::Many),
            (None, '?') => word.push(Unit::One),
            (None, '[') => {
                word.push(Unit::One);
                closing = Some(']');
            }
            (None, '{') => {
                word.push(Unit::Many);
                closing = Some('}');
            }
            _ => word.push_text(character.encode_utf8(&mut [0; 4])),
        }
    }
    // Files of source code are not hidden.
    let is_code = glob.strip_prefix("*.").is_some_and(|it| CODE.contains(&it));
    let hidden = match word.units.first() {
        Some(Unit::Many) if is_code => None,
        Some(Unit::Many) => {
            let units = [&[Unit::Text(".".to_owned())], word.units.as_slice()].concat();
            Some(Word { units, ..Word::default() })
        }
        Some(Unit::One) => {
            let mut hidden = Word::of_text(".");
            word.units[1..].iter().for_each(|it| hidden.push(it.clone()));
            Some(hidden)
        }
        _ => None,
    };
    std::iter::once(word).chain(hidden).filter(|it| !it.units.is_empty()).collect()
}

/// The value of a short option that stands behind other letters: `-at.git`.
pub(super) fn in_cluster(word: &Word, text: &str, options: &[&str]) -> Option<Word> {
    let letters = text.strip_prefix('-').filter(|it| !it.starts_with('-'))?;
    let short = options.iter().filter(|it| it.len() == 2).filter_map(|it| it.chars().nth(1));
    let at = short.filter_map(|it| letters.find(it)).min()?;
    let value = &letters[at + 1..];
    (!value.is_empty() || word.units.len() > 1).then(|| with_first(word, value))
}

/// Whether a cluster of short options ends in this one: `-at`.
pub(super) fn ends_in_letter(text: &str, option: &str) -> bool {
    option.len() == 2
        && text.len() > 2
        && text.starts_with('-')
        && !text.starts_with("--")
        && text.ends_with(&option[1..])
}

/// The word with another text at its beginning.
pub(super) fn with_first(word: &Word, text: &str) -> Word {
    let mut path = word.clone();
    path.units[0] = Unit::Text(text.to_owned());
    path.tilde = text.starts_with("~/") && word.units.len() == 1;
    if text.is_empty() {
        path.units.remove(0);
    }
    path
}
