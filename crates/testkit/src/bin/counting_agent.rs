//! An agent for tests of flow: counts what it is sent, and floods when it is asked to.
//!
//! | message | what it does |
//! |---|---|
//! | a numbered notification (see `testkit::flow`) | checks that it is whole and that it is its turn |
//! | request `_tally` | answers `{"count":N,"wrong":null}` |
//! | request `_flood`, params `[COUNT, SIZE]` | writes so many numbered lines of that size, then answers |
//! | request `initialize` | answers as an agent |
//!
//! There is one thread: while it writes, it does not read.

use std::io;

use serde_json::{Value, json};
use testkit::flow::{Numbered, Tally};
use testkit::stub::{Frame, Lines, Output, lines, stdio};

/// What a pipe holds on Linux.
const BATCH: usize = 64 * 1024;

fn main() -> io::Result<()> {
    let (input, output) = stdio()?;
    let (mut input, mut output) = (Lines::new(input), Output::new(output));
    let mut tally = Tally::default();
    while let Some(batch) = input.batch()? {
        for line in lines(batch) {
            if Numbered::is(line) {
                tally.take(line);
            } else if let Some(frame) = Frame::split(line) {
                answer(&frame, &tally, &mut output)?;
            }
        }
        output.flush()?;
    }
    Ok(())
}

fn answer(frame: &Frame, tally: &Tally, output: &mut Output) -> io::Result<()> {
    let Some(id) = frame.id else { return Ok(()) };
    let result = match frame.method {
        Some(b"\"initialize\"") => json!({"protocolVersion": 1}),
        Some(b"\"_tally\"") => json!({"count": tally.count, "wrong": tally.wrong}),
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
    let (mut numbered, mut batch) = (Numbered::new(size), Vec::new());
    for number in 0..count {
        batch.extend_from_slice(numbered.line(number));
        if batch.len() >= BATCH {
            output.put(&batch)?;
            batch.clear();
        }
    }
    output.put(&batch)
}
