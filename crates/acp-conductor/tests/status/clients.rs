//! Clients of the status socket do not disturb the chain, and answers of other servers are not trusted.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};

use serde_json::{Value, json};
use testkit::test_chain::{wait_until, with_timeout};

use crate::{INITIALIZE, LONG_GRACE, PROMPT, TestDirectories, end, names, start_agent};

#[test]
fn clients_that_never_read_block_neither_the_chain_nor_its_end() {
    let directories = TestDirectories::new("deaf");
    let setup = directories.new_setup().option(&LONG_GRACE);
    let mut agent = setup.scripted_json("agent");
    agent["args"].as_array_mut().expect("a list").push(json!("x".repeat(100_000)));
    let mut chain = setup.run("agent", &[agent.to_string()]);
    let mut agent = chain.initialize(&["agent"]).remove(0);
    // Characters that JSON escapes are long, so the status is longer than the buffer of a socket.
    agent.write_stderr(&format!("{}\n", "\x01".repeat(2000)).repeat(20));
    wait_until("its last words are known", || {
        let words = directories.json()["components"][0]["lastWords"].take();
        (words.as_array().map(Vec::len) == Some(20)).then_some(())
    });
    let socket = directories.socket(&chain.conductor);
    let silent_readers: Vec<UnixStream> =
        (0..30).map(|_| UnixStream::connect(&socket).expect("a listener")).collect();
    // The conductor has begun to write to the first client, which shows without reading.
    let mut first =
        libc::pollfd { fd: silent_readers[0].as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one descriptor, which is open.
    assert_eq!(unsafe { libc::poll(&mut first, 1, 60_000) }, 1);
    for _ in 0..100 {
        chain.editor.send(PROMPT);
        let prompt = agent.request("session/prompt");
        agent.answer(&prompt, "{}");
        assert_eq!(chain.editor.message()["id"], 1);
    }
    end(&mut chain, &mut [agent]);
    assert_eq!(names(&directories.sockets()), [""; 0]);
    // Their connections are closed, some before their turn, which is an error. None has received a whole
    // status, so the conductor was really blocked on them.
    for mut client in silent_readers {
        let received = with_timeout("the connection is closed", move || {
            let mut received = Vec::new();
            let _ = client.read_to_end(&mut received);
            received
        });
        assert!(!received.ends_with(b"\n"), "{} bytes", received.len());
    }
}

#[test]
fn input_of_clients_is_ignored() {
    let directories = TestDirectories::new("chatty");
    let (mut chain, agent) = start_agent(directories.new_setup());
    let mut client = UnixStream::connect(directories.socket(&chain.conductor)).expect("a listener");
    // The whole status may be sent before the client has written anything.
    let _ = client.write_all(INITIALIZE.as_bytes());
    let mut answer = String::new();
    // The line arrives whole, whatever the client sends.
    let _ = client.read_to_string(&mut answer);
    let mut lines = answer.lines();
    let status: Value = serde_json::from_str(lines.next().expect("a line")).expect("JSON");
    assert_eq!((&status["pid"], lines.next()), (&json!(chain.conductor.pid()), None));
    end(&mut chain, &mut [agent]);
}

#[test]
fn a_socket_of_another_program_is_reported() {
    let directories = TestDirectories::new("other");
    let (chain, _agent) = start_agent(directories.new_setup());
    let listener = UnixListener::bind(directories.sockets().join("3.sock")).expect("a socket");
    let other_program = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a call");
        stream.write_all(b"{\"version\":99}\n").expect("a listener");
    });
    let output = directories.status(&[]);
    other_program.join().expect("no panic");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(
        stderr.starts_with("conductor: conductor 3 sent a status that this version"),
        "{stderr}"
    );
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.starts_with(&chain.conductor.pid().to_string()), "{shown}");
}
