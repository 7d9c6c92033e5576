//! The component `metrics` in real chains: its port, its file, and what it knows about all components.

#[path = "../../../components/tests/support/exposition.rs"]
mod exposition;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;

use exposition::Samples;
use serde_json::Value;
use testkit::peers::Peers;
use testkit::rpc::notification;
use testkit::test_chain::{TestChain, directory, wait_until};

use crate::{conductor_path, new_setup, prompt, receive_prompt};

/// What a server answers: the first lines, and the rest.
fn request(port: u16, text: &str) -> (String, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    stream.write_all(text.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    (head.to_lowercase(), body.to_owned())
}

fn get(port: u16, headers: &str) -> (String, String) {
    let host = format!("host: 127.0.0.1:{port}");
    request(port, &format!("GET /metrics HTTP/1.1\r\n{host}\r\nconnection: close\r\n{headers}\r\n"))
}

fn samples(port: u16) -> Samples {
    exposition::read(&get(port, "").1)
}

/// The lines of `metrics` in `conductor status`.
fn report(chain: &TestChain) -> Vec<String> {
    let output = Command::new(conductor_path())
        .args(["status", "--json"])
        .env("XDG_RUNTIME_DIR", chain.runtime_directory())
        .output()
        .expect("it runs");
    let status: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let chains = status.as_array().expect("a list");
    let chain = chains.iter().find(|it| it["pid"] == chain.conductor.pid()).expect("the chain");
    let components = chain["components"].as_array().expect("a list");
    let metrics = components.iter().find(|it| it["name"] == "metrics").expect("metrics");
    let lines = metrics["report"].as_array().expect("a list");
    lines.iter().map(|line| line.as_str().expect("text").to_owned()).collect()
}

fn port(chain: &TestChain) -> u16 {
    wait_until("metrics listens", || {
        let lines = report(chain);
        let url = lines.iter().find_map(|line| line.strip_prefix("http://127.0.0.1:"))?;
        url.strip_suffix("/metrics")?.parse().ok()
    })
}

#[test]
fn prometheus_reads_the_metrics_of_all_components() {
    let setup = new_setup();
    let components = [
        setup.scripted_json("first").to_string(),
        "metrics --listen 127.0.0.1:0".to_owned(),
        setup.scripted_json("agent").to_string(),
    ];
    let mut chain = setup.run("agent", &components);
    let mut components = chain.initialize(&["first", "agent"]);
    let port = port(&chain);
    // Metrics of a component before and of one behind `metrics`.
    let [first, agent] = &mut components[..] else { panic!("two components") };
    first.send(&notification("_proxy/metric", r#"{"name":"hits"}"#));
    agent.send(&notification("_proxy/metric", r#"{"name":"hits","value":2}"#));
    assert_eq!(first.message()["params"]["method"], "_proxy/metric", "it passes metrics on");
    let all = wait_until("both are counted", || {
        let all = samples(port);
        let of =
            |name| all.get(&format!(r#"conductor_component_hits_total{{component="{name}"}}"#));
        (of("first") == Some(&1.0) && of("agent") == Some(&2.0)).then_some(all)
    });
    for component in ["first", "metrics", "agent"] {
        let name = format!(
            r#"conductor_request_duration_seconds_count{{component="{component}",method="initialize",outcome="ok"}}"#
        );
        assert_eq!(all.get(&name), Some(&1.0), "{component}: {all:#?}");
        let name = format!(r#"conductor_component_restarts_total{{component="{component}"}}"#);
        assert_eq!(all.get(&name), Some(&0.0), "{component}");
    }
}

#[test]
fn only_get_requests_to_this_machine_are_answered() {
    let setup = new_setup();
    let components = ["metrics --listen 0".to_owned(), setup.scripted_json("agent").to_string()];
    let mut chain = setup.run("agent", &components);
    chain.initialize(&["agent"]);
    let port = port(&chain);
    let (head, body) = get(port, "accept: application/openmetrics-text\r\n");
    assert!(head.starts_with("http/1.1 200"), "{head}");
    assert!(
        head.contains("content-type: application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    assert!(body.ends_with("# EOF\n"));
    exposition::read(&body);
    let (head, _) = get(port, "accept: text/plain\r\n");
    assert!(head.contains("content-type: text/plain; version=0.0.4; charset=utf-8"), "{head}");
    let local = format!("host: 127.0.0.1:{port}");
    for (line, headers, status) in [
        ("GET /metrics", "host: evil.example".to_owned(), 403),
        ("GET /metrics", format!("host: evil.example:{port}"), 403),
        ("GET /metrics", format!("{local}\r\nhost: evil.example"), 403),
        ("GET /metrics", format!("{local}\r\norigin: http://evil.example"), 403),
        ("GET http://evil.example/metrics", local.clone(), 403),
        ("GET /metrics", "x: y".to_owned(), 403),
        ("POST /metrics", format!("{local}\r\ncontent-length: 0"), 405),
        ("DELETE /metrics", local.clone(), 405),
        ("GET /", local.clone(), 404),
    ] {
        let text = format!("{line} HTTP/1.1\r\n{headers}\r\nconnection: close\r\n\r\n");
        let (head, body) = request(port, &text);
        assert!(head.starts_with(&format!("http/1.1 {status}")), "{line} {headers}: {head}");
        assert!(!body.contains("conductor_"), "{body}");
    }
    // Connections that send nothing do not keep others out for long, and never the chain.
    let _idle: Vec<TcpStream> =
        (0..8).filter_map(|_| TcpStream::connect(("127.0.0.1", port)).ok()).collect();
    assert!(samples(port).contains_key("conductor_sessions"));
}

#[test]
fn restarts_are_counted_and_the_counters_go_on() {
    let setup = new_setup();
    let components = [
        "metrics --listen 0".to_owned(),
        setup.scripted_json("proxy").to_string(),
        setup.scripted_json("agent").to_string(),
    ];
    let mut chain = setup.run("agent", &components);
    let mut components = chain.initialize(&["proxy", "agent"]);
    let port = port(&chain);
    components.remove(0).exit(3);
    let mut proxy = chain.wait_for_component("proxy");
    let greeting = proxy.request("proxy/initialize");
    proxy.forward("forward", "initialize", &greeting["params"].to_string());
    let answer = proxy.message();
    proxy.answer(&greeting, &answer["result"].to_string());
    let restarts = r#"conductor_component_restarts_total{component="proxy"}"#;
    wait_until("the restart is counted", || (samples(port)[restarts] == 1.0).then_some(()));
    let lines = report(&chain);
    assert!(lines[0].ends_with("restarts: 1"), "{lines:?}");
}

#[test]
fn the_file_has_the_metrics_at_the_end() {
    let file = directory("metrics-file").join("metrics.prom");
    let metrics = format!("metrics --file {} --interval 100ms", file.display());
    let (mut chain, mut agent) = crate::start_chain(new_setup(), &[&metrics]);
    let sessions = || {
        let text = std::fs::read_to_string(&file).ok()?;
        exposition::read(&text).get("conductor_sessions").copied()
    };
    wait_until("the file is written", || sessions().filter(|it| *it == 1.0));
    chain.editor.send(&prompt("hi"));
    receive_prompt(&mut agent);
    chain.editor.message();
    chain.editor.close();
    assert_eq!(chain.conductor.status(), 0);
    let text = std::fs::read_to_string(&file).expect("it is there");
    let all = exposition::read(&text);
    let turn = r#"conductor_turn_duration_seconds_count{agent="unknown",stop_reason="end_turn"}"#;
    assert_eq!(all.get(turn), Some(&1.0), "{text}");
    let metadata = std::fs::metadata(&file).expect("it is there");
    assert_eq!(std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777, 0o600);
}

#[test]
fn a_port_in_use_does_not_stop_the_chain_and_is_used_when_it_is_free() {
    let other = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = other.local_addr().expect("an address").port();
    let (mut chain, mut agent) =
        crate::start_chain(new_setup(), &[&format!("metrics --listen {port}")]);
    chain.editor.send(&prompt("hi"));
    receive_prompt(&mut agent);
    assert_eq!(chain.editor.message()["result"]["stopReason"], "end_turn");
    let lines = report(&chain);
    assert!(lines.iter().any(|line| line.contains("another program uses the port")), "{lines:?}");
    drop(other);
    wait_until("it listens", || TcpStream::connect(("127.0.0.1", port)).ok());
    wait_until("the turn is counted", || {
        let turn =
            r#"conductor_turn_duration_seconds_count{agent="unknown",stop_reason="end_turn"}"#;
        samples(port).get(turn).copied().filter(|it| *it == 1.0)
    });
    chain.conductor.wait_for_stderr(&format!("metrics: cannot listen on 127.0.0.1:{port}"));
}

/// In a separate process, also under the reference conductor, it measures what passes. It keeps metrics from an
/// editor that has not asked for them.
#[test]
fn as_a_program_it_measures_what_passes() {
    let reference = Peers::load().command("reference").to_owned();
    for setup in [new_setup(), TestChain::builder(reference)] {
        let file = directory("metrics-program").join("metrics.prom");
        let options = format!("--file {} --interval 100ms", file.display());
        let metrics = format!("{} component metrics {options}", conductor_path());
        let (mut chain, mut agent) = crate::start_chain(setup, &[&metrics]);
        agent.send(&notification("_proxy/metric", r#"{"name":"hits","component":"scripted"}"#));
        chain.editor.send(&prompt("hi"));
        receive_prompt(&mut agent);
        assert_eq!(chain.editor.message()["result"]["stopReason"], "end_turn");
        for name in [
            r#"conductor_messages_total{component="metrics",from="editor",kind="request",method="session/prompt"}"#,
            r#"conductor_request_duration_seconds_count{component="metrics",method="session/prompt",outcome="ok"}"#,
            r#"conductor_component_hits_total{component="scripted"}"#,
        ] {
            wait_until(name, || {
                let text = std::fs::read_to_string(&file).ok()?;
                exposition::read(&text).get(name).copied().filter(|it| *it == 1.0)
            });
        }
    }
}

#[test]
fn the_durations_of_hooks_are_measured() {
    let folder = directory("metrics-hooks");
    let settings = r#"{"hooks":{"UserPromptSubmit":[{"hooks":[{"command":"exit 0"}]}]}}"#;
    std::fs::write(folder.join("settings.json"), settings).expect("written");
    let (file, shown) = (folder.join("metrics.prom"), folder.display());
    let metrics = format!("metrics --file {}", file.display());
    let hooks = format!(
        "hooks --no-user-hooks --settings {shown}/settings.json --transcripts {shown}/transcripts"
    );
    let (mut chain, mut agent) = crate::start_chain(new_setup(), &[&metrics, &hooks]);
    chain.editor.send(&prompt("hi"));
    receive_prompt(&mut agent);
    // The editor has not asked for metrics, so the answer is all that it gets.
    chain.editor.message();
    chain.editor.close();
    assert_eq!(chain.conductor.status(), 0);
    let text = std::fs::read_to_string(&file).expect("it is there");
    let count =
        r#"conductor_hook_duration_seconds_count{component="hooks",event="UserPromptSubmit"}"#;
    assert_eq!(exposition::read(&text).get(count), Some(&1.0), "{text}");
}
