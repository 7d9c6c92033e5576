//! Log messages and metrics of components, with real processes.

use serde_json::{Value, json};
use testkit::rpc::{id_of, notification, request, result, wrapped_notification, wrapped_request};
use testkit::test_chain::{TestChain, TestChainBuilder, directory, wait_until};

fn new_setup() -> TestChainBuilder {
    TestChain::builder(env!("CARGO_BIN_EXE_conductor"))
}

/// The params of the notification in this line.
fn params(line: &str) -> Value {
    serde_json::from_str::<Value>(line).expect("JSON")["params"].clone()
}

#[test]
fn the_log_shows_each_log_message_once_with_the_name_of_the_component() {
    let mut chain = new_setup().run_named(&["first", "second", "agent"]);
    let mut components = chain.initialize(&["first", "second", "agent"]);
    let [first, second, agent] = &mut components[..] else { panic!("three components") };
    agent.send(&notification("_proxy/log", r#"{"level":"warn","message":"from the end"}"#));
    // The proxies pass it on, with whatever spelling.
    let line = second.message();
    assert_eq!(line["method"], "proxy/successor");
    let log = line["params"]["params"].clone();
    assert_eq!(log, json!({ "level": "warn", "message": "from the end" }));
    second.send(&notification("_proxy/log", &format!("{log:#}").replace('\n', " ")));
    let log = first.message()["params"]["params"].clone();
    first.send(&notification("_proxy/log", &log.to_string()));
    assert_eq!(params(&chain.editor.line()), log);
    first.send(&notification("_proxy/log", r#"{"level":"info","message":"not at this level"}"#));
    first.send(&notification("_scp/log", r#"{"level":"error","message":"from the front"}"#));
    let log = chain.conductor.wait_for_stderr("from the front");
    assert_eq!(log.matches("from the end").count(), 1, "{log}");
    assert!(log.contains("WARN acp_conductor::telemetry: [agent] from the end"), "{log}");
    assert!(log.contains("ERROR acp_conductor::telemetry: [first] from the front"), "{log}");
    assert!(!log.contains("not at this level"), "{log}");
}

#[test]
fn each_message_of_a_burst_is_in_the_log_once() {
    let mut chain = new_setup().run_named(&["proxy", "agent"]);
    let mut components = chain.initialize(&["proxy", "agent"]);
    let [proxy, agent] = &mut components[..] else { panic!("two components") };
    let texts = (0..300).map(|number| format!(r#"{{"level":"warn","message":"<{number}>"}}"#));
    let burst: Vec<String> = texts.map(|text| notification("_proxy/log", &text)).collect();
    burst.iter().for_each(|line| agent.send(line));
    // The proxy passes nothing on until it has all of them. Then it sends one like the last, but with data.
    burst.iter().for_each(|_| drop(proxy.message()));
    burst.iter().for_each(|line| proxy.send(line));
    proxy.send(&notification("_proxy/log", r#"{"level":"warn","message":"<299>","data":"own"}"#));
    proxy.send(&notification("_proxy/log", r#"{"level":"warn","message":"end"}"#));
    let log = chain.conductor.wait_for_stderr("[proxy] end");
    for number in 0..299 {
        assert_eq!(log.matches(&format!("<{number}>")).count(), 1, "{number}");
    }
    assert_eq!(log.matches("[agent] <299>").count(), 1, "{log}");
    assert_eq!(log.matches("[proxy] <").count(), 1, "{log}");
    assert!(log.contains(r#"[proxy] <299> "own""#), "{log}");
}

#[test]
fn the_log_shows_neither_secrets_nor_control_characters_of_a_log_message() {
    let mut chain = new_setup().run_named(&["proxy", "agent"]);
    let mut components = chain.initialize(&["proxy", "agent"]);
    let secret = format!("ghp_{}", "a1B2c3D4e5F6".repeat(3));
    let log = json!({
        "level": "warn",
        "message": format!("a\u{1b}[2Jb\nc {secret}"),
        "data": { "password": "hunter2", "n": 1 },
    });
    components[0].send(&notification("_proxy/log", &log.to_string()));
    let shown = chain.conductor.wait_for_stderr(r#""n":1"#);
    assert!(!shown.contains(&secret) && !shown.contains("hunter2"), "{shown}");
    assert!(!shown.contains('\u{1b}') && shown.contains("[proxy] a"), "{shown}");
}

#[test]
fn metrics_are_in_the_log_at_the_level_debug() {
    let mut chain = new_setup().option(&["--log", "debug"]).run_named(&["proxy", "agent"]);
    let mut components = chain.initialize(&["proxy", "agent"]);
    let metric = r#"{"name":"size_bytes","kind":"histogram","value":7,"labels":{"a":"b"}}"#;
    components[0].send(&notification("_proxy/metric", metric));
    let log = chain.conductor.wait_for_stderr("size_bytes");
    assert!(log.contains(r#"[proxy] Histogram size_bytes = 7 {"a": "b"}"#), "{log}");
}

/// The chain `outer inner(first) conductor(second agent)`: a nested proxy chain, and a nested agent.
#[test]
fn telemetry_of_nested_chains_reaches_an_editor_that_asks_for_it() {
    let setup = new_setup();
    let named = |name| setup.scripted_json(name).to_string();
    let components = [
        setup.subchain(&[named("first")]),
        setup.nested("agent", &[named("second"), named("agent")]),
    ];
    let mut chain = setup.run("agent", &components);
    let hello =
        json!({ "protocolVersion": 1, "clientCapabilities": { "_meta": { "_proxy/log": true } } });
    let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello });
    chain.editor.send(&hello.to_string());
    let mut proxies = Vec::new();
    for name in ["first", "second"] {
        let mut proxy = chain.wait_for_component(name);
        let greeting = proxy.request("proxy/initialize");
        proxy.forward("forward", "initialize", &greeting["params"].to_string());
        proxies.push((proxy, greeting));
    }
    let mut agent = chain.wait_for_component("agent");
    let greeting = agent.request("initialize");
    agent.answer(&greeting, r#"{"protocolVersion":1}"#);
    for (proxy, greeting) in proxies.iter_mut().rev() {
        let answer = proxy.message();
        proxy.answer(greeting, &answer["result"].to_string());
    }
    assert_eq!(chain.editor.message()["id"], 0);
    let deep = r#"{"level":"warn","message":"deep","component":"second"}"#;
    proxies[1].0.send(&notification("_proxy/log", deep));
    let passing = proxies[0].0.message()["params"].clone();
    assert_eq!(passing["params"]["component"], "second");
    proxies[0].0.send(&notification("_proxy/log", &passing["params"].to_string()));
    proxies[0].0.send(&notification("_scp/log", r#"{"level":"warn","message":"near"}"#));
    let log = params(&chain.editor.line());
    assert_eq!(log, json!({ "level": "warn", "message": "deep", "component": "second" }));
    assert_eq!(params(&chain.editor.line()), json!({ "level": "warn", "message": "near" }));
    // Both conductors of the way log it: the inner one with its own name of the component. Its log comes by another way.
    for text in ["near", "[second] deep", "[conductor#2/second] deep"] {
        chain.conductor.wait_for_stderr(text);
    }
}

#[test]
fn the_component_log_writes_the_log_messages_of_the_whole_chain() {
    let file = directory("telemetry-log").join("log.jsonl");
    let setup = new_setup();
    let components = [
        setup.scripted_json("first").to_string(),
        format!("log --level warn --file {}", file.display()),
        setup.scripted_json("agent").to_string(),
    ];
    let mut chain = setup.run("agent", &components);
    let mut components = chain.initialize(&["first", "agent"]);
    let [first, agent] = &mut components[..] else { panic!("two components") };
    // One component stands before `log`, the other behind it.
    first.send(&notification("_proxy/log", r#"{"level":"error","message":"one"}"#));
    agent.send(&notification("_scp/log", r#"{"level":"warn","message":"two"}"#));
    // `log` passes it on, so that other components can collect it as well.
    assert_eq!(first.message()["params"]["method"], "_scp/log");
    first.send(&notification("_scp/log", r#"{"level":"warn","message":"two"}"#));
    // The editor, which has not asked for what `log` collects, gets only what comes next.
    first.send(&notification("_x/last", "{}"));
    assert_eq!(chain.editor.line(), notification("_x/last", "{}"));
    let lines = wait_until("log has written two lines", || {
        let text = std::fs::read_to_string(&file).unwrap_or_default();
        let lines: Vec<Value> =
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        Some(lines).filter(|lines| lines.len() >= 2)
    });
    // The two components are processes of their own: either message may be the first one that `log` gets.
    for (level, component, message) in [("error", "first", "one"), ("warn", "agent", "two")] {
        let written = lines.iter().filter(|line| {
            line["level"] == level && line["component"] == component && line["message"] == message
        });
        assert_eq!(written.count(), 1, "{message}: {lines:?}");
    }
}

/// The test is the parent conductor. It is not this program, so the chain itself decides what the editor gets.
#[test]
fn under_another_conductor_only_an_editor_that_asks_gets_what_a_component_collects() {
    let asking = r#"{"protocolVersion":1,"clientCapabilities":{"_meta":{"_proxy/log":true}}}"#;
    for (hello, asks) in [(r#"{"protocolVersion":1}"#, false), (asking, true)] {
        let file = directory("telemetry-proxy").join(format!("{asks}.jsonl"));
        let log = format!("log --level warn --file {}", file.display());
        let mut chain = new_setup().run("proxy", &[log]);
        chain.editor.send(&request("0", "proxy/initialize", hello));
        let greeting = chain.editor.line();
        assert_eq!(greeting, wrapped_request(id_of(&greeting), "initialize", hello));
        chain.editor.send(&result(id_of(&greeting), r#"{"protocolVersion":1}"#));
        assert_eq!(chain.editor.message()["id"], 0);
        // From the next component of the parent's chain.
        let message = r#"{"level":"warn","message":"a"}"#;
        chain.editor.send(&wrapped_notification("_proxy/log", message));
        chain.editor.send(&wrapped_notification("_x/last", "{}"));
        if asks {
            assert_eq!(chain.editor.line(), notification("_proxy/log", message));
        }
        assert_eq!(chain.editor.line(), notification("_x/last", "{}"));
        let line = wait_until("log has written a line", || {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            serde_json::from_str::<Value>(text.lines().next()?).ok()
        });
        assert_eq!((&line["component"], &line["message"]), (&json!("successor"), &json!("a")));
    }
}
