//! Access to the listeners for MCP clients: loopback only, and only with the secret.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use testkit::rpc::request;
use testkit::test_chain::{directory, with_timeout};

use crate::chain::{HTTP, INITIALIZE_PARAMS, McpChain, STDIO, connect, list_tools, m3};
use crate::clients::{Client, Http, SECRET, port_of, secret_of};
use crate::new_setup;

/// An address of this machine that other machines can reach, if there is one.
fn outer_address() -> Option<IpAddr> {
    // This sends nothing. It only asks which address would be used.
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

/// The local addresses that listen on this port, from the system's table.
fn listeners(port: u16) -> Vec<String> {
    let mut found = Vec::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text = std::fs::read_to_string(table).unwrap_or_default();
        for line in text.lines().skip(1) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let (address, at) = words[1].split_once(':').expect("ADDRESS:PORT");
            const LISTEN: &str = "0A";
            if words[3] == LISTEN && u16::from_str_radix(at, 16) == Ok(port) {
                found.push(address.to_owned());
            }
        }
    }
    found
}

/// Checklist 92: on loopback only.
#[test]
fn both_listeners_are_on_loopback_only() {
    for agent in [STDIO, HTTP] {
        let mut chain = McpChain::with_provider(agent);
        let entry = chain.new_session("S", &[&[m3("tools", "U")]]).remove(0);
        let port = port_of(&entry);
        // 127.0.0.1, in the byte order of the machine.
        let loopback = format!("{:08X}", u32::from_ne_bytes([127, 0, 0, 1]));
        assert_eq!(listeners(port), [loopback]);
        if let Some(address) = outer_address() {
            assert!(TcpStream::connect((address, port)).is_err(), "{address} is open");
        }
    }
}

/// Checklist 92: a connection without the secret is closed, receives nothing and blocks no other client.
#[test]
fn unauthenticated_connections_to_the_socket_are_closed() {
    let mut chain = McpChain::with_provider(STDIO);
    let entry = chain.new_session("S", &[&[m3("tools", "U")]]).remove(0);
    let (port, secret) = (port_of(&entry), secret_of(&entry));
    let open = move || TcpStream::connect(("127.0.0.1", port)).expect("a listener");
    let silent = open();
    let wrong = "0".repeat(secret.len());
    for sent in [
        String::new(),
        "\n".into(),
        format!("{}\n", request("1", "initialize", INITIALIZE_PARAMS)),
        format!("{secret}\n"),
        format!("{{\"conductor\":\"{wrong}\"}}\n"),
        format!("{{\"conductor\":\"{}\"}}\n", &secret[1..]),
        format!("{{\"conductor\":\"{secret}x\"}}\n"),
        "GET / HTTP/1.1\r\n\r\n".into(),
        "x".repeat(10_000),
    ] {
        let mut connection = open();
        let received = with_timeout("the connection is closed", move || {
            let _ = connection.write_all(sent.as_bytes());
            let _ = connection.shutdown(Shutdown::Write);
            let mut received = Vec::new();
            let _ = connection.read_to_end(&mut received);
            received
        });
        assert!(received.is_empty(), "{}", String::from_utf8_lossy(&received));
    }
    let mut client = Client::of(&entry);
    connect(&mut client, chain.provider(), "C");
    list_tools(&mut client, chain.provider(), "C");
    drop(silent);
}

/// Checklist 92: 401 without the secret, 403 with a foreign host or origin, 404 for another path.
#[test]
fn unauthenticated_http_requests_are_refused() {
    let mut chain = McpChain::with_provider(HTTP);
    let entry = chain.new_session("S", &[&[m3("tools", "U")]]).remove(0);
    let mut http = Http::of(&entry);
    let body = request("1", "initialize", INITIALIZE_PARAMS);
    for (headers, status) in [
        (&["Authorization:"][..], 401),
        (&["Authorization: Bearer 0000"], 401),
        (&["Authorization: Basic Zm9vOmJhcg=="], 401),
        (&["Host: example.org"], 403),
        (&["Host: 127.0.0.1"], 403),
        (&["Host: 127.0.0.1:1"], 403),
        (&["Host:"], 403),
        (&["Origin: https://example.org"], 403),
        (&["Origin: null"], 403),
        (&["Origin: http://127.0.0.1.example.org"], 403),
        // With a wrong host the secret is not checked.
        (&["Host: example.org", "Authorization:"], 403),
    ] {
        for method in ["POST", "GET", "DELETE"] {
            let reply = http.call(method, headers, &body);
            assert_eq!(reply.status, status, "{method} {headers:?}: {}", reply.head);
            assert_eq!(reply.header("access-control-allow-origin"), None);
        }
    }
    // The secret of another path is not accepted.
    let other = chain.new_session("S2", &[&[m3("tools", "V")]]).remove(0);
    let mut stolen = Http::of(&entry);
    stolen.secret = secret_of(&other).to_owned();
    assert_eq!(stolen.call("POST", &[], &body).status, 401);
    let mut lost = Http::of(&entry);
    lost.path = "/mcp/0000".into();
    assert_eq!(lost.call("POST", &[], &body).status, 404);
    // Local host names and origins are accepted.
    http.authority = http.authority.replace("127.0.0.1", "localhost");
    let reply = http.call("DELETE", &["Origin: http://localhost:3000"], "");
    assert_eq!(reply.status, 405, "{}", reply.head);
    let mut client = Client::of(&entry);
    connect(&mut client, chain.provider(), "C");
    list_tools(&mut client, chain.provider(), "C");
}

/// The secret is in the declaration and nowhere else.
#[test]
fn the_secret_is_only_in_the_declaration() {
    for agent in [STDIO, HTTP] {
        let log = directory(&format!("secret-{}", agent.len())).join("log");
        let path = log.to_str().expect("UTF-8");
        let setup = new_setup().option(&["--log", "trace", "--log-file", path]);
        let mut chain = McpChain::start(setup, &["tools", "agent"], agent);
        let (entry, mut client) = chain.connect_client(m3("tools", "U"));
        list_tools(&mut client, chain.provider(), "C");
        let secret = secret_of(&entry).to_owned();
        assert!(secret.len() >= 32, "{secret}");
        assert!(!entry["args"].to_string().contains(&secret));
        assert!(!entry["url"].to_string().contains(&secret));
        if let Client::Stdio(bridge) = &client {
            let shown = std::fs::read(format!("/proc/{}/cmdline", bridge.pid()))
                .expect("a running process");
            assert!(!String::from_utf8_lossy(&shown).contains(&secret));
        }
        let shown = std::fs::read(format!("/proc/{}/cmdline", chain.test.conductor.pid()));
        assert!(!String::from_utf8_lossy(&shown.expect("it runs")).contains(&secret));
        // The environment of the components does not contain it.
        for component in [&chain.agent, &chain.proxies[0]] {
            assert_eq!(component.start_info["env"].get(SECRET), None::<&Value>);
        }
        // Whatever there is to log: a refused connection, and the end of the client and of the session.
        let connection = TcpStream::connect(("127.0.0.1", port_of(&entry)));
        let _ = connection.and_then(|mut it| it.write_all(b"{\"conductor\":\"wrong\"}\n"));
        client.close();
        chain.provider().line();
        chain.close_session("S");
        let stderr = chain.test.end([&mut chain.agent, &mut chain.proxies[0]]);
        assert!(!stderr.contains(&secret), "{stderr}");
        let logged = std::fs::read_to_string(&log).expect("a log");
        assert!(!logged.is_empty() && !logged.contains(&secret), "{logged}");
    }
}

/// Silent connections of another user, if the test has the right to act as one.
struct SilentConnections(Option<Child>);

impl SilentConnections {
    fn open(port: u16) -> SilentConnections {
        let open = format!("exec {{fd}}<>/dev/tcp/127.0.0.1/{port} || break");
        let script = format!("for i in {{1..200}}; do {open}; done 2>/dev/null; echo; read");
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--clear-groups", "bash", "-c", &script]);
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = started.spawn().ok();
        if let Some(output) = child.as_mut().and_then(|it| it.stdout.as_mut()) {
            let _ = output.read(&mut [0]);
        }
        SilentConnections(child)
    }
}

impl Drop for SilentConnections {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Connections of other users do not use up those of our own user.
#[test]
fn silent_connections_of_other_users_do_not_block_the_tools() {
    for agent in [STDIO, HTTP] {
        let mut chain = McpChain::with_provider(agent);
        let entry = chain.new_session("S", &[&[m3("tools", "U")]]).remove(0);
        let port = port_of(&entry);
        let others = SilentConnections::open(port);
        let open = || TcpStream::connect(("127.0.0.1", port)).expect("a listener");
        let ours: Vec<TcpStream> = (0..100).map(|_| open()).collect();
        let mut client = Client::of(&entry);
        connect(&mut client, chain.provider(), "C");
        list_tools(&mut client, chain.provider(), "C");
        drop((others, ours));
    }
}
