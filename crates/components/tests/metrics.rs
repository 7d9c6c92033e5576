//! What `metrics` measures at its place in the chain.

#[path = "support/exposition.rs"]
mod exposition;

use acp_proxy::script::play;
use clap::Parser;
use components::BuiltIn;
use components::metrics::Metrics;
use exposition::Samples;

/// Runs a script and returns the metrics, which are the same in both formats.
fn measure(script: &str) -> Samples {
    let metrics = Metrics::default();
    play(metrics.build(), script);
    let (all, open) = (exposition::read(&metrics.text()), metrics.open_metrics_text());
    assert!(open.ends_with("# EOF\n"));
    assert_eq!(all, exposition::read(&open));
    all
}

#[track_caller]
fn assert_samples(all: &Samples, expected: &[(&str, f64)]) {
    for (name, value) in expected {
        assert_eq!(all.get(*name), Some(value), "{name}: {all:#?}");
    }
}

const HELLO: &str = r#"
    editor > {"id":0,"method":"initialize","params":{"protocolVersion":VERSION}}
    agent  < {"id":0,"method":"initialize","params":{"protocolVersion":VERSION}}
    agent  > {"id":0,"result":{"protocolVersion":VERSION,"agentInfo":{"name":"codex-acp","version":"2"},"info":{"name":"codex-acp","version":"2"}}}
    editor < {"id":0,"result":{"protocolVersion":VERSION,"agentInfo":{"name":"codex-acp","version":"2"},"info":{"name":"codex-acp","version":"2"}}}
    editor > {"id":1,"method":"session/new","params":{"cwd":"/"}}
    agent  < {"id":1,"method":"session/new","params":{"cwd":"/"}}
    agent  > {"id":1,"result":{"sessionId":"s"}}
    editor < {"id":1,"result":{"sessionId":"s"}}
"#;

fn hello(version: u32) -> String {
    HELLO.replace("VERSION", &version.to_string())
}

/// A line from the agent that passes.
fn update(update: &str) -> String {
    let line =
        format!(r#"{{"method":"session/update","params":{{"sessionId":"s","update":{update}}}}}"#);
    format!("agent > {line}\neditor < {line}\n")
}

#[test]
fn a_turn_of_version_1_is_measured() {
    let prompt = r#"{"id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}"#;
    let ask = r#"{"id":7,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t"},"options":[{"optionId":"a","kind":"allow_once","name":"A"}]}}"#;
    let allow = r#"{"id":7,"result":{"outcome":{"outcome":"selected","optionId":"a"}}}"#;
    let end = r#"{"id":2,"result":{"stopReason":"end_turn","usage":{"totalTokens":30,"inputTokens":10,"outputTokens":20}}}"#;
    let all = measure(
        &[
            hello(1),
            format!("editor > {prompt}\nagent < {prompt}\n"),
            update(r#"{"sessionUpdate":"tool_call","toolCallId":"t","kind":"execute","status":"pending"}"#),
            format!("agent > {ask}\neditor < {ask}\neditor > {allow}\nagent < {allow}\n"),
            update(r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"completed"}"#),
            update(r#"{"sessionUpdate":"tool_call","toolCallId":"u","kind":"surprise"}"#),
            update(r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"}}"#),
            update(r#"{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"b"}}"#),
            update(r#"{"sessionUpdate":"usage_update","used":50,"size":200,"cost":{"amount":0.25,"currency":"USD"}}"#),
            format!("agent > {end}\neditor < {end}\n"),
        ]
        .concat(),
    );
    assert_samples(
        &all,
        &[
            (
                r#"conductor_turn_duration_seconds_count{agent="codex-acp",stop_reason="end_turn"}"#,
                1.0,
            ),
            (r#"conductor_turn_first_text_seconds_count{agent="codex-acp"}"#, 1.0),
            (r#"conductor_tool_calls_total{status="completed",tool_kind="execute"}"#, 1.0),
            (r#"conductor_tool_calls_total{status="unfinished",tool_kind="other"}"#, 1.0),
            (
                r#"conductor_tool_call_duration_seconds_count{status="completed",tool_kind="execute"}"#,
                1.0,
            ),
            (r#"conductor_permission_requests_total{by="unknown",decision="allow_once"}"#, 1.0),
            (r#"conductor_tokens_total{agent="codex-acp",exact="true",type="input"}"#, 10.0),
            (r#"conductor_tokens_total{agent="codex-acp",exact="true",type="output"}"#, 20.0),
            (r#"conductor_cost_total{agent="codex-acp",currency="USD"}"#, 0.25),
            (r#"conductor_context_used_ratio{agent="codex-acp"}"#, 0.25),
            ("conductor_sessions", 1.0),
            (
                r#"conductor_messages_total{component="metrics",from="agent",kind="notification",method="session/update"}"#,
                6.0,
            ),
            (
                r#"conductor_messages_total{component="metrics",from="agent",kind="result",method="session/prompt"}"#,
                1.0,
            ),
            (
                r#"conductor_request_duration_seconds_count{component="metrics",method="session/prompt",outcome="ok"}"#,
                1.0,
            ),
            (r#"conductor_message_bytes_count{from="editor",method="session/prompt"}"#, 1.0),
            (concat!(r#"conductor_build_info{version=""#, env!("CARGO_PKG_VERSION"), r#""}"#), 1.0),
        ],
    );
}

#[test]
fn a_turn_of_version_2_ends_with_an_update() {
    let prompt = r#"{"id":2,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}"#;
    let accepted = r#"{"id":2,"result":{"messageId":"m"}}"#;
    let all = measure(
        &[
            hello(2),
            format!("editor > {prompt}\nagent < {prompt}\nagent > {accepted}\neditor < {accepted}\n"),
            update(r#"{"sessionUpdate":"state_update","state":"running"}"#),
            update(r#"{"sessionUpdate":"agent_message_chunk","messageId":"n","content":{"type":"text","text":"a"}}"#),
            update(r#"{"sessionUpdate":"tool_call_update","toolCallId":"t","kind":"read","status":"failed"}"#),
            update(r#"{"sessionUpdate":"state_update","state":"idle","stopReason":"cancelled"}"#),
        ]
        .concat(),
    );
    assert_samples(
        &all,
        &[
            (
                r#"conductor_turn_duration_seconds_count{agent="codex-acp",stop_reason="cancelled"}"#,
                1.0,
            ),
            (r#"conductor_turn_first_text_seconds_count{agent="codex-acp"}"#, 1.0),
            (r#"conductor_tool_calls_total{status="failed",tool_kind="read"}"#, 1.0),
        ],
    );
}

#[test]
fn errors_and_closed_sessions_are_measured_and_a_loaded_history_is_not() {
    let all = measure(
        &[
            hello(1),
            r#"
            editor > {"id":2,"method":"session/load","params":{"sessionId":"s","cwd":"/"}}
            agent  < {"id":2,"method":"session/load","params":{"sessionId":"s","cwd":"/"}}
            "#
            .to_owned(),
            update(r#"{"sessionUpdate":"tool_call","toolCallId":"t","kind":"read","status":"completed"}"#),
            r#"
            agent  > {"id":2,"result":{}}
            editor < {"id":2,"result":{}}
            editor > {"id":3,"method":"session/prompt","params":{"sessionId":"s"}}
            agent  < {"id":3,"method":"session/prompt","params":{"sessionId":"s"}}
            agent  > {"id":3,"error":{"code":-32000,"message":"no"}}
            editor < {"id":3,"error":{"code":-32000,"message":"no"}}
            editor > {"id":4,"method":"session/close","params":{"sessionId":"s"}}
            agent  < {"id":4,"method":"session/close","params":{"sessionId":"s"}}
            agent  > {"id":4,"result":{}}
            editor < {"id":4,"result":{}}
            "#
            .to_owned(),
        ]
        .concat(),
    );
    assert_samples(
        &all,
        &[
            (
                r#"conductor_turn_duration_seconds_count{agent="codex-acp",stop_reason="error"}"#,
                1.0,
            ),
            (
                r#"conductor_request_duration_seconds_count{component="metrics",method="session/prompt",outcome="error"}"#,
                1.0,
            ),
            ("conductor_sessions", 0.0),
        ],
    );
    assert!(!all.keys().any(|key| key.starts_with("conductor_tool_calls")), "{all:#?}");
}

/// Outside of Conductor, metrics of other components are those that pass. The editor has not asked for them.
#[test]
fn metrics_of_other_components_are_collected() {
    let all = measure(
        r#"
        agent > {"method":"_proxy/metric","params":{"name":"lookups","labels":{"result":"miss"},"component":"cache"}}
        agent > {"method":"_proxy/metric","params":{"name":"lookups","value":2,"labels":{"result":"miss"},"component":"cache"}}
        agent > {"method":"_proxy/metric","params":{"name":"entries","kind":"gauge","value":-1.5}}
        agent > {"method":"_proxy/metric","params":{"nonsense":1}}
        agent > {"method":"_x/y"}
        editor < {"method":"_x/y"}
        "#,
    );
    assert_samples(
        &all,
        &[
            (r#"conductor_component_lookups_total{component="cache",result="miss"}"#, 3.0),
            (r#"conductor_component_entries{component="unknown"}"#, -1.5),
            ("conductor_metrics_dropped_total", 1.0),
        ],
    );
}

#[test]
fn bad_options_are_refused_with_a_hint() {
    let why = |words: &[&str]| {
        let words = ["metrics"].iter().chain(words);
        Metrics::parse_from(words).check().expect_err("refused").why
    };
    for (words, parts) in [
        (&["--listen", "nonsense"][..], ["`nonsense` is not an address", "127.0.0.1:9464"]),
        (&["--listen", "0.0.0.0:9464"], ["from other machines", "127.0.0.1:9464"]),
        (&["--listen", "192.168.1.1:80"], ["from other machines", "127.0.0.1:80"]),
        (&["--file", "/nowhere/at/all"], ["cannot write /nowhere/at/all", "No such file"]),
        (&["--interval", "1ms"], ["--interval", "100ms"]),
    ] {
        let why = why(words);
        assert!(parts.iter().all(|part| why.contains(part)), "{why}");
    }
    for address in ["0", "127.0.0.1:0", "localhost:0", "[::1]:0"] {
        let checked = Metrics::parse_from(["metrics", "--listen", address]).check();
        // A machine may have no IPv6.
        assert!(checked.is_ok() || address.starts_with('['), "{address}: {checked:?}");
    }
    assert!(Metrics::parse_from(["metrics", "--interval", "1m"]).check().is_ok());
}
