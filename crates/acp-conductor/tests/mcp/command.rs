//! `conductor mcp PORT` as an agent runs it, with a conductor or any other service on that port.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use testkit::rpc::{notification, request, result};
use testkit::test_chain::{TestChain, with_timeout};

use crate::chain::{
    INITIALIZE_PARAMS, INITIALIZE_RESULT, McpChain, STDIO, accept_connection, m3, receive_mcp,
    reply,
};
use crate::clients::{Bridge, SECRET, port_of, secret_of};

fn command(port: u16, secret: Option<&str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_conductor"));
    command.args(["mcp", &port.to_string()]).env_remove(SECRET);
    command.envs(secret.map(|it| (SECRET, it)));
    command
}

fn listen() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    (listener, port)
}

/// A port without a listener.
fn closed_port() -> u16 {
    listen().1
}

/// The command without a secret, connected to a service of the test.
fn connected() -> (Bridge, TcpStream) {
    let (listener, port) = listen();
    let bridge = Bridge::run(command(port, None));
    let (stream, _) = with_timeout("it connects", move || listener.accept().expect("a connection"));
    (bridge, stream)
}

/// An installer replaces the file in one step. Agents must start the new one.
#[test]
fn the_tools_work_after_an_upgrade_has_replaced_the_program() {
    let real = env!("CARGO_BIN_EXE_conductor");
    // In the file system of the real program. A copy could not be started while another test's child has it open.
    let folder =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("upgrade-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (program, new) = (folder.join("conductor"), folder.join("new"));
    std::fs::hard_link(real, &program).expect("the old program");
    std::os::unix::fs::symlink(real, &new).expect("the new program");
    let mut chain = McpChain::start(TestChain::builder(&program), &["tools", "agent"], STDIO);
    std::fs::rename(&new, &program).expect("the program is replaced");
    let (entry, client) = chain.connect_client(m3("tools", "A"));
    assert_eq!(entry["command"].as_str(), program.to_str());
    client.close();
    std::fs::remove_dir_all(&folder).expect("the folder is removed");
}

/// A mock client and a mock server, connected by the command.
#[test]
fn the_command_connects_a_client_and_a_server() {
    let (mut bridge, stream) = connected();
    let server = std::thread::spawn(move || {
        let mut writer = stream.try_clone().expect("a handle");
        for line in BufReader::new(stream).lines() {
            let line = line.expect("UTF-8");
            let message = testkit::test_chain::parse(&line);
            let answer = match message["method"].as_str() {
                Some("initialize") => r#"{"protocolVersion":"2025-06-18","capabilities":{}}"#,
                Some("tools/list") => r#"{"tools":[{"name":"x","n":1.10}]}"#,
                _ => continue,
            };
            let note = notification("notifications/message", r#"{"data":1e400}"#);
            let answer = result(&message["id"].to_string(), answer);
            writer.write_all(format!("{note}\n{answer}\n").as_bytes()).expect("a reader");
        }
    });
    let line =
        |bridge: &Bridge| bridge.lines.recv_timeout(Duration::from_secs(60)).expect("a line");
    for (id, method) in [("1", "initialize"), ("2", "tools/list")] {
        bridge.send(&request(id, method, "{}"));
        assert_eq!(line(&bridge), notification("notifications/message", r#"{"data":1e400}"#));
        let answer = line(&bridge);
        assert!(
            answer.starts_with(&format!(r#"{{"jsonrpc":"2.0","id":{id},"result":"#)),
            "{answer}"
        );
        bridge.send(&notification("notifications/initialized", ""));
    }
    // Checklist 105: the command ends when the client closes its input.
    bridge.close();
    assert_eq!(bridge.status(), (0, String::new()));
    server.join().expect("the server saw the end");
}

/// Every byte passes both ways, unchanged and without delay.
#[test]
fn the_command_passes_bytes_unchanged() {
    let (listener, port) = listen();
    let mut child = command(port, None)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let (mut stream, _) =
        with_timeout("it connects", move || listener.accept().expect("a connection"));
    // All byte values, also invalid UTF-8, and lines of all lengths.
    let bytes: Vec<u8> = (0..3_000_000u32).map(|n| (n ^ (n >> 8)) as u8).collect();
    let (mut stdin, mut stdout) =
        (child.stdin.take().expect("a pipe"), child.stdout.take().expect("a pipe"));
    let (sent, expected) = (bytes.clone(), bytes.clone());
    let writing = std::thread::spawn(move || {
        stdin.write_all(&sent).expect("the program reads");
        stdin
    });
    let mut reader = stream.try_clone().expect("a handle");
    with_timeout("all of it arrives", move || {
        let mut got = vec![0; expected.len()];
        reader.read_exact(&mut got).expect("all of it");
        assert!(got == expected);
    });
    let stdin = writing.join().expect("all was written");
    // A single byte is passed on without waiting for more.
    let mut one = [0];
    stream.write_all(b"!").expect("a reader");
    stdout = with_timeout("a byte comes", move || {
        stdout.read_exact(&mut one).expect("a byte");
        assert_eq!(&one, b"!");
        stdout
    });
    let expected = bytes.clone();
    let writing = std::thread::spawn(move || {
        stream.write_all(&bytes).expect("a reader");
        stream.shutdown(Shutdown::Both).expect("open");
    });
    with_timeout("all of it comes back", move || {
        let mut got = Vec::new();
        stdout.read_to_end(&mut got).expect("all of it");
        assert!(got == expected);
    });
    writing.join().expect("all was written");
    // Checklist 105: the command ends when the service closes, although its input is open.
    let status = with_timeout("it ends", move || child.wait().expect("a child process"));
    assert_eq!(status.code(), Some(0));
    drop(stdin);
}

/// Checklist 105: what is under way when the client closes is still delivered, both ways.
#[test]
fn no_data_is_lost_when_the_input_of_the_command_ends() {
    let (mut bridge, mut stream) = connected();
    bridge.send("the last line");
    bridge.close();
    let mut stream = with_timeout("the service reads the last line", move || {
        let mut received = String::new();
        stream.read_to_string(&mut received).expect("the end");
        assert_eq!(received, "the last line\n");
        stream
    });
    stream.write_all(b"and the answer\n").expect("it still reads");
    drop(stream);
    let answer = bridge.lines.recv_timeout(Duration::from_secs(60));
    assert_eq!(answer.as_deref(), Ok("and the answer"));
    assert_eq!(bridge.status(), (0, String::new()));
}

/// Checks that the command fails with this message and status 1.
fn assert_fails(port: u16, secret: Option<&str>, words: &str) {
    // Its input stays open, and the command must not wait for the end of it.
    let mut bridge = Bridge::run(command(port, secret));
    let (status, stderr) = bridge.status();
    assert_eq!(status, 1, "{stderr}");
    assert!(stderr.contains(words) && stderr.contains(&format!("port {port}")), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(secret.is_none_or(|secret| !stderr.contains(secret)), "{stderr}");
}

/// Checklist 105: a port without a listener, a silent one, one that closes, and one of another service.
#[test]
fn the_command_reports_why_it_cannot_connect() {
    let secret = Some("0123456789abcdef");
    for secret in [None, secret] {
        assert_fails(closed_port(), secret, "no conductor is listening on");
    }
    // A service that accepts the connection and sends nothing.
    let (_silent, port) = listen();
    assert_fails(port, secret, "is not a conductor");
    // A service that closes at once.
    let (listener, port) = listen();
    let closing = std::thread::spawn(move || drop(listener.accept().expect("a connection")));
    assert_fails(port, secret, "rejected the secret");
    closing.join().expect("the service accepted the connection");
    // A service that sends something else.
    let (listener, port) = listen();
    let talking = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
        let _ = stream.read_to_end(&mut Vec::new());
    });
    assert_fails(port, secret, "is not a conductor");
    talking.join().expect("the service accepted the connection");
}

#[test]
fn the_command_accepts_only_a_port() {
    for args in [&["mcp"][..], &["mcp", "0"], &["mcp", "x"], &["mcp", "65536"], &["mcp", "1", "2"]]
    {
        let output = Command::new(env!("CARGO_BIN_EXE_conductor"))
            .args(args)
            .stdin(Stdio::null())
            .output()
            .expect("it starts");
        assert_eq!(output.status.code(), Some(2), "{args:?}");
    }
}

/// `conductor mcp --help` explains the command.
#[test]
fn the_help_of_the_command_explains_it() {
    let output = Command::new(env!("CARGO_BIN_EXE_conductor"))
        .args(["mcp", "--help"])
        .output()
        .expect("it starts");
    let help = String::from_utf8(output.stdout).expect("UTF-8");
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(output.status.success());
    for words in [
        "Connect an MCP client to a running conductor",
        "Agents run this command",
        SECRET,
        "Exit status: 0",
        "PORT",
    ] {
        assert!(help.contains(words), "{words:?} is not in:\n{help}");
    }
}

/// The command copies standard streams that it cannot hand over, such as a file.
#[test]
fn streams_that_cannot_be_handed_over_are_copied() {
    let mut chain = McpChain::with_provider(STDIO);
    let entry = chain.new_session("S", &[&[m3("tools", "U")]]).remove(0);
    let path = testkit::test_chain::directory("mcp-file").join("stdout");
    let file = std::fs::File::create(&path).expect("a file");
    let mut child = command(port_of(&entry), Some(secret_of(&entry)))
        .stdin(Stdio::piped())
        .stdout(file)
        .spawn()
        .expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    writeln!(stdin, "{}", request("0", "initialize", INITIALIZE_PARAMS))
        .expect("the program reads");
    accept_connection(chain.provider(), "C");
    let (id, _) = receive_mcp(chain.provider(), "C", "initialize");
    reply(chain.provider(), &id, INITIALIZE_RESULT);
    let expected = format!("{}\n", result("0", INITIALIZE_RESULT));
    testkit::test_chain::wait_until("the answer is in the file", || {
        let output = std::fs::read_to_string(&path).expect("a file");
        (output == expected).then_some(())
    });
    drop(stdin);
    assert!(child.wait().expect("an end").success());
}
