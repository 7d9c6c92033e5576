//! An editor that drives a chain whose components play by themselves, and whose processes can be killed:
//! it knows which answers are due, and that each comes once.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::test_chain::{TestChain, TestChainBuilder, directory, parse, signal, wait_until};

#[derive(Debug)]
pub struct TestClient {
    pub chain: TestChain,
    /// Where the conductor's status is asked for.
    runtime: PathBuf,
    last_id: u64,
    open: BTreeSet<u64>,
    answers: BTreeMap<u64, Value>,
    /// What else the editor was told and has not been looked at.
    pub received: Vec<Value>,
}

impl TestClient {
    /// Runs `conductor agent` with these COMPONENT arguments, and greets it. The name is of the test.
    pub fn start(setup: TestChainBuilder, name: &str, components: &[String]) -> TestClient {
        let mut drive = TestClient::start_without_initialize(setup, name, components);
        let answer = drive.initialize();
        assert!(answer["result"].is_object(), "{answer}");
        drive
    }

    /// The same without a greeting.
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

    pub fn initialize(&mut self) -> Value {
        let params = json!({ "protocolVersion": 1, "clientCapabilities": {} });
        let id = self.send_request("initialize", params);
        self.wait_for_answer(id)
    }

    /// Asks something; gives the id that the answer will have.
    pub fn send_request(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        let id = self.last_id;
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params });
        self.open.insert(id);
        self.chain.editor.send(&message.to_string());
        id
    }

    pub fn notify(&mut self, method: &str, params: Value) {
        let message = json!({ "jsonrpc": "2.0", "method": method, "params": params });
        self.chain.editor.send(&message.to_string());
    }

    /// Takes one line. False at the end.
    pub fn read_message(&mut self) -> bool {
        let Some(line) = self.chain.editor.next_line() else { return false };
        let message = parse(&line);
        match message["id"].as_u64() {
            Some(id) if message.get("method").is_none() => {
                assert!(self.open.remove(&id), "nobody has asked for this: {message}");
                self.answers.insert(id, message);
            }
            _ => self.received.push(message),
        }
        true
    }

    /// Waits for an answer.
    pub fn wait_for_answer(&mut self, id: u64) -> Value {
        loop {
            if let Some(answer) = self.answers.remove(&id) {
                return answer;
            }
            assert!(self.read_message(), "{id} is not answered: {}", self.chain.conductor.stderr());
        }
    }

    /// Waits until something is said in a session.
    pub fn wait_for_text(&mut self, session: &str, text: &str) {
        let is_it = |it: &Value| it["params"]["sessionId"] == session && text_of(it) == Some(text);
        while !self.received.iter().any(is_it) {
            assert!(self.read_message(), "{text:?} is not said: {}", self.chain.conductor.stderr());
        }
        self.received.retain(|it| !is_it(it));
    }

    /// How many answers are due.
    pub fn open_requests(&self) -> usize {
        self.open.len()
    }

    pub fn new_session(&mut self) -> String {
        let id = self.send_request("session/new", json!({ "cwd": "/", "mcpServers": [] }));
        let answer = self.wait_for_answer(id);
        let session = answer["result"]["sessionId"].as_str();
        session.unwrap_or_else(|| panic!("{answer}")).to_owned()
    }

    pub fn send_prompt(&mut self, session: &str, text: &str) -> u64 {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.send_request("session/prompt", json!({ "sessionId": session, "prompt": prompt }))
    }

    /// A whole turn: what was said in it, but for notices of the conductor's, and its answer.
    pub fn run_turn(&mut self, session: &str, text: &str) -> (Vec<String>, Value) {
        let id = self.send_prompt(session, text);
        let answer = self.wait_for_answer(id);
        (self.take_texts(session), answer)
    }

    /// What was said in a session, but for notices of the conductor's, and was not looked at yet.
    pub fn take_texts(&mut self, session: &str) -> Vec<String> {
        let here = |it: &Value| it["params"]["sessionId"] == session;
        let (said, rest): (Vec<Value>, Vec<Value>) =
            std::mem::take(&mut self.received).into_iter().partition(here);
        self.received = rest;
        let texts = said.iter().filter(|it| !is_notice(it)).filter_map(text_of);
        texts.map(str::to_owned).collect()
    }

    /// A turn in which this is repeated.
    pub fn assert_echo(&mut self, session: &str, text: &str) {
        let (said, answer) = self.run_turn(session, text);
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
        assert_eq!(said, [text]);
    }

    /// What `conductor status` would say.
    pub fn status(&self) -> Value {
        let path = self.runtime.join(format!("conductor/{}.sock", self.chain.conductor.pid()));
        let mut line = String::new();
        UnixStream::connect(path).and_then(|mut it| it.read_to_string(&mut line)).expect("a line");
        parse(&line)
    }

    /// What it says of a component, counted from 1.
    pub fn component_status(&self, number: usize) -> Value {
        self.status()["components"][number - 1].clone()
    }

    /// Waits until a component, counted from 1, is in this state.
    pub fn wait_for_state(&self, number: usize, state: &str) -> Value {
        wait_until(&format!("component {number} is {state}"), || {
            Some(self.component_status(number)).filter(|it| it["state"] == state)
        })
    }

    /// The process of a component that is live.
    pub fn pid(&self, number: usize) -> u32 {
        self.wait_for_state(number, "live")["pid"].as_u64().expect("a process") as u32
    }

    /// Kills the process of a component.
    pub fn kill(&self, number: usize) {
        signal(self.pid(number), libc::SIGKILL);
    }

    /// Kills it and waits until there is another one.
    pub fn kill_and_wait_for_restart(&self, number: usize) {
        let before = self.wait_for_state(number, "live");
        signal(before["pid"].as_u64().expect("a process") as u32, libc::SIGKILL);
        wait_until(&format!("component {number} is there again"), || {
            let now = self.component_status(number);
            let restarted = now["restarts"].as_u64() > before["restarts"].as_u64();
            (restarted && now["state"] == "live").then_some(())
        });
    }

    /// The editor leaves; gives the conductor's status.
    pub fn shut_down(&mut self) -> i32 {
        self.chain.editor.close();
        let status = self.chain.conductor.status();
        while self.read_message() {}
        assert_eq!(self.open, BTreeSet::new(), "what was asked is answered");
        status
    }
}

impl Drop for TestClient {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.runtime);
    }
}

/// The text of a piece of an answer.
pub fn text_of(message: &Value) -> Option<&str> {
    message["params"]["update"]["content"]["text"].as_str()
}

/// Is this what the conductor itself says in a session?
pub fn is_notice(message: &Value) -> bool {
    message["params"]["update"]["_meta"].get("conductor").is_some()
}
