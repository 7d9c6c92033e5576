//! How declarations of MCP servers are rewritten on their way to the agent, and how the agent's capabilities
//! are rewritten on their way back.

use serde_json::{Value, json};
use testkit::rpc::{id_of, notification, request, result, wrapped_notification, wrapped_request};
use testkit::test_chain::{Peer, parse};

use crate::chain::{
    GREETING, HTTP, INITIALIZE_RESULT, McpChain, STDIO, accept_connection, connect, list_tools, m3,
    m7, receive, receive_mcp, reply,
};
use crate::clients::{Client, port_of, secret_of};
use crate::new_setup;

/// Checks that a declaration is that of `conductor mcp PORT` under this name.
fn assert_command(entry: &Value, name: &str) {
    let expected = json!({
        "name": name,
        "command": env!("CARGO_BIN_EXE_conductor"),
        "args": ["mcp", port_of(entry).to_string()],
        "env": [{ "name": "CONDUCTOR_SECRET", "value": secret_of(entry) }],
    });
    assert_eq!(*entry, expected);
}

/// Checks that a declaration is that of a server over HTTP under this name.
fn assert_http(entry: &Value, name: &str) {
    let url = entry["url"].as_str().expect("a URL");
    let rest = url.strip_prefix(&format!("http://127.0.0.1:{}/", port_of(entry)));
    assert!(rest.is_some_and(|path| path.len() > 16), "{url}");
    let bearer = format!("Bearer {}", secret_of(entry));
    let headers = json!([{ "name": "Authorization", "value": bearer }]);
    assert_eq!(*entry, json!({ "type": "http", "name": name, "url": url, "headers": headers }));
}

/// Checklist 71: a port is bound, the declaration is rewritten, and the whole chain works.
#[test]
fn an_agent_with_neither_acp_nor_http_receives_a_command() {
    let mut chain = McpChain::with_provider(STDIO);
    let entry = chain.new_session("S", &[&[m3("tools", "U")]]).remove(0);
    assert_command(&entry, "tools");
    let mut client = Client::of(&entry);
    connect(&mut client, chain.provider(), "C");
    list_tools(&mut client, chain.provider(), "C");
    chain.assert_editor_received_nothing();
}

/// Checklist 70.
#[test]
fn an_agent_with_http_receives_a_url() {
    let mut chain = McpChain::with_provider(HTTP);
    let entry = chain.new_session("S", &[&[m3("tools", "U")]]).remove(0);
    assert_http(&entry, "tools");
    let mut client = Client::of(&entry);
    connect(&mut client, chain.provider(), "C");
    list_tools(&mut client, chain.provider(), "C");
    chain.assert_editor_received_nothing();
}

/// Checklist 72: every request that sets up a session. Each set-up gets new declarations.
#[test]
fn every_request_that_carries_servers_is_rewritten() {
    for agent in [STDIO, HTTP] {
        let mut chain = McpChain::with_provider(agent);
        let mut places = Vec::new();
        for method in ["session/new", "session/load", "session/resume", "session/fork"] {
            let params = json!({ "cwd": "/", "sessionId": method, "mcpServers": [] });
            let received = chain.request_session(method, &params, &[&[m3("tools", "U")]]);
            let entry = &received["mcpServers"][0];
            match agent {
                STDIO => assert_command(entry, "tools"),
                _ => assert_http(entry, "tools"),
            }
            chain.answer(&json!({ "sessionId": method }).to_string());
            let mut client = Client::of(entry);
            connect(&mut client, chain.provider(), method);
            list_tools(&mut client, chain.provider(), method);
            client.close();
            assert_eq!(receive(chain.provider())["method"], "_mcp/disconnect");
            places.push(secret_of(entry).to_owned());
        }
        places.dedup();
        assert_eq!(places.len(), 4, "each declaration has its own secret");
    }
}

/// Checklist 73.
#[test]
fn other_servers_and_all_other_members_stay_unchanged() {
    let mut chain = McpChain::with_provider(STDIO);
    let before = r#"{"cwd":"/x","n": 1.10,"mcpServers":[{"name":"a", "command":"b","args":[],"env":[{"name":"K","value":"v"}]},{"type":"http","name":"h","url":"http://x","headers":[]},{"type":"sse","name":"s","url":"https://y","headers":[ ]},"#;
    let after =
        r#"{"type":"x","name":"odd","n":1e400}],"_meta":{"big":123456789012345678901234567890}}"#;
    let params = format!("{before}{},{after}", m3("tools", "U"));
    chain.provider().forward("1", "session/new", &params);
    let line = chain.agent.line();
    let from = line.find(r#"{"name":"tools""#).expect("the server");
    let entry = parse(&line[from..line.find(&format!(",{after}")).expect("the rest")]);
    let spelt = format!(
        r#"{{"name":"tools","command":{},"args":["mcp","{}"],"env":[{{"name":"CONDUCTOR_SECRET","value":"{}"}}]}}"#,
        entry["command"],
        port_of(&entry),
        secret_of(&entry),
    );
    assert_eq!(line, request(id_of(&line), "session/new", &format!("{before}{spelt},{after}")));
    // Without a server to bridge, no byte changes.
    let params = format!("{before}{after}");
    chain.provider().forward("2", "session/new", &params);
    let line = chain.agent.line();
    assert_eq!(line, request(id_of(&line), "session/new", &params));
}

/// The form of the older documents: a map by name, below `tools`.
#[test]
fn servers_in_a_map_stay_in_a_map() {
    let mut chain = McpChain::with_provider(STDIO);
    for declared in
        [r#"{"transport":"http","url":"acp:U","headers":{}}"#, r#"{"transport":"acp","uuid":"U"}"#]
    {
        let params = format!(
            r#"{{"tools":{{"mcpServers":{{"mine":{declared},"other":{{"command":"x","args":[]}}}}}}}}"#
        );
        chain.provider().forward("1", "session/new", &params);
        let received = chain.agent.request("session/new");
        let servers = &received["params"]["tools"]["mcpServers"];
        let entry = &servers["mine"];
        assert_eq!(
            (&entry["transport"], &entry["command"], &entry["args"][0]),
            (&json!("stdio"), &json!(env!("CARGO_BIN_EXE_conductor")), &json!("mcp")),
        );
        let env = entry["env"].as_object().expect("a map");
        assert!(env.len() == 1 && env.contains_key("CONDUCTOR_SECRET"), "{entry}");
        assert_eq!(servers["other"], json!({ "command": "x", "args": [] }));
        chain.agent.answer(&received, r#"{"sessionId":"S"}"#);
        chain.provider().message();
    }
}

/// Checklist 74: to proxies and the editor the agent always seems to support MCP over ACP.
#[test]
fn proxies_and_the_editor_see_an_agent_that_supports_acp() {
    for (declared, seen) in [
        (
            r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"http":true,"acp":false},"x":1.10}}"#,
            r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"http":true,"acp":true},"x":1.10}}"#,
        ),
        (
            r#"{"protocolVersion":1,"agentCapabilities":{}}"#,
            r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"acp":true}}}"#,
        ),
        (
            r#"{"protocolVersion":1}"#,
            r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"acp":true}}}"#,
        ),
        (
            r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"acp": true}}}"#,
            r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"acp": true}}}"#,
        ),
    ] {
        for names in [&["agent"][..], &["tools", "agent"]] {
            let chain = McpChain::start(new_setup(), names, declared);
            assert_eq!(chain.editor_result, seen, "{names:?}");
        }
        let off = new_setup().option(&["--mcp-bridge", "off"]);
        assert_eq!(McpChain::start(off, &["tools", "agent"], declared).editor_result, declared);
    }
}

/// A proxy that rebuilds the agent's answer may drop the capability. The components before it receive it
/// all the same.
#[test]
fn a_proxy_that_drops_the_acp_capability_does_not_hide_it() {
    let mut chain = new_setup().run_named(&["one", "two", "agent"]);
    chain.editor.send(&request("1", "initialize", GREETING));
    let (mut proxies, mut received) = (Vec::new(), Vec::new());
    for name in ["one", "two"] {
        let mut proxy = chain.wait_for_component(name);
        received.push(proxy.request("proxy/initialize"));
        proxy.forward("1", "initialize", GREETING);
        proxies.push(proxy);
    }
    let mut agent = chain.wait_for_component("agent");
    let greeting = agent.request("initialize");
    agent.answer(&greeting, STDIO);
    for (proxy, received) in proxies.iter_mut().zip(&received).rev() {
        let seen = proxy.message();
        assert_eq!(seen["result"]["agentCapabilities"]["mcpCapabilities"]["acp"], true, "{seen}");
        // This proxy's types have no such member.
        proxy.answer(received, STDIO);
    }
    let seen = chain.editor.message();
    assert_eq!(seen["result"]["agentCapabilities"]["mcpCapabilities"]["acp"], true, "{seen}");
}

/// Checklist 69: an agent that supports MCP over ACP receives declarations and messages unchanged.
#[test]
fn an_agent_with_acp_receives_everything_unchanged() {
    let able =
        r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"http":true,"acp":true}}}"#;
    let mut chain = McpChain::with_provider(able);
    let params = format!(r#"{{"cwd":"/","n": 1.10,"mcpServers":[{}]}}"#, m7("tools", "U"));
    chain.provider().forward("1", "session/new", &params);
    let line = chain.agent.line();
    assert_eq!(line, request(id_of(&line), "session/new", &params));
    let message = r#"{"serverId":"U","requestId":"r-1","method":"tools/list","params":{"n":1e400,"_meta":{}}}"#;
    chain.agent.send(&request("7", "mcp/message", message));
    let line = chain.provider().line();
    assert_eq!(line, wrapped_request(id_of(&line), "mcp/message", message));
    let note = r#"{"serverId":"U","requestId":"r-1","method":"notifications/progress","params":{"progress":1.10}}"#;
    chain.provider().send(&wrapped_notification("mcp/message", note));
    assert_eq!(chain.agent.line(), notification("mcp/message", note));
    let answer = r#"{"result":{"resultType":"complete","n":1.10}}"#;
    chain.provider().send(&result(id_of(&line), answer));
    assert_eq!(chain.agent.line(), result("7", answer));
}

/// With `--mcp-bridge off` no byte changes.
#[test]
fn the_bridge_changes_nothing_when_it_is_off() {
    for (agent, server) in [(STDIO, m3("tools", "U")), (HTTP, m7("tools", "U"))] {
        let off = new_setup().option(&["--mcp-bridge", "off"]);
        let mut chain = McpChain::start(off, &["tools", "agent"], agent);
        let params = format!(r#"{{"cwd":"/","n":1.10,"mcpServers":[{server}]}}"#);
        chain.provider().forward("1", "session/new", &params);
        let line = chain.agent.line();
        assert_eq!(line, request(id_of(&line), "session/new", &params));
        chain.agent.send(&request("7", "_mcp/connect", r#"{"acp_url":"acp:U"}"#));
        let received = receive(chain.provider());
        let expected = json!({ "id": received["id"], "method": "_mcp/connect", "params": { "acp_url": "acp:U" } });
        assert_eq!(received, expected);
    }
}

/// With `--mcp-bridge stdio` or `http` the agent's capabilities do not matter.
#[test]
fn a_transport_can_be_forced() {
    for agent in [STDIO, HTTP] {
        let forced = |how| new_setup().option(&["--mcp-bridge", how]);
        let mut chain = McpChain::start(forced("stdio"), &["tools", "agent"], agent);
        let entry = chain.new_session("S", &[&[m3("tools", "U")]]).remove(0);
        assert_command(&entry, "tools");
        let mut chain = McpChain::start(forced("http"), &["tools", "agent"], agent);
        let entry = chain.new_session("S", &[&[m3("tools", "U")]]).remove(0);
        assert_http(&entry, "tools");
        let mut client = Client::of(&entry);
        connect(&mut client, chain.provider(), "C");
    }
}

/// Checklist 88: a server of the editor, in a chain without proxies and beside an ordinary server.
#[test]
fn a_server_of_the_editor_is_bridged_like_that_of_a_proxy() {
    for agent in [STDIO, HTTP] {
        let mut chain = McpChain::start(new_setup(), &["agent"], agent);
        let other = json!({ "name": "o", "command": "x", "args": [], "env": [] });
        let params = json!({ "cwd": "/", "mcpServers": [other, parse(&m3("mine", "U"))] });
        let received = chain.request_session("session/new", &params, &[]);
        assert_eq!(received["mcpServers"][0], other);
        let mut client = Client::of(&received["mcpServers"][1]);
        // The agent answers after the client has connected, as an agent does that starts its servers first.
        let editor = &mut chain.test.editor;
        connect(&mut client, editor, "C");
        list_tools(&mut client, editor, "C");
        chain.answer(r#"{"sessionId":"S"}"#);
        client.close();
        let gone = chain.test.editor.message();
        assert_eq!(gone["method"], "_mcp/disconnect", "{gone}");
    }
}

/// Checklist 109: in v2 the capability has another place, and every server has a type.
#[test]
fn v2_declarations_and_capabilities_are_rewritten_in_their_own_form() {
    const V2: &str = r#"{"protocolVersion":2,"capabilities":{},"info":{"name":"e","version":"1"}}"#;
    for (kind, entry_type) in [("stdio", "stdio"), ("http", "http")] {
        let declared = format!(
            r#"{{"protocolVersion":2,"capabilities":{{"session":{{"mcp":{{"{kind}":{{}}}},"x":1.10}}}},"info":{{"name":"a","version":"1"}}}}"#
        );
        let seen = declared
            .replace(&format!(r#"{{"{kind}":{{}}}}"#), &format!(r#"{{"{kind}":{{}},"acp":{{}}}}"#));
        let names = ["tools", "agent"];
        let mut chain = McpChain::handshake(new_setup().run_named(&names), &names, V2, &declared);
        assert_eq!(chain.editor_result, seen);
        let other = r#"{"type":"stdio","name":"o","command":"/x","args":[ ],"env":[]}"#;
        let params =
            format!(r#"{{"cwd":"/","mcpServers":[{other},{}],"n":1.10}}"#, m7("tools", "U"));
        chain.provider().forward("1", "session/new", &params);
        let line = chain.agent.line();
        let received = parse(&line);
        let entry = &received["params"]["mcpServers"][1];
        assert_eq!((&entry["type"], &entry["name"]), (&json!(entry_type), &json!("tools")));
        assert!(
            line.contains(&format!(r#""params":{{"cwd":"/","mcpServers":[{other},"#)),
            "{line}"
        );
        assert!(line.ends_with(r#"],"n":1.10}}"#), "{line}");
        assert!(secret_of(entry).len() >= 32);
    }
    // An agent that supports no transport gets no server.
    let declared =
        r#"{"protocolVersion":2,"capabilities":{"session":{}},"info":{"name":"a","version":"1"}}"#;
    let names = ["tools", "agent"];
    let mut chain = McpChain::handshake(new_setup().run_named(&names), &names, V2, declared);
    let params = format!(r#"{{"cwd":"/","mcpServers":[{}]}}"#, m7("tools", "U"));
    chain.provider().forward("1", "session/new", &params);
    let answer = chain.provider().message();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("1"), &json!(-32602)));
    assert!(answer["error"]["message"].as_str().expect("text").contains("--mcp-bridge"));
    chain.assert_agent_received_nothing();
}

/// The first server keeps its name, and the others get a number. All of them can be called.
#[test]
fn servers_with_the_same_name_are_numbered() {
    let mut chain = McpChain::start(new_setup(), &["one", "two", "agent"], STDIO);
    let params = json!({ "cwd": "/", "mcpServers": [{ "name": "tools", "command": "x", "args": [], "env": [] }] });
    let servers: [&[String]; 2] = [&[m3("tools", "U")], &[m3("tools", "U")]];
    let received = chain.request_session("session/new", &params, &servers);
    let list = received["mcpServers"].as_array().expect("a list");
    let names: Vec<&str> = list.iter().map(|it| it["name"].as_str().expect("a name")).collect();
    assert_eq!(names, ["tools", "tools-2", "tools-3"]);
    assert_eq!(list[0], params["mcpServers"][0]);
    chain.answer(r#"{"sessionId":"S"}"#);
    // The server ids and the connection ids are equal, too. Each provider receives its own messages.
    let mut first = Client::of(&list[1]);
    first.send(&request("0", "initialize", "{}"));
    let passing = receive(&mut chain.proxies[1]);
    assert_eq!(passing["method"], "_mcp/connect");
    chain.proxies[1].send(&request("\"p\"", "_mcp/connect", &passing["params"].to_string()));
    assert_eq!(accept_connection(&mut chain.proxies[0], "C"), "acp:U", "the provider's own id");
    let answer = chain.proxies[1].message();
    assert_eq!(answer["id"], "p", "{answer}");
    reply(&mut chain.proxies[1], &passing["id"], &answer["result"].to_string());
    let passing = receive(&mut chain.proxies[1]);
    chain.proxies[1].send(&request("\"q\"", "_mcp/message", &passing["params"].to_string()));
    let (id, _) = receive_mcp(&mut chain.proxies[0], "C", "initialize");
    reply(&mut chain.proxies[0], &id, INITIALIZE_RESULT);
    assert_eq!(chain.proxies[1].line(), result("\"q\"", INITIALIZE_RESULT));
    reply(&mut chain.proxies[1], &passing["id"], INITIALIZE_RESULT);
    assert_eq!(first.line(), result("0", INITIALIZE_RESULT));
    let mut second = Client::of(&list[2]);
    connect(&mut second, &mut chain.proxies[1], "C");
    list_tools(&mut second, &mut chain.proxies[1], "C");
    first.send(&request("1", "tools/list", "{}"));
    let passing = receive(&mut chain.proxies[1]);
    chain.proxies[1].send(&request("\"r\"", "_mcp/message", &passing["params"].to_string()));
    receive_mcp(&mut chain.proxies[0], "C", "tools/list");
}
