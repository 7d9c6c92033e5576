//! `conductor mcp PORT` by itself, as an agent runs it, against whatever may be on that port.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use testkit::rpc::{notification, request, result};
use testkit::stage::patiently;

use crate::clients::{Bridge, SECRET, port_of, secret_of};
use crate::play::{HELLO, Play, SERVED, STDIO, accept, m3, reply, said};

fn command(port: u16, secret: Option<&str>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_conductor"));
    command.args(["mcp", &port.to_string()]).env_remove(SECRET);
    command.envs(secret.map(|it| (SECRET, it)));
    command
}

fn service() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("it").port();
    (listener, port)
}

/// A port on which nobody listens.
fn dead_port() -> u16 {
    service().1
}

/// The command, joined to a service of ours, without a secret.
fn joined() -> (Bridge, TcpStream) {
    let (listener, port) = service();
    let bridge = Bridge::run(command(port, None));
    let (stream, _) = patiently("it connects", move || listener.accept().expect("a connection"));
    (bridge, stream)
}

/// Phase 1: a mock client and a mock server, and what joins them.
#[test]
fn a_client_and_a_server_talk_through_it() {
    let (mut bridge, stream) = joined();
    let server = std::thread::spawn(move || {
        let mut writer = stream.try_clone().expect("a handle");
        for line in BufReader::new(stream).lines() {
            let line = line.expect("UTF-8");
            let message = testkit::stage::parse(&line);
            let answer = match message["method"].as_str() {
                Some("initialize") => r#"{"protocolVersion":"2025-06-18","capabilities":{}}"#,
                Some("tools/list") => r#"{"tools":[{"name":"x","n":1.10}]}"#,
                _ => continue,
            };
            let note = notification("notifications/message", r#"{"data":1e400}"#);
            let answer = result(&message["id"].to_string(), answer);
            writer.write_all(format!("{note}\n{answer}\n").as_bytes()).expect("it reads");
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
    // Checklist 105: the client closes, and it ends.
    bridge.close();
    assert_eq!(bridge.status(), (0, String::new()));
    server.join().expect("the server saw the end");
}

/// Phase 1: every byte, both ways, whatever it is; nothing added, nothing held back.
#[test]
fn it_joins_byte_for_byte() {
    let (listener, port) = service();
    let mut child = command(port, None)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let (mut stream, _) = patiently("it connects", move || listener.accept().expect("it"));
    // Every value, also those that are no UTF-8, and lines of every length.
    let bytes: Vec<u8> = (0..3_000_000u32).map(|n| (n ^ (n >> 8)) as u8).collect();
    let (mut stdin, mut stdout) =
        (child.stdin.take().expect("it"), child.stdout.take().expect("it"));
    let (sent, expected) = (bytes.clone(), bytes.clone());
    let writing = std::thread::spawn(move || {
        stdin.write_all(&sent).expect("it reads");
        stdin
    });
    let mut reader = stream.try_clone().expect("a handle");
    patiently("all of it arrives", move || {
        let mut got = vec![0; expected.len()];
        reader.read_exact(&mut got).expect("all of it");
        assert!(got == expected);
    });
    let stdin = writing.join().expect("all was written");
    // One byte is passed on without waiting for more.
    let mut one = [0];
    stream.write_all(b"!").expect("it reads");
    stdout = patiently("a byte comes", move || {
        stdout.read_exact(&mut one).expect("a byte");
        assert_eq!(&one, b"!");
        stdout
    });
    let expected = bytes.clone();
    let writing = std::thread::spawn(move || {
        stream.write_all(&bytes).expect("it reads");
        stream.shutdown(Shutdown::Both).expect("open");
    });
    patiently("all of it comes back", move || {
        let mut got = Vec::new();
        stdout.read_to_end(&mut got).expect("all of it");
        assert!(got == expected);
    });
    writing.join().expect("all was written");
    // Checklist 105: the service has closed, and it ends although its input is open.
    let status = patiently("it ends", move || child.wait().expect("ours"));
    assert_eq!(status.code(), Some(0));
    drop(stdin);
}

/// Checklist 105: what was on its way when the client closed is still delivered, both ways.
#[test]
fn the_end_of_its_input_loses_nothing() {
    let (mut bridge, mut stream) = joined();
    bridge.send("the last words");
    bridge.close();
    let mut stream = patiently("the service hears them", move || {
        let mut heard = String::new();
        stream.read_to_string(&mut heard).expect("the end");
        assert_eq!(heard, "the last words\n");
        stream
    });
    stream.write_all(b"and the answer\n").expect("it still reads");
    drop(stream);
    let answer = bridge.lines.recv_timeout(Duration::from_secs(60));
    assert_eq!(answer.as_deref(), Ok("and the answer"));
    assert_eq!(bridge.status(), (0, String::new()));
}

/// It fails, with these words, status 1, and (as people see it) at once.
fn assert_fails(port: u16, secret: Option<&str>, words: &str) {
    let began = Instant::now();
    // Its input stays open: it must not wait for that.
    let mut bridge = Bridge::run(command(port, secret));
    let (status, said) = bridge.status();
    assert_eq!(status, 1, "{said}");
    assert!(said.contains(words) && said.contains(&format!("port {port}")), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    // A second is what it takes; a machine busy with other tests gets some more.
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
    assert!(secret.is_none_or(|secret| !said.contains(secret)), "{said}");
}

/// Checklist 105; phase 1; issue 5: dead, silent, closing and wrong ports.
#[test]
fn it_says_why_it_cannot() {
    let secret = Some("0123456789abcdef");
    for secret in [None, secret] {
        assert_fails(dead_port(), secret, "no conductor listens on");
    }
    // One that takes the connection and never says a word.
    let (_silent, port) = service();
    assert_fails(port, secret, "is not a conductor");
    // One that closes at once.
    let (listener, port) = service();
    let closing = std::thread::spawn(move || drop(listener.accept().expect("a connection")));
    assert_fails(port, secret, "does not know this secret");
    closing.join().expect("it was there");
    // One that says something else.
    let (listener, port) = service();
    let talking = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n");
        let _ = stream.read_to_end(&mut Vec::new());
    });
    assert_fails(port, secret, "is not a conductor");
    talking.join().expect("it was there");
}

#[test]
fn it_takes_a_port_and_nothing_else() {
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

/// Issue 4, "Done when": `conductor mcp --help`.
#[test]
fn its_help_says_what_it_is() {
    let output = Command::new(env!("CARGO_BIN_EXE_conductor"))
        .args(["mcp", "--help"])
        .output()
        .expect("it starts");
    let help = String::from_utf8(output.stdout).expect("UTF-8");
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(output.status.success());
    for words in [
        "MCP server that a running conductor has declared",
        "Agents start this by themselves",
        SECRET,
        "status 1",
        "PORT",
    ] {
        assert!(help.contains(words), "{words:?} is not in:\n{help}");
    }
}

/// Standard streams that cannot be handed over, such as a file, are joined to the port.
#[test]
fn streams_that_cannot_be_handed_over_are_copied() {
    let mut play = Play::tools(STDIO);
    let entry = play.session("S", &[&[m3("tools", "U")]]).remove(0);
    let path = testkit::stage::directory("mcp-file").join("said");
    let file = std::fs::File::create(&path).expect("a file");
    let mut child = command(port_of(&entry), Some(secret_of(&entry)))
        .stdin(Stdio::piped())
        .stdout(file)
        .spawn()
        .expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    writeln!(stdin, "{}", request("0", "initialize", HELLO)).expect("it reads");
    accept(play.tool_proxy(), "C");
    let (id, _) = said(play.tool_proxy(), "C", "initialize");
    reply(play.tool_proxy(), &id, SERVED);
    let expected = format!("{}\n", result("0", SERVED));
    testkit::stage::wait_until("the answer is in the file", || {
        let said = std::fs::read_to_string(&path).expect("a file");
        (said == expected).then_some(())
    });
    drop(stdin);
    assert!(child.wait().expect("an end").success());
}
