//! An ACP client for chains whose components need no script, such as `bin/resumable_agent`, and whose processes a test can
//! kill. It checks that each request is answered exactly once.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::test_chain::{TestChain, TestChainBuilder, directory, parse, signal, wait_until};

/// The editor of a [`TestChain`].
#[derive(Debug)]
pub struct TestClient {
    /// The chain.
    pub chain: TestChain,
    /// The `XDG_RUNTIME_DIR` of the conductor, which has its status socket.
    runtime: PathBuf,
    last_id: u64,
    open: BTreeSet<u64>,
    answers: BTreeMap<u64, Value>,
    /// Notifications and requests that the editor has received and the test has not read yet.
    pub received: Vec<Value>,
}

impl TestClient {
    /// Runs `conductor agent` with these COMPONENT arguments and initializes it. The name is that of the test.
    pub fn start(setup: TestChainBuilder, name: &str, components: &[String]) -> TestClient {
        let mut client = TestClient::start_without_initialize(setup, name, components);
        let answer = client.initialize();
        assert!(answer["result"].is_object(), "{answer}");
        client
    }

    /// Runs `conductor agent` with these COMPONENT arguments.
    pub fn start_without_initialize(
        setup: TestChainBuilder,
        name: &str,
        components: &[String],
    ) -> TestClient {
        let runtime = directory(name);
        let setup = setup.env("XDG_RUNTIME_DIR", &runtime.to_string_lossy());
        let chain = setup.run("agent", components);
        let (open, answers) = (BTreeSet::new(), BTreeMap::new());
        TestClient { chain, runtime, last_id: 0, open, answers, received: Vec::new() }
    }

    /// Sends `initialize` and returns the answer.
    pub fn initialize(&mut self) -> Value {
        let params = json!({ "protocolVersion": 1, "clientCapabilities": {} });
        let id = self.send_request("initialize", params);
        self.wait_for_answer(id)
    }

    /// Sends a request and returns its id.
    pub fn send_request(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.open.insert(id);
        self.chain.editor.send(&message.to_string());
        id
    }

    /// Sends a notification.
    pub fn notify(&mut self, method: &str, params: Value) {
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        self.chain.editor.send(&message.to_string());
    }

    /// Reads one message. False at the end of the stream.
    pub fn read_message(&mut self) -> bool {
        let Some(line) = self.chain.editor.next_line() else { return false };
        let message = parse(&line);
        match message["id"].as_u64() {
            Some(id) if message.get("method").is_none() => {
                assert!(self.open.remove(&id), "an answer to no open request: {message}");
                self.answers.insert(id, message);
            }
            _ => self.received.push(message),
        }
        true
    }

    /// Whether the answer to a request has been read.
    pub fn is_answered(&self, id: u64) -> bool {
        self.answers.contains_key(&id)
    }

    /// Waits for the answer to a request.
    pub fn wait_for_answer(&mut self, id: u64) -> Value {
        loop {
            if let Some(answer) = self.answers.remove(&id) {
                return answer;
            }
            assert!(
                self.read_message(),
                "{id} is not answered: {}",
                self.chain.conductor.stderr_so_far()
            );
        }
    }

    /// Waits for a chunk with this text in a session.
    pub fn wait_for_text(&mut self, session: &str, text: &str) {
        let is_it = |it: &Value| it["params"]["sessionId"] == session && text_of(it) == Some(text);
        while !self.received.iter().any(is_it) {
            assert!(
                self.read_message(),
                "the text {text:?} does not arrive: {}",
                self.chain.conductor.stderr_so_far()
            );
        }
        self.received.retain(|it| !is_it(it));
    }

    /// The number of open requests.
    pub fn open_requests(&self) -> usize {
        self.open.len()
    }

    /// Opens a session and returns its id.
    pub fn new_session(&mut self) -> String {
        let id = self.send_request("session/new", json!({ "cwd": "/", "mcpServers": [] }));
        let answer = self.wait_for_answer(id);
        let session = answer["result"]["sessionId"].as_str();
        session.unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    /// Sends a prompt and returns the id of the request.
    pub fn send_prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.send_request("session/prompt", json!({ "sessionId": session, "prompt": prompt }))
    }

    /// Runs a whole turn. Returns the texts of the agent, without the conductor's notices, and the answer.
    pub fn run_turn(&mut self, session: &str, text: &str) -> (Vec<String>, Value) {
        let id = self.send_prompt(session, text);
        let answer = self.wait_for_answer(id);
        (self.take_texts(session), answer)
    }

    /// The texts that have arrived in a session and were not read yet, without the conductor's notices.
    pub fn take_texts(&mut self, session: &str) -> Vec<String> {
        let here = |it: &Value| it["params"]["sessionId"] == session;
        let (said, rest): (Vec<Value>, Vec<Value>) =
            std::mem::take(&mut self.received).into_iter().partition(here);
        self.received = rest;
        let texts = said.iter().filter(|it| !is_notice(it)).filter_map(text_of);
        texts.map(str::to_owned).collect()
    }

    /// Runs a turn in which the agent repeats the prompt.
    pub fn assert_echo(&mut self, session: &str, text: &str) {
        let (said, answer) = self.run_turn(session, text);
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
        assert_eq!(said, [text]);
    }

    /// The status of the conductor, as `conductor status --json` prints it.
    pub fn status(&self) -> Value {
        let path = self.runtime.join(format!("conductor/{}.sock", self.chain.conductor.pid()));
        let mut line = String::new();
        UnixStream::connect(path).and_then(|mut it| it.read_to_string(&mut line)).expect("a line");
        parse(&line)
    }

    /// The status of a component, counted from 1.
    pub fn component_status(&self, number: usize) -> Value {
        self.status()["components"][number - 1].clone()
    }

    /// Waits until a component, counted from 1, is in this state.
    pub fn wait_for_state(&self, number: usize, state: &str) -> Value {
        wait_until(&format!("component {number} is {state}"), || {
            Some(self.component_status(number)).filter(|it| it["state"] == state)
        })
    }

    /// Waits until a component is live, and returns its process id.
    pub fn pid(&self, number: usize) -> u32 {
        self.wait_for_state(number, "live")["pid"].as_u64().expect("a process") as u32
    }

    /// Kills the process of a component.
    pub fn kill(&self, number: usize) {
        signal(self.pid(number), libc::SIGKILL);
    }

    /// Kills the process of a component and waits until it is restarted and live.
    pub fn kill_and_wait_for_restart(&self, number: usize) {
        let before = self.wait_for_state(number, "live");
        signal(before["pid"].as_u64().expect("a process") as u32, libc::SIGKILL);
        wait_until(&format!("component {number} is restarted"), || {
            let now = self.component_status(number);
            let restarted = now["restarts"].as_u64() > before["restarts"].as_u64();
            (restarted && now["state"] == "live").then_some(())
        });
    }

    /// Closes the editor's end and waits until the conductor has exited. Returns its exit status.
    pub fn shut_down(&mut self) -> i32 {
        self.chain.editor.close();
        let status = self.chain.conductor.status();
        while self.read_message() {}
        assert_eq!(self.open, BTreeSet::new(), "every request is answered");
        status
    }
}

impl Drop for TestClient {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.runtime);
    }
}

/// The text of a message chunk.
pub fn text_of(message: &Value) -> Option<&str> {
    message["params"]["update"]["content"]["text"].as_str()
}

/// Whether this is a notice of the conductor to the user.
pub fn is_notice(message: &Value) -> bool {
    message["params"]["update"]["_meta"].get("conductor").is_some()
}
