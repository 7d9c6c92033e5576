//! The limits, with a clock of the test.

use std::time::{Duration, Instant};

use acp_proxy::{Call, ChainEvent, Json, Message, Side};
use clap::Parser;

use super::Metrics;
use super::exposition::Format;
use super::registry::NAMED;
use super::state::Measured;
use crate::telemetry::Collector;

#[path = "../../../components/tests/support/exposition.rs"]
mod parser;

use parser::Samples;

fn message(text: &str) -> Message {
    Message::parse(&format!(r#"{{"jsonrpc":"2.0",{}"#, &text[1..]).into()).expect("a message")
}

/// The samples, which are the same in both formats.
fn samples(measured: &Measured) -> Samples {
    let text = parser::read(&measured.text(Format::Prometheus));
    assert_eq!(text, parser::read(&measured.text(Format::OpenMetrics)));
    text
}

fn metric(params: &str) -> Call {
    Call::new("_proxy/metric", Json::parse(params.to_owned()).expect("JSON"))
}

/// A conversation of which each step takes a second.
struct Clock(Instant);

impl Clock {
    fn tick(&mut self) -> Instant {
        self.0 += Duration::from_secs(1);
        self.0
    }
}

#[test]
fn the_time_of_each_component_and_who_decides_a_permission_are_measured() {
    let (measured, collector, mut clock) =
        (Measured::default(), Collector::default(), Clock(Instant::now()));
    let mut event = |event: ChainEvent<'_>| {
        assert_eq!(measured.on_event(&collector, &event, clock.tick()), None);
    };
    event(ChainEvent::Attached);
    event(ChainEvent::Started { component: "agent", restarts: 0 });
    event(ChainEvent::Started { component: "agent", restarts: 1 });
    let ask = r#"{"id":7,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"t"},"options":[{"optionId":"a","kind":"allow_once"},{"optionId":"b","kind":"reject_once"}]}}"#;
    let (ask, again) = (message(ask), message(&ask.replace(":7,", ":\"x\",")));
    let toward = Side::Editor;
    event(ChainEvent::Arrived { component: "agent", toward, message: &ask });
    event(ChainEvent::Delivered { component: "gate", toward, message: &ask });
    // The guard asks the user, who allows; the guard denies nevertheless.
    event(ChainEvent::Arrived { component: "gate", toward, message: &again });
    event(ChainEvent::Delivered { component: "outer", toward, message: &again });
    let toward = Side::Agent;
    let allow = message(r#"{"id":"x","result":{"outcome":{"outcome":"selected","optionId":"a"}}}"#);
    let deny = message(r#"{"id":7,"result":{"outcome":{"outcome":"selected","optionId":"b"}}}"#);
    event(ChainEvent::Arrived { component: "outer", toward, message: &allow });
    event(ChainEvent::Delivered { component: "gate", toward, message: &allow });
    event(ChainEvent::Arrived { component: "gate", toward, message: &deny });
    event(ChainEvent::Delivered { component: "agent", toward, message: &deny });
    // The guard crashes while it owes an answer.
    let prompt = message(r#"{"id":1,"method":"session/prompt","params":{"sessionId":"s"}}"#);
    event(ChainEvent::Delivered { component: "gate", toward, message: &prompt });
    event(ChainEvent::Ended { component: "gate" });
    event(ChainEvent::Ended { component: "outer" });
    let call = metric(r#"{"name":"n","component":"x"}"#);
    event(ChainEvent::Telemetry { component: "outer", call: &call });
    let all = samples(&measured);
    let permission = "session/request_permission";
    for (name, value) in [
        (r#"conductor_permission_requests_total{by="gate",decision="reject_once"}"#.to_owned(), 1.0),
        (r#"conductor_permission_wait_seconds_sum{by="gate",decision="reject_once"}"#.into(), 5.0),
        (format!(r#"conductor_request_duration_seconds_sum{{component="editor",method="{permission}",outcome="ok"}}"#), 1.0),
        (format!(r#"conductor_request_duration_seconds_sum{{component="gate",method="{permission}",outcome="ok"}}"#), 5.0),
        (r#"conductor_request_duration_seconds_count{component="gate",method="session/prompt",outcome="crashed"}"#.into(), 1.0),
        (format!(r#"conductor_messages_total{{component="gate",from="agent",kind="request",method="{permission}"}}"#), 1.0),
        (format!(r#"conductor_messages_total{{component="agent",from="editor",kind="result",method="{permission}"}}"#), 1.0),
        (r#"conductor_component_restarts_total{component="agent"}"#.into(), 1.0),
        (r#"conductor_component_restarts_total{component="gate"}"#.into(), 0.0),
        (r#"conductor_component_n_total{component="successor/x"}"#.into(), 1.0),
    ] {
        assert_eq!(all.get(&name), Some(&value), "{name}: {all:#?}");
    }
    assert!(all.keys().all(|name| !name.contains("outer")), "{all:#?}");
    assert_eq!(measured.sizes()[0], 0, "no request is open");
}

#[test]
fn metrics_of_other_components_have_limits() {
    let (measured, collector) = (Measured::default(), Collector::default());
    measured.on_event(&collector, &ChainEvent::Attached, Instant::now());
    let report = |component: &str, params: &str| {
        let call = metric(params);
        let event = ChainEvent::Telemetry { component, call: &call };
        measured.on_event(&collector, &event, Instant::now());
    };
    report(
        "a",
        r#"{"name":"hits_total","labels":{"tier":"d\"\\\nisk\u001b"},"help":"Hits \"and\"\n\\ more."}"#,
    );
    report("a", r#"{"name":"hits","value":2.5,"labels":{"tier":"d\"\\\nisk\u001b"}}"#);
    report("b", r#"{"name":"wait_seconds","kind":"histogram","value":0.3,"component":"named"}"#);
    report("b", r#"{"name":"some.size-bytes","kind":"gauge","value":-7}"#);
    report("filter", r#"{"name":"redactions","labels":{"rule":"github"}}"#);
    let all = samples(&measured);
    for (name, value) in [
        (r#"conductor_component_hits_total{component="a",tier="d\"\\\nisk�"}"#, 3.5),
        (r#"conductor_component_wait_seconds_bucket{component="b/named",le="0.5"}"#, 1.0),
        (r#"conductor_component_wait_seconds_bucket{component="b/named",le="0.25"}"#, 0.0),
        (r#"conductor_component_some_size_bytes{component="b"}"#, -7.0),
        (r#"conductor_redactions_total{component="filter",rule="github"}"#, 1.0),
        ("conductor_metrics_dropped_total", 0.0),
    ] {
        assert_eq!(all.get(name), Some(&value), "{name}: {all:#?}");
    }
    // Invalid ones, another kind of the same name, and names of samples of other metrics.
    for params in [
        r#"{"name":""}"#,
        r#"{"name":"ä"}"#,
        r#"{"name":7}"#,
        r#"{"name":"x","value":-1}"#,
        r#"{"name":"wait_seconds","kind":"histogram","value":-0.1}"#,
        r#"{"name":"x","value":"1"}"#,
        r#"{"name":"x","kind":"summary"}"#,
        r#"{"name":"x","labels":{"le":"1"}}"#,
        r#"{"name":"x","labels":{"component":"1"}}"#,
        r#"{"name":"x","labels":{"__name__":"1"}}"#,
        r#"{"name":"x","labels":{"a-b":"1"}}"#,
        r#"{"name":"x","labels":{"a":"","b":"","c":"","d":"","e":"","f":"","g":"","h":"","i":""}}"#,
        r#"{"name":"hits","kind":"gauge"}"#,
        r#"{"name":"wait_seconds_bucket","kind":"gauge"}"#,
    ] {
        let before = samples(&measured)["conductor_metrics_dropped_total"];
        report("b", params);
        assert_eq!(samples(&measured)["conductor_metrics_dropped_total"], before + 1.0, "{params}");
    }
    // The series of a component and the number of components are limited. Known series still count. The names that a
    // component gives itself do not shut out others.
    report("late", r#"{"name":"n"}"#);
    for number in 0..1000 {
        report("liar", &format!(r#"{{"name":"n","component":"{number}"}}"#));
        report("many", &format!(r#"{{"name":"n","labels":{{"number":"{number}"}}}}"#));
        report("names", &format!(r#"{{"name":"n{number}"}}"#));
        report(&format!("component {number}"), r#"{"name":"n"}"#);
    }
    report("many", r#"{"name":"n","labels":{"number":"0"}}"#);
    let all = samples(&measured);
    let of = |label: &str| all.keys().filter(|key| key.contains(label)).count();
    assert_eq!((of("component=\"many\""), of("component=\"names\"")), (256, 256));
    assert_eq!((of("component=\"liar/"), of("component=\"late\"")), (256, 1));
    assert!(of("component=\"component ") < 64);
    assert_eq!(all[r#"conductor_component_n_total{component="many",number="0"}"#], 2.0);
}

#[test]
fn other_components_do_not_change_the_metrics_of_this_one() {
    let (measured, now) = (Measured::default(), Instant::now());
    let started = ChainEvent::Started { component: "a", restarts: 2 };
    measured.on_event(&Collector::default(), &started, now);
    for (name, ..) in NAMED {
        let reported = name.strip_prefix("conductor_component_").unwrap_or(name);
        for kind in ["counter", "gauge", "histogram"] {
            let params = format!(r#"{{"name":"{reported}","kind":"{kind}","value":7}}"#);
            measured.report("a", "a", &metric(&params));
        }
    }
    let all = samples(&measured);
    assert_eq!(all[r#"conductor_component_restarts_total{component="a"}"#], 2.0);
    let is_changed =
        |(name, value): (&String, &f64)| *value == 7.0 && !name.starts_with("conductor_component_");
    assert_eq!(all.iter().find(|it| is_changed(*it)), None);
}

#[test]
fn no_secret_becomes_a_label_or_a_name() {
    let (measured, now) = (Measured::default(), Instant::now());
    let secrets =
        ["ghp_aB3dE6gH9jK2mN5pQ8sT1vW4yZ7aC0eF3hI6", "ghp_16C7e42F292c6912E7710c838347Ae178B4a"];
    for secret in secrets {
        let before = "x".repeat(80);
        for params in [
            format!(r#"{{"name":"n","labels":{{"a":"{secret}"}},"help":"{secret}"}}"#),
            format!(r#"{{"name":"cut","labels":{{"a":"{before} {secret}"}}}}"#),
            format!(r#"{{"name":"long","help":"{before}{before} {before} {secret}"}}"#),
            format!(r#"{{"name":"end","help":"{before}{before} {} {secret}"}}"#, &before[..20]),
            format!(r#"{{"name":"{secret}"}}"#),
            format!(r#"{{"name":"n","labels":{{"{secret}":"a"}}}}"#),
        ] {
            measured.report("a", "a", &metric(&params));
        }
        measured.pass(Side::Agent, &message(&format!(r#"{{"method":"_x/{secret}"}}"#)), now);
    }
    let text = measured.text(Format::Prometheus);
    for secret in secrets {
        assert!(!text.contains(&secret[..12]), "{text}");
    }
    let all = samples(&measured);
    let sum = all[r#"conductor_component_n_total{a="[redacted:github]",component="a"}"#];
    assert_eq!((sum, all["conductor_metrics_dropped_total"]), (2.0, 4.0), "one series for both");
}

/// A session and a turn in it. The agent answers `initialize` with this.
fn in_a_turn(measured: &Measured, hello: &str, now: Instant) {
    let id = "\"sessionId\":\"s\"";
    for (from, text) in [
        (Side::Editor, r#"{"id":0,"method":"initialize","params":{}}"#.to_owned()),
        (Side::Agent, format!(r#"{{"id":0,"result":{hello}}}"#)),
        (Side::Editor, r#"{"id":1,"method":"session/new","params":{"cwd":"/"}}"#.to_owned()),
        (Side::Agent, format!(r#"{{"id":1,"result":{{{id}}}}}"#)),
        (Side::Editor, format!(r#"{{"id":2,"method":"session/prompt","params":{{{id}}}}}"#)),
    ] {
        measured.pass(from, &message(&text), now);
    }
}

#[test]
fn an_agent_that_only_echoes_version_2_has_turns_of_version_1() {
    let (measured, now) = (Measured::default(), Instant::now());
    in_a_turn(&measured, r#"{"protocolVersion":2,"agentCapabilities":{}}"#, now);
    let end = r#"{"id":2,"result":{"stopReason":"end_turn"}}"#;
    measured.pass(Side::Agent, &message(end), now);
    let name = r#"conductor_turn_duration_seconds_count{agent="unknown",stop_reason="end_turn"}"#;
    assert_eq!(samples(&measured).get(name), Some(&1.0));
}

#[test]
fn a_session_that_is_closed_in_a_turn_ends_the_turn_and_does_not_come_back() {
    let (measured, now) = (Measured::default(), Instant::now());
    in_a_turn(&measured, r#"{"protocolVersion":1}"#, now);
    let update = |update: &str| {
        let text = format!(
            r#"{{"method":"session/update","params":{{"sessionId":"s","update":{update}}}}}"#
        );
        measured.pass(Side::Agent, &message(&text), now);
    };
    let used = r#"{"sessionUpdate":"usage_update","used":5,"size":10}"#;
    let ratio = r#"conductor_context_used_ratio{agent="unknown"}"#;
    update(used);
    assert_eq!(samples(&measured).get(ratio), Some(&0.5));
    let close = r#"{"id":3,"method":"session/close","params":{"sessionId":"s"}}"#;
    measured.pass(Side::Editor, &message(close), now);
    measured.pass(Side::Agent, &message(r#"{"id":3,"result":{}}"#), now);
    update(used);
    update(r#"{"sessionUpdate":"tool_call","toolCallId":"t","kind":"read"}"#);
    let end = r#"{"id":2,"result":{"stopReason":"end_turn"}}"#;
    measured.pass(Side::Agent, &message(end), now);
    let all = samples(&measured);
    let name = r#"conductor_turn_duration_seconds_count{agent="unknown",stop_reason="cancelled"}"#;
    assert_eq!((all[name], all["conductor_sessions"]), (1.0, 0.0));
    assert_eq!(all.get(ratio), None, "no session is open");
}

#[test]
fn memory_is_bounded_with_many_sessions_requests_and_methods() {
    let (measured, collector, now) = (Measured::default(), Collector::default(), Instant::now());
    for attached in [false, true] {
        if attached {
            measured.on_event(&collector, &ChainEvent::Attached, now);
        }
        for number in 0..15_000 {
            let update = r#"{"sessionUpdate":"tool_call","toolCallId":"t","kind":"read"}"#;
            for text in [
                format!(
                    r#"{{"id":{number},"method":"session/prompt","params":{{"sessionId":"s{number}"}}}}"#
                ),
                format!(
                    r#"{{"method":"session/update","params":{{"sessionId":"s{number}","update":{update}}}}}"#
                ),
                format!(r#"{{"method":"_method/{number}"}}"#),
            ] {
                let message = message(&text);
                let from = if text.contains("update") { Side::Agent } else { Side::Editor };
                measured.pass(from, &message, now);
                let event = ChainEvent::Delivered {
                    component: "p",
                    toward: from.opposite(),
                    message: &message,
                };
                measured.on_event(&collector, &event, now);
            }
        }
    }
    in_a_turn(&measured, "{}", now);
    for number in 0..1000 {
        let update = format!(r#"{{"sessionUpdate":"tool_call","toolCallId":"t{number}"}}"#);
        let text = format!(
            r#"{{"method":"session/update","params":{{"sessionId":"s","update":{update}}}}}"#
        );
        measured.pass(Side::Agent, &message(&text), now);
    }
    let [open, sessions, series] = measured.sizes();
    assert!(open <= 30_000 && sessions <= 10_000 && series < 600, "{open} {sessions} {series}");
    let all = samples(&measured);
    assert!(all["conductor_metrics_dropped_total"] > 0.0);
    assert_eq!(all["conductor_sessions"] as usize, sessions);
    let text = measured.text(Format::Prometheus);
    assert!(
        !text.contains("\"s1\"") && text.contains("method=\"other\""),
        "no session id is a label"
    );
}

/// Agents may ask several questions at once about one tool call, or about none.
#[test]
fn each_of_several_permission_requests_about_one_tool_call_is_counted() {
    for call in [r#","toolCall":{"toolCallId":"t"}"#, ""] {
        let (measured, collector, now) =
            (Measured::default(), Collector::default(), Instant::now());
        let event = |event: ChainEvent<'_>| measured.on_event(&collector, &event, now);
        event(ChainEvent::Attached);
        let ask = |id: &str| {
            let options =
                r#"[{"optionId":"a","kind":"allow_once"},{"optionId":"b","kind":"reject_once"}]"#;
            message(&format!(
                r#"{{"id":"{id}","method":"session/request_permission","params":{{"sessionId":"s"{call},"options":{options}}}}}"#
            ))
        };
        let choose = |id: &str, option: &str| {
            let outcome =
                format!(r#"{{"outcome":{{"outcome":"selected","optionId":"{option}"}}}}"#);
            message(&format!(r#"{{"id":"{id}","result":{outcome}}}"#))
        };
        let toward = Side::Editor;
        for id in ["1", "2", "3"] {
            event(ChainEvent::Arrived { component: "agent", toward, message: &ask(id) });
            event(ChainEvent::Delivered { component: "gate", toward, message: &ask(id) });
        }
        for id in ["x1", "x2", "x3"] {
            event(ChainEvent::Arrived { component: "gate", toward, message: &ask(id) });
            event(ChainEvent::Delivered { component: "outer", toward, message: &ask(id) });
        }
        let toward = Side::Agent;
        for (id, option) in [("x2", "b"), ("x1", "a"), ("x3", "a")] {
            let answer = choose(id, option);
            event(ChainEvent::Arrived { component: "outer", toward, message: &answer });
            event(ChainEvent::Delivered { component: "gate", toward, message: &answer });
            let answer = choose(&id[1..], option);
            event(ChainEvent::Arrived { component: "gate", toward, message: &answer });
            event(ChainEvent::Delivered { component: "agent", toward, message: &answer });
        }
        let all = samples(&measured);
        let count = |decision: &str| {
            all[&format!(
                r#"conductor_permission_requests_total{{by="editor",decision="{decision}"}}"#
            )]
        };
        assert_eq!((count("allow_once"), count("reject_once")), (2.0, 1.0), "{all:#?}");
        assert_eq!(measured.sizes()[0], 0, "no request is open");
    }
}

/// A session's cost so far is not consumed again because the component or its process was restarted.
#[test]
fn a_restart_does_not_count_the_cost_of_a_session_again() {
    let (measured, now) = (Measured::default(), Instant::now());
    let set_up = |measured: &Measured, id: &str| {
        let new = format!(r#"{{"id":"{id}","method":"session/new","params":{{"cwd":"/"}}}}"#);
        let answer = format!(r#"{{"id":"{id}","result":{{"sessionId":"s"}}}}"#);
        measured.pass(Side::Editor, &message(&new), now);
        measured.pass(Side::Agent, &message(&answer), now);
    };
    let report = |measured: &Measured, amount: u32| {
        let update = format!(
            r#"{{"sessionUpdate":"usage_update","used":1,"size":9,"cost":{{"amount":{amount},"currency":"USD"}}}}"#
        );
        let params = format!(r#"{{"sessionId":"s","update":{update}}}"#);
        let update = format!(r#"{{"method":"session/update","params":{params}}}"#);
        measured.pass(Side::Agent, &message(&update), now);
    };
    let cost = |measured: &Measured| {
        let name = r#"conductor_cost_total{agent="unknown",currency="USD"}"#;
        samples(measured)[name]
    };
    set_up(&measured, "1");
    report(&measured, 5);
    measured.restart();
    set_up(&measured, "r:1");
    report(&measured, 6);
    assert_eq!(cost(&measured), 6.0);
    // Another process has no memory. What the agent reports first may be old.
    let measured = Measured::default();
    set_up(&measured, "r:1");
    report(&measured, 6);
    report(&measured, 8);
    assert_eq!(cost(&measured), 2.0);
}

#[test]
fn the_first_metric_of_a_component_that_is_not_counted_is_told() {
    let (measured, collector) = (Measured::default(), Collector::default());
    measured.on_event(&collector, &ChainEvent::Attached, Instant::now());
    let report = |component: &str, params: &str| {
        let call = metric(params);
        let event = ChainEvent::Telemetry { component, call: &call };
        measured.on_event(&collector, &event, Instant::now())
    };
    let line = report("a", r#"{"name":"hits","value":-1}"#).expect("a warning");
    assert!(
        line.starts_with("the metric `hits` of a is not counted: its value is negative"),
        "{line}"
    );
    assert_eq!(report("a", r#"{"name":"x","kind":"summary"}"#), None);
    let line = report("b", r#"{"name":"x","kind":"summary"}"#).expect("a warning");
    assert!(line.contains("`x` of b") && line.contains("its kind is not known"), "{line}");
    let line = report("c", r#"{"name":"ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"}"#);
    assert!(line.is_some_and(|it| it.contains("`…` of c") && !it.contains("a1B2")));
}

/// Components in other languages are lax about types.
#[test]
fn labels_may_be_numbers_and_kinds_in_upper_case() {
    let (measured, collector) = (Measured::default(), Collector::default());
    let params = r#"{"name":"size","kind":"GAUGE","value":3,"labels":{"code":200,"ok":true}}"#;
    let call = metric(params);
    let event = ChainEvent::Telemetry { component: "a", call: &call };
    assert_eq!(measured.on_event(&collector, &event, Instant::now()), None);
    let name = r#"conductor_component_size{code="200",component="a",ok="true"}"#;
    assert_eq!(samples(&measured)[name], 3.0);
}

#[test]
fn counters_survive_a_restart_of_the_component() {
    let (measured, now) = (Measured::default(), Instant::now());
    let new = message(r#"{"id":1,"method":"session/new","params":{"cwd":"/"}}"#);
    measured.pass(Side::Editor, &new, now);
    measured.pass(Side::Agent, &message(r#"{"id":1,"result":{"sessionId":"s"}}"#), now);
    assert_eq!(samples(&measured)["conductor_sessions"], 1.0);
    measured.restart();
    // An answer that the earlier instance has waited for.
    measured.pass(Side::Agent, &message(r#"{"id":1,"result":{"sessionId":"s"}}"#), now);
    let all = samples(&measured);
    let name = r#"conductor_messages_total{component="metrics",from="editor",kind="request",method="session/new"}"#;
    assert_eq!((all[name], all["conductor_sessions"]), (1.0, 0.0));
}

#[test]
fn each_chain_can_have_its_own_file() {
    let metrics = Metrics::parse_from(["metrics", "--file", "/{pid}/m-{pid}.prom"]);
    let path = format!("/{{pid}}/m-{}.prom", std::process::id());
    assert_eq!(metrics.path(), Some(path.into()));
}
