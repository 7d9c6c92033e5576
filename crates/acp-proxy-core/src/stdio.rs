//! Runs a proxy on standard input and output, without threads and without an async runtime.

use std::io::{self, Read, Write};

use acp_wire::lines::{Line, LineBuffer};

use crate::driver::Driver;
use crate::proxy::Proxy;

const CHUNK: usize = 64 * 1024;

/// Runs the proxy until standard input ends.
///
/// Each read takes all bytes that are available. The answers to all complete lines among them are written at once.
pub fn run<P: Proxy>(proxy: P) -> io::Result<()> {
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let mut driver = Driver::new(proxy);
    // The conductor limits the length of lines, so the proxy does not.
    let (mut received, mut to_send) = (LineBuffer::new(usize::MAX), Vec::new());
    let mut chunk = vec![0; CHUNK];
    loop {
        let count = input.read(&mut chunk)?;
        if count == 0 {
            return Ok(());
        }
        received.reserve(count).extend_from_slice(&chunk[..count]);
        while let Some(Line::Text(line)) = received.next_line() {
            driver.handle(&line, &mut to_send);
        }
        output.write_all(&to_send)?;
        output.flush()?;
        to_send.clear();
    }
}
