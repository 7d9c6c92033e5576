//! The components on a stage: each one a process whose strings the test pulls.

use std::collections::{BTreeMap, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

use super::{PATIENCE, Peer, binary, parse, wait_until};

/// The components that were started, by name.
#[derive(Debug)]
pub(super) struct Puppets {
    pub socket: PathBuf,
    listener: UnixListener,
    waiting: BTreeMap<String, VecDeque<Puppet>>,
}

impl Puppets {
    pub fn new() -> Puppets {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let socket = std::env::temp_dir().join(format!("stage-{}-{number}", std::process::id()));
        let _ = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).expect("a socket for the puppets");
        listener.set_nonblocking(true).expect("a setting");
        Puppets { socket, listener, waiting: BTreeMap::new() }
    }

    pub fn command(&self, name: &str) -> String {
        format!("'{}' '{}' {name}", binary("puppet").display(), self.socket.display())
    }

    /// Where the conductor may remember things: nothing of one test must be known to another.
    pub fn cache(&self) -> PathBuf {
        self.socket.with_extension("cache")
    }

    pub fn enter(&mut self, name: &str) -> Puppet {
        wait_until(&format!("component {name} starts"), || {
            self.accept();
            self.waiting.get_mut(name).and_then(VecDeque::pop_front)
        })
    }

    pub fn has_entered(&mut self, name: &str) -> bool {
        self.accept();
        self.waiting.get(name).is_some_and(|waiting| !waiting.is_empty())
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            stream.set_nonblocking(false).expect("a setting");
            let puppet = Puppet::new(stream);
            self.waiting.entry(puppet.name.clone()).or_default().push_back(puppet);
        }
    }
}

impl Drop for Puppets {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.socket);
        let _ = std::fs::remove_dir_all(self.cache());
    }
}

/// A component on its strings.
#[derive(Debug)]
pub struct Puppet {
    pub name: String,
    pub pid: u32,
    /// Its arguments, environment and directory as it saw them.
    pub hello: Value,
    strings: UnixStream,
    reports: Receiver<Value>,
    lines: VecDeque<Option<String>>,
    /// What its child said, and at last how it ended.
    child: VecDeque<Result<String, i64>>,
    others: VecDeque<Value>,
}

impl Puppet {
    fn new(stream: UnixStream) -> Puppet {
        let reader = BufReader::new(stream.try_clone().expect("a second handle"));
        let (sender, reports) = channel();
        std::thread::spawn(move || {
            for line in reader.lines() {
                let Ok(line) = line else { return };
                if sender.send(serde_json::from_str(&line).expect("JSON from a puppet")).is_err() {
                    return;
                }
            }
        });
        let hello: Value = reports.recv_timeout(PATIENCE).expect("a puppet says hello");
        Puppet {
            name: hello["hello"].as_str().expect("a name").into(),
            pid: hello["pid"].as_u64().expect("a pid") as u32,
            hello,
            strings: stream,
            reports,
            lines: VecDeque::new(),
            child: VecDeque::new(),
            others: VecDeque::new(),
        }
    }

    /// Pulls a string: see `bin/puppet.rs` for what can be asked.
    pub fn order(&mut self, order: Value) {
        // A puppet that has died obeys no more; what the test expects next will tell.
        let _ = self.strings.write_all(format!("{order}\n").as_bytes());
    }

    /// Writes a line on the component's standard output.
    pub fn send(&mut self, line: &str) {
        self.order(json!({ "out": format!("{line}\n") }));
    }

    /// Writes on its standard error.
    pub fn mutter(&mut self, text: &str) {
        self.order(json!({ "err": text }));
    }

    pub fn exit(&mut self, status: i32) {
        self.order(json!({ "exit": status }));
    }

    fn report(&mut self, wanted: &str) {
        match self.reports.recv_timeout(PATIENCE) {
            Ok(report) => match report {
                Value::Object(ref object) if object.contains_key("line") => {
                    self.lines.push_back(report["line"].as_str().map(str::to_owned));
                }
                Value::Object(ref object) if object.contains_key("eof") => {
                    self.lines.push_back(None)
                }
                Value::Object(ref object) if object.contains_key("child_line") => {
                    let line = report["child_line"].as_str().unwrap_or_default();
                    self.child.push_back(Ok(line.to_owned()));
                }
                Value::Object(ref object) if object.contains_key("child_ended") => {
                    let status = report["child_ended"].as_i64().unwrap_or_default();
                    self.child.push_back(Err(status));
                }
                other => self.others.push_back(other),
            },
            Err(error) => panic!("{} waits for {wanted} in vain: {error}", self.name),
        }
    }

    /// The next line on its standard input, or `None` at the end.
    pub fn next_line(&mut self) -> Option<String> {
        while self.lines.is_empty() {
            self.report("a line");
        }
        self.lines.pop_front().flatten()
    }

    pub fn line(&mut self) -> String {
        let line = self.next_line();
        line.unwrap_or_else(|| panic!("{} wants a line and sees the end of its input", self.name))
    }

    pub fn message(&mut self) -> Value {
        parse(&self.line())
    }

    /// The next message, which must be a request of this method.
    pub fn request(&mut self, method: &str) -> Value {
        let message = self.message();
        assert_eq!(message["method"], method, "{message}");
        assert!(message.get("id").is_some(), "{message}");
        message
    }

    /// Answers a request with a result, spelt as it is.
    pub fn answer(&mut self, request: &Value, result: &str) {
        let id = &request["id"];
        self.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
    }

    /// Answers a request with an error, spelt as it is.
    pub fn fail(&mut self, request: &Value, error: &str) {
        let id = &request["id"];
        self.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#));
    }

    /// Sends a request to its successor, as a P5 proxy does.
    pub fn forward(&mut self, id: &str, method: &str, params: &str) {
        self.send(&format!(
            r#"{{"jsonrpc":"2.0","id":"{id}","method":"proxy/successor","params":{{"method":"{method}","params":{params}}}}}"#
        ));
    }

    /// Starts a grandchild, which inherits the component's standard output and error.
    pub fn spawn(&mut self, shell: &str) -> u32 {
        self.order(json!({ "spawn": shell }));
        self.word("its child")["spawned"].as_u64().expect("a pid") as u32
    }

    /// Starts a program with pipes of its own, described as ACP describes a server: as an SCP proxy
    /// starts its successor. Gives its process id.
    pub fn start_child(&mut self, server: &Value) -> u32 {
        self.order(json!({ "child": server }));
        self.word("its child")["child"].as_u64().expect("a pid") as u32
    }

    /// The program that it has started.
    pub fn child(&mut self) -> Child<'_> {
        Child(self)
    }

    /// Waits until it has done all that it was ordered.
    pub fn settle(&mut self) {
        self.order(json!({ "settle": true }));
        self.word("its word that it is done");
    }

    /// The next report that is not about a line.
    fn word(&mut self, wanted: &str) -> Value {
        while self.others.is_empty() {
            self.report(wanted);
        }
        self.others.pop_front().unwrap_or_default()
    }

    /// Makes it deaf for SIGTERM, SIGINT and SIGHUP.
    pub fn ignore_signals(&mut self) {
        self.order(json!({ "ignore_signals": true }));
        self.word("its word that it ignores signals");
    }
}

impl Peer for Puppet {
    fn send(&mut self, line: &str) {
        Puppet::send(self, line);
    }

    fn line(&mut self) -> String {
        Puppet::line(self)
    }
}

/// The other end of the pipes to a puppet's child.
#[derive(Debug)]
pub struct Child<'a>(&'a mut Puppet);

impl Child<'_> {
    fn next(&mut self) -> Result<String, i64> {
        while self.0.child.is_empty() {
            self.0.report("a word of its child");
        }
        self.0.child.pop_front().expect("not empty")
    }

    pub fn message(&mut self) -> Value {
        parse(&self.line())
    }

    /// Closes its standard input.
    pub fn close(&mut self) {
        self.0.order(json!({ "close_child": true }));
    }

    /// Waits for its end, before which it must say nothing more.
    pub fn status(&mut self) -> i64 {
        self.next().expect_err("the child ends")
    }
}

impl Peer for Child<'_> {
    fn send(&mut self, line: &str) {
        self.0.order(json!({ "to_child": format!("{line}\n") }));
    }

    fn line(&mut self) -> String {
        self.next().unwrap_or_else(|status| panic!("a line of the child, not its end: {status}"))
    }
}
