//! The benchmark's agent: does what the first text of a prompt tells it to, as fast as it can.
//!
//! | the text begins with | what the agent does before it answers |
//! |---|---|
//! | `stream N` | sends N numbered `session/update`s of about 200 bytes |
//! | `ask N` | asks the editor for a file N times, one question after the other |
//! | anything else | nothing |
//!
//! Prompts that arrive together stream together, one update of each in turn.
//!
//! Its answer to `session/new` repeats the MCP servers it was given, so that the benchmark can be the
//! client that calls them. At the end of the floor it is the MCP server itself.

use std::fs::File;
use std::io::{self, Write};

use testkit::stub::{Frame, Lines, lines, number, stdio, text_after, tool_result, value_after};

/// Where a stream is flushed: as much as a pipe holds.
const BATCH: usize = 64 * 1024;

fn main() -> io::Result<()> {
    let (input, output) = stdio()?;
    let mut input = Lines::new(input);
    let mut agent = Agent {
        output: File::from(output),
        out: Vec::with_capacity(2 * BATCH),
        sessions: 0,
        streams: Vec::new(),
        asking: None,
    };
    while let Some(batch) = input.batch()? {
        for frame in lines(batch).filter_map(Frame::split) {
            agent.handle(&frame);
        }
        agent.stream()?;
        agent.flush()?;
    }
    Ok(())
}

struct Agent {
    output: File,
    out: Vec<u8>,
    sessions: u32,
    streams: Vec<Stream>,
    asking: Option<Asking>,
}

/// A prompt that is being answered with updates.
struct Stream {
    prompt: Vec<u8>,
    /// The whole line of an update, of which only the number changes.
    line: Vec<u8>,
    number_at: usize,
    sent: u64,
    total: u64,
}

/// A prompt during which the editor is asked.
struct Asking {
    prompt: Vec<u8>,
    session: Vec<u8>,
    left: u64,
}

impl Agent {
    fn handle(&mut self, frame: &Frame) {
        match (frame.method, frame.id) {
            (Some(b"\"initialize\""), Some(id)) => {
                self.answer(
                    id,
                    br#"{"protocolVersion":1,"agentCapabilities":{},"authMethods":[]}"#,
                );
            }
            (Some(b"\"session/new\""), Some(id)) => {
                self.sessions += 1;
                let servers = value_after(frame.params.unwrap_or_default(), "\"mcpServers\":");
                let mut result = format!("{{\"sessionId\":\"s{}\"", self.sessions).into_bytes();
                if let Some(servers) = servers.filter(|it| *it != b"[]") {
                    result.extend_from_slice(b",\"mcpServers\":");
                    result.extend_from_slice(servers);
                }
                result.push(b'}');
                self.answer(id, &result);
            }
            (Some(b"\"session/prompt\""), Some(id)) => {
                self.prompt(id, frame.params.unwrap_or_default())
            }
            (Some(method), Some(id)) => {
                if let Some(result) = tool_result(method) {
                    self.answer(id, result);
                }
            }
            (None, Some(_)) => self.ask(),
            _ => {}
        }
    }

    fn prompt(&mut self, id: &[u8], params: &[u8]) {
        let text = text_after(params, "\"text\":\"").unwrap_or_default();
        if let Some(count) = text.strip_prefix(b"stream ") {
            let session = text_after(params, "\"sessionId\":\"").unwrap_or_default();
            self.streams.push(Stream::new(id, session, number(count)));
        } else if let Some(count) = text.strip_prefix(b"ask ") {
            let session = text_after(params, "\"sessionId\":\"").unwrap_or_default();
            self.asking = Some(Asking {
                prompt: id.to_vec(),
                session: session.to_vec(),
                left: number(count),
            });
            self.ask();
        } else {
            self.answer_prompt(id);
        }
    }

    /// Sends the next question, or the answer to the prompt after the last.
    fn ask(&mut self) {
        let Some(mut asking) = self.asking.take() else { return };
        if asking.left == 0 {
            return self.answer_prompt(&asking.prompt);
        }
        asking.left -= 1;
        write!(
            self.out,
            "{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"fs/read_text_file\"",
            asking.left
        )
        .expect("a Vec takes every write");
        self.out.extend_from_slice(b",\"params\":{\"sessionId\":\"");
        self.out.extend_from_slice(&asking.session);
        self.out.extend_from_slice(b"\",\"path\":\"/project/src/main.rs\"}}\n");
        self.asking = Some(asking);
    }

    fn stream(&mut self) -> io::Result<()> {
        let mut streams = std::mem::take(&mut self.streams);
        while !streams.is_empty() {
            for stream in &mut streams {
                if stream.sent == stream.total {
                    self.answer_prompt(&stream.prompt);
                } else {
                    stream.update(&mut self.out);
                }
                stream.sent += 1;
                if self.out.len() + stream.line.len() > BATCH {
                    self.flush()?;
                }
            }
            streams.retain(|it| it.sent <= it.total);
        }
        Ok(())
    }

    fn answer_prompt(&mut self, id: &[u8]) {
        self.answer(id, br#"{"stopReason":"end_turn"}"#);
    }

    fn answer(&mut self, id: &[u8], result: &[u8]) {
        self.out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
        self.out.extend_from_slice(id);
        self.out.extend_from_slice(b",\"result\":");
        self.out.extend_from_slice(result);
        self.out.extend_from_slice(b"}\n");
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }
}

impl Stream {
    fn new(prompt: &[u8], session: &[u8], total: u64) -> Self {
        let mut line =
            b"{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\""
                .to_vec();
        line.extend_from_slice(session);
        line.extend_from_slice(b"\",\"update\":{\"sessionUpdate\":\"agent_message_chunk\",");
        line.extend_from_slice(b"\"content\":{\"type\":\"text\",\"text\":\"");
        let number_at = line.len();
        line.extend_from_slice(b"00000000 words of a model, as they come out\"}}}}\n");
        Self { prompt: prompt.to_vec(), line, number_at, sent: 0, total }
    }

    fn update(&mut self, out: &mut Vec<u8>) {
        let mut rest = self.sent;
        for digit in self.line[self.number_at..self.number_at + 8].iter_mut().rev() {
            *digit = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        out.extend_from_slice(&self.line);
    }
}
