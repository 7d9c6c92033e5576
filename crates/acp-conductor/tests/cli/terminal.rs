//! What a user sees who runs a command for editors in a terminal.

use std::process::{Command, Stdio};

use testkit::terminal::Terminal;
use testkit::test_chain::directory;

use super::INITIALIZE;

fn start(arguments: &[&str]) -> Terminal {
    let mut command = Command::new(env!("CARGO_BIN_EXE_conductor"));
    Terminal::start(command.args(arguments), Some(Stdio::piped()))
}

#[test]
fn on_a_terminal_the_chain_says_that_it_waits_for_an_editor() {
    let mut agent = start(&["agent", "--guard", "log", "log --level warn", "demo-agent"]);
    agent.wait_for("waiting for ACP messages from an editor on standard input");
    agent.wait_for("\r\n  conductor try --guard log -- 'log --level warn' demo-agent\r\n");
    agent.press("\x04");
    assert!(agent.wait().success());
    assert_eq!(agent.read_stdout(), "");

    let mut proxy = start(&["proxy", "log --level warn"]);
    proxy.wait_for("waiting for ACP messages from another conductor");
    proxy.wait_for("\r\n  conductor try -- 'log --level warn' demo-agent\r\n");
    proxy.press("\x03");
    proxy.wait();
    assert_eq!(proxy.read_stdout(), "");
}

#[test]
fn on_a_terminal_a_wait_of_more_than_a_second_is_explained() {
    // The proxy waits for the agent, which does not answer.
    let place = directory("wait");
    let file = place.join("go");
    let wait = format!("until [ -e {} ]; do sleep 0.1; done", file.display());
    let agent = format!("sh -c '{wait}; echo slowly >&2; exec sleep 600'");
    let mut explain = start(&["agent", "--explain", "log --level error", &agent]);
    explain.wait_for("\r\x1b[Kwaiting for sh to answer initialize… ");
    std::fs::write(&file, "").expect("a file");
    // Other lines do not begin in the middle of this one.
    explain.wait_for("\r\x1b[K[sh] slowly\r\n");
    explain.wait_for("\r\x1b[Kwaiting for sh to answer initialize… ");
    explain.press("\x03");
    explain.wait_for("\r\x1b[Kconductor: interrupted before the handshake was complete");
    assert_eq!(explain.wait().code(), Some(1));
    assert!(explain.read_stdout().contains("did not answer initialize"));
    std::fs::remove_dir_all(place).expect("the directory is ours");

    let mut agent =
        start(&["agent", "--grace", "6", "sh -c 'trap \"\" TERM; echo up >&2; read x; sleep 600'"]);
    agent.wait_for("conductor try --grace 6 -- ");
    agent.press(&format!("{INITIALIZE}\r"));
    agent.wait_for("[sh] up");
    agent.press("\x03");
    agent.wait_for("\r\x1b[Kwaiting for sh to ");
    agent.wait();
}
