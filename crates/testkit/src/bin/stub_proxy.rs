//! The benchmark's proxy: passes everything on and costs as little as a proxy can.
//!
//! It speaks the current dialect (`proxy/initialize`, `proxy/successor`) in one thread: it reads what is
//! there, handles all whole lines and writes once.
//!
//! - With `--tools` it offers an MCP server to every session, and is that server.
//! - With `--raw` it copies bytes and looks at none of them: that is the proxy of the benchmark's floor
//!   (see `stub_relay`).

use std::io;
use std::os::fd::OwnedFd;

use testkit::stub::{Frame, Lines, Output, copy, lines, number, stdio, tool_result};

fn main() -> io::Result<()> {
    let (input, output) = stdio()?;
    match std::env::args().nth(1).as_deref() {
        Some("--raw") => copy(input, output),
        flag => pass(input, output, flag == Some("--tools")),
    }
}

fn pass(input: OwnedFd, output: OwnedFd, tools: bool) -> io::Result<()> {
    let (mut input, mut output) = (Lines::new(input), Output::new(output));
    let mut asked = Asked::default();
    while let Some(batch) = input.batch()? {
        for frame in lines(batch).filter_map(Frame::split) {
            if tools && frame.method == Some(b"\"session/new\"") {
                let params = with_tools(frame.params.unwrap_or_default());
                asked.pass(&Frame { params: Some(&params), ..frame }, &mut output)?;
            } else if !(tools && serve(&frame, &mut output)?) {
                asked.pass(&frame, &mut output)?;
            }
        }
        output.flush()?;
    }
    Ok(())
}

const OFFER: &[u8] = br#"{"type":"http","name":"tools","url":"acp:stub","headers":[]}"#;
const SERVERS: &[u8] = b"\"mcpServers\":[";

/// The params of `session/new` with our own server before the others.
fn with_tools(params: &[u8]) -> Vec<u8> {
    let Some(at) = params.windows(SERVERS.len()).position(|it| it == SERVERS) else {
        return params.to_vec();
    };
    let (before, others) = params.split_at(at + SERVERS.len());
    let comma: &[u8] = if others.starts_with(b"]") { b"" } else { b"," };
    [before, OFFER, comma, others].concat()
}

/// Answers what an MCP client says to our server. False for anything else.
fn serve(frame: &Frame, out: &mut Output) -> io::Result<bool> {
    if frame.method != Some(b"\"proxy/successor\"") {
        return Ok(false);
    }
    let inner = frame.params.and_then(Frame::split).unwrap_or_default();
    let result = match inner.method {
        Some(b"\"_mcp/connect\"") => {
            Some(&br#"{"connection_id":"stub","connectionId":"stub"}"#[..])
        }
        Some(b"\"_mcp/message\"") => {
            let said = inner.params.and_then(Frame::split).unwrap_or_default();
            said.method.and_then(tool_result)
        }
        Some(b"\"_mcp/disconnect\"") => None,
        _ => return Ok(false),
    };
    if let (Some(id), Some(result)) = (frame.id, result) {
        out.put(b"{\"jsonrpc\":\"2.0\",\"id\":")?;
        out.put(id)?;
        out.put(b",\"result\":")?;
        out.put(result)?;
        out.put(b"}\n")?;
    }
    Ok(true)
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
