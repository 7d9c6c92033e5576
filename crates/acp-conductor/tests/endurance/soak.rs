//! Hours of work in seconds: an editor prompts, cancels, opens and closes sessions and calls tools while
//! components are killed at random times. Every request is answered exactly once, and the conductor needs no
//! more resources at the end than at the beginning.
//!
//! `ENDURANCE` is the duration in seconds (8 by default). `SEED` determines all random choices; a failed run
//! prints it.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::test_chain::{signal, wait_until};
use testkit::test_client::TestClient;

use crate::{UNLIMITED_RESTARTS, Usage, agent, component, growth, new_setup, proxy, usage};

/// The maximum number of open sessions.
const SESSIONS: usize = 8;

/// How much the conductor may grow between the first third and the end, in KiB.
const SLACK: u64 = 8 * 1024;

/// After this many steps the test waits until the chain is idle.
const ROUND: u64 = 200;

/// An open request.
#[derive(Debug)]
enum OpenRequest {
    Prompt { session: String },
    Open,
    Close,
}

struct Soak {
    client: TestClient,
    seed: u64,
    random: u64,
    /// The verb of prompts that call tools.
    tool: &'static str,
    idle: Vec<String>,
    /// Sessions with a prompt that waits to be cancelled.
    waiting: Vec<String>,
    open: Vec<(u64, OpenRequest)>,
    /// The answer that the test waits for, if any.
    awaited: String,
    last_prompts: Vec<(u64, String)>,
    known: BTreeSet<String>,
    kills: u64,
    answers: u64,
    errors: u64,
}

impl Soak {
    fn below(&mut self, most: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random % most as u64) as usize
    }

    fn step(&mut self) {
        while self.open.len() >= SESSIONS {
            self.take_answer();
        }
        match self.below(100) {
            0..6 => self.kill(),
            6..16 => self.open_session(),
            16..22 => self.close_session(),
            22..40 => self.cancel(),
            _ => self.prompt(),
        }
    }

    fn kill(&mut self) {
        let number = self.below(4) + 1;
        if let Some(pid) = self.client.component_status(number)["pid"].as_u64() {
            signal(pid as u32, libc::SIGKILL);
            self.kills += 1;
        }
    }

    fn sessions(&self) -> usize {
        self.idle.len()
            + self.open.iter().filter(|(_, it)| !matches!(it, OpenRequest::Close)).count()
    }

    fn open_session(&mut self) {
        if self.sessions() < SESSIONS {
            let id =
                self.client.send_request("session/new", json!({ "cwd": "/", "mcpServers": [] }));
            self.open.push((id, OpenRequest::Open));
        }
    }

    fn close_session(&mut self) {
        if let Some(session) = self.idle_session() {
            let id = self.client.send_request("session/close", json!({ "sessionId": session }));
            self.open.push((id, OpenRequest::Close));
        }
    }

    fn idle_session(&mut self) -> Option<String> {
        if self.idle.is_empty() {
            return None;
        }
        let index = self.below(self.idle.len());
        Some(self.idle.swap_remove(index))
    }

    fn prompt(&mut self) {
        let Some(session) = self.idle_session() else { return };
        let (tool, most) = (self.tool, if self.tool == "tool" { 10 } else { 40 });
        let text = match self.below(most) {
            0..2 => "wait".to_owned(),
            2..4 => format!("{tool} one two three"),
            4 => format!("fill {}", 1 << self.below(20)),
            5..7 => format!("stream {}", self.below(200)),
            _ => "hello".to_owned(),
        };
        let id = self.client.send_prompt(&session, &text);
        self.last_prompts.push((id, text.clone()));
        if text == "wait" {
            self.waiting.push(session.clone());
        }
        self.open.push((id, OpenRequest::Prompt { session }));
    }

    /// Cancels a prompt: one that waits for that, or any.
    fn cancel(&mut self) {
        let session = match self.below(4) {
            0 => self.open.iter().rev().find_map(|(_, request)| match request {
                OpenRequest::Prompt { session } => Some(session.clone()),
                _ => None,
            }),
            _ => self.waiting.pop(),
        };
        if let Some(session) = session {
            self.client.notify("session/cancel", json!({ "sessionId": session }));
        }
    }

    /// Takes the answer of the oldest request, which may have to be cancelled first.
    fn take_answer(&mut self) {
        let (id, request) = self.open.remove(0);
        self.awaited = format!("{id} {request:?}");
        if let OpenRequest::Prompt { session } = &request
            && self.waiting.contains(session)
        {
            self.waiting.retain(|it| it != session);
            self.client.notify("session/cancel", json!({ "sessionId": session }));
        }
        let answer = self.client.wait_for_answer(id);
        self.answers += 1;
        if answer.get("error").is_some() {
            self.errors += 1;
            assert!(names_a_component(&answer), "{answer}");
        }
        match request {
            OpenRequest::Prompt { session } => {
                self.client.take_texts(&session);
                self.idle.push(session);
            }
            OpenRequest::Open => {
                if let Some(session) = answer["result"]["sessionId"].as_str() {
                    assert!(
                        self.known.insert(session.to_owned()),
                        "the session is not new: {answer}"
                    );
                    self.idle.push(session.to_owned());
                }
            }
            OpenRequest::Close => {}
        }
    }

    /// Waits until the chain is idle. After that no message is lost.
    fn rest(&mut self) -> Usage {
        while !self.open.is_empty() {
            self.take_answer();
        }
        wait_until("all components are live", || {
            let status = self.client.status();
            let components = status["components"].as_array().cloned().unwrap_or_default();
            components.iter().all(|it| it["state"] == "live").then_some(())
        });
        // A kill that the conductor has not noticed yet may cost this prompt.
        let text = format!("{} one two", self.tool);
        for session in self.idle.clone() {
            let mut tries = Vec::new();
            let answered = (0..5).any(|_| {
                let (texts, answer) = self.client.run_turn(&session, &text);
                let right = answer["result"]["stopReason"] == "end_turn" && texts == ["2 words"];
                tries.push((texts, answer));
                right
            });
            assert!(answered, "an open session cannot be used: {tries:#?}");
        }
        assert_eq!(self.client.open_requests(), 0);
        self.client.received.clear();
        usage(self.client.chain.conductor.pid())
    }
}

/// Prints what a failed run did last.
impl Drop for Soak {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let Soak { seed, awaited, open, .. } = self;
            eprintln!("SEED={seed}; waits for {awaited}; open: {open:#?}");
            let conductor = &self.client.chain.conductor;
            eprintln!("{}", conductor.stderr_so_far().lines().rev().take(20).collect::<String>());
            let prompts: Vec<_> = self.last_prompts.iter().rev().take(30).collect();
            eprintln!("{prompts:?}\n{:#}", self.client.status());
        }
    }
}

/// Whether an error names the component that failed.
fn names_a_component(answer: &Value) -> bool {
    answer["error"]["data"]["component"].is_string()
}

fn environment(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|it| it.parse().ok()).unwrap_or(default)
}

fn soak(name: &str, tool: &'static str, options: &[&str]) {
    let seconds = Duration::from_secs(environment("ENDURANCE", 8));
    let seed = environment("SEED", 0x5eed_1234_abcd_0001);
    let components = [
        proxy("first"),
        component("words", "word_count_proxy", &[]),
        proxy("third"),
        agent(options),
    ];
    // Otherwise the conductor would try another transport if the agent does not connect in its first turn.
    let setup = new_setup().option(&UNLIMITED_RESTARTS).option(&["--mcp-bridge", "stdio"]);
    let client = TestClient::start(setup, name, &components);
    let (idle, waiting, open) = (Vec::new(), Vec::new(), Vec::new());
    let mut soak = Soak {
        client,
        seed,
        random: seed,
        tool,
        idle,
        waiting,
        open,
        awaited: String::new(),
        last_prompts: Vec::new(),
        known: BTreeSet::new(),
        kills: 0,
        answers: 0,
        errors: 0,
    };
    let began = Instant::now();
    let mut samples = Vec::new();
    // Timing: the length of the soak. A busy machine plays fewer rounds in it.
    while samples.len() < 6 || began.elapsed() < seconds {
        (0..ROUND).for_each(|_| soak.step());
        samples.push(soak.rest());
    }
    let (first, _) = samples.split_at(samples.len() / 3);
    let most = |of: fn(&Usage) -> usize| first.iter().map(of).max().expect("a sample");
    let before = Usage {
        descriptors: most(|it| it.descriptors),
        threads: most(|it| it.threads),
        memory: first.iter().map(|it| it.memory).max().expect("a sample"),
    };
    let summary = format!(
        "SEED={seed}: {} answers, {} of them errors, {} kills, {} rounds",
        soak.answers,
        soak.errors,
        soak.kills,
        samples.len()
    );
    assert!(soak.kills > 10 && soak.errors < soak.answers / 2, "{summary}");
    let grown = growth(soak.client.chain.conductor.pid(), before);
    assert!(grown < SLACK, "{summary}: the conductor has grown by {grown} KiB");
    assert_eq!(soak.client.shut_down(), 0, "{summary}");
    eprintln!("{name}: {summary}, grown by {grown} KiB");
}

#[test]
fn soak_with_an_agent_that_uses_mcp_over_acp() {
    soak("soak-native", "tool", &[]);
}

#[test]
fn soak_with_an_agent_that_starts_its_mcp_servers() {
    soak("soak-bridged", "client", &["--bridged"]);
}
