//! Messages that are not addressed to the conductor pass unchanged, in both directions and through any
//! proxies, and every answer reaches its requester.

use testkit::rpc::{
    cancel, error, id_of, notification, request, result, wrapped_notification, wrapped_request,
};
use testkit::test_chain::{Peer, ScriptedComponent, TestChain, TestChainBuilder, binary};

fn new_setup() -> TestChainBuilder {
    TestChain::builder(env!("CARGO_BIN_EXE_conductor"))
}

/// Chains between the editor and a scripted agent: without proxies, with real transparent proxies, and with a
/// nested chain.
fn chains() -> impl Iterator<Item = (TestChain, ScriptedComponent)> {
    let proxies: [fn(&TestChainBuilder) -> Vec<String>; 4] = [
        |_| vec![],
        |_| vec![transparent()],
        |_| vec![transparent(); 3],
        |setup| vec![setup.subchain(&[transparent(), setup.subchain(&[])]), transparent()],
    ];
    proxies.into_iter().map(|proxies| {
        let setup = new_setup();
        let components = [proxies(&setup), vec![setup.scripted_command("agent")]].concat();
        let mut chain = setup.run("agent", &components);
        let agent = chain.initialize(&["agent"]).pop().expect("an agent");
        (chain, agent)
    })
}

fn transparent() -> String {
    format!("'{}'", binary("transparent").display())
}

/// Sends a notification, a request with a result and a request with an error, with this value in every place
/// that can hold one.
fn assert_passes_unchanged(from: &mut impl Peer, to: &mut impl Peer, value: &str) {
    let note = notification("_x/note", value);
    from.send(&note);
    assert_same_line(&to.line(), &note);

    from.send(&request("7", "x/ask", value));
    let received = to.line();
    assert_same_line(&received, &request(id_of(&received), "x/ask", value));
    to.send(&result(id_of(&received), value));
    assert_same_line(&from.line(), &result("7", value));

    from.send(&request("8", "x/ask", value));
    let error_object = format!(r#"{{"code":-32000,"message":"no","data":{value}}}"#);
    let received = to.line();
    to.send(&error(id_of(&received), &error_object));
    assert_same_line(&from.line(), &error("8", &error_object));
}

/// Compares lines that may be too long to print.
#[track_caller]
fn assert_same_line(received: &str, expected: &str) {
    assert!(
        received == expected,
        "received {} bytes: {received:.500}\nexpected {} bytes: {expected:.500}",
        received.len(),
        expected.len()
    );
}

/// Checklist 40, 49, 50, 51, 52.
#[test]
fn values_pass_unchanged_in_params_results_and_errors() {
    let values = [
        r#"{"z":1,"a":2,"m":{"y":3,"b":4}}"#,
        r#"{ "white" :  [ 1 ,2,	3 ] , "space" : { } }"#,
        r#"{"twice":1,"twice":2,"twice":{"in":1,"in":2}}"#,
        r#"[1.10,1e400,-0.0,1E+2,0.1e-7,123456789012345678901234567890,-98765432109876543210]"#,
        r#"{"escapes":"\u0041\/\"\\\b\f\n\r\t\u00e9é🚂\ud83d\ude82","k\u0065y":""}"#,
        r#"{"lone":["\ud800","\udfff","\udc00\ud800","x\uDBFFy"]}"#,
        r#"{"sessionId":"s-\u0031 \/ 1","_meta":{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01","tracestate":"a=1","baggage":"b=2"},"unknown":[null]}"#,
        r#"{"_meta":{"_meta":{"_meta":null}},"meta":1,"method":"m","params":{"method":"proxy/successor"},"id":1,"result":2,"error":3,"jsonrpc":"1"}"#,
        "[]",
        r#"[[],{},"",null,true,false]"#,
    ];
    for (mut chain, mut agent) in chains() {
        for value in values {
            assert_passes_unchanged(&mut chain.editor, &mut agent, value);
            assert_passes_unchanged(&mut agent, &mut chain.editor, value);
        }
    }
}

#[test]
fn deeply_nested_json_passes() {
    let arrays = |depth| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let objects = format!("{}1{}", r#"{"a":"#.repeat(10_000), "}".repeat(10_000));
    let deep = arrays(1_000_000);
    for (mut chain, mut agent) in chains() {
        for value in [&arrays(10_000), &objects] {
            assert_passes_unchanged(&mut chain.editor, &mut agent, value);
            assert_passes_unchanged(&mut agent, &mut chain.editor, value);
        }
        chain.editor.send(&request("1", "m", &deep));
        let received = agent.line();
        assert_same_line(&received, &request(id_of(&received), "m", &deep));
        agent.send(&result(id_of(&received), &deep));
        assert_same_line(&chain.editor.line(), &result("1", &deep));
    }
}

/// An envelope cannot distinguish null params from absent ones, so null params are omitted behind a proxy.
#[test]
fn params_may_be_absent_null_or_an_array() {
    for (index, (mut chain, mut agent)) in chains().enumerate() {
        for params in ["", "[]", "null"] {
            chain.editor.send(&notification("m", params));
            let expected = if params == "null" && index > 0 { "" } else { params };
            assert_eq!(agent.line(), notification("m", expected));
            agent.send(&request("1", "m", params));
            let received = chain.editor.line();
            assert_eq!(received, request(id_of(&received), "m", expected));
            chain.editor.send(&result(id_of(&received), "null"));
            assert_eq!(agent.line(), result("1", "null"));
        }
    }
}

/// Checklist 42.
#[test]
fn unknown_methods_with_any_name_pass() {
    let methods =
        ["_x/y", "x/y", "x", "", "$/unknown", "_proxy/log", r"\u0078\/y é", "session/new"];
    for (mut chain, mut agent) in chains() {
        for method in methods {
            chain.editor.send(&notification(method, "{}"));
            assert_eq!(agent.line(), notification(method, "{}"));
            agent.send(&request("1", method, "{}"));
            let received = chain.editor.line();
            assert_eq!(received, request(id_of(&received), method, "{}"));
        }
    }
}

#[test]
fn unknown_members_pass_with_the_message() {
    let with = |line: &str, more: &str| format!("{},{more}}}", line.strip_suffix('}').unwrap());
    let more = r#""trace":{"a": 1.10},"\u0078":[1,1]"#;
    for (mut chain, mut agent) in chains() {
        let (editor, agent): (&mut dyn Peer, &mut dyn Peer) = (&mut chain.editor, &mut agent);
        editor.send(&with(&request("1", "m", "{}"), more));
        let received = agent.line();
        assert_eq!(received, with(&request(id_of(&received), "m", "{}"), more));
        agent.send(&with(&result(id_of(&received), "{}"), more));
        assert_eq!(editor.line(), with(&result("1", "{}"), more));
        agent.send(&with(&notification("m", "[]"), more));
        assert_eq!(editor.line(), with(&notification("m", "[]"), more));
    }
}

#[test]
fn the_order_of_members_and_whitespace_do_not_matter() {
    let mut chain = new_setup().run_agent(&["agent"]);
    let mut agent = chain.initialize(&["agent"]).remove(0);
    chain
        .editor
        .send(" { \"params\" : { } ,\t\"method\":\"m\", \"id\" : 1 , \"jsonrpc\":\"2.0\"} \r");
    let received = agent.line();
    assert_eq!(received, request(id_of(&received), "m", "{ }"));
    agent.send(&format!(r#"{{"result":[ ],"id":{}}}"#, id_of(&received)));
    assert_eq!(chain.editor.line(), result("1", "[ ]"));
}

/// Checklist 49.
#[test]
fn error_objects_pass_unchanged() {
    let errors = [
        r#"{"code":-32800,"message":"cancelled"}"#,
        r#"{"code":1,"message":"positive","data":null}"#,
        r#"{"code":-123456789012345678901234567890,"message":"huge"}"#,
        r#"{"code":-32603.0,"message":"a fraction","data":{"_meta":{"x":[1.0]}}}"#,
        r#"{"message":"unknown members","code":5,"retry":true,"data":"d","inner":{"code":1}}"#,
        r#"{"code":"no number","message":7}"#,
        r#""not even an object""#,
    ];
    for (mut chain, mut agent) in chains() {
        for object in errors {
            chain.editor.send(&request("1", "m", ""));
            let received = agent.line();
            agent.send(&error(id_of(&received), object));
            assert_eq!(chain.editor.line(), error("1", object));
            agent.send(&request("1", "m", ""));
            let received = chain.editor.line();
            chain.editor.send(&error(id_of(&received), object));
            assert_eq!(agent.line(), error("1", object));
        }
    }
}

/// Checklist 32, 34: all kinds of ids that a requester may choose, also those that the conductor uses.
const IDS: [&str; 17] = [
    "0",
    "-1",
    "1",
    r#""1""#,
    r#""""#,
    r#""é 🚂""#,
    r#""\u00e9 \/""#,
    r#""\ud800""#,
    "9007199254740993",
    "18446744073709551617",
    "-123456789012345678901234567890",
    "-0",
    r#""c:1""#,
    r#""c:2""#,
    r#""null""#,
    r#"",\"id\":1""#,
    "null",
];

fn request_with_every_id(from: &mut impl Peer, to: &mut impl Peer) {
    for id in IDS {
        from.send(&request(id, "m", ""));
    }
    let received: Vec<String> = IDS.iter().map(|_| to.line()).collect();
    // In reverse order, so that only the id connects an answer to its request.
    for (id, received) in IDS.iter().zip(&received).rev() {
        to.send(&result(id_of(received), &format!("[{id}]")));
    }
    for id in IDS.iter().rev() {
        assert_eq!(from.line(), result(id, &format!("[{id}]")));
    }
}

#[test]
fn answers_carry_the_requesters_id_unchanged() {
    for (mut chain, mut agent) in chains() {
        request_with_every_id(&mut chain.editor, &mut agent);
        request_with_every_id(&mut agent, &mut chain.editor);
    }
}

/// Checklist 37.
#[test]
fn both_ends_may_use_the_same_ids() {
    for (mut chain, mut agent) in chains() {
        for id in 0..10 {
            chain.editor.send(&request(&id.to_string(), "_editor", &format!("[{id}]")));
            agent.send(&request(&id.to_string(), "_agent", &format!("[{id}]")));
        }
        for id in 0..10 {
            let (at_agent, at_editor) = (agent.line(), chain.editor.line());
            assert_eq!(at_agent, request(id_of(&at_agent), "_editor", &format!("[{id}]")));
            assert_eq!(at_editor, request(id_of(&at_editor), "_agent", &format!("[{id}]")));
            agent.send(&result(id_of(&at_agent), "\"from the agent\""));
            chain.editor.send(&result(id_of(&at_editor), "\"from the editor\""));
        }
        for id in 0..10 {
            assert_eq!(chain.editor.line(), result(&id.to_string(), "\"from the agent\""));
            assert_eq!(agent.line(), result(&id.to_string(), "\"from the editor\""));
        }
    }
}

#[test]
fn an_id_that_is_used_twice_at_once_is_answered_twice() {
    for (mut chain, mut agent) in chains() {
        chain.editor.send(&request("1", "m", "[1]"));
        chain.editor.send(&request("1", "m", "[2]"));
        for params in ["[1]", "[2]"] {
            let received = agent.line();
            assert_eq!(received, request(id_of(&received), "m", params));
            agent.send(&result(id_of(&received), params));
        }
        assert_eq!(chain.editor.line(), result("1", "[1]"));
        assert_eq!(chain.editor.line(), result("1", "[2]"));
    }
}

/// A chain of two scripted proxies and a scripted agent.
fn two_proxies() -> (TestChain, [ScriptedComponent; 3]) {
    let names = ["first", "second", "agent"];
    let mut chain = new_setup().run_agent(&names);
    let components = chain.initialize(&names).try_into().expect("three components");
    (chain, components)
}

/// Checklist 32, 33, 34, 35, 51.
#[test]
fn requests_from_the_agents_side_are_wrapped_at_a_proxy() {
    let (mut chain, [mut first, mut second, mut agent]) = two_proxies();
    let value = r#"{"_meta":{"inner": 1}}"#;

    chain.editor.send(&request("\"e\"", "m", value));
    let at_first = first.line();
    assert_eq!(at_first, request(id_of(&at_first), "m", value));
    // The metadata of an envelope does not pass this hop.
    let envelope = format!(r#"{{"method":"m","_meta":{{"outer":1}},"params":{value}}}"#);
    first.send(&request("1", "proxy/successor", &envelope));
    let at_second = second.line();
    assert_eq!(at_second, request(id_of(&at_second), "m", value));
    second.send(&wrapped_request("1", "m", value));
    let at_agent = agent.line();
    assert_eq!(at_agent, request(id_of(&at_agent), "m", value));
    agent.send(&result(id_of(&at_agent), value));
    assert_eq!(second.line(), result("1", value));
    second.send(&result(id_of(&at_second), value));
    assert_eq!(first.line(), result("1", value));
    first.send(&result(id_of(&at_first), value));
    assert_eq!(chain.editor.line(), result("\"e\"", value));

    agent.send(&request("0", "m", value));
    let at_second = second.line();
    assert_eq!(at_second, wrapped_request(id_of(&at_second), "m", value));
    second.send(&request("2", "m", value));
    let at_first = first.line();
    assert_eq!(at_first, wrapped_request(id_of(&at_first), "m", value));
    first.send(&request("2", "m", value));
    let at_editor = chain.editor.line();
    assert_eq!(at_editor, request(id_of(&at_editor), "m", value));
    chain.editor.send(&result(id_of(&at_editor), "1"));
    assert_eq!(first.line(), result("2", "1"));
    first.send(&result(id_of(&at_first), "2"));
    assert_eq!(second.line(), result("2", "2"));
    second.send(&result(id_of(&at_second), "3"));
    assert_eq!(agent.line(), result("0", "3"));
}

/// Checklist 36.
#[test]
fn notifications_from_the_agents_side_are_wrapped_at_a_proxy() {
    let (mut chain, [mut first, mut second, mut agent]) = two_proxies();
    chain.editor.send(&notification("m", "[1]"));
    assert_eq!(first.line(), notification("m", "[1]"));
    first.send(&wrapped_notification("m", "[2]"));
    assert_eq!(second.line(), notification("m", "[2]"));
    second.send(&wrapped_notification("m", "[3]"));
    assert_eq!(agent.line(), notification("m", "[3]"));
    agent.send(&notification("m", "[4]"));
    assert_eq!(second.line(), wrapped_notification("m", "[4]"));
    second.send(&notification("m", "[5]"));
    assert_eq!(first.line(), wrapped_notification("m", "[5]"));
    first.send(&notification("m", "[6]"));
    assert_eq!(chain.editor.line(), notification("m", "[6]"));
}

/// Checklist 39: a proxy receives requests from both sides over one connection.
#[test]
fn open_requests_on_a_link_have_different_ids() {
    let (mut chain, [mut first, mut second, mut agent]) = two_proxies();
    let mut ids = Vec::new();
    for _ in 0..20 {
        chain.editor.send(&request("1", "m", ""));
        first.line();
        first.send(&wrapped_request("1", "m", ""));
        ids.push(id_of(&second.line()).to_owned());
        agent.send(&request("1", "m", ""));
        ids.push(id_of(&second.line()).to_owned());
    }
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 40, "{ids:?}");
}

/// Checklist 41: such an answer reaches no component, and the chain continues.
#[test]
fn answers_to_no_open_request_are_ignored() {
    let (mut chain, [mut first, mut second, mut agent]) = two_proxies();
    let unexpected = [
        result("\"c:999\"", "1"),
        result("1", "1"),
        result("null", "1"),
        error("\"forward\"", r#"{"code":1,"message":"m"}"#),
        r#"{"jsonrpc":"2.0","result":1}"#.to_owned(),
        r#"{"jsonrpc":"2.0","error":{"code":-32700,"message":"m"}}"#.to_owned(),
    ];
    for line in &unexpected {
        chain.editor.send(line);
        first.send(line);
        second.send(line);
        agent.send(line);
    }
    chain.editor.send(&notification("m", "[1]"));
    assert_eq!(first.line(), notification("m", "[1]"));
    first.send(&wrapped_notification("m", "[2]"));
    assert_eq!(second.line(), notification("m", "[2]"));
    second.send(&wrapped_notification("m", "[3]"));
    assert_eq!(agent.line(), notification("m", "[3]"));
    second.send(&notification("m", "[4]"));
    assert_eq!(first.line(), wrapped_notification("m", "[4]"));
    first.send(&notification("m", "[5]"));
    assert_eq!(chain.editor.line(), notification("m", "[5]"));
}

/// The conductor's ids can be guessed. Only the responder of a request may answer it.
#[test]
fn only_the_responder_can_answer_and_only_the_requester_can_cancel() {
    let (mut chain, [mut first, mut second, mut agent]) = two_proxies();
    chain.editor.send(&request("1", "m", ""));
    let received = first.line();
    let forged = result(id_of(&received), "\"forged\"");
    second.send(&forged);
    agent.send(&forged);
    chain.editor.send(&forged);
    agent.send(&cancel(id_of(&received)));
    second.send(&cancel(id_of(&received)));

    agent.send(&request("1", "m", ""));
    let asked_second = second.line();
    assert_eq!(asked_second, wrapped_request(id_of(&asked_second), "m", ""));
    first.send(&result(id_of(&asked_second), "\"forged\""));
    chain.editor.send(&result(id_of(&asked_second), "\"forged\""));
    // A request through each of them shows that its earlier messages were handled.
    for impostor in [&mut second, &mut agent] {
        impostor.send(&request("\"sync\"", "proxy/initialize", ""));
        assert!(impostor.line().contains(r#""id":"sync","error""#));
    }
    first.send(&result(id_of(&received), "\"mine\""));
    assert_eq!(chain.editor.line(), result("1", "\"mine\""));
    second.send(&result(id_of(&asked_second), "\"mine\""));
    assert_eq!(agent.line(), result("1", "\"mine\""));
}

const V2_PARAMS: &str = r#"{"protocolVersion":2,"info":{"name":"e","version":"1.0"},"capabilities":{"session":{"x":[1.10]}},"_meta":{"k":null}}"#;
const V2_RESULT: &str = r#"{"protocolVersion":2,"info":{"name":"a","version":"2"},"capabilities":{"session":{"mcp":{"acp":{}}}},"authMethods":[]}"#;

/// A chain that has agreed on ACP v2, with one pass-through proxy.
fn start_version_2() -> (TestChain, ScriptedComponent) {
    let setup = new_setup();
    let components = [transparent(), setup.scripted_command("agent")];
    let mut chain = setup.run("agent", &components);
    chain.editor.send(&request("0", "initialize", V2_PARAMS));
    let mut agent = chain.wait_for_component("agent");
    let greeting = agent.line();
    assert_eq!(greeting, request(id_of(&greeting), "initialize", V2_PARAMS));
    agent.send(&result(id_of(&greeting), V2_RESULT));
    assert_eq!(chain.editor.line(), result("0", V2_RESULT));
    (chain, agent)
}

/// Checklist 108, 111.
#[test]
fn version_2_passes_unchanged_and_in_order() {
    let (mut chain, mut agent) = start_version_2();
    let prompt = r#"{"sessionId":"s","prompt":[{"type":"text","text":"hi"}]}"#;
    let update = |state: &str| {
        notification(
            "session/update",
            &format!(
                r#"{{"sessionId":"s","update":{{"sessionUpdate":"state_update","state":"{state}"}}}}"#
            ),
        )
    };
    chain.editor.send(&request("1", "session/prompt", prompt));
    let received = agent.line();
    assert_eq!(received, request(id_of(&received), "session/prompt", prompt));
    agent.send(&result(id_of(&received), "{}"));
    agent.send(&update("running"));
    agent.send(&update("idle"));
    assert_eq!(chain.editor.line(), result("1", "{}"));
    assert_eq!(chain.editor.line(), update("running"));
    assert_eq!(chain.editor.line(), update("idle"));
    assert_passes_unchanged(&mut chain.editor, &mut agent, V2_RESULT);
    assert_passes_unchanged(&mut agent, &mut chain.editor, V2_PARAMS);
}

/// Checklist 110. (`IDS` covers that version 1 answers such a request.)
#[test]
fn version_2_refuses_requests_with_a_null_id() {
    let (mut chain, mut agent) = start_version_2();
    let refused = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"#;
    chain.editor.send(&request("null", "m", ""));
    assert!(chain.editor.line().starts_with(refused));
    agent.send(&request("null", "m", ""));
    assert!(agent.line().starts_with(refused));
    assert_passes_unchanged(&mut chain.editor, &mut agent, "{}");
}
