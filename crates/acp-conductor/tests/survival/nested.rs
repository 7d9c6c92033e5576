//! Chains inside chains, and components that are not processes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use acp_conductor::{Config, InProcess, Mode, Spec};
use serde_json::{Value, json};
use testkit::rpc::{id_of, request, result, wrapped_request};
use testkit::test_chain::{assert_gone, wait_until};

use crate::chain::{
    LOADS, PLAIN, ScriptedChain, SessionRequest, assert_crash, expect_greeting, forward_next, kill,
};
use crate::{new_setup, setup_with_notices};

const INNER: &str = "proxy --restart-delay 0..0 --notices off";

/// A chain of `a`, an inner chain of `b` and `c`, `d`, and an agent, with a session.
fn nested() -> (ScriptedChain, SessionRequest) {
    let setup = new_setup();
    let inner = setup.nested(
        INNER,
        &[setup.scripted_json("b").to_string(), setup.scripted_json("c").to_string()],
    );
    let components = [
        setup.scripted_json("a").to_string(),
        inner,
        setup.scripted_json("d").to_string(),
        setup.scripted_json("agent").to_string(),
    ];
    let chain = setup.run("agent", &components);
    let mut chain = ScriptedChain::handshake(chain, &["a", "b", "c", "d", "agent"], PLAIN);
    let session = chain.new_session("s");
    (chain, session)
}

/// The inner conductor handles a crash inside its chain, and the outer one does not notice.
#[test]
fn an_inner_chain_survives_a_crash_of_its_component() {
    let (mut chain, session) = nested();
    let inner = chain.test.conductor.component_pid("conductor proxy");
    for at in [1, 2] {
        chain.kill_proxy(at);
        chain.expect_replay(at, std::slice::from_ref(&session));
        chain.assert_works();
    }
    assert_eq!(chain.test.conductor.component_pid("conductor proxy"), inner);
    let components = chain.status()["components"].take();
    let restarts = components.as_array().expect("a list").iter().map(|it| it["restarts"].clone());
    assert_eq!(restarts.collect::<Vec<Value>>(), [0, 0, 0, 0]);
    // The inner chain answers a request that was inside the crashed component.
    chain.test.editor.send(&request("1", "_x/ask", "{}"));
    forward_next(&mut chain.proxies[0]);
    forward_next(&mut chain.proxies[1]);
    chain.proxies[2].request("_x/ask");
    chain.proxies[2].exit(3);
    forward_next(&mut chain.proxies[1]);
    forward_next(&mut chain.proxies[0]);
    let answer = chain.test.editor.message();
    assert_crash(&answer, json!(1), "c", "exited with status 3", "restarted");
    chain.await_restart(2);
    chain.expect_replay(2, &[session]);
    chain.assert_works();
}

/// An inner chain crashes with its conductor. The outer conductor restarts it, and it restarts its components.
/// The session replay is answered from memory at the end of the inner chain.
#[test]
fn an_outer_chain_survives_a_crash_of_the_inner_chain() {
    let (mut chain, session) = nested();
    for _ in 0..2 {
        let inner = chain.test.conductor.component_pid("conductor proxy");
        // SAFETY: sends a signal to a child of the conductor that the test has started.
        unsafe { libc::kill(inner as i32, libc::SIGKILL) };
        let old = [chain.proxies[1].pid, chain.proxies[2].pid];
        old.into_iter().for_each(|pid| assert_gone(pid, "a component of the inner chain"));
        chain.await_restart(1);
        let first = expect_greeting(&mut chain.proxies[1]);
        chain.await_restart(2);
        let second = expect_greeting(&mut chain.proxies[2]);
        for (at, id) in [(2, second), (1, first)] {
            assert_eq!(chain.proxies[at].line(), result("\"init\"", PLAIN));
            chain.proxies[at].send(&result(&id, PLAIN));
        }
        let SessionRequest { method, params, result: answer } = &session;
        let mut received = Vec::new();
        for at in [1, 2] {
            let line = chain.proxies[at].line();
            assert_eq!(line, request(id_of(&line), method, params));
            chain.proxies[at].send(&wrapped_request("\"again\"", method, params));
            received.push(id_of(&line).to_owned());
        }
        for at in [2, 1] {
            assert_eq!(chain.proxies[at].line(), result("\"again\"", answer));
            chain.proxies[at].send(&result(&received[at - 1], answer));
        }
        chain.assert_works();
    }
}

/// An inner chain's notice about a bypassed component reaches the editor through the outer chain.
#[test]
fn notices_of_an_inner_chain_reach_the_editor() {
    let setup = setup_with_notices();
    let inner =
        setup.nested("proxy --on-crash bypass", &[setup.scripted_json("inner").to_string()]);
    let components =
        [setup.scripted_json("outer").to_string(), inner, setup.scripted_json("agent").to_string()];
    let chain = setup.run("agent", &components);
    let mut chain = ScriptedChain::handshake(chain, &["outer", "inner", "agent"], PLAIN);
    chain.new_session("s");
    let received = chain.prompt("1", "s");
    kill(&chain.proxies[1]);
    chain.proxies.remove(1);
    let notice = forward_next(&mut chain.proxies[0]);
    assert_eq!(notice["params"]["method"], "session/update", "{notice}");
    let notice = chain.test.editor.message();
    let text = notice["params"]["update"]["content"]["text"].as_str().expect("text");
    assert!(text.contains("proxy 'inner' crashed") && text.contains("bypassed"), "{text}");
    assert_eq!(chain.answer(&received, "{}")["id"], 1);
    chain.assert_works();
}

/// A chain that is the agent of another chain survives a crash of its own agent.
#[test]
fn a_chain_that_is_an_agent_survives_a_crash_of_its_agent() {
    let setup = new_setup();
    let inner = setup.nested(
        "agent --restart-delay 0..0 --notices off",
        &[setup.scripted_json("b").to_string(), setup.scripted_json("agent").to_string()],
    );
    let components = [setup.scripted_json("a").to_string(), inner];
    let chain = setup.run("agent", &components);
    let mut chain = ScriptedChain::handshake(chain, &["a", "b", "agent"], LOADS);
    let session = chain.new_session("s");
    chain.kill_agent();
    let received = chain.agent.request("session/load");
    chain.agent.answer(&received, "{}");
    chain.assert_works();
    // The outer chain survives a crash of the inner one, which loads its session again.
    let inner = chain.status()["components"][1]["pid"].as_i64().expect("a process");
    // SAFETY: sends a signal to a child of the conductor that the test has started.
    unsafe { libc::kill(inner as i32, libc::SIGKILL) };
    chain.await_restart(1);
    let id = expect_greeting(&mut chain.proxies[1]);
    chain.await_agent_restart();
    assert_eq!(chain.proxies[1].line(), result("\"init\"", LOADS));
    chain.proxies[1].send(&result(&id, LOADS));
    forward_next(&mut chain.proxies[1]);
    let received = chain.agent.request("session/load");
    assert_eq!(received["params"]["sessionId"], "s");
    assert_eq!(received["params"]["cwd"], testkit::test_chain::parse(&session.params)["cwd"]);
    chain.agent.answer(&received, "{}");
    forward_next(&mut chain.proxies[1]);
    chain.assert_works();
}

// In-process components, in a program that embeds the conductor.

/// Counts what the components of an embedded chain have received.
#[derive(Debug, Default)]
struct Seen {
    proxies: AtomicUsize,
    sessions: AtomicUsize,
    agents: AtomicUsize,
    loads: AtomicUsize,
}

fn embedded(seen: &Arc<Seen>) -> Config {
    use acp_proxy::{Agent, Json, Proxy, Side};
    let counts = seen.clone();
    let proxy = InProcess::of(move || {
        counts.proxies.fetch_add(1, Ordering::SeqCst);
        let counts = counts.clone();
        Proxy::new("proxy")
            .on_raw_request(Side::Editor, "session/new", async move |call, next| {
                counts.sessions.fetch_add(1, Ordering::SeqCst);
                next.run(call).await
            })
            .on_raw_request(Side::Editor, "_panic/proxy", async |_, _| panic!("as asked"))
    });
    let counts = seen.clone();
    let agent = InProcess::of(move || {
        counts.agents.fetch_add(1, Ordering::SeqCst);
        let counts = counts.clone();
        Agent::new("agent")
            .on_raw_request("initialize", async |_, _| {
                let offer = r#"{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}"#;
                Ok(Json::trusted(offer))
            })
            .on_raw_request("session/new", async |_, _| Ok(Json::trusted(r#"{"sessionId":"s"}"#)))
            .on_raw_request("session/load", async move |_, _| {
                counts.loads.fetch_add(1, Ordering::SeqCst);
                Ok(Json::trusted("{}"))
            })
            .on_raw_request("_x/ask", async |_, _| Ok(Json::trusted("{}")))
            .on_raw_request("_panic/agent", async |_, _| panic!("as asked"))
    });
    let specs = vec![Spec::in_process("proxy", proxy), Spec::in_process("agent", agent)];
    let mut config = Config::new(Mode::Agent, specs);
    config.failure.restart_delay = (std::time::Duration::ZERO, std::time::Duration::ZERO);
    config.failure.notices = false;
    config
}

/// An in-process component that panics is replaced like a program that crashes.
#[test]
fn in_process_components_that_panic_are_replaced() {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
    let seen = Arc::new(Seen::default());
    let config = embedded(&seen);
    let (ours, theirs) = tokio::io::duplex(64 * 1024);
    let (reader, writer) = tokio::io::split(theirs);
    let streams: (acp_conductor::link::Reader, acp_conductor::link::Writer) =
        (Box::new(reader), Box::new(writer));
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let talk = async {
        let (reader, mut writer) = tokio::io::split(ours);
        let mut lines = BufReader::new(reader).lines();
        let mut ask = async |method: &str| -> Value {
            let params = json!({ "protocolVersion": 1, "cwd": "/", "mcpServers": [] });
            let line = request("1", method, &params.to_string());
            writer.write_all(format!("{line}\n").as_bytes()).await.expect("a chain");
            let line = lines.next_line().await.expect("a chain").expect("an answer");
            testkit::test_chain::parse(&line)
        };
        assert!(ask("initialize").await["result"].is_object());
        assert_eq!(ask("session/new").await["result"]["sessionId"], "s");
        for round in 1..=2 {
            for name in ["proxy", "agent"] {
                let answer = ask(&format!("_panic/{name}")).await;
                assert_crash(&answer, json!(1), name, "as asked", "restarted");
                assert!(ask("_x/ask").await["result"].is_object());
            }
            assert_eq!(seen.proxies.load(Ordering::SeqCst), round + 1);
            assert_eq!(seen.sessions.load(Ordering::SeqCst), round + 1);
            assert_eq!(seen.agents.load(Ordering::SeqCst), round + 1);
            assert_eq!(seen.loads.load(Ordering::SeqCst), round);
        }
    };
    let ended = runtime.block_on(async {
        let (ending, ()) =
            tokio::join!(acp_conductor::run(config, streams, std::future::pending()), talk);
        ending
    });
    assert!(matches!(ended, acp_conductor::Ending::Clean), "{ended:?}");
}

/// A built-in component in a chain of processes.
#[test]
fn a_chain_with_built_in_components_survives_a_crash_of_the_agent() {
    let setup = new_setup();
    let components = ["context --text one".to_owned(), setup.scripted_json("agent").to_string()];
    let chain = setup.run("agent", &components);
    let mut chain = ScriptedChain::handshake(chain, &["agent"], LOADS);
    chain.new_session("s");
    chain.kill_agent();
    let received = chain.agent.request("session/load");
    chain.agent.answer(&received, "{}");
    chain.test.editor.send(&request("1", "session/prompt", &crate::chain::prompt("s")));
    let received = chain.agent.request("session/prompt");
    assert_eq!(received["params"]["prompt"][0]["text"], "one", "{received}");
    chain.agent.answer(&received, "{}");
    assert_eq!(chain.test.editor.message()["id"], 1);
    wait_until("both are live", || {
        let status = chain.status();
        (0..2).all(|at| status["components"][at]["state"] == "live").then_some(())
    });
}
