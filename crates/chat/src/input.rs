//! The input of a chat: the prompts of the command line, the lines of standard input, or a person.

use std::collections::VecDeque;

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt, BufReader, Stdin};
use tokio::sync::mpsc::Receiver;

use crate::view::UserInput;

/// The source of input.
#[derive(Debug)]
pub enum Input {
    /// The prompts of the command line.
    Prompts(VecDeque<String>),
    /// Standard input, each line of which is a prompt.
    Lines(LineReader<BufReader<Stdin>>),
    /// A person.
    Person(Receiver<UserInput>),
}

impl Input {
    /// The lines of standard input.
    pub fn lines() -> Input {
        Input::Lines(LineReader::new(BufReader::new(tokio::io::stdin())))
    }

    /// What a person has entered already.
    pub(crate) fn waiting(&mut self) -> Option<UserInput> {
        match self {
            Input::Person(inputs) => inputs.try_recv().ok(),
            Input::Prompts(_) | Input::Lines(_) => None,
        }
    }

    /// The next input. Cancel safe.
    pub(crate) async fn next(&mut self) -> UserInput {
        let line = match self {
            Input::Prompts(prompts) => prompts.pop_front(),
            Input::Lines(lines) => lines.next().await,
            Input::Person(inputs) => return inputs.recv().await.unwrap_or(UserInput::End),
        };
        line.map_or(UserInput::End, UserInput::Line)
    }

    /// Discards the rest of the input, unless it comes from a person.
    pub(crate) fn discard_rest(&mut self) {
        if !matches!(self, Input::Person(_)) {
            *self = Input::Prompts(VecDeque::new());
        }
    }
}

/// The maximum length of a line. The rest of a longer line is another line.
const MAX_LINE: usize = 16 * 1024 * 1024;

/// Reads lines. Bytes that are not UTF-8 are replaced.
#[derive(Debug)]
pub struct LineReader<R> {
    reader: R,
    /// The beginning of the next line.
    line: Vec<u8>,
}

impl<R: AsyncBufRead + Unpin> LineReader<R> {
    fn new(reader: R) -> LineReader<R> {
        LineReader { reader, line: Vec::new() }
    }

    /// The next line; `None` at the end. Cancel safe.
    async fn next(&mut self) -> Option<String> {
        let space = u64::try_from(MAX_LINE - self.line.len()).unwrap_or_default();
        let read = (&mut self.reader).take(space).read_until(b'\n', &mut self.line).await;
        // After an error there is nothing more to read.
        if self.line.is_empty() || read.is_err() {
            return None;
        }
        let line = std::mem::take(&mut self.line);
        Some(String::from_utf8_lossy(&line).trim_end_matches(['\r', '\n']).to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_of_any_bytes_are_read() {
        let mut lines = LineReader::new(&b"one\r\n\nt\xffo\nlast"[..]);
        for expected in ["one", "", "t\u{fffd}o", "last"] {
            assert_eq!(lines.next().await.as_deref(), Some(expected));
        }
        assert_eq!(lines.next().await, None);
    }

    #[tokio::test]
    async fn an_endless_line_is_split() {
        let zeros = tokio::io::repeat(0).take(u64::try_from(MAX_LINE).expect("small") + 3);
        let mut lines = LineReader::new(BufReader::new(zeros));
        assert_eq!(lines.next().await.map(|it| it.len()), Some(MAX_LINE));
        assert_eq!(lines.next().await.as_deref(), Some("\0\0\0"));
        assert_eq!(lines.next().await, None);
    }
}
