//! The benchmark's agent. The first text of a prompt tells it what to do.
//!
//! | the text begins with | what the agent does before it answers |
//! |---|---|
//! | `stream N` | sends N numbered `session/update`s of about 200 bytes |
//! | `tools N` | sends N numbered updates of a tool call |
//! | `ids N` | sends N updates of a tool call, each with the id of another terminal |
//! | `ask N` | reads a file from the editor N times, one request after the other |
//! | `ask N permission` | asks for permission N times |
//! | `ask N terminal` | starts a terminal N times |
//! | any other text | nothing |
//!
//! If several prompts arrive together, their updates alternate.
//!
//! Its answer to `session/new` repeats the declared MCP servers, so that the benchmark can call them. In the benchmark's
//! floor (`stub_relay --through`), this program is the MCP server.

use std::fs::File;
use std::io::{self, Write};

use testkit::stub::{Frame, Lines, lines, number, stdio, text_after, tool_result, value_after};

/// A stream is flushed after so many bytes, the capacity of a pipe.
const BATCH: usize = 64 * 1024;

fn main() -> io::Result<()> {
    let (input, output) = stdio()?;
    let mut input = Lines::new(input);
    let mut agent = Agent {
        output: File::from(output),
        out: Vec::with_capacity(2 * BATCH),
        sessions: 0,
        streams: Vec::new(),
        requests: None,
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
    requests: Option<Requests>,
}

/// A prompt whose updates are being sent.
struct Stream {
    prompt: Vec<u8>,
    /// The line of an update. Only its number changes.
    line: Vec<u8>,
    number_at: usize,
    sent: u64,
    total: u64,
}

/// A prompt during which the agent sends requests to the editor.
struct Requests {
    prompt: Vec<u8>,
    session: Vec<u8>,
    /// The method, and the params after the session.
    request: (&'static str, &'static str),
    left: u64,
}

/// The requests, by the last word of the prompt.
const REQUESTS: [(&[u8], (&str, &str)); 3] = [
    (
        b"permission",
        (
            "session/request_permission",
            r#""toolCall":{"toolCallId":"call","title":"cargo test","kind":"execute","rawInput":{"command":"cargo test"}},"options":[{"optionId":"yes","name":"Yes","kind":"allow_once"},{"optionId":"no","name":"No","kind":"reject_once"}]"#,
        ),
    ),
    (b"terminal", ("terminal/create", r#""command":"cargo","args":["test"]"#)),
    (b"", ("fs/read_text_file", r#""path":"/project/src/main.rs""#)),
];

/// The updates, by the first word of the prompt: what is before the number, and what is after it.
const UPDATES: [(&[u8], (&str, &str)); 3] = [
    (
        b"stream ",
        (
            r#""sessionUpdate":"agent_message_chunk","content":{"type":"text","text":""#,
            r#" words of a model, as they come out"}"#,
        ),
    ),
    (
        b"tools ",
        (
            r#""sessionUpdate":"tool_call_update","toolCallId":"call","status":"in_progress","content":[{"type":"content","content":{"type":"text","text":""#,
            r#" lines of output"}}]"#,
        ),
    ),
    (
        b"ids ",
        (
            r#""sessionUpdate":"tool_call_update","toolCallId":"call","content":[{"type":"terminal","terminalId":"terminal-0000-"#,
            r#""}]"#,
        ),
    ),
];

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
            (None, Some(_)) => self.next_request(),
            _ => {}
        }
    }

    fn prompt(&mut self, id: &[u8], params: &[u8]) {
        let text = text_after(params, "\"text\":\"").unwrap_or_default();
        let session = text_after(params, "\"sessionId\":\"").unwrap_or_default();
        let stream = UPDATES.iter().find_map(|(word, update)| {
            Some(Stream::new(id, session, *update, number(text.strip_prefix(*word)?)))
        });
        if let Some(stream) = stream {
            self.streams.push(stream);
        } else if let Some(rest) = text.strip_prefix(b"ask ") {
            let digits = rest.iter().take_while(|it| it.is_ascii_digit()).count();
            let (count, kind) = rest.split_at(digits);
            let fits = |(word, _): &&(&[u8], _)| kind.trim_ascii() == *word;
            let Some((_, request)) = REQUESTS.iter().find(fits) else {
                return self.answer_prompt(id);
            };
            self.requests = Some(Requests {
                prompt: id.to_vec(),
                session: session.to_vec(),
                request: *request,
                left: number(count),
            });
            self.next_request();
        } else {
            self.answer_prompt(id);
        }
    }

    /// Sends the next request or, after the last one, the answer to the prompt.
    fn next_request(&mut self) {
        let Some(mut requests) = self.requests.take() else { return };
        if requests.left == 0 {
            return self.answer_prompt(&requests.prompt);
        }
        requests.left -= 1;
        let (method, params) = requests.request;
        write!(self.out, "{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"{method}\"", requests.left)
            .expect("a Vec takes every write");
        self.out.extend_from_slice(b",\"params\":{\"sessionId\":\"");
        self.out.extend_from_slice(&requests.session);
        self.out.extend_from_slice(b"\",");
        self.out.extend_from_slice(params.as_bytes());
        self.out.extend_from_slice(b"}}\n");
        self.requests = Some(requests);
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
    fn new(prompt: &[u8], session: &[u8], (before, after): (&str, &str), total: u64) -> Self {
        let mut line =
            b"{\"jsonrpc\":\"2.0\",\"method\":\"session/update\",\"params\":{\"sessionId\":\""
                .to_vec();
        line.extend_from_slice(session);
        line.extend_from_slice(b"\",\"update\":{");
        line.extend_from_slice(before.as_bytes());
        let number_at = line.len();
        line.extend_from_slice(b"00000000");
        line.extend_from_slice(after.as_bytes());
        line.extend_from_slice(b"}}}\n");
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
