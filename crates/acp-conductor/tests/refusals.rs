//! Messages that are not passed on: misplaced methods of the proxy protocol, and lines that are not messages. The
//! sender gets an error where that is possible, no request stays unanswered, and the next line is handled.

use serde_json::json;
use testkit::rpc::{id_of, notification, request, result, wrapped_notification, wrapped_request};
use testkit::test_chain::{Peer, ScriptedComponent, TestChain};

/// A chain of a scripted proxy and a scripted agent.
fn start() -> (TestChain, ScriptedComponent, ScriptedComponent) {
    let names = ["proxy", "agent"];
    let mut chain = TestChain::builder(env!("CARGO_BIN_EXE_conductor")).run_agent(&names);
    let [proxy, agent] = chain.initialize(&names).try_into().expect("two components");
    (chain, proxy, agent)
}

/// The next line must be an error with this id and this code. Returns its message and data.
#[track_caller]
fn expect_error(peer: &mut dyn Peer, id: &str, code: i64) -> String {
    let line = peer.line();
    let start = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"#);
    assert!(line.starts_with(&start), "not the error {code} for {id}: {line}");
    line[start.len()..].to_owned()
}

/// Checks that an error names the component, what is wrong with its answer, and the remedy.
#[track_caller]
fn assert_unreadable(message: &str, component: &str) {
    assert!(message.contains(&format!("{component} sent a bad line: ")), "{message}");
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
fn proxy_methods_of_the_editor_are_refused() {
    let (mut chain, mut proxy, _agent) = start();
    for method in ENVELOPES.iter().chain(&GREETINGS) {
        chain.editor.send(&request("\"x\"", method, r#"{"method":"m"}"#));
        expect_error(&mut chain.editor, "\"x\"", -32600);
        chain.editor.send(&notification(method, r#"{"method":"m"}"#));
    }
    chain.editor.send(&notification("next", ""));
    assert_eq!(proxy.line(), notification("next", ""));
}

/// Checklist 44, 46, 47.
#[test]
fn proxy_methods_of_the_agent_are_refused() {
    let (_chain, mut proxy, mut agent) = start();
    for method in ENVELOPES.iter().chain(&GREETINGS) {
        agent.send(&request("\"x\"", method, r#"{"method":"m"}"#));
        expect_error(&mut agent, "\"x\"", -32600);
        agent.send(&notification(method, r#"{"method":"m"}"#));
    }
    agent.send(&notification("next", ""));
    assert_eq!(proxy.line(), wrapped_notification("next", ""));
}

/// Checklist 45, 46.
#[test]
fn an_envelope_may_contain_neither_an_envelope_nor_a_greeting() {
    let (mut chain, mut proxy, mut agent) = start();
    for method in ENVELOPES.iter().chain(&GREETINGS) {
        proxy.send(&wrapped_request("7", method, r#"{"method":"m"}"#));
        expect_error(&mut proxy, "7", -32600);
        proxy.send(&wrapped_notification(method, r#"{"method":"m"}"#));
    }
    for method in GREETINGS {
        proxy.send(&request("8", method, "{}"));
        expect_error(&mut proxy, "8", -32600);
    }
    proxy.send(&wrapped_notification("next", ""));
    assert_eq!(agent.line(), notification("next", ""));
    proxy.send(&notification("next", ""));
    assert_eq!(chain.editor.line(), notification("next", ""));
}

/// Checklist 48.
#[test]
fn an_envelope_needs_a_method_and_params_that_are_not_scalar() {
    let (_chain, mut proxy, mut agent) = start();
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
        expect_error(&mut proxy, "7", -32602);
        proxy.send(&notification("proxy/successor", params));
    }
    proxy.send(&wrapped_notification("next", ""));
    assert_eq!(agent.line(), notification("next", ""));
}

/// Lines that are JSON but not a message, and the id of the error.
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

/// Lines that are not JSON.
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
fn invalid_lines_of_the_editor_are_answered_with_an_error() {
    let (mut chain, mut proxy, _agent) = start();
    for (line, id) in NO_MESSAGES {
        chain.editor.send(line);
        expect_error(&mut chain.editor, id, -32600);
    }
    for line in ["1", "null", "true", r#""text""#] {
        chain.editor.send(line);
        expect_error(&mut chain.editor, "null", -32600);
    }
    for line in NO_JSON {
        chain.editor.write(&[line, b"\n"].concat());
        expect_error(&mut chain.editor, "null", -32700);
    }
    chain.editor.send("\n  \n\r");
    chain.editor.send(&notification("next", ""));
    assert_eq!(proxy.line(), notification("next", ""));
}

/// Components write logs to their standard output. These lines are skipped. The sender of a broken message gets
/// an error, as the editor does.
#[test]
fn invalid_messages_of_a_component_are_answered_and_noise_is_skipped() {
    let (mut chain, mut proxy, mut agent) = start();
    for peer in [&mut proxy, &mut agent] {
        for (line, id) in NO_MESSAGES {
            peer.send(line);
            expect_error(peer, id, -32600);
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

/// A line that looks like a broken request is answered, since the component waits for that.
#[test]
fn lines_of_a_component_that_are_not_json_are_skipped() {
    let (mut chain, mut proxy, mut agent) = start();
    for line in NO_JSON {
        proxy.execute(json!({"out_hex": hex(line)}));
        if line.starts_with(br#"{"jsonrpc":"2.0","id":1,"method""#) {
            expect_error(&mut proxy, "1", -32600);
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

/// Answers that cannot be parsed. Only their request can be identified. In the first eleven even the JSON is broken.
const BROKEN_ANSWERS: [&str; 14] = [
    r#"{"jsonrpc":"2.0","id":ID,"result":{"a":1"#,
    r#"{"jsonrpc":"2.0","id":ID,"result":{"a":NaN}}"#,
    r#"{"jsonrpc":"2.0","id":ID,"error":{"code":-1,}}"#,
    r#"{"jsonrpc":"2.0","id":ID,"result":1}}"#,
    // The id is after the broken part.
    r#"{"jsonrpc":"2.0","result":{"a":NaN,"id":1},"id":ID}"#,
    r#"{"result":{"text":"\"id\":1"},"more":[1,],"id": ID ,"jsonrpc":"2.0"}"#,
    r#"{"jsonrpc":"2.0","result":"say "hello"!","id":ID}"#,
    r#"{"jsonrpc":"2.0","result":{"a":[1,2},"id":ID}"#,
    r#"{"jsonrpc":"2.0","result":{"a":{"b":1},"id":ID}"#,
    r#"[{"jsonrpc":"2.0","result":1,"id":ID},{"jsonrpc":"2.0","id":7,"#,
    // The id is missing, but only one request is open.
    r#"{"jsonrpc":"2.0","result":{"a":"never ends"#,
    r#"{"jsonrpc":"2.0","id":ID,"result":1,"result":2}"#,
    r#"{"jsonrpc":"2.0","id":ID,"method":"m","result":1}"#,
    // JavaScript writes this for `{jsonrpc, id, result: undefined}`.
    r#"{"jsonrpc":"2.0","id":ID}"#,
];

#[test]
fn a_broken_answer_of_a_component_becomes_an_error() {
    let (mut chain, mut proxy, _agent) = start();
    for broken in BROKEN_ANSWERS {
        chain.editor.send(&request("\"q\"", "m", ""));
        let received = proxy.line();
        proxy.send(&broken.replace("ID", id_of(&received)));
        let message = expect_error(&mut chain.editor, "\"q\"", -32603);
        assert_unreadable(&message, "proxy 'scripted'");
    }
    chain.editor.send(&request("1", "m", ""));
    let received = proxy.line();
    proxy.send(&result(id_of(&received), "1"));
    assert_eq!(chain.editor.line(), result("1", "1"));
}

#[test]
fn a_broken_answer_of_the_editor_becomes_an_error() {
    let (mut chain, mut proxy, _agent) = start();
    for (index, broken) in BROKEN_ANSWERS.iter().enumerate() {
        proxy.send(&request("\"q\"", "m", ""));
        let received = chain.editor.line();
        chain.editor.send(&broken.replace("ID", id_of(&received)));
        let message = expect_error(&mut proxy, "\"q\"", -32603);
        assert_unreadable(&message, "the editor");
        if index < 11 {
            expect_error(&mut chain.editor, "null", -32700);
        }
    }
    chain.editor.send(&notification("next", ""));
    assert_eq!(proxy.line(), notification("next", ""));
    proxy.send(&notification("next", ""));
    assert_eq!(chain.editor.line(), notification("next", ""));
}

/// The same for an answer with invalid UTF-8.
#[test]
fn an_answer_with_invalid_utf_8_becomes_an_error() {
    let (mut chain, mut proxy, _agent) = start();
    chain.editor.send(&request("1", "m", ""));
    let received = proxy.line();
    let start = format!(r#"{{"jsonrpc":"2.0","id":{},"result":""#, id_of(&received));
    proxy.execute(json!({"out_hex": hex(&[start.as_bytes(), b"\xff\"}"].concat())}));
    let message = expect_error(&mut chain.editor, "1", -32603);
    assert!(message.contains("invalid UTF-8"), "{message}");
}

/// Without a readable id, the answer is to one of the open requests. When the others are answered, it is clear
/// which. No other request is answered in its place.
#[test]
fn an_answer_without_a_readable_id_belongs_to_the_request_that_stays_open() {
    let (mut chain, mut proxy, _agent) = start();
    let mut received = Vec::new();
    for id in ["1", "2", "3", "4"] {
        chain.editor.send(&request(id, "m", ""));
        received.push(proxy.line());
    }
    let cut_off = r#"{"jsonrpc":"2.0","result":"cut off"#;
    proxy.send(cut_off);
    proxy.send(cut_off);
    proxy.send(&notification("read", ""));
    assert_eq!(chain.editor.line(), notification("read", ""));
    // A request that is sent later is not one of them.
    chain.editor.send(&request("5", "m", ""));
    let later = proxy.line();
    proxy.send(&result(id_of(&received[2]), "3"));
    assert_eq!(chain.editor.line(), result("3", "3"));
    proxy.send(&result(id_of(&received[0]), "1"));
    assert_eq!(chain.editor.line(), result("1", "1"));
    for id in ["2", "4"] {
        let message = expect_error(&mut chain.editor, id, -32603);
        assert_unreadable(&message, "proxy 'scripted'");
    }
    // A right answer that comes too late is dropped.
    proxy.send(&result(id_of(&received[1]), "2"));
    proxy.send(&result(id_of(&later), "5"));
    assert_eq!(chain.editor.line(), result("5", "5"));
}

/// An answer without an id is different from one with a broken id: published SDKs use it to report errors
/// about notifications.
#[test]
fn an_answer_without_an_id_answers_no_request() {
    let (mut chain, mut proxy, _agent) = start();
    chain.editor.send(&request("1", "m", ""));
    let received = proxy.line();
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
    proxy.send(&result(id_of(&received), "1"));
    assert_eq!(chain.editor.line(), result("1", "1"));
}

/// A component that cannot parse a request does not know its id.
#[test]
fn a_request_that_a_component_could_not_parse_gets_an_error() {
    let (_chain, mut proxy, mut agent) = start();
    let mut received = Vec::new();
    for id in ["1", "2"] {
        proxy.send(&wrapped_request(id, "m", ""));
        received.push(agent.line());
    }
    // The error is about one of the two. When the other is answered, it is clear which.
    agent.send(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#);
    agent.send(&result(id_of(&received[0]), "1"));
    assert_eq!(proxy.line(), result("1", "1"));
    let message = expect_error(&mut proxy, "2", -32603);
    assert!(message.contains("agent 'scripted#2' could not read a request"), "{message}");
    assert!(message.contains("Parse error") && message.contains("change the request"), "{message}");

    for line in [
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid request"}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"}}"#,
    ] {
        proxy.send(&wrapped_request("3", "m", ""));
        agent.line();
        agent.send(line);
        expect_error(&mut proxy, "3", -32603);
    }
}

/// SDK 0.11 answers a notification that it cannot parse with an error without an id, and elizacp one that it does
/// not know. An open request keeps waiting. Checklist 41.
#[test]
fn an_error_about_a_notification_does_not_answer_a_request() {
    let (_chain, mut proxy, mut agent) = start();
    let complaints = [
        r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"Parse error"}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32601,"message":"Method not found"}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Invalid request"}}"#,
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}"#,
    ];
    // The notification comes during the request, or before it.
    for during in [true, false] {
        for complaint in complaints {
            let notification = wrapped_notification("n", "");
            let request = wrapped_request("3", "m", "");
            let lines = if during { [request, notification] } else { [notification, request] };
            lines.iter().for_each(|line| proxy.send(line));
            let received = [agent.line(), agent.line()];
            agent.send(complaint);
            agent.send(&result(id_of(&received[usize::from(!during)]), "1"));
            assert_eq!(proxy.line(), result("3", "1"), "{complaint}");
        }
    }
    // The same while the agent's own request is answered.
    proxy.send(&wrapped_request("3", "m", ""));
    let received_request = agent.line();
    agent.send(&request("7", "m", ""));
    let line = proxy.line();
    proxy.send(&result(id_of(&line), "7"));
    assert_eq!(agent.line(), result("7", "7"));
    agent.send(complaints[3]);
    agent.send(&result(id_of(&received_request), "1"));
    assert_eq!(proxy.line(), result("3", "1"));
}

/// Log lines that quote messages, or look like a part of one, answer nothing. Checklist 31.
#[test]
fn a_log_line_on_stdout_does_not_answer_a_request() {
    let (mut chain, mut proxy, _agent) = start();
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
        let received = proxy.line();
        proxy.send(&line.replace("ID", id_of(&received)));
        proxy.send(&notification("read", ""));
        assert_eq!(chain.editor.line(), notification("read", ""), "{line}");
        proxy.send(&result(id_of(&received), "1"));
        assert_eq!(chain.editor.line(), result("1", "1"), "{line}");
    }
}

/// The work grows linearly with the number of lost answers and open requests. Comparing each with each other
/// would take minutes.
#[test]
fn many_unreadable_answers_to_many_requests_do_not_block_the_chain() {
    const REQUESTS: usize = 1000;
    let (mut chain, mut proxy, _agent) = start();
    let mut received = Vec::new();
    for id in 0..REQUESTS {
        chain.editor.send(&request(&id.to_string(), "m", ""));
        received.push(proxy.line());
    }
    for _ in 0..REQUESTS / 2 {
        proxy.send(r#"{"jsonrpc":"2.0","result":{"a":"#);
    }
    for (id, received) in received.iter().enumerate().take(REQUESTS / 2) {
        proxy.send(&result(id_of(received), "1"));
        assert_eq!(chain.editor.line(), result(&id.to_string(), "1"));
    }
    for id in REQUESTS / 2..REQUESTS {
        assert_unreadable(
            &expect_error(&mut chain.editor, &id.to_string(), -32603),
            "proxy 'scripted'",
        );
    }
}

/// The batch cannot be parsed, and has more answers than the conductor tells apart.
#[test]
fn a_broken_batch_becomes_an_error_for_every_request_it_answers() {
    const REQUESTS: usize = 4100;
    let (mut chain, mut proxy, _agent) = start();
    let mut answers = Vec::new();
    for id in 0..REQUESTS {
        chain.editor.send(&request(&id.to_string(), "m", ""));
        answers.push(result(id_of(&proxy.line()), "1"));
    }
    proxy.send(&format!("[{},]", answers.join(",")));
    for id in 0..REQUESTS {
        assert_unreadable(
            &expect_error(&mut chain.editor, &id.to_string(), -32603),
            "proxy 'scripted'",
        );
    }
}

/// Answers in a batch are handled one after the other. Requests in it are refused.
#[test]
fn the_answers_of_a_batch_reach_their_requesters() {
    let (mut chain, mut proxy, _agent) = start();
    let mut received = Vec::new();
    for id in ["1", "2", "3"] {
        chain.editor.send(&request(id, "m", ""));
        received.push(proxy.line());
    }
    let answers = [result(id_of(&received[1]), "1.10"), result(id_of(&received[0]), r#"{"a": 1}"#)];
    proxy.send(&format!("[{} , {}]", answers[0], answers[1]));
    assert_eq!(chain.editor.line(), result("2", "1.10"));
    assert_eq!(chain.editor.line(), result("1", r#"{"a": 1}"#));
    let mixed = [request("8", "m", ""), result(id_of(&received[2]), "3"), notification("n", "")];
    proxy.send(&format!("[{}]", mixed.join(",")));
    assert_eq!(chain.editor.line(), result("3", "3"));
    expect_error(&mut proxy, "null", -32600);

    // The same for the editor, with one that cannot be parsed.
    for id in ["1", "2"] {
        proxy.send(&request(id, "m", ""));
    }
    let received = [chain.editor.line(), chain.editor.line()];
    let broken = format!(r#"{{"jsonrpc":"2.0","id":{}}}"#, id_of(&received[0]));
    chain.editor.send(&format!("[{broken},{}]", result(id_of(&received[1]), "2")));
    let message = expect_error(&mut proxy, "1", -32603);
    assert_unreadable(&message, "the editor");
    assert_eq!(proxy.line(), result("2", "2"));
}

/// A broken answer to a greeting counts as a refusal: the next older greeting is tried.
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
