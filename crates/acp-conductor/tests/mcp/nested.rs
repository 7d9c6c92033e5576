//! Providers inside a nested chain, under this conductor and under the reference conductor.

use testkit::peers::{Peers, quote};
use testkit::rpc::{id_of, request, result, wrapped_request};
use testkit::test_chain::{TestChain, TestChainBuilder, parse};

use crate::chain::{GREETING, HTTP, McpChain, STDIO, connect, list_tools, m3, m7};
use crate::clients::Client;
use crate::{new_setup, stateless};

/// `conductor agent "conductor proxy tools" agent`, after the handshake.
fn nested(setup: TestChainBuilder, agent_result: &str) -> McpChain {
    let inner = setup.subchain(&[setup.scripted_command("tools")]);
    let agent = setup.scripted_command("agent");
    let chain = setup.run("agent", &[inner, agent]);
    McpChain::handshake(chain, &["tools", "agent"], GREETING, agent_result)
}

/// The command line of this conductor as a proxy with one component.
fn conductor_proxy(options: &str, component: &str) -> String {
    format!("{} proxy {options} {}", quote(env!("CARGO_BIN_EXE_conductor")), quote(component))
}

/// Sets up a session and lists the provider's tools, with or without connections.
fn use_tools(chain: &mut McpChain, stateless: bool) {
    let server = if stateless { m7("tools", "U") } else { m3("tools", "U") };
    let entry = chain.new_session("S", &[&[server]]).remove(0);
    let mut client = Client::of(&entry);
    match stateless {
        true => {
            stateless::connect(&mut client, chain.provider());
            stateless::list_tools(&mut client, chain.provider());
        }
        false => {
            connect(&mut client, chain.provider(), "C");
            list_tools(&mut client, chain.provider(), "C");
        }
    }
    chain.assert_editor_received_nothing();
}

/// Checklist 64, 67 for tools.
#[test]
fn a_provider_in_a_subchain_serves_the_agent() {
    for agent_result in [STDIO, HTTP] {
        for stateless in [false, true] {
            use_tools(&mut nested(new_setup(), agent_result), stateless);
        }
    }
}

/// Three levels deep.
#[test]
fn a_provider_in_a_subchain_of_a_subchain_serves_the_agent() {
    let setup = new_setup();
    let inner = setup.subchain(&[setup.scripted_command("tools")]);
    let middle = setup.subchain(&[inner]);
    let agent = setup.scripted_command("agent");
    let chain = setup.run("agent", &[middle, agent]);
    use_tools(&mut McpChain::handshake(chain, &["tools", "agent"], GREETING, STDIO), false);
}

/// The reference conductor has no bridge. The inner conductor bridges the server instead.
#[test]
fn a_provider_in_our_subchain_serves_an_agent_of_the_reference_conductor() {
    let peers = Peers::load();
    for agent_result in [STDIO, HTTP] {
        for stateless in [false, true] {
            let setup = TestChain::builder(peers.command("reference"));
            let inner = conductor_proxy("", &setup.scripted_command("tools"));
            let agent = setup.scripted_command("agent");
            let chain = setup.run("agent", &[inner, agent]);
            use_tools(
                &mut McpChain::handshake(chain, &["tools", "agent"], GREETING, agent_result),
                stateless,
            );
        }
    }
}

/// With the bridge of the inner conductor off, the outer one bridges the server.
#[test]
fn the_outer_bridge_is_enough() {
    let setup = new_setup();
    let inner = conductor_proxy("--mcp-bridge off", &setup.scripted_command("tools"));
    let agent = setup.scripted_command("agent");
    let chain = setup.run("agent", &[inner, agent]);
    use_tools(&mut McpChain::handshake(chain, &["tools", "agent"], GREETING, STDIO), false);
}

/// The provider is before the nested chain, so the agent's messages to it pass through that chain.
#[test]
fn a_provider_before_a_subchain_serves_the_agent() {
    for stateless in [false, true] {
        let setup = new_setup();
        let inner =
            setup.subchain(&[testkit::test_chain::binary("transparent").display().to_string()]);
        let (tools, agent) = (setup.scripted_command("tools"), setup.scripted_command("agent"));
        let chain = setup.run("agent", &[tools, inner, agent]);
        use_tools(&mut McpChain::handshake(chain, &["tools", "agent"], GREETING, STDIO), stateless);
    }
}

/// Checklist 89: a parent of the newest generation receives the newest form of declaration, whatever the
/// provider's form is. Its messages are translated to the provider's form.
#[test]
fn a_parent_of_the_newest_generation_receives_the_newest_declaration() {
    for (entry, connect) in [
        (m3("N", "U"), "_mcp/connect"),
        (r#"{"name":"N","transport":"acp","uuid":"U"}"#.to_owned(), "mcp/connect"),
        (r#"{"type":"acp","name":"N","id":"U"}"#.to_owned(), "mcp/connect"),
    ] {
        let setup = new_setup();
        let tools = setup.scripted_command("tools");
        let mut chain = setup.run("proxy", &[tools]);
        let native =
            r#"{"protocolVersion":1,"agentCapabilities":{"mcpCapabilities":{"acp":true}}}"#;
        chain.editor.send(&request("\"g\"", "proxy/initialize", GREETING));
        let mut tools = chain.wait_for_component("tools");
        let greeting = tools.line();
        tools.send(&wrapped_request("0", "initialize", GREETING));
        let forwarded = chain.editor.line();
        chain.editor.send(&result(id_of(&forwarded), native));
        assert_eq!(tools.line(), result("0", native));
        tools.send(&result(id_of(&greeting), native));
        assert_eq!(chain.editor.line(), result("\"g\"", native));

        chain.editor.send(&request("1", "session/new", r#"{"cwd":"/","mcpServers":[]}"#));
        tools.request("session/new");
        let params = format!(r#"{{"cwd":"/","mcpServers":[{entry}]}}"#);
        tools.send(&wrapped_request("\"new\"", "session/new", &params));
        let new = chain.editor.line();
        let params = format!(r#"{{"cwd":"/","mcpServers":[{}]}}"#, m7("N", "U"));
        assert_eq!(new, wrapped_request(id_of(&new), "session/new", &params), "{entry}");

        let message = r#"{"serverId":"U","requestId":"r","method":"tools/call"}"#;
        chain.editor.send(&wrapped_request("7", "mcp/message", message));
        let received = parse(&tools.line());
        assert_eq!(received["params"]["method"], connect, "{received}");
        let id = received["id"].to_string();
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
        assert_eq!(chain.editor.line(), result("7", answer));
    }
}
