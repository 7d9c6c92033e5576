//! Who asks is no burden, and who answers is not trusted blindly.

use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};

use serde_json::{Value, json};
use testkit::test_chain::{wait_until, with_timeout};

use crate::{INITIALIZE, Nook, PATIENT, PROMPT, end, names, single};

#[test]
fn clients_that_never_read_hold_up_neither_the_chain_nor_its_end() {
    let nook = Nook::new("deaf");
    let setup = nook.test_chain().option(&PATIENT);
    let mut agent = setup.scripted_json("agent");
    agent["args"].as_array_mut().expect("a list").push(json!("x".repeat(100_000)));
    let mut chain = setup.run("agent", &[agent.to_string()]);
    let mut agent = chain.initialize(&["agent"]).remove(0);
    // What JSON has to escape is long: the answer is more than a socket takes.
    agent.write_stderr(&format!("{}\n", "\x01".repeat(2000)).repeat(20));
    wait_until("its words are known", || {
        let words = nook.json()["components"][0]["lastWords"].take();
        (words.as_array().map(Vec::len) == Some(20)).then_some(())
    });
    let socket = nook.socket(&chain.conductor);
    let deaf: Vec<UnixStream> =
        (0..30).map(|_| UnixStream::connect(&socket).expect("it listens")).collect();
    // Whoever was first is being told, which one can see without reading.
    let mut first = libc::pollfd { fd: deaf[0].as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one descriptor, which is open.
    assert_eq!(unsafe { libc::poll(&mut first, 1, 60_000) }, 1);
    for _ in 0..100 {
        chain.editor.send(PROMPT);
        let prompt = agent.request("session/prompt");
        agent.answer(&prompt, "{}");
        assert_eq!(chain.editor.message()["id"], 1);
    }
    end(&mut chain, &mut [agent]);
    assert_eq!(names(&nook.directory()), [""; 0]);
    // They have been hung up on, some before it was their turn: then it is an error. Nobody was told
    // all, so it was really waited for them.
    for mut client in deaf {
        let told = with_timeout("the end", move || {
            let mut told = Vec::new();
            let _ = client.read_to_end(&mut told);
            told
        });
        assert!(!told.ends_with(b"\n"), "{} bytes", told.len());
    }
}

#[test]
fn what_clients_say_is_not_heard() {
    let nook = Nook::new("chatty");
    let (mut chain, agent) = single(nook.test_chain());
    let mut client = UnixStream::connect(nook.socket(&chain.conductor)).expect("it listens");
    // It may be told everything before it has said a word.
    let _ = client.write_all(INITIALIZE.as_bytes());
    let mut answer = String::new();
    // The line comes whole, whatever was said.
    let _ = client.read_to_string(&mut answer);
    let mut lines = answer.lines();
    let status: Value = serde_json::from_str(lines.next().expect("a line")).expect("JSON");
    assert_eq!((&status["pid"], lines.next()), (&json!(chain.conductor.pid()), None));
    end(&mut chain, &mut [agent]);
}

#[test]
fn a_socket_that_is_not_a_conductors_is_told() {
    let nook = Nook::new("other");
    let (chain, _agent) = single(nook.test_chain());
    let listener = UnixListener::bind(nook.directory().join("3.sock")).expect("a socket");
    let stranger = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a call");
        stream.write_all(b"{\"version\":99}\n").expect("it listens");
    });
    let output = nook.status(&[]);
    stranger.join().expect("no panic");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.starts_with("conductor: conductor 3 sent a status that this version"), "{said}");
    let shown = String::from_utf8_lossy(&output.stdout);
    assert!(shown.starts_with(&chain.conductor.pid().to_string()), "{shown}");
}
