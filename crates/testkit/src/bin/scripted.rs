//! A component that a test scripts: `scripted SOCKET NAME`.
//!
//! It connects to the test's Unix socket, reports its name, process id and surroundings, and then executes commands, one
//! JSON object a line (`testkit::test_chain` sends them). It reports each line of its standard input. It never does
//! anything by itself, so the test decides the order of all events.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::{Arc, Condvar, Mutex};

use serde_json::{Value, json};

fn main() {
    let mut args = std::env::args().skip(1);
    let (Some(socket), Some(name)) = (args.next(), args.next()) else {
        eprintln!("usage: scripted SOCKET NAME");
        std::process::exit(2);
    };
    let stream = UnixStream::connect(&socket).expect("the test listens");
    let commands = BufReader::new(stream.try_clone().expect("a second handle"));
    let report = Arc::new(Mutex::new(stream));
    let environment: std::collections::BTreeMap<_, _> = std::env::vars().collect();
    send_report(
        &report,
        json!({
            "name": name,
            "pid": std::process::id(),
            "args": args.collect::<Vec<_>>(),
            "cwd": std::env::current_dir().ok(),
            "env": environment,
        }),
    );
    let gate = Arc::new((Mutex::new(None), Condvar::new()));
    let mut child = None;
    std::thread::spawn({
        let (report, gate) = (report.clone(), gate.clone());
        move || read_input(&report, &gate)
    });
    for line in commands.lines() {
        let Ok(line) = line else { break };
        let command = serde_json::from_str(&line).expect("JSON from the test");
        execute(&command, &report, &gate);
        run_child(&command, &report, &mut child);
    }
    // The test is over.
    std::process::exit(0);
}

/// How many more lines of standard input are read. `None`: no limit.
type Gate = Arc<(Mutex<Option<u64>>, Condvar)>;

/// Sends a report to the test.
fn send_report(report: &Mutex<UnixStream>, what: Value) {
    let mut stream = report.lock().expect("no panic");
    // The test may have ended. Then the report is not needed.
    let _ = stream.write_all(format!("{what}\n").as_bytes());
}

fn read_input(report: &Mutex<UnixStream>, gate: &Gate) {
    let mut input = BufReader::with_capacity(1 << 16, std::io::stdin());
    loop {
        let limit = gate.0.lock().expect("no panic");
        drop(gate.1.wait_while(limit, |limit| *limit == Some(0)).expect("no panic"));
        let mut line = Vec::new();
        match input.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return send_report(report, json!({"eof": true})),
            Ok(_) => {
                if let Some(limit) = gate.0.lock().expect("no panic").as_mut() {
                    *limit = limit.saturating_sub(1);
                }
                send_report(report, json!({"line": String::from_utf8_lossy(line.trim_ascii_end())}))
            }
        }
    }
}

fn execute(command: &Value, report: &Mutex<UnixStream>, gate: &Gate) {
    let text = |key: &str| command[key].as_str().map(str::to_owned);
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
    // Writes many lines from another thread. `{n}` in the text is replaced by the number of the line.
    if let (Some(text), Some(count)) = (text("repeat"), command["count"].as_u64()) {
        std::thread::spawn(move || {
            let mut out = std::io::BufWriter::with_capacity(1 << 16, std::io::stdout().lock());
            for number in 0..count {
                writeln!(out, "{}", text.replace("{n}", &number.to_string()))
                    .expect("stdout is open");
            }
        });
    }
    // Writes so many bytes without a newline, as repetitions of this text.
    if let (Some(text), Some(bytes)) = (text("fill"), command["bytes"].as_u64()) {
        let piece = text.repeat((1 << 16) / text.len());
        let pieces = bytes.div_ceil(piece.len() as u64);
        for _ in 0..pieces {
            std::io::stdout().write_all(piece.as_bytes()).expect("stdout is open");
        }
    }
    if let Some(text) = text("err") {
        eprint!("{text}");
    }
    // `{"read": false}` may come too late for the line that is being read. `{"read_lines": 1}` is exact.
    let limit = match command["read"].as_bool() {
        Some(read) => Some(if read { None } else { Some(0) }),
        None => command["read_lines"].as_u64().map(Some),
    };
    if let Some(limit) = limit {
        *gate.0.lock().expect("no panic") = limit;
        gate.1.notify_all();
    }
    if let Some(shell) = text("spawn") {
        // The child inherits our standard output and error, as in programs that do not redirect them.
        let child = Command::new("sh").arg("-c").arg(shell).stdin(Stdio::null()).spawn();
        send_report(report, json!({"spawned": child.expect("sh").id()}));
    }
    if command["close_stdout"] == true {
        close(1);
    }
    if command["close_stdin"] == true {
        close(0);
    }
    if command["ignore_signals"] == true {
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGHUP] {
            // SAFETY: sets the disposition of a signal.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        }
        send_report(report, json!({"ignoring": true}));
    }
    if command["sync"] == true {
        send_report(report, json!({"synced": true}));
    }
    if let Some(status) = command["exit"].as_i64() {
        std::process::exit(status as i32);
    }
    if let Some(signal) = command["signal"].as_i64() {
        // SAFETY: sends a signal to ourselves.
        unsafe { libc::raise(signal as i32) };
    }
}

/// Starts a child from a description like ACP's of an MCP server, writes lines to it, and reports its lines and at last its
/// exit status.
fn run_child(command: &Value, report: &Arc<Mutex<UnixStream>>, child: &mut Option<ChildStdin>) {
    if let Some(server) = command["child"].as_object() {
        let words = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let mut program = Command::new(text(&server["command"]));
        program.args(words(&server["args"]).iter().map(text));
        program.envs(
            words(&server["env"]).iter().map(|pair| (text(&pair["name"]), text(&pair["value"]))),
        );
        let mut started =
            program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the command");
        send_report(report, json!({"child": started.id()}));
        *child = started.stdin.take();
        let (report, output) = (report.clone(), started.stdout.take().expect("a pipe"));
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                send_report(&report, json!({ "child_line": line }));
            }
            let status = started.wait().expect("it ends").code().unwrap_or(-1);
            send_report(&report, json!({ "child_ended": status }));
        });
    }
    if let Some(text) = command["to_child"].as_str() {
        let mut input = child.as_ref().expect("a child that is open");
        // A child that has exited cannot be written to. Its exit is reported.
        let _ = input.write_all(text.as_bytes()).and_then(|()| input.flush());
    }
    if command["close_child"] == true {
        *child = None;
    }
}

fn close(descriptor: i32) {
    // SAFETY: the descriptor is a standard stream that this program uses no further.
    unsafe { libc::close(descriptor) };
}
