//! Log messages and metrics: `_proxy/log`, `_proxy/metric` and `_scp/log`.

use acp_proxy::prelude::*;
use acp_proxy::script::play;
use acp_proxy::{LogMessage, MetricKind, ScpLogMessage};

#[test]
fn log_messages_and_metrics_go_to_the_editors_side_with_the_name_of_the_component() {
    let proxy = Proxy::new("cache").on_prompt(async |prompt, next| {
        next.send_log(LogLevel::Warn, "half full");
        next.send_log_with(LogLevel::Trace, "looked up", json!({ "n": 1 }));
        next.send_scp_log(LogLevel::Trace, "ready", Some(json!([2])));
        next.send_metric(Metric::counter("lookups").label("result", "miss").help("Lookups."));
        next.send_metric(Metric::counter("bytes").by(80.5));
        next.send_metric(Metric::gauge("entries", -3.0));
        next.send_metric(Metric::observation("wait_seconds", 0.25));
        next.send_metric(Metric::gauge("unknown", f64::NAN));
        next.run(prompt).await
    });
    play(
        proxy,
        r#"
        editor > {"id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}
        editor < {"method":"_proxy/log","params":{"level":"warn","message":"half full","component":"cache"}}
        editor < {"method":"_proxy/log","params":{"level":"trace","message":"looked up","data":{"n":1},"component":"cache"}}
        editor < {"method":"_scp/log","params":{"level":"debug","message":"ready","data":[2]}}
        editor < {"method":"_proxy/metric","params":{"name":"lookups","kind":"counter","value":1.0,"labels":{"result":"miss"},"help":"Lookups.","component":"cache"}}
        editor < {"method":"_proxy/metric","params":{"name":"bytes","kind":"counter","value":80.5,"component":"cache"}}
        editor < {"method":"_proxy/metric","params":{"name":"entries","kind":"gauge","value":-3.0,"component":"cache"}}
        editor < {"method":"_proxy/metric","params":{"name":"wait_seconds","kind":"histogram","value":0.25,"component":"cache"}}
        agent  < {"id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}
        agent  > {"id":1,"result":{"stopReason":"end_turn"}}
        editor < {"id":1,"result":{"stopReason":"end_turn"}}
        "#,
    );
}

#[test]
fn handlers_get_them_as_types_and_unknown_members_stay() {
    let proxy = Proxy::new("collector")
        .on_notification(|log: &mut LogMessage, _: &Context| {
            if log.message.is_empty() {
                assert_eq!(log.level, LogLevel::Info);
                return Delivery::Drop;
            }
            log.message.push('!');
            Delivery::Forward
        })
        .on_notification(|log: &mut ScpLogMessage, _: &Context| {
            assert_eq!(log.level, LogLevel::Warn);
        })
        .on_notification(|metric: &mut Metric, _: &Context| {
            assert_eq!((metric.kind, metric.value), (MetricKind::Counter, 1.0));
            metric.component = Some("x".to_owned());
        });
    play(
        proxy,
        r#"
        agent  > {"method":"_proxy/log","params":{"level":"fatal","message":"on fire","more":1.0}}
        editor < {"method":"_proxy/log","params":{"level":"fatal","message":"on fire!","more":1.0}}
        agent  > {"method":"_proxy/log","params":{"level":7}}
        agent  > {"method":"_proxy/log"}
        agent  > {"method":"_scp/log","params":{"message":"a","level":"WARNING"}}
        editor < {"method":"_scp/log","params":{"message":"a","level":"WARNING"}}
        agent  > {"method":"_proxy/metric","params":{"name":"hits"}}
        editor < {"method":"_proxy/metric","params":{"name":"hits","component":"x"}}
        "#,
    );
}

#[test]
fn an_agent_sends_them_as_well() {
    let agent = Agent::new("parrot").on_prompt(async |_, context| {
        context.send_log(LogLevel::Info, "asked");
        context.send_metric(Metric::counter("prompts"));
        Ok(PromptResponse::new(StopReason::EndTurn))
    });
    play(
        agent,
        r#"
        editor > {"id":1,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}
        editor < {"method":"_proxy/log","params":{"level":"info","message":"asked","component":"parrot"}}
        editor < {"method":"_proxy/metric","params":{"name":"prompts","kind":"counter","value":1.0,"component":"parrot"}}
        editor < {"id":1,"result":{"stopReason":"end_turn"}}
        "#,
    );
}
