//! SCP: its messages pass, its proxies receive a successor, and its editors are recognized.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use testkit::rpc::{cancel, error, id_of, notification, request, result};
use testkit::test_chain::{Peer, ScriptedComponent, TestChain, assert_gone, parse, with_timeout};

use crate::generation::{ALL, P3, P5};
use crate::scripted_proxy::{AGENT_RESULT, ScriptedProxy, initialize};
use crate::{SHORT_GRACE, new_setup};

const SECRET: &str = "CONDUCTOR_SECRET";

/// The params of an editor that supports SCP.
const SCP_EDITOR: &str = r#"{"protocolVersion":1,"clientCapabilities":{},"_meta":{"symposium":{"version":"1.0","html_panel":true}}}"#;
/// The answer of a proxy that supports SCP.
const SCP_PROXY: &str = r#"{"protocolVersion":1,"agentCapabilities":{},"_meta":{"symposium":{"version":"1.0","proxy":true}}}"#;

// Checklist 93, 94: additional methods of SCP and related protocols pass. Inside the chain the id of a panel has a mark
// with its owner; all other bytes stay.

const REQUESTS: [(&str, &str, &str); 5] = [
    ("_scp/html_panel/show", r#"{"id":"u","label":"Tour","contents":"<p>hi</p>"}"#, "null"),
    ("_scp/html_panel/clear", r#"{"id":"u"}"#, "{}"),
    ("_scp/html_panel/get", r#"{"id":"u"}"#, r#""<p>hi</p>""#),
    (
        "_scp/file_comment/show",
        r#"{"id":"u","url":"file:///a.rs","start":{"line":3},"end":{"line":5,"column":9},"can_reply":false}"#,
        "{}",
    ),
    ("_proxy/config", r#"{"n":1.10}"#, r#"{"n":1e400}"#),
];

const NOTES: [(&str, &str); 4] = [
    ("_scp/log", r#"{"level":"info","message":"ready","data":{"n":1.10}}"#),
    ("_proxy/log", r#"{"level":"warn"}"#),
    ("_proxy/metric", r#"{"name":"m","value":1e400}"#),
    ("_proxy/config", "{}"),
];

#[test]
fn scp_messages_pass_unchanged_through_every_generation() {
    for generation in ALL {
        let pin = format!("1={}", generation.name);
        let mut chain = new_setup().option(&["--dialect", &pin]).run_agent(&["old", "agent"]);
        let (mut proxies, mut agent) =
            initialize(&mut chain, &[("old", generation, &[generation.greeting])]);
        let proxy = &mut proxies[0];
        for (method, params, shown) in REQUESTS {
            // From the agent.
            agent.send(&request("1", method, params));
            let received_request = proxy.line();
            let passing = match method.contains("_scp/") {
                true => with_mark(params, &received_request),
                false => params.to_owned(),
            };
            assert_eq!(
                received_request,
                generation.received(id_of(&received_request), method, &passing)
            );
            proxy.send(&request("1", method, &passing));
            let at_editor = chain.editor.line();
            assert_eq!(at_editor, request(id_of(&at_editor), method, params));
            chain.editor.send(&result(id_of(&at_editor), shown));
            assert_eq!(proxy.line(), result("1", shown));
            proxy.send(&result(id_of(&received_request), shown));
            assert_eq!(agent.line(), result("1", shown));
            // From the editor.
            chain.editor.send(&request("2", method, params));
            let received_request = proxy.line();
            assert_eq!(received_request, request(id_of(&received_request), method, params));
            proxy.send(&generation.sent("2", method, params));
            let at_agent = agent.line();
            assert_eq!(at_agent, request(id_of(&at_agent), method, params));
            let unknown = r#"{"code":-32601,"message":"no"}"#;
            agent.send(&error(id_of(&at_agent), unknown));
            assert_eq!(proxy.line(), error("2", unknown));
            proxy.send(&error(id_of(&received_request), unknown));
            assert_eq!(chain.editor.line(), error("2", unknown));
        }
        for (method, params) in NOTES {
            agent.send(&notification(method, params));
            assert_eq!(proxy.line(), generation.received_notification(method, params));
            proxy.send(&notification(method, params));
            assert_eq!(chain.editor.line(), notification(method, params));
            chain.editor.send(&notification(method, params));
            assert_eq!(proxy.line(), notification(method, params));
            proxy.send(&generation.sent_notification(method, params));
            assert_eq!(agent.line(), notification(method, params));
        }
    }
}

/// The params with the marked id that is in a line.
fn with_mark(params: &str, line: &str) -> String {
    let start = line.find("conductor.").expect("a mark");
    let mark = line[start..].split_once("u\"").expect("the id u").0;
    params.replace(r#""id":"u""#, &format!(r#""id":"{mark}u""#))
}

/// The proxy and the agent use the same id. The messages of the editor reach the right one.
#[test]
fn a_proxy_of_every_generation_has_panels_of_its_own() {
    let show = "_scp/html_panel/show";
    for generation in ALL {
        let pin = format!("1={}", generation.name);
        let mut chain = new_setup().option(&["--dialect", &pin]).run_agent(&["old", "agent"]);
        let (mut proxies, mut agent) =
            initialize(&mut chain, &[("old", generation, &[generation.greeting])]);
        let proxy = &mut proxies[0];
        proxy.send(&notification(show, r#"{"id":"u"}"#));
        assert_eq!(chain.editor.line(), notification(show, r#"{"id":"u"}"#));
        agent.send(&notification(show, r#"{"id":"u"}"#));
        let marked = with_mark(r#"{"id":"u"}"#, &proxy.line());
        proxy.send(&notification(show, &marked));
        assert_eq!(chain.editor.line(), notification(show, &marked));
        let closed = "_scp/html_panel/closed";
        chain.editor.send(&notification(closed, r#"{"id":"u"}"#));
        chain.editor.send(&notification(closed, &marked));
        assert_eq!(proxy.line(), notification(closed, r#"{"id":"u"}"#));
        assert_eq!(proxy.line(), notification(closed, &marked));
        proxy.send(&generation.sent_notification(closed, &marked));
        assert_eq!(agent.line(), notification(closed, r#"{"id":"u"}"#));
    }
}

// Checklist 95: an SCP proxy starts its successor itself.

/// A recognized SCP proxy, and the request with the server that it has to start.
struct ScpChain {
    test: TestChain,
    proxy: ScriptedComponent,
    proxy_request: Value,
    /// The `initialize` for the proxy.
    greeting: Value,
}

impl ScpChain {
    fn new(options: &[&str]) -> ScpChain {
        ScpChain::with_editor(options, SCP_EDITOR)
    }

    /// The editor has these params of `initialize`.
    fn with_editor(options: &[&str], editor: &'static str) -> ScpChain {
        let mut chain = new_setup().option(options).run_named(&["walkthrough", "agent"]);
        chain.editor.send(&request("1", "initialize", editor));
        let mut proxy = chain.wait_for_component("walkthrough");
        if !options.contains(&"--dialect") {
            for method in ["proxy/initialize", "_proxy/initialize"] {
                let greeting = proxy.request(method);
                proxy.answer_error(&greeting, r#"{"code":-32601,"message":"Method not found"}"#);
            }
        }
        let greeting = proxy.request("initialize");
        let symposium = &greeting["params"]["_meta"]["symposium"];
        assert_eq!(
            (&symposium["version"], &symposium["html_panel"]),
            (&json!("1.0"), &json!(true))
        );
        proxy.answer(&greeting, SCP_PROXY);
        let proxy_request = proxy.request("_scp/proxy");
        ScpChain { test: chain, proxy, proxy_request, greeting }
    }

    fn server(&self) -> &Value {
        let servers =
            self.proxy_request["params"]["servers"].as_array().expect("a list of servers");
        assert_eq!(servers.len(), 1, "{servers:?}");
        &servers[0]
    }

    fn port(&self) -> u16 {
        let args = self.server()["args"].as_array().expect("a list");
        args.last().and_then(Value::as_str).expect("a port").parse().expect("a number")
    }

    /// Starts the relay and initializes the agent through it. Returns the agent.
    fn start_relay(&mut self) -> ScriptedComponent {
        let server = self.server().clone();
        self.proxy.start_child(&server);
        let mut agent = self.test.wait_for_component("agent");
        self.proxy.child().send(&request("0", "initialize", SCP_EDITOR));
        let received = agent.request("initialize");
        assert_eq!(received["params"], parse(SCP_EDITOR), "the SCP flags reach the agent");
        agent.answer(&received, AGENT_RESULT);
        let answer = self.proxy.child().message();
        assert_eq!(answer["id"], 0, "{answer}");
        // To the proxy the conductor is an SCP agent.
        let symposium = &answer["result"]["_meta"]["symposium"];
        assert_eq!((&symposium["version"], &symposium["proxy"]), (&json!("1.0"), &json!(false)));
        self.proxy.answer(&self.proxy_request.clone(), "{}");
        let answer = self.test.editor.message();
        assert_eq!((&answer["id"], &answer["result"]["protocolVersion"]), (&json!(1), &json!(1)));
        agent
    }
}

/// A request and a notification pass the relay in each direction.
fn assert_messages_pass(scp: &mut ScpChain, agent: &mut ScriptedComponent) {
    let ScpChain { test: chain, proxy, .. } = scp;
    let params = r#"{"n":1.10}"#;
    chain.editor.send(&request("1", "session/prompt", params));
    let received = proxy.line();
    assert_eq!(received, request(id_of(&received), "session/prompt", params));
    proxy.child().send(&request("1", "session/prompt", params));
    let at_agent = agent.line();
    assert_eq!(at_agent, request(id_of(&at_agent), "session/prompt", params));
    agent.send(&notification("session/update", params));
    assert_eq!(proxy.child().line(), notification("session/update", params));
    proxy.send(&notification("session/update", params));
    assert_eq!(chain.editor.line(), notification("session/update", params));
    // The request is cancelled.
    chain.editor.send(&cancel("1"));
    assert_eq!(proxy.line(), cancel(id_of(&received)));
    proxy.child().send(&cancel("1"));
    assert_eq!(agent.line(), cancel(id_of(&at_agent)));
    agent.send(&result(id_of(&at_agent), "null"));
    assert_eq!(proxy.child().line(), result("1", "null"));
    proxy.send(&result(id_of(&received), "null"));
    assert_eq!(chain.editor.line(), result("1", "null"));
    // The agent sends a request with the same id.
    agent.send(&request("1", "_scp/html_panel/show", params));
    let received = proxy.child().line();
    assert_eq!(received, request(id_of(&received), "_scp/html_panel/show", params));
    proxy.send(&request("1", "_scp/html_panel/show", params));
    let at_editor = chain.editor.line();
    chain.editor.send(&result(id_of(&at_editor), "{}"));
    assert_eq!(proxy.line(), result("1", "{}"));
    proxy.child().send(&result(id_of(&received), "{}"));
    assert_eq!(agent.line(), result("1", "{}"));
}

#[test]
fn an_scp_proxy_starts_the_relay_and_messages_pass_through_it() {
    for options in [&[][..], &["--dialect", "1=P0"]] {
        let mut scp = ScpChain::new(options);
        let mut agent = scp.start_relay();
        assert_messages_pass(&mut scp, &mut agent);
        // The proxy receives `_scp/proxy` only once: the next line is another one.
        scp.test.editor.send(&notification("_x/next", ""));
        assert_eq!(scp.proxy.line(), notification("_x/next", ""));
    }
}

/// The proxy and the agent use the same id.
#[test]
fn an_scp_proxy_has_panels_of_its_own() {
    let mut scp = ScpChain::new(&[]);
    let mut agent = scp.start_relay();
    let ScpChain { test: chain, proxy, .. } = &mut scp;
    let (show, closed) = ("_scp/html_panel/show", "_scp/html_panel/closed");
    proxy.send(&notification(show, r#"{"id":"u"}"#));
    assert_eq!(chain.editor.line(), notification(show, r#"{"id":"u"}"#));
    agent.send(&notification(show, r#"{"id":"u"}"#));
    let marked = with_mark(r#"{"id":"u"}"#, &proxy.child().line());
    proxy.send(&notification(show, &marked));
    assert_eq!(chain.editor.line(), notification(show, &marked));
    chain.editor.send(&notification(closed, r#"{"id":"u"}"#));
    assert_eq!(proxy.line(), notification(closed, r#"{"id":"u"}"#));
    chain.editor.send(&notification(closed, &marked));
    assert_eq!(proxy.line(), notification(closed, &marked));
    proxy.child().send(&notification(closed, &marked));
    assert_eq!(agent.line(), notification(closed, r#"{"id":"u"}"#));
}

/// Every user of the machine can read a command line.
#[test]
fn the_secret_of_the_relay_is_not_on_the_command_line() {
    let mut scp = ScpChain::new(&[]);
    let server = scp.server().clone();
    let port = scp.port();
    assert_eq!(server["args"], json!(["relay", port.to_string()]), "{server}");
    let env = server["env"].as_array().expect("a list");
    assert_eq!((env.len(), &env[0]["name"]), (1, &json!(SECRET)));
    let secret = env[0]["value"].as_str().expect("a secret");
    assert!(secret.len() >= 32, "{secret}");
    let pid = scp.proxy.start_child(&server);
    let shown = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).expect("a running process");
    assert!(!shown.contains(secret), "{shown}");
    let secret = secret.to_owned();
    let stderr = scp.test.end([&mut scp.proxy]);
    assert!(!stderr.contains(&secret), "{stderr}");
}

/// An unauthenticated connection is closed, whether it sends anything or not, and blocks no other.
#[test]
fn a_relay_connection_without_the_secret_is_closed() {
    let mut scp = ScpChain::new(&[]);
    let port = scp.port();
    let connect = move || TcpStream::connect(("127.0.0.1", port)).expect("a port");
    let silent = connect();
    for sent in ["", "\n", &format!("{}\n", "0".repeat(32)), &"x".repeat(1000)] {
        let (mut connection, sent) = (connect(), sent.to_owned());
        let received = with_timeout("the connection is closed", move || {
            let _ = connection.write_all(sent.as_bytes());
            let _ = connection.shutdown(std::net::Shutdown::Write);
            let mut received = Vec::new();
            let _ = connection.read_to_end(&mut received);
            received
        });
        assert!(received.is_empty());
    }
    let mut agent = scp.start_relay();
    assert_messages_pass(&mut scp, &mut agent);
    drop(silent);
    // The relay is connected. No other client can connect, not even with the secret.
    let server = scp.server().clone();
    let late = Command::new(server["command"].as_str().expect("a path"))
        .args(["relay", &port.to_string()])
        .env(SECRET, server["env"][0]["value"].as_str().expect("a secret"))
        .stdin(Stdio::null())
        .output()
        .expect("the relay starts");
    assert_eq!(late.status.code(), Some(1), "{late:?}");
}

/// The relay ends with the chain.
#[test]
fn the_relay_ends_with_the_conductor() {
    let mut scp = ScpChain::new(&[]);
    let server = scp.server().clone();
    let mut agent = scp.start_relay();
    assert_eq!(server["command"], json!(env!("CARGO_BIN_EXE_conductor")));
    scp.test.editor.close();
    assert_eq!(agent.next_line(), None);
    agent.exit(0);
    assert_eq!(scp.proxy.next_line(), None);
    assert_eq!(scp.proxy.child().status(), 0);
    scp.proxy.exit(0);
    assert_eq!(scp.test.conductor.status(), 0);
    assert_gone(agent.pid, "the agent");
}

/// A proxy that closes its relay has no successor and has failed, so requests to it are answered with an
/// error.
#[test]
fn the_relay_ends_when_the_proxy_closes_it() {
    let mut scp = ScpChain::new(&["--on-crash", "stop"]);
    let mut agent = scp.start_relay();
    agent.send(&request("1", "_x/ask", "{}"));
    scp.proxy.child().line();
    scp.proxy.child().close();
    assert_eq!(scp.proxy.child().status(), 0);
    let answer = agent.message();
    assert_eq!(answer["id"], 1, "{answer}");
    let message = answer["error"]["message"].as_str().expect("an error");
    assert!(message.contains("closed the connection to its successor"), "{message}");
    scp.proxy.exit(0);
    agent.exit(0);
    assert_eq!(scp.test.conductor.status(), 1);
}

/// An older proxy that is not an SCP proxy may answer `initialize` in the same way. It passes `_scp/proxy` on
/// or refuses it. Neither does any harm.
#[test]
fn a_proxy_that_does_not_support_scp_proxy_requests_still_works() {
    for passes_on in [true, false] {
        let mut chain = new_setup().option(&["--log", "off"]).run_agent(&["old", "agent"]);
        chain.editor.send(&request("1", "initialize", SCP_EDITOR));
        let mut old = chain.wait_for_component("old");
        for method in ["proxy/initialize", "_proxy/initialize"] {
            let greeting = old.request(method);
            old.answer_error(&greeting, r#"{"code":-32601,"message":"Method not found"}"#);
        }
        let greeting = old.request("initialize");
        old.answer(&greeting, SCP_PROXY);
        let proxy_request = old.request("_scp/proxy");
        if passes_on {
            old.send(&P3.sent("1", "_scp/proxy", &proxy_request["params"].to_string()));
            let answer = old.message();
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32601)));
        }
        old.answer_error(&proxy_request, r#"{"code":-32601,"message":"Method not found"}"#);
        let mut agent = chain.wait_for_component("agent");
        let received = agent.request("initialize");
        assert_eq!(received["params"], parse(SCP_EDITOR));
        agent.answer(&received, AGENT_RESULT);
        let answer = chain.editor.message();
        assert_eq!((&answer["id"], &answer["result"]["protocolVersion"]), (&json!(1), &json!(1)));
        agent.send(&notification("session/update", "{}"));
        assert_eq!(old.line(), P3.received_notification("session/update", "{}"));
    }
}

/// The params of an editor with panels, which does not start chains itself.
const PANEL_EDITOR: &str = r#"{"protocolVersion":1,"clientCapabilities":{"fs":{},"_meta":{"symposium":{"version":"1.1","html_panel":true,"file_comment":true,"ide_operation":["get-selection","open-file"]}}}}"#;

/// The editor is not an SCP editor that sends `_scp/proxy`: the chain is complete.
#[test]
fn the_panels_of_an_editor_are_known_to_every_proxy_and_to_the_agent() {
    for generation in ALL {
        let pin = format!("1={}", generation.name);
        let mut chain = new_setup().option(&["--dialect", &pin]).run_agent(&["old", "agent"]);
        chain.editor.send(&request("0", "initialize", PANEL_EDITOR));
        let mut proxy = ScriptedProxy::wait_for(&mut chain, "old", generation);
        let greeting = proxy.request(generation.greeting);
        let known = &greeting["params"]["clientCapabilities"]["_meta"]["symposium"];
        let all = &parse(PANEL_EDITOR)["clientCapabilities"]["_meta"]["symposium"];
        for name in ["version", "html_panel", "file_comment", "ide_operation"] {
            assert_eq!(known[name], all[name], "{} {name}", generation.name);
        }
        proxy.forward_greeting(&greeting);
        let mut agent = chain.wait_for_component("agent");
        let received = agent.request("initialize");
        assert_eq!(received["params"], parse(PANEL_EDITOR), "{}", generation.name);
    }
}

/// The proxy passes on what it has received.
#[test]
fn the_panels_of_an_editor_are_known_to_an_scp_proxy() {
    for options in [&[][..], &["--dialect", "1=P0"]] {
        let mut scp = ScpChain::with_editor(options, PANEL_EDITOR);
        let params = scp.greeting["params"].clone();
        let all = &parse(PANEL_EDITOR)["clientCapabilities"]["_meta"]["symposium"];
        for name in ["html_panel", "file_comment", "ide_operation"] {
            assert_eq!(params["_meta"]["symposium"][name], all[name], "{name}");
            let capabilities = &params["clientCapabilities"]["_meta"]["symposium"];
            assert_eq!(capabilities[name], all[name], "{name}");
        }
        let server = scp.server().clone();
        scp.proxy.start_child(&server);
        let mut agent = scp.test.wait_for_component("agent");
        scp.proxy.child().send(&request("0", "initialize", &params.to_string()));
        assert_eq!(agent.request("initialize")["params"], parse(PANEL_EDITOR));
    }
}

/// A parent conductor of each generation passes on what the editor supports. The chain does not take the parent for
/// an SCP editor.
#[test]
fn a_nested_chain_knows_the_panels_of_the_editor() {
    for generation in ALL {
        let params = generation.offered(&parse(PANEL_EDITOR)).to_string();
        let setup = new_setup();
        let first = setup.scripted_command("first");
        let mut chain = setup.run("proxy", &[first]);
        chain.editor.send(&request("0", generation.greeting, &params));
        let mut first = chain.wait_for_component("first");
        let greeting = first.request("proxy/initialize");
        assert_eq!(greeting["params"], P5.offered(&parse(PANEL_EDITOR)), "{}", generation.name);
    }
}

// Checklist 96: an SCP editor sends the conductor its successors.

#[test]
fn an_scp_editor_sends_the_rest_of_the_chain() {
    let setup = new_setup();
    let (first, second, agent) = (
        setup.scripted_command("first"),
        setup.scripted_json("second"),
        setup.scripted_json("agent"),
    );
    let mut chain = setup.option(&SHORT_GRACE).run("proxy", &[first]);
    chain.editor.send(&request("0", "initialize", SCP_EDITOR));
    let answer = chain.editor.message();
    assert_eq!(answer["id"], 0, "{answer}");
    assert_eq!(answer["result"]["protocolVersion"], 1, "{answer}");
    assert_eq!(answer["result"]["_meta"]["symposium"]["proxy"], true, "{answer}");

    // Before `_scp/proxy` the conductor has no successors.
    chain.editor.send(&request("1", "session/new", "{}"));
    let answer = chain.editor.message();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32600)));
    chain.editor.send(&request("2", "_scp/proxy", r#"{"servers":"none"}"#));
    let answer = chain.editor.message();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(2), &json!(-32602)));
    chain.assert_not_started("first");

    let with_env = |mut server: Value| {
        server["env"] = json!([{ "name": "FROM", "value": "the editor" }]);
        server
    };
    // According to the document the params "contain an array": bare, or in an object.
    let servers = json!([with_env(second), with_env(agent)]).to_string();
    chain.editor.send(&request("3", "_scp/proxy", &servers));
    let (mut first, mut second) =
        (chain.wait_for_component("first"), chain.wait_for_component("second"));
    let mut agent = chain.wait_for_component("agent");
    assert_eq!(second.start_info["env"]["FROM"], "the editor");
    let one = first.request("proxy/initialize");
    let expected = P5.offered(&parse(SCP_EDITOR));
    assert_eq!(one["params"], expected, "the editor's flags reach the components");
    first.send(&P5.sent("1", "initialize", SCP_EDITOR));
    let two = second.request("proxy/initialize");
    second.send(&P5.sent("1", "initialize", SCP_EDITOR));
    let received = agent.request("initialize");
    assert_eq!(received["params"], parse(SCP_EDITOR));
    agent.answer(&received, AGENT_RESULT);
    second.message();
    second.answer(&two, AGENT_RESULT);
    first.message();
    first.answer(&one, AGENT_RESULT);
    assert_eq!(chain.editor.line(), result("3", "{}"));

    // The chain cannot be changed any more.
    chain.editor.send(&request("4", "_scp/proxy", &servers));
    let answer = chain.editor.message();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(4), &json!(-32600)));

    assert_new_session_passes(&mut chain, &mut first, &mut second, &mut agent);
    chain.editor.close();
    assert_eq!(chain.conductor.status(), 0);
    for component in [first, second, agent] {
        assert_gone(component.pid, &component.name);
    }
}

/// A request of the editor passes both proxies, and so do an update of the agent and the answer.
fn assert_new_session_passes(
    chain: &mut TestChain,
    first: &mut ScriptedComponent,
    second: &mut ScriptedComponent,
    agent: &mut ScriptedComponent,
) {
    chain.editor.send(&request("5", "session/new", "{}"));
    let received = first.line();
    assert_eq!(received, request(id_of(&received), "session/new", "{}"));
    first.send(&P5.sent("2", "session/new", "{}"));
    let next = second.line();
    second.send(&P5.sent("2", "session/new", "{}"));
    let last = agent.line();
    assert_eq!(last, request(id_of(&last), "session/new", "{}"));
    agent.send(&notification("session/update", "{}"));
    agent.send(&result(id_of(&last), "1.10"));
    assert_eq!(second.line(), P5.received_notification("session/update", "{}"));
    assert_eq!(second.line(), result("2", "1.10"));
    second.send(&notification("session/update", "{}"));
    second.send(&result(id_of(&next), "1.10"));
    assert_eq!(first.line(), P5.received_notification("session/update", "{}"));
    assert_eq!(first.line(), result("2", "1.10"));
    first.send(&notification("session/update", "{}"));
    first.send(&result(id_of(&received), "1.10"));
    assert_eq!(chain.editor.line(), notification("session/update", "{}"));
    assert_eq!(chain.editor.line(), result("5", "1.10"));
}

/// A list that cannot be used is refused with the reason.
#[test]
fn an_invalid_server_list_of_an_scp_editor_is_refused_with_the_reason() {
    for (servers, why) in [("[]", "empty"), (r#"[{"name":"x"}]"#, "command")] {
        let setup = new_setup();
        let first = setup.scripted_command("first");
        let mut chain = setup.run("proxy", &[first]);
        chain.editor.send(&request("0", "initialize", SCP_EDITOR));
        chain.editor.message();
        chain.editor.send(&request("1", "_scp/proxy", servers));
        let answer = chain.editor.message();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32602)));
        let message = answer["error"]["message"].as_str().expect("a message");
        assert!(message.contains(why), "{message}");
    }
}

/// Silent connections do not keep the relay from connecting.
#[test]
fn silent_connections_do_not_block_the_relay() {
    let mut scp = ScpChain::new(&[]);
    let port = scp.port();
    let open = || std::net::TcpStream::connect(("127.0.0.1", port)).expect("a listener");
    let silent: Vec<_> = (0..200).map(|_| open()).collect();
    let mut agent = scp.start_relay();
    assert_messages_pass(&mut scp, &mut agent);
    drop(silent);
}

// The relay as a program.

fn relay(port: u16, secret: Option<&str>) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_conductor"));
    command.args(["relay", &port.to_string()]).stdin(Stdio::null()).env_remove(SECRET);
    let output = command.envs(secret.map(|it| (SECRET, it))).output().expect("it starts");
    assert!(output.stdout.is_empty(), "{output:?}");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn the_relay_reports_why_it_cannot_connect() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = free.local_addr().expect("an address").port();
    drop(free);
    let (status, stderr) = relay(port, Some("x"));
    assert_eq!(status, Some(1), "{stderr}");
    assert!(stderr.contains(&format!("no conductor is listening on port {port}")), "{stderr}");
    let (status, stderr) = relay(port, None);
    assert_eq!(status, Some(1), "{stderr}");
    assert!(stderr.contains(SECRET) && stderr.contains("only for SCP proxies"), "{stderr}");
}
