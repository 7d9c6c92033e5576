//! The benchmark's proxy: passes everything on and costs as little as a proxy can.
//!
//! It speaks the current dialect (`proxy/initialize`, `proxy/successor`) in one thread: it reads what is
//! there, handles all whole lines and writes once. With `--raw` it copies bytes and looks at none of
//! them: that is the proxy of the benchmark's floor (see `stub_relay`).

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use testkit::stub::{Frame, Lines, lines, number, stdio};

fn main() -> io::Result<()> {
    let (input, output) = stdio()?;
    if std::env::args().nth(1).as_deref() == Some("--raw") {
        copy(input, output)
    } else {
        pass(input, output)
    }
}

fn copy(input: OwnedFd, mut output: File) -> io::Result<()> {
    let mut input = File::from(input);
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = input.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        output.write_all(&buffer[..read])?;
    }
}

fn pass(input: OwnedFd, mut output: File) -> io::Result<()> {
    let mut input = Lines::new(input);
    let mut asked = Asked::default();
    let mut out = Vec::new();
    while let Some(batch) = input.batch()? {
        for frame in lines(batch).filter_map(Frame::split) {
            asked.pass(&frame, &mut out);
        }
        output.write_all(&out)?;
        out.clear();
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
    fn pass(&mut self, frame: &Frame, out: &mut Vec<u8>) {
        match (frame.method, frame.id) {
            (Some(method), id) => {
                out.extend_from_slice(b"{\"jsonrpc\":\"2.0\"");
                if let Some(id) = id {
                    let minted = self.open(id);
                    write!(out, ",\"id\":{minted}").expect("a Vec takes every write");
                }
                match (method, frame.params) {
                    // Unwrapping: the envelope's params hold exactly the members that are missing.
                    (b"\"proxy/successor\"", Some(inner)) => {
                        out.push(b',');
                        out.extend_from_slice(&inner[1..]);
                    }
                    (b"\"proxy/initialize\"", params) => wrap(b"\"initialize\"", params, out),
                    (_, params) => wrap(method, params, out),
                }
                out.push(b'\n');
            }
            (None, Some(id)) => {
                let Some(id) = self.close(number(id) as usize) else { return };
                out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
                out.extend_from_slice(id);
                let (key, value) = match frame.error {
                    Some(error) => (&b",\"error\":"[..], error),
                    None => (&b",\"result\":"[..], frame.result.unwrap_or(b"null")),
                };
                out.extend_from_slice(key);
                out.extend_from_slice(value);
                out.extend_from_slice(b"}\n");
            }
            (None, None) => {}
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

fn wrap(method: &[u8], params: Option<&[u8]>, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"method\":\"proxy/successor\",\"params\":{\"method\":");
    out.extend_from_slice(method);
    out.extend_from_slice(b",\"params\":");
    out.extend_from_slice(params.unwrap_or(b"null"));
    out.extend_from_slice(b"}}");
}
