//! What a command understood is remembered for the next start. Note 5 of the probe.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use testkit::rpc::{notification, request, result};
use testkit::stage::{Stage, assert_gone, binary, directory, parse};

use crate::players::{GREETED, GREETING, Proxy, initialize, walk};
use crate::spelling::{Generation, P3, P4, P5};
use crate::stage;

/// A chain whose proxy has the same command line every time, and this place to remember things.
fn again(cache: &Path) -> Stage {
    again_with(cache, &[])
}

fn again_with(cache: &Path, options: &[&str]) -> Stage {
    let setup = stage().option(options).env("XDG_CACHE_HOME", &cache.to_string_lossy());
    let socket = setup.component("old")["args"][0].as_str().expect("a path").to_owned();
    let script = r#"exec "$PUPPET" "$SOCKET" old"#;
    let old = json!({ "name": "old", "command": "sh", "args": ["-c", script] }).to_string();
    let agent = setup.component("agent").to_string();
    let setup = setup.env("PUPPET", &binary("puppet").to_string_lossy()).env("SOCKET", &socket);
    setup.run("agent", &[old, agent])
}

/// Starts the chain; the proxy is of this generation and must be greeted in these ways.
fn start(cache: &Path, generation: &'static Generation, greetings: &[&str]) {
    let mut stage = again(cache);
    initialize(&mut stage, &[("old", generation, greetings)]);
    stage.editor.leave();
    assert_eq!(stage.conductor.status(), 0);
}

/// Everything that is remembered.
fn remembered(cache: &Path) -> String {
    let files = fs::read_dir(cache.join("conductor")).expect("a directory");
    files.map(|file| fs::read_to_string(file.expect("a file").path()).expect("text")).collect()
}

#[test]
fn the_next_start_begins_with_what_was_understood() {
    for generation in [&P4, &P3] {
        let cache = directory(&format!("memory-{}", generation.name));
        start(&cache, generation, &["proxy/initialize", generation.greeting]);
        start(&cache, generation, &[generation.greeting]);
        // What people write on command lines is nobody's business.
        let text = remembered(&cache);
        assert!(text.contains(generation.greeting), "{text}");
        assert!(!text.contains("exec") && !text.contains("old"), "{text}");
        let _ = fs::remove_dir_all(cache);
    }
}

/// So a component that an unknown greeting kills is killed once in its life.
#[test]
fn the_next_start_needs_no_restart() {
    let cache = directory("memory-restart");
    let mut stage = again(&cache);
    stage
        .editor
        .send(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}"#);
    let mut first = stage.enter("old");
    first.request("proxy/initialize");
    first.exit(1);
    let mut second = stage.enter("old");
    second.request("_proxy/initialize");
    second.send(&P4.sent("1", "initialize", r#"{"protocolVersion":1}"#));
    stage.enter("agent").request("initialize");
    drop(stage);
    start(&cache, &P4, &["_proxy/initialize"]);
    let _ = fs::remove_dir_all(cache);
}

/// A component that was updated, or downgraded, meanwhile.
#[test]
fn a_memory_that_is_wrong_corrects_itself() {
    let cache = directory("memory-wrong");
    start(&cache, &P4, &["proxy/initialize", "_proxy/initialize"]);
    start(&cache, &P5, &["_proxy/initialize", "proxy/initialize"]);
    start(&cache, &P5, &["proxy/initialize"]);
    start(&cache, &P3, &["proxy/initialize", "initialize"]);
    start(&cache, &P3, &["initialize"]);
    let _ = fs::remove_dir_all(cache);

    let cache = directory("memory-older");
    start(&cache, &P4, &["proxy/initialize", "_proxy/initialize"]);
    start(&cache, &P3, &["_proxy/initialize", "initialize"]);
    start(&cache, &P3, &["initialize"]);
    let _ = fs::remove_dir_all(cache);
}

/// A chain whose proxy is remembered to be of this generation, and that has begun.
fn wrongly_remembered(name: &str, generation: &'static Generation) -> (PathBuf, Stage) {
    let cache = directory(name);
    start(&cache, generation, &["proxy/initialize", generation.greeting]);
    let mut stage = again_with(&cache, &["--init-timeout", "9"]);
    stage.editor.send(&request("1", "initialize", GREETING));
    (cache, stage)
}

/// The component in this seat is a current proxy; the editor gets the agent's answer, and the next
/// start begins with what is right.
fn is_found_out(cache: &Path, mut stage: Stage, mut proxy: Proxy) {
    let greeting = proxy.request("proxy/initialize");
    proxy.forwards(&greeting);
    let mut agent = stage.enter("agent");
    let asked = agent.request("initialize");
    assert_eq!(asked["params"], parse(GREETING));
    agent.answer(&asked, GREETED);
    proxy.accepts(&greeting);
    assert_eq!(stage.editor.message(), parse(&result("1", GREETED)));
    walk(&mut stage.editor, &mut [proxy], &mut agent);
    stage.editor.leave();
    assert_eq!(remembered(cache), "", "what was wrong is forgotten");
    start(cache, &P5, &["proxy/initialize"]);
    let _ = fs::remove_dir_all(cache);
}

/// Checklist 21: an agent that is a proxy only if greeted as one. The wrong greeting has made an agent of
/// it, so it has to be started again.
#[test]
fn a_component_that_became_an_agent_over_the_remembered_greeting_is_started_again() {
    let (cache, mut stage) = wrongly_remembered("memory-agent", &P3);
    let mut mistaken = stage.enter("old");
    let greeting = mistaken.request("initialize");
    mistaken.answer(&greeting, GREETED);
    let proxy = Proxy::enter(&mut stage, "old", &P5);
    assert_gone(mistaken.pid, "the first one");
    is_found_out(&cache, stage, proxy);
}

/// Checklist 21: likewise one that ends, or wedges, or refuses with whatever code.
#[test]
fn a_component_that_fails_over_the_remembered_greeting_is_asked_anew() {
    for generation in [&P3, &P4] {
        let (cache, mut stage) = wrongly_remembered("memory-ends", generation);
        let mut first = stage.enter("old");
        first.request(generation.greeting);
        first.exit(1);
        let proxy = Proxy::enter(&mut stage, "old", &P5);
        is_found_out(&cache, stage, proxy);

        let (cache, mut stage) = wrongly_remembered("memory-wedges", generation);
        let mut first = stage.enter("old");
        first.request(generation.greeting);
        let poke = first.message();
        assert_eq!(poke["method"], "$/cancel_request", "{poke}");
        // It stays silent.
        let proxy = Proxy::enter(&mut stage, "old", &P5);
        assert_gone(first.pid, "the first one");
        is_found_out(&cache, stage, proxy);

        let (cache, mut stage) = wrongly_remembered("memory-refuses", generation);
        let mut proxy = Proxy::enter(&mut stage, "old", &P5);
        let greeting = proxy.request(generation.greeting);
        proxy.fail(&greeting, r#"{"code":-32000,"message":"What?"}"#);
        is_found_out(&cache, stage, proxy);
    }
}

/// Checklist 21: a component that says something else than an answer does not show that it has understood.
#[test]
fn a_component_that_talks_and_does_not_answer_the_remembered_greeting_is_asked_anew() {
    for words in [
        notification("_x/log", r#"{"text":"initialize?"}"#),
        request("7", "_x/ask", "{}"),
        result("null", "{}"),
    ] {
        let (cache, mut stage) = wrongly_remembered("memory-talks", &P3);
        let mut first = stage.enter("old");
        first.request("initialize");
        first.send(&words);
        if words.contains("method") {
            stage.editor.message();
        }
        let proxy = Proxy::enter(&mut stage, "old", &P5);
        assert_gone(first.pid, "the first one");
        is_found_out(&cache, stage, proxy);
    }
}

/// Checklist 21: whatever ends a component that has not answered the remembered greeting, the next start does
/// not begin with that greeting.
#[test]
fn a_remembered_greeting_without_an_answer_is_forgotten() {
    // An envelope may be part of the handshake, so the component is waited for.
    let cache = directory("memory-silent");
    start(&cache, &P3, &["proxy/initialize", "initialize"]);
    let mut stage = again_with(&cache, &["--init-timeout", "9"]);
    stage.editor.send(&request("1", "initialize", GREETING));
    let mut old = stage.enter("old");
    old.request("initialize");
    old.send(&P5.sent("1", "_x/early", "{}"));
    let answer = stage.editor.message();
    assert!(answer["error"].is_object(), "{answer}");
    assert_eq!(stage.conductor.status(), 1);
    assert_eq!(remembered(&cache), "", "a component that is silent");
    let _ = fs::remove_dir_all(cache);

    // The editor does not wait.
    let (cache, mut stage) = wrongly_remembered("memory-left", &P4);
    stage.enter("old").request("_proxy/initialize");
    stage.editor.leave();
    stage.conductor.status();
    assert_eq!(remembered(&cache), "", "an editor that leaves");
    let _ = fs::remove_dir_all(cache);
}

/// A guess that fails by accident: the greeting is tried again in its turn.
#[test]
fn a_remembered_greeting_that_was_right_after_all_is_found_again() {
    let (cache, mut stage) = wrongly_remembered("memory-accident", &P3);
    for method in ["initialize", "proxy/initialize", "_proxy/initialize"] {
        let mut old = stage.enter("old");
        old.request(method);
        old.exit(1);
    }
    let mut old = Proxy::enter(&mut stage, "old", &P3);
    let greeting = old.request("initialize");
    old.forwards(&greeting);
    let asked = stage.enter("agent").request("initialize");
    assert_eq!(asked["params"], parse(GREETING));
    drop(stage);
    start(&cache, &P3, &["initialize"]);
    let _ = fs::remove_dir_all(cache);
}

/// Checklist 7: an agent in the place of what was a proxy.
#[test]
fn an_agent_where_a_proxy_is_remembered_is_named_and_forgotten() {
    let (cache, mut stage) = wrongly_remembered("memory-no-proxy", &P3);
    let mut eliza = stage.enter("old");
    let greeting = eliza.request("initialize");
    eliza.answer(&greeting, GREETED);
    let mut eliza = stage.enter("old");
    for method in ["proxy/initialize", "_proxy/initialize"] {
        let greeting = eliza.request(method);
        eliza.fail(&greeting, r#"{"code":-32601,"message":"Method not found"}"#);
    }
    let greeting = eliza.request("initialize");
    eliza.answer(&greeting, GREETED);
    let answer = stage.editor.message();
    let message = answer["error"]["message"].as_str().expect("a message");
    assert!(message.contains("component 'old' is not a proxy"), "{message}");
    stage.editor.leave();
    assert_eq!(remembered(&cache), "");
    let _ = fs::remove_dir_all(cache);
}

/// A memory of `initialize` is worth less than it seems: programs of today answer it, but not as
/// proxies. What they say to it is an error, and they are asked again.
#[test]
fn a_component_that_was_of_old_and_is_new_now_is_found_out() {
    let cache = directory("memory-newer");
    start(&cache, &P3, &["proxy/initialize", "initialize"]);
    let mut stage = again(&cache);
    stage
        .editor
        .send(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}"#);
    let mut new = stage.enter("old");
    let greeting = new.request("initialize");
    new.fail(&greeting, r#"{"code":-32600,"message":"Invalid request"}"#);
    new.request("proxy/initialize");
    new.send(&P5.sent("1", "initialize", r#"{"protocolVersion":1}"#));
    stage.enter("agent").request("initialize");
    drop(stage);
    start(&cache, &P5, &["proxy/initialize"]);
    let _ = fs::remove_dir_all(cache);
}

#[test]
fn a_broken_memory_is_harmless() {
    let cache = directory("memory-broken");
    start(&cache, &P4, &["proxy/initialize", "_proxy/initialize"]);
    let files: Vec<_> = fs::read_dir(cache.join("conductor")).expect("a directory").collect();
    for file in &files {
        let path = file.as_ref().expect("a file").path();
        fs::write(path, b"\xff\xfe\0 not a memory\n0123 \n").expect("a file");
    }
    start(&cache, &P4, &["proxy/initialize", "_proxy/initialize"]);
    start(&cache, &P4, &["_proxy/initialize"]);

    // Nor does it matter if nothing can be kept at all.
    let nowhere = cache.join("a-file");
    fs::write(&nowhere, "").expect("a file");
    start(&nowhere, &P4, &["proxy/initialize", "_proxy/initialize"]);
    start(&nowhere, &P4, &["proxy/initialize", "_proxy/initialize"]);
    let _ = fs::remove_dir_all(cache);
}
