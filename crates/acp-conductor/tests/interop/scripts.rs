//! The transparent proxies of docs/other-languages.md: scripts that know only the wire.

use std::path::Path;

use testkit::peers::quote;
use testkit::rpc::{cancel, error, id_of, notification, request, result};
use testkit::test_chain::{Peer, ScriptedComponent, TestChain, directory};

use crate::{check, marking, own_conductor, peer};

fn script(program: &str, file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(file);
    format!("{program} {}", quote(&path.display().to_string()))
}

fn scripts() -> [String; 2] {
    [script("python3", "python/transparent.py"), script("node", "javascript/transparent.mjs")]
}

#[test]
fn the_scripts_are_not_noticed_by_any_sdk() {
    let [python, javascript] = scripts();
    for (editor, agent) in
        [("rust_editor", "ts_agent"), ("ts_editor", "py_agent"), ("py_editor", "rust_agent")]
    {
        let chain = [python.clone(), marking("A"), javascript.clone(), peer(agent)];
        check(editor, &own_conductor(), &chain, &["A"]);
    }
}

fn start_chains() -> impl Iterator<Item = (TestChain, ScriptedComponent)> {
    let [python, javascript] = scripts();
    let proxies = [vec![python.clone()], vec![javascript.clone()], vec![python, javascript]];
    proxies.into_iter().map(|proxies| {
        let setup = TestChain::builder(env!("CARGO_BIN_EXE_conductor"));
        let components = [proxies, vec![setup.scripted_command("agent")]].concat();
        let mut chain = setup.run("agent", &components);
        let agent = chain.initialize(&["agent"]).pop().expect("an agent");
        (chain, agent)
    })
}

/// Sends a notification, a request with a result and a request with an error.
fn assert_passes_unchanged(from: &mut impl Peer, to: &mut impl Peer, value: &str) {
    let note = notification("_x/note", value);
    from.send(&note);
    assert_eq!(to.line(), note);
    from.send(&request("7", "x/ask", value));
    let received = to.line();
    assert_eq!(received, request(id_of(&received), "x/ask", value));
    to.send(&result(id_of(&received), value));
    assert_eq!(from.line(), result("7", value));
    from.send(&request("\"8\"", "x/ask", value));
    let error_object = format!(r#"{{"code":-32000,"message":"no","data":{value}}}"#);
    let received = to.line();
    to.send(&error(id_of(&received), &error_object));
    assert_eq!(from.line(), error("\"8\"", &error_object));
}

#[test]
fn the_scripts_pass_every_payload_unchanged_in_both_directions() {
    let long = format!(r#"{{"text":"{}"}}"#, r#"a \"line\"\n"#.repeat(100_000));
    let values = [
        r#"{"z":1,"a":2,"m":{"y":3,"b":4}}"#,
        r#"{ "white" :  [ 1 ,2,	3 ] , "space" : { } }"#,
        r#"[1.10,1e400,-0.0,1E+2,123456789012345678901234567890]"#,
        r#"{"escapes":"\u0041\/\"\\\b\f\n\r\t\u00e9é🚂\ud83d\ude82\ud800","separator":"\u2028"}"#,
        "{\"separators\":\"\u{2028}\u{2029}\u{85}\"}",
        r#"{"_meta":{"a":1},"method":"m","params":{"method":"proxy/successor"},"id":1,"result":2}"#,
        r#"[[],{},"",null,true,false]"#,
        &long,
    ];
    for (mut chain, mut agent) in start_chains() {
        for value in values {
            assert_passes_unchanged(&mut chain.editor, &mut agent, value);
            assert_passes_unchanged(&mut agent, &mut chain.editor, value);
        }
    }
}

#[test]
fn the_scripts_pass_messages_without_params_and_cancellations() {
    for (mut chain, mut agent) in start_chains() {
        let note = r#"{"jsonrpc":"2.0","method":"_x/note"}"#;
        chain.editor.send(note);
        assert_eq!(agent.line(), note);
        agent.send(note);
        assert_eq!(chain.editor.line(), note);
        chain.editor.send(&request("1", "x/ask", "{}"));
        let received = agent.line();
        chain.editor.send(&cancel("1"));
        assert_eq!(agent.line(), cancel(id_of(&received)));
        agent.send(&result(id_of(&received), "null"));
        assert_eq!(chain.editor.line(), result("1", "null"));
        agent.send(&request("1", "x/ask", "{}"));
        let received = chain.editor.line();
        agent.send(&cancel("1"));
        assert_eq!(chain.editor.line(), cancel(id_of(&received)));
    }
}

/// docs/other-languages.md prints lines to insert into the proxy in Python.
#[test]
fn the_fragment_of_the_page_adds_a_sentence_to_the_prompt() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let read = |path: &str| std::fs::read_to_string(root.join(path)).expect(path);
    let page = read("docs/other-languages.md");
    let (_, fragment) = page.split_once("```python fragment\n").expect("a fragment");
    let (fragment, _) = fragment.split_once("```").expect("its end");
    let proxy = read("examples/python/transparent.py");
    let (before, after) = proxy.split_once("        inner = ").expect("the line");
    let file = directory("fragment").join("proxy.py");
    std::fs::write(&file, format!("{before}{fragment}        inner = {after}")).expect("a file");
    let setup = TestChain::builder(env!("CARGO_BIN_EXE_conductor"));
    let components = [format!("python3 {}", file.display()), setup.scripted_command("agent")];
    let mut chain = setup.run("agent", &components);
    let mut agent = chain.initialize(&["agent"]).pop().expect("an agent");
    let prompt = r#"{"sessionId":"s","prompt": [{"type":"text","text":"hi"}]}"#;
    chain.editor.send(&request("1", "session/prompt", prompt));
    let received = agent.message();
    assert_eq!(received["params"]["prompt"][0]["text"], "Answer in one sentence.");
    assert_eq!(received["params"]["prompt"][1]["text"], "hi");
}

#[test]
fn the_scripts_have_at_most_25_lines() {
    for file in ["python/transparent.py", "javascript/transparent.mjs"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(file);
        let text = std::fs::read_to_string(path).expect(file);
        assert!(text.lines().count() <= 25, "{file} has {} lines", text.lines().count());
    }
}
