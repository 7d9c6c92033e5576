//! The component `metrics` between editors, proxies and agents on the official SDKs.

#[path = "../../../components/tests/support/exposition.rs"]
mod exposition;

use testkit::test_chain::directory;

use crate::{agent, check, marking, own_conductor, peer, proxies, reference};

/// The metrics in a file after a conversation.
fn measure(name: &str, run: impl Fn(String)) -> exposition::Samples {
    let file = directory(name).join("metrics.prom");
    run(format!("--file {}", file.display()));
    exposition::read(&std::fs::read_to_string(file).expect("written at the end"))
}

#[test]
fn the_conversation_of_each_sdk_is_measured_and_not_changed() {
    for (editor, agent, name) in [
        ("rust_editor", "py_agent", "python-agent"),
        ("ts_editor", "rust_agent", "rust-agent"),
        ("py_editor", "ts_agent", "typescript-agent"),
    ] {
        let all = measure("interop-metrics", |options| {
            let chain = [format!("metrics {options}"), marking("A"), peer(agent)];
            check(editor, &own_conductor(), &chain, &["A"]);
        });
        let turns = format!(
            r#"conductor_turn_duration_seconds_count{{agent="{name}",stop_reason="end_turn"}}"#
        );
        assert!(all.get(&turns).is_some_and(|count| *count >= 1.0), "{turns}: {all:#?}");
        let permission =
            r#"conductor_permission_requests_total{by="editor",decision="allow_once"}"#;
        assert!(all.get(permission).is_some_and(|count| *count >= 1.0), "{all:#?}");
        // Each component has received the same prompts.
        let is_prompt = |key: &str| {
            key.starts_with("conductor_messages_total")
                && key.contains(r#"kind="request",method="session/prompt""#)
        };
        let prompts: Vec<f64> =
            all.iter().filter(|(key, _)| is_prompt(key)).map(|(_, count)| *count).collect();
        assert!(prompts.len() == 3 && prompts.iter().all(|it| *it == prompts[0]), "{all:#?}");
        assert_eq!(all["conductor_metrics_dropped_total"], 0.0);
    }
}

/// As a program under the reference conductor, and in a nested chain with proxies of other SDKs.
#[test]
fn it_measures_in_any_chain() {
    let metrics = format!("{} component metrics", own_conductor());
    check("py_editor", &reference(), &[marking("A"), metrics, peer("rust_agent")], &["A"]);
    let all = measure("interop-metrics-nested", |options| {
        let inner = agent(&own_conductor(), &[format!("metrics {options}"), peer("py_agent")]);
        let chain = [proxies(&own_conductor(), &["A"]), inner];
        check("ts_editor", &own_conductor(), &chain, &["A"]);
    });
    let is_prompt = |key: &&String| {
        key.starts_with("conductor_request_duration_seconds_count")
            && key.contains(r#"method="session/prompt",outcome="ok""#)
    };
    assert_eq!(all.keys().filter(is_prompt).count(), 2, "metrics and the agent: {all:#?}");
}
