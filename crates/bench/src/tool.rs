//! Tool calls through the MCP bridge. The benchmark is the editor, and also the MCP client instead of the agent: the
//! stub agent reports the declared servers.
//!
//! The floor has no bridge. There, the chain itself answers.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::chain::{Chain, preview, result_of};
use super::contender::Contender;
use super::machine;
use super::metric::Metric;
use super::probe::{Effort, repeat};
use super::results::{median, percentile};

/// How the client reaches the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    Stdio,
    Http,
}

impl Transport {
    /// The name for `--mcp-bridge`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
        }
    }
}

const HELLO: &str = r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}"#;
const CALL: &str = r#"{"name":"read","arguments":{"path":"/project/src/main.rs"}}"#;

/// After the first number of calls, memory must not grow until the second number.
const FIRST_CALLS: usize = 1_000;
const ALL_CALLS: usize = 10_000;

pub fn calls(
    chain: Chain,
    contender: Contender,
    transport: Transport,
    pinned: bool,
    effort: Effort,
) -> Result<Vec<(Metric, f64)>, String> {
    let mut client = match contender {
        Contender::Floor => Client::Lines { lines: chain, _chain: None },
        _ => Client::of(chain, transport)?,
    };
    repeat(Duration::ZERO, 50, || client.call())?;
    let times = repeat(effort.budget, effort.round_trips, || client.call())?;
    let (middle, tail) = match (transport, pinned) {
        (Transport::Stdio, false) => (Metric::Tool, Some(Metric::ToolTail)),
        (Transport::Stdio, true) => (Metric::ToolPinned, Some(Metric::ToolTailPinned)),
        (Transport::Http, false) => (Metric::ToolHttp, None),
        (Transport::Http, true) => (Metric::ToolHttpPinned, None),
    };
    let mut figures = vec![(middle, median(&times) * 1e6)];
    figures.extend(tail.map(|tail| (tail, percentile(&times, 99) * 1e6)));
    Ok(figures)
}

pub fn memory(chain: Chain, transport: Transport) -> Result<Vec<(Metric, f64)>, String> {
    let conductor = chain.pid();
    let mut client = Client::of(chain, transport)?;
    let mut call = |times| (0..times).try_for_each(|_| client.call().map(drop));
    call(FIRST_CALLS)?;
    let before = machine::memory(conductor)?;
    call(ALL_CALLS - FIRST_CALLS)?;
    let growth = (machine::memory(conductor)? - before).max(0.0);
    let peak = machine::peak_memory(conductor)?;
    Ok(match transport {
        Transport::Stdio => vec![(Metric::ToolMemory, peak), (Metric::ToolGrowth, growth)],
        Transport::Http => vec![(Metric::ToolHttpMemory, peak), (Metric::ToolHttpGrowth, growth)],
    })
}

/// An MCP client and its chain. The client ends first.
enum Client {
    Lines { lines: Chain, _chain: Option<Chain> },
    Http { http: Http, _chain: Chain },
}

impl Client {
    /// Opens a session, and connects to the server that the agent gets.
    fn of(mut chain: Chain, transport: Transport) -> Result<Self, String> {
        let session: Value =
            serde_json::from_slice(&chain.new_session()?).map_err(|error| error.to_string())?;
        let server = &session["mcpServers"][0];
        let missing = || format!("not a declaration for {}: {session}", transport.name());
        match transport {
            Transport::Stdio => {
                let mut command = Command::new(server["command"].as_str().ok_or_else(missing)?);
                command.args(texts(&server["args"]));
                command.envs(pairs(&server["env"]));
                let mut lines = chain.beside(command, HELLO)?;
                lines.send(format!("{INITIALIZED}\n").as_bytes())?;
                lines.ask("tools/list", "{}")?;
                Ok(Self::Lines { lines, _chain: Some(chain) })
            }
            Transport::Http => {
                let url = server["url"].as_str().ok_or_else(missing)?;
                let mut http = Http::connect(url, pairs(&server["headers"]))?;
                http.ask("initialize", HELLO)?;
                http.post(INITIALIZED)?;
                http.ask("tools/list", "{}")?;
                Ok(Self::Http { http, _chain: chain })
            }
        }
    }

    /// The time of one call.
    fn call(&mut self) -> Result<Duration, String> {
        match self {
            Self::Lines { lines, .. } => lines.round_trip("tools/call", CALL),
            Self::Http { http, .. } => http.ask("tools/call", CALL),
        }
    }
}

const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

fn texts(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

fn pairs(list: &Value) -> impl Iterator<Item = (&str, &str)> {
    let pairs = list.as_array().into_iter().flatten();
    pairs.filter_map(|it| Some((it["name"].as_str()?, it["value"].as_str()?)))
}

/// A minimal client for streamable HTTP, with one connection. If the chain is killed after its timeout, the connection
/// breaks, so the client does not hang.
struct Http {
    stream: TcpStream,
    /// The head of a request up to the length of the body.
    head: String,
    asked: u64,
    response: Vec<u8>,
}

impl Http {
    fn connect<'a>(
        url: &str,
        headers: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, String> {
        let address = url.strip_prefix("http://").and_then(|it| it.split_once('/'));
        let (host, path) = address.ok_or_else(|| format!("not an http address: {url}"))?;
        let stream = TcpStream::connect(host).map_err(|error| format!("{host}: {error}"))?;
        stream.set_nodelay(true).map_err(|error| format!("{host}: {error}"))?;
        let mut head = format!(
            "POST /{path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n\
             Accept: application/json, text/event-stream\r\n"
        );
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        Ok(Self { stream, head, asked: 0, response: Vec::new() })
    }

    /// Sends a request. Returns the time until the end of the response.
    fn ask(&mut self, method: &str, params: &str) -> Result<Duration, String> {
        self.asked += 1;
        let id = self.asked;
        let body =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#);
        let took = self.post(&body)?;
        let response = String::from_utf8_lossy(&self.response);
        // The answer is the body, or its only event.
        let answer = response.lines().find_map(|line| {
            Some(line.strip_prefix("data: ").unwrap_or(line)).filter(|it| it.starts_with('{'))
        });
        let answer = answer.ok_or_else(|| format!("no answer: {response}"))?;
        match result_of(answer.as_bytes(), id)? {
            Some(_) => Ok(took),
            None => Err(format!("not the answer: {answer}")),
        }
    }

    /// Sends a message and reads the response. Returns the time of both.
    fn post(&mut self, body: &str) -> Result<Duration, String> {
        let request = format!("{}Content-Length: {}\r\n\r\n{body}", self.head, body.len());
        self.response.clear();
        let begin = Instant::now();
        self.stream.write_all(request.as_bytes()).map_err(|error| format!("POST: {error}"))?;
        let mut chunk = [0; 16 * 1024];
        while !is_whole(&self.response) {
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err("the conductor has closed the connection".to_owned()),
                Ok(count) => self.response.extend_from_slice(&chunk[..count]),
                Err(error) => return Err(format!("read failed: {error}")),
            }
        }
        let took = begin.elapsed();
        if !self.response.starts_with(b"HTTP/1.1 20") {
            return Err(format!("refused: {}", preview(&self.response)));
        }
        if let Some(session) = header(&self.response, "mcp-session-id") {
            self.head.push_str(&format!("Mcp-Session-Id: {session}\r\n"));
        }
        Ok(took)
    }
}

/// Whether a response is complete. Only one response is expected at a time, so its end is the end of the data.
fn is_whole(response: &[u8]) -> bool {
    let Some(end) = response.windows(4).position(|it| it == b"\r\n\r\n") else { return false };
    let body = &response[end + 4..];
    match header(response, "content-length").and_then(|it| it.parse::<usize>().ok()) {
        Some(length) => body.len() >= length,
        None => body.ends_with(b"0\r\n\r\n"),
    }
}

fn header<'a>(response: &'a [u8], name: &str) -> Option<&'a str> {
    let lines = response.split(|it| *it == b'\n').map_while(|it| it.strip_suffix(b"\r"));
    let mut lines = lines.take_while(|it| !it.is_empty()).filter_map(|it| str::from_utf8(it).ok());
    lines.find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then_some(value.trim())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_whole_when_its_body_is() {
        let counted = b"HTTP/1.1 202 Accepted\r\nContent-Length: 2\r\n\r\n{}";
        let chunked =
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n6\r\ndata: \r\n0\r\n\r\n";
        for whole in [&counted[..], &chunked[..]] {
            assert!(is_whole(whole));
            assert!((0..whole.len()).all(|length| !is_whole(&whole[..length])));
        }
        assert_eq!(header(counted, "content-length"), Some("2"));
        assert_eq!(header(counted, "mcp-session-id"), None);
    }
}
