//! What a command understood is remembered for the next start. Note 5 of the probe.

use std::fs;
use std::path::Path;

use serde_json::json;
use testkit::stage::{Stage, binary, directory};

use crate::players::initialize;
use crate::spelling::{Generation, P3, P4, P5};
use crate::stage;

/// A chain whose proxy has the same command line every time, and this place to remember things.
fn again(cache: &Path) -> Stage {
    let setup = stage().env("XDG_CACHE_HOME", &cache.to_string_lossy());
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
