//! A component whose strings are pulled by a test: `puppet SOCKET NAME`.
//!
//! It connects to the test's Unix socket, says its name and process id, and from then on does what
//! it is told, one JSON object a line (see `testkit::stage`). What arrives on its standard input is
//! reported back. It never does anything by itself, so a test that plays it decides the order of
//! everything.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};

use serde_json::{Value, json};

fn main() {
    let mut args = std::env::args().skip(1);
    let (Some(socket), Some(name)) = (args.next(), args.next()) else {
        eprintln!("usage: puppet SOCKET NAME");
        std::process::exit(2);
    };
    let stream = UnixStream::connect(&socket).expect("the test listens");
    let strings = BufReader::new(stream.try_clone().expect("a second handle"));
    let report = Arc::new(Mutex::new(stream));
    let environment: std::collections::BTreeMap<_, _> = std::env::vars().collect();
    say(
        &report,
        json!({
            "hello": name,
            "pid": std::process::id(),
            "args": args.collect::<Vec<_>>(),
            "cwd": std::env::current_dir().ok(),
            "env": environment,
        }),
    );
    let gate = Arc::new((Mutex::new(true), Condvar::new()));
    std::thread::spawn({
        let (report, gate) = (report.clone(), gate.clone());
        move || read_input(&report, &gate)
    });
    for line in strings.lines() {
        let Ok(line) = line else { break };
        obey(&serde_json::from_str(&line).expect("JSON from the test"), &report, &gate);
    }
    // The test is over.
    std::process::exit(0);
}

type Gate = Arc<(Mutex<bool>, Condvar)>;

fn say(report: &Mutex<UnixStream>, what: Value) {
    let mut stream = report.lock().expect("no panic");
    // The test may have ended; then nobody needs to know.
    let _ = stream.write_all(format!("{what}\n").as_bytes());
}

fn read_input(report: &Mutex<UnixStream>, gate: &Gate) {
    let mut input = BufReader::with_capacity(1 << 16, std::io::stdin());
    loop {
        let open = gate.0.lock().expect("no panic");
        drop(gate.1.wait_while(open, |open| !*open).expect("no panic"));
        let mut line = Vec::new();
        match input.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return say(report, json!({"eof": true})),
            Ok(_) => say(report, json!({"line": String::from_utf8_lossy(line.trim_ascii_end())})),
        }
    }
}

fn obey(order: &Value, report: &Mutex<UnixStream>, gate: &Gate) {
    let text = |key: &str| order[key].as_str().map(str::to_owned);
    if let Some(text) = text("out") {
        std::io::stdout().write_all(text.as_bytes()).expect("stdout is open");
        std::io::stdout().flush().expect("stdout is open");
    }
    if let Some(hex) = text("out_hex") {
        let bytes: Vec<u8> = (0..hex.len() / 2)
            .map(|at| u8::from_str_radix(&hex[at * 2..at * 2 + 2], 16).expect("hex"))
            .collect();
        std::io::stdout().write_all(&bytes).expect("stdout is open");
        std::io::stdout().flush().expect("stdout is open");
    }
    // Many lines, in a thread of their own: `{n}` in the text is the number of the line.
    if let (Some(text), Some(count)) = (text("repeat"), order["count"].as_u64()) {
        std::thread::spawn(move || {
            let mut out = std::io::BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
            for number in 0..count {
                writeln!(out, "{}", text.replace("{n}", &number.to_string()))
                    .expect("stdout is open");
            }
        });
    }
    // So many bytes without a newline, in pieces of this text.
    if let (Some(text), Some(bytes)) = (text("fill"), order["bytes"].as_u64()) {
        let piece = text.repeat((1 << 16) / text.len());
        let pieces = bytes.div_ceil(piece.len() as u64);
        for _ in 0..pieces {
            std::io::stdout().write_all(piece.as_bytes()).expect("stdout is open");
        }
    }
    if let Some(text) = text("err") {
        eprint!("{text}");
    }
    if let Some(read) = order["read"].as_bool() {
        *gate.0.lock().expect("no panic") = read;
        gate.1.notify_all();
    }
    if let Some(command) = text("spawn") {
        // A grandchild, which inherits our pipes as careless programs let them.
        let child = Command::new("sh").arg("-c").arg(command).stdin(Stdio::null()).spawn();
        say(report, json!({"spawned": child.expect("sh").id()}));
    }
    if order["close_stdout"] == true {
        close(1);
    }
    if order["close_stdin"] == true {
        close(0);
    }
    if order["ignore_signals"] == true {
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            // SAFETY: sets the disposition of a signal.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        }
        say(report, json!({"ignoring": true}));
    }
    if order["settle"] == true {
        say(report, json!({"settled": true}));
    }
    if let Some(status) = order["exit"].as_i64() {
        std::process::exit(status as i32);
    }
    if let Some(signal) = order["signal"].as_i64() {
        // SAFETY: sends a signal to ourselves.
        unsafe { libc::raise(signal as i32) };
    }
}

fn close(descriptor: i32) {
    // SAFETY: the descriptor is a standard stream that this program uses no further.
    unsafe { libc::close(descriptor) };
}
