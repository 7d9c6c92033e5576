//! The text of a configuration file, and errors that point at a place in it.
//!
//! [`Source`] is a file that was read once. [`Placed`] is a value with its [`Place`] in a file. [`Diagnostic`] is an error
//! about a place: it shows the line, underlined.

mod diagnostic;
mod excerpt;
mod hidden;
mod serde_errors;

use std::borrow::Borrow;
use std::cell::RefCell;
use std::cmp::Ordering;
use std::fmt;
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use acp_wire::ErrorKind;
use acp_wire::toml_nesting::{self, TOO_DEEP, TOO_DEEP_HELP};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use crate::project::{MAX_FILE, ReadError};

pub use diagnostic::Diagnostic;
pub(crate) use hidden::hidden_parts;
pub use serde_errors::meant;

/// A file that was read once. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Source(Arc<Inner>);

#[derive(PartialEq, Eq)]
struct Inner {
    path: PathBuf,
    folder: PathBuf,
    bytes: Vec<u8>,
    text: String,
    only_secrets: bool,
}

impl Source {
    /// Reads a file. Relative paths in it are relative to its folder.
    ///
    /// # Errors
    /// The file cannot be read, is not a regular file, is too large, or is not UTF-8.
    pub fn read(path: &Path) -> Result<Source, Diagnostic> {
        let bytes = crate::project::read(path).map_err(|error| unreadable(path, &error))?;
        Source::from_bytes(path, bytes)
    }

    /// Like [`read`](Source::read), but `None` if there is no such file.
    ///
    /// # Errors
    /// As [`read`](Source::read).
    pub fn read_if_exists(path: &Path) -> Result<Option<Source>, Diagnostic> {
        match crate::project::read(path) {
            Ok(bytes) => Source::from_bytes(path, bytes).map(Some),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(unreadable(path, &error)),
        }
    }

    /// A file with these bytes, which were read from `path`.
    ///
    /// # Errors
    /// The bytes are too many, or are not UTF-8.
    pub fn from_bytes(path: &Path, bytes: Vec<u8>) -> Result<Source, Diagnostic> {
        if bytes.len() as u64 > MAX_FILE {
            return Err(unreadable(path, &ReadError::TooLarge(MAX_FILE)));
        }
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        let inner = |bytes: Vec<u8>, text: String| {
            let path = path.to_owned();
            Source(Arc::new(Inner { path, folder, bytes, text, only_secrets: false }))
        };
        if bytes.starts_with(b"\xff\xfe") || bytes.starts_with(b"\xfe\xff") {
            let error = "it is UTF-16; save it as UTF-8";
            return Err(Diagnostic::plain(format!("cannot read {}: {error}", path.display())));
        }
        match std::str::from_utf8(&bytes) {
            Ok(text) => {
                let text = text.strip_prefix('\u{feff}').unwrap_or(text).to_owned();
                Ok(inner(bytes, text))
            }
            Err(error) => {
                let at = error.valid_up_to();
                let lossy = String::from_utf8_lossy(&bytes).into_owned();
                let place = inner(Vec::new(), lossy).place(at..at + '\u{fffd}'.len_utf8());
                Err(Diagnostic::at(&place, "the file is not UTF-8").help("save it as UTF-8"))
            }
        }
    }

    /// The same file, with this folder as the one to which relative paths in the file are relative.
    #[must_use]
    pub fn in_folder(self, folder: &Path) -> Source {
        self.with(|inner| inner.folder = folder.to_owned())
    }

    /// The same file, of which errors show no value.
    #[must_use]
    pub fn with_only_secrets(self) -> Source {
        self.with(|inner| inner.only_secrets = true)
    }

    fn with(self, change: impl FnOnce(&mut Inner)) -> Source {
        let Inner { path, folder, bytes, text, only_secrets } = &*self.0;
        let (path, folder, bytes, text) =
            (path.clone(), folder.clone(), bytes.clone(), text.clone());
        let mut inner = Inner { path, folder, bytes, text, only_secrets: *only_secrets };
        change(&mut inner);
        Source(Arc::new(inner))
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    /// The folder to which relative paths in the file are relative.
    pub fn folder(&self) -> &Path {
        &self.0.folder
    }

    /// The bytes of the file, exactly as they were read.
    pub fn bytes(&self) -> &[u8] {
        &self.0.bytes
    }

    /// The text of the file, without a byte order mark.
    pub fn text(&self) -> &str {
        &self.0.text
    }

    /// A place in the text.
    pub fn place(&self, span: Range<usize>) -> Place {
        let end = span.end.min(self.text().len());
        Place { source: self.clone(), span: span.start.min(end)..end }
    }

    /// The line and the column of an offset, both from 1. The column counts characters.
    pub fn position(&self, offset: usize) -> (usize, usize) {
        let before = self.text().get(..offset).unwrap_or_default();
        let line = before.matches('\n').count() + 1;
        let start = before.rfind('\n').map_or(0, |at| at + 1);
        (line, before[start..].chars().count() + 1)
    }

    /// Reads the text as a type. The [`Placed`] values in it refer to this file.
    ///
    /// # Errors
    /// The text is not TOML, is nested too deeply, or does not fit the type.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, Diagnostic> {
        if let Some(at) = toml_nesting::too_deep(self.text()) {
            let place = self.place(at..at + 1);
            return Err(Diagnostic::at(&place, TOO_DEEP).help(TOO_DEEP_HELP));
        }
        let outer = READING.replace(Some(self.clone()));
        let parsed = toml::from_str(self.text());
        READING.set(outer);
        parsed.map_err(|error| serde_errors::diagnostic(self, &error))
    }

    /// The ranges of the text that no error shows.
    fn hidden(&self) -> Vec<Range<usize>> {
        hidden::ranges(self.text(), self.0.only_secrets)
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Source({})", self.path().display())
    }
}

thread_local! {
    /// The file that [`Source::parse`] reads. serde has no other way to tell it to the values.
    static READING: RefCell<Option<Source>> = const { RefCell::new(None) };
}

/// A range of the text of a file.
#[derive(Clone, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub source: Source,
    /// The range of its text, in bytes.
    pub span: Range<usize>,
}

impl Place {
    /// The text of the file at this place.
    pub fn text(&self) -> &str {
        self.source.text().get(self.span.clone()).unwrap_or_default()
    }

    /// The line and the column at which the place begins, both from 1.
    pub fn position(&self) -> (usize, usize) {
        self.source.position(self.span.start)
    }

    /// The part of this place at which `text` is first, or the whole place.
    #[must_use]
    pub fn find(&self, text: &str) -> Place {
        match self.text().find(text) {
            Some(at) => {
                let start = self.span.start + at;
                self.source.place(start..start + text.len())
            }
            None => self.clone(),
        }
    }
}

/// `FILE:LINE:COLUMN`.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (line, column) = self.position();
        let path = self.source.path().display().to_string();
        write!(f, "{}:{line}:{column}", acp_wire::printable::one_line(&path))
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// A value with its place in a file. Two values are equal if they have the same value, wherever it is.
#[derive(Clone)]
pub struct Placed<T> {
    /// The value.
    pub value: T,
    /// Where it is written.
    pub place: Place,
}

impl<T> Placed<T> {
    /// A value at a place.
    pub fn new(value: T, place: Place) -> Placed<T> {
        Placed { value, place }
    }

    /// Another value at the same place.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Placed<U> {
        Placed { value: change(self.value), place: self.place }
    }

    /// A reference to the value, at the same place.
    pub fn as_ref(&self) -> Placed<&T> {
        Placed { value: &self.value, place: self.place.clone() }
    }

    /// An error about this value.
    pub fn error(&self, message: impl Into<String>) -> Diagnostic {
        Diagnostic::at(&self.place, message)
    }
}

impl<T> Deref for Placed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: fmt::Debug> fmt::Debug for Placed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl<T: PartialEq> PartialEq for Placed<T> {
    fn eq(&self, other: &Placed<T>) -> bool {
        self.value == other.value
    }
}

impl<T: Eq> Eq for Placed<T> {}

impl<T: PartialOrd> PartialOrd for Placed<T> {
    fn partial_cmp(&self, other: &Placed<T>) -> Option<Ordering> {
        self.value.partial_cmp(&other.value)
    }
}

impl<T: Ord> Ord for Placed<T> {
    fn cmp(&self, other: &Placed<T>) -> Ordering {
        self.value.cmp(&other.value)
    }
}

/// A map with places has the same order as one without. So a plain name finds its entry.
impl Borrow<str> for Placed<String> {
    fn borrow(&self) -> &str {
        &self.value
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Placed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Placed<T>, D::Error> {
        let spanned = Spanned::<T>::deserialize(deserializer)?;
        let source = READING.with_borrow(Clone::clone);
        let source = source.ok_or_else(|| {
            serde::de::Error::custom("a value with its place can only be read from a file")
        })?;
        let place = source.place(spanned.span());
        Ok(Placed { value: spanned.into_inner(), place })
    }
}

/// The schema is that of the value.
impl<T: JsonSchema> JsonSchema for Placed<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> std::borrow::Cow<'static, str> {
        T::schema_id()
    }

    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

fn unreadable(path: &Path, error: &ReadError) -> Diagnostic {
    let why = format!("cannot read {}: {error}", path.display());
    Diagnostic::plain(why).of_kind(ErrorKind::UnreadableFile)
}

#[cfg(test)]
mod tests;
