//! `cargo xtask replay` runs this: it steps through the journal of a chain, or replays many journals and lists those that
//! differ.
#![allow(clippy::print_stdout, missing_docs)] // standard output is the protocol in the conductor, not here

use std::any::Any;
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use engine::journal::{JournalReplay, ReplaySummary};

const USAGE: &str = "\
usage: cargo xtask replay FILE [--from N] [--to N] [--quiet]
      print each input of a journal (`conductor agent --journal FILE`) and what came of it, and tell
      whether the core of this source gives the same outputs and bytes. N are numbers of lines of
      FILE; --quiet prints the result only
  cargo xtask replay [--remove] FILE|FOLDER…
      replay several journals, and all that are in the folders; name those that differ. --remove removes
      the journals that replay identically";

/// The extension of journal files.
const EXTENSION: &str = "jsonl";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<(), String> {
    let mut paths: Vec<&Path> = Vec::new();
    let (mut from, mut to, mut quiet, mut remove) = (0, usize::MAX, false, false);
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let mut number = || {
            let number = words.next().and_then(|it| it.parse::<usize>().ok());
            number.ok_or_else(|| format!("{word} needs a number"))
        };
        match word.as_str() {
            "--from" => from = number()?,
            "--to" => to = number()?,
            "--quiet" => quiet = true,
            "--remove" => remove = true,
            option if option.starts_with("--") => return Err(USAGE.to_owned()),
            path => paths.push(Path::new(path)),
        }
    }
    match paths.as_slice() {
        [] => Err(USAGE.to_owned()),
        [path] if !path.is_dir() => {
            let wanted = |line: usize| !quiet && (from..=to).contains(&line);
            let report =
                replay(path, wanted).map_err(|why| format!("{}: {why}", path.display()))?;
            let (counts, end) = (counts(&report), end(&report));
            println!("{}: replays identically: {counts}{end}", path.display());
            Ok(())
        }
        paths => {
            let summary = replay_all(&journals(paths)?, remove)?;
            println!("{summary}");
            summary.result()
        }
    }
}

fn at(path: &Path) -> impl Fn(std::io::Error) -> String {
    move |error| format!("{}: {error}", path.display())
}

/// The results of several journals.
#[derive(Debug, Default)]
struct Summary {
    passed: usize,
    total: ReplaySummary,
    /// The number of journals whose last line is incomplete.
    cut_off: usize,
    failed: Vec<(PathBuf, String)>,
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (path, why) in &self.failed {
            writeln!(f, "{}: {why}\n", path.display())?;
        }
        let Summary { passed, total, cut_off, failed } = self;
        write!(
            f,
            "{passed} journals replay identically, {} do not: {}",
            failed.len(),
            counts(total)
        )?;
        if *cut_off > 0 {
            write!(f, "; the last line of {cut_off} is incomplete")?;
        }
        Ok(())
    }
}

impl Summary {
    fn result(&self) -> Result<(), String> {
        let names = self.failed.iter().map(|(path, _)| path.display().to_string());
        match self.failed.len() {
            0 => Ok(()),
            count => {
                let names = names.collect::<Vec<_>>().join("\n  ");
                Err(format!("{count} journals do not replay identically:\n  {names}"))
            }
        }
    }
}

/// Replays all journals, even if one fails. Removes those that replay identically, if `remove`.
fn replay_all(paths: &[PathBuf], remove: bool) -> Result<Summary, String> {
    let mut summary = Summary::default();
    for path in paths {
        // The journal may be from a core that has panicked.
        let replayed = catch_unwind(AssertUnwindSafe(|| replay(path, |_| false)));
        match replayed.unwrap_or_else(|panic| Err(panic_text(panic.as_ref()))) {
            Ok(report) => {
                summary.passed += 1;
                summary.cut_off += usize::from(report.cut_off);
                summary.total.inputs += report.inputs;
                summary.total.outputs += report.outputs;
                summary.total.bytes += report.bytes;
                if remove {
                    fs::remove_file(path).map_err(at(path))?;
                }
            }
            Err(why) => summary.failed.push((path.clone(), why)),
        }
    }
    match paths {
        [] => Err("there is no journal in these folders".to_owned()),
        _ => Ok(summary),
    }
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("the core panics: {}", text.unwrap_or("without a message"))
}

/// The files among the paths, and all journals in the folders.
fn journals(paths: &[&Path]) -> Result<Vec<PathBuf>, String> {
    let mut found = Vec::new();
    for path in paths {
        if !path.is_dir() {
            found.push(path.to_path_buf());
            continue;
        }
        let mut entries = Vec::new();
        for entry in fs::read_dir(path).map_err(at(path))? {
            entries.push(entry.map_err(at(path))?.path());
        }
        entries.retain(|it| it.is_dir() || it.extension().is_some_and(|it| it == EXTENSION));
        entries.sort();
        let entries: Vec<&Path> = entries.iter().map(PathBuf::as_path).collect();
        found.extend(journals(&entries)?);
    }
    Ok(found)
}

fn counts(report: &ReplaySummary) -> String {
    let ReplaySummary { inputs, outputs, bytes, .. } = report;
    format!("{inputs} inputs, {outputs} outputs, {bytes} bytes")
}

/// A note about an incomplete last line.
fn end(report: &ReplaySummary) -> &'static str {
    match (report.cut_off, report.last_input) {
        (false, _) => "",
        (true, true) => "; the last line is incomplete: its input was replayed and not compared",
        (true, false) => "; the last line is incomplete and was skipped",
    }
}

fn replay(path: &Path, wanted: impl Fn(usize) -> bool) -> Result<ReplaySummary, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    let mut reader = BufReader::new(file);
    let mut line = Vec::new();
    let mut next = |line: &mut Vec<u8>| {
        line.clear();
        reader.read_until(b'\n', line).map_err(|error| error.to_string())
    };
    next(&mut line)?;
    let mut report = ReplaySummary::default();
    let Some(mut replay) = JournalReplay::new(&line).map_err(|why| why.to_string())? else {
        report.cut_off = true;
        return Ok(report);
    };
    while next(&mut line)? > 0 {
        let step = replay.step(&line).map_err(|why| why.to_string())?;
        report.add(step.as_ref());
        if let Some(step) = step.filter(|it| wanted(it.line)) {
            replay.show(&step).iter().for_each(|it| println!("{:>6}  {it}", step.line));
        }
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use testkit::test_chain::directory;

    use super::*;

    #[test]
    fn journals_are_found_in_folders_and_differing_ones_are_listed() {
        let folder = directory("replay");
        let inner = folder.join("inner");
        fs::create_dir(&inner).expect("a folder");
        // A journal whose first line is incomplete, one of another version, and a file that is no journal.
        fs::write(inner.join("chain-1-0.jsonl"), "{\"journal\":1,").expect("a file");
        fs::write(folder.join("chain-2-0.jsonl"), "{\"journal\":99}\n").expect("a file");
        fs::write(folder.join("notes.txt"), "my notes").expect("a file");
        let found = journals(&[&folder]).expect("a folder");
        let summary = replay_all(&found, true).expect("two journals");
        let text = summary.to_string();
        assert!(text.contains("1 journals replay identically, 1 do not"), "{text}");
        assert!(text.contains("chain-2-0.jsonl: line 1") && text.contains("version 99"), "{text}");
        assert!(summary.result().expect_err("one differs").contains("chain-2-0.jsonl"));
        let left = journals(&[&folder]).expect("a folder");
        assert_eq!(left, [folder.join("chain-2-0.jsonl")], "those that pass are removed");
        assert!(replay_all(&[], true).is_err(), "no journal is an error");
    }
}
