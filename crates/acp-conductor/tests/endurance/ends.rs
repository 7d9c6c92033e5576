//! The end of chains whose components were restarted, are bypassed or are being restarted, with components
//! that ignore signals, have children, and leave daemons behind. (`processes.rs` has the end of chains without
//! failures.)

use serde_json::json;
use testkit::test_chain::{
    ScriptedComponent, TestChain, TestChainBuilder, assert_gone, is_alive, signal, wait_until,
};

use crate::{growth, new_setup, usage};

/// A grace period longer than any test, and a short one.
const LONG_GRACE: [&str; 2] = ["--grace", "600"];
const SHORT_GRACE: [&str; 2] = ["--grace", "0.3"];

const RESTART_AT_ONCE: [&str; 4] = ["--restarts", "1000/3600", "--restart-delay", "0..0"];
const RESTART_NEVER: [&str; 4] = ["--restarts", "1000/3600", "--restart-delay", "600..600"];

/// A child that only SIGKILL ends, and that holds the pipes of its parent open.
const STUBBORN_CHILD: &str = "trap '' TERM INT HUP; sleep 1000; sleep 1000";

/// A process that has left the process group and the session of its parent. It writes its process id to a
/// file.
const DAEMON: &str = "setsid sh -c 'echo $$ > \"$0\"; exec sleep 1000' ";

fn start_pair(setup: TestChainBuilder) -> (TestChain, ScriptedComponent, ScriptedComponent) {
    let mut chain = setup.run_named(&["proxy", "agent"]);
    let mut components = chain.initialize(&["proxy", "agent"]).into_iter();
    let (proxy, agent) =
        (components.next().expect("a proxy"), components.next().expect("an agent"));
    (chain, proxy, agent)
}

/// Greets the restarted proxy.
fn next_proxy(chain: &mut TestChain) -> ScriptedComponent {
    let mut proxy = chain.wait_for_component("proxy");
    let received = proxy.request("proxy/initialize");
    proxy.answer(&received, r#"{"protocolVersion":1,"agentCapabilities":{}}"#);
    proxy
}

fn make_stubborn(component: &mut ScriptedComponent) -> u32 {
    component.ignore_signals();
    component.spawn(STUBBORN_CHILD)
}

/// A request passes to this component, and its answer back.
fn request_through(chain: &mut TestChain, proxy: &mut ScriptedComponent) {
    chain.editor.send(r#"{"jsonrpc":"2.0","id":9,"method":"x/y","params":{}}"#);
    let received = proxy.request("x/y");
    proxy.answer(&received, "{}");
    loop {
        let message = chain.editor.message();
        if message["id"] == 9 {
            return assert!(message["result"].is_object(), "{message}");
        }
    }
}

#[test]
fn a_restarted_component_and_its_children_end_with_the_chain() {
    let (mut chain, mut proxy, agent) =
        start_pair(new_setup().option(&RESTART_AT_ONCE).option(&SHORT_GRACE));
    for _ in 0..3 {
        let child = make_stubborn(&mut proxy);
        signal(proxy.pid, libc::SIGKILL);
        assert_gone(child, "the child of a killed component");
        proxy = next_proxy(&mut chain);
    }
    let child = make_stubborn(&mut proxy);
    chain.editor.close();
    assert_eq!(proxy.next_line(), None);
    assert_eq!(chain.conductor.status(), 0);
    for pid in [proxy.pid, child, agent.pid] {
        assert_gone(pid, "a leftover process");
    }
}

#[test]
fn a_restarted_component_ends_with_a_killed_conductor() {
    let (mut chain, proxy, mut agent) = start_pair(new_setup().option(&RESTART_AT_ONCE));
    signal(proxy.pid, libc::SIGKILL);
    let mut proxy = next_proxy(&mut chain);
    let children = [make_stubborn(&mut proxy), make_stubborn(&mut agent)];
    chain.conductor.signal(libc::SIGKILL);
    chain.conductor.status();
    for pid in [proxy.pid, agent.pid].into_iter().chain(children) {
        assert_gone(pid, "a leftover process");
    }
}

/// A bypassed component is ended at once.
#[test]
fn a_bypassed_component_is_ended_with_its_children() {
    let setup = new_setup().option(&["--on-crash", "proxy=bypass"]).option(&LONG_GRACE);
    let (mut chain, mut proxy, mut agent) = start_pair(setup);
    proxy.ignore_signals();
    let child = proxy.spawn(&format!("exec >/dev/null; {STUBBORN_CHILD}"));
    proxy.execute(json!({ "close_stdout": true }));
    assert_gone(proxy.pid, "the proxy");
    assert_gone(child, "its child");
    request_through(&mut chain, &mut agent);
    chain.editor.close();
    agent.exit(0);
    assert_eq!(chain.conductor.status(), 0);
}

#[test]
fn a_chain_can_end_while_a_component_waits_for_its_restart() {
    for end in [None, Some(libc::SIGTERM), Some(libc::SIGINT)] {
        let (mut chain, proxy, mut agent) =
            start_pair(new_setup().option(&RESTART_NEVER).option(&SHORT_GRACE));
        signal(proxy.pid, libc::SIGKILL);
        chain.editor.send(r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{}}"#);
        chain.conductor.wait_for_stderr("restarted");
        match end {
            None => chain.editor.close(),
            Some(signal) => chain.conductor.signal(signal),
        }
        let answer = chain.editor.message();
        assert!(answer["id"] == 1 && answer["error"]["message"].is_string(), "{answer}");
        assert_eq!(chain.editor.next_line(), None);
        assert_eq!(agent.next_line(), None);
        assert_eq!(chain.conductor.status(), 0);
        assert_gone(agent.pid, "the agent");
        chain.assert_not_started("proxy");
    }
}

#[test]
fn a_chain_can_end_while_a_restarted_component_is_greeted() {
    for end in [None, Some(libc::SIGTERM), Some(libc::SIGKILL)] {
        let (mut chain, proxy, agent) =
            start_pair(new_setup().option(&RESTART_AT_ONCE).option(&SHORT_GRACE));
        signal(proxy.pid, libc::SIGKILL);
        let mut proxy = chain.wait_for_component("proxy");
        proxy.request("proxy/initialize");
        let child = make_stubborn(&mut proxy);
        match end {
            None => chain.editor.close(),
            Some(signal) => chain.conductor.signal(signal),
        }
        let status = if end == Some(libc::SIGKILL) { 128 + libc::SIGKILL } else { 0 };
        assert_eq!(chain.conductor.status(), status);
        for pid in [proxy.pid, child, agent.pid] {
            assert_gone(pid, "a leftover process");
        }
    }
}

/// Starts a daemon from a component. Returns its process id.
fn daemonize(component: &mut ScriptedComponent, name: &str, prefix: &str) -> u32 {
    let file = testkit::test_chain::directory(name).join("pid");
    component.spawn(&format!("{prefix}{DAEMON}'{}' &", file.display()));
    wait_until("the daemon runs", || std::fs::read_to_string(&file).ok()?.trim().parse().ok())
}

/// A shell prefix with which a daemon closes its standard streams.
const CLOSE_STREAMS: &str = "exec </dev/null >/dev/null 2>&1 ; ";

/// A daemon of an earlier process that still holds that process's standard output and error.
#[test]
fn leftover_daemons_of_a_crashed_component_are_ended() {
    let (mut chain, mut proxy, mut agent) =
        start_pair(new_setup().option(&RESTART_AT_ONCE).option(&LONG_GRACE));
    let mut before = None;
    for round in 0..12 {
        let daemon = daemonize(&mut proxy, &format!("stray-{round}"), "");
        let other_daemon = daemonize(&mut agent, &format!("other-{round}"), "");
        signal(proxy.pid, libc::SIGKILL);
        proxy = next_proxy(&mut chain);
        request_through(&mut chain, &mut proxy);
        assert_gone(daemon, "the daemon of a killed proxy");
        assert!(is_alive(other_daemon), "the daemon of another component lives on");
        signal(other_daemon, libc::SIGKILL);
        if round == 1 {
            before = Some(usage(chain.conductor.pid()));
        }
    }
    let grown = growth(chain.conductor.pid(), before.expect("there were two restarts"));
    assert!(grown < 2048, "the conductor has grown by {grown} KiB");
    chain.editor.close();
    proxy.exit(0);
    agent.exit(0);
    assert_eq!(chain.conductor.status(), 0);
}

/// A daemon that also closes its standard streams is meant to live on, like the daemons of build tools. It
/// does not hold up the chain.
#[test]
fn a_daemon_that_closed_its_standard_streams_lives_on() {
    let (mut chain, mut proxy, mut agent) =
        start_pair(new_setup().option(&RESTART_AT_ONCE).option(&LONG_GRACE));
    let daemon = daemonize(&mut proxy, "daemon", CLOSE_STREAMS);
    signal(proxy.pid, libc::SIGKILL);
    proxy = next_proxy(&mut chain);
    request_through(&mut chain, &mut proxy);
    chain.editor.close();
    proxy.exit(0);
    agent.exit(0);
    assert_eq!(chain.conductor.status(), 0);
    assert!(is_alive(daemon));
    signal(daemon, libc::SIGKILL);
}

#[test]
fn leftover_daemons_end_with_the_chain() {
    for prefix in ["", "exec 0<&- ; ", "exec 2>/dev/null ; ", "exec 1>/dev/null ; "] {
        let (mut chain, mut proxy, mut agent) =
            start_pair(new_setup().option(&RESTART_AT_ONCE).option(&SHORT_GRACE));
        let daemons =
            [daemonize(&mut proxy, "stray-a", prefix), daemonize(&mut agent, "stray-b", prefix)];
        agent.ignore_signals();
        chain.editor.close();
        assert_eq!(chain.conductor.status(), 0, "{prefix}");
        assert_gone(proxy.pid, "the proxy");
        assert_gone(agent.pid, "the agent");
        daemons.into_iter().for_each(|pid| assert_gone(pid, "a daemon"));
    }
}

#[test]
fn leftover_daemons_end_with_a_killed_conductor() {
    let (chain, mut proxy, _agent) = start_pair(new_setup());
    let daemon = daemonize(&mut proxy, "daemon", "");
    signal(chain.conductor.pid(), libc::SIGKILL);
    assert_gone(proxy.pid, "the proxy");
    assert_gone(daemon, "the daemon");
}
