//! The files that `find` deletes, writes, and gives to other programs.

use super::{FileUse, Inside, Looks, used_by};
use crate::permissions::command::parts::name_of;
use crate::permissions::command::words::{Unit, Word};

/// Options of `find` for a file that it writes its results to.
const OUTPUTS: [&str; 4] = ["-fprint", "-fprint0", "-fprintf", "-fls"];
/// Options of `find` that run a program.
const RUNS: [&str; 4] = ["-exec", "-execdir", "-ok", "-okdir"];
/// The most programs that are looked up with the files that `find` gives to them.
const MAX_PROGRAMS: usize = 10;

/// The files of the arguments of `find`.
pub(super) fn used_by_find(words: &[Word], looks: &mut Looks, files: &mut Vec<FileUse>) {
    let is = |word: &Word, texts: &[&str]| word.text().is_some_and(|it| texts.contains(&it));
    let mut add = |path: &Word, inside| {
        files.push(FileUse { path: path.clone(), writes: true, inside, certain: true });
    };
    for (at, word) in words.iter().enumerate() {
        if is(word, &OUTPUTS)
            && let Some(path) = words.get(at + 1)
        {
            add(path, Inside::Nothing);
        }
    }
    let roots = roots(words);
    if words.iter().any(|it| is(it, &["-delete"])) {
        for root in &roots {
            add(root, Inside::Nothing);
            add(root, Inside::Selected);
        }
    }
    let programs = words.iter().enumerate().filter(|(_, it)| is(it, &RUNS)).map(|(at, _)| at + 1);
    for at in looks.first(programs, MAX_PROGRAMS) {
        let end = words[at..].iter().position(|it| is(it, &[";", "+"]));
        let program = &words[at..end.map_or(words.len(), |end| at + end)];
        let is_find = program.first().and_then(name_of).is_some_and(|it| it == "find");
        if is_find || !looks.has_room(program.len() * roots.len()) {
            continue;
        }
        for root in &roots {
            let command: Vec<Word> = program.iter().map(|it| with_root(it, root)).collect();
            let inner = used_by(&command, looks).into_iter();
            // What `find` selects is in the folder. Its options do not say whether the folder itself is.
            files.extend(inner.map(|it| FileUse { inside: Inside::Selected, ..it }));
        }
    }
}

/// The folders in which `find` begins.
fn roots(words: &[Word]) -> Vec<Word> {
    let mut roots = Vec::new();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match word.text() {
            Some("-H" | "-L" | "-P" | "--") => {}
            Some("-D") => drop(words.next()),
            Some(text) if text.starts_with("-O") => {}
            Some(text) if text.starts_with(['-', '(', '!']) => break,
            _ => roots.push(word.clone()),
        }
    }
    match roots.is_empty() {
        true => vec![Word::of_text(".")],
        false => roots,
    }
}

/// The word with the folder in the place of `{}`.
fn with_root(word: &Word, root: &Word) -> Word {
    match (word.text(), root.text()) {
        (Some("{}"), _) => root.clone(),
        (Some(text), Some(root)) => Word::of_text(text.replace("{}", root)),
        (Some(text), None) if text.contains("{}") => {
            let units = vec![Unit::Unknown];
            Word { units, ..Word::default() }
        }
        _ => word.clone(),
    }
}
