//! What turns show about the reports of an agent.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::entry::Entry;

/// How many currencies are remembered.
const MAX_CURRENCIES: usize = 8;

/// What turns show about the reports of an agent: the turns of a session, or those of this process.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Evidence {
    /// How many turns the agent has answered.
    pub answered: u64,
    /// How often it has reported tokens, also if there were none.
    pub reports: u64,
    /// Whether it has consumed tokens.
    pub has_consumed: bool,
    /// The currencies of its costs.
    pub currencies: BTreeSet<String>,
    /// How many of the last turns have consumed tokens at no cost.
    pub unpaid: u64,
    /// The model of the last report, if it has no price. Empty if the agent names no model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unpriced: Option<String>,
}

impl Evidence {
    /// The agent has reported consumption.
    pub fn add_report(&mut self, entry: &Entry) {
        if let Some(tokens) = &entry.tokens {
            self.reports = self.reports.saturating_add(1);
            self.has_consumed |= tokens.total() > 0;
        }
        if entry.priced || entry.unpriced.is_some() {
            self.unpriced.clone_from(&entry.unpriced);
        }
        if let Some(cost) = &entry.cost {
            if self.currencies.len() < MAX_CURRENCIES {
                self.currencies.insert(cost.currency.clone());
            }
            if cost.micros > 0 {
                self.unpaid = 0;
            }
        }
    }

    /// A turn has ended. `is_unpaid`: it has consumed tokens at no cost.
    pub fn end_turn(&mut self, why: &str, is_unpaid: bool) {
        if is_unpaid {
            self.unpaid = self.unpaid.saturating_add(1);
        }
        // Turns that failed or were cancelled show nothing.
        let is_answered = !matches!(why, "error" | "cancelled");
        self.answered = self.answered.saturating_add(u64::from(is_answered));
    }

    /// Adds the evidence of later turns.
    pub fn add(&mut self, later: &Evidence) {
        self.answered = self.answered.saturating_add(later.answered);
        self.reports = self.reports.saturating_add(later.reports);
        self.has_consumed |= later.has_consumed;
        let room = MAX_CURRENCIES.saturating_sub(self.currencies.len());
        self.currencies.extend(later.currencies.iter().take(room).cloned());
        (self.unpaid, self.unpriced) = (later.unpaid, later.unpriced.clone());
    }
}
