//! One fault at a time, in this conductor and in the reference conductor, with the same components. The tests
//! check what the editor of this conductor sees. What the editor of the other one sees is only recorded, for
//! the table in `docs/reliability.md`:
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

use crate::{own_conductor, peer};

/// The timeout for an answer. This conductor always answers; the reference conductor gets this much time.
const TIMEOUT: Duration = Duration::from_secs(60);
const REFERENCE_TIMEOUT: Duration = Duration::from_secs(5);

/// How often a fault is injected into the reference conductor.
const RUNS: u32 = 5;

/// What a run of one conductor showed, in the words of the table.
type Observed = Vec<String>;

/// One conductor with its components, and what its editor received.
struct FaultRun {
    chain: TestChain,
    input: Option<ChildStdin>,
    lines: Receiver<String>,
    timeout: Duration,
    last_id: u64,
    received: Vec<Value>,
    session: String,
}

enum Reply {
    Answer(Value),
    Nothing,
    End,
}

/// The two conductors.
#[derive(Clone, Copy, PartialEq)]
enum Conductor {
    This,
    Reference,
}

fn program(name: &str, arguments: &str) -> String {
    format!("{} {arguments}", quote(&binary(name).to_string_lossy()))
}

/// Three proxies, and an agent with these options.
fn three_proxies_and_agent(agent: &str) -> Vec<String> {
    let proxies = ["first", "second", "third"].map(|name| program("transparent", name));
    proxies.into_iter().chain([program("resumable_agent", agent)]).collect()
}

impl FaultRun {
    fn start(conductor: Conductor, options: &[&str], components: &[String]) -> FaultRun {
        let (program, timeout, options) = match conductor {
            Conductor::This => (own_conductor(), TIMEOUT, options),
            Conductor::Reference => (peer("reference"), REFERENCE_TIMEOUT, &[][..]),
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
        let (received, session) = (Vec::new(), String::new());
        FaultRun { chain, input: Some(input), lines, timeout, last_id: 0, received, session }
    }

    /// Starts a chain and sets up a session.
    fn with_session(conductor: Conductor, options: &[&str], components: &[String]) -> FaultRun {
        let mut run = FaultRun::start(conductor, options, components);
        let Reply::Answer(_) = run.initialize() else {
            panic!("{}", run.chain.conductor.stderr_so_far())
        };
        let id = run.request("session/new", json!({ "cwd": "/", "mcpServers": [] }));
        let Reply::Answer(answer) = run.answer(id) else { panic!("a session") };
        run.session = answer["result"]["sessionId"].as_str().expect("a session").to_owned();
        run
    }

    fn initialize(&mut self) -> Reply {
        let id =
            self.request("initialize", json!({ "protocolVersion": 1, "clientCapabilities": {} }));
        self.answer(id)
    }

    fn send(&mut self, message: Value) {
        // A conductor that has ended no longer reads. The test looks at the result.
        let _ = self.input.as_mut().map(|it| writeln!(it, "{message}"));
    }

    fn request(&mut self, method: &str, params: Value) -> u64 {
        self.last_id += 1;
        self.send(
            json!({ "jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params }),
        );
        self.last_id
    }

    fn prompt(&mut self, text: &str) -> u64 {
        let prompt = json!([{ "type": "text", "text": text }]);
        self.request("session/prompt", json!({ "sessionId": self.session, "prompt": prompt }))
    }

    fn answer(&mut self, id: u64) -> Reply {
        let end = Instant::now() + self.timeout;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) => {
                    // A line that cannot be parsed here (depth, numbers) may be the expected one.
                    let message = serde_json::from_str(&line).unwrap_or(Value::String(line));
                    if message["id"] == id && message.get("method").is_none() {
                        return Reply::Answer(message);
                    }
                    self.received.push(message);
                }
                Err(RecvTimeoutError::Timeout) => return Reply::Nothing,
                Err(RecvTimeoutError::Disconnected) => return Reply::End,
            }
        }
    }

    /// The outcome of a request, in a few words.
    fn outcome(&mut self, id: u64) -> String {
        match self.answer(id) {
            Reply::Nothing => format!("no answer within {} s", self.timeout.as_secs()),
            Reply::End => "no answer".to_owned(),
            Reply::Answer(answer) => match answer["error"]["message"].as_str() {
                None => answer["result"]["stopReason"].as_str().unwrap_or("a result").to_owned(),
                Some(message) => {
                    let data = answer["error"]["data"].as_str().unwrap_or_default();
                    format!("error {}: {message} {data}", answer["error"]["code"])
                }
            },
        }
    }

    /// Whether the chain still works.
    fn next_prompt(&mut self) -> String {
        let id = self.prompt("hello");
        let outcome = self.outcome(id);
        match outcome.as_str() {
            "end_turn" => "the next prompt is answered".to_owned(),
            _ if is_alive(self.chain.conductor.pid()) => format!("the next prompt: {outcome}"),
            _ => format!("conductor ends with status {}", self.chain.conductor.status()),
        }
    }

    /// Starts a prompt and waits until the agent works on it.
    fn start_waiting_prompt(&mut self) -> u64 {
        let id = self.prompt("wait");
        let is_waiting = |it: &Value| it["params"]["update"]["content"]["text"] == "waiting";
        while !self.received.iter().any(is_waiting) {
            let line = self.lines.recv_timeout(TIMEOUT).expect("the agent reports that it waits");
            self.received.push(parse(&line));
        }
        id
    }

    fn kill(&self, words: &str) {
        signal(self.chain.conductor.component_pid(words), libc::SIGKILL);
    }

    /// Waits for the end of the conductor and counts which of these processes stay behind. They are not children
    /// of the test, so their end is polled.
    fn count_left_behind(&mut self, pids: &[u32]) -> String {
        let status = self.chain.conductor.status();
        let end = Instant::now() + REFERENCE_TIMEOUT;
        while pids.iter().any(|pid| is_alive(*pid)) && Instant::now() < end {
            // Timing: the end of another process is not an event.
            std::thread::sleep(Duration::from_millis(20));
        }
        let left: Vec<u32> = pids.iter().copied().filter(|pid| is_alive(*pid)).collect();
        left.iter().for_each(|pid| signal(*pid, libc::SIGKILL));
        let how =
            if status > 128 { "is killed".into() } else { format!("ends with status {status}") };
        format!("conductor {how}, {} of {} components stay behind", left.len(), pids.len())
    }
}

/// Injects a fault into both conductors. Returns what this one shows, and records what the other one shows.
fn compare(fault: &str, inject: impl Fn(Conductor) -> Observed) -> Observed {
    let own = inject(Conductor::This);
    if let Some(path) = std::env::var_os("FAULTS") {
        // Some of the outcomes depend on timing.
        let mut reference: BTreeMap<String, u32> = BTreeMap::new();
        for _ in 0..RUNS {
            *reference.entry(inject(Conductor::Reference).join("; ")).or_default() += 1;
        }
        let reference: Vec<String> = reference
            .into_iter()
            .map(|(observed, times)| format!("{times} of {RUNS}: {observed}"))
            .collect();
        let mut file =
            File::options().create(true).append(true).open(path).expect("FAULTS is a file");
        writeln!(file, "| {fault} | {} | {} |", own.join("; "), reference.join(" / "))
            .expect("a file");
    }
    own
}

const NEXT: &str = "the next prompt is answered";

#[track_caller]
fn assert_observed(observed: &Observed, expected: &[&str]) {
    let fits = observed.len() == expected.len()
        && observed.iter().zip(expected).all(|(it, part)| it.contains(part));
    assert!(fits, "{observed:#?} instead of {expected:#?}");
}

#[test]
fn a_prompt_is_answered_after_a_proxy_is_killed() {
    let observed = compare("kill -9 of a proxy, prompt in flight", |conductor| {
        let mut run = FaultRun::with_session(conductor, &[], &three_proxies_and_agent(""));
        let id = run.start_waiting_prompt();
        run.kill("transparent second");
        let session = run.session.clone();
        run.send(json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } }));
        vec![run.outcome(id), run.next_prompt()]
    });
    assert_observed(&observed, &["cancelled", NEXT]);
}

#[test]
fn a_prompt_gets_an_error_after_the_agent_is_killed() {
    let observed = compare("kill -9 of the agent, prompt in flight", |conductor| {
        let mut run = FaultRun::with_session(conductor, &[], &three_proxies_and_agent(""));
        let id = run.start_waiting_prompt();
        run.kill("resumable_agent");
        vec![run.outcome(id), run.next_prompt()]
    });
    assert_observed(&observed, &["agent 'resumable_agent'", NEXT]);
}

#[test]
fn a_prompt_gets_an_error_after_the_agent_exits() {
    for status in [0, 3] {
        let observed =
            compare(&format!("agent ends with status {status} in a prompt"), |conductor| {
                let mut run = FaultRun::with_session(conductor, &[], &three_proxies_and_agent(""));
                let id = run.prompt(&format!("exit {status}"));
                vec![run.outcome(id), run.next_prompt()]
            });
        assert_observed(&observed, &[&format!("exited with status {status}"), NEXT]);
    }
}

#[test]
fn invalid_utf_8_does_not_break_the_chain() {
    let observed = compare("invalid UTF-8 from the agent", |conductor| {
        let mut run = FaultRun::with_session(conductor, &[], &three_proxies_and_agent(""));
        let id = run.prompt("bytes");
        vec![run.outcome(id), run.next_prompt()]
    });
    assert_observed(&observed, &["end_turn", NEXT]);
}

#[test]
fn a_missing_command_is_reported() {
    let observed = compare("command not found", |conductor| {
        let mut components = three_proxies_and_agent("");
        components[3] = "no-such-agent".to_owned();
        let mut run = FaultRun::start(conductor, &[], &components);
        let id =
            run.request("initialize", json!({ "protocolVersion": 1, "clientCapabilities": {} }));
        vec![run.outcome(id)]
    });
    assert!(
        observed[0].contains("agent 'no-such-agent'") && observed[0].contains("command not found"),
        "{observed:?}"
    );
}

#[test]
fn a_silent_agent_is_reported_after_the_timeout() {
    let observed = compare("an agent that never answers initialize", |conductor| {
        let mut run = FaultRun::start(
            conductor,
            &["--init-timeout", "1"],
            &three_proxies_and_agent("--mute"),
        );
        let id =
            run.request("initialize", json!({ "protocolVersion": 1, "clientCapabilities": {} }));
        vec![run.outcome(id)]
    });
    assert_observed(&observed, &["did not answer initialize within 1 s"]);
}

fn end_with_components_that_ignore_signals(conductor: Conductor, end: i32) -> Observed {
    let components = ["--deaf a", "--deaf b"].map(|it| program("signal_ignoring_proxy", it));
    let components = components.into_iter().chain([program("resumable_agent", "--deaf")]);
    let components: Vec<String> = components.collect();
    let mut run = FaultRun::with_session(conductor, &[], &components);
    let words =
        ["signal_ignoring_proxy --deaf a", "signal_ignoring_proxy --deaf b", "resumable_agent"];
    let pids = words.map(|it| run.chain.conductor.component_pid(it));
    run.chain.conductor.signal(end);
    vec![run.count_left_behind(&pids)]
}

#[test]
fn components_that_ignore_sigterm_end_with_the_conductor() {
    let observed =
        compare("SIGTERM, components ignore it and the end of their input", |conductor| {
            end_with_components_that_ignore_signals(conductor, libc::SIGTERM)
        });
    assert_observed(&observed, &["ends with status 0, 0 of 3 components stay behind"]);
}

#[test]
fn components_that_ignore_sigterm_end_with_a_killed_conductor() {
    let observed = compare("SIGKILL of the conductor, the same components", |conductor| {
        end_with_components_that_ignore_signals(conductor, libc::SIGKILL)
    });
    assert_observed(&observed, &["is killed, 0 of 3 components stay behind"]);
}

/// The peak memory of the conductor, in MiB, after its memory has stopped growing.
fn peak(run: &FaultRun) -> u64 {
    testkit::test_chain::wait_until_idle(&[run.chain.conductor.pid()]);
    memory(run.chain.conductor.pid()).1 >> 10
}

#[test]
fn memory_stays_small_when_the_editor_does_not_read() {
    let observed = compare(
        "the editor does not read while the agent streams 200,000 updates",
        |conductor| {
            let (program, options) = match conductor {
                Conductor::This => (own_conductor(), ["--grace", "0.5"].as_slice()),
                Conductor::Reference => (peer("reference"), [].as_slice()),
            };
            let components = three_proxies_and_agent("");
            let mut chain = TestChain::builder(program.trim_matches('\''))
                .option(options)
                .run("agent", &components);
            let mut input = chain.editor.take_stdin();
            let mut output = BufReader::new(chain.editor.take_stdout());
            let mut ask = |message: Value| -> Value {
                writeln!(input, "{message}").expect("a reader");
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
    let peak: u64 = observed[0].split(' ').nth(2).and_then(|it| it.parse().ok()).expect("a number");
    assert!(peak < 64, "{observed:?}");
}

#[test]
fn a_line_of_64_mib_reaches_the_editor() {
    const SIZE: usize = 64 << 20;
    let observed = compare("a line of 64 MiB from the agent", |conductor| {
        let mut run = FaultRun::with_session(conductor, &[], &[program("resumable_agent", "")]);
        run.timeout = TIMEOUT;
        let id = run.prompt(&format!("fill {SIZE}"));
        let outcome = run.outcome(id);
        let length = |it: &Value| it["params"]["update"]["content"]["text"].as_str().map(str::len);
        let whole = run.received.iter().any(|it| length(it) == Some(SIZE));
        vec![
            outcome,
            format!("it {} the editor", if whole { "reaches" } else { "does not reach" }),
            format!("conductor uses {} MiB", peak(&run)),
        ]
    });
    assert_eq!(observed[..2], ["end_turn", "it reaches the editor"]);
}

#[test]
fn json_nested_200_deep_reaches_the_editor() {
    let observed = compare("JSON nested 200 deep from the agent", |conductor| {
        let mut run = FaultRun::with_session(conductor, &[], &three_proxies_and_agent(""));
        let id = run.prompt("nested 200");
        let outcome = run.outcome(id);
        let arrives = run.received.iter().filter_map(Value::as_str).any(|it| it.contains("[[["));
        vec![
            outcome,
            format!("it {} the editor", if arrives { "reaches" } else { "does not reach" }),
        ]
    });
    assert_observed(&observed, &["end_turn", "it reaches the editor"]);
}

#[test]
fn numbers_beyond_a_float_reach_the_editor_unchanged() {
    let sent = "[123456789012345678901234567890,0.12345678901234567890123,1e400]";
    let observed = compare("numbers that need more than a float", |conductor| {
        let mut run = FaultRun::with_session(conductor, &[], &three_proxies_and_agent(""));
        let id = run.prompt("numbers");
        let outcome = run.outcome(id);
        let changed = run.received.iter().any(|it| it["params"]["update"].get("numbers").is_some());
        let whole = run.received.iter().filter_map(Value::as_str).any(|it| it.contains(sent));
        let seen = match (whole, changed) {
            (true, _) => "they reach the editor as they are",
            (false, true) => "they reach the editor changed",
            (false, false) => "they do not reach the editor",
        };
        let seen = vec![outcome, seen.to_owned()];
        seen
    });
    assert_observed(&observed, &["end_turn", "as they are"]);
}

#[test]
fn the_tools_of_a_killed_provider_work_again() {
    let observed = compare("kill -9 of a proxy that offers an MCP server", |conductor| {
        let components = [program("word_count_proxy", ""), program("resumable_agent", "")];
        let mut run = FaultRun::with_session(conductor, &[], &components);
        let id = run.prompt("tool one two");
        let before = run.outcome(id);
        run.kill("word_count_proxy");
        let has_text = |run: &FaultRun, text: &str| {
            run.received.iter().any(|it| it["params"]["update"]["content"]["text"] == text)
        };
        assert!(before != "end_turn" || has_text(&run, "2 words"), "{before}");
        let id = run.prompt("tool one two three");
        let mut outcome = run.outcome(id);
        if outcome == "end_turn" && !has_text(&run, "3 words") {
            outcome = "the call fails".to_owned();
        }
        let id = run.prompt("tool one two three four");
        let next = run.outcome(id);
        let works = next == "end_turn" && has_text(&run, "4 words");
        vec![
            outcome,
            if works { "the next call works".into() } else { format!("the next call: {next}") },
        ]
    });
    assert_eq!(observed[1], "the next call works");
}
