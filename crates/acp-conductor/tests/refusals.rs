//! What is not passed on: words of the proxy protocol out of turn, and lines that are no messages.
//! Whoever sent them is told where it can be told, nobody waits in vain, and the next line counts.

use serde_json::json;
use testkit::rpc::{id_of, notification, request, result, wrapped_notification, wrapped_request};
use testkit::test_chain::{Peer, ScriptedComponent, TestChain};

/// The editor, a proxy and the agent.
fn cast() -> (TestChain, ScriptedComponent, ScriptedComponent) {
    let names = ["proxy", "agent"];
    let mut chain = TestChain::builder(env!("CARGO_BIN_EXE_conductor")).run_agent(&names);
    let [proxy, agent] = chain.initialize(&names).try_into().expect("as many as names");
    (chain, proxy, agent)
}

/// The next line is an error with this id and this code; gives its message.
#[track_caller]
fn refused(peer: &mut dyn Peer, id: &str, code: i64) -> String {
    let line = peer.line();
    let start = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"#);
    assert!(line.starts_with(&start), "not the error {code} for {id}: {line}");
    line[start.len()..].to_owned()
}

/// The error names the component, what is wrong with its answer, and the remedy.
#[track_caller]
fn unreadable(message: &str, who: &str) {
    assert!(message.contains(&format!("{who} sent a bad line: ")), "{message}");
    let what = "; its answer could not be read; send the request again; ";
    assert!(message.contains(what), "{message}");
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
    let (mut chain, mut proxy, _agent) = cast();
    for method in ENVELOPES.iter().chain(&GREETINGS) {
        chain.editor.send(&request("\"x\"", method, r#"{"method":"m"}"#));
        refused(&mut chain.editor, "\"x\"", -32600);
        chain.editor.send(&notification(method, r#"{"method":"m"}"#));
    }
    chain.editor.send(&notification("next", ""));
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
    let (mut chain, mut proxy, mut agent) = cast();
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
    assert_eq!(chain.editor.line(), notification("next", ""));
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
    let (mut chain, mut proxy, _agent) = cast();
    for (line, id) in NO_MESSAGES {
        chain.editor.send(line);
        refused(&mut chain.editor, id, -32600);
    }
    for line in ["1", "null", "true", r#""text""#] {
        chain.editor.send(line);
        refused(&mut chain.editor, "null", -32600);
    }
    for line in NO_JSON {
        chain.editor.write(&[line, b"\n"].concat());
        refused(&mut chain.editor, "null", -32700);
    }
    chain.editor.send("\n  \n\r");
    chain.editor.send(&notification("next", ""));
    assert_eq!(proxy.line(), notification("next", ""));
}

/// Components write logs on their output. These lines are skipped; who sends a broken message is
/// told as the editor is.
#[test]
fn noise_of_a_component_is_skipped_and_the_link_goes_on() {
    let (mut chain, mut proxy, mut agent) = cast();
    for peer in [&mut proxy, &mut agent] {
        for (line, id) in NO_MESSAGES {
            peer.send(line);
            refused(peer, id, -32600);
        }
        for line in [&b"1"[..], b"null", b"\"text\"", b"[INFO] ready", b"\x1b[1mready\x1b[0m", b""]
        {
            peer.execute(json!({"out_hex": hex(line)}));
        }
    }
    agent.send(&notification("next", ""));
    assert_eq!(proxy.line(), wrapped_notification("next", ""));
    proxy.send(&notification("next", ""));
    assert_eq!(chain.editor.line(), notification("next", ""));
}

/// What looks like a broken request of its own is answered: it waits for that.
#[test]
fn what_a_component_says_that_is_no_json_is_skipped() {
    let (mut chain, mut proxy, mut agent) = cast();
    for line in NO_JSON {
        proxy.execute(json!({"out_hex": hex(line)}));
        if line.starts_with(br#"{"jsonrpc":"2.0","id":1,"method""#) {
            refused(&mut proxy, "1", -32600);
        }
    }
    agent.send(&notification("next", ""));
    assert_eq!(proxy.line(), wrapped_notification("next", ""));
    proxy.send(&notification("next", ""));
    assert_eq!(chain.editor.line(), notification("next", ""));
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
    let (mut chain, mut proxy, _agent) = cast();
    for broken in BROKEN_ANSWERS {
        chain.editor.send(&request("\"q\"", "m", ""));
        let asked = proxy.line();
        proxy.send(&broken.replace("ID", id_of(&asked)));
        let message = refused(&mut chain.editor, "\"q\"", -32603);
        unreadable(&message, "proxy 'scripted'");
    }
    chain.editor.send(&request("1", "m", ""));
    let asked = proxy.line();
    proxy.send(&result(id_of(&asked), "1"));
    assert_eq!(chain.editor.line(), result("1", "1"));
}

#[test]
fn a_broken_answer_of_the_editor_does_not_leave_the_asker_waiting() {
    let (mut chain, mut proxy, _agent) = cast();
    for (index, broken) in BROKEN_ANSWERS.iter().enumerate() {
        proxy.send(&request("\"q\"", "m", ""));
        let asked = chain.editor.line();
        chain.editor.send(&broken.replace("ID", id_of(&asked)));
        let message = refused(&mut proxy, "\"q\"", -32603);
        unreadable(&message, "the editor");
        if index < 11 {
            refused(&mut chain.editor, "null", -32700);
        }
    }
    chain.editor.send(&notification("next", ""));
    assert_eq!(proxy.line(), notification("next", ""));
    proxy.send(&notification("next", ""));
    assert_eq!(chain.editor.line(), notification("next", ""));
}

/// An answer with invalid UTF-8 in it, likewise.
#[test]
fn an_answer_that_is_no_utf_8_does_not_leave_the_asker_waiting() {
    let (mut chain, mut proxy, _agent) = cast();
    chain.editor.send(&request("1", "m", ""));
    let asked = proxy.line();
    let start = format!(r#"{{"jsonrpc":"2.0","id":{},"result":""#, id_of(&asked));
    proxy.execute(json!({"out_hex": hex(&[start.as_bytes(), b"\xff\"}"].concat())}));
    let message = refused(&mut chain.editor, "1", -32603);
    assert!(message.contains("invalid UTF-8"), "{message}");
}

/// Where the id cannot be made out, the answer was to one of the open requests. Which one is clear when
/// the others are answered; no other is answered in its place.
#[test]
fn an_answer_without_a_readable_id_is_the_one_that_stays_away() {
    let (mut chain, mut proxy, _agent) = cast();
    let mut asked = Vec::new();
    for id in ["1", "2", "3", "4"] {
        chain.editor.send(&request(id, "m", ""));
        asked.push(proxy.line());
    }
    let cut_off = r#"{"jsonrpc":"2.0","result":"cut off"#;
    proxy.send(cut_off);
    proxy.send(cut_off);
    proxy.send(&notification("read", ""));
    assert_eq!(chain.editor.line(), notification("read", ""));
    // A request that is sent later is none of them.
    chain.editor.send(&request("5", "m", ""));
    let later = proxy.line();
    proxy.send(&result(id_of(&asked[2]), "3"));
    assert_eq!(chain.editor.line(), result("3", "3"));
    proxy.send(&result(id_of(&asked[0]), "1"));
    assert_eq!(chain.editor.line(), result("1", "1"));
    for id in ["2", "4"] {
        let message = refused(&mut chain.editor, id, -32603);
        unreadable(&message, "proxy 'scripted'");
    }
    // A right answer that comes too late is dropped.
    proxy.send(&result(id_of(&asked[1]), "2"));
    proxy.send(&result(id_of(&later), "5"));
    assert_eq!(chain.editor.line(), result("5", "5"));
}

/// An answer without an id is not taken for one whose id is broken: published SDKs complain like that
/// about notifications.
#[test]
fn an_answer_without_an_id_answers_nothing() {
    let (mut chain, mut proxy, _agent) = cast();
    chain.editor.send(&request("1", "m", ""));
    let asked = proxy.line();
    for line in [
        r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found",}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"?"}}"#,
        r#"{"jsonrpc":"2.0","id":null,"result":{}}"#,
        r#"{"jsonrpc":"2.0","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"other","result":{"a":1"#,
        r#"{ level: 'info', result: 1"#,
        r#"{"level":"info","message":"{\"id\":"#,
    ] {
        proxy.send(line);
    }
    proxy.send(&result(id_of(&asked), "1"));
    assert_eq!(chain.editor.line(), result("1", "1"));
}

/// A component that cannot read a request does not know its id.
#[test]
fn a_request_that_a_component_could_not_read_does_not_wait_for_ever() {
    let (_stage, mut proxy, mut agent) = cast();
    let mut asked = Vec::new();
    for id in ["1", "2"] {
        proxy.send(&wrapped_request(id, "m", ""));
        asked.push(agent.line());
    }
    // One of the two: which one is clear when the other is answered.
    agent.send(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#);
    agent.send(&result(id_of(&asked[0]), "1"));
    assert_eq!(proxy.line(), result("1", "1"));
    let message = refused(&mut proxy, "2", -32603);
    assert!(message.contains("agent 'scripted#2' could not read a request"), "{message}");
    assert!(message.contains("Parse error") && message.contains("change the request"), "{message}");

    for line in [
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid request"}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"}}"#,
    ] {
        proxy.send(&wrapped_request("3", "m", ""));
        agent.line();
        agent.send(line);
        refused(&mut proxy, "3", -32603);
    }
}

/// SDK 0.11 answers a notification that it cannot read with an error that has no id, and elizacp one that it
/// does not know. A request that is open meanwhile waits on. (41)
#[test]
fn a_complaint_about_a_notification_does_not_end_a_request() {
    let (_stage, mut proxy, mut agent) = cast();
    let complaints = [
        r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid request"}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#,
    ];
    // The notification comes during the request, or before it.
    for during in [true, false] {
        for complaint in complaints {
            let told = wrapped_notification("n", "");
            let asks = wrapped_request("3", "m", "");
            let lines = if during { [asks, told] } else { [told, asks] };
            lines.iter().for_each(|line| proxy.send(line));
            let came = [agent.line(), agent.line()];
            agent.send(complaint);
            agent.send(&result(id_of(&came[usize::from(!during)]), "1"));
            assert_eq!(proxy.line(), result("3", "1"), "{complaint}");
        }
    }
    // So does one that is open while the agent is answered.
    proxy.send(&wrapped_request("3", "m", ""));
    let asked = agent.line();
    agent.send(&request("7", "m", ""));
    let line = proxy.line();
    proxy.send(&result(id_of(&line), "7"));
    assert_eq!(agent.line(), result("7", "7"));
    agent.send(complaints[3]);
    agent.send(&result(id_of(&asked), "1"));
    assert_eq!(proxy.line(), result("3", "1"));
}

/// Log lines that quote messages, or look like a part of one, answer nothing. (31)
#[test]
fn a_log_line_on_the_output_does_not_end_a_request() {
    let (mut chain, mut proxy, _agent) = cast();
    for line in [
        r#"[WARN] {"error":"retrying","n":1}"#,
        r#"[WARN] {"error":{"code":-32000,"message":"retrying""#,
        r#"{"error": {"#,
        r#"{"result": ["#,
        r#"  {"error": "cut of"#,
        r#"[2026] {"result":1}"#,
        r#"[2026-01-01] {"jsonrpc":"2.0","result":{"a":"#,
        r#"[debug] -> {"jsonrpc":"2.0","id":ID,"result":{}}"#,
        r#"[{debug}] -> {"jsonrpc":"2.0","id":ID,"result":{"a":"#,
        r#"{debug} {"jsonrpc":"2.0","id":ID,"result":{}}"#,
        r#"{"sent":1} {"jsonrpc":"2.0","id":ID,"result":{}}"#,
        r#"{"sent":1}, {"jsonrpc":"2.0","id":ID,"result":{}"#,
        r#"{"got":{"jsonrpc":"2.0","id":ID,"result":{}}"#,
        r#"{"got":"{"jsonrpc":"2.0","id":ID,"result":{}}"}"#,
        r#"{"level":"debug","id":ID,"text":"waiting""#,
        r#"{"level":"debug","got":[1,],"id":ID,"text":"waiting"}"#,
        r#"{ jsonrpc: '2.0', id: ID, result: {} }"#,
        r#"[ID, {"jsonrpc":"2.0","id":ID,"result":{}}]"#,
        "[1, 2, 3]",
        r#"{"jsonrpc":"2.0","method":"log","params":{"got":{"id":ID,"result":{}}"#,
    ] {
        chain.editor.send(&request("1", "m", ""));
        let asked = proxy.line();
        proxy.send(&line.replace("ID", id_of(&asked)));
        proxy.send(&notification("read", ""));
        assert_eq!(chain.editor.line(), notification("read", ""), "{line}");
        proxy.send(&result(id_of(&asked), "1"));
        assert_eq!(chain.editor.line(), result("1", "1"), "{line}");
    }
}

/// However many lost answers and open requests there are. Each answer against each other one, and each
/// request against each other one, would take minutes.
#[test]
fn many_unreadable_answers_to_many_requests_do_not_stop_the_chain() {
    const REQUESTS: usize = 1000;
    let (mut chain, mut proxy, _agent) = cast();
    let mut asked = Vec::new();
    for id in 0..REQUESTS {
        chain.editor.send(&request(&id.to_string(), "m", ""));
        asked.push(proxy.line());
    }
    for _ in 0..REQUESTS / 2 {
        proxy.send(r#"{"jsonrpc":"2.0","result":{"a":"#);
    }
    for (id, asked) in asked.iter().enumerate().take(REQUESTS / 2) {
        proxy.send(&result(id_of(asked), "1"));
        assert_eq!(chain.editor.line(), result(&id.to_string(), "1"));
    }
    for id in REQUESTS / 2..REQUESTS {
        unreadable(&refused(&mut chain.editor, &id.to_string(), -32603), "proxy 'scripted'");
    }
}

/// A batch that cannot be read, of more answers than are told apart.
#[test]
fn a_broken_batch_ends_every_request_that_it_answers() {
    const REQUESTS: usize = 4100;
    let (mut chain, mut proxy, _agent) = cast();
    let mut answers = Vec::new();
    for id in 0..REQUESTS {
        chain.editor.send(&request(&id.to_string(), "m", ""));
        answers.push(result(id_of(&proxy.line()), "1"));
    }
    proxy.send(&format!("[{},]", answers.join(",")));
    for id in 0..REQUESTS {
        unreadable(&refused(&mut chain.editor, &id.to_string(), -32603), "proxy 'scripted'");
    }
}

/// Answers in a batch are taken one after the other; requests in it stay refused.
#[test]
fn the_answers_of_a_batch_reach_their_askers() {
    let (mut chain, mut proxy, _agent) = cast();
    let mut asked = Vec::new();
    for id in ["1", "2", "3"] {
        chain.editor.send(&request(id, "m", ""));
        asked.push(proxy.line());
    }
    let answers = [result(id_of(&asked[1]), "1.10"), result(id_of(&asked[0]), r#"{"a": 1}"#)];
    proxy.send(&format!("[{} , {}]", answers[0], answers[1]));
    assert_eq!(chain.editor.line(), result("2", "1.10"));
    assert_eq!(chain.editor.line(), result("1", r#"{"a": 1}"#));
    let mixed = [request("8", "m", ""), result(id_of(&asked[2]), "3"), notification("n", "")];
    proxy.send(&format!("[{}]", mixed.join(",")));
    assert_eq!(chain.editor.line(), result("3", "3"));
    refused(&mut proxy, "null", -32600);

    // Of the editor likewise, and one that cannot be read.
    for id in ["1", "2"] {
        proxy.send(&request(id, "m", ""));
    }
    let asked = [chain.editor.line(), chain.editor.line()];
    let broken = format!(r#"{{"jsonrpc":"2.0","id":{}}}"#, id_of(&asked[0]));
    chain.editor.send(&format!("[{broken},{}]", result(id_of(&asked[1]), "2")));
    let message = refused(&mut proxy, "1", -32603);
    unreadable(&message, "the editor");
    assert_eq!(proxy.line(), result("2", "2"));
}

/// A broken answer to a greeting is a refusal like any other: the next older greeting is tried.
#[test]
fn a_broken_answer_to_a_greeting_does_not_end_the_probe() {
    let mut chain =
        TestChain::builder(env!("CARGO_BIN_EXE_conductor")).run_agent(&["proxy", "agent"]);
    chain.editor.send(&request("1", "initialize", r#"{"protocolVersion":1}"#));
    let mut proxy = chain.wait_for_component("proxy");
    let mut greeting = proxy.line();
    for next in ["_proxy/initialize", "initialize"] {
        proxy.send(&format!(r#"{{"result":{{"a":NaN}},"id":{}}}"#, id_of(&greeting)));
        greeting = proxy.line();
        assert!(greeting.contains(&format!(r#""method":"{next}""#)), "{greeting}");
    }
}
