//! The life cycle of component processes: process groups, signals, crashes, standard error. The components are
//! scripted.

#![cfg(unix)]

use serde_json::{Value, json};
use testkit::test_chain::{
    ScriptedComponent, TestChain, TestChainBuilder, assert_gone, assert_reports_failure, directory,
    wait_until, write_script,
};

/// A chain that ends when a component crashes. The tests in `survival` cover the other policies.
fn new_setup() -> TestChainBuilder {
    TestChain::builder(env!("CARGO_BIN_EXE_conductor")).option(&["--on-crash", "stop"])
}

const PROMPT: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s"}}"#;

/// A grace period longer than any test: nothing happens because of it.
const LONG_GRACE: [&str; 2] = ["--grace", "600"];
/// A short grace period: what happens, happens because of it.
const SHORT_GRACE: [&str; 2] = ["--grace", "0.3"];

/// A child that only SIGKILL ends, and that holds the pipes of its parent open.
const STUBBORN_CHILD: &str = "trap '' TERM INT HUP; sleep 1000; sleep 1000";

/// A chain of a proxy and an agent, after the handshake.
fn start_pair(setup: TestChainBuilder) -> (TestChain, ScriptedComponent, ScriptedComponent) {
    let mut chain = setup.run_named(&["proxy", "agent"]);
    let mut components = chain.initialize(&["proxy", "agent"]).into_iter();
    let (proxy, agent) = (components.next().unwrap(), components.next().unwrap());
    (chain, proxy, agent)
}

/// A chain of one agent, after the handshake.
fn start_agent(setup: TestChainBuilder) -> (TestChain, ScriptedComponent) {
    let mut chain = setup.run_named(&["agent"]);
    let agent = chain.initialize(&["agent"]).remove(0);
    (chain, agent)
}

/// A chain whose components ignore the end of input and signals, and have children that do so, too.
fn start_stubborn(setup: TestChainBuilder) -> (TestChain, [ScriptedComponent; 2]) {
    let (chain, mut proxy, mut agent) = start_pair(setup);
    for component in [&mut proxy, &mut agent] {
        component.ignore_signals();
        component.spawn(STUBBORN_CHILD);
    }
    (chain, [proxy, agent])
}

fn stat_of(pid: &str) -> Option<(char, u32)> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let mut fields = stat.rsplit(')').next()?.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some((state, fields.nth(1)?.parse().ok()?))
}

fn group_of(pid: u32) -> u32 {
    stat_of(&pid.to_string()).expect("it runs").1
}

/// Waits until no process of a component's process group is left.
fn assert_group_gone(component: &ScriptedComponent) {
    let in_group = |entry: std::fs::DirEntry| {
        let stat = stat_of(entry.file_name().to_str()?)?;
        (stat.1 == component.pid && stat.0 != 'Z').then_some(())
    };
    wait_until(&format!("{} and all its children are gone", component.name), || {
        let mut processes = std::fs::read_dir("/proc").expect("proc").flatten();
        processes.find_map(in_group).is_none().then_some(())
    });
}

#[test]
fn a_component_and_its_children_have_their_own_process_group() {
    let (chain, mut proxy, mut agent) = start_pair(new_setup());
    for component in [&mut proxy, &mut agent] {
        let child = component.spawn("sleep 1000");
        assert_eq!(group_of(component.pid), component.pid);
        assert_eq!(group_of(child), component.pid);
    }
    assert_ne!(group_of(chain.conductor.pid()), proxy.pid);
}

#[test]
fn children_that_hold_pipes_open_end_with_their_component() {
    let (mut chain, mut agent) = start_agent(new_setup());
    chain.editor.send(PROMPT);
    agent.request("session/prompt");
    let child = agent.spawn(STUBBORN_CHILD);
    agent.exit(3);
    assert_reports_failure(&chain.editor.message(), "agent", "exited with status 3", "");
    assert_gone(child, "the child");
    assert_eq!(chain.conductor.status(), 1);
    assert_group_gone(&agent);
}

// The editor disconnects.

#[test]
fn an_answer_within_the_grace_period_is_delivered_after_the_editor_disconnected() {
    let (mut chain, mut agent) = start_agent(new_setup().option(&LONG_GRACE));
    chain.editor.send(PROMPT);
    let prompt = agent.request("session/prompt");
    chain.editor.close();
    // The refusal shows that the conductor has noticed the disconnected editor.
    agent.send(r#"{"jsonrpc":"2.0","id":7,"method":"fs/read_text_file","params":{}}"#);
    let refused = wait_until_refused(&mut agent);
    assert_eq!(refused["error"]["data"]["code"], "shutting-down");
    agent.answer(&prompt, r#"{"stopReason":"end_turn"}"#);
    assert_eq!(agent.next_line(), None);
    agent.exit(0);
    assert_eq!(chain.conductor.status(), 0);
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}"#;
    // Requests from before that went to the editor as well.
    let lines = std::iter::from_fn(|| chain.editor.next_line());
    assert_eq!(lines.filter(|line| !line.contains("fs/")).collect::<Vec<_>>(), [answer]);
}

/// Sends the editor requests until the conductor refuses to pass them on.
fn wait_until_refused(agent: &mut ScriptedComponent) -> Value {
    loop {
        let answer = agent.message();
        let message = answer["error"]["message"].as_str().expect("an error");
        if message.starts_with("the editor has disconnected and cannot answer") {
            return answer;
        }
        assert!(message.starts_with("the editor has disconnected ["), "{answer}");
        agent.send(r#"{"jsonrpc":"2.0","id":7,"method":"fs/read_text_file","params":{}}"#);
    }
}

/// Checklist 106.
#[test]
fn the_conductor_answers_open_requests_after_the_grace_period() {
    // The proxy has half of the grace period to read its answer.
    let (mut chain, mut proxy, mut agent) = start_pair(new_setup().option(&["--grace", "6"]));
    chain.editor.send(PROMPT);
    proxy.request("session/prompt");
    proxy.forward("own", "x/y", "{}");
    agent.request("x/y");
    chain.editor.close();
    let why = "the conductor is shutting down; this request was not answered in time [more: conductor errors shutting-down]";
    let answer = chain.editor.message();
    assert_eq!((&answer["id"], &answer["error"]["message"]), (&json!(1), &json!(why)));
    let answer = proxy.message();
    assert_eq!((&answer["id"], &answer["error"]["message"]), (&json!("own"), &json!(why)));
    assert_eq!(chain.conductor.status(), 0);
}

/// Checklist 102.
#[test]
fn a_component_may_end_itself_within_the_grace_period() {
    let (mut chain, mut agent) = start_agent(new_setup().option(&LONG_GRACE));
    agent.spawn(STUBBORN_CHILD);
    chain.editor.close();
    assert_eq!(agent.next_line(), None);
    // Its status does not matter.
    agent.write_stderr("closing my servers\n");
    agent.exit(3);
    assert_eq!(chain.conductor.status(), 0);
    assert_eq!(chain.conductor.whole_stderr(), "[agent] closing my servers\n");
    assert_group_gone(&agent);
}

/// Checklist 102.
#[test]
fn a_component_that_ignores_the_end_of_input_receives_sigterm() {
    let place = directory("sigterm");
    // It has half of the grace period to end on SIGTERM.
    let setup = new_setup().option(&["--grace", "8"]);
    // A shell gives background processes no input, unless it is redirected.
    let command = setup.scripted_command("agent");
    let body = format!("exec 3<&0\ntrap 'echo bye >&2; exit' TERM\n{command} <&3 3<&- &\nwait");
    let component = write_script(&place, "polite", &body).display().to_string();
    let mut chain = setup.run("agent", &[component]);
    let mut agent = chain.initialize(&["agent"]).remove(0);
    chain.editor.close();
    assert_eq!(agent.next_line(), None);
    assert_eq!(chain.conductor.status(), 0);
    assert_eq!(chain.conductor.whole_stderr(), "[polite] bye\n");
    assert_gone(agent.pid, "the agent");
    std::fs::remove_dir_all(place).expect("the directory is ours");
}

/// Checklist 102.
#[test]
fn a_component_that_ignores_sigterm_is_killed_with_its_children() {
    let (mut chain, mut components) = start_stubborn(new_setup().option(&SHORT_GRACE));
    chain.editor.close();
    assert_eq!(components[0].next_line(), None);
    assert_eq!(components[1].next_line(), None);
    assert_eq!(chain.conductor.status(), 0);
    assert_eq!(chain.conductor.whole_stderr(), "");
    components.iter().for_each(assert_group_gone);
}

// Signals to the conductor.

fn assert_shuts_down_on(signal: i32) {
    let (mut chain, components) = start_stubborn(new_setup().option(&SHORT_GRACE));
    let [mut proxy, _] = components;
    chain.editor.send(PROMPT);
    proxy.request("session/prompt");
    chain.conductor.signal(signal);
    let answer = chain.editor.message();
    assert_eq!(answer["id"], 1);
    assert!(
        answer["error"]["message"].as_str().unwrap().contains("the conductor is shutting down")
    );
    assert_eq!(chain.editor.next_line(), None);
    assert_eq!(chain.conductor.status(), 0);
    assert_eq!(chain.conductor.whole_stderr(), "");
    assert_group_gone(&proxy);
}

#[test]
fn sigterm_shuts_the_chain_down() {
    assert_shuts_down_on(libc::SIGTERM);
}

#[test]
fn sigint_shuts_the_chain_down() {
    assert_shuts_down_on(libc::SIGINT);
}

#[test]
fn sighup_shuts_the_chain_down() {
    assert_shuts_down_on(libc::SIGHUP);
}

#[test]
fn all_components_end_when_the_conductor_is_killed() {
    let (mut chain, components) = start_stubborn(new_setup());
    chain.conductor.signal(libc::SIGKILL);
    assert_eq!(chain.conductor.status(), 128 + libc::SIGKILL);
    components.iter().for_each(assert_group_gone);
}

// A component crashes.

/// How a component can end, and what the conductor reports.
fn ends() -> [(Value, &'static str); 3] {
    [
        (json!({"exit": 3}), "exited with status 3"),
        (json!({"exit": 0}), "exited with status 0"),
        (json!({"signal": libc::SIGKILL}), "was killed by signal 9 (SIGKILL)"),
    ]
}

/// The chain ends with status 1 and one line that names the cause, and no process is left behind.
fn assert_failed(mut chain: TestChain, others: &mut [&mut ScriptedComponent], line: &str) {
    for component in others.iter_mut() {
        component.exit(0);
    }
    assert_eq!(chain.editor.next_line(), None);
    assert_eq!(chain.conductor.status(), 1);
    let stderr = chain.conductor.whole_stderr();
    let last = stderr.lines().last().expect("a line");
    let (component, rest) = last.split_once(" (command: ").expect("its command");
    let (_, what) = rest.split_once(") ").expect("the end of its command");
    // The terminal shows the same remedy and the same section of the error page as the editor.
    let shown = format!("{component} {what}");
    assert!(shown.starts_with(&format!("conductor: {line}; run the command by hand")), "{shown}");
    assert!(shown.ends_with(" [more: conductor errors crashed]"), "{shown}");
    assert_eq!(stderr.matches("conductor: ").count(), 1, "{stderr}");
    others.iter().for_each(|component| assert_group_gone(component));
}

/// Checklist 99.
#[test]
fn open_requests_to_a_crashed_agent_get_an_error_that_proxies_pass_on() {
    for (end, cause) in ends() {
        let (mut chain, mut proxy, mut agent) = start_pair(new_setup().option(&LONG_GRACE));
        chain.editor.send(PROMPT);
        let prompt = proxy.request("session/prompt");
        proxy.forward("passed on", "session/prompt", "{}");
        proxy.forward("its own", "x/y", "{}");
        agent.request("session/prompt");
        agent.request("x/y");
        agent.send(r#"{"jsonrpc":"2.0","id":7,"method":"fs/read_text_file","params":{}}"#);
        let upward = proxy.request("proxy/successor");

        agent.write_stderr("out of luck\n");
        agent.execute(end);
        for id in ["passed on", "its own"] {
            let answer = proxy.message();
            assert_eq!(answer["id"], id);
            assert_reports_failure(&answer, "agent", cause, "out of luck");
        }
        proxy.answer(&upward, "{}");
        proxy.answer_error(&prompt, r#"{"code":5,"message":"in the proxy's words"}"#);
        let answer =
            r#"{"jsonrpc":"2.0","id":1,"error":{"code":5,"message":"in the proxy's words"}}"#;
        assert_eq!(chain.editor.line(), answer);
        assert_eq!(proxy.next_line(), None);
        let line = format!("agent 'agent' {cause}; its last output: \"out of luck\"");
        assert_failed(chain, &mut [&mut proxy], &line);
    }
}

/// Checklist 100.
#[test]
fn requests_from_both_sides_to_a_crashed_proxy_get_an_error() {
    for (end, cause) in ends() {
        let names = ["first", "crashing", "agent"];
        let mut chain = new_setup().option(&LONG_GRACE).run_named(&names);
        let [mut first, mut crashing, mut agent] =
            <[ScriptedComponent; 3]>::try_from(chain.initialize(&names)).unwrap();
        chain.editor.send(PROMPT);
        let prompt = first.request("session/prompt");
        first.forward("passed on", "session/prompt", "{}");
        crashing.request("session/prompt");
        crashing.forward("its own", "x/y", "{}");
        let orphaned = agent.request("x/y");
        agent.send(r#"{"jsonrpc":"2.0","id":7,"method":"fs/read_text_file","params":{}}"#);
        crashing.request("proxy/successor");

        crashing.write_stderr("out of luck\n");
        crashing.execute(end);
        for (component, id) in [(&mut first, json!("passed on")), (&mut agent, json!(7))] {
            let answer = component.message();
            assert_eq!(answer["id"], id);
            assert_reports_failure(&answer, "crashing", cause, "out of luck");
        }
        agent.answer(&orphaned, "{}");
        first.answer_error(&prompt, r#"{"code":5,"message":"passed on"}"#);
        assert_eq!(chain.editor.message()["error"]["message"], "passed on");
        let line = format!("proxy 'crashing' {cause}; its last output: \"out of luck\"");
        assert_failed(chain, &mut [&mut first, &mut agent], &line);
    }
}

/// Checklist 99.
#[test]
fn a_request_is_answered_even_if_a_proxy_does_not_pass_the_error_on() {
    let (mut chain, mut proxy, mut agent) = start_pair(new_setup().option(&SHORT_GRACE));
    chain.editor.send(PROMPT);
    proxy.request("session/prompt");
    agent.exit(3);
    let answer = chain.editor.message();
    assert_eq!(answer["id"], 1);
    assert_reports_failure(&answer, "agent", "exited with status 3", "");
    assert_failed(chain, &mut [&mut proxy], "agent 'agent' exited with status 3");
}

/// Checklist 99.
#[test]
fn requests_after_the_agent_crashed_are_answered_at_once() {
    let (mut chain, mut proxy, mut agent) = start_pair(new_setup().option(&LONG_GRACE));
    chain.editor.send(PROMPT);
    let prompt = proxy.request("session/prompt");
    proxy.forward("passed on", "session/prompt", "{}");
    agent.request("session/prompt");
    agent.exit(3);
    assert_reports_failure(&proxy.message(), "agent", "exited with status 3", "");
    // The agent is gone. The proxy has not answered yet.
    chain.editor.send(r#"{"jsonrpc":"2.0","id":2,"method":"session/new","params":{}}"#);
    let answer = chain.editor.message();
    assert_eq!(answer["id"], 2);
    assert_reports_failure(&answer, "agent", "exited with status 3", "");
    proxy.answer(&prompt, "{}");
    assert_eq!(chain.editor.line(), r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    assert_failed(chain, &mut [&mut proxy], "agent 'agent' exited with status 3");
}

#[test]
fn the_last_messages_of_a_component_arrive_before_the_error() {
    let (mut chain, mut agent) = start_agent(new_setup());
    for id in 1..=2 {
        chain.editor.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#));
    }
    let answered = agent.request("m");
    agent.request("m");
    let update = r#"{"jsonrpc":"2.0","method":"session/update","params":{"n":1.0}}"#;
    let mut output = format!("{update}\n").repeat(500);
    // The last line has no newline.
    output += &format!(r#"{{"jsonrpc":"2.0","id":{},"result":"late"}}"#, answered["id"]);
    agent.execute(json!({ "out": output, "exit": 3 }));
    for _ in 0..500 {
        assert_eq!(chain.editor.line(), update);
    }
    assert_eq!(chain.editor.line(), r#"{"jsonrpc":"2.0","id":1,"result":"late"}"#);
    let answer = chain.editor.message();
    assert_eq!(answer["id"], 2);
    assert_reports_failure(&answer, "agent", "exited with status 3", "");
    assert_failed(chain, &mut [], "agent 'agent' exited with status 3");
}

#[test]
fn a_component_that_closes_its_output_has_failed() {
    let (mut chain, mut agent) = start_agent(new_setup().option(&SHORT_GRACE));
    chain.editor.send(PROMPT);
    agent.request("session/prompt");
    agent.execute(json!({ "close_stdout": true }));
    assert_reports_failure(&chain.editor.message(), "agent", "closed its standard output", "");
    assert_eq!(agent.next_line(), None);
    assert_failed(chain, &mut [], "agent 'agent' closed its standard output");
    assert_group_gone(&agent);
}

#[test]
fn a_component_that_closes_its_input_has_failed() {
    let (mut chain, mut agent) = start_agent(new_setup().option(&SHORT_GRACE));
    // It reads one more line and then stops, so that no thread is inside a call to read.
    agent.execute(json!({ "read": false }));
    agent.sync();
    chain.editor.send(r#"{"jsonrpc":"2.0","method":"x/last"}"#);
    assert_eq!(agent.message()["method"], "x/last");
    agent.execute(json!({ "close_stdin": true }));
    agent.sync();
    chain.editor.send(PROMPT);
    assert_reports_failure(&chain.editor.message(), "agent", "closed its standard input", "");
    assert_failed(chain, &mut [], "agent 'agent' closed its standard input");
    assert_group_gone(&agent);
}

// Standard error of components.

/// Checklist 103.
#[test]
fn stderr_is_passed_on_line_by_line_after_the_components_name() {
    let (mut chain, mut proxy, mut agent) = start_pair(new_setup().option(&LONG_GRACE));
    agent.write_stderr("one\n\n  two\r\n");
    agent.write_stderr("in ");
    agent.write_stderr("pieces\n");
    agent.sync();
    let shell = r"printf 'caf\351 not UTF-8\n' >&2";
    assert_gone(agent.spawn(shell), "the writer");
    agent.write_stderr("no newline");
    chain.editor.close();
    agent.exit(0);
    assert_eq!(proxy.next_line(), None);
    proxy.write_stderr("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}");
    proxy.exit(0);
    assert_eq!(chain.conductor.status(), 0);
    assert_eq!(chain.editor.next_line(), None);
    let stderr = chain.conductor.whole_stderr();
    let lines_of = |name: &str| -> Vec<String> {
        stderr.lines().filter_map(|line| line.strip_prefix(name)).map(str::to_owned).collect()
    };
    let agents = [" one", " ", "   two", " in pieces", " caf\u{fffd} not UTF-8", " no newline"];
    assert_eq!(lines_of("[agent]"), agents, "{stderr}");
    assert_eq!(lines_of("[proxy]"), [r#" {"jsonrpc":"2.0","id":1,"result":{}}"#], "{stderr}");
    assert_eq!(stderr.lines().count(), 7, "{stderr}");
}

#[test]
fn a_very_long_line_on_stderr_is_passed_on_in_pieces() {
    let (mut chain, mut agent) = start_agent(new_setup().option(&LONG_GRACE));
    let shell = "head -c 1048576 /dev/zero | tr '\\0' x >&2; echo >&2; echo after >&2";
    assert_gone(agent.spawn(shell), "the writer");
    chain.editor.send(PROMPT);
    let prompt = agent.request("session/prompt");
    agent.answer(&prompt, "{}");
    assert_eq!(chain.editor.message()["id"], 1);
    chain.editor.close();
    agent.exit(0);
    assert_eq!(chain.conductor.status(), 0);
    let stderr = chain.conductor.whole_stderr();
    assert!(stderr.ends_with("\n[agent] after\n"));
    let mut length = 0;
    for line in stderr.lines() {
        assert!(line.starts_with("[agent] ") && line.len() < 100_000, "{} bytes", line.len());
        length += line.matches('x').count();
    }
    assert_eq!(length, 1_048_576, "nothing is lost");
}

/// Whether this pipe has room within a second.
fn has_room(pipe: &std::process::ChildStdin) -> bool {
    use std::os::fd::AsRawFd;
    let mut end = libc::pollfd { fd: pipe.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // SAFETY: one open descriptor. It becomes non-blocking, so that a write takes what fits.
    unsafe {
        libc::fcntl(end.fd, libc::F_SETFL, libc::O_NONBLOCK);
        libc::poll(&mut end, 1, 1000) == 1
    }
}

/// An editor that is paused because the agent does not read can disconnect. The conductor notices that although
/// the end is behind unread data.
#[test]
fn a_paused_editor_can_disconnect() {
    let (mut chain, mut agent) = start_agent(new_setup().option(&["--grace", "0.2"]));
    let pid = agent.pid;
    agent.execute(serde_json::json!({ "read": false }));
    let mut stdin = chain.editor.take_stdin();
    let note = format!("{}\n", PROMPT.replace("session/prompt", &"x".repeat(100_000)));
    while has_room(&stdin) {
        // It does not matter where a line is cut, only that the pipe is full.
        let _ = std::io::Write::write(&mut stdin, note.as_bytes()).expect("the conductor lives");
    }
    drop(stdin);
    assert_eq!(chain.conductor.status(), 0);
    assert_gone(pid, "the agent");
}

/// Checklist 103.
#[test]
fn a_flood_on_an_unread_stderr_does_not_block_the_chain() {
    let (mut chain, mut agent) = start_agent(new_setup().option(&LONG_GRACE).leave_stderr_unread());
    assert_gone(agent.spawn("yes 'so many words' | head -n 200000 >&2"), "the writer");
    chain.editor.send(PROMPT);
    let prompt = agent.request("session/prompt");
    agent.answer(&prompt, "{}");
    assert_eq!(chain.editor.line(), r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    chain.editor.send(PROMPT);
    agent.request("session/prompt");
    agent.exit(3);
    assert_reports_failure(
        &chain.editor.message(),
        "agent",
        "exited with status 3",
        "so many words",
    );
    assert_eq!(chain.editor.next_line(), None);
    assert_eq!(chain.conductor.status(), 1);
}
