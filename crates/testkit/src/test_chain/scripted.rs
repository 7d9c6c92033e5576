//! The test's end of the scripted components (`bin/scripted.rs`): each is a process that the test controls over a socket.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};

use serde_json::{Value, json};

use super::{Peer, TIMEOUT, binary, parse, wait_until};

/// The scripted components that have connected to the test, by name.
#[derive(Debug)]
pub(super) struct ScriptedComponents {
    pub socket: PathBuf,
    listener: UnixListener,
    waiting: BTreeMap<String, VecDeque<ScriptedComponent>>,
    /// The process ids of the components that the test has waited for.
    waited_for: BTreeSet<u32>,
}

impl ScriptedComponents {
    pub fn new() -> ScriptedComponents {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let socket = std::env::temp_dir().join(format!("chain-{}-{number}", std::process::id()));
        let _ = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).expect("a socket for the components");
        listener.set_nonblocking(true).expect("a setting");
        let (waiting, waited_for) = (BTreeMap::new(), BTreeSet::new());
        ScriptedComponents { socket, listener, waiting, waited_for }
    }

    pub fn command(&self, name: &str) -> String {
        format!("'{}' '{}' {name}", binary("scripted").display(), self.socket.display())
    }

    /// The conductor's cache and runtime directory. Each test has its own.
    pub fn cache(&self) -> PathBuf {
        self.socket.with_extension("cache")
    }

    pub fn wait_for_component(&mut self, name: &str) -> ScriptedComponent {
        let component = wait_until(&format!("component {name} starts"), || {
            self.accept();
            self.waiting.get_mut(name).and_then(VecDeque::pop_front)
        });
        self.waited_for.insert(component.pid);
        component
    }

    pub fn has_reported(&mut self, name: &str) -> bool {
        self.accept();
        self.waiting.get(name).is_some_and(|waiting| !waiting.is_empty())
    }

    #[track_caller]
    pub fn assert_not_started(&mut self, name: &str) {
        // A process is listed from its start until it has been waited for by its parent. One that ended before has
        // connected in most cases. So the processes are read first.
        let running = self.running(name);
        assert_eq!(running, [0; 0], "processes of component {name} that the test does not expect");
        assert!(!self.has_reported(name), "component {name} has been started");
    }

    /// The processes of a component that the test has not waited for.
    fn running(&self, name: &str) -> Vec<u32> {
        let socket = self.socket.to_string_lossy();
        let is_it = |pid: u32| {
            let words = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            // The program, the socket and the name: the conductor's own command line has them in one argument.
            let mut words = words.split('\0').skip(1);
            words.next() == Some(&*socket) && words.next() == Some(name)
        };
        let processes = std::fs::read_dir("/proc").expect("a list of processes").flatten();
        let pids = processes.filter_map(|it| it.file_name().to_str()?.parse().ok());
        pids.filter(|pid| !self.waited_for.contains(pid) && is_it(*pid)).collect()
    }

    fn accept(&mut self) {
        while let Ok((stream, _)) = self.listener.accept() {
            stream.set_nonblocking(false).expect("a setting");
            let component = ScriptedComponent::new(stream);
            self.waiting.entry(component.name.clone()).or_default().push_back(component);
        }
    }
}

impl Drop for ScriptedComponents {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.socket);
        let _ = std::fs::remove_dir_all(self.cache());
    }
}

/// A component that does only what the test commands.
#[derive(Debug)]
pub struct ScriptedComponent {
    /// The name that its command line gives.
    pub name: String,
    /// Its process id.
    pub pid: u32,
    /// Its arguments (`args`), environment (`env`) and working directory (`cwd`).
    pub start_info: Value,
    commands: UnixStream,
    reports: Receiver<Value>,
    lines: VecDeque<Option<String>>,
    /// The lines of its child, and at last the exit status.
    child: VecDeque<Result<String, i64>>,
    /// The other reports.
    others: VecDeque<Value>,
}

impl ScriptedComponent {
    fn new(stream: UnixStream) -> ScriptedComponent {
        let reader = BufReader::new(stream.try_clone().expect("a second handle"));
        let (sender, reports) = channel();
        std::thread::spawn(move || {
            for line in reader.lines() {
                let Ok(line) = line else { return };
                if sender
                    .send(serde_json::from_str(&line).expect("JSON from the component"))
                    .is_err()
                {
                    return;
                }
            }
        });
        let start_info: Value = reports.recv_timeout(TIMEOUT).expect("the first report");
        ScriptedComponent {
            name: start_info["name"].as_str().expect("a name").into(),
            pid: start_info["pid"].as_u64().expect("a pid") as u32,
            start_info,
            commands: stream,
            reports,
            lines: VecDeque::new(),
            child: VecDeque::new(),
            others: VecDeque::new(),
        }
    }

    /// Sends a command: `bin/scripted.rs` has the list.
    pub fn execute(&mut self, command: Value) {
        // A component that has exited executes nothing. The next expectation of the test fails then.
        let _ = self.commands.write_all(format!("{command}\n").as_bytes());
    }

    /// Writes a line on the component's standard output.
    pub fn send(&mut self, line: &str) {
        self.execute(json!({ "out": format!("{line}\n") }));
    }

    /// Writes text on its standard error.
    pub fn write_stderr(&mut self, text: &str) {
        self.execute(json!({ "err": text }));
    }

    /// Makes it exit with this status.
    pub fn exit(&mut self, status: i32) {
        self.execute(json!({ "exit": status }));
    }

    /// Waits for one report and files it.
    fn read_report(&mut self, wanted: &str) {
        let report = self.reports.recv_timeout(TIMEOUT);
        self.file_report(report, wanted);
    }

    fn file_report(&mut self, report: Result<Value, RecvTimeoutError>, wanted: &str) {
        match report {
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
            Err(error) => panic!("{} did not report {wanted}: {error}", self.name),
        }
    }

    /// Waits for the next line on its standard input. `None` at the end of the input, and if the component has exited: it
    /// may have been killed before it could report the end of its input.
    pub fn next_line(&mut self) -> Option<String> {
        while self.lines.is_empty() {
            match self.reports.recv_timeout(TIMEOUT) {
                Err(RecvTimeoutError::Disconnected) => return None,
                report => self.file_report(report, "a line"),
            }
        }
        self.lines.pop_front().flatten()
    }

    /// Waits for the next line on its standard input.
    pub fn line(&mut self) -> String {
        let line = self.next_line();
        line.unwrap_or_else(|| panic!("{} expected a line and got the end of its input", self.name))
    }

    /// Waits for the next line and parses it.
    pub fn message(&mut self) -> Value {
        parse(&self.line())
    }

    /// Waits for the next message, which must be a request of this method.
    pub fn request(&mut self, method: &str) -> Value {
        let message = self.message();
        assert_eq!(message["method"], method, "{message}");
        assert!(message.get("id").is_some(), "{message}");
        message
    }

    /// Answers a request with a result. The JSON text is sent unchanged.
    pub fn answer(&mut self, request: &Value, result: &str) {
        let id = &request["id"];
        self.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#));
    }

    /// Answers a request with an error. The JSON text is sent unchanged.
    pub fn answer_error(&mut self, request: &Value, error: &str) {
        let id = &request["id"];
        self.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#));
    }

    /// Sends a request to its successor, as a P5 proxy does.
    pub fn forward(&mut self, id: &str, method: &str, params: &str) {
        self.send(&format!(
            r#"{{"jsonrpc":"2.0","id":"{id}","method":"proxy/successor","params":{{"method":"{method}","params":{params}}}}}"#
        ));
    }

    /// Starts a child with a shell command. The child inherits the component's standard output and error.
    pub fn spawn(&mut self, shell: &str) -> u32 {
        self.execute(json!({ "spawn": shell }));
        self.next_report("its child's process id")["spawned"].as_u64().expect("a pid") as u32
    }

    /// Starts a child with pipes to this component, from a description like ACP's of an MCP server. An SCP proxy starts
    /// its successor like this. Returns the process id.
    pub fn start_child(&mut self, server: &Value) -> u32 {
        self.execute(json!({ "child": server }));
        self.next_report("its child's process id")["child"].as_u64().expect("a pid") as u32
    }

    /// The child that [`start_child`](Self::start_child) has started.
    pub fn child(&mut self) -> Child<'_> {
        Child(self)
    }

    /// Waits until it has executed all commands so far.
    pub fn sync(&mut self) {
        self.execute(json!({ "sync": true }));
        self.next_report("that its commands are done");
    }

    /// The next report that is not about a line.
    fn next_report(&mut self, wanted: &str) -> Value {
        while self.others.is_empty() {
            self.read_report(wanted);
        }
        self.others.pop_front().unwrap_or_default()
    }

    /// Makes it ignore SIGTERM, SIGINT and SIGHUP.
    pub fn ignore_signals(&mut self) {
        self.execute(json!({ "ignore_signals": true }));
        self.next_report("that it ignores signals");
    }
}

impl Peer for ScriptedComponent {
    fn send(&mut self, line: &str) {
        ScriptedComponent::send(self, line);
    }

    fn line(&mut self) -> String {
        ScriptedComponent::line(self)
    }
}

/// The pipes to a scripted component's child.
#[derive(Debug)]
pub struct Child<'a>(&'a mut ScriptedComponent);

impl Child<'_> {
    /// The next line, or the exit status.
    fn next(&mut self) -> Result<String, i64> {
        while self.0.child.is_empty() {
            self.0.read_report("a line of its child");
        }
        self.0.child.pop_front().expect("not empty")
    }

    /// Waits for its next line and parses it.
    pub fn message(&mut self) -> Value {
        parse(&self.line())
    }

    /// Closes its standard input.
    pub fn close(&mut self) {
        self.0.execute(json!({ "close_child": true }));
    }

    /// Waits until it has exited. It must not write another line before.
    pub fn status(&mut self) -> i64 {
        self.next().expect_err("the exit status of the child")
    }
}

impl Peer for Child<'_> {
    fn send(&mut self, line: &str) {
        self.0.execute(json!({ "to_child": format!("{line}\n") }));
    }

    fn line(&mut self) -> String {
        self.next().unwrap_or_else(|status| {
            panic!("the child exited with status {status} instead of writing a line")
        })
    }
}
