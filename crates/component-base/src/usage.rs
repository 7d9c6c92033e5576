//! What the turns of an agent consume: tokens and money, read from the agent's messages.
//!
//! Agents differ in what they report, and in what the same member means. [`Reporting`] has the difference for each
//! agent that was measured. [`Meter`] reads the messages of a chain, and returns a [`Delta`] for each message that
//! reports consumption. `usage_update.used` is the size of the context, which is not consumption.

mod meter;
mod reports;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use clap::ValueEnum;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::agents::AgentKind;

pub use meter::{MessageMeter, Meter};

/// Numbers of tokens by kind. The kinds do not overlap: tokens from the cache are not in `input`, and thoughts are not
/// in `output`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Tokens {
    /// Tokens that the model has read, except for those from the cache.
    pub input: u64,
    /// Tokens that the model has written, except for its thoughts.
    pub output: u64,
    /// Tokens of the model's thoughts.
    #[serde(skip_serializing_if = "is_zero")]
    pub thought: u64,
    /// Tokens that the model has read from the cache.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_read: u64,
    /// Tokens that the model has written to the cache.
    #[serde(skip_serializing_if = "is_zero")]
    pub cache_write: u64,
    /// Tokens whose kind the agent does not report.
    #[serde(skip_serializing_if = "is_zero")]
    pub other: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref)] // the signature that serde needs
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Tokens {
    /// The sum of all kinds.
    pub fn total(&self) -> u64 {
        self.kinds().into_iter().fold(0, |sum, (_, number)| sum.saturating_add(number))
    }

    /// The numbers, with the names of their kinds.
    pub fn kinds(&self) -> [(&'static str, u64); 6] {
        [
            ("input", self.input),
            ("output", self.output),
            ("thought", self.thought),
            ("cache_read", self.cache_read),
            ("cache_write", self.cache_write),
            ("other", self.other),
        ]
    }

    /// Adds tokens.
    pub fn add(&mut self, more: &Tokens) {
        *self = self.combine(more, u64::saturating_add);
    }

    /// The difference to an earlier sum of the same session. An agent whose sum is smaller than before has started
    /// again from zero.
    pub fn since(&self, earlier: &Tokens) -> Tokens {
        if self.total() < earlier.total() {
            return *self;
        }
        let difference = self.combine(earlier, u64::saturating_sub);
        let total = self.total() - earlier.total();
        match difference.total() == total {
            true => difference,
            // Some kinds are fewer than before, so only the sum is certain.
            false => Tokens { other: total, ..Tokens::default() },
        }
    }

    fn combine(&self, with: &Tokens, by: impl Fn(u64, u64) -> u64) -> Tokens {
        Tokens {
            input: by(self.input, with.input),
            output: by(self.output, with.output),
            thought: by(self.thought, with.thought),
            cache_read: by(self.cache_read, with.cache_read),
            cache_write: by(self.cache_write, with.cache_write),
            other: by(self.other, with.other),
        }
    }
}

/// An amount of money in millionths of a unit of its currency.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cost {
    /// The currency, such as `USD`, or another unit, such as `credits`.
    pub currency: String,
    /// The amount.
    pub micros: u64,
}

/// How well a number is known. The order is from well to badly.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Certainty {
    /// The agent reports this number.
    #[default]
    Exact,
    /// The agent reports only a part, so it has consumed at least this.
    AtLeast,
    /// The agent is not known, so its report may mean something else.
    Guess,
}

impl Certainty {
    /// Its name, as in the ledger.
    pub fn name(self) -> &'static str {
        match self {
            Certainty::Exact => "exact",
            Certainty::AtLeast => "at-least",
            Certainty::Guess => "guess",
        }
    }
}

/// What a message reports as consumed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delta {
    /// The session. The consumption belongs to its current turn, or to its last one.
    pub session: String,
    /// The tokens. `None` if the message says nothing about tokens.
    pub tokens: Option<Tokens>,
    /// How well `tokens` is known.
    pub tokens_certainty: Certainty,
    /// The tokens by model, if the agent names the models.
    pub models: Vec<(String, Tokens)>,
    /// The cost. `None` if the message says nothing about costs.
    pub cost: Option<Cost>,
    /// How well `cost` is known.
    pub cost_certainty: Certainty,
    /// The sums of the session that the agent has reported so far.
    pub reading: Reading,
}

/// The sums of a session as an agent reports them. The next report is compared with them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Reading {
    /// The tokens of the session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// The cost of the session by currency, in millionths.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub cost: BTreeMap<String, u64>,
}

impl Reading {
    /// Whether the agent has reported no sums.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_none() && self.cost.is_empty()
    }
}

/// What the number of tokens at the end of a turn means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Meaning {
    /// The tokens of the turn.
    Turn,
    /// The tokens of the session so far.
    Session,
    /// The tokens of the last call of the model in the turn. The turn has consumed at least these.
    Call,
}

/// What an agent reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reporting {
    /// What the number of tokens at the end of a turn means. `None` if there is no such number.
    pub meaning: Option<Meaning>,
    /// Whether the agent reports the tokens of each call of the model in a `session/update`.
    pub calls: bool,
    /// Whether it reports costs. `None` if that is not known.
    pub cost: Option<bool>,
    /// Whether it names the models. `None` if that is not known.
    pub models: Option<bool>,
}

impl Reporting {
    /// What an agent was measured to report.
    pub fn of(agent: AgentKind) -> Reporting {
        let known = |meaning, cost, models| Reporting {
            meaning,
            calls: false,
            cost: Some(cost),
            models: Some(models),
        };
        match agent {
            AgentKind::ClaudeAgent => known(Some(Meaning::Turn), true, true),
            AgentKind::Codex | AgentKind::Gemini => known(Some(Meaning::Turn), false, true),
            AgentKind::OpenCode => known(Some(Meaning::Call), true, false),
            AgentKind::Goose => known(Some(Meaning::Call), false, false),
            AgentKind::Copilot | AgentKind::Hermes | AgentKind::Vibe => {
                known(Some(Meaning::Session), false, false)
            }
            AgentKind::Qwen => Reporting { calls: true, ..known(None, false, false) },
            AgentKind::Kimi | AgentKind::ClaudeCode => known(None, false, false),
            AgentKind::Other => {
                Reporting { meaning: Some(Meaning::Turn), calls: false, cost: None, models: None }
            }
        }
    }

    /// Whether the agent reports tokens.
    pub fn has_tokens(&self) -> bool {
        self.meaning.is_some() || self.calls
    }
}
