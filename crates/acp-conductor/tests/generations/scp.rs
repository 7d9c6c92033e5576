//! SCP: its messages pass, its proxies are given a successor, its editors are told apart.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use testkit::rpc::{cancel, error, id_of, notification, request, result};
use testkit::stage::{Peer, Puppet, Stage, assert_gone, parse, patiently};

use crate::players::{GREETED, initialize};
use crate::spelling::{ALL, P3, P5};
use crate::{HASTE, stage};

const SECRET: &str = "CONDUCTOR_SECRET";

/// An editor that knows SCP says so.
const SCP_EDITOR: &str = r#"{"protocolVersion":1,"clientCapabilities":{},"_meta":{"symposium":{"version":"1.0","html_panel":true}}}"#;
/// So does a proxy.
const SCP_PROXY: &str = r#"{"protocolVersion":1,"agentCapabilities":{},"_meta":{"symposium":{"version":"1.0","proxy":true}}}"#;

// Checklist 93, 94: what SCP and its relatives add is carried like anything else.

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
fn panels_comments_and_logs_pass_unchanged_through_every_generation() {
    for generation in ALL {
        let pin = format!("1={}", generation.name);
        let mut stage = stage().option(&["--dialect", &pin]).agent(&["old", "agent"]);
        let (mut proxies, mut agent) =
            initialize(&mut stage, &[("old", generation, &[generation.greeting])]);
        let proxy = &mut proxies[0];
        for (method, params, shown) in REQUESTS {
            // From the agent, past the proxy.
            agent.send(&request("1", method, params));
            let asked = proxy.line();
            assert_eq!(asked, generation.received(id_of(&asked), method, params));
            proxy.send(&request("1", method, params));
            let at_editor = stage.editor.line();
            assert_eq!(at_editor, request(id_of(&at_editor), method, params));
            stage.editor.send(&result(id_of(&at_editor), shown));
            assert_eq!(proxy.line(), result("1", shown));
            proxy.send(&result(id_of(&asked), shown));
            assert_eq!(agent.line(), result("1", shown));
            // From the editor.
            stage.editor.send(&request("2", method, params));
            let asked = proxy.line();
            assert_eq!(asked, request(id_of(&asked), method, params));
            proxy.send(&generation.sent("2", method, params));
            let at_agent = agent.line();
            assert_eq!(at_agent, request(id_of(&at_agent), method, params));
            let unknown = r#"{"code":-32601,"message":"no"}"#;
            agent.send(&error(id_of(&at_agent), unknown));
            assert_eq!(proxy.line(), error("2", unknown));
            proxy.send(&error(id_of(&asked), unknown));
            assert_eq!(stage.editor.line(), error("2", unknown));
        }
        for (method, params) in NOTES {
            agent.send(&notification(method, params));
            assert_eq!(proxy.line(), generation.received_note(method, params));
            proxy.send(&notification(method, params));
            assert_eq!(stage.editor.line(), notification(method, params));
            stage.editor.send(&notification(method, params));
            assert_eq!(proxy.line(), notification(method, params));
            proxy.send(&generation.sent_note(method, params));
            assert_eq!(agent.line(), notification(method, params));
        }
    }
}

// Checklist 95: a proxy that starts its successor itself.

/// An SCP proxy that was found out, and the server that it was told to start.
struct Scp {
    stage: Stage,
    proxy: Puppet,
    told: Value,
}

impl Scp {
    fn new(options: &[&str]) -> Scp {
        let mut stage = stage().option(options).named(&["walkthrough", "agent"]);
        stage.editor.send(&request("1", "initialize", SCP_EDITOR));
        let mut proxy = stage.enter("walkthrough");
        if !options.contains(&"--dialect") {
            for method in ["proxy/initialize", "_proxy/initialize"] {
                let greeting = proxy.request(method);
                proxy.fail(&greeting, r#"{"code":-32601,"message":"Method not found"}"#);
            }
        }
        let greeting = proxy.request("initialize");
        let symposium = &greeting["params"]["_meta"]["symposium"];
        assert_eq!(
            (&symposium["version"], &symposium["html_panel"]),
            (&json!("1.0"), &json!(true))
        );
        proxy.answer(&greeting, SCP_PROXY);
        let told = proxy.request("_scp/proxy");
        Scp { stage, proxy, told }
    }

    fn server(&self) -> &Value {
        let servers = self.told["params"]["servers"].as_array().expect("a list of servers");
        assert_eq!(servers.len(), 1, "{servers:?}");
        &servers[0]
    }

    fn port(&self) -> u16 {
        let args = self.server()["args"].as_array().expect("a list");
        args.last().and_then(Value::as_str).expect("a port").parse().expect("a number")
    }

    /// Starts the relay and initialises through it whoever follows; gives the agent.
    fn begin(&mut self) -> Puppet {
        let server = self.server().clone();
        self.proxy.start_child(&server);
        let mut agent = self.stage.enter("agent");
        self.proxy.child().send(&request("0", "initialize", SCP_EDITOR));
        let asked = agent.request("initialize");
        assert_eq!(asked["params"], parse(SCP_EDITOR), "its flags reach the agent");
        agent.answer(&asked, GREETED);
        let answer = self.proxy.child().message();
        assert_eq!(answer["id"], 0, "{answer}");
        // To the proxy we are an SCP agent.
        let symposium = &answer["result"]["_meta"]["symposium"];
        assert_eq!((&symposium["version"], &symposium["proxy"]), (&json!("1.0"), &json!(false)));
        self.proxy.answer(&self.told.clone(), "{}");
        let answer = self.stage.editor.message();
        assert_eq!((&answer["id"], &answer["result"]["protocolVersion"]), (&json!(1), &json!(1)));
        agent
    }
}

/// A request and a notification each way, through the relay.
fn talk(scp: &mut Scp, agent: &mut Puppet) {
    let Scp { stage, proxy, .. } = scp;
    let params = r#"{"n":1.10}"#;
    stage.editor.send(&request("1", "session/prompt", params));
    let asked = proxy.line();
    assert_eq!(asked, request(id_of(&asked), "session/prompt", params));
    proxy.child().send(&request("1", "session/prompt", params));
    let at_agent = agent.line();
    assert_eq!(at_agent, request(id_of(&at_agent), "session/prompt", params));
    agent.send(&notification("session/update", params));
    assert_eq!(proxy.child().line(), notification("session/update", params));
    proxy.send(&notification("session/update", params));
    assert_eq!(stage.editor.line(), notification("session/update", params));
    // Cancelled on the way.
    stage.editor.send(&cancel("1"));
    assert_eq!(proxy.line(), cancel(id_of(&asked)));
    proxy.child().send(&cancel("1"));
    assert_eq!(agent.line(), cancel(id_of(&at_agent)));
    agent.send(&result(id_of(&at_agent), "null"));
    assert_eq!(proxy.child().line(), result("1", "null"));
    proxy.send(&result(id_of(&asked), "null"));
    assert_eq!(stage.editor.line(), result("1", "null"));
    // The agent asks, under the same id.
    agent.send(&request("1", "_scp/html_panel/show", params));
    let asked = proxy.child().line();
    assert_eq!(asked, request(id_of(&asked), "_scp/html_panel/show", params));
    proxy.send(&request("1", "_scp/html_panel/show", params));
    let at_editor = stage.editor.line();
    stage.editor.send(&result(id_of(&at_editor), "{}"));
    assert_eq!(proxy.line(), result("1", "{}"));
    proxy.child().send(&result(id_of(&asked), "{}"));
    assert_eq!(agent.line(), result("1", "{}"));
}

#[test]
fn an_scp_proxy_starts_our_relay_and_traffic_flows_through_it() {
    for options in [&[][..], &["--dialect", "1=P0"]] {
        let mut scp = Scp::new(options);
        let mut agent = scp.begin();
        talk(&mut scp, &mut agent);
        // It is told once: the next line is another.
        scp.stage.editor.send(&notification("_x/next", ""));
        assert_eq!(scp.proxy.line(), notification("_x/next", ""));
    }
}

/// What is on a command line can be read by everybody on the machine.
#[test]
fn the_secret_is_in_the_environment_and_not_on_the_command_line() {
    let mut scp = Scp::new(&[]);
    let server = scp.server().clone();
    let port = scp.port();
    assert_eq!(server["args"], json!(["relay", port.to_string()]), "{server}");
    let env = server["env"].as_array().expect("a list");
    assert_eq!((env.len(), &env[0]["name"]), (1, &json!(SECRET)));
    let secret = env[0]["value"].as_str().expect("a secret");
    assert!(secret.len() >= 32, "{secret}");
    let pid = scp.proxy.start_child(&server);
    let shown = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).expect("it runs");
    assert!(!shown.contains(secret), "{shown}");
    assert!(!scp.stage.conductor.stderr().contains(secret));
}

/// Unauthenticated who find the port are closed, whatever they say or do not say, and are in nobody's way.
#[test]
fn a_connection_without_the_secret_is_closed() {
    let mut scp = Scp::new(&[]);
    let port = scp.port();
    let connect = move || TcpStream::connect(("127.0.0.1", port)).expect("a port");
    let silent = connect();
    for said in ["", "\n", &format!("{}\n", "0".repeat(32)), &"x".repeat(1000)] {
        let (mut stranger, said) = (connect(), said.to_owned());
        let heard = patiently("the stranger is closed", move || {
            let _ = stranger.write_all(said.as_bytes());
            let _ = stranger.shutdown(std::net::Shutdown::Write);
            let mut heard = Vec::new();
            let _ = stranger.read_to_end(&mut heard);
            heard
        });
        assert!(heard.is_empty());
    }
    let mut agent = scp.begin();
    talk(&mut scp, &mut agent);
    drop(silent);
    // The place is taken: nobody else can connect, not even with the secret.
    let server = scp.server().clone();
    let late = Command::new(server["command"].as_str().expect("a path"))
        .args(["relay", &port.to_string()])
        .env(SECRET, server["env"][0]["value"].as_str().expect("a secret"))
        .stdin(Stdio::null())
        .output()
        .expect("the relay starts");
    assert_eq!(late.status.code(), Some(1), "{late:?}");
}

/// The relay ends with the chain, and leaves nothing behind.
#[test]
fn the_relay_ends_when_the_conductor_does() {
    let mut scp = Scp::new(&[]);
    let server = scp.server().clone();
    let mut agent = scp.begin();
    assert_eq!(server["command"], json!(env!("CARGO_BIN_EXE_conductor")));
    scp.stage.editor.leave();
    assert_eq!(agent.next_line(), None);
    agent.exit(0);
    assert_eq!(scp.proxy.next_line(), None);
    assert_eq!(scp.proxy.child().status(), 0);
    scp.proxy.exit(0);
    assert_eq!(scp.stage.conductor.status(), 0);
    assert_gone(agent.pid, "the agent");
}

/// And when the proxy that started it closes it. Without a successor the proxy cannot do its part,
/// so whoever waits for it is told.
#[test]
fn the_relay_ends_when_the_proxy_closes_it() {
    let mut scp = Scp::new(&["--on-crash", "stop"]);
    let mut agent = scp.begin();
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
    assert_eq!(scp.stage.conductor.status(), 1);
}

/// The same answer to `initialize` may come from a proxy of old that leaves its successor to us. It
/// has never heard of `_scp/proxy`: it passes it on, or refuses it. Neither does any harm.
#[test]
fn a_proxy_that_is_no_scp_proxy_is_not_hurt_by_the_question() {
    for passes_on in [true, false] {
        let mut stage = stage().option(&["--log", "off"]).agent(&["old", "agent"]);
        stage.editor.send(&request("1", "initialize", SCP_EDITOR));
        let mut old = stage.enter("old");
        for method in ["proxy/initialize", "_proxy/initialize"] {
            let greeting = old.request(method);
            old.fail(&greeting, r#"{"code":-32601,"message":"Method not found"}"#);
        }
        let greeting = old.request("initialize");
        old.answer(&greeting, SCP_PROXY);
        let told = old.request("_scp/proxy");
        if passes_on {
            old.send(&P3.sent("1", "_scp/proxy", &told["params"].to_string()));
            let answer = old.message();
            assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32601)));
        }
        old.fail(&told, r#"{"code":-32601,"message":"Method not found"}"#);
        let mut agent = stage.enter("agent");
        let asked = agent.request("initialize");
        assert_eq!(asked["params"], parse(SCP_EDITOR));
        agent.answer(&asked, GREETED);
        let answer = stage.editor.message();
        assert_eq!((&answer["id"], &answer["result"]["protocolVersion"]), (&json!(1), &json!(1)));
        agent.send(&notification("session/update", "{}"));
        assert_eq!(old.line(), P3.received_note("session/update", "{}"));
    }
}

// Checklist 96: under an SCP editor, which tells us our successors.

#[test]
fn an_scp_editor_hands_us_the_rest_of_the_chain() {
    let setup = stage();
    let (first, second, agent) =
        (setup.puppet("first"), setup.component("second"), setup.component("agent"));
    let mut stage = setup.option(&HASTE).run("proxy", &[first]);
    stage.editor.send(&request("0", "initialize", SCP_EDITOR));
    let answer = stage.editor.message();
    assert_eq!(answer["id"], 0, "{answer}");
    assert_eq!(answer["result"]["protocolVersion"], 1, "{answer}");
    assert_eq!(answer["result"]["_meta"]["symposium"]["proxy"], true, "{answer}");

    // Before `_scp/proxy` we can do nothing.
    stage.editor.send(&request("1", "session/new", "{}"));
    let answer = stage.editor.message();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32600)));
    stage.editor.send(&request("2", "_scp/proxy", r#"{"servers":"none"}"#));
    let answer = stage.editor.message();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(2), &json!(-32602)));
    assert!(!stage.has_entered("first"));

    let with_env = |mut server: Value| {
        server["env"] = json!([{ "name": "FROM", "value": "the editor" }]);
        server
    };
    // The document says that it "contains an array": alone, or in an object.
    let servers = json!([with_env(second), with_env(agent)]).to_string();
    stage.editor.send(&request("3", "_scp/proxy", &servers));
    let (mut first, mut second) = (stage.enter("first"), stage.enter("second"));
    let mut agent = stage.enter("agent");
    assert_eq!(second.hello["env"]["FROM"], "the editor");
    let one = first.request("proxy/initialize");
    let expected = P5.offered(&parse(SCP_EDITOR));
    assert_eq!(one["params"], expected, "the editor's flags go down the chain");
    first.send(&P5.sent("1", "initialize", SCP_EDITOR));
    let two = second.request("proxy/initialize");
    second.send(&P5.sent("1", "initialize", SCP_EDITOR));
    let asked = agent.request("initialize");
    assert_eq!(asked["params"], parse(SCP_EDITOR));
    agent.answer(&asked, GREETED);
    second.message();
    second.answer(&two, GREETED);
    first.message();
    first.answer(&one, GREETED);
    assert_eq!(stage.editor.line(), result("3", "{}"));

    // Once established, the chain cannot be changed.
    stage.editor.send(&request("4", "_scp/proxy", &servers));
    let answer = stage.editor.message();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(4), &json!(-32600)));

    stage.editor.send(&request("5", "session/new", "{}"));
    let asked = first.line();
    assert_eq!(asked, request(id_of(&asked), "session/new", "{}"));
    first.send(&P5.sent("2", "session/new", "{}"));
    let next = second.line();
    second.send(&P5.sent("2", "session/new", "{}"));
    let last = agent.line();
    assert_eq!(last, request(id_of(&last), "session/new", "{}"));
    agent.send(&notification("session/update", "{}"));
    agent.send(&result(id_of(&last), "1.10"));
    assert_eq!(second.line(), P5.received_note("session/update", "{}"));
    assert_eq!(second.line(), result("2", "1.10"));
    second.send(&notification("session/update", "{}"));
    second.send(&result(id_of(&next), "1.10"));
    assert_eq!(first.line(), P5.received_note("session/update", "{}"));
    assert_eq!(first.line(), result("2", "1.10"));
    first.send(&notification("session/update", "{}"));
    first.send(&result(id_of(&asked), "1.10"));
    assert_eq!(stage.editor.line(), notification("session/update", "{}"));
    assert_eq!(stage.editor.line(), result("5", "1.10"));

    stage.editor.leave();
    assert_eq!(stage.conductor.status(), 0);
    for puppet in [first, second, agent] {
        assert_gone(puppet.pid, &puppet.name);
    }
}

/// A list that cannot be used is the editor's to correct; the answer says why.
#[test]
fn an_scp_editor_is_told_what_is_wrong_with_its_list() {
    for (servers, why) in [("[]", "empty"), (r#"[{"name":"x"}]"#, "command")] {
        let setup = stage();
        let first = setup.puppet("first");
        let mut stage = setup.run("proxy", &[first]);
        stage.editor.send(&request("0", "initialize", SCP_EDITOR));
        stage.editor.message();
        stage.editor.send(&request("1", "_scp/proxy", servers));
        let answer = stage.editor.message();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(1), &json!(-32602)));
        let message = answer["error"]["message"].as_str().expect("a message");
        assert!(message.contains(why), "{message}");
    }
}

/// Connections that say nothing do not keep the relay out.
#[test]
fn the_relay_finds_a_place_among_silent_connections() {
    let mut scp = Scp::new(&[]);
    let port = scp.port();
    let open = || std::net::TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let silent: Vec<_> = (0..200).map(|_| open()).collect();
    let mut agent = scp.begin();
    talk(&mut scp, &mut agent);
    drop(silent);
}

// The relay by itself.

fn relay(port: u16, secret: Option<&str>) -> (Option<i32>, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_conductor"));
    command.args(["relay", &port.to_string()]).stdin(Stdio::null()).env_remove(SECRET);
    let output = command.envs(secret.map(|it| (SECRET, it))).output().expect("it starts");
    assert!(output.stdout.is_empty(), "{output:?}");
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn the_relay_says_what_it_misses() {
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = free.local_addr().expect("it").port();
    drop(free);
    let (status, said) = relay(port, Some("x"));
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains(&format!("no conductor waits on port {port}")), "{said}");
    let (status, said) = relay(port, None);
    assert_eq!(status, Some(1), "{said}");
    assert!(said.contains(SECRET) && said.contains("started by a running conductor"), "{said}");
}
