//! The greeting that a command understood is remembered for the next start.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use testkit::rpc::{notification, request, result};
use testkit::test_chain::{TestChain, assert_gone, binary, directory, parse};

use crate::generation::{Generation, P3, P4, P5};
use crate::new_setup;
use crate::scripted_proxy::{
    AGENT_RESULT, GREETING, ScriptedProxy, assert_messages_pass, initialize,
};

/// Starts a chain whose proxy has the same command line every time, with this cache directory.
fn start_chain(cache: &Path) -> TestChain {
    start_chain_with(cache, &[])
}

fn start_chain_with(cache: &Path, options: &[&str]) -> TestChain {
    let setup = new_setup().option(options).env("XDG_CACHE_HOME", &cache.to_string_lossy());
    let socket = setup.scripted_json("old")["args"][0].as_str().expect("a path").to_owned();
    let script = r#"exec "$SCRIPTED" "$SOCKET" old"#;
    let old = json!({ "name": "old", "command": "sh", "args": ["-c", script] }).to_string();
    let agent = setup.scripted_json("agent").to_string();
    let setup = setup.env("SCRIPTED", &binary("scripted").to_string_lossy()).env("SOCKET", &socket);
    setup.run("agent", &[old, agent])
}

/// Starts and ends the chain. The proxy is of this generation and must receive these greetings.
fn start_and_stop(cache: &Path, generation: &'static Generation, greetings: &[&str]) {
    let mut chain = start_chain(cache);
    initialize(&mut chain, &[("old", generation, greetings)]);
    chain.editor.close();
    assert_eq!(chain.conductor.status(), 0);
}

/// The content of all cache files.
fn remembered(cache: &Path) -> String {
    let files = fs::read_dir(cache.join("conductor")).expect("a directory");
    files.map(|file| fs::read_to_string(file.expect("a file").path()).expect("text")).collect()
}

#[test]
fn the_next_start_begins_with_the_remembered_greeting() {
    for generation in [&P4, &P3] {
        let cache = directory(&format!("memory-{}", generation.name));
        start_and_stop(&cache, generation, &["proxy/initialize", generation.greeting]);
        start_and_stop(&cache, generation, &[generation.greeting]);
        // Command lines may be private, so the cache does not contain them.
        let text = remembered(&cache);
        assert!(text.contains(generation.greeting), "{text}");
        assert!(!text.contains("exec") && !text.contains("old"), "{text}");
        let _ = fs::remove_dir_all(cache);
    }
}

/// A component that crashes on an unknown greeting does so only at its first start.
#[test]
fn the_next_start_needs_no_restart() {
    let cache = directory("memory-restart");
    let mut chain = start_chain(&cache);
    chain
        .editor
        .send(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}"#);
    let mut first = chain.wait_for_component("old");
    first.request("proxy/initialize");
    first.exit(1);
    let mut second = chain.wait_for_component("old");
    second.request("_proxy/initialize");
    second.send(&P4.sent("1", "initialize", r#"{"protocolVersion":1}"#));
    chain.wait_for_component("agent").request("initialize");
    drop(chain);
    start_and_stop(&cache, &P4, &["_proxy/initialize"]);
    let _ = fs::remove_dir_all(cache);
}

/// The component was updated or downgraded since.
#[test]
fn a_wrong_remembered_greeting_is_corrected() {
    let cache = directory("memory-wrong");
    start_and_stop(&cache, &P4, &["proxy/initialize", "_proxy/initialize"]);
    start_and_stop(&cache, &P5, &["_proxy/initialize", "proxy/initialize"]);
    start_and_stop(&cache, &P5, &["proxy/initialize"]);
    start_and_stop(&cache, &P3, &["proxy/initialize", "initialize"]);
    start_and_stop(&cache, &P3, &["initialize"]);
    let _ = fs::remove_dir_all(cache);

    let cache = directory("memory-older");
    start_and_stop(&cache, &P4, &["proxy/initialize", "_proxy/initialize"]);
    start_and_stop(&cache, &P3, &["_proxy/initialize", "initialize"]);
    start_and_stop(&cache, &P3, &["initialize"]);
    let _ = fs::remove_dir_all(cache);
}

/// Starts a chain whose proxy is remembered to be of this generation.
fn start_with_remembered(name: &str, generation: &'static Generation) -> (PathBuf, TestChain) {
    let cache = directory(name);
    start_and_stop(&cache, generation, &["proxy/initialize", generation.greeting]);
    let mut chain = start_chain_with(&cache, &["--init-timeout", "9"]);
    chain.editor.send(&request("1", "initialize", GREETING));
    (cache, chain)
}

/// The component is a current proxy. The editor receives the agent's answer, and the next start begins with
/// the right greeting.
fn assert_recognized(cache: &Path, mut chain: TestChain, mut proxy: ScriptedProxy) {
    let greeting = proxy.request("proxy/initialize");
    proxy.forward_greeting(&greeting);
    let mut agent = chain.wait_for_component("agent");
    let received = agent.request("initialize");
    assert_eq!(received["params"], parse(GREETING));
    agent.answer(&received, AGENT_RESULT);
    proxy.accept_greeting(&greeting);
    assert_eq!(chain.editor.message(), parse(&result("1", AGENT_RESULT)));
    assert_messages_pass(&mut chain.editor, &mut [proxy], &mut agent);
    chain.editor.close();
    chain.conductor.wait();
    assert_eq!(remembered(cache), "", "the wrong greeting is forgotten");
    start_and_stop(cache, &P5, &["proxy/initialize"]);
    let _ = fs::remove_dir_all(cache);
}

/// Checklist 21: some programs are an agent or a proxy, depending on their greeting. The wrong greeting has
/// made this one an agent, so it has to be restarted.
#[test]
fn a_component_that_answers_the_remembered_greeting_as_an_agent_is_restarted() {
    let (cache, mut chain) = start_with_remembered("memory-agent", &P3);
    let mut mistaken = chain.wait_for_component("old");
    let greeting = mistaken.request("initialize");
    mistaken.answer(&greeting, AGENT_RESULT);
    let proxy = ScriptedProxy::wait_for(&mut chain, "old", &P5);
    assert_gone(mistaken.pid, "the first process");
    assert_recognized(&cache, chain, proxy);
}

/// Checklist 21: the component exits, hangs, or refuses the greeting with any error code.
#[test]
fn a_component_that_fails_on_the_remembered_greeting_is_probed() {
    for generation in [&P3, &P4] {
        let (cache, mut chain) = start_with_remembered("memory-ends", generation);
        let mut first = chain.wait_for_component("old");
        first.request(generation.greeting);
        first.exit(1);
        let proxy = ScriptedProxy::wait_for(&mut chain, "old", &P5);
        assert_recognized(&cache, chain, proxy);

        let (cache, mut chain) = start_with_remembered("memory-wedges", generation);
        let mut first = chain.wait_for_component("old");
        first.request(generation.greeting);
        let poke = first.message();
        assert_eq!(poke["method"], "$/cancel_request", "{poke}");
        // The component stays silent.
        let proxy = ScriptedProxy::wait_for(&mut chain, "old", &P5);
        assert_gone(first.pid, "the first process");
        assert_recognized(&cache, chain, proxy);

        let (cache, mut chain) = start_with_remembered("memory-refuses", generation);
        let mut proxy = ScriptedProxy::wait_for(&mut chain, "old", &P5);
        let greeting = proxy.request(generation.greeting);
        proxy.answer_error(&greeting, r#"{"code":-32000,"message":"What?"}"#);
        assert_recognized(&cache, chain, proxy);
    }
}

/// Checklist 21: only an answer shows that the component has understood its greeting.
#[test]
fn a_component_that_does_not_answer_the_remembered_greeting_is_probed() {
    for words in [
        notification("_x/log", r#"{"text":"initialize?"}"#),
        request("7", "_x/ask", "{}"),
        result("null", "{}"),
    ] {
        let (cache, mut chain) = start_with_remembered("memory-talks", &P3);
        let mut first = chain.wait_for_component("old");
        first.request("initialize");
        first.send(&words);
        if words.contains("method") {
            chain.editor.message();
        }
        let proxy = ScriptedProxy::wait_for(&mut chain, "old", &P5);
        assert_gone(first.pid, "the first process");
        assert_recognized(&cache, chain, proxy);
    }
}

/// Checklist 21: if the component ends before it has answered the remembered greeting, for whatever reason,
/// the next start does not begin with that greeting.
#[test]
fn a_remembered_greeting_without_an_answer_is_forgotten() {
    // An envelope may be part of the handshake, so the conductor waits for the component.
    let cache = directory("memory-silent");
    start_and_stop(&cache, &P3, &["proxy/initialize", "initialize"]);
    let mut chain = start_chain_with(&cache, &["--init-timeout", "9"]);
    chain.editor.send(&request("1", "initialize", GREETING));
    let mut old = chain.wait_for_component("old");
    old.request("initialize");
    old.send(&P5.sent("1", "_x/early", "{}"));
    let answer = chain.editor.message();
    assert!(answer["error"].is_object(), "{answer}");
    assert_eq!(chain.conductor.status(), 1);
    assert_eq!(remembered(&cache), "", "a silent component");
    let _ = fs::remove_dir_all(cache);

    // The editor does not wait.
    let (cache, mut chain) = start_with_remembered("memory-left", &P4);
    chain.wait_for_component("old").request("_proxy/initialize");
    chain.editor.close();
    chain.conductor.status();
    assert_eq!(remembered(&cache), "", "an editor that disconnects");
    let _ = fs::remove_dir_all(cache);
}

/// The remembered greeting fails by accident. It is tried again in its turn.
#[test]
fn a_remembered_greeting_that_failed_by_accident_is_tried_again() {
    let (cache, mut chain) = start_with_remembered("memory-accident", &P3);
    for method in ["initialize", "proxy/initialize", "_proxy/initialize"] {
        let mut old = chain.wait_for_component("old");
        old.request(method);
        old.exit(1);
    }
    let mut old = ScriptedProxy::wait_for(&mut chain, "old", &P3);
    let greeting = old.request("initialize");
    old.forward_greeting(&greeting);
    let received = chain.wait_for_component("agent").request("initialize");
    assert_eq!(received["params"], parse(GREETING));
    drop(chain);
    start_and_stop(&cache, &P3, &["initialize"]);
    let _ = fs::remove_dir_all(cache);
}

/// Checklist 7: the component is now an agent.
#[test]
fn an_agent_that_was_remembered_as_a_proxy_is_reported_and_forgotten() {
    let (cache, mut chain) = start_with_remembered("memory-no-proxy", &P3);
    let mut eliza = chain.wait_for_component("old");
    let greeting = eliza.request("initialize");
    eliza.answer(&greeting, AGENT_RESULT);
    let mut eliza = chain.wait_for_component("old");
    for method in ["proxy/initialize", "_proxy/initialize"] {
        let greeting = eliza.request(method);
        eliza.answer_error(&greeting, r#"{"code":-32601,"message":"Method not found"}"#);
    }
    let greeting = eliza.request("initialize");
    eliza.answer(&greeting, AGENT_RESULT);
    let answer = chain.editor.message();
    let message = answer["error"]["message"].as_str().expect("a message");
    assert!(message.contains("component 'old' is not a proxy"), "{message}");
    chain.editor.close();
    chain.conductor.wait();
    assert_eq!(remembered(&cache), "");
    let _ = fs::remove_dir_all(cache);
}

/// Current programs refuse `initialize` as a greeting, or answer it as agents. After an error the other
/// greetings are tried on the same process.
#[test]
fn an_upgraded_component_is_recognized() {
    let cache = directory("memory-newer");
    start_and_stop(&cache, &P3, &["proxy/initialize", "initialize"]);
    let mut chain = start_chain(&cache);
    chain
        .editor
        .send(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}"#);
    let mut new = chain.wait_for_component("old");
    let greeting = new.request("initialize");
    new.answer_error(&greeting, r#"{"code":-32600,"message":"Invalid request"}"#);
    new.request("proxy/initialize");
    new.send(&P5.sent("1", "initialize", r#"{"protocolVersion":1}"#));
    chain.wait_for_component("agent").request("initialize");
    drop(chain);
    start_and_stop(&cache, &P5, &["proxy/initialize"]);
    let _ = fs::remove_dir_all(cache);
}

#[test]
fn a_damaged_cache_is_harmless() {
    let cache = directory("memory-broken");
    start_and_stop(&cache, &P4, &["proxy/initialize", "_proxy/initialize"]);
    let files: Vec<_> = fs::read_dir(cache.join("conductor")).expect("a directory").collect();
    for file in &files {
        let path = file.as_ref().expect("a file").path();
        fs::write(path, b"\xff\xfe\0 not a memory\n0123 \n").expect("a file");
    }
    start_and_stop(&cache, &P4, &["proxy/initialize", "_proxy/initialize"]);
    start_and_stop(&cache, &P4, &["_proxy/initialize"]);

    // An unusable cache directory does no harm either.
    let nowhere = cache.join("a-file");
    fs::write(&nowhere, "").expect("a file");
    start_and_stop(&nowhere, &P4, &["proxy/initialize", "_proxy/initialize"]);
    start_and_stop(&nowhere, &P4, &["proxy/initialize", "_proxy/initialize"]);
    let _ = fs::remove_dir_all(cache);
}
