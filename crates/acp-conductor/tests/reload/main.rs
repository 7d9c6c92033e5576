//! `conductor reload`: a chain of a configuration file gets another configuration while it runs (issue 18, item 4).

#![cfg(unix)]

mod failures;
mod files;
mod overlap;

use std::fs::{self, DirBuilder};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};
use testkit::test_chain::{
    ScriptedComponent, TestChain, assert_gone, directory, wait_until, with_timeout,
};

const PROGRAM: &str = env!("CARGO_BIN_EXE_conductor");

/// A chain of scripted components that comes from a configuration file.
struct Reloaded {
    test: TestChain,
    /// A scripted component as JSON.
    scripted: Value,
    file: PathBuf,
    runtime: PathBuf,
}

/// The text of a configuration file: scripted components, and lines that follow them.
fn configuration(scripted: &Value, names: &[&str], more: &str) -> String {
    let (agent, proxies) = names.split_last().expect("an agent");
    let mut text = format!(
        "default = \"main\"\n\n[chains.main]\nproxies = {}\nagent = {agent:?}\n",
        json!(proxies)
    );
    let (command, socket) = (&scripted["command"], &scripted["args"][0]);
    for name in names.iter().filter(|name| **name != "filter") {
        text +=
            &format!("\n[components.{name}]\ncommand = {command}\nargs = [{socket}, {name:?}]\n");
    }
    text + more
}

impl Reloaded {
    /// Starts a chain with this configuration.
    fn start(name: &str, names: &[&str], more: &str) -> Reloaded {
        let root = directory(&format!("reload-{name}"));
        let builder = TestChain::builder(PROGRAM);
        let file = root.join("conductor.toml");
        let scripted = builder.scripted_json("any");
        fs::write(&file, configuration(&scripted, names, more)).expect("the file is written");
        let builder = builder.env("CONDUCTOR_CONFIG", file.to_str().expect("UTF-8"));
        let test = builder.run("agent", &[]);
        let runtime = test.runtime_directory();
        Reloaded { test, scripted, file, runtime }
    }

    /// Writes another configuration.
    fn write(&self, names: &[&str], more: &str) {
        let text = configuration(&self.scripted, names, more);
        fs::write(&self.file, text).expect("the file is written");
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(arguments).env("XDG_RUNTIME_DIR", &self.runtime).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Other chains of the same user may run.
    fn reload_command(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(&["reload", &self.test.conductor.pid().to_string()]);
        command.args(arguments);
        command
    }

    fn begin_reload(&self) -> Child {
        self.reload_command(&["--json"]).spawn().expect("the conductor starts")
    }

    /// Starts a reload, and returns what it waits for.
    fn begin_waiting_reload(&self) -> (Child, String) {
        let mut reloading = self.begin_reload();
        let mut said = String::new();
        let mut stderr = BufReader::new(reloading.stderr.take().expect("a pipe"));
        stderr.read_line(&mut said).expect("a line");
        (reloading, said)
    }

    /// Reloads, and returns the report.
    fn reload(&self) -> Value {
        report(self.begin_reload().wait_with_output().expect("an output"))
    }

    fn status(&self) -> Value {
        let output = self.command(&["status", "--json"]).output().expect("the conductor starts");
        let all: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
        let pid = self.test.conductor.pid();
        all.into_iter().find(|it| it["pid"] == pid).unwrap_or_default()
    }

    /// The process id of the component next to the editor.
    fn pid_of_first(&self) -> u32 {
        self.status()["components"][0]["pid"].as_u64().expect("a process id") as u32
    }

    /// The components that `conductor status` shows, with their states.
    fn components(&self) -> Vec<(String, String)> {
        let status = self.status();
        let components = status["components"].as_array().cloned().unwrap_or_default();
        let text = |it: &Value, name: &str| it[name].as_str().unwrap_or_default().to_owned();
        components.iter().map(|it| (text(it, "name"), text(it, "state"))).collect()
    }

    fn names(&self) -> Vec<String> {
        self.components().into_iter().map(|(name, _)| name).collect()
    }
}

fn report(output: Output) -> Value {
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let all: Value =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    all[0]["report"].clone()
}

/// A conductor that can be asked to reload. Its process id is that of no process.
fn stand_in(folder: &Path, pid: u32) -> UnixListener {
    let folder = folder.join("conductor");
    let _ = DirBuilder::new().mode(0o700).create(&folder);
    UnixListener::bind(folder.join(format!("{pid}.control"))).expect("a socket")
}

/// Neither chain answers before both are asked.
#[test]
fn all_chains_are_asked_at_once() {
    let folder = directory("reload-all");
    let listeners = [stand_in(&folder, 4_000_001), stand_in(&folder, 4_000_002)];
    let mut command = Command::new(PROGRAM);
    command.args(["reload"]).env("XDG_RUNTIME_DIR", &folder).env("TMPDIR", &folder);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let reloading = command.spawn().expect("the conductor starts");
    let output = with_timeout("both chains are asked", move || {
        let asked = listeners.each_ref().map(|it| it.accept().expect("it is asked").0);
        let why = "a.toml:1:1: wrong [more: conductor errors invalid-configuration]";
        let answers = [json!({ "added": ["x"] }), json!({ "error": why })];
        for (mut stream, mut report) in asked.into_iter().zip(answers) {
            report["progress"] = json!("done");
            writeln!(stream, "{report}").expect("it reads");
        }
        reloading.wait_with_output().expect("an output")
    });
    assert_eq!(String::from_utf8_lossy(&output.stdout), "conductor 4000001: added: x\n");
    // The reason has the name of its section once.
    let expected = "conductor: conductor 4000002: not reloaded: a.toml:1:1: wrong \
                    [more: conductor errors invalid-configuration]\n";
    assert_eq!(String::from_utf8_lossy(&output.stderr), expected);
    assert_eq!(output.status.code(), Some(1));
}

/// Passes a request of the editor through proxies that pass everything on, and answers it.
fn round_trip(
    test: &mut TestChain,
    proxies: &mut [&mut ScriptedComponent],
    agent: &mut ScriptedComponent,
) {
    test.editor.send(r#"{"jsonrpc":"2.0","id":"round","method":"x/ping","params":{"n":1}}"#);
    let mut waiting = Vec::new();
    for proxy in proxies.iter_mut() {
        let request = proxy.request("x/ping");
        proxy.forward("f", "x/ping", &request["params"].to_string());
        waiting.push(request);
    }
    let request = agent.request("x/ping");
    agent.answer(&request, r#"{"n":2}"#);
    for (proxy, request) in proxies.iter_mut().zip(&waiting).rev() {
        let answer = proxy.message();
        assert_eq!(answer["id"], "f", "{answer}");
        proxy.answer(request, &answer["result"].to_string());
    }
    let answer = test.editor.message();
    assert_eq!(answer["result"]["n"], 2, "{answer}");
}

/// Does the handshake and the session replay of a scripted proxy that joins or is restarted.
fn join(proxy: &mut ScriptedComponent, sessions: usize) {
    let greeting = proxy.request("proxy/initialize");
    proxy.forward("i", "initialize", &greeting["params"].to_string());
    let answer = proxy.message();
    proxy.answer(&greeting, &answer["result"].to_string());
    for _ in 0..sessions {
        let request = proxy.request("session/new");
        proxy.forward("s", "session/new", &request["params"].to_string());
        let answer = proxy.message();
        assert_eq!(answer["id"], "s", "{answer}");
        proxy.answer(&request, &answer["result"].to_string());
    }
}

/// Opens a session through these proxies.
fn open_session(
    test: &mut TestChain,
    proxies: &mut [&mut ScriptedComponent],
    agent: &mut ScriptedComponent,
) {
    test.editor.send(r#"{"jsonrpc":"2.0","id":"new","method":"session/new","params":{"cwd":"/","mcpServers":[]}}"#);
    let mut waiting = Vec::new();
    for proxy in proxies.iter_mut() {
        let request = proxy.request("session/new");
        proxy.forward("n", "session/new", &request["params"].to_string());
        waiting.push(request);
    }
    let request = agent.request("session/new");
    agent.answer(&request, r#"{"sessionId":"s"}"#);
    for (proxy, request) in proxies.iter_mut().zip(&waiting).rev() {
        let answer = proxy.message();
        proxy.answer(request, &answer["result"].to_string());
    }
    assert_eq!(test.editor.message()["result"]["sessionId"], "s");
}

#[test]
fn a_proxy_joins_a_running_chain_with_its_sessions_and_leaves_it_again() {
    let mut chain = Reloaded::start("join", &["p1", "agent"], "");
    let [mut p1, mut agent] = chain.test.initialize(&["p1", "agent"]).try_into().expect("two");
    open_session(&mut chain.test, &mut [&mut p1], &mut agent);

    chain.write(&["p1", "p2", "agent"], "");
    let reloading = chain.begin_reload();
    let mut p2 = chain.test.wait_for_component("p2");
    join(&mut p2, 1);
    let told = report(reloading.wait_with_output().expect("an output"));
    assert_eq!(told["added"], json!(["p2"]), "{told}");
    assert_eq!(chain.names(), ["p1", "p2", "agent"]);
    round_trip(&mut chain.test, &mut [&mut p1, &mut p2], &mut agent);

    let pid = chain.pid_of_first();
    chain.write(&["p2", "agent"], "");
    let told = chain.reload();
    assert_eq!(told["removed"], json!(["p1"]), "{told}");
    assert_gone(pid, "p1");
    assert_eq!(chain.names(), ["p2", "agent"]);
    round_trip(&mut chain.test, &mut [&mut p2], &mut agent);

    assert_eq!(
        chain.reload(),
        json!({"error":null,"added":[],"removed":[],"restarted":[],"order":null,"settings":[],"atNextStart":[],"failed":[],"reverted":[],"reasons":[],"notes":[]})
    );
}

#[test]
fn proxies_change_places_and_keep_running() {
    let mut chain = Reloaded::start("order", &["p1", "p2", "agent"], "");
    let [mut p1, mut p2, mut agent] =
        chain.test.initialize(&["p1", "p2", "agent"]).try_into().expect("three");
    round_trip(&mut chain.test, &mut [&mut p1, &mut p2], &mut agent);
    chain.write(&["p2", "p1", "agent"], "");
    let told = chain.reload();
    assert_eq!(told["order"], json!(["p2", "p1", "agent"]), "{told}");
    assert_eq!(told["restarted"], json!([]), "{told}");
    assert_eq!(chain.names(), ["p2", "p1", "agent"]);
    round_trip(&mut chain.test, &mut [&mut p2, &mut p1], &mut agent);
}

#[test]
fn a_component_with_another_environment_is_restarted_and_sighup_is_enough() {
    let mut chain = Reloaded::start("restart", &["p1", "agent"], "");
    let [mut p1, mut agent] = chain.test.initialize(&["p1", "agent"]).try_into().expect("two");
    open_session(&mut chain.test, &mut [&mut p1], &mut agent);
    chain.write(&["p1", "agent"], "\n[components.p1.env]\nLEVEL = \"2\"\n");
    chain.test.conductor.signal(libc::SIGHUP);
    let mut p1 = chain.test.wait_for_component("p1");
    join(&mut p1, 1);
    round_trip(&mut chain.test, &mut [&mut p1], &mut agent);
}

#[test]
fn a_reload_waits_for_the_end_of_a_turn() {
    let mut chain = Reloaded::start("wait", &["p1", "agent"], "");
    let [mut p1, mut agent] = chain.test.initialize(&["p1", "agent"]).try_into().expect("two");
    chain
        .test
        .editor
        .send(r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s"}}"#);
    let prompt = p1.request("session/prompt");
    chain.write(&["agent"], "");
    let (reloading, said) = chain.begin_waiting_reload();
    assert!(
        said.contains(
            "waits until its chain is at rest: proxy 'p1' has not answered session/prompt"
        ),
        "{said}"
    );
    assert_eq!(chain.names(), ["p1", "agent"]);
    p1.answer(&prompt, r#"{"stopReason":"end_turn"}"#);
    assert_eq!(chain.test.editor.message()["result"]["stopReason"], "end_turn");
    let told = report(reloading.wait_with_output().expect("an output"));
    assert_eq!(told["removed"], json!(["p1"]), "{told}");
    round_trip(&mut chain.test, &mut [], &mut agent);
}

#[test]
fn a_wrong_file_changes_nothing_and_the_error_names_the_place() {
    let mut chain = Reloaded::start("wrong", &["p1", "agent"], "");
    let [mut p1, mut agent] = chain.test.initialize(&["p1", "agent"]).try_into().expect("two");
    fs::write(&chain.file, "default = \"main\"\n[chains.main]\nproxis = []\n").expect("written");
    let output = chain.reload_command(&[]).output().expect("an output");
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("conductor.toml:3:1") && stderr.contains("proxies"), "{stderr}");
    round_trip(&mut chain.test, &mut [&mut p1], &mut agent);
}

#[test]
fn a_component_that_cannot_start_does_not_end_the_chain() {
    let mut chain = Reloaded::start("failing", &["p1", "agent"], "");
    let [mut p1, mut agent] = chain.test.initialize(&["p1", "agent"]).try_into().expect("two");
    let more = "\n[components.broken]\ncommand = \"/nonexistent/program\"\nguard = true\nrestarts = \"1/60\"\n";
    let text = configuration(&chain.scripted, &["p1", "agent"], more);
    let text = text.replace(r#"proxies = ["p1"]"#, r#"proxies = ["p1", "broken"]"#);
    fs::write(&chain.file, text).expect("written");
    let output = chain.begin_reload().wait_with_output().expect("an output");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let told = report(output);
    assert_eq!(told["failed"], json!(["broken"]), "{told}");
    round_trip(&mut chain.test, &mut [&mut p1], &mut agent);
}

/// The agent in this test cannot resume sessions.
#[test]
fn an_agent_that_would_lose_its_sessions_is_not_restarted() {
    let mut chain = Reloaded::start("agent", &["p1", "agent"], "");
    let [mut p1, mut agent] = chain.test.initialize(&["p1", "agent"]).try_into().expect("two");
    open_session(&mut chain.test, &mut [&mut p1], &mut agent);
    chain.write(&["p1", "agent"], "\n[components.agent.env]\nMODEL = \"other\"\n");
    let output = chain.reload_command(&[]).output().expect("an output");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("cannot resume its open session after a restart"), "{stderr}");
    round_trip(&mut chain.test, &mut [&mut p1], &mut agent);
}

#[test]
fn a_chain_of_the_command_line_cannot_be_reloaded_and_ends_on_sighup() {
    let mut test = TestChain::builder(PROGRAM).run_named(&["agent"]);
    test.initialize(&["agent"]);
    let mut command = Command::new(PROGRAM);
    command.args(["reload", &test.conductor.pid().to_string()]);
    let output =
        command.env("XDG_RUNTIME_DIR", test.runtime_directory()).output().expect("an output");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("does not come from a configuration file"), "{stderr}");
    test.conductor.signal(libc::SIGHUP);
    assert_eq!(test.conductor.status(), 0);
}

/// The reader of the rules is a built-in component: it has no process, and its options name a file.
#[test]
fn a_built_in_component_is_restarted_when_a_file_of_its_options_has_changed() {
    let root = directory("reload-rules");
    let values = root.join("values.txt");
    fs::write(&values, "a-value-of-the-first-file\n").expect("the file is written");
    let more = format!(
        "\n[components.filter]\ncommand = \"builtin:filter\"\noptions = {{ values = [{values:?}] }}\n"
    );
    let mut chain = Reloaded::start("rules", &["filter", "agent"], &more);
    chain.test.editor.send(
        r#"{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":1}}"#,
    );
    let mut agent = chain.test.wait_for_component("agent");
    let greeting = agent.request("initialize");
    agent.answer(&greeting, r#"{"protocolVersion":1,"agentCapabilities":{}}"#);
    assert_eq!(chain.test.editor.message()["id"], "init");
    fs::write(&values, "another-value-of-the-file\n").expect("the file is written");
    assert_eq!(chain.reload()["restarted"], json!(["filter"]));
    assert_eq!(chain.reload()["restarted"], json!([]));
    chain.test.editor.send(r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"say another-value-of-the-file now"}]}}"#);
    let prompt = agent.request("session/prompt");
    assert!(!prompt.to_string().contains("another-value-of-the-file"), "{prompt}");
    agent.answer(&prompt, r#"{"stopReason":"end_turn"}"#);
}

/// A second request arrives while the first one waits. Both get the result.
#[test]
fn two_reloads_at_once_both_get_the_result() {
    let mut chain = Reloaded::start("two", &["p1", "agent"], "");
    let [mut p1, mut agent] = chain.test.initialize(&["p1", "agent"]).try_into().expect("two");
    chain
        .test
        .editor
        .send(r#"{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"sessionId":"s"}}"#);
    let prompt = p1.request("session/prompt");
    chain.write(&["agent"], "");
    let first = chain.begin_reload();
    chain.write(&["p1", "agent"], "\n[components.p1.env]\nLEVEL = \"2\"\n");
    let second = chain.begin_reload();
    p1.answer(&prompt, "{}");
    assert_eq!(chain.test.editor.message()["id"], 1);
    let mut p1 = chain.test.wait_for_component("p1");
    join(&mut p1, 0);
    let told = [first, second].map(|it| report(it.wait_with_output().expect("an output")));
    // The first request may have been over before the second one was read.
    let is_p1 = |it: &Value| [&it["restarted"], &it["added"]].contains(&&json!(["p1"]));
    assert!(told.iter().any(is_p1), "{told:?}");
    round_trip(&mut chain.test, &mut [&mut p1], &mut agent);
    wait_until("the chain is live", || {
        chain.components().iter().all(|(_, state)| state == "live").then_some(())
    });
}
