//! The reports of agents, as they were measured.

use acp_proxy::{Json, Message, Side};
use serde_json::{Value, json};

use super::*;
use crate::sessions::Origin;

/// What a chain reports: the editor sends the prompts, and the agent sends these messages.
struct Chain {
    meter: MessageMeter,
    id: u64,
}

impl Chain {
    /// A chain with an agent of this name, and a new session `s`.
    fn new(agent: &str) -> Chain {
        let mut chain = Chain { meter: MessageMeter::default(), id: 0 };
        chain.ask(
            "initialize",
            json!({}),
            json!({ "agentInfo": { "name": agent, "version": "1" } }),
        );
        chain.ask("session/new", json!({ "cwd": "/" }), json!({ "sessionId": "s" }));
        chain
    }

    fn observe(&mut self, from: Side, message: &Value) -> Option<Delta> {
        let message = Message::parse(&message.to_string().into()).expect("a message");
        self.meter.observe(from, &message)
    }

    fn send(&mut self, method: &str, params: Value) {
        self.id += 1;
        let request =
            json!({ "jsonrpc": "2.0", "id": self.id, "method": method, "params": params });
        assert_eq!(self.observe(Side::Editor, &request), None);
    }

    fn answer(&mut self, result: Value) -> Option<Delta> {
        let response = json!({ "jsonrpc": "2.0", "id": self.id, "result": result });
        self.observe(Side::Agent, &response)
    }

    fn ask(&mut self, method: &str, params: Value, result: Value) -> Option<Delta> {
        self.send(method, params);
        self.answer(result)
    }

    fn prompt(&mut self) {
        self.send("session/prompt", json!({ "sessionId": "s", "prompt": [] }));
    }

    /// A turn that ends with this answer.
    fn turn(&mut self, result: Value) -> Option<Delta> {
        self.prompt();
        self.answer(result)
    }

    fn update(&mut self, update: Value) -> Option<Delta> {
        let params = json!({ "sessionId": "s", "update": update });
        let update = json!({ "jsonrpc": "2.0", "method": "session/update", "params": params });
        self.observe(Side::Agent, &update)
    }

    fn cost(&mut self, amount: Value) -> Option<Delta> {
        self.update(json!({
            "sessionUpdate": "usage_update", "used": 11, "size": 1000,
            "cost": { "amount": amount, "currency": "USD" },
        }))
    }
}

fn usage(input: u64, output: u64) -> Value {
    json!({
        "stopReason": "end_turn",
        "usage": { "totalTokens": input + output, "inputTokens": input, "outputTokens": output },
    })
}

fn in_and_out(input: u64, output: u64) -> Tokens {
    Tokens { input, output, ..Tokens::default() }
}

/// The tokens of a report, and how well they are known.
fn counted(delta: Option<Delta>) -> Option<(u64, Certainty)> {
    let delta = delta?;
    Some((delta.tokens?.total(), delta.tokens_certainty))
}

fn spent(delta: Option<Delta>) -> Option<(u64, Certainty)> {
    let delta = delta?;
    Some((delta.cost?.micros, delta.cost_certainty))
}

#[test]
fn claude_reports_a_turn_with_its_models_and_the_cost_of_the_session() {
    let answer = json!({
        "stopReason": "end_turn",
        "usage": { "inputTokens": 10, "outputTokens": 9, "cachedReadTokens": 0, "cachedWriteTokens": 0, "totalTokens": 19 },
        "_meta": { "quota": {
            "token_count": { "totalTokens": 19, "inputTokens": 10, "cachedInputTokens": 0, "cachedWriteTokens": 0, "outputTokens": 9, "reasoningOutputTokens": 0 },
            "model_usage": [{ "model": "claude-opus-5-5", "token_count": { "totalTokens": 38, "inputTokens": 20, "cachedInputTokens": 0, "cachedWriteTokens": 0, "outputTokens": 18, "reasoningOutputTokens": 0 } }],
        } },
    });
    let mut chain = Chain::new("@agentclientprotocol/claude-agent-acp");
    chain.prompt();
    let context = json!({ "sessionUpdate": "usage_update", "used": 11, "size": 1000, "_meta": { "_claude/model": "claude-opus-5-5" } });
    assert_eq!(chain.update(context), None, "the size of the context is not consumption");
    assert_eq!(spent(chain.cost(json!(0.00044))), Some((440, Certainty::Exact)));
    let delta = chain.answer(answer.clone()).expect("a report");
    // The quota has the calls that the usage leaves out.
    assert_eq!(delta.tokens, Some(in_and_out(20, 18)));
    assert_eq!(delta.models, [("claude-opus-5-5".to_owned(), in_and_out(20, 18))]);
    assert_eq!(delta.tokens_certainty, Certainty::Exact);
    // The next turn costs the difference, in millionths.
    chain.prompt();
    assert_eq!(
        spent(chain.cost(json!(0.003_080_000_000_000_000_7))),
        Some((2640, Certainty::Exact))
    );
    assert_eq!(counted(chain.answer(answer)), Some((38, Certainty::Exact)));
}

#[test]
fn in_version_2_the_idle_update_reports_the_turn_once() {
    let mut chain = Chain::new("@agentclientprotocol/claude-agent-acp");
    let idle = json!({
        "sessionUpdate": "state_update", "state": "idle", "stopReason": "end_turn",
        "usage": { "inputTokens": 10, "outputTokens": 9, "totalTokens": 19 },
    });
    chain.prompt();
    assert_eq!(chain.update(json!({ "sessionUpdate": "state_update", "state": "running" })), None);
    assert_eq!(chain.answer(json!({ "messageId": "m" })), None);
    assert_eq!(counted(chain.update(idle.clone())), Some((19, Certainty::Exact)));
    assert_eq!(chain.update(idle.clone()), None, "a repetition");
    assert_eq!(counted(chain.turn(json!({ "messageId": "n" }))), None);
    assert_eq!(counted(chain.update(idle.clone())), Some((19, Certainty::Exact)));
    // Work without a prompt, such as a background task.
    assert_eq!(chain.update(json!({ "sessionUpdate": "state_update", "state": "running" })), None);
    assert_eq!(counted(chain.update(idle)), Some((19, Certainty::Exact)));
    // Version 2: an absent cost leaves the sum, `null` clears the display, and nothing is counted twice.
    assert_eq!(spent(chain.cost(json!(1))), Some((1_000_000, Certainty::Exact)));
    for cost in [json!({}), json!({ "cost": null })] {
        let mut update = json!({ "sessionUpdate": "usage_update", "used": 1, "size": 2 });
        update.as_object_mut().expect("an object").extend(cost.as_object().expect("one").clone());
        assert_eq!(chain.update(update), None);
    }
    assert_eq!(spent(chain.cost(json!(1.5))), Some((500_000, Certainty::Exact)));
}

#[test]
fn codex_counts_the_cache_as_input_and_reasoning_as_output() {
    let count = json!({ "totalTokens": 120, "inputTokens": 100, "cachedInputTokens": 50, "outputTokens": 20, "reasoningOutputTokens": 7 });
    let answer = json!({
        "stopReason": "end_turn",
        "usage": { "totalTokens": 120, "inputTokens": 100, "cachedReadTokens": 50, "outputTokens": 20, "thoughtTokens": 7 },
        "_meta": { "quota": { "token_count": count, "model_usage": [{ "model": "gpt-6", "token_count": count }] } },
    });
    let delta = Chain::new("codex-acp").turn(answer).expect("a report");
    let tokens = Tokens { input: 50, cache_read: 50, output: 13, thought: 7, ..Tokens::default() };
    assert_eq!((delta.tokens, &delta.models), (Some(tokens), &vec![("gpt-6".to_owned(), tokens)]));
    assert_eq!(delta.tokens_certainty, Certainty::Exact);
}

#[test]
fn goose_and_opencode_report_the_last_call_which_is_a_lower_bound() {
    for agent in ["goose", "OpenCode"] {
        let mut chain = Chain::new(agent);
        assert_eq!(
            chain.update(json!({ "sessionUpdate": "usage_update", "used": 0, "size": 128000 })),
            None
        );
        assert_eq!(counted(chain.turn(usage(10, 9))), Some((19, Certainty::AtLeast)), "{agent}");
        assert_eq!(counted(chain.turn(usage(10, 9))), Some((19, Certainty::AtLeast)), "{agent}");
    }
    // OpenCode also reports costs: 0 for a model without a price.
    let mut chain = Chain::new("opencode");
    assert_eq!(spent(chain.cost(json!(0))), Some((0, Certainty::Exact)));
    assert_eq!(spent(chain.cost(json!(0.25))), Some((250_000, Certainty::Exact)));
}

#[test]
fn copilot_hermes_and_vibe_report_the_session_so_far() {
    for agent in ["GitHub Copilot", "hermes-agent", "mistral-vibe"] {
        let mut chain = Chain::new(agent);
        assert_eq!(counted(chain.turn(usage(10, 9))), Some((19, Certainty::Exact)), "{agent}");
        let second = chain.turn(usage(110, 29)).expect("a report");
        assert_eq!(second.tokens, Some(in_and_out(100, 20)), "{agent}");
        assert_eq!(second.reading.tokens, Some(in_and_out(110, 29)));
        assert_eq!(counted(chain.turn(usage(110, 29))), Some((0, Certainty::Exact)));
        // A smaller sum is a new start.
        assert_eq!(counted(chain.turn(usage(5, 5))), Some((10, Certainty::Exact)), "{agent}");
    }
}

#[test]
fn gemini_reports_its_quota_by_model() {
    let answer = json!({ "stopReason": "end_turn", "_meta": { "quota": {
        "token_count": { "input_tokens": 20, "output_tokens": 18 },
        "model_usage": [
            { "model": "gemini-3.1-pro-preview", "token_count": { "input_tokens": 10, "output_tokens": 9 } },
            { "model": "auto", "token_count": { "input_tokens": 10, "output_tokens": 9 } },
        ],
    } } });
    let mut chain = Chain::new("gemini-cli");
    let delta = chain.turn(answer).expect("a report");
    assert_eq!(delta.tokens, Some(in_and_out(20, 18)));
    assert_eq!(
        delta.models.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(),
        ["gemini-3.1-pro-preview", "auto"]
    );
    assert_eq!(chain.turn(json!({ "stopReason": "cancelled" })), None);
}

#[test]
fn qwen_reports_each_call_also_after_the_answer_but_not_while_it_loads() {
    let call = json!({
        "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "" },
        "_meta": { "usage": { "inputTokens": 100, "outputTokens": 50, "totalTokens": 175, "thoughtTokens": 25, "cachedReadTokens": 10 }, "durationMs": 12 },
    });
    let mut chain = Chain::new("Qwen Code");
    chain.prompt();
    let tokens = Tokens { input: 90, output: 50, thought: 25, cache_read: 10, ..Tokens::default() };
    let delta = chain.update(call.clone()).expect("a report");
    assert_eq!((delta.tokens, delta.tokens_certainty), (Some(tokens), Certainty::Exact));
    assert_eq!(chain.answer(json!({ "stopReason": "end_turn" })), None);
    assert_eq!(counted(chain.update(call.clone())), Some((175, Certainty::Exact)), "it is late");
    // The agent repeats the history of a session that it loads.
    chain.send("session/load", json!({ "sessionId": "s", "cwd": "/" }));
    assert_eq!(chain.update(call.clone()), None);
    assert_eq!(chain.answer(json!({})), None);
    assert_eq!(counted(chain.update(call)), Some((175, Certainty::Exact)));
    // Chunks of other agents with such members are not reports.
    let mut other = Chain::new("goose");
    let chunk = json!({ "sessionUpdate": "agent_message_chunk", "_meta": { "usage": { "totalTokens": 1 } } });
    assert_eq!(other.update(chunk), None);
}

#[test]
fn kimi_and_claude_code_report_nothing_and_more_than_that_is_a_guess() {
    for agent in ["kimi-code", "@zed-industries/claude-code-acp"] {
        let mut chain = Chain::new(agent);
        assert_eq!(chain.turn(json!({ "stopReason": "end_turn" })), None);
        assert_eq!(
            chain.update(json!({ "sessionUpdate": "usage_update", "used": 900, "size": 1000 })),
            None
        );
        assert_eq!(counted(chain.turn(usage(1, 2))), Some((3, Certainty::Guess)));
    }
}

#[test]
fn an_unknown_agent_is_read_as_the_turn_unless_the_user_knows_better() {
    let mut chain = Chain::new("my-agent");
    assert_eq!(counted(chain.turn(usage(1, 2))), Some((3, Certainty::Guess)));
    assert_eq!(counted(chain.turn(usage(1, 2))), Some((3, Certainty::Guess)));
    for (meaning, second) in [
        (Meaning::Turn, (3, Certainty::Exact)),
        (Meaning::Session, (0, Certainty::Exact)),
        (Meaning::Call, (3, Certainty::AtLeast)),
    ] {
        let meter = Meter::new(Some(meaning));
        meter.opened("s", Origin::New, None);
        let answer = Json::parse(usage(1, 2).to_string()).expect("JSON");
        meter.answer("s", &answer);
        assert_eq!(counted(meter.answer("s", &answer)), Some(second), "{meaning:?}");
    }
}

/// The sums of an earlier run come from the ledger of `budget`.
#[test]
fn in_a_loaded_session_only_what_is_new_counts() {
    let sum = |amount: f64| {
        let update = json!({ "sessionUpdate": "usage_update", "cost": { "amount": amount, "currency": "usd" } });
        Json::parse(json!({ "sessionId": "s", "update": update }).to_string()).expect("JSON")
    };
    // The sum of the earlier run is known.
    let meter = Meter::default();
    meter.loading("s");
    let reading = Reading { tokens: None, cost: [("USD".to_owned(), 5_000_000)].into() };
    meter.opened("s", Origin::Load, Some(reading));
    assert_eq!(spent(meter.update(&sum(5.5))), Some((500_000, Certainty::Exact)));
    // It is not known: an unknown part of the first report is old.
    let meter = Meter::default();
    meter.opened("s", Origin::Load, None);
    assert_eq!(spent(meter.update(&sum(5.5))), Some((0, Certainty::AtLeast)));
    assert_eq!(spent(meter.update(&sum(6.0))), Some((500_000, Certainty::Exact)));
    // The agent repeats the sum while it loads the session.
    let meter = Meter::default();
    meter.loading("s");
    assert_eq!(meter.update(&sum(5.5)), None);
    meter.opened("s", Origin::Load, None);
    assert_eq!(spent(meter.update(&sum(5.75))), Some((250_000, Certainty::Exact)));
}

#[test]
fn odd_reports_are_ignored() {
    let mut chain = Chain::new("my-agent");
    for amount in [json!(-1), json!("1"), json!(null)] {
        assert_eq!(chain.cost(amount.clone()), None, "{amount}");
    }
    for usage in [json!(null), json!([]), json!("many"), json!({}), json!({ "inputTokens": -1 })] {
        assert_eq!(
            chain.turn(json!({ "stopReason": "end_turn", "usage": usage })),
            None,
            "{usage}"
        );
    }
    let huge = json!({ "usage": { "totalTokens": u64::MAX, "inputTokens": u64::MAX, "outputTokens": u64::MAX } });
    assert_eq!(counted(chain.turn(huge)), Some((u64::MAX, Certainty::Guess)));
    // Only a total.
    let total = chain.turn(json!({ "usage": { "totalTokens": 7 } })).expect("a report");
    assert_eq!(total.tokens, Some(Tokens { other: 7, ..Tokens::default() }));
    // Currencies are not mixed, and their number is bounded.
    for number in 0..20 {
        let update = json!({ "sessionUpdate": "usage_update", "cost": { "amount": 1, "currency": format!("unit-{number}") } });
        assert_eq!(chain.update(update).is_some(), number < 8, "{number}");
    }
}

#[test]
fn the_memory_of_ten_thousand_sessions_is_bounded() {
    let meter = Meter::default();
    for number in 0..30_000 {
        meter.opened(&format!("s{number}"), Origin::New, None);
    }
    assert!(meter.session_count() <= crate::sessions::DEFAULT_LIMIT);
}
