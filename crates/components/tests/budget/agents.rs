//! What different agents report, and agents that report too little.

use components::budget::report::{self, Days};
use serde_json::{Value, json};

use crate::chain::{Chain, DAY, Folder, noon};

fn prices(folder: &Folder, text: &str) -> String {
    let path = folder.path().join("prices.toml");
    std::fs::write(&path, text).expect("written");
    format!("--prices {}", path.display())
}

fn quota(model: &str, input: u64, output: u64) -> Value {
    let count = json!({ "input_tokens": input, "output_tokens": output });
    let models = [json!({ "model": model, "token_count": count })];
    json!({ "stopReason": "end_turn", "_meta": { "quota": { "token_count": count, "model_usage": models } } })
}

#[test]
fn a_money_budget_is_refused_at_the_start_if_the_agent_reports_neither_costs_nor_models() {
    for (agent, limit) in [
        ("goose", "cost_per_day"),
        ("codex-acp", "cost_per_day"),
        ("kimi-code", "cost_per_day"),
        ("claude-code-acp", "cost_per_day"),
    ] {
        let folder = Folder::new();
        let mut chain = Chain::without_session(&folder, "--cost-per-day 5", &noon());
        let answer = chain.initialize(1, agent);
        assert_eq!(answer["error"]["code"], -32603, "{answer}");
        let message = answer["error"]["message"].as_str().expect("a text");
        assert!(
            message.starts_with(&format!(
                "budget: the agent {agent} does not report what is needed for {limit}"
            )),
            "{message}"
        );
        assert!(message.contains("--prices") && message.contains("--uncounted allow"), "{message}");
    }
}

#[test]
fn tokens_are_counted_if_they_have_a_limit_and_costs_are_not_reported() {
    let folder = Folder::new();
    let mut chain = Chain::new(&folder, "--cost-per-day 5 --tokens-per-day 100", "goose");
    let notices = chain.turn("s", 100).notices;
    assert!(notices.contains("at least 100 of 100 tokens today"), "{notices}");
    assert_eq!(chain.refused("s")["data"]["budget"], "tokens_per_day");
}

#[test]
fn the_cost_of_a_model_is_calculated_with_the_prices_of_the_user() {
    let folder = Folder::new();
    let file = prices(&folder, "[model.\"gemini-3*\"]\ninput = 2\noutput = 10\n");
    let mut chain = Chain::new(&folder, &format!("--cost-per-day 1 {file}"), "gemini-cli");
    chain.turn_with("s", quota("gemini-3.1-pro", 200_000, 30_000));
    let spent = &folder.lines(DAY)[2];
    assert_eq!(spent["cost"], json!({ "currency": "USD", "micros": 700_000 }));
    assert_eq!((&spent["priced"], &spent["models"]), (&json!(true), &json!(["gemini-3.1-pro"])));
    chain.turn_with("s", quota("gemini-3.1-pro", 150_000, 0));
    let error = chain.refused("s");
    assert_eq!((&error["data"]["spent"], &error["data"]["limit"]), (&json!(1.0), &json!(1.0)));
    assert_eq!(error["data"]["unit"], "USD");
}

#[test]
fn a_model_without_a_price_stops_the_session() {
    let folder = Folder::new();
    let file = prices(&folder, "[model.\"gpt-6\"]\ninput = 2\noutput = 10\n");
    let mut chain = Chain::new(&folder, &format!("--cost-per-day 1 {file}"), "codex-acp");
    chain.turn_with("s", quota("gpt-7", 10, 1));
    let error = chain.refused("s");
    let message = error["message"].as_str().expect("a text");
    assert!(message.contains("uses the model gpt-7, which has no price"), "{message}");
    assert!(message.contains("add the model to the prices"), "{message}");
    // A restarted component reads that in the ledger.
    let mut chain = Chain::without_session(&folder, &format!("--cost-per-day 1 {file}"), &noon());
    chain.initialize(1, "codex-acp");
    chain.replay_session("s");
    chain.refused("s");
}

/// A turn of several models, with the tokens of each.
fn quotas(models: &[(&str, u64)]) -> Value {
    let count = |tokens: u64| json!({ "input_tokens": tokens, "output_tokens": 0 });
    let entry =
        |&(model, tokens): &(&str, u64)| json!({ "model": model, "token_count": count(tokens) });
    let all = count(models.iter().map(|(_, tokens)| tokens).sum());
    let models: Vec<Value> = models.iter().map(entry).collect();
    json!({ "stopReason": "end_turn", "_meta": { "quota": { "token_count": all, "model_usage": models } } })
}

#[test]
fn a_model_without_a_price_stops_a_session_that_has_costs() {
    let folder = Folder::new();
    let file = prices(&folder, "[model.\"gpt-6\"]\ninput = 2\noutput = 10\n");
    let options = format!("--cost-per-day 1 {file}");
    let mut chain = Chain::new(&folder, &options, "codex-acp");
    chain.turn_with("s", quota("gpt-6", 1000, 10));
    chain.turn_with("s", quotas(&[("gpt-6", 200_000), ("gpt-7", 5)]));
    let spent = folder.lines(DAY).into_iter().rfind(|it| it["event"] == "spent").expect("a line");
    assert_eq!(spent["cost"]["micros"], 400_000, "the model with a price is counted");
    assert_eq!((&spent["cost_is"], &spent["unpriced"]), (&json!("at-least"), &json!("gpt-7")));
    let message = chain.refused("s")["message"].to_string();
    assert!(message.contains("uses the model gpt-7, which has no price"), "{message}");
    // A new session does not help.
    chain.new_session("t");
    chain.refused("t");
    // Neither does a restart, until the model has a price.
    let mut chain = Chain::without_session(&folder, &options, &noon());
    chain.initialize(1, "codex-acp");
    chain.replay_session("s");
    chain.refused("s");
    let file = prices(&folder, "[model.\"gpt-*\"]\ninput = 2\noutput = 10\n");
    let mut chain = Chain::without_session(&folder, &format!("--cost-per-day 1 {file}"), &noon());
    chain.initialize(1, "codex-acp");
    chain.replay_session("s");
    chain.turn_with("s", quota("gpt-7", 10, 1));
}

#[test]
fn a_limit_of_tokens_holds_for_a_model_without_a_price_and_the_user_is_told_once() {
    let folder = Folder::new();
    let file = prices(&folder, "[model.\"gpt-6\"]\ninput = 2\noutput = 10\n");
    let options = format!("--cost-per-day 1 --tokens-per-day 100 {file}");
    let mut chain = Chain::new(&folder, &options, "codex-acp");
    let notices = chain.turn_with("s", quota("gpt-7", 10, 1)).notices;
    assert!(
        notices.contains("The model gpt-7 has no price: cost_per_day does not count it"),
        "{notices}"
    );
    assert_eq!(chain.turn_with("s", quota("gpt-7", 10, 1)).notices, "");
    chain.turn_with("s", quota("gpt-7", 80, 1));
    assert_eq!(chain.refused("s")["data"]["budget"], "tokens_per_day");
}

/// An agent reports the cost of the session before the answer to the prompt, or after it.
fn turn_with_cost(chain: &mut Chain, cost: f64, tokens: u64, is_late: bool) {
    chain.prompt("s");
    let prompt = chain.agent();
    if !is_late {
        chain.cost("s", cost);
    }
    let usage = json!({ "totalTokens": tokens, "inputTokens": tokens, "outputTokens": 0 });
    chain.agent_answers(&prompt, json!({ "stopReason": "end_turn", "usage": usage }));
    chain.rest_of_turn();
    if is_late {
        chain.cost("s", cost);
    }
}

#[test]
fn a_cost_of_zero_for_tokens_is_not_a_counted_cost() {
    for is_late in [false, true] {
        let folder = Folder::new();
        let mut chain = Chain::new(&folder, "--cost-per-day 1", "opencode");
        turn_with_cost(&mut chain, 0.5, 1_000_000, is_late);
        for _ in 0..3 {
            turn_with_cost(&mut chain, 0.5, 1_000_000, is_late);
        }
        let message = chain.refused("s")["message"].to_string();
        assert!(message.contains("reports tokens, but no cost for them"), "{message}");
        chain.new_session("t");
        chain.refused("t");
    }
}

#[test]
fn tokens_for_which_the_agent_reports_a_cost_of_zero_have_the_price_of_the_user() {
    for is_late in [false, true] {
        let folder = Folder::new();
        let file = prices(&folder, "[model.\"*\"]\ninput = 1\noutput = 1\n");
        let options = format!("--cost-per-day 1 {file}");
        let mut chain = Chain::new(&folder, &options, "opencode");
        turn_with_cost(&mut chain, 0.0, 200_000, is_late);
        // The agent knows the price of the next model.
        turn_with_cost(&mut chain, 0.25, 900_000, is_late);
        turn_with_cost(&mut chain, 0.25, 550_000, is_late);
        assert_eq!(chain.refused("s")["data"]["spent"], 1.0, "0.20 + 0.25 + 0.55");
    }
}

#[test]
fn a_model_that_is_free_has_the_price_zero() {
    let folder = Folder::new();
    let file = prices(&folder, "[model.\"*\"]\ninput = 0\noutput = 0\n");
    let options = format!("--cost-per-day 1 {file}");
    let mut chain = Chain::new(&folder, &options, "opencode");
    for _ in 0..5 {
        turn_with_cost(&mut chain, 0.0, 200_000, false);
    }
}

#[test]
fn an_agent_that_reports_nothing_gets_no_further_turn_in_a_new_session() {
    for end in ["end_turn", "max_tokens", "refusal"] {
        let folder = Folder::new();
        let mut chain = Chain::new(&folder, "--tokens-per-day 100", "my-agent");
        chain.turn_with("s", json!({ "stopReason": end }));
        chain.new_session("t");
        chain.refused("t");
    }
    let folder = Folder::new();
    let mut chain = Chain::new(&folder, "--tokens-per-day 100", "codex-acp");
    for session in ["s", "t", "u"] {
        chain.new_session(session);
        chain.turn_with(session, json!({ "stopReason": "end_turn" }));
    }
    chain.new_session("v");
    chain.refused("v");
}

#[test]
fn a_turn_that_fails_without_a_report_has_an_unknown_consumption() {
    let folder = Folder::new();
    let mut chain = Chain::new(&folder, "--tokens-per-day 100", "codex-acp");
    chain.turn("s", 10);
    chain.prompt("s");
    chain.fail();
    assert_eq!(chain.editor()["error"]["code"], -32603);
    chain.turn_with("s", json!({ "stopReason": "cancelled" }));
    let day = Days::One("2026-11-16".parse().expect("a day"));
    let days = report::read(folder.path(), day, None).expect("a ledger");
    let spent = &days[0].spent;
    assert_eq!((spent.turns, spent.unknown_turns), (1, 2));
    assert_eq!((spent.text.as_str(), &days[0].sessions[0].spent), ("at least 10 tokens", spent));
    let notices = chain.turn("s", 80).notices;
    assert!(notices.contains("at least 90 of 100 tokens today"), "{notices}");
}

#[test]
fn an_agent_that_names_no_model_needs_a_price_for_all() {
    let folder = Folder::new();
    let some = prices(&folder, "[model.\"gpt-6\"]\ninput = 2\noutput = 10\n");
    let mut chain = Chain::without_session(&folder, &format!("--cost-per-day 1 {some}"), &noon());
    assert_eq!(chain.initialize(1, "goose")["error"]["code"], -32603);
    let all = prices(&folder, "[model.\"*\"]\ninput = 5000\noutput = 5000\n");
    let mut chain = Chain::new(&folder, &format!("--cost-per-day 1 {all}"), "goose");
    chain.turn("s", 200);
    assert_eq!(folder.lines(DAY)[2]["cost_is"], "at-least");
    assert_eq!(chain.refused("s")["data"]["budget"], "cost_per_day");
}

#[test]
fn an_unknown_agent_that_reports_nothing_gets_one_turn() {
    let folder = Folder::new();
    let mut chain = Chain::new(&folder, "--tokens-per-day 100", "my-agent");
    chain.turn_with("s", json!({ "stopReason": "cancelled" }));
    chain.turn_with("s", json!({ "stopReason": "end_turn" }));
    let error = chain.refused("s");
    let message = error["message"].as_str().expect("a text");
    assert!(
        message.contains("the agent my-agent does not report what is needed for tokens_per_day"),
        "{message}"
    );
    // A restarted component reads that in the ledger.
    let mut chain = Chain::without_session(&folder, "--tokens-per-day 100", &noon());
    chain.initialize(1, "my-agent");
    chain.replay_session("s");
    chain.refused("s");
    // The user accepts it.
    let mut chain = Chain::new(&folder, "--tokens-per-day 100 --uncounted allow", "my-agent");
    for _ in 0..3 {
        chain.turn_with("s", json!({ "stopReason": "end_turn" }));
    }
    // Reports count as guesses.
    let mut chain = Chain::new(&folder, "--tokens-per-day 100", "my-agent");
    assert!(chain.turn("s", 90).notices.contains("about 90 of 100 tokens"));
    assert_eq!(folder.lines(DAY).last().expect("a line")["event"], "end");
}

#[test]
fn a_known_agent_that_has_stopped_to_report_gets_three_turns() {
    for (options, agent) in
        [("--tokens-per-day 100", "codex-acp"), ("--cost-per-day 5", "claude-agent-acp")]
    {
        let folder = Folder::new();
        let mut chain = Chain::new(&folder, options, agent);
        for _ in 0..3 {
            chain.turn_with("s", json!({ "stopReason": "end_turn" }));
        }
        chain.refused("s");
    }
    // Commands that consume nothing do not count.
    let folder = Folder::new();
    let mut chain = Chain::new(&folder, "--cost-per-day 5", "claude-agent-acp");
    for _ in 0..10 {
        chain.turn("s", 0);
    }
}

#[test]
fn a_long_session_id_does_not_evade_the_ledger() {
    let folder = Folder::new();
    let long = "s".repeat(100_000);
    let mut chain = Chain::new(&folder, "--tokens-per-session 10", "codex-acp");
    chain.new_session(&long);
    chain.turn(&long, 10);
    chain.refused(&long);
    let size = std::fs::metadata(folder.path().join(format!("{DAY}.jsonl"))).expect("a file").len();
    assert!(size < 2_000, "{size} bytes");
    let mut chain = Chain::without_session(&folder, "--tokens-per-session 10", &noon());
    chain.initialize(1, "codex-acp");
    chain.replay_session(&long);
    chain.refused(&long);
}

#[test]
fn the_user_can_say_what_an_unknown_agent_means() {
    let folder = Folder::new();
    let mut chain = Chain::new(&folder, "--tokens-per-day 100 --usage session", "my-agent");
    chain.turn("s", 40);
    chain.turn("s", 60);
    assert!(chain.turn("s", 90).notices.contains("90 of 100 tokens"), "the sum of the session");
}

#[test]
fn reports_after_the_end_of_a_turn_count_for_that_turn() {
    let folder = Folder::new();
    let mut chain = Chain::new(&folder, "--tokens-per-turn 100", "qwen-code");
    let call = json!({
        "sessionUpdate": "agent_message_chunk", "content": { "type": "text", "text": "" },
        "_meta": { "usage": { "inputTokens": 60, "outputTokens": 0, "totalTokens": 60 } },
    });
    chain.prompt("s");
    let prompt = chain.agent();
    chain.update("s", call.clone());
    chain.agent_answers(&prompt, json!({ "stopReason": "end_turn" }));
    chain.rest_of_turn();
    chain.update("s", call);
    let lines = folder.lines(DAY);
    assert_eq!(folder.events(DAY), ["day", "open", "spent", "end", "spent"]);
    assert_eq!((&lines[4]["late"], &lines[4]["turn"]), (&json!(true), &lines[1]["turn"]));
    assert_eq!(chain.refused("s")["data"]["spent"], 120);
}

#[test]
fn currencies_are_not_mixed() {
    let folder = Folder::new();
    let mut chain =
        Chain::new(&folder, "--cost-per-day 100_credits --tokens-per-day 1M", "my-agent");
    for (amount, currency) in [(99.0, "credits"), (500.0, "USD"), (99.5, "credits")] {
        let cost = json!({ "amount": amount, "currency": currency });
        chain.prompt("s");
        let prompt = chain.agent();
        chain.update(
            "s",
            json!({ "sessionUpdate": "usage_update", "used": 1, "size": 9, "cost": cost }),
        );
        chain.agent_answers(&prompt, json!({ "stopReason": "end_turn" }));
        chain.rest_of_turn();
    }
    let cost = json!({ "amount": 100, "currency": "credits" });
    chain.update(
        "s",
        json!({ "sessionUpdate": "usage_update", "used": 1, "size": 9, "cost": cost }),
    );
    assert_eq!(chain.refused("s")["data"]["unit"], "credits");
}

#[test]
fn a_limit_in_another_currency_than_the_agents_needs_prices() {
    let folder = Folder::new();
    let mut chain = Chain::without_session(&folder, "--cost-per-day 5_EUR", &noon());
    let answer = chain.initialize(1, "claude-agent-acp");
    assert_eq!(answer["error"]["code"], -32603, "{answer}");
    let file = prices(&folder, "currency = \"EUR\"\n[model.x]\ninput = 1\noutput = 1\n");
    let options = format!("--cost-per-day 5_EUR {file}");
    let mut chain = Chain::new(&folder, &options, "claude-agent-acp");
    chain.prompt("s");
    let prompt = chain.agent();
    chain.cost("s", 3.0);
    chain.agent_answers(&prompt, quota("x", 2_000_000, 3_000_000));
    chain.rest_of_turn();
    assert_eq!(chain.refused("s")["data"]["spent"], 5.0);
}

#[test]
fn many_reports_without_consumption_write_no_lines() {
    let folder = Folder::new();
    let mut chain = Chain::new(&folder, "--cost-per-day 5", "claude-agent-acp");
    chain.prompt("s");
    let prompt = chain.agent();
    for _ in 0..100 {
        chain.cost("s", 0.5);
    }
    chain.agent_answers(&prompt, json!({ "stopReason": "end_turn" }));
    chain.rest_of_turn();
    assert_eq!(folder.events(DAY), ["day", "open", "spent", "end"]);
}
