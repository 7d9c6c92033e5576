//! Verifies an audit log: each hash, the order, the links between files, and the head.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::chain::{BadLine, GENESIS, Hasher, Link, decode};
use super::files::Names;
use super::head::Head;
use super::read::{ChainFiles, Line, Lines};

/// The result of the verification of one chain of files.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// The files, oldest first, each with the number of its records.
    pub files: Vec<(PathBuf, u64)>,
    /// The number of the first record, if there is one.
    pub first: Option<u64>,
    /// The last record that was verified.
    pub last: Option<Head>,
    /// The first problem. What follows it was not verified.
    pub problem: Option<Problem>,
    /// What a reader should know: losses that the log itself reports, and what the verification cannot show.
    pub notes: Vec<String>,
}

/// The first line that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1 on. `None` if the problem is not in a line.
    pub line: Option<u64>,
    /// What is wrong.
    pub why: String,
}

impl Report {
    /// How many records were verified.
    pub fn records(&self) -> u64 {
        self.files.iter().map(|(_, count)| count).sum()
    }
}

/// Verifies the log in this file, and those of further runs beside it: `audit.2.jsonl` and so on.
///
/// `keys` are the keys that the log may be made with. `head` is a head that was kept elsewhere. It belongs to the chain whose file it names.
///
/// # Errors
/// There is no log, or it cannot be read.
pub fn verify(file: &Path, keys: &[Hasher], head: Option<&Head>) -> Result<Vec<Report>, String> {
    let chains = Names::new(file)?.existing_runs();
    if chains.is_empty() {
        return Err(format!("there is no audit log {}", file.display()));
    }
    let is_of = |names: &Names, head: &Head| {
        names.active().file_name().is_some_and(|name| *name == *head.file)
    };
    if let Some(head) = head.filter(|head| !chains.iter().any(|names| is_of(names, head))) {
        return Err(format!("the head is that of {}, which does not exist", head.file));
    }
    let check = |names: &Names| {
        let kept = head.filter(|head| is_of(names, head));
        Verification::new(names, keys, kept).run()
    };
    chains.iter().map(check).collect()
}

/// The details of an `open` or `recovered` record.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Details {
    after: Option<String>,
    algorithm: Option<String>,
    missing: Option<Head>,
    problem: Option<String>,
    other_key: bool,
    lost: Option<u64>,
    torn: Option<serde_json::Value>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WithDetails {
    details: Details,
}

struct Verification<'a> {
    names: &'a Names,
    keys: &'a [Hasher],
    /// The heads that the chain must contain, with the place where each was found.
    heads: Vec<(String, Head)>,
    report: Report,
    /// The hash of the last record.
    prev: Option<String>,
    /// The hasher of the current file.
    current: Hasher,
}

impl<'a> Verification<'a> {
    fn new(names: &'a Names, keys: &'a [Hasher], kept: Option<&Head>) -> Verification<'a> {
        let heads = kept.map(|head| ("the head that was kept elsewhere".to_owned(), head.clone()));
        Verification {
            names,
            keys,
            heads: heads.into_iter().collect(),
            report: Report::default(),
            prev: None,
            current: Hasher::default(),
        }
    }

    fn run(mut self) -> Result<Report, String> {
        self.read_head();
        let files = ChainFiles::open(self.names)?;
        let last = files.len();
        let mut before: Option<PathBuf> = None;
        for (index, file) in files.enumerate() {
            let (path, lines) = file?;
            self.file(&path, lines, before.as_deref(), index + 1 == last)?;
            if self.report.problem.is_some() {
                return Ok(self.report);
            }
            before = Some(path);
        }
        self.end();
        Ok(self.report)
    }

    fn read_head(&mut self) {
        let path = self.names.head();
        match Head::read(&path) {
            Ok(Some(head)) => {
                let place = format!("the head in {}", name(&path));
                self.heads.push((place, head));
            }
            Ok(None) => {
                let note =
                    "there is no head file. Records that were cut off at the end are not noticed";
                self.report.notes.push(note.to_owned());
            }
            Err(why) => {
                let why = format!("it is not a head: {why}");
                self.report.problem = Some(Problem { file: path, line: None, why });
            }
        }
    }

    fn file(
        &mut self,
        path: &Path,
        mut lines: Lines,
        before: Option<&Path>,
        is_last: bool,
    ) -> Result<(), String> {
        if self.report.problem.is_some() {
            return Ok(());
        }
        self.report.files.push((path.to_owned(), 0));
        let mut number = 0;
        loop {
            let line = lines.next();
            let line = line.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            let Some(line) = line else { break };
            number += 1;
            let checked = match line {
                Line::Whole(line) if number == 1 => self.first_line(&line, path, before, is_last),
                Line::Whole(line) => self.line(&line, path, number),
                Line::TooLong => Err("the line is too long for a record".to_owned()),
                Line::Torn(line) if is_last => {
                    self.report.notes.push(format!(
                        "{} ends in the middle of a line, after {} bytes. A run is writing it, or has crashed. The \
                         next run keeps the bytes in a record",
                        name(path),
                        line.len()
                    ));
                    Ok(())
                }
                Line::Torn(_) => Err("the file ends in the middle of this line".to_owned()),
            };
            if let Err(why) = checked {
                let problem = Problem { file: path.to_owned(), line: Some(number), why };
                self.report.problem = Some(problem);
                return Ok(());
            }
        }
        if number == 0 && !is_last {
            let why = "it is empty".to_owned();
            self.report.problem = Some(Problem { file: path.to_owned(), line: None, why });
        }
        Ok(())
    }

    /// Checks the first line of a file, which says how the file is hashed and which file it continues.
    fn first_line(
        &mut self,
        line: &[u8],
        path: &Path,
        before: Option<&Path>,
        is_last: bool,
    ) -> Result<(), String> {
        let details = details(line);
        self.current = match details.algorithm.as_deref() {
            Some("sha256") if !self.keys.is_empty() && is_last => {
                return Err("the log is not made with a key, but you name one".to_owned());
            }
            Some("sha256") => Hasher::default(),
            Some("hmac-sha256") => {
                let Some(first) = self.keys.first() else {
                    let why =
                        "the log is made with a key. Name the file with the key: --key-file FILE";
                    return Err(why.to_owned());
                };
                let fits = |key: &&Hasher| decode(line, key).is_ok();
                self.keys.iter().find(fits).unwrap_or(first).clone()
            }
            _ => return Err("the first line of a file is not an `open` record".to_owned()),
        };
        let link = self.decode(line)?;
        if link.event != "open" {
            return Err("the first line of a file is not an `open` record".to_owned());
        }
        match (before.map(name), &details.after) {
            (Some(before), Some(after)) if before == *after => {}
            (Some(before), after) => {
                let after = after.as_deref().unwrap_or("no file");
                return Err(format!(
                    "the file continues {after}, but the file before it is {before}"
                ));
            }
            (None, Some(after)) => {
                self.report.notes.push(format!(
                    "the log begins with record {}. The files up to {after} are missing",
                    link.seq
                ));
                self.prev = Some(link.prev.clone());
            }
            (None, None) if link.prev != GENESIS || link.seq != 1 => {
                return Err(format!(
                    "the log begins with record {}: its beginning is missing",
                    link.seq
                ));
            }
            (None, None) => {}
        }
        self.accept(line, link, path, 1)
    }

    fn line(&mut self, line: &[u8], path: &Path, number: u64) -> Result<(), String> {
        let link = self.decode(line)?;
        self.accept(line, link, path, number)
    }

    fn decode(&self, line: &[u8]) -> Result<Link, String> {
        decode(line, &self.current).map_err(|bad| match bad {
            BadLine::NotARecord(why) => format!("it is not a record: {why}"),
            BadLine::WrongHash(link) if self.current.has_key() => format!(
                "the hash of record {} is wrong: the line was changed, or made with another key",
                link.seq
            ),
            BadLine::WrongHash(link) => {
                format!("the hash of record {} is wrong: the line was changed", link.seq)
            }
        })
    }

    /// Checks that a record follows the record before it.
    fn accept(&mut self, line: &[u8], link: Link, path: &Path, number: u64) -> Result<(), String> {
        if let Some(last) = &self.report.last
            && link.seq != last.seq + 1
        {
            return Err(format!(
                "record {} follows record {}: lines are missing, or their order was changed",
                link.seq, last.seq
            ));
        }
        if link.prev != self.prev.as_deref().unwrap_or(GENESIS) {
            return Err(format!(
                "record {} does not follow the record before it: lines were removed, added or changed",
                link.seq
            ));
        }
        for (place, head) in &self.heads {
            if head.seq == link.seq && head.hash != link.hash {
                return Err(format!(
                    "record {} differs from {place}: the log was rewritten",
                    link.seq
                ));
            }
        }
        if matches!(link.event.as_str(), "open" | "recovered") {
            self.report_losses(&details(line), path, number)?;
        }
        self.report.first.get_or_insert(link.seq);
        if let Some((_, count)) = self.report.files.last_mut() {
            *count += 1;
        }
        self.prev = Some(link.hash.clone());
        let Link { seq, time, hash, .. } = link;
        self.report.last = Some(Head { file: name(path), seq, hash, time });
        Ok(())
    }

    /// What the log itself says about records that are missing.
    fn report_losses(&mut self, details: &Details, path: &Path, number: u64) -> Result<(), String> {
        if let Some(head) = &details.missing {
            return Err(format!(
                "when this run began, the end of the log was missing: the head named record {}, which the log did not \
                 have",
                head.seq
            ));
        }
        let place = format!("{}:{number}", name(path));
        if let Some(why) = &details.problem {
            return Err(format!("when this run began, the file before it did not verify: {why}"));
        }
        if details.other_key {
            self.report
                .notes
                .push(format!("{place}: the file before it was made with another key"));
        }
        if let Some(lost) = details.lost {
            self.report
                .notes
                .push(format!("{place}: {lost} records could not be written before this one"));
        }
        if details.torn.is_some() {
            self.report.notes.push(format!(
                "{place}: a run ended while it wrote a record. The record has the bytes of that line"
            ));
        }
        Ok(())
    }

    /// Checks the heads, and says what the verification cannot show.
    fn end(&mut self) {
        let last = self.report.last.as_ref().map_or(0, |last| last.seq);
        let first = self.report.first.unwrap_or(1);
        for (place, head) in &self.heads {
            if head.seq > last {
                let why = format!(
                    "the end of the log is missing: {place} names record {}, and the last record is {last}",
                    head.seq
                );
                self.report.problem = Some(Problem { file: self.names.active(), line: None, why });
                return;
            }
            if head.seq < first {
                self.report
                    .notes
                    .push(format!("{place} names record {}, which is in a missing file", head.seq));
            }
        }
        self.report.notes.push(match self.current.has_key() {
            true => "everybody who has the key can change the log without notice. Compare the last record with a \
                     head that was kept elsewhere"
                .to_owned(),
            false => "the log has no key. Everybody who can write its files can compute new hashes, or cut off the end \
                      and change the head. Compare the last record with a head that was kept elsewhere"
                .to_owned(),
        });
    }
}

fn details(line: &[u8]) -> Details {
    serde_json::from_slice::<WithDetails>(line).unwrap_or_default().details
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
