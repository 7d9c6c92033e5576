//! Chains in chains, and components that are no processes. Line 7.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use acp_conductor::{Config, InProcess, Mode, Spec};
use serde_json::{Value, json};
use testkit::rpc::{id_of, request, result, wrapped_request};
use testkit::stage::{assert_gone, wait_until};

use crate::play::{LOADS, PLAIN, Play, SetUp, assert_crash, is_greeted, kill, pass};
use crate::{loud, stage};

const INNER: &str = "proxy --restart-delay 0..0 --notices off";

/// A chain of `a`, an inner chain of `b` and `c`, `d`, and an agent, with a session.
fn nested() -> (Play, SetUp) {
    let setup = stage();
    let inner =
        setup.nested(INNER, &[setup.component("b").to_string(), setup.component("c").to_string()]);
    let components = [
        setup.component("a").to_string(),
        inner,
        setup.component("d").to_string(),
        setup.component("agent").to_string(),
    ];
    let stage = setup.run("agent", &components);
    let mut play = Play::of(stage, &["a", "b", "c", "d", "agent"], PLAIN);
    let session = play.session("s");
    (play, session)
}

/// Line 7: what crashes inside an inner chain is survived there, and nobody outside knows.
#[test]
fn a_crash_in_an_inner_chain_is_survived_inside() {
    let (mut play, session) = nested();
    let inner = play.stage.conductor.component("conductor proxy");
    for at in [1, 2] {
        play.kill(at);
        play.learns(at, std::slice::from_ref(&session));
        play.works();
    }
    assert_eq!(play.stage.conductor.component("conductor proxy"), inner);
    let components = play.status()["components"].take();
    let restarts = components.as_array().expect("a list").iter().map(|it| it["restarts"].clone());
    assert_eq!(restarts.collect::<Vec<Value>>(), [0, 0, 0, 0]);
    // What was inside it is answered by the inner chain.
    play.stage.editor.send(&request("1", "_x/ask", "{}"));
    pass(&mut play.proxies[0]);
    pass(&mut play.proxies[1]);
    play.proxies[2].request("_x/ask");
    play.proxies[2].exit(3);
    pass(&mut play.proxies[1]);
    pass(&mut play.proxies[0]);
    let answer = play.stage.editor.message();
    assert_crash(&answer, json!(1), "c", "ended with status 3", "restarted");
    play.replaced(2);
    play.learns(2, &[session]);
    play.works();
}

/// Line 7: a whole inner chain dies with its conductor. The outer one starts another, which starts its
/// components; what these are told again is answered from memory at the end of the inner chain.
#[test]
fn an_inner_chain_that_dies_as_a_whole_is_survived_outside() {
    let (mut play, session) = nested();
    for _ in 0..2 {
        let inner = play.stage.conductor.component("conductor proxy");
        // SAFETY: sends a signal to a child of the conductor that the test has started.
        unsafe { libc::kill(inner as i32, libc::SIGKILL) };
        let old = [play.proxies[1].pid, play.proxies[2].pid];
        old.into_iter().for_each(|pid| assert_gone(pid, "a component of the inner chain"));
        play.replaced(1);
        let first = is_greeted(&mut play.proxies[1]);
        play.replaced(2);
        let second = is_greeted(&mut play.proxies[2]);
        for (at, id) in [(2, second), (1, first)] {
            assert_eq!(play.proxies[at].line(), result("\"init\"", PLAIN));
            play.proxies[at].send(&result(&id, PLAIN));
        }
        let SetUp { method, params, result: answer } = &session;
        let mut asked = Vec::new();
        for at in [1, 2] {
            let line = play.proxies[at].line();
            assert_eq!(line, request(id_of(&line), method, params));
            play.proxies[at].send(&wrapped_request("\"again\"", method, params));
            asked.push(id_of(&line).to_owned());
        }
        for at in [2, 1] {
            assert_eq!(play.proxies[at].line(), result("\"again\"", answer));
            play.proxies[at].send(&result(&asked[at - 1], answer));
        }
        play.works();
    }
}

/// Line 7: an inner chain that has given up a component tells it in the editor through the outer one.
#[test]
fn what_an_inner_chain_has_to_say_comes_to_the_editor() {
    let setup = loud();
    let inner = setup.nested("proxy --on-crash bypass", &[setup.component("inner").to_string()]);
    let components =
        [setup.component("outer").to_string(), inner, setup.component("agent").to_string()];
    let stage = setup.run("agent", &components);
    let mut play = Play::of(stage, &["outer", "inner", "agent"], PLAIN);
    play.session("s");
    let asked = play.prompt("1", "s");
    kill(&play.proxies[1]);
    play.proxies.remove(1);
    let notice = pass(&mut play.proxies[0]);
    assert_eq!(notice["params"]["method"], "session/update", "{notice}");
    let notice = play.stage.editor.message();
    let text = notice["params"]["update"]["content"]["text"].as_str().expect("words");
    assert!(text.contains("proxy 'inner' crashed") && text.contains("left out"), "{text}");
    assert_eq!(play.answer(&asked, "{}")["id"], 1);
    play.works();
}

/// Line 7: a chain that is the agent of another survives the death of its own agent.
#[test]
fn a_chain_that_is_an_agent_survives_its_agent() {
    let setup = stage();
    let inner = setup.nested(
        "agent --restart-delay 0..0 --notices off",
        &[setup.component("b").to_string(), setup.component("agent").to_string()],
    );
    let components = [setup.component("a").to_string(), inner];
    let stage = setup.run("agent", &components);
    let mut play = Play::of(stage, &["a", "b", "agent"], LOADS);
    let session = play.session("s");
    play.kill_agent();
    let asked = play.agent.request("session/load");
    play.agent.answer(&asked, "{}");
    play.works();
    // And its own death, for the outer one: it loads what it has.
    let inner = play.status()["components"][1]["pid"].as_i64().expect("a process");
    // SAFETY: sends a signal to a child of the conductor that the test has started.
    unsafe { libc::kill(inner as i32, libc::SIGKILL) };
    play.replaced(1);
    let id = is_greeted(&mut play.proxies[1]);
    play.agent_is_back();
    assert_eq!(play.proxies[1].line(), result("\"init\"", LOADS));
    play.proxies[1].send(&result(&id, LOADS));
    pass(&mut play.proxies[1]);
    let asked = play.agent.request("session/load");
    assert_eq!(asked["params"]["sessionId"], "s");
    assert_eq!(asked["params"]["cwd"], testkit::stage::parse(&session.params)["cwd"]);
    play.agent.answer(&asked, "{}");
    pass(&mut play.proxies[1]);
    play.works();
}

// Components that run in the process of whoever embeds us.

/// What the components of an embedded chain have seen.
#[derive(Debug, Default)]
struct Seen {
    proxies: AtomicUsize,
    sessions: AtomicUsize,
    agents: AtomicUsize,
    loads: AtomicUsize,
}

fn embedded(seen: &Arc<Seen>) -> Config {
    use acp_proxy::{Json, Proxy, Side};
    let counts = seen.clone();
    let proxy = InProcess::of(move || {
        counts.proxies.fetch_add(1, Ordering::SeqCst);
        let counts = counts.clone();
        Proxy::new("proxy")
            .on_request(Side::Editor, "session/new", async move |call, next| {
                counts.sessions.fetch_add(1, Ordering::SeqCst);
                next.run(call).await
            })
            .on_request(Side::Editor, "_panic/proxy", async |_, _| panic!("as asked"))
    });
    let counts = seen.clone();
    let agent = InProcess::of(move || {
        counts.agents.fetch_add(1, Ordering::SeqCst);
        let counts = counts.clone();
        Proxy::agent("agent")
            .on_request(Side::Editor, "initialize", async |_, _| {
                let offer = r#"{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}"#;
                Ok(Json::trusted(offer))
            })
            .on_request(Side::Editor, "session/new", async |_, _| {
                Ok(Json::trusted(r#"{"sessionId":"s"}"#))
            })
            .on_request(Side::Editor, "session/load", async move |_, _| {
                counts.loads.fetch_add(1, Ordering::SeqCst);
                Ok(Json::trusted("{}"))
            })
            .on_request(Side::Editor, "_x/ask", async |_, _| Ok(Json::trusted("{}")))
            .on_request(Side::Editor, "_panic/agent", async |_, _| panic!("as asked"))
    });
    let specs = vec![Spec::in_process("proxy", proxy), Spec::in_process("agent", agent)];
    let mut config = Config::new(Mode::Agent, specs);
    config.failure.delay = (std::time::Duration::ZERO, std::time::Duration::ZERO);
    config.failure.notices = false;
    config
}

/// Line 7: components in our own process that panic are replaced like programs that crash.
#[test]
fn components_that_panic_are_replaced() {
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
            testkit::stage::parse(&line)
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

/// Line 7: a component that comes with us, by name in a chain of processes: it is one of them.
#[test]
fn a_chain_with_components_of_ours_survives_the_others() {
    let setup = stage();
    let components = ["context --text one".to_owned(), setup.component("agent").to_string()];
    let stage = setup.run("agent", &components);
    let mut play = Play::of(stage, &["agent"], LOADS);
    play.session("s");
    play.kill_agent();
    let asked = play.agent.request("session/load");
    play.agent.answer(&asked, "{}");
    play.stage.editor.send(&request("1", "session/prompt", &crate::play::prompt("s")));
    let asked = play.agent.request("session/prompt");
    assert_eq!(asked["params"]["prompt"][0]["text"], "one", "{asked}");
    play.agent.answer(&asked, "{}");
    assert_eq!(play.stage.editor.message()["id"], 1);
    wait_until("both are live", || {
        let status = play.status();
        (0..2).all(|at| status["components"][at]["state"] == "live").then_some(())
    });
}
