//! The conductor between programs that were not written for it: editors, agents and proxies on the
//! official Rust, TypeScript and Python SDKs, and the reference conductor. Every run is the story of
//! `peers/README.md`, so every pair of editor and agent must tell it alike.
//!
//! `CONDUCTOR=/path/to/another cargo test --test interop` runs the same against another conductor,
//! which tells whose fault a failure is.

use std::env;
use std::fs::{self, File};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::peers::{Peers, quote};

static PEERS: LazyLock<Peers> = LazyLock::new(Peers::load);

/// A story takes a second or two; a machine busy with other tests gets some more.
const RUN_LIMIT: Duration = Duration::from_secs(60);
/// How long after the editor everyone else may stay.
const LEAVE_LIMIT: Duration = Duration::from_secs(10);

#[test]
fn rust_editor_rust_agent() {
    check_pair("rust_editor", "rust_agent");
}

#[test]
fn rust_editor_typescript_agent() {
    check_pair("rust_editor", "ts_agent");
}

#[test]
fn rust_editor_python_agent() {
    check_pair("rust_editor", "py_agent");
}

#[test]
fn typescript_editor_rust_agent() {
    check_pair("ts_editor", "rust_agent");
}

#[test]
fn typescript_editor_typescript_agent() {
    check_pair("ts_editor", "ts_agent");
}

#[test]
fn typescript_editor_python_agent() {
    check_pair("ts_editor", "py_agent");
}

#[test]
fn python_editor_rust_agent() {
    check_pair("py_editor", "rust_agent");
}

#[test]
fn python_editor_typescript_agent() {
    check_pair("py_editor", "ts_agent");
}

#[test]
fn python_editor_python_agent() {
    check_pair("py_editor", "py_agent");
}

fn check_pair(editor: &str, agent: &str) {
    check(editor, &ours(), &[peer(agent)], &[]);
    check(editor, &ours(), &[marking("A"), marking("B"), peer(agent)], &["A", "B"]);
}

#[test]
fn a_silent_proxy_is_not_seen() {
    check("ts_editor", &ours(), &[peer("rust_proxy"), marking("B"), peer("py_agent")], &["B"]);
}

#[test]
fn proxies_of_two_sdks_in_one_chain() {
    let typescript = |mark| format!("{} --mark {mark}", peer("ts_proxy"));
    let chain = [typescript("A"), marking("B"), typescript("C"), peer("rust_agent")];
    check("py_editor", &ours(), &chain, &["A", "B", "C"]);
}

#[test]
fn a_chain_inside_a_chain() {
    let inner = proxies(&ours(), &["B", "C"]);
    let chain = [marking("A"), inner, marking("D"), peer("ts_agent")];
    check("rust_editor", &ours(), &chain, &["A", "B", "C", "D"]);
}

#[test]
fn a_whole_chain_as_the_agent_of_another() {
    let inner = agent(&ours(), &[marking("B"), peer("py_agent")]);
    check("ts_editor", &ours(), &[marking("A"), inner], &["A", "B"]);
}

#[test]
fn inside_the_reference_conductor() {
    let chain = [marking("A"), proxies(&ours(), &["B", "C"]), marking("D"), peer("rust_agent")];
    check("py_editor", &reference(), &chain, &["A", "B", "C", "D"]);
}

#[test]
fn as_the_agent_of_the_reference_conductor() {
    let inner = agent(&ours(), &[marking("B"), peer("ts_agent")]);
    check("rust_editor", &reference(), &[marking("A"), inner], &["A", "B"]);
}

#[test]
fn around_the_reference_conductor() {
    let chain = [marking("A"), proxies(&reference(), &["B", "C"]), marking("D"), peer("py_agent")];
    check("rust_editor", &ours(), &chain, &["A", "B", "C", "D"]);
}

/// Plays the story over `CONDUCTOR agent CHAIN…`, in which the proxies leave these marks, in order
/// from the editor.
fn check(editor: &str, conductor: &str, chain: &[String], marks: &[&str]) {
    let command = agent(conductor, chain);
    let summary = Run::start(editor, &command).summary();
    let what = format!("{editor} over {command}");
    let events = summary["events"].as_array().unwrap_or_else(|| panic!("{what}: {summary}"));

    let expected = story(marks);
    for (at, (event, expected)) in events.iter().zip(&expected).enumerate() {
        assert_eq!(event, expected, "event {at} of {what}");
    }
    assert_eq!(
        events.len(),
        expected.len(),
        "the last events of {what}: {:?}",
        events.last_chunk::<3>()
    );
    let updates = expected.iter().filter(|it| it.get("update").is_some()).count();
    assert_eq!(summary["understood"], updates, "{what}");
    assert_eq!(
        summary["answered"],
        json!(["session/request_permission", "fs/read_text_file"]),
        "{what}"
    );
    assert_eq!(summary["protocolVersion"], 1, "{what}");
    let agents = [
        ("rust_agent", "rust-agent"),
        ("ts_agent", "typescript-agent"),
        ("py_agent", "python-agent"),
    ];
    let (_, name) =
        agents.iter().find(|(it, _)| command.contains(PEERS.command(it))).expect("one of ours");
    assert_eq!(summary["agent"], *name, "{what}");
}

/// What an editor must have seen.
fn story(marks: &[&str]) -> Vec<Value> {
    // A prompt passes the first proxy first, an update passes it last.
    let heard: String = marks.iter().map(|it| format!(" {it}")).collect();
    let prefix: String = marks.iter().map(|it| format!("{it}:")).collect();
    let chunk =
        |text: &str| json!({ "update": "agent_message_chunk", "text": format!("{prefix}{text}") });
    let file = env::current_dir().expect("cargo sets it").join("peer.txt");

    let mut events = vec![chunk(&format!("heard count to 50{heard}"))];
    events.extend((1..=50).map(|number| chunk(&number.to_string())));
    events.extend([
        json!({ "update": "tool_call" }),
        json!({ "asked": "session/request_permission" }),
        chunk("permission allow"),
        json!({ "asked": "fs/read_text_file" }),
        chunk(&format!("file words of {}", file.display())),
        json!({ "answer": "end_turn" }),
        chunk("waiting"),
        json!({ "answer": "cancelled" }),
    ]);
    events
}

fn ours() -> String {
    let other = env::var("CONDUCTOR");
    quote(other.as_deref().unwrap_or(env!("CARGO_BIN_EXE_conductor")))
}

fn reference() -> String {
    peer("reference")
}

fn peer(name: &str) -> String {
    PEERS.command(name).to_owned()
}

fn marking(mark: &str) -> String {
    format!("{} --mark {mark}", peer("rust_proxy"))
}

fn agent(conductor: &str, chain: &[String]) -> String {
    let components: Vec<String> = chain.iter().map(|it| quote(it)).collect();
    format!("{conductor} agent {}", components.join(" "))
}

/// A chain of marking proxies, as one component.
fn proxies(conductor: &str, marks: &[&str]) -> String {
    let components: Vec<String> = marks.iter().map(|it| quote(&marking(it))).collect();
    format!("{conductor} proxy {}", components.join(" "))
}

/// An editor with all that it starts, in a session of their own: conductors put their components into
/// process groups, so only the session still says who belongs to the run.
struct Run {
    editor: Child,
    output: String,
}

impl Run {
    fn start(editor: &str, command: &str) -> Self {
        static RUNS: AtomicU32 = AtomicU32::new(0);
        let number = RUNS.fetch_add(1, Ordering::Relaxed);
        let output =
            format!("{}/interop-{}-{number}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
        // Files and not pipes: a process that outlives the editor would keep a pipe open, and us waiting.
        let file =
            |end| File::create(format!("{output}.{end}")).expect("cargo's directory is writable");
        let editor = Command::new("sh")
            .args(["-c", &format!("exec setsid {} -- {command}", PEERS.command(editor))])
            .stdin(Stdio::null())
            .stdout(file("out"))
            .stderr(file("err"))
            .spawn()
            .expect("sh starts");
        Self { editor, output }
    }

    /// What the editor printed, once it and everyone else has left.
    fn summary(mut self) -> Value {
        let complaint = match within(RUN_LIMIT, || self.editor.try_wait().expect("it is our child"))
        {
            None => format!("no end after {RUN_LIMIT:?}: {:?}", self.members()),
            Some(status) if !status.success() => format!("the editor ended with {status}"),
            Some(_)
                if within(LEAVE_LIMIT, || self.members().is_empty().then_some(())).is_none() =>
            {
                format!("left behind: {:?}", self.members())
            }
            Some(_) => {
                return serde_json::from_str(&self.read("out")).expect("the editor prints JSON");
            }
        };
        panic!("{complaint}\nstdout: {}\nstderr: {}", self.read("out"), self.read("err"));
    }

    fn read(&self, end: &str) -> String {
        fs::read_to_string(format!("{}.{end}", self.output)).expect("made at the start")
    }

    /// Who is still there: process id and command line.
    fn members(&self) -> Vec<(String, String)> {
        let session = self.editor.id().to_string();
        let processes = fs::read_dir("/proc").expect("these tests are for Linux");
        let mut members = Vec::new();
        for process in processes.flatten() {
            // PID (NAME) STATE PARENT GROUP SESSION …; the name may contain anything.
            let stat = fs::read_to_string(process.path().join("stat")).unwrap_or_default();
            let fields: Vec<&str> =
                stat.rsplit_once(')').map_or(Vec::new(), |(_, it)| it.split_whitespace().collect());
            if fields.get(3) == Some(&session.as_str()) && fields[0] != "Z" {
                let words = fs::read_to_string(process.path().join("cmdline")).unwrap_or_default();
                members.push((
                    process.file_name().to_string_lossy().into_owned(),
                    words.replace('\0', " "),
                ));
            }
        }
        members
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let members = self.members();
        if !members.is_empty() {
            let _ = Command::new("kill").arg("-9").args(members.iter().map(|(id, _)| id)).status();
        }
        let _ = self.editor.wait();
        for end in ["out", "err"] {
            let _ = fs::remove_file(format!("{}.{end}", self.output));
        }
    }
}

fn within<T>(limit: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let end = Instant::now() + limit;
    loop {
        match look() {
            None if Instant::now() < end => sleep(Duration::from_millis(20)),
            seen => return seen,
        }
    }
}
