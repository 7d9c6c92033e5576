//! A component that does not read pauses the components that write to it, and no others. Memory stays bounded,
//! no message is lost, and nothing deadlocks. A line may be long, up to the limit.

use std::io::Write;
use std::process::ChildStdin;

use serde_json::json;
use testkit::numbered_lines::{NumberedLines, SequenceCheck};
use testkit::rpc::{id_of, notification, request, result, wrapped_notification};
use testkit::stub::{Lines, lines};
use testkit::test_chain::{
    ScriptedComponent, TestChain, TestChainBuilder, binary, memory, release_binary,
    wait_until_idle, with_timeout,
};

const MIB: usize = 1024 * 1024;

/// The memory that the conductor may use, in MiB.
const MEMORY_LIMIT: u64 = 64;

/// A release build with `counting_agent` as its agent. The editor's end is a pair of bare pipes, so what the test does
/// not read stays in the chain.
struct Flow {
    chain: TestChain,
    input: Option<ChildStdin>,
    output: Option<Lines>,
    check: SequenceCheck,
}

impl Flow {
    fn start(proxies: &[String]) -> Flow {
        let agent = format!("'{}'", binary("counting_agent").display());
        let components = [proxies, &[agent]].concat();
        let mut chain = TestChain::builder(release_binary("conductor")).run("agent", &components);
        let input = Some(chain.editor.take_stdin());
        let output = Some(Lines::new(chain.editor.take_stdout()));
        let mut flow = Flow { chain, input, output, check: SequenceCheck::default() };
        flow.send(&request("0", "initialize", r#"{"protocolVersion":1}"#));
        let agent_result =
            r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"acp":true}}}"#;
        assert_eq!(flow.answer(), result("0", agent_result));
        flow
    }

    fn send(&mut self, line: &str) {
        self.write(format!("{line}\n").into_bytes());
    }

    /// Writes this without reading anything.
    fn write(&mut self, bytes: Vec<u8>) {
        let mut input = self.input.take().expect("nobody else writes");
        self.input = Some(with_timeout("the editor writes", move || {
            input.write_all(&bytes).expect("the conductor reads");
            input
        }));
    }

    /// Reads until a line that is not numbered, which is an answer.
    fn answer(&mut self) -> String {
        let mut output = self.output.take().expect("nobody else reads");
        let mut check = std::mem::take(&mut self.check);
        let answer;
        (self.output, self.check, answer) = with_timeout("the editor reads", move || {
            loop {
                let batch = output.batch().expect("a pipe").expect("the conductor runs");
                let (numbered, others): (Vec<_>, Vec<_>) =
                    lines(batch).partition(|line| NumberedLines::is(line));
                numbered.into_iter().for_each(|line| check.line(line));
                if let Some(line) = others.first() {
                    let answer = String::from_utf8_lossy(line).into_owned();
                    return (Some(output), check, answer);
                }
            }
        });
        answer
    }

    /// Waits until the conductor and the agent are idle.
    fn wait_for_rest(&self) {
        wait_until_idle(&[self.chain.conductor.pid(), self.agent()]);
    }

    fn agent(&self) -> u32 {
        self.chain.conductor.component_pid("counting_agent")
    }

    /// Checks that all lines of the agent's flood have arrived.
    fn check_flood(&mut self, count: u64) {
        assert_eq!(self.answer(), result("1", "null"));
        assert_eq!((self.check.count, self.check.wrong.take()), (count, None));
    }

    /// Checks that the agent has received all lines.
    fn check_tally(&mut self, count: u64) {
        self.send(&request("2", "_tally", ""));
        assert_eq!(self.answer(), result("2", &format!(r#"{{"count":{count},"wrong":null}}"#)));
    }
}

/// Checks the peak memory of the conductor.
fn check_memory(chain: &TestChain, mebibytes: u64) {
    check_memory_of(chain.conductor.pid(), mebibytes);
}

fn check_memory_of(pid: u32, mebibytes: u64) {
    let (_, peak) = memory(pid);
    assert!(peak < mebibytes << 10, "the conductor used {} MiB", peak >> 10);
}

/// Numbered lines, in one buffer.
fn numbered(count: u64, size: usize) -> Vec<u8> {
    let mut numbered = NumberedLines::new(size);
    (0..count).flat_map(|n| numbered.line(n).to_vec()).collect()
}

fn transparent() -> String {
    format!("'{}'", release_binary("transparent").display())
}

fn flood(count: u64, size: usize) -> String {
    request("1", "_flood", &format!("[{count},{size}]"))
}

fn check_stalled_editor(proxies: &[String], count: u64) {
    let mut flow = Flow::start(proxies);
    flow.send(&flood(count, 200));
    flow.wait_for_rest();
    check_memory(&flow.chain, MEMORY_LIMIT);
    flow.check_flood(count);
    check_memory(&flow.chain, MEMORY_LIMIT);
}

#[test]
fn an_editor_that_does_not_read_pauses_the_agent() {
    check_stalled_editor(&[], 2_000_000);
}

#[test]
fn an_editor_that_does_not_read_pauses_the_whole_chain() {
    check_stalled_editor(&[transparent(), transparent()], 500_000);
}

/// Also in a nested chain, which reaches the editor and the agent through one pipe.
#[test]
fn an_editor_that_does_not_read_pauses_a_nested_chain() {
    for proxies in [vec![], vec![transparent()]] {
        let inner = TestChain::builder(release_binary("conductor")).subchain(&proxies);
        let mut flow = Flow::start(&[inner]);
        flow.send(&flood(500_000, 600));
        let inner = flow.chain.conductor.component_pid("conductor proxy");
        wait_until_idle(&[flow.chain.conductor.pid(), flow.agent(), inner]);
        flow.check_flood(500_000);
        check_memory(&flow.chain, MEMORY_LIMIT);
        check_memory_of(inner, MEMORY_LIMIT);
    }
}

fn check_stopped_agent(proxies: &[String], count: u64, size: usize) {
    let mut flow = Flow::start(proxies);
    let agent = flow.agent();
    signal(agent, libc::SIGSTOP);
    let mut input = flow.input.take().expect("nobody else writes");
    let writer = std::thread::spawn(move || {
        let mut numbered = NumberedLines::new(size);
        for n in 0..count {
            input.write_all(numbered.line(n)).expect("the conductor reads");
        }
        input
    });
    flow.wait_for_rest();
    check_memory(&flow.chain, MEMORY_LIMIT);
    signal(agent, libc::SIGCONT);
    flow.input = Some(with_timeout("the editor writes", || writer.join().expect("no panic")));
    flow.check_tally(count);
    check_memory(&flow.chain, MEMORY_LIMIT);
}

fn signal(pid: u32, signal: i32) {
    // SAFETY: sends a signal to a component of this test.
    unsafe { libc::kill(pid as i32, signal) };
}

#[test]
fn a_stopped_agent_pauses_the_editor() {
    check_stopped_agent(&[], 30_000, 10_000);
}

#[test]
fn a_stopped_agent_pauses_the_whole_chain() {
    check_stopped_agent(&[transparent(), transparent()], 100_000, 1000);
}

/// Neither end reads before it has written everything. No sender can be paused, so the conductor buffers.
fn check_both_flood(proxies: &[String]) {
    const COUNT: u64 = 32 * 1024;
    let mut flow = Flow::start(proxies);
    flow.send(&flood(COUNT, 1024));
    flow.write(numbered(COUNT, 1024));
    flow.check_flood(COUNT);
    flow.check_tally(COUNT);
    check_memory(&flow.chain, 3 * MEMORY_LIMIT);
}

#[test]
fn two_ends_that_flood_each_other_do_not_deadlock() {
    check_both_flood(&[]);
}

#[test]
fn a_proxy_between_two_ends_that_flood_each_other_does_not_deadlock() {
    check_both_flood(&[transparent()]);
}

#[test]
fn a_nested_chain_between_two_ends_that_flood_each_other_does_not_deadlock() {
    for proxies in [vec![], vec![transparent()]] {
        check_both_flood(&[TestChain::builder(release_binary("conductor")).subchain(&proxies)]);
    }
}

/// A debug build with scripted components.
fn new_setup() -> TestChainBuilder {
    TestChain::builder(env!("CARGO_BIN_EXE_conductor"))
}

fn start_with_proxy(setup: TestChainBuilder) -> (TestChain, ScriptedComponent, ScriptedComponent) {
    let names = ["proxy", "agent"];
    let mut chain = setup.run_agent(&names);
    let [proxy, agent] = chain.initialize(&names).try_into().expect("two components");
    (chain, proxy, agent)
}

/// The proxy floods the editor while both its neighbours fill its input.
#[test]
fn a_proxy_that_writes_without_reading_does_not_deadlock() {
    const COUNT: u64 = 3000;
    const SIZE: usize = 1000;
    let (mut chain, mut proxy, mut agent) = start_with_proxy(new_setup());
    proxy.execute(json!({"read": false}));
    proxy.execute(
        json!({"repeat": r#"{"jsonrpc":"2.0","method":"up","params":[{n}]}"#, "count": COUNT * 10}),
    );
    let from_agent = notification("_agent", &format!(r#"["{{n}}","{}"]"#, "x".repeat(SIZE)));
    agent.execute(json!({"repeat": from_agent, "count": COUNT}));
    let mut input = chain.editor.take_stdin();
    // The thread returns the pipe, because the chain ends when it is closed.
    let writer = std::thread::spawn(move || {
        input.write_all(&numbered(COUNT, SIZE)).expect("the conductor reads");
        input
    });
    for n in 0..COUNT * 10 {
        assert_eq!(chain.editor.line(), notification("up", &format!("[{n}]")));
    }
    proxy.execute(json!({"read": true}));
    let (mut from_editor, mut from_agent) = (SequenceCheck::default(), 0);
    while from_editor.count + from_agent < 2 * COUNT {
        let line = proxy.line();
        if NumberedLines::is(line.as_bytes()) {
            from_editor.line(line.as_bytes());
        } else {
            assert!(line.contains(&format!(r#""params":["{from_agent}""#)), "{line}");
            from_agent += 1;
        }
    }
    assert_eq!(from_editor.wrong, None);
    drop(writer.join().expect("no panic"));
}

/// Checklist 56.
#[test]
fn a_line_of_five_megabytes_passes() {
    let (mut chain, mut proxy, _agent) = start_with_proxy(new_setup());
    let params = format!(r#"["{}"]"#, "é".repeat(2_500_000));
    chain.editor.send(&notification("m", &params));
    assert!(proxy.line() == notification("m", &params));
    proxy.send(&notification("m", &params));
    assert!(chain.editor.line() == notification("m", &params));
}

#[test]
fn a_line_of_64_mib_passes_both_ways() {
    let mut flow = Flow::start(&[transparent()]);
    flow.send(&flood(1, 64 * MIB));
    flow.check_flood(1);
    flow.write(numbered(1, 64 * MIB));
    flow.check_tally(1);
}

const LIMIT: usize = MIB;

/// A chain with a limit of one mebibyte for a line.
fn start_limited() -> (TestChain, ScriptedComponent, ScriptedComponent) {
    start_with_proxy(new_setup().option(&["--max-line", "1M"]))
}

/// A line of exactly this length.
fn with_length(length: usize, line: impl Fn(&str) -> String) -> String {
    let missing = length - line("").len();
    line(&"x".repeat(missing))
}

#[test]
fn a_line_may_be_as_long_as_the_limit() {
    let (mut chain, mut proxy, _agent) = start_limited();
    let line = with_length(LIMIT, |text| notification("m", &format!(r#"["{text}"]"#)));
    chain.editor.send(&line);
    assert!(proxy.line() == line);
    let line = with_length(LIMIT + 1, |text| notification("m", &format!(r#"["{text}"]"#)));
    chain.editor.send(&line);
    assert_eq!(chain.editor.message()["id"], json!(null));
}

/// Checks that a line is the error for a line that is too long. It names the sender and the option.
#[track_caller]
fn assert_too_long(line: &str, id: &str, code: i64, sender: &str) {
    let start = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{sender} sent a line of "#
    );
    assert!(line.starts_with(&start) && line.contains("--max-line"), "{line:.300}");
}

#[test]
fn lines_of_the_editor_over_the_limit_are_refused_under_their_id() {
    let (mut chain, mut proxy, _agent) = start_limited();
    let long = "x".repeat(LIMIT + 1);
    let value = format!(r#"["{long}"]"#);
    let strange = format!(r#"{{"jsonrpc":"2.0","{long}":1,"id":1,"method":"m"}}"#);
    for (line, id) in [
        (request("\"\\u0041\"", "m", &value), "\"\\u0041\""),
        (format!(r#"{{"method":"m","id":7,"params":{value}}}"#), "7"),
        (format!(r#"{{"id":8,"params":{value},"method":"m"}}"#), "8"),
        (notification("m", &value), "null"),
        (strange, "1"),
        (long.clone(), "null"),
        (format!("[{value}]"), "null"),
    ] {
        chain.editor.send(&line);
        assert_too_long(&chain.editor.line(), id, -32600, "the editor");
        chain.editor.send(&notification("next", ""));
        assert_eq!(proxy.line(), notification("next", ""));
    }
}

#[test]
fn lines_of_a_component_over_the_limit_leave_no_request_unanswered() {
    let (mut chain, mut proxy, mut agent) = start_limited();
    let value = format!(r#"["{}"]"#, "x".repeat(LIMIT));
    // An answer: the requester gets an error.
    chain.editor.send(&request("\"q\"", "m", ""));
    let received = proxy.line();
    proxy.send(&result(id_of(&received), &value));
    assert_too_long(&chain.editor.line(), "\"q\"", -32603, "proxy 'scripted'");
    // Wherever the id is.
    for line in [
        r#"{"jsonrpc":"2.0","result":VALUE,"id":ID}"#,
        r#"{"jsonrpc":"2.0","result":VALUE,"id":ID,"more":VALUE}"#,
        r#"{"result":{"id":1,"text":"\"id\":2","more":VALUE},"id":ID,"error":null}"#,
        r#"{"result":VALUE,"broken":[,],"id":ID}"#,
        r#"[{"result":VALUE,"id":ID}]"#,
        // The id is missing, but only one request is open.
        r#"{"jsonrpc":"2.0","result":"no end VALUE"#,
    ] {
        chain.editor.send(&request("\"q\"", "m", ""));
        let received = proxy.line();
        proxy.send(&line.replace("VALUE", &value).replace("ID", id_of(&received)));
        assert_too_long(&chain.editor.line(), "\"q\"", -32603, "proxy 'scripted'");
    }
    // The same for an answer of the editor.
    proxy.send(&request("9", "m", ""));
    let received = chain.editor.line();
    chain.editor.send(&format!(r#"{{"result":{value},"id":{}}}"#, id_of(&received)));
    assert_too_long(&proxy.line(), "9", -32603, "the editor");
    // A request: its sender gets an error.
    agent.send(&request("5", "m", &value));
    assert_too_long(&agent.line(), "5", -32600, "agent 'scripted#2'");
    // A notification: its sender gets an error without an id.
    agent.send(&notification("m", &value));
    assert_too_long(&agent.line(), "null", -32600, "agent 'scripted#2'");
    agent.send(&notification("next", ""));
    assert_eq!(proxy.line(), wrapped_notification("next", ""));
    proxy.send(&notification("next", ""));
    assert_eq!(chain.editor.line(), notification("next", ""));
}

/// 300 MB without a newline are discarded as they arrive.
#[test]
fn an_endless_line_uses_no_memory() {
    const LENGTH: usize = 300_000_000;
    let setup = TestChain::builder(release_binary("conductor")).option(&["--max-line", "1M"]);
    let (mut chain, mut proxy, mut agent) = start_with_proxy(setup);
    chain.editor.write(br#"{"jsonrpc":"2.0","id":1,"method":"m","params":[""#);
    let piece = vec![b'x'; MIB];
    for _ in 0..LENGTH / MIB {
        chain.editor.write(&piece);
    }
    chain.editor.send(r#""]}"#);
    assert_too_long(&chain.editor.line(), "1", -32600, "the editor");

    agent.execute(json!({"out": r#"{"jsonrpc":"2.0","id":2,"method":"m","params":[""#}));
    agent.execute(json!({"fill": "x", "bytes": LENGTH}));
    agent.send(r#""]}"#);
    assert_too_long(&agent.line(), "2", -32600, "agent 'scripted#2'");

    agent.send(&notification("next", ""));
    assert_eq!(proxy.line(), wrapped_notification("next", ""));

    // An answer with its id at the end.
    chain.editor.send(&request("3", "m", ""));
    let received = proxy.line();
    proxy.execute(json!({"out": r#"{"jsonrpc":"2.0","result":[""#}));
    proxy.execute(json!({"fill": "x", "bytes": LENGTH}));
    proxy.send(&format!(r#""],"id":{}}}"#, id_of(&received)));
    assert_too_long(&chain.editor.line(), "3", -32603, "proxy 'scripted'");
    check_memory(&chain, MEMORY_LIMIT);
}

/// The kernel limits the total size of pipes of a user.
#[cfg(target_os = "linux")]
#[test]
fn a_long_chain_enlarges_only_some_of_its_pipes() {
    let names: Vec<String> = (1..=12).map(|number| format!("p{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut chain = new_setup().run_named(&names);
    chain.initialize(&names);
    let descriptors = format!("/proc/{}/fd", chain.conductor.pid());
    let files = std::fs::read_dir(descriptors).expect("it runs").flatten().map(|it| it.path());
    // A pipe may have several descriptors.
    let pipes: std::collections::BTreeMap<_, _> = files
        .filter_map(|path| Some((std::fs::read_link(&path).ok()?, path)))
        .filter(|(target, _)| target.to_string_lossy().starts_with("pipe:"))
        .collect();
    let size = |path: &std::path::PathBuf| {
        let open = |write: bool| std::fs::File::options().read(!write).write(write).open(path);
        rustix::pipe::fcntl_getpipe_size(open(false).or_else(|_| open(true)).ok()?).ok()
    };
    let sizes: Vec<usize> = pipes.values().filter_map(size).collect();
    assert!(sizes.len() > 2 * names.len(), "{sizes:?}");
    let default_size = 64 * 1024;
    let beyond: usize = sizes.iter().map(|size| size.saturating_sub(default_size)).sum();
    assert!(beyond <= 4 * 1024 * 1024, "{sizes:?}");
}
