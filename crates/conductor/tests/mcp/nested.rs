//! Providers inside a chain inside the chain, under our own conductor and under another.

use testkit::peers::{Peers, quote};
use testkit::stage::{Setup, Stage};

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
