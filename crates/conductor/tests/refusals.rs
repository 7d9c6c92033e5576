//! What is not passed on: words of the proxy protocol out of turn, and lines that are no messages.
//! Whoever sent them is told where it can be told, nobody waits in vain, and the next line counts.

use serde_json::json;
use testkit::rpc::{id_of, notification, request, result, wrapped_notification, wrapped_request};
use testkit::stage::{Peer, Puppet, Stage};

/// The editor, a proxy and the agent.
fn cast() -> (Stage, Puppet, Puppet) {
    let names = ["proxy", "agent"];
    let mut stage = Stage::new(env!("CARGO_BIN_EXE_conductor")).agent(&names);
    let [proxy, agent] = stage.initialize(&names).try_into().expect("as many as names");
    (stage, proxy, agent)
}

/// The next line is an error with this id and this code; gives its message.
#[track_caller]
fn refused(peer: &mut dyn Peer, id: &str, code: i64) -> String {
    let line = peer.line();
    let start = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"#);
    assert!(line.starts_with(&start), "not the error {code} for {id}: {line}");
    line[start.len()..].to_owned()
}

/// The names of an envelope in all generations of the proxy protocol.
const ENVELOPES: [&str; 8] = [
    "proxy/successor",
    "_proxy/successor",
    "_proxy/successor/request",
    "_proxy/successor/notification",
    "_proxy/successor/send/request",
    "_proxy/successor/send/notification",
    "_proxy/successor/receive/request",
    "_proxy/successor/receive/notification",
];

const GREETINGS: [&str; 2] = ["proxy/initialize", "_proxy/initialize"];

/// Checklist 43, 46, 47.
#[test]
fn the_editor_is_no_proxy() {
    let (mut stage, mut proxy, _agent) = cast();
    for method in ENVELOPES.iter().chain(&GREETINGS) {
        stage.editor.send(&request("\"x\"", method, r#"{"method":"m"}"#));
        refused(&mut stage.editor, "\"x\"", -32600);
        stage.editor.send(&notification(method, r#"{"method":"m"}"#));
    }
    stage.editor.send(&notification("next", ""));
    assert_eq!(proxy.line(), notification("next", ""));
}

/// Checklist 44, 46, 47.
#[test]
fn the_agent_is_no_proxy() {
    let (_stage, mut proxy, mut agent) = cast();
    for method in ENVELOPES.iter().chain(&GREETINGS) {
        agent.send(&request("\"x\"", method, r#"{"method":"m"}"#));
        refused(&mut agent, "\"x\"", -32600);
        agent.send(&notification(method, r#"{"method":"m"}"#));
    }
    agent.send(&notification("next", ""));
    assert_eq!(proxy.line(), wrapped_notification("next", ""));
}

/// Checklist 45, 46.
#[test]
fn an_envelope_holds_neither_an_envelope_nor_a_greeting() {
    let (mut stage, mut proxy, mut agent) = cast();
    for method in ENVELOPES.iter().chain(&GREETINGS) {
        proxy.send(&wrapped_request("7", method, r#"{"method":"m"}"#));
        refused(&mut proxy, "7", -32600);
        proxy.send(&wrapped_notification(method, r#"{"method":"m"}"#));
    }
    for method in GREETINGS {
        proxy.send(&request("8", method, "{}"));
        refused(&mut proxy, "8", -32600);
    }
    proxy.send(&wrapped_notification("next", ""));
    assert_eq!(agent.line(), notification("next", ""));
    proxy.send(&notification("next", ""));
    assert_eq!(stage.editor.line(), notification("next", ""));
}

/// Checklist 48.
#[test]
fn an_envelope_needs_a_method_and_params_that_are_no_scalar() {
    let (_stage, mut proxy, mut agent) = cast();
    for params in [
        "",
        "{}",
        "[]",
        "null",
        r#"{"params":{}}"#,
        r#"{"method":null}"#,
        r#"{"method":3}"#,
        r#"{"method":"m","params":3}"#,
        r#"{"method":"m","params":"text"}"#,
        r#"{"method":"m","params":true}"#,
    ] {
        proxy.send(&request("7", "proxy/successor", params));
        refused(&mut proxy, "7", -32602);
        proxy.send(&notification("proxy/successor", params));
    }
    proxy.send(&wrapped_notification("next", ""));
    assert_eq!(agent.line(), notification("next", ""));
}

/// Lines that are JSON and no message; the id under which that is said.
const NO_MESSAGES: [(&str, &str); 14] = [
    ("[]", "null"),
    (r#"[{"jsonrpc":"2.0","id":1,"method":"m"}]"#, "null"),
    ("{}", "null"),
    (r#"{"jsonrpc":"2.0"}"#, "null"),
    (r#"{"jsonrpc":"2.0","params":{}}"#, "null"),
    (r#"{"jsonrpc":"2.0","id":5}"#, "5"),
    (r#"{"jsonrpc":"2.0","id":5,"params":{}}"#, "5"),
    (r#"{"jsonrpc":"2.0","id":5,"method":7}"#, "5"),
    (r#"{"jsonrpc":"2.0","id":5,"method":"m","result":1}"#, "5"),
    (r#"{"jsonrpc":"2.0","id":1.5,"method":"m"}"#, "null"),
    (r#"{"jsonrpc":"2.0","id":1e2,"method":"m"}"#, "null"),
    (r#"{"jsonrpc":"2.0","id":true,"method":"m"}"#, "null"),
    (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"m"}"#, "null"),
    (r#"{"jsonrpc":"2.0","id":1,"method":"m","method":"n"}"#, "1"),
];

/// Lines that are no JSON.
const NO_JSON: [&[u8]; 9] = [
    b"nonsense",
    b"{",
    br#"{"jsonrpc":"2.0","id":1,"method":"m""#,
    br#"{"jsonrpc":"2.0","id":1,"method":"m"}}"#,
    br#"{"jsonrpc":"2.0","id":1,"method":"m","params":[1,]}"#,
    br#"{"jsonrpc":"2.0","id":01,"method":"m"}"#,
    b"{\"jsonrpc\":\"2.0\",\"method\":\"m\",\"params\":\"\xff\"}",
    b"\xf0\x9f",
    b"\0",
];

#[test]
fn the_editor_is_told_what_is_wrong_with_its_lines() {
    let (mut stage, mut proxy, _agent) = cast();
    for (line, id) in NO_MESSAGES {
        stage.editor.send(line);
        refused(&mut stage.editor, id, -32600);
    }
    for line in ["1", "null", "true", r#""text""#] {
        stage.editor.send(line);
        refused(&mut stage.editor, "null", -32600);
    }
    for line in NO_JSON {
        stage.editor.write(&[line, b"\n"].concat());
        refused(&mut stage.editor, "null", -32700);
    }
    stage.editor.send("\n  \n\r");
    stage.editor.send(&notification("next", ""));
    assert_eq!(proxy.line(), notification("next", ""));
}

/// Components write logs on their output. These lines are skipped; who sends a broken message is
/// told as the editor is.
#[test]
fn noise_of_a_component_is_skipped_and_the_link_goes_on() {
    let (mut stage, mut proxy, mut agent) = cast();
    for peer in [&mut proxy, &mut agent] {
        for (line, id) in NO_MESSAGES {
            peer.send(line);
            refused(peer, id, -32600);
        }
        for line in [&b"1"[..], b"null", b"\"text\"", b"[INFO] ready", b"\x1b[1mready\x1b[0m", b""]
        {
            peer.order(json!({"out_hex": hex(line)}));
        }
    }
    agent.send(&notification("next", ""));
    assert_eq!(proxy.line(), wrapped_notification("next", ""));
    proxy.send(&notification("next", ""));
    assert_eq!(stage.editor.line(), notification("next", ""));
}

/// What looks like a broken request of its own is answered: it waits for that.
#[test]
fn what_a_component_says_that_is_no_json_is_skipped() {
    let (mut stage, mut proxy, mut agent) = cast();
    for line in NO_JSON {
        proxy.order(json!({"out_hex": hex(line)}));
        if line.starts_with(br#"{"jsonrpc":"2.0","id":1,"method""#) {
            refused(&mut proxy, "1", -32600);
        }
    }
    agent.send(&notification("next", ""));
    assert_eq!(proxy.line(), wrapped_notification("next", ""));
    proxy.send(&notification("next", ""));
    assert_eq!(stage.editor.line(), notification("next", ""));
}

fn hex(line: &[u8]) -> String {
    line.iter().chain(b"\n").map(|byte| format!("{byte:02x}")).collect()
}

/// Answers that cannot be read: all that is left is to whom they were. In the first eleven even the
/// JSON is broken.
const BROKEN_ANSWERS: [&str; 14] = [
    r#"{"jsonrpc":"2.0","id":ID,"result":{"a":1"#,
    r#"{"jsonrpc":"2.0","id":ID,"result":{"a":NaN}}"#,
    r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-1,}}"#,
    r#"{"jsonrpc":"2.0","id":ID,"result":1}}"#,
    // The id is behind what is broken.
    r#"{"jsonrpc":"2.0","result":{"a":NaN,"id":1},"id":ID}"#,
    r#"{"result":{"text":"\"id\":1"},"more":[1,],"id": ID ,"jsonrpc":"2.0"}"#,
    r#"{"jsonrpc":"2.0","result":"say "hello"!","id":ID}"#,
    r#"{"jsonrpc":"2.0","result":{"a":[1,2},"id":ID}"#,
    r#"{"jsonrpc":"2.0","result":{"a":{"b":1},"id":ID}"#,
    r#"[{"jsonrpc":"2.0","result":1,"id":ID},{"jsonrpc":"2.0","id":7,"#,
    // It cannot be made out at all, but there is only one request.
    r#"{"jsonrpc":"2.0","result":{"a":"never ends"#,
    r#"{"jsonrpc":"2.0","id":ID,"result":1,"result":2}"#,
    r#"{"jsonrpc":"2.0","id":ID,"method":"m","result":1}"#,
    // What JavaScript makes of `{jsonrpc, id, result: undefined}`.
    r#"{"jsonrpc":"2.0","id":ID}"#,
];

#[test]
fn a_broken_answer_of_a_component_does_not_leave_the_asker_waiting() {
    let (mut stage, mut proxy, _agent) = cast();
    for broken in BROKEN_ANSWERS {
        stage.editor.send(&request("\"q\"", "m", ""));
        let asked = proxy.line();
        proxy.send(&broken.replace("ID", id_of(&asked)));
        let message = refused(&mut stage.editor, "\"q\"", -32603);
        assert!(message.contains("proxy 'puppet' sent a bad line"), "{broken}: {message}");
    }
    stage.editor.send(&request("1", "m", ""));
    let asked = proxy.line();
    proxy.send(&result(id_of(&asked), "1"));
    assert_eq!(stage.editor.line(), result("1", "1"));
}

#[test]
fn a_broken_answer_of_the_editor_does_not_leave_the_asker_waiting() {
    let (mut stage, mut proxy, _agent) = cast();
    for (index, broken) in BROKEN_ANSWERS.iter().enumerate() {
        proxy.send(&request("\"q\"", "m", ""));
        let asked = stage.editor.line();
        stage.editor.send(&broken.replace("ID", id_of(&asked)));
        let message = refused(&mut proxy, "\"q\"", -32603);
        assert!(message.contains("the editor sent a bad line"), "{broken}: {message}");
        if index < 11 {
            refused(&mut stage.editor, "null", -32700);
        }
    }
    stage.editor.send(&notification("next", ""));
    assert_eq!(proxy.line(), notification("next", ""));
    proxy.send(&notification("next", ""));
    assert_eq!(stage.editor.line(), notification("next", ""));
}

/// An answer with invalid UTF-8 in it, likewise.
#[test]
fn an_answer_that_is_no_utf_8_does_not_leave_the_asker_waiting() {
    let (mut stage, mut proxy, _agent) = cast();
    stage.editor.send(&request("1", "m", ""));
    let asked = proxy.line();
    let start = format!(r#"{{"jsonrpc":"2.0","id":{},"result":""#, id_of(&asked));
    proxy.order(json!({"out_hex": hex(&[start.as_bytes(), b"\xff\"}"].concat())}));
    let message = refused(&mut stage.editor, "1", -32603);
    assert!(message.contains("invalid UTF-8"), "{message}");
}

/// Where the id cannot be made out, the answer was to one of the open requests. Which one is clear when
/// the others are answered; no other is answered in its place.
#[test]
fn an_answer_without_a_readable_id_is_the_one_that_stays_away() {
    let (mut stage, mut proxy, _agent) = cast();
    let mut asked = Vec::new();
    for id in ["1", "2", "3", "4"] {
        stage.editor.send(&request(id, "m", ""));
        asked.push(proxy.line());
    }
    let cut_off = r#"{"jsonrpc":"2.0","result":"cut off"#;
    proxy.send(cut_off);
    proxy.send(cut_off);
    proxy.send(&notification("read", ""));
    assert_eq!(stage.editor.line(), notification("read", ""));
    // One that is asked later is none of them.
    stage.editor.send(&request("5", "m", ""));
    let later = proxy.line();
    proxy.send(&result(id_of(&asked[2]), "3"));
    assert_eq!(stage.editor.line(), result("3", "3"));
    proxy.send(&result(id_of(&asked[0]), "1"));
    assert_eq!(stage.editor.line(), result("1", "1"));
    for id in ["2", "4"] {
        let message = refused(&mut stage.editor, id, -32603);
        assert!(message.contains("proxy 'puppet' sent a bad line"), "{message}");
    }
    // A right answer that comes too late is dropped.
    proxy.send(&result(id_of(&asked[1]), "2"));
    proxy.send(&result(id_of(&later), "5"));
    assert_eq!(stage.editor.line(), result("5", "5"));
}

/// An answer without an id is not taken for one whose id is broken: published SDKs complain like that
/// about notifications.
#[test]
fn an_answer_without_an_id_answers_nothing() {
    let (mut stage, mut proxy, _agent) = cast();
    stage.editor.send(&request("1", "m", ""));
    let asked = proxy.line();
    for line in [
        r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found",}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}"#,
        r#"{"jsonrpc":"2.0","id":"other","result":{"a":1"#,
        r#"{ level: 'info', result: 1"#,
        r#"{"level":"info","message":"{\"id\":"#,
    ] {
        proxy.send(line);
    }
    proxy.send(&result(id_of(&asked), "1"));
    assert_eq!(stage.editor.line(), result("1", "1"));
}

/// Answers in a batch are taken one after the other; requests in it stay refused.
#[test]
fn the_answers_of_a_batch_reach_their_askers() {
    let (mut stage, mut proxy, _agent) = cast();
    let mut asked = Vec::new();
    for id in ["1", "2", "3"] {
        stage.editor.send(&request(id, "m", ""));
        asked.push(proxy.line());
    }
    let answers = [result(id_of(&asked[1]), "1.10"), result(id_of(&asked[0]), r#"{"a": 1}"#)];
    proxy.send(&format!("[{} , {}]", answers[0], answers[1]));
    assert_eq!(stage.editor.line(), result("2", "1.10"));
    assert_eq!(stage.editor.line(), result("1", r#"{"a": 1}"#));
    let mixed = [request("8", "m", ""), result(id_of(&asked[2]), "3"), notification("n", "")];
    proxy.send(&format!("[{}]", mixed.join(",")));
    assert_eq!(stage.editor.line(), result("3", "3"));
    refused(&mut proxy, "null", -32600);

    // Of the editor likewise, and one that cannot be read.
    for id in ["1", "2"] {
        proxy.send(&request(id, "m", ""));
    }
    let asked = [stage.editor.line(), stage.editor.line()];
    let broken = format!(r#"{{"jsonrpc":"2.0","id":{}}}"#, id_of(&asked[0]));
    stage.editor.send(&format!("[{broken},{}]", result(id_of(&asked[1]), "2")));
    let message = refused(&mut proxy, "1", -32603);
    assert!(message.contains("the editor sent a bad line"), "{message}");
    assert_eq!(proxy.line(), result("2", "2"));
}

/// A broken answer to a greeting is a refusal like any other: the next older greeting is tried.
#[test]
fn a_broken_answer_to_a_greeting_does_not_end_the_probe() {
    let mut stage = Stage::new(env!("CARGO_BIN_EXE_conductor")).agent(&["proxy", "agent"]);
    stage.editor.send(&request("1", "initialize", r#"{"protocolVersion":1}"#));
    let mut proxy = stage.enter("proxy");
    let mut greeting = proxy.line();
    for next in ["_proxy/initialize", "initialize"] {
        proxy.send(&format!(r#"{{"result":{{"a":NaN}},"id":{}}}"#, id_of(&greeting)));
        greeting = proxy.line();
        assert!(greeting.contains(&format!(r#""method":"{next}""#)), "{greeting}");
    }
}
