//! Providers inside a chain inside the chain, under our own conductor and under another.

use testkit::peers::{Peers, quote};
use testkit::rpc::{id_of, request, result, wrapped_request};
use testkit::stage::{Setup, Stage, parse};

use crate::clients::Client;
use crate::play::{GREETING, HTTP, Play, STDIO, connect, list_tools, m3, m7};
use crate::{stage, stateless};

/// `conductor agent "conductor proxy tools" agent`, which stands.
fn nested(setup: Setup, greeted: &str) -> Play {
    let inner = setup.subchain(&[setup.puppet("tools")]);
    let agent = setup.puppet("agent");
    let stage = setup.run("agent", &[inner, agent]);
    Play::of(stage, &["tools", "agent"], GREETING, greeted)
}

/// Ours as a proxy, with one component.
fn ours(options: &str, component: &str) -> String {
    format!("{} proxy {options} {}", quote(env!("CARGO_BIN_EXE_conductor")), quote(component))
}

/// A session in which the provider's tools are listed, in its form.
fn use_tools(play: &mut Play, stateless: bool) {
    let server = if stateless { m7("tools", "U") } else { m3("tools", "U") };
    let entry = play.session("S", &[&[server]]).remove(0);
    let mut client = Client::of(&entry);
    match stateless {
        true => {
            stateless::connect(&mut client, play.tool_proxy());
            stateless::list_tools(&mut client, play.tool_proxy());
        }
        false => {
            connect(&mut client, play.tool_proxy(), "C");
            list_tools(&mut client, play.tool_proxy(), "C");
        }
    }
    play.assert_editor_undisturbed();
}

/// Checklist 64, 67 for tools.
#[test]
fn a_provider_in_a_subchain_serves_the_agent() {
    for greeted in [STDIO, HTTP] {
        for stateless in [false, true] {
            use_tools(&mut nested(stage(), greeted), stateless);
        }
    }
}

/// Three levels deep.
#[test]
fn a_provider_in_a_subchain_of_a_subchain_serves_the_agent() {
    let setup = stage();
    let inner = setup.subchain(&[setup.puppet("tools")]);
    let middle = setup.subchain(&[inner]);
    let agent = setup.puppet("agent");
    let stage = setup.run("agent", &[middle, agent]);
    use_tools(&mut Play::of(stage, &["tools", "agent"], GREETING, STDIO), false);
}

/// Under the reference conductor, which has no bridge: ours is one, from inside.
#[test]
fn a_provider_in_our_subchain_serves_an_agent_of_the_reference_conductor() {
    let peers = Peers::load();
    for greeted in [STDIO, HTTP] {
        for stateless in [false, true] {
            let setup = Stage::new(peers.command("reference"));
            let inner = ours("", &setup.puppet("tools"));
            let agent = setup.puppet("agent");
            let stage = setup.run("agent", &[inner, agent]);
            use_tools(&mut Play::of(stage, &["tools", "agent"], GREETING, greeted), stateless);
        }
    }
}

/// The inner conductor is told to leave it alone: the outer one does it.
#[test]
fn one_bridge_is_enough() {
    let setup = stage();
    let inner = ours("--mcp-bridge off", &setup.puppet("tools"));
    let agent = setup.puppet("agent");
    let stage = setup.run("agent", &[inner, agent]);
    use_tools(&mut Play::of(stage, &["tools", "agent"], GREETING, STDIO), false);
}

/// The provider stands before the chain in the chain: what the agent says to it passes through.
#[test]
fn a_provider_before_a_subchain_serves_the_agent() {
    for stateless in [false, true] {
        let setup = stage();
        let inner = setup.subchain(&[testkit::stage::binary("transparent").display().to_string()]);
        let (tools, agent) = (setup.puppet("tools"), setup.puppet("agent"));
        let stage = setup.run("agent", &[tools, inner, agent]);
        use_tools(&mut Play::of(stage, &["tools", "agent"], GREETING, STDIO), stateless);
    }
}

/// Checklist 89, for a conductor above us of the newest generation: it gets the newest declaration,
/// whatever our provider's is, and what it then says reaches the provider in the provider's words.
#[test]
fn a_parent_of_the_newest_generation_is_given_the_newest_declaration() {
    for (entry, connect) in [
        (m3("N", "U"), "_mcp/connect"),
        (r#"{"name":"N","transport":"acp","uuid":"U"}"#.to_owned(), "mcp/connect"),
        (r#"{"type":"acp","name":"N","id":"U"}"#.to_owned(), "mcp/connect"),
    ] {
        let setup = stage();
        let tools = setup.puppet("tools");
        let mut stage = setup.run("proxy", &[tools]);
        let native =
            r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"acp":true}}}"#;
        stage.editor.send(&request("\"g\"", "proxy/initialize", GREETING));
        let mut tools = stage.enter("tools");
        let greeting = tools.line();
        tools.send(&wrapped_request("0", "initialize", GREETING));
        let forwarded = stage.editor.line();
        stage.editor.send(&result(id_of(&forwarded), native));
        assert_eq!(tools.line(), result("0", native));
        tools.send(&result(id_of(&greeting), native));
        assert_eq!(stage.editor.line(), result("\"g\"", native));

        stage.editor.send(&request("1", "session/new", r#"{"cwd":"/","mcpServers":[]}"#));
        tools.request("session/new");
        let params = format!(r#"{{"cwd":"/","mcpServers":[{entry}]}}"#);
        tools.send(&wrapped_request("\"new\"", "session/new", &params));
        let new = stage.editor.line();
        let params = format!(r#"{{"cwd":"/","mcpServers":[{}]}}"#, m7("N", "U"));
        assert_eq!(new, wrapped_request(id_of(&new), "session/new", &params), "{entry}");

        let said = r#"{"serverId":"U","requestId":"r","method":"tools/call"}"#;
        stage.editor.send(&wrapped_request("7", "mcp/message", said));
        let asked = parse(&tools.line());
        assert_eq!(asked["params"]["method"], connect, "{asked}");
        let id = asked["id"].to_string();
        tools.send(&result(&id, r#"{"connectionId":"C","connection_id":"C"}"#));
        let hello = parse(&tools.line());
        assert_eq!(hello["params"]["params"]["method"], "initialize", "{hello}");
        tools.send(&result(&hello["id"].to_string(), "{}"));
        let ready = parse(&tools.line());
        assert_eq!(ready["params"]["params"]["method"], "notifications/initialized");
        let call = parse(&tools.line());
        assert_eq!(call["params"]["params"]["method"], "tools/call", "{call}");
        tools.send(&result(&call["id"].to_string(), r#"{"content":[]}"#));
        let answer = r#"{"result":{"content":[],"resultType":"complete"}}"#;
        assert_eq!(stage.editor.line(), result("7", answer));
    }
}
