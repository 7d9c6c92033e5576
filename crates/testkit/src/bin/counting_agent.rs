//! An agent for tests of flow control: it counts numbered lines, and writes many of them on request.
//!
//! | message | what it does |
//! |---|---|
//! | a numbered notification (see `testkit::numbered_lines`) | checks that it is whole and the next one |
//! | request `_tally` | answers `{"count":N,"wrong":null}` |
//! | request `_flood`, params `[COUNT, SIZE]` | writes so many numbered lines of that size, then answers |
//! | request `initialize` | answers as an agent |
//!
//! It has one thread: while it writes, it does not read.

use std::io;

use serde_json::{Value, json};
use testkit::numbered_lines::{NumberedLines, SequenceCheck};
use testkit::stub::{Frame, Lines, Output, lines, stdio};

/// The capacity of a pipe on Linux.
const BATCH: usize = 64 * 1024;

fn main() -> io::Result<()> {
    let (input, output) = stdio()?;
    let (mut input, mut output) = (Lines::new(input), Output::new(output));
    let mut check = SequenceCheck::default();
    while let Some(batch) = input.batch()? {
        for line in lines(batch) {
            if NumberedLines::is(line) {
                check.line(line);
            } else if let Some(frame) = Frame::split(line) {
                answer(&frame, &check, &mut output)?;
            }
        }
        output.flush()?;
    }
    Ok(())
}

fn answer(frame: &Frame, check: &SequenceCheck, output: &mut Output) -> io::Result<()> {
    let Some(id) = frame.id else { return Ok(()) };
    let result = match frame.method {
        Some(b"\"initialize\"") => json!({"protocolVersion": 1}),
        Some(b"\"_tally\"") => json!({"count": check.count, "wrong": check.wrong}),
        Some(b"\"_flood\"") => {
            flood(frame.params.unwrap_or_default(), output)?;
            Value::Null
        }
        _ => return Ok(()),
    };
    let id = String::from_utf8_lossy(id);
    output.put(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n").as_bytes())
}

fn flood(params: &[u8], output: &mut Output) -> io::Result<()> {
    let (count, size) = serde_json::from_slice(params)?;
    let (mut numbered, mut batch) = (NumberedLines::new(size), Vec::new());
    for number in 0..count {
        batch.extend_from_slice(numbered.line(number));
        if batch.len() >= BATCH {
            output.put(&batch)?;
            batch.clear();
        }
    }
    output.put(&batch)
}
