//! The policies for a component that fails, and their effect. `policy_options` has the options.

use serde_json::{Value, json};
use testkit::rpc::{id_of, notification, request, result};
use testkit::test_chain::{TestChain, assert_gone, assert_reports_failure, wait_until};

use crate::chain::{
    GREETING, LOADS, PLAIN, RESUMES, ScriptedChain, assert_crash, forward_next, kill,
};
use crate::{LONG_GRACE, SHORT_GRACE, new_setup, setup_without_restarts};

const PROMPT: &str = "session/prompt";

/// A proxy is restarted as often as `--restarts` allows, and then bypassed. Checklist 104.
#[test]
fn a_proxy_that_crashes_too_often_is_bypassed() {
    for options in [&["--restarts", "2/600"][..], &["--restarts", "1=2/600", "--restarts", "9/9"]] {
        let mut chain =
            ScriptedChain::start(new_setup().option(options), &["proxy", "other", "agent"], PLAIN);
        let session = chain.new_session("s");
        for _ in 0..2 {
            chain.kill_proxy(0);
            chain.expect_replay(0, std::slice::from_ref(&session));
            chain.assert_works();
        }
        kill(&chain.proxies[0]);
        let component = chain.wait_for_state(1, "bypassed");
        assert_eq!((&component["restarts"], &component["pid"]), (&json!(2), &Value::Null));
        chain.proxies.remove(0);
        chain.assert_works();
        // There is no third restart.
        chain.test.assert_not_started("proxy");
    }
}

/// The limit can be given in the component's JSON, and can be zero.
#[test]
fn the_restart_limit_can_be_given_in_json() {
    let setup = new_setup();
    let mut proxy = setup.scripted_json("proxy");
    proxy["restarts"] = json!("0/60");
    let components = [proxy.to_string(), setup.scripted_json("agent").to_string()];
    let mut chain =
        ScriptedChain::handshake(setup.run("agent", &components), &["proxy", "agent"], PLAIN);
    kill(&chain.proxies[0]);
    chain.wait_for_state(1, "bypassed");
    chain.proxies.clear();
    chain.assert_works();
}

/// Crashes before the time window do not count. Checklist 104.
#[test]
fn a_component_that_crashes_rarely_is_always_restarted() {
    let options = ["--restarts", "1/0"];
    let mut chain = ScriptedChain::start(new_setup().option(&options), &["proxy", "agent"], PLAIN);
    for _ in 0..5 {
        chain.kill_proxy(0);
        chain.expect_replay(0, &[]);
        chain.assert_works();
    }
}

/// Neither a guard nor a component with the policy `restart,stop` is ever bypassed.
#[test]
fn a_chain_stops_when_a_component_that_must_not_be_bypassed_crashes_too_often() {
    for options in [
        &["--guard", "proxy", "--restarts", "1/600"][..],
        &["--on-crash", "proxy=restart,stop", "--restarts", "1/600"],
        &["--on-crash", "restart,stop", "--restarts", "proxy=1/600"],
        &["--guard", "1", "--on-crash", "restart", "--restarts", "1/600"],
    ] {
        let setup = new_setup().option(options).option(&SHORT_GRACE);
        let mut chain = ScriptedChain::start(setup, &["proxy", "agent"], PLAIN);
        chain.kill_proxy(0);
        chain.expect_replay(0, &[]);
        chain.assert_works();
        chain.test.editor.send(&request("1", PROMPT, r#"{"sessionId":"s"}"#));
        chain.proxies[0].request(PROMPT);
        chain.proxies[0].write_stderr("no licence\n");
        chain.proxies[0].exit(3);
        assert_reports_failure(
            &chain.test.editor.message(),
            "proxy",
            "exited with status 3",
            "no licence",
        );
        assert_eq!(chain.test.conductor.status(), 1);
        assert_gone(chain.agent.pid, "the agent");
        let stderr = chain.test.conductor.whole_stderr();
        assert!(stderr.contains("'proxy'") && stderr.contains("no licence"), "{stderr}");
    }
}

/// The processor time that a process has used, in seconds. Also works for a process that has ended and
/// was not yet waited for.
fn processor_time(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it exists");
    let (_, rest) = stat.rsplit_once(')').expect("a name");
    let ticks = rest.split_whitespace().skip(11).take(2);
    let ticks: f64 = ticks.map(|it| it.parse::<f64>().expect("a number")).sum();
    // SAFETY: reads a constant.
    ticks / unsafe { libc::sysconf(libc::_SC_CLK_TCK) } as f64
}

/// A guard that does not answer its greeting after its last restart ends the chain, and the log reports
/// that once. While the other components have time to end, the conductor uses no processor time on it.
#[test]
fn a_chain_ends_when_its_guard_is_silent_after_the_last_restart() {
    let limits = ["--restarts", "1/600", "--init-timeout", "5", "--grace", "2"];
    let setup = new_setup().option(&["--guard", "guard"]).option(&limits);
    let mut chain = ScriptedChain::start(setup, &["first", "guard", "agent"], PLAIN);
    chain.kill_proxy(1);
    chain.proxies[1].request("proxy/initialize");
    chain.test.editor.send(&request("1", "_x/ask", "{}"));
    forward_next(&mut chain.proxies[0]);
    // The first proxy does not pass the error on, so the editor's request stays open.
    let cause = "did not answer initialize within 5 s";
    assert_reports_failure(&chain.proxies[0].message(), "guard", cause, "");
    let pid = chain.test.conductor.pid();
    let before = processor_time(pid);
    assert_gone(pid, "the conductor");
    let used = processor_time(pid) - before;
    assert!(used < 0.5, "{used} s in a grace period of 2 s");
    assert_eq!(chain.test.conductor.status(), 1);
    let stderr = chain.test.conductor.whole_stderr();
    let reported: Vec<&str> = stderr.lines().filter(|line| line.contains(cause)).collect();
    assert_eq!(reported.len(), 1, "{stderr}");
    assert!(reported[0].contains("'guard'"), "{stderr}");
}

/// With `bypass` a request inside the proxy is answered with an error, and later messages go around the
/// proxy. Checklist 100.
#[test]
fn the_bypass_policy_bypasses_a_crashed_proxy_at_once() {
    let setup = new_setup();
    let mut json = setup.scripted_json("proxy");
    json["onCrash"] = json!("bypass");
    let agent = setup.scripted_json("agent").to_string();
    let by_json = setup.run("agent", &[json.to_string(), agent]);
    let by_option = new_setup().option(&["--on-crash", "bypass"]).run_named(&["proxy", "agent"]);
    for chain in [by_json, by_option] {
        let mut chain = ScriptedChain::handshake(chain, &["proxy", "agent"], PLAIN);
        chain.test.editor.send(&request("1", PROMPT, r#"{"sessionId":"s"}"#));
        chain.proxies[0].request(PROMPT);
        chain.agent.send(&request("7", "fs/read_text_file", "{}"));
        chain.proxies[0].request("proxy/successor");
        chain.proxies[0].exit(0);
        let answer = chain.test.editor.message();
        assert_crash(&answer, json!(1), "proxy", "exited with status 0", "bypassed");
        let answer = chain.agent.message();
        assert_crash(&answer, json!(7), "proxy", "exited with status 0", "bypassed");
        chain.proxies.clear();
        chain.assert_works();
        chain.test.assert_not_started("proxy");
        // Sessions work as in any other chain.
        chain.new_session("s");
    }
}

/// `stop` for all components, by number and by name. Checklist 100.
#[test]
fn the_stop_policy_ends_the_chain() {
    for option in ["stop", "1=stop", "proxy=stop"] {
        let setup = new_setup().option(&["--on-crash", option]).option(&LONG_GRACE);
        let mut chain = ScriptedChain::start(setup, &["proxy", "agent"], LOADS);
        chain.agent.send(&request("7", "fs/read_text_file", "{}"));
        chain.proxies[0].request("proxy/successor");
        kill(&chain.proxies[0]);
        assert_reports_failure(&chain.agent.message(), "proxy", "signal 9 (SIGKILL)", "");
        chain.agent.exit(0);
        assert_eq!(chain.test.conductor.status(), 1);
        chain.test.assert_not_started("proxy");
    }
}

/// The restart happens after the given delay. Until then no process is started, and messages wait.
#[test]
fn a_restart_waits_for_the_restart_delay() {
    let mut chain = ScriptedChain::start(setup_without_restarts(), &["proxy", "agent"], PLAIN);
    kill(&chain.proxies[0]);
    let component = chain.wait_for_state(1, "restarting");
    assert_eq!((&component["pid"], &component["restarts"]), (&Value::Null, &json!(0)));
    let next = &component["nextStart"];
    assert_eq!(next["attempt"], 1, "{component}");
    assert!(next["inSeconds"].as_f64().is_some_and(|it| it > 60.0), "{component}");
    chain.test.editor.send(&request("1", PROMPT, r#"{"sessionId":"s"}"#));
    wait_until("the prompt waits", || {
        (chain.status()["components"][0]["queue"]["heldMessages"] == 1).then_some(())
    });
    chain.test.assert_not_started("proxy");
}

/// The chain survives every way in which a component can end. The component's children end with it.
/// Checklist 100.
#[test]
fn the_chain_survives_every_way_a_component_can_end() {
    let careless = "trap '' TERM; sleep 1000; sleep 1000";
    let careful = "exec >/dev/null; trap '' TERM; sleep 1000; sleep 1000";
    for (child, order, cause) in [
        (careless, json!({ "exit": 0 }), "exited with status 0"),
        (careless, json!({ "exit": 101 }), "exited with status 101"),
        (careless, json!({ "signal": libc::SIGABRT }), "signal 6 (SIGABRT)"),
        // A child that inherits the pipe would keep it open.
        (careful, json!({ "close_stdout": true }), "closed its standard output"),
    ] {
        let mut chain = ScriptedChain::proxy_and_agent(PLAIN);
        let child = chain.proxies[0].spawn(child);
        chain.test.editor.send(&request("1", PROMPT, r#"{"sessionId":"s"}"#));
        chain.proxies[0].request(PROMPT);
        chain.proxies[0].execute(order);
        let answer = chain.test.editor.message();
        assert_crash(&answer, json!(1), "proxy", cause, "restarted");
        assert_gone(chain.proxies[0].pid, "the old proxy");
        assert_gone(child, "its child");
        chain.await_restart(0);
        chain.expect_replay(0, &[]);
        chain.assert_works();
    }
}

/// The chain also survives a component that no longer reads.
#[test]
fn a_component_that_closes_its_input_is_replaced() {
    let mut chain = ScriptedChain::proxy_and_agent(PLAIN);
    let proxy = &mut chain.proxies[0];
    // It reads one more line and then stops, so that no thread is inside a call to read.
    proxy.execute(json!({ "read_lines": 1 }));
    proxy.sync();
    chain.test.editor.send(&notification("_x/last", "{}"));
    assert_eq!(proxy.message()["method"], "_x/last");
    proxy.execute(json!({ "close_stdin": true }));
    proxy.sync();
    let old = proxy.pid;
    chain.test.editor.send(&request("1", PROMPT, r#"{"sessionId":"s"}"#));
    let answer = chain.test.editor.message();
    assert_crash(&answer, json!(1), "proxy", "closed its standard input", "restarted");
    assert_gone(old, "the old proxy");
    chain.await_restart(0);
    chain.expect_replay(0, &[]);
    chain.assert_works();
}

/// The last line of a failed component may lack its newline and end with its pipe. The conductor must not
/// take that as the end of the next process. The other proxy closes its pipe later and is replaced for it:
/// by then the conductor would have noticed.
#[test]
fn a_last_line_without_a_newline_does_not_end_the_next_process() {
    let refusal =
        |line: &str| testkit::rpc::error(id_of(line), r#"{"code":1,"message":"not now"}"#);
    let refused_again = "refused to be initialized again: not now";
    for at in 0..2 {
        let mut chain = ScriptedChain::start(new_setup(), &["one", "two", "agent"], LOADS);
        match at {
            0 => {
                chain.kill_proxy(0);
                let line = chain.proxies[0].line();
                chain.proxies[0].execute(json!({ "out": refusal(&line), "exit": 1 }));
                chain.test.conductor.wait_for_stderr("not now");
                chain.await_restart(0);
                chain.expect_replay(0, &[]);
            }
            _ => {
                kill(&chain.agent);
                chain.agent = chain.test.wait_for_component("agent");
                let line = chain.agent.line();
                chain.agent.execute(json!({ "out": refusal(&line), "exit": 1 }));
                chain.test.conductor.wait_for_stderr(refused_again);
                chain.await_agent_restart();
            }
        }
        chain.assert_works();
        chain.proxies[1].execute(json!({ "close_stdout": true }));
        chain.await_restart(1);
        chain.expect_replay(1, &[]);
        chain.assert_works();
        let status = chain.status();
        let (number, pid) = if at == 0 { (0, chain.proxies[0].pid) } else { (2, chain.agent.pid) };
        let component = &status["components"][number];
        assert_eq!((&component["state"], &component["pid"]), (&json!("live"), &json!(pid)));
        assert_eq!(component["restarts"], 2, "{component}");
    }
}

// Failures at the start.

/// A component that was never up is a configuration error, so the start fails. `bypass` for all components
/// does not change that, since the proxy may contain a guard.
#[test]
fn a_proxy_that_was_never_up_fails_the_start() {
    for word in ["", "restart", "restart,bypass", "bypass", "1=restart,bypass"] {
        let option = ["--on-crash", word];
        let options = if word.is_empty() { &[][..] } else { &option };
        let setup = new_setup().option(options).option(&SHORT_GRACE).option(&["--dialect", "1=P5"]);
        let mut chain = setup.run_named(&["proxy", "agent"]);
        chain.editor.send(&request("1", "initialize", GREETING));
        let mut proxy = chain.wait_for_component("proxy");
        proxy.request("proxy/initialize");
        proxy.write_stderr("no licence\n");
        proxy.exit(3);
        assert_reports_failure(
            &chain.editor.message(),
            "proxy",
            "exited with status 3",
            "no licence",
        );
        assert_eq!(chain.conductor.status(), 1);
        chain.assert_not_started("proxy");
        let explained = chain.conductor.whole_stderr().contains("name it: --on-crash proxy=bypass");
        assert_eq!(explained, word == "bypass", "{word}");
    }
    for options in [&[][..], &["--on-crash", "bypass"]] {
        let setup = new_setup().option(&SHORT_GRACE).option(options);
        let agent = setup.scripted_command("agent");
        let mut chain = setup.run("agent", &["/nowhere/proxy".into(), agent]);
        chain.editor.send(&request("1", "initialize", GREETING));
        assert_reports_failure(&chain.editor.message(), "proxy", "command not found", "");
        assert_eq!(chain.conductor.status(), 1);
    }
}

/// A proxy that the user allows to be bypassed by name does not fail the start.
#[test]
fn a_proxy_with_the_bypass_policy_is_bypassed_from_the_start() {
    // It exits when it is greeted.
    let options = ["--on-crash", "1=bypass", "--dialect", "1=P5"];
    let mut chain = new_setup().option(&options).run_named(&["proxy", "agent"]);
    chain.editor.send(&request("1", "initialize", GREETING));
    let mut proxy = chain.wait_for_component("proxy");
    proxy.request("proxy/initialize");
    proxy.exit(3);
    assert_up_without_the_proxy(chain);
}

fn assert_up_without_the_proxy(mut chain: TestChain) {
    let mut agent = chain.wait_for_component("agent");
    let line = agent.line();
    assert_eq!(line, request(id_of(&line), "initialize", GREETING));
    agent.send(&result(id_of(&line), PLAIN));
    assert_eq!(chain.editor.line(), result("1", PLAIN));
    let agent_result = PLAIN.to_owned();
    let mut chain = ScriptedChain { test: chain, proxies: Vec::new(), agent, agent_result };
    assert_eq!(chain.status()["components"][0]["state"], "bypassed");
    chain.assert_works();
    chain.test.assert_not_started("proxy");
}

/// The same holds for a proxy that cannot be started or does not answer.
#[test]
fn a_proxy_with_the_bypass_policy_that_cannot_start_or_is_silent_is_bypassed() {
    let setup = new_setup().option(&["--on-crash", "1=bypass"]);
    let agent = setup.scripted_command("agent");
    let mut missing = setup.run("agent", &["/nowhere/proxy".into(), agent]);
    missing.editor.send(&request("1", "initialize", GREETING));
    assert_up_without_the_proxy(missing);

    let setup = new_setup();
    let by_json = json!({ "command": "/nowhere/proxy", "onCrash": "bypass" }).to_string();
    let agent = setup.scripted_command("agent");
    let mut missing = setup.run("agent", &[by_json, agent]);
    missing.editor.send(&request("1", "initialize", GREETING));
    assert_up_without_the_proxy(missing);

    let options = ["--on-crash", "1=bypass", "--dialect", "1=P5", "--init-timeout", "5"];
    let mut silent = new_setup().option(&options).run_named(&["proxy", "agent"]);
    silent.editor.send(&request("1", "initialize", GREETING));
    let mut proxy = silent.wait_for_component("proxy");
    proxy.request("proxy/initialize");
    let pid = proxy.pid;
    assert_up_without_the_proxy(silent);
    assert_gone(pid, "the silent proxy");
}

/// The agent's answer to a greeting that the bypassed proxy had already passed on is not lost.
#[test]
fn the_handshake_completes_when_a_proxy_is_bypassed_during_it() {
    let options = ["--on-crash", "1=bypass"];
    let mut chain = new_setup().option(&options).run_named(&["proxy", "agent"]);
    chain.editor.send(&request("1", "initialize", GREETING));
    let mut proxy = chain.wait_for_component("proxy");
    crate::chain::expect_greeting(&mut proxy);
    let mut agent = chain.wait_for_component("agent");
    let line = agent.line();
    kill(&proxy);
    let agent_result = PLAIN.to_owned();
    let mut chain = ScriptedChain { test: chain, proxies: Vec::new(), agent, agent_result };
    chain.wait_for_state(1, "bypassed");
    chain.agent.send(&result(id_of(&line), PLAIN));
    assert_eq!(chain.test.editor.line(), result("1", PLAIN));
    chain.assert_works();
}

// Failures of the agent.

/// An agent without sessions has nothing to lose. Checklist 99.
#[test]
fn an_agent_without_sessions_is_restarted() {
    let mut chain = ScriptedChain::proxy_and_agent(PLAIN);
    for _ in 0..2 {
        chain.kill_agent();
        chain.assert_works();
    }
    // A closed session does not count.
    chain.new_session("s");
    let closed = chain.request("1", "session/close", r#"{"sessionId":"s"}"#);
    chain.answer(&closed, "{}");
    chain.kill_agent();
    chain.assert_works();
    chain.new_session("s");
}

/// An agent that can restore its sessions is restarted.
#[test]
fn an_agent_that_can_restore_sessions_is_restarted() {
    for (agent_result, method) in [(LOADS, "session/load"), (RESUMES, "session/resume")] {
        let mut chain = ScriptedChain::proxy_and_agent(agent_result);
        chain.new_session("s");
        chain.kill_agent();
        let received = chain.agent.request(method);
        chain.agent.answer(&received, "{}");
        chain.assert_works();
    }
}

/// The chain ends with an error if the agent would lose its sessions. Checklist 99.
#[test]
fn an_agent_that_would_lose_its_sessions_stops_the_chain() {
    for known in [true, false] {
        let mut chain =
            ScriptedChain::start(new_setup().option(&LONG_GRACE), &["proxy", "agent"], PLAIN);
        // The conductor also counts sessions that it has not seen begin.
        if known {
            chain.new_session("s");
        }
        chain.prompt("1", "s");
        chain.agent.write_stderr("out of memory\n");
        chain.agent.exit(3);
        forward_next(&mut chain.proxies[0]);
        let answer = chain.test.editor.message();
        assert_eq!(answer["id"], 1, "{answer}");
        assert_reports_failure(&answer, "agent", "exited with status 3", "out of memory");
        assert!(!answer.to_string().contains("send the request again"), "{answer}");
        chain.proxies[0].exit(0);
        assert_eq!(chain.test.conductor.status(), 1);
        chain.test.assert_not_started("agent");
    }
}

/// The user can ask for a restart all the same. The sessions are lost, and new ones work.
#[test]
fn an_agent_that_would_lose_its_sessions_is_restarted_if_the_user_asks_for_it() {
    for option in ["restart", "agent=restart", "2=restart,stop"] {
        let setup = new_setup().option(&["--on-crash", option]);
        let mut chain = ScriptedChain::start(setup, &["proxy", "agent"], PLAIN);
        chain.new_session("s");
        chain.kill_agent();
        chain.assert_works();
        chain.test.editor.send(&request("1", PROMPT, &crate::chain::prompt("s")));
        forward_next(&mut chain.proxies[0]);
        forward_next(&mut chain.proxies[0]);
        let answer = chain.test.editor.message();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32002)));
        let message = answer["error"]["message"].as_str().expect("a message");
        for word in ["agent 'agent'", "session 's'", "SIGKILL", "Start a new session"] {
            assert!(message.contains(word), "{word:?} is not in {message:?}");
        }
        chain.new_session("t");
        chain.assert_works();
    }
}

/// An agent cannot be bypassed, so the chain stops when it crashes too often.
#[test]
fn an_agent_that_crashes_too_often_stops_the_chain() {
    for option in ["restart", "bypass", "restart,bypass"] {
        let options = ["--on-crash", option, "--restarts", "1/600"];
        let setup = new_setup().option(&options).option(&SHORT_GRACE);
        let mut chain = ScriptedChain::start(setup, &["agent"], LOADS);
        chain.kill_agent();
        chain.assert_works();
        chain.prompt("1", "s");
        kill(&chain.agent);
        assert_reports_failure(&chain.test.editor.message(), "agent", "SIGKILL", "");
        assert_eq!(chain.test.conductor.status(), 1);
    }
}
