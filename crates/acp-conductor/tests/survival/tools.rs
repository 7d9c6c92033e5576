//! A proxy that provides tools dies and comes back with other ids for everything: the agent's clients
//! notice nothing, or are told. Line 4.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::rpc::{cancel, id_of, notification, proxy_greeting, request, result, wrapped_request};
use testkit::stage::{Peer, Puppet, parse, wait_until};

use crate::clients::{Client, assert_closed, port_of};
use crate::mcp_play::{
    GREETING, HELLO, HTTP, Play, SERVED, STDIO, accept, connect, heard, list_tools, m3, m7, reply,
    said,
};
use crate::play::{kill, status};
use crate::stage;

/// Agents that speak MCP over ACP themselves.
const NATIVE: &str = r#"{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"mcpCapabilities":{"acp":true}}}"#;

fn tools(greeted: &str) -> Play {
    Play::begin(stage(), &["tools", "agent"], greeted)
}

/// The provider is killed; the next one is greeted, and told of the session, to which it adds this
/// server. What it sends to its successor is answered from memory.
fn replaced(play: &mut Play, server: &str) {
    kill(&play.proxies[0]);
    play.proxies[0] = play.stage.enter("tools");
    learns(play, &[server]);
}

fn learns(play: &mut Play, servers: &[&str]) {
    let proxy = &mut play.proxies[0];
    let line = proxy.line();
    assert_eq!(line, proxy_greeting(id_of(&line), GREETING));
    proxy.forward("init", "initialize", GREETING);
    let told = proxy.message();
    assert_eq!(told["id"], "init", "{told}");
    proxy.send(&result(id_of(&line), &told["result"].to_string()));
    let asked = proxy.request("session/new");
    let mut params = asked["params"].clone();
    let list = params["mcpServers"].as_array_mut().expect("a list");
    list.extend(servers.iter().map(|it| parse(it)));
    proxy.forward("set-up", "session/new", &params.to_string());
    let told = proxy.message();
    assert_eq!((&told["id"], &told["result"]["sessionId"]), (&json!("set-up"), &json!("S")));
    proxy.answer(&asked, &told["result"].to_string());
}

/// The new provider (M3) is connected to as the old one was, with the client's first words.
fn connected_again(provider: &mut Puppet, server: &str, connection: &str) {
    assert_eq!(accept(provider, connection), format!("acp:{server}"));
    let (id, params) = said(provider, connection, "initialize");
    assert_eq!(params, parse(HELLO));
    reply(provider, &id, SERVED);
    let (id, _) = said(provider, connection, "notifications/initialized");
    assert!(id.is_null());
}

/// An error that tells whose crash it was.
fn assert_crashed(answer: &Value, id: Value) {
    assert_eq!(answer["id"], id, "{answer}");
    let message = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{answer}"));
    for word in ["'tools'", "SIGKILL"] {
        assert!(message.contains(word), "{word:?} is not in {message:?}");
    }
}

/// Line 4: the bridge, over both transports. The client keeps its connection; a call that was under way
/// is answered once, with an error; the next one reaches the new process.
#[test]
fn a_bridged_client_keeps_its_connection() {
    for agent in [STDIO, HTTP] {
        let mut play = tools(agent);
        let (entry, mut client) = play.connected(m3("tools", "U"));
        list_tools(&mut client, play.tool_proxy(), "C");
        for n in 1..=2 {
            client.send(&request("7", "tools/call", r#"{"name":"t"}"#));
            heard(play.tool_proxy());
            let (server, connection) = (format!("U{n}"), format!("C{n}"));
            replaced(&mut play, &m3("tools", &server));
            assert_crashed(&client.message(), json!(7));
            connected_again(play.tool_proxy(), &server, &connection);
            list_tools(&mut client, play.tool_proxy(), &connection);
        }
        // Another client comes, by the old declaration.
        let mut other = Client::of(&entry);
        connect(&mut other, play.tool_proxy(), "D");
        list_tools(&mut other, play.tool_proxy(), "D");
        list_tools(&mut client, play.tool_proxy(), "C2");
        play.assert_editor_undisturbed();
    }
}

/// Line 4: what a client says while nobody is there waits, and is heard by the new one.
#[test]
fn a_call_waits_for_the_new_provider() {
    for agent in [STDIO, HTTP] {
        let mut play = tools(agent);
        let (_, mut client) = play.connected(m3("tools", "U"));
        kill(&play.proxies[0]);
        play.proxies[0] = play.stage.enter("tools");
        client.send(&request("7", "tools/call", r#"{"name":"t"}"#));
        learns(&mut play, &[&m3("tools", "V")]);
        connected_again(play.tool_proxy(), "V", "D");
        let (id, params) = said(play.tool_proxy(), "D", "tools/call");
        assert_eq!(params["name"], "t");
        reply(play.tool_proxy(), &id, r#"{"content":[]}"#);
        assert_eq!(client.line(), result("7", r#"{"content":[]}"#));
    }
}

/// Line 4: a new provider that does not offer the server any more. Its clients are told or closed, and
/// nobody waits for ever.
#[test]
fn a_server_that_is_not_offered_any_more_is_gone() {
    for agent in [STDIO, HTTP] {
        let mut play = tools(agent);
        let (entry, client) = play.connected(m3("tools", "U"));
        kill(&play.proxies[0]);
        play.proxies[0] = play.stage.enter("tools");
        learns(&mut play, &[]);
        assert_ended(&entry, client);
        play.stage.editor.send(&notification("_x/mark", "{}"));
        // That a client has left may be told, but not of a connection that it could take for its own.
        let mut message = heard(play.tool_proxy());
        if message["method"] == "_mcp/disconnect" {
            assert_ne!(message["params"]["connectionId"], "C", "{message}");
            message = heard(play.tool_proxy());
        }
        assert_eq!(message["method"], "_x/mark", "{message}");
    }
}

/// A client whose server is gone: its program ends, and nobody listens any more where it was declared.
fn assert_ended(entry: &Value, client: Client) {
    if let Client::Stdio(mut bridge) = client {
        assert_eq!(bridge.status(), (0, String::new()));
    }
    assert_closed(port_of(entry));
}

/// Line 4: a provider that is left out. What was asked is answered, and nothing hangs.
#[test]
fn the_tools_of_a_proxy_that_is_left_out_are_gone() {
    for agent in [STDIO, HTTP] {
        let setup = stage().option(&["--on-crash", "1=bypass"]);
        let mut play = Play::begin(setup, &["tools", "agent"], agent);
        let (entry, mut client) = play.connected(m3("tools", "U"));
        client.send(&request("7", "tools/call", r#"{"name":"t"}"#));
        said(play.tool_proxy(), "C", "tools/call");
        kill(&play.proxies[0]);
        assert_crashed(&client.message(), json!(7));
        assert_ended(&entry, client);
        play.proxies.clear();
        play.assert_agent_undisturbed();
    }
}

// An agent that speaks MCP over ACP itself.

/// A session with a server of the provider's; gives its id as the agent knows it.
fn native(server: &str) -> (Play, Value) {
    let mut play = tools(NATIVE);
    let entry = play.session("S", &[&[server.to_owned()]]).remove(0);
    let id = entry.get("serverId").or(entry.get("acpId")).or(entry.get("id"));
    let id = id.unwrap_or_else(|| panic!("{entry}")).clone();
    (play, id)
}

/// The agent asks something over MCP (M7).
fn calls(agent: &mut Puppet, id: &str, server: &Value, method: &str) {
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let params = format!(
        r#"{{"serverId":{server},"requestId":"q","method":"{method}","params":{{"name":"t",{meta}}}}}"#
    );
    agent.send(&request(id, "mcp/message", &params));
}

/// Line 4: without connections (M7): the agent goes on with the id that it knows.
#[test]
fn a_native_agent_without_connections_goes_on_with_the_id_it_knows() {
    let (mut play, server) = native(&m7("tools", "U"));
    let mut own = json!("U");
    for n in 1..=2 {
        calls(&mut play.agent, "1", &server, "tools/call");
        let asked = heard(play.tool_proxy());
        assert_eq!(asked["method"], "mcp/message", "{asked}");
        assert_eq!(asked["params"]["serverId"], own, "{asked}");
        reply(play.tool_proxy(), &asked["id"], r#"{"result":{"content":[]}}"#);
        let answer = play.agent.message();
        assert_eq!(
            (&answer["id"], &answer["result"]["result"]),
            (&json!(1), &json!({ "content": [] }))
        );
        // In flight.
        calls(&mut play.agent, "2", &server, "tools/call");
        heard(play.tool_proxy());
        own = json!(format!("U{n}"));
        replaced(&mut play, &m7("tools", own.as_str().expect("a name")));
        assert_crashed(&play.agent.message(), json!(2));
    }
    calls(&mut play.agent, "3", &server, "tools/call");
    let asked = heard(play.tool_proxy());
    assert_eq!(asked["params"]["serverId"], "U2", "{asked}");
    play.assert_editor_undisturbed();
}

/// Line 4: with connections (M6), to a provider with or without (M3, M7): the agent's connection goes on.
#[test]
fn a_native_agent_keeps_its_connection() {
    let (mut play, server) = native(&m3("tools", "U"));
    play.agent.send(&request("1", "mcp/connect", &format!(r#"{{"serverId":{server}}}"#)));
    accept(play.tool_proxy(), "C");
    let answer = play.agent.message();
    let connection =
        answer["result"]["connectionId"].as_str().unwrap_or_else(|| panic!("{answer}"));
    let connection = connection.to_owned();
    let say = |agent: &mut Puppet, id: &str, method: &str, params: &str| {
        let params =
            format!(r#"{{"connectionId":"{connection}","method":"{method}","params":{params}}}"#);
        match id {
            "" => agent.send(&notification("mcp/message", &params)),
            id => agent.send(&request(id, "mcp/message", &params)),
        }
    };
    say(&mut play.agent, "2", "initialize", HELLO);
    let (id, params) = said(play.tool_proxy(), "C", "initialize");
    assert_eq!(params, parse(HELLO));
    reply(play.tool_proxy(), &id, SERVED);
    assert_eq!(play.agent.line(), result("2", SERVED));
    say(&mut play.agent, "", "notifications/initialized", "{}");
    said(play.tool_proxy(), "C", "notifications/initialized");
    for n in 1..=2 {
        say(&mut play.agent, "3", "tools/call", r#"{"name":"t"}"#);
        heard(play.tool_proxy());
        let (server, name) = (format!("U{n}"), format!("C{n}"));
        replaced(&mut play, &m3("tools", &server));
        assert_crashed(&play.agent.message(), json!(3));
        connected_again(play.tool_proxy(), &server, &name);
        say(&mut play.agent, "4", "tools/call", r#"{"name":"t"}"#);
        let (id, _) = said(play.tool_proxy(), &name, "tools/call");
        reply(play.tool_proxy(), &id, r#"{"content":[]}"#);
        assert_eq!(play.agent.line(), result("4", r#"{"content":[]}"#));
    }
    // The agent closes it, and so it is closed where it is now.
    play.agent.send(&request(
        "5",
        "mcp/disconnect",
        &format!(r#"{{"connectionId":"{connection}"}}"#),
    ));
    let told = heard(play.tool_proxy());
    assert_eq!(
        (&told["method"], &told["params"]["connectionId"]),
        (&json!("_mcp/disconnect"), &json!("C2"))
    );
    play.assert_editor_undisturbed();
}

/// Line 4: left out, native: an error, and no wait.
#[test]
fn a_native_agent_is_told_that_a_server_is_gone() {
    let setup = stage().option(&["--on-crash", "1=bypass"]);
    let mut play = Play::begin(setup, &["tools", "agent"], NATIVE);
    let entry = play.session("S", &[&[m7("tools", "U")]]).remove(0);
    calls(&mut play.agent, "1", &entry["serverId"], "tools/call");
    heard(play.tool_proxy());
    kill(&play.proxies[0]);
    assert_crashed(&play.agent.message(), json!(1));
    calls(&mut play.agent, "2", &entry["serverId"], "tools/call");
    let answer = play.agent.message();
    assert_eq!(answer["id"], 2, "{answer}");
    assert!(answer["error"]["message"].is_string(), "{answer}");
    play.proxies.clear();
    play.assert_editor_undisturbed();
}

/// Line 4, 2: one that dies before it has answered its greeting, and dies so again, has failed like any
/// other: the greetings are tried anew, each on a start of its own, after a delay, counted, and it has its
/// tools at last.
#[test]
fn a_provider_that_dies_over_its_greetings_is_greeted_again_and_keeps_its_tools() {
    let delay = ["--restart-delay", "0.4..0.4", "--restarts", "3/600", "--notices", "off"];
    let mut play = Play::begin(crate::bare().option(&delay), &["tools", "agent"], NATIVE);
    let entry = play.session("S", &[&[m7("tools", "U")]]).remove(0);
    kill(&play.proxies[0]);
    for _ in 2..=3 {
        let mut proxy = play.stage.enter("tools");
        let line = proxy.line();
        assert_eq!(line, proxy_greeting(id_of(&line), GREETING));
        let died = Instant::now();
        proxy.exit(3);
        play.proxies[0] = proxy;
        wait_until("the next one is there", || play.stage.has_entered("tools").then_some(()));
        // Chance takes away up to half of the delay.
        assert!(died.elapsed() >= Duration::from_millis(200), "{:?}", died.elapsed());
    }
    let mut proxy = play.stage.enter("tools");
    let older = proxy.request("_proxy/initialize");
    // It does not know this one, and its envelope tells which one it knows.
    proxy.forward("unknown", "_proxy/initialize", "{}");
    let refused = proxy.message();
    proxy.fail(&older, &refused["error"].to_string());
    play.proxies[0] = proxy;
    learns(&mut play, &[&m7("tools", "V")]);
    calls(&mut play.agent, "1", &entry["serverId"], "tools/call");
    let asked = heard(play.tool_proxy());
    assert_eq!(asked["params"]["serverId"], "V", "{asked}");
    reply(play.tool_proxy(), &asked["id"], r#"{"result":{"content":[]}}"#);
    let answer = play.agent.message();
    assert_eq!((&answer["id"], &answer["result"]["result"]["content"]), (&json!(1), &json!([])));
    let component = status(&play.stage)["components"][0].take();
    assert_eq!((&component["state"], &component["restarts"]), (&json!("live"), &json!(3)));
    play.assert_editor_undisturbed();
    // That was all that is allowed, and nobody was started beside those.
    kill(&play.proxies[0]);
    wait_until("it is left out", || {
        (status(&play.stage)["components"][0]["state"] == "bypassed").then_some(())
    });
    assert!(!play.stage.has_entered("tools"));
}

// The agent dies.

/// Line 4, 3: a new agent gets new declarations for its sessions, and may connect before it has taken
/// them up; the provider hears that the old client has left.
#[test]
fn a_new_agent_connects_anew() {
    let over_http = r#"{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"mcpCapabilities":{"http":true}}}"#;
    for loads in [STDIO, over_http] {
        let mut play = tools(loads);
        let (entry, mut old) = play.connected(m3("tools", "U"));
        old.send(&request("7", "tools/call", r#"{"name":"t"}"#));
        let call = heard(play.tool_proxy());
        kill(&play.agent);
        play.agent = play.stage.enter("agent");
        let asked = play.agent.request("initialize");
        play.agent.answer(&asked, loads);
        let load = play.agent.request("session/load");
        assert_eq!(load["params"]["sessionId"], "S", "{load}");
        let again = load["params"]["mcpServers"][0].clone();
        assert_ne!(again, entry, "with another secret");
        // The provider is told of the end of the old connection, and of its call.
        let mut told = Vec::new();
        loop {
            let message = heard(play.tool_proxy());
            let method = message["method"].as_str().expect("a method").to_owned();
            told.push(method.clone());
            if method == "_mcp/disconnect" {
                assert_eq!(message["params"]["connectionId"], "C", "{message}");
                break;
            }
            if method == "$/cancel_request" {
                assert_eq!(parse(&cancel(&call["id"].to_string())), message);
            }
        }
        assert!(told.contains(&"$/cancel_request".to_owned()), "{told:?}");
        let mut client = Client::of(&again);
        connect(&mut client, play.tool_proxy(), "D");
        list_tools(&mut client, play.tool_proxy(), "D");
        play.agent.answer(&load, "{}");
        list_tools(&mut client, play.tool_proxy(), "D");
        play.assert_editor_undisturbed();
    }
}

/// Line 4: a proxy before the provider dies: what the agent says to the server does not pass it.
#[test]
fn a_proxy_that_is_no_provider_is_of_no_account() {
    for agent in [STDIO, HTTP] {
        let mut play = Play::begin(stage(), &["first", "tools", "agent"], agent);
        let list = play.session("S", &[&[], &[m3("tools", "U")]]);
        let mut client = Client::of(&list[0]);
        connect(&mut client, &mut play.proxies[1], "C");
        client.send(&request("7", "tools/call", r#"{"name":"t"}"#));
        let (id, _) = said(&mut play.proxies[1], "C", "tools/call");
        kill(&play.proxies[0]);
        play.proxies[0] = play.stage.enter("first");
        list_tools(&mut client, &mut play.proxies[1], "C");
        reply(&mut play.proxies[1], &id, r#"{"content":[]}"#);
        assert_eq!(client.line(), result("7", r#"{"content":[]}"#));
        learns(&mut play, &[]);
        list_tools(&mut client, &mut play.proxies[1], "C");
        play.assert_agent_undisturbed();
    }
}

/// Line 4: one after the provider dies, through which the agent's words pass.
#[test]
fn a_proxy_between_the_agent_and_the_provider_is_replaced() {
    let mut play = Play::begin(stage(), &["tools", "between", "agent"], STDIO);
    let list = play.session("S", &[&[m3("tools", "U")], &[]]);
    let mut client = Client::of(&list[0]);
    let pass = |play: &mut Play| drop(crate::play::pass(&mut play.proxies[1]));
    // Every word of the client passes it, and every answer.
    client.send(&request("0", "initialize", HELLO));
    pass(&mut play);
    accept(&mut play.proxies[0], "C");
    pass(&mut play);
    pass(&mut play);
    let (id, _) = said(&mut play.proxies[0], "C", "initialize");
    reply(&mut play.proxies[0], &id, SERVED);
    pass(&mut play);
    assert_eq!(client.line(), result("0", SERVED));
    client.send(&notification("notifications/initialized", ""));
    pass(&mut play);
    said(&mut play.proxies[0], "C", "notifications/initialized");
    // It dies with a call that has passed, and one that has not.
    client.send(&request("1", "tools/call", r#"{"name":"passed"}"#));
    pass(&mut play);
    let (passed, _) = said(&mut play.proxies[0], "C", "tools/call");
    client.send(&request("2", "tools/call", r#"{"name":"not"}"#));
    heard(&mut play.proxies[1]);
    kill(&play.proxies[1]);
    let answer = client.message();
    assert_eq!(answer["id"], 2, "{answer}");
    assert!(answer["error"]["message"].as_str().expect("words").contains("'between'"), "{answer}");
    play.proxies[1] = play.stage.enter("between");
    let proxy = &mut play.proxies[1];
    let line = proxy.line();
    assert_eq!(line, proxy_greeting(id_of(&line), GREETING));
    proxy.forward("init", "initialize", GREETING);
    let told = proxy.message();
    proxy.send(&result(id_of(&line), &told["result"].to_string()));
    let asked = proxy.request("session/new");
    assert_eq!(asked["params"]["mcpServers"].as_array().map(Vec::len), Some(1), "{asked}");
    proxy.send(&wrapped_request("1", "session/new", &asked["params"].to_string()));
    let told = proxy.message();
    proxy.answer(&asked, &told["result"].to_string());
    // What had passed is answered, behind a barrier; what comes later passes as before.
    reply(&mut play.proxies[0], &passed, r#"{"content":["passed"]}"#);
    pass(&mut play);
    assert_eq!(client.line(), result("1", r#"{"content":["passed"]}"#));
    pass(&mut play);
    client.send(&request("3", "tools/call", r#"{"name":"later"}"#));
    pass(&mut play);
    let (id, _) = said(&mut play.proxies[0], "C", "tools/call");
    reply(&mut play.proxies[0], &id, "{}");
    pass(&mut play);
    assert_eq!(client.line(), result("3", "{}"));
}
