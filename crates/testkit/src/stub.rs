//! Minimal JSON-RPC for the benchmark's stub components.
//!
//! The benchmark measures a conductor, so the programs around it must cost as little as possible. A line is split only at
//! its top level, values are byte ranges of the input, and one write answers all lines of one read. This works for
//! well-formed lines only.

use std::fs::File;
use std::io::{self, Read, Write};
#[cfg(unix)]
use std::os::fd::{AsFd, OwnedFd};
#[cfg(windows)]
use std::os::windows::io::{AsHandle, OwnedHandle as OwnedFd};

/// The capacity of a pipe on Linux. A larger read would never be filled.
const CHUNK: usize = 64 * 1024;

/// Reads a pipe in batches of whole lines.
#[derive(Debug)]
pub struct Lines {
    input: File,
    buffer: Vec<u8>,
    filled: usize,
    taken: usize,
}

impl Lines {
    /// Reads from this pipe.
    pub fn new(input: impl Into<OwnedFd>) -> Self {
        Self { input: File::from(input.into()), buffer: vec![0; 2 * CHUNK], filled: 0, taken: 0 }
    }

    /// Waits for a whole line and returns all whole lines that have arrived. `None` at the end of the stream.
    pub fn batch(&mut self) -> io::Result<Option<&[u8]>> {
        self.buffer.copy_within(self.taken..self.filled, 0);
        self.filled -= self.taken;
        self.taken = 0;
        loop {
            if self.buffer.len() - self.filled < CHUNK {
                self.buffer.resize(2 * self.buffer.len(), 0);
            }
            let read = self.input.read(&mut self.buffer[self.filled..])?;
            if read == 0 {
                return Ok(None);
            }
            let fresh = &self.buffer[self.filled..self.filled + read];
            let newline = memchr::memrchr(b'\n', fresh).map(|at| self.filled + at);
            self.filled += read;
            if let Some(newline) = newline {
                self.taken = newline + 1;
                return Ok(Some(&self.buffer[..self.taken]));
            }
        }
    }
}

/// Collects output and writes it with one call. Large data is written directly, because copying megabytes would be most of a
/// stub's work.
#[derive(Debug)]
pub struct Output {
    pipe: File,
    pending: Vec<u8>,
}

impl Output {
    /// Writes to this pipe.
    pub fn new(pipe: impl Into<OwnedFd>) -> Self {
        Self { pipe: File::from(pipe.into()), pending: Vec::with_capacity(2 * CHUNK) }
    }

    /// Adds bytes.
    pub fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        if bytes.len() < CHUNK {
            self.pending.extend_from_slice(bytes);
            return Ok(());
        }
        self.flush()?;
        self.pipe.write_all(bytes)
    }

    /// Writes the collected bytes.
    pub fn flush(&mut self) -> io::Result<()> {
        self.pipe.write_all(&self.pending)?;
        self.pending.clear();
        Ok(())
    }
}

/// The lines of a batch, without their newlines.
pub fn lines(batch: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut start = 0;
    memchr::memchr_iter(b'\n', batch).filter_map(move |end| {
        let line = &batch[start..end];
        start = end + 1;
        (!line.is_empty()).then_some(line)
    })
}

/// The members of a JSON-RPC message, as text of the line (strings with their quotes).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// `id`
    pub id: Option<&'a [u8]>,
    /// `method`
    pub method: Option<&'a [u8]>,
    /// `params`
    pub params: Option<&'a [u8]>,
    /// `result`
    pub result: Option<&'a [u8]>,
    /// `error`
    pub error: Option<&'a [u8]>,
}

impl<'a> Frame<'a> {
    /// Splits a line. The members may have any order. `None` if the line is not an object.
    pub fn split(line: &'a [u8]) -> Option<Self> {
        let mut frame = Self::default();
        let mut at = blank(line, 0);
        if line.get(at) != Some(&b'{') {
            return None;
        }
        loop {
            at = blank(line, at + 1);
            if line.get(at) == Some(&b'}') {
                return Some(frame);
            }
            let key_end = string_end(line, at)?;
            let key = line.get(at + 1..key_end - 1)?;
            let value = blank(line, blank(line, key_end) + 1);
            let value_end = value_end(line, value)?;
            let slot = match key {
                b"id" => Some(&mut frame.id),
                b"method" => Some(&mut frame.method),
                b"params" => Some(&mut frame.params),
                b"result" => Some(&mut frame.result),
                b"error" => Some(&mut frame.error),
                _ => None,
            };
            if let Some(slot) = slot {
                *slot = Some(&line[value..value_end]);
            }
            at = blank(line, value_end);
            match line.get(at)? {
                b',' => {}
                b'}' => return Some(frame),
                _ => return None,
            }
        }
    }
}

/// The text of the first string member `key` (given as `"key":"`) anywhere in `json`, not unescaped.
pub fn text_after<'a>(json: &'a [u8], key: &str) -> Option<&'a [u8]> {
    let start = memchr::memmem::find(json, key.as_bytes())? + key.len();
    let rest = &json[start..];
    Some(&rest[..memchr::memchr(b'"', rest)?])
}

/// The text of the value of the first member `key` (given as `"key":`) anywhere in `json`.
pub fn value_after<'a>(json: &'a [u8], key: &str) -> Option<&'a [u8]> {
    let start = memchr::memmem::find(json, key.as_bytes())? + key.len();
    Some(&json[start..value_end(json, start)?])
}

/// The number that `digits` starts with.
pub fn number(digits: &[u8]) -> u64 {
    let digits = digits.iter().take_while(|it| it.is_ascii_digit());
    digits.fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'))
}

/// The result of the benchmark's MCP server for a method (given with its quotes).
pub fn tool_result(method: &[u8]) -> Option<&'static [u8]> {
    Some(match method {
        b"\"initialize\"" => {
            br#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"stub","version":"1"}}"#
        }
        b"\"tools/list\"" => {
            br#"{"tools":[{"name":"read","inputSchema":{"type":"object"}}]}"#
        }
        b"\"tools/call\"" => {
            br#"{"content":[{"type":"text","text":"fn main() {}"}],"isError":false}"#
        }
        _ => return None,
    })
}

/// Copies bytes until the end of the input.
pub fn copy(input: impl Into<OwnedFd>, output: impl Into<OwnedFd>) -> io::Result<()> {
    let (mut input, mut output) = (File::from(input.into()), File::from(output.into()));
    let mut buffer = vec![0; CHUNK];
    loop {
        let read = input.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        output.write_all(&buffer[..read])?;
    }
}

/// This process's standard input and output, without the buffers and locks of `std::io`.
#[cfg(windows)]
pub fn stdio() -> io::Result<(OwnedFd, OwnedFd)> {
    let (input, output) = (io::stdin(), io::stdout());
    Ok((input.as_handle().try_clone_to_owned()?, output.as_handle().try_clone_to_owned()?))
}

/// This process's standard input and output, without the buffers and locks of `std::io`.
#[cfg(unix)]
pub fn stdio() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok((io::stdin().as_fd().try_clone_to_owned()?, io::stdout().as_fd().try_clone_to_owned()?))
}

fn blank(line: &[u8], mut at: usize) -> usize {
    while line.get(at).is_some_and(u8::is_ascii_whitespace) {
        at += 1;
    }
    at
}

fn string_end(line: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', line.get(at..)?)?;
        if line[at] == b'"' {
            return Some(at + 1);
        }
        at += 2;
    }
}

fn value_end(line: &[u8], start: usize) -> Option<usize> {
    let mut at = start;
    let mut depth = 0usize;
    loop {
        match line.get(at)? {
            b'"' => at = string_end(line, at)?,
            b'{' | b'[' => {
                depth += 1;
                at += 1;
                continue;
            }
            b'}' | b']' => {
                depth = depth.checked_sub(1)?;
                at += 1;
            }
            b',' | b':' | b' ' => {
                at += 1;
                continue;
            }
            _ => {
                while !matches!(line.get(at)?, b',' | b'}' | b']' | b' ') {
                    at += 1;
                }
            }
        }
        if depth == 0 {
            return Some(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_in_any_order() {
        let line = br#"{"params":{"a":[1,{"b":"}\""}],"c":null},"method":"x/y", "id": 12 ,"jsonrpc":"2.0"}"#;
        let frame = Frame::split(line).unwrap();
        assert_eq!(frame.id, Some(&b"12"[..]));
        assert_eq!(frame.method, Some(&b"\"x/y\""[..]));
        assert_eq!(frame.params, Some(&br#"{"a":[1,{"b":"}\""}],"c":null}"#[..]));
        assert_eq!(frame.result, None);
    }

    #[test]
    fn a_null_result_is_a_result() {
        let frame = Frame::split(br#"{"id":"a","result":null}"#).unwrap();
        assert_eq!(frame.result, Some(&b"null"[..]));
    }

    #[test]
    fn a_value_is_found_with_its_brackets() {
        let json = br#"{"cwd":"/","mcpServers":[{"name":"]"}],"x":1}"#;
        assert_eq!(value_after(json, "\"mcpServers\":"), Some(&br#"[{"name":"]"}]"#[..]));
        assert_eq!(value_after(json, "\"other\":"), None);
    }

    #[test]
    fn only_objects_are_split() {
        assert_eq!(Frame::split(b"[1]"), None);
        assert_eq!(Frame::split(b"{\"id\":1"), None);
    }
}
