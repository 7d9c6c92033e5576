//! Reads what agents report: objects with numbers of tokens, and costs.

use acp_proxy::Json;
use serde_json::Value;

use super::{Cost, Tokens};

/// The maximum size of a report in bytes. A bigger one is ignored.
const MAX_REPORT: usize = 256 * 1024;

/// How many models of a report are read.
const MAX_MODELS: usize = 32;

/// The maximum length of the name of a model or currency.
const MAX_NAME: usize = 128;

/// The tokens of a turn, and the part of each model.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Report {
    pub(super) tokens: Tokens,
    pub(super) models: Vec<(String, Tokens)>,
}

/// Reads the end of a turn: the answer to a prompt, or an idle update of ACP version 2.
///
/// `usage` and `_meta.quota` may have different numbers: the usage of claude-agent-acp has only the main loop, and the
/// models in its quota also those of subagents and titles, which its costs include. The greater one counts.
pub(super) fn end_of_turn(end: &Json) -> Option<Report> {
    let usage = end.member("usage").and_then(|usage| tokens(&small(&usage)?));
    let quota = end.at(&["_meta", "quota"]).and_then(|quota| small(&quota));
    let count = quota.as_ref().and_then(|quota| tokens(quota.get("token_count")?));
    let models = quota.as_ref().map(models).unwrap_or_default();
    let mut sum = Tokens::default();
    models.iter().for_each(|(_, tokens)| sum.add(tokens));
    let by_model = (!models.is_empty()).then_some(sum);
    let greatest = [usage, count, by_model].into_iter().flatten().max_by_key(Tokens::total)?;
    Some(Report { tokens: greatest, models })
}

/// Reads the tokens of a call of the model in `_meta` of a message chunk.
pub(super) fn call_in_chunk(update: &Json) -> Option<Tokens> {
    tokens(&small(&update.at(&["_meta", "usage"])?)?)
}

/// Reads the cost of a `usage_update`: the sum of the session.
pub(super) fn cost(update: &Json) -> Option<Cost> {
    let cost = small(&update.member("cost")?)?;
    let currency = name(cost.get("currency")?)?;
    let amount =
        cost.get("amount")?.as_f64().filter(|amount| amount.is_finite() && *amount >= 0.0)?;
    let is_code = currency.len() == 3 && currency.bytes().all(|it| it.is_ascii_alphabetic());
    let currency = if is_code { currency.to_ascii_uppercase() } else { currency };
    Some(Cost { currency, micros: micros(amount) })
}

/// Millionths of an amount, rounded half up. Very large amounts become the largest number.
pub(crate) fn micros(amount: f64) -> u64 {
    // The conversion saturates.
    (amount * 1_000_000.0).round() as u64
}

fn small(json: &Json) -> Option<Value> {
    if !json.is_object() || json.as_bytes().len() > MAX_REPORT {
        return None;
    }
    serde_json::from_slice(json.as_bytes()).ok()
}

fn name(value: &Value) -> Option<String> {
    let text = value.as_str()?.trim();
    (!text.is_empty() && text.len() <= MAX_NAME).then(|| text.to_owned())
}

fn models(quota: &Value) -> Vec<(String, Tokens)> {
    let list = quota.get("model_usage").and_then(Value::as_array);
    let read =
        |entry: &Value| Some((name(entry.get("model")?)?, tokens(entry.get("token_count")?)?));
    list.into_iter().flatten().filter_map(read).take(MAX_MODELS).collect()
}

/// Reads an object with numbers of tokens. `None` if it has none.
fn tokens(report: &Value) -> Option<Tokens> {
    let number = |names: &[&str]| {
        let value = names.iter().find_map(|name| report.get(name))?;
        value.as_u64().or_else(|| value.as_f64().filter(|it| *it >= 0.0).map(|it| it as u64))
    };
    let total = number(&["totalTokens", "total_tokens"]);
    let input = number(&["inputTokens", "input_tokens"]);
    let output = number(&["outputTokens", "output_tokens"]);
    if total.is_none() && input.is_none() && output.is_none() {
        return None;
    }
    let reported = Tokens {
        input: input.unwrap_or(0),
        output: output.unwrap_or(0),
        thought: number(&["thoughtTokens", "reasoningOutputTokens", "thought_tokens"]).unwrap_or(0),
        cache_read: number(&["cachedReadTokens", "cachedInputTokens", "cached_read_tokens"])
            .unwrap_or(0),
        cache_write: number(&["cachedWriteTokens", "cached_write_tokens"]).unwrap_or(0),
        other: 0,
    };
    Some(without_overlap(reported, total))
}

/// Makes the kinds disjoint. Some agents count tokens from the cache also as input, and thoughts also as output. The
/// total tells which.
fn without_overlap(reported: Tokens, total: Option<u64>) -> Tokens {
    let Some(total) = total.filter(|total| *total != reported.total()) else { return reported };
    let cached = reported.cache_read.saturating_add(reported.cache_write);
    let without_cache = Tokens { input: reported.input.saturating_sub(cached), ..reported };
    let without_thoughts =
        Tokens { output: reported.output.saturating_sub(reported.thought), ..reported };
    let without_both = Tokens { output: without_thoughts.output, ..without_cache };
    let candidates = [without_cache, without_thoughts, without_both];
    match candidates.into_iter().find(|it| it.total() == total) {
        Some(tokens) => tokens,
        None => Tokens { other: total.saturating_sub(reported.total()), ..reported },
    }
}
