//! When connections, sessions and the chain begin and end.

use serde_json::json;
use testkit::rpc::{error, id_of, notification, request, result};
use testkit::stage::{Peer, assert_gone};

use crate::clients::{Bridge, Client, Http, assert_closed, port_of};
use crate::play::{
    HELLO, HTTP, Play, SERVED, STDIO, accept, connect, heard, list_tools, m3, reply, said,
};
use crate::{HASTE, stage};

const NEW: &str = "session/new";

/// Checklist 75; issue 5: agents that start their servers before they answer `session/new`. The
/// provider is itself still waiting for that answer.
#[test]
fn an_agent_may_connect_before_the_session_has_a_name() {
    for agent in [STDIO, HTTP] {
        let mut play = Play::tools(agent);
        let params = json!({ "cwd": "/", "mcpServers": [] });
        let asked = play.ask(NEW, &params, &[&[m3("tools", "U")]]);
        let mut client = Client::of(&asked["mcpServers"][0]);
        connect(&mut client, play.tool_proxy(), "C");
        list_tools(&mut client, play.tool_proxy(), "C");
        play.answer(r#"{"sessionId":"S"}"#);
        // And it goes on after that; so it does for agents that start them at the first prompt.
        list_tools(&mut client, play.tool_proxy(), "C");
        let mut late = Client::of(&asked["mcpServers"][0]);
        connect(&mut late, play.tool_proxy(), "D");
        list_tools(&mut late, play.tool_proxy(), "D");
    }
}

/// Issue 3: a provider that does nothing before its `session/new` is answered, and an agent that
/// answers it only after its servers have: the client is answered in the provider's place.
#[test]
fn a_provider_that_waits_for_the_session_does_not_keep_it_from_beginning() {
    for agent in [STDIO, HTTP] {
        let mut play = Play::tools(agent);
        let params = json!({ "cwd": "/", "mcpServers": [] });
        let asked = play.ask(NEW, &params, &[&[m3("tools", "U")]]);
        let mut client = Client::of(&asked["mcpServers"][0]);
        client.send(&request("0", "initialize", HELLO));
        let connect = heard(play.tool_proxy());
        assert_eq!(connect["method"], "_mcp/connect", "{connect}");
        // It does not answer that, and still the client has its answer.
        let answer = client.message();
        assert_eq!(
            (&answer["id"], &answer["result"]["protocolVersion"]),
            (&json!(0), &json!("2025-06-18"))
        );
        assert_eq!(answer["result"]["serverInfo"]["name"], "tools", "{answer}");
        client.send(&notification("notifications/initialized", ""));
        client.send(&request("1", "tools/list", ""));
        play.answer(r#"{"sessionId":"S"}"#);
        reply(play.tool_proxy(), &connect["id"], r#"{"connectionId":"C"}"#);
        let (id, _) = said(play.tool_proxy(), "C", "initialize");
        reply(play.tool_proxy(), &id, SERVED);
        said(play.tool_proxy(), "C", "notifications/initialized");
        let (id, _) = said(play.tool_proxy(), "C", "tools/list");
        reply(play.tool_proxy(), &id, r#"{"tools":[]}"#);
        // The client looks again, now that the server has spoken.
        assert_eq!(client.line(), notification("notifications/tools/list_changed", ""));
        assert_eq!(client.line(), result("1", r#"{"tools":[]}"#));
    }
}

/// Checklist 55.
#[test]
fn a_slow_set_up_holds_up_nobody_and_changes_no_order() {
    for agent in [STDIO, HTTP] {
        let mut play = Play::tools(agent);
        let new = |play: &mut Play, id: &str, server: &str| {
            let params = format!(r#"{{"cwd":"/","mcpServers":[{}]}}"#, m3("tools", server));
            play.stage.editor.send(&request(id, NEW, r#"{"cwd":"/","mcpServers":[]}"#));
            let asked = play.tool_proxy().request(NEW);
            play.tool_proxy().forward(id, NEW, &params);
            let at_agent = play.agent.request(NEW);
            (asked, at_agent)
        };
        // The first session: its client has called, and the provider takes its time.
        let (slow_asked, slow) = new(&mut play, "1", "U");
        let mut waiting = Client::of(&slow["params"]["mcpServers"][0]);
        waiting.send(&request("0", "initialize", HELLO));
        let slow_connect = heard(play.tool_proxy());
        // The second begins, works and answers.
        let (asked, at_agent) = new(&mut play, "2", "V");
        let mut client = Client::of(&at_agent["params"]["mcpServers"][0]);
        connect(&mut client, play.tool_proxy(), "V-1");
        list_tools(&mut client, play.tool_proxy(), "V-1");
        play.agent.answer(&at_agent, r#"{"sessionId":"fast"}"#);
        assert_eq!(play.tool_proxy().message()["result"]["sessionId"], "fast");
        play.tool_proxy().answer(&asked, r#"{"sessionId":"fast"}"#);
        assert_eq!(play.stage.editor.message()["id"], 2);
        // What follows the first stays behind it, in order.
        for n in 0..20 {
            let params = format!(r#"{{"n":{n}}}"#);
            play.tool_proxy().send(&testkit::rpc::wrapped_notification("_x/later", &params));
            assert_eq!(play.agent.line(), notification("_x/later", &params));
        }
        reply(play.tool_proxy(), &slow_connect["id"], r#"{"connectionId":"U-1"}"#);
        let (id, _) = said(play.tool_proxy(), "U-1", "initialize");
        reply(play.tool_proxy(), &id, SERVED);
        assert_eq!(waiting.message()["id"], 0);
        play.agent.answer(&slow, r#"{"sessionId":"slow"}"#);
        assert_eq!(play.tool_proxy().message()["result"]["sessionId"], "slow");
        play.tool_proxy().answer(&slow_asked, r#"{"sessionId":"slow"}"#);
        assert_eq!(play.stage.editor.message()["id"], 1);
    }
}

/// Checklist 87; phase 4: the agent closes its client.
#[test]
fn a_client_that_leaves_is_told_to_the_provider() {
    for agent in [STDIO, HTTP] {
        let mut play = Play::tools(agent);
        let (entry, mut client) = play.connected(m3("tools", "U"));
        client.send(&request("1", "tools/call", "{}"));
        let (id, _) = said(play.tool_proxy(), "C", "tools/call");
        client.close();
        // Its open call is cancelled, then the connection is closed.
        let mut heard_of = Vec::new();
        loop {
            let message = heard(play.tool_proxy());
            let method = message["method"].as_str().expect("a method").to_owned();
            if method == "_mcp/disconnect" {
                assert_eq!(message["params"]["connection_id"], "C", "{message}");
                break;
            }
            heard_of.push(method);
        }
        assert_eq!(heard_of[0], "$/cancel_request");
        play.tool_proxy().send(&error(&id.to_string(), r#"{"code":-32800,"message":"m"}"#));
        // The declaration is good for another.
        let mut again = Client::of(&entry);
        connect(&mut again, play.tool_proxy(), "D");
        play.assert_editor_undisturbed();
    }
}

/// Checklist 87; issue 5: after `session/close` the secret is good for nothing and nobody listens.
#[test]
fn a_closed_session_closes_its_servers() {
    for agent in [STDIO, HTTP] {
        let mut play = Play::tools(agent);
        let (entry, mut client) = play.connected(m3("tools", "U"));
        let kept = play.session("S2", &[&[m3("tools", "V")]]).remove(0);
        play.close("S");
        let told = heard(play.tool_proxy());
        assert_eq!(
            (&told["method"], &told["params"]["connectionId"]),
            (&json!("_mcp/disconnect"), &json!("C"))
        );
        // The other session has the same port, and goes on.
        match &mut client {
            Client::Stdio(bridge) => {
                assert_eq!(bridge.status(), (0, String::new()), "it was closed");
                let (status, said) = Bridge::start(&entry).status();
                assert_eq!(status, 1, "{said}");
                assert!(said.contains("does not know this secret"), "{said}");
            }
            Client::Http(http) => {
                let reply = http.call("POST", &[], &request("1", "tools/list", ""));
                assert_eq!(reply.status, 404, "{}", reply.head);
                http.session = None;
                let reply = http.call("POST", &[], &request("1", "initialize", HELLO));
                assert_eq!(reply.status, 404, "{}", reply.head);
            }
        }
        let mut other = Client::of(&kept);
        connect(&mut other, play.tool_proxy(), "D");
        list_tools(&mut other, play.tool_proxy(), "D");
        play.close("S2");
        assert_eq!(heard(play.tool_proxy())["method"], "_mcp/disconnect");
        assert_closed(port_of(&kept));
        // A new one is there for the next.
        let next = play.session("S3", &[&[m3("tools", "W")]]).remove(0);
        let mut client = Client::of(&next);
        connect(&mut client, play.tool_proxy(), "E");
        list_tools(&mut client, play.tool_proxy(), "E");
    }
}

/// A session that the agent refused leaves nothing behind either.
#[test]
fn a_refused_session_closes_its_servers() {
    for (agent, how) in [(STDIO, "stdio"), (HTTP, "http")] {
        let forced = stage().option(&["--mcp-bridge", how]);
        let mut play = Play::begin(forced, &["tools", "agent"], agent);
        let params = json!({ "cwd": "/", "mcpServers": [] });
        let asked = play.ask(NEW, &params, &[&[m3("tools", "U")]]);
        let entry = &asked["mcpServers"][0];
        let mut client = Client::of(entry);
        connect(&mut client, play.tool_proxy(), "C");
        let refusal = r#"{"code":-32000,"message":"Authentication required"}"#;
        play.refuse(refusal);
        assert_eq!(heard(play.tool_proxy())["method"], "_mcp/disconnect");
        assert_closed(port_of(entry));
    }
}

/// Checklist 102; phase 4: the editor leaves, and with it everybody and everything.
#[test]
fn when_the_editor_leaves_no_bridge_stays() {
    for agent in [STDIO, HTTP] {
        let mut play = Play::begin(stage().option(&HASTE), &["tools", "agent"], agent);
        let (entry, mut client) = play.connected(m3("tools", "U"));
        client.send(&request("1", "tools/call", "{}"));
        said(play.tool_proxy(), "C", "tools/call");
        play.stage.editor.leave();
        assert_eq!(play.stage.conductor.status(), 0);
        match &mut client {
            Client::Stdio(bridge) => {
                let pid = bridge.pid();
                let (status, said) = bridge.status();
                assert_eq!((status, said.as_str()), (0, ""));
                assert_gone(pid, "conductor mcp");
            }
            Client::Http(_) => {}
        }
        assert_closed(port_of(&entry));
        for puppet in [&play.agent, &play.proxies[0]] {
            assert_gone(puppet.pid, &puppet.name);
        }
    }
}

/// The same when the conductor is killed: `conductor mcp` sees it and ends by itself.
#[test]
fn a_killed_conductor_takes_its_bridges_with_it() {
    let mut play = Play::tools(STDIO);
    let (entry, client) = play.connected(m3("tools", "U"));
    play.stage.conductor.signal(libc::SIGKILL);
    play.stage.conductor.wait();
    let Client::Stdio(mut bridge) = client else { panic!("stdio was asked for") };
    assert_eq!(bridge.status().0, 0);
    assert_closed(port_of(&entry));
}

/// Phase 4: a bridge process is killed. Its calls are cancelled, its connection closed, and another
/// may come with the same declaration.
#[test]
fn a_killed_bridge_is_told_to_the_provider() {
    let mut play = Play::tools(STDIO);
    let (entry, client) = play.connected(m3("tools", "U"));
    let Client::Stdio(mut bridge) = client else { panic!("stdio was asked for") };
    bridge.send(&request("1", "tools/call", "{}"));
    let line = play.tool_proxy().line();
    bridge.kill();
    assert_eq!(bridge.status().0, -libc::SIGKILL);
    let told = play.tool_proxy().message();
    assert_eq!(told["method"], "$/cancel_request", "{told}");
    assert_eq!(told["params"]["requestId"].to_string(), id_of(&line));
    let told = heard(play.tool_proxy());
    assert_eq!(told["params"]["method"], "notifications/cancelled", "{told}");
    let told = heard(play.tool_proxy());
    assert_eq!(
        (&told["method"], &told["params"]["connectionId"]),
        (&json!("_mcp/disconnect"), &json!("C"))
    );
    // It answers all the same, to nobody.
    play.tool_proxy().send(&result(id_of(&line), "{}"));
    let mut again = Client::of(&entry);
    connect(&mut again, play.tool_proxy(), "D");
    list_tools(&mut again, play.tool_proxy(), "D");
    play.assert_agent_undisturbed();
}

/// What a server wanted to know of a client that has left is answered with an error.
#[test]
fn a_client_that_leaves_owes_nothing() {
    for agent in [STDIO, HTTP] {
        let mut play = Play::tools(agent);
        let (_, mut client) = play.connected(m3("tools", "U"));
        if let Client::Http(http) = &client {
            http.listen();
        }
        let params = r#"{"connectionId":"C","method":"sampling/createMessage","params":{}}"#;
        play.tool_proxy().send(&testkit::rpc::wrapped_request("7", "_mcp/message", params));
        assert_eq!(client.message()["method"], "sampling/createMessage");
        client.close();
        let answer = play.tool_proxy().message();
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!(7), &json!(-32603)));
        assert_eq!(heard(play.tool_proxy())["method"], "_mcp/disconnect");
    }
}

/// The provider closes a connection: the agent sees its server end.
#[test]
fn a_provider_may_close_a_connection() {
    let mut play = Play::tools(STDIO);
    let (entry, mut client) = play.connected(m3("tools", "U"));
    let params = r#"{"connection_id":"C","connectionId":"C"}"#;
    play.tool_proxy().send(&testkit::rpc::wrapped_notification("_mcp/disconnect", params));
    let Client::Stdio(bridge) = &mut client else { panic!("stdio was asked for") };
    assert_eq!(bridge.status(), (0, String::new()));
    let mut again = Client::of(&entry);
    connect(&mut again, play.tool_proxy(), "D");
    play.assert_agent_undisturbed();
}

/// Phase 4; issue 5: a provider dies in the middle of a call. Its client is told who it was; the
/// agent is answered whatever it asks.
#[test]
fn a_dead_provider_is_named() {
    for agent in [STDIO, HTTP] {
        let mut play = Play::begin(stage(), &["other", "tools", "agent"], agent);
        let servers: [&[String]; 2] = [&[m3("others", "O")], &[m3("tools", "U")]];
        let list = play.session("S", &servers);
        let mut client = Client::of(&list[1]);
        connect(&mut client, &mut play.proxies[1], "C");
        client.send(&request("1", "tools/call", "{}"));
        said(&mut play.proxies[1], "C", "tools/call");
        play.agent.send(&request("1", "_x/ask", "{}"));
        heard(&mut play.proxies[1]);
        play.proxies[1].mutter("out of tools\n");
        play.proxies[1].exit(3);
        let answer = client.message();
        assert_eq!(answer["id"], 1, "{answer}");
        let message = answer["error"]["message"].as_str().expect("an error");
        assert!(message.contains("'tools'") && message.contains("status 3"), "{message}");
        assert!(message.contains("out of tools"), "{message}");
        let answer = play.agent.message();
        assert_eq!(answer["id"], 1, "{answer}");
        assert!(answer["error"]["message"].as_str().expect("words").contains("'tools'"));
    }
}

/// Over HTTP a session may be ended by the client at any time, and another begun.
#[test]
fn an_http_client_may_come_and_go() {
    let mut play = Play::tools(HTTP);
    let (entry, client) = play.connected(m3("tools", "U"));
    client.close();
    assert_eq!(heard(play.tool_proxy())["method"], "_mcp/disconnect");
    for n in 0..5 {
        let mut client = Client::of(&entry);
        let connection = format!("D{n}");
        client.send(&request("0", "initialize", HELLO));
        accept(play.tool_proxy(), &connection);
        let (id, _) = said(play.tool_proxy(), &connection, "initialize");
        reply(play.tool_proxy(), &id, SERVED);
        assert_eq!(client.line(), result("0", SERVED));
        let Client::Http(http) = &client else { panic!("http was asked for") };
        Http::listen(http);
        client.close();
        assert_eq!(heard(play.tool_proxy())["method"], "_mcp/disconnect");
    }
}
