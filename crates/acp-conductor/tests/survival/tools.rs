//! A proxy that provides MCP servers crashes, and comes back with new ids for its servers and connections.
//! MCP clients of the agent either notice nothing or get an error.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::rpc::{cancel, id_of, notification, proxy_greeting, request, result, wrapped_request};
use testkit::test_chain::{Peer, ScriptedComponent, parse, wait_until};

use crate::chain::{kill, status};
use crate::clients::{Client, assert_closed, port_of};
use crate::mcp_chain::{
    GREETING, HTTP, INITIALIZE_PARAMS, INITIALIZE_RESULT, McpChain, STDIO, accept_connection,
    connect, list_tools, m3, m7, receive, receive_mcp, reply,
};
use crate::new_setup;

/// The agent supports MCP over ACP itself.
const NATIVE: &str = r#"{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"mcpCapabilities":{"acp":true}}}"#;

fn chain_with_provider(agent_result: &str) -> McpChain {
    McpChain::start(new_setup(), &["tools", "agent"], agent_result)
}

/// The provider is killed. Its replacement is greeted, and session replay lets it add this server. The
/// conductor answers from memory what the provider sends to its successor.
fn restart_provider(chain: &mut McpChain, server: &str) {
    kill(&chain.proxies[0]);
    chain.proxies[0] = chain.test.wait_for_component("tools");
    expect_replay(chain, &[server]);
}

fn expect_replay(chain: &mut McpChain, servers: &[&str]) {
    let proxy = &mut chain.proxies[0];
    let line = proxy.line();
    assert_eq!(line, proxy_greeting(id_of(&line), GREETING));
    proxy.forward("init", "initialize", GREETING);
    let answer = proxy.message();
    assert_eq!(answer["id"], "init", "{answer}");
    proxy.send(&result(id_of(&line), &answer["result"].to_string()));
    let received = proxy.request("session/new");
    let mut params = received["params"].clone();
    let list = params["mcpServers"].as_array_mut().expect("a list");
    list.extend(servers.iter().map(|it| parse(it)));
    proxy.forward("set-up", "session/new", &params.to_string());
    let answer = proxy.message();
    assert_eq!((&answer["id"], &answer["result"]["sessionId"]), (&json!("set-up"), &json!("S")));
    proxy.answer(&received, &answer["result"].to_string());
}

/// The conductor connects to the restarted provider (M3) and repeats the client's handshake.
fn expect_reconnect(provider: &mut ScriptedComponent, server: &str, connection: &str) {
    assert_eq!(accept_connection(provider, connection), format!("acp:{server}"));
    let (id, params) = receive_mcp(provider, connection, "initialize");
    assert_eq!(params, parse(INITIALIZE_PARAMS));
    reply(provider, &id, INITIALIZE_RESULT);
    let (id, _) = receive_mcp(provider, connection, "notifications/initialized");
    assert!(id.is_null());
}

/// Checks that an answer is an error that names the provider and its crash.
fn assert_crashed(answer: &Value, id: Value) {
    assert_eq!(answer["id"], id, "{answer}");
    let message = answer["error"]["message"].as_str().unwrap_or_else(|| panic!("{answer}"));
    for word in ["'tools'", "SIGKILL"] {
        assert!(message.contains(word), "{word:?} is not in {message:?}");
    }
}

/// With the bridge, over both transports, the client keeps its connection. A call that is under way is
/// answered once, with an error, and the next one reaches the new process.
#[test]
fn a_bridged_client_keeps_its_connection() {
    for agent in [STDIO, HTTP] {
        let mut chain = chain_with_provider(agent);
        let (entry, mut client) = chain.connect_client(m3("tools", "U"));
        list_tools(&mut client, chain.provider(), "C");
        for n in 1..=2 {
            client.send(&request("7", "tools/call", r#"{"name":"t"}"#));
            receive(chain.provider());
            let (server, connection) = (format!("U{n}"), format!("C{n}"));
            restart_provider(&mut chain, &m3("tools", &server));
            assert_crashed(&client.message(), json!(7));
            expect_reconnect(chain.provider(), &server, &connection);
            list_tools(&mut client, chain.provider(), &connection);
        }
        // Another client connects with the old declaration.
        let mut other = Client::of(&entry);
        connect(&mut other, chain.provider(), "D");
        list_tools(&mut other, chain.provider(), "D");
        list_tools(&mut client, chain.provider(), "C2");
        chain.assert_editor_received_nothing();
    }
}

/// A call while the provider is down waits, and reaches the new process.
#[test]
fn a_call_waits_for_the_restarted_provider() {
    for agent in [STDIO, HTTP] {
        let mut chain = chain_with_provider(agent);
        let (_, mut client) = chain.connect_client(m3("tools", "U"));
        kill(&chain.proxies[0]);
        chain.proxies[0] = chain.test.wait_for_component("tools");
        client.send(&request("7", "tools/call", r#"{"name":"t"}"#));
        expect_replay(&mut chain, &[&m3("tools", "V")]);
        expect_reconnect(chain.provider(), "V", "D");
        let (id, params) = receive_mcp(chain.provider(), "D", "tools/call");
        assert_eq!(params["name"], "t");
        reply(chain.provider(), &id, r#"{"content":[]}"#);
        assert_eq!(client.line(), result("7", r#"{"content":[]}"#));
    }
}

/// If the restarted provider no longer declares the server, the connections of its clients are closed.
#[test]
fn a_server_that_is_no_longer_declared_is_closed() {
    for agent in [STDIO, HTTP] {
        let mut chain = chain_with_provider(agent);
        let (entry, client) = chain.connect_client(m3("tools", "U"));
        kill(&chain.proxies[0]);
        chain.proxies[0] = chain.test.wait_for_component("tools");
        expect_replay(&mut chain, &[]);
        assert_server_closed(&entry, client);
        chain.test.editor.send(&notification("_x/mark", "{}"));
        // The provider may learn that a client has disconnected, but not by a connection id of its predecessor.
        let mut message = receive(chain.provider());
        if message["method"] == "_mcp/disconnect" {
            assert_ne!(message["params"]["connectionId"], "C", "{message}");
            message = receive(chain.provider());
        }
        assert_eq!(message["method"], "_x/mark", "{message}");
    }
}

/// The server is gone: the bridge process ends, and its port is closed.
fn assert_server_closed(entry: &Value, client: Client) {
    if let Client::Stdio(mut bridge) = client {
        assert_eq!(bridge.status(), (0, String::new()));
    }
    assert_closed(port_of(entry));
}

/// When the provider is bypassed, open calls are answered and its servers are gone.
#[test]
fn the_servers_of_a_bypassed_proxy_are_closed() {
    for agent in [STDIO, HTTP] {
        let setup = new_setup().option(&["--on-crash", "1=bypass"]);
        let mut chain = McpChain::start(setup, &["tools", "agent"], agent);
        let (entry, mut client) = chain.connect_client(m3("tools", "U"));
        client.send(&request("7", "tools/call", r#"{"name":"t"}"#));
        receive_mcp(chain.provider(), "C", "tools/call");
        kill(&chain.proxies[0]);
        assert_crashed(&client.message(), json!(7));
        assert_server_closed(&entry, client);
        chain.proxies.clear();
        chain.assert_agent_received_nothing();
    }
}

// Agents that support MCP over ACP.

/// A session with a server of the provider. Returns the server's id as the agent knows it.
fn native_session(server: &str) -> (McpChain, Value) {
    let mut chain = chain_with_provider(NATIVE);
    let entry = chain.new_session("S", &[&[server.to_owned()]]).remove(0);
    let id = entry.get("serverId").or(entry.get("acpId")).or(entry.get("id"));
    let id = id.unwrap_or_else(|| panic!("{entry}")).clone();
    (chain, id)
}

/// The agent sends an MCP request (M7).
fn call_tool(agent: &mut ScriptedComponent, id: &str, server: &Value, method: &str) {
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    let params = format!(
        r#"{{"serverId":{server},"requestId":"q","method":"{method}","params":{{"name":"t",{meta}}}}}"#
    );
    agent.send(&request(id, "mcp/message", &params));
}

/// Without connections (M7), the agent keeps using the server id that it knows.
#[test]
fn a_native_agent_without_connections_keeps_its_server_id() {
    let (mut chain, server) = native_session(&m7("tools", "U"));
    let mut own = json!("U");
    for n in 1..=2 {
        call_tool(&mut chain.agent, "1", &server, "tools/call");
        let received = receive(chain.provider());
        assert_eq!(received["method"], "mcp/message", "{received}");
        assert_eq!(received["params"]["serverId"], own, "{received}");
        reply(chain.provider(), &received["id"], r#"{"result":{"content":[]}}"#);
        let answer = chain.agent.message();
        assert_eq!(
            (&answer["id"], &answer["result"]["result"]),
            (&json!(1), &json!({ "content": [] }))
        );
        // A call that is under way.
        call_tool(&mut chain.agent, "2", &server, "tools/call");
        receive(chain.provider());
        own = json!(format!("U{n}"));
        restart_provider(&mut chain, &m7("tools", own.as_str().expect("a name")));
        assert_crashed(&chain.agent.message(), json!(2));
    }
    call_tool(&mut chain.agent, "3", &server, "tools/call");
    let received = receive(chain.provider());
    assert_eq!(received["params"]["serverId"], "U2", "{received}");
    chain.assert_editor_received_nothing();
}

/// With connections (M6), to a provider with or without them (M3, M7), the agent's connection continues.
#[test]
fn a_native_agent_keeps_its_connection() {
    let (mut chain, server) = native_session(&m3("tools", "U"));
    chain.agent.send(&request("1", "mcp/connect", &format!(r#"{{"serverId":{server}}}"#)));
    accept_connection(chain.provider(), "C");
    let answer = chain.agent.message();
    let connection =
        answer["result"]["connectionId"].as_str().unwrap_or_else(|| panic!("{answer}"));
    let connection = connection.to_owned();
    let say = |agent: &mut ScriptedComponent, id: &str, method: &str, params: &str| {
        let params =
            format!(r#"{{"connectionId":"{connection}","method":"{method}","params":{params}}}"#);
        match id {
            "" => agent.send(&notification("mcp/message", &params)),
            id => agent.send(&request(id, "mcp/message", &params)),
        }
    };
    say(&mut chain.agent, "2", "initialize", INITIALIZE_PARAMS);
    let (id, params) = receive_mcp(chain.provider(), "C", "initialize");
    assert_eq!(params, parse(INITIALIZE_PARAMS));
    reply(chain.provider(), &id, INITIALIZE_RESULT);
    assert_eq!(chain.agent.line(), result("2", INITIALIZE_RESULT));
    say(&mut chain.agent, "", "notifications/initialized", "{}");
    receive_mcp(chain.provider(), "C", "notifications/initialized");
    for n in 1..=2 {
        say(&mut chain.agent, "3", "tools/call", r#"{"name":"t"}"#);
        receive(chain.provider());
        let (server, name) = (format!("U{n}"), format!("C{n}"));
        restart_provider(&mut chain, &m3("tools", &server));
        assert_crashed(&chain.agent.message(), json!(3));
        expect_reconnect(chain.provider(), &server, &name);
        say(&mut chain.agent, "4", "tools/call", r#"{"name":"t"}"#);
        let (id, _) = receive_mcp(chain.provider(), &name, "tools/call");
        reply(chain.provider(), &id, r#"{"content":[]}"#);
        assert_eq!(chain.agent.line(), result("4", r#"{"content":[]}"#));
    }
    // The agent disconnects, and the provider receives that under its current connection id.
    chain.agent.send(&request(
        "5",
        "mcp/disconnect",
        &format!(r#"{{"connectionId":"{connection}"}}"#),
    ));
    let received = receive(chain.provider());
    assert_eq!(
        (&received["method"], &received["params"]["connectionId"]),
        (&json!("_mcp/disconnect"), &json!("C2"))
    );
    chain.assert_editor_received_nothing();
}

/// When the provider is bypassed, the agent gets errors.
#[test]
fn a_native_agent_gets_errors_for_the_server_of_a_bypassed_proxy() {
    let setup = new_setup().option(&["--on-crash", "1=bypass"]);
    let mut chain = McpChain::start(setup, &["tools", "agent"], NATIVE);
    let entry = chain.new_session("S", &[&[m7("tools", "U")]]).remove(0);
    call_tool(&mut chain.agent, "1", &entry["serverId"], "tools/call");
    receive(chain.provider());
    kill(&chain.proxies[0]);
    assert_crashed(&chain.agent.message(), json!(1));
    call_tool(&mut chain.agent, "2", &entry["serverId"], "tools/call");
    let answer = chain.agent.message();
    assert_eq!(answer["id"], 2, "{answer}");
    assert!(answer["error"]["message"].is_string(), "{answer}");
    chain.proxies.clear();
    chain.assert_editor_received_nothing();
}

/// A provider that crashes before it has answered its greeting, twice, has failed like any other component.
/// Each restart tries the next older greeting after the delay, and is counted. At last it has its tools.
#[test]
fn a_provider_that_crashes_on_its_greetings_is_probed_again_and_keeps_its_tools() {
    let delay = ["--restart-delay", "0.4..0.4", "--restarts", "3/600", "--notices", "off"];
    let mut chain =
        McpChain::start(crate::default_setup().option(&delay), &["tools", "agent"], NATIVE);
    let entry = chain.new_session("S", &[&[m7("tools", "U")]]).remove(0);
    kill(&chain.proxies[0]);
    for _ in 2..=3 {
        let mut proxy = chain.test.wait_for_component("tools");
        let line = proxy.line();
        assert_eq!(line, proxy_greeting(id_of(&line), GREETING));
        let died = Instant::now();
        proxy.exit(3);
        chain.proxies[0] = proxy;
        wait_until("the next process has started", || {
            chain.test.has_reported("tools").then_some(())
        });
        // Jitter shortens the delay by up to half.
        assert!(died.elapsed() >= Duration::from_millis(200), "{:?}", died.elapsed());
    }
    let mut proxy = chain.test.wait_for_component("tools");
    let older = proxy.request("_proxy/initialize");
    // The proxy refuses this greeting. Its envelope shows the generation that it supports.
    proxy.forward("unknown", "_proxy/initialize", "{}");
    let refused = proxy.message();
    proxy.answer_error(&older, &refused["error"].to_string());
    chain.proxies[0] = proxy;
    expect_replay(&mut chain, &[&m7("tools", "V")]);
    call_tool(&mut chain.agent, "1", &entry["serverId"], "tools/call");
    let received = receive(chain.provider());
    assert_eq!(received["params"]["serverId"], "V", "{received}");
    reply(chain.provider(), &received["id"], r#"{"result":{"content":[]}}"#);
    let answer = chain.agent.message();
    assert_eq!((&answer["id"], &answer["result"]["result"]["content"]), (&json!(1), &json!([])));
    let component = status(&chain.test)["components"][0].take();
    assert_eq!((&component["state"], &component["restarts"]), (&json!("live"), &json!(3)));
    chain.assert_editor_received_nothing();
    // The limit of restarts is used up, and no further process was started.
    kill(&chain.proxies[0]);
    wait_until("the provider is bypassed", || {
        (status(&chain.test)["components"][0]["state"] == "bypassed").then_some(())
    });
    chain.test.assert_not_started("tools");
}

// The agent crashes.

/// A restarted agent receives new declarations for its sessions, and may connect before they are restored.
/// The provider learns that the old client has disconnected.
#[test]
fn a_restarted_agent_connects_again() {
    let over_http = r#"{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"mcpCapabilities":{"http":true}}}"#;
    for loads in [STDIO, over_http] {
        let mut chain = chain_with_provider(loads);
        let (entry, mut old) = chain.connect_client(m3("tools", "U"));
        old.send(&request("7", "tools/call", r#"{"name":"t"}"#));
        let call = receive(chain.provider());
        kill(&chain.agent);
        chain.agent = chain.test.wait_for_component("agent");
        let received = chain.agent.request("initialize");
        chain.agent.answer(&received, loads);
        let load = chain.agent.request("session/load");
        assert_eq!(load["params"]["sessionId"], "S", "{load}");
        let again = load["params"]["mcpServers"][0].clone();
        assert_ne!(again, entry, "the declaration has a new secret");
        // The provider receives the cancellation of the call and the end of the old connection.
        let mut methods = Vec::new();
        loop {
            let message = receive(chain.provider());
            let method = message["method"].as_str().expect("a method").to_owned();
            methods.push(method.clone());
            if method == "_mcp/disconnect" {
                assert_eq!(message["params"]["connectionId"], "C", "{message}");
                break;
            }
            if method == "$/cancel_request" {
                assert_eq!(parse(&cancel(&call["id"].to_string())), message);
            }
        }
        assert!(methods.contains(&"$/cancel_request".to_owned()), "{methods:?}");
        let mut client = Client::of(&again);
        connect(&mut client, chain.provider(), "D");
        list_tools(&mut client, chain.provider(), "D");
        chain.agent.answer(&load, "{}");
        list_tools(&mut client, chain.provider(), "D");
        chain.assert_editor_received_nothing();
    }
}

/// The agent's MCP messages do not pass a proxy before the provider, so its crash does not affect them.
#[test]
fn a_crash_of_a_proxy_before_the_provider_does_not_affect_the_tools() {
    for agent in [STDIO, HTTP] {
        let mut chain = McpChain::start(new_setup(), &["first", "tools", "agent"], agent);
        let list = chain.new_session("S", &[&[], &[m3("tools", "U")]]);
        let mut client = Client::of(&list[0]);
        connect(&mut client, &mut chain.proxies[1], "C");
        client.send(&request("7", "tools/call", r#"{"name":"t"}"#));
        let (id, _) = receive_mcp(&mut chain.proxies[1], "C", "tools/call");
        kill(&chain.proxies[0]);
        chain.proxies[0] = chain.test.wait_for_component("first");
        list_tools(&mut client, &mut chain.proxies[1], "C");
        reply(&mut chain.proxies[1], &id, r#"{"content":[]}"#);
        assert_eq!(client.line(), result("7", r#"{"content":[]}"#));
        expect_replay(&mut chain, &[]);
        list_tools(&mut client, &mut chain.proxies[1], "C");
        chain.assert_agent_received_nothing();
    }
}

/// The agent's MCP messages pass a proxy between the agent and the provider. It crashes and is restarted.
#[test]
fn a_proxy_between_the_agent_and_the_provider_is_replaced() {
    let mut chain = McpChain::start(new_setup(), &["tools", "between", "agent"], STDIO);
    let list = chain.new_session("S", &[&[m3("tools", "U")], &[]]);
    let mut client = Client::of(&list[0]);
    let forward_next =
        |chain: &mut McpChain| drop(crate::chain::forward_next(&mut chain.proxies[1]));
    // Each message of the client and each answer passes the proxy.
    client.send(&request("0", "initialize", INITIALIZE_PARAMS));
    forward_next(&mut chain);
    accept_connection(&mut chain.proxies[0], "C");
    forward_next(&mut chain);
    forward_next(&mut chain);
    let (id, _) = receive_mcp(&mut chain.proxies[0], "C", "initialize");
    reply(&mut chain.proxies[0], &id, INITIALIZE_RESULT);
    forward_next(&mut chain);
    assert_eq!(client.line(), result("0", INITIALIZE_RESULT));
    client.send(&notification("notifications/initialized", ""));
    forward_next(&mut chain);
    receive_mcp(&mut chain.proxies[0], "C", "notifications/initialized");
    // It crashes after it has passed one call on, and before it passes on the other.
    client.send(&request("1", "tools/call", r#"{"name":"passed"}"#));
    forward_next(&mut chain);
    let (passed, _) = receive_mcp(&mut chain.proxies[0], "C", "tools/call");
    client.send(&request("2", "tools/call", r#"{"name":"not"}"#));
    receive(&mut chain.proxies[1]);
    kill(&chain.proxies[1]);
    let answer = client.message();
    assert_eq!(answer["id"], 2, "{answer}");
    assert!(answer["error"]["message"].as_str().expect("text").contains("'between'"), "{answer}");
    chain.proxies[1] = chain.test.wait_for_component("between");
    let proxy = &mut chain.proxies[1];
    let line = proxy.line();
    assert_eq!(line, proxy_greeting(id_of(&line), GREETING));
    proxy.forward("init", "initialize", GREETING);
    let answer = proxy.message();
    proxy.send(&result(id_of(&line), &answer["result"].to_string()));
    let received = proxy.request("session/new");
    assert_eq!(received["params"]["mcpServers"].as_array().map(Vec::len), Some(1), "{received}");
    proxy.send(&wrapped_request("1", "session/new", &received["params"].to_string()));
    let answer = proxy.message();
    proxy.answer(&received, &answer["result"].to_string());
    // It also gets the connect again, and the answer from the record.
    forward_next(&mut chain);
    forward_next(&mut chain);
    // The call that was passed on is answered after a barrier. Later calls pass as before.
    reply(&mut chain.proxies[0], &passed, r#"{"content":["passed"]}"#);
    forward_next(&mut chain);
    assert_eq!(client.line(), result("1", r#"{"content":["passed"]}"#));
    forward_next(&mut chain);
    client.send(&request("3", "tools/call", r#"{"name":"later"}"#));
    forward_next(&mut chain);
    let (id, _) = receive_mcp(&mut chain.proxies[0], "C", "tools/call");
    reply(&mut chain.proxies[0], &id, "{}");
    forward_next(&mut chain);
    assert_eq!(client.line(), result("3", "{}"));
}
