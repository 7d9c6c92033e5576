//! Legal JSON that does not fit the types of handlers.

use std::sync::{Arc, Mutex};

use acp_proxy::script::Conversation;
use acp_proxy::{Call, Proxy, Side};

/// Prompts that no typed handler can read.
fn evasions() -> Vec<String> {
    let prompt = |rest: &str| format!(r#"{{"sessionId":"s",{rest}}}"#);
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    vec![
        prompt(r#""prompt":[{"type":"text","text":"secret \ud83d"}]"#),
        prompt(&format!(r#""prompt":[{{"type":"text","text":"secret"}}],"_meta":{{"x":{deep}}}"#)),
        prompt(r#""prompt":[],"prompt":[{"type":"text","text":"secret"}]"#),
        prompt(r#""prompt":[{"type":"text","text":"secret","text":"harmless"}]"#),
        prompt(r#""prompt":[{"type":"text","text":"secret"},{"type":"hologram"}]"#),
        prompt(r#""prompt":"secret""#),
        prompt(r#""prompt":"secret at line 1 column secret""#),
        prompt(r#""prompt":[{"type":"secret"}]"#),
    ]
}

fn guard(log: &Arc<Mutex<Vec<String>>>) -> Proxy {
    let log = log.clone();
    Proxy::new("guard")
        .log_to(move |line| log.lock().unwrap().push(line.to_owned()))
        .on_prompt(async |mut prompt, next| {
            prompt.edit_text(|text| *text = text.replace("secret", "***"));
            next.run(prompt).await
        })
        .on_update(|_, _| {})
        .on_raw_request(Side::Editor, "_x/raw", async |call: Call, next| next.run(call).await)
}

#[test]
fn a_strict_proxy_refuses_requests_that_its_handler_cannot_read() {
    for params in evasions() {
        let log = Arc::default();
        let mut conversation = Conversation::new(guard(&log).strict());
        let prompt = format!(
            r#"{{"jsonrpc":"2.0","id":"Editor:1","method":"session/prompt","params":{params}}}"#
        );
        conversation.send_text("editor", &prompt);
        let answer = conversation.receive("editor");
        assert_eq!(answer["error"]["code"], -32602, "{params}: {answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.starts_with("guard refuses this session/prompt"), "{message}");
        // The log does not quote the message.
        let logged = log.lock().unwrap().clone();
        assert_eq!(logged.len(), 1);
        assert!(
            logged[0].contains("session/prompt") && !logged[0].contains("secret"),
            "{logged:?}"
        );
        // The agent has received nothing, and still receives prompts that the handler can read.
        conversation.send("editor", r#"{"id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"secret"}],"_meta":{"n":1e300}}}"#);
        assert_eq!(conversation.receive("agent")["params"]["prompt"][0]["text"], "***");
    }
    let mut conversation = Conversation::new(guard(&Arc::default()).strict());
    conversation.send_text(
        "editor",
        r#"{"jsonrpc":"2.0","id":"Editor:1","method":"_x/raw","params":{"a":1,"a":2}}"#,
    );
    assert_eq!(conversation.receive("editor")["error"]["code"], -32602);
    // A method without a handler passes unchanged.
    conversation.send_text(
        "editor",
        r#"{"jsonrpc":"2.0","id":"Editor:1","method":"_x/other","params":{"a":1,"a":2}}"#,
    );
    assert_eq!(conversation.receive("agent")["method"], "_x/other");
}

#[test]
fn without_strict_such_a_request_passes_and_is_logged() {
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let mut conversation = Conversation::new(guard(&log));
    for params in evasions() {
        let prompt = format!(
            r#"{{"jsonrpc":"2.0","id":"Editor:1","method":"session/prompt","params":{params}}}"#
        );
        conversation.send_text("editor", &prompt);
        let passed = conversation.receive("agent");
        assert!(passed.to_string().contains("session/prompt"), "{passed}");
    }
    let log = log.lock().unwrap();
    assert_eq!(log.len(), evasions().len());
    assert!(log[0].starts_with("guard: cannot read a session/prompt and passed it on"), "{log:?}");
}

#[test]
fn a_strict_proxy_drops_notifications_that_its_handler_cannot_read() {
    let update = |update: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"session/update","params":{{"sessionId":"s","update":{update}}}}}"#
        )
    };
    let unknown = update(r#"{"sessionUpdate":"never heard of"}"#);
    let twice = update(
        r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a","text":"b"}}"#,
    );
    let last =
        update(r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"c"}}"#);
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let mut conversation = Conversation::new(guard(&log).strict());
    [&unknown, &twice, &last].iter().for_each(|text| conversation.send_text("agent", text));
    let received = conversation.receive("editor");
    assert_eq!(received["params"]["update"]["content"]["text"], "c");
    assert_eq!(log.lock().unwrap().len(), 2);
    let mut conversation = Conversation::new(guard(&log));
    conversation.send_text("agent", &unknown);
    assert_eq!(
        conversation.receive("editor")["params"]["update"]["sessionUpdate"],
        "never heard of"
    );
}

#[test]
fn an_answer_that_cannot_be_read_is_an_error_that_names_the_proxy() {
    let mut conversation = Conversation::new(guard(&Arc::default()).strict());
    conversation.send(
        "editor",
        r#"{"id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}"#,
    );
    let asked = conversation.receive("agent");
    conversation
        .send("agent", &format!(r#"{{"id":{},"result":{{"stopReason":["no"]}}}}"#, asked["id"]));
    let answer = conversation.receive("editor");
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.starts_with("guard cannot read the answer to session/prompt"), "{message}");
}
