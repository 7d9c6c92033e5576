//! The benchmark's proxy: passes everything on and costs as little as a proxy can.
//!
//! It speaks the current dialect (`proxy/initialize`, `proxy/successor`) in one thread: it reads what is
//! there, handles all whole lines and writes once. With `--raw` it copies bytes and looks at none of
//! them: that is the proxy of the benchmark's floor (see `stub_relay`).

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use testkit::stub::{Frame, Lines, Output, lines, number, stdio};

fn main() -> io::Result<()> {
    let (input, output) = stdio()?;
    if std::env::args().nth(1).as_deref() == Some("--raw") {
        copy(input, output)
    } else {
        pass(input, output)
    }
}

fn copy(input: OwnedFd, output: OwnedFd) -> io::Result<()> {
    let (mut input, mut output) = (File::from(input), File::from(output));
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = input.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        output.write_all(&buffer[..read])?;
    }
}

fn pass(input: OwnedFd, output: OwnedFd) -> io::Result<()> {
    let (mut input, mut output) = (Lines::new(input), Output::new(output));
    let mut asked = Asked::default();
    while let Some(batch) = input.batch()? {
        for frame in lines(batch).filter_map(Frame::split) {
            asked.pass(&frame, &mut output)?;
        }
        output.flush()?;
    }
    Ok(())
}

/// The open questions of both sides: our id is the index, the asker's id is what is kept there.
#[derive(Default)]
struct Asked {
    ids: Vec<Vec<u8>>,
    free: Vec<usize>,
}

impl Asked {
    fn pass(&mut self, frame: &Frame, out: &mut Output) -> io::Result<()> {
        match (frame.method, frame.id) {
            (Some(method), id) => {
                out.put(b"{\"jsonrpc\":\"2.0\"")?;
                if let Some(id) = id {
                    out.put(b",\"id\":")?;
                    out.put(self.open(id).to_string().as_bytes())?;
                }
                match (method, frame.params) {
                    // Unwrapping: the envelope's params hold exactly the members that are missing.
                    (b"\"proxy/successor\"", Some(inner)) => {
                        out.put(b",")?;
                        out.put(&inner[1..])?;
                    }
                    (b"\"proxy/initialize\"", params) => wrap(b"\"initialize\"", params, out)?,
                    (_, params) => wrap(method, params, out)?,
                }
                out.put(b"\n")
            }
            (None, Some(id)) => {
                let Some(id) = self.close(number(id) as usize) else { return Ok(()) };
                out.put(b"{\"jsonrpc\":\"2.0\",\"id\":")?;
                out.put(id)?;
                let (key, value) = match frame.error {
                    Some(error) => (&b",\"error\":"[..], error),
                    None => (&b",\"result\":"[..], frame.result.unwrap_or(b"null")),
                };
                out.put(key)?;
                out.put(value)?;
                out.put(b"}\n")
            }
            (None, None) => Ok(()),
        }
    }

    fn open(&mut self, id: &[u8]) -> usize {
        let minted = self.free.pop().unwrap_or_else(|| {
            self.ids.push(Vec::new());
            self.ids.len() - 1
        });
        self.ids[minted].clear();
        self.ids[minted].extend_from_slice(id);
        minted
    }

    fn close(&mut self, minted: usize) -> Option<&[u8]> {
        let id = self.ids.get(minted)?;
        self.free.push(minted);
        Some(id)
    }
}

fn wrap(method: &[u8], params: Option<&[u8]>, out: &mut Output) -> io::Result<()> {
    out.put(b",\"method\":\"proxy/successor\",\"params\":{\"method\":")?;
    out.put(method)?;
    out.put(b",\"params\":")?;
    out.put(params.unwrap_or(b"null"))?;
    out.put(b"}}")
}
