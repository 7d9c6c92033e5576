//! Components of chains of third-party programs are killed, between prompts and during them. The chain
//! continues.

use serde_json::{Value, json};
use testkit::peers::quote;
use testkit::test_chain::{TestChain, binary, directory, parse, wait_until};
use testkit::test_client::TestClient;

use crate::mcp::content;
use crate::{check, marking, own_conductor, peer};

/// Every proxy that leaves marks. Each uses another SDK or generation.
const MARKING: [&str; 8] = [
    "rust_proxy",
    "proxy_3_6",
    "proxy_2_2",
    "proxy_1_3",
    "proxy_0_11",
    "proxy_sacp_11",
    "proxy_p3",
    "ts_proxy",
];

fn start_chain(name: &str, options: &[&str], components: &[String]) -> TestClient {
    let home = directory(&format!("survival-home-{name}"));
    let home = home.to_str().expect("UTF-8");
    let setup = TestChain::builder(env!("CARGO_BIN_EXE_conductor"))
        .option(&["--grace", "0.5", "--restarts", "1000/3600", "--restart-delay", "0..0"])
        .option(options)
        // Sparkle stores files there.
        .env("HOME", home)
        .env("XDG_CACHE_HOME", home);
    TestClient::start(setup, &format!("survival-{name}"), components)
}

/// Sends a prompt. Returns the last text of the agent.
fn prompt(client: &mut TestClient, session: &str, text: &str) -> String {
    let (mut texts, answer) = client.run_turn(session, text);
    assert_eq!(answer["result"]["stopReason"], "end_turn", "{text}: {answer}");
    texts.pop().unwrap_or_else(|| panic!("no text in answer to {text}"))
}

/// Kills a component during a prompt, and cancels the prompt after the restart.
fn kill_in_prompt(client: &mut TestClient, session: &str, number: usize, prefix: &str) -> Value {
    let before = client.component_status(number)["restarts"].clone();
    let id = client.send_prompt(session, "wait");
    client.wait_for_text(session, &format!("{prefix}waiting"));
    client.kill(number);
    wait_until("the component is restarted", || {
        (client.component_status(number)["restarts"] != before).then_some(())
    });
    client.wait_for_state(number, "live");
    client.notify("session/cancel", json!({ "sessionId": session }));
    let answer = client.wait_for_answer(id);
    client.take_texts(session);
    answer
}

#[test]
fn a_published_proxy_of_every_generation_can_be_killed_between_prompts() {
    for name in MARKING {
        let components = [
            marking("A"),
            format!("{} --mark B", peer(name)),
            marking("C"),
            peer("mcp_agent_rust"),
        ];
        let mut client = start_chain(name, &[], &components);
        let session = client.new_session();
        for number in [2, 1, 3, 2] {
            assert_eq!(prompt(&mut client, &session, "hello"), "A:B:C:heard hello", "{name}");
            client.kill_and_wait_for_restart(number);
        }
        assert_eq!(prompt(&mut client, &session, "hello"), "A:B:C:heard hello", "{name}");
        let another = client.new_session();
        assert_eq!(prompt(&mut client, &another, "hello"), "A:B:C:heard hello", "{name}");
        assert_eq!(client.shut_down(), 0, "{name}");
    }
}

#[test]
fn a_published_proxy_of_every_generation_can_be_killed_during_a_prompt() {
    for name in MARKING {
        let components = [format!("{} --mark A", peer(name)), peer("rust_agent")];
        let mut client = start_chain(&format!("prompt-{name}"), &[], &components);
        let session = client.new_session();
        for _ in 0..2 {
            let answer = kill_in_prompt(&mut client, &session, 1, "A:");
            // The proxy has only added to the prompt, so the agent's answer is valid for the original prompt.
            assert_eq!(answer["result"]["stopReason"], "cancelled", "{name}: {answer}");
        }
        let id = client.send_prompt(&session, "wait");
        client.wait_for_text(&session, "A:waiting");
        client.notify("session/cancel", json!({ "sessionId": session }));
        assert_eq!(client.wait_for_answer(id)["result"]["stopReason"], "cancelled", "{name}");
        assert_eq!(client.shut_down(), 0, "{name}");
    }
}

/// A proxy that passes everything on unchanged loses nothing when it is killed.
#[test]
fn a_prompt_continues_after_a_published_proxy_that_changes_nothing_is_killed() {
    for name in ["rust_proxy", "proxy_3_6", "tee_10", "tee_0_1"] {
        let components = [peer(name), peer("rust_agent")];
        let mut client = start_chain(&format!("silent-{name}"), &[], &components);
        let session = client.new_session();
        for _ in 0..2 {
            let answer = kill_in_prompt(&mut client, &session, 1, "");
            assert_eq!(answer["result"]["stopReason"], "cancelled", "{name}: {answer}");
        }
        assert_eq!(client.shut_down(), 0, "{name}");
    }
}

/// These agents can load sessions.
#[test]
fn an_agent_of_every_sdk_restores_its_sessions_after_it_is_killed() {
    for (agent, options) in [
        ("mcp_agent_rust", ""),
        ("mcp_agent_ts", ""),
        ("mcp_agent_py", ""),
        ("mcp_agent_rust", "--http"),
    ] {
        let components = [marking("A"), peer("tools_5_0"), format!("{} {options}", peer(agent))];
        let mut client = start_chain(&format!("agent-{agent}{options}"), &[], &components);
        let sessions = [client.new_session(), client.new_session()];
        for _ in 0..2 {
            for session in &sessions {
                assert_eq!(prompt(&mut client, session, "hello"), "A:heard hello", "{agent}");
                let echo = prompt(&mut client, session, r#"call tools echo {"message":"hi"}"#);
                assert_eq!(unmarked(&echo), content("\"hi\"", false), "{agent}");
            }
            client.kill_and_wait_for_restart(3);
        }
        let echo = prompt(&mut client, &sessions[0], r#"call tools echo {"message":"hi"}"#);
        assert_eq!(unmarked(&echo), content("\"hi\"", false), "{agent}");
        assert_eq!(client.shut_down(), 0, "{agent}");
    }
}

fn unmarked(text: &str) -> Value {
    parse(text.trim_start_matches("A:"))
}

/// These agents cannot load sessions: the chain ends, or with the policy `restart` their sessions do.
#[test]
fn an_agent_that_cannot_load_sessions_ends_the_chain_or_its_sessions() {
    for agent in ["eliza_12", "eliza_1", "rust_agent", "ts_agent", "py_agent"] {
        let components = [marking("A"), peer(agent)];
        let mut stopped = start_chain(&format!("stop-{agent}"), &[], &components);
        stopped.new_session();
        stopped.kill(2);
        assert_eq!(stopped.chain.conductor.status(), 1, "{agent}");
        let stderr = stopped.chain.conductor.whole_stderr();
        assert!(
            stderr.lines().last().is_some_and(|it| it.contains("signal 9")),
            "{agent}: {stderr}"
        );

        let mut client =
            start_chain(&format!("lost-{agent}"), &["--on-crash", "2=restart"], &components);
        let session = client.new_session();
        client.kill_and_wait_for_restart(2);
        let (_, answer) = client.run_turn(&session, "hello");
        let message = answer["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("Start a new session"), "{agent}: {answer}");
        let another = client.new_session();
        assert_ne!(another, "", "{agent}");
        assert_eq!(client.shut_down(), 0, "{agent}");
    }
}

/// Published providers, over both transports.
#[test]
fn tools_of_every_published_provider_work_after_it_is_killed() {
    for provider in
        ["tools_5_0", "tools_3_6", "tools_2_2", "tools_1_3", "tools_0_11", "tools_sacp_11"]
    {
        for options in ["", "--http", "--per-call"] {
            let components = [peer(provider), format!("{} {options}", peer("mcp_agent_rust"))];
            let mut client = start_chain(&format!("{provider}{options}"), &[], &components);
            let session = client.new_session();
            for _ in 0..3 {
                let echo = prompt(&mut client, &session, r#"call tools echo {"message":"hi"}"#);
                assert_eq!(parse(&echo), content("\"hi\"", false), "{provider} {options}");
                client.kill_and_wait_for_restart(1);
            }
            let another = client.new_session();
            for session in [&session, &another] {
                let echo = prompt(&mut client, session, r#"call tools echo {"message":"hi"}"#);
                assert_eq!(parse(&echo), content("\"hi\"", false), "{provider} {options}");
            }
            assert_eq!(client.shut_down(), 0, "{provider} {options}");
        }
    }
}

/// A real server behind a proxy that is killed, between calls and during a long one.
#[test]
fn a_real_server_works_after_its_proxy_is_killed() {
    for (form, proxy) in [("M1", "P4"), ("M3", "P4"), ("M5", "P5"), ("M6", "P4"), ("M7", "P5")] {
        for options in ["", "--http"] {
            let provider = format!("{} --form {form} --proxy {proxy}", peer("everything_proxy"));
            let components = [provider, format!("{} {options}", peer("mcp_agent_rust"))];
            let what = format!("everything-{form}{options}");
            let mut client = start_chain(&what, &[], &components);
            let session = client.new_session();
            let sum = r#"call everything get-sum {"a":1,"b":2}"#;
            let right = content("The sum of 1 and 2 is 3.", false);
            assert_eq!(parse(&prompt(&mut client, &session, sum)), right, "{what}");
            client.kill_and_wait_for_restart(1);
            assert_eq!(parse(&prompt(&mut client, &session, sum)), right, "{what}");

            let long =
                r#"call everything trigger-long-running-operation {"duration":600,"steps":6000}"#;
            let before = client.component_status(1)["restarts"].clone();
            let id = client.send_prompt(&session, long);
            client.wait_for_text(&session, "progress 1");
            client.kill(1);
            // The call has failed. The agent reports that, and continues.
            let answer = client.wait_for_answer(id);
            assert_eq!(answer["result"]["stopReason"], "end_turn", "{what}: {answer}");
            let texts = client.take_texts(&session);
            assert!(texts.last().is_some_and(|it| it.contains("error")), "{what}: {texts:?}");
            wait_until("the provider is restarted", || {
                (client.component_status(1)["restarts"] != before).then_some(())
            });
            assert_eq!(parse(&prompt(&mut client, &session, sum)), right, "{what}");
            assert_eq!(client.shut_down(), 0, "{what}");
        }
    }
}

/// After each restart Sparkle embodies again before its first prompt.
#[test]
fn sparkle_works_after_it_is_killed() {
    for (name, agent) in [("sparkle_0_7", "eliza_12"), ("sparkle_0_1", "mcp_agent_rust")] {
        let mut client = start_chain(&format!("{name}-{agent}"), &[], &[peer(name), peer(agent)]);
        let session = client.new_session();
        for _ in 0..3 {
            prompt(&mut client, &session, "Hello there");
            client.kill_and_wait_for_restart(1);
        }
        prompt(&mut client, &session, "Hello there");
        assert_eq!(client.shut_down(), 0, "{name}");
    }
}

/// Published conductors as components, each with its own component.
#[test]
fn a_published_conductor_works_as_a_component_after_it_is_killed() {
    for (conductor, mode, proxy) in [
        ("reference", "proxy", "rust_proxy"),
        ("conductor_3_6", "proxy", "proxy_3_6"),
        ("conductor_sacp_11", "proxy", "proxy_sacp_11"),
        ("conductor_sacp_4", "agent", "proxy_p3"),
    ] {
        let inner = quote(&format!("{} --mark B", peer(proxy)));
        let inner = format!("{} {mode} {inner}", peer(conductor));
        let components = [marking("A"), inner, marking("C"), peer("mcp_agent_rust")];
        let mut client = start_chain(&format!("inner-{conductor}"), &[], &components);
        let session = client.new_session();
        for _ in 0..3 {
            assert_eq!(prompt(&mut client, &session, "hello"), "A:B:C:heard hello", "{conductor}");
            client.kill_and_wait_for_restart(2);
        }
        assert_eq!(prompt(&mut client, &session, "hello"), "A:B:C:heard hello", "{conductor}");
        assert_eq!(client.shut_down(), 0, "{conductor}");
    }
}

/// The editors report the same events as without a crash. The proxy crashes when it receives the
/// cancellation.
#[test]
fn editors_of_every_sdk_do_not_notice_a_crash() {
    for (editor, agent) in
        [("rust_editor", "ts_agent"), ("ts_editor", "py_agent"), ("py_editor", "rust_agent")]
    {
        let file = directory(&format!("crash-once-{editor}")).join("dead");
        let crashing_proxy = quote(&binary("crash_once_proxy").to_string_lossy());
        let crashing_proxy =
            format!("{crashing_proxy} {} session/cancel", quote(&file.to_string_lossy()));
        check(
            editor,
            &conductor_without_notices(),
            &[marking("A"), crashing_proxy, peer(agent)],
            &["A"],
        );
        assert!(file.exists(), "{editor}: the proxy has not crashed");
    }
}

/// This conductor, without notices in the editor.
fn conductor_without_notices() -> String {
    let file = directory("quiet").join("conductor");
    let body = format!("mode=$1; shift; exec {} \"$mode\" --notices off \"$@\"", own_conductor());
    let name = file.file_name().and_then(|it| it.to_str()).expect("a name");
    let path = testkit::test_chain::write_script(file.parent().expect("a directory"), name, &body);
    quote(&path.to_string_lossy())
}
