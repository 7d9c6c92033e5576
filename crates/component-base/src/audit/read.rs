//! Reads the lines of audit logs.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use super::files::Names;

/// The longest line that is read.
const MAX_LINE: u64 = 1024 * 1024;

/// How often the list of files is read again, if a run rotates them meanwhile.
const MAX_RETRIES: u32 = 100;

/// The files of a chain, oldest first. A rotation meanwhile changes nothing: the newest file is open already.
pub(super) struct ChainFiles {
    rotated: std::vec::IntoIter<PathBuf>,
    active: Option<(PathBuf, Lines)>,
}

impl ChainFiles {
    pub(super) fn open(names: &Names) -> Result<ChainFiles, String> {
        let list = || names.rotated().into_iter().map(|(_, path)| path).collect::<Vec<PathBuf>>();
        let mut rotated = list();
        for _ in 0..MAX_RETRIES {
            let path = names.active();
            let active = match path.exists() {
                true => Lines::open(&path).map(|lines| Some((path, lines))),
                false => Ok(None),
            };
            let now = list();
            if now == rotated {
                return Ok(ChainFiles { rotated: rotated.into_iter(), active: active? });
            }
            rotated = now;
        }
        Err("the files are rotated all the time. Try again".to_owned())
    }
}

impl Iterator for ChainFiles {
    type Item = Result<(PathBuf, Lines), String>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.rotated.next() {
            Some(path) => Some(Lines::open(&path).map(|lines| (path, lines))),
            None => self.active.take().map(Ok),
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let count = self.rotated.len() + usize::from(self.active.is_some());
        (count, Some(count))
    }
}

impl ExactSizeIterator for ChainFiles {}

/// The lines of a file, in bounded memory.
pub(super) struct Lines {
    reader: BufReader<File>,
}

/// A line without its line break.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// A whole line.
    Whole(Vec<u8>),
    /// The file ends in the middle of the line.
    Torn(Vec<u8>),
    /// The line is too long to be a record.
    TooLong,
}

impl Lines {
    pub(super) fn open(path: &Path) -> Result<Lines, String> {
        let failed = |why: String| format!("cannot read {}: {why}", path.display());
        let metadata = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?;
        if !metadata.is_file() {
            return Err(failed("it is not a regular file".to_owned()));
        }
        let file = File::open(path).map_err(|error| failed(error.to_string()))?;
        Ok(Lines { reader: BufReader::with_capacity(64 * 1024, file) })
    }

    /// The next line, or `None` at the end.
    pub(super) fn next(&mut self) -> io::Result<Option<Line>> {
        let mut line = Vec::new();
        self.reader.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)?;
        if line.is_empty() {
            return Ok(None);
        }
        if line.last() == Some(&b'\n') {
            line.pop();
            return Ok(Some(Line::Whole(line)));
        }
        if line.len() < MAX_LINE as usize {
            return Ok(Some(Line::Torn(line)));
        }
        self.skip_line()?;
        Ok(Some(Line::TooLong))
    }

    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let bytes = self.reader.fill_buf()?;
            let end = bytes.iter().position(|it| *it == b'\n');
            let count = end.map_or(bytes.len(), |at| at + 1);
            let is_end = end.is_some() || count == 0;
            self.reader.consume(count);
            if is_end {
                return Ok(());
            }
        }
    }
}
