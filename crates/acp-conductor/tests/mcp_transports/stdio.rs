//! `conductor mcp PORT`, and what it talks to.

use std::process::Stdio;
use std::time::Instant;

use mcp::{Endpoint, Ticket, Transport};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::{Child, ChildStdout, Command};

use crate::{Conductor, LONG, LONGEST, TICKET};

const WELCOME: &str = "{\"conductor\":\"welcome\"}\n";

/// A client that has said this and read what came, until the welcome or the end.
async fn connect(port: u16, greeting: &str) -> (BufReader<TcpStream>, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(greeting.as_bytes()).await.unwrap();
    let mut stream = BufReader::new(stream);
    let answer = line(&mut stream).await;
    (stream, answer)
}

async fn line(stream: &mut (impl AsyncBufReadExt + Unpin)) -> String {
    let mut line = String::new();
    // A connection that is closed with something unread is reset.
    let _ = tokio::time::timeout(LONG, stream.read_line(&mut line)).await.expect("in time");
    line
}

fn greeting(secret: &str) -> String {
    format!("{{\"conductor\":\"{secret}\"}}\n")
}

#[tokio::test]
async fn lines_travel_both_ways_and_both_may_end_it() {
    let mut conductor = Conductor::start();
    let (port, secret) = conductor.stdio();

    // The client leaves, and still reads what was on its way.
    let (mut client, welcome) = connect(port, &greeting(&secret)).await;
    assert_eq!(welcome, WELCOME);
    let client_id = conductor.called().await;
    client.write_all(b"{\"n\":1.10}\r\n\n{\"last\":true}").await.unwrap();
    conductor.say(client_id, "one");
    conductor.say(client_id, "two");
    assert_eq!(line(&mut client).await, "one\n");
    assert_eq!(line(&mut client).await, "two\n");
    assert_eq!(conductor.line(client_id).await, "{\"n\":1.10}\r");
    client.get_mut().shutdown().await.unwrap();
    assert_eq!(conductor.line(client_id).await, "{\"last\":true}");
    conductor.say(client_id, "three");
    conductor.hung_up(client_id).await;
    assert_eq!(line(&mut client).await, "three\n");
    assert_eq!(line(&mut client).await, "");

    // The conductor ends it, even though the client still talks.
    let (mut client, _) = connect(port, &greeting(&secret)).await;
    let client_id = conductor.called().await;
    conductor.say(client_id, "good bye");
    conductor.senders.clear();
    assert_eq!(line(&mut client).await, "good bye\n");
    assert_eq!(line(&mut client).await, "");
    drop(client);
    conductor.hung_up(client_id).await;
    conductor.assert_quiet();
}

#[tokio::test]
async fn what_follows_the_greeting_at_once_is_not_lost() {
    let mut conductor = Conductor::start();
    let (port, secret) = conductor.stdio();
    let (_client, welcome) = connect(port, &format!("{}{{\"a\":1}}\n", greeting(&secret))).await;
    assert_eq!(welcome, WELCOME);
    let client_id = conductor.called().await;
    assert_eq!(conductor.line(client_id).await, "{\"a\":1}");
}

#[tokio::test]
async fn who_does_not_know_a_secret_is_turned_away() {
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
    conductor.assert_quiet();
}

#[tokio::test]
async fn those_who_say_nothing_keep_nobody_from_calling() {
    let mut conductor = Conductor::start();
    let (port, secret) = conductor.stdio();
    let (mut silent, mut clients) = (Vec::new(), Vec::new());
    // Many more than there are places: the oldest gives way, and nobody waits for it to be given up.
    for _ in 0..10 {
        for _ in 0..40 {
            silent.push(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
        }
        let (client, welcome) = connect(port, &greeting(&secret)).await;
        assert_eq!(welcome, WELCOME);
        conductor.called().await;
        clients.push(client);
    }
    let mut oldest = silent.swap_remove(0);
    assert_eq!(oldest.read(&mut [0; 8]).await.unwrap_or(0), 0, "the oldest is closed");
}

#[tokio::test]
async fn a_line_that_is_too_long_is_answered() {
    let mut conductor = Conductor::start();
    let (port, secret) = conductor.stdio();
    let (mut client, _) = connect(port, &greeting(&secret)).await;
    let client_id = conductor.called().await;
    let long = "x".repeat(LONGEST);
    for (text, id) in [
        (format!("{{\"id\":5,\"method\":\"m\",\"params\":\"{long}\"}}\n"), "\"id\":5,"),
        (format!("[\"{long}\"]\n"), "\"id\":null,"),
    ] {
        client.write_all(text.as_bytes()).await.unwrap();
        let answer = line(&mut client).await;
        assert!(answer.contains(id) && answer.contains("-32600"), "{answer}");
        assert!(answer.contains(&LONGEST.to_string()) && answer.contains("--max-line"), "{answer}");
    }
    client.write_all(b"{}\n").await.unwrap();
    assert_eq!(conductor.line(client_id).await, "{}");
}

#[tokio::test]
async fn the_listener_is_there_while_somebody_may_call() {
    let mut conductor = Conductor::start();
    let (port, secret) = conductor.stdio();
    assert_eq!(conductor.stdio().0, port, "one for all");
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
    let client_id = conductor.called().await;
    conductor.listeners.revoke(TICKET);
    conductor.listeners.revoke(TICKET);
    TcpStream::connect(("127.0.0.1", port)).await.expect("ticket 9 is still there");
    conductor.listeners.revoke(Ticket(9));
    while TcpStream::connect(("127.0.0.1", port)).await.is_ok() {
        tokio::task::yield_now().await;
    }
    // Who has called stays.
    client.write_all(b"{}\n").await.unwrap();
    assert_eq!(conductor.line(client_id).await, "{}");
    let (again, secret) = conductor.stdio();
    assert_eq!(connect(again, &greeting(&secret)).await.1, WELCOME);
    conductor.called().await;

    drop(conductor.listeners);
    assert_eq!(line(&mut client).await, "", "everything is closed");
}

/// The command, its standard input left open.
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
async fn the_command_joins_its_streams_to_the_conductor() {
    let mut conductor = Conductor::start();
    let (port, secret) = conductor.stdio();
    let mut child = command(port, Some(&secret));
    let (mut input, mut output) = (child.stdin.take().unwrap(), output(&mut child));
    let client_id = conductor.called().await;
    input.write_all(b"{\"a\": 1}\n").await.unwrap();
    assert_eq!(conductor.line(client_id).await, "{\"a\": 1}");
    conductor.say(client_id, "{\"b\": 2}");
    assert_eq!(line(&mut output).await, "{\"b\": 2}\n");
    // The agent closes; what was on its way still comes.
    drop(input);
    conductor.say(client_id, "{\"c\": 3}");
    conductor.hung_up(client_id).await;
    assert_eq!(line(&mut output).await, "{\"c\": 3}\n");
    assert!(child.wait().await.unwrap().success());

    // The conductor closes, and the agent does not.
    let mut child = command(port, Some(&secret));
    let _input = child.stdin.take();
    conductor.called().await;
    conductor.senders.clear();
    assert!(child.wait().await.unwrap().success());
}

#[tokio::test]
async fn the_command_without_a_secret_joins_anything() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut child = command(listener.local_addr().unwrap().port(), None);
    let mut output = output(&mut child);
    child.stdin.as_mut().unwrap().write_all(b"hello").await.unwrap();
    let (mut stream, _) = listener.accept().await.unwrap();
    let mut said = [0; 5];
    stream.read_exact(&mut said).await.unwrap();
    assert_eq!(&said, b"hello");
    drop(child.stdin.take());
    assert_eq!(stream.read(&mut said).await.unwrap(), 0);
    stream.write_all(b"bytes, as they come").await.unwrap();
    drop(stream);
    assert_eq!(line(&mut output).await, "bytes, as they come");
    assert!(child.wait().await.unwrap().success());
}

#[tokio::test]
async fn the_command_says_in_one_line_and_at_once_why_it_cannot() {
    let refused = async |port, part: &str| {
        let started = Instant::now();
        let child = command(port, Some("hush"));
        let output = child.wait_with_output().await.unwrap();
        let words = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(words.contains(part) && words.contains(&format!("port {port}")), "{words}");
        assert!(words.ends_with('\n') && words.lines().count() == 1 && !words.contains("hush"));
        assert!(started.elapsed().as_millis() < 1500, "{:?}", started.elapsed());
    };
    let mut conductor = Conductor::start();
    let (port, _) = conductor.stdio();
    refused(port, "does not know this secret: the session it belonged to has ended").await;
    conductor.assert_quiet();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    // It takes the connection and says nothing.
    refused(port, "is not a conductor").await;
    let talks = tokio::spawn(async move {
        listener.accept().await.unwrap();
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.write_all(b"220 mail.example.org ESMTP ready, go ahead\r\n").await.unwrap();
        let _ = stream.read_to_end(&mut Vec::new()).await;
    });
    refused(port, "is not a conductor").await;
    talks.await.unwrap();
    refused(port, "no conductor listens on").await;
}
