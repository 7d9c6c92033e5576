//! What travels between an agent's MCP client and a server in the chain, on either transport.

use serde_json::{Value, json};
use testkit::rpc::{
    cancel, error, id_of, notification, request, result, wrapped_notification, wrapped_request,
};
use testkit::stage::{Peer, Puppet, parse};

use crate::clients::{Client, Http};
use crate::play::{HTTP, Play, STDIO, connect, heard, list_tools, m3, reply, said};
use crate::stage;

/// Numbers that most programs cannot keep.
const NUMBERS: &str = r#""n":[123456789012345678901234567890,1.10,1e400,-0.0]"#;

fn long(filling: &str) -> String {
    filling.repeat(8 * 1024 * 1024 / filling.len())
}

/// An MCP message on the connection `C`, as the provider gets it and sends it (M3).
fn on_c(method: &str, params: &str) -> String {
    format!(r#"{{"connectionId":"C","method":"{method}","params":{params}}}"#)
}

/// Issue 4: 8 MiB in an argument and in a result, not a byte changed.
#[test]
fn long_messages_pass_byte_for_byte() {
    for agent in [STDIO, HTTP] {
        let mut play = Play::tools(agent);
        let (_, mut client) = play.connected(m3("tools", "U"));
        let params = format!(
            r#"{{"name":"t","arguments":{{"text":"{}", {NUMBERS}}}}}"#,
            long("wörds and \\\"quotes\\u00e9 ")
        );
        client.send(&request("\"x\"", "tools/call", &params));
        let line = play.tool_proxy().line();
        let expected = wrapped_request(id_of(&line), "_mcp/message", &on_c("tools/call", &params));
        assert!(line == expected, "{} bytes of {}", line.len(), expected.len());
        let answer = format!(r#"{{"content":[],"text":"{}", {NUMBERS}}}"#, long("änswer\\n "));
        play.tool_proxy().send(&result(id_of(&line), &answer));
        let line = client.line();
        let expected = result("\"x\"", &answer);
        assert!(line == expected, "{} bytes of {}", line.len(), expected.len());
        list_tools(&mut client, play.tool_proxy(), "C");
    }
}

/// Checklist 38 for tools; issue 4: several connections to one server. Both clients use the same ids.
#[test]
fn a_thousand_concurrent_calls_on_two_connections_are_answered_rightly() {
    let mut play = Play::tools(STDIO);
    let (entry, mut first) = play.connected(m3("tools", "U"));
    let mut second = Client::of(&entry);
    connect(&mut second, play.tool_proxy(), "D");
    let call = |n: usize| request(&n.to_string(), "tools/call", &format!(r#"{{"n":{n}}}"#));
    for n in 0..500 {
        first.send(&call(n));
        second.send(&call(n));
    }
    let mut asked = [Vec::new(), Vec::new()];
    for _ in 0..1000 {
        let message = heard(play.tool_proxy());
        let params = &message["params"];
        let whose = usize::from(params["connectionId"] == "D");
        // What one client says stays in order.
        assert_eq!(params["params"]["n"], asked[whose].len(), "{message}");
        asked[whose].push(message["id"].clone());
    }
    // Answered in another order than asked.
    for n in (0..500).rev() {
        for (whose, name) in ["C", "D"].iter().enumerate() {
            let answer = format!(r#"{{"of":"{name}{n}"}}"#);
            reply(play.tool_proxy(), &asked[whose][n], &answer);
        }
    }
    for (client, name) in [(&mut first, "C"), (&mut second, "D")] {
        for n in (0..500).rev() {
            let expected = format!(r#"{{"of":"{name}{n}"}}"#);
            assert_eq!(client.line(), result(&n.to_string(), &expected));
        }
    }
}

/// The same over HTTP, each call on a connection of its own.
#[test]
fn concurrent_calls_over_http_are_answered_rightly() {
    let mut play = Play::tools(HTTP);
    let (_, mut client) = play.connected(m3("tools", "U"));
    for n in 0..100 {
        client.send(&request(&n.to_string(), "tools/call", &format!(r#"{{"n":{n}}}"#)));
    }
    for _ in 0..100 {
        let message = heard(play.tool_proxy());
        let answer = message["params"]["params"].to_string();
        reply(play.tool_proxy(), &message["id"], &answer);
    }
    let mut answered: Vec<Value> = (0..100).map(|_| client.message()).collect();
    answered.sort_by_key(|answer| answer["id"].as_u64());
    for (n, answer) in answered.iter().enumerate() {
        assert_eq!(answer["result"]["n"], n, "{answer}");
    }
}

/// Checklist 53, 54 for tools; phase 3: notifications of both sides.
#[test]
fn notifications_and_what_follows_them_stay_in_order() {
    for agent in [STDIO, HTTP] {
        let mut play = Play::tools(agent);
        let (_, mut client) = play.connected(m3("tools", "U"));
        let meta = r#"{"name":"t","_meta":{"progressToken":"p"}}"#;
        client.send(&request("1", "tools/call", meta));
        let (id, _) = said(play.tool_proxy(), "C", "tools/call");
        let progress = |n: usize| format!(r#"{{"progressToken":"p","progress":{n},"x":1.10}}"#);
        for n in 0..500 {
            let params = on_c("notifications/progress", &progress(n));
            play.tool_proxy().send(&wrapped_notification("_mcp/message", &params));
        }
        reply(play.tool_proxy(), &id, "{}");
        for n in 0..500 {
            assert_eq!(client.line(), notification("notifications/progress", &progress(n)));
        }
        assert_eq!(client.line(), result("1", "{}"));
        // The other way. Over HTTP, where each is a call of its own, fewer will do.
        let count = if agent == STDIO { 500 } else { 20 };
        for n in 0..count {
            client.send(&notification("notifications/progress", &progress(n)));
        }
        client.send(&request("2", "tools/list", ""));
        for n in 0..count {
            let line = play.tool_proxy().line();
            let params = on_c("notifications/progress", &progress(n));
            assert_eq!(line, wrapped_notification("_mcp/message", &params));
        }
        said(play.tool_proxy(), "C", "tools/list");
    }
}

/// Issue 4: cancellation. The provider is told in ACP and in MCP; what it answers is not for the
/// client, who does not wait.
#[test]
fn a_client_cancels_a_call() {
    for agent in [STDIO, HTTP] {
        let mut play = Play::tools(agent);
        let (_, mut client) = play.connected(m3("tools", "U"));
        client.send(&request("\"slow\"", "tools/call", "{}"));
        let (id, _) = said(play.tool_proxy(), "C", "tools/call");
        let params = r#"{"requestId":"slow","reason":"bored"}"#;
        client.send(&notification("notifications/cancelled", params));
        let mut told = [play.tool_proxy().line(), play.tool_proxy().line()];
        told.sort();
        let params = on_c("notifications/cancelled", &format!(r#"{{"requestId":{id}}}"#));
        assert_eq!(told, [cancel(&id.to_string()), wrapped_notification("_mcp/message", &params)]);
        play.tool_proxy().send(&error(&id.to_string(), r#"{"code":-32800,"message":"ended"}"#));
        // Cancelled again, or never asked: nothing happens.
        client.send(&notification("notifications/cancelled", r#"{"requestId":"slow"}"#));
        client.send(&notification("notifications/cancelled", r#"{"requestId":17}"#));
        if agent == HTTP {
            // There the request is a stream, which has to end.
            assert!(client.line().contains("-32800"));
        }
        list_tools(&mut client, play.tool_proxy(), "C");
    }
}

/// The provider asks its client something; gives the client's line.
fn ask(provider: &mut Puppet, client: &mut Client, method: &str, params: &str) -> String {
    provider.send(&wrapped_request("\"s\"", "_mcp/message", &on_c(method, params)));
    let line = client.line();
    assert_eq!(line, request(id_of(&line), method, params));
    line
}

/// Checklist 91; phase 3, 5: all that a server may ask of its client.
#[test]
fn a_server_asks_its_client() {
    for agent in [STDIO, HTTP] {
        let mut play = Play::tools(agent);
        let (_, mut client) = play.connected(m3("tools", "U"));
        if let Client::Http(http) = &client {
            http.listen();
        }
        let provider = &mut play.proxies[0];
        for (method, params, answer) in [
            ("sampling/createMessage", r#"{"messages":[],"maxTokens":1.10}"#, r#"{"n":1e400}"#),
            ("elicitation/create", r#"{"message":"?"}"#, r#"{"action":"accept","content":{}}"#),
            ("roots/list", "{}", r#"{"roots":[{"uri":"file:///x"}]}"#),
            ("ping", "{}", "{}"),
        ] {
            let line = ask(provider, &mut client, method, params);
            client.send(&result(id_of(&line), answer));
            assert_eq!(provider.line(), result("\"s\"", answer));
            let line = ask(provider, &mut client, method, params);
            let refusal = r#"{"code":-1,"message":"User rejected","data":{"n":1.10}}"#;
            client.send(&error(id_of(&line), refusal));
            assert_eq!(provider.line(), error("\"s\"", refusal));
        }
        // It does not want the answer any more.
        let line = ask(provider, &mut client, "sampling/createMessage", "{}");
        provider.send(&cancel("\"s\""));
        let params = format!(r#"{{"requestId":{}}}"#, id_of(&line));
        assert_eq!(client.line(), notification("notifications/cancelled", &params));
        let answer = provider.message();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("s"), &json!(-32800)));
        let params = on_c("notifications/tools/list_changed", "{}");
        provider.send(&wrapped_notification("_mcp/message", &params));
        assert_eq!(client.line(), notification("notifications/tools/list_changed", "{}"));
        play.assert_agent_undisturbed();
    }
}

/// In the middle of a call, as servers do: the client's answers find their way while its own question
/// is open.
#[test]
fn a_server_asks_before_it_answers() {
    for agent in [STDIO, HTTP] {
        let mut play = Play::tools(agent);
        let (_, mut client) = play.connected(m3("tools", "U"));
        client.send(&request("5", "tools/call", "{}"));
        let provider = &mut play.proxies[0];
        let (id, _) = said(provider, "C", "tools/call");
        let line = ask(provider, &mut client, "sampling/createMessage", "{}");
        client.send(&result(id_of(&line), r#"{"role":"assistant"}"#));
        assert_eq!(provider.line(), result("\"s\"", r#"{"role":"assistant"}"#));
        reply(provider, &id, "{}");
        assert_eq!(client.line(), result("5", "{}"));
    }
}

/// Issue 4: what the server says about the call, and what happened to the call.
#[test]
fn errors_of_the_server_pass_and_failures_of_the_chain_are_told() {
    for agent in [STDIO, HTTP] {
        let mut play = Play::tools(agent);
        let (entry, mut client) = play.connected(m3("tools", "U"));
        let refusal = r#"{"code":-32000,"message":"no","data":{"n":1.10},"unknown":1e400}"#;
        client.send(&request("1", "tools/call", "{}"));
        let (id, _) = said(play.tool_proxy(), "C", "tools/call");
        play.tool_proxy().send(&error(&id.to_string(), refusal));
        assert_eq!(client.line(), error("1", refusal));
        // A provider that will not connect.
        let mut another = Client::of(&entry);
        another.send(&request("0", "initialize", "{}"));
        let asked = heard(play.tool_proxy());
        assert_eq!(asked["method"], "_mcp/connect", "{asked}");
        let refusal = r#"{"code":-32000,"message":"too many"}"#;
        play.tool_proxy().send(&error(&asked["id"].to_string(), refusal));
        assert_eq!(another.line(), error("0", refusal));
        // It may try again; over HTTP there was no session.
        if let Client::Http(http) = &mut another {
            http.session = None;
        }
        another.send(&request("1", "initialize", "{}"));
        assert_eq!(heard(play.tool_proxy())["method"], "_mcp/connect");
    }
}

/// Checklist 86: a provider that means somebody who is not there is answered.
#[test]
fn a_message_for_nobody_is_refused() {
    let mut play = Play::tools(STDIO);
    let (_, mut client) = play.connected(m3("tools", "U"));
    let params = r#"{"connectionId":"nobody","method":"ping","params":{}}"#;
    play.tool_proxy().send(&wrapped_request("1", "_mcp/message", params));
    let answer = play.tool_proxy().message();
    assert_eq!(answer["id"], 1, "{answer}");
    assert!(answer["error"]["message"].as_str().expect("words").contains("nobody"), "{answer}");
    play.tool_proxy().send(&wrapped_notification("_mcp/message", params));
    // An agent that asks for what nobody offers.
    play.agent.send(&request("1", "_mcp/connect", r#"{"acp_url":"acp:nothing"}"#));
    let asked = heard(play.tool_proxy());
    play.tool_proxy().send(&request("9", "_mcp/connect", &asked["params"].to_string()));
    let answer = play.tool_proxy().message();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(9), &json!(-32602)));
    list_tools(&mut client, play.tool_proxy(), "C");
    play.assert_agent_undisturbed();
}

/// What a client says that is no message harms nobody.
#[test]
fn nonsense_of_a_client_is_answered_and_goes_no_further() {
    let mut play = Play::tools(STDIO);
    let (_, mut client) = play.connected(m3("tools", "U"));
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
    list_tools(&mut client, play.tool_proxy(), "C");
}

/// Checklist 90: who stands between the agent and the provider sees what passes, and may change it.
#[test]
fn a_proxy_on_the_way_sees_the_messages() {
    for agent in [STDIO, HTTP] {
        let mut play = Play::begin(stage(), &["tools", "watch", "agent"], agent);
        let entry = play.session("S", &[&[m3("tools", "U")]]).remove(0);
        let mut client = Client::of(&entry);
        let [provider, watch] = &mut play.proxies[..] else { panic!("two were named") };
        client.send(&request("0", "initialize", "{}"));
        let connect = heard(watch);
        assert_eq!(connect["method"], "_mcp/connect", "{connect}");
        watch.send(&request("1", "_mcp/connect", &connect["params"].to_string()));
        let asked = heard(provider);
        assert_eq!(asked["params"]["acp_url"], "acp:U", "{asked}");
        reply(provider, &asked["id"], r#"{"connectionId":"C"}"#);
        let answer = watch.message();
        assert_eq!(answer["id"], 1, "{answer}");
        reply(watch, &connect["id"], &answer["result"].to_string());
        let message = heard(watch);
        let mut params = message["params"].clone();
        assert_eq!(params["method"], "initialize", "{message}");
        params["params"]["seen"] = json!(true);
        watch.send(&request("2", "_mcp/message", &params.to_string()));
        let (id, params) = said(provider, "C", "initialize");
        assert_eq!(params, json!({ "seen": true }));
        reply(provider, &id, "{}");
        assert_eq!(watch.line(), result("2", "{}"));
        reply(watch, &message["id"], r#"{"changed":1.10}"#);
        assert_eq!(client.line(), result("0", r#"{"changed":1.10}"#));
        // And from the server.
        let params = on_c("roots/list", "{}");
        provider.send(&wrapped_request("7", "_mcp/message", &params));
        let asked = watch.line();
        assert_eq!(asked, request(id_of(&asked), "_mcp/message", &params));
        watch.send(&wrapped_request("8", "_mcp/message", &params));
        if let Client::Http(http) = &client {
            http.listen();
        }
        let line = client.line();
        client.send(&result(id_of(&line), "[]"));
        assert_eq!(watch.line(), result("8", "[]"));
        watch.send(&result(id_of(&asked), "[]"));
        assert_eq!(provider.line(), result("7", "[]"));
    }
}

/// Programs of older generations read a connect even if it is not for them, and pass on only the
/// spelling that they know: the next one gets them all again. Seen with SDK 0.11 after 1.3.
#[test]
fn a_connect_is_spelt_out_for_everybody_on_the_way() {
    let names = ["tools", "older", "newer", "agent"];
    let mut play = Play::begin(stage(), &names, STDIO);
    let entry = play.session("S", &[&[m3("tools", "U")]]).remove(0);
    let mut client = Client::of(&entry);
    client.send(&request("0", "initialize", "{}"));
    let all = json!({ "acp_url": "acp:U", "acp_id": "acp:U", "url": "acp:U" });
    assert_eq!(heard(&mut play.proxies[2])["params"], all);
    play.proxies[2].send(&request("1", "_mcp/connect", r#"{"acp_id":"acp:U"}"#));
    assert_eq!(heard(&mut play.proxies[1])["params"], all);
    play.proxies[1].send(&request("1", "_mcp/connect", r#"{"acp_url":"acp:U"}"#));
    let mut provided = all.clone();
    // A provider may be of the kind whose consumers choose the id.
    provided["connectionId"] = "mcp-over-acp:1".into();
    assert_eq!(heard(&mut play.proxies[0])["params"], provided);
}

/// Checklist 84: two servers of one proxy, and the same proxy in two sessions; several proxies.
#[test]
fn servers_and_sessions_are_kept_apart() {
    for agent in [STDIO, HTTP] {
        let mut play = Play::begin(stage(), &["near", "far", "agent"], agent);
        let near = [m3("a", "A"), m3("b", "B")];
        let mut clients = Vec::new();
        for session in ["S1", "S2"] {
            let far = [m3("z", &format!("Z-{session}"))];
            let list = play.session(session, &[&near, &far]);
            for (entry, server) in list.iter().zip(["A", "B", &format!("Z-{session}")]) {
                let mut client = Client::of(entry);
                client.send(&request("0", "initialize", "{}"));
                let connection = format!("{session}-{server}");
                let asked = heard(&mut play.proxies[1]);
                assert_eq!(asked["params"]["acp_url"], format!("acp:{server}"));
                let params = asked["params"].to_string();
                let given = json!({ "connectionId": connection }).to_string();
                if server.starts_with('Z') {
                    reply(&mut play.proxies[1], &asked["id"], &given);
                } else {
                    play.proxies[1].send(&request("1", "_mcp/connect", &params));
                    let at_near = heard(&mut play.proxies[0]);
                    assert_eq!(at_near["params"]["acp_url"], format!("acp:{server}"));
                    reply(&mut play.proxies[0], &at_near["id"], &given);
                    let answer = play.proxies[1].message();
                    reply(&mut play.proxies[1], &asked["id"], &answer["result"].to_string());
                }
                let (id, _) = said(&mut play.proxies[1], &connection, "initialize");
                reply(&mut play.proxies[1], &id, "{}");
                assert_eq!(client.line(), result("0", "{}"));
                clients.push((connection, client));
            }
        }
        // Each is heard as itself.
        for (connection, client) in clients.iter_mut().rev() {
            client.send(&request("1", "tools/list", ""));
            let (id, _) = said(&mut play.proxies[1], connection, "tools/list");
            let answer = json!({ "of": connection }).to_string();
            reply(&mut play.proxies[1], &id, &answer);
            assert_eq!(client.line(), result("1", &answer));
        }
    }
}

/// Checklist 85: two connections to one server, each with a state of its own.
#[test]
fn two_connections_to_one_server_are_kept_apart() {
    for agent in [STDIO, HTTP] {
        let mut play = Play::tools(agent);
        let (entry, mut first) = play.connected(m3("tools", "U"));
        let mut second = Client::of(&entry);
        connect(&mut second, play.tool_proxy(), "D");
        list_tools(&mut second, play.tool_proxy(), "D");
        list_tools(&mut first, play.tool_proxy(), "C");
        // What is for one does not reach the other.
        for (connection, client) in [("D", &mut second), ("C", &mut first)] {
            if let Client::Http(http) = &*client {
                Http::listen(http);
            }
            let params = format!(
                r#"{{"connectionId":"{connection}","method":"roots/list","params":{{"c":"{connection}"}}}}"#
            );
            play.proxies[0].send(&wrapped_request("1", "_mcp/message", &params));
            let line = client.line();
            assert_eq!(parse(&line)["params"]["c"], connection);
            client.send(&result(id_of(&line), "{}"));
            assert_eq!(play.proxies[0].line(), result("1", "{}"));
        }
        first.close();
        let gone = heard(play.tool_proxy());
        assert_eq!(
            (&gone["method"], &gone["params"]["connectionId"]),
            (&json!("_mcp/disconnect"), &json!("C"))
        );
        list_tools(&mut second, play.tool_proxy(), "D");
    }
}
