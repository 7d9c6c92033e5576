//! Many sessions, one after the other, leave no descriptors, threads or memory behind.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;

use serde_json::Value;
use testkit::rpc::request;
use testkit::test_chain::{memory, wait_until};

use crate::chain::{
    HTTP, INITIALIZE_PARAMS, INITIALIZE_RESULT, McpChain, STDIO, accept_connection, m3, receive,
    receive_mcp, reply,
};
use crate::clients::{Client, Http, TIMEOUT, port_of, secret_of};

/// The number of open descriptors and of threads of a process.
fn open_resources(pid: u32) -> (usize, usize) {
    let count = |what: &str| {
        std::fs::read_dir(format!("/proc/{pid}/{what}"))
            .expect("a running process")
            .flatten()
            .count()
    };
    (count("fd"), count("task"))
}

/// Connects as `conductor mcp PORT` does, but without a process: a thousand processes would only test the
/// operating system.
fn connect(entry: &Value) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(("127.0.0.1", port_of(entry))).expect("a listener");
    let greeting = format!("{{\"conductor\":\"{}\"}}\n", secret_of(entry));
    stream.write_all(greeting.as_bytes()).expect("a reader");
    let mut stream = BufReader::new(stream);
    let mut welcome = String::new();
    stream.read_line(&mut welcome).expect("a welcome");
    assert_eq!(welcome, "{\"conductor\":\"welcome\"}\n");
    stream
}

/// Sets up a session with two servers, initializes a client of one of them, and closes the session. The
/// client disconnects before that, or is still connected.
fn run_session(chain: &mut McpChain, number: usize, disconnects: bool) {
    let session = format!("S{number}");
    let servers = [m3("a", &format!("A{number}")), m3("b", &format!("B{number}"))];
    let list = chain.new_session(&session, &[&servers]);
    let hello = request("0", "initialize", INITIALIZE_PARAMS);
    let (mut stdio, mut http) = (None, None);
    match list[0].get("command") {
        Some(_) => {
            let mut stream = connect(&list[0]);
            stream.get_mut().write_all(format!("{hello}\n").as_bytes()).expect("a reader");
            stdio = Some(stream);
        }
        None => {
            let mut client = Http::of(&list[0]);
            client.send(&hello);
            http = Some(client);
        }
    }
    let connection = format!("C{number}");
    assert_eq!(accept_connection(chain.provider(), &connection), format!("acp:A{number}"));
    let (id, _) = receive_mcp(chain.provider(), &connection, "initialize");
    reply(chain.provider(), &id, INITIALIZE_RESULT);
    let mut answer = String::new();
    if let Some(stream) = &mut stdio {
        stream.read_line(&mut answer).expect("an answer");
    }
    if let Some(client) = &http {
        answer = client.lines.recv_timeout(TIMEOUT).expect("an answer");
    }
    assert!(answer.contains("serverInfo"), "{answer}");
    if disconnects {
        drop(stdio.take());
        http.take().into_iter().for_each(|it| Client::Http(it).close());
        assert_eq!(receive(chain.provider())["method"], "_mcp/disconnect");
    }
    chain.close_session(&session);
    if !disconnects {
        assert_eq!(receive(chain.provider())["method"], "_mcp/disconnect");
    }
}

/// Sets up and closes 1,000 sessions. Nothing stays behind, and ports are reused.
fn run_thousand_sessions(agent: &str) {
    let mut chain = McpChain::with_provider(agent);
    let pid = chain.test.conductor.pid();
    let first = open_resources(pid);
    let mut before = 0;
    for number in 0..1000 {
        run_session(&mut chain, number, number % 2 == 0);
        if number == 200 {
            // By now the conductor has allocated its working memory.
            before = memory(pid).0;
        }
    }
    // Descriptors and threads are released shortly after the session.
    wait_until(&format!("descriptors and threads are {first:?}"), || {
        (open_resources(pid) == first).then_some(())
    });
    let after = memory(pid).0;
    assert!(after <= before + 3 * 1024, "{before} KiB became {after} KiB");
}

#[test]
fn a_thousand_sessions_over_stdio_leave_nothing_behind() {
    run_thousand_sessions(STDIO);
}

#[test]
fn a_thousand_sessions_over_http_leave_nothing_behind() {
    run_thousand_sessions(HTTP);
}
