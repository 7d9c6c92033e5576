//! The command line: help, errors, logs, and every kind of standard streams.

#![cfg(unix)]

mod audit;
mod help;
mod terminal;

use std::fs::File;
use std::io::{BufRead, Read, Seek, Write};
use std::os::fd::{AsFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Output, Stdio};

use rustix::fs::{OFlags, fcntl_getfl};
use serde_json::json;
use testkit::test_chain::{
    TestChain, TestChainBuilder, binary, directory, wait_until, with_timeout,
};

fn new_setup() -> TestChainBuilder {
    TestChain::builder(env!("CARGO_BIN_EXE_conductor"))
}

fn conductor(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_conductor"));
    command.args(args).stdin(Stdio::null()).output().expect("the conductor starts")
}

/// What the conductor prints for valid arguments.
fn printed(args: &[&str]) -> String {
    let output = conductor(args);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && stderr.is_empty(), "{args:?}: {stderr}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

fn assert_mentions(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "{word:?} is not in:\n{text}");
    }
}

#[test]
fn wrong_arguments_are_reported_on_stderr_with_status_2() {
    let component = ["agent", "x"];
    let mistakes: [(&[&str], &str); 13] = [
        (&["-v"], "--version"),
        (&["agents"], "unrecognized subcommand"),
        (&["agent", "--chain", "a", "b"], "cannot be used with"),
        (&["agent", "'open quote"], "it has an unclosed quotation mark"),
        (&["agent", ""], "it contains no command"),
        (&["agent", "A=1 B=2"], "it contains no command"),
        (&["agent", "{\"command\": }"], "its JSON is invalid"),
        (&["agent", "{\"command\":\"x\",\"argv\":[]}"], "argv"),
        (&["proxy", "{}"], "command"),
        (&["agent", "--patience", "3", "x"], "--patience"),
        (&["agent", "--max-line", "long", "x"], "expected a size such as"),
        (&["agent", "--grace=-1", "x"], "is negative or too large"),
        (&["completions", "tcsh"], "tcsh"),
    ];
    let logs: [(&[&str], &str); 2] = [
        (&["--log", "a=b=c"], "is not a level or filter"),
        (&["--log-file", "/nowhere/at/all"], "cannot write the log file /nowhere/at/all"),
    ];
    let logs =
        logs.map(|(options, why)| ([&component[..1], options, &component[1..]].concat(), why));
    let logs = logs.iter().map(|(args, why)| (args.as_slice(), *why));
    for (args, why) in mistakes.into_iter().chain(logs) {
        let output = conductor(args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {stderr}");
        assert!(stderr.contains(why), "{args:?}: {stderr}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
}

// Logs.

const PROMPT: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"text":"swordfish"}}"#;

/// A turn with secrets in its messages and in the agent's environment. Returns the conductor's standard
/// error.
fn turn_with_secrets(setup: TestChainBuilder) -> String {
    let mut agent = setup.scripted_json("agent");
    agent["env"] = json!({"TOKEN": "hunter2"});
    let components = [setup.scripted_json("proxy").to_string(), agent.to_string()];
    let mut chain = setup.run("agent", &components);
    let mut components = chain.initialize(&["proxy", "agent"]);
    chain.editor.send(PROMPT);
    let received = components[0].request("session/prompt");
    components[0].forward("down", "session/prompt", &received["params"].to_string());
    let prompt = components[1].request("session/prompt");
    components[1]
        .send(r#"{"jsonrpc":"2.0","method":"session/update","params":{"text":"swordfish"}}"#);
    components[0].message();
    components[1].answer(&prompt, r#"{"echo":"swordfish"}"#);
    let answer = components[0].message();
    components[0].answer(&received, &answer["result"].to_string());
    assert_eq!(chain.editor.message()["result"]["echo"], "swordfish");
    chain.editor.close();
    for component in &mut components {
        assert_eq!(component.next_line(), None);
        component.exit(0);
    }
    assert_eq!(chain.conductor.status(), 0);
    chain.conductor.whole_stderr()
}

/// The log has a line for each hop, without payloads.
fn assert_shows_hops_without_secrets(log: &str) {
    assert_mentions(log, &["session/prompt", "session/update", "proxy", "agent", "size="]);
    assert!(!log.contains("swordfish") && !log.contains("hunter2"), "{log}");
}

#[test]
fn by_default_nothing_is_logged() {
    assert_eq!(turn_with_secrets(new_setup()), "");
}

#[test]
fn the_log_shows_the_hops_but_no_payload_and_no_environment() {
    assert_shows_hops_without_secrets(&turn_with_secrets(new_setup().option(&["--log", "debug"])));
    assert_shows_hops_without_secrets(&turn_with_secrets(new_setup().option(&["--log", "trace"])));
    assert_shows_hops_without_secrets(&turn_with_secrets(
        new_setup().env("CONDUCTOR_LOG", "debug"),
    ));
}

#[test]
fn the_log_can_be_appended_to_a_file() {
    let place = directory("log");
    let path = place.join("conductor.log");
    std::fs::write(&path, "yesterday\n").expect("a file");
    let file = path.to_str().expect("UTF-8");
    let stderr = turn_with_secrets(new_setup().option(&["--log", "debug", "--log-file", file]));
    assert_eq!(stderr, "");
    let log = std::fs::read_to_string(&path).expect("the log");
    assert!(log.starts_with("yesterday\n"), "{log}");
    assert_shows_hops_without_secrets(&log);
    std::fs::remove_dir_all(place).expect("the directory is ours");
}

#[test]
fn an_error_does_not_show_the_environment() {
    let mut chain = new_setup().run("agent", &["TOKEN=hunter2 sh -c 'exit 3'".into()]);
    chain.editor.send(INITIALIZE);
    let line = chain.editor.line();
    assert!(line.contains("exited with status 3") && !line.contains("hunter2"), "{line}");
    assert_eq!(chain.conductor.status(), 1);
    assert!(!chain.conductor.whole_stderr().contains("hunter2"));
}

// Standard input and output.

const INITIALIZE: &str =
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}"#;
const NEW: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}"#;

/// The lines of an editor.
fn editor_lines() -> String {
    format!("{INITIALIZE}\n{NEW}\n")
}

fn assert_answers(text: &str) {
    // The demo agent then announces its commands.
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines.len() >= 2, "{text}");
    assert!(lines[0].starts_with(r#"{"jsonrpc":"2.0","id":0,"result":{"#), "{text}");
    assert!(lines[1].starts_with(r#"{"jsonrpc":"2.0","id":1,"result":{"sessionId""#), "{text}");
}

/// A program that serves an editor on its standard streams.
#[derive(Debug, Clone, Copy)]
enum Program {
    /// A conductor with an agent that answers on its own.
    Conductor,
    /// An agent that uses the SDK.
    SdkAgent,
}

const PROGRAMS: [Program; 2] = [Program::Conductor, Program::SdkAgent];

impl Program {
    fn start(self, stdin: impl Into<Stdio>, stdout: impl Into<Stdio>) -> Child {
        let mut command = Command::new(env!("CARGO_BIN_EXE_conductor"));
        match self {
            Program::Conductor => {
                command.args(["agent", "--grace", "600"]).arg(binary("stub_agent"))
            }
            Program::SdkAgent => command.arg("demo-agent"),
        };
        command.stdin(stdin).stdout(stdout).stderr(Stdio::inherit());
        command.spawn().expect("the program starts")
    }
}

fn assert_succeeds(mut child: Child) {
    let status = wait_until("the conductor ends", || child.try_wait().expect("wait"));
    assert!(status.success(), "{status}");
}

/// A shared descriptor is still blocking.
fn assert_blocking(fd: impl AsFd) {
    assert!(!fcntl_getfl(fd).expect("flags").contains(OFlags::NONBLOCK));
}

/// Reads two lines, with a timeout.
fn read_answers(from: impl Read + Send + 'static) -> String {
    with_timeout("two answers", || {
        let lines = std::io::BufReader::new(from).lines().take(2);
        lines.map(|line| line.expect("answers") + "\n").collect()
    })
}

#[test]
fn shared_pipes_keep_their_flags() {
    for program in PROGRAMS {
        let (program_end, mut test_end) = std::io::pipe().expect("a pipe");
        let (answers, out) = std::io::pipe().expect("a pipe");
        let child = program.start(program_end.try_clone().unwrap(), out.try_clone().unwrap());
        test_end.write_all(editor_lines().as_bytes()).expect("the program reads");
        assert_answers(&read_answers(answers));
        assert_blocking(&program_end);
        assert_blocking(&out);
        drop(test_end);
        assert_succeeds(child);
        assert_blocking(&program_end);
        assert_blocking(&out);
    }
}

#[test]
fn one_socket_can_be_both_streams_and_keeps_its_flags() {
    for program in PROGRAMS {
        let (mut test_end, program_end) = UnixStream::pair().expect("sockets");
        let end = || OwnedFd::from(program_end.try_clone().expect("a second handle"));
        let child = program.start(end(), end());
        test_end.write_all(editor_lines().as_bytes()).expect("the program reads");
        assert_answers(&read_answers(test_end.try_clone().unwrap()));
        assert_blocking(&program_end);
        test_end.shutdown(std::net::Shutdown::Write).expect("an open socket");
        assert_succeeds(child);
        assert_blocking(&program_end);
    }
}

#[test]
fn files_are_read_from_their_position_and_appended_to() {
    for program in PROGRAMS {
        let place = directory("files");
        let (input, output) = (place.join("in"), place.join("out"));
        std::fs::write(&input, format!("not for us\n{}", editor_lines())).expect("a file");
        std::fs::write(&output, "before\n").expect("a file");
        let mut stdin = File::open(&input).expect("a file");
        stdin.seek(std::io::SeekFrom::Start(11)).expect("a file");
        let stdout = File::options().append(true).open(&output).expect("a file");
        assert_succeeds(program.start(stdin, stdout));
        let written = std::fs::read_to_string(&output).expect("a file");
        assert_answers(written.strip_prefix("before\n").expect("what was there"));
        std::fs::remove_dir_all(place).expect("the directory is ours");
    }
}

#[test]
fn the_null_device_can_be_either_stream() {
    let output = conductor(&["agent", "no-such-command"]);
    assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty());
    let (program_end, mut test_end) = std::io::pipe().expect("a pipe");
    let child = Program::Conductor.start(program_end, Stdio::null());
    test_end.write_all(editor_lines().as_bytes()).expect("the program reads");
    drop(test_end);
    assert_succeeds(child);
}

#[test]
fn a_terminal_can_be_both_streams() {
    for program in PROGRAMS {
        let (mut test_end, program_end) = terminal();
        let child =
            program.start(program_end.try_clone().unwrap(), program_end.try_clone().unwrap());
        test_end.write_all(editor_lines().as_bytes()).expect("the program reads");
        let answers = read_answers(test_end.try_clone().unwrap());
        assert_answers(&answers);
        assert_blocking(&program_end);
        // Ctrl-D: end of file.
        test_end.write_all(b"\x04").expect("the program reads");
        assert_succeeds(child);
        assert_blocking(&program_end);
    }
}

/// A terminal without echo: the user's end, and the program's end.
fn terminal() -> (File, File) {
    let (mut test_end, mut program_end) = (-1, -1);
    // SAFETY: fills in two descriptors, which the caller then owns; the other arguments may be null.
    unsafe {
        let (name, settings, size) =
            (std::ptr::null_mut(), std::ptr::null_mut(), std::ptr::null_mut());
        assert_eq!(libc::openpty(&mut test_end, &mut program_end, name, settings, size), 0);
        let mut settings = std::mem::zeroed();
        assert_eq!(libc::tcgetattr(program_end, &mut settings), 0);
        settings.c_lflag &= !libc::ECHO;
        assert_eq!(libc::tcsetattr(program_end, libc::TCSANOW, &settings), 0);
        (File::from_raw_fd(test_end), File::from_raw_fd(program_end))
    }
}

/// `/dev/full` accepts no output, so each command must fail.
#[test]
fn output_that_cannot_be_written_is_an_error() {
    let agent = binary("stub_agent").display().to_string();
    let commands: [&[&str]; 14] = [
        &[],
        &["--help"],
        &["--version"],
        &["-Vv"],
        &["man", "agent"],
        &["help"],
        &["agent", "--help"],
        &["component", "log", "--help"],
        &["components"],
        &["completions", "bash"],
        &["man"],
        &["status"],
        &["agent", "--explain", &agent],
        &["agent", "--explain", "--json", &agent],
    ];
    let chat: &[&str] = &["try", "--prompt", "hello"];
    for args in commands.into_iter().chain([chat]) {
        let full = File::options().write(true).open("/dev/full").expect("it exists");
        let mut command = Command::new(env!("CARGO_BIN_EXE_conductor"));
        command.args(args).stdin(Stdio::null()).stdout(full);
        let output = command.output().expect("the conductor starts");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {stderr}");
        assert!(stderr.contains("cannot write to standard output: No space"), "{args:?}: {stderr}");
        assert!(stderr.contains("[more: conductor errors output-failed]"), "{args:?}: {stderr}");
    }
}

#[test]
fn a_message_that_cannot_be_written_to_the_editor_is_an_error() {
    let agent = binary("stub_agent").display().to_string();
    for args in [&["agent", &agent][..], &["demo-agent"], &["component", "log"]] {
        let full = File::options().write(true).open("/dev/full").expect("it exists");
        let mut command = Command::new(env!("CARGO_BIN_EXE_conductor"));
        command.args(args).stdin(Stdio::piped()).stdout(full).stderr(Stdio::piped());
        let mut conductor = command.spawn().expect("the conductor starts");
        let mut stdin = conductor.stdin.take().expect("a pipe");
        writeln!(stdin, "{INITIALIZE}").expect("the program reads");
        drop(stdin);
        let output =
            with_timeout("it ends", move || conductor.wait_with_output().expect("its end"));
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {stderr}");
        assert!(stderr.contains("No space left"), "{args:?}: {stderr}");
        assert!(stderr.contains("[more: conductor errors output-failed]"), "{args:?}: {stderr}");
    }
}

#[test]
fn a_reader_that_closes_early_is_not_an_error() {
    for args in [&["man"][..], &["--help"], &["completions", "zsh"]] {
        let (reading, writing) = std::io::pipe().expect("a pipe");
        drop(reading);
        let mut command = Command::new(env!("CARGO_BIN_EXE_conductor"));
        let output = command.args(args).stdout(writing).output().expect("the conductor starts");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && stderr.is_empty(), "{args:?}: {stderr}");
    }
}

/// The log files may contain private text of the user and the agent.
#[test]
fn only_the_user_can_read_the_log_files() {
    use std::os::unix::fs::PermissionsExt;
    let place = directory("private-log");
    let [log, traffic] = ["conductor.log", "traffic.jsonl"].map(|name| place.join(name));
    let setup = new_setup().option(&["--log-file", &log.display().to_string()]);
    let agent = setup.scripted_command("agent");
    let mut chain = setup.run("agent", &[format!("log --file {}", traffic.display()), agent]);
    chain.editor.send(INITIALIZE);
    let mut agent = chain.wait_for_component("agent");
    let greeting = agent.request("initialize");
    agent.answer(&greeting, "{\"protocolVersion\":1}");
    chain.editor.line();
    for file in [log, traffic] {
        let mode = std::fs::metadata(&file).expect("it was created").permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", file.display());
    }
    std::fs::remove_dir_all(place).expect("the directory is ours");
}

/// Colours pass; other escape sequences and control characters do not.
#[test]
fn only_colours_of_a_components_stderr_reach_the_terminal() {
    let (mut chain, mut agent) = {
        let mut chain = new_setup().run_named(&["agent"]);
        let agent = chain.initialize(&["agent"]).remove(0);
        (chain, agent)
    };
    agent.write_stderr(
        "\x1b[31mred\x1b[0m \x1b]0;title\x07\x1b[2J\u{9b}6n\u{202e}done\rx\x1b[1mbold\n",
    );
    agent.send("\x1b]0;noise\x07 on stdout");
    chain.conductor.wait_for_stderr_where("both lines", |stderr| {
        stderr.contains("bold") && stderr.contains("noise")
    });
    chain.editor.close();
    assert_eq!(chain.conductor.status(), 0);
    let stderr = chain.conductor.whole_stderr();
    assert!(stderr.contains("[agent] \x1b[31mred\x1b[0m donex\x1b[1mbold\x1b[0m\n"), "{stderr:?}");
    let rest = stderr.replace("\x1b[31m", "").replace("\x1b[0m", "").replace("\x1b[1m", "");
    assert!(rest.chars().all(|it| it == '\n' || !it.is_control()), "{stderr:?}");
}

#[test]
fn explain_reports_an_agent_that_sends_a_request_instead_of_an_answer() {
    // `cat` repeats the request `initialize`.
    let output = conductor(&["agent", "--explain", "--init-timeout", "0.5", "cat"]);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("'cat'") && stderr.contains("did not answer initialize"), "{stderr}");
}
