//! How components live and die: process groups, signals, crashes, what they say on the side. Real
//! processes, played line by line.

#![cfg(unix)]

use serde_json::{Value, json};
use testkit::test_chain::{
    ScriptedComponent, TestChain, TestChainBuilder, assert_gone, assert_reports_failure, directory,
    wait_until, write_script,
};

/// Chains that end with the first of their components; those that survive have tests of their own.
fn test_chain() -> TestChainBuilder {
    TestChain::builder(env!("CARGO_BIN_EXE_conductor")).option(&["--on-crash", "stop"])
}

const PROMPT: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s"}}"#;

/// A grace period that no test lives to see: nothing happens because it is over.
const PATIENT: [&str; 2] = ["--grace", "600"];
/// One that is over at once: what happens, happens because it is over.
const IMPATIENT: [&str; 2] = ["--grace", "0.3"];

/// A child that only SIGKILL ends, and that holds the pipes of its parent open.
const STUBBORN: &str = "trap '' TERM INT HUP; sleep 1000; sleep 1000";

/// A chain of a proxy and an agent that stand.
fn pair(setup: TestChainBuilder) -> (TestChain, ScriptedComponent, ScriptedComponent) {
    let mut chain = setup.run_named(&["proxy", "agent"]);
    let mut components = chain.initialize(&["proxy", "agent"]).into_iter();
    let (proxy, agent) = (components.next().unwrap(), components.next().unwrap());
    (chain, proxy, agent)
}

/// A chain of one agent that stands.
fn single(setup: TestChainBuilder) -> (TestChain, ScriptedComponent) {
    let mut chain = setup.run_named(&["agent"]);
    let agent = chain.initialize(&["agent"]).remove(0);
    (chain, agent)
}

/// A chain whose components ignore end of file and signals, and have stubborn children.
fn stubborn(setup: TestChainBuilder) -> (TestChain, [ScriptedComponent; 2]) {
    let (chain, mut proxy, mut agent) = pair(setup);
    for component in [&mut proxy, &mut agent] {
        component.ignore_signals();
        component.spawn(STUBBORN);
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

/// Waits until nobody of a component's process group is left.
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
fn a_component_and_its_children_are_a_process_group_of_their_own() {
    let (chain, mut proxy, mut agent) = pair(test_chain());
    for component in [&mut proxy, &mut agent] {
        let child = component.spawn("sleep 1000");
        assert_eq!(group_of(component.pid), component.pid);
        assert_eq!(group_of(child), component.pid);
    }
    assert_ne!(group_of(chain.conductor.pid()), proxy.pid);
}

#[test]
fn children_die_with_their_component_though_they_hold_its_pipes_open() {
    let (mut chain, mut agent) = single(test_chain());
    chain.editor.send(PROMPT);
    agent.request("session/prompt");
    let child = agent.spawn(STUBBORN);
    agent.exit(3);
    assert_reports_failure(&chain.editor.message(), "agent", "ended with status 3", "");
    assert_gone(child, "the child");
    assert_eq!(chain.conductor.status(), 1);
    assert_group_gone(&agent);
}

// The editor leaves.

#[test]
fn what_is_answered_soon_after_the_editor_left_is_delivered() {
    let (mut chain, mut agent) = single(test_chain().option(&PATIENT));
    chain.editor.send(PROMPT);
    let prompt = agent.request("session/prompt");
    chain.editor.close();
    // The conductor knows that the editor has left once it says so.
    agent.send(r#"{"jsonrpc":"2.0","id":7,"method":"fs/read_text_file","params":{}}"#);
    let refused = wait_for_the_news(&mut agent);
    assert_eq!(refused["error"]["message"], "the editor has left and can answer nothing");
    agent.answer(&prompt, r#"{"stopReason":"end_turn"}"#);
    assert_eq!(agent.next_line(), None);
    agent.exit(0);
    assert_eq!(chain.conductor.status(), 0);
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"stopReason":"end_turn"}}"#;
    // What was asked before the conductor knew went to the editor, too.
    let lines = std::iter::from_fn(|| chain.editor.next_line());
    assert_eq!(lines.filter(|line| !line.contains("fs/")).collect::<Vec<_>>(), [answer]);
}

/// Asks the editor until the conductor refuses to pass it on.
fn wait_for_the_news(agent: &mut ScriptedComponent) -> Value {
    loop {
        let answer = agent.message();
        if answer["error"]["message"] == "the editor has left and can answer nothing" {
            return answer;
        }
        assert_eq!(answer["error"]["message"], "the editor has left", "{answer}");
        agent.send(r#"{"jsonrpc":"2.0","id":7,"method":"fs/read_text_file","params":{}}"#);
    }
}

/// Checklist 106.
#[test]
fn what_is_not_answered_in_time_is_answered_by_the_conductor() {
    let (mut chain, mut proxy, mut agent) = pair(test_chain().option(&IMPATIENT));
    chain.editor.send(PROMPT);
    proxy.request("session/prompt");
    proxy.forward("own", "x/y", "{}");
    agent.request("x/y");
    chain.editor.close();
    let why = "the conductor is ending; this request was not answered in time";
    let answer = chain.editor.message();
    assert_eq!((&answer["id"], &answer["error"]["message"]), (&json!(1), &json!(why)));
    let answer = proxy.message();
    assert_eq!((&answer["id"], &answer["error"]["message"]), (&json!("own"), &json!(why)));
    assert_eq!(chain.conductor.status(), 0);
}

/// Checklist 102.
#[test]
fn a_component_has_time_to_end_by_itself_when_its_input_ends() {
    let (mut chain, mut agent) = single(test_chain().option(&PATIENT));
    agent.spawn(STUBBORN);
    chain.editor.close();
    assert_eq!(agent.next_line(), None);
    // It still can do as it likes.
    agent.write_stderr("closing my servers\n");
    agent.exit(3);
    assert_eq!(chain.conductor.status(), 0);
    assert_eq!(chain.conductor.stderr(), "[agent] closing my servers\n");
    assert_group_gone(&agent);
}

/// Checklist 102.
#[test]
fn who_ignores_the_end_of_input_is_asked_with_sigterm() {
    let place = directory("sigterm");
    let setup = test_chain().option(&["--grace", "1"]);
    // A shell gives what it runs in the background no input, unless it is told to.
    let component = setup.scripted_command("agent");
    let body = format!("exec 3<&0\ntrap 'echo bye >&2; exit' TERM\n{component} <&3 3<&- &\nwait");
    let component = write_script(&place, "polite", &body).display().to_string();
    let mut chain = setup.run("agent", &[component]);
    let mut agent = chain.initialize(&["agent"]).remove(0);
    chain.editor.close();
    assert_eq!(agent.next_line(), None);
    assert_eq!(chain.conductor.status(), 0);
    assert_eq!(chain.conductor.stderr(), "[polite] bye\n");
    assert_gone(agent.pid, "the agent");
    std::fs::remove_dir_all(place).expect("the directory is ours");
}

/// Checklist 102.
#[test]
fn who_ignores_sigterm_too_is_killed_with_all_its_children() {
    let (mut chain, mut components) = stubborn(test_chain().option(&IMPATIENT));
    chain.editor.close();
    assert_eq!(components[0].next_line(), None);
    assert_eq!(components[1].next_line(), None);
    assert_eq!(chain.conductor.status(), 0);
    assert_eq!(chain.conductor.stderr(), "");
    components.iter().for_each(assert_group_gone);
}

// Signals to the conductor.

fn ends_in_good_order_at(signal: i32) {
    let (mut chain, components) = stubborn(test_chain().option(&IMPATIENT));
    let [mut proxy, _] = components;
    chain.editor.send(PROMPT);
    proxy.request("session/prompt");
    chain.conductor.signal(signal);
    let answer = chain.editor.message();
    assert_eq!(answer["id"], 1);
    assert!(answer["error"]["message"].as_str().unwrap().contains("the conductor is ending"));
    assert_eq!(chain.editor.next_line(), None);
    assert_eq!(chain.conductor.status(), 0);
    assert_eq!(chain.conductor.stderr(), "");
    assert_group_gone(&proxy);
}

#[test]
fn sigterm_ends_the_chain_in_good_order() {
    ends_in_good_order_at(libc::SIGTERM);
}

#[test]
fn sigint_ends_the_chain_in_good_order() {
    ends_in_good_order_at(libc::SIGINT);
}

#[test]
fn sighup_ends_the_chain_in_good_order() {
    ends_in_good_order_at(libc::SIGHUP);
}

#[test]
fn nobody_is_left_behind_when_the_conductor_is_killed() {
    let (mut chain, components) = stubborn(test_chain());
    chain.conductor.signal(libc::SIGKILL);
    assert_eq!(chain.conductor.status(), 128 + libc::SIGKILL);
    components.iter().for_each(assert_group_gone);
}

// A component dies.

/// How a component can die, and how the conductor calls it.
fn deaths() -> [(Value, &'static str); 3] {
    [
        (json!({"exit": 3}), "ended with status 3"),
        (json!({"exit": 0}), "ended with status 0"),
        (json!({"signal": libc::SIGKILL}), "was killed by signal 9 (SIGKILL)"),
    ]
}

/// The chain must end as one that failed, with one line that says why, and leave nobody behind.
fn assert_failed(mut chain: TestChain, others: &mut [&mut ScriptedComponent], line: &str) {
    for component in others.iter_mut() {
        component.exit(0);
    }
    assert_eq!(chain.editor.next_line(), None);
    assert_eq!(chain.conductor.status(), 1);
    let said = chain.conductor.stderr();
    let last = said.lines().last().expect("a line");
    let (who, rest) = last.split_once(" (command: ").expect("its command");
    let (_, what) = rest.split_once(") ").expect("the end of its command");
    assert_eq!(format!("{who} {what}"), format!("conductor: {line}"));
    assert_eq!(said.matches("conductor: ").count(), 1, "{said}");
    others.iter().for_each(|component| assert_group_gone(component));
}

/// Checklist 99.
#[test]
fn when_the_agent_dies_every_open_request_gets_an_error_and_the_proxies_pass_it_on() {
    for (death, cause) in deaths() {
        let (mut chain, mut proxy, mut agent) = pair(test_chain().option(&PATIENT));
        chain.editor.send(PROMPT);
        let prompt = proxy.request("session/prompt");
        proxy.forward("passed on", "session/prompt", "{}");
        proxy.forward("its own", "x/y", "{}");
        agent.request("session/prompt");
        agent.request("x/y");
        agent.send(r#"{"jsonrpc":"2.0","id":7,"method":"fs/read_text_file","params":{}}"#);
        let upward = proxy.request("proxy/successor");

        agent.write_stderr("out of luck\n");
        agent.execute(death);
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
fn when_a_proxy_dies_those_on_both_sides_of_it_get_errors() {
    for (death, cause) in deaths() {
        let names = ["first", "doomed", "agent"];
        let mut chain = test_chain().option(&PATIENT).run_named(&names);
        let [mut first, mut doomed, mut agent] =
            <[ScriptedComponent; 3]>::try_from(chain.initialize(&names)).unwrap();
        chain.editor.send(PROMPT);
        let prompt = first.request("session/prompt");
        first.forward("passed on", "session/prompt", "{}");
        doomed.request("session/prompt");
        doomed.forward("its own", "x/y", "{}");
        let orphaned = agent.request("x/y");
        agent.send(r#"{"jsonrpc":"2.0","id":7,"method":"fs/read_text_file","params":{}}"#);
        doomed.request("proxy/successor");

        doomed.write_stderr("out of luck\n");
        doomed.execute(death);
        for (component, id) in [(&mut first, json!("passed on")), (&mut agent, json!(7))] {
            let answer = component.message();
            assert_eq!(answer["id"], id);
            assert_reports_failure(&answer, "doomed", cause, "out of luck");
        }
        agent.answer(&orphaned, "{}");
        first.answer_error(&prompt, r#"{"code":5,"message":"passed on"}"#);
        assert_eq!(chain.editor.message()["error"]["message"], "passed on");
        let line = format!("proxy 'doomed' {cause}; its last output: \"out of luck\"");
        assert_failed(chain, &mut [&mut first, &mut agent], &line);
    }
}

/// Checklist 99.
#[test]
fn a_proxy_that_does_not_pass_the_error_on_does_not_keep_the_editor_waiting() {
    let (mut chain, mut proxy, mut agent) = pair(test_chain().option(&IMPATIENT));
    chain.editor.send(PROMPT);
    proxy.request("session/prompt");
    agent.exit(3);
    let answer = chain.editor.message();
    assert_eq!(answer["id"], 1);
    assert_reports_failure(&answer, "agent", "ended with status 3", "");
    assert_failed(chain, &mut [&mut proxy], "agent 'agent' ended with status 3");
}

/// Checklist 99.
#[test]
fn what_the_editor_asks_after_the_agent_died_is_answered_at_once() {
    let (mut chain, mut proxy, mut agent) = pair(test_chain().option(&PATIENT));
    chain.editor.send(PROMPT);
    let prompt = proxy.request("session/prompt");
    proxy.forward("passed on", "session/prompt", "{}");
    agent.request("session/prompt");
    agent.exit(3);
    assert_reports_failure(&proxy.message(), "agent", "ended with status 3", "");
    // The agent is gone, the proxy thinks about it.
    chain.editor.send(r#"{"jsonrpc":"2.0","id":2,"method":"session/new","params":{}}"#);
    let answer = chain.editor.message();
    assert_eq!(answer["id"], 2);
    assert_reports_failure(&answer, "agent", "ended with status 3", "");
    proxy.answer(&prompt, "{}");
    assert_eq!(chain.editor.line(), r#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
    assert_failed(chain, &mut [&mut proxy], "agent 'agent' ended with status 3");
}

#[test]
fn what_a_component_said_before_it_ended_arrives_before_the_error() {
    let (mut chain, mut agent) = single(test_chain());
    for id in 1..=2 {
        chain.editor.send(&format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"m"}}"#));
    }
    let answered = agent.request("m");
    agent.request("m");
    let update = r#"{"jsonrpc":"2.0","method":"session/update","params":{"n":1.0}}"#;
    let mut said = format!("{update}\n").repeat(500);
    // The very last line has no newline.
    said += &format!(r#"{{"jsonrpc":"2.0","id":{},"result":"late"}}"#, answered["id"]);
    agent.execute(json!({ "out": said, "exit": 3 }));
    for _ in 0..500 {
        assert_eq!(chain.editor.line(), update);
    }
    assert_eq!(chain.editor.line(), r#"{"jsonrpc":"2.0","id":1,"result":"late"}"#);
    let answer = chain.editor.message();
    assert_eq!(answer["id"], 2);
    assert_reports_failure(&answer, "agent", "ended with status 3", "");
    assert_failed(chain, &mut [], "agent 'agent' ended with status 3");
}

#[test]
fn a_component_that_closes_its_output_has_left_though_it_lives() {
    let (mut chain, mut agent) = single(test_chain().option(&IMPATIENT));
    chain.editor.send(PROMPT);
    agent.request("session/prompt");
    agent.execute(json!({ "close_stdout": true }));
    assert_reports_failure(&chain.editor.message(), "agent", "closed its standard output", "");
    assert_eq!(agent.next_line(), None);
    assert_failed(chain, &mut [], "agent 'agent' closed its standard output");
    assert_group_gone(&agent);
}

#[test]
fn a_component_that_closes_its_input_has_left_though_it_lives() {
    let (mut chain, mut agent) = single(test_chain().option(&IMPATIENT));
    // It reads one more line and then no further, so that nobody is inside a call to read.
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

// What components say on stderr.

/// Checklist 103.
#[test]
fn stderr_is_passed_on_line_by_line_behind_the_name_and_never_on_stdout() {
    let (mut chain, mut proxy, mut agent) = pair(test_chain().option(&PATIENT));
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
    let said = chain.conductor.stderr();
    let of = |name: &str| -> Vec<String> {
        said.lines().filter_map(|line| line.strip_prefix(name)).map(str::to_owned).collect()
    };
    let agents = [" one", " ", "   two", " in pieces", " caf\u{fffd} not UTF-8", " no newline"];
    assert_eq!(of("[agent]"), agents, "{said}");
    assert_eq!(of("[proxy]"), [r#" {"jsonrpc":"2.0","id":1,"result":{}}"#], "{said}");
    assert_eq!(said.lines().count(), 7, "{said}");
}

#[test]
fn a_very_long_line_on_stderr_is_passed_on_in_pieces_and_then_the_next_one() {
    let (mut chain, mut agent) = single(test_chain().option(&PATIENT));
    let shell = "head -c 1048576 /dev/zero | tr '\\0' x >&2; echo >&2; echo after >&2";
    assert_gone(agent.spawn(shell), "the writer");
    chain.editor.send(PROMPT);
    let prompt = agent.request("session/prompt");
    agent.answer(&prompt, "{}");
    assert_eq!(chain.editor.message()["id"], 1);
    chain.editor.close();
    agent.exit(0);
    assert_eq!(chain.conductor.status(), 0);
    let said = chain.conductor.stderr();
    assert!(said.ends_with("\n[agent] after\n"));
    let mut length = 0;
    for line in said.lines() {
        assert!(line.starts_with("[agent] ") && line.len() < 100_000, "{} bytes", line.len());
        length += line.matches('x').count();
    }
    assert_eq!(length, 1_048_576, "nothing of it is lost");
}

/// Is there, within a second, room for something in this pipe?
fn is_taken(pipe: &std::process::ChildStdin) -> bool {
    use std::os::fd::AsRawFd;
    let mut end = libc::pollfd { fd: pipe.as_raw_fd(), events: libc::POLLOUT, revents: 0 };
    // SAFETY: one descriptor, which is open. It is switched so that a write takes what fits.
    unsafe {
        libc::fcntl(end.fd, libc::F_SETFL, libc::O_NONBLOCK);
        libc::poll(&mut end, 1, 1000) == 1
    }
}

/// An editor that is held back because the agent does not read may leave: its end is behind what is
/// not read, and is seen all the same.
#[test]
fn an_editor_that_is_held_back_can_leave() {
    let (mut chain, mut agent) = single(test_chain().option(&["--grace", "0.2"]));
    let pid = agent.pid;
    agent.execute(serde_json::json!({ "read": false }));
    let mut stdin = chain.editor.take_stdin();
    let note = format!("{}\n", PROMPT.replace("session/prompt", &"x".repeat(100_000)));
    while is_taken(&stdin) {
        // Cut anywhere: what matters is that there is no room for more.
        let _ = std::io::Write::write(&mut stdin, note.as_bytes()).expect("the conductor lives");
    }
    drop(stdin);
    assert_eq!(chain.conductor.status(), 0);
    assert_gone(pid, "the agent");
}

/// Checklist 103.
#[test]
fn a_flood_on_stderr_that_nobody_reads_stops_nothing() {
    let (mut chain, mut agent) = single(test_chain().option(&PATIENT).leave_stderr_unread());
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
        "ended with status 3",
        "so many words",
    );
    assert_eq!(chain.editor.next_line(), None);
    assert_eq!(chain.conductor.status(), 1);
}
