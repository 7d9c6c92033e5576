//! The end of chains whose components were restarted, are left out, or are being restarted just then,
//! with components that ignore signals, have children, and leave daemons behind. (Those of chains that
//! nothing has happened to are in `processes.rs`.)

use serde_json::json;
use testkit::stage::{Puppet, Setup, Stage, alive, assert_gone, signal, wait_until};

use crate::{growth, stage, usage};

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

fn pair(setup: Setup) -> (Stage, Puppet, Puppet) {
    let mut stage = setup.named(&["proxy", "agent"]);
    let mut puppets = stage.initialize(&["proxy", "agent"]).into_iter();
    let (proxy, agent) = (puppets.next().expect("a proxy"), puppets.next().expect("an agent"));
    (stage, proxy, agent)
}

/// The next one in the proxy's seat, once it can be spoken to.
fn next_proxy(stage: &mut Stage) -> Puppet {
    let mut proxy = stage.enter("proxy");
    let asked = proxy.request("proxy/initialize");
    proxy.answer(&asked, r#"{"protocolVersion":1,"agentCapabilities":{}}"#);
    proxy
}

fn make_stubborn(component: &mut Puppet) -> u32 {
    component.ignore_signals();
    component.spawn(STUBBORN)
}

/// Something passes through the proxy.
fn pass(stage: &mut Stage, proxy: &mut Puppet) {
    stage.editor.send(r#"{"jsonrpc":"2.0","id":9,"method":"x/y","params":{}}"#);
    let asked = proxy.request("x/y");
    proxy.answer(&asked, "{}");
    loop {
        let message = stage.editor.message();
        if message["id"] == 9 {
            return assert!(message["result"].is_object(), "{message}");
        }
    }
}

#[test]
fn who_was_restarted_ends_as_its_predecessor_would_have() {
    let (mut stage, mut proxy, agent) = pair(stage().option(&AT_ONCE).option(&IMPATIENT));
    for _ in 0..3 {
        let child = make_stubborn(&mut proxy);
        signal(proxy.pid, libc::SIGKILL);
        assert_gone(child, "the child of one that was killed");
        proxy = next_proxy(&mut stage);
    }
    let child = make_stubborn(&mut proxy);
    stage.editor.leave();
    assert_eq!(proxy.next_line(), None);
    assert_eq!(stage.conductor.status(), 0);
    for pid in [proxy.pid, child, agent.pid] {
        assert_gone(pid, "whoever is left");
    }
}

#[test]
fn who_was_restarted_dies_with_a_conductor_that_is_killed() {
    let (mut stage, proxy, mut agent) = pair(stage().option(&AT_ONCE));
    signal(proxy.pid, libc::SIGKILL);
    let mut proxy = next_proxy(&mut stage);
    let children = [make_stubborn(&mut proxy), make_stubborn(&mut agent)];
    stage.conductor.signal(libc::SIGKILL);
    stage.conductor.status();
    for pid in [proxy.pid, agent.pid].into_iter().chain(children) {
        assert_gone(pid, "whoever is left");
    }
}

/// Its process lives, but not in the chain: it is ended at once.
#[test]
fn who_is_left_out_is_ended_with_its_children_while_the_chain_goes_on() {
    let setup = stage().option(&["--on-crash", "proxy=bypass"]).option(&PATIENT);
    let (mut stage, mut proxy, mut agent) = pair(setup);
    proxy.ignore_signals();
    let child = proxy.spawn(&format!("exec >/dev/null; {STUBBORN}"));
    proxy.order(json!({ "close_stdout": true }));
    assert_gone(proxy.pid, "the proxy");
    assert_gone(child, "its child");
    pass(&mut stage, &mut agent);
    stage.editor.leave();
    agent.exit(0);
    assert_eq!(stage.conductor.status(), 0);
}

#[test]
fn a_chain_ends_though_a_component_waits_to_be_restarted() {
    for end in [None, Some(libc::SIGTERM), Some(libc::SIGINT)] {
        let (mut stage, proxy, mut agent) = pair(stage().option(&NEVER).option(&IMPATIENT));
        signal(proxy.pid, libc::SIGKILL);
        stage.editor.send(r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{}}"#);
        wait_until("it is known", || stage.conductor.stderr().contains("restarted").then_some(()));
        match end {
            None => stage.editor.leave(),
            Some(signal) => stage.conductor.signal(signal),
        }
        let answer = stage.editor.message();
        assert!(answer["id"] == 1 && answer["error"]["message"].is_string(), "{answer}");
        assert_eq!(stage.editor.next_line(), None);
        assert_eq!(agent.next_line(), None);
        assert_eq!(stage.conductor.status(), 0);
        assert_gone(agent.pid, "the agent");
        assert!(!stage.has_entered("proxy"));
    }
}

#[test]
fn a_chain_ends_though_a_component_is_being_greeted_again() {
    for end in [None, Some(libc::SIGTERM), Some(libc::SIGKILL)] {
        let (mut stage, proxy, agent) = pair(stage().option(&AT_ONCE).option(&IMPATIENT));
        signal(proxy.pid, libc::SIGKILL);
        let mut proxy = stage.enter("proxy");
        proxy.request("proxy/initialize");
        let child = make_stubborn(&mut proxy);
        match end {
            None => stage.editor.leave(),
            Some(signal) => stage.conductor.signal(signal),
        }
        let status = if end == Some(libc::SIGKILL) { 128 + libc::SIGKILL } else { 0 };
        assert_eq!(stage.conductor.status(), status);
        for pid in [proxy.pid, child, agent.pid] {
            assert_gone(pid, "whoever is left");
        }
    }
}

/// Starts a daemon from a component; gives its process.
fn daemonize(component: &mut Puppet, name: &str, prefix: &str) -> u32 {
    let file = testkit::stage::directory(name).join("pid");
    component.spawn(&format!("{prefix}{DAEMON}'{}' &", file.display()));
    wait_until("the daemon runs", || std::fs::read_to_string(&file).ok()?.trim().parse().ok())
}

/// A prefix with which a daemon lets go of its standard streams.
const LETS_GO: &str = "exec </dev/null >/dev/null 2>&1 ; ";

/// It has left its group and its session, and holds standard output and error of a life that is over.
#[test]
fn strays_of_an_earlier_life_are_ended_with_it() {
    let (mut stage, mut proxy, mut agent) = pair(stage().option(&AT_ONCE).option(&PATIENT));
    let mut before = None;
    for life in 0..12 {
        let stray = daemonize(&mut proxy, &format!("stray-{life}"), "");
        let own = daemonize(&mut agent, &format!("other-{life}"), "");
        signal(proxy.pid, libc::SIGKILL);
        proxy = next_proxy(&mut stage);
        pass(&mut stage, &mut proxy);
        assert_gone(stray, "the stray of a proxy that is gone");
        assert!(alive(own), "those of others are not touched");
        signal(own, libc::SIGKILL);
        if life == 1 {
            before = Some(usage(stage.conductor.pid()));
        }
    }
    let grown = growth(stage.conductor.pid(), before.expect("there were two lives"));
    assert!(grown < 2048, "the conductor has grown by {grown} KiB");
    stage.editor.leave();
    proxy.exit(0);
    agent.exit(0);
    assert_eq!(stage.conductor.status(), 0);
}

/// Who lets go of its standard streams, too, means to stay, as the daemons of build tools do; but it
/// keeps nobody from going on, and nothing open.
#[test]
fn a_daemon_that_lets_go_of_its_streams_lives_on() {
    let (mut stage, mut proxy, mut agent) = pair(stage().option(&AT_ONCE).option(&PATIENT));
    let daemon = daemonize(&mut proxy, "daemon", LETS_GO);
    signal(proxy.pid, libc::SIGKILL);
    proxy = next_proxy(&mut stage);
    pass(&mut stage, &mut proxy);
    stage.editor.leave();
    proxy.exit(0);
    agent.exit(0);
    assert_eq!(stage.conductor.status(), 0);
    assert!(alive(daemon));
    signal(daemon, libc::SIGKILL);
}

#[test]
fn strays_do_not_outlive_the_chain() {
    for prefix in ["", "exec 0<&- ; ", "exec 2>/dev/null ; ", "exec 1>/dev/null ; "] {
        let (mut stage, mut proxy, mut agent) = pair(stage().option(&AT_ONCE).option(&IMPATIENT));
        let strays =
            [daemonize(&mut proxy, "stray-a", prefix), daemonize(&mut agent, "stray-b", prefix)];
        agent.ignore_signals();
        stage.editor.leave();
        assert_eq!(stage.conductor.status(), 0, "{prefix}");
        assert_gone(proxy.pid, "the proxy");
        assert_gone(agent.pid, "the agent");
        strays.into_iter().for_each(|pid| assert_gone(pid, "a stray"));
    }
}

#[test]
fn strays_do_not_outlive_a_conductor_that_is_killed() {
    let (stage, mut proxy, _agent) = pair(stage());
    let stray = daemonize(&mut proxy, "stray", "");
    signal(stage.conductor.pid(), libc::SIGKILL);
    assert_gone(proxy.pid, "the proxy");
    assert_gone(stray, "the stray");
}
