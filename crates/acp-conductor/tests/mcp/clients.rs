//! MCP clients like those of agents: one starts the declared command, the other posts to the declared URL.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use serde_json::Value;
use testkit::test_chain::{Peer, parse, wait_until, with_timeout};

/// The timeout of each step. Only a bug makes a test reach it.
pub const TIMEOUT: Duration = Duration::from_secs(60);

pub const SECRET: &str = "CONDUCTOR_SECRET";

/// A client of a declared server, on either transport.
#[derive(Debug)]
pub enum Client {
    Stdio(Bridge),
    Http(Http),
}

impl Client {
    pub fn of(entry: &Value) -> Client {
        match entry.get("command") {
            Some(_) => Client::Stdio(Bridge::start(entry)),
            None => Client::Http(Http::of(entry)),
        }
    }

    pub fn message(&mut self) -> Value {
        parse(&self.line())
    }

    /// The agent disconnects from the server.
    pub fn close(self) {
        match self {
            Client::Stdio(mut bridge) => {
                bridge.close();
                assert_eq!(bridge.status(), (0, String::new()));
            }
            Client::Http(http) => assert_eq!(http.call("DELETE", &[], "").status, 204),
        }
    }
}

impl Peer for Client {
    fn send(&mut self, line: &str) {
        match self {
            Client::Stdio(bridge) => bridge.send(line),
            Client::Http(http) => http.send(line),
        }
    }

    fn line(&mut self) -> String {
        let lines = match self {
            Client::Stdio(bridge) => &bridge.lines,
            Client::Http(http) => &http.lines,
        };
        lines.recv_timeout(TIMEOUT).expect("a line for the MCP client")
    }
}

/// The port in a declaration.
pub fn port_of(entry: &Value) -> u16 {
    let text = match entry["args"][1].as_str() {
        Some(port) => port,
        None => authority(entry).rsplit_once(':').expect("a port").1,
    };
    text.parse().expect("a number")
}

/// The secret in a declaration.
pub fn secret_of(entry: &Value) -> &str {
    let (name, value) = match entry.get("command") {
        Some(_) => (&entry["env"][0]["name"], &entry["env"][0]["value"]),
        None => (&entry["headers"][0]["name"], &entry["headers"][0]["value"]),
    };
    let value = value.as_str().expect("a secret");
    match name.as_str() {
        Some(SECRET) => value,
        Some("Authorization") => value.strip_prefix("Bearer ").expect("a bearer"),
        other => panic!("{other:?} in {entry}"),
    }
}

/// Waits until the port is closed.
pub fn assert_closed(port: u16) {
    wait_until(&format!("port {port} is closed"), || {
        TcpStream::connect(("127.0.0.1", port)).is_err().then_some(())
    });
}

/// A running process of the declared `conductor mcp PORT`.
#[derive(Debug)]
pub struct Bridge {
    child: Child,
    stdin: Option<ChildStdin>,
    pub lines: Receiver<String>,
}

impl Bridge {
    pub fn start(entry: &Value) -> Bridge {
        let words = entry["args"].as_array().expect("a list");
        let mut command = Command::new(entry["command"].as_str().expect("a path"));
        command.args(words.iter().map(|word| word.as_str().expect("a string")));
        command.env_remove(SECRET);
        for pair in entry["env"].as_array().expect("a list") {
            let text = |key: &str| pair[key].as_str().expect("a string");
            command.env(text("name"), text("value"));
        }
        Bridge::run(command)
    }

    pub fn run(mut command: Command) -> Bridge {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().expect("a pipe"));
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let mut reader = BufReader::with_capacity(1 << 16, stdout);
            let mut line = String::new();
            while matches!(reader.read_line(&mut line), Ok(1..)) {
                let _ = sender.send(line.strip_suffix('\n').unwrap_or(&line).to_owned());
                line.clear();
            }
        });
        Bridge { child, stdin, lines }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    pub fn write(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().expect("an open pipe").write_all(bytes).expect("the program reads");
    }

    pub fn send(&mut self, line: &str) {
        self.write(format!("{line}\n").as_bytes());
    }

    /// Closes its standard input.
    pub fn close(&mut self) {
        self.stdin = None;
    }

    pub fn kill(&mut self) {
        self.child.kill().expect("it runs");
    }

    /// Waits for the end of the process. Returns its exit status, or the negative signal, and its standard
    /// error.
    pub fn status(&mut self) -> (i32, String) {
        use std::os::unix::process::ExitStatusExt;
        let status =
            wait_until("conductor mcp ends", || self.child.try_wait().expect("a child process"));
        let mut stderr = self.child.stderr.take().expect("a pipe");
        let output = with_timeout("its standard error ends", move || {
            let mut output = String::new();
            let _ = stderr.read_to_string(&mut output);
            output
        });
        (status.code().unwrap_or_else(|| -status.signal().unwrap_or(0)), output)
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn authority(entry: &Value) -> &str {
    let url = entry["url"].as_str().expect("a URL");
    let rest = url.strip_prefix("http://").expect("http");
    rest.split_once('/').expect("a path").0
}

/// A minimal client of streamable HTTP that opens a new connection for each request.
#[derive(Debug)]
pub struct Http {
    pub authority: String,
    pub path: String,
    pub secret: String,
    pub session: Option<String>,
    sender: Sender<String>,
    pub lines: Receiver<String>,
}

impl Http {
    pub fn of(entry: &Value) -> Http {
        let authority = authority(entry).to_owned();
        let url = entry["url"].as_str().expect("a URL");
        let (sender, lines) = channel();
        Http {
            path: url.split_once(&authority).expect("a path").1.to_owned(),
            secret: secret_of(entry).to_owned(),
            authority,
            session: None,
            sender,
            lines,
        }
    }

    /// Sends a request with these headers and the usual ones. A header given as `Name:` is not sent.
    pub fn call(&self, method: &str, headers: &[&str], body: &str) -> Reply {
        let usual = [
            format!("Host: {}", self.authority),
            format!("Authorization: Bearer {}", self.secret),
            format!("Content-Length: {}", body.len()),
            "Content-Type: application/json".to_owned(),
            "Accept: application/json, text/event-stream".to_owned(),
            "Mcp-Protocol-Version: 2025-06-18".to_owned(),
        ];
        let mut head = format!("{method} {} HTTP/1.1\r\n", self.path);
        // A header without a value is omitted.
        for header in headers.iter().filter(|header| !header.ends_with(':')) {
            head += &format!("{header}\r\n");
        }
        for header in &usual {
            let (name, _) = header.split_once(':').expect("a name");
            if !headers.iter().any(|given| given.starts_with(&format!("{name}:"))) {
                head += &format!("{header}\r\n");
            }
        }
        if let Some(session) = &self.session {
            head += &format!("Mcp-Session-Id: {session}\r\n");
        }
        let stream = TcpStream::connect(&self.authority).expect("somebody listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a setting");
        let (mut writer, body) = (stream.try_clone().expect("a handle"), body.to_owned());
        // The answer may come before the whole request is read.
        std::thread::spawn(move || writer.write_all(format!("{head}\r\n{body}").as_bytes()));
        Reply::read(BufReader::new(stream))
    }

    /// Posts a message. The messages of the response go to `lines`.
    pub fn send(&mut self, line: &str) {
        let reply = self.call("POST", &[], line);
        assert!(matches!(reply.status, 200 | 202), "{}", reply.head);
        if let Some(session) = reply.header("mcp-session-id") {
            self.session = Some(session);
        }
        if reply.status == 200 {
            reply.listen(self.sender.clone());
        }
    }

    /// Opens the stream for messages that the server sends unasked.
    pub fn listen(&self) {
        let reply = self.call("GET", &["Accept: text/event-stream"], "");
        assert_eq!(reply.status, 200, "{}", reply.head);
        reply.listen(self.sender.clone());
    }
}

/// A response of which the head was read.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub head: String,
    stream: BufReader<TcpStream>,
}

impl Reply {
    fn read(mut stream: BufReader<TcpStream>) -> Reply {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") && stream.read_line(&mut head).expect("a head") > 0 {}
        let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("a status");
        Reply { status, head, stream }
    }

    pub fn header(&self, name: &str) -> Option<String> {
        let found = self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        found.map(str::to_owned)
    }

    /// The whole body, which must have a length.
    pub fn text(mut self) -> String {
        let length = self.header("content-length").and_then(|it| it.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).expect("a body");
        String::from_utf8(body).expect("UTF-8")
    }

    /// Passes the messages of an event stream, or of a plain body, to `lines`.
    fn listen(mut self, sender: Sender<String>) {
        if self.header("content-type").as_deref() != Some("text/event-stream") {
            let _ = sender.send(self.text());
            return;
        }
        self.stream.get_ref().set_read_timeout(None).expect("a setting");
        std::thread::spawn(move || {
            let mut text = Vec::new();
            while let Some(chunk) = self.chunk() {
                text.extend_from_slice(&chunk);
                while text.ends_with(b"\n\n")
                    && let Some(end) = text.windows(2).position(|it| it == b"\n\n")
                {
                    let event: Vec<u8> = text.drain(..end + 2).collect();
                    let event = String::from_utf8(event).expect("UTF-8");
                    if let Some(data) = event.strip_prefix("data: ") {
                        let _ = sender.send(data.trim_end_matches('\n').to_owned());
                    }
                }
            }
            let _ = self.stream.get_ref().shutdown(Shutdown::Both);
        });
    }

    fn chunk(&mut self) -> Option<Vec<u8>> {
        let mut size = String::new();
        self.stream.read_line(&mut size).ok()?;
        let size = usize::from_str_radix(size.trim_end(), 16).ok().filter(|size| *size > 0)?;
        let mut chunk = vec![0; size + 2];
        self.stream.read_exact(&mut chunk).ok()?;
        chunk.truncate(size);
        Some(chunk)
    }
}
