//! One fault at a time, in our conductor and in the reference conductor, with the same components: what
//! the editor sees. Ours is asserted; of the other it is only noted, for the table in
//! `docs/reliability.md`:
//!
//!     FAULTS=/tmp/faults.md cargo test --test interop faults

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::process::ChildStdin;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::peers::quote;
use testkit::test_chain::{TestChain, binary, is_alive, memory, parse, signal};

use crate::{ours, peer};

/// How long an answer is waited for. Of ours it always comes; of the other this is how long it was given.
const OURS: Duration = Duration::from_secs(60);
const THEIRS: Duration = Duration::from_secs(5);

/// How often a fault is injected into the other one.
const RUNS: u32 = 5;

/// What a run of one conductor showed, in the words of the table.
type Shown = Vec<String>;

/// One conductor with its components, and what its editor hears.
struct Scene {
    chain: TestChain,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    patience: Duration,
    last_id: u64,
    heard: Vec<Value>,
    session: String,
}

enum Told {
    Answer(Value),
    Nothing,
    End,
}

/// The two conductors.
#[derive(Clone, Copy, PartialEq)]
enum Which {
    Ours,
    Reference,
}

fn program(name: &str, arguments: &str) -> String {
    format!("{} {arguments}", quote(&binary(name).to_string_lossy()))
}

/// Three proxies and an agent with these options.
fn three(agent: &str) -> Vec<String> {
    let proxies = ["first", "second", "third"].map(|name| program("transparent", name));
    proxies.into_iter().chain([program("resumable_agent", agent)]).collect()
}

impl Scene {
    fn begin(which: Which, options: &[&str], components: &[String]) -> Scene {
        let (program, patience, options) = match which {
            Which::Ours => (ours(), OURS, options),
            Which::Reference => (peer("reference"), THEIRS, &[][..]),
        };
        let mut chain =
            TestChain::builder(program.trim_matches('\'')).option(options).run("agent", components);
        let (input, output) = (chain.editor.take_stdin(), chain.editor.take_stdout());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        let (heard, session) = (Vec::new(), String::new());
        Scene { chain, input: Some(input), lines, patience, last_id: 0, heard, session }
    }

    /// A chain that stands, with a session.
    fn set(which: Which, options: &[&str], components: &[String]) -> Scene {
        let mut scene = Scene::begin(which, options, components);
        let Told::Answer(_) = scene.greet() else { panic!("{}", scene.chain.conductor.stderr()) };
        let id = scene.ask("session/new", json!({ "cwd": "/", "mcpServers": [] }));
        let Told::Answer(answer) = scene.answer(id) else { panic!("a session") };
        scene.session = answer["result"]["sessionId"].as_str().expect("a session").to_owned();
        scene
    }

    fn greet(&mut self) -> Told {
        let id = self.ask("initialize", json!({ "protocolVersion": 1, "clientCapabilities": {} }));
        self.answer(id)
    }

    fn send(&mut self, message: Value) {
        // One that has ended reads no more; what comes of it is what the test looks at.
        let _ = self.input.as_mut().map(|it| writeln!(it, "{message}"));
    }

    fn ask(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        self.send(
            json!({ "jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params }),
        );
        self.last_id
    }

    fn prompt(&mut self, text: &str) -> u64 {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.ask("session/prompt", json!({ "sessionId": self.session, "prompt": prompt }))
    }

    fn answer(&mut self, id: u64) -> Told {
        let end = Instant::now() + self.patience;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    // What cannot be read here (depth, numbers) may be what is looked for.
                    let message = serde_json::from_str(&line).unwrap_or(Value::String(line));
                    if message["id"] == id && message.get("method").is_none() {
                        return Told::Answer(message);
                    }
                    self.heard.push(message);
                }
                Err(RecvTimeoutError::Timeout) => return Told::Nothing,
                Err(RecvTimeoutError::Disconnected) => return Told::End,
            }
        }
    }

    /// What the answer to a request is, in a few words.
    fn outcome(&mut self, id: u64) -> String {
        match self.answer(id) {
            Told::Nothing => format!("no answer within {} s", self.patience.as_secs()),
            Told::End => "no answer".to_owned(),
            Told::Answer(answer) => match answer["error"]["message"].as_str() {
                None => answer["result"]["stopReason"].as_str().unwrap_or("a result").to_owned(),
                Some(message) => {
                    let data = answer["error"]["data"].as_str().unwrap_or_default();
                    format!("error {}: {message} {data}", answer["error"]["code"])
                }
            },
        }
    }

    /// Does the chain go on?
    fn next_prompt(&mut self) -> String {
        let id = self.prompt("hello");
        let outcome = self.outcome(id);
        match outcome.as_str() {
            "end_turn" => "the next prompt is answered".to_owned(),
            _ if is_alive(self.chain.conductor.pid()) => format!("the next prompt: {outcome}"),
            _ => format!("conductor ends with status {}", self.chain.conductor.status()),
        }
    }

    /// The agent is at work on a prompt.
    fn in_flight(&mut self) -> u64 {
        let id = self.prompt("wait");
        let says = |it: &Value| it["params"]["update"]["content"]["text"] == "waiting";
        while !self.heard.iter().any(says) {
            let line = self.lines.recv_timeout(OURS).expect("the agent says that it waits");
            self.heard.push(parse(&line));
        }
        id
    }

    fn kill(&self, words: &str) {
        signal(self.chain.conductor.component_pid(words), libc::SIGKILL);
    }

    /// Which of these processes are left when the conductor has ended. The end of a process that is not our child is
    /// no event that a test could wait for, so it is polled.
    fn left_behind(&mut self, pids: &[u32]) -> String {
        let status = self.chain.conductor.status();
        let end = Instant::now() + THEIRS;
        while pids.iter().any(|pid| is_alive(*pid)) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(20));
        }
        let left: Vec<u32> = pids.iter().copied().filter(|pid| is_alive(*pid)).collect();
        left.iter().for_each(|pid| signal(*pid, libc::SIGKILL));
        let how =
            if status > 128 { "is killed".into() } else { format!("ends with status {status}") };
        format!("conductor {how}, {} of {} components stay behind", left.len(), pids.len())
    }
}

/// Injects a fault into both, and notes what the other one shows.
fn compare(fault: &str, inject: impl Fn(Which) -> Shown) -> Shown {
    let ours = inject(Which::Ours);
    if let Some(path) = std::env::var_os("FAULTS") {
        // Some of it is a race.
        let mut theirs: BTreeMap<String, u32> = BTreeMap::new();
        for _ in 0..RUNS {
            *theirs.entry(inject(Which::Reference).join("; ")).or_default() += 1;
        }
        let theirs: Vec<String> = theirs
            .into_iter()
            .map(|(shown, times)| format!("{times} of {RUNS}: {shown}"))
            .collect();
        let mut file =
            File::options().create(true).append(true).open(path).expect("FAULTS is a file");
        writeln!(file, "| {fault} | {} | {} |", ours.join("; "), theirs.join(" / "))
            .expect("a file");
    }
    ours
}

const NEXT: &str = "the next prompt is answered";

#[track_caller]
fn shows(shown: &Shown, expected: &[&str]) {
    let fits = shown.len() == expected.len()
        && shown.iter().zip(expected).all(|(it, part)| it.contains(part));
    assert!(fits, "{shown:#?} instead of {expected:#?}");
}

#[test]
fn a_killed_proxy_in_a_prompt() {
    let shown = compare("kill -9 of a proxy, prompt in flight", |which| {
        let mut scene = Scene::set(which, &[], &three(""));
        let id = scene.in_flight();
        scene.kill("transparent second");
        let session = scene.session.clone();
        scene.send(json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } }));
        vec![scene.outcome(id), scene.next_prompt()]
    });
    shows(&shown, &["cancelled", NEXT]);
}

#[test]
fn a_killed_agent_in_a_prompt() {
    let shown = compare("kill -9 of the agent, prompt in flight", |which| {
        let mut scene = Scene::set(which, &[], &three(""));
        let id = scene.in_flight();
        scene.kill("resumable_agent");
        vec![scene.outcome(id), scene.next_prompt()]
    });
    shows(&shown, &["agent 'resumable_agent'", NEXT]);
}

#[test]
fn an_agent_that_ends_in_a_prompt() {
    for status in [0, 3] {
        let shown = compare(&format!("agent ends with status {status} in a prompt"), |which| {
            let mut scene = Scene::set(which, &[], &three(""));
            let id = scene.prompt(&format!("exit {status}"));
            vec![scene.outcome(id), scene.next_prompt()]
        });
        shows(&shown, &[&format!("ended with status {status}"), NEXT]);
    }
}

#[test]
fn what_is_not_utf8() {
    let shown = compare("invalid UTF-8 from the agent", |which| {
        let mut scene = Scene::set(which, &[], &three(""));
        let id = scene.prompt("bytes");
        vec![scene.outcome(id), scene.next_prompt()]
    });
    shows(&shown, &["end_turn", NEXT]);
}

#[test]
fn a_command_that_is_not_there() {
    let shown = compare("command not found", |which| {
        let mut components = three("");
        components[3] = "no-such-agent".to_owned();
        let mut scene = Scene::begin(which, &[], &components);
        let id = scene.ask("initialize", json!({ "protocolVersion": 1, "clientCapabilities": {} }));
        vec![scene.outcome(id)]
    });
    assert!(
        shown[0].contains("agent 'no-such-agent'") && shown[0].contains("command not found"),
        "{shown:?}"
    );
}

#[test]
fn an_agent_that_never_answers_initialize() {
    let shown = compare("an agent that never answers initialize", |which| {
        let mut scene = Scene::begin(which, &["--init-timeout", "1"], &three("--mute"));
        let id = scene.ask("initialize", json!({ "protocolVersion": 1, "clientCapabilities": {} }));
        vec![scene.outcome(id)]
    });
    shows(&shown, &["did not answer initialize within 1 s"]);
}

fn ends(which: Which, end: i32) -> Shown {
    let components = ["--deaf a", "--deaf b"].map(|it| program("signal_ignoring_proxy", it));
    let components = components.into_iter().chain([program("resumable_agent", "--deaf")]);
    let components: Vec<String> = components.collect();
    let mut scene = Scene::set(which, &[], &components);
    let words =
        ["signal_ignoring_proxy --deaf a", "signal_ignoring_proxy --deaf b", "resumable_agent"];
    let pids = words.map(|it| scene.chain.conductor.component_pid(it));
    scene.chain.conductor.signal(end);
    vec![scene.left_behind(&pids)]
}

#[test]
fn a_conductor_that_is_asked_to_end_with_stubborn_components() {
    let shown = compare("SIGTERM, components ignore it and the end of their input", |which| {
        ends(which, libc::SIGTERM)
    });
    shows(&shown, &["ends with status 0, 0 of 3 components stay behind"]);
}

#[test]
fn a_conductor_that_is_killed_with_stubborn_components() {
    let shown = compare("SIGKILL of the conductor, the same components", |which| {
        ends(which, libc::SIGKILL)
    });
    shows(&shown, &["is killed, 0 of 3 components stay behind"]);
}

/// The most memory that the conductor has used, once its memory does not grow any more.
fn peak(scene: &Scene) -> u64 {
    testkit::test_chain::wait_until_idle(&[scene.chain.conductor.pid()]);
    memory(scene.chain.conductor.pid()).1 >> 10
}

#[test]
fn an_editor_that_does_not_read() {
    let shown = compare(
        "the editor does not read while the agent streams 200,000 updates",
        |which| {
            let (program, options) = match which {
                Which::Ours => (ours(), ["--grace", "0.5"].as_slice()),
                Which::Reference => (peer("reference"), [].as_slice()),
            };
            let components = three("");
            let mut chain = TestChain::builder(program.trim_matches('\''))
                .option(options)
                .run("agent", &components);
            let mut input = chain.editor.take_stdin();
            let mut output = BufReader::new(chain.editor.take_stdout());
            let mut ask = |message: Value| -> Value {
                writeln!(input, "{message}").expect("it reads");
                let mut line = String::new();
                output.read_line(&mut line).expect("a line");
                parse(&line)
            };
            ask(
                json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": { "protocolVersion": 1, "clientCapabilities": {} } }),
            );
            let session = ask(
                json!({ "jsonrpc": "2.0", "id": 2, "method": "session/new", "params": { "cwd": "/", "mcpServers": [] } }),
            );
            let params = json!({ "sessionId": session["result"]["sessionId"], "prompt": [{ "type": "text", "text": "stream 200000" }] });
            ask(json!({ "jsonrpc": "2.0", "id": 3, "method": "session/prompt", "params": params }));
            testkit::test_chain::wait_until_idle(&[chain.conductor.pid()]);
            vec![format!("conductor uses {} MiB", memory(chain.conductor.pid()).1 >> 10)]
        },
    );
    let peak: u64 = shown[0].split(' ').nth(2).and_then(|it| it.parse().ok()).expect("a number");
    assert!(peak < 64, "{shown:?}");
}

#[test]
fn a_giant_line() {
    const SIZE: usize = 64 << 20;
    let shown = compare("a line of 64 MiB from the agent", |which| {
        let mut scene = Scene::set(which, &[], &[program("resumable_agent", "")]);
        scene.patience = OURS;
        let id = scene.prompt(&format!("fill {SIZE}"));
        let outcome = scene.outcome(id);
        let length = |it: &Value| it["params"]["update"]["content"]["text"].as_str().map(str::len);
        let whole = scene.heard.iter().any(|it| length(it) == Some(SIZE));
        vec![
            outcome,
            format!("it {} the editor", if whole { "reaches" } else { "does not reach" }),
            format!("conductor uses {} MiB", peak(&scene)),
        ]
    });
    assert_eq!(shown[..2], ["end_turn", "it reaches the editor"]);
}

#[test]
fn what_is_nested_deeply() {
    let shown = compare("JSON nested 200 deep from the agent", |which| {
        let mut scene = Scene::set(which, &[], &three(""));
        let id = scene.prompt("nested 200");
        let outcome = scene.outcome(id);
        let arrives = scene.heard.iter().filter_map(Value::as_str).any(|it| it.contains("[[["));
        vec![
            outcome,
            format!("it {} the editor", if arrives { "reaches" } else { "does not reach" }),
        ]
    });
    shows(&shown, &["end_turn", "it reaches the editor"]);
}

#[test]
fn numbers_beyond_a_float() {
    let sent = "[123456789012345678901234567890,0.12345678901234567890123,1e400]";
    let shown = compare("numbers that need more than a float", |which| {
        let mut scene = Scene::set(which, &[], &three(""));
        let id = scene.prompt("numbers");
        let outcome = scene.outcome(id);
        let changed = scene.heard.iter().any(|it| it["params"]["update"].get("numbers").is_some());
        let whole = scene.heard.iter().filter_map(Value::as_str).any(|it| it.contains(sent));
        let seen = match (whole, changed) {
            (true, _) => "they reach the editor as they are",
            (false, true) => "they reach the editor changed",
            (false, false) => "they do not reach the editor",
        };
        let seen = vec![outcome, seen.to_owned()];
        seen
    });
    shows(&shown, &["end_turn", "as they are"]);
}

#[test]
fn a_killed_provider_of_tools() {
    let shown = compare("kill -9 of a proxy that offers an MCP server", |which| {
        let components = [program("word_count_proxy", ""), program("resumable_agent", "")];
        let mut scene = Scene::set(which, &[], &components);
        let id = scene.prompt("tool one two");
        let before = scene.outcome(id);
        scene.kill("word_count_proxy");
        let said = |scene: &Scene, text: &str| {
            scene.heard.iter().any(|it| it["params"]["update"]["content"]["text"] == text)
        };
        assert!(before != "end_turn" || said(&scene, "2 words"), "{before}");
        let id = scene.prompt("tool one two three");
        let mut outcome = scene.outcome(id);
        if outcome == "end_turn" && !said(&scene, "3 words") {
            outcome = "the call fails".to_owned();
        }
        let id = scene.prompt("tool one two three four");
        let next = scene.outcome(id);
        let works = next == "end_turn" && said(&scene, "4 words");
        vec![
            outcome,
            if works { "the next call works".into() } else { format!("the next call: {next}") },
        ]
    });
    assert_eq!(shown[1], "the next call works");
}
