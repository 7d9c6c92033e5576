//! A proxy behind standard input and output.

use std::io::{self, Read, Write};

use bytes::{Buf, BytesMut};

use crate::driver::Driver;
use crate::proxy::Proxy;

const CHUNK: usize = 64 * 1024;

/// Runs the proxy until its input ends. Reads what is there, handles all complete lines, writes
/// once.
pub fn run<P: Proxy>(proxy: P) -> io::Result<()> {
    let (mut input, mut output) = (io::stdin().lock(), io::stdout().lock());
    let mut driver = Driver::new(proxy);
    let (mut buffer, mut lines) = (BytesMut::new(), Vec::new());
    let mut chunk = vec![0; CHUNK];
    loop {
        let count = input.read(&mut chunk)?;
        if count == 0 {
            return Ok(());
        }
        let mut searched = buffer.len();
        buffer.extend_from_slice(&chunk[..count]);
        while let Some(length) = memchr::memchr(b'\n', &buffer[searched..]) {
            let line = buffer.split_to(searched + length).freeze();
            buffer.advance(1);
            searched = 0;
            if !line.trim_ascii().is_empty() {
                driver.handle(&line, &mut lines);
            }
        }
        output.write_all(&lines)?;
        output.flush()?;
        lines.clear();
    }
}
