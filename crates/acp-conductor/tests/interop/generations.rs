//! Published programs of every generation, without any configuration.

use serde_json::json;
use testkit::peers::quote;
use testkit::test_chain::{TestChain, TestChainBuilder, directory};

use crate::{check, check_command, marking, own_conductor, peer};

/// A proxy with an older SDK that leaves a mark.
fn old_proxy(name: &str, mark: &str) -> String {
    format!("{} --mark {mark}", peer(name))
}

/// `CONDUCTOR proxy` (or its equivalent) with these components, as one component.
fn subchain(conductor: &str, mode: &str, components: &[String]) -> String {
    let components: Vec<String> = components.iter().map(|it| quote(it)).collect();
    format!("{conductor} {mode} {}", components.join(" "))
}

/// Checklist 15, 16: each proxy alone, between an editor and an agent with other SDKs.
#[test]
fn proxies_of_every_published_generation_work() {
    for name in ["proxy_3_6", "proxy_2_2", "proxy_1_3", "proxy_0_11", "proxy_sacp_11", "proxy_p3"] {
        check("ts_editor", &own_conductor(), &[old_proxy(name, "A"), peer("rust_agent")], &["A"]);
    }
    for name in ["tee_10", "tee_0_1"] {
        check("ts_editor", &own_conductor(), &[peer(name), peer("rust_agent")], &[]);
    }
}

/// Checklist 22: all proxies in one chain, with two further SDKs for the editor and the agent.
#[test]
fn proxies_of_all_generations_work_in_one_chain() {
    let chain = [
        old_proxy("proxy_p3", "A"),
        old_proxy("proxy_0_11", "B"),
        peer("tee_10"),
        old_proxy("proxy_sacp_11", "C"),
        old_proxy("proxy_1_3", "D"),
        peer("tee_0_1"),
        old_proxy("proxy_2_2", "E"),
        old_proxy("proxy_3_6", "F"),
        marking("G"),
        peer("ts_agent"),
    ];
    check("py_editor", &own_conductor(), &chain, &["A", "B", "C", "D", "E", "F", "G"]);
}

/// Checklist 28, 64, 67: this conductor as a component of conductors of other generations.
#[test]
fn the_conductor_works_inside_conductors_of_every_published_generation() {
    let inner = subchain(&own_conductor(), "proxy", &[marking("A"), old_proxy("proxy_p3", "B")]);
    for name in ["conductor_3_6", "conductor_sacp_11", "conductor_sacp_5", "conductor_sacp_4"] {
        check("rust_editor", &peer(name), &[inner.clone(), peer("rust_agent")], &["A", "B"]);
    }
    // `ts_thinkwell` has no modes.
    let components = [quote(&inner), quote(&peer("rust_agent"))];
    check_command(
        "rust_editor",
        &format!("{} {}", peer("ts_thinkwell"), components.join(" ")),
        &["A", "B"],
    );
}

/// Checklist 21: older conductors crash on an unknown greeting, some of them only at the next line. They are
/// restarted with a greeting that they know.
#[test]
fn conductors_of_every_published_generation_work_as_components() {
    for (name, mode, proxy) in [
        ("conductor_3_6", "proxy", "proxy_3_6"),
        ("conductor_sacp_11", "proxy", "proxy_sacp_11"),
        ("conductor_sacp_5", "agent", "proxy_sacp_11"),
        ("conductor_sacp_4", "agent", "proxy_p3"),
    ] {
        let inner = subchain(&peer(name), mode, &[old_proxy(proxy, "B")]);
        let chain = [marking("A"), inner, marking("C"), peer("rust_agent")];
        check("rust_editor", &own_conductor(), &chain, &["A", "B", "C"]);
    }
}

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}"#;

fn start_with_sparkle(
    name: &str,
    agent: impl FnOnce(&TestChainBuilder) -> String,
) -> (TestChain, String) {
    let home = directory(name).to_str().expect("UTF-8").to_owned();
    let setup = TestChain::builder(env!("CARGO_BIN_EXE_conductor"))
        .env("XDG_CACHE_HOME", &home)
        .env("HOME", &home)
        .option(&["--grace", "0.5"]);
    let components = [peer(name), agent(&setup)];
    let mut chain = setup.run("agent", &components);
    chain.editor.send(INITIALIZE);
    (chain, home)
}

fn prompt(id: u32, session: &str, text: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"session/prompt","params":{{"sessionId":"{session}","prompt":[{{"type":"text","text":"{text}"}}]}}}}"#
    )
}

fn new_session(directory: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":2,"method":"session/new","params":{{"cwd":"{directory}","mcpServers":[]}}}}"#
    )
}

/// The published Sparkle in both generations: its server is declared to the agent, the first prompt waits for
/// the embodiment, and later ones pass.
#[test]
fn sparkle_embodies_before_the_first_prompt() {
    for name in ["sparkle_0_7", "sparkle_0_1"] {
        let (mut chain, home) = start_with_sparkle(name, |setup| setup.scripted_command("agent"));
        let mut agent = chain.wait_for_component("agent");
        let greeting = agent.request("initialize");
        agent.answer(&greeting, r#"{"protocolVersion":1,"agentCapabilities":{},"authMethods":[]}"#);
        assert_eq!(chain.editor.message()["result"]["protocolVersion"], 1, "{name}");
        chain.editor.send(&new_session(&home));
        let new = agent.request("session/new");
        let server = &new["params"]["mcpServers"][0];
        assert_eq!((&server["name"], &server["args"][0]), (&json!("sparkle"), &json!("mcp")));
        agent.answer(&new, r#"{"sessionId":"S1"}"#);
        assert_eq!(chain.editor.message()["result"]["sessionId"], "S1");

        chain.editor.send(&prompt(3, "S1", "hello"));
        let mut before = Vec::new();
        loop {
            let received = agent.request("session/prompt");
            let text =
                received["params"]["prompt"][0]["text"].as_str().unwrap_or_default().to_owned();
            agent.answer(&received, r#"{"stopReason":"end_turn"}"#);
            if text == "hello" {
                break;
            }
            before.push(text);
        }
        assert!(before[0].to_lowercase().contains("embodiment"), "{name}: {before:?}");
        assert_eq!(chain.editor.message()["id"], 3);
        chain.editor.send(&prompt(4, "S1", "again"));
        let received = agent.request("session/prompt");
        assert_eq!(received["params"]["prompt"][0]["text"], "again");
        agent.answer(&received, r#"{"stopReason":"end_turn"}"#);
        assert_eq!(chain.editor.message()["id"], 4);
    }
}

/// The same with a published agent that uses another SDK.
#[test]
fn sparkle_works_with_a_published_agent() {
    for name in ["sparkle_0_7", "sparkle_0_1"] {
        let (mut chain, home) = start_with_sparkle(name, |_| peer("eliza_12"));
        assert_eq!(chain.editor.message()["result"]["protocolVersion"], 1, "{name}");
        chain.editor.send(&new_session(&home));
        let created = chain.editor.message();
        let session = created["result"]["sessionId"].as_str().expect("a session").to_owned();
        chain.editor.send(&prompt(3, &session, "Hello there"));
        let mut chunks = 0;
        let answer = loop {
            let message = chain.editor.message();
            match message["method"].as_str() {
                Some("session/update") => chunks += 1,
                _ => break message,
            }
        };
        assert_eq!(answer["id"], 3, "{answer}");
        assert_eq!(answer["result"]["stopReason"], "end_turn", "{answer}");
        assert!(chunks >= 2, "the agent answers the embodiment and the user: {chunks}");
    }
}
