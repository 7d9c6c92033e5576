//! The benchmark's proxy: a pass-through proxy at the lowest possible cost.
//!
//! It speaks the current generation (`proxy/initialize`, `proxy/successor`) in one thread. After each read it handles all
//! whole lines and writes once.
//!
//! - With `--tools`, it adds an MCP server to every session, and is that server.
//! - With `--raw`, it copies bytes without parsing them. This is the proxy of the benchmark's floor (`stub_relay`).

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
    let mut open_requests = OpenRequests::default();
    while let Some(batch) = input.batch()? {
        for frame in lines(batch).filter_map(Frame::split) {
            if tools && frame.method == Some(b"\"session/new\"") {
                let params = with_tools(frame.params.unwrap_or_default());
                open_requests.pass(&Frame { params: Some(&params), ..frame }, &mut output)?;
            } else if !(tools && serve(&frame, &mut output)?) {
                open_requests.pass(&frame, &mut output)?;
            }
        }
        output.flush()?;
    }
    Ok(())
}

const OFFER: &[u8] = br#"{"type":"http","name":"tools","url":"acp:stub","headers":[]}"#;
const SERVERS: &[u8] = b"\"mcpServers\":[";

/// The params of `session/new` with this proxy's server before the others.
fn with_tools(params: &[u8]) -> Vec<u8> {
    let Some(at) = params.windows(SERVERS.len()).position(|it| it == SERVERS) else {
        return params.to_vec();
    };
    let (before, others) = params.split_at(at + SERVERS.len());
    let comma: &[u8] = if others.starts_with(b"]") { b"" } else { b"," };
    [before, OFFER, comma, others].concat()
}

/// Answers a message of an MCP client to this proxy's server. False for all other messages.
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
            let message = inner.params.and_then(Frame::split).unwrap_or_default();
            message.method.and_then(tool_result)
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

/// The open requests of both sides. The index is this proxy's id, the value is the requester's id.
#[derive(Default)]
struct OpenRequests {
    ids: Vec<Vec<u8>>,
    free: Vec<usize>,
}

impl OpenRequests {
    fn pass(&mut self, frame: &Frame, out: &mut Output) -> io::Result<()> {
        match (frame.method, frame.id) {
            (Some(method), id) => {
                out.put(b"{\"jsonrpc\":\"2.0\"")?;
                if let Some(id) = id {
                    out.put(b",\"id\":")?;
                    out.put(self.open(id).to_string().as_bytes())?;
                }
                match (method, frame.params) {
                    // The params of the envelope are the missing members of the message.
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
        let own_id = self.free.pop().unwrap_or_else(|| {
            self.ids.push(Vec::new());
            self.ids.len() - 1
        });
        self.ids[own_id].clear();
        self.ids[own_id].extend_from_slice(id);
        own_id
    }

    fn close(&mut self, own_id: usize) -> Option<&[u8]> {
        let id = self.ids.get(own_id)?;
        self.free.push(own_id);
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
