//! A page without a browser: logs in, follows topics and does actions.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tungstenite::client::IntoClientRequest;
use tungstenite::{Message, WebSocket};

/// The address of a page.
pub struct Site {
    pub host: String,
    pub key: String,
}

/// The real program.
pub struct Studio {
    child: Child,
    site: Site,
}

impl std::ops::Deref for Studio {
    type Target = Site;

    fn deref(&self) -> &Site {
        &self.site
    }
}

impl Studio {
    /// Runs `conductor studio` in a folder.
    pub fn start(folder: &Path, chain: &[&str]) -> Studio {
        let mut child = Command::new(env!("CARGO_BIN_EXE_conductor"))
            .args(["studio", "--no-open", "--cwd"])
            .arg(folder)
            .arg("--")
            .args(chain)
            .stdout(Stdio::piped())
            .stdin(Stdio::null())
            .spawn()
            .expect("the program starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let line = lines.next().expect("a line").expect("text");
        Studio { child, site: Site::of(&line) }
    }
}

impl Site {
    /// The address in a text.
    pub fn of(text: &str) -> Site {
        let (_, rest) = text.split_once("http://").expect("an address");
        let (host, rest) = rest.split_once("/studio#key=").expect("a key");
        let key = rest.split_whitespace().next().expect("a key");
        Site { host: host.to_owned(), key: key.to_owned() }
    }

    /// Sends a request and returns the status, the headers and the body.
    pub fn http(&self, head: &str, body: &str) -> (u16, String, String) {
        let mut stream = TcpStream::connect(&self.host).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
        let length = body.len();
        let head = head.replace("HOST", &self.host).replace('\n', "\r\n");
        write!(stream, "{head}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}")
            .expect("written");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("an answer");
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("a status");
        (status, head.to_lowercase(), body.to_owned())
    }

    /// Logs in: the cookie and the token.
    pub fn log_in(&self) -> (String, String) {
        let body = json!({ "key": self.key }).to_string();
        let head = "POST /api/login HTTP/1.1\nHost: HOST\nOrigin: http://HOST";
        let (status, head, body) = self.http(head, &body);
        assert_eq!(status, 200, "{body}");
        let cookie = head.split("set-cookie: ").nth(1).expect("a cookie");
        let cookie = cookie.split(';').next().expect("a pair").to_owned();
        let body: Value = serde_json::from_str(&body).expect("JSON");
        (cookie, body["token"].as_str().expect("a token").to_owned())
    }

    /// A page that follows these topics.
    pub fn page(&self, topics: &[&str]) -> Page {
        let (cookie, token) = self.log_in();
        let mut socket =
            self.connect(&cookie, &format!("http://{}", self.host)).expect("connected");
        let want: Vec<Value> = topics.iter().map(|it| json!({ "topic": it, "at": null })).collect();
        let hello = json!({ "t": "hello", "v": 1, "token": token, "run": "", "want": want });
        socket.send(Message::text(hello.to_string())).expect("sent");
        Page { socket, topics: BTreeMap::new(), done: BTreeMap::new(), last: 0, frames: 0 }
    }

    /// Opens a WebSocket with these headers.
    pub fn connect(
        &self,
        cookie: &str,
        origin: &str,
    ) -> Result<WebSocket<TcpStream>, Box<tungstenite::Error>> {
        let address = format!("ws://{}/api/link", self.host);
        let mut request = address.into_client_request().expect("valid");
        let headers = request.headers_mut();
        headers.insert("cookie", cookie.parse().expect("valid"));
        headers.insert("origin", origin.parse().expect("valid"));
        let stream = TcpStream::connect(&self.host).expect("it listens");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
        match tungstenite::client::client(request, stream) {
            Ok((socket, _)) => Ok(socket),
            Err(tungstenite::HandshakeError::Failure(error)) => Err(Box::new(error)),
            Err(tungstenite::HandshakeError::Interrupted(_)) => panic!("no answer"),
        }
    }
}

impl Drop for Studio {
    fn drop(&mut self) {
        let pid = self.child.id().to_string();
        let _ = Command::new("kill").args(["-TERM", &pid]).status();
        let status = self.child.wait();
        if !std::thread::panicking() {
            assert!(status.expect("ended").success(), "it ends well");
        }
    }
}

/// A page.
pub struct Page {
    socket: WebSocket<TcpStream>,
    /// The entries of each topic, with its position.
    topics: BTreeMap<String, (u64, Vec<(String, Value)>)>,
    done: BTreeMap<String, Value>,
    last: u64,
    frames: u64,
}

impl Page {
    /// Handles the next frame.
    fn step(&mut self) {
        let text = loop {
            match self.socket.read().expect("a frame in time") {
                Message::Text(text) => break text,
                Message::Close(frame) => panic!("closed: {frame:?}"),
                _ => {}
            }
        };
        let messages: Vec<Value> = serde_json::from_str(&text).expect("messages");
        messages.into_iter().for_each(|it| self.apply(it));
        self.frames += 1;
        self.send(&json!({ "t": "ack", "frames": self.frames }));
    }

    fn apply(&mut self, message: Value) {
        let topic = message["topic"].as_str().unwrap_or_default().to_owned();
        match message["t"].as_str() {
            Some("welcome") => assert!(message["features"]["chat"].is_boolean()),
            Some("snap") => {
                let entries = message["entries"].as_array().expect("a list").iter();
                let entries =
                    entries.map(|it| (it[0].as_str().expect("an id").to_owned(), it[1].clone()));
                let at = message["at"].as_u64().expect("a position");
                self.topics.insert(topic, (at, entries.collect()));
            }
            Some("inc") => {
                let (at, entries) = self.topics.get_mut(&topic).expect("a snapshot came before");
                assert_eq!(message["from"].as_u64(), Some(*at), "nothing is missing");
                *at = message["at"].as_u64().expect("a position");
                for change in message["changes"].as_array().expect("a list") {
                    let id = change["id"].as_str().expect("an id");
                    let place = entries.iter().position(|it| it.0 == id);
                    match (change["c"].as_str(), place) {
                        (Some("put"), Some(place)) => entries[place].1 = change["entry"].clone(),
                        (Some("put"), None) => {
                            entries.push((id.to_owned(), change["entry"].clone()))
                        }
                        (Some("del"), Some(place)) => drop(entries.remove(place)),
                        (Some("append"), Some(place)) => {
                            let text =
                                entries[place].1["text"].as_str().expect("a text").to_owned();
                            assert_eq!(text.encode_utf16().count() as u64, change["offset"]);
                            entries[place].1["text"] =
                                (text + change["text"].as_str().expect("a text")).into();
                        }
                        other => panic!("{other:?}"),
                    }
                }
            }
            Some("done") => {
                let id = message["id"].as_str().expect("an id").to_owned();
                self.done.insert(id, message);
            }
            other => panic!("{other:?}"),
        }
    }

    pub fn send(&mut self, message: &Value) {
        self.socket.send(Message::text(message.to_string())).expect("sent");
    }

    /// Follows another topic.
    pub fn follow(&mut self, topic: &str) {
        self.send(&json!({ "t": "want", "topic": topic, "at": null }));
    }

    /// Does an action: its result, or why it failed.
    pub fn act(&mut self, action: &Value) -> Result<Value, String> {
        self.last += 1;
        let id = format!("{}", self.last);
        self.send(&json!({ "t": "do", "id": id, "action": action }));
        while !self.done.contains_key(&id) {
            self.step();
        }
        let done = self.done.remove(&id).expect("it is there");
        match done["error"].as_str() {
            Some(error) => Err(error.to_owned()),
            None => Ok(done["ok"].clone()),
        }
    }

    /// Waits until the entries of a topic have what is asked for.
    pub fn until<T>(&mut self, topic: &str, find: impl Fn(&[(String, Value)]) -> Option<T>) -> T {
        loop {
            if let Some((_, entries)) = self.topics.get(topic)
                && let Some(found) = find(entries)
            {
                return found;
            }
            self.step();
        }
    }

    /// The id of the session that the studio opens at the start.
    pub fn first_session(&mut self) -> String {
        self.until("sessions", |entries| entries.first().map(|it| it.0.clone()))
    }

    /// Sends a prompt and waits for the end of its turn. Returns the entries of the session.
    pub fn prompt(&mut self, session: &str, text: &str) -> Vec<(String, Value)> {
        let action = json!({ "op": "prompt", "session": session, "text": text, "attachments": [] });
        self.act(&action).expect("sent");
        self.turn_end(session)
    }

    /// Waits for the end of the turn.
    pub fn turn_end(&mut self, session: &str) -> Vec<(String, Value)> {
        self.until(&format!("session/{session}"), |entries| {
            let turn = entries.iter().find(|it| it.0 == "turn")?;
            let ended = turn.1["state"] == "idle" && turn.1["ended"].is_string();
            ended.then(|| entries.to_vec())
        })
    }
}

/// A folder for a test, which is removed afterwards.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new(name: &str, files: &[(&str, &str)]) -> Folder {
        let path = std::env::temp_dir().join(format!("studio-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("created");
        for (name, text) in files {
            let file = path.join(name);
            std::fs::create_dir_all(file.parent().expect("a folder")).expect("created");
            std::fs::write(file, text).expect("written");
        }
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
