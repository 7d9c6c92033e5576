//! The output of a terminal, of which the last part is kept.

use std::io::Read;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The output of a terminal. A thread adds to it.
#[derive(Debug, Clone)]
pub(super) struct SharedOutput(Arc<Mutex<Output>>);

#[derive(Debug)]
struct Output {
    bytes: Vec<u8>,
    /// The number of bytes that were ever added.
    total: u64,
    /// The maximum number of bytes of the text.
    limit: usize,
    /// Whether bytes were removed from the beginning.
    removed: bool,
    /// Whether the output has ended.
    ended: bool,
}

impl SharedOutput {
    pub(super) fn new(limit: usize) -> SharedOutput {
        let output = Output { bytes: Vec::new(), total: 0, limit, removed: false, ended: false };
        SharedOutput(Arc::new(Mutex::new(output)))
    }

    /// Reads until the output ends.
    pub(super) fn read(&self, mut reader: impl Read) {
        let mut chunk = [0; 8192];
        loop {
            match reader.read(&mut chunk) {
                Ok(0) => break,
                Ok(count) => self.lock().push(&chunk[..count]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        self.lock().ended = true;
    }

    /// The number of bytes so far.
    pub(super) fn total(&self) -> u64 {
        self.lock().total
    }

    /// The text, and whether it is truncated.
    pub(super) fn text(&self) -> (String, bool) {
        self.lock().text()
    }

    fn lock(&self) -> MutexGuard<'_, Output> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Output {
    fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.total += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        // Not after every push, because all bytes move.
        if self.bytes.len() > 2 * self.limit + 4 * 8192 {
            self.bytes.drain(..self.bytes.len() - self.limit);
            self.removed = true;
        }
    }

    fn text(&self) -> (String, bool) {
        let mut bytes = &self.bytes[..];
        if self.removed {
            // The first character may be cut.
            let cut = bytes.iter().take(3).take_while(|byte| (0x80..0xc0).contains(*byte)).count();
            bytes = &bytes[cut..];
        }
        if !self.ended {
            bytes = without_partial_character(bytes);
        }
        // Bytes that are not text become longer, so the limit is applied to the text.
        let text = String::from_utf8_lossy(bytes);
        let start = text.ceil_char_boundary(text.len().saturating_sub(self.limit));
        (text[start..].to_owned(), self.removed || start > 0)
    }
}

/// Removes the first bytes of a character whose other bytes are still to come.
fn without_partial_character(bytes: &[u8]) -> &[u8] {
    match std::str::from_utf8(&bytes[bytes.len().saturating_sub(3)..]) {
        Err(error) if error.error_len().is_none() => {
            let tail = bytes.len().min(3) - error.valid_up_to();
            &bytes[..bytes.len() - tail]
        }
        _ => partial_after_other_bytes(bytes),
    }
}

/// As above, if the last three bytes begin inside of another character.
fn partial_after_other_bytes(bytes: &[u8]) -> &[u8] {
    let is_start = |byte: &u8| *byte >= 0xc0;
    let Some(back) = bytes.iter().rev().take(3).position(is_start) else { return bytes };
    let at = bytes.len() - 1 - back;
    match std::str::from_utf8(&bytes[at..]) {
        Err(error) if error.error_len().is_none() => &bytes[..at],
        _ => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(limit: usize, chunks: &[&[u8]]) -> SharedOutput {
        let output = SharedOutput::new(limit);
        chunks.iter().for_each(|chunk| output.lock().push(chunk));
        output
    }

    #[test]
    fn a_long_output_is_truncated_at_a_character_boundary_from_the_beginning() {
        assert_eq!(output(10, &[b"short"]).text(), ("short".into(), false));
        assert_eq!(output(4, &["aöüß".as_bytes()]).text(), ("üß".into(), true));
        assert_eq!(output(3, &["aöüß".as_bytes()]).text(), ("ß".into(), true));
        assert_eq!(output(0, &[b"x"]).text(), (String::new(), true));
        let long = "ä".repeat(100_000);
        let (text, truncated) = output(101, &[long.as_bytes()]).text();
        assert_eq!((text.len(), truncated), (100, true));
        assert!(text.chars().all(|it| it == 'ä'));
    }

    #[test]
    fn bytes_that_are_not_text_do_not_exceed_the_limit() {
        let (text, truncated) = output(10, &[&[0xff; 10]]).text();
        assert!(text.len() <= 10 && truncated, "{text}");
    }

    #[test]
    fn a_character_that_is_not_complete_yet_is_not_shown() {
        for character in ["ä", "€", "😀"] {
            let bytes = character.as_bytes();
            for length in 1..bytes.len() {
                let output = output(100, &[b"abc", &bytes[..length]]);
                assert_eq!(output.text().0, "abc", "{character} {length}");
                output.lock().push(&bytes[length..]);
                assert_eq!(output.text().0, format!("abc{character}"));
            }
        }
    }
}
