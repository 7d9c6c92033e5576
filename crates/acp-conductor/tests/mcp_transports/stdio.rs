//! `conductor mcp PORT`, and the listener that it connects to.

use std::process::Stdio;

use mcp::{Endpoint, Ticket, Transport};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, ChildStdout, Command};

use crate::{Conductor, MAX_LINE, TICKET, TIMEOUT};

const WELCOME: &str = "{\"conductor\":\"welcome\"}\n";

/// Connects, sends this, and reads a line: the welcome, or nothing.
async fn connect(port: u16, greeting: &str) -> (BufReader<TcpStream>, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(greeting.as_bytes()).await.unwrap();
    let mut stream = BufReader::new(stream);
    let answer = line(&mut stream).await;
    (stream, answer)
}

async fn line(stream: &mut (impl AsyncBufReadExt + Unpin)) -> String {
    let mut line = String::new();
    // A connection that is closed with unread data is reset.
    let _ = tokio::time::timeout(TIMEOUT, stream.read_line(&mut line)).await.expect("in time");
    line
}

fn greeting(secret: &str) -> String {
    format!("{{\"conductor\":\"{secret}\"}}\n")
}

#[tokio::test]
async fn lines_pass_both_ways_and_either_side_can_disconnect() {
    let mut conductor = Conductor::start();
    let (port, secret) = conductor.stdio();

    // The client disconnects, and still receives what was under way.
    let (mut client, welcome) = connect(port, &greeting(&secret)).await;
    assert_eq!(welcome, WELCOME);
    let client_id = conductor.expect_connected().await;
    client.write_all(b"{\"n\":1.10}\r\n\n{\"last\":true}").await.unwrap();
    conductor.send(client_id, "one");
    conductor.send(client_id, "two");
    assert_eq!(line(&mut client).await, "one\n");
    assert_eq!(line(&mut client).await, "two\n");
    assert_eq!(conductor.expect_line(client_id).await, "{\"n\":1.10}\r");
    client.get_mut().shutdown().await.unwrap();
    assert_eq!(conductor.expect_line(client_id).await, "{\"last\":true}");
    conductor.send(client_id, "three");
    conductor.expect_disconnected(client_id).await;
    assert_eq!(line(&mut client).await, "three\n");
    assert_eq!(line(&mut client).await, "");

    // The conductor closes the connection, although the client is still connected.
    let (mut client, _) = connect(port, &greeting(&secret)).await;
    let client_id = conductor.expect_connected().await;
    conductor.send(client_id, "good bye");
    conductor.senders.clear();
    assert_eq!(line(&mut client).await, "good bye\n");
    assert_eq!(line(&mut client).await, "");
    drop(client);
    conductor.expect_disconnected(client_id).await;
    conductor.assert_no_event();
}

#[tokio::test]
async fn a_line_directly_after_the_greeting_is_not_lost() {
    let mut conductor = Conductor::start();
    let (port, secret) = conductor.stdio();
    let (_client, welcome) = connect(port, &format!("{}{{\"a\":1}}\n", greeting(&secret))).await;
    assert_eq!(welcome, WELCOME);
    let client_id = conductor.expect_connected().await;
    assert_eq!(conductor.expect_line(client_id).await, "{\"a\":1}");
}

#[tokio::test]
async fn a_client_without_a_valid_secret_is_disconnected() {
    let mut conductor = Conductor::start();
    let (port, secret) = conductor.stdio();
    let long = format!("{{\"conductor\":\"{}", "x".repeat(10_000));
    for wrong in
        ["GET / HTTP/1.1\r\n", "{}\n", "\n", &long, &greeting("0"), &greeting(&secret[1..])]
    {
        let (_, answer) = connect(port, wrong).await;
        assert_eq!(answer, "", "{wrong}");
    }
    conductor.listeners.open_endpoint(Transport::Stdio, Ticket(8)).unwrap();
    conductor.listeners.revoke(TICKET);
    assert_eq!(connect(port, &greeting(&secret)).await.1, "");
    conductor.assert_no_event();
}

#[tokio::test]
async fn silent_connections_do_not_block_clients() {
    let mut conductor = Conductor::start();
    let (port, secret) = conductor.stdio();
    let (mut silent, mut clients) = (Vec::new(), Vec::new());
    // Many more than the limit: the oldest connection is closed at once, and no client waits.
    for _ in 0..10 {
        for _ in 0..40 {
            silent.push(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
        }
        let (client, welcome) = connect(port, &greeting(&secret)).await;
        assert_eq!(welcome, WELCOME);
        conductor.expect_connected().await;
        clients.push(client);
    }
    let mut oldest = silent.swap_remove(0);
    assert_eq!(oldest.read(&mut [0; 8]).await.unwrap_or(0), 0, "the oldest is closed");
}

#[tokio::test]
async fn a_line_over_the_limit_is_answered_with_an_error() {
    let mut conductor = Conductor::start();
    let (port, secret) = conductor.stdio();
    let (mut client, _) = connect(port, &greeting(&secret)).await;
    let client_id = conductor.expect_connected().await;
    let long = "x".repeat(MAX_LINE);
    for (text, id) in [
        (format!("{{\"id\":5,\"method\":\"m\",\"params\":\"{long}\"}}\n"), "\"id\":5,"),
        (format!("[\"{long}\"]\n"), "\"id\":null,"),
    ] {
        client.write_all(text.as_bytes()).await.unwrap();
        let answer = line(&mut client).await;
        assert!(answer.contains(id) && answer.contains("-32600"), "{answer}");
        assert!(
            answer.contains(&MAX_LINE.to_string()) && answer.contains("--max-line"),
            "{answer}"
        );
    }
    client.write_all(b"{}\n").await.unwrap();
    assert_eq!(conductor.expect_line(client_id).await, "{}");
}

#[tokio::test]
async fn the_listener_is_open_while_a_ticket_is_valid() {
    let mut conductor = Conductor::start();
    let (port, secret) = conductor.stdio();
    assert_eq!(conductor.stdio().0, port, "all tickets share one port");
    let Endpoint::Stdio { program, variable, .. } =
        conductor.listeners.open_endpoint(Transport::Stdio, Ticket(9)).unwrap()
    else {
        panic!("another kind")
    };
    assert_eq!(std::path::Path::new(&program), std::env::current_exe().unwrap());
    assert_eq!(variable, "CONDUCTOR_SECRET");
    assert!(!format!("{:?}", conductor.listeners).contains(&secret));

    let (_, secret) = conductor.stdio();
    let (mut client, _) = connect(port, &greeting(&secret)).await;
    let client_id = conductor.expect_connected().await;
    conductor.listeners.revoke(TICKET);
    conductor.listeners.revoke(TICKET);
    TcpStream::connect(("127.0.0.1", port)).await.expect("ticket 9 is still valid");
    conductor.listeners.revoke(Ticket(9));
    while TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
        tokio::task::yield_now().await;
    }
    // Connected clients stay connected.
    client.write_all(b"{}\n").await.unwrap();
    assert_eq!(conductor.expect_line(client_id).await, "{}");
    let (again, secret) = conductor.stdio();
    assert_eq!(connect(again, &greeting(&secret)).await.1, WELCOME);
    conductor.expect_connected().await;

    drop(conductor.listeners);
    assert_eq!(line(&mut client).await, "", "all connections are closed");
}

/// The command, with its standard input left open.
fn command(port: u16, secret: Option<&str>) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_conductor"));
    command.args(["mcp", &port.to_string()]).env_remove("CONDUCTOR_SECRET").kill_on_drop(true);
    if let Some(secret) = secret {
        command.env("CONDUCTOR_SECRET", secret);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn output(child: &mut Child) -> BufReader<ChildStdout> {
    BufReader::new(child.stdout.take().unwrap())
}

#[tokio::test]
async fn the_command_connects_its_streams_to_the_conductor() {
    let mut conductor = Conductor::start();
    let (port, secret) = conductor.stdio();
    let mut child = command(port, Some(&secret));
    let (mut input, mut output) = (child.stdin.take().unwrap(), output(&mut child));
    let client_id = conductor.expect_connected().await;
    input.write_all(b"{\"a\": 1}\n").await.unwrap();
    assert_eq!(conductor.expect_line(client_id).await, "{\"a\": 1}");
    conductor.send(client_id, "{\"b\": 2}");
    assert_eq!(line(&mut output).await, "{\"b\": 2}\n");
    // The agent closes the input, and still receives what was under way.
    drop(input);
    conductor.send(client_id, "{\"c\": 3}");
    conductor.expect_disconnected(client_id).await;
    assert_eq!(line(&mut output).await, "{\"c\": 3}\n");
    assert!(child.wait().await.unwrap().success());

    // The conductor closes the connection, and the agent does not.
    let mut child = command(port, Some(&secret));
    let _input = child.stdin.take();
    conductor.expect_connected().await;
    conductor.senders.clear();
    assert!(child.wait().await.unwrap().success());
}

#[tokio::test]
async fn the_command_without_a_secret_connects_to_any_service() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut child = command(listener.local_addr().unwrap().port(), None);
    let mut output = output(&mut child);
    child.stdin.as_mut().unwrap().write_all(b"hello").await.unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut received = [0; 5];
    stream.read_exact(&mut received).await.unwrap();
    assert_eq!(&received, b"hello");
    drop(child.stdin.take());
    assert_eq!(stream.read(&mut received).await.unwrap(), 0);
    stream.write_all(b"bytes, as they come").await.unwrap();
    drop(stream);
    assert_eq!(line(&mut output).await, "bytes, as they come");
    assert!(child.wait().await.unwrap().success());
}

#[tokio::test]
async fn the_command_reports_why_it_cannot_connect_in_one_line() {
    let refused = async |port, part: &str| {
        let child = command(port, Some("hush"));
        let output = tokio::time::timeout(TIMEOUT, child.wait_with_output()).await;
        let output = output.expect("in time").unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr.contains(part) && stderr.contains(&format!("port {port}")), "{stderr}");
        assert!(stderr.ends_with('\n') && stderr.lines().count() == 1 && !stderr.contains("hush"));
    };
    let mut conductor = Conductor::start();
    let (port, _) = conductor.stdio();
    refused(port, "rejected the secret in CONDUCTOR_SECRET; the session that declared this MCP server has ended").await;
    conductor.assert_no_event();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    // The service accepts the connection and sends nothing.
    refused(port, "is not a conductor").await;
    let other_service = tokio::spawn(async move {
        listener.accept().await.unwrap();
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"220 mail.example.org ESMTP ready, go ahead\r\n").await.unwrap();
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    refused(port, "is not a conductor").await;
    other_service.await.unwrap();
    refused(port, "no conductor is listening on").await;
}
