//! Many sessions, one after the other, and what they leave behind: nothing.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::Value;
use testkit::rpc::request;
use testkit::stage::{memory, wait_until};

use crate::clients::{Client, Http, PATIENCE, port_of, secret_of};
use crate::play::{HELLO, HTTP, Play, SERVED, STDIO, accept, heard, m3, reply, said};

/// Open descriptors and threads of a process.
fn holdings(pid: u32) -> (usize, usize) {
    let count = |what: &str| {
        std::fs::read_dir(format!("/proc/{pid}/{what}")).expect("it runs").flatten().count()
    };
    (count("fd"), count("task"))
}

/// A client that calls as `conductor mcp PORT` does, without the process: a thousand of those would
/// only test the system.
fn call(entry: &Value) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", port_of(entry))).expect("it listens");
    let greeting = format!("{{\"conductor\":\"{}\"}}\n", secret_of(entry));
    stream.write_all(greeting.as_bytes()).expect("it reads");
    let mut stream = BufReader::new(stream);
    let mut welcome = String::new();
    stream.read_line(&mut welcome).expect("a welcome");
    assert_eq!(welcome, "{\"conductor\":\"welcome\"}\n");
    stream
}

/// A session with two servers; a client that says hello to one of them, and is still there when the
/// session is closed.
fn one(play: &mut Play, number: usize, leaves: bool) {
    let session = format!("S{number}");
    let servers = [m3("a", &format!("A{number}")), m3("b", &format!("B{number}"))];
    let list = play.session(&session, &[&servers]);
    let hello = request("0", "initialize", HELLO);
    let (mut stdio, mut http) = (None, None);
    match list[0].get("command") {
        Some(_) => {
            let mut stream = call(&list[0]);
            stream.get_mut().write_all(format!("{hello}\n").as_bytes()).expect("it reads");
            stdio = Some(stream);
        }
        None => {
            let mut client = Http::of(&list[0]);
            client.send(&hello);
            http = Some(client);
        }
    }
    let connection = format!("C{number}");
    assert_eq!(accept(play.tool_proxy(), &connection), format!("acp:A{number}"));
    let (id, _) = said(play.tool_proxy(), &connection, "initialize");
    reply(play.tool_proxy(), &id, SERVED);
    let mut answer = String::new();
    if let Some(stream) = &mut stdio {
        stream.read_line(&mut answer).expect("an answer");
    }
    if let Some(client) = &http {
        answer = client.lines.recv_timeout(PATIENCE).expect("an answer");
    }
    assert!(answer.contains("serverInfo"), "{answer}");
    if leaves {
        drop(stdio.take());
        http.take().into_iter().for_each(|it| Client::Http(it).close());
        assert_eq!(heard(play.tool_proxy())["method"], "_mcp/disconnect");
    }
    play.close(&session);
    if !leaves {
        assert_eq!(heard(play.tool_proxy())["method"], "_mcp/disconnect");
    }
}

/// Issue 5: 1,000 sessions opened and closed leave nothing behind. Phase 4: ports are cleaned up and
/// used again.
fn thousand(agent: &str) {
    let mut play = Play::tools(agent);
    let pid = play.stage.conductor.pid();
    let first = holdings(pid);
    let mut before = 0;
    for number in 0..1000 {
        one(&mut play, number, number % 2 == 0);
        if number == 200 {
            // By now it has what it needs.
            before = memory(pid).0;
        }
    }
    // What ends with a session ends a little after it.
    wait_until(&format!("descriptors and threads are {first:?}"), || {
        (holdings(pid) == first).then_some(())
    });
    let after = memory(pid).0;
    assert!(after <= before + 3 * 1024, "{before} KiB became {after} KiB");
}

#[test]
fn a_thousand_sessions_over_stdio_leave_nothing_behind() {
    thousand(STDIO);
}

#[test]
fn a_thousand_sessions_over_http_leave_nothing_behind() {
    thousand(HTTP);
}
