//! Messages between the agent's MCP client and a server in the chain, on either transport.

use serde_json::{Value, json};
use testkit::rpc::{
    cancel, error, id_of, notification, request, result, wrapped_notification, wrapped_request,
};
use testkit::test_chain::{Peer, ScriptedComponent, parse};

use crate::chain::{HTTP, McpChain, STDIO, connect, list_tools, m3, receive, receive_mcp, reply};
use crate::clients::{Client, Http};
use crate::new_setup;

/// Numbers that most parsers cannot represent.
const NUMBERS: &str = r#""n":[123456789012345678901234567890,1.10,1e400,-0.0]"#;

fn repeat_to_8_mib(filling: &str) -> String {
    filling.repeat(8 * 1024 * 1024 / filling.len())
}

/// An MCP message on the connection `C`, as the provider receives and sends it (M3).
fn on_connection_c(method: &str, params: &str) -> String {
    format!(r#"{{"connectionId":"C","method":"{method}","params":{params}}}"#)
}

/// 8 MiB in an argument and in a result pass unchanged.
#[test]
fn long_messages_pass_byte_for_byte() {
    for agent in [STDIO, HTTP] {
        let mut chain = McpChain::with_provider(agent);
        let (_, mut client) = chain.connect_client(m3("tools", "U"));
        let params = format!(
            r#"{{"name":"t","arguments":{{"text":"{}", {NUMBERS}}}}}"#,
            repeat_to_8_mib("wörds and \\\"quotes\\u00e9 ")
        );
        client.send(&request("\"x\"", "tools/call", &params));
        let line = chain.provider().line();
        let expected =
            wrapped_request(id_of(&line), "_mcp/message", &on_connection_c("tools/call", &params));
        assert!(line == expected, "{} bytes of {}", line.len(), expected.len());
        let answer =
            format!(r#"{{"content":[],"text":"{}", {NUMBERS}}}"#, repeat_to_8_mib("änswer\\n "));
        chain.provider().send(&result(id_of(&line), &answer));
        let line = client.line();
        let expected = result("\"x\"", &answer);
        assert!(line == expected, "{} bytes of {}", line.len(), expected.len());
        list_tools(&mut client, chain.provider(), "C");
    }
}

/// Checklist 38 for tools: two connections to one server. Both clients use the same ids.
#[test]
fn a_thousand_concurrent_calls_on_two_connections_get_their_own_answers() {
    let mut chain = McpChain::with_provider(STDIO);
    let (entry, mut first) = chain.connect_client(m3("tools", "U"));
    let mut second = Client::of(&entry);
    connect(&mut second, chain.provider(), "D");
    let call = |n: usize| request(&n.to_string(), "tools/call", &format!(r#"{{"n":{n}}}"#));
    for n in 0..500 {
        first.send(&call(n));
        second.send(&call(n));
    }
    let mut received = [Vec::new(), Vec::new()];
    for _ in 0..1000 {
        let message = receive(chain.provider());
        let params = &message["params"];
        let whose = usize::from(params["connectionId"] == "D");
        // The messages of each client keep their order.
        assert_eq!(params["params"]["n"], received[whose].len(), "{message}");
        received[whose].push(message["id"].clone());
    }
    // The answers come in another order than the requests.
    for n in (0..500).rev() {
        for (whose, name) in ["C", "D"].iter().enumerate() {
            let answer = format!(r#"{{"of":"{name}{n}"}}"#);
            reply(chain.provider(), &received[whose][n], &answer);
        }
    }
    for (client, name) in [(&mut first, "C"), (&mut second, "D")] {
        for n in (0..500).rev() {
            let expected = format!(r#"{{"of":"{name}{n}"}}"#);
            assert_eq!(client.line(), result(&n.to_string(), &expected));
        }
    }
}

/// The same over HTTP, with a connection for each call.
#[test]
fn concurrent_calls_over_http_get_their_own_answers() {
    let mut chain = McpChain::with_provider(HTTP);
    let (_, mut client) = chain.connect_client(m3("tools", "U"));
    for n in 0..100 {
        client.send(&request(&n.to_string(), "tools/call", &format!(r#"{{"n":{n}}}"#)));
    }
    for _ in 0..100 {
        let message = receive(chain.provider());
        let answer = message["params"]["params"].to_string();
        reply(chain.provider(), &message["id"], &answer);
    }
    let mut answered: Vec<Value> = (0..100).map(|_| client.message()).collect();
    answered.sort_by_key(|answer| answer["id"].as_u64());
    for (n, answer) in answered.iter().enumerate() {
        assert_eq!(answer["result"]["n"], n, "{answer}");
    }
}

/// Checklist 53, 54 for tools: notifications in both directions.
#[test]
fn notifications_and_later_messages_stay_in_order() {
    for agent in [STDIO, HTTP] {
        let mut chain = McpChain::with_provider(agent);
        let (_, mut client) = chain.connect_client(m3("tools", "U"));
        let meta = r#"{"name":"t","_meta":{"progressToken":"p"}}"#;
        client.send(&request("1", "tools/call", meta));
        let (id, _) = receive_mcp(chain.provider(), "C", "tools/call");
        let progress = |n: usize| format!(r#"{{"progressToken":"p","progress":{n},"x":1.10}}"#);
        for n in 0..500 {
            let params = on_connection_c("notifications/progress", &progress(n));
            chain.provider().send(&wrapped_notification("_mcp/message", &params));
        }
        reply(chain.provider(), &id, "{}");
        for n in 0..500 {
            assert_eq!(client.line(), notification("notifications/progress", &progress(n)));
        }
        assert_eq!(client.line(), result("1", "{}"));
        // The other direction. Over HTTP each notification is a call, so fewer are sent.
        let count = if agent == STDIO { 500 } else { 20 };
        for n in 0..count {
            client.send(&notification("notifications/progress", &progress(n)));
        }
        client.send(&request("2", "tools/list", ""));
        for n in 0..count {
            let line = chain.provider().line();
            let params = on_connection_c("notifications/progress", &progress(n));
            assert_eq!(line, wrapped_notification("_mcp/message", &params));
        }
        receive_mcp(chain.provider(), "C", "tools/list");
    }
}

/// The provider receives the cancellation in ACP and in MCP. Its answer is not for the client, which no
/// longer waits.
#[test]
fn a_client_can_cancel_a_call() {
    for agent in [STDIO, HTTP] {
        let mut chain = McpChain::with_provider(agent);
        let (_, mut client) = chain.connect_client(m3("tools", "U"));
        client.send(&request("\"slow\"", "tools/call", "{}"));
        let (id, _) = receive_mcp(chain.provider(), "C", "tools/call");
        let params = r#"{"requestId":"slow","reason":"bored"}"#;
        client.send(&notification("notifications/cancelled", params));
        let mut received = [chain.provider().line(), chain.provider().line()];
        received.sort();
        let params =
            on_connection_c("notifications/cancelled", &format!(r#"{{"requestId":{id}}}"#));
        assert_eq!(
            received,
            [cancel(&id.to_string()), wrapped_notification("_mcp/message", &params)]
        );
        chain.provider().send(&error(&id.to_string(), r#"{"code":-32800,"message":"ended"}"#));
        // A second cancellation, and one of an unknown request, have no effect.
        client.send(&notification("notifications/cancelled", r#"{"requestId":"slow"}"#));
        client.send(&notification("notifications/cancelled", r#"{"requestId":17}"#));
        if agent == HTTP {
            // Over HTTP the request is a stream, which has to end.
            assert!(client.line().contains("-32800"));
        }
        list_tools(&mut client, chain.provider(), "C");
    }
}

/// The provider sends its client a request. Returns the line that the client receives.
fn send_server_request(
    provider: &mut ScriptedComponent,
    client: &mut Client,
    method: &str,
    params: &str,
) -> String {
    provider.send(&wrapped_request("\"s\"", "_mcp/message", &on_connection_c(method, params)));
    let line = client.line();
    assert_eq!(line, request(id_of(&line), method, params));
    line
}

/// Checklist 91: all requests that a server may send to its client.
#[test]
fn a_server_can_send_requests_to_its_client() {
    for agent in [STDIO, HTTP] {
        let mut chain = McpChain::with_provider(agent);
        let (_, mut client) = chain.connect_client(m3("tools", "U"));
        if let Client::Http(http) = &client {
            http.listen();
        }
        let provider = &mut chain.proxies[0];
        for (method, params, answer) in [
            ("sampling/createMessage", r#"{"messages":[],"maxTokens":1.10}"#, r#"{"n":1e400}"#),
            ("elicitation/create", r#"{"message":"?"}"#, r#"{"action":"accept","content":{}}"#),
            ("roots/list", "{}", r#"{"roots":[{"uri":"file:///x"}]}"#),
            ("ping", "{}", "{}"),
        ] {
            let line = send_server_request(provider, &mut client, method, params);
            client.send(&result(id_of(&line), answer));
            assert_eq!(provider.line(), result("\"s\"", answer));
            let line = send_server_request(provider, &mut client, method, params);
            let refusal = r#"{"code":-1,"message":"User rejected","data":{"n":1.10}}"#;
            client.send(&error(id_of(&line), refusal));
            assert_eq!(provider.line(), error("\"s\"", refusal));
        }
        // The server cancels its request.
        let line = send_server_request(provider, &mut client, "sampling/createMessage", "{}");
        provider.send(&cancel("\"s\""));
        let params = format!(r#"{{"requestId":{}}}"#, id_of(&line));
        assert_eq!(client.line(), notification("notifications/cancelled", &params));
        let answer = provider.message();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("s"), &json!(-32800)));
        let params = on_connection_c("notifications/tools/list_changed", "{}");
        provider.send(&wrapped_notification("_mcp/message", &params));
        assert_eq!(client.line(), notification("notifications/tools/list_changed", "{}"));
        chain.assert_agent_received_nothing();
    }
}

/// The server sends its client a request during a call. The answer reaches the server while the call is open.
#[test]
fn a_server_can_send_requests_during_a_call() {
    for agent in [STDIO, HTTP] {
        let mut chain = McpChain::with_provider(agent);
        let (_, mut client) = chain.connect_client(m3("tools", "U"));
        client.send(&request("5", "tools/call", "{}"));
        let provider = &mut chain.proxies[0];
        let (id, _) = receive_mcp(provider, "C", "tools/call");
        let line = send_server_request(provider, &mut client, "sampling/createMessage", "{}");
        client.send(&result(id_of(&line), r#"{"role":"assistant"}"#));
        assert_eq!(provider.line(), result("\"s\"", r#"{"role":"assistant"}"#));
        reply(provider, &id, "{}");
        assert_eq!(client.line(), result("5", "{}"));
    }
}

/// An error of the server, and an error of the connection.
#[test]
fn errors_of_the_server_and_of_the_connection_reach_the_client() {
    for agent in [STDIO, HTTP] {
        let mut chain = McpChain::with_provider(agent);
        let (entry, mut client) = chain.connect_client(m3("tools", "U"));
        let refusal = r#"{"code":-32000,"message":"no","data":{"n":1.10},"unknown":1e400}"#;
        client.send(&request("1", "tools/call", "{}"));
        let (id, _) = receive_mcp(chain.provider(), "C", "tools/call");
        chain.provider().send(&error(&id.to_string(), refusal));
        assert_eq!(client.line(), error("1", refusal));
        // The provider refuses to connect.
        let mut another = Client::of(&entry);
        another.send(&request("0", "initialize", "{}"));
        let received = receive(chain.provider());
        assert_eq!(received["method"], "_mcp/connect", "{received}");
        let refusal = r#"{"code":-32000,"message":"too many"}"#;
        chain.provider().send(&error(&received["id"].to_string(), refusal));
        assert_eq!(another.line(), error("0", refusal));
        // The client may try again. Over HTTP there was no session.
        if let Client::Http(http) = &mut another {
            http.session = None;
        }
        another.send(&request("1", "initialize", "{}"));
        assert_eq!(receive(chain.provider())["method"], "_mcp/connect");
    }
}

/// Checklist 86: a message of the provider to an unknown connection is answered with an error.
#[test]
fn a_message_to_an_unknown_connection_is_refused() {
    let mut chain = McpChain::with_provider(STDIO);
    let (_, mut client) = chain.connect_client(m3("tools", "U"));
    let params = r#"{"connectionId":"nobody","method":"ping","params":{}}"#;
    chain.provider().send(&wrapped_request("1", "_mcp/message", params));
    let answer = chain.provider().message();
    assert_eq!(answer["id"], 1, "{answer}");
    assert!(answer["error"]["message"].as_str().expect("text").contains("nobody"), "{answer}");
    chain.provider().send(&wrapped_notification("_mcp/message", params));
    // The agent connects to a server that does not exist.
    chain.agent.send(&request("1", "_mcp/connect", r#"{"acp_url":"acp:nothing"}"#));
    let received = receive(chain.provider());
    chain.provider().send(&request("9", "_mcp/connect", &received["params"].to_string()));
    let answer = chain.provider().message();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(9), &json!(-32602)));
    list_tools(&mut client, chain.provider(), "C");
    chain.assert_agent_received_nothing();
}

/// A line of the client that is not a message is answered with an error.
#[test]
fn invalid_lines_of_a_client_are_answered_with_an_error() {
    let mut chain = McpChain::with_provider(STDIO);
    let (_, mut client) = chain.connect_client(m3("tools", "U"));
    for (nonsense, id, code) in [
        ("nonsense", Value::Null, -32700),
        (r#"{"jsonrpc":"2.0","id":4}"#, json!(4), -32600),
        ("[]", Value::Null, -32600),
    ] {
        client.send(nonsense);
        let answer = client.message();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&id, &json!(code)), "{answer}");
    }
    client.send("");
    client.send(r#"{"jsonrpc":"2.0","id":"never asked","result":{}}"#);
    list_tools(&mut client, chain.provider(), "C");
}

/// Checklist 90: a proxy between the agent and the provider sees MCP messages, and may change them.
#[test]
fn a_proxy_between_the_agent_and_the_provider_sees_the_mcp_messages() {
    for agent in [STDIO, HTTP] {
        let mut chain = McpChain::start(new_setup(), &["tools", "watch", "agent"], agent);
        let entry = chain.new_session("S", &[&[m3("tools", "U")]]).remove(0);
        let mut client = Client::of(&entry);
        let [provider, watch] = &mut chain.proxies[..] else { panic!("two were named") };
        client.send(&request("0", "initialize", "{}"));
        let connect = receive(watch);
        assert_eq!(connect["method"], "_mcp/connect", "{connect}");
        watch.send(&request("1", "_mcp/connect", &connect["params"].to_string()));
        let received = receive(provider);
        assert_eq!(received["params"]["acp_url"], "acp:U", "{received}");
        reply(provider, &received["id"], r#"{"connectionId":"C"}"#);
        let answer = watch.message();
        assert_eq!(answer["id"], 1, "{answer}");
        reply(watch, &connect["id"], &answer["result"].to_string());
        let message = receive(watch);
        let mut params = message["params"].clone();
        assert_eq!(params["method"], "initialize", "{message}");
        params["params"]["seen"] = json!(true);
        watch.send(&request("2", "_mcp/message", &params.to_string()));
        let (id, params) = receive_mcp(provider, "C", "initialize");
        assert_eq!(params, json!({ "seen": true }));
        reply(provider, &id, "{}");
        assert_eq!(watch.line(), result("2", "{}"));
        reply(watch, &message["id"], r#"{"changed":1.10}"#);
        assert_eq!(client.line(), result("0", r#"{"changed":1.10}"#));
        // A request of the server.
        let params = on_connection_c("roots/list", "{}");
        provider.send(&wrapped_request("7", "_mcp/message", &params));
        let received = watch.line();
        assert_eq!(received, request(id_of(&received), "_mcp/message", &params));
        watch.send(&wrapped_request("8", "_mcp/message", &params));
        if let Client::Http(http) = &client {
            http.listen();
        }
        let line = client.line();
        client.send(&result(id_of(&line), "[]"));
        assert_eq!(watch.line(), result("8", "[]"));
        watch.send(&result(id_of(&received), "[]"));
        assert_eq!(provider.line(), result("7", "[]"));
    }
}

/// Proxies of older generations parse every connect request and pass on only the member that they know. The
/// next component receives all spellings again. Seen with SDK 0.11 after 1.3.
#[test]
fn a_connect_request_carries_all_spellings_at_every_hop() {
    let names = ["tools", "older", "newer", "agent"];
    let mut chain = McpChain::start(new_setup(), &names, STDIO);
    let entry = chain.new_session("S", &[&[m3("tools", "U")]]).remove(0);
    let mut client = Client::of(&entry);
    client.send(&request("0", "initialize", "{}"));
    let all = json!({ "acp_url": "acp:U", "acp_id": "acp:U", "url": "acp:U" });
    assert_eq!(receive(&mut chain.proxies[2])["params"], all);
    chain.proxies[2].send(&request("1", "_mcp/connect", r#"{"acp_id":"acp:U"}"#));
    assert_eq!(receive(&mut chain.proxies[1])["params"], all);
    chain.proxies[1].send(&request("1", "_mcp/connect", r#"{"acp_url":"acp:U"}"#));
    let mut provided = all.clone();
    // A provider may belong to a generation in which the consumer chooses the id.
    provided["connectionId"] = "mcp-over-acp:1".into();
    assert_eq!(receive(&mut chain.proxies[0])["params"], provided);
}

/// Checklist 84: two servers of one proxy, the same proxy in two sessions, and several proxies.
#[test]
fn servers_and_sessions_are_kept_apart() {
    for agent in [STDIO, HTTP] {
        let mut chain = McpChain::start(new_setup(), &["near", "far", "agent"], agent);
        let near = [m3("a", "A"), m3("b", "B")];
        let mut clients = Vec::new();
        for session in ["S1", "S2"] {
            let far = [m3("z", &format!("Z-{session}"))];
            let list = chain.new_session(session, &[&near, &far]);
            for (entry, server) in list.iter().zip(["A", "B", &format!("Z-{session}")]) {
                let mut client = Client::of(entry);
                client.send(&request("0", "initialize", "{}"));
                let connection = format!("{session}-{server}");
                let received = receive(&mut chain.proxies[1]);
                assert_eq!(received["params"]["acp_url"], format!("acp:{server}"));
                let params = received["params"].to_string();
                let given = json!({ "connectionId": connection }).to_string();
                if server.starts_with('Z') {
                    reply(&mut chain.proxies[1], &received["id"], &given);
                } else {
                    chain.proxies[1].send(&request("1", "_mcp/connect", &params));
                    let at_near = receive(&mut chain.proxies[0]);
                    assert_eq!(at_near["params"]["acp_url"], format!("acp:{server}"));
                    reply(&mut chain.proxies[0], &at_near["id"], &given);
                    let answer = chain.proxies[1].message();
                    reply(&mut chain.proxies[1], &received["id"], &answer["result"].to_string());
                }
                let (id, _) = receive_mcp(&mut chain.proxies[1], &connection, "initialize");
                reply(&mut chain.proxies[1], &id, "{}");
                assert_eq!(client.line(), result("0", "{}"));
                clients.push((connection, client));
            }
        }
        // Each client reaches its own connection.
        for (connection, client) in clients.iter_mut().rev() {
            client.send(&request("1", "tools/list", ""));
            let (id, _) = receive_mcp(&mut chain.proxies[1], connection, "tools/list");
            let answer = json!({ "of": connection }).to_string();
            reply(&mut chain.proxies[1], &id, &answer);
            assert_eq!(client.line(), result("1", &answer));
        }
    }
}

/// Checklist 85: two connections to one server, each with its own state.
#[test]
fn two_connections_to_one_server_are_kept_apart() {
    for agent in [STDIO, HTTP] {
        let mut chain = McpChain::with_provider(agent);
        let (entry, mut first) = chain.connect_client(m3("tools", "U"));
        let mut second = Client::of(&entry);
        connect(&mut second, chain.provider(), "D");
        list_tools(&mut second, chain.provider(), "D");
        list_tools(&mut first, chain.provider(), "C");
        // A message to one client does not reach the other.
        for (connection, client) in [("D", &mut second), ("C", &mut first)] {
            if let Client::Http(http) = &*client {
                Http::listen(http);
            }
            let params = format!(
                r#"{{"connectionId":"{connection}","method":"roots/list","params":{{"c":"{connection}"}}}}"#
            );
            chain.proxies[0].send(&wrapped_request("1", "_mcp/message", &params));
            let line = client.line();
            assert_eq!(parse(&line)["params"]["c"], connection);
            client.send(&result(id_of(&line), "{}"));
            assert_eq!(chain.proxies[0].line(), result("1", "{}"));
        }
        first.close();
        let gone = receive(chain.provider());
        assert_eq!(
            (&gone["method"], &gone["params"]["connectionId"]),
            (&json!("_mcp/disconnect"), &json!("C"))
        );
        list_tools(&mut second, chain.provider(), "D");
    }
}
