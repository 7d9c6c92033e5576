//! How connections, sessions and the chain begin and end.

use serde_json::json;
use testkit::rpc::{error, id_of, notification, request, result};
use testkit::test_chain::{Peer, assert_gone};

use crate::chain::{
    HTTP, INITIALIZE_PARAMS, INITIALIZE_RESULT, McpChain, STDIO, accept_connection, connect,
    list_tools, m3, receive, receive_mcp, reply,
};
use crate::clients::{Bridge, Client, Http, assert_closed, port_of};
use crate::{SHORT_GRACE, new_setup};

const NEW: &str = "session/new";

/// Checklist 75: some agents start their servers before they answer `session/new`, while the provider still
/// waits for that answer.
#[test]
fn an_agent_may_connect_before_it_answers_session_new() {
    for agent in [STDIO, HTTP] {
        let mut chain = McpChain::with_provider(agent);
        let params = json!({ "cwd": "/", "mcpServers": [] });
        let received = chain.request_session(NEW, &params, &[&[m3("tools", "U")]]);
        let mut client = Client::of(&received["mcpServers"][0]);
        connect(&mut client, chain.provider(), "C");
        list_tools(&mut client, chain.provider(), "C");
        chain.answer(r#"{"sessionId":"S"}"#);
        // The client still works after the answer. So does one that connects at the first prompt.
        list_tools(&mut client, chain.provider(), "C");
        let mut late = Client::of(&received["mcpServers"][0]);
        connect(&mut late, chain.provider(), "D");
        list_tools(&mut late, chain.provider(), "D");
    }
}

/// The provider does nothing before its `session/new` is answered, and the agent answers only after its
/// servers have. The conductor answers the client in the provider's place.
#[test]
fn a_provider_that_waits_for_the_session_does_not_block_it() {
    for agent in [STDIO, HTTP] {
        let mut chain = McpChain::with_provider(agent);
        let params = json!({ "cwd": "/", "mcpServers": [] });
        let received = chain.request_session(NEW, &params, &[&[m3("tools", "U")]]);
        let mut client = Client::of(&received["mcpServers"][0]);
        client.send(&request("0", "initialize", INITIALIZE_PARAMS));
        let connect = receive(chain.provider());
        assert_eq!(connect["method"], "_mcp/connect", "{connect}");
        // The provider does not answer that, and still the client receives an answer.
        let answer = client.message();
        assert_eq!(
            (&answer["id"], &answer["result"]["protocolVersion"]),
            (&json!(0), &json!("2025-06-18"))
        );
        assert_eq!(answer["result"]["serverInfo"]["name"], "tools", "{answer}");
        client.send(&notification("notifications/initialized", ""));
        client.send(&request("1", "tools/list", ""));
        chain.answer(r#"{"sessionId":"S"}"#);
        reply(chain.provider(), &connect["id"], r#"{"connectionId":"C"}"#);
        let (id, _) = receive_mcp(chain.provider(), "C", "initialize");
        reply(chain.provider(), &id, INITIALIZE_RESULT);
        receive_mcp(chain.provider(), "C", "notifications/initialized");
        let (id, _) = receive_mcp(chain.provider(), "C", "tools/list");
        reply(chain.provider(), &id, r#"{"tools":[]}"#);
        // The client is asked to list the tools again, now that the server has answered.
        assert_eq!(client.line(), notification("notifications/tools/list_changed", ""));
        assert_eq!(client.line(), result("1", r#"{"tools":[]}"#));
    }
}

/// Checklist 55.
#[test]
fn a_slow_set_up_blocks_no_other_message_and_changes_no_order() {
    for agent in [STDIO, HTTP] {
        let mut chain = McpChain::with_provider(agent);
        let new = |chain: &mut McpChain, id: &str, server: &str| {
            let params = format!(r#"{{"cwd":"/","mcpServers":[{}]}}"#, m3("tools", server));
            chain.test.editor.send(&request(id, NEW, r#"{"cwd":"/","mcpServers":[]}"#));
            let received = chain.provider().request(NEW);
            chain.provider().forward(id, NEW, &params);
            let at_agent = chain.agent.request(NEW);
            (received, at_agent)
        };
        // The first session: its client connects, and the provider does not answer yet.
        let (slow_asked, slow) = new(&mut chain, "1", "U");
        let mut waiting = Client::of(&slow["params"]["mcpServers"][0]);
        waiting.send(&request("0", "initialize", INITIALIZE_PARAMS));
        let slow_connect = receive(chain.provider());
        // The second session begins, works and answers meanwhile.
        let (received, at_agent) = new(&mut chain, "2", "V");
        let mut client = Client::of(&at_agent["params"]["mcpServers"][0]);
        connect(&mut client, chain.provider(), "V-1");
        list_tools(&mut client, chain.provider(), "V-1");
        chain.agent.answer(&at_agent, r#"{"sessionId":"fast"}"#);
        assert_eq!(chain.provider().message()["result"]["sessionId"], "fast");
        chain.provider().answer(&received, r#"{"sessionId":"fast"}"#);
        assert_eq!(chain.test.editor.message()["id"], 2);
        // Messages after the first set-up request keep their order.
        for n in 0..20 {
            let params = format!(r#"{{"n":{n}}}"#);
            chain.provider().send(&testkit::rpc::wrapped_notification("_x/later", &params));
            assert_eq!(chain.agent.line(), notification("_x/later", &params));
        }
        reply(chain.provider(), &slow_connect["id"], r#"{"connectionId":"U-1"}"#);
        let (id, _) = receive_mcp(chain.provider(), "U-1", "initialize");
        reply(chain.provider(), &id, INITIALIZE_RESULT);
        assert_eq!(waiting.message()["id"], 0);
        chain.agent.answer(&slow, r#"{"sessionId":"slow"}"#);
        assert_eq!(chain.provider().message()["result"]["sessionId"], "slow");
        chain.provider().answer(&slow_asked, r#"{"sessionId":"slow"}"#);
        assert_eq!(chain.test.editor.message()["id"], 1);
    }
}

/// Checklist 87: the agent closes its client.
#[test]
fn the_provider_learns_when_a_client_disconnects() {
    for agent in [STDIO, HTTP] {
        let mut chain = McpChain::with_provider(agent);
        let (entry, mut client) = chain.connect_client(m3("tools", "U"));
        client.send(&request("1", "tools/call", "{}"));
        let (id, _) = receive_mcp(chain.provider(), "C", "tools/call");
        client.close();
        // The open call is cancelled, and then the connection is closed.
        let mut methods = Vec::new();
        loop {
            let message = receive(chain.provider());
            let method = message["method"].as_str().expect("a method").to_owned();
            if method == "_mcp/disconnect" {
                assert_eq!(message["params"]["connection_id"], "C", "{message}");
                break;
            }
            methods.push(method);
        }
        assert_eq!(methods[0], "$/cancel_request");
        chain.provider().send(&error(&id.to_string(), r#"{"code":-32800,"message":"m"}"#));
        // Another client can use the declaration.
        let mut again = Client::of(&entry);
        connect(&mut again, chain.provider(), "D");
        chain.assert_editor_received_nothing();
    }
}

/// Checklist 87: after `session/close` the secret is invalid and the port is closed.
#[test]
fn a_closed_session_closes_its_servers() {
    for agent in [STDIO, HTTP] {
        let mut chain = McpChain::with_provider(agent);
        let (entry, mut client) = chain.connect_client(m3("tools", "U"));
        let kept = chain.new_session("S2", &[&[m3("tools", "V")]]).remove(0);
        chain.close_session("S");
        let received = receive(chain.provider());
        assert_eq!(
            (&received["method"], &received["params"]["connectionId"]),
            (&json!("_mcp/disconnect"), &json!("C"))
        );
        // The other session uses the same port, and continues.
        match &mut client {
            Client::Stdio(bridge) => {
                assert_eq!(
                    bridge.status(),
                    (0, String::new()),
                    "the conductor closed the connection"
                );
                let (status, stderr) = Bridge::start(&entry).status();
                assert_eq!(status, 1, "{stderr}");
                assert!(stderr.contains("rejected the secret"), "{stderr}");
            }
            Client::Http(http) => {
                let reply = http.call("POST", &[], &request("1", "tools/list", ""));
                assert_eq!(reply.status, 404, "{}", reply.head);
                http.session = None;
                let reply = http.call("POST", &[], &request("1", "initialize", INITIALIZE_PARAMS));
                assert_eq!(reply.status, 404, "{}", reply.head);
            }
        }
        let mut other = Client::of(&kept);
        connect(&mut other, chain.provider(), "D");
        list_tools(&mut other, chain.provider(), "D");
        chain.close_session("S2");
        assert_eq!(receive(chain.provider())["method"], "_mcp/disconnect");
        assert_closed(port_of(&kept));
        // The next session gets a new port.
        let next = chain.new_session("S3", &[&[m3("tools", "W")]]).remove(0);
        let mut client = Client::of(&next);
        connect(&mut client, chain.provider(), "E");
        list_tools(&mut client, chain.provider(), "E");
    }
}

/// A session that the agent refuses leaves nothing behind.
#[test]
fn a_refused_session_closes_its_servers() {
    for (agent, how) in [(STDIO, "stdio"), (HTTP, "http")] {
        let forced = new_setup().option(&["--mcp-bridge", how]);
        let mut chain = McpChain::start(forced, &["tools", "agent"], agent);
        let params = json!({ "cwd": "/", "mcpServers": [] });
        let received = chain.request_session(NEW, &params, &[&[m3("tools", "U")]]);
        let entry = &received["mcpServers"][0];
        let mut client = Client::of(entry);
        connect(&mut client, chain.provider(), "C");
        let refusal = r#"{"code":-32000,"message":"Authentication required"}"#;
        chain.refuse(refusal);
        assert_eq!(receive(chain.provider())["method"], "_mcp/disconnect");
        assert_closed(port_of(entry));
    }
}

/// Checklist 102: when the editor disconnects, all processes end and all ports are closed.
#[test]
fn all_bridges_end_when_the_editor_disconnects() {
    for agent in [STDIO, HTTP] {
        let mut chain =
            McpChain::start(new_setup().option(&SHORT_GRACE), &["tools", "agent"], agent);
        let (entry, mut client) = chain.connect_client(m3("tools", "U"));
        client.send(&request("1", "tools/call", "{}"));
        receive_mcp(chain.provider(), "C", "tools/call");
        chain.test.editor.close();
        assert_eq!(chain.test.conductor.status(), 0);
        match &mut client {
            Client::Stdio(bridge) => {
                let pid = bridge.pid();
                let (status, stderr) = bridge.status();
                assert_eq!((status, stderr.as_str()), (0, ""));
                assert_gone(pid, "conductor mcp");
            }
            Client::Http(_) => {}
        }
        assert_closed(port_of(&entry));
        for component in [&chain.agent, &chain.proxies[0]] {
            assert_gone(component.pid, &component.name);
        }
    }
}

/// When the conductor is killed, `conductor mcp` ends.
#[test]
fn the_bridges_of_a_killed_conductor_end() {
    let mut chain = McpChain::with_provider(STDIO);
    let (entry, client) = chain.connect_client(m3("tools", "U"));
    chain.test.conductor.signal(libc::SIGKILL);
    chain.test.conductor.wait();
    let Client::Stdio(mut bridge) = client else { panic!("not stdio") };
    assert_eq!(bridge.status().0, 0);
    assert_closed(port_of(&entry));
}

/// When a bridge process is killed, its calls are cancelled and its connection is closed. Another client can
/// use the declaration.
#[test]
fn the_provider_learns_when_a_bridge_is_killed() {
    let mut chain = McpChain::with_provider(STDIO);
    let (entry, client) = chain.connect_client(m3("tools", "U"));
    let Client::Stdio(mut bridge) = client else { panic!("not stdio") };
    bridge.send(&request("1", "tools/call", "{}"));
    let line = chain.provider().line();
    bridge.kill();
    assert_eq!(bridge.status().0, -libc::SIGKILL);
    let received = chain.provider().message();
    assert_eq!(received["method"], "$/cancel_request", "{received}");
    assert_eq!(received["params"]["requestId"].to_string(), id_of(&line));
    let received = receive(chain.provider());
    assert_eq!(received["params"]["method"], "notifications/cancelled", "{received}");
    let received = receive(chain.provider());
    assert_eq!(
        (&received["method"], &received["params"]["connectionId"]),
        (&json!("_mcp/disconnect"), &json!("C"))
    );
    // The provider answers all the same. The answer is dropped.
    chain.provider().send(&result(id_of(&line), "{}"));
    let mut again = Client::of(&entry);
    connect(&mut again, chain.provider(), "D");
    list_tools(&mut again, chain.provider(), "D");
    chain.assert_agent_received_nothing();
}

/// A server's request to a client that has disconnected is answered with an error.
#[test]
fn requests_to_a_disconnected_client_are_answered_with_an_error() {
    for agent in [STDIO, HTTP] {
        let mut chain = McpChain::with_provider(agent);
        let (_, mut client) = chain.connect_client(m3("tools", "U"));
        if let Client::Http(http) = &client {
            http.listen();
        }
        let params = r#"{"connectionId":"C","method":"sampling/createMessage","params":{}}"#;
        chain.provider().send(&testkit::rpc::wrapped_request("7", "_mcp/message", params));
        assert_eq!(client.message()["method"], "sampling/createMessage");
        client.close();
        let answer = chain.provider().message();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(-32603)));
        assert_eq!(receive(chain.provider())["method"], "_mcp/disconnect");
    }
}

/// When the provider closes a connection, the server of the agent ends.
#[test]
fn a_provider_may_close_a_connection() {
    let mut chain = McpChain::with_provider(STDIO);
    let (entry, mut client) = chain.connect_client(m3("tools", "U"));
    let params = r#"{"connection_id":"C","connectionId":"C"}"#;
    chain.provider().send(&testkit::rpc::wrapped_notification("_mcp/disconnect", params));
    let Client::Stdio(bridge) = &mut client else { panic!("not stdio") };
    assert_eq!(bridge.status(), (0, String::new()));
    let mut again = Client::of(&entry);
    connect(&mut again, chain.provider(), "D");
    chain.assert_agent_received_nothing();
}

/// A provider crashes during a call. The client's error names the provider, and the agent's requests are
/// answered.
#[test]
fn the_error_of_a_call_names_the_crashed_provider() {
    for agent in [STDIO, HTTP] {
        let mut chain = McpChain::start(new_setup(), &["other", "tools", "agent"], agent);
        let servers: [&[String]; 2] = [&[m3("others", "O")], &[m3("tools", "U")]];
        let list = chain.new_session("S", &servers);
        let mut client = Client::of(&list[1]);
        connect(&mut client, &mut chain.proxies[1], "C");
        client.send(&request("1", "tools/call", "{}"));
        receive_mcp(&mut chain.proxies[1], "C", "tools/call");
        chain.agent.send(&request("1", "_x/ask", "{}"));
        receive(&mut chain.proxies[1]);
        chain.proxies[1].write_stderr("out of tools\n");
        chain.proxies[1].exit(3);
        let answer = client.message();
        assert_eq!(answer["id"], 1, "{answer}");
        let message = answer["error"]["message"].as_str().expect("an error");
        assert!(message.contains("'tools'") && message.contains("status 3"), "{message}");
        assert!(message.contains("out of tools"), "{message}");
        let answer = chain.agent.message();
        assert_eq!(answer["id"], 1, "{answer}");
        assert!(answer["error"]["message"].as_str().expect("text").contains("'tools'"));
    }
}

/// Over HTTP a client can end its session at any time and begin another one.
#[test]
fn an_http_client_may_connect_repeatedly() {
    let mut chain = McpChain::with_provider(HTTP);
    let (entry, client) = chain.connect_client(m3("tools", "U"));
    client.close();
    assert_eq!(receive(chain.provider())["method"], "_mcp/disconnect");
    for n in 0..5 {
        let mut client = Client::of(&entry);
        let connection = format!("D{n}");
        client.send(&request("0", "initialize", INITIALIZE_PARAMS));
        accept_connection(chain.provider(), &connection);
        let (id, _) = receive_mcp(chain.provider(), &connection, "initialize");
        reply(chain.provider(), &id, INITIALIZE_RESULT);
        assert_eq!(client.line(), result("0", INITIALIZE_RESULT));
        let Client::Http(http) = &client else { panic!("not HTTP") };
        Http::listen(http);
        client.close();
        assert_eq!(receive(chain.provider())["method"], "_mcp/disconnect");
    }
}
