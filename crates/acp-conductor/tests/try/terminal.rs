//! `conductor try` in a terminal.

use testkit::terminal::Terminal;
use testkit::test_chain::{directory, wait_until, write_script};

use super::{agent, conductor};

/// Starts a chat in a terminal.
fn start(arguments: &[&str], environment: &[(&str, &str)]) -> Terminal {
    let mut command = conductor(&[&["try"], arguments].concat());
    command.env("NO_COLOR", "1").env("XDG_STATE_HOME", directory("try-state"));
    Terminal::start(command.envs(environment.iter().copied()), None)
}

/// The end of the welcome.
const WELCOME: &str = "Ctrl-D leaves.";

#[test]
fn in_a_terminal_the_user_can_edit_interrupt_and_leave() {
    let mut terminal = start(&["--", "demo-agent --pace 50"], &[]);
    let welcome = terminal.wait_for(WELCOME);
    assert!(welcome.contains("You are talking to demo-agent"), "{welcome}");
    // Backspace, and a line that Ctrl-C discards.
    terminal.press("helloo\x7f\r");
    terminal.wait_for("Hello! You said “hello”");
    terminal.press("a long story\r");
    terminal.wait_for("Once upon a time");
    terminal.press("never sent\r");
    terminal.press("\x03");
    terminal.wait_for("1 queued line was discarded");
    terminal.wait_for("cancelled");
    terminal.press("nonsense");
    terminal.wait_for("nonsense");
    terminal.press("\x03");
    terminal.press("/exit\r");
    assert_eq!(terminal.wait().code(), Some(0));
    assert!(!terminal.rest().contains("playing still"), "{}", terminal.rest());
    assert!(terminal.echoes());
}

#[test]
fn in_a_terminal_the_user_is_asked_for_permission() {
    let mut terminal = start(&["--", "demo-agent --pace 0"], &[]);
    terminal.wait_for(WELCOME);
    for (key, shown) in [("1", "✓ Edit demo.txt"), ("n", "✗ Edit demo.txt"), ("\x03", "cancelled")]
    {
        terminal.press("edit the file\r");
        terminal.wait_for("? Edit demo.txt");
        terminal.wait_for("Press a key");
        terminal.press(key);
        terminal.wait_for(shown);
    }
    terminal.press("\x04");
    assert_eq!(terminal.wait().code(), Some(0));
}

#[test]
fn the_terminal_is_restored_when_the_chat_is_killed() {
    let mut terminal = start(&["--", "demo-agent"], &[]);
    terminal.wait_for(WELCOME);
    wait_until("the line is edited", || (!terminal.echoes()).then_some(()));
    let pid = i32::try_from(terminal.pid()).expect("a process id");
    // SAFETY: a signal to a child that was not waited for.
    assert_eq!(unsafe { libc::kill(pid, libc::SIGTERM) }, 0);
    terminal.wait();
    assert!(terminal.echoes());
}

#[test]
fn in_a_dumb_terminal_the_user_is_asked_for_permission() {
    for (options, term) in [(&[][..], "dumb"), (&["--plain"], "xterm")] {
        let arguments = [options, &["--", "demo-agent --pace 0"]].concat();
        let mut terminal = start(&arguments, &[("TERM", term)]);
        terminal.wait_for(WELCOME);
        terminal.press("edit the file\r");
        terminal.wait_for("Reject");
        terminal.press("1\r");
        let shown = terminal.wait_for("I only pretend");
        assert!(!shown.contains('\x1b'), "{shown:?}");
        terminal.press("\x04");
        assert_eq!(terminal.wait().code(), Some(0));
    }
}

#[test]
fn an_agent_that_is_killed_ends_the_chat_in_a_terminal() {
    let agent = agent("try-idle", "kill -9 $$");
    let mut terminal = start(&["--", agent.to_str().expect("a path")], &[]);
    terminal.wait_for(WELCOME);
    terminal.press("die\r");
    terminal.wait_for("signal 9");
    assert_eq!(terminal.wait().code(), Some(1));
    assert!(terminal.echoes());
}

/// A component that never answers must not delay the exit.
#[test]
fn an_interrupt_during_the_start_ends_the_chat_at_once() {
    // Longer than the test waits for the end.
    let patient = ["--grace", "600", "--init-timeout", "600"];
    let agent = ["--", "sh -c 'trap \"\" TERM; sleep 1000 & wait; sleep 1000'"];
    let mut terminal = start(&[&patient[..], &agent].concat(), &[]);
    wait_until("the terminal is used", || (!terminal.echoes()).then_some(()));
    terminal.press("\x03");
    assert_eq!(terminal.wait().code(), Some(130));
    assert!(terminal.echoes());
}

#[test]
fn after_a_login_the_session_is_opened() {
    let directory = directory("try-login");
    let body = r#"
if [ "$1" = login ]; then
  [ -t 0 ] && printf 'Password for %s: ' "$WHO"
  read -r password
  [ "$password" = secret ] && touch "$0.done"
  exit
fi
while read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\("[^"]*"\).*/\1/p')
  [ -e "$0.done" ] && done=1
  case "$line" in
    *'"initialize"'*) echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"protocolVersion\":1,\"authMethods\":[{\"id\":\"web\",\"name\":\"Log in with a browser\"},{\"id\":\"cli\",\"name\":\"Command\",\"type\":\"terminal\",\"args\":[\"login\"]}]}}" ;;
    *'"session/new"'*) if [ -n "$done" ]; then
      echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{\"sessionId\":\"s\"}}"
    else
      echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"error\":{\"code\":-32000,\"message\":\"Authentication required\"}}"
    fi ;;
    *'"authenticate"'*) done=1; echo "{\"jsonrpc\":\"2.0\",\"id\":$id,\"result\":{}}" ;;
  esac
done
"#;
    write_script(&directory, "agent", body);
    let agent = format!("WHO=me {}", directory.join("agent").display());
    for in_terminal in [false, true] {
        let mut terminal = start(&["--", &agent], &[]);
        let shown = terminal.wait_for("Log in with /login N.");
        assert!(shown.contains("Authentication required"), "{shown}");
        assert!(shown.contains("1 Log in with a browser"), "{shown}");
        assert!(shown.contains("2 Command"), "{shown}");
        if in_terminal {
            terminal.press("/login 2\r");
            terminal.wait_for("Password for me: ");
            assert!(terminal.echoes());
            terminal.press("wrong\r");
            terminal.wait_for("The login failed: exit status: 1.");
            terminal.press("/login 2\r");
            terminal.wait_for("Password for me: ");
            terminal.press("secret\r");
        } else {
            terminal.press("/login 1\r");
        }
        terminal.wait_for("You are talking to agent");
        terminal.press("\x04");
        assert_eq!(terminal.wait().code(), Some(0));
    }
}
