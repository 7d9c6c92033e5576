//! The end of chains whose components were restarted, are left out, or are being restarted just then,
//! with components that ignore signals, have children, and leave daemons behind. (Those of chains that
//! nothing has happened to are in `processes.rs`.)

use serde_json::json;
use testkit::test_chain::{
    ScriptedComponent, TestChain, TestChainBuilder, assert_gone, is_alive, signal, wait_until,
};

use crate::{growth, test_chain, usage};

/// A grace period that no test lives to see, and one that is over at once.
const PATIENT: [&str; 2] = ["--grace", "600"];
const IMPATIENT: [&str; 2] = ["--grace", "0.3"];

const AT_ONCE: [&str; 4] = ["--restarts", "1000/3600", "--restart-delay", "0..0"];
const NEVER: [&str; 4] = ["--restarts", "1000/3600", "--restart-delay", "600..600"];

/// A child that only SIGKILL ends, and that holds the pipes of its parent open.
const STUBBORN: &str = "trap '' TERM INT HUP; sleep 1000; sleep 1000";

/// A grandchild of nobody: it has left the group and the session. Says its process id to the one who waits
/// for it in a file.
const DAEMON: &str = "setsid sh -c 'echo $$ > \"$0\"; exec sleep 1000' ";

fn pair(setup: TestChainBuilder) -> (TestChain, ScriptedComponent, ScriptedComponent) {
    let mut chain = setup.run_named(&["proxy", "agent"]);
    let mut components = chain.initialize(&["proxy", "agent"]).into_iter();
    let (proxy, agent) =
        (components.next().expect("a proxy"), components.next().expect("an agent"));
    (chain, proxy, agent)
}

/// The next one in the proxy's seat, once it can be spoken to.
fn next_proxy(chain: &mut TestChain) -> ScriptedComponent {
    let mut proxy = chain.wait_for_component("proxy");
    let asked = proxy.request("proxy/initialize");
    proxy.answer(&asked, r#"{"protocolVersion":1,"agentCapabilities":{}}"#);
    proxy
}

fn make_stubborn(component: &mut ScriptedComponent) -> u32 {
    component.ignore_signals();
    component.spawn(STUBBORN)
}

/// Something passes through the proxy.
fn pass(chain: &mut TestChain, proxy: &mut ScriptedComponent) {
    chain.editor.send(r#"{"jsonrpc":"2.0","id":9,"method":"x/y","params":{}}"#);
    let asked = proxy.request("x/y");
    proxy.answer(&asked, "{}");
    loop {
        let message = chain.editor.message();
        if message["id"] == 9 {
            return assert!(message["result"].is_object(), "{message}");
        }
    }
}

#[test]
fn who_was_restarted_ends_as_its_predecessor_would_have() {
    let (mut chain, mut proxy, agent) = pair(test_chain().option(&AT_ONCE).option(&IMPATIENT));
    for _ in 0..3 {
        let child = make_stubborn(&mut proxy);
        signal(proxy.pid, libc::SIGKILL);
        assert_gone(child, "the child of one that was killed");
        proxy = next_proxy(&mut chain);
    }
    let child = make_stubborn(&mut proxy);
    chain.editor.close();
    assert_eq!(proxy.next_line(), None);
    assert_eq!(chain.conductor.status(), 0);
    for pid in [proxy.pid, child, agent.pid] {
        assert_gone(pid, "whoever is left");
    }
}

#[test]
fn who_was_restarted_dies_with_a_conductor_that_is_killed() {
    let (mut chain, proxy, mut agent) = pair(test_chain().option(&AT_ONCE));
    signal(proxy.pid, libc::SIGKILL);
    let mut proxy = next_proxy(&mut chain);
    let children = [make_stubborn(&mut proxy), make_stubborn(&mut agent)];
    chain.conductor.signal(libc::SIGKILL);
    chain.conductor.status();
    for pid in [proxy.pid, agent.pid].into_iter().chain(children) {
        assert_gone(pid, "whoever is left");
    }
}

/// Its process lives, but not in the chain: it is ended at once.
#[test]
fn who_is_left_out_is_ended_with_its_children_while_the_chain_goes_on() {
    let setup = test_chain().option(&["--on-crash", "proxy=bypass"]).option(&PATIENT);
    let (mut chain, mut proxy, mut agent) = pair(setup);
    proxy.ignore_signals();
    let child = proxy.spawn(&format!("exec >/dev/null; {STUBBORN}"));
    proxy.execute(json!({ "close_stdout": true }));
    assert_gone(proxy.pid, "the proxy");
    assert_gone(child, "its child");
    pass(&mut chain, &mut agent);
    chain.editor.close();
    agent.exit(0);
    assert_eq!(chain.conductor.status(), 0);
}

#[test]
fn a_chain_ends_though_a_component_waits_to_be_restarted() {
    for end in [None, Some(libc::SIGTERM), Some(libc::SIGINT)] {
        let (mut chain, proxy, mut agent) = pair(test_chain().option(&NEVER).option(&IMPATIENT));
        signal(proxy.pid, libc::SIGKILL);
        chain.editor.send(r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{}}"#);
        wait_until("it is known", || chain.conductor.stderr().contains("restarted").then_some(()));
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
        assert!(!chain.has_started("proxy"));
    }
}

#[test]
fn a_chain_ends_though_a_component_is_being_greeted_again() {
    for end in [None, Some(libc::SIGTERM), Some(libc::SIGKILL)] {
        let (mut chain, proxy, agent) = pair(test_chain().option(&AT_ONCE).option(&IMPATIENT));
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
            assert_gone(pid, "whoever is left");
        }
    }
}

/// Starts a daemon from a component; gives its process.
fn daemonize(component: &mut ScriptedComponent, name: &str, prefix: &str) -> u32 {
    let file = testkit::test_chain::directory(name).join("pid");
    component.spawn(&format!("{prefix}{DAEMON}'{}' &", file.display()));
    wait_until("the daemon runs", || std::fs::read_to_string(&file).ok()?.trim().parse().ok())
}

/// A prefix with which a daemon lets go of its standard streams.
const LETS_GO: &str = "exec </dev/null >/dev/null 2>&1 ; ";

/// It has left its group and its session, and holds standard output and error of a life that is over.
#[test]
fn strays_of_an_earlier_life_are_ended_with_it() {
    let (mut chain, mut proxy, mut agent) = pair(test_chain().option(&AT_ONCE).option(&PATIENT));
    let mut before = None;
    for life in 0..12 {
        let stray = daemonize(&mut proxy, &format!("stray-{life}"), "");
        let own = daemonize(&mut agent, &format!("other-{life}"), "");
        signal(proxy.pid, libc::SIGKILL);
        proxy = next_proxy(&mut chain);
        pass(&mut chain, &mut proxy);
        assert_gone(stray, "the stray of a proxy that is gone");
        assert!(is_alive(own), "those of others are not touched");
        signal(own, libc::SIGKILL);
        if life == 1 {
            before = Some(usage(chain.conductor.pid()));
        }
    }
    let grown = growth(chain.conductor.pid(), before.expect("there were two lives"));
    assert!(grown < 2048, "the conductor has grown by {grown} KiB");
    chain.editor.close();
    proxy.exit(0);
    agent.exit(0);
    assert_eq!(chain.conductor.status(), 0);
}

/// Who lets go of its standard streams, too, means to stay, as the daemons of build tools do; but it
/// keeps nobody from going on, and nothing open.
#[test]
fn a_daemon_that_lets_go_of_its_streams_lives_on() {
    let (mut chain, mut proxy, mut agent) = pair(test_chain().option(&AT_ONCE).option(&PATIENT));
    let daemon = daemonize(&mut proxy, "daemon", LETS_GO);
    signal(proxy.pid, libc::SIGKILL);
    proxy = next_proxy(&mut chain);
    pass(&mut chain, &mut proxy);
    chain.editor.close();
    proxy.exit(0);
    agent.exit(0);
    assert_eq!(chain.conductor.status(), 0);
    assert!(is_alive(daemon));
    signal(daemon, libc::SIGKILL);
}

#[test]
fn strays_do_not_outlive_the_chain() {
    for prefix in ["", "exec 0<&- ; ", "exec 2>/dev/null ; ", "exec 1>/dev/null ; "] {
        let (mut chain, mut proxy, mut agent) =
            pair(test_chain().option(&AT_ONCE).option(&IMPATIENT));
        let strays =
            [daemonize(&mut proxy, "stray-a", prefix), daemonize(&mut agent, "stray-b", prefix)];
        agent.ignore_signals();
        chain.editor.close();
        assert_eq!(chain.conductor.status(), 0, "{prefix}");
        assert_gone(proxy.pid, "the proxy");
        assert_gone(agent.pid, "the agent");
        strays.into_iter().for_each(|pid| assert_gone(pid, "a stray"));
    }
}

#[test]
fn strays_do_not_outlive_a_conductor_that_is_killed() {
    let (chain, mut proxy, _agent) = pair(test_chain());
    let stray = daemonize(&mut proxy, "stray", "");
    signal(chain.conductor.pid(), libc::SIGKILL);
    assert_gone(proxy.pid, "the proxy");
    assert_gone(stray, "the stray");
}
