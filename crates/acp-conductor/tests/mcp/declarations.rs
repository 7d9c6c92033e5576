//! What becomes of a declaration on its way to the agent, and of what the agent says it can do.

use serde_json::{Value, json};
use testkit::rpc::{id_of, notification, request, result, wrapped_notification, wrapped_request};
use testkit::stage::{Peer, parse};

use crate::clients::{Client, port_of, secret_of};
use crate::play::{
    GREETING, HTTP, Play, SERVED, STDIO, accept, connect, heard, list_tools, m3, m7, reply, said,
};
use crate::stage;

/// The declaration of a server with this name that is `conductor mcp PORT`.
fn assert_command(entry: &Value, name: &str) {
    let expected = json!({
        "name": name,
        "command": env!("CARGO_BIN_EXE_conductor"),
        "args": ["mcp", port_of(entry).to_string()],
        "env": [{ "name": "CONDUCTOR_SECRET", "value": secret_of(entry) }],
    });
    assert_eq!(*entry, expected);
}

/// The declaration of a server with this name on HTTP.
fn assert_http(entry: &Value, name: &str) {
    let url = entry["url"].as_str().expect("a URL");
    let rest = url.strip_prefix(&format!("http://127.0.0.1:{}/", port_of(entry)));
    assert!(rest.is_some_and(|path| path.len() > 16), "{url}");
    let bearer = format!("Bearer {}", secret_of(entry));
    let headers = json!([{ "name": "Authorization", "value": bearer }]);
    assert_eq!(*entry, json!({ "type": "http", "name": name, "url": url, "headers": headers }));
}

/// Checklist 71; phase 2: a port is bound, the declaration is rewritten, the whole chain works.
#[test]
fn an_agent_with_neither_acp_nor_http_is_given_a_command() {
    let mut play = Play::tools(STDIO);
    let entry = play.session("S", &[&[m3("tools", "U")]]).remove(0);
    assert_command(&entry, "tools");
    let mut client = Client::of(&entry);
    connect(&mut client, play.tool_proxy(), "C");
    list_tools(&mut client, play.tool_proxy(), "C");
    play.assert_editor_undisturbed();
}

/// Checklist 70.
#[test]
fn an_agent_with_http_is_given_a_url() {
    let mut play = Play::tools(HTTP);
    let entry = play.session("S", &[&[m3("tools", "U")]]).remove(0);
    assert_http(&entry, "tools");
    let mut client = Client::of(&entry);
    connect(&mut client, play.tool_proxy(), "C");
    list_tools(&mut client, play.tool_proxy(), "C");
    play.assert_editor_undisturbed();
}

/// Checklist 72: whatever sets up a session. A session that is set up again has its servers anew.
#[test]
fn every_request_that_carries_servers_is_rewritten() {
    for agent in [STDIO, HTTP] {
        let mut play = Play::tools(agent);
        let mut places = Vec::new();
        for method in ["session/new", "session/load", "session/resume", "session/fork"] {
            let params = json!({ "cwd": "/", "sessionId": method, "mcpServers": [] });
            let asked = play.ask(method, &params, &[&[m3("tools", "U")]]);
            let entry = &asked["mcpServers"][0];
            match agent {
                STDIO => assert_command(entry, "tools"),
                _ => assert_http(entry, "tools"),
            }
            play.answer(&json!({ "sessionId": method }).to_string());
            let mut client = Client::of(entry);
            connect(&mut client, play.tool_proxy(), method);
            list_tools(&mut client, play.tool_proxy(), method);
            client.close();
            assert_eq!(heard(play.tool_proxy())["method"], "_mcp/disconnect");
            places.push(secret_of(entry).to_owned());
        }
        places.dedup();
        assert_eq!(places.len(), 4, "each has a secret of its own");
    }
}

/// Checklist 73; issue 6.
#[test]
fn other_servers_and_everything_else_stay_as_they_are_spelt() {
    let mut play = Play::tools(STDIO);
    let before = r#"{"cwd":"/x","n": 1.10,"mcpServers":[{"name":"a", "command":"b","args":[],"env":[{"name":"K","value":"v"}]},{"type":"http","name":"h","url":"http://x","headers":[]},{"type":"sse","name":"s","url":"https://y","headers":[ ]},"#;
    let after =
        r#"{"type":"x","name":"odd","n":1e400}],"_meta":{"big":123456789012345678901234567890}}"#;
    let params = format!("{before}{},{after}", m3("tools", "U"));
    play.tool_proxy().forward("1", "session/new", &params);
    let line = play.agent.line();
    let from = line.find(r#"{"name":"tools""#).expect("the server");
    let entry = parse(&line[from..line.find(&format!(",{after}")).expect("the rest")]);
    let spelt = format!(
        r#"{{"name":"tools","command":{},"args":["mcp","{}"],"env":[{{"name":"CONDUCTOR_SECRET","value":"{}"}}]}}"#,
        entry["command"],
        port_of(&entry),
        secret_of(&entry),
    );
    assert_eq!(line, request(id_of(&line), "session/new", &format!("{before}{spelt},{after}")));
    // With nothing of ours in it, not a byte is touched.
    let params = format!("{before}{after}");
    play.tool_proxy().forward("2", "session/new", &params);
    let line = play.agent.line();
    assert_eq!(line, request(id_of(&line), "session/new", &params));
}

/// The forms of the older documents: a map by name, below `tools`.
#[test]
fn servers_in_a_map_stay_in_a_map() {
    let mut play = Play::tools(STDIO);
    for declared in
        [r#"{"transport":"http","url":"acp:U","headers":{}}"#, r#"{"transport":"acp","uuid":"U"}"#]
    {
        let params = format!(
            r#"{{"tools":{{"mcpServers":{{"mine":{declared},"other":{{"command":"x","args":[]}}}}}}}}"#
        );
        play.tool_proxy().forward("1", "session/new", &params);
        let asked = play.agent.request("session/new");
        let servers = &asked["params"]["tools"]["mcpServers"];
        let entry = &servers["mine"];
        assert_eq!(
            (&entry["transport"], &entry["command"], &entry["args"][0]),
            (&json!("stdio"), &json!(env!("CARGO_BIN_EXE_conductor")), &json!("mcp")),
        );
        let env = entry["env"].as_object().expect("a map");
        assert!(env.len() == 1 && env.contains_key("CONDUCTOR_SECRET"), "{entry}");
        assert_eq!(servers["other"], json!({ "command": "x", "args": [] }));
        play.agent.answer(&asked, r#"{"sessionId":"S"}"#);
        play.tool_proxy().message();
    }
}

/// Checklist 74; phase 2: intermediate components are always told that it works.
#[test]
fn everybody_but_the_agent_is_told_that_acp_works() {
    for (said, told) in [
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
            let play = Play::begin(stage(), names, said);
            assert_eq!(play.greeted, told, "{names:?}");
        }
        let off = stage().option(&["--mcp-bridge", "off"]);
        assert_eq!(Play::begin(off, &["tools", "agent"], said).greeted, said);
    }
}

/// A proxy that changes what the agent said, as real ones do, is told it works all the same; so is
/// the editor.
#[test]
fn each_proxy_is_told_by_itself() {
    let mut stage = stage().named(&["one", "two", "agent"]);
    stage.editor.send(&request("1", "initialize", GREETING));
    let (mut proxies, mut asked) = (Vec::new(), Vec::new());
    for name in ["one", "two"] {
        let mut proxy = stage.enter(name);
        asked.push(proxy.request("proxy/initialize"));
        proxy.forward("1", "initialize", GREETING);
        proxies.push(proxy);
    }
    let mut agent = stage.enter("agent");
    let greeting = agent.request("initialize");
    agent.answer(&greeting, STDIO);
    for (proxy, asked) in proxies.iter_mut().zip(&asked).rev() {
        let told = proxy.message();
        assert_eq!(told["result"]["agentCapabilities"]["mcpCapabilities"]["acp"], true, "{told}");
        // Made of types that have no such member.
        proxy.answer(asked, STDIO);
    }
    let told = stage.editor.message();
    assert_eq!(told["result"]["agentCapabilities"]["mcpCapabilities"]["acp"], true, "{told}");
}

/// Checklist 69: an agent that speaks MCP over ACP is given everything as it is.
#[test]
fn an_agent_with_acp_speaks_for_itself() {
    let able =
        r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"http":true,"acp":true}}}"#;
    let mut play = Play::tools(able);
    let params = format!(r#"{{"cwd":"/","n": 1.10,"mcpServers":[{}]}}"#, m7("tools", "U"));
    play.tool_proxy().forward("1", "session/new", &params);
    let line = play.agent.line();
    assert_eq!(line, request(id_of(&line), "session/new", &params));
    let message = r#"{"serverId":"U","requestId":"r-1","method":"tools/list","params":{"n":1e400,"_meta":{}}}"#;
    play.agent.send(&request("7", "mcp/message", message));
    let line = play.tool_proxy().line();
    assert_eq!(line, wrapped_request(id_of(&line), "mcp/message", message));
    let note = r#"{"serverId":"U","requestId":"r-1","method":"notifications/progress","params":{"progress":1.10}}"#;
    play.tool_proxy().send(&wrapped_notification("mcp/message", note));
    assert_eq!(play.agent.line(), notification("mcp/message", note));
    let answer = r#"{"result":{"resultType":"complete","n":1.10}}"#;
    play.tool_proxy().send(&result(id_of(&line), answer));
    assert_eq!(play.agent.line(), result("7", answer));
}

/// `--mcp-bridge off`: not a byte is edited, and what the agent does with it is its own affair.
#[test]
fn off_edits_nothing() {
    for (agent, server) in [(STDIO, m3("tools", "U")), (HTTP, m7("tools", "U"))] {
        let off = stage().option(&["--mcp-bridge", "off"]);
        let mut play = Play::begin(off, &["tools", "agent"], agent);
        let params = format!(r#"{{"cwd":"/","n":1.10,"mcpServers":[{server}]}}"#);
        play.tool_proxy().forward("1", "session/new", &params);
        let line = play.agent.line();
        assert_eq!(line, request(id_of(&line), "session/new", &params));
        play.agent.send(&request("7", "_mcp/connect", r#"{"acp_url":"acp:U"}"#));
        let asked = heard(play.tool_proxy());
        let expected = json!({ "id": asked["id"], "method": "_mcp/connect", "params": { "acp_url": "acp:U" } });
        assert_eq!(asked, expected);
    }
}

/// `--mcp-bridge stdio` and `http`: whatever the agent says.
#[test]
fn a_transport_can_be_forced() {
    for agent in [STDIO, HTTP] {
        let forced = |how| stage().option(&["--mcp-bridge", how]);
        let mut play = Play::begin(forced("stdio"), &["tools", "agent"], agent);
        let entry = play.session("S", &[&[m3("tools", "U")]]).remove(0);
        assert_command(&entry, "tools");
        let mut play = Play::begin(forced("http"), &["tools", "agent"], agent);
        let entry = play.session("S", &[&[m3("tools", "U")]]).remove(0);
        assert_http(&entry, "tools");
        let mut client = Client::of(&entry);
        connect(&mut client, play.tool_proxy(), "C");
    }
}

/// Checklist 88: no proxy at all, and beside its other servers.
#[test]
fn a_server_of_the_editor_is_bridged_like_a_proxys() {
    for agent in [STDIO, HTTP] {
        let mut play = Play::begin(stage(), &["agent"], agent);
        let other = json!({ "name": "o", "command": "x", "args": [], "env": [] });
        let params = json!({ "cwd": "/", "mcpServers": [other, parse(&m3("mine", "U"))] });
        let asked = play.ask("session/new", &params, &[]);
        assert_eq!(asked["mcpServers"][0], other);
        let mut client = Client::of(&asked["mcpServers"][1]);
        // Its answer waits for the client, as with an agent that starts its servers first.
        let editor = &mut play.stage.editor;
        connect(&mut client, editor, "C");
        list_tools(&mut client, editor, "C");
        play.answer(r#"{"sessionId":"S"}"#);
        client.close();
        let gone = play.stage.editor.message();
        assert_eq!(gone["method"], "_mcp/disconnect", "{gone}");
    }
}

/// Checklist 109: in v2 the capability is elsewhere, and every server has a type.
#[test]
fn v2_is_edited_in_its_own_places_only() {
    const V2: &str = r#"{"protocolVersion":2,"capabilities":{},"info":{"name":"e","version":"1"}}"#;
    for (kind, entry_type) in [("stdio", "stdio"), ("http", "http")] {
        let said = format!(
            r#"{{"protocolVersion":2,"capabilities":{{"session":{{"mcp":{{"{kind}":{{}}}},"x":1.10}}}},"info":{{"name":"a","version":"1"}}}}"#
        );
        let told = said
            .replace(&format!(r#"{{"{kind}":{{}}}}"#), &format!(r#"{{"{kind}":{{}},"acp":{{}}}}"#));
        let names = ["tools", "agent"];
        let mut play = Play::of(stage().named(&names), &names, V2, &said);
        assert_eq!(play.greeted, told);
        let other = r#"{"type":"stdio","name":"o","command":"/x","args":[ ],"env":[]}"#;
        let params =
            format!(r#"{{"cwd":"/","mcpServers":[{other},{}],"n":1.10}}"#, m7("tools", "U"));
        play.tool_proxy().forward("1", "session/new", &params);
        let line = play.agent.line();
        let asked = parse(&line);
        let entry = &asked["params"]["mcpServers"][1];
        assert_eq!((&entry["type"], &entry["name"]), (&json!(entry_type), &json!("tools")));
        assert!(
            line.contains(&format!(r#""params":{{"cwd":"/","mcpServers":[{other},"#)),
            "{line}"
        );
        assert!(line.ends_with(r#"],"n":1.10}}"#), "{line}");
        assert!(secret_of(entry).len() >= 32);
    }
    // An agent that takes no transport at all cannot be helped.
    let said =
        r#"{"protocolVersion":2,"capabilities":{"session":{}},"info":{"name":"a","version":"1"}}"#;
    let names = ["tools", "agent"];
    let mut play = Play::of(stage().named(&names), &names, V2, said);
    let params = format!(r#"{{"cwd":"/","mcpServers":[{}]}}"#, m7("tools", "U"));
    play.tool_proxy().forward("1", "session/new", &params);
    let answer = play.tool_proxy().message();
    assert_eq!((&answer["id"], &answer["error"]["code"]), (&json!("1"), &json!(-32602)));
    assert!(answer["error"]["message"].as_str().expect("words").contains("--mcp-bridge"));
    play.assert_agent_undisturbed();
}

/// Issue 4: who was there before keeps the name, the other gets a number; both can be called.
#[test]
fn the_same_name_twice_is_told_apart() {
    let mut play = Play::begin(stage(), &["one", "two", "agent"], STDIO);
    let params = json!({ "cwd": "/", "mcpServers": [{ "name": "tools", "command": "x", "args": [], "env": [] }] });
    let servers: [&[String]; 2] = [&[m3("tools", "U")], &[m3("tools", "U")]];
    let asked = play.ask("session/new", &params, &servers);
    let list = asked["mcpServers"].as_array().expect("a list");
    let names: Vec<&str> = list.iter().map(|it| it["name"].as_str().expect("a name")).collect();
    assert_eq!(names, ["tools", "tools-2", "tools-3"]);
    assert_eq!(list[0], params["mcpServers"][0]);
    play.answer(r#"{"sessionId":"S"}"#);
    // The ids are the same, too, and so will be those of the connections: each provider hears its own.
    let mut first = Client::of(&list[1]);
    first.send(&request("0", "initialize", "{}"));
    let passing = heard(&mut play.proxies[1]);
    assert_eq!(passing["method"], "_mcp/connect");
    play.proxies[1].send(&request("\"p\"", "_mcp/connect", &passing["params"].to_string()));
    assert_eq!(accept(&mut play.proxies[0], "C"), "acp:U", "as it calls it itself");
    let answer = play.proxies[1].message();
    assert_eq!(answer["id"], "p", "{answer}");
    reply(&mut play.proxies[1], &passing["id"], &answer["result"].to_string());
    let passing = heard(&mut play.proxies[1]);
    play.proxies[1].send(&request("\"q\"", "_mcp/message", &passing["params"].to_string()));
    let (id, _) = said(&mut play.proxies[0], "C", "initialize");
    reply(&mut play.proxies[0], &id, SERVED);
    assert_eq!(play.proxies[1].line(), result("\"q\"", SERVED));
    reply(&mut play.proxies[1], &passing["id"], SERVED);
    assert_eq!(first.line(), result("0", SERVED));
    let mut second = Client::of(&list[2]);
    connect(&mut second, &mut play.proxies[1], "C");
    list_tools(&mut second, &mut play.proxies[1], "C");
    first.send(&request("1", "tools/list", "{}"));
    let passing = heard(&mut play.proxies[1]);
    play.proxies[1].send(&request("\"r\"", "_mcp/message", &passing["params"].to_string()));
    said(&mut play.proxies[0], "C", "tools/list");
}
