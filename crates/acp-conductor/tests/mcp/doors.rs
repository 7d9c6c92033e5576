//! Who is let in where MCP clients call, and who can find out how.

use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use testkit::rpc::request;
use testkit::stage::{directory, patiently};

use crate::clients::{Client, Http, SECRET, port_of, secret_of};
use crate::play::{HELLO, HTTP, Play, STDIO, connect, list_tools, m3};
use crate::stage;

/// An address of this machine that others can reach, if it has one.
fn outer_address() -> Option<IpAddr> {
    // Nothing is sent: this only asks which address would be used.
    let socket = UdpSocket::bind("0.0.0.0:0").ok()?;
    socket.connect("192.0.2.1:9").ok()?;
    let address = socket.local_addr().ok()?.ip();
    (!address.is_loopback() && !address.is_unspecified()).then_some(address)
}

/// The local addresses that listen on this port, from the system's own table.
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

/// Checklist 92: on loopback, and nowhere else.
#[test]
fn both_listeners_are_on_loopback_only() {
    for agent in [STDIO, HTTP] {
        let mut play = Play::tools(agent);
        let entry = play.session("S", &[&[m3("tools", "U")]]).remove(0);
        let port = port_of(&entry);
        // 127.0.0.1, in the byte order of the machine.
        let loopback = format!("{:08X}", u32::from_ne_bytes([127, 0, 0, 1]));
        assert_eq!(listeners(port), [loopback]);
        if let Some(address) = outer_address() {
            assert!(TcpStream::connect((address, port)).is_err(), "{address} is open");
        }
    }
}

/// Checklist 92: whoever does not say the secret is closed, hears nothing, and is in nobody's way.
#[test]
fn strangers_on_the_socket_are_closed() {
    let mut play = Play::tools(STDIO);
    let entry = play.session("S", &[&[m3("tools", "U")]]).remove(0);
    let (port, secret) = (port_of(&entry), secret_of(&entry));
    let open = move || TcpStream::connect(("127.0.0.1", port)).expect("it listens");
    let silent = open();
    let wrong = "0".repeat(secret.len());
    for said in [
        String::new(),
        "\n".into(),
        format!("{}\n", request("1", "initialize", HELLO)),
        format!("{secret}\n"),
        format!("{{\"conductor\":\"{wrong}\"}}\n"),
        format!("{{\"conductor\":\"{}\"}}\n", &secret[1..]),
        format!("{{\"conductor\":\"{secret}x\"}}\n"),
        "GET / HTTP/1.1\r\n\r\n".into(),
        "x".repeat(10_000),
    ] {
        let mut stranger = open();
        let heard = patiently("a stranger is closed", move || {
            let _ = stranger.write_all(said.as_bytes());
            let _ = stranger.shutdown(Shutdown::Write);
            let mut heard = Vec::new();
            let _ = stranger.read_to_end(&mut heard);
            heard
        });
        assert!(heard.is_empty(), "{}", String::from_utf8_lossy(&heard));
    }
    let mut client = Client::of(&entry);
    connect(&mut client, play.tool_proxy(), "C");
    list_tools(&mut client, play.tool_proxy(), "C");
    drop(silent);
}

/// Checklist 92: 401 without the secret, 403 from another place, and what else HTTP has to say.
#[test]
fn strangers_on_http_are_refused() {
    let mut play = Play::tools(HTTP);
    let entry = play.session("S", &[&[m3("tools", "U")]]).remove(0);
    let mut http = Http::of(&entry);
    let body = request("1", "initialize", HELLO);
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
        // With the wrong place the secret is not even looked at.
        (&["Host: example.org", "Authorization:"], 403),
    ] {
        for method in ["POST", "GET", "DELETE"] {
            let reply = http.call(method, headers, &body);
            assert_eq!(reply.status, status, "{method} {headers:?}: {}", reply.head);
            assert_eq!(reply.header("access-control-allow-origin"), None);
        }
    }
    // The right secret for another path is wrong, too.
    let other = play.session("S2", &[&[m3("tools", "V")]]).remove(0);
    let mut stolen = Http::of(&entry);
    stolen.secret = secret_of(&other).to_owned();
    assert_eq!(stolen.call("POST", &[], &body).status, 401);
    let mut lost = Http::of(&entry);
    lost.path = "/mcp/0000".into();
    assert_eq!(lost.call("POST", &[], &body).status, 404);
    // Local names and local pages are fine.
    http.authority = http.authority.replace("127.0.0.1", "localhost");
    let reply = http.call("DELETE", &["Origin: http://localhost:3000"], "");
    assert_eq!(reply.status, 405, "{}", reply.head);
    let mut client = Client::of(&entry);
    connect(&mut client, play.tool_proxy(), "C");
    list_tools(&mut client, play.tool_proxy(), "C");
}

/// Issue 3: the secret is in the declaration's environment and nowhere else.
#[test]
fn the_secret_is_nowhere_else() {
    for agent in [STDIO, HTTP] {
        let log = directory(&format!("secret-{}", agent.len())).join("log");
        let path = log.to_str().expect("UTF-8");
        let setup = stage().option(&["--log", "trace", "--log-file", path]);
        let mut play = Play::begin(setup, &["tools", "agent"], agent);
        let (entry, mut client) = play.connected(m3("tools", "U"));
        list_tools(&mut client, play.tool_proxy(), "C");
        let secret = secret_of(&entry).to_owned();
        assert!(secret.len() >= 32, "{secret}");
        assert!(!entry["args"].to_string().contains(&secret));
        assert!(!entry["url"].to_string().contains(&secret));
        if let Client::Stdio(bridge) = &client {
            let shown = std::fs::read(format!("/proc/{}/cmdline", bridge.pid())).expect("it runs");
            assert!(!String::from_utf8_lossy(&shown).contains(&secret));
        }
        let shown = std::fs::read(format!("/proc/{}/cmdline", play.stage.conductor.pid()));
        assert!(!String::from_utf8_lossy(&shown.expect("it runs")).contains(&secret));
        // No component has it in its environment, nor what it is called.
        for puppet in [&play.agent, &play.proxies[0]] {
            assert_eq!(puppet.hello["env"].get(SECRET), None::<&Value>);
        }
        // The agent refuses, a wrong one calls, the session ends: whatever there is to log.
        let stranger = TcpStream::connect(("127.0.0.1", port_of(&entry)));
        let _ = stranger.and_then(|mut it| it.write_all(b"{\"conductor\":\"wrong\"}\n"));
        client.close();
        play.tool_proxy().line();
        play.close("S");
        play.stage.editor.leave();
        for puppet in [&mut play.agent, &mut play.proxies[0]] {
            // Not before it is told: that would be a crash.
            while puppet.next_line().is_some() {}
            puppet.exit(0);
        }
        assert_eq!(play.stage.conductor.status(), 0);
        assert!(!play.stage.conductor.stderr().contains(&secret));
        let logged = std::fs::read_to_string(&log).expect("a log");
        assert!(!logged.is_empty() && !logged.contains(&secret), "{logged}");
    }
}

/// Silent connections of another user, if the test may act as one.
struct Crowd(Option<Child>);

impl Crowd {
    fn on(port: u16) -> Crowd {
        let open = format!("exec {{fd}}<>/dev/tcp/127.0.0.1/{port} || break");
        let script = format!("for i in {{1..200}}; do {open}; done 2>/dev/null; echo; read");
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--clear-groups", "bash", "-c", &script]);
        let started = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = started.spawn().ok();
        if let Some(output) = child.as_mut().and_then(|it| it.stdout.as_mut()) {
            let _ = output.read(&mut [0]);
        }
        Crowd(child)
    }
}

impl Drop for Crowd {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Whatever other users do, the places of our own user are free.
#[test]
fn silent_connections_of_others_do_not_take_the_tools_away() {
    for agent in [STDIO, HTTP] {
        let mut play = Play::tools(agent);
        let entry = play.session("S", &[&[m3("tools", "U")]]).remove(0);
        let port = port_of(&entry);
        let others = Crowd::on(port);
        let open = || TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        let ours: Vec<TcpStream> = (0..100).map(|_| open()).collect();
        let mut client = Client::of(&entry);
        connect(&mut client, play.tool_proxy(), "C");
        list_tools(&mut client, play.tool_proxy(), "C");
        drop((others, ours));
    }
}
